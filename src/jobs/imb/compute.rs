//! Computation of a rank during a transfer (guide 4.2.5.1): a matrix of 100 x 100 times a vector, repeatedly. Today's version has 10 x 10.

use std::hint::black_box;

use crate::plan::imb::Rules;
use crate::sys::clock;

/// A fixed amount of work, and its duration when nothing else runs.
#[derive(Debug, Clone)]
pub(super) struct Work {
    /// Rows and columns.
    side: usize,
    /// Stored by column, so that the inner loop adds consecutive items.
    matrix: Vec<f32>,
    vector: Vec<f32>,
    products: usize,
    /// Seconds that the work takes.
    pub seconds: f64,
    /// Millions of floating-point operations per second.
    pub megaflops: f64,
}

impl Work {
    /// Creates work that takes about `seconds` seconds on this processor now.
    pub(super) fn of(seconds: f64, rules: Rules) -> Self {
        let side = match rules {
            Rules::Guide => 100,
            Rules::Current => 10,
        };
        let mut work = Self {
            side,
            matrix: (0..side * side)
                .map(|at| if at % 3 == 0 { 0.5 } else { 0.25 })
                .collect(),
            vector: vec![1.0; side],
            products: 1,
            seconds: 0.0,
            megaflops: 0.0,
        };
        // Doubles the work until it takes long enough to calculate how much is needed.
        while work.time() < seconds / 8.0 {
            work.products *= 2;
        }
        let each = work.least_time() / work.products as f64;
        let products = numbers::whole((seconds / each.max(1e-9)).round());
        work.products = usize::try_from(products).unwrap_or(usize::MAX).max(1);
        work.seconds = work.least_time();
        // One multiplication and one addition for each item.
        let operations = 2.0 * (side * side) as f64;
        work.megaflops = operations * work.products as f64 / work.seconds.max(1e-9) / 1e6;
        work
    }

    /// Does the work once.
    pub(super) fn run(&self) {
        let mut result = vec![0.0_f32; self.side];
        for _ in 0..self.products {
            let vector = black_box(&self.vector);
            result.fill(0.0);
            for (column, factor) in self.matrix.chunks_exact(self.side).zip(vector) {
                for (sum, item) in result.iter_mut().zip(column) {
                    *sum += item * factor;
                }
            }
            black_box(&mut result);
        }
    }

    /// Duration without disturbance, in seconds: the least of several runs.
    fn least_time(&self) -> f64 {
        const TIMES: usize = 3;
        (0..TIMES)
            .map(|_| self.time())
            .fold(f64::INFINITY, f64::min)
    }

    fn time(&self) -> f64 {
        let began_ns = clock::monotonic_ns();
        self.run();
        (clock::monotonic_ns() - began_ns) as f64 / 1e9
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_time_is_more_work() {
        let (short, long) = (Work::of(1e-4, Rules::Guide), Work::of(1e-2, Rules::Current));
        let items = |work: &Work| work.products * work.side * work.side;
        assert!(items(&long) > items(&short));
        assert_eq!((short.side, long.side), (100, 10));
        assert!(short.seconds > 0.0 && long.megaflops > 1.0);
    }
}
