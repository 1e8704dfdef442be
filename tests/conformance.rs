//! Runs one list of checks over every combination of data path, kind of workers and transport.
//! The output must not depend on the way the data moves.

mod alone;
mod tries;

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use pipebench::internals::record::Record;
use pipebench::internals::report::json;
use tries::should;

const PIPEBENCH: &str = env!("CARGO_BIN_EXE_pipebench");
const DATAPATHS: [&str; 2] = ["copy", "zerocopy"];
const TRANSPORTS: [&str; 3] = ["auto", "tcp", "unix"];
const WORKERS: [&str; 3] = ["peer", "slot", "shared"];

/// One way to move data.
#[derive(Debug, Clone, Copy)]
struct Way {
    datapath: &'static str,
    transport: &'static str,
    workers: &'static str,
}

fn ways() -> impl Iterator<Item = Way> {
    let all = DATAPATHS.into_iter().flat_map(|datapath| {
        TRANSPORTS.into_iter().flat_map(move |transport| {
            WORKERS.map(|workers| Way {
                datapath,
                transport,
                workers,
            })
        })
    });
    // With zero-copy, a process for each slot is the same as a process for each end.
    all.filter(|way| (way.datapath, way.workers) != ("zerocopy", "slot"))
}

fn run(way: Way, words: &[&str]) -> (Option<i32>, Record, String) {
    alone::wait();
    let output = Command::new(PIPEBENCH)
        .args(["--datapath", way.datapath, "--transport", way.transport])
        .args(["--workers", way.workers, "--quiet", "--json", "-"])
        .args(words)
        .stdin(Stdio::null())
        .output()
        .expect("pipebench runs");
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    let text = String::from_utf8_lossy(&output.stdout);
    let record = json::read(&text).unwrap_or_else(|error| panic!("{way:?}: {error}: {errors}"));
    (output.status.code(), record, errors)
}

/// Runs a known volume and expects that nothing fails and that every link carries exactly its volume.
fn expect_volume(way: Way, words: &[&str], buffers: u64) {
    let count = buffers.to_string();
    let (code, record, errors) = run(way, &[words, &["--buffers", &count]].concat());
    assert_eq!(code, Some(0), "{way:?} {words:?}: {errors}");
    let test = &record.tests()[0];
    assert!(test.complete, "{way:?} {words:?}");
    assert_eq!(
        test.conservation.agreeing,
        test.links.len(),
        "{way:?} {words:?}"
    );
    let block = record.plan.tests()[0].block_bytes as u64;
    for link in &test.links {
        let carried = (link.blocks, link.sent_bytes, link.received_bytes);
        let due = (buffers, buffers * block, buffers * block);
        assert_eq!(carried, due, "{way:?} {words:?} {:?}", link.lane);
    }
}

#[test]
fn every_link_carries_the_volume_and_no_more() {
    let shapes: [&[&str]; 5] = [
        &["--hosts", "local:1", "--phases", "2"],
        &["--hosts", "local:1", "--phases", "4"],
        &["--hosts", "local:3", "--phases", "3"],
        &[
            "--hosts",
            "local:2",
            "--phases",
            "3",
            "--streams",
            "3",
            "--block-size",
            "1000",
        ],
        &[
            "--hosts",
            "local:2",
            "--phases",
            "3",
            "--coupling",
            "buffer",
        ],
    ];
    for way in ways() {
        for shape in shapes {
            expect_volume(way, shape, 37);
        }
    }
}

/// A pattern is a set of links and does not depend on how data moves over them.
#[test]
fn every_pattern_moves_its_volume_in_every_way() {
    // Nodes, pattern, phases, and links of each of its tests.
    let patterns: [(usize, &str, &str, &[usize]); 11] = [
        (3, "all-to-all", "2", &[9]),
        (4, "mesh", "3", &[24]),
        (4, "ring", "3", &[8]),
        (5, "shift:2", "2", &[5]),
        (4, "rotate", "2", &[4, 4, 4]),
        (4, "bisection", "2", &[8]),
        (4, "bisection:one-way", "2", &[4]),
        (4, "pairs", "3", &[8]),
        (4, "incast:3", "2", &[3]),
        (4, "outcast:2", "2", &[2]),
        // This pattern needs half of a port's rate; on one host without ports, --rate gives it.
        (4, "hol", "2", &[3]),
    ];
    for way in ways().filter(|way| way.transport == "tcp") {
        for (nodes, pattern, phases, links) in patterns {
            let hosts = format!("local:{nodes}");
            let words = [
                "--hosts",
                &hosts,
                "--pattern",
                pattern,
                "--phases",
                phases,
                "--buffers",
                "3",
                "--rate",
                "20G",
            ];
            let (code, record, errors) = run(way, &words);
            assert_eq!(code, Some(0), "{way:?} {words:?}: {errors}");
            let found: Vec<usize> = record.tests().iter().map(|test| test.links.len()).collect();
            assert_eq!(found, links, "{way:?} {words:?}");
            for test in record.tests() {
                assert!(test.complete, "{way:?} {words:?}");
                assert_eq!(
                    test.conservation.agreeing,
                    test.links.len(),
                    "{way:?} {words:?}"
                );
                let block = record.plan.tests()[test.test].block_bytes as u64;
                let whole = |link: &pipebench::internals::record::LinkRecord| {
                    link.received_bytes == 3 * block
                };
                assert!(test.links.iter().all(whole), "{way:?} {words:?}");
            }
        }
    }
}

