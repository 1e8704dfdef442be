//! One measurement: pattern, data, duration, and the processes that serve the links.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use super::{Pattern, SocketOptions, Transport};

/// Most pieces of a block whose payload is the same piece again and again. Each is a mapping of memory.
pub const MOST_PIECES: usize = 16;
const PAGE_BYTES: usize = 4096;

/// One measurement.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Test {
    /// Pairs of nodes that exchange data.
    pub pattern: Pattern,
    /// Number of pipeline stages on every node, at least two.
    pub phases: usize,
    /// Number of links per pair of nodes and boundary, over all rails.
    pub streams: usize,
    /// Number of data interfaces of every host. Link `stream` of a pair runs over rail `stream % rails`.
    #[serde(default = "one")]
    pub rails: usize,
    /// Largest payload of a block in bytes.
    pub block_bytes: usize,
    /// Condition for which a sender waits before it empties a slot.
    pub coupling: Coupling,
    /// Condition that ends the run.
    pub bound: Bound,
    /// Kind of the links.
    pub transport: Transport,
    /// Options of the data sockets.
    pub sockets: SocketOptions,
    /// First and last port for listeners; any port if absent.
    pub ports: Option<(u16, u16)>,
    /// Selection of the data addresses on each host.
    pub network: DataNetwork,
    /// Source of the blocks.
    #[serde(default)]
    pub source: Source,
    /// Destination of the blocks.
    #[serde(default)]
    pub sink: Sink,
    /// Blocks that receivers check against their checksum.
    #[serde(default)]
    pub verify: Verify,
    /// Processors to which senders and receivers are pinned.
    #[serde(default)]
    pub pin: Pin,
    /// Path of the payload from memory to link and from link to memory.
    #[serde(default)]
    pub datapath: Datapath,
    /// Processes that serve the links.
    #[serde(default)]
    pub workers: Workers,
    /// Purpose of the test.
    #[serde(default)]
    pub purpose: Purpose,
    /// Rate limits of pairs, all streams together. They take precedence over the limit for all links.
    #[serde(default)]
    pub paces: Vec<Pace>,
    /// True if buffers use reserved large pages, on hosts that have enough of them.
    #[serde(default)]
    pub huge: bool,
    /// Parameters that the user did not set, so that they follow from the hosts.
    #[serde(default)]
    pub unasked: Unasked,
}

fn one() -> usize {
    1
}

impl Test {
    /// True if each sender of phase 0 makes its own blocks and waits for no other process.
    pub fn senders_are_sources(&self) -> bool {
        self.coupling == Coupling::Block
    }

    /// True if each receiver of the last phase is done with a block once it has read it. Otherwise the phase process empties the slots.
    pub fn receivers_are_sinks(&self) -> bool {
        self.coupling == Coupling::Block && !matches!(self.sink, Sink::File(_))
    }

    /// Number of blocks in shared memory for each slot of a phase. Two where one process fills a slot while another one empties it.
    pub fn shared_blocks(&self, phase: usize) -> usize {
        let alone = match phase {
            0 => self.senders_are_sources(),
            last if last + 1 == self.phases => self.receivers_are_sinks(),
            _ => self.relay() != Relay::Halves,
        };
        if alone { 0 } else { 2 }
    }

    /// Number of private blocks for each slot of a phase, in the memory of a process that both fills and empties it, in turn. One suffices and
    /// stays in the cache. A file's block that is under way as pages needs a second one, because the next block must not overwrite it.
    pub fn own_blocks(&self, phase: usize) -> usize {
        match phase {
            0 if self.senders_are_sources() => 1 + usize::from(self.expects_answers(0)),
            last if last + 1 == self.phases => usize::from(self.receivers_are_sinks()),
            _ => usize::from(self.phases > 2 && phase > 0 && self.relay() == Relay::Blocks),
        }
    }

    /// True if the payload of a phase's private blocks is the same piece of memory again and again: copies from and to a piece stay in the
    /// cache, where those from and to a block would not. Only where no process needs the payload: `verify` wants whole blocks.
    pub fn repeats_payload(&self, phase: usize) -> bool {
        let of_source = phase == 0 && self.source == Source::Memory;
        let of_sink = phase + 1 == self.phases && self.sink == Sink::Memory;
        self.own_blocks(phase) > 0
            && (of_source || of_sink)
            && self.datapath == Datapath::Copy
            && self.verify == Verify::None
            && self.piece_bytes().is_multiple_of(PAGE_BYTES)
            && self.block_bytes.is_multiple_of(self.piece_bytes())
    }

