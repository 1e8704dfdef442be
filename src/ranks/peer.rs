//! The stream between this rank and another one: heads and payloads in both directions, in order.

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;

use crate::wire::rank::{HEAD_BYTES, MessageHead};

use super::exchange::{Op, Way};
use super::stream::Stream;
use super::window::{Inside, Use, Window};
use super::{From, RankError};

/// Another rank.
#[derive(Default)]
pub struct Peer {
    pub link: Link,
    sent: u32,
    inbox: Inbox,
    /// What it has asked for of this rank's window, and has not got.
    asked: VecDeque<Asked>,
    /// Whose message has gone in part.
    half_sent: Option<Sender>,
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
    Standing(Stream),
}

/// Who has the right to go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sender {
    /// An operation of this rank.
    Op,
    /// An answer to the other one.
    Answer,
}

/// A piece of the window that goes to the other rank.
struct Asked {
    from: usize,
    bytes: usize,
    /// Bytes of head and payload that have gone.
    at: usize,
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
    /// Memory of what is to be added.
    summand: Vec<u8>,
}

struct Coming {
    head: MessageHead,
    at: usize,
    goal: Goal,
    /// Memory of what goes neither into an operation nor into the window.
    kept: Vec<u8>,
}

/// Where a payload goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Goal {
    /// Into an operation.
    Op(usize),
    /// To the messages that nobody has asked for.
    Kept,
    /// Into the window, from this byte on.
    Window(usize),
    /// The same, but it is added to what stands there.
    Sum(usize),
}

/// Where bytes are that are lent: behind the head, instead of the payload.
const POINTER_BYTES: usize = 8;
/// Shorter messages go through the ring: to copy them twice costs less than to wait until the other rank has copied them.
const LENT_BYTES: usize = 4096;
/// Where messages go and come at the same time, so much goes before what has come is taken: while it is in the cache. With two messages of
/// 4 MiB that pass each other that is a sixth faster than to fill the socket first.
const TURN_BYTES: usize = 64 << 10;
/// Messages that nobody has asked for are kept up to this.
const UNASKED_BYTES: usize = 256 << 20;

impl Peer {
    /// One that a link stands to from the start.
    pub fn over(stream: Stream) -> Self {
        Self {
            link: Link::Standing(stream),
            ..Self::default()
        }
    }

    /// Whether messages can pass.
    pub fn is_linked(&self) -> bool {
        matches!(self.link, Link::Standing(_))
    }

    /// The socket of a link that stands; none if there is no link, or it is memory.
    pub fn socket(&self) -> Option<&OwnedFd> {
        match &self.link {
            Link::Standing(Stream::Socket { socket, .. }) => Some(socket),
            _ => None,
        }
    }

    /// Whether the other rank waits for pieces of the window.
    pub fn is_asking(&self) -> bool {
        !self.asked.is_empty()
    }

    /// Sends what the stream takes of a message to rank `rank`, or a piece of it where something comes at the same time; whether anything
    /// went.
    pub fn push(
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
            // Head and place are one packet, or none.
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

    /// Sends what was asked of the window; whether anything went.
    pub fn answer(&mut self, rank: usize, window: &Window) -> Result<bool, RankError> {
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
                bytes: asked.bytes as u64,
                lent: false,
                place: 0,
            };
            let bytes = window.part(asked.from, asked.bytes);
            let began = asked.at;
            asked.at = send_on(stream, &head, bytes, asked.at, false)
                .map_err(|source| RankError::Gone { rank, source })?;
            moved |= asked.at > began;
            if asked.at < HEAD_BYTES + asked.bytes {
                self.half_sent = (asked.at > 0).then_some(Sender::Answer);
                break;
            }
            self.sent = self.sent.wrapping_add(1);
            self.half_sent = None;
            self.asked.pop_front();
        }
        Ok(moved)
    }

    /// Takes what has come from rank `rank` to the operations it belongs to, or into the window; whether anything came. One call to the
    /// kernel brings a whole message, if it has arrived and is what `ops[wanted]` waits for.
    pub fn pull(
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
                // The likely case: the next message is the one that is waited for.
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
            // It may be what is waited for now, and comes before what stands behind it.
            if ops[wanted].done || kept && self.deliver_kept(rank, ops, wanted)? {
                return Ok(true);
            }
        }
    }

    /// A head is there, or a part of one. `scattered` bytes of payload stand already in the operation that is waited for, which was hoped to
    /// be the right one.
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
            // An older one of that kind comes first.
            None if inbox.unasked.iter().any(|(tag, _)| *tag == head.tag) => None,
            // The likely one, which waits for no other; else whoever it is for.
            None if ops[wanted].from == From::Rank(rank) && ops[wanted].takes(rank, head.tag) => {
                Some(wanted)
            }
            None => ops.iter().position(|op| op.takes(rank, head.tag)),
        };
        let mut at = 0;
        if let Some(bytes) = scattered {
            let hoped = wanted;
            let own = usize::try_from(head.bytes).map_or(bytes, |own| own.min(bytes));
            if taker == Some(hoped) && own == bytes && !head.lent {
                at = bytes;
            } else if let Way::In(there) = &ops[hoped].way {
                inbox.ahead.extend(&there[..bytes]);
            }
        }
        let goal = match of_window {
            None => taker.map_or(Goal::Kept, Goal::Op),
            Some(own) => {
                let inside = Inside::of(window, rank, &head)?;
                match own {
                    Use::Put => Goal::Window(inside.from),
                    Use::Add => Goal::Sum(inside.from),
                    Use::Get | Use::Answer => {
                        self.asked.push_back(Asked {
                            from: inside.from,
                            bytes: inside.bytes,
                            at: 0,
                        });
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
        // No more than the limits above, whatever the head says.
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

    /// Takes more of the payload that is coming; false if none is there.
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
            // It is in the packet of its head.
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

    /// Ends the message that is coming, if it is whole; whether it was kept because nobody had asked for it.
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
                false
            }
            Goal::Kept => {
                inbox.unasked_bytes += coming.kept.len();
                inbox.unasked.push_back((coming.head.tag, coming.kept));
                true
            }
            Goal::Window(_) => false,
            Goal::Sum(from) => {
                if let Some(window) = window {
                    window.add(from, &coming.kept);
                }
                inbox.summand = coming.kept;
                false
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
    /// The next byte is the first one of a head, and must come from the stream.
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

/// Sends what a stream takes of a message of which `at` bytes have gone; how many have then.
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
