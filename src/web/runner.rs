//! Runner of one run: waits for its fabric, runs it as a child process with a list of arguments, ends it at its time limit, and stores its outcome.
//!
//! A runner is a separate process. A run therefore depends neither on the request that started it nor, if the runner is detached, on the server.

use std::fs::{File, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::store::{self, bounded};
use crate::sys::process;
use crate::{exit, outside};

use super::request::Request;
use super::run_store::{ERRORS, FolderError, RunName, RunStore, Runner};
use super::state::{Card, How, Outcome};
use super::tools::Tools;

/// Polling interval.
const GLANCE: Duration = Duration::from_millis(100);
/// Time from SIGINT to SIGKILL, in which a run can end in order.
const GRACE: Duration = Duration::from_secs(40);
/// Maximum number of stored characters of an error message.
const COMPLAINT: usize = 400;

/// Reason why a runner could not manage a run.
#[derive(Debug, thiserror::Error)]
pub(crate) enum KeepError {
    /// The folder belongs to no requested run, or standard input has no request for it.
    #[error("{} is not the folder of a requested run, or standard input has no request for it", .0.display())]
    NoRun(PathBuf),
    /// The folder of runs cannot be used.
    #[error(transparent)]
    Folder(#[from] FolderError),
    /// A file cannot be written.
    #[error(transparent)]
    Store(#[from] crate::store::StoreError),
    /// A system call failed.
    #[error("{}: {}", .0, crate::sys::why(.1))]
    System(&'static str, io::Error),
}

/// Starts a runner for the run in this folder, in a new process group. The runner gets the request as it was checked, because the stored one can be
/// another by now. With `with_parent` it ends when the calling thread ends; without, it is detached.
pub(super) fn start(
    tools: &Tools,
    folder: &Path,
    request: &Request,
    with_parent: bool,
) -> io::Result<Child> {
    let mut command = Command::new(&tools.program);
    command.arg("keep");
    if with_parent {
        command.arg(format!("--parent={}", process::own_pid()));
    }
    // A web server puts data of the request, passwords included, into the environment. Processes that outlive the request must not get it.
    for (variable, _) in std::env::vars_os() {
        if is_of_request(&variable.to_string_lossy()) {
            command.env_remove(variable);
        }
    }
    let mut child = command
        .arg(folder)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()?;
    let text = serde_json::to_vec(request).unwrap_or_default();
    if let Some(mut input) = child.stdin.take() {
        // A runner without a whole request ends, and the queue still has the request.
        let (Ok(()) | Err(_)) = input.write_all(&text);
    }
    Ok(child)
}

/// True for the environment variables of a CGI request (RFC 3875, 4.1).
fn is_of_request(variable: &str) -> bool {
    const BEGINNINGS: [&str; 8] = [
        "HTTP_",
        "REMOTE_",
        "REQUEST_",
        "CONTENT_",
        "SERVER_",
        "SCRIPT_",
        "PATH_",
        "REDIRECT_",
    ];
    const WHOLE: [&str; 4] = [
        "AUTH_TYPE",
        "GATEWAY_INTERFACE",
        "QUERY_STRING",
        "DOCUMENT_ROOT",
    ];
    WHOLE.contains(&variable) || BEGINNINGS.iter().any(|begin| variable.starts_with(begin))
}

/// Manages the run in this folder until it has ended. Reads its request from `input`. `stop` becomes true when this process must end.
pub(crate) fn keep(
    folder: &Path,
    input: impl Read,
    tools: &Tools,
    stop: &Arc<AtomicBool>,
) -> Result<(), KeepError> {
    let no_run = || KeepError::NoRun(folder.to_owned());
    let name = folder.file_name().and_then(|name| name.to_str());
    let name: Option<RunName> = name.and_then(|name| name.parse().ok());
    let name = name.ok_or_else(no_run)?;
    let run_store = RunStore::open(folder.parent().ok_or_else(no_run)?)?;
    let mut text = Vec::new();
    let read = input.take(bounded::TEXT_BYTES).read_to_end(&mut text);
    let request: Option<Request> = read.ok().and_then(|_| outside::read(&text).ok());
    let request = request
        .filter(|request| request.name == name.to_string())
        .ok_or_else(no_run)?;
    // A run has only one runner, even if several are started.
    let Some(_taken) = run_store.take(&name) else {
        return Ok(());
    };
    if run_store.outcome(&name).is_some() {
        run_store.leave_queue(&request);
        return Ok(());
    }
    let own = Own {
        folder,
        tools,
        run_store: &run_store,
        name: &name,
        request: &request,
        stop,
    };
    let outcome = match own.see_to_it() {
        // The queue still has the request, so a restarted server starts it again.
        Ok(None) => return Ok(()),
        Ok(Some(outcome)) => outcome,
        // No process reads a runner's standard error, so its own error goes into the outcome.
        Err(error) => Outcome {
            complaint: Some(error.to_string()),
            ..own.outcome(How::Failed, None)
        },
    };
    run_store.forget_live(&name);
    run_store.set_outcome(&name, &outcome)?;
    run_store.leave_queue(&request);
    Ok(())
}

struct Own<'a> {
    folder: &'a Path,
    tools: &'a Tools,
    run_store: &'a RunStore,
    name: &'a RunName,
    request: &'a Request,
    stop: &'a AtomicBool,
}

impl Own<'_> {
    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::SeqCst)
    }

    /// Manages the run from the queue to its end. `None` when this process must end before the run's turn.
    fn see_to_it(&self) -> Result<Option<Outcome>, KeepError> {
        let pid = process::own_pid();
        let runner = Runner {
            pid,
            start: process::start_time(pid).unwrap_or_default(),
            began_ms: None,
        };
        self.run_store.set_keeper(self.name, &runner)?;
        Ok(match self.wait()? {
            None if !self.run_store.is_cancelled(self.name) => None,
            None => Some(self.outcome(How::Cancelled, None)),
            Some(turn) => {
                let began_ms = Some((self.tools.now_ms)());
                self.run_store
                    .set_keeper(self.name, &Runner { began_ms, ..runner })?;
                Some(self.run(turn)?)
            }
        })
    }

    /// Waits until all earlier runs are gone, then locks the fabric. `None` when the run is cancelled or this process must end.
    fn wait(&self) -> Result<Option<File>, KeepError> {
        let fabric = &self.request.asked.fabric;
        let path = self.run_store.lock_of(fabric);
        let fail = |error| KeepError::System("cannot lock the fabric", error);
        let file = store::open_private(&path).map_err(fail)?;
        loop {
            if self.is_stopped() || self.run_store.is_cancelled(self.name) {
                return Ok(None);
            }
            let now_ms = (self.tools.now_ms)();
            let others = self.run_store.before(self.name, fabric, now_ms);
            if others.is_empty() {
                match file.try_lock() {
                    // The child inherits the descriptor: the fabric stays locked as long as any process holds it.
                    Ok(()) => return Ok(Some(file)),
                    Err(TryLockError::WouldBlock) => {}
                    Err(TryLockError::Error(error)) => return Err(fail(error)),
                }
            }
            // The machine that waits can take part in a measurement, so it polls rarely.
            std::thread::sleep(GLANCE * 3);
        }
    }

    /// Runs the child process to its end.
    fn run(&self, turn: File) -> Result<Outcome, KeepError> {
        let fail = |what| move |error| KeepError::System(what, error);
        let errors =
            File::create(self.folder.join(ERRORS)).map_err(fail("cannot write errors.txt"))?;
        let mut child = Command::new(&self.tools.program)
            .args(&self.request.asked.words)
            .arg(format!("--run-folder={}", self.folder.display()))
            .arg(format!("--parent={}", process::own_pid()))
            .arg("--quiet")
            .stdin(Stdio::from(turn))
            .stdout(Stdio::null())
            .stderr(Stdio::from(errors))
            .process_group(0)
            .spawn()
            .map_err(fail("cannot start the run"))?;
        let limit = Instant::now() + Duration::from_millis(self.request.limit_ms);
        let mut asked: Option<(How, Instant)> = None;
        let status = loop {
            if let Some(status) = child.try_wait().map_err(fail("cannot wait for the run"))? {
                break status;
            }
            let now = Instant::now();
            match asked {
                None => {
                    let is_cancelled = self.run_store.is_cancelled(self.name);
                    let how = match (is_cancelled, self.is_stopped(), now >= limit) {
                        (true, ..) => Some(How::Cancelled),
                        (_, true, _) => Some(How::Server),
                        (_, _, true) => Some(How::Limit),
                        (false, false, false) => None,
                    };
                    if let Some(how) = how {
                        tell(&child, Signal::SIGINT);
                        asked = Some((how, now + GRACE));
                    }
                }
                Some((_, until)) if now >= until => tell(&child, Signal::SIGKILL),
                Some(_) => {}
            }
            std::thread::sleep(GLANCE);
        };
        let how = asked.map_or(How::Ended, |(how, _)| how);
        let mut outcome = self.outcome(how, Some(status));
        if how == How::Ended && self.run_store.is_cancelled(self.name) {
            let late = || "the cancel came after the end: the result is complete".to_owned();
            outcome.complaint.get_or_insert_with(late);
        }
        Ok(outcome)
    }

    fn outcome(&self, how: How, status: Option<ExitStatus>) -> Outcome {
        let record = self.run_store.record(self.name);
        let code = status.and_then(|status| status.code());
        let killed = status.and_then(|status| status.signal());
        let errors = self.run_store.text(self.name, ERRORS);
        let complaint = errors.and_then(|text| first_complaint(&text));
        Outcome {
            how,
            exit_code: code.and_then(|code| u8::try_from(code).ok()),
            ended_ms: (self.tools.now_ms)(),
            card: record.as_ref().map(Card::of),
            complaint: complaint
                .or_else(|| killed.map(|signal| format!("killed by signal {signal}")))
                // A full disk has no room for the error message either, so report the exit code.
                .or_else(|| {
                    let code = code.filter(|_| record.is_none())?;
                    Some(match code == i32::from(exit::NOT_WRITTEN) {
                        true => format!("exit code {code}: a result could not be written"),
                        false => format!("exit code {code}"),
                    })
                }),
        }
    }
}

