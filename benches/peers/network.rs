//! One run of a program in a private network.
//!
//! The network is a lab (tests/lab): its launching host alone for loopback, or test hosts on a bridge. Every process
//! there ends with the benchmark. An unreliable run returns the reason instead of a sample.

use std::cell::Cell;
use std::net::Ipv4Addr;
use std::thread::sleep;
use std::time::{Duration, Instant};

use pipebench::internals::record::{Record, TestRecord};
use pipebench::internals::report::json;

use super::cases::Case;
use super::lab::{Lab, LabOptions, Running};
use super::machine;
use super::meter::{Host, Meter};
use super::peers::{Pair, Way};
use super::table::Sample;

/// Congestion control of all programs.
pub const CONGESTION: &str = "reno";

const PIPEBENCH: &str = env!("CARGO_BIN_EXE_pipebench");

/// A lab with the hosts that a case needs.
pub struct Network {
    lab: Lab,
    case: Case,
    /// The hosts that carry streams.
    hosts: Vec<Host>,
    /// Next free port. It advances, so that no run finds sockets of the run before it on its ports.
    next_port: Cell<u16>,
}

impl Network {
    /// Builds the lab for a case.
    pub fn raise(case: &Case) -> Network {
        let lab = Lab::raise(LabOptions {
            hosts: if case.on_bridge { case.nodes } else { 0 },
            mbit: None,
            congestion: Some(CONGESTION),
            ..LabOptions::default()
        });
        let hosts = case.hosts().into_iter();
        Network {
            hosts: hosts.map(|number| Host::of(&lab, number)).collect(),
            lab,
            case: *case,
            next_port: Cell::new(PORTS.start),
        }
    }

    /// Runs pipebench with these additional arguments, and takes the figures from its record.
    pub fn run_pipebench(&self, words: &[&str], window: Duration) -> Result<Sample, String> {
        let hosts = if self.case.on_bridge {
            let names: Vec<String> = self.case.hosts().into_iter().map(Lab::name).collect();
            names.join(",")
        } else {
            format!("local:{}", self.case.nodes)
        };
        let (phases, time) = (
            self.case.phases.to_string(),
            format!("{}ms", window.as_millis()),
        );
        let mut argv = vec![PIPEBENCH, "--hosts", &hosts, "--phases", &phases];
        argv.extend([
            "--time", &time, "--warmup", "500ms", "--json", "-", "--quiet",
        ]);
        argv.extend(words);
        let mut running = self.lab.spawn(0, &argv);
        if !within(DEADLINE + window, || !running.is_running()) {
            return Err(format!("does not end: {}", said_by(&[running])));
        }
        let finished = running.finish(DEADLINE);
        let record = json::read(&finished.stdout).map_err(|why| {
            let said = finished.stderr.lines().next().unwrap_or("nothing said");
            format!("{why}: {said}")
        })?;
        sample_of(&record, self.case.links())?.within_cores(machine::cores())
    }

    /// Runs a peer, and reads the counters at both edges of a window in which all streams are live.
    pub fn run_peer(&self, way: &Way, window: Duration) -> Result<Sample, String> {
        let pairs = way.pairs(&self.case.routes(), self.next_port.get());
        self.advance_ports(pairs.len() * usize::from(way.ports()));
        let sample = self.measure(way, &pairs, window);
        // The processes of this run have been killed by now; the next run waits until they are gone.
        let gone = within(DEADLINE, || {
            let left = |host: &Host| self.lab.survivors(host.number, way.tool.name());
            self.hosts.iter().all(|host| left(host).is_empty())
        });
        let sample = sample?.within_cores(machine::cores())?;
        if gone {
            Ok(sample)
        } else {
            Err("the peer does not end when it is killed".to_owned())
        }
    }

    fn measure(&self, way: &Way, pairs: &[Pair], window: Duration) -> Result<Sample, String> {
        let cores = machine::cores();
        let servers = self.start(pairs, |pair| (pair.to, way.server(pair, cores)));
        if !within(DEADLINE, || self.all_listen(way, pairs)) {
            return Err(format!("servers do not listen: {}", said_by(&servers)));
        }
        let clients = self.start(pairs, |pair| {
            let address = self.address(pair);
            (pair.from, way.client(pair, address, cores))
        });
        let live = || self.all_live(way, pairs);
        if !within(DEADLINE, live) {
            return Err(format!("streams are missing: {}", said_by(&clients)));
        }
        sleep(WARMUP);
        let meter = Meter::find(&self.lab, &self.hosts, way.tool.name());
        let before = meter.read()?;
        sleep(window);
        let after = meter.read()?;
        if !live() {
            return Err(format!("streams ended early: {}", said_by(&clients)));
        }
        after.since(&before)
    }

