//! Files that are written during a run, so that evidence remains if the launching host dies: the journal, one line a minute, and the
//! samples, one line per link and second.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use nix::libc;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

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

    /// Opens a stream for another program: a file, a named pipe with a reader, or standard output (`-`). What that program does not take within a
    /// second is lost for it, so that it cannot hold the run.
    pub(crate) fn stream(path: &Path) -> Result<Self, StoreError> {
        let mut open = OpenOptions::new();
        open.custom_flags(libc::O_NONBLOCK);
        let file = match path == Path::new("-") {
            // Opened anew where that is possible, since the flag belongs to all that share a descriptor.
            true => open.append(true).open("/proc/self/fd/1").or_else(|_| {
                let own = std::io::stdout().as_fd().try_clone_to_owned();
                own.map(File::from)
            }),
            false => open.write(true).create(true).truncate(true).open(path),
        };
        Ok(Self {
            path: path.to_owned(),
            file: file.map_err(|source| StoreError::new(path, source))?,
            failed: None,
        })
    }

    /// Appends lines and hands them to the kernel. If `safe`, also waits until they are on the disk.
    pub(crate) fn append(&mut self, lines: &str, safe: bool) {
        if self.failed.is_some() {
            return;
        }
        let mut written = self.write(lines.as_bytes());
        if safe {
            written = written.and_then(|()| self.file.sync_data());
        }
        if let Err(source) = written {
            self.failed = Some(StoreError::new(&self.path, source));
        }
    }

    fn write(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        /// Longest wait for a reader.
        const PATIENCE_MS: u16 = 1_000;
        while !bytes.is_empty() {
            match self.file.write(bytes) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => bytes = bytes.get(count..).unwrap_or_default(),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let mut wanted = [PollFd::new(self.file.as_fd(), PollFlags::POLLOUT)];
                    if poll(&mut wanted, PollTimeout::from(PATIENCE_MS))? == 0 {
                        return Err(io::Error::other("its reader took nothing for 1 s"));
                    }
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
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
    fn a_reader_that_takes_nothing_does_not_hold_the_writer() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pipe");
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert!(Growing::stream(&path).is_err(), "nobody reads");
        let open = |read: bool| OpenOptions::new().read(true).write(!read).open(&path);
        let reader = open(false).unwrap();
        let mut file = Growing::stream(&path).unwrap();
        file.append(&"x".repeat(1 << 20), false);
        let failure = file.failure().map(ToString::to_string).unwrap_or_default();
        assert!(failure.contains("took nothing for 1 s"), "{failure}");
        drop(reader);
    }

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
