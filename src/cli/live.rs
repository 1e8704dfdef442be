//! The live document of a run: its current state for other processes. Each second a new document replaces the whole file.

use std::collections::{HashSet, VecDeque};
use std::path::{Path, PathBuf};
use std::time::Instant;

use crate::controller::{LinkSample, Observer, RunEvent};
use crate::plan::{NodeSpec, Test};
use crate::record::{LIVE_VERSION, Live, LiveEvent, LiveTest, MEAN_S, MOST_IN_MATRIX, Second};
use crate::stats::series::Series;
use crate::store;
use crate::units::SECOND_NS;

use super::process::now_ms;

/// Most notices that are kept, and most events.
const NOTICES: usize = 20;
const EVENTS: usize = 40;
const BITS: u64 = 8;

/// Rates by sending and receiving node.
type Matrix = Vec<Vec<Option<u64>>>;

/// Keeps the document.
pub(super) struct LiveDocument {
    path: PathBuf,
    began: Instant,
    live: Live,
    course: Series<u64>,
    /// Rates of pairs in the last seconds of the test.
    matrices: VecDeque<Matrix>,
    /// Seconds of the course.
    passed_s: u64,
    /// Speed of the slowest port, if it says what pairs can reach.
    port_bits_per_s: Option<u64>,
}

impl LiveDocument {
    /// Keeps the document at `path`.
    pub(super) fn new(path: &Path) -> Self {
        let live = Live {
            version: LIVE_VERSION,
            stretch_s: 1,
            ..Live::default()
        };
        Self {
            path: path.to_owned(),
            began: Instant::now(),
            live,
            course: Series::default(),
            matrices: VecDeque::new(),
            passed_s: 0,
            port_bits_per_s: None,
        }
    }

    fn write(&mut self) {
        self.live.at_ms = now_ms();
        if let Ok(text) = serde_json::to_string(&self.live) {
            // After a failure readers see an older document; no measurement is lost.
            let (Ok(()) | Err(_)) = store::replace_file(&self.path, &text);
        }
    }

    /// Adds an event. One that repeats the latest one is not news.
    fn tell(&mut self, what: String) {
        let events = &mut self.live.events;
        if events.last().is_some_and(|latest| latest.what == what) {
            return;
        }
        let after_s = self.began.elapsed().as_secs();
        events.push(LiveEvent { after_s, what });
        let surplus = events.len().saturating_sub(EVENTS);
        events.drain(..surplus);
    }

    fn second(&mut self, test: &Test, second: &Second) {
        let nodes = self.live.nodes.len();
        // Nodes of one host send to each other, too. Received bytes include this traffic, which crosses no switch.
        let per_node = |ports: &[u64], near: Option<&[u64]>| -> Vec<u64> {
            let rails = test.rails.max(1);
            (0..nodes)
                .map(|node| {
                    let own = ports.iter().skip(node * rails).take(rails);
                    let near = near.and_then(|near| near.get(node)).copied();
                    crate::units::sum(own.copied().chain(near)).saturating_mul(BITS)
                })
                .collect()
        };
        self.live.received_bits_per_s =
            per_node(&second.received_bytes, Some(&second.same_host_bytes));
        self.live.sent_bits_per_s = per_node(&second.sent_bytes, None);
        let total = crate::units::sum(self.live.received_bits_per_s.iter().copied());
        self.course.push(total);
        self.passed_s += 1;
        self.live.stretch_s = self.course.stretch();
        let points = self.course.points().iter();
        self.live.course_bits_per_s = points.map(|sum| sum / self.live.stretch_s).collect();
        if let Some(now) = &mut self.live.test {
            now.passed_s = second.at_ns / SECOND_NS;
        }
    }

    fn samples(&mut self, samples: &[LinkSample]) {
        let nodes = self.live.nodes.len();
        if nodes > MOST_IN_MATRIX {
            return;
        }
        let mut matrix = vec![vec![None; nodes]; nodes];
        for LinkSample { lane, bytes } in samples {
            let cell = matrix
                .get_mut(lane.from)
                .and_then(|row| row.get_mut(lane.to));
            if let (Some(cell), true) = (cell, lane.from != lane.to) {
                let sum: &mut u64 = cell.get_or_insert(0);
                *sum = sum.saturating_add(bytes.saturating_mul(BITS));
            }
        }
        self.matrices.push_front(matrix);
        self.matrices.truncate(MEAN_S);
        self.live.matrix_bits_per_s = mean(&self.matrices);
    }
}

