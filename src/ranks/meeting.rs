//! How two ranks find each other: who sends first proposes a link, and the other one takes it. Where both propose, the link of
//! the lower rank is kept.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::link::Guests;
use crate::sys::clock;
use crate::sys::socket::{self, SocketOptions};
use crate::sys::vectored::{Became, Wanted, wait_for_any};
use crate::wire::rank::{RankHello, TAKEN};

use super::common::Common;
use super::exchange::{Op, Way};
use super::peer::{Link, Peer};
use super::stream::Stream;
use super::{From, RankError, World};

/// Where a rank listens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RankAddress {
    /// TCP.
    Tcp(SocketAddr),
    /// An abstract Unix name of this host.
    Unix(String),
    /// A place in the memory that ranks of its node have in common.
    Memory(usize),
}

/// What a rank needs to find the others.
pub struct Ground {
    /// Where this rank listens.
    pub listeners: Vec<OwnedFd>,
    /// Memory in common with other ranks of this node.
    pub common: Option<Arc<Common>>,
    /// Where all ranks can be reached from here, by rank.
    pub book: Vec<RankAddress>,
    /// Own address, from which TCP links are made.
    pub from: IpAddr,
    /// Secret of the run.
    pub secret: [u8; 32],
    /// What is asked of TCP sockets.
    pub options: SocketOptions,
    /// How long a connection may take. The answer on it takes as long as the other rank measures with somebody else.
    pub connect_limit: Duration,
    /// How long whoever connects may take to say who it is.
    pub hello_limit: Duration,
    /// How long a message that has begun may stand still.
    pub silence: Duration,
}

/// Newcomers, and the way to others.
pub struct Meeting {
    ground: Ground,
    own: u32,
    guests: Guests,
    strangers: u64,
}

/// How many may be silent at the same time. The next ones wait outside: nobody comes a second time here.
const MOST_GUESTS: usize = 256;
/// Nobody sleeps for longer: a lost wake-up costs this much, and nothing else.
const LONGEST_SLEEP: Duration = Duration::from_millis(50);
/// Buffers of TCP links that stay on a host: there is no way to fill, and what is under way stays in the processor's cache. The kernel would let
/// them grow to megabytes: 4 MiB both ways at once took half as long again with those (medians of 15 rounds).
const NEAR_SEND_BYTES: usize = 256 << 10;
const NEAR_RECEIVE_BYTES: usize = 512 << 10;
/// Unix sockets do not grow by themselves, and their usual 208 KiB are less than a message of a megabyte wants.
const UNIX_BUFFER_BYTES: usize = 1 << 20;

impl Meeting {
    pub fn new(own: usize, ground: Ground) -> Result<Self, RankError> {
        for listener in &ground.listeners {
            socket::set_nonblocking(listener, true).map_err(RankError::Setup)?;
        }
        Ok(Self {
            guests: Guests::new(ground.hello_limit),
            ground,
            own: u32::try_from(own).unwrap_or(u32::MAX),
            strangers: 0,
        })
    }

    pub fn strangers(&self) -> u64 {
        self.strangers
    }

    pub fn silence_ns(&self) -> u64 {
        nanoseconds(self.ground.silence)
    }

    /// By when a link that the other rank has connected must have said whose it is.
    fn arrival_ns(&self) -> u64 {
        nanoseconds(self.ground.connect_limit).saturating_add(nanoseconds(self.ground.hello_limit))
    }

    /// Connects to a rank and says who this is.
    fn propose(&self, rank: usize) -> Result<OwnedFd, RankError> {
        let ground = &self.ground;
        let (to, connected) = match &ground.book[rank] {
            RankAddress::Tcp(to) => {
                let limit = ground.connect_limit;
                let made = socket::connect_tcp(ground.from, *to, &ground.options, limit);
                (to.to_string(), made)
            }
            RankAddress::Unix(name) => {
                let limit = ground.connect_limit;
                let made = socket::connect_unix(name, &unix_options(), limit);
                (name.clone(), made)
            }
            // Such a link stands from the start, where there is such memory.
            RankAddress::Memory(place) => {
                let none = io::Error::from(io::ErrorKind::NotFound);
                (format!("place {place}"), Err(none))
            }
        };
        let connect = |source| RankError::Connect { rank, to, source };
        let socket = connected.map_err(connect)?;
        self.set_up(rank, &socket)?;
        let hello = RankHello {
            secret: ground.secret,
            from: self.own,
            to: u32::try_from(rank).unwrap_or(u32::MAX),
        };
        // The buffer of a new socket has room for it.
        match socket::send_bytes(socket.as_fd(), &hello.encode()) {
            Ok(_) => Ok(socket),
            Err(source) => Err(RankError::Gone { rank, source }),
        }
    }

