//! Finds slow cables: against a baseline from a healthy fabric, or among others of their class.

use std::collections::{BTreeMap, BTreeSet};

use numbers::spread::{NORMAL, median, sigmas_exceeded_with};

use super::fabric::number;
use super::rows::Model;
use super::solve::{Equations, Solution};

/// A cable that is slower than it should be.
#[derive(Debug, Clone, PartialEq)]
pub struct Suspect {
    /// Its column.
    pub column: u32,
    /// Other columns that the measured pairs cannot distinguish from it.
    pub or: Vec<u32>,
    /// Deviation from the expected value, in standard deviations.
    pub score: f64,
    /// Extra latency, as a fraction of the expected one.
    pub effect: f64,
    /// Number of measured pairs that go through it.
    pub pairs: usize,
}

/// A cable counts as slow only if its latency exceeds the expected one by more than this fraction.
pub const LEAST_EFFECT: f64 = 0.10;
/// Smallest reference for a slow-down, as a fraction of the round trip of the cable's pairs.
const LEAST_PART: f64 = 0.02;
/// Most suspects. More slow cables than this are not faults but another state of the fabric.
const MOST_SUSPECTS: usize = 64;
/// Least noise of a run against another one, even if its pairs show less.
const LEAST_SIGMA: f64 = 0.005;
/// Number of deviations up to which a single pair counts if it was measured only a few times.
const SPIKE: f64 = 3.0;
/// Number of rows with which a score counts half.
const FEW_ROWS: f64 = 10.0;

/// Score beyond which one of `cables` cables counts as slow, with at most 1 in 1000 false alarms: Phi^-1(1 - 0.001/m), m = `cables`.
pub fn threshold(cables: usize) -> f64 {
    sigmas_exceeded_with(0.001 / cables.max(1) as f64)
}

/// Latencies of cables in a healthy fabric.
#[derive(Debug, Clone, Copy)]
pub struct Baseline<'a> {
    /// A value for each column.
    pub values: &'a [f64],
    /// Standard errors, where known; empty if the values are exact.
    pub errors: &'a [Option<f64>],
}

impl Baseline<'_> {
    /// Standard error of a column's value, if it is known.
    pub(super) fn error_of(&self, column: u32) -> Option<f64> {
        self.errors.get(column as usize).copied().flatten()
    }
}

/// Finds slow cables by a score test against a baseline: z is a pair's round trip divided by the one in the baseline, minus 1. A slow cable raises
/// the z of its pairs by its part in them. Its score is the sum of these, divided by the effect of noise on such a sum. The cable with the highest
/// score is explained by its slow-down, and the rest is tested again.
pub fn against_baseline(
    model: &Model<'_>,
    equations: &Equations,
    measured: &[f64],
    baseline: Baseline<'_>,
    solution: Option<&Solution>,
    few_samples: bool,
) -> Vec<Suspect> {
    let rows = equations.pairs().len();
    let expected: Vec<f64> = (0..rows)
        .map(|index| equations.sum(index, baseline.values))
        .collect();
    let both = measured.iter().zip(&expected);
    let z: Vec<f64> = both.map(|(b, y)| b / y - 1.0).collect();
    // Errors of the baseline are noise of each pair, too.
    let doubt = |index: usize| {
        let terms = equations.row(index).iter();
        let square = |(column, times): &(u32, f64)| {
            let error = baseline.error_of(*column);
            (times * error.unwrap_or(0.0)).powi(2)
        };
        terms.map(square).sum::<f64>() / expected[index].powi(2)
    };
    let doubts: Vec<f64> = (0..rows).map(doubt).collect();
    let mut through: Vec<Vec<(usize, f64)>> = vec![Vec::new(); model.columns()];
    for (index, expected) in expected.iter().enumerate() {
        for (column, times) in equations.row(index) {
            through[*column as usize].push((index, times / expected));
        }
    }
    let candidates: Vec<u32> = (0..number(model.columns()))
        .filter(|column| !through[*column as usize].is_empty())
        .collect();
    // With few rows the noise is badly known: the score must be that much higher.
    let limit = threshold(candidates.len()) * (1.0 + FEW_ROWS / rows.max(1) as f64);
    // A slow cable that is in most pairs raises the median. The noise is then the part that no values of cables explain.
    let fitted = solution
        .and_then(|solution| solution.sigma)
        .map(|sigma| sigma * std::f64::consts::SQRT_2);
    let mut suspects: Vec<Suspect> = Vec::new();
    let mut left = z.clone();
    while suspects.len() < MOST_SUSPECTS {
        let mut sizes: Vec<f64> = left.iter().map(|value| value.abs()).collect();
        let own = median(&mut sizes) * NORMAL;
        let sigma = fitted
            .map_or(own, |fitted| own.min(fitted))
            .max(LEAST_SIGMA);
        let score = |column: u32| {
            let (mut sum, mut squares) = (0.0, 0.0);
            // With few samples, a pair's value can be one spike. A slow cable slows all its pairs: a value that two of them show is no spike.
            let noise = |index: usize| (sigma * sigma + doubts[index]).sqrt();
            let sizes = through[column as usize].iter();
            let sizes = sizes.map(|(index, _)| (left[*index] / noise(*index)).max(0.0));
            let second = second_largest(sizes).max(SPIKE);
            for (index, part) in &through[column as usize] {
                // In units of the pair's noise, and weighted by it.
                let own = noise(*index);
                let (value, part) = (left[*index] / own, part / own);
                let value = match few_samples {
                    true => value.clamp(-second, second),
                    false => value,
                };
                sum += part * value;
                squares += part * part;
            }
            sum / squares.sqrt()
        };
        let scored = candidates.iter().map(|column| (*column, score(*column)));
        let Some((column, best)) = scored.max_by(|a, b| a.1.total_cmp(&b.1)) else {
            break;
        };
        let own = &through[column as usize];
        // A cable's latency can be within the noise of its pairs: then a fraction of their round trip is the reference.
        let mut takes: Vec<f64> = own.iter().map(|(index, _)| expected[*index]).collect();
        let usual = baseline.values[column as usize].abs();
        let usual = usual.max(LEAST_PART * median(&mut takes));
        let mut effects: Vec<f64> = own
            .iter()
            .map(|(index, part)| left[*index] / (part * usual))
            .collect();
        let effect = median(&mut effects);
        let known = suspects
            .iter()
            .any(|suspect| suspect.column == column || suspect.or.contains(&column));
        if best <= limit || effect <= LEAST_EFFECT || known {
            break;
        }
        let pairs_of = |column: u32| through[column as usize].iter().map(|(index, _)| index);
        let same = |other: &u32| *other != column && pairs_of(*other).eq(pairs_of(column));
        suspects.push(Suspect {
            column,
            or: candidates.iter().copied().filter(same).collect(),
            score: best,
            effect,
            pairs: own.len(),
        });
        left = explained(&z, &suspects, &through);
    }
    suspects
}

