//! The stream between this rank and another one: heads and payloads in both directions, in order.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use crate::sys::socket::{receive_bytes, send_bytes};
use crate::sys::vectored::{receive_parts, send_parts};
use crate::wire::rank::{HEAD_BYTES, MessageHead};

use super::exchange::{Op, Way};
use super::{From, RankError};

/// Another rank.
#[derive(Default)]
pub struct Peer {
    pub link: Link,
    sent: u32,
    inbox: Inbox,
    /// Where short messages and their heads are put side by side.
    staging: Vec<u8>,
}

/// How far a link has come.
#[derive(Default)]
pub enum Link {
    /// Nobody has asked for it.
    #[default]
    None,
    /// This rank has proposed it, and has no answer.
    Proposed {
        socket: OwnedFd,
        /// Bytes of the answer that have come.
        answered: usize,
    },
    /// The other rank had proposed, too, and its proposal is kept.
    Awaited {
        since_ns: u64,
    },
    Standing(OwnedFd),
}

/// What comes in.
#[derive(Default)]
struct Inbox {
    head: [u8; HEAD_BYTES],
    have: usize,
    /// The message whose payload is coming, and how much of it has come.
    current: Option<Coming>,
    /// Bytes that were read before it was known whose they are.
    ahead: VecDeque<u8>,
    unasked: VecDeque<(u32, Vec<u8>)>,
    unasked_bytes: usize,
    received: u32,
}

struct Coming {
    head: MessageHead,
    at: usize,
    /// Where it goes: an operation, or the messages nobody has asked for.
    into: Option<usize>,
    kept: Vec<u8>,
}

/// TCP moves most in pieces of this size; larger ones leave the cache before they are copied out.
const PIECE_BYTES: usize = 256 << 10;
/// Messages up to this length go and come with their head in one piece: to copy them costs less than to have the kernel put two pieces
/// together, a twentieth of a short message's time.
const STAGED_BYTES: usize = 1024;
/// Messages that nobody has asked for are kept up to this.
const UNASKED_BYTES: usize = 256 << 20;

impl Peer {
    /// The socket, once the link stands.
    pub fn socket(&self) -> Option<&OwnedFd> {
        match &self.link {
            Link::Standing(socket) => Some(socket),
            Link::None | Link::Proposed { .. } | Link::Awaited { .. } => None,
        }
    }

    /// Sends what the socket takes of a message to rank `rank`; whether anything went.
    pub fn push(&mut self, rank: usize, op: &mut Op<'_>) -> Result<bool, RankError> {
        let Link::Standing(socket) = &self.link else {
            return Ok(false);
        };
        let Way::Out(bytes) = &op.way else {
            return Ok(false);
        };
        let socket = socket.as_fd();
        let mut moved = false;
        loop {
            let result = if op.at < HEAD_BYTES {
                let head = MessageHead {
                    tag: op.tag,
                    sequence: self.sent,
                    bytes: bytes.len() as u64,
                };
                if op.at == 0 && bytes.len() <= STAGED_BYTES {
                    self.staging.clear();
                    self.staging.extend_from_slice(&head.encode());
                    self.staging.extend_from_slice(bytes);
                    match send_bytes(socket, &self.staging) {
                        Ok(went) if went == self.staging.len() => {
                            self.sent = self.sent.wrapping_add(1);
                            op.done = true;
                            return Ok(true);
                        }
                        Ok(went) => op.at = went,
                        Err(error) if is_wait(&error) => return Ok(moved),
                        Err(source) => return Err(RankError::Gone { rank, source }),
                    }
                    moved = true;
                    continue;
                }
                let piece = &bytes[..bytes.len().min(PIECE_BYTES)];
                send_parts(socket, &head.encode()[op.at..], piece)
            } else {
                let from = op.at - HEAD_BYTES;
                let piece = &bytes[from..bytes.len().min(from + PIECE_BYTES)];
                send_bytes(socket, piece)
            };
            match result {
                Ok(went) => {
                    op.at += went;
                    moved = true;
                    if op.at == HEAD_BYTES + bytes.len() {
                        self.sent = self.sent.wrapping_add(1);
                        op.done = true;
                        return Ok(true);
                    }
                }
                Err(error) if is_wait(&error) => return Ok(moved),
                Err(source) => return Err(RankError::Gone { rank, source }),
            }
        }
    }

