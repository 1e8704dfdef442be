//! The control channel of a node: frames on standard input and output, neither of which ever blocks.

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use thiserror::Error;

use crate::sys::clock;
use crate::sys::socket::set_nonblocking;
use crate::wire::frame::{self, Decoder, FrameError, MAGIC_WORD};
use crate::wire::message::{FromNode, ToNode};

/// Reason why a node can receive no more messages.
#[derive(Debug, Error)]
pub(super) enum ChannelError {
    /// The launching side has closed the channel.
    #[error("the control channel was closed")]
    Closed,
    /// The channel cannot be read.
    #[error("cannot read the control channel: {0}")]
    Read(#[from] io::Error),
    /// The bytes are not frames of this program.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// The frame holds no message of this program.
    #[error("invalid message: {0}")]
    Message(#[from] serde_json::Error),
}

/// If more bytes than this wait to be written, the launching side does not read.
const PENDING_LIMIT_BYTES: usize = 64 << 20;

/// Standard input and output as a control channel.
pub(super) struct Channel {
    input: io::Stdin,
    output: io::Stdout,
    decoder: Decoder,
    pending: Vec<u8>,
}

impl Channel {
    /// Takes standard input and output, makes them non-blocking, and queues the word that marks the start of the protocol, since a login
    /// shell may have printed text before it.
    pub(super) fn open() -> io::Result<Self> {
        let (input, output) = (io::stdin(), io::stdout());
        set_nonblocking(&input, true)?;
        set_nonblocking(&output, true)?;
        Ok(Self {
            input,
            output,
            decoder: Decoder::default(),
            pending: MAGIC_WORD.to_vec(),
        })
    }

    /// Queues a message. Drops it if too many bytes are pending, unless it carries what a rank has measured.
    pub(super) fn send(&mut self, message: &FromNode) {
        // The measurements of ranks are sent only once.
        let once = matches!(message, FromNode::Rank { .. });
        if self.pending.len() > PENDING_LIMIT_BYTES && !once {
            return;
        }
        if let Ok(text) = serde_json::to_vec(message) {
            self.pending.extend_from_slice(&frame::encode(&text));
        }
    }

    /// True while bytes wait to be written.
    pub(super) fn has_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Writes as much as the reader takes now.
    pub(super) fn flush(&mut self) {
        while !self.pending.is_empty() {
            match nix::unistd::write(self.output.as_fd(), &self.pending) {
                Ok(0) => return,
                Ok(written) => {
                    self.pending.drain(..written);
                }
                Err(nix::Error::EINTR) => {}
                Err(nix::Error::EAGAIN) => return,
                // The reader is gone; end-of-file on the input reports the same.
                Err(_) => self.pending.clear(),
            }
        }
    }

    /// Writes everything, or as much as the reader takes within `limit`.
    pub(super) fn flush_within(&mut self, limit: Duration) {
        let until = clock::monotonic_ns() + u64::try_from(limit.as_nanos()).unwrap_or(0);
        self.flush();
        while self.has_pending() && clock::monotonic_ns() < until {
            clock::sleep_until(clock::monotonic_ns() + 5_000_000);
            self.flush();
        }
    }

    /// Returns the next message, or `None` if no whole message has arrived yet.
    pub(super) fn receive(&mut self) -> Result<Option<ToNode>, ChannelError> {
        loop {
            if let Some(message) = self.decoder.next_message()? {
                return Ok(Some(serde_json::from_slice(&message)?));
            }
            let mut bytes = [0; 65536];
            match nix::unistd::read(self.input.as_fd(), &mut bytes) {
                Ok(0) => return Err(ChannelError::Closed),
                Ok(got) => self.decoder.push(&bytes[..got]),
                Err(nix::Error::EINTR) => {}
                Err(nix::Error::EAGAIN) => return Ok(None),
                Err(error) => return Err(io::Error::from(error).into()),
            }
        }
    }
}
