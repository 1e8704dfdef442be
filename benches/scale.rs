//! Measures what many hosts cost the launching side. The hosts do not exist: a thread of this process plays each of them (`tests/fake_node/`), so
//! that a thousand hosts fit on this machine. No data flows. The launching side reaches them by `--rsh` (word `rsh`); or they join (word `join`), all
//! at once, each as a process; or it reaches them by SSH (word `ssh`): then one real server answers for all of them after 100 ms, and the benchmark
//! must run in its own network namespace.
//!
//! ```sh
//! cargo bench --bench scale                  # 128, 256, 512 and 1,000 hosts, at most two minutes each, by `--rsh` and joining
//! cargo bench --bench scale -- 256 512 ring  # these numbers of hosts, in a ring
//! unshare --net sh -c 'ip link set lo up && cargo bench --bench scale -- ssh'  # as root
//! ```
//!
//! For each number, of three runs that with the median of CPU time, it shows CPU time and peak memory of the launching process, bytes that its hosts received, the time from the start until all hosts
//! are up and until the first may send, control messages of a second, and the size of the record; then the marks. With `ssh`, CPU time has that of
//! its children, which read the SSH configuration. It ends with status 1 if a mark is missed. A run is killed after two minutes, or when it takes
//! 6 GiB.

#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]

#[path = "../tests/fake_node/mod.rs"]
mod fake_node;

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use launcher::join::{JoinRequest, Token};
use nix::fcntl::OFlag;
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::{Pid, SysconfVar, pipe2, sysconf};
use tempfile::TempDir;

use fake_node::sshd::Sshd;
use fake_node::{FakeHosts, now_ns};

const PIPEBENCH: &str = env!("CARGO_BIN_EXE_pipebench");
const HOSTS: [usize; 4] = [128, 256, 512, 1000];
/// Runs of each: the one with the median of CPU time counts.
const RUNS: usize = 3;
/// A run is killed after this time, or at this peak of memory.
const LONGEST: Duration = Duration::from_secs(120);
const MOST_BYTES: u64 = 6 << 30;
/// Time after the first byte in which control messages are counted: the run does nothing else then.
const CONTROL_NS: Range<u64> = 1_000_000_000..3_000_000_000;
/// Interval of the looks at the launching process.
const LOOK: Duration = Duration::from_millis(20);

/// A way to the hosts.
#[derive(Clone, Copy, PartialEq)]
enum Way {
    Rsh,
    Join,
    Ssh,
}

/// A way, a pattern and its marks: most CPU time for twice as many hosts, in multiples, and most of each figure of 1,000 hosts.
struct Shape {
    word: &'static str,
    way: Way,
    pattern: &'static str,
    growth: f64,
    cpu_s: f64,
    memory_mb: Option<f64>,
    all_up_s: Option<f64>,
    first_byte_s: Option<f64>,
    control_mb_per_s: Option<f64>,
    record_mb: Option<f64>,
}

const MARKED_HOSTS: usize = 1000;
const RING: Shape = Shape {
    word: "ring",
    way: Way::Rsh,
    pattern: "ring",
    growth: 2.2,
    cpu_s: 2.0,
    memory_mb: Some(80.0),
    all_up_s: None,
    first_byte_s: Some(5.0),
    control_mb_per_s: Some(1.0),
    record_mb: None,
};
const SHAPES: [Shape; 4] = [
    RING,
    Shape {
        word: "join",
        way: Way::Join,
        ..RING
    },
    Shape {
        word: "all",
        way: Way::Rsh,
        pattern: "all-to-all",
        growth: 3.0,
        cpu_s: 10.0,
        memory_mb: Some(500.0),
        all_up_s: None,
        first_byte_s: None,
        control_mb_per_s: None,
        record_mb: Some(20.0),
    },
    Shape {
        word: "ssh",
        way: Way::Ssh,
        cpu_s: 40.0,
        memory_mb: None,
        all_up_s: Some(60.0),
        first_byte_s: None,
        ..RING
    },
];

