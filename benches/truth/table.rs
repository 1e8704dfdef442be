//! The tables of docs/truth.md: faults found by size, and false alarms on sound fabrics.

use std::collections::BTreeMap;
use std::path::Path;

use pipebench::internals::record::VerdictWord;
use serde::{Deserialize, Serialize};

use crate::fingerprint::judge;
use crate::truth::{Case, Injury, Outcome};

/// One case and its outcome.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Row {
    /// Kind of injury, or `sound` with the shape.
    pub kind: String,
    /// Part that the injury leaves, in percent, or the rate of losses.
    pub size: String,
    /// True if the injured part was blamed and nothing else; on a sound fabric, if nothing was blamed.
    pub right: bool,
    /// True if a part was blamed that was not injured.
    pub innocent: bool,
    /// The verdict.
    pub word: String,
    /// The blamed parts.
    #[serde(default)]
    pub blamed: Vec<String>,
    /// Standard that ports were judged by in addition to the usual floor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub floor: Option<String>,
    /// Duration of the case in seconds, with all retests.
    pub seconds: f64,
    /// Key of the draw.
    pub key: String,
    /// The judge: a check sum of its findings ([`judge`]).
    pub judge: String,
    /// The case in words.
    pub case: String,
}

impl Row {
    pub fn of(case: &Case, outcome: &Outcome, seconds: f64, key: String) -> Self {
        let (kind, size) = match case.injury {
            None => (
                format!("sound, {:?}, {}", case.shape, case.congestion),
                String::new(),
            ),
            Some(injury) => {
                let percent = format!("{} %", case.left);
                match injury {
                    Injury::Send(_) => ("a port, sending".to_owned(), percent),
                    Injury::Receive(_) => ("a port, receiving".to_owned(), percent),
                    Injury::InStretches(_) => ("a port, two seconds of eight".to_owned(), percent),
                    Injury::Both(_) => ("a port, both ways".to_owned(), percent),
                    Injury::Pair(..) => ("one pair".to_owned(), percent),
                    Injury::Uplink => ("an uplink".to_owned(), percent),
                    Injury::Two(..) => ("two ports at once".to_owned(), percent),
                    Injury::Flapping(_) => ("a flapping port".to_owned(), percent),
                    Injury::Backplane => ("all ports together".to_owned(), percent),
                    Injury::Chip(_, true) => ("what some ports send".to_owned(), percent),
                    Injury::Chip(_, false) => ("what some ports receive".to_owned(), percent),
                    Injury::HiddenUplink => ("an undeclared uplink".to_owned(), percent),
                    Injury::HalfDuplex(_) => ("a port, both ways at once".to_owned(), percent),
                    Injury::ReceiveBesideBackplane(_) => {
                        ("a port, and all together".to_owned(), percent)
                    }
                    Injury::Throttled(..) => ("a throttled host".to_owned(), "-".to_owned()),
                    Injury::Loss(_, one_in) => ("lost frames".to_owned(), format!("1 in {one_in}")),
                }
            }
        };
        Self {
            kind,
            size,
            right: outcome.right,
            innocent: outcome.innocent,
            word: outcome.word.to_string(),
            blamed: outcome.blamed.clone(),
            floor: None,
            seconds,
            key,
            judge: judge(),
            case: case.to_string(),
        }
    }

    /// True for injuries that leave 90 % or more: the floor of 90 % need not find them.
    fn may_pass(&self) -> bool {
        self.size.starts_with('9')
    }

    fn is_wrong(&self) -> bool {
        let passed = self.may_pass() && self.word == VerdictWord::Pass.to_string();
        !self.right && !passed
    }

    fn is_sound(&self) -> bool {
        self.kind.starts_with("sound")
    }
}

/// Ends the key of a draw that was tried a second time.
pub const AGAIN: &str = " again";

/// Reads the rows of the present judge; rows of an older judge do not describe it.
pub fn read(path: &Path) -> Vec<Row> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let rows = text
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok());
    rows.filter(|row: &Row| row.judge == judge()).collect()
}

/// Text before the tables of `cargo bench --bench judge`.
const DRAWN: &str = "\n## The judge alone\n\n\
    Simulated fabrics of 4 to 10 ports, with a hidden fault that leaves 50 to 82 % (`tests/fabrics`, `cargo bench --bench judge`): the \
    simulation fills what links share max-min fair, uneven by 10 %, and the judge asks for retests as in a run. A decision is *right* if it \
    names every fault that showed, and nothing else. The plain vote is that of 007 (Arzani et al., NSDI 2018) on the same draws: each slow link \
    votes for the places on its path; the place with most votes is blamed and its links vote no more, until no votes are left. *Passed* counts \
    the draws in which the judge reported nothing although a place lacked 15 % or more.\n\n";

