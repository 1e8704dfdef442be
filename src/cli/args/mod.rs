//! The words of the command line and their help. What they mean together is checked in `resolve/`.

use std::path::PathBuf;

mod check;
mod choice;
mod completions;
mod help;
mod hosts;
pub(super) mod imb;
mod join;
pub(super) mod latency;
mod launch;
pub(super) mod linktest;
mod measurement;
mod order;
mod plan;
mod ranks;
mod records;
mod sockets;
mod visits;
#[cfg(feature = "web")]
mod web;

use clap::parser::ValueSource;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand as ClapSubcommand};

pub(super) use choice::{
    AskedDatapath, AskedWorkers, Choice, FabricKind, HostMap, Mode, RankTransport,
};
pub(super) use completions::Shell;
pub(super) use help::{command, command_of_pages, short_command};
pub(super) use hosts::HostWords;
pub(super) use join::JoinArguments;
pub(super) use launch::Launch;
pub(super) use measurement::Measurement;
pub(super) use order::{FabricOrder, Order};
pub(super) use plan::{InitArguments, NOT_IN_PLANS, RunArguments};
pub(super) use ranks::RankWords;
pub(super) use records::{
    CompareArguments, ListArguments, MergeArguments, ReportArguments, RetestArguments,
};
pub(super) use sockets::Sockets;
pub(super) use visits::{StatusArguments, VisitArguments, WatchArguments};
#[cfg(feature = "web")]
pub(super) use web::{CgiArguments, KeepArguments, ServeArguments};

use choice::choice;
use imb::ImbArguments;
use latency::LatencyArguments;
use linktest::LinktestArguments;

use crate::controller::Hold;
use crate::plan::{Coupling, Profile, Transport, Verify};

/// Tests a network switch under full load from ordinary hosts over TCP.
#[derive(Debug, Clone, Parser)]
#[command(
    name = "pipebench",
    version,
    about = "Tests a network switch under full load from ordinary hosts over TCP",
    long_about = "Tests a network switch under full load: every port, both directions, at once, from ordinary Linux hosts over TCP.\n\n\
        One command starts a node on every host over SSH (the executable copies itself there), links every node \
        with every other through P phases, streams data, and reports what each port carries and which links limit it. \
        The hosts need no MPI, no daemon and no root. Only a cached copy of the executable stays on them.",
    args_conflicts_with_subcommands = true,
    disable_version_flag = true,
    max_term_width = 110
)]
pub(crate) struct Arguments {
    /// Other commands.
    #[command(subcommand)]
    pub subcommand: Option<Subcommand>,

    /// Print the version
    #[arg(long, short = 'V')]
    pub version: bool,

    /// With --version: also print commit, compiler, SHA-256 and third-party licences
    ///
    /// Use it to compare the builds of two hosts. Example: pipebench --version --verbose
    #[arg(long, requires = "version")]
    pub verbose: bool,

    /// Options of the plain command.
    #[command(flatten)]
    pub plain: PlainArguments,
}

/// Options of the plain command, which `check` takes, too.
#[derive(Debug, Clone, clap::Args)]
// The older spelling of --folder.
#[command(mut_arg("folder", |folder| folder.alias("output").short_alias('o')))]
pub(crate) struct PlainArguments {
    /// Hosts of the run.
    #[command(flatten)]
    pub hosts: HostWords,

