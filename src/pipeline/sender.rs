//! A sender: empties one slot, block after block, into one link.

use std::os::fd::AsFd;
use std::time::Duration;

use crate::buffer::board::{EndState, LinkEnd};
use crate::buffer::handshake::{Doorbell, Side};
use crate::link::{self, Link, LinkError, Target};
use crate::plan::LinkKind;
use crate::plan::{self, lanes::Lane};
use crate::record::{Activity, EndRole, TroubleKind};
use crate::sys::{clock, process, signals, why};
use crate::wire::block::{BlockHeader, HEADER_BYTES};
use crate::wire::hello::{LinkHello, token_bytes};

use super::phase::ChildBell;
use super::plant::Plant;
use super::source::{self, Source};

/// Life of the sender of `lane`; returns its exit code. Runs in a process of its own.
pub fn live(plant: &Plant, lane: Lane, parent: i32) -> u8 {
    process::set_name(&format!("pb-send-{}.{}", lane.boundary, lane.from_slot));
    signals::unblock_all_but_doorbell();
    process::schedule_as_batch();
    plant.take_place(&lane, lane.from_slot);
    let end = plant
        .board
        .end(EndRole::Sender, lane.boundary, lane.from_slot);
    let mut sender = Sender {
        plant,
        lane,
        end,
        bell: ChildBell::new(plant, parent, lane.to),
        noted: 0,
    };
    match sender.run() {
        Ok(()) => 0,
        Err((kind, _)) if sender.bell.was_peer_lost(kind) => {
            sender.end.turn_to(Activity::Idle);
            sender.end.set_state(EndState::Lost);
            signals::ring(parent);
            0
        }
        Err((kind, what)) => {
            plant.report(kind, &plant.end_name(EndRole::Sender, &lane), &what);
            1
        }
    }
}

struct Sender<'plant> {
    plant: &'plant Plant,
    lane: Lane,
    end: LinkEnd<'plant>,
    bell: ChildBell<'plant>,
    /// Epoch for which the kernel's account was noted.
    noted: u64,
}

type Failure = (TroubleKind, String);

fn failure(error: &LinkError) -> Failure {
    (error.kind(), error.to_string())
}

