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
    until every pair has run; then it retests the slowest links one by one. Any number of ranks from 2 works; with an odd number, one rank rests in each step.\n\n\
    Options, printed lines and result file are those of LinkTest 2.1.16 (the file is a SION container). `pipebench linktest show FILE` \
    and `export FILE` read such files, also those that LinkTest wrote.\n\n\
    Times are seconds per message: (t1-t0)/2n where messages bounce n times, (t1-t0)/n where they go one way. Bandwidths are the bytes of a message (with --bidirectional \
    of both messages) divided by that time, in binary units.";

/// Measure the link of every pair of ranks with LinkTest's patterns and result file, without MPI.
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

    /// How data ports and sockets are set up.
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
    /// Transport of links: tcp, unix or auto
    ///
    /// `auto` uses TCP between nodes and Unix-domain sockets within a node. pipebench takes LinkTest's other
    /// transports (mpi, ucp, ibverbs, psm2, cuda) as auto, and a note says so. Example: --mode tcp
    #[arg(long, short = 'm', value_name = "MODE", default_value = "auto", value_parser = choice::<Mode>(), hide_possible_values = true)]
    pub mode: Mode,

    /// Warm-up messages of each measurement, not timed
    ///
    /// Example: -w 10
    #[arg(long, short = 'w', value_name = "N", default_value_t = 3)]
    pub num_warmup_messages: usize,

    /// Timed messages
    ///
    /// Example: -n 100
    #[arg(long, short = 'n', value_name = "N", default_value_t = 25)]
    pub num_messages: usize,

    /// Bytes of a message (1048576, 1M)
    ///
    /// Example: -s 16777216
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
    /// It shows which direction is slow. With neither option a message bounces (semidirectional). Example:
    /// --unidirectional
    #[arg(long, aliases = ["unidirection", "unidir"])]
    pub unidirectional: bool,

    /// Only pairs between the two halves of the ranks
    ///
    /// Example: --bisection
    #[arg(long, alias = "bisect")]
    pub bisection: bool,

    /// One pair at a time
    ///
    /// Pairs do not load each other; the measurement takes longer by half the number of ranks. Example:
    /// --serial-tests
    #[arg(long, aliases = ["serial", "serial-testing"])]
    pub serial_tests: bool,

    /// Also measure all to all: each rank to every other rank at the same time
    ///
    /// Example: --all-to-all
    #[arg(long, alias = "alltoall")]
    pub all_to_all: bool,

    /// Slowest links to retest, one by one
    ///
    /// Example: --num-slowest 20
    #[arg(long, value_name = "K", default_value_t = 10)]
    pub num_slowest: usize,

    /// Least number of iterations of the whole measurement
    ///
    /// Example: --min-iterations 5
    #[arg(long, value_name = "N", default_value_t = 1, hide_short_help = true)]
    pub min_iterations: u64,

    /// Repeat the whole measurement until this time has passed, in seconds
    ///
    /// The time runs from the first message on, and includes the time between measurements. Example: --min-runtime 60
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = 0.0,
        hide_short_help = true
    )]
    pub min_runtime: f64,

    /// Steps in a random order
    ///
    /// Example: --randomize-steps
    #[arg(long, hide_short_help = true)]
    pub randomize_steps: bool,

    /// Seed of the order of steps
    ///
    /// Example: --seed-randomize-steps 7
    #[arg(
        long,
        value_name = "SEED",
        default_value_t = 9_876_543_210,
        hide_short_help = true
    )]
    pub seed_randomize_steps: u64,

    /// Repeat the whole measurement with this number of random orders of the ranks
    ///
    /// Each order makes other ranks neighbours, and other pairs run at the same time. 0 keeps the natural order.
    /// Example: --num-randomize-tasks 3
    #[arg(long, value_name = "M", default_value_t = 0, hide_short_help = true)]
    pub num_randomize_tasks: u64,

    /// Seed of the orders of the ranks
    ///
    /// Example: --seed-randomize-tasks 7
    #[arg(
        long,
        value_name = "SEED",
        default_value_t = 29_876,
        hide_short_help = true
    )]
    pub seed_randomize_tasks: u64,

    /// Send messages from several buffers in turn
    ///
    /// Their number is --num-multi-buffer, or 2 without it. Example: --multi-buffer
    #[arg(long, hide_short_help = true)]
    pub multi_buffer: bool,

    /// Number of buffers that messages use in turn
    ///
    /// 0 is one buffer, or two with --multi-buffer. Example: --num-multi-buffer 8
    #[arg(long, value_name = "K", default_value_t = 0, hide_short_help = true)]
    pub num_multi_buffer: usize,

    /// Fill buffers with random contents instead of one byte value
    ///
    /// Example: --randomize-buffers
    #[arg(long, hide_short_help = true)]
    pub randomize_buffers: bool,

    /// Seed of the contents
    ///
    /// Example: --seed-randomize-buffers 7
    #[arg(
        long,
        value_name = "SEED",
        default_value_t = 1_234_567_890,
        hide_short_help = true
    )]
    pub seed_randomize_buffers: u64,

    /// Compare received with sent bytes after each measurement
    ///
    /// The timed part does not include it. Example: --check-buffers
    #[arg(long)]
    pub check_buffers: bool,

    /// Result file
    ///
    /// With several iterations each has a file, NAME_i000 and so on. Example: -o links.sion
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

    /// Accepted without effect: the launching side writes the file
    ///
    /// Example: --parallel-sion-file
    #[arg(long, hide_short_help = true)]
    pub parallel_sion_file: bool,

    /// How message buffers are allocated: DEFAULT
    ///
    /// For job scripts that set it; only LinkTest has other values. Example: --memory-buffer-allocator DEFAULT
    #[arg(
        long,
        value_name = "KIND",
        default_value = "DEFAULT",
        value_parser = ["DEFAULT"],
        hide_possible_values = true,
        ignore_case = true, hide_short_help = true)]
    pub memory_buffer_allocator: String,

    /// Refused: messages use the main memory of hosts
    ///
    /// Example: leave --use-gpu-memory out
    #[arg(long, hide_short_help = true)]
    pub use_gpu_memory: bool,

    /// Print the version
    ///
    /// LinkTest also prints it with -v. Example: pipebench linktest -v
    #[arg(long, short = 'v')]
    pub version: bool,
}

