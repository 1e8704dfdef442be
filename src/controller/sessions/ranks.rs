//! Jobs of ranks, as seen from the launching side.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use crate::record::{Trouble, TroubleKind};
use crate::wire::message::RankWord;

use super::{Halt, Sessions};

impl Sessions {
    /// Records that a job was sent to the nodes, so that ranks can report from now on.
    pub(crate) fn begin_job(&mut self) {
        self.begun = true;
        self.start_ns = 0;
        for session in &mut self.sessions {
            session.forget_test();
        }
    }

    /// Addresses on which the ranks of a node listen, lowest rank first; empty until the node has reported them.
    pub(crate) fn rank_addresses(&self, node: usize) -> &[Option<SocketAddr>] {
        self.sessions[node]
            .rank_addresses
            .as_deref()
            .unwrap_or_default()
    }

    /// Passes node, rank and report to `take` until `take` returns true, for at most `limit_ms`. Measurements take long, so that silence is no
    /// failure here: a node reports ranks that fall silent or die.
    pub(crate) fn await_ranks(
        &mut self,
        limit_ms: u64,
        mut take: impl FnMut(usize, usize, RankWord) -> bool,
    ) -> Result<(), Halt> {
        let until = Instant::now() + Duration::from_millis(limit_ms);
        let mut ended = vec![BTreeSet::new(); self.sessions.len()];
        loop {
            for (node, ended) in ended.iter_mut().enumerate() {
                while let Some((rank, word)) = self.sessions[node].rank_words.pop_front() {
                    if matches!(word, RankWord::Done { .. }) && !ended.insert(rank) {
                        let what = format!("rank {rank} came to its end twice");
                        self.cut_off(node, TroubleKind::Lost, what);
                    } else if take(node, rank, word) {
                        return Ok(());
                    }
                }
                self.sessions[node].allowance.ranks_were_heard();
            }
            if Instant::now() > until {
                let is_late = |node: &usize| ended[*node].len() < self.rank_addresses(*node).len();
                let late = (0..self.sessions.len()).filter(is_late);
                let late: Vec<String> =
                    late.map(|node| self.sessions[node].label.clone()).collect();
                let what = format!("its ranks were not done after {} s", limit_ms / 1000);
                self.note(Halt::Trouble(Box::new(Trouble {
                    node: launcher::hosts::fold(&late),
                    ..Trouble::own(TroubleKind::Deadline, what)
                })));
            }
            if let Err(halt) = self.halt_on_trouble() {
                // Reports that arrived in the meantime are kept.
                for node in 0..self.sessions.len() {
                    while let Some((rank, word)) = self.sessions[node].rank_words.pop_front() {
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
