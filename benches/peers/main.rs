//! Compares pipebench with iperf3, iperf and neper: bytes moved per second, and CPU time per byte.
//!
//! ```sh
//! cargo bench --bench peers                           # every case, 7 rounds, about an hour
//! cargo bench --bench peers -- 3 2n2p 1n3p            # 3 rounds of two cases
//! cargo bench --bench peers -- --window 4 --write     # windows of 4 s; the tables go into docs/dev/performance.md
//! PEERS=FOLDER cargo bench --bench peers              # iperf3, iperf or neper from there: executables, or folders of source
//! ```
//!
//! Needs root: it builds private networks (tests/lab), so that nothing of it is visible from outside, and a sysctl sets the
//! same congestion control for all programs. What `PEERS` does not give is the system's: iperf3 and iperf are installed with
//! apt-get where they are missing, and neper takes part only where it is there. Leaves nothing when it ends, however it ends.
//!
//! There are two comparisons, never mixed: (a) as people run it, each with its defaults, and (b) like for like: peers with
//! every option that may help (small buffers, both ends on one core, no copy at the sender) and without, and pipebench with
//! TCP on every link. In each round every variant runs once. The order rotates from round to round, so
//! that another tenant of the machine who takes cores for a while affects all variants alike. The tables compare medians,
//! and pairs of the same round.
//!
//! It does not pass or fail (the marks are shown for the reader), compare with stored figures, use the
//! machine's own network, or measure anything that a real switch adds.
//!
//! Read next: `cases.rs` (the comparisons), `peers.rs` (the peers' command lines), `network.rs` (one run),
//! `meter.rs` (bytes and CPU time), `table.rs` (medians and ratios), `page.rs` (the page of docs/).

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a benchmark prints its figures, and how far it is"
)]

#[path = "../../tests/lab/mod.rs"]
mod lab;

mod cases;
mod machine;
mod meter;
mod network;
mod options;
mod page;
mod peers;
mod table;

use std::process::ExitCode;

use cases::{CASES, Case, Runner};
use network::Network;
use options::Options;
use table::{Row, Table};

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    // `cargo test --benches` starts this too, but without `--bench`: tests must not take half an hour.
    if !words.iter().any(|word| word == "--bench") {
        eprintln!("peers: nothing is measured by tests: run `cargo bench --bench peers`");
        return ExitCode::SUCCESS;
    }
    match Options::parse(&words).and_then(|options| compare(&options)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("peers: {why}");
            ExitCode::FAILURE
        }
    }
}

fn compare(options: &Options) -> Result<(), String> {
    machine::prepare()?;
    machine::go_first();
    let header = machine::describe(options)?;
    println!("{header}\n");
    let mut tables = Vec::new();
    for case in CASES.iter().filter(|case| options.selects(case.name)) {
        let network = Network::raise(case);
        let table = run_table(&network, case, options);
        println!("{table}");
        tables.push(table);
    }
    println!("{}", table::summary(&tables));
    if options.write {
        page::write(&header, &tables)?;
    }
    Ok(())
}

/// Runs all rounds of one case.
fn run_table(network: &Network, case: &Case, options: &Options) -> Table {
    let mut entrants = cases::entrants(case);
    entrants.retain(|entrant| match entrant.runner {
        Runner::Peer(way) => machine::program(way.tool.name()).is_some(),
        Runner::Pipebench(_) => true,
    });
    let mut rows: Vec<Row> = entrants.iter().map(|entrant| entrant.row.clone()).collect();
    for round in 0..options.rounds {
        for turn in 0..entrants.len() {
            let index = (turn + round) % entrants.len();
            let outcome = match &entrants[index].runner {
                Runner::Pipebench(words) => network.run_pipebench(words, options.window),
                Runner::Peer(way) => network.run_peer(way, options.window),
            };
            let name = &rows[index].name;
            let place = format!("{} round {}: {name}", case.name, round + 1);
            match &outcome {
                Ok(sample) => eprintln!("{place}: {sample}"),
                Err(why) => println!("rejected: {place}: {why}"),
            }
            rows[index].samples.push(outcome.ok());
        }
    }
    Table::new(case, rows)
}