    /// Phases of the pipeline on every node, at least 2
    ///
    /// Use 2, source and sink, to find the direction of a fault. With 3 or more, the phases between source and sink
    /// relay every block, which loads the switch as a relay would. Example: --phases 3
    #[arg(
        long,
        short = 'p',
        value_name = "P",
        default_value_t = 2,
        help_heading = "Shape"
    )]
    pub phases: usize,

    /// Set of tests: quick, acceptance or soak
    ///
    /// `quick` is one test of the given shape, a screening. `acceptance` is an acceptance test: every permutation for
    /// 30 s, each again for 10 s at 95 % of the ceiling to detect loss, and the mesh three times for 60 s; --time
    /// shortens it, and the report says so. Above 64 hosts it runs a sample of the permutations, drawn by --seed;
    /// --pattern rotate runs all. `soak` is the mesh for 24 h. --dry-run prints the duration. Example:
    /// --profile acceptance
    #[arg(
        long,
        value_name = "quick|acceptance|soak",
        default_value = "quick",
        help_heading = "Shape", value_parser = choice::<Profile>(), hide_possible_values = true)]
    pub profile: Profile,

    /// Which nodes send to which: a pattern, or a file with pairs
    ///
    /// `all-to-all` is the pipeline's own: every node sends to every node and to itself; `mesh` leaves itself out.
    /// Permutations give each port one pair in each direction: `ring`, `shift:K`, and `rotate`, which runs all of
    /// them one after the other. `bisection` loads two halves against each other, `bisection:one-way` from the first
    /// half to the second; `pairs` loads both directions between neighbours. With two phases only: `incast:K`, K
    /// nodes send to the first one; `outcast:K`, the reverse; `hol`, A sends to C and D at half of its rate each and
    /// B sends to D at full rate: A to C must not slow down. A FILE has one line `FROM TO [RATE]` per pair. Example:
    /// --pattern rotate
    #[arg(
        long,
        value_name = "PATTERN|FILE",
        default_value = "all-to-all",
        help_heading = "Shape"
    )]
    pub pattern: String,

    /// Links per pair of nodes and rail
    ///
    /// Use more where one TCP connection does not fill the port, or where hashing selects the path (several uplinks).
    /// Default: 1, or more where a port would have fewer than one connection per 25 Gbit/s of its speed, or fewer
    /// than four per member of a bond. Example: --streams 4
    #[arg(long, value_name = "K", help_heading = "Shape")]
    pub streams: Option<usize>,

    /// Payload of a block, in bytes (64K, 1MiB)
    ///
    /// Small blocks stay in the CPU cache, where copies cost least; large blocks lower the cost of passing pages; 16
    /// KiB halves the rate. Default: 256K, or 1M with --datapath zerocopy; pipebench halves it until the buffers of
    /// all nodes of a host need at most 1.5 GiB and at most half of the host's free memory. Example: --block-size 1M
    #[arg(long, value_name = "SIZE", help_heading = "Shape")]
    pub block_size: Option<String>,

    /// What a sender waits for: its own block, or the whole buffer
    ///
    /// `block` lets every chain of links run at its own pace. `buffer` is the original benchmark: all links run at
    /// the pace of the slowest. Example: --coupling buffer
    #[arg(
        long,
        value_name = "block|buffer",
        default_value = "block",
        help_heading = "Shape", value_parser = choice::<Coupling>(), hide_possible_values = true)]
    pub coupling: Coupling,

    /// Where blocks come from: memory, or a file of each node
    ///
    /// With a file the run lasts as long as the longest file; a node whose file has ended sends empty blocks. `%n` in
    /// the name is the node's label. Example: --source /scratch/data-%n
    #[arg(
        long,
        value_name = "memory|FILE",
        default_value = "memory",
        help_heading = "Shape"
    )]
    pub source: String,

    /// Where blocks go: memory, a file of each node, or discard
    ///
    /// With an odd number of phases each node gets its own file back, byte for byte. `discard` counts blocks and
    /// never copies them. Example: --sink /scratch/copy-%n
    #[arg(
        long,
        value_name = "memory|FILE|discard",
        default_value = "memory",
        help_heading = "Shape"
    )]
    pub sink: String,

    /// Which blocks receivers check against their checksum: none, sample (1 in 16) or full
    ///
    /// Receivers always check sequence and origin of every block. Full costs about a tenth more CPU time with
    /// --datapath copy and a third more with zerocopy; sample costs next to nothing. Example: --verify full
    #[arg(
        long,
        value_name = "none|sample|full",
        default_value = "none",
        help_heading = "Shape", value_parser = choice::<Verify>(), hide_possible_values = true)]
    pub verify: Verify,

    /// Transport of links: auto, tcp or unix
    ///
    /// `auto` uses TCP between nodes and Unix-domain sockets within a node; `tcp` uses TCP everywhere; `unix` needs
    /// all nodes on one machine. Example: --transport tcp
    #[arg(
        long,
        value_name = "auto|tcp|unix",
        default_value = "auto",
        help_heading = "Shape", value_parser = choice::<Transport>(), hide_possible_values = true)]
    pub transport: Transport,

    /// How payload moves: auto, copy or zerocopy
    ///
    /// `copy` reads and writes every block at both ends of each link. `zerocopy` sends pages from memory, and phases
    /// between source and sink pass pages from link to link without reading the payload (with --verify they read it,
    /// and still pass the pages); it needs a third to two thirds of the CPU time of copy. `auto` is zerocopy where
    /// nothing needs the payload and a host cannot fill its ports with copies, by an estimate before the run, and copy
    /// elsewhere. Example: --datapath zerocopy
    #[arg(
        long,
        value_name = "PATH",
        default_value = "copy",
        help_heading = "Shape", value_parser = choice::<AskedDatapath>(), hide_possible_values = true)]
    pub datapath: AskedDatapath,

    /// Which processes serve links: auto, peer, slot or shared
    ///
    /// `peer` is one process per end of a link. `slot` is one process per slot: in the phases between source and sink
    /// it copies block after block from one link to the next. `shared` is one process for all links of a phase.
    /// `auto` selects shared above 1024 link ends on a host (256 where several nodes share it and slot does not
    /// apply), slot where a host has two or more such relays per processor, and peer elsewhere. Example: --workers
    /// shared
    #[arg(
        long,
        value_name = "WHO",
        default_value = "auto",
        help_heading = "Shape", value_parser = choice::<AskedWorkers>(), hide_possible_values = true)]
    pub workers: AskedWorkers,

    /// Place shared buffers in huge pages that the hosts have reserved
    ///
    /// Use it where `sysctl vm.nr_hugepages` has reserved some; a host with too few of them uses ordinary pages, and
    /// a note says so. Example: --huge
    #[arg(long, help_heading = "Shape")]
    pub huge: bool,

    /// Processors that senders and receivers run on: auto, none, or a list (0-3,8)
    ///
    /// `auto` pins the processes that handle the same blocks to one processor if nodes share a host and their
    /// processes outnumber its processors. At ports of 100 Gbit/s or more it keeps processes on the processors of the
    /// card's NUMA node, beside those that handle its interrupts. Otherwise the scheduler decides. Example: --pin 0-15
    #[arg(
        long,
        value_name = "WHICH",
        default_value = "auto",
        help_heading = "Shape"
    )]
    pub pin: String,

    /// Longest duration of all tests and retests together, from the first connection on (10m)
    ///
    /// A test that would end later does not start. The verdict covers what was measured by then; what was not
    /// measured never passes. Default: no limit; --dry-run prints the duration of the tests, and a notice that of the
    /// retests before they start. Example: --max-time 10m
    #[arg(long, value_name = "TIME", help_heading = "Bounds")]
    pub max_time: Option<String>,

    /// How long to measure, after the warm-up (10s, 2m)
    ///
    /// All nodes count the same window. 10 s is a screening; for acceptance use 30 s or more. Default: 10s. Example:
    /// --time 30s
    #[arg(
        long,
        short = 't',
        value_name = "TIME",
        help_heading = "Bounds",
        conflicts_with = "buffers"
    )]
    pub time: Option<String>,

    /// How long to run before measuring (1s, 500ms)
    ///
    /// TCP finds its rate in this time. Default: 1s. Example: --warmup 5s
    #[arg(
        long,
        value_name = "TIME",
        help_heading = "Bounds",
        conflicts_with = "buffers"
    )]
    pub warmup: Option<String>,

    /// Number of blocks on every link, instead of a time
    ///
    /// Use it to move a known volume; rates are bytes divided by the time of the last link to finish. Example:
    /// --buffers 10000
    #[arg(long, value_name = "N", help_heading = "Bounds")]
    pub buffers: Option<u64>,

    /// How data ports and sockets are set up.
    #[command(flatten)]
    pub sockets: Sockets,

    /// What the run is judged by.
    #[command(flatten)]
    pub order: Order,

    /// How hosts are reached.
    #[command(flatten)]
    pub launch: Launch,

    /// What every measurement understands.
    #[command(flatten)]
    pub results: Measurement,

    /// Write what every link received, second by second
    ///
    /// The record keeps a bounded series per port and of the 64 worst links; this file has one line per link and
    /// second. Example: --samples samples.csv
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub samples: Option<PathBuf>,

    /// Write the rate of every link of every test
    ///
    /// The record keeps every link of a test with at most 8192 links, and sums and the 64 slowest links of a larger
    /// one; this file has one line per link. Example: --matrix matrix.csv
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub matrix: Option<PathBuf>,

    /// Seed of the payload; the record keeps it
    ///
    /// It also draws the sample of permutations of an acceptance of more than 64 hosts. Default: 1 for such an
    /// acceptance, else a new one for each run. Example: --seed 7
    #[arg(long, value_name = "N", help_heading = "Bounds")]
    pub seed: Option<u64>,

    /// Stand still at a stage (for tests)
    #[arg(long, value_name = "STAGE", hide = true, value_parser = choice::<Hold>())]
    pub hold: Option<Hold>,
}

