//! The encrypted channel: Noise with the token as its pre-shared key, by the crate `snow`.
//!
//! A message has its length in two bytes before it. A message after the handshake is one record: a byte for its kind,
//! then its bytes. Nothing here waits, apart from [`introduce`]. Read next: `port.rs` and `carrier.rs`.

use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags};
use nix::sys::socket::{setsockopt, sockopt};
use snow::{Builder, HandshakeState, TransportState};

use crate::error::{one_line, steers};
use crate::join::token::Token;
use crate::session::child::poll_for;

/// Ephemeral keys on both sides, so that a token that leaks after the run opens no recording of it.
const PATTERN: &str = "Noise_NNpsk0_25519_ChaChaPoly_BLAKE2s";
/// Both sides must mean the same exchange.
const PROLOGUE: &[u8] = b"launcher join 1";
/// Length of a handshake message: a key of 32 bytes and a tag.
const HANDSHAKE_BYTES: usize = 32 + TAG_BYTES;
const TAG_BYTES: usize = 16;
/// Most messages are short: one read takes length and message, or several.
const READ_AHEAD_BYTES: usize = 1024;
const MAX_MESSAGE_BYTES: usize = 65_535;
/// Limit of the bytes in one record.
pub(super) const MAX_RECORD_BYTES: usize = MAX_MESSAGE_BYTES - TAG_BYTES - 1;
/// Limit of the message with a joiner's names.
const MAX_NAMES_BYTES: usize = 4096;
pub(super) const MAX_NAMES: usize = 8;
const MAX_NAME_CHARS: usize = 255;
/// Time limit of a handshake, on both sides.
pub(super) const HANDSHAKE_DEADLINE: Duration = Duration::from_secs(5);
/// A lost machine sends no end: after this silence the kernel asks for a sign of life, three times.
const KEEPALIVE_SECONDS: u32 = 30;
const KEEPALIVE_INTERVAL_SECONDS: u32 = 10;
const KEEPALIVES: u32 = 3;

/// The kind of a record. From the joining side: `Join`, `Output`, `Error` and `Ended`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// The names by which the joiner's host can be known.
    Join = 1,
    /// The joiner has a place, or waits for one.
    Heard = 2,
    /// The reason why the joiner has no place.
    Refused = 3,
    /// The program can start.
    Start = 4,
    /// Bytes for the program's input.
    Input = 5,
    /// The program's input ends.
    Close = 6,
    /// Bytes of the program's standard output.
    Output = 7,
    /// Bytes of its standard error.
    Error = 8,
    /// The program has ended.
    Ended = 9,
}

impl Kind {
    fn of(byte: u8) -> Option<Kind> {
        use Kind::{Close, Ended, Error, Heard, Input, Join, Output, Refused, Start};
        [
            Join, Heard, Refused, Start, Input, Close, Output, Error, Ended,
        ]
        .into_iter()
        .find(|kind| *kind as u8 == byte)
    }
}

/// Messages over a socket that never blocks.
pub(super) struct Frames {
    stream: TcpStream,
    incoming: Vec<u8>,
    outgoing: Vec<u8>,
    sent: usize,
}

impl Frames {
    fn new(stream: TcpStream) -> io::Result<Frames> {
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        setsockopt(&stream, sockopt::KeepAlive, &true)?;
        setsockopt(&stream, sockopt::TcpKeepIdle, &KEEPALIVE_SECONDS)?;
        setsockopt(
            &stream,
            sockopt::TcpKeepInterval,
            &KEEPALIVE_INTERVAL_SECONDS,
        )?;
        setsockopt(&stream, sockopt::TcpKeepCount, &KEEPALIVES)?;
        Ok(Frames {
            stream,
            incoming: Vec::new(),
            outgoing: Vec::new(),
            sent: 0,
        })
    }

