//! Stream sockets: make and tune them, move blocks, and read the kernel's statistics of a connection.
//!
//! Sockets block by default, with a timeout on each call, so that a waiting process regularly gets control back. The congestion
//! control and the segment size are set before `connect` and `listen`: set later, they apply only in part.

use std::ffi::OsString;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::Duration;

use nix::libc;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{
    AddressFamily, Backlog, MsgFlags, SockFlag, SockType, SockaddrStorage, UnixAddr, setsockopt,
    sockopt,
};

mod info;

pub(crate) use info::{all_acknowledged, tcp_info, unread_bytes};

use super::clock;
use super::memory::Span;
use crate::plan::SocketOptions;

/// Makes a TCP listener on `address`, on a port of the range `ports` or on any port. Returns it with its address.
pub(crate) fn listen_tcp(
    address: IpAddr,
    ports: Option<(u16, u16)>,
    options: &SocketOptions,
) -> io::Result<(OwnedFd, SocketAddr)> {
    // Nodes of one host look for ports at the same time. If two nodes have bound the same port and listen at the same moment, the
    // kernel refuses both.
    const TRIES: u64 = 8;
    let (first, last) = ports.unwrap_or((0, 0));
    let mut refused = io::Error::from(io::ErrorKind::AddrInUse);
    for attempt in 0..TRIES {
        for port in first..=last {
            match listen_on(SocketAddr::new(address, port), options) {
                Ok(listener) => {
                    let bound = local_address(&listener)?;
                    return Ok((listener, bound));
                }
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => refused = error,
                Err(error) => return Err(error),
            }
        }
        // The length of the pause depends on the thread id, so that two nodes that collided do not collide again.
        let own = 1_000 + u64::from(super::process::own_thread().unsigned_abs()) * 7919 % 997;
        clock::sleep_until(clock::monotonic_ns() + own * 1_000 * (attempt + 1));
    }
    Err(refused)
}

fn listen_on(address: SocketAddr, options: &SocketOptions) -> io::Result<OwnedFd> {
    let socket = tcp_socket(address)?;
    // The next run must be able to use a port of --port-range at once.
    setsockopt(&socket, sockopt::ReuseAddr, &true)?;
    apply(socket.as_fd(), options)?;
    bind(&socket, address)?;
    nix::sys::socket::listen(&socket, Backlog::MAXALLOWABLE)?;
    Ok(socket)
}

fn tcp_socket(address: SocketAddr) -> io::Result<OwnedFd> {
    stream_socket(match address {
        SocketAddr::V4(_) => AddressFamily::Inet,
        SocketAddr::V6(_) => AddressFamily::Inet6,
    })
}

fn stream_socket(family: AddressFamily) -> io::Result<OwnedFd> {
    let (kind, flags) = (SockType::Stream, SockFlag::SOCK_CLOEXEC);
    Ok(nix::sys::socket::socket(family, kind, flags, None)?)
}

fn bind(socket: &OwnedFd, address: SocketAddr) -> io::Result<()> {
    let address = SockaddrStorage::from(address);
    Ok(nix::sys::socket::bind(socket.as_raw_fd(), &address)?)
}

/// Local address of a bound socket.
pub(crate) fn local_address(socket: &OwnedFd) -> io::Result<SocketAddr> {
    std::net::TcpListener::from(socket.try_clone()?).local_addr()
}

/// Connects to `to` from the address `from` within `timeout`.
pub(crate) fn connect_tcp(
    from: IpAddr,
    to: SocketAddr,
    options: &SocketOptions,
    timeout: Duration,
) -> io::Result<OwnedFd> {
    let socket = tcp_socket(to)?;
    apply(socket.as_fd(), options)?;
    // Choose the port at connect: otherwise a bound client would take a port for itself alone, for all peers.
    setsockopt(&socket, sockopt::IpBindAddressNoPort, &true)?;
    bind(&socket, SocketAddr::new(from, 0))?;
    set_nonblocking(&socket, true)?;
    match nix::sys::socket::connect(socket.as_raw_fd(), &SockaddrStorage::from(to)) {
        Ok(()) => {}
        Err(nix::Error::EINPROGRESS) => await_connection(&socket, timeout)?,
        Err(error) => return Err(error.into()),
    }
    set_nonblocking(&socket, false)?;
    Ok(socket)
}

