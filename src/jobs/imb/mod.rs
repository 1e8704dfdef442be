//! The Intel MPI Benchmarks without MPI: messages between processes.
//!
//! Read next: [`messages`] for one repetition of each benchmark of messages, [`windows`] for those of windows, [`files`] for those of files,
//! [`act`] for what they have in common, [`Player`] for a rank's part in a table, [`contents`] for the contents of buffers and the expected
//! data, `plan/imb/` for the rules.

mod act;
mod compute;
pub(crate) mod contents;
pub(crate) mod files;
mod messages;
mod player;
mod windows;

pub(crate) use player::Player;

use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::ranks::RankError;
use crate::record::TroubleKind;
use crate::sys::why;

/// Reason why a table was not measured to its end.
#[derive(Debug, Error)]
pub(crate) enum PlayerError {
    /// A message could not be sent or received.
    #[error(transparent)]
    Rank(#[from] RankError),
    /// A file could not be used.
    #[error("cannot {what} {}: {}", path.display(), why(.source))]
    File {
        /// Failed operation.
        what: &'static str,
        /// Path of the file.
        path: PathBuf,
        /// Reason.
        source: std::io::Error,
    },
    /// Ranks on different hosts see different files.
    #[error("{} is not the file that the first rank has made: --io-path must be on a file system that all hosts share", path.display())]
    NotShared {
        /// Path of the file.
        path: PathBuf,
    },
}

impl PlayerError {
    /// Error of a failed operation on a file.
    fn file(what: &'static str, path: &Path, source: std::io::Error) -> Self {
        let path = path.to_owned();
        Self::File { what, path, source }
    }

    /// Kind of this failure, which ranks it among others.
    pub(crate) fn kind(&self) -> TroubleKind {
        match self {
            Self::Rank(error) => error.kind(),
            // The process that ended the run has removed the folder too.
            Self::File { path, source, .. }
                if source.kind() == std::io::ErrorKind::NotFound && is_below_a_run(path) =>
            {
                TroubleKind::Peer
            }
            Self::File { .. } => TroubleKind::Resource,
            Self::NotShared { .. } => TroubleKind::Usage,
        }
    }
}

/// True if a file is inside a run's folder. The folder itself does not count.
fn is_below_a_run(path: &Path) -> bool {
    let name = path.file_name().and_then(std::ffi::OsStr::to_str);
    name.is_some_and(|name| name.starts_with("IMB_out"))
}
