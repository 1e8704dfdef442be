//! Links of a rank: it opens them on the first message, accepts them from other ranks, and sleeps on them.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use crate::sys::clock;
use crate::sys::socket;
use crate::sys::vectored::{Became, Wanted, wait_for_any};
use crate::wire::rank::TAKEN;

use super::error::RankError;
use super::op::{From, Op, Way};
use super::peer::{Link, Peer};
use super::stream::Stream;
use super::world::World;

/// Upper limit of one sleep: a lost wake-up costs this much, and nothing else.
const LONGEST_SLEEP: Duration = Duration::from_millis(50);

impl World {
    /// Ensures that there is a link to a rank, or will be.
    pub(super) fn reach(&mut self, rank: usize) -> Result<(), RankError> {
        if self.peers[rank].is_linked() {
            return Ok(());
        }
        if matches!(self.peers[rank].link, Link::None) {
            // A rank that has already connected needs no second connection.
            self.meet()?;
        }
        if matches!(self.peers[rank].link, Link::None) {
            let socket = self.rendezvous.propose(rank)?;
            self.peers[rank].link = Link::Proposed {
                socket,
                answered: 0,
            };
        }
        self.hear_answer(rank)
    }

    /// Accepts connections from other ranks, and reads the answers to this rank's proposals.
    pub(super) fn meet(&mut self) -> Result<(), RankError> {
        self.rendezvous.accept()?;
        for (rank, socket) in self.rendezvous.introduced() {
            let mine_is_kept = match &self.peers[rank].link {
                Link::None | Link::Awaited(_) => false,
                Link::Proposed { .. } => self.own < rank,
                Link::Standing(_) => true,
            };
            if mine_is_kept {
                continue; // Closed: the other rank waits for this rank's link, or has it.
            }
            self.rendezvous.set_up(rank, &socket)?;
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
        let link = &mut self.peers[rank].link;
        let (socket, answered) = match link {
            Link::Proposed { socket, answered } => (socket, answered),
            // The other rank connected before this rank's proposal was closed; only its hello is missing.
            Link::Awaited(since_ns)
                if clock::monotonic_ns() - *since_ns > self.rendezvous.arrival_ns() =>
            {
                return Err(RankError::gone(rank, io::ErrorKind::ConnectionAborted));
            }
            Link::None | Link::Awaited(_) | Link::Standing(_) => return Ok(()),
        };
        let mut answer = [0; TAKEN.len()];
        let rest = &mut answer[*answered..];
        let got = match socket::receive_bytes(socket.as_fd(), rest) {
            Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
            other => other,
        };
        match got {
            Ok(got) if rest[..got] == TAKEN[*answered..*answered + got] => {
                *answered += got;
                if *answered == TAKEN.len()
                    && let Link::Proposed { socket, .. } = std::mem::take(link)
                {
                    *link = Link::Standing(Stream::of(socket));
                }
                Ok(())
            }
            Ok(_) => Err(RankError::gone(rank, io::ErrorKind::InvalidData)),
            Err(error) => match error.kind() {
                io::ErrorKind::WouldBlock => Ok(()),
                // Closed without an answer: the lower rank has proposed too, and its connection is on its way.
                io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset
                    if self.own > rank =>
                {
                    *link = Link::Awaited(clock::monotonic_ns());
                    Ok(())
                }
                _ => Err(RankError::gone(rank, error)),
            },
        }
    }

    /// Sleeps until something can move, but no longer than `LONGEST_SLEEP`. Returns true if something can move. It also polls idle links
    /// for errors: another rank can wait for a message that was sent on one of them, and only the sender's end learns that it is lost.
    pub(super) fn sleep(&self, ops: &[Op<'_>]) -> Result<bool, RankError> {
        let listeners = self.rendezvous.config.listeners.iter().map(AsFd::as_fd);
        let callers = listeners.chain(self.rendezvous.pending.sockets());
        let mut sockets: Vec<_> = callers.map(|socket| (socket, Wanted::Read)).collect();
        if let Some((shared, place)) = &self.home {
            sockets.push((shared.bell(*place), Wanted::Read));
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
                return Err(RankError::gone(*rank, source));
            }
        }
        Ok(became.iter().any(|became| *became != Became::Nothing))
    }
}

/// Descriptor to poll for a peer, and the event to poll for.
fn socket_of(peer: &Peer, wanted: Wanted) -> Option<(BorrowedFd<'_>, Wanted)> {
    match &peer.link {
        Link::Standing(_) => Some((peer.socket()?.as_fd(), wanted)),
        Link::Proposed { socket, .. } => Some((socket.as_fd(), Wanted::Read)),
        Link::None | Link::Awaited(_) => None,
    }
}
