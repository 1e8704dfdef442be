//! The nodes as seen from the launching side: what each has said, whether it is still there.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use launcher::hosts::Host;
use launcher::{Event, Fleet, Stage};

use crate::plan::RunPlan;
use crate::record::{Asked, HostRecord, NodeReport, Second, Sighting, Trouble, TroubleKind};
use crate::stats::offset::{Offset, Sample};
use crate::sys::clock;
use crate::sys::facts::HostFacts;
use crate::wire::frame::{self, Decoder};
use crate::wire::message::{FromNode, Hello, Listener, Progress, ToNode, WIRE_VERSION};

use super::heartbeat::Heartbeat;
use super::{Conditions, LOOK_UP, Observer, estimate};

/// Why a stage did not come to its end.
pub enum Halt {
    /// Something failed that is not yet in the crew's list.
    Trouble(Box<Trouble>),
    /// Everything there is to say is in the crew's list.
    Noted,
}

/// One node.
#[derive(Default)]
pub struct Member {
    label: String,
    decoder: Decoder,
    transport: String,
    address: Option<IpAddr>,
    local: bool,
    hello: Option<Hello>,
    /// Where it listens.
    pub listeners: Option<Vec<Listener>>,
    /// Length of its source file.
    source_bytes: u64,
    /// All its links stand.
    pub ready: bool,
    samples: Vec<Sample>,
    progress: VecDeque<Progress>,
    report: Option<NodeReport>,
    /// What it answered to a visitor.
    pub sighting: Option<Sighting>,
    /// Whom it asked to end.
    pub asked: Option<Vec<Asked>>,
    /// It has failed, or its session has ended.
    gone: bool,
    heard: Option<Instant>,
    up_since: Option<Instant>,
    complaints: Vec<String>,
}

/// What addresses are chosen from.
pub struct SeenHost<'crew> {
    /// Facts of the host.
    pub facts: &'crew HostFacts,
    /// Address at which its session arrived.
    pub session: Option<IpAddr>,
    /// Started here.
    pub local: bool,
}

/// All nodes.
pub struct Crew {
    members: Vec<Member>,
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
    /// By when every node has come up or failed, whatever the launcher's own deadlines do.
    up_by: Instant,
    begun: bool,
    start_ns: u64,
    summed: Vec<Progress>,
    seconds: Vec<Second>,
}

/// How long further failures are waited for once the first one came, so that the cause is among them.
const GRACE: Duration = Duration::from_millis(400);
/// How long the last words of nodes are waited for when a run fails.
const LAST_WORDS: Duration = Duration::from_secs(3);
/// Questions per node for a clock offset.
const QUESTIONS: usize = 12;

/// All stages of all waves of the fan-out, and one more.
fn launch_limit(plan: &RunPlan, fanout: usize) -> Duration {
    let all = &plan.deadlines;
    let one = all.resolve_ms + all.connect_ms + all.authenticate_ms + all.deploy_ms + all.start_ms;
    let waves = plan.nodes.len().div_ceil(fanout.max(1)) as u64 + 1;
    Duration::from_millis(one.saturating_mul(waves))
}