    /// Returns the next message of at most `limit` bytes, `WouldBlock` if it is not here yet, and `UnexpectedEof` if
    /// the other side has closed the connection.
    fn receive(&mut self, limit: usize) -> io::Result<Vec<u8>> {
        loop {
            let length = match self.incoming[..] {
                [high, low, ..] => Some(usize::from(u16::from_be_bytes([high, low]))),
                _ => None,
            };
            if length.is_some_and(|length| length > limit) {
                return Err(io::ErrorKind::InvalidData.into());
            }
            let whole = 2 + length.unwrap_or(0);
            let here = self.incoming.len();
            if length.is_some() && here >= whole {
                let rest = self.incoming.split_off(whole);
                let message = std::mem::replace(&mut self.incoming, rest);
                return Ok(message[2..].to_vec());
            }
            self.incoming.resize(whole.max(here + READ_AHEAD_BYTES), 0);
            let got = self.stream.read(&mut self.incoming[here..]);
            self.incoming
                .truncate(here + got.as_ref().map_or(0, |got| *got));
            match got {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn queue(&mut self, message: &[u8]) -> io::Result<()> {
        let length = u16::try_from(message.len()).map_err(io::Error::other)?;
        self.outgoing.extend_from_slice(&length.to_be_bytes());
        self.outgoing.extend_from_slice(message);
        Ok(())
    }

    /// Sends all that is queued, or returns `WouldBlock`.
    fn flush(&mut self) -> io::Result<()> {
        while self.sent < self.outgoing.len() {
            match self.stream.write(&self.outgoing[self.sent..]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => self.sent += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.outgoing.clear();
        self.sent = 0;
        Ok(())
    }
}

/// A channel after the handshake.
pub(crate) struct Channel {
    frames: Frames,
    noise: TransportState,
}

impl Channel {
    /// Returns the next record, or `None` if the other side has closed the connection.
    pub(super) fn receive(&mut self) -> io::Result<Option<(Kind, Vec<u8>)>> {
        self.receive_up_to(MAX_MESSAGE_BYTES)
    }

    fn receive_up_to(&mut self, limit: usize) -> io::Result<Option<(Kind, Vec<u8>)>> {
        let message = match self.frames.receive(limit) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            message => message?,
        };
        let mut record = vec![0; message.len()];
        let length = self.noise.read_message(&message, &mut record);
        record.truncate(length.map_err(invalid)?);
        let kind = record.first().copied().and_then(Kind::of);
        let kind = kind.ok_or(io::ErrorKind::InvalidData)?;
        Ok(Some((kind, record.split_off(1))))
    }

    /// Queues a record of at most [`MAX_RECORD_BYTES`].
    pub(super) fn queue(&mut self, kind: Kind, bytes: &[u8]) -> io::Result<()> {
        let record = [&[kind as u8], bytes].concat();
        let mut message = vec![0; record.len() + TAG_BYTES];
        let length = self.noise.write_message(&record, &mut message);
        self.frames.queue(&message[..length.map_err(invalid)?])
    }

    /// Queues a record and sends as much as possible now.
    pub(super) fn send(&mut self, kind: Kind, bytes: &[u8]) -> io::Result<()> {
        self.queue(kind, bytes)?;
        match self.flush() {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
            sent => sent,
        }
    }

    /// Sends all that is queued, or returns `WouldBlock`.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.frames.flush()
    }

    /// True while bytes wait to be sent.
    pub(super) fn has_pending(&self) -> bool {
        !self.frames.outgoing.is_empty()
    }

    pub(super) fn socket(&self) -> BorrowedFd<'_> {
        self.frames.stream.as_fd()
    }

    pub(super) fn shut(&self, how: Shutdown) {
        // An error means that the connection is gone already.
        self.frames.stream.shutdown(how).ok();
    }
}

/// The reason to close a connection to the listening side without an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stranger {
    /// It speaks the protocol and has another token.
    OtherToken,
    /// It is no joiner, or repeats the first message of one.
    NoJoiner,
}

/// The listening side's part of a handshake.
pub(super) enum Handshake {
    First(Box<Frames>),
    Names(Box<Channel>),
    Over,
}

impl Handshake {
    pub(super) fn new(stream: TcpStream) -> io::Result<Handshake> {
        Ok(Handshake::First(Box::new(Frames::new(stream)?)))
    }

    pub(super) fn socket(&self) -> Option<BorrowedFd<'_>> {
        match self {
            Handshake::First(frames) => Some(frames.stream.as_fd()),
            Handshake::Names(channel) => Some(channel.socket()),
            Handshake::Over => None,
        }
    }

    /// Takes what has arrived. Returns the channel and the names of a joiner that has proved the token.
    pub(super) fn advance(
        &mut self,
        token: &Token,
    ) -> Result<Option<(Channel, Vec<String>)>, Stranger> {
        if let Handshake::First(frames) = self {
            let message = match frames.receive(HANDSHAKE_BYTES) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                message => message.map_err(|_| Stranger::NoJoiner)?,
            };
            if message.len() != HANDSHAKE_BYTES {
                return Err(Stranger::NoJoiner);
            }
            let (noise, answer) = answer(token, &message).map_err(|_| Stranger::OtherToken)?;
            let Handshake::First(frames) = std::mem::replace(self, Handshake::Over) else {
                return Err(Stranger::NoJoiner);
            };
            let mut frames = *frames;
            // A new connection has room for so few bytes.
            let answered = frames.queue(&answer).and_then(|()| frames.flush());
            answered.map_err(|_| Stranger::NoJoiner)?;
            *self = Handshake::Names(Box::new(Channel { frames, noise }));
        }
        let Handshake::Names(channel) = self else {
            return Err(Stranger::NoJoiner);
        };
        let names = match channel.receive_up_to(MAX_NAMES_BYTES) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
            Ok(Some((Kind::Join, names))) => names_of(&names).ok_or(Stranger::NoJoiner)?,
            _ => return Err(Stranger::NoJoiner),
        };
        match std::mem::replace(self, Handshake::Over) {
            Handshake::Names(channel) => Ok(Some((*channel, names))),
            _ => Err(Stranger::NoJoiner),
        }
    }
}

/// The reason why an introduction failed.
#[derive(Debug)]
pub(super) enum Unheard {
    /// The other side closed the connection, as it does if it has another token.
    NoAnswer,
    /// The other side answered with a reason.
    Refused(String),
    Broken(io::Error),
}

