//! Jobs of ranks: measurements that pass messages between processes. Validated, pure data.

use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

use super::imb::{self, Imb, Table};
use super::{DataNetwork, DataPort, Deadlines};
use crate::sys::socket::SocketOptions;

/// Ranks that a job may have.
pub const RANKS: RangeInclusive<usize> = 2..=4096;
/// Bytes that a message may have.
pub const MESSAGE_BYTES: RangeInclusive<usize> = 1..=1 << 30;
/// Messages of a measurement.
pub const MESSAGES: RangeInclusive<usize> = 1..=1_000_000_000;
/// Buffers that messages take turns in.
pub const BUFFERS: RangeInclusive<usize> = 1..=4096;
/// A job that is short and should go on for long ends after so many rounds all the same: more are more than a record should hold.
pub const MOST_ROUNDS: u64 = 100_000;

/// What ranks do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Job {
    /// Every pair of links, as LinkTest measures them.
    Linktest(Linktest),
    /// Round trips of pairs that were planned, and what follows from them.
    Latency(Latency),
    /// The Intel MPI Benchmarks' patterns.
    Imb(Imb),
}

impl Job {
    /// How messages between two ranks are passed and timed, where that is all there is.
    pub fn kernel(&self) -> Option<&Linktest> {
        match self {
            Self::Linktest(linktest) => Some(linktest),
            Self::Latency(latency) => Some(&latency.probe),
            Self::Imb(_) => None,
        }
    }

    /// The processes that do it.
    pub fn ranks(&self) -> &Ranks {
        match self {
            Self::Linktest(linktest) => &linktest.ranks,
            Self::Latency(latency) => &latency.probe.ranks,
            Self::Imb(imb) => &imb.ranks,
        }
    }

    /// All of it that ranks need to know: not why they measure.
    pub fn for_ranks(&self) -> Self {
        match self {
            Self::Latency(latency) => Self::Linktest(latency.probe.clone()),
            Self::Linktest(_) | Self::Imb(_) => self.clone(),
        }
    }

    /// Bytes of message buffers that a rank needs.
    pub fn bytes_per_rank(&self, ranks: usize) -> usize {
        let kernel = match self {
            Self::Linktest(linktest) => linktest,
            Self::Latency(latency) => &latency.probe,
            Self::Imb(imb) => return imb.bytes_per_rank(ranks),
        };
        let partners = if kernel.all_to_all { ranks } else { 1 };
        let kept = kernel.buffers + partners - 1;
        kernel.message_bytes.saturating_mul(2).saturating_mul(kept)
    }

    /// The same with what collectives put aside.
    pub fn memory_per_rank(&self, ranks: usize) -> usize {
        match self {
            Self::Imb(imb) => imb.memory_per_rank(ranks),
            Self::Linktest(_) | Self::Latency(_) => self.bytes_per_rank(ranks),
        }
    }
}

/// Latencies of a fabric from rounds of pairs that share no cable.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// How a pair is measured: messages are bounced, each timed by itself.
    pub probe: Linktest,
    /// The fabric, as its description has it.
    pub fabric: String,
    /// For each node its host's number in the fabric.
    pub hosts: Vec<u32>,
    /// How pairs are chosen, by name.
    pub strategy: String,
    /// Directions of cables between switches have values of their own.
    pub directed: bool,
    /// Pairs by unknowns.
    pub redundancy: f64,
    /// Seed of what is drawn.
    pub seed: u64,
    /// Pairs by their hosts' numbers, round by round, if they were planned before; they are planned for the hosts that are there otherwise.
    pub rounds: Option<Vec<Vec<(u32, u32)>>>,
    /// Pairs that are measured only to see how close predictions come.
    pub checks: usize,
    /// What cables took when all was well.
    pub baseline: Option<Baseline>,
}

/// Values of cables from an earlier run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Baseline {
    /// Name of the run.
    pub run: String,
    /// For each column its value in seconds, one of many possible ones where it is not identified.
    pub values_s: Vec<f64>,
    /// Standard errors of these; none where they were not known.
    pub errors_s: Vec<Option<f64>>,
}

/// The processes of a job, and how they reach each other.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ranks {
    /// On each node.
    pub per_node: usize,
    /// Which rank is on which node.
    pub order: RankOrder,
    /// Each one stays on a processor of its own, where there are enough.
    pub pinned: bool,
    /// What they do while nothing moves.
    #[serde(default)]
    pub wait: Wait,
    /// What links between them are made of.
    pub transport: RankTransport,
    /// What is asked of their sockets.
    pub sockets: SocketOptions,
    /// First and last port for listeners; any if absent.
    pub ports: Option<(u16, u16)>,
    /// How data addresses are chosen on each host.
    pub network: DataNetwork,
}

