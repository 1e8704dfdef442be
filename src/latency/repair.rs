//! Fewer rounds: the pairs of the smallest rounds are given up, and as many others that add the same are fitted into the rest, others
//! making room for them.

use crate::stats::random::Random;

use super::elimination::Came;
use super::fabric::number;
use super::field::{Modular, Number};
use super::rounds::{Rounds, needs};
use super::rows::Model;
use super::survey::{Exact, Survey, exact_row};

const FREE: u32 = u32::MAX;

/// A pair may push out so many others, and these so many others again.
const MOST_PUSHED: usize = 3;
const DEPTH: usize = 2;
/// Attempts to find a place for one pair.
const TRIES: usize = 400;

/// Which pair has each cable in each round.
struct Table<'a> {
    model: &'a Model<'a>,
    survey: &'a Survey,
    rounds: usize,
    cables: usize,
    taken: Vec<u32>,
    /// What a cable of a round was before, so that a failed attempt leaves nothing.
    journal: Vec<(usize, u32)>,
    tries: usize,
    /// Pairs that may still be looked at, or be given a place, in all.
    work: u64,
}

impl Table<'_> {
    fn slots(&self, index: u32, round: usize) -> impl Iterator<Item = usize> + '_ {
        let begin = round * self.cables;
        let columns = self.survey.pool.columns(index);
        columns.map(move |column| begin + self.model.cable_of(column) as usize)
    }

    fn write(&mut self, slot: usize, value: u32) {
        self.journal.push((slot, self.taken[slot]));
        self.taken[slot] = value;
    }

    fn put(&mut self, index: u32, round: usize, value: u32) {
        let slots: Vec<usize> = self.slots(index, round).collect();
        slots.into_iter().for_each(|slot| self.write(slot, value));
    }

    fn undo(&mut self, to: usize) {
        while self.journal.len() > to {
            if let Some((slot, value)) = self.journal.pop() {
                self.taken[slot] = value;
            }
        }
    }

    /// Finds room for a pair in a round; those in its way go to other rounds.
    fn place(&mut self, index: u32, round: usize, depth: usize) -> bool {
        if self.tries == 0 || self.work == 0 {
            return false;
        }
        self.tries -= 1;
        self.work -= 1;
        let mut pushed: Vec<u32> = Vec::new();
        for slot in self.slots(index, round) {
            let other = self.taken[slot];
            if other != FREE && !pushed.contains(&other) {
                if pushed.len() == MOST_PUSHED || depth == 0 {
                    return false;
                }
                pushed.push(other);
            }
        }
        let mark = self.journal.len();
        for other in &pushed {
            self.put(*other, round, FREE);
        }
        self.put(index, round, index);
        for other in &pushed {
            let elsewhere = (0..self.rounds).filter(|other| *other != round);
            let mut found = false;
            for target in elsewhere.collect::<Vec<_>>() {
                if self.place(*other, target, depth - 1) {
                    found = true;
                    break;
                }
            }
            if !found {
                self.undo(mark);
                return false;
            }
        }
        true
    }

    /// Finds room for a pair in any round.
    fn place_anywhere(&mut self, index: u32, random: &mut Random) -> bool {
        let mut order: Vec<usize> = (0..self.rounds).collect();
        random.shuffle(&mut order);
        self.tries = TRIES;
        for depth in 0..=DEPTH {
            for round in &order {
                self.journal.clear();
                if self.place(index, *round, depth) {
                    return true;
                }
            }
        }
        false
    }

    fn all_rounds(&self) -> Rounds {
        let of = |round: usize| {
            let mut pairs = self.taken[round * self.cables..][..self.cables].to_vec();
            pairs.retain(|pair| *pair != FREE);
            pairs.sort_unstable();
            pairs.dedup();
            pairs
        };
        (0..self.rounds).map(of).collect()
    }
}

