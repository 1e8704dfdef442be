//! Holding back on purpose: the rate limit of a Unix socket, and the rule that a same-node chain never runs
//! ahead of the mean of its node's other chains.

use crate::plan::lanes::Lane;
use crate::record::EndRole;
use crate::sys::clock;

use super::plant::Plant;

/// What holds a sender back.
pub struct Pace {
    follows_mean: bool,
    block_ns: u64,
    due_ns: u64,
}

impl Pace {
    /// For the sender of `lane`.
    pub fn new(plant: &Plant, lane: &Lane, tcp: bool) -> Self {
        let test = &plant.assignment.test;
        let block_ns = match test.sockets.rate_bits_per_s {
            // TCP is paced by the kernel.
            Some(rate) if !tcp => (test.block_bytes as u64 * 8_000_000_000)
                .checked_div(rate)
                .unwrap_or(0),
            _ => 0,
        };
        let sources = lane.boundary == 0 && test.senders_are_sources();
        let follows_mean = sources && lane.is_own() && plant.assignment.nodes() > 1;
        Self {
            follows_mean,
            block_ns,
            due_ns: 0,
        }
    }

    /// Until when block `t` has to wait; none if it may go, and then it counts as gone. Two comparisons where nothing is
    /// paced.
    pub fn hold(&mut self, t: u64, plant: &Plant, lane: &Lane) -> Option<u64> {
        const STEP_NS: u64 = 500_000;
        if (!self.follows_mean || t == 0) && self.block_ns == 0 {
            return None;
        }
        if plant.board.is_stopping() {
            return None;
        }
        if self.follows_mean && t > mean_of_others(plant, lane) {
            return Some(clock::monotonic_ns() + STEP_NS);
        }
        if self.block_ns > 0 {
            let now = clock::monotonic_ns();
            if now < self.due_ns {
                return Some(self.due_ns);
            }
            // A bucket of one block: time that was lost elsewhere is not caught up.
            self.due_ns = now + self.block_ns;
        }
        None
    }
}

/// Blocks that this node's senders to other nodes have sent on average.
fn mean_of_others(plant: &Plant, lane: &Lane) -> u64 {
    let streams = plant.assignment.test.streams;
    let others = (0..plant.slots()).filter(|slot| slot / streams != lane.to);
    let alive = others.filter(|slot| !plant.board.is_lost(slot / streams));
    let (count, sum) = alive.fold((0, 0), |(count, sum), slot| {
        (
            count + 1,
            sum + plant.board.end(EndRole::Sender, 0, slot).blocks(),
        )
    });
    // Where all others are lost, there is nothing to keep behind.
    u64::checked_div(sum, count).unwrap_or(u64::MAX)
}
