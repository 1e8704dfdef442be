//! Costs and benefits of pipebench's own choices: runs the same test in several ways, in turn, for several rounds.
//!
//! ```sh
//! cargo bench --bench ways                         # everything, 7 rounds of each, about twenty minutes
//! cargo bench --bench ways -- 3 discard workers    # 3 rounds of these
//! ```
//!
//! Prints tables for docs/dev/performance.md: medians of the rate and of the CPU time per gigabyte over all links, and ratios to
//! the first way, paired round by round. The table of `start` shows processes, time until data can flow, and memory, by the
//! number of nodes on this machine.

#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]

use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use pipebench::internals::record::{NodeRecord, Record};
use pipebench::internals::report::json;

const PIPEBENCH: &str = env!("CARGO_BIN_EXE_pipebench");

/// One comparison: the name that selects it, the shapes, and the ways to run each shape.
struct Group {
    name: &'static str,
    shapes: &'static [&'static str],
    ways: &'static [&'static str],
}

const GROUPS: [Group; 5] = [
    Group {
        name: "buffers",
        shapes: &[
            "--hosts local:2 --phases 2 --transport tcp",
            "--hosts local:3 --phases 3 --transport tcp",
            "--hosts local:4 --phases 3 --transport tcp",
            "--hosts local:4 --phases 4 --transport tcp",
            "--hosts local:8 --phases 2 --transport tcp",
            "--hosts local:16 --phases 2 --transport tcp",
        ],
        ways: &[
            "",
            "--sndbuf 64K --rcvbuf 64K",
            "--sndbuf 128K --rcvbuf 128K",
            "--sndbuf 256K --rcvbuf 256K",
            "--sndbuf 512K --rcvbuf 512K",
            "--sndbuf 1M --rcvbuf 1M",
        ],
    },
    Group {
        name: "verify",
        shapes: &[
            "--hosts local:3 --phases 3",
            "--hosts local:3 --phases 3 --datapath zerocopy",
            "--hosts local:1 --phases 2",
        ],
        ways: &["--verify none", "--verify sample", "--verify full"],
    },
    Group {
        name: "discard",
        shapes: &[
            "--hosts local:2 --phases 2",
            "--hosts local:3 --phases 3",
            "--hosts local:1 --phases 2",
        ],
        ways: &["--sink memory", "--sink discard"],
    },
    Group {
        name: "workers",
        shapes: &[
            "--hosts local:3 --phases 3",
            "--hosts local:4 --phases 4",
            "--hosts local:8 --phases 3",
            "--hosts local:16 --phases 3",
        ],
        ways: &["--workers peer", "--workers slot", "--workers shared"],
    },
    Group {
        name: "pages",
        shapes: &["--hosts local:3 --phases 3", "--hosts local:8 --phases 3"],
        ways: &[
            "--datapath zerocopy --workers peer",
            "--datapath zerocopy --workers shared",
        ],
    },
];

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let rounds = words.iter().find_map(|word| word.parse().ok()).unwrap_or(7);
    let asked = |name: &str| words.iter().any(|word| word == name);
    let named = GROUPS.iter().map(|group| group.name).chain(["start"]);
    let all = !named.into_iter().any(&asked);
    for group in GROUPS.iter().filter(|group| all || asked(group.name)) {
        compare(group, rounds);
    }
    if all || asked("start") {
        starts(rounds);
    }
}

/// Runs pipebench with these arguments and with reno, and returns its record. Panics if the exit code is not 0.
fn run(words: &str) -> Record {
    let output = Command::new(PIPEBENCH)
        .args(words.split_whitespace())
        .args(["--congestion", "reno", "--json", "-", "--quiet"])
        .output()
        .expect("pipebench starts");
    let text = String::from_utf8_lossy(&output.stdout);
    let record: Record = json::read(&text).expect("a record");
    assert_eq!(record.exit_code, 0, "{:?}", record.troubles);
    record
}