/// Second largest of some numbers; 0 with fewer than two.
fn second_largest(numbers: impl Iterator<Item = f64>) -> f64 {
    let (mut first, mut second) = (0.0_f64, 0.0_f64);
    for one in numbers {
        second = second.max(one.min(first));
        first = first.max(one);
    }
    second
}

/// Remainder of z after the suspects explain as much of it as they can: least squares over their slow-downs.
fn explained(z: &[f64], suspects: &[Suspect], through: &[Vec<(usize, f64)>]) -> Vec<f64> {
    let size = suspects.len();
    let of = |at: usize| &through[suspects[at].column as usize];
    let mut dense: BTreeMap<usize, Vec<(usize, f64)>> = BTreeMap::new();
    for at in 0..size {
        for (index, part) in of(at) {
            dense.entry(*index).or_default().push((at, *part));
        }
    }
    let mut matrix = vec![vec![0.0; size + 1]; size];
    for (index, parts) in &dense {
        for (a, x) in parts {
            for (b, y) in parts {
                matrix[*a][*b] += x * y;
            }
            matrix[*a][size] += x * z[*index];
        }
    }
    // The matrix is positive definite, or nearly so: eliminate with the largest pivot.
    for column in 0..size {
        let size_at = |row: &usize| matrix[*row][column].abs();
        let pivot = (column..size).max_by(|a, b| size_at(a).total_cmp(&size_at(b)));
        let Some(pivot) = pivot else { continue };
        matrix.swap(column, pivot);
        let own = matrix[column].clone();
        if own[column].abs() < f64::MIN_POSITIVE {
            continue;
        }
        let others = matrix
            .iter_mut()
            .enumerate()
            .filter(|(row, _)| *row != column);
        for (_, row) in others {
            let factor = row[column] / own[column];
            row.iter_mut()
                .zip(&own)
                .skip(column)
                .for_each(|(x, own)| *x -= factor * own);
        }
    }
    let slower = |at: usize| match matrix[at][at] {
        head if head.abs() < f64::MIN_POSITIVE => 0.0,
        head => matrix[at][size] / head,
    };
    let mut left = z.to_vec();
    for (index, parts) in &dense {
        let parts = parts.iter().map(|(at, part)| part * slower(*at));
        left[*index] -= parts.sum::<f64>();
    }
    left
}

/// A class whose cables cannot be compared with each other, with the reason.
#[derive(Debug, Clone, PartialEq)]
pub struct Undecidable {
    /// Index of the class.
    pub class: u16,
    /// The reason.
    pub why: String,
}

/// Smallest number of members with which a class can be judged.
pub const LEAST_MEMBERS: usize = 6;
/// Number of deviations from its class beyond which a cable is slow.
const OUTSIDE: f64 = 5.0;

