//! The loop of one session: between a carrier, the dialogue and the owner's line.
//!
//! One thread, no blocking call but the wait, which ends at the next deadline at the latest. Does
//! not know what carries the session; read next `carrier.rs` and, for the words before the magic
//! word, `dialogue.rs`.

use std::collections::VecDeque;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::error::{LaunchError, Stage};
use crate::session::carrier::{Carrier, Ending, Output};
use crate::session::dialogue::{Act, Dialogue, Refusal, State};
use crate::session::line::Line;
use crate::session::report::Report;

/// How long each part of the dialogue may take, and the stage that a missing first answer counts
/// as.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) answer: (Stage, Duration),
    pub(crate) store: Duration,
    pub(crate) start: Duration,
}

/// How a session came to its end.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The program had come up and is gone.
    Ended(Ending),
    /// It ended before it was up; the last lines of its standard error tell why.
    Early {
        ending: Ending,
        state: State,
        complaints: Vec<String>,
        noise: String,
    },
    /// It never came up.
    Failed(LaunchError),
    /// The executable could not be written to this folder.
    Folder { index: usize, reason: String },
    /// The owner dropped it.
    Aborted,
}

/// Carries the session to its end.
pub(crate) fn drive(
    carrier: &mut dyn Carrier,
    dialogue: Dialogue,
    first: Option<Vec<u8>>,
    line: &Line,
    report: &mut Report,
    limits: Limits,
    path: Path<'_>,
) -> Outcome {
    let mut drive = Drive::new(carrier, dialogue, line, report, limits, path);
    drive.output.extend(first.map(Arc::new));
    let outcome = drive.run();
    if !matches!(outcome, Outcome::Ended(_) | Outcome::Early { .. }) {
        carrier.cut();
    }
    outcome
}

/// How the session reached its host.
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
    /// What is to be written before anything of the owner's.
    output: VecDeque<Arc<Vec<u8>>>,
    written: usize,
    input_closed: bool,
    standard_ended: bool,
    error_ended: bool,
    error_line: Vec<u8>,
    /// Standard error before the program is up: told when it comes up, part of the error when it
    /// does not.
    held_complaints: VecDeque<String>,
    deadline: Option<(State, Instant)>,
}

const READ_BYTES: usize = 64 << 10;
/// Reads in a row before the other duties have their turn.
const READS_PER_TURN: usize = 16;
/// How long nothing is read where the owner has not dealt with what was read before.
const WHEN_AHEAD: Duration = Duration::from_millis(5);
const MAX_HELD_COMPLAINTS: usize = 40;
const MAX_LINE_BYTES: usize = 8 << 10;
/// How often an ended or ending process is asked about where nothing else would wake the loop.
const TICK: Duration = Duration::from_secs(1);
const TICK_WHEN_DRAINED: Duration = Duration::from_millis(20);

