//! The words of `pipebench imb`: the suite's own, and those of hosts and ports.

use std::ffi::OsString;
use std::path::PathBuf;

use crate::plan::collective::Algorithm;
use crate::plan::imb::{Part, Rules, WINDOW};

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

    /// Benchmarks to run before the named ones, or before all of --part
    ///
    /// Example: --include Uniband,Biband
    #[arg(
        long,
        value_name = "BENCHMARK",
        num_args = 1..,
        value_delimiter = ',',
        help_heading = "Suite",
        hide_short_help = true
    )]
    pub include: Vec<String>,

    /// Benchmarks to leave out (of the suite: -exclude)
    ///
    /// Example: --exclude-benchmarks Alltoall,Alltoallv
    #[arg(
        long,
        value_name = "BENCHMARK",
        num_args = 1..,
        value_delimiter = ',',
        help_heading = "Suite",
        hide_short_help = true
    )]
    pub exclude_benchmarks: Vec<String>,

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

    /// Message lengths in bytes; k and m are binary
    ///
    /// Example: --msgsize 0,4k,1m
    #[arg(
        long,
        value_name = "LENGTHS",
        value_delimiter = ',',
        conflicts_with = "msglen",
        help_heading = "Suite",
        hide_short_help = true
    )]
    pub msgsize: Vec<String>,

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

    /// Messages that Uniband and Biband send before they wait
    ///
    /// Example: --window-size 64
    #[arg(
        long,
        value_name = "N",
        default_value_t = WINDOW,
        help_heading = "Suite",
        hide_short_help = true
    )]
    pub window_size: usize,

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

    /// Seconds that a rank computes during a transfer of a file (S_IWrite_Indv and the like)
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

/// Options that the suite has, too, as it spells them after one dash.
const WITH_ONE_DASH: [&str; 14] = [
    "help",
    "npmin",
    "multi",
    "map",
    "input",
    "include",
    "msglen",
    "msgsize",
    "msglog",
    "iter",
    "window_size",
    "time",
    "mem",
    "check",
];

/// Other flags of the suite: the values that say what pipebench does in any case, by the rules of the guide and by those of today, and what to do
/// about others.
const FLAGS: [(&str, &[&str], &[&str], &str); 16] = [
    (
        "iter_policy",
        &[],
        &["dynamic"],
        "--rules current is dynamic, and --iter sets limits",
    ),
    (
        "thread_level",
        &["single"],
        &["single"],
        "every rank has one thread",
    ),
    (
        "root_shift",
        &["on"],
        &["off"],
        "the root moves with --rules guide, and stays with --rules current",
    ),
    (
        "sync",
        &["off"],
        &["on"],
        "a barrier follows each call with --rules current, and none with --rules guide",
    ),
    (
        "imb_barrier",
        &["on", "off"],
        &["on", "off"],
        "pipebench has one barrier: leave it out",
    ),
    (
        "data_type",
        &["byte", "char"],
        &["byte", "char"],
        "messages are bytes",
    ),
    (
        "red_data_type",
        &["float"],
        &["float"],
        "sums are of 32-bit floats",
    ),
    (
        "contig_type",
        &["base"],
        &["base"],
        "messages are contiguous",
    ),
    (
        "zero_size",
        &["on"],
        &["on"],
        "--msgsize names lengths without 0",
    ),
    ("warm_up", &["on"], &["on"], "every table has a warm-up"),
    ("msg_pause", &["off"], &["off"], "lengths follow at once"),
    (
        "aggregate_mode",
        &["multi"],
        &["multi"],
        "each mode has a table",
    ),
    (
        "mem_alloc_type",
        &["cpu"],
        &["cpu"],
        "messages use the main memory of hosts",
    ),
    (
        "off_cache",
        &[],
        &[],
        "messages use the same buffers again: leave it out",
    ),
    ("list", &[], &[], "see 'pipebench help imb'"),
    (
        "ppn",
        &[],
        &[],
        "the number of ranks on a node is --ranks-per-node R",
    ),
];

