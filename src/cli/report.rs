//! `pipebench report`, `list`, `compare` and `merge`: read stored runs.

use std::path::{Path, PathBuf};

use crate::exit;
use crate::record::{Outcome, Record, VerdictWord};
use crate::report::compare::Comparison;
use crate::report::compared;
use crate::report::format::{Format, Source};
use crate::report::merge::Merged;
use crate::report::{json, listing, page};
use crate::store::{self, runs};

use super::args::{CompareArguments, ListArguments, MergeArguments, ReportArguments};
use super::terminal::{complain, write_all};

/// A stored run.
pub(super) struct Kept {
    /// Its record.
    pub record: Record,
    /// SHA-256 of its file.
    digest: String,
    /// Path of the record.
    pub path: PathBuf,
}

/// Reads a run. On failure, prints the reason and returns the exit code as the error.
pub(super) fn read(name: &str, folder: &Path) -> Result<Kept, u8> {
    let fail = |error: &dyn std::fmt::Display| {
        complain(&error.to_string());
        exit::USAGE
    };
    let path = runs::find(name, folder).map_err(|error| fail(&error))?;
    let text = runs::read(&path).map_err(|error| fail(&error))?;
    let digest = launcher::digest_of(text.as_bytes());
    let record =
        json::read_owned(text).map_err(|error| fail(&format!("{}: {error}", path.display())))?;
    Ok(Kept {
        record,
        digest,
        path,
    })
}

/// Makes a report; returns the exit code.
pub(super) fn report(words: &ReportArguments) -> u8 {
    made(words).unwrap_or_else(|code| code)
}

fn made(words: &ReportArguments) -> Result<u8, u8> {
    let kept = read(&words.run, words.within.path())?;
    let baseline = words.baseline.as_deref();
    let baseline = baseline
        .map(|name| read(name, words.within.path()))
        .transpose()?;
    let comparison = baseline.map(|before| Comparison::of(&before.record, &kept.record));
    if comparison.is_some() && !matches!(words.format, Format::Text | Format::Html) {
        complain("--baseline stands in text and on the page only (--format text or html)");
        return Err(exit::USAGE);
    }
    let record = &kept.record;
    let others = beside_of(words, record)?;
    // The text is kept in memory beside its record only where it is the report.
    let text = match words.format {
        Format::Json => runs::read(&kept.path).map_err(|error| {
            complain(&error.to_string());
            exit::BUG
        })?,
        _ => String::new(),
    };
    let source = Source {
        record,
        text: &text,
        baseline: comparison.as_ref(),
        beside: &others,
    };
    let mut report = (words.format.row().write)(&source).map_err(|error| {
        complain(&error.to_string());
        exit::BUG
    })?;
    if words.format == Format::Text {
        report += &seal(&kept);
    }
    if words.output.as_path() == Path::new("-") {
        return Ok(print(&report));
    }
    match store::write_file(&words.output, &report) {
        Ok(()) => Ok(exit::OK),
        Err(error) => {
            complain(&error.to_string());
            Ok(exit::NOT_WRITTEN)
        }
    }
}

/// Runs whose curves the page shows next to those of `record`.
fn beside_of(words: &ReportArguments, record: &Record) -> Result<Vec<Record>, u8> {
    let refuse = |text: String| {
        complain(&text);
        Err(exit::USAGE)
    };
    if words.beside.is_empty() {
        return Ok(Vec::new());
    }
    if words.format != Format::Html {
        return refuse("--beside stands on the page only (--format html)".to_owned());
    }
    if words.beside.len() > page::MOST_BESIDE {
        let most = page::MOST_BESIDE;
        return refuse(format!(
            "--beside: {} runs, at most {most}",
            words.beside.len()
        ));
    }
    let mut all = Vec::new();
    for name in &words.beside {
        let kept = read(name, words.within.path())?;
        all.push(kept.record);
    }
    if std::iter::once(record)
        .chain(&all)
        .any(|run| !matches!(run.outcome, Outcome::Imb(_)))
    {
        return refuse(
            "--beside is for runs of pipebench imb: one of these has no patterns".to_owned(),
        );
    }
    Ok(all)
}

/// Path and digest of the record, so that a printed sheet identifies its file.
fn seal(kept: &Kept) -> String {
    let (path, digest) = (kept.path.display(), &kept.digest);
    format!("record {path}  sha256 {digest}\n")
}

/// Lists runs; returns the exit code.
pub(super) fn list(words: &ListArguments) -> u8 {
    let paths = match runs::all(&words.folder) {
        Ok(paths) => paths,
        Err(error) => {
            complain(&error.to_string());
            return exit::USAGE;
        }
    };
    let mut rows = Vec::new();
    let mut unreadable = 0;
    for path in paths {
        let name = runs::name_of(&path);
        let read = runs::read(&path).map_err(|error| error.to_string());
        match read.and_then(|text| json::read(&text).map_err(|error| error.to_string())) {
            Ok(record) => rows.push(listing::row(&name, &record)),
            Err(error) => {
                complain(&format!("{name}: {error}"));
                unreadable += 1;
            }
        }
    }
    if rows.is_empty() && unreadable == 0 {
        return print(&format!(
            "no runs in {} (runs are kept with --folder DIR)\n",
            words.folder.display()
        ));
    }
    print(&listing::table(&rows))
}

/// Compares two runs; returns the exit code.
pub(super) fn compare(words: &CompareArguments) -> u8 {
    if !(0.0..=100.0).contains(&words.tolerance) {
        complain(&format!(
            "--tolerance {} is no share in per cent (0 to 100)",
            words.tolerance
        ));
        return exit::USAGE;
    }
    let both = read(&words.before, words.within.path())
        .and_then(|before| Ok((before, read(&words.now, words.within.path())?)));
    let (before, now) = match both {
        Ok(both) => both,
        Err(code) => return code,
    };
    if let Some(refusal) = compared::refusal(&before.record, &now.record.plan.work) {
        complain(&refusal);
        return exit::USAGE;
    }
    let comparison = Comparison::of(&before.record, &now.record);
    let mut text = comparison.lines(usize::MAX).join("\n");
    text.push('\n');
    let worse = comparison.is_worse(words.tolerance / 100.0);
    match print(&text) {
        exit::OK if worse => exit::FAIL,
        code => code,
    }
}

/// Merges runs; returns the exit code.
pub(super) fn merge(words: &MergeArguments) -> u8 {
    let kept: Result<Vec<Kept>, u8> = words
        .runs
        .iter()
        .map(|name| read(name, words.within.path()))
        .collect();
    let records: Vec<Record> = match kept {
        Ok(kept) => kept.into_iter().map(|kept| kept.record).collect(),
        Err(code) => return code,
    };
    let merged = match Merged::of(&records) {
        Ok(merged) => merged,
        Err(error) => {
            complain(&error.to_string());
            return exit::USAGE;
        }
    };
    let mut text = merged.lines().join("\n");
    text.push('\n');
    match (print(&text), merged.word) {
        (exit::OK, VerdictWord::Invalid) => exit::INVALID,
        (exit::OK, word) => exit::of_verdict(word),
        (code, _) => code,
    }
}

fn print(text: &str) -> u8 {
    if write_all(&mut std::io::stdout().lock(), text) {
        return exit::OK;
    }
    complain("cannot write to standard output");
    exit::NOT_WRITTEN
}
