//! Surveys the pairs of a fabric: matrix rank, a basis, and the proof that both are exact.

use numbers::random::Random;

use super::elimination::{Elimination, inverse};
use super::fabric::number;
use super::field::{Modular, Number, PRIME};
use super::pool::{Pool, pairs_among};
use super::rows::{Model, Room, Term};

/// The exact elimination that plans are made with.
pub type Exact = Elimination<Modular>;

/// The proof that a matrix rank is exact.
#[derive(Debug, Clone, PartialEq)]
pub enum Proof {
    /// Every column is identified. Rows that are independent modulo a prime are independent, and no rank exceeds the number of columns.
    Full,
    /// This number of independent integer vectors, the number of used columns minus the rank, give 0 with the row of every pair: the rank is no
    /// larger. Rows that are independent modulo a prime are independent: the rank is no smaller.
    Vectors(usize),
    /// A random vector that gives 0 with all rows of the basis, modulo a prime, gave 0 with the row of every pair. If a row were outside the span of
    /// the basis, this would happen with at most this probability.
    Random(f64),
}

/// Pairs whose rows have the same number of columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tier {
    /// Number of columns in each of their rows.
    pub support: usize,
    /// Matrix rank of this and all shorter tiers.
    pub rank: usize,
}

/// Candidate pairs of a fabric, their matrix rank and a basis.
#[derive(Debug, Clone)]
pub struct Survey {
    /// Candidate pairs; they span the same space as all pairs.
    pub pool: Pool,
    /// Tiers, shortest first.
    pub tiers: Vec<Tier>,
    /// Elimination of all shorter tiers, for each tier.
    pub before: Vec<Exact>,
    /// Elimination of the whole pool.
    pub all: Exact,
    /// A basis: indices of pairs of the pool, in the order of tiers and hosts.
    pub basis: Vec<u32>,
    /// Columns that at least one pair goes through.
    pub used: Vec<u32>,
    /// Proof that the rank is exact.
    pub proof: Proof,
    /// Number of pools: the first, and one for each time that pairs had to be added.
    pub epochs: usize,
}

/// Settings for a survey.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Looking {
    /// Number of partners for each host and kind of pair.
    pub partners: usize,
    /// Seed of the random draws.
    pub seed: u64,
    /// Most products for checking vectors on all pairs. A deficient rank that needs more gets [`Proof::Random`].
    pub proof_products: u64,
}

impl Default for Looking {
    fn default() -> Self {
        Self {
            partners: super::pool::PARTNERS,
            seed: 1,
            proof_products: 500_000_000,
        }
    }
}

/// Converts a row for an exact elimination.
pub fn exact_row(row: impl Iterator<Item = Term>) -> impl Iterator<Item = (u32, Modular)> {
    row.map(|(column, times)| (column, Modular(u64::from(times))))
}

impl Exact {
    /// Adds the row of a pair if it is independent of the earlier rows. Returns false if it follows from them.
    pub fn add(&mut self, row: impl Iterator<Item = Term>) -> bool {
        self.insert(exact_row(row), Modular::ZERO)
    }
}

impl Survey {
    /// Number of pairs that each tier adds to the shorter ones.
    pub fn needs(&self) -> Vec<usize> {
        let mut known = 0;
        let of = |tier: &Tier| {
            let need = tier.rank - known;
            known = tier.rank;
            need
        };
        self.tiers.iter().map(of).collect()
    }

    /// Surveys the pairs of the hosts that are present (at least two, numbers in ascending order).
    pub fn of(model: &Model<'_>, present: &[u32], looking: Looking) -> Self {
        let mut random = Random::new(looking.seed);
        let mut pool = Pool::draw(model, present, looking.partners, &mut random);
        let mut epochs = 1;
        loop {
            let mut survey = Self::of_pool(model, pool);
            survey.epochs = epochs;
            if survey.all.known_count() == survey.used.len() && survey.used.len() == model.usable()
            {
                return survey;
            }
            let missing = survey.missing(model, present, &mut random);
            if missing.is_empty() {
                survey.prove(model, present, looking.proof_products);
                return survey;
            }
            let mut pairs = survey.pool.pairs().to_vec();
            pairs.extend(missing);
            pool = Pool::of(model, pairs);
            epochs += 1;
        }
    }

