//! The Intel MPI Benchmarks' patterns, without MPI: messages between processes.
//!
//! Read next: [`pattern`] for one repetition of each benchmark of messages, [`windows`] for those of windows, [`files`] for those of files, [`act`] for what they have in common, [`Player`] for a rank's part in a table, [`contents`] for what stands in buffers
//! and what should arrive; `plan/imb.rs` has the rules.

mod act;
mod compute;
pub mod contents;
pub mod figures;
pub mod files;
mod pattern;
mod player;
mod windows;

pub use player::Player;

use std::path::PathBuf;

use thiserror::Error;

use crate::ranks::RankError;
use crate::record::TroubleKind;
use crate::sys::why;

/// Why a table was not measured to its end.
#[derive(Debug, Error)]
pub enum PlayerError {
    /// A message did not come or go.
    #[error(transparent)]
    Rank(#[from] RankError),
    /// A file could not be used.
    #[error("cannot {what} {}: {}", path.display(), why(.source))]
    File {
        /// What was to be done.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// Reason.
        source: std::io::Error,
    },
    /// Ranks on several hosts see several files.
    #[error("{} is not the file that the first rank has made: --io-path must be on a file system that all hosts share", path.display())]
    NotShared {
        /// The file.
        path: PathBuf,
    },
}

impl PlayerError {
    /// How this failure ranks among others.
    pub fn kind(&self) -> TroubleKind {
        match self {
            Self::Rank(error) => error.kind(),
            // Whoever ended the run took the folder away, too.
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

/// Whether a file is in the folder of a run, and not that folder itself.
fn is_below_a_run(path: &std::path::Path) -> bool {
    let name = path.file_name().and_then(std::ffi::OsStr::to_str);
    name.is_some_and(|name| name.starts_with("IMB_out"))
}
