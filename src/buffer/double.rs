//! Double buffers: two buffers of slots in one memory file, preceded by their handshake. If a single process both
//! fills and drains a slot, that process holds the blocks in private memory ([`OwnBlocks`]).

use std::rc::Rc;

use crate::plan::Coupling;
use crate::plan::size::{SLOT_HEAD_BYTES, slot_bytes};
use crate::sys::memory::{Region, Span};
use crate::wire::block::HEADER_BYTES;

use super::handshake::{Handshake, WORDS_PER_SLOT};

/// The buffers k and !k of one phase.
pub(crate) struct DoubleBuffer {
    region: Region,
    slots: usize,
    /// Two or zero.
    blocks_per_slot: usize,
    block_bytes: usize,
    coupling: Coupling,
}

impl DoubleBuffer {
    /// Makes buffers of `slots` slots, each with `blocks_per_slot` blocks of `block_bytes` bytes. They use large
    /// pages reserved on this host if `reserved` is set, and ordinary pages otherwise.
    pub(crate) fn new(
        phase: usize,
        slots: usize,
        blocks_per_slot: usize,
        block_bytes: usize,
        coupling: Coupling,
        reserved: bool,
    ) -> std::io::Result<Self> {
        let blocks = blocks_per_slot * slots;
        let bytes = handshake_bytes(slots) + blocks * slot_bytes(block_bytes);
        let name = format!("pipebench-phase-{phase}");
        let region = if reserved && blocks > 0 {
            Region::reserved(&name, bytes)?
        } else {
            Region::new(&name, bytes)?
        };
        let buffer = Self {
            region,
            slots,
            blocks_per_slot,
            block_bytes,
            coupling,
        };
        buffer.handshake().reset();
        Ok(buffer)
    }

    /// The handshake of all slots.
    pub(crate) fn handshake(&self) -> Handshake<'_> {
        Handshake::new(
            self.region.words(0, self.slots * WORDS_PER_SLOT),
            self.coupling,
        )
    }

    /// Number of slots of each buffer.
    pub(crate) fn slots(&self) -> usize {
        self.slots
    }

    /// Largest payload of a slot in bytes.
    pub(crate) fn block_bytes(&self) -> usize {
        self.block_bytes
    }

    /// Header and payload of slot `slot` for block `t`, contiguous.
    pub(crate) fn block(&self, slot: usize, t: u64) -> Span<'_> {
        let start = self.slot_start(slot, t) + SLOT_HEAD_BYTES - HEADER_BYTES;
        self.region.span(start, HEADER_BYTES + self.block_bytes)
    }

    /// Faults in the handshake and the blocks of one slot for the calling process.
    pub(crate) fn populate(&self, slot: usize) {
        self.region.populate(0, handshake_bytes(self.slots));
        for t in 0..self.blocks_per_slot as u64 {
            self.region
                .populate(self.slot_start(slot, t), slot_bytes(self.block_bytes));
        }
    }

    fn slot_start(&self, slot: usize, t: u64) -> usize {
        assert!(slot < self.slots, "slot {slot} of {}", self.slots);
        let buffer = usize::from(t & 1 == 1);
        handshake_bytes(self.slots) + (buffer * self.slots + slot) * slot_bytes(self.block_bytes)
    }
}

/// Blocks of a slot that one process both fills and drains, in its private memory. A clone refers to the same blocks.
#[derive(Clone)]
pub(crate) struct OwnBlocks {
    region: Rc<Region>,
    /// Index of its first block in the region.
    first: usize,
    count: usize,
    block_bytes: usize,
}

impl OwnBlocks {
    /// Makes `count` blocks of `block_bytes` bytes for each of `slots` slots, and faults them in. They use large
    /// pages if `large` is set, and ordinary pages otherwise.
    pub(crate) fn several(
        slots: usize,
        count: usize,
        block_bytes: usize,
        large: bool,
    ) -> std::io::Result<Vec<Self>> {
        let bytes = slots * count * slot_bytes(block_bytes);
        let region = Rc::new(if large {
            Region::private_large(bytes)?
        } else {
            Region::private(bytes)?
        });
        Ok(Self::shares(region, slots, count, block_bytes))
    }

