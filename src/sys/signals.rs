//! Signals: the doorbell between processes of a node, and the signals that a process waits for.
//!
//! A signal is a doorbell, never the message: it means "look", and the truth is a counter in shared memory. The doorbell is a
//! real-time signal, because standard signals merge (of 50,000 sent, 8,000 arrived). Every process that waits here has the signal
//! blocked since before its fork, so no signal is lost between a look at the counter and the wait.

use std::time::Duration;

use nix::libc;

use super::word_after;

/// Number of the signal that means "wake up and look".
pub(crate) fn doorbell() -> i32 {
    libc::SIGRTMIN()
}

/// The event that ended a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Woken {
    /// The doorbell rang.
    Doorbell,
    /// A child process ended or stopped.
    Child,
    /// This signal asked the process to end.
    End(i32),
    /// The timeout passed.
    Timeout,
}

impl Woken {
    /// What a signal means to a parent.
    fn by(signal: i32) -> Self {
        match signal {
            libc::SIGCHLD => Self::Child,
            _ if signal == doorbell() => Self::Doorbell,
            _ => Self::End(signal),
        }
    }
}

/// Blocks every signal. Call it before a fork, so that no signal reaches a child that is not set up yet.
pub(crate) fn block_all() {
    let mut all = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: sigfillset initialises the whole set it is given.
    unsafe { libc::sigfillset(all.as_mut_ptr()) };
    // SAFETY: initialised by the call above.
    set_mask(&unsafe { all.assume_init() });
}

/// Unblocks every signal except the doorbell: senders and receivers work with this mask. The mask changes in one step, since a
/// doorbell that is unblocked even for a moment ends the process.
pub(crate) fn unblock_all_but_doorbell() {
    set_mask(&set_of(&[doorbell()]));
}

fn set_mask(set: &libc::sigset_t) {
    // SAFETY: `set` is initialised; the null pointer asks for no old mask.
    let result = unsafe { libc::sigprocmask(libc::SIG_SETMASK, set, std::ptr::null_mut()) };
    debug_assert_eq!(result, 0);
}

fn set_of(signals: &[i32]) -> libc::sigset_t {
    let mut set = empty_set();
    for signal in signals {
        // SAFETY: `set` is initialised, the numbers are valid.
        unsafe { libc::sigaddset(&raw mut set, *signal) };
    }
    set
}

/// Signals that a parent waits for.
fn parent_signals() -> libc::sigset_t {
    set_of(&[
        doorbell(),
        libc::SIGCHLD,
        libc::SIGTERM,
        libc::SIGINT,
        libc::SIGHUP,
    ])
}

fn empty_set() -> libc::sigset_t {
    let mut set = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: sigemptyset initialises the whole set it is given.
    unsafe { libc::sigemptyset(set.as_mut_ptr()) };
    // SAFETY: initialised by the call above.
    unsafe { set.assume_init() }
}

/// True if this process was started with `signal` ignored.
pub(crate) fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = word_after(&status, "SigIgn:").and_then(|hex| u64::from_str_radix(hex, 16).ok());
    mask.unwrap_or(0) >> (signal - 1) & 1 == 1
}

/// Sends the doorbell to a process. A process that is gone is no error: its parent notices its end. If the queue of pending
/// signals is full (EAGAIN), the ring is lost: the sleeper then wakes only at its timeout.
pub(crate) fn ring(pid: i32) {
    if pid <= 0 {
        return;
    }
    let value = libc::sigval {
        sival_ptr: std::ptr::null_mut(),
    };
    // SAFETY: sigqueue takes plain values; the pid is positive, so it names one process and not a group or all processes.
    unsafe { libc::sigqueue(pid, doorbell(), value) };
}

/// Waits for the doorbell alone, at most `timeout`. True if it rang.
pub(crate) fn wait_doorbell(timeout: Duration) -> bool {
    wait_for(&set_of(&[doorbell()]), timeout) == Some(doorbell())
}

/// Waits for the doorbell, the end of a child or a request to end, at most `timeout`. All these signals must be blocked.
pub(crate) fn wait_parent(timeout: Duration) -> Woken {
    wait_for(&parent_signals(), timeout).map_or(Woken::Timeout, Woken::by)
}

fn wait_for(set: &libc::sigset_t, timeout: Duration) -> Option<i32> {
    let limit = libc::timespec {
        tv_sec: i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(timeout.subsec_nanos()),
    };
    // SAFETY: `set` and `limit` are valid for reading; the null pointer asks for no details of the signal.
    let signal = unsafe { libc::sigtimedwait(set, std::ptr::null_mut(), &raw const limit) };
    (signal > 0).then_some(signal)
}

/// Makes a descriptor that becomes readable when the doorbell rings, a child ends or a signal asks the process to end. Children
/// inherit it, so make it after the owner's last fork or close it in every child.
pub(crate) fn signal_descriptor() -> nix::Result<std::os::fd::OwnedFd> {
    descriptor_of(&parent_signals())
}

/// Makes a descriptor that becomes readable when the doorbell rings.
pub(crate) fn doorbell_descriptor() -> nix::Result<std::os::fd::OwnedFd> {
    descriptor_of(&set_of(&[doorbell()]))
}

fn descriptor_of(set: &libc::sigset_t) -> nix::Result<std::os::fd::OwnedFd> {
    use std::os::fd::FromRawFd;
    // SAFETY: `set` is initialised; -1 asks for a new descriptor.
    let fd = unsafe { libc::signalfd(-1, set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) };
    let fd = nix::errno::Errno::result(fd)?;
    // SAFETY: the kernel just returned this descriptor, and nothing else owns it.
    Ok(unsafe { std::os::fd::OwnedFd::from_raw_fd(fd) })
}

/// Takes one signal from a descriptor of [`signal_descriptor`]; `None` if no signal is pending.
pub(crate) fn take_signal(descriptor: &std::os::fd::OwnedFd) -> Option<Woken> {
    let mut buffer = [0_u8; 128];
    let length = nix::unistd::read(descriptor, &mut buffer).ok()?;
    let signal = buffer[..length].first_chunk()?;
    Some(Woken::by(i32::from_ne_bytes(*signal)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_is_kept_until_it_is_waited_for() {
        // The call changes the mask of this test's thread only.
        // SAFETY: the set is initialised; the null pointer asks for no old mask.
        unsafe {
            libc::pthread_sigmask(
                libc::SIG_BLOCK,
                &set_of(&[doorbell()]),
                std::ptr::null_mut(),
            )
        };
        // SAFETY: gettid has no preconditions. The signal goes to this thread, which has it blocked.
        let thread = unsafe { libc::gettid() };
        // SAFETY: plain values; the thread is our own.
        unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), thread, doorbell()) };
        assert!(wait_doorbell(Duration::from_secs(5)));
        assert!(!wait_doorbell(Duration::from_millis(1)));
    }
}
