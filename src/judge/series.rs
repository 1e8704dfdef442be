//! Judges a test by its worst stretch if nothing falls short on average: the mean hides a port that is slow for part of the window.

use std::collections::{BTreeMap, BTreeSet};

use crate::plan::lanes::Lane;
use crate::plan::{Bound, Test};
use crate::record::{HostRecord, LinkSeries, TestRecord};
use crate::units::SECOND_NS;
use numbers::whole;

use super::fabric::{Fabric, Observation};
use super::look::Look;
use super::thresholds::{
    EVEN, EVEN_SHARED, PROBE_S, RISES, STRETCH_LACKS, STRETCH_PART, STRETCH_S,
};
use super::view::{PortView, Stretch};

/// Pairs of ports that carried more in each stretch inside the window than in the one before, over all their links. `ends` returns the ports of
/// a link, and `links` the number of links of a pair.
pub(super) fn rising(
    bound: Bound,
    all: &[LinkSeries],
    ends: &dyn Fn(&Lane) -> (usize, usize),
    links: &dyn Fn((usize, usize)) -> usize,
) -> BTreeSet<(usize, usize)> {
    let Some((warmup_ns, window_ns)) = bound.times_ns() else {
        return BTreeSet::new();
    };
    let mut pairs: BTreeMap<(usize, usize), (usize, Vec<u64>)> = BTreeMap::new();
    for series in all {
        let step_ns = series.stretch_s.max(1).saturating_mul(SECOND_NS);
        let begins = warmup_ns.saturating_add(step_ns);
        let inside = begins..=warmup_ns.saturating_add(window_ns);
        let entries = (1..).zip(&series.bytes);
        let entries =
            entries.filter(|(number, _)| inside.contains(&step_ns.saturating_mul(*number)));
        let (count, sums) = pairs.entry(ends(&series.lane)).or_default();
        *count += 1;
        for (at, (_, bytes)) in entries.enumerate() {
            match sums.get_mut(at) {
                Some(sum) => *sum = sum.saturating_add(*bytes),
                None => sums.push(*bytes),
            }
        }
    }
    let rises = |sums: &[u64]| {
        let (Some(first), Some(last)) = (sums.first(), sums.last()) else {
            return false;
        };
        sums.len() > 2
            && sums.windows(2).all(|two| two[0] < two[1])
            && *last as f64 >= RISES * *first as f64
    };
    let all = pairs.into_iter();
    let rising = all.filter(|(pair, (count, sums))| *count == links(*pair) && rises(sums));
    rising.map(|(pair, _)| pair).collect()
}

/// Bytes of all ports, stretch by stretch.
pub(super) struct Series {
    /// Duration of an entry in seconds.
    step_s: u64,
    /// End of the first entry, in seconds after the start.
    first_s: u64,
    window_s: f64,
    /// Seconds of a stretch in which a sound port can send next to nothing (BBR).
    pause_s: f64,
    /// For each entry, the bytes of each port, sent and received in turn.
    entries: Vec<Vec<f64>>,
}

impl Series {
    /// Collects the entries inside the window. `None` if the test had no window.
    pub(super) fn of(
        ports: &[PortView],
        hosts: &[HostRecord],
        nodes: &[Vec<usize>],
        test: &Test,
        record: &TestRecord,
    ) -> Option<Self> {
        let (warmup_ns, window_ns) = test.bound.times_ns()?;
        let step_s = record.stretch_s.max(1);
        let begins = warmup_ns.saturating_add(step_s.saturating_mul(SECOND_NS));
        let ends = warmup_ns.saturating_add(window_ns);
        let seconds = record.seconds.iter();
        let inside = seconds.filter(|one| (begins..=ends).contains(&one.at_ns));
        let inside: Vec<_> = inside.collect();
        let rails = test.rails.max(1);
        let entry = |second: &crate::record::Second| -> Vec<f64> {
            let places = ports.iter().flat_map(|port| {
                let sum = |columns: &[u64]| -> f64 {
                    let own = nodes[port.node]
                        .iter()
                        .filter_map(|node| columns.get(node * rails + port.rail));
                    own.map(|bytes| *bytes as f64).sum()
                };
                [sum(&second.sent_bytes), sum(&second.received_bytes)]
            });
            places.collect()
        };
        let congestion = test.sockets.congestion.as_deref();
        let mut chosen = hosts
            .iter()
            .map(|host| congestion.unwrap_or(&host.facts.congestion));
        Some(Self {
            step_s,
            first_s: inside.first()?.at_ns / SECOND_NS,
            window_s: window_ns as f64 / SECOND_NS as f64,
            pause_s: if chosen.any(|name| name == "bbr") {
                PROBE_S
            } else {
                0.0
            },
            entries: inside.into_iter().map(entry).collect(),
        })
    }

