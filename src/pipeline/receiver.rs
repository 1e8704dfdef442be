//! A receiver: fills one slot, block after block, from one link.
//!
//! Which slot is told by the link it accepts: all receivers of a boundary wait at one listener.

use std::cell::Cell;
use std::os::fd::AsFd;
use std::time::Duration;

use crate::buffer::board::{EndState, LinkEnd};
use crate::buffer::handshake::Side;
use crate::link::{self, Ground, Link, LinkError};
use crate::plan::lanes::{self, Lane};
use crate::plan::{LinkKind, Sink};
use crate::record::{Activity, EndRole, TroubleKind};
use crate::sys::socket::Drain;
use crate::sys::{process, signals, why};
use crate::wire::block::{BlockError, BlockHeader, HEADER_BYTES};
use crate::wire::hello::{LinkHello, token_bytes};

use super::phase::ChildBell;
use super::plant::Plant;
use super::sender::note_epoch;

/// Life of a receiver born for `lane`, though it may become that of another lane of the boundary; returns its
/// exit code. Runs in a process of its own.
pub fn live(plant: &Plant, lane: Lane, parent: i32) -> u8 {
    process::set_name(&format!("pb-recv-{}.{}", lane.boundary + 1, lane.to_slot));
    signals::unblock_all_but_doorbell();
    process::schedule_as_batch();
    let (link, lane) = match make_link(plant, lane) {
        Ok(made) => made,
        Err((kind, what)) => {
            // Nobody came whose link this would be.
            plant.report(
                kind,
                &format!("phase {} receiver", lane.boundary + 1),
                &what,
            );
            return 1;
        }
    };
    process::set_name(&format!("pb-recv-{}.{}", lane.boundary + 1, lane.to_slot));
    plant.take_place(&lane, lane.to_slot);
    let end = end_of(plant, &lane);
    let mut receiver = Receiver {
        plant,
        lane,
        end,
        bell: ChildBell::new(plant, parent, lane.from),
        noted: 0,
        origin: origin_of(plant, &lane),
        drain: None,
    };
    match receiver.run(link) {
        Ok(()) => {
            signals::ring(parent);
            0
        }
        Err((kind, _)) if receiver.bell.was_peer_lost(kind) => {
            receiver.end.turn_to(Activity::Idle);
            receiver.end.set_state(EndState::Lost);
            signals::ring(parent);
            0
        }
        Err((kind, what)) => {
            plant.report(kind, &plant.end_name(EndRole::Receiver, &lane), &what);
            1
        }
    }
}

type Failure = (TroubleKind, String);

fn failure(error: &LinkError) -> Failure {
    (error.kind(), error.to_string())
}

/// Takes the socket made for this lane before the fork, or accepts any link of the boundary.
fn make_link(plant: &Plant, lane: Lane) -> Result<(Link, Lane), Failure> {
    let assignment = &plant.assignment;
    let deadlines = &assignment.deadlines;
    let silence = Duration::from_millis(deadlines.silence_ms * 3);
    if assignment.kind_of(&lane) == LinkKind::Pair {
        let socket = process::take_over(plant.pairs[lane.boundary][lane.stream].1.as_fd())
            .map_err(|error| (TroubleKind::Resource, why(&error)))?;
        end_of(plant, &lane).claim();
        return Link::new(socket, false, silence)
            .map(|link| (link, lane))
            .map_err(|e| failure(&e));
    }
    let Some(listener) = plant.listener(&lane) else {
        return Err((TroubleKind::Bug, "no listener was made".to_owned()));
    };
    let ground = Ground {
        listener,
        tcp: assignment.kind_of(&lane) == LinkKind::Tcp,
        hello_limit: Duration::from_millis(deadlines.link_hello_ms),
        limit_ms: deadlines.prepare_ms * 2 + deadlines.connect_ms,
        silence,
    };
    let rail = assignment.test.rail_of(lane.stream);
    let admit = |hello: &LinkHello| admit(plant, lane.boundary, rail, hello);
    let release = |lane: Lane| end_of(plant, &lane).release();
    link::accept(&ground, admit, release, || plant.board.count_stranger())
        .map_err(|error| failure(&error))
}

fn end_of<'plant>(plant: &'plant Plant, lane: &Lane) -> LinkEnd<'plant> {
    let Lane {
        boundary, to_slot, ..
    } = *lane;
    plant.board.end(EndRole::Receiver, boundary, to_slot)
}

/// The lane of a hello of this run, over this rail, that nobody has taken yet.
fn admit(plant: &Plant, boundary: usize, rail: usize, hello: &LinkHello) -> Option<Lane> {
    let assignment = &plant.assignment;
    if hello.token != token_bytes(&assignment.token) {
        return None;
    }
    let lanes = lanes::incoming(
        &assignment.test,
        assignment.nodes(),
        boundary,
        assignment.node,
    );
    let lane = lanes.into_iter().find(|lane| {
        let named = [hello.boundary, hello.from, hello.to, hello.stream];
        let place = [lane.boundary, lane.from, lane.to, lane.stream];
        named
            .iter()
            .zip(place)
            .all(|(named, place)| u64::from(*named) == place as u64)
    })?;
    let ours = assignment.test.rail_of(lane.stream) == rail;
    (ours && end_of(plant, &lane).claim()).then_some(lane)
}

