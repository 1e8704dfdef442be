//! The only place where the program starts and ends processes.
//!
//! Order of a birth: block signals, fork, ask to die with the parent and check that the parent still lives, close every
//! descriptor except the child's own, run. An inherited copy of a peer's socket would prevent end-of-file for ever; an inherited
//! self-pipe would be shared. Fork is allowed only in a process with one thread, which is checked each time. A process with
//! threads starts its own executable again instead.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use nix::libc;
use nix::sys::signal::Signal;
use nix::sys::wait::WaitPidFlag;
use nix::unistd::{ForkResult, Pid};

use super::signals;

/// Reasons why a process cannot be forked.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BirthError {
    /// The kernel refused (limit of processes, memory).
    #[error("cannot fork: {0}")]
    Fork(#[from] nix::Error),
    /// The caller has this many threads. A fork is safe only with one.
    #[error("cannot fork: this process has {0} threads")]
    Threads(usize),
}

/// Forks a child and returns its process id. The child keeps only the descriptors in `keep` (and `/dev/null` as 0, 1 and 2), runs
/// `body` with all signals blocked, and exits with the code that `body` returns. The kernel sends the child the signal
/// `on_orphan` when this process dies.
pub(crate) fn fork_child(
    keep: &[RawFd],
    on_orphan: Signal,
    body: impl FnOnce() -> u8,
) -> Result<i32, BirthError> {
    let threads = thread_count();
    if threads != 1 {
        return Err(BirthError::Threads(threads));
    }
    signals::block_all();
    let parent = nix::unistd::getpid();
    // SAFETY: this process has exactly one thread (checked above), so the child's copies of all locks and of the allocator are in
    // the state in which this thread left them.
    match unsafe { nix::unistd::fork() }? {
        ForkResult::Parent { child } => Ok(child.as_raw()),
        ForkResult::Child => {
            let code = run_child(parent, keep, on_orphan, body);
            leave(code)
        }
    }
}

fn run_child(parent: Pid, keep: &[RawFd], on_orphan: Signal, body: impl FnOnce() -> u8) -> u8 {
    die_with_parent(on_orphan);
    if nix::unistd::getppid() != parent {
        return 0; // The parent died between the fork and the request: no process waits for this child.
    }
    close_all_but(keep);
    // A panic must not unwind into the parent's frames, whose destructors belong to the parent.
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(body)).unwrap_or(70)
}

/// Asks the kernel to send this process `signal` when its parent dies.
pub(crate) fn die_with_parent(signal: Signal) {
    let result = nix::sys::prctl::set_pdeathsig(signal);
    debug_assert!(result.is_ok());
}

/// Makes this process the parent of orphaned descendants, so that it can reap every descendant.
pub(crate) fn adopt_orphans() {
    let result = nix::sys::prctl::set_child_subreaper(true);
    debug_assert!(result.is_ok());
}

/// Ends the process at once and skips the destructors: they belong to the process that it was forked from.
pub(crate) fn leave(code: u8) -> ! {
    // SAFETY: _exit has no preconditions.
    unsafe { libc::_exit(i32::from(code)) }
}

/// Names the process in the process table; the kernel keeps 15 bytes.
pub(crate) fn set_name(name: &str) {
    let short: String = name.chars().take(15).collect();
    if let Ok(text) = std::ffi::CString::new(short) {
        let result = nix::sys::prctl::set_name(&text);
        debug_assert!(result.is_ok());
    }
}

/// Makes this process the leader of a new process group.
pub(crate) fn lead_group() {
    let result = nix::unistd::setpgid(Pid::from_raw(0), Pid::from_raw(0));
    debug_assert!(result.is_ok());
}

/// Makes a new child the leader of a new process group, if the child has not done so yet.
pub(crate) fn make_group(child: i32) {
    match nix::unistd::setpgid(Pid::from_raw(child), Pid::from_raw(child)) {
        Ok(()) | Err(_) => {} // The child has done so, or it is gone.
    }
}

/// Tells the scheduler that this process works in long stretches, so that its siblings preempt it less often.
pub(crate) fn schedule_as_batch() {
    let parameters = libc::sched_param { sched_priority: 0 };
    // SAFETY: plain values for the calling process; a refusal leaves the default policy in place.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_BATCH, &raw const parameters) };
}

fn close_all_but(keep: &[RawFd]) {
    if let Ok(null) = std::fs::File::options()
        .read(true)
        .write(true)
        .open("/dev/null")
    {
        for standard in 0..3 {
            // SAFETY: both are valid descriptor numbers; the old standard descriptors are to be replaced.
            unsafe { libc::dup2(null.as_raw_fd(), standard) };
        }
    }
    let mut own: Vec<RawFd> = keep.iter().copied().filter(|fd| *fd > 2).collect();
    own.sort_unstable();
    let mut next = 3;
    for fd in own {
        if fd > next {
            close_range(next, fd - 1);
        }
        next = fd + 1;
    }
    close_range(next, RawFd::MAX);
}

