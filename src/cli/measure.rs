//! A measurement by ranks, from the intent to the result files. `linktest`, `latency` and `imb` share it.

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

use super::args::Launch;
use super::chronicle::{Chronicle, Identity};
use super::files::{can_keep, keep_file, keep_folder};
use super::process::{now_ms, random_digits, stand_by};
use super::resolve;
use super::terminal::{Terminal, complain};

/// A fully parsed request.
pub struct Intent {
    /// The plan.
    pub plan: RunPlan,
    /// Hosts of its nodes, for the launcher.
    pub hosts: Vec<Host>,
    /// Options in effect.
    pub options: Vec<(String, String)>,
    /// Notes for the user.
    pub notes: Vec<String>,
}

/// Destinations of the results.
#[derive(Clone, Copy)]
pub struct Files<'a> {
    /// File of the table; `-` is standard output.
    pub csv: Option<&'a Path>,
    /// File of the record; `-` is standard output.
    pub json: Option<&'a Path>,
    /// Folder in which the folder of the run is created.
    pub parent: Option<&'a Path>,
    /// Name of the table in that folder.
    pub table: &'static str,
}

impl Files<'_> {
    /// True if standard output carries a result file instead of text for the user.
    pub fn take_stdout(&self) -> bool {
        self.csv == Some(Path::new("-")) || self.json == Some(Path::new("-"))
    }
}

/// Everything that is needed before the first contact with hosts.
pub struct Ready {
    program: Program,
    stop: Arc<AtomicUsize>,
    token: String,
    secret: String,
    started_ms: u64,
    folder: Option<PathBuf>,
}

/// Checks that the results and the file `more` can be written, before anything is measured for them. Creates the folder of the run. The
/// error is the exit code.
pub fn prepare(files: Files<'_>, more: Option<&Path>) -> Result<Ready, u8> {
    let started_ms = now_ms();
    let (token, secret) = (random_digits()?, random_digits()?);
    let all = [files.csv, files.json, more];
    if !can_keep(all.into_iter().flatten(), files.parent) {
        return Err(exit::NOT_WRITTEN);
    }
    let made = files
        .parent
        .map(|parent| store::make_folder(parent, started_ms, &token));
    let folder = made.transpose().map_err(|error| {
        complain(&error.to_string());
        exit::NOT_WRITTEN
    })?;
    let (program, stop) = stand_by()?;
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
    /// Measures, and keeps a journal in the folder of the run meanwhile. The error is the exit code.
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
            settings: resolve::settings(launch, &intent.plan, &self.stop),
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

/// Result of a measurement.
pub struct Measured {
    /// Its record.
    pub record: Record,
    /// The folder of the run.
    pub folder: Option<PathBuf>,
    /// True if the journal is complete.
    pub told: bool,
}

/// Prints the errors; call it before printing a summary.
pub fn tell_troubles(record: &Record, terminal: &mut Terminal) {
    terminal.close_line();
    for line in text::troubles(&record.troubles) {
        complain(&line);
    }
}

/// Writes the requested files and the folder of the run. Returns false if a file cannot be written.
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
        written &= keep_file(path, table());
    }
    if let Some(path) = files.json {
        written &= keep_file(path, whole());
    }
    if let Some(folder) = folder {
        written &= keep_folder(folder, record, (files.table, table()), summary, terminal);
    }
    written
}
