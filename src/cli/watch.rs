//! `pipebench watch`: the live picture of a run, from whatever machine reaches its hosts.

use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::exit;
use crate::report::{picture, status};
use crate::sys::terminal;

use super::terminal::complain;
use super::visit::{self, Destination, VisitArguments, Visiting};

/// What the long help begins with.
pub const LONG: &str = "Shows the live picture of a run each second, until the run ends: what every port sends and receives, \
    and the slowest links with the share of the time that each end waited.\n\n\
    Only ports and links of the named hosts are shown; those of other hosts of the run are named in one line. \
    On a terminal the picture is drawn in place and as high as the terminal, the worst first. Exit codes: 0 when \
    the run or the count has ended, or at Ctrl-C; 2 no such run; 10 hosts that cannot be reached (the others are \
    shown).";

/// Show the live picture of a run: ports, links, and what they wait for.
#[derive(Debug, Clone, clap::Args)]
pub struct WatchArguments {
    /// Token of the run, as 'pipebench status' lists it; its first digits will do, at least 4
    ///
    /// No default. Example: RUN is 3f9a1c
    #[arg(value_name = "RUN")]
    pub run: String,

    /// Hosts to visit.
    #[command(flatten)]
    pub visit: VisitArguments,

    /// Pictures to show before leaving, one a second
    ///
    /// Use it in scripts. Default: until the run ends. Example: --count 10
    #[arg(long, value_name = "N", help_heading = "Output")]
    pub count: Option<u64>,
}

const SECOND: Duration = Duration::from_secs(1);

/// Shows a run until it ends; returns the exit code.
pub fn run(words: &WatchArguments) -> u8 {
    let understood = Destination::parse(&words.visit).and_then(|destination| {
        let token = visit::parse_token("RUN", &words.run)?;
        if words.count == Some(0) {
            let text = "--count 0: at least 1 picture".to_owned();
            return Err(super::intent::UsageError::Value(text));
        }
        Ok((destination, token))
    });
    let (destination, given) = match understood {
        Ok(understood) => understood,
        Err(error) => {
            complain(&error.to_string());
            return exit::USAGE;
        }
    };
    let mut screen = Screen::new();
    if words.visit.dry_run {
        let line = format!("would ask {}", destination.names());
        return code_of(screen.draw(&[line]));
    }
    let mut visiting = match destination.visit(&words.visit.launch) {
        Ok(visiting) => visiting,
        Err(code) => return code,
    };
    // Whoever watches for an hour wants to know at once what is not there.
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
    match (shown, i32::try_from(signal)) {
        // Ctrl-C is how one leaves a picture; any other signal is somebody else's wish.
        (_, Ok(nix::libc::SIGINT)) => exit::OK,
        (_, Ok(signal)) if signal > 0 => exit::by_signal(signal),
        (Ok(()), _) => unreached,
        (Err((exit::USAGE, text)), _) => {
            complain(&text);
            // A run that is not found may be on a host that was not reached.
            if unreached == exit::OK {
                exit::USAGE
            } else {
                unreached
            }
        }
        (Err((code, text)), _) => {
            if !text.is_empty() {
                complain(&text);
            }
            code
        }
    }
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
        return Err((
            exit::RESOURCE,
            format!("run {run} is another user's: not permitted"),
        ));
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
            let text = if visiting.visit.hosts().is_empty() {
                return Err((
                    exit::UNREACHABLE,
                    format!("run {run}: no host is left to ask"),
                ));
            } else {
                format!("run {run} has ended")
            };
            return screen.say(&text).map_err(lost);
        }
        screen.draw(&lines).map_err(lost)?;
        shown += 1;
        if Some(shown) == count {
            return Ok(());
        }
        before = now;
    }
}

/// Standard output: drawn over and over on a terminal, block after block elsewhere.
struct Screen {
    live: bool,
    drawn: usize,
    any: bool,
}

impl Screen {
    fn new() -> Self {
        Self {
            live: io::stdout().is_terminal(),
            drawn: 0,
            any: false,
        }
    }

    fn size(&self) -> Option<(usize, usize)> {
        self.live.then(|| terminal::size(io::stdout().as_fd()))?
    }

    /// Lines that fit, with one left for the cursor.
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
        } else if self.any {
            text.push('\n');
        }
        for line in lines {
            // A line that is wrapped would be two.
            text.extend(line.chars().take(width));
            text.push_str(if self.live { "\x1b[K\n" } else { "\n" });
        }
        if self.live {
            text.push_str("\x1b[J");
        }
        self.drawn = lines.len();
        self.any = true;
        self.write(&text)
    }

    /// A last line below the picture.
    fn say(&mut self, line: &str) -> io::Result<()> {
        self.write(&format!("{line}\n"))
    }

    fn write(&self, text: &str) -> io::Result<()> {
        let mut stdout = io::stdout().lock();
        stdout.write_all(text.as_bytes())?;
        stdout.flush()
    }
}