/// What a run cost the launching side.
struct Cost {
    hosts: usize,
    cpu_s: f64,
    peak_bytes: u64,
    /// Bytes that the hosts received over their sessions.
    to_hosts_bytes: u64,
    all_up_s: Option<f64>,
    first_byte_s: Option<f64>,
    /// Bytes in both directions while data flows.
    control_bytes_per_s: Option<f64>,
    record_bytes: Option<u64>,
    whole_s: f64,
    /// Reason why the run is no measurement.
    failure: Option<String>,
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let [first, file, command @ ..] = words.as_slice()
        && first == JOIN_AS
    {
        return join(Path::new(file), command);
    }
    // `cargo test --benches` starts this too, but without `--bench`.
    if !words.iter().any(|word| word == "--bench") {
        println!("scale: nothing is measured by tests: run `cargo bench --bench scale`");
        return ExitCode::SUCCESS;
    }
    let mut hosts: Vec<usize> = words.iter().filter_map(|word| word.parse().ok()).collect();
    if hosts.is_empty() {
        hosts.extend(HOSTS);
    }
    hosts.sort_unstable();
    let has = |word: &str| words.iter().any(|one| one == word);
    let none = !SHAPES.iter().any(|shape| has(shape.word));
    // SSH needs a namespace, so that it must be named.
    let is_asked = |shape: &&Shape| match shape.way {
        _ if has(shape.word) => true,
        Way::Rsh => none || has("rsh"),
        Way::Join => none,
        Way::Ssh => false,
    };
    let shapes = SHAPES.iter().filter(is_asked);
    let missed: usize = shapes.map(|shape| compare(shape, &hosts)).sum();
    match missed {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}

/// Measures a shape with growing numbers of hosts, and prints its table and its marks. Returns the number of missed marks.
fn compare(shape: &Shape, all: &[usize]) -> usize {
    let by = match shape.way {
        Way::Rsh => "--rsh",
        Way::Join => "joining",
        Way::Ssh => "SSH",
    };
    println!("\n{}, 2 phases, {by}\n", shape.pattern);
    println!(
        "| hosts | CPU s | for 2N | memory MB | to hosts MB | all up s | first byte s | control MB/s | record MB | whole s | |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|---|");
    let mut costs: Vec<Cost> = Vec::new();
    let mut growths = Vec::new();
    for hosts in all {
        let mut runs: Vec<Cost> = (0..RUNS).map(|_| measure(shape, *hosts)).collect();
        runs.sort_by(|one, other| one.cpu_s.total_cmp(&other.cpu_s));
        let cost = runs.swap_remove(RUNS / 2);
        let growth = costs
            .last()
            .map(|before| (before.hosts, growth(before, &cost)));
        let shown = |figure: Option<f64>| figure.map_or("-".to_owned(), |one| format!("{one:.2}"));
        println!(
            "| {hosts} | {:.2} | {} | {:.0} | {:.1} | {} | {} | {} | {} | {:.1} | {} |",
            cost.cpu_s,
            shown(growth.and_then(|(_, growth)| growth)),
            mb(cost.peak_bytes),
            mb(cost.to_hosts_bytes),
            shown(cost.all_up_s),
            shown(cost.first_byte_s),
            shown(cost.control_bytes_per_s.map(|bytes| bytes / 1e6)),
            shown(cost.record_bytes.map(mb)),
            cost.whole_s,
            cost.failure.as_deref().unwrap_or_default(),
        );
        growths.extend(growth.map(|(from, growth)| (from, *hosts, growth)));
        costs.push(cost);
    }
    println!();
    let mut missed = 0;
    for cost in costs.iter().filter(|cost| cost.hosts == MARKED_HOSTS) {
        let memory_mb = mb(cost.peak_bytes);
        let record_mb = cost.record_bytes.map(mb);
        let control = cost.control_bytes_per_s.map(|bytes| bytes / 1e6);
        for (name, figure, most) in [
            ("CPU s", Some(cost.cpu_s), Some(shape.cpu_s)),
            ("memory MB", Some(memory_mb), shape.memory_mb),
            ("all up s", cost.all_up_s, shape.all_up_s),
            ("first byte s", cost.first_byte_s, shape.first_byte_s),
            ("control MB/s", control, shape.control_mb_per_s),
            ("record MB", record_mb, shape.record_mb),
        ] {
            let Some(most) = most else { continue };
            let figure = figure.filter(|_| cost.failure.is_none());
            let name = format!("{MARKED_HOSTS} hosts, {name}");
            missed += usize::from(is_missed(&name, figure, most));
        }
    }
    for (from, to, growth) in growths {
        let name = format!("{from} to {to} hosts, CPU time for 2N");
        missed += usize::from(is_missed(&name, growth, shape.growth));
    }
    missed
}

/// Growth of the CPU time for twice as many hosts, if both runs are measurements.
fn growth(before: &Cost, now: &Cost) -> Option<f64> {
    let doublings = (now.hosts as f64 / before.hosts as f64).log2();
    let whole = before.failure.is_none() && now.failure.is_none() && doublings > 0.0;
    whole.then(|| (now.cpu_s / before.cpu_s).powf(1.0 / doublings))
}

/// Prints a mark. Returns true if it is missed.
fn is_missed(name: &str, figure: Option<f64>, most: f64) -> bool {
    let missed = figure.is_none_or(|figure| figure > most);
    let word = if missed { "MISSED" } else { "reached" };
    let shown = figure.map_or("no measurement".to_owned(), |one| format!("{one:.2}"));
    println!("{word}: {name}: {shown}, at most {most}");
    missed
}

fn measure(shape: &Shape, hosts: usize) -> Cost {
    let fakes = FakeHosts::start(hosts, &[]);
    let server = (shape.way == Way::Ssh).then(|| Sshd::start(&fakes));
    let server = server.map(|server| server.unwrap_or_else(|why| panic!("ssh: {why}")));
    let folder = tempfile::tempdir().expect("a folder");
    let mut joiners = (shape.way == Way::Join).then(|| Joiners::start(&fakes, hosts, &folder));
    let words = match (&server, &joiners) {
        (Some(server), _) => server.words(),
        (None, Some(joiners)) => joiners.words.to_vec(),
        (None, None) => fakes.words().to_vec(),
    };
    let (record, errors) = (folder.path().join("record"), folder.path().join("errors"));
    let (began, began_ns) = (Instant::now(), now_ns());
    let mut child = Command::new(PIPEBENCH)
        .args(words)
        .args(["--pattern", shape.pattern, "--phases", "2"])
        .args(["--warmup", "500ms", "--time", "3s", "--json"])
        .arg(&record)
        .env_remove("SSH_AUTH_SOCK")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(File::create(&errors).expect("a file"))
        .spawn()
        .expect("pipebench starts");
    let pid = Pid::from_raw(i32::try_from(child.id()).expect("a process id"));
    // Its times are read while it is a zombie: they do not have those of its children, the shells.
    let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
    let (mut peak_bytes, mut failure) = (0, None);
    let mut control = Vec::new();
    while waitid(Id::Pid(pid), flags).expect("a child") == WaitStatus::StillAlive {
        peak_bytes = peak_of(pid).max(peak_bytes);
        if let Some(joiners) = &mut joiners {
            joiners.let_go();
        }
        if failure.is_none() && (began.elapsed() > LONGEST || peak_bytes > MOST_BYTES) {
            child.kill().expect("killed");
            let after_s = began.elapsed().as_secs();
            failure = Some(format!("killed after {after_s} s"));
        }
        let (at_ns, first_ns) = (now_ns(), fakes.first_byte_ns().unwrap_or(u64::MAX));
        if CONTROL_NS.contains(&at_ns.saturating_sub(first_ns)) {
            control.push((at_ns, fakes.received_bytes() + fakes.sent_bytes()));
        }
        std::thread::sleep(LOOK);
    }
    let whole_s = began.elapsed().as_secs_f64();
    let cpu_s = cpu_s_of(pid, shape.way == Way::Ssh);
    let status = child.wait().expect("a child");
    // A verdict is no failure: below 10 the run was measured.
    if failure.is_none() && status.code().is_none_or(|code| code >= 10) {
        let said = fs::read_to_string(&errors).unwrap_or_default();
        let last = said.lines().last().unwrap_or_default();
        failure = Some(format!("{status}: {last}"));
    }
    let since_start_s = |at_ns: u64| (at_ns - began_ns) as f64 / 1e9;
    Cost {
        hosts,
        cpu_s,
        peak_bytes,
        to_hosts_bytes: fakes.received_bytes(),
        all_up_s: fakes.all_up_ns().map(since_start_s),
        first_byte_s: fakes.first_byte_ns().map(since_start_s),
        control_bytes_per_s: per_second(&control),
        record_bytes: fs::metadata(&record).ok().map(|file| file.len()),
        whole_s,
        failure,
    }
}

/// Processes that join a run, each as one host.
struct Joiners {
    /// Arguments of pipebench that await them.
    words: [String; 7],
    token: PathBuf,
    /// They wait for the end of this pipe.
    gate: Option<OwnedFd>,
    processes: Vec<Child>,
}

/// First argument of this executable where it runs as a process that joins: the token file and the node's command follow.
const JOIN_AS: &str = "--join-as";
const JOIN_DEADLINE: Duration = Duration::from_secs(60);

impl Joiners {
    fn start(fakes: &FakeHosts, hosts: usize, folder: &TempDir) -> Self {
        let token = folder.path().join("token");
        let (wait, gate) = pipe2(OFlag::O_CLOEXEC).expect("a pipe");
        let own = std::env::current_exe().expect("a name");
        let start = |number: usize| {
            let name = format!("h{number}");
            Command::new(&own)
                .args([Path::new(JOIN_AS), &token])
                .args(fakes.joining(&name))
                .env("SLURMD_NODENAME", &name)
                .stdin(wait.try_clone().expect("a second descriptor"))
                .spawn()
                .expect("a process")
        };
        let named = format!("h[1-{hosts}]");
        let path = token.display().to_string();
        let count = hosts.to_string();
        let words = ["--hosts", &named, "--await", &count, "--listen=127.0.0.1:0"];
        let [a, b, c, d, e] = words.map(str::to_owned);
        Self {
            words: [a, b, c, d, e, "--token-file".to_owned(), path],
            gate: Some(gate),
            processes: (1..=hosts).map(start).collect(),
            token,
        }
    }

