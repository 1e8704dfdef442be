//! Hosts that mean no good: one of the nodes says something else than it should, one thing at a time, drawn by its type.
//!
//! `PIPEBENCH_HOSTILE=500 cargo test --test hostile` tries as many changes as one likes; a few stand in each test run.

mod whole;

use std::fs;
use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use pipebench::internals::outside;
use whole::{PIPEBENCH, alone, pause};

/// The launching side's memory stays below this, whatever one node says.
const MOST_MEMORY_KB: u64 = 200 << 10;
/// It is ended at this, before it can take the machine's.
const TOO_MUCH_MEMORY_KB: u64 = 1 << 20;
/// A run of 0.3 s, and every wait that one node can make longer.
const DEADLINE: Duration = Duration::from_secs(60);
const HOSTILE: &str = "127.0.0.2";
/// Both hosts, where what they say does not go together: the second one says that it is another machine than it is.
const BOTH: (u64, &str) = (71, "127.0.0.[1-2]");
/// Changes that once found a defect: a report that never comes, while the node says that it lives; another machine than it is on, for which
/// only the honest node was named; words of a rank that the node does not have, which ended as a defect of pipebench; and a length that
/// swallows all that follows, heartbeats among it; no addresses of its ranks, for which the honest node was named; and a time so long that the
/// record could not be read again.
const FOUND: [u64; 6] = [38, 71, 429, 482, 560, 581];

struct Outcome {
    seed: u64,
    /// What was changed; none if the run had nothing that this seed changes.
    change: Option<String>,
    code: Option<i32>,
    said: String,
    memory_kb: u64,
    seconds: f64,
}

/// Most memory that a process has had, in KiB.
fn peak_kb(child: &Child) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let number = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
    number.unwrap_or(0)
}

fn reader(mut stream: impl Read + Send + 'static) -> std::thread::JoinHandle<String> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        match stream.read_to_end(&mut bytes) {
            Ok(_) | Err(_) => String::from_utf8_lossy(&bytes).into_owned(),
        }
    })
}

/// One run in which the second of two hosts changes one thing that it says.
fn run(seed: u64, folder: &std::path::Path) -> Outcome {
    let between = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/hostile/between.py");
    let change = folder.join("change");
    fs::remove_file(&change).ok();
    let shell = format!("python3 {between} {HOSTILE} {seed} %h {}", change.display());
    let hosts = format!("127.0.0.1,{HOSTILE}");
    let cache = folder.join("cache");
    let began = Instant::now();
    // Ranks have words of their own.
    let (kind, what): (&[&str], &[&str]) = match seed % 4 {
        0 => (&["linktest", "--no-sion-file"], &["-n", "3", "-s", "1000"]),
        1 => (
            &["imb", "PingPong", "Allreduce"],
            &["--msglog", "3:4", "--iter", "5"],
        ),
        _ => (
            &[],
            &["--phases", "2", "--time", "300ms", "--warmup", "100ms"],
        ),
    };
    // What stands between takes seconds to start on a machine that reads it from the disk for the first time.
    let limits = [
        "silence=3s",
        "prepare=5s",
        "connect=20s",
        "collect=5s",
        "drain=5s",
        "volume=10s",
    ];
    let limits = limits.iter().flat_map(|limit| ["--deadline", limit]);
    let mut child = Command::new(PIPEBENCH)
        .args(kind)
        .args(["--hosts", &hosts, "--rsh", &shell])
        .args(what)
        .args(limits)
        .arg("--remote-dir")
        .arg(&cache)
        .arg("--json")
        .arg(folder.join("record.json"))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("pipebench starts");
    let out = reader(child.stdout.take().expect("piped"));
    let errors = reader(child.stderr.take().expect("piped"));
    let mut memory_kb = 0;
    let status = loop {
        memory_kb = memory_kb.max(peak_kb(&child));
        if let Some(status) = child.try_wait().expect("a child") {
            break Some(status);
        }
        if began.elapsed() > DEADLINE || memory_kb > TOO_MUCH_MEMORY_KB {
            child.kill().expect("killed");
            child.wait().expect("reaped");
            break None;
        }
        pause();
    };
    let said = out.join().expect("read") + &errors.join().expect("read");
    Outcome {
        seed,
        change: fs::read_to_string(&change).ok(),
        code: status.and_then(|status| status.code()),
        said,
        memory_kb,
        seconds: began.elapsed().as_secs_f64(),
    }
}

