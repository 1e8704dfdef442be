//! The starter: one command that starts all nodes, each of which joins.
//!
//! Its lines become notices. If it ends, no more node joins. Read next: `port.rs`.

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nix::sys::signal::{SigSet, Signal};

use crate::error::one_line;
use crate::event::Event;
use crate::join::port::JoinPort;
use crate::session::carrier::{Carrier as _, Ending, Output};
use crate::session::child::ChildCarrier;
use crate::session::line::Line;

/// The command that starts all nodes. The words of a node's command are appended to it.
#[derive(Clone, Debug)]
pub struct Starter {
    /// The command: names of hosts are in their places.
    pub words: Vec<String>,
    /// The absolute path of a file with the token, which exists on all hosts. `None`: the token goes to the command's
    /// standard input.
    pub token_file: Option<PathBuf>,
}

/// Lines to report. The last line is kept in any case.
const MAX_NOTICES: usize = 40;
const MAX_LINE_CHARS: usize = 300;
const MAX_LINE_BYTES: usize = 8 << 10;
/// Reads of one output before the loop turns to its other duties.
const READS_PER_TURN: usize = 16;
const TICK: Duration = Duration::from_secs(1);
const TICK_WHEN_DRAINED: Duration = Duration::from_millis(20);
/// Time of an aborted starter to end what it has started.
const GRACE: Duration = Duration::from_secs(1);

/// Starts the starter, in a thread. The nodes have `within` to join. `notices` gets its lines, at the position beside it.
/// Returns the line by which it is ended. If it cannot start, the port has the reason, and no thread is left.
pub(crate) fn start(
    starter: Starter,
    program: &Path,
    port: Arc<JoinPort>,
    within: Duration,
    notices: (Sender<(usize, Event)>, usize),
) -> Option<(Arc<Line>, JoinHandle<()>)> {
    let started = Line::new().and_then(|line| {
        let line = Arc::new(line);
        let watch = Watch {
            carrier: spawn(&starter, program, &port, within)?,
            port: Arc::clone(&port),
            line: Arc::clone(&line),
            notices,
            lines: 0,
            last: String::new(),
            unfinished: [Vec::new(), Vec::new()],
        };
        let thread = std::thread::Builder::new().name("starter".to_owned());
        Ok((line, thread.spawn(|| watch.run())?))
    });
    let name = starter.words.first().map_or("", String::as_str);
    started
        .map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => {
                port.over(format!("starter '{name}' not found (see --starter)"))
            }
            _ => port.over(format!("cannot run the starter '{name}': {error}")),
        })
        .ok()
}

fn spawn(
    starter: &Starter,
    program: &Path,
    port: &JoinPort,
    within: Duration,
) -> io::Result<ChildCarrier> {
    let (first, rest) = starter
        .words
        .split_first()
        .ok_or_else(|| io::Error::other("it has no word"))?;
    let mut command = Command::new(first);
    command.args(rest).arg(program);
    command.args(words_of_node(port.addresses(), within));
    match &starter.token_file {
        Some(file) => command.arg(file),
        None => command.arg("-"),
    };
    let mut carrier = ChildCarrier::spawn(&mut command)?;
    if starter.token_file.is_none() {
        // A new pipe has room for it. If the command has ended already, its end is the reason.
        carrier.write(format!("{}\n", port.token()).as_bytes()).ok();
    }
    carrier.close_input()?;
    Ok(carrier)
}

/// The words of a node's command after the program, up to the token.
fn words_of_node(addresses: Vec<String>, within: Duration) -> Vec<String> {
    // Some starters give these words to a shell of the user, where brackets are a pattern that must fit a file.
    let addresses = addresses
        .into_iter()
        .map(|address| address.replace(['[', ']'], ""));
    // A node that cannot connect says why before the launching side gives up.
    let deadline = format!("{}ms", (within / 2).as_millis().max(1));
    let options = ["--deadline".to_owned(), deadline, "--token-file".to_owned()];
    let command = std::iter::once("join".to_owned());
    command.chain(addresses).chain(options).collect()
}

struct Watch {
    carrier: ChildCarrier,
    port: Arc<JoinPort>,
    line: Arc<Line>,
    notices: (Sender<(usize, Event)>, usize),
    /// Number of lines so far.
    lines: usize,
    last: String,
    /// The unfinished lines of both outputs.
    unfinished: [Vec<u8>; 2],
}

