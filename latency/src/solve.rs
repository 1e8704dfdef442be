//! Calculates a value for each cable from measured round trips: directly with one equation for each unknown, by weighted least squares with more.

use numbers::random::Random;
use numbers::spread::{NORMAL, median_size};

use super::elimination::{Elimination, inverse};
use super::fabric::number;
use super::rows::{Model, Room, Term};
use super::survey::Exact;

/// Equations of measured pairs, one row each.
#[derive(Debug, Clone)]
pub struct Equations {
    pairs: Vec<(u32, u32)>,
    begins: Vec<usize>,
    terms: Vec<(u32, f64)>,
    columns: usize,
    rank: usize,
    /// True for each column whose value follows from these rows.
    identified: Vec<bool>,
    /// True for each column that at least one row contains.
    used: Vec<bool>,
    /// Place of each column in the order of elimination.
    place: Vec<u32>,
    /// Order of rows.
    order: Vec<u32>,
}

/// Solution of the equations.
#[derive(Debug, Clone)]
pub struct Solution {
    /// A value for each column, in the unit of the measured times. A column that is not identified has one of many possible values; predictions of
    /// pairs do not depend on which.
    pub values: Vec<f64>,
    /// For each row the measured time, divided by the sum of the values, minus 1.
    pub residuals: Vec<f64>,
    /// Standard deviation of the residuals, from their median size, corrected for the fitted unknowns; `None` without more rows than unknowns.
    pub sigma: Option<f64>,
    /// Standard deviation of the measured times from the sums of the values, in the unit of the times; `None` if `sigma` is.
    pub off: Option<f64>,
}

/// Number of deviations beyond which a row counts less (Huber: "Robust estimation of a location parameter", 1964).
const HUBER: f64 = 1.5;
const SWEEPS: usize = 8;
/// With fewer pairs in excess of the unknowns than this, all residuals count for the noise.
const FEW: usize = 24;
/// Tolerance of least squares: the gradient relative to the one at the origin.
const TOLERANCE: f64 = 1e-11;
/// Number of steps without progress after which only rounding errors are left.
const PATIENCE: usize = 50;
/// Largest number of unknowns for which normal equations are solved as a dense matrix.
const DENSE: usize = 2000;

impl Equations {
    /// Builds the rows of these pairs.
    pub fn of(model: &Model<'_>, pairs: &[(u32, u32)]) -> Self {
        let (mut room, mut row) = (Room::default(), Vec::new());
        let mut begins = vec![0];
        let mut all: Vec<Term> = Vec::new();
        for (from, to) in pairs {
            model.row(*from, *to, &mut room, &mut row);
            all.extend_from_slice(&row);
            begins.push(all.len());
        }
        let columns = model.columns();
        let mut used = vec![false; columns];
        all.iter()
            .for_each(|(column, _)| used[*column as usize] = true);
        let rows: Vec<&[Term]> = begins
            .windows(2)
            .map(|ends| &all[ends[0]..ends[1]])
            .collect();
        let (place, order) = tiered(&rows, columns);
        let mut exact = Exact::new(place.clone());
        for index in &order {
            exact.add(rows[*index as usize].iter().copied());
        }
        let identified =
            (0..number(columns)).map(|column| used[column as usize] && exact.is_identified(column));
        Self {
            pairs: pairs.to_vec(),
            identified: identified.collect(),
            rank: exact.rank(),
            terms: all
                .iter()
                .map(|(column, times)| (*column, f64::from(*times)))
                .collect(),
            begins,
            columns,
            used,
            place,
            order,
        }
    }

    /// The pairs, one for each row.
    pub fn pairs(&self) -> &[(u32, u32)] {
        &self.pairs
    }

    /// Matrix rank.
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// True if a column's value follows from the rows.
    pub fn is_identified(&self, column: u32) -> bool {
        self.identified[column as usize]
    }

    /// True if at least one row contains the column.
    pub fn is_used(&self, column: u32) -> bool {
        self.used[column as usize]
    }

    /// The columns of a row, each with its multiplicity.
    pub fn row(&self, index: usize) -> &[(u32, f64)] {
        &self.terms[self.begins[index]..self.begins[index + 1]]
    }

