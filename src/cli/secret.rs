//! Asks for a passphrase or password on the terminal, without showing it.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};

use nix::sys::termios::{LocalFlags, SetArg, tcgetattr, tcsetattr};

/// Asks on the controlling terminal; none if there is none or nothing was typed.
pub fn ask(prompt: &str) -> Option<String> {
    let mut terminal = File::options()
        .read(true)
        .write(true)
        .open("/dev/tty")
        .ok()?;
    let shown = tcgetattr(&terminal).ok()?;
    let mut hidden = shown.clone();
    hidden.local_flags.remove(LocalFlags::ECHO);
    write!(terminal, "{prompt}").ok()?;
    tcsetattr(&terminal, SetArg::TCSAFLUSH, &hidden).ok()?;
    let mut line = String::new();
    let read = terminal
        .try_clone()
        .map(|copy| BufReader::new(copy).read_line(&mut line));
    let restored = tcsetattr(&terminal, SetArg::TCSAFLUSH, &shown);
    debug_assert!(restored.is_ok());
    writeln!(terminal).ok()?;
    let secret = line.trim_end_matches(['\n', '\r']).to_owned();
    (matches!(read, Ok(Ok(_))) && !secret.is_empty()).then_some(secret)
}
