//! Moves of pages instead of bytes: from memory into a socket, from socket to socket, and from a socket to nowhere.
//!
//! The calls pass references to pages. A page of a sent buffer belongs to its reader until the reader has read it, not only until
//! it is acknowledged: a writer must wait for word from the reader before it writes the page again.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use nix::fcntl::{FcntlArg, OFlag, SpliceFFlags, fcntl, splice, tee};
use nix::libc;

use super::memory::Span;
use super::socket::length_of;

/// A pipe through which pages pass.
pub(crate) struct Pipe {
    read: OwnedFd,
    write: OwnedFd,
    /// Bytes that have entered the pipe and not left it.
    inside: usize,
}

impl Pipe {
    /// Makes an empty pipe of 1 MiB, or of the size that the system permits.
    pub(crate) fn new() -> io::Result<Self> {
        const PIPE_BYTES: i32 = 1 << 20;
        let (read, write) = nix::unistd::pipe2(OFlag::O_CLOEXEC)?;
        // A smaller pipe also works, in smaller pieces.
        match fcntl(&write, FcntlArg::F_SETPIPE_SZ(PIPE_BYTES)) {
            Ok(_) | Err(_) => {}
        }
        Ok(Self {
            read,
            write,
            inside: 0,
        })
    }

    /// Number of bytes in the pipe.
    pub(crate) fn inside(&self) -> usize {
        self.inside
    }

    /// Puts the pages of a span into the empty pipe, as many as it holds. Returns the number of bytes. The reader at the far end
    /// sees the content that the pages have when it reads them.
    pub(crate) fn load(&mut self, span: Span<'_>) -> io::Result<usize> {
        debug_assert!(self.inside == 0, "a pipe that is not empty may be full");
        let part = libc::iovec {
            iov_base: span.pointer().cast(),
            iov_len: span.bytes(),
        };
        // SAFETY: there is one part, and the span is mapped for its whole length as long as its region lives; the kernel holds
        // its own references to the pages.
        let taken = unsafe { libc::vmsplice(self.write.as_raw_fd(), &raw const part, 1, 0) };
        self.inside = length_of(taken)?;
        Ok(self.inside)
    }

    /// Moves at most `bytes` from a socket into the empty pipe. Returns the number of bytes. Zero means that the peer has closed its side.
    pub(crate) fn take(&mut self, socket: BorrowedFd<'_>, bytes: usize) -> io::Result<usize> {
        debug_assert!(self.inside == 0, "a pipe that is not empty may be full");
        let flags = SpliceFFlags::SPLICE_F_MOVE;
        self.inside = splice(socket, None, &self.write, None, bytes, flags)?;
        Ok(self.inside)
    }

    /// Moves the content of the pipe to a socket or file. Returns the number of bytes that left. With `more`, the bytes that
    /// follow can share the packet.
    pub(crate) fn give(&mut self, to: BorrowedFd<'_>, more: bool) -> io::Result<usize> {
        let mut flags = SpliceFFlags::SPLICE_F_MOVE;
        flags.set(SpliceFFlags::SPLICE_F_MORE, more);
        let given = splice(&self.read, None, to, None, self.inside, flags)?;
        self.inside -= given;
        Ok(given)
    }
}

/// A checksum of the data that passes through a pipe, made without taking the data out.
pub(crate) struct Glance {
    /// As large as the pipe, so that it holds references to the same pages.
    twin: Pipe,
    scratch: Vec<u8>,
    sum: crc32fast::Hasher,
}

impl Glance {
    /// Makes an empty checksum for an empty pipe.
    pub(crate) fn new(pipe: &Pipe) -> io::Result<Self> {
        /// A piece of this size stays in the cache until it is summed up.
        const PIECE_BYTES: usize = 64 << 10;
        let twin = Pipe::new()?;
        let size = |pipe: &Pipe| fcntl(&pipe.write, FcntlArg::F_GETPIPE_SZ);
        let (own, other) = (size(&twin)?, size(pipe)?);
        if own != other {
            // The system limits the number of large pipes per user.
            let larger = if own > other { &twin } else { pipe };
            fcntl(&larger.write, FcntlArg::F_SETPIPE_SZ(own.min(other)))?;
        }
        Ok(Self {
            twin,
            scratch: vec![0; PIECE_BYTES],
            sum: crc32fast::Hasher::new(),
        })
    }

    /// Adds the content of the pipe, which stays in the pipe.
    pub(crate) fn add(&mut self, pipe: &Pipe) -> io::Result<()> {
        let flags = SpliceFFlags::empty();
        let mut left = tee(&pipe.read, &self.twin.write, pipe.inside, flags)?;
        if left != pipe.inside {
            return Err(io::Error::other(
                "the second pipe does not hold what the first one does",
            ));
        }
        while left > 0 {
            let piece = left.min(self.scratch.len());
            let got = nix::unistd::read(&self.twin.read, &mut self.scratch[..piece])?;
            self.sum.update(&self.scratch[..got]);
            left -= got;
        }
        Ok(())
    }

    /// CRC-32 (IEEE 802.3) of the data added since the last call.
    pub(crate) fn take_sum(&mut self) -> u32 {
        std::mem::take(&mut self.sum).finalize()
    }
}

/// Discards bytes of a socket without copying them: TCP drops them inside the kernel (MSG_TRUNC); Unix sockets ignore that flag
/// and need a pipe to `/dev/null`.
pub(crate) struct Drain {
    way: Option<(Pipe, std::fs::File)>,
}

