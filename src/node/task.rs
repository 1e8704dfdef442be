//! The tasks of a node, as its event loop sees them.

use std::os::fd::BorrowedFd;

use crate::sys::{clock, process};
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
