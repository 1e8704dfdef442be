//! Stored runs: finds a run by name, and all runs of a folder.

use std::fs::{self, Metadata};
use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::sys::why;

use super::bounded;

/// File in a run's folder that holds its record.
pub(crate) const RECORD: &str = "record.json";
/// File in a run's folder that grows during the run.
pub(crate) const JOURNAL: &str = "journal.jsonl";
/// Prefix of run names.
const PREFIX: &str = "pb-";

/// Reason why a run was not found.
#[derive(Debug, Error)]
pub(crate) enum FindError {
    /// No run has that name.
    #[error(
        "no run {0:?} (a record, the folder of a run, or the beginning of a run's name in {1}; see 'pipebench list')"
    )]
    Unknown(String, String),
    /// Several runs begin with that name.
    #[error("{0:?} is the beginning of several runs: {1} (the newest: {2})")]
    Several(String, String, String),
    /// The run exists, but cannot be read.
    #[error("cannot read {}: {}", .0.display(), why(.1))]
    Unreadable(PathBuf, io::Error),
}

/// Finds the record that `name` means: a file, the folder of a run, or the beginning of a run's name below `folder`.
pub(crate) fn find(name: &str, folder: &Path) -> Result<PathBuf, FindError> {
    let path = Path::new(name);
    if path.is_dir() && path.join(RECORD).is_file() {
        return Ok(path.join(RECORD));
    }
    if path.is_file() {
        return Ok(path.to_owned());
    }
    let unknown = || FindError::Unknown(name.to_owned(), folder.display().to_string());
    if name.is_empty() || name.contains('/') {
        return Err(unknown());
    }
    let begins = |path: &PathBuf| {
        let own = name_of(path);
        own.starts_with(name) || own.starts_with(&format!("{PREFIX}{name}"))
    };
    let found: Vec<PathBuf> = all(folder)?.into_iter().filter(begins).collect();
    match &found[..] {
        [] => Err(unknown()),
        [one] => Ok(one.clone()),
        several => {
            let names: Vec<String> = several.iter().take(4).map(|path| name_of(path)).collect();
            let more = if several.len() > 4 { ", ..." } else { "" };
            let newest = several
                .last()
                .map_or_else(String::new, |path| name_of(path));
            let shown = names.join(", ") + more;
            Err(FindError::Several(name.to_owned(), shown, newest))
        }
    }
}

/// Finds the journal of a run that left no record, by the run's folder or the beginning of its name. Returns its name and text.
pub(crate) fn find_journal(name: &str, folder: &Path) -> Option<(String, String)> {
    let named = |path: &Path| {
        let text = bounded::kept(&path.join(JOURNAL), bounded::RECORD_BYTES).ok()?;
        Some((name_of_folder(path), text))
    };
    if Path::new(name).is_dir() {
        return named(Path::new(name));
    }
    let entries = fs::read_dir(folder).ok()?.flatten();
    let own = |path: &PathBuf| {
        let known = name_of_folder(path);
        known.starts_with(PREFIX) && known.starts_with(name) && path.join(JOURNAL).is_file()
    };
    let found: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(own).collect();
    match &found[..] {
        [one] if !name.is_empty() => named(one),
        _ => None,
    }
}

/// Lists the records of all runs below a folder, by name and so by date.
pub(crate) fn all(folder: &Path) -> Result<Vec<PathBuf>, FindError> {
    let fail = |error| FindError::Unreadable(folder.to_owned(), error);
    let mut records = Vec::new();
    for entry in fs::read_dir(folder).map_err(fail)? {
        let path = entry.map_err(fail)?.path();
        if name_of_folder(&path).starts_with(PREFIX) && path.join(RECORD).is_file() {
            records.push(path.join(RECORD));
        }
    }
    records.sort();
    Ok(records)
}

/// Reads the text of a record. One that is not in a run folder was named by the user and can be a link.
pub(crate) fn read(path: &Path) -> Result<String, FindError> {
    Ok(read_with_facts(path)?.0)
}

/// Reads the text of a record, with the facts of the file that was read.
pub(crate) fn read_with_facts(path: &Path) -> Result<(String, Metadata), FindError> {
    bounded::with_facts(path, bounded::RECORD_BYTES, is_in_run_folder(path))
        .map_err(|error| FindError::Unreadable(path.to_owned(), error))
}

/// Name of a record's run: that of its folder, or the path of a file that is not in a run folder.
pub(crate) fn name_of(record: &Path) -> String {
    match is_in_run_folder(record) {
        true => record.parent().map_or_else(String::new, name_of_folder),
        false => record.display().to_string(),
    }
}

/// Path by which [`find`] finds a record from the current folder: that of its run's folder, or its own.
pub(crate) fn place_of(record: &Path) -> PathBuf {
    let folder = record.parent().filter(|_| is_in_run_folder(record));
    let folder = folder.map(|folder| folder.strip_prefix(".").unwrap_or(folder));
    let named = folder.filter(|folder| !folder.as_os_str().is_empty());
    named.unwrap_or(record).to_owned()
}

fn is_in_run_folder(record: &Path) -> bool {
    record.file_name().is_some_and(|name| name == RECORD)
}

fn name_of_folder(folder: &Path) -> String {
    let name = folder.file_name().unwrap_or(folder.as_os_str());
    name.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_found_by_path_and_by_the_beginning_of_its_name() {
        let folder = tempfile::tempdir().unwrap();
        for name in [
            "pb-20261121-101500-abcdef",
            "pb-20261122-101500-123456",
            "other",
        ] {
            fs::create_dir(folder.path().join(name)).unwrap();
            fs::write(folder.path().join(name).join(RECORD), "x").unwrap();
        }
        let found = |name: &str| find(name, folder.path()).map(|path| name_of(&path));
        assert_eq!(found("pb-20261122").unwrap(), "pb-20261122-101500-123456");
        assert_eq!(found("20261121").unwrap(), "pb-20261121-101500-abcdef");
        let whole = folder.path().join("other");
        assert_eq!(found(&whole.display().to_string()).unwrap(), "other");
        let file = whole.join(RECORD).display().to_string();
        assert_eq!(found(&file).unwrap(), "other");
        assert_eq!(all(folder.path()).unwrap().len(), 2);
        let several = found("pb-2026").unwrap_err().to_string();
        assert!(
            several.ends_with("(the newest: pb-20261122-101500-123456)"),
            "{several}"
        );
        for nothing in ["other", "", "no/such"] {
            let error = found(nothing).unwrap_err();
            assert!(matches!(error, FindError::Unknown(..)), "{error}");
        }
        for (record, place) in [
            ("./pb-a/record.json", "pb-a"),
            ("results/pb-a/record.json", "results/pb-a"),
            ("record.json", "record.json"),
            ("kept/a.json", "kept/a.json"),
        ] {
            assert_eq!(place_of(Path::new(record)), Path::new(place));
        }
        let missing = find("x", &folder.path().join("none")).unwrap_err();
        assert!(matches!(missing, FindError::Unreadable(..)), "{missing}");
    }
}
