//! Selects the pairs that can be measured: all pairs of a small fabric, and enough pairs of each kind of a large one.
//!
//! Pairs whose rows have the same number of columns form a tier. Short pairs come first: they determine the cables next to the hosts. Each longer
//! pair adds only a little.

use std::collections::BTreeMap;

use numbers::random::Random;

use super::fabric::number;
use super::rows::{Model, Room, Term};

/// Number of partners that each host gets for each kind of pair.
pub const PARTNERS: usize = 24;

/// Indices of pairs of a pool, by round.
pub type Rounds = Vec<Vec<u32>>;

/// Pairs with their rows, tier by tier; within a tier in the order of hosts.
#[derive(Debug, Clone)]
pub struct Pool {
    pairs: Vec<(u32, u32)>,
    /// Start of each pair's row in `terms`.
    begins: Vec<u32>,
    /// Columns, each with its multiplicity in the lowest bit (0 for 1, 1 for 2).
    terms: Vec<u32>,
    /// Support of each tier, and its end in `pairs`.
    tiers: Vec<(usize, usize)>,
}

/// All pairs of some hosts, each once, in the order of the hosts.
pub fn pairs_among(hosts: &[u32]) -> impl Iterator<Item = (u32, u32)> + '_ {
    let with = move |at: usize| hosts[at + 1..].iter().map(move |to| (hosts[at], *to));
    (0..hosts.len()).flat_map(with)
}

impl Pool {
    /// Draws pairs of the hosts that are present: `partners` for each host and kind of pair, or all pairs if these are few.
    pub fn draw(model: &Model<'_>, present: &[u32], partners: usize, random: &mut Random) -> Self {
        let hosts = present.len();
        let all = hosts * hosts.saturating_sub(1) / 2;
        let pairs: Vec<(u32, u32)> = if all <= 3 * partners * hosts {
            pairs_among(present).collect()
        } else {
            drawn(model, present, partners, random)
        };
        Self::of(model, pairs)
    }

    /// Builds a pool of these pairs.
    pub fn of(model: &Model<'_>, mut pairs: Vec<(u32, u32)>) -> Self {
        pairs.sort_unstable();
        pairs.dedup();
        let (mut room, mut row) = (Room::default(), Vec::new());
        let mut supports = Vec::with_capacity(pairs.len());
        for (from, to) in &pairs {
            model.row(*from, *to, &mut room, &mut row);
            supports.push(u16::try_from(row.len()).unwrap_or(u16::MAX));
        }
        let mut counts: BTreeMap<u16, usize> = BTreeMap::new();
        for support in &supports {
            *counts.entry(*support).or_default() += 1;
        }
        // Put each pair in its tier, in the order of `pairs`.
        let mut tiers = Vec::new();
        let mut next: BTreeMap<u16, usize> = BTreeMap::new();
        let (mut end, mut terms) = (0, 0);
        for (support, count) in &counts {
            next.insert(*support, end);
            end += count;
            terms += count * usize::from(*support);
            tiers.push((usize::from(*support), end));
        }
        let mut ordered = vec![(0, 0); pairs.len()];
        for (pair, support) in pairs.iter().zip(&supports) {
            if let Some(at) = next.get_mut(support) {
                ordered[*at] = *pair;
                *at += 1;
            }
        }
        drop((pairs, supports));
        let mut pool = Self {
            pairs: ordered,
            begins: Vec::new(),
            terms: Vec::with_capacity(terms),
            tiers,
        };
        pool.begins.reserve_exact(pool.pairs.len() + 1);
        for (from, to) in &pool.pairs {
            pool.begins.push(number(pool.terms.len()));
            model.row(*from, *to, &mut room, &mut row);
            pool.terms.extend(
                row.iter()
                    .map(|(column, times)| 2 * column + u32::from(*times > 1)),
            );
        }
        pool.begins.push(number(pool.terms.len()));
        pool
    }

    /// Number of pairs.
    pub fn count(&self) -> usize {
        self.pairs.len()
    }

    /// All pairs, tier by tier.
    pub fn pairs(&self) -> &[(u32, u32)] {
        &self.pairs
    }

    /// The two hosts of a pair.
    pub fn pair(&self, index: u32) -> (u32, u32) {
        self.pairs[index as usize]
    }

    /// Number of tiers.
    pub fn tiers(&self) -> usize {
        self.tiers.len()
    }

    /// Number of columns in each row of a tier.
    pub fn support(&self, tier: usize) -> usize {
        self.tiers[tier].0
    }

    /// Indices of the pairs of a tier.
    pub fn tier(&self, tier: usize) -> std::ops::Range<u32> {
        let begin = tier.checked_sub(1).map_or(0, |before| self.tiers[before].1);
        number(begin)..number(self.tiers[tier].1)
    }

    /// The tier of a pair.
    pub fn tier_of(&self, index: u32) -> usize {
        self.tiers
            .partition_point(|(_, end)| *end <= index as usize)
    }

    /// The row of a pair.
    pub fn row(&self, index: u32) -> impl Iterator<Item = Term> + Clone + '_ {
        let range = self.begins[index as usize] as usize..self.begins[index as usize + 1] as usize;
        self.terms[range]
            .iter()
            .map(|term| (term >> 1, (term & 1) as u8 + 1))
    }

    /// The columns of a pair.
    pub fn columns(&self, index: u32) -> impl Iterator<Item = u32> + Clone + '_ {
        self.row(index).map(|(column, _)| column)
    }

    /// The cables of a pair's columns.
    pub(super) fn cables(&self, model: &Model<'_>, index: u32) -> impl Iterator<Item = usize> {
        self.columns(index)
            .map(move |column| model.cable_of(column) as usize)
    }
}

/// Draws all pairs below the same switch, and for each host `partners` pairs of each other length. In half of these the partner has the same place
/// below its switch, because destination-mod routing makes such rows short.
fn drawn(
    model: &Model<'_>,
    present: &[u32],
    partners: usize,
    random: &mut Random,
) -> Vec<(u32, u32)> {
    let fabric = model.fabric;
    let mut below: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for host in present {
        below
            .entry(fabric.leaf_of[*host as usize])
            .or_default()
            .push(*host);
    }
    let leaves: Vec<&Vec<u32>> = below.values().collect();
    let mut pairs = Vec::new();
    for hosts in &leaves {
        pairs.extend(pairs_among(hosts));
    }
    let (mut room, mut row) = (Room::default(), Vec::new());
    for (own, hosts) in leaves.iter().enumerate() {
        // Other leaves by the length of a row to them.
        let mut kinds: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (other, partners) in leaves.iter().enumerate() {
            if other != own {
                model.row(hosts[0], partners[0], &mut room, &mut row);
                kinds.entry(row.len()).or_default().push(other);
            }
        }
        for (place, from) in hosts.iter().enumerate() {
            for others in kinds.values() {
                for turn in 0..partners {
                    let leaf = leaves[others[random.below(others.len())]];
                    let at = if turn % 2 == 0 {
                        place % leaf.len()
                    } else {
                        random.below(leaf.len())
                    };
                    let to = leaf[at];
                    pairs.push((*from.min(&to), *from.max(&to)));
                }
            }
        }
    }
    pairs
}
