//! Paths of a group's files.

use std::io;
use std::path::{Path, PathBuf};

use crate::jobs::imb::PlayerError;
use crate::plan::imb::{FileBenchmark, Pointer};

/// Paths of a group's files, and their size.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    /// The file.
    pub file: PathBuf,
    /// File with the shared position of ranks.
    pub pointer: PathBuf,
    /// Size before the measurement, in bytes.
    pub size: u64,
}

impl Place {
    /// Paths in a folder, for the rank at a place of a group (guide 5.2.3.2).
    pub(crate) fn of(
        folder: &Path,
        benchmark: Option<FileBenchmark>,
        group: Option<usize>,
        place: usize,
        size: u64,
    ) -> Self {
        let mut name = "IMB_out".to_owned();
        if let Some(group) = group {
            name += &format!("_g{group}");
        }
        if benchmark.is_some_and(|one| one.pointer() == Pointer::Private) {
            name += &format!("_{place}");
        }
        Self {
            pointer: folder.join(format!("{name}.pointer")),
            file: folder.join(name),
            size,
        }
    }

    /// Error of a failed call.
    pub(super) fn failed(&self, what: &'static str, source: io::Error) -> PlayerError {
        PlayerError::file(what, &self.file, source)
    }
}
