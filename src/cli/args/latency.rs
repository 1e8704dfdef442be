//! The words of `pipebench latency`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use latency::planning::Strategy;
use latency::rounds::Effort;
use latency::routing::Rule;

use crate::plan::ranks::Wait;

use super::choice::{FabricKind, HostMap, choice};
use super::hosts::HostWords;
use super::launch::Launch;
use super::measurement::Measurement;
use super::sockets::Sockets;

/// What the long help begins with.
pub(crate) const LONG: &str = "Determines the latencies of all pairs of a fabric in a few rounds. From switches, cables and routes it chooses a small set of pairs that determines all others, \
    in rounds whose pairs share no cable. It measures these pairs, and calculates the latency of every cable and every pair.\n\n\
    A fabric is a TOML file (see docs/latency.md). Make one with `generate` or `import`, show its rounds with `plan`, measure with `run`; later `run --baseline RUN` \
    or `locate --baseline RUN` shows which cable has become slow.";

/// Measure the latencies of all pairs of a fabric in a few rounds.
#[derive(Debug, Clone, Args)]
#[command(arg_required_else_help = true)]
pub(crate) struct LatencyArguments {
    /// What to do.
    #[command(subcommand)]
    pub command: LatencyCommand,
}

/// What can be done.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum LatencyCommand {
    /// Write the description of a regular fabric
    Generate(GenerateArguments),
    /// Write a description from ibnetdiscover and forwarding tables, or from a table of hosts, switches and ports
    Import(ImportArguments),
    /// Choose pairs and rounds, and print what they can determine
    Plan(PlanArguments),
    /// Measure pairs of a fabric and calculate the latency of each cable
    Run(Box<RunArguments>),
    /// Find slow cables in four rounds, compared with an earlier run
    Locate(Box<RunArguments>),
    /// Predict the round trip of every pair from a run
    Pairs(PairsArguments),
    /// Simulate plans with random latencies, noise, spikes and slow cables
    Simulate(SimulateArguments),
}

/// A fabric by formula.
#[derive(Debug, Clone, Args)]
pub(crate) struct GenerateArguments {
    /// fat-tree, leaf-spine, dragonfly or slimfly
    ///
    /// Example: pipebench latency generate fat-tree --ports 12 --levels 3
    #[arg(value_name = "KIND", value_parser = choice::<FabricKind>(), hide_possible_values = true)]
    pub kind: FabricKind,

    /// Ports of a switch (fat-tree)
    ///
    /// 2 (p/2)^q hosts and q times as many cables. Example: --ports 36
    #[arg(long, value_name = "P", default_value_t = 12)]
    pub ports: usize,

    /// Levels of switches (fat-tree)
    ///
    /// Example: --levels 2
    #[arg(long, value_name = "Q", default_value_t = 3)]
    pub levels: u32,

    /// Leaf switches (leaf-spine)
    ///
    /// Example: --leaves 16
    #[arg(long, value_name = "N", default_value_t = 4)]
    pub leaves: usize,

    /// Spine switches (leaf-spine)
    ///
    /// Example: --spines 8
    #[arg(long, value_name = "N", default_value_t = 2)]
    pub spines: usize,

    /// Hosts of each switch that has hosts (leaf-spine, dragonfly, slimfly)
    ///
    /// Example: --hosts-per-switch 16
    #[arg(long, value_name = "N", default_value_t = 4)]
    pub hosts_per_switch: usize,

    /// Switches of a group (dragonfly)
    ///
    /// Example: --group 8
    #[arg(long, value_name = "A", default_value_t = 4)]
    pub group: usize,

    /// Global cables of a switch (dragonfly)
    ///
    /// Example: --globals 4
    #[arg(long, value_name = "H", default_value_t = 2)]
    pub globals: usize,

    /// A prime with remainder 1 when divided by 4 (slimfly)
    ///
    /// Example: --prime 13
    #[arg(long, value_name = "Q", default_value_t = 5)]
    pub prime: usize,

    /// How one of several shortest paths is selected: symmetric, destination-mod, destination-hash or pair-hash
    ///
    /// Default: symmetric; pair-hash for dragonfly and slimfly. Example: --rule destination-mod
    #[arg(long, value_name = "RULE", value_parser = choice::<Rule>(), hide_possible_values = true)]
    pub rule: Option<Rule>,

    /// File to write; - is standard output
    ///
    /// Example: --output fabric.toml
    #[arg(long, short = 'o', value_name = "FILE", default_value = "-")]
    pub output: PathBuf,
}

/// A fabric from what a site has.
#[derive(Debug, Clone, Args)]
pub(crate) struct ImportArguments {
    /// Output of ibnetdiscover
    ///
    /// Example: --ibnetdiscover topology.txt
    #[arg(long, value_name = "FILE")]
    pub ibnetdiscover: Option<PathBuf>,

