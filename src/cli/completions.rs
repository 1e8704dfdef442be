//! `pipebench completions SHELL`: completes options and file names in a shell, from the definitions of the help.

use clap::{Command, ValueEnum};
use clap_complete::aot::{Bash, Fish, Generator, Zsh, generate};

/// Shells that can be told.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum Shell {
    /// With the package bash-completion
    Bash,
    /// From version 3 on
    Fish,
    /// With compinit
    Zsh,
}

/// The script of a shell.
pub fn script(shell: Shell) -> String {
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
        &mut shown(&super::command()),
        "pipebench",
        &mut script,
    );
    String::from_utf8_lossy(&script).into_owned()
}

/// What a user may type: the generators would offer what is hidden, too.
fn shown(command: &Command) -> Command {
    let options = command
        .get_arguments()
        .filter(|option| !option.is_hide_set());
    let others = command
        .get_subcommands()
        .filter(|other| !other.is_hide_set());
    Command::new("pipebench")
        .disable_help_subcommand(true)
        .args(options.cloned())
        .subcommands(others.cloned())
}
