//! The size of a terminal.

use std::os::fd::{AsRawFd, BorrowedFd};

use nix::libc;

/// Rows and columns of the terminal that a descriptor refers to; `None` if it is not a terminal or its size is unknown.
pub(crate) fn size(of: BorrowedFd<'_>) -> Option<(usize, usize)> {
    let mut size = libc::winsize {
        ws_row: 0,
        ws_col: 0,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    // SAFETY: the descriptor is valid, and this request fills in `size`.
    let result = unsafe { libc::ioctl(of.as_raw_fd(), libc::TIOCGWINSZ, &raw mut size) };
    let known = result == 0 && size.ws_row > 0 && size.ws_col > 0;
    known.then(|| (usize::from(size.ws_row), usize::from(size.ws_col)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn a_file_has_no_size_of_a_terminal() {
        let file = std::fs::File::open("/dev/null").unwrap();
        assert_eq!(size(file.as_fd()), None);
    }
}
