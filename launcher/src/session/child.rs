//! A session over a child process: the program itself on this machine, or a command that reaches
//! another one.
//!
//! The child has its own process group, so that the terminal's Ctrl-C does not reach it and `cut`
//! reaches the whole group. The child is always reaped. Does not interpret its standard error; read
//! next `command.rs`, which does.

use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;

use crate::session::carrier::{Carrier, Ending, Output};

pub(crate) struct ChildCarrier {
    child: Child,
    input: Option<ChildStdin>,
    standard: Option<ChildStdout>,
    error: Option<ChildStderr>,
    /// Time at which the child's exit was first seen, and its ending.
    exited: Option<(Instant, Ending)>,
}

/// Time to read the outputs after the child's exit. Descendants can hold them open for longer, but
/// the child's own output has arrived by then.
const DRAIN_AFTER_EXIT: Duration = Duration::from_millis(500);
/// Time to wait for a killed process. Only the kernel can hold it for longer.
const REAP_DEADLINE: Duration = Duration::from_secs(2);

impl ChildCarrier {
    /// Starts the command with pipes for its three standard streams.
    pub(crate) fn spawn(command: &mut Command) -> io::Result<ChildCarrier> {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()?;
        // From here on, dropping the carrier ends and reaps the child, even if a step below fails.
        let carrier = ChildCarrier {
            input: child.stdin.take(),
            standard: child.stdout.take(),
            error: child.stderr.take(),
            child,
            exited: None,
        };
        never_block(carrier.input.as_ref())?;
        never_block(carrier.standard.as_ref())?;
        never_block(carrier.error.as_ref())?;
        Ok(carrier)
    }

    /// The open pipes to poll: those to read from if `reading`, and the one to write to if `writing`.
    pub(crate) fn watched(&self, reading: bool, writing: bool) -> Vec<PollFd<'_>> {
        let mut watched = Vec::new();
        if reading {
            watched.extend(watch(self.standard.as_ref(), PollFlags::POLLIN));
            watched.extend(watch(self.error.as_ref(), PollFlags::POLLIN));
        }
        if writing {
            watched.extend(watch(self.input.as_ref(), PollFlags::POLLOUT));
        }
        watched
    }

    /// Sends a signal to the child, or to its whole process group.
    pub(crate) fn signal(&mut self, signal: Signal, group: bool) {
        // A child that is not reaped keeps its number. It can have ended, and then needs no signal.
        if let Ok(None) = self.exit()
            && let Ok(pid) = i32::try_from(self.child.id()).map(Pid::from_raw)
        {
            let sent = if group {
                killpg(pid, signal)
            } else {
                kill(pid, signal)
            };
            sent.ok();
        }
    }

    fn exit(&mut self) -> io::Result<Option<(Instant, Ending)>> {
        if self.exited.is_none() {
            self.exited = self
                .child
                .try_wait()?
                .map(|status| (Instant::now(), ending_of(status)));
        }
        Ok(self.exited.clone())
    }
}

