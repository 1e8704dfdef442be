//! `pipebench retest`: the links that told of a run's faults once more, after something was moved.

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use clap::Parser;

use crate::exit;
use crate::judge::again;
use crate::plan::Pattern;
use crate::record::Record;

use super::arguments::{Arguments, Subcommand};
use super::intent::{self, Intent};
use super::planfile;
use super::report::{self, Shelf};
use super::run::{self, Telling};
use super::terminal::complain;

/// What the long help begins with.
pub const LONG: &str = "Measures again what told of a run's faults: each link that was measured by itself, alone, with the same hosts and options. \
    Move the cable first, say with --moved where it is now, and the comparison that follows says whether the fault followed the host or \
    stayed with the switch port.\n\n\
    The command of the run is understood anew: its host file must still be there. Only hosts that are needed are contacted. Exit codes are those of a run.";

/// Measure again what was at fault in a run.
#[derive(Debug, Clone, clap::Args)]
pub struct RetestArguments {
    /// Which run: a record, a run's folder, or the beginning of its name
    ///
    /// Example: pipebench retest pb-20261121
    #[arg(value_name = "RUN")]
    pub run: String,

    /// Where a host is plugged in now; may be given more than once
    ///
    /// The switch port is that of the host file (switchport=) otherwise. No default. Example: --moved n07=Eth1/8
    #[arg(long, value_name = "HOST=PORT", value_delimiter = ',')]
    pub moved: Vec<String>,

    /// Keep record, table and summary in a folder of the run below DIR
    ///
    /// Default: where the run's own command kept them, if it did. Example: --output results
    #[arg(long, short = 'o', value_name = "DIR")]
    pub output: Option<PathBuf>,

    /// Print the summary only
    ///
    /// Neither options, hosts, notices nor progress. Example: --quiet
    #[arg(long, short = 'q')]
    pub quiet: bool,

    /// Print what would be measured; start nothing
    ///
    /// Example: --dry-run
    #[arg(long)]
    pub dry_run: bool,

    /// Where runs are.
    #[command(flatten)]
    pub shelf: Shelf,
}

/// Measures again; returns the exit code.
pub fn run(words: &RetestArguments) -> u8 {
    let kept = match report::read(&words.run, &words.shelf.folder) {
        Ok(kept) => kept,
        Err(code) => return code,
    };
    match prepare(words, &kept.record, is_own(&kept.path)) {
        Ok((arguments, intent)) => {
            run::execute(&arguments, intent, &Telling::Run(Some(&kept.record)))
        }
        Err(error) => {
            complain(&error);
            exit::USAGE
        }
    }
}

/// Whether only this user, or root, can have written a file.
fn is_own(path: &Path) -> bool {
    /// Anybody may write to it.
    const OTHERS_WRITE: u32 = 0o002;
    std::fs::metadata(path).is_ok_and(|about| {
        let by_them = about.uid() == 0 || about.uid() == nix::unistd::geteuid().as_raw();
        by_them && about.mode() & OTHERS_WRITE == 0
    })
}

/// What in a command starts programs, trusts keys, or reads and writes files on hosts.
fn acts(arguments: &Arguments) -> Option<&'static str> {
    let is_file = |words: &str| !["memory", "discard"].contains(&words);
    let all = [
        ("a plan file", arguments.subcommand.is_some()),
        ("--rsh", arguments.launch.rsh.is_some()),
        ("--known-hosts", arguments.launch.known_hosts.is_some()),
        ("--source", is_file(&arguments.source)),
        ("--sink", is_file(&arguments.sink)),
    ];
    let mut all = all.into_iter().filter(|(_, given)| *given);
    all.next().map(|(what, _)| what)
}

