//! The stream between this rank and another one: heads and payloads in both directions, in order.

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;

use crate::wire::rank::{HEAD_BYTES, MessageHead};

use super::error::RankError;
use super::op::{From, Op, Way};
use super::stream::Stream;
use super::window::{Inside, Use, Window};

/// Another rank, and the link to it.
#[derive(Default)]
pub(super) struct Peer {
    pub link: Link,
    sent: u32,
    inbox: Inbox,
    /// Parts of this rank's window that the peer has requested and not received.
    asked: VecDeque<Asked>,
    /// Sender whose message has gone in part.
    half_sent: Option<Sender>,
}

/// State of a link.
#[derive(Default)]
pub(super) enum Link {
    /// No message has needed it.
    #[default]
    None,
    /// This rank has proposed it, and has no answer.
    Proposed {
        socket: OwnedFd,
        /// Bytes of the answer that have arrived.
        answered: usize,
    },
    /// The other rank has proposed too, and its proposal is kept: awaited since this time, in nanoseconds.
    Awaited(u64),
    Standing(Stream),
}

/// Sender of a message that has gone in part; only it may continue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sender {
    /// An operation of this rank.
    Op,
    /// An answer to a request of the other rank.
    Answer,
}

/// A part of the window that goes to the other rank.
struct Asked {
    part: Inside,
    /// Bytes of head and payload that have gone.
    at: usize,
}

/// State of the receiving side.
#[derive(Default)]
struct Inbox {
    head: [u8; HEAD_BYTES],
    have: usize,
    /// The message whose payload is arriving, and its progress.
    current: Option<Coming>,
    /// Bytes that were read before their destination was known.
    ahead: VecDeque<u8>,
    unasked: VecDeque<(u32, Vec<u8>)>,
    unasked_bytes: usize,
    received: u32,
    /// Memory for floats that are to be added.
    summand: Vec<u8>,
}

struct Coming {
    head: MessageHead,
    at: usize,
    goal: Goal,
    /// Memory for a payload that goes neither into an operation nor into the window.
    kept: Vec<u8>,
}

/// Destination of a payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Goal {
    /// The operation with this index.
    Op(usize),
    /// The kept messages, which have no matching receive yet.
    Kept,
    /// The window, from this byte on.
    Window(usize),
    /// The window, from this byte on; the payload is added to its contents.
    Sum(usize),
}

/// Bytes of the pointer to a lent payload. It follows the head, instead of the payload.
const POINTER_BYTES: usize = 8;
/// Shorter messages go through the ring: copying them twice costs less than waiting until the other rank has copied them.
const LENT_BYTES: usize = 4096;
/// Bytes to send before received data is taken, if messages go in both directions: received data is still in the cache then. With two
/// opposite messages of 4 MiB this is a sixth faster than filling the socket first.
const TURN_BYTES: usize = 64 << 10;
/// Maximum bytes of kept messages that have no matching receive.
const UNASKED_BYTES: usize = 256 << 20;

impl Peer {
    /// A peer whose link stands from the start.
    pub(super) fn over(stream: Stream) -> Self {
        Self {
            link: Link::Standing(stream),
            ..Self::default()
        }
    }

    /// True if messages can pass.
    pub(super) fn is_linked(&self) -> bool {
        matches!(self.link, Link::Standing(_))
    }

    /// Socket of a standing link. `None` if there is no link, or if it uses shared memory.
    pub(super) fn socket(&self) -> Option<&OwnedFd> {
        match &self.link {
            Link::Standing(Stream::Socket { socket, .. }) => Some(socket),
            _ => None,
        }
    }

    /// True if the other rank waits for parts of the window.
    pub(super) fn is_asking(&self) -> bool {
        !self.asked.is_empty()
    }

