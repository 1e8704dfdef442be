//! The Intel MPI Benchmarks' patterns: what is measured, in which groups, with which lengths and how often. Pure.
//!
//! "Guide" is the users guide of version 3.0 (2006); "current" is what the suite does today.

use serde::{Deserialize, Serialize};

use super::collective::{Algorithm, Collective};
use super::job::Ranks;

/// A benchmark of the first part (messages).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
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
}

/// All benchmarks in the order of the guide, those that came later behind it.
pub const BENCHMARKS: [Benchmark; 20] = [
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
];

/// How many of them the guide has.
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

impl Benchmark {
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
        }
    }

    /// The one of this name, in whatever case.
    pub fn named(name: &str) -> Option<Self> {
        let same = |one: &Self| one.name().eq_ignore_ascii_case(name);
        BENCHMARKS.into_iter().find(same)
    }

    /// Its kind.
    pub fn class(self) -> Class {
        match self {
            Self::PingPong | Self::PingPing => Class::Single,
            Self::Sendrecv | Self::Exchange => Class::Parallel,
            Self::Uniband | Self::Biband => Class::Rate,
            Self::Barrier => Class::Sync,
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
            _ => 1,
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

    /// Bytes that a rank of a group of `ranks` needs for messages of this length.
    pub fn memory(self, ranks: usize, bytes: usize) -> usize {
        let parts = match self {
            Self::Exchange => 4,
            Self::Allgather | Self::Allgatherv | Self::Gather | Self::Gatherv => 1 + ranks,
            Self::Scatter | Self::Scatterv => 1 + ranks,
            Self::Alltoall | Self::Alltoallv => 2 * ranks,
            Self::ReduceScatterBlock => 1 + 2 * ranks,
            Self::Uniband => 2,
            Self::Biband => 1 + lot(bytes),
            _ => 3,
        };
        parts.saturating_mul(bytes)
    }
}

/// Logarithm of the longest message: 1 GiB.
pub const MOST_LOG: usize = 30;

/// Messages that Uniband and Biband have under way at a time.
pub const WINDOW: usize = 256;

/// Messages of a window that Biband has under way each way at a time: all of them, unless their memory were more than 16 MiB; then 16 of
/// them, lot behind lot.
pub fn lot(bytes: usize) -> usize {
    const ROOM: usize = 16 << 20;
    match bytes.saturating_mul(WINDOW) <= ROOM {
        true => WINDOW,
        false => 16,
    }
}

/// Whose rules hold.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rules {
    /// Those of the users guide of version 3.0.
    #[default]
    Guide,
    /// Today's.
    Current,
}

impl Rules {
    /// Both, with their names.
    pub const NAMES: [(&'static str, Self); 2] =
        [("guide", Self::Guide), ("current", Self::Current)];

    /// Bytes of what the tables call a megabyte.
    pub fn megabyte(self) -> f64 {
        match self {
            Self::Guide => 1_048_576.0,
            Self::Current => 1e6,
        }
    }

    /// What is run if nobody asks for anything.
    pub fn benchmarks(self) -> Vec<Benchmark> {
        match self {
            Self::Guide => BENCHMARKS[..OF_THE_GUIDE].to_vec(),
            Self::Current => OF_TODAY.to_vec(),
        }
    }
}

/// How several groups at a time are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Multi {
    /// The worst of all groups.
    Worst,
    /// Each group by itself.
    Each,
}

/// What is asked for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Imb {
    /// The processes.
    pub ranks: Ranks,
    /// What is measured, in this order.
    pub benchmarks: Vec<Benchmark>,
    /// Whose rules hold.
    pub rules: Rules,
    /// Least number of ranks; the series goes on from it by doubling.
    pub least: usize,
    /// Several groups at a time.
    pub multi: Option<Multi>,
    /// Ranks are numbered along the rows of a matrix of so many rows and columns, in which they stand column by column.
    pub map: Option<(usize, usize)>,
    /// Lengths of messages, if they are not the usual ones.
    pub lengths: Option<Vec<usize>>,
    /// Logarithms of the least length but 0, and of the largest.
    pub logs: (u32, u32),
    /// Repetitions at most.
    pub repetitions: usize,
    /// Bytes of a length's messages all together at most.
    pub volume: usize,
    /// Seconds that a length may take, by today's rules.
    pub seconds: f64,
    /// The algorithm of collectives, where there is a choice.
    pub algorithm: Option<Algorithm>,
    /// What arrives is compared with what should.
    pub check: bool,
    /// Bytes of buffers that a rank may have.
    pub memory: usize,
}

/// One table: a benchmark in one set of groups.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Table {
    /// What is measured.
    pub benchmark: Benchmark,
    /// Ranks of each group, in the order of their places.
    pub groups: Vec<Vec<usize>>,
    /// Lengths and how often each is measured.
    pub lengths: Vec<Length>,
}