impl Crew {
    /// Starts all nodes.
    pub fn start(plan: &RunPlan, hosts: &[Host], conditions: &Conditions) -> Self {
        let (sender, events) = channel();
        let members = plan
            .nodes
            .iter()
            .map(|node| Member {
                label: node.label.clone(),
                local: node.local,
                ..Member::default()
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
            members,
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
            start_ns: 0,
            summed: Vec::new(),
            seconds: Vec::new(),
        }
    }

    /// Sends a message to a node; one that is gone is skipped.
    pub fn send(&self, node: usize, message: &ToNode) {
        if self.members[node].gone {
            return;
        }
        if let Ok(text) = serde_json::to_vec(message) {
            // A full or closed line shows as silence or an ended session.
            self.fleet.send(node, &frame::encode(&text));
        }
    }

    /// A test has been given out: from now on there is something to collect.
    pub fn begin(&mut self) {
        self.begun = true;
        self.summed = vec![Progress::default(); self.members.len()];
        self.seconds.clear();
    }

    /// Whether a test has been given out.
    pub fn has_begun(&self) -> bool {
        self.begun
    }

    /// Notes when the test starts, on the own clock.
    pub fn set_start(&mut self, start_ns: u64) {
        self.start_ns = start_ns;
    }

    /// Where a node listens.
    pub fn listeners(&self, node: usize) -> Option<&Vec<Listener>> {
        self.members[node].listeners.as_ref()
    }

    /// Length of the longest source file in bytes.
    pub fn longest_source(&self) -> u64 {
        self.members
            .iter()
            .map(|member| member.source_bytes)
            .max()
            .unwrap_or(0)
    }

    /// What a node reported.
    pub fn report(&self, node: usize) -> Option<&NodeReport> {
        self.members[node].report.as_ref()
    }

    /// The seconds of the live picture.
    pub fn seconds(&self) -> &[Second] {
        &self.seconds
    }

    /// Hosts as far as they have introduced themselves.
    pub fn seen_hosts(&self) -> Vec<SeenHost<'_>> {
        self.members
            .iter()
            .filter_map(|member| {
                let facts = &member.hello.as_ref()?.facts;
                let session = facts.session_address.or(member.address);
                Some(SeenHost {
                    facts,
                    session,
                    local: member.local,
                })
            })
            .collect()
    }

    /// Hosts for the record.
    pub fn host_records(&self) -> Vec<HostRecord> {
        let facts_of = |member: &Member| {
            member
                .hello
                .as_ref()
                .map(|hello| hello.facts.clone())
                .unwrap_or_default()
        };
        let identities: Vec<String> = self
            .members
            .iter()
            .map(|member| facts_of(member).identity)
            .collect();
        self.members
            .iter()
            .enumerate()
            .map(|(node, member)| HostRecord {
                node: member.label.clone(),
                transport: member.transport.clone(),
                data_address: None,
                interface: None,
                host_index: identities
                    .iter()
                    .position(|other| *other == identities[node])
                    .unwrap_or(node),
                facts: facts_of(member),
            })
            .collect()
    }

