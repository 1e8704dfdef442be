//! `pipebench retest`: measures the links that revealed a run's faults again, after something was moved.

use std::collections::BTreeSet;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use clap::Parser;

use crate::judge::again;
use crate::plan::{Acceptance, NodeSpec, Pattern, Work, with_places};
use crate::record::Record;
use crate::report::quoted;

use super::args::{Arguments, Measurement, PlainArguments, RetestArguments, Subcommand};
use super::drive::{self, Output};
use super::planfile;
use super::process;
use super::report;
use super::resolve::{self, RunSpec};
use super::run;
use super::terminal::refuse;

/// Measures the links again; returns the exit code.
pub(super) fn run(words: &RetestArguments) -> Result<u8, u8> {
    let kept = report::read(
        &words.run,
        words.results.folder.as_deref().unwrap_or(Path::new(".")),
    )?;
    let (arguments, spec) =
        prepare(words, &kept.record, is_own(&kept.file)).map_err(|error| refuse(&error))?;
    let output = Output {
        baseline: Some(&kept.record),
        ..run::output_of(&arguments)
    };
    drive::drive(&output, &arguments.hosts, |_, _| Ok(spec))
}

/// True if only this user or root can have written a file.
fn is_own(file: &Metadata) -> bool {
    const GROUP_WRITES: u32 = 0o020;
    const OTHERS_WRITE: u32 = 0o002;
    let by_them = file.uid() == 0 || file.uid() == nix::unistd::geteuid().as_raw();
    // Where each user has a group of the same number to himself, all files are writable by the group.
    let group = file.mode() & GROUP_WRITES != 0 && file.gid() != file.uid();
    by_them && !group && file.mode() & OTHERS_WRITE == 0
}

/// Part of a command that starts programs, trusts keys, or reads or writes files on hosts, if any.
fn acts(arguments: &Arguments) -> Option<&'static str> {
    let plain = &arguments.plain;
    let is_file = |words: &str| !["memory", "discard"].contains(&words);
    let all = [
        ("a plan file", arguments.subcommand.is_some()),
        ("--rsh", plain.launch.rsh.is_some()),
        ("--starter", plain.launch.starter.is_some()),
        ("--token-file", plain.launch.token_file.is_some()),
        ("--known-hosts", plain.launch.known_hosts.is_some()),
        ("--source", is_file(&plain.source)),
        ("--sink", is_file(&plain.sink)),
    ];
    let mut all = all.into_iter().filter(|(_, given)| *given);
    all.next().map(|(what, _)| what)
}

