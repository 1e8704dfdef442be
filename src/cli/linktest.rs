//! `pipebench linktest`: measures all pairs of ranks, with the options and the output of LinkTest.

mod files;
mod meaning;

use std::path::Path;

use crate::conduct::{Hold, LinkSample, Observer};
use crate::exit;
use crate::plan::linktest::Linktest;
use crate::plan::{RunPlan, Test};
use crate::record::{
    HostRecord, Measured as Results, PairTime, Record, RoundProgress, Second, VerdictWord,
};
use crate::report::linktest::lines;
use crate::report::{csv, header, text};
use crate::store;

use super::args::linktest::LinktestArguments;
use super::files::exit_code;
use super::measure::{self, Files, Measured};
use super::terminal::{Terminal, complain};
use super::version;

/// Alignment of chunks in the result file, in bytes: the usual block size of file systems.
const BLOCK_BYTES: u32 = 4096;

/// Measures links or reads a result file; returns the exit code.
pub fn run(arguments: &LinktestArguments) -> u8 {
    if let Some(command) = &arguments.command {
        return files::run(command);
    }
    if arguments.version {
        return version::print(false);
    }
    let intent = match meaning::understand(arguments) {
        Ok(intent) => intent,
        Err(error) => {
            complain(&error.to_string());
            return exit::USAGE;
        }
    };
    let files = Files {
        csv: arguments.csv.as_deref(),
        json: arguments.json.as_deref(),
        parent: arguments.folder.as_deref(),
        table: "links.csv",
    };
    let mut terminal = Terminal::new(arguments.quiet, files.take_stdout());
    if arguments.dry_run {
        terminal.result(&meaning::dry_run(&intent));
        return exit::OK;
    }
    let sion = (!arguments.no_sion_file).then_some(arguments.output.as_path());
    let ready = match measure::prepare(files, sion) {
        Ok(ready) => ready,
        Err(code) => return code,
    };
    let mut watching = Watching {
        terminal: &mut terminal,
        so_far: lines::Sums::default(),
    };
    let Measured {
        record,
        folder,
        told,
    } = match ready.measure(intent, &arguments.launch, &mut watching) {
        Ok(measured) => measured,
        Err(code) => return code,
    };
    measure::tell_troubles(&record, &mut terminal);
    let said = text::summary(&record);
    let verdict = &record.verdict;
    if record.outcome.has_begun() {
        terminal.result(&said);
    } else if verdict.word == VerdictWord::Fail {
        terminal.result(&format!("{}  {}\n", verdict.word, verdict.reason));
    }
    let sion_written = sion.is_none_or(|path| keep_sion(path, &record, &mut terminal));
    let table = || csv::write(&record).map_err(|error| error.to_string());
    let folder = folder.as_deref();
    let written = measure::keep(files, folder, &record, &table, &said, &mut terminal);
    exit_code(record.exit_code, told && sion_written && written, &terminal)
}

/// Writes a result file for each iteration. Several files are numbered as in LinkTest. Returns false if one cannot be written.
fn keep_sion(output: &Path, record: &Record, terminal: &mut Terminal) -> bool {
    let files = match record.measured() {
        Results::Linktest(plan, linktest) => store::linktest::files(record, plan, linktest),
        Results::Acceptance(..) | Results::Latency(..) | Results::Imb(..) => Vec::new(),
    };
    let several = files.len() > 1;
    let mut written = true;
    for (number, file) in files.iter().enumerate() {
        let path = match several {
            true => meaning::numbered(output, number),
            false => output.to_owned(),
        };
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let bytes = store::linktest::write(file, &name, BLOCK_BYTES);
        match store::write_file(&path, bytes) {
            Ok(()) => terminal.result(&format!("result {}\n", path.display())),
            Err(error) => {
                complain(&error.to_string());
                written = false;
            }
        }
    }
    written
}

/// Observer that shows a link test on the terminal.
struct Watching<'a> {
    terminal: &'a mut Terminal,
    /// Sums of the current round so far.
    so_far: lines::Sums,
}

impl Observer for Watching<'_> {
    fn notice(&mut self, text: &str) {
        self.terminal.notice(text);
    }

    fn stage(&mut self, text: &str) {
        self.terminal.stage(text);
    }

    fn hosts(&mut self, plan: &RunPlan, hosts: &[HostRecord], options: &[(String, String)]) {
        if !self.terminal.is_quiet() {
            let ranks = plan.work.ranks();
            let ranks = ranks.map_or(0, |ranks| ranks.count(hosts.len()));
            self.terminal.result(&format!(
                "{}{}{ranks} ranks\n\n",
                header::options(options),
                header::hosts(hosts)
            ));
        }
    }

    fn second(&mut self, _test: &Test, _second: &Second) {}

    fn samples(&mut self, _samples: &[LinkSample]) {}

    fn round(&mut self, _linktest: &Linktest, _progress: &RoundProgress) {
        self.so_far = lines::Sums::default();
    }

    fn step(&mut self, linktest: &Linktest, progress: &RoundProgress, times: &[PairTime]) {
        self.so_far.add(linktest, times);
        if !self.terminal.is_quiet() {
            let text = lines::step(linktest, progress, &self.so_far, times);
            self.terminal.result(&text);
        }
    }

    fn held(&mut self, at: Hold) {
        self.terminal.held(at);
    }
}
