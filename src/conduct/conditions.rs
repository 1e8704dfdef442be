//! What a run needs besides its plan, and who watches it.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use launcher::Program;

use crate::plan::imb::{Imb, Table};
use crate::plan::{RunPlan, Test, job};
use crate::record::{HostRecord, LineRecord, PairTime, Resumed, RoundProgress, Second, TestRecord};

use super::LinkSample;

/// Whoever watches a run: the terminal, or a page.
pub trait Observer {
    /// Something that should be seen once, such as another transport for a host.
    fn notice(&mut self, text: &str);
    /// A stage has begun.
    fn stage(&mut self, text: &str);
    /// A test of several has begun, `number` from 1.
    fn test(&mut self, _number: usize, _of: usize, _test: &Test) {}
    /// A test has come to its end.
    fn tested(&mut self, _test: &TestRecord) {}
    /// All nodes have said who they are.
    fn hosts(&mut self, plan: &RunPlan, hosts: &[HostRecord], options: &[(String, String)]);
    /// One more second of a test has passed.
    fn second(&mut self, test: &Test, second: &Second);
    /// A round of a link test has begun.
    fn round(&mut self, _linktest: &job::Linktest, _progress: &RoundProgress) {}
    /// All links of a step of a link test were measured.
    fn step(&mut self, _linktest: &job::Linktest, _progress: &RoundProgress, _times: &[PairTime]) {}
    /// A table of patterns begins.
    fn table(&mut self, _imb: &Imb, _table: &Table) {}
    /// All ranks have measured a line of it.
    fn line(&mut self, _imb: &Imb, _table: &Table, _line: &LineRecord) {}
    /// What every link received in that second, if samples are wanted.
    fn samples(&mut self, _samples: &[LinkSample]) {}
    /// The run stands still at a stage until standard input says go on.
    fn held(&mut self, at: Hold);
}

/// What a run needs besides its plan.
pub struct Conditions {
    /// How sessions are made.
    pub settings: launcher::Settings,
    /// The executable that runs everywhere.
    pub program: Program,
    /// Set to the number of the signal that asks for the end.
    pub stop: Arc<AtomicUsize>,
    /// Arguments as they were given, for the record.
    pub command: Vec<String>,
    /// Options in effect, for the record and for the eyes.
    pub options: Vec<(String, String)>,
    /// Stand still there.
    pub hold: Option<Hold>,
    /// Name of the run, of `conduct::random_digits`.
    pub token: String,
    /// What its links say first, of `conduct::random_digits`, too.
    pub secret: String,
    /// Start of the run, milliseconds since 1970.
    pub started_ms: u64,
    /// What was settled before the start.
    pub seal: Option<String>,
    /// What is taken over from a run that broke off.
    pub resumed: Option<Resumed>,
    /// How the run is called, where that was settled before.
    pub name: Option<String>,
    /// The observer wants to know what each link received, second by second, whatever the plan says.
    pub watched: bool,
}

/// Where a run can be made to stand still, for tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hold {
    /// All nodes have said who they are.
    Hello,
    /// All processes are there and listen; nobody connects.
    Fork,
    /// All links stand.
    Go,
    /// All nodes have reported and were not let go.
    Collect,
}

impl Hold {
    /// All of them, with their names.
    pub const NAMES: [(&'static str, Self); 4] = [
        ("hello", Self::Hello),
        ("fork", Self::Fork),
        ("go", Self::Go),
        ("collect", Self::Collect),
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        let known = Self::NAMES.iter().find(|(_, hold)| *hold == self);
        known.map_or("", |(name, _)| name)
    }
}
