//! Opens a TCP connection within a deadline. An abort ends the attempt.
//!
//! The standard library's connect cannot be interrupted, so this module makes a non-blocking
//! socket.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::PollFlags;
use nix::sys::socket::{
    AddressFamily, SockFlag, SockType, SockaddrStorage, connect, getsockopt, socket, sockopt,
};

use crate::error::{LaunchError, Stage};
use crate::session::child::poll_with_bell;
use crate::session::drive::seconds;
use crate::session::line::Line;

/// Connects to the first address that answers. Each address gets an equal share of the time left.
/// If all fail, returns the first error. `limit` only appears in its text.
pub(crate) fn connect_any(
    addresses: &[SocketAddr],
    until: Instant,
    limit: Duration,
    line: &Line,
) -> Result<(TcpStream, SocketAddr), LaunchError> {
    let mut first_error = None;
    for (at, &address) in addresses.iter().enumerate() {
        let left = until.saturating_duration_since(Instant::now());
        let waiting = u32::try_from(addresses.len() - at).unwrap_or(u32::MAX);
        match connect_one(address, Instant::now() + left / waiting, line) {
            Ok(stream) => return Ok((stream, address)),
            Err(_) if line.aborted() => return Err(LaunchError::new(Stage::Connect, "aborted")),
            Err(error) => {
                first_error.get_or_insert((error, address.port()));
            }
        }
    }
    Err(match first_error {
        Some((error, port)) => explained(&error, port, limit),
        None => LaunchError::new(Stage::Connect, "no address to connect to"),
    })
}

/// Words an error the same for every host, so that equal failures of many hosts are reported once.
fn explained(error: &io::Error, port: u16, limit: Duration) -> LaunchError {
    let new = |text: String| LaunchError::new(Stage::Connect, text);
    match error.kind() {
        io::ErrorKind::TimedOut => new(format!("timed out after {}", seconds(limit))),
        io::ErrorKind::ConnectionRefused => new(format!("port {port} refuses the connection"))
            .hint("is an SSH server running there?"),
        io::ErrorKind::HostUnreachable => new("no route to the host".to_owned()),
        io::ErrorKind::NetworkUnreachable => new("the network is unreachable".to_owned()),
        _ => new(format!("port {port}: {error}")),
    }
}

fn connect_one(address: SocketAddr, until: Instant, line: &Line) -> io::Result<TcpStream> {
    let family = if address.is_ipv4() {
        AddressFamily::Inet
    } else {
        AddressFamily::Inet6
    };
    let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
    let descriptor = socket(family, SockType::Stream, flags, None)?;
    match connect(descriptor.as_raw_fd(), &SockaddrStorage::from(address)) {
        Ok(()) => {}
        Err(Errno::EINPROGRESS) => settle(&descriptor, until, line)?,
        Err(error) => return Err(error.into()),
    }
    let stream = TcpStream::from(descriptor);
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Waits until the connection is established or has failed.
fn settle(descriptor: &OwnedFd, until: Instant, line: &Line) -> io::Result<()> {
    loop {
        line.silence();
        if line.aborted() {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let left = until.saturating_duration_since(Instant::now());
        if poll_with_bell(line.bell(), descriptor.as_fd(), PollFlags::POLLOUT, left)? {
            return match getsockopt(descriptor, sockopt::SocketError)? {
                0 => Ok(()),
                code => Err(io::Error::from_raw_os_error(code)),
            };
        }
        if Instant::now() >= until {
            return Err(io::ErrorKind::TimedOut.into());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    const LIMIT: Duration = Duration::from_secs(20);

    #[test]
    fn the_first_address_that_answers_is_taken() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let open = listener.local_addr().unwrap();
        let closed: SocketAddr = format!("127.0.0.3:{}", open.port()).parse().unwrap();
        let line = Line::new().unwrap();
        let (_, address) =
            connect_any(&[closed, open], Instant::now() + LIMIT, LIMIT, &line).unwrap();
        assert_eq!(address, open);
        let error = connect_any(&[closed], Instant::now() + LIMIT, LIMIT, &line).unwrap_err();
        assert!(
            error.to_string().contains("refuses the connection"),
            "{error}"
        );
        assert!(connect_any(&[], Instant::now(), LIMIT, &line).is_err());
        line.abort();
        let error = connect_any(&[closed], Instant::now() + LIMIT, LIMIT, &line).unwrap_err();
        assert!(
            error.text == "aborted" || error.text.contains("refuses"),
            "{error}"
        );
    }

    #[test]
    fn failures_are_told_alike_for_all_hosts() {
        let told =
            |kind: io::ErrorKind| explained(&kind.into(), 22, Duration::from_secs(5)).to_string();
        assert_eq!(
            told(io::ErrorKind::TimedOut),
            "cannot connect: timed out after 5 s"
        );
        assert_eq!(
            told(io::ErrorKind::HostUnreachable),
            "cannot connect: no route to the host"
        );
        assert_eq!(
            told(io::ErrorKind::NetworkUnreachable),
            "cannot connect: the network is unreachable"
        );
        assert!(told(io::ErrorKind::PermissionDenied).contains("port 22: "));
    }
}
