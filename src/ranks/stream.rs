//! Carrier of the bytes between two ranks: a socket, or two rings in shared memory.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use crate::sys::socket::{receive_bytes, send_bytes};
use crate::sys::vectored::{receive_parts, send_parts};
use crate::wire::rank::HEAD_BYTES;

use super::ring::{Incoming, Outgoing};
use super::shared_memory::SharedMemory;

/// A byte stream in both directions, in order. A call that would have to wait fails with [`io::ErrorKind::WouldBlock`].
pub(super) enum Stream {
    /// TCP or a Unix socket.
    Socket {
        socket: OwnedFd,
        /// Buffer that joins short messages with their heads.
        staging: Vec<u8>,
    },
    /// Shared memory.
    Memory(Box<Rings>),
}

/// Both directions between two ranks of a node.
pub(super) struct Rings {
    pub out: Outgoing,
    pub into: Incoming,
}

/// Piece size with the highest TCP throughput: with pieces of 256 KiB a message of 1 MiB took half as long again. With whole messages of 4
/// MiB it took a tenth longer.
const PIECE_BYTES: usize = 512 << 10;
/// Messages up to this length travel joined with their head. Copying them costs less than letting the kernel join two parts: a twentieth of
/// a short message's time.
const STAGED_BYTES: usize = 1024;

impl Stream {
    /// A stream over a socket.
    pub(super) fn of(socket: OwnedFd) -> Self {
        Self::Socket {
            socket,
            staging: Vec::new(),
        }
    }

    /// A stream between two places of a node.
    pub(super) fn within(shared: &Arc<SharedMemory>, own: usize, other: usize) -> Self {
        Self::Memory(Box::new(Rings {
            out: Outgoing::new(shared, own, other),
            into: Incoming::new(shared, other, own),
        }))
    }

    /// Sends more of a head and its payload, of which the first `at` bytes have gone. Returns the number of bytes that went.
    pub(super) fn send(
        &mut self,
        head: &[u8; HEAD_BYTES],
        payload: &[u8],
        at: usize,
    ) -> io::Result<usize> {
        let head = &head[at.min(HEAD_BYTES)..];
        let payload = &payload[at.saturating_sub(HEAD_BYTES)..];
        match self {
            Self::Memory(rings) => some(rings.out.send(head, payload)),
            Self::Socket { socket, staging } => {
                let socket = socket.as_fd();
                let piece = &payload[..payload.len().min(PIECE_BYTES)];
                if head.is_empty() {
                    send_bytes(socket, piece)
                } else if payload.len() <= STAGED_BYTES {
                    staging.clear();
                    staging.extend_from_slice(head);
                    staging.extend_from_slice(payload);
                    send_bytes(socket, staging)
                } else {
                    send_parts(socket, head, piece)
                }
            }
        }
    }

    /// Receives a head, and after it as much as fits into `payload`. Returns the number of bytes that arrived.
    pub(super) fn receive(
        &mut self,
        head: &mut [u8; HEAD_BYTES],
        payload: &mut [u8],
    ) -> io::Result<usize> {
        match self {
            Self::Memory(rings) => some(rings.into.receive(head, payload)),
            Self::Socket { socket, staging } if payload.len() <= STAGED_BYTES => {
                let room = HEAD_BYTES + payload.len();
                if staging.len() < room {
                    staging.resize(HEAD_BYTES + STAGED_BYTES, 0);
                }
                let got = receive_bytes(socket.as_fd(), &mut staging[..room])?;
                let of_head = got.min(HEAD_BYTES);
                head[..of_head].copy_from_slice(&staging[..of_head]);
                payload[..got - of_head].copy_from_slice(&staging[of_head..got]);
                Ok(got)
            }
            Self::Socket { socket, .. } => receive_parts(socket.as_fd(), head, payload),
        }
    }

    /// Receives as much as fits into `into`. Returns the number of bytes.
    pub(super) fn receive_bytes(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Memory(rings) => some(rings.into.receive(into, &mut [])),
            Self::Socket { socket, .. } => receive_bytes(socket.as_fd(), into),
        }
    }
}

/// Zero bytes do not mean end of file here: the process at the other side of a ring ends only with the whole node.
fn some(bytes: usize) -> io::Result<usize> {
    match bytes {
        0 => Err(io::ErrorKind::WouldBlock.into()),
        some => Ok(some),
    }
}
