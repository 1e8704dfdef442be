//! The interface of a transport: non-blocking reads and writes, and a wait that a bell can end.
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

/// The end of a program. If both fields are `None`, it is unknown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ending {
    pub(crate) status: Option<i32>,
    pub(crate) signal: Option<String>,
}

impl Ending {
    /// `ended with status 3`, `was killed by signal KILL` or `lost its connection`.
    pub(crate) fn words(&self) -> String {
        match (&self.signal, self.status) {
            (Some(signal), _) => format!("was killed by signal {signal}"),
            (None, Some(status)) => format!("ended with status {status}"),
            (None, None) => "lost its connection".to_owned(),
        }
    }
}

/// A transport. Reads and writes return `WouldBlock` if they cannot proceed now. A read of 0 bytes
/// is the end.
pub(crate) trait Carrier {
    /// Reads from one of the program's outputs.
    fn read(&mut self, output: Output, buffer: &mut [u8]) -> io::Result<usize>;
    /// Writes to the program's input. After `WouldBlock` the same bytes must be offered again.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize>;
    /// Closes the program's input. After `WouldBlock` call it again.
    fn close_input(&mut self) -> io::Result<()>;
    /// Returns the program's end once it is known. `drained` is true if both outputs have ended.
    fn ending(&mut self, drained: bool) -> io::Result<Option<Ending>>;
    /// Waits until bytes can be read or (if `writing`) written, the bell rings, or the timeout passes.
    fn wait(&mut self, bell: BorrowedFd<'_>, writing: bool, timeout: Duration) -> io::Result<()>;
    /// Drops the session at once and kills its processes on this machine.
    fn cut(&mut self);
}
