//! The launching side of a run: start the nodes, agree on addresses and clocks, go, watch, collect.
//!
//! Everything here waits with a deadline and looks up twenty times a second. What was measured until
//! something fails is in the record. Read next: [`crew`] for the nodes as seen from here, [`assemble`] for
//! how reports become a record, [`visit`] for looking at the runs of others.

mod addresses;
mod agenda;
pub mod assemble;
mod conditions;
mod crew;
mod findings;
mod heartbeat;
mod latency;
mod patterns;
mod pulse;
mod ranks;
mod test;
mod visit;

use std::sync::atomic::Ordering;
use std::time::Duration;

use launcher::hosts::Host;

use crate::exit;
use crate::judge::confirm::Request;
use crate::judge::{cables, verdict};
use crate::plan::{Purpose, RunPlan, Test, kind_of, lanes};
use crate::record::{
    self, HostRecord, ImbRecord, LatencyRecord, LinktestRecord, Missing, RECORD_VERSION, Record,
    TestRecord, Trouble, TroubleKind,
};
use crate::sys::clock;

pub use conditions::{Conditions, Hold, Observer};
use crew::{Crew, Halt};
pub use findings::{errors_of, proof_text, values_of};
pub use latency::size_of;
pub use pulse::LinkSample;

pub use visit::Visit;