/// What links between ranks are made of.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RankTransport {
    /// TCP between nodes, Unix-domain sockets within a node.
    #[default]
    Auto,
    /// TCP everywhere.
    Tcp,
    /// Unix-domain sockets everywhere: all nodes are on one machine.
    Unix,
    /// TCP between nodes, shared memory within a node.
    Shm,
}

/// What the link between two ranks is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RankLink {
    /// A TCP connection.
    Tcp,
    /// A Unix-domain socket.
    Unix,
    /// Memory that both have.
    Memory,
}

/// What a rank does while nothing moves.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Wait {
    /// Spin while processors are free, else yield; sleep when nothing has moved for long.
    #[default]
    Auto,
    /// Spin first, whoever else wants the processor.
    Spin,
    /// Offer the processor to others first.
    Yield,
    /// Sleep at once: each half of a round trip takes 30 to 50 us longer, and no processor is kept busy.
    Sleep,
}

impl Wait {
    /// All of them, with their names.
    pub const NAMES: [(&'static str, Self); 4] = [
        ("auto", Self::Auto),
        ("spin", Self::Spin),
        ("yield", Self::Yield),
        ("sleep", Self::Sleep),
    ];
}

/// Which rank is on which node.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RankOrder {
    /// The first ranks on the first node, the next ones on the second.
    #[default]
    Block,
    /// One on each node, and again from the first node on.
    RoundRobin,
}

impl Ranks {
    /// How many there are.
    pub fn count(&self, nodes: usize) -> usize {
        self.per_node.saturating_mul(nodes)
    }

    /// The node of a rank.
    pub fn node_of(&self, rank: usize, nodes: usize) -> usize {
        match self.order {
            RankOrder::Block => rank / self.per_node.max(1),
            RankOrder::RoundRobin => rank % nodes.max(1),
        }
    }

    /// The ranks of a node, lowest first.
    pub fn of_node(&self, node: usize, nodes: usize) -> Vec<usize> {
        let all = 0..self.count(nodes);
        all.filter(|rank| self.node_of(*rank, nodes) == node)
            .collect()
    }
}

/// A link test: messages between all pairs of ranks, many pairs at the same time or one after the other.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Linktest {
    /// Who measures.
    pub ranks: Ranks,
    /// How a pair passes messages.
    pub kernel: Kernel,
    /// Messages that are timed.
    pub messages: usize,
    /// Messages before these.
    pub warmups: usize,
    /// Bytes of a message.
    pub message_bytes: usize,
    /// One pair at a time.
    pub serial: bool,
    /// Only pairs between the two halves of the ranks.
    pub bisection: bool,
    /// All to all at the same time, beside the pairs.
    pub all_to_all: bool,
    /// Seed of the order of steps, if it is not the natural one.
    pub step_seed: Option<u64>,
    /// Random orders of the ranks, for each of which all is measured; none for the natural order.
    pub rank_orders: u64,
    /// Seed of these.
    pub rank_seed: u64,
    /// Buffers that messages take turns in.
    pub buffers: usize,
    /// Buffers have random contents.
    pub random_contents: bool,
    /// Seed of the contents.
    pub content_seed: u64,
    /// What arrived is compared with what was sent, when a measurement has ended.
    pub check: bool,
    /// Slowest links that are measured again, one by one.
    pub slowest: usize,
    /// All is measured at least this often.
    pub min_iterations: u64,
    /// All is measured again until this has passed, in nanoseconds.
    pub min_runtime_ns: u64,
}

/// How a pair passes messages. The formulas are those of LinkTest's documentation; n is the number of messages, S their
/// size in bytes, t0 and t1 the clock of the rank that starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kernel {
    /// A message is bounced n times: t = (t1 - t0) / 2n, bandwidth S / t.
    Semidirectional,
    /// Both sides bounce a message at the same time: t = (t1 - t0) / 2n, bandwidth 2S / t.
    Bidirectional,
    /// n messages one after the other, and a receipt: t = (t1 - t0) / n, bandwidth S / t.
    Unidirectional,
}