    /// Sends as much of a message to rank `rank` as the stream takes. With `in_turns` (messages arrive at the same time) it sends only a
    /// piece. Returns true if any bytes went.
    pub(super) fn push(
        &mut self,
        rank: usize,
        op: &mut Op<'_>,
        in_turns: bool,
    ) -> Result<bool, RankError> {
        let Link::Standing(stream) = &mut self.link else {
            return Ok(false);
        };
        if let Some(number) = op.lent {
            op.done = matches!(stream, Stream::Memory(rings) if rings.out.is_copied(number));
            return Ok(op.done);
        }
        if self.half_sent == Some(Sender::Answer) {
            return Ok(false);
        }
        let (bytes, length) = match &op.way {
            Way::Out(bytes) => (*bytes, bytes.len()),
            Way::Ask(length) => (&[][..], *length),
            Way::In(_) => return Ok(false),
        };
        let mut head = MessageHead {
            tag: op.tag,
            sequence: self.sent,
            bytes: length as u64,
            lent: false,
            place: op.place as u64,
        };
        if let (Stream::Memory(rings), true) = (&mut *stream, bytes.len() > LENT_BYTES)
            && let Some(place) = rings.out.lendable(bytes)
        {
            head.lent = true;
            // Head and pointer go as one packet, or not at all.
            let pointer = (place as u64).to_le_bytes();
            if rings.out.send(&head.encode(), &pointer) == 0 {
                return Ok(false);
            }
            self.sent = self.sent.wrapping_add(1);
            op.at = HEAD_BYTES + POINTER_BYTES;
            op.lent = Some(rings.out.lend());
            return Ok(true);
        }
        let began = op.at;
        op.at = send_on(stream, &head, bytes, op.at, in_turns)
            .map_err(|source| RankError::Gone { rank, source })?;
        op.done = op.at == HEAD_BYTES + bytes.len();
        if op.done {
            self.sent = self.sent.wrapping_add(1);
        }
        self.half_sent = (!op.done && op.at > 0).then_some(Sender::Op);
        Ok(op.at > began)
    }

    /// Sends requested parts of the window. Returns true if any bytes went.
    pub(super) fn answer(&mut self, rank: usize, window: &Window) -> Result<bool, RankError> {
        let Link::Standing(stream) = &mut self.link else {
            return Ok(false);
        };
        if self.half_sent == Some(Sender::Op) {
            return Ok(false);
        }
        let mut moved = false;
        while let Some(asked) = self.asked.front_mut() {
            let head = MessageHead {
                tag: Use::Answer.tag(),
                sequence: self.sent,
                bytes: asked.part.bytes as u64,
                lent: false,
                place: 0,
            };
            let bytes = window.part(asked.part.from, asked.part.bytes);
            let began = asked.at;
            asked.at = send_on(stream, &head, bytes, asked.at, false)
                .map_err(|source| RankError::Gone { rank, source })?;
            moved |= asked.at > began;
            if asked.at < HEAD_BYTES + bytes.len() {
                self.half_sent = (asked.at > 0).then_some(Sender::Answer);
                break;
            }
            self.sent = self.sent.wrapping_add(1);
            self.half_sent = None;
            self.asked.pop_front();
        }
        Ok(moved)
    }

