//! Compares the patterns of `pipebench imb` with an MPI library that runs the same kernels (`peer.c`), over TCP and over shared memory on this
//! machine, in turn.
//!
//! ```sh
//! cargo bench --bench imb                  # 9 rounds with two and with four ranks, some minutes
//! cargo bench --bench imb -- 5 2           # 5 rounds with two ranks
//! cargo bench --bench imb -- tcp           # over TCP alone; shm: over shared memory alone
//! cargo bench --bench imb -- --write       # and put the table into docs/imb.md
//! ```
//!
//! Needs `mpicc` and `mpirun` of Open MPI (Debian: libopenmpi-dev, openmpi-bin). Each round runs both, one after the other. Ratios are taken
//! round by round; the table shows their median, minimum and maximum.

#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use pipebench::internals::plan::imb::Benchmark;
use pipebench::internals::record::Record;
use pipebench::internals::report::json;

const PIPEBENCH: &str = env!("CARGO_BIN_EXE_pipebench");
const LENGTHS: [usize; 6] = [1, 4, 1024, 65_536, 1 << 20, 4 << 20];
const KERNELS: [Benchmark; 8] = [
    Benchmark::PingPong,
    Benchmark::PingPing,
    Benchmark::Sendrecv,
    Benchmark::Exchange,
    Benchmark::Bcast,
    Benchmark::Allreduce,
    Benchmark::Alltoall,
    Benchmark::Barrier,
];

/// Transport of the messages, on both sides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Over {
    Tcp,
    Memory,
}

/// One compared case: kernel, and length in bytes.
type Case = (Benchmark, usize);

fn main() {
    let (mut rounds, mut ranks, mut write) = (9, vec![2, 4], false);
    let mut numbers = 0;
    let mut overs = vec![Over::Tcp, Over::Memory];
    for word in std::env::args().skip(1).filter(|word| word != "--bench") {
        match (word.as_str(), word.parse::<usize>()) {
            ("--write", _) => write = true,
            ("tcp", _) => overs = vec![Over::Tcp],
            ("shm", _) => overs = vec![Over::Memory],
            (_, Ok(count)) if numbers == 0 => {
                rounds = count;
                numbers += 1;
            }
            (_, Ok(count)) => ranks = vec![count],
            (other, Err(_)) => panic!("{other:?} is not understood"),
        }
    }
    let folder = tempfile::tempdir().expect("a folder");
    let peer = compile(folder.path());
    let mut text = conditions(rounds);
    for over in overs {
        for count in &ranks {
            text += &compare(&peer, folder.path(), (over, *count), rounds);
        }
    }
    println!("{text}");
    if write {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/imb.md");
        let page = std::fs::read_to_string(path).expect("docs/imb.md");
        let (before, rest) = page
            .split_once("<!-- peers -->\n")
            .expect("where it begins");
        let (_, behind) = rest.split_once("<!-- end -->\n").expect("where it ends");
        let page = format!("{before}<!-- peers -->\n{text}<!-- end -->\n{behind}");
        std::fs::write(path, page).expect("written");
    }
}

/// Conditions of the measurement: rounds, Open MPI version, processor and kernel.
fn conditions(rounds: usize) -> String {
    let version = Command::new("mpirun").arg("--version").output();
    let version = version.expect("mpirun, of Open MPI, is needed").stdout;
    let version = String::from_utf8_lossy(&version);
    let version = version.lines().next().unwrap_or_default();
    let facts = pipebench::internals::sys::facts::collect();
    format!(
        "{rounds} rounds of each; Open MPI {}; {}, {} processors, Linux {}.\n\n",
        version.rsplit(' ').next().unwrap_or_default(),
        facts.cpu,
        facts.cores,
        facts.kernel
    )
}

fn compile(folder: &Path) -> PathBuf {
    let program = folder.join("peer");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/imb/peer.c");
    let made = Command::new("mpicc")
        .args(["-O2", "-o"])
        .arg(&program)
        .arg(source)
        .status();
    assert!(
        made.is_ok_and(|status| status.success()),
        "mpicc, of Open MPI, is needed"
    );
    program
}

/// Number of repetitions by the guide's rules.
fn repetitions(bytes: usize) -> usize {
    ((40 << 20) / bytes.max(1)).clamp(1, 1000)
}

fn cases(ranks: usize) -> Vec<Case> {
    let mut cases = Vec::new();
    for kernel in KERNELS {
        // Kernels for pairs need no further ranks; sums need whole floats.
        let is_pair = matches!(kernel, Benchmark::PingPong | Benchmark::PingPing);
        if is_pair && ranks > 2 {
            continue;
        }
        match kernel {
            Benchmark::Barrier => cases.push((kernel, 0)),
            _ => cases.extend(
                LENGTHS
                    .into_iter()
                    .filter(|bytes| bytes.is_multiple_of(kernel.item_bytes()))
                    .map(|bytes| (kernel, bytes)),
            ),
        }
    }
    cases
}

