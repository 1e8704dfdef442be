//! The live document of a run: its current state for other processes. Each second a new document replaces the whole file.

use std::path::{Path, PathBuf};

use crate::conduct::{Hold, LinkSample, Observer};
use crate::plan::{Bound, RunPlan, Test};
use crate::record::{HostRecord, LIVE_VERSION, Live, LiveTest, MOST_IN_MATRIX, Second};
use crate::stats::series::Series;
use crate::store;

use super::process::now_ms;

/// Most notices that are kept.
const NOTICES: usize = 20;
const SECOND_NS: u64 = 1_000_000_000;
const BITS: u64 = 8;

/// Passes all events on to another observer and updates the document.
pub struct Ticker<'a> {
    observer: &'a mut dyn Observer,
    path: Option<PathBuf>,
    live: Live,
    course: Series<u64>,
}

impl<'a> Ticker<'a> {
    /// Keeps the document at `path`, if one is given.
    pub fn new(observer: &'a mut dyn Observer, path: Option<&Path>) -> Self {
        let live = Live {
            version: LIVE_VERSION,
            stretch_s: 1,
            ..Live::default()
        };
        Self {
            observer,
            path: path.map(Path::to_owned),
            live,
            course: Series::default(),
        }
    }

    fn write(&mut self) {
        let Some(path) = &self.path else {
            return;
        };
        self.live.at_ms = now_ms();
        if let Ok(text) = serde_json::to_string(&self.live) {
            // After a failure readers see an older document; no measurement is lost.
            match store::replace_file(path, &text) {
                Ok(()) | Err(_) => {}
            }
        }
    }
}

/// Entry of a test that begins.
fn begun(number: usize, of: usize, test: &Test) -> LiveTest {
    let planned_s = match test.bound {
        Bound::Time {
            warmup_ns,
            window_ns,
        } => Some(warmup_ns.saturating_add(window_ns).div_ceil(SECOND_NS)),
        Bound::Volume { .. } | Bound::Files => None,
    };
    LiveTest {
        number,
        of,
        what: format!("{}, {} phases", test.pattern, test.phases),
        planned_s,
        passed_s: 0,
    }
}

impl Observer for Ticker<'_> {
    fn notice(&mut self, text: &str) {
        self.observer.notice(text);
        self.live.notices.push(text.to_owned());
        let surplus = self.live.notices.len().saturating_sub(NOTICES);
        self.live.notices.drain(..surplus);
        self.write();
    }

    fn stage(&mut self, text: &str) {
        self.observer.stage(text);
        text.clone_into(&mut self.live.stage);
        self.write();
    }

    fn test(&mut self, number: usize, of: usize, test: &Test) {
        self.observer.test(number, of, test);
        self.live.test = Some(begun(number, of, test));
        self.write();
    }

    fn tested(&mut self, test: &crate::record::TestRecord) {
        self.observer.tested(test);
    }

    fn hosts(&mut self, plan: &RunPlan, hosts: &[HostRecord], options: &[(String, String)]) {
        self.observer.hosts(plan, hosts, options);
        self.live.nodes = plan.nodes.iter().map(|node| node.label.clone()).collect();
        self.write();
    }

    fn second(&mut self, test: &Test, second: &Second) {
        self.observer.second(test, second);
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
        self.live.stretch_s = self.course.stretch();
        let points = self.course.points().iter();
        self.live.course_bits_per_s = points.map(|sum| sum / self.live.stretch_s).collect();
        // A run does not announce its only test.
        let now = self.live.test.get_or_insert_with(|| begun(1, 1, test));
        now.passed_s = second.at_ns / SECOND_NS;
        self.write();
    }

    fn samples(&mut self, samples: &[LinkSample]) {
        self.observer.samples(samples);
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
        self.live.matrix_bits_per_s = matrix;
    }

    fn held(&mut self, at: Hold) {
        self.observer.held(at);
    }
}
