//! One process that drives many flows: each flow runs until it has to wait, and then the next one runs.
//!
//! The engine waits for sockets with mio, and for slots by looking at their counters. If no flow can proceed, the
//! process announces itself as the sleeper of every slot it waits for, looks again, and sleeps until a socket or the
//! doorbell wakes it.

use std::collections::VecDeque;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::Duration;

use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};

use crate::buffer::handshake::Doorbell;
use crate::link::Ready;
use crate::record::Activity;
use crate::sys::{clock, signals};

use super::doorbell::{ChildBell, LOOK_UP_NS};
use super::flow::{Advance, Failure, Flow, failure, lacking, phase_gone};
use super::resources::NodeResources;

/// Steps that a flow can take in one turn: some more than a block needs.
const STEPS: usize = 16;
/// Number of times the process yields before it sleeps for slots.
const LOOKS: usize = 20;
/// Interval between checks of the silence of links that do not move, in nanoseconds.
const SILENCE_NS: u64 = 500_000_000;
const BELL: Token = Token(usize::MAX);

/// Many flows and the events they wait for.
pub(super) struct Engine<'resources, F> {
    resources: &'resources NodeResources,
    bell: ChildBell<'resources>,
    parent: i32,
    members: Vec<Member<F>>,
    /// Number of flows that have not ended.
    open: usize,
    /// Flows that can proceed, by place.
    queue: VecDeque<usize>,
    poll: Poll,
    events: Events,
    doorbell: OwnedFd,
    looked_ns: u64,
    silence_ns: u64,
}

/// A flow in an engine.
struct Member<F> {
    /// `None` once it has ended.
    flow: Option<F>,
    /// Node at the other end of the link.
    peer: usize,
    waits: Waits,
}

enum Waits {
    /// In the queue, or ended.
    Not,
    Slot,
    Link(Ready),
    Held(u64),
    /// It has failed, possibly because its peer was lost. That is known by this time, on the monotonic clock in
    /// nanoseconds.
    Doubt(u64, Failure),
}

/// Place of the flow that failed, if one did, and the reason.
pub(super) type MemberFailure = (Option<usize>, Failure);

