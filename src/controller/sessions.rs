//! The nodes as seen from the launching side: the messages of each node, and its liveness.

mod allowance;
mod clocks;
mod costs;
mod hearing;
mod log;
mod losses;
mod node;
mod ranks;
mod transport;

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use launcher::Program;
use launcher::hosts::Host;

use crate::plan::lanes::Lane;
use crate::plan::{NodeSpec, RunPlan, Test, size};
use crate::record::HostFacts;
use crate::record::{HostRecord, LinkSeries, Missing, Trouble, TroubleKind};
use crate::sys::clock;
use crate::wire::message::{Progress, ToNode};

use super::conditions::Conditions;
use super::events::{Observer, RunEvent};
use super::heartbeat::LOOK_UP;
use super::pulse::Pulse;
use log::Log;
pub(super) use log::{Halt, ended_by};
pub(super) use node::NodeSession;
use node::TestState;
use transport::{Transport, framed};

/// State of the repeated clock measurement during a test, which proceeds question by question.
struct Clocks {
    /// Time between the starts of two measurements.
    interval: Duration,
    /// Start of the next measurement.
    due: Instant,
    /// Number of the open question, from 1; zero between two measurements.
    round: usize,
    /// Number of measurements in this test.
    measured: u64,
    /// A node that has not answered the open question, as last seen.
    open: usize,
}

/// Facts from which the data addresses of a host are chosen.
pub(super) struct SeenHost<'a> {
    /// Facts of the host.
    pub facts: &'a HostFacts,
    /// Address at which its session arrived.
    pub session: Option<IpAddr>,
    /// The node runs on the launching machine.
    pub local: bool,
}

/// Limits and choices of the run, from its plan and its conditions.
struct Limits {
    /// Executables of the run.
    program: Program,
    silence: Duration,
    hello: Duration,
    /// Time by which every node must be up or failed, independent of the launcher's own deadlines.
    up_by: Instant,
    keep_going: bool,
    /// Number of nodes of the run, and most nodes that it continues without.
    all_and_missing: (usize, usize),
    /// Most bytes that the messages of all nodes hold together.
    all_bytes: usize,
    /// The observers need samples of each link every second.
    samples: bool,
}

/// Times of the current test, in nanoseconds of this host's monotonic clock.
#[derive(Default)]
struct TestTime {
    /// Index of the test in the plan.
    number: usize,
    /// A test or a job was sent to the nodes.
    begun: bool,
    /// Start of the first connection to a host for the first test, later the time when the current test was sent to the nodes.
    born_ns: u64,
    start_ns: u64,
    window_end_ns: u64,
}

/// All nodes.
pub(super) struct Sessions {
    nodes: Vec<NodeSession>,
    transport: Transport,
    /// Failures and notices.
    pub(super) log: Log,
    limits: Limits,
    time: TestTime,
    clocks: Clocks,
    /// The current test, second by second.
    pub(super) pulse: Pulse,
    /// Next look for silent nodes.
    silence_due: Instant,
    /// Most bytes that the messages of all nodes can hold together: what was dropped since their nodes were last heard from still counts.
    held_bytes: usize,
}

/// Wait for further failures once a possible cause is known, so that the true cause is among them.
const GRACE: Duration = Duration::from_millis(400);
/// Wait while all known failures are consequences: the report of the cause can be late.
const LONG_GRACE: Duration = Duration::from_secs(2);
/// Wait for the last messages of nodes when a run fails or ends, or when a test is given up.
const LAST_WORDS: Duration = Duration::from_secs(3);

/// True if a node is `open`. Begins with the one that was open at the last look: a thousand nodes that answer one by one cost a thousand looks, and
/// not a million.
fn any_open(nodes: &[NodeSession], last: &mut usize, open: impl Fn(&NodeSession) -> bool) -> bool {
    let (before, after) = nodes.split_at((*last).min(nodes.len()));
    let found = after.iter().position(&open).map(|at| before.len() + at);
    let found = found.or_else(|| before.iter().position(&open));
    *last = found.unwrap_or(0);
    found.is_some()
}

/// Deadline for the start of all nodes: the sum of all stages, for each wave of the fan-out and one more wave. Nodes that join have their own time,
/// and no waves.
fn launch_limit(plan: &RunPlan, settings: &launcher::Settings) -> Duration {
    let all = &plan.deadlines;
    let one = all.resolve_ms + all.connect_ms + all.authenticate_ms + all.deploy_ms + all.start_ms;
    let waves = plan.nodes.len().div_ceil(settings.fanout.max(1)) as u64 + 1;
    Duration::from_millis(one.saturating_mul(waves)) + settings.deadlines.connect
}

