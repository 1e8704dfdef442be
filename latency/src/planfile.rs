//! Reads and writes plans as TOML, version 1, so that a plan is made once, kept, and run again.

use std::collections::HashMap;

use serde::Deserialize;
use toml::Spanned;

use super::description::{Lines, quoted};
use super::fabric::{Fabric, FabricError, number, refuse};
use super::planning::{Facts, Plan, Strategy, facts, verify};
use super::survey::Looking;

/// Format version that this module writes and reads.
pub const VERSION: u32 = 1;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    version: Spanned<u32>,
    fabric: String,
    strategy: Strategy,
    directed: bool,
    rounds: Vec<Spanned<Vec<Spanned<[String; 2]>>>>,
}

/// Writes a plan that [`read`] reads back as the same. `notes` come first, each in a separate comment line.
pub fn write(fabric: &Fabric, plan: &Plan, notes: &[String]) -> String {
    let mut text = String::new();
    for note in notes {
        // A note of several lines stays a comment.
        text += &format!("# {}\n", note.replace('\n', "\n# "));
    }
    text += &format!(
        "version = {VERSION}\nfabric = {}\nstrategy = {}\ndirected = {}\nrounds = [\n",
        quoted(&fabric.name),
        quoted(plan.strategy.name()),
        plan.directed
    );
    for round in &plan.rounds {
        text += "  [\n";
        for pairs in round.chunks(4) {
            let shown = |(from, to): &(u32, u32)| {
                let name = |host: &u32| quoted(&fabric.hosts[*host as usize]);
                format!("[{}, {}]", name(from), name(to))
            };
            let line: Vec<String> = pairs.iter().map(shown).collect();
            text += &format!("    {},\n", line.join(", "));
        }
        text += "  ],\n";
    }
    text + "]\n"
}

/// Reads a plan for a fabric. Errors name the line that is wrong.
pub fn read(fabric: &Fabric, text: &str) -> Result<Plan, FabricError> {
    let lines = Lines::of(text);
    let written: Written = lines.parse(text)?;
    lines.check_version(&written.version, VERSION)?;
    if written.fabric != fabric.name {
        let what = format!(
            "the plan is for the fabric {:?}, not for {:?}",
            written.fabric, fabric.name
        );
        return refuse(0, what);
    }
    let hosts: HashMap<&str, u32> = fabric.hosts.iter().map(String::as_str).zip(0..).collect();
    let mut rounds = Vec::new();
    for round in &written.rounds {
        let mut pairs = Vec::new();
        for pair in round.get_ref() {
            let [from, to] = pair.get_ref();
            let host = |name: &String| match hosts.get(name.as_str()) {
                Some(host) => Ok(*host),
                None => refuse(
                    lines.of_value(pair),
                    format!("{name} is not a host of the fabric"),
                ),
            };
            let (from, to) = (host(from)?, host(to)?);
            pairs.push((from.min(to), from.max(to)));
        }
        rounds.push(pairs);
    }
    let all: Vec<u32> = (0..number(fabric.hosts.len())).collect();
    let plan = Plan {
        strategy: written.strategy,
        directed: written.directed,
        facts: Facts {
            basis_rounds: rounds.len(),
            ..facts(fabric, written.directed, &all, Looking::default())
        },
        rounds,
    };
    // A plan that was edited by hand must still be valid.
    verify(fabric, &plan, None).map_err(|what| FabricError::new(0, what))?;
    Ok(plan)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::description;
    use crate::planning::{Wishes, make};

    #[test]
    fn a_plan_of_hosts_with_any_names_is_read_back() {
        // Rust escapes a combining accent in a way that TOML does not know.
        let text = "version = 1\nname = \"a\"\nhosts = [\"k\u{301}\", \"l\"]\nswitches = [\"s\"]\n[[cables]]\n\
            list = [[\"k\u{301}\", \"s\"], [\"l\", \"s\"]]\n[routes]\nrule = \"symmetric\"\n";
        let fabric = Fabric::new(&description::read(text).unwrap()).unwrap();
        let made = make(&fabric, &[0, 1], &Wishes::default());
        let text = write(&fabric, &made, &["two\nlines".to_owned()]);
        let read = read(&fabric, &text).unwrap_or_else(|error| panic!("{error}: {text}"));
        assert_eq!(read.rounds, made.rounds);
    }
}
