//! The samples of a run: a line for each link and second. docs/record.md describes the table.

use std::path::Path;

use crate::controller::{LinkSample, Observer, RunEvent};
use crate::store::{Growing, StoreError};

/// Writes the samples.
pub(super) struct Samples {
    /// Its file, which knows whether it is incomplete.
    pub file: Growing,
    labels: Vec<String>,
    rails: usize,
    seconds: u64,
}

impl Samples {
    /// Creates the table.
    pub(super) fn create(path: &Path) -> Result<Self, StoreError> {
        let mut file = Growing::create(path)?;
        file.append("at_s,from,to,phase,stream,rail,bytes\n", false);
        Ok(Self {
            file,
            labels: Vec::new(),
            rails: 1,
            seconds: 0,
        })
    }

    fn line(&self, sample: &LinkSample) -> String {
        let label = |node: usize| self.labels.get(node).map_or("", String::as_str);
        let lane = &sample.lane;
        let (from, to) = (label(lane.from), label(lane.to));
        let (phase, stream) = (lane.boundary, lane.stream);
        let rail = stream % self.rails;
        let (at_s, bytes) = (self.seconds + 1, sample.bytes);
        format!("{at_s},{from},{to},{phase},{stream},{rail},{bytes}\n")
    }
}

impl Observer for Samples {
    fn see(&mut self, event: RunEvent<'_>) {
        match event {
            RunEvent::Hosts { plan, .. } => {
                self.labels = plan.nodes.iter().map(|node| node.label.clone()).collect();
                self.rails = plan.tests().first().map_or(1, |test| test.rails.max(1));
            }
            RunEvent::Samples(samples) => {
                let lines: String = samples.iter().map(|sample| self.line(sample)).collect();
                self.file.append(&lines, false);
            }
            RunEvent::Second { .. } => self.seconds += 1,
            _ => {}
        }
    }
}
