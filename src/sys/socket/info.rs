//! The kernel's statistics of a TCP connection.

use std::mem::size_of;
use std::os::fd::{AsRawFd, BorrowedFd};

use nix::libc;
use serde::{Deserialize, Serialize};

use super::get_raw;

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
    /// Bytes that have arrived at this end but are not read yet, from a receiver whose meter looked: see [`unread_bytes`].
    #[serde(default, skip_serializing_if = "is_none")]
    pub unread_bytes: u64,
}

/// True for zero: a sender has nothing to read, so its record omits the field.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_none(bytes: &u64) -> bool {
    *bytes == 0
}

impl TcpInfo {
    /// Number of values, for [`TcpInfo::values`].
    pub const COUNT: usize = 14;

    /// The values in the order of the fields, for words of shared memory.
    pub fn values(&self) -> [u64; Self::COUNT] {
        [
            self.retransmits,
            self.retransmitted_bytes,
            self.rtt_us,
            self.min_rtt_us,
            self.cwnd_segments,
            self.mss_bytes,
            self.path_mtu_bytes,
            self.busy_us,
            self.window_limited_us,
            self.buffer_limited_us,
            self.data_segments,
            self.segments_in,
            self.needless_repeats,
            self.unread_bytes,
        ]
    }

    /// The reverse of [`TcpInfo::values`].
    pub fn from_values(values: [u64; Self::COUNT]) -> Self {
        let [
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
        ] = values;
        Self {
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
        }
    }
}

/// Reads the kernel's statistics of a TCP connection; `None` for other sockets. Fields that an older kernel lacks are zero.
pub fn tcp_info(socket: BorrowedFd<'_>) -> Option<TcpInfo> {
    let mut raw = [0_u8; 256];
    get_raw(socket, libc::IPPROTO_TCP, libc::TCP_INFO, &mut raw).ok()?;
    // Offsets of struct tcp_info in linux/tcp.h, which only ever grows at its end.
    let word = |offset: usize| {
        let mut bytes = [0; size_of::<u32>()];
        bytes.copy_from_slice(&raw[offset..offset + 4]);
        u64::from(u32::from_ne_bytes(bytes))
    };
    let long = |offset: usize| {
        let mut bytes = [0; size_of::<u64>()];
        bytes.copy_from_slice(&raw[offset..offset + 8]);
        u64::from_ne_bytes(bytes)
    };
    Some(TcpInfo {
        retransmits: word(100),
        retransmitted_bytes: long(208),
        rtt_us: word(68),
        min_rtt_us: word(148),
        cwnd_segments: word(80),
        mss_bytes: word(16),
        path_mtu_bytes: word(60),
        busy_us: long(168),
        window_limited_us: long(176),
        buffer_limited_us: long(184),
        data_segments: word(156),
        segments_in: word(140).saturating_sub(word(152)),
        needless_repeats: word(216),
        unread_bytes: 0,
    })
}

/// Bytes that have arrived on a socket but are not read yet; 0 where the kernel does not report them.
pub fn unread_bytes(socket: BorrowedFd<'_>) -> u64 {
    let mut bytes: libc::c_int = 0;
    // SAFETY: FIONREAD writes one int, and `bytes` is one.
    let read = unsafe { libc::ioctl(socket.as_raw_fd(), libc::FIONREAD, &raw mut bytes) };
    match read {
        0 => u64::try_from(bytes).unwrap_or(0),
        _ => 0,
    }
}

/// True once the peer's kernel has acknowledged all bytes that were sent on a TCP connection.
pub fn all_acknowledged(socket: BorrowedFd<'_>) -> bool {
    // Offsets of tcpi_unacked (segments) and tcpi_notsent_bytes in struct tcp_info in linux/tcp.h. A packet that is
    // dropped on this host counts as not sent.
    const UNACKED: usize = 24;
    const NOT_SENT: usize = 144;
    let mut raw = [0_u8; 256];
    let read = get_raw(socket, libc::IPPROTO_TCP, libc::TCP_INFO, &mut raw);
    let zero = |at: usize| raw[at..at + 4] == [0; 4];
    read.is_ok_and(|length| length >= NOT_SENT + 4) && zero(UNACKED) && zero(NOT_SENT)
}
