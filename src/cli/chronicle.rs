//! Journal of a job of ranks: one line for each measurement, so that the measurements survive if the launching side dies.

use std::path::Path;

use serde::Serialize;

use crate::conduct::{Hold, LinkSample, Observer};
use crate::plan::imb::{Imb, Table};
use crate::plan::job::Round;
use crate::plan::linktest::Linktest;
use crate::plan::{RunPlan, Test};
use crate::record::{HostRecord, LineRecord, PairTime, RoundProgress, Second, TestRecord};
use crate::store::runs::JOURNAL;
use crate::store::{Growing, StoreError};

/// Passes all events on to another observer and writes the measurements into the journal.
pub struct Chronicle<'a> {
    observer: &'a mut dyn Observer,
    journal: Option<Growing>,
    identity: Identity<'a>,
}

/// Identity of a run, known before its start.
#[derive(Clone, Copy, Serialize)]
pub struct Identity<'a> {
    /// Name of the run.
    pub token: &'a str,
    /// Start, in milliseconds since 1970.
    pub started_ms: u64,
    /// Arguments as they were given.
    pub command: &'a [String],
}

/// A line of the journal; docs/record.md describes it.
#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
enum Entry<'a> {
    Table(&'a Table),
    Line(&'a LineRecord),
    Round(&'a Round),
    Times(&'a [PairTime]),
    #[serde(untagged)]
    Opening {
        journal: u32,
        tool_version: &'a str,
        #[serde(flatten)]
        identity: Identity<'a>,
        plan: &'a RunPlan,
        hosts: &'a [HostRecord],
    },
}

const JOURNAL_VERSION: u32 = 1;

impl<'a> Chronicle<'a> {
    /// Creates the journal in the folder of a run, if the run has one.
    pub fn begin(
        observer: &'a mut dyn Observer,
        folder: Option<&Path>,
        identity: Identity<'a>,
    ) -> Result<Self, StoreError> {
        let make = |folder: &Path| Growing::create(&folder.join(JOURNAL));
        Ok(Self {
            observer,
            journal: folder.map(make).transpose()?,
            identity,
        })
    }

    /// Reason why the journal is incomplete, if it is.
    pub fn failure(&self) -> Option<String> {
        let journal = self.journal.as_ref()?;
        journal.failure().map(ToString::to_string)
    }

    fn write(&mut self, entry: &Entry<'_>) {
        if let (Some(journal), Ok(mut line)) = (&mut self.journal, serde_json::to_string(entry)) {
            line.push('\n');
            // The line goes to the system, not to the disk: waiting for the disk would take longer than a measurement.
            journal.append(&line, false);
        }
    }
}

impl Observer for Chronicle<'_> {
    fn notice(&mut self, text: &str) {
        self.observer.notice(text);
    }

    fn stage(&mut self, text: &str) {
        self.observer.stage(text);
    }

    fn test(&mut self, number: usize, of: usize, test: &Test) {
        self.observer.test(number, of, test);
    }

    fn tested(&mut self, test: &TestRecord) {
        self.observer.tested(test);
    }

    fn hosts(&mut self, plan: &RunPlan, hosts: &[HostRecord], options: &[(String, String)]) {
        self.write(&Entry::Opening {
            journal: JOURNAL_VERSION,
            tool_version: env!("CARGO_PKG_VERSION"),
            identity: self.identity,
            plan,
            hosts,
        });
        self.observer.hosts(plan, hosts, options);
    }

    fn second(&mut self, test: &Test, second: &Second) {
        self.observer.second(test, second);
    }

    fn round(&mut self, linktest: &Linktest, progress: &RoundProgress) {
        self.write(&Entry::Round(&progress.round));
        self.observer.round(linktest, progress);
    }

    fn step(&mut self, linktest: &Linktest, progress: &RoundProgress, times: &[PairTime]) {
        self.write(&Entry::Times(times));
        self.observer.step(linktest, progress, times);
    }

    fn table(&mut self, imb: &Imb, table: &Table) {
        self.write(&Entry::Table(table));
        self.observer.table(imb, table);
    }

    fn line(&mut self, imb: &Imb, table: &Table, line: &LineRecord) {
        self.write(&Entry::Line(line));
        self.observer.line(imb, table, line);
    }

    fn samples(&mut self, samples: &[LinkSample]) {
        self.observer.samples(samples);
    }

    fn held(&mut self, at: Hold) {
        self.observer.held(at);
    }
}