/// Words as clap reads them: options of the suite get a second dash, and flags that change nothing are left out. The error says which flag has no
/// meaning here: after one dash clap reads only its first letter, which can be another option's.
pub(crate) fn spelled(words: impl Iterator<Item = OsString>) -> Result<Vec<OsString>, String> {
    let words: Vec<OsString> = words.collect();
    if words.get(1).is_none_or(|word| word != "imb") {
        return Ok(words);
    }
    let of_today = |pair: &[OsString]| pair[0] == "--rules" && pair[1] == "current";
    let is_today =
        words.contains(&OsString::from("--rules=current")) || words.windows(2).any(of_today);
    let mut rest = words.into_iter().peekable();
    let mut kept = Vec::new();
    while let Some(word) = rest.next() {
        let text = word.to_string_lossy().into_owned();
        let Some(name) = flag(&text) else {
            kept.push(word);
            continue;
        };
        if name == "exclude" {
            kept.push("--exclude-benchmarks".into()); // With two dashes it leaves out hosts.
            continue;
        }
        if WITH_ONE_DASH.contains(&name) {
            kept.push(format!("--{}", name.replace('_', "-")).into());
            continue;
        }
        let known = FLAGS.iter().find(|(known, ..)| *known == name);
        let Some((_, guide, today, hint)) = known else {
            return Err(format!(
                "{text}: imb has no such option (see 'pipebench help imb'; a key is -i FILE)"
            ));
        };
        let same = if is_today { today } else { guide };
        let value = rest.next_if(|next| flag(&next.to_string_lossy()).is_none());
        let value = value.map_or_else(String::new, |value| value.to_string_lossy().to_lowercase());
        let meant = match value.as_str() {
            "1" | "enable" | "yes" => "on",
            "0" | "disable" | "no" => "off",
            other => other,
        };
        if !same.contains(&meant) {
            let shown = format!("{text} {value}");
            return Err(format!("{}: imb cannot do this ({hint})", shown.trim_end()));
        }
    }
    Ok(kept)
}

/// Name of a long flag after one dash: `iter` of `-iter`. Shorter words are options of one letter.
fn flag(word: &str) -> Option<&str> {
    let name = word.strip_prefix('-')?;
    let is_word = |name: &str| {
        name.bytes()
            .all(|one| one.is_ascii_lowercase() || one == b'_')
    };
    (name.len() > 2 && is_word(name)).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(words: &str) -> Result<String, String> {
        let words = words.split(' ').map(OsString::from);
        let read = spelled(words)?;
        let read: Vec<String> = read
            .iter()
            .map(|word| word.to_string_lossy().into())
            .collect();
        Ok(read.join(" "))
    }

    #[test]
    fn options_of_the_suite_have_one_dash_or_two() {
        let words =
            "pipebench imb -x n1 -i key -include A,B -window_size 64 -exclude C --exclude n2";
        let long = "pipebench imb -x n1 -i key --include A,B --window-size 64 --exclude-benchmarks C --exclude n2";
        assert_eq!(read(words).as_deref(), Ok(long));
        let others = "pipebench linktest -iter_policy off";
        assert_eq!(read(others).as_deref(), Ok(others));
    }

    /// Symptom: `-include PingPong` was `-i nclude`, an SSH key, and `-iter_policy` was `-i ter_policy`.
    #[test]
    fn a_flag_of_todays_suite_is_never_a_key() {
        for words in [
            "-sync off -root_shift 1 -thread_level single Bcast",
            "--rules current -sync yes -iter_policy dynamic -imb_barrier on Bcast",
            "--rules=current -zero_size on -root_shift disable Bcast",
        ] {
            let read = read(&format!("pipebench imb {words}")).unwrap();
            let bare = read
                .replace(" --rules current", "")
                .replace(" --rules=current", "");
            assert_eq!(bare, "pipebench imb Bcast");
        }
        for (words, error) in [
            (
                "-iter_policy dynamic",
                "-iter_policy dynamic: imb cannot do this (--rules current is dynamic, and --iter sets limits)",
            ),
            (
                "-off_cache -1",
                "-off_cache -1: imb cannot do this (messages use the same buffers again: leave it out)",
            ),
            (
                "-data_type double",
                "-data_type double: imb cannot do this (messages are bytes)",
            ),
            (
                "-list",
                "-list: imb cannot do this (see 'pipebench help imb')",
            ),
            (
                "-zero_size off --rules current",
                "-zero_size off: imb cannot do this (--msgsize names lengths without 0)",
            ),
            (
                "-includ PingPong",
                "-includ: imb has no such option (see 'pipebench help imb'; a key is -i FILE)",
            ),
        ] {
            assert_eq!(
                read(&format!("pipebench imb {words}")),
                Err(error.to_owned())
            );
        }
    }
}
