//! Commands under test: starts them, reads both outputs while they run, signals them, and never waits
//! without a deadline.
//!
//! Does not know hosts: `Lab::command` (raise.rs) builds the commands.

use std::io::Read;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;

use super::census::children_of;

/// Status and outputs of a command that has ended.
#[derive(Debug)]
pub struct Finished {
    pub status: ExitStatus,
    pub stdout: String,
    pub stderr: String,
}

impl Finished {
    /// The exit code; `None` if a signal ended it.
    pub fn code(&self) -> Option<i32> {
        self.status.code()
    }

    /// The signal that ended it, if one did.
    pub fn signal(&self) -> Option<i32> {
        self.status.signal()
    }

    /// Returns `self` if the exit code was 0; otherwise panics with all output.
    #[track_caller]
    pub fn expect_success(self) -> Finished {
        assert!(self.status.success(), "{self}");
        self
    }
}

impl std::fmt::Display for Finished {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{}\n--- stdout ---\n{}\n--- stderr ---\n{}",
            self.status, self.stdout, self.stderr
        )
    }
}

/// A command that runs, or has ended but was not yet waited for. Dropping it kills it and its process
/// group.
pub struct Running {
    child: Child,
    /// True if `child` only enters a host and waits there for the real command, its only child.
    entered: bool,
    title: String,
    output: Arc<Output>,
}

impl Running {
    /// Starts a command with both outputs captured. The command determines standard input; the default is
    /// empty.
    pub(super) fn start(mut command: Command, entered: bool) -> Running {
        let title = format!("{command:?}");
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()
            .unwrap_or_else(|error| panic!("lab: cannot start {title}: {error}"));
        let output = Arc::new(Output::default());
        let stdout = child.stdout.take().expect("stdout was piped above");
        let stderr = child.stderr.take().expect("stderr was piped above");
        output.follow(stdout, |text| &mut text.stdout);
        output.follow(stderr, |text| &mut text.stderr);
        Running {
            child,
            entered,
            title,
            output,
        }
    }

    /// The command's process id as the test sees it.
    pub fn pid(&self) -> Option<Pid> {
        let outer = self.outer();
        if self.entered {
            children_of(outer).into_iter().next()
        } else {
            Some(outer)
        }
    }

    /// Waits for the first whole line of either output, from the start, that contains `pattern`.
    #[track_caller]
    pub fn wait_for_line(&self, pattern: &str, deadline: Duration) -> String {
        let ends = Instant::now() + deadline;
        let mut text = self.output.lock();
        loop {
            let closed = text.open == 0;
            let found = [&text.stdout, &text.stderr]
                .into_iter()
                .find_map(|bytes| whole_line_with(bytes, pattern, closed));
            if let Some(line) = found {
                return line;
            }
            let left = ends.saturating_duration_since(Instant::now());
            if closed || left.is_zero() {
                let why = if closed {
                    "its output ended"
                } else {
                    "the deadline passed"
                };
                let shown = text.shown();
                drop(text);
                panic!(
                    "no line with {pattern:?} before {why}: {}\n{shown}",
                    self.title
                );
            }
            text = self.output.wait(text, left);
        }
    }

    /// Sends a signal to the command itself, not to its process group.
    #[track_caller]
    pub fn signal(&self, signal: Signal) {
        let pid = self
            .pid()
            .unwrap_or_else(|| panic!("nothing to send {signal} to: {}", self.title));
        kill(pid, signal).unwrap_or_else(|why| panic!("cannot send {signal} to {pid}: {why}"));
        // nsenter stops together with the command it waits for, and only this signal continues it.
        if self.entered && signal == Signal::SIGCONT {
            kill(self.outer(), signal).ok();
        }
    }

    /// True while it runs.
    pub fn is_running(&mut self) -> bool {
        self.ended().is_none()
    }

    /// Both outputs so far.
    pub fn output(&self) -> (String, String) {
        let text = self.output.lock();
        (lossy(&text.stdout), lossy(&text.stderr))
    }

