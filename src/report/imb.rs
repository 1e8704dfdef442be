//! Tables of the Intel MPI Benchmarks with their exact columns, and the same data as CSV with figures that those lack.
//!
//! Formats are those of the users guide 3.0 and of today's suite (`docs/imb.md`). Every column is 13 characters wide.

use std::collections::BTreeSet;

use crate::plan::collective::Algorithm;
use crate::plan::imb::{Benchmark, Class, Imb, Multi, Part, Rules, Table};
use crate::record::{FileTimes, GroupTimes, HostRecord, ImbRecord, LineRecord, Record};
use crate::stats::imb::{megabytes_per_s, messages_per_s, over, overlap_percent};
use crate::units::show_asctime;

/// Width of a column, in characters.
const WIDE: usize = 13;

/// The text above the first table: the lines of the source that the rules follow, and after its first lines those that the suite lacks, with `facts`
/// as comments.
pub(crate) fn head(
    imb: &Imb,
    hosts: &[HostRecord],
    started_ms: u64,
    command: &str,
    facts: &str,
) -> String {
    let (suite, dashes, threads) = match imb.rules {
        Rules::Guide => (
            "Intel (R) MPI Benchmark Suite V3.0",
            51,
            "MPI_THREAD_SINGLE",
        ),
        Rules::Current => ("Intel(R) MPI Benchmarks 2021", 64, ""),
    };
    let rule = format!("#{}\n", "-".repeat(dashes));
    let mut text = format!(
        "{rule}#    pipebench {}, without MPI: patterns of {suite}, {}\n{rule}",
        env!("CARGO_PKG_VERSION"),
        parts(imb),
    );
    let first = hosts.first().map(|host| &host.facts);
    let mut line = |name: &str, value: &str| text += &format!("# {name:<22}: {value}\n");
    line("Date", &show_asctime(started_ms));
    line("Machine", first.map_or("", |facts| &facts.architecture));
    line("System", "Linux");
    line("Release", first.map_or("", |facts| &facts.kernel));
    line("Version", first.map_or("", |facts| &facts.kernel_version));
    // Readers expect a number.
    line("MPI Version", "0.0 (none)");
    line("MPI Thread Environment", threads);
    line("Processor", first.map_or("", |facts| &facts.cpu));
    line("Transport", &transport(imb, hosts));
    if imb.has_files() {
        line("Files", &imb.path.display().to_string());
    }
    line("Ranks", &placement(imb, hosts));
    if imb.rules == Rules::Guide {
        line("Command", command);
    }
    text.extend(facts.lines().map(|line| format!("# {line}\n")));
    text += &match imb.rules {
        Rules::Guide => "\n#\n".to_owned(),
        Rules::Current => format!("\n\n# Calling sequence was: \n\n# {command} \n\n"),
    };
    text += &lengths(imb);
    text += "#\n";
    if has_messages(imb) {
        text += "# MPI_Datatype                   :   MPI_BYTE \n# MPI_Datatype for reductions    :   MPI_FLOAT \n# MPI_Op                         :   MPI_SUM  \n";
    }
    text += "#\n#\n\n# List of Benchmarks to run:\n\n";
    for benchmark in &imb.benchmarks {
        let name = benchmark.name();
        text += &match imb.multi {
            Some(_) if imb.rules == Rules::Guide => format!("# (Multi-){name}\n"),
            _ => format!("# {name}\n"),
        };
    }
    text + &remarks(imb, imb.ranks.count(hosts.len()))
}

/// True if not all benchmarks are of files.
fn has_messages(imb: &Imb) -> bool {
    imb.benchmarks.iter().any(|one| one.part() != Part::Io)
}

/// Remarks on options that do not take effect: benchmarks that are invalid for this number of ranks, and those without the chosen algorithm.
fn remarks(imb: &Imb, ranks: usize) -> String {
    let mut text = String::new();
    for benchmark in imb.dropped(ranks) {
        let name = benchmark.name();
        let noun = if ranks == 1 { "process" } else { "processes" };
        text += &format!("\n# !! Benchmark {name} invalid for {ranks} {noun} !!\n");
    }
    let others: Vec<&str> = imb.unforced().into_iter().map(Benchmark::name).collect();
    if let (Some(algorithm), false) = (imb.algorithm, others.is_empty()) {
        text += &format!(
            "\n# no {} for these, the usual algorithm instead: {}\n",
            algorithm.name(),
            others.join(", ")
        );
    }
    text
}

