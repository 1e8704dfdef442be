//! Result files of a run: checks that they can be written, and writes them.

use std::path::Path;

use crate::record::Record;
use crate::report::json;
use crate::store::bounded::RECORD_BYTES;
use crate::store::runs::JOURNAL;
use crate::units::show_bytes;
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
    outcome.inspect_err(|error| complain(error)).is_ok()
}

/// Writes the result of a command; returns the exit code.
pub(super) fn keep_result(path: &Path, content: String) -> u8 {
    match keep_file(path, Ok(content)) {
        true => exit::OK,
        false => exit::NOT_WRITTEN,
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
    let bytes = whole.as_ref().map_or(0, |text| text.len() as u64);
    let kept = keep_file(&path, whole)
        & keep_file(&folder.join(name), table)
        & keep_file(&folder.join("summary.txt"), Ok(summary.to_owned()));
    if kept {
        // The record contains everything in the journal.
        let (Ok(()) | Err(_)) = std::fs::remove_file(folder.join(JOURNAL));
        terminal.result(&format!("record {}\n", path.display()));
        if let Some(note) = too_long_to_read(bytes) {
            terminal.result(&note);
        }
    }
    kept
}

/// Removes the folder of a run in which nothing ran, with its journal.
pub(super) fn forget_folder(folder: &Path) {
    let journal = std::fs::remove_file(folder.join(JOURNAL));
    // A folder that stays is empty or has files that others put there.
    let (Ok(()) | Err(_)) = journal.and_then(|()| std::fs::remove_dir(folder));
}

/// A note if the record of a large run is too long for what reads records.
fn too_long_to_read(bytes: u64) -> Option<String> {
    let (limit, size) = (show_bytes(RECORD_BYTES), show_bytes(bytes));
    let note = format!(
        "note: the record is {size} long; report, compare, retest and the page read up to {limit}\n"
    );
    (bytes > RECORD_BYTES).then_some(note)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_that_nothing_here_reads_again_is_told() {
        assert_eq!(too_long_to_read(RECORD_BYTES), None);
        let note = too_long_to_read(80 << 20).unwrap();
        assert!(
            note.contains("is 80 MiB long") && note.contains("up to 64 MiB"),
            "{note}"
        );
    }
}
