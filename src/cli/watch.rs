//! `pipebench watch`: the live picture of a run, from any machine that reaches its hosts.

use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::exit;
use crate::report::{picture, status};
use crate::sys::terminal;

use super::args::WatchArguments;
use super::terminal::{complain, refuse};
use super::visit::{self, Destination, Visiting};

const SECOND: Duration = Duration::from_secs(1);

/// Shows a run until it ends; returns the exit code.
pub(super) fn run(words: &WatchArguments) -> Result<u8, u8> {
    let understood = Destination::parse(&words.visit).and_then(|destination| {
        let token = visit::parse_token("RUN", &words.run)?;
        if words.count == Some(0) {
            let text = "--count 0: at least 1 picture".to_owned();
            return Err(super::resolve::UsageError::Value(text));
        }
        Ok((destination, token))
    });
    let (destination, given) = understood.map_err(|error| refuse(&error))?;
    let mut screen = Screen::new();
    if words.visit.dry_run {
        let line = format!("would ask {}", destination.names());
        return Ok(code_of(screen.draw(&[line])));
    }
    let mut visiting = destination.visit(&words.visit.launch)?;
    // A user who watches for an hour must learn of missing hosts at once.
    let told = visiting.visit.troubles().len();
    let unreached = visit::complain_of(visiting.visit.troubles());
    let shown = watch(
        &mut visiting,
        &given,
        words.count,
        &destination,
        &mut screen,
    );
    let signal = visiting.stop.load(Ordering::SeqCst);
    let lost = visit::complain_of(visiting.visit.leave().get(told..).unwrap_or_default());
    let unreached = if unreached == exit::OK {
        lost
    } else {
        unreached
    };
    Ok(match (shown, i32::try_from(signal)) {
        // Ctrl-C is the usual way to leave the picture. Any other signal comes from elsewhere.
        (_, Ok(nix::libc::SIGINT)) => exit::OK,
        (_, Ok(signal)) if signal > 0 => exit::by_signal(signal),
        (Ok(()), _) => unreached,
        (Err((code, text)), _) => {
            if !text.is_empty() {
                complain(&text);
            }
            visit::code_of(code, unreached)
        }
    })
}

fn code_of(drawn: io::Result<()>) -> u8 {
    match drawn {
        Ok(()) => exit::OK,
        // A reader that has gone away is no failure.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => exit::OK,
        Err(_) => exit::NOT_WRITTEN,
    }
}

fn watch(
    visiting: &mut Visiting,
    given: &str,
    count: Option<u64>,
    destination: &Destination,
    screen: &mut Screen,
) -> Result<(), (u8, String)> {
    let mut before = visiting.visit.look(true);
    let views = visit::views(&before, before.clone());
    let token = visit::find_run(&views, given, &destination.names())?;
    let run = status::short(&token);
    if views
        .iter()
        .all(|view| view.now.nodes.iter().all(|node| node.card.token != token))
    {
        let text = format!("run {run} belongs to another user: not permitted");
        return Err((exit::RESOURCE, text));
    }
    let lost = |error: io::Error| match code_of(Err(error)) {
        exit::OK => (exit::OK, String::new()),
        code => (code, "cannot write to standard output".to_owned()),
    };
    let mut shown = 0;
    let mut due = Instant::now();
    loop {
        due = (due + SECOND).max(Instant::now());
        if !visiting
            .visit
            .pause(due.saturating_duration_since(Instant::now()))
        {
            return Ok(()); // The signal decides the exit code.
        }
        let now = visiting.visit.look(true);
        let views = visit::views(&before, now.clone());
        let lines = picture::picture(&views, &token, screen.height());
        if lines.is_empty() {
            if visiting.visit.hosts().is_empty() {
                let text = format!("run {run}: all its hosts are lost");
                return Err((exit::UNREACHABLE, text));
            }
            // The last line stands below the picture.
            let text = format!("run {run} has ended\n");
            return screen.write(&text).map_err(lost);
        }
        screen.draw(&lines).map_err(lost)?;
        shown += 1;
        if Some(shown) == count {
            return Ok(());
        }
        before = now;
    }
}

/// Standard output: redrawn in place on a terminal, block after block elsewhere.
struct Screen {
    live: bool,
    drawn: usize,
}

impl Screen {
    fn new() -> Self {
        Self {
            live: io::stdout().is_terminal(),
            drawn: 0,
        }
    }

    fn size(&self) -> Option<(usize, usize)> {
        self.live.then(|| terminal::size(io::stdout().as_fd()))?
    }

    /// Number of lines that fit, with one left for the cursor.
    fn height(&self) -> usize {
        const ELSEWHERE: usize = 1000;
        self.size()
            .map_or(ELSEWHERE, |(rows, _)| rows.saturating_sub(1).max(1))
    }

    fn draw(&mut self, lines: &[String]) -> io::Result<()> {
        let mut text = String::new();
        let width = self.size().map_or(usize::MAX, |(_, columns)| columns);
        if self.live && self.drawn > 0 {
            text.push_str(&format!("\x1b[{}A\r", self.drawn));
        } else if self.drawn > 0 {
            text.push('\n');
        }
        for line in lines {
            // A wrapped line would take two rows.
            text.extend(line.chars().take(width));
            text.push_str(if self.live { "\x1b[K\n" } else { "\n" });
        }
        if self.live {
            text.push_str("\x1b[J");
        }
        self.drawn = lines.len();
        self.write(&text)
    }

    fn write(&self, text: &str) -> io::Result<()> {
        let mut stdout = io::stdout().lock();
        stdout.write_all(text.as_bytes())?;
        stdout.flush()
    }
}