/// Titles of the parts of the suite that contain the benchmarks.
fn parts(imb: &Imb) -> String {
    let parts: BTreeSet<Part> = imb.benchmarks.iter().map(|one| one.part()).collect();
    let titles: Vec<&str> = parts.into_iter().map(Part::title).collect();
    match titles.len() {
        1 => format!("{} part", titles[0]),
        _ => format!("parts {}", titles.join(", ")),
    }
}

/// Lines on the lengths: today's suite does not name those of a list.
fn lengths(imb: &Imb) -> String {
    let bounds = |what: &str, listed: &str, part| {
        let (least, largest) = match &imb.lengths {
            Some(_) if imb.rules == Rules::Current => {
                return format!("# {listed} lengths were user defined\n");
            }
            Some(own) => (
                own.iter().min().copied().unwrap_or(0),
                own.iter().max().copied().unwrap_or(0),
            ),
            None => (0, 1_usize.checked_shl(imb.logs(part).1).unwrap_or(0)),
        };
        format!("# Minimum {what} in bytes:   {least}\n# Maximum {what} in bytes:   {largest}\n")
    };
    let mut text = String::new();
    if has_messages(imb) {
        text += &bounds("message length", "Message", Part::Mpi1);
    }
    if imb.has_files() {
        text += &bounds("io portion", "IO", Part::Io);
    }
    text
}

/// Name of the transport that carried the messages.
pub(crate) fn transport(imb: &Imb, hosts: &[HostRecord]) -> String {
    let [within, between] = [true, false].map(|within| imb.ranks.transport.link(within));
    let within_node = format!("{} within a node", within.name());
    let between_nodes = format!("{} between nodes", between.name());
    match hosts.len() {
        _ if within == between => within.name().to_owned(),
        1 => within_node,
        _ if imb.ranks.per_node == 1 => between_nodes,
        _ => format!("{between_nodes}, {within_node}"),
    }
}

fn placement(imb: &Imb, hosts: &[HostRecord]) -> String {
    let names: Vec<&str> = hosts.iter().map(|host| host.node.as_str()).collect();
    let each = imb.ranks.per_node;
    let count = imb.ranks.count(hosts.len());
    format!("{count}, {each} on each of {}", names.join(" "))
}

/// Name of a table in its head.
fn title(imb: &Imb, table: &Table) -> String {
    let is_multi = imb.multi.is_some() && table.groups.len() > 1;
    let multi = if is_multi { "Multi-" } else { "" };
    format!("{multi}{}", table.benchmark.name())
}

/// Names of the columns of a table.
fn columns(imb: &Imb, table: &Table) -> Vec<&'static str> {
    let mut names = Vec::new();
    if imb.multi == Some(Multi::Each) {
        names.push("Group");
    }
    const MIN: &str = "t_min[usec]";
    const MAX: &str = "t_max[usec]";
    const AVG: &str = "t_avg[usec]";
    let is_of_files = table.benchmark.part() == Part::Io;
    names.extend_from_slice(match (kind(imb, table), imb.rules) {
        (Class::Single, _) => &["#bytes", "#repetitions", "t[usec]", "Mbytes/sec"],
        // As in the third sample of the guide (6.3).
        (Class::Parallel, Rules::Guide) if is_of_files => {
            &["#bytes", "#rep.s", MIN, "t_max", "t_avg", "Mb/sec"]
        }
        (Class::Parallel, Rules::Guide) => &["#bytes", "#rep.s", MIN, MAX, AVG, "Mbytes/sec"],
        (Class::Parallel, Rules::Current) => {
            &["#bytes", "#repetitions", MIN, MAX, AVG, "Mbytes/sec"]
        }
        (Class::Collective, _) => &["#bytes", "#repetitions", MIN, MAX, AVG],
        (Class::Sync, _) => &["#repetitions", MIN, MAX, AVG],
        (Class::Rate, _) => &["#bytes", "#repetitions", "Mbytes/sec", "Msg/sec"],
        (Class::Overlap, _) => &[
            "#bytes",
            "#repetitions",
            "t_ovrl[usec]",
            "t_pure[usec]",
            "t_CPU[usec]",
            "overlap[%]",
        ],
    });
    if is_checked(imb, table) {
        names.push("defects");
    }
    names
}

