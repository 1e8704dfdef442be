//! Which cables are slow: against what they took when all was well, or among others of their class.

use std::collections::BTreeMap;

use crate::stats::spread::{NORMAL, median, sigmas_exceeded_with};

use super::fabric::number;
use super::rows::Model;
use super::solve::{Equations, Solution};

/// A cable that is slower than it should be.
#[derive(Debug, Clone, PartialEq)]
pub struct Suspect {
    /// Its column.
    pub column: u32,
    /// Others that the measured pairs do not tell from it.
    pub or: Vec<u32>,
    /// How far it is outside of what noise does, in standard deviations.
    pub score: f64,
    /// How much longer it takes, as a part of what it should take.
    pub effect: f64,
    /// Measured pairs that go through it.
    pub pairs: usize,
}

/// A cable that takes less than this part longer is none to be called slow.
pub const LEAST_EFFECT: f64 = 0.10;
/// A slow-down is measured against at least this part of what the cable's pairs take.
const LEAST_PART: f64 = 0.02;
/// More slow cables than this are no faults, but another state of the fabric.
const MOST_SUSPECTS: usize = 64;
/// Less noise than this no run has against another one, whatever its pairs say of each other.
const LEAST_SIGMA: f64 = 0.005;
/// What a single pair shows counts up to so many deviations, where it was measured a few times only.
const SPIKE: f64 = 3.0;
/// Rows with which a score counts half.
const FEW_ROWS: f64 = 10.0;

/// Beyond this score a cable among so many is slow with at most 1 in 1000 false alarms: Phi^-1(1 - 0.001/m).
pub fn threshold(cables: usize) -> f64 {
    sigmas_exceeded_with(0.001 / cables.max(1) as f64)
}

/// What cables took when all was well.
#[derive(Debug, Clone, Copy)]
pub struct Baseline<'a> {
    /// A value for each column.
    pub values: &'a [f64],
    /// Standard errors, where they are known; empty if the values are exact.
    pub errors: &'a [Option<f64>],
}

