//! Accepted connections that have not sent their whole hello yet. A silent connection must not keep others out.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use crate::sys::clock;
use crate::sys::socket;
use crate::wire::hello::HELLO_BYTES;

/// Such connections of a listener, oldest first. Their sockets are nonblocking.
pub(crate) struct PendingPeers {
    peers: VecDeque<PendingPeer>,
    limit_ns: u64,
    closed: usize,
}

struct PendingPeer {
    socket: OwnedFd,
    since_ns: u64,
    bytes: [u8; HELLO_BYTES],
    have: usize,
}

impl PendingPeers {
    /// Makes an empty list. `limit` is the time that a peer has to send its hello.
    pub(crate) fn new(limit: Duration) -> Self {
        Self {
            peers: VecDeque::new(),
            limit_ns: u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX / 2),
            closed: 0,
        }
    }

    /// Number of pending peers.
    pub(crate) fn count(&self) -> usize {
        self.peers.len()
    }

    /// Time at which the newest peer came, in nanoseconds of the monotonic clock; `None` without peers.
    pub(crate) fn newest_ns(&self) -> Option<u64> {
        self.peers.back().map(|newest| newest.since_ns)
    }

    /// Sockets of the peers, oldest first.
    pub(crate) fn sockets(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.peers.iter().map(|peer| peer.socket.as_fd())
    }

    /// Accepts a waiting connection; true if it became a pending peer. If no descriptor is left, it closes the oldest peer, which frees one.
    pub(crate) fn accept(&mut self, listener: BorrowedFd<'_>) -> io::Result<bool> {
        let came = socket::accept(listener, Duration::ZERO).and_then(|came| {
            if let Some(socket) = &came {
                socket::set_nonblocking(socket, true)?;
            }
            Ok(came)
        });
        match came {
            Ok(None) => Ok(false),
            // Both ends of a link belong to one user: a Unix connection from another user is closed.
            Ok(Some(socket)) if !socket::is_of_own_user(&socket) => {
                self.closed += 1;
                Ok(false)
            }
            Ok(Some(socket)) => {
                self.peers.push_back(PendingPeer {
                    socket,
                    since_ns: clock::monotonic_ns(),
                    bytes: [0; HELLO_BYTES],
                    have: 0,
                });
                Ok(true)
            }
            Err(_) if self.close_oldest() => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Closes the oldest peer; false if there is no peer.
    pub(crate) fn close_oldest(&mut self) -> bool {
        let gone = self.peers.pop_front().is_some();
        self.closed += usize::from(gone);
        gone
    }

    /// Closes the peers that have not sent their hello within the limit.
    pub(crate) fn close_late(&mut self) {
        let now = clock::monotonic_ns();
        let is_late = |peer: &PendingPeer| now.saturating_sub(peer.since_ns) > self.limit_ns;
        while self.peers.front().is_some_and(is_late) {
            self.peers.pop_front();
            self.closed += 1;
        }
    }

    /// Reads from the peer at `place`. Returns its socket and hello once the hello is whole. A peer leaves the list then, or
    /// when its hello cannot become whole any more.
    pub(crate) fn hear(&mut self, place: usize) -> Option<(OwnedFd, [u8; HELLO_BYTES])> {
        let peer = self.peers.get_mut(place)?;
        let got = match socket::receive_bytes(peer.socket.as_fd(), &mut peer.bytes[peer.have..]) {
            Ok(got) => got,
            Err(error) => match error.kind() {
                io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock => return None,
                _ => 0,
            },
        };
        peer.have += got;
        if got > 0 && peer.have < HELLO_BYTES {
            return None;
        }
        let peer = self.peers.remove(place)?;
        if got > 0 {
            return Some((peer.socket, peer.bytes));
        }
        self.closed += 1;
        None
    }

    /// Number of peers that were closed since the last call.
    pub(crate) fn closed(&mut self) -> usize {
        std::mem::take(&mut self.closed)
    }
}
