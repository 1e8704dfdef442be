//! Results on disk: run folders, and files that are written so that a full disk leaves no partial result.

pub(crate) mod bounded;
mod journal;
pub mod linktest;
pub(crate) mod runs;
pub(crate) mod sion;

pub(crate) use journal::Growing;

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::sys::why;
use crate::units;

/// Reason why a result could not be written.
#[derive(Debug, Error)]
#[error("cannot write {}: {}", path.display(), why(source))]
pub(crate) struct StoreError {
    path: PathBuf,
    source: io::Error,
}

impl StoreError {
    /// Makes the error for a file.
    pub(crate) fn new(path: &Path, source: io::Error) -> Self {
        let path = path.to_owned();
        Self { path, source }
    }
}

/// Writes a whole file: first under another name, then renamed. Anything but a regular file, such as `/dev/full` or a pipe, is written
/// directly.
pub(crate) fn write_file(path: &Path, content: impl AsRef<[u8]>) -> Result<(), StoreError> {
    let content = content.as_ref();
    let fail = |source| StoreError::new(path, source);
    if fs::metadata(path).is_ok_and(|meta| !meta.is_file()) {
        return fs::write(path, content).map_err(fail);
    }
    let whole = |temporary: &Path| {
        let mut file = File::create(temporary)?;
        file.write_all(content)?;
        file.sync_all()
    };
    renamed(path, whole).map_err(fail)
}

/// Replaces a file that is useful only while it is fresh. Readers always see a whole file, and the call does not wait for the disk.
pub(crate) fn replace_file(path: &Path, content: &str) -> Result<(), StoreError> {
    renamed(path, |temporary| fs::write(temporary, content))
        .map_err(|source| StoreError::new(path, source))
}

/// The same for a file that only its owner reads.
pub(crate) fn replace_private(path: &Path, content: &str) -> io::Result<()> {
    renamed(path, |temporary| {
        let mut file = open_private(temporary)?;
        io::Write::write_all(&mut file, content.as_bytes())
    })
}

/// Lets `write` make a file under another name and renames it. Removes that file if the write fails.
fn renamed(path: &Path, write: impl FnOnce(&Path) -> io::Result<()>) -> io::Result<()> {
    let temporary = temporary_of(path);
    let written = write(&temporary).and_then(|()| fs::rename(&temporary, path));
    if written.is_err() {
        let (Ok(()) | Err(_)) = fs::remove_file(&temporary);
    }
    written
}

/// Checks that a result can be written to `path` now, before hours are spent on measuring it. Leaves nothing.
pub(crate) fn check_writable(path: &Path) -> Result<(), StoreError> {
    let fail = |source| StoreError::new(path, source);
    match fs::metadata(path) {
        Ok(meta) if meta.is_dir() => Err(fail(io::Error::from(io::ErrorKind::IsADirectory))),
        // A pipe or another special file is opened when there is something to write.
        Ok(meta) if !meta.is_file() => Ok(()),
        Ok(_) | Err(_) => {
            let temporary = temporary_of(path);
            let tried = File::create(&temporary).and_then(|_| fs::remove_file(&temporary));
            tried.map_err(fail)
        }
    }
}

/// Name of a file until it is whole.
fn temporary_of(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}.{}", std::process::id()))
}

/// Makes the folder of a run below `parent`, named by date and token.
pub(crate) fn make_folder(
    parent: &Path,
    started_ms: u64,
    token: &str,
) -> Result<PathBuf, StoreError> {
    let path = parent.join(units::run_name(started_ms, token));
    fs::create_dir_all(&path).map_err(|source| StoreError::new(&path, source))?;
    Ok(path)
}

/// Opens a file that processes of this user lock, or in which they count together. No other user can read it: a user who can read a file
/// can lock it, for any time. The call does not wait for a pipe in its place.
pub(crate) fn open_private(path: &Path) -> io::Result<File> {
    let file = File::options()
        .create(true)
        .truncate(false)
        .read(true)
        .write(true)
        .mode(0o600)
        .custom_flags(nix::libc::O_NONBLOCK)
        .open(path)?;
    if file.metadata()?.mode() & 0o077 != 0 {
        file.set_permissions(fs::Permissions::from_mode(0o600))?;
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_there_whole_or_not_at_all() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("record.json");
        write_file(&path, "first").unwrap();
        write_file(&path, "second").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "second");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        let error = write_file(Path::new("/dev/full"), "x").unwrap_err();
        assert_eq!(
            error.to_string(),
            "cannot write /dev/full: no space left on device"
        );
        let missing = write_file(&folder.path().join("no/such/file"), "x").unwrap_err();
        assert!(
            missing.to_string().ends_with("no such file or directory"),
            "{missing}"
        );
    }

    #[test]
    fn a_run_folder_is_named_by_date_and_token() {
        let folder = tempfile::tempdir().unwrap();
        let path = make_folder(folder.path(), 1_795_225_495_000, "abcdef0123").unwrap();
        assert!(path.ends_with("pb-20261121-014455-abcdef"));
    }

    #[test]
    fn files_by_which_processes_hold_something_are_private() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("held");
        fs::write(&path, "x").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        for name in ["held", "new"] {
            let file = open_private(&folder.path().join(name)).unwrap();
            assert_eq!(file.metadata().unwrap().mode() & 0o777, 0o600, "{name}");
        }
        assert_eq!(fs::read_to_string(&path).unwrap(), "x");
        let pipe = folder.path().join("pipe");
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
        open_private(&pipe).expect("it is not waited for");
    }
}
