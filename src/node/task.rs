//! The tasks of a node, as its event loop sees them.

use std::os::fd::BorrowedFd;

use crate::record::{Trouble, TroubleKind};
use crate::sys::clock;
use crate::sys::process::{self, Ending};
use crate::wire::message::{FromNode, ToNode};

/// A task of a node for a run: a test, or a job of ranks.
pub(super) trait Task {
    /// Descriptors on which its processes send messages.
    fn descriptors(&self) -> Vec<BorrowedFd<'_>>;
    /// Executes a message that is meant for it.
    fn obey(&mut self, message: ToNode);
    /// Takes the messages for the launching side.
    fn take_messages(&mut self) -> Vec<FromNode>;
    /// Time at which something is due next, on this host's monotonic clock.
    fn next_due_ns(&self, now_ns: u64) -> Option<u64>;
    /// Does what is due by now.
    fn do_what_is_due(&mut self);
    /// Checks what its processes have done.
    fn look(&mut self);
    /// Reads what its processes have sent.
    fn hear(&mut self);
    /// Reaps child processes that have ended.
    fn reap(&mut self);
    /// Silence after which the launching side counts as lost, in milliseconds.
    fn silence_ms(&self) -> u64;
    /// Ends at once: reports what was measured, and kills the processes that still run.
    fn give_up(&mut self);
    /// Ends and reaps every process.
    fn clear(self: Box<Self>);
}

/// Failures of a task. The node waits a moment after the first one for others, so that the cause is among them.
#[derive(Default)]
pub(super) struct Troubles {
    all: Vec<Trouble>,
    first_ns: Option<u64>,
}

impl Troubles {
    /// Adds a failure, unless there are very many.
    pub(super) fn add(&mut self, trouble: Trouble) {
        const LIMIT: usize = 256;
        if self.all.len() < LIMIT {
            self.first_ns.get_or_insert_with(clock::monotonic_ns);
            self.all.push(trouble);
        }
    }

    /// True if nothing has failed so far.
    pub(super) fn are_none(&self) -> bool {
        self.first_ns.is_none()
    }

    /// Time until which the node waits for further failures, on this host's monotonic clock; `None` without a failure.
    pub(super) fn due_ns(&self) -> Option<u64> {
        /// Time that the node waits for further failures after the first one.
        const GRACE_NS: u64 = 250_000_000;
        self.first_ns.map(|since| since + GRACE_NS)
    }

    /// True if the node has waited long enough for further failures.
    pub(super) fn are_due(&self) -> bool {
        self.due_ns()
            .is_some_and(|due| clock::monotonic_ns() >= due)
    }

    /// Takes the message with all failures, if there are any.
    pub(super) fn take_message(&mut self) -> Option<FromNode> {
        let all = std::mem::take(&mut self.all);
        (!all.is_empty()).then_some(FromNode::Trouble(all))
    }
}

/// Failure of a process that ended or was stopped. `None` if it left in order, or after it had reported why.
pub(super) fn trouble_of(who: String, ending: Ending) -> Option<Trouble> {
    let (kind, what) = match ending {
        Ending::Code(0 | 1) => return None,
        Ending::Code(code) => (TroubleKind::Bug, format!("ended with code {code}")),
        Ending::Signal(signal) => (TroubleKind::Killed, format!("killed by signal {signal}")),
        // A stopped process sends nothing, others wait for it, and its last report never comes.
        Ending::Stopped(signal) => (TroubleKind::Killed, format!("stopped by signal {signal}")),
    };
    Some(Trouble {
        who,
        ..Trouble::own(kind, what)
    })
}

/// Reaps all child processes that were asked to end, orphans of a killed one included, within a bounded time.
pub(super) fn reap_all() {
    const LIMIT_NS: u64 = 3_000_000_000;
    let until = clock::monotonic_ns() + LIMIT_NS;
    while process::has_children() && clock::monotonic_ns() < until {
        if process::reap_one().is_none() {
            clock::sleep_until(clock::monotonic_ns() + 1_000_000);
        }
    }
}
