//! A session over an SSH channel, with non-blocking calls of libssh2.
//!
//! Does not connect or authenticate: `secure.rs` does that first. One rule of libssh2 shapes this
//! file: the call that sent a part of a packet must also finish it, or the next packet is refused.
//! So a call that would block while sending has the right of way until it succeeds. Another one: each
//! call takes in all that has arrived, also what another call wants. The socket is silent then, so
//! that each call asks what libssh2 holds, within the same lock.

use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;

use nix::poll::PollFlags;
use ssh2::{BlockDirections, Channel, Session};

use crate::alone::{FreedAlone, alone};
use crate::session::carrier::{Carrier, Ending, Output};
use crate::session::child::poll_with_bell;

pub(crate) struct ChannelCarrier {
    channel: FreedAlone<Channel>,
    session: FreedAlone<Session>,
    socket: Arc<TcpStream>,
    unfinished: Option<Call>,
    /// False after a read that took in nothing: libssh2 then holds nothing, and the wait is next.
    readable: bool,
    /// Room in the channel's window after the last call, in bytes.
    window: u32,
    /// The last write could not proceed with this room.
    blocked_at: Option<u32>,
    input_closed: bool,
    cut: bool,
}

/// Longest wait while libssh2 holds something that the last reads did not return: it came while another output was read, or
/// keys are being exchanged.
const WHEN_HELD: Duration = Duration::from_millis(1);

/// A call that can leave a packet half sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Call {
    Read(Output),
    Write,
    CloseInput,
    Ending,
}

impl ChannelCarrier {
    pub(crate) fn new(
        session: FreedAlone<Session>,
        channel: FreedAlone<Channel>,
        socket: Arc<TcpStream>,
    ) -> ChannelCarrier {
        ChannelCarrier {
            channel,
            session,
            socket,
            unfinished: None,
            readable: true,
            window: 0,
            blocked_at: None,
            input_closed: false,
            cut: false,
        }
    }

    /// Makes a call of libssh2. Returns `WouldBlock` if another call has the right of way.
    fn call<T>(
        &mut self,
        call: Call,
        act: impl FnOnce(&mut Channel) -> io::Result<T>,
    ) -> io::Result<T> {
        if self.unfinished.is_some_and(|first| first != call) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let channel = &mut *self.channel;
        let result = alone(|| {
            let result = act(channel);
            // All other calls can have taken in what a read wants, or have met what a read must report.
            let takes_nothing = matches!(call, Call::Read(_)) && is_blocked(&result);
            self.readable = !takes_nothing || channel.read_window().available > 0 || channel.eof();
            self.window = channel.write_window().remaining;
            result
        });
        let unfinished = is_blocked(&result) && sending(&self.session);
        self.unfinished = unfinished.then_some(call);
        result
    }
}

fn is_blocked<T>(result: &io::Result<T>) -> bool {
    matches!(result, Err(error) if error.kind() == io::ErrorKind::WouldBlock)
}

/// True if libssh2 waits for room to send.
pub(crate) fn sending(session: &Session) -> bool {
    matches!(
        session.block_directions(),
        BlockDirections::Outbound | BlockDirections::Both
    )
}

impl Carrier for ChannelCarrier {
    fn read(&mut self, output: Output, buffer: &mut [u8]) -> io::Result<usize> {
        if !self.readable {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        self.call(Call::Read(output), |channel| match output {
            Output::Standard => channel.read(buffer),
            Output::Error => channel.stderr().read(buffer),
        })
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.input_closed {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let gives_way = self.unfinished.is_some_and(|first| first != Call::Write);
        let result = self.call(Call::Write, |channel| channel.write(bytes));
        let is_halted = is_blocked(&result) && self.unfinished != Some(Call::Write);
        self.blocked_at = is_halted.then_some(if gives_way { 0 } else { self.window });
        result
    }

    fn close_input(&mut self) -> io::Result<()> {
        self.call(Call::CloseInput, |channel| {
            channel.send_eof().map_err(io::Error::from)
        })?;
        self.input_closed = true;
        Ok(())
    }

    fn ending(&mut self, drained: bool) -> io::Result<Option<Ending>> {
        if !drained {
            return Ok(None);
        }
        // The status arrives before the close, so it is only certain once the channel is closed.
        match self.call(Call::Ending, |channel| {
            channel.wait_close().map_err(io::Error::from)
        }) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                // All is read, and the close will wake the wait.
                self.readable = false;
                return Ok(None);
            }
            Err(error) => return Err(error),
        }
        let signal = alone(|| self.channel.exit_signal())
            .ok()
            .and_then(|signal| signal.exit_signal);
        let status = self.channel.exit_status().ok().filter(|_| signal.is_none());
        Ok(Some(Ending { status, signal }))
    }

    fn wait(&mut self, bell: BorrowedFd<'_>, writing: bool, timeout: Duration) -> io::Result<()> {
        let flags = match self.unfinished {
            // Until the packet is sent, nothing is read.
            Some(_) => PollFlags::POLLOUT,
            None => PollFlags::POLLIN,
        };
        let can_write = writing && self.blocked_at.is_some_and(|window| self.window > window);
        let timeout = match self.unfinished {
            None if can_write => Duration::ZERO,
            None if self.readable => timeout.min(WHEN_HELD),
            _ => timeout,
        };
        poll_with_bell(bell, self.socket.as_fd(), flags, timeout)?;
        self.readable = true;
        Ok(())
    }

    fn cut(&mut self) {
        self.cut = true;
        // An error means that the connection is gone already, which is as good.
        self.socket.shutdown(Shutdown::Both).ok();
    }
}

impl Drop for ChannelCarrier {
    fn drop(&mut self) {
        if !self.cut && self.unfinished.is_none() {
            // Sends SSH's goodbye as far as it fits into the socket now. The closed connection has the same
            // effect.
            alone(|| {
                self.channel.close().ok();
                self.session.disconnect(None, "", None).ok();
            });
        }
        // Freeing a non-blocking session must not wait for the other side.
        self.socket.shutdown(Shutdown::Both).ok();
    }
}
