//! Chooses a basis together with its rounds. The pairs of a round share no cable and are measured at the same time.
//!
//! All pairs of the shorter tiers determine what is known before a tier. So the choice of shorter pairs does not change whether a pair adds
//! something to its tier. Tiers can be mixed in a round as they fit, and a pair that adds nothing never will.

use numbers::random::Random;
use numbers::whole;

use super::fabric::number;
use super::pool::{Pool, Rounds};
use super::repair;
use super::rows::Model;
use super::survey::{Exact, Survey};

/// Amount of search for few rounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Effort {
    /// Take the first result.
    Least,
    /// Search for one round more than the lower bound, and for the bound itself in small fabrics.
    #[default]
    Usual,
    /// Search for the lower bound.
    Most,
}

/// A lower bound on the rounds of any basis, and its reason. It is not always reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LowerBound {
    /// Number of rounds.
    pub rounds: usize,
    /// The fact that the bound follows from.
    pub reason: &'static str,
}

/// Returns the largest of the known bounds.
pub fn lower_bound(model: &Model<'_>, survey: &Survey, present: usize) -> LowerBound {
    let rank = survey.rank();
    let mut best = LowerBound {
        rounds: rank.div_ceil((present / 2).max(1)),
        reason: "each pair takes two hosts",
    };
    let mut better = |rounds: usize, reason| {
        if rounds > best.rounds {
            best = LowerBound { rounds, reason };
        }
    };
    // Longer pairs take more of the cables between switches, and each tier needs a fixed number of pairs.
    let cables = survey.used.iter().map(|column| model.cable_of(*column));
    let mut between: Vec<u32> = cables
        .filter(|cable| !model.fabric.joins_host(*cable))
        .collect();
    between.dedup();
    if !between.is_empty() {
        let mut taken = 0;
        let mut known = 0;
        for tier in &survey.tiers {
            let cables = if model.directed {
                (tier.support - 2).div_ceil(2)
            } else {
                tier.support - 2
            };
            taken += (tier.rank - known) * cables;
            known = tier.rank;
        }
        better(
            taken.div_ceil(between.len()),
            "pairs of distant hosts share the cables between switches",
        );
    }
    // Two rounds in which all hosts take part form even cycles, and each cycle has one pair too many.
    let star = survey.tiers.len() == 1 && survey.tiers[0].support == 2;
    if star && rank >= 3 {
        better(3, "two rounds of one switch form even cycles");
    }
    // Pairs that a bridge must serve need separate rounds.
    if survey.pool.count() <= 4096 {
        for cable in &between {
            let mut without = Exact::new((0..number(model.columns())).collect());
            for index in 0..number(survey.pool.count()) {
                let mut cables = survey.pool.cables(model, index);
                if cables.all(|other| other != *cable as usize) {
                    without.add(survey.pool.row(index));
                }
            }
            better(
                rank - without.rank(),
                "so many independent pairs need the same cable",
            );
        }
    }
    best
}

/// Chooses a basis in few rounds.
pub fn choose(
    model: &Model<'_>,
    survey: &Survey,
    bound: usize,
    effort: Effort,
    random: &mut Random,
) -> Rounds {
    let mut best = greedy(model, survey, bound + 1, random);
    if effort == Effort::Least {
        return best;
    }
    // The bound itself is often out of reach, so it is tried only where that is cheap.
    const SMALL: usize = 512;
    let try_bound = effort == Effort::Most || survey.rank() <= SMALL;
    let goal = if try_bound { bound } else { bound + 1 };
    while best.len() > goal {
        let aim = best.len() - 1;
        let budget = match (effort, survey.rank()) {
            (Effort::Most, _) => 1_000_000_000,
            // The search of the smallest fabrics is exhausted with much less.
            (_, rank @ 0..=128) => (3000 * rank as u64 * rank as u64).min(12_000_000),
            _ => 3_000_000,
        };
        match repair::fit(model, survey, &best, aim, budget, random) {
            Some(fewer) => best = fewer,
            None => break,
        }
    }
    best
}

