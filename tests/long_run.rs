//! Tests the needs of a day-long run: bounded storage, repeated clock measurement, evidence on disk during the run,
//! and processes that do not grow.

mod alone;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use pipebench::internals::record::Record;
use pipebench::internals::report::json;

const PIPEBENCH: &str = env!("CARGO_BIN_EXE_pipebench");

fn run(words: &[&str]) -> Output {
    let output = Command::new(PIPEBENCH)
        .args(words)
        .output()
        .expect("it starts");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words:?}: {errors}");
    output
}

fn record_in(folder: &Path) -> Record {
    let text = std::fs::read_to_string(folder.join("record.json")).expect("a record");
    json::read(&text).expect("a record")
}

/// The only run folder below `parent`.
fn run_folder(parent: &Path) -> PathBuf {
    let mut all = std::fs::read_dir(parent).expect("a folder").flatten();
    let first = all.next().expect("a run folder").path();
    assert!(all.next().is_none());
    first
}

#[test]
fn samples_tell_every_link_of_every_second() {
    alone::wait();
    let folder = tempfile::tempdir().expect("a folder");
    let samples = folder.path().join("samples.csv");
    let output = run(&[
        "--hosts",
        "local:3",
        "--phases",
        "3",
        "--time",
        "3s",
        "--warmup",
        "1s",
        "--rate",
        "50M",
        "--json",
        "-",
        "--samples",
        samples.to_str().expect("a name"),
    ]);
    let record = json::read(&String::from_utf8_lossy(&output.stdout)).expect("a record");
    let text = std::fs::read_to_string(&samples).expect("samples");
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some("at_s,from,to,phase,stream,rail,bytes"));
    let mut sums: BTreeMap<String, u64> = BTreeMap::new();
    let mut count = 0;
    for line in lines {
        let words: Vec<&str> = line.split(',').collect();
        count += 1;
        let link = words[1..5].join(",");
        *sums.entry(link).or_default() += words[6].parse::<u64>().expect("bytes");
    }
    let test = &record.tests()[0];
    assert_eq!(sums.len(), test.links.len());
    assert_eq!(count % test.links.len(), 0);
    assert!(count / test.links.len() >= 2, "{count}");
    for link in &test.links {
        let label = |node: usize| &record.plan.nodes[node].label;
        let lane = &link.lane;
        let name = format!(
            "{},{},{},{}",
            label(lane.from),
            label(lane.to),
            lane.boundary,
            lane.stream
        );
        // No sample holds the bytes after the last full second.
        assert!(
            sums[&name] > 0 && sums[&name] <= link.received_bytes,
            "{name}"
        );
    }
    assert_eq!(test.stretch_s, 1);
    assert!(test.seconds.len() >= 2);
    assert_eq!(test.worst_links.len(), 12);
    for series in &test.worst_links {
        assert!(
            !series.lane.is_own() && series.bytes.len() >= 2,
            "{series:?}"
        );
    }
}

#[test]
fn clocks_are_measured_again_and_the_window_keeps_its_length() {
    alone::wait();
    let output = run(&[
        "--hosts",
        "local:2",
        "--time",
        "6s",
        "--warmup",
        "3s",
        "--rate",
        "50M",
        "--deadline",
        "clocks=1s",
        "--json",
        "-",
    ]);
    let record = json::read(&String::from_utf8_lossy(&output.stdout)).expect("a record");
    let test = &record.tests()[0];
    assert_eq!(test.clocks.len(), 2);
    for clock in &test.clocks {
        // Measured before, after, and each second except the last two, unless the machine stalled.
        assert!((3..=11).contains(&clock.measured), "{clock:?}");
        assert!(
            clock.before_ns.unsigned_abs() <= clock.uncertainty_ns,
            "one clock: {clock:?}"
        );
        assert!(clock.span_ns > 9_000_000_000, "{clock:?}");
    }
    for node in test.nodes.iter().flatten() {
        let off = node.interval_ns.abs_diff(6_000_000_000);
        // A counted warm-up or a moved window causes a larger error than a machine that stalls for a moment.
        assert!(
            off < 2_000_000_000,
            "the window was {} ns",
            node.interval_ns
        );
    }
}

