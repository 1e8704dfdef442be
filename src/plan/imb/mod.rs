//! Patterns of the Intel MPI Benchmarks: what is measured, in which groups, with which lengths and how often. Pure.
//!
//! "Guide" is the users guide of version 3.0 (2006); "current" is today's suite.

mod benchmark;
mod files;

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::collective::Algorithm;
use super::ranks::Ranks;

pub use benchmark::{Benchmark, Class, Mode, Part, usual};
pub use files::{FileBenchmark, ITEM_BYTES as FILE_ITEM_BYTES, Pointer, Who};

/// Logarithm to base 2 of the longest message: 1 GiB.
pub const MOST_LOG: usize = 30;

/// Default number of messages in a window of Uniband and Biband.
pub const WINDOW: usize = 256;
/// Most messages in such a window.
pub const MOST_WINDOW: usize = 4096;

/// Number of messages of a window that Biband has under way each way at a time. All of them, unless they need more than 16 MiB of memory;
/// then at most 16, one lot after the other.
pub fn lot(window: usize, bytes: usize) -> usize {
    const ROOM: usize = 16 << 20;
    match bytes.saturating_mul(window) <= ROOM {
        true => window,
        false => window.min(16),
    }
}

/// The default for plans of earlier versions.
fn usual_window() -> usize {
    WINDOW
}

/// Rules of the measurement.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rules {
    /// Rules of the users guide of version 3.0.
    #[default]
    Guide,
    /// Rules of today's suite.
    Current,
}

impl Rules {
    /// Both variants with their names.
    pub const NAMES: [(&'static str, Self); 2] =
        [("guide", Self::Guide), ("current", Self::Current)];

    /// Name as the user writes it.
    pub fn name(self) -> &'static str {
        let known = Self::NAMES.iter().find(|(_, one)| *one == self);
        known.map_or("", |(name, _)| name)
    }

    /// Bytes of a megabyte in the tables.
    pub fn megabyte(self) -> f64 {
        match self {
            Self::Guide => 1_048_576.0,
            Self::Current => 1e6,
        }
    }
}

/// Output for several groups that run at the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Multi {
    /// The worst of all groups.
    Worst,
    /// Each group separately.
    Each,
}

/// A job of benchmarks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Imb {
    /// The ranks.
    pub ranks: Ranks,
    /// Benchmarks in the order in which they run.
    pub benchmarks: Vec<Benchmark>,
    /// Rules of the measurement.
    pub rules: Rules,
    /// Least number of ranks, if not the default. The series continues from it by doubling.
    pub least: Option<usize>,
    /// Output for several groups at a time; `None` for one group.
    pub multi: Option<Multi>,
    /// Rows and columns of a matrix in which ranks stand column by column. Groups take ranks from it row by row.
    pub map: Option<(usize, usize)>,
    /// Lengths of messages in bytes, if not the default ones.
    pub lengths: Option<Vec<usize>>,
    /// Logarithms to base 2 of the least nonzero length and of the largest one, if not the defaults.
    pub logs: Option<(u32, u32)>,
    /// Repetitions and volume, where not the defaults.
    #[serde(default)]
    pub counts: Asked,
    /// Folder for files, on each host.
    pub path: PathBuf,
    /// Seconds that a rank computes during a transfer, if not the default.
    pub computes_s: Option<f64>,
    /// Number of messages in a window of Uniband and Biband.
    #[serde(default = "usual_window")]
    pub window: usize,
    /// Seconds allowed per length, by today's rules.
    pub seconds: f64,
    /// Algorithm of collectives, where a choice exists.
    pub algorithm: Option<Algorithm>,
    /// True if received data is compared with the expected data.
    pub check: bool,
    /// Maximum bytes of buffers per rank.
    pub memory: usize,
}

/// Limits of repetitions and volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Counts {
    /// Number of repetitions.
    pub repetitions: usize,
    /// Number of repetitions where each transfer is completed separately, and for creating windows and opening files.
    pub single: usize,
    /// Bytes of all repetitions of a length together.
    pub volume: usize,
}

/// The same limits, as far as the user set them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Asked {
    /// Number of repetitions.
    pub repetitions: Option<usize>,
    /// Number of repetitions where each transfer is completed separately.
    pub single: Option<usize>,
    /// Bytes of all repetitions of a length together.
    pub volume: Option<usize>,
}

