//! A bell: whoever sleeps is woken by it, by any process that inherited it.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};

use nix::sys::eventfd::{EfdFlags, EventFd};

/// A counter of the kernel that can be waited for.
pub struct Bell {
    event: EventFd,
}

impl Bell {
    /// One that is silent.
    pub fn new() -> io::Result<Self> {
        let flags = EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK;
        Ok(Self {
            event: EventFd::from_value_and_flags(0, flags)?,
        })
    }

    /// Wakes whoever waits for it. A bell that rings already goes on ringing.
    pub fn ring(&self) {
        match self.event.write(1) {
            Ok(_) | Err(_) => {}
        }
    }

    /// Makes it silent.
    pub fn hush(&self) {
        match self.event.read() {
            Ok(_) | Err(_) => {} // It did not ring.
        }
    }

    /// Number of its descriptor.
    pub fn number(&self) -> RawFd {
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
    fn it_rings_until_it_is_hushed() {
        let bell = Bell::new().unwrap();
        let state = || wait_for_any(&[(bell.as_fd(), Wanted::Read)], Duration::ZERO).unwrap()[0];
        assert_eq!(state(), Became::Nothing);
        bell.ring();
        bell.ring();
        assert_eq!(state(), Became::Ready);
        bell.hush();
        assert_eq!(state(), Became::Nothing);
        bell.hush();
    }
}
