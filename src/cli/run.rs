//! The plain command: plan, conduct, report, exit code.

use std::path::Path;

use crate::conduct::{self, Conditions};
use crate::plan::seal;
use crate::record::{MOST_IN_MATRIX, Record, VerdictWord};
use crate::report::compare::Comparison;
use crate::report::preflight::{self, Readiness};
use crate::report::{csv, dry_run, header, json, text};
use crate::{exit, store};

use super::args::Arguments;
use super::files::{can_keep, exit_code, keep_file, keep_folder};
use super::live::Ticker;
use super::process::{end_with, here, now_ms, random_digits, seed, stand_by};
use super::report::{self, beside};
use super::resolve::{self, Intent};
use super::terminal::{Terminal, complain};
use super::witness::{Identity, Witness};

/// Runs the plain command; returns the exit code.
pub fn run(arguments: &Arguments) -> u8 {
    let intent = match resolve::parse(arguments, seed(), &here()) {
        Ok(intent) => intent,
        Err(error) => {
            complain(&error.to_string());
            return exit::USAGE;
        }
    };
    let baseline = match baseline(arguments) {
        Ok(baseline) => baseline,
        Err(code) => return code,
    };
    execute(arguments, intent, &Telling::Run(baseline.as_ref()))
}

/// Name of the live document in the folder of a run.
const LIVE: &str = "live.json";
/// Number of digits of a seal that are shown: enough to distinguish it from any other.
const SEAL_DIGITS: usize = 16;

/// Form of the report at the end of a run.
pub enum Telling<'a> {
    /// Its summary, and a comparison with an earlier run if one is given.
    Run(Option<&'a Record>),
    /// The result of a pre-flight check.
    Preflight,
}

impl Telling<'_> {
    fn summary(&self, record: &Record) -> String {
        match self {
            Self::Preflight => preflight::lines(record).join("\n") + "\n",
            Self::Run(Some(before)) if record.outcome.has_begun() => {
                text::summary(record) + &beside(&Comparison::of(before, record))
            }
            Self::Run(_) => text::summary(record),
        }
    }

    /// True if there is something to print in addition to failures.
    fn has_summary(&self, record: &Record) -> bool {
        let is_judged = record.verdict.word == VerdictWord::Fail;
        matches!(self, Self::Preflight) || is_judged || record.outcome.has_begun()
    }

    fn exit_code(&self, record: &Record) -> u8 {
        match (self, preflight::readiness(record)) {
            // A missing host costs a run only one row, but makes a pre-flight check pointless.
            (Self::Preflight, Readiness::NotReady) if record.troubles.is_empty() => {
                exit::UNREACHABLE
            }
            _ => record.exit_code,
        }
    }
}

