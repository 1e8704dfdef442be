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
pub(crate) const LONG: &str = "Measures the patterns of the Intel MPI Benchmarks between processes on hosts without MPI: PingPong, PingPing, Sendrecv, Exchange, Bcast, \
    Allgather(v), Gather(v), Scatter(v), Alltoall(v), Reduce, Reduce_scatter, Reduce_scatter_block, Allreduce, Barrier, Uniband and Biband; and windows, into which one rank reaches while the other one does nothing: Window, Unidir_Put, \
    Unidir_Get, Bidir_Put, Bidir_Get and Accumulate; and files (--part io): S_, P_ and C_Write and Read with their kinds of pointers, while the rank waits or computes (IWrite, IRead), and \
    Open_Close. Over sockets, or shared memory within a node. Names, \
    rules and columns are those of the users guide 3.0, or today's with --rules current.\n\n\
    Options may be written with one dash, too, as the suite has them: -npmin 4 -multi 0 -msglen FILE.\n\n\
    Times are microseconds of a repetition: of the slowest rank (t_max), the fastest, and on average. By the guide a megabyte has 2^20 bytes, and PingPong's time is half of \
    the round trip; Sendrecv counts each message twice (out and in), Exchange four times, PingPing once.";

/// Measure the patterns of the Intel MPI Benchmarks, without MPI.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct ImbArguments {
    /// Benchmarks, in any case; without one all of the rules
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

    /// What messages go over: auto, tcp, unix or shm
    ///
    /// `auto` is TCP between nodes and shared memory within a node, as is shm. Default auto. Example: --transport tcp
    #[arg(
        long,
        value_name = "KIND",
        default_value = "auto",
        help_heading = "Hosts", value_parser = choice::<RankTransport>(), hide_possible_values = true)]
    pub transport: RankTransport,

    /// Whose rules: guide (version 3.0) or current
    ///
    /// `current`: a megabyte has 10^6 bytes, a clock round each call of a collective, a warm-up before each length, as many repetitions as fit into --time, and the root
    /// stays the first rank. Default guide. Example: --rules current
    #[arg(
        long,
        value_name = "RULES",
        default_value = "guide",
        help_heading = "Suite", value_parser = choice::<Rules>(), hide_possible_values = true)]
    pub rules: Rules,

    /// What is measured if no benchmark is named: mpi1 (messages), ext (windows) or io (files)
    ///
    /// Default mpi1. Example: --part ext
    #[arg(
        long,
        value_name = "PART",
        default_value = "mpi1",
        help_heading = "Suite", value_parser = choice::<Part>(), hide_possible_values = true)]
    pub part: Part,

    /// A file of benchmarks, one name in a line; # begins a comment
    ///
    /// Example: --input IMB_SELECT
    #[arg(long, value_name = "FILE", help_heading = "Suite")]
    pub input: Option<PathBuf>,

    /// Least number of ranks
    ///
    /// Benchmarks run with N, 2N, 4N and so on, and with all ranks. Default 2, and 1 for files. Example: --npmin 4
    #[arg(long, value_name = "N", help_heading = "Suite")]
    pub npmin: Option<usize>,

    /// Several groups at the same time: 0 shows the worst, 1 each of them
    ///
    /// Example: --multi 0
    #[arg(long, value_name = "0|1", help_heading = "Suite")]
    pub multi: Option<u8>,

    /// Number ranks along the rows of a matrix in which they stand column by column
    ///
    /// With P ranks on each of two nodes, Px2 pairs each with its counterpart on the other node. Example: --map 4x2
    #[arg(long, value_name = "PxQ", help_heading = "Suite")]
    pub map: Option<String>,

    /// A file of message lengths in bytes, one in a line; k and m are binary
    ///
    /// Example: --msglen lengths.txt
    #[arg(long, value_name = "FILE", help_heading = "Suite")]
    pub msglen: Option<PathBuf>,

    /// Lengths 0 and 2^MIN to 2^MAX
    ///
    /// Default 0:22, and 0:24 for files. Example: --msglog 3:16
    #[arg(long, value_name = "MIN:MAX", help_heading = "Suite")]
    pub msglog: Option<String>,

    /// Repetitions of a length at most, how many MiB they may have together, and repetitions at most where each is completed by itself
    ///
    /// Default 1000,40,100, and 50,16,10 for files. Example: --iter 100,10
    #[arg(long, value_name = "N[,MIB[,SINGLE]]", help_heading = "Suite")]
    pub iter: Option<String>,

    /// Where benchmarks of files make their files, on each host
    ///
    /// In a folder that is removed at the end. With ranks on several hosts it must be on a file system that all of them have. Default /tmp. Example: --io-path /scratch
    #[arg(
        long,
        value_name = "DIR",
        default_value = "/tmp",
        help_heading = "Suite"
    )]
    pub io_path: PathBuf,

    /// Seconds that a rank computes while a transfer of a file goes on (S_IWrite_indv and the like)
    ///
    /// Default 0.1, with --rules current 0.01. Example: --cpu-time 0.02
    #[arg(long, value_name = "S", help_heading = "Suite")]
    pub cpu_time: Option<f64>,

    /// Seconds that a length may take, with --rules current
    ///
    /// Default 10. Example: --time 2
    #[arg(long, value_name = "S", help_heading = "Suite")]
    pub time: Option<f64>,

    /// Gigabytes (2^30 bytes) of buffers that a rank may have; longer messages are left out and said
    ///
    /// Default 1. Example: --mem 4
    #[arg(long, value_name = "GB", default_value_t = 1.0, help_heading = "Suite")]
    pub mem: f64,

    /// Compare what arrives with what should, outside of the clock
    ///
    /// Adds the column defects; the first wrong item is named, and the exit code is 20. Example: --check
    #[arg(long, help_heading = "Suite")]
    pub check: bool,

    /// How collectives are done, where there is a choice
    ///
    /// linear, binomial, chain, dissemination, recursive-doubling, recursive-halving, halving-doubling, scatter-allgather, ring, bruck or pairwise. The choice stands above each
    /// table. Example: --algorithm ring
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
