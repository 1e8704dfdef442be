//! The nodes as seen from the launching side: the messages of each node, and its liveness.

mod allowance;
mod clocks;
mod hearing;
mod losses;
mod ranks;

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use launcher::hosts::Host;
use launcher::{Event, Fleet};

use crate::plan::lanes::Lane;
use crate::plan::{RunPlan, Test};
use crate::record::HostFacts;
use crate::record::{
    Asked, HostRecord, LinkSeries, Missing, NodeReport, Sighting, Trouble, TroubleKind,
};
use crate::stats::offset::{Offset, Sample};
use crate::sys::clock::{self, IdleTimer};
use crate::units::sum;
use crate::wire::frame::{self, Decoder};
use crate::wire::message::{Hello, Listener, Progress, RankWord, ToNode};

use super::conditions::Conditions;
use super::events::{Observer, RunEvent};
use super::heartbeat::{Heartbeat, LOOK_UP};
use super::pulse::Pulse;
use allowance::Allowance;

/// Reason why a stage ended early.
pub(super) enum Halt {
    /// A failure that is not yet in the list.
    Trouble(Box<Trouble>),
    /// The list already holds every failure.
    Noted,
}

/// One node.
#[derive(Default)]
pub(super) struct NodeSession {
    label: String,
    /// Its number in the fleet.
    place: usize,
    /// Set once the run continues without this node.
    lost: Option<Missing>,
    decoder: Decoder,
    /// Limits on its messages.
    allowance: Allowance,
    /// It violated the protocol or a limit; its further bytes are ignored.
    cut_off: bool,
    /// It reported an incomplete run.
    unexplained: bool,
    transport: String,
    address: Option<IpAddr>,
    local: bool,
    hello: Option<Hello>,
    /// Its listeners by boundary, once it is prepared.
    pub listeners: Option<Vec<Listener>>,
    /// Length of its source file in bytes; zero without a source file.
    source_bytes: u64,
    /// Addresses on its network, each with the hardware address that answers for it.
    neighbours: Vec<(IpAddr, String)>,
    /// Addresses of its ranks, lowest rank first, once they listen.
    pub rank_addresses: Option<Vec<Option<SocketAddr>>>,
    /// Reports of its ranks that are not handled yet.
    rank_words: VecDeque<(usize, RankWord)>,
    /// All its links are connected, or all its ranks know each other's addresses.
    pub ready: bool,
    samples: Vec<Sample>,
    /// Clock offset, from the latest samples.
    offset: Option<Offset>,
    progress: VecDeque<Progress>,
    /// Payload that it has moved in this test, in bytes, and the last time it was more than before.
    moved: (u64, Option<Instant>),
    /// Seconds per figure, and the figures of each requested link.
    series: Option<(u64, Vec<Vec<u64>>)>,
    report: Option<NodeReport>,
    /// Its answer to a visit: the runs on its host.
    pub sighting: Option<Sighting>,
    /// Its answer to a request to end a run: the nodes that it asked to end.
    pub asked: Option<Vec<Asked>>,
    /// It has failed, or its session has ended.
    gone: bool,
    heard: Option<Instant>,
    /// Bytes that have arrived since then.
    fresh_bytes: usize,
    /// Time without a message from it.
    idle: IdleTimer,
    up_since: Option<Instant>,
    complaints: Vec<String>,
}

impl NodeSession {
    /// Notes whether bytes have moved.
    fn note_moved(&mut self, progress: &Progress) {
        let to_others = progress.sent_bytes.iter().chain(&progress.received_bytes);
        let here = [progress.same_host_bytes, progress.own_bytes];
        let bytes = sum(to_others.copied().chain(here));
        if bytes > self.moved.0 {
            self.moved = (bytes, Some(Instant::now()));
        }
    }

    /// Notes a sign of life.
    fn was_heard(&mut self) {
        self.heard = Some(Instant::now());
        self.idle.broken();
        self.fresh_bytes = 0;
    }

