//! The words that every measurement understands.

use std::path::PathBuf;

/// Which hosts a run may lack, where its results go, and what is printed.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "Output")]
pub(crate) struct Measurement {
    /// Continue without hosts that cannot be reached or are lost
    ///
    /// They are left out and the rest run; the summary counts them. At least two must remain. More than SHARE of the
    /// hosts end the run. Without this option the first failure ends a run on up to 100 hosts, and of more hosts 1% may
    /// fail, unless links wait for each other. Ranks continue without a host only if it is lost before they measure;
    /// latencies always continue. Example: --keep-going=1%
    #[arg(
        long,
        value_name = "SHARE",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "100%",
        value_parser = percent,
        help_heading = "Launch"
    )]
    pub keep_going: Option<usize>,

    /// Write the results as a table; - is standard output
    ///
    /// Example: --csv run.csv
    #[arg(long, value_name = "FILE")]
    pub csv: Option<PathBuf>,

    /// Write the record of the run; - is standard output
    ///
    /// With - everything else is printed on standard error. Example: --json run.json
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,

    /// Write every event of the run as a line of JSON as it comes; - is standard output
    ///
    /// The lines are those of the journal (docs/record.md), and each second. With - everything else goes to standard error.
    /// Example: --json-stream -
    #[arg(long, value_name = "FILE")]
    pub json_stream: Option<PathBuf>,

    /// End with code 3 if nothing was judged
    ///
    /// Use it in CI, where a run that judges nothing must not pass. Example: --fail-unless-judged
    #[arg(long)]
    pub fail_unless_judged: bool,

    /// Write record, table and summary to a folder of the run in DIR
    ///
    /// During the run a journal grows there, which survives a crash of the launching host. Example: --folder results
    #[arg(long, value_name = "DIR")]
    pub folder: Option<PathBuf>,

    /// An earlier run of the same kind to compare this one with
    ///
    /// A record, the folder of a run, or the beginning of a run's name in the folder of --folder. Example: --baseline
    /// results/pb-20261101-090000-3f9a1c
    #[arg(long, value_name = "RUN")]
    pub baseline: Option<String>,

    /// Resume an aborted run after its last completed test, round or table
    ///
    /// A record, the folder of a run, or the beginning of a run's name in the folder of --folder. Hosts, options and
    /// executable must equal those of that run. A latency run cannot be resumed. Example: --resume pb-20261121
    #[arg(long, value_name = "RUN")]
    pub resume: Option<String>,

    /// Print only the result
    ///
    /// No options, hosts, notices or progress. Example: --quiet
    #[arg(long, short = 'q')]
    pub quiet: bool,

    /// Start without a question
    ///
    /// On a terminal, a run on more than 8 hosts shows its plan and asks before it starts. Example: --yes
    #[arg(long, short = 'y')]
    pub yes: bool,

    /// Print plan, processes, memory, volume and duration; start nothing
    ///
    /// With --baseline, facts of the hosts come from that record (of a run or of a check), as far as all hosts are in
    /// it: links, processes and their processors at fast ports are then those of a run. Example: --dry-run
    #[arg(long)]
    pub dry_run: bool,

    /// The folder of the run, which is there and has its name (for runs that a runner starts)
    #[arg(long, value_name = "DIR", hide = true, conflicts_with = "folder")]
    pub run_folder: Option<PathBuf>,

    /// End when the process of this number does, which is the parent (for runs that a runner starts)
    #[arg(long, value_name = "PID", hide = true)]
    pub parent: Option<i32>,
}

/// Reads a share of hosts: `1%`.
fn percent(text: &str) -> Result<usize, String> {
    let number = text.strip_suffix('%').map(str::parse::<usize>);
    match number {
        Some(Ok(percent @ 0..=100)) => Ok(percent),
        _ => Err("not a whole number of percent (example: 1%)".to_owned()),
    }
}

impl Measurement {
    /// These words, and where they leave something open those of a plan file or of an earlier command.
    pub(crate) fn over(&self, under: &Self) -> Self {
        Self {
            keep_going: self.keep_going.or(under.keep_going),
            folder: self.folder.clone().or_else(|| under.folder.clone()),
            baseline: self.baseline.clone().or_else(|| under.baseline.clone()),
            quiet: self.quiet || under.quiet,
            fail_unless_judged: self.fail_unless_judged || under.fail_unless_judged,
            ..self.clone()
        }
    }
}
