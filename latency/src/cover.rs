//! Plans a few rounds that locate a slow cable against a baseline: every cable is measured, and no two are in the same pairs.

use std::collections::HashMap;

use numbers::random::Random;

use super::fabric::number;
use super::pool::{Pool, Rounds};
use super::rows::Model;

/// Rounds that cover and separate cables.
#[derive(Debug, Clone)]
pub struct Cover {
    /// Indices of pairs of the pool, by round.
    pub rounds: Rounds,
    /// Number of covered columns that the pairs distinguish from all others.
    pub unique: usize,
}

const UNSEEN: u32 = u32::MAX;

/// Plans `rounds` rounds of pairs that share no cable. In each round, pairs through cables not measured yet come first, then pairs that split cables
/// which the same pairs have measured so far, then long pairs.
pub fn cover(model: &Model<'_>, pool: &Pool, rounds: usize, random: &mut Random) -> Cover {
    let columns = model.columns();
    let mut used = vec![false; columns];
    for index in 0..number(pool.count()) {
        pool.columns(index)
            .for_each(|column| used[column as usize] = true);
    }
    // The same pairs have measured all columns of a kind so far.
    let mut kind = vec![0_u32; columns];
    let mut seen = vec![false; columns];
    let mut stamp = vec![0_u32; model.fabric.cables.len()];
    let mut all = Rounds::new();
    for round in 1..=number(rounds) {
        let size = sizes(&kind, &used);
        let score = |index: u32| {
            let (mut fresh, mut split, mut length) = (0_u32, 0_u32, 0_u32);
            let mut kinds: Vec<(u32, u32)> = Vec::new();
            for column in pool.columns(index) {
                let at = column as usize;
                fresh += u32::from(!seen[at]);
                length += 1;
                match kinds.iter_mut().find(|(known, _)| *known == kind[at]) {
                    Some((_, count)) => *count += 1,
                    None => kinds.push((kind[at], 1)),
                }
            }
            for (kind, count) in kinds {
                let others = size.get(&kind).map_or(0, |size| size - count);
                split += count.min(others);
            }
            u32::MAX - (64 * fresh + 8 * split + length)
        };
        let mut order: Vec<u32> = (0..number(pool.count())).collect();
        random.shuffle(&mut order);
        order.sort_by_cached_key(|index| score(*index));
        let mut taken = Vec::new();
        let mut now = vec![UNSEEN; columns];
        for index in order {
            if pool.cables(model, index).any(|cable| stamp[cable] == round) {
                continue;
            }
            for column in pool.columns(index) {
                stamp[model.cable_of(column) as usize] = round;
                now[column as usize] = index;
                seen[column as usize] = true;
            }
            taken.push(index);
        }
        all.push(taken);
        let mut next: HashMap<(u32, u32), u32> = HashMap::new();
        for (kind, pair) in kind.iter_mut().zip(&now) {
            let fresh = number(next.len());
            *kind = *next.entry((*kind, *pair)).or_insert(fresh);
        }
    }
    let size = sizes(&kind, &used);
    let is_unique = |at: &usize| used[*at] && seen[*at] && size.get(&kind[*at]) == Some(&1);
    Cover {
        rounds: all,
        unique: (0..columns).filter(is_unique).count(),
    }
}

/// Number of used columns of each kind.
fn sizes(kind: &[u32], used: &[bool]) -> HashMap<u32, u32> {
    let mut size = HashMap::new();
    for (kind, _) in kind.iter().zip(used).filter(|(_, used)| **used) {
        *size.entry(*kind).or_default() += 1;
    }
    size
}
