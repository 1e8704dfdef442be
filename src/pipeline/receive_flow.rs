//! The receiving end of a link: fills one slot, block after block, from the link.

use crate::buffer::board::EndState;
use crate::buffer::double::OwnBlocks;
use crate::buffer::handshake::Side;
use crate::link::{Link, Ready, Silence};
use crate::plan::Sink;
use crate::plan::lanes::Lane;
use crate::record::{Activity, EndRole, TroubleKind};
use crate::sys::memory::Span;
use crate::sys::pages::Drain;
use crate::wire::block::{BlockError, BlockHeader, HEADER_BYTES};

use super::doorbell::ChildBell;
use super::flow::{Advance, Failure, Flow, Meter, Place, failure, lacking};
use super::resources::NodeResources;

/// The receiving end of one link.
pub(super) struct ReceiveFlow<'resources> {
    resources: &'resources NodeResources,
    lane: Lane,
    link: Link,
    meter: Meter<'resources>,
    silence: Silence,
    /// Source node and slot of every block of this link.
    origin: (u32, u32),
    /// Private blocks; without them, another process drains the slot.
    own: Option<OwnBlocks>,
    /// True if the sender expects an answer once a block was read.
    answers: bool,
    /// The drain for payload that is counted and never copied.
    drain: Option<Drain>,
    stage: Stage,
    /// True if the last read found nothing: all later data arrived after that read.
    is_dry: bool,
    /// Number of the current block.
    t: u64,
    header: Option<BlockHeader>,
    /// Bytes of the current part: received until now, and in total.
    at: usize,
    total: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Before a block.
    Next,
    Header,
    Payload,
    /// Sending the answer that the sender waits for.
    Answer,
    Over,
}

impl<'resources> ReceiveFlow<'resources> {
    /// The receiving end of `lane` over `link`. `own` are private blocks if no other process drains the slot.
    pub(super) fn new(
        resources: &'resources NodeResources,
        lane: Lane,
        link: Link,
        own: Option<OwnBlocks>,
    ) -> Result<Self, Failure> {
        let test = &resources.assignment.test;
        let phase = lane.boundary + 1;
        let last = phase + 1 == test.phases;
        let drain = if last && test.sink == Sink::Discard {
            Some(Drain::new(link.is_tcp()).map_err(lacking)?)
        } else {
            None
        };
        Ok(Self {
            resources,
            lane,
            meter: Meter::new(resources.end(EndRole::Receiver, &lane)),
            silence: Silence::default(),
            origin: resources.origin_of(&lane),
            own,
            answers: test.expects_answers(lane.boundary),
            drain,
            stage: Stage::Next,
            is_dry: true,
            t: 0,
            header: None,
            at: 0,
            total: 0,
            link,
        })
    }

    /// Number of blocks received.
    pub(super) fn came(&self) -> u64 {
        self.t + u64::from(self.stage == Stage::Over)
    }

    fn begin(&mut self) -> Result<Advance, Failure> {
        let shake = self.resources.buffers[self.lane.boundary + 1].handshake();
        if self.own.is_none() && !shake.is_ready(Side::Filler, self.lane.to_slot, self.t) {
            return Ok(Advance::Slot);
        }
        self.meter.turn(Activity::Moving);
        (self.at, self.total) = (0, HEADER_BYTES);
        self.stage = Stage::Header;
        Ok(Advance::Moved)
    }