/// The score test against a baseline: z is what a pair takes by what it took, less 1. A slow cable raises the z of its pairs by its part in
/// them; its score adds these up, by what noise does to such a sum. The highest one is explained, and the rest looked at again.
pub fn against_baseline(
    model: &Model<'_>,
    equations: &Equations,
    measured: &[f64],
    baseline: Baseline<'_>,
    solution: Option<&Solution>,
    few_samples: bool,
) -> Vec<Suspect> {
    let Baseline {
        values: baseline,
        errors,
    } = baseline;
    let rows = equations.pairs().len();
    let expected: Vec<f64> = (0..rows)
        .map(|index| equations.sum(index, baseline))
        .collect();
    let z: Vec<f64> = measured
        .iter()
        .zip(&expected)
        .map(|(b, y)| b / y - 1.0)
        .collect();
    // What is not known of the baseline is noise of each pair, too.
    let doubt = |index: usize| {
        let terms = equations.row(index).iter();
        let square = |(column, times): &(u32, f64)| {
            let error = errors.get(*column as usize).copied().flatten();
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
    // Of few rows the noise is known badly: the score must be that much higher.
    let limit = threshold(candidates.len()) * (1.0 + FEW_ROWS / rows.max(1) as f64);
    // Where a slow cable is in most pairs, the median is its doing; what no values of cables explain is noise.
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
            // Of few samples a pair's value may be one spike. A slow cable slows all its pairs: what two of them show is none.
            let mut sizes = through[column as usize].iter().map(|(index, _)| {
                let own = (sigma * sigma + doubts[*index]).sqrt();
                (left[*index] / own).max(0.0)
            });
            let second = second_largest(&mut sizes).max(SPIKE);
            for (index, part) in &through[column as usize] {
                // In units of the pair's own noise, and counted by that.
                let own = (sigma * sigma + doubts[*index]).sqrt();
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
        let scored: Vec<(u32, f64)> = candidates
            .iter()
            .map(|column| (*column, score(*column)))
            .collect();
        let Some((column, best)) = scored.iter().copied().max_by(|a, b| a.1.total_cmp(&b.1)) else {
            break;
        };
        let own = &through[column as usize];
        // What a cable took may be within the noise of what pairs took: then a part of these is the measure.
        let mut takes: Vec<f64> = own.iter().map(|(index, _)| expected[*index]).collect();
        let usual = baseline[column as usize]
            .abs()
            .max(LEAST_PART * median(&mut takes));
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
        let same = |other: &u32| {
            *other != column
                && through[*other as usize]
                    .iter()
                    .map(|(index, _)| index)
                    .eq(own.iter().map(|(index, _)| index))
        };
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

/// The largest but one of some numbers; 0 if there are not two.
fn second_largest(numbers: &mut dyn Iterator<Item = f64>) -> f64 {
    let (mut first, mut second) = (0.0_f64, 0.0_f64);
    for one in numbers {
        second = second.max(one.min(first));
        first = first.max(one);
    }
    second
}

/// What is left of z when the suspects explain as much of it as they can: least squares over their slow-downs.
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
    // Positive definite, or nearly so: elimination with the largest pivot.
    for column in 0..size {
        let pivot = (column..size).max_by(|a, b| {
            matrix[*a][column]
                .abs()
                .total_cmp(&matrix[*b][column].abs())
        });
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
    let slower: Vec<f64> = (0..size)
        .map(|at| {
            let head = matrix[at][at];
            if head.abs() < f64::MIN_POSITIVE {
                0.0
            } else {
                matrix[at][size] / head
            }
        })
        .collect();
    let mut left = z.to_vec();
    for (index, parts) in &dense {
        left[*index] -= parts
            .iter()
            .map(|(at, part)| part * slower[*at])
            .sum::<f64>();
    }
    left
}

/// A class whose cables cannot be compared with each other, and why.
#[derive(Debug, Clone, PartialEq)]
pub struct Undecidable {
    /// Index of the class.
    pub class: u16,
    /// Why not.
    pub why: String,
}

/// Fewer members of a class than this tell nothing of each other.
pub const LEAST_MEMBERS: usize = 6;
/// Outside of its class by so many deviations a cable is slow.
const OUTSIDE: f64 = 5.0;

/// Without a baseline: each identified cable against the median of its class, where that can be decided. `errors` are standard errors of
/// values.
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
            why: "its cables are only known together".to_owned(),
        });
    }
    for (class, members) in &classes {
        let mut refuse = |why: String| undecidable.push(Undecidable { class: *class, why });
        if members.len() < LEAST_MEMBERS {
            refuse(format!(
                "{} cables: at least {LEAST_MEMBERS} tell something of each other",
                members.len()
            ));
            continue;
        }
        let value = |column: &u32| solution.values[*column as usize];
        let mut values: Vec<f64> = members.iter().map(value).collect();
        let middle = median(&mut values);
        let mut sizes: Vec<f64> = members
            .iter()
            .map(|column| (value(column) - middle).abs())
            .collect();
        let spread = median(&mut sizes) * NORMAL;
        let mut own_errors: Vec<f64> = members
            .iter()
            .map(|column| errors[*column as usize])
            .collect();
        let error = median(&mut own_errors);
        if solution.sigma.is_none() {
            refuse(
                "the plan has no more pairs than unknowns: nothing tells noise from a slow cable"
                    .to_owned(),
            );
            continue;
        }
        // A slow-down as large as the value itself must stand out; a smaller one may be found, too.
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
                let rows = 0..equations.pairs().len();
                let pairs =
                    rows.filter(|index| equations.row(*index).iter().any(|(own, _)| own == column));
                suspects.push(Suspect {
                    column: *column,
                    or: Vec::new(),
                    score,
                    effect,
                    pairs: pairs.count(),
                });
            }
        }
    }
    suspects.sort_by(|a, b| b.score.total_cmp(&a.score));
    (suspects, undecidable)
}

/// Pairs that no values of cables explain, and what most of them have in common: their route is not what the description says.
#[derive(Debug, Clone, PartialEq)]
pub struct Misfit {
    /// Rows whose residual is far outside.
    pub rows: Vec<usize>,
    /// A cable that most of them are described to go through, and most that are described to go through it; with how many go through it in all.
    pub cable: Option<(u32, usize)>,
}

/// Looks for such pairs: residuals of more than six deviations, at least three of them.
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
        for (column, _) in equations.row(index) {
            let count = counts.entry(model.cable_of(*column)).or_default();
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
