//! The node status process: parent of all processes of its node, and their connection to the launching side.
//!
//! It is single-threaded, because it forks. One loop waits for the control channel, for signals and for failures that its processes report,
//! and does what is due. Read next: [`run`] for the life of a test on a node, [`ranks`] for that of a job of ranks, [`channel`] for the
//! control channel, [`lock`] for one run per host. A visitor asks for a [`census`] instead of a run.

mod census;
mod channel;
mod cost;
mod host_limits;
mod lock;
mod rank;
mod ranks;
mod reading;
mod run;
mod task;

use std::net::IpAddr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;

use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};
use thiserror::Error;

use crate::plan::{Assignment, DataPort, Membership};
use crate::record::{ENDED_FROM_OUTSIDE, HostFacts, Trouble, TroubleKind};
use crate::sys::clock::IdleTimer;
use crate::sys::limits::Rooms;
use crate::sys::signals::{self, Woken};
use crate::sys::{clock, facts, neighbours, process, usage};
use crate::units::show_ns;
use crate::wire::message::{FromNode, Hello, ToNode, WIRE_VERSION};

use channel::Channel;
use lock::HostLock;
use ranks::RankJob;
use run::Run;
use task::Task;

const CONTROL: Token = Token(0);
const SIGNALS: Token = Token(1);
const PROCESSES: Token = Token(2);
const LOCK: Token = Token(3);

/// Interval of heartbeats, both from the launching side and from the node.
const HEARTBEAT_NS: u64 = 1_000_000_000;
/// Silence after which the launching side counts as lost, in milliseconds, until a plan sets another value.
const SILENCE_MS: u64 = 10_000;