/// The machine decides if a run is steady (`stats/steady.rs` defines it); the test checks that the sheet agrees with the record.
#[test]
fn whether_a_paced_run_was_steady_is_told() {
    alone::wait();
    let output = run(&[
        "--hosts", "local:2", "--rate", "300M", "--time", "7s", "--json", "-",
    ]);
    let record = json::read(&String::from_utf8_lossy(&output.stdout)).expect("a record");
    assert!(record.tests()[0].seconds.len() >= 5);
    let summary = pipebench::internals::report::text::summary(&record);
    let expected = match record.tests()[0].steady_from_s {
        Some(from) => format!("checks: steady from {from} s;"),
        None => " % of their mean;".to_owned(),
    };
    assert!(summary.contains(&expected), "{expected}: {summary}");
}

/// Starts a run that is held before its start.
fn held(words: &[&str]) -> (Child, BufReader<std::process::ChildStderr>) {
    let mut child = Command::new(PIPEBENCH)
        .args(words)
        .args(["--hold", "go", "--quiet"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut errors = BufReader::new(child.stderr.take().expect("captured"));
    let mut line = String::new();
    while !line.contains("held at go") {
        line.clear();
        assert!(
            errors.read_line(&mut line).expect("read") > 0,
            "it ended before it was held"
        );
    }
    (child, errors)
}

#[test]
fn a_launching_side_that_is_killed_leaves_a_journal() {
    alone::wait();
    let folder = tempfile::tempdir().expect("a folder");
    let output = folder.path().to_str().expect("a name");
    let (mut child, _errors) = held(&["--hosts", "local:2", "--output", output]);
    child.kill().expect("killed");
    child.wait().expect("reaped");
    let journal = run_folder(folder.path()).join("journal.jsonl");
    let text = std::fs::read_to_string(journal).expect("a journal");
    let opening: serde_json::Value =
        serde_json::from_str(text.lines().next().expect("a line")).expect("JSON");
    assert_eq!(opening["journal"], 2);
    assert_eq!(opening["plan"]["nodes"].as_array().map(Vec::len), Some(2));
    assert_eq!(opening["hosts"][1]["node"], "local2");
    assert_eq!(opening["token"].as_str().map(str::len), Some(32));
}

#[test]
fn a_run_that_comes_to_its_end_has_a_record_and_no_journal() {
    alone::wait();
    let folder = tempfile::tempdir().expect("a folder");
    let output = folder.path().to_str().expect("a name");
    let (mut child, _errors) = held(&["--hosts", "local:2", "--buffers", "5", "--output", output]);
    let run = run_folder(folder.path());
    assert!(run.join("journal.jsonl").exists());
    child
        .stdin
        .take()
        .expect("piped")
        .write_all(b"\n")
        .expect("released");
    assert!(child.wait().expect("reaped").success());
    assert_eq!(record_in(&run).exit_code, 0);
    assert!(!run.join("journal.jsonl").exists());
}

#[test]
fn results_that_could_not_be_written_are_told_before_anything_runs() {
    let elsewhere = tempfile::tempdir().expect("a folder");
    let is_a_folder = elsewhere.path().join("taken");
    std::fs::create_dir(&is_a_folder).expect("made");
    let plain = ["--hosts", "local:2", "--time", "30s"];
    let links = ["linktest", "--hosts", "local:2", "--min-runtime", "30"];
    let fabrics = tempfile::tempdir().expect("a folder");
    let fabric = fabrics.path().join("f.toml");
    let fabric = fabric.to_string_lossy();
    let made = Command::new(PIPEBENCH)
        .args(["latency", "generate", "leaf-spine", "-o", &fabric])
        .output();
    assert!(made.expect("it starts").status.success());
    let ways = [
        "latency", "run", &fabric, "--hosts", "local:2", "--map", "order",
    ];
    let cases: [(&[&str], &[&str], &str); 10] = [
        (&plain, &["--output", "/proc/nowhere"], "/proc/nowhere/pb-"),
        (&plain, &["--csv", "no/a.csv"], "no/a.csv: no such file"),
        (&plain, &["--json", "taken"], "taken: is a directory"),
        (&links, &["-o", "no/a.sion"], "no/a.sion: no such file"),
        (&links, &["--csv", "taken"], "taken: is a directory"),
        (&links, &["--json", "no/a.json"], "no/a.json: no such file"),
        (&links, &["--folder", "/proc/nowhere"], "/proc/nowhere/pb-"),
        (&ways, &["--output", "/proc/nowhere"], "/proc/nowhere/pb-"),
        (&ways, &["--csv", "taken"], "taken: is a directory"),
        (&ways, &["--json", "no/a.json"], "no/a.json: no such file"),
    ];
    for (command, more, expected) in cases {
        let output = Command::new(PIPEBENCH)
            .args(command)
            .args(more)
            .current_dir(elsewhere.path())
            .output()
            .expect("it starts");
        assert_eq!(output.status.code(), Some(30), "{more:?}");
        let errors = String::from_utf8_lossy(&output.stderr);
        let beginning = format!("pipebench: cannot write {expected}");
        assert!(errors.starts_with(&beginning), "{errors}");
        assert_eq!(errors.lines().count(), 1, "{errors}");
        let nothing = String::from_utf8_lossy(&output.stdout);
        assert_eq!(nothing, "", "nothing has begun");
    }
    let left = std::fs::read_dir(elsewhere.path()).expect("listed").count();
    assert_eq!(left, 1, "nothing is left but what was there");
}

/// Resident bytes and open descriptors of a process and all its descendants.
fn weight(root: u32) -> (u64, usize) {
    let mut pids = vec![root];
    let mut at = 0;
    while let Some(pid) = pids.get(at).copied() {
        at += 1;
        let children = std::fs::read_dir(format!("/proc/{pid}/task"))
            .into_iter()
            .flatten()
            .flatten();
        for task in children {
            let text = std::fs::read_to_string(task.path().join("children")).unwrap_or_default();
            pids.extend(
                text.split_whitespace()
                    .filter_map(|word| word.parse::<u32>().ok()),
            );
        }
    }
    let resident = |pid: &u32| {
        let text = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
        let line = text
            .lines()
            .find(|line| line.starts_with("Pss_Anon:"))
            .unwrap_or_default();
        let kb: u64 = line
            .split_whitespace()
            .nth(1)
            .and_then(|word| word.parse().ok())
            .unwrap_or(0);
        kb * 1024
    };
    let descriptors = |pid: &u32| {
        std::fs::read_dir(format!("/proc/{pid}/fd"))
            .into_iter()
            .flatten()
            .count()
    };
    (
        pids.iter().map(resident).sum(),
        pids.iter().map(descriptors).sum(),
    )
}

/// For an hour-long test, run `PIPEBENCH_LONG_RUN_S=3600 cargo test --test long_run flat -- --nocapture` by hand.
#[test]
fn memory_descriptors_and_files_stay_flat() {
    alone::wait();
    let seconds = std::env::var("PIPEBENCH_LONG_RUN_S");
    let seconds: u64 = seconds
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(14);
    let folder = tempfile::tempdir().expect("a folder");
    let output = folder.path().to_str().expect("a name");
    let time = format!("{seconds}s");
    let mut child = Command::new(PIPEBENCH)
        .args([
            "--hosts", "local:3", "--phases", "3", "--rate", "20M", "--time", &time, "--quiet",
        ])
        .args(["--deadline", "clocks=2s", "--output", output])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("it starts");
    let begun = Instant::now();
    let mut readings = Vec::new();
    let step = Duration::from_secs((seconds / 10).max(1));
    // Take readings until shortly before the end; skip the first fifth, in which the run settles.
    while begun.elapsed().as_secs() < seconds - 2 {
        std::thread::sleep(step);
        if begun.elapsed().as_secs() >= seconds / 5 + 2 {
            readings.push(weight(child.id()));
            println!("{:5} s: {:?}", begun.elapsed().as_secs(), readings.last());
        }
    }
    assert!(child.wait().expect("reaped").success());
    let (first, last) = (readings[0], readings[readings.len() - 1]);
    assert!(first.0 > 1_000_000, "nothing was weighed: {readings:?}");
    assert!(
        last.0 < first.0 + first.0 / 10 + 2_000_000,
        "memory grows: {readings:?}"
    );
    assert_eq!(last.1, first.1, "descriptors: {readings:?}");
    let record = run_folder(folder.path()).join("record.json");
    let bytes = std::fs::metadata(record).expect("a record").len();
    println!("record: {bytes} bytes");
    assert!(bytes < 3_000_000, "the record has {bytes} bytes");
}
