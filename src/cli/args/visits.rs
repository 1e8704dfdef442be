//! The words of commands that look at the runs of others.

use std::path::PathBuf;

use super::launch::Launch;

/// Which hosts to visit.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct VisitArguments {
    /// Hosts to ask, in the form of --hosts
    ///
    /// Default: this machine. Example: HOSTS is 'n[01-16]'
    #[arg(value_name = "HOSTS")]
    pub hosts: Option<String>,

    /// Host file, as for a run
    ///
    /// Example: --hostfile cluster.txt
    #[arg(
        long,
        value_name = "FILE",
        help_heading = "Hosts",
        conflicts_with = "hosts"
    )]
    pub hostfile: Option<PathBuf>,

    /// Hosts to leave out, in the same form as HOSTS
    ///
    /// Example: -x n07,n[12-14]
    #[arg(short = 'x', long, value_name = "HOSTS", help_heading = "Hosts")]
    pub exclude: Option<String>,

    /// How hosts are reached.
    #[command(flatten)]
    pub launch: Launch,

    /// Print the hosts that pipebench would ask; contact none
    ///
    /// Example: --dry-run
    #[arg(long, help_heading = "Output")]
    pub dry_run: bool,
}

/// What the long help begins with.
pub(super) const STATUS_LONG: &str = "Lists the runs on hosts, of all users: token, who started it, start time, current rates. It reserves \
    nothing and disturbs no run. It removes the leftovers of killed runs.\n\n\
    Times are UTC; runs older than a day also have the date. Runs of other users are listed without their figures, \
    which only their users can read. Exit codes: 0, also if there is no run; 2 no such run; 10 a host cannot be \
    reached (the others are shown); 12 the run belongs to another user; 20 the run did not end in time.";

/// List the runs on hosts and their rates; end one.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct StatusArguments {
    /// Hosts to visit.
    #[command(flatten)]
    pub visit: VisitArguments,

    /// End the run with this token; its first digits are enough, at least 4
    ///
    /// pipebench asks the run's nodes on the named hosts to end; the run's launching side then ends it everywhere,
    /// with exit code 20 and a record of what it measured. Example: --end 3f9a1c
    #[arg(
        long,
        value_name = "TOKEN",
        help_heading = "Action",
        conflicts_with = "json"
    )]
    pub end: Option<String>,

    /// Print JSON
    ///
    /// Example: --json
    #[arg(long, help_heading = "Output")]
    pub json: bool,
}

/// What the long help begins with.
pub(super) const WATCH_LONG: &str = "Shows a run live, once a second, until it ends: what every port sends and receives, and the slowest links \
    with the share of the time that each end waited.\n\n\
    It shows ports and links of the named hosts; one line names the other hosts of the run. \
    On a terminal it redraws the picture in place, worst first, and fits it to the height. Exit codes: 0 the run or \
    the count has ended, or Ctrl-C; 2 no such run; 10 a host cannot be reached (the others are shown).";

/// Show a run live: ports, links, and what they wait for.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct WatchArguments {
    /// Token of the run, as 'pipebench status' lists it; its first digits are enough, at least 4
    ///
    /// Example: RUN is 3f9a1c
    #[arg(value_name = "RUN")]
    pub run: String,

    /// Hosts to visit.
    #[command(flatten)]
    pub visit: VisitArguments,

    /// Pictures to show before it ends, one per second
    ///
    /// Use it in scripts. Default: until the run ends. Example: --count 10
    #[arg(long, value_name = "N", help_heading = "Output")]
    pub count: Option<u64>,
}
