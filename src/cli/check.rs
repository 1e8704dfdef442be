//! `pipebench check`: checks within seconds everything that can be known before a run.

use std::path::Path;

use crate::plan::{PatternError, Profile, Purpose};

use super::args::{self, InitArguments, Measurement, PlainArguments};
use super::draft::{Draft, Given};
use super::drive::{self, Output};
use super::planfile;
use super::process::{here, seed};
use super::resolve::{self, RunSpec, UsageError};
use super::run;
use super::terminal::refuse;

/// Checks the hosts of a plan file, or those that the options name; returns the exit code.
pub(super) fn run(plan: Option<&Path>, words: &PlainArguments) -> Result<u8, u8> {
    let results = &words.results;
    if results.fail_unless_judged {
        let text = "a check judges no rates: leave out --fail-unless-judged";
        return Err(refuse(&text));
    }
    for (option, given) in [
        ("--baseline", &results.baseline),
        ("--resume", &results.resume),
    ] {
        if given.is_some() {
            return Err(refuse(&format!(
                "a check measures no rates: leave out {option}"
            )));
        }
    }
    let planned = plan.map(|plan| planfile::read(plan, results)).transpose();
    let planned = planned.map_err(|error| refuse(&error))?;
    let arguments = planned.map_or_else(|| words.clone(), |(arguments, _)| arguments);
    check(arguments, results, None)
}

/// Checks the hosts and writes them into a plan file, with the switch ports that they see; returns the exit code.
pub(super) fn into_plan(words: &InitArguments, options: &[Given]) -> Result<u8, u8> {
    let bare = args::parsed(&[]).map_err(|error| refuse(&error))?;
    let arguments = PlainArguments {
        hosts: words.hosts.clone(),
        launch: words.launch.clone(),
        sockets: words.sockets.clone(),
        ..bare
    };
    let named = resolve::hosts_of(&words.hosts, &words.launch);
    let (hosts, _) = named.map_err(|error| refuse(&error))?;
    let results = arguments.results.clone();
    let draft = Draft {
        path: &words.path,
        hosts: &hosts,
        options,
    };
    check(arguments, &results, Some(draft))
}

/// Measures every pair once, as briefly as possible. Files and folder of a plan are those of its run.
fn check(
    arguments: PlainArguments,
    results: &Measurement,
    plan: Option<Draft<'_>>,
) -> Result<u8, u8> {
    let arguments = PlainArguments {
        pattern: "mesh".to_owned(),
        profile: Profile::Quick,
        phases: 2,
        time: None,
        warmup: None,
        buffers: Some(1),
        block_size: Some("64K".to_owned()),
        source: "memory".to_owned(),
        sink: "memory".to_owned(),
        samples: None,
        matrix: None,
        results: Measurement {
            keep_going: Some(100),
            ..results.clone()
        },
        ..arguments
    };
    let output = Output {
        preflight: true,
        plan,
        ..run::output_of(&arguments)
    };
    drive::drive(&output, &arguments.hosts, |_, hosts| {
        request(&PlainArguments {
            hosts: hosts.clone(),
            ..arguments.clone()
        })
    })
}

fn request(arguments: &PlainArguments) -> Result<RunSpec, UsageError> {
    let spec = resolve::parse(arguments, seed(), &here());
    let mut spec = spec.map_err(|error| match error {
        // The user gave no pattern here.
        UsageError::Pattern(PatternError::Nodes { needed, nodes, .. }) => UsageError::Value(
            format!("check needs at least {needed} nodes; there is {nodes}"),
        ),
        other => other,
    })?;
    for test in spec.plan.tests_mut() {
        test.purpose = Purpose::Check;
    }
    Ok(spec)
}