    fn of_pool(model: &Model<'_>, pool: Pool) -> Self {
        let columns = model.columns();
        // Columns that appear in later tiers are eliminated first.
        let mut first_tier = vec![u32::MAX; columns];
        for tier in 0..pool.tiers() {
            for index in pool.tier(tier) {
                for column in pool.columns(index) {
                    let slot = &mut first_tier[column as usize];
                    *slot = (*slot).min(number(tier));
                }
            }
        }
        let mut order: Vec<u32> = (0..number(columns)).collect();
        order.sort_by_key(|column| (first_tier[*column as usize], *column));
        let mut appeared = vec![0; pool.tiers()];
        for tier in first_tier.iter().filter(|tier| **tier != u32::MAX) {
            appeared[*tier as usize] += 1;
        }
        let used = (0..number(columns)).filter(|column| first_tier[*column as usize] != u32::MAX);
        let mut all = Exact::new(inverse(&order));
        let (mut tiers, mut before, mut basis) = (Vec::new(), Vec::new(), Vec::new());
        let mut seen = 0;
        for (tier, new) in appeared.iter().enumerate() {
            before.push(all.clone());
            seen += new;
            for index in pool.tier(tier) {
                if all.known_count() == seen {
                    break; // All columns of these tiers are known: further pairs add nothing.
                }
                if all.add(pool.row(index)) {
                    basis.push(index);
                }
            }
            tiers.push(Tier {
                support: pool.support(tier),
                rank: all.rank(),
            });
        }
        Self {
            pool,
            tiers,
            before,
            all,
            basis,
            used: used.collect(),
            proof: Proof::Full,
            epochs: 1,
        }
    }

    /// Matrix rank of all pairs.
    pub fn rank(&self) -> usize {
        self.basis.len()
    }

    /// Finds pairs outside the span of the pool, if any exist: not all, but enough of them.
    fn missing(&self, model: &Model<'_>, present: &[u32], random: &mut Random) -> Vec<(u32, u32)> {
        let null = self.all.solution(|_| Modular(random.any() % PRIME));
        let most = 4 * present.len();
        let mut missing = Vec::new();
        for_all_pairs(model, present, |pair, row| {
            let sum = row.iter().fold(Modular::ZERO, |sum, (column, times)| {
                sum.plus(null[*column as usize].times(Modular(u64::from(*times))))
            });
            if !sum.is_zero() {
                missing.push(pair);
            }
            missing.len() < most
        });
        missing
    }

    /// Proves a deficient rank when no pair is missing: by vectors if that takes at most `products` products, otherwise by probability.
    fn prove(&mut self, model: &Model<'_>, present: &[u32], products: u64) {
        let pairs = present.len() as u64 * (present.len() as u64 - 1) / 2;
        self.proof = Proof::Random(pairs as f64 / PRIME as f64);
        let mut free = self.all.free_columns();
        free.retain(|column| self.used.binary_search(column).is_ok());
        let longest = self.tiers.last().map_or(1, |tier| tier.support) as u64;
        if free.len() as u64 * pairs * longest > products {
            return;
        }
        let mut vectors = Vec::new();
        for column in &free {
            let vector = self
                .all
                .solution(|other| Modular(u64::from(other == *column)));
            let Some(vector) = whole(&vector) else { return };
            vectors.push(vector);
        }
        let mut all_zero = true;
        for_all_pairs(model, present, |_, row| {
            all_zero = vectors.iter().all(|vector| {
                let terms = row
                    .iter()
                    .map(|(column, times)| vector[*column as usize] * i64::from(*times));
                terms.sum::<i64>() == 0
            });
            all_zero
        });
        if all_zero {
            self.proof = Proof::Vectors(free.len());
        }
    }
}

/// Calls `each` with every pair and its row until `each` returns false.
fn for_all_pairs(
    model: &Model<'_>,
    present: &[u32],
    mut each: impl FnMut((u32, u32), &[Term]) -> bool,
) {
    let (mut room, mut row) = (Room::default(), Vec::new());
    for (from, to) in pairs_among(present) {
        model.row(from, to, &mut room, &mut row);
        if !each((from, to), &row) {
            return;
        }
    }
}

/// Converts fractions modulo the prime to integers: multiplies each by the least common denominator. Returns `None` if the fractions are not small.
fn whole(vector: &[Modular]) -> Option<Vec<i64>> {
    const MOST: i128 = 1 << 20;
    let fractions = vector.iter().map(|value| value.fraction(MOST));
    let fractions: Vec<(i128, i128)> = fractions.collect::<Option<_>>()?;
    let mut common = 1_i128;
    for (_, denominator) in &fractions {
        common = common / divisor(common, *denominator) * denominator;
        if common > MOST {
            return None;
        }
    }
    let scaled = |(numerator, denominator): &(i128, i128)| {
        i64::try_from(numerator * (common / denominator)).ok()
    };
    fractions.iter().map(scaled).collect()
}

fn divisor(a: i128, b: i128) -> i128 {
    if b == 0 { a } else { divisor(b, a % b) }
}
