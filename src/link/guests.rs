//! Accepted connections that have not sent their whole hello yet. A silent connection must not keep others out.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use crate::sys::clock;
use crate::sys::socket;
use crate::wire::hello::HELLO_BYTES;

/// Guests of a listener: such connections, oldest first. Their sockets are nonblocking.
pub(crate) struct Guests {
    guests: VecDeque<Guest>,
    limit_ns: u64,
    shown_out: usize,
}

struct Guest {
    socket: OwnedFd,
    since_ns: u64,
    bytes: [u8; HELLO_BYTES],
    have: usize,
}

/// State of a guest's hello.
enum Said {
    Hello,
    Less,
    Nonsense,
}

impl Guests {
    /// Makes an empty list. `limit` is the time that a guest has to send its hello.
    pub(crate) fn new(limit: Duration) -> Self {
        Self {
            guests: VecDeque::new(),
            limit_ns: u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX / 2),
            shown_out: 0,
        }
    }

    /// Number of guests.
    pub(crate) fn count(&self) -> usize {
        self.guests.len()
    }

    /// Time at which the newest guest came, in nanoseconds of the monotonic clock; `None` without guests.
    pub(crate) fn newest_ns(&self) -> Option<u64> {
        self.guests.back().map(|newest| newest.since_ns)
    }

    /// Sockets of the guests, oldest first.
    pub(crate) fn sockets(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.guests.iter().map(|guest| guest.socket.as_fd())
    }

    /// Accepts a waiting connection; true if it became a guest. If no descriptor is left, it closes the oldest guest, which frees one.
    pub(crate) fn let_in(&mut self, listener: BorrowedFd<'_>) -> io::Result<bool> {
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
                self.shown_out += 1;
                Ok(false)
            }
            Ok(Some(socket)) => {
                self.guests.push_back(Guest {
                    socket,
                    since_ns: clock::monotonic_ns(),
                    bytes: [0; HELLO_BYTES],
                    have: 0,
                });
                Ok(true)
            }
            Err(_) if self.show_out_oldest() => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Closes the oldest guest; false if there is no guest.
    pub(crate) fn show_out_oldest(&mut self) -> bool {
        let gone = self.guests.pop_front().is_some();
        self.shown_out += usize::from(gone);
        gone
    }

    /// Closes the guests that have not sent their hello within the limit.
    pub(crate) fn show_out_late(&mut self) {
        let now = clock::monotonic_ns();
        let is_late = |guest: &Guest| now.saturating_sub(guest.since_ns) > self.limit_ns;
        while self.guests.front().is_some_and(is_late) {
            self.guests.pop_front();
            self.shown_out += 1;
        }
    }

    /// Reads from the guest at `place`. Returns its socket and hello once the hello is whole. A guest leaves the list then, or
    /// when its hello cannot become whole any more.
    pub(crate) fn hear(&mut self, place: usize) -> Option<(OwnedFd, [u8; HELLO_BYTES])> {
        match self.guests.get_mut(place)?.hear() {
            Said::Less => None,
            Said::Hello => {
                let guest = self.guests.remove(place)?;
                Some((guest.socket, guest.bytes))
            }
            Said::Nonsense => {
                self.guests.remove(place);
                self.shown_out += 1;
                None
            }
        }
    }

    /// Number of guests that were closed since the last call.
    pub(crate) fn shown_out(&mut self) -> usize {
        std::mem::take(&mut self.shown_out)
    }
}

impl Guest {
    fn hear(&mut self) -> Said {
        match socket::receive_bytes(self.socket.as_fd(), &mut self.bytes[self.have..]) {
            Ok(0) => Said::Nonsense,
            Ok(got) => {
                self.have += got;
                match self.have < HELLO_BYTES {
                    true => Said::Less,
                    false => Said::Hello,
                }
            }
            Err(error) => match error.kind() {
                io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock => Said::Less,
                _ => Said::Nonsense,
            },
        }
    }
}
