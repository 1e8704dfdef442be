//! The words of `pipebench linktest`: LinkTest's own, and those of hosts and ports.

use std::path::PathBuf;

use clap::Subcommand;

use super::choice::{Mode, choice};
use super::hosts::HostWords;
use super::launch::Launch;
use super::measurement::Measurement;
use super::order::Order;
use super::ranks::RankWords;
use super::sockets::Sockets;

/// What the long help begins with.
pub(crate) const LONG: &str = "Measures the links between all pairs of ranks, as LinkTest does, without MPI: many pairs at the same time, each in both directions, step by step \
    until all have met; then the slowest ones once more, alone. Any number of ranks from 2 on; with an odd one, one rests in each step.\n\n\
    The options are LinkTest's, and so are the lines that it prints and the file that it writes (a SION container, as of LinkTest 2.1.16). `pipebench linktest show FILE` \
    and `export FILE` read such files, whoever wrote them.\n\n\
    Times are seconds per message: (t1-t0)/2n where messages are bounced n times, (t1-t0)/n where they go one way. Bandwidths are bytes of a message, of both of them \
    with --bidirectional, by that time, in binary units.";

/// Measure every pair of links, in LinkTest's patterns and file, without MPI.
#[derive(Debug, Clone, clap::Args)]
#[command(args_conflicts_with_subcommands = true, disable_version_flag = true)]
pub(crate) struct LinktestArguments {
    /// Result files.
    #[command(subcommand)]
    pub command: Option<FileCommand>,

    /// Hosts of the run.
    #[command(flatten)]
    pub hosts: HostWords,

    /// Ranks on each node.
    #[command(flatten)]
    pub ranks: RankWords,

    /// LinkTest's own options.
    #[command(flatten)]
    pub own: LinktestWords,

    /// What is asked of data ports and sockets.
    #[command(flatten)]
    pub sockets: Sockets,

    /// What the links are judged by.
    #[command(flatten)]
    pub order: Order,

    /// How hosts are reached.
    #[command(flatten)]
    pub launch: Launch,

    /// Where results go, and what is printed.
    #[command(flatten)]
    pub results: Measurement,
}

/// LinkTest's own options.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "LinkTest")]
pub(crate) struct LinktestWords {
    /// What links are made of: tcp, unix or auto
    ///
    /// `auto` is TCP between nodes and Unix-domain sockets within a node. LinkTest's other transports (mpi, ucp, ibverbs, psm2,
    /// cuda) are taken for auto, with a note. Default auto. Example: --mode tcp
    #[arg(long, short = 'm', value_name = "MODE", default_value = "auto", value_parser = choice::<Mode>(), hide_possible_values = true)]
    pub mode: Mode,

    /// Messages before those that are timed, for each measurement
    ///
    /// Default 3. Example: -w 10
    #[arg(long, short = 'w', value_name = "N", default_value_t = 3)]
    pub num_warmup_messages: usize,

    /// Messages that are timed
    ///
    /// Default 25. Example: -n 100
    #[arg(long, short = 'n', value_name = "N", default_value_t = 25)]
    pub num_messages: usize,

    /// Bytes of a message (1048576, 1M)
    ///
    /// Default 1M. Example: -s 16777216
    #[arg(long, short = 's', value_name = "SIZE", default_value = "1M")]
    pub size_messages: String,

