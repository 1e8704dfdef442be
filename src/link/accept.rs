//! The receiver's side of making a link: whoever of a boundary's receivers accepts becomes that link's receiver.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use crate::sys::clock;
use crate::sys::socket;
use crate::wire::hello::{ANSWER, HELLO_BYTES, LinkHello};

use super::connect::PROBE_LIMIT;
use super::{Link, LinkError};

/// What a receiver checks a hello against, and the times it keeps.
pub struct Ground<'a> {
    /// The boundary's listener, shared by all its receivers.
    pub listener: &'a OwnedFd,
    /// Whether it listens on TCP.
    pub tcp: bool,
    /// How long a hello may take.
    pub hello_limit: Duration,
    /// How long to wait for a sender, in milliseconds.
    pub limit_ms: u64,
    /// Silence after which the link counts as dead.
    pub silence: Duration,
}

/// Accepts until a link is found that `admit` takes and whose full segment arrives. Strangers are closed and told to
/// `stranger`; a link whose sender gives up before that is given back with `release`.
pub fn accept<Slot>(
    ground: &Ground<'_>,
    mut admit: impl FnMut(&LinkHello) -> Option<Slot>,
    mut release: impl FnMut(Slot),
    mut stranger: impl FnMut(),
) -> Result<(Link, Slot), LinkError> {
    let until = clock::monotonic_ns() + ground.limit_ms * 1_000_000;
    while clock::monotonic_ns() < until {
        let accepted = socket::accept(ground.listener.as_fd(), Duration::from_millis(200));
        let Some(socket) = accepted.map_err(LinkError::Setup)? else {
            continue;
        };
        let hello = read_hello(&socket, ground.hello_limit);
        let admitted = hello.and_then(|hello| Some((hello, admit(&hello)?)));
        let Some((hello, slot)) = admitted else {
            stranger();
            continue;
        };
        if answer(&socket, &hello) {
            return Ok((Link::new(socket, ground.tcp, ground.silence)?, slot));
        }
        release(slot);
    }
    Err(LinkError::NobodyCame(ground.limit_ms))
}

fn read_hello(socket: &OwnedFd, limit: Duration) -> Option<LinkHello> {
    let mut bytes = [0; HELLO_BYTES];
    read_within(socket, limit, &mut bytes)?;
    LinkHello::decode(&bytes)
}

/// Takes the sender, and what it sends to try the path. Its own limit is shorter: who waits in vain is the sender,
/// which closes then.
fn answer(socket: &OwnedFd, hello: &LinkHello) -> bool {
    let say = || socket::send_bytes(socket.as_fd(), &ANSWER).is_ok_and(|sent| sent == ANSWER.len());
    let mut probe = vec![0; usize::try_from(hello.probe_bytes).unwrap_or(0)];
    if !say() {
        return false;
    }
    probe.is_empty() || (read_within(socket, PROBE_LIMIT * 2, &mut probe).is_some() && say())
}

/// A peer that sends a byte now and then must not stretch the limit.
fn read_within(socket: &OwnedFd, limit: Duration, bytes: &mut [u8]) -> Option<()> {
    let until = clock::monotonic_ns() + u64::try_from(limit.as_nanos()).ok()?;
    socket::bound_calls(socket, limit).ok()?;
    let mut have = 0;
    while have < bytes.len() {
        if clock::monotonic_ns() > until {
            return None;
        }
        match socket::receive_bytes(socket.as_fd(), &mut bytes[have..]) {
            Ok(0) => return None,
            Ok(got) => have += got,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return None,
        }
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::{Target, connect};
    use crate::sys::socket::SocketOptions;
    use std::net::{IpAddr, Ipv4Addr};

    const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    fn hello(token: u8) -> LinkHello {
        LinkHello {
            token: [token; 32],
            boundary: 1,
            from: 2,
            to: 3,
            stream: 4,
            probe_bytes: 0,
        }
    }

    #[test]
    fn strangers_are_counted_and_the_right_sender_gets_its_answer() {
        let (listener, address) =
            socket::listen_tcp(LOOPBACK, None, &SocketOptions::default()).unwrap();
        let second = Duration::from_secs(1);
        let senders = std::thread::spawn(move || {
            let to = Target::Tcp {
                from: LOOPBACK,
                to: address,
            };
            let options = SocketOptions::default();
            let wrong = connect(&to, &hello(1), &options, second * 5, second);
            let stranger = std::net::TcpStream::connect(address).unwrap();
            drop(stranger);
            let right = connect(&to, &hello(7), &options, second * 5, second);
            (wrong.map(|_| ()), right.map(|_| ()))
        });
        let ground = Ground {
            listener: &listener,
            tcp: true,
            hello_limit: second,
            limit_ms: 10_000,
            silence: second,
        };
        let mut strangers = 0;
        let admit = |hello: &LinkHello| (hello.token == [7; 32]).then_some(hello.stream);
        let (link, stream) = accept(&ground, admit, |_| (), || strangers += 1).unwrap();
        let (wrong, right) = senders.join().unwrap();
        assert!(matches!(wrong, Err(LinkError::NoAnswer { .. })));
        assert!(right.is_ok() && link.is_tcp());
        assert_eq!((stream, strangers), (4, 2));
    }

    #[test]
    fn a_sender_that_gives_up_on_its_full_segment_leaves_its_place() {
        let (listener, address) =
            socket::listen_tcp(LOOPBACK, None, &SocketOptions::default()).unwrap();
        let second = Duration::from_secs(1);
        let senders = std::thread::spawn(move || {
            use std::io::{Read, Write};
            let mut short = std::net::TcpStream::connect(address).unwrap();
            let hello = LinkHello {
                probe_bytes: 8960,
                ..hello(7)
            };
            short.write_all(&hello.encode()).unwrap();
            short.read_exact(&mut [0; 8]).unwrap();
            short.write_all(&[0; 100]).unwrap();
            drop(short);
            let to = Target::Tcp {
                from: LOOPBACK,
                to: address,
            };
            connect(&to, &hello, &SocketOptions::default(), second * 5, second).map(|_| ())
        });
        let ground = Ground {
            listener: &listener,
            tcp: true,
            hello_limit: second,
            limit_ms: 10_000,
            silence: second,
        };
        let (mut taken, mut released) = (0, 0);
        let admit = |_: &LinkHello| {
            taken += 1;
            Some(taken)
        };
        let (_, slot) = accept(&ground, admit, |slot| released = slot, || ()).unwrap();
        assert!(senders.join().unwrap().is_ok());
        assert_eq!((slot, released), (2, 1));
    }

    #[test]
    fn nobody_coming_ends_with_its_limit() {
        let (listener, _) = socket::listen_tcp(LOOPBACK, None, &SocketOptions::default()).unwrap();
        let second = Duration::from_secs(1);
        let ground = Ground {
            listener: &listener,
            tcp: true,
            hello_limit: second,
            limit_ms: 50,
            silence: second,
        };
        let error = accept(&ground, |_| Some(()), |()| (), || ()).err().unwrap();
        assert_eq!(error.to_string(), "no sender connected within 50 ms");
    }
}
