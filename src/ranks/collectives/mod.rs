//! Collective operations of a group: real algorithms, each correct for any number of ranks.
//!
//! All members call the same operation with the same lengths. No message is sent where a length is 0.
//!
//! Read next: [`Team`] for the operations of a group; `plan/collective.rs` for the algorithms and their choice; one file for each kind of
//! operation.

mod allgather;
mod alltoall;
mod barrier;
mod broadcast;
mod fold;
mod gather;
mod reduce;
mod tree;
mod whole;

pub(crate) use reduce::ITEM_BYTES;

use std::ops::Range;

use crate::ranks::error::RankError;
use crate::ranks::group::Group;
use crate::ranks::op::{From, OWN_TAGS, Op, Until};
use crate::ranks::world::World;
use crate::sys::arena::Buffer;

/// A group that performs collective operations, as one of its ranks sees it.
pub(crate) struct Team<'world, 'group> {
    world: &'world mut World,
    group: &'group Group,
}

/// Each kind has its own tag, so that a member that is ahead does not disturb others.
#[derive(Debug, Clone, Copy)]
enum Kind {
    Barrier,
    Broadcast,
    Gather,
    Scatter,
    Allgather,
    Alltoall,
    Reduce,
    Fold,
}

impl Kind {
    fn tag(self) -> u32 {
        OWN_TAGS + 16 + self as u32
    }
}

/// Segments of this size go along a chain: the next member begins while the previous one is still sending.
const SEGMENT_BYTES: usize = 128 << 10;

impl World {
    /// The operations of a group that this rank belongs to.
    pub(crate) fn team<'world, 'group>(
        &'world mut self,
        group: &'group Group,
    ) -> Team<'world, 'group> {
        Team { world: self, group }
    }
}

impl Team<'_, '_> {
    fn size(&self) -> usize {
        self.group.size()
    }

    fn place(&self) -> usize {
        self.group.place()
    }

    fn send<'bytes>(&self, to: usize, kind: Kind, bytes: &'bytes [u8]) -> Op<'bytes> {
        Op::send(self.group.rank_at(to), kind.tag(), bytes)
    }

    fn receive<'bytes>(&self, from: usize, kind: Kind, into: &'bytes mut [u8]) -> Op<'bytes> {
        Op::receive(From::Rank(self.group.rank_at(from)), kind.tag(), into)
    }

    /// Receives of the blocks of all other members into `all`. Blocks are in order and do not overlap; empty ones are not sent.
    fn receive_blocks<'all>(
        &self,
        kind: Kind,
        all: &'all mut [u8],
        blocks: &[Range<usize>],
    ) -> Vec<Op<'all>> {
        let mut rest = all;
        let mut at = 0;
        let mut ops = Vec::with_capacity(2 * blocks.len());
        for (place, block) in blocks.iter().enumerate() {
            let (_, behind) = rest.split_at_mut(block.start - at);
            let (part, behind) = behind.split_at_mut(block.len());
            if place != self.place() && !part.is_empty() {
                ops.push(self.receive(place, kind, part));
            }
            at = block.end;
            rest = behind;
        }
        ops
    }

    fn drive(&mut self, ops: &mut [Op<'_>]) -> Result<(), RankError> {
        self.world.drive(ops, Until::All)
    }

    /// Sends to a member, unless `bytes` is empty.
    fn give(&mut self, kind: Kind, to: usize, bytes: &[u8]) -> Result<(), RankError> {
        self.trade(kind, (to, bytes), (to, &mut []))
    }

    /// Receives from a member, unless `into` is empty.
    fn take(&mut self, kind: Kind, from: usize, into: &mut [u8]) -> Result<(), RankError> {
        self.trade(kind, (from, &[]), (from, into))
    }

    /// Sends to one member and receives from the same or another one, at the same time. Empty messages are not sent.
    fn trade(
        &mut self,
        kind: Kind,
        (to, bytes): (usize, &[u8]),
        (from, into): (usize, &mut [u8]),
    ) -> Result<(), RankError> {
        let (sends, receives) = (!bytes.is_empty(), !into.is_empty());
        let mut ops = [self.receive(from, kind, into), self.send(to, kind, bytes)];
        match (receives, sends) {
            (true, true) => self.drive(&mut ops),
            (true, false) => self.drive(&mut ops[..1]),
            (false, true) => self.drive(&mut ops[1..]),
            (false, false) => Ok(()),
        }
    }

    /// The same, but empty messages are sent too: they signal that a member has arrived.
    fn swap(
        &mut self,
        kind: Kind,
        (to, bytes): (usize, &[u8]),
        (from, into): (usize, &mut [u8]),
    ) -> Result<(), RankError> {
        let mut ops = [self.receive(from, kind, into), self.send(to, kind, bytes)];
        self.drive(&mut ops)
    }

    /// Scratch memory of at least `bytes` bytes, kept from call to call. Nothing reads its contents after a call.
    fn scratch(&mut self, bytes: usize) -> Buffer {
        let scratch = std::mem::take(&mut self.world.scratch);
        if scratch.len() >= bytes {
            return scratch;
        }
        drop(scratch);
        self.world.buffer(bytes)
    }

    fn give_back(&mut self, scratch: Buffer) {
        self.world.scratch = scratch;
    }
}

#[cfg(test)]
mod tests;
