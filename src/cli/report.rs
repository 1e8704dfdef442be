//! `pipebench report`, `list`, `compare` and `merge`: what was kept of runs, read again.

use std::path::{Path, PathBuf};

use clap::ValueEnum;

use crate::exit;
use crate::record::{Record, VerdictWord};
use crate::report::compare::Comparison;
use crate::report::merge::Merged;
use crate::report::{csv, json, junit, listing, metrics, page, text};
use crate::store::{self, runs};

use super::terminal::{complain, write_all};

/// Rows of a comparison beside a report.
const ROWS: usize = 12;

/// Form of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// The summary, as after the run.
    Text,
    /// One page with everything: heat map, rates over time, evidence, conditions, room for signatures.
    Html,
    /// A row per port, link and interface.
    Csv,
    /// The record itself.
    Json,
    /// A case per port direction, for CI.
    Junit,
    /// For Prometheus and its like.
    Openmetrics,
}

/// Where runs are looked for.
#[derive(Debug, Clone, clap::Args)]
pub struct Shelf {
    /// Folder in which RUN is looked for by the beginning of its name
    ///
    /// A RUN may also be a record or the folder of a run, by its path. Default: this folder. Example: --in results
    #[arg(long = "in", value_name = "DIR", default_value = ".")]
    pub folder: PathBuf,
}

/// Make a report of a run that was kept.
#[derive(Debug, Clone, clap::Args)]
pub struct ReportArguments {
    /// Which run: a record, a run's folder, or the beginning of its name
    ///
    /// Example: pipebench report pb-20261121
    #[arg(value_name = "RUN")]
    pub run: String,

    /// Form of the report
    ///
    /// Default text. Example: --format html
    #[arg(long, short = 'f', value_name = "FORMAT", value_enum, default_value_t = Format::Text)]
    pub format: Format,

    /// File to write it to; - is standard output
    ///
    /// Default -. Example: --output sheet.html
    #[arg(long, short = 'o', value_name = "FILE", default_value = "-")]
    pub output: PathBuf,

    /// An earlier run to compare it with, in text and on the page
    ///
    /// No default. Example: --baseline pb-20261101
    #[arg(long, value_name = "RUN")]
    pub baseline: Option<String>,

    /// A run whose curves of patterns stand in the same pictures, on the page; may be repeated
    ///
    /// For runs of `pipebench imb`. No default. Example: --beside pb-20261101
    #[arg(long, value_name = "RUN")]
    pub beside: Vec<String>,

    /// Where runs are.
    #[command(flatten)]
    pub shelf: Shelf,
}

/// List the runs that were kept in a folder.
#[derive(Debug, Clone, clap::Args)]
pub struct ListArguments {
    /// Folder that was given as --output
    ///
    /// Default: this folder. Example: pipebench list results
    #[arg(value_name = "DIR", default_value = ".")]
    pub folder: PathBuf,
}

/// Compare a run with a later one.
#[derive(Debug, Clone, clap::Args)]
pub struct CompareArguments {
    /// The earlier run
    ///
    /// Example: pipebench compare pb-20261101 pb-20261121
    #[arg(value_name = "BEFORE")]
    pub before: String,

    /// The later run
    ///
    /// Example: pipebench compare pb-20261101 pb-20261121
    #[arg(value_name = "NOW")]
    pub now: String,

    /// By how much a port may carry less, in per cent
    ///
    /// Default 5. Example: --tolerance 2
    #[arg(long, value_name = "PERCENT", default_value_t = 5.0)]
    pub tolerance: f64,

    /// Where runs are.
    #[command(flatten)]
    pub shelf: Shelf,
}

/// Put several cablings of a switch into one sheet.
#[derive(Debug, Clone, clap::Args)]
pub struct MergeArguments {
    /// The runs, two or more
    ///
    /// Example: pipebench merge pb-20261120 pb-20261121
    #[arg(value_name = "RUN", num_args = 2.., required = true)]
    pub runs: Vec<String>,

    /// Where runs are.
    #[command(flatten)]
    pub shelf: Shelf,
}

/// What the long help of `compare` says of its exit code.
pub const COMPARE_LONG: &str = "Compares a run with a later one, port by port, and says what became of each fault: whether it followed the host \
    that was moved to another switch port, or stayed with the port.\n\n\
    Exit codes: 0; 1 a port carries less than before by more than --tolerance, or something is at fault that was not; 2 bad usage.";

/// What the long help of `merge` says.
pub const MERGE_LONG: &str = "Puts several runs into one sheet by ports of the switch: with half as many hosts as ports, load one half, plug \
    the hosts into the other, load that, and merge. Host files must name the ports (switchport=).\n\n\
    Exit codes: that of the worst of the runs; 2 bad usage.";