/// One table: a benchmark in one set of groups.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Table {
    /// The measured benchmark.
    pub benchmark: Benchmark,
    /// Moment at which transfers must be complete, where a choice exists.
    #[serde(default)]
    pub mode: Option<Mode>,
    /// Ranks of each group, in the order of their places.
    pub groups: Vec<Vec<usize>>,
    /// Lengths, each with its repetitions.
    pub lengths: Vec<Length>,
}

/// One line of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Length {
    /// Length of a message in bytes.
    pub bytes: usize,
    /// Number of repetitions. By today's rules this is the maximum.
    pub repetitions: usize,
}

impl Table {
    /// Number of ranks in each group.
    pub fn group_size(&self) -> usize {
        self.groups.first().map_or(0, Vec::len)
    }
}

impl Imb {
    /// Limits of repetitions and volume for a part (guide 5.2.1; its table for files has other numbers).
    pub fn counts(&self, part: Part) -> Counts {
        let (repetitions, single, volume) = match part {
            Part::Io if self.rules == Rules::Guide => (50, 10, 16 << 20),
            // Today's suite has the same limits for all parts.
            Part::Mpi1 | Part::Ext | Part::Io => (1000, 100, 40 << 20),
        };
        Counts {
            repetitions: self.counts.repetitions.unwrap_or(repetitions),
            single: self.counts.single.unwrap_or(single),
            volume: self.counts.volume.unwrap_or(volume),
        }
    }

    /// Logarithms to base 2 of a part's least nonzero length and of its largest.
    pub fn logs(&self, part: Part) -> (u32, u32) {
        let largest = match part {
            Part::Io if self.rules == Rules::Guide => 24,
            Part::Mpi1 | Part::Ext | Part::Io => 22,
        };
        self.logs.unwrap_or((0, largest))
    }

    /// Seconds that a rank computes during a transfer.
    pub fn computes_s(&self) -> f64 {
        let usual = match self.rules {
            Rules::Guide => 0.1,
            Rules::Current => 0.01,
        };
        self.computes_s.unwrap_or(usual)
    }

    /// Benchmark that runs under a name. Today's Reduce_scatter uses a vector with a message's length for each rank, as Reduce_scatter_block does.
    pub fn meaning(&self, benchmark: Benchmark) -> Benchmark {
        match (benchmark, self.rules) {
            (Benchmark::ReduceScatter, Rules::Current) => Benchmark::ReduceScatterBlock,
            (same, _) => same,
        }
    }

    /// Algorithm for messages of length `bytes` in a table, where a choice exists.
    pub fn algorithm_for(&self, table: &Table, bytes: usize) -> Option<Algorithm> {
        let collective = table.benchmark.collective()?;
        let ranks = table.group_size();
        let own = self.algorithm;
        let own = own.filter(|algorithm| table.benchmark.has(*algorithm));
        let whole = match self.meaning(table.benchmark) {
            Benchmark::ReduceScatterBlock => bytes.saturating_mul(ranks),
            _ => bytes,
        };
        Some(own.unwrap_or_else(|| collective.choose(ranks, whole)))
    }

    /// Bytes of message buffers that a rank in a group of `ranks` needs for one line of a benchmark.
    pub fn memory_of(
        &self,
        benchmark: Benchmark,
        mode: Option<Mode>,
        ranks: usize,
        length: Length,
    ) -> usize {
        let places = self.places(benchmark, mode, length.repetitions);
        let lot = lot(self.window, length.bytes);
        let benchmark = self.meaning(benchmark);
        benchmark.memory(ranks, length.bytes, places, lot)
    }

    /// Number of places that transfers of a line use in turn, in the window and in the buffer. By the guide, transfers that complete together
    /// have separate places. A get never overwrites data that is still arriving.
    pub fn places(
        &self,
        benchmark: Benchmark,
        mode: Option<Mode>,
        repetitions: usize,
    ) -> (usize, usize) {
        match (mode, self.rules) {
            _ if benchmark == Benchmark::Window => (1, 0),
            (Some(Mode::Aggregate), Rules::Guide) => (repetitions, repetitions),
            (Some(Mode::Aggregate), Rules::Current) if benchmark.gets() => (1, repetitions),
            _ => (1, 1),
        }
    }