    /// Waits for the end of the command and of its outputs; at the deadline kills it and panics
    /// with all output.
    #[track_caller]
    pub fn finish(mut self, deadline: Duration) -> Finished {
        let ends = Instant::now() + deadline;
        let status = loop {
            if let Some(status) = self.ended() {
                break status;
            }
            if Instant::now() >= ends {
                self.end();
                let shown = self.output.lock().shown();
                panic!("still running after {deadline:?}: {}\n{shown}", self.title);
            }
            thread::sleep(PAUSE);
        };
        // Allows a moment more than the command had: its last bytes can still be in the
        // pipe.
        let ends = ends.max(Instant::now() + LAST_BYTES);
        let mut text = self.output.lock();
        while text.open > 0 {
            let left = ends.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let shown = text.shown();
                drop(text);
                panic!(
                    "ended ({status}), but a process it left behind holds its output: {}\n{shown}",
                    self.title
                );
            }
            text = self.output.wait(text, left);
        }
        Finished {
            status,
            stdout: lossy(&text.stdout),
            stderr: lossy(&text.stderr),
        }
    }

    /// Its standard input, if the command asked for a pipe and it was not taken yet.
    pub fn take_stdin(&mut self) -> Option<ChildStdin> {
        self.child.stdin.take()
    }

    /// Waits only for the end of the process; false at the deadline.
    pub(super) fn ends_within(&mut self, deadline: Duration) -> bool {
        let ends = Instant::now() + deadline;
        while matches!(self.child.try_wait(), Ok(None)) {
            if Instant::now() >= ends {
                return false;
            }
            thread::sleep(PAUSE);
        }
        true
    }

    /// The process started here: the command, or the nsenter that waits for it.
    pub(super) fn outer(&self) -> Pid {
        Pid::from_raw(i32::try_from(self.child.id()).expect("a process id fits"))
    }

    fn ended(&mut self) -> Option<ExitStatus> {
        self.child
            .try_wait()
            .unwrap_or_else(|why| panic!("lab: cannot wait for {}: {why}", self.title))
    }

    fn end(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            // The command has its own session and group; nsenter waits in the group made here.
            for pid in [self.pid(), Some(self.outer())].into_iter().flatten() {
                if killpg(pid, Signal::SIGKILL).is_err() {
                    kill(pid, Signal::SIGKILL).ok();
                }
            }
            self.child.wait().ok();
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end();
    }
}

/// Repeats the question until the answer is yes; panics with `what` at the deadline.
#[track_caller]
pub fn wait_until(what: &str, deadline: Duration, mut asked: impl FnMut() -> bool) {
    let ends = Instant::now() + deadline;
    while !asked() {
        assert!(Instant::now() < ends, "not within {deadline:?}: {what}");
        thread::sleep(PAUSE);
    }
}

/// Runs one of the lab's own tools and returns its output; panics if it fails.
#[track_caller]
pub(super) fn tool(argv: &[&str]) -> String {
    let mut command = Command::new(argv[0]);
    command
        .args(&argv[1..])
        .env("PATH", PATH)
        .stdin(Stdio::null());
    let finished = Running::start(command, false).finish(TOOL_DEADLINE);
    assert!(finished.status.success(), "lab: {argv:?}: {finished}");
    finished.stdout
}

/// Search path for programs, on the hosts and for the lab itself.
pub(super) const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

const TOOL_DEADLINE: Duration = Duration::from_secs(20);
const LAST_BYTES: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(3);

#[derive(Default)]
struct Output {
    text: Mutex<Text>,
    changed: Condvar,
}

#[derive(Default)]
struct Text {
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    /// Number of the two streams that have not ended.
    open: u8,
}

impl Text {
    fn shown(&self) -> String {
        let (stdout, stderr) = (lossy(&self.stdout), lossy(&self.stderr));
        format!("--- stdout ---\n{stdout}\n--- stderr ---\n{stderr}")
    }
}

impl Output {
    fn lock(&self) -> MutexGuard<'_, Text> {
        self.text
            .lock()
            .expect("no reader panics with the lock held")
    }

    fn wait<'a>(&self, text: MutexGuard<'a, Text>, left: Duration) -> MutexGuard<'a, Text> {
        let (text, _) = self
            .changed
            .wait_timeout(text, left)
            .expect("no reader panics with the lock held");
        text
    }

    /// Copies a stream into its place from a separate thread, until the stream ends.
    fn follow(
        self: &Arc<Self>,
        mut stream: impl Read + Send + 'static,
        place: fn(&mut Text) -> &mut Vec<u8>,
    ) {
        self.lock().open += 1;
        let output = Arc::clone(self);
        thread::spawn(move || {
            let mut piece = [0; 65536];
            loop {
                match stream.read(&mut piece) {
                    Ok(0) => break,
                    Ok(count) => place(&mut output.lock()).extend_from_slice(&piece[..count]),
                    Err(why) if why.kind() == std::io::ErrorKind::Interrupted => {}
                    Err(_) => break,
                }
                output.changed.notify_all();
            }
            output.lock().open -= 1;
            output.changed.notify_all();
        });
    }
}

fn whole_line_with(bytes: &[u8], pattern: &str, closed: bool) -> Option<String> {
    let text = lossy(bytes);
    text.split_inclusive(['\n', '\r'])
        .filter(|line| closed || line.ends_with(['\n', '\r']))
        .find(|line| line.contains(pattern))
        .map(|line| line.trim_end_matches(['\n', '\r']).to_owned())
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
