//! Series of bounded length: when a series is full, neighbouring points are summed, and every point then covers twice the time.

use crate::record::Second;

/// A series never holds this many points. Once halved, it keeps at least half as many.
pub(crate) const POINTS: usize = 1024;

/// A value that can be summed over time.
pub(crate) trait Sum {
    /// Adds the next value in time.
    fn add(&mut self, later: &Self);
}

impl Sum for u64 {
    fn add(&mut self, later: &Self) {
        *self = self.saturating_add(*later);
    }
}

impl Sum for Second {
    fn add(&mut self, later: &Self) {
        self.at_ns = later.at_ns;
        let columns = [
            (&mut self.received_bytes, &later.received_bytes),
            (&mut self.sent_bytes, &later.sent_bytes),
            (&mut self.same_host_bytes, &later.same_host_bytes),
            (&mut self.own_bytes, &later.own_bytes),
        ];
        for (own, other) in columns {
            for (own, other) in own.iter_mut().zip(other) {
                *own = own.saturating_add(*other);
            }
        }
    }
}

/// Sums over stretches of equal duration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Series<T> {
    stretch: u64,
    points: Vec<T>,
    open: Option<(T, u64)>,
}

impl<T> Default for Series<T> {
    fn default() -> Self {
        Self {
            stretch: 1,
            points: Vec::new(),
            open: None,
        }
    }
}

impl<T: Sum + Clone> Series<T> {
    /// Adds the value of the next second.
    pub(crate) fn push(&mut self, value: T) {
        let (sum, count) = match self.open.take() {
            None => (value, 1),
            Some((mut sum, count)) => {
                sum.add(&value);
                (sum, count + 1)
            }
        };
        if count < self.stretch {
            self.open = Some((sum, count));
            return;
        }
        self.points.push(sum);
        if self.points.len() == POINTS {
            self.points = self
                .points
                .chunks(2)
                .filter_map(|pair| {
                    let mut sum = pair.first()?.clone();
                    pair.iter().skip(1).for_each(|later| sum.add(later));
                    Some(sum)
                })
                .collect();
            self.stretch *= 2;
        }
    }

    /// Seconds that each point covers.
    pub(crate) fn stretch(&self) -> u64 {
        self.stretch
    }

    /// The points, without a stretch that is not full yet.
    pub(crate) fn points(&self) -> &[T] {
        &self.points
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn nothing_is_lost_and_the_length_is_bounded(seconds in 0_u64..20_000) {
            let mut series = Series::default();
            for second in 0..seconds {
                series.push(second);
            }
            prop_assert!(series.points().len() < POINTS);
            let stretch = series.stretch();
            prop_assert!(stretch.is_power_of_two());
            let full = series.points().len() as u64 * stretch;
            prop_assert!(full <= seconds && seconds < full + stretch);
            prop_assert_eq!(series.points().iter().sum::<u64>(), (0..full).sum::<u64>());
        }
    }

    #[test]
    fn a_day_of_seconds_stays_small_and_keeps_its_end() {
        let mut series = Series::default();
        for second in 1..=86_400_u64 {
            series.push(Second {
                at_ns: second * 1_000_000_000,
                received_bytes: vec![1, 2],
                ..Second::default()
            });
        }
        assert_eq!(series.stretch(), 128);
        assert_eq!(series.points().len(), 675);
        let last = &series.points()[674];
        assert_eq!(
            (last.at_ns, &last.received_bytes[..]),
            (86_400_000_000_000, &[128, 256][..])
        );
    }
}