#[test]
fn blocks_larger_than_a_pipe_pass_whole() {
    for way in ways() {
        let words = [
            "--hosts",
            "local:2",
            "--phases",
            "3",
            "--block-size",
            "3000001",
        ];
        expect_volume(way, &words, 9);
    }
}

#[test]
fn every_block_arrives_as_it_was_sent_whoever_looks() {
    for way in ways() {
        for verify in ["sample", "full"] {
            let words = ["--hosts", "local:2", "--phases", "4", "--verify", verify];
            expect_volume(way, &words, 500);
        }
        // Slow readers reveal a block that is overwritten too early.
        let slow = [
            "--hosts", "local:2", "--phases", "3", "--verify", "full", "--rate", "400M",
        ];
        expect_volume(way, &slow, 60);
    }
}

#[test]
fn buffers_of_reserved_pages_carry_the_same_or_are_told_as_missing() {
    for workers in WORKERS {
        let way = Way {
            datapath: "copy",
            transport: "auto",
            workers,
        };
        let words = ["--hosts", "local:2", "--phases", "3", "--huge"];
        expect_volume(way, &words, 100);
        let (_, record, errors) = run(way, &[&words[..], &["--buffers", "10"]].concat());
        let there = record.hosts[0].facts.reserved_pages_bytes;
        let told = errors.contains("--huge needs 2 MiB of reserved large pages per node");
        let vain = errors.contains("--huge had no effect: no two processes share a buffer here");
        assert_eq!(vain, workers != "peer", "{errors}");
        assert_eq!(told, !vain && there < 4 << 20, "{there}: {errors}");
    }
}

#[test]
fn what_is_discarded_is_counted() {
    for way in ways() {
        let words = ["--hosts", "local:2", "--phases", "3", "--sink", "discard"];
        expect_volume(way, &words, 100);
    }
}

#[test]
fn a_timed_run_ends_with_everything_at_its_sink_and_every_wait_accounted_for() {
    for way in ways() {
        let words = ["--hosts", "local:2", "--phases", "3", "--time", "500ms"];
        tries::of_three(|| {
            let (code, record, errors) = run(way, &[&words[..], &["--warmup", "300ms"]].concat());
            assert_eq!(code, Some(0), "{way:?}: {errors}");
            let test = &record.tests()[0];
            assert_eq!(test.conservation.agreeing, test.links.len(), "{way:?}");
            for link in &test.links {
                should!(link.interval_bytes > 0, "{way:?} {:?}", link.lane);
                let waits = &link.waits;
                let sender = waits.waiting_for_block_ns + waits.in_write_ns + waits.pacing_ns;
                let receiver = waits.in_read_ns + waits.waiting_for_slot_ns;
                for (spent, interval) in [
                    (sender, link.sender_interval_ns),
                    (receiver, link.interval_ns),
                ] {
                    let missing = spent.abs_diff(interval);
                    should!(missing <= interval / 50, "{way:?} {link:?}");
                }
            }
            Ok(())
        });
    }
}

#[test]
fn a_file_of_each_node_comes_back_byte_for_byte() {
    for way in ways() {
        let folder = tempfile::tempdir().expect("a folder");
        for (nodes, bytes) in [(1, 3_000_001), (3, 2_500_000)] {
            expect_files(way, folder.path(), nodes, bytes);
        }
    }
}

fn expect_files(way: Way, folder: &Path, nodes: usize, bytes: usize) {
    let label = |node: usize| match nodes {
        1 => "local".to_owned(),
        _ => format!("local{}", node + 1),
    };
    let path = |kind: &str, node| folder.join(format!("{kind}-{}", label(node)));
    let content = |node: usize| -> Vec<u8> {
        let start = node * 7_919;
        let numbers = start..start + bytes - node * 100_000;
        numbers.map(|at| (at * 31 % 251).to_le_bytes()[0]).collect()
    };
    for node in 0..nodes {
        fs::write(path("from", node), content(node)).expect("written");
    }
    let name = |kind: &str| folder.join(format!("{kind}-%n")).display().to_string();
    let (hosts, from, to) = (format!("local:{nodes}"), name("from"), name("to"));
    let mut words = vec!["--hosts", &hosts, "--phases", "3", "--block-size", "16K"];
    words.extend(["--source", &from, "--sink", &to]);
    for verify in ["none", "full"] {
        let (code, _, errors) = run(way, &[&words[..], &["--verify", verify]].concat());
        assert_eq!(code, Some(0), "{way:?} {verify}: {errors}");
        for node in 0..nodes {
            let got = fs::read(path("to", node)).expect("a file");
            assert!(
                got == content(node),
                "{way:?} {verify} node {node}: another file"
            );
        }
    }
}
