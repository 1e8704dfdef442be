//! The words that name hosts.

use std::path::PathBuf;

/// Hosts of a run.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "Hosts")]
pub(crate) struct HostWords {
    /// Hosts of the run: n1,n2,n3  n[01-16,18]  rack[1-2]n[1-8]  user@host:port  local:3  auto
    ///
    /// Use it for every run, unless --hostfile names the hosts. `local:3` is three nodes on this machine, without
    /// SSH. `auto` takes the hosts of the job of Slurm, PBS, Grid Engine, LSF or OAR in which pipebench runs; in a job
    /// of Slurm one `srun` starts all nodes. Repeat a name for two nodes on it. Example: --hosts 'n[01-16]'
    #[arg(long = "hosts", value_name = "HOSTS")]
    pub list: Option<String>,

    /// A line per node: name [user=] [port=] [data=] [speed=] [mtu=] [switch=] [switchport=] [group=] [nodes=]
    ///
    /// Use it when hosts differ, or to specify ports: `n07 data=10.1.0.7 speed=100G mtu=9000 switchport=Eth1/7`. `#`
    /// begins a comment; `slots=` is ignored. Example: --hostfile cluster.txt
    #[arg(long = "hostfile", value_name = "FILE", conflicts_with = "list")]
    pub file: Option<PathBuf>,

    /// Hosts to leave out, in the same form as --hosts
    ///
    /// Use it to leave a host under repair out of a list. Example: -x n07,n[12-14]
    #[arg(short = 'x', long, value_name = "HOSTS")]
    pub exclude: Option<String>,

    /// Lines of a host file that a plan file holds.
    #[arg(skip)]
    pub lines: Option<String>,

    /// Names of the nodes that joined, where no other word names hosts.
    #[arg(skip)]
    pub joined: Vec<String>,
}

impl HostWords {
    /// True if a word names the hosts of the run.
    pub(crate) fn are_given(&self) -> bool {
        self.list.is_some() || self.file.is_some() || self.lines.is_some()
    }
}
