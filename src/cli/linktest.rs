//! `pipebench linktest`: measures all pairs of ranks, with the options and the output of LinkTest.

mod files;

use super::args::linktest::LinktestArguments;
use super::drive::{self, Output};
use super::resolve;
use super::version;

/// Measures links or reads a result file; returns the exit code.
pub(super) fn run(arguments: &LinktestArguments) -> Result<u8, u8> {
    let own = &arguments.own;
    if let Some(command) = &arguments.command {
        return files::run(command);
    }
    if own.version {
        return version::print(false);
    }
    let output = Output {
        sion: (!own.no_sion_file).then_some(own.output.as_path()),
        ..Output::of(&arguments.results, &arguments.launch)
    };
    drive::drive(&output, &arguments.hosts, |_, hosts| {
        resolve::linktest::parse(&LinktestArguments {
            hosts: hosts.clone(),
            ..arguments.clone()
        })
    })
}