fn await_connection(socket: &OwnedFd, timeout: Duration) -> io::Result<()> {
    if !wait_for(socket.as_fd(), PollFlags::POLLOUT, timeout)? {
        return Err(io::Error::from(io::ErrorKind::TimedOut));
    }
    match nix::sys::socket::getsockopt(socket, sockopt::SocketError)? {
        0 => Ok(()),
        code => Err(io::Error::from_raw_os_error(code)),
    }
}

/// Makes a listener under an abstract Unix name, which vanishes with its last descriptor.
pub(crate) fn listen_unix(name: &str, options: &SocketOptions) -> io::Result<OwnedFd> {
    let socket = stream_socket(AddressFamily::Unix)?;
    apply(socket.as_fd(), options)?;
    let address = UnixAddr::new_abstract(name.as_bytes())?;
    nix::sys::socket::bind(socket.as_raw_fd(), &address)?;
    nix::sys::socket::listen(&socket, Backlog::MAXALLOWABLE)?;
    Ok(socket)
}

/// Connects to an abstract Unix name of this network namespace within `timeout`: if the listener's queue is full, the call waits
/// for a place. The timeout also bounds later calls on the socket.
pub(crate) fn connect_unix(
    name: &str,
    options: &SocketOptions,
    timeout: Duration,
) -> io::Result<OwnedFd> {
    let socket = stream_socket(AddressFamily::Unix)?;
    apply(socket.as_fd(), options)?;
    bound_calls(&socket, timeout)?;
    let address = UnixAddr::new_abstract(name.as_bytes())?;
    nix::sys::socket::connect(socket.as_raw_fd(), &address)?;
    Ok(socket)
}

/// True if the kernel says that the process at the other end belongs to this process's user. The kernel says nothing about TCP,
/// which counts as true.
pub(crate) fn is_of_own_user(socket: &OwnedFd) -> bool {
    let peer = nix::sys::socket::getsockopt(socket, sockopt::PeerCredentials);
    peer.is_ok_and(|peer| peer.uid() == u32::MAX || peer.uid() == nix::unistd::geteuid().as_raw())
}

/// The process that began to listen on a Unix socket, as the kernel reports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Owner {
    /// Process id; `None` if this pid namespace does not know it.
    pub pid: Option<i32>,
    /// User id.
    pub user: u32,
}

/// Connects to an abstract Unix name. Returns the name's owner and the bytes that it sends to a new connection, up to its
/// end-of-file or about `limit_bytes`, all within about `timeout`.
pub(crate) fn ask_unix(
    name: &str,
    timeout: Duration,
    limit_bytes: usize,
) -> io::Result<(Owner, io::Result<Vec<u8>>)> {
    let socket = connect_unix(name, &SocketOptions::default(), timeout)?;
    let peer = nix::sys::socket::getsockopt(&socket, sockopt::PeerCredentials)?;
    let until = clock::monotonic_ns() + u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX / 2);
    let mut said = Vec::new();
    let mut bytes = [0; 512];
    let heard = loop {
        match receive_bytes(socket.as_fd(), &mut bytes) {
            Ok(0) => break Ok(said),
            Ok(got) => said.extend_from_slice(&bytes[..got]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => break Err(error),
        }
        if said.len() >= limit_bytes || clock::monotonic_ns() > until {
            break Ok(said);
        }
    };
    let owner = Owner {
        pid: Some(peer.pid()).filter(|pid| *pid > 0),
        user: peer.uid(),
    };
    Ok((owner, heard))
}

/// Makes two connected Unix sockets, for a link within a node.
pub(crate) fn pair(options: &SocketOptions) -> io::Result<(OwnedFd, OwnedFd)> {
    let (a, b) = nix::sys::socket::socketpair(
        AddressFamily::Unix,
        SockType::Stream,
        None,
        SockFlag::SOCK_CLOEXEC,
    )?;
    apply(a.as_fd(), options)?;
    apply(b.as_fd(), options)?;
    Ok((a, b))
}

