//! The run plan: what is to be done, validated, pure data, versioned.
//!
//! A plan is a list of tests; a plain command is a list of one. Words become a plan in `cli/`; after that
//! nothing is checked again. Read next: [`lanes`] for who sends to whom and through which slot, [`size`] for
//! how many processes and how much memory that takes.

pub mod fit;
pub mod lanes;
pub mod placement;
pub mod size;

use std::net::IpAddr;
use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

use crate::sys::socket::SocketOptions;

/// Stages that a pipeline may have: source and sink at least.
pub const PHASES: RangeInclusive<usize> = 2..=32;
/// Data ports that a host may have.
pub const RAILS: RangeInclusive<usize> = 1..=64;
/// Links that a pair of nodes may have at a boundary, over all rails.
pub const STREAMS: RangeInclusive<usize> = 1..=256;
/// Payload that a block may have.
pub const BLOCK_BYTES: RangeInclusive<usize> = 64..=1 << 30;
/// The longest deadline: in nanoseconds, and on a clock, it is still a number.
const LONGEST_MS: u64 = 9_000_000_000_000;
/// No Linux has more processes.
const MOST_PROCESSES: usize = 1 << 22;

/// Version of the run plan; a reader refuses another one by naming both.
pub const PLAN_VERSION: u32 = 1;

/// Everything a run needs to know.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunPlan {
    /// [`PLAN_VERSION`] of the writer.
    pub version: u32,
    /// The nodes, in the order in which they were named.
    pub nodes: Vec<NodeSpec>,
    /// The tests, one after the other.
    pub tests: Vec<Test>,
    /// How long each stage may take.
    pub deadlines: Deadlines,
    /// Seed of the payload.
    pub seed: u64,
    /// Hosts that cannot be reached or are lost cost their rows, the others run.
    #[serde(default)]
    pub keep_going: bool,
    /// Every link is told of each second, not only sums.
    #[serde(default)]
    pub samples: bool,
}

/// One participant of a run.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct NodeSpec {
    /// Label in every report; unique within a run.
    pub label: String,
    /// Name of the host as it was given.
    pub host: String,
    /// Started here without a remote shell.
    pub local: bool,
    /// Data addresses, one per rail, where they were given.
    #[serde(default)]
    pub data: Vec<IpAddr>,
    /// Expected speed of the port in bits per second, where one was given.
    pub speed_bits_per_s: Option<u64>,
    /// Switch the host is plugged into, where one was given.
    pub switch: Option<String>,
    /// Port of that switch.
    pub switch_port: Option<String>,
    /// Group for uplinks.
    pub group: Option<String>,
}

/// One measurement.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Test {
    /// Which nodes send to which.
    pub pattern: Pattern,
    /// Stages of the pipeline on every node, at least two.
    pub phases: usize,
    /// Links per pair of nodes and boundary, over all rails.
    pub streams: usize,
    /// Data interfaces of every host; link `stream` of a pair runs over rail `stream % rails`.
    #[serde(default = "one")]
    pub rails: usize,
    /// Largest payload of a block in bytes.
    pub block_bytes: usize,
    /// What a sender waits for before it empties a slot.
    pub coupling: Coupling,
    /// When the run ends.
    pub bound: Bound,
    /// What links are made of.
    pub transport: Transport,
    /// What is asked of the data sockets.
    pub sockets: SocketOptions,
    /// First and last port for listeners; any if absent.
    pub ports: Option<(u16, u16)>,
    /// How data addresses are chosen on each host.
    pub network: DataNetwork,
    /// Where blocks come from.
    #[serde(default)]
    pub source: Source,
    /// Where blocks go.
    #[serde(default)]
    pub sink: Sink,
    /// Which blocks receivers check against their checksum.
    #[serde(default)]
    pub verify: Verify,
    /// Which processors senders and receivers are kept on.
    #[serde(default)]
    pub pin: placement::Pin,
    /// How payload gets from memory to link and from link to memory.
    #[serde(default)]
    pub datapath: Datapath,
    /// Who serves the links.
    #[serde(default)]
    pub workers: Workers,
    /// Buffers are of large pages that were reserved, where a host has enough.
    #[serde(default)]
    pub huge: bool,
    /// What was not asked for, and follows from the hosts.
    #[serde(default)]
    pub unasked: fit::Unasked,
}

