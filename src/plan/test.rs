//! One measurement: what flows, how, for how long, and who serves it.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use super::lanes::Lane;
use super::{Pattern, fit, placement};
use crate::sys::socket::SocketOptions;

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
    /// What it is for.
    #[serde(default)]
    pub purpose: Purpose,
    /// Rate limits of pairs, all streams together, beside the one of all links.
    #[serde(default)]
    pub paces: Vec<Pace>,
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

    /// Rate limit of the link of a lane in bits per second, if it has one.
    pub fn rate_of(&self, lane: &Lane) -> Option<u64> {
        let own = |pace: &&Pace| (pace.from, pace.to) == (lane.from, lane.to);
        match self.paces.iter().find(own) {
            Some(pace) => Some((pace.bits_per_s / self.streams.max(1) as u64).max(1)),
            None => self.sockets.rate_bits_per_s,
        }
    }

    /// The rail that bears link `stream` of a pair.
    pub fn rail_of(&self, stream: usize) -> usize {
        stream % self.rails.max(1)
    }
}

/// What a test is for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Purpose {
    /// It loads the fabric.
    #[default]
    Load,
    /// It looks for losses: every pair is held to less than its ports carry.
    Loss,
    /// The judge asked for it: suspects by themselves.
    Isolated,
    /// It shows whether links stand: too short to judge a rate by.
    Check,
}

impl Purpose {
    /// How long counters of interfaces run before the first block, in nanoseconds: a check looks for traffic of others.
    pub fn listens_ns(self) -> u64 {
        match self {
            Self::Check => 1_000_000_000,
            Self::Load | Self::Loss | Self::Isolated => 0,
        }
    }
}

impl std::fmt::Display for Purpose {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Load => "load",
            Self::Loss => "loss",
            Self::Isolated => "isolated",
            Self::Check => "check",
        })
    }
}

/// A rate limit of a pair of nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pace {
    /// Node that sends.
    pub from: usize,
    /// Node that receives.
    pub to: usize,
    /// Of all streams together, in bits per second of payload.
    pub bits_per_s: u64,
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
