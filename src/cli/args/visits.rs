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

    /// Host file, in the form of the plain command's
    ///
    /// No default. Example: --hostfile cluster.txt
    #[arg(
        long,
        value_name = "FILE",
        help_heading = "Hosts",
        conflicts_with = "hosts"
    )]
    pub hostfile: Option<PathBuf>,

    /// Hosts to leave out, in the same form as HOSTS
    ///
    /// No default. Example: -x n07,n[12-14]
    #[arg(short = 'x', long, value_name = "HOSTS", help_heading = "Hosts")]
    pub exclude: Option<String>,

    /// How hosts are reached.
    #[command(flatten)]
    pub launch: Launch,

    /// Say which hosts would be asked; contact nobody
    ///
    /// Example: --dry-run
    #[arg(long, help_heading = "Output")]
    pub dry_run: bool,
}

/// What the long help begins with.
pub(super) const STATUS_LONG: &str = "Lists the runs alive on hosts, whoever started them: token, by whom, since when, what they move \
    now. Takes nothing and disturbs nothing. Leftovers of killed runs are swept on the way.\n\n\
    The clock is UTC; the date is shown from a day on. Runs of other users are listed, but their figures cannot \
    be read. Exit codes: 0, also if nothing runs; 2 no such run; 10 hosts that cannot be reached (the others are \
    shown); 12 a run that is not yours; 20 it did not end in time.";

/// List the runs alive on hosts, and what they move; end one.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct StatusArguments {
    /// Hosts to visit.
    #[command(flatten)]
    pub visit: VisitArguments,

    /// End the run with this token; its first digits will do, at least 4
    ///
    /// Its nodes on the named hosts are asked to end, and its launching side then ends it everywhere, with exit code
    /// 20 and a record of what there was. No default. Example: --end 3f9a1c
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
pub(super) const WATCH_LONG: &str = "Shows the live picture of a run each second, until the run ends: what every port sends and receives, \
    and the slowest links with the share of the time that each end waited.\n\n\
    Only ports and links of the named hosts are shown; those of other hosts of the run are named in one line. \
    On a terminal the picture is drawn in place and as high as the terminal, the worst first. Exit codes: 0 when \
    the run or the count has ended, or at Ctrl-C; 2 no such run; 10 hosts that cannot be reached (the others are \
    shown).";

/// Show the live picture of a run: ports, links, and what they wait for.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct WatchArguments {
    /// Token of the run, as 'pipebench status' lists it; its first digits will do, at least 4
    ///
    /// No default. Example: RUN is 3f9a1c
    #[arg(value_name = "RUN")]
    pub run: String,

    /// Hosts to visit.
    #[command(flatten)]
    pub visit: VisitArguments,

    /// Pictures to show before leaving, one a second
    ///
    /// Use it in scripts. Default: until the run ends. Example: --count 10
    #[arg(long, value_name = "N", help_heading = "Output")]
    pub count: Option<u64>,
}