    /// Waits until every node has introduced itself or failed; all failures are wanted, not only the first.
    pub fn await_hellos(&mut self, observer: &mut dyn Observer) -> Result<(), Halt> {
        observer.stage(&format!("starting {} nodes", self.members.len()));
        loop {
            self.turn();
            for notice in std::mem::take(&mut self.fresh_notices) {
                observer.notice(&notice);
            }
            self.check_hellos();
            if self.interrupted() {
                return Err(Halt::Noted);
            }
            if self
                .members
                .iter()
                .all(|member| member.gone || member.hello.is_some())
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

    /// The launcher bounds every stage up to the magic word; the hello behind it is bounded here.
    fn check_hellos(&mut self) {
        for node in 0..self.members.len() {
            let member = &self.members[node];
            let never = Instant::now() > self.up_by && member.up_since.is_none();
            if never && !member.gone {
                self.lose(
                    node,
                    TroubleKind::Start,
                    "cannot start: no stage has ended".to_owned(),
                );
                continue;
            }
            let late = member
                .up_since
                .is_some_and(|since| since.elapsed() > self.hello_limit);
            if late && member.hello.is_none() && !member.gone {
                let limit = self.hello_limit.as_secs();
                self.lose(
                    node,
                    TroubleKind::Start,
                    format!("cannot complete the hello: timed out after {limit} s"),
                );
            }
        }
    }

    /// Waits until all nodes satisfy `done`.
    pub fn await_all(
        &mut self,
        what: &str,
        limit_ms: u64,
        done: impl Fn(&Member) -> bool,
    ) -> Result<(), Halt> {
        let until = Instant::now() + Duration::from_millis(limit_ms);
        loop {
            self.turn();
            self.halt_on_trouble()?;
            if self.members.iter().all(&done) {
                return Ok(());
            }
            if Instant::now() > until {
                let late: Vec<String> = self
                    .members
                    .iter()
                    .filter(|member| !done(member))
                    .map(|member| member.label.clone())
                    .collect();
                let what = format!("cannot {what}: timed out after {} s", limit_ms / 1000);
                return Err(Halt::Trouble(Box::new(Trouble {
                    node: launcher::hosts::fold(&late),
                    ..Trouble::own(TroubleKind::Deadline, what)
                })));
            }
        }
    }

    /// Waits until `done` says so.
    pub fn await_condition(
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

    /// Waits for the reports of all nodes and shows the seconds as they pass.
    pub fn await_reports(
        &mut self,
        limit_ms: u64,
        mut show: impl FnMut(&Second),
    ) -> Result<(), Halt> {
        let until = Instant::now() + Duration::from_millis(limit_ms);
        loop {
            self.turn();
            while let Some(second) = self.next_second() {
                show(&second);
                self.seconds.push(second);
            }
            self.halt_on_trouble()?;
            if self.members.iter().all(|member| member.report.is_some()) {
                return Ok(());
            }
            if Instant::now() > until {
                return self.await_all("report", 0, |member| member.report.is_some());
            }
        }
    }

    /// The sums of the next second that all nodes have told.
    fn next_second(&mut self) -> Option<Second> {
        if self.members.iter().any(|member| member.progress.is_empty()) {
            return None;
        }
        let mut second = Second::default();
        for (member, before) in self.members.iter_mut().zip(&mut self.summed) {
            let now = member.progress.pop_front()?;
            let passed = |of: fn(&Progress) -> u64| of(&now).saturating_sub(of(before));
            second
                .received_bytes
                .push(passed(|sums| sums.received_bytes));
            second
                .same_host_bytes
                .push(passed(|sums| sums.same_host_bytes));
            second.own_bytes.push(passed(|sums| sums.own_bytes));
            *before = now;
        }
        second.at_ns = (self.seconds.len() as u64 + 1) * 1_000_000_000;
        Some(second)
    }

    /// Asks every node for its clock and estimates the offsets.
    pub fn measure_offsets(&mut self) -> Result<Vec<Offset>, Halt> {
        for member in &mut self.members {
            member.samples.clear();
        }
        for round in 1..=QUESTIONS {
            for node in 0..self.members.len() {
                self.send(
                    node,
                    &ToNode::Ping {
                        sent_ns: clock::monotonic_ns(),
                    },
                );
            }
            self.await_all("tell its clock", 10_000, |member| {
                member.samples.len() >= round
            })?;
        }
        Ok(self.offsets())
    }

    /// The offsets by the answers there are.
    pub fn offsets(&self) -> Vec<Offset> {
        self.members
            .iter()
            .map(|member| estimate(&member.samples))
            .collect()
    }

    /// Handles what arrives within a short time, whatever was lost. False if the user has asked for the end.
    pub fn look_up(&mut self) -> bool {
        self.turn();
        !self.interrupted()
    }

    /// The node, if it has introduced itself and is not lost.
    pub fn present(&mut self, node: usize) -> Option<&mut Member> {
        let member = self.members.get_mut(node)?;
        (member.hello.is_some() && !member.gone).then_some(member)
    }

    /// What has failed until now.
    pub fn troubles(&self) -> &[Trouble] {
        &self.troubles
    }

    /// Asks all nodes for what they have, after a failure, and waits a bounded time for it.
    pub fn gather_reports(&mut self) {
        for node in 0..self.members.len() {
            self.send(node, &ToNode::Stop);
        }
        let until = Instant::now() + LAST_WORDS;
        while Instant::now() < until
            && self
                .members
                .iter()
                .any(|member| !member.gone && member.report.is_none())
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
        let until = Instant::now() + GRACE;
        while Instant::now() < until {
            self.turn();
        }
        Err(Halt::Noted)
    }

    /// Whether the user or the system has asked for the end; noted once.
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

    /// Adds what halted a stage to the list.
    pub fn note(&mut self, halt: Halt) {
        if let Halt::Trouble(trouble) = halt {
            self.troubles.push(*trouble);
        }
    }

    /// Handles what arrives within a short time and looks for silent nodes.
    fn turn(&mut self) {
        match self.events.recv_timeout(LOOK_UP) {
            Ok((node, event)) => self.handle(node, event),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => std::thread::sleep(LOOK_UP),
        }
        while let Ok((node, event)) = self.events.try_recv() {
            self.handle(node, event);
        }
        self.look_for_silence();
    }

    fn look_for_silence(&mut self) {
        for node in 0..self.members.len() {
            let member = &self.members[node];
            let silent = member
                .heard
                .is_some_and(|heard| heard.elapsed() > self.silence);
            if silent && member.hello.is_some() && !member.gone {
                let what = format!("lost: silent for {} s", self.silence.as_secs());
                self.lose(node, TroubleKind::Lost, what);
                self.fleet.abort(node);
            }
        }
    }

    fn lose(&mut self, node: usize, kind: TroubleKind, what: String) {
        let member = &mut self.members[node];
        member.gone = true;
        let trouble = Trouble {
            kind,
            node: member.label.clone(),
            who: String::new(),
            what,
        };
        self.troubles.push(trouble);
    }

    fn handle(&mut self, node: usize, event: Event) {
        match event {
            Event::Stage(_) => {}
            Event::Notice(text) => {
                let text = format!("{}: {text}", self.members[node].label);
                self.fresh_notices.push(text.clone());
                self.notices.push(text);
            }
            Event::Up {
                transport,
                address,
                noise: _,
            } => {
                let member = &mut self.members[node];
                member.transport = transport;
                member.address = address;
                member.up_since = Some(Instant::now());
                member.heard = Some(Instant::now());
            }
            Event::Bytes(bytes) => self.hear(node, &bytes),
            Event::Complaint(line) => {
                const KEPT: usize = 20;
                let complaints = &mut self.members[node].complaints;
                if complaints.len() < KEPT {
                    // What a host says must not steer the terminal.
                    complaints.push(line.replace(char::is_control, " "));
                }
            }
            Event::Failed(error) => {
                let kind = if error.stage == Stage::Hello {
                    TroubleKind::Version
                } else {
                    TroubleKind::Start
                };
                if !self.members[node].gone {
                    self.lose(node, kind, error.to_string());
                }
            }
            Event::Ended { status, signal } => self.ended(node, status, signal),
        }
    }

    fn ended(&mut self, node: usize, status: Option<i32>, signal: Option<String>) {
        let member = &self.members[node];
        if member.gone {
            return;
        }
        // It has said itself that it was asked to end; how its process went is no news.
        let is_told =
            |trouble: &Trouble| trouble.kind == TroubleKind::Ended && trouble.node == member.label;
        if self.troubles.iter().any(is_told) && signal.is_none() {
            self.members[node].gone = true;
            return;
        }
        let said = member
            .complaints
            .last()
            .map(|line| format!(" ({line})"))
            .unwrap_or_default();
        let kind = if member.hello.is_none() {
            TroubleKind::Start
        } else {
            TroubleKind::Lost
        };
        let (kind, what) = match (status, signal) {
            (_, Some(signal)) => (
                TroubleKind::Killed,
                format!("node status process killed by SIG{signal}"),
            ),
            // A shell between us and the node tells a signal as 128 and its number.
            (Some(code @ 129..=192), None) => (
                TroubleKind::Killed,
                format!("node status process killed by signal {}", code - 128),
            ),
            (Some(code), None) => (
                kind,
                format!("lost: node status process left with code {code}"),
            ),
            (None, None) => (kind, "lost: the session ended".to_owned()),
        };
        self.lose(node, kind, format!("{what}{said}"));
    }

    fn hear(&mut self, node: usize, bytes: &[u8]) {
        let member = &mut self.members[node];
        member.heard = Some(Instant::now());
        member.decoder.push(bytes);
        loop {
            let member = &mut self.members[node];
            let message = match member.decoder.next_message() {
                Ok(Some(message)) => message,
                Ok(None) => return,
                Err(error) => {
                    return self.lose(node, self.kind_of_nonsense(node), error.to_string());
                }
            };
            match serde_json::from_slice(&message) {
                Ok(message) => self.take(node, message),
                Err(error) => {
                    let what = format!("a message is not understood: {error}");
                    return self.lose(node, self.kind_of_nonsense(node), what);
                }
            }
        }
    }

    /// Nonsense instead of a hello is another program; behind a hello, something has broken into the line.
    fn kind_of_nonsense(&self, node: usize) -> TroubleKind {
        match self.members[node].hello {
            None => TroubleKind::Version,
            Some(_) => TroubleKind::Lost,
        }
    }

    fn take(&mut self, node: usize, message: FromNode) {
        let member = &mut self.members[node];
        match message {
            FromNode::Hello(hello) => self.greet(node, *hello),
            FromNode::Prepared {
                listeners,
                source_bytes,
            } => {
                member.listeners = Some(listeners);
                member.source_bytes = source_bytes.unwrap_or(0);
            }
            FromNode::Ready => member.ready = true,
            FromNode::Pong { sent_ns, node_ns } => {
                let received_ns = clock::monotonic_ns();
                member.samples.push(Sample {
                    sent_ns,
                    node_ns,
                    received_ns,
                });
            }
            FromNode::Progress(progress) => {
                const KEPT: usize = 64;
                if member.progress.len() < KEPT {
                    member.progress.push_back(progress);
                }
            }
            FromNode::Alive => {}
            FromNode::Trouble(troubles) => {
                let label = member.label.clone();
                // What a host says must not steer the terminal.
                let clean = |text: &str| text.replace(char::is_control, " ");
                let of_node = |trouble: Trouble| Trouble {
                    kind: trouble.kind,
                    node: label.clone(),
                    who: clean(&trouble.who),
                    what: clean(&trouble.what),
                };
                self.troubles.extend(troubles.into_iter().map(of_node));
            }
            FromNode::Seen(mut sighting) => {
                sighting.clean();
                member.sighting = Some(*sighting);
            }
            FromNode::Asked(asked) => member.asked = Some(asked),
            FromNode::Finished(report) => member.report = Some(*report),
        }
    }

    fn greet(&mut self, node: usize, hello: Hello) {
        let (ours, theirs) = (&self.digest, &hello.digest);
        if hello.wire_version != WIRE_VERSION || ours != theirs {
            let what = format!(
                "another build answers: pipebench {} ({}), this is {} ({}) (remove {} there)",
                hello.version,
                theirs.chars().take(12).collect::<String>(),
                env!("CARGO_PKG_VERSION"),
                ours.chars().take(12).collect::<String>(),
                hello.executable,
            );
            return self.lose(node, TroubleKind::Version, what);
        }
        self.members[node].hello = Some(hello);
    }

    /// Lets all nodes go; what failed and what was noticed until now.
    pub fn dismiss(self) -> (Vec<Trouble>, Vec<String>) {
        for node in 0..self.members.len() {
            self.send(node, &ToNode::End);
        }
        self.heartbeat.end();
        if let Some(fleet) = Arc::into_inner(self.fleet) {
            fleet.finish(LAST_WORDS);
        }
        (self.troubles, self.notices)
    }
}