    /// Starts all commands with one shell for each host.
    fn start(&self, pairs: &[Pair], line: impl Fn(&Pair) -> (usize, String)) -> Vec<Running> {
        let mut running = Vec::new();
        for host in self.hosts.iter().map(|host| host.number) {
            let lines = pairs.iter().map(&line).filter(|(at, _)| *at == host);
            let script: String = lines
                .map(|(_, line)| format!("{line} >/dev/null & "))
                .collect();
            let script = format!("PATH={}; {script}wait", machine::search_path());
            running.push(self.lab.spawn(host, &["sh", "-c", &script]));
        }
        running
    }

    fn all_listen(&self, way: &Way, pairs: &[Pair]) -> bool {
        self.hosts.iter().all(|host| {
            let sockets = host.sockets();
            let mut own = pairs.iter().filter(|pair| pair.to == host.number);
            own.all(|pair| {
                let of_port = sockets.get(&way.waits_on(pair));
                of_port.is_some_and(|of_port| of_port.listening > 0)
            })
        })
    }

    /// True if every stream has its connection at its server.
    fn all_live(&self, way: &Way, pairs: &[Pair]) -> bool {
        self.hosts.iter().all(|host| {
            let sockets = host.sockets();
            let mut own = pairs.iter().filter(|pair| pair.to == host.number);
            own.all(|pair| {
                let of_port = sockets.get(&pair.port);
                let count = of_port.map_or(0, |of_port| of_port.established);
                count == way.connections(pair)
            })
        })
    }

    /// Address of the pair's server. A host reaches itself through its own loopback.
    fn address(&self, pair: &Pair) -> Ipv4Addr {
        if pair.from == pair.to {
            Ipv4Addr::LOCALHOST
        } else {
            self.lab.address(pair.to)
        }
    }

    fn advance_ports(&self, count: usize) {
        let count = u16::try_from(count).expect("far fewer pairs than ports");
        let next = self.next_port.get() + count;
        // Always leaves enough ports for the next run of any case.
        let left = PORTS.end - next;
        self.next_port
            .set(if left < 1000 { PORTS.start } else { next });
    }
}

/// Figures of a run, or the reason to reject it.
fn sample_of(record: &Record, links: usize) -> Result<Sample, String> {
    if record.exit_code != 0 {
        let first = record.troubles.first();
        return Err(format!("exit code {}: {first:?}", record.exit_code));
    }
    let test: &TestRecord = record.tests().first().ok_or("no test in the record")?;
    if !test.complete || test.links.len() != links {
        return Err(format!("{} links instead of {links}", test.links.len()));
    }
    let bytes: u64 = test.links.iter().map(|link| link.interval_bytes).sum();
    // Bytes per nanosecond are GB/s.
    let rates = test
        .links
        .iter()
        .map(|link| link.interval_bytes as f64 / link.interval_ns.max(1) as f64);
    let spent = test.nodes.iter().flatten().map(|node| {
        let cpu = &node.cpu;
        cpu.senders_ns + cpu.receivers_ns + cpu.phases_ns + cpu.node_ns
    });
    Ok(Sample {
        gb_per_s: rates.sum(),
        cpu_s_per_gb: spent.sum::<u64>() as f64 / bytes.max(1) as f64,
    })
}

/// First line of error output that any of these processes wrote.
fn said_by(running: &[Running]) -> String {
    let outputs = running.iter().map(|one| one.output().1);
    outputs
        .filter_map(|text| text.lines().next().map(str::to_owned))
        .next()
        .unwrap_or_else(|| "nothing was said".to_owned())
}

/// Repeats the question until it is true; false at the deadline.
fn within(deadline: Duration, mut asked: impl FnMut() -> bool) -> bool {
    let ends = Instant::now() + deadline;
    while !asked() {
        if Instant::now() >= ends {
            return false;
        }
        sleep(PAUSE);
    }
    true
}

/// Ports below the range that the kernel gives to clients.
const PORTS: std::ops::Range<u16> = 10_000..30_000;
const WARMUP: Duration = Duration::from_secs(1);
const DEADLINE: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(20);