fn close_range(first: RawFd, last: RawFd) {
    // SAFETY: this child does not use these descriptors. The values that own them in its copy of the parent's memory are never
    // dropped, because the child ends with _exit.
    let result = unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) };
    if result == 0 {
        return;
    }
    // Kernels before 5.9 lack the call: close the descriptors that /proc lists.
    let Ok(entries) = std::fs::read_dir("/proc/self/fd") else {
        return;
    };
    let open: Vec<RawFd> = entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect();
    for fd in open.into_iter().filter(|fd| (first..=last).contains(fd)) {
        // SAFETY: as above.
        unsafe { libc::close(fd) };
    }
}

fn thread_count() -> usize {
    std::fs::read_dir("/proc/self/task").map_or(usize::MAX, Iterator::count)
}

/// The way a child process ended or stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// The child exited with this code.
    Code(i32),
    /// This signal killed the child.
    Signal(i32),
    /// This signal stopped the child. It has not ended, and does nothing until it is continued.
    Stopped(i32),
}

/// Reaps one child that has ended or was stopped, without waiting; `None` if there is no such child. It calls the C library
/// directly, because nix's enumeration of signals lacks the real-time signals.
pub(crate) fn reap_one() -> Option<(i32, Ending)> {
    let mut status = 0;
    // SAFETY: `status` is valid for writing; -1 and the flags ask for any ended or stopped child.
    let pid = unsafe { libc::waitpid(-1, &raw mut status, libc::WNOHANG | libc::WUNTRACED) };
    if pid <= 0 {
        return None;
    }
    let ending = if libc::WIFSIGNALED(status) {
        Ending::Signal(libc::WTERMSIG(status))
    } else if libc::WIFSTOPPED(status) {
        Ending::Stopped(libc::WSTOPSIG(status))
    } else {
        Ending::Code(libc::WEXITSTATUS(status))
    };
    Some((pid, ending))
}

/// True while this process has children that it has not reaped.
pub(crate) fn has_children() -> bool {
    !matches!(
        nix::sys::wait::waitid(
            nix::sys::wait::Id::All,
            WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT
        ),
        Err(nix::Error::ECHILD)
    )
}

/// Kills a process group. A group that is gone is no error.
pub(crate) fn kill_group(leader: i32) {
    if leader > 1 {
        match nix::sys::signal::killpg(Pid::from_raw(leader), Signal::SIGKILL) {
            Ok(()) | Err(_) => {}
        }
    }
}

/// Kills a child. A child that is gone is no error.
pub(crate) fn kill(pid: i32) {
    if pid > 1 {
        match nix::sys::signal::kill(Pid::from_raw(pid), Signal::SIGKILL) {
            Ok(()) | Err(_) => {}
        }
    }
}

/// True if `pid` is still the parent of this process, as it was at birth.
pub(crate) fn parent_is(pid: i32) -> bool {
    nix::unistd::getppid().as_raw() == pid
}

/// Closes this child's copy of a descriptor that its parent owns. The value that owns the descriptor in the child's copy of the
/// parent's memory is never dropped, because a child ends with `_exit`.
pub(crate) fn close_own_copy(descriptor: std::os::fd::BorrowedFd<'_>) {
    // SAFETY: the descriptor is valid, and nothing in this child uses it again.
    unsafe { libc::close(descriptor.as_raw_fd()) };
}

/// Replaces an inherited descriptor with one that this child owns, so that closing it closes the connection.
pub(crate) fn take_over(
    inherited: std::os::fd::BorrowedFd<'_>,
) -> std::io::Result<std::os::fd::OwnedFd> {
    let own = inherited.try_clone_to_owned()?;
    close_own_copy(inherited);
    Ok(own)
}

/// Kills the parent, if `pid` is still the parent of this process, as it was at birth.
pub(crate) fn kill_parent(pid: i32) {
    match signal_if(pid, || parent_is(pid), &[Signal::SIGKILL]) {
        Ok(()) | Err(_) => {} // The parent has ended already.
    }
}

/// Process id of this process.
pub(crate) fn own_pid() -> i32 {
    nix::unistd::getpid().as_raw()
}

/// Id of the calling thread; equal to the process id if the process has one thread.
pub(crate) fn own_thread() -> i32 {
    nix::unistd::gettid().as_raw()
}

/// Number of the pid namespace of this process. Process ids of another namespace mean nothing here.
pub(crate) fn pid_space() -> u64 {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/self/ns/pid").map_or(0, |meta| meta.ino())
}

/// Start time of a process in clock ticks since boot. Process id and start time together identify a process for ever. `None` for
/// a process that has ended, reaped or not.
pub(crate) fn start_time(pid: i32) -> Option<u64> {
    let stat = stat(pid)?;
    let mut fields = stat.split_whitespace();
    let is_alive = !matches!(fields.next()?, "Z" | "X");
    fields.nth(18)?.parse().ok().filter(|_| is_alive)
}