    /// Bytes of a piece: smaller than the cache of a processor, unless a block would have too many of them.
    pub fn piece_bytes(&self) -> usize {
        const USUAL: usize = 64 << 10;
        USUAL.max(self.block_bytes / MOST_PIECES)
    }

    /// True if the private blocks of a phase are sent as pages. Large pages help most there.
    pub fn sends_pages_of(&self, phase: usize) -> bool {
        phase == 0 && self.datapath == Datapath::Zerocopy
    }

    /// Mechanism that moves blocks through a phase between source and sink.
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

    /// True if phases between source and sink pass pages from link to link and keep nothing. They look at payload only if it is verified.
    /// Lockstep needs a whole buffer, so it excludes this. A file source excludes it too: it overwrites the pages of a block as soon as the next
    /// reader has them, and passing pages on would not make that safe.
    pub fn relays_pass_pages(&self) -> bool {
        self.datapath == Datapath::Zerocopy
            && self.coupling == Coupling::Block
            && self.source == Source::Memory
    }

    /// True if the receivers of a boundary answer each block. Sent pages belong to their reader until it has read them, even if TCP has
    /// acknowledged them: without the answer nearly every overwritten block would arrive wrong. Three cases need no answer: blocks of a memory
    /// source are never overwritten, pages that are passed on belong to no slot, and copied payload is safe.
    pub fn expects_answers(&self, boundary: usize) -> bool {
        self.datapath == Datapath::Zerocopy
            && match boundary {
                0 => matches!(self.source, Source::File(_)),
                _ => !self.relays_pass_pages(),
            }
    }

    /// Rail of link `stream` of a pair.
    pub fn rail_of(&self, stream: usize) -> usize {
        stream % self.rails.max(1)
    }
}

/// Placement of processes on processors.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pin {
    /// Pins processes where it pays: see [`super::placement::processor_of`].
    #[default]
    Auto,
    /// The scheduler decides.
    None,
    /// Pins processes to these processors.
    List(Vec<usize>),
}

/// Parameters of a test that the user did not set. Each field is true if its parameter was not set.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unasked {
    /// Processes that serve the links.
    pub workers: bool,
    /// Payload of a block.
    pub block: bool,
    /// Buffers of the data sockets.
    pub socket_buffers: bool,
    /// Links per pair.
    #[serde(default)]
    pub streams: bool,
    /// Congestion control of the data sockets.
    #[serde(default)]
    pub congestion: bool,
    /// Path of the payload.
    #[serde(default)]
    pub datapath: bool,
}

/// Purpose of a test.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Purpose {
    /// Loads the fabric.
    #[default]
    Load,
    /// Looks for losses: every pair is limited to less than its ports carry.
    Loss,
    /// Measures suspects alone, because the judge requested it.
    Isolated,
    /// Checks that links work. Too short to judge a rate.
    Check,
}

impl Purpose {
    /// Time in nanoseconds for which interface counters run before the first block. A check uses it to find traffic of others.
    pub fn listens_ns(self) -> u64 {
        match self {
            Self::Check => 1_000_000_000,
            Self::Load | Self::Loss | Self::Isolated => 0,
        }
    }
}

impl std::fmt::Display for Purpose {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.serialize(f)
    }
}

/// Rate limit of a pair of nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pace {
    /// Sending node.
    pub from: usize,
    /// Receiving node.
    pub to: usize,
    /// Limit of all streams together, in bits per second of payload.
    pub bits_per_s: u64,
}

/// Source of the blocks.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Source {
    /// Memory of phase 0: payload from the seed, the same in every block of a slot and buffer. See [`Test::repeats_payload`].
    #[default]
    Memory,
    /// One file per node, read from start to end; `%n` in the name stands for the node's label.
    File(String),
}

/// Destination of the blocks.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sink {
    /// Memory of the last phase.
    #[default]
    Memory,
    /// One file per node, to which blocks are written one after the other; `%n` in the name stands for the node's label.
    File(String),
    /// No destination: blocks are counted and never copied.
    Discard,
}

