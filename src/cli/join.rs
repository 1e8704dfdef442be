//! `pipebench join`: connects to a waiting run, and carries the streams of a node to it.

use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use launcher::join::{self, JoinError, JoinRequest, Token};

use crate::exit;
use crate::sys::socket::readable;

use super::args::{JoinArguments, Launch};
use super::joining::step_file;
use super::resolve;
use super::terminal::{fail, refuse};

/// Time between two looks for a token file.
const LOOK_UP: Duration = Duration::from_millis(200);

/// Joins a run; returns the exit code of its node.
pub(super) fn run(words: &JoinArguments) -> Result<u8, u8> {
    let time = resolve::time("--deadline", &words.deadline).map_err(|error| refuse(&error))?;
    let hint = "the launching side makes it, in a folder that all hosts must share";
    join(
        &words.token_file,
        words.addresses.clone(),
        Duration::from_nanos(time),
        hint,
    )
}

/// Joins the run of the first task of this job step within this time; returns the exit code of its node.
pub(super) fn run_of_step(launch: &Launch, within: Duration) -> Result<u8, u8> {
    let hint = "without a home folder that all hosts share, start pipebench once, in sbatch or salloc: pipebench --hosts auto";
    join(&step_file(launch)?, Vec::new(), within, hint)
}

fn join(file: &Path, mut addresses: Vec<String>, within: Duration, hint: &str) -> Result<u8, u8> {
    let start = Instant::now();
    let (token, listed) = read(file, within, hint)?;
    if addresses.is_empty() {
        addresses = listed;
    }
    if addresses.is_empty() {
        let text = format!(
            "{} holds no address: name one (pipebench join HOST:PORT)",
            file.display()
        );
        return Err(refuse(&text));
    }
    let request = JoinRequest {
        addresses,
        token,
        deadline: within.saturating_sub(start.elapsed()),
        command: vec![own_executable().into(), "node".into()],
    };
    join::join(request).map_err(|error| {
        let code = match &error {
            JoinError::Address { .. } => exit::USAGE,
            JoinError::Run { .. } | JoinError::Wait { .. } => exit::RESOURCE,
            _ => exit::UNREACHABLE,
        };
        fail(&error, code)
    })
}

/// Reads a token and the addresses beside it, once they are there. The error is the exit code.
fn read(file: &Path, within: Duration, hint: &str) -> Result<(Token, Vec<String>), u8> {
    let start = Instant::now();
    // A program that starts others can leave standard input open and write nothing.
    let is_late = || matches!(readable(io::stdin().as_fd(), within), Ok(false));
    if file == Path::new("-") && is_late() {
        let text =
            "cannot join: no token came on standard input in time (name a file: --token-file FILE)";
        return Err(fail(&text, exit::UNREACHABLE));
    }
    loop {
        match Token::read(file) {
            Err(error) if error.is_absent() => {}
            found => return found.map_err(|error| refuse(&error)),
        }
        if start.elapsed() >= within {
            let text = format!("cannot join: there is no {} ({hint})", file.display());
            return Err(fail(&text, exit::UNREACHABLE));
        }
        // NFS remembers that a file is missing until its folder is read again.
        let folder = file.parent().filter(|folder| *folder != Path::new(""));
        let (Ok(_) | Err(_)) = fs::read_dir(folder.unwrap_or(Path::new("."))).map(Iterator::count);
        std::thread::sleep(LOOK_UP);
    }
}

/// The executable of this process by its name, or by its link if the file was replaced.
fn own_executable() -> PathBuf {
    let named = std::env::current_exe().ok().filter(|path| path.exists());
    named.unwrap_or_else(|| PathBuf::from("/proc/self/exe"))
}
