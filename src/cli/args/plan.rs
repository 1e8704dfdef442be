//! The words of `pipebench run` and `pipebench init`.

use std::path::PathBuf;

use super::Measurement;

/// What the long help of `run` begins with.
pub(super) const LONG: &str = "Runs what a plan file says: hosts with their switch ports, what was ordered, thresholds, tests, and whose switch it is. `pipebench init` \
    writes one with comments. Its keys are the options of the plain command by their long names; what is wrong is named by line and key.\n\n\
    Thresholds, ports, tests and the tool's digest are hashed before the start: the seal stands on the screen and in the record. \
    With --resume a run that broke off goes on after its last whole test.\n\n\
    Exit codes are those of a run.";

/// Run what a plan file says.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct RunArguments {
    /// The plan file
    ///
    /// Example: pipebench run plan.toml
    #[arg(value_name = "PLAN")]
    pub plan: PathBuf,

    /// Where results go, and what is printed.
    #[command(flatten)]
    pub results: Measurement,
}

/// Write a plan file with comments.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct InitArguments {
    /// Where to; - is standard output
    ///
    /// A file that is there is left alone. Default plan.toml. Example: pipebench init acceptance.toml
    #[arg(value_name = "FILE", default_value = "plan.toml")]
    pub path: PathBuf,
}