/// Other commands.
#[derive(Debug, Clone, ClapSubcommand)]
pub(crate) enum Subcommand {
    /// Load a switch and judge it; the same as pipebench without a command
    #[command(long_about = LOAD_LONG)]
    Load(Box<PlainArguments>),
    /// Run a plan file
    #[command(long_about = plan::LONG)]
    Run(RunArguments),
    /// Write a plan file with comments, for you to fill in
    #[command(long_about = plan::INIT_LONG)]
    Init(Box<InitArguments>),
    /// Check hosts, ports and pairs before a run
    #[command(long_about = check::LONG)]
    Check {
        /// Plan file whose hosts, data ports and criteria to check
        ///
        /// The plan sets hosts and options; only options of `pipebench run` can be added. Example: pipebench check
        /// plan.toml
        #[arg(value_name = "PLAN")]
        plan: Option<PathBuf>,
        /// Options of the plain command.
        #[command(flatten)]
        plain: Box<PlainArguments>,
    },
    /// LinkTest without MPI: measure the link of every pair of ranks
    #[command(long_about = linktest::LONG)]
    Linktest(Box<LinktestArguments>),
    /// Intel MPI Benchmarks without MPI: their patterns and tables
    #[command(long_about = imb::LONG)]
    Imb(Box<ImbArguments>),
    /// Measure the latencies of a fabric in a few rounds; find slow cables
    #[command(long_about = latency::LONG)]
    Latency(Box<LatencyArguments>),
    /// List the runs on hosts and their rates; end one
    #[command(long_about = visits::STATUS_LONG)]
    Status(StatusArguments),
    /// Show a run live: ports, links, and what they wait for
    #[command(long_about = visits::WATCH_LONG)]
    Watch(WatchArguments),
    /// Join a waiting run as the node of this host
    #[command(long_about = join::LONG)]
    Join(JoinArguments),
    /// Report a stored run: text, page, table, JUnit, OpenMetrics
    Report(ReportArguments),
    /// Retest the faults of a run, after you moved a cable
    #[command(long_about = records::RETEST_LONG)]
    Retest(RetestArguments),
    /// List the runs stored in a folder
    List(ListArguments),
    /// Compare a run with a later one; did the fault follow the host?
    #[command(long_about = records::COMPARE_LONG)]
    Compare(CompareArguments),
    /// Combine several cablings of a switch into one sheet
    #[command(long_about = records::MERGE_LONG)]
    Merge(MergeArguments),
    /// Serve a web page that starts, watches and reads runs
    #[cfg(feature = "web")]
    #[command(long_about = web::SERVE_LONG)]
    Serve(ServeArguments),
    /// Serve the same page as a CGI program of any web server
    #[cfg(feature = "web")]
    #[command(long_about = web::CGI_LONG)]
    Cgi(CgiArguments),
    /// Keep a run that was asked for from a browser (started by pipebench itself)
    #[cfg(feature = "web")]
    #[command(hide = true)]
    Keep(KeepArguments),
    /// Serve as a node on standard input and output (started by pipebench itself)
    #[command(hide = true)]
    Node,