/// The page.
pub fn page(rows: &[Row]) -> String {
    let mut page = String::from(
        "# Truth\n\n\
         Verdicts of pipebench on fabrics with known faults: hosts and switches in the lab (`tests/lab/`), drawn at random by `cargo bench --bench \
         truth`. Every port is shaped to 200 Mbit/s, with a queue of 12 ms. Each run uses `--profile acceptance`, shortened to permutations of two \
         seconds after a warm-up of two seconds. Where frames are lost, permutations take twelve seconds and loss tests four: at 200 Mbit/s these are \
         60 thousand frames, of which six are lost. On sound fabrics marked bbr, the hosts use bbr by default; pipebench loads their ports with reno.\n\n\
         A verdict is *right* if it blames the faulty part (and its direction), alone or in a set that the hosts cannot distinguish, and nothing \
         else. For a throttled host, it is right if it blames no port: the host is HOST-LIMITED, or it passes because its ports reached their floors. \
         For a flapping port, INVALID is right as well if the verdict names the port first: the control channel uses the same port. At 90 % and above \
         PASS is no error, since the floor is 90 %; this was decided after the first ten cases. Bounds are at 95 % confidence (Wilson, one-sided).\n",
    );
    match rows.is_empty() {
        true => page.push_str(
            "\nThe judge has changed since the last live cases, so none of them counts.\n",
        ),
        false => {
            let (peers, usual): (Vec<&Row>, Vec<&Row>) =
                rows.iter().partition(|row| row.floor.is_some());
            // A second run on the same draw is not another case.
            let is_first = |row: &&&Row| !row.key.ends_with(AGAIN);
            let first: Vec<&Row> = usual.iter().filter(is_first).copied().collect();
            add_live(&mut page, &first);
            add_pairs(&mut page, &usual);
            add_peers(&mut page, &peers);
        }
    }
    page.push_str(DRAWN);
    page.push_str(include_str!("draws.md"));
    let wrong: Vec<&Row> = rows.iter().filter(|row| row.is_wrong()).collect();
    if !wrong.is_empty() {
        page.push_str("\n## Wrong verdicts\n\n");
        for row in wrong {
            page.push_str(&format!("- {}: {}\n", row.case, row.word));
        }
    }
    wrapped(&page)
}

/// The page with its prose wrapped at the width of all pages.
fn wrapped(page: &str) -> String {
    const WIDTH: usize = 120;
    let mut text = String::new();
    for line in page.lines() {
        let is_table = line.starts_with('|');
        let indent = if line.starts_with("- ") { "  " } else { "" };
        let mut column = 0;
        for word in line.split(' ') {
            let length = word.chars().count();
            if !is_table && column > 0 && column + 1 + length > WIDTH {
                text.push('\n');
                text.push_str(indent);
                column = indent.len();
            } else if column > 0 {
                text.push(' ');
                column += 1;
            }
            text.push_str(word);
            column += length;
        }
        text.push('\n');
    }
    text
}

