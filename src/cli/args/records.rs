//! The words of commands that read runs which were kept.

use std::path::{Path, PathBuf};

use crate::report::compare::TOLERANCE;
use crate::report::format::Format;

use super::choice::{Choice, choice};
use super::measurement::Measurement;

impl Choice for Format {
    fn words() -> Vec<(&'static str, Self)> {
        Self::ALL.map(|one| (one.row().word, one)).to_vec()
    }

    fn what(self) -> Option<&'static str> {
        Some(self.row().what)
    }
}

/// Where runs are kept.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct RunFolder {
    /// Folder that contains RUN, if RUN is the beginning of a name
    ///
    /// RUN may also be the path of a record or of a run's folder. Default: the current folder. Example: --folder
    /// results
    #[arg(long, alias = "in", value_name = "DIR")]
    pub folder: Option<PathBuf>,
}

impl RunFolder {
    /// The folder.
    pub(crate) fn path(&self) -> &Path {
        self.folder.as_deref().unwrap_or(Path::new("."))
    }
}

/// Make a report of a stored run.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct ReportArguments {
    /// Which run: a record, a run's folder, or the beginning of its name
    ///
    /// Example: pipebench report pb-20261121
    #[arg(value_name = "RUN")]
    pub run: String,

    /// Format of the report
    ///
    /// Example: --format html
    #[arg(long, short = 'f', value_name = "FORMAT", default_value = "text", value_parser = choice::<Format>())]
    pub format: Format,

    /// File to write; - is standard output
    ///
    /// Example: --output sheet.html
    #[arg(long, short = 'o', value_name = "FILE", default_value = "-")]
    pub output: PathBuf,

    /// Print the page to a PDF instead, with an installed Chromium
    ///
    /// Example: --pdf sheet.pdf
    #[arg(long, value_name = "FILE", conflicts_with_all = ["format", "output"])]
    pub pdf: Option<PathBuf>,

    /// An earlier run to compare it with, in text and on the page
    ///
    /// Example: --baseline pb-20261101
    #[arg(long, value_name = "RUN")]
    pub baseline: Option<String>,

    /// A run whose curves of patterns appear in the same plots on the page; may be repeated
    ///
    /// For runs of `pipebench imb`. Example: --beside pb-20261101
    #[arg(long, value_name = "RUN")]
    pub beside: Vec<String>,

    /// Replace hosts, addresses and site, for a report that others may see
    ///
    /// Each host has the same new name in the whole report. Users, paths, the command, the sealed text, and names of
    /// switches, ports and groups go, too. Read errors and warnings before you pass the report on: they can quote
    /// another program that names what pipebench does not know. Example: --anonymise
    #[arg(long)]
    pub anonymise: bool,

    /// Where runs are.
    #[command(flatten)]
    pub within: RunFolder,
}

/// List the runs stored in a folder.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct ListArguments {
    /// Folder of the runs: the DIR of --folder
    ///
    /// Example: pipebench list results
    #[arg(value_name = "DIR", default_value = ".")]
    pub place: PathBuf,

    /// The same, as in other commands
    ///
    /// Example: --folder results
    #[arg(long, alias = "in", value_name = "DIR", conflicts_with = "place")]
    pub folder: Option<PathBuf>,
}

/// Compare a run with a later one.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct CompareArguments {
    /// The earlier run
    ///
    /// Example: pipebench compare pb-20261101 pb-20261121
    #[arg(value_name = "BEFORE")]
    pub before: String,

    /// The later run
    ///
    /// Example: pipebench compare pb-20261101 pb-20261121
    #[arg(value_name = "NOW")]
    pub now: String,

    /// How much less a port may carry, in percent
    ///
    /// Example: --tolerance 2
    #[arg(long, value_name = "PERCENT", default_value_t = TOLERANCE)]
    pub tolerance: f64,

    /// Where runs are.
    #[command(flatten)]
    pub within: RunFolder,
}

/// Combine several cablings of a switch into one sheet.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct MergeArguments {
    /// The runs, two or more
    ///
    /// Example: pipebench merge pb-20261120 pb-20261121
    #[arg(value_name = "RUN", num_args = 2.., required = true)]
    pub runs: Vec<String>,

    /// Where runs are.
    #[command(flatten)]
    pub within: RunFolder,
}

/// What the long help of `compare` says of its exit code.
pub(super) const COMPARE_LONG: &str = "Compares a run with a later one, port by port, and reports each fault: whether it followed the host \
    that was moved to another switch port, or stayed with the port.\n\n\
    Exit codes: 0; 1 a port carries less than before by more than --tolerance, or there is a new fault; 2 bad usage.";

/// What the long help of `merge` says.
pub(super) const MERGE_LONG: &str = "Combines several runs into one sheet, sorted by switch port: with half as many hosts as ports, load one half, plug \
    the hosts into the other, load that, and merge. Host files must name the ports (switchport=).\n\n\
    Exit codes: that of the worst run; 2 bad usage.";

/// What the long help begins with.
pub(super) const RETEST_LONG: &str = "Retests the faults of a run: each link that the run tested in isolation, with the same hosts and options. \
    First move the cable, and name its new port with --moved; the comparison at the end shows whether the fault followed the host or \
    stayed with the switch port.\n\n\
    The retest reads the command of the run again: its host file must still exist. It contacts only the hosts that it needs. \
    Exit codes are those of a run.";
/// What `retest` says of --folder, first in the short help.
const RETEST_FOLDER: &str = "Folder that contains RUN, and in which to keep this run";
const RETEST_FOLDER_LONG: &str = "Folder that contains RUN, and in which to keep this run\n\n\
    Default: RUN is a path, or is in the current folder, and this run goes where the command of that run kept its own, if it did. \
    Example: --folder results";

/// Retest the faults of a run.
#[derive(Debug, Clone, clap::Args)]
#[command(mut_arg("folder", |folder| folder.alias("in").help(RETEST_FOLDER).long_help(RETEST_FOLDER_LONG)))]
pub(crate) struct RetestArguments {
    /// Which run: a record, a run's folder, or the beginning of its name
    ///
    /// A name is searched in the folder of --folder, or in the current one. Example: pipebench retest pb-20261121
    #[arg(value_name = "RUN")]
    pub run: String,

    /// Switch port that a host is now plugged into; may be repeated
    ///
    /// Otherwise the switch port is that of the host file (switchport=). Example: --moved n07=Eth1/8
    #[arg(long, value_name = "HOST=PORT", value_delimiter = ',')]
    pub moved: Vec<String>,

    /// Folder in which this run is kept, if it is not that of --folder
    #[arg(long, short = 'o', value_name = "DIR", hide = true)]
    pub output: Option<PathBuf>,

    /// What every measurement understands. --folder also says where RUN is.
    #[command(flatten)]
    pub results: Measurement,
}