    fn set_up(&self, rank: usize, socket: &OwnedFd) -> Result<(), RankError> {
        let tcp = matches!(self.ground.book[rank], RankAddress::Tcp(_));
        let asked = || match tcp {
            true => socket::ask_now_and_then(socket, self.ground.silence),
            false => Ok(()),
        };
        socket::prepare_data(socket, tcp, self.ground.silence)
            .and_then(|()| asked())
            .and_then(|()| match self.stays_here(rank) {
                true => socket::set_buffers(socket, &self.near_buffers()),
                false => Ok(()),
            })
            .and_then(|()| socket::set_nonblocking(socket, true))
            .map_err(RankError::Setup)
    }

    /// Whether what goes to a rank by TCP never leaves this host.
    fn stays_here(&self, rank: usize) -> bool {
        match self.ground.book[rank] {
            RankAddress::Tcp(to) => to.ip().is_loopback() || to.ip() == self.ground.from,
            RankAddress::Unix(_) | RankAddress::Memory(_) => false,
        }
    }

    /// Buffers for links that stay on this host, where nobody asked for others.
    fn near_buffers(&self) -> SocketOptions {
        let own = &self.ground.options;
        SocketOptions {
            send_buffer_bytes: own.send_buffer_bytes.or(Some(NEAR_SEND_BYTES)),
            receive_buffer_bytes: own.receive_buffer_bytes.or(Some(NEAR_RECEIVE_BYTES)),
            ..SocketOptions::default()
        }
    }