/// True if the benchmark compares contents.
fn is_checked(imb: &Imb, table: &Table) -> bool {
    imb.check && table.benchmark.is_comparable()
}

/// Class that determines the columns of a table. Pairs of several simultaneous groups are printed as transfers of all ranks, unless each group has
/// its own line.
fn kind(imb: &Imb, table: &Table) -> Class {
    match (table.benchmark.class(), imb.multi) {
        (Class::Single, Some(Multi::Worst)) => Class::Parallel,
        (class, _) => class,
    }
}

/// The text above the lines of a table.
pub(crate) fn table_head(imb: &Imb, table: &Table, ranks: usize) -> String {
    let names = columns(imb, table);
    let rule = format!("#{}\n", "-".repeat(WIDE * names.len() - 1));
    let mut text = "\n".to_owned();
    if let Some(said) = algorithms(imb, table) {
        text += &format!("# algorithm: {said}\n");
    }
    text += &format!("{rule}# Benchmarking {} \n", title(imb, table));
    let size = table.group_size();
    match (table.groups.len(), imb.map) {
        (1, Some((rows, wide))) if size > 1 && rows > 1 && wide > 1 => {
            text += &format!("# #processes = {size}; rank order (rowwise): \n");
            for row in table.groups[0].chunks(wide.max(1)) {
                let row: String = row.iter().map(|rank| format!(" {rank:4}")).collect();
                text += &format!("# {row}\n# \n");
            }
        }
        (1, _) => text += &format!("# #processes = {size} \n"),
        (groups, _) => {
            text +=
                &format!("# ( {groups} groups of {size} processes each running simultaneous ) \n");
            for (number, group) in table.groups.iter().enumerate() {
                let members: String = group.iter().map(|rank| format!("{rank:5}")).collect();
                text += &format!("# Group  {number}: {members}\n# \n");
            }
        }
    }
    let idle = ranks.saturating_sub(size.saturating_mul(table.groups.len()));
    if idle > 0 {
        let noun = if idle == 1 { "process" } else { "processes" };
        text += &format!("# ( {idle} additional {noun} waiting in MPI_Barrier)\n");
    }
    text += &rule;
    if let Some(mode) = table.mode {
        text += &format!("#\n#    MODE: {} \n#\n", mode.name());
    }
    let heads: String = names.iter().map(|name| format!("{name:>WIDE$}")).collect();
    text + &heads + "\n"
}

/// Algorithms of a table, each with the message length from which it is used. Returns `None` if a length has no algorithm.
fn algorithms(imb: &Imb, table: &Table) -> Option<String> {
    let mut spans: Vec<(Algorithm, usize)> = Vec::new();
    for length in &table.lengths {
        let algorithm = imb.algorithm_for(table, length.bytes)?;
        if spans.last().is_none_or(|(last, _)| *last != algorithm) {
            spans.push((algorithm, length.bytes));
        }
    }
    let said: Vec<String> = spans
        .iter()
        .enumerate()
        .map(|(number, (algorithm, from))| match number {
            0 => algorithm.name().to_owned(),
            _ => format!("{} from {from} bytes", algorithm.name()),
        })
        .collect();
    Some(said.join(", "))
}

/// The lines of a table for one message length: one line, or one for each group.
pub(crate) fn lines(imb: &Imb, table: &Table, line: &LineRecord) -> String {
    let why = line.left_out.as_ref();
    let bare = why.map(|why| format!("{:>WIDE$} {why}\n", line.bytes));
    let printed = |times: GroupTimes| one(imb, table, line, times);
    if imb.multi != Some(Multi::Each) {
        let together = || over(&line.groups).map(printed);
        return bare.or_else(together).unwrap_or_default();
    }
    let each: Vec<String> = match bare {
        Some(bare) => vec![bare; table.groups.len()],
        None => line.groups.iter().copied().map(printed).collect(),
    };
    let each = each.iter().enumerate();
    let numbered = each.map(|(number, text)| format!("{number:>WIDE$}{text}"));
    "\n".to_owned() + &numbered.collect::<String>()
}