/// Name of a source or sink file on one node: `%n` in `pattern` becomes `label`.
pub fn file_name(pattern: &str, label: &str) -> String {
    pattern.replace("%n", label)
}

/// Blocks that receivers check against their checksum.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verify {
    /// No block. Receivers still check sequence and origin of every block.
    #[default]
    None,
    /// One block in [`SAMPLE`].
    Sample,
    /// Every block.
    Full,
}

/// [`Verify::Sample`] checks one block in this many.
pub(super) const SAMPLE: u64 = 16;

impl Verify {
    /// True if receivers check block `t`.
    pub fn checks(self, t: u64) -> bool {
        match self {
            Self::None => false,
            Self::Sample => t.is_multiple_of(SAMPLE),
            Self::Full => true,
        }
    }
}

/// Processes that serve the links of a node.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Workers {
    /// One process for each link end.
    #[default]
    Peer,
    /// One process for each slot: a relay process reads from one link and writes to the next.
    Slot,
    /// One process for all links out of the source, one for each relay phase, one for all links into the sink. A relay phase that one process
    /// cannot serve has one for each direction.
    Shared,
}

impl Workers {
    /// Name as in the options.
    pub fn name(self) -> &'static str {
        match self {
            Self::Peer => "peer",
            Self::Slot => "slot",
            Self::Shared => "shared",
        }
    }
}

/// Mechanism that moves blocks through a phase between source and sink.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Relay {
    /// A receiver fills two shared blocks in turn, and a sender empties them.
    Halves,
    /// One process reads a block, and then writes it.
    Blocks,
    /// One process passes pages on. No process keeps payload or looks at it.
    Pages,
}

/// Path of the payload from memory to link and from link to memory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Datapath {
    /// The kernel copies payload at both ends of every link.
    #[default]
    Copy,
    /// Senders send pages. Receivers that keep payload copy it. Relays copy it only to verify it.
    Zerocopy,
}

impl Datapath {
    /// Name as in the options.
    pub fn name(self) -> &'static str {
        match self {
            Self::Copy => "copy",
            Self::Zerocopy => "zerocopy",
        }
    }
}

/// Condition for which a sender waits before it empties a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Coupling {
    /// Its own slot: N² independent chains.
    Block,
    /// All slots of the buffer, as in the original: every link runs at the pace of the slowest.
    Buffer,
}

/// Condition that ends a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Bound {
    /// A window of fixed length after a warm-up.
    Time {
        /// Length of the warm-up in nanoseconds.
        warmup_ns: u64,
        /// Length of the window in nanoseconds.
        window_ns: u64,
    },
    /// A fixed number of blocks on every link.
    Volume {
        /// Number of blocks per link.
        buffers: u64,
    },
    /// The number of blocks that the longest source file needs.
    Files,
}

impl Bound {
    /// Warm-up and window in nanoseconds, if time bounds the run.
    pub fn times_ns(self) -> Option<(u64, u64)> {
        match self {
            Self::Time {
                warmup_ns,
                window_ns,
            } => Some((warmup_ns, window_ns)),
            Self::Volume { .. } | Self::Files => None,
        }
    }

    /// Warm-up and window together in nanoseconds, if time bounds the run.
    pub fn duration_ns(self) -> Option<u64> {
        let (warmup_ns, window_ns) = self.times_ns()?;
        Some(warmup_ns.saturating_add(window_ns))
    }
}

/// Selection of a host's data addresses, one per rail. `data=` in a host file takes precedence.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DataNetwork {
    /// One address from each of these networks: address and prefix length.
    #[serde(default)]
    pub networks: Vec<(IpAddr, u8)>,
    /// One address from each interface with one of these names.
    #[serde(default)]
    pub interfaces: Vec<String>,
    /// Allowed address family.
    pub family: Family,
}

/// Address family.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Family {
    /// IPv4 or IPv6.
    #[default]
    Any,
    /// IPv4 only.
    V4,
    /// IPv6 only.
    V6,
}

impl Family {
    /// True if an address is of this family.
    pub fn admits(self, address: IpAddr) -> bool {
        match self {
            Self::Any => true,
            Self::V4 => address.is_ipv4(),
            Self::V6 => address.is_ipv6(),
        }
    }
}
