//! Links: one connected stream socket from a sender to a receiver.
//!
//! Duty: make a link (connect or accept, hello and answer), move bytes over it with a bound on silence, close
//! it so that nothing is lost. It does not know what the bytes mean. Read next: [`crate::wire::hello`] for
//! the first words.

mod accept;
mod connect;

pub use accept::{Ground, accept};
pub use connect::{Target, connect, unix_name};

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use thiserror::Error;

use crate::record::TroubleKind;
use crate::sys::memory::Span;
use crate::sys::socket::{self, Drain, TcpInfo};
use crate::sys::{clock, why};

/// A connected link.
pub struct Link {
    socket: OwnedFd,
    tcp: bool,
    /// No byte moved for this long is a failure.
    silence_ns: u64,
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

    /// Sends a whole span. Calls `look_up` after each call, which blocks for its limit at most; false gives up.
    pub fn send_all(
        &self,
        mut span: Span<'_>,
        mut look_up: impl FnMut() -> bool,
    ) -> Result<(), LinkError> {
        let mut silent_since = None;
        while span.bytes() > 0 {
            match socket::send(self.socket.as_fd(), span) {
                Ok(sent) => {
                    span = span.part(sent, span.bytes() - sent);
                    silent_since = None;
                    go_on(look_up())?;
                }
                Err(error) => self.blocked(error, &mut silent_since, &mut look_up)?,
            }
        }
        Ok(())
    }

    /// Fills a whole span and tells `arrived` of every piece. Calls `look_up` as [`Link::send_all`] does.
    pub fn receive_all(
        &self,
        mut span: Span<'_>,
        mut arrived: impl FnMut(usize),
        mut look_up: impl FnMut() -> bool,
    ) -> Result<(), LinkError> {
        let mut silent_since = None;
        while span.bytes() > 0 {
            match socket::receive(self.socket.as_fd(), span) {
                Ok(0) => return Err(LinkError::PeerGone(io::ErrorKind::UnexpectedEof.into())),
                Ok(got) => {
                    arrived(got);
                    span = span.part(got, span.bytes() - got);
                    silent_since = None;
                    go_on(look_up())?;
                }
                Err(error) => self.blocked(error, &mut silent_since, &mut look_up)?,
            }
        }
        Ok(())
    }

    /// Takes `bytes` off the link without copying them, and tells `arrived` of every piece.
    pub fn discard_all(
        &self,
        mut bytes: usize,
        drain: &mut Drain,
        mut arrived: impl FnMut(usize),
        mut look_up: impl FnMut() -> bool,
    ) -> Result<(), LinkError> {
        let mut silent_since = None;
        while bytes > 0 {
            match drain.discard(self.socket.as_fd(), bytes) {
                Ok(0) => return Err(LinkError::PeerGone(io::ErrorKind::UnexpectedEof.into())),
                Ok(got) => {
                    arrived(got);
                    bytes -= got;
                    silent_since = None;
                    go_on(look_up())?;
                }
                Err(error) => self.blocked(error, &mut silent_since, &mut look_up)?,
            }
        }
        Ok(())
    }

    fn blocked(
        &self,
        error: io::Error,
        silent_since: &mut Option<u64>,
        look_up: &mut impl FnMut() -> bool,
    ) -> Result<(), LinkError> {
        match error.kind() {
            io::ErrorKind::Interrupted => return Ok(()),
            io::ErrorKind::WouldBlock => {}
            _ => return Err(LinkError::of(error, self.silence_ns)),
        }
        go_on(look_up())?;
        let now = clock::monotonic_ns();
        let since = *silent_since.get_or_insert(now);
        if now - since >= self.silence_ns {
            Err(LinkError::Silent(now - since))
        } else {
            Ok(())
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

    /// Says that nothing follows and waits until the receiver has closed, which it does after the last block.
    pub fn finish(
        self,
        limit: Duration,
        mut look_up: impl FnMut() -> bool,
    ) -> Result<(), LinkError> {
        socket::finish_sending(self.socket.as_fd());
        let until = clock::monotonic_ns() + u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX / 2);
        loop {
            match socket::receive_bytes(self.socket.as_fd(), &mut [0; 8]) {
                Ok(0) => return Ok(()),
                Ok(_) => return Err(LinkError::Io(io::ErrorKind::InvalidData.into())),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(LinkError::of(error, self.silence_ns)),
            }
            go_on(look_up())?;
            if clock::monotonic_ns() > until {
                let limit = u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX);
                return Err(LinkError::NotTaken(limit));
            }
        }
    }
}

fn go_on(wanted: bool) -> Result<(), LinkError> {
    if wanted {
        Ok(())
    } else {
        Err(LinkError::GivenUp)
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
        a.send_all(region.span(0, 3000), || true).unwrap();
        let mut pieces = 0;
        b.receive_all(region.span(4096, 3000), |got| pieces += got, || true)
            .unwrap();
        assert_eq!(pieces, 3000);
        drop(b);
        a.finish(Duration::from_secs(5), || true).unwrap();
    }

    #[test]
    fn a_receiver_that_closes_early_or_never_is_told_from_one_that_is_silent() {
        let (a, b) = links(5000);
        assert!(a.expect_open().is_ok());
        socket::finish_sending(b.socket.as_fd());
        let early = a.expect_open().unwrap_err();
        assert_eq!(early.kind(), TroubleKind::Peer, "{early}");
        let (a, _b) = links(5000);
        let never = a.finish(Duration::from_millis(1), || true).unwrap_err();
        assert_eq!(
            never.to_string(),
            "the receiver has not taken everything within 1 ms"
        );
    }

    #[test]
    fn silence_and_a_peer_that_is_gone_are_told_apart() {
        let (a, b) = links(600);
        let region = Region::new("test", 8192).unwrap();
        let mut looked = 0;
        let silent = b
            .receive_all(
                region.span(0, 1),
                |_| (),
                || {
                    looked += 1;
                    true
                },
            )
            .unwrap_err();
        assert!(matches!(silent, LinkError::Silent(_)), "{silent}");
        assert!(looked >= 2);
        let told = b.receive_all(region.span(0, 1), |_| (), || false);
        assert!(matches!(told, Err(LinkError::GivenUp)));
        drop(a);
        let gone = b
            .receive_all(region.span(0, 1), |_| (), || true)
            .unwrap_err();
        assert_eq!(gone.kind(), TroubleKind::Peer);
        assert_eq!(
            b.send_all(region.span(0, 1), || true).unwrap_err().kind(),
            TroubleKind::Peer
        );
    }
}