/// Adds the outcomes of live cases: faults, sound fabrics, and durations.
fn add_live(page: &mut String, rows: &[&Row]) {
    page.push_str(
        "\n## Faults\n\n\
         | fault | rate left, or losses | cases | right | PASS | an innocent place blamed |\n|---|---|---|---|---|---|\n",
    );
    let mut groups: BTreeMap<(String, String), Vec<&Row>> = BTreeMap::new();
    for row in rows.iter().copied() {
        groups
            .entry((row.kind.clone(), row.size.clone()))
            .or_default()
            .push(row);
    }
    for ((kind, size), own) in groups
        .iter()
        .filter(|((kind, _), _)| !kind.starts_with("sound"))
    {
        let innocent = own.iter().filter(|row| row.innocent).count();
        let passed = own
            .iter()
            .filter(|row| row.word == VerdictWord::Pass.to_string());
        page.push_str(&format!(
            "| {kind} | {size} | {} | {} | {} | {innocent} |\n",
            own.len(),
            right(own),
            passed.count()
        ));
    }
    let large = |row: &&Row| !row.is_sound() && !row.may_pass();
    let large: Vec<&Row> = rows.iter().copied().filter(large).collect();
    let small: Vec<&Row> = rows.iter().copied().filter(|row| row.may_pass()).collect();
    page.push_str(&format!(
        "\nAt 80 % and below, including losses and throttled hosts: {} of {} right, at least {:.0} %. At 90 % and above, where a floor of \
         90 % need not find the fault: {} of {} blamed an innocent place.\n",
        right(&large),
        large.len(),
        100.0 * lower_bound(right(&large), large.len()),
        small.iter().filter(|row| row.innocent).count(),
        small.len()
    ));
    page.push_str(
        "\n## Sound fabrics\n\n| fabric | cases | PASS | FAIL | other |\n|---|---|---|---|---|\n",
    );
    for ((kind, _), own) in groups
        .iter()
        .filter(|((kind, _), _)| kind.starts_with("sound"))
    {
        let of = |word: VerdictWord| {
            own.iter()
                .filter(|row| row.word == word.to_string())
                .count()
        };
        let (pass, fail) = (of(VerdictWord::Pass), of(VerdictWord::Fail));
        page.push_str(&format!(
            "| {kind} | {} | {pass} | {fail} | {} |\n",
            own.len(),
            own.len() - pass - fail
        ));
    }
    let sound: Vec<&Row> = rows.iter().copied().filter(|row| row.is_sound()).collect();
    let fails = sound
        .iter()
        .filter(|row| row.word == VerdictWord::Fail.to_string())
        .count();
    page.push_str(&format!(
        "\nFalse alarms: {fails} of {}, at most {:.1} %.\n",
        sound.len(),
        100.0 * (1.0 - lower_bound(sound.len() - fails, sound.len()))
    ));
    let mut seconds: Vec<f64> = rows.iter().map(|row| row.seconds).collect();
    seconds.sort_by(f64::total_cmp);
    if let (Some(median), Some(most)) = (seconds.get(seconds.len() / 2), seconds.last()) {
        page.push_str(&format!(
            "\nThe median case took {median:.0} s, the longest {most:.0} s.\n"
        ));
    }
    page.push_str(include_str!("durations.md"));
}

/// Adds the agreement between two runs on one fabric.
fn add_pairs(page: &mut String, rows: &[&Row]) {
    let second = rows.iter().filter_map(|row| {
        let first = row.key.strip_suffix(AGAIN)?;
        Some((*rows.iter().find(|row| row.key == first)?, *row))
    });
    let pairs: Vec<(&Row, &Row)> = second.collect();
    if pairs.is_empty() {
        return;
    }
    let alike = pairs.iter().filter(|(one, other)| one.word == other.word);
    let failed = || {
        let fail = VerdictWord::Fail.to_string();
        let failed = pairs.iter();
        failed.filter(move |(one, other)| one.word == fail && other.word == fail)
    };
    let same = failed().filter(|(one, other)| one.blamed == other.blamed);
    page.push_str(&format!(
        "\n## Repeatability\n\nTwo runs on the same fabric gave the same verdict in {} of {} draws. Where both gave FAIL, they blamed the same places in {} of {}.\n",
        alike.count(),
        pairs.len(),
        same.count(),
        failed().count()
    ));
}

/// Adds the verdicts on sound fabrics whose ports were also judged by similar ports.
fn add_peers(page: &mut String, rows: &[&Row]) {
    if rows.is_empty() {
        return;
    }
    let of = |word: VerdictWord| {
        let own = rows.iter().filter(|row| row.word == word.to_string());
        own.count()
    };
    page.push_str(&format!(
        "\n## Comparison with peers\n\nWith `--floor peers`, {} sound fabrics of six ports or more of a class: {} FAIL, {} PASS.\n",
        rows.len(),
        of(VerdictWord::Fail),
        of(VerdictWord::Pass)
    ));
}

fn right(rows: &[&Row]) -> usize {
    rows.iter().filter(|row| row.right).count()
}

/// Wilson's lower bound of a share, one-sided at 95 %.
fn lower_bound(hits: usize, all: usize) -> f64 {
    const Z: f64 = 1.645;
    if all == 0 {
        return 0.0;
    }
    let (n, p) = (all as f64, hits as f64 / all as f64);
    let middle = p + Z * Z / (2.0 * n);
    let spread = Z * (p * (1.0 - p) / n + Z * Z / (4.0 * n * n)).sqrt();
    (middle - spread) / (1.0 + Z * Z / n)
}
