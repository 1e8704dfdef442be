//! A link test: every pair of ranks, round by round, and then the links that the judge asks for.

use std::collections::{BTreeMap, BTreeSet};

use crate::jobs::linktest::{self, schedule};
use crate::judge::verdict;
use crate::plan::job::{MOST_ROUNDS, Round};
use crate::plan::linktest::{Kernel, Linktest};
use crate::record::{LinktestRecord, Measured, Outcome, PairTime, RetestRecord, RoundRecord};
use crate::sys::clock;
use crate::units::sum;

use super::events::RunEvent;
use super::ranks::Told;
use super::run_state::RunState;
use super::sessions::Halt;

/// Limit on the sets of looks for the judge, which learns something from each set.
const MOST_LOOKS: usize = 20;

impl RunState<'_> {
    /// Measures the rounds after those that were taken over, and the links that the judge asks for. Keeps what was measured even if a later
    /// part fails.
    pub(super) fn linktest(
        &mut self,
        linktest: &Linktest,
        taken_over: &[RoundRecord],
    ) -> Result<(), Halt> {
        for round in taken_over {
            self.observer.see(RunEvent::Rounded(round));
        }
        let mut record = LinktestRecord {
            ranks: self.rank_records(&linktest.ranks),
            rounds: taken_over.to_vec(),
            ..LinktestRecord::default()
        };
        let outcome = self.rounds(linktest, &mut record);
        let outcome = outcome.and_then(|()| self.look_alone(linktest, &mut record));
        record.complete = outcome.is_ok();
        self.outcome = Outcome::Linktest(record);
        outcome
    }

    fn rounds(&mut self, linktest: &Linktest, record: &mut LinktestRecord) -> Result<(), Halt> {
        let ranks = linktest.ranks.count(self.hosts.len());
        let took_ms = |round: &RoundRecord| round.ended_ms.saturating_sub(round.started_ms);
        let earlier_ms = sum(record.rounds.iter().map(took_ms));
        let started_ns = clock::monotonic_ns();
        loop {
            let number = record.rounds.len() as u64;
            let (iteration, round) = planned(linktest, ranks, number);
            let ran_ns = clock::monotonic_ns() - started_ns;
            let ran_ns = earlier_ms.saturating_mul(1_000_000).saturating_add(ran_ns);
            let is_next = number > 0 && number.is_multiple_of(linktest.rank_orders.max(1));
            let is_enough =
                iteration >= linktest.min_iterations && ran_ns >= linktest.min_runtime_ns;
            if is_next && (is_enough || number >= MOST_ROUNDS) {
                return Ok(());
            }
            self.whole(linktest, record, iteration, round)?;
            if let Some(round) = record.rounds.last() {
                self.observer.see(RunEvent::Rounded(round));
            }
        }
    }

    /// Measures the links that the judge asks for, each alone and in one direction, until no new links remain.
    fn look_alone(&mut self, linktest: &Linktest, record: &mut LinktestRecord) -> Result<(), Halt> {
        let mut known = BTreeSet::new();
        for _ in 0..MOST_LOOKS {
            let measured = Measured::Linktest(linktest, record);
            let is_over = self.conditions.patience();
            let judged = verdict::judge_until(&self.plan, &self.hosts, measured, &is_over);
            let judged = judged.ok_or_else(|| self.interrupted())?;
            let mut links = Vec::new();
            for (from, to) in judged.open.iter().flat_map(|request| &request.pairs) {
                let rank = |port: usize| self.rank_at(record, judged.sheet.ports.get(port)?.node);
                links.extend(rank(*from).zip(rank(*to)));
            }
            links.sort_unstable();
            links.dedup();
            // Each link is measured once: single links do not show what all links of an uplink carry together, so a repeat shows nothing new.
            links.retain(|link| known.insert(*link));
            if links.is_empty() {
                return Ok(());
            }
            let round = Round::Alone {
                links,
                kernel: Kernel::Unidirectional,
            };
            let (look, outcome) = self.recorded_round(linktest, record, 0, round);
            record.looks.push(look);
            outcome?;
        }
        Ok(())
    }

    /// The first rank on the host whose first node is `node`.
    fn rank_at(&self, record: &LinktestRecord, node: usize) -> Option<usize> {
        let mut ranks = record.ranks.iter();
        ranks.position(|rank| self.hosts[rank.node].host_index == node)
    }

    /// Measures one round: all pairs, then all to all, then the slowest links again.
    fn whole(
        &mut self,
        linktest: &Linktest,
        record: &mut LinktestRecord,
        iteration: u64,
        round: Round,
    ) -> Result<(), Halt> {
        let (mut whole, outcome) = self.recorded_round(linktest, record, iteration, round);
        let times = &mut whole.times;
        times.sort_by_key(|time| (time.step, time.from, time.to));
        // The record is kept even if this round or a later one fails.
        let slowest = slowest(&whole.times, linktest.slowest);
        record.rounds.push(whole);
        outcome?;
        if linktest.all_to_all {
            let (told, outcome) = self.link_round(linktest, record, iteration, &Round::AllToAll);
            outcome?;
            last(record, |round| round.all_to_all_s = Some(told.all_to_all_s));
        }
        if !slowest.is_empty() {
            let links = slowest.iter().map(|time| (time.from, time.to)).collect();
            let again = Round::Alone {
                links,
                kernel: linktest.kernel,
            };
            let (told, outcome) = self.link_round(linktest, record, iteration, &again);
            let retests = retests(&slowest, &told.times);
            last(record, |round| round.retests = retests);
            outcome?;
        }
        let ended_ms = self.now_ms();
        last(record, |round| round.ended_ms = ended_ms);
        Ok(())
    }

    /// Measures the pairs of a round. Returns its record, even if not all of them were measured.
    fn recorded_round(
        &mut self,
        linktest: &Linktest,
        record: &mut LinktestRecord,
        iteration: u64,
        round: Round,
    ) -> (RoundRecord, Result<(), Halt>) {
        let started_ms = self.now_ms();
        let began_ns = clock::monotonic_ns();
        let (told, outcome) = self.link_round(linktest, record, iteration, &round);
        let measured = RoundRecord {
            iteration,
            started_ms,
            span_ns: clock::monotonic_ns() - began_ns,
            steps: linktest::steps(linktest, &round).len(),
            round,
            times: told.times,
            all_to_all_s: None,
            retests: Vec::new(),
            ended_ms: self.now_ms(),
        };
        (measured, outcome)
    }

    /// Measures a round of a link test under the next round number, and notes the processors of its ranks.
    fn link_round(
        &mut self,
        linktest: &Linktest,
        record: &mut LinktestRecord,
        iteration: u64,
        round: &Round,
    ) -> (Told, Result<(), Halt>) {
        let number = record.rounds.len() as u64;
        let (told, outcome) = self.pairs(linktest, (iteration, number), round);
        told.note_places(&mut record.ranks);
        (told, outcome)
    }
}

