//! The few rules that matter, as tests that read the source: one-way layers, where unsafe code and endings may
//! stand, what is pure, how long a file may be. A rule that makes the code worse is changed here, with a reason.

#[path = "rules/imports.rs"]
mod imports;
#[path = "rules/shown.rs"]
mod shown;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use imports::{File, Imports, circles};

/// Folders and files of `src/`, lowest first: each may use its own and the lower ones.
const LAYERS: [&str; 21] = [
    "units",
    "outside",
    "plan",
    "record",
    "exit",
    "stats",
    "judge",
    "sys",
    "wire",
    "link",
    "buffer",
    "pipeline",
    "ranks",
    "jobs",
    "node",
    "controller",
    "store",
    "report",
    "web",
    "cli",
    "internals",
];

/// Uses of a higher layer that are allowed: who, whom, why. None is needed so far.
const EXCEPTIONS: [(&str, &str, &str); 0] = [];

/// Who may use the launcher's crate: controller and cli start hosts; report folds and unfolds host names, which is pure.
/// Which characters steer a terminal, both say in the same way.
const MAY_USE_LAUNCHER: [&str; 5] = ["outside", "judge", "controller", "report", "cli"];

/// Layers that neither do input or output nor read a clock.
const PURE: [&str; 4] = ["plan", "stats", "judge", "report"];

/// All folders with source.
const EVERYTHING: [&str; 8] = [
    "src",
    "latency/src",
    "latency/tests",
    "launcher/src",
    "launcher/tests",
    "numbers/src",
    "tests",
    "fuzz",
];

const LONGEST_FILE: usize = 800;
/// Test programs are lists of cases that are read one at a time.
const LONGEST_TEST_FILE: usize = 1000;

/// One source file: its path below the repository, the lines before its tests, and those of its tests.
struct Source {
    path: String,
    code: Vec<String>,
    tests: Vec<String>,
}

impl Source {
    /// Folder or file below `src/`, without extension.
    fn layer(&self) -> Option<&str> {
        let inside = self.path.strip_prefix("src/")?;
        let first = inside.split('/').next()?;
        Some(first.strip_suffix(".rs").unwrap_or(first))
    }

    /// Lines of code with their numbers, without comments and without the content of strings.
    fn bare(&self) -> impl Iterator<Item = (usize, String)> {
        bare(&self.code)
    }

