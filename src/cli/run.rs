//! The plain command: plan, conduct, report, exit code.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use launcher::Program;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use crate::conduct::{self, Conditions};
use crate::plan::fit::Capacity;
use crate::plan::seal;
use crate::record::{MOST_IN_MATRIX, Record, VerdictWord};
use crate::report::compare::Comparison;
use crate::report::preflight::{self, Readiness};
use crate::report::{csv, dry_run, header, json, text};
use crate::{exit, store, sys};

use super::arguments::Arguments;
use super::intent::{self, Intent};
use super::live::Ticker;
use super::measure;
use super::report::beside;
use super::terminal::{Terminal, complain};
use super::witness::{Identity, Witness};

/// Runs what the arguments ask for; returns the exit code.
pub fn run(arguments: &Arguments) -> u8 {
    let intent = match intent::parse(arguments, seed(), &here()) {
        Ok(intent) => intent,
        Err(error) => {
            complain(&error.to_string());
            return exit::USAGE;
        }
    };
    let baseline = match baseline(arguments) {
        Ok(baseline) => baseline,
        Err(code) => return code,
    };
    execute(arguments, intent, &Telling::Run(baseline.as_ref()))
}

/// Name of the live document in the folder of a run.
const LIVE: &str = "live.json";
/// Digits of a seal that are shown: enough to tell it from any other.
const SEAL_DIGITS: usize = 16;

/// How a run is told of when it has ended.
pub enum Telling<'a> {
    /// By its summary, and a comparison with an earlier run.
    Run(Option<&'a Record>),
    /// As a pre-flight.
    Preflight,
}

impl Telling<'_> {
    fn summary(&self, record: &Record) -> String {
        match self {
            Self::Preflight => preflight::lines(record).join("\n") + "\n",
            Self::Run(Some(before)) if !record.tests.is_empty() => {
                text::summary(record) + &beside(&Comparison::of(before, record))
            }
            Self::Run(_) => text::summary(record),
        }
    }

    /// Whether there is something to tell besides failures.
    fn has_summary(&self, record: &Record) -> bool {
        let is_judged = record.verdict.word == VerdictWord::Fail;
        matches!(self, Self::Preflight) || is_judged || !record.tests.is_empty()
    }

    fn exit_code(&self, record: &Record) -> u8 {
        match (self, preflight::readiness(record)) {
            // Who is missing costs a run its row, and a pre-flight its point.
            (Self::Preflight, Readiness::NotReady) if record.troubles.is_empty() => {
                exit::UNREACHABLE
            }
            _ => record.exit_code,
        }
    }
}

