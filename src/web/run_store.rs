//! Runs on disk, as the web code sees them: a folder for each run, whose files hold its state, and a queue. All state is in these files. A restarted
//! server, or a CGI program that lives for one request, therefore knows as much as any other process.
//!
//! ```text
//! results/
//!   .queue/1795225495000-pb-20261121-014455-abcdef    this run waits for a fabric or holds it
//!   .fabric-rack 7                                    lock (flock) of the run that holds it
//!   pb-20261121-014455-abcdef/
//!     request.json    the request                  runner.json    its runner process
//!     cancel          exists: the run must end     live.json      live figures, each second
//!     errors.txt      error messages of the run    outcome.json   end of the run
//!     record.json, table.csv, summary.txt, journal.jsonl: as for any run
//! ```

use std::fmt;
use std::fs::{self, File};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::{Mutex, PoisonError};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::outside;
use crate::record::{Record, VerdictWord};
use crate::report::json;
use crate::store::{self, StoreError, bounded, runs};
use crate::sys::process;
use crate::units::show_age;

use super::request::{COMMANDS, Request};
use super::state::{Card, How, LOST, Outcome, Stage, State, why};

/// File with the request of a run.
pub(super) const REQUEST: &str = "request.json";
const RUNNER: &str = "runner.json";
const CANCEL: &str = "cancel";
const LIVE: &str = "live.json";
/// File with the error messages of a run.
pub(super) const ERRORS: &str = "errors.txt";
const OUTCOME: &str = "outcome.json";
const QUEUE: &str = ".queue";
const DOOR: &str = ".door";
/// Age up to which a request counts as kept without a runner: the runner can still be starting. In milliseconds.
const YOUNG_MS: u64 = 10_000;
/// Age up to which a request that lost its runner before its turn gets a new one. In milliseconds.
pub(super) const LAPSE_MS: u64 = 60 * 60 * 1000;

/// Name of a run, such as `pb-20261121-014455-abcdef`.
// Only a text of this form becomes a path.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, ToSchema, IntoParams)]
#[schema(pattern = "^pb-[0-9]{8}-[0-9]{6}-[0-9a-f]{6}$")]
#[into_params(names("name"), parameter_in = Path)]
pub(super) struct RunName(
    /// Name of a run.
    #[param(value_type = RunName)]
    String,
);

/// Reason why a folder cannot hold the runs of a site.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FolderError {
    /// It cannot be created or read.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// It belongs to another user, who can put anything in the place of a run.
    #[error("results folder {}: it belongs to another user", .0.display())]
    Foreign(PathBuf),
    /// Other users can put anything in the place of a run.
    #[error("results folder {}: its group or other users can write to it (chmod -R go-w)", .0.display())]
    Open(PathBuf),
}

impl FromStr for RunName {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let parts: Vec<&str> = text.split('-').collect();
        let all = |part: &str, length: usize, is: fn(&u8) -> bool| {
            part.len() == length && part.bytes().all(|byte| is(&byte))
        };
        match parts[..] {
            ["pb", date, time, token]
                if all(date, 8, u8::is_ascii_digit)
                    && all(time, 6, u8::is_ascii_digit)
                    && all(token, 6, |byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')) =>
            {
                Ok(Self(text.to_owned()))
            }
            _ => Err(()),
        }
    }
}

impl fmt::Display for RunName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Process that manages a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Runner {
    /// Its process id.
    pub pid: i32,
    /// Start of the process, in clock ticks since boot. It detects a reused process id.
    pub start: u64,
    /// Start of the run itself, in milliseconds since 1970. `None` while it waits.
    pub began_ms: Option<u64>,
}

impl Runner {
    fn is_alive(&self) -> bool {
        process::start_time(self.pid) == Some(self.start)
    }
}

/// The runs of a site.
#[derive(Debug, Clone)]
pub(super) struct RunStore {
    folder: PathBuf,
}

impl RunStore {
    /// Opens the run store in this folder, which is created if missing. Its files say what runs as this user and where this user writes, so no other
    /// user can be allowed to change them.
    pub(super) fn open(folder: &Path) -> Result<Self, FolderError> {
        let queue = folder.join(QUEUE);
        let mut folders = fs::DirBuilder::new();
        let made = folders.recursive(true).mode(0o755).create(&queue);
        made.map_err(|source| StoreError::new(&queue, source))?;
        expect_own(folder)?;
        expect_own(&queue)?;
        Ok(Self {
            folder: folder.to_owned(),
        })
    }

