//! The one way from a request to an exit code, for every kind of work: dry run, journal, live document, measurement, report, files.

use std::collections::BTreeSet;
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};

use launcher::hosts;

use crate::controller::{self, Conditions, Observer, Observers, RunEvent};
use crate::plan::{fit, seal};
use crate::record::{MOST_IN_MATRIX, Measured, Outcome, Record, TroubleKind, VerdictWord};
use crate::report::compare::Comparison;
use crate::report::compared;
use crate::report::preflight::{self, Readiness};
use crate::report::{csv, dry_run, fast_ports, header, imb, json, text};
use crate::{exit, store};

use super::args::{HostWords, Launch, Measurement};
use super::draft::Draft;
use super::files::{self, can_keep, exit_code, keep_file, keep_folder};
use super::join;
use super::joining::{Gathered, Joining};
use super::journal::{EventStream, Identity, Journal};
use super::live::LiveDocument;
use super::matrix::Matrix;
use super::process::{
    end_at_signals, end_with, now_ms, programs, random_digits, stand_by, surroundings, variable,
};
use super::progress::Progress;
use super::report::{self, Kept};
use super::resolve::{self, Engine, RunSpec, UsageError};
use super::resume;
use super::samples::Samples;
use super::sion;
use super::terminal::{Terminal, complain, fail, refuse};

/// Name of the live document in the folder of a run.
const LIVE: &str = "live.json";
/// Number of digits of a seal that are shown: enough to distinguish it from any other.
const SEAL_DIGITS: usize = 16;

/// Where results go, and in which form.
#[derive(Clone, Copy)]
pub(super) struct Output<'a> {
    /// Files, and what is printed.
    pub words: &'a Measurement,
    /// Folder in which the folder of the run is made.
    pub folder: Option<&'a Path>,
    /// How hosts are reached.
    pub launch: &'a Launch,
    /// File for what every link received, second by second.
    pub samples: Option<&'a Path>,
    /// File for the rate of every link of every test.
    pub matrix: Option<&'a Path>,
    /// Earlier run to compare with.
    pub baseline: Option<&'a Record>,
    /// True if only the readiness of the hosts is reported.
    pub preflight: bool,
    /// LinkTest's result file.
    pub sion: Option<&'a Path>,
    /// Plan file to write.
    pub plan: Option<Draft<'a>>,
}

impl<'a> Output<'a> {
    /// Results go where the options say.
    pub(super) fn of(words: &'a Measurement, launch: &'a Launch) -> Self {
        Self {
            words,
            folder: words.folder.as_deref(),
            launch,
            samples: None,
            matrix: None,
            baseline: None,
            preflight: false,
            sion: None,
            plan: None,
        }
    }
}

/// Understands a request, given its hosts, and the run that the user wants it compared with, if any. Does its work and reports it; returns the
/// exit code.
pub(super) fn drive(
    output: &Output<'_>,
    hosts: &HostWords,
    request: impl FnOnce(Option<&Kept>, &HostWords) -> Result<RunSpec, UsageError>,
) -> Result<u8, u8> {
    let (launch, words) = (output.launch, output.words);
    let is_task = surroundings().is_task;
    if is_task {
        let checked = resolve::check_step(hosts, launch, &variable);
        checked.map_err(|error| refuse(&error))?;
    }
    // All tasks of a step understand the request alike, and the first one speaks for them.
    let is_first = variable("SLURM_PROCID").is_none_or(|rank| rank == "0");
    let folder = output.folder.unwrap_or(Path::new("."));
    let named = words.baseline.as_deref();
    let before = named.map(|name| report::read(name, folder)).transpose()?;
    let mut hosts = hosts.clone();
    let mut gathered = None;
    if let (Some(count), false) = (launch.awaited, hosts.are_given()) {
        hosts.joined = match words.dry_run {
            true => (1..=count).map(|node| format!("join{node}")).collect(),
            false => {
                let all = Joining::gather(launch)?;
                let names = all.names.clone();
                gathered = Some(all);
                names
            }
        };
    }
    let mut spec = match request(before.as_ref(), &hosts) {
        Err(_) if is_task && !is_first => return Err(exit::USAGE),
        request => request.map_err(|error| refuse(&error))?,
    };
    let before = before.as_ref().map(|kept| &kept.record);
    if let Some(refusal) = before.and_then(|it| compared::refusal(it, &spec.plan.work)) {
        return Err(refuse(&format!("--baseline: {refusal}")));
    }
    if is_task && !is_first {
        if words.dry_run {
            return Ok(exit::OK);
        }
        let time = resolve::connect_time(launch, &spec.plan.deadlines, &spec.engine);
        return join::run_of_step(launch, time);
    }
    if let Some(name) = &words.resume {
        let digests = programs(launch)?.digests();
        resume::go_on(&mut spec, name, folder, &digests).map_err(|error| refuse(&error))?;
    }
    let output = Output {
        baseline: before.or(output.baseline),
        ..*output
    };
    do_work(spec, &output, gathered)
}

