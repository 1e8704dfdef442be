//! What a result file says, whatever its layout.

use std::collections::BTreeSet;

use serde::Serialize;

/// A result file.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LinktestFile {
    /// What was measured, and how.
    pub header: Header,
    /// The tasks, by rank.
    pub ranks: Vec<RankData>,
    /// The data: one set for each random order of the ranks, or one.
    pub sets: Vec<DataSet>,
}

/// What was measured, and how.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Header {
    /// Version of LinkTest that wrote it.
    pub version: [u32; 3],
    /// Commit of LinkTest.
    pub git_hash: String,
    /// Transport.
    pub mode: String,
    /// All to all was measured, too.
    pub all_to_all: bool,
    /// Both ways at the same time.
    pub bidirectional: bool,
    /// One way.
    pub unidirectional: bool,
    /// Between two halves.
    pub bisection: bool,
    /// Nine flags whose meaning is not known.
    pub unknown: [u8; 9],
    /// Timed messages.
    pub messages: u64,
    /// Bytes of a message.
    pub message_bytes: u64,
    /// Messages before these.
    pub warmups: u64,
    /// Not used any more.
    pub collect: u64,
    /// Buffers in turn.
    pub buffers: u64,
    /// Seed of their contents.
    pub buffer_seed: u64,
    /// Random orders of the ranks.
    pub rank_orders: u64,
    /// Their seed.
    pub rank_seed: u64,
}

/// A task.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RankData {
    /// Name of its host.
    pub host: String,
    /// Its processor.
    pub core: i32,
}

/// What was measured with one order of the ranks. Times are seconds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DataSet {
    /// When it began, in whatever words.
    pub started: String,
    /// When it ended.
    pub ended: String,
    /// Least time of a link.
    pub least_s: f64,
    /// Mean.
    pub mean_s: f64,
    /// Greatest.
    pub most_s: f64,
    /// Least, mean and greatest time from all to all.
    pub all_to_all_s: Option<[f64; 3]>,
    /// What each task wrote.
    pub ranks: Vec<RankSet>,
    /// Slowest links once more.
    pub retests: Vec<Retest>,
}

/// What one task wrote.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RankSet {
    /// Times of the links that it started.
    pub times_s: Vec<f64>,
    /// With whom, or when: see [`Meaning`].
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
    /// Alone, in seconds.
    pub new_s: f64,
    /// Among others, in seconds.
    pub old_s: f64,
}

/// What the places of a task's times, and the numbers beside them, mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Meaning {
    /// Places are steps, numbers are partners.
    Steps,
    /// Places are partners without the task itself, numbers are steps.
    Partners,
    /// Places are partners with the task itself, numbers are steps from 1: LinkTest 1.
    AllPartners,
    /// The numbers fit neither.
    Undecidable,
}

/// A link of the matrix.
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
    /// What the places of times mean in a set. Under the one reading every task misses another number, its own; under the other one
    /// all tasks have the same numbers: from three tasks on they exclude each other.
    pub fn meaning(&self, set: &DataSet) -> Meaning {
        let ranks = set.ranks.len();
        if self.header.version[0] == 1 {
            return Meaning::AllPartners;
        }
        if is_by_step(set, ranks, self.header.bisection) {
            Meaning::Steps
        } else if is_by_partner(set, ranks, self.header.bisection) {
            Meaning::Partners
        } else {
            Meaning::Undecidable
        }
    }

    /// All links of a set, in the order of ranks; none where it cannot be told which is which.
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
                // What a bisection leaves out has no time, whatever stands beside it.
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
        pairs.sort_by_key(|pair| (pair.from, pair.to));
        Some(pairs)
    }

    /// Bytes per second at so many seconds per message: both messages count where both ways were busy at once.
    pub fn bandwidth(&self, seconds: f64) -> f64 {
        let ways = if self.header.bidirectional { 2.0 } else { 1.0 };
        ways * self.header.message_bytes as f64 / seconds
    }
}

/// Whether numbers are partners: each task has all others, or all of the other half, and, where nobody rests, partners meet at the
/// same place.
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

/// Whether numbers are steps: all tasks have the same ones, and both directions of a pair the same one. Between two halves only those
/// of the other half have times.
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

/// Those that a rank measures with.
fn partners(rank: usize, ranks: usize, bisection: bool) -> impl Iterator<Item = usize> {
    let half = ranks / 2;
    (0..ranks).filter(move |other| match bisection {
        true => (rank < half) != (*other < half),
        false => *other != rank,
    })
}
