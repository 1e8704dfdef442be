//! State of a run while it is conducted.

use crate::judge::confirm::Request;
use crate::plan::{DataNetwork, RunPlan};
use crate::record::{HostRecord, Missing, Outcome, TestRecord, Trouble, TroubleKind};

use super::conditions::Conditions;
use super::events::{Observer, RunEvent};
use super::sessions::{Halt, Sessions};

/// 128 random bits from the kernel, as 32 hexadecimal digits.
pub(crate) fn random_digits() -> std::io::Result<String> {
    use std::io::Read;
    let mut bytes = [0; 16];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Random name for the Unix sockets of one test or job.
pub(super) fn fresh_names() -> Result<String, Halt> {
    random_digits().map_err(|error| {
        let what = format!("no random numbers: {}", crate::sys::why(&error));
        Trouble::own(TroubleKind::Resource, what).into()
    })
}

/// A run while it is conducted.
pub(super) struct RunState<'a> {
    /// Plan without the nodes that were left out before the start.
    pub(super) plan: RunPlan,
    /// Start of the run on this host's monotonic clock.
    pub(super) began_ns: u64,
    pub(super) conditions: &'a Conditions,
    /// User who started the run, as `user@host`.
    pub(super) by: String,
    pub(super) sessions: Sessions,
    pub(super) observer: &'a mut dyn Observer,
    /// Options in effect, as far as they are settled.
    pub(super) options: Vec<(String, String)>,
    pub(super) hosts: Vec<HostRecord>,
    /// Network and number of rails for which the data addresses of the hosts were chosen.
    pub(super) chosen: Option<(DataNetwork, usize)>,
    /// Index of the first test to run; earlier ones were taken over.
    pub(super) first: usize,
    /// Results so far.
    pub(super) outcome: Outcome,
    pub(super) missing: Vec<Missing>,
    /// Ports with a wrong speed or MTU, one sentence each.
    pub(super) order: Vec<String>,
    /// Latest requests of the judge, and the number of complete tests at that time.
    pub(super) asked: (Vec<Request>, usize),
    /// Start of the first test on this host's monotonic clock.
    pub(super) tests_began_ns: u64,
}

impl RunState<'_> {
    pub(super) fn tell_notices(&mut self) {
        self.sessions.log.tell(self.observer);
    }

    /// Tells the observers which hosts take part, and the options in effect.
    pub(super) fn tell_hosts(&mut self) {
        self.observer.see(RunEvent::Hosts {
            plan: &self.plan,
            hosts: &self.hosts,
            options: &self.options,
        });
    }

    /// Announces a stage, with number and pattern of its test if the plan has several tests.
    pub(super) fn stage(&mut self, number: usize, text: &str) {
        let tests = self.plan.tests();
        let text = match tests.len() {
            1 => text.to_owned(),
            all => format!(
                "test {} of {all}, {}: {text}",
                number + 1,
                tests[number].pattern
            ),
        };
        self.observer.see(RunEvent::Stage(&text));
    }

    /// Notes that the user or the system has asked for the end.
    pub(super) fn interrupted(&mut self) -> Halt {
        self.sessions.log.interrupted();
        Halt::Noted
    }

    /// Continues without the nodes that have failed so far, if the user asked for that and enough nodes are left.
    pub(super) fn leave_behind(&mut self, halt: Halt) -> Result<(), Halt> {
        self.sessions.log.note(halt);
        if self.conditions.resumed.is_some() {
            return Err(Halt::Noted); // What was taken over refers to all nodes by number.
        }
        let left = self.sessions.leave_behind().ok_or(Halt::Noted)?;
        self.tell_notices();
        let labels: Vec<&str> = left.iter().map(|missing| missing.node.as_str()).collect();
        if !self.plan.leave_out(&labels) {
            let what = "the remaining hosts cannot run any test";
            return Err(Trouble::own(TroubleKind::Usage, what).into());
        }
        self.hosts = self.sessions.host_records();
        self.missing.extend(left);
        Ok(())
    }

    /// Keeps the record of a test.
    pub(super) fn keep(&mut self, test: TestRecord) {
        if let Some(acceptance) = self.outcome.acceptance_mut() {
            acceptance.tests.push(test);
        }
    }
}
