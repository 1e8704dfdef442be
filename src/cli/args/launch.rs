//! The words for how hosts are reached.

use std::path::PathBuf;

/// How hosts are reached: the same words for every command that goes there.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Launch")]
pub(crate) struct Launch {
    /// Any remote-shell command instead of the built-in SSH; %h is the host, %p its port
    ///
    /// Use it for `srun`, `kubectl exec`, a jump host or a wrapper of the site. Without %h the host is appended.
    /// Example: --rsh 'ssh -J gw', --rsh 'kubectl exec -i %h --' or --rsh 'srun --nodes=1 --ntasks=1 --overlap
    /// --cpu-bind=none -w %h'
    #[arg(long, value_name = "CMD")]
    pub rsh: Option<String>,

    /// User to log in as
    ///
    /// Default: the user of ~/.ssh/config, otherwise yours. Example: --user bench
    #[arg(long, value_name = "NAME")]
    pub user: Option<String>,

    /// Private key file; may be repeated
    ///
    /// pipebench asks for a passphrase once, before it contacts any host. Default: the agent, then the keys of
    /// ~/.ssh. Example: --identity ~/.ssh/bench
    #[arg(long, short = 'i', value_name = "FILE", hide_short_help = true)]
    pub identity: Vec<PathBuf>,

    /// File of known host keys
    ///
    /// Default: ~/.ssh/known_hosts and the system's. Example: --known-hosts site_hosts
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    pub known_hosts: Option<PathBuf>,

    /// Ask for a password once, and use it on every host
    ///
    /// Default: keys and agent only. Example: --ask-password
    #[arg(long, hide_short_help = true)]
    pub ask_password: bool,

    /// Hosts to start at the same time
    ///
    /// Use 8 behind a jump host with MaxStartups 10. Example: --fanout 8
    #[arg(long, value_name = "N", default_value_t = 32, hide_short_help = true)]
    pub fanout: usize,

    /// Deadline of a stage; may be repeated
    ///
    /// Stages: resolve 5s, connect 10s, authenticate 20s, deploy 120s, start 20s, prepare 30s, hello 2s (of a link),
    /// silence 10s, drain 30s, collect 10s, volume 24h; and clocks 60s, from one measurement of the clocks to the
    /// next. Example: --deadline connect=30s,deploy=5m
    #[arg(
        long,
        value_name = "STAGE=TIME",
        value_delimiter = ',',
        hide_short_help = true
    )]
    pub deadline: Vec<String>,

    /// Folder on the hosts for the executable
    ///
    /// Default: ~/.cache/pipebench, otherwise /var/tmp or /tmp. Example: --remote-dir /scratch/bench
    #[arg(long, value_name = "DIR", hide_short_help = true)]
    pub remote_dir: Option<String>,

    /// Folder on this machine with executables for hosts of other architectures
    ///
    /// A host of another architecture gets the file `pipebench-node-VERSION-ARCH` from it, as `make dist` names it; ARCH
    /// is what `uname -m` prints there. Example: --remote-binary dist
    #[arg(long, value_name = "DIR", hide_short_help = true)]
    pub remote_binary: Option<PathBuf>,
}
