//! The joining side: connects to the launching side, and carries the streams of a program to it.
//!
//! One thread. Read next: `carrier.rs`, the other end of the channel.

use std::ffi::OsString;
use std::io;
use std::net::Shutdown;
use std::os::fd::AsFd as _;
use std::process::Command;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};

use crate::backoff::Backoff;
use crate::connect::connect_any;
use crate::error::one_line;
use crate::join::carrier::text_of;
use crate::join::names::own_names;
use crate::join::noise::{Channel, HANDSHAKE_DEADLINE, Kind, Unheard, introduce};
use crate::join::token::Token;
use crate::resolve::resolve;
use crate::session::carrier::{Carrier as _, Ending, Output};
use crate::session::child::{ChildCarrier, poll_for};
use crate::session::drive::{seconds, would_block};
use crate::session::line::Line;
use crate::settings::Family;

/// A request to join.
pub struct JoinRequest {
    /// Addresses of the launching side, each `HOST:PORT`. They are tried in turn.
    pub addresses: Vec<String>,
    /// The token of the run.
    pub token: Token,
    /// Time limit until the launching side has answered.
    pub deadline: Duration,
    /// The program whose streams are carried, with its arguments.
    pub command: Vec<OsString>,
}

/// The reason why a node did not run.
#[derive(Debug, thiserror::Error)]
pub enum JoinError {
    /// An address cannot be used.
    #[error("cannot join at '{0}': write HOST:PORT")]
    Address(String),
    /// The launching side was not reached, or did not answer.
    #[error("cannot join: {0}")]
    Connect(String),
    /// The launching side has no place for this node.
    #[error("cannot join: {0}")]
    Refused(String),
    /// The launching side ended before it needed this node.
    #[error("the launching side ended before it started this node")]
    Ended,
    /// The program cannot be run.
    #[error("cannot run {command}: {source}")]
    Run {
        /// The program.
        command: String,
        /// The error.
        source: io::Error,
    },
    /// Signals and events cannot be waited for.
    #[error("cannot wait for events: {0}")]
    Wait(#[from] io::Error),
}

/// Time limit of a lookup, and of a connection to all addresses of a name.
const ATTEMPT_DEADLINE: Duration = Duration::from_secs(4);
/// Rounds of all addresses in which the other side closes a connection without an answer. It does so if it has another
/// token, or too many strangers: with the pauses between the rounds these have some seconds to go.
const MAX_UNANSWERED: usize = 8;
/// Bytes for the program that it has not read yet.
const MAX_INPUT_BYTES: usize = 256 << 10;
const READ_BYTES: usize = 60 << 10;
/// Reads of one output before the loop turns to its other duties.
const READS_PER_TURN: usize = 16;
/// Time of the program to end once the launching side is gone.
const GRACE: Duration = Duration::from_secs(5);
/// Time limit of the last bytes.
const FAREWELL: Duration = Duration::from_secs(10);
const TICK: Duration = Duration::from_secs(1);
const TICK_WHEN_ENDING: Duration = Duration::from_millis(20);

/// Joins, waits until the launching side starts the program, and carries its streams until it ends. Returns its exit
/// code, or 128 and the number of the signal that killed it.
///
/// Before the start, signals have their usual effect. After it, those that end a process go to the program, so the calling
/// process must have one thread.
pub fn join(request: JoinRequest) -> Result<u8, JoinError> {
    join_as(&request, &own_names())
}

pub(super) fn join_as(request: &JoinRequest, names: &[String]) -> Result<u8, JoinError> {
    let mut channel = arrive(request, names)?;
    wait_for_start(&mut channel)?;
    let signals = signals()?;
    let child = spawn(&request.command).inspect_err(|error| {
        // The launching side then has the reason, too, if it still listens.
        channel.send(Kind::Error, error.to_string().as_bytes()).ok();
        channel.send(Kind::Ended, b"status 127").ok();
        channel.shut(Shutdown::Write);
    })?;
    let relay = Relay {
        channel,
        child,
        signals,
        input: Vec::new(),
        input_closes: false,
        ended: [false, false],
        lost: None,
        exited: None,
    };
    Ok(code_of(&relay.run()?))
}

/// Connects until the launching side has heard this node.
fn arrive(request: &JoinRequest, names: &[String]) -> Result<Channel, JoinError> {
    let line = Line::new()?;
    let until = Instant::now() + request.deadline;
    let mut backoff = Backoff::until(until);
    let mut unanswered = 0;
    loop {
        let mut reasons: Vec<String> = Vec::new();
        let mut is_unanswered = false;
        for address in &request.addresses {
            let reason = match attempt(address, request, names, until, &line)? {
                Ok(channel) => return Ok(channel),
                Err(Unheard::Refused(reason)) => return Err(JoinError::Refused(reason)),
                Err(Unheard::NoAnswer) => {
                    is_unanswered = true;
                    "closed the connection without an answer (is the token that of this run?)"
                        .to_owned()
                }
                Err(Unheard::Broken(error)) => error.to_string(),
            };
            reasons.push(format!("{address}: {reason}"));
        }
        unanswered += usize::from(is_unanswered);
        if unanswered >= MAX_UNANSWERED || !backoff.wait(&line) {
            let all = reasons.join("; ");
            let limit = seconds(request.deadline);
            let text = if unanswered >= MAX_UNANSWERED {
                all
            } else {
                format!("not within {limit}: {all}")
            };
            return Err(JoinError::Connect(text));
        }
    }
}

/// Tries one address. The outer error is final.
fn attempt(
    address: &str,
    request: &JoinRequest,
    names: &[String],
    until: Instant,
    line: &Line,
) -> Result<Result<Channel, Unheard>, JoinError> {
    let bad = || JoinError::Address(address.to_owned());
    let (host, port) = address.rsplit_once(':').ok_or_else(bad)?;
    let port: u16 = port.parse().map_err(|_| bad())?;
    let host = host
        .strip_prefix('[')
        .map_or(host, |host| host.trim_end_matches(']'));
    let broken = |text: String| Unheard::Broken(io::Error::other(text));
    let left = |limit: Duration| limit.min(until.saturating_duration_since(Instant::now()));
    let connect = || {
        let limit = left(ATTEMPT_DEADLINE);
        let found =
            resolve(host, port, Family::Any, limit, line).map_err(|error| broken(error.text))?;
        let limit = left(ATTEMPT_DEADLINE);
        let stream = connect_any(&found, Instant::now() + limit, limit, line);
        let (stream, _) = stream.map_err(|error| broken(error.text))?;
        introduce(
            stream,
            &request.token,
            names,
            Instant::now() + HANDSHAKE_DEADLINE,
        )
    };
    Ok(connect())
}

/// Waits until the launching side starts the program. The connection's end bounds the wait: where none comes, the kernel
/// ends the connection a minute after the last sign of life.
fn wait_for_start(channel: &mut Channel) -> Result<(), JoinError> {
    loop {
        match channel.receive() {
            Ok(Some((Kind::Start, _))) => return Ok(()),
            Ok(Some((Kind::Refused, reason))) => {
                return Err(JoinError::Refused(one_line(&String::from_utf8_lossy(
                    &reason,
                ))));
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                poll_for(
                    &mut [PollFd::new(channel.socket(), PollFlags::POLLIN)],
                    TICK,
                )?;
            }
            Ok(_) | Err(_) => return Err(JoinError::Ended),
        }
    }
}

fn spawn(command: &[OsString]) -> Result<ChildCarrier, JoinError> {
    let (first, rest) = command
        .split_first()
        .ok_or_else(|| JoinError::Wait(io::Error::other("no program is named")))?;
    ChildCarrier::spawn(Command::new(first).args(rest)).map_err(|source| JoinError::Run {
        command: first.to_string_lossy().into_owned(),
        source,
    })
}

/// Receives the signals that end a process, and the one that reports the child's end. The child has none of them
/// blocked: the standard library gives it an empty mask.
fn signals() -> Result<SignalFd, JoinError> {
    use Signal::{SIGCHLD, SIGHUP, SIGINT, SIGPIPE, SIGQUIT, SIGTERM};
    let mask = SigSet::from_iter([SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGCHLD]);
    let blocked = mask.iter().chain([SIGPIPE]).collect::<SigSet>();
    let make = || {
        blocked.thread_block()?;
        SignalFd::with_flags(&mask, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC)
    };
    make().map_err(|error| JoinError::Wait(error.into()))
}

/// The exit code of a process that stands for one with this end.
fn code_of(ending: &Ending) -> u8 {
    const UNKNOWN: i32 = 1;
    let of_signal = |name: &String| {
        format!("SIG{name}")
            .parse::<Signal>()
            .map(|signal| 128 + signal as i32)
    };
    let code = match (&ending.signal, ending.status) {
        (Some(name), _) => of_signal(name).unwrap_or(UNKNOWN),
        (None, status) => status.unwrap_or(UNKNOWN),
    };
    u8::try_from(code).unwrap_or(u8::MAX)
}

/// A program, and the channel that carries its streams.
struct Relay {
    channel: Channel,
    child: ChildCarrier,
    signals: SignalFd,
    /// Bytes that the program has not read yet.
    input: Vec<u8>,
    /// True if the program's input ends after these bytes.
    input_closes: bool,
    /// True for each output of the program that has ended.
    ended: [bool; 2],
    /// Time at which the launching side was found to be gone.
    lost: Option<Instant>,
    /// Time at which the program was found to have ended.
    exited: Option<Instant>,
}

impl Relay {
    /// Carries the streams until the program ends.
    fn run(mut self) -> io::Result<Ending> {
        let mut buffer = vec![0; READ_BYTES];
        loop {
            self.forward_signals()?;
            if self.lost.is_none() && self.exchange().is_err() {
                self.lose();
            }
            self.write_input();
            for output in [Output::Standard, Output::Error] {
                self.read(output, &mut buffer)?;
            }
            let drained = self.ended == [true, true];
            if let Some(ending) = self.child.ending(drained)? {
                let since = *self.exited.get_or_insert_with(Instant::now);
                // Bytes of the program can wait in its pipes until the launching side reads the earlier ones.
                if drained || !self.channel_is_full() || since.elapsed() >= FAREWELL {
                    self.say_goodbye(&ending);
                    return Ok(ending);
                }
            }
            if self.lost.is_some_and(|since| since.elapsed() >= GRACE) {
                self.child.cut();
                let killed = self.child.ending(true)?;
                return Ok(killed.unwrap_or_default());
            }
            self.wait(drained)?;
        }
    }

