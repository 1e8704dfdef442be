//! A doorbell on an eventfd: any process that inherited the descriptor can wake the processes that wait for it.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};

use nix::sys::eventfd::{EfdFlags, EventFd};

/// An eventfd: a counter in the kernel that a process can wait for.
pub(crate) struct Bell {
    event: EventFd,
}

impl Bell {
    /// Makes a bell that does not ring. An error if the kernel gives no descriptor.
    pub(crate) fn new() -> io::Result<Self> {
        let flags = EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK;
        Ok(Self {
            event: EventFd::from_value_and_flags(0, flags)?,
        })
    }

    /// Wakes the processes that wait for the bell. It has no effect on a bell that already rings.
    pub(crate) fn ring(&self) {
        match self.event.write(1) {
            Ok(_) | Err(_) => {}
        }
    }

    /// Stops the ringing.
    pub(crate) fn clear(&self) {
        match self.event.read() {
            Ok(_) | Err(_) => {} // The bell did not ring.
        }
    }

    /// Number of the eventfd's descriptor.
    pub(crate) fn number(&self) -> RawFd {
        self.event.as_fd().as_raw_fd()
    }
}

impl AsFd for Bell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::sys::vectored::{Became, Wanted, wait_for_any};

    #[test]
    fn it_rings_until_it_is_cleared() {
        let bell = Bell::new().unwrap();
        let state = || wait_for_any(&[(bell.as_fd(), Wanted::Read)], Duration::ZERO).unwrap()[0];
        assert_eq!(state(), Became::Nothing);
        bell.ring();
        bell.ring();
        assert_eq!(state(), Became::Ready);
        bell.clear();
        assert_eq!(state(), Became::Nothing);
        bell.clear();
    }
}
