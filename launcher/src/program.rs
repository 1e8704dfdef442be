//! The executable to deploy to the hosts.
//!
//! Does not copy it to a host; read next `deploy.rs`.

use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sha2::{Digest, Sha256};

/// An executable with its bytes and their identity.
#[derive(Clone, Debug)]
pub struct Program {
    /// Path on this machine; local sessions run it from here.
    pub path: PathBuf,
    /// Its bytes, read once for all hosts.
    pub bytes: Arc<Vec<u8>>,
    /// SHA-256 of the bytes in lower-case hexadecimal digits.
    pub digest: String,
    /// The architecture it runs on, as `uname -m` names it.
    pub arch: String,
}

/// The reason why the executable cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ProgramError {
    /// The file is not readable.
    #[error("cannot read the executable {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The error of the read.
        source: std::io::Error,
    },
    /// The kernel does not name the machine's architecture.
    #[error("cannot determine the machine's architecture: {0}")]
    Machine(nix::Error),
}

impl Program {
    /// Reads the executable of this process, even if its file was replaced or removed since the start.
    pub fn current() -> Result<Program, ProgramError> {
        let itself = Path::new("/proc/self/exe");
        let mut program = Program::read(itself)?;
        // In a process table the real name is clearer than `exe`, but it is used only while it still leads
        // to the same file.
        if let (Ok(named), Ok(link)) = (std::env::current_exe(), std::fs::metadata(itself))
            && std::fs::metadata(&named)
                .is_ok_and(|file| (file.dev(), file.ino()) == (link.dev(), link.ino()))
        {
            program.path = named;
        }
        Ok(program)
    }

    /// Reads the executable at `path` and assumes that it is for this machine.
    pub fn read(path: &Path) -> Result<Program, ProgramError> {
        let bytes = std::fs::read(path).map_err(|source| ProgramError::Read {
            path: path.to_owned(),
            source,
        })?;
        let machine = nix::sys::utsname::uname().map_err(ProgramError::Machine)?;
        Ok(Program {
            path: path.to_owned(),
            digest: digest_of(&bytes),
            bytes: Arc::new(bytes),
            arch: machine.machine().to_string_lossy().into_owned(),
        })
    }
}

/// Digest of the executable of this process, as [`Program::digest`], without keeping its bytes in memory.
pub fn own_digest() -> Result<String, ProgramError> {
    const PIECE_BYTES: usize = 64 << 10;
    let path = Path::new("/proc/self/exe");
    let failed = |source| ProgramError::Read {
        path: path.to_owned(),
        source,
    };
    let mut file = std::fs::File::open(path).map_err(failed)?;
    let (mut digest, mut piece) = (Sha256::new(), vec![0; PIECE_BYTES]);
    loop {
        match file.read(&mut piece) {
            Ok(0) => return Ok(hexadecimal(&digest.finalize())),
            Ok(got) => digest.update(&piece[..got]),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(failed(error)),
        }
    }
}

/// SHA-256 in lower-case hexadecimal digits.
pub fn digest_of(bytes: &[u8]) -> String {
    hexadecimal(&Sha256::digest(bytes))
}

fn hexadecimal(digest: &[u8]) -> String {
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_current_executable_is_read_and_named() {
        let program = Program::current().unwrap();
        assert_eq!(own_digest().unwrap(), program.digest);
        assert_eq!(program.digest.len(), 64);
        assert!(program.bytes.starts_with(b"\x7fELF"));
        assert!(!program.arch.is_empty());
    }

    #[test]
    fn a_digest_is_the_usual_one() {
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(digest_of(b""), empty);
    }

    #[test]
    fn a_missing_executable_is_named() {
        let error = Program::read(Path::new("/nonexistent/program")).unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("cannot read the executable /nonexistent/program: ")
        );
    }
}
