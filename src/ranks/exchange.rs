//! Messages in both directions at the same time: one loop moves them all, and never blocks while something moves.

use crate::wire::rank::HEAD_BYTES;

use super::error::RankError;
use super::op::{From, Op, Received, Until, Way, line_up};
use super::wait_strategy::Next;
use super::world::World;

/// Messages under way, and the means to wait for them. Dropping it while a message is under way cuts that message off, and no rank of this
/// process can pass messages any more.
pub(crate) struct Exchange<'world, 'bytes> {
    world: &'world mut World,
    ops: Vec<Op<'bytes>>,
}

/// Handle of a message of an [`Exchange`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Request(usize);

impl<'bytes> Exchange<'_, 'bytes> {
    /// Begins to send. The bytes can be written again after a wait for this message.
    pub(crate) fn start_send(&mut self, to: usize, tag: u32, bytes: &'bytes [u8]) -> Request {
        self.start(Op::send(to, tag, bytes))
    }

    /// Begins to receive.
    pub(crate) fn start_receive(
        &mut self,
        from: From,
        tag: u32,
        into: &'bytes mut [u8],
    ) -> Request {
        self.start(Op::receive(from, tag, into))
    }

    fn start(&mut self, op: Op<'bytes>) -> Request {
        self.ops.push(op);
        Request(self.ops.len() - 1)
    }

    /// Waits for one message. All others move meanwhile.
    pub(crate) fn wait(&mut self, request: Request) -> Result<Received, RankError> {
        self.world.drive(&mut self.ops, Until::One(request.0))?;
        Ok(self.ops[request.0].received())
    }

    /// Waits for one received message and returns its buffer. All others move meanwhile. Fails if the message is a send.
    pub(crate) fn collect(&mut self, request: Request) -> Result<&'bytes mut [u8], RankError> {
        self.wait(request)?;
        match std::mem::replace(&mut self.ops[request.0].way, Way::In(&mut [])) {
            Way::In(came) => Ok(came),
            Way::Out(_) | Way::Ask(_) => Err(RankError::Broken),
        }
    }

    /// Waits for all messages. Results are in the order in which the messages were started.
    pub(crate) fn wait_all(mut self) -> Result<Vec<Received>, RankError> {
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
    /// Sends a message. Returns once its bytes are on their way.
    pub(crate) fn send(&mut self, to: usize, tag: u32, bytes: &[u8]) -> Result<(), RankError> {
        self.drive(&mut [Op::send(to, tag, bytes)], Until::All)
    }

    /// Receives a message of at most the length of `into`.
    pub(crate) fn receive(
        &mut self,
        from: From,
        tag: u32,
        into: &mut [u8],
    ) -> Result<Received, RankError> {
        let mut ops = [Op::receive(from, tag, into)];
        self.drive(&mut ops, Until::All)?;
        Ok(ops[0].received())
    }

    /// Sends to one rank and receives from the same or another one, at the same time.
    pub(crate) fn send_and_receive(
        &mut self,
        (to, bytes): (usize, &[u8]),
        (from, into): (From, &mut [u8]),
        tag: u32,
    ) -> Result<Received, RankError> {
        let mut ops = [Op::receive(from, tag, into), Op::send(to, tag, bytes)];
        self.drive(&mut ops, Until::All)?;
        Ok(ops[0].received())
    }

    /// Starts an exchange: messages that move at the same time. The caller waits for them one by one or all together.
    pub(crate) fn exchange<'world, 'bytes>(&'world mut self) -> Exchange<'world, 'bytes> {
        Exchange {
            world: self,
            ops: Vec::new(),
        }
    }

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

    /// Sends as much as possible of a message now. The message must not wait for another one.
    pub(super) fn try_now(&mut self, op: &mut Op<'_>) -> Result<(), RankError> {
        let (From::Rank(rank), false) = (op.from, self.broken) else {
            return Err(RankError::Broken);
        };
        self.reach(rank)?;
        let went = self.peers[rank].push(rank, op, false);
        self.broken |= went.is_err();
        went.map(|_| ())
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
            moved |= self.answer()?;
            if !open || until.has_come(ops) {
                self.waiting.moved();
                self.announce_awake();
                return Ok(());
            }
            if moved {
                self.waiting.moved();
                self.announce_awake();
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
        // Messages between two ranks keep their order: a later one waits, and the call for the first one serves it.
        let (out, from) = (ops[index].is_out(), ops[index].from);
        if ops[index].behind.is_some_and(|before| !ops[before].done) {
            return Ok(false);
        }
        match from {
            From::Rank(rank) if out => {
                self.reach(rank)?;
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

    /// Sends the parts of this rank's window that other ranks have requested. Returns true if any bytes went.
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

    /// Waits after a turn in which nothing moved: spins, looks around, or sleeps.
    fn wait(&mut self, ops: &[Op<'_>]) -> Result<(), RankError> {
        let lonely = ops.iter().any(|op| !op.done && self.is_unlinked(op));
        match self.waiting.nothing() {
            Next::Look if !lonely => Ok(()),
            Next::Look | Next::LookAround => self.meet(),
            // A rank that writes into shared memory must know that it has to wake this rank, before this rank looks for the last time.
            Next::Sleep if self.lies_down() => Ok(()),
            Next::Sleep => {
                let ready = self.sleep(ops)?;
                // A doorbell that keeps ringing would prevent every sleep. Before the next sleep this rank announces it again.
                self.announce_awake();
                self.meet()?;
                // Data that arrived meanwhile ends the silence, however long this process was descheduled.
                if ready {
                    Ok(())
                } else {
                    self.check_silence(ops)
                }
            }
        }
    }

    /// True if the message's destination or source has no link yet.
    fn is_unlinked(&self, op: &Op<'_>) -> bool {
        match op.from {
            From::Rank(rank) => !self.peers[rank].is_linked(),
            From::Any => true,
        }
    }

    /// Announces a sleep in shared memory. Returns true if it was not announced before.
    fn lies_down(&mut self) -> bool {
        match &self.home {
            Some((shared, place)) if !self.asleep => {
                shared.announce_sleep(*place);
                self.asleep = true;
                true
            }
            Some(_) | None => false,
        }
    }

    fn announce_awake(&mut self) {
        if let (true, Some((shared, place))) = (self.asleep, &self.home) {
            shared.announce_awake(*place);
            self.asleep = false;
        }
    }

    /// Fails if a message that has begun makes no progress for too long. A message that has not begun has no limit, since the sender's node
    /// watches the sender.
    fn check_silence(&self, ops: &[Op<'_>]) -> Result<(), RankError> {
        let silent_ns = self.waiting.idle_ns();
        if silent_ns < self.rendezvous.silence_ns() {
            return Ok(());
        }
        let stuck = |op: &&Op<'_>| {
            // A send that cannot begin means a full link that the other rank does not read.
            // A loan waits for a rank that its node watches.
            op.is_under_way() && op.lent.is_none()
                || (op.is_out() && !op.done && !self.is_unlinked(op) && op.at < HEAD_BYTES)
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
