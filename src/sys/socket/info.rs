//! The kernel's statistics of a TCP connection.

use std::os::fd::{AsRawFd, BorrowedFd};

use nix::libc;

use super::get_raw;
use crate::record::TcpInfo;

/// Reads the kernel's statistics of a TCP connection; `None` for other sockets. Fields that an older kernel lacks are zero.
pub(crate) fn tcp_info(socket: BorrowedFd<'_>) -> Option<TcpInfo> {
    let mut raw = [0_u8; 256];
    get_raw(socket, libc::IPPROTO_TCP, libc::TCP_INFO, &mut raw).ok()?;
    // Offsets of struct tcp_info in linux/tcp.h, which only ever grows at its end.
    let word = |offset: usize| {
        let bytes = raw[offset..].first_chunk();
        bytes.map_or(0, |bytes| u64::from(u32::from_ne_bytes(*bytes)))
    };
    let long = |offset: usize| {
        let bytes = raw[offset..].first_chunk();
        bytes.map_or(0, |bytes| u64::from_ne_bytes(*bytes))
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
pub(crate) fn unread_bytes(socket: BorrowedFd<'_>) -> u64 {
    let mut bytes: libc::c_int = 0;
    // SAFETY: FIONREAD writes one int, and `bytes` is one.
    let read = unsafe { libc::ioctl(socket.as_raw_fd(), libc::FIONREAD, &raw mut bytes) };
    match read {
        0 => u64::try_from(bytes).unwrap_or(0),
        _ => 0,
    }
}

/// True once the peer's kernel has acknowledged all bytes that were sent on a TCP connection.
pub(crate) fn all_acknowledged(socket: BorrowedFd<'_>) -> bool {
    // Offsets of tcpi_unacked (segments) and tcpi_notsent_bytes in struct tcp_info in linux/tcp.h. A packet that is
    // dropped on this host counts as not sent.
    const UNACKED: usize = 24;
    const NOT_SENT: usize = 144;
    let mut raw = [0_u8; 256];
    let read = get_raw(socket, libc::IPPROTO_TCP, libc::TCP_INFO, &mut raw);
    let zero = |at: usize| raw[at..at + 4] == [0; 4];
    read.is_ok_and(|length| length >= NOT_SENT + 4) && zero(UNACKED) && zero(NOT_SENT)
}