    /// Forwarding tables, of dump_lfts.sh, ibroute or the subnet manager
    ///
    /// Without them the import takes the shortest paths, selected by --rule. Example: --tables lfts.txt
    #[arg(
        long,
        value_name = "FILE",
        requires = "ibnetdiscover",
        conflicts_with = "rule"
    )]
    pub tables: Option<PathBuf>,

    /// A table with the columns host, switch, and if known port, name, class, cost
    ///
    /// One line per cable; a line whose host is the switch of another line is a cable between switches. Example:
    /// --table ports.csv
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with = "ibnetdiscover",
        required_unless_present = "ibnetdiscover"
    )]
    pub table: Option<PathBuf>,

    /// How one of several shortest paths is selected: symmetric, destination-mod, destination-hash or pair-hash
    ///
    /// Default: destination-mod for ibnetdiscover, otherwise symmetric. Example: --rule pair-hash
    #[arg(long, value_name = "RULE", value_parser = choice::<Rule>(), hide_possible_values = true)]
    pub rule: Option<Rule>,

    /// File to write; - is standard output
    ///
    /// Example: --output fabric.toml
    #[arg(long, short = 'o', value_name = "FILE", default_value = "-")]
    pub output: PathBuf,
}

/// How pairs are chosen.
#[derive(Debug, Clone, Args)]
pub(crate) struct ChoiceWords {
    /// Pairs per unknown: 1 is the minimum, more pairs mean less noise
    ///
    /// At 1.5 a fat tree needs three more rounds, and noise does not depend on its size. Example: --redundancy 2
    #[arg(long, value_name = "FACTOR", default_value_t = 1.5)]
    pub redundancy: f64,

    /// How to choose pairs: rounds, paper or locate
    ///
    /// `rounds` chooses a basis together with its rounds. `paper` is the method of the paper, for comparison: the
    /// first basis in the order of pairs, coloured by Welsh and Powell. `locate` covers every cable in --rounds
    /// rounds, so that a slow one can be found. Example: --strategy paper
    #[arg(long, value_name = "NAME", default_value = "rounds", value_parser = choice::<Strategy>(), hide_possible_values = true)]
    pub strategy: Strategy,

    /// One value per direction for cables between switches
    ///
    /// Round trips cannot separate all of them. Example: --directed
    #[arg(long)]
    pub directed: bool,

    /// Seed of random choices
    ///
    /// Example: --plan-seed 7
    #[arg(long, value_name = "SEED", default_value_t = 1, hide_short_help = true)]
    pub plan_seed: u64,
}

/// A plan.
#[derive(Debug, Clone, Args)]
pub(crate) struct PlanArguments {
    /// Description of the fabric
    ///
    /// Example: pipebench latency plan fabric.toml
    #[arg(value_name = "FABRIC")]
    pub fabric: PathBuf,

    /// How pairs are chosen.
    #[command(flatten)]
    pub choice: ChoiceWords,

    /// How long to search for few rounds: least, usual or most
    ///
    /// `most` searches until the lower bound, which often cannot be reached. Example: --effort most
    #[arg(long, value_name = "EFFORT", default_value = "usual", value_parser = choice::<Effort>(), hide_possible_values = true)]
    pub effort: Effort,

    /// Rounds of --strategy locate
    ///
    /// Example: --rounds 3
    #[arg(long, value_name = "N", default_value_t = 4)]
    pub rounds: usize,

    /// Write the plan to a file; - is standard output
    ///
    /// Example: --output plan.toml
    #[arg(long, short = 'o', value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// A measurement.
#[derive(Debug, Clone, Args)]
// The older spelling of --folder.
#[command(mut_arg("folder", |folder| folder.alias("output").short_alias('o')))]
pub(crate) struct RunArguments {
    /// Description of the fabric
    ///
    /// Example: pipebench latency run fabric.toml --hosts 'n[01-16]'
    #[arg(value_name = "FABRIC")]
    pub fabric: PathBuf,

    /// Hosts of the run.
    #[command(flatten)]
    pub hosts: HostWords,

    /// How hosts are assigned to those of the fabric: by name, or in order
    ///
    /// `name`: hosts have the names of the description (the domain after a name is ignored). `order`: the first host
    /// is the first of the description. Example: --map order
    #[arg(
        long,
        value_name = "HOW",
        default_value = "name",
        help_heading = "Hosts", value_parser = choice::<HostMap>(), hide_possible_values = true)]
    pub map: HostMap,

    /// A plan made before
    ///
    /// The pairs of missing hosts are left out, and others added in their place. Without this option pipebench
    /// chooses pairs for the hosts that are there. Example: --plan plan.toml
    #[arg(long, value_name = "FILE", help_heading = "Plan")]
    pub plan: Option<PathBuf>,

    /// How pairs are chosen.
    #[command(flatten, next_help_heading = "Plan")]
    pub choice: ChoiceWords,

    /// How each pair is measured.
    #[command(flatten)]
    pub pair: PairWords,

    /// Options of sockets.
    #[command(flatten)]
    pub sockets: Sockets,

    /// How hosts are reached.
    #[command(flatten)]
    pub launch: Launch,

    /// What every measurement understands. With --baseline a cable is compared with its latency in that run of the same fabric, when it was healthy;
    /// without it with the others of its class. Without --folder the folder of the run is in the current folder.
    #[command(flatten)]
    pub results: Measurement,
}

