//! Compares stored records with the documents made from them. Every report comes from a record alone, so a changed
//! report shows here as a difference of text, and an old record that is no longer readable fails here.
//!
//! Each folder below `golden/` holds one `record.json` and every report of it. The record is a report as well: its findings are those of today's
//! judge (see `record`).
//!
//! - `one-host`, `broken-off`: real runs; the host's name, kernel and addresses are replaced.
//! - `two-hosts`: written by hand; a switch between two hosts whose port into n2 carries less than it should.
//! - `acceptance`, `slow-receiver`: real runs in the lab, the first on sound ports, the second with the port into n3
//!   at 60 %; host names, kernels, addresses and speeds are replaced. The first was shortened, and is one to sign here.
//! - `linktest`: a link test in the lab with the port into n2 at half of its speed, changed in the same way.
//! - `latency`: a plan of latencies in the lab with 500 µs of delay at the cable of n2.
//! - `patterns`: benchmarks of four ranks on one machine, whose hosts are replaced by those of `linktest`.
//! - `blocked`: the pattern of head-of-line blocking with the victim at 30 %. No switch of the lab blocks, so the
//!   victim's solo measurement was set to a good value by hand and the record was judged again.
//! - `help/`: the short help of each command. The long help is in `docs/reference/`.
//! - `several/`: reports made from more than one record.
//!
//! The others come from the lab, changed in the same way, one for each verdict word and kind of fault:
//!
//! - `slow-pair`: a pair at half of its speed.
//! - `slow-uplink`: a trunk at 60 %.
//! - `backplane`: a switch that carries 60 % of its ports.
//! - `losses`: one frame in 500 lost on its way to n3.
//! - `host-limited`: a host with hundredths of a processor.
//! - `undecided`: a port that was slow in the first test and not again.
//! - `not-as-ordered`: frames of 1500 bytes where the order says 9000.
//!
//! `PIPEBENCH_GOLDEN=rewrite cargo test --test golden` rewrites the documents, and the picture in the README; review the
//! difference.

mod commands;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use pipebench::internals::judge::{closing, verdict};
use pipebench::internals::record::{Measured, Outcome, RECORD_VERSION, Record, VerdictWord};
use pipebench::internals::report::compare::Comparison;
use pipebench::internals::report::merge::Merged;
use pipebench::internals::report::{
    csv, dry_run, header, json, junit, listing, metrics, page, text,
};

const RECORDS: [&str; 16] = [
    "one-host",
    "two-hosts",
    "broken-off",
    "acceptance",
    "slow-receiver",
    "linktest",
    "latency",
    "patterns",
    "slow-pair",
    "slow-uplink",
    "backplane",
    "losses",
    "blocked",
    "host-limited",
    "undecided",
    "not-as-ordered",
];

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden")
        .join(name)
}

