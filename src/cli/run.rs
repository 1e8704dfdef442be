//! The plain command: plan, measurement, report, exit code.

use super::args::PlainArguments;
use super::drive::{self, Output};
use super::process::{here, seed};
use super::resolve;

/// Runs the plain command; returns the exit code.
pub(super) fn run(arguments: &PlainArguments) -> Result<u8, u8> {
    drive::drive(&output_of(arguments), &arguments.hosts, |_, hosts| {
        let arguments = PlainArguments {
            hosts: hosts.clone(),
            ..arguments.clone()
        };
        resolve::parse(&arguments, seed(), &here())
    })
}

/// Where the results of a plain command go.
pub(super) fn output_of(arguments: &PlainArguments) -> Output<'_> {
    Output {
        samples: arguments.samples.as_deref(),
        matrix: arguments.matrix.as_deref(),
        ..Output::of(&arguments.results, &arguments.launch)
    }
}
