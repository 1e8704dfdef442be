//! Results on disk: run folders, and files written so that a full disk leaves no half result.

mod journal;
pub mod runs;

pub use journal::Growing;

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::sys::why;
use crate::units;

/// Why a result could not be written.
#[derive(Debug, Error)]
#[error("cannot write {}: {}", path.display(), why(source))]
pub struct StoreError {
    path: PathBuf,
    source: io::Error,
}

/// Writes a file whole: under another name first, then renamed. What is no ordinary file, such as `/dev/full`
/// or a pipe, is written directly.
pub fn write_file(path: &Path, content: &str) -> Result<(), StoreError> {
    let fail = |source| StoreError {
        path: path.to_owned(),
        source,
    };
    let ordinary = fs::metadata(path).map_or(true, |meta| meta.is_file());
    if !ordinary {
        return fs::write(path, content).map_err(fail);
    }
    let name = path
        .file_name()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default();
    let temporary = path.with_file_name(format!(".{name}.{}", std::process::id()));
    let written = File::create(&temporary)
        .and_then(|mut file| {
            file.write_all(content.as_bytes())?;
            file.sync_all()
        })
        .and_then(|()| fs::rename(&temporary, path));
    if written.is_err() {
        match fs::remove_file(&temporary) {
            Ok(()) | Err(_) => {}
        }
    }
    written.map_err(fail)
}

/// Makes the folder of a run below `parent`, named by date and token.
pub fn make_folder(parent: &Path, started_ms: u64, token: &str) -> Result<PathBuf, StoreError> {
    let name = units::run_name(started_ms, token);
    let path = parent.join(name);
    fs::create_dir_all(&path).map_err(|source| StoreError {
        path: path.clone(),
        source,
    })?;
    Ok(path)
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
}