fn one(imb: &Imb, table: &Table, line: &LineRecord, times: GroupTimes) -> String {
    let us = |seconds: f64| format!("{:WIDE$.2}", seconds * 1e6);
    let rate = megabytes_per_s(imb, table, line.bytes, times.most_s);
    let rate = format!("{rate:WIDE$.2}");
    let counts = format!("{:>WIDE$}{:>WIDE$}", line.bytes, line.repetitions);
    let three = us(times.least_s) + &us(times.most_s) + &us(times.mean_s);
    let mut text = match kind(imb, table) {
        Class::Single => counts + &us(times.most_s) + &rate,
        Class::Parallel => counts + &three + &rate,
        Class::Collective => counts + &three,
        Class::Sync => format!("{:>WIDE$}{three}", line.repetitions),
        Class::Rate => {
            let messages = messages_per_s(imb, table, times.most_s);
            format!("{counts}{rate}{messages:WIDE$.0}")
        }
        Class::Overlap => {
            let overlap = times.files.and_then(|files| files.overlap);
            let (pure_s, compute_s) = overlap.map_or((0.0, 0.0), |one| (one.pure_s, one.compute_s));
            let hidden = overlap.map_or(0.0, |one| overlap_percent(times.most_s, one));
            let three = us(times.most_s) + &us(pure_s) + &us(compute_s);
            format!("{counts}{three}{hidden:WIDE$.2}")
        }
    };
    if let (Some(defects), true) = (times.defects, is_checked(imb, table)) {
        text += &format!("{defects:WIDE$.2}");
    }
    text + "\n"
}

/// Remarks below a table of files, for which the columns have no room. An empty line ends the table before them.
pub(crate) fn table_foot(lines: &[LineRecord]) -> String {
    let files = || {
        let times = lines.iter().flat_map(|line| &line.groups);
        times.filter_map(|times| Some((times, times.files?)))
    };
    // The least and the largest of some fractions, in per cent.
    let span = |parts: Vec<f64>| {
        let most = parts.iter().copied().reduce(f64::max)?;
        let least = parts.iter().copied().fold(most, f64::min);
        Some((100.0 * least, 100.0 * most))
    };
    let mut text = String::new();
    let shares = files().filter_map(|(_, files)| files.cached());
    if let Some((least, most)) = span(shares.collect()) {
        text += &format!(
            "# page cache: {least:.0} to {most:.0} % of what was read came from memory, by length\n"
        );
    }
    let part = |(times, files): (&GroupTimes, FileTimes)| {
        (times.most_s > 0.0).then(|| (files.synchronising_s / times.most_s).min(1.0))
    };
    let parts = files().filter_map(part).filter(|part| *part > 0.0);
    if let Some((least, most)) = span(parts.collect()) {
        text += &format!(
            "# page cache: what is written goes there first; fsync took {least:.0} to {most:.0} % of the time\n"
        );
    }
    if let Some(overlap) = files().find_map(|(_, files)| files.overlap) {
        // The words of the suite, which has them above the first of these tables.
        text += &format!(
            "# Function CPU_Exploit obtains an undisturbed\n# performance of {:7.2} MFlops\n",
            overlap.megaflops
        );
    }
    match text.is_empty() {
        true => text,
        false => format!("\n{text}"),
    }
}

/// Text after the last table: an empty line ends it for readers; today's suite announces its end there, and programs that read its output wait for
/// that line.
pub(crate) fn end(plan: &Imb, imb: &ImbRecord) -> &'static str {
    match plan.rules == Rules::Current && imb.complete {
        true => "\n\n# All processes entering MPI_Finalize\n\n",
        false => "\n",
    }
}

/// The verdict, the head and all tables of a record.
pub(crate) fn summary(record: &Record, plan: &Imb, imb: &ImbRecord) -> String {
    let verdict = &record.verdict;
    let command = format!("pipebench {}", record.command.join(" "));
    format!(
        "{}  {}\n{}{}",
        verdict.word,
        verdict.reason,
        head(plan, &record.hosts, record.started_ms, &command, ""),
        tables(plan, imb)
    )
}

