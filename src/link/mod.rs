//! Links: one connected stream socket from a sender to a receiver.
//!
//! Duty: make a link (connect or accept, hello and answer), move bytes over it with a bound on silence, close
//! it so that nothing is lost. It does not know what the bytes mean. Read next: [`crate::wire::hello`] for
//! the first words.

mod accept;
mod connect;
mod guests;

pub use accept::{Ground, Reception};
pub use connect::{Target, connect, unix_name};
pub use guests::Guests;

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use nix::poll::PollFlags;
use thiserror::Error;

use crate::record::TroubleKind;
use crate::sys::clock::Lull;
use crate::sys::memory::Span;
use crate::sys::pages::{Drain, Pipe};
use crate::sys::socket::{self, TcpInfo};
use crate::sys::{clock, why};

/// A connected link.
pub struct Link {
    socket: OwnedFd,
    tcp: bool,
    /// No byte moved for this long is a failure.
    silence_ns: u64,
    /// Calls wait by themselves, for a bounded time.
    blocking: bool,
}

/// What went wrong with a link, by stage.
#[derive(Debug, Error)]
pub enum LinkError {
    /// It could not be connected.
    #[error("cannot connect to {to}: {}", why(.source))]
    Connect {
        /// Address or name.
        to: String,
        /// Reason.
        source: io::Error,
    },
    /// Nobody with the right hello came.
    #[error("no sender connected within {}", crate::units::show_ns(*.0 * 1_000_000))]
    NobodyCame(u64),
    /// The receiver did not answer the hello.
    #[error("{to} does not answer as a receiver of this run: {}", why(.source))]
    NoAnswer {
        /// Address or name.
        to: String,
        /// Reason.
        source: io::Error,
    },
    /// Packets as large as both ends believe in vanish on the way.
    #[error(
        "passes {passes}, not {wanted} (larger packets vanish on the way: the MTU of a switch or tunnel between; \
         --mss {mss} goes on without them)"
    )]
    PathMtu {
        /// Path MTU that passes, in bytes.
        passes: u32,
        /// Path MTU that the sender's kernel believes in.
        wanted: u32,
        /// Segment size that keeps below.
        mss: u32,
    },
    /// A socket could not be set up.
    #[error("cannot set up a socket: {}", why(.0))]
    Setup(io::Error),
    /// The peer closed or reset the link.
    #[error("the peer closed the link: {}", why(.0))]
    PeerGone(io::Error),
    /// Nothing moved for too long.
    #[error("no byte moved for {}", crate::units::show_ns(*.0))]
    Silent(u64),
    /// Whoever waits here was told that nothing will come.
    #[error("the link was given up")]
    GivenUp,
    /// The receiver has not closed behind the last block.
    #[error("the receiver has not taken everything within {}", crate::units::show_ns(*.0))]
    NotTaken(u64),
    /// Any other failure of a read or write.
    #[error("cannot move data: {}", why(.0))]
    Io(io::Error),
}

impl LinkError {
    /// How this failure ranks among others.
    pub fn kind(&self) -> TroubleKind {
        match self {
            Self::Connect { .. }
            | Self::NobodyCame(_)
            | Self::NoAnswer { .. }
            | Self::PathMtu { .. } => TroubleKind::Connect,
            Self::Setup(_) => TroubleKind::Resource,
            Self::PeerGone(_) | Self::GivenUp => TroubleKind::Peer,
            Self::Silent(_) | Self::NotTaken(_) => TroubleKind::Deadline,
            Self::Io(_) => TroubleKind::Invalid,
        }
    }

    fn of(error: io::Error, silence_ns: u64) -> Self {
        match error.kind() {
            // The kernel's own limit of what may stay unacknowledged: see `prepare_data`.
            io::ErrorKind::TimedOut => Self::Silent(silence_ns),
            io::ErrorKind::ConnectionReset
            | io::ErrorKind::BrokenPipe
            | io::ErrorKind::HostUnreachable
            | io::ErrorKind::NetworkUnreachable
            | io::ErrorKind::ConnectionAborted
            | io::ErrorKind::UnexpectedEof => Self::PeerGone(error),
            _ => Self::Io(error),
        }
    }
}

/// How long a single call may block: whoever waits looks up this often.
const CALL_LIMIT: Duration = Duration::from_millis(500);

