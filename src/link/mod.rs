//! Links: one connected stream socket from a sender to a receiver.
//!
//! Duty: make a link (connect or accept, hello and answer), move bytes over it with a bound on silence, close it so that nothing
//! is lost. It does not know what the bytes mean. Read next: [`crate::wire::hello`] for the hello.

mod accept;
mod connect;
mod endpoint;
mod pending;

pub(crate) use accept::{AcceptConfig, Acceptor};
pub(crate) use connect::{Connector, unix_name};
pub(crate) use endpoint::{Endpoint, Ports};
pub(crate) use pending::PendingPeers;

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use nix::poll::PollFlags;
use thiserror::Error;

use crate::record::TcpInfo;
use crate::record::TroubleKind;
use crate::sys::clock::IdleTimer;
use crate::sys::memory::Span;
use crate::sys::pages::{Drain, Pipe};
use crate::sys::socket;
use crate::sys::{clock, why};

/// A connected link.
pub(crate) struct Link {
    socket: OwnedFd,
    tcp: bool,
    /// The link has failed if no byte moves for this long.
    silence_ns: u64,
    /// True if calls block, for a bounded time.
    blocking: bool,
}

/// Failures of a link, by stage.
#[derive(Debug, Error)]
pub(crate) enum LinkError {
    /// No listener could be made.
    #[error("cannot listen on {at}: {reason}")]
    Listen {
        /// Address or name.
        at: String,
        /// Reason, with a hint.
        reason: String,
    },
    /// The sender could not connect.
    #[error("cannot connect to {to}: {}{}", why(.source), cure(.source))]
    Connect {
        /// Address or name.
        to: String,
        /// Reason.
        source: io::Error,
    },
    /// No sender with the right hello connected within this time, in milliseconds.
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
    /// Packets of the size that both ends assume vanish on the way.
    #[error(
        "passes {passes}, not {wanted} (the path drops larger packets: check the MTU of its switches and tunnels; \
         --mss {mss} avoids such packets)"
    )]
    PathMtu {
        /// Path MTU that passes, in bytes.
        passes: u32,
        /// Path MTU that the sender's kernel assumes, in bytes.
        wanted: u32,
        /// Segment size that fits the path MTU that passes, in bytes.
        mss: u32,
    },
    /// A socket could not be set up.
    #[error("cannot set up a socket: {}", why(.0))]
    Setup(io::Error),
    /// The peer closed or reset the link.
    #[error("the peer closed the link: {}", why(.0))]
    PeerGone(io::Error),
    /// No byte moved for this long, in nanoseconds.
    #[error("no byte moved for {}", crate::units::show_ns(*.0))]
    Silent(u64),
    /// The waiting process learned that nothing will come.
    #[error("the link was abandoned")]
    GivenUp,
    /// The receiver did not close the link after the last block within this time, in nanoseconds.
    #[error("the receiver did not take all data within {}", crate::units::show_ns(*.0))]
    NotTaken(u64),
    /// Any other failure of a read or write.
    #[error("cannot move data: {}", why(.0))]
    Io(io::Error),
}

/// What to do about a connection that got no answer, which is nearly always a firewall between data ports.
fn cure(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::TimedOut | io::ErrorKind::HostUnreachable => {
            " (does a firewall drop it? --port-range 23400-23700 limits the ports; open them on every host: firewall-cmd --add-port=23400-23700/tcp, or ufw allow 23400:23700/tcp)"
        }
        _ => "",
    }
}

impl LinkError {
    /// Kind of this failure, which ranks it among others.
    pub(crate) fn kind(&self) -> TroubleKind {
        match self {
            Self::Connect { .. }
            | Self::NobodyCame(_)
            | Self::NoAnswer { .. }
            | Self::PathMtu { .. } => TroubleKind::Connect,
            Self::Setup(_) | Self::Listen { .. } => TroubleKind::Resource,
            Self::PeerGone(_) | Self::GivenUp => TroubleKind::Peer,
            Self::Silent(_) | Self::NotTaken(_) => TroubleKind::Deadline,
            Self::Io(_) => TroubleKind::Invalid,
        }
    }

