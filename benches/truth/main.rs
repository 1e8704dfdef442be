//! Verdicts of pipebench on injured and sound fabrics: any number of drawn cases, in the lab.
//!
//! `cargo bench --bench truth -- [INJURED] [SOUND] [--seed S] [--time T] [--only WORDS+WORDS] [--at-once N]
//! [--again] [--floor peers] [--keep FOLDER] [--write] [--beside PROGRAM]`.
//! Prints each case when it ends, and keeps it in `rows.jsonl` in this folder with a check sum of the judge's findings. Several runs add up,
//! and an interrupted run resumes. Rows of an older judge do not count. `--write` makes docs/truth.md from all rows. `--only` draws until
//! a case has all of these words. `--at-once` runs N cases at the same time: one takes about 7 % of two processors. `--again` tries the same
//! draws a second time. `--floor peers` judges ports by similar ports, too. `--keep` puts the record of each run into a folder. A case takes
//! half a minute to a minute and a half. `--beside` compares durations only: it runs another executable on the same fabrics in turn and keeps
//! no rows. Needs root, because the lab does.

#![expect(clippy::print_stdout, reason = "what it finds is its output")]

#[path = "../../tests/fabrics/mod.rs"]
mod fabrics;
mod fingerprint;
#[path = "../../tests/lab/mod.rs"]
mod lab;
mod table;
#[path = "../../tests/truth/mod.rs"]
mod truth;

use std::fs::OpenOptions;
use std::io::Write;
use std::panic::catch_unwind;
use std::path::PathBuf;
use std::sync::Mutex;

use table::Row;
use truth::{Case, Injury, Outcome, Shape, try_case};

const PIPEBENCH: &str = env!("CARGO_BIN_EXE_pipebench");

struct Options {
    injured: u64,
    sound: u64,
    seed: u64,
    time: Option<String>,
    only: String,
    at_once: usize,
    again: bool,
    floor: Option<String>,
    records: Option<PathBuf>,
    write: bool,
    beside: Option<String>,
}

/// A case that was drawn.
struct Drawn {
    case: Case,
    number: u64,
    key: String,
}

fn main() {
    let options = options();
    let mut draw = Draw(options.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let known = table::read(&results());
    let mut cases = Vec::new();
    for (injured, count) in [(true, options.injured), (false, options.sound)] {
        for number in 1..=count {
            let case = loop {
                let case = if injured {
                    draw.injured()
                } else {
                    draw.sound()
                };
                let name = case.to_string();
                if options.only.split('+').all(|words| name.contains(words)) {
                    break case;
                }
            };
            let again = if options.again { table::AGAIN } else { "" };
            let floor = options.floor.as_deref().unwrap_or_default();
            let key = format!(
                "{} {injured} {number} {}{floor}{again}",
                options.seed, options.only
            );
            // Known cases are skipped: an interrupted run resumes after them.
            if options.beside.is_some() || !known.iter().any(|row| row.key == key) {
                cases.push(Drawn { case, number, key });
            }
        }
    }
    let queue = Mutex::new(cases.into_iter());
    let next = || queue.lock().expect("no thread panics here").next();
    let durations = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..options.at_once {
            scope.spawn(|| {
                while let Some(drawn) = next() {
                    match &options.beside {
                        None => try_one(&drawn, &options),
                        Some(other) => {
                            let both = time_both(&drawn, &options, other);
                            durations.lock().expect("no thread panics here").push(both);
                        }
                    }
                }
            });
        }
    });
    if options.beside.is_some() {
        let durations = durations.into_inner().expect("all threads have ended");
        return compare(&durations, options.write);
    }
    let rows = table::read(&results());
    let page = table::page(&rows);
    println!("{page}");
    if options.write {
        std::fs::write(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/truth.md"), page)
            .expect("docs/truth.md can be written");
    }
}