/// All tables, as the run printed them.
pub(crate) fn tables(plan: &Imb, imb: &ImbRecord) -> String {
    let mut text = String::new();
    for table in &imb.tables {
        text += &table_head(plan, &table.table, imb.ranks.len());
        for line in &table.lines {
            text += &lines(plan, &table.table, line);
        }
        text += &table_foot(&table.lines);
    }
    text
}

/// Every line as CSV, with figures that the tables lack.
pub(crate) fn csv(record: &Record, plan: &Imb, imb: &ImbRecord) -> Result<String, csv::Error> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record([
        "benchmark",
        "mode",
        "processes",
        "groups",
        "group",
        "bytes",
        "repetitions",
        "t_min_us",
        "t_max_us",
        "t_avg_us",
        "mbytes_per_s",
        "batches",
        "repetitions_per_batch",
        "least_us",
        "median_us",
        "p95_us",
        "p99_us",
        "most_us",
        "variation",
        "algorithm",
        "defects",
        "cached",
        "fsync_us",
        "pure_us",
        "compute_us",
        "overlap_percent",
        "left_out",
        "messages_per_s",
        "transport",
        "rules",
    ])?;
    let transport = transport(plan, &record.hosts);
    for table in &imb.tables {
        for line in &table.lines {
            for (number, times) in line.groups.iter().enumerate() {
                let mut row = row(plan, &table.table, line, (number, times));
                row.extend([transport.clone(), plan.rules.name().to_owned()]);
                writer.write_record(row)?;
            }
        }
    }
    super::cells::finish(writer)
}

/// True if a benchmark has a throughput. Collectives have only times (guide 3.3.4).
pub(crate) fn has_rate(benchmark: Benchmark) -> bool {
    matches!(
        benchmark.class(),
        Class::Single | Class::Parallel | Class::Rate
    )
}

/// A cell with a value; empty without one.
fn shown(value: Option<impl ToString>) -> String {
    value.map_or_else(String::new, |value| value.to_string())
}

fn row(
    imb: &Imb,
    table: &Table,
    line: &LineRecord,
    (group, times): (usize, &GroupTimes),
) -> Vec<String> {
    let us = |seconds: f64| format!("{:.3}", seconds * 1e6);
    let rate = megabytes_per_s(imb, table, line.bytes, times.most_s);
    // A single batch is the mean and has no spread.
    let spread = times.spread.as_ref().filter(|spread| spread.batches > 1);
    let of = |figure: Option<f64>| shown(figure.map(us));
    let cached = times.files.and_then(|files| files.cached());
    let overlap = times.files.and_then(|files| files.overlap);
    vec![
        table.benchmark.name().to_owned(),
        shown(table.mode.map(|mode| mode.name().to_lowercase())),
        table.group_size().to_string(),
        table.groups.len().to_string(),
        group.to_string(),
        line.bytes.to_string(),
        line.repetitions.to_string(),
        us(times.least_s),
        us(times.most_s),
        us(times.mean_s),
        shown(has_rate(table.benchmark).then(|| format!("{rate:.3}"))),
        shown(spread.map(|one| one.batches)),
        shown(spread.map(|one| one.of)),
        of(spread.map(|one| one.least_s)),
        of(spread.map(|one| one.median_s)),
        of(spread.and_then(|one| one.p95_s)),
        of(spread.and_then(|one| one.p99_s)),
        of(spread.map(|one| one.most_s)),
        shown(spread.map(|one| format!("{:.4}", one.variation))),
        shown(line.algorithm.map(Algorithm::name)),
        shown(times.defects),
        shown(cached.map(|share| format!("{share:.4}"))),
        of(times.files.map(|files| files.synchronising_s)),
        of(overlap.map(|one| one.pure_s)),
        of(overlap.map(|one| one.compute_s)),
        shown(overlap.map(|one| format!("{:.2}", overlap_percent(times.most_s, one)))),
        shown(line.left_out.clone()),
        match table.benchmark.class() {
            Class::Rate => format!("{:.1}", messages_per_s(imb, table, times.most_s)),
            _ => String::new(),
        },
    ]
}