impl Drain {
    /// Makes a drain for a TCP socket, or for a Unix socket if `tcp` is false.
    pub(crate) fn new(tcp: bool) -> io::Result<Self> {
        if tcp {
            return Ok(Self { way: None });
        }
        let null = std::fs::File::options().write(true).open("/dev/null")?;
        Ok(Self {
            way: Some((Pipe::new()?, null)),
        })
    }

    /// Discards at most `bytes` of the socket. Returns the number of bytes. Zero means that the peer has closed its side.
    pub(crate) fn discard(&mut self, socket: BorrowedFd<'_>, bytes: usize) -> io::Result<usize> {
        let Some((pipe, null)) = &mut self.way else {
            // SAFETY: with MSG_TRUNC, TCP writes nothing to the buffer, so the buffer can be null.
            let got = unsafe {
                libc::recv(
                    socket.as_raw_fd(),
                    std::ptr::null_mut(),
                    bytes,
                    libc::MSG_TRUNC,
                )
            };
            return length_of(got);
        };
        let got = pipe.take(socket, bytes)?;
        while pipe.inside() > 0 {
            pipe.give(null.as_fd(), false)?;
        }
        Ok(got)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::SocketOptions;
    use crate::sys::memory::Region;
    use crate::sys::socket::{
        accept, connect_tcp, finish_sending, listen_tcp, pair, receive_bytes, send_bytes,
    };
    use std::net::{IpAddr, Ipv4Addr};
    use std::time::Duration;

    /// Makes two connected sockets of each kind; true marks TCP.
    fn sockets() -> [(OwnedFd, OwnedFd, bool); 2] {
        let timeout = Duration::from_secs(5);
        let options = SocketOptions::default();
        let loopback = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let (listener, address) = listen_tcp(loopback, None, &options).unwrap();
        let client = connect_tcp(loopback, address, &options, timeout).unwrap();
        let server = accept(listener.as_fd(), timeout).unwrap().unwrap();
        let (a, b) = pair(&options).unwrap();
        [(client, server, true), (a, b, false)]
    }

    #[test]
    fn a_glance_sums_up_what_stays_in_the_pipe() {
        for (a, b, tcp) in sockets() {
            let region = Region::private(1 << 18).unwrap();
            let span = region.span(0, 200_001);
            span.write(
                &(0..200_001_u32)
                    .map(|n| (n % 251) as u8)
                    .collect::<Vec<_>>(),
            );
            let due = span.checksum();
            let sender = std::thread::spawn(move || {
                let bytes: Vec<u8> = (0..200_001_u32).map(|n| (n % 251) as u8).collect();
                let mut at = 0;
                while at < bytes.len() {
                    at += send_bytes(a.as_fd(), &bytes[at..]).unwrap();
                }
                a
            });
            let mut pipe = Pipe::new().unwrap();
            let mut glance = Glance::new(&pipe).unwrap();
            let null = std::fs::File::options().write(true).open("/dev/null");
            let null = null.unwrap();
            let mut left = 200_001;
            while left > 0 {
                left -= pipe.take(b.as_fd(), left).unwrap();
                let inside = pipe.inside();
                glance.add(&pipe).unwrap();
                assert_eq!(pipe.inside(), inside, "nothing was taken out");
                while pipe.inside() > 0 {
                    pipe.give(null.as_fd(), false).unwrap();
                }
            }
            assert_eq!(glance.take_sum(), due, "tcp: {tcp}");
            assert_eq!(glance.take_sum(), 0, "the next block begins anew");
            sender.join().unwrap();
        }
    }

    #[test]
    fn discarded_bytes_are_counted_on_tcp_and_on_unix_sockets() {
        for (from, to, tcp) in sockets() {
            let mut drain = Drain::new(tcp).unwrap();
            assert_eq!(send_bytes(from.as_fd(), &[7; 5000]).unwrap(), 5000);
            let mut left = 4000;
            while left > 0 {
                left -= drain.discard(to.as_fd(), left).unwrap();
            }
            let mut rest = [0; 1000];
            assert_eq!(receive_bytes(to.as_fd(), &mut rest).unwrap(), 1000);
            finish_sending(from.as_fd());
            assert_eq!(drain.discard(to.as_fd(), 10).unwrap(), 0);
        }
    }

    #[test]
    fn pages_pass_from_a_region_over_two_sockets_and_arrive_as_they_were() {
        let region = Region::new("test", 16384).unwrap();
        let bytes: Vec<u8> = (0..=250).cycle().take(10_000).collect();
        region.span(4000, bytes.len()).write(&bytes);
        for (from, between, _) in sockets() {
            for (onward, to, _) in sockets() {
                let mut pipe = Pipe::new().unwrap();
                assert_eq!(
                    pipe.load(region.span(4000, bytes.len())).unwrap(),
                    bytes.len()
                );
                while pipe.inside() > 0 {
                    assert!(pipe.give(from.as_fd(), false).unwrap() > 0);
                }
                let mut left = bytes.len();
                while left > 0 {
                    left -= pipe.take(between.as_fd(), left).unwrap();
                    while pipe.inside() > 0 {
                        assert!(pipe.give(onward.as_fd(), left > 0).unwrap() > 0);
                    }
                }
                let mut got = Vec::new();
                let mut piece = [0; 4096];
                while got.len() < bytes.len() {
                    let count = receive_bytes(to.as_fd(), &mut piece).unwrap();
                    got.extend_from_slice(&piece[..count]);
                }
                assert_eq!(got, bytes);
            }
        }
    }
}
