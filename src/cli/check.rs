//! `pipebench check`: checks within seconds everything that can be known before a run.

use clap::Parser;

use crate::plan::{Profile, Purpose};

use super::args::{Arguments, CheckArguments};
use super::drive::{self, Output};
use super::process;
use super::resolve;
use super::run;
use super::terminal::{explain, refuse};

/// Runs the check; returns the exit code.
pub(super) fn run(words: &CheckArguments) -> Result<u8, u8> {
    let own = std::iter::once("pipebench check").chain(words.words.iter().map(String::as_str));
    let mut arguments = Arguments::try_parse_from(own).map_err(|error| explain(&error))?;
    if arguments.subcommand.is_some() {
        let text = "check takes the options of the plain command, and no other command";
        return Err(refuse(&text));
    }
    // Every pair is measured once, as briefly as possible.
    "mesh".clone_into(&mut arguments.pattern);
    arguments.profile = Profile::Quick;
    arguments.phases = 2;
    (arguments.time, arguments.warmup, arguments.buffers) = (None, None, Some(1));
    arguments.block_size = Some("64K".to_owned());
    arguments.results.keep_going = true;
    let spec = resolve::parse(&arguments, process::seed(), &process::here());
    let mut spec = spec.map_err(|error| {
        // The user gave no pattern here.
        let text = error.to_string();
        refuse(&text.replace("--pattern mesh needs", "check needs"))
    })?;
    for test in spec.plan.tests_mut() {
        test.purpose = Purpose::Check;
    }
    let output = Output {
        preflight: true,
        ..run::output_of(&arguments)
    };
    drive::drive(spec, &output)
}