impl Sender<'_> {
    fn run(&mut self) -> Result<(), Failure> {
        self.end.claim();
        self.end.set_state(EndState::Born);
        let buffer = &self.plant.buffers[self.lane.boundary];
        buffer.populate(self.lane.from_slot);
        let assignment = &self.plant.assignment;
        if self.lane.boundary == 0 && assignment.test.source == plan::Source::Memory {
            source::make_payload(
                buffer,
                self.lane.from_slot,
                assignment.seed,
                assignment.node,
            );
        }
        let link = self.make_link()?;
        self.end.set_state(EndState::Ready);
        let sources = self.lane.boundary == 0 && self.plant.assignment.test.senders_are_sources();
        if sources {
            self.await_start()?;
        }
        let blocks = if sources {
            self.send_own(&link)?
        } else {
            self.send_slots(&link)?
        };
        self.end.set_blocks(blocks);
        self.end.turn_to(Activity::Idle);
        self.end.note(2, link.tcp_info());
        self.end.set_state(EndState::Sent);
        // The node watches whether the drain goes on; this is only the end of its patience.
        let limit = Duration::from_millis(self.plant.assignment.deadlines.longest_drain_ms());
        link.finish(limit, || !self.bell.peer_is_lost())
            .map_err(|error| failure(&error))?;
        self.end.set_state(EndState::Finished);
        Ok(())
    }

    fn make_link(&mut self) -> Result<Link, Failure> {
        let plant = self.plant;
        let assignment = &plant.assignment;
        let deadlines = &assignment.deadlines;
        let silence = Duration::from_millis(deadlines.silence_ms * 3 / 2);
        let kind = assignment.kind_of(&self.lane);
        if kind == LinkKind::Pair {
            let socket = &plant.pairs[self.lane.boundary][self.lane.stream].0;
            let socket = process::take_over(socket.as_fd())
                .map_err(|error| (TroubleKind::Resource, why(&error)))?;
            return Link::new(socket, false, silence).map_err(|error| failure(&error));
        }
        if !self
            .bell
            .sleep_until(deadlines.prepare_ms * 2, || plant.board.book_is_there())
        {
            return Err((TroubleKind::Deadline, "no address book came".to_owned()));
        }
        let hello = LinkHello {
            token: token_bytes(&assignment.token),
            boundary: narrow(self.lane.boundary),
            from: narrow(self.lane.from),
            to: narrow(self.lane.to),
            stream: narrow(self.lane.stream),
            probe_bytes: 0,
        };
        let (boundary, to) = (self.lane.boundary, self.lane.to);
        let rail = assignment.test.rail_of(self.lane.stream);
        let target = match plant.board.address(boundary, to, rail) {
            Some(address) => Target::Tcp {
                from: assignment.rails[rail].address,
                to: address,
            },
            None => Target::Unix(link::unix_name(&assignment.token, to, boundary)),
        };
        let limit = Duration::from_millis(deadlines.connect_ms);
        let options = plant.options(kind);
        link::connect(&target, &hello, &options, limit, silence).map_err(|error| failure(&error))
    }

    /// However long that takes: the launching side may hold a run at its start, and bounds it.
    fn await_start(&mut self) -> Result<(), Failure> {
        while !self.plant.board.has_started() {
            if !self.bell.sleep() {
                return Err((TroubleKind::Peer, "the phase is gone".to_owned()));
            }
        }
        Ok(())
    }

    /// Phase 0 with coupling by block: the slot never changes but for its header.
    fn send_own(&mut self, link: &Link) -> Result<u64, Failure> {
        let plant = self.plant;
        let mut source = Source::open(plant)?;
        let slot = self.lane.from_slot;
        let mut pace = Pace::new(plant, &self.lane, link.is_tcp());
        self.end.turn_to(Activity::Moving);
        for t in 0.. {
            if pace.must_wait(t) {
                self.end.turn_to(Activity::Pacing);
                pace.wait(t, plant, &self.lane);
                self.end.turn_to(Activity::Moving);
            }
            let last = source.ends_at(t);
            let header = source.make(slot, t, last);
            self.send_block(link, t, &header)?;
            if last {
                return Ok(t);
            }
        }
        Ok(0)
    }

    /// Everywhere else: the slot is filled by a receiver, or by phase 0 in lockstep.
    fn send_slots(&mut self, link: &Link) -> Result<u64, Failure> {
        let buffer = &self.plant.buffers[self.lane.boundary];
        let shake = buffer.handshake();
        let slot = self.lane.from_slot;
        let mut pace = Pace::new(self.plant, &self.lane, link.is_tcp());
        for t in 0.. {
            self.end.turn_to(Activity::Waiting);
            if !shake.wait(Side::Drainer, slot, t, &mut self.bell) {
                return Err((TroubleKind::Peer, "the phase is gone".to_owned()));
            }
            if pace.must_wait(t) {
                self.end.turn_to(Activity::Pacing);
                pace.wait(t, self.plant, &self.lane);
            }
            self.end.turn_to(Activity::Moving);
            let mut head = [0; HEADER_BYTES];
            buffer.block(slot, t).read(&mut head);
            let header = BlockHeader::decode(&head, buffer.block_bytes() as u64)
                .and_then(|header| header.expect(t))
                .map_err(|error| (TroubleKind::Bug, format!("slot {slot}: {error}")))?;
            self.send_block(link, t, &header)?;
            shake.post(Side::Drainer, slot, t, &mut self.bell);
            if header.last {
                return Ok(t);
            }
        }
        Ok(0)
    }

    fn send_block(&mut self, link: &Link, t: u64, header: &BlockHeader) -> Result<(), Failure> {
        let payload = usize::try_from(header.payload_bytes).unwrap_or(0);
        let buffer = &self.plant.buffers[self.lane.boundary];
        let span = buffer
            .block(self.lane.from_slot, t)
            .part(0, HEADER_BYTES + payload);
        if header.last {
            // The receiver closes behind this block, and nobody may close before.
            link.expect_open().map_err(|error| failure(&error))?;
        }
        let mut noted = self.noted;
        let sent = link.send_all(span, || {
            note_epoch(self.plant, &self.end, link, &mut noted);
            !self.bell.peer_is_lost()
        });
        sent.map_err(|error| failure(&error))?;
        self.noted = noted;
        self.end.add_bytes(header.payload_bytes);
        self.end.set_blocks(t + u64::from(!header.last));
        note_epoch(self.plant, &self.end, link, &mut self.noted);
        Ok(())
    }
}