    /// True if a benchmark uses files.
    pub fn has_files(&self) -> bool {
        self.benchmarks.iter().any(|one| one.part() == Part::Io)
    }

    /// Maximum bytes of message buffers that a rank needs, over all numbers of ranks in the series.
    pub fn bytes_per_rank(&self, ranks: usize) -> usize {
        self.most_bytes(ranks, |_, _, _| 0)
    }

    /// The same, with the scratch memory of collectives.
    pub fn memory_per_rank(&self, ranks: usize) -> usize {
        self.most_bytes(ranks, Benchmark::scratch)
    }

    /// Largest number of bytes of all lines that are measured: lines whose buffers exceed [`Imb::memory`] are left out. `beside` adds bytes that do
    /// not count against that limit.
    fn most_bytes(&self, ranks: usize, beside: fn(Benchmark, usize, usize) -> usize) -> usize {
        let of = |(benchmark, mode): (Benchmark, Option<Mode>)| {
            let sizes = self.series(benchmark, ranks).into_iter();
            let all = sizes.flat_map(|size| {
                let lengths = self.lengths_of(benchmark, mode).into_iter();
                lengths.filter_map(move |length| {
                    let buffers = self.memory_of(benchmark, mode, size, length);
                    let more = beside(self.meaning(benchmark), size, length.bytes);
                    (buffers <= self.memory).then_some(buffers.saturating_add(more))
                })
            });
            all.max()
        };
        let all = self.benchmarks.iter();
        let all = all.flat_map(|one| one.modes().iter().map(|mode| (*one, *mode)));
        all.filter_map(of).max().unwrap_or(0)
    }

    /// Ranks in the order in which groups are formed.
    pub fn order(&self, ranks: usize) -> Vec<usize> {
        match self.map {
            Some((rows, columns)) => (0..rows * columns)
                .map(|place| place % columns * rows + place / columns)
                .filter(|rank| *rank < ranks)
                .collect(),
            None => (0..ranks).collect(),
        }
    }

    /// Numbers of ranks with which a benchmark runs: the least one, doubled repeatedly, and the total.
    pub fn series(&self, benchmark: Benchmark, ranks: usize) -> Vec<usize> {
        match benchmark.class() {
            _ if benchmark.is_of_one() => vec![1],
            Class::Single => vec![2],
            _ => {
                // Pairs need an even number: the least one is rounded up, the total is rounded down.
                let even = benchmark.class() == Class::Rate;
                let ranks = if even { ranks - ranks % 2 } else { ranks };
                if ranks == 0 {
                    return Vec::new();
                }
                let usual = if benchmark.part() == Part::Io { 1 } else { 2 };
                let least = self.least.unwrap_or(usual).clamp(1, ranks);
                let least = if even { least + least % 2 } else { least };
                let doubled = std::iter::successors(Some(least), |last| last.checked_mul(2));
                let mut series: Vec<usize> = doubled.take_while(|count| *count < ranks).collect();
                series.push(ranks);
                series
            }
        }
    }

    /// Benchmarks that need more ranks than the job has.
    pub fn dropped(&self, ranks: usize) -> Vec<Benchmark> {
        let own = self.benchmarks.iter().copied();
        own.filter(|one| self.series(*one, ranks).iter().all(|size| *size > ranks))
            .collect()
    }

    /// Collectives that do not have the algorithm that the user chose.
    pub fn unforced(&self) -> Vec<Benchmark> {
        let Some(algorithm) = self.algorithm else {
            return Vec::new();
        };
        let own = self.benchmarks.iter().copied();
        own.filter(|one| one.collective().is_some() && !one.has(algorithm))
            .collect()
    }

