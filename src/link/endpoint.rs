//! Addresses at which processes listen.

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::time::Duration;

use nix::libc;

use crate::plan::{LinkKind, SocketOptions};
use crate::sys::{socket, why};

use super::LinkError;

/// Address at which a process listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Endpoint {
    /// TCP. A listener chooses its port.
    Tcp(SocketAddr),
    /// An abstract Unix socket name of this host.
    Unix(String),
    /// A place in the memory that the ranks of a node share. Such links exist from the start: no process listens or connects.
    Memory(usize),
}

/// Ports for listeners.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Ports {
    /// First and last port; any port if absent.
    pub range: Option<(u16, u16)>,
    /// Number of ports that this host needs.
    pub needed: usize,
}

impl Endpoint {
    /// The TCP endpoint of a listener at `address` that has no port yet.
    pub(crate) fn at(address: IpAddr) -> Self {
        Self::Tcp(SocketAddr::new(address, 0))
    }

    /// Kind of the links to this endpoint.
    pub(crate) fn kind(&self) -> LinkKind {
        match self {
            Self::Tcp(_) => LinkKind::Tcp,
            Self::Unix(_) => LinkKind::Unix,
            Self::Memory(_) => LinkKind::Memory,
        }
    }

    /// Makes a nonblocking listener. Returns it with the address that others connect to, if it has a port.
    pub(crate) fn listen(
        &self,
        ports: Ports,
        options: &SocketOptions,
    ) -> Result<(OwnedFd, Option<SocketAddr>), LinkError> {
        let made = match self {
            Self::Tcp(at) => socket::listen_tcp(at.ip(), ports.range, options)
                .map(|(listener, address)| (listener, Some(address))),
            Self::Unix(name) => socket::listen_unix(name, options).map(|listener| (listener, None)),
            Self::Memory(_) => Err(io::ErrorKind::Unsupported.into()),
        };
        let (listener, address) =
            made.map_err(|error| self.cannot_listen(&error, ports, options))?;
        socket::set_nonblocking(&listener, true).map_err(LinkError::Setup)?;
        Ok((listener, address))
    }

    fn cannot_listen(&self, error: &io::Error, ports: Ports, options: &SocketOptions) -> LinkError {
        let at = match self {
            Self::Tcp(at) => at.ip().to_string(),
            Self::Unix(_) | Self::Memory(_) => self.to_string(),
        };
        let unknown = matches!(error.raw_os_error(), Some(libc::ENOENT | libc::EPERM));
        let reason = match (ports.range, &options.congestion) {
            (Some((first, last)), _)
                if self.kind().needs_port() && error.kind() == io::ErrorKind::AddrInUse =>
            {
                let needed = ports.needed;
                format!(
                    "all ports {first}-{last} are taken (this host needs {needed}; widen --port-range)"
                )
            }
            (_, Some(name)) if unknown => format!(
                "congestion control {name} is not available or not allowed (this host has {})",
                socket::congestion_allowed()
            ),
            _ => why(error),
        };
        LinkError::Listen { at, reason }
    }

    /// Connects within `limit`, on TCP from an address of this host.
    pub(crate) fn connect(
        &self,
        from: IpAddr,
        options: &SocketOptions,
        limit: Duration,
    ) -> io::Result<OwnedFd> {
        match self {
            Self::Tcp(to) => socket::connect_tcp(from, *to, options, limit),
            Self::Unix(name) => socket::connect_unix(name, options, limit),
            Self::Memory(_) => Err(io::ErrorKind::NotFound.into()),
        }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(to),
            Self::Unix(name) => name.fmt(to),
            Self::Memory(place) => write!(to, "place {place}"),
        }
    }
}
