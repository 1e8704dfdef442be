//! The journal of a run: a line for each thing that was measured, so that evidence survives if the launching side dies; and the stream of
//! events, the same lines for a program that follows the run. docs/record.md describes both.

use std::path::Path;

use serde::Serialize;

use crate::controller::{Observer, RunEvent};
use crate::plan::RunPlan;
use crate::plan::imb::Table;
use crate::plan::job::Round;
use crate::record::{
    HostRecord, LineRecord, PairTime, Record, RoundRecord, Second, TableRecord, TestRecord, Verdict,
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

/// A line of the journal, and of the stream of events.
#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum Entry<'a> {
    Notice(&'a str),
    Stage(&'a str),
    Begins {
        number: usize,
        of: usize,
        pattern: String,
    },
    Second(&'a Second),
    Minute(&'a Minute),
    Test(&'a TestRecord),
    Round(&'a Round),
    Times(&'a [PairTime]),
    Table(&'a Table),
    Line(&'a LineRecord),
    MeasuredRound(&'a RoundRecord),
    MeasuredTable(&'a TableRecord),
    End {
        verdict: &'a Verdict,
        exit_code: u8,
    },
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

impl<'a> Entry<'a> {
    /// The line for an event, and whether it must be on the disk before the run continues: that takes longer than a measurement of ranks.
    fn of(event: RunEvent<'a>, identity: &'a Identity) -> Option<(Self, bool)> {
        Some(match event {
            RunEvent::Hosts { plan, hosts, .. } => {
                let opening = Entry::Opening {
                    journal: JOURNAL_VERSION,
                    tool_version: env!("CARGO_PKG_VERSION"),
                    identity,
                    plan,
                    hosts,
                };
                (opening, true)
            }
            RunEvent::Notice(text) => (Entry::Notice(text), true),
            RunEvent::Stage(text) => (Entry::Stage(text), false),
            RunEvent::Test {
                number, of, test, ..
            } => {
                let pattern = test.pattern.to_string();
                (
                    Entry::Begins {
                        number,
                        of,
                        pattern,
                    },
                    false,
                )
            }
            RunEvent::Second { second, .. } => (Entry::Second(second), false),
            RunEvent::Tested(test) => (Entry::Test(test), true),
            RunEvent::Round(progress) => (Entry::Round(&progress.round), false),
            RunEvent::Step { times, .. } => (Entry::Times(times), false),
            RunEvent::Table { table, .. } => (Entry::Table(table), false),
            RunEvent::Line { line, .. } => (Entry::Line(line), false),
            RunEvent::Rounded(round) => (Entry::MeasuredRound(round), true),
            RunEvent::Tabled(table) => (Entry::MeasuredTable(table), true),
            RunEvent::Samples(_) | RunEvent::Link { .. } | RunEvent::Held(_) => return None,
        })
    }
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

/// Appends an entry. If `safe`, waits until it is on the disk.
fn append(file: &mut Growing, entry: &Entry<'_>, safe: bool) {
    if let Ok(mut line) = serde_json::to_string(entry) {
        line.push('\n');
        file.append(&line, safe);
    }
}

impl Observer for Journal {
    fn see(&mut self, event: RunEvent<'_>) {
        match event {
            RunEvent::Second { second, .. } => self.second(second),
            // What was about to happen is no evidence.
            RunEvent::Stage(_) | RunEvent::Test { .. } => {}
            _ => {
                if let Some((entry, safe)) = Entry::of(event, &self.identity) {
                    append(&mut self.file, &entry, safe);
                }
            }
        }
    }
}

/// Writes every event as a line as it comes, for a program that follows the run.
pub(super) struct EventStream {
    /// Its file, which knows whether it is incomplete.
    pub file: Growing,
    identity: Identity,
}

impl EventStream {
    /// Creates the stream; `-` is standard output.
    pub(super) fn create(path: &Path, identity: Identity) -> Result<Self, StoreError> {
        Ok(Self {
            file: Growing::stream(path)?,
            identity,
        })
    }

    /// Writes the last line, with the exit code of the program.
    pub(super) fn end(&mut self, record: &Record, exit_code: u8) {
        let entry = Entry::End {
            verdict: &record.verdict,
            exit_code,
        };
        append(&mut self.file, &entry, false);
    }
}

impl Observer for EventStream {
    fn see(&mut self, event: RunEvent<'_>) {
        if let Some((entry, _)) = Entry::of(event, &self.identity) {
            append(&mut self.file, &entry, false);
        }
    }
}