fn one() -> usize {
    1
}

impl Test {
    /// Whether each sender of phase 0 makes its blocks itself and waits for nobody.
    pub fn senders_are_sources(&self) -> bool {
        self.coupling == Coupling::Block
    }

    /// Whether each receiver of the last phase is done with a block when it has read it; else the phase itself empties
    /// the slots.
    pub fn receivers_are_sinks(&self) -> bool {
        self.coupling == Coupling::Block && !matches!(self.sink, Sink::File(_))
    }

    /// Blocks that each slot of a phase has in shared memory: two where one process fills and another one empties it at
    /// the same time.
    pub fn shared_blocks(&self, phase: usize) -> usize {
        let alone = match phase {
            0 => self.senders_are_sources(),
            last if last + 1 == self.phases => self.receivers_are_sinks(),
            _ => self.relay() != Relay::Halves,
        };
        if alone { 0 } else { 2 }
    }

    /// Blocks that each slot of a phase has in the memory of a process that both fills and empties it, in turn. One will do,
    /// and stays in the cache; but a file's block that is under way as pages is not to be written over by the next.
    pub fn own_blocks(&self, phase: usize) -> usize {
        match phase {
            0 if self.senders_are_sources() => 1 + usize::from(self.expects_answers(0)),
            last if last + 1 == self.phases => usize::from(self.receivers_are_sinks()),
            _ => usize::from(self.phases > 2 && phase > 0 && self.relay() == Relay::Blocks),
        }
    }

    /// Whether the own blocks of a phase are sent as pages, which pays most if the pages are large.
    pub fn sends_pages_of(&self, phase: usize) -> bool {
        phase == 0 && self.datapath == Datapath::Zerocopy
    }

    /// How blocks get through a phase between source and sink.
    pub fn relay(&self) -> Relay {
        if self.relays_pass_pages() {
            Relay::Pages
        } else if self.workers != Workers::Peer
            && self.datapath == Datapath::Copy
            && self.coupling == Coupling::Block
        {
            Relay::Blocks
        } else {
            Relay::Halves
        }
    }

    /// Whether phases between source and sink pass pages from link to link, and keep nothing; they look at payload only where
    /// it is verified. In lockstep there must be a whole buffer; and the pages of a file's block are written
    /// anew as soon as the next reader has them, which passing on would not make safe.
    pub fn relays_pass_pages(&self) -> bool {
        self.datapath == Datapath::Zerocopy
            && self.coupling == Coupling::Block
            && self.source == Source::Memory
    }

    /// Whether the receivers of a boundary answer each block. Pages that were sent belong to their reader until it has
    /// read them, whatever was acknowledged: without its answer nearly every block that is written anew would arrive
    /// wrong. Blocks of a memory source are never written anew, pages that are passed on belong to no slot, and
    /// what was copied was copied: none of these needs an answer.
    pub fn expects_answers(&self, boundary: usize) -> bool {
        self.datapath == Datapath::Zerocopy
            && match boundary {
                0 => matches!(self.source, Source::File(_)),
                _ => !self.relays_pass_pages(),
            }
    }

    /// The rail that bears link `stream` of a pair.
    pub fn rail_of(&self, stream: usize) -> usize {
        stream % self.rails.max(1)
    }
}

/// Where blocks come from.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Source {
    /// The memory of phase 0: payload from the seed, the same in every block of a slot and buffer.
    #[default]
    Memory,
    /// A file of each node, read from its start to its end; `%n` in the name is the node's label.
    File(String),
}

/// Where blocks go.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sink {
    /// The memory of the last phase.
    #[default]
    Memory,
    /// A file of each node, in which block after block is put; `%n` in the name is the node's label.
    File(String),
    /// Nowhere: counted, never copied.
    Discard,
}

