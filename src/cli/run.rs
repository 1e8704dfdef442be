//! The plain command: plan, measurement, report, exit code.

use super::args::Arguments;
use super::drive::{self, Output};
use super::process::{here, seed};
use super::resolve;
use super::terminal::refuse;

/// Runs the plain command; returns the exit code.
pub(super) fn run(arguments: &Arguments) -> Result<u8, u8> {
    let spec = resolve::parse(arguments, seed(), &here()).map_err(|error| refuse(&error))?;
    drive::compared(spec, &output_of(arguments))
}

/// Where the results of a plain command go.
pub(super) fn output_of(arguments: &Arguments) -> Output<'_> {
    Output {
        folder: arguments.folder(),
        samples: arguments.samples.as_deref(),
        ..Output::of(&arguments.results, &arguments.launch)
    }
}
