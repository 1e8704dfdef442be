//! Memory of one rank that others write to and read from, without a word of its own (MPI calls it one-sided).
//!
//! Between nodes, and over sockets, the owner's progress engine serves it whenever its rank passes messages: what is put goes from the
//! stream into the window. Ranks with memory in common reach into it by themselves. A fence separates what was done before it from what is
//! done after it: messages between two ranks keep their order, so each says to each that it has nothing more, once all it asked for has come.
//! Whoever has heard that from all has all that was put into its own window; that others have, too, is what a barrier is for where there are
//! more than two, or memory in common.

use crate::plan::collective::Algorithm;
use crate::sys::arena::Buffer;
use crate::wire::rank::MessageHead;

use super::exchange::{Op, Until};
use super::group::Group;
use super::peer::Link;
use super::stream::Stream;
use super::{From, OWN_TAGS, RankError, World, add_floats, ranges};

/// What a message does with a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Use {
    /// It is written there.
    Put,
    /// It is added to what stands there, as 32-bit floats.
    Add,
    /// It asks for what stands there.
    Get,
    /// It is what was asked for.
    Answer,
}

impl Use {
    /// How such messages are known.
    pub fn tag(self) -> u32 {
        OWN_TAGS + 1 + self as u32
    }

    /// What a tag means.
    pub fn of(tag: u32) -> Option<Self> {
        let all = [Self::Put, Self::Add, Self::Get, Self::Answer];
        all.into_iter().find(|own| own.tag() == tag)
    }
}

/// Tag of what says that nothing more will come before a fence.
const FENCE: u32 = OWN_TAGS + 5;

/// The window of this rank.
pub struct Window {
    group: Group,
    memory: Buffer,
    /// For each place of the group where its window is in the memory that it has in common with this rank.
    within: Vec<Option<Inside>>,
}

impl Window {
    /// Some of its bytes, which [`Inside`] has found to be there.
    pub fn part(&self, from: usize, bytes: usize) -> &[u8] {
        &self.memory[from..from + bytes]
    }

    /// The same, to be written.
    pub fn part_mut(&mut self, from: usize, bytes: usize) -> &mut [u8] {
        &mut self.memory[from..from + bytes]
    }

    /// Adds floats to what stands there.
    pub fn add(&mut self, from: usize, floats: &[u8]) {
        add_floats(self.part_mut(from, floats.len()), floats);
    }
}

/// Bytes that are inside of the window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Inside {
    /// The first one.
    pub from: usize,
    /// How many.
    pub bytes: usize,
}

impl Inside {
    /// What a message of a rank is about; an error if that is not in the window, or there is none.
    pub fn of(window: Option<&Window>, rank: usize, head: &MessageHead) -> Result<Self, RankError> {
        let room = window.map_or(0, |window| window.memory.len());
        let numbers = (usize::try_from(head.place), usize::try_from(head.bytes));
        if let (Ok(from), Ok(bytes), true) = (numbers.0, numbers.1, window.is_some())
            && from.checked_add(bytes).is_some_and(|end| end <= room)
        {
            return Ok(Self { from, bytes });
        }
        Err(RankError::Outside {
            rank,
            from: head.place,
            bytes: head.bytes,
            room,
        })
    }
}

/// What one rank does with windows of others until the next fence.
pub struct Access<'world, 'bytes> {
    world: &'world mut World,
    ops: Vec<Op<'bytes>>,
    /// A message did not go at once: those behind it wait for the fence.
    waits: bool,
}

/// Where a piece of another rank's window is.
enum Target {
    /// This rank's own.
    Own,
    /// In memory that this rank has, too, from this byte on.
    Within(usize),
    /// Behind a stream.
    Beyond,
}

impl World {
    /// Makes memory a window for a group. All members call it, each with its own memory; it returns when all windows are there.
    pub fn open_window(&mut self, group: &Group, memory: Buffer) -> Result<(), RankError> {
        if self.window.is_some() {
            return Err(RankError::Broken);
        }
        let place = memory.place().map_or(u64::MAX, |place| place as u64);
        let mut told = [0; 16];
        told[..8].copy_from_slice(&place.to_le_bytes());
        told[8..].copy_from_slice(&(memory.len() as u64).to_le_bytes());
        self.window = Some(Window {
            group: group.clone(),
            memory,
            within: Vec::new(),
        });
        let mut all = vec![0; told.len() * group.size()];
        let blocks = ranges(&vec![told.len(); group.size()]);
        let mut team = self.team(group);
        team.allgather(Algorithm::Bruck, &told, &mut all, &blocks)?;
        let number = |eight: &[u8]| {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(eight);
            usize::try_from(u64::from_le_bytes(bytes)).ok()
        };
        let within = all.chunks_exact(told.len()).enumerate();
        let within = within.map(|(member, told)| {
            // A place means something where memory is the same.
            let peer = &self.peers[group.rank_at(member)];
            let same = matches!(peer.link, Link::Standing(Stream::Memory(_)));
            let (from, bytes) = (number(&told[..8])?, number(&told[8..])?);
            (same && from != usize::MAX).then_some(Inside { from, bytes })
        });
        let within = within.collect();
        if let Some(window) = &mut self.window {
            window.within = within;
        }
        Ok(())
    }

