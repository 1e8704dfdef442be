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
pub(crate) const LONG: &str = "Latencies of all pairs of a fabric from a handful of rounds: from switches, cables and routes a small set of pairs is chosen that says all that \
    pairs can say, in rounds whose pairs share no cable; they are measured, and what every cable takes and every pair is calculated.\n\n\
    A fabric is a TOML file (see docs/latency.md). Make one with `generate` or `import`, look at its rounds with `plan`, measure with `run`; later `run --baseline RUN` \
    or `locate --baseline RUN` tell which cable has become slow.";

/// Latencies of all pairs of a fabric from a handful of rounds.
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
    /// Choose pairs and rounds, and say what they can tell
    Plan(PlanArguments),
    /// Measure a fabric's pairs and calculate what its cables take
    Run(Box<RunArguments>),
    /// Find slow cables against an earlier run, in four rounds
    Locate(Box<RunArguments>),
    /// Predict the round trip of every pair from a run
    Pairs(PairsArguments),
    /// Try plans on random latencies with noise, spikes and slow cables
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
    /// 2 (p/2)^q hosts and q times as many cables. Default 12. Example: --ports 36
    #[arg(long, value_name = "P", default_value_t = 12)]
    pub ports: usize,

    /// Levels of switches (fat-tree)
    ///
    /// Default 3. Example: --levels 2
    #[arg(long, value_name = "Q", default_value_t = 3)]
    pub levels: u32,

    /// Leaf switches (leaf-spine)
    ///
    /// Default 4. Example: --leaves 16
    #[arg(long, value_name = "N", default_value_t = 4)]
    pub leaves: usize,

    /// Spine switches (leaf-spine)
    ///
    /// Default 2. Example: --spines 8
    #[arg(long, value_name = "N", default_value_t = 2)]
    pub spines: usize,

    /// Hosts of each switch that has some (leaf-spine, dragonfly, slimfly)
    ///
    /// Default 4. Example: --hosts-per-switch 16
    #[arg(long, value_name = "N", default_value_t = 4)]
    pub hosts_per_switch: usize,

    /// Switches of a group (dragonfly)
    ///
    /// Default 4. Example: --group 8
    #[arg(long, value_name = "A", default_value_t = 4)]
    pub group: usize,

    /// Global cables of a switch (dragonfly)
    ///
    /// Default 2. Example: --globals 4
    #[arg(long, value_name = "H", default_value_t = 2)]
    pub globals: usize,

    /// A prime that leaves 1 when divided by 4 (slimfly)
    ///
    /// Default 5. Example: --prime 13
    #[arg(long, value_name = "Q", default_value_t = 5)]
    pub prime: usize,

    /// How one of several shortest ways is chosen: symmetric, destination-mod, destination-hash or pair-hash
    ///
    /// Default symmetric; pair-hash for dragonfly and slimfly. Example: --rule destination-mod
    #[arg(long, value_name = "RULE", value_parser = choice::<Rule>(), hide_possible_values = true)]
    pub rule: Option<Rule>,

    /// Where to write it; - is standard output
    ///
    /// Default -. Example: --output fabric.toml
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
    /// Without them ways are the shortest ones, by --rule. Example: --tables lfts.txt
    #[arg(
        long,
        value_name = "FILE",
        requires = "ibnetdiscover",
        conflicts_with = "rule"
    )]
    pub tables: Option<PathBuf>,

    /// A table with the columns host, switch, and port, name, class, cost if they are known
    ///
    /// A line for each cable; one whose host is a switch of another line is a cable between switches. Example: --table ports.csv
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with = "ibnetdiscover",
        required_unless_present = "ibnetdiscover"
    )]
    pub table: Option<PathBuf>,

    /// How one of several shortest ways is chosen: symmetric, destination-mod, destination-hash or pair-hash
    ///
    /// Default destination-mod for ibnetdiscover, else symmetric. Example: --rule pair-hash
    #[arg(long, value_name = "RULE", value_parser = choice::<Rule>(), hide_possible_values = true)]
    pub rule: Option<Rule>,

    /// Where to write it; - is standard output
    ///
    /// Default -. Example: --output fabric.toml
    #[arg(long, short = 'o', value_name = "FILE", default_value = "-")]
    pub output: PathBuf,
}

/// How pairs are chosen.
#[derive(Debug, Clone, Args)]
pub(crate) struct ChoiceWords {
    /// Pairs by unknowns: 1 is the fewest, more is less noise
    ///
    /// Half as many pairs again cost three rounds more in a fat tree, and make noise independent of its size. Default 1.5. Example: --redundancy 2
    #[arg(long, value_name = "FACTOR", default_value_t = 1.5)]
    pub redundancy: f64,

    /// How pairs are chosen: rounds, paper or locate
    ///
    /// `rounds` chooses a basis together with its rounds. `paper` is the paper's way, to compare with: the first basis in the order of pairs, coloured by
    /// Welsh and Powell. `locate` covers every cable so that a slow one can be told, in --rounds rounds. Default rounds. Example: --strategy paper
    #[arg(long, value_name = "NAME", default_value = "rounds", value_parser = choice::<Strategy>(), hide_possible_values = true)]
    pub strategy: Strategy,

    /// A value for each direction of cables between switches
    ///
    /// Round trips do not tell all of them apart. Example: --directed
    #[arg(long)]
    pub directed: bool,

    /// Seed of what is drawn
    ///
    /// Default 1. Example: --plan-seed 7
    #[arg(long, value_name = "SEED", default_value_t = 1)]
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

    /// How hard few rounds are searched for: least, usual or most
    ///
    /// `most` searches for the lower bound, which is often out of reach. Default usual. Example: --effort most
    #[arg(long, value_name = "EFFORT", default_value = "usual", value_parser = choice::<Effort>(), hide_possible_values = true)]
    pub effort: Effort,

