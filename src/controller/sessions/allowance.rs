//! Limits on the messages of a node, so that no host can fill the memory of the launching side or keep it busy, even if
//! another program runs there.

use std::cell::Cell;
use std::time::Instant;

use crate::plan::RunPlan;
use crate::units::show_bytes;
use crate::wire::message::FromNode;

/// Most bytes of one message, plus `LINK_END_BYTES` for each end of a link on its node.
const MESSAGE_BYTES: usize = 4 << 20;
const LINK_END_BYTES: usize = 2 << 10;
/// Most bytes of failures that a node can report in a run. A failure is a few hundred bytes.
const TROUBLE_BYTES: usize = 1 << 20;
/// Most bytes of rank reports of a node that can wait to be handled.
const RANK_BYTES: usize = 16 << 20;
/// Most other messages of a node in a run, plus `MESSAGES_PER_S` for each second. An honest node sends a few each second.
const MESSAGES: u64 = 1000;
const MESSAGES_PER_S: u64 = 100;

/// Longest message that a node of a run can need, in bytes.
pub(super) fn message_bytes(plan: &RunPlan) -> usize {
    let nodes = plan.nodes.len();
    let ends = |test: &crate::plan::Test| {
        let links = nodes.saturating_mul(test.streams * test.rails.max(1));
        links.saturating_mul(2 * test.phases.saturating_sub(1))
    };
    let most = plan.tests().iter().map(ends).max().unwrap_or(0);
    MESSAGE_BYTES.saturating_add(most.saturating_mul(LINK_END_BYTES))
}

/// Counters of the messages of one node.
#[derive(Debug)]
pub(super) struct Allowance {
    since: Instant,
    messages: u64,
    trouble_bytes: usize,
    rank_bytes: usize,
    /// Clock questions that it has not answered.
    asked: Cell<u64>,
}

impl Default for Allowance {
    fn default() -> Self {
        Self {
            since: Instant::now(),
            messages: 0,
            trouble_bytes: 0,
            rank_bytes: 0,
            asked: Cell::new(0),
        }
    }
}

impl Allowance {
    /// Records a clock question to the node.
    pub(super) fn ask(&self) {
        self.asked.set(self.asked.get() + 1);
    }

    /// Records that all rank reports so far were handled.
    pub(super) fn ranks_were_heard(&mut self) {
        self.rank_bytes = 0;
    }

    /// Counts a message of `bytes` bytes. The error names the limit that it exceeds.
    pub(super) fn take(&mut self, message: &FromNode, bytes: usize) -> Result<(), String> {
        let within = |all: &mut usize, limit: usize, what: &str| {
            *all = all.saturating_add(bytes);
            let limit_shown = show_bytes(limit as u64);
            let too_much = || format!("sent more than {limit_shown} of {what}");
            (*all <= limit).then_some(()).ok_or_else(too_much)
        };
        match message {
            FromNode::Trouble(_) => within(&mut self.trouble_bytes, TROUBLE_BYTES, "failures"),
            FromNode::Rank { .. } => {
                within(&mut self.rank_bytes, RANK_BYTES, "what its ranks measured")
            }
            FromNode::Pong { .. } if self.asked.get() == 0 => {
                Err("sent its clock without being asked".to_owned())
            }
            FromNode::Pong { .. } => {
                self.asked.set(self.asked.get() - 1);
                Ok(())
            }
            _ => {
                self.messages += 1;
                let limit = MESSAGES + MESSAGES_PER_S * self.since.elapsed().as_secs();
                let too_many = || {
                    let seconds = self.since.elapsed().as_secs();
                    format!("sent more than {limit} messages in {seconds} s")
                };
                (self.messages <= limit).then_some(()).ok_or_else(too_many)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::record::{Trouble, TroubleKind};
    use crate::wire::message::RankWord;

    use super::*;

    #[test]
    fn a_node_that_says_too_much_is_told_of_what() {
        let often = |message: &FromNode, bytes: usize| {
            let mut allowance = Allowance::default();
            (0..100_000).find_map(|_| allowance.take(message, bytes).err())
        };
        let trouble = FromNode::Trouble(vec![Trouble::own(TroubleKind::Lost, "x")]);
        assert_eq!(often(&trouble, 9).unwrap_or_default(), "");
        assert_eq!(
            often(&trouble, 900).unwrap(),
            "sent more than 1 MiB of failures"
        );
        let rank = FromNode::Rank {
            rank: 0,
            word: RankWord::Ready,
        };
        assert_eq!(
            often(&rank, 900).unwrap(),
            "sent more than 16 MiB of what its ranks measured"
        );
        let alive = often(&FromNode::Alive, 9).unwrap();
        assert!(alive.starts_with("sent more than 1"), "{alive}");
        let pong = FromNode::Pong {
            sent_ns: 1,
            node_ns: 1,
        };
        assert_eq!(
            often(&pong, 9).unwrap(),
            "sent its clock without being asked"
        );
    }

    #[test]
    fn an_answer_to_each_question_is_taken() {
        let mut allowance = Allowance::default();
        let pong = FromNode::Pong {
            sent_ns: 1,
            node_ns: 1,
        };
        for _ in 0..10_000 {
            allowance.ask();
            assert_eq!(allowance.take(&pong, 9), Ok(()));
        }
        assert!(allowance.take(&pong, 9).is_err());
    }
}
