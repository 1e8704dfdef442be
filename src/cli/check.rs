//! `pipebench check`: checks within seconds everything that can be known before a run.

use clap::Parser;

use crate::exit;
use crate::plan::Purpose;

use super::args::{Arguments, CheckArguments};
use super::process;
use super::resolve;
use super::run::{self, Telling};
use super::terminal::{complain, explain};

/// Runs the check; returns the exit code.
pub fn run(words: &CheckArguments) -> u8 {
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
    "quick".clone_into(&mut arguments.profile);
    arguments.phases = 2;
    (arguments.time, arguments.warmup, arguments.buffers) = (None, None, Some(1));
    arguments.block_size = Some("64K".to_owned());
    arguments.keep_going = true;
    let intent = match resolve::parse(&arguments, process::seed(), &process::here()) {
        Ok(mut intent) => {
            for test in intent.plan.tests_mut() {
                test.purpose = Purpose::Check;
            }
            intent
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
    run::execute(&arguments, intent, &Telling::Preflight)
}
