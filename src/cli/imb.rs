//! `pipebench imb`: the Intel MPI Benchmarks' patterns, in their own tables.

use crate::exit;

use super::args::imb::ImbArguments;
use super::drive::{self, Output};
use super::resolve;
use super::terminal::complain;

/// Measures the patterns; returns the exit code.
pub(super) fn run(words: &ImbArguments) -> u8 {
    match resolve::imb::parse(words) {
        Ok(spec) => drive::compared(spec, &Output::of(&words.results, &words.launch)),
        Err(error) => {
            complain(&error.to_string());
            exit::USAGE
        }
    }
}