/// The name of a source or sink file on one node.
pub fn file_name(pattern: &str, label: &str) -> String {
    pattern.replace("%n", label)
}

/// Which blocks receivers check against their checksum.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verify {
    /// None. Sequence and origin of every block are checked all the same.
    #[default]
    None,
    /// One in [`SAMPLE`].
    Sample,
    /// Every one.
    Full,
}

/// One block in this many is checked with [`Verify::Sample`].
pub const SAMPLE: u64 = 16;

impl Verify {
    /// Whether block `t` is checked.
    pub fn checks(self, t: u64) -> bool {
        match self {
            Self::None => false,
            Self::Sample => t.is_multiple_of(SAMPLE),
            Self::Full => true,
        }
    }
}

/// Who serves the links of a node.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Workers {
    /// A process for each link end.
    #[default]
    Peer,
    /// A process for each slot: what a relay reads from one link it writes to the next one itself.
    Slot,
    /// A process for all links out of the source, one for all of each relay, one for all into the sink; and one for each
    /// direction of a relay that cannot be one.
    Shared,
}

impl Workers {
    /// As options have it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Peer => "peer",
            Self::Slot => "slot",
            Self::Shared => "shared",
        }
    }
}

/// How blocks get through a phase between source and sink.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Relay {
    /// A receiver fills two shared blocks in turn, and a sender empties them.
    Halves,
    /// One process reads a block, and then writes it.
    Blocks,
    /// One process passes pages on, and nobody keeps or looks at payload.
    Pages,
}

/// How payload gets from memory to link and from link to memory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Datapath {
    /// Copied by the kernel at both ends of every link.
    #[default]
    Copy,
    /// Sent as pages; copied by receivers that keep it, and by relays only if somebody looks at it.
    Zerocopy,
}

/// Which nodes send to which at a boundary.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pattern {
    /// Every node to every node, itself included: the pipeline's own.
    AllToAll,
}

/// What a sender waits for before it empties a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Coupling {
    /// Its own slot: N² independent chains.
    Block,
    /// All slots of the buffer, as in the original: every link at the pace of the slowest.
    Buffer,
}

/// When a run ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Bound {
    /// A window of this length after a warm-up, in nanoseconds.
    Time {
        /// Before the window.
        warmup_ns: u64,
        /// The window.
        window_ns: u64,
    },
    /// This many blocks on every link.
    Volume {
        /// Blocks.
        buffers: u64,
    },
    /// As many blocks as the longest source file takes.
    Files,
}

/// What links are made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Transport {
    /// TCP between nodes, Unix-domain sockets within a node.
    Auto,
    /// TCP everywhere.
    Tcp,
    /// Unix-domain sockets; all nodes on one host.
    Unix,
}

/// How the data addresses of a host are chosen, one per rail; `data=` of a host file goes before it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DataNetwork {
    /// An address of each of these networks.
    #[serde(default)]
    pub networks: Vec<(IpAddr, u8)>,
    /// An address of each of the interfaces of these names.
    #[serde(default)]
    pub interfaces: Vec<String>,
    /// IPv4 or IPv6 only.
    pub family: Family,
}

/// Address family.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Family {
    /// Either.
    #[default]
    Any,
    /// IPv4 only.
    V4,
    /// IPv6 only.
    V6,
}

impl Family {
    /// Whether an address is of this family.
    pub fn admits(self, address: IpAddr) -> bool {
        match self {
            Self::Any => true,
            Self::V4 => address.is_ipv4(),
            Self::V6 => address.is_ipv6(),
        }
    }
}

/// One data port of a node: a rail.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DataPort {
    /// Address to listen on and to connect from.
    pub address: IpAddr,
    /// Interface that bears it, where known.
    pub interface: Option<String>,
}