/// Conducts a run from the first connection to the record. Whatever fails is in the record.
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
    let mut run = Running {
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
    let Running {
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
    let mut judgement = verdict::judge(&plan, &host_records, &tests, &jobs);
    match (judgement.open.is_empty(), jobs.is_empty()) {
        (true, _) => {}
        (false, false) => agenda::leave_open(&mut judgement.verdict),
        (false, true) => agenda::leave_unmeasured(
            &mut judgement.verdict,
            &judgement.sheet,
            &judgement.open,
            &plan.criteria,
        ),
    }
    agenda::leave_elsewhere(&mut judgement.verdict, &tests);
    agenda::leave_absent(&mut judgement.verdict, &missing);
    let planned = plan
        .tests
        .iter()
        .filter(|test| test.purpose != Purpose::Isolated);
    let run = tests
        .iter()
        .filter(|test| plan.tests[test.test].purpose != Purpose::Isolated);
    agenda::leave_unrun(&mut judgement.verdict, planned.count(), run.count());
    let mut sheet = judgement.sheet;
    sheet.order = order;
    let verdict = match (troubles.first(), sheet.order.first()) {
        (Some(first), _) => agenda::broken_by(first, &host_records, &tests),
        (None, Some(first)) => agenda::not_as_ordered(first, sheet.order.len()),
        (None, None) => match latencies.last() {
            Some(latency) => cables::verdict(latency),
            None if !patterns.is_empty() => agenda::only_told(&patterns),
            None => judgement.verdict,
        },
    };
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

/// 128 bits from the kernel, as hexadecimal digits.
pub fn random_digits() -> std::io::Result<String> {
    use std::io::Read;
    let mut bytes = [0; 16];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Names for the Unix sockets of one test.
fn fresh_names() -> Result<String, Halt> {
    random_digits().map_err(|error| {
        let what = format!("no random numbers: {}", crate::sys::why(&error));
        Halt::Trouble(Box::new(Trouble::own(TroubleKind::Resource, what)))
    })
}

struct Running<'a> {
    /// Without the nodes that are missing from its start.
    plan: RunPlan,
    token: &'a str,
    started_ms: u64,
    /// The same instant on the own monotonic clock.
    began_ns: u64,
    conditions: &'a Conditions,
    observer: &'a mut dyn Observer,
    /// In effect, as far as everything is settled.
    options: Vec<(String, String)>,
    hosts: Vec<HostRecord>,
    /// The test it begins with.
    first: usize,
    tests: Vec<TestRecord>,
    jobs: Vec<LinktestRecord>,
    latencies: Vec<LatencyRecord>,
    patterns: Vec<ImbRecord>,
    missing: Vec<Missing>,
    /// Ports that are not as ordered.
    order: Vec<String>,
    /// What the judge asked for last, and how many tests were complete then.
    asked: (Vec<Request>, usize),
    /// When the first test began, on the own monotonic clock.
    tests_began_ns: u64,
}

impl Running<'_> {
    fn all_tests(&mut self, crew: &mut Crew) -> Result<(), Halt> {
        let launched = crew.await_hellos(self.observer);
        self.hosts = crew.host_records();
        if let Err(halt) = launched {
            self.leave_behind(crew, halt)?;
        }
        let mut number = self.first;
        if number > 0 {
            // Tests that were taken over are judged by the ports that they used.
            self.choose_ports(crew, number - 1)?;
        }
        self.tests_began_ns = clock::monotonic_ns();
        while number < self.plan.tests.len() || self.looks_again(crew) {
            if !self.is_possible(crew, number)? {
                continue;
            }
            if let Some(late) = self.is_too_late(number) {
                if self.tests.is_empty() {
                    return Err(Halt::Trouble(Box::new(Trouble::own(
                        TroubleKind::Usage,
                        late,
                    ))));
                }
                crew.notice(&late);
                self.tell_notices(crew);
                return Ok(());
            }
            let outcome = self.one_test(crew, number);
            if let Err(halt) = outcome {
                crew.note(halt);
                if crew.has_begun() {
                    // Whatever was measured until now belongs into the record.
                    crew.gather_reports();
                    let offsets = crew.offsets();
                    self.tests.push(assemble::test(
                        &self.plan,
                        number,
                        &self.hosts,
                        crew,
                        &offsets,
                        &offsets,
                    ));
                }
                return Err(Halt::Noted);
            }
            if !self.order.is_empty() {
                return Ok(()); // Nothing flows through ports that are not as ordered.
            }
            number += 1;
        }
        Ok(())
    }

    fn tell_notices(&mut self, crew: &mut Crew) {
        for notice in crew.take_notices() {
            self.observer.notice(&notice);
        }
    }

    /// Tells a stage, and of which test where there are several.
    fn stage(&mut self, number: usize, text: &str) {
        let tests = &self.plan.tests;
        match tests.len() {
            1 => self.observer.stage(text),
            all => self.observer.stage(&format!(
                "test {} of {all}, {}: {text}",
                number + 1,
                tests[number].pattern
            )),
        }
    }

    /// Goes on without the nodes that have failed until now, if that was asked for and enough are left.
    fn leave_behind(&mut self, crew: &mut Crew, halt: Halt) -> Result<(), Halt> {
        crew.note(halt);
        if self.first > 0 {
            return Err(Halt::Noted); // Tests that were taken over know all nodes by their numbers.
        }
        let left = crew.leave_behind().ok_or(Halt::Noted)?;
        self.tell_notices(crew);
        let labels: Vec<&str> = left.iter().map(|missing| missing.node.as_str()).collect();
        self.plan.leave_out(&labels);
        if self.plan.tests.is_empty() && self.plan.jobs.is_empty() {
            let what = "no test can be run by the hosts that are left";
            return Err(Halt::Trouble(Box::new(Trouble::own(
                TroubleKind::Usage,
                what,
            ))));
        }
        self.hosts = crew.host_records();
        self.missing.extend(left);
        Ok(())
    }
}

/// A short, growing wait between questions that are not urgent.
const LOOK_UP: Duration = Duration::from_millis(50);

/// Lanes of a test that go from host to host, given who shares a host with whom.
fn crosses(hosts: &[HostRecord], lane: &lanes::Lane) -> bool {
    hosts[lane.from].host_index != hosts[lane.to].host_index
}

/// What the link of a lane is made of.
fn link_kind(test: &Test, lane: &lanes::Lane) -> crate::plan::LinkKind {
    kind_of(test.transport, lane)
}
