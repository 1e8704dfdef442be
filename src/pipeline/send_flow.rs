//! The sending end of a link: drains one slot, block after block, into the link.

use crate::buffer::double::OwnBlocks;
use crate::buffer::handshake::Side;
use crate::link::{Link, LinkError, Ready, Silence};
use crate::plan::Datapath;
use crate::plan::lanes::Lane;
use crate::record::{Activity, EndRole, TroubleKind};
use crate::sys::pages::Pipe;
use crate::wire::block::{BlockHeader, HEADER_BYTES};

use super::doorbell::ChildBell;
use super::flow::{Advance, Closing, Failure, Flow, Meter, Place, failure, lacking};
use super::pace::Pace;
use super::resources::NodeResources;
use super::source::Source;

/// The sending end of one link.
pub(super) struct SendFlow<'resources> {
    resources: &'resources NodeResources,
    lane: Lane,
    link: Link,
    meter: Meter<'resources>,
    pace: Pace,
    silence: Silence,
    feed: Feed<'resources>,
    /// The pipe for sending pages; `None` if bytes are copied.
    pipe: Option<Pipe>,
    /// Number of blocks that the receiver has answered; `None` if it sends no answers. It answers a block once it has
    /// read it, and only then is the block given back.
    answered: Option<u64>,
    stage: Stage,
    /// Number of the current block.
    t: u64,
    last: bool,
    head: [u8; HEADER_BYTES],
    /// Bytes of header and payload: sent until now, and in total.
    at: usize,
    total: usize,
    /// Bytes since the process last let others run; `None` if it never does.
    since_rest: Option<usize>,
}

/// Bytes after which a sender lets others run, which read them from the cache. With fewer, changes of processes cost more than the cache saves:
/// docs/dev/performance.md.
const BYTES_BEFORE_REST: usize = 512 << 10;

/// Source of the blocks.
pub(super) enum Feed<'resources> {
    /// The sending process makes them, in private memory.
    Own(Source<'resources>, OwnBlocks),
    /// The sending process has received them, into private memory.
    Held(OwnBlocks),
    /// Another process fills the slot.
    Slot,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Before a block.
    Next,
    /// Sending a block.
    Moving,
    /// Waiting for answers: too many blocks are unanswered, or the last block was sent.
    Answers,
    /// After the last block: waiting for the receiver to close.
    Closing(Closing),
}

impl<'resources> SendFlow<'resources> {
    /// The sending end of `lane` over `link`.
    pub(super) fn new(
        resources: &'resources NodeResources,
        lane: Lane,
        link: Link,
        feed: Feed<'resources>,
    ) -> Result<Self, Failure> {
        let test = &resources.assignment.test;
        let pipe = match test.datapath {
            Datapath::Copy => None,
            Datapath::Zerocopy => Some(Pipe::new().map_err(lacking)?),
        };
        Ok(Self {
            resources,
            lane,
            meter: Meter::new(resources.end(EndRole::Sender, &lane)),
            pace: Pace::new(resources, &lane, link.is_tcp()),
            silence: Silence::default(),
            feed,
            pipe,
            answered: test.expects_answers(lane.boundary).then_some(0),
            stage: Stage::Next,
            t: 0,
            last: false,
            head: [0; HEADER_BYTES],
            at: 0,
            total: 0,
            since_rest: resources.assignment.gives_way(lane.boundary).then_some(0),
            link,
        })
    }

    /// Number of blocks sent.
    pub(super) fn went(&self) -> u64 {
        self.t
    }

    /// Begins the next block if the slot holds it, pacing lets it go, and no unanswered block uses its memory.
    fn begin(&mut self) -> Result<Advance, Failure> {
        let slot = self.lane.from_slot;
        let buffer = &self.resources.buffers[self.lane.boundary];
        let blocks = match &self.feed {
            Feed::Own(_, blocks) | Feed::Held(blocks) => blocks.count() as u64,
            Feed::Slot => 2,
        };
        if self
            .answered
            .is_some_and(|answered| self.t >= answered + blocks)
        {
            self.stage = Stage::Answers;
            return Ok(Advance::Moved);
        }
        let shared = matches!(self.feed, Feed::Slot);
        if shared && !buffer.handshake().is_ready(Side::Drainer, slot, self.t) {
            return Ok(Advance::Slot);
        }
        if let Some(until_ns) = self.pace.hold(self.t, self.resources) {
            return Ok(Advance::Held(until_ns));
        }
        let header = match &mut self.feed {
            Feed::Own(source, blocks) => {
                let last = source.ends_at(self.t);
                let place = usize::try_from(self.t % blocks.count() as u64).unwrap_or(0);
                let header = source.make(blocks.block(self.t), place, slot, self.t, last);
                self.head = header.encode();
                header
            }
            Feed::Slot | Feed::Held(_) => {
                let block = match &self.feed {
                    Feed::Held(blocks) => blocks.block(self.t),
                    _ => buffer.block(slot, self.t),
                };
                block.read(&mut self.head);
                BlockHeader::decode(&self.head, buffer.block_bytes() as u64)
                    .and_then(|header| header.expect(self.t))
                    .map_err(|error| (TroubleKind::Bug, format!("slot {slot}: {error}")))?
            }
        };
        if header.last && self.answered.is_none() {
            // The receiver closes after this block, and must not have closed before.
            self.link.expect_open().map_err(failure)?;
        }
        self.meter.turn(Activity::Moving);
        self.last = header.last;
        self.at = 0;
        self.total = HEADER_BYTES + usize::try_from(header.payload_bytes).unwrap_or(0);
        self.stage = Stage::Moving;
        Ok(Advance::Moved)
    }

