//! The plain command: plan, conduct, report, exit code.

use crate::exit;

use super::args::Arguments;
use super::drive::{self, Output};
use super::process::{here, seed};
use super::resolve;
use super::terminal::complain;

/// Runs the plain command; returns the exit code.
pub(super) fn run(arguments: &Arguments) -> u8 {
    match resolve::parse(arguments, seed(), &here()) {
        Ok(spec) => drive::compared(spec, &output_of(arguments)),
        Err(error) => {
            complain(&error.to_string());
            exit::USAGE
        }
    }
}

/// Where the results of a plain command go.
pub(super) fn output_of(arguments: &Arguments) -> Output<'_> {
    Output {
        folder: arguments.folder(),
        samples: arguments.samples.as_deref(),
        ..Output::of(&arguments.results, &arguments.launch)
    }
}