    /// Rounds of --strategy locate
    ///
    /// Default 4. Example: --rounds 3
    #[arg(long, value_name = "N", default_value_t = 4)]
    pub rounds: usize,

    /// Write the plan; - is standard output
    ///
    /// No default. Example: --output plan.toml
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

    /// Which host of the fabric each host is: by name, or in order
    ///
    /// `name`: hosts are called as in the description (a domain behind the name is ignored). `order`: the first one is the description's first. Default name.
    /// Example: --map order
    #[arg(
        long,
        value_name = "HOW",
        default_value = "name",
        help_heading = "Hosts", value_parser = choice::<HostMap>(), hide_possible_values = true)]
    pub map: HostMap,

    /// A plan that was made before
    ///
    /// Hosts that are missing cost it their pairs, and others are added in their place. Without it pairs are chosen for the hosts that are there.
    /// Example: --plan plan.toml
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

    /// What every measurement understands. With --baseline cables are judged by what they took in that run of the same fabric, when all was well;
    /// without it by the others of their class. Without --folder the run is kept in the current folder.
    #[command(flatten)]
    pub results: Measurement,
}

/// How each pair is measured.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Measurement")]
pub(crate) struct PairWords {
    /// Messages that each pair bounces, each timed by itself
    ///
    /// The median and the least are kept. Default 11. Example: --pings 101
    #[arg(long, value_name = "K", default_value_t = 11)]
    pub pings: usize,

    /// Messages before these
    ///
    /// Default 3. Example: --warmup-pings 10
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub warmup_pings: usize,

    /// Bytes of a message
    ///
    /// Default 8. Example: --size 64
    #[arg(long, value_name = "SIZE", default_value = "8")]
    pub size: String,

    /// What ranks do while nothing moves: auto, spin, yield or sleep
    ///
    /// `auto` spins while a host has a processor for each rank, and yields otherwise. `sleep` leaves processors to others, and adds 30 to 50 us to each half of
    /// a round trip. Default auto. Example: --wait sleep
    #[arg(long, value_name = "HOW", default_value = "auto", value_parser = choice::<Wait>(), hide_possible_values = true)]
    pub wait: Wait,

    /// Pairs that were not planned and are measured to see how close predictions come
    ///
    /// Default 16. Example: --checks 0
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
    /// Default: the current one. Example: --folder runs
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub folder: PathBuf,

    /// A line for each pair: two hosts and their round trip in microseconds; - is standard output
    ///
    /// Example: --csv pairs.csv
    #[arg(long, value_name = "FILE", required_unless_present = "matrix")]
    pub csv: Option<PathBuf>,

    /// All round trips in microseconds as a matrix of 32-bit numbers, in the format of NumPy (.npy)
    ///
    /// Rows and columns are the fabric's hosts in their order. Example: --matrix pairs.npy
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

    /// Pairs by unknowns; several, separated by commas
    ///
    /// Default 1,1.5,2. Example: --redundancy 1.5,4
    #[arg(
        long,
        value_name = "FACTORS",
        value_delimiter = ',',
        default_value = "1,1.5,2"
    )]
    pub redundancy: Vec<f64>,

    /// Samples of a pair, of which the median is taken; several, separated by commas
    ///
    /// Default 1,10,100. Example: --pings 11
    #[arg(
        long,
        value_name = "K",
        value_delimiter = ',',
        default_value = "1,10,100"
    )]
    pub pings: Vec<usize>,

    /// Latency of a cable of each class, in any unit
    ///
    /// Default 400,150,250. Example: --latency 500,100
    #[arg(
        long,
        value_name = "VALUES",
        value_delimiter = ',',
        default_value = "400,150,250"
    )]
    pub latency: Vec<f64>,

    /// Cables of a class differ by up to so many percent
    ///
    /// Default 2. Example: --spread 100
    #[arg(long, value_name = "PERCENT", default_value_t = 2.0)]
    pub spread: f64,

    /// Noise of a sample, in percent of the round trip
    ///
    /// Default 1. Example: --noise 0
    #[arg(long, value_name = "PERCENT", default_value_t = 1.0)]
    pub noise: f64,

    /// Samples with a spike, in percent; its mean is half of a round trip
    ///
    /// Default 2. Example: --spikes 0
    #[arg(long, value_name = "PERCENT", default_value_t = 2.0)]
    pub spikes: f64,

    /// How much longer a slowed cable takes, in percent
    ///
    /// Default 20. Example: --slower 50
    #[arg(long, value_name = "PERCENT", default_value_t = 20.0)]
    pub slower: f64,

    /// Cables that are slow at the same time
    ///
    /// Default 1. Example: --slowed 3
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub slowed: usize,

    /// Trials of each kind
    ///
    /// Default 20. Example: --trials 60
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub trials: usize,

    /// Rounds of locating plans, which are tried, too; several, separated by commas
    ///
    /// Default: none. Example: --locate 2,3,4,5
    #[arg(long, value_name = "ROUNDS", value_delimiter = ',')]
    pub locate: Vec<usize>,

    /// Every pair as it was set and as it was calculated, for the first plan; - is standard output
    ///
    /// Example: --pairs pairs.csv
    #[arg(long, value_name = "FILE")]
    pub pairs: Option<PathBuf>,

    /// Every cable as it was set and as it was calculated, for the first plan; - is standard output
    ///
    /// Example: --cables cables.csv
    #[arg(long, value_name = "FILE")]
    pub cables: Option<PathBuf>,

    /// Seed
    ///
    /// Default 1. Example: --seed 7
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    pub seed: u64,
}