    /// Refuses an existing folder that [`RunStore::open`] refuses. Creates nothing.
    pub(super) fn check(folder: &Path) -> Result<(), FolderError> {
        let paths = [folder.to_owned(), folder.join(QUEUE)];
        let mut existing = paths.iter().filter(|path| path.exists());
        existing.try_for_each(|path| expect_own(path))
    }

    /// Folder of a run.
    pub(super) fn folder_of(&self, name: &RunName) -> PathBuf {
        self.folder.join(&name.0)
    }

    /// True if the run has a folder.
    pub(super) fn has(&self, name: &RunName) -> bool {
        self.folder_of(name).exists()
    }

    /// Lock file of a fabric. Fabric names come from the site's file and contain no slash.
    pub(super) fn lock_of(&self, fabric: &str) -> PathBuf {
        self.folder.join(format!(".fabric-{fabric}"))
    }

    /// Locks the queue until the file is dropped, so that processes count it and add to it one after the other.
    pub(super) fn door(&self) -> Result<File, StoreError> {
        let path = self.folder.join(DOOR);
        let open = || {
            let file = store::open_private(&path)?;
            file.lock()?;
            Ok(file)
        };
        open().map_err(|source| StoreError::new(&path, source))
    }

    /// Locks a run for its runner until the file is dropped. `None` when another runner holds it, or the request cannot be opened.
    pub(super) fn take(&self, name: &RunName) -> Option<File> {
        let file = bounded::open(&self.folder_of(name).join(REQUEST)).ok()?;
        file.try_lock().is_ok().then_some(file)
    }

    /// Stores a request and adds it to the queue. Removes the run's folder again if a write fails, as on a full disk.
    pub(super) fn add(&self, request: &Request) -> Result<(), StoreError> {
        let folder = self.folder.join(&request.name);
        // The mode bounds what a default access list of the folder above permits others; a mask of the process would not.
        let made = fs::DirBuilder::new().mode(0o755).create(&folder);
        made.map_err(|source| StoreError::new(&folder, source))?;
        let text = serde_json::to_string_pretty(request).unwrap_or_default();
        let path = folder.join(REQUEST);
        // The runner locks the run by this file, so other users must not open it.
        let private = || store::open_private(&path).map_err(|error| StoreError::new(&path, error));
        let added = store::write_file(&path, text)
            .and_then(|()| private().map(drop))
            .and_then(|()| store::write_file(&self.ticket(request), &request.asked.fabric));
        if added.is_err() {
            // A folder without a request is no run.
            let (Ok(()) | Err(_)) = fs::remove_dir_all(&folder);
        }
        added
    }

    fn ticket(&self, request: &Request) -> PathBuf {
        let place = format!("{:013}-{}", request.asked_ms, request.name);
        self.folder.join(QUEUE).join(place)
    }

    /// Removes a request from the queue.
    pub(super) fn leave_queue(&self, request: &Request) {
        // Another process can have removed it.
        let (Ok(()) | Err(_)) = fs::remove_file(self.ticket(request));
    }

    /// Names and fabrics of the runs that wait or run, oldest first.
    pub(super) fn queue(&self) -> Vec<(RunName, String)> {
        let entries = fs::read_dir(self.folder.join(QUEUE));
        let mut found: Vec<(String, String)> = entries
            .into_iter()
            .flatten()
            .flatten()
            .filter_map(|entry| {
                let fabric = bounded::kept(&entry.path(), bounded::TEXT_BYTES).ok()?;
                Some((entry.file_name().into_string().ok()?, fabric))
            })
            .collect();
        found.sort();
        let named = |(place, fabric): (String, String)| {
            let (_, name) = place.split_once('-')?;
            Some((name.parse().ok()?, fabric))
        };
        found.into_iter().filter_map(named).collect()
    }

    /// Runs before this one that want the same fabric and have a runner, oldest first.
    pub(super) fn before(&self, name: &RunName, fabric: &str, now_ms: u64) -> Vec<RunName> {
        let all = self.queue().into_iter();
        all.take_while(|(other, _)| other != name)
            .filter(|(_, own)| own == fabric)
            .map(|(other, _)| other)
            .filter(|other| self.is_kept(other, now_ms))
            .collect()
    }