/// Notes the kernel's account once for each edge of the window; one load per block otherwise.
pub fn note_epoch(plant: &Plant, end: &LinkEnd<'_>, link: &Link, noted: &mut u64) {
    let epoch = plant.board.epoch();
    if epoch != *noted {
        *noted = epoch;
        end.note(usize::from(epoch >= 2), link.tcp_info());
    }
}

fn narrow(value: usize) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}

/// Holding back on purpose: the rate limit of a Unix socket, and the rule that a same-node chain never runs
/// ahead of the mean of its node's other chains.
struct Pace {
    follows_mean: bool,
    block_ns: u64,
    due_ns: u64,
}

impl Pace {
    fn new(plant: &Plant, lane: &Lane, tcp: bool) -> Self {
        let test = &plant.assignment.test;
        let block_ns = match test.sockets.rate_bits_per_s {
            // TCP is paced by the kernel.
            Some(rate) if !tcp => (test.block_bytes as u64 * 8_000_000_000)
                .checked_div(rate)
                .unwrap_or(0),
            _ => 0,
        };
        let sources = lane.boundary == 0 && test.senders_are_sources();
        let follows_mean = sources && lane.is_own() && plant.assignment.nodes() > 1;
        Self {
            follows_mean,
            block_ns,
            due_ns: 0,
        }
    }

    /// Whether block `t` may have to wait; two comparisons where nothing is paced.
    fn must_wait(&self, t: u64) -> bool {
        (self.follows_mean && t > 0) || self.block_ns > 0
    }

    fn wait(&mut self, t: u64, plant: &Plant, lane: &Lane) {
        const STEP_NS: u64 = 500_000;
        while self.follows_mean && t > mean_of_others(plant, lane) && !plant.board.is_stopping() {
            clock::sleep_until(clock::monotonic_ns() + STEP_NS);
        }
        if self.block_ns > 0 {
            while clock::monotonic_ns() < self.due_ns && !plant.board.is_stopping() {
                const LOOK_UP_NS: u64 = 50_000_000;
                clock::sleep_until(self.due_ns.min(clock::monotonic_ns() + LOOK_UP_NS));
            }
            // A bucket of one block: time that was lost elsewhere is not caught up.
            self.due_ns = clock::monotonic_ns().max(self.due_ns) + self.block_ns;
        }
    }
}

/// Blocks that this node's senders to other nodes have sent on average.
fn mean_of_others(plant: &Plant, lane: &Lane) -> u64 {
    let streams = plant.assignment.test.streams;
    let others = (0..plant.slots()).filter(|slot| slot / streams != lane.to);
    let alive = others.filter(|slot| !plant.board.is_lost(slot / streams));
    let (count, sum) = alive.fold((0, 0), |(count, sum), slot| {
        (
            count + 1,
            sum + plant.board.end(EndRole::Sender, 0, slot).blocks(),
        )
    });
    // Where all others are lost, there is nothing to keep behind.
    u64::checked_div(sum, count).unwrap_or(u64::MAX)
}
