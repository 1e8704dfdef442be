//! What a run is doing, and how it ended: what the API answers, and pages are made from.

use serde::{Deserialize, Serialize};

use crate::record::{Live, Record, VerdictWord};
use crate::report::{judged, listing};

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// In what way.
    pub how: How,
    /// Exit code of the run; none if it never began or was killed.
    pub exit_code: Option<u8>,
    /// When, milliseconds since 1970.
    pub ended_ms: u64,
    /// What the record says, for lists.
    pub card: Option<Card>,
    /// First line of what it complained of.
    pub complaint: Option<String>,
}

/// In what way a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum How {
    /// By itself.
    Ended,
    /// Somebody wanted it to.
    Cancelled,
    /// It had taken too long.
    Limit,
    /// The server that it belonged to ended.
    Server,
    /// Its keeper was killed, or the machine went down.
    Lost,
    /// It was asked for long before there was anybody to see to it.
    Lapsed,
    /// It could not be seen to.
    Failed,
}

/// What a list shows of a record.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Card {
    /// Verdict.
    pub verdict: VerdictWord,
    /// The sentence with it.
    pub sentence: String,
    /// How long data flowed, in words.
    pub took: String,
    /// Nodes.
    pub nodes: usize,
    /// The port that carried the least of what it should.
    pub weakest: String,
}

impl Card {
    /// Of a record.
    pub fn of(record: &Record) -> Self {
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

/// What a run is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stage {
    /// It waits for its fabric.
    Queued,
    /// It runs.
    Running,
    /// It has ended, and has a record.
    Ended,
    /// It was cancelled, with or without a record.
    Cancelled,
    /// It has ended without a record.
    Failed,
}

impl Stage {
    /// Its word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Running => "running",
            Self::Ended => "ended",
            Self::Cancelled => "cancelled",
            Self::Failed => "failed",
        }
    }
}

/// A run as it is now: what the API answers, and pages are made from.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct State {
    /// Whether it is known how it ended, if it has.
    #[serde(skip)]
    pub told: bool,
    /// How it is called.
    pub name: String,
    /// What it is doing.
    pub state: Stage,
    /// Its place in the queue: so many are before it.
    pub before: Option<usize>,
    /// The one that has its fabric.
    pub behind: Option<String>,
    /// What it loads, in words.
    pub what: String,
    /// Who asked for it.
    pub by: String,
    /// What for.
    pub note: String,
    /// When it was asked for, milliseconds since 1970.
    pub asked_ms: Option<u64>,
    /// When it began.
    pub began_ms: Option<u64>,
    /// For how long data were to flow, in milliseconds.
    pub data_ms: Option<u64>,
    /// Verdict of its record.
    pub verdict: Option<VerdictWord>,
    /// The sentence with it.
    pub sentence: Option<String>,
    /// How long data flowed.
    pub took: Option<String>,
    /// Nodes.
    pub nodes: Option<usize>,
    /// The port that carried the least of what it should.
    pub weakest: Option<String>,
    /// Exit code.
    pub exit_code: Option<u8>,
    /// Why it failed, was cancelled or was ended.
    pub why: Option<String>,
    /// Whether there is a record.
    pub has_record: bool,
    /// What goes on.
    pub live: Option<Live>,
}

impl State {
    /// Whether nothing will change any more.
    pub fn is_over(&self) -> bool {
        !matches!(self.state, Stage::Queued | Stage::Running)
    }

    /// Whether all words occur in what is known of it.
    pub fn has(&self, words: &str) -> bool {
        let verdict = self
            .verdict
            .map_or_else(String::new, |word| word.to_string());
        let stage = self.state.word().to_owned();
        let own = [
            &self.name, &self.what, &self.by, &self.note, &verdict, &stage,
        ];
        let text = own.map(|text| text.to_lowercase()).join(" ");
        let words = words.to_lowercase();
        words.split_whitespace().all(|word| text.contains(word))
    }
}

/// What is said of a run that had a keeper.
pub const LOST: &str = "it broke off: whatever saw to it is gone";

/// Why a run ended as it did, as a sentence; none if there is nothing to say.
pub fn why(outcome: &Outcome) -> Option<String> {
    let how = match outcome.how {
        How::Ended => None,
        How::Failed => Some("it could not be seen to"),
        How::Cancelled => Some("it was cancelled"),
        How::Limit => Some("it was ended: it had taken longer than this site allows"),
        How::Server => Some("it was ended with the server"),
        How::Lost => Some(LOST),
        How::Lapsed => Some("it was never started: nobody saw to it for too long"),
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
