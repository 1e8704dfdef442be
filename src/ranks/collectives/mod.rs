//! What the members of a group do together: real algorithms, each right for any number of ranks.
//!
//! Read next: [`Team`] for what can be asked of a group; `plan/collective.rs` for the algorithms and which one is chosen; one file for each
//! kind. Members call the same thing with the same lengths; nothing is sent where a length is 0.

mod allgather;
mod alltoall;
mod barrier;
mod broadcast;
mod fold;
mod gather;
mod reduce;

pub use reduce::ITEM_BYTES;

use std::ops::Range;

use super::exchange::{Op, Until};
use crate::sys::arena::Buffer;

use super::group::Group;
use super::{From, OWN_TAGS, RankError, World};

/// The group of a rank at work.
pub struct Team<'world, 'group> {
    world: &'world mut World,
    group: &'group Group,
}

/// Messages of a kind have a tag of their own: whoever is ahead disturbs nobody.
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

/// Longer messages go along a chain in segments of this size: the next one in it begins while the first is still being sent.
const SEGMENT_BYTES: usize = 128 << 10;

impl World {
    /// The members of a group, this rank among them.
    pub fn team<'world, 'group>(&'world mut self, group: &'group Group) -> Team<'world, 'group> {
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

    fn drive(&mut self, ops: &mut [Op<'_>]) -> Result<(), RankError> {
        self.world.drive(ops, Until::All)
    }

    /// Sends to a member, if there is anything to send.
    fn give(&mut self, kind: Kind, to: usize, bytes: &[u8]) -> Result<(), RankError> {
        self.trade(kind, (to, bytes), (to, &mut []))
    }

    /// Receives from a member, if there is anything to come.
    fn take(&mut self, kind: Kind, from: usize, into: &mut [u8]) -> Result<(), RankError> {
        self.trade(kind, (from, &[]), (from, into))
    }

    /// Sends to one member and receives from another, or the same one, at the same time; nothing goes where there is nothing.
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

    /// The same, but messages without bytes go, too: they say that one is there.
    fn swap(
        &mut self,
        kind: Kind,
        (to, bytes): (usize, &[u8]),
        (from, into): (usize, &mut [u8]),
    ) -> Result<(), RankError> {
        let mut ops = [self.receive(from, kind, into), self.send(to, kind, bytes)];
        self.drive(&mut ops)
    }

    /// Memory that nobody looks into afterwards, kept from call to call.
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

/// `bytes` bytes in `parts` parts of whole items of `item` bytes, as even as can be: the first ones have one item more. What is left of an
/// item that is not whole is in the last part.
pub fn split(bytes: usize, item: usize, parts: usize) -> Vec<Range<usize>> {
    let items = bytes / item;
    let (each, more) = (items / parts, items % parts);
    let mut at = 0;
    let mut all: Vec<Range<usize>> = (0..parts)
        .map(|part| {
            let begin = at;
            at += (each + usize::from(part < more)) * item;
            begin..at
        })
        .collect();
    if let Some(last) = all.last_mut() {
        last.end = bytes;
    }
    all
}

/// Ranges of `lengths` bytes, one behind the other.
pub fn ranges(lengths: &[usize]) -> Vec<Range<usize>> {
    let mut at = 0;
    let of = |length: &usize| {
        let begin = at;
        at += length;
        begin..at
    };
    lengths.iter().map(of).collect()
}

/// Two parts of the same memory that do not touch: one to read, one to write.
fn two(all: &mut [u8], read: Range<usize>, write: Range<usize>) -> (&[u8], &mut [u8]) {
    if read.start >= write.end || read.is_empty() {
        let (low, high) = all.split_at_mut(write.end);
        let read = match read.is_empty() {
            true => &high[..0],
            false => &high[read.start - write.end..read.end - write.end],
        };
        (read, &mut low[write])
    } else {
        let (low, high) = all.split_at_mut(read.end);
        let write = match write.is_empty() {
            true => 0..0,
            false => write.start - read.end..write.end - read.end,
        };
        (&low[read], &mut high[write])
    }
}

/// Adds 32-bit floats, item by item; a rest that is no whole item stays as it is.
pub fn add_floats(into: &mut [u8], from: &[u8]) {
    for (own, other) in into.chunks_exact_mut(4).zip(from.chunks_exact(4)) {
        let float = |four: &[u8]| f32::from_le_bytes([four[0], four[1], four[2], four[3]]);
        let sum = float(own) + float(other);
        own.copy_from_slice(&sum.to_le_bytes());
    }
}

#[cfg(test)]
mod tests;
