//! Memory of one rank that others write to and read from, and the messages for it. [`super::access`] explains the protocol.

use crate::sys::arena::Buffer;
use crate::wire::rank::MessageHead;

use super::error::RankError;
use super::group::Group;
use super::op::OWN_TAGS;
use super::pieces::add_floats;

/// Action of a message on a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Use {
    /// Writes the payload into the window.
    Put,
    /// Adds the payload to the contents of the window, as 32-bit floats.
    Add,
    /// Requests contents of the window.
    Get,
    /// Brings the requested contents.
    Answer,
}

impl Use {
    /// Tag of such messages.
    pub(super) fn tag(self) -> u32 {
        OWN_TAGS + 1 + self as u32
    }

    /// Meaning of a tag; `None` if it has nothing to do with windows.
    pub(super) fn of(tag: u32) -> Option<Self> {
        let all = [Self::Put, Self::Add, Self::Get, Self::Answer];
        all.into_iter().find(|own| own.tag() == tag)
    }
}

/// The window of this rank.
pub(super) struct Window {
    pub(super) group: Group,
    pub(super) memory: Buffer,
    /// For each place of the group: the range of its window in the memory shared with this rank, if there is such memory.
    pub(super) within: Vec<Option<Inside>>,
}

impl Window {
    /// Bytes of the window. [`Inside`] has checked that they exist.
    pub(super) fn part(&self, from: usize, bytes: usize) -> &[u8] {
        &self.memory[from..from + bytes]
    }

    /// The same bytes, to be written.
    pub(super) fn part_mut(&mut self, from: usize, bytes: usize) -> &mut [u8] {
        &mut self.memory[from..from + bytes]
    }

    /// Adds floats to the contents from byte `from` on.
    pub(super) fn add(&mut self, from: usize, floats: &[u8]) {
        add_floats(self.part_mut(from, floats.len()), floats);
    }
}

/// A range of bytes inside of the window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Inside {
    /// Offset of the first byte.
    pub from: usize,
    /// Number of bytes.
    pub bytes: usize,
}

impl Inside {
    /// The range that a message of a rank refers to. Fails if it is not inside of the window, or if there is no window.
    pub(super) fn of(
        window: Option<&Window>,
        rank: usize,
        head: &MessageHead,
    ) -> Result<Self, RankError> {
        let room = window.map_or(0, |window| window.memory.len());
        let numbers = (usize::try_from(head.place), usize::try_from(head.bytes));
        if let (Ok(from), Ok(bytes), true) = (numbers.0, numbers.1, window.is_some())
            && from.checked_add(bytes).is_some_and(|end| end <= room)
        {
            return Ok(Self { from, bytes });
        }
        Err(RankError::Outside {
            rank,
            from: head.place,
            bytes: head.bytes,
            room,
        })
    }
}