impl Watch {
    fn run(mut self) {
        // A write to a pipe whose reader is gone returns an error, even if SIGPIPE would kill the process.
        SigSet::from_iter([Signal::SIGPIPE]).thread_block().ok();
        let ending = self.watch();
        let mut reason = match &ending {
            Ok(Some(ending)) => format!("the starter {}", ending.words()),
            Ok(None) => "the starter was ended".to_owned(),
            Err(error) => format!("the starter is lost: {error}"),
        };
        if !self.last.is_empty() {
            reason = format!("{reason}: {}", self.last);
        }
        let as_planned = match &ending {
            Ok(Some(ending)) => ending.status == Some(0) || self.line.drained_and_hung_up(),
            Ok(None) => true,
            Err(_) => false,
        };
        if !as_planned {
            self.notice(reason.clone());
        }
        self.port.over(reason);
    }

    /// Reads the starter's lines until it ends. Returns `None` if it was aborted.
    fn watch(&mut self) -> io::Result<Option<Ending>> {
        let mut aborted: Option<Instant> = None;
        loop {
            self.line.silence();
            if self.line.aborted() && aborted.is_none() {
                aborted = Some(Instant::now());
                self.carrier.signal(Signal::SIGTERM, true);
            }
            if aborted.is_some_and(|since| since.elapsed() >= GRACE) {
                self.carrier.cut();
                return Ok(None);
            }
            let ended = [self.read(Output::Standard)?, self.read(Output::Error)?];
            let drained = ended == [true, true];
            if let Some(ending) = self.carrier.ending(drained)? {
                self.unfinished
                    .clone()
                    .iter()
                    .for_each(|line| self.say(line));
                return Ok(Some(ending).filter(|_| aborted.is_none()));
            }
            let tick = if drained || aborted.is_some() {
                TICK_WHEN_DRAINED
            } else {
                TICK
            };
            self.carrier.wait(self.line.bell(), false, tick)?;
        }
    }

    /// Reads what is there. Returns true at the end of the output.
    fn read(&mut self, output: Output) -> io::Result<bool> {
        let mut buffer = [0; 4096];
        for _ in 0..READS_PER_TURN {
            let count = match self.carrier.read(output, &mut buffer) {
                Ok(0) => return Ok(true),
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            for &byte in &buffer[..count] {
                let line = &mut self.unfinished[output as usize];
                if byte != b'\n' {
                    line.push(byte);
                }
                if byte == b'\n' || line.len() >= MAX_LINE_BYTES {
                    let line = std::mem::take(line);
                    self.say(&line);
                }
            }
        }
        Ok(false)
    }

    fn say(&mut self, line: &[u8]) {
        // A starter can repeat its input, and what it says goes to files that others can read.
        let line = String::from_utf8_lossy(line).replace(&self.port.token(), "(the token)");
        let line = one_line(&line);
        if line.is_empty() {
            return;
        }
        self.last = line.chars().take(MAX_LINE_CHARS).collect();
        self.port.said(&self.last);
        self.lines += 1;
        match self.lines {
            ..=MAX_NOTICES => self.notice(format!("starter: {}", self.last)),
            count if count == MAX_NOTICES + 1 => {
                self.notice("starter: further lines are not shown".to_owned())
            }
            _ => {}
        }
    }

    fn notice(&self, text: String) {
        let (events, position) = &self.notices;
        // A receiver that no longer exists needs no events.
        drop(events.send((*position, Event::Notice(text))));
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.line.set_ended();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Symptoms: in a zsh or csh at the other end of a starter an IPv6 address in brackets was a pattern without a match;
    /// at a firewall no node gave its reason, since all tried for as long as the launching side waited.
    #[test]
    fn the_words_of_a_node_are_safe_in_a_shell_and_leave_time_for_its_reason() {
        let addresses = ["n0:7", "10.0.0.1:7", "[fd00::1]:7"].map(str::to_owned);
        assert_eq!(
            words_of_node(addresses.into(), Duration::from_secs(60)),
            [
                "join",
                "n0:7",
                "10.0.0.1:7",
                "fd00::1:7",
                "--deadline",
                "30000ms",
                "--token-file"
            ]
        );
    }
}