/// Shows a plan, or runs it: with the nodes that have joined already, if there are some.
fn do_work(spec: RunSpec, output: &Output<'_>, gathered: Option<Gathered>) -> Result<u8, u8> {
    let words = output.words;
    let files = [&words.csv, &words.json, &words.json_stream].map(Option::as_deref);
    let plan = output.plan.map(|plan| plan.path);
    let to_stdout = files.contains(&Some(Path::new("-"))) || plan == Some(Path::new("-"));
    let mut terminal = Terminal::new(words.quiet, to_stdout);
    if words.dry_run {
        terminal.result(&told_of(&spec, output));
        return Ok(exit::OK);
    }
    // A user who has started a node on each host has agreed.
    if gathered.is_none() && asks(&spec, words) {
        terminal.aside(&told_of(&spec, output));
        if !terminal.agrees("start?") {
            return Err(refuse(&"not started (--yes starts without a question)"));
        }
    }
    let done = measure(spec, output, gathered, &mut terminal)?;
    Ok(done.report(output, &mut terminal))
}

/// True if the user must agree first: the run loads many hosts, and a terminal can ask.
fn asks(spec: &RunSpec, words: &Measurement) -> bool {
    /// Most hosts that a run loads without a question.
    const FEW: usize = 8;
    let remote = spec.plan.nodes.iter().filter(|node| !node.local);
    let hosts: BTreeSet<&str> = remote.map(|node| node.host.as_str()).collect();
    let is_asked = hosts.len() > FEW && !words.yes && !words.quiet && words.run_folder.is_none();
    is_asked && io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// Text of a dry run.
fn told_of(spec: &RunSpec, output: &Output<'_>) -> String {
    let words = output.words;
    // Facts of these hosts are known if an earlier record has them.
    let hosts = output
        .baseline
        .and_then(|record| fast_ports::recorded(&spec.plan, record));
    let mut known = (spec.plan.clone(), spec.options.clone());
    if let Some(hosts) = &hosts {
        known.0 = fast_ports::settled(&spec.plan, hosts);
        if let Some(test) = known.0.tests().first() {
            fit::renew_options(&mut known.1, test);
            fit::renew_streams(&mut known.1, test);
        }
    }
    let (plan, options) = &known;
    let mut text = header::options(options) + &dry_run::dry_run(plan);
    for line in hosts
        .iter()
        .flat_map(|hosts| fast_ports::lines(plan, hosts))
    {
        text += &format!("port       {line}\n");
    }
    text += &format!("reach      {}\n", reach(spec, output.launch));
    if !output.preflight {
        text += &dry_run::verdict(plan);
    }
    for note in &spec.notes {
        text += &format!("note       {note}\n");
    }
    if hosts.is_some() {
        text += "facts      of the hosts are those of the record in --baseline\n";
    } else if spec.open {
        text += "estimate   processes and memory are upper limits: pipebench has not asked the hosts yet, and a host may need less\n";
    }
    let files = [&words.csv, &words.json, &words.json_stream].map(Option::as_deref);
    let plan = output.plan.map(|plan| plan.path);
    let own = [
        output.sion,
        output.samples,
        output.matrix,
        plan,
        output.folder,
    ];
    let files = files.into_iter().chain(own);
    let name = |path: &Path| match path == Path::new("-") {
        true => "standard output".to_owned(),
        false => path.display().to_string(),
    };
    let files: Vec<String> = files.flatten().map(name).collect();
    if !files.is_empty() {
        text += &format!(
            "files      none: a dry run measures nothing; a run writes to {}\n",
            files.join(", ")
        );
    }
    text
}

/// How hosts are reached, for the line of a dry run.
fn reach(spec: &RunSpec, launch: &Launch) -> String {
    let is_alone = spec.hosts.iter().all(|host| host.local);
    match (&spec.engine, &launch.rsh) {
        (Engine::Starter(command), _) => command.clone(),
        (Engine::Awaited, _) => "nodes join (pipebench join)".to_owned(),
        (Engine::Step, _) => "the other tasks of this job step join".to_owned(),
        (Engine::Own, Some(command)) => command.clone(),
        (Engine::Own, None) if is_alone => "this machine, without SSH".to_owned(),
        (Engine::Own, None) if hosts::in_job(&variable) => {
            "SSH, although this is a job (--starter names what starts nodes here)".to_owned()
        }
        (Engine::Own, None) => "SSH".to_owned(),
    }
}

/// A run that has ended.
struct Done {
    record: Record,
    /// Folder of the run.
    folder: Option<PathBuf>,
    /// Events for another program; its last line has the exit code.
    stream: Option<EventStream>,
    /// Files that grew during the run and are incomplete, one sentence each.
    failures: Vec<String>,
}

/// Checks that results can be written before anything is measured for them, and measures. The error is the exit code.
fn measure(
    spec: RunSpec,
    output: &Output<'_>,
    gathered: Option<Gathered>,
    terminal: &mut Terminal,
) -> Result<Done, u8> {
    let words = output.words;
    let files = [&words.csv, &words.json, &words.json_stream].map(Option::as_deref);
    if !can_keep(
        files
            .into_iter()
            .chain([output.sion, output.plan.map(|plan| plan.path)])
            .flatten(),
        output.folder,
    ) {
        return Err(exit::NOT_WRITTEN);
    }
    let (program, stop, joining) = match gathered {
        Some(all) => (programs(output.launch)?, all.stop, Some(all.joining)),
        None => {
            let (program, stop) = stand_by(&spec.hosts, output.launch)?;
            let joining = Joining::open(output.launch, &spec.engine, &spec.hosts)?;
            (program, stop, joining)
        }
    };
    if !words.parent.is_none_or(end_with) {
        return Err(exit::USAGE);
    }
    let mut settings = resolve::settings(output.launch, &spec.plan, &spec.engine, &stop);
    if let Some(joining) = &joining {
        joining.serve(&mut settings);
    }
    let name = words.run_folder.as_deref().and_then(Path::file_name);
    let name = name.map(|name| name.to_string_lossy().into_owned());
    let token = token_of(name.as_deref(), &random_digits()?);
    let secret = random_digits()?;
    let seal = seal::text(&spec.plan, env!("CARGO_PKG_VERSION"), &program.digests());
    let identity = Identity {
        token: token.clone(),
        started_ms: now_ms(),
        command: own_words(),
        seal: seal.clone(),
    };
    let not_written = |error: store::StoreError| fail(&error, exit::NOT_WRITTEN);
    let mut folder = words.run_folder.clone();
    if let (None, Some(parent)) = (&folder, output.folder) {
        let made = store::make_folder(parent, identity.started_ms, &token);
        folder = Some(made.map_err(not_written)?);
    }
    let journal = folder
        .as_deref()
        .map(|folder| Journal::create(folder, identity.clone()));
    let mut journal = journal.transpose().map_err(not_written)?;
    let stream = words.json_stream.as_deref();
    let stream = stream.map(|path| EventStream::create(path, identity.clone()));
    let mut stream = stream.transpose().map_err(not_written)?;
    let samples = output.samples.map(Samples::create);
    let mut samples = samples.transpose().map_err(not_written)?;
    let matrix = output.matrix.map(Matrix::create);
    let mut matrix = matrix.transpose().map_err(not_written)?;
    let live = words.run_folder.as_deref();
    let mut live = live.map(|folder| LiveDocument::new(&folder.join(LIVE)));
    let mut options = spec.options;
    let digest = launcher::digest_of(seal.as_bytes());
    let digits = digest.chars().take(SEAL_DIGITS).collect();
    options.push(("seal".to_owned(), digits));
    let conditions = Conditions {
        settings,
        program,
        stop,
        command: identity.command,
        options,
        hold: spec.hold,
        token,
        secret,
        started_ms: identity.started_ms,
        seal: Some(seal),
        resumed: spec.resumed,
        name,
        watched: live.is_some() && spec.plan.nodes.len() <= MOST_IN_MATRIX,
    };
    let mut progress = Progress::new(terminal, identity.started_ms);
    let mut observers = Observers(vec![&mut progress]);
    let files = [
        journal.as_mut().map(|one| one as &mut dyn Observer),
        samples.as_mut().map(|one| one as &mut dyn Observer),
        matrix.as_mut().map(|one| one as &mut dyn Observer),
        live.as_mut().map(|one| one as &mut dyn Observer),
        stream.as_mut().map(|one| one as &mut dyn Observer),
    ];
    observers.0.extend(files.into_iter().flatten());
    for note in &spec.notes {
        observers.see(RunEvent::Notice(note));
    }
    let mut record = controller::run(spec.plan, &spec.hosts, &conditions, &mut observers);
    // The token file must be gone before a signal can end this process at once.
    drop(joining);
    // Reports of many links can last.
    end_at_signals();
    // A runner's folder means nothing to a reader of its reports.
    if words.run_folder.is_none() {
        let file = words.json.clone().filter(|file| file != Path::new("-"));
        record.place = folder.clone().or(file);
    }
    progress.close_table();
    let files = [
        journal.map(|one| one.file),
        samples.map(|one| one.file),
        matrix.map(|one| one.file),
    ];
    let failures = files.iter().flatten().filter_map(store::Growing::failure);
    Ok(Done {
        record,
        folder,
        stream,
        failures: failures.map(ToString::to_string).collect(),
    })
}

impl Done {
    /// Prints errors first, then the summary, then writes the files. A file that cannot be written never changes a verdict. Returns the exit
    /// code.
    fn report(self, output: &Output<'_>, terminal: &mut Terminal) -> u8 {
        let record = &self.record;
        terminal.close_picture();
        for line in text::troubles(&record.troubles) {
            complain(&line);
        }
        let summary = summary(record, output);
        self.print(&summary, output, terminal);
        let mut written = self.failures.is_empty();
        for failure in &self.failures {
            complain(failure);
        }
        if let Some(path) = output.sion {
            written &= sion::keep(path, record, terminal);
        }
        let table = || csv::write(record).map_err(|error| error.to_string());
        if let Some(path) = &output.words.csv {
            written &= keep_file(path, table());
        }
        if let Some(path) = &output.words.json {
            written &= keep_file(path, json::write(record).map_err(|error| error.to_string()));
        }
        // After a failure the same command must find no file.
        if let Some(plan) = output.plan.filter(|_| record.troubles.is_empty()) {
            written &= keep_file(plan.path, Ok(plan.text(&record.plan.nodes)));
        }
        let mut kinds = record.troubles.iter().map(|trouble| trouble.kind);
        let has_begun = record.outcome.has_begun() || record.troubles.is_empty();
        let nothing_ran = !has_begun && kinds.all(is_before_a_run);
        if let (Some(folder), true, None) = (&self.folder, nothing_ran, &output.words.run_folder) {
            // A busy or unreachable host: the error says it, and there is no result to keep.
            files::forget_folder(folder);
        } else if let Some(folder) = &self.folder {
            let table = (table_name(record), table());
            written &= keep_folder(folder, record, table, &summary, terminal);
        }
        self.print_last(&summary, output, terminal);
        let code = match preflight::readiness(record) {
            // A missing host costs a run only one row, but makes a pre-flight check pointless.
            Readiness::NotReady if output.preflight && record.troubles.is_empty() => {
                exit::UNREACHABLE
            }
            _ if output.words.fail_unless_judged
                && record.verdict.word == VerdictWord::NotJudged =>
            {
                record.exit_code.max(exit::UNDECIDED)
            }
            _ => record.exit_code,
        };
        if let Some(mut stream) = self.stream {
            stream.end(record, exit_code(code, written, terminal));
            if let Some(failure) = stream.file.failure() {
                complain(&failure.to_string());
                written = false;
            }
        }
        exit_code(code, written, terminal)
    }

    /// Prints the result, as far as it was not printed while the run went on.
    fn print(&self, summary: &str, output: &Output<'_>, terminal: &mut Terminal) {
        let record = &self.record;
        match record.measured() {
            Measured::Imb(plan, imb) => {
                if !terminal.is_quiet() {
                    terminal.result(imb::end(plan, imb));
                }
                if record.verdict.word == VerdictWord::Fail {
                    let verdict = &record.verdict;
                    terminal.result(&format!("{}  {}\n", verdict.word, verdict.reason));
                }
            }
            Measured::Acceptance(..) | Measured::Linktest(..) | Measured::Latency(..) => {
                if self.has_summary(output) {
                    terminal.result(summary);
                }
            }
        }
    }

    /// True if the run has a summary: one that did not begin only has errors, unless a port is not as specified.
    fn has_summary(&self, output: &Output<'_>) -> bool {
        let is_fail = self.record.verdict.word == VerdictWord::Fail;
        output.preflight || is_fail || self.record.outcome.has_begun()
    }

    /// Prints the verdict as the last line on the screen, if its summary is long: the first line is out of sight by then.
    fn print_last(&self, summary: &str, output: &Output<'_>, terminal: &mut Terminal) {
        /// Most lines of a summary whose first line is still in sight at its end.
        const SHORT: usize = 8;
        let has_lines = !matches!(self.record.measured(), Measured::Imb(..));
        let is_long = has_lines && summary.lines().count() > SHORT;
        if is_long && !output.preflight && self.has_summary(output) {
            terminal.result(&text::last_line(&self.record, summary));
        }
    }
}

/// True if a failure of this kind can come before anything runs, and then says all that there is to say.
fn is_before_a_run(kind: TroubleKind) -> bool {
    matches!(
        kind,
        TroubleKind::Usage
            | TroubleKind::Version
            | TroubleKind::Start
            | TroubleKind::Connect
            | TroubleKind::Resource
    )
}

/// Text at the end of a run.
fn summary(record: &Record, output: &Output<'_>) -> String {
    if output.preflight {
        return preflight::lines(record).join("\n") + "\n";
    }
    let baseline = output.baseline.filter(|_| record.outcome.has_begun());
    let comparison = baseline.map(|before| Comparison::of(before, record));
    text::with_baseline(record, comparison.as_ref())
}

/// Name of the table in the folder of a run.
fn table_name(record: &Record) -> &'static str {
    match &record.outcome {
        Outcome::Acceptance(_) => "table.csv",
        Outcome::Linktest(_) => "links.csv",
        Outcome::Latency(_) => "cables.csv",
        Outcome::Imb(_) => "patterns.csv",
    }
}

/// Arguments as they were given, without those that a runner adds to control its run.
fn own_words() -> Vec<String> {
    let kept = |word: &String| {
        !["--run-folder=", "--parent="]
            .iter()
            .any(|own| word.starts_with(own))
    };
    let words = std::env::args_os().skip(1);
    let words = words.map(|word| word.to_string_lossy().into_owned());
    words.filter(kept).collect()
}

/// Token of a run from random digits. With a name, the token begins with the last part of the name.
fn token_of(name: Option<&str>, random: &str) -> String {
    let shown = name.and_then(|name| name.rsplit('-').next()).unwrap_or("");
    shown.to_owned() + random.get(shown.len()..).unwrap_or("")
}
