//! The command line: words in, exit code out. The only place besides `report/` that prints.

mod arguments;
mod check;
mod chronicle;
mod completions;
mod imb;
mod intent;
mod latency;
mod linktest;
mod live;
mod manual;
mod measure;
mod node;
mod planfile;
mod report;
mod resume;
mod retest;
mod run;
mod runplan;
mod secret;
mod status;
mod terminal;
mod version;
mod visit;
mod watch;
#[cfg(feature = "web")]
mod web;
mod witness;

use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches};

use crate::exit;

pub use arguments::{Arguments, Subcommand};
pub use intent::{Intent, UsageError};

/// Runs the program with the arguments of this process.
pub fn main() -> ExitCode {
    let matches = match command().try_get_matches_from(imb::spelled(std::env::args_os())) {
        Ok(matches) => matches,
        Err(error) => return ExitCode::from(explain(&error)),
    };
    let arguments = match Arguments::from_arg_matches(&matches) {
        Ok(arguments) => arguments,
        Err(error) => return ExitCode::from(explain(&error)),
    };
    let act = || match &arguments.subcommand {
        Some(Subcommand::Node) => node::serve(),
        Some(Subcommand::Status(words)) => status::run(words),
        Some(Subcommand::Watch(words)) => watch::run(words),
        Some(Subcommand::Run(words)) => runplan::run(words),
        Some(Subcommand::Init(words)) => runplan::init(words),
        Some(Subcommand::Check(words)) => check::run(words),
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
        Some(Subcommand::Completions { shell }) => tell(&completions::script(*shell)),
        Some(Subcommand::Manual) => tell(&manual::page()),
        None if arguments.version => version::print(arguments.verbose),
        None => run::run(&arguments),
    };
    // A defect was printed by the panic itself, and has a code of its own.
    let code = std::panic::catch_unwind(std::panic::AssertUnwindSafe(act)).unwrap_or(exit::BUG);
    ExitCode::from(code)
}

/// What help, manual page and completions are made from.
fn command() -> clap::Command {
    Arguments::command().after_long_help(arguments::long_tail())
}

/// Prints all that a command has to say; returns the exit code.
fn tell(text: &str) -> u8 {
    if terminal::write_all(&mut std::io::stdout().lock(), text) {
        return exit::OK;
    }
    terminal::complain("cannot write to standard output");
    exit::NOT_WRITTEN
}

/// One clear line for bad usage; help as clap prints it.
fn explain(error: &clap::Error) -> u8 {
    use clap::error::ErrorKind;
    if error.kind() == ErrorKind::DisplayHelp {
        // A reader that has gone away is no failure.
        return match error.print() {
            Ok(()) | Err(_) => exit::OK,
        };
    }
    terminal::complain(&format!(
        "{} (see 'pipebench --help')",
        first_sentence(error)
    ));
    exit::USAGE
}

/// What is wrong with words, in one line.
fn first_sentence(error: &clap::Error) -> String {
    let text = error.render().to_string();
    let first: Vec<&str> = text
        .lines()
        .take_while(|line| !line.trim().is_empty())
        .map(str::trim)
        .collect();
    let first = first.join(" ");
    first.strip_prefix("error: ").unwrap_or(&first).to_owned()
}
