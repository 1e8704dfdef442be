//! The seconds of a test: turns the nodes' progress each second into sums, series and the finding that the test is steady.

use crate::plan::lanes::{self, Lane};
use crate::plan::{RunPlan, Test};
use crate::record::{Second, TestRecord};
use crate::stats::series::Series;
use crate::stats::steady::Steady;
use crate::units::SECOND_NS;
use crate::wire::message::Progress;

/// Payload that one link received in one second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LinkSample {
    /// Place of the link.
    pub lane: Lane,
    /// Payload in bytes.
    pub bytes: u64,
}

/// Seconds of a test that all nodes have reported.
#[derive(Default)]
pub(super) struct Pulse {
    /// Latest progress of each node.
    before: Vec<Progress>,
    /// Progress of each node at the end of the last second.
    edges: Vec<Progress>,
    /// Each node's clock at the start, derived from its first progress.
    starts_ns: Vec<Option<u64>>,
    rails: usize,
    crosses: bool,
    /// End of the part that is judged, since the start of the test.
    until_ns: u64,
    seconds: u64,
    series: Series<Second>,
    steady: Steady,
}

impl Pulse {
    /// State before the first second of a test of `nodes` nodes. `crosses` is true if the nodes are on several hosts.
    pub(super) fn begin(test: &Test, nodes: usize, crosses: bool) -> Self {
        let nothing = Progress {
            sent_bytes: vec![0; test.rails],
            received_bytes: vec![0; test.rails],
            ..Progress::default()
        };
        Self {
            before: vec![nothing.clone(); nodes],
            edges: vec![nothing; nodes],
            starts_ns: vec![None; nodes],
            rails: test.rails,
            crosses,
            until_ns: test.bound.duration_ns().unwrap_or(u64::MAX),
            ..Self::default()
        }
    }

    /// Takes the progress of the nodes after another second. A lost node has `None`, and its sums do not change.
    pub(super) fn beat(&mut self, now: Vec<Option<Progress>>) -> Second {
        self.seconds += 1;
        let mut second = Second {
            at_ns: self.seconds * SECOND_NS,
            ..Second::default()
        };
        let mut rates = Vec::new();
        let columns = self.before.iter_mut().zip(&mut self.edges);
        for (((before, edge), start), now) in columns.zip(&mut self.starts_ns).zip(now) {
            let mut now = now.unwrap_or_else(|| before.clone());
            // A missing column would shift the columns of the next nodes.
            now.received_bytes.resize(self.rails, 0);
            now.sent_bytes.resize(self.rails, 0);
            let start_ns = *start.get_or_insert(now.at_ns.saturating_sub(second.at_ns));
            let end_ns = start_ns.saturating_add(second.at_ns);
            let ends = at(before, &now, end_ns);
            let passed = |now: u64, before: u64| now.saturating_sub(before);
            let rails = |now: &[u64], before: &[u64]| each(now, before, passed);
            let received = rails(&ends.received_bytes, &edge.received_bytes);
            let same_host = passed(ends.same_host_bytes, edge.same_host_bytes);
            if self.crosses {
                rates.extend(received.iter().map(|bytes| *bytes as f64));
            } else {
                rates.push(same_host as f64);
            }
            second.received_bytes.extend(received);
            second
                .sent_bytes
                .extend(rails(&ends.sent_bytes, &edge.sent_bytes));
            second.same_host_bytes.push(same_host);
            second
                .own_bytes
                .push(passed(ends.own_bytes, edge.own_bytes));
            (*before, *edge) = (now, ends);
        }
        // After the window the ports fall silent, which would count as steady.
        if second.at_ns <= self.until_ns && rates.iter().any(|rate| *rate > 0.0) {
            self.steady.push(rates);
        }
        self.series.push(second.clone());
        second
    }

    /// Payload that every link received in the last second: the difference between `now` and the previous progress.
    pub(super) fn samples(&self, test: &Test, now: &[Option<Progress>]) -> Vec<LinkSample> {
        let into_nodes = lanes::into_nodes(test, now.len());
        let mut samples = Vec::new();
        for ((lanes, now), before) in into_nodes.iter().zip(now).zip(&self.before) {
            let Some(now) = now else { continue };
            let before = before.links.iter().copied().chain(std::iter::repeat(0));
            for ((lane, now), before) in lanes.iter().zip(&now.links).zip(before) {
                let bytes = now.saturating_sub(before);
                samples.push(LinkSample { lane: *lane, bytes });
            }
        }
        samples
    }

    /// Puts the seconds into the record of a test.
    pub(super) fn note(&self, record: &mut TestRecord) {
        record.steady_from_s = self.steady.since_s();
        record.stretch_s = self.series.stretch();
        record.seconds = self.series.points().to_vec();
    }
}

/// Combines each number with the one at the same place before; a missing one counts as zero.
fn each(now: &[u64], before: &[u64], of: impl Fn(u64, u64) -> u64) -> Vec<u64> {
    let before = before.iter().copied().chain(std::iter::repeat(0));
    now.iter().zip(before).map(|(n, b)| of(*n, b)).collect()
}

/// Progress of a node at an instant of its clock. A busy node reports its second late, so this interpolates between two reports at a
/// constant rate.
fn at(before: &Progress, now: &Progress, instant_ns: u64) -> Progress {
    let passed_ns = now.at_ns.saturating_sub(before.at_ns).max(1);
    // Before the first report there is no rate: its sums stand as they are.
    let late_ns = match before.at_ns {
        0 => 0.0,
        _ => now.at_ns as f64 - instant_ns as f64,
    };
    let part = (late_ns / passed_ns as f64).clamp(-1.0, 1.0);
    let sum = |now: u64, before: u64| {
        let moved = now.saturating_sub(before) as f64;
        numbers::whole(
            (now as f64 - moved * part).max(before as f64 * f64::from(u8::from(part > 0.0))),
        )
    };
    Progress {
        at_ns: instant_ns,
        sent_bytes: each(&now.sent_bytes, &before.sent_bytes, sum),
        received_bytes: each(&now.received_bytes, &before.received_bytes, sum),
        same_host_bytes: sum(now.same_host_bytes, before.same_host_bytes),
        own_bytes: sum(now.own_bytes, before.own_bytes),
        ..Progress::default()
    }
}

/// Links whose series are worth keeping: the slowest ones between hosts, or between nodes if there is only one host.
pub(super) fn worst_links(plan: &RunPlan, record: &TestRecord) -> Vec<Lane> {
    const KEPT: usize = 64;
    let crosses = record.crosses_switch();
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
        // A second that is reported late covers one second, like the others.
        let mut late = Pulse::begin(&test, 1, true);
        let mut told_at = |at_ms: u64, bytes: u64| {
            let mut one = told(0, [bytes, 0], Vec::new()).expect("a word");
            one.at_ns = at_ms * 1_000_000;
            late.beat(vec![Some(one)]).received_bytes[0]
        };
        let seconds = [
            (7000, 1000),
            (8200, 2200),
            (9000, 3000),
            (10_500, 3000),
            (11_000, 3000),
        ];
        let seconds = seconds.map(|(at_ms, bytes)| told_at(at_ms, bytes));
        assert_eq!(seconds, [1000, 1000, 1000, 0, 0]);
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