/// A line of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Length {
    /// Bytes of a message.
    pub bytes: usize,
    /// Repetitions; by today's rules the most there are.
    pub repetitions: usize,
}

impl Table {
    /// Ranks of a group.
    pub fn group_size(&self) -> usize {
        self.groups.first().map_or(0, Vec::len)
    }
}

impl Imb {
    /// What is done under the name of a benchmark: today's Reduce_scatter has vectors of a message's length for each rank, too.
    pub fn meaning(&self, benchmark: Benchmark) -> Benchmark {
        match (benchmark, self.rules) {
            (Benchmark::ReduceScatter, Rules::Current) => Benchmark::ReduceScatterBlock,
            (same, _) => same,
        }
    }

    /// The algorithm for messages of this length in a table, where there is a choice.
    pub fn algorithm_for(&self, table: &Table, bytes: usize) -> Option<Algorithm> {
        let collective = table.benchmark.collective()?;
        let ranks = table.group_size();
        let own = self.algorithm;
        let own = own.filter(|algorithm| collective.algorithms().contains(algorithm));
        let whole = match self.meaning(table.benchmark) {
            Benchmark::ReduceScatterBlock => bytes.saturating_mul(ranks),
            _ => bytes,
        };
        Some(own.unwrap_or_else(|| collective.choose(ranks, whole)))
    }

    /// Bytes of message buffers that a rank needs at most.
    pub fn bytes_per_rank(&self, ranks: usize) -> usize {
        let of = |benchmark: &Benchmark| {
            let lengths = self.lengths_of(*benchmark).into_iter();
            let memory = lengths.map(|length| self.meaning(*benchmark).memory(ranks, length.bytes));
            memory.filter(|bytes| *bytes <= self.memory).max()
        };
        self.benchmarks.iter().filter_map(of).max().unwrap_or(0)
    }

    /// Number of each rank's place in the order that groups are made in.
    pub fn order(&self, ranks: usize) -> Vec<usize> {
        match self.map {
            Some((rows, columns)) => (0..rows * columns)
                .map(|place| place % columns * rows + place / columns)
                .filter(|rank| *rank < ranks)
                .collect(),
            None => (0..ranks).collect(),
        }
    }

    /// Numbers of ranks that a benchmark is run with: from the least one by doubling, and all of them.
    pub fn series(&self, benchmark: Benchmark, ranks: usize) -> Vec<usize> {
        match benchmark.class() {
            Class::Single => vec![2],
            Class::Parallel | Class::Collective | Class::Sync | Class::Rate => {
                // Pairs need an even number: the least one is rounded up, all of them down.
                let even = benchmark.class() == Class::Rate;
                let ranks = if even { ranks - ranks % 2 } else { ranks };
                if ranks == 0 {
                    return Vec::new();
                }
                let least = self.least.clamp(1, ranks);
                let least = if even { least + least % 2 } else { least };
                let doubled = std::iter::successors(Some(least), |last| last.checked_mul(2));
                let mut series: Vec<usize> = doubled.take_while(|count| *count < ranks).collect();
                series.push(ranks);
                series
            }
        }
    }

    /// All tables, in their order.
    pub fn tables(&self, ranks: usize) -> Vec<Table> {
        let order = self.order(ranks);
        let of = |benchmark: &Benchmark| -> Vec<Table> {
            let sizes = self.series(*benchmark, ranks).into_iter();
            let table = |size: usize| Table {
                benchmark: *benchmark,
                groups: match self.multi {
                    Some(_) => order.chunks_exact(size).map(<[usize]>::to_vec).collect(),
                    None => vec![order[..size].to_vec()],
                },
                lengths: self.lengths_of(*benchmark),
            };
            sizes.filter(|size| *size <= ranks).map(table).collect()
        };
        self.benchmarks.iter().flat_map(of).collect()
    }

