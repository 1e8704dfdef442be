//! Fingerprint of the judge: a check sum of its findings on fabrics that are always drawn alike, and on stored records. A change that only moves
//! the judge's code keeps the rows of docs/truth.md. A change after which it asks for another look or gives another verdict invalidates them.

use std::path::Path;
use std::sync::OnceLock;

use pipebench::internals::judge::verdict;
use pipebench::internals::record::{AcceptanceRecord, Measured};
use pipebench::internals::report::json;

use crate::fabrics::{Draw, Kind, World};

/// Number of draws of each kind.
const DRAWS: u64 = 20;

/// The check sum, computed once.
pub fn judge() -> String {
    static JUDGE: OnceLock<String> = OnceLock::new();
    let made = JUDGE.get_or_init(|| {
        let mut sum = crc32fast::Hasher::new();
        add_draws(&mut sum);
        add_records(&mut sum);
        format!("{:08x}", sum.finalize())
    });
    made.clone()
}

/// Adds the links that were looked at, in their order, and the final decision.
fn add_draws(sum: &mut crc32fast::Hasher) {
    let sound = [Kind::Sound, Kind::SoundFullUplink, Kind::SoundHalfUplink];
    for kind in Kind::WRONG.into_iter().chain(sound) {
        for seed in 1..=DRAWS {
            let mut draw = Draw::new(seed * 1000 + kind as u64);
            let ports = 4 + draw.below(7);
            let left = draw.between(0.5, 0.98);
            let world = World::new(kind, ports, left, &mut draw);
            let outcome = world.judge(&mut draw);
            for test in &outcome.seen {
                let pairs = test.links.iter().map(|link| (link.from, link.to));
                sum.update(format!("{:?}", pairs.collect::<Vec<_>>()).as_bytes());
            }
            let decision = &outcome.decision;
            let (blamed, open) = (decision.confirmed.len(), decision.undecided.len());
            let named = world.named(decision);
            sum.update(format!("{blamed} {open} {named:?}").as_bytes());
        }
    }
}

/// Adds the verdict and the faults of each stored record, test by test.
fn add_records(sum: &mut crc32fast::Hasher) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let folders = std::fs::read_dir(folder).expect("stored records");
    let mut paths: Vec<_> = folders
        .filter_map(|folder| Some(folder.ok()?.path().join("record.json")))
        .filter(|path| path.exists())
        .collect();
    paths.sort();
    for path in paths {
        let text = std::fs::read_to_string(&path).expect("a stored record");
        let record = json::read(&text).expect("a stored record");
        let Measured::Acceptance(plan, whole) = record.measured() else {
            continue;
        };
        for count in 1..=whole.tests.len() {
            let tests = whole.tests[..count].to_vec();
            let measured = AcceptanceRecord { tests };
            let measured = Measured::Acceptance(plan, &measured);
            let said = verdict::judge(&record.plan, &record.hosts, measured);
            let faults = said.sheet.faults.iter();
            let faults = faults.map(|fault| {
                let culprit = serde_json::to_string(&fault.culprit).expect("a culprit is JSON");
                format!("{culprit} {}", fault.word)
            });
            let faults: Vec<String> = faults.collect();
            let (word, open) = (said.verdict.word, said.open.len());
            sum.update(format!("{word} {open} {faults:?}").as_bytes());
        }
    }
}