/// What can be done with result files.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum FileCommand {
    /// Show the contents of a result file
    Show {
        /// Result file
        ///
        /// Example: pipebench linktest show pingpong_results_bin.sion
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
    /// Write the contents of a result file as a table or as JSON
    Export {
        /// Result file
        ///
        /// Example: pipebench linktest export pingpong_results_bin.sion --csv -
        #[arg(value_name = "FILE")]
        file: PathBuf,

        /// Write every link of every set as a table to OUT, or to standard output
        ///
        /// Example: --csv links.csv
        #[arg(long, value_name = "OUT", num_args = 0..=1, default_missing_value = "-")]
        csv: Option<PathBuf>,

        /// Write the whole contents to OUT, or to standard output
        ///
        /// Example: --json links.json
        #[arg(
            long,
            value_name = "OUT",
            num_args = 0..=1,
            default_missing_value = "-"
        )]
        json: Option<PathBuf>,
    },
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Words {
        #[command(subcommand)]
        command: FileCommand,
    }

    /// Symptom: `export FILE --json` ended with code 2, since an option wanted a value.
    #[test]
    fn an_export_without_a_name_goes_to_standard_output() {
        let read = |words: &str| {
            let words = Words::try_parse_from(words.split(' ')).unwrap();
            let FileCommand::Export { csv, json, .. } = words.command else {
                panic!("another command");
            };
            let shown = |path: Option<PathBuf>| path.map(|path| path.display().to_string());
            (shown(csv), shown(json))
        };
        let text = |text: &str| Some(text.to_owned());
        assert_eq!(read("linktest export a.sion --json"), (None, text("-")));
        assert_eq!(read("linktest export a.sion --csv"), (text("-"), None));
        let both = "linktest export a.sion --csv --json b.json";
        assert_eq!(read(both), (text("-"), text("b.json")));
    }
}
