//! Tests of files as source and sink, and of verification: every byte that goes in comes out in the right place.

mod alone;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

const PIPEBENCH: &str = env!("CARGO_BIN_EXE_pipebench");

fn run(words: &[String]) -> Output {
    alone::wait();
    Command::new(PIPEBENCH)
        .args(words)
        .stdin(Stdio::null())
        .output()
        .expect("pipebench runs")
}

fn words(all: &[&str]) -> Vec<String> {
    all.iter().map(|word| (*word).to_owned()).collect()
}

fn label(nodes: usize, node: usize) -> String {
    if nodes == 1 {
        "local".to_owned()
    } else {
        format!("local{}", node + 1)
    }
}

/// File content of a node: bytes that depend on the node and the position.
fn content(node: usize, bytes: usize) -> Vec<u8> {
    let start = node * 1_000_003;
    (start..start + bytes)
        .map(|at| (at * 31 % 251).to_le_bytes()[0])
        .collect()
}

/// Expected sink content for an even number of phases: block (t, j) of node i arrives at node j as block (t, i).
fn transposed(files: &[Vec<u8>], block: usize, streams: usize, node: usize) -> Vec<u8> {
    let slots = files.len() * streams;
    let longest = files.iter().map(Vec::len).max().unwrap_or(0);
    let mut result = Vec::new();
    for t in 0..longest.div_ceil(slots * block) {
        for from in files {
            for stream in 0..streams {
                let start = ((t * slots + node * streams + stream) * block).min(from.len());
                let end = (start + block).min(from.len());
                result.extend_from_slice(&from[start..end]);
            }
        }
    }
    result
}

struct Case {
    nodes: usize,
    phases: usize,
    streams: usize,
    lengths: Vec<usize>,
    extra: Vec<&'static str>,
}

fn check(folder: &Path, case: &Case) {
    const BLOCK: usize = 4096;
    let files: Vec<Vec<u8>> = case
        .lengths
        .iter()
        .enumerate()
        .map(|(node, bytes)| content(node, *bytes))
        .collect();
    let place = |kind: &str, node: usize| -> PathBuf {
        folder.join(format!("{kind}-{}", label(case.nodes, node)))
    };
    for (node, file) in files.iter().enumerate() {
        fs::write(place("from", node), file).expect("written");
    }
    let name = |kind: &str| folder.join(format!("{kind}-%n")).display().to_string();
    let mut all = words(&["--quiet", "--hosts", &format!("local:{}", case.nodes)]);
    all.extend(words(&[
        "--phases",
        &case.phases.to_string(),
        "--streams",
        &case.streams.to_string(),
    ]));
    all.extend(words(&["--block-size", &BLOCK.to_string()]));
    all.extend(words(&["--source", &name("from"), "--sink", &name("to")]));
    all.extend(words(&case.extra));
    let output = run(&all);
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{all:?}: {errors}");
    for node in 0..case.nodes {
        let expected = if case.phases % 2 == 1 {
            files[node].clone()
        } else {
            transposed(&files, BLOCK, case.streams, node)
        };
        let got = fs::read(place("to", node)).expect("a file");
        assert_eq!(got.len(), expected.len(), "{all:?} node {node}");
        assert!(got == expected, "{all:?} node {node}");
    }
    assert_eq!(
        fs::read_dir(folder).expect("a folder").count(),
        2 * case.nodes
    );
}

#[test]
fn files_come_back_or_are_transposed_over_every_shape() {
    let transports: [&[&str]; 3] = [
        &["--transport", "tcp"],
        &["--transport", "unix"],
        &["--coupling", "buffer"],
    ];
    for phases in [2, 3, 4, 5] {
        for nodes in [1, 2, 3] {
            // One length that fits no block, one empty file, and one whole number of buffers.
            let lengths: Vec<usize> = [100_003, 0, 4096 * 12][..nodes].to_vec();
            for extra in transports {
                let folder = tempfile::tempdir().expect("a folder");
                let extra = extra.to_vec();
                check(
                    folder.path(),
                    &Case {
                        nodes,
                        phases,
                        streams: 1,
                        lengths: lengths.clone(),
                        extra,
                    },
                );
            }
        }
    }
}

#[test]
fn several_streams_and_verification_change_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let lengths = vec![300_001, 150_000];
    let extra = vec!["--verify", "full"];
    check(
        folder.path(),
        &Case {
            nodes: 2,
            phases: 3,
            streams: 3,
            lengths: lengths.clone(),
            extra,
        },
    );
    let folder = tempfile::tempdir().expect("a folder");
    let extra = vec!["--verify", "sample", "--coupling", "buffer"];
    check(
        folder.path(),
        &Case {
            nodes: 2,
            phases: 2,
            streams: 2,
            lengths,
            extra,
        },
    );
}

#[test]
fn nothing_but_empty_files_is_a_run_too() {
    let folder = tempfile::tempdir().expect("a folder");
    check(
        folder.path(),
        &Case {
            nodes: 2,
            phases: 3,
            streams: 1,
            lengths: vec![0, 0],
            extra: Vec::new(),
        },
    );
}

#[test]
fn a_source_or_sink_that_cannot_be_is_named_before_or_when_it_fails() {
    let folder = tempfile::tempdir().expect("a folder");
    let missing = folder.path().join("none").display().to_string();
    let output = run(&words(&["--hosts", "local:2", "--source", &missing]));
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(12), "{errors}");
    assert!(
        errors.contains(&format!(
            "local[1-2]: cannot read source {missing}: no such file or directory"
        )),
        "{errors}"
    );
    let sink = folder.path().join("out").display().to_string();
    let output = run(&words(&[
        "--hosts",
        "local:2",
        "--buffers",
        "3",
        "--sink",
        &sink,
    ]));
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{errors}");
    assert!(
        errors.contains("put %n, the node's label, into the name"),
        "{errors}"
    );
    let nowhere = folder.path().join("no/such/out-%n").display().to_string();
    let output = run(&words(&[
        "--hosts",
        "local:2",
        "--buffers",
        "3",
        "--sink",
        &nowhere,
    ]));
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(12), "{errors}");
    assert!(
        errors.contains("cannot write sink") && errors.contains("no such file or directory"),
        "{errors}"
    );
    assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 0);
}

#[test]
fn discarded_blocks_are_counted_on_both_transports() {
    for transport in ["tcp", "unix"] {
        let output = run(&words(&[
            "--hosts",
            "local:2",
            "--phases",
            "3",
            "--buffers",
            "30",
            "--sink",
            "discard",
            "--transport",
            transport,
            "--json",
            "-",
            "--quiet",
        ]));
        let text = String::from_utf8(output.stdout).expect("text");
        let record = pipebench::internals::report::json::read(&text).expect("a record");
        assert_eq!(record.exit_code, 0, "{:?}", record.troubles);
        for link in &record.tests()[0].links {
            assert_eq!(link.received_bytes, 30 * 262_144, "{link:?}");
        }
    }
}

#[test]
fn timed_runs_may_end_in_files_and_be_verified() {
    let folder = tempfile::tempdir().expect("a folder");
    let sink = folder.path().join("out-%n").display().to_string();
    let output = run(&words(&[
        "--hosts", "local:2", "--time", "300ms", "--warmup", "100ms", "--rate", "100M", "--sink",
        &sink, "--verify", "full", "--quiet",
    ]));
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{errors}");
    for node in ["local1", "local2"] {
        assert!(
            fs::metadata(folder.path().join(format!("out-{node}")))
                .expect("a file")
                .len()
                > 0
        );
    }
}
