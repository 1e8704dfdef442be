//! Jobs of ranks, as seen from the launching side.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use crate::plan::ranks::Ranks;
use crate::record::{Trouble, TroubleKind};
use crate::wire::message::RankWord;

use super::Sessions;
use super::log::Halt;
use super::node::NodeSession;

impl Sessions {
    /// Passes each rank's reports to `take` until all ranks are done, for at most `limit_ms`. If `take` returns an error, the node that sent the
    /// report is lost with this error. Measurements take long, so that silence is no failure here: a node reports ranks that fall silent or die.
    pub(crate) fn await_ranks(
        &mut self,
        ranks: &Ranks,
        limit_ms: u64,
        mut take: impl FnMut(usize, RankWord) -> Result<(), String>,
    ) -> Result<(), Halt> {
        let until = Instant::now() + Duration::from_millis(limit_ms);
        let (nodes, count) = (self.nodes.len(), ranks.count(self.nodes.len()));
        let mut done = BTreeSet::new();
        loop {
            self.hear_ranks(ranks, &mut done, &mut take);
            if done.len() == count && self.log.troubles.is_empty() {
                return Ok(());
            }
            if Instant::now() > until {
                let open = (0..count).filter(|rank| !done.contains(rank));
                let late: BTreeSet<usize> = open.map(|rank| ranks.node_of(rank, nodes)).collect();
                let late = late.into_iter().map(|node| self.nodes[node].label.clone());
                let late = launcher::hosts::fold(&late.collect::<Vec<_>>());
                let what = format!("its ranks did not finish within {} s", limit_ms / 1000);
                let trouble = Trouble::of_node(TroubleKind::Deadline, &late, what);
                self.log.troubles.push(trouble);
            }
            if let Err(halt) = self.halt_on_trouble() {
                // Reports that arrived in the meantime are kept.
                self.hear_ranks(ranks, &mut done, &mut take);
                return Err(halt);
            }
            self.turn();
        }
    }

    /// Handles the reports that have arrived. `done` are the ranks that have reached the end of their round.
    fn hear_ranks(
        &mut self,
        ranks: &Ranks,
        done: &mut BTreeSet<usize>,
        take: &mut impl FnMut(usize, RankWord) -> Result<(), String>,
    ) {
        let (nodes, count) = (self.nodes.len(), ranks.count(self.nodes.len()));
        for node in 0..nodes {
            let NodeSession { test, input, .. } = &mut self.nodes[node];
            let words = std::mem::take(&mut test.rank_words);
            input.allowance.dropped(|tag| tag == "rank");
            let mut words = words.into_iter().map(|(rank, word)| {
                if rank >= count || ranks.node_of(rank, nodes) != node {
                    return Err(format!("reported on rank {rank}, which is not its own"));
                }
                if matches!(word, RankWord::Done { .. }) && !done.insert(rank) {
                    return Err(format!("rank {rank} ended twice"));
                }
                take(rank, word)
            });
            if let Some(what) = words.find_map(Result::err) {
                self.cut_off(node, TroubleKind::Lost, what);
            }
        }
    }
}
