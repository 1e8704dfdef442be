//! All ranks of a job, as one of them sees them.

use std::sync::Arc;

use crate::link::Endpoint;
use crate::sys::arena::{Arena, Buffer};

use super::error::RankError;
use super::group::Group;
use super::peer::Peer;
use super::rendezvous::{Rendezvous, WorldConfig};
use super::shared_memory::SharedMemory;
use super::stream::Stream;
use super::wait_strategy::WaitStrategy;
use super::window::Window;

/// All ranks of a job, as one of them sees them.
pub(crate) struct World {
    pub(super) own: usize,
    pub(super) peers: Vec<Peer>,
    pub(super) rendezvous: Rendezvous,
    pub(super) waiting: WaitStrategy,
    /// Group of all ranks in their natural order.
    pub(super) whole: Group,
    /// Scratch memory of collectives.
    pub(super) scratch: Buffer,
    /// Memory shared with other ranks of this node, and this rank's place in it.
    pub(super) home: Option<(Arc<SharedMemory>, usize)>,
    /// Arena for this rank's buffers in that memory.
    pub(super) arena: Option<Arena>,
    /// True while this rank has announced that it sleeps.
    pub(super) asleep: bool,
    /// Memory that other ranks access.
    pub(super) window: Option<Window>,
    /// True once a failure has cut off a message: nothing that follows on its link would be understood.
    pub(super) broken: bool,
}

impl World {
    /// The ranks that `config` names, seen from rank `own`.
    pub(crate) fn new(
        own: usize,
        config: WorldConfig,
        waiting: WaitStrategy,
    ) -> Result<Self, RankError> {
        let size = config.book.len();
        let whole = Group::new((0..size).collect(), own).ok_or(RankError::Broken)?;
        let home = match (&config.shared, &config.book[own]) {
            (Some(shared), Endpoint::Memory(place)) => Some((Arc::clone(shared), *place)),
            _ => None,
        };
        let peer = |(rank, address): (usize, &Endpoint)| match (address, &home) {
            (Endpoint::Memory(other), Some((shared, place))) if rank != own => {
                Peer::over(Stream::within(shared, *place, *other))
            }
            _ => Peer::default(),
        };
        Ok(Self {
            own,
            whole,
            scratch: Buffer::default(),
            peers: config.book.iter().enumerate().map(peer).collect(),
            arena: home.as_ref().map(|(shared, place)| shared.arena(*place)),
            home,
            asleep: false,
            window: None,
            rendezvous: Rendezvous::new(own, config),
            waiting,
            broken: false,
        })
    }

    /// Number of this rank.
    pub(crate) fn rank(&self) -> usize {
        self.own
    }

    /// Number of ranks.
    pub(crate) fn size(&self) -> usize {
        self.peers.len()
    }

    /// A message buffer: in memory that ranks of this node can copy from, if such memory exists and has room. Its contents are arbitrary.
    pub(crate) fn buffer(&self, bytes: usize) -> Buffer {
        let shared = self.arena.as_ref().and_then(|arena| arena.take(bytes));
        shared.unwrap_or_else(|| Buffer::own(bytes))
    }

    /// Number of ranks that this one has a link to.
    #[cfg(test)]
    pub(crate) fn links(&self) -> usize {
        let standing = self.peers.iter().filter(|peer| peer.is_linked());
        standing.count()
    }

    /// Total time this rank spent waiting for links and other ranks, in nanoseconds.
    pub(crate) fn waited_ns(&self) -> u64 {
        self.waiting.waited_ns
    }

    /// Number of connections that were closed because they came from no rank of this job.
    pub(crate) fn strangers(&self) -> u64 {
        self.rendezvous.strangers
    }
}