    /// Takes what has come from rank `rank` to the operations it belongs to; whether anything came. One call to the kernel
    /// brings a whole message, if it has arrived and is what `ops[wanted]` waits for.
    pub fn pull(
        &mut self,
        rank: usize,
        ops: &mut [Op<'_>],
        wanted: usize,
    ) -> Result<bool, RankError> {
        if self.deliver_kept(rank, ops, wanted)? {
            return Ok(true);
        }
        let mut moved = false;
        loop {
            let Link::Standing(socket) = &self.link else {
                return Ok(moved);
            };
            if self.inbox.is_fresh() && ops[wanted].at == 0 && !ops[wanted].done {
                // The likely case: the next message is the one that is waited for.
                let Way::In(into) = &mut ops[wanted].way else {
                    return Ok(moved);
                };
                let got = if into.len() <= STAGED_BYTES {
                    receive_staged(
                        socket.as_fd(),
                        &mut self.staging,
                        &mut self.inbox.head,
                        into,
                    )
                } else {
                    receive_parts(socket.as_fd(), &mut self.inbox.head, into)
                };
                match came(rank, got)? {
                    None => return Ok(moved),
                    Some(got) => {
                        self.inbox.have = got.min(HEAD_BYTES);
                        let payload = got - self.inbox.have;
                        self.begin(rank, ops, Some((wanted, payload)))?;
                    }
                }
            } else if self.inbox.current.is_none() {
                let inbox = &mut self.inbox;
                let rest = &mut inbox.head[inbox.have..];
                let got = match take_ahead(&mut inbox.ahead, rest) {
                    0 => came(rank, receive_bytes(socket.as_fd(), rest))?,
                    got => Some(got),
                };
                match got {
                    None => return Ok(moved),
                    Some(got) => inbox.have += got,
                }
                self.begin(rank, ops, None)?;
            } else if !self.go_on(rank, ops)? {
                return Ok(moved);
            }
            moved = true;
            let kept = self.finish(ops);
            // It may be what is waited for now, and comes before what stands behind it.
            if ops[wanted].done || kept && self.deliver_kept(rank, ops, wanted)? {
                return Ok(true);
            }
        }
    }

    /// A head is there, or a part of one. `scattered` bytes of payload stand already in the operation that was hoped to be the right
    /// one.
    fn begin(
        &mut self,
        rank: usize,
        ops: &mut [Op<'_>],
        scattered: Option<(usize, usize)>,
    ) -> Result<(), RankError> {
        let inbox = &mut self.inbox;
        if inbox.have < HEAD_BYTES {
            return Ok(());
        }
        let head = MessageHead::decode(&inbox.head);
        if head.sequence != inbox.received {
            return Err(RankError::Sequence {
                rank,
                got: head.sequence,
                expected: inbox.received,
            });
        }
        inbox.received = inbox.received.wrapping_add(1);
        let mut at = 0;
        let into = ops.iter().position(|op| op.takes(rank, head.tag));
        if let Some((hoped, bytes)) = scattered {
            let own = usize::try_from(head.bytes).map_or(bytes, |own| own.min(bytes));
            if into == Some(hoped) && own == bytes {
                at = bytes;
            } else if let Way::In(there) = &ops[hoped].way {
                inbox.ahead.extend(&there[..bytes]);
            }
        }
        let room = match into {
            Some(index) => {
                let op = &mut ops[index];
                op.started = true;
                op.received_from = rank;
                op.room()
            }
            None => UNASKED_BYTES.saturating_sub(inbox.unasked_bytes),
        };
        if head.bytes > room as u64 {
            return Err(match into {
                Some(_) => RankError::TooLong {
                    rank,
                    bytes: head.bytes,
                    room,
                    tag: head.tag,
                },
                None => RankError::Unasked {
                    rank,
                    limit: UNASKED_BYTES,
                },
            });
        }
        let kept = match into {
            Some(index) => {
                ops[index].at = at;
                Vec::new()
            }
            // No more than the limit above, whatever the head says.
            None => vec![0; usize::try_from(head.bytes).unwrap_or(0)],
        };
        inbox.current = Some(Coming {
            head,
            at,
            into,
            kept,
        });
        Ok(())
    }

    /// Takes more of the payload that is coming; false if none is there.
    fn go_on(&mut self, rank: usize, ops: &mut [Op<'_>]) -> Result<bool, RankError> {
        let (Link::Standing(socket), Some(coming)) = (&self.link, &mut self.inbox.current) else {
            return Ok(false);
        };
        let bytes = usize::try_from(coming.head.bytes).unwrap_or(usize::MAX);
        let target: &mut [u8] = match coming.into.map(|index| &mut ops[index].way) {
            Some(Way::In(into)) => &mut into[coming.at..bytes],
            Some(Way::Out(_)) | None => &mut coming.kept[coming.at..bytes],
        };
        if target.is_empty() {
            return Ok(true);
        }
        let got = match take_ahead(&mut self.inbox.ahead, target) {
            0 => came(rank, receive_bytes(socket.as_fd(), target))?,
            got => Some(got),
        };
        coming.at += got.unwrap_or(0);
        if let Some(index) = coming.into {
            ops[index].at = coming.at;
        }
        Ok(got.is_some())
    }

    /// Ends the message that is coming, if it is whole; whether it was kept because nobody had asked for it.
    fn finish(&mut self, ops: &mut [Op<'_>]) -> bool {
        let inbox = &mut self.inbox;
        let is_whole = |coming: &mut Coming| coming.at as u64 == coming.head.bytes;
        let Some(coming) = inbox.current.take_if(is_whole) else {
            return false;
        };
        inbox.have = 0;
        match coming.into {
            Some(index) => {
                ops[index].at = coming.at;
                ops[index].done = true;
                false
            }
            None => {
                inbox.unasked_bytes += coming.kept.len();
                inbox.unasked.push_back((coming.head.tag, coming.kept));
                true
            }
        }
    }

    /// Gives an operation a message that had come before it was asked for.
    fn deliver_kept(
        &mut self,
        rank: usize,
        ops: &mut [Op<'_>],
        wanted: usize,
    ) -> Result<bool, RankError> {
        let op = &mut ops[wanted];
        if self.inbox.unasked.is_empty() || op.started {
            return Ok(false);
        }
        let mut all = self.inbox.unasked.iter();
        let Some(place) = all.position(|(tag, _)| *tag == op.tag) else {
            return Ok(false);
        };
        let Some((tag, kept)) = self.inbox.unasked.remove(place) else {
            return Ok(false);
        };
        self.inbox.unasked_bytes -= kept.len();
        let room = op.room();
        let (Way::In(into), true) = (&mut op.way, kept.len() <= room) else {
            return Err(RankError::TooLong {
                rank,
                bytes: kept.len() as u64,
                room,
                tag,
            });
        };
        into[..kept.len()].copy_from_slice(&kept);
        op.at = kept.len();
        op.received_from = rank;
        op.done = true;
        Ok(true)
    }
}

impl Inbox {
    /// The next byte is the first one of a head, and must come from the socket.
    fn is_fresh(&self) -> bool {
        self.have == 0 && self.current.is_none() && self.ahead.is_empty()
    }
}

impl Op<'_> {
    /// Whether a message of that rank and tag is for this operation.
    fn takes(&self, rank: usize, tag: u32) -> bool {
        let from = self.from == From::Any || self.from == From::Rank(rank);
        matches!(self.way, Way::In(_)) && !self.done && !self.started && from && self.tag == tag
    }
}

/// As [`receive_parts`], by way of a buffer in which both parts stand side by side.
fn receive_staged(
    socket: BorrowedFd<'_>,
    staging: &mut Vec<u8>,
    head: &mut [u8; HEAD_BYTES],
    into: &mut [u8],
) -> io::Result<usize> {
    let room = HEAD_BYTES + into.len();
    if staging.len() < room {
        staging.resize(HEAD_BYTES + STAGED_BYTES, 0);
    }
    let got = receive_bytes(socket, &mut staging[..room])?;
    let of_head = got.min(HEAD_BYTES);
    head[..of_head].copy_from_slice(&staging[..of_head]);
    into[..got - of_head].copy_from_slice(&staging[of_head..got]);
    Ok(got)
}

fn take_ahead(ahead: &mut VecDeque<u8>, into: &mut [u8]) -> usize {
    let count = into.len().min(ahead.len());
    for (target, byte) in into.iter_mut().zip(ahead.drain(..count)) {
        *target = byte;
    }
    count
}

fn is_wait(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
    )
}

/// Bytes that came; none if there are none yet.
fn came(rank: usize, result: io::Result<usize>) -> Result<Option<usize>, RankError> {
    match result {
        Ok(0) => Err(RankError::Gone {
            rank,
            source: io::ErrorKind::UnexpectedEof.into(),
        }),
        Ok(got) => Ok(Some(got)),
        Err(error) if is_wait(&error) => Ok(None),
        Err(source) => Err(RankError::Gone { rank, source }),
    }
}
