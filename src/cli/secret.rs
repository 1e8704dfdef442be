//! Asks for a passphrase or password on the terminal, without showing it.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use nix::sys::termios::{LocalFlags, SetArg, tcgetattr, tcsetattr};

use crate::sys::socket;

/// Asks on the controlling terminal. `None` if there is no terminal, nothing was typed, or `stop` was set meanwhile.
/// In all cases the terminal shows typed text again afterwards.
pub(super) fn ask(prompt: &str, stop: &AtomicUsize) -> Option<String> {
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
    let line = read_line(&mut terminal, stop);
    let restored = tcsetattr(&terminal, SetArg::TCSAFLUSH, &shown);
    debug_assert!(restored.is_ok());
    writeln!(terminal).ok()?;
    let secret = line?.trim_end_matches(['\n', '\r']).to_owned();
    (!secret.is_empty()).then_some(secret)
}

/// Reads one line: a terminal delivers whole lines. `None` if `stop` was set.
fn read_line(terminal: &mut File, stop: &AtomicUsize) -> Option<String> {
    const LOOK_UP: Duration = Duration::from_millis(100);
    const LIMIT_BYTES: usize = 4096;
    while stop.load(Ordering::SeqCst) == 0 {
        if socket::readable(terminal.as_fd(), LOOK_UP).ok()? {
            let mut line = [0; LIMIT_BYTES];
            let got = terminal.read(&mut line).ok()?;
            return String::from_utf8(line[..got].to_vec()).ok();
        }
    }
    None
}