/// Command of the run, with the tests of its faults and only the hosts that these need.
fn prepare(
    words: &RetestArguments,
    record: &Record,
    is_own: bool,
) -> Result<(PlainArguments, RunSpec), String> {
    let name = record.name();
    if record.is_anonymous() {
        return Err(format!(
            "{name}: its names were replaced, so no host can be reached (retest the original record)"
        ));
    }
    if words.results.resume.is_some() {
        return Err(format!(
            "a retest of {name} cannot be resumed: leave out --resume"
        ));
    }
    let again = |what: &str| {
        let command = quoted(&record.command);
        Err(format!(
            "{name} {what}: repeat its command (pipebench {command})"
        ))
    };
    match &record.plan.work {
        Work::Acceptance(Acceptance {
            repeats: Some(first),
            ..
        }) => {
            return Err(format!(
                "{name} is a retest: name the run whose faults it retested ({first})"
            ));
        }
        Work::Acceptance(_) => {}
        Work::Linktest(_) => {
            return again("is a link test, which retests its slowest links");
        }
        Work::Latency(_) => {
            return again("measured latencies, and retested slow cables");
        }
        Work::Imb(_) => return again("measured patterns, which pipebench does not judge"),
    }
    let mut tests = again::tests(record).ok_or_else(|| {
        format!(
            "{name} found no fault ({}): there is nothing to retest",
            record.verdict.word
        )
    })?;
    let own = std::iter::once("pipebench").chain(record.command.iter().map(String::as_str));
    let arguments = Arguments::try_parse_from(own).map(Arguments::settled);
    let arguments = arguments.map_err(|error| {
        format!(
            "cannot parse the command of {name}: {}",
            first_line(&error.to_string())
        )
    })?;
    let has_files = tests.iter().any(resolve::has_files);
    let has_files = has_files.then_some("files of tests");
    if let Some(what) = acts(&arguments).or(has_files).filter(|_| !is_own) {
        return Err(format!(
            "another user may have written {name}, and its command has {what}: read the command, then retest your own copy of the record (pipebench {})",
            quoted(&record.command)
        ));
    }
    let told = |error: &dyn std::fmt::Display| {
        let error = error.to_string();
        let hint = match error.starts_with("cannot read") {
            true => " (start retest in the folder where that run was started)",
            false => "",
        };
        format!("the command of {name}: {error}{hint}")
    };
    let results = Measurement {
        folder: words.output.clone().or(words.results.folder.clone()),
        ..words.results.clone()
    };
    let (mut arguments, mut spec) = match &arguments.subcommand {
        Some(Subcommand::Run(plan)) => {
            let results = results.over(&plan.results);
            planfile::read(&plan.plan, &results).map_err(|error| told(&error))?
        }
        _ => {
            let results = results.over(&arguments.plain.results);
            let mut arguments = PlainArguments {
                results,
                ..arguments.plain
            };
            if arguments.launch.awaited.is_some() {
                // The hosts of that run are those that joined it.
                let nodes = record.plan.nodes.iter();
                arguments.hosts.joined = nodes.map(|node| node.host.clone()).collect();
            }
            let spec = resolve::parse(&arguments, process::seed(), &process::here());
            let spec = spec.map_err(|error| told(&error))?;
            (arguments, spec)
        }
    };
    // The files of the first run stay unchanged, and this run is compared with it.
    (arguments.samples, arguments.matrix) = (None, None);
    arguments
        .results
        .baseline
        .clone_from(&words.results.baseline);
    let labels = |nodes: &[NodeSpec]| -> Vec<String> {
        nodes.iter().map(|node| node.label.clone()).collect()
    };
    let (then, now) = (labels(&record.plan.nodes), labels(&spec.plan.nodes));
    // Hosts that were left out of the first run are left out of this one.
    let gone: Vec<&str> = now
        .iter()
        .filter(|label| !then.contains(label))
        .map(String::as_str)
        .collect();
    leave_out(&mut spec, &gone);
    if labels(&spec.plan.nodes) != then {
        return Err(format!(
            "the command of {name} now names other hosts ({}; then {})",
            now.join(","),
            then.join(",")
        ));
    }
    for moved in &words.moved {
        let known = moved
            .split_once('=')
            .filter(|(host, port)| !host.is_empty() && !port.is_empty());
        let Some((host, port)) = known else {
            return Err(format!("--moved {moved:?} is not HOST=PORT (n07=Eth1/8)"));
        };
        // The sheet has this word in the command that it proposes.
        if port == "PORT" {
            return Err(format!(
                "--moved {moved}: write the new switch port for PORT"
            ));
        }
        let mut nodes = spec
            .plan
            .nodes
            .iter_mut()
            .filter(|node| node.host == host || node.label == host)
            .peekable();
        if nodes.peek().is_none() {
            return Err(format!("--moved {moved:?}: no host {host} in {name}"));
        }
        nodes.for_each(|node| node.switch_port = Some(port.to_owned()));
    }
    let now = with_places(&spec.plan.nodes, &record.plan.nodes);
    let swaps = again::swaps(&ports_of(&record.plan.nodes), &ports_of(&now));
    again::add_other_ends(&mut tests, &swaps);
    if let Some(acceptance) = spec.plan.acceptance_mut() {
        (acceptance.tests, acceptance.samples) = (tests, false);
        acceptance.repeats = Some(name.clone());
    }
    let used: BTreeSet<usize> = spec
        .plan
        .tests()
        .iter()
        .flat_map(|test| match &test.pattern {
            Pattern::Links(links) => links.iter().flat_map(|(from, to)| [*from, *to]).collect(),
            _ => (0..then.len()).collect::<Vec<_>>(),
        })
        .collect();
    let idle: Vec<&str> = (0..then.len())
        .filter(|node| !used.contains(node))
        .map(|node| then[node].as_str())
        .collect();
    leave_out(&mut spec, &idle);
    for (option, value) in &mut spec.options {
        if option == "pattern" {
            *value = format!("faults of {name}");
        }
    }
    Ok((arguments, spec))
}

/// Switch ports of the nodes, as far as they are known.
fn ports_of(nodes: &[NodeSpec]) -> Vec<Option<&str>> {
    let ports = nodes.iter().map(|node| node.switch_port.as_deref());
    ports.collect()
}

fn leave_out(spec: &mut RunSpec, labels: &[&str]) {
    let nodes = spec.plan.nodes.iter();
    let mut stays = nodes.map(|node| !labels.contains(&node.label.as_str()));
    spec.hosts.retain(|_| stays.next().unwrap_or(true));
    spec.plan.leave_out(labels);
}

fn first_line(text: &str) -> &str {
    text.lines()
        .next()
        .unwrap_or(text)
        .trim_start_matches("error: ")
}
