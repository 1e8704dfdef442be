//! A measurement by ranks, from what was understood to what is kept: common to `linktest` and `latency`.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use launcher::Program;
use launcher::hosts::Host;

use crate::conduct::{self, Conditions, Observer};
use crate::plan::RunPlan;
use crate::record::Record;
use crate::report::{json, text};
use crate::{exit, store};

use super::arguments::Launch;
use super::chronicle::{Chronicle, Identity, JOURNAL};
use super::intent;
use super::run;
use super::terminal::{Terminal, complain};

/// What is to be done, fully understood.
pub struct Intent {
    /// The plan.
    pub plan: RunPlan,
    /// Where its nodes are.
    pub hosts: Vec<Host>,
    /// Options in effect.
    pub options: Vec<(String, String)>,
    /// What the user should know.
    pub notes: Vec<String>,
}

/// Where results go.
#[derive(Clone, Copy)]
pub struct Files<'a> {
    /// The table, or `-`.
    pub csv: Option<&'a Path>,
    /// The record, or `-`.
    pub json: Option<&'a Path>,
    /// Where a folder of the run is made.
    pub parent: Option<&'a Path>,
    /// Name of the table in that folder.
    pub table: &'static str,
}

impl Files<'_> {
    /// Whether standard output is for a file, and not for a reader.
    pub fn take_stdout(&self) -> bool {
        self.csv == Some(Path::new("-")) || self.json == Some(Path::new("-"))
    }
}

/// All that is needed before hosts are asked.
pub struct Ready {
    program: Program,
    stop: Arc<AtomicUsize>,
    token: String,
    secret: String,
    started_ms: u64,
    folder: Option<PathBuf>,
}

/// Sees that results can be written, `more` files among them, before anything is measured for them; makes the folder of the run.
pub fn prepare(files: Files<'_>, more: Option<&Path>) -> Result<Ready, u8> {
    let started_ms = run::now_ms();
    let (token, secret) = (run::random_digits()?, run::random_digits()?);
    let all = [files.csv, files.json, more];
    if !run::can_keep(all.into_iter().flatten(), files.parent) {
        return Err(exit::NOT_WRITTEN);
    }
    let made = files
        .parent
        .map(|parent| store::make_folder(parent, started_ms, &token));
    let folder = made.transpose().map_err(|error| {
        complain(&error.to_string());
        exit::NOT_WRITTEN
    })?;
    let (program, stop) = run::stand_by()?;
    Ok(Ready {
        program,
        stop,
        token,
        secret,
        started_ms,
        folder,
    })
}

impl Ready {
    /// Measures; returns what was measured, and the folder of the run. What it has measured stands in a journal there meanwhile.
    pub fn measure(
        self,
        intent: Intent,
        launch: &Launch,
        observer: &mut dyn Observer,
    ) -> Result<Measured, u8> {
        for note in &intent.notes {
            observer.notice(note);
        }
        let command: Vec<String> = std::env::args_os()
            .skip(1)
            .map(|word| word.to_string_lossy().into_owned())
            .collect();
        let token = self.token.clone();
        let identity = Identity {
            token: &token,
            started_ms: self.started_ms,
            command: &command,
        };
        let folder = self.folder.as_deref();
        let mut chronicle = match Chronicle::begin(observer, folder, identity) {
            Ok(chronicle) => chronicle,
            Err(error) => {
                complain(&error.to_string());
                return Err(exit::NOT_WRITTEN);
            }
        };
        let conditions = Conditions {
            settings: intent::settings(launch, &intent.plan, &self.stop),
            program: self.program,
            stop: self.stop,
            command: command.clone(),
            options: intent.options,
            hold: None,
            token: self.token,
            secret: self.secret,
            started_ms: self.started_ms,
            seal: None,
            resumed: None,
            name: None,
            watched: false,
        };
        let record = conduct::conduct(intent.plan, &intent.hosts, &conditions, &mut chronicle);
        let failure = chronicle.failure();
        if let Some(failure) = &failure {
            complain(failure);
        }
        Ok(Measured {
            record,
            folder: self.folder,
            told: failure.is_none(),
        })
    }
}

/// What came of a measurement.
pub struct Measured {
    /// Its record.
    pub record: Record,
    /// The folder of the run.
    pub folder: Option<PathBuf>,
    /// All of it was written down meanwhile.
    pub told: bool,
}

/// Errors come first, before any summary.
pub fn tell_troubles(record: &Record, terminal: &mut Terminal) {
    terminal.close_line();
    for line in text::troubles(&record.troubles) {
        complain(&line);
    }
}

/// Writes the files that were asked for and the folder of the run; says whether it could.
pub fn keep(
    files: Files<'_>,
    folder: Option<&Path>,
    record: &Record,
    table: &dyn Fn() -> Result<String, String>,
    summary: &str,
    terminal: &mut Terminal,
) -> bool {
    let whole = || json::write(record).map_err(|error| error.to_string());
    let mut written = true;
    if let Some(path) = files.csv {
        written &= run::keep(path, table());
    }
    if let Some(path) = files.json {
        written &= run::keep(path, whole());
    }
    if let Some(folder) = folder {
        written &= keep_folder(folder, record, (files.table, table()), summary, terminal);
    }
    written
}

/// Writes record, table and summary into the folder of a run, and says where they are.
pub fn keep_folder(
    folder: &Path,
    record: &Record,
    (name, table): (&str, Result<String, String>),
    summary: &str,
    terminal: &mut Terminal,
) -> bool {
    let path = folder.join("record.json");
    let whole = json::write(record).map_err(|error| error.to_string());
    let kept = run::keep(&path, whole)
        & run::keep(&folder.join(name), table)
        & run::keep(&folder.join("summary.txt"), Ok(summary.to_owned()));
    if kept {
        // The record has all of it.
        match std::fs::remove_file(folder.join(JOURNAL)) {
            Ok(()) | Err(_) => {}
        }
        terminal.result(&format!("record {}\n", path.display()));
    }
    kept
}

/// The exit code in the end: what was not written never changes a verdict.
pub fn exit_code(measured: u8, written: bool, terminal: &Terminal) -> u8 {
    let lost = terminal.has_lost();
    if lost {
        complain("cannot write to standard output");
    }
    match measured {
        exit::OK if lost || !written => exit::NOT_WRITTEN,
        code => code,
    }
}
