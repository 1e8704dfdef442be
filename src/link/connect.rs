//! The sender's side of making a link.

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use crate::plan::SocketOptions;
use crate::sys::clock;
use crate::sys::socket;
use crate::wire::hello::{ANSWER, LinkHello, MAX_PROBE_BYTES};

use super::{Endpoint, Link, LinkError};

/// Connects to a receiver.
#[derive(Debug, Clone)]
pub(crate) struct Connector {
    /// Where the receiver listens.
    pub to: Endpoint,
    /// Address of this host, the source of a TCP link.
    pub from: IpAddr,
    /// True if the receiver is on this host: nothing between the ends can drop a large packet.
    pub here: bool,
    /// Options of the socket.
    pub options: SocketOptions,
    /// Timeout of a connection with its answer.
    pub limit: Duration,
}

/// Timeout of a full segment. The kernel has retransmitted it four times by then.
pub(super) const PROBE_LIMIT: Duration = Duration::from_secs(3);
/// Timeout of the next segments, once a segment that is too large has vanished: the kernel retransmits after 200 ms.
const NEXT_PROBES_LIMIT: Duration = Duration::from_millis(500);
/// Path MTUs to try first if the one that both ends assume does not pass.
const COMMON_MTUS: [u32; 5] = [4096, 1500, 1400, 1280, 576];

impl Connector {
    /// Connects, names the link in a hello, and waits for the receiver's answer. On TCP, one full segment must pass before the link
    /// is ready: a path with a smaller MTU than both ends assume drops large packets silently, and data would stall there for ever.
    pub(crate) fn connect(&self, hello: &LinkHello, silence: Duration) -> Result<Link, LinkError> {
        let (socket, probe_bytes) = self.introduce(hello, 0)?;
        if probe_bytes > 0 && !self.passes(&socket, probe_bytes)? {
            let info = socket::tcp_info(socket.as_fd()).unwrap_or_default();
            socket::reset(socket);
            let wanted = u32::try_from(info.path_mtu_bytes).unwrap_or(0);
            return Err(self.largest_that_passes(hello, wanted));
        }
        Link::new(socket, self.to.kind().has_tcp_info(), silence)
    }

    /// Connects and gets the receiver's answer. Returns the socket and the size of a full segment on it, in bytes. Connects again if
    /// the receiver closes the connection without an answer: that receiver has become another link's. The hello announces `withheld`
    /// more bytes that never come, so that the receiver waits for another connection when this one closes.
    fn introduce(&self, hello: &LinkHello, withheld: u32) -> Result<(OwnedFd, u32), LinkError> {
        const LONGEST_PAUSE_NS: u64 = 200_000_000;
        let limit_ns = u64::try_from(self.limit.as_nanos()).unwrap_or(u64::MAX / 2);
        let until = clock::monotonic_ns() + limit_ns;
        let mut pause_ns = 5_000_000;
        loop {
            let left = until.saturating_sub(clock::monotonic_ns()).max(1_000_000);
            let error = match self.introduce_once(hello, Duration::from_nanos(left), withheld) {
                Ok(made) => return Ok(made),
                Err(error) => error,
            };
            let again = match &error {
                LinkError::NoAnswer { source, .. } => matches!(
                    source.kind(),
                    io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe
                ),
                _ => false,
            };
            if !again || clock::monotonic_ns() + pause_ns >= until {
                return Err(error);
            }
            clock::sleep_until(clock::monotonic_ns() + pause_ns);
            pause_ns = (pause_ns * 2).min(LONGEST_PAUSE_NS);
        }
    }

    fn introduce_once(
        &self,
        hello: &LinkHello,
        limit: Duration,
        withheld: u32,
    ) -> Result<(OwnedFd, u32), LinkError> {
        let connected = self.to.connect(self.from, &self.options, limit);
        let socket = connected.map_err(|source| LinkError::Connect {
            to: self.to.to_string(),
            source,
        })?;
        let segment = socket::tcp_info(socket.as_fd()).map_or(0, |info| info.mss_bytes);
        let probe_bytes = if self.to.kind().has_tcp_info() && !self.here {
            u32::try_from(segment).map_or(0, |bytes| bytes.min(MAX_PROBE_BYTES - withheld))
        } else {
            0
        };
        let hello = LinkHello {
            probe_bytes: probe_bytes + withheld,
            ..*hello
        };
        let taken = socket::bound_calls(&socket, limit)
            .and_then(|()| socket::send_bytes(socket.as_fd(), &hello.encode()))
            .and_then(|sent| match sent == hello.encode().len() {
                true => await_answer(&socket),
                false => Err(io::ErrorKind::WriteZero.into()),
            });
        taken.map_err(|source| self.no_answer(source))?;
        Ok((socket, probe_bytes))
    }

    fn no_answer(&self, source: io::Error) -> LinkError {
        let to = self.to.to_string();
        LinkError::NoAnswer { to, source }
    }

