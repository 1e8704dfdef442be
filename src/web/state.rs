//! State of a run, and how it ended. The API returns these types, and pages are built from them.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::record::{Live, Measured, Record, VerdictWord};
use crate::report::{judged, listing};
use crate::units::show_utc;

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
    /// Port that carried the least of its expected traffic. Empty if the run measured nothing.
    pub weakest: String,
    /// Its nodes, folded. Empty in summaries of earlier versions.
    #[serde(default)]
    pub hosts: String,
    /// Start of the run, in milliseconds since 1970. Zero in summaries of earlier versions.
    #[serde(default)]
    pub started_ms: u64,
    /// What was measured, as the command is called. Empty in summaries of earlier versions.
    #[serde(default)]
    pub kind: String,
}

impl Card {
    /// Summarizes a record.
    pub(super) fn of(record: &Record) -> Self {
        let [_, _, took, _, _, _, weakest] = listing::row("", record);
        let kind = match record.measured() {
            Measured::Acceptance(..) => "load",
            Measured::Linktest(..) => "linktest",
            Measured::Latency(..) => "latency",
            Measured::Imb(..) => "imb",
        };
        // A run that never measured has ports without any traffic, none of which is at fault.
        let has_measured = record.outcome.measured_s() > 0.0;
        Self {
            verdict: record.verdict.word,
            sentence: judged::sentence(record),
            took,
            nodes: record.plan.nodes.len(),
            weakest: if has_measured { weakest } else { String::new() },
            hosts: listing::hosts(&record.plan),
            started_ms: record.started_ms,
            kind: kind.to_owned(),
        }
    }
}

/// Stage of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
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

/// State of a run now.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub(super) struct State {
    /// True if the outcome is stored, or if no request exists, as for runs from the command line.
    #[serde(skip)]
    pub told: bool,
    /// Hosts and pattern, as a headline. The name of the run if neither is known.
    #[serde(skip)]
    pub title: String,
    /// Its nodes, folded. Empty if unknown.
    #[serde(skip)]
    pub hosts: String,
    /// What it measured, as the command is called. Empty if unknown.
    #[serde(skip)]
    pub kind: String,
    /// True if pipebench ended the run, or lost it, before it had a verdict.
    #[serde(skip)]
    pub aborted: bool,
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
    /// Group of hosts. `null` for hosts that a user typed, and for runs of the command line.
    pub group: Option<String>,
    /// Profile, also if it is the site's default. `null` for runs of the command line.
    pub profile: Option<String>,
    /// Maximum rate of a link, also if it is the site's default, in bits per second. `null` for unlimited runs and runs of the command line.
    pub rate_bits_per_s: Option<u64>,
    /// Name of the requester.
    pub by: String,
    /// Purpose of the run.
    pub note: String,
    /// Time of the request, in milliseconds since 1970.
    pub asked_ms: Option<u64>,
    /// Time when the run began, in milliseconds since 1970.
    pub began_ms: Option<u64>,
    /// Time when the run ended, in milliseconds since 1970.
    pub ended_ms: Option<u64>,
    /// Planned time in which data flow, in milliseconds.
    pub data_ms: Option<u64>,
    /// Verdict of its record.
    pub verdict: Option<VerdictWord>,
    /// Sentence that explains the verdict.
    pub sentence: Option<String>,
    /// Time from its start to its end, in words; without both, that in which data flowed.
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

    /// True if the run has figures to compare with those of another run.
    pub(super) fn is_measured(&self) -> bool {
        let is_valid = self
            .verdict
            .is_some_and(|word| word != VerdictWord::Invalid);
        self.has_record && is_valid
    }

    /// Time of its start, or of its request until then, in milliseconds since 1970.
    pub(super) fn when_ms(&self) -> Option<u64> {
        self.began_ms.or(self.asked_ms)
    }

    /// True if each word occurs in the name, description, hosts, requester, purpose, date, verdict or stage, or names one of the hosts. The words
    /// `verdict:fail` and `state:failed` match that verdict or state alone. Ignores case.
    pub(super) fn has(&self, words: &str) -> bool {
        let verdict = self
            .verdict
            .map_or_else(String::new, |word| word.to_string().to_lowercase());
        let stage = self.state.to_string();
        let aborted = if self.aborted { "aborted" } else { "" };
        let date = self.when_ms().map_or_else(String::new, show_utc);
        let own: [&str; 10] = [
            &self.name,
            &self.kind,
            &self.what,
            &self.hosts,
            &self.by,
            &self.note,
            &verdict,
            &stage,
            aborted,
            &date,
        ];
        let text = own.map(str::to_lowercase).join(" ");
        // Only a name with a number can be hidden in a range.
        let is_within = |word: &str| {
            word.contains(|letter: char| letter.is_ascii_digit())
                && listing::has_host(&self.hosts, word)
        };
        let words = words.to_lowercase();
        let mut words = words.split_whitespace();
        words.all(|word| match word.split_once(':') {
            Some(("verdict", own)) => !self.aborted && own == verdict.replace(' ', "-"),
            Some(("state", own)) if self.aborted => own == aborted,
            Some(("state", own)) => own == stage,
            _ => text.contains(word) || is_within(word),
        })
    }
}

