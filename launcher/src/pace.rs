//! Repeats calls of libssh2 that would block, until a deadline.

use std::net::TcpStream;
use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::time::Instant;

use nix::poll::PollFlags;
use ssh2::{ErrorCode, Session};

use crate::alone::alone;
use crate::session::channel::sending;
use crate::session::child::poll_with_bell;
use crate::session::line::Line;

/// The socket that calls of libssh2 wait for, their deadline, and the line whose abort ends them.
pub(crate) struct Pace<'a> {
    pub(crate) socket: &'a Arc<TcpStream>,
    pub(crate) until: Instant,
    pub(crate) line: &'a Line,
}

/// The reason why a call of libssh2 failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unsettled {
    #[error("no answer in time")]
    Late,
    #[error("aborted")]
    Aborted,
    #[error("{}", .0.message())]
    Ssh(ssh2::Error),
}

impl Pace<'_> {
    /// Repeats a call until it would no longer block, the deadline passes, or the host is aborted.
    pub(crate) fn settle<T>(
        &self,
        session: &Session,
        mut call: impl FnMut() -> Result<T, ssh2::Error>,
    ) -> Result<T, Unsettled> {
        loop {
            self.line.silence();
            if self.line.aborted() {
                return Err(Unsettled::Aborted);
            }
            match alone(&mut call) {
                Err(error)
                    if error.code() == ErrorCode::Session(libssh2_sys::LIBSSH2_ERROR_EAGAIN) => {}
                Err(error) => return Err(Unsettled::Ssh(error)),
                Ok(value) => return Ok(value),
            }
            let left = self.until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(Unsettled::Late);
            }
            let mut flags = PollFlags::POLLIN;
            flags.set(PollFlags::POLLOUT, sending(session));
            if poll_with_bell(self.line.bell(), self.socket.as_fd(), flags, left).is_err() {
                return Err(Unsettled::Late);
            }
        }
    }
}
