//! Contents of a LinkTest result file, no matter which program wrote it.

use std::collections::BTreeSet;

use serde::Serialize;

use crate::report::cells::finish;
use crate::report::{fold, text_of};
use crate::store::linktest::{DataSet, LinktestFile, Meaning, Pair};
use crate::units::show_bytes;

use super::lines::{self, time};

/// Message if the file does not show which time belongs to which link.
pub const UNDECIDABLE: &str = "the access pattern fits neither of its two possible meanings: no time can be assigned to its link";

/// Maximum number of ranks for a printed matrix: a larger one is of no use on a terminal.
const WIDEST: usize = 16;
const WORST: usize = 10;

/// The contents of the file as text.
pub fn text(file: &LinktestFile) -> String {
    let header = &file.header;
    let mut lines: Vec<String> = Vec::new();
    let version = header.version.map(|one| one.to_string()).join(".");
    let kernel = match (header.bidirectional, header.unidirectional) {
        (true, _) => "bidirectional",
        (_, true) => "unidirectional",
        _ => "semidirectional",
    };
    let mut line = |name: &str, value: String| lines.push(format!("{name:12}{value}"));
    line("format", format!("LinkTest {version}"));
    // The file does not name the program that wrote it, only its commit.
    if !header.git_hash.is_empty() {
        line("commit", header.git_hash.clone());
    }
    line("transport", header.mode.clone());
    let hosts: BTreeSet<&str> = file.ranks.iter().map(|rank| rank.host.as_str()).collect();
    line(
        "ranks",
        format!("{} on {}", file.ranks.len(), folded(&hosts)),
    );
    let halves = if header.bisection {
        ", between two halves"
    } else {
        ""
    };
    // LinkTest 1 does not record the number of warm-up messages.
    let warmups = match header.version[0] {
        1 => String::new(),
        _ => format!(" after {}", header.warmups),
    };
    line(
        "messages",
        format!(
            "{} x {}{warmups}, {kernel}{halves}",
            header.messages,
            show_bytes(header.message_bytes)
        ),
    );
    if header.buffers > 0 {
        line(
            "buffers",
            format!("{} in turn, seed {}", header.buffers, header.buffer_seed),
        );
    }
    if header.rank_orders > 0 {
        line(
            "orders",
            format!(
                "{} of the ranks, seed {}",
                header.rank_orders, header.rank_seed
            ),
        );
    }
    if header.unknown != [0; 9] {
        line("unknown", format!("flags {:?}", header.unknown));
    }
    for (number, set) in file.sets.iter().enumerate() {
        lines.extend(one_set(file, number, set));
    }
    text_of(&lines)
}

fn folded(hosts: &BTreeSet<&str>) -> String {
    let names: Vec<String> = hosts.iter().map(|host| (*host).to_owned()).collect();
    fold(&names)
}

fn one_set(file: &LinktestFile, number: usize, set: &DataSet) -> Vec<String> {
    let both = |seconds: f64| lines::both(seconds, file.bandwidth(seconds));
    let mut lines = vec![String::new()];
    if file.sets.len() > 1 {
        lines.push(format!("set {} of {}", number + 1, file.sets.len()));
    }
    if !set.started.is_empty() {
        lines.push(format!("from {} to {}", set.started, set.ended));
    }
    lines.push(format!(
        "min {}  avg {}  max {}",
        both(set.least_s),
        both(set.mean_s),
        both(set.most_s)
    ));
    if let Some([least, mean, most]) = set.all_to_all_s {
        lines.push(format!(
            "all-to-all min {}  avg {}  max {}",
            time(least),
            time(mean),
            time(most)
        ));
    }
    match file.pairs(set) {
        None => lines.push(UNDECIDABLE.to_owned()),
        Some(pairs) => lines.extend(of_pairs(file, set, &pairs)),
    }
    for one in &set.retests {
        lines.push(format!(
            "rank {} to rank {}: {} among others, {} alone",
            one.from,
            one.to,
            both(one.old_s),
            both(one.new_s)
        ));
    }
    lines
}

fn of_pairs(file: &LinktestFile, set: &DataSet, pairs: &[Pair]) -> Vec<String> {
    let meaning = match file.meaning(set) {
        Meaning::Steps => "times by step, partners beside them",
        Meaning::Partners => "times by partner, steps beside them",
        Meaning::AllPartners => "times by partner, as LinkTest 1 has them",
        Meaning::Undecidable => "",
    };
    let mut lines = vec![format!("{} links, {meaning}", pairs.len())];
    let mut worst: Vec<&Pair> = pairs.iter().collect();
    worst.sort_by(|one, other| other.seconds.total_cmp(&one.seconds));
    for pair in worst.into_iter().take(WORST) {
        let host = |rank: usize| file.ranks.get(rank).map_or("", |rank| rank.host.as_str());
        lines.push(format!(
            "  rank {} ({}) to rank {} ({}): {}",
            pair.from,
            host(pair.from),
            pair.to,
            host(pair.to),
            lines::both(pair.seconds, file.bandwidth(pair.seconds))
        ));
    }
    let ranks = file.ranks.len();
    if ranks > WIDEST {
        return lines;
    }
    let mut head = "us    to".to_owned();
    head.extend((0..ranks).map(|to| format!("{to:>11}")));
    lines.push(head);
    for from in 0..ranks {
        let mut row = format!("from {from:>3}");
        for to in 0..ranks {
            let cell = pairs.iter().find(|pair| (pair.from, pair.to) == (from, to));
            row += &cell.map_or_else(
                || format!("{:>11}", "-"),
                |pair| format!("{:11.3}", pair.seconds * 1e6),
            );
        }
        lines.push(row);
    }
    lines
}

/// A line of the CSV table; units are in the column names.
#[derive(Serialize)]
struct Line<'a> {
    set: usize,
    from: usize,
    to: usize,
    from_host: &'a str,
    to_host: &'a str,
    seconds: f64,
    bytes_per_s: f64,
}

/// CSV table of every link of every set. Returns `None` if the file does not show which time belongs to which link.
pub fn csv(file: &LinktestFile) -> Result<Option<String>, csv::Error> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    let host = |rank: usize| file.ranks.get(rank).map_or("", |rank| rank.host.as_str());
    for (number, set) in file.sets.iter().enumerate() {
        let Some(pairs) = file.pairs(set) else {
            return Ok(None);
        };
        for pair in pairs {
            writer.serialize(Line {
                set: number,
                from: pair.from,
                to: pair.to,
                from_host: host(pair.from),
                to_host: host(pair.to),
                seconds: pair.seconds,
                bytes_per_s: file.bandwidth(pair.seconds),
            })?;
        }
    }
    Ok(Some(finish(writer)?))
}

/// The contents of the file, and the meaning of its numbers.
#[derive(Serialize)]
struct Document<'a> {
    #[serde(flatten)]
    file: &'a LinktestFile,
    meaning: Vec<Meaning>,
    links: Vec<Option<Vec<Pair>>>,
}

/// The contents of the file and all its links, as JSON.
pub fn json(file: &LinktestFile) -> Result<String, serde_json::Error> {
    let document = Document {
        file,
        meaning: file.sets.iter().map(|set| file.meaning(set)).collect(),
        links: file.sets.iter().map(|set| file.pairs(set)).collect(),
    };
    Ok(serde_json::to_string_pretty(&document)? + "\n")
}