    /// Clears its messages about a test, so that the next test does not use them.
    fn forget_test(&mut self) {
        self.listeners = None;
        self.rank_addresses = None;
        self.rank_words.clear();
        self.source_bytes = 0;
        self.ready = false;
        self.report = None;
        self.progress.clear();
        self.moved = (0, None);
        self.series = None;
    }

    /// True if it reported that all its links ended in order.
    fn is_complete(&self) -> bool {
        self.report.as_ref().is_some_and(|report| report.complete)
    }
}

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

/// All nodes.
pub(super) struct Sessions {
    sessions: Vec<NodeSession>,
    /// Index of the session for each number in the fleet; `None` for nodes that were left out before the start.
    places: Vec<Option<usize>>,
    keep_going: bool,
    /// Most bytes that the messages of all nodes hold together.
    all_bytes: usize,
    fleet: Arc<Fleet>,
    heartbeat: Heartbeat,
    events: Receiver<(usize, Event)>,
    troubles: Vec<Trouble>,
    notices: Vec<String>,
    fresh_notices: Vec<String>,
    stop: Arc<AtomicUsize>,
    digest: String,
    silence: Duration,
    hello_limit: Duration,
    /// Time by which every node must be up or failed, independent of the launcher's own deadlines.
    up_by: Instant,
    begun: bool,
    /// Index of the current test in the plan.
    test: usize,
    start_ns: u64,
    /// Start of the first connection to a host for the first test, later the time when the current test was sent to the nodes;
    /// on this host's monotonic clock.
    born_ns: u64,
    /// End of the window on this host's monotonic clock.
    window_end_ns: u64,
    samples: bool,
    /// The current test, second by second.
    pub pulse: Pulse,
    clocks: Clocks,
}

/// Wait for further failures once a possible cause is known, so that the true cause is among them.
const GRACE: Duration = Duration::from_millis(400);
/// Wait while all known failures are consequences: the report of the cause can be late.
const LONG_GRACE: Duration = Duration::from_secs(2);
/// Wait for the last messages of nodes when a run fails or ends, or when a test is given up.
const LAST_WORDS: Duration = Duration::from_secs(3);

/// Deadline for the start of all nodes: the sum of all stages, for each wave of the fan-out and one more wave.
fn launch_limit(plan: &RunPlan, fanout: usize) -> Duration {
    let all = &plan.deadlines;
    let one = all.resolve_ms + all.connect_ms + all.authenticate_ms + all.deploy_ms + all.start_ms;
    let waves = plan.nodes.len().div_ceil(fanout.max(1)) as u64 + 1;
    Duration::from_millis(one.saturating_mul(waves))
}

impl Sessions {
    /// Starts all nodes.
    pub(super) fn start(plan: &RunPlan, hosts: &[Host], conditions: &Conditions) -> Self {
        let (sender, events) = channel();
        let sessions: Vec<NodeSession> = plan
            .nodes
            .iter()
            .enumerate()
            .map(|(place, node)| NodeSession {
                place,
                label: node.label.clone(),
                local: node.local,
                ..NodeSession::default()
            })
            .collect();
        let fleet = Arc::new(launcher::start(
            hosts,
            conditions.settings.clone(),
            conditions.program.clone(),
            sender,
        ));
        let heartbeat = Heartbeat::start(Arc::clone(&fleet), plan.nodes.len());
        Self {
            places: (0..sessions.len()).map(Some).collect(),
            keep_going: plan.keep_going,
            all_bytes: allowance::all_bytes(sessions.len(), 0),
            sessions,
            fleet,
            heartbeat,
            events,
            troubles: Vec::new(),
            notices: Vec::new(),
            fresh_notices: Vec::new(),
            stop: Arc::clone(&conditions.stop),
            digest: conditions.program.digest.clone(),
            silence: Duration::from_millis(plan.deadlines.silence_ms),
            hello_limit: Duration::from_millis(plan.deadlines.start_ms),
            up_by: Instant::now() + launch_limit(plan, conditions.settings.fanout),
            begun: false,
            test: 0,
            start_ns: 0,
            born_ns: clock::monotonic_ns(),
            window_end_ns: 0,
            samples: plan.samples() || conditions.watched,
            pulse: Pulse::default(),
            clocks: Clocks {
                interval: Duration::from_millis(plan.deadlines.clocks_ms.max(1)),
                due: Instant::now(),
                round: 0,
                measured: 0,
            },
        }
    }

