//! The receiver's side of making a link: the receiver of a boundary that accepts the connection becomes the link's receiver.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use crate::sys::clock;
use crate::sys::socket;
use crate::sys::vectored::{Became, Wanted, wait_for_any};
use crate::wire::hello::{ANSWER, HELLO_BYTES, LinkHello};

use super::connect::{PROBE_LIMIT, read_whole};
use super::pending::PendingPeers;
use super::{Link, LinkError};

/// Listener of a receiver, and its time limits.
pub(crate) struct AcceptConfig<'a> {
    /// The boundary's listener, shared by all its receivers.
    pub listener: &'a OwnedFd,
    /// True if it listens on TCP.
    pub tcp: bool,
    /// Timeout of a hello.
    pub hello_limit: Duration,
    /// Time to wait for a sender, in milliseconds.
    pub limit_ms: u64,
    /// Silence after which the link counts as dead.
    pub silence: Duration,
}

/// Accepts one link after another at one listener. It accepts other connections while some are silent, but one at a time as long as
/// each sends its hello at once: a sender that this receiver accepts but does not serve must connect again.
pub(crate) struct Acceptor<'a> {
    config: &'a AcceptConfig<'a>,
    pending: PendingPeers,
}

/// Maximum number of silent connections; the next one replaces the oldest.
const MOST_PENDING: usize = 256;
/// Time for which the next connection waits while the newest accepted one is silent, in nanoseconds; divided among all accepted ones.
const COURTESY_NS: u64 = 20_000_000;

impl<'a> Acceptor<'a> {
    /// Makes an acceptor without connections.
    pub(crate) fn new(config: &'a AcceptConfig<'a>) -> Self {
        Self {
            config,
            pending: PendingPeers::new(config.hello_limit),
        }
    }

    /// Accepts connections until `admit` takes a link and its full segment arrives. Strangers are closed and reported to
    /// `stranger`. If a sender gives up before that, `release` gets its slot back.
    pub(crate) fn next<Slot>(
        &mut self,
        mut admit: impl FnMut(&LinkHello) -> Option<Slot>,
        mut release: impl FnMut(Slot),
        mut stranger: impl FnMut(),
    ) -> Result<(Link, Slot), LinkError> {
        let config = self.config;
        let until = clock::monotonic_ns() + config.limit_ms * 1_000_000;
        while clock::monotonic_ns() < until {
            let heard = self.next_hello(&mut stranger).map_err(LinkError::Setup)?;
            let Some((socket, hello)) = heard else {
                continue;
            };
            let Some(slot) = admit(&hello) else {
                stranger();
                continue;
            };
            if answer(&socket, &hello) {
                return Ok((Link::new(socket, config.tcp, config.silence)?, slot));
            }
            release(slot);
        }
        Err(LinkError::NobodyCame(config.limit_ms))
    }

    /// Does one round: accepts, reads and closes connections. Returns a connection that has sent a whole hello.
    fn next_hello(
        &mut self,
        stranger: &mut impl FnMut(),
    ) -> io::Result<Option<(OwnedFd, LinkHello)>> {
        let heard = self.listen();
        for _ in 0..self.pending.closed() {
            stranger();
        }
        let Some((socket, bytes)) = heard? else {
            return Ok(None);
        };
        let Some(hello) = LinkHello::decode(&bytes) else {
            stranger();
            return Ok(None);
        };
        socket::set_nonblocking(&socket, false)?;
        Ok(Some((socket, hello)))
    }

    fn listen(&mut self) -> io::Result<Option<(OwnedFd, [u8; HELLO_BYTES])>> {
        const LOOK_UP_NS: u64 = 200_000_000;
        self.pending.close_late();
        let now = clock::monotonic_ns();
        let courtesy = COURTESY_NS / (self.pending.count() as u64 + 1);
        let newest_ns = self.pending.newest_ns();
        let open_ns = newest_ns.map_or(0, |newest_ns| newest_ns + courtesy);
        let opens = now >= open_ns;
        let wait_ns = if opens { LOOK_UP_NS } else { open_ns - now };
        let sockets = self.pending.sockets();
        let sockets = sockets.chain(opens.then_some(self.config.listener.as_fd()));
        let watched: Vec<_> = sockets.map(|socket| (socket, Wanted::Read)).collect();
        let became = wait_for_any(&watched, Duration::from_nanos(wait_ns))?;
        let ready = |place: usize| became[place] != Became::Nothing;
        let knocks = opens && ready(self.pending.count());
        // Go from the back, so that a removal shifts no place that comes later in this loop.
        for place in (0..self.pending.count())
            .rev()
            .filter(|place| ready(*place))
        {
            let heard = self.pending.hear(place);
            if heard.is_some() {
                return Ok(heard);
            }
        }
        if knocks {
            if self.pending.count() >= MOST_PENDING {
                self.pending.close_oldest();
            }
            // No connection comes if another receiver was quicker.
            self.pending.accept(self.config.listener.as_fd())?;
        }
        Ok(None)
    }
}

/// Answers the sender, and receives the bytes with which it tries the path. The sender's own timeout is shorter: the sender gives
/// up first and closes.
fn answer(socket: &OwnedFd, hello: &LinkHello) -> bool {
    let say = || socket::send_bytes(socket.as_fd(), &ANSWER).is_ok_and(|sent| sent == ANSWER.len());
    let mut probe = vec![0; usize::try_from(hello.probe_bytes).unwrap_or(0)];
    if !say() {
        return false;
    }
    probe.is_empty() || (read_within(socket, PROBE_LIMIT * 2, &mut probe).is_some() && say())
}