/// Runs what was understood; returns the exit code.
pub fn execute(arguments: &Arguments, intent: Intent, telling: &Telling<'_>) -> u8 {
    let (table, whole) = (arguments.csv.as_deref(), arguments.json.as_deref());
    let to_stdout = Some(Path::new("-"));
    let mut terminal = Terminal::new(arguments.quiet, table == to_stdout || whole == to_stdout);
    if arguments.dry_run {
        let mut text = header::options(&intent.options) + &dry_run::dry_run(&intent.plan);
        text.extend(intent.note.map(|note| format!("note       {note}\n")));
        if intent.open {
            text.push_str("at most    hosts that have not been asked yet may need fewer processes and smaller blocks\n");
        }
        if arguments.csv.is_some() || arguments.json.is_some() || arguments.output.is_some() {
            text.push_str("files      none are written: a dry run measures nothing\n");
        }
        terminal.result(&text);
        return exit::OK;
    }
    let folder = arguments.output.as_deref();
    if !can_keep([table, whole].into_iter().flatten(), folder) {
        return exit::NOT_WRITTEN;
    }
    let (program, stop) = match stand_by() {
        Ok(ready) => ready,
        Err(code) => return code,
    };
    if !arguments.parent.is_none_or(end_with) {
        return exit::USAGE;
    }
    let command = own_words();
    let name = arguments.folder.as_deref().and_then(Path::file_name);
    let name = name.map(|name| name.to_string_lossy().into_owned());
    let (token, secret) = match (random_digits(), random_digits()) {
        (Ok(token), Ok(secret)) => (token_of(name.as_deref(), &token), secret),
        (Err(code), _) | (_, Err(code)) => return code,
    };
    let seal = seal::text(&intent.plan, env!("CARGO_PKG_VERSION"), &program.digest);
    let identity = Identity {
        token: &token,
        started_ms: now_ms(),
        command: &command,
        seal: &seal,
    };
    let folder = match (&arguments.folder, &arguments.output) {
        (Some(folder), _) => Some(Ok(folder.clone())),
        (None, parent) => parent
            .as_deref()
            .map(|parent| store::make_folder(parent, identity.started_ms, &token)),
    };
    let witness = folder.transpose().and_then(|folder| {
        let samples = arguments.samples.as_deref();
        Witness::new(&mut terminal, identity.clone(), folder, samples)
    });
    let mut witness = match witness {
        Ok(witness) => witness,
        Err(error) => {
            complain(&error.to_string());
            return exit::NOT_WRITTEN;
        }
    };
    let mut options = intent.options;
    let digest = launcher::digest_of(seal.as_bytes());
    options.push((
        "seal".to_owned(),
        digest.chars().take(SEAL_DIGITS).collect(),
    ));
    let conditions = Conditions {
        settings: intent::settings(&arguments.launch, &intent.plan, &stop),
        program,
        stop,
        command: command.clone(),
        options,
        hold: intent.hold,
        token: token.clone(),
        secret,
        started_ms: identity.started_ms,
        seal: Some(seal.clone()),
        resumed: intent.resumed,
        name,
        watched: arguments.folder.is_some() && intent.plan.nodes.len() <= MOST_IN_MATRIX,
    };
    let live = arguments.folder.as_deref().map(|folder| folder.join(LIVE));
    let mut ticker = Ticker::new(&mut witness, live.as_deref());
    let record = conduct::conduct(intent.plan, &intent.hosts, &conditions, &mut ticker);
    report(arguments, &record, telling, &mut witness)
}

/// Arguments as they were given, without those by which a keeper holds its run.
fn own_words() -> Vec<String> {
    let kept = |word: &String| {
        !["--folder=", "--parent="]
            .iter()
            .any(|own| word.starts_with(own))
    };
    std::env::args().skip(1).filter(kept).collect()
}

/// 32 digits at random, or the code to leave with: without random numbers there is no run.
pub fn random_digits() -> Result<String, u8> {
    conduct::random_digits().map_err(|error| {
        complain(&format!(
            "cannot read random numbers of the kernel: {error}"
        ));
        exit::RESOURCE
    })
}

/// The token of a run from random digits; one that goes with a name begins as the name ends.
fn token_of(name: Option<&str>, random: &str) -> String {
    let shown = name.and_then(|name| name.rsplit('-').next()).unwrap_or("");
    shown.to_owned() + random.get(shown.len()..).unwrap_or("")
}

/// Asks the kernel for SIGTERM when the parent ends; false if it has ended already.
pub fn end_with(parent: i32) -> bool {
    sys::process::die_with_parent(nix::sys::signal::Signal::SIGTERM);
    sys::process::parent_is(parent)
}

/// The run that the words want this one to be compared with.
pub fn baseline(arguments: &Arguments) -> Result<Option<Record>, u8> {
    let Some(name) = &arguments.baseline else {
        return Ok(None);
    };
    let folder = arguments.output.as_deref().unwrap_or(Path::new("."));
    Ok(Some(super::report::read(name, folder)?.record))
}

/// SHA-256 of the own executable.
pub fn own_digest() -> Result<String, launcher::ProgramError> {
    Ok(Program::current()?.digest)
}

/// The date of a run, in milliseconds since 1970.
pub fn now_ms() -> u64 {
    sys::clock::wall_ms()
}

