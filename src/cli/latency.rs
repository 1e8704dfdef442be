//! `pipebench latency`: fabrics, plans, and the latencies of all pairs from a few rounds.

pub(super) mod fabrics;
pub(super) mod plans;

use std::path::Path;

use super::args::latency::{LatencyArguments, LatencyCommand, RunArguments};
use super::drive::{self, Output};
use super::resolve;

/// Runs the subcommand; returns the exit code.
pub(super) fn run(arguments: &LatencyArguments) -> Result<u8, u8> {
    match &arguments.command {
        LatencyCommand::Generate(words) => fabrics::generate(words),
        LatencyCommand::Import(words) => fabrics::import(words),
        LatencyCommand::Plan(words) => plans::plan(words),
        LatencyCommand::Pairs(words) => plans::pairs(words),
        LatencyCommand::Simulate(words) => plans::simulate(words),
        LatencyCommand::Run(words) => measured(words, false),
        LatencyCommand::Locate(words) => measured(words, true),
    }
}

/// Measures latencies and calculates the results; returns the exit code.
fn measured(words: &RunArguments, locate: bool) -> Result<u8, u8> {
    let output = Output {
        folder: Some(words.results.folder.as_deref().unwrap_or(Path::new("."))),
        ..Output::of(&words.results, &words.launch)
    };
    drive::drive(&output, &words.hosts, |before, hosts| {
        let words = RunArguments {
            hosts: hosts.clone(),
            ..words.clone()
        };
        resolve::latency::parse(&words, before, locate)
    })
}
