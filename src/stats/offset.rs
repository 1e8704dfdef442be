//! Clock offsets from requests and answers, as in Cristian, "Probabilistic clock synchronization" (1989): the answer of the shortest round
//! trip is off by at most half of that trip.

/// One request and its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    /// Time of the request, on the own clock.
    pub sent_ns: u64,
    /// Time of the answer, on the other clock.
    pub node_ns: u64,
    /// Time at which the answer arrived, on the own clock.
    pub received_ns: u64,
}

/// Difference of the other clock minus the own clock.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Offset {
    /// Nanoseconds to add to the own clock to get the other.
    pub offset_ns: i64,
    /// Largest possible error, in nanoseconds.
    pub uncertainty_ns: u64,
}

impl Offset {
    /// Converts a time of the own clock to the other clock.
    pub fn to_node(self, own_ns: u64) -> u64 {
        own_ns.saturating_add_signed(self.offset_ns)
    }

    /// Converts a time of the other clock to the own clock.
    pub fn to_own(self, node_ns: u64) -> u64 {
        node_ns.saturating_sub_signed(self.offset_ns)
    }
}

/// Estimates the offset from the sample with the shortest round trip. Returns `None` without samples.
pub fn estimate(samples: &[Sample]) -> Option<Offset> {
    let best = samples
        .iter()
        .min_by_key(|sample| sample.received_ns.saturating_sub(sample.sent_ns))?;
    let trip = best.received_ns.saturating_sub(best.sent_ns);
    let middle = best.sent_ns + trip / 2;
    let offset_ns = i64::try_from(i128::from(best.node_ns) - i128::from(middle)).ok()?;
    Some(Offset {
        offset_ns,
        uncertainty_ns: trip.div_ceil(2),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_farthest_clock_that_a_node_can_tell_of_has_an_offset() {
        let sample = Sample {
            sent_ns: 1 << 63,
            node_ns: 0,
            received_ns: 1 << 63,
        };
        let offset = estimate(&[sample]).unwrap();
        assert_eq!(offset.offset_ns, i64::MIN);
        assert_eq!(offset.to_own(0), 1 << 63);
    }

    #[test]
    fn the_shortest_trip_decides_and_half_of_it_is_the_uncertainty() {
        let long = Sample {
            sent_ns: 0,
            node_ns: 9_000,
            received_ns: 10_000,
        };
        let short = Sample {
            sent_ns: 20_000,
            node_ns: 15_060,
            received_ns: 20_100,
        };
        let offset = estimate(&[long, short]).unwrap();
        assert_eq!(
            offset,
            Offset {
                offset_ns: -4_990,
                uncertainty_ns: 50
            }
        );
        assert_eq!(offset.to_node(100_000), 95_010);
        assert_eq!(offset.to_own(95_010), 100_000);
        assert_eq!(estimate(&[]), None);
    }
}
