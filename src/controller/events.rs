//! Everything that happens in a run, as one typed stream. Terminal, journal, samples and live document are its observers.

use crate::plan::imb::{Imb, Table};
use crate::plan::linktest::Linktest;
use crate::plan::{RunPlan, Test};
use crate::record::{
    HostRecord, LineRecord, LinkRecord, PairTime, RoundProgress, RoundRecord, Second, TableRecord,
    TestRecord,
};

use super::pulse::LinkSample;

/// Something that happened in a run.
#[derive(Debug, Clone, Copy)]
pub(crate) enum RunEvent<'a> {
    /// A message that the user should see once, such as another transport for a host.
    Notice(&'a str),
    /// A stage has begun.
    Stage(&'a str),
    /// The hosts and the options in effect are known. Comes again if hosts are left out later.
    Hosts {
        /// Plan for these hosts.
        plan: &'a RunPlan,
        /// The hosts, node by node.
        hosts: &'a [HostRecord],
        /// Names and values.
        options: &'a [(String, String)],
    },
    /// A pipeline test has begun.
    Test {
        /// Its number, from 1.
        number: usize,
        /// Number of tests known so far.
        of: usize,
        /// Its plan.
        test: &'a Test,
        /// Estimated time of the known tests after it, in nanoseconds; `None` if volumes or files bound them.
        after_ns: Option<u64>,
    },
    /// Another second of a pipeline test has passed.
    Second {
        /// The test.
        test: &'a Test,
        /// Its sums.
        second: &'a Second,
    },
    /// Payload that every link received in one second, if samples are wanted.
    Samples(&'a [LinkSample]),
    /// Both ends of a link of a test were joined. A test without a record has fewer of them than links.
    Link {
        /// Index of the test.
        test: usize,
        /// The link.
        link: &'a LinkRecord,
        /// Its payload rate.
        gbit_per_s: f64,
    },
    /// A pipeline test has ended.
    Tested(&'a TestRecord),
    /// All links of a round were measured, and what belongs to it.
    Rounded(&'a RoundRecord),
    /// A round of messages between pairs of ranks has begun.
    Round(&'a RoundProgress),
    /// All links of a step of a round were measured.
    Step {
        /// How pairs measure.
        linktest: &'a Linktest,
        /// The round.
        progress: &'a RoundProgress,
        /// The links.
        times: &'a [PairTime],
    },
    /// A table of patterns has begun.
    Table {
        /// The benchmarks.
        imb: &'a Imb,
        /// Its plan.
        table: &'a Table,
        /// Its number, from 1.
        number: usize,
        /// Number of tables.
        of: usize,
    },
    /// All ranks have measured a line of a table.
    Line {
        /// The benchmarks.
        imb: &'a Imb,
        /// Plan of the table.
        table: &'a Table,
        /// The line.
        line: &'a LineRecord,
    },
    /// A table of patterns has ended.
    Tabled(&'a TableRecord),
    /// The run pauses at a stage until standard input delivers a line or ends.
    Held(Hold),
}

/// Observer of a run.
pub(crate) trait Observer {
    /// Sees an event. Must not block for long, since the run waits meanwhile.
    fn see(&mut self, event: RunEvent<'_>);
}

/// Several observers, each of which sees all events.
pub(crate) struct Observers<'a>(pub Vec<&'a mut dyn Observer>);

impl Observer for Observers<'_> {
    fn see(&mut self, event: RunEvent<'_>) {
        for observer in &mut self.0 {
            observer.see(event);
        }
    }
}

/// Stage at which a run can pause, for tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hold {
    /// All nodes have sent their hello.
    Hello,
    /// All processes exist and listen; none connects yet.
    Fork,
    /// All links are connected.
    Go,
    /// All nodes have reported and still run.
    Collect,
}

impl Hold {
    /// All stages with their names.
    pub(crate) const NAMES: [(&'static str, Self); 4] = [
        ("hello", Self::Hello),
        ("fork", Self::Fork),
        ("go", Self::Go),
        ("collect", Self::Collect),
    ];

    /// Name of the stage.
    pub(crate) fn name(self) -> &'static str {
        let known = Self::NAMES.iter().find(|(_, hold)| *hold == self);
        known.map_or("", |(name, _)| name)
    }
}
