//! Signals: the doorbell between processes of a node, and what a process waits for.
//!
//! A signal is a doorbell, never the message: it says "look", and the truth is a counter in shared memory.
//! The doorbell is a real-time signal, because standard signals merge (of 50,000 sent, 8,000 arrived).
//! Every process that waits here has the signal blocked from before its birth, so nothing is lost between
//! looking and waiting.

use std::time::Duration;

use nix::libc;
use nix::sys::signal::{SigSet, SigmaskHow, sigprocmask};

/// The signal that means "wake up and look".
pub fn doorbell() -> i32 {
    libc::SIGRTMIN()
}

/// What ended a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Woken {
    /// Somebody rang.
    Doorbell,
    /// A child ended or stopped.
    Child,
    /// The process is asked to end, by this signal.
    End(i32),
    /// The time ran out.
    Timeout,
}

/// Blocks every signal. Called before a fork, so that no signal meets a half-made process.
pub fn block_all() {
    let result = sigprocmask(SigmaskHow::SIG_SETMASK, Some(&SigSet::all()), None);
    debug_assert!(result.is_ok());
    // nix's full set leaves out the real-time signals of some C libraries; the doorbell is added by hand.
    change_mask(libc::SIG_BLOCK, doorbell());
}

/// Unblocks every signal but the doorbell: the state in which senders and receivers work.
pub fn unblock_all_but_doorbell() {
    let result = sigprocmask(SigmaskHow::SIG_SETMASK, Some(&SigSet::empty()), None);
    debug_assert!(result.is_ok());
    change_mask(libc::SIG_BLOCK, doorbell());
}

fn change_mask(how: i32, signal: i32) {
    let mut set = empty_set();
    // SAFETY: `set` is an initialised signal set and `signal` a valid number.
    unsafe { libc::sigaddset(&raw mut set, signal) };
    // SAFETY: `set` is initialised; the old mask is not asked for.
    unsafe { libc::sigprocmask(how, &raw const set, std::ptr::null_mut()) };
}

fn empty_set() -> libc::sigset_t {
    let mut set = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: sigemptyset initialises the whole set it is given.
    unsafe { libc::sigemptyset(set.as_mut_ptr()) };
    // SAFETY: initialised by the call above.
    unsafe { set.assume_init() }
}

/// Rings at a process. A process that is gone is no error: its end is noticed by its parent.
/// When the queue of pending signals is full (EAGAIN) a ring is lost, which costs the sleeper its time-out
/// and nothing else.
pub fn ring(pid: i32) {
    if pid <= 0 {
        return;
    }
    let value = libc::sigval { sival_ptr: std::ptr::null_mut() };
    // SAFETY: sigqueue takes plain values; the pid is positive, so neither a group nor everybody is meant.
    unsafe { libc::sigqueue(pid, doorbell(), value) };
}

/// Waits for the doorbell alone, at most `timeout`. True if it rang.
pub fn wait_doorbell(timeout: Duration) -> bool {
    let mut set = empty_set();
    // SAFETY: `set` is initialised, the number valid.
    unsafe { libc::sigaddset(&raw mut set, doorbell()) };
    wait_for(&set, timeout) == Some(doorbell())
}

/// Waits for the doorbell, for the end of a child, or for a request to end; all must be blocked.
pub fn wait_parent(timeout: Duration) -> Woken {
    let mut set = empty_set();
    for signal in [doorbell(), libc::SIGCHLD, libc::SIGTERM, libc::SIGINT, libc::SIGHUP] {
        // SAFETY: `set` is initialised, the numbers valid.
        unsafe { libc::sigaddset(&raw mut set, signal) };
    }
    match wait_for(&set, timeout) {
        Some(signal) if signal == doorbell() => Woken::Doorbell,
        Some(libc::SIGCHLD) => Woken::Child,
        Some(signal) => Woken::End(signal),
        None => Woken::Timeout,
    }
}

fn wait_for(set: &libc::sigset_t, timeout: Duration) -> Option<i32> {
    let limit = libc::timespec {
        tv_sec: i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(timeout.subsec_nanos()),
    };
    // SAFETY: `set` and `limit` are valid for reading; no information about the signal is asked for.
    let signal = unsafe { libc::sigtimedwait(set, std::ptr::null_mut(), &raw const limit) };
    (signal > 0).then_some(signal)
}

/// A descriptor that becomes readable when the doorbell rings, a child ends or the process is asked to end.
/// Made after the last fork of its owner or closed in every child, since it is inherited.
pub fn signal_descriptor() -> nix::Result<std::os::fd::OwnedFd> {
    use std::os::fd::FromRawFd;
    let mut set = empty_set();
    for signal in [doorbell(), libc::SIGCHLD, libc::SIGTERM, libc::SIGINT, libc::SIGHUP] {
        // SAFETY: `set` is initialised, the numbers valid.
        unsafe { libc::sigaddset(&raw mut set, signal) };
    }
    // SAFETY: `set` is initialised; -1 asks for a new descriptor.
    let fd = unsafe { libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) };
    let fd = nix::errno::Errno::result(fd)?;
    // SAFETY: the kernel just gave us this descriptor and nobody else owns it.
    Ok(unsafe { std::os::fd::OwnedFd::from_raw_fd(fd) })
}

/// Takes one signal off a descriptor of [`signal_descriptor`]; none if there is none.
pub fn take_signal(descriptor: &std::os::fd::OwnedFd) -> Option<Woken> {
    let mut buffer = [0_u8; 128];
    let length = nix::unistd::read(descriptor, &mut buffer).ok()?;
    if length < 4 {
        return None;
    }
    let signal = i32::from_ne_bytes([buffer[0], buffer[1], buffer[2], buffer[3]]);
    Some(if signal == doorbell() {
        Woken::Doorbell
    } else if signal == libc::SIGCHLD {
        Woken::Child
    } else {
        Woken::End(signal)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_is_kept_until_it_is_waited_for() {
        change_mask(libc::SIG_BLOCK, doorbell());
        // SAFETY: gettid has no preconditions. The signal is sent to this thread, which has it blocked.
        let thread = unsafe { libc::gettid() };
        // SAFETY: plain values; the thread is our own.
        unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), thread, doorbell()) };
        assert!(wait_doorbell(Duration::from_secs(5)));
        assert!(!wait_doorbell(Duration::from_millis(1)));
    }
}