    /// Sends a message to a node, unless the node is gone.
    pub(super) fn send(&mut self, node: usize, message: &ToNode) {
        if self.sessions[node].gone {
            return;
        }
        self.sessions[node].allowance.ask(message);
        if let Ok(text) = serde_json::to_vec(message) {
            // A full or closed session shows up later, as silence or as an ended session.
            self.fleet
                .send(self.sessions[node].place, &frame::encode(&text));
        }
    }

    /// Records that a test was sent to the nodes, so that there are results to collect from now on. `crosses` is true if the nodes
    /// are on several hosts.
    pub(super) fn begin(&mut self, number: usize, test: &Test, crosses: bool) {
        self.test = number;
        if self.begun {
            self.born_ns = clock::monotonic_ns();
        }
        self.begun = true;
        self.start_ns = 0;
        let (nodes, link_ends) = (
            self.sessions.len(),
            allowance::link_ends(test, self.sessions.len()),
        );
        self.all_bytes = allowance::all_bytes(nodes, link_ends);
        for session in &mut self.sessions {
            session.forget_test();
            session.allowance.link_ends = link_ends;
        }
        self.pulse = Pulse::begin(test, self.sessions.len(), crosses);
        self.clocks.measured = 0;
    }

    /// True once a test or a job was sent to the nodes.
    pub(super) fn has_begun(&self) -> bool {
        self.begun
    }

    /// Notes the start of the test and the end of its window, in nanoseconds of this host's monotonic clock.
    pub(super) fn set_start(&mut self, start_ns: u64, window_end_ns: u64) {
        self.start_ns = start_ns;
        self.window_end_ns = window_end_ns;
        self.clocks.due = Instant::now() + self.clocks.interval;
    }

    /// Listeners of a node by boundary, once it is prepared.
    pub(super) fn listeners(&self, node: usize) -> Option<&Vec<Listener>> {
        self.sessions[node].listeners.as_ref()
    }

    /// Addresses that a node was asked about, each with the hardware address that answers for it.
    pub(super) fn neighbours(&self, node: usize) -> &[(IpAddr, String)] {
        &self.sessions[node].neighbours
    }

    /// Length of the longest source file in bytes.
    pub(super) fn longest_source(&self) -> u64 {
        self.sessions
            .iter()
            .map(|session| session.source_bytes)
            .max()
            .unwrap_or(0)
    }

    /// Report of a node, once it has arrived.
    pub(super) fn report(&self, node: usize) -> Option<&NodeReport> {
        self.sessions[node].report.as_ref()
    }

    /// True if the run continues without a node.
    pub(super) fn is_lost(&self, node: usize) -> bool {
        self.sessions[node].lost.is_some()
    }

    /// Nodes that were lost after the run had started.
    pub(super) fn lost(&self) -> impl Iterator<Item = &Missing> {
        self.sessions
            .iter()
            .filter_map(|session| session.lost.as_ref())
    }

    /// Time since the start of the test in nanoseconds; zero if no start is set.
    pub(super) fn since_start_ns(&self) -> u64 {
        match self.start_ns {
            0 => 0,
            start => clock::monotonic_ns().saturating_sub(start),
        }
    }

    /// Time from the first connection, or from sending the test, to the start of the test, in nanoseconds; `None` if no start is set.
    pub(super) fn set_up_ns(&self) -> Option<u64> {
        (self.start_ns > 0).then(|| self.start_ns.saturating_sub(self.born_ns))
    }

    /// Number of clock measurements in this test.
    pub(super) fn clocks_measured(&self) -> u64 {
        self.clocks.measured
    }

