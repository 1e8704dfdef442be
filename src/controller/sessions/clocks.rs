//! Offsets of the nodes' clocks from this host's clock: measured before and after a test, and again while it runs.

use std::time::Instant;

use crate::plan::{Bound, Test};
use crate::stats::offset::{Offset, estimate};
use crate::sys::clock;
use crate::wire::message::ToNode;

use super::{Halt, NodeSession, Sessions};

/// Questions per node for a clock offset.
const QUESTIONS: usize = 12;

impl Sessions {
    fn ask_for_clocks(&mut self) {
        for node in 0..self.sessions.len() {
            let sent_ns = clock::monotonic_ns();
            self.send(node, &ToNode::Ping { sent_ns });
        }
    }

    /// Measures the offsets again from time to time and moves the end of the window on each node's clock, since the clocks of
    /// different hosts drift apart by seconds a day.
    pub(super) fn keep_clocks(&mut self, test: &Test) {
        const BEFORE_THE_END_NS: u64 = 2_000_000_000;
        let timed = matches!(test.bound, Bound::Time { .. });
        if timed && clock::monotonic_ns() + BEFORE_THE_END_NS > self.window_end_ns {
            return;
        }
        let round = self.clocks.round;
        let answered =
            |session: &NodeSession| session.lost.is_some() || session.samples.len() >= round;
        if round == 0 {
            if Instant::now() >= self.clocks.due {
                self.clocks.due = Instant::now() + self.clocks.interval;
                self.sessions.iter_mut().for_each(|one| one.samples.clear());
                self.clocks.round = 1;
                self.ask_for_clocks();
            }
        } else if self.sessions.iter().all(answered) {
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
                    let end_ns = offset.to_node(self.window_end_ns);
                    self.send(node, &ToNode::Window { end_ns });
                }
            }
        }
    }

    /// Asks every node for its clock and estimates the offsets.
    pub(crate) fn measure_offsets(&mut self) -> Result<Vec<Offset>, Halt> {
        self.clocks.round = 0;
        self.clocks.measured += 1;
        for session in &mut self.sessions {
            session.samples.clear();
        }
        for round in 1..=QUESTIONS {
            self.ask_for_clocks();
            self.await_all("tell its clock", 10_000, |session| {
                session.samples.len() >= round
            })?;
        }
        Ok(self.offsets())
    }

    /// Estimates the offsets from the answers so far. A node without an answer keeps its last offset.
    pub(crate) fn offsets(&mut self) -> Vec<Offset> {
        for session in &mut self.sessions {
            session.offset = estimate(&session.samples).or(session.offset);
        }
        let offset = |session: &NodeSession| session.offset.unwrap_or_default();
        self.sessions.iter().map(offset).collect()
    }
}
