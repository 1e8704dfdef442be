//! `pipebench imb`: the Intel MPI Benchmarks' patterns, in their own tables.

use super::args::imb::ImbArguments;
use super::drive::{self, Output};
use super::resolve;
use super::terminal::refuse;

/// Measures the patterns; returns the exit code.
pub(super) fn run(words: &ImbArguments) -> Result<u8, u8> {
    let spec = resolve::imb::parse(words).map_err(|error| refuse(&error))?;
    drive::compared(spec, &Output::of(&words.results, &words.launch))
}