fn compare(peer: &Path, folder: &Path, (over, ranks): (Over, usize), rounds: usize) -> String {
    let cases = cases(ranks);
    let mut all: BTreeMap<Case, Vec<(f64, f64)>> = BTreeMap::new();
    for round in 0..rounds {
        // The order alternates from round to round.
        let (theirs, own) = if round % 2 == 0 {
            let theirs = by_mpi(peer, (over, ranks), &cases);
            (theirs, by_pipebench(folder, (over, ranks)))
        } else {
            let own = by_pipebench(folder, (over, ranks));
            (by_mpi(peer, (over, ranks), &cases), own)
        };
        for case in &cases {
            let pair = (theirs[case], own[case]);
            all.entry(*case).or_default().push(pair);
        }
    }
    let mut text = format!(
        "| {ranks} ranks, {} | bytes | Open MPI, us | pipebench, us | ratio | from | to | mark |\n|---|---|---|---|---|---|---|---|\n",
        if over == Over::Tcp {
            "TCP"
        } else {
            "shared memory"
        },
    );
    for case in &cases {
        let pairs = &all[case];
        let mut ratios: Vec<f64> = pairs.iter().map(|(theirs, own)| own / theirs).collect();
        let middle = median(&mut ratios);
        let (least, most) = (ratios[0], ratios[ratios.len() - 1]);
        let mut theirs: Vec<f64> = pairs.iter().map(|pair| pair.0).collect();
        let mut own: Vec<f64> = pairs.iter().map(|pair| pair.1).collect();
        let reached = match mark(*case, (over, ranks)) {
            Some(mark) if middle <= mark => format!("**{mark}**"),
            Some(mark) => format!("{mark}"),
            None => String::new(),
        };
        writeln!(
            text,
            "| {} | {} | {:.2} | {:.2} | {middle:.2} | {least:.2} | {most:.2} | {reached} |",
            case.0.name(),
            case.1,
            median(&mut theirs),
            median(&mut own),
        )
        .expect("text");
    }
    text + "\n"
}

/// Target ratio, if this case has one.
fn mark((kernel, bytes): Case, (over, ranks): (Over, usize)) -> Option<f64> {
    if over == Over::Memory {
        return match bytes {
            // Sums have no shorter messages, and a barrier has no bytes.
            0..=4 => Some(1.5),
            long if long >= 1 << 20 => Some(1.1),
            _ => None,
        };
    }
    Some(match (kernel, bytes) {
        (Benchmark::PingPong, 1_048_576) => 0.95,
        (Benchmark::PingPing, 1_048_576) => 1.0,
        (Benchmark::PingPong | Benchmark::PingPing, _) => 0.9,
        (Benchmark::Sendrecv, 1_048_576) if ranks == 4 => 1.5,
        _ => 1.0,
    })
}

fn by_mpi(peer: &Path, (over, ranks): (Over, usize), cases: &[Case]) -> BTreeMap<Case, f64> {
    let mut command = Command::new("mpirun");
    command.args(["--allow-run-as-root", "--oversubscribe", "-np"]);
    command.arg(ranks.to_string());
    if over == Over::Tcp {
        let only = ["--mca", "btl", "tcp,self"];
        command
            .args(only)
            .args(["--mca", "btl_tcp_if_include", "lo"]);
    }
    command.arg(peer);
    for (kernel, bytes) in cases {
        command.args([
            kernel.name(),
            &bytes.to_string(),
            &repetitions(*bytes).to_string(),
        ]);
    }
    let output = command.output().expect("mpirun, of Open MPI, is needed");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let text = String::from_utf8_lossy(&output.stdout);
    let line = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let kernel = Benchmark::named(words[0]).expect("a kernel");
        let bytes = words[1].parse().expect("a length");
        ((kernel, bytes), words[2].parse().expect("a time"))
    };
    text.lines().map(line).collect()
}

fn by_pipebench(folder: &Path, (over, ranks): (Over, usize)) -> BTreeMap<Case, f64> {
    let lengths = folder.join("lengths");
    std::fs::write(&lengths, LENGTHS.map(|bytes| format!("{bytes}\n")).concat()).expect("written");
    let path = folder.join("run.json");
    let mut command = Command::new(PIPEBENCH);
    match over {
        Over::Tcp => command
            .args(["imb", "--transport", "tcp", "--hosts"])
            .arg(format!("local:{ranks}")),
        Over::Memory => command
            .args(["imb", "--transport", "shm", "--hosts", "local:1"])
            .arg("--ranks-per-node")
            .arg(ranks.to_string()),
    };
    command.args(["--quiet", "--npmin"]).arg(ranks.to_string());
    command
        .arg("--msglen")
        .arg(&lengths)
        .arg("--json")
        .arg(&path);
    command.args(KERNELS.map(Benchmark::name));
    let output = command.output().expect("pipebench runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let text = std::fs::read_to_string(path).expect("a record");
    let record: Record = json::read(&text).expect("a record");
    let tables = record
        .outcome
        .imb()
        .expect("results of this kind")
        .tables
        .iter();
    let lines = tables.flat_map(|table| {
        let kernel = table.table.benchmark;
        table
            .lines
            .iter()
            .map(move |line| ((kernel, line.bytes), line.groups[0].most_s * 1e6))
    });
    lines.collect()
}

fn median(figures: &mut [f64]) -> f64 {
    numbers::spread::median(figures)
}
