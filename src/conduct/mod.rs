//! The launching side of a run: start the nodes, agree on addresses and clocks, go, watch, collect.
//!
//! Everything here waits with a deadline and looks up twenty times a second. What was measured until
//! something fails is in the record. Read next: [`crew`] for the nodes as seen from here, [`assemble`] for
//! how reports become a record, [`visit`] for looking at the runs of others.

mod addresses;
mod agenda;
pub mod assemble;
mod crew;
mod findings;
mod heartbeat;
mod latency;
mod patterns;
mod pulse;
mod ranks;
mod visit;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use launcher::Program;
use launcher::hosts::Host;

use crate::exit;
use crate::judge::confirm::Request;
use crate::judge::{cables, order, verdict};
use crate::plan::fit::{self, Capacity};
use crate::plan::imb::{Imb, Table};
use crate::plan::{Assignment, Bound, DataNetwork, RunPlan, Sink, Test, job, kind_of, lanes, size};
use crate::record::{
    self, HostRecord, ImbRecord, LatencyRecord, LineRecord, LinktestRecord, Missing, PairTime,
    RECORD_VERSION, Record, Resumed, RoundProgress, Second, TestRecord, Trouble, TroubleKind,
};
use crate::stats::offset::Offset;
use crate::sys::{clock, facts};
use crate::wire::message::{AddressBook, Go, Listener, ToNode};

use crew::{Crew, Halt};
pub use findings::{errors_of, proof_text, values_of};
pub use latency::size_of;
pub use pulse::LinkSample;

pub use visit::Visit;

/// Whoever watches a run: the terminal, or a page.
pub trait Observer {
    /// Something that should be seen once, such as another transport for a host.
    fn notice(&mut self, text: &str);
    /// A stage has begun.
    fn stage(&mut self, text: &str);
    /// A test of several has begun, `number` from 1.
    fn test(&mut self, _number: usize, _of: usize, _test: &Test) {}
    /// A test has come to its end.
    fn tested(&mut self, _test: &TestRecord) {}
    /// All nodes have said who they are.
    fn hosts(&mut self, plan: &RunPlan, hosts: &[HostRecord], options: &[(String, String)]);
    /// One more second of a test has passed.
    fn second(&mut self, test: &Test, second: &Second);
    /// A round of a link test has begun.
    fn round(&mut self, _linktest: &job::Linktest, _progress: &RoundProgress) {}
    /// All links of a step of a link test were measured.
    fn step(&mut self, _linktest: &job::Linktest, _progress: &RoundProgress, _times: &[PairTime]) {}
    /// A table of patterns begins.
    fn table(&mut self, _imb: &Imb, _table: &Table) {}
    /// All ranks have measured a line of it.
    fn line(&mut self, _imb: &Imb, _table: &Table, _line: &LineRecord) {}
    /// What every link received in that second, if samples are wanted.
    fn samples(&mut self, _samples: &[LinkSample]) {}
    /// The run stands still at a stage until standard input says go on.
    fn held(&mut self, at: Hold);
}

/// What a run needs besides its plan.
pub struct Conditions {
    /// How sessions are made.
    pub settings: launcher::Settings,
    /// The executable that runs everywhere.
    pub program: Program,
    /// Set to the number of the signal that asks for the end.
    pub stop: Arc<AtomicUsize>,
    /// Arguments as they were given, for the record.
    pub command: Vec<String>,
    /// Options in effect, for the record and for the eyes.
    pub options: Vec<(String, String)>,
    /// Stand still there.
    pub hold: Option<Hold>,
    /// Name of the run, of [`random_token`].
    pub token: String,
    /// Start of the run, milliseconds since 1970.
    pub started_ms: u64,
    /// What was settled before the start.
    pub seal: Option<String>,
    /// What is taken over from a run that broke off.
    pub resumed: Option<Resumed>,
}

/// Where a run can be made to stand still, for tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hold {
    /// All nodes have said who they are.
    Hello,
    /// All processes are there and listen; nobody connects.
    Fork,
    /// All links stand.
    Go,
    /// All nodes have reported and were not let go.
    Collect,
}

