//! The words of `pipebench imb`: the suite's own, and those of hosts and ports.

use std::path::PathBuf;

use crate::plan::collective::Algorithm;
use crate::plan::imb::{Part, Rules};

use super::choice::{RankTransport, choice};
use super::hosts::HostWords;
use super::launch::Launch;
use super::measurement::Measurement;
use super::ranks::RankWords;
use super::sockets::Sockets;

/// What the long help begins with.
pub(crate) const LONG: &str = "Runs the patterns of the Intel MPI Benchmarks between processes on hosts, without MPI: PingPong, PingPing, Sendrecv, Exchange, Bcast, \
    Allgather(v), Gather(v), Scatter(v), Alltoall(v), Reduce, Reduce_scatter, Reduce_scatter_block, Allreduce, Barrier, Uniband and Biband; windows (--part ext), which one rank accesses while the other does nothing: Window, Unidir_Put, \
    Unidir_Get, Bidir_Put, Bidir_Get and Accumulate; and files (--part io): S_, P_ and C_Write and Read with their kinds of pointers, also while the rank computes (IWrite, IRead), and \
    Open_Close. Messages use sockets, or shared memory within a node.\n\n\
    Names, rules and columns are those of the users guide 3.0. To compare with a suite of today, add --rules current.\n\n\
    Options may also have one dash, as in the suite: -npmin 4 -multi 0 -msglen FILE.\n\n\
    Times are microseconds per repetition: of the slowest rank (t_max), of the fastest, and on average. In the guide a megabyte has 2^20 bytes, and PingPong's time is half of \
    the round trip; Sendrecv counts each message twice (out and in), Exchange four times, PingPing once.";

