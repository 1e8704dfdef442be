//! Whole commands on changed files: for any file, the command ends soon, with little memory, and its output steers no terminal.
//!
//! `PIPEBENCH_FILES=2000 cargo test --test fuzz -- commands_on_changed_files` changes this many of each kind; each plain test run changes a few.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use nix::sys::resource::{UsageWho, getrusage};
use pipebench::internals::outside;

use crate::driver::stored;
use crate::mutator::{Random, mutate};
use crate::targets::{self, fabric, host_file, host_list, linktest_file, record};

const PIPEBENCH: &str = env!("CARGO_BIN_EXE_pipebench");
/// Time limit of a command, in seconds.
const LONGEST_S: &str = "5";
/// Memory limit of a command, in KiB.
const MOST_KB: i64 = 256 << 10;
/// Report formats of a record.
const FORMS: [&str; 5] = ["text", "html", "csv", "junit", "openmetrics"];
/// Golden records that `mutate` does not truncate.
const RECORDS: [&str; 6] = [
    "blocked",
    "broken-off",
    "latency",
    "linktest",
    "not-as-ordered",
    "two-hosts",
];
/// Exit codes of docs/reliability.md; none of them is a defect of the program.
const CODES: [i32; 8] = [0, 1, 2, 3, 10, 11, 20, 30];

/// A command that reads one kind of file.
struct Reader {
    /// Words of the command; `FILE` and `TEXT` stand for the file and its content.
    command: &'static str,
    words: &'static [&'static str],
    samples: Vec<Vec<u8>>,
}

fn readers() -> Vec<Reader> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let corpus = |name: &str| stored(&root.join("fuzz/corpus").join(name));
    let one_fabric = |name: &str| {
        let path = root.join("fuzz/corpus/fabric").join(name);
        vec![fs::read(path).expect("a sample")]
    };
    let records = RECORDS.iter().map(|name| {
        let path = root.join("tests/golden").join(name).join("record.json");
        fs::read(path).expect("a golden record")
    });
    let plan = Command::new(PIPEBENCH).args(["init", "-"]).output();
    let plan = vec![plan.expect("a plan is written").stdout];
    let import = "latency import --ibnetdiscover FILE --tables FILE";
    let reader = |command, words, samples| Reader {
        command,
        words,
        samples,
    };
    vec![
        reader(
            "linktest show FILE",
            linktest_file::WORDS,
            corpus("linktest_file"),
        ),
        reader(import, fabric::WORDS, one_fabric("both")),
        reader(
            "latency import --table FILE",
            fabric::WORDS,
            one_fabric("ports"),
        ),
        reader(
            "latency plan FILE",
            fabric::WORDS,
            one_fabric("description"),
        ),
        reader("run FILE --dry-run", targets::plan::WORDS, plan),
        reader(
            "report FILE --format FORM",
            record::WORDS,
            records.collect(),
        ),
        reader(
            "--hostfile FILE --dry-run",
            host_file::WORDS,
            corpus("host_file"),
        ),
        reader(
            "--hosts TEXT --dry-run",
            host_list::WORDS,
            corpus("host_list"),
        ),
    ]
}

/// Runs a command on this file, and returns the defect it shows, if any.
fn wrong(reader: &Reader, random: &mut Random, path: &Path, bytes: &[u8]) -> Option<String> {
    fs::write(path, bytes).expect("a file is written");
    let text: String = String::from_utf8_lossy(bytes).replace('\0', " ");
    // Linux limits one command-line argument to 128 KiB.
    let words = reader.command.split(' ').map(|word| match word {
        "FILE" => path.display().to_string(),
        "FORM" => FORMS[random.below(FORMS.len())].to_owned(),
        "TEXT" => text.clone(),
        word => word.to_owned(),
    });
    let output = Command::new("timeout")
        .args(["--signal=KILL", LONGEST_S, PIPEBENCH])
        .args(words)
        .stdin(Stdio::null())
        .output()
        .expect("the command starts");
    let errors = String::from_utf8_lossy(&output.stderr);
    let Some(code) = output.status.code() else {
        return Some(format!("not done in {LONGEST_S} s"));
    };
    if !CODES.contains(&code) || errors.contains("panicked") {
        return Some(format!("ended with {code}: {errors}"));
    }
    let said = String::from_utf8_lossy(&output.stdout);
    let steers = |letter: char| outside::steers(letter) && letter != '\n';
    if said.contains(steers) || errors.contains(steers) {
        return Some(format!("it steers the terminal: {errors}"));
    }
    let complaints = errors
        .lines()
        .filter(|line| line.starts_with("pipebench: "));
    if code == 2 && complaints.count() != 1 {
        return Some(format!("not one complaint: {errors}"));
    }
    let children = getrusage(UsageWho::RUSAGE_CHILDREN).expect("own children");
    (children.max_rss() > MOST_KB).then(|| format!("it took {} MiB", children.max_rss() >> 10))
}

#[test]
fn commands_on_changed_files_end_soon_with_little_memory_and_one_line() {
    let count = std::env::var("PIPEBENCH_FILES").ok();
    let count: u32 = count.map_or(25, |count| count.parse().expect("a number"));
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("changed");
    let mut failures = Vec::new();
    for reader in readers() {
        let mut random = Random::new(u64::from(count));
        let (begun, before) = (Instant::now(), failures.len());
        for number in 1..=count {
            let one = random.below(reader.samples.len());
            let two = random.below(reader.samples.len());
            let (one, two) = (&reader.samples[one], &reader.samples[two]);
            let bytes = mutate(&mut random, one, two, reader.words);
            if let Some(what) = wrong(&reader, &mut random, &path, &bytes) {
                let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/artifacts");
                fs::create_dir_all(&kept).expect("a folder");
                let kept = kept.join(format!("{}-{number}", reader.command.replace(' ', "-")));
                fs::copy(&path, &kept).expect("kept");
                failures.push(format!("{} {number}: {what}", reader.command));
            }
        }
        let children = getrusage(UsageWho::RUSAGE_CHILDREN).expect("own children");
        eprintln!(
            "{}: {count} changed, {} wrong, {:.1} s, so far at most {} MiB",
            reader.command,
            failures.len() - before,
            begun.elapsed().as_secs_f64(),
            children.max_rss() >> 10
        );
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