/// Finds slow cables without a baseline: compares each identified cable with the median of its class. Also returns the classes that cannot be judged.
/// `errors` are standard errors of values.
pub fn within_classes(
    model: &Model<'_>,
    equations: &Equations,
    solution: &Solution,
    errors: &[f64],
) -> (Vec<Suspect>, Vec<Undecidable>) {
    let mut classes: BTreeMap<u16, Vec<u32>> = BTreeMap::new();
    let mut missing: BTreeMap<u16, usize> = BTreeMap::new();
    for column in 0..number(model.columns()) {
        let class = model.fabric.cables[model.cable_of(column) as usize].class;
        match (equations.is_used(column), equations.is_identified(column)) {
            (true, true) => classes.entry(class).or_default().push(column),
            (true, false) => *missing.entry(class).or_default() += 1,
            _ => {}
        }
    }
    let (mut suspects, mut undecidable) = (Vec::new(), Vec::new());
    for class in missing.keys().filter(|class| !classes.contains_key(class)) {
        undecidable.push(Undecidable {
            class: *class,
            why: "the pairs determine only sums of its cables".to_owned(),
        });
    }
    for (class, members) in &classes {
        let mut refuse = |why: String| undecidable.push(Undecidable { class: *class, why });
        if members.len() < LEAST_MEMBERS {
            refuse(format!(
                "{} cables: a comparison needs at least {LEAST_MEMBERS}",
                members.len()
            ));
            continue;
        }
        let value = |column: &u32| solution.values[*column as usize];
        let middle_of =
            |of: &dyn Fn(&u32) -> f64| median(&mut members.iter().map(of).collect::<Vec<f64>>());
        let middle = middle_of(&value);
        let spread = middle_of(&|column| (value(column) - middle).abs()) * NORMAL;
        let error = middle_of(&|column| errors[*column as usize]);
        if solution.sigma.is_none() {
            refuse(
                "the plan has no more pairs than unknowns: noise cannot be told from a slow cable"
                    .to_owned(),
            );
            continue;
        }
        // A slow-down as large as the value itself must stand out; smaller ones can be found, too.
        if middle <= 0.0 || OUTSIDE * error > middle {
            refuse(format!(
                "a standard error of {:.0} % hides even a cable that takes twice as long",
                100.0 * error / middle.abs().max(f64::MIN_POSITIVE)
            ));
            continue;
        }
        for column in members {
            let scale = spread
                .max(errors[*column as usize])
                .max(middle * LEAST_SIGMA);
            let score = (value(column) - middle) / scale;
            let effect = value(column) / middle - 1.0;
            if score > OUTSIDE && effect > LEAST_EFFECT {
                suspects.push(Suspect {
                    column: *column,
                    or: Vec::new(),
                    score,
                    effect,
                    pairs: equations.rows_through(*column).count(),
                });
            }
        }
    }
    suspects.sort_by(|a, b| b.score.total_cmp(&a.score));
    (suspects, undecidable)
}

/// Pairs that no values of cables explain, and the cable that most of them share: their route is not the described one.
#[derive(Debug, Clone, PartialEq)]
pub struct Misfit {
    /// Rows whose residual is far outside the noise.
    pub rows: Vec<usize>,
    /// Cable that most of these rows contain, and of whose rows at least half are among these; with the number of all its rows.
    pub cable: Option<(u32, usize)>,
}

/// Finds rows with residuals of more than six deviations; `None` if there are fewer than three.
pub fn misfit(model: &Model<'_>, equations: &Equations, solution: &Solution) -> Option<Misfit> {
    const FAR: f64 = 6.0;
    const LEAST: usize = 3;
    let sigma = solution.sigma?.max(1e-6);
    let rows = 0..equations.pairs().len();
    let rows: Vec<usize> = rows
        .filter(|index| solution.residuals[*index].abs() > FAR * sigma)
        .collect();
    if rows.len() < LEAST {
        return None;
    }
    let mut counts: BTreeMap<u32, (usize, usize)> = BTreeMap::new();
    for index in 0..equations.pairs().len() {
        let far = usize::from(rows.binary_search(&index).is_ok());
        // A cable that a row passes both ways counts once.
        let cables = equations.row(index).iter();
        let cables: BTreeSet<u32> = cables.map(|(column, _)| model.cable_of(*column)).collect();
        for cable in cables {
            let count = counts.entry(cable).or_default();
            count.0 += far;
            count.1 += 1;
        }
    }
    let common = counts
        .into_iter()
        .filter(|(_, (far, all))| 2 * far > rows.len() && 2 * far >= *all);
    let most = common.max_by(|(_, a), (_, b)| (a.0 * b.1).cmp(&(b.0 * a.1)).then(a.0.cmp(&b.0)));
    Some(Misfit {
        rows,
        cable: most.map(|(cable, (_, all))| (cable, all)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thresholds_are_those_of_the_normal_distribution() {
        // Phi^-1(0.999999) = 4.753424, Phi^-1(1 - 1e-8) = 5.612001.
        assert!((threshold(1000) - 4.753_424).abs() < 1e-3);
        assert!((threshold(100_000) - 5.612_001).abs() < 1e-3);
    }
}