/// Text of a stored document. A missing file counts as empty, so the new document shows as the difference.
fn stored(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

fn text_of(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// A stored record with the findings of today's judge, so that a golden file never has words that pipebench no longer says. The sheet stays as the
/// run wrote it if today's judge would ask for retests that the run did not make, or would come to another word.
fn record(name: &str) -> Record {
    let mut record: Record = json::read(&text_of(&folder(name).join("record.json")))
        .unwrap_or_else(|error| panic!("{name}: {error}"));
    let measured = record.measured();
    let is_whole = match measured {
        Measured::Acceptance(..) | Measured::Linktest(..) => {
            let judged = verdict::judge(&record.plan, &record.hosts, measured);
            judged.open.is_empty()
        }
        Measured::Latency(..) | Measured::Imb(..) => true,
    };
    let (said, sheet) = closing::close(closing::Ended {
        plan: &record.plan,
        hosts: &record.hosts,
        measured,
        missing: &record.missing,
        order: record.sheet.order.clone(),
        troubles: &record.troubles,
    });
    if is_whole && said.word == record.verdict.word {
        (record.verdict, record.sheet) = (said, sheet);
    }
    record
}

/// All reports of one record, by file name.
fn documents(record: &Record) -> Vec<(&'static str, String)> {
    let mut troubles = text::troubles(&record.troubles).join("\n");
    if !troubles.is_empty() {
        troubles.push('\n');
    }
    vec![
        (
            "record.json",
            json::write(record).expect("a record is JSON"),
        ),
        (
            "header.txt",
            header::options(&record.options) + &header::hosts(&record.hosts),
        ),
        ("dry-run.txt", dry_run::dry_run(&record.plan)),
        ("summary.txt", text::summary(record)),
        ("troubles.txt", troubles),
        (
            "table.csv",
            csv::write(record).expect("a record is a table"),
        ),
        ("page.html", page::write(record, None, &[])),
        (
            "junit.xml",
            junit::write(record).expect("a record has cases"),
        ),
        ("metrics.txt", metrics::write(record)),
    ]
}

/// Reports made from several records, by file name.
fn documents_of_several() -> Vec<(&'static str, String)> {
    let (sound, slow) = (record("acceptance"), record("slow-receiver"));
    // Hypothetical records: n3 moved to another switch port, or another host plugged in at its old port.
    let mut followed = slow.clone();
    followed.plan.nodes[2].switch_port = Some("Eth1/8".to_owned());
    let mut stayed = sound.clone();
    stayed.plan.nodes[2].switch_port = Some("Eth1/8".to_owned());
    stayed.plan.nodes[3].switch_port = Some("Eth1/3".to_owned());
    if let Some(port) = &mut stayed.sheet.ports[3].receive {
        port.word = VerdictWord::Fail;
    }
    let mut cleared = sound.clone();
    cleared.plan.nodes[2].switch_port = Some("Eth1/8".to_owned());
    let mut other_half = sound.clone();
    other_half.token = "cd".repeat(16);
    for (number, node) in other_half.plan.nodes.iter_mut().enumerate() {
        node.switch_port = Some(format!("Eth1/{}", number + 5));
    }
    let compared = |now: &Record| Comparison::of(&slow, now).lines(usize::MAX).join("\n") + "\n";
    let merged = |records: &[Record]| {
        let merged = Merged::of(records).expect("switch ports are named");
        merged.lines().join("\n") + "\n"
    };
    vec![
        ("followed.txt", compared(&followed)),
        ("stayed.txt", compared(&stayed)),
        ("cleared.txt", compared(&cleared)),
        ("unmoved.txt", compared(&sound)),
        ("merged.txt", merged(&[sound.clone(), other_half])),
        ("merged-fail.txt", merged(&[sound.clone(), slow.clone()])),
        (
            "list.txt",
            listing::table(&[listing::row("pb-a", &sound), listing::row("pb-b", &slow)]),
        ),
        ("page-of-patterns-beside.html", {
            let patterns = record("patterns");
            let mut slower = patterns.clone();
            slower.token = "5a".repeat(16);
            let Outcome::Imb(imb) = &mut slower.outcome else {
                panic!("patterns");
            };
            let tables = imb.tables.iter_mut();
            for times in tables
                .flat_map(|table| &mut table.lines)
                .flat_map(|line| &mut line.groups)
            {
                times.most_s *= 2.0;
            }
            page::write(&patterns, None, &[slower])
        }),
        (
            "page-with-baseline.html",
            page::write(&sound, Some(&Comparison::of(&slow, &sound)), &[]),
        ),
    ]
}

/// The first line that differs, with its number; `None` if the texts are equal.
fn difference(stored: &str, made: &str) -> Option<String> {
    if stored == made {
        return None;
    }
    let (mut left, mut right) = (stored.lines(), made.lines());
    for number in 1.. {
        let pair = (left.next(), right.next());
        if pair == (None, None) {
            return Some("they differ in the last line's end".to_owned());
        }
        if pair.0 != pair.1 {
            let show = |line: Option<&str>| line.unwrap_or("(nothing)").to_owned();
            return Some(format!(
                "line {number}\n  stored: {}\n  made:   {}",
                show(pair.0),
                show(pair.1)
            ));
        }
    }
    None
}

#[test]
fn every_report_of_a_stored_record_is_the_stored_one() {
    let several = ("several", documents_of_several());
    let each = RECORDS.map(|name| (name, documents(&record(name))));
    expect_stored(each.into_iter().chain([several]));
}

/// The short help of a command in 80 columns.
fn short_help(words: &[String]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_pipebench"))
        .args(words)
        .arg("-h")
        .env("COLUMNS", "80")
        .output()
        .expect("it starts");
    assert!(output.status.success(), "{words:?}");
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn the_short_help_of_each_command_is_the_stored_one_and_fits_a_screen_or_two() {
    /// Most lines of the help of pipebench, and of any other command.
    const SCREEN: usize = 45;
    const TWO_SCREENS: usize = 100;
    let mut help = Vec::new();
    for words in commands::commands() {
        let text = short_help(&words);
        let (file, most) = match words.is_empty() {
            true => ("pipebench.txt".to_owned(), SCREEN),
            false => (words.join("-") + ".txt", TWO_SCREENS),
        };
        let lines = text.lines().count();
        assert!(lines <= most, "{file}: {lines} lines\n{text}");
        help.push((file, text));
    }
    for line in help[0].1.lines() {
        assert!(line.chars().count() <= 80, "{line}");
    }
    let files = fs::read_dir(folder("help")).expect("a folder").count();
    let made = help.iter().map(|(file, text)| (&**file, text.clone()));
    expect_stored([("help", made.collect())]);
    assert!(rewrites() || files == help.len(), "a help of no command");
}

/// The pages of docs/reference/ are the long help of the commands, and its first page leads to all of them.
#[test]
fn the_reference_has_a_page_with_the_help_of_each_command() {
    const FOLDER: &str = "../../docs/reference";
    let first = text_of(&folder(FOLDER).join("README.md"));
    let mut pages = Vec::new();
    for words in commands::commands() {
        let title = [&["pipebench".to_owned()][..], &words].concat().join(" ");
        let file = match words.is_empty() {
            true => "pipebench.md".to_owned(),
            false => words.join("-") + ".md",
        };
        assert!(first.contains(&format!("]({file})")), "no link to {file}");
        let help = commands::help_of(&words);
        let page = format!("# {title}\n\n```text\n{}\n```\n", help.trim_end());
        pages.push((file, page));
    }
    let made = pages.iter().map(|(file, page)| (&**file, page.clone()));
    expect_stored([(FOLDER, made.collect())]);
    let files = fs::read_dir(folder(FOLDER)).expect("a folder").count();
    assert_eq!(files, pages.len() + 1, "a page of no command");
}

/// True if documents are to be written anew.
fn rewrites() -> bool {
    std::env::var("PIPEBENCH_GOLDEN").is_ok_and(|word| word == "rewrite")
}

/// Compares documents with the stored ones of their folders, or writes these anew.
fn expect_stored<'a>(all: impl IntoIterator<Item = (&'a str, Vec<(&'a str, String)>)>) {
    let mut wrong = Vec::new();
    for (name, documents) in all {
        for (file, made) in documents {
            let path = folder(name).join(file);
            if rewrites() {
                fs::write(&path, &made).expect("a writable folder");
            } else if let Some(difference) = difference(&stored(&path), &made) {
                wrong.push(format!("{name}/{file}: {difference}"));
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "{}\nif this is meant: PIPEBENCH_GOLDEN=rewrite cargo test --test golden, and review the difference",
        wrong.join("\n")
    );
}

/// The README shows the first screen of a sheet. Pixels differ between versions of Chromium, so they are not compared:
/// beside the picture are the digests of the sheet that it shows and of the picture itself.
#[test]
fn the_picture_in_the_readme_is_of_the_present_sheet() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let picture = root.join("docs/images/sheet.png");
    let digests = root.join("docs/images/sheet.sha256");
    let sheet = page::write(&record("slow-receiver"), None, &[]);
    let picture_bytes = || fs::read(&picture).unwrap_or_default();
    let expected = || {
        let line = |bytes: &[u8], name: &str| format!("{}  {name}\n", launcher::digest_of(bytes));
        line(sheet.as_bytes(), "tests/golden/slow-receiver/page.html")
            + &line(&picture_bytes(), "docs/images/sheet.png")
    };
    // The same sheet keeps its picture, whatever the version of Chromium.
    if rewrites() && stored(&digests) != expected() {
        take_picture(&sheet, &picture);
        fs::write(&digests, expected()).expect("a writable folder");
    }
    assert_eq!(
        stored(&digests),
        expected(),
        "docs/images/sheet.png does not show the present sheet: run make golden"
    );
    let bytes = picture_bytes();
    let size = bytes.len();
    assert!(
        bytes.starts_with(b"\x89PNG") && size < 100_000,
        "{size} bytes"
    );
    assert!(text_of(&root.join("README.md")).contains("](docs/images/sheet.png)"));
}

/// Stores the first screen of a sheet as a picture, drawn by Chromium.
fn take_picture(sheet: &str, to: &Path) {
    let folder = tempfile::tempdir().expect("a folder");
    let page = folder.path().join("page.html");
    fs::write(&page, sheet).expect("a file");
    let output = Command::new("chromium")
        .args(["--headless", "--no-sandbox", "--disable-gpu"])
        .args(["--disable-dev-shm-usage", "--no-first-run"])
        .args(["--hide-scrollbars", "--window-size=1000,560"])
        .arg("--blink-settings=preferredColorScheme=1")
        .arg(format!("--user-data-dir={}", folder.path().display()))
        .arg(format!("--screenshot={}", to.display()))
        .arg(format!("file://{}", page.display()))
        .env("HOME", folder.path())
        .output()
        .expect("chromium is installed");
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn a_record_that_was_written_is_read_back_as_it_was() {
    for name in RECORDS {
        let first = record(name);
        let written = json::write(&first).expect("a record is JSON");
        assert_eq!(
            json::read(&written).expect("what was written"),
            first,
            "{name}"
        );
    }
}

#[test]
fn another_version_is_refused_by_naming_both() {
    let other = RECORD_VERSION + 1;
    let mut value: serde_json::Value =
        serde_json::from_str(&text_of(&folder("one-host").join("record.json"))).expect("JSON");
    value["version"] = other.into();
    let error = json::read(&value.to_string())
        .expect_err("another version")
        .to_string();
    assert_eq!(
        error,
        format!(
            "record of version {other}; this version of pipebench reads versions 1 to {RECORD_VERSION}"
        )
    );
}

/// `version-1` has a record of each kind as version 1 stored it.
#[test]
fn records_of_version_1_are_converted() {
    let read = |kind: &str| {
        let text = text_of(&folder("version-1").join(format!("{kind}.json")));
        let record = json::read(&text).unwrap_or_else(|error| panic!("{kind}: {error}"));
        assert_eq!(
            json::read(&json::write(&record).expect("JSON")).expect("JSON"),
            record
        );
        assert!(record.outcome.has_begun(), "{kind}");
        assert!(
            documents(&record)
                .iter()
                .all(|(_, text)| !text.contains("nothing was measured"))
        );
        record
    };
    let acceptance = read("acceptance");
    assert_eq!(acceptance.tests().len(), acceptance.plan.tests().len());
    assert_eq!(
        read("linktest")
            .outcome
            .linktest()
            .expect("links")
            .rounds
            .len(),
        1
    );
    assert_eq!(
        read("latency")
            .outcome
            .latency()
            .expect("latencies")
            .pairs
            .len(),
        11
    );
    assert_eq!(read("imb").outcome.imb().expect("patterns").tables.len(), 3);
    // A run whose work did not begin had an empty list.
    let text = text_of(&folder("version-1").join("linktest.json"));
    let mut value: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    value.as_object_mut().expect("a record").remove("jobs");
    let unbegun = json::read(&value.to_string()).expect("a record");
    assert!(!unbegun.outcome.has_begun() && unbegun.outcome.linktest().is_some());
}

#[test]
fn what_is_no_record_is_said_to_be_none() {
    for text in ["", "{", "[]", "{\"version\":1}", "\u{1}pipebench"] {
        let error = json::read(text).expect_err(text).to_string();
        assert!(
            error.starts_with("not a record: ") || error.starts_with("record of version 0"),
            "{text:?}: {error}"
        );
    }
}

/// Collects one JSON pointer for each kind of number in a document. The key is the path without indices.
fn numbers(value: &serde_json::Value, at: &str, kind: &str, found: &mut BTreeMap<String, String>) {
    match value {
        serde_json::Value::Number(_) => {
            found
                .entry(kind.to_owned())
                .or_insert_with(|| at.to_owned());
        }
        serde_json::Value::Array(all) => {
            for (index, one) in all.iter().enumerate() {
                numbers(one, &format!("{at}/{index}"), &format!("{kind}/#"), found);
            }
        }
        serde_json::Value::Object(all) => {
            for (name, one) in all {
                let name = name.replace('~', "~0").replace('/', "~1");
                numbers(
                    one,
                    &format!("{at}/{name}"),
                    &format!("{kind}/{name}"),
                    found,
                );
            }
        }
        _ => {}
    }
}

#[test]
fn no_number_of_a_record_breaks_a_report() {
    let (mut tried, mut broken) = (0, Vec::new());
    for name in [
        "two-hosts",
        "linktest",
        "latency",
        "broken-off",
        "patterns",
        "slow-uplink",
        "losses",
    ] {
        let text = text_of(&folder(name).join("record.json"));
        let whole: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        let mut found = BTreeMap::new();
        numbers(&whole, "", "", &mut found);
        for (kind, at) in &found {
            for value in [0, 1, u64::MAX] {
                let mut changed = whole.clone();
                *changed.pointer_mut(at).expect("it was there") = value.into();
                // A refused record gives a one-line error; a record that is read must survive every report.
                if let Ok(read) = json::read(&changed.to_string()) {
                    let made = std::panic::catch_unwind(|| documents(&read).len());
                    if made.is_err() {
                        broken.push(format!("{name}: {kind} is {value}"));
                    }
                    tried += 1;
                }
            }
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
    assert!(tried > 500, "only {tried} numbers were tried");
}