    /// Makes a block of `block_bytes` bytes for each of `slots` slots, whose payloads are one piece of `piece` bytes again and again.
    pub(crate) fn repeating(
        slots: usize,
        block_bytes: usize,
        piece: usize,
    ) -> std::io::Result<Vec<Self>> {
        let region = Region::repeating(slots, SLOT_HEAD_BYTES, piece, block_bytes / piece)?;
        Ok(Self::shares(Rc::new(region), slots, 1, block_bytes))
    }

    fn shares(region: Rc<Region>, slots: usize, count: usize, block_bytes: usize) -> Vec<Self> {
        region.populate(0, region.bytes());
        let of_slot = |slot: usize| Self {
            region: Rc::clone(&region),
            first: slot * count,
            count,
            block_bytes,
        };
        (0..slots).map(of_slot).collect()
    }

    /// Number of blocks.
    pub(crate) fn count(&self) -> usize {
        self.count
    }

    /// Header and payload for block `t`, contiguous; the payload begins on a page boundary.
    pub(crate) fn block(&self, t: u64) -> Span<'_> {
        let place = usize::try_from(t % self.count.max(1) as u64).unwrap_or(0);
        let start =
            (self.first + place) * slot_bytes(self.block_bytes) + SLOT_HEAD_BYTES - HEADER_BYTES;
        self.region.span(start, HEADER_BYTES + self.block_bytes)
    }
}

fn handshake_bytes(slots: usize) -> usize {
    (slots * WORDS_PER_SLOT * 8).next_multiple_of(4096)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_do_not_touch_and_payloads_start_on_a_page() {
        let buffer = DoubleBuffer::new(1, 3, 2, 5000, Coupling::Block, false).unwrap();
        let marked: Vec<(usize, u64)> = (0..3).flat_map(|slot| [(slot, 0), (slot, 1)]).collect();
        for (index, (slot, t)) in marked.iter().enumerate() {
            let value = u8::try_from(index + 1).unwrap();
            buffer
                .block(*slot, *t)
                .write(&vec![value; HEADER_BYTES + 5000]);
        }
        for (index, (slot, t)) in marked.iter().enumerate() {
            let mut bytes = vec![0; HEADER_BYTES + 5000];
            buffer.block(*slot, *t + 2).read(&mut bytes);
            assert!(bytes.iter().all(|byte| usize::from(*byte) == index + 1));
        }
        assert_eq!((buffer.slot_start(2, 1) + SLOT_HEAD_BYTES) % 4096, 0);
        buffer.populate(2);
    }

    #[test]
    fn repeated_payloads_are_one_piece_and_heads_are_not() {
        const PIECE: usize = 8192;
        let all = OwnBlocks::repeating(2, 2 * PIECE, PIECE).unwrap();
        for (value, blocks) in (1_u8..).zip(&all) {
            let block = blocks.block(7);
            block.write(&[value; HEADER_BYTES]);
            block.part(HEADER_BYTES + 5, 1).write(&[10 * value]);
        }
        for (value, blocks) in (1_u8..).zip(&all) {
            let (mut head, mut payload) = ([0], vec![0; 2 * PIECE]);
            blocks.block(8).read(&mut head);
            blocks
                .block(8)
                .part(HEADER_BYTES, 2 * PIECE)
                .read(&mut payload);
            assert_eq!((head[0], payload[5], payload[PIECE + 5]), (value, 20, 20));
            assert_eq!(payload.iter().filter(|byte| **byte != 0).count(), 2);
        }
    }

    #[test]
    fn own_blocks_of_several_slots_do_not_touch() {
        for large in [false, true] {
            let all = OwnBlocks::several(3, 2, 5000, large).unwrap();
            let places = || (0_u8..6).map(|n| (&all[usize::from(n / 2)], u64::from(n % 2), n));
            for (blocks, t, value) in places() {
                blocks.block(t).write(&[value; HEADER_BYTES + 5000]);
            }
            for (blocks, t, value) in places() {
                let mut bytes = [0; HEADER_BYTES + 5000];
                blocks.block(t + 2).read(&mut bytes);
                assert!(bytes.iter().all(|byte| *byte == value));
            }
            assert_eq!(all[0].count(), 2);
        }
    }
}