    fn at(&self, number: usize) -> String {
        format!("{}:{number}", self.path)
    }
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn rust_files(folder: &Path, found: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(folder) else {
        return;
    };
    for entry in entries {
        let path = entry.expect("a readable folder").path();
        if path.is_dir() {
            rust_files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

fn sources(folders: &[&str]) -> Vec<Source> {
    let mut paths = Vec::new();
    for folder in folders {
        rust_files(&root().join(folder), &mut paths);
    }
    paths.sort();
    assert!(!paths.is_empty(), "no source in {folders:?}");
    paths
        .into_iter()
        .map(|path| {
            let text = fs::read_to_string(&path).expect("a readable file");
            let lines: Vec<String> = text.lines().map(str::to_owned).collect();
            // Tests stand at the bottom of their file, or in one of their own beside it.
            let own = path.ends_with("tests.rs");
            let end = lines
                .iter()
                .position(|line| own || line == "#[cfg(test)]")
                .unwrap_or(lines.len());
            let path = path.strip_prefix(root()).expect("below the root");
            Source {
                path: path.to_string_lossy().into_owned(),
                tests: lines[end..].to_vec(),
                code: lines[..end].to_vec(),
            }
        })
        .collect()
}

/// Lines without comments and without the content of strings. Good enough for this source: a string that
/// goes on over several lines is followed, raw strings and block comments do not occur outside of tests.
fn bare(lines: &[String]) -> impl Iterator<Item = (usize, String)> {
    let mut inside = false;
    lines.iter().enumerate().map(move |(index, line)| {
        let mut kept = String::new();
        let mut letters = line.chars().peekable();
        while let Some(letter) = letters.next() {
            match letter {
                '\\' if inside => {
                    letters.next();
                }
                '"' if !inside && kept.ends_with('\'') => kept.push(letter), // The character '"'.
                '"' => inside = !inside,
                '/' if !inside && letters.peek() == Some(&'/') => break,
                _ if inside => {}
                _ => kept.push(letter),
            }
        }
        (index + 1, kept)
    })
}

/// Words that follow `prefix` in a line, as in `crate::NAME` or `crate::{NAME, NAME}`.
fn names_after<'line>(line: &'line str, prefix: &str) -> Vec<&'line str> {
    line.match_indices(prefix)
        .filter(|(at, _)| {
            let before = line[..*at].chars().next_back();
            !before.is_some_and(|letter| letter.is_alphanumeric() || letter == '_' || letter == ':')
        })
        .flat_map(|(at, _)| {
            let rest = &line[at + prefix.len()..];
            if let Some((names, _)) = rest.strip_prefix('{').and_then(|rest| rest.split_once('}')) {
                return names.split(',').map(str::trim).collect::<Vec<_>>();
            }
            let end = rest
                .find(|letter: char| !letter.is_alphanumeric() && letter != '_')
                .unwrap_or(rest.len());
            vec![&rest[..end]]
        })
        .collect()
}

fn rank(layer: &str) -> usize {
    LAYERS
        .iter()
        .position(|known| *known == layer)
        .unwrap_or_else(|| panic!("{layer} has no place in LAYERS (tests/rules.rs): give it one"))
}

#[track_caller]
fn expect_none(found: &[String]) {
    assert!(found.is_empty(), "\n{}", found.join("\n"));
}

#[test]
fn each_layer_uses_its_own_and_the_lower_ones() {
    let mut wrong = Vec::new();
    for source in sources(&["src"]) {
        let Some(layer) = source
            .layer()
            .filter(|layer| !["main", "lib"].contains(layer))
        else {
            continue;
        };
        for (number, line) in source.bare().chain(bare(&source.tests)) {
            assert!(
                !line.contains("super::super"),
                "{}: name the layer, so that this test can read it",
                source.at(number)
            );
            for used in names_after(&line, "crate::") {
                assert!(
                    !used.is_empty(),
                    "{}: write one `use crate::` line per layer",
                    source.at(number)
                );
                let allowed = rank(used) <= rank(layer)
                    || EXCEPTIONS
                        .iter()
                        .any(|(who, whom, _)| (*who, *whom) == (layer, used));
                if !allowed {
                    wrong.push(format!(
                        "{}: {layer} uses {used}, a higher layer",
                        source.at(number)
                    ));
                }
            }
            if !names_after(&line, "launcher::").is_empty() && !MAY_USE_LAUNCHER.contains(&layer) {
                wrong.push(format!("{}: {layer} uses the launcher", source.at(number)));
            }
            if ["report", "judge"].contains(&layer)
                && line.contains("launcher::")
                && !line.contains("launcher::hosts::fold")
                && !line.contains("launcher::hosts::parse")
                && !line.contains("launcher::hosts::shorten")
            {
                wrong.push(format!(
                    "{}: {layer} may only fold and unfold host names",
                    source.at(number)
                ));
            }
        }
    }
    expect_none(&wrong);
}

/// Files of a crate as the reader of imports wants them.
fn files(folder: &str) -> Vec<File> {
    let file = |source: Source| File {
        code: source.bare().map(|(_, line)| line + "\n").collect(),
        path: source.path,
    };
    sources(&[folder]).into_iter().map(file).collect()
}

#[test]
fn files_use_each_other_one_way() {
    let mut wrong = Vec::new();
    for folder in ["src", "latency/src", "launcher/src", "numbers/src"] {
        let files = files(folder);
        let edges = Imports::new(&files).edges();
        for circle in circles(&edges) {
            let uses = |from: &usize| {
                let within = edges[*from].intersection(&circle);
                let within: Vec<&str> = within.map(|to| files[*to].path.as_str()).collect();
                format!("  {} uses {}", files[*from].path, within.join(" "))
            };
            let lines: Vec<String> = circle.iter().map(uses).collect();
            wrong.push(format!("a circle:\n{}", lines.join("\n")));
        }
    }
    expect_none(&wrong);
}

#[test]
fn every_layer_of_the_list_exists() {
    let there: BTreeSet<String> = sources(&["src"])
        .iter()
        .filter_map(|source| Some(source.layer()?.to_owned()))
        .filter(|layer| !["main", "lib", "bin"].contains(&layer.as_str()))
        .collect();
    let listed: BTreeSet<String> = LAYERS.iter().map(|layer| (*layer).to_owned()).collect();
    assert_eq!(there, listed);
}

#[test]
fn a_file_is_named_after_what_is_in_it() {
    const NAMES: [&str; 4] = ["common", "helper", "misc", "util"];
    let mut wrong = Vec::new();
    for source in sources(&["src", "latency/src", "launcher/src", "numbers/src", "fuzz"]) {
        let path = Path::new(&source.path).with_extension("");
        for name in path.iter().filter_map(|name| name.to_str()) {
            if NAMES.contains(&name.trim_end_matches('s')) {
                wrong.push(format!("{}: \"{name}\" says nothing", source.path));
            }
        }
    }
    expect_none(&wrong);
}

/// "block" and "slot" are not in this list: ciphers have blocks too, and other launchers' host files have slots.
#[test]
fn the_launcher_knows_nothing_of_benchmarks() {
    const WORDS: [&str; 9] = [
        "phase",
        "phases",
        "switch",
        "pipeline",
        "benchmark",
        "boundary",
        "bandwidth",
        "sink",
        "receiver_side",
    ];
    let mut wrong = Vec::new();
    for source in sources(&["launcher/src"]) {
        for (number, line) in source.bare() {
            let words = line
                .split(|letter: char| !letter.is_alphanumeric())
                .flat_map(split_camel)
                .map(|word| word.to_lowercase());
            for word in words.filter(|word| WORDS.contains(&word.as_str())) {
                wrong.push(format!("{}: {word}", source.at(number)));
            }
            // The name of the program's folder on a host is all that it may know.
            if line.contains("pipebench") {
                wrong.push(format!("{}: names the program", source.at(number)));
            }
        }
    }
    let manifest = fs::read_to_string(root().join("launcher/Cargo.toml")).expect("a manifest");
    if manifest.contains("pipebench") || manifest.contains("path = \"..\"") {
        wrong.push("launcher/Cargo.toml: depends on the root crate".to_owned());
    }
    expect_none(&wrong);
}

/// `HeldBy` is `Held` and `By`.
fn split_camel(word: &str) -> Vec<&str> {
    let mut starts: Vec<usize> = word
        .char_indices()
        .filter(|(_, letter)| letter.is_uppercase())
        .map(|(at, _)| at)
        .collect();
    starts.insert(0, 0);
    starts.push(word.len());
    starts.dedup();
    starts
        .windows(2)
        .map(|ends| &word[ends[0]..ends[1]])
        .collect()
}

#[test]
fn unsafe_code_is_in_sys_alone() {
    let mut wrong = Vec::new();
    for source in sources(&EVERYTHING) {
        if source.layer() == Some("sys") || source.path == "tests/rules.rs" {
            continue;
        }
        for (number, line) in source.bare().chain(bare(&source.tests)) {
            let words: Vec<&str> = line
                .split(|letter: char| !letter.is_alphanumeric() && letter != '_')
                .collect();
            if words.contains(&"unsafe") {
                wrong.push(source.at(number));
            }
        }
    }
    expect_none(&wrong);
}

#[test]
fn every_block_of_unsafe_code_says_why_it_holds() {
    let mut wrong = Vec::new();
    for source in sources(&["src/sys"]) {
        for (number, line) in source.bare() {
            let first = number.saturating_sub(7);
            let said = source.code[first..number]
                .iter()
                .any(|line| line.contains("SAFETY:"));
            if line.contains("unsafe {") && !said {
                wrong.push(source.at(number));
            }
        }
    }
    expect_none(&wrong);
}

/// A number of a process can belong to another one, of another user even, as soon as it is reaped.
#[test]
fn signals_are_sent_where_the_number_cannot_belong_to_another_process() {
    const SENDS: [&str; 9] = [
        "kill(",
        "killpg(",
        "kill_group(",
        "kill_parent(",
        "raise(",
        "sigqueue(",
        "SYS_kill",
        "SYS_tgkill",
        "SYS_pidfd_send_signal",
    ];
    const MAY_SEND: [(&str, &str); 9] = [
        (
            "src/sys/process.rs",
            "to a held process, or to a child before it is reaped",
        ),
        (
            "src/sys/signals.rs",
            "the doorbell, which a process that does not wait for it ignores",
        ),
        ("src/sys/lldp.rs", "a child that is not reaped"),
        ("src/node/ranks.rs", "children that are not reaped"),
        ("src/node/run.rs", "children that are not reaped"),
        ("src/pipeline/phase.rs", "its parent, which is held"),
        ("src/web/runner.rs", "a child that is not reaped"),
        ("src/cli/pdf.rs", "a child that is not reaped"),
        (
            "launcher/src/session/child.rs",
            "a child that is not reaped",
        ),
    ];
    let mut wrong = Vec::new();
    for source in sources(&["src", "launcher/src", "latency/src", "numbers/src"]) {
        if MAY_SEND.iter().any(|(known, _)| *known == source.path) {
            continue;
        }
        for (number, line) in source.bare() {
            for way in SENDS.iter().filter(|way| line.contains(**way)) {
                wrong.push(format!("{}: sends a signal: {way}", source.at(number)));
            }
        }
    }
    expect_none(&wrong);
}

#[test]
fn nothing_is_unwrapped_or_left_to_do() {
    const BANNED: [&str; 4] = [".unwrap()", "todo!(", "unimplemented!(", "dbg!("];
    let mut wrong = Vec::new();
    for source in sources(&["src", "launcher/src"]) {
        for (number, line) in source.bare() {
            for banned in BANNED.iter().filter(|banned| line.contains(**banned)) {
                wrong.push(format!("{}: {banned}", source.at(number)));
            }
        }
        for (number, line) in bare(&source.tests) {
            for banned in BANNED[1..].iter().filter(|banned| line.contains(**banned)) {
                wrong.push(format!(
                    "{}: {banned}",
                    source.at(source.code.len() + number)
                ));
            }
        }
    }
    expect_none(&wrong);
}

#[test]
fn what_comes_from_outside_is_read_in_one_place() {
    // Clean and bounded: a string that steers the terminal, or a file without end, is none that anybody has to think of.
    const PARSES: [&str; 3] = [
        "serde_json::from_str",
        "serde_json::from_slice",
        "serde_json::from_reader",
    ];
    const READS: [&str; 3] = ["read_to_string(", "fs::read(", "read_to_end("];
    const MAY_PARSE: [(&str, &str); 5] = [
        ("src/outside.rs", "the place"),
        (
            "src/node/channel.rs",
            "the launching side is trusted, and names of files stay as they are",
        ),
        ("src/node/ranks.rs", "ranks are processes of the node"),
        ("src/node/rank.rs", "its node is trusted"),
        ("src/node/run.rs", "the node's own children"),
    ];
    const MAY_READ: [(&str, &str); 5] = [
        ("src/store/bounded.rs", "the place"),
        ("src/web/rate_limit.rs", "a file of its own, that it holds"),
        ("src/web/logouts.rs", "another one"),
        ("src/web/cgi.rs", "a body of bounded length"),
        ("src/web/runner.rs", "its request, of bounded length"),
    ];
    let mut wrong = Vec::new();
    let allowed = |list: &[(&str, &str)], path: &str| list.iter().any(|(known, _)| *known == path);
    for source in sources(&["src"]) {
        let is_system = source.layer() == Some("sys");
        for (number, line) in source.bare() {
            let parses = PARSES.iter().any(|way| line.contains(way));
            let reads = READS.iter().any(|way| line.contains(way));
            if parses && !allowed(&MAY_PARSE, &source.path) {
                wrong.push(format!("{}: read it by outside::read", source.at(number)));
            }
            if reads && !is_system && !allowed(&MAY_READ, &source.path) {
                wrong.push(format!("{}: read it by store::bounded", source.at(number)));
            }
        }
        let count = |what: &str| source.bare().filter(|line| line.1.contains(what)).count();
        if count("csv::Writer::from_writer") != count("finish(writer)") {
            wrong.push(format!("{}: end each table by cells::finish", source.path));
        }
    }
    expect_none(&wrong);
}

#[test]
fn a_process_ends_through_one_gate() {
    // A forked child must leave without destructors, which belong to its parent; everybody else returns a code.
    const GATE: &str = "src/sys/process.rs";
    let mut wrong = Vec::new();
    for source in sources(&["src", "launcher/src"]) {
        for (number, line) in source.bare() {
            let ends = ["process::exit(", "process::abort(", "_exit("]
                .iter()
                .any(|way| line.contains(way));
            if ends && source.path != GATE {
                wrong.push(source.at(number));
            }
            if line.contains("fork()") && source.path != GATE {
                wrong.push(format!("{}: forks", source.at(number)));
            }
        }
    }
    expect_none(&wrong);
}

/// Whatever a host says is its own fault: the launching side reports a defect of pipebench in one place only.
#[test]
fn no_words_of_a_host_are_a_defect_of_pipebench() {
    let mut wrong = Vec::new();
    for source in sources(&["src/controller"]) {
        if source.path == "src/controller/lifecycle.rs" {
            continue; // A run that broke off without any reason.
        }
        for (number, line) in source.bare() {
            if line.contains("TroubleKind::Bug") {
                wrong.push(source.at(number));
            }
        }
    }
    expect_none(&wrong);
}

#[test]
fn files_stay_readable() {
    let mut wrong = Vec::new();
    for source in sources(&EVERYTHING) {
        let program = source.layer().is_some() || source.path.starts_with("launcher/src");
        let limit = if program {
            LONGEST_FILE
        } else {
            LONGEST_TEST_FILE
        };
        // Tests at the bottom of a file count separately.
        let longest = source.code.len().max(source.tests.len());
        if longest > limit {
            wrong.push(format!(
                "{}: {longest} lines, the limit is {limit}",
                source.path
            ));
        }
        let mut lines = source.code.iter().chain(&source.tests);
        if !lines.next().is_some_and(|line| line.starts_with("//!")) {
            wrong.push(format!(
                "{}: does not begin with //! and its duty",
                source.path
            ));
        }
    }
    expect_none(&wrong);
}

#[test]
fn the_build_looks_for_changes_in_every_crate() {
    let read = |path: &str| fs::read_to_string(root().join(path)).expect(path);
    let (manifest, build) = (read("Cargo.toml"), read("build.rs"));
    let listed = manifest.split("members = [").nth(1).expect("members");
    let listed = listed.split(']').next().expect("a list");
    for member in listed.split('"').skip(1).step_by(2) {
        assert!(
            build.contains(&format!("\"{member}/src\""))
                && build.contains(&format!("\"{member}/Cargo.toml\"")),
            "build.rs does not look at {member}"
        );
    }
}

#[test]
fn no_test_is_ignored() {
    let mut wrong = Vec::new();
    for source in sources(&EVERYTHING) {
        for (number, line) in source.bare().chain(bare(&source.tests)) {
            if line.trim_start().starts_with("#[ignore") {
                wrong.push(source.at(number));
            }
        }
    }
    expect_none(&wrong);
}

#[test]
fn pure_layers_do_no_input_or_output_and_read_no_clock() {
    const BANNED: [&str; 13] = [
        "crate::sys",
        "std::fs",
        "std::net::Tcp",
        "std::net::Udp",
        "std::io",
        "std::env",
        "std::process",
        "std::thread",
        "Instant",
        "SystemTime",
        "clock::",
        "print!(",
        "println!(",
    ];
    let mut wrong = Vec::new();
    for source in sources(&["src", "latency/src", "numbers/src"]) {
        if source.layer().is_some_and(|layer| !PURE.contains(&layer)) {
            continue;
        }
        for (number, line) in source.bare() {
            for banned in BANNED.iter().filter(|banned| line.contains(**banned)) {
                wrong.push(format!("{}: {banned}", source.at(number)));
            }
        }
    }
    expect_none(&wrong);
}

/// A clock that is set during a run must change nothing but dates: what measures and what waits uses the monotonic
/// one, which nobody can set.
#[test]
fn the_wall_clock_dates_and_does_nothing_else() {
    // Where it is read, and what is made of it.
    const READERS: [(&str, &str); 4] = [
        ("src/sys/clock.rs", "the reading itself"),
        (
            "src/cli/process.rs",
            "the date of the record, and a part of the seed",
        ),
        ("src/node/lock.rs", "since when a host is busy, for eyes"),
        ("src/node/census.rs", "how old a run is, for eyes"),
    ];
    const WALL: [&str; 6] = [
        "SystemTime",
        "UNIX_EPOCH",
        "wall_ms()",
        "CLOCK_REALTIME",
        "gettimeofday",
        "libc::time(",
    ];
    let mut wrong = Vec::new();
    let mut seen = BTreeSet::new();
    for source in sources(&["src", "launcher/src"]) {
        for (number, line) in source.bare() {
            if !WALL.iter().any(|word| line.contains(word)) {
                continue;
            }
            match READERS.iter().find(|(path, _)| *path == source.path) {
                Some((path, _)) => {
                    seen.insert(*path);
                    // Nobody compares two of its readings.
                    if line.contains("elapsed") || line.contains("wall_ms() - ") {
                        wrong.push(format!("{}: measures by the wall clock", source.at(number)));
                    }
                }
                None => wrong.push(format!("{}: reads the wall clock", source.at(number))),
            }
        }
    }
    expect_none(&wrong);
    assert_eq!(seen.len(), READERS.len(), "a reader is gone: {seen:?}");
}

/// Waiting for a condition sleeps in a loop that has an end; a sleep alone is a guess about speed.
#[test]
fn tests_sleep_only_while_they_wait_for_something() {
    // Where, and why it is no guess.
    const EXCEPTIONS: [(&str, &str); 2] = [
        (
            "tests/labs/selftest.rs",
            "the process that sleeps is there to be killed, and fails if nobody does",
        ),
        (
            "tests/truth/mod.rs",
            "a cable is out and in for so long each time: what is done to the fabric, no wait for it",
        ),
    ];
    const REACH: usize = 16;
    let mut wrong = Vec::new();
    for source in sources(&EVERYTHING) {
        if EXCEPTIONS.iter().any(|(path, _)| *path == source.path) {
            continue;
        }
        let is_test = source.path.contains("tests/") || source.path.starts_with("fuzz/");
        let lines = if is_test { &source.code } else { &source.tests };
        let bare: Vec<String> = bare(lines).map(|(_, line)| line).collect();
        for (index, line) in bare.iter().enumerate() {
            if !line.contains("thread::sleep(") {
                continue;
            }
            let before = &bare[index.saturating_sub(REACH)..index];
            let any = |words: &[&str]| {
                before
                    .iter()
                    .any(|line| words.iter().any(|word| line.contains(word)))
            };
            let loops = any(&["while ", "loop {", "for "]);
            let bounded = any(&[
                "Instant::now()",
                "elapsed()",
                "deadline",
                "until",
                " in 0..",
            ]);
            if !(loops && bounded) {
                wrong.push(format!(
                    "{}: sleeps outside of a bounded wait",
                    source.at(index + 1)
                ));
            }
        }
    }
    expect_none(&wrong);
}

/// Paths and texts of what a user meets: strings and help of the programs, assets and API of the web interface, the
/// template of a plan, pages, changes and examples.
fn texts_of_users() -> Vec<(String, String)> {
    let mut texts = Vec::new();
    for source in sources(&["src", "launcher/src", "latency/src", "numbers/src"]) {
        if !source.path.ends_with("/tests.rs") {
            let lines: Vec<String> = [source.code, source.tests].concat();
            // Comments of types and handlers are the description of the API.
            let is_described = |line: &String| line.contains("utoipa");
            let is_help =
                source.path.starts_with("src/cli/args/") || lines.iter().any(is_described);
            texts.push((source.path, shown::shown(&lines.join("\n"), is_help)));
        }
    }
    let single = ["README.md", "CHANGELOG.md", "src/cli/plan.toml"];
    let mut paths: Vec<PathBuf> = single.map(|name| root().join(name)).to_vec();
    for folder in ["docs", "examples", "examples/kubernetes", "src/web/assets"] {
        let entries = fs::read_dir(root().join(folder)).expect("a readable folder");
        let entries = entries.map(|entry| entry.expect("a readable folder").path());
        paths.extend(entries.filter(|path| path.is_file())); // Not docs/dev.
    }
    for path in paths {
        let text = fs::read_to_string(&path).expect("a readable file");
        let path = path.strip_prefix(root()).expect("below the root");
        texts.push((path.to_string_lossy().into_owned(), text));
    }
    texts
}

/// "Style" in CONTRIBUTING.md says what to write instead.
#[test]
fn no_text_that_a_user_meets_has_a_word_that_must_be_read_twice() {
    const PHRASES: [&str; 20] = [
        "behind",
        "whoever",
        "nobody",
        "somebody",
        "is told",
        "are told",
        "by itself",
        "as ordered",
        "was ordered",
        "in the middle",
        "amiss",
        "asked of",
        "held against",
        "broke off",
        "besides",
        "of its own accord",
        "second look",
        "second looks",
        "whatever it be",
        "comes by",
    ];
    // File, phrase, and why it stays: what is behind something has a place there, and does not come after it.
    const MAY_STAY: [(&str, &str, &str); 8] = [
        ("docs/guide.md", "behind", "hosts behind an uplink"),
        ("docs/judging.md", "behind", "ports behind an uplink"),
        ("docs/threats.md", "behind", "hidden behind other files"),
        ("examples/cluster.hosts", "behind", "hosts behind an uplink"),
        ("examples/web.toml", "behind", "a server behind a proxy"),
        ("src/cli/args/launch.rs", "behind", "behind a jump host"),
        (
            "src/cli/args/sockets.rs",
            "behind",
            "behind a packet filter",
        ),
        (
            "src/jobs/imb/files.rs",
            "behind",
            "a name in a format string",
        ),
    ];
    let mut wrong = Vec::new();
    for (path, text) in texts_of_users() {
        for (number, phrase) in shown::find(&text, &PHRASES) {
            let stays = |(file, what, _): &(&str, &str, &str)| *file == path && *what == phrase;
            if !MAY_STAY.iter().any(stays) {
                wrong.push(format!("{path}:{number}: {phrase:?}"));
            }
        }
    }
    expect_none(&wrong);
}

#[test]
fn a_phrase_is_found_in_strings_and_help_alone() {
    let source = [
        "/// Ports that nobody\n/// uses.",
        "let a = '\"'; // nobody",
        "let b: &'static str = \"\\\"\\nNobody's: it is \\",
        "  told\"; /* nobody */ let c = nobody(\"is\", \"told\", \"nobody_else\");",
        "let d = r#\"\" nobody\"#; let e = ('\\'', 'x', \"is told\");",
        "#[cfg(test)]\nmod tests;\nlet f = \"nobody\";",
        "#[cfg(test)]\nmod tests {\n\"nobody\"",
    ]
    .join("\n");
    let find = |is_help| shown::find(&shown::shown(&source, is_help), &["nobody", "is told"]);
    let in_strings = [
        (4, "nobody"),
        (4, "is told"),
        (6, "nobody"),
        (6, "is told"),
        (9, "nobody"),
    ];
    assert_eq!(find(false), in_strings);
    assert_eq!(find(true)[0], (1, "nobody"));
    assert_eq!(find(true)[1..], in_strings);
}

#[test]
fn the_readers_of_source_see_what_they_should() {
    let lines = [
        "let a = \"crate::cli // no\"; // crate::cli",
        "use crate::sys::why; let c = '\"'; super::crate::y; crate::{a, b};",
        "\"begins",
        "unsafe\" + unsafe",
    ]
    .map(str::to_owned);
    let seen: Vec<String> = bare(&lines).map(|(_, line)| line).collect();
    assert_eq!(seen[0], "let a = ; ");
    assert_eq!(names_after(&seen[1], "crate::"), ["sys", "a", "b"]);
    assert_eq!(seen[2], "");
    assert_eq!(seen[3], " + unsafe");
    assert_eq!(split_camel("HeldByPhase"), ["Held", "By", "Phase"]);
}

#[test]
fn a_circle_is_seen_through_what_modules_pass_on() {
    let file = |path: &str, code: &str| File {
        path: path.to_owned(),
        code: code.to_owned(),
    };
    let files = [
        file(
            "src/a/mod.rs",
            "mod low;\nmod high;\npub use low::{Thing as Other};\n",
        ),
        file("src/a/low.rs", "use super::high::{self, Way};\n"),
        file("src/a/high.rs", "fn way(thing: crate::a::Other) {}\n"),
        file("src/b.rs", "use crate::a::{\n    Other,\n    low,\n};\n"),
    ];
    let edges = Imports::new(&files).edges();
    assert!(edges[0].is_empty(), "what is passed on is not used");
    assert_eq!(edges[1], BTreeSet::from([2]));
    assert_eq!(edges[2], BTreeSet::from([1]));
    assert_eq!(edges[3], BTreeSet::from([1]));
    assert_eq!(circles(&edges), [BTreeSet::from([1, 2])]);
}