/// Run the patterns of the Intel MPI Benchmarks, without MPI.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct ImbArguments {
    /// Benchmarks, in upper or lower case; by default all of --part
    ///
    /// Example: pipebench imb --hosts n1,n2 PingPong Allreduce
    #[arg(value_name = "BENCHMARK")]
    pub benchmarks: Vec<String>,

    /// Hosts of the run.
    #[command(flatten)]
    pub hosts: HostWords,

    /// Ranks on each node.
    #[command(flatten)]
    pub ranks: RankWords,

    /// Transport of messages: auto, tcp, unix or shm
    ///
    /// `auto` and `shm` use TCP between nodes and shared memory within a node. Example: --transport tcp
    #[arg(
        long,
        value_name = "KIND",
        default_value = "auto",
        help_heading = "Hosts", value_parser = choice::<RankTransport>(), hide_possible_values = true)]
    pub transport: RankTransport,

    /// Rules to follow: guide (version 3.0) or current
    ///
    /// With `current` a megabyte has 10^6 bytes, each call of a collective is timed separately, a warm-up precedes
    /// each length, the number of repetitions fits into --time, and the root is always the first rank. Example:
    /// --rules current
    #[arg(
        long,
        value_name = "RULES",
        default_value = "guide",
        help_heading = "Suite", value_parser = choice::<Rules>(), hide_possible_values = true)]
    pub rules: Rules,

    /// What to run if no benchmark is named: mpi1 (messages), ext (windows) or io (files)
    ///
    /// Example: --part ext
    #[arg(
        long,
        value_name = "PART",
        default_value = "mpi1",
        help_heading = "Suite", value_parser = choice::<Part>(), hide_possible_values = true)]
    pub part: Part,

    /// A file of benchmarks, one name per line; # begins a comment
    ///
    /// Example: --input IMB_SELECT
    #[arg(long, value_name = "FILE", help_heading = "Suite")]
    pub input: Option<PathBuf>,

    /// Least number of ranks
    ///
    /// Benchmarks run with N, 2N, 4N and so on, and with all ranks. Default: 2, and 1 for files. Example: --npmin 4
    #[arg(long, value_name = "N", help_heading = "Suite")]
    pub npmin: Option<usize>,

    /// Run several groups at the same time: 0 shows the worst group, 1 each group
    ///
    /// Example: --multi 0
    #[arg(long, value_name = "0|1", help_heading = "Suite")]
    pub multi: Option<u8>,

    /// Number ranks along the rows of a matrix that ranks fill column by column
    ///
    /// With P ranks on each of two nodes, Px2 pairs each rank with one on the other node. Example: --map 4x2
    #[arg(long, value_name = "PxQ", help_heading = "Suite")]
    pub map: Option<String>,

    /// A file of message lengths in bytes, one per line; k and m are binary
    ///
    /// Example: --msglen lengths.txt
    #[arg(
        long,
        value_name = "FILE",
        help_heading = "Suite",
        hide_short_help = true
    )]
    pub msglen: Option<PathBuf>,

    /// Lengths 0 and 2^MIN to 2^MAX
    ///
    /// Default: 0:22, and 0:24 for files. Example: --msglog 3:16
    #[arg(long, value_name = "MIN:MAX", help_heading = "Suite")]
    pub msglog: Option<String>,

    /// Most repetitions of a length, most MiB for all of them, and most repetitions if each is completed separately
    ///
    /// Default: 1000,40,100, and 50,16,10 for files. Example: --iter 100,10
    #[arg(
        long,
        value_name = "N[,MIB[,SINGLE]]",
        help_heading = "Suite",
        hide_short_help = true
    )]
    pub iter: Option<String>,

    /// Folder in which file benchmarks make their files, on each host
    ///
    /// The files are in a folder of their run, which is removed at the end. With ranks on several hosts DIR must be on
    /// a file system that all hosts share. Example: --io-path /scratch
    #[arg(
        long,
        value_name = "DIR",
        default_value = "/tmp",
        help_heading = "Suite"
    )]
    pub io_path: PathBuf,

    /// Seconds that a rank computes during a transfer of a file (S_IWrite_indv and the like)
    ///
    /// Default: 0.1, with --rules current 0.01. Example: --cpu-time 0.02
    #[arg(long, value_name = "S", help_heading = "Suite", hide_short_help = true)]
    pub cpu_time: Option<f64>,

    /// Longest time of a length in seconds, with --rules current
    ///
    /// Default: 10. Example: --time 2
    #[arg(long, value_name = "S", help_heading = "Suite")]
    pub time: Option<f64>,

    /// Most gigabytes (2^30 bytes) of buffers per rank; longer messages are left out, with a note
    ///
    /// Example: --mem 4
    #[arg(
        long,
        value_name = "GB",
        default_value_t = 1.0,
        help_heading = "Suite",
        hide_short_help = true
    )]
    pub mem: f64,

    /// Compare received with expected items, outside the timed part
    ///
    /// Adds the column defects; the table names the first wrong item, and the exit code is 20. Example: --check
    #[arg(long, help_heading = "Suite")]
    pub check: bool,

    /// Algorithm of collectives that have several
    ///
    /// linear, binomial, chain, dissemination, recursive-doubling, recursive-halving, halving-doubling,
    /// scatter-allgather, ring, bruck or pairwise. The algorithm is printed above each table. Example: --algorithm
    /// ring
    #[arg(long, value_name = "NAME", help_heading = "Suite", value_parser = choice::<Algorithm>(), hide_possible_values = true)]
    pub algorithm: Option<Algorithm>,

    /// Options of sockets.
    #[command(flatten)]
    pub sockets: Sockets,

    /// How hosts are reached.
    #[command(flatten)]
    pub launch: Launch,

    /// Where results go, and what is printed.
    #[command(flatten)]
    pub results: Measurement,
}

/// The suite's own options, with one dash.
const WITH_ONE_DASH: [&str; 11] = [
    "-help", "-npmin", "-multi", "-map", "-input", "-msglen", "-msglog", "-iter", "-time", "-mem",
    "-check",
];

/// Gives options of `imb` a second dash, where they have the suite's one.
pub(crate) fn spelled(words: impl Iterator<Item = std::ffi::OsString>) -> Vec<std::ffi::OsString> {
    let mut words: Vec<std::ffi::OsString> = words.collect();
    if words.get(1).is_some_and(|word| word == "imb") {
        for word in words.iter_mut().skip(2) {
            if WITH_ONE_DASH.iter().any(|own| *word == *own) {
                let mut longer = std::ffi::OsString::from("-");
                longer.push(&word);
                *word = longer;
            }
        }
    }
    words
}
