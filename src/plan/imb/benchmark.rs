//! The benchmarks of the suite: names, kinds and requirements.

use serde::{Deserialize, Serialize};

use super::Rules;
use super::files::{FileBenchmark, Who};
use crate::plan::collective::{Algorithm, Collective};

/// A benchmark of the suite.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum Benchmark {
    /// A message goes to the other rank and comes back.
    PingPong,
    /// Two messages pass each other.
    PingPing,
    /// Each rank sends to the next one in a ring, and receives from the previous one.
    Sendrecv,
    /// Each rank exchanges messages with both neighbours in a ring.
    Exchange,
    /// Many messages go one way, and a receipt comes back.
    Uniband,
    /// Many messages go both ways.
    Biband,
    /// One rank sends to all.
    Bcast,
    /// Each rank sends a block to all.
    Allgather,
    /// The same with a separate length for each rank.
    Allgatherv,
    /// All ranks send to one.
    Gather,
    /// The same with a separate length for each rank.
    Gatherv,
    /// One rank sends a block to each rank.
    Scatter,
    /// The same with a separate length for each rank.
    Scatterv,
    /// Each rank sends a block to each rank.
    Alltoall,
    /// The same with a separate length for each block.
    Alltoallv,
    /// One rank gets the sum.
    Reduce,
    /// Each rank gets a part of the sum.
    ReduceScatter,
    /// Each rank gets a block of the sum, and each block has the full length.
    ReduceScatterBlock,
    /// All ranks get the sum.
    Allreduce,
    /// No rank continues before all ranks have arrived.
    Barrier,
    /// A window is created, used once, and removed.
    Window,
    /// One rank writes into the window of the other one.
    UnidirPut,
    /// One rank reads from the window of the other one.
    UnidirGet,
    /// Two ranks write into each other's window.
    BidirPut,
    /// Two ranks read from each other's window.
    BidirGet,
    /// All ranks add to the contents of the first rank's window.
    Accumulate,
    /// A file is opened, one byte is written, and the file is closed.
    OpenClose,
    /// A file is written or read.
    File(FileBenchmark),
}

/// Program of the suite that contains a benchmark.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Part {
    /// Messages.
    Mpi1,
    /// Windows: only one side acts.
    Ext,
    /// Files.
    Io,
}

impl Part {
    /// All parts with the names that users write.
    pub const NAMES: [(&'static str, Self); 3] =
        [("mpi1", Self::Mpi1), ("ext", Self::Ext), ("io", Self::Io)];

    /// Name in the title of the suite's output.
    pub fn title(self) -> &'static str {
        match self {
            Self::Mpi1 => "MPI-1",
            Self::Ext => "MPI-2",
            Self::Io => "MPI-IO",
        }
    }
}

/// Moment at which a transfer must be complete (guide 4.2.2.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// All transfers of a line are complete together, at the end.
    Aggregate,
    /// Each transfer is complete before the next one begins.
    NonAggregate,
}

impl Mode {
    /// Name as in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Aggregate => "AGGREGATE",
            Self::NonAggregate => "NON-AGGREGATE",
        }
    }
}

/// Kind of a benchmark. It decides groups and columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Class {
    /// One transfer between two ranks.
    Single,
    /// Transfers of all ranks at the same time.
    Parallel,
    /// A collective operation.
    Collective,
    /// An operation without lengths.
    Sync,
    /// Messages per second.
    Rate,
    /// Transfers while the rank computes.
    Overlap,
}

/// All benchmarks except those of [`FileBenchmark`] with their names, in the order of the guide. Benchmarks that came later than the guide
/// follow.
const BENCHMARKS: [(&str, Benchmark); 27] = [
    ("PingPong", Benchmark::PingPong),
    ("PingPing", Benchmark::PingPing),
    ("Sendrecv", Benchmark::Sendrecv),
    ("Exchange", Benchmark::Exchange),
    ("Bcast", Benchmark::Bcast),
    ("Allgather", Benchmark::Allgather),
    ("Allgatherv", Benchmark::Allgatherv),
    ("Alltoall", Benchmark::Alltoall),
    ("Alltoallv", Benchmark::Alltoallv),
    ("Reduce", Benchmark::Reduce),
    ("Reduce_scatter", Benchmark::ReduceScatter),
    ("Allreduce", Benchmark::Allreduce),
    ("Barrier", Benchmark::Barrier),
    ("Reduce_scatter_block", Benchmark::ReduceScatterBlock),
    ("Gather", Benchmark::Gather),
    ("Gatherv", Benchmark::Gatherv),
    ("Scatter", Benchmark::Scatter),
    ("Scatterv", Benchmark::Scatterv),
    ("Uniband", Benchmark::Uniband),
    ("Biband", Benchmark::Biband),
    ("Window", Benchmark::Window),
    ("Unidir_Put", Benchmark::UnidirPut),
    ("Unidir_Get", Benchmark::UnidirGet),
    ("Bidir_Get", Benchmark::BidirGet),
    ("Bidir_Put", Benchmark::BidirPut),
    ("Accumulate", Benchmark::Accumulate),
    ("Open_Close", Benchmark::OpenClose),
];

