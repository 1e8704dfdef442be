//! Result files of a run: checks that they can be written, and writes them.

use std::path::Path;

use crate::record::Record;
use crate::report::json;
use crate::store::runs::JOURNAL;
use crate::{exit, store};

use super::terminal::{Terminal, complain, write_all};

/// Checks that results can be written to `paths`, before anything is measured for them, and prints the reason if not. `folder` can be
/// missing, since the run creates it.
pub(super) fn can_keep<'a>(
    paths: impl IntoIterator<Item = &'a Path>,
    folder: Option<&Path>,
) -> bool {
    let is_made = |path: &Path| {
        let parent = path.parent();
        parent.is_some() && parent == folder && folder.is_some_and(|folder| !folder.exists())
    };
    let files = paths
        .into_iter()
        .filter(|path| *path != Path::new("-") && !is_made(path));
    let checked = files.map(store::check_writable);
    let failed: Vec<_> = checked.filter_map(Result::err).collect();
    for error in &failed {
        complain(&error.to_string());
    }
    failed.is_empty()
}

/// Writes a result to a file, or to standard output for `-`. Prints the reason and returns false if it cannot.
pub(super) fn keep_file(path: &Path, content: Result<String, String>) -> bool {
    let outcome = content.and_then(|content| {
        if path == Path::new("-") {
            let written = write_all(&mut std::io::stdout().lock(), &content);
            let lost = || "cannot write to standard output".to_owned();
            return written.then_some(()).ok_or_else(lost);
        }
        store::write_file(path, &content).map_err(|error| error.to_string())
    });
    match outcome {
        Ok(()) => true,
        Err(error) => {
            complain(&error);
            false
        }
    }
}

/// Writes record, table and summary into the folder of a run and prints the record's path. Returns false if a file cannot be written.
pub(super) fn keep_folder(
    folder: &Path,
    record: &Record,
    (name, table): (&str, Result<String, String>),
    summary: &str,
    terminal: &mut Terminal,
) -> bool {
    let path = folder.join("record.json");
    let whole = json::write(record).map_err(|error| error.to_string());
    let kept = keep_file(&path, whole)
        & keep_file(&folder.join(name), table)
        & keep_file(&folder.join("summary.txt"), Ok(summary.to_owned()));
    if kept {
        // The record contains everything in the journal.
        match std::fs::remove_file(folder.join(JOURNAL)) {
            Ok(()) | Err(_) => {}
        }
        terminal.result(&format!("record {}\n", path.display()));
    }
    kept
}

/// Final exit code: a result that was not written never changes a verdict, only a success.
pub(super) fn exit_code(measured: u8, written: bool, terminal: &Terminal) -> u8 {
    let lost = terminal.has_lost();
    if lost {
        complain("cannot write to standard output");
    }
    match measured {
        exit::OK if lost || !written => exit::NOT_WRITTEN,
        code => code,
    }
}
