//! A run from the first connection to its record.

use std::sync::atomic::Ordering;

use launcher::hosts::Host;

use crate::exit;
use crate::judge::closing::{Ended, close_until};
use crate::plan::RunPlan;
use crate::record::{
    self, Measured, Outcome, RECORD_VERSION, Record, Sheet, Trouble, TroubleKind, Verdict,
    VerdictWord,
};
use crate::sys::{clock, facts};

use super::conditions::Conditions;
use super::events::Observer;
use super::run_state::RunState;
use super::sessions::{Halt, Sessions, ended_by};

/// Conducts a run from the first connection to the record. The record holds all failures.
pub(crate) fn run(
    plan: RunPlan,
    hosts: &[Host],
    conditions: &Conditions,
    observer: &mut dyn Observer,
) -> Record {
    let resumed = conditions.resumed.as_ref();
    let outcome = resumed.map_or_else(|| Outcome::open(&plan.work), |it| it.outcome.clone());
    let mut run = RunState {
        began_ns: clock::monotonic_ns(),
        conditions,
        by: facts::own_name(),
        sessions: Sessions::start(&plan, hosts, conditions),
        observer,
        options: conditions.options.clone(),
        hosts: Vec::new(),
        chosen: None,
        first: outcome.tests().len(),
        outcome,
        plan,
        missing: Vec::new(),
        order: Vec::new(),
        asked: (Vec::new(), 0),
        tests_began_ns: 0,
    };
    if let Err(halt) = run.launch().and_then(|()| run.measure()) {
        run.sessions.log.note(halt);
        run.tell_notices();
    }
    let (plan, outcome, order) = (run.plan, run.outcome, run.order);
    let mut missing = run.missing;
    missing.extend(run.sessions.lost().cloned());
    let unexplained = run.sessions.unexplained();
    let (mut troubles, notices) = run.sessions.dismiss();
    record::rank(&mut troubles);
    // Ports that differ from their order end a run before data flows, and that is no defect.
    if !outcome.is_complete() && order.is_empty() && troubles.is_empty() {
        let what = "its run is not complete, and it gave no reason";
        let nodes = launcher::hosts::fold(&unexplained);
        troubles.push(match unexplained.is_empty() {
            true => Trouble::own(
                TroubleKind::Bug,
                "the run was aborted for an unknown reason",
            ),
            false => Trouble::of_node(TroubleKind::Lost, &nodes, what),
        });
    }
    let mut tests = outcome.tests().iter();
    let invalid = tests.find(|test| test.complete && !test.conservation.faults.is_empty());
    if let (Some(test), true) = (invalid, troubles.is_empty()) {
        let what = format!("bytes do not add up: {}", test.conservation.faults[0]);
        troubles.push(Trouble::own(TroubleKind::Invalid, what));
    }
    let ended = Ended {
        plan: &plan,
        hosts: &run.hosts,
        measured: Measured::of(&plan.work, &outcome),
        missing: &missing,
        order,
        troubles: &troubles,
    };
    let closed = close_until(ended, &conditions.patience());
    let signal = conditions.stop.load(Ordering::SeqCst);
    if closed.is_none() && troubles.is_empty() {
        troubles.push(ended_by(signal));
    }
    let (verdict, sheet) = closed.unwrap_or_else(|| {
        let verdict = Verdict {
            word: VerdictWord::Invalid,
            reason: troubles.first().map(Trouble::text).unwrap_or_default(),
        };
        (verdict, Sheet::default())
    });
    let signal = i32::try_from(signal).ok().filter(|signal| *signal > 0);
    Record {
        version: RECORD_VERSION,
        token: conditions.token.clone(),
        tool_version: env!("CARGO_PKG_VERSION").to_owned(),
        tool_digest: conditions.program.digest.clone(),
        tool_commit: env!("PIPEBENCH_COMMIT").to_owned(),
        command: conditions.command.clone(),
        started_ms: conditions.started_ms,
        options: run.options,
        hosts: run.hosts,
        outcome,
        exit_code: match troubles.is_empty() {
            true => exit::of_verdict(verdict.word),
            false => exit::of(&troubles, signal),
        },
        verdict,
        sheet,
        missing,
        troubles,
        notices,
        plan,
        seal: conditions.seal.clone(),
        resumed: resumed.map(|resumed| resumed.run.clone()),
        name: conditions.name.clone(),
        place: None,
    }
}

impl RunState<'_> {
    /// Waits until all nodes have started. Hosts that the run can lack are left out of its plan.
    fn launch(&mut self) -> Result<(), Halt> {
        let launched = self.sessions.await_hellos(self.observer);
        self.hosts = self.sessions.host_records();
        launched.or_else(|halt| self.leave_behind(halt))
    }

    /// Does the work of the run.
    fn measure(&mut self) -> Result<(), Halt> {
        let work = self.plan.work.clone();
        if let Some(job) = work.job()
            && !self.start_ranks(&job)?
        {
            return Ok(());
        }
        let taken_over = self.outcome.clone();
        match Measured::of(&work, &taken_over) {
            Measured::Acceptance(..) => self.acceptance(),
            Measured::Linktest(linktest, record) => self.linktest(linktest, &record.rounds),
            Measured::Latency(latency, _) => self.latency(latency),
            Measured::Imb(imb, record) => self.imb(imb, &record.tables),
        }
    }
}
