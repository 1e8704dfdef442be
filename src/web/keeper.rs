//! Whoever sees to one run: waits for its fabric, runs it as a child with arguments as a list, ends it at its limit, and notes how it ended.
//!
//! A keeper is a process of its own, so that a run needs neither the request that asked for it nor, where it is detached, the server.

use std::fs::{File, TryLockError};
use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::exit;
use crate::store;
use crate::sys::process;

use super::Tools;
use super::request::Request;
use super::shelf::{ERRORS, Keeper, RunName, Shelf};
use super::state::{Card, How, Outcome};

/// How often it looks.
const GLANCE: Duration = Duration::from_millis(100);
/// A run that was asked to end has so long to do it in order.
const GRACE: Duration = Duration::from_secs(40);
/// Letters of a complaint that are kept.
const COMPLAINT: usize = 400;

/// Why a run could not be seen to.
#[derive(Debug, thiserror::Error)]
pub enum KeepError {
    /// The folder is none of a run.
    #[error("{} is no folder of a run that was asked for", .0.display())]
    NoRun(PathBuf),
    /// A file cannot be written.
    #[error(transparent)]
    Store(#[from] crate::store::StoreError),
    /// Something of the system failed.
    #[error("{}: {}", .0, crate::sys::why(.1))]
    System(&'static str, io::Error),
}

/// Starts a keeper for a run, as a process of its own group. With `parent` it ends when this thread does; else it is detached.
pub fn start(tools: &Tools, shelf: &Shelf, name: &RunName, with_parent: bool) -> io::Result<Child> {
    let mut command = Command::new(&tools.program);
    command.arg("keep");
    if with_parent {
        command.arg(format!("--parent={}", process::own_pid()));
    }
    // What a web server says of a request, passwords included, is not for those who go on without it.
    for (variable, _) in std::env::vars_os() {
        if is_of_request(&variable.to_string_lossy()) {
            command.env_remove(variable);
        }
    }
    command
        .arg(shelf.folder_of(name))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
}

/// Whether a variable of the environment is one of CGI (RFC 3875, 4.1).
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

/// Sees to the run of a folder until it has ended. `stop` is set when this process is asked to end.
pub fn keep(folder: &Path, tools: &Tools, stop: &Arc<AtomicBool>) -> Result<(), KeepError> {
    let no_run = || KeepError::NoRun(folder.to_owned());
    let name: RunName = folder
        .file_name()
        .and_then(|name| name.to_str())
        .and_then(|name| name.parse().ok())
        .ok_or_else(no_run)?;
    let shelf = Shelf::open(folder.parent().ok_or_else(no_run)?)?;
    let request = shelf.request(&name).ok_or_else(no_run)?;
    // One run has one keeper, whoever starts them.
    let Some(_taken) = shelf.take(&name) else {
        return Ok(());
    };
    if shelf.outcome(&name).is_some() {
        shelf.leave_queue(&request);
        return Ok(());
    }
    let own = Own {
        folder,
        tools,
        shelf: &shelf,
        name: &name,
        request: &request,
        stop,
    };
    let outcome = match own.see_to_it() {
        // The queue still has it: a server that comes back starts it again.
        Ok(None) => return Ok(()),
        Ok(Some(outcome)) => outcome,
        // Nobody reads what a keeper says, so it stands where everybody looks.
        Err(error) => Outcome {
            complaint: Some(error.to_string()),
            ..own.outcome(How::Failed, None)
        },
    };
    shelf.forget_live(&name);
    shelf.set_outcome(&name, &outcome)?;
    shelf.leave_queue(&request);
    Ok(())
}

struct Own<'a> {
    folder: &'a Path,
    tools: &'a Tools,
    shelf: &'a Shelf,
    name: &'a RunName,
    request: &'a Request,
    stop: &'a AtomicBool,
}

impl Own<'_> {
    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::SeqCst)
    }

    /// From the queue to the end; none if it was not its turn yet when this process was asked to end.
    fn see_to_it(&self) -> Result<Option<Outcome>, KeepError> {
        let pid = process::own_pid();
        let keeper = Keeper {
            pid,
            start: process::start_time(pid).unwrap_or_default(),
            began_ms: None,
        };
        self.shelf.set_keeper(self.name, &keeper)?;
        Ok(match self.wait()? {
            None if !self.shelf.is_cancelled(self.name) => None,
            None => Some(self.outcome(How::Cancelled, None)),
            Some(turn) => {
                let began_ms = Some((self.tools.now_ms)());
                self.shelf
                    .set_keeper(self.name, &Keeper { began_ms, ..keeper })?;
                Some(self.run(turn)?)
            }
        })
    }

    /// Waits until all that were before it are gone, and takes the fabric; none if it is not wanted any more.
    fn wait(&self) -> Result<Option<File>, KeepError> {
        let path = self.shelf.lock_of(&self.request.fabric);
        let fail = |error| KeepError::System("cannot hold the fabric", error);
        let file = store::open_private(&path).map_err(fail)?;
        loop {
            if self.is_stopped() || self.shelf.is_cancelled(self.name) {
                return Ok(None);
            }
            let now_ms = (self.tools.now_ms)();
            let others = self.shelf.before(self.name, &self.request.fabric, now_ms);
            if others.is_empty() {
                match file.try_lock() {
                    // The child gets the descriptor: the fabric is held for as long as any process has it.
                    Ok(()) => return Ok(Some(file)),
                    Err(TryLockError::WouldBlock) => {}
                    Err(TryLockError::Error(error)) => return Err(fail(error)),
                }
            }
            // The machine that waits may be one that measures.
            std::thread::sleep(GLANCE * 3);
        }
    }

    /// Runs it to its end.
    fn run(&self, turn: File) -> Result<Outcome, KeepError> {
        let fail = |what| move |error| KeepError::System(what, error);
        let errors =
            File::create(self.folder.join(ERRORS)).map_err(fail("cannot write errors.txt"))?;
        let mut child = Command::new(&self.tools.program)
            .args(&self.request.words)
            .arg(format!("--folder={}", self.folder.display()))
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
                    let how = match (self.is_stopped(), now >= limit) {
                        (true, _) if self.shelf.is_cancelled(self.name) => Some(How::Cancelled),
                        (true, _) => Some(How::Server),
                        (false, true) => Some(How::Limit),
                        (false, false) => None,
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
        Ok(self.outcome(how, Some(status)))
    }

    fn outcome(&self, how: How, status: Option<ExitStatus>) -> Outcome {
        let record = self.shelf.record(self.name);
        let code = status.and_then(|status| status.code());
        let killed = status.and_then(|status| status.signal());
        let complaint = self
            .shelf
            .text(self.name, ERRORS)
            .and_then(|text| first_complaint(&text));
        Outcome {
            how,
            exit_code: code.and_then(|code| u8::try_from(code).ok()),
            ended_ms: (self.tools.now_ms)(),
            card: record.as_ref().map(Card::of),
            complaint: complaint
                .or_else(|| killed.map(|signal| format!("killed by signal {signal}")))
                // Where the disk is full, there is no room for what it complained of either.
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

/// The first line in which the program itself complains.
fn first_complaint(text: &str) -> Option<String> {
    let own = text
        .lines()
        .find_map(|line| line.strip_prefix("pipebench: "));
    Some(
        own?.chars()
            .filter(|letter| !letter.is_control())
            .take(COMPLAINT)
            .collect(),
    )
}

/// Sends a child a signal. One that was not waited for still has its number.
pub fn tell(child: &Child, signal: Signal) {
    if let Ok(pid) = i32::try_from(child.id()) {
        match kill(Pid::from_raw(pid), signal) {
            Ok(()) | Err(_) => {} // It has ended.
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
