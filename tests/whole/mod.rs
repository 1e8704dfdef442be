//! Whole runs of the program on this machine, for tests that end them in the middle: starts them, waits for a stage, reads
//! the process table and the status segments, ends them within a time, and checks that nothing is left.
#![allow(dead_code, reason = "each test file uses its own part of this module")]

#[path = "../alone/mod.rs"]
pub mod alone;

use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use pipebench::internals::record::Record;
use pipebench::internals::report::json;

pub const PIPEBENCH: &str = env!("CARGO_BIN_EXE_pipebench");

/// One process of the machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    pub pid: i32,
    pub parent: i32,
    pub name: String,
}

/// A started run. It ends with the test at the latest.
pub struct Run {
    child: Child,
    input: Option<ChildStdin>,
    errors: Arc<Mutex<Vec<u8>>>,
    /// True once all of its error output has been read.
    closed: Arc<AtomicBool>,
    folder: tempfile::TempDir,
}

/// Outcome of a run.
#[derive(Debug)]
pub struct Ended {
    /// Exit code; `None` after a signal.
    pub code: Option<i32>,
    pub errors: String,
    pub record: Option<Record>,
}

impl Ended {
    /// The first line in which the program itself complains.
    pub fn first_line(&self) -> &str {
        let mut lines = self.errors.lines();
        lines
            .find(|line| line.starts_with("pipebench: "))
            .unwrap_or_default()
    }

    /// Panics unless the exit code and the words in the first line are as expected.
    #[track_caller]
    pub fn expect(&self, what: &str, code: i32, words: &[&str]) {
        let first = self.first_line();
        // Prints the line for the table of docs/troubleshooting.md; visible with --nocapture.
        eprintln!("{what}: {first}");
        let said = words.iter().all(|word| first.contains(word));
        assert!(
            self.code == Some(code) && said,
            "{what}: expected {code} and {words:?}, got {:?} and {}",
            self.code,
            self.errors
        );
    }
}

impl Run {
    /// Starts the program with these arguments, and makes it write a record.
    pub fn start(words: &[&str]) -> Self {
        Self::start_by(Command::new(PIPEBENCH), words)
    }

    /// Starts a run and waits until all its links exist; it goes on when it is released.
    pub fn held(words: &[&str]) -> Self {
        let mut run = Self::start(&[words, &["--hold", "go"]].concat());
        run.wait_for("held at go");
        run
    }

    /// Starts the program through a command that is the program, or that runs it.
    pub fn start_by(mut command: Command, words: &[&str]) -> Self {
        alone::wait();
        let folder = tempfile::tempdir().expect("a folder");
        // The run can belong to another user.
        let all = std::os::unix::fs::PermissionsExt::from_mode(0o777);
        fs::set_permissions(folder.path(), all).expect("a folder of one's own");
        let mut child = command
            .args(words)
            .arg("--json")
            .arg(folder.path().join("record.json"))
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("pipebench starts");
        let errors = Arc::new(Mutex::new(Vec::new()));
        let closed = Arc::new(AtomicBool::new(false));
        let (place, end) = (Arc::clone(&errors), Arc::clone(&closed));
        let mut stream = child.stderr.take().expect("piped");
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(got @ 1..) = stream.read(&mut bytes) {
                place.lock().expect("unbroken").extend(&bytes[..got]);
            }
            end.store(true, Ordering::SeqCst);
        });
        Self {
            input: child.stdin.take(),
            child,
            errors,
            closed,
            folder,
        }
    }

    pub fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).expect("a process id")
    }

    fn said(&self) -> String {
        String::from_utf8_lossy(&self.errors.lock().expect("unbroken")).into_owned()
    }

    /// Waits until the program has written these words to stderr.
    #[track_caller]
    pub fn wait_for(&mut self, words: &str) {
        self.wait_until(&format!("it says {words:?}"), |run| {
            run.said().contains(words)
        });
    }

    /// Waits until something is so of a run that goes on; shows what the program said if it ends before that.
    #[track_caller]
    pub fn wait_until(&mut self, what: &str, mut asked: impl FnMut(&Self) -> bool) {
        wait_until(what, SOON, || {
            let ended = self.child.try_wait().expect("a child");
            assert!(ended.is_none(), "ended early: {}", self.said());
            asked(self)
        });
    }

    /// All descendants of the launching process.
    pub fn tree(&self) -> Vec<Process> {
        below(self.pid())
    }

    /// The status segments of this run.
    pub fn segments(&self) -> Vec<PathBuf> {
        let tree = self.tree();
        let names = fs::read_dir("/dev/shm").expect("shared memory").flatten();
        names
            .map(|entry| entry.path())
            .filter(|path| {
                // Other runs can use this machine, too.
                let owner = word_of(path, OWNER_WORD);
                tree.iter()
                    .any(|process| owner == Some(u64::from(process.pid.unsigned_abs())))
            })
            .collect()
    }

    /// Releases a held run.
    pub fn release(&mut self) {
        let mut input = self.input.take().expect("not yet released");
        input.write_all(b"\n").expect("written");
    }

    /// Waits for the end; panics with the error output at the deadline. The drop then kills the run.
    #[track_caller]
    pub fn end(mut self, what: &str, deadline: Duration) -> Ended {
        let until = Instant::now() + deadline;
        let status = loop {
            match self.child.try_wait().expect("a child") {
                Some(status) => break status,
                None => assert!(
                    Instant::now() < until,
                    "{what}: still running after {deadline:?}: {}",
                    self.said()
                ),
            }
            pause();
        };
        let text = fs::read_to_string(self.folder.path().join("record.json")).ok();
        // The reader thread gets the last output a moment later; a leftover process would hold the pipe open.
        let until = Instant::now() + Duration::from_secs(5);
        while !self.closed.load(Ordering::SeqCst) && Instant::now() < until {
            pause();
        }
        Ended {
            code: status.code(),
            errors: self.said(),
            record: text.map(|text| json::read(&text).expect("a record that can be read")),
        }
    }
}