struct Receiver<'plant> {
    plant: &'plant Plant,
    lane: Lane,
    end: LinkEnd<'plant>,
    bell: ChildBell<'plant>,
    noted: u64,
    /// Source node and slot of every block of this link.
    origin: (u32, u32),
    /// Where payload goes that is counted and never copied.
    drain: Option<Drain>,
}

fn origin_of(plant: &Plant, lane: &Lane) -> (u32, u32) {
    let assignment = &plant.assignment;
    let (node, slot) = lanes::origin(&assignment.test, assignment.nodes(), lane);
    let narrow = |value: usize| u32::try_from(value).unwrap_or(u32::MAX);
    (narrow(node), narrow(slot))
}

impl Receiver<'_> {
    fn run(&mut self, link: Link) -> Result<(), Failure> {
        self.plant.buffers[self.lane.boundary + 1].populate(self.lane.to_slot);
        // The link stands; the listener is for the receivers that still wait.
        self.close_listener();
        self.end.set_state(EndState::Ready);
        // Data of a quicker node may arrive before this node's go, and until then silence means nothing.
        while !self.plant.board.has_started() && !link.has_data(Duration::from_millis(50)) {
            if !self.bell.parent_lives() {
                return Err((TroubleKind::Peer, "the phase is gone".to_owned()));
            }
        }
        let blocks = self.receive(&link)?;
        self.end.set_blocks(blocks);
        self.end.turn_to(Activity::Idle);
        self.end.note(2, None);
        drop(link);
        self.end.set_state(EndState::Finished);
        Ok(())
    }

    fn close_listener(&self) {
        if let Some(listener) = self.plant.listener(&self.lane) {
            process::close_own_copy(listener.as_fd());
        }
    }

    /// Reads blocks until the last one; returns how many had a payload to carry.
    fn receive(&mut self, link: &Link) -> Result<u64, Failure> {
        let phase = self.lane.boundary + 1;
        let test = &self.plant.assignment.test;
        // A receiver of the last phase may be its own sink: then it waits for nobody.
        let shared = phase + 1 < test.phases || !test.receivers_are_sinks();
        let buffer = &self.plant.buffers[phase];
        let shake = buffer.handshake();
        let slot = self.lane.to_slot;
        if phase + 1 == test.phases && test.sink == Sink::Discard {
            self.drain = Some(
                Drain::new(link.is_tcp()).map_err(|error| (TroubleKind::Resource, why(&error)))?,
            );
        }
        self.end.turn_to(Activity::Moving);
        for t in 0.. {
            if shared && !shake.is_ready(Side::Filler, slot, t) {
                self.end.turn_to(Activity::Waiting);
                if !shake.wait(Side::Filler, slot, t, &mut self.bell) {
                    return Err((TroubleKind::Peer, "the phase is gone".to_owned()));
                }
                self.end.turn_to(Activity::Moving);
            }
            let header = self.read_block(link, t)?;
            if shared {
                if header.last {
                    shake.end(slot, t + 1);
                }
                shake.post(Side::Filler, slot, t, &mut self.bell);
            }
            if header.last {
                return Ok(t);
            }
        }
        Ok(0)
    }

    fn read_block(&mut self, link: &Link, t: u64) -> Result<BlockHeader, Failure> {
        let buffer = &self.plant.buffers[self.lane.boundary + 1];
        let block = buffer.block(self.lane.to_slot, t);
        let noted = Cell::new(self.noted);
        let look_up = || {
            let mut epoch = noted.get();
            note_epoch(self.plant, &self.end, link, &mut epoch);
            noted.set(epoch);
            !self.bell.peer_is_lost()
        };
        link.receive_all(block.part(0, HEADER_BYTES), |_| (), look_up)
            .map_err(|e| failure(&e))?;
        let invalid = |error: BlockError| (TroubleKind::Invalid, format!("block {t}: {error}"));
        let mut head = [0; HEADER_BYTES];
        block.read(&mut head);
        let header = BlockHeader::decode(&head, buffer.block_bytes() as u64)
            .and_then(|header| header.expect(t))
            .and_then(|header| header.expect_origin(self.origin))
            .map_err(invalid)?;
        let payload = usize::try_from(header.payload_bytes).unwrap_or(0);
        let end = self.end;
        let count = |got: usize| end.add_bytes(got as u64);
        let body = block.part(HEADER_BYTES, payload);
        match &mut self.drain {
            Some(drain) => link.discard_all(body.bytes(), drain, count, look_up),
            None => link.receive_all(body, count, look_up),
        }
        .map_err(|e| failure(&e))?;
        if self.plant.assignment.test.verify.checks(t) {
            header.expect_checksum(body.checksum()).map_err(invalid)?;
        }
        look_up();
        self.noted = noted.get();
        self.end.set_blocks(t + u64::from(!header.last));
        Ok(header)
    }
}
