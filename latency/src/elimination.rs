//! Performs Gaussian elimination on sparse rows that come one by one: finds the independent rows and the values that follow from them.
//!
//! A pivot row stands for `x_pivot + sum of a_c x_c = right side`, where every c is eliminated after the pivot. As soon as a row has only its pivot
//! left, that column is known and disappears from all rows that contain it. Rows of routes collapse as soon as an odd cycle of them closes, and stay
//! short.

use std::collections::BinaryHeap;

use super::field::Number;

const NONE: u32 = u32::MAX;

/// A row that has a pivot.
#[derive(Debug, Clone)]
struct Row<N> {
    pivot: u32,
    terms: Vec<(u32, N)>,
    right: N,
}

/// Columns with their factors.
type Terms<N> = Vec<(u32, N)>;
/// A row in reduced form: its pivot, its other columns, and its right side.
type Reduced<N> = (u32, Terms<N>, N);

/// The inverse of a permutation: for places of columns, the column at each place.
pub(super) fn inverse(places: &[u32]) -> Vec<u32> {
    let mut inverse = vec![0; places.len()];
    for (number, at) in (0_u32..).zip(places) {
        inverse[*at as usize] = number;
    }
    inverse
}

/// All rows so far.
#[derive(Debug, Clone)]
pub struct Elimination<N> {
    /// Place of each column in the order of elimination. The largest is eliminated first.
    place: Vec<u32>,
    /// The column at each place.
    column: Vec<u32>,
    rows: Vec<Row<N>>,
    /// For each column, the index of the row whose pivot it is.
    row_of: Vec<u32>,
    known: Vec<bool>,
    value: Vec<N>,
    known_count: usize,
    /// For each column, the rows that contain it, but not as pivot. Some of them no longer contain it.
    within: Vec<Vec<u32>>,
    sum: Vec<N>,
    waiting: Vec<bool>,
    heap: BinaryHeap<u32>,
}

impl<N: Number> Elimination<N> {
    /// Creates an elimination without rows. `place` is each column's place in the order of elimination, a permutation: the largest goes first.
    pub fn new(place: Vec<u32>) -> Self {
        let columns = place.len();
        Self {
            column: inverse(&place),
            place,
            rows: Vec::new(),
            row_of: vec![NONE; columns],
            known: vec![false; columns],
            value: vec![N::ZERO; columns],
            known_count: 0,
            within: vec![Vec::new(); columns],
            sum: vec![N::ZERO; columns],
            waiting: vec![false; columns],
            heap: BinaryHeap::new(),
        }
    }

    /// Matrix rank of the rows so far.
    pub fn rank(&self) -> usize {
        self.rows.len()
    }

    /// Number of columns with a known value.
    pub fn known_count(&self) -> usize {
        self.known_count
    }

    fn add_term(&mut self, column: u32, value: N) {
        let at = column as usize;
        self.sum[at] = self.sum[at].plus(value);
        if !self.waiting[at] {
            self.waiting[at] = true;
            self.heap.push(self.place[at]);
        }
    }

    /// Reduces a row by the existing rows. Returns the remaining terms, in the order of elimination, and the right side.
    fn reduce(&mut self, row: impl IntoIterator<Item = (u32, N)>, right: N) -> (Vec<(u32, N)>, N) {
        let (mut left, mut right) = (Vec::new(), right);
        for (column, value) in row {
            self.add_term(column, value);
        }
        while let Some(at) = self.heap.pop() {
            let column = self.column[at as usize];
            let slot = column as usize;
            let value = std::mem::replace(&mut self.sum[slot], N::ZERO);
            self.waiting[slot] = false;
            if value.is_zero() {
                continue;
            }
            if self.known[slot] {
                right = right.plus(value.times(self.value[slot]).negative());
                continue;
            }
            let number = self.row_of[slot];
            if number == NONE {
                left.push((column, value));
                continue;
            }
            self.shorten(number);
            let minus = value.negative();
            let row = &mut self.rows[number as usize];
            right = right.plus(minus.times(row.right));
            let terms = std::mem::take(&mut row.terms);
            for (column, factor) in &terms {
                self.add_term(*column, minus.times(*factor));
            }
            self.rows[number as usize].terms = terms;
        }
        (left, right)
    }

    /// Shortens a chain of rows with a single term each, where each leads to the next (as path compression in union-find does).
    fn shorten(&mut self, number: u32) {
        let single = |row: &Row<N>| match row.terms.as_slice() {
            [only] => Some(*only),
            _ => None,
        };
        while let Some((through, factor)) = single(&self.rows[number as usize])
            && let next = self.row_of[through as usize]
            && next != NONE
            && let Some((beyond, times)) = single(&self.rows[next as usize])
        {
            let minus = factor.negative();
            let moved = minus.times(self.rows[next as usize].right);
            let row = &mut self.rows[number as usize];
            row.right = row.right.plus(moved);
            row.terms[0] = (beyond, minus.times(times));
            self.within[beyond as usize].push(number);
        }
    }