    /// The test as it looks in its worst stretch, if a port falls short there and no place does on average.
    pub(super) fn worst(
        &self,
        fabric: &Fabric,
        whole_test: &Observation,
    ) -> Option<(Observation, Stretch)> {
        let length_s = STRETCH_S.max(self.window_s * STRETCH_PART);
        let length = usize::try_from(whole((length_s / self.step_s as f64).ceil()))
            .ok()?
            .max(1);
        let look = Look::new(fabric, whole_test);
        let ports = 2 * fabric.ports.len();
        let judged = |place: &usize| look.judged[*place] && look.expected[*place] > 0.0;
        let is_short = (0..fabric.places())
            .filter(judged)
            .any(|place| look.is_short(place));
        if is_short || self.entries.len() < 2 * length || !look.tells_rates() {
            return None;
        }
        let mean = |entries: &[Vec<f64>], place: usize| {
            entries.iter().map(|entry| entry[place]).sum::<f64>() / entries.len() as f64
        };
        let means: Vec<f64> = (0..ports).map(|place| mean(&self.entries, place)).collect();
        let pause = 1.0 - self.pause_s / (length as f64 * self.step_s as f64);
        let total = |parts: &[f64]| -> f64 {
            let all = parts.iter().zip(&look.seen).enumerate();
            all.filter(|(place, _)| place % 2 == 1)
                .map(|(_, (part, seen))| part * seen)
                .sum()
        };
        let even = total(&vec![1.0; ports]);
        let least_even = if look.single { EVEN } else { EVEN_SHARED };
        let mut worst: Option<(f64, usize, Vec<f64>)> = None;
        for (at, entries) in self.entries.windows(length).enumerate() {
            let part = |place: usize| match means[place] > 0.0 {
                true => (mean(entries, place) / means[place] / pause).min(1.0),
                false => 1.0,
            };
            let parts: Vec<f64> = (0..ports).map(part).collect();
            let lacking = even - total(&parts);
            let shares = (0..ports)
                .filter(judged)
                .filter(|place| parts[*place] < least_even);
            let shares = shares.filter_map(|place| {
                let lacks = look.seen[place] * (1.0 - parts[place]);
                let share = look.share(place)? * parts[place] / look.floors[place];
                (share < 1.0 && lacking >= lacks * STRETCH_LACKS).then_some(share)
            });
            let least = shares.fold(f64::INFINITY, f64::min);
            if least < worst.as_ref().map_or(1.0, |(known, ..)| *known) {
                worst = Some((least, at, parts));
            }
        }
        let (_, at, parts) = worst?;
        let from_s = self.first_s.saturating_sub(self.step_s) + at as u64 * self.step_s;
        let stretch = Stretch {
            from_s,
            seconds: length as u64 * self.step_s,
            means: look.seen.clone(),
        };
        Some((scaled(fabric, whole_test, &look.seen, &parts), stretch))
    }
}

/// The test with what passed each port scaled by these parts. The rates of the links in the stretch are unknown: iterative proportional fitting
/// (Deming and Stephan, 1940) fits them to the rates of their ports. It is exact where each port has one link.
fn scaled(fabric: &Fabric, whole_test: &Observation, seen: &[f64], parts: &[f64]) -> Observation {
    const ROUNDS: usize = 8;
    let mut scaled = whole_test.clone();
    let wanted: Vec<f64> = seen
        .iter()
        .zip(parts)
        .map(|(seen, part)| seen * part)
        .collect();
    for (passed, wanted) in scaled.passed.iter_mut().zip(&wanted) {
        *passed = *wanted;
    }
    for _ in 0..ROUNDS {
        for receives in [false, true] {
            let sums = scaled.seen(fabric);
            for link in &mut scaled.links {
                let place = if receives {
                    2 * link.to + 1
                } else {
                    2 * link.from
                };
                link.rate *= wanted[place] / sums[place].max(f64::MIN_POSITIVE);
            }
        }
    }
    scaled
}