impl Carrier for ChildCarrier {
    fn read(&mut self, output: Output, buffer: &mut [u8]) -> io::Result<usize> {
        let count = match (output, &mut self.standard, &mut self.error) {
            (Output::Standard, Some(pipe), _) => pipe.read(buffer)?,
            (Output::Error, _, Some(pipe)) => pipe.read(buffer)?,
            _ => 0,
        };
        if count == 0 {
            // An ended pipe always counts as readable and would end every wait at once.
            match output {
                Output::Standard => self.standard = None,
                Output::Error => self.error = None,
            }
        }
        Ok(count)
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.input {
            Some(pipe) => pipe.write(bytes),
            None => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    fn close_input(&mut self) -> io::Result<()> {
        self.input = None;
        Ok(())
    }

    fn ending(&mut self, drained: bool) -> io::Result<Option<Ending>> {
        let exit = self.exit()?;
        Ok(exit
            .filter(|(since, _)| drained || since.elapsed() >= DRAIN_AFTER_EXIT)
            .map(|(_, ending)| ending))
    }

    fn wait(&mut self, bell: BorrowedFd<'_>, writing: bool, timeout: Duration) -> io::Result<()> {
        let timeout = if self.exited.is_some() {
            timeout.min(DRAIN_AFTER_EXIT)
        } else {
            timeout
        };
        let mut watched = vec![PollFd::new(bell, PollFlags::POLLIN)];
        watched.extend(self.watched(true, writing));
        poll_for(&mut watched, timeout)
    }

    fn cut(&mut self) {
        self.input = None;
        self.standard = None;
        self.error = None;
        kill_group(&mut self.child);
        let until = Instant::now() + REAP_DEADLINE;
        while matches!(self.exit(), Ok(None)) && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

impl Drop for ChildCarrier {
    fn drop(&mut self) {
        if self.exited.is_none() {
            self.cut();
        }
    }
}

/// Kills the child's whole process group, but only before its leader is reaped: until then the
/// number cannot belong to another group.
pub(crate) fn kill_group(child: &mut Child) {
    if let Ok(None) = child.try_wait()
        && let Ok(pid) = i32::try_from(child.id())
    {
        // The group can have ended meanwhile; then nothing is left to kill.
        killpg(Pid::from_raw(pid), Signal::SIGKILL).ok();
    }
}

/// Calls `poll` with a duration, rounded up to milliseconds so that a short wait is never a busy
/// loop.
pub(crate) fn poll_for(watched: &mut [PollFd<'_>], timeout: Duration) -> io::Result<()> {
    let ms = timeout.as_micros().div_ceil(1000);
    let timeout = PollTimeout::try_from(ms).unwrap_or(PollTimeout::MAX);
    match poll(watched, timeout) {
        Ok(_) | Err(nix::Error::EINTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Waits as [`poll_for`] does, for a descriptor or the bell. Returns true if the descriptor is ready.
pub(crate) fn poll_with_bell(
    bell: BorrowedFd<'_>,
    descriptor: BorrowedFd<'_>,
    flags: PollFlags,
    timeout: Duration,
) -> io::Result<bool> {
    let bell = PollFd::new(bell, PollFlags::POLLIN);
    let mut watched = [PollFd::new(descriptor, flags), bell];
    poll_for(&mut watched, timeout)?;
    Ok(watched[0].any().unwrap_or(false))
}

/// The entry of a pipe for `poll`, if it is still open.
fn watch<F: AsFd>(pipe: Option<&F>, flags: PollFlags) -> Option<PollFd<'_>> {
    pipe.map(|pipe| PollFd::new(pipe.as_fd(), flags))
}

fn never_block<F: AsFd>(pipe: Option<&F>) -> io::Result<()> {
    if let Some(pipe) = pipe {
        let flags = OFlag::from_bits_retain(fcntl(pipe, FcntlArg::F_GETFL)?);
        fcntl(pipe, FcntlArg::F_SETFL(flags | OFlag::O_NONBLOCK))?;
    }
    Ok(())
}

fn ending_of(status: ExitStatus) -> Ending {
    let signal = status.signal().map(|number| {
        let known = Signal::try_from(number).ok().map(Signal::as_str);
        known.map_or_else(
            || number.to_string(),
            |name| name.trim_start_matches("SIG").to_owned(),
        )
    });
    Ending {
        status: status.code(),
        signal,
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Waits up to 10 s for a process to end and returns true if it has. A kill does not wait for
    /// grandchildren.
    pub(crate) fn gone(pid: &str) -> bool {
        let until = Instant::now() + Duration::from_secs(10);
        let status = || std::fs::read_to_string(format!("/proc/{pid}/stat"));
        // A zombie counts as dead: a container without init never reaps it.
        let alive = || status().is_ok_and(|stat| !stat.contains(") Z "));
        while alive() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(10));
        }
        !alive()
    }

    #[test]
    fn a_dropped_session_leaves_no_process() {
        let carrier = ChildCarrier::spawn(Command::new("sleep").arg("1000")).unwrap();
        let pid = carrier.child.id().to_string();
        drop(carrier);
        assert!(gone(&pid));
    }
}