    fn forward_signals(&mut self) -> io::Result<()> {
        while let Some(received) = self.signals.read_signal()? {
            let number = i32::try_from(received.ssi_signo).unwrap_or(0);
            match Signal::try_from(number) {
                Ok(Signal::SIGCHLD) | Err(_) => {}
                Ok(signal) => self.child.signal(signal, false),
            }
        }
        Ok(())
    }

    /// Sends what is queued, and receives as long as the program reads.
    fn exchange(&mut self) -> io::Result<()> {
        would_block(self.channel.flush())?;
        while self.input.len() < MAX_INPUT_BYTES {
            match would_block(self.channel.receive())? {
                None => return Ok(()),
                Some(Some((Kind::Input, bytes))) => self.input.extend_from_slice(&bytes),
                Some(Some((Kind::Close, _))) => self.input_closes = true,
                Some(_) => return Err(io::ErrorKind::UnexpectedEof.into()),
            }
        }
        Ok(())
    }

    /// Ends the program's input: the launching side is gone.
    fn lose(&mut self) {
        self.lost = Some(Instant::now());
        self.input.clear();
        self.input_closes = true;
    }

    fn write_input(&mut self) {
        while !self.input.is_empty() {
            match would_block(self.child.write(&self.input)) {
                Ok(None) => return,
                Ok(Some(count)) => drop(self.input.drain(..count)),
                // The program's end says why it reads no more.
                Err(_) => self.input.clear(),
            }
        }
        if self.input_closes {
            // This never fails: it drops a pipe.
            self.child.close_input().ok();
        }
    }

