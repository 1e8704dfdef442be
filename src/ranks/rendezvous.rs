//! Connection setup between two ranks: the rank that sends first proposes a link, and the other one accepts it. If both propose, the link
//! of the lower rank is kept.

use std::net::IpAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use crate::link::{Endpoint, PendingPeers};
use crate::plan::SocketOptions;
use crate::sys::socket;
use crate::wire::rank::RankHello;

use super::error::RankError;
use super::shared_memory::SharedMemory;

/// Data that a rank needs to find the others.
pub(crate) struct WorldConfig {
    /// Listeners of this rank, nonblocking.
    pub listeners: Vec<OwnedFd>,
    /// Memory shared with other ranks of this node.
    pub shared: Option<Arc<SharedMemory>>,
    /// Addresses of all ranks as seen from here, indexed by rank.
    pub book: Vec<Endpoint>,
    /// Own address, the source of TCP links.
    pub from: IpAddr,
    /// Secret of the run.
    pub secret: [u8; 32],
    /// Options of TCP sockets.
    pub options: SocketOptions,
    /// Timeout of a connection. The answer to a proposal is not included: it takes as long as the other rank measures with a third one.
    pub connect_limit: Duration,
    /// Timeout of the hello of a new connection.
    pub hello_limit: Duration,
    /// Timeout of a message that has begun and makes no progress.
    pub silence: Duration,
}

/// Connections from other ranks, and the means to connect to them.
pub(super) struct Rendezvous {
    pub(super) config: WorldConfig,
    own: u32,
    pub(super) pending: PendingPeers,
    /// Connections that were closed because they came from no rank of this job.
    pub(super) strangers: u64,
}

/// Connections without a hello at a time; more wait in the backlog.
const MOST_PENDING: usize = 256;
/// Buffers of TCP links within a host: there is no network path to fill, and data under way stays in the processor's cache. The kernel
/// would let them grow to megabytes; 4 MiB in both directions at once then took half as long again (medians of 15 rounds).
const NEAR_SEND_BYTES: usize = 256 << 10;
const NEAR_RECEIVE_BYTES: usize = 512 << 10;
/// The kernel does not grow buffers of Unix sockets, and their usual 208 KiB are too small for a message of a megabyte.
const UNIX_BUFFER_BYTES: usize = 1 << 20;

impl Rendezvous {
    pub(super) fn new(own: usize, config: WorldConfig) -> Self {
        Self {
            pending: PendingPeers::new(config.hello_limit),
            config,
            own: u32::try_from(own).unwrap_or(u32::MAX),
            strangers: 0,
        }
    }

    pub(super) fn silence_ns(&self) -> u64 {
        nanoseconds(self.config.silence)
    }

    /// Time limit for the hello on a link that the other rank has proposed, in nanoseconds.
    pub(super) fn arrival_ns(&self) -> u64 {
        nanoseconds(self.config.connect_limit).saturating_add(nanoseconds(self.config.hello_limit))
    }

    /// Connects to a rank and sends the hello.
    pub(super) fn propose(&self, rank: usize) -> Result<OwnedFd, RankError> {
        let config = &self.config;
        let to = &config.book[rank];
        let unix = SocketOptions {
            send_buffer_bytes: Some(UNIX_BUFFER_BYTES),
            ..SocketOptions::default()
        };
        let options = if to.kind().has_tcp_info() {
            &config.options
        } else {
            &unix
        };
        let connected = to.connect(config.from, options, config.connect_limit);
        let socket = connected.map_err(|source| RankError::Connect {
            rank,
            to: to.to_string(),
            source,
        })?;
        self.set_up(rank, &socket)?;
        let hello = RankHello {
            secret: config.secret,
            from: self.own,
            to: u32::try_from(rank).unwrap_or(u32::MAX),
        };
        // The buffer of a new socket has room for the hello.
        match socket::send_bytes(socket.as_fd(), &hello.encode()) {
            Ok(_) => Ok(socket),
            Err(source) => Err(RankError::Gone { rank, source }),
        }
    }

    pub(super) fn set_up(&self, rank: usize, socket: &OwnedFd) -> Result<(), RankError> {
        let tcp = self.config.book[rank].kind().has_tcp_info();
        let made = || {
            socket::prepare_data(socket, tcp, self.config.silence)?;
            if tcp {
                socket::ask_now_and_then(socket, self.config.silence)?;
            }
            if self.stays_here(rank) {
                socket::set_buffers(socket, &self.near_buffers())?;
            }
            socket::set_nonblocking(socket, true)
        };
        made().map_err(RankError::Setup)
    }

    /// True if TCP data for a rank never leaves this host.
    fn stays_here(&self, rank: usize) -> bool {
        match &self.config.book[rank] {
            Endpoint::Tcp(to) => to.ip().is_loopback() || to.ip() == self.config.from,
            Endpoint::Unix(_) | Endpoint::Memory(_) => false,
        }
    }

    /// Buffers of links within this host, unless the options set others.
    fn near_buffers(&self) -> SocketOptions {
        let own = &self.config.options;
        SocketOptions {
            send_buffer_bytes: own.send_buffer_bytes.or(Some(NEAR_SEND_BYTES)),
            receive_buffer_bytes: own.receive_buffer_bytes.or(Some(NEAR_RECEIVE_BYTES)),
            ..SocketOptions::default()
        }
    }

    /// Accepts connections until none is pending or the list is full; the others stay in the backlog until the next turn, since no rank connects
    /// twice. What still fills the list then has had a turn to say its hello: its older half is closed.
    pub(super) fn accept(&mut self) -> Result<(), RankError> {
        self.pending.close_late();
        if self.pending.count() >= MOST_PENDING {
            for _ in 0..MOST_PENDING / 2 {
                self.pending.close_oldest();
            }
        }
        for listener in &self.config.listeners {
            while self.pending.count() < MOST_PENDING {
                if !(self.pending.accept(listener.as_fd())).map_err(RankError::Setup)? {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Connections whose hello has arrived, with the rank of each.
    pub(super) fn introduced(&mut self) -> Vec<(usize, OwnedFd)> {
        let mut known = Vec::new();
        let ranks = self.config.book.len();
        // From the back, so that removals do not shift the remaining places.
        for place in (0..self.pending.count()).rev() {
            let Some((socket, bytes)) = self.pending.hear(place) else {
                continue;
            };
            match RankHello::decode(&bytes) {
                Some(hello)
                    if hello.secret == self.config.secret
                        && hello.to == self.own
                        && hello.from != self.own
                        && (hello.from as usize) < ranks =>
                {
                    known.push((hello.from as usize, socket));
                }
                Some(_) | None => self.strangers += 1,
            }
        }
        self.strangers += self.pending.closed() as u64;
        known
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
