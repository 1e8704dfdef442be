//! The words of `pipebench completions`.

use clap::ValueEnum;

/// Shells with a completion script.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum Shell {
    /// With the package bash-completion
    Bash,
    /// From version 3 on
    Fish,
    /// With compinit
    Zsh,
}