impl Link {
    /// A link over a connected socket.
    pub fn new(socket: OwnedFd, tcp: bool, silence: Duration) -> Result<Self, LinkError> {
        socket::prepare_data(&socket, tcp, silence).map_err(LinkError::Setup)?;
        socket::bound_calls(&socket, CALL_LIMIT).map_err(LinkError::Setup)?;
        let silence_ns = u64::try_from(silence.as_nanos()).unwrap_or(u64::MAX);
        Ok(Self {
            socket,
            tcp,
            silence_ns,
            blocking: true,
        })
    }

    /// Whether the kernel paces this link by itself.
    pub fn is_tcp(&self) -> bool {
        self.tcp
    }

    /// Whether something can be read within `limit`; an error counts, since reading will tell it.
    pub fn has_data(&self, limit: Duration) -> bool {
        socket::readable(self.socket.as_fd(), limit).unwrap_or(true)
    }

    /// The kernel's account; none for Unix sockets.
    pub fn tcp_info(&self) -> Option<TcpInfo> {
        if self.tcp {
            socket::tcp_info(self.socket.as_fd())
        } else {
            None
        }
    }

    /// Bytes that have arrived and were not read yet.
    pub fn unread_bytes(&self) -> u64 {
        socket::unread_bytes(self.socket.as_fd())
    }

    /// No call on this link waits from now on.
    pub fn set_nonblocking(&mut self) -> Result<(), LinkError> {
        self.blocking = false;
        socket::set_nonblocking(&self.socket, true).map_err(LinkError::Setup)
    }

    /// The socket, for whoever waits for several links.
    pub fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Waits until the link can be read, or written, for no longer than a call may block; not at all where the call has
    /// waited already.
    pub fn wait(&self, until: Ready) -> Result<(), LinkError> {
        if self.blocking {
            return Ok(());
        }
        let what = match until {
            Ready::Read => PollFlags::POLLIN,
            Ready::Write => PollFlags::POLLOUT,
        };
        let waited = socket::wait_for(self.socket.as_fd(), what, CALL_LIMIT);
        waited.map(|_| ()).map_err(LinkError::Setup)
    }

    /// Sends from a span; how much went. None of these calls moves all: whoever calls goes on where it stopped.
    pub fn send(&self, span: Span<'_>) -> Moved {
        self.moved(socket::send(self.socket.as_fd(), span))
    }

    /// Sends a few bytes; `more` will follow at once.
    pub fn send_bytes(&self, bytes: &[u8], more: bool) -> Moved {
        let socket = self.socket.as_fd();
        self.moved(if more {
            socket::send_ahead(socket, bytes)
        } else {
            socket::send_bytes(socket, bytes)
        })
    }

    /// Receives into a span; how much came.
    pub fn receive(&self, span: Span<'_>) -> Moved {
        self.came(socket::receive(self.socket.as_fd(), span))
    }

    /// Receives a few bytes.
    pub fn receive_bytes(&self, bytes: &mut [u8]) -> Moved {
        self.came(socket::receive_bytes(self.socket.as_fd(), bytes))
    }

    /// Takes at most `bytes` off the link without copying them.
    pub fn discard(&self, drain: &mut Drain, bytes: usize) -> Moved {
        self.came(drain.discard(self.socket.as_fd(), bytes))
    }

    /// Takes pages of at most `bytes` bytes off the link into an empty pipe.
    pub fn take_pages(&self, pipe: &mut Pipe, bytes: usize) -> Moved {
        self.came(pipe.take(self.socket.as_fd(), bytes))
    }

    /// Sends the pages that are in a pipe; `more` will follow at once.
    pub fn give_pages(&self, pipe: &mut Pipe, more: bool) -> Moved {
        self.moved(pipe.give(self.socket.as_fd(), more))
    }

    fn moved(&self, result: io::Result<usize>) -> Moved {
        match result {
            Ok(bytes) => Ok(Some(bytes)),
            Err(error) => match error.kind() {
                io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock => Ok(None),
                _ => Err(LinkError::of(error, self.silence_ns)),
            },
        }
    }

    fn came(&self, result: io::Result<usize>) -> Moved {
        match self.moved(result)? {
            Some(0) => Err(LinkError::PeerGone(io::ErrorKind::UnexpectedEof.into())),
            moved => Ok(moved),
        }
    }

    /// For a sender that has not sent its last block: whoever closed the other direction is no receiver.
    pub fn expect_open(&self) -> Result<(), LinkError> {
        if self.has_data(Duration::ZERO) {
            return Err(
                match socket::receive_bytes(self.socket.as_fd(), &mut [0; 8]) {
                    Ok(0) => LinkError::PeerGone(io::ErrorKind::UnexpectedEof.into()),
                    Ok(_) => LinkError::Io(io::ErrorKind::InvalidData.into()),
                    Err(error) => LinkError::of(error, self.silence_ns),
                },
            );
        }
        Ok(())
    }

