//! Where blocks come from: the memory of phase 0.
//!
//! A memory source never changes its payload: it is made once, from the run's seed, by the sender that owns the
//! slot; per block only the header is written anew. With coupling by block a sender at phase 0 is its own
//! source and waits for nobody; by buffer, phase 0 fills all slots of a buffer and rings its senders, as in
//! the original.

use crate::buffer::double::DoubleBuffer;
use crate::buffer::handshake::{Doorbell, Side};
use crate::plan::Bound;
use crate::wire::block::{BlockHeader, HEADER_BYTES};

use super::plant::Plant;

/// Decides when a source ends, and writes headers.
pub struct Source<'plant> {
    plant: &'plant Plant,
    limit: u64,
}

impl<'plant> Source<'plant> {
    /// The source of this node.
    pub fn new(plant: &'plant Plant) -> Self {
        let limit = match plant.assignment.test.bound {
            Bound::Time { .. } => u64::MAX,
            Bound::Volume { buffers } => buffers,
        };
        Self { plant, limit }
    }

    /// Whether block `t` is the empty one that ends a link.
    pub fn ends_at(&self, t: u64) -> bool {
        t >= self.limit || self.plant.board.is_stopping()
    }

    /// Writes the header of block `t` into its slot.
    pub fn head(&self, buffer: &DoubleBuffer, slot: usize, t: u64, last: bool) -> BlockHeader {
        let header = BlockHeader {
            payload_bytes: if last { 0 } else { buffer.block_bytes() as u64 },
            sequence: t,
            source_node: u32::try_from(self.plant.assignment.node).unwrap_or(u32::MAX),
            source_slot: u32::try_from(slot).unwrap_or(u32::MAX),
            last,
        };
        buffer.block(slot, t).write(&header.encode());
        header
    }
}

/// Fills the payload of both blocks of a slot from the seed.
pub fn make_payload(buffer: &DoubleBuffer, slot: usize, seed: u64, node: usize) {
    let mut state = seed ^ ((node as u64) << 32) ^ slot as u64;
    for t in 0..2 {
        let block = buffer.block(slot, t);
        let mut at = HEADER_BYTES;
        while at < block.bytes() {
            let word = splitmix(&mut state).to_le_bytes();
            let piece = (block.bytes() - at).min(8);
            block.part(at, piece).write(&word[..piece]);
            at += piece;
        }
    }
}

/// SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", 2014).
fn splitmix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut word = *state;
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

/// Phase 0 of a run coupled by buffer: fills buffer after buffer and signals the senders.
pub fn fill_in_lockstep(plant: &Plant, bell: &mut impl Doorbell) {
    let source = Source::new(plant);
    let buffer = &plant.buffers[0];
    let shake = buffer.handshake();
    while !plant.board.has_started() {
        if !bell.sleep() {
            return;
        }
    }
    for t in 0.. {
        if !shake.wait(Side::Filler, 0, t, bell) {
            return;
        }
        let last = source.ends_at(t);
        for slot in 0..buffer.slots() {
            source.head(buffer, slot, t, last);
            if last {
                shake.end(slot, t + 1);
            }
            shake.post(Side::Filler, slot, t, bell);
        }
        if last {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Coupling;

    #[test]
    fn payload_follows_from_the_seed_the_node_and_the_slot() {
        let bytes_of = |seed, node, slot| {
            let buffer = DoubleBuffer::new(0, 2, 100, Coupling::Block).unwrap();
            make_payload(&buffer, slot, seed, node);
            let mut bytes = vec![0; HEADER_BYTES + 100];
            buffer.block(slot, 0).read(&mut bytes);
            bytes
        };
        assert_eq!(bytes_of(1, 2, 1), bytes_of(1, 2, 1));
        assert_ne!(bytes_of(1, 2, 1), bytes_of(2, 2, 1));
        assert_ne!(bytes_of(1, 2, 1), bytes_of(1, 3, 1));
        assert_ne!(
            bytes_of(1, 2, 1)[HEADER_BYTES..],
            bytes_of(1, 2, 0)[HEADER_BYTES..]
        );
        // First output of SplitMix64 for seed 0, from the reference implementation.
        assert_eq!(splitmix(&mut 0), 0xe220_a839_7b1d_cdaf);
    }
}
