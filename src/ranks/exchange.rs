//! Messages that go and come at the same time: one loop moves them all, and never blocks while something moves.

use std::collections::HashMap;

use super::patience::Next;
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
    /// First byte in the window of the other rank that it is about.
    pub place: usize,
    /// Its message has begun to come.
    pub started: bool,
    /// The other rank copies its bytes from where they are; the number under which it says that it has.
    pub lent: Option<u64>,
    pub done: bool,
    pub received_from: usize,
    /// The one it waits for: the last one before it that goes to the same rank, or may be the same message.
    behind: Option<usize>,
}

/// Where its bytes are.
pub enum Way<'bytes> {
    Out(&'bytes [u8]),
    /// Nowhere: it asks for so many.
    Ask(usize),
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

    /// Bytes for the window of a rank.
    pub fn reach(tag: u32, to: usize, place: usize, bytes: &'bytes [u8]) -> Self {
        Self {
            place,
            ..Self::send(to, tag, bytes)
        }
    }

    /// A question for bytes of the window of a rank.
    pub fn ask(tag: u32, to: usize, place: usize, bytes: usize) -> Self {
        Self {
            place,
            ..Self::new(Way::Ask(bytes), From::Rank(to), tag)
        }
    }

    fn new(way: Way<'bytes>, from: From, tag: u32) -> Self {
        Self {
            way,
            from,
            tag,
            at: 0,
            place: 0,
            lent: None,
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
            Way::Out(_) | Way::Ask(_) => 0,
        }
    }

    /// Whether it goes.
    pub fn is_out(&self) -> bool {
        !matches!(self.way, Way::In(_))
    }

    /// Whether it has begun and not ended.
    fn is_under_way(&self) -> bool {
        !self.done && (self.at > 0 || self.started)
    }
}

/// When to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Until {
    /// When this one is done.
    One(usize),
    /// When so many of the first ones are.
    First(usize),
    /// When all are.
    All,
}

impl Until {
    /// Whether it has come.
    fn has_come(self, ops: &[Op<'_>]) -> bool {
        match self {
            Self::One(index) => ops[index].done,
            Self::First(count) => ops[..count].iter().all(|op| op.done),
            Self::All => ops.iter().all(|op| op.done),
        }
    }
}

/// So many messages at a time are compared each with each.
const FEW: usize = 12;

/// Messages that must keep their order are put one behind the other, once and not each time one of them is looked at.
fn line_up(ops: &mut [Op<'_>]) {
    // A message goes after all before it to the same rank; one that comes, after those of the same rank and tag.
    let key = |op: &Op<'_>| match op.is_out() {
        true => (true, op.from, 0),
        false => (false, op.from, op.tag),
    };
    match ops {
        [] | [_] => {}
        // To compare a few costs less than a table of them.
        few if few.len() <= FEW => {
            for index in 1..few.len() {
                let (before, rest) = few.split_at_mut(index);
                let own = key(&rest[0]);
                rest[0].behind = before.iter().rposition(|op| key(op) == own);
            }
        }
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
        self.world.drive(&mut self.ops, Until::One(request.0))?;
        Ok(self.ops[request.0].received())
    }

    /// Waits for one message that comes, and gives its memory back; all others move meanwhile.
    pub fn collect(&mut self, request: Request) -> Result<&'bytes mut [u8], RankError> {
        self.wait(request)?;
        match std::mem::replace(&mut self.ops[request.0].way, Way::In(&mut [])) {
            Way::In(came) => Ok(came),
            Way::Out(_) | Way::Ask(_) => Err(RankError::Broken),
        }
    }

    /// Waits for all messages.
    pub fn wait_all(mut self) -> Result<Vec<Received>, RankError> {
        self.world.drive(&mut self.ops, Until::All)?;
        Ok(self.ops.iter().map(Op::received).collect())
    }
}

impl Drop for Exchange<'_, '_> {
    fn drop(&mut self) {
        self.world.broken |= self.ops.iter().any(Op::is_under_way);
    }
}

