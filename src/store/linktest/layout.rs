//! Content of a result file, independent of its layout.

use std::collections::BTreeSet;

use serde::Serialize;

/// A result file.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct LinktestFile {
    /// Parameters of the measurement.
    pub header: Header,
    /// The tasks, by rank.
    pub ranks: Vec<RankData>,
    /// The data: one set for each random order of the ranks, or a single one.
    pub sets: Vec<DataSet>,
}

/// Parameters of the measurement.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Header {
    /// Version of the LinkTest that wrote the file.
    pub version: [u32; 3],
    /// Commit of that LinkTest.
    pub git_hash: String,
    /// Name of the transport.
    pub mode: String,
    /// True if all to all was measured, too.
    pub all_to_all: bool,
    /// True if messages went both ways at the same time.
    pub bidirectional: bool,
    /// True if messages went one way.
    pub unidirectional: bool,
    /// True if only links between two halves were measured.
    pub bisection: bool,
    /// Nine flags of unknown meaning.
    pub unknown: [u8; 9],
    /// Number of timed messages.
    pub messages: u64,
    /// Length of a message in bytes.
    pub message_bytes: u64,
    /// Number of warm-up messages.
    pub warmups: u64,
    /// No longer used.
    pub collect: u64,
    /// Number of buffers that are used in turn.
    pub buffers: u64,
    /// Seed of the contents of the buffers.
    pub buffer_seed: u64,
    /// Number of random orders of the ranks.
    pub rank_orders: u64,
    /// Seed of these orders.
    pub rank_seed: u64,
}

/// A task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RankData {
    /// Name of its host.
    pub host: String,
    /// Processor on which it ran.
    pub core: i32,
}

/// Measurements with one order of the ranks. Times are seconds.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct DataSet {
    /// Start time, as free text.
    pub started: String,
    /// End time, as free text.
    pub ended: String,
    /// Smallest time of a link.
    pub least_s: f64,
    /// Mean time of a link.
    pub mean_s: f64,
    /// Largest time of a link.
    pub most_s: f64,
    /// Smallest, mean and largest time from all to all.
    pub all_to_all_s: Option<[f64; 3]>,
    /// Data of each task.
    pub ranks: Vec<RankSet>,
    /// New measurements of the slowest links.
    pub retests: Vec<Retest>,
}

/// Data of one task.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RankSet {
    /// Times of the links that it started.
    pub times_s: Vec<f64>,
    /// Partner or step of each time: see [`Meaning`].
    pub access: Vec<u64>,
    /// Its times from all to all: one, or one for each step.
    pub all_to_all_s: Vec<f64>,
}

/// A link that was measured again.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Retest {
    /// Rank that started.
    pub from: u64,
    /// Its partner.
    pub to: u64,
    /// Time when measured alone, in seconds.
    pub new_s: f64,
    /// Time when measured among others, in seconds.
    pub old_s: f64,
}

/// Meaning of the places of a task's times and of the numbers beside them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Meaning {
    /// Places are steps, numbers are partners.
    Steps,
    /// Places are partners without the task itself, numbers are steps.
    Partners,
    /// Places are partners with the task itself, numbers are steps from 1: LinkTest 1.
    AllPartners,
    /// The numbers fit neither reading.
    Undecidable,
}

/// One link of the matrix.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Pair {
    /// Rank that started.
    pub from: usize,
    /// Its partner.
    pub to: usize,
    /// Seconds per message.
    pub seconds: f64,
}

impl LinktestFile {
    /// Determines what the places of times mean in a set. If they are steps, every task lacks a different number, its own. If they are partners,
    /// all tasks have the same numbers. From three tasks on, the two readings exclude each other.
    pub fn meaning(&self, set: &DataSet) -> Meaning {
        let ranks = set.ranks.len();
        match self.header.version[0] {
            1 => Meaning::AllPartners,
            _ if is_by_step(set, ranks, self.header.bisection) => Meaning::Steps,
            _ if is_by_partner(set, ranks, self.header.bisection) => Meaning::Partners,
            _ => Meaning::Undecidable,
        }
    }

