//! A session over the channel of a node that has joined.
//!
//! The program runs on the joining side, which carries its three streams. Read next: `node.rs`, the other end.

use std::collections::VecDeque;
use std::io::{self, Read as _};
use std::net::Shutdown;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use nix::poll::PollFlags;

use crate::error::one_line;
use crate::join::noise::{Channel, Kind, MAX_RECORD_BYTES};
use crate::session::carrier::{Carrier, Ending, Output};
use crate::session::child::{poll_for, poll_with_bell};

pub(crate) struct JoinCarrier {
    channel: Channel,
    standard: VecDeque<u8>,
    error: VecDeque<u8>,
    /// The program's end, once the joining side has reported it or has closed the connection.
    ending: Option<Ending>,
}

/// Bytes of one output that are held while the other one is read.
const MAX_HELD_BYTES: usize = 64 << 10;
/// Limit of a wait while bytes are held, which no descriptor shows.
const WHEN_HELD: Duration = Duration::from_millis(5);

impl JoinCarrier {
    /// Takes a joined node and lets it start the program.
    pub(crate) fn start(mut channel: Channel) -> io::Result<JoinCarrier> {
        channel.send(Kind::Start, b"")?;
        Ok(JoinCarrier {
            channel,
            standard: VecDeque::new(),
            error: VecDeque::new(),
            ending: None,
        })
    }

    /// Receives until there are bytes of `output`, or until too many of the other one are held.
    fn receive(&mut self, output: Output) -> io::Result<()> {
        while self.ending.is_none() {
            let (own, other) = match output {
                Output::Standard => (&self.standard, &self.error),
                Output::Error => (&self.error, &self.standard),
            };
            if !own.is_empty() || other.len() >= MAX_HELD_BYTES {
                return Ok(());
            }
            match self.channel.receive()? {
                // Records without bytes would keep this loop from its end.
                Some((Kind::Output, bytes)) if !bytes.is_empty() => self.standard.extend(bytes),
                Some((Kind::Error, bytes)) if !bytes.is_empty() => self.error.extend(bytes),
                Some((Kind::Ended, text)) => self.ending = Some(ending_of(&text)),
                Some((kind, _)) => {
                    let text = format!("the node sent an unexpected record: {kind:?}");
                    return Err(io::Error::new(io::ErrorKind::InvalidData, text));
                }
                None => self.ending = Some(Ending::default()),
            }
        }
        Ok(())
    }
}

impl Carrier for JoinCarrier {
    fn read(&mut self, output: Output, buffer: &mut [u8]) -> io::Result<usize> {
        let received = self.receive(output);
        let held = match output {
            Output::Standard => &mut self.standard,
            Output::Error => &mut self.error,
        };
        if !held.is_empty() {
            return held.read(buffer);
        }
        received?;
        match self.ending {
            Some(_) => Ok(0),
            None => Err(io::ErrorKind::WouldBlock.into()),
        }
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.channel.flush()?;
        let count = bytes.len().min(MAX_RECORD_BYTES);
        self.channel.send(Kind::Input, &bytes[..count])?;
        Ok(count)
    }

    fn close_input(&mut self) -> io::Result<()> {
        self.channel.flush()?;
        self.channel.send(Kind::Close, b"")
    }

    fn ending(&mut self, drained: bool) -> io::Result<Option<Ending>> {
        Ok(self.ending.clone().filter(|_| drained))
    }

    fn wait(&mut self, bell: BorrowedFd<'_>, writing: bool, timeout: Duration) -> io::Result<()> {
        let timeout = if self.standard.is_empty() && self.error.is_empty() {
            timeout
        } else {
            timeout.min(WHEN_HELD)
        };
        if self.ending.is_some() {
            // The socket of an ended connection is always readable.
            return poll_for(
                &mut [nix::poll::PollFd::new(bell, PollFlags::POLLIN)],
                timeout,
            );
        }
        let mut flags = PollFlags::POLLIN;
        flags.set(PollFlags::POLLOUT, writing || self.channel.has_pending());
        poll_with_bell(bell, self.channel.socket(), flags, timeout)?;
        // The next read returns the error of a broken connection.
        self.channel.flush().ok();
        Ok(())
    }

    fn cut(&mut self) {
        self.channel.shut(Shutdown::Both);
    }
}

/// The text of a record that ends a session.
pub(super) fn text_of(ending: &Ending) -> String {
    match (&ending.signal, ending.status) {
        (Some(signal), _) => format!("signal {signal}"),
        (None, Some(status)) => format!("status {status}"),
        (None, None) => String::new(),
    }
}

fn ending_of(text: &[u8]) -> Ending {
    const MAX_SIGNAL_CHARS: usize = 20;
    let text = one_line(&String::from_utf8_lossy(text));
    match text.split_once(' ') {
        Some(("signal", name)) => Ending {
            status: None,
            signal: Some(name.chars().take(MAX_SIGNAL_CHARS).collect()),
        },
        Some(("status", number)) => Ending {
            status: number.parse().ok(),
            signal: None,
        },
        _ => Ending::default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ending_is_the_same_on_both_sides() {
        let status = |status| Ending {
            status: Some(status),
            signal: None,
        };
        let signal = Ending {
            status: None,
            signal: Some("KILL".to_owned()),
        };
        for ending in [status(0), status(20), signal, Ending::default()] {
            assert_eq!(ending_of(text_of(&ending).as_bytes()), ending);
        }
        assert_eq!(ending_of(b"status x"), Ending::default());
        assert_eq!(ending_of(b"\xff\x1b"), Ending::default());
    }
}
