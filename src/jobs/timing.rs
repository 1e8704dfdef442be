//! Times of single messages, kept in bounded memory: reports hold percentiles, and not all times.

use crate::record::TimeSpread;

/// The times of messages, in nanoseconds.
#[derive(Debug, Clone)]
pub(crate) struct Times {
    kept: Vec<u64>,
    /// One time out of this many is kept.
    stride: u64,
    seen: u64,
    least: u64,
    most: u64,
    sum: f64,
    squares: f64,
}

/// Maximum of kept times. Beyond it they are thinned out, evenly over the measurement.
const KEPT: usize = 1 << 16;

impl Default for Times {
    fn default() -> Self {
        Self {
            kept: Vec::with_capacity(KEPT),
            stride: 1,
            seen: 0,
            least: u64::MAX,
            most: 0,
            sum: 0.0,
            squares: 0.0,
        }
    }
}

impl Times {
    /// Forgets all times.
    pub(crate) fn clear(&mut self) {
        self.kept.clear();
        (self.stride, self.seen) = (1, 0);
        (self.least, self.most) = (u64::MAX, 0);
        (self.sum, self.squares) = (0.0, 0.0);
    }

    /// Adds one time, in nanoseconds.
    pub(crate) fn add(&mut self, ns: u64) {
        if self.seen.is_multiple_of(self.stride) {
            if self.kept.len() == KEPT {
                let mut place = 0;
                self.kept.retain(|_| {
                    place += 1;
                    place % 2 == 1
                });
                self.stride *= 2;
            }
            if self.seen.is_multiple_of(self.stride) {
                self.kept.push(ns);
            }
        }
        self.seen += 1;
        self.least = self.least.min(ns);
        self.most = self.most.max(ns);
        self.sum += ns as f64;
        self.squares += (ns as f64) * (ns as f64);
    }

    /// Summary of the times in seconds, each divided by `parts`; `None` if there are no times.
    pub(crate) fn spread(&mut self, parts: f64) -> Option<TimeSpread> {
        if self.kept.is_empty() {
            return None;
        }
        self.kept.sort_unstable();
        let scale = 1e9 * parts;
        // The nearest rank: a time that was measured, not one between two.
        let at = |percent: usize| {
            let rank = (self.kept.len() * percent).div_ceil(100).max(1);
            self.kept[rank - 1] as f64 / scale
        };
        let count = self.seen as f64;
        let mean = self.sum / count;
        let variance = (self.squares / count - mean * mean).max(0.0);
        // A single time has no variance.
        let corrected = variance * count / (count - 1.0).max(1.0);
        Some(TimeSpread {
            count: self.seen,
            least_s: self.least as f64 / scale,
            median_s: at(50),
            p90_s: at(90),
            p99_s: at(99),
            most_s: self.most as f64 / scale,
            deviation_s: corrected.sqrt() / scale,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_times_that_were_measured() {
        let mut times = Times::default();
        assert_eq!(times.spread(1.0), None);
        for ns in (1..=100).rev() {
            times.add(ns * 1000);
        }
        let spread = times.spread(2.0).unwrap();
        assert_eq!(spread.count, 100);
        assert_eq!((spread.least_s, spread.most_s), (0.5e-6, 50e-6));
        assert_eq!(
            (spread.median_s, spread.p90_s, spread.p99_s),
            (25e-6, 45e-6, 49.5e-6)
        );
        // For 1..100 the variance of a sample is 100 * 101 / 12.
        let expected = (100.0_f64 * 101.0 / 12.0).sqrt() * 0.5e-6;
        assert!((spread.deviation_s - expected).abs() < 1e-15, "{spread:?}");
        times.clear();
        times.add(7);
        assert_eq!(times.spread(1.0).unwrap().deviation_s, 0.0);
    }

    #[test]
    fn a_million_times_are_thinned_out_and_their_ends_are_kept() {
        let mut times = Times::default();
        for ns in 0..1_000_000 {
            times.add(ns);
        }
        assert!(times.kept.len() <= KEPT);
        let spread = times.spread(1.0).unwrap();
        assert_eq!((spread.count, spread.most_s), (1_000_000, 999_999e-9));
        assert!((spread.median_s - 500_000e-9).abs() < 32e-9, "{spread:?}");
    }
}
