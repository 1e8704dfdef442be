//! Messages in two parts, sent and received in one call each: a head and its payload share a packet and a system call.

use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{MsgFlags, recvmsg, sendmsg};

/// Sends `head` and then `payload`. Returns the number of bytes of both that the kernel took.
pub(crate) fn send_parts(socket: BorrowedFd<'_>, head: &[u8], payload: &[u8]) -> io::Result<usize> {
    let parts = [IoSlice::new(head), IoSlice::new(payload)];
    let sent = sendmsg::<()>(
        socket.as_raw_fd(),
        &parts,
        &[],
        MsgFlags::MSG_NOSIGNAL,
        None,
    );
    Ok(sent?)
}

/// Receives into `head` and then into `payload`. Returns the number of bytes of both. Zero means that the peer has closed its side.
pub(crate) fn receive_parts(
    socket: BorrowedFd<'_>,
    head: &mut [u8],
    payload: &mut [u8],
) -> io::Result<usize> {
    let mut parts = [IoSliceMut::new(head), IoSliceMut::new(payload)];
    let got = recvmsg::<()>(socket.as_raw_fd(), &mut parts, None, MsgFlags::empty())?;
    Ok(got.bytes)
}

/// Waits until one of the sockets is ready as wanted or has failed, at most `limit`. Returns the state of each socket, in order.
pub(crate) fn wait_for_any(
    sockets: &[(BorrowedFd<'_>, Wanted)],
    limit: Duration,
) -> io::Result<Vec<Became>> {
    let mut all: Vec<PollFd<'_>> = sockets
        .iter()
        .map(|(fd, wanted)| {
            let flags = match wanted {
                Wanted::Read => PollFlags::POLLIN,
                Wanted::Write => PollFlags::POLLOUT,
                Wanted::Nothing => PollFlags::empty(),
            };
            PollFd::new(*fd, flags)
        })
        .collect();
    let limit = PollTimeout::try_from(limit).unwrap_or(PollTimeout::MAX);
    match poll(&mut all, limit) {
        Ok(_) | Err(nix::Error::EINTR) => {}
        Err(error) => return Err(error.into()),
    }
    let became = |fd: &PollFd<'_>| match fd.revents() {
        Some(seen) if seen.intersects(PollFlags::POLLERR | PollFlags::POLLHUP) => Became::Failed,
        Some(seen) if !seen.is_empty() => Became::Ready,
        _ => Became::Nothing,
    };
    Ok(all.iter().map(became).collect())
}

/// State of a socket after a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Became {
    /// Neither ready nor failed.
    Nothing,
    /// Ready to read or write, as wanted.
    Ready,
    /// Failed, or closed by the peer in both directions.
    Failed,
}

/// The event to wait for on a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// Data to read.
    Read,
    /// Room to write.
    Write,
    /// Failure only.
    Nothing,
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;
    use crate::plan::SocketOptions;
    use crate::sys::socket::{pair, set_nonblocking};

    #[test]
    fn two_parts_go_and_come_in_one_call() {
        let (a, b) = pair(&SocketOptions::default()).unwrap();
        assert_eq!(send_parts(a.as_fd(), b"head", b"payload").unwrap(), 11);
        let (mut head, mut payload) = ([0; 4], [0; 16]);
        let waited = wait_for_any(&[(b.as_fd(), Wanted::Read)], Duration::from_secs(5));
        assert_eq!(waited.unwrap(), [Became::Ready]);
        let waited = wait_for_any(&[(b.as_fd(), Wanted::Nothing)], Duration::ZERO);
        assert_eq!(waited.unwrap(), [Became::Nothing]);
        let got = receive_parts(b.as_fd(), &mut head, &mut payload).unwrap();
        assert_eq!((got, &head, &payload[..7]), (11, b"head", &b"payload"[..]));
        set_nonblocking(&b, true).unwrap();
        let nothing = receive_parts(b.as_fd(), &mut head, &mut payload).unwrap_err();
        assert_eq!(nothing.kind(), io::ErrorKind::WouldBlock);
        wait_for_any(&[(a.as_fd(), Wanted::Write)], Duration::from_secs(5)).unwrap();
        drop(a);
        let waited = wait_for_any(&[(b.as_fd(), Wanted::Nothing)], Duration::from_secs(5));
        assert_eq!(waited.unwrap(), [Became::Failed]);
        assert_eq!(
            receive_parts(b.as_fd(), &mut head, &mut payload).unwrap(),
            0
        );
    }
}