/// How long each stage of a run may take, in milliseconds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Deadlines {
    /// Resolving a name.
    pub resolve_ms: u64,
    /// Connecting a session, and a data link.
    pub connect_ms: u64,
    /// Proving who one is.
    pub authenticate_ms: u64,
    /// Copying the executable.
    pub deploy_ms: u64,
    /// From the remote command to its first word.
    pub start_ms: u64,
    /// Fork, memory and sockets of a node.
    pub prepare_ms: u64,
    /// The hello of a link that was accepted.
    pub link_hello_ms: u64,
    /// Silence of a peer after which it counts as lost.
    pub silence_ms: u64,
    /// From the end of the window to the last byte at the sink.
    pub drain_ms: u64,
    /// From the last byte to the results of a node.
    pub collect_ms: u64,
    /// A whole volume run, which has no clock to end it.
    pub volume_ms: u64,
    /// From one measurement of the clocks to the next while a test runs; no deadline, but a time like the others.
    #[serde(default = "one_minute")]
    pub clocks_ms: u64,
}

fn one_minute() -> u64 {
    60_000
}

impl Deadlines {
    fn longest_ms(&self) -> u64 {
        let all = [
            self.resolve_ms,
            self.connect_ms,
            self.authenticate_ms,
            self.deploy_ms,
            self.start_ms,
            self.prepare_ms,
            self.link_hello_ms,
            self.silence_ms,
            self.drain_ms,
            self.collect_ms,
            self.volume_ms,
            self.clocks_ms,
        ];
        all.into_iter().max().unwrap_or(0)
    }
}

/// How often draining is given another deadline's time while bytes move.
pub const DRAINS: u32 = 20;

impl Deadlines {
    /// From the end of the window to the last byte at the sink, with all the time that may be given to it.
    pub fn longest_drain_ms(&self) -> u64 {
        self.drain_ms.saturating_mul(u64::from(DRAINS) + 1)
    }
}

impl Default for Deadlines {
    fn default() -> Self {
        Self {
            resolve_ms: 5_000,
            connect_ms: 10_000,
            authenticate_ms: 20_000,
            deploy_ms: 120_000,
            start_ms: 20_000,
            prepare_ms: 30_000,
            link_hello_ms: 2_000,
            silence_ms: 10_000,
            drain_ms: 30_000,
            collect_ms: 10_000,
            volume_ms: 86_400_000,
            clocks_ms: one_minute(),
        }
    }
}

/// What one node is told of a test.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Assignment {
    /// Random name of the run; links without it are strangers.
    pub token: String,
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
    /// Where this node listens and from where it connects, by rail.
    pub rails: Vec<DataPort>,
    /// What to do.
    pub test: Test,
    /// How long each stage may take.
    pub deadlines: Deadlines,
    /// Seed of the payload.
    pub seed: u64,
    /// How many nodes of this run share the host.
    pub nodes_on_host: usize,
    /// Links to nodes that are lost end, and the others go on.
    #[serde(default)]
    pub keep_going: bool,
    /// Every link is told of each second, not only sums.
    #[serde(default)]
    pub samples: bool,
}

/// Why an assignment cannot be followed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AssignmentError {
    /// It names nodes that are not there.
    #[error(
        "assignment of node {node} of {nodes}, {on_host} of them on this host: they do not go together"
    )]
    Nodes {
        /// Index of the node.
        node: usize,
        /// Labels.
        nodes: usize,
        /// Nodes of the host.
        on_host: usize,
    },
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
    /// More processes than a host has.
    #[error(
        "assignment of {0} processes: a host has {MOST_PROCESSES} at most (fewer --streams or --phases)"
    )]
    Processes(usize),
    /// Too late for any clock.
    #[error("assignment with a deadline of {0} ms: {LONGEST_MS} ms at most (--deadline)")]
    Deadline(u64),
}

impl Assignment {
    /// Number of nodes of the run.
    pub fn nodes(&self) -> usize {
        self.labels.len()
    }

