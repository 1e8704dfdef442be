//! The token: a secret for one run. Only a program that has it can join.
//!
//! It never stands on a command line, where all users of a machine can read it.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead as _, BufReader, Read, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use nix::fcntl::OFlag;

const TOKEN_BYTES: usize = 32;
const MAX_FILE_BYTES: u64 = 16 << 10;
/// Addresses in a file.
const MAX_ADDRESSES: usize = 32;

/// 32 random bytes.
#[derive(Clone)]
pub struct Token([u8; TOKEN_BYTES]);

/// The reason why a token cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// The file cannot be opened or read.
    #[error("cannot read the token file {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The error.
        source: io::Error,
    },
    /// The file cannot be made.
    #[error("cannot make the token file {}: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The error.
        source: io::Error,
    },
    /// The file is a folder, a pipe or a device.
    #[error("the token file {} is no regular file", .0.display())]
    NoFile(PathBuf),
    /// Other users can read the file.
    #[error("other users can read the token file {} (its mode is {mode:04o}: chmod 600)", path.display())]
    Readable {
        /// The file.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// The file belongs to another user.
    #[error("the token file {} belongs to another user (uid {owner}): make your own", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
        /// Its owner.
        owner: u32,
    },
    /// Standard input has no token.
    #[error(
        "standard input has no token: a command that passes none on, such as pdsh, needs --token-file FILE"
    )]
    NoInput,
    /// The first line is no token.
    #[error("{} holds no token: its first line must have 64 hexadecimal digits", .0.display())]
    NoToken(PathBuf),
}

