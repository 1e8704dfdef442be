//! Files with a token or key of a site, which only its user can read.

use std::io::Write;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::store::bounded;

use super::site::Site;

/// File of the signing key in the folder of runs.
pub(super) const KEY: &str = ".session-key";

/// Reason why the token cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TokenError {
    /// The file cannot be read or created.
    #[error("token file {}: {}", .0.display(), crate::sys::why(.1))]
    File(PathBuf, std::io::Error),
    /// Other users have access to the file.
    #[error("token file {}: other users have access to it (chmod 600)", .0.display())]
    Open(PathBuf),
    /// The token is too short to be safe against guessing.
    #[error("token file {}: the token is too short (at least 16 characters)", .0.display())]
    Short(PathBuf),
}

/// Creates a file with a new token that only the owner can read. The file appears complete or not at all.
fn made(path: &Path, random: fn() -> String) -> std::io::Result<()> {
    let other = path.with_file_name(format!(".token-{}", random()));
    let written = std::fs::File::options()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&other)
        .and_then(|mut file| file.write_all(format!("{}\n", random()).as_bytes()))
        .and_then(|()| std::fs::hard_link(&other, path));
    let (Ok(()) | Err(_)) = std::fs::remove_file(&other);
    written
}

/// Refuses existing files that [`of`] refuses. Creates nothing.
pub(super) fn check(site: &Site) -> Result<(), TokenError> {
    let paths = [site.token_file.clone(), site.results.join(KEY)];
    let mut existing = paths.iter().filter(|path| path.exists());
    existing.try_for_each(|path| stored(path).map(drop))
}

/// Reads the token, or creates one that only the owner can read.
pub(super) fn of(path: &Path, random: fn() -> String) -> Result<String, TokenError> {
    // Another process can be first.
    if !path.exists()
        && let Err(error) = made(path, random)
        && error.kind() != std::io::ErrorKind::AlreadyExists
    {
        return Err(TokenError::File(path.to_owned(), error));
    }
    stored(path)
}

/// Reads a token that only the owner can read.
fn stored(path: &Path) -> Result<String, TokenError> {
    const LEAST: usize = 16;
    let fail = |error| TokenError::File(path.to_owned(), error);
    let mode = std::fs::metadata(path).map_err(fail)?.permissions().mode();
    if mode & 0o077 != 0 {
        return Err(TokenError::Open(path.to_owned()));
    }
    let text = bounded::given(path, bounded::TEXT_BYTES).map_err(fail)?;
    let token = text.trim();
    if token.len() < LEAST {
        return Err(TokenError::Short(path.to_owned()));
    }
    Ok(token.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_made_once_for_its_owner_alone_and_nothing_stays_beside_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        assert_eq!(of(&path, || "x".repeat(32)).unwrap(), "x".repeat(32));
        let made = std::fs::read_to_string(&path).unwrap();
        assert_eq!(made, format!("{}\n", "x".repeat(32)));
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(of(&path, || "y".repeat(32)).unwrap(), "x".repeat(32));
        let mut names: Vec<_> = std::fs::read_dir(folder.path())
            .unwrap()
            .flatten()
            .map(|entry| entry.file_name())
            .collect();
        names.sort();
        assert_eq!(names, ["token"]);
    }
}