/// Iteration and plan of a round by its number, from 0.
pub(super) fn planned(linktest: &Linktest, ranks: usize, number: u64) -> (u64, Round) {
    let natural: Vec<usize> = (0..ranks).collect();
    let orders = linktest.rank_orders.max(1);
    let order = match linktest.rank_orders {
        0 => natural,
        _ => schedule::shuffled(natural, linktest.rank_seed.wrapping_add(number % orders)),
    };
    let step_seed = linktest.step_seed;
    (number / orders, Round::Whole { order, step_seed })
}

/// Changes the last round.
fn last(record: &mut LinktestRecord, change: impl FnOnce(&mut RoundRecord)) {
    if let Some(round) = record.rounds.last_mut() {
        change(round);
    }
}

/// The `count` slowest links, slowest first. Links with equal times keep the order of the schedule.
fn slowest(times: &[PairTime], count: usize) -> Vec<PairTime> {
    let mut all: Vec<&PairTime> = times.iter().collect();
    all.sort_by(|one, other| other.seconds.total_cmp(&one.seconds));
    all.into_iter().take(count).cloned().collect()
}

fn retests(old: &[PairTime], new: &[PairTime]) -> Vec<RetestRecord> {
    let new: BTreeMap<(usize, usize), &PairTime> = new
        .iter()
        .map(|time| ((time.from, time.to), time))
        .collect();
    let again = |old: &PairTime| {
        let new = new.get(&(old.from, old.to))?;
        Some(RetestRecord {
            from: old.from,
            to: old.to,
            old_s: old.seconds,
            new_s: new.seconds,
            spread: new.spread,
        })
    };
    old.iter().filter_map(again).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(from: usize, to: usize, seconds: f64) -> PairTime {
        PairTime {
            step: 0,
            from,
            to,
            seconds,
            spread: None,
            turn: 0,
            efforts: Default::default(),
        }
    }

    #[test]
    fn the_slowest_links_are_measured_again_slowest_first() {
        let all = [
            time(0, 1, 2.0),
            time(1, 0, 5.0),
            time(2, 3, 9.0),
            time(3, 2, 5.0),
        ];
        let worst = slowest(&all, 3);
        let names: Vec<_> = worst.iter().map(|time| (time.from, time.to)).collect();
        assert_eq!(names, [(2, 3), (1, 0), (3, 2)]);
        assert!(slowest(&all, 0).is_empty());
        assert_eq!(slowest(&all, 9).len(), 4);
        let again = retests(&worst, &[time(1, 0, 1.0), time(2, 3, 3.0)]);
        let figures: Vec<_> = again.iter().map(|one| (one.old_s, one.new_s)).collect();
        assert_eq!(figures, [(9.0, 3.0), (5.0, 1.0)]);
    }
}
