//! What a rank computes while a transfer goes on (guide 4.2.5.1): a matrix of 100 x 100 times a vector, again and again.

use std::hint::black_box;

use crate::sys::clock;

/// Rows and columns.
const SIDE: usize = 100;
/// Operations of one product: a multiplication and an addition for each item.
const OPERATIONS: f64 = 2.0 * (SIDE * SIDE) as f64;

/// A certain amount of work, and how long it takes when nothing else goes on.
#[derive(Debug, Clone)]
pub struct Work {
    matrix: Vec<f32>,
    vector: Vec<f32>,
    products: usize,
    /// Seconds that it takes.
    pub seconds: f64,
    /// Millions of operations in a second.
    pub megaflops: f64,
}

impl Work {
    /// As much as takes about so many seconds on this processor now.
    pub fn of(seconds: f64) -> Self {
        let mut work = Self {
            matrix: (0..SIDE * SIDE)
                .map(|at| if at % 3 == 0 { 0.5 } else { 0.25 })
                .collect(),
            vector: vec![1.0; SIDE],
            products: 1,
            seconds: 0.0,
            megaflops: 0.0,
        };
        // Doubled until it is long enough to tell how much more is needed.
        while work.time() < seconds / 8.0 {
            work.products *= 2;
        }
        let each = work.time() / work.products as f64;
        let products = crate::units::whole((seconds / each.max(1e-9)).round());
        work.products = usize::try_from(products).unwrap_or(usize::MAX).max(1);
        work.seconds = work.time();
        work.megaflops = OPERATIONS * work.products as f64 / work.seconds.max(1e-9) / 1e6;
        work
    }

    /// Does it.
    pub fn run(&self) {
        let mut result = vec![0.0_f32; SIDE];
        for _ in 0..self.products {
            let vector = black_box(&self.vector);
            for (row, sum) in self.matrix.chunks_exact(SIDE).zip(&mut result) {
                *sum = row.iter().zip(vector).map(|(one, other)| one * other).sum();
            }
            black_box(&mut result);
        }
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
        let (short, long) = (Work::of(1e-4), Work::of(1e-2));
        assert!(long.products > short.products);
        assert!(short.seconds > 0.0 && long.megaflops > 1.0);
    }
}
