//! Message passing between rank processes: what jobs of ranks are made of.
//!
//! Duty: links between ranks, made when the first message asks for one; messages with tags in both directions;
//! waiting that neither sleeps while processors are free nor steals them where they are not. It does not know what messages are for,
//! and tells nobody what it measured. Read next: [`World`] for what a rank may call, [`peer`] for the stream between two ranks,
//! [`meeting`] for how two of them find each other.

mod collectives;
mod common;
mod exchange;
mod group;
mod meeting;
mod patience;
mod peer;
mod ring;
mod stream;
mod window;
mod world;

use std::sync::Arc;

use thiserror::Error;

use crate::record::TroubleKind;
use crate::sys::arena::{Arena, Buffer};
use crate::sys::why;

pub use collectives::{ITEM_BYTES, Team, add_floats, ranges, split};
pub use common::Common;
pub use exchange::{Exchange, Request};
pub use group::Group;
pub use meeting::{Ground, RankAddress};
pub use patience::Patience;
pub use window::Access;

use exchange::{Op, Until};
use meeting::Meeting;
use peer::Peer;
use stream::Stream;
use window::Window;

/// From whom a message is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum From {
    /// This rank.
    Rank(usize),
    /// Whoever is first.
    Any,
}

/// What came in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Received {
    /// Who sent it.
    pub from: usize,
    /// How many bytes.
    pub bytes: usize,
}

/// Tags from here on are those of this module.
pub const OWN_TAGS: u32 = 0xffff_0000;

/// Why a message did not come or go.
#[derive(Debug, Error)]
pub enum RankError {
    /// It could not be connected.
    #[error("cannot connect to rank {rank} at {to}: {}", why(.source))]
    Connect {
        /// Who was meant.
        rank: usize,
        /// Where it should listen.
        to: String,
        /// Reason.
        source: std::io::Error,
    },
    /// Its end of the link was closed or reset.
    #[error("rank {rank} is gone: {}", why(.source))]
    Gone {
        /// Who it was.
        rank: usize,
        /// Reason.
        source: std::io::Error,
    },
    /// A message has begun and does not go on.
    #[error("no byte to or from rank {rank} for {}", crate::units::show_ns(*.silent_ns))]
    Silent {
        /// Who it is.
        rank: usize,
        /// How long nothing moved.
        silent_ns: u64,
    },
    /// More came than there is room for.
    #[error("rank {rank} sent {bytes} bytes where {room} were expected (tag {tag})")]
    TooLong {
        /// Who sent it.
        rank: usize,
        /// Bytes of the message.
        bytes: u64,
        /// Bytes there is room for.
        room: usize,
        /// Tag of the message.
        tag: u32,
    },
    /// What came is no message, or not the next one.
    #[error(
        "message {got} of rank {rank} came where {expected} was expected: the stream is broken"
    )]
    Sequence {
        /// Who sent it.
        rank: usize,
        /// Number that stands there.
        got: u32,
        /// Number that should.
        expected: u32,
    },
    /// Messages that nobody has asked for fill the memory.
    #[error("rank {rank} has sent more than {limit} bytes that nobody receives")]
    Unasked {
        /// Who sent them.
        rank: usize,
        /// The most that is kept.
        limit: usize,
    },
    /// It speaks of bytes that are not in the window.
    #[error("rank {rank}: {bytes} bytes from {from} on are not in the window of {room}")]
    Outside {
        /// Who it is.
        rank: usize,
        /// First byte.
        from: u64,
        /// How many.
        bytes: u64,
        /// Bytes of the window; 0 if there is none.
        room: usize,
    },
    /// A socket could not be set up.
    #[error("cannot set up a socket: {}", why(.0))]
    Setup(std::io::Error),
    /// An earlier failure has cut a message off.
    #[error("an earlier message was cut off")]
    Broken,
}

impl RankError {
    /// How this failure ranks among others.
    pub fn kind(&self) -> TroubleKind {
        match self {
            Self::Connect { .. } => TroubleKind::Connect,
            // A path that answers no more is a cause; a peer that closed had one of its own.
            Self::Gone { source, .. } if source.kind() == std::io::ErrorKind::TimedOut => {
                TroubleKind::Deadline
            }
            Self::Gone { .. } | Self::Broken => TroubleKind::Peer,
            Self::Silent { .. } => TroubleKind::Deadline,
            Self::TooLong { .. }
            | Self::Sequence { .. }
            | Self::Unasked { .. }
            | Self::Outside { .. } => TroubleKind::Invalid,
            Self::Setup(_) => TroubleKind::Resource,
        }
    }
}