    /// Whether a node may follow this assignment: it comes from another process, and all that is computed from it
    /// relies on what is checked here.
    pub fn check(&self) -> Result<(), AssignmentError> {
        let (node, nodes, test) = (self.node, self.nodes(), &self.test);
        let on_host = self.nodes_on_host;
        if node >= nodes || self.same_host.len() != nodes || !(1..=nodes).contains(&on_host) {
            return Err(AssignmentError::Nodes {
                node,
                nodes,
                on_host,
            });
        }
        let within = [
            ("phases", test.phases, PHASES),
            ("streams", test.streams, STREAMS),
            ("block bytes", test.block_bytes, BLOCK_BYTES),
        ];
        for (what, number, limits) in within {
            if !limits.contains(&number) {
                return Err(AssignmentError::Number {
                    what,
                    number,
                    limits,
                });
            }
        }
        if self.rails.len() != test.rails || !RAILS.contains(&test.rails) {
            return Err(AssignmentError::Number {
                what: "rails",
                number: test.rails,
                limits: RAILS,
            });
        }
        let processes = size::processes_per_node(test, nodes);
        if processes > MOST_PROCESSES {
            return Err(AssignmentError::Processes(processes));
        }
        match self.deadlines.longest_ms() {
            ms if ms > LONGEST_MS => Err(AssignmentError::Deadline(ms)),
            _ => Ok(()),
        }
    }

    /// The data port that bears a lane's link.
    pub fn rail(&self, lane: &lanes::Lane) -> &DataPort {
        &self.rails[self.test.rail_of(lane.stream)]
    }

    /// What the link of a lane of this node is made of.
    pub fn kind_of(&self, lane: &lanes::Lane) -> LinkKind {
        kind_of(self.test.transport, lane)
    }
}

/// What the link of a lane is made of.
pub fn kind_of(transport: Transport, lane: &lanes::Lane) -> LinkKind {
    match transport {
        Transport::Auto if lane.from == lane.to => LinkKind::Pair,
        Transport::Auto | Transport::Tcp => LinkKind::Tcp,
        Transport::Unix if lane.from == lane.to => LinkKind::Pair,
        Transport::Unix => LinkKind::Unix,
    }
}

/// What a link is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LinkKind {
    /// TCP.
    Tcp,
    /// A Unix-domain socket found by name.
    Unix,
    /// A pair of Unix-domain sockets made before the fork.
    Pair,
}

#[cfg(test)]
pub(crate) mod tests {
    use super::lanes::tests::test_of;
    use super::*;

    pub(crate) fn assignment() -> Assignment {
        Assignment {
            token: "t".to_owned(),
            node: 1,
            labels: vec!["n1".to_owned(), "n2".to_owned()],
            same_host: vec![false, true],
            by: String::new(),
            started_ms: 0,
            keep_going: false,
            samples: false,
            rails: vec![DataPort {
                address: IpAddr::V4(std::net::Ipv4Addr::LOCALHOST),
                interface: None,
            }],
            test: test_of(3, 1),
            deadlines: Deadlines::default(),
            seed: 1,
            nodes_on_host: 1,
        }
    }

    #[test]
    fn an_assignment_that_makes_no_sense_is_refused_before_anything_is_made() {
        let refused = |change: fn(&mut Assignment)| {
            let mut changed = assignment();
            change(&mut changed);
            changed.check().unwrap_err().to_string()
        };
        assert_eq!(assignment().check(), Ok(()));
        let all = [
            refused(|all| all.node = 2),
            refused(|all| all.labels.clear()),
            refused(|all| all.same_host.truncate(1)),
            refused(|all| all.nodes_on_host = usize::MAX),
            refused(|all| all.test.phases = 0),
            refused(|all| all.test.streams = usize::MAX),
            refused(|all| all.test.block_bytes = 0),
            refused(|all| all.deadlines.volume_ms = u64::MAX),
            refused(|all| all.rails.clear()),
        ];
        assert_eq!(
            all[0],
            "assignment of node 2 of 2, 1 of them on this host: they do not go together"
        );
        assert_eq!(
            all[4],
            "assignment with 0 phases: from 2 to 32 are possible"
        );
        let many = refused(|all| {
            all.labels = vec![String::new(); 1 << 14];
            all.same_host = vec![false; 1 << 14];
            all.test.streams = 256;
        });
        assert!(
            many.starts_with("assignment of 16777220 processes"),
            "{many}"
        );
    }
}
