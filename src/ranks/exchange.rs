//! Messages that go and come at the same time: one loop moves them all, and never blocks while something moves.

use std::collections::HashMap;

use super::patience::Next;
use super::peer::Link;
use super::{From, RankError, Received, World};
use crate::wire::rank::HEAD_BYTES;

/// A message that is to go or to come.
pub struct Op<'bytes> {
    pub way: Way<'bytes>,
    /// Who it goes to, or may come from.
    pub from: From,
    pub tag: u32,
    /// Bytes that have moved: of payload for what comes, of head and payload for what goes.
    pub at: usize,
    /// Its message has begun to come.
    pub started: bool,
    pub done: bool,
    pub received_from: usize,
    /// The one it waits for: the last one before it that goes to the same rank, or may be the same message.
    behind: Option<usize>,
}

/// Where its bytes are.
pub enum Way<'bytes> {
    Out(&'bytes [u8]),
    In(&'bytes mut [u8]),
}

impl<'bytes> Op<'bytes> {
    /// A message to a rank.
    pub fn send(to: usize, tag: u32, bytes: &'bytes [u8]) -> Self {
        Self::new(Way::Out(bytes), From::Rank(to), tag)
    }

    /// A message from a rank, or from any.
    pub fn receive(from: From, tag: u32, into: &'bytes mut [u8]) -> Self {
        Self::new(Way::In(into), from, tag)
    }

    fn new(way: Way<'bytes>, from: From, tag: u32) -> Self {
        Self {
            way,
            from,
            tag,
            at: 0,
            started: false,
            done: false,
            received_from: 0,
            behind: None,
        }
    }

    /// What came, once it is done.
    pub fn received(&self) -> Received {
        Received {
            from: self.received_from,
            bytes: self.at,
        }
    }

    /// Bytes there is room for.
    pub fn room(&self) -> usize {
        match &self.way {
            Way::In(into) => into.len(),
            Way::Out(_) => 0,
        }
    }

    fn is_out(&self) -> bool {
        matches!(self.way, Way::Out(_))
    }

    /// Whether it has begun and not ended.
    fn is_under_way(&self) -> bool {
        !self.done && (self.at > 0 || self.started)
    }
}

/// Messages that must keep their order are put one behind the other, once and not each time one of them is looked at.
fn line_up(ops: &mut [Op<'_>]) {
    // A message goes after all before it to the same rank; one that comes, after those of the same rank and tag.
    let key = |op: &Op<'_>| match op.is_out() {
        true => (true, op.from, 0),
        false => (false, op.from, op.tag),
    };
    match ops {
        [] | [_] => {}
        [first, second] => second.behind = (key(first) == key(second)).then_some(0),
        many => {
            let mut last = HashMap::with_capacity(many.len());
            for (index, op) in many.iter_mut().enumerate() {
                op.behind = last.insert(key(op), index);
            }
        }
    }
}

/// Messages under way, and what they are waited for by. Whoever drops it while a message is under way cuts that off, and no
/// rank of this process can pass messages any more.
pub struct Exchange<'world, 'bytes> {
    world: &'world mut World,
    ops: Vec<Op<'bytes>>,
}

/// A message of an [`Exchange`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request(usize);

impl<'world, 'bytes> Exchange<'world, 'bytes> {
    pub(super) fn new(world: &'world mut World) -> Self {
        Self {
            world,
            ops: Vec::new(),
        }
    }

    /// Begins to send; the bytes may be written again when it was waited for.
    pub fn start_send(&mut self, to: usize, tag: u32, bytes: &'bytes [u8]) -> Request {
        self.start(Op::send(to, tag, bytes))
    }

    /// Begins to receive.
    pub fn start_receive(&mut self, from: From, tag: u32, into: &'bytes mut [u8]) -> Request {
        self.start(Op::receive(from, tag, into))
    }

    fn start(&mut self, op: Op<'bytes>) -> Request {
        self.ops.push(op);
        Request(self.ops.len() - 1)
    }

    /// Waits for one message; all others move meanwhile.
    pub fn wait(&mut self, request: Request) -> Result<Received, RankError> {
        self.world.drive(&mut self.ops, Some(request.0))?;
        Ok(self.ops[request.0].received())
    }

    /// Waits for all messages.
    pub fn wait_all(mut self) -> Result<Vec<Received>, RankError> {
        self.world.drive(&mut self.ops, None)?;
        Ok(self.ops.iter().map(Op::received).collect())
    }
}

impl Drop for Exchange<'_, '_> {
    fn drop(&mut self) {
        self.world.broken |= self.ops.iter().any(Op::is_under_way);
    }
}

impl World {
    /// Moves messages until one of them is done, or all.
    pub(super) fn drive(
        &mut self,
        ops: &mut [Op<'_>],
        until: Option<usize>,
    ) -> Result<(), RankError> {
        if self.broken {
            return Err(RankError::Broken);
        }
        line_up(ops);
        let outcome = self.drive_on(ops, until);
        self.broken |= outcome.is_err();
        outcome
    }

    fn drive_on(&mut self, ops: &mut [Op<'_>], until: Option<usize>) -> Result<(), RankError> {
        loop {
            let mut moved = false;
            let mut open = false;
            for index in 0..ops.len() {
                if !ops[index].done {
                    moved |= self.advance(ops, index)?;
                    open |= !ops[index].done;
                }
            }
            if !open || until.is_some_and(|index| ops[index].done) {
                self.patience.moved();
                return Ok(());
            }
            if moved {
                self.patience.moved();
            } else {
                self.wait(ops)?;
            }
        }
    }

    fn advance(&mut self, ops: &mut [Op<'_>], index: usize) -> Result<bool, RankError> {
        // Messages between two ranks keep their order: what comes later waits, and is served by the first one's call.
        let (out, from) = (ops[index].is_out(), ops[index].from);
        if ops[index].behind.is_some_and(|before| !ops[before].done) {
            return Ok(false);
        }
        match from {
            From::Rank(rank) if out => {
                if self.peers[rank].socket().is_none() && !self.reach(rank)? {
                    return Ok(false);
                }
                self.peers[rank].push(rank, &mut ops[index])
            }
            From::Rank(rank) => self.peers[rank].pull(rank, ops, index),
            From::Any if ops[index].started => {
                let rank = ops[index].received_from;
                self.peers[rank].pull(rank, ops, index)
            }
            From::Any => {
                for rank in 0..self.peers.len() {
                    if self.peers[rank].pull(rank, ops, index)? || ops[index].started {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
        }
    }

    /// Nothing moves: spins, looks around, or sleeps.
    fn wait(&mut self, ops: &[Op<'_>]) -> Result<(), RankError> {
        let lonely = ops.iter().any(|op| !op.done && self.is_unlinked(op));
        match self.patience.nothing() {
            Next::Look if !lonely => Ok(()),
            Next::Look | Next::LookAround => self.meet(),
            Next::Sleep => {
                let ready = self.sleep(ops)?;
                self.meet()?;
                // What has come meanwhile ends the silence, however long this process was put aside.
                if ready {
                    Ok(())
                } else {
                    self.check_silence(ops)
                }
            }
        }
    }

    /// Whether whoever a message goes to, or may come from, has no link yet.
    fn is_unlinked(&self, op: &Op<'_>) -> bool {
        match op.from {
            From::Rank(rank) => self.peers[rank].socket().is_none(),
            From::Any => true,
        }
    }

    /// A message that has begun must go on; one that has not may take its time, since whoever should send it is watched by
    /// its node.
    fn check_silence(&self, ops: &[Op<'_>]) -> Result<(), RankError> {
        let silent_ns = self.patience.idle_ns();
        if silent_ns < self.meeting.silence_ns() {
            return Ok(());
        }
        let stuck = |op: &&Op<'_>| {
            let standing = match op.from {
                From::Rank(rank) => matches!(self.peers[rank].link, Link::Standing(_)),
                From::Any => true,
            };
            // What was not begun, and cannot be begun, fills a link that nobody reads.
            op.is_under_way() || (op.is_out() && !op.done && standing && op.at < HEAD_BYTES)
        };
        match ops.iter().find(stuck) {
            Some(op) => Err(RankError::Silent {
                rank: match op.from {
                    From::Rank(rank) => rank,
                    From::Any => op.received_from,
                },
                silent_ns,
            }),
            None => Ok(()),
        }
    }
}