impl Sessions {
    /// Starts all nodes.
    pub(super) fn start(plan: &RunPlan, hosts: &[Host], conditions: &Conditions) -> Self {
        let node = |(place, node): (usize, &NodeSpec)| NodeSession {
            place,
            label: node.label.clone(),
            local: node.local,
            ..NodeSession::default()
        };
        let deadlines = &plan.deadlines;
        Self {
            nodes: plan.nodes.iter().enumerate().map(node).collect(),
            transport: Transport::start(hosts, conditions),
            log: Log {
                stop: Arc::clone(&conditions.stop),
                ..Log::default()
            },
            limits: Limits {
                program: conditions.program.clone(),
                silence: Duration::from_millis(deadlines.silence_ms),
                hello: Duration::from_millis(deadlines.start_ms),
                up_by: Instant::now() + launch_limit(plan, &conditions.settings),
                keep_going: plan.keep_going,
                all_and_missing: (plan.nodes.len(), plan.most_missing.unwrap_or(usize::MAX)),
                all_bytes: allowance::all_bytes(plan.nodes.len(), 0),
                samples: plan.samples() || conditions.watched,
            },
            time: TestTime {
                born_ns: clock::monotonic_ns(),
                ..TestTime::default()
            },
            pulse: Pulse::default(),
            clocks: Clocks {
                interval: Duration::from_millis(deadlines.clocks_ms.max(1)),
                due: Instant::now(),
                round: 0,
                measured: 0,
                open: 0,
            },
            silence_due: Instant::now(),
            held_bytes: 0,
        }
    }

    /// Sends a message to a node, unless the node is gone.
    pub(super) fn send(&mut self, node: usize, message: &ToNode) {
        if !self.nodes[node].life.gone {
            self.send_framed(node, message, &framed(message));
        }
    }

    /// Sends a message to all nodes that are not gone.
    pub(super) fn send_all(&mut self, message: &ToNode) {
        let frame = framed(message);
        for node in 0..self.nodes.len() {
            if !self.nodes[node].life.gone {
                self.send_framed(node, message, &frame);
            }
        }
    }

    fn send_framed(&mut self, node: usize, message: &ToNode, frame: &[u8]) {
        let session = &mut self.nodes[node];
        session.input.allowance.ask(message);
        self.transport.send(session.place, frame);
    }

    /// Records that a test was sent to the nodes, so that there are results to collect from now on. `crosses` is true if the nodes
    /// are on several hosts.
    pub(super) fn begin(&mut self, number: usize, test: &Test, crosses: bool) {
        let nodes = self.nodes.len();
        if self.time.begun {
            self.time.born_ns = clock::monotonic_ns();
        }
        self.time.number = number;
        self.begin_job();
        let link_ends = size::link_ends_per_node(test, nodes);
        self.limits.all_bytes = allowance::all_bytes(nodes, link_ends);
        for session in &mut self.nodes {
            session.input.allowance.link_ends = link_ends;
        }
        self.pulse = Pulse::begin(test, nodes, crosses);
        self.clocks.measured = 0;
    }

    /// Records that a job was sent to the nodes, so that they can report from now on.
    pub(super) fn begin_job(&mut self) {
        self.time.begun = true;
        self.time.start_ns = 0;
        self.nodes.iter_mut().for_each(NodeSession::drop_test);
    }

    /// Allows every host to answer a look at its runs.
    pub(super) fn allow_looks(&mut self) {
        self.limits.all_bytes = allowance::seen_bytes(self.nodes.len());
    }

    /// True once a test or a job was sent to the nodes.
    pub(super) fn has_begun(&self) -> bool {
        self.time.begun
    }

    /// Notes the start of the test and the end of its window, in nanoseconds of this host's monotonic clock.
    pub(super) fn set_start(&mut self, start_ns: u64, window_end_ns: u64) {
        self.time.start_ns = start_ns;
        self.time.window_end_ns = window_end_ns;
        self.clocks.due = Instant::now() + self.clocks.interval;
    }

    /// Messages of a node about the current test or job.
    pub(super) fn test(&self, node: usize) -> &TestState {
        &self.nodes[node].test
    }

