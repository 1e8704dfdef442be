//! The loop of one session, between a carrier, the dialogue and the owner's line.
//!
//! One thread. It blocks only in the wait, which ends at the next deadline at the latest, and in
//! short sleeps while the owner lags. Does not know the transport; read next `carrier.rs`, and
//! `dialogue.rs` for the exchange before the magic word.

use std::collections::VecDeque;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags};

use crate::error::{LaunchError, Stage};
use crate::session::carrier::{Carrier, Ending, Output};
use crate::session::child::poll_for;
use crate::session::dialogue::{Act, Dialogue, Refusal, State};
use crate::session::line::Line;
use crate::session::report::Report;

/// Time limit of each part of the dialogue, and the stage to blame if the first answer is missing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) answer: (Stage, Duration),
    pub(crate) store: Duration,
    pub(crate) start: Duration,
}

/// The end of a session.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The program had come up and has ended.
    Ended(Ending),
    /// The program ended before it was up. The last complaints give the reason: the script's notes and
    /// the lines of standard error.
    Early {
        ending: Ending,
        state: State,
        complaints: Vec<String>,
        noise: String,
    },
    /// The program never came up.
    Failed(LaunchError),
    /// The executable could not be written to this folder.
    Folder { index: usize, reason: String },
    /// The owner aborted the session.
    Aborted,
}

/// Runs the session to its end. Writes `first` before all other bytes.
pub(crate) fn drive(
    carrier: &mut dyn Carrier,
    dialogue: Dialogue,
    first: Option<Vec<u8>>,
    line: &Line,
    report: &mut Report,
    limits: Limits,
    path: Path<'_>,
) -> Outcome {
    let mut drive = Drive {
        carrier: &mut *carrier,
        dialogue,
        line,
        report,
        limits,
        path,
        output: first.map(Arc::new).into_iter().collect(),
        written: 0,
        input_closed: false,
        standard_ended: false,
        error_ended: false,
        error_line: Vec::new(),
        held_complaints: VecDeque::new(),
        pause: WHEN_AHEAD.0,
        deadline: None,
    };
    let outcome = drive.run();
    if !matches!(outcome, Outcome::Ended(_) | Outcome::Early { .. }) {
        carrier.cut();
    }
    outcome
}

/// Transport and address by which the session reached its host.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Path<'a> {
    pub(crate) transport: &'a str,
    pub(crate) address: Option<IpAddr>,
}

struct Drive<'a> {
    carrier: &'a mut dyn Carrier,
    dialogue: Dialogue,
    line: &'a Line,
    report: &'a mut Report,
    limits: Limits,
    path: Path<'a>,
    /// Blocks to write. The owner's bytes enter only once the program is up and this queue is empty.
    output: VecDeque<Arc<Vec<u8>>>,
    written: usize,
    input_closed: bool,
    standard_ended: bool,
    error_ended: bool,
    error_line: Vec<u8>,
    /// Lines of standard error before the program is up. They are reported once it comes up, and join
    /// the error if it does not.
    held_complaints: VecDeque<String>,
    /// The next pause while the owner lags.
    pause: Duration,
    deadline: Option<(State, Instant)>,
}

const READ_BYTES: usize = 16 << 10;
/// Reads in a row before the loop turns to its other duties.
const READS_PER_TURN: usize = 16;
/// Pauses in reading while the owner has too many events to handle: the first, and the longest that they grow to. With many
/// hosts it has to handle theirs, too, and looks of all sessions would take the processor from it.
const WHEN_AHEAD: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(100));
const MAX_HELD_COMPLAINTS: usize = 40;
const MAX_LINE_BYTES: usize = 8 << 10;
/// Interval of the checks for a process that ended or is ending, where nothing else wakes the loop.
const TICK: Duration = Duration::from_secs(1);
const TICK_WHEN_DRAINED: Duration = Duration::from_millis(20);

