//! The benchmarks of the suite: their names, their kinds, and what each needs.

use serde::{Deserialize, Serialize};

use super::files::{FileBenchmark, Who};
use super::{Rules, lot};
use crate::plan::collective::{Algorithm, Collective};

/// A benchmark.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum Benchmark {
    /// A message is sent and comes back.
    PingPong,
    /// Two messages pass each other.
    PingPing,
    /// Along a ring.
    Sendrecv,
    /// With both neighbours in a ring.
    Exchange,
    /// Many messages one way, and a receipt.
    Uniband,
    /// Many messages both ways.
    Biband,
    /// One to all.
    Bcast,
    /// All to all, a block of each.
    Allgather,
    /// The same with a length for each.
    Allgatherv,
    /// All to one.
    Gather,
    /// The same with a length for each.
    Gatherv,
    /// One to all, a block for each.
    Scatter,
    /// The same with a length for each.
    Scatterv,
    /// A block from each to each.
    Alltoall,
    /// The same with a length for each.
    Alltoallv,
    /// Sum to one.
    Reduce,
    /// Sum, a part to each.
    ReduceScatter,
    /// Sum, a block of the full length to each.
    ReduceScatterBlock,
    /// Sum to all.
    Allreduce,
    /// Nobody goes on before all have come.
    Barrier,
    /// A window is made, used once, and taken away.
    Window,
    /// Into the window of the other one.
    UnidirPut,
    /// Out of the window of the other one.
    UnidirGet,
    /// Into each other's window.
    BidirPut,
    /// Out of each other's window.
    BidirGet,
    /// All add to what is in the window of the first one.
    Accumulate,
    /// A file is opened, a byte is written, and it is closed.
    OpenClose,
    /// A file is written or read.
    File(FileBenchmark),
}

/// Which of the suite's programs has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Part {
    /// Messages.
    Mpi1,
    /// Windows: one side acts.
    Ext,
    /// Files.
    Io,
}

impl Part {
    /// All of them, as the user writes them.
    pub const NAMES: [(&'static str, Self); 3] =
        [("mpi1", Self::Mpi1), ("ext", Self::Ext), ("io", Self::Io)];

    /// As the guide calls it.
    pub fn title(self) -> &'static str {
        match self {
            Self::Mpi1 => "MPI-1",
            Self::Ext => "MPI-2 EXT",
            Self::Io => "MPI-IO",
        }
    }
}

/// When a transfer must be complete (guide 4.2.2.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// All of a line together, at the end.
    Aggregate,
    /// Each before the next one begins.
    NonAggregate,
}

impl Mode {
    /// As tables have it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Aggregate => "AGGREGATE",
            Self::NonAggregate => "NON-AGGREGATE",
        }
    }
}

/// What kind it is: decides groups and columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Class {
    /// One transfer between two ranks.
    Single,
    /// All ranks at the same time.
    Parallel,
    /// A collective operation.
    Collective,
    /// One without lengths.
    Sync,
    /// Messages per second.
    Rate,
    /// Transfers while the rank computes.
    Overlap,
}

/// All benchmarks but those of [`FileBenchmark`], in the order of the guide, those that came later behind it.
const BENCHMARKS: [Benchmark; 27] = [
    Benchmark::PingPong,
    Benchmark::PingPing,
    Benchmark::Sendrecv,
    Benchmark::Exchange,
    Benchmark::Bcast,
    Benchmark::Allgather,
    Benchmark::Allgatherv,
    Benchmark::Alltoall,
    Benchmark::Alltoallv,
    Benchmark::Reduce,
    Benchmark::ReduceScatter,
    Benchmark::Allreduce,
    Benchmark::Barrier,
    Benchmark::ReduceScatterBlock,
    Benchmark::Gather,
    Benchmark::Gatherv,
    Benchmark::Scatter,
    Benchmark::Scatterv,
    Benchmark::Uniband,
    Benchmark::Biband,
    Benchmark::Window,
    Benchmark::UnidirPut,
    Benchmark::UnidirGet,
    Benchmark::BidirPut,
    Benchmark::BidirGet,
    Benchmark::Accumulate,
    Benchmark::OpenClose,
];

/// How many messages benchmarks the guide has.
const OF_THE_GUIDE: usize = 13;

/// What today's suite runs if nobody asks for anything, in its order (without Reduce_local, which sends nothing).
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

/// What is run of a part if nobody asks for anything.
pub fn usual(part: Part, rules: Rules) -> Vec<Benchmark> {
    match (part, rules) {
        (Part::Mpi1, Rules::Guide) => BENCHMARKS[..OF_THE_GUIDE].to_vec(),
        (Part::Mpi1, Rules::Current) => OF_TODAY.to_vec(),
        (Part::Ext | Part::Io, _) => Benchmark::all()
            .filter(|benchmark| benchmark.part() == part)
            .collect(),
    }
}

impl Benchmark {
    /// All of them.
    pub fn all() -> impl Iterator<Item = Self> {
        let files = FileBenchmark::all().map(Self::File);
        BENCHMARKS.into_iter().chain(files)
    }

