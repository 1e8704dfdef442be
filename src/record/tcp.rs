//! The kernel's account of a TCP connection.

use serde::{Deserialize, Serialize};

/// The kernel's statistics of a TCP connection. All fields except the last are from the sender's side. The names give the units.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TcpInfo {
    /// Segments retransmitted since the start.
    pub retransmits: u64,
    /// Bytes retransmitted since the start.
    pub retransmitted_bytes: u64,
    /// Smoothed round-trip time.
    pub rtt_us: u64,
    /// Smallest round-trip time seen.
    pub min_rtt_us: u64,
    /// Congestion window in segments.
    pub cwnd_segments: u64,
    /// Segment size in use.
    pub mss_bytes: u64,
    /// Path MTU as the kernel knows it.
    pub path_mtu_bytes: u64,
    /// Time with data to send.
    pub busy_us: u64,
    /// Part of `busy_us` in which the receiver's window limited the sender.
    pub window_limited_us: u64,
    /// Part of `busy_us` in which the sender's own buffer limited the sender.
    pub buffer_limited_us: u64,
    /// Segments with payload that were sent, retransmits included.
    #[serde(default)]
    pub data_segments: u64,
    /// Segments without payload that came back, nearly all of them acknowledgements.
    #[serde(default)]
    pub segments_in: u64,
    /// Segments that the peer reported as duplicates: their retransmit was needless (RFC 2883).
    #[serde(default)]
    pub needless_repeats: u64,
    /// Bytes that have arrived at this end but are not read yet, from a receiver whose meter looked: see `sys::socket::unread_bytes`.
    #[serde(default, skip_serializing_if = "is_none")]
    pub unread_bytes: u64,
}

impl TcpInfo {
    /// The account of the time since an earlier one: differences of its sums, and its other values.
    pub fn since(&self, before: &Self) -> Self {
        let passed = |of: fn(&Self) -> u64| of(self).saturating_sub(of(before));
        Self {
            retransmits: passed(|info| info.retransmits),
            retransmitted_bytes: passed(|info| info.retransmitted_bytes),
            busy_us: passed(|info| info.busy_us),
            window_limited_us: passed(|info| info.window_limited_us),
            buffer_limited_us: passed(|info| info.buffer_limited_us),
            data_segments: passed(|info| info.data_segments),
            segments_in: passed(|info| info.segments_in),
            needless_repeats: passed(|info| info.needless_repeats),
            ..*self
        }
    }
}

/// True for zero: a sender has nothing to read, so its record omits the field.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_none(bytes: &u64) -> bool {
    *bytes == 0
}

/// The fields in the order in which they go through shared memory.
macro_rules! in_order {
    ($($field:ident),+ $(,)?) => {
        impl TcpInfo {
            /// Number of values, for [`TcpInfo::values`].
            pub const COUNT: usize = [$(stringify!($field)),+].len();

            /// The values in the order of the fields, for words of shared memory.
            pub fn values(&self) -> [u64; Self::COUNT] {
                [$(self.$field),+]
            }

            /// The reverse of [`TcpInfo::values`].
            pub fn from_values([$($field),+]: [u64; Self::COUNT]) -> Self {
                Self { $($field),+ }
            }
        }
    };
}

in_order!(
    retransmits,
    retransmitted_bytes,
    rtt_us,
    min_rtt_us,
    cwnd_segments,
    mss_bytes,
    path_mtu_bytes,
    busy_us,
    window_limited_us,
    buffer_limited_us,
    data_segments,
    segments_in,
    needless_repeats,
    unread_bytes,
);
