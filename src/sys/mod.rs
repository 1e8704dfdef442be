//! Access to the operating system, and the only module with `unsafe`.
//!
//! Duty: fork, signals, waiting, sockets, memory regions as safe types, clock, usage and host facts. It knows nothing of phases,
//! links or plans. Read next: [`process`] for the order of birth, [`memory`] for the memory that processes share.
#![expect(
    unsafe_code,
    reason = "this module is the gate to the operating system; every block is argued"
)]

pub(crate) mod affinity;
pub(crate) mod arena;
pub(crate) mod bell;
pub(crate) mod clock;
pub(crate) mod counters;
pub(crate) mod ethtool;
pub mod facts;
pub(crate) mod file;
mod interrupts;
pub(crate) mod limits;
mod lldp;
pub(crate) mod memory;
pub(crate) mod neighbours;
pub(crate) mod pages;
pub(crate) mod peers;
pub(crate) mod process;
mod rtnetlink;
pub(crate) mod signals;
pub(crate) mod socket;
pub(crate) mod terminal;
pub(crate) mod usage;
pub(crate) mod vectored;

/// The word after `name` in the line of a file of the kernel that begins with it.
fn word_after<'text>(text: &'text str, name: &str) -> Option<&'text str> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()
}

/// Reason why a system call failed, worded as the end of a sentence: `connection refused`, `timed out`.
pub(crate) fn why(error: &std::io::Error) -> String {
    let text = match error.raw_os_error() {
        Some(code) => nix::errno::Errno::from_raw(code).desc().to_owned(),
        None if error.kind() == std::io::ErrorKind::TimedOut => "timed out".to_owned(),
        None => error.to_string(),
    };
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| {
        first.to_lowercase().chain(letters).collect()
    })
}
