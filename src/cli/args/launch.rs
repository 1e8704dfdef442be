//! The words for how hosts are reached.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

/// How hosts are reached: the same words for every command that goes there.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Launch")]
pub(crate) struct Launch {
    /// Any remote-shell command instead of the built-in SSH; %h is the host, %p its port
    ///
    /// Use it for `kubectl exec`, a jump host or a wrapper of the site. Without %h the host is appended. Example:
    /// --rsh 'ssh -J gw', --rsh 'kubectl exec -i %h --' or --rsh 'srun --nodes=1 --ntasks=1 --overlap
    /// --cpu-bind=none -w %h'
    #[arg(long, value_name = "CMD")]
    pub rsh: Option<String>,

    /// One command that starts the nodes of all hosts; %H is the hosts (n1,n2,n3), %N their number
    ///
    /// pipebench appends `EXECUTABLE join ADDRESS... --deadline TIME --token-file -` and writes the token to the
    /// command's standard input; the nodes connect to the launching side (--listen). The executable must be on all
    /// hosts, at the same path. `clush` and `srun` pass standard input to all hosts; give --token-file with a command
    /// that does not, such as `pdsh`, `pbsdsh` and `mpiexec`. All hosts must start at once: `clush` and `pdsh` need
    /// -f %N. In a job of Slurm --hosts auto uses `srun` in this way. Example: --starter 'clush -f %N -w %H',
    /// --starter 'mpiexec -hosts %H -n %N' or --starter 'srun -N%N -n%N'
    #[arg(long, value_name = "CMD", conflicts_with = "rsh")]
    pub starter: Option<String>,

    /// Wait for N nodes that something else starts with `pipebench join`
    ///
    /// pipebench prints the command to start on each host. Without --hosts and --hostfile the hosts are those that
    /// join. It waits 10 minutes, or as --deadline connect says. Example: --await 8
    #[arg(
        long = "await",
        value_name = "N",
        conflicts_with_all = ["rsh", "starter"],
        value_parser = clap::value_parser!(u16).range(1..=10_000)
    )]
    pub awaited: Option<u16>,

    /// Port at which nodes join, and its address
    ///
    /// It is open only until all nodes have joined. Default: any free port, on all addresses. Example: --listen 7447
    /// or --listen 10.0.0.1:7447
    #[arg(
        long,
        value_name = "[ADDRESS:]PORT",
        value_parser = listen,
        hide_short_help = true
    )]
    pub listen: Option<SocketAddr>,

    /// File with the token by which nodes join, which only you may be able to read
    ///
    /// pipebench makes a file that does not exist, with token and addresses, and removes it at the end; it reads one
    /// that exists. A token is for one run. Default: standard input of --starter; with --await, a file in
    /// ~/.cache/pipebench. Example: --token-file ~/token
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    pub token_file: Option<PathBuf>,

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
    /// next. Nodes that join have 60s to connect. Example: --deadline connect=30s,deploy=5m
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

impl Launch {
    /// True if an option has a meaning for SSH alone.
    pub(crate) fn has_ssh(&self) -> bool {
        let names = [self.user.is_some(), self.known_hosts.is_some()];
        names.contains(&true) || self.ask_password || !self.identity.is_empty()
    }
}

/// Reads an address to listen on. A port alone means all addresses.
fn listen(text: &str) -> Result<SocketAddr, String> {
    let port = text.parse::<u16>().ok();
    let all = port.map(|port| SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), port));
    let given = all.or_else(|| text.parse().ok());
    given.ok_or_else(|| "not a port or ADDRESS:PORT (example: 7447 or 10.0.0.1:7447)".to_owned())
}
