//! Offsets of the nodes' clocks from this host's clock: measured before and after a test, and again while it runs.

use std::time::Instant;

use crate::plan::{Bound, Test};
use crate::stats::offset::{Offset, estimate};
use crate::sys::clock;
use crate::wire::message::ToNode;

use super::log::Halt;
use super::node::NodeSession;
use super::{Sessions, any_open};

/// Questions per node for a clock offset.
const QUESTIONS: usize = 12;

impl Sessions {
    fn ask_for_clocks(&mut self) {
        for node in 0..self.nodes.len() {
            let sent_ns = clock::monotonic_ns();
            self.send(node, &ToNode::Ping { sent_ns });
        }
    }

    /// Measures the offsets again from time to time and moves the end of the window on each node's clock, since the clocks of
    /// different hosts drift apart by seconds a day.
    pub(super) fn keep_clocks(&mut self, test: &Test) {
        const BEFORE_THE_END_NS: u64 = 2_000_000_000;
        let timed = matches!(test.bound, Bound::Time { .. });
        if timed && clock::monotonic_ns() + BEFORE_THE_END_NS > self.time.window_end_ns {
            return;
        }
        let round = self.clocks.round;
        let answered = |node: &NodeSession| !node.takes_part() || node.clock.samples.len() >= round;
        if round == 0 {
            if Instant::now() >= self.clocks.due {
                self.clocks.due = Instant::now() + self.clocks.interval;
                self.forget_clocks();
                self.clocks.round = 1;
                self.ask_for_clocks();
            }
        } else if !any_open(&self.nodes, &mut self.clocks.open, |node| !answered(node)) {
            if round < QUESTIONS {
                self.clocks.round += 1;
                self.ask_for_clocks();
                return;
            }
            self.clocks.round = 0;
            self.clocks.measured += 1;
            if timed {
                for (node, offset) in self.offsets().into_iter().enumerate() {
                    if self.is_lost(node) {
                        continue;
                    }
                    let end_ns = offset.to_node(self.time.window_end_ns);
                    self.send(node, &ToNode::Window { end_ns });
                }
            }
        }
    }

    /// Asks every node for its clock and estimates the offsets.
    pub(crate) fn measure_offsets(&mut self) -> Result<Vec<Offset>, Halt> {
        self.clocks.round = 0;
        self.clocks.measured += 1;
        self.forget_clocks();
        for round in 1..=QUESTIONS {
            self.ask_for_clocks();
            self.await_all("report its clock", 10_000, |session| {
                session.clock.samples.len() >= round
            })?;
        }
        Ok(self.offsets())
    }

    /// Estimates the offsets from the answers so far. A node without an answer keeps its last offset.
    pub(crate) fn offsets(&mut self) -> Vec<Offset> {
        let offset = |node: &mut NodeSession| {
            let clock = &mut node.clock;
            clock.offset = estimate(&clock.samples).or(clock.offset);
            clock.offset.unwrap_or_default()
        };
        self.nodes.iter_mut().map(offset).collect()
    }

    /// Drops the answers of all nodes.
    pub(super) fn forget_clocks(&mut self) {
        self.nodes
            .iter_mut()
            .for_each(|node| node.clock.samples.clear());
    }
}