/// All ranks, as one of them sees them.
pub struct World {
    own: usize,
    peers: Vec<Peer>,
    meeting: Meeting,
    patience: Patience,
    /// All ranks in their natural order.
    whole: Group,
    /// Memory of collectives.
    scratch: Buffer,
    /// Memory that ranks of this node have in common, this one's place in it, and where its buffers are.
    home: Option<(Arc<Common>, usize)>,
    arena: Option<Arena>,
    /// It has said that it sleeps.
    lying: bool,
    /// What others may reach into.
    window: Option<Window>,
    /// A failure has cut off a message: nothing that follows on its link would be understood.
    broken: bool,
}

impl World {
    /// The ranks that `ground` names, seen from rank `own`.
    pub fn new(own: usize, ground: Ground, patience: Patience) -> Result<Self, RankError> {
        let size = ground.book.len();
        let whole = Group::new((0..size).collect(), own).ok_or(RankError::Broken)?;
        let home = match (&ground.common, &ground.book[own]) {
            (Some(common), RankAddress::Memory(place)) => Some((Arc::clone(common), *place)),
            _ => None,
        };
        let peer = |(rank, address): (usize, &RankAddress)| match (address, &home) {
            (RankAddress::Memory(other), Some((common, place))) if rank != own => {
                Peer::over(Stream::within(common, *place, *other))
            }
            _ => Peer::default(),
        };
        Ok(Self {
            own,
            whole,
            scratch: Buffer::default(),
            peers: ground.book.iter().enumerate().map(peer).collect(),
            arena: home.as_ref().map(|(common, place)| common.arena(*place)),
            home,
            lying: false,
            window: None,
            meeting: Meeting::new(own, ground)?,
            patience,
            broken: false,
        })
    }

    /// Number of this rank.
    pub fn rank(&self) -> usize {
        self.own
    }

    /// Number of ranks.
    pub fn size(&self) -> usize {
        self.peers.len()
    }

    /// Sends a message and returns when its bytes are on their way.
    pub fn send(&mut self, to: usize, tag: u32, bytes: &[u8]) -> Result<(), RankError> {
        self.drive(&mut [Op::send(to, tag, bytes)], Until::All)
    }

    /// Receives a message of at most the length of `into`.
    pub fn receive(
        &mut self,
        from: From,
        tag: u32,
        into: &mut [u8],
    ) -> Result<Received, RankError> {
        let mut ops = [Op::receive(from, tag, into)];
        self.drive(&mut ops, Until::All)?;
        Ok(ops[0].received())
    }

    /// Sends to one rank and receives from another, or the same one, at the same time.
    pub fn send_and_receive(
        &mut self,
        (to, bytes): (usize, &[u8]),
        (from, into): (From, &mut [u8]),
        tag: u32,
    ) -> Result<Received, RankError> {
        let mut ops = [Op::receive(from, tag, into), Op::send(to, tag, bytes)];
        self.drive(&mut ops, Until::All)?;
        Ok(ops[0].received())
    }

    /// Messages that go and come at the same time, and are waited for one by one or all together.
    pub fn exchange<'world, 'bytes>(&'world mut self) -> Exchange<'world, 'bytes> {
        Exchange::new(self)
    }

    /// Memory for messages: where ranks of this node can copy from, if there is such memory and room in it. It holds whatever stood there.
    pub fn buffer(&self, bytes: usize) -> Buffer {
        let common = self.arena.as_ref().and_then(|arena| arena.take(bytes));
        common.unwrap_or_else(|| Buffer::own(bytes))
    }

    /// Ranks that this one has a link to.
    pub fn links(&self) -> usize {
        let standing = self.peers.iter().filter(|peer| peer.is_linked());
        standing.count()
    }

    /// How long this rank has waited for links and other ranks, in nanoseconds.
    pub fn waited_ns(&self) -> u64 {
        self.patience.waited_ns()
    }

    /// Connections that were closed because they were no ranks of this job.
    pub fn strangers(&self) -> u64 {
        self.meeting.strangers()
    }
}

#[cfg(test)]
pub(crate) mod tests;