/// Tries a case, prints the outcome, and keeps it.
fn try_one(drawn: &Drawn, options: &Options) {
    let (case, number) = (&drawn.case, drawn.number);
    let begun = std::time::Instant::now();
    let mut tests = vec!["--profile", "acceptance", "--time", time(case, options)];
    if let Some(floor) = &options.floor {
        tests.extend(["--floor", floor]);
    }
    // A run without a verdict counts as a wrong one.
    let outcome = catch_unwind(|| try_case(PIPEBENCH, case, &tests));
    let outcome = outcome.unwrap_or_else(|_| Outcome::none());
    let seconds = begun.elapsed().as_secs_f64();
    let row = Row {
        floor: options.floor.clone(),
        ..Row::of(case, &outcome, seconds, drawn.key.clone())
    };
    let right = if row.right { "right" } else { "WRONG" };
    let unexpected = !row.right || case.injury.is_none() && row.word != "PASS";
    let said = match unexpected {
        true => format!("{}\n\n", outcome.said),
        false => String::new(),
    };
    print!("{number:4} {right}  {} {case}\n{said}", row.word);
    keep(&row);
    if let Some(folder) = &options.records {
        let file = folder.join(drawn.key.trim().replace(' ', "-") + ".json");
        std::fs::write(file, &outcome.record).expect("--keep: a folder that can be written");
    }
}

/// Seconds of a case with this executable and with another one, which alternate in who begins.
fn time_both(drawn: &Drawn, options: &Options, other: &str) -> (f64, f64) {
    let Drawn { case, number, .. } = drawn;
    let tests = ["--profile", "acceptance", "--time", time(case, options)];
    let seconds = |program| {
        let begun = std::time::Instant::now();
        let outcome = try_case(program, case, &tests);
        (begun.elapsed().as_secs_f64(), outcome.word)
    };
    let ((own, word), (others, other_word)) = match number % 2 {
        0 => (seconds(PIPEBENCH), seconds(other)),
        _ => {
            let others = seconds(other);
            (seconds(PIPEBENCH), others)
        }
    };
    println!("{number:4} {own:4.0} s {word:?}, the other {others:4.0} s {other_word:?}  {case}");
    (own, others)
}

/// Prints the medians of both executables and of their ratios. `write` keeps the sentence for docs/truth.md.
fn compare(durations: &[(f64, f64)], write: bool) {
    let median = |of: fn(&(f64, f64)) -> f64| {
        let mut values: Vec<f64> = durations.iter().map(of).collect();
        values.sort_by(f64::total_cmp);
        values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
    };
    let sentence = format!(
        "\nOn {} fabrics another executable ran in turn: the median case took {:.0} s, and {:.0} s with the other; case by \
         case, the median ratio is {:.2}.\n",
        durations.len(),
        median(|(own, _)| *own),
        median(|(_, other)| *other),
        median(|(own, other)| own / other)
    );
    println!("{sentence}");
    if write {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/truth/durations.md");
        std::fs::write(file, sentence).expect("durations.md can be written");
    }
}

/// Length of a test. If one frame in ten thousand is lost, a test needs more time to lose enough frames to tell the loss from chance.
fn time<'a>(case: &Case, options: &'a Options) -> &'a str {
    match (&options.time, case.injury) {
        (Some(time), _) => time,
        (None, Some(Injury::Loss(..))) => "12s",
        (None, _) => "2s",
    }
}

fn results() -> PathBuf {
    concat!(env!("CARGO_MANIFEST_DIR"), "/benches/truth/rows.jsonl").into()
}

fn keep(row: &Row) {
    let line = serde_json::to_string(row).expect("a row is JSON") + "\n";
    let file = OpenOptions::new().create(true).append(true).open(results());
    file.and_then(|mut file| file.write_all(line.as_bytes()))
        .expect("results can be kept");
}