    /// Length of the longest source file in bytes.
    pub(super) fn longest_source(&self) -> u64 {
        let lengths = self.nodes.iter().map(|node| node.test.source_bytes);
        lengths.max().unwrap_or(0)
    }

    /// True if the run continues without a node.
    pub(super) fn is_lost(&self, node: usize) -> bool {
        !self.nodes[node].takes_part()
    }

    /// Nodes that were lost after the run had started.
    pub(super) fn lost(&self) -> impl Iterator<Item = &Missing> {
        self.nodes.iter().filter_map(|node| node.life.lost.as_ref())
    }

    /// Time since the start of the test in nanoseconds; zero if no start is set.
    pub(super) fn since_start_ns(&self) -> u64 {
        match self.time.start_ns {
            0 => 0,
            start => clock::monotonic_ns().saturating_sub(start),
        }
    }

    /// Time from the first connection, or from sending the test, to the start of the test, in nanoseconds; `None` if no start is set.
    pub(super) fn set_up_ns(&self) -> Option<u64> {
        let (start_ns, born_ns) = (self.time.start_ns, self.time.born_ns);
        (start_ns > 0).then(|| start_ns.saturating_sub(born_ns))
    }

    /// Number of clock measurements in this test.
    pub(super) fn clocks_measured(&self) -> u64 {
        self.clocks.measured
    }

