//! Files as source and sink of blocks, through memory maps.
//!
//! A sink grows in large steps. Each step is allocated before it is mapped, so that a full disk is an error and not a signal.
//! Where the file system supports it, the file has no name until it is complete: a run that ends early leaves no file.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use memmap2::{Mmap, MmapMut, MmapOptions};
use nix::fcntl::{FallocateFlags, fallocate};
use nix::libc;

use super::memory::Span;

/// A file to read blocks from.
pub(crate) struct FileSource {
    map: Option<Mmap>,
}

impl FileSource {
    /// Maps a regular file. A change of the file during the run changes the data that is sent; shortening the file kills the
    /// reader with a signal.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let file = regular(path)?;
        if file.metadata()?.len() == 0 {
            return Ok(Self { map: None }); // An empty file cannot be mapped.
        }
        // SAFETY: the map is read-only. The user must not shorten the file meanwhile. Doing so costs the process (SIGBUS), not
        // its soundness: bytes are copied, never trusted.
        let map = unsafe { Mmap::map(&file)? };
        match map.advise(memmap2::Advice::Sequential) {
            Ok(()) | Err(_) => {} // Advice only.
        }
        Ok(Self { map: Some(map) })
    }

    /// Length of the file in bytes.
    #[cfg(test)]
    pub(crate) fn bytes(&self) -> u64 {
        self.map.as_ref().map_or(0, |map| map.len() as u64)
    }

    /// Copies from byte `offset` on into a span, up to the end of the span or of the file. Returns the number of bytes copied.
    pub(crate) fn copy(&self, offset: u64, target: Span<'_>) -> usize {
        let Some(map) = &self.map else { return 0 };
        let start = usize::try_from(offset).unwrap_or(usize::MAX).min(map.len());
        let end = start.saturating_add(target.bytes()).min(map.len());
        target.write(&map[start..end]);
        end - start
    }
}

/// Length of a source file in bytes. An error if it is not a regular file.
pub(crate) fn source_bytes(path: &Path) -> io::Result<u64> {
    Ok(regular(path)?.metadata()?.len())
}

fn regular(path: &Path) -> io::Result<File> {
    // Opening a named pipe would wait for its other end.
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    File::open(path)
}

/// A file to append blocks to, from its start to its end.
pub(crate) struct FileSink {
    file: File,
    path: PathBuf,
    /// Temporary name until the file is complete, where the file must have a name.
    temporary: Option<PathBuf>,
    map: Option<MmapMut>,
    mapped_from: u64,
    written: u64,
}

const STEP_BYTES: u64 = 16 << 20;

impl FileSink {
    /// Begins a file that gets the name `path` once it is complete. An existing file of that name stays until then.
    pub(crate) fn create(path: &Path) -> io::Result<Self> {
        if fs::metadata(path).is_ok_and(|meta| !meta.is_file()) {
            return Err(io::Error::other("exists and is not a regular file"));
        }
        let folder = path
            .parent()
            .filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new("."));
        let mut options = OpenOptions::new();
        options.read(true).write(true);
        let (file, temporary) = match options.clone().custom_flags(libc::O_TMPFILE).open(folder) {
            Ok(file) => (file, None),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(error),
            Err(_) => {
                let temporary = beside(path, "part");
                let file = options.create(true).truncate(true).open(&temporary)?;
                (file, Some(temporary))
            }
        };
        Ok(Self {
            file,
            path: path.to_owned(),
            temporary,
            map: None,
            mapped_from: 0,
            written: 0,
        })
    }

    /// Appends a span to the file.
    pub(crate) fn append(&mut self, mut span: Span<'_>) -> io::Result<()> {
        while span.bytes() > 0 {
            let into =
                usize::try_from(self.written - self.mapped_from).map_err(io::Error::other)?;
            let room = self.map.as_ref().map_or(0, |map| map.len() - into);
            if room == 0 {
                self.grow()?;
                continue;
            }
            let piece = room.min(span.bytes());
            if let Some(map) = &mut self.map {
                span.part(0, piece).read(&mut map[into..into + piece]);
            }
            span = span.part(piece, span.bytes() - piece);
            self.written += piece as u64;
        }
        Ok(())
    }

    fn grow(&mut self) -> io::Result<()> {
        self.map = None;
        self.mapped_from = self.written;
        let offset = i64::try_from(self.written).map_err(io::Error::other)?;
        let step = i64::try_from(STEP_BYTES).map_err(io::Error::other)?;
        match fallocate(&self.file, FallocateFlags::empty(), offset, step) {
            Ok(()) => {}
            // A file system without allocation: only the length is set, so a full disk is a signal there.
            Err(nix::Error::EOPNOTSUPP) => self.file.set_len(self.written + STEP_BYTES)?,
            Err(error) => return Err(error.into()),
        }
        let length = usize::try_from(STEP_BYTES).map_err(io::Error::other)?;
        // SAFETY: the range was just allocated in a file that has no name yet or this sink's temporary name.
        self.map = Some(unsafe {
            MmapOptions::new()
                .offset(self.written)
                .len(length)
                .map_mut(&self.file)?
        });
        Ok(())
    }

    /// Sets the file's final length and name. Returns its length in bytes.
    pub(crate) fn finish(mut self) -> io::Result<u64> {
        self.map = None;
        self.file.set_len(self.written)?;
        let temporary = match self.temporary.take() {
            Some(temporary) => temporary,
            None => self.name_it()?,
        };
        let named = fs::rename(&temporary, &self.path);
        if named.is_err() {
            self.temporary = Some(temporary); // Drop removes it.
        }
        named.map(|()| self.written)
    }

    /// Gives the nameless file a temporary name first, because it cannot take a name that is in use.
    fn name_it(&self) -> io::Result<PathBuf> {
        let temporary = beside(&self.path, &std::process::id().to_string());
        let own = format!("/proc/self/fd/{}", self.file.as_raw_fd());
        nix::unistd::linkat(
            nix::fcntl::AT_FDCWD,
            own.as_str(),
            nix::fcntl::AT_FDCWD,
            &temporary,
            nix::fcntl::AtFlags::AT_SYMLINK_FOLLOW,
        )?;
        Ok(temporary)
    }
}