/// Number of message benchmarks in the guide.
const OF_THE_GUIDE: usize = 13;

/// Default benchmarks of today's suite, in its order (without Reduce_local, which sends nothing).
const OF_TODAY: [Benchmark; 18] = [
    Benchmark::PingPong,
    Benchmark::PingPing,
    Benchmark::Sendrecv,
    Benchmark::Exchange,
    Benchmark::Allreduce,
    Benchmark::Reduce,
    Benchmark::ReduceScatter,
    Benchmark::ReduceScatterBlock,
    Benchmark::Allgather,
    Benchmark::Allgatherv,
    Benchmark::Gather,
    Benchmark::Gatherv,
    Benchmark::Scatter,
    Benchmark::Scatterv,
    Benchmark::Alltoall,
    Benchmark::Alltoallv,
    Benchmark::Bcast,
    Benchmark::Barrier,
];

/// Benchmarks of windows, in the order of today's suite.
const WINDOWS_OF_TODAY: [Benchmark; 6] = [
    Benchmark::Window,
    Benchmark::UnidirGet,
    Benchmark::UnidirPut,
    Benchmark::BidirGet,
    Benchmark::BidirPut,
    Benchmark::Accumulate,
];

/// Beginning and end of the names of file benchmarks, in the order of today's suite: all that write come before all that read.
const FILES_OF_TODAY: [(&str, &str); 9] = [
    ("S", "Indv"),
    ("S", "Expl"),
    ("P", "Indv"),
    ("P", "Shared"),
    ("P", "Priv"),
    ("P", "Expl"),
    ("C", "Indv"),
    ("C", "Shared"),
    ("C", "Expl"),
];

/// Default benchmarks of a part, in the order of the rules.
pub fn usual(part: Part, rules: Rules) -> Vec<Benchmark> {
    match (part, rules) {
        (Part::Mpi1, Rules::Guide) => Benchmark::all().take(OF_THE_GUIDE).collect(),
        (Part::Mpi1, Rules::Current) => OF_TODAY.to_vec(),
        (Part::Ext, Rules::Current) => WINDOWS_OF_TODAY.to_vec(),
        (Part::Io, Rules::Current) => {
            let mut all = Vec::new();
            for way in ["Write", "Read"] {
                for (who, pointer) in FILES_OF_TODAY {
                    all.extend(Benchmark::named(&format!("{who}_{way}_{pointer}")));
                    all.extend(Benchmark::named(&format!("{who}_I{way}_{pointer}")));
                }
            }
            all.push(Benchmark::OpenClose);
            all
        }
        (Part::Ext | Part::Io, Rules::Guide) => Benchmark::all()
            .filter(|benchmark| benchmark.part() == part)
            .collect(),
    }
}

impl Benchmark {
    /// All benchmarks, those of files last.
    pub fn all() -> impl Iterator<Item = Self> {
        let files = FileBenchmark::all().map(Self::File);
        let others = BENCHMARKS.into_iter().map(|(_, one)| one);
        others.chain(files)
    }

