//! Tries the judge on thousands of drawn fabrics with hidden resources, and a plain vote on the same draws.
//!
//! `cargo bench --bench judge -- [DRAWS] [--only WORD] [--uneven PART] [--write]`. Links that share a resource have weights that differ from one by
//! up to a tenth, or by PART. `--write` keeps the tables of all kinds for docs/truth.md, which `cargo bench --bench truth -- 0 0 --write` makes.
//! Two hundred draws of each kind take six minutes.

#![expect(clippy::print_stdout, reason = "what it finds is its output")]

#[path = "../../tests/fabrics/mod.rs"]
mod fabrics;

use fabrics::unlisted::ALL;
use fabrics::{Draw, Kind, Tally, trial_by};
use pipebench::internals::judge::Decision;

/// Sizes of the detection curve, in percent of the rate that a place should carry.
const SIZES: [u32; 7] = [50, 80, 90, 93, 95, 97, 98];

fn main() {
    let (mut draws, mut only, mut write, mut uneven) = (100, String::new(), false, 0.1);
    let mut words = std::env::args().skip(1).filter(|word| word != "--bench");
    while let Some(word) = words.next() {
        match word.as_str() {
            "--only" => only = words.next().expect("a word behind --only"),
            "--write" => write = true,
            "--uneven" => {
                let part = words.next().and_then(|part| part.parse().ok());
                uneven = part.expect("a number behind --uneven");
            }
            count => draws = count.parse().expect("a number of draws"),
        }
    }
    let mut page = String::from(
        "| hidden fault | draws | right | right by the plain vote | an innocent place blamed | passed | retests, median | at most |\n|---|---|---|---|---|---|---|---|\n",
    );
    let sound = [Kind::Sound, Kind::SoundFullUplink, Kind::SoundHalfUplink];
    let mut wrong = Vec::new();
    for kind in Kind::WRONG.into_iter().chain(sound) {
        if !format!("{kind:?}").contains(&only) {
            continue;
        }
        let mut tally = trial_by(kind, 1..=draws, None, false, uneven);
        tally.looks.sort_unstable();
        let row = row(kind, &tally);
        print!("{row}");
        page.push_str(&row);
        wrong.append(&mut tally.wrong);
    }
    if only.is_empty() {
        page.push_str(&curve(draws, uneven));
    }
    let unlisted = unlisted();
    println!("{unlisted}");
    page.push_str(&unlisted);
    for case in &wrong {
        println!("{case}");
    }
    if write && only.is_empty() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/truth/draws.md");
        std::fs::write(file, page).expect("the table can be written");
    }
}

/// Share of faults that are found, by the part that they leave.
fn curve(draws: u64, uneven: f64) -> String {
    let mut page = String::from(
        "\nHow often the judge finds a port direction, a pair, and an uplink as fast as its ports, by the rate that the fault leaves:\n\n| rate left | port | port, `--floor peers` | pair | uplink |\n|---|---|---|---|---|\n",
    );
    for size in SIZES {
        let found = |kind: Kind, peers: bool| {
            let tally = trial_by(
                kind,
                1..=draws,
                Some(f64::from(size) / 100.0),
                peers,
                uneven,
            );
            format!("{} %", tally.named * 100 / tally.all)
        };
        let row = format!(
            "| {size} % | {} | {} | {} | {} |\n",
            found(Kind::Port, false),
            found(Kind::Port, true),
            found(Kind::Pair, false),
            found(Kind::FullUplink, false)
        );
        print!("{row}");
        page.push_str(&row);
    }
    page
}

/// Faults that the judge's author did not think of, misses first.
///
fn unlisted() -> String {
    let said = |decision: &Decision| {
        let blamed: Vec<String> = decision
            .confirmed
            .iter()
            .map(|one| format!("{:?}", one.fault))
            .collect();
        match (blamed.is_empty(), decision.undecided.len()) {
            (true, 0) => "nothing".to_owned(),
            (true, open) => format!("{open} places are open"),
            (false, 0) => blamed.join(", "),
            (false, open) => format!("{}; {open} more are open", blamed.join(", ")),
        }
    };
    let tried = ALL.iter().map(|one| {
        let mut draw = Draw::new(one.seed);
        let world = (one.world)(&mut draw);
        let outcome = world.judge(&mut draw);
        let decision = &outcome.decision;
        let (rank, word) = match decision {
            _ if world.blames_innocents(decision) => (0, "an innocent place blamed"),
            _ if *decision == Decision::default() && outcome.deficit >= 0.1 => (1, "passed"),
            _ if *decision == Decision::default() => (3, "passed: nothing was below its floor"),
            _ if world.is_right(&outcome) => (4, "right"),
            _ => (2, "not found, and no PASS"),
        };
        let row = format!(
            "| {} | {} | {word} | {} |\n",
            one.what,
            one.seed,
            said(decision)
        );
        (rank, row)
    });
    let mut rows: Vec<(i32, String)> = tried.collect();
    rows.sort_by_key(|(rank, _)| *rank);
    let rows: String = rows.into_iter().map(|(_, row)| row).collect();
    format!(
        "\n## Unlisted faults\n\nA reader who had not seen the judge invented these faults (`tests/fabrics/unlisted.rs`) and chose the seeds. Port numbers start at 0. Wrong decisions come first.\n\n| fault | seed | result | blamed |\n|---|---|---|---|\n{rows}"
    )
}

fn words(kind: Kind) -> &'static str {
    match kind {
        Kind::Sound => "nothing",
        Kind::SoundFullUplink => "nothing, uplinks as fast as their ports",
        Kind::SoundHalfUplink => "nothing, uplinks half as fast",
        Kind::Port => "a port, one way",
        Kind::BothWays => "a port, both ways",
        Kind::Pair => "a pair",
        Kind::TwoPorts => "two ports",
        Kind::ThreeFaults => "two ports and a pair",
        Kind::FullUplink => "a declared uplink as fast as its ports",
        Kind::HalfUplink => "a declared uplink half as fast",
        Kind::HiddenUplink => "an uplink that was not declared",
        Kind::Chip => "what some ports send or receive",
        Kind::MemberByPort => "one of two members of an uplink, chosen by port",
        Kind::MemberByAddress => "one of two members of an uplink, chosen by address",
        Kind::Backplane => "all ports together",
        Kind::SharedPath => "a path that two pairs share",
        Kind::HalfDuplex => "a port that cannot send and receive at once",
        Kind::ComesAndGoes => "a port that is slow in some tests",
        Kind::PortBesideBackplane => "a port, and all ports together",
        Kind::PairBesidePort => "a pair, and a port",
        Kind::PortBesideUplink => "a port, and an uplink",
    }
}

fn row(kind: Kind, tally: &Tally) -> String {
    format!(
        "| {} | {} | {} | {} | {} | {} | {} | {} |\n",
        words(kind),
        tally.all,
        tally.right,
        tally.votes,
        tally.innocent,
        tally.passed,
        tally.looks.get(tally.looks.len() / 2).unwrap_or(&0),
        tally.looks.last().unwrap_or(&0)
    )
}
