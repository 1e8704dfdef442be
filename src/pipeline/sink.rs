//! The sink of blocks: the memory of the last phase, a file of the node, or nowhere.
//!
//! With coupling by block, a receiver of the last phase is its own sink: a block is in memory once it has been read,
//! or was discarded on the way. With coupling by buffer, and whenever blocks go to a file, the last phase drains slot
//! after slot in the order (buffer `t`, slot `a`) once its receivers have filled them. In that order, the blocks that
//! a source cut from its file form the file again.

use std::path::Path;

use crate::buffer::handshake::{Doorbell, Side};
use crate::plan::{self, Sink};
use crate::record::TroubleKind;
use crate::sys::file::FileSink;
use crate::wire::block::{BlockHeader, HEADER_BYTES};

use super::doorbell::Failure;
use super::resources::NodeResources;
use super::source::file_failure;

/// Runs the last phase: drains slot after slot and rings the receivers.
pub(super) fn drain(resources: &NodeResources, bell: &mut impl Doorbell) -> Result<(), Failure> {
    let assignment = &resources.assignment;
    let buffer = &resources.buffers[assignment.test.phases - 1];
    let shake = buffer.handshake();
    let mut ended = vec![false; buffer.slots()];
    let mut file = open(resources)?;
    for t in 0.. {
        for (slot, ended) in ended.iter_mut().enumerate().filter(|(_, ended)| !**ended) {
            if !shake.wait(Side::Drainer, slot, t, bell) {
                return Ok(());
            }
            let block = buffer.block(slot, t);
            let mut head = [0; HEADER_BYTES];
            block.read(&mut head);
            let header = BlockHeader::decode(&head, buffer.block_bytes() as u64)
                .map_err(|error| (TroubleKind::Bug, format!("slot {slot}: {error}")))?;
            *ended = header.last;
            if let Some((file, name)) = &mut file {
                let payload = usize::try_from(header.payload_bytes).unwrap_or(0);
                file.append(block.part(HEADER_BYTES, payload))
                    .map_err(|error| file_failure("write sink", name, &error))?;
            }
            shake.post(Side::Drainer, slot, t, bell);
        }
        if ended.iter().all(|ended| *ended) {
            break;
        }
    }
    if let Some((file, name)) = file {
        let finished = file.finish();
        finished.map_err(|error| file_failure("write sink", &name, &error))?;
    }
    Ok(())
}

fn open(resources: &NodeResources) -> Result<Option<(FileSink, String)>, Failure> {
    let assignment = &resources.assignment;
    let Sink::File(pattern) = &assignment.test.sink else {
        return Ok(None);
    };
    let name = plan::file_name(pattern, assignment.run.label());
    let file = FileSink::create(Path::new(&name));
    let file = file.map_err(|error| file_failure("write sink", &name, &error))?;
    Ok(Some((file, name)))
}
