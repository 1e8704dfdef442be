//! Runs a command for its output: a program that prints and ends, within a deadline.
//!
//! The command is killed if it is late or the host is aborted. It is always reaped.

use std::io;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::session::carrier::{Carrier as _, Ending, Output};
use crate::session::child::ChildCarrier;
use crate::session::line::Line;

/// Limit of each output in bytes; output after it is discarded.
const MAX_ANSWER_BYTES: usize = 1 << 20;

/// The outputs of a command and its end.
pub(crate) struct Reply {
    pub(crate) ending: Ending,
    pub(crate) standard: String,
    pub(crate) error: String,
}

/// The reason for a missing answer.
#[derive(Debug)]
pub(crate) enum NoReply {
    /// The command does not exist.
    Absent,
    Late,
    Aborted,
    Broken(io::Error),
}

/// Runs the command to its end, or until `until` has passed or the host is aborted.
pub(crate) fn ask(command: &mut Command, until: Instant, line: &Line) -> Result<Reply, NoReply> {
    let mut carrier = ChildCarrier::spawn(command).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => NoReply::Absent,
        _ => NoReply::Broken(error),
    })?;
    carrier.close_input().map_err(NoReply::Broken)?;
    let (mut standard, mut error) = (Vec::new(), Vec::new());
    let ending = loop {
        line.silence();
        if line.aborted() {
            return Err(NoReply::Aborted);
        }
        let drained = read(&mut carrier, Output::Standard, &mut standard)
            .map_err(NoReply::Broken)?
            & read(&mut carrier, Output::Error, &mut error).map_err(NoReply::Broken)?;
        if let Some(ending) = carrier.ending(drained).map_err(NoReply::Broken)? {
            break ending;
        }
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(NoReply::Late);
        }
        // No descriptor reports the exit of a command that has closed its outputs.
        let tick = Duration::from_millis(if drained { 2 } else { 200 });
        carrier
            .wait(line.bell(), false, left.min(tick))
            .map_err(NoReply::Broken)?;
    };
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    Ok(Reply {
        ending,
        standard: text(standard),
        error: text(error),
    })
}

/// Reads all available bytes. Returns true at the end of the output.
fn read(carrier: &mut ChildCarrier, output: Output, into: &mut Vec<u8>) -> io::Result<bool> {
    let mut buffer = [0; 4096];
    loop {
        match carrier.read(output, &mut buffer) {
            Ok(0) => return Ok(true),
            Ok(_) if into.len() >= MAX_ANSWER_BYTES => {}
            Ok(count) => into.extend_from_slice(&buffer[..count]),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask_shell(text: &str, limit: Duration) -> Result<Reply, NoReply> {
        let line = Line::new().unwrap();
        ask(
            Command::new("sh").args(["-c", text]),
            Instant::now() + limit,
            &line,
        )
    }

    #[test]
    fn answers_and_their_absence() {
        let reply = ask_shell("echo out; echo err >&2; exit 2", Duration::from_secs(20)).unwrap();
        assert_eq!(
            (
                reply.standard.as_str(),
                reply.error.as_str(),
                reply.ending.status
            ),
            ("out\n", "err\n", Some(2))
        );
        assert!(matches!(
            ask_shell("sleep 1000", Duration::from_millis(50)),
            Err(NoReply::Late)
        ));
        let line = Line::new().unwrap();
        let absent = ask(
            &mut Command::new("/nonexistent/command"),
            Instant::now(),
            &line,
        );
        assert!(matches!(absent, Err(NoReply::Absent)));
        let denied = ask(&mut Command::new("/"), Instant::now(), &line);
        assert!(matches!(denied, Err(NoReply::Broken(_))));
        line.abort();
        let aborted = ask(
            Command::new("sleep").arg("1000"),
            Instant::now() + Duration::from_secs(20),
            &line,
        );
        assert!(matches!(aborted, Err(NoReply::Aborted)));
    }
}
