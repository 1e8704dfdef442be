//! Memory of one rank that others write to and read from without action of its owner (MPI calls this one-sided).
//!
//! Between nodes, and over sockets, the owner's progress engine serves accesses whenever its rank passes messages: it moves data of a put
//! from the stream into the window. Ranks with shared memory access the window directly. A fence separates the accesses before it from
//! those after it. Messages between two ranks keep their order. So each rank sends each other rank a last message, once all data it
//! requested has arrived. A rank that has received these from all others has everything that was put into its window. With more than two
//! ranks, or with shared memory, a barrier follows: it ensures that the other ranks have everything too.

use crate::plan::collective::Algorithm;
use crate::sys::arena::Buffer;

use super::error::RankError;
use super::group::Group;
use super::op::{From, OWN_TAGS, Op, Until, Way};
use super::peer::Link;
use super::pieces::add_floats;
use super::stream::Stream;
use super::window::{Inside, Use, Window};
use super::world::World;

/// Tag of the last message before a fence.
const FENCE: u32 = OWN_TAGS + 5;

/// Accesses of one rank to windows of others until the next fence.
pub(crate) struct Access<'world, 'bytes> {
    world: &'world mut World,
    ops: Vec<Op<'bytes>>,
    /// True if a message did not go at once: later ones wait for the fence.
    waits: bool,
}

/// Location of a piece of a member's window.
enum Target {
    /// In this rank's own memory.
    Own,
    /// In memory shared with this rank, from this offset on.
    Within(usize),
    /// At the other end of a stream.
    Beyond,
}

impl World {
    /// Makes memory a window for a group. All members call it, each with its own memory. Returns once all windows exist.
    pub(crate) fn open_window(&mut self, group: &Group, memory: Buffer) -> Result<(), RankError> {
        if self.window.is_some() {
            return Err(RankError::Broken);
        }
        let place = memory.place().map_or(u64::MAX, |place| place as u64);
        let told = u128::from(place) | ((memory.len() as u128) << 64);
        self.window = Some(Window {
            group: group.clone(),
            memory,
            within: Vec::new(),
        });
        let all = self.team(group).allgather_few(told.to_le_bytes())?;
        let within = all.into_iter().map(u128::from_le_bytes).enumerate();
        let within = within.map(|(member, told)| {
            // An offset has a meaning only in shared memory.
            let peer = &self.peers[group.rank_at(member)];
            let same = matches!(peer.link, Link::Standing(Stream::Memory(_)));
            let from = usize::try_from(told & u128::from(u64::MAX)).ok()?;
            let bytes = usize::try_from(told >> 64).ok()?;
            (same && from != usize::MAX).then_some(Inside { from, bytes })
        });
        let within = within.collect();
        if let Some(window) = &mut self.window {
            window.within = within;
        }
        Ok(())
    }

    /// Closes the window and returns its memory. All members call it, after their last fence.
    pub(crate) fn close_window(&mut self) -> Result<Buffer, RankError> {
        let window = self.window.take().ok_or(RankError::Broken)?;
        // The last fence has ended all accesses of other ranks.
        self.team(&window.group).barrier(Algorithm::Dissemination)?;
        Ok(window.memory)
    }

    /// Faults in the pages of all windows that this rank accesses directly. Otherwise the first access would wait for each page.
    pub(crate) fn touch_windows(&self) {
        if let (Some(window), Some((shared, _))) = (&self.window, &self.home) {
            for inside in window.within.iter().flatten() {
                shared.region.populate(inside.from, inside.bytes);
            }
        }
    }

    /// The window of this rank, after a fence.
    pub(crate) fn window(&mut self) -> Option<&mut [u8]> {
        self.window.as_mut().map(|window| &mut window.memory[..])
    }

    /// Begins accesses to windows.
    pub(crate) fn access<'world, 'bytes>(&'world mut self) -> Access<'world, 'bytes> {
        Access {
            world: self,
            ops: Vec::new(),
            waits: false,
        }
    }

    /// Returns once all earlier accesses have ended, at all members. All members call it.
    pub(crate) fn fence(&mut self) -> Result<(), RankError> {
        self.access().fence()
    }
}