    /// True if the run has a live runner, or is so young that its runner can still be starting.
    pub(super) fn is_kept(&self, name: &RunName, now_ms: u64) -> bool {
        match self.runner(name) {
            Some(runner) => runner.is_alive(),
            None => self
                .request(name)
                .is_some_and(|request| now_ms.saturating_sub(request.asked_ms) < YOUNG_MS),
        }
    }

    /// True if the request, which has no live runner, gets a new one at the next check of the queue.
    fn is_owed(&self, name: &RunName, now_ms: u64) -> bool {
        let began = self.runner(name).is_some_and(|one| one.began_ms.is_some());
        !began
            && self.request(name).is_some_and(|request| {
                let age_ms = now_ms.saturating_sub(request.asked_ms);
                age_ms < LAPSE_MS && self.ticket(&request).exists()
            })
    }

    /// The stored request of a run.
    pub(super) fn request(&self, name: &RunName) -> Option<Request> {
        read(&self.folder_of(name).join(REQUEST))
    }

    /// The stored runner of a run, alive or not.
    pub(super) fn runner(&self, name: &RunName) -> Option<Runner> {
        read(&self.folder_of(name).join(RUNNER))
    }

    /// Stores the runner of a run.
    pub(super) fn set_keeper(&self, name: &RunName, runner: &Runner) -> Result<(), StoreError> {
        let text = serde_json::to_string(runner).unwrap_or_default();
        store::replace_file(&self.folder_of(name).join(RUNNER), &text)
    }

    /// The stored outcome of a run.
    pub(super) fn outcome(&self, name: &RunName) -> Option<Outcome> {
        read(&self.folder_of(name).join(OUTCOME))
    }

    /// Stores the outcome of a run.
    pub(super) fn set_outcome(&self, name: &RunName, outcome: &Outcome) -> Result<(), StoreError> {
        let text = serde_json::to_string(outcome).unwrap_or_default();
        store::write_file(&self.folder_of(name).join(OUTCOME), text)
    }

    /// True if the run was cancelled.
    pub(super) fn is_cancelled(&self, name: &RunName) -> bool {
        self.folder_of(name).join(CANCEL).exists()
    }

    /// Asks the runner to end a run. Returns false if the run is over, or has no runner and gets none.
    pub(super) fn cancel(&self, name: &RunName, now_ms: u64) -> Result<bool, StoreError> {
        let is_awaited = self.is_kept(name, now_ms) || self.is_owed(name, now_ms);
        if self.outcome(name).is_some() || !is_awaited {
            return Ok(false);
        }
        // Runners look for this file. A signal would go to whatever process a file names.
        let path = self.folder_of(name).join(CANCEL);
        let asked = File::create(&path).map(|_| true);
        asked.map_err(|source| StoreError::new(&path, source))
    }

    /// The record of a run.
    pub(super) fn record(&self, name: &RunName) -> Option<Record> {
        json::read_owned(self.text(name, runs::RECORD)?).ok()
    }

    /// Size of a run's record in bytes.
    pub(super) fn record_bytes(&self, name: &RunName) -> u64 {
        let record = self.folder_of(name).join(runs::RECORD);
        fs::metadata(record).map_or(0, |about| about.len())
    }

    /// The text of a run's record, exactly as it was read and found to be one: the file can be another one the next time.
    pub(super) fn record_text(&self, name: &RunName) -> Option<String> {
        let text = self.text(name, runs::RECORD)?;
        json::read(&text).ok().map(|_| text)
    }

    /// Removes the live figures, which makes room on disk for the outcome.
    pub(super) fn forget_live(&self, name: &RunName) {
        // A run can have no live figures.
        let (Ok(()) | Err(_)) = fs::remove_file(self.folder_of(name).join(LIVE));
    }

    /// True if a run has a record.
    pub(super) fn has_record(&self, name: &RunName) -> bool {
        let record = self.folder_of(name).join(runs::RECORD);
        is_inside(&record) && fs::symlink_metadata(record).is_ok_and(|about| about.is_file())
    }

    /// The text of one of a run's files.
    pub(super) fn text(&self, name: &RunName, file: &str) -> Option<String> {
        text_of(&self.folder_of(name).join(file))
    }