    /// Says that nothing follows.
    pub fn finish_sending(&self) {
        socket::finish_sending(self.socket.as_fd());
    }

    /// Whether the receiver has closed behind the last block; nothing else may come from it.
    pub fn is_closed(&self) -> Result<bool, LinkError> {
        match self.moved(socket::receive_bytes(self.socket.as_fd(), &mut [0; 8]))? {
            Some(0) => Ok(true),
            Some(_) => Err(LinkError::Io(io::ErrorKind::InvalidData.into())),
            None => Ok(false),
        }
    }

    /// How long nothing may move on this link, in nanoseconds.
    pub fn silence_ns(&self) -> u64 {
        self.silence_ns
    }
}

/// What a link is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ready {
    /// Something to read.
    Read,
    /// Room to write.
    Write,
}

/// Bytes that a call moved; none if it would have to wait, or has waited for as long as it may.
pub type Moved = Result<Option<usize>, LinkError>;

/// How long nothing has moved.
#[derive(Debug, Default)]
pub struct Silence {
    lull: Lull,
}

impl Silence {
    /// Something moved.
    pub fn broken(&mut self) {
        self.lull.broken();
    }

    /// Nothing has moved. An error if that lasts longer than `limit_ns` now.
    pub fn goes_on(&mut self, limit_ns: u64) -> Result<(), LinkError> {
        match self.lull.goes_on(clock::monotonic_ns()) {
            silent if silent >= limit_ns => Err(LinkError::Silent(silent)),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::memory::Region;
    use crate::sys::socket::SocketOptions;

    fn links(silence_ms: u64) -> (Link, Link) {
        let (a, b) = socket::pair(&SocketOptions::default()).unwrap();
        let silence = Duration::from_millis(silence_ms);
        (
            Link::new(a, false, silence).unwrap(),
            Link::new(b, false, silence).unwrap(),
        )
    }

    #[test]
    fn a_span_arrives_whole_and_the_end_is_seen() {
        let (a, b) = links(5000);
        let region = Region::new("test", 8192).unwrap();
        region.span(0, 3000).write(&[7; 3000]);
        assert_eq!(a.send(region.span(0, 3000)).unwrap(), Some(3000));
        let mut at = 0;
        while at < 3000 {
            at += b
                .receive(region.span(4096 + at, 3000 - at))
                .unwrap()
                .unwrap();
        }
        a.finish_sending();
        let ended = b.receive(region.span(0, 1)).unwrap_err();
        assert_eq!(ended.kind(), TroubleKind::Peer);
        assert!(!a.is_closed().unwrap());
        drop(b);
        assert!(a.is_closed().unwrap());
    }

    #[test]
    fn a_receiver_that_closes_early_is_told_from_one_that_says_something() {
        let (a, b) = links(5000);
        assert!(a.expect_open().is_ok());
        socket::finish_sending(b.socket.as_fd());
        let early = a.expect_open().unwrap_err();
        assert_eq!(early.kind(), TroubleKind::Peer, "{early}");
        let (a, b) = links(5000);
        b.send_bytes(b"what?", false).unwrap();
        assert_eq!(a.is_closed().unwrap_err().kind(), TroubleKind::Invalid);
    }

    #[test]
    fn silence_and_a_peer_that_is_gone_are_told_apart() {
        let (a, mut b) = links(600);
        let region = Region::new("test", 8192).unwrap();
        // A call comes back when it has waited for as long as it may.
        let mut silence = Silence::default();
        let silent = loop {
            assert_eq!(b.receive(region.span(0, 1)).unwrap(), None);
            if let Err(error) = silence.goes_on(b.silence_ns()) {
                break error;
            }
        };
        assert!(matches!(silent, LinkError::Silent(_)), "{silent}");
        silence.broken();
        silence.goes_on(b.silence_ns()).unwrap();
        b.set_nonblocking().unwrap();
        assert_eq!(b.receive(region.span(0, 1)).unwrap(), None);
        drop(a);
        b.wait(Ready::Read).unwrap();
        let gone = b.receive(region.span(0, 1)).unwrap_err();
        assert_eq!(gone.kind(), TroubleKind::Peer);
        let gone = b.send(region.span(0, 1)).unwrap_err();
        assert_eq!(gone.kind(), TroubleKind::Peer);
    }
}
