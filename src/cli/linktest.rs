//! `pipebench linktest`: measures all pairs of ranks, with the options and the output of LinkTest.

mod files;
use crate::exit;

use super::args::linktest::LinktestArguments;
use super::drive::{self, Output};
use super::resolve;
use super::terminal::complain;
use super::version;

/// Measures links or reads a result file; returns the exit code.
pub(super) fn run(arguments: &LinktestArguments) -> u8 {
    if let Some(command) = &arguments.command {
        return files::run(command);
    }
    if arguments.version {
        return version::print(false);
    }
    match resolve::linktest::parse(arguments) {
        Ok(spec) => {
            let output = Output {
                sion: (!arguments.no_sion_file).then_some(arguments.output.as_path()),
                ..Output::of(&arguments.results, &arguments.launch)
            };
            drive::compared(spec, &output)
        }
        Err(error) => {
            complain(&error.to_string());
            exit::USAGE
        }
    }
}