/// Fills `bytes`. A peer that sends a byte now and then must not stretch the limit.
fn read_within(socket: &OwnedFd, limit: Duration, bytes: &mut [u8]) -> Option<()> {
    let until = clock::monotonic_ns() + u64::try_from(limit.as_nanos()).ok()?;
    socket::bound_calls(socket, limit).ok()?;
    read_whole(socket, until, bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::{Connector, Endpoint};
    use crate::plan::SocketOptions;
    use std::net::{IpAddr, Ipv4Addr, SocketAddr};

    const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    fn hello(secret: u8) -> LinkHello {
        LinkHello {
            secret: [secret; 32],
            boundary: 1,
            from: 2,
            to: 3,
            stream: 4,
            probe_bytes: 0,
        }
    }

    fn connector(to: SocketAddr, limit_s: u64) -> Connector {
        Connector {
            to: Endpoint::Tcp(to),
            from: LOOPBACK,
            here: false,
            options: SocketOptions::default(),
            limit: Duration::from_secs(limit_s),
        }
    }

    #[test]
    fn strangers_are_counted_and_the_right_sender_gets_its_answer() {
        let (listener, address) =
            socket::listen_tcp(LOOPBACK, None, &SocketOptions::default()).unwrap();
        let second = Duration::from_secs(1);
        let senders = std::thread::spawn(move || {
            let wrong = connector(address, 2).connect(&hello(1), second);
            let stranger = std::net::TcpStream::connect(address).unwrap();
            drop(stranger);
            let right = connector(address, 5).connect(&hello(7), second);
            (wrong.map(|_| ()), right.map(|_| ()))
        });
        let config = AcceptConfig {
            listener: &listener,
            tcp: true,
            hello_limit: second,
            limit_ms: 10_000,
            silence: second,
        };
        let mut strangers = 0;
        let admit = |hello: &LinkHello| (hello.secret == [7; 32]).then_some(hello.stream);
        let (link, stream) = Acceptor::new(&config)
            .next(admit, |_| (), || strangers += 1)
            .unwrap();
        let (wrong, right) = senders.join().unwrap();
        assert!(matches!(wrong, Err(LinkError::NoAnswer { .. })));
        assert!(right.is_ok() && link.is_tcp());
        // The sender with the wrong secret connected more than once.
        assert!(strangers > 2, "{strangers}");
        assert_eq!(stream, 4);
    }

    #[test]
    fn those_that_say_nothing_do_not_keep_the_sender_out() {
        let (listener, address) =
            socket::listen_tcp(LOOPBACK, None, &SocketOptions::default()).unwrap();
        let second = Duration::from_secs(1);
        let silent: Vec<_> = (0..2 * MOST_PENDING)
            .map(|_| std::net::TcpStream::connect(address).unwrap())
            .collect();
        let senders = std::thread::spawn(move || {
            let made = connector(address, 5).connect(&hello(7), second);
            made.map(|_| ())
        });
        let config = AcceptConfig {
            listener: &listener,
            tcp: true,
            hello_limit: second * 100,
            limit_ms: 10_000,
            silence: second,
        };
        let mut strangers = 0;
        let accepted = Acceptor::new(&config).next(|_| Some(()), |()| (), || strangers += 1);
        assert!(accepted.is_ok() && senders.join().unwrap().is_ok());
        // The oldest connections were closed for the later ones.
        assert!(strangers >= MOST_PENDING, "{strangers}");
        drop(silent);
    }

    #[test]
    fn a_sender_that_gives_up_on_its_full_segment_leaves_its_place() {
        let (listener, address) =
            socket::listen_tcp(LOOPBACK, None, &SocketOptions::default()).unwrap();
        let second = Duration::from_secs(1);
        let senders = std::thread::spawn(move || {
            use std::io::{Read, Write};
            let mut short = std::net::TcpStream::connect(address).unwrap();
            let hello = LinkHello {
                probe_bytes: 8960,
                ..hello(7)
            };
            short.write_all(&hello.encode()).unwrap();
            short.read_exact(&mut [0; 8]).unwrap();
            short.write_all(&[0; 100]).unwrap();
            drop(short);
            connector(address, 5).connect(&hello, second).map(|_| ())
        });
        let config = AcceptConfig {
            listener: &listener,
            tcp: true,
            hello_limit: second,
            limit_ms: 10_000,
            silence: second,
        };
        let (mut taken, mut released) = (0, 0);
        let admit = |_: &LinkHello| {
            taken += 1;
            Some(taken)
        };
        let (_, slot) = Acceptor::new(&config)
            .next(admit, |slot| released = slot, || ())
            .unwrap();
        assert!(senders.join().unwrap().is_ok());
        assert_eq!((slot, released), (2, 1));
    }

    #[test]
    fn nobody_coming_ends_with_its_limit() {
        let (listener, _) = socket::listen_tcp(LOOPBACK, None, &SocketOptions::default()).unwrap();
        let second = Duration::from_secs(1);
        let config = AcceptConfig {
            listener: &listener,
            tcp: true,
            hello_limit: second,
            limit_ms: 50,
            silence: second,
        };
        let error = Acceptor::new(&config)
            .next(|_| Some(()), |()| (), || ())
            .err()
            .unwrap();
        assert_eq!(error.to_string(), "no sender connected within 50 ms");
    }
}