/// Runs the program to its end.
pub fn run(words: &[&str]) -> Output {
    alone::wait();
    let mut command = Command::new(PIPEBENCH);
    let command = command.args(words).stdin(Stdio::null());
    command.output().expect("pipebench runs")
}

/// Names of status segments of all runs, except those that unit tests make.
pub fn segments() -> Vec<String> {
    fs::read_dir("/dev/shm")
        .expect("shared memory")
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| name.starts_with("pipebench-") && !name.starts_with("pipebench-unit-"))
        .collect()
}

impl Drop for Run {
    fn drop(&mut self) {
        let tree = self.tree();
        self.child.kill().ok();
        self.child.wait().ok();
        // The host is free for the next run once the last process has ended.
        let until = Instant::now() + SOON;
        let left = || {
            all_processes().into_iter().any(|now| {
                tree.iter()
                    .any(|then| (then.pid, &then.name) == (now.pid, &now.name))
            })
        };
        while left() && Instant::now() < until {
            pause();
        }
    }
}

/// Gives other processes time between two looks at them.
pub fn pause() {
    let woken = nix::poll::poll(&mut [], nix::poll::PollTimeout::from(10_u8));
    assert_eq!(woken, Ok(0));
}

#[track_caller]
pub fn wait_until(what: &str, deadline: Duration, mut asked: impl FnMut() -> bool) {
    let until = Instant::now() + deadline;
    while !asked() {
        assert!(Instant::now() < until, "not within {deadline:?}: {what}");
        pause();
    }
}

pub fn all_processes() -> Vec<Process> {
    let entries = fs::read_dir("/proc").expect("a process table");
    entries
        .filter_map(|entry| {
            let pid: i32 = entry.ok()?.file_name().to_str()?.parse().ok()?;
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
            let (head, tail) = stat.rsplit_once(')')?;
            let mut fields = tail.split_whitespace();
            let state = fields.next()?;
            let parent = fields.next()?.parse().ok()?;
            let name = head.split_once('(')?.1.to_owned();
            (state != "Z").then_some(Process { pid, parent, name })
        })
        .collect()
}

pub fn below(root: i32) -> Vec<Process> {
    let all = all_processes();
    let mut found = Vec::new();
    let mut parents = vec![root];
    while let Some(parent) = parents.pop() {
        for process in all.iter().filter(|process| process.parent == parent) {
            found.push(process.clone());
            parents.push(process.pid);
        }
    }
    found
}

/// Waits until none of these processes is left.
#[track_caller]
pub fn expect_gone(what: &str, processes: &[Process]) {
    wait_until(&format!("{what}: {processes:?} are gone"), SOON, || {
        let now = all_processes();
        !processes.iter().any(|then| {
            now.iter()
                .any(|now| now.pid == then.pid && now.name == then.name)
        })
    });
}

/// Waits until none of these files is left.
#[track_caller]
pub fn expect_removed(what: &str, files: &[PathBuf]) {
    wait_until(&format!("{what}: {files:?} are removed"), SOON, || {
        !files.iter().any(|file| file.exists())
    });
}

pub fn send(pid: i32, signal: Signal) {
    kill(Pid::from_raw(pid), signal).unwrap_or_else(|why| panic!("{signal} to {pid}: {why}"));
}

/// A word of a status segment; `None` if no such segment exists.
pub fn word_of(segment: &Path, index: usize) -> Option<u64> {
    const MAGIC: &[u8] = b"PBSTATUS";
    let mut bytes = fs::read(segment).ok()?;
    if bytes.get(..MAGIC.len()) != Some(MAGIC) {
        return None;
    }
    let word: [u8; 8] = bytes
        .drain(index * 8..)
        .take(8)
        .collect::<Vec<_>>()
        .try_into()
        .ok()?;
    Some(u64::from_le_bytes(word))
}

// Words of the status segment's header, as `buffer/board.rs` lays them out.
pub const OWNER_WORD: usize = 3;
/// Not zero once sources must stop.
pub const STOP_WORD: usize = 7;
/// 1 in the window, 2 after it.
pub const EPOCH_WORD: usize = 8;

/// Deadline that is long enough for a busy machine, and short enough for a person.
pub const SOON: Duration = Duration::from_secs(30);