/// Runs an intent; returns the exit code.
pub fn execute(arguments: &Arguments, intent: Intent, telling: &Telling<'_>) -> u8 {
    let (table, whole) = (arguments.csv.as_deref(), arguments.json.as_deref());
    let to_stdout = Some(Path::new("-"));
    let mut terminal = Terminal::new(arguments.quiet, table == to_stdout || whole == to_stdout);
    if arguments.dry_run {
        let mut text = header::options(&intent.options) + &dry_run::dry_run(&intent.plan);
        text.extend(intent.note.map(|note| format!("note       {note}\n")));
        if intent.open {
            text.push_str("at most    hosts that have not been asked yet may need fewer processes and smaller blocks\n");
        }
        if arguments.csv.is_some() || arguments.json.is_some() || arguments.output.is_some() {
            text.push_str("files      none are written: a dry run measures nothing\n");
        }
        terminal.result(&text);
        return exit::OK;
    }
    let folder = arguments.output.as_deref();
    if !can_keep([table, whole].into_iter().flatten(), folder) {
        return exit::NOT_WRITTEN;
    }
    let (program, stop) = match stand_by() {
        Ok(ready) => ready,
        Err(code) => return code,
    };
    if !arguments.parent.is_none_or(end_with) {
        return exit::USAGE;
    }
    let command = own_words();
    let name = arguments.folder.as_deref().and_then(Path::file_name);
    let name = name.map(|name| name.to_string_lossy().into_owned());
    let (token, secret) = match (random_digits(), random_digits()) {
        (Ok(token), Ok(secret)) => (token_of(name.as_deref(), &token), secret),
        (Err(code), _) | (_, Err(code)) => return code,
    };
    let seal = seal::text(&intent.plan, env!("CARGO_PKG_VERSION"), &program.digest);
    let identity = Identity {
        token: &token,
        started_ms: now_ms(),
        command: &command,
        seal: &seal,
    };
    let folder = match (&arguments.folder, &arguments.output) {
        (Some(folder), _) => Some(Ok(folder.clone())),
        (None, parent) => parent
            .as_deref()
            .map(|parent| store::make_folder(parent, identity.started_ms, &token)),
    };
    let witness = folder.transpose().and_then(|folder| {
        let samples = arguments.samples.as_deref();
        Witness::new(&mut terminal, identity.clone(), folder, samples)
    });
    let mut witness = match witness {
        Ok(witness) => witness,
        Err(error) => {
            complain(&error.to_string());
            return exit::NOT_WRITTEN;
        }
    };
    let mut options = intent.options;
    let digest = launcher::digest_of(seal.as_bytes());
    options.push((
        "seal".to_owned(),
        digest.chars().take(SEAL_DIGITS).collect(),
    ));
    let conditions = Conditions {
        settings: resolve::settings(&arguments.launch, &intent.plan, &stop),
        program,
        stop,
        command: command.clone(),
        options,
        hold: intent.hold,
        token: token.clone(),
        secret,
        started_ms: identity.started_ms,
        seal: Some(seal.clone()),
        resumed: intent.resumed,
        name,
        watched: arguments.folder.is_some() && intent.plan.nodes.len() <= MOST_IN_MATRIX,
    };
    let live = arguments.folder.as_deref().map(|folder| folder.join(LIVE));
    let mut ticker = Ticker::new(&mut witness, live.as_deref());
    let record = conduct::conduct(intent.plan, &intent.hosts, &conditions, &mut ticker);
    tell_of(arguments, &record, telling, &mut witness)
}

/// Arguments as they were given, without those that a keeper adds to control its run.
fn own_words() -> Vec<String> {
    let kept = |word: &String| {
        !["--folder=", "--parent="]
            .iter()
            .any(|own| word.starts_with(own))
    };
    std::env::args().skip(1).filter(kept).collect()
}

/// Token of a run from random digits. With a name, the token begins with the last part of the name.
fn token_of(name: Option<&str>, random: &str) -> String {
    let shown = name.and_then(|name| name.rsplit('-').next()).unwrap_or("");
    shown.to_owned() + random.get(shown.len()..).unwrap_or("")
}

/// Record of the run to compare with, if the user named one. The error is the exit code.
pub fn baseline(arguments: &Arguments) -> Result<Option<Record>, u8> {
    let Some(name) = &arguments.baseline else {
        return Ok(None);
    };
    let folder = arguments.output.as_deref().unwrap_or(Path::new("."));
    Ok(Some(report::read(name, folder)?.record))
}

/// Prints errors first, then the summary, then writes the files. A file that cannot be written never changes a verdict. Returns the exit
/// code.
fn tell_of(
    arguments: &Arguments,
    record: &Record,
    telling: &Telling<'_>,
    witness: &mut Witness<'_>,
) -> u8 {
    witness.terminal.close_line();
    for line in text::troubles(&record.troubles) {
        complain(&line);
    }
    let summary = telling.summary(record);
    if telling.has_summary(record) {
        witness.terminal.result(&summary);
    }
    let mut written = true;
    for failure in witness.failures() {
        complain(&failure);
        written = false;
    }
    if let Some(path) = &arguments.csv {
        written &= keep_file(path, csv::write(record).map_err(|error| error.to_string()));
    }
    if let Some(path) = &arguments.json {
        written &= keep_file(path, json::write(record).map_err(|error| error.to_string()));
    }
    if let Some(folder) = witness.folder.clone() {
        let table = csv::write(record).map_err(|error| error.to_string());
        let table = ("table.csv", table);
        let kept = keep_folder(&folder, record, table, &summary, witness.terminal);
        if kept {
            witness.close_journal();
        }
        written &= kept;
    }
    exit_code(telling.exit_code(record), written, witness.terminal)
}
