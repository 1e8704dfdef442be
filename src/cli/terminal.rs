//! Output for the user during a run: one live line on a terminal, plain lines elsewhere, all on standard error.
//! Results go to standard output.

use std::borrow::Cow;
use std::io::{self, IsTerminal, Write};

use crate::exit;
use crate::outside;

/// Prints an error or warning of the program as one line on standard error.
pub(super) fn complain(text: &str) {
    write_all(&mut io::stderr().lock(), &complaint(text));
}

/// Prints an error; returns its exit code, `code`.
pub(super) fn fail(error: &dyn std::fmt::Display, code: u8) -> u8 {
    complain(&error.to_string());
    code
}

/// Prints why a request cannot be understood or granted; returns the exit code.
pub(super) fn refuse(error: &dyn std::fmt::Display) -> u8 {
    fail(error, exit::USAGE)
}

/// Makes a complaint one line: a file name can contain a line end and a fake complaint after it.
fn complaint(text: &str) -> String {
    format!("pipebench: {}\n", outside::clean(text))
}

/// Writes lines to a stream, without characters that control a terminal: file names, host files and system messages can contain them.
/// Returns false on a failure. A reader that has gone away is no failure.
pub(super) fn write_all(stream: &mut impl Write, text: &str) -> bool {
    let steers = |letter: char| outside::steers(letter) && !matches!(letter, '\n' | '\t');
    let plain = match text.contains(steers) {
        true => Cow::Owned(text.replace(steers, " ")),
        false => Cow::Borrowed(text),
    };
    match stream
        .write_all(plain.as_bytes())
        .and_then(|()| stream.flush())
    {
        Ok(()) => true,
        Err(error) => error.kind() == io::ErrorKind::BrokenPipe,
    }
}

/// Prints the whole output of a command; returns the exit code.
pub(super) fn tell(text: &str) -> u8 {
    match write_all(&mut io::stdout().lock(), text) {
        true => exit::OK,
        false => fail(&"cannot write to standard output", exit::NOT_WRITTEN),
    }
}

/// Prints one line for bad usage, or the help as clap prints it; returns the exit code.
pub(super) fn explain(error: &clap::Error) -> u8 {
    use clap::error::ErrorKind;
    if error.kind() == ErrorKind::DisplayHelp {
        // A reader that has gone away is no failure.
        let (Ok(()) | Err(_)) = error.print();
        return exit::OK;
    }
    refuse(&format!(
        "{} (see 'pipebench --help')",
        first_sentence(error)
    ))
}

/// First paragraph of clap's error, as one line.
pub(super) fn first_sentence(error: &clap::Error) -> String {
    let text = error.render().to_string();
    let first: Vec<&str> = text
        .lines()
        .take_while(|line| !line.trim().is_empty())
        .map(str::trim)
        .collect();
    let first = first.join(" ");
    first.strip_prefix("error: ").unwrap_or(&first).to_owned()
}

/// Moves to the start of the terminal's line and erases it.
fn clear_line() {
    // A failure would be reported on standard error, too.
    let (Ok(()) | Err(_)) = io::stderr().lock().write_all(b"\r\x1b[K");
}

/// Shows a run to the user.
pub(super) struct Terminal {
    quiet: bool,
    /// Standard output carries a table or record, so that all other output goes to standard error.
    taken: bool,
    live: bool,
    line_open: bool,
    lost: bool,
}

impl Terminal {
    /// Makes a terminal. `quiet` suppresses everything but results; `taken` is true if standard output carries a result file.
    pub(super) fn new(quiet: bool, taken: bool) -> Self {
        Self {
            quiet,
            taken,
            live: io::stderr().is_terminal(),
            line_open: false,
            lost: false,
        }
    }

    /// Prints a result.
    pub(super) fn result(&mut self, text: &str) {
        self.close_line();
        let written = if self.taken {
            write_all(&mut io::stderr().lock(), text)
        } else {
            write_all(&mut io::stdout().lock(), text)
        };
        self.lost |= !written;
    }

    /// True if only results are wanted.
    pub(super) fn is_quiet(&self) -> bool {
        self.quiet
    }

    /// True if a result could not be printed.
    pub(super) fn has_lost(&self) -> bool {
        self.lost
    }

    /// Prints a line beside the results, unless the user wants only these.
    pub(super) fn aside(&mut self, text: &str) {
        if self.quiet {
            return;
        }
        self.close_line();
        write_all(&mut io::stderr().lock(), &format!("{text}\n"));
    }

    /// Ends the live line, if one is open.
    pub(super) fn close_line(&mut self) {
        if self.line_open {
            self.line_open = false;
            clear_line();
        }
    }

    /// Replaces the live line; prints a line if there is none.
    pub(super) fn live_line(&mut self, text: &str) {
        if self.quiet || !self.live {
            return self.aside(text);
        }
        self.line_open = true;
        clear_line();
        write_all(&mut io::stderr().lock(), text);
    }

    /// Shows a stage on the live line.
    pub(super) fn stage(&mut self, text: &str) {
        if self.live {
            self.live_line(&format!("... {text}"));
        }
    }

    /// Asks the user to let a held run go on.
    pub(super) fn held(&mut self, at: &str) {
        self.close_line();
        let text = format!("held at {at}; press Enter to continue\n");
        write_all(&mut io::stderr().lock(), &text);
    }

    /// True if there is a live line.
    pub(super) fn is_live(&self) -> bool {
        self.live
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_complaint_is_one_line_whatever_a_file_is_called() {
        let line = complaint("cannot read a\r\npipebench: n1 is at fault: no such file");
        assert_eq!(
            line,
            "pipebench: cannot read a  pipebench: n1 is at fault: no such file\n"
        );
    }
}
