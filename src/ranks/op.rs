//! A message to send or receive, and its progress.

use std::collections::HashMap;

/// Source of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum From {
    /// The rank with this number.
    Rank(usize),
    /// Any rank: the first message counts.
    Any,
}

/// Result of a receive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Received {
    /// Rank of the sender.
    pub from: usize,
    /// Bytes of the payload.
    pub bytes: usize,
}

/// Tags from here on are reserved for the `ranks` module.
pub(crate) const OWN_TAGS: u32 = 0xffff_0000;

/// A message to send or receive.
pub(super) struct Op<'bytes> {
    pub way: Way<'bytes>,
    /// Rank it goes to, or ranks it can come from.
    pub from: From,
    pub tag: u32,
    /// Bytes that have moved: of the payload for a receive, of head and payload for a send.
    pub at: usize,
    /// Offset in the other rank's window of the first byte that the message is about.
    pub place: usize,
    /// True once the message has begun to arrive.
    pub started: bool,
    /// Number of the loan, if the other rank copies the payload from where it is. That rank confirms the copy with this number.
    pub lent: Option<u64>,
    pub done: bool,
    pub received_from: usize,
    /// Index of the operation that this one waits for: the last earlier one that goes to the same rank, or that can match the same message.
    pub behind: Option<usize>,
}

/// Payload of a message.
pub(super) enum Way<'bytes> {
    Out(&'bytes [u8]),
    /// None: the message asks for this many bytes.
    Ask(usize),
    In(&'bytes mut [u8]),
}

impl<'bytes> Op<'bytes> {
    /// A message to a rank.
    pub(super) fn send(to: usize, tag: u32, bytes: &'bytes [u8]) -> Self {
        Self::new(Way::Out(bytes), From::Rank(to), tag)
    }

    /// A message from a rank, or from any.
    pub(super) fn receive(from: From, tag: u32, into: &'bytes mut [u8]) -> Self {
        Self::new(Way::In(into), from, tag)
    }

    /// A message about bytes of the window of a rank, from byte `place` on.
    pub(super) fn reach(way: Way<'bytes>, to: usize, tag: u32, place: usize) -> Self {
        Self {
            place,
            ..Self::new(way, From::Rank(to), tag)
        }
    }

    fn new(way: Way<'bytes>, from: From, tag: u32) -> Self {
        Self {
            way,
            from,
            tag,
            at: 0,
            place: 0,
            lent: None,
            started: false,
            done: false,
            received_from: 0,
            behind: None,
        }
    }

    /// Result of a receive, once it is done.
    pub(super) fn received(&self) -> Received {
        Received {
            from: self.received_from,
            bytes: self.at,
        }
    }

    /// Bytes of the receive buffer.
    pub(super) fn room(&self) -> usize {
        match &self.way {
            Way::In(into) => into.len(),
            Way::Out(_) | Way::Ask(_) => 0,
        }
    }

    /// True if this rank sends the message.
    pub(super) fn is_out(&self) -> bool {
        !matches!(self.way, Way::In(_))
    }

    /// True if the message has begun and not ended.
    pub(super) fn is_under_way(&self) -> bool {
        !self.done && (self.at > 0 || self.started)
    }
}

/// Condition on which a wait ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Until {
    /// The operation with this index is done.
    One(usize),
    /// This many operations, counted from the first one, are done.
    First(usize),
    /// All operations are done.
    All,
}

impl Until {
    /// True once the condition holds.
    pub(super) fn has_come(self, ops: &[Op<'_>]) -> bool {
        match self {
            Self::One(index) => ops[index].done,
            Self::First(count) => ops[..count].iter().all(|op| op.done),
            Self::All => ops.iter().all(|op| op.done),
        }
    }
}

/// Up to this many operations are compared pairwise.
const FEW: usize = 12;

/// Sets `behind` of all operations that must keep their order. This is done once, and not at each look at an operation.
pub(super) fn line_up(ops: &mut [Op<'_>]) {
    // A send waits for all earlier sends to the same rank. A receive waits for earlier ones of the same rank and tag.
    let key = |op: &Op<'_>| match op.is_out() {
        true => (true, op.from, 0),
        false => (false, op.from, op.tag),
    };
    match ops {
        [] | [_] => {}
        // Comparing a few operations costs less than building a table of them.
        few if few.len() <= FEW => {
            for index in 1..few.len() {
                let (before, rest) = few.split_at_mut(index);
                let own = key(&rest[0]);
                rest[0].behind = before.iter().rposition(|op| key(op) == own);
            }
        }
        many => {
            let mut last = HashMap::with_capacity(many.len());
            for (index, op) in many.iter_mut().enumerate() {
                op.behind = last.insert(key(op), index);
            }
        }
    }
}