impl TokenError {
    /// True if the file does not exist, or not yet.
    pub fn is_absent(&self) -> bool {
        matches!(self, TokenError::Read { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }
}

impl Token {
    /// A new token from the operating system's generator.
    pub fn fresh() -> io::Result<Token> {
        let mut bytes = [0; TOKEN_BYTES];
        File::open("/dev/urandom")?.read_exact(&mut bytes)?;
        Ok(Token(bytes))
    }

    /// Reads the token, and the addresses in the lines after it, from a file that only its owner can read.
    /// `-` is the first line of standard input: some programs that pass it on never end it.
    pub fn read(path: &Path) -> Result<(Token, Vec<String>), TokenError> {
        let failed = |source| TokenError::Read {
            path: path.to_owned(),
            source,
        };
        let mut text = String::new();
        if path == Path::new("-") {
            text = first_line(io::stdin().lock()).map_err(failed)?;
            if text.trim().is_empty() {
                return Err(TokenError::NoInput);
            }
        } else {
            // Opening a pipe must not wait for its writer.
            let flags = OFlag::O_NONBLOCK.bits();
            let file = OpenOptions::new().read(true).custom_flags(flags).open(path);
            let file = file.map_err(failed)?;
            let facts = file.metadata().map_err(failed)?;
            if !facts.is_file() {
                return Err(TokenError::NoFile(path.to_owned()));
            }
            let owner = facts.uid();
            // root owns the files of a Kubernetes secret.
            if owner != 0 && owner != nix::unistd::geteuid().as_raw() {
                let path = path.to_owned();
                return Err(TokenError::Foreign { path, owner });
            }
            let mode = facts.mode() & 0o7777;
            if mode & 0o077 != 0 {
                let path = path.to_owned();
                return Err(TokenError::Readable { path, mode });
            }
            let mut file = file.take(MAX_FILE_BYTES);
            file.read_to_string(&mut text).map_err(failed)?;
        }
        let mut lines = text.lines().map(str::trim);
        let token = lines.next().and_then(Token::of);
        let token = token.ok_or_else(|| TokenError::NoToken(path.to_owned()))?;
        let addresses = lines.filter(|line| !line.is_empty()).map(str::to_owned);
        Ok((token, addresses.take(MAX_ADDRESSES).collect()))
    }

    /// Makes a file with the token and the addresses. It must not exist. It is removed when the value is dropped.
    pub fn write_new(&self, path: &Path, addresses: &[String]) -> Result<TokenFile, TokenError> {
        let failed = |source| TokenError::Write {
            path: path.to_owned(),
            source,
        };
        let mut name = path.as_os_str().to_owned();
        name.push(format!(".{}", std::process::id()));
        let draft = PathBuf::from(name);
        let write = || -> io::Result<()> {
            let mut options = OpenOptions::new();
            let mut file = options
                .write(true)
                .create_new(true)
                .mode(0o600)
                .open(&draft)?;
            writeln!(file, "{}\n{}", self.text(), addresses.join("\n"))?;
            // A reader that waits for the file finds all of it.
            std::fs::hard_link(&draft, path)
        };
        let written = write();
        // If this fails, so did the write, and its error says why.
        std::fs::remove_file(&draft).ok();
        written.map_err(failed)?;
        Ok(TokenFile(path.to_owned()))
    }

    pub(super) fn bytes(&self) -> &[u8; TOKEN_BYTES] {
        &self.0
    }

    /// The token in hexadecimal digits.
    pub(super) fn text(&self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    pub(super) fn of(text: &str) -> Option<Token> {
        if text.len() != 2 * TOKEN_BYTES || !text.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return None;
        }
        let mut bytes = [0; TOKEN_BYTES];
        for (byte, digits) in bytes.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
            *byte = u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
        }
        Some(Token(bytes))
    }
}

/// Reads the first line. What follows need not come to an end.
fn first_line(input: impl Read) -> io::Result<String> {
    let mut line = String::new();
    BufReader::new(input.take(MAX_FILE_BYTES)).read_line(&mut line)?;
    Ok(line.trim_end_matches('\n').to_owned())
}

/// A file with a token, which ends with the run.
pub struct TokenFile(PathBuf);

impl TokenFile {
    /// The file.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for TokenFile {
    fn drop(&mut self) {
        // An error means that it is gone already. The token has no use after the run.
        std::fs::remove_file(&self.0).ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    fn refused(path: &Path) -> String {
        Token::read(path).err().unwrap().to_string()
    }

    #[test]
    fn a_token_file_holds_token_and_addresses_and_ends_with_the_run() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        assert!(Token::read(&path).err().unwrap().is_absent());
        let token = Token::fresh().unwrap();
        assert_ne!(token.bytes(), Token::fresh().unwrap().bytes());
        let addresses = ["n1:7447".to_owned(), "[fd00::1]:7447".to_owned()];
        let file = token.write_new(&path, &addresses).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        let (again, found) = Token::read(&path).unwrap();
        assert_eq!((again.bytes(), &found[..]), (token.bytes(), &addresses[..]));
        let taken = token.write_new(&path, &[]).err().unwrap().to_string();
        assert!(taken.starts_with("cannot make the token file"), "{taken}");
        drop(file);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_token_that_others_can_read_is_refused_and_so_is_what_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        let token = Token::fresh().unwrap();
        let _file = token.write_new(&path, &[]).unwrap();
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert!(
            Token::read(&link).is_ok(),
            "a secret of Kubernetes is a link"
        );
        for mode in [0o640, 0o604] {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            assert!(refused(&path).contains(&format!("its mode is {mode:04o}: chmod 600")));
        }
        assert!(refused(folder.path()).ends_with("is no regular file"));
        let short = folder.path().join("short");
        std::fs::write(&short, &token.text()[..62]).unwrap();
        std::fs::set_permissions(&short, std::fs::Permissions::from_mode(0o600)).unwrap();
        assert!(refused(&short).contains("must have 64 hexadecimal digits"));
    }

    /// Symptom: root took a token file that another user had put into /tmp before, and that user could join.
    #[test]
    fn a_token_file_of_another_user_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        let _file = Token::fresh().unwrap().write_new(&path, &[]).unwrap();
        if let Err(error) = std::os::unix::fs::chown(&path, Some(1), None) {
            eprintln!("SKIPPED: only root can give a file away: {error}");
            return;
        }
        let error = refused(&path);
        assert!(
            error.ends_with("belongs to another user (uid 1): make your own"),
            "{error}"
        );
    }

    /// Symptom: a starter that leaves standard input open kept the node from joining.
    #[test]
    fn the_token_on_standard_input_needs_no_end_after_its_line() {
        let (reader, mut writer) = io::pipe().unwrap();
        writer.write_all(b"abc\nmore").unwrap();
        assert_eq!(first_line(reader).unwrap(), "abc");
        drop(writer);
    }
}
