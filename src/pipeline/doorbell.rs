//! The doorbell of a sender or receiver: wakes the process and detects that its phase or peer is gone.

use std::time::Duration;

use crate::buffer::board::LinkEnd;
use crate::buffer::handshake::Doorbell;
use crate::record::TroubleKind;
use crate::sys::{clock, process, signals};

use super::resources::NodeResources;

/// Kind and text of the reason why a flow cannot continue.
pub(super) type Failure = (TroubleKind, String);

/// Interval at which a process looks up if nothing rings.
pub(super) const LOOK_UP: Duration = Duration::from_nanos(LOOK_UP_NS);
pub(super) const LOOK_UP_NS: u64 = 50_000_000;

/// Begins a process that moves data, under the name `name`.
pub(super) fn begin(name: &str) {
    process::set_name(name);
    signals::unblock_all_but_doorbell();
    process::schedule_as_batch();
}

/// The doorbell of a sender or receiver.
pub(super) struct ChildBell<'resources> {
    resources: &'resources NodeResources,
    parent: i32,
    peer: usize,
}

impl<'resources> ChildBell<'resources> {
    /// The doorbell for a child of `parent` with a link to or from the node `peer`.
    pub(super) fn new(resources: &'resources NodeResources, parent: i32, peer: usize) -> Self {
        Self {
            resources,
            parent,
            peer,
        }
    }

    /// True if the peer node is lost and the run continues without it.
    pub(super) fn peer_is_lost(&self) -> bool {
        self.resources.board.is_lost(self.peer)
    }

    /// Exit code of a process with `ends` after `done`. It reports a failure under `name`, unless that followed from the loss
    /// of the peer: then the ends are lost, and the run continues.
    pub(super) fn exit_code(
        &mut self,
        done: Result<(), Failure>,
        ends: &[LinkEnd<'_>],
        name: impl FnOnce() -> String,
    ) -> u8 {
        match done {
            Ok(()) => {}
            Err((kind, _)) if self.was_peer_lost(kind) => ends.iter().for_each(LinkEnd::lose),
            Err((kind, what)) => {
                self.resources.report(kind, &name(), &what);
                return 1;
            }
        }
        signals::ring(self.parent);
        0
    }

    /// True if a failure of this kind followed from the loss of the peer. This end notices the loss first, so it
    /// gives the launching side the time that it takes to notice silence.
    fn was_peer_lost(&mut self, kind: TroubleKind) -> bool {
        let Some(until) = self.resources.doubt_until(kind, self.peer) else {
            return false;
        };
        while !self.peer_is_lost() {
            if clock::monotonic_ns() > until || !self.parent_lives() {
                return false;
            }
            signals::wait_doorbell(LOOK_UP);
        }
        true
    }

    /// True while the phase still runs.
    pub(super) fn parent_lives(&self) -> bool {
        process::parent_is(self.parent)
    }

    /// Sleeps until `done` returns true or `limit_ms` milliseconds have passed. True if done; false also if the phase
    /// or the peer is gone.
    pub(super) fn sleep_until(&mut self, limit_ms: u64, mut done: impl FnMut() -> bool) -> bool {
        let until = clock::monotonic_ns() + limit_ms * 1_000_000;
        while !done() {
            if clock::monotonic_ns() > until || !self.sleep() {
                return false;
            }
        }
        true
    }
}

impl Doorbell for ChildBell<'_> {
    fn sleep(&mut self) -> bool {
        signals::wait_doorbell(LOOK_UP);
        self.parent_lives() && !self.peer_is_lost()
    }
}