/// Mean of each cell over the matrices that have it.
fn mean(matrices: &VecDeque<Matrix>) -> Matrix {
    let cell = |from: usize, to: usize| {
        let rates = matrices
            .iter()
            .filter_map(|matrix| *matrix.get(from)?.get(to)?);
        let count = rates.clone().count() as u64;
        crate::units::sum(rates).checked_div(count)
    };
    let nodes = matrices.front().map_or(0, Vec::len);
    let row = |from| (0..nodes).map(|to| cell(from, to)).collect();
    (0..nodes).map(row).collect()
}

/// Speed of the slowest port. `None` unless all speeds are known, each node has its own host, and no uplink can be slower than a port.
fn slowest_port(nodes: &[NodeSpec]) -> Option<u64> {
    let hosts: HashSet<&str> = nodes.iter().map(|node| node.host.as_str()).collect();
    let is_alone = hosts.len() == nodes.len() && nodes.iter().all(|node| node.group.is_none());
    let speeds: Option<Vec<u64>> = nodes.iter().map(|node| node.speed_bits_per_s).collect();
    speeds.filter(|_| is_alone)?.into_iter().min()
}

/// Rate that each pair of a test can reach if its ports have this speed and share it evenly, within the rate limit of its links. `None` if the speed
/// is unknown, since the limit can be far above it, if pairs have limits of their own, or if the document lists no pairs.
fn pair_rate(test: &Test, nodes: usize, port_bits_per_s: Option<u64>) -> Option<u64> {
    if nodes > MOST_IN_MATRIX || !test.paces.is_empty() {
        return None;
    }
    let others =
        |node: usize, peers: Vec<usize>| peers.iter().filter(|peer| **peer != node).count();
    let most = (0..nodes).map(|node| {
        let to = others(node, test.pattern.targets(nodes, node));
        to.max(others(node, test.pattern.sources(nodes, node)))
    });
    let most = most.max().filter(|most| *most > 0)? as u64;
    let share = port_bits_per_s?.saturating_mul(test.rails as u64) / most;
    let links = test.streams.saturating_mul(test.phases.saturating_sub(1)) as u64;
    let limit = test.sockets.rate_bits_per_s;
    Some(limit.map_or(share, |rate| share.min(rate.saturating_mul(links))))
}

/// A part of the work, such as a step: number `number` of `of`.
fn part(kind: &str, number: usize, of: usize, what: String) -> LiveTest {
    LiveTest {
        kind: kind.to_owned(),
        number,
        of,
        what,
        ..LiveTest::default()
    }
}

