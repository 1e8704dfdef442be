//! Output for the user during a run: a live picture on a terminal, plain lines elsewhere, all on standard error.
//! Results go to standard output.

use std::borrow::Cow;
use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;

use crate::exit;
use crate::{outside, sys};

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
    write_as_it_is(stream, &plain(text))
}

/// Text without characters that control a terminal.
fn plain(text: &str) -> Cow<'_, str> {
    let steers = |letter: char| outside::steers(letter) && !matches!(letter, '\n' | '\t');
    match text.contains(steers) {
        true => Cow::Owned(text.replace(steers, " ")),
        false => Cow::Borrowed(text),
    }
}

fn write_as_it_is(stream: &mut impl Write, text: &str) -> bool {
    match stream
        .write_all(text.as_bytes())
        .and_then(|()| stream.flush())
    {
        Ok(()) => true,
        Err(error) => error.kind() == io::ErrorKind::BrokenPipe,
    }
}

/// Writes lines to standard output, with verdict words in colour where a terminal shows them.
fn write_result(text: &str) -> bool {
    let has_colours = io::stdout().is_terminal()
        && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
        && std::env::var_os("TERM").is_some_and(|name| name != "dumb");
    let text = plain(text);
    match has_colours {
        true => write_as_it_is(&mut io::stdout().lock(), &coloured(&text)),
        false => write_as_it_is(&mut io::stdout().lock(), &text),
    }
}

/// Text with its verdict words in colour.
fn coloured(text: &str) -> String {
    /// Words and their SGR parameters: bold green, bold red, bold yellow, faint.
    const COLOURS: [(&str, &str); 6] = [
        ("PASS", "1;32"),
        ("FAIL", "1;31"),
        ("INVALID", "1;31"),
        ("UNDECIDED", "1;33"),
        ("HOST-LIMITED", "1;33"),
        ("NOT JUDGED", "2"),
    ];
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    let mut before = ' ';
    while let Some(letter) = rest.chars().next() {
        let is_word_start = !before.is_alphanumeric() && before != '-';
        let is_whole = |word: &str| {
            let after = rest.strip_prefix(word)?.chars().next();
            let ends = after.is_none_or(|after| !after.is_alphanumeric() && after != '-');
            ends.then_some(())
        };
        let mut known = COLOURS.iter().filter(|_| is_word_start);
        if let Some((word, colour)) = known.find(|(word, _)| is_whole(word).is_some()) {
            out += &format!("\x1b[{colour}m{word}\x1b[0m");
            rest = &rest[word.len()..];
            before = 'x';
        } else {
            out.push(letter);
            rest = &rest[letter.len_utf8()..];
            before = letter;
        }
    }
    out
}

/// Prints the whole output of a command; returns the exit code.
pub(super) fn tell(text: &str) -> u8 {
    match write_result(text) {
        true => exit::OK,
        false => fail(&"cannot write to standard output", exit::NOT_WRITTEN),
    }
}

/// Moves to the start of the last `lines` lines of the terminal and erases them.
fn clear(lines: usize) {
    let above = "\x1b[1A\x1b[K".repeat(lines.saturating_sub(1));
    // A failure would be reported on standard error, too.
    let (Ok(()) | Err(_)) = write!(io::stderr().lock(), "\r\x1b[K{above}");
}

/// Shows a run to the user.
pub(super) struct Terminal {
    quiet: bool,
    /// Standard output carries a table or record, so that all other output goes to standard error.
    taken: bool,
    live: bool,
    /// Lines of the live picture on the terminal.
    open_lines: usize,
    lost: bool,
}

impl Terminal {
    /// Makes a terminal. `quiet` suppresses everything but results; `taken` is true if standard output carries a result file.
    pub(super) fn new(quiet: bool, taken: bool) -> Self {
        Self {
            quiet,
            taken,
            live: io::stderr().is_terminal(),
            open_lines: 0,
            lost: false,
        }
    }

    /// Prints a result.
    pub(super) fn result(&mut self, text: &str) {
        self.close_picture();
        let written = if self.taken {
            write_all(&mut io::stderr().lock(), text)
        } else {
            write_result(text)
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
        self.close_picture();
        write_all(&mut io::stderr().lock(), &format!("{text}\n"));
    }

    /// Ends the live picture, if there is one.
    pub(super) fn close_picture(&mut self) {
        match std::mem::take(&mut self.open_lines) {
            0 => {}
            lines => clear(lines),
        }
    }

    /// Replaces the live picture; prints lines if there is none.
    pub(super) fn picture(&mut self, lines: &[String]) {
        if self.quiet || !self.live {
            return self.aside(&lines.join("  "));
        }
        self.close_picture();
        self.open_lines = lines.len();
        // A longer line would wrap, and its first part could not be erased.
        let wide = sys::terminal::size(io::stderr().as_fd()).map_or(80, |(_, wide)| wide);
        let fit = |line: &String| -> String { line.chars().take(wide.saturating_sub(1)).collect() };
        let lines: Vec<String> = lines.iter().map(fit).collect();
        write_all(&mut io::stderr().lock(), &lines.join("\n"));
    }

    /// Shows a stage as the live picture.
    pub(super) fn stage(&mut self, text: &str) {
        if self.live {
            self.picture(&[format!("... {text}")]);
        }
    }

    /// Asks the user to let a held run go on.
    pub(super) fn held(&mut self, at: &str) {
        self.close_picture();
        let text = format!("held at {at}; press Enter to continue\n");
        write_all(&mut io::stderr().lock(), &text);
    }

    /// Asks a question; true if the answer is yes.
    pub(super) fn agrees(&mut self, question: &str) -> bool {
        self.close_picture();
        write_all(&mut io::stderr().lock(), &format!("{question} [y/N] "));
        let mut answer = String::new();
        let (Ok(_) | Err(_)) = io::stdin().read_line(&mut answer);
        ["y", "yes"].contains(&answer.trim().to_lowercase().as_str())
    }

    /// True if there is a live picture.
    pub(super) fn is_live(&self) -> bool {
        self.live
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdict_words_have_colours_and_no_other_words() {
        assert_eq!(
            coloured("FAIL  n1: NOT JUDGED, PASS\nBYPASS PASSED PASS-x"),
            "\x1b[1;31mFAIL\x1b[0m  n1: \x1b[2mNOT JUDGED\x1b[0m, \x1b[1;32mPASS\x1b[0m\nBYPASS PASSED PASS-x"
        );
    }

    #[test]
    fn a_complaint_is_one_line_whatever_a_file_is_called() {
        let line = complaint("cannot read a\r\npipebench: n1 is at fault: no such file");
        assert_eq!(
            line,
            "pipebench: cannot read a  pipebench: n1 is at fault: no such file\n"
        );
    }
}