    /// Rows that contain a column.
    pub fn rows_through(&self, column: u32) -> impl Iterator<Item = usize> + '_ {
        let contains = move |index: &usize| self.row(*index).iter().any(|(own, _)| *own == column);
        (0..self.pairs.len()).filter(contains)
    }

    /// Sum of the values of a row's columns, each times its multiplicity.
    pub fn sum(&self, index: usize, values: &[f64]) -> f64 {
        weighted(self.row(index), values)
    }

    /// Solves for the measured times, which must be positive. With `robust`, rows that fit badly count less.
    pub fn solve(&self, measured: &[f64], robust: bool) -> Solution {
        let minimal = self.rank == self.pairs.len();
        let values = if minimal {
            self.direct(measured)
        } else {
            self.robust(measured, robust)
        };
        let residuals: Vec<f64> = (0..self.pairs.len())
            .map(|index| measured[index] / self.sum(index, &values) - 1.0)
            .collect();
        let spare = self.pairs.len() - self.rank;
        let sigma = (spare > 0).then(|| {
            let correction = self.pairs.len() as f64 / spare as f64;
            let by_median = median_size(&residuals) * NORMAL * correction.sqrt();
            // The median of a few residuals is no estimate: a chance fit must not pass as low noise.
            let squares: f64 = residuals.iter().map(|residual| residual * residual).sum();
            let by_squares = (squares / spare as f64).sqrt();
            if spare < FEW {
                by_median.max(by_squares)
            } else {
                by_median
            }
        });
        let off = (spare > 0).then(|| {
            let rows = 0..self.pairs.len();
            let off = rows.map(|index| measured[index] - self.sum(index, &values));
            (off.map(|off| off * off).sum::<f64>() / spare as f64).sqrt()
        });
        Solution {
            values,
            residuals,
            sigma,
            off,
        }
    }

    /// Eliminates with the measured times on the right, shorter rows first. Coefficients stay integers and halves, and no pivot is rounded.
    fn direct(&self, measured: &[f64]) -> Vec<f64> {
        let mut float = Elimination::<f64>::new(self.place.clone());
        for index in &self.order {
            let at = *index as usize;
            float.insert(self.row(at).iter().copied(), measured[at]);
        }
        float.solution(|_| 0.0)
    }

    fn robust(&self, measured: &[f64], robust: bool) -> Vec<f64> {
        let plain: Vec<f64> = measured.iter().map(|time| time.powi(-2)).collect();
        let mut values = self.least_squares(measured, &plain, None);
        if !robust {
            return values;
        }
        for _ in 0..SWEEPS {
            let off: Vec<f64> = (0..self.pairs.len())
                .map(|index| 1.0 - self.sum(index, &values) / measured[index])
                .collect();
            let scale = median_size(&off) * NORMAL;
            if scale <= 1e-12 {
                break; // Without noise there are no outliers.
            }
            let weights: Vec<f64> = off
                .iter()
                .zip(&plain)
                .map(|(off, weight)| weight * (HUBER * scale / off.abs()).min(1.0))
                .collect();
            values = self.least_squares(measured, &weights, Some(values));
        }
        values
    }

    /// Minimizes the weighted squares of the residuals: conjugate gradients on the normal equations (CGLS), columns scaled to unit length. Of several
    /// minima, returns the one nearest to the start.
    pub fn least_squares(
        &self,
        right: &[f64],
        weights: &[f64],
        start: Option<Vec<f64>>,
    ) -> Vec<f64> {
        let rows = self.pairs.len();
        let mut length = vec![0.0; self.columns];
        for (index, weight) in weights.iter().enumerate() {
            for (column, times) in self.row(index) {
                length[*column as usize] += weight * times * times;
            }
        }
        let scale: Vec<f64> = length
            .iter()
            .map(|sum| if *sum > 0.0 { sum.sqrt().recip() } else { 0.0 })
            .collect();
        let root: Vec<f64> = weights.iter().map(|weight| weight.sqrt()).collect();
        let forward = |vector: &[f64], out: &mut [f64]| {
            for (index, slot) in out.iter_mut().enumerate() {
                let terms = self.row(index).iter();
                let sum: f64 = terms
                    .map(|(column, times)| {
                        times * scale[*column as usize] * vector[*column as usize]
                    })
                    .sum();
                *slot = root[index] * sum;
            }
        };
        let backward = |vector: &[f64], out: &mut [f64]| {
            out.fill(0.0);
            for (index, value) in vector.iter().enumerate() {
                let value = root[index] * value;
                for (column, times) in self.row(index) {
                    out[*column as usize] += times * value;
                }
            }
            out.iter_mut()
                .zip(&scale)
                .for_each(|(slot, scale)| *slot *= scale);
        };
        let square = |vector: &[f64]| vector.iter().map(|x| x * x).sum::<f64>();
        let mut left: Vec<f64> = right.iter().zip(&root).map(|(b, root)| b * root).collect();
        let mut gradient = vec![0.0; self.columns];
        backward(&left, &mut gradient);
        // Relative to the right side, not to the residual of a good start: relative to that, the gradient would never be small enough.
        let enough = square(&gradient) * TOLERANCE * TOLERANCE;
        let mut values: Vec<f64> = match start {
            Some(start) => start
                .iter()
                .zip(&scale)
                .map(|(x, scale)| if *scale > 0.0 { x / scale } else { 0.0 })
                .collect(),
            None => vec![0.0; self.columns],
        };
        let mut image = vec![0.0; rows];
        forward(&values, &mut image);
        left.iter_mut()
            .zip(&image)
            .for_each(|(left, image)| *left -= image);
        backward(&left, &mut gradient);
        let mut direction = gradient.clone();
        let mut size = square(&gradient);
        let most = 20 * self.columns.max(50);
        let (mut least, mut since) = (f64::INFINITY, 0);
        for _ in 0..most {
            since += 1;
            if size < least {
                (least, since) = (size, 0);
            }
            if since > PATIENCE || size <= enough || size == 0.0 {
                break;
            }
            forward(&direction, &mut image);
            let step = size / square(&image).max(f64::MIN_POSITIVE);
            values
                .iter_mut()
                .zip(&direction)
                .for_each(|(x, d)| *x += step * d);
            left.iter_mut()
                .zip(&image)
                .for_each(|(left, image)| *left -= step * image);
            backward(&left, &mut gradient);
            let next = square(&gradient);
            let ratio = next / size;
            direction
                .iter_mut()
                .zip(&gradient)
                .for_each(|(d, g)| *d = g + ratio * *d);
            size = next;
        }
        values
            .iter()
            .zip(&scale)
            .map(|(x, scale)| x * scale)
            .collect()
    }

    /// Noise amplification: the part of a row's noise in each identified column's value, the root of the diagonal of (A^T W A)^-1 with these weights.
    /// Exact with few unknowns and full rank, otherwise from `samples` random vectors. NaN where a column is not identified.
    pub fn amplification(&self, weights: &[f64], samples: usize, random: &mut Random) -> Vec<f64> {
        let used: Vec<u32> = (0..number(self.columns))
            .filter(|column| self.is_used(*column))
            .collect();
        let full = self.rank == used.len();
        let mut squares = if full && used.len() <= DENSE {
            self.dense_diagonal(weights, &used)
        } else {
            self.drawn_squares(self.columns, weights, samples, random, |values| values)
        };
        for (column, square) in (0_u32..).zip(&mut squares) {
            *square = if self.is_identified(column) {
                square.sqrt()
            } else {
                f64::NAN
            };
        }
        squares
    }

    /// Calculates the diagonal of the inverse of the normal matrix by Cholesky factorization.
    fn dense_diagonal(&self, weights: &[f64], used: &[u32]) -> Vec<f64> {
        let size = used.len();
        let mut at = vec![usize::MAX; self.columns];
        used.iter()
            .enumerate()
            .for_each(|(place, column)| at[*column as usize] = place);
        let mut matrix = vec![0.0; size * size];
        for (index, weight) in weights.iter().enumerate() {
            for (a, x) in self.row(index) {
                for (b, y) in self.row(index) {
                    let (row, column) = (at[*a as usize], at[*b as usize]);
                    if column <= row {
                        matrix[row * size + column] += weight * x * y;
                    }
                }
            }
        }
        for row in 0..size {
            for column in 0..=row {
                let (upper, lower) = (
                    &matrix[column * size..][..column],
                    &matrix[row * size..][..column],
                );
                let sum: f64 = upper.iter().zip(lower).map(|(x, y)| x * y).sum();
                let value = matrix[row * size + column] - sum;
                matrix[row * size + column] = if row == column {
                    value.max(f64::MIN_POSITIVE).sqrt()
                } else {
                    value / matrix[column * size + column]
                };
            }
        }
        // Inverse of the factor, column by column. The squares of a column add up to its entry of the diagonal.
        let mut diagonal = vec![0.0; self.columns];
        let mut column = vec![0.0; size];
        for unit in 0..size {
            let mut sum = 0.0;
            for row in unit..size {
                let known = &matrix[row * size + unit..row * size + row];
                let inner: f64 = known
                    .iter()
                    .zip(&column[unit..row])
                    .map(|(x, y)| x * y)
                    .sum();
                let right = if row == unit { 1.0 } else { 0.0 };
                column[row] = (right - inner) / matrix[row * size + row];
                sum += column[row] * column[row];
            }
            diagonal[used[unit] as usize] = sum;
        }
        diagonal
    }

    /// Values that follow from random noise of the rows.
    fn drawn_values(&self, weights: &[f64], random: &mut Random) -> Vec<f64> {
        let noise: Vec<f64> = weights
            .iter()
            .map(|weight| random.sign() / weight.sqrt())
            .collect();
        match self.rank == self.pairs.len() {
            true => self.direct(&noise),
            false => self.least_squares(&noise, weights, None),
        }
    }

    /// Mean squares of the `size` numbers that `of` makes of values that follow from random noise. With the values themselves, this estimates the same
    /// diagonal (Hutchinson: "A stochastic estimator of the trace", 1990).
    fn drawn_squares(
        &self,
        size: usize,
        weights: &[f64],
        samples: usize,
        random: &mut Random,
        of: impl Fn(Vec<f64>) -> Vec<f64>,
    ) -> Vec<f64> {
        let mut sums = vec![0.0; size];
        for _ in 0..samples {
            let drawn = of(self.drawn_values(weights, random));
            sums.iter_mut()
                .zip(&drawn)
                .for_each(|(sum, value)| *sum += value * value);
        }
        sums.iter_mut().for_each(|sum| *sum /= samples as f64);
        sums
    }

    /// Noise amplification of combinations of columns, from `samples` random vectors.
    pub fn amplification_of(
        &self,
        combinations: &[Combination],
        weights: &[f64],
        samples: usize,
        random: &mut Random,
    ) -> Vec<f64> {
        let of = |values: Vec<f64>| -> Vec<f64> {
            let all = combinations.iter();
            all.map(|one| weighted(&one.terms, &values)).collect()
        };
        let squares = self.drawn_squares(combinations.len(), weights, samples, random, of);
        squares.into_iter().map(f64::sqrt).collect()
    }

    /// Known combinations of the columns that are not identified, with their coefficients and values (the reduced row echelon form with leftmost
    /// pivots, which is unique).
    pub fn combinations(&self, values: &[f64]) -> Vec<Combination> {
        // Only used columns are identified.
        if self.used == self.identified {
            return Vec::new();
        }
        // Leftmost columns are pivots, so they are eliminated first.
        let place = (0..number(self.columns)).rev().collect();
        let mut float = Elimination::<f64>::new(place);
        for index in &self.order {
            let at = *index as usize;
            let mut unknown = self.row(at).to_vec();
            unknown.retain(|(column, _)| !self.is_identified(*column));
            let sum = weighted(&unknown, values);
            float.insert(unknown, sum);
        }
        let reduced = float.reduced().into_iter();
        let combination = |(pivot, terms, value): (u32, Vec<(u32, f64)>, f64)| Combination {
            terms: std::iter::once((pivot, 1.0)).chain(terms).collect(),
            value,
        };
        reduced.map(combination).collect()
    }
}

/// Sum of the values of columns, each times its coefficient.
fn weighted(terms: &[(u32, f64)], values: &[f64]) -> f64 {
    let terms = terms.iter();
    terms
        .map(|(column, times)| times * values[*column as usize])
        .sum()
}

/// Columns that have a value only together.
#[derive(Debug, Clone, PartialEq)]
pub struct Combination {
    /// Columns, each with its coefficient.
    pub terms: Vec<(u32, f64)>,
    /// Value of the combination.
    pub value: f64,
}

/// Sorts rows by length, and columns by the length of the first row that contains them. The first columns are eliminated last.
fn tiered(rows: &[&[Term]], columns: usize) -> (Vec<u32>, Vec<u32>) {
    let mut order: Vec<u32> = (0..number(rows.len())).collect();
    order.sort_by_key(|index| rows[*index as usize].len());
    let mut tiers = vec![usize::MAX; columns];
    for row in rows {
        for (column, _) in *row {
            let tier = &mut tiers[*column as usize];
            *tier = row.len().min(*tier);
        }
    }
    let mut sorted: Vec<u32> = (0..number(columns)).collect();
    sorted.sort_by_key(|column| (tiers[*column as usize], *column));
    (inverse(&sorted), order)
}