/// Rate in GB/s over all links, and CPU seconds per GB.
fn measure(words: &str) -> (f64, f64) {
    let record = run(&format!("{words} --time 2s --warmup 500ms"));
    let test = &record.tests()[0];
    let bytes: u64 = test.links.iter().map(|link| link.interval_bytes).sum();
    let nodes = || test.nodes.iter().flatten();
    let cpu = |node: &NodeRecord| {
        let cpu = &node.cpu;
        cpu.senders_ns + cpu.receivers_ns + cpu.phases_ns + cpu.node_ns
    };
    let spent: u64 = nodes().map(cpu).sum();
    let interval = nodes().map(|node| node.interval_ns).max().unwrap_or(1);
    (bytes as f64 / interval as f64, spent as f64 / bytes as f64)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn compare(group: &Group, rounds: usize) {
    println!("\n{}: medians of {rounds} rounds\n", group.name);
    println!("| shape | way | GB/s | of the first | CPU s/GB | of the first |");
    println!("|---|---|---|---|---|---|");
    for shape in group.shapes {
        let mut results: Vec<Vec<(f64, f64)>> = vec![Vec::new(); group.ways.len()];
        for round in 0..rounds {
            // The order rotates, so that no way always runs after the same other way.
            for place in 0..group.ways.len() {
                let way = (place + round) % group.ways.len();
                results[way].push(measure(&format!("{shape} {}", group.ways[way])));
            }
        }
        for (way, own) in group.ways.iter().zip(&results) {
            let column = |of: fn(&(f64, f64)) -> f64| median(own.iter().map(of).collect());
            let ratio = |of: fn(&(f64, f64)) -> f64| {
                let pairs = own.iter().zip(&results[0]);
                median(pairs.map(|(one, first)| of(one) / of(first)).collect())
            };
            let way = if way.is_empty() { "defaults" } else { way };
            println!(
                "| {shape} | {way} | {:.1} | {:.2} | {:.3} | {:.2} |",
                column(|one| one.0),
                ratio(|one| one.0),
                column(|one| one.1),
                ratio(|one| one.1)
            );
        }
    }
}

fn available_memory() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").expect("/proc/meminfo");
    let mut lines = text.lines();
    let line = lines.find_map(|line| line.strip_prefix("MemAvailable:"));
    let kib = line.and_then(|line| line.split_whitespace().next());
    kib.and_then(|kib| kib.parse().ok()).expect("MemAvailable")
}

/// Runs `work`, and measures by how many GiB the available memory falls meanwhile.
fn fall_during<T>(work: impl FnOnce() -> T) -> (T, f64) {
    const KIB_PER_GIB: f64 = 1048576.0;
    let before = available_memory();
    let (least, over) = (AtomicU64::new(before), AtomicBool::new(false));
    let done = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                least.fetch_min(available_memory(), Ordering::Relaxed);
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        let done = work();
        over.store(true, Ordering::Relaxed);
        done
    });
    let fall = before.saturating_sub(least.into_inner());
    (done, fall as f64 / KIB_PER_GIB)
}

fn starts(rounds: usize) {
    println!("\nstart: local:N with 3 phases by automatic choice, medians of {rounds} rounds\n");
    println!(
        "| nodes | links | workers | processes | first byte after s | memory GiB | per link ms | per link KiB |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    for nodes in [2, 4, 8, 16, 32, 64] {
        let words = format!("--hosts local:{nodes} --phases 3 --time 2s --warmup 500ms");
        let (mut seconds, mut memory) = (Vec::new(), Vec::new());
        let mut last = None;
        for _ in 0..rounds {
            let (record, fall) = fall_during(|| run(&words));
            let set_up_ns = record.tests()[0].set_up_ns.expect("it started");
            seconds.push(set_up_ns as f64 / 1e9);
            memory.push(fall);
            last = Some(record);
        }
        let record = last.expect("a round");
        let test = &record.plan.tests()[0];
        let size = pipebench::internals::plan::size::of(test, nodes);
        let (seconds, memory) = (median(seconds), median(memory));
        let links = size.links as f64;
        println!(
            "| {nodes} | {} | {} | {} | {seconds:.2} | {memory:.2} | {:.2} | {:.0} |",
            size.links,
            test.workers.name(),
            size.processes,
            seconds * 1000.0 / links,
            memory * 1048576.0 / links
        );
    }
}
