//! Where blocks go: the memory of the last phase.
//!
//! With coupling by block a receiver of the last phase is its own sink: the block lies in memory when it has
//! been read. By buffer, the last phase empties buffer after buffer when its receivers have filled it, as in
//! the original.

use crate::buffer::handshake::{Doorbell, Side};
use crate::wire::block::{BlockHeader, HEADER_BYTES};

use super::plant::Plant;

/// The last phase of a run coupled by buffer: empties buffer after buffer and signals the receivers.
pub fn drain_in_lockstep(plant: &Plant, bell: &mut impl Doorbell) {
    let buffer = &plant.buffers[plant.assignment.test.phases - 1];
    let shake = buffer.handshake();
    let mut ended = vec![false; buffer.slots()];
    for t in 0.. {
        if !shake.wait(Side::Drainer, 0, t, bell) {
            return;
        }
        for (slot, ended) in ended.iter_mut().enumerate().filter(|(_, ended)| !**ended) {
            let mut head = [0; HEADER_BYTES];
            buffer.block(slot, t).read(&mut head);
            let header = BlockHeader::decode(&head, buffer.block_bytes() as u64);
            *ended = header.map_or(true, |header| header.last);
            shake.post(Side::Drainer, slot, t, bell);
        }
        if ended.iter().all(|ended| *ended) {
            return;
        }
    }
}