impl Kernel {
    /// As reports have it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Semidirectional => "semidirectional",
            Self::Bidirectional => "bidirectional",
            Self::Unidirectional => "unidirectional",
        }
    }

    /// Seconds per message of `messages` messages that took `ns` nanoseconds.
    pub fn seconds(self, ns: u64, messages: usize) -> f64 {
        let halves = match self {
            Self::Semidirectional | Self::Bidirectional => 2.0,
            Self::Unidirectional => 1.0,
        };
        // One division of exact numbers: the last digit is right.
        ns as f64 / (1e9 * halves * messages as f64)
    }

    /// Bytes per second at so many seconds per message.
    pub fn bandwidth(self, bytes: usize, seconds: f64) -> f64 {
        let ways = match self {
            Self::Bidirectional => 2.0,
            Self::Semidirectional | Self::Unidirectional => 1.0,
        };
        ways * bytes as f64 / seconds
    }
}

/// What is measured in one go.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Round {
    /// The whole schedule.
    Whole {
        /// Number of the rank at each place of the schedule.
        order: Vec<usize>,
        /// Seed of the order of steps, if it is not the natural one.
        step_seed: Option<u64>,
    },
    /// These links one after the other, each from its first rank to its second.
    Alone {
        /// Links.
        links: Vec<(usize, usize)>,
        /// How they pass messages.
        kernel: Kernel,
    },
    /// Steps as they stand here: links of a step at the same time, each from its first rank to its second.
    Steps {
        /// Links of each step; no rank is in two of a step.
        steps: Vec<Vec<(usize, usize)>>,
        /// How they pass messages.
        kernel: Kernel,
    },
    /// Every rank to every other one at the same time.
    AllToAll,
    /// A table of patterns.
    Table(Table),
}

/// What one node is told of a job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RankAssignment {
    /// Random name of the run, which anybody may read.
    pub token: String,
    /// What every link of the run says first; links without it are strangers. It is told to nodes alone, and stands in no file or name.
    pub secret: String,
    /// Random digits in the names of the Unix sockets of this test, so that no other user can take a name first.
    pub names: String,
    /// Who started the run, as `user@host`.
    pub by: String,
    /// When, in milliseconds since 1970, by the launching side's clock.
    pub started_ms: u64,
    /// Index of this node.
    pub node: usize,
    /// Labels of all nodes.
    pub labels: Vec<String>,
    /// For each node, whether it lives on this node's host.
    pub same_host: Vec<bool>,
    /// Where this node listens and from where it connects.
    pub port: DataPort,
    /// What to do.
    pub job: Job,
    /// How long each stage may take.
    pub deadlines: Deadlines,
}

/// Why an assignment cannot be followed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RankAssignmentError {
    /// It names nodes that are not there.
    #[error("assignment of node {0} of {1}: they do not go together")]
    Nodes(usize, usize),
    /// A number that no plan has.
    #[error("assignment with {number} {what}: from {} to {} are possible", limits.start(), limits.end())]
    Number {
        /// Of what.
        what: &'static str,
        /// As it stands there.
        number: usize,
        /// As it may be.
        limits: RangeInclusive<usize>,
    },
}

impl RankAssignment {
    /// Number of nodes of the run.
    pub fn nodes(&self) -> usize {
        self.labels.len()
    }

    /// Number of ranks of the job.
    pub fn ranks(&self) -> usize {
        self.job.ranks().count(self.nodes())
    }

    /// Nodes of the run on this host.
    pub fn nodes_on_host(&self) -> usize {
        self.same_host.iter().filter(|same| **same).count()
    }

    /// What the link to a rank is made of, seen from one of this node.
    pub fn link_to(&self, other: usize) -> RankLink {
        let ranks = self.job.ranks();
        let same = ranks.node_of(other, self.nodes()) == self.node;
        match ranks.transport {
            RankTransport::Auto if same => RankLink::Unix,
            RankTransport::Shm if same => RankLink::Memory,
            RankTransport::Auto | RankTransport::Shm | RankTransport::Tcp => RankLink::Tcp,
            RankTransport::Unix => RankLink::Unix,
        }
    }

