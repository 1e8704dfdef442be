//! State of a run, and how it ended. The API returns these types, and pages are built from them.

use serde::{Deserialize, Serialize};

use crate::record::{Live, Record, VerdictWord};
use crate::report::{judged, listing};

/// Outcome of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Outcome {
    /// Kind of end.
    pub how: How,
    /// Exit code of the run. `None` when it never began or was killed.
    pub exit_code: Option<u8>,
    /// Time of the end, in milliseconds since 1970.
    pub ended_ms: u64,
    /// Summary of the record, for lists.
    pub card: Option<Card>,
    /// First line of its error messages.
    pub complaint: Option<String>,
}

/// Kind of a run's end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum How {
    /// The run ended unasked.
    Ended,
    /// A client cancelled it.
    Cancelled,
    /// It exceeded its time limit.
    Limit,
    /// The server it belonged to ended.
    Server,
    /// Its runner was killed, or the machine went down.
    Lost,
    /// It waited too long for a runner and never started.
    Lapsed,
    /// It could not be started or watched.
    Failed,
}

/// Summary of a record, for lists.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Card {
    /// Verdict.
    pub verdict: VerdictWord,
    /// Sentence that explains the verdict.
    pub sentence: String,
    /// Time in which data flowed, in words.
    pub took: String,
    /// Number of nodes.
    pub nodes: usize,
    /// Port that carried the least of its expected traffic.
    pub weakest: String,
}

impl Card {
    /// Summarizes a record.
    pub(super) fn of(record: &Record) -> Self {
        let [_, _, took, _, _, _, weakest] = listing::row("", record);
        Self {
            verdict: record.verdict.word,
            sentence: judged::sentence(record),
            took,
            nodes: record.plan.nodes.len(),
            weakest,
        }
    }
}

/// Stage of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Stage {
    /// It waits for its fabric.
    Queued,
    /// It runs.
    Running,
    /// It was cancelled, and its processes are still ending.
    Cancelling,
    /// It ended and has a record.
    Ended,
    /// It was cancelled, with or without a record.
    Cancelled,
    /// It ended without a record.
    Failed,
}

/// The word as in the API.
impl std::fmt::Display for Stage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.serialize(f)
    }
}

/// State of a run now. The API returns it, and pages are built from it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct State {
    /// True if the outcome is stored, or if no request exists, as for runs from the command line.
    #[serde(skip)]
    pub told: bool,
    /// Name of the run.
    pub name: String,
    /// Stage of the run.
    pub state: Stage,
    /// Number of runs before it in the queue.
    pub before: Option<usize>,
    /// Name of the run that holds its fabric.
    pub behind: Option<String>,
    /// Loaded hosts and tests, in words.
    pub what: String,
    /// Name of the requester.
    pub by: String,
    /// Purpose of the run.
    pub note: String,
    /// Time of the request, in milliseconds since 1970.
    pub asked_ms: Option<u64>,
    /// Time when the run began, in milliseconds since 1970.
    pub began_ms: Option<u64>,
    /// Planned time in which data flow, in milliseconds.
    pub data_ms: Option<u64>,
    /// Verdict of its record.
    pub verdict: Option<VerdictWord>,
    /// Sentence that explains the verdict.
    pub sentence: Option<String>,
    /// Time in which data flowed, in words.
    pub took: Option<String>,
    /// Number of nodes.
    pub nodes: Option<usize>,
    /// Port that carried the least of its expected traffic.
    pub weakest: Option<String>,
    /// Exit code.
    pub exit_code: Option<u8>,
    /// Reason why it failed, was cancelled or was ended.
    pub why: Option<String>,
    /// True if the run has a record.
    pub has_record: bool,
    /// Live figures, while it runs.
    pub live: Option<Live>,
}

impl State {
    /// True once the run is over.
    pub(super) fn is_over(&self) -> bool {
        matches!(self.state, Stage::Ended | Stage::Cancelled | Stage::Failed)
    }

    /// True if each word occurs in the name, description, requester, purpose, verdict or stage. Ignores case.
    pub(super) fn has(&self, words: &str) -> bool {
        let verdict = self
            .verdict
            .map_or_else(String::new, |word| word.to_string());
        let stage = self.state.to_string();
        let own = [
            &self.name, &self.what, &self.by, &self.note, &verdict, &stage,
        ];
        let text = own.map(|text| text.to_lowercase()).join(" ");
        let words = words.to_lowercase();
        words.split_whitespace().all(|word| text.contains(word))
    }
}

/// Reason shown for a run whose runner disappeared.
pub(super) const LOST: &str = "the run aborted: its runner process is gone";

/// Explains how a run ended, as a sentence. `None` when it ended unasked and without error messages.
pub(super) fn why(outcome: &Outcome) -> Option<String> {
    let how = match outcome.how {
        How::Ended => None,
        How::Failed => Some("pipebench could not start or watch the run"),
        How::Cancelled => Some("the run was cancelled"),
        How::Limit => Some("pipebench ended the run: it took longer than this site allows"),
        How::Server => Some("the run ended early: its server stopped"),
        How::Lost => Some(LOST),
        How::Lapsed => {
            Some("the run never started: an hour after its request it had no runner process")
        }
    };
    let complaint = outcome.complaint.as_deref();
    match (how, complaint) {
        (Some(how), Some(complaint)) if outcome.how != How::Cancelled => {
            Some(format!("{how} ({complaint})"))
        }
        (Some(how), _) => Some(how.to_owned()),
        (None, complaint) => complaint.map(str::to_owned),
    }
}