/// Hidden name in the same folder.
fn beside(path: &Path, ending: &str) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}.{ending}"))
}

impl Drop for FileSink {
    fn drop(&mut self) {
        if let Some(temporary) = &self.temporary {
            match fs::remove_file(temporary) {
                Ok(()) | Err(_) => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::memory::Region;

    #[test]
    fn what_goes_through_a_source_and_a_sink_is_the_same_file() {
        let folder = tempfile::tempdir().unwrap();
        let (from, to) = (folder.path().join("from"), folder.path().join("to"));
        let content: Vec<u8> = (0..100_000_u32).map(|n| n.to_le_bytes()[0]).collect();
        fs::write(&from, &content).unwrap();
        fs::write(&to, "an old one").unwrap();
        let source = FileSource::open(&from).unwrap();
        assert_eq!(
            (source.bytes(), source_bytes(&from).unwrap()),
            (100_000, 100_000)
        );
        let region = Region::new("test", 1 << 20).unwrap();
        assert_eq!(source.copy(0, region.span(0, 200_000)), 100_000);
        assert_eq!(source.copy(99_990, region.span(500_000, 64)), 10);
        assert_eq!(source.copy(1 << 40, region.span(500_000, 64)), 0);
        let mut sink = FileSink::create(&to).unwrap();
        sink.append(region.span(0, 60_000)).unwrap();
        sink.append(region.span(60_000, 40_000)).unwrap();
        assert_eq!(fs::read(&to).unwrap(), b"an old one");
        assert_eq!(sink.finish().unwrap(), 100_000);
        assert_eq!(fs::read(&to).unwrap(), content);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    }

    #[test]
    fn a_sink_crosses_its_steps_and_leaves_nothing_if_it_is_given_up() {
        let folder = tempfile::tempdir().unwrap();
        let region = Region::new("test", 1 << 20).unwrap();
        region.span(0, 5).write(b"block");
        let path = folder.path().join("to");
        let mut sink = FileSink::create(&path).unwrap();
        for _ in 0..17 {
            sink.append(region.span(0, 1 << 20)).unwrap();
        }
        assert_eq!(sink.finish().unwrap(), 17 << 20);
        let content = fs::read(&path).unwrap();
        assert_eq!(&content[16 << 20..(16 << 20) + 5], b"block");
        let mut given_up = FileSink::create(&folder.path().join("other")).unwrap();
        given_up.append(region.span(0, 5)).unwrap();
        drop(given_up);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn empty_files_and_what_is_no_file_are_told_apart() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("empty");
        fs::write(&path, "").unwrap();
        assert_eq!(FileSource::open(&path).unwrap().bytes(), 0);
        let error = FileSource::open(folder.path()).err().unwrap();
        assert_eq!(error.to_string(), "not a regular file");
        assert!(FileSink::create(folder.path()).is_err());
        assert!(FileSink::create(&folder.path().join("no/such")).is_err());
        assert!(source_bytes(&folder.path().join("none")).is_err());
        let empty = FileSink::create(&path).unwrap();
        assert_eq!(empty.finish().unwrap(), 0);
    }
}
