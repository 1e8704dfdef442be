//! Jobs of ranks, as the launching side hears of them.

use std::net::SocketAddr;

use crate::record::RankWord;

use super::{Crew, Halt};

impl Crew {
    /// A job has been given out: from now on there are ranks to hear of.
    pub fn begin_job(&mut self) {
        self.begun = true;
        self.start_ns = 0;
        for member in &mut self.members {
            member.forget_test();
        }
    }

    /// Where the ranks of a node listen, lowest rank first.
    pub fn rank_addresses(&self, node: usize) -> &[Option<SocketAddr>] {
        self.members[node]
            .rank_addresses
            .as_deref()
            .unwrap_or_default()
    }

    /// Hears ranks until `take` has heard enough of node, rank and word. What they measure takes as long as it takes: whoever
    /// falls silent, or dies, is told by its node.
    pub fn await_ranks(
        &mut self,
        mut take: impl FnMut(usize, usize, RankWord) -> bool,
    ) -> Result<(), Halt> {
        loop {
            for node in 0..self.members.len() {
                while let Some((rank, word)) = self.members[node].rank_words.pop_front() {
                    if take(node, rank, word) {
                        return Ok(());
                    }
                }
                self.members[node].allowance.ranks_were_heard();
            }
            if let Err(halt) = self.halt_on_trouble() {
                // What was told meanwhile is kept.
                for node in 0..self.members.len() {
                    while let Some((rank, word)) = self.members[node].rank_words.pop_front() {
                        if take(node, rank, word) {
                            break;
                        }
                    }
                }
                return Err(halt);
            }
            self.turn();
        }
    }
}
