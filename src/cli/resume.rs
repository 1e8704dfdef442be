//! Resumes a run that broke off: takes over its complete tests and runs the rest.

use std::path::Path;

use launcher::Program;
use serde::Deserialize;

use crate::outside;
use crate::plan::{PLAN_VERSION, Purpose, RunPlan, seal};
use crate::record::{Resumed, TestRecord};
use crate::report::json;
use crate::store::runs;
use crate::units::show_bytes;

use super::resolve::RunSpec;

/// A line of a journal: its opening, or a test.
#[derive(Deserialize)]
struct Line {
    token: Option<String>,
    started_ms: Option<u64>,
    plan: Option<RunPlan>,
    seal: Option<String>,
    test: Option<TestRecord>,
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
    tests: Vec<TestRecord>,
    /// True if it ended without failures.
    whole: bool,
}

/// Makes a request begin after the last complete test of a run. Fails if the run does not match the spec.
pub(super) fn go_on(spec: &mut RunSpec, name: &str, folder: &Path) -> Result<(), String> {
    let earlier = read(name, folder)?;
    let run = &earlier.name;
    let program =
        Program::current().map_err(|error| format!("cannot read the own executable: {error}"))?;
    let now = seal::text(&spec.plan, env!("CARGO_PKG_VERSION"), &program.digest);
    let then = earlier
        .seal
        .ok_or_else(|| format!("{run} was not made by a plan that was sealed"))?;
    if let Some((then, now)) = seal::difference(&then, &now) {
        return Err(format!(
            "{run} cannot go on: it was made with {then:?}, now it is {now:?}"
        ));
    }
    let labels = |plan: &RunPlan| -> Vec<String> {
        plan.nodes.iter().map(|node| node.label.clone()).collect()
    };
    if labels(&earlier.plan) != labels(&spec.plan) {
        return Err(format!("{run} cannot go on: hosts were left out of it"));
    }
    // Tests count in the plan's order and without gaps. Second looks at suspects are repeated.
    let is_planned = |test: &&TestRecord| {
        earlier
            .plan
            .tests()
            .get(test.test)
            .is_some_and(|plan| plan.purpose != Purpose::Isolated)
    };
    let nodes = spec.plan.nodes.len();
    let fits = |test: &TestRecord| {
        let ends = test
            .links
            .iter()
            .flat_map(|link| [link.lane.from, link.lane.to]);
        test.nodes.len() == nodes && ends.max().is_none_or(|most| most < nodes)
    };
    let whole = |(number, test): &(usize, &TestRecord)| {
        let all_here = test.nodes.iter().all(Option::is_some);
        test.complete && test.test == *number && all_here && fits(test)
    };
    let tests: Vec<TestRecord> = earlier
        .tests
        .iter()
        .filter(is_planned)
        .enumerate()
        .take_while(whole)
        .map(|(_, test)| test.clone())
        .collect();
    if earlier.whole {
        return Err(format!("{run} is whole: there is nothing to go on with"));
    }
    if tests.is_empty() {
        return Err(format!("{run} has no whole test: begin anew"));
    }
    // The earlier plan also holds the rate limits of links, which were calculated once the hosts were known.
    let own = spec.plan.tests_mut().iter_mut();
    for (own, then) in own.zip(earlier.plan.tests()).take(tests.len()) {
        own.clone_from(then);
    }
    spec.resumed = Some(Resumed {
        run: earlier.name,
        tests,
    });
    Ok(())
}

fn read(name: &str, folder: &Path) -> Result<Earlier, String> {
    match runs::find(name, folder) {
        Ok(path) => {
            let text = runs::read(&path).map_err(|error| error.to_string())?;
            let record =
                json::read_owned(text).map_err(|error| format!("{}: {error}", path.display()))?;
            Ok(Earlier {
                name: runs::name_of(&path),
                tests: record.tests().to_vec(),
                plan: record.plan,
                seal: record.seal,
                whole: record.troubles.is_empty(),
            })
        }
        // The launching side died: a journal exists, but no record.
        Err(error) => match runs::find_journal(name, folder) {
            Some((name, text)) => from_journal(name, &text),
            None => Err(error.to_string()),
        },
    }
}

fn from_journal(name: String, text: &str) -> Result<Earlier, String> {
    let mut earlier: Option<Earlier> = None;
    let mut needs_bytes = 0;
    for (number, line) in text.lines().enumerate() {
        // Each line may need as much as a record, and so may all lines together.
        needs_bytes += outside::needs_bytes(line);
        if needs_bytes > outside::MOST_BYTES {
            let limit = show_bytes(outside::MOST_BYTES);
            return Err(format!(
                "{name}: the values of its journal need more than {limit} of memory"
            ));
        }
        // The last line can be cut off.
        let Ok(line) = outside::read_but::<Line>(line.as_bytes(), &json::LINES) else {
            if let Ok(Versioned { plan }) = outside::read(line.as_bytes())
                && plan.version != PLAN_VERSION
            {
                return Err(format!(
                    "{name}: its plan has version {}, and this version of pipebench goes on with version {PLAN_VERSION}",
                    plan.version
                ));
            }
            continue;
        };
        if let (Some(plan), Some(_), Some(_)) = (line.plan, line.token, line.started_ms) {
            earlier = Some(Earlier {
                name: name.clone(),
                plan,
                seal: line.seal,
                whole: false,
                tests: Vec::new(),
            });
        } else if let Some(test) = line.test {
            let open = earlier.as_mut().ok_or_else(|| {
                format!(
                    "{name}: line {} of its journal comes before the plan",
                    number + 1
                )
            })?;
            open.tests.push(test);
        }
    }
    earlier.ok_or_else(|| format!("{name}: its journal has no plan"))
}
