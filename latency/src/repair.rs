//! Reduces the number of rounds: removes the smallest rounds, then fits as many pairs that add the same into the rest. Pairs in the way move to other
//! rounds.

use numbers::random::Random;

use super::fabric::number;
use super::pool::Rounds;
use super::rows::Model;
use super::survey::{Exact, Survey, exact_row};

const FREE: u32 = u32::MAX;

/// Most pairs that one pair can push out of a round. Each of these can push out as many again.
const MOST_PUSHED: usize = 3;
/// Most levels of such pushes.
const DEPTH: usize = 2;
/// Most attempts to find a place for one pair.
const TRIES: usize = 400;

/// The pair that occupies each cable in each round.
struct Table<'a> {
    model: &'a Model<'a>,
    survey: &'a Survey,
    rounds: usize,
    cables: usize,
    taken: Vec<u32>,
    /// Overwritten entries of `taken`, with their old values, to undo a failed attempt.
    journal: Vec<(usize, u32)>,
    tries: usize,
    /// Remaining budget: number of pairs that can still be examined or placed, in total.
    work: u64,
}

impl Table<'_> {
    fn slots(&self, index: u32, round: usize) -> impl Iterator<Item = usize> + '_ {
        let begin = round * self.cables;
        let cables = self.survey.pool.cables(self.model, index);
        cables.map(move |cable| begin + cable)
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
        for (slot, value) in self.journal.drain(to..).rev() {
            self.taken[slot] = value;
        }
    }

    /// Places a pair in a round; pairs in its way move to other rounds. Returns false, with the table unchanged, if that fails.
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
            let mut elsewhere = (0..self.rounds).filter(|target| *target != round);
            if !elsewhere.any(|target| self.place(*other, target, depth - 1)) {
                self.undo(mark);
                return false;
            }
        }
        true
    }

    /// Places a pair in any round. Returns false if that fails.
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

/// Finds a basis in `aim` rounds, fewer than `rounds` has. Returns `None` if it finds none before `budget` pairs have been examined or placed.
pub(crate) fn fit(
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
        // Examining the basis costs work, too.
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
        // Pass no pairs to try first: the dropped pairs would return to their old places.
        let (tried, left) = complete(model, survey, &fewer, &[], &mut work, random);
        if left <= missing {
            (best, missing) = (tried, left);
        }
    }
    (missing == 0).then_some(best)
}

/// Fills up rounds until the basis is complete or nothing more fits. Also returns the number of pairs that are still missing.
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
    let mut need = survey.needs();
    // A complete tier gets no elimination: its pairs must not be examined.
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
                engine.add(pool.row(*index));
            }
        }
        table.journal.clear();
    }
    for index in first {
        try_add(&mut table, &mut engines, &mut need, *index, random);
    }
    let starts: Vec<u32> = (0..need.len())
        .map(|tier| number(random.below(pool.tier(tier).len().max(1))))
        .collect();
    for (tier, start) in starts.into_iter().enumerate() {
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
    need[tier] -= usize::from(engine.add(pool.row(index)));
}