/// Accepts one connection within `timeout`; `None` if no connection came or another process accepted it first.
pub(crate) fn accept(listener: BorrowedFd<'_>, timeout: Duration) -> io::Result<Option<OwnedFd>> {
    if !wait_for(listener, PollFlags::POLLIN, timeout)? {
        return Ok(None);
    }
    // SAFETY: the listener is valid; the null pointers ask for no peer address.
    let fd = unsafe {
        libc::accept4(
            listener.as_raw_fd(),
            std::ptr::null_mut(),
            std::ptr::null_mut(),
            libc::SOCK_CLOEXEC,
        )
    };
    match nix::errno::Errno::result(fd) {
        // SAFETY: the kernel just returned this descriptor, and nothing else owns it.
        Ok(fd) => Ok(Some(unsafe { OwnedFd::from_raw_fd(fd) })),
        Err(nix::Error::EAGAIN | nix::Error::EINTR | nix::Error::ECONNABORTED) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Waits until a descriptor is ready; false if `timeout` passed first.
pub(crate) fn wait_for(fd: BorrowedFd<'_>, what: PollFlags, timeout: Duration) -> io::Result<bool> {
    let end = clock::monotonic_ns() + u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX / 2);
    loop {
        let left = end
            .saturating_sub(clock::monotonic_ns())
            .div_ceil(1_000_000);
        let limit = PollTimeout::try_from(left.min(1_000_000)).unwrap_or(PollTimeout::ZERO);
        match poll(&mut [PollFd::new(fd, what)], limit) {
            Ok(0) if left == 0 => return Ok(false),
            Ok(0) | Err(nix::Error::EINTR) => {}
            Ok(_) => return Ok(true),
            Err(error) => return Err(error.into()),
        }
    }
}

/// True if data can be read or the peer has closed. Waits at most `timeout`.
pub(crate) fn readable(fd: BorrowedFd<'_>, timeout: Duration) -> io::Result<bool> {
    wait_for(fd, PollFlags::POLLIN, timeout)
}

/// Sets or clears nonblocking mode. Several receivers wait at one listener: a blocking listener would hold up the slower ones.
pub(crate) fn set_nonblocking(fd: &impl AsFd, on: bool) -> io::Result<()> {
    use nix::fcntl::{FcntlArg, OFlag, fcntl};
    let fd = fd.as_fd();
    let mut flags = OFlag::from_bits_retain(fcntl(fd, FcntlArg::F_GETFL)?);
    flags.set(OFlag::O_NONBLOCK, on);
    fcntl(fd, FcntlArg::F_SETFL(flags))?;
    Ok(())
}

/// Sets the timeout of each blocking call on a socket.
pub(crate) fn bound_calls(socket: &OwnedFd, timeout: Duration) -> io::Result<()> {
    let limit = nix::sys::time::TimeVal::from(libc::timeval {
        tv_sec: i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX),
        tv_usec: i64::from(timeout.subsec_micros()),
    });
    setsockopt(socket, sockopt::SendTimeout, &limit)?;
    setsockopt(socket, sockopt::ReceiveTimeout, &limit)?;
    Ok(())
}

/// Closes a connection at once and discards data in flight: the peer sees a reset and not a silence.
pub(crate) fn reset(socket: OwnedFd) {
    let now = libc::linger {
        l_onoff: 1,
        l_linger: 0,
    };
    match setsockopt(&socket, sockopt::Linger, &now) {
        Ok(()) | Err(_) => {} // Then the close is an ordinary one.
    }
    drop(socket);
}

/// Applies the settings of every TCP data connection: no delay of small writes, and an error when the peer's host is silent for `silence`.
pub(crate) fn prepare_data(socket: &OwnedFd, tcp: bool, silence: Duration) -> io::Result<()> {
    if tcp {
        setsockopt(socket, sockopt::TcpNoDelay, &true)?;
        let silence_ms = u32::try_from(silence.as_millis()).unwrap_or(u32::MAX);
        setsockopt(socket, sockopt::TcpUserTimeout, &silence_ms)?;
    }
    Ok(())
}

/// Makes the kernel end a connection within about `silence` if its peer takes no data or is gone.
pub(crate) fn bound_silence(socket: &impl AsFd, silence: Duration) -> io::Result<()> {
    let silence_ms = u32::try_from(silence.as_millis()).unwrap_or(u32::MAX);
    setsockopt(socket, sockopt::TcpUserTimeout, &silence_ms)?;
    Ok(setsockopt(socket, sockopt::KeepAlive, &true)?)
}

/// Turns on TCP keepalive, so that a process that only receives also notices a dead path within about `silence`.
pub(crate) fn ask_now_and_then(socket: &OwnedFd, silence: Duration) -> io::Result<()> {
    const QUESTIONS: u32 = 4;
    let seconds = u32::try_from(silence.as_secs()).unwrap_or(u32::MAX).max(2);
    setsockopt(socket, sockopt::KeepAlive, &true)?;
    setsockopt(socket, sockopt::TcpKeepIdle, &(seconds / 2))?;
    setsockopt(
        socket,
        sockopt::TcpKeepInterval,
        &(seconds / 2 / QUESTIONS).max(1),
    )?;
    setsockopt(socket, sockopt::TcpKeepCount, &QUESTIONS)?;
    Ok(())
}