impl Hold {
    /// All of them, with their names.
    pub const NAMES: [(&'static str, Self); 4] = [
        ("hello", Self::Hello),
        ("fork", Self::Fork),
        ("go", Self::Go),
        ("collect", Self::Collect),
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        let known = Self::NAMES.iter().find(|(_, hold)| *hold == self);
        known.map_or("", |(name, _)| name)
    }
}

/// Conducts a run from the first connection to the record. Whatever fails is in the record.
pub fn conduct(
    plan: RunPlan,
    hosts: &[Host],
    conditions: &Conditions,
    observer: &mut dyn Observer,
) -> Record {
    let token = conditions.token.clone();
    let taken_over = conditions.resumed.as_ref();
    let tests = taken_over
        .map(|resumed| resumed.tests.clone())
        .unwrap_or_default();
    let mut crew = Crew::start(&plan, hosts, conditions);
    let mut run = Running {
        plan,
        token: &token,
        started_ms: conditions.started_ms,
        began_ns: clock::monotonic_ns(),
        conditions,
        observer,
        options: conditions.options.clone(),
        hosts: Vec::new(),
        first: tests.len(),
        tests,
        jobs: Vec::new(),
        latencies: Vec::new(),
        patterns: Vec::new(),
        missing: Vec::new(),
        order: Vec::new(),
        asked: Vec::new(),
    };
    let outcome = run.all_tests(&mut crew);
    let outcome = outcome.and_then(|()| run.all_jobs(&mut crew));
    if let Err(halt) = outcome {
        crew.note(halt);
    }
    let Running {
        plan,
        options,
        hosts: host_records,
        tests,
        jobs,
        latencies,
        patterns,
        mut missing,
        order,
        ..
    } = run;
    missing.extend(crew.lost().cloned());
    let (mut troubles, notices) = crew.dismiss();
    record::rank(&mut troubles);
    let signal = i32::try_from(conditions.stop.load(Ordering::SeqCst))
        .ok()
        .filter(|signal| *signal > 0);
    let broken = tests.iter().any(|test| !test.complete)
        || jobs.iter().any(|job| !job.complete)
        || latencies.iter().any(|job| !job.complete)
        || patterns.iter().any(|job| !job.complete);
    if broken && troubles.is_empty() {
        let what = "a run broke off and nobody said why";
        troubles.push(Trouble::own(TroubleKind::Bug, what));
    }
    let invalid = tests
        .iter()
        .find(|test| test.complete && !test.conservation.faults.is_empty());
    if let (Some(test), true) = (invalid, troubles.is_empty()) {
        let what = format!("bytes do not add up: {}", test.conservation.faults[0]);
        troubles.push(Trouble::own(TroubleKind::Invalid, what));
    }
    let mut judgement = verdict::judge(&plan, &host_records, &tests, &jobs);
    if !jobs.is_empty() && !judgement.open.is_empty() {
        agenda::leave_open(&mut judgement.verdict);
    }
    let mut sheet = judgement.sheet;
    sheet.order = order;
    let verdict = match (troubles.first(), sheet.order.first()) {
        (Some(first), _) => agenda::broken_by(first, &host_records, &tests),
        (None, Some(first)) => agenda::not_as_ordered(first, sheet.order.len()),
        (None, None) => match latencies.last() {
            Some(latency) => cables::verdict(latency),
            None if !patterns.is_empty() => agenda::only_told(&patterns),
            None => judgement.verdict,
        },
    };
    Record {
        version: RECORD_VERSION,
        token,
        tool_version: env!("CARGO_PKG_VERSION").to_owned(),
        tool_digest: conditions.program.digest.clone(),
        command: conditions.command.clone(),
        started_ms: conditions.started_ms,
        options,
        hosts: host_records,
        tests,
        jobs,
        latencies,
        patterns,
        exit_code: match troubles.is_empty() {
            true => exit::of_verdict(verdict.word),
            false => exit::of(&troubles, signal),
        },
        verdict,
        sheet,
        missing,
        troubles,
        notices,
        plan,
        seal: conditions.seal.clone(),
        resumed: taken_over.map(|resumed| resumed.run.clone()),
    }
}

/// 128 bits from the kernel, as hexadecimal digits.
pub fn random_token() -> String {
    use std::io::Read;
    let mut bytes = [0; 16];
    let read = std::fs::File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut bytes));
    if read.is_err() {
        // Without the kernel's random numbers the token still tells runs apart.
        let unique = u128::from(clock::monotonic_ns()) << 32 | u128::from(std::process::id());
        bytes = unique.to_le_bytes();
    }
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

