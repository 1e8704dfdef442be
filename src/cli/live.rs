//! The live document of a run: its current state for other processes. Each second a new document replaces the whole file.

use std::path::{Path, PathBuf};

use crate::controller::{LinkSample, Observer, RunEvent};
use crate::plan::Test;
use crate::record::{LIVE_VERSION, Live, LiveTest, MOST_IN_MATRIX, Second};
use crate::stats::series::Series;
use crate::store;
use crate::units::SECOND_NS;

use super::process::now_ms;

/// Most notices that are kept.
const NOTICES: usize = 20;
const BITS: u64 = 8;

/// Keeps the document.
pub(super) struct LiveDocument {
    path: PathBuf,
    live: Live,
    course: Series<u64>,
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
            live,
            course: Series::default(),
        }
    }

    fn write(&mut self) {
        self.live.at_ms = now_ms();
        if let Ok(text) = serde_json::to_string(&self.live) {
            // After a failure readers see an older document; no measurement is lost.
            let (Ok(()) | Err(_)) = store::replace_file(&self.path, &text);
        }
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
        self.live.matrix_bits_per_s = matrix;
    }
}

/// A part of the work: number `number` of `of`.
fn part(number: usize, of: usize, what: String) -> LiveTest {
    LiveTest {
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
                self.live.notices.push(text.to_owned());
                let surplus = self.live.notices.len().saturating_sub(NOTICES);
                self.live.notices.drain(..surplus);
            }
            RunEvent::Stage(text) => text.clone_into(&mut self.live.stage),
            RunEvent::Hosts { plan, .. } => {
                self.live.nodes = plan.nodes.iter().map(|node| node.label.clone()).collect();
            }
            RunEvent::Test {
                number, of, test, ..
            } => {
                let what = format!("{}, {} phases", test.pattern, test.phases);
                let planned_ns = test.bound.duration_ns();
                self.live.test = Some(LiveTest {
                    planned_s: planned_ns.map(|ns| ns.div_ceil(SECOND_NS)),
                    ..part(number, of, what)
                });
            }
            RunEvent::Second { test, second } => self.second(test, second),
            RunEvent::Step { progress, .. } => {
                let what = format!("steps of round {}", progress.number + 1);
                self.live.test = Some(part(progress.ended, progress.steps, what));
            }
            RunEvent::Table {
                table, number, of, ..
            } => {
                let what = table.benchmark.name().to_owned();
                self.live.test = Some(part(number, of, what));
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