    /// Reads one output while the channel has room. Once the launching side is gone, the bytes are dropped, so that
    /// the program does not wait for a reader.
    fn read(&mut self, output: Output, buffer: &mut [u8]) -> io::Result<()> {
        let kind = match output {
            Output::Standard => Kind::Output,
            Output::Error => Kind::Error,
        };
        for _ in 0..READS_PER_TURN {
            if self.ended[output as usize] || self.channel_is_full() {
                return Ok(());
            }
            match would_block(self.child.read(output, buffer))? {
                None => return Ok(()),
                Some(0) => self.ended[output as usize] = true,
                Some(_) if self.lost.is_some() => {}
                Some(count) => {
                    if self.channel.send(kind, &buffer[..count]).is_err() {
                        self.lose();
                    }
                }
            }
        }
        Ok(())
    }

    fn channel_is_full(&self) -> bool {
        self.lost.is_none() && self.channel.has_pending()
    }

    fn wait(&mut self, drained: bool) -> io::Result<()> {
        let (reading, writing) = (!self.channel_is_full(), !self.input.is_empty());
        let mut watched = self.child.watched(reading, writing);
        watched.push(PollFd::new(self.signals.as_fd(), PollFlags::POLLIN));
        let mut flags = PollFlags::empty();
        flags.set(PollFlags::POLLIN, self.input.len() < MAX_INPUT_BYTES);
        flags.set(PollFlags::POLLOUT, self.channel.has_pending());
        if self.lost.is_none() {
            watched.push(PollFd::new(self.channel.socket(), flags));
        }
        let ending = drained || self.lost.is_some();
        poll_for(&mut watched, if ending { TICK_WHEN_ENDING } else { TICK })?;
        let gone = PollFlags::POLLERR | PollFlags::POLLHUP;
        let last = watched.last().and_then(PollFd::revents);
        let gone = last.is_some_and(|events| events.intersects(gone));
        // A connection that was reset, while the program reads nothing, would end every wait at once.
        if self.lost.is_none() && gone && !flags.contains(PollFlags::POLLIN) {
            self.lose();
        }
        Ok(())
    }

    /// Sends the end of the program, and waits until the launching side has read it: a socket that closes with unread bytes
    /// drops what it has not sent.
    fn say_goodbye(&mut self, ending: &Ending) {
        let until = Instant::now() + FAREWELL;
        if self.lost.is_some()
            || self
                .channel
                .queue(Kind::Ended, text_of(ending).as_bytes())
                .is_err()
        {
            return;
        }
        let mut shut = false;
        while Instant::now() < until {
            match would_block(self.channel.flush()) {
                Ok(Some(())) if !shut => {
                    self.channel.shut(Shutdown::Write);
                    shut = true;
                }
                Ok(_) => {}
                Err(_) => return,
            }
            match would_block(self.channel.receive()) {
                Ok(Some(Some(_))) => continue,
                Ok(Some(None)) | Err(_) => return,
                Ok(None) => {}
            }
            let mut flags = PollFlags::POLLIN;
            flags.set(PollFlags::POLLOUT, self.channel.has_pending());
            let left = until.saturating_duration_since(Instant::now());
            if poll_for(&mut [PollFd::new(self.channel.socket(), flags)], left).is_err() {
                return;
            }
        }
    }
}
