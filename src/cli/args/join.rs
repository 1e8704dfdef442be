//! The words of `pipebench join`.

use std::path::PathBuf;

/// What the long help says.
pub(super) const LONG: &str = "Connects to a waiting pipebench (--await, --starter, or --hosts auto in a job of Slurm), and is the node of this host until \
    the end of its run. Start it once on each host, by srun, mpiexec, pdsh, clush, pbsdsh or a Kubernetes Job.\n\n\
    The connection is encrypted, and both sides prove that they know the token. The host is known by its host name, or by the name that its batch \
    system gives it.\n\n\
    Exit codes: that of the node, 0 after a run; 2 bad usage, or a token file that others can read; 10 the launching side did not answer, or \
    refused this host.";

/// Words of `join`.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct JoinArguments {
    /// Addresses of the launching side, tried one after the other
    ///
    /// Default: those in the token file. Example: pipebench join n0:7447 --token-file FILE
    #[arg(value_name = "HOST:PORT")]
    pub addresses: Vec<String>,

    /// File with the token of the run, which only you may be able to read; - is standard input
    ///
    /// pipebench waits until it exists. Example: --token-file ~/token
    #[arg(long, value_name = "FILE")]
    pub token_file: PathBuf,

    /// How long to try
    ///
    /// Example: --deadline 10m
    #[arg(long, value_name = "TIME", default_value = "60s")]
    pub deadline: String,
}
