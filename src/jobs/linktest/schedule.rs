//! Pairs of ranks that measure together, step by step. Pure.

use numbers::random::Random;

/// Pairs of a step, which measure at the same time. The first rank of a pair starts first.
pub type Step = Vec<(usize, usize)>;

/// All pairs of `order` in the fewest possible steps: one less than the number of ranks, or as many as ranks if that number is odd. In the
/// odd case one rank rests in each step. The 1-factorisation is LinkTest's: the first rank stays, the others sit on a ring that turns by
/// one place from step to step.
pub fn parallel(order: &[usize]) -> Vec<Step> {
    let mut all: Vec<Option<usize>> = order.iter().copied().map(Some).collect();
    if order.len() % 2 == 1 {
        all.push(None); // The partner of this entry rests.
    }
    let Some((first, ring)) = all.split_first() else {
        return Vec::new();
    };
    let size = ring.len();
    let step = |turn: usize| {
        let at = |place: usize| ring[(place + size - turn % size) % size];
        let pairs = std::iter::once((*first, at(0)))
            .chain((1..all.len() / 2).map(|place| (at(place), at(size - place))));
        let both = |(one, other): (Option<usize>, Option<usize>)| one.zip(other);
        pairs.filter_map(both).collect()
    };
    (1..=size).map(step).collect()
}

/// All pairs between the first and the second half of `order`. If the number of ranks is odd, the second half is larger, and one of its
/// ranks rests in each step.
pub fn bisection(order: &[usize]) -> Vec<Step> {
    let (first, second) = order.split_at(order.len() / 2);
    let step = |turn: usize| {
        let partners = second.iter().copied().cycle().skip(turn);
        first.iter().copied().zip(partners).collect()
    };
    (0..second.len()).map(step).collect()
}

/// The same pairs, each in its own step.
pub fn serial(steps: Vec<Step>) -> Vec<Step> {
    steps.into_iter().flatten().map(|pair| vec![pair]).collect()
}

/// The same items in an order that follows from `seed`.
pub fn shuffled<T>(mut all: Vec<T>, seed: u64) -> Vec<T> {
    Random::new(seed).shuffle(&mut all);
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn natural(ranks: usize) -> Vec<usize> {
        (0..ranks).collect()
    }

    /// Checks that every pair occurs once, and no rank twice in a step. With both directions within a step, every ordered pair occurs
    /// exactly once.
    fn check(steps: &[Step], expected: &BTreeSet<(usize, usize)>) {
        let mut seen = BTreeSet::new();
        for step in steps {
            let mut busy = BTreeSet::new();
            for (one, other) in step {
                assert!(busy.insert(*one) && busy.insert(*other), "{step:?}");
                assert!(seen.insert((*one, *other)) && seen.insert((*other, *one)));
            }
        }
        assert_eq!(seen, *expected);
    }

    fn ordered_pairs(ranks: usize) -> BTreeSet<(usize, usize)> {
        let all = (0..ranks).flat_map(|one| (0..ranks).map(move |other| (one, other)));
        all.filter(|(one, other)| one != other).collect()
    }

    #[test]
    fn every_ordered_pair_is_measured_exactly_once_and_no_rank_twice_in_a_step() {
        for ranks in 2..=65 {
            for order in [natural(ranks), shuffled(natural(ranks), ranks as u64)] {
                let steps = parallel(&order);
                assert_eq!(steps.len(), ranks - 1 + ranks % 2);
                assert!(steps.iter().all(|step| step.len() == ranks / 2));
                check(&steps, &ordered_pairs(ranks));
                check(&shuffled(steps.clone(), 5), &ordered_pairs(ranks));
                let alone = serial(steps);
                assert_eq!(alone.len(), ranks * (ranks - 1) / 2);
                check(&alone, &ordered_pairs(ranks));
            }
        }
    }

    #[test]
    fn a_bisection_has_every_pair_between_the_halves_and_no_other() {
        for ranks in 2..=65 {
            let order = shuffled(natural(ranks), 3);
            let (first, second) = order.split_at(ranks / 2);
            let across = first
                .iter()
                .flat_map(|one| second.iter().map(move |other| (*one, *other)));
            let across: BTreeSet<_> = across
                .flat_map(|(one, other)| [(one, other), (other, one)])
                .collect();
            let steps = bisection(&order);
            assert_eq!(steps.len(), ranks.div_ceil(2));
            assert!(steps.iter().all(|step| step.len() == ranks / 2));
            check(&steps, &across);
        }
    }

    #[test]
    fn the_natural_schedule_is_linktests_own() {
        // As printed by the original function for 4 and 6 tasks (facts, 2.2).
        let four = [
            vec![(0, 3), (1, 2)],
            vec![(0, 2), (3, 1)],
            vec![(0, 1), (2, 3)],
        ];
        assert_eq!(parallel(&natural(4)), four);
        let six = [
            vec![(0, 5), (1, 4), (2, 3)],
            vec![(0, 4), (5, 3), (1, 2)],
            vec![(0, 3), (4, 2), (5, 1)],
            vec![(0, 2), (3, 1), (4, 5)],
            vec![(0, 1), (2, 5), (3, 4)],
        ];
        assert_eq!(parallel(&natural(6)), six);
    }

    #[test]
    fn a_seed_gives_the_same_order_each_time_and_another_one_another() {
        let order = shuffled(natural(20), 1);
        assert_eq!(order, shuffled(natural(20), 1));
        assert_ne!(order, shuffled(natural(20), 2));
        let all: BTreeSet<usize> = order.into_iter().collect();
        assert_eq!(all.len(), 20);
    }
}