/// Fields of `/proc/PID/stat` after the process name. The name is in brackets and can contain any character, so the search for
/// its end starts at the end of the text.
fn stat(pid: i32) -> Option<String> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    Some(text.rsplit_once(')')?.1.to_owned())
}

/// True if a signal or a debugger has stopped the process.
pub(crate) fn is_stopped(pid: i32) -> bool {
    stat(pid).is_some_and(|stat| stat.trim_start().starts_with(['T', 't']))
}

/// Effective user id of this process: the owner of the files it makes.
pub(crate) fn own_user() -> u32 {
    nix::unistd::geteuid().as_raw()
}

/// User id that a process belongs to; `None` if the process is gone.
pub(crate) fn user_of(pid: i32) -> Option<u32> {
    use std::os::unix::fs::MetadataExt;
    Some(std::fs::metadata(format!("/proc/{pid}")).ok()?.uid())
}

/// Sends `signal` to a process to ask it to end, if it is still the process that started at `start`. The error is ESRCH if it is not.
pub(crate) fn ask_to_end(pid: i32, start: u64, signal: i32) -> std::io::Result<()> {
    // A stopped process receives the signal only when it is continued.
    let signals = [Signal::try_from(signal)?, Signal::SIGCONT];
    signal_if(pid, || start_time(pid) == Some(start), &signals).map_err(Into::into)
}

/// Sends signals to a process if `is_it` confirms that the number is still the number of the intended process. The error is ESRCH if not.
fn signal_if(pid: i32, mut is_it: impl FnMut() -> bool, signals: &[Signal]) -> nix::Result<()> {
    if pid <= 1 {
        return Err(nix::Error::ESRCH);
    }
    // Open the descriptor before the check: the number can belong to another process a moment later.
    let held = hold(pid);
    if !is_it() {
        return Err(nix::Error::ESRCH);
    }
    for signal in signals {
        match &held {
            Ok(process) => signal_held(process, *signal)?,
            // Kernels before 5.3 have no descriptors of processes, and containers can forbid them.
            Err(_) if is_it() => nix::sys::signal::kill(Pid::from_raw(pid), *signal)?,
            Err(_) => return Err(nix::Error::ESRCH),
        }
    }
    Ok(())
}

/// Opens a descriptor of a process. It refers to that process only, even after its end.
fn hold(pid: i32) -> nix::Result<OwnedFd> {
    // SAFETY: the call takes two integers and touches no memory of this process.
    let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
    let fd = nix::errno::Errno::result(fd)?;
    let fd = RawFd::try_from(fd).map_err(|_| nix::Error::EBADF)?;
    // SAFETY: the kernel just returned this descriptor, and nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn signal_held(process: &OwnedFd, signal: Signal) -> nix::Result<()> {
    let (fd, number) = (process.as_raw_fd(), signal as i32);
    let no_details = std::ptr::null::<libc::siginfo_t>();
    // SAFETY: the descriptor is valid; without details of the signal, the call reads no memory of this process.
    let sent = unsafe { libc::syscall(libc::SYS_pidfd_send_signal, fd, number, no_details, 0) };
    nix::errno::Errno::result(sent).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_with_threads_may_not_fork() {
        // The test harness itself runs tests in threads.
        assert!(matches!(
            fork_child(&[], Signal::SIGKILL, || 0),
            Err(BirthError::Threads(_))
        ));
    }

    #[test]
    fn the_start_time_of_this_process_is_known() {
        assert!(start_time(own_pid()).is_some_and(|ticks| ticks > 0));
        assert_eq!(start_time(-1), None);
        assert!(!is_stopped(own_pid()));
        assert_eq!(user_of(own_pid()), Some(nix::unistd::geteuid().as_raw()));
        assert_eq!(user_of(-1), None);
    }

    #[test]
    fn a_process_that_is_another_one_by_now_is_not_asked_to_end() {
        let error = ask_to_end(own_pid(), 1, 15).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ESRCH));
    }

    /// A number can be given to another process as soon as its process is reaped.
    #[test]
    fn a_held_process_that_was_reaped_gets_no_signal_and_no_other_process_gets_it() {
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        let held = hold(pid).unwrap();
        let reap = || {
            child.kill().unwrap();
            child.wait().unwrap();
            true
        };
        // The process is replaced between the check and the signal.
        let sent = signal_if(pid, reap, &[Signal::SIGTERM]);
        assert_eq!(sent, Err(nix::Error::ESRCH));
        assert_eq!(signal_held(&held, Signal::SIGTERM), Err(nix::Error::ESRCH));
        assert_eq!(
            signal_if(1, || true, &[Signal::SIGTERM]),
            Err(nix::Error::ESRCH)
        );
    }
}