/// Fills round after round with pairs that add something: shorter tiers first, and in a tier those whose cables were used least.
fn greedy(model: &Model<'_>, survey: &Survey, target: usize, random: &mut Random) -> Rounds {
    let pool = &survey.pool;
    let tiers = survey.tiers.len();
    let mut engines: Vec<Exact> = survey.before.clone();
    let mut need = survey.needs();
    let mut open: Vec<Vec<u32>> = (0..tiers).map(|tier| pool.tier(tier).collect()).collect();
    let mut load = vec![0_u32; model.fabric.cables.len()];
    let mut stamp = vec![0_u32; model.fabric.cables.len()];
    let mut rounds: Rounds = Vec::new();
    while need.iter().any(|count| *count > 0) {
        let round = number(rounds.len() + 1);
        let left = target.saturating_sub(rounds.len()).max(1);
        let mut taken = Vec::new();
        for tier in 0..tiers {
            if need[tier] > 0 {
                random.shuffle(&mut open[tier]);
                by_load(model, pool, &mut open[tier], &load);
            }
        }
        for pass in 0..2 {
            for tier in 0..tiers {
                let mut quota = match pass {
                    0 => need[tier].div_ceil(left),
                    _ => need[tier],
                };
                if quota == 0 {
                    continue;
                }
                let engine = &mut engines[tier];
                let needed = &mut need[tier];
                open[tier].retain(|index| {
                    let mut cables = pool.cables(model, *index);
                    if quota == 0 || cables.any(|cable| stamp[cable] == round) {
                        return true;
                    }
                    if engine.add(pool.row(*index)) {
                        quota -= 1;
                        *needed -= 1;
                        taken.push(*index);
                        for cable in pool.cables(model, *index) {
                            stamp[cable] = round;
                            load[cable] += 1;
                        }
                    }
                    false
                });
            }
        }
        rounds.push(taken);
    }
    rounds
}

/// Sorts pairs by the total load of their cables, least first. The sort is stable.
fn by_load(model: &Model<'_>, pool: &Pool, pairs: &mut Vec<u32>, load: &[u32]) {
    let of = |index: &u32| -> u32 {
        let cables = pool.cables(model, *index);
        cables.map(|cable| load[cable]).sum()
    };
    let loads: Vec<u32> = pairs.iter().map(of).collect();
    let most = loads.iter().max().map_or(0, |most| *most as usize);
    let mut ends = vec![0_usize; most + 2];
    loads.iter().for_each(|sum| ends[*sum as usize + 1] += 1);
    for at in 1..ends.len() {
        ends[at] += ends[at - 1];
    }
    let mut sorted = vec![0; pairs.len()];
    for (index, sum) in pairs.iter().zip(&loads) {
        let at = &mut ends[*sum as usize];
        sorted[*at] = *index;
        *at += 1;
    }
    *pairs = sorted;
}

/// Adds pairs until there are at least `factor` times as many as in the basis: first where rounds have room, which costs nothing, then in new rounds.
/// Prefers pairs whose cables were measured least.
pub fn add(
    model: &Model<'_>,
    survey: &Survey,
    rounds: &mut Rounds,
    factor: f64,
    random: &mut Random,
) {
    let pool = &survey.pool;
    let wanted =
        usize::try_from(whole((survey.rank() as f64 * factor).ceil())).unwrap_or(usize::MAX);
    let cables = model.fabric.cables.len();
    let mut load = vec![0_u32; cables];
    let mut chosen = vec![false; pool.count()];
    for index in rounds.iter().flatten() {
        chosen[*index as usize] = true;
        pool.cables(model, *index)
            .for_each(|cable| load[cable] += 1);
    }
    let mut count = rounds.iter().map(Vec::len).sum::<usize>();
    let mut open: Vec<u32> = (0..number(pool.count()))
        .filter(|index| !chosen[*index as usize])
        .collect();
    let mut at = 0;
    let mut stamp = vec![0_u32; cables];
    while factor > 1.0 && !open.is_empty() {
        let is_new = at >= rounds.len();
        if is_new {
            if count >= wanted {
                return;
            }
            rounds.push(Vec::new());
        }
        let mark = number(at + 1);
        for index in &rounds[at] {
            pool.cables(model, *index)
                .for_each(|cable| stamp[cable] = mark);
        }
        random.shuffle(&mut open);
        by_square(model, pool, &mut open, &load);
        open.retain(|index| {
            if pool.cables(model, *index).any(|cable| stamp[cable] == mark) {
                return true;
            }
            for cable in pool.cables(model, *index) {
                stamp[cable] = mark;
                load[cable] += 1;
            }
            rounds[at].push(*index);
            count += 1;
            false
        });
        if is_new && rounds[at].is_empty() {
            rounds.pop();
            return;
        }
        at += 1;
    }
}

/// Sorts pairs by the mean square load of their cables, least first.
fn by_square(model: &Model<'_>, pool: &Pool, pairs: &mut [u32], load: &[u32]) {
    let of = |index: &u32| {
        let cables = pool.cables(model, *index);
        let squares = cables.map(|cable| u64::from(load[cable]).pow(2));
        let (count, sum) = squares.fold((0_u64, 0_u64), |(count, sum), square| {
            (count + 1, sum + square)
        });
        // In sixteenths: close values count as equal, and their order is random.
        sum * 16 / count.max(1)
    };
    pairs.sort_by_cached_key(of);
}