impl Drive<'_> {
    fn run(&mut self) -> Outcome {
        loop {
            self.line.silence();
            if self.line.aborted() {
                return Outcome::Aborted;
            }
            match self.turn() {
                Ok(None) => {}
                Ok(Some(outcome)) => return outcome,
                Err(error) => return self.lost(&error),
            }
        }
    }

    /// Does everything that is possible now, then waits once.
    fn turn(&mut self) -> io::Result<Option<Outcome>> {
        self.write();
        if self.report.is_ahead() {
            let mut bell = [PollFd::new(self.line.bell(), PollFlags::POLLIN)];
            poll_for(&mut bell, self.pause)?;
            self.pause = (self.pause * 2).min(WHEN_AHEAD.1);
            return Ok(None);
        }
        self.pause = WHEN_AHEAD.0;
        // Kept while the session waits, it would be 16 MB for a thousand hosts.
        let mut buffer = vec![0; READ_BYTES];
        let mut busy = match self.read_standard(&mut buffer)? {
            Ok(busy) => busy,
            Err(Refusal::Failed(error)) => return Ok(Some(Outcome::Failed(error))),
            Err(Refusal::Folder { index, reason }) => {
                return Ok(Some(Outcome::Folder { index, reason }));
            }
        };
        busy |= self.read_error(&mut buffer)?;
        drop(buffer);
        self.hang_up();
        if busy {
            return Ok(None);
        }
        let drained = self.standard_ended && self.error_ended;
        if let Some(ending) = self.carrier.ending(drained)? {
            return Ok(Some(self.ended(ending)));
        }
        if let Some(error) = self.overdue() {
            return Ok(Some(Outcome::Failed(error)));
        }
        let writing = !self.output.is_empty() && !self.input_closed;
        self.carrier
            .wait(self.line.bell(), writing, self.patience(drained))?;
        Ok(None)
    }

    /// Reads standard output. Returns true if more can be available at once.
    fn read_standard(&mut self, buffer: &mut [u8]) -> io::Result<Result<bool, Refusal>> {
        for _ in 0..READS_PER_TURN {
            if self.standard_ended {
                return Ok(Ok(false));
            }
            // More can be here that wakes no wait: the next turn pauses.
            if self.report.is_ahead() {
                return Ok(Ok(true));
            }
            match would_block(self.carrier.read(Output::Standard, buffer))? {
                None => return Ok(Ok(false)),
                Some(0) => self.standard_ended = true,
                Some(count) => {
                    let has_begun = |state: State| matches!(state, State::Starting | State::Open);
                    let had_begun = has_begun(self.dialogue.state());
                    let taken = self.dialogue.take(&buffer[..count]);
                    // One read can return both the shell's answer and the program's first words.
                    if !had_begun && has_begun(self.dialogue.state()) {
                        self.report.stage(Stage::Start);
                    }
                    match taken {
                        Ok(acts) => acts.into_iter().for_each(|act| self.act(act)),
                        Err(refusal) => return Ok(Err(refusal)),
                    }
                }
            }
        }
        Ok(Ok(true))
    }

    fn act(&mut self, act: Act) {
        match act {
            Act::Write(bytes) => self.output.push_back(bytes),
            Act::Bytes(bytes) => self.report.bytes(bytes),
            Act::Up { noise } => {
                self.report
                    .up(self.path.transport, self.path.address, noise);
                for line in std::mem::take(&mut self.held_complaints) {
                    self.report.complaint(line);
                }
            }
        }
    }

    fn read_error(&mut self, buffer: &mut [u8]) -> io::Result<bool> {
        for _ in 0..READS_PER_TURN {
            if self.error_ended {
                return Ok(false);
            }
            if self.report.is_ahead() {
                return Ok(true);
            }
            match would_block(self.carrier.read(Output::Error, buffer))? {
                None => return Ok(false),
                Some(0) => {
                    self.error_ended = true;
                    self.complain_line();
                    // The other output can have ended by the same call.
                    return Ok(true);
                }
                Some(count) => self.error_bytes(&buffer[..count]),
            }
        }
        Ok(true)
    }

    fn error_bytes(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            if byte != b'\n' {
                self.error_line.push(byte);
            }
            if byte == b'\n' || self.error_line.len() >= MAX_LINE_BYTES {
                self.complain_line();
            }
        }
    }

    fn complain_line(&mut self) {
        let line = std::mem::take(&mut self.error_line);
        let line = String::from_utf8_lossy(&line).trim_end().to_owned();
        if line.is_empty() {
            return;
        }
        if self.dialogue.state() == State::Open {
            self.report.complaint(line);
            return;
        }
        if self.held_complaints.len() == MAX_HELD_COMPLAINTS {
            // The first lines name the cause more often than the last ones, so a line from the middle is
            // dropped.
            self.held_complaints.remove(MAX_HELD_COMPLAINTS / 2);
        }
        self.held_complaints.push_back(line);
    }

    /// Writes all that is queued. A closed input is not an error here: the program's ending gives the
    /// reason.
    fn write(&mut self) {
        while !self.input_closed {
            if self.output.is_empty() && self.dialogue.state() == State::Open {
                self.output.extend(self.line.take().map(Arc::new));
            }
            let Some(front) = self.output.front() else {
                return;
            };
            match would_block(self.carrier.write(&front[self.written..])) {
                Ok(None) => return,
                Ok(Some(count)) => {
                    self.written += count;
                    if self.written == front.len() {
                        self.output.pop_front();
                        self.written = 0;
                    }
                }
                Err(_) => {
                    self.input_closed = true;
                    self.output.clear();
                }
            }
        }
    }

    fn hang_up(&mut self) {
        let all_written = self.output.is_empty() && self.line.drained_and_hung_up();
        if !self.input_closed && all_written && self.dialogue.state() == State::Open {
            let closed = would_block(self.carrier.close_input());
            self.input_closed = !matches!(closed, Ok(None));
        }
    }

    fn ended(&mut self, ending: Ending) -> Outcome {
        self.complain_line();
        if self.dialogue.state() == State::Open {
            return Outcome::Ended(ending);
        }
        let notes = self.dialogue.notes().iter().cloned();
        Outcome::Early {
            ending,
            state: self.dialogue.state(),
            complaints: notes.chain(self.held_complaints.drain(..)).collect(),
            noise: self.dialogue.noise(),
        }
    }

    /// The outcome of a broken carrier.
    fn lost(&mut self, error: &io::Error) -> Outcome {
        let text = format!("the session is lost: {error}");
        if self.dialogue.state() == State::Open {
            self.report.notice(text);
            self.carrier.cut();
            return Outcome::Ended(Ending::default());
        }
        Outcome::Failed(LaunchError::new(self.report.current_stage(), text))
    }

    /// Returns an error if the current part of the dialogue took too long. Each part restarts the
    /// clock.
    fn overdue(&mut self) -> Option<LaunchError> {
        let state = self.dialogue.state();
        let ((stage, limit), waited_for) = match state {
            State::Open => return None,
            State::Answering => (self.limits.answer, "no answer from the host's shell"),
            State::Storing => (
                (Stage::Deploy, self.limits.store),
                "the executable has not arrived",
            ),
            State::Starting => (
                (Stage::Start, self.limits.start),
                "no first message from the program",
            ),
        };
        let now = Instant::now();
        let Some((_, until)) = self.deadline.filter(|(of, _)| *of == state) else {
            self.deadline = Some((state, now + limit));
            return None;
        };
        if now < until {
            return None;
        }
        let mut text = format!("timed out after {}: {waited_for}", seconds(limit));
        if let Some(complaint) = self.held_complaints.back() {
            text = format!("{text}: {complaint}");
        }
        Some(LaunchError::new(stage, text))
    }

    fn patience(&self, drained: bool) -> Duration {
        let tick = if drained { TICK_WHEN_DRAINED } else { TICK };
        match self.deadline {
            Some((_, until)) if self.dialogue.state() != State::Open => {
                tick.min(until.saturating_duration_since(Instant::now()))
            }
            _ => tick,
        }
    }
}