/// Sets the sizes of a socket's buffers, and none of the other options.
pub(crate) fn set_buffers(socket: &impl AsFd, options: &SocketOptions) -> io::Result<()> {
    let socket = socket.as_fd();
    if let Some(bytes) = options.send_buffer_bytes {
        setsockopt(&socket, sockopt::SndBuf, &bytes)?;
    }
    if let Some(bytes) = options.receive_buffer_bytes {
        setsockopt(&socket, sockopt::RcvBuf, &bytes)?;
    }
    Ok(())
}

fn apply(socket: BorrowedFd<'_>, options: &SocketOptions) -> io::Result<()> {
    set_buffers(&socket, options)?;
    let family = family_of(socket)?;
    if family == libc::AF_UNIX {
        return Ok(());
    }
    if let Some(bytes) = options.mss_bytes {
        setsockopt(&socket, sockopt::TcpMaxSeg, &bytes)?;
    }
    if let Some(name) = &options.congestion {
        setsockopt(&socket, sockopt::TcpCongestion, &OsString::from(name))?;
    }
    if let Some(dscp) = options.dscp {
        let class = i32::from(dscp) << 2;
        if family == libc::AF_INET6 {
            setsockopt(&socket, sockopt::Ipv6TClass, &class)?;
        } else {
            setsockopt(&socket, sockopt::Ipv4Tos, &class)?;
        }
    }
    if let Some(bits) = options.rate_bits_per_s {
        set_raw(
            socket,
            libc::SOL_SOCKET,
            libc::SO_MAX_PACING_RATE,
            &(bits / 8).to_ne_bytes(),
        )?;
    }
    Ok(())
}

fn family_of(socket: BorrowedFd<'_>) -> io::Result<i32> {
    let mut value = [0_u8; 4];
    get_raw(socket, libc::SOL_SOCKET, libc::SO_DOMAIN, &mut value)?;
    Ok(i32::from_ne_bytes(value))
}

fn set_raw(socket: BorrowedFd<'_>, level: i32, name: i32, value: &[u8]) -> io::Result<()> {
    let length = libc::socklen_t::try_from(value.len()).map_err(io::Error::other)?;
    // SAFETY: `value` is readable for `length` bytes; the kernel checks the rest.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            name,
            value.as_ptr().cast(),
            length,
        )
    };
    nix::errno::Errno::result(result)?;
    Ok(())
}

fn get_raw(socket: BorrowedFd<'_>, level: i32, name: i32, value: &mut [u8]) -> io::Result<usize> {
    let mut length = libc::socklen_t::try_from(value.len()).map_err(io::Error::other)?;
    // SAFETY: `value` is writable for `length` bytes and the kernel writes at most that many.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            level,
            name,
            value.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    nix::errno::Errno::result(result)?;
    Ok(length as usize)
}

/// Names of the congestion controls that every user of this host can choose.
pub(crate) fn congestion_allowed() -> String {
    let names = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_allowed_congestion_control");
    names.unwrap_or_default().trim().to_owned()
}

/// Name of the congestion control that a TCP socket uses.
#[cfg(test)]
pub(crate) fn congestion_of(socket: BorrowedFd<'_>) -> Option<String> {
    let mut name = [0_u8; 16];
    let length = get_raw(socket, libc::IPPROTO_TCP, libc::TCP_CONGESTION, &mut name).ok()?;
    let text = String::from_utf8_lossy(name.get(..length)?).into_owned();
    Some(text.trim_end_matches('\0').to_owned())
}

/// Sends from a span. Returns the number of bytes that the kernel took. The error is `WouldBlock` if it took none before the call's timeout.
pub(crate) fn send(socket: BorrowedFd<'_>, span: Span<'_>) -> io::Result<usize> {
    // SAFETY: the span is mapped for its whole length as long as its region lives.
    let sent = unsafe {
        libc::send(
            socket.as_raw_fd(),
            span.pointer().cast(),
            span.bytes(),
            libc::MSG_NOSIGNAL,
        )
    };
    length_of(sent)
}

/// Receives at least one byte into a span. Returns the number of bytes. Zero means that the peer has closed its side.
pub(crate) fn receive(socket: BorrowedFd<'_>, span: Span<'_>) -> io::Result<usize> {
    // SAFETY: the span is mapped and writable for its whole length as long as its region lives.
    let got = unsafe { libc::recv(socket.as_raw_fd(), span.pointer().cast(), span.bytes(), 0) };
    length_of(got)
}