/// The run's own command with the tests of its faults, on the hosts that these need.
fn prepare(
    words: &RetestArguments,
    record: &Record,
    is_own: bool,
) -> Result<(Arguments, Intent), String> {
    let name = record.name();
    if let Some(first) = &record.plan.repeats {
        return Err(format!(
            "{name} is a retest itself: name the run whose faults it measured again ({first})"
        ));
    }
    if record.tests.is_empty() && !record.jobs.is_empty() {
        return Err(format!(
            "{name} is a link test, which measures its slowest links again by itself: give its command once more (pipebench {})",
            record.command.join(" ")
        ));
    }
    let tests = again::tests(record).ok_or_else(|| {
        format!(
            "nothing was at fault in {name} ({}): there is nothing to measure again",
            record.verdict.word
        )
    })?;
    let own = std::iter::once("pipebench").chain(record.command.iter().map(String::as_str));
    let arguments = Arguments::try_parse_from(own).map_err(|error| {
        format!(
            "the command of {name} is not understood: {}",
            first_line(&error.to_string())
        )
    })?;
    if let Some(what) = acts(&arguments).filter(|_| !is_own) {
        return Err(format!(
            "{name} may be another user's, and its command has {what}: read it, and retest a copy of the record that is yours (pipebench {})",
            record.command.join(" ")
        ));
    }
    let told = |error: &dyn std::fmt::Display| format!("the command of {name}: {error}");
    let (mut arguments, mut intent) = match &arguments.subcommand {
        Some(Subcommand::Run(plan)) => planfile::read(&plan.plan).map_err(|error| told(&error))?,
        _ => {
            let intent = intent::parse(&arguments, run::seed(), &run::here());
            let intent = intent.map_err(|error| told(&error))?;
            (arguments, intent)
        }
    };
    // Files of the first run stay as they are.
    (arguments.json, arguments.csv, arguments.samples) = (None, None, None);
    intent.plan.samples = false;
    if words.output.is_some() {
        arguments.output.clone_from(&words.output);
    }
    arguments.quiet |= words.quiet;
    arguments.dry_run = words.dry_run;
    let labels = |nodes: &[crate::plan::NodeSpec]| -> Vec<String> {
        nodes.iter().map(|node| node.label.clone()).collect()
    };
    let (then, now) = (labels(&record.plan.nodes), labels(&intent.plan.nodes));
    // Who was left out of the run is left out of this one.
    let gone: Vec<&str> = now
        .iter()
        .filter(|label| !then.contains(label))
        .map(String::as_str)
        .collect();
    leave_out(&mut intent, &gone);
    if labels(&intent.plan.nodes) != then {
        return Err(format!(
            "the command of {name} names other hosts now than then ({}; then {})",
            now.join(","),
            then.join(",")
        ));
    }
    intent.plan.tests = tests;
    for moved in &words.moved {
        let known = moved
            .split_once('=')
            .filter(|(host, port)| !host.is_empty() && !port.is_empty());
        let Some((host, port)) = known else {
            return Err(format!("--moved {moved:?} is not HOST=PORT (n07=Eth1/8)"));
        };
        let mut nodes = intent
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
    let before: Vec<Option<&str>> = record
        .plan
        .nodes
        .iter()
        .map(|node| node.switch_port.as_deref())
        .collect();
    let after: Vec<Option<&str>> = intent
        .plan
        .nodes
        .iter()
        .map(|node| node.switch_port.as_deref())
        .collect();
    let swaps = again::swaps(&before, &after);
    again::add_other_ends(&mut intent.plan.tests, &swaps);
    let used: BTreeSet<usize> = intent
        .plan
        .tests
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
    leave_out(&mut intent, &idle);
    intent.plan.repeats = Some(name.clone());
    for (option, value) in &mut intent.options {
        if option == "pattern" {
            *value = format!("faults of {name}");
        }
    }
    Ok((arguments, intent))
}

fn leave_out(intent: &mut Intent, labels: &[&str]) {
    let stays: Vec<bool> = intent
        .plan
        .nodes
        .iter()
        .map(|node| !labels.contains(&node.label.as_str()))
        .collect();
    let mut stays = stays.into_iter();
    intent.hosts.retain(|_| stays.next().unwrap_or(true));
    intent.plan.leave_out(labels);
}

fn first_line(text: &str) -> &str {
    text.lines()
        .next()
        .unwrap_or(text)
        .trim_start_matches("error: ")
}
