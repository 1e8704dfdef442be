//! The stream of one task in a result file, and the errors of a file that cannot be read.

use thiserror::Error;

use crate::outside;
use crate::store::sion::{Container, SionError, little_endian};

use super::layout::Retest;

/// Tag of LinkTest's streams up to 2.1.16.
pub(super) const TAG: &[u8] = b"LKTST";
/// Tag since 2.1.17.
pub(super) const LONG_TAG: &[u8] = b"LinkTest";

/// Reason why a file cannot be read as one of LinkTest's.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum LinktestFileError {
    /// The container cannot be read.
    #[error(transparent)]
    Container(#[from] SionError),
    /// The container is another program's.
    #[error("a SION file, but not LinkTest's: no tag at byte {0}")]
    Tag(u64),
    /// The version is not known.
    #[error("LinkTest {version} at byte {at}: supported versions are 1.2 and 2.1")]
    Version {
        /// Version in the file.
        version: String,
        /// Its byte in the file.
        at: u64,
    },
    /// The stream ends too early.
    #[error("task {task} ends at byte {at}, where {what} was expected")]
    Short {
        /// Number of the task.
        task: usize,
        /// Item that was expected.
        what: &'static str,
        /// Byte of the file at which the stream ends.
        at: u64,
    },
    /// The stream is longer or shorter than its own numbers state.
    #[error(
        "task {task} has {bytes} bytes after byte {at}, its own numbers require {expected}: unsupported \
         layout, or damaged file"
    )]
    Length {
        /// Number of the task.
        task: usize,
        /// Number of bytes present.
        bytes: u64,
        /// Number of bytes expected.
        expected: u128,
        /// Byte of the file at which these bytes begin.
        at: u64,
    },
    /// The marker at the end of a stream is missing.
    #[error(
        "task {task} does not end with END_BLOCK at byte {at}: unsupported layout, or damaged file"
    )]
    End {
        /// Number of the task.
        task: usize,
        /// Byte of the file at which it should be.
        at: u64,
    },
}

/// Reader of a task's stream. Every error says where in the file it occurred.
pub(super) struct Stream<'a> {
    pub(super) container: &'a Container,
    pub(super) task: usize,
    bytes: &'a [u8],
    pub(super) at: usize,
}

impl<'a> Stream<'a> {
    pub(super) fn of(container: &'a Container, task: usize) -> Self {
        let bytes = container.streams.get(task).map_or(&[][..], Vec::as_slice);
        Self {
            container,
            task,
            bytes,
            at: 0,
        }
    }

    pub(super) fn left(&self) -> usize {
        self.bytes.len() - self.at
    }

    /// Current position in the file.
    pub(super) fn place(&self) -> u64 {
        self.container.file_offset(self.task, self.at)
    }

    pub(super) fn take(
        &mut self,
        what: &'static str,
        count: usize,
    ) -> Result<&'a [u8], LinktestFileError> {
        let end = self.at.checked_add(count);
        let Some(taken) = end.and_then(|end| self.bytes.get(self.at..end)) else {
            return Err(LinktestFileError::Short {
                task: self.task,
                what,
                at: self.container.file_offset(self.task, self.bytes.len()),
            });
        };
        self.at += count;
        Ok(taken)
    }

    /// Skips either tag.
    pub(super) fn tag(&mut self) -> Result<(), LinktestFileError> {
        let rest = &self.bytes[self.at..];
        let known = [TAG, LONG_TAG]
            .into_iter()
            .find(|tag| rest.starts_with(tag));
        let tag = known.ok_or_else(|| LinktestFileError::Tag(self.place()))?;
        self.at += tag.len();
        Ok(())
    }

    /// Reads a version, which must begin with `known`.
    pub(super) fn version(&mut self, known: [u32; 2]) -> Result<[u32; 3], LinktestFileError> {
        let at = self.place();
        let version = [
            self.u32("version")?,
            self.u32("version")?,
            self.u32("version")?,
        ];
        if version[..2] == known {
            return Ok(version);
        }
        Err(LinktestFileError::Version {
            version: version.map(|number| number.to_string()).join("."),
            at,
        })
    }

    /// The stream is longer or shorter than its own numbers state.
    pub(super) fn wrong_length(&self, expected: u128) -> LinktestFileError {
        LinktestFileError::Length {
            task: self.task,
            bytes: self.left() as u64,
            expected,
            at: self.place(),
        }
    }

    pub(super) fn word<const BYTES: usize>(
        &mut self,
        what: &'static str,
    ) -> Result<[u8; BYTES], LinktestFileError> {
        let bytes = self.take(what, BYTES)?;
        Ok(little_endian(bytes, self.container.big_endian))
    }

    pub(super) fn u8(&mut self, what: &'static str) -> Result<u8, LinktestFileError> {
        Ok(self.word::<1>(what)?[0])
    }

    pub(super) fn u32(&mut self, what: &'static str) -> Result<u32, LinktestFileError> {
        Ok(u32::from_le_bytes(self.word(what)?))
    }

    pub(super) fn i32(&mut self, what: &'static str) -> Result<i32, LinktestFileError> {
        Ok(i32::from_le_bytes(self.word(what)?))
    }

    pub(super) fn u64(&mut self, what: &'static str) -> Result<u64, LinktestFileError> {
        Ok(u64::from_le_bytes(self.word(what)?))
    }

    pub(super) fn f64(&mut self, what: &'static str) -> Result<f64, LinktestFileError> {
        Ok(f64::from_le_bytes(self.word(what)?))
    }

    /// Reads `count` numbers. The caller has checked that the stream holds them.
    pub(super) fn many<T>(
        &mut self,
        count: usize,
        one: impl Fn(&mut Self) -> Result<T, LinktestFileError>,
    ) -> Result<Vec<T>, LinktestFileError> {
        (0..count).map(|_| one(self)).collect()
    }

    /// Reads `count` links that were measured again: their new times, their old ones, and their ranks, which `rank` reads.
    pub(super) fn retests(
        &mut self,
        count: usize,
        rank: impl Fn(&mut Self) -> Result<u64, LinktestFileError>,
    ) -> Result<Vec<Retest>, LinktestFileError> {
        let new = self.many(count, |stream| stream.f64("new time"))?;
        let old = self.many(count, |stream| stream.f64("old time"))?;
        let from = self.many(count, &rank)?;
        let to = self.many(count, &rank)?;
        let again = |number: usize| Retest {
            from: from[number],
            to: to[number],
            new_s: new[number],
            old_s: old[number],
        };
        Ok((0..count).map(again).collect())
    }

    /// Reads a text of `bytes` bytes, up to its NUL, and cleans it: a file must not steer a terminal.
    pub(super) fn text(
        &mut self,
        what: &'static str,
        bytes: usize,
    ) -> Result<String, LinktestFileError> {
        let taken = self.take(what, bytes)?;
        let end = taken.iter().position(|byte| *byte == 0);
        let text = String::from_utf8_lossy(&taken[..end.unwrap_or(taken.len())]);
        Ok(outside::clean(&text).into_owned())
    }
}