    /// True if a row is independent of the existing rows. Does not add it.
    pub fn is_independent(&mut self, row: impl IntoIterator<Item = (u32, N)>) -> bool {
        !self.reduce(row, N::ZERO).0.is_empty()
    }

    /// True if a column's value follows from the rows.
    pub fn is_identified(&mut self, column: u32) -> bool {
        self.known[column as usize] || self.reduce([(column, N::ONE)], N::ZERO).0.is_empty()
    }

    /// Value of a combination of columns, if it follows from the rows.
    pub fn evaluate(&mut self, row: impl IntoIterator<Item = (u32, N)>) -> Option<N> {
        let (left, right) = self.reduce(row, N::ZERO);
        left.is_empty().then(|| right.negative())
    }

    /// Adds a row if it is independent of the earlier rows. Returns false if it follows from them.
    pub fn insert(&mut self, row: impl IntoIterator<Item = (u32, N)>, right: N) -> bool {
        let (mut terms, right) = self.reduce(row, right);
        if terms.is_empty() {
            return false;
        }
        let (pivot, first) = terms.remove(0);
        let scale = first.inverse();
        for (_, factor) in &mut terms {
            *factor = factor.times(scale);
        }
        let number = u32::try_from(self.rows.len()).unwrap_or(NONE);
        for (column, _) in &terms {
            self.within[*column as usize].push(number);
        }
        self.row_of[pivot as usize] = number;
        let alone = terms.is_empty();
        self.rows.push(Row {
            pivot,
            terms,
            right: right.times(scale),
        });
        if alone {
            self.learn(pivot);
        }
        true
    }

    /// Records the value of a column that is alone in its row, and of columns that become alone in turn.
    fn learn(&mut self, column: u32) {
        let mut fresh = vec![column];
        while let Some(column) = fresh.pop() {
            let slot = column as usize;
            if self.known[slot] {
                continue;
            }
            self.known[slot] = true;
            self.known_count += 1;
            let value = self.rows[self.row_of[slot] as usize].right;
            self.value[slot] = value;
            for number in std::mem::take(&mut self.within[slot]) {
                let row = &mut self.rows[number as usize];
                let found = row.terms.iter().position(|(other, _)| *other == column);
                let Some(at) = found else { continue };
                let (_, factor) = row.terms.swap_remove(at);
                row.right = row.right.plus(factor.times(value).negative());
                if row.terms.is_empty() {
                    fresh.push(row.pivot);
                }
            }
        }
    }

    /// Solves all rows: `free` gives the values of columns without a pivot, and the others follow from these.
    pub fn solution(&self, mut free: impl FnMut(u32) -> N) -> Vec<N> {
        let mut values = vec![N::ZERO; self.column.len()];
        // Columns that are eliminated last are known first.
        for column in &self.column {
            let slot = *column as usize;
            values[slot] = match self.row_of[slot] {
                _ if self.known[slot] => self.value[slot],
                NONE => free(*column),
                number => {
                    let row = &self.rows[number as usize];
                    let terms = row.terms.iter().fold(N::ZERO, |sum, (other, factor)| {
                        sum.plus(factor.times(values[*other as usize]))
                    });
                    row.right.plus(terms.negative())
                }
            };
        }
        values
    }

    /// Columns without a pivot. Their number is that of all columns minus the rank.
    pub fn free_columns(&self) -> Vec<u32> {
        let all = self.column.iter().copied();
        all.filter(|column| self.row_of[*column as usize] == NONE)
            .collect()
    }