fn options() -> Options {
    let mut options = Options {
        injured: 10,
        sound: 10,
        seed: 1,
        time: None,
        only: String::new(),
        at_once: 1,
        again: false,
        floor: None,
        records: None,
        write: false,
        beside: None,
    };
    let mut words = std::env::args().skip(1).filter(|word| word != "--bench");
    let mut counts = Vec::new();
    while let Some(word) = words.next() {
        let mut value = || words.next().expect("a value behind the option");
        match word.as_str() {
            "--seed" => options.seed = value().parse().expect("--seed: a number"),
            "--time" => options.time = Some(value()),
            "--only" => options.only = value(),
            "--at-once" => options.at_once = value().parse().expect("--at-once: a number"),
            "--again" => options.again = true,
            "--floor" => options.floor = Some(value()),
            "--keep" => options.records = Some(value().into()),
            "--write" => options.write = true,
            "--beside" => options.beside = Some(value()),
            count => counts.push(count.parse().expect("a number of cases")),
        }
    }
    if let Some(injured) = counts.first() {
        options.injured = *injured;
    }
    if let Some(sound) = counts.get(1) {
        options.sound = *sound;
    }
    options
}

/// A small generator (xorshift64*), so that a seed determines all cases.
struct Draw(u64);

impl Draw {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let word = self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33;
        usize::try_from(word).expect("31 bits fit") % limit
    }

    fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }

    fn two(&mut self, hosts: usize) -> (usize, usize) {
        let one = 1 + self.below(hosts);
        let other = 1 + (one + self.below(hosts - 1)) % hosts;
        (one, other)
    }

    fn injured(&mut self) -> Case {
        let hosts = 3 + self.below(6);
        let (one, other) = self.two(hosts);
        let left = self.of(&[50, 65, 80, 90, 93, 95, 98]);
        let even = self.of(&[4, 6, 8]);
        let (injury, shape, hosts) = match self.below(17) {
            0 | 1 => (Injury::Send(one), Shape::Plain, hosts),
            2 | 3 => (Injury::Receive(one), Shape::Plain, hosts),
            4 => (Injury::Both(one), Shape::Plain, hosts),
            5 => (Injury::Pair(one, other), Shape::Plain, hosts),
            6 => (Injury::Uplink, Shape::Oversubscribed, even),
            7 => (Injury::Two(one, other), Shape::Plain, hosts.max(4)),
            8 => (
                Injury::Loss(one.min(4), self.of(&[1_000, 10_000])),
                Shape::Plain,
                hosts.min(4),
            ),
            9 | 10 => (Injury::Uplink, Shape::FullTrunk, even),
            11 => (Injury::Backplane, Shape::Plain, hosts.max(4)),
            12 => (
                Injury::Chip(2 + self.below(2), self.below(2) == 0),
                Shape::Plain,
                hosts.max(5),
            ),
            13 => (Injury::HiddenUplink, Shape::Plain, even),
            14 => (Injury::HalfDuplex(one), Shape::Plain, hosts),
            15 => (
                Injury::ReceiveBesideBackplane(one),
                Shape::Plain,
                hosts.max(4),
            ),
            _ => match self.below(2) {
                0 => (Injury::Throttled(one.min(3), 6), Shape::Plain, 3),
                _ => (Injury::Flapping(one), Shape::Plain, hosts),
            },
        };
        let has_size = !matches!(injury, Injury::Loss(..) | Injury::Throttled(..));
        Case {
            hosts,
            shape,
            congestion: "reno",
            injury: Some(injury),
            left: if has_size { left } else { 100 },
        }
    }

    fn sound(&mut self) -> Case {
        let shape = self.of(&[
            Shape::Plain,
            Shape::Plain,
            Shape::MixedSpeeds,
            Shape::OneSlow,
            Shape::Oversubscribed,
            Shape::FullTrunk,
        ]);
        Case {
            hosts: match shape {
                Shape::Oversubscribed | Shape::FullTrunk => self.of(&[4, 6, 8]),
                _ => 3 + self.below(6),
            },
            shape,
            congestion: self.of(&["reno", "bbr"]),
            injury: None,
            left: 100,
        }
    }
}