impl From<io::Error> for Unheard {
    fn from(error: io::Error) -> Unheard {
        use io::ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
        match error.kind() {
            BrokenPipe | ConnectionReset | UnexpectedEof => Unheard::NoAnswer,
            _ => Unheard::Broken(error),
        }
    }
}

/// The joining side's handshake, up to the answer that its names were heard.
pub(super) fn introduce(
    stream: TcpStream,
    token: &Token,
    names: &[String],
    until: Instant,
) -> Result<Channel, Unheard> {
    let mut frames = Frames::new(stream)?;
    let mut handshake = builder(token)
        .and_then(Builder::build_initiator)
        .map_err(invalid)?;
    let mut message = [0; HANDSHAKE_BYTES];
    let length = handshake
        .write_message(&[], &mut message)
        .map_err(invalid)?;
    frames.queue(&message[..length])?;
    frames.flush()?;
    let answer = loop {
        match frames.receive(HANDSHAKE_BYTES) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                wait(frames.stream.as_fd(), until)?
            }
            answer => break answer?,
        }
    };
    handshake.read_message(&answer, &mut []).map_err(invalid)?;
    let noise = handshake.into_transport_mode().map_err(invalid)?;
    let mut channel = Channel { frames, noise };
    channel.send(Kind::Join, names.join("\n").as_bytes())?;
    loop {
        match channel.receive() {
            Ok(Some((Kind::Heard, _))) => return Ok(channel),
            Ok(Some((Kind::Refused, reason))) => {
                return Err(Unheard::Refused(one_line(&String::from_utf8_lossy(
                    &reason,
                ))));
            }
            Ok(Some(_)) => return Err(invalid("an unexpected record").into()),
            Ok(None) => return Err(Unheard::NoAnswer),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                wait(channel.socket(), until)?
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// Waits until bytes can be read, or fails at `until`.
fn wait(socket: BorrowedFd<'_>, until: Instant) -> io::Result<()> {
    let left = until.saturating_duration_since(Instant::now());
    if left.is_zero() {
        return Err(io::ErrorKind::TimedOut.into());
    }
    poll_for(&mut [PollFd::new(socket, PollFlags::POLLIN)], left)
}

/// Reads a joiner's first message. Returns the keys and the message to answer with.
fn answer(token: &Token, message: &[u8]) -> Result<(TransportState, Vec<u8>), snow::Error> {
    let mut handshake: HandshakeState = builder(token)?.build_responder()?;
    handshake.read_message(message, &mut [])?;
    let mut answer = vec![0; HANDSHAKE_BYTES];
    let length = handshake.write_message(&[], &mut answer)?;
    answer.truncate(length);
    Ok((handshake.into_transport_mode()?, answer))
}

fn builder(token: &Token) -> Result<Builder<'_>, snow::Error> {
    Builder::new(PATTERN.parse()?)
        .prologue(PROLOGUE)?
        .psk(0, token.bytes())
}

/// The names that a joiner says, each of bounded length and without characters that steer a terminal.
fn names_of(bytes: &[u8]) -> Option<Vec<String>> {
    let text = std::str::from_utf8(bytes).ok()?;
    let names: Vec<String> = text.split('\n').map(str::to_owned).collect();
    let fits = |name: &String| {
        let length = name.chars().count();
        (1..=MAX_NAME_CHARS).contains(&length) && !name.contains(steers)
    };
    (names.len() <= MAX_NAMES && names.iter().all(fits)).then_some(names)
}

fn invalid(error: impl ToString) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_a_joiner_are_few_short_and_plain() {
        assert_eq!(names_of(b"n1.site\nn1").unwrap(), ["n1.site", "n1"]);
        let many = ["n"; MAX_NAMES + 1].join("\n");
        let long = "n".repeat(MAX_NAME_CHARS + 1);
        for bad in [
            b"".as_slice(),
            b"n\n",
            b"\xff",
            b"n\x1b[2J",
            many.as_bytes(),
            long.as_bytes(),
        ] {
            assert_eq!(names_of(bad), None, "{}", String::from_utf8_lossy(bad));
        }
    }

    /// Symptom: a node that had joined waited twelve minutes for a launching host that had lost its power.
    #[test]
    fn a_lost_machine_is_noticed_within_a_minute() {
        use nix::sys::socket::getsockopt;
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let frames = Frames::new(stream).unwrap();
        let first = getsockopt(&frames.stream, sockopt::TcpKeepIdle).unwrap();
        let interval = getsockopt(&frames.stream, sockopt::TcpKeepInterval).unwrap();
        let count = getsockopt(&frames.stream, sockopt::TcpKeepCount).unwrap();
        assert!(getsockopt(&frames.stream, sockopt::KeepAlive).unwrap());
        assert!(first + interval * count <= 60, "{first} {interval} {count}");
    }

    #[test]
    fn every_kind_of_record_is_found_by_its_byte() {
        assert!((1..=9).all(|byte| Kind::of(byte).is_some_and(|kind| kind as u8 == byte)));
        assert_eq!((Kind::of(0), Kind::of(10)), (None, None));
    }
}
