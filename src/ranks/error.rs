//! Errors of messages between ranks.

use thiserror::Error;

use crate::record::TroubleKind;
use crate::sys::why;

/// Reason why a message could not be sent or received.
#[derive(Debug, Error)]
pub(crate) enum RankError {
    /// The connection to a rank failed.
    #[error("cannot connect to rank {rank} at {to}: {}", why(.source))]
    Connect {
        /// Rank to connect to.
        rank: usize,
        /// Address where that rank should listen.
        to: String,
        /// Reason.
        source: std::io::Error,
    },
    /// The rank's end of the link was closed or reset.
    #[error("rank {rank} is gone: {}", why(.source))]
    Gone {
        /// Rank at the other end.
        rank: usize,
        /// Reason.
        source: std::io::Error,
    },
    /// A message has begun and makes no progress.
    #[error("no byte to or from rank {rank} for {}", crate::units::show_ns(*.silent_ns))]
    Silent {
        /// Rank at the other end.
        rank: usize,
        /// Time without progress, in nanoseconds.
        silent_ns: u64,
    },
    /// A message is longer than the buffer for it.
    #[error("rank {rank} sent {bytes} bytes where {room} were expected (tag {tag})")]
    TooLong {
        /// Rank of the sender.
        rank: usize,
        /// Bytes of the message.
        bytes: u64,
        /// Bytes of the buffer.
        room: usize,
        /// Tag of the message.
        tag: u32,
    },
    /// The received bytes are no message, or not the next one.
    #[error(
        "message {got} of rank {rank} came where {expected} was expected: the stream is broken"
    )]
    Sequence {
        /// Rank of the sender.
        rank: usize,
        /// Sequence number that arrived.
        got: u32,
        /// Sequence number that should have arrived.
        expected: u32,
    },
    /// Messages without a matching receive fill the memory.
    #[error("rank {rank} sent more than {limit} bytes that this rank does not receive")]
    Unasked {
        /// Rank of the sender.
        rank: usize,
        /// Maximum of kept bytes.
        limit: usize,
    },
    /// A message refers to bytes outside of the window.
    #[error("rank {rank}: {bytes} bytes from {from} on are not in the window of {room}")]
    Outside {
        /// Rank of the sender, or of the window's owner.
        rank: usize,
        /// Offset of the first byte in the window.
        from: u64,
        /// Number of bytes.
        bytes: u64,
        /// Bytes of the window; 0 if there is no window.
        room: usize,
    },
    /// A socket could not be set up.
    #[error("cannot set up a socket: {}", why(.0))]
    Setup(std::io::Error),
    /// An earlier failure has cut off a message.
    #[error("an earlier message was cut off")]
    Broken,
}

impl RankError {
    /// The error of a link to a rank that has ended in this way.
    pub(super) fn gone(rank: usize, source: impl Into<std::io::Error>) -> Self {
        let source = source.into();
        Self::Gone { rank, source }
    }

    /// Kind of this failure, which ranks it among others.
    pub(crate) fn kind(&self) -> TroubleKind {
        match self {
            Self::Connect { .. } => TroubleKind::Connect,
            // A path that no longer answers is a cause. A closed connection follows from an earlier failure of the peer.
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