/// First error line of the program itself, without its prefix.
fn first_complaint(text: &str) -> Option<String> {
    let mut lines = text.lines();
    let own = lines.find_map(|line| line.strip_prefix("pipebench: "))?;
    let shown = own.chars().filter(|letter| !letter.is_control());
    Some(shown.take(COMPLAINT).collect())
}

/// Sends a signal to a child process. A child that was not waited for keeps its process id.
pub(super) fn tell(child: &Child, signal: Signal) {
    if let Ok(pid) = i32::try_from(child.id()) {
        // It can have ended already.
        let (Ok(()) | Err(_)) = kill(Pid::from_raw(pid), signal);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::web::run_store::tests::request;

    /// The file was read a second time after the check: the words of a file that replaced it in between were run.
    #[test]
    fn a_request_that_was_swapped_after_its_check_is_not_run() {
        let folder = tempfile::tempdir().unwrap();
        let ran = folder.path().join("ran");
        let tools = Tools {
            understand: |_| Err(String::new()),
            now_ms: || 2000,
            random: String::new,
            program: PathBuf::from("/bin/sh"),
        };
        let words = |word: &str| {
            let script = format!("echo {word} >> {}", ran.display());
            vec!["-c".to_owned(), script]
        };
        let run_store = RunStore::open(&folder.path().join("runs")).unwrap();
        let mut checked = request("pb-20261121-101500-abcdef", 1000, "a");
        checked.asked.words = words("checked");
        let mut swapped = checked.clone();
        swapped.asked.words = words("swapped");
        run_store.add(&swapped).unwrap();
        let run = run_store.folder_of(&checked.name.parse().unwrap());
        let keep = |text: &[u8]| keep(&run, text, &tools, &Arc::default());
        let other = Request {
            name: "pb-20261121-101501-abcdef".to_owned(),
            ..checked.clone()
        };
        for text in [&b""[..], &serde_json::to_vec(&other).unwrap()] {
            assert!(matches!(keep(text), Err(KeepError::NoRun(_))));
        }
        keep(&serde_json::to_vec(&checked).unwrap()).unwrap();
        assert_eq!(std::fs::read_to_string(ran).unwrap(), "checked\n");
    }

    #[test]
    fn variables_of_a_request_are_told_from_those_of_the_account() {
        for variable in [
            "HTTP_AUTHORIZATION",
            "HTTP_PROXY",
            "QUERY_STRING",
            "REMOTE_USER",
        ] {
            assert!(is_of_request(variable), "{variable}");
        }
        for variable in ["HOME", "PATH", "LANG", "SSH_AUTH_SOCK", "PIPEBENCH_SITE"] {
            assert!(!is_of_request(variable), "{variable}");
        }
    }

    #[test]
    fn the_first_complaint_is_the_programs_own() {
        let text =
            "warning: x\npipebench: n1: busy: run ab by anna\u{7} since 10:02\npipebench: more\n";
        assert_eq!(
            first_complaint(text).as_deref(),
            Some("n1: busy: run ab by anna since 10:02")
        );
        assert_eq!(first_complaint("x\n"), None);
    }
}
