//! Resumes an aborted run: takes over its complete parts and measures the rest.

use std::path::Path;

use serde::Deserialize;

use crate::controller;
use crate::outside;
use crate::plan::{PLAN_VERSION, RunPlan, seal, with_places};
use crate::record::{Measured, Outcome, Record, Resumed, RoundRecord, TableRecord, TestRecord};
use crate::report::json;
use crate::store::runs;
use crate::units::show_bytes;

use super::resolve::RunSpec;

/// A line of a journal: its opening, or a part that was measured.
#[derive(Deserialize)]
struct Line {
    token: Option<String>,
    started_ms: Option<u64>,
    plan: Option<RunPlan>,
    seal: Option<String>,
    test: Option<TestRecord>,
    measured_round: Option<RoundRecord>,
    measured_table: Option<TableRecord>,
}

/// A line of a journal with a plan of any version.
#[derive(Deserialize)]
struct Versioned {
    plan: PlanHead,
}

#[derive(Deserialize)]
struct PlanHead {
    version: u32,
}

/// The earlier run, as far as it was stored.
struct Earlier {
    name: String,
    plan: RunPlan,
    seal: Option<String>,
    outcome: Outcome,
    /// True if it ended without failures.
    whole: bool,
}

/// Makes a request begin after the last whole part of a run. Fails if the run does not match the spec.
pub(super) fn go_on(
    spec: &mut RunSpec,
    name: &str,
    folder: &Path,
    digests: &str,
) -> Result<(), String> {
    let earlier = read(name, folder)?;
    let run = earlier.name;
    if earlier.whole {
        return Err(format!("{run} is complete: there is nothing to resume"));
    }
    let cannot = |why: &str| format!("cannot resume {run}: {why}");
    let now = seal::text(&spec.plan, env!("CARGO_PKG_VERSION"), digests);
    let then = earlier.seal.ok_or_else(|| cannot("it has no seal"))?;
    if let Some((then, now)) = seal::difference(&then, &now) {
        return Err(cannot(&format!(
            "it has {then:?}, but this command has {now:?}"
        )));
    }
    if earlier.plan.nodes != with_places(&spec.plan.nodes, &earlier.plan.nodes) {
        return Err(cannot("its hosts or their data ports differ"));
    }
    if !earlier.outcome.is_of(&spec.plan.work) {
        return Err(cannot("it is a run of another kind"));
    }
    let outcome = controller::whole_parts(&earlier.plan, &spec.plan, &earlier.outcome)
        .map_err(|why| cannot(&format!("{why} (leave out --resume)")))?;
    let (count, part) = outcome.parts();
    spec.notes
        .push(format!("resuming {run}; completed {part}s: {count}"));
    // The earlier plan also holds the rate limits of links, which were calculated once the hosts were known.
    let own = spec.plan.tests_mut().iter_mut();
    for (own, then) in own.zip(earlier.plan.tests()).take(outcome.tests().len()) {
        own.clone_from(then);
    }
    spec.resumed = Some(Resumed {
        run,
        outcome,
        nodes: earlier.plan.nodes,
    });
    Ok(())
}

fn read(name: &str, folder: &Path) -> Result<Earlier, String> {
    match runs::find(name, folder) {
        Ok(path) => {
            let text = runs::read(&path).map_err(|error| error.to_string())?;
            let record =
                json::read_owned(text).map_err(|error| format!("{}: {error}", path.display()))?;
            if record.is_anonymous() {
                let name = record.name();
                return Err(format!(
                    "cannot resume {name}: its names were replaced (resume the original record)"
                ));
            }
            Ok(Earlier {
                name: runs::name_of(&path),
                whole: record.troubles.is_empty() && is_all(&record),
                outcome: record.outcome,
                plan: record.plan,
                seal: record.seal,
            })
        }
        // The launching side died: a journal exists, but no record.
        Err(error) => match runs::find_journal(name, folder) {
            Some((name, text)) => from_journal(name, &text),
            None => Err(error.to_string()),
        },
    }
}

/// True if a run measured all tests of its plan: a limit on its time can have left some out.
fn is_all(record: &Record) -> bool {
    match record.measured() {
        Measured::Acceptance(plan, acceptance) => acceptance.tests.len() >= plan.tests.len(),
        Measured::Linktest(..) | Measured::Latency(..) | Measured::Imb(..) => true,
    }
}

fn from_journal(name: String, text: &str) -> Result<Earlier, String> {
    let mut earlier: Option<Earlier> = None;
    let mut needs_bytes = 0;
    // Single times and lines are evidence of a part that is not whole.
    let counts = |line: &&str| {
        let begins = ["{\"journal\"", "{\"test\"", "{\"measured_"];
        begins.iter().any(|begin| line.starts_with(begin))
    };
    for line in text.lines().filter(counts) {
        // Each line may need as much as a record, and so may all lines together.
        needs_bytes += outside::Weight::of(line).needs_bytes;
        if needs_bytes > outside::MOST_BYTES {
            let limit = show_bytes(outside::MOST_BYTES);
            return Err(format!(
                "{name}: the values of its journal need more than {limit} of memory"
            ));
        }
        // The last line can be cut off.
        let Ok(mut line) = outside::read_but::<Line>(line.as_bytes(), &json::LINES) else {
            if let Ok(Versioned { plan }) = outside::read(line.as_bytes())
                && plan.version != PLAN_VERSION
            {
                return Err(format!(
                    "{name}: its plan has version {}, this pipebench resumes version {PLAN_VERSION}",
                    plan.version
                ));
            }
            continue;
        };
        if let (Some(plan), Some(_), Some(_)) = (line.plan.take(), &line.token, line.started_ms) {
            plan.check().map_err(|error| format!("{name}: {error}"))?;
            earlier = Some(Earlier {
                name: name.clone(),
                outcome: Outcome::open(&plan.work),
                plan,
                seal: line.seal,
                whole: false,
            });
        } else if let Some(open) = &mut earlier {
            line.add_to(&mut open.outcome);
        }
    }
    earlier.ok_or_else(|| format!("{name}: its journal has no plan"))
}

impl Line {
    /// Adds the part, if there is one, to the results of its kind.
    fn add_to(self, outcome: &mut Outcome) {
        match outcome {
            Outcome::Acceptance(acceptance) => acceptance.tests.extend(self.test),
            Outcome::Linktest(linktest) => linktest.rounds.extend(self.measured_round),
            Outcome::Latency(_) => {}
            Outcome::Imb(imb) => imb.tables.extend(self.measured_table),
        }
    }
}