#[cfg(test)]
mod tests {
    use crate::judge::fabric::Seen;
    use crate::judge::fabric::tests::of_hosts;
    use crate::judge::filling::Flow;

    use super::*;

    /// A ring of four hosts over twenty seconds. `carried` returns the share of its rate that host 1 receives in each second.
    fn ring(carried: fn(usize) -> f64) -> Option<(Observation, Stretch)> {
        let fabric = of_hosts(4);
        let pairs: Vec<(usize, usize)> = (0..4).map(|from| (from, (from + 1) % 4)).collect();
        let mean = (0..20).map(carried).sum::<f64>() / 20.0;
        let links = pairs.iter().map(|(from, to)| Seen {
            from: *from,
            to: *to,
            rate: if *to == 1 { 100.0 * mean } else { 100.0 },
            links: 1,
            ..Seen::default()
        });
        let flows = pairs.iter().map(|(from, to)| Flow {
            route: fabric.way(*from, *to),
            weight: 1.0,
            cap: f64::INFINITY,
        });
        let observation = Observation {
            capacities: vec![100.0; 8],
            links: links.collect(),
            flows: flows.collect(),
            pairs,
            ..Observation::default()
        };
        let entry = |second: usize| {
            let part = |place: usize| {
                if place == 0 || place == 3 {
                    carried(second)
                } else {
                    1.0
                }
            };
            (0..8).map(|place| 1e6 * part(place)).collect()
        };
        let series = Series {
            step_s: 1,
            first_s: 2,
            window_s: 20.0,
            pause_s: 0.0,
            entries: (0..20).map(entry).collect(),
        };
        series.worst(&fabric, &observation)
    }

    #[test]
    fn a_port_at_half_speed_for_the_last_fifth_is_seen_there() {
        let (observation, stretch) =
            ring(|second| if second < 16 { 1.0 } else { 0.5 }).expect("a stretch");
        assert_eq!((stretch.from_s, stretch.seconds), (17, 2));
        assert!((stretch.means[3] - 90.0).abs() < 1e-9);
        let rates: Vec<u64> = observation
            .links
            .iter()
            .map(|link| whole(link.rate))
            .collect();
        assert_eq!(rates, [50, 100, 100, 100]);
    }

    #[test]
    fn what_is_even_or_short_on_average_is_judged_by_its_mean() {
        assert_eq!(ring(|_| 0.93), None);
        assert_eq!(ring(|second| 1.0 - 0.04 * (second % 2) as f64), None);
        assert_eq!(ring(|second| if second < 10 { 1.0 } else { 0.5 }), None);
    }

    #[test]
    fn links_that_find_their_rate_again_carry_more_from_second_to_second() {
        let bound = Bound::Time {
            warmup_ns: 2 * SECOND_NS,
            window_ns: 4 * SECOND_NS,
        };
        let rises = |bytes: &[u64], links: usize| {
            let series = LinkSeries {
                lane: Lane {
                    boundary: 0,
                    from: 0,
                    to: 2,
                    stream: 0,
                    from_slot: 0,
                    to_slot: 0,
                },
                stretch_s: 1,
                bytes: bytes.to_vec(),
            };
            let ends = |lane: &Lane| (lane.from, lane.to);
            !rising(bound, &[series], &ends, &|_| links).is_empty()
        };
        // Real measurements, in tens of kilobytes.
        assert!(rises(&[313, 378, 423, 492, 524, 620], 1));
        // Entries before the window do not matter.
        assert!(rises(&[900, 100, 423, 492, 524, 620, 1], 1));
        assert!(!rises(&[313, 378, 423, 492, 491, 620], 1), "a saw tooth");
        assert!(!rises(&[500, 500, 500, 503, 505, 506], 1), "steady");
        assert!(
            !rises(&[313, 378, 423, 492, 524, 620], 2),
            "the other one is not known"
        );
        assert!(!rises(&[313, 378, 423, 620], 1), "two seconds tell nothing");
    }
}