    /// Hosts whose hello has arrived.
    pub(super) fn seen_hosts(&self) -> Vec<SeenHost<'_>> {
        self.sessions
            .iter()
            .filter_map(|session| {
                let facts = &session.hello.as_ref()?.facts;
                Some(SeenHost {
                    facts,
                    session: facts.session_address.or(session.address),
                    local: session.local,
                })
            })
            .collect()
    }

    /// Hosts for the record.
    pub(super) fn host_records(&self) -> Vec<HostRecord> {
        let facts_of = |session: &NodeSession| {
            session
                .hello
                .as_ref()
                .map(|hello| hello.facts.clone())
                .unwrap_or_default()
        };
        let identities: Vec<String> = self
            .sessions
            .iter()
            .map(|session| facts_of(session).identity)
            .collect();
        self.sessions
            .iter()
            .enumerate()
            .map(|(node, session)| HostRecord {
                node: session.label.clone(),
                transport: session.transport.clone(),
                rails: Vec::new(),
                host_index: identities
                    .iter()
                    .position(|other| *other == identities[node])
                    .unwrap_or(node),
                facts: facts_of(session),
            })
            .collect()
    }

    /// Waits until every node has sent its hello or failed, so that one run names all failures and not only the first.
    pub(super) fn await_hellos(&mut self, observer: &mut dyn Observer) -> Result<(), Halt> {
        let stage = format!("starting {} nodes", self.sessions.len());
        observer.see(RunEvent::Stage(&stage));
        loop {
            self.turn();
            for notice in self.take_notices() {
                observer.see(RunEvent::Notice(&notice));
            }
            self.check_hellos();
            if self.interrupted() {
                return Err(Halt::Noted);
            }
            if self
                .sessions
                .iter()
                .all(|session| session.gone || session.hello.is_some())
            {
                break;
            }
        }
        if self.troubles.is_empty() {
            Ok(())
        } else {
            Err(Halt::Noted)
        }
    }

    /// Bounds the hello. The launcher bounds every stage before it, up to the magic word.
    fn check_hellos(&mut self) {
        for node in 0..self.sessions.len() {
            let session = &self.sessions[node];
            let never = Instant::now() > self.up_by && session.up_since.is_none();
            if never && !session.gone {
                self.lose(
                    node,
                    TroubleKind::Start,
                    "cannot start: no stage has ended".to_owned(),
                );
                continue;
            }
            let late = session
                .up_since
                .is_some_and(|since| since.elapsed() > self.hello_limit);
            if late && session.hello.is_none() && !session.gone {
                let limit = self.hello_limit.as_secs();
                self.lose(
                    node,
                    TroubleKind::Start,
                    format!("cannot complete the hello: timed out after {limit} s"),
                );
            }
        }
    }

    /// Waits until all nodes that are not lost satisfy `done`. After `limit_ms` it fails and names the late nodes.
    pub(super) fn await_all(
        &mut self,
        what: &str,
        limit_ms: u64,
        done: impl Fn(&NodeSession) -> bool,
    ) -> Result<(), Halt> {
        let until = Instant::now() + Duration::from_millis(limit_ms);
        loop {
            self.turn();
            self.halt_on_trouble()?;
            // A node that left after a complete report cannot answer any more.
            let asked = |session: &NodeSession| {
                session.lost.is_none()
                    && !(self.keep_going && session.gone && session.is_complete())
            };
            let open = |session: &&NodeSession| asked(session) && !done(session);
            if !self.sessions.iter().any(|session| open(&session)) {
                return Ok(());
            }
            if Instant::now() > until {
                return Err(self.late(what, limit_ms / 1000, open));
            }
        }
    }

    /// Failure of the sessions that have not done something in time.
    fn late(&self, what: &str, seconds: u64, open: impl Fn(&&NodeSession) -> bool) -> Halt {
        let late = self.sessions.iter().filter(open);
        let late: Vec<String> = late.map(|session| session.label.clone()).collect();
        let what = format!("cannot {what}: timed out after {seconds} s");
        Halt::Trouble(Box::new(Trouble {
            node: launcher::hosts::fold(&late),
            ..Trouble::own(TroubleKind::Deadline, what)
        }))
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
                return Err(Halt::Trouble(Box::new(Trouble::own(
                    TroubleKind::Deadline,
                    what,
                ))));
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
        loop {
            self.turn();
            while let Some(told) = self.next_progress() {
                if self.samples {
                    let samples = self.pulse.samples(test, &told);
                    observer.see(RunEvent::Samples(&samples));
                }
                let second = &self.pulse.beat(told);
                observer.see(RunEvent::Second { test, second });
            }
            self.keep_clocks(test);
            self.halt_on_trouble()?;
            for notice in self.take_notices() {
                observer.see(RunEvent::Notice(&notice));
            }
            let reported =
                |session: &NodeSession| session.lost.is_some() || session.report.is_some();
            if self.sessions.iter().all(reported) {
                return Ok(());
            }
            let now = Instant::now();
            let is_late = |session: &&NodeSession| {
                let from = session.moved.1.map_or(end, |moved| moved.max(end));
                !reported(session) && now > (from + ms(beyond_ms)).min(most)
            };
            if self.sessions.iter().any(|session| is_late(&session)) {
                return Err(self.late("report", began.elapsed().as_secs(), is_late));
            }
        }
    }

    /// Progress of all nodes in the next second, once all nodes have reported it; `None` in the list for lost nodes.
    fn next_progress(&mut self) -> Option<Vec<Option<Progress>>> {
        let silent = |session: &NodeSession| session.lost.is_none() && session.progress.is_empty();
        if self.sessions.iter().any(silent) || self.sessions.iter().all(|one| one.lost.is_some()) {
            return None;
        }
        let next = |session: &mut NodeSession| match session.lost {
            Some(_) => None,
            None => session.progress.pop_front(),
        };
        Some(self.sessions.iter_mut().map(next).collect())
    }

    /// Asks the nodes for the series of the links into them. Returns the answered ones in the order of `lanes`.
    pub(super) fn fetch_series(&mut self, lanes: &[Lane]) -> Result<Vec<LinkSeries>, Halt> {
        let of = |node: usize| lanes.iter().filter(move |lane| lane.to == node);
        for node in 0..self.sessions.len() {
            let places: Vec<_> = of(node).map(|lane| (lane.boundary, lane.to_slot)).collect();
            self.sessions[node].series = places.is_empty().then(Default::default);
            if !places.is_empty() {
                self.send(node, &ToNode::Series(places));
            }
        }
        self.await_all("tell its series", 10_000, |session| {
            session.series.is_some()
        })?;
        let mut series = Vec::new();
        for node in 0..self.sessions.len() {
            let (stretch_s, bytes) = self.sessions[node].series.take().unwrap_or_default();
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
        !self.interrupted()
    }

    /// The node, if its hello has arrived and it is not gone.
    pub(super) fn present(&mut self, node: usize) -> Option<&mut NodeSession> {
        let session = self.sessions.get_mut(node)?;
        (session.hello.is_some() && !session.gone).then_some(session)
    }

    /// Labels of nodes that reported an incomplete run.
    pub(super) fn unexplained(&self) -> Vec<String> {
        let all = self.sessions.iter();
        let unexplained = all.filter(|session| session.unexplained);
        unexplained.map(|session| session.label.clone()).collect()
    }

    /// Failures so far.
    pub(super) fn troubles(&self) -> &[Trouble] {
        &self.troubles
    }

    /// Asks all nodes for their reports after a failure, and waits a bounded time for them.
    pub(super) fn gather_reports(&mut self) {
        for node in 0..self.sessions.len() {
            self.send(node, &ToNode::Stop);
        }
        let until = Instant::now() + LAST_WORDS;
        while Instant::now() < until
            && self
                .sessions
                .iter()
                .any(|session| !session.gone && session.report.is_none())
        {
            self.turn();
        }
    }

    fn halt_on_trouble(&mut self) -> Result<(), Halt> {
        if self.interrupted() {
            return Err(Halt::Noted);
        }
        if self.troubles.is_empty() {
            return Ok(());
        }
        let mut until = Instant::now() + LONG_GRACE;
        let mut explained = false;
        while Instant::now() < until && self.stop.load(Ordering::SeqCst) == 0 {
            let cause = self.troubles.iter().any(|one| !one.kind.may_follow());
            if cause && !explained {
                explained = true;
                until = Instant::now() + GRACE;
            }
            self.turn();
        }
        if self.start_ns > 0 && self.go_on_without() {
            return Ok(());
        }
        Err(Halt::Noted)
    }

    /// Adds a notice for the user and the record, unless it is already known.
    pub(super) fn notice(&mut self, text: &str) {
        if !self.notices.iter().any(|known| known == text) {
            self.fresh_notices.push(text.to_owned());
            self.notices.push(text.to_owned());
        }
    }

    /// Takes the notices since the last call.
    pub(super) fn take_notices(&mut self) -> Vec<String> {
        std::mem::take(&mut self.fresh_notices)
    }

    /// True once the user or the system has asked for the end. Adds this to the failures once.
    fn interrupted(&mut self) -> bool {
        let signal = self.stop.load(Ordering::SeqCst);
        if signal == 0 {
            return false;
        }
        let ended =
            |trouble: &Trouble| trouble.kind == TroubleKind::Ended && trouble.node.is_empty();
        if !self.troubles.iter().any(ended) {
            let name = i32::try_from(signal)
                .ok()
                .and_then(|number| nix::sys::signal::Signal::try_from(number).ok());
            let name = name.map_or_else(|| format!("signal {signal}"), |name| name.to_string());
            self.troubles
                .push(Trouble::own(TroubleKind::Ended, format!("ended by {name}")));
        }
        true
    }

    /// Adds the failure that halted a stage to the list.
    pub(super) fn note(&mut self, halt: Halt) {
        if let Halt::Trouble(trouble) = halt {
            self.troubles.push(*trouble);
        }
    }

    /// Handles the events of a short time, then looks for silent nodes.
    fn turn(&mut self) {
        match self.events.recv_timeout(LOOK_UP) {
            Ok((place, event)) => self.handle(place, event),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => std::thread::sleep(LOOK_UP),
        }
        // A node that sends very much must not keep this loop from its other duties.
        let until = Instant::now() + LOOK_UP;
        while Instant::now() < until
            && let Ok((place, event)) = self.events.try_recv()
        {
            self.handle(place, event);
        }
        self.look_for_silence();
    }

    fn look_for_silence(&mut self) {
        for node in 0..self.sessions.len() {
            let session = &mut self.sessions[node];
            let silent_ns = u128::from(session.idle.goes_on(clock::monotonic_ns()));
            let silent = session.heard.is_some() && silent_ns > self.silence.as_nanos();
            if silent && session.hello.is_some() && !session.gone {
                let what = format!("lost: silent for {} s", self.silence.as_secs());
                self.lose(node, TroubleKind::Lost, what);
                self.fleet.abort(self.sessions[node].place);
            }
        }
    }

    fn lose(&mut self, node: usize, kind: TroubleKind, what: String) {
        let session = &mut self.sessions[node];
        session.gone = true;
        if session.lost.is_some() {
            return;
        }
        let trouble = Trouble {
            kind,
            node: session.label.clone(),
            who: String::new(),
            what,
        };
        self.troubles.push(trouble);
    }

    /// Ends all nodes. Returns all failures and notices.
    pub(super) fn dismiss(mut self) -> (Vec<Trouble>, Vec<String>) {
        for node in 0..self.sessions.len() {
            self.send(node, &ToNode::End);
        }
        self.heartbeat.end();
        if let Some(fleet) = Arc::into_inner(self.fleet) {
            fleet.finish(LAST_WORDS);
        }
        (self.troubles, self.notices)
    }
}

#[cfg(test)]
mod tests;