/// Reason why a node could not serve.
#[derive(Debug, Error)]
pub(crate) enum NodeError {
    /// The event loop could not be made, or failed.
    #[error("cannot wait for events: {0}")]
    Events(#[from] std::io::Error),
    /// Standard input is a file or missing.
    #[error("standard input is not a control channel (pipebench starts nodes itself)")]
    NoChannel,
    /// Signals could not be received.
    #[error("cannot receive signals: {0}")]
    Signals(#[from] nix::Error),
}

/// Serves the launching side on standard input and output until that side ends the session or is lost, or a signal ends the node.
/// Returns the exit code.
pub(crate) fn serve(digest: String) -> Result<u8, NodeError> {
    signals::block_all();
    process::adopt_orphans();
    process::set_name("pb-node");
    usage::raise_descriptor_limit();
    let signals = signals::signal_descriptor()?;
    let poll = Poll::new()?;
    poll.registry()
        .register(&mut SourceFd(&0), CONTROL, Interest::READABLE)
        .map_err(|_| NodeError::NoChannel)?;
    poll.registry().register(
        &mut SourceFd(&signals.as_raw_fd()),
        SIGNALS,
        Interest::READABLE,
    )?;
    let mut node = Node {
        channel: Channel::open()?,
        poll,
        signals,
        run: None,
        lock: None,
        idle: IdleTimer::default(),
        spoke_ns: clock::monotonic_ns(),
        leaving: None,
        facts: facts::collect(),
        rooms: Rooms::read(),
    };
    node.channel.send(&FromNode::Hello(Box::new(Hello {
        wire_version: WIRE_VERSION,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        digest,
        executable: facts::own_executable(),
        pid: process::own_pid(),
        facts: node.facts.clone(),
    })));
    let code = node.run();
    node.clear();
    node.channel.flush_within(Duration::from_secs(1));
    code
}

struct Node {
    channel: Channel,
    poll: Poll,
    signals: OwnedFd,
    run: Option<Box<dyn Task>>,
    /// The host lock, if this node holds it for its run.
    lock: Option<HostLock>,
    /// Measures how long the launching side has been silent.
    idle: IdleTimer,
    spoke_ns: u64,
    leaving: Option<u8>,
    facts: HostFacts,
    /// Room that the host had before any node of the run made anything. A later reading would lack what other nodes of this host have made
    /// meanwhile, and the check would count their needs again.
    rooms: Rooms,
}

impl Node {
    fn run(&mut self) -> Result<u8, NodeError> {
        let mut events = Events::with_capacity(16);
        while self.leaving.is_none() {
            self.channel.flush();
            match self.poll.poll(&mut events, Some(self.timeout())) {
                Ok(()) => {}
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
            // The loop looks at every source each time: an empty reading is cheap, a lost edge is not.
            self.hear();
            self.take_signals();
            self.with_run(|run| run.hear());
            if let Some(lock) = &self.lock {
                lock.answer();
            }
            self.do_what_is_due();
        }
        Ok(self.leaving.unwrap_or(0))
    }

    fn timeout(&self) -> Duration {
        let now = clock::monotonic_ns();
        let mut until = self.spoke_ns + HEARTBEAT_NS;
        if let Some(due) = self.run.as_ref().and_then(|run| run.next_due_ns(now)) {
            until = until.min(due);
        }
        if self.channel.has_pending() {
            until = until.min(now + 5_000_000);
        }
        Duration::from_nanos(until.saturating_sub(now))
    }

    fn hear(&mut self) {
        loop {
            match self.channel.receive() {
                Ok(Some(message)) => {
                    self.idle.broken();
                    self.obey(message);
                }
                Ok(None) => return,
                // End-of-file or invalid data: there is no launching side left to serve.
                Err(error) => return self.leave(error.to_string(), 0),
            }
        }
    }

    fn obey(&mut self, message: ToNode) {
        match message {
            ToNode::Prepare(assignment) => {
                self.clear();
                let neighbours = neighbours(&assignment);
                let taken = self.take_host(&assignment.run);
                let prepared = taken
                    .and_then(|()| Run::prepare(*assignment, neighbours, &self.facts, &self.rooms));
                self.begin(prepared.map(|run| Box::new(run) as Box<dyn Task>));
            }
            ToNode::PrepareRanks(assignment) => {
                self.clear();
                let taken = self.take_host(&assignment.run);
                let prepared = taken.and_then(|()| RankJob::prepare(*assignment, &self.rooms));
                self.begin(prepared.map(|job| Box::new(job) as Box<dyn Task>));
            }
            // The last messages of the run go out before the answer to the next request.
            ToNode::Stop => {
                self.with_run(|run| run.give_up());
                self.pass_on_messages();
            }
            ToNode::Ping { sent_ns } => {
                self.channel.send(&FromNode::Pong {
                    sent_ns,
                    node_ns: clock::monotonic_ns(),
                });
                self.channel.flush();
            }
            ToNode::Look { ends } => {
                let sighting = Box::new(census::look(ends));
                self.channel.send(&FromNode::Seen(sighting));
            }
            // A busy host refuses the run soon, and another run must not notice this one.
            ToNode::Estimate => {
                let cost = (!lock::is_taken()).then(cost::estimate).flatten();
                self.channel.send(&FromNode::Cost(cost));
            }
            ToNode::EndRun(token) => self.channel.send(&FromNode::Asked(census::end_run(&token))),
            ToNode::Alive => {}
            ToNode::End => self.leaving = Some(0),
            ToNode::Connect(_)
            | ToNode::Go(_)
            | ToNode::Lost { .. }
            | ToNode::Window { .. }
            | ToNode::Series(_)
            | ToNode::RankBook(_)
            | ToNode::Round(_) => self.with_run(|run| run.obey(message)),
        }
    }

    /// Starts the prepared task, or reports why it could not be prepared.
    fn begin(&mut self, prepared: Result<Box<dyn Task>, Trouble>) {
        match prepared {
            Ok(run) => {
                self.watch(run.as_ref(), true);
                self.run = Some(run);
                self.pass_on_messages();
            }
            Err(trouble) => {
                self.channel.send(&FromNode::Trouble(vec![trouble]));
                self.channel.send(&FromNode::Finished(Box::default()));
            }
        }
    }

    /// Takes the host for the run before anything is made, and keeps it from one test of the run to the next.
    fn take_host(&mut self, run: &Membership) -> Result<(), Trouble> {
        if self.lock.is_some() || !lock::is_holder(run) {
            return Ok(());
        }
        let lock = HostLock::take(run)?;
        let fd = lock.descriptor();
        let registered =
            self.poll
                .registry()
                .register(&mut SourceFd(&fd), LOCK, Interest::READABLE);
        debug_assert!(registered.is_ok());
        self.lock = Some(lock);
        Ok(())
    }

    fn with_run(&mut self, act: impl FnOnce(&mut dyn Task)) {
        if let Some(run) = &mut self.run {
            act(run.as_mut());
        }
    }

    /// Starts or stops the wake-ups for messages from processes of the run.
    fn watch(&self, run: &dyn Task, on: bool) {
        let registry = self.poll.registry();
        for descriptor in run.descriptors() {
            let fd = descriptor.as_raw_fd();
            let mut source = SourceFd(&fd);
            let done = if on {
                registry.register(&mut source, PROCESSES, Interest::READABLE)
            } else {
                registry.deregister(&mut source)
            };
            debug_assert!(done.is_ok());
        }
    }

    fn take_signals(&mut self) {
        while let Some(woken) = signals::take_signal(&self.signals) {
            match woken {
                Woken::Child => self.with_run(|run| run.reap()),
                Woken::Doorbell | Woken::Timeout => self.with_run(|run| run.look()),
                Woken::End(signal) => self.end_by(signal),
            }
        }
    }

    fn pass_on_messages(&mut self) {
        if let Some(run) = &mut self.run {
            for message in run.take_messages() {
                self.channel.send(&message);
            }
        }
    }

    fn end_by(&mut self, signal: i32) {
        let what = if signal == ENDED_FROM_OUTSIDE.0 {
            ENDED_FROM_OUTSIDE.1.to_owned()
        } else {
            format!("ended by signal {signal}")
        };
        self.leave(what, u8::try_from(128 + signal).unwrap_or(255));
    }

    /// Leaves early and reports why, so that a launching side that still reads has more than an exit code.
    fn leave(&mut self, why: String, code: u8) {
        if self.leaving.is_some() {
            return;
        }
        let trouble = Trouble {
            who: "node status process".to_owned(),
            ..Trouble::own(TroubleKind::Ended, why)
        };
        self.channel.send(&FromNode::Trouble(vec![trouble]));
        self.with_run(|run| run.give_up());
        self.pass_on_messages();
        self.leaving = Some(code);
    }

    fn do_what_is_due(&mut self) {
        let mut silence_ms = SILENCE_MS;
        if let Some(run) = &mut self.run {
            run.do_what_is_due();
            silence_ms = run.silence_ms();
        }
        self.pass_on_messages();
        let now = clock::monotonic_ns();
        if self.idle.goes_on(now) > silence_ms * 1_000_000 {
            let silent = show_ns(silence_ms * 1_000_000);
            let why = format!("the launching side was silent for {silent}");
            self.leave(why, 0);
        }
        if now - self.spoke_ns >= HEARTBEAT_NS {
            self.spoke_ns = now;
            self.channel.send(&FromNode::Alive);
        }
    }

    /// Ends all processes of the current test.
    fn clear(&mut self) {
        if let Some(run) = self.run.take() {
            self.watch(run.as_ref(), false);
            run.clear();
        }
    }
}

/// Finds which hardware addresses answer for the addresses that an assignment lists.
fn neighbours(assignment: &Assignment) -> Vec<(IpAddr, String)> {
    let rails = assignment.rails.iter().zip(&assignment.neighbours);
    let of_rail = |(rail, asked): (&DataPort, &Vec<IpAddr>)| {
        neighbours::of(rail.address, rail.interface.as_deref(), asked)
    };
    rails.flat_map(of_rail).collect()
}
