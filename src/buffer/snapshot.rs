//! A status segment as an outside process sees it: a copy, trusted only after magic, version and sizes were checked.
//!
//! Any user can own the segment, and the owner can change anything at any moment. So this module uses no number
//! before it has compared it with the data it read, and it never maps the segment. The caller judges the contents of
//! the text.

use std::io::ErrorKind;
use std::sync::atomic::{AtomicU64, Ordering::Acquire};

use thiserror::Error;

use crate::record::EndRole;
use crate::sys::{memory, process};

use super::board::{
    self, AT_BOOK, AT_BOUNDARIES, AT_DONE, AT_ENDS, AT_GO, AT_MADE, AT_MAGIC, AT_OWNER,
    AT_OWNER_START, AT_PID_SPACE, AT_RECEIVES, AT_SENDS, AT_STOP, AT_TEXT, AT_TEXT_BYTES,
    AT_VERSION, AT_WORDS, END_WORDS, EndState, HEADER_WORDS, LinkEnd, MAGIC, VERSION,
};

/// Reason why a segment cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub(crate) enum SnapshotError {
    /// It no longer exists.
    #[error("it is gone")]
    Gone,
    /// It belongs to another user.
    #[error("not permitted")]
    NotPermitted,
    /// Another build made it; the value is the segment's version.
    #[error("status segment of version {0}, this is version {VERSION}")]
    Version(u64),
    /// It is not a status segment, or not yet a complete one.
    #[error("not a status segment")]
    Unreadable,
}

/// A copy of a status segment.
pub(crate) struct Snapshot {
    words: Vec<AtomicU64>,
    user: u32,
    boundaries: usize,
    sends: usize,
    receives: usize,
    ends_at: usize,
    text: String,
}

/// Size of the largest segment that is read. A run of 1000 nodes, 3 phases and 8 streams takes 16 MiB.
const LIMIT_BYTES: usize = 256 << 20;

impl Snapshot {
    /// Copies and checks the segment `name`.
    pub(crate) fn read(name: &str) -> Result<Self, SnapshotError> {
        let (words, user) = read(name, LIMIT_BYTES)?;
        check_head(&words)?;
        let number = |index: usize| {
            usize::try_from(words[index].load(Acquire))
                .ok()
                .filter(|number| *number <= LIMIT_BYTES)
                .ok_or(SnapshotError::Unreadable)
        };
        let boundaries = number(AT_BOUNDARIES)?;
        let (sends, receives) = (number(AT_SENDS)?, number(AT_RECEIVES)?);
        let (ends_at, text_at) = (number(AT_ENDS)?, number(AT_TEXT)?);
        let text_bytes = number(AT_TEXT_BYTES)?;
        let ends = boundaries
            .checked_mul(sends + receives)
            .and_then(|ends| ends.checked_mul(END_WORDS))
            .ok_or(SnapshotError::Unreadable)?;
        let is_inside = |from: usize, count: usize| {
            from >= HEADER_WORDS && from.checked_add(count).is_some_and(|to| to <= words.len())
        };
        let is_whole = number(AT_WORDS)? == words.len();
        if !(is_whole && is_inside(ends_at, ends) && is_inside(text_at, text_bytes.div_ceil(8))) {
            return Err(SnapshotError::Unreadable);
        }
        let mut text: Vec<u8> = words[text_at..text_at + text_bytes.div_ceil(8)]
            .iter()
            .flat_map(|word| word.load(Acquire).to_le_bytes())
            .collect();
        text.truncate(text_bytes);
        let text = String::from_utf8(text).map_err(|_| SnapshotError::Unreadable)?;
        Ok(Self {
            words,
            user,
            boundaries,
            sends,
            receives,
            ends_at,
            text,
        })
    }

    fn word(&self, index: usize) -> u64 {
        self.words[index].load(Acquire)
    }

    /// Text that the owner wrote for outside readers.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// User id of the segment's owner.
    pub(crate) fn user(&self) -> u32 {
        self.user
    }

    /// Process id of the owner and its start time in clock ticks since boot. `None` for an owner in another pid
    /// namespace, whose ids mean nothing here.
    pub(crate) fn owner(&self) -> Option<(i32, u64)> {
        let here = self.word(AT_PID_SPACE) == process::pid_space();
        let pid = i32::try_from(self.word(AT_OWNER)).ok()?;
        here.then(|| (pid, self.word(AT_OWNER_START)))
    }

    /// Creation time on the monotonic clock, in nanoseconds.
    pub(crate) fn made_ns(&self) -> u64 {
        self.word(AT_MADE)
    }

    /// True once senders know where to connect.
    pub(crate) fn book_is_there(&self) -> bool {
        self.word(AT_BOOK) != 0
    }

    /// True once data may flow.
    pub(crate) fn has_started(&self) -> bool {
        self.word(AT_GO) != 0
    }

    /// True once sources are to end.
    pub(crate) fn is_stopping(&self) -> bool {
        self.word(AT_STOP) != 0
    }

    /// True once everything has arrived.
    pub(crate) fn is_done(&self) -> bool {
        self.word(AT_DONE) != 0
    }

