//! `pipebench imb`: the Intel MPI Benchmarks' patterns, in their own tables.

use super::args::imb::ImbArguments;
use super::drive::{self, Output};
use super::resolve;
use super::terminal::refuse;

/// Measures the patterns; returns the exit code.
pub(super) fn run(words: &ImbArguments) -> Result<u8, u8> {
    if words.results.fail_unless_judged {
        let text = "imb judges nothing: leave out --fail-unless-judged";
        return Err(refuse(&text));
    }
    let output = Output::of(&words.results, &words.launch);
    drive::drive(&output, &words.hosts, |_, hosts| {
        resolve::imb::parse(&ImbArguments {
            hosts: hosts.clone(),
            ..words.clone()
        })
    })
}
