//! `pipebench report`, `list`, `compare` and `merge`: read stored runs.

use std::fs::Metadata;
use std::path::{Path, PathBuf};

use crate::exit;
use crate::record::{Outcome, Record, VerdictWord};
use crate::report::compare::Comparison;
use crate::report::compared;
use crate::report::format::{Format, Source};
use crate::report::merge::Merged;
use crate::report::{anonymous, json, listing, page};
use crate::store::runs;

use super::args::{CompareArguments, ListArguments, MergeArguments, ReportArguments};
use super::files::keep_result;
use super::pdf;
use super::terminal::{complain, fail, refuse, tell};

/// A stored run.
pub(super) struct Kept {
    /// Its record.
    pub record: Record,
    /// SHA-256 of its file.
    digest: String,
    /// Path of the record.
    pub path: PathBuf,
    /// Owner and mode of the file that was read.
    pub file: Metadata,
}

/// Reads a run. On failure, prints the reason and returns the exit code as the error.
pub(super) fn read(name: &str, folder: &Path) -> Result<Kept, u8> {
    let path = runs::find(name, folder).map_err(|error| refuse(&error))?;
    let (text, file) = runs::read_with_facts(&path).map_err(|error| refuse(&error))?;
    let digest = launcher::digest_of(text.as_bytes());
    let mut record =
        json::read_owned(text).map_err(|error| refuse(&format!("{}: {error}", path.display())))?;
    record.place = Some(runs::place_of(&path));
    Ok(Kept {
        record,
        digest,
        path,
        file,
    })
}

/// Makes a report; returns the exit code.
pub(super) fn report(words: &ReportArguments) -> Result<u8, u8> {
    let extension = words.output.extension();
    if extension.is_some_and(|extension| extension.eq_ignore_ascii_case("pdf")) {
        let file = words.output.display();
        return Err(refuse(&format!(
            "--output {file}: no --format is a PDF (--pdf {file})"
        )));
    }
    let mut kept = read(&words.run, words.within.path())?;
    let baseline = words.baseline.as_deref();
    let baseline = baseline
        .map(|name| read(name, words.within.path()))
        .transpose()?;
    let mut baseline = baseline.map(|kept| kept.record);
    let format = match &words.pdf {
        Some(_) => Format::Html,
        None => words.format,
    };
    if baseline.is_some() && !matches!(format, Format::Text | Format::Html) {
        let text = "--baseline needs --format text or html";
        return Err(refuse(&text));
    }
    let mut others = beside_of(words, format, &kept.record)?;
    if words.anonymise {
        let shown = std::iter::once(&mut kept.record);
        let shown = shown.chain(&mut baseline).chain(&mut others);
        let made = anonymous::anonymise(shown.collect());
        made.map_err(|error| fail(&error, exit::BUG))?;
    }
    let record = &kept.record;
    let comparison = baseline.map(|before| Comparison::of(&before, record));
    if let Some(to) = &words.pdf {
        return pdf::print(&page::write(record, comparison.as_ref(), &others), to);
    }
    // The text is kept in memory beside its record only where it is the report.
    let text = match (format, words.anonymise) {
        (Format::Json, true) => json::write(record).map_err(|error| fail(&error, exit::BUG))?,
        (Format::Json, false) => runs::read(&kept.path).map_err(|error| refuse(&error))?,
        _ => String::new(),
    };
    let source = Source {
        record,
        text: &text,
        baseline: comparison.as_ref(),
        beside: &others,
    };
    let report = (format.row().write)(&source);
    let mut report = report.map_err(|error| fail(&error, exit::BUG))?;
    if format == Format::Text {
        // A printed sheet identifies its file.
        let digest = &kept.digest;
        report += &match words.anonymise {
            true => format!("names replaced; original record sha256 {digest}\n"),
            false => format!("record {}  sha256 {digest}\n", kept.path.display()),
        };
    }
    match format == Format::Text && words.output == Path::new("-") {
        true => Ok(tell(&report)),
        false => Ok(keep_result(&words.output, report)),
    }
}

/// Runs whose curves the page shows next to those of `record`.
fn beside_of(words: &ReportArguments, format: Format, record: &Record) -> Result<Vec<Record>, u8> {
    let refuse = |text: String| Err(refuse(&text));
    if words.beside.is_empty() {
        return Ok(Vec::new());
    }
    if format != Format::Html {
        return refuse("--beside needs --format html".to_owned());
    }
    if words.beside.len() > page::MOST_BESIDE {
        let (count, most) = (words.beside.len(), page::MOST_BESIDE);
        return refuse(format!("--beside: {count} runs, at most {most}"));
    }
    let all = records(&words.beside, words.within.path())?;
    if std::iter::once(record)
        .chain(&all)
        .any(|run| !matches!(run.outcome, Outcome::Imb(_)))
    {
        return refuse(
            "--beside needs runs of pipebench imb: one of these runs has no patterns".to_owned(),
        );
    }
    Ok(all)
}

/// Records of several runs.
fn records(names: &[String], folder: &Path) -> Result<Vec<Record>, u8> {
    let records = names.iter().map(|name| Ok(read(name, folder)?.record));
    records.collect()
}

/// Lists runs; returns the exit code.
pub(super) fn list(words: &ListArguments) -> Result<u8, u8> {
    let folder = words.folder.as_ref().unwrap_or(&words.place);
    let paths = runs::all(folder).map_err(|error| refuse(&error))?;
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
        let hint = match folder == Path::new(".") {
            true => ", or name a folder: pipebench list results",
            false => "",
        };
        return Ok(tell(&format!(
            "no runs in {} (use --folder DIR to store runs{hint})\n",
            folder.display()
        )));
    }
    Ok(tell(&listing::table(&rows)))
}

/// Compares two runs; returns the exit code.
pub(super) fn compare(words: &CompareArguments) -> Result<u8, u8> {
    if !(0.0..=100.0).contains(&words.tolerance) {
        return Err(refuse(&format!(
            "--tolerance {}: from 0 to 100 percent",
            words.tolerance
        )));
    }
    let before = read(&words.before, words.within.path())?;
    let now = read(&words.now, words.within.path())?;
    if let Some(refusal) = compared::refusal(&before.record, &now.record.plan.work) {
        return Err(refuse(&refusal));
    }
    let comparison = Comparison::of(&before.record, &now.record);
    let mut text = comparison.lines(usize::MAX).join("\n") + "\n";
    let worse = comparison.worse(words.tolerance);
    if let Some(why) = &worse {
        text += &format!("worse: {why}\n");
    }
    match tell(&text) {
        exit::OK if worse.is_some() => Ok(exit::FAIL),
        code => Ok(code),
    }
}

/// Merges runs; returns the exit code.
pub(super) fn merge(words: &MergeArguments) -> Result<u8, u8> {
    let records = records(&words.runs, words.within.path())?;
    let merged = Merged::of(&records).map_err(|error| refuse(&error))?;
    let text = merged.lines().join("\n") + "\n";
    match (tell(&text), merged.word) {
        (exit::OK, VerdictWord::Invalid) => Ok(exit::INVALID),
        (exit::OK, word) => Ok(exit::of_verdict(word)),
        (code, _) => Ok(code),
    }
}
