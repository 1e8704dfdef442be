//! `pipebench check`: everything that can be known before a run, in seconds.

use clap::Parser;

use crate::exit;
use crate::plan::Purpose;

use super::arguments::Arguments;
use super::intent;
use super::run::{self, Telling};
use super::terminal::complain;

/// What the long help says.
pub const LONG: &str = "Looks at hosts, ports and pairs before a run: reaches every host, links every pair of data ports, and lets one full packet pass on \
    each, so that a path with a smaller MTU is named; compares kernels, drivers, firmware, speeds, MTU, PCIe and settings, and marks the odd one out; \
    holds speed and MTU against what was ordered; and reads error counters before and after.\n\n\
    Takes the options of the plain command: `pipebench check --hostfile cluster.txt --link-speed 25G --mtu 9000`. Hosts that cannot be reached are \
    named, and the others are looked at.\n\n\
    Exit codes: 0 ready; 1 a port is not as ordered; 2 bad usage; 10 a host cannot be reached; others as of a run.";

/// Options of the plain command.
#[derive(Debug, Clone, clap::Args)]
pub struct CheckArguments {
    /// Options of the plain command
    ///
    /// Example: pipebench check --hosts 'n[01-16]' --link-speed 100G
    #[arg(
        value_name = "OPTIONS",
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    pub words: Vec<String>,
}

/// Looks; returns the exit code.
pub fn run(words: &CheckArguments) -> u8 {
    let own = std::iter::once("pipebench check").chain(words.words.iter().map(String::as_str));
    let mut arguments = match Arguments::try_parse_from(own) {
        Ok(arguments) => arguments,
        Err(error) => return super::explain(&error),
    };
    if arguments.subcommand.is_some() {
        complain("check takes the options of the plain command, and no other command");
        return exit::USAGE;
    }
    // Every pair once, as short as can be.
    "mesh".clone_into(&mut arguments.pattern);
    "quick".clone_into(&mut arguments.profile);
    arguments.phases = 2;
    (arguments.time, arguments.warmup, arguments.buffers) = (None, None, Some(1));
    arguments.block_size = Some("64K".to_owned());
    arguments.keep_going = true;
    let intent = match intent::parse(&arguments, run::seed(), &run::here()) {
        Ok(mut intent) => {
            for test in &mut intent.plan.tests {
                test.purpose = Purpose::Check;
            }
            intent
        }
        Err(error) => {
            // Nobody asked for a pattern here.
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
