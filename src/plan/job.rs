//! Jobs of ranks: measurements that pass messages between processes. Validated, pure data.

use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

use super::assignment::check_numbers;
use super::imb::{self, Imb, Table};
use super::linktest::{Kernel, Linktest};
use super::ranks::Ranks;
use super::{AssignmentError, DataPort, LinkKind, Membership};

/// Allowed number of ranks in a job.
pub const RANKS: RangeInclusive<usize> = 2..=4096;
/// Allowed length of a message in bytes.
pub const MESSAGE_BYTES: RangeInclusive<usize> = 1..=1 << 30;
/// Allowed number of messages in a measurement.
pub const MESSAGES: RangeInclusive<usize> = 1..=1_000_000_000;
/// Allowed number of buffers that messages use in turn.
pub const BUFFERS: RangeInclusive<usize> = 1..=4096;
/// Maximum number of rounds. A short job that should run for long ends after it, because a record should not hold more.
pub const MOST_ROUNDS: u64 = 100_000;

/// The part of a run's work that ranks do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Job {
    /// Messages between two ranks at a time.
    Linktest(Linktest),
    /// The Intel MPI Benchmarks.
    Imb(Imb),
}

impl Job {
    /// Ranks that do the job.
    pub fn ranks(&self) -> &Ranks {
        match self {
            Self::Linktest(linktest) => &linktest.ranks,
            Self::Imb(imb) => &imb.ranks,
        }
    }

    /// Bytes of message buffers that a rank needs.
    pub fn bytes_per_rank(&self, ranks: usize) -> usize {
        match self {
            Self::Linktest(linktest) => linktest.bytes_per_rank(ranks),
            Self::Imb(imb) => imb.bytes_per_rank(ranks),
        }
    }

    /// The same, with the scratch memory of collectives.
    pub fn memory_per_rank(&self, ranks: usize) -> usize {
        match self {
            Self::Linktest(linktest) => linktest.bytes_per_rank(ranks),
            Self::Imb(imb) => imb.memory_per_rank(ranks),
        }
    }

    /// Checks that all numbers are within their limits, for ranks on this number of nodes.
    pub fn check(&self, nodes: usize) -> Result<(), AssignmentError> {
        let (per_node, ranks) = (self.ranks().per_node, self.ranks().count(nodes));
        let mut within = vec![("ranks per node", per_node, 1..=*RANKS.end())];
        match self {
            Self::Linktest(linktest) => within.extend([
                ("ranks", ranks, RANKS),
                ("bytes of a message", linktest.message_bytes, MESSAGE_BYTES),
                ("messages", linktest.messages, MESSAGES),
                ("buffers", linktest.buffers, BUFFERS),
            ]),
            Self::Imb(imb) => {
                let longest = imb.lengths.iter().flatten().max().copied();
                let largest = imb.logs.map_or(0, |logs| logs.1);
                let largest = usize::try_from(largest).unwrap_or(usize::MAX);
                let places = imb.map.map(|(rows, columns)| rows.saturating_mul(columns));
                within.extend([
                    // A single rank can write files.
                    ("ranks", ranks, 1..=*RANKS.end()),
                    ("repetitions", imb.counts.repetitions.unwrap_or(1), MESSAGES),
                    ("repetitions", imb.counts.single.unwrap_or(1), MESSAGES),
                    (
                        "bytes of a message",
                        longest.unwrap_or(0),
                        0..=*MESSAGE_BYTES.end(),
                    ),
                    ("as logarithm of a length", largest, 0..=imb::MOST_LOG),
                    ("messages of a window", imb.window, 1..=imb::MOST_WINDOW),
                    ("places of the map", places.unwrap_or(ranks), ranks..=ranks),
                ]);
            }
        }
        check_numbers(within)
    }
}

/// The part of a job that is measured in one go.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Round {
    /// The whole schedule.
    Whole {
        /// Rank at each place of the schedule.
        order: Vec<usize>,
        /// Seed of a random order of the steps; `None` for the natural order.
        step_seed: Option<u64>,
    },
    /// These links one after the other, each from its first rank to its second.
    Alone {
        /// Links, as pairs of ranks.
        links: Vec<(usize, usize)>,
        /// Message pattern of each pair.
        kernel: Kernel,
    },
    /// These steps in order. All links of a step are measured at the same time, each from its first rank to its second.
    Steps {
        /// Links of each step; no rank occurs twice in a step.
        steps: Vec<Vec<(usize, usize)>>,
        /// Message pattern of each pair.
        kernel: Kernel,
    },
    /// Every rank to every other one at the same time.
    AllToAll,
    /// One table of a benchmark.
    Table(Table),
}

/// The part of a job's plan that one node receives.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RankAssignment {
    /// The run, and this node's place in it.
    #[serde(flatten)]
    pub run: Membership,
    /// Data port on which this node listens and from which it connects.
    pub port: DataPort,
    /// The job, without the parts that ranks do not need.
    pub job: Job,
}

impl RankAssignment {
    /// Number of ranks of the job.
    pub fn ranks(&self) -> usize {
        self.job.ranks().count(self.run.nodes())
    }

    /// Kind of the link from a rank of this node to rank `other`.
    pub fn link_to(&self, other: usize) -> LinkKind {
        let ranks = self.job.ranks();
        let within_node = ranks.node_of(other, self.run.nodes()) == self.run.node;
        ranks.transport.link(within_node)
    }

    /// Checks that a node can follow this assignment, which comes from another process.
    pub fn check(&self) -> Result<(), AssignmentError> {
        self.run.check()?;
        self.job.check(self.run.nodes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::linktest::tests::linktest;
    use crate::plan::tests::membership;

    #[test]
    fn an_assignment_that_makes_no_sense_is_refused() {
        let good = RankAssignment {
            run: membership(),
            port: DataPort {
                address: std::net::Ipv4Addr::LOCALHOST.into(),
                interface: None,
            },
            job: Job::Linktest(linktest()),
        };
        assert_eq!(good.check(), Ok(()));
        let refused = |change: fn(&mut RankAssignment)| {
            let mut changed = good.clone();
            change(&mut changed);
            changed.check().unwrap_err().to_string()
        };
        let of = |assignment: &mut RankAssignment, change: fn(&mut Linktest)| {
            let Job::Linktest(linktest) = &mut assignment.job else {
                unreachable!("made so above");
            };
            change(linktest);
        };
        assert_eq!(
            refused(|all| all.run.node = 2),
            "assignment of node 2 of 2: there is no such node"
        );
        let mut one = good.clone();
        of(&mut one, |linktest| linktest.ranks.per_node = 0);
        assert!(one.check().is_err());
        let mut one = good.clone();
        of(&mut one, |linktest| linktest.ranks.per_node = usize::MAX);
        assert!(one.check().is_err());
        let mut one = good.clone();
        of(&mut one, |linktest| linktest.message_bytes = 0);
        assert_eq!(
            one.check().unwrap_err().to_string(),
            "assignment with 0 bytes of a message: from 1 to 1073741824 are possible"
        );
        let mut one = good.clone();
        of(&mut one, |linktest| linktest.messages = 0);
        assert!(one.check().is_err());
        let mut one = good.clone();
        of(&mut one, |linktest| linktest.buffers = 0);
        assert!(one.check().is_err());
    }
}