    /// All tables, in the order in which they are measured.
    pub fn tables(&self, ranks: usize) -> Vec<Table> {
        let order = self.order(ranks);
        let table = |benchmark: Benchmark, size: usize, mode: Option<Mode>| Table {
            benchmark,
            mode,
            groups: match self.multi {
                Some(_) => order.chunks_exact(size).map(<[usize]>::to_vec).collect(),
                None => vec![order[..size].to_vec()],
            },
            lengths: self.lengths_of(benchmark, mode),
        };
        let of = |benchmark: &Benchmark| -> Vec<Table> {
            let sizes = self.series(*benchmark, ranks).into_iter();
            let sizes = sizes.filter(|size| *size <= ranks);
            let modes = |size| benchmark.modes().iter().map(move |mode| (size, *mode));
            let all = sizes.flat_map(modes);
            all.map(|(size, mode)| table(*benchmark, size, mode))
                .collect()
        };
        self.benchmarks.iter().flat_map(of).collect()
    }

    /// Lengths of a benchmark in whole items, each with its repetitions.
    pub fn lengths_of(&self, benchmark: Benchmark, mode: Option<Mode>) -> Vec<Length> {
        let counts = self.counts(benchmark.part());
        let most = match mode {
            Some(Mode::NonAggregate) => counts.single,
            None if matches!(benchmark, Benchmark::Window | Benchmark::OpenClose) => counts.single,
            Some(Mode::Aggregate) | None => counts.repetitions,
        };
        let of = |bytes: usize| Length {
            bytes,
            repetitions: match bytes {
                0 => most,
                some => (counts.volume / some).clamp(1, most),
            },
        };
        if benchmark.class() == Class::Sync {
            return vec![of(0)];
        }
        let item = benchmark.unit_bytes(self.rules);
        let lengths: Vec<usize> = match &self.lengths {
            Some(own) => own
                .iter()
                .map(|bytes| bytes.next_multiple_of(item))
                .collect(),
            None => {
                let (least, largest) = self.logs(benchmark.part());
                let powers = (least..=largest).map(|log| item.max(1 << log));
                let mut all: Vec<usize> = std::iter::once(0).chain(powers).collect();
                all.dedup();
                all
            }
        };
        lengths.into_iter().map(of).collect()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::plan::ranks::{RankOrder, tests::ranks};

    pub(crate) fn imb() -> Imb {
        Imb {
            ranks: ranks(1, RankOrder::Block),
            benchmarks: usual(Part::Mpi1, Rules::Guide),
            rules: Rules::Guide,
            least: None,
            multi: None,
            map: None,
            lengths: None,
            logs: None,
            counts: Asked::default(),
            path: PathBuf::from("/tmp"),
            computes_s: None,
            window: WINDOW,
            seconds: 10.0,
            algorithm: None,
            check: false,
            memory: 1 << 30,
        }
    }

    #[test]
    fn lengths_and_repetitions_are_those_of_the_guide() {
        let imb = imb();
        let all = imb.lengths_of(Benchmark::PingPong, None);
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
        let sums = imb.lengths_of(Benchmark::Allreduce, None);
        let bytes: Vec<usize> = sums.iter().map(|one| one.bytes).collect();
        assert_eq!((bytes.len(), &bytes[..3]), (22, &[0, 4, 8][..]));
        let own = Imb {
            lengths: Some(vec![0, 100, 1000, 10_000, 100_000, 1_000_000]),
            ..imb.clone()
        };
        let counts: Vec<usize> = own
            .lengths_of(Benchmark::PingPing, None)
            .iter()
            .map(|one| one.repetitions)
            .collect();
        assert_eq!(counts, [1000, 1000, 1000, 1000, 419, 41]);
        assert_eq!(imb.lengths_of(Benchmark::Barrier, None).len(), 1);
    }

    #[test]
    fn series_maps_and_groups_are_those_of_the_guide() {
        let series = |least, ranks, benchmark| {
            let least = Some(least);
            Imb { least, ..imb() }.series(benchmark, ranks)
        };
        assert_eq!(series(2, 11, Benchmark::Bcast), [2, 4, 8, 11]);
        assert_eq!(series(5, 11, Benchmark::Bcast), [5, 10, 11]);
        assert_eq!(series(7, 14, Benchmark::Bcast), [7, 14]);
        assert_eq!(series(20, 14, Benchmark::Bcast), [14]);
        assert_eq!(series(2, 11, Benchmark::PingPong), [2]);
        assert_eq!(series(3, 7, Benchmark::Biband), [4, 6]);
        assert_eq!(series(1, 5, Benchmark::Uniband), [2, 4]);
        // Sample 2 of the guide, with four ranks: 2 x 2.
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
    fn one_sided_transfers_have_two_tables_and_places_of_their_own() {
        let imb = Imb {
            benchmarks: vec![Benchmark::Window, Benchmark::UnidirPut],
            ..imb()
        };
        let tables = imb.tables(4);
        let told: Vec<_> = tables
            .iter()
            .map(|one| (one.group_size(), one.mode))
            .collect();
        let (all, each) = (Some(Mode::Aggregate), Some(Mode::NonAggregate));
        assert_eq!(told, [(2, None), (4, None), (2, all), (2, each)]);
        let counts = |table: &Table| {
            let counts: Vec<usize> = table.lengths.iter().map(|one| one.repetitions).collect();
            (counts[1], counts[17], counts[23])
        };
        assert_eq!(counts(&tables[0]), (100, 100, 10));
        assert_eq!(counts(&tables[2]), (1000, 640, 10));
        assert_eq!(counts(&tables[3]), (100, 100, 10));
        // Twice the volume (guide 7.1).
        assert_eq!(imb.bytes_per_rank(4), 80 << 20);
        let today = Imb {
            rules: Rules::Current,
            ..imb
        };
        assert_eq!(today.bytes_per_rank(4), 8 << 20);
        let alltoall = Imb {
            benchmarks: vec![Benchmark::Alltoall],
            ..today.clone()
        };
        assert_eq!(alltoall.bytes_per_rank(4), 32 << 20);
        assert_eq!(alltoall.memory_per_rank(4), (32 + 36) << 20);
        assert_eq!(today.lengths_of(Benchmark::UnidirPut, all)[1].bytes, 4);
    }

    #[test]
    fn files_have_numbers_of_their_own() {
        let one = |name| Benchmark::named(name).unwrap();
        let imb = imb();
        let counts = |name, mode| -> Vec<usize> {
            let lines = imb.lengths_of(one(name), mode);
            lines.iter().map(|one| one.repetitions).collect()
        };
        // Sample 3 of the guide.
        let all = counts("P_Write_Indv", Some(Mode::Aggregate));
        assert_eq!((all.len(), all[0], all[19]), (26, 50, 50));
        assert_eq!(all[20..], [32, 16, 8, 4, 2, 1]);
        let each = counts("P_Write_Indv", Some(Mode::NonAggregate));
        assert_eq!(each[20..], [10, 10, 8, 4, 2, 1]);
        assert_eq!(counts("Open_Close", None), [10]);
        assert_eq!(imb.series(one("C_Read_Expl"), 6), [1, 2, 4, 6]);
        assert_eq!(imb.series(one("S_IWrite_Indv"), 6), [1]);
        assert_eq!(imb.lengths_of(one("P_Read_Priv"), None)[25].bytes, 16 << 20);
        assert_eq!(one("S_IRead_Indv").class(), Class::Overlap);
        assert_eq!(usual(Part::Io, Rules::Guide).len(), 37);
        let mut today = usual(Part::Io, Rules::Current);
        assert_eq!(today[1].name(), "S_IWrite_Indv");
        assert_eq!(
            today[6..8].iter().map(|one| one.name()).collect::<Vec<_>>(),
            ["P_Write_Shared", "P_IWrite_Shared"]
        );
        today.sort();
        today.dedup();
        assert_eq!(today.len(), 37, "the same ones in another order");
        let text = serde_json::to_string(&one("C_IWrite_Shared")).unwrap();
        assert_eq!(text, "\"C_IWrite_Shared\"");
        // Records of earlier versions.
        assert_eq!(one("C_IWrite_shared"), one("C_IWrite_Shared"));
        let back: Benchmark = serde_json::from_str(&text).unwrap();
        assert_eq!(back, one("C_IWrite_Shared"));
        assert!(serde_json::from_str::<Benchmark>("\"Pong\"").is_err());
    }

    #[test]
    fn names_are_known_in_any_case_and_algorithms_fit() {
        for benchmark in Benchmark::all() {
            let lower = benchmark.name().to_lowercase();
            assert_eq!(Benchmark::named(&lower), Some(benchmark));
        }
        assert_eq!(Benchmark::named("pong"), None);
        let table = Table {
            benchmark: Benchmark::Allreduce,
            mode: None,
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
