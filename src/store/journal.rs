//! Files that are written during a run, so that evidence remains if the launching host dies: the journal, one line a minute, and the
//! samples, one line per link and second.

use std::fs::File;
use std::io::Write;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use super::StoreError;

/// A file that only grows. It keeps its first failure, to be reported once, and writes nothing after that.
pub(crate) struct Growing {
    path: PathBuf,
    file: File,
    failed: Option<StoreError>,
}

impl Growing {
    /// Creates the file, or empties an existing one.
    pub(crate) fn create(path: &Path) -> Result<Self, StoreError> {
        let file = File::create(path).map_err(|source| StoreError::new(path, source))?;
        Ok(Self {
            path: path.to_owned(),
            file,
            failed: None,
        })
    }

    /// Standard output as such a file.
    pub(crate) fn to_standard_output() -> Result<Self, StoreError> {
        let path = Path::new("standard output");
        let file = std::io::stdout().as_fd().try_clone_to_owned();
        Ok(Self {
            path: path.to_owned(),
            file: file.map_err(|source| StoreError::new(path, source))?.into(),
            failed: None,
        })
    }

    /// Appends lines and hands them to the kernel. If `safe`, also waits until they are on the disk.
    pub(crate) fn append(&mut self, lines: &str, safe: bool) {
        if self.failed.is_some() {
            return;
        }
        let mut written = self.file.write_all(lines.as_bytes());
        if safe {
            written = written.and_then(|()| self.file.sync_data());
        }
        if let Err(source) = written {
            self.failed = Some(StoreError::new(&self.path, source));
        }
    }

    /// The first failure, if any.
    pub(crate) fn failure(&self) -> Option<&StoreError> {
        self.failed.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_there_as_soon_as_they_are_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal.jsonl");
        let mut file = Growing::create(&path).unwrap();
        file.append("a\n", false);
        file.append("b\n", true);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "a\nb\n");
        assert!(file.failure().is_none());
    }

    #[test]
    fn a_disk_that_is_full_is_told_once() {
        let mut file = Growing::create(Path::new("/dev/full")).unwrap();
        file.append("x\n", false);
        file.append("x\n", false);
        let text = file.failure().map(ToString::to_string);
        assert_eq!(
            text.as_deref(),
            Some("cannot write /dev/full: no space left on device")
        );
    }
}