    /// As tables have it.
    pub fn name(self) -> &'static str {
        match self {
            Self::PingPong => "PingPong",
            Self::PingPing => "PingPing",
            Self::Sendrecv => "Sendrecv",
            Self::Exchange => "Exchange",
            Self::Uniband => "Uniband",
            Self::Biband => "Biband",
            Self::Bcast => "Bcast",
            Self::Allgather => "Allgather",
            Self::Allgatherv => "Allgatherv",
            Self::Gather => "Gather",
            Self::Gatherv => "Gatherv",
            Self::Scatter => "Scatter",
            Self::Scatterv => "Scatterv",
            Self::Alltoall => "Alltoall",
            Self::Alltoallv => "Alltoallv",
            Self::Reduce => "Reduce",
            Self::ReduceScatter => "Reduce_scatter",
            Self::ReduceScatterBlock => "Reduce_scatter_block",
            Self::Allreduce => "Allreduce",
            Self::Barrier => "Barrier",
            Self::Window => "Window",
            Self::UnidirPut => "Unidir_Put",
            Self::UnidirGet => "Unidir_Get",
            Self::BidirPut => "Bidir_Put",
            Self::BidirGet => "Bidir_Get",
            Self::Accumulate => "Accumulate",
            Self::OpenClose => "Open_Close",
            Self::File(file) => file.name(),
        }
    }

    /// The one of this name, in whatever case.
    pub fn named(name: &str) -> Option<Self> {
        let same = |one: &Self| one.name().eq_ignore_ascii_case(name);
        Self::all().find(same)
    }

    /// Which program of the suite has it.
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

    /// Its modes, in the order of their tables; none where transfers are complete by themselves.
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
            // What is read is complete when it is there; what goes on meanwhile is waited for one by one.
            Self::File(_) => &[Some(Mode::Aggregate)],
            _ => &[None],
        }
    }

    /// Its kind.
    pub fn class(self) -> Class {
        match self {
            Self::PingPong | Self::PingPing => Class::Single,
            Self::UnidirPut | Self::UnidirGet | Self::BidirPut | Self::BidirGet => Class::Single,
            Self::Sendrecv | Self::Exchange => Class::Parallel,
            Self::Uniband | Self::Biband => Class::Rate,
            Self::Barrier | Self::OpenClose => Class::Sync,
            Self::File(file) if file.overlaps() => Class::Overlap,
            Self::File(file) if file.who() == Who::Single => Class::Single,
            // Of files throughput is told of collective calls, too.
            Self::File(_) => Class::Parallel,
            _ => Class::Collective,
        }
    }

    /// The operation it is, where all ranks do one together.
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

    /// Bytes of an item: floats for sums, bytes for all else.
    pub fn item_bytes(self) -> usize {
        match self.collective() {
            Some(Collective::Reduce | Collective::ReduceScatter | Collective::Allreduce) => 4,
            _ if self == Self::Accumulate => 4,
            _ => 1,
        }
    }

    /// Whether one rank does it alone.
    pub fn is_of_one(self) -> bool {
        matches!(self, Self::File(file) if file.who() == Who::Single)
    }

    /// Whether what arrives can be compared with what should: not where nothing does, or one message on top of the other.
    pub fn is_comparable(self) -> bool {
        !matches!(self.class(), Class::Sync | Class::Rate) && self != Self::Window
    }

    /// Whether it reads from the window of another rank.
    pub fn gets(self) -> bool {
        matches!(self, Self::UnidirGet | Self::BidirGet)
    }

    /// Lengths are whole numbers of so many bytes: by today's rules all of one-sided transfers are of floats.
    pub fn unit_bytes(self, rules: Rules) -> usize {
        match (self.part(), rules) {
            (Part::Ext, Rules::Current) => 4,
            _ => self.item_bytes(),
        }
    }

    /// Messages of its length that count for throughput: those that come and go at a rank.
    pub fn messages(self) -> f64 {
        match self {
            Self::Sendrecv | Self::Biband => 2.0,
            Self::Exchange => 4.0,
            _ => 1.0,
        }
    }

    /// Whether one rank has a part of its own, which moves from repetition to repetition.
    pub fn is_rooted(self) -> bool {
        matches!(
            self.collective(),
            Some(
                Collective::Broadcast
                    | Collective::Reduce
                    | Collective::Gather
                    | Collective::Scatter
            )
        )
    }

    /// Whether it can be done by this algorithm.
    pub fn has(self, algorithm: Algorithm) -> bool {
        self.collective()
            .is_some_and(|collective| collective.algorithms().contains(&algorithm))
    }

    /// Bytes that a rank of a group of `ranks` needs for messages of this length, or for transfers of it with so many places in
    /// the window and in the buffer.
    pub fn memory(self, ranks: usize, bytes: usize, places: (usize, usize)) -> usize {
        let parts = match self {
            Self::Exchange => 4,
            Self::Allgather | Self::Allgatherv | Self::Gather | Self::Gatherv => 1 + ranks,
            Self::Scatter | Self::Scatterv => 1 + ranks,
            Self::Alltoall | Self::Alltoallv => 2 * ranks,
            Self::ReduceScatterBlock => 1 + 2 * ranks,
            Self::Uniband => 2,
            Self::Biband => 1 + lot(bytes),
            _ if self.part() == Part::Ext => places.0 + places.1,
            Self::OpenClose => 0,
            // What one rank collects for all.
            Self::File(_) => 2,
            _ => 3,
        };
        parts.saturating_mul(bytes)
    }

    /// Bytes that collectives of a group of `ranks` put aside at most on a rank, whichever algorithm is chosen: what is to be added, and
    /// blocks in the order in which they travel.
    pub fn scratch(self, ranks: usize, bytes: usize) -> usize {
        let parts = match self {
            Self::Reduce | Self::Allreduce | Self::ReduceScatter => 1,
            Self::ReduceScatterBlock | Self::Allgather | Self::Allgatherv => ranks,
            Self::Gather | Self::Gatherv | Self::Scatter | Self::Scatterv => ranks,
            // All blocks, and twice the half of them that is under way (Bruck).
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
        Self::named(&name).ok_or_else(|| format!("{name:?} is no benchmark"))
    }
}
