//! A relay that passes pages from one link into the next, through a pipe. It looks at payload only in blocks that are
//! to be verified.
//!
//! The headers tell it where blocks begin and end, and it checks their order and origin. It keeps no block, so its
//! slot has none, and no answers are needed: a page that it sends on came with a packet, and no process writes to it.

use crate::buffer::board::EndState;
use crate::link::{Link, Ready, Silence};
use crate::plan::Verify;
use crate::record::{Activity, EndRole, TroubleKind};
use crate::sys::pages::{Glance, Pipe};
use crate::wire::block::{BlockError, BlockHeader, HEADER_BYTES};

use super::doorbell::ChildBell;
use super::flow::{Advance, Closing, Failure, Flow, Meter, Place, failure, lacking};
use super::pace::Pace;
use super::receiver::Stands;
use super::resources::NodeResources;

/// One relay: the receiving end of a link and the sending end of the next one.
pub(super) struct SpliceRelay<'resources> {
    resources: &'resources NodeResources,
    /// `None` once closed after the last block, while the next link still ends.
    from: Option<Link>,
    to: Link,
    came: Meter<'resources>,
    went: Meter<'resources>,
    pace: Pace,
    silence: Silence,
    origin: (u32, u32),
    pipe: Pipe,
    /// Reads the payload of blocks that are verified; `None` if none are.
    glance: Option<Glance>,
    stage: Stage,
    header: Option<BlockHeader>,
    t: u64,
    last: bool,
    head: [u8; HEADER_BYTES],
    /// Bytes of the header that were received, or sent.
    at: usize,
    /// Bytes of the block's payload: in total, and still to come.
    payload: usize,
    left: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Reading a header.
    Header,
    /// Sending the header once pacing allows it.
    Onward,
    /// Reading payload into the pipe.
    Take,
    /// Sending payload from the pipe.
    Give,
    /// After the last block: waiting for the next link to close.
    Closing(Closing),
}

impl<'resources> SpliceRelay<'resources> {
    /// A relay from the link of `lane` to that of `onward`. Makes both links nonblocking, since one process waits for
    /// both.
    pub(super) fn new(
        resources: &'resources NodeResources,
        (mut from, lane): Stands,
        (mut to, onward): Stands,
    ) -> Result<Self, Failure> {
        from.set_nonblocking().map_err(failure)?;
        to.set_nonblocking().map_err(failure)?;
        let pipe = Pipe::new().map_err(lacking)?;
        let glance = match resources.assignment.test.verify {
            Verify::None => None,
            Verify::Sample | Verify::Full => Some(Glance::new(&pipe).map_err(lacking)?),
        };
        Ok(Self {
            resources,
            came: Meter::new(resources.end(EndRole::Receiver, &lane)),
            went: Meter::new(resources.end(EndRole::Sender, &onward)),
            pace: Pace::new(resources, &onward, to.is_tcp()),
            silence: Silence::default(),
            origin: resources.origin_of(&lane),
            from: Some(from),
            to,
            pipe,
            glance,
            header: None,
            stage: Stage::Header,
            t: 0,
            last: false,
            head: [0; HEADER_BYTES],
            at: 0,
            payload: 0,
            left: 0,
        })
    }

    fn note_epoch(&mut self) {
        if let Some(from) = &self.from {
            self.came.note_epoch(self.resources, from);
        }
        self.went.note_epoch(self.resources, &self.to);
    }

    /// Nothing arrives: the flow waits for the sender.
    fn starved(&mut self) -> Advance {
        self.came.turn(Activity::Moving);
        self.went.turn(Activity::Waiting);
        Advance::Link(Ready::Read)
    }

    /// Nothing can be sent: the reader of the next link holds this one back.
    fn held_back(&mut self) -> Advance {
        self.came.turn(Activity::Waiting);
        self.went.turn(Activity::Moving);
        Advance::Link(Ready::Write)
    }

    fn moves(&mut self) {
        self.silence.broken();
        self.came.turn(Activity::Moving);
        self.went.turn(Activity::Moving);
    }

    fn read_header(&mut self) -> Result<Advance, Failure> {
        let Some(from) = &self.from else {
            return Ok(Advance::Done);
        };
        let moved = from.receive_bytes(&mut self.head[self.at..]);
        self.note_epoch();
        let Some(moved) = moved.map_err(failure)? else {
            return Ok(self.starved());
        };
        self.moves();
        self.at += moved;
        if self.at < HEADER_BYTES {
            return Ok(Advance::Moved);
        }
        let limit = self.resources.assignment.test.block_bytes as u64;
        let header = BlockHeader::decode(&self.head, limit)
            .and_then(|header| header.expect(self.t))
            .and_then(|header| header.expect_origin(self.origin))
            .map_err(|error| self.invalid(&error))?;
        self.header = Some(header);
        self.last = header.last;
        self.payload = usize::try_from(header.payload_bytes).unwrap_or(0);
        self.left = self.payload;
        self.at = 0;
        self.stage = Stage::Onward;
        Ok(Advance::Moved)
    }

