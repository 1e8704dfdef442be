//! LinkTest's result file: its own data in a SIONlib container. Writes the layout of 2.1.16. Reads that layout, the one of 2.1.17 with its
//! longer tag, and the real one of 1.2.
//!
//! Unknown parts of the layout are zero when written and opaque when read. Lengths that a file states must add up to its real length before
//! anything is allocated for them.

mod first;
mod layout;
mod made;
mod second;
mod stream;

pub use layout::{DataSet, LinktestFile, Meaning, Pair};
pub use made::files;
pub use stream::LinktestFileError;

use super::sion::{self, Source};
use stream::Stream;

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

/// Writes a result file of LinkTest 2.1.16 under the file name `name`. Its chunks start at multiples of `block_bytes`.
pub fn write(file: &LinktestFile, name: &str, block_bytes: u32) -> Vec<u8> {
    sion::write(name, block_bytes, &second::streams(file))
}

#[cfg(test)]
mod tests;