    /// Print the completions of a shell: bash, fish or zsh
    Completions {
        /// Which shell
        shell: Shell,
    },

    /// Print a manual page: pipebench manual | man -l -
    Manual {
        /// Command whose page to print, such as linktest or latency-run
        ///
        /// Default: the page of pipebench. Example: pipebench manual linktest | man -l -
        #[arg(value_name = "COMMAND")]
        command: Option<String>,
    },
}

impl Arguments {
    /// The arguments, where `load` has become the command without a name.
    pub(super) fn settled(self) -> Self {
        match self.subcommand {
            Some(Subcommand::Load(plain)) => Self {
                plain: *plain,
                subcommand: None,
                ..self
            },
            _ => self,
        }
    }
}

/// Options of the plain command from words that hold nothing else.
pub(super) fn parsed(words: &[String]) -> Result<PlainArguments, clap::Error> {
    Ok(commanded(words)?.plain)
}

/// The command that words name, with its options.
pub(super) fn commanded(words: &[String]) -> Result<Arguments, clap::Error> {
    let named = std::iter::once("pipebench").chain(words.iter().map(String::as_str));
    Arguments::try_parse_from(named)
}

/// What the long help of `load` says.
const LOAD_LONG: &str = "Loads every port of a switch at once and judges what each carried: pipebench without a command does the same.";

