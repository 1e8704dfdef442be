//! LinkTest's result file: its own data in a container of SIONlib. Written in the layout of 2.1.16; read in that one, in that of
//! 2.1.17 with its longer tag, and in the real one of 1.2.
//!
//! What is not known of the layout is zero when written and opaque when read. Lengths that a file states must add up to the length it
//! has, before anything is allocated for them.

mod first;
mod layout;
mod made;
mod second;

pub use layout::{DataSet, Header, LinktestFile, Meaning, Pair, RankData, RankSet, Retest};
pub use made::files;

use thiserror::Error;

use super::sion::{self, Container, SionError, Source};

/// Tag of LinkTest's streams until 2.1.16.
const TAG: &[u8] = b"LKTST";
/// Tag since 2.1.17.
const LONG_TAG: &[u8] = b"LinkTest";

/// Why a file is none of LinkTest's.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum LinktestFileError {
    /// Its container cannot be read.
    #[error(transparent)]
    Container(#[from] SionError),
    /// Its container is another program's.
    #[error("a SION file, but not LinkTest's: no tag at byte {0}")]
    Tag(u64),
    /// A version that is not known.
    #[error("LinkTest {version} at byte {at}: 1.2 and 2.1 are read")]
    Version {
        /// As it stands there.
        version: String,
        /// Where.
        at: u64,
    },
    /// A stream ends too early.
    #[error("task {task} ends at byte {at}, where {what} was expected")]
    Short {
        /// Number of the task.
        task: usize,
        /// What was to be read.
        what: &'static str,
        /// Where its stream ends in the file.
        at: u64,
    },
    /// A stream is longer or shorter than what it says of itself.
    #[error(
        "task {task} has {bytes} bytes behind byte {at}, by its own numbers there should be {expected}: an unsupported \
         layout, or damaged"
    )]
    Length {
        /// Number of the task.
        task: usize,
        /// Bytes that there are.
        bytes: u64,
        /// Bytes that there should be.
        expected: u128,
        /// Behind which byte of the file.
        at: u64,
    },
    /// What ends every stream is not there.
    #[error(
        "task {task} does not end with END_BLOCK at byte {at}: an unsupported layout, or damaged"
    )]
    End {
        /// Number of the task.
        task: usize,
        /// Where it should be.
        at: u64,
    },
}

/// Reads a result file.
pub fn read(file: &(impl Source + ?Sized)) -> Result<LinktestFile, LinktestFileError> {
    let container = sion::read(file)?;
    let mut first = Stream::of(&container, 0);
    first.tag()?;
    let at = first.at;
    let major = first.u32("version")?;
    match major {
        1 => first::read(&container),
        2 => second::read(&container),
        _ => Err(LinktestFileError::Version {
            version: major.to_string(),
            at: container.file_offset(0, at),
        }),
    }
}

/// Writes a result file of LinkTest 2.1.16 that is named `name`, its chunks at multiples of `block_bytes`.
pub fn write(file: &LinktestFile, name: &str, block_bytes: u32) -> Vec<u8> {
    sion::write(name, block_bytes, &second::streams(file))
}

/// A task's stream, as it is read. Every reading says where in the file it failed.
struct Stream<'a> {
    container: &'a Container,
    task: usize,
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Stream<'a> {
    fn of(container: &'a Container, task: usize) -> Self {
        let bytes = container.streams.get(task).map_or(&[][..], Vec::as_slice);
        Self {
            container,
            task,
            bytes,
            at: 0,
        }
    }

    fn left(&self) -> usize {
        self.bytes.len() - self.at
    }

    /// Where in the file it stands.
    fn place(&self) -> u64 {
        self.container.file_offset(self.task, self.at)
    }

    fn take(&mut self, what: &'static str, count: usize) -> Result<&'a [u8], LinktestFileError> {
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

    /// Either tag.
    fn tag(&mut self) -> Result<(), LinktestFileError> {
        let rest = &self.bytes[self.at..];
        let known = [TAG, LONG_TAG]
            .into_iter()
            .find(|tag| rest.starts_with(tag));
        match known {
            Some(tag) => {
                self.at += tag.len();
                Ok(())
            }
            None => Err(LinktestFileError::Tag(self.place())),
        }
    }

    fn word<const BYTES: usize>(
        &mut self,
        what: &'static str,
    ) -> Result<[u8; BYTES], LinktestFileError> {
        let mut word = [0; BYTES];
        word.copy_from_slice(self.take(what, BYTES)?);
        if self.container.big_endian {
            word.reverse();
        }
        Ok(word)
    }

    fn u8(&mut self, what: &'static str) -> Result<u8, LinktestFileError> {
        Ok(self.word::<1>(what)?[0])
    }

    fn u32(&mut self, what: &'static str) -> Result<u32, LinktestFileError> {
        Ok(u32::from_le_bytes(self.word(what)?))
    }

    fn i32(&mut self, what: &'static str) -> Result<i32, LinktestFileError> {
        Ok(i32::from_le_bytes(self.word(what)?))
    }

    fn u64(&mut self, what: &'static str) -> Result<u64, LinktestFileError> {
        Ok(u64::from_le_bytes(self.word(what)?))
    }

    fn f64(&mut self, what: &'static str) -> Result<f64, LinktestFileError> {
        Ok(f64::from_le_bytes(self.word(what)?))
    }

    /// `count` numbers; the caller knows that they are there.
    fn many<T>(
        &mut self,
        count: usize,
        one: impl Fn(&mut Self) -> Result<T, LinktestFileError>,
    ) -> Result<Vec<T>, LinktestFileError> {
        (0..count).map(|_| one(self)).collect()
    }

    /// Text of so many bytes, up to its NUL; what a file says must not steer a terminal.
    fn text(&mut self, what: &'static str, bytes: usize) -> Result<String, LinktestFileError> {
        let taken = self.take(what, bytes)?;
        let end = taken.iter().position(|byte| *byte == 0);
        let text = String::from_utf8_lossy(&taken[..end.unwrap_or(taken.len())]);
        Ok(text.replace(char::is_control, " "))
    }
}

#[cfg(test)]
mod tests;
