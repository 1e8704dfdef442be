//! Whole commands on hostile files: for any file, the command ends soon, with little memory, and its output steers no terminal.
//!
//! `PIPEBENCH_FILES=2000 cargo test --test fuzz -- commands_on_changed_files` changes this many of each kind; each plain test run changes a few.
//! Changed files have at most 64 KiB. Files of the largest size that a reader takes have their own tests.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use pipebench::internals::outside;

use crate::driver::stored;
use crate::mutator::{Random, mutate};
use crate::targets::{self, fabric, host_file, host_list, linktest_file, record};

const PIPEBENCH: &str = env!("CARGO_BIN_EXE_pipebench");
/// Time limit of a command, in seconds.
const LONGEST_S: &str = "5";
/// Memory limit of a command: 256 MiB of data. One that asks for more ends with a signal.
const MOST_DATA: &str = "--data=268435456";
/// Least share of changed files, in per cent, that a reader understands beyond the first line.
const LEAST_DEEP: u32 = 30;
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
/// Exit codes of README.md; none of them is a defect of the program.
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
    // Lists of several entries: one of a single entry has nothing beyond the first. The last seeds stand for too many hosts.
    let entries = corpus("host_list");
    let lists = entries[..7].windows(3).map(|three| three.join(&b","[..]));
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
        reader("--hosts TEXT --dry-run", host_list::WORDS, lists.collect()),
    ]
}

/// Runs a command on this file. Returns true if the reader came beyond the first line, or the defect that the command shows.
fn run(reader: &Reader, random: &mut Random, path: &Path, bytes: &[u8]) -> Result<bool, String> {
    fs::write(path, bytes).expect("a file is written");
    let text: String = String::from_utf8_lossy(bytes).replace('\0', " ");
    // Linux limits one command-line argument to 128 KiB.
    let words = reader.command.split(' ').map(|word| match word {
        "FILE" => path.display().to_string(),
        "FORM" => FORMS[random.below(FORMS.len())].to_owned(),
        "TEXT" => text.clone(),
        word => word.to_owned(),
    });
    let (code, errors) = bounded(&["prlimit", MOST_DATA], words)?;
    Ok(code != 2 || is_deep(&errors))
}

/// Runs a command for a limited time, below another one that limits its memory. Returns its exit code and its errors, or the defect
/// that it shows.
pub fn bounded(
    limit: &[&str],
    words: impl Iterator<Item = String>,
) -> Result<(i32, String), String> {
    let output = Command::new("timeout")
        .args(["--signal=KILL", LONGEST_S])
        .args(limit)
        .arg(PIPEBENCH)
        .args(words)
        .stdin(Stdio::null())
        .output()
        .expect("the command starts");
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    let Some(code) = output.status.code() else {
        return Err(format!("not done in {LONGEST_S} s"));
    };
    if !CODES.contains(&code) || errors.contains("panicked") {
        return Err(format!("ended with {code}: {errors}"));
    }
    let said = String::from_utf8_lossy(&output.stdout);
    let steers = |letter: char| outside::steers(letter) && letter != '\n';
    if said.contains(steers) || errors.contains(steers) {
        return Err(format!("it steers the terminal: {errors}"));
    }
    let complaints = errors
        .lines()
        .filter(|line| line.starts_with("pipebench: "));
    if code == 2 && complaints.count() != 1 {
        return Err(format!("not one complaint: {errors}"));
    }
    Ok((code, errors))
}

/// True if an error is about something after the first line, after the first byte of a file without lines, or after the first entry of a
/// list of hosts.
fn is_deep(error: &str) -> bool {
    let after = |word: &str| -> Option<u64> {
        let rest = error.split(word).nth(1)?;
        let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
        digits.parse().ok()
    };
    let places = [" line ", " at byte ", "changed:", " at column "];
    places
        .into_iter()
        .find_map(after)
        .is_some_and(|place| place > 1)
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
        let (begun, before, mut deep) = (Instant::now(), failures.len(), 0);
        for number in 1..=count {
            let one = random.below(reader.samples.len());
            let two = random.below(reader.samples.len());
            let (one, two) = (&reader.samples[one], &reader.samples[two]);
            let bytes = mutate(&mut random, one, two, reader.words);
            match run(&reader, &mut random, &path, &bytes) {
                Ok(is_deep) => deep += u32::from(is_deep),
                Err(what) => {
                    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/artifacts");
                    fs::create_dir_all(&kept).expect("a folder");
                    let kept = kept.join(format!("{}-{number}", reader.command.replace(' ', "-")));
                    fs::copy(&path, &kept).expect("kept");
                    failures.push(format!("{} {number}: {what}", reader.command));
                }
            }
        }
        eprintln!(
            "{}: {count} changed, {deep} read beyond the first line, {} wrong, {:.1} s",
            reader.command,
            failures.len() - before,
            begun.elapsed().as_secs_f64()
        );
        if deep * 100 < count * LEAST_DEEP {
            failures.push(format!(
                "{}: {deep} of {count} are read beyond the first line",
                reader.command
            ));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
