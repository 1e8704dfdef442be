//! The seconds of a run: what the nodes tell each second becomes sums, series and the finding that it is steady.

use crate::plan::lanes::{self, Lane};
use crate::plan::{Bound, RunPlan, Test};
use crate::record::{Second, TestRecord};
use crate::stats::series::Series;
use crate::stats::steady::Steady;
use crate::wire::message::Progress;

const SECOND_NS: u64 = 1_000_000_000;

/// What one link received in one second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkSample {
    /// Its place.
    pub lane: Lane,
    /// Payload in bytes.
    pub bytes: u64,
}

/// Seconds of a test that all nodes have told.
#[derive(Default)]
pub struct Pulse {
    /// What each node told last.
    before: Vec<Progress>,
    rails: usize,
    crosses: bool,
    /// Seconds behind this are no part of what is judged.
    until_ns: u64,
    seconds: u64,
    series: Series<Second>,
    steady: Steady,
}

impl Pulse {
    /// Before the first second of a test among `nodes` nodes, on several hosts if it `crosses` a switch.
    pub fn begin(test: &Test, nodes: usize, crosses: bool) -> Self {
        let nothing = Progress {
            sent_bytes: vec![0; test.rails],
            received_bytes: vec![0; test.rails],
            ..Progress::default()
        };
        Self {
            before: vec![nothing; nodes],
            rails: test.rails,
            crosses,
            until_ns: match test.bound {
                Bound::Time {
                    warmup_ns,
                    window_ns,
                } => warmup_ns.saturating_add(window_ns),
                Bound::Volume { .. } | Bound::Files => u64::MAX,
            },
            ..Self::default()
        }
    }

    /// Takes what the nodes told of one more second; none for a node that is lost, whose sums stand still.
    pub fn beat(&mut self, now: Vec<Option<Progress>>) -> Second {
        self.seconds += 1;
        let mut second = Second {
            at_ns: self.seconds * SECOND_NS,
            ..Second::default()
        };
        let mut rates = Vec::new();
        for (before, now) in self.before.iter_mut().zip(now) {
            let mut now = now.unwrap_or_else(|| before.clone());
            // A column that is missing would shift those of the next nodes.
            now.received_bytes.resize(self.rails, 0);
            now.sent_bytes.resize(self.rails, 0);
            let passed = |now: u64, before: u64| now.saturating_sub(before);
            let rails = |now: &[u64], before: &[u64]| -> Vec<u64> {
                let before = before.iter().copied().chain(std::iter::repeat(0));
                now.iter().zip(before).map(|(n, b)| passed(*n, b)).collect()
            };
            let received = rails(&now.received_bytes, &before.received_bytes);
            let same_host = passed(now.same_host_bytes, before.same_host_bytes);
            // Nodes tell their second when they come to it: a rate is divided by the time that really passed.
            let time = match before.at_ns {
                0 => SECOND_NS,
                at => now.at_ns.saturating_sub(at).max(1),
            };
            let rate = |bytes: u64| bytes as f64 / time as f64;
            if self.crosses {
                rates.extend(received.iter().map(|bytes| rate(*bytes)));
            } else {
                rates.push(rate(same_host));
            }
            second.received_bytes.extend(received);
            second
                .sent_bytes
                .extend(rails(&now.sent_bytes, &before.sent_bytes));
            second.same_host_bytes.push(same_host);
            second
                .own_bytes
                .push(passed(now.own_bytes, before.own_bytes));
            *before = now;
        }
        // Behind the window ports fall silent, which is even, too.
        if second.at_ns <= self.until_ns && rates.iter().any(|rate| *rate > 0.0) {
            self.steady.push(rates);
        }
        self.series.push(second.clone());
        second
    }

    /// What every link received in the last second, by what the nodes told before and `now`.
    pub fn samples(&self, test: &Test, now: &[Option<Progress>]) -> Vec<LinkSample> {
        let nodes = now.len();
        let mut samples = Vec::new();
        for (node, (now, before)) in now.iter().zip(&self.before).enumerate() {
            let Some(now) = now else { continue };
            let lanes = (0..test.phases - 1)
                .flat_map(|boundary| lanes::incoming(test, nodes, boundary, node));
            let before = before.links.iter().copied().chain(std::iter::repeat(0));
            for ((lane, now), before) in lanes.zip(&now.links).zip(before) {
                let bytes = now.saturating_sub(before);
                samples.push(LinkSample { lane, bytes });
            }
        }
        samples
    }

    /// Puts the seconds into the record of a test.
    pub fn note(&self, record: &mut TestRecord) {
        record.steady_from_s = self.steady.from_s();
        record.stretch_s = self.series.stretch();
        record.seconds = self.series.points().to_vec();
    }
}

/// The links whose series are worth keeping: the slowest ones between hosts, or between nodes where there is one host.
pub fn worst_links(plan: &RunPlan, record: &TestRecord) -> Vec<Lane> {
    const KEPT: usize = 64;
    let crosses = record.links.iter().any(|link| link.crosses_switch);
    let lost = |node: usize| record.nodes[node].is_none();
    let mut links: Vec<_> = record
        .links
        .iter()
        .filter(|link| link.crosses_switch || (!crosses && !link.lane.is_own()))
        .filter(|link| !lost(link.lane.from) && !lost(link.lane.to) && plan.nodes.len() > 1)
        .collect();
    links.sort_by_key(|link| link.interval_bytes);
    links.iter().take(KEPT).map(|link| link.lane).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::lanes::tests::test_of;

    fn told(at_s: u64, received: [u64; 2], links: Vec<u64>) -> Option<Progress> {
        Some(Progress {
            at_ns: at_s * SECOND_NS,
            sent_bytes: received.to_vec(),
            received_bytes: received.to_vec(),
            links,
            ..Progress::default()
        })
    }

    #[test]
    fn seconds_are_differences_and_a_lost_node_stands_still() {
        let mut test = test_of(2, 2);
        test.rails = 2;
        let mut pulse = Pulse::begin(&test, 2, true);
        let first = pulse.beat(vec![
            told(1, [5, 6], Vec::new()),
            told(9, [7, 8], Vec::new()),
        ]);
        assert_eq!(first.received_bytes, [5, 6, 7, 8]);
        let second = pulse.beat(vec![told(2, [15, 6], Vec::new()), None]);
        assert_eq!(second.received_bytes, [10, 0, 0, 0]);
        assert_eq!((second.at_ns, second.sent_bytes.len()), (2 * SECOND_NS, 4));
    }

    #[test]
    fn samples_have_the_names_of_their_links() {
        let test = test_of(2, 1);
        let mut pulse = Pulse::begin(&test, 2, true);
        let first = vec![told(1, [0, 0], vec![1, 2]), told(1, [0, 0], vec![3, 4])];
        pulse.beat(first);
        let now = vec![told(2, [0, 0], vec![11, 22]), None];
        let samples = pulse.samples(&test, &now);
        let seen: Vec<_> = samples
            .iter()
            .map(|sample| (sample.lane.from, sample.lane.to, sample.bytes))
            .collect();
        assert_eq!(seen, [(0, 0, 10), (1, 0, 20)]);
    }
}
