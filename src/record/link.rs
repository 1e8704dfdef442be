//! The record of one link.

use serde::{Deserialize, Serialize};

use crate::plan::LinkKind;
use crate::plan::lanes::Lane;

use super::TcpInfo;

/// Results of one link.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LinkRecord {
    /// Lane of the link.
    pub lane: Lane,
    /// Kind of the link.
    pub kind: LinkKind,
    /// True if the link connects two hosts.
    pub crosses_switch: bool,
    /// Payload sent over the whole run, in bytes.
    pub sent_bytes: u64,
    /// Payload received over the whole run, in bytes.
    pub received_bytes: u64,
    /// Payload received in the interval, in bytes.
    pub interval_bytes: u64,
    /// The receiver's interval in nanoseconds, the divisor of bytes and of the receiver's waits.
    pub interval_ns: u64,
    /// The sender's interval in nanoseconds, the divisor of its waits.
    pub sender_interval_ns: u64,
    /// Blocks sent over the whole run.
    pub blocks: u64,
    /// Use of the time in the interval.
    pub waits: Waits,
    /// Cause that limited the link's rate.
    pub held_by: HeldBy,
    /// TCP counters of the kernel on the sender's side, at the start and the end of the interval.
    pub tcp: Option<(TcpInfo, TcpInfo)>,
    /// Payload retransmitted over the whole run, in bytes.
    #[serde(default)]
    pub retransmitted_bytes: u64,
}

impl LinkRecord {
    /// Acknowledgements per second of its sender's interval.
    pub fn acks_per_s(&self) -> f64 {
        self.tcp.map_or(0.0, |(first, last)| {
            let acks = last.segments_in.saturating_sub(first.segments_in);
            acks as f64 / (self.sender_interval_ns.max(1) as f64 / 1e9)
        })
    }

    /// Path MTU that TCP knew at the end of the interval.
    pub fn path_mtu_bytes(&self) -> Option<u64> {
        let known = self.tcp.map(|(_, last)| last.path_mtu_bytes);
        known.filter(|bytes| *bytes > 0)
    }

    /// Segments retransmitted in the interval.
    pub fn retransmits(&self) -> u64 {
        self.passed(|info| info.retransmits)
    }

    /// Time in which its receiver waited for room and the receiver's interval, both in nanoseconds, and the bytes of that interval.
    pub fn taken(&self) -> [u64; 3] {
        let waited_ns = self.waits.waiting_for_slot_ns;
        [waited_ns, self.interval_ns, self.interval_bytes]
    }

    /// Segments with payload sent in the interval, retransmits included.
    pub fn segments(&self) -> u64 {
        self.passed(|info| info.data_segments)
    }

    /// Segments lost in the interval: retransmits that the peer did not report as duplicates.
    pub fn lost(&self) -> u64 {
        let needless = self.passed(|info| info.needless_repeats);
        self.retransmits().saturating_sub(needless)
    }

    fn passed(&self, of: fn(&TcpInfo) -> u64) -> u64 {
        self.tcp
            .map_or(0, |(first, last)| of(&last).saturating_sub(of(&first)))
    }
}

/// Use of a link's time within the interval, in nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waits {
    /// Sender: waiting for a block to send.
    pub waiting_for_block_ns: u64,
    /// Sender: in write.
    pub in_write_ns: u64,
    /// Sender: pausing on purpose (rate limit, same-node chain).
    pub pacing_ns: u64,
    /// Receiver: in read.
    pub in_read_ns: u64,
    /// Receiver: waiting for a free slot.
    pub waiting_for_slot_ns: u64,
}

/// Cause that limited the rate of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HeldBy {
    /// The path: the sender was in write, and the receiver was ready.
    Limiting,
    /// Its sender had nothing to send.
    Starved,
    /// Its receiver had no room.
    HeldBack,
    /// A rate limit of the plan.
    Paced,
    /// No single cause; usually a busy host.
    Mixed,
    /// No measurement.
    Unknown,
}

impl HeldBy {
    /// The word for it, as in the record.
    pub fn word(self) -> &'static str {
        match self {
            Self::Limiting => "limiting",
            Self::Starved => "starved",
            Self::HeldBack => "held-back",
            Self::Paced => "paced",
            Self::Mixed => "mixed",
            Self::Unknown => "unknown",
        }
    }
}
