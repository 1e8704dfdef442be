//! The command line: words in, exit code out. The only place besides `report/` that prints.

mod arguments;
mod intent;
mod node;
mod run;
mod secret;
mod status;
mod terminal;
mod visit;
mod watch;

use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches};

use crate::exit;

pub use arguments::{Arguments, Subcommand};
pub use intent::{Intent, UsageError};

/// Runs the program with the arguments of this process.
pub fn main() -> ExitCode {
    let command = Arguments::command().after_long_help(arguments::long_tail());
    let matches = match command.try_get_matches() {
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
        None => run::run(&arguments),
    };
    // A defect was printed by the panic itself, and has a code of its own.
    let code = std::panic::catch_unwind(std::panic::AssertUnwindSafe(act)).unwrap_or(exit::BUG);
    ExitCode::from(code)
}

/// One clear line for bad usage; help and version as clap prints them.
fn explain(error: &clap::Error) -> u8 {
    use clap::error::ErrorKind;
    if matches!(
        error.kind(),
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion
    ) {
        // A reader that has gone away is no failure.
        return match error.print() {
            Ok(()) | Err(_) => exit::OK,
        };
    }
    let text = error.render().to_string();
    let first: Vec<&str> = text
        .lines()
        .take_while(|line| !line.trim().is_empty())
        .map(str::trim)
        .collect();
    let first = first.join(" ");
    let first = first.strip_prefix("error: ").unwrap_or(&first);
    terminal::complain(&format!("{first} (see 'pipebench --help')"));
    exit::USAGE
}