    /// Name as in tables.
    pub fn name(self) -> &'static str {
        if let Self::File(file) = self {
            return file.name();
        }
        let known = BENCHMARKS.iter().find(|(_, one)| *one == self);
        known.map_or("", |(name, _)| name)
    }

    /// Finds a benchmark by name, ignoring case.
    pub fn named(name: &str) -> Option<Self> {
        let same = |one: &Self| one.name().eq_ignore_ascii_case(name);
        Self::all().find(same)
    }

    /// Program of the suite that contains it.
    pub fn part(self) -> Part {
        match self {
            Self::Window
            | Self::UnidirPut
            | Self::UnidirGet
            | Self::BidirPut
            | Self::BidirGet
            | Self::Accumulate => Part::Ext,
            Self::OpenClose | Self::File(_) => Part::Io,
            _ => Part::Mpi1,
        }
    }

    /// Modes, in the order of their tables. The only entry is `None` if each transfer is complete when it returns.
    pub fn modes(self) -> &'static [Option<Mode>] {
        match self {
            Self::UnidirPut
            | Self::UnidirGet
            | Self::BidirPut
            | Self::BidirGet
            | Self::Accumulate => &[Some(Mode::Aggregate), Some(Mode::NonAggregate)],
            Self::File(file) if file.writes() && !file.overlaps() => {
                &[Some(Mode::Aggregate), Some(Mode::NonAggregate)]
            }
            // A read is complete once the data has arrived. A transfer during computation is waited for each time.
            Self::File(_) => &[Some(Mode::Aggregate)],
            _ => &[None],
        }
    }

    /// Kind of the benchmark.
    pub fn class(self) -> Class {
        match self {
            Self::PingPong | Self::PingPing => Class::Single,
            Self::UnidirPut | Self::UnidirGet | Self::BidirPut | Self::BidirGet => Class::Single,
            Self::Sendrecv | Self::Exchange => Class::Parallel,
            Self::Uniband | Self::Biband => Class::Rate,
            Self::Barrier | Self::OpenClose => Class::Sync,
            Self::File(file) if file.overlaps() => Class::Overlap,
            Self::File(file) if file.who() == Who::Single => Class::Single,
            // Collective calls on files report throughput, too.
            Self::File(_) => Class::Parallel,
            _ => Class::Collective,
        }
    }

    /// Collective operation of the benchmark, if it is one.
    pub fn collective(self) -> Option<Collective> {
        match self {
            Self::Bcast => Some(Collective::Broadcast),
            Self::Allgather | Self::Allgatherv => Some(Collective::Allgather),
            Self::Gather | Self::Gatherv => Some(Collective::Gather),
            Self::Scatter | Self::Scatterv => Some(Collective::Scatter),
            Self::Alltoall | Self::Alltoallv => Some(Collective::Alltoall),
            Self::Reduce => Some(Collective::Reduce),
            Self::ReduceScatter | Self::ReduceScatterBlock => Some(Collective::ReduceScatter),
            Self::Allreduce => Some(Collective::Allreduce),
            Self::Barrier => Some(Collective::Barrier),
            _ => None,
        }
    }

    /// Bytes of an item: floats for sums, bytes for all others.
    pub fn item_bytes(self) -> usize {
        match self.collective() {
            Some(Collective::Reduce | Collective::ReduceScatter | Collective::Allreduce) => 4,
            _ if self == Self::Accumulate => 4,
            _ => 1,
        }
    }

    /// True if one rank runs it alone.
    pub fn is_of_one(self) -> bool {
        matches!(self, Self::File(file) if file.who() == Who::Single)
    }

    /// True if received data can be compared with the expected data. That is impossible if no data arrives, or if messages overwrite each other.
    pub fn is_comparable(self) -> bool {
        !matches!(self.class(), Class::Sync | Class::Rate) && self != Self::Window
    }

    /// True if it reads from the window of another rank.
    pub fn gets(self) -> bool {
        matches!(self, Self::UnidirGet | Self::BidirGet)
    }

    /// Lengths are multiples of this many bytes. By today's rules all one-sided transfers use floats.
    pub fn unit_bytes(self, rules: Rules) -> usize {
        match (self.part(), rules) {
            (Part::Ext, Rules::Current) => 4,
            _ => self.item_bytes(),
        }
    }

    /// Number of messages of its length that count for throughput: those that a rank sends and receives.
    pub fn messages(self) -> f64 {
        match self {
            Self::Sendrecv | Self::Biband => 2.0,
            Self::Exchange => 4.0,
            _ => 1.0,
        }
    }

    /// True if one rank is the root. By the guide's rules the root changes from repetition to repetition.
    pub fn is_rooted(self) -> bool {
        use Collective::{Broadcast, Gather, Reduce, Scatter};
        matches!(
            self.collective(),
            Some(Broadcast | Reduce | Gather | Scatter)
        )
    }

    /// True if it can run with this algorithm.
    pub fn has(self, algorithm: Algorithm) -> bool {
        self.collective()
            .is_some_and(|collective| collective.algorithms().contains(&algorithm))
    }

    /// Bytes that a rank in a group of `ranks` needs for messages of length `bytes`. For windows, `places` is the number of places for transfers in
    /// the window and in the buffer. For Biband, `lot` messages arrive at a time.
    pub fn memory(self, ranks: usize, bytes: usize, places: (usize, usize), lot: usize) -> usize {
        let parts = match self {
            Self::Exchange => 4,
            Self::Allgather | Self::Allgatherv | Self::Gather | Self::Gatherv => 1 + ranks,
            Self::Scatter | Self::Scatterv => 1 + ranks,
            Self::Alltoall | Self::Alltoallv => 2 * ranks,
            Self::ReduceScatterBlock => 1 + 2 * ranks,
            Self::Uniband => 2,
            Self::Biband => 1 + lot,
            _ if self.part() == Part::Ext => places.0 + places.1,
            Self::OpenClose => 0,
            // One rank collects the pieces of all.
            Self::File(_) => 2,
            _ => 3,
        };
        parts.saturating_mul(bytes)
    }

    /// Maximum scratch memory of collectives on a rank in a group of `ranks`, in bytes, for any algorithm: data to be added, and blocks in
    /// the order in which they travel.
    pub fn scratch(self, ranks: usize, bytes: usize) -> usize {
        let parts = match self {
            Self::Reduce | Self::Allreduce | Self::ReduceScatter => 1,
            Self::ReduceScatterBlock | Self::Allgather | Self::Allgatherv => ranks,
            Self::Gather | Self::Gatherv | Self::Scatter | Self::Scatterv => ranks,
            // All blocks, and two copies of the half that is under way (Bruck).
            Self::Alltoall | Self::Alltoallv => 2 * ranks + 1,
            _ => 0,
        };
        parts.saturating_mul(bytes)
    }
}

impl From<Benchmark> for String {
    fn from(benchmark: Benchmark) -> Self {
        benchmark.name().to_owned()
    }
}

impl TryFrom<String> for Benchmark {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        Self::named(&name).ok_or_else(|| format!("{name:?} is not a benchmark"))
    }
}
