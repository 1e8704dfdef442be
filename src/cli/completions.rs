//! `pipebench completions SHELL`: a script that completes options and file names, from the definitions of the help.

use clap::Command;
use clap_complete::aot::{Bash, Fish, Generator, Zsh, generate};

use super::args::{self, Shell};

/// Completion script of a shell.
pub(super) fn script(shell: Shell) -> String {
    match shell {
        Shell::Bash => made(Bash),
        Shell::Fish => made(Fish),
        Shell::Zsh => made(Zsh),
    }
}

fn made(generator: impl Generator) -> String {
    let mut script = Vec::new();
    generate(
        generator,
        &mut shown(&args::command_of_pages()),
        "pipebench",
        &mut script,
    );
    String::from_utf8_lossy(&script).into_owned()
}

/// The command without hidden options and subcommands, which the generators would offer, too.
fn shown(command: &Command) -> Command {
    let options = command
        .get_arguments()
        .filter(|option| !option.is_hide_set());
    let others = command
        .get_subcommands()
        .filter(|other| !other.is_hide_set());
    // clap takes names that live as long as the process.
    let name: &'static str = command.get_name().to_owned().leak();
    Command::new(name)
        .about(command.get_about().cloned().unwrap_or_default())
        .disable_help_subcommand(true)
        .args(options.cloned())
        .subcommands(others.map(shown))
}