/// How each pair is measured.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Measurement")]
pub(crate) struct PairWords {
    /// Messages that each pair bounces, each timed separately
    ///
    /// The record keeps their median and minimum. Example: --pings 101
    #[arg(long, value_name = "K", default_value_t = 11)]
    pub pings: usize,

    /// Warm-up messages before these, not timed
    ///
    /// Example: --warmup-pings 10
    #[arg(long, value_name = "N", default_value_t = 3, hide_short_help = true)]
    pub warmup_pings: usize,

    /// Bytes of a message
    ///
    /// Example: --size 64
    #[arg(long, value_name = "SIZE", default_value = "8")]
    pub size: String,

    /// What ranks do while they wait: auto, spin, yield or sleep
    ///
    /// `auto` spins if a host has a processor for each rank, and yields otherwise. `sleep` frees the processors, and
    /// adds 30 to 50 us to each half of a round trip. Example: --wait sleep
    #[arg(long, value_name = "HOW", default_value = "auto", value_parser = choice::<Wait>(), hide_possible_values = true, hide_short_help = true)]
    pub wait: Wait,

    /// Unplanned pairs to measure, to check the predictions
    ///
    /// Example: --checks 0
    #[arg(long, value_name = "N", default_value_t = 16)]
    pub checks: usize,
}

/// Predictions.
#[derive(Debug, Clone, Args)]
pub(crate) struct PairsArguments {
    /// The run: its folder, its record, or its name
    ///
    /// Example: pipebench latency pairs pb-20261121-014455-abcdef --csv -
    #[arg(value_name = "RUN")]
    pub run: String,

    /// Folder with runs
    ///
    /// Example: --folder runs
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub folder: PathBuf,

    /// Write a line per pair: two hosts and their round trip in microseconds; - is standard output
    ///
    /// Example: --csv pairs.csv
    #[arg(long, value_name = "FILE", required_unless_present = "matrix")]
    pub csv: Option<PathBuf>,

    /// Write all round trips in microseconds as a matrix of 32-bit numbers, in the format of NumPy (.npy)
    ///
    /// Rows and columns are the hosts of the fabric, in their order. Example: --matrix pairs.npy
    #[arg(long, value_name = "FILE")]
    pub matrix: Option<PathBuf>,
}

/// A simulation.
#[derive(Debug, Clone, Args)]
pub(crate) struct SimulateArguments {
    /// Description of the fabric
    ///
    /// Example: pipebench latency simulate fabric.toml
    #[arg(value_name = "FABRIC")]
    pub fabric: PathBuf,

    /// Pairs per unknown; several, separated by commas
    ///
    /// Example: --redundancy 1.5,4
    #[arg(
        long,
        value_name = "FACTORS",
        value_delimiter = ',',
        default_value = "1,1.5,2"
    )]
    pub redundancy: Vec<f64>,

    /// Samples of a pair, whose median counts; several, separated by commas
    ///
    /// Example: --pings 11
    #[arg(
        long,
        value_name = "K",
        value_delimiter = ',',
        default_value = "1,10,100"
    )]
    pub pings: Vec<usize>,

    /// Latency of a cable of each class, in any unit
    ///
    /// Example: --latency 500,100
    #[arg(
        long,
        value_name = "VALUES",
        value_delimiter = ',',
        default_value = "400,150,250"
    )]
    pub latency: Vec<f64>,

    /// Largest difference between cables of a class, in percent
    ///
    /// Example: --spread 100
    #[arg(long, value_name = "PERCENT", default_value_t = 2.0)]
    pub spread: f64,

    /// Noise of a sample, in percent of the round trip
    ///
    /// Example: --noise 0
    #[arg(long, value_name = "PERCENT", default_value_t = 1.0)]
    pub noise: f64,

    /// Samples with a spike, in percent; the mean spike is half a round trip
    ///
    /// Example: --spikes 0
    #[arg(long, value_name = "PERCENT", default_value_t = 2.0)]
    pub spikes: f64,

    /// How much slower a slow cable is, in percent
    ///
    /// Example: --slower 50
    #[arg(long, value_name = "PERCENT", default_value_t = 20.0)]
    pub slower: f64,

    /// Cables that are slow at the same time
    ///
    /// Example: --slowed 3
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub slowed: usize,

    /// Trials of each kind
    ///
    /// Example: --trials 60
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub trials: usize,

    /// Rounds of locating plans to simulate, too; several, separated by commas
    ///
    /// Default: none. Example: --locate 2,3,4,5
    #[arg(long, value_name = "ROUNDS", value_delimiter = ',')]
    pub locate: Vec<usize>,

    /// Write every pair as set and as calculated, for the first plan; - is standard output
    ///
    /// Example: --pairs pairs.csv
    #[arg(long, value_name = "FILE")]
    pub pairs: Option<PathBuf>,

    /// Write every cable as set and as calculated, for the first plan; - is standard output
    ///
    /// Example: --cables cables.csv
    #[arg(long, value_name = "FILE")]
    pub cables: Option<PathBuf>,

    /// Seed
    ///
    /// Example: --seed 7
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    pub seed: u64,
}