    fn invalid(&self, error: &BlockError) -> Failure {
        (TroubleKind::Invalid, format!("block {}: {error}", self.t))
    }

    /// Adds the payload just taken to the checksum of a block that is verified, and checks the sum after the last
    /// byte.
    fn verify(&mut self) -> Result<(), Failure> {
        let Some(glance) = &mut self.glance else {
            return Ok(());
        };
        if !self.resources.assignment.test.verify.checks(self.t) {
            return Ok(());
        }
        glance.add(&self.pipe).map_err(lacking)?;
        if self.left > 0 {
            return Ok(());
        }
        let got = glance.take_sum();
        match self.header.map(|header| header.expect_checksum(got)) {
            Some(Err(error)) => Err(self.invalid(&error)),
            Some(Ok(_)) | None => Ok(()),
        }
    }

    fn send_header(&mut self) -> Result<Advance, Failure> {
        if self.at == 0 {
            if let Some(until_ns) = self.pace.hold(self.t, self.resources) {
                return Ok(Advance::Held(until_ns));
            }
            if self.last {
                self.to.expect_open().map_err(failure)?;
            }
        }
        let more = self.payload > 0;
        let moved = self.to.send_bytes(&self.head[self.at..], more);
        let Some(moved) = moved.map_err(failure)? else {
            return Ok(self.held_back());
        };
        self.moves();
        self.at += moved;
        if self.at == HEADER_BYTES {
            self.at = 0;
            match self.left {
                0 => self.block_passed(),
                _ => self.stage = Stage::Take,
            }
        }
        Ok(Advance::Moved)
    }

    fn take(&mut self) -> Result<Advance, Failure> {
        let Some(from) = &self.from else {
            return Ok(Advance::Done);
        };
        let moved = from.take_pages(&mut self.pipe, self.left);
        self.note_epoch();
        let Some(moved) = moved.map_err(failure)? else {
            return Ok(self.starved());
        };
        self.moves();
        self.came.end().add_bytes(moved as u64);
        self.left -= moved;
        self.verify()?;
        self.stage = Stage::Give;
        Ok(Advance::Moved)
    }

    fn give(&mut self) -> Result<Advance, Failure> {
        let moved = self.to.give_pages(&mut self.pipe, self.left > 0);
        let Some(moved) = moved.map_err(failure)? else {
            self.note_epoch();
            return Ok(self.held_back());
        };
        self.moves();
        self.went.end().add_bytes(moved as u64);
        match (self.pipe.inside(), self.left) {
            (0, 0) => self.block_passed(),
            (0, _) => self.stage = Stage::Take,
            _ => {}
        }
        Ok(Advance::Moved)
    }

    fn block_passed(&mut self) {
        let blocks = self.t + u64::from(!self.last);
        self.came.end().set_blocks(blocks);
        self.went.end().set_blocks(blocks);
        self.stage = Stage::Header;
        if !self.last {
            self.t += 1;
            return;
        }
        self.came.rest(self.t, self.from.as_ref());
        self.from = None;
        self.came.end().set_state(EndState::Finished);
        self.stage = Stage::Closing(Closing::begin(&mut self.went, self.t, &self.to));
    }
}

impl<'resources> Flow<'resources> for SpliceRelay<'resources> {
    fn advance(&mut self, _bell: &mut ChildBell<'resources>) -> Result<Advance, Failure> {
        match self.stage {
            Stage::Header => self.read_header(),
            Stage::Onward => self.send_header(),
            Stage::Take => self.take(),
            Stage::Give => self.give(),
            Stage::Closing(_) => Closing::advance(&self.went, &self.to),
        }
    }

    fn place(&self) -> Option<Place<'resources>> {
        None
    }

    fn link(&self) -> &Link {
        match (self.stage, &self.from) {
            (Stage::Header | Stage::Take, Some(from)) => from,
            _ => &self.to,
        }
    }

    fn still_waits(&mut self) -> Result<(), Failure> {
        if let Stage::Closing(closing) = self.stage {
            return closing.still_waits(self.resources);
        }
        let silence = self.silence.goes_on(self.link().silence_ns());
        silence.map_err(failure)
    }

    fn turn(&mut self, activity: Activity) {
        self.went.turn(activity);
    }

    fn links(&mut self) -> Vec<&mut Link> {
        self.from.iter_mut().chain([&mut self.to]).collect()
    }

    fn look_up(&mut self) {
        if !matches!(self.stage, Stage::Closing(_)) {
            self.note_epoch();
        }
    }

    fn end(self) {}

    fn lose(&mut self) {
        self.came.end().lose();
        self.went.end().lose();
    }
}
