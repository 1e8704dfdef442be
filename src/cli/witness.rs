//! Observer of a run: the terminal, and the files that grow during the run.

use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::conduct::{Hold, LinkSample, Observer};
use crate::plan::{RunPlan, Test};
use crate::record::{HostRecord, Second, TestRecord};
use crate::stats::series::Sum;
use crate::store::runs::JOURNAL;
use crate::store::{Growing, StoreError};

use super::terminal::Terminal;

/// Version of the journal; docs/record.md describes it.
const JOURNAL_VERSION: u32 = 1;
const MINUTE_S: u64 = 60;

/// The terminal and the files of a run.
pub struct Witness<'a> {
    /// Terminal for the user.
    pub terminal: &'a mut Terminal,
    /// Folder of the run, if results are kept.
    pub folder: Option<PathBuf>,
    journal: Option<Growing>,
    samples: Option<Growing>,
    identity: Identity<'a>,
    labels: Vec<String>,
    rails: usize,
    seconds: u64,
    minute: Option<Minute>,
}

/// Identity of a run, known before its start.
#[derive(Clone, Serialize)]
pub struct Identity<'a> {
    /// Name of the run.
    pub token: &'a str,
    /// Start, in milliseconds since 1970.
    pub started_ms: u64,
    /// Arguments as they were given.
    pub command: &'a [String],
    /// Text of the settings fixed before the start (`plan::seal`).
    pub seal: &'a str,
}

/// First line of the journal.
#[derive(Serialize)]
struct Opening<'a> {
    journal: u32,
    tool_version: &'a str,
    #[serde(flatten)]
    identity: &'a Identity<'a>,
    plan: &'a RunPlan,
    hosts: &'a [HostRecord],
}

/// Sums of a minute, and the lowest second of every port in it.
#[derive(Serialize)]
struct Minute {
    #[serde(flatten)]
    sum: Second,
    least_received_bytes: Vec<u64>,
    least_sent_bytes: Vec<u64>,
}

impl<'a> Witness<'a> {
    /// Creates the files, in the folder of the run if it has one. A file that cannot be written should fail before a long run, not after it.
    pub fn new(
        terminal: &'a mut Terminal,
        identity: Identity<'a>,
        folder: Option<PathBuf>,
        samples: Option<&Path>,
    ) -> Result<Self, StoreError> {
        let samples = samples.map(Growing::create).transpose()?;
        let journal = folder
            .as_deref()
            .map(|folder| Growing::create(&folder.join(JOURNAL)))
            .transpose()?;
        let mut witness = Self {
            terminal,
            folder,
            journal,
            samples,
            identity,
            labels: Vec::new(),
            rails: 1,
            seconds: 0,
            minute: None,
        };
        if let Some(samples) = &mut witness.samples {
            samples.append("at_s,from,to,phase,stream,rail,bytes\n", false);
        }
        Ok(witness)
    }

    /// Write failures of the growing files.
    pub fn failures(&self) -> Vec<String> {
        let files = [&self.journal, &self.samples];
        let failures = files.into_iter().flatten().filter_map(Growing::failure);
        failures.map(ToString::to_string).collect()
    }

    /// Removes the journal once the record is on the disk, since the record contains everything in the journal.
    pub fn close_journal(&mut self) {
        if let Some(journal) = self.journal.take() {
            journal.remove();
        }
    }

    fn note_minute(&mut self, second: &Second) {
        let Some(journal) = &mut self.journal else {
            return;
        };
        let minute = match &mut self.minute {
            None => self.minute.insert(Minute {
                sum: second.clone(),
                least_received_bytes: second.received_bytes.clone(),
                least_sent_bytes: second.sent_bytes.clone(),
            }),
            Some(minute) => {
                minute.sum.add(second);
                let least = [
                    (&mut minute.least_received_bytes, &second.received_bytes),
                    (&mut minute.least_sent_bytes, &second.sent_bytes),
                ];
                for (least, now) in least {
                    for (least, now) in least.iter_mut().zip(now) {
                        *least = (*least).min(*now);
                    }
                }
                minute
            }
        };
        if self.seconds.is_multiple_of(MINUTE_S) {
            journal.append_json(minute);
            self.minute = None;
        }
    }
}

impl Observer for Witness<'_> {
    fn notice(&mut self, text: &str) {
        self.terminal.notice(text);
        if let Some(journal) = &mut self.journal {
            journal.append_json(&std::collections::BTreeMap::from([("notice", text)]));
        }
    }

    fn stage(&mut self, text: &str) {
        self.terminal.stage(text);
    }

    fn test(&mut self, number: usize, of: usize, test: &Test) {
        self.terminal.test(number, of, test);
    }

    fn tested(&mut self, test: &TestRecord) {
        if let Some(journal) = &mut self.journal {
            journal.append_json(&std::collections::BTreeMap::from([("test", test)]));
        }
    }

    fn hosts(&mut self, plan: &RunPlan, hosts: &[HostRecord], options: &[(String, String)]) {
        self.terminal.hosts(plan, hosts, options);
        self.labels = plan.nodes.iter().map(|node| node.label.clone()).collect();
        self.rails = plan.tests().first().map_or(1, |test| test.rails);
        if let Some(journal) = &mut self.journal {
            journal.append_json(&Opening {
                journal: JOURNAL_VERSION,
                tool_version: env!("CARGO_PKG_VERSION"),
                identity: &self.identity,
                plan,
                hosts,
            });
        }
    }

    fn second(&mut self, test: &Test, second: &Second) {
        self.seconds += 1;
        self.terminal.second(test, second);
        self.note_minute(second);
    }

    fn samples(&mut self, samples: &[LinkSample]) {
        let Some(file) = &mut self.samples else {
            return;
        };
        let at_s = self.seconds + 1;
        let label = |node: usize| self.labels.get(node).map_or("", String::as_str);
        let line = |sample: &LinkSample| {
            let lane = &sample.lane;
            let (from, to) = (label(lane.from), label(lane.to));
            let (phase, stream) = (lane.boundary, lane.stream);
            let rail = stream % self.rails.max(1);
            format!(
                "{at_s},{from},{to},{phase},{stream},{rail},{}\n",
                sample.bytes
            )
        };
        let lines: String = samples.iter().map(line).collect();
        file.append(&lines, false);
    }

    fn held(&mut self, at: Hold) {
        self.terminal.held(at);
    }
}
