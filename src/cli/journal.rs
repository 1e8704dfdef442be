//! The journal of a run: a line for each thing that was measured, so that evidence survives if the launching side dies. docs/record.md
//! describes it.

use std::path::Path;

use serde::Serialize;

use crate::controller::{Observer, RunEvent};
use crate::plan::RunPlan;
use crate::plan::imb::Table;
use crate::plan::job::Round;
use crate::record::{
    HostRecord, LineRecord, PairTime, RoundRecord, Second, TableRecord, TestRecord,
};
use crate::stats::series::Sum;
use crate::store::runs::JOURNAL;
use crate::store::{Growing, StoreError};

/// Version of the journal.
pub(super) const JOURNAL_VERSION: u32 = 2;
const MINUTE_S: u64 = 60;

/// Identity of a run, known before its start.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Identity {
    /// Name of the run.
    pub token: String,
    /// Start, in milliseconds since 1970.
    pub started_ms: u64,
    /// Arguments as they were given.
    pub command: Vec<String>,
    /// Text of the settings fixed before the start (`plan::seal`).
    pub seal: String,
}

/// A line of the journal.
#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum Entry<'a> {
    Notice(&'a str),
    Minute(&'a Minute),
    Test(&'a TestRecord),
    Round(&'a Round),
    Times(&'a [PairTime]),
    Table(&'a Table),
    Line(&'a LineRecord),
    MeasuredRound(&'a RoundRecord),
    MeasuredTable(&'a TableRecord),
    #[serde(untagged)]
    Opening {
        journal: u32,
        tool_version: &'a str,
        #[serde(flatten)]
        identity: &'a Identity,
        plan: &'a RunPlan,
        hosts: &'a [HostRecord],
    },
}

/// Sums of a minute, and the lowest second of every port in it.
#[derive(Serialize)]
struct Minute {
    #[serde(flatten)]
    sum: Second,
    least_received_bytes: Vec<u64>,
    least_sent_bytes: Vec<u64>,
    /// Seconds so far.
    #[serde(skip)]
    seconds: u64,
}

/// Writes the journal.
pub(super) struct Journal {
    /// Its file, which knows whether it is incomplete.
    pub file: Growing,
    identity: Identity,
    minute: Option<Minute>,
}

impl Journal {
    /// Creates the journal in the folder of a run.
    pub(super) fn create(folder: &Path, identity: Identity) -> Result<Self, StoreError> {
        Ok(Self {
            file: Growing::create(&folder.join(JOURNAL))?,
            identity,
            minute: None,
        })
    }

    fn second(&mut self, second: &Second) {
        let minute = match &mut self.minute {
            None => self.minute.insert(Minute {
                sum: second.clone(),
                least_received_bytes: second.received_bytes.clone(),
                least_sent_bytes: second.sent_bytes.clone(),
                seconds: 1,
            }),
            Some(minute) => {
                minute.sum.add(second);
                minute.seconds += 1;
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
        if minute.seconds >= MINUTE_S {
            append(&mut self.file, &Entry::Minute(minute), true);
            self.minute = None;
        }
    }
}

/// Appends an entry. If `safe`, waits until it is on the disk; that takes longer than a measurement of ranks.
fn append(file: &mut Growing, entry: &Entry<'_>, safe: bool) {
    if let Ok(mut line) = serde_json::to_string(entry) {
        line.push('\n');
        file.append(&line, safe);
    }
}

impl Observer for Journal {
    fn see(&mut self, event: RunEvent<'_>) {
        let file = &mut self.file;
        match event {
            RunEvent::Hosts { plan, hosts, .. } => {
                let opening = Entry::Opening {
                    journal: JOURNAL_VERSION,
                    tool_version: env!("CARGO_PKG_VERSION"),
                    identity: &self.identity,
                    plan,
                    hosts,
                };
                append(file, &opening, true);
            }
            RunEvent::Notice(text) => append(file, &Entry::Notice(text), true),
            RunEvent::Second { second, .. } => self.second(second),
            RunEvent::Tested(test) => append(file, &Entry::Test(test), true),
            RunEvent::Round(progress) => {
                append(file, &Entry::Round(&progress.round), false);
            }
            RunEvent::Step { times, .. } => append(file, &Entry::Times(times), false),
            RunEvent::Table { table, .. } => append(file, &Entry::Table(table), false),
            RunEvent::Line { line, .. } => append(file, &Entry::Line(line), false),
            RunEvent::Rounded(round) => append(file, &Entry::MeasuredRound(round), true),
            RunEvent::Tabled(table) => append(file, &Entry::MeasuredTable(table), true),
            RunEvent::Stage(_)
            | RunEvent::Test { .. }
            | RunEvent::Samples(_)
            | RunEvent::Held(_) => {}
        }
    }
}
