//! Input of a run in addition to its plan, and the interface of its observers.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use launcher::Program;

use crate::plan::imb::{Imb, Table};
use crate::plan::linktest::Linktest;
use crate::plan::{RunPlan, Test};
use crate::record::{HostRecord, LineRecord, PairTime, Resumed, RoundProgress, Second, TestRecord};

use super::pulse::LinkSample;

/// Receiver of a run's events, such as the terminal or a page.
pub trait Observer {
    /// A message that the user should see once, such as another transport for a host.
    fn notice(&mut self, text: &str);
    /// A stage has begun.
    fn stage(&mut self, text: &str);
    /// One of `of` tests has begun; `number` counts from 1.
    fn test(&mut self, _number: usize, _of: usize, _test: &Test) {}
    /// A test has ended.
    fn tested(&mut self, _test: &TestRecord) {}
    /// The hosts and the options in effect are known.
    fn hosts(&mut self, plan: &RunPlan, hosts: &[HostRecord], options: &[(String, String)]);
    /// Another second of a test has passed.
    fn second(&mut self, test: &Test, second: &Second);
    /// A round of a link test has begun.
    fn round(&mut self, _linktest: &Linktest, _progress: &RoundProgress) {}
    /// All links of a step of a link test were measured.
    fn step(&mut self, _linktest: &Linktest, _progress: &RoundProgress, _times: &[PairTime]) {}
    /// A table of patterns begins.
    fn table(&mut self, _imb: &Imb, _table: &Table) {}
    /// All ranks have measured a line of the table.
    fn line(&mut self, _imb: &Imb, _table: &Table, _line: &LineRecord) {}
    /// Payload that every link received in one second, if samples are wanted.
    fn samples(&mut self, _samples: &[LinkSample]) {}
    /// The run pauses at a stage until standard input delivers a line or ends.
    fn held(&mut self, at: Hold);
}

/// Input of a run in addition to its plan.
pub struct Conditions {
    /// Settings of the sessions to the hosts.
    pub settings: launcher::Settings,
    /// Executable that runs on all hosts.
    pub program: Program,
    /// Number of the signal that asked for the end; zero until then.
    pub stop: Arc<AtomicUsize>,
    /// Arguments as they were given, for the record.
    pub command: Vec<String>,
    /// Options in effect, for the record and the display.
    pub options: Vec<(String, String)>,
    /// Stage at which the run pauses, if any.
    pub hold: Option<Hold>,
    /// Name of the run, from `conduct::random_digits`.
    pub token: String,
    /// Secret that every link of the run sends first, also from `conduct::random_digits`.
    pub secret: String,
    /// Start of the run, in milliseconds since 1970.
    pub started_ms: u64,
    /// Text of the settings fixed before the start (`plan::seal`).
    pub seal: Option<String>,
    /// Tests taken over from a run that broke off.
    pub resumed: Option<Resumed>,
    /// Name of the run's folder, if it was chosen before the start.
    pub name: Option<String>,
    /// True if the observer needs samples of each link every second, even if the plan asks for none.
    pub watched: bool,
}

/// Stage at which a run can pause, for tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hold {
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
    pub const NAMES: [(&'static str, Self); 4] = [
        ("hello", Self::Hello),
        ("fork", Self::Fork),
        ("go", Self::Go),
        ("collect", Self::Collect),
    ];

    /// Name of the stage.
    pub fn name(self) -> &'static str {
        let known = Self::NAMES.iter().find(|(_, hold)| *hold == self);
        known.map_or("", |(name, _)| name)
    }
}