    /// Hosts whose hello has arrived.
    pub(super) fn seen_hosts(&self) -> Vec<SeenHost<'_>> {
        fn seen(node: &NodeSession) -> Option<SeenHost<'_>> {
            let facts = node.facts()?;
            let address = node.up.as_ref().and_then(|up| up.address);
            Some(SeenHost {
                facts,
                session: facts.session_address.or(address),
                local: node.local,
            })
        }
        self.nodes.iter().filter_map(seen).collect()
    }

    /// Hosts for the record.
    pub(super) fn host_records(&self) -> Vec<HostRecord> {
        let mut firsts: HashMap<Option<&str>, usize> = HashMap::new();
        let nodes = self.nodes.iter().enumerate();
        let records = nodes.map(|(number, node)| {
            let identity = node.facts().map(|facts| facts.identity.as_str());
            let transport = node.up.as_ref().map(|up| up.transport.clone());
            HostRecord {
                node: node.label.clone(),
                transport: transport.unwrap_or_default(),
                rails: Vec::new(),
                host_index: *firsts.entry(identity).or_insert(number),
                facts: node.facts().cloned().unwrap_or_default(),
            }
        });
        records.collect()
    }

    /// Waits until every node has sent its hello or failed, so that one run names all failures and not only the first.
    pub(super) fn await_hellos(&mut self, observer: &mut dyn Observer) -> Result<(), Halt> {
        let stage = format!("starting {} nodes", self.nodes.len());
        observer.see(RunEvent::Stage(&stage));
        let (mut last, mut due) = (0, Instant::now());
        loop {
            self.turn();
            self.log.tell(observer);
            if Instant::now() >= due {
                due = Instant::now() + LOOK_UP;
                self.check_hellos();
            }
            if self.log.interrupted() {
                return Err(Halt::Noted);
            }
            let open = |node: &NodeSession| !node.life.gone && node.hello.is_none();
            if !any_open(&self.nodes, &mut last, open) {
                self.note_architectures();
                return match self.log.troubles.is_empty() {
                    true => Ok(()),
                    false => Err(Halt::Noted),
                };
            }
        }
    }

    /// Bounds the hello. The launcher bounds every stage before it, up to the magic word.
    fn check_hellos(&mut self) {
        let now = Instant::now();
        for node in 0..self.nodes.len() {
            let session = &self.nodes[node];
            let what = match &session.up {
                _ if session.life.gone || session.hello.is_some() => continue,
                None if now > self.limits.up_by => "cannot start: no stage has ended".to_owned(),
                Some(up) if up.since.elapsed() > self.limits.hello => {
                    let limit = self.limits.hello.as_secs();
                    format!("cannot complete the hello: timed out after {limit} s")
                }
                _ => continue,
            };
            self.lose(node, TroubleKind::Start, what);
        }
    }

    /// Waits until all nodes that are not lost satisfy `done`. After `limit_ms` the late nodes have failed.
    pub(super) fn await_all(
        &mut self,
        what: &str,
        limit_ms: u64,
        done: impl Fn(&NodeSession) -> bool,
    ) -> Result<(), Halt> {
        let until = Instant::now() + Duration::from_millis(limit_ms);
        let (keep_going, mut last) = (self.limits.keep_going, 0);
        loop {
            self.turn();
            self.halt_on_trouble()?;
            // A node that left after a complete report cannot answer any more.
            let has_left = |session: &NodeSession| {
                keep_going && session.life.gone && session.test.is_complete()
            };
            let asked = |session: &NodeSession| session.takes_part() && !has_left(session);
            let open = |session: &NodeSession| asked(session) && !done(session);
            if !any_open(&self.nodes, &mut last, open) {
                return Ok(());
            }
            if Instant::now() > until {
                self.note_late(what, limit_ms / 1000, open);
            }
        }
    }

    /// Notes a failure of each node that has not done something in time. A run that can continue without them does not wait for them again.
    fn note_late(&mut self, what: &str, seconds: u64, is_late: impl Fn(&NodeSession) -> bool) {
        let what = format!("cannot {what}: timed out after {seconds} s");
        for session in self.nodes.iter_mut().filter(|session| is_late(session)) {
            let trouble = Trouble::of_node(TroubleKind::Deadline, &session.label, what.clone());
            self.log.troubles.push(trouble);
            if self.limits.keep_going {
                session.life.gone = true;
                self.transport.abort(session.place);
            }
        }
    }

    /// Waits until `done` returns true. Fails after `limit_ms`.
    pub(super) fn await_condition(
        &mut self,
        what: &str,
        limit_ms: u64,
        done: impl Fn(&Self) -> bool,
    ) -> Result<(), Halt> {
        let until = Instant::now() + Duration::from_millis(limit_ms);
        while !done(self) {
            self.turn();
            self.halt_on_trouble()?;
            if Instant::now() > until {
                let what = format!("cannot {what}: timed out after {} s", limit_ms / 1000);
                return Err(Trouble::own(TroubleKind::Deadline, what).into());
            }
        }
        Ok(())
    }

    /// Waits for the reports of a test, `until_end_ms` at least. Then a node may take `beyond_ms` more, counted from the last time that its
    /// bytes moved, and `most_ms` from now in all: one that hides its report and says that it lives is not waited for as long as one that drains.
    pub(super) fn await_reports(
        &mut self,
        (until_end_ms, beyond_ms, most_ms): (u64, u64, u64),
        test: &Test,
        observer: &mut dyn Observer,
    ) -> Result<(), Halt> {
        let ms = Duration::from_millis;
        let began = Instant::now();
        let (end, most) = (began + ms(until_end_ms), began + ms(most_ms));
        let (mut last, mut silent) = (0, 0);
        loop {
            self.turn();
            while let Some(told) = self.next_progress(&mut silent) {
                if self.limits.samples {
                    let samples = self.pulse.samples(test, &told);
                    observer.see(RunEvent::Samples(&samples));
                }
                let second = &self.pulse.beat(told);
                observer.see(RunEvent::Second { test, second });
            }
            self.keep_clocks(test);
            self.halt_on_trouble()?;
            self.log.tell(observer);
            let open =
                |session: &NodeSession| session.takes_part() && session.test.report.is_none();
            if !any_open(&self.nodes, &mut last, open) {
                return Ok(());
            }
            let now = Instant::now();
            let is_late = |session: &NodeSession| {
                let from = session.test.moved.1.map_or(end, |moved| moved.max(end));
                open(session) && now > (from + ms(beyond_ms)).min(most)
            };
            if now > end.min(most) && self.nodes.iter().any(is_late) {
                self.note_late("report", began.elapsed().as_secs(), is_late);
            }
        }
    }

    /// Progress of all nodes in the next second, once all nodes have reported it; `None` in the list for lost nodes. `last` is a node that had not
    /// reported it.
    fn next_progress(&mut self, last: &mut usize) -> Option<Vec<Option<Progress>>> {
        let silent = |node: &NodeSession| node.takes_part() && node.test.progress.is_empty();
        if any_open(&self.nodes, last, silent) || !self.nodes.iter().any(NodeSession::takes_part) {
            return None;
        }
        let next = |node: &mut NodeSession| match node.takes_part() {
            true => node.test.progress.pop_front(),
            false => None,
        };
        Some(self.nodes.iter_mut().map(next).collect())
    }

    /// Asks the nodes for the series of the links into them. Returns the answered ones in the order of `lanes`.
    pub(super) fn fetch_series(&mut self, lanes: &[Lane]) -> Result<Vec<LinkSeries>, Halt> {
        let of = |node: usize| lanes.iter().filter(move |lane| lane.to == node);
        for node in 0..self.nodes.len() {
            let places: Vec<_> = of(node).map(|lane| (lane.boundary, lane.to_slot)).collect();
            self.nodes[node].test.series = places.is_empty().then(Default::default);
            if !places.is_empty() {
                self.send(node, &ToNode::Series(places));
            }
        }
        self.await_all("report its series", 10_000, |session| {
            session.test.series.is_some()
        })?;
        let mut series = Vec::new();
        for node in 0..self.nodes.len() {
            let (stretch_s, bytes) = self.nodes[node].test.series.take().unwrap_or_default();
            series.extend(of(node).zip(bytes).map(|(lane, bytes)| LinkSeries {
                lane: *lane,
                stretch_s,
                bytes,
            }));
        }
        series.sort_by_key(|one| lanes.iter().position(|lane| *lane == one.lane));
        Ok(series)
    }

    /// Handles the events of a short time, even if nodes are lost. Returns false once the user has asked for the end.
    pub(super) fn look_up(&mut self) -> bool {
        self.turn();
        !self.log.interrupted()
    }

    /// The node, if its hello has arrived and it is not gone.
    pub(super) fn present(&mut self, node: usize) -> Option<&mut NodeSession> {
        let session = self.nodes.get_mut(node)?;
        (session.hello.is_some() && !session.life.gone).then_some(session)
    }

    /// Labels of nodes that reported an incomplete run.
    pub(super) fn unexplained(&self) -> Vec<String> {
        let all = self.nodes.iter();
        let unexplained = all.filter(|session| session.life.unexplained);
        unexplained.map(|session| session.label.clone()).collect()
    }

    /// Asks all nodes for their reports after a failure, and waits a bounded time for them.
    pub(super) fn gather_reports(&mut self) {
        self.send_all(&ToNode::Stop);
        let until = Instant::now() + LAST_WORDS;
        let is_open = |node: &NodeSession| !node.life.gone && node.test.report.is_none();
        while Instant::now() < until && self.nodes.iter().any(is_open) {
            self.turn();
        }
    }

    fn halt_on_trouble(&mut self) -> Result<(), Halt> {
        if self.log.interrupted() {
            return Err(Halt::Noted);
        }
        if self.log.troubles.is_empty() {
            return Ok(());
        }
        let mut until = Instant::now() + LONG_GRACE;
        let mut explained = false;
        while Instant::now() < until && !self.log.is_stopped() {
            let cause = self.log.troubles.iter().any(|one| !one.kind.may_follow());
            if cause && !explained {
                explained = true;
                until = Instant::now() + GRACE;
            }
            self.turn();
        }
        if self.time.start_ns > 0 && self.go_on_without() {
            return Ok(());
        }
        Err(Halt::Noted)
    }

    /// Handles the events of a short time, then looks for silent nodes.
    fn turn(&mut self) {
        let mut turn = None;
        while let Some((node, event)) = self.transport.next_event(&mut turn) {
            self.handle(node, event);
        }
        let now = Instant::now();
        if now >= self.silence_due {
            self.silence_due = now + LOOK_UP;
            self.look_for_silence();
        }
    }

    fn look_for_silence(&mut self) {
        let now_ns = clock::monotonic_ns();
        for node in 0..self.nodes.len() {
            let NodeSession { life, hello, .. } = &mut self.nodes[node];
            let silent_ns = u128::from(life.idle.goes_on(now_ns));
            let silent = life.heard.is_some() && silent_ns > self.limits.silence.as_nanos();
            if silent && hello.is_some() && !life.gone {
                let what = format!("lost: silent for {} s", self.limits.silence.as_secs());
                self.lose(node, TroubleKind::Lost, what);
                self.transport.abort(self.nodes[node].place);
            }
        }
    }

    fn lose(&mut self, node: usize, kind: TroubleKind, what: String) {
        let session = &mut self.nodes[node];
        session.life.gone = true;
        if session.takes_part() {
            let trouble = Trouble::of_node(kind, &session.label, what);
            self.log.troubles.push(trouble);
        }
    }

    /// Ends all nodes. Returns all failures and notices.
    pub(super) fn dismiss(mut self) -> (Vec<Trouble>, Vec<String>) {
        self.send_all(&ToNode::End);
        self.transport.finish(LAST_WORDS);
        (self.log.troubles, self.log.notices)
    }
}

#[cfg(test)]
mod tests;