    /// Names of all runs, latest first.
    pub(super) fn names(&self) -> Vec<RunName> {
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let mut names: Vec<RunName> = entries
            .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
            .collect();
        names.sort_unstable();
        names.reverse();
        names
    }

    /// State of a run now. `None` when the run does not exist.
    pub(super) fn state(&self, name: &RunName, now_ms: u64) -> Option<State> {
        let folder = self.folder_of(name);
        let request = self.request(name);
        let request = request.as_ref();
        let has_record = self.has_record(name);
        if request.is_none() && !has_record {
            return None;
        }
        let mut outcome = self.outcome(name);
        let runner = self.runner(name);
        let kept = outcome.is_none() && self.is_kept(name, now_ms);
        if !kept {
            // The run can end between the two reads.
            outcome = outcome.or_else(|| self.outcome(name));
        }
        let has_record = has_record || self.has_record(name);
        let began_ms = runner.and_then(|runner| runner.began_ms);
        let stage = match (&outcome, kept) {
            (Some(outcome), _) if outcome.how == How::Cancelled => Stage::Cancelled,
            (None, true) if self.is_cancelled(name) => Stage::Cancelling,
            (None, true) if began_ms.is_some() => Stage::Running,
            (None, true) => Stage::Queued,
            (None, false) if self.is_cancelled(name) => Stage::Cancelled,
            (None, false) if self.is_owed(name, now_ms) => Stage::Queued,
            _ if has_record => Stage::Ended,
            _ => Stage::Failed,
        };
        let before = match (request, stage) {
            (Some(request), Stage::Queued) => self.before(name, &request.asked.fabric, now_ms),
            _ => Vec::new(),
        };
        let known = outcome.as_ref().and_then(|outcome| outcome.card.clone());
        let card = match (known, has_record, kept) {
            (Some(card), ..) => Some(card),
            (None, true, false) => {
                // Records are large. For runs without a stored card, only one record is read at a time.
                static ONE: Mutex<()> = Mutex::new(());
                let _turn = ONE.lock().unwrap_or_else(PoisonError::into_inner);
                self.record(name).map(|record| Card::of(&record))
            }
            _ => None,
        };
        let why = match (&outcome, stage) {
            (Some(outcome), _) => why(outcome),
            (None, Stage::Failed) => Some(LOST.to_owned()),
            _ => None,
        };
        let live = match stage {
            Stage::Running | Stage::Cancelling => read(&folder.join(LIVE)),
            _ => None,
        };
        let by = request.map_or("the command line", |one| one.asked.by.as_str());
        let hosts = card.as_ref().map(|card| &card.hosts);
        let hosts = hosts.filter(|hosts| !hosts.is_empty());
        let hosts = hosts.or(request.map(|one| &one.hosts)).cloned();
        let hosts = hosts.unwrap_or_default();
        let title = request.map_or_else(|| hosts.clone(), |one| one.asked.title());
        let verdict = card.as_ref().map(|card| card.verdict);
        let is_cut = outcome
            .as_ref()
            .is_some_and(|outcome| matches!(outcome.how, How::Server | How::Limit | How::Lost));
        let aborted = is_cut && verdict.is_none_or(|word| word == VerdictWord::Invalid);
        let started_ms = card.as_ref().map(|card| card.started_ms);
        let ended_ms = outcome.as_ref().map(|outcome| outcome.ended_ms);
        let whole_ms = began_ms.zip(ended_ms);
        let whole_ms = whole_ms.map(|(began, ended)| ended.saturating_sub(began));
        let took = whole_ms.map(|ms| show_age(ms.div_ceil(1000)));
        let command = request.and_then(|one| {
            let profile = one.asked.fields.profile.trim();
            COMMANDS.iter().find(|(name, _)| *name == profile)
        });
        let kind = card.as_ref().map(|card| card.kind.clone());
        let kind = kind.or_else(|| command.map(|(name, _)| (*name).to_owned()));
        Some(State {
            told: outcome.is_some() || request.is_none(),
            title: if title.is_empty() {
                name.to_string()
            } else {
                title
            },
            hosts,
            kind: kind.unwrap_or_default(),
            aborted,
            name: name.to_string(),
            state: stage,
            before: (stage == Stage::Queued).then_some(before.len()),
            behind: before.first().map(ToString::to_string),
            what: request.map_or_else(String::new, |one| one.asked.what.clone()),
            group: request.and_then(|one| one.asked.group()),
            profile: request.and_then(|one| one.asked.profile()),
            rate_bits_per_s: request.and_then(|one| one.asked.rate_bits_per_s()),
            by: by.to_owned(),
            note: request.map_or_else(String::new, |one| one.asked.note.clone()),
            asked_ms: request.map(|one| one.asked_ms),
            began_ms: began_ms.or(started_ms.filter(|at| request.is_none() && *at > 0)),
            ended_ms,
            data_ms: request.map(|one| one.extent.data_ms).filter(|ms| *ms > 0),
            verdict,
            // `why` has the only reason of an aborted run.
            sentence: card
                .as_ref()
                .filter(|_| !aborted)
                .map(|card| card.sentence.clone()),
            took: took.or(card.as_ref().map(|card| card.took.clone())),
            nodes: card
                .as_ref()
                .map(|card| card.nodes)
                .or(request.map(|one| one.extent.nodes)),
            weakest: card.map(|card| card.weakest),
            exit_code: outcome.and_then(|outcome| outcome.exit_code),
            why,
            has_record,
            live,
        })
    }
}

