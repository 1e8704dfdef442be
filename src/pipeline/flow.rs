//! The common behaviour of link ends: advance as far as possible, and report what to wait for.
//!
//! A flow is one link end, or a relay's two, at a certain byte of a certain block. It never waits itself (on a
//! blocking socket the kernel waits for it, for a bounded time): the caller that drives it decides how to wait.
//! [`drive`] is for a process that has one flow and nothing else to do.

use crate::buffer::board::{EndState, LinkEnd};
use crate::buffer::handshake::{Handshake, Side};
use crate::link::{Link, LinkError, Ready};
use crate::record::TcpInfo;
use crate::record::{Activity, TroubleKind};
use crate::sys::{clock, why};

pub(super) use super::doorbell::Failure;
use super::doorbell::{ChildBell, LOOK_UP_NS};
use super::resources::NodeResources;

/// Result of one step of a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Advance {
    /// It moved: call again.
    Moved,
    /// It waits until its slot is ready for its block; see [`Flow::place`].
    Slot,
    /// It waits for a link that cannot be read or written yet; see [`Flow::link`].
    Link(Ready),
    /// It holds back on purpose until this time, on the monotonic clock in nanoseconds.
    Held(u64),
    /// It has ended.
    Done,
}

/// Converts a link's failure into that of a flow.
pub(super) fn failure(error: LinkError) -> Failure {
    (error.kind(), error.to_string())
}

/// The failure to get something from the system.
pub(super) fn lacking(error: std::io::Error) -> Failure {
    (TroubleKind::Resource, why(&error))
}

/// The failure of a process whose phase has ended.
pub(super) fn phase_gone() -> Failure {
    (TroubleKind::Peer, "the phase is gone".to_owned())
}

/// A place in a double buffer that a flow waits for: handshake, side, slot and block.
pub(super) type Place<'resources> = (Handshake<'resources>, Side, usize, u64);

/// A link end, or the two ends of a relay.
pub(super) trait Flow<'resources> {
    /// Advances by one step, with at most one call into the kernel.
    fn advance(&mut self, bell: &mut ChildBell<'resources>) -> Result<Advance, Failure>;

    /// The place it waits for after [`Advance::Slot`]; `None` if it uses no slot.
    fn place(&self) -> Option<Place<'resources>>;

    /// The link it waits for after [`Advance::Link`].
    fn link(&self) -> &Link;

    /// Called while the link can still not be read or written. Fails if that has lasted too long.
    fn still_waits(&mut self) -> Result<(), Failure>;

    /// Records the activity on which time is spent until it moves again.
    fn turn(&mut self, activity: Activity);

    /// All its links, for a caller that waits for many.
    fn links(&mut self) -> Vec<&mut Link>;

    /// Checks if the window's edge has passed, even if nothing moves for a long time.
    fn look_up(&mut self);

    /// Closes what is open after the last block.
    fn end(self);

    /// Marks it as lost: the run continues without its peer.
    fn lose(&mut self);
}

/// Drives one flow to its end.
pub(super) fn drive<'resources>(
    flow: &mut impl Flow<'resources>,
    bell: &mut ChildBell<'resources>,
) -> Result<(), Failure> {
    loop {
        match flow.advance(bell)? {
            Advance::Moved => {}
            Advance::Done => return Ok(()),
            Advance::Slot => {
                flow.turn(Activity::Waiting);
                let came = flow
                    .place()
                    .is_some_and(|(shake, side, slot, t)| shake.wait(side, slot, t, bell));
                if !came {
                    return Err(phase_gone());
                }
            }
            Advance::Link(_) if bell.peer_is_lost() => return Err(failure(LinkError::GivenUp)),
            Advance::Link(until) => {
                flow.still_waits()?;
                flow.link().wait(until).map_err(failure)?;
            }
            Advance::Held(until_ns) => {
                flow.turn(Activity::Pacing);
                clock::sleep_until(until_ns.min(clock::monotonic_ns() + LOOK_UP_NS));
                if bell.peer_is_lost() {
                    return Err(failure(LinkError::GivenUp));
                }
            }
        }
    }
}

/// The meter of a link end: time per activity, and the kernel's statistics at the edges of the window.
pub(super) struct Meter<'resources> {
    end: LinkEnd<'resources>,
    activity: Activity,
    /// Epoch for which the kernel's statistics were recorded.
    noted: u64,
}

impl<'resources> Meter<'resources> {
    /// The meter of an idle end.
    pub(super) fn new(end: LinkEnd<'resources>) -> Self {
        Self {
            end,
            activity: Activity::Idle,
            noted: 0,
        }
    }

    /// The link end whose words this meter writes.
    pub(super) fn end(&self) -> LinkEnd<'resources> {
        self.end
    }

    /// Turns to an activity. Reads the clock only if the activity changes.
    pub(super) fn turn(&mut self, activity: Activity) {
        if self.activity != activity {
            self.activity = activity;
            self.end.turn_to(activity);
        }
    }

    /// Records the kernel's statistics once for each edge of the window; costs one load otherwise.
    pub(super) fn note_epoch(&mut self, resources: &NodeResources, link: &Link) {
        let epoch = resources.board.epoch();
        if epoch != self.noted {
            self.noted = epoch;
            self.end.note(usize::from(epoch >= 2), link.tcp_info());
        }
    }

    /// Does the same for a receiver that was not waiting for its link: the data in the socket came before the edge,
    /// and is recorded as unread. (If an edge passes while a read waits, the socket is empty: what the read brings
    /// came later.)
    pub(super) fn note_unread(&mut self, resources: &NodeResources, link: &Link) {
        let epoch = resources.board.epoch();
        if epoch != self.noted {
            self.noted = epoch;
            let account = link.tcp_info().map(|info| TcpInfo {
                unread_bytes: link.unread_bytes(),
                ..info
            });
            self.end.note(usize::from(epoch >= 2), account);
        }
    }

    /// Turns idle after the last byte, and records the final counters.
    pub(super) fn rest(&mut self, blocks: u64, link: Option<&Link>) {
        self.end.set_blocks(blocks);
        self.turn(Activity::Idle);
        self.end.note(2, link.and_then(Link::tcp_info));
    }
}

/// A link after its last block: its sender waits until the receiver has closed it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Closing {
    since_ns: u64,
}

impl Closing {
    /// Records the final counters of an end that has sent `blocks` blocks, and closes its direction of the link.
    pub(super) fn begin(meter: &mut Meter<'_>, blocks: u64, link: &Link) -> Self {
        meter.rest(blocks, Some(link));
        meter.end().set_state(EndState::Sent);
        link.finish_sending();
        Self {
            since_ns: clock::monotonic_ns(),
        }
    }

    /// Looks if the receiver has closed the link.
    pub(super) fn advance(meter: &Meter<'_>, link: &Link) -> Result<Advance, Failure> {
        if !link.is_closed().map_err(failure)? {
            return Ok(Advance::Link(Ready::Read));
        }
        meter.end().set_state(EndState::Finished);
        Ok(Advance::Done)
    }

    /// Fails if the receiver has not closed the link for too long. The node watches the progress of the drain; this is
    /// only the final limit.
    pub(super) fn still_waits(self, resources: &NodeResources) -> Result<(), Failure> {
        let limit_ms = resources.assignment.run.deadlines.longest_drain_ms();
        let limit_ns = limit_ms.saturating_mul(1_000_000);
        if clock::monotonic_ns() - self.since_ns > limit_ns {
            return Err(failure(LinkError::NotTaken(limit_ns)));
        }
        Ok(())
    }
}
