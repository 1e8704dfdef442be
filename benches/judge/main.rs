//! The judge against thousands of drawn fabrics with hidden resources, beside a plain vote on the same draws.
//!
//! `cargo bench --bench judge -- [DRAWS] [--only WORD] [--write]`. `--write` keeps the tables for docs/truth.md, which `cargo bench --bench truth --
//! 0 0 --write` makes. A thousand draws of each kind take an hour.

#![expect(clippy::print_stdout, reason = "what it finds is its output")]

#[path = "../../tests/fabrics/mod.rs"]
mod fabrics;

use fabrics::{Kind, Tally, trial, trial_by};

/// What the detection is drawn at, in percent of what a place should carry.
const SIZES: [u32; 7] = [50, 80, 90, 93, 95, 97, 98];

fn main() {
    let (mut draws, mut only, mut write) = (100, String::new(), false);
    let mut words = std::env::args().skip(1).filter(|word| word != "--bench");
    while let Some(word) = words.next() {
        match word.as_str() {
            "--only" => only = words.next().expect("a word behind --only"),
            "--write" => write = true,
            count => draws = count.parse().expect("a number of draws"),
        }
    }
    let mut page = String::from(
        "| what is hidden | draws | right | a plain vote | an innocent place blamed | passed | looks, median | at most |\n|---|---|---|---|---|---|---|---|\n",
    );
    let sound = [Kind::Sound, Kind::SoundFullUplink, Kind::SoundHalfUplink];
    let mut wrong = Vec::new();
    for kind in Kind::WRONG.into_iter().chain(sound) {
        if !format!("{kind:?}").contains(&only) {
            continue;
        }
        let mut tally = trial(kind, 1..=draws, None);
        tally.looks.sort_unstable();
        let row = row(kind, &tally);
        print!("{row}");
        page.push_str(&row);
        wrong.append(&mut tally.wrong);
    }
    page.push_str("\nHow often a port direction, a pair, and an uplink as fast as its ports are found, by what they leave:\n\n| leaves | port | port, `--floor peers` | pair | uplink |\n|---|---|---|---|---|\n");
    for size in SIZES {
        let found = |kind: Kind, peers: bool| {
            let tally = trial_by(kind, 1..=draws, Some(f64::from(size) / 100.0), peers);
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
    println!();
    for case in &wrong {
        println!("{case}");
    }
    if write {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/truth/draws.md");
        std::fs::write(file, page).expect("the table can be written");
    }
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
