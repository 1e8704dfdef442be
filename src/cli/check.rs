//! `pipebench check`: checks within seconds everything that can be known before a run.

use clap::Parser;

use crate::exit;
use crate::plan::{Profile, Purpose};

use super::args::{Arguments, CheckArguments};
use super::drive::{self, Output};
use super::process;
use super::resolve;
use super::run;
use super::terminal::{complain, explain};

/// Runs the check; returns the exit code.
pub(super) fn run(words: &CheckArguments) -> u8 {
    let own = std::iter::once("pipebench check").chain(words.words.iter().map(String::as_str));
    let mut arguments = match Arguments::try_parse_from(own) {
        Ok(arguments) => arguments,
        Err(error) => return explain(&error),
    };
    if arguments.subcommand.is_some() {
        complain("check takes the options of the plain command, and no other command");
        return exit::USAGE;
    }
    // Every pair is measured once, as briefly as possible.
    "mesh".clone_into(&mut arguments.pattern);
    arguments.profile = Profile::Quick;
    arguments.phases = 2;
    (arguments.time, arguments.warmup, arguments.buffers) = (None, None, Some(1));
    arguments.block_size = Some("64K".to_owned());
    arguments.results.keep_going = true;
    let spec = match resolve::parse(&arguments, process::seed(), &process::here()) {
        Ok(mut spec) => {
            for test in spec.plan.tests_mut() {
                test.purpose = Purpose::Check;
            }
            spec
        }
        Err(error) => {
            // The user gave no pattern here.
            complain(
                &error
                    .to_string()
                    .replace("--pattern mesh needs", "check needs"),
            );
            return exit::USAGE;
        }
    };
    let output = Output {
        preflight: true,
        ..run::output_of(&arguments)
    };
    drive::drive(spec, &output)
}
