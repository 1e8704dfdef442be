//! What every link end does: go on as far as it can, and say what it has to wait for.
//!
//! A flow is one link end, or a relay's two, at a certain byte of a certain block. It never waits itself (on a blocking
//! socket the kernel waits for it, for a bounded time): who drives it decides how. [`drive`] is for a process that has
//! one flow and nothing else to do.

use std::time::Duration;

use crate::buffer::board::{EndState, LinkEnd};
use crate::buffer::handshake::{Handshake, Side};
use crate::link::{Link, LinkError, Ready};
use crate::record::{Activity, TroubleKind};
use crate::sys::clock;
use crate::sys::socket::TcpInfo;

use super::phase::ChildBell;
use super::plant::Plant;

/// How far a flow came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Advance {
    /// On: ask again.
    Moved,
    /// To a block that its slot does not have yet; see [`Flow::place`].
    Slot,
    /// To a link that cannot be read or written yet; see [`Flow::link`].
    Link(Ready),
    /// It holds back on purpose until then, by the monotonic clock.
    Held(u64),
    /// To its end.
    Done,
}

/// Why a flow cannot go on.
pub type Failure = (TroubleKind, String);

/// A link's failure in the words of a trouble.
pub fn failure(error: &LinkError) -> Failure {
    (error.kind(), error.to_string())
}

/// A place in a double buffer: whose turn is waited for, as which side, in which slot, for which block.
pub type Place<'plant> = (Handshake<'plant>, Side, usize, u64);

/// A link end, or a relay's two.
pub trait Flow<'plant> {
    /// Goes on by one step, at most one call into the kernel.
    fn advance(&mut self, bell: &mut ChildBell<'plant>) -> Result<Advance, Failure>;

    /// What it waits for after [`Advance::Slot`].
    fn place(&self) -> Option<Place<'plant>>;

    /// Which link it waits for after [`Advance::Link`].
    fn link(&self) -> &Link;

    /// The link can still not be read or written. An error if that has lasted too long.
    fn still_waits(&mut self) -> Result<(), Failure>;

    /// Says what time is spent with until it moves again.
    fn turn(&mut self, activity: Activity);

    /// All its links, for whoever waits for many.
    fn links(&mut self) -> Vec<&mut Link>;

    /// Looks whether the window's edge has passed, however long nothing has moved.
    fn look_up(&mut self);

    /// Behind its last block: closes what is open.
    fn end(self);

    /// The run goes on without its peer.
    fn lose(&mut self);
}

/// Drives one flow to its end.
pub fn drive<'plant>(
    flow: &mut impl Flow<'plant>,
    bell: &mut ChildBell<'plant>,
) -> Result<(), Failure> {
    const LOOK_UP_NS: u64 = 50_000_000;
    let gone = || (TroubleKind::Peer, "the phase is gone".to_owned());
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
                    return Err(gone());
                }
            }
            Advance::Link(_) if bell.peer_is_lost() => return Err(failure(&LinkError::GivenUp)),
            Advance::Link(until) => {
                flow.still_waits()?;
                flow.link().wait(until).map_err(|error| failure(&error))?;
            }
            Advance::Held(until_ns) => {
                flow.turn(Activity::Pacing);
                clock::sleep_until(until_ns.min(clock::monotonic_ns() + LOOK_UP_NS));
                if bell.peer_is_lost() {
                    return Err(failure(&LinkError::GivenUp));
                }
            }
        }
    }
}

/// The meter of a link end: what it does with its time, and the kernel's account at the edges of the window.
pub struct Meter<'plant> {
    end: LinkEnd<'plant>,
    activity: Activity,
    /// Epoch for which the kernel's account was noted.
    noted: u64,
}

impl<'plant> Meter<'plant> {
    /// For an end that is idle.
    pub fn new(end: LinkEnd<'plant>) -> Self {
        Self {
            end,
            activity: Activity::Idle,
            noted: 0,
        }
    }

    /// The words that are written.
    pub fn end(&self) -> LinkEnd<'plant> {
        self.end
    }

    /// Turns to something; the clock is read only if that is something else than before.
    pub fn turn(&mut self, activity: Activity) {
        if self.activity != activity {
            self.activity = activity;
            self.end.turn_to(activity);
        }
    }

    /// Notes the kernel's account once for each edge of the window; one load otherwise.
    pub fn note_epoch(&mut self, plant: &Plant, link: &Link) {
        let epoch = plant.board.epoch();
        if epoch != self.noted {
            self.noted = epoch;
            self.end.note(usize::from(epoch >= 2), link.tcp_info());
        }
    }

    /// The same for a receiver that was not waiting for its link: what is in the socket came before the edge. (An edge that passes
    /// while a read waits finds the socket empty: what the read brings came later.)
    pub fn note_unread(&mut self, plant: &Plant, link: &Link) {
        let epoch = plant.board.epoch();
        if epoch != self.noted {
            self.noted = epoch;
            let account = link.tcp_info().map(|info| TcpInfo {
                unread_bytes: link.unread_bytes(),
                ..info
            });
            self.end.note(usize::from(epoch >= 2), account);
        }
    }

    /// It has moved its last byte.
    pub fn rest(&mut self, blocks: u64, link: Option<&Link>) {
        self.end.set_blocks(blocks);
        self.turn(Activity::Idle);
        self.end.note(2, link.and_then(Link::tcp_info));
    }
}

/// A link end whose peer was lost.
pub fn lose(meter: &mut Meter<'_>) {
    if meter.end().state() < EndState::Finished {
        meter.turn(Activity::Idle);
        meter.end().set_state(EndState::Lost);
    }
}

/// How long a sender waits at most for its receiver to close behind it. The node watches whether the drain goes on; this
/// is only the end of its patience.
pub fn patience(plant: &Plant) -> Duration {
    Duration::from_millis(plant.assignment.deadlines.longest_drain_ms())
}