    /// Ends it, and gives its memory back. All members call it, behind their last fence.
    pub fn close_window(&mut self) -> Result<Buffer, RankError> {
        let window = self.window.take().ok_or(RankError::Broken)?;
        // A fence is behind all that anybody wanted of it.
        self.team(&window.group).barrier(Algorithm::Dissemination)?;
        Ok(window.memory)
    }

    /// Makes the pages of all windows that this rank can reach into its own: whoever touches them first would wait for each.
    pub fn touch_windows(&self) {
        if let (Some(window), Some((common, _))) = (&self.window, &self.home) {
            for inside in window.within.iter().flatten() {
                common.region().populate(inside.from, inside.bytes);
            }
        }
    }

    /// The window of this rank, behind a fence.
    pub fn window(&mut self) -> Option<&mut [u8]> {
        self.window.as_mut().map(|window| &mut window.memory[..])
    }

    /// Begins to put and get.
    pub fn access<'world, 'bytes>(&'world mut self) -> Access<'world, 'bytes> {
        Access {
            world: self,
            ops: Vec::new(),
            waits: false,
        }
    }

    /// Nothing of what was done before it is under way when it returns, at any member.
    pub fn fence(&mut self) -> Result<(), RankError> {
        self.access().fence()
    }
}

impl<'bytes> Access<'_, 'bytes> {
    /// Writes into the window of a member, from byte `at` on. The member sees it behind the next fence.
    pub fn put(&mut self, member: usize, at: usize, bytes: &'bytes [u8]) -> Result<(), RankError> {
        let (rank, target) = self.target(member, at, bytes.len())?;
        match (target, &self.world.peers[rank].link) {
            (Target::Own, _) => self.own(at, bytes.len())?.copy_from_slice(bytes),
            (Target::Within(at), Link::Standing(Stream::Memory(rings))) => rings.out.put(at, bytes),
            _ => self.start(Op::reach(Use::Put.tag(), rank, at, bytes))?,
        }
        Ok(())
    }

    /// Reads from the window of a member, from byte `at` on. What it brings is there behind the next fence.
    pub fn get(
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
                self.start(Op::ask(Use::Get.tag(), rank, at, into.len()))?;
                let answer = Op::receive(From::Rank(rank), Use::Answer.tag(), into);
                self.ops.push(answer);
            }
        }
        Ok(())
    }

    /// Adds 32-bit floats to those in the window of a member, from byte `at` on. The owner adds them all, so that none is lost where
    /// several add to the same place.
    pub fn add(&mut self, member: usize, at: usize, floats: &'bytes [u8]) -> Result<(), RankError> {
        let (rank, target) = self.target(member, at, floats.len())?;
        match target {
            Target::Own => add_floats(self.own(at, floats.len())?, floats),
            Target::Within(_) | Target::Beyond => {
                self.start(Op::reach(Use::Add.tag(), rank, at, floats))?;
            }
        }
        Ok(())
    }

    /// Ends it: what was put is there, and what was got has come. All members call it.
    pub fn fence(mut self) -> Result<(), RankError> {
        let group = match &self.world.window {
            Some(window) => window.group.clone(),
            None => return Err(RankError::Broken),
        };
        let own = self.ops.len();
        let others = || (1..group.size()).map(|distance| (group.place() + distance) % group.size());
        // What others want of this rank's window comes in while it waits for their last word.
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
        // Sums go by messages also where all else reaches in directly, and overtakes them.
        let within = |member| {
            let peer = &self.world.peers[group.rank_at(member)];
            matches!(peer.link, Link::Standing(Stream::Memory(_)))
        };
        if group.size() > 2 || others().any(within) {
            self.world.team(&group).barrier(Algorithm::Dissemination)?;
        }
        Ok(())
    }

    /// The rank at a place of the window's group, and where such bytes of its window are.
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

    /// Sends it now as far as that goes; the rest goes at the fence.
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

/// Access that is given up while a message is under way cuts that off, as an [`Exchange`](super::Exchange) does.
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