    fn push(&mut self, bell: &mut ChildBell<'resources>) -> Result<Advance, Failure> {
        let left = self.total - self.at;
        let block = match &self.feed {
            Feed::Own(_, blocks) | Feed::Held(blocks) => blocks.block(self.t),
            Feed::Slot => {
                self.resources.buffers[self.lane.boundary].block(self.lane.from_slot, self.t)
            }
        };
        let rest = block.part(self.at, left);
        let moved = match &mut self.pipe {
            None => self.link.send(rest),
            // A copy, since the next block's header overwrites this one.
            Some(_) if self.at < HEADER_BYTES => {
                let more = self.total > HEADER_BYTES;
                self.link.send_bytes(&self.head[self.at..], more)
            }
            Some(pipe) => {
                if pipe.inside() == 0 {
                    pipe.load(rest).map_err(lacking)?;
                }
                let more = pipe.inside() < left;
                self.link.give_pages(pipe, more)
            }
        };
        self.meter.note_epoch(self.resources, &self.link);
        let Some(moved) = moved.map_err(failure)? else {
            return Ok(Advance::Link(Ready::Write));
        };
        self.silence.broken();
        self.at += moved;
        if self.at == self.total {
            self.block_went(bell);
        }
        Ok(Advance::Moved)
    }

    fn block_went(&mut self, bell: &mut ChildBell<'resources>) {
        let end = self.meter.end();
        end.add_bytes((self.total - HEADER_BYTES) as u64);
        end.set_blocks(self.t + u64::from(!self.last));
        if self.answered.is_none() {
            self.give_back(self.t, bell);
        }
        if let Some(bytes) = &mut self.since_rest {
            *bytes += self.total;
            if *bytes >= BYTES_BEFORE_REST {
                *bytes = 0;
                std::thread::yield_now();
            }
        }
        self.t += 1;
        match (self.last, self.answered) {
            (false, _) => self.stage = Stage::Next,
            (true, None) => self.close(),
            (true, Some(_)) => self.stage = Stage::Answers,
        }
    }

    /// Lets the process that fills the slot overwrite block `t`.
    fn give_back(&self, t: u64, bell: &mut ChildBell<'resources>) {
        if matches!(self.feed, Feed::Slot) {
            let shake = self.resources.buffers[self.lane.boundary].handshake();
            shake.post(Side::Drainer, self.lane.from_slot, t, bell);
        }
    }

    /// Reads answers: one byte for each block that the receiver has read.
    fn hear_answers(&mut self, bell: &mut ChildBell<'resources>) -> Result<Advance, Failure> {
        let heard = self.link.receive_bytes(&mut [0; 16]);
        let Some(heard) = heard.map_err(failure)? else {
            self.meter.note_epoch(self.resources, &self.link);
            return Ok(Advance::Link(Ready::Read));
        };
        self.silence.broken();
        let first = self.answered.unwrap_or(0);
        let answered = first + heard as u64;
        if answered > self.t {
            return Err(failure(LinkError::Io(
                std::io::ErrorKind::InvalidData.into(),
            )));
        }
        (first..answered).for_each(|t| self.give_back(t, bell));
        self.answered = Some(answered);
        match self.last {
            false => self.stage = Stage::Next,
            true if answered == self.t => self.close(),
            true => {}
        }
        Ok(Advance::Moved)
    }

    fn close(&mut self) {
        let closing = Closing::begin(&mut self.meter, self.t - 1, &self.link);
        self.stage = Stage::Closing(closing);
    }
}

impl<'resources> Flow<'resources> for SendFlow<'resources> {
    fn advance(&mut self, bell: &mut ChildBell<'resources>) -> Result<Advance, Failure> {
        match self.stage {
            Stage::Next => self.begin(),
            Stage::Moving => self.push(bell),
            Stage::Answers => self.hear_answers(bell),
            Stage::Closing(_) => Closing::advance(&self.meter, &self.link),
        }
    }

    fn place(&self) -> Option<Place<'resources>> {
        let shake = self.resources.buffers[self.lane.boundary].handshake();
        Some((shake, Side::Drainer, self.lane.from_slot, self.t))
    }

    fn link(&self) -> &Link {
        &self.link
    }

    fn still_waits(&mut self) -> Result<(), Failure> {
        if let Stage::Closing(closing) = self.stage {
            return closing.still_waits(self.resources);
        }
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
        if !matches!(self.stage, Stage::Closing(_)) {
            self.meter.note_epoch(self.resources, &self.link);
        }
    }

    fn end(self) {}

    fn lose(&mut self) {
        self.meter.end().lose();
    }
}