    fn let_in(&mut self) -> Result<(), RankError> {
        self.guests.show_out_late();
        for listener in &self.ground.listeners {
            // Each at most once in a turn: who knocks without end must not keep this rank here.
            for _ in 0..MOST_GUESTS {
                if self.guests.count() >= MOST_GUESTS {
                    self.guests.show_out_oldest();
                }
                if !(self.guests.let_in(listener.as_fd())).map_err(RankError::Setup)? {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Those that have said by now which rank they are.
    fn introduced(&mut self) -> Vec<(usize, OwnedFd)> {
        let mut known = Vec::new();
        let ranks = self.ground.book.len();
        // From the back, so that a place stays that place.
        for place in (0..self.guests.count()).rev() {
            let Some((socket, bytes)) = self.guests.hear(place) else {
                continue;
            };
            match RankHello::decode(&bytes) {
                Some(hello)
                    if hello.secret == self.ground.secret
                        && hello.to == self.own
                        && hello.from != self.own
                        && (hello.from as usize) < ranks =>
                {
                    known.push((hello.from as usize, socket));
                }
                Some(_) | None => self.strangers += 1,
            }
        }
        self.strangers += self.guests.shown_out() as u64;
        known
    }
}

impl World {
    /// Makes sure that there will be a link to a rank; whether there is one now.
    pub(super) fn reach(&mut self, rank: usize) -> Result<bool, RankError> {
        if matches!(self.peers[rank].link, Link::None) {
            // Somebody who has connected already need not be connected to.
            self.meet()?;
        }
        if matches!(self.peers[rank].link, Link::None) {
            let socket = self.meeting.propose(rank)?;
            self.peers[rank].link = Link::Proposed {
                socket,
                answered: 0,
            };
        }
        self.hear_answer(rank)?;
        Ok(self.peers[rank].is_linked())
    }

    /// Takes newcomers, and answers to what was proposed.
    pub(super) fn meet(&mut self) -> Result<(), RankError> {
        self.meeting.let_in()?;
        for (rank, socket) in self.meeting.introduced() {
            let mine_is_kept = match &self.peers[rank].link {
                Link::None | Link::Awaited { .. } => false,
                Link::Proposed { .. } => self.own < rank,
                Link::Standing(_) => true,
            };
            if mine_is_kept {
                continue; // Closed: the other one waits for this rank's link, or has it.
            }
            self.meeting.set_up(rank, &socket)?;
            match socket::send_bytes(socket.as_fd(), &TAKEN) {
                Ok(_) => self.peers[rank].link = Link::Standing(Stream::of(socket)),
                Err(source) => return Err(RankError::Gone { rank, source }),
            }
        }
        for rank in 0..self.peers.len() {
            self.hear_answer(rank)?;
        }
        Ok(())
    }

    fn hear_answer(&mut self, rank: usize) -> Result<(), RankError> {
        let limit_ns = self.meeting.arrival_ns();
        let link = &mut self.peers[rank].link;
        let (socket, answered) = match link {
            Link::Proposed { socket, answered } => (socket, answered),
            // It was connected before this rank's was closed, and needs only to say who it is.
            Link::Awaited { since_ns } if clock::monotonic_ns() - *since_ns > limit_ns => {
                return Err(RankError::Gone {
                    rank,
                    source: io::ErrorKind::ConnectionAborted.into(),
                });
            }
            Link::None | Link::Awaited { .. } | Link::Standing(_) => return Ok(()),
        };
        let mut answer = [0; TAKEN.len()];
        let rest = &mut answer[*answered..];
        match socket::receive_bytes(socket.as_fd(), rest) {
            Ok(got) if got > 0 && rest[..got] == TAKEN[*answered..*answered + got] => {
                *answered += got;
                if *answered == TAKEN.len()
                    && let Link::Proposed { socket, .. } = std::mem::take(link)
                {
                    *link = Link::Standing(Stream::of(socket));
                }
                Ok(())
            }
            Ok(got) if got > 0 => Err(RankError::Gone {
                rank,
                source: io::ErrorKind::InvalidData.into(),
            }),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
            // Closed without an answer: the lower rank has proposed, too, and its link is on its way.
            Ok(_) if self.own > rank => {
                *link = Link::Awaited {
                    since_ns: clock::monotonic_ns(),
                };
                Ok(())
            }
            Err(error) if self.own > rank && error.kind() == io::ErrorKind::ConnectionReset => {
                *link = Link::Awaited {
                    since_ns: clock::monotonic_ns(),
                };
                Ok(())
            }
            Ok(_) => Err(RankError::Gone {
                rank,
                source: io::ErrorKind::UnexpectedEof.into(),
            }),
            Err(source) => Err(RankError::Gone { rank, source }),
        }
    }

    /// Sleeps until something can move, or for a bounded time; whether something can. Links that nothing goes over now are looked at,
    /// too: what was sent on one of them may be what somebody else waits for, and only its own end learns that it is lost.
    pub(super) fn sleep(&self, ops: &[Op<'_>]) -> Result<bool, RankError> {
        let ground = &self.meeting.ground;
        let mut sockets: Vec<_> = ground
            .listeners
            .iter()
            .map(|listener| (listener.as_fd(), Wanted::Read))
            .collect();
        let guests = self.meeting.guests.sockets();
        sockets.extend(guests.map(|socket| (socket, Wanted::Read)));
        if let Some((common, place)) = &self.home {
            sockets.push((common.bell(*place), Wanted::Read));
        }
        let others = sockets.len();
        let peers = self.peers.iter().enumerate();
        let standing: Vec<(usize, BorrowedFd<'_>)> = peers
            .filter_map(|(rank, peer)| Some((rank, peer.socket()?.as_fd())))
            .collect();
        sockets.extend(standing.iter().map(|(_, fd)| (*fd, Wanted::Nothing)));
        for op in ops.iter().filter(|op| !op.done) {
            let wanted = match op.way {
                Way::Out(_) | Way::Ask(_) => Wanted::Write,
                Way::In(_) => Wanted::Read,
            };
            let ranks = match op.from {
                From::Rank(rank) => rank..rank + 1,
                From::Any => 0..self.peers.len(),
            };
            let of = |peer| socket_of(peer, wanted);
            sockets.extend(self.peers[ranks].iter().filter_map(of));
        }
        let asking = self.peers.iter().filter(|peer| peer.is_asking());
        sockets.extend(asking.filter_map(|peer| socket_of(peer, Wanted::Write)));
        let became = wait_for_any(&sockets, LONGEST_SLEEP).map_err(RankError::Setup)?;
        for ((rank, fd), became) in standing.iter().zip(&became[others..]) {
            if *became == Became::Failed
                && let Some(source) = socket::failure(*fd)
            {
                let rank = *rank;
                return Err(RankError::Gone { rank, source });
            }
        }
        Ok(became.iter().any(|became| *became != Became::Nothing))
    }
}

/// What a peer is waited for by.
fn socket_of(peer: &Peer, wanted: Wanted) -> Option<(BorrowedFd<'_>, Wanted)> {
    match &peer.link {
        Link::Standing(_) => Some((peer.socket()?.as_fd(), wanted)),
        Link::Proposed { socket, .. } => Some((socket.as_fd(), Wanted::Read)),
        Link::None | Link::Awaited { .. } => None,
    }
}

fn unix_options() -> SocketOptions {
    SocketOptions {
        send_buffer_bytes: Some(UNIX_BUFFER_BYTES),
        ..SocketOptions::default()
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
