//! `pipebench imb`: the Intel MPI Benchmarks' patterns, in their own tables.

mod meaning;

use crate::conduct::{Hold, LinkSample, Observer};
use crate::exit;
use crate::plan::imb::{Imb, Table};
use crate::plan::{RunPlan, Test, Work};
use crate::record::{HostRecord, LineRecord, Measured as Results, Second, VerdictWord};
use crate::report::{csv, header, imb, text};
use crate::units::show_utc;

use super::args::imb::ImbArguments;
use super::files::exit_code;
use super::measure::{self, Files, Measured};
use super::process;
use super::terminal::{Terminal, complain};

/// Measures the patterns; returns the exit code.
pub fn run(words: &ImbArguments) -> u8 {
    let intent = match meaning::understand(words) {
        Ok(intent) => intent,
        Err(error) => {
            complain(&error.to_string());
            return exit::USAGE;
        }
    };
    let files = Files {
        csv: words.csv.as_deref(),
        json: words.json.as_deref(),
        parent: words.folder.as_deref(),
        table: "patterns.csv",
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
        date: show_utc(process::now_ms()),
        ranks: 0,
        under_way: None,
    };
    let Measured {
        record,
        folder,
        told,
    } = match ready.measure(intent, &words.launch, &mut watching) {
        Ok(measured) => measured,
        Err(code) => return code,
    };
    watching.close();
    match record.measured() {
        Results::Imb(plan, done) => watching.print(imb::end(plan, done)),
        Results::Acceptance(..) | Results::Linktest(..) | Results::Latency(..) => {}
    }
    measure::tell_troubles(&record, &mut terminal);
    let verdict = &record.verdict;
    if verdict.word == VerdictWord::Fail {
        terminal.result(&format!("{}  {}\n", verdict.word, verdict.reason));
    }
    let table = || csv::write(&record).map_err(|error| error.to_string());
    let said = text::summary(&record);
    let folder = folder.as_deref();
    let written = measure::keep(files, folder, &record, &table, &said, &mut terminal);
    exit_code(record.exit_code, told && written, &terminal)
}

/// Observer that prints tables line by line.
struct Watching<'a> {
    terminal: &'a mut Terminal,
    date: String,
    ranks: usize,
    /// The current table with its lines so far.
    under_way: Option<(Table, Vec<LineRecord>)>,
}

impl Watching<'_> {
    /// Prints the foot of the current table, if there is one.
    fn close(&mut self) {
        if let Some((_, lines)) = self.under_way.take() {
            self.print(&imb::table_foot(&lines));
        }
    }

    fn print(&mut self, text: &str) {
        if !self.terminal.is_quiet() {
            self.terminal.result(text);
        }
    }
}

impl Observer for Watching<'_> {
    fn notice(&mut self, text: &str) {
        self.terminal.notice(text);
    }

    fn stage(&mut self, text: &str) {
        self.terminal.stage(text);
    }

    fn hosts(&mut self, plan: &RunPlan, hosts: &[HostRecord], options: &[(String, String)]) {
        if let Work::Imb(job) = &plan.work {
            self.ranks = job.ranks.count(hosts.len());
            let command: Vec<String> = std::env::args_os()
                .map(|word| word.to_string_lossy().into_owned())
                .collect();
            let facts = format!("{}{}", header::options(options), header::hosts(hosts));
            // Host facts and options in effect appear as comments of the table.
            let facts: String = facts.lines().map(|line| format!("# {line}\n")).collect();
            let head = imb::head(job, hosts, &self.date, &command.join(" "));
            self.print(&format!("{facts}{head}"));
        }
    }

    fn second(&mut self, _test: &Test, _second: &Second) {}

    fn samples(&mut self, _samples: &[LinkSample]) {}

    fn table(&mut self, job: &Imb, table: &Table) {
        self.close();
        self.under_way = Some((table.clone(), Vec::new()));
        let text = imb::table_head(job, table, self.ranks);
        self.print(&text);
    }

    fn line(&mut self, job: &Imb, table: &Table, line: &LineRecord) {
        let text = imb::lines(job, table, line);
        self.print(&text);
        if let Some((_, lines)) = &mut self.under_way {
            lines.push(line.clone());
        }
    }

    fn held(&mut self, at: Hold) {
        self.terminal.held(at);
    }
}