/// Sets the arguments that the words name, and no others.
pub(super) fn update(arguments: &mut PlainArguments, words: &[String]) -> Result<(), clap::Error> {
    let named = std::iter::once("pipebench").chain(words.iter().map(String::as_str));
    let mut matches = Arguments::command_for_update().try_get_matches_from(named)?;
    // A default would replace what was set before.
    let ids: Vec<clap::Id> = matches.ids().cloned().collect();
    for id in ids {
        if matches.value_source(id.as_str()) == Some(ValueSource::DefaultValue) {
            let (Ok(_) | Err(_)) = matches.try_clear_id(id.as_str());
        }
    }
    arguments.update_from_arg_matches(&matches)
}

/// True if an option has this name, or had it in an older version.
fn is_named(option: &clap::Arg, name: &str) -> bool {
    let older = option.get_all_aliases().unwrap_or_default();
    option.get_long() == Some(name) || older.contains(&name)
}

/// Index of the first of these options of the plain command that means the same as one before it.
pub(super) fn repeated(options: &[&str]) -> Option<usize> {
    let command = Arguments::command();
    let id = |name: &str| {
        let mut known = command.get_arguments();
        known
            .find(|option| is_named(option, name))
            .map(clap::Arg::get_id)
    };
    let ids: Vec<_> = options.iter().map(|name| id(name)).collect();
    (1..ids.len()).find(|at| ids[*at].is_some() && ids[..*at].contains(&ids[*at]))
}

/// The first of these options of the plain command that cannot be given together with another one, and that one.
pub(super) fn conflict<'a>(options: &[&'a str]) -> Option<(&'a str, &'a str)> {
    let command = Arguments::command();
    options.iter().find_map(|name| {
        let option = command
            .get_arguments()
            .find(|known| is_named(known, name))?;
        let others = command.get_arg_conflicts_with(option);
        let is_other = |name: &&&str| others.iter().any(|other| is_named(other, name));
        Some((*name, *options.iter().find(is_other)?))
    })
}