/// Another seed each time.
pub fn seed() -> u64 {
    sys::clock::monotonic_ns() ^ sys::clock::wall_ms() << 20
}

/// This host, as nodes on it will find it.
pub fn here() -> Capacity {
    Capacity {
        name: sys::facts::own_name(),
        nodes: 0,
        processors: Some(sys::affinity::allowed().len()),
        memory_bytes: sys::limits::spare_memory(),
        flows: 0, // Which port bears the data is not known yet.
        bbr: sys::facts::congestion().starts_with("bbr"),
    }
}

/// The own executable, and where a signal that asks for the end is noted.
pub fn stand_by() -> Result<(Program, Arc<AtomicUsize>), u8> {
    let program = Program::current().map_err(|error| {
        complain(&format!("cannot read the own executable: {error}"));
        exit::BUG
    })?;
    let stop = Arc::new(AtomicUsize::new(0));
    // Under nohup a hang-up is ignored, and stays so.
    let endings = [SIGINT, SIGTERM, SIGHUP];
    for signal in endings
        .into_iter()
        .filter(|signal| !sys::signals::is_ignored(*signal))
    {
        let number = usize::try_from(signal).unwrap_or(0);
        let registered = signal_hook::flag::register_usize(signal, Arc::clone(&stop), number);
        registered.map_err(|error| {
            complain(&format!("cannot handle signal {signal}: {error}"));
            exit::BUG
        })?;
    }
    Ok((program, stop))
}

/// Errors first, then the summary, then the files. A file that cannot be written never changes a verdict.
fn report(
    arguments: &Arguments,
    record: &Record,
    telling: &Telling<'_>,
    witness: &mut Witness<'_>,
) -> u8 {
    witness.terminal.close_line();
    for line in text::troubles(&record.troubles) {
        complain(&line);
    }
    let summary = telling.summary(record);
    if telling.has_summary(record) {
        witness.terminal.result(&summary);
    }
    let mut written = true;
    for failure in witness.failures() {
        complain(&failure);
        written = false;
    }
    if let Some(path) = &arguments.csv {
        written &= keep(path, csv::write(record).map_err(|error| error.to_string()));
    }
    if let Some(path) = &arguments.json {
        written &= keep(path, json::write(record).map_err(|error| error.to_string()));
    }
    if let Some(folder) = witness.folder.clone() {
        let table = csv::write(record).map_err(|error| error.to_string());
        let table = ("table.csv", table);
        let kept = measure::keep_folder(&folder, record, table, &summary, witness.terminal);
        if kept {
            witness.close_journal();
        }
        written &= kept;
    }
    measure::exit_code(telling.exit_code(record), written, witness.terminal)
}

/// Whether results can be written there, before anything is measured for them; says why if not. `folder` is made for the run, if it is not
/// there yet.
pub fn can_keep<'a>(paths: impl IntoIterator<Item = &'a Path>, folder: Option<&Path>) -> bool {
    let is_made = |path: &Path| {
        let parent = path.parent();
        parent.is_some() && parent == folder && folder.is_some_and(|folder| !folder.exists())
    };
    let files = paths
        .into_iter()
        .filter(|path| *path != Path::new("-") && !is_made(path));
    let checked = files.map(store::check_writable);
    let failed: Vec<_> = checked.filter_map(Result::err).collect();
    for error in &failed {
        complain(&error.to_string());
    }
    failed.is_empty()
}

/// Writes a result to a file, or to standard output; says why if it cannot.
pub fn keep(path: &Path, content: Result<String, String>) -> bool {
    let outcome = content.and_then(|content| {
        if path == Path::new("-") {
            let written = super::terminal::write_all(&mut std::io::stdout().lock(), &content);
            let lost = || "cannot write to standard output".to_owned();
            return written.then_some(()).ok_or_else(lost);
        }
        store::write_file(path, &content).map_err(|error| error.to_string())
    });
    match outcome {
        Ok(()) => true,
        Err(error) => {
            complain(&error);
            false
        }
    }
}