    /// All link ends with role, boundary and slot; senders precede receivers at each boundary.
    pub(crate) fn ends(&self) -> impl Iterator<Item = (EndRole, usize, usize, LinkEnd<'_>)> {
        let words = &self.words[self.ends_at..][..self.number_of_ends() * END_WORDS];
        board::ends(words, self.sends, self.receives)
    }

    fn number_of_ends(&self) -> usize {
        self.boundaries * (self.sends + self.receives)
    }

    /// Number of link ends in `state` or beyond, and number of all link ends.
    pub(crate) fn count_at_least(&self, state: EndState) -> (usize, usize) {
        let reached = self.ends().filter(|(_, _, _, end)| end.state() >= state);
        (reached.count(), self.number_of_ends())
    }
}

fn read(name: &str, limit_bytes: usize) -> Result<(Vec<AtomicU64>, u32), SnapshotError> {
    memory::read_segment(name, limit_bytes).map_err(|error| match error.kind() {
        ErrorKind::NotFound => SnapshotError::Gone,
        ErrorKind::PermissionDenied => SnapshotError::NotPermitted,
        _ => SnapshotError::Unreadable,
    })
}

fn check_head(words: &[AtomicU64]) -> Result<(), SnapshotError> {
    if words.len() < HEADER_WORDS || words[AT_MAGIC].load(Acquire) != MAGIC {
        return Err(SnapshotError::Unreadable);
    }
    match words[AT_VERSION].load(Acquire) {
        VERSION => Ok(()),
        other => Err(SnapshotError::Version(other)),
    }
}

/// True if the owner of a segment is gone. The header words it reads are the same in all versions.
pub(super) fn is_orphaned(name: &str) -> bool {
    let Ok((words, _)) = read(name, HEADER_WORDS * 8) else {
        return false;
    };
    if matches!(check_head(&words), Err(SnapshotError::Unreadable)) {
        return false;
    }
    let word = |index: usize| words[index].load(Acquire);
    if word(AT_PID_SPACE) != process::pid_space() {
        return false;
    }
    let owner = i32::try_from(word(AT_OWNER)).unwrap_or(0);
    process::start_time(owner) != Some(word(AT_OWNER_START))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffer::board::{Board, Shape};
    use std::os::unix::fs::FileExt;

    const SHAPE: Shape = Shape {
        boundaries: 2,
        nodes: 3,
        rails: 1,
        sends: 3,
        receives: 3,
    };

    fn name(of: &str) -> String {
        format!("pipebench-unit-{of}-{}", std::process::id())
    }

    #[test]
    fn a_copy_tells_what_the_owner_wrote() {
        let name = name("snapshot");
        let board = Board::create(&name, SHAPE, "some text of 23 bytes..").unwrap();
        let end = board.end(EndRole::Receiver, 1, 2);
        end.add_bytes(42);
        end.set_state(EndState::Ready);
        board.go();
        let copy = Snapshot::read(&name).unwrap();
        assert_eq!(copy.text(), "some text of 23 bytes..");
        assert!(copy.has_started() && !copy.book_is_there() && !copy.is_stopping());
        assert_eq!(copy.owner().unwrap().0, process::own_pid());
        assert!(copy.made_ns() > 0);
        assert_eq!(copy.count_at_least(EndState::Ready), (1, 12));
        let moved: Vec<_> = copy
            .ends()
            .filter(|(_, _, _, end)| end.bytes() == 42)
            .map(|(role, boundary, slot, _)| (role, boundary, slot))
            .collect();
        assert_eq!(moved, [(EndRole::Receiver, 1, 2)]);
        drop(board);
        assert_eq!(Snapshot::read(&name).err(), Some(SnapshotError::Gone));
    }

    /// For every value in the header, the copy is refused or complete: no number leads outside of it.
    #[test]
    fn no_number_of_the_header_is_believed() {
        let name = name("forged");
        let board = Board::create(&name, SHAPE, "text").unwrap();
        let file = std::fs::File::options()
            .write(true)
            .open(format!("/dev/shm/{name}"))
            .unwrap();
        let whole = memory::read_segment(&name, LIMIT_BYTES).unwrap().0;
        for (at, old) in whole.iter().enumerate().take(HEADER_WORDS) {
            for value in [0, 1, 63, 65, 1 << 20, 1 << 40, u64::MAX / 2, u64::MAX] {
                file.write_at(&value.to_le_bytes(), at as u64 * 8).unwrap();
                if let Ok(copy) = Snapshot::read(&name) {
                    assert!(copy.ends().map(|(_, _, _, end)| end.bytes()).sum::<u64>() < u64::MAX);
                }
            }
            let old = old.load(Acquire).to_le_bytes();
            file.write_at(&old, at as u64 * 8).unwrap();
        }
        file.write_at(&9_u64.to_le_bytes(), AT_VERSION as u64 * 8)
            .unwrap();
        assert_eq!(Snapshot::read(&name).err(), Some(SnapshotError::Version(9)));
        file.set_len(100).unwrap();
        assert_eq!(Snapshot::read(&name).err(), Some(SnapshotError::Unreadable));
        drop(board);
    }
}
