//! The matrix of a run: a line for each link of each test, written as the launching side joins the ends of links. docs/record.md describes the
//! table.

use std::fmt::Write;
use std::path::Path;

use crate::controller::{Observer, RunEvent};
use crate::record::LinkRecord;
use crate::store::{Growing, StoreError};

/// Lines are written when they are longer than this, in bytes.
const PIECE_BYTES: usize = 1 << 16;

/// Writes the matrix.
pub(super) struct Matrix {
    /// Its file, which knows whether it is incomplete.
    pub file: Growing,
    labels: Vec<String>,
    lines: String,
}

impl Matrix {
    /// Creates the table.
    pub(super) fn create(path: &Path) -> Result<Self, StoreError> {
        Ok(Self {
            file: Growing::create(path)?,
            labels: Vec::new(),
            lines: "test,from,to,phase,stream,mbit_per_s,retransmits,held_by\n".to_owned(),
        })
    }

    fn add(&mut self, test: usize, link: &LinkRecord, gbit_per_s: f64) {
        let label = |node: usize| self.labels.get(node).map_or("", String::as_str);
        let lane = &link.lane;
        let (from, to) = (label(lane.from), label(lane.to));
        let (phase, stream) = (lane.boundary, lane.stream);
        let (mbit, again) = (gbit_per_s * 1e3, link.retransmits());
        let held_by = link.held_by.word();
        let line = writeln!(
            self.lines,
            "{test},{from},{to},{phase},{stream},{mbit:.3},{again},{held_by}"
        );
        if line.is_ok() && self.lines.len() >= PIECE_BYTES {
            self.flush();
        }
    }

    fn flush(&mut self) {
        self.file.append(&self.lines, false);
        self.lines.clear();
    }
}

impl Observer for Matrix {
    fn see(&mut self, event: RunEvent<'_>) {
        match event {
            RunEvent::Hosts { plan, .. } => {
                self.labels = plan.nodes.iter().map(|node| node.label.clone()).collect();
            }
            RunEvent::Link {
                test,
                link,
                gbit_per_s,
            } => self.add(test + 1, link, gbit_per_s),
            RunEvent::Tested(_) => self.flush(),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Record;

    #[test]
    fn the_matrix_has_a_line_for_each_link_of_a_test() {
        let text = include_str!("../../tests/golden/two-hosts/record.json");
        let record: Record = serde_json::from_str(text).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("matrix");
        let mut matrix = Matrix::create(&path).unwrap();
        matrix.see(RunEvent::Hosts {
            plan: &record.plan,
            hosts: &record.hosts,
            options: &[],
        });
        let test = &record.tests()[0];
        for link in &test.links {
            matrix.see(RunEvent::Link {
                test: 0,
                link,
                gbit_per_s: 1.5,
            });
        }
        matrix.see(RunEvent::Tested(test));
        let table = std::fs::read_to_string(&path).unwrap();
        assert_eq!(table.lines().count(), 1 + test.links.len());
        let own = record.plan.nodes[0].label.as_str();
        let line = table.lines().nth(1).unwrap();
        let start = format!("1,{own},{own},0,0,1500.000,");
        assert!(line.starts_with(&start), "{line}");
    }
}
