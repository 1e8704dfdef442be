//! The sender's side of making a link.

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use crate::plan::LinkKind;
use crate::sys::socket::{self, SocketOptions};
use crate::wire::hello::{ANSWER, LinkHello};
use crate::wire::message::Listener;

use super::{Link, LinkError};

/// Connects to a listener, says which link this is, and waits to be taken.
pub fn connect(
    from: IpAddr,
    to: &Listener,
    hello: &LinkHello,
    options: &SocketOptions,
    limit: Duration,
    silence: Duration,
) -> Result<(Link, LinkKind), LinkError> {
    let (socket, kind, name) = match to {
        Listener::Tcp(address) => {
            let connected = socket::connect_tcp(from, *address, options, limit);
            (connected, LinkKind::Tcp, address.to_string())
        }
        Listener::Unix(name) => (
            socket::connect_unix(name, options),
            LinkKind::Unix,
            name.clone(),
        ),
        Listener::None => {
            let nowhere = Err(io::Error::from(io::ErrorKind::AddrNotAvailable));
            (nowhere, LinkKind::Pair, "no listener".to_owned())
        }
    };
    let socket = socket.map_err(|source| LinkError::Connect {
        to: name.clone(),
        source,
    })?;
    introduce(&socket, hello, limit).map_err(|source| LinkError::NoAnswer { to: name, source })?;
    Ok((Link::new(socket, kind == LinkKind::Tcp, silence)?, kind))
}

fn introduce(socket: &OwnedFd, hello: &LinkHello, limit: Duration) -> io::Result<()> {
    socket::bound_calls(socket, limit)?;
    if socket::send_bytes(socket.as_fd(), &hello.encode())? != hello.encode().len() {
        return Err(io::ErrorKind::WriteZero.into());
    }
    let mut answer = [0; ANSWER.len()];
    let mut have = 0;
    while have < answer.len() {
        match socket::receive_bytes(socket.as_fd(), &mut answer[have..]) {
            Ok(0) => return Err(io::ErrorKind::ConnectionReset.into()),
            Ok(got) => have += got,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                return Err(io::ErrorKind::TimedOut.into());
            }
            Err(error) => return Err(error),
        }
    }
    if answer == ANSWER {
        Ok(())
    } else {
        Err(io::ErrorKind::InvalidData.into())
    }
}

/// Abstract Unix name of the listener of a boundary of a node.
pub fn unix_name(token: &str, node: usize, boundary: usize) -> String {
    format!("pipebench-{token}-{node}-{boundary}")
}
