//! What a transport must be able to do: bytes both ways without ever blocking, and a wait that a
//! bell can end.
//!
//! Implementations: child processes (`child.rs`) and SSH channels (`channel.rs`).

use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;

/// One of the program's outputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Output {
    Standard,
    Error,
}

/// How a program ended; neither means that nobody knows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ending {
    pub(crate) status: Option<i32>,
    pub(crate) signal: Option<String>,
}

impl Ending {
    /// `status 3`, `signal KILL` or `lost`.
    pub(crate) fn words(&self) -> String {
        match (&self.signal, self.status) {
            (Some(signal), _) => format!("was killed by signal {signal}"),
            (None, Some(status)) => format!("ended with status {status}"),
            (None, None) => "lost its connection".to_owned(),
        }
    }
}

/// A transport. Reads and writes return `WouldBlock` when there is nothing to do; reading 0 bytes
/// is the end.
pub(crate) trait Carrier {
    /// Reads from one of the program's outputs.
    fn read(&mut self, output: Output, buffer: &mut [u8]) -> io::Result<usize>;
    /// Writes to the program's input. After `WouldBlock` the same bytes must be offered again.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize>;
    /// Closes the program's input; `WouldBlock` means: again.
    fn close_input(&mut self) -> io::Result<()>;
    /// How the program ended, once that is known. `drained`: both outputs have ended.
    fn ending(&mut self, drained: bool) -> io::Result<Option<Ending>>;
    /// Waits until something may be read, written (if `writing`), the bell rings, or the time is
    /// over.
    fn wait(&mut self, bell: BorrowedFd<'_>, writing: bool, timeout: Duration) -> io::Result<()>;
    /// Drops the session at once; kills what runs on this machine for it.
    fn cut(&mut self);
}