    fn block(&self) -> Span<'_> {
        match &self.own {
            Some(own) => own.block(self.t),
            None => self.resources.buffers[self.lane.boundary + 1].block(self.lane.to_slot, self.t),
        }
    }

    /// Reads the rest of the current part. `Some(true)` if the part is complete, `None` if no data was available.
    fn pull(&mut self, from: usize) -> Result<Option<bool>, Failure> {
        let left = self.total - self.at;
        self.look_up();
        let moved = match &mut self.drain {
            Some(drain) if self.stage == Stage::Payload => self.link.discard(drain, left),
            _ => self.link.receive(self.block().part(from + self.at, left)),
        };
        self.meter.note_epoch(self.resources, &self.link);
        let moved = moved.map_err(failure)?;
        self.is_dry = moved.is_none();
        let Some(moved) = moved else {
            return Ok(None);
        };
        self.silence.broken();
        self.at += moved;
        if self.stage == Stage::Payload {
            self.meter.end().add_bytes(moved as u64);
        }
        Ok(Some(self.at == self.total))
    }

    fn read_header(&mut self, bell: &mut ChildBell<'resources>) -> Result<Advance, Failure> {
        match self.pull(0)? {
            None => return Ok(Advance::Link(Ready::Read)),
            Some(false) => return Ok(Advance::Moved),
            Some(true) => {}
        }
        let mut head = [0; HEADER_BYTES];
        self.block().read(&mut head);
        let limit = self.resources.assignment.test.block_bytes as u64;
        let header = BlockHeader::decode(&head, limit)
            .and_then(|header| header.expect(self.t))
            .and_then(|header| header.expect_origin(self.origin))
            .map_err(|error| self.invalid(&error))?;
        self.header = Some(header);
        self.at = 0;
        self.total = usize::try_from(header.payload_bytes).unwrap_or(0);
        self.stage = Stage::Payload;
        if self.total == 0 {
            return self.block_came(bell);
        }
        Ok(Advance::Moved)
    }

    fn read_payload(&mut self, bell: &mut ChildBell<'resources>) -> Result<Advance, Failure> {
        match self.pull(HEADER_BYTES)? {
            None => Ok(Advance::Link(Ready::Read)),
            Some(false) => Ok(Advance::Moved),
            Some(true) => self.block_came(bell),
        }
    }

    fn invalid(&self, error: &BlockError) -> Failure {
        (TroubleKind::Invalid, format!("block {}: {error}", self.t))
    }

    fn block_came(&mut self, bell: &mut ChildBell<'resources>) -> Result<Advance, Failure> {
        let buffer = &self.resources.buffers[self.lane.boundary + 1];
        let (slot, t) = (self.lane.to_slot, self.t);
        let last = self.header.is_some_and(|header| header.last);
        if let Some(header) = self.header
            && self.resources.assignment.test.verify.checks(t)
        {
            let body = self.block().part(HEADER_BYTES, self.total);
            header
                .expect_checksum(body.checksum())
                .map_err(|error| self.invalid(&error))?;
        }
        self.meter.end().set_blocks(t + u64::from(!last));
        if self.own.is_none() {
            let shake = buffer.handshake();
            if last {
                shake.end(slot, t + 1);
            }
            shake.post(Side::Filler, slot, t, bell);
        }
        self.stage = Stage::Answer;
        if self.answers {
            return Ok(Advance::Moved);
        }
        Ok(self.go_on())
    }

    fn answer(&mut self) -> Result<Advance, Failure> {
        match self.link.send_bytes(&[1], false) {
            Ok(Some(_)) => Ok(self.go_on()),
            Ok(None) => Ok(Advance::Link(Ready::Write)),
            Err(error) => Err(failure(error)),
        }
    }

    fn go_on(&mut self) -> Advance {
        if self.header.is_some_and(|header| header.last) {
            self.meter.rest(self.t, None);
            self.stage = Stage::Over;
            return Advance::Done;
        }
        self.t += 1;
        self.stage = Stage::Next;
        Advance::Moved
    }
}

impl<'resources> Flow<'resources> for ReceiveFlow<'resources> {
    fn advance(&mut self, bell: &mut ChildBell<'resources>) -> Result<Advance, Failure> {
        match self.stage {
            Stage::Next => self.begin(),
            Stage::Header => self.read_header(bell),
            Stage::Payload => self.read_payload(bell),
            Stage::Answer => self.answer(),
            Stage::Over => Ok(Advance::Done),
        }
    }

    fn place(&self) -> Option<Place<'resources>> {
        let shake = self.resources.buffers[self.lane.boundary + 1].handshake();
        Some((shake, Side::Filler, self.lane.to_slot, self.t))
    }

    fn link(&self) -> &Link {
        &self.link
    }

    fn still_waits(&mut self) -> Result<(), Failure> {
        let silence = self.silence.goes_on(self.link.silence_ns());
        silence.map_err(failure)
    }

    fn turn(&mut self, activity: Activity) {
        self.meter.turn(activity);
    }

    fn links(&mut self) -> Vec<&mut Link> {
        vec![&mut self.link]
    }

    fn look_up(&mut self) {
        match self.stage {
            Stage::Over => {}
            _ if self.is_dry => self.meter.note_epoch(self.resources, &self.link),
            _ => self.meter.note_unread(self.resources, &self.link),
        }
    }

    fn end(self) {
        // The sender watches the link: closing it now tells the sender that everything was taken.
        drop(self.link);
        self.meter.end().set_state(EndState::Finished);
    }

    fn lose(&mut self) {
        self.meter.end().lose();
    }
}