impl<'resources, F: Flow<'resources>> Engine<'resources, F> {
    /// Makes an engine for flows, each with the node at its other end.
    pub(super) fn new(
        resources: &'resources NodeResources,
        parent: i32,
        flows: Vec<(F, usize)>,
    ) -> Result<Self, MemberFailure> {
        let lacking = |error: std::io::Error| (None, lacking(error));
        let poll = Poll::new().map_err(lacking)?;
        let doorbell =
            signals::doorbell_descriptor().map_err(|error| lacking(std::io::Error::from(error)))?;
        let registry = poll.registry();
        registry
            .register(
                &mut SourceFd(&doorbell.as_raw_fd()),
                BELL,
                Interest::READABLE,
            )
            .map_err(lacking)?;
        let mut members = Vec::new();
        for (place, (mut flow, peer)) in flows.into_iter().enumerate() {
            for link in flow.links() {
                link.set_nonblocking()
                    .map_err(|error| (Some(place), failure(error)))?;
                registry
                    .register(
                        &mut SourceFd(&link.socket().as_raw_fd()),
                        Token(place),
                        Interest::READABLE | Interest::WRITABLE,
                    )
                    .map_err(lacking)?;
            }
            members.push(Member {
                flow: Some(flow),
                peer,
                waits: Waits::Not,
            });
        }
        let now = clock::monotonic_ns();
        Ok(Self {
            resources,
            bell: ChildBell::new(resources, parent, resources.assignment.run.node),
            parent,
            open: members.len(),
            queue: (0..members.len()).collect(),
            events: Events::with_capacity(members.len().clamp(16, 1024)),
            members,
            poll,
            doorbell,
            looked_ns: now,
            silence_ns: now,
        })
    }

    /// Drives all flows to their ends.
    pub(super) fn run(mut self) -> Result<(), MemberFailure> {
        while self.open > 0 {
            // A round: every flow that can proceed has a turn, and then the engine looks for further ones.
            for _ in 0..self.queue.len() {
                let Some(place) = self.queue.pop_front() else {
                    break;
                };
                self.turn_of(place)
                    .map_err(|failure| (Some(place), failure))?;
            }
            self.queue_filled_slots();
            if self.queue.is_empty() {
                self.wait();
            } else {
                self.hear(Duration::ZERO);
            }
            if clock::monotonic_ns() >= self.looked_ns + LOOK_UP_NS {
                self.look_up()?;
            }
        }
        Ok(())
    }

    fn turn_of(&mut self, place: usize) -> Result<(), Failure> {
        let member = &mut self.members[place];
        let Some(flow) = &mut member.flow else {
            return Ok(());
        };
        for _ in 0..STEPS {
            member.waits = match flow.advance(&mut self.bell) {
                Ok(Advance::Moved) => continue,
                Ok(Advance::Slot) => {
                    flow.turn(Activity::Waiting);
                    Waits::Slot
                }
                Ok(Advance::Link(until)) => Waits::Link(until),
                Ok(Advance::Held(until_ns)) => {
                    flow.turn(Activity::Pacing);
                    Waits::Held(until_ns)
                }
                Ok(Advance::Done) => {
                    if let Some(flow) = member.flow.take() {
                        flow.end();
                        self.open -= 1;
                        signals::ring(self.parent);
                    }
                    Waits::Not
                }
                Err(failure) => match self.resources.doubt_until(failure.0, member.peer) {
                    Some(until) => Waits::Doubt(until, failure),
                    None => return Err(failure),
                },
            };
            return Ok(());
        }
        self.queue.push_back(place);
        Ok(())
    }

    /// Queues flows whose slot is ready for their block, or which have been held back for long enough.
    fn queue_filled_slots(&mut self) {
        let mut now = None;
        for (place, member) in self.members.iter_mut().enumerate() {
            let goes = match &member.waits {
                Waits::Slot => {
                    let at = member.flow.as_ref().and_then(Flow::place);
                    at.is_none_or(|(shake, side, slot, t)| shake.is_ready(side, slot, t))
                }
                Waits::Held(until_ns) => *now.get_or_insert_with(clock::monotonic_ns) >= *until_ns,
                _ => false,
            };
            if goes {
                member.waits = Waits::Not;
                self.queue.push_back(place);
            }
        }
    }

    /// No flow can proceed: yields for a while, and then sleeps.
    fn wait(&mut self) {
        self.hear(Duration::ZERO);
        for _ in 0..LOOKS {
            if !self.queue.is_empty() {
                return;
            }
            std::thread::yield_now();
            self.queue_filled_slots();
        }
        self.for_each_slot(true);
        self.queue_filled_slots();
        if self.queue.is_empty() {
            self.hear(Duration::from_nanos(self.longest_sleep_ns()));
        }
        self.for_each_slot(false);
        self.queue_filled_slots();
    }

    /// Announces this process as the sleeper of every slot that a flow waits for, or withdraws that.
    fn for_each_slot(&self, announce: bool) {
        let own = self.bell.own_number();
        let waiting = self
            .members
            .iter()
            .filter(|member| matches!(member.waits, Waits::Slot));
        let places = waiting.filter_map(|member| member.flow.as_ref().and_then(Flow::place));
        for (shake, side, slot, _) in places {
            if announce {
                shake.announce(side, slot, own);
            } else {
                shake.withdraw(side, slot);
            }
        }
    }

    fn longest_sleep_ns(&self) -> u64 {
        let held = self.members.iter().filter_map(|member| match member.waits {
            Waits::Held(until_ns) => Some(until_ns),
            _ => None,
        });
        held.min().map_or(LOOK_UP_NS, |until_ns| {
            until_ns
                .saturating_sub(clock::monotonic_ns())
                .min(LOOK_UP_NS)
        })
    }

    /// Waits up to `limit` for events of links and of the doorbell. The doorbell only says that slots have to be
    /// looked at.
    fn hear(&mut self, limit: Duration) {
        if self.poll.poll(&mut self.events, Some(limit)).is_err() {
            return; // Interrupted: the caller polls again.
        }
        for event in &self.events {
            if event.token() == BELL {
                while signals::take_signal(&self.doorbell).is_some() {}
                continue;
            }
            let place = event.token().0;
            let closed = event.is_error() || event.is_read_closed() || event.is_write_closed();
            let member = &mut self.members[place];
            let goes = match member.waits {
                Waits::Link(Ready::Read) => event.is_readable() || closed,
                Waits::Link(Ready::Write) => event.is_writable() || closed,
                _ => false,
            };
            if goes {
                member.waits = Waits::Not;
                self.queue.push_back(place);
            }
        }
    }

    /// Checks everything that needs a periodic look: the phase, the window's edges, lost peers, links on which
    /// nothing moves.
    fn look_up(&mut self) -> Result<(), MemberFailure> {
        let now = clock::monotonic_ns();
        self.looked_ns = now;
        if !self.bell.parent_lives() {
            return Err((None, phase_gone()));
        }
        let silence = self.resources.board.has_started() && now >= self.silence_ns + SILENCE_NS;
        if silence {
            self.silence_ns = now;
        }
        for (place, member) in self.members.iter_mut().enumerate() {
            let Some(flow) = &mut member.flow else {
                continue;
            };
            flow.look_up();
            if self.resources.board.is_lost(member.peer) {
                flow.lose();
                member.flow = None;
                self.open -= 1;
                signals::ring(self.parent);
                continue;
            }
            let failed = match &member.waits {
                Waits::Doubt(until, failure) if now > *until => {
                    return Err((Some(place), failure.clone()));
                }
                Waits::Link(_) if silence => flow.still_waits(),
                _ => Ok(()),
            };
            if let Err(failure) = failed {
                match self.resources.doubt_until(failure.0, member.peer) {
                    Some(until) => member.waits = Waits::Doubt(until, failure),
                    None => return Err((Some(place), failure)),
                }
            }
        }
        Ok(())
    }
}