    /// True if a segment of `bytes` bytes arrives and is answered. Data that the peer's kernel has acknowledged has arrived, however
    /// long the peer's process takes to answer.
    fn passes(&self, socket: &OwnedFd, bytes: u32) -> Result<bool, LinkError> {
        let until = Instant::now() + self.limit;
        let probe = vec![0; usize::try_from(bytes).unwrap_or(0)];
        let answered = socket::prepare_data(socket, true, PROBE_LIMIT * 2)
            .and_then(|()| socket::bound_calls(socket, PROBE_LIMIT))
            .and_then(|()| socket::send_bytes(socket.as_fd(), &probe));
        let mut answered = answered.and_then(|_| await_answer(socket));
        loop {
            let arrived = socket::all_acknowledged(socket.as_fd());
            match answered {
                Ok(()) => return Ok(true),
                Err(error) if error.kind() != io::ErrorKind::TimedOut => {
                    return Err(LinkError::PeerGone(error));
                }
                Err(_) if !arrived => return Ok(false),
                Err(source) if Instant::now() > until => return Err(self.no_answer(source)),
                Err(_) => answered = await_answer(socket),
            }
        }
    }

    /// Tries smaller segments over new connections. The error names the largest path MTU that passes.
    fn largest_that_passes(&self, hello: &LinkHello, wanted: u32) -> LinkError {
        let headers = if self.from.is_ipv6() { 60 } else { 40 };
        let given = self.options.mss_bytes;
        let mut vanishes = given.map_or(wanted, |mss| wanted.min(mss + headers));
        let mut largest = None;
        let mut smaller = self.clone();
        while let Some(mtu) = next_mtu(largest, vanishes) {
            smaller.options.mss_bytes = Some(mtu - headers);
            let (socket, probe_bytes) = match smaller.introduce(hello, 1) {
                Ok(made) => made,
                Err(error) => return error,
            };
            let arrived = arrives(&socket, probe_bytes);
            socket::reset(socket);
            match arrived {
                Ok(true) => largest = Some(mtu),
                Ok(false) => vanishes = mtu,
                Err(error) => return LinkError::PeerGone(error),
            }
        }
        match largest {
            Some(passes) => LinkError::PathMtu {
                passes,
                wanted,
                mss: passes - headers,
            },
            None => self.no_answer(io::ErrorKind::TimedOut.into()),
        }
    }
}

/// True if the peer's kernel acknowledges a segment of `bytes` bytes in time.
fn arrives(socket: &OwnedFd, bytes: u32) -> io::Result<bool> {
    const LOOK_UP: Duration = Duration::from_millis(2);
    let probe = vec![0; usize::try_from(bytes).unwrap_or(0)];
    let until = Instant::now() + NEXT_PROBES_LIMIT;
    socket::prepare_data(socket, true, PROBE_LIMIT * 2)?;
    socket::send_bytes(socket.as_fd(), &probe)?;
    while Instant::now() < until {
        if socket::all_acknowledged(socket.as_fd()) {
            return Ok(true);
        }
        std::thread::sleep(LOOK_UP);
    }
    Ok(false)
}

/// Path MTU to try next, between one that passes and one that does not: common MTUs from the largest down, then one byte more
/// than the common one that passes, then the middle.
fn next_mtu(passes: Option<u32>, vanishes: u32) -> Option<u32> {
    let smaller = COMMON_MTUS.into_iter().find(|mtu| *mtu < vanishes);
    match passes {
        None => smaller,
        Some(passes) if passes + 1 >= vanishes => None,
        Some(passes) if COMMON_MTUS.contains(&passes) => Some(passes + 1),
        Some(passes) => Some(passes.midpoint(vanishes)),
    }
}

fn await_answer(socket: &OwnedFd) -> io::Result<()> {
    let mut answer = [0; ANSWER.len()];
    read_whole(socket, u64::MAX, &mut answer)?;
    if answer == ANSWER {
        Ok(())
    } else {
        Err(io::ErrorKind::InvalidData.into())
    }
}

/// Fills `bytes`. The time of a call is bounded, and no call begins after `until_ns` on the monotonic clock.
pub(super) fn read_whole(socket: &OwnedFd, until_ns: u64, bytes: &mut [u8]) -> io::Result<()> {
    let mut have = 0;
    while have < bytes.len() {
        if clock::monotonic_ns() > until_ns {
            return Err(io::ErrorKind::TimedOut.into());
        }
        match socket::receive_bytes(socket.as_fd(), &mut bytes[have..]) {
            Ok(0) => return Err(io::ErrorKind::ConnectionReset.into()),
            Ok(got) => have += got,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                return Err(io::ErrorKind::TimedOut.into());
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Abstract Unix name of a node's listener for a boundary.
pub(crate) fn unix_name(names: &str, node: usize, boundary: usize) -> String {
    format!("pipebench-{names}-{node}-{boundary}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_mtu_is_found_to_the_byte_and_a_common_one_at_once() {
        for (path, tries) in [
            (1500, 3),
            (1000, 16),
            (577, 16),
            (576, 7),
            (8999, 15),
            (1499, 12),
        ] {
            let (mut passes, mut vanishes, mut tried) = (None, 9000, 0);
            while let Some(mtu) = next_mtu(passes, vanishes) {
                match mtu <= path {
                    true => passes = Some(mtu),
                    false => vanishes = mtu,
                }
                tried += 1;
            }
            assert_eq!(passes, Some(path));
            assert!(tried <= tries, "{path}: {tried}");
        }
        assert_eq!(next_mtu(None, 576), None);
    }
}
