//! Compares two executables of pipebench, such as those of two commits: both run in turn, row by row.
//!
//! ```sh
//! cargo build --release && cp target/*/release/pipebench NEW
//! cargo bench --bench beside -- OLD NEW        # 15 pairs of each row, about ten minutes
//! cargo bench --bench beside -- OLD NEW 31 imb # 31 pairs of the rows of imb; pipelines: those of pipelines
//! ```
//!
//! What cargo builds for a benchmark, in the same place, has code that only tests use, and is laid out otherwise.
//!
//! Figures are times (per byte, of processors per byte, per message), so that more is worse. Each ratio is the new executable's figure by the old
//! one's, of the same round. The table shows the median of the ratios and its 95 % interval, which two order statistics give without any
//! assumption about the distribution (H. A. David, H. N. Nagaraja, Order Statistics, 7.1).

#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]

use std::collections::BTreeMap;
use std::process::Command;

use pipebench::internals::record::{NodeRecord, Outcome, Record};
use pipebench::internals::report::json;

/// A row whose interval lies above this got slower.
const ABOVE: f64 = 1.03;

/// Pipelines: the shapes of the benchmark `peers` on loopback, and both data paths.
const PIPELINES: [&str; 8] = [
    "--hosts local:2 --phases 2",
    "--hosts local:1 --phases 3",
    "--hosts local:3 --phases 3",
    "--hosts local:4 --phases 4",
    "--hosts local:2 --phases 2 --datapath zerocopy",
    "--hosts local:3 --phases 3 --datapath zerocopy",
    "--hosts local:2 --phases 2 --transport tcp",
    "--hosts local:3 --phases 3 --transport tcp",
];

/// Messages: the kernels of the benchmark `imb`, over TCP and in shared memory.
const MESSAGES: [&str; 2] = [
    "--hosts local:2 --transport tcp",
    "--hosts local:1 --ranks-per-node 2 --transport shm",
];
const KERNELS: &str = "imb PingPong PingPing Sendrecv Exchange Bcast Allreduce Alltoall Barrier --npmin 2 --msglog 10:20";

/// Figures of a run by row.
type Figures = BTreeMap<String, f64>;

fn main() {
    let words: Vec<String> = std::env::args()
        .skip(1)
        .filter(|word| word != "--bench")
        .collect();
    let [old, new, more @ ..] = &words[..] else {
        println!(
            "beside: nothing is measured without two executables: cargo bench --bench beside -- OLD NEW"
        );
        return;
    };
    let pairs = more.iter().find_map(|word| word.parse().ok()).unwrap_or(15);
    let asked = |name: &str| {
        more.iter()
            .all(|word| word.parse::<usize>().is_ok() || word == name)
    };
    println!("{pairs} pairs of each row\n\n| row | ratio | from | to | |\n|---|---|---|---|---|");
    if asked("pipelines") {
        for shape in PIPELINES {
            compare([old, new], pairs, |program| pipeline(program, shape));
        }
    }
    if asked("imb") {
        for shape in MESSAGES {
            compare([old, new], pairs, |program| messages(program, shape));
        }
    }
}

/// Runs both executables in turn, and prints the rows.
fn compare([old, new]: [&str; 2], pairs: usize, measure: impl Fn(&str) -> Figures) {
    let mut ratios: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for pair in 0..pairs {
        // The order alternates from pair to pair.
        let (before, after) = if pair % 2 == 0 {
            let before = measure(old);
            (before, measure(new))
        } else {
            let after = measure(new);
            (measure(old), after)
        };
        for (row, figure) in after {
            ratios
                .entry(row.clone())
                .or_default()
                .push(figure / before[&row]);
        }
    }
    for (row, mut own) in ratios {
        let median = numbers::spread::median(&mut own);
        let (from, to) = interval(&own);
        let slower = if from > ABOVE { "slower" } else { "" };
        println!("| {row} | {median:.3} | {from:.3} | {to:.3} | {slower} |");
    }
}

/// The 95 % interval of the median of sorted values.
fn interval(sorted: &[f64]) -> (f64, f64) {
    let count = sorted.len();
    // Probability that at most `below` values lie below the median: each does with a probability of one half.
    let (mut below, mut term) = (0, 0.5_f64.powi(i32::try_from(count).expect("few")));
    let mut sum = term;
    while sum <= 0.025 && below < count {
        below += 1;
        term *= (count - below + 1) as f64 / below as f64;
        sum += term;
    }
    let first = below.saturating_sub(1).min(count / 2);
    (sorted[first], sorted[count - 1 - first])
}

fn run(program: &str, words: &str) -> Record {
    let output = Command::new(program)
        .args(words.split_whitespace())
        .args(["--congestion", "reno", "--json", "-", "--quiet"])
        .output()
        .expect("pipebench starts");
    let text = String::from_utf8_lossy(&output.stdout);
    let record = json::read(&text).unwrap_or_else(|why| panic!("{program} {words}: {why}"));
    assert_eq!(
        record.exit_code, 0,
        "{program} {words}: {:?}",
        record.troubles
    );
    record
}

/// Time per byte over all links, and time of processors per byte.
fn pipeline(program: &str, shape: &str) -> Figures {
    let record = run(program, &format!("{shape} --time 1s --warmup 300ms"));
    let test = &record.tests()[0];
    let bytes: u64 = test.links.iter().map(|link| link.interval_bytes).sum();
    let nodes = || test.nodes.iter().flatten();
    let cpu = |node: &NodeRecord| {
        let cpu = &node.cpu;
        cpu.senders_ns + cpu.receivers_ns + cpu.phases_ns + cpu.node_ns
    };
    let spent: u64 = nodes().map(cpu).sum();
    let interval = nodes().map(|node| node.interval_ns).max().unwrap_or(1);
    Figures::from([
        (format!("{shape}: time"), interval as f64 / bytes as f64),
        (format!("{shape}: CPU"), spent as f64 / bytes as f64),
    ])
}

/// Time of each line of each table.
fn messages(program: &str, shape: &str) -> Figures {
    let record = run(program, &format!("{KERNELS} {shape}"));
    let Outcome::Imb(imb) = &record.outcome else {
        panic!("{program}: no patterns");
    };
    let lines = imb.tables.iter().flat_map(|table| {
        let name = table.table.benchmark.name();
        let row = move |bytes| format!("{shape}: {name} {bytes}");
        table
            .lines
            .iter()
            .map(move |line| (row(line.bytes), line.groups[0].most_s))
    });
    lines.collect()
}