impl<'a> Drive<'a> {
    fn new(
        carrier: &'a mut dyn Carrier,
        dialogue: Dialogue,
        line: &'a Line,
        report: &'a mut Report,
        limits: Limits,
        path: Path<'a>,
    ) -> Drive<'a> {
        Drive {
            carrier,
            dialogue,
            line,
            report,
            limits,
            path,
            output: VecDeque::new(),
            written: 0,
            input_closed: false,
            standard_ended: false,
            error_ended: false,
            error_line: Vec::new(),
            held_complaints: VecDeque::new(),
            deadline: None,
        }
    }

    fn run(&mut self) -> Outcome {
        let mut buffer = vec![0; READ_BYTES];
        loop {
            self.line.silence();
            if self.line.aborted() {
                return Outcome::Aborted;
            }
            let turn = self.turn(&mut buffer);
            match turn {
                Ok(None) => {}
                Ok(Some(outcome)) => return outcome,
                Err(error) => return self.lost(&error),
            }
        }
    }

    /// Everything that can be done now, then one wait.
    fn turn(&mut self, buffer: &mut [u8]) -> io::Result<Option<Outcome>> {
        self.write();
        if self.report.is_ahead() {
            std::thread::sleep(WHEN_AHEAD);
            return Ok(None);
        }
        let mut busy = match self.read_standard(buffer)? {
            Ok(busy) => busy,
            Err(refusal) => return Ok(Some(refused(refusal))),
        };
        busy |= self.read_error(buffer)?;
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

    /// Reads standard output; true if there may be more at once.
    fn read_standard(&mut self, buffer: &mut [u8]) -> io::Result<Result<bool, Refusal>> {
        for _ in 0..READS_PER_TURN {
            if self.standard_ended || self.report.is_ahead() {
                return Ok(Ok(false));
            }
            match would_block(self.carrier.read(Output::Standard, buffer))? {
                None => return Ok(Ok(false)),
                Some(0) => self.standard_ended = true,
                Some(count) => {
                    let has_begun = |state: State| matches!(state, State::Starting | State::Open);
                    let had_begun = has_begun(self.dialogue.state());
                    let taken = self.dialogue.take(&buffer[..count]);
                    // The shell's answer and the program's first words may come in one piece.
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
                self.tell_complaints();
            }
        }
    }

    fn read_error(&mut self, buffer: &mut [u8]) -> io::Result<bool> {
        for _ in 0..READS_PER_TURN {
            if self.error_ended || self.report.is_ahead() {
                return Ok(false);
            }
            match would_block(self.carrier.read(Output::Error, buffer))? {
                None => return Ok(false),
                Some(0) => {
                    self.error_ended = true;
                    self.complain_line();
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
            // The first lines name the cause more often than the last ones, so one from the middle
            // goes.
            self.held_complaints.remove(MAX_HELD_COMPLAINTS / 2);
        }
        self.held_complaints.push_back(line);
    }

    fn tell_complaints(&mut self) {
        for line in std::mem::take(&mut self.held_complaints) {
            self.report.complaint(line);
        }
    }

    /// Writes what there is. An input that nobody reads any more is not an error here: the ending
    /// tells why.
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
        Outcome::Early {
            ending,
            state: self.dialogue.state(),
            complaints: self
                .dialogue
                .notes()
                .iter()
                .cloned()
                .chain(self.held_complaints.drain(..))
                .collect(),
            noise: self.dialogue.noise(),
        }
    }

    /// The carrier itself broke.
    fn lost(&mut self, error: &io::Error) -> Outcome {
        if self.dialogue.state() == State::Open {
            self.report.notice(format!("the session is lost: {error}"));
            self.carrier.cut();
            return Outcome::Ended(Ending::default());
        }
        let stage = self.report.current_stage();
        Outcome::Failed(LaunchError::new(
            stage,
            format!("the session is lost: {error}"),
        ))
    }

    /// The error of a part of the dialogue that took too long. The clock starts anew with each
    /// part.
    fn overdue(&mut self) -> Option<LaunchError> {
        let state = self.dialogue.state();
        let (stage, limit) = match state {
            State::Open => return None,
            State::Answering => self.limits.answer,
            State::Storing => (Stage::Deploy, self.limits.store),
            State::Starting => (Stage::Start, self.limits.start),
        };
        let now = Instant::now();
        match self.deadline {
            Some((of, until)) if of == state => {
                (until <= now).then(|| self.too_late(stage, state, limit))
            }
            _ => {
                self.deadline = Some((state, now + limit));
                None
            }
        }
    }

    fn too_late(&self, stage: Stage, state: State, limit: Duration) -> LaunchError {
        let waited_for = match state {
            State::Answering => "no answer from the host's shell",
            State::Storing => "the executable has not arrived",
            State::Starting | State::Open => "no first word from the program",
        };
        let mut text = format!("timed out after {}: {waited_for}", seconds(limit));
        if let Some(complaint) = self.held_complaints.back() {
            text = format!("{text}: {complaint}");
        }
        LaunchError::new(stage, text)
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

fn refused(refusal: Refusal) -> Outcome {
    match refusal {
        Refusal::Failed(error) => Outcome::Failed(error),
        Refusal::Folder { index, reason } => Outcome::Folder { index, reason },
    }
}

/// `None` instead of `WouldBlock`; an interrupted call counts as one that would block, since it is
/// tried again.
fn would_block<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted
            ) =>
        {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// `5 s`, `1.5 s`, `50 ms`.
pub(crate) fn seconds(time: Duration) -> String {
    let ms = time.as_millis();
    match ms {
        0..1000 => format!("{ms} ms"),
        _ if ms.is_multiple_of(1000) => format!("{} s", ms / 1000),
        _ => format!("{:.1} s", time.as_secs_f64()),
    }
}
