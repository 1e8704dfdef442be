//! `pipebench latency`: fabrics, plans, and the latencies of all pairs from a few rounds.

pub(super) mod fabrics;
pub(super) mod plans;

use crate::exit;

use super::args::latency::{LatencyArguments, LatencyCommand, RunArguments};
use super::drive::{self, Output};
use super::resolve;
use super::terminal::complain;

/// Runs the subcommand; returns the exit code.
pub(super) fn run(arguments: &LatencyArguments) -> u8 {
    let done = match &arguments.command {
        LatencyCommand::Generate(words) => fabrics::generate(words),
        LatencyCommand::Import(words) => fabrics::import(words),
        LatencyCommand::Plan(words) => plans::plan(words),
        LatencyCommand::Pairs(words) => plans::pairs(words),
        LatencyCommand::Simulate(words) => plans::simulate(words),
        LatencyCommand::Run(words) => return measured(words, false),
        LatencyCommand::Locate(words) => return measured(words, true),
    };
    done.unwrap_or_else(|code| code)
}

/// Measures latencies and calculates the results; returns the exit code.
fn measured(words: &RunArguments, locate: bool) -> u8 {
    let baseline = match resolve::latency::baseline(words) {
        Ok(baseline) => baseline,
        Err(code) => return code,
    };
    match resolve::latency::parse(words, baseline, locate) {
        Ok(spec) => {
            let output = Output {
                folder: Some(words.folder()),
                ..Output::of(&words.results, &words.launch)
            };
            drive::drive(spec, &output)
        }
        Err(error) => {
            complain(&error);
            exit::USAGE
        }
    }
}