impl<'bytes> Access<'_, 'bytes> {
    /// Writes into the window of a member, from byte `at` on. The member sees the data after the next fence.
    pub(crate) fn put(
        &mut self,
        member: usize,
        at: usize,
        bytes: &'bytes [u8],
    ) -> Result<(), RankError> {
        let (rank, target) = self.target(member, at, bytes.len())?;
        match (target, &self.world.peers[rank].link) {
            (Target::Own, _) => self.own(at, bytes.len())?.copy_from_slice(bytes),
            (Target::Within(at), Link::Standing(Stream::Memory(rings))) => rings.out.put(at, bytes),
            _ => self.start(Op::reach(Way::Out(bytes), rank, Use::Put.tag(), at))?,
        }
        Ok(())
    }

    /// Reads from the window of a member, from byte `at` on. The data is in `into` after the next fence.
    pub(crate) fn get(
        &mut self,
        member: usize,
        at: usize,
        into: &'bytes mut [u8],
    ) -> Result<(), RankError> {
        let (rank, target) = self.target(member, at, into.len())?;
        match (target, &self.world.peers[rank].link) {
            (Target::Own, _) => into.copy_from_slice(self.own(at, into.len())?),
            (Target::Within(at), Link::Standing(Stream::Memory(rings))) => rings.out.get(at, into),
            _ => {
                let asked = Way::Ask(into.len());
                self.start(Op::reach(asked, rank, Use::Get.tag(), at))?;
                let answer = Op::receive(From::Rank(rank), Use::Answer.tag(), into);
                self.ops.push(answer);
            }
        }
        Ok(())
    }

    /// Adds 32-bit floats to those in the window of a member, from byte `at` on. The owner does all additions, so that none is lost where
    /// several ranks add to the same place.
    pub(crate) fn add(
        &mut self,
        member: usize,
        at: usize,
        floats: &'bytes [u8],
    ) -> Result<(), RankError> {
        let (rank, target) = self.target(member, at, floats.len())?;
        match target {
            Target::Own => add_floats(self.own(at, floats.len())?, floats),
            Target::Within(_) | Target::Beyond => {
                self.start(Op::reach(Way::Out(floats), rank, Use::Add.tag(), at))?;
            }
        }
        Ok(())
    }

    /// Ends the accesses: data of puts is in the windows, and data of gets has arrived. All members call it.
    pub(crate) fn fence(mut self) -> Result<(), RankError> {
        let window = self.world.window.as_ref().ok_or(RankError::Broken)?;
        let group = window.group.clone();
        let own = self.ops.len();
        let others = || (1..group.size()).map(|distance| (group.place() + distance) % group.size());
        // This rank serves accesses to its window while it waits for the last messages of the others.
        for member in others() {
            let from = From::Rank(group.rank_at(member));
            self.ops.push(Op::receive(from, FENCE, &mut []));
        }
        if own > 0 {
            self.world.drive(&mut self.ops, Until::First(own))?;
        }
        for member in others() {
            self.ops.push(Op::send(group.rank_at(member), FENCE, &[]));
        }
        self.world.drive(&mut self.ops, Until::All)?;
        // Additions go as messages even where all other accesses go through shared memory and overtake them.
        let within = |member| {
            let peer = &self.world.peers[group.rank_at(member)];
            matches!(peer.link, Link::Standing(Stream::Memory(_)))
        };
        if group.size() > 2 || others().any(within) {
            self.world.team(&group).barrier(Algorithm::Dissemination)?;
        }
        Ok(())
    }

    /// The rank at a place of the window's group, and the location of these bytes of its window.
    fn target(&self, member: usize, at: usize, bytes: usize) -> Result<(usize, Target), RankError> {
        let window = self.world.window.as_ref().ok_or(RankError::Broken)?;
        let within = window.within.get(member).ok_or(RankError::Broken)?;
        let rank = window.group.rank_at(member);
        if rank == self.world.own {
            return Ok((rank, Target::Own));
        }
        let end = at.checked_add(bytes);
        Ok(match within {
            None => (rank, Target::Beyond),
            Some(there) if end.is_some_and(|end| end <= there.bytes) => {
                (rank, Target::Within(there.from + at))
            }
            Some(there) => return Err(outside(rank, at, bytes, there.bytes)),
        })
    }

    /// Bytes of this rank's own window.
    fn own(&mut self, at: usize, bytes: usize) -> Result<&mut [u8], RankError> {
        let rank = self.world.own;
        let window = self.world.window.as_mut().ok_or(RankError::Broken)?;
        let room = window.memory.len();
        let part = at.checked_add(bytes);
        let part = part.and_then(|end| window.memory.get_mut(at..end));
        part.ok_or_else(|| outside(rank, at, bytes, room))
    }

    /// Sends as much as possible now; the rest goes at the fence.
    fn start(&mut self, mut op: Op<'bytes>) -> Result<(), RankError> {
        if !self.waits {
            self.world.try_now(&mut op)?;
        }
        if !op.done {
            self.waits = true;
            self.ops.push(op);
        }
        Ok(())
    }
}

/// Dropping an access while a message is under way cuts that message off, as with an [`Exchange`](super::exchange::Exchange).
impl Drop for Access<'_, '_> {
    fn drop(&mut self) {
        self.world.broken |= self.ops.iter().any(|op| !op.done);
    }
}

fn outside(rank: usize, from: usize, bytes: usize, room: usize) -> RankError {
    RankError::Outside {
        rank,
        from: from as u64,
        bytes: bytes as u64,
        room,
    }
}

#[cfg(test)]
mod tests;