    /// Returns all links of a set, in the order of ranks, or `None` if the meaning of the numbers cannot be determined.
    pub fn pairs(&self, set: &DataSet) -> Option<Vec<Pair>> {
        let meaning = self.meaning(set);
        let mut pairs = Vec::new();
        for (from, rank) in set.ranks.iter().enumerate() {
            for (place, (seconds, access)) in rank.times_s.iter().zip(&rank.access).enumerate() {
                let to = match meaning {
                    Meaning::Steps => usize::try_from(*access).ok()?,
                    Meaning::Partners => place + usize::from(place >= from),
                    Meaning::AllPartners => place,
                    Meaning::Undecidable => return None,
                };
                // Links that a bisection leaves out have no time, and the number beside it can have any value.
                let left_out = self.header.bisection && *seconds <= 0.0;
                if to != from && !left_out {
                    pairs.push(Pair {
                        from,
                        to,
                        seconds: *seconds,
                    });
                }
            }
        }
        pairs.sort_unstable_by_key(|pair| (pair.from, pair.to));
        Some(pairs)
    }

    /// Bytes per second at `seconds` per message. Both messages count if both directions were busy at once.
    pub fn bandwidth(&self, seconds: f64) -> f64 {
        let ways = if self.header.bidirectional { 2.0 } else { 1.0 };
        ways * self.header.message_bytes as f64 / seconds
    }
}

/// True if numbers are partners: each task has all others, or all of the other half. If no rank rests, partners also meet at the same place.
fn is_by_step(set: &DataSet, ranks: usize, bisection: bool) -> bool {
    let partner = |rank: usize, place: usize| -> Option<usize> {
        let own = set.ranks.get(rank)?;
        let other = usize::try_from(*own.access.get(place)?).ok()?;
        let real = !bisection || *own.times_s.get(place)? > 0.0;
        (real && other < ranks && other != rank).then_some(other)
    };
    (0..ranks).all(|rank| {
        let places = 0..set.ranks[rank].access.len();
        let known: Vec<(usize, usize)> = places
            .filter_map(|place| Some((place, partner(rank, place)?)))
            .collect();
        let others: BTreeSet<usize> = known.iter().map(|(_, other)| *other).collect();
        let expected: BTreeSet<usize> = partners(rank, ranks, bisection).collect();
        let meets = |(place, other): &(usize, usize)| partner(*other, *place) == Some(rank);
        known.len() == others.len()
            && others == expected
            && (ranks % 2 == 1 || known.iter().all(meets))
    })
}

/// True if numbers are steps: all tasks have the same ones, and both directions of a pair have the same one. In a bisection, only ranks of
/// the other half have times.
fn is_by_partner(set: &DataSet, ranks: usize, bisection: bool) -> bool {
    let place = |from: usize, to: usize| to - usize::from(to > from);
    let step = |from: usize, to: usize| set.ranks[from].access.get(place(from, to));
    let symmetric = |rank: usize| {
        let mut others = partners(rank, ranks, bisection);
        others.all(|other| step(rank, other).is_some() && step(rank, other) == step(other, rank))
    };
    if bisection {
        let timed = |rank: usize| -> BTreeSet<usize> {
            let times = set.ranks[rank].times_s.iter().enumerate();
            let timed = times.filter(|(_, seconds)| **seconds > 0.0);
            timed.map(|(place, _)| place).collect()
        };
        let expected = |rank: usize| -> BTreeSet<usize> {
            partners(rank, ranks, true)
                .map(|other| place(rank, other))
                .collect()
        };
        return (0..ranks).all(|rank| timed(rank) == expected(rank) && symmetric(rank));
    }
    let numbers =
        |rank: usize| -> BTreeSet<u64> { set.ranks[rank].access.iter().copied().collect() };
    let first = numbers(0);
    let counted = first.iter().copied();
    let complete = first.len() == ranks - 1
        && (counted.clone().eq(0..ranks as u64 - 1) || counted.eq(1..ranks as u64));
    complete && (0..ranks).all(|rank| numbers(rank) == first && symmetric(rank))
}

/// Ranks with which a rank measures.
fn partners(rank: usize, ranks: usize, bisection: bool) -> impl Iterator<Item = usize> {
    let half = ranks / 2;
    (0..ranks).filter(move |other| match bisection {
        true => (rank < half) != (*other < half),
        false => *other != rank,
    })
}