impl Observer for LiveDocument {
    fn see(&mut self, event: RunEvent<'_>) {
        match event {
            RunEvent::Notice(text) => {
                self.tell(text.to_owned());
                self.live.notices.push(text.to_owned());
                let surplus = self.live.notices.len().saturating_sub(NOTICES);
                self.live.notices.drain(..surplus);
            }
            RunEvent::Stage(text) => {
                self.tell(text.to_owned());
                text.clone_into(&mut self.live.stage);
            }
            RunEvent::Hosts { plan, .. } => {
                self.live.nodes = plan.nodes.iter().map(|node| node.label.clone()).collect();
                self.port_bits_per_s = slowest_port(&plan.nodes);
            }
            RunEvent::Test {
                number, of, test, ..
            } => {
                let what = format!("{}, {} phases", test.pattern, test.phases);
                self.tell(format!("test {number} of {of}: {what}"));
                let planned_ns = test.bound.duration_ns();
                self.live.test = Some(LiveTest {
                    planned_s: planned_ns.map(|ns| ns.div_ceil(SECOND_NS)),
                    ..part("test", number, of, what)
                });
                let nodes = self.live.nodes.len();
                self.live.expected_pair_bits_per_s = pair_rate(test, nodes, self.port_bits_per_s);
                self.live.began_s.push(self.passed_s);
                // Its pairs can be others.
                self.matrices.clear();
                self.live.matrix_bits_per_s.clear();
            }
            RunEvent::Second { test, second } => self.second(test, second),
            RunEvent::Step { progress, .. } => {
                let what = format!("round {}", progress.number + 1);
                self.live.test = Some(part("step", progress.ended, progress.steps, what));
            }
            RunEvent::Table {
                table, number, of, ..
            } => {
                let what = table.benchmark.name().to_owned();
                self.tell(format!("table {number} of {of}: {what}"));
                self.live.test = Some(part("table", number, of, what));
            }
            // The next second writes the samples.
            RunEvent::Samples(samples) => return self.samples(samples),
            RunEvent::Link { .. }
            | RunEvent::Tested(_)
            | RunEvent::Round(_)
            | RunEvent::Rounded(_)
            | RunEvent::Tabled(_)
            | RunEvent::Line { .. }
            | RunEvent::Held(_) => return,
        }
        self.write();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::lanes::Lane;
    use crate::plan::lanes::tests::test_of;

    /// Symptom: the colours of the page's matrix changed each second, as connections share a port unevenly.
    #[test]
    fn rates_of_pairs_are_means_of_five_seconds() {
        let folder = tempfile::tempdir().unwrap();
        let mut document = LiveDocument::new(&folder.path().join("live.json"));
        document.live.nodes = vec!["a".to_owned(), "b".to_owned()];
        let lane = Lane {
            boundary: 0,
            from: 0,
            to: 1,
            stream: 0,
            from_slot: 0,
            to_slot: 0,
        };
        for bytes in [900, 10, 20, 30, 40, 50] {
            document.samples(&[LinkSample { lane, bytes }]);
        }
        let expected = vec![vec![None, Some(30 * BITS)], vec![None, None]];
        assert_eq!(document.live.matrix_bits_per_s, expected);
    }

    /// Symptom: the page said what a run did only at that moment.
    #[test]
    fn events_are_kept_in_order_and_told_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("live.json");
        let mut document = LiveDocument::new(&path);
        for text in ["connecting", "connecting", "measuring"] {
            document.see(RunEvent::Stage(text));
        }
        document.see(RunEvent::Notice("n2: 1 GiB of memory"));
        let live: Live = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        let told: Vec<&str> = live
            .events
            .iter()
            .map(|event| event.what.as_str())
            .collect();
        assert_eq!(told, ["connecting", "measuring", "n2: 1 GiB of memory"]);
        for number in 0..EVENTS {
            document.see(RunEvent::Notice(&number.to_string()));
        }
        assert_eq!(document.live.events.len(), EVENTS);
        assert_eq!(document.live.events[0].what, "0");
    }

    /// Symptom: the colours of the page's matrix compared pairs with the fastest one, since the document did not say what is expected.
    #[test]
    fn the_document_says_what_pairs_can_reach_if_speeds_are_known() {
        let node = |host: &str, speed_bits_per_s| NodeSpec {
            host: host.to_owned(),
            speed_bits_per_s,
            ..NodeSpec::default()
        };
        let (slow, fast) = (Some(10_000_000_000), Some(25_000_000_000));
        let ports = slowest_port(&[node("a", fast), node("b", slow), node("c", fast)]);
        assert_eq!(ports, slow);
        let mut test = test_of(3, 2);
        // Each port has pairs with two other nodes.
        assert_eq!(pair_rate(&test, 3, ports), Some(5_000_000_000));
        // Two links in each of two boundaries.
        test.sockets.rate_bits_per_s = Some(100_000_000);
        assert_eq!(pair_rate(&test, 3, ports), Some(400_000_000));
        assert_eq!(pair_rate(&test, 3, None), None);
        assert_eq!(pair_rate(&test, MOST_IN_MATRIX + 1, ports), None);
        // Nodes of one host share its port, and an unknown port can be slower.
        assert_eq!(slowest_port(&[node("a", slow), node("a", slow)]), None);
        assert_eq!(slowest_port(&[node("a", slow), node("b", None)]), None);
        let mut behind = node("b", slow);
        behind.group = Some("leaf 2".to_owned());
        assert_eq!(slowest_port(&[node("a", slow), behind]), None);
    }
}