    /// Moves received data of rank `rank` to the matching operations, or into the window. Returns true if anything arrived. One system call
    /// receives a whole message, if it has arrived and `ops[wanted]` waits for it.
    pub(super) fn pull(
        &mut self,
        rank: usize,
        ops: &mut [Op<'_>],
        wanted: usize,
        window: &mut Option<Window>,
    ) -> Result<bool, RankError> {
        if self.deliver_kept(rank, ops, wanted)? {
            return Ok(true);
        }
        let mut moved = false;
        loop {
            let Link::Standing(stream) = &mut self.link else {
                return Ok(moved);
            };
            if self.inbox.is_fresh() && ops[wanted].at == 0 && !ops[wanted].done {
                // The likely case: the next message is the one for `ops[wanted]`.
                let Way::In(into) = &mut ops[wanted].way else {
                    return Ok(moved);
                };
                let got = stream.receive(&mut self.inbox.head, into);
                match came(rank, got)? {
                    None => return Ok(moved),
                    Some(got) => {
                        self.inbox.have = got.min(HEAD_BYTES);
                        let payload = got - self.inbox.have;
                        self.begin(rank, ops, (wanted, Some(payload)), window.as_ref())?;
                    }
                }
            } else if self.inbox.current.is_none() {
                let inbox = &mut self.inbox;
                let rest = &mut inbox.head[inbox.have..];
                let got = match take_ahead(&mut inbox.ahead, rest) {
                    0 => came(rank, stream.receive_bytes(rest))?,
                    got => Some(got),
                };
                match got {
                    None => return Ok(moved),
                    Some(got) => inbox.have += got,
                }
                self.begin(rank, ops, (wanted, None), window.as_ref())?;
            } else if !self.go_on(rank, ops, window)? {
                return Ok(moved);
            }
            moved = true;
            let kept = self.finish(ops, window);
            // The wanted operation can take the kept message now, which comes before later ones of the stream.
            if ops[wanted].done || kept && self.deliver_kept(rank, ops, wanted)? {
                return Ok(true);
            }
        }
    }

    /// Handles a head, if it is complete. `scattered` bytes of payload are already in `ops[wanted]`, on the guess that this operation is
    /// the right one.
    fn begin(
        &mut self,
        rank: usize,
        ops: &mut [Op<'_>],
        (wanted, scattered): (usize, Option<usize>),
        window: Option<&Window>,
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
        let of_window = Use::of(head.tag).filter(|own| *own != Use::Answer);
        let taker = match of_window {
            Some(_) => None,
            // An older kept message of the same tag comes first.
            None if inbox.unasked.iter().any(|(tag, _)| *tag == head.tag) => None,
            // The likely operation, which waits for no other one; otherwise the first one that matches.
            None if ops[wanted].from == From::Rank(rank) && ops[wanted].takes(rank, head.tag) => {
                Some(wanted)
            }
            None => ops.iter().position(|op| op.takes(rank, head.tag)),
        };
        let mut at = 0;
        if let Some(bytes) = scattered {
            if taker == Some(wanted) && head.bytes >= bytes as u64 && !head.lent {
                at = bytes;
            } else if let Way::In(there) = &ops[wanted].way {
                inbox.ahead.extend(&there[..bytes]);
            }
        }
        let goal = match of_window {
            None => taker.map_or(Goal::Kept, Goal::Op),
            Some(own) => {
                let part = Inside::of(window, rank, &head)?;
                match own {
                    Use::Put => Goal::Window(part.from),
                    Use::Add => Goal::Sum(part.from),
                    Use::Get | Use::Answer => {
                        self.asked.push_back(Asked { part, at: 0 });
                        inbox.have = 0;
                        return Ok(());
                    }
                }
            }
        };
        let room = match goal {
            Goal::Op(index) => {
                let op = &mut ops[index];
                op.started = true;
                op.received_from = rank;
                op.at = at;
                op.room()
            }
            Goal::Kept => UNASKED_BYTES.saturating_sub(inbox.unasked_bytes),
            Goal::Window(_) | Goal::Sum(_) => usize::MAX,
        };
        if head.bytes > room as u64 {
            return Err(match goal {
                Goal::Kept => RankError::Unasked {
                    rank,
                    limit: UNASKED_BYTES,
                },
                _ => RankError::TooLong {
                    rank,
                    bytes: head.bytes,
                    room,
                    tag: head.tag,
                },
            });
        }
        // The limits above hold, independent of the head.
        let bytes = usize::try_from(head.bytes).unwrap_or(0);
        let kept = match goal {
            Goal::Op(_) | Goal::Window(_) => Vec::new(),
            Goal::Kept => vec![0; bytes],
            Goal::Sum(_) => {
                let mut summand = std::mem::take(&mut inbox.summand);
                summand.resize(bytes, 0);
                summand
            }
        };
        inbox.current = Some(Coming {
            head,
            at,
            goal,
            kept,
        });
        Ok(())
    }

    /// Takes more of the arriving payload. Returns false if nothing has arrived.
    fn go_on(
        &mut self,
        rank: usize,
        ops: &mut [Op<'_>],
        window: &mut Option<Window>,
    ) -> Result<bool, RankError> {
        let (Link::Standing(stream), Some(coming)) = (&mut self.link, &mut self.inbox.current)
        else {
            return Ok(false);
        };
        let bytes = usize::try_from(coming.head.bytes).unwrap_or(usize::MAX);
        let target: &mut [u8] = match (coming.goal, window) {
            (Goal::Op(index), _) => match &mut ops[index].way {
                Way::In(into) => &mut into[coming.at..bytes],
                Way::Out(_) | Way::Ask(_) => return Err(RankError::Broken),
            },
            (Goal::Window(from), Some(window)) => {
                window.part_mut(from + coming.at, bytes - coming.at)
            }
            (Goal::Window(_), None) => return Err(RankError::Broken),
            (Goal::Kept | Goal::Sum(_), _) => &mut coming.kept[coming.at..bytes],
        };
        if coming.head.lent {
            let mut pointer = [0; POINTER_BYTES];
            let ahead = take_ahead(&mut self.inbox.ahead, &mut pointer);
            let Stream::Memory(rings) = stream else {
                return Err(RankError::Broken);
            };
            // The pointer is in the packet of its head.
            if ahead + rings.into.receive(&mut pointer[ahead..], &mut []) < POINTER_BYTES {
                return Err(RankError::Broken);
            }
            let from = usize::try_from(u64::from_le_bytes(pointer)).unwrap_or(usize::MAX);
            if !rings.into.copy(from, target) {
                return Err(RankError::Broken);
            }
            coming.at = bytes;
            if let Goal::Op(index) = coming.goal {
                ops[index].at = bytes;
            }
            return Ok(true);
        }
        if target.is_empty() {
            return Ok(true);
        }
        let got = match take_ahead(&mut self.inbox.ahead, target) {
            0 => came(rank, stream.receive_bytes(target))?,
            got => Some(got),
        };
        coming.at += got.unwrap_or(0);
        if let Goal::Op(index) = coming.goal {
            ops[index].at = coming.at;
        }
        Ok(got.is_some())
    }

    /// Ends the arriving message, if it is complete. Returns true if it was kept because no receive matches.
    fn finish(&mut self, ops: &mut [Op<'_>], window: &mut Option<Window>) -> bool {
        let inbox = &mut self.inbox;
        let is_whole = |coming: &mut Coming| coming.at as u64 == coming.head.bytes;
        let Some(coming) = inbox.current.take_if(is_whole) else {
            return false;
        };
        inbox.have = 0;
        match coming.goal {
            Goal::Op(index) => {
                ops[index].at = coming.at;
                ops[index].done = true;
            }
            Goal::Kept => {
                inbox.unasked_bytes += coming.kept.len();
                inbox.unasked.push_back((coming.head.tag, coming.kept));
            }
            Goal::Window(_) => {}
            Goal::Sum(from) => {
                if let Some(window) = window {
                    window.add(from, &coming.kept);
                }
                inbox.summand = coming.kept;
            }
        }
        coming.goal == Goal::Kept
    }

    /// Gives an operation a message that arrived before its receive began. Returns true if there was one.
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
        let place = all.position(|(tag, _)| *tag == op.tag);
        let Some((tag, kept)) = place.and_then(|place| self.inbox.unasked.remove(place)) else {
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
    /// True if the next byte is the first one of a head and must come from the stream.
    fn is_fresh(&self) -> bool {
        self.have == 0 && self.current.is_none() && self.ahead.is_empty()
    }
}

impl Op<'_> {
    /// True if a message of this rank and tag is for this operation.
    fn takes(&self, rank: usize, tag: u32) -> bool {
        let from = self.from == From::Any || self.from == From::Rank(rank);
        matches!(self.way, Way::In(_)) && !self.done && !self.started && from && self.tag == tag
    }
}

/// Sends as much as the stream takes of a message of which `at` bytes have gone. Returns the bytes that have gone then.
fn send_on(
    stream: &mut Stream,
    head: &MessageHead,
    bytes: &[u8],
    mut at: usize,
    in_turns: bool,
) -> io::Result<usize> {
    let head = head.encode();
    while at < HEAD_BYTES + bytes.len() {
        match stream.send(&head, bytes, at) {
            Ok(went) => {
                at += went;
                if in_turns && went >= TURN_BYTES {
                    break;
                }
            }
            Err(error) if is_wait(&error) => break,
            Err(error) => return Err(error),
        }
    }
    Ok(at)
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

/// Number of bytes that arrived; `None` if there are none yet.
fn came(rank: usize, result: io::Result<usize>) -> Result<Option<usize>, RankError> {
    match result {
        Ok(0) => Err(RankError::gone(rank, io::ErrorKind::UnexpectedEof)),
        Ok(got) => Ok(Some(got)),
        Err(error) if is_wait(&error) => Ok(None),
        Err(source) => Err(RankError::Gone { rank, source }),
    }
}