/// A run that was read.
pub struct Kept {
    /// Its record.
    pub record: Record,
    /// Text of the record as it stands in its file.
    pub text: String,
    /// Where it is.
    pub path: PathBuf,
}

/// Reads a run; complains and gives the exit code if that cannot be done.
pub fn read(name: &str, folder: &Path) -> Result<Kept, u8> {
    let fail = |error: &dyn std::fmt::Display| {
        complain(&error.to_string());
        exit::USAGE
    };
    let path = runs::find(name, folder).map_err(|error| fail(&error))?;
    let text = runs::read(&path).map_err(|error| fail(&error))?;
    let record =
        json::read(&text).map_err(|error| fail(&format!("{}: {error}", path.display())))?;
    Ok(Kept { record, text, path })
}

/// Makes a report; returns the exit code.
pub fn report(words: &ReportArguments) -> u8 {
    made(words).unwrap_or_else(|code| code)
}

fn made(words: &ReportArguments) -> Result<u8, u8> {
    let kept = read(&words.run, &words.shelf.folder)?;
    let baseline = words.baseline.as_deref();
    let baseline = baseline
        .map(|name| read(name, &words.shelf.folder))
        .transpose()?;
    let comparison = baseline.map(|before| Comparison::of(&before.record, &kept.record));
    if comparison.is_some() && !matches!(words.format, Format::Text | Format::Html) {
        complain("--baseline stands in text and on the page only (--format text or html)");
        return Err(exit::USAGE);
    }
    let record = &kept.record;
    let others = beside_of(words, record)?;
    let fail = |error: &dyn std::fmt::Display| {
        complain(&error.to_string());
        exit::BUG
    };
    let report = match words.format {
        Format::Text => {
            let mut text = text::summary(record);
            if let Some(comparison) = &comparison {
                text.push_str(&beside(comparison));
            }
            text + &seal(&kept)
        }
        Format::Html => page::write(record, comparison.as_ref(), &others),
        Format::Csv => csv::write(record).map_err(|error| fail(&error))?,
        Format::Json => kept.text.clone(),
        Format::Junit => junit::write(record).map_err(|error| fail(&error))?,
        Format::Openmetrics => metrics::write(record),
    };
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

/// The runs whose curves stand beside those of `record`.
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
        let kept = read(name, &words.shelf.folder)?;
        all.push(kept.record);
    }
    if std::iter::once(record)
        .chain(&all)
        .any(|run| run.patterns.is_empty())
    {
        return refuse(
            "--beside is for runs of pipebench imb: one of these has no patterns".to_owned(),
        );
    }
    Ok(all)
}

/// A comparison as it stands below a summary.
pub fn beside(comparison: &Comparison) -> String {
    let lines = comparison.lines(ROWS);
    format!("baseline    {}\n", lines.join("\n"))
}

/// The record's place and digest, so that a sheet on paper belongs to a file.
fn seal(kept: &Kept) -> String {
    let digest = launcher::digest_of(kept.text.as_bytes());
    format!("record {}  sha256 {digest}\n", kept.path.display())
}

/// Lists runs; returns the exit code.
pub fn list(words: &ListArguments) -> u8 {
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
            "no runs in {} (runs are kept with --output DIR)\n",
            words.folder.display()
        ));
    }
    print(&listing::table(&rows))
}

/// Compares two runs; returns the exit code.
pub fn compare(words: &CompareArguments) -> u8 {
    if !(0.0..=100.0).contains(&words.tolerance) {
        complain(&format!(
            "--tolerance {} is no share in per cent (0 to 100)",
            words.tolerance
        ));
        return exit::USAGE;
    }
    let both = read(&words.before, &words.shelf.folder)
        .and_then(|before| Ok((before, read(&words.now, &words.shelf.folder)?)));
    let (before, now) = match both {
        Ok(both) => both,
        Err(code) => return code,
    };
    let comparison = Comparison::of(&before.record, &now.record);
    let mut text = comparison.lines(usize::MAX).join("\n");
    text.push('\n');
    let worse = comparison.is_worse(words.tolerance / 100.0);
    match print(&text) {
        exit::OK if worse => exit::FAIL,
        code => code,
    }
}

/// Puts runs together; returns the exit code.
pub fn merge(words: &MergeArguments) -> u8 {
    let kept: Result<Vec<Kept>, u8> = words
        .runs
        .iter()
        .map(|name| read(name, &words.shelf.folder))
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
