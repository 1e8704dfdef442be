//! The source of blocks: the memory of phase 0, or a file of the node.
//!
//! A memory source never changes its payload. The sender that owns the slot makes it once, from the run's seed; per
//! block, only the header is written anew. A file is cut into blocks in the order (buffer `t`, slot `a`). A node
//! whose file has ended sends empty blocks until the longest file has ended, too. With coupling by block, a sender at
//! phase 0 is its own source and waits for no other process. With coupling by buffer, phase 0 fills all slots of a
//! buffer and rings its senders, as in the original.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use crate::buffer::handshake::{Doorbell, Side};
use crate::plan::{self, Source as SourceKind, Verify};
use crate::record::TroubleKind;
use crate::sys::file::FileSource;
use crate::sys::memory::Span;
use crate::sys::why;
use crate::wire::block::{BlockHeader, HEADER_BYTES};
use numbers::random::Random;

use super::doorbell::Failure;
use super::resources::NodeResources;

/// Makes the blocks of this node's phase 0.
pub(super) struct Source<'resources> {
    resources: &'resources NodeResources,
    file: Option<FileSource>,
    blocks: u64,
    /// Checksums of payloads that never change, by their place in memory.
    sums: BTreeMap<usize, u32>,
}

impl<'resources> Source<'resources> {
    /// Opens the source of this node; called when data may flow. Fails if the source file cannot be opened.
    pub(super) fn open(resources: &'resources NodeResources) -> Result<Self, Failure> {
        let assignment = &resources.assignment;
        let file = match &assignment.test.source {
            SourceKind::Memory => None,
            SourceKind::File(pattern) => {
                let name = plan::file_name(pattern, assignment.run.label());
                let opened = FileSource::open(Path::new(&name));
                Some(opened.map_err(|error| file_failure("read source", &name, &error))?)
            }
        };
        Ok(Self {
            resources,
            file,
            blocks: resources.board.blocks(),
            sums: BTreeMap::new(),
        })
    }

    /// True if block `t` is the empty one that ends a link.
    pub(super) fn ends_at(&self, t: u64) -> bool {
        t >= self.blocks || self.resources.board.is_stopping()
    }

    /// Makes block `t` of a slot: the header, and the payload if it comes from a file. The block after the last one
    /// is empty and ends the link. `place` is the index of `block` among all blocks that this source writes to.
    pub(super) fn make(
        &mut self,
        block: Span<'_>,
        place: usize,
        slot: usize,
        t: u64,
        last: bool,
    ) -> BlockHeader {
        let room = self.resources.assignment.test.block_bytes;
        let payload = match &self.file {
            _ if last => 0,
            None => room,
            Some(file) => {
                let number = t * self.resources.slots(0) as u64 + slot as u64;
                file.copy(
                    number.saturating_mul(room as u64),
                    block.part(HEADER_BYTES, room),
                )
            }
        };
        let header = BlockHeader {
            payload_bytes: payload as u64,
            sequence: t,
            source_node: u32::try_from(self.resources.assignment.run.node).unwrap_or(u32::MAX),
            source_slot: u32::try_from(slot).unwrap_or(u32::MAX),
            checksum: self.checksum(block.part(HEADER_BYTES, payload), place),
            last,
        };
        block.write(&header.encode());
        header
    }

    fn checksum(&mut self, payload: Span<'_>, place: usize) -> Option<u32> {
        if self.resources.assignment.test.verify == Verify::None {
            return None;
        }
        if self.file.is_some() || payload.bytes() == 0 {
            return Some(payload.checksum());
        }
        let kept = self.sums.entry(place);
        Some(*kept.or_insert_with(|| payload.checksum()))
    }
}

/// The failure to do `what` with a file.
pub(super) fn file_failure(what: &str, name: &str, error: &io::Error) -> Failure {
    let what = format!("cannot {what} {name}: {}", why(error));
    (TroubleKind::Resource, what)
}

/// Waits for the start without a time limit: the launching side can hold a run at its start, and enforces a limit.
/// False if the bell says that there is nothing to wait for.
pub(super) fn await_start(resources: &NodeResources, bell: &mut impl Doorbell) -> bool {
    while !resources.board.has_started() {
        if !bell.sleep() {
            return false;
        }
    }
    true
}

/// Fills the payload of a slot's blocks from the seed.
pub(super) fn make_payload<'a>(
    blocks: impl Iterator<Item = Span<'a>>,
    slot: usize,
    seed: u64,
    node: usize,
) {
    let mut random = Random::new(seed ^ ((node as u64) << 32) ^ slot as u64);
    for block in blocks {
        let mut at = HEADER_BYTES;
        while at < block.bytes() {
            let word = random.any().to_le_bytes();
            let piece = (block.bytes() - at).min(8);
            block.part(at, piece).write(&word[..piece]);
            at += piece;
        }
    }
}

/// Runs phase 0 of a test coupled by buffer: fills buffer after buffer and rings the senders.
pub(super) fn fill_in_lockstep(
    resources: &NodeResources,
    bell: &mut impl Doorbell,
) -> Result<(), Failure> {
    let buffer = &resources.buffers[0];
    let shake = buffer.handshake();
    if !await_start(resources, bell) {
        return Ok(());
    }
    let mut source = Source::open(resources)?;
    for t in 0.. {
        if !shake.wait(Side::Filler, 0, t, bell) {
            return Ok(());
        }
        // Evaluated once per buffer, so that all of its slots end together.
        let last = source.ends_at(t);
        for slot in 0..buffer.slots() {
            let place = slot * 2 + usize::from(t & 1 == 1);
            source.make(buffer.block(slot, t), place, slot, t, last);
            if last {
                shake.end(slot, t + 1);
            }
            shake.post(Side::Filler, slot, t, bell);
        }
        if last {
            return Ok(());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffer::double::OwnBlocks;

    #[test]
    fn payload_follows_from_the_seed_the_node_and_the_slot() {
        let bytes_of = |seed, node, slot| {
            let all = OwnBlocks::several(1, 1, 100, true).unwrap();
            let blocks = &all[0];
            make_payload([blocks.block(0)].into_iter(), slot, seed, node);
            let mut bytes = vec![0; HEADER_BYTES + 100];
            blocks.block(0).read(&mut bytes);
            bytes
        };
        assert_eq!(bytes_of(1, 2, 1), bytes_of(1, 2, 1));
        assert_ne!(bytes_of(1, 2, 1), bytes_of(2, 2, 1));
        assert_ne!(bytes_of(1, 2, 1), bytes_of(1, 3, 1));
        assert_ne!(
            bytes_of(1, 2, 1)[HEADER_BYTES..],
            bytes_of(1, 2, 0)[HEADER_BYTES..]
        );
    }
}