    /// Messages go back and forth on both sides at the same time
    ///
    /// Bandwidths count both messages: twice what one direction carries. Example: --bidirectional
    #[arg(
        long,
        aliases = ["bidirection", "bidir"],
        conflicts_with = "unidirectional"
    )]
    pub bidirectional: bool,

    /// Messages go one way, and a receipt comes back at the end
    ///
    /// Tells a slow direction from the other one. Without either, a message is bounced (semidirectional). Example: --unidirectional
    #[arg(long, aliases = ["unidirection", "unidir"])]
    pub unidirectional: bool,

    /// Only pairs between the two halves of the ranks
    ///
    /// Example: --bisection
    #[arg(long, alias = "bisect")]
    pub bisection: bool,

    /// One pair at a time
    ///
    /// Free of each other's load, and slower by half the number of ranks. Example: --serial-tests
    #[arg(long, aliases = ["serial", "serial-testing"])]
    pub serial_tests: bool,

    /// Measure all to all, too: each rank to every other one at the same time
    ///
    /// Example: --all-to-all
    #[arg(long, alias = "alltoall")]
    pub all_to_all: bool,

    /// Slowest links to measure again, one by one
    ///
    /// Default 10. Example: --num-slowest 20
    #[arg(long, value_name = "K", default_value_t = 10)]
    pub num_slowest: usize,

    /// Measure everything at least so often
    ///
    /// Default 1. Example: --min-iterations 5
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub min_iterations: u64,

    /// Measure everything again until so much time has passed, in seconds
    ///
    /// From the first message on, with all that lies between measurements. Default 0. Example: --min-runtime 60
    #[arg(long, value_name = "SECONDS", default_value_t = 0.0)]
    pub min_runtime: f64,

    /// Steps in a random order
    ///
    /// Example: --randomize-steps
    #[arg(long)]
    pub randomize_steps: bool,

    /// Seed of the order of steps
    ///
    /// Default 9876543210. Example: --seed-randomize-steps 7
    #[arg(long, value_name = "SEED", default_value_t = 9_876_543_210)]
    pub seed_randomize_steps: u64,

    /// Measure everything with so many random orders of the ranks
    ///
    /// Others are neighbours then, and meet at the same time. Default 0: their natural order. Example: --num-randomize-tasks 3
    #[arg(long, value_name = "M", default_value_t = 0)]
    pub num_randomize_tasks: u64,

    /// Seed of the orders of the ranks
    ///
    /// Default 29876. Example: --seed-randomize-tasks 7
    #[arg(long, value_name = "SEED", default_value_t = 29_876)]
    pub seed_randomize_tasks: u64,

    /// Several buffers that messages take turns in
    ///
    /// As many as --num-multi-buffer says, else 2. Example: --multi-buffer
    #[arg(long)]
    pub multi_buffer: bool,

    /// How many buffers messages take turns in
    ///
    /// Default 1. Example: --num-multi-buffer 8
    #[arg(long, value_name = "K", default_value_t = 0)]
    pub num_multi_buffer: usize,

    /// Random contents instead of one byte throughout
    ///
    /// Example: --randomize-buffers
    #[arg(long)]
    pub randomize_buffers: bool,

    /// Seed of the contents
    ///
    /// Default 1234567890. Example: --seed-randomize-buffers 7
    #[arg(long, value_name = "SEED", default_value_t = 1_234_567_890)]
    pub seed_randomize_buffers: u64,

    /// Compare what arrived with what was sent, behind each measurement
    ///
    /// Outside of the clock. Example: --check-buffers
    #[arg(long)]
    pub check_buffers: bool,

    /// The result file
    ///
    /// Several iterations have a file each, NAME_i000 and so on. Default pingpong_results_bin.sion. Example: -o links.sion
    #[arg(
        long,
        short = 'o',
        value_name = "FILE",
        default_value = "pingpong_results_bin.sion"
    )]
    pub output: PathBuf,

    /// Write no result file
    ///
    /// Example: --no-sion-file
    #[arg(long)]
    pub no_sion_file: bool,

    /// Accepted, and without effect: the launching side writes the file
    ///
    /// Example: --parallel-sion-file
    #[arg(long)]
    pub parallel_sion_file: bool,

    /// How message buffers are allocated: DEFAULT
    ///
    /// For job scripts that name it; others are LinkTest's alone. Default DEFAULT. Example: --memory-buffer-allocator DEFAULT
    #[arg(
        long,
        value_name = "KIND",
        default_value = "DEFAULT",
        value_parser = ["DEFAULT"],
        hide_possible_values = true,
        ignore_case = true
    )]
    pub memory_buffer_allocator: String,

    /// Refused: messages go from and to the memory of hosts
    ///
    /// Example: leave --use-gpu-memory out
    #[arg(long)]
    pub use_gpu_memory: bool,

    /// Print the version
    ///
    /// As LinkTest does with -v. Example: pipebench linktest -v
    #[arg(long, short = 'v')]
    pub version: bool,
}

/// What can be done with result files.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum FileCommand {
    /// Show what a result file says
    Show {
        /// The file
        ///
        /// Example: pipebench linktest show pingpong_results_bin.sion
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
    /// Write what a result file says as a table or as JSON
    Export {
        /// The file
        ///
        /// Example: pipebench linktest export pingpong_results_bin.sion --csv -
        #[arg(value_name = "FILE")]
        file: PathBuf,

        /// Every link of every set as a table; - is standard output
        ///
        /// Example: --csv links.csv
        #[arg(long, value_name = "FILE")]
        csv: Option<PathBuf>,

        /// Everything that stands in it; - is standard output
        ///
        /// Example: --json links.json
        #[arg(long, value_name = "FILE")]
        json: Option<PathBuf>,
    },
}