struct Running<'a> {
    /// Without the nodes that are missing from its start.
    plan: RunPlan,
    token: &'a str,
    started_ms: u64,
    /// The same instant on the own monotonic clock.
    began_ns: u64,
    conditions: &'a Conditions,
    observer: &'a mut dyn Observer,
    /// In effect, as far as everything is settled.
    options: Vec<(String, String)>,
    hosts: Vec<HostRecord>,
    /// The test it begins with.
    first: usize,
    tests: Vec<TestRecord>,
    jobs: Vec<LinktestRecord>,
    latencies: Vec<LatencyRecord>,
    patterns: Vec<ImbRecord>,
    missing: Vec<Missing>,
    /// Ports that are not as ordered.
    order: Vec<String>,
    /// What the judge asked for last.
    asked: Vec<Request>,
}

impl Running<'_> {
    fn all_tests(&mut self, crew: &mut Crew) -> Result<(), Halt> {
        let launched = crew.await_hellos(self.observer);
        self.hosts = crew.host_records();
        if let Err(halt) = launched {
            self.leave_behind(crew, halt)?;
        }
        let mut number = self.first;
        if number > 0 {
            // Tests that were taken over are judged by the ports that they used.
            self.choose_ports(crew, number - 1)?;
        }
        while number < self.plan.tests.len() || self.looks_again(crew) {
            if !self.is_possible(crew, number)? {
                continue;
            }
            let outcome = self.one_test(crew, number);
            if let Err(halt) = outcome {
                crew.note(halt);
                if crew.has_begun() {
                    // Whatever was measured until now belongs into the record.
                    crew.gather_reports();
                    let offsets = crew.offsets();
                    self.tests.push(assemble::test(
                        &self.plan,
                        number,
                        &self.hosts,
                        crew,
                        &offsets,
                        &offsets,
                    ));
                }
                return Err(Halt::Noted);
            }
            if !self.order.is_empty() {
                return Ok(()); // Nothing flows through ports that are not as ordered.
            }
            number += 1;
        }
        Ok(())
    }

    fn tell_notices(&mut self, crew: &mut Crew) {
        for notice in crew.take_notices() {
            self.observer.notice(&notice);
        }
    }

    /// Tells a stage, and of which test where there are several.
    fn stage(&mut self, number: usize, text: &str) {
        let tests = &self.plan.tests;
        match tests.len() {
            1 => self.observer.stage(text),
            all => self.observer.stage(&format!(
                "test {} of {all}, {}: {text}",
                number + 1,
                tests[number].pattern
            )),
        }
    }

    /// Goes on without the nodes that have failed until now, if that was asked for and enough are left.
    fn leave_behind(&mut self, crew: &mut Crew, halt: Halt) -> Result<(), Halt> {
        crew.note(halt);
        if self.first > 0 {
            return Err(Halt::Noted); // Tests that were taken over know all nodes by their numbers.
        }
        let left = crew.leave_behind().ok_or(Halt::Noted)?;
        self.tell_notices(crew);
        let labels: Vec<&str> = left.iter().map(|missing| missing.node.as_str()).collect();
        self.plan.leave_out(&labels);
        if self.plan.tests.is_empty() && self.plan.jobs.is_empty() {
            let what = "no test can be run by the hosts that are left";
            return Err(Halt::Trouble(Box::new(Trouble::own(
                TroubleKind::Usage,
                what,
            ))));
        }
        self.hosts = crew.host_records();
        self.missing.extend(left);
        Ok(())
    }

    fn one_test(&mut self, crew: &mut Crew, number: usize) -> Result<(), Halt> {
        if self.plan.tests.len() > 1 {
            let all = self.plan.tests.len();
            self.observer
                .test(number + 1, all, &self.plan.tests[number]);
        }
        let (test, before) = loop {
            self.leave_out_lost(crew, number)?;
            let test = self.settle(crew, number);
            match self.set_up(crew, number, &test) {
                Ok(offsets) => break (test, offsets),
                Err(halt) if number == self.first => self.leave_behind(crew, halt)?,
                // Nodes stand in the records of earlier tests: they stay, and rest.
                Err(halt) => {
                    crew.note(halt);
                    if !crew.set_aside() {
                        return Err(Halt::Noted);
                    }
                }
            }
        };
        if !self.order.is_empty() {
            return Ok(());
        }
        self.go(crew, number, &test, &before)?;
        self.watch(crew, &test)?;
        self.hold(crew, Hold::Collect)?;
        let after = crew.measure_offsets()?;
        let mut record = assemble::test(&self.plan, number, &self.hosts, crew, &before, &after);
        // Without the series the record is whole all the same.
        if let Ok(series) = crew.fetch_series(&pulse::worst_links(&self.plan, &record)) {
            record.worst_links = series;
        }
        self.observer.tested(&record);
        self.tests.push(record);
        Ok(())
    }

    /// Settles what nobody asked for by what the hosts have.
    fn settle(&mut self, crew: &mut Crew, number: usize) -> Test {
        if self.hosts.iter().any(|host| host.rails.is_empty()) {
            // How many connections a port wants depends on which it is. What fails here fails again where it is told.
            match self.choose_ports(crew, number) {
                Ok(()) | Err(_) => {}
            }
        }
        let firsts = self.hosts.iter().enumerate();
        let firsts = firsts.filter(|(node, host)| host.host_index == *node);
        let on_host = |first| {
            let same = |host: &&HostRecord| host.host_index == first;
            self.hosts.iter().filter(same).count()
        };
        let capacities: Vec<Capacity> = firsts
            .map(|(node, host)| Capacity {
                name: host.facts.hostname.clone(),
                nodes: on_host(node),
                processors: Some(host.facts.cores),
                memory_bytes: host.facts.spare_memory_bytes,
                flows: flows_of(host),
            })
            .collect();
        let test = &mut self.plan.tests[number];
        let streams = test.streams;
        if let Some(note) = fit::settle(test, self.hosts.len(), &capacities) {
            crew.notice(&note);
        }
        if test.streams > streams {
            let each = test.streams / test.rails.max(1);
            crew.notice(&format!(
                "{each} links per pair, so that each port has the connections it takes to fill it (--streams 1 keeps one)"
            ));
            let known = self.options.iter_mut().find(|(name, _)| name == "streams");
            if let (Some((_, value)), true) = (known, number == self.first) {
                *value = each.to_string();
            }
        }
        fit::renew_options(&mut self.options, test);
        let test = test.clone();
        self.tell_notices(crew);
        test
    }

    /// Everything up to the moment at which data can flow; the clocks' offsets.
    fn set_up(&mut self, crew: &mut Crew, number: usize, test: &Test) -> Result<Vec<Offset>, Halt> {
        self.hold(crew, Hold::Hello)?;
        self.choose_ports(crew, number)?;
        if number == self.first {
            self.order = order::check(&self.plan, &self.hosts);
        }
        if !self.order.is_empty() {
            self.observer.hosts(&self.plan, &self.hosts, &self.options);
            return Ok(Vec::new());
        }
        self.prepare(crew, number, test)?;
        if number == self.first {
            self.observer.hosts(&self.plan, &self.hosts, &self.options);
        }
        self.hold(crew, Hold::Fork)?;
        self.connect(crew, number, test)?;
        self.hold(crew, Hold::Go)?;
        crew.measure_offsets()
    }

    /// Chooses the data address of each rail of each node.
    fn choose_ports(&mut self, crew: &Crew, number: usize) -> Result<(), Halt> {
        let test = &self.plan.tests[number];
        self.choose_addresses(crew, &test.network.clone(), test.rails)
    }

    fn choose_addresses(
        &mut self,
        crew: &Crew,
        network: &DataNetwork,
        rails: usize,
    ) -> Result<(), Halt> {
        let chosen = addresses::choose(&self.plan.nodes, network, rails, &crew.seen_hosts())
            .map_err(|trouble| Halt::Trouble(Box::new(trouble)))?;
        for (host, rails) in self.hosts.iter_mut().zip(chosen) {
            host.rails = rails;
        }
        Ok(())
    }

    fn prepare(&mut self, crew: &mut Crew, number: usize, test: &Test) -> Result<(), Halt> {
        self.check_files(test)?;
        let labels: Vec<String> = self
            .plan
            .nodes
            .iter()
            .map(|node| node.label.clone())
            .collect();
        for node in 0..self.hosts.len() {
            let identity = &self.hosts[node].facts.identity;
            let same_host: Vec<bool> = self
                .hosts
                .iter()
                .map(|host| host.facts.identity == *identity)
                .collect();
            let assignment = Assignment {
                token: self.token.to_owned(),
                by: facts::own_name(),
                started_ms: self.started_ms,
                node,
                labels: labels.clone(),
                nodes_on_host: same_host.iter().filter(|same| **same).count(),
                same_host,
                rails: self.hosts[node].rails.clone(),
                test: test.clone(),
                deadlines: self.plan.deadlines.clone(),
                seed: self.plan.seed,
                keep_going: self.plan.keep_going,
                samples: self.plan.samples,
            };
            if !crew.is_lost(node) {
                crew.send(node, &ToNode::Prepare(Box::new(assignment)));
            }
        }
        let first = &self.hosts[0].facts.identity;
        let crosses = self.hosts.iter().any(|host| host.facts.identity != *first);
        crew.begin(number, test, crosses);
        self.stage(number, "preparing");
        crew.await_all(
            "make its processes",
            self.plan.deadlines.prepare_ms,
            |member| member.listeners.is_some(),
        )
    }

    /// Nodes of one host must not write one file.
    fn check_files(&self, test: &Test) -> Result<(), Halt> {
        let Sink::File(pattern) = &test.sink else {
            return Ok(());
        };
        let shared = self
            .hosts
            .iter()
            .enumerate()
            .find(|(node, host)| host.host_index != *node);
        match shared {
            Some((node, host)) if !pattern.contains("%n") => {
                let first = &self.hosts[host.host_index].node;
                let what = format!(
                    "would write sink {pattern} on the same host as {first} (put %n, the node's label, into the name)"
                );
                Err(Halt::Trouble(Box::new(Trouble {
                    node: self.hosts[node].node.clone(),
                    ..Trouble::own(TroubleKind::Usage, what)
                })))
            }
            _ => Ok(()),
        }
    }

    fn connect(&mut self, crew: &mut Crew, number: usize, test: &Test) -> Result<(), Halt> {
        let nodes = self.plan.nodes.len();
        let of = |boundary: usize, node: usize| -> Listener {
            crew.listeners(node)
                .and_then(|all| all.get(boundary).cloned())
                .unwrap_or(Listener::None)
        };
        let listeners = (0..test.phases - 1)
            .map(|boundary| (0..nodes).map(|node| of(boundary, node)).collect())
            .collect();
        let book = AddressBook { listeners };
        for node in 0..nodes {
            crew.send(node, &ToNode::Connect(book.clone()));
        }
        let links = size::of(test, nodes).links;
        self.stage(number, &format!("connecting {links} links"));
        let deadlines = &self.plan.deadlines;
        // The nodes' own deadline comes first and names the links that are missing.
        let limit = deadlines.connect_ms + deadlines.prepare_ms + 5_000;
        crew.await_all("connect its links", limit, |member| member.ready)
    }

    /// Standing still is bounded, too: a test that forgets a run must not leave it behind.
    fn hold(&mut self, crew: &mut Crew, at: Hold) -> Result<(), Halt> {
        const LIMIT_MS: u64 = 600_000;
        if self.conditions.hold != Some(at) {
            return Ok(());
        }
        self.observer.held(at);
        let released = Arc::new(AtomicBool::new(false));
        let release = Arc::clone(&released);
        std::thread::spawn(move || {
            let mut line = String::new();
            match std::io::stdin().read_line(&mut line) {
                Ok(_) | Err(_) => release.store(true, Ordering::SeqCst), // End-of-file releases as well.
            }
        });
        crew.await_condition("be released", LIMIT_MS, |_| released.load(Ordering::SeqCst))
    }

    /// Sets one start and one window for all, each on its own clock.
    fn go(
        &mut self,
        crew: &mut Crew,
        number: usize,
        test: &Test,
        offsets: &[Offset],
    ) -> Result<(), Halt> {
        let slowest = offsets
            .iter()
            .map(|offset| offset.uncertainty_ns)
            .max()
            .unwrap_or(0);
        let start =
            clock::monotonic_ns() + 20_000_000 + slowest * 8 + offsets.len() as u64 * 200_000;
        let blocks = match test.bound {
            Bound::Time { .. } => None,
            Bound::Volume { buffers } => Some(buffers),
            Bound::Files => Some(
                crew.longest_source()
                    .div_ceil(size::buffer_payload_bytes(test, offsets.len())),
            ),
        };
        for (node, offset) in offsets.iter().enumerate() {
            let window_ns = match test.bound {
                Bound::Time {
                    warmup_ns,
                    window_ns,
                } => {
                    let first = start + warmup_ns;
                    Some((offset.to_node(first), offset.to_node(first + window_ns)))
                }
                Bound::Volume { .. } | Bound::Files => None,
            };
            crew.send(
                node,
                &ToNode::Go(Go {
                    at_ns: offset.to_node(start),
                    window_ns,
                    blocks,
                }),
            );
        }
        let window_end_ns = match test.bound {
            Bound::Time {
                warmup_ns,
                window_ns,
            } => start + warmup_ns + window_ns,
            Bound::Volume { .. } | Bound::Files => 0,
        };
        crew.set_start(start, window_end_ns);
        self.stage(number, "running");
        Ok(())
    }

    fn watch(&mut self, crew: &mut Crew, test: &Test) -> Result<(), Halt> {
        let deadlines = &self.plan.deadlines;
        let running_ms = match test.bound {
            Bound::Time {
                warmup_ns,
                window_ns,
            } => (warmup_ns + window_ns) / 1_000_000,
            Bound::Volume { .. } | Bound::Files => deadlines.volume_ms,
        };
        // The nodes' own deadlines come first and name what is late.
        let limit = running_ms + deadlines.longest_drain_ms() + deadlines.collect_ms + 5_000;
        crew.await_reports(limit, test, self.observer)
    }
}

/// Connections that the data ports of a host want to be full, by their hardware.
fn flows_of(host: &HostRecord) -> usize {
    let ports = host.rails.iter().filter_map(|rail| host.interface_of(rail));
    let physical = ports.filter(|port| port.physical);
    let flows = physical.map(|port| fit::flows_of(port.speed_mbit, port.members.len()));
    flows.max().unwrap_or(0)
}

/// A short, growing wait between questions that are not urgent.
const LOOK_UP: Duration = Duration::from_millis(50);

/// Lanes of a test that go from host to host, given who shares a host with whom.
fn crosses(hosts: &[HostRecord], lane: &lanes::Lane) -> bool {
    hosts[lane.from].host_index != hosts[lane.to].host_index
}

/// What the link of a lane is made of.
fn link_kind(test: &Test, lane: &lanes::Lane) -> crate::plan::LinkKind {
    kind_of(test.transport, lane)
}