/// What is wrong with what came of a run.
fn wrong(outcome: &Outcome, folder: &std::path::Path) -> Option<String> {
    const EXPECTED: [i32; 8] = [0, 1, 3, 10, 11, 12, 20, 30];
    let steers = |letter: char| outside::steers(letter) && letter != '\n';
    let code = match outcome.code {
        None => return Some("it did not end".to_owned()),
        Some(code) => code,
    };
    if !EXPECTED.contains(&code) || outcome.said.contains("panicked") {
        return Some(format!("ended with {code}"));
    }
    if outcome.said.contains(steers) {
        return Some("its words steer the terminal".to_owned());
    }
    if outcome.memory_kb > MOST_MEMORY_KB {
        return Some(format!("took {} MiB", outcome.memory_kb >> 10));
    }
    // Who is named, where a run ends for want of a node: the one that lied, or what it lied about.
    let mut complaints = outcome
        .said
        .lines()
        .filter(|line| line.starts_with("pipebench: "));
    let first = complaints.next().unwrap_or_default();
    let both = outcome.seed == BOTH.0 && first.contains(BOTH.1);
    let is_named = first.contains(HOSTILE) || both;
    if code >= 10 && !is_named {
        return Some(format!(
            "ended with {code}, and did not name {HOSTILE} first"
        ));
    }
    let record = fs::read_to_string(folder.join("record.json")).unwrap_or_default();
    let read = pipebench::internals::report::json::read(&record);
    (code == 0 && read.is_err()).then(|| "its record cannot be read".to_owned())
}

#[test]
fn a_node_that_says_something_else_than_it_should_harms_nothing_and_is_named() {
    alone::wait();
    let count = std::env::var("PIPEBENCH_HOSTILE").ok();
    let count: u64 = count.map_or(12, |count| count.parse().expect("a number"));
    let folder = tempfile::tempdir().expect("a folder");
    let mut failures = Vec::new();
    let (mut codes, mut most) = (std::collections::BTreeMap::new(), (0, 0.0_f64));
    // A seed may hit what a run does not say: only what was changed counts.
    let mut changes = 0;
    for seed in FOUND.into_iter().chain(1..3 * count) {
        if changes == count + FOUND.len() as u64 {
            break;
        }
        let outcome = run(seed, folder.path());
        changes += u64::from(outcome.change.is_some());
        *codes.entry(outcome.code).or_insert(0) += 1;
        most = (most.0.max(outcome.memory_kb), most.1.max(outcome.seconds));
        if let Some(what) = wrong(&outcome, folder.path()) {
            let Outcome {
                seed, change, said, ..
            } = outcome;
            failures.push(format!("seed {seed} ({change:?}): {what}\n{said}"));
        }
    }
    assert!(changes >= count, "only {changes} seeds changed anything");
    eprintln!(
        "{changes} changes: exit codes {codes:?}, at most {} KiB and {:.1} s",
        most.0, most.1
    );
    assert!(
        failures.is_empty(),
        "{} of {changes}:\n{}",
        failures.len(),
        failures.join("\n")
    );
}

/// The whole token of a run stood in the names of its Unix sockets: a stranger took links, and the verdict blamed an innocent pair.
#[test]
fn another_user_who_reads_names_of_sockets_takes_no_link_and_stops_no_run() {
    const RUNS: usize = 2;
    if !nix::unistd::geteuid().is_root() {
        assert_ne!(std::env::var("CI").as_deref(), Ok("true"), "needs root");
        eprintln!("SKIPPED: only root can be two users");
        return;
    }
    alone::wait();
    let folder = tempfile::tempdir().expect("a folder");
    let anyone: fs::Permissions = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    fs::set_permissions(folder.path(), anyone.clone()).expect("a folder of one's own");
    let (script, taken) = (
        folder.path().join("neighbour.py"),
        folder.path().join("taken"),
    );
    fs::write(&script, include_str!("hostile/neighbour.py")).expect("written");
    fs::set_permissions(&script, anyone).expect("one's own file");
    let mut neighbour = Command::new("setpriv")
        // Another user may not be let into the folder of this user's own Python.
        .args(["--reuid", "65534", "--clear-groups", "/usr/bin/python3"])
        .args([&script, &taken])
        .spawn()
        .expect("setpriv starts");
    let kinds = [
        "--hosts local:2 --phases 2 --transport unix --time 1s",
        "linktest --hosts local:2 --mode unix --no-sion-file -n 200",
        "imb PingPong Alltoall --hosts local:2 --ranks-per-node 2 --transport unix --msglog 3:10",
    ];
    let runs = kinds.iter().flat_map(|words| {
        let words: Vec<&str> = words.split(' ').collect();
        (0..RUNS).map(move |_| whole::Run::start(&words).end("under attack", DEADLINE))
    });
    let runs: Vec<whole::Ended> = runs.collect();
    neighbour.kill().expect("killed");
    neighbour.wait().expect("reaped");
    let taken = fs::read(taken).expect("the neighbour began");
    assert!(taken.is_empty(), "{} links were taken", taken.len());
    let mut strangers = 0;
    for run in runs {
        assert_eq!(run.code, Some(0), "{}", run.errors);
        let record = run.record.expect("a record");
        let nodes = record
            .tests()
            .iter()
            .flat_map(|test| test.nodes.iter().flatten());
        strangers += nodes.map(|node| node.strangers).sum::<u64>();
    }
    assert!(
        strangers > 0,
        "the neighbour was not seen: was there an attack?"
    );
}
