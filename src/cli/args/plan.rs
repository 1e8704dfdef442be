//! The words of `pipebench run` and `pipebench init`.

use std::path::PathBuf;

use super::{HostWords, Launch, Measurement, Sockets};

/// Options that make no sense in a plan, since they concern only the launching side.
pub(crate) const NOT_IN_PLANS: [&str; 10] = [
    "version",
    "verbose",
    "help",
    "hold",
    "dry-run",
    "quiet",
    "json",
    "csv",
    "resume",
    "json-stream",
];

/// What the long help of `run` begins with.
pub(super) const LONG: &str = "Runs a plan file: hosts with their switch ports, acceptance criteria, tests, and whose switch it is. `pipebench init` \
    writes one with comments. Its keys are the long names of the options of pipebench without a command; errors name line and key.\n\n\
    A hash of thresholds, ports, tests and executable, the seal, is printed before the start and stored in the record. \
    With --resume an aborted run continues after its last completed test.\n\n\
    Exit codes are those of a run.";

/// Run a plan file.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct RunArguments {
    /// Plan file
    ///
    /// Example: pipebench run plan.toml
    #[arg(value_name = "PLAN")]
    pub plan: PathBuf,

    /// Where results go, and what is printed.
    #[command(flatten)]
    pub results: Measurement,
}

/// What the long help of `init` begins with.
pub(super) const INIT_LONG: &str = "Writes a plan file with comments, for you to fill in. Without hosts it is an example. With --hosts or --hostfile \
    pipebench checks the hosts as `pipebench check` does, and writes them into the plan, with these options and with the switch ports that they see \
    by LLDP.";

/// Write a plan file with comments.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct InitArguments {
    /// File to write; - is standard output
    ///
    /// An existing file is not overwritten. Example: pipebench init acceptance.toml
    #[arg(value_name = "FILE", default_value = "plan.toml")]
    pub path: PathBuf,

    /// Hosts of the plan.
    #[command(flatten)]
    pub hosts: HostWords,

    /// How hosts are reached.
    #[command(flatten)]
    pub launch: Launch,

    /// Their data ports.
    #[command(flatten)]
    pub sockets: Sockets,
}