    /// Lets all of them go at once, when the run waits for them.
    fn let_go(&mut self) {
        if self.gate.is_some() && self.token.exists() {
            self.gate = None;
        }
    }
}

impl Drop for Joiners {
    fn drop(&mut self) {
        for process in &mut self.processes {
            process.kill().ok();
            process.wait().ok();
        }
    }
}

/// Joins with the token of this file, once standard input has ended.
fn join(file: &Path, command: &[String]) -> ExitCode {
    io::copy(&mut io::stdin(), &mut io::sink()).expect("a pipe");
    let Ok((token, addresses)) = Token::read(file) else {
        return ExitCode::FAILURE;
    };
    let request = JoinRequest {
        addresses,
        token,
        deadline: JOIN_DEADLINE,
        command: command.iter().map(OsString::from).collect(),
    };
    launcher::join::join(request).map_or(ExitCode::FAILURE, ExitCode::from)
}

/// Bytes per second between the first and the last of these times, if they are a second apart or more.
fn per_second(sums: &[(u64, u64)]) -> Option<f64> {
    let (&(from_ns, before), &(to_ns, after)) = (sums.first()?, sums.last()?);
    let seconds = (to_ns - from_ns) as f64 / 1e9;
    (seconds >= 1.0).then(|| (after - before) as f64 / seconds)
}

/// Peak memory of a process in bytes; 0 once it has ended.
fn peak_of(pid: Pid) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
    kib.map_or(0, |kib: u64| kib << 10)
}

/// CPU time of a process that is not reaped, in seconds, with or without the children that it has reaped.
fn cpu_s_of(pid: Pid, with_children: bool) -> f64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).expect("a process");
    let (_, fields) = stat.rsplit_once(')').expect("a name");
    // User and system time are fields 14 and 15 (proc_pid_stat(5)), those of children 16 and 17; the first one after the name is field 3.
    let count = if with_children { 4 } else { 2 };
    let ticks = fields.split_whitespace().skip(11).take(count);
    let ticks: f64 = ticks.map(|one| one.parse::<f64>().expect("a number")).sum();
    let per_s = sysconf(SysconfVar::CLK_TCK).expect("a known variable");
    ticks / per_s.expect("a number") as f64
}

fn mb(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}