/// The same in `aim` rounds, fewer than there are; none if that was not found before `budget` pairs
/// were looked at or given a place.
pub fn fit(
    model: &Model<'_>,
    survey: &Survey,
    rounds: &Rounds,
    aim: usize,
    budget: u64,
    random: &mut Random,
) -> Option<Rounds> {
    let mut kept = rounds.clone();
    kept.sort_by_key(|round| std::cmp::Reverse(round.len()));
    let given_up: Vec<u32> = kept.split_off(aim).into_iter().flatten().collect();
    let mut work = budget;
    let (mut best, mut missing) = complete(model, survey, &kept, &given_up, &mut work, random);
    while missing > 0 && work > 0 {
        // Looking at the basis is work, too.
        work = work.saturating_sub(survey.rank() as u64 / 8 + 1);
        let part = 0.003 * 33.0_f64.powf(random.unit());
        let mut fewer = best.clone();
        let mut dropped = Vec::new();
        for round in &mut fewer {
            round.retain(|index| {
                let stays = random.unit() >= part;
                if !stays {
                    dropped.push(*index);
                }
                stays
            });
        }
        if dropped.is_empty() {
            continue;
        }
        // What was dropped comes last: otherwise it would be put back where it was.
        let (tried, left) = complete(model, survey, &fewer, &[], &mut work, random);
        if left <= missing {
            (best, missing) = (tried, left);
        }
    }
    (missing == 0).then_some(best)
}

/// Fills up rounds until the basis is whole, or nothing fits any more; and what is missing then.
fn complete(
    model: &Model<'_>,
    survey: &Survey,
    kept: &Rounds,
    first: &[u32],
    work: &mut u64,
    random: &mut Random,
) -> (Rounds, usize) {
    let pool = &survey.pool;
    let cables = model.fabric.cables.len();
    let mut table = Table {
        model,
        survey,
        rounds: kept.len(),
        cables,
        taken: vec![FREE; kept.len() * cables],
        journal: Vec::new(),
        tries: 0,
        work: *work,
    };
    let mut need = needs(survey);
    // A tier that has all it needs must not be looked at.
    let mut engines: Vec<Option<Exact>> = vec![None; need.len()];
    let mut counts = vec![0; need.len()];
    for index in kept.iter().flatten() {
        counts[pool.tier_of(*index)] += 1;
    }
    for (tier, count) in counts.iter().enumerate() {
        need[tier] -= count;
        if need[tier] > 0 {
            engines[tier] = Some(survey.before[tier].clone());
        }
    }
    for (round, pairs) in kept.iter().enumerate() {
        for index in pairs {
            table.put(*index, round, *index);
            if let Some(engine) = &mut engines[pool.tier_of(*index)] {
                engine.insert(exact_row(pool.row(*index)), Modular::ZERO);
            }
        }
        table.journal.clear();
    }
    for index in first {
        try_add(&mut table, &mut engines, &mut need, *index, random);
    }
    let starts: Vec<(usize, u32)> = (0..need.len())
        .map(|tier| {
            let range = pool.tier(tier);
            (
                tier,
                number(random.below((range.end - range.start).max(1) as usize)),
            )
        })
        .collect();
    for (tier, start) in starts {
        let range = pool.tier(tier);
        let length = range.end - range.start;
        for step in 0..length {
            if need[tier] == 0 || table.work == 0 {
                break;
            }
            let index = range.start + (start + step) % length;
            try_add(&mut table, &mut engines, &mut need, index, random);
        }
    }
    *work = table.work;
    (table.all_rounds(), need.iter().sum())
}

fn try_add(
    table: &mut Table<'_>,
    engines: &mut [Option<Exact>],
    need: &mut [usize],
    index: u32,
    random: &mut Random,
) {
    let pool = &table.survey.pool;
    let tier = pool.tier_of(index);
    let Some(engine) = engines[tier].as_mut().filter(|_| need[tier] > 0) else {
        return;
    };
    table.work = table.work.saturating_sub(1);
    if !engine.is_independent(exact_row(pool.row(index))) || !table.place_anywhere(index, random) {
        return;
    }
    let came = engine.insert(exact_row(pool.row(index)), Modular::ZERO);
    need[tier] -= usize::from(came == Came::Independent);
}