    /// Lengths of a benchmark: whole items, and how often each is measured.
    pub fn lengths_of(&self, benchmark: Benchmark) -> Vec<Length> {
        if benchmark.class() == Class::Sync {
            let repetitions = self.repetitions;
            return vec![Length {
                bytes: 0,
                repetitions,
            }];
        }
        let item = benchmark.item_bytes();
        let lengths: Vec<usize> = match &self.lengths {
            Some(own) => own
                .iter()
                .map(|bytes| bytes.next_multiple_of(item))
                .collect(),
            None => {
                let (least, largest) = self.logs;
                let powers = (least..=largest).map(|log| 1_usize << log);
                let mut all: Vec<usize> = std::iter::once(0)
                    .chain(powers.map(|bytes| bytes.max(item)))
                    .collect();
                all.dedup();
                all
            }
        };
        let of = |bytes: usize| Length {
            bytes,
            repetitions: match bytes {
                0 => self.repetitions,
                some => (self.volume / some).clamp(1, self.repetitions),
            },
        };
        lengths.into_iter().map(of).collect()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::plan::job::{RankOrder, tests::ranks};

    pub(crate) fn imb() -> Imb {
        Imb {
            ranks: ranks(1, RankOrder::Block),
            benchmarks: Rules::Guide.benchmarks(),
            rules: Rules::Guide,
            least: 2,
            multi: None,
            map: None,
            lengths: None,
            logs: (0, 22),
            repetitions: 1000,
            volume: 40 << 20,
            seconds: 10.0,
            algorithm: None,
            check: false,
            memory: 1 << 30,
        }
    }

    #[test]
    fn lengths_and_repetitions_are_those_of_the_guide() {
        let imb = imb();
        let all = imb.lengths_of(Benchmark::PingPong);
        let pairs: Vec<(usize, usize)> =
            all.iter().map(|one| (one.bytes, one.repetitions)).collect();
        assert_eq!(pairs.len(), 24);
        assert_eq!(pairs[..3], [(0, 1000), (1, 1000), (2, 1000)]);
        assert_eq!(
            pairs[16..],
            [
                (32768, 1000),
                (65536, 640),
                (131_072, 320),
                (262_144, 160),
                (524_288, 80),
                (1_048_576, 40),
                (2_097_152, 20),
                (4_194_304, 10)
            ]
        );
        // Sums: 0, 4, 8, ...
        let sums = imb.lengths_of(Benchmark::Allreduce);
        let bytes: Vec<usize> = sums.iter().map(|one| one.bytes).collect();
        assert_eq!((bytes.len(), &bytes[..3]), (22, &[0, 4, 8][..]));
        let own = Imb {
            lengths: Some(vec![0, 100, 1000, 10_000, 100_000, 1_000_000]),
            ..imb.clone()
        };
        let counts: Vec<usize> = own
            .lengths_of(Benchmark::PingPing)
            .iter()
            .map(|one| one.repetitions)
            .collect();
        assert_eq!(counts, [1000, 1000, 1000, 1000, 419, 41]);
        assert_eq!(imb.lengths_of(Benchmark::Barrier).len(), 1);
    }

    #[test]
    fn series_maps_and_groups_are_those_of_the_guide() {
        let series = |least, ranks, benchmark| Imb { least, ..imb() }.series(benchmark, ranks);
        assert_eq!(series(2, 11, Benchmark::Bcast), [2, 4, 8, 11]);
        assert_eq!(series(5, 11, Benchmark::Bcast), [5, 10, 11]);
        assert_eq!(series(7, 14, Benchmark::Bcast), [7, 14]);
        assert_eq!(series(20, 14, Benchmark::Bcast), [14]);
        assert_eq!(series(2, 11, Benchmark::PingPong), [2]);
        assert_eq!(series(3, 7, Benchmark::Biband), [4, 6]);
        assert_eq!(series(1, 5, Benchmark::Uniband), [2, 4]);
        // Sample 2 of the guide, which is that of four ranks: 2 x 2.
        let mapped = Imb {
            map: Some((2, 2)),
            multi: Some(Multi::Worst),
            benchmarks: vec![Benchmark::PingPing, Benchmark::Allreduce],
            ..imb()
        };
        let tables = mapped.tables(4);
        let groups: Vec<_> = tables.iter().map(|table| table.groups.clone()).collect();
        let pairs = vec![vec![0, 2], vec![1, 3]];
        assert_eq!(groups, [pairs.clone(), pairs, vec![vec![0, 2, 1, 3]]]);
        let wide = Imb {
            map: Some((2, 3)),
            ..imb()
        };
        assert_eq!(wide.order(6), [0, 2, 4, 1, 3, 5]);
        assert_eq!(wide.tables(1).len(), 11, "pairs need two");
    }

    #[test]
    fn names_are_known_in_any_case_and_algorithms_fit() {
        for benchmark in BENCHMARKS {
            let lower = benchmark.name().to_lowercase();
            assert_eq!(Benchmark::named(&lower), Some(benchmark));
        }
        assert_eq!(Benchmark::named("pong"), None);
        let table = Table {
            benchmark: Benchmark::Allreduce,
            groups: vec![vec![0, 1, 2]],
            lengths: Vec::new(),
        };
        let by = |algorithm| {
            let imb = Imb {
                algorithm: Some(algorithm),
                ..imb()
            };
            imb.algorithm_for(&table, 8)
        };
        assert_eq!(by(Algorithm::Ring), Some(Algorithm::Ring));
        assert_eq!(by(Algorithm::Bruck), Some(Algorithm::RecursiveDoubling));
    }
}
