//! What verification costs: the same run with `--verify none`, `sample` and `full`, one after the other, again and again.
//!
//! ```sh
//! cargo bench --bench verification            # 9 rounds of each, about two minutes
//! cargo bench --bench verification -- 3       # 3 rounds
//! ```
//!
//! Prints medians of rate and CPU time per gigabyte, and the ratios against `none`, paired round by round.

#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]

use std::process::Command;

use pipebench::record::Record;
use pipebench::report::json;

const PIPEBENCH: &str = env!("CARGO_BIN_EXE_pipebench");
const MODES: [&str; 3] = ["none", "sample", "full"];
const SHAPES: [(&str, &[&str]); 2] = [
    (
        "3 nodes, 3 phases, TCP",
        &[
            "--hosts",
            "local:3",
            "--phases",
            "3",
            "--congestion",
            "reno",
        ],
    ),
    (
        "1 node, 2 phases, Unix sockets",
        &["--hosts", "local:1", "--phases", "2"],
    ),
];

/// Gbit/s over all links, and CPU seconds per GB.
fn measure(shape: &[&str], mode: &str) -> (f64, f64) {
    let output = Command::new(PIPEBENCH)
        .args(shape)
        .args([
            "--time", "2s", "--warmup", "500ms", "--verify", mode, "--json", "-", "--quiet",
        ])
        .output()
        .expect("pipebench starts");
    let text = String::from_utf8_lossy(&output.stdout);
    let record: Record = json::read(&text).expect("a record");
    assert_eq!(record.exit_code, 0, "{:?}", record.troubles);
    let test = &record.tests[0];
    let bytes: u64 = test.links.iter().map(|link| link.interval_bytes).sum();
    let nodes = || test.nodes.iter().flatten();
    let cpu = |node: &pipebench::record::NodeRecord| {
        let cpu = &node.cpu;
        cpu.senders_ns + cpu.receivers_ns + cpu.phases_ns + cpu.node_ns
    };
    let spent: u64 = nodes().map(cpu).sum();
    let interval = nodes().map(|node| node.interval_ns).max().unwrap_or(1);
    (
        bytes as f64 * 8.0 / interval as f64,
        spent as f64 / bytes as f64,
    )
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let rounds = words.iter().find_map(|word| word.parse().ok()).unwrap_or(9);
    for (name, shape) in SHAPES {
        let mut results: [Vec<(f64, f64)>; 3] = [const { Vec::new() }; 3];
        for _ in 0..rounds {
            for (results, mode) in results.iter_mut().zip(MODES) {
                results.push(measure(shape, mode));
            }
        }
        let [none, ..] = results.clone();
        println!("{name}, median of {rounds} rounds");
        println!("verify  Gbit/s  of none  CPU s/GB  of none");
        for (results, mode) in results.iter().zip(MODES) {
            let column = |of: fn(&(f64, f64)) -> f64| median(results.iter().map(of).collect());
            let ratio = |of: fn(&(f64, f64)) -> f64| {
                median(
                    results
                        .iter()
                        .zip(&none)
                        .map(|(a, b)| of(a) / of(b))
                        .collect(),
                )
            };
            println!(
                "{mode:6}  {:6.1}  {:7.2}  {:8.3}  {:7.2}",
                column(|one| one.0),
                ratio(|one| one.0),
                column(|one| one.1),
                ratio(|one| one.1)
            );
        }
    }
}