pub(super) fn length_of(result: isize) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}

/// Sends bytes of private memory when more bytes follow at once: on TCP, they wait for these and share a packet.
pub(crate) fn send_ahead(socket: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<usize> {
    let flags = MsgFlags::MSG_NOSIGNAL | MsgFlags::from_bits_retain(libc::MSG_MORE);
    Ok(nix::sys::socket::send(socket.as_raw_fd(), bytes, flags)?)
}

/// Sends bytes of private memory. Returns the number of bytes that the kernel took.
pub(crate) fn send_bytes(socket: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<usize> {
    let flags = MsgFlags::MSG_NOSIGNAL;
    Ok(nix::sys::socket::send(socket.as_raw_fd(), bytes, flags)?)
}

/// Receives into private memory. Returns the number of bytes. Zero means that the peer has closed its side.
pub(crate) fn receive_bytes(socket: BorrowedFd<'_>, bytes: &mut [u8]) -> io::Result<usize> {
    receive_with(socket, bytes, MsgFlags::empty())
}

fn receive_with(socket: BorrowedFd<'_>, bytes: &mut [u8], flags: MsgFlags) -> io::Result<usize> {
    Ok(nix::sys::socket::recv(socket.as_raw_fd(), bytes, flags)?)
}

/// Closes the sending direction: the peer then reads end-of-file.
pub(crate) fn finish_sending(socket: BorrowedFd<'_>) {
    match nix::sys::socket::shutdown(socket.as_raw_fd(), nix::sys::socket::Shutdown::Write) {
        Ok(()) | Err(_) => {} // A connection that is gone has nothing to finish.
    }
}

/// Reason why a socket has failed; `None` if it has not. The reason is `UnexpectedEof` if the peer has closed.
pub(crate) fn failure(socket: BorrowedFd<'_>) -> Option<io::Error> {
    let peek = MsgFlags::MSG_PEEK | MsgFlags::MSG_DONTWAIT;
    match nix::sys::socket::getsockopt(&socket, sockopt::SocketError) {
        Ok(0) => match receive_with(socket, &mut [0; 1], peek) {
            Ok(0) => Some(io::ErrorKind::UnexpectedEof.into()),
            Ok(_) => None,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => None,
            Err(error) => Some(error),
        },
        Ok(code) => Some(io::Error::from_raw_os_error(code)),
        Err(error) => Some(error.into()),
    }
}

/// Source address that this host would use towards `peer`. The call sends nothing: connecting a datagram socket only looks up the route.
pub(crate) fn source_towards(peer: IpAddr) -> io::Result<IpAddr> {
    let any: IpAddr = match peer {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((any, 0))?;
    socket.connect(SocketAddr::new(peer, 9))?;
    Ok(socket.local_addr()?.ip())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::TcpInfo;
    use crate::sys::memory::Region;

    const LOOPBACK: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    fn options() -> SocketOptions {
        SocketOptions {
            send_buffer_bytes: Some(65536),
            receive_buffer_bytes: Some(65536),
            mss_bytes: Some(1000),
            congestion: Some("reno".to_owned()),
            dscp: Some(10),
            rate_bits_per_s: Some(1_000_000_000),
        }
    }

    #[test]
    fn bytes_go_from_span_to_span_over_tcp_with_every_option_set() {
        let (listener, address) = listen_tcp(LOOPBACK, None, &options()).unwrap();
        let timeout = Duration::from_secs(5);
        let client = connect_tcp(LOOPBACK, address, &options(), timeout).unwrap();
        assert_eq!(send_bytes(client.as_fd(), b"hello").unwrap(), 5);
        let server = accept(listener.as_fd(), timeout).unwrap().unwrap();
        assert_eq!(receive_bytes(server.as_fd(), &mut [0; 5]).unwrap(), 5);
        prepare_data(&client, true, timeout).unwrap();
        assert_eq!(congestion_of(client.as_fd()).as_deref(), Some("reno"));
        let region = Region::new("test", 8192).unwrap();
        region.span(0, 5).write(b"block");
        assert_eq!(send(client.as_fd(), region.span(0, 5)).unwrap(), 5);
        assert_eq!(receive(server.as_fd(), region.span(4096, 100)).unwrap(), 5);
        let mut got = [0; 5];
        region.span(4096, 5).read(&mut got);
        assert_eq!(&got, b"block");
        let info = tcp_info(client.as_fd()).unwrap();
        assert!(info.mss_bytes <= 1000 && info.mss_bytes > 0);
        assert_eq!(TcpInfo::from_values(info.values()), info);
        assert_eq!(send_bytes(client.as_fd(), b"not read").unwrap(), 8);
        assert!(readable(server.as_fd(), timeout).unwrap());
        assert_eq!(unread_bytes(server.as_fd()), 8);
    }

    #[test]
    fn a_range_of_one_taken_port_is_an_error() {
        let (_held, address) = listen_tcp(LOOPBACK, None, &SocketOptions::default()).unwrap();
        let range = Some((address.port(), address.port()));
        let error = listen_tcp(LOOPBACK, range, &SocketOptions::default()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
    }

    #[test]
    fn a_port_that_is_taken_for_a_moment_is_tried_again() {
        // The tries last a few hundredths of a second. A holder that is suspended for longer proves nothing.
        let got_it = (0..5).any(|_| {
            let (other, address) = listen_tcp(LOOPBACK, None, &options()).unwrap();
            let holder = std::thread::spawn(move || {
                clock::sleep_until(clock::monotonic_ns() + 5_000_000);
                drop(other);
            });
            let made = listen_tcp(LOOPBACK, Some((address.port(), address.port())), &options());
            holder.join().unwrap();
            made.is_ok()
        });
        assert!(got_it);
    }

    #[test]
    fn nobody_at_the_port_is_refused_and_a_silent_call_times_out() {
        let (listener, address) = listen_tcp(LOOPBACK, None, &SocketOptions::default()).unwrap();
        drop(listener);
        let error = connect_tcp(
            LOOPBACK,
            address,
            &SocketOptions::default(),
            Duration::from_secs(5),
        );
        assert_eq!(error.unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
        let (a, _b) = pair(&SocketOptions::default()).unwrap();
        bound_calls(&a, Duration::from_millis(10)).unwrap();
        assert_eq!(
            receive_bytes(a.as_fd(), &mut [0; 4]).unwrap_err().kind(),
            io::ErrorKind::WouldBlock
        );
        assert!(tcp_info(a.as_fd()).is_none());
    }

    #[test]
    fn an_abstract_name_joins_two_unix_sockets() {
        let name = format!("pipebench-unit-{}", std::process::id());
        let listener = listen_unix(&name, &SocketOptions::default()).unwrap();
        let client =
            connect_unix(&name, &SocketOptions::default(), Duration::from_secs(5)).unwrap();
        let server = accept(listener.as_fd(), Duration::from_secs(5))
            .unwrap()
            .unwrap();
        assert_eq!(send_bytes(client.as_fd(), b"x").unwrap(), 1);
        assert_eq!(receive_bytes(server.as_fd(), &mut [0; 4]).unwrap(), 1);
        finish_sending(client.as_fd());
        assert_eq!(receive_bytes(server.as_fd(), &mut [0; 4]).unwrap(), 0);
    }

    #[test]
    fn the_owner_of_a_name_is_heard_or_at_least_known() {
        let name = format!("pipebench-unit-ask-{}", std::process::id());
        let timeout = Duration::from_millis(50);
        assert_eq!(
            ask_unix(&name, timeout, 10).unwrap_err().kind(),
            io::ErrorKind::ConnectionRefused
        );
        let listener = listen_unix(&name, &SocketOptions::default()).unwrap();
        let own = Owner {
            pid: Some(i32::try_from(std::process::id()).unwrap()),
            user: nix::unistd::geteuid().as_raw(),
        };
        let (owner, heard) = ask_unix(&name, timeout, 10).unwrap();
        assert_eq!(owner, own);
        assert_eq!(heard.unwrap_err().kind(), io::ErrorKind::WouldBlock);
        let answer = std::thread::spawn(move || {
            for _ in 0..2 {
                let caller = accept(listener.as_fd(), Duration::from_secs(5)).unwrap();
                let sent = send_bytes(caller.unwrap().as_fd(), b"here");
                assert!(matches!(sent, Ok(4) | Err(_)));
            }
        });
        let (_, heard) = ask_unix(&name, Duration::from_secs(5), 10).unwrap();
        assert_eq!(heard.unwrap(), b"here");
        answer.join().unwrap();
    }

    #[test]
    fn the_way_to_loopback_is_loopback() {
        assert_eq!(source_towards(LOOPBACK).unwrap(), LOOPBACK);
    }
}
