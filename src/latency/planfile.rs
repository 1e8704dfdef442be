//! Plans as TOML, version 1: made once, kept, and run again.

use std::collections::HashMap;

use serde::Deserialize;
use toml::Spanned;

use super::description::Lines;
use super::fabric::{Fabric, FabricError, number};
use super::planning::{Plan, STRATEGIES, Strategy, facts, verify};
use super::survey::Looking;

/// The version of plans that are written and read.
pub const VERSION: u32 = 1;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    version: Spanned<u32>,
    fabric: String,
    strategy: Spanned<String>,
    directed: bool,
    rounds: Vec<Spanned<Vec<Spanned<[String; 2]>>>>,
}

/// Writes a plan that [`read`] understands as the same. `notes` stand on top, each in a line of its own.
pub fn write(fabric: &Fabric, plan: &Plan, notes: &[String]) -> String {
    let mut text = String::new();
    for note in notes {
        text += &format!("# {note}\n");
    }
    text += &format!(
        "version = {VERSION}\nfabric = {:?}\nstrategy = {:?}\ndirected = {}\nrounds = [\n",
        fabric.name,
        plan.strategy.name(),
        plan.directed
    );
    for round in &plan.rounds {
        text += "  [\n";
        for pairs in round.chunks(4) {
            let shown = |(from, to): &(u32, u32)| {
                let name = |host: &u32| &fabric.hosts[*host as usize];
                format!("[{:?}, {:?}]", name(from), name(to))
            };
            let line: Vec<String> = pairs.iter().map(shown).collect();
            text += &format!("    {},\n", line.join(", "));
        }
        text += "  ],\n";
    }
    text + "]\n"
}

/// Reads a plan for a fabric; what is wrong is named with its line.
pub fn read(fabric: &Fabric, text: &str) -> Result<Plan, FabricError> {
    let lines = Lines::of(text);
    let written: Written = toml::from_str(text).map_err(|error: toml::de::Error| {
        let line = error.span().map_or(0, |span| lines.at(span.start));
        FabricError::new(line, error.message().replace('\n', ", "))
    })?;
    let refuse = |line: usize, what: String| Err(FabricError::new(line, what));
    if *written.version.get_ref() != VERSION {
        let what = format!(
            "version {} is not known (this reads version {VERSION})",
            written.version.get_ref()
        );
        return refuse(lines.of_value(&written.version), what);
    }
    if written.fabric != fabric.name {
        let what = format!(
            "it is a plan of the fabric {:?}, and this is {:?}",
            written.fabric, fabric.name
        );
        return refuse(0, what);
    }
    let known = STRATEGIES
        .iter()
        .find(|(name, _)| name == written.strategy.get_ref());
    let Some((_, strategy)) = known else {
        let what = format!("strategy {:?} is not known", written.strategy.get_ref());
        return refuse(lines.of_value(&written.strategy), what);
    };
    let hosts: HashMap<&str, u32> = fabric.hosts.iter().map(String::as_str).zip(0..).collect();
    let mut rounds = Vec::new();
    for round in &written.rounds {
        let mut pairs = Vec::new();
        for pair in round.get_ref() {
            let [from, to] = pair.get_ref();
            let host = |name: &String| {
                let found = hosts.get(name.as_str()).copied();
                found.ok_or_else(|| {
                    FabricError::new(
                        lines.of_value(pair),
                        format!("{name} is no host of the fabric"),
                    )
                })
            };
            let (from, to) = (host(from)?, host(to)?);
            pairs.push((from.min(to), from.max(to)));
        }
        rounds.push(pairs);
    }
    let mut plan = Plan {
        strategy: *strategy,
        directed: written.directed,
        rounds,
        facts: facts(
            fabric,
            written.directed,
            &(0..number(fabric.hosts.len())).collect::<Vec<_>>(),
            Looking::default(),
        ),
    };
    plan.facts.basis_rounds = plan.rounds.len();
    // A plan that was changed by hand must still be one.
    verify(fabric, &plan, None).map_err(|what| FabricError::new(0, what))?;
    if plan.strategy == Strategy::Locate {
        plan.facts.unique = None;
    }
    Ok(plan)
}
