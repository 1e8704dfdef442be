//! A run from the first connection to its record.

use std::sync::atomic::Ordering;

use launcher::hosts::Host;

use crate::exit;
use crate::judge::closing::{Ended, close};
use crate::plan::RunPlan;
use crate::record::{self, RECORD_VERSION, Record, Trouble, TroubleKind};
use crate::sys::clock;

use super::conditions::{Conditions, Observer};
use super::crew::Crew;
use super::run_state::RunState;

/// Conducts a run from the first connection to the record. The record holds all failures.
pub fn conduct(
    plan: RunPlan,
    hosts: &[Host],
    conditions: &Conditions,
    observer: &mut dyn Observer,
) -> Record {
    let token = conditions.token.clone();
    let taken_over = conditions.resumed.as_ref();
    let tests = taken_over
        .map(|resumed| resumed.tests.clone())
        .unwrap_or_default();
    let mut crew = Crew::start(&plan, hosts, conditions);
    let mut run = RunState {
        plan,
        token: &token,
        started_ms: conditions.started_ms,
        began_ns: clock::monotonic_ns(),
        conditions,
        observer,
        options: conditions.options.clone(),
        hosts: Vec::new(),
        first: tests.len(),
        tests,
        jobs: Vec::new(),
        latencies: Vec::new(),
        patterns: Vec::new(),
        missing: Vec::new(),
        order: Vec::new(),
        asked: (Vec::new(), 0),
        tests_began_ns: 0,
    };
    let outcome = run.all_tests(&mut crew);
    let outcome = outcome.and_then(|()| run.all_jobs(&mut crew));
    if let Err(halt) = outcome {
        crew.note(halt);
    }
    let RunState {
        plan,
        options,
        hosts: host_records,
        tests,
        jobs,
        latencies,
        patterns,
        mut missing,
        order,
        ..
    } = run;
    missing.extend(crew.lost().cloned());
    let unexplained = crew.unexplained();
    let (mut troubles, notices) = crew.dismiss();
    record::rank(&mut troubles);
    let signal = i32::try_from(conditions.stop.load(Ordering::SeqCst))
        .ok()
        .filter(|signal| *signal > 0);
    let broken = tests.iter().any(|test| !test.complete)
        || jobs.iter().any(|job| !job.complete)
        || latencies.iter().any(|job| !job.complete)
        || patterns.iter().any(|job| !job.complete);
    if broken && troubles.is_empty() {
        let what = "its run is not complete, and it gave no reason";
        troubles.push(match unexplained.is_empty() {
            true => Trouble::own(TroubleKind::Bug, "a run broke off and no reason was given"),
            false => Trouble {
                node: launcher::hosts::fold(&unexplained),
                ..Trouble::own(TroubleKind::Lost, what)
            },
        });
    }
    let invalid = tests
        .iter()
        .find(|test| test.complete && !test.conservation.faults.is_empty());
    if let (Some(test), true) = (invalid, troubles.is_empty()) {
        let what = format!("bytes do not add up: {}", test.conservation.faults[0]);
        troubles.push(Trouble::own(TroubleKind::Invalid, what));
    }
    let (verdict, sheet) = close(Ended {
        plan: &plan,
        hosts: &host_records,
        tests: &tests,
        jobs: &jobs,
        latencies: &latencies,
        patterns: &patterns,
        missing: &missing,
        order,
        troubles: &troubles,
    });
    Record {
        version: RECORD_VERSION,
        token,
        tool_version: env!("CARGO_PKG_VERSION").to_owned(),
        tool_digest: conditions.program.digest.clone(),
        tool_commit: env!("PIPEBENCH_COMMIT").to_owned(),
        command: conditions.command.clone(),
        started_ms: conditions.started_ms,
        options,
        hosts: host_records,
        tests,
        jobs,
        latencies,
        patterns,
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
        resumed: taken_over.map(|resumed| resumed.run.clone()),
        name: conditions.name.clone(),
    }
}
