//! `pipebench latency`: fabrics, plans, and the latencies of all pairs from a few rounds.

mod fabrics;
mod meaning;
mod plans;

use std::path::Path;

use crate::conduct::{Hold, LinkSample, Observer};
use crate::exit;
use crate::plan::linktest::Linktest;
use crate::plan::{RunPlan, Test};
use crate::record::{HostRecord, PairTime, RoundProgress, Second, VerdictWord};
use crate::report::{csv, header, text};

use super::args::latency::{LatencyArguments, LatencyCommand, RunArguments};
use super::files::exit_code;
use super::measure::{self, Files, Measured};
use super::terminal::{Terminal, complain};

/// Runs the subcommand; returns the exit code.
pub fn run(arguments: &LatencyArguments) -> u8 {
    let done = match &arguments.command {
        LatencyCommand::Generate(words) => fabrics::generate(words),
        LatencyCommand::Import(words) => fabrics::import(words),
        LatencyCommand::Plan(words) => plans::plan(words),
        LatencyCommand::Pairs(words) => plans::pairs(words),
        LatencyCommand::Simulate(words) => plans::simulate(words),
        LatencyCommand::Run(words) => return measured(words, false),
        LatencyCommand::Locate(words) => return measured(words, true),
    };
    done.unwrap_or_else(|code| code)
}

/// Measures latencies and calculates the results; returns the exit code.
fn measured(words: &RunArguments, locate: bool) -> u8 {
    let baseline = match meaning::baseline(words) {
        Ok(baseline) => baseline,
        Err(code) => return code,
    };
    let intent = match meaning::understand(words, baseline, locate) {
        Ok(intent) => intent,
        Err(error) => {
            complain(&error);
            return exit::USAGE;
        }
    };
    let files = Files {
        csv: words.csv.as_deref(),
        json: words.json.as_deref(),
        parent: Some(words.output.as_deref().unwrap_or(Path::new("."))),
        table: "cables.csv",
    };
    let mut terminal = Terminal::new(words.quiet, files.take_stdout());
    if words.dry_run {
        terminal.result(&meaning::dry_run(&intent));
        return exit::OK;
    }
    let ready = match measure::prepare(files, None) {
        Ok(ready) => ready,
        Err(code) => return code,
    };
    let mut watching = Watching {
        terminal: &mut terminal,
    };
    let measured = match ready.measure(intent, &words.launch, &mut watching) {
        Ok(measured) => measured,
        Err(code) => return code,
    };
    report(files, &measured, &mut terminal)
}

/// Prints errors first, then the summary, then writes the files; returns the exit code.
fn report(files: Files<'_>, measured: &Measured, terminal: &mut Terminal) -> u8 {
    let (record, folder) = (&measured.record, measured.folder.as_deref());
    measure::tell_troubles(record, terminal);
    let said = text::summary(record);
    if record.outcome.has_begun() || record.verdict.word == VerdictWord::Fail {
        terminal.result(&said);
    }
    let table = || csv::write(record).map_err(|error| error.to_string());
    let written = measure::keep(files, folder, record, &table, &said, terminal);
    exit_code(record.exit_code, measured.told && written, terminal)
}

/// Observer that shows a measurement on the terminal.
struct Watching<'a> {
    terminal: &'a mut Terminal,
}

impl Observer for Watching<'_> {
    fn notice(&mut self, text: &str) {
        self.terminal.notice(text);
    }

    fn stage(&mut self, text: &str) {
        self.terminal.stage(text);
    }

    fn hosts(&mut self, _plan: &RunPlan, hosts: &[HostRecord], options: &[(String, String)]) {
        if !self.terminal.is_quiet() {
            let text = format!("{}{}\n", header::options(options), header::hosts(hosts));
            self.terminal.result(&text);
        }
    }

    fn second(&mut self, _test: &Test, _second: &Second) {}

    fn samples(&mut self, _samples: &[LinkSample]) {}

    fn round(&mut self, _linktest: &Linktest, progress: &RoundProgress) {
        self.terminal
            .stage(&format!("measuring {} rounds", progress.steps));
    }

    fn step(&mut self, _linktest: &Linktest, progress: &RoundProgress, _times: &[PairTime]) {
        self.terminal
            .stage(&format!("{} of {} rounds", progress.ended, progress.steps));
    }

    fn held(&mut self, at: Hold) {
        self.terminal.held(at);
    }
}