/// Refuses a folder that other users can change.
fn expect_own(path: &Path) -> Result<(), FolderError> {
    let about = fs::metadata(path).map_err(|source| StoreError::new(path, source))?;
    if about.uid() != process::own_user() {
        return Err(FolderError::Foreign(path.to_owned()));
    }
    if about.mode() & 0o022 != 0 {
        return Err(FolderError::Open(path.to_owned()));
    }
    Ok(())
}

/// True if the folder of a run's file is a real folder, not a symbolic link out of the run store.
fn is_inside(path: &Path) -> bool {
    let folder = path.parent().map(fs::symlink_metadata);
    folder.is_some_and(|folder| folder.is_ok_and(|folder| folder.is_dir()))
}

fn text_of(path: &Path) -> Option<String> {
    let text = || bounded::kept(path, bounded::RECORD_BYTES).ok();
    is_inside(path).then(text)?
}

fn read<T: DeserializeOwned>(path: &Path) -> Option<T> {
    outside::read(text_of(path)?.as_bytes()).ok()
}

#[cfg(test)]
pub(super) mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::process::ExitStatusExt;
    use std::process::Command;

    use super::*;
    use crate::web::request::{Asked, Extent, Fields, REQUEST_VERSION};

    /// A request that was accepted, for tests to change.
    pub(in crate::web) fn request(name: &str, asked_ms: u64, fabric: &str) -> Request {
        Request {
            version: REQUEST_VERSION,
            name: name.to_owned(),
            asked_ms,
            asked: Asked {
                by: "anna".to_owned(),
                note: "new cable".to_owned(),
                what: "rack 7: quick".to_owned(),
                fabric: fabric.to_owned(),
                fields: Fields::default(),
                words: Vec::new(),
            },
            extent: Extent {
                ports: 2,
                nodes: 2,
                tests: 1,
                data_ms: 1000,
            },
            hosts: "n[1-2]".to_owned(),
            limit_ms: 1000,
        }
    }

    const ONE: &str = "pb-20261121-101500-abcdef";
    const TWO: &str = "pb-20261121-101501-abcdef";
    const THREE: &str = "pb-20261121-101502-abcdef";

    #[test]
    fn a_folder_that_others_may_write_to_holds_no_runs() {
        let folder = tempfile::tempdir().unwrap();
        let results = folder.path().join("runs");
        RunStore::open(&results).unwrap();
        for path in [results.join(QUEUE), results.clone()] {
            for mode in [0o775, 0o757, 0o1777] {
                fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
                let why = RunStore::open(&results).unwrap_err().to_string();
                let path = path.display();
                assert_eq!(
                    why,
                    format!(
                        "results folder {path}: its group or other users can write to it (chmod -R go-w)"
                    )
                );
            }
            fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
        }
        RunStore::open(&results).unwrap();
    }

    #[test]
    fn cancelling_ends_no_process_that_a_file_names() {
        let folder = tempfile::tempdir().unwrap();
        let run_store = RunStore::open(folder.path()).unwrap();
        run_store.add(&request(ONE, 1000, "a")).unwrap();
        let mut innocent = Command::new("sleep").arg("60").spawn().unwrap();
        let pid = i32::try_from(innocent.id()).unwrap();
        let runner = Runner {
            pid,
            start: process::start_time(pid).unwrap(),
            began_ms: Some(2000),
        };
        let one = ONE.parse().unwrap();
        run_store.set_keeper(&one, &runner).unwrap();
        assert!(run_store.cancel(&one, 3000).unwrap() && run_store.is_cancelled(&one));
        innocent.kill().unwrap();
        // The signal that came first.
        let ended_by = innocent.wait().unwrap().signal();
        assert_eq!(ended_by, Some(nix::libc::SIGKILL));
    }

    #[test]
    fn a_linked_record_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let run_store = RunStore::open(folder.path()).unwrap();
        let one: RunName = ONE.parse().unwrap();
        fs::create_dir(run_store.folder_of(&one)).unwrap();
        let (secret, link) = (
            folder.path().join("secret"),
            run_store.folder_of(&one).join(runs::RECORD),
        );
        fs::write(&secret, "{}").unwrap();
        std::os::unix::fs::symlink(&secret, &link).unwrap();
        assert!(!run_store.has_record(&one));
        assert_eq!(run_store.text(&one, runs::RECORD), None);
    }

    #[test]
    fn a_pipe_or_a_link_in_the_place_of_a_run_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let elsewhere = folder.path().join("elsewhere");
        let run_store = RunStore::open(&folder.path().join("runs")).unwrap();
        let [one, two]: [RunName; 2] = [ONE, TWO].map(|name| name.parse().unwrap());
        fs::create_dir(&elsewhere).unwrap();
        fs::write(elsewhere.join(runs::RECORD), "{}").unwrap();
        std::os::unix::fs::symlink(&elsewhere, run_store.folder_of(&one)).unwrap();
        assert!(!run_store.has_record(&one));
        assert_eq!(run_store.text(&one, runs::RECORD), None);
        fs::create_dir(run_store.folder_of(&two)).unwrap();
        for file in [runs::RECORD, REQUEST] {
            let path = run_store.folder_of(&two).join(file);
            nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
        }
        assert_eq!(run_store.text(&two, runs::RECORD), None);
        assert!(run_store.record(&two).is_none() && run_store.request(&two).is_none());
        assert!(run_store.state(&two, 0).is_none());
    }

    #[test]
    fn only_names_of_runs_are_names() {
        assert!(ONE.parse::<RunName>().is_ok());
        for bad in [
            "",
            "..",
            "pb-",
            "../pb-20261121-101500-abcdef",
            "pb-20261121-101500-abcdeg",
            "pb-20261121-101500-ABCDEF",
            "pb-20261121-101500-abcdef/",
            "pb-20261121-101500-abcdef-",
            "pb-2026112x-101500-abcdef",
            ".queue",
            "pb-20261121-101500-abcde",
        ] {
            assert!(bad.parse::<RunName>().is_err(), "{bad}");
        }
    }

    #[test]
    fn runs_of_a_fabric_wait_for_each_other_in_the_order_in_which_they_were_asked_for() {
        let folder = tempfile::tempdir().unwrap();
        let run_store = RunStore::open(folder.path()).unwrap();
        for (name, asked_ms, fabric) in [(TWO, 2000, "a"), (ONE, 1000, "a"), (THREE, 1500, "b")] {
            run_store.add(&request(name, asked_ms, fabric)).unwrap();
        }
        let [one, two, three] = [ONE, TWO, THREE].map(|name| name.parse::<RunName>().unwrap());
        assert_eq!(
            run_store.before(&two, "a", 3000),
            std::slice::from_ref(&one)
        );
        assert!(run_store.before(&one, "a", 3000).is_empty());
        assert!(run_store.before(&three, "b", 3000).is_empty());
        let state = run_store.state(&two, 3000).unwrap();
        assert_eq!(
            (state.state, state.before, state.behind.as_deref()),
            (Stage::Queued, Some(1), Some(ONE))
        );
        // The first run got no runner. It blocks no other run, stays queued until it lapses, and then counts as failed.
        assert!(run_store.before(&two, "a", 1000 + YOUNG_MS).is_empty());
        let stage = |now_ms| run_store.state(&one, now_ms).unwrap().state;
        assert_eq!(stage(1000 + YOUNG_MS), Stage::Queued);
        assert_eq!(stage(1000 + LAPSE_MS), Stage::Failed);
        assert!(!run_store.cancel(&one, 1000 + LAPSE_MS).unwrap());
        assert!(run_store.cancel(&one, 1000 + YOUNG_MS).unwrap());
        assert_eq!(stage(1000 + YOUNG_MS), Stage::Cancelled);
        run_store.leave_queue(&request(ONE, 1000, "a"));
        assert_eq!(run_store.queue().len(), 2);
    }

    #[test]
    fn what_became_of_a_run_follows_from_its_files() {
        let folder = tempfile::tempdir().unwrap();
        let run_store = RunStore::open(folder.path()).unwrap();
        run_store.add(&request(ONE, 1000, "a")).unwrap();
        let one: RunName = ONE.parse().unwrap();
        let runner = Runner {
            pid: process::own_pid(),
            start: process::start_time(process::own_pid()).unwrap(),
            began_ms: None,
        };
        run_store.set_keeper(&one, &runner).unwrap();
        assert_eq!(
            run_store.state(&one, u64::MAX).unwrap().state,
            Stage::Queued
        );
        let began_ms = Some(2000);
        run_store
            .set_keeper(&one, &Runner { began_ms, ..runner })
            .unwrap();
        assert_eq!(
            run_store.state(&one, u64::MAX).unwrap().state,
            Stage::Running
        );
        // Symptom: until its processes had ended, a cancelled run said that it runs.
        assert!(run_store.cancel(&one, u64::MAX).unwrap());
        let state = run_store.state(&one, u64::MAX).unwrap();
        assert!(state.state == Stage::Cancelling && !state.is_over());
        fs::remove_file(run_store.folder_of(&one).join(CANCEL)).unwrap();
        // Another process has its process id by now.
        run_store
            .set_keeper(
                &one,
                &Runner {
                    start: 1,
                    began_ms,
                    ..runner
                },
            )
            .unwrap();
        assert_eq!(
            run_store.state(&one, u64::MAX).unwrap().state,
            Stage::Failed
        );
        assert!(!run_store.cancel(&one, u64::MAX).unwrap() && !run_store.is_cancelled(&one));
        let outcome = Outcome {
            how: How::Cancelled,
            exit_code: Some(130),
            ended_ms: 3000,
            card: None,
            complaint: Some("ended by SIGINT".to_owned()),
        };
        run_store.set_outcome(&one, &outcome).unwrap();
        let state = run_store.state(&one, u64::MAX).unwrap();
        assert_eq!(
            (state.state, state.why.as_deref()),
            (Stage::Cancelled, Some("the run was cancelled"))
        );
        assert!(state.has("ANNA rack") && !state.has("anna rack8"));
        assert!(run_store.state(&TWO.parse().unwrap(), 0).is_none());
    }

    /// Symptom: a run that ended with its server had the red badge INVALID, as if it had been measured.
    #[test]
    fn a_run_that_ended_with_its_server_is_aborted_and_not_invalid() {
        let folder = tempfile::tempdir().unwrap();
        let run_store = RunStore::open(folder.path()).unwrap();
        run_store.add(&request(ONE, 1000, "a")).unwrap();
        let one: RunName = ONE.parse().unwrap();
        let text = include_str!("../../tests/golden/slow-receiver/record.json");
        fs::write(run_store.folder_of(&one).join(runs::RECORD), text).unwrap();
        let state = |how, verdict| {
            let card = Card {
                verdict,
                ..Card::of(&json::read(text).unwrap())
            };
            let outcome = Outcome {
                how,
                exit_code: Some(130),
                ended_ms: 3000,
                card: Some(card),
                complaint: Some("ended by SIGINT".to_owned()),
            };
            run_store.set_outcome(&one, &outcome).unwrap();
            run_store.state(&one, 4000).unwrap()
        };
        let aborted = state(How::Server, VerdictWord::Invalid);
        assert!(aborted.aborted && aborted.sentence.is_none() && aborted.why.is_some());
        assert_eq!(aborted.hosts, "n[1-4]");
        assert!(!state(How::Ended, VerdictWord::Invalid).aborted);
        assert!(!state(How::Server, VerdictWord::Pass).aborted);
    }
}