    fn of(error: io::Error, silence_ns: u64) -> Self {
        match error.kind() {
            // The kernel's own limit for unacknowledged data: see `prepare_data`.
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

/// Maximum time that a single call blocks: a waiting process gets control back this often.
const CALL_LIMIT: Duration = Duration::from_millis(500);

impl Link {
    /// Makes a link over a connected socket; it fails once no byte moves for `silence`.
    pub(crate) fn new(socket: OwnedFd, tcp: bool, silence: Duration) -> Result<Self, LinkError> {
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

    /// True if the link is TCP, which the kernel paces.
    pub(crate) fn is_tcp(&self) -> bool {
        self.tcp
    }

    /// True if data can be read within `limit`. An error counts as data, since the read will report it.
    pub(crate) fn has_data(&self, limit: Duration) -> bool {
        socket::readable(self.socket.as_fd(), limit).unwrap_or(true)
    }

    /// The kernel's statistics of the connection; `None` for Unix sockets.
    pub(crate) fn tcp_info(&self) -> Option<TcpInfo> {
        let of_tcp = self.tcp.then(|| socket::tcp_info(self.socket.as_fd()));
        of_tcp.flatten()
    }

    /// Bytes that have arrived but are not read yet.
    pub(crate) fn unread_bytes(&self) -> u64 {
        socket::unread_bytes(self.socket.as_fd())
    }

    /// Makes the link nonblocking: no call that moves bytes waits from now on.
    pub(crate) fn set_nonblocking(&mut self) -> Result<(), LinkError> {
        self.blocking = false;
        socket::set_nonblocking(&self.socket, true).map_err(LinkError::Setup)
    }

    /// The socket, for a caller that waits for several links.
    pub(crate) fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Waits until a nonblocking link can be read or written, no longer than a call may block. Returns at once for a blocking
    /// link, whose calls have waited already.
    pub(crate) fn wait(&self, until: Ready) -> Result<(), LinkError> {
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

    /// Sends from a span. Returns the number of bytes sent. Such calls can move only a part: the caller continues where the last
    /// call stopped.
    pub(crate) fn send(&self, span: Span<'_>) -> Moved {
        self.moved(socket::send(self.socket.as_fd(), span))
    }

    /// Sends a few bytes. With `more`, other bytes follow at once.
    pub(crate) fn send_bytes(&self, bytes: &[u8], more: bool) -> Moved {
        let socket = self.socket.as_fd();
        self.moved(if more {
            socket::send_ahead(socket, bytes)
        } else {
            socket::send_bytes(socket, bytes)
        })
    }

    /// Receives into a span. Returns the number of bytes received.
    pub(crate) fn receive(&self, span: Span<'_>) -> Moved {
        self.came(socket::receive(self.socket.as_fd(), span))
    }

    /// Receives a few bytes.
    pub(crate) fn receive_bytes(&self, bytes: &mut [u8]) -> Moved {
        self.came(socket::receive_bytes(self.socket.as_fd(), bytes))
    }

    /// Discards at most `bytes` bytes of the link without copying them.
    pub(crate) fn discard(&self, drain: &mut Drain, bytes: usize) -> Moved {
        self.came(drain.discard(self.socket.as_fd(), bytes))
    }

    /// Moves pages of at most `bytes` bytes from the link into an empty pipe.
    pub(crate) fn take_pages(&self, pipe: &mut Pipe, bytes: usize) -> Moved {
        self.came(pipe.take(self.socket.as_fd(), bytes))
    }

    /// Sends the pages that are in a pipe. With `more`, other bytes follow at once.
    pub(crate) fn give_pages(&self, pipe: &mut Pipe, more: bool) -> Moved {
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

    /// Checks that the other direction is open and silent, for a sender that has not sent its last block: a peer that closes it
    /// is no receiver.
    pub(crate) fn expect_open(&self) -> Result<(), LinkError> {
        if !self.has_data(Duration::ZERO) {
            return Ok(());
        }
        let said = socket::receive_bytes(self.socket.as_fd(), &mut [0; 8]);
        Err(match said {
            Ok(0) => LinkError::PeerGone(io::ErrorKind::UnexpectedEof.into()),
            Ok(_) => LinkError::Io(io::ErrorKind::InvalidData.into()),
            Err(error) => LinkError::of(error, self.silence_ns),
        })
    }

    /// Closes the sending direction: nothing follows.
    pub(crate) fn finish_sending(&self) {
        socket::finish_sending(self.socket.as_fd());
    }

    /// True once the receiver has closed the link after the last block. A byte from the receiver is an error.
    pub(crate) fn is_closed(&self) -> Result<bool, LinkError> {
        match self.moved(socket::receive_bytes(self.socket.as_fd(), &mut [0; 8]))? {
            Some(0) => Ok(true),
            Some(_) => Err(LinkError::Io(io::ErrorKind::InvalidData.into())),
            None => Ok(false),
        }
    }

    /// Longest time without a moved byte on this link, in nanoseconds.
    pub(crate) fn silence_ns(&self) -> u64 {
        self.silence_ns
    }
}

/// The event to wait for on a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ready {
    /// Data to read.
    Read,
    /// Room to write.
    Write,
}

/// Number of bytes that a call moved; `None` if it would block or reached its timeout.
pub(crate) type Moved = Result<Option<usize>, LinkError>;

/// Time without a moved byte.
#[derive(Debug, Default)]
pub(crate) struct Silence {
    idle: IdleTimer,
}

impl Silence {
    /// Records that bytes moved, which ends the silence.
    pub(crate) fn broken(&mut self) {
        self.idle.broken();
    }

    /// Records that nothing has moved. An error once that has lasted for `limit_ns`.
    pub(crate) fn goes_on(&mut self, limit_ns: u64) -> Result<(), LinkError> {
        match self.idle.goes_on(clock::monotonic_ns()) {
            silent if silent >= limit_ns => Err(LinkError::Silent(silent)),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::SocketOptions;
    use crate::sys::memory::Region;

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
        // A call returns when it reaches its timeout.
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