    /// The rows in reduced row echelon form: for each pivot, its column, its terms in columns without a pivot, and the right side. Unique for an
    /// order of elimination.
    pub fn reduced(&self) -> Vec<Reduced<N>> {
        let mut whole: Vec<Option<(Terms<N>, N)>> = vec![None; self.column.len()];
        for column in &self.column {
            let slot = *column as usize;
            let number = self.row_of[slot];
            if number == NONE {
                continue;
            }
            let row = &self.rows[number as usize];
            let (mut terms, mut right): (Vec<(u32, N)>, N) = (Vec::new(), row.right);
            let mut add = |column: u32, value: N| match terms
                .iter_mut()
                .find(|(known, _)| *known == column)
            {
                Some((_, sum)) => *sum = sum.plus(value),
                None => terms.push((column, value)),
            };
            for (other, factor) in &row.terms {
                match &whole[*other as usize] {
                    None => add(*other, *factor),
                    Some((inner, beyond)) => {
                        let minus = factor.negative();
                        inner
                            .iter()
                            .for_each(|(column, value)| add(*column, minus.times(*value)));
                        right = right.plus(minus.times(*beyond));
                    }
                }
            }
            terms.retain(|(_, factor)| !factor.is_zero());
            terms.sort_by_key(|(column, _)| *column);
            whole[slot] = Some((terms, right));
        }
        let rows = (0_u32..).zip(whole);
        rows.filter_map(|(column, row)| row.map(|(terms, right)| (column, terms, right)))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field::Modular;
    use proptest::prelude::*;

    fn natural(columns: usize) -> Vec<u32> {
        (0..u32::try_from(columns).unwrap()).collect()
    }

    /// Rank by textbook elimination over fractions.
    fn plain_rank(rows: &[Vec<i32>]) -> usize {
        let mut rows: Vec<Vec<i128>> = rows
            .iter()
            .map(|row| row.iter().map(|x| i128::from(*x)).collect())
            .collect();
        let columns = rows.first().map_or(0, Vec::len);
        let mut rank = 0;
        for column in 0..columns {
            let Some(pivot) = (rank..rows.len()).find(|row| rows[*row][column] != 0) else {
                continue;
            };
            rows.swap(rank, pivot);
            let own = rows[rank].clone();
            for row in rows.iter_mut().skip(rank + 1) {
                let (a, b) = (own[column], row[column]);
                if b != 0 {
                    row.iter_mut()
                        .zip(&own)
                        .for_each(|(x, own)| *x = *x * a - own * b);
                    let divisor = row.iter().fold(0, |x, y| gcd(x, *y)).max(1);
                    row.iter_mut().for_each(|x| *x /= divisor);
                }
            }
            rank += 1;
        }
        rank
    }

    fn gcd(a: i128, b: i128) -> i128 {
        if b == 0 { a.abs() } else { gcd(b, a % b) }
    }

    fn sparse<N: Number>(row: &[i32]) -> Vec<(u32, N)> {
        let all = (0_u32..).zip(row);
        all.filter(|(_, value)| **value != 0)
            .map(|(column, value)| (column, N::whole(*value)))
            .collect()
    }

    proptest! {
        #[test]
        fn rank_and_solution_are_those_of_the_textbook(
            rows in proptest::collection::vec(proptest::collection::vec(0..3_i32, 7), 1..14),
            truth in proptest::collection::vec(1..50_i32, 7),
            order in Just(natural(7)).prop_shuffle(),
        ) {
            let right = |row: &[i32]| row.iter().zip(&truth).map(|(a, x)| a * x).sum::<i32>();
            let mut exact = Elimination::<Modular>::new(order.clone());
            let mut float = Elimination::<f64>::new(order);
            for row in &rows {
                let b = right(row);
                let came = exact.insert(sparse(row), Modular::whole(b));
                prop_assert_eq!(float.insert(sparse(row), f64::from(b)), came);
                prop_assert!(!exact.is_independent(sparse::<Modular>(row)));
            }
            prop_assert_eq!(exact.rank(), plain_rank(&rows));
            // Every solution of the rows gives the right sides.
            let solution = exact.solution(|column| Modular::whole(i32::try_from(column * 31 + 5).unwrap()));
            let values = float.solution(|_| 0.0);
            for row in &rows {
                let sum = sparse::<Modular>(row).iter().fold(Modular::ZERO, |sum, (column, factor)| {
                    sum.plus(factor.times(solution[*column as usize]))
                });
                prop_assert_eq!(sum, Modular::whole(right(row)));
                let sum: f64 = sparse::<f64>(row).iter().map(|(column, factor)| factor * values[*column as usize]).sum();
                prop_assert!((sum - f64::from(right(row))).abs() < 1e-6);
                let told = exact.evaluate(sparse::<Modular>(row));
                prop_assert_eq!(told, Some(Modular::whole(right(row))));
            }
            for (column, value) in truth.iter().enumerate() {
                let mut alone = vec![0; 7];
                alone[column] = 1;
                let mut more = rows.clone();
                more.push(alone);
                let identified = plain_rank(&more) == plain_rank(&rows);
                let column_32 = u32::try_from(column).unwrap();
                prop_assert_eq!(exact.is_identified(column_32), identified);
                if identified {
                    prop_assert_eq!(exact.evaluate([(column_32, Modular::ONE)]), Some(Modular::whole(*value)));
                }
            }
            let reduced = exact.reduced();
            prop_assert_eq!(reduced.len(), exact.rank());
            let free = exact.free_columns();
            for (_, terms, _) in &reduced {
                prop_assert!(terms.iter().all(|(column, _)| free.contains(column)));
            }
        }
    }
}
