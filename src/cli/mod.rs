//! The command line: takes arguments and returns an exit code. Only this module and `report/` print.

mod args;
mod check;
mod completions;
mod draft;
mod drive;
mod files;
mod imb;
mod join;
mod joining;
mod journal;
mod latency;
mod linktest;
mod live;
mod manual;
mod matrix;
mod mistakes;
mod node;
mod pdf;
mod planfile;
mod process;
mod progress;
mod report;
mod resolve;
mod resume;
mod retest;
mod run;
mod runplan;
mod samples;
mod secret;
mod sion;
mod status;
mod terminal;
mod version;
mod visit;
mod watch;
#[cfg(feature = "web")]
mod web;

use std::process::ExitCode;

use clap::FromArgMatches;

use crate::exit;

pub(crate) use args::{Arguments, Subcommand};

pub use node::main as node_main;

use mistakes::explain;
use terminal::tell;

/// Runs the program with the arguments of this process.
pub fn main() -> ExitCode {
    let words = match args::imb::spelled(std::env::args_os()) {
        Ok(words) => words,
        Err(error) => return ExitCode::from(terminal::refuse(&error)),
    };
    let command = match words.get(1).is_some_and(|word| word == "-h") {
        true => args::short_command(),
        false => args::command(),
    };
    let matches = command.try_get_matches_from(&words);
    let arguments = match matches.and_then(|matches| Arguments::from_arg_matches(&matches)) {
        Ok(arguments) => arguments,
        Err(error) => return ExitCode::from(explain(&error, &words)),
    };
    let act = || match &arguments.subcommand {
        Some(Subcommand::Node) => node::serve(),
        Some(Subcommand::Join(words)) => join::run(words),
        Some(Subcommand::Status(words)) => status::run(words),
        Some(Subcommand::Watch(words)) => watch::run(words),
        Some(Subcommand::Run(words)) => runplan::run(words),
        Some(Subcommand::Init(words)) => runplan::init(words),
        Some(Subcommand::Check { plan, plain }) => check::run(plan.as_deref(), plain),
        Some(Subcommand::Latency(words)) => latency::run(words),
        Some(Subcommand::Imb(words)) => imb::run(words),
        Some(Subcommand::Linktest(words)) => linktest::run(words),
        Some(Subcommand::Report(words)) => report::report(words),
        Some(Subcommand::Retest(words)) => retest::run(words),
        Some(Subcommand::List(words)) => report::list(words),
        Some(Subcommand::Compare(words)) => report::compare(words),
        Some(Subcommand::Merge(words)) => report::merge(words),
        #[cfg(feature = "web")]
        Some(Subcommand::Serve(words)) => web::serve(words),
        #[cfg(feature = "web")]
        Some(Subcommand::Cgi(words)) => web::cgi(words),
        #[cfg(feature = "web")]
        Some(Subcommand::Keep(words)) => web::keep(words),
        Some(Subcommand::Completions { shell }) => Ok(tell(&completions::script(*shell))),
        Some(Subcommand::Manual { command }) => manual::print(command.as_deref()),
        Some(Subcommand::Load(words)) => run::run(words),
        None if arguments.version => version::print(arguments.verbose),
        None => run::run(&arguments.plain),
    };
    // The panic has already printed the defect, which has a separate exit code.
    let code = std::panic::catch_unwind(std::panic::AssertUnwindSafe(act));
    // A command that refuses has already printed why: its error is the exit code.
    let (Ok(code) | Err(code)) = code.unwrap_or(Err(exit::BUG));
    ExitCode::from(code)
}
