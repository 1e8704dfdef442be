//! Deliberate holding back: the rate limit of a Unix socket, and the rule that a same-node chain never runs ahead of
//! the mean of its node's other chains.

use crate::plan::lanes::Lane;
use crate::record::EndRole;
use crate::sys::clock;

use super::resources::NodeResources;

/// The limits that hold a sender back.
pub(super) struct Pace {
    /// Slots and peers of the senders to other nodes. This sender does not run ahead of their mean.
    follows: Vec<(usize, usize)>,
    block_ns: u64,
    due_ns: u64,
}

impl Pace {
    /// The pace of the sender of `lane`.
    pub(super) fn new(resources: &NodeResources, lane: &Lane, tcp: bool) -> Self {
        let test = &resources.assignment.test;
        let block_ns = match test.rate_of(lane) {
            // The kernel paces TCP.
            Some(rate) if !tcp => (test.block_bytes as u64 * 8_000_000_000)
                .checked_div(rate)
                .unwrap_or(0),
            _ => 0,
        };
        let sources = lane.boundary == 0 && test.senders_are_sources();
        let follows = if sources && lane.is_own() {
            let all = resources.lanes(EndRole::Sender, 0).into_iter();
            let others = all.filter(|other| !other.is_own());
            others.map(|other| (other.from_slot, other.to)).collect()
        } else {
            Vec::new()
        };
        Self {
            follows,
            block_ns,
            due_ns: 0,
        }
    }

    /// Time until which block `t` has to wait, on the monotonic clock in nanoseconds. `None` if it may go, and then
    /// it counts as gone. Costs two comparisons where nothing is paced.
    pub(super) fn hold(&mut self, t: u64, resources: &NodeResources) -> Option<u64> {
        const STEP_NS: u64 = 500_000;
        if (self.follows.is_empty() || t == 0) && self.block_ns == 0 {
            return None;
        }
        if resources.board.is_stopping() {
            return None;
        }
        if !self.follows.is_empty() && t > mean_of_others(resources, &self.follows) {
            return Some(clock::monotonic_ns() + STEP_NS);
        }
        if self.block_ns > 0 {
            let now = clock::monotonic_ns();
            if now < self.due_ns {
                return Some(self.due_ns);
            }
            // A bucket of one block: time that was lost elsewhere is not made up.
            self.due_ns = now + self.block_ns;
        }
        None
    }
}

/// Average number of blocks that this node's senders to other nodes have sent. Lost nodes do not count.
fn mean_of_others(resources: &NodeResources, others: &[(usize, usize)]) -> u64 {
    let alive = others
        .iter()
        .filter(|(_, to)| !resources.board.is_lost(*to));
    let (count, sum) = alive.fold((0, 0), |(count, sum), (slot, _)| {
        let end = resources.board.end(EndRole::Sender, 0, *slot);
        (count + 1, sum + end.blocks())
    });
    // If all others are lost, there is no mean to respect.
    u64::checked_div(sum, count).unwrap_or(u64::MAX)
}