impl World {
    /// Moves messages until enough of them are done.
    pub(super) fn drive(&mut self, ops: &mut [Op<'_>], until: Until) -> Result<(), RankError> {
        if self.broken {
            return Err(RankError::Broken);
        }
        line_up(ops);
        let outcome = self.drive_on(ops, until);
        self.broken |= outcome.is_err();
        outcome
    }

    /// Sends what goes at once of a message that waits for no other one.
    pub(super) fn try_now(&mut self, op: &mut Op<'_>) -> Result<(), RankError> {
        if self.broken {
            return Err(RankError::Broken);
        }
        let From::Rank(rank) = op.from else {
            return Err(RankError::Broken);
        };
        let linked = self.peers[rank].is_linked();
        let went = match linked || self.reach(rank)? {
            true => self.peers[rank].push(rank, op, false).map(|_| ()),
            false => Ok(()),
        };
        self.broken |= went.is_err();
        went
    }

    fn drive_on(&mut self, ops: &mut [Op<'_>], until: Until) -> Result<(), RankError> {
        let in_turns = ops.iter().any(|op| !op.is_out());
        loop {
            let mut moved = false;
            let mut open = false;
            for index in 0..ops.len() {
                if !ops[index].done {
                    moved |= self.advance(ops, index, in_turns)?;
                    open |= !ops[index].done;
                }
            }
            if self.window.is_some() {
                moved |= self.answer()?;
            }
            if !open || until.has_come(ops) {
                self.patience.moved();
                self.get_up();
                return Ok(());
            }
            if moved {
                self.patience.moved();
                self.get_up();
            } else {
                self.wait(ops)?;
            }
        }
    }

    fn advance(
        &mut self,
        ops: &mut [Op<'_>],
        index: usize,
        in_turns: bool,
    ) -> Result<bool, RankError> {
        // Messages between two ranks keep their order: what comes later waits, and is served by the first one's call.
        let (out, from) = (ops[index].is_out(), ops[index].from);
        if ops[index].behind.is_some_and(|before| !ops[before].done) {
            return Ok(false);
        }
        match from {
            From::Rank(rank) if out => {
                if !self.peers[rank].is_linked() && !self.reach(rank)? {
                    return Ok(false);
                }
                self.peers[rank].push(rank, &mut ops[index], in_turns)
            }
            From::Rank(rank) => self.peers[rank].pull(rank, ops, index, &mut self.window),
            From::Any if ops[index].started => {
                let rank = ops[index].received_from;
                self.peers[rank].pull(rank, ops, index, &mut self.window)
            }
            From::Any => {
                for rank in 0..self.peers.len() {
                    let moved = self.peers[rank].pull(rank, ops, index, &mut self.window)?;
                    if moved || ops[index].started {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
        }
    }

    /// Gives others what they have asked for of this rank's window; whether anything went.
    fn answer(&mut self) -> Result<bool, RankError> {
        let Some(window) = &self.window else {
            return Ok(false);
        };
        let mut moved = false;
        for (rank, peer) in self.peers.iter_mut().enumerate() {
            if peer.is_asking() {
                moved |= peer.answer(rank, window)?;
            }
        }
        Ok(moved)
    }

    /// Nothing moves: spins, looks around, or sleeps.
    fn wait(&mut self, ops: &[Op<'_>]) -> Result<(), RankError> {
        let lonely = ops.iter().any(|op| !op.done && self.is_unlinked(op));
        match self.patience.nothing() {
            Next::Look if !lonely => Ok(()),
            Next::Look | Next::LookAround => self.meet(),
            // Whoever writes into memory must know that it has to wake this rank, before that looks for the last time.
            Next::Sleep if self.lies_down() => Ok(()),
            Next::Sleep => {
                let ready = self.sleep(ops)?;
                // A bell that goes on ringing would let nobody sleep; the next time it lies down anew.
                self.get_up();
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
            From::Rank(rank) => !self.peers[rank].is_linked(),
            From::Any => true,
        }
    }

    /// Whether it had not lain down before.
    fn lies_down(&mut self) -> bool {
        match &self.home {
            Some((common, place)) if !self.lying => {
                common.lie_down(*place);
                self.lying = true;
                true
            }
            Some(_) | None => false,
        }
    }

    fn get_up(&mut self) {
        if let (true, Some((common, place))) = (self.lying, &self.home) {
            common.get_up(*place);
            self.lying = false;
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
                From::Rank(rank) => self.peers[rank].is_linked(),
                From::Any => true,
            };
            // What was not begun, and cannot be begun, fills a link that nobody reads.
            // What is lent waits for a rank that its node watches.
            op.is_under_way() && op.lent.is_none()
                || (op.is_out() && !op.done && standing && op.at < HEAD_BYTES)
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