    /// Whether a node may follow this assignment: it comes from another process.
    pub fn check(&self) -> Result<(), RankAssignmentError> {
        let (node, nodes) = (self.node, self.nodes());
        if node >= nodes || self.same_host.len() != nodes || !self.same_host[node] {
            return Err(RankAssignmentError::Nodes(node, nodes));
        }
        // Files can be written by one rank alone.
        let least = match self.job {
            Job::Imb(_) => 1,
            Job::Linktest(_) | Job::Latency(_) => *RANKS.start(),
        };
        let mut within = vec![
            (
                "ranks per node",
                self.job.ranks().per_node,
                1..=*RANKS.end(),
            ),
            ("ranks", self.ranks(), least..=*RANKS.end()),
        ];
        if let Some(linktest) = self.job.kernel() {
            within.extend([
                ("bytes of a message", linktest.message_bytes, MESSAGE_BYTES),
                ("messages", linktest.messages, MESSAGES),
                ("buffers", linktest.buffers, BUFFERS),
            ]);
        }
        if let Job::Imb(imb) = &self.job {
            let longest = imb.lengths.iter().flatten().max().copied();
            let largest = imb.logs.map_or(0, |logs| logs.1);
            let largest = usize::try_from(largest).unwrap_or(usize::MAX);
            within.extend([
                ("repetitions", imb.counts.repetitions.unwrap_or(1), MESSAGES),
                ("repetitions", imb.counts.single.unwrap_or(1), MESSAGES),
                (
                    "bytes of a message",
                    longest.unwrap_or(0),
                    0..=*MESSAGE_BYTES.end(),
                ),
                ("as logarithm of a length", largest, 0..=imb::MOST_LOG),
            ]);
        }
        for (what, number, limits) in within {
            if !limits.contains(&number) {
                return Err(RankAssignmentError::Number {
                    what,
                    number,
                    limits,
                });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn ranks(per_node: usize, order: RankOrder) -> Ranks {
        Ranks {
            per_node,
            order,
            wait: Wait::Auto,
            pinned: false,
            transport: RankTransport::Auto,
            sockets: SocketOptions::default(),
            ports: None,
            network: DataNetwork::default(),
        }
    }

    pub(crate) fn linktest() -> Linktest {
        Linktest {
            ranks: ranks(1, RankOrder::Block),
            kernel: Kernel::Semidirectional,
            messages: 10,
            warmups: 2,
            message_bytes: 1024,
            serial: false,
            bisection: false,
            all_to_all: false,
            step_seed: None,
            rank_orders: 0,
            rank_seed: 1,
            buffers: 1,
            random_contents: false,
            content_seed: 1,
            check: false,
            slowest: 0,
            min_iterations: 1,
            min_runtime_ns: 0,
        }
    }

    #[test]
    fn ranks_are_placed_by_block_or_in_turn() {
        let nodes = 3;
        let blocks = ranks(2, RankOrder::Block);
        let all: Vec<usize> = (0..6).map(|rank| blocks.node_of(rank, nodes)).collect();
        assert_eq!(all, [0, 0, 1, 1, 2, 2]);
        let turns = ranks(2, RankOrder::RoundRobin);
        let all: Vec<usize> = (0..6).map(|rank| turns.node_of(rank, nodes)).collect();
        assert_eq!(all, [0, 1, 2, 0, 1, 2]);
        assert_eq!(turns.of_node(1, nodes), [1, 4]);
        assert_eq!(blocks.of_node(1, nodes), [2, 3]);
    }

    #[test]
    fn formulas_are_those_of_the_documentation() {
        // 25 messages of 1 MiB bounced in 50 ms: 1 ms each way.
        let seconds = Kernel::Semidirectional.seconds(50_000_000, 25);
        assert_eq!(seconds, 0.001);
        assert_eq!(
            Kernel::Semidirectional.bandwidth(1 << 20, seconds),
            1_048_576_000.0
        );
        assert_eq!(Kernel::Bidirectional.seconds(50_000_000, 25), 0.001);
        assert_eq!(
            Kernel::Bidirectional.bandwidth(1 << 20, seconds),
            2_097_152_000.0
        );
        assert_eq!(Kernel::Unidirectional.seconds(50_000_000, 25), 0.002);
        assert_eq!(
            Kernel::Unidirectional.bandwidth(1 << 20, 0.002),
            524_288_000.0
        );
    }

    #[test]
    fn an_assignment_that_makes_no_sense_is_refused() {
        let good = RankAssignment {
            token: "t".to_owned(),
            secret: "s".to_owned(),
            names: "n".to_owned(),
            by: String::new(),
            started_ms: 0,
            node: 1,
            labels: vec!["n1".to_owned(), "n2".to_owned()],
            same_host: vec![false, true],
            port: DataPort {
                address: std::net::Ipv4Addr::LOCALHOST.into(),
                interface: None,
            },
            job: Job::Linktest(linktest()),
            deadlines: Deadlines::default(),
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
            refused(|all| all.node = 2),
            "assignment of node 2 of 2: they do not go together"
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