/// Turns `WouldBlock` into `None`. An interrupted call counts as one that would block, since the
/// loop retries it.
pub(crate) fn would_block<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) => match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(None),
            _ => Err(error),
        },
    }
}

/// Writes a duration as `5 s`, `1.5 s` or `50 ms`.
pub(crate) fn seconds(time: Duration) -> String {
    let ms = time.as_millis();
    match ms {
        0..1000 => format!("{ms} ms"),
        _ if ms.is_multiple_of(1000) => format!("{} s", ms / 1000),
        _ => format!("{:.1} s", time.as_secs_f64()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::BorrowedFd;
    use std::sync::mpsc::{RecvTimeoutError, channel};

    use super::*;
    use crate::event::{Event, Tickets};

    /// Has all messages at once, as a channel that has read ahead: no descriptor shows them. An empty one is a read that would block.
    struct Ahead(VecDeque<&'static [u8]>);

    impl Carrier for Ahead {
        fn read(&mut self, output: Output, buffer: &mut [u8]) -> io::Result<usize> {
            let next = match output {
                Output::Standard => self.0.pop_front(),
                Output::Error => None,
            };
            match next {
                None => Ok(0),
                Some(b"") => Err(io::ErrorKind::WouldBlock.into()),
                Some(next) => {
                    buffer[..next.len()].copy_from_slice(next);
                    Ok(next.len())
                }
            }
        }

        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            Ok(bytes.len())
        }

        fn close_input(&mut self) -> io::Result<()> {
            Ok(())
        }

        fn ending(&mut self, drained: bool) -> io::Result<Option<Ending>> {
            Ok(drained.then(Ending::default))
        }

        fn wait(&mut self, _: BorrowedFd<'_>, _: bool, _: Duration) -> io::Result<()> {
            panic!("it would sleep a second with {} messages", self.0.len());
        }

        fn cut(&mut self) {}
    }

    /// Symptom: with many hosts a joined session whose owner lagged moved on by two messages a second.
    #[test]
    fn messages_that_were_read_ahead_need_no_sign_of_the_socket_after_the_owner_lagged() {
        let (sender, events) = channel();
        let line = Arc::new(Line::new().unwrap());
        let mut report = Report::new(0, sender, Tickets::among(1000), Arc::clone(&line));
        let mut messages = VecDeque::from([b"MAGIC\n".as_slice(), b""]);
        messages.extend([b"x".as_slice(); 6]);
        let session = std::thread::spawn(move || {
            let limits = Limits {
                answer: (Stage::Start, TICK),
                store: TICK,
                start: TICK,
            };
            let path = Path {
                transport: "join",
                address: None,
            };
            let dialogue = Dialogue::direct(b"MAGIC\n");
            let mut carrier = Ahead(messages);
            drive(
                &mut carrier,
                dialogue,
                None,
                &line,
                &mut report,
                limits,
                path,
            )
        });
        let (mut heard, mut held) = (Vec::<u8>::new(), Vec::new());
        loop {
            // The owner keeps the tickets until the session pauses.
            match events.recv_timeout(WHEN_AHEAD.0) {
                Ok((_, event)) => held.push(event),
                Err(RecvTimeoutError::Timeout) => held.clear(),
                Err(RecvTimeoutError::Disconnected) => break,
            }
            if let Some(Event::Bytes(bytes, _)) = held.last() {
                heard.extend(bytes);
            }
        }
        assert_eq!(session.join().unwrap(), Outcome::Ended(Ending::default()));
        assert_eq!(heard, b"xxxxxx");
    }
}