/// Reason shown for a run whose runner disappeared.
pub(super) const LOST: &str = "the run aborted: its runner process is gone";

/// Explains how a run ended, as a sentence with one reason. `None` when it ended unasked and without error messages.
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
        // Where pipebench ended the run, its message only repeats that.
        (Some(how), Some(complaint))
            if !matches!(outcome.how, How::Cancelled | How::Server | How::Limit) =>
        {
            Some(format!("{how} ({complaint})"))
        }
        (Some(how), _) => Some(how.to_owned()),
        (None, complaint) => complaint.map(str::to_owned),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::report::json;

    /// State of a run that has ended, for tests to change.
    pub(in crate::web) fn state(name: &str) -> State {
        State {
            told: true,
            title: "rack 7 - mesh".to_owned(),
            hosts: "n[01-16]".to_owned(),
            kind: "load".to_owned(),
            aborted: false,
            name: name.to_owned(),
            state: Stage::Ended,
            before: None,
            behind: None,
            what: "rack 7: quick, mesh, 2 phases".to_owned(),
            group: Some("rack 7".to_owned()),
            profile: Some("quick".to_owned()),
            rate_bits_per_s: None,
            by: "anna".to_owned(),
            note: String::new(),
            asked_ms: Some(1_795_405_633_000),
            began_ms: None,
            ended_ms: None,
            data_ms: Some(1000),
            verdict: Some(VerdictWord::Pass),
            sentence: None,
            took: Some("11 s".to_owned()),
            nodes: Some(16),
            weakest: Some("n03 receive 9.20 Gbit/s".to_owned()),
            exit_code: Some(0),
            why: None,
            has_record: true,
            live: None,
        }
    }

    const NAME: &str = "pb-20261123-034713-f63c44";

    /// Symptom: the search promised hosts, and found nothing for n01, which the list has as n[01-16], and for 2026-11-23.
    #[test]
    fn a_host_within_a_range_and_a_date_are_found() {
        let mut state = state(NAME);
        for words in ["n01", "N16 pass", "2026-11-23", "n[01-16]", "ended"] {
            assert!(state.has(words), "{words}");
        }
        for words in ["n17", "n1", "2026-11-24", "aborted"] {
            assert!(!state.has(words), "{words}");
        }
        state.hosts = "local[1-3]".to_owned();
        state.aborted = true;
        assert!(state.has("local2 aborted"));
    }

    /// Symptom: a search for FAIL listed runs that had failed to start, and one for ended all that had "extended" in their purpose.
    #[test]
    fn a_filter_matches_its_verdict_or_state_alone() {
        let mut state = state(NAME);
        state.note = "failed: queued again".to_owned();
        assert!(state.has("verdict:PASS state:ended anna"));
        for words in [
            "verdict:fail",
            "verdict:",
            "verdict:pas",
            "state:failed",
            "state:queued",
        ] {
            assert!(!state.has(words), "{words}");
        }
        state.verdict = Some(VerdictWord::NotJudged);
        assert!(state.has("verdict:not-judged"));
        state.aborted = true;
        assert!(state.has("state:aborted"));
        assert!(!state.has("state:ended") && !state.has("verdict:not-judged"));
    }

    /// Symptom: "ended by SIGINT" and "its server stopped (ended by SIGINT)".
    #[test]
    fn a_run_that_its_servers_end_ended_has_one_reason() {
        let outcome = |how| Outcome {
            how,
            exit_code: Some(130),
            ended_ms: 0,
            card: None,
            complaint: Some("ended by SIGINT".to_owned()),
        };
        let said = "the run ended early: its server stopped";
        assert_eq!(why(&outcome(How::Server)).as_deref(), Some(said));
        let own = why(&outcome(How::Ended));
        assert_eq!(own.as_deref(), Some("ended by SIGINT"));
    }

    /// Symptom: of a run that found its host busy, the list said "weakest local3 receive 0.00 Gbit/s".
    #[test]
    fn a_run_that_never_measured_blames_no_port() {
        let text = include_str!("../../tests/golden/slow-receiver/record.json");
        let mut record = json::read(text).unwrap();
        assert!(Card::of(&record).weakest.starts_with("n3 receive"));
        record.outcome = crate::record::Outcome::open(&record.plan.work);
        let card = Card::of(&record);
        assert_eq!((card.weakest.as_str(), card.hosts.as_str()), ("", "n[1-4]"));
    }
}
