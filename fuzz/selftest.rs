//! Tests of the fuzzer: it finds planted faults, makes their inputs small, keeps them and reports them.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pipebench::internals::outside;
use pipebench::internals::wire::message::{FromNode, ToNode};

use serde_json::Value;

use crate::driver::{Campaign, Target, stored};
use crate::targets::record;

fn campaign(target: Target, artifacts: &std::path::Path) -> Campaign {
    Campaign {
        name: "planted".to_owned(),
        target,
        words: &[],
        seeds: vec![br#"{"phases":3,"streams":1,"labels":["n1","n2"]}"#.to_vec()],
        seed: 1,
        time: Duration::from_secs(60),
        artifacts: artifacts.to_owned(),
        hung: Duration::from_secs(10),
    }
}

/// Multiplies two numbers of a text in 64 bits, without checking them first.
fn overflows(input: &[u8]) -> String {
    let Ok(value) = serde_json::from_slice::<serde_json::Value>(input) else {
        return "no JSON".to_owned();
    };
    let of = |name: &str| value.get(name).and_then(serde_json::Value::as_u64);
    match (of("phases"), of("streams")) {
        (Some(phases), Some(streams)) => (phases * streams).to_string(),
        _ => "no numbers".to_owned(),
    }
}

#[test]
fn a_planted_overflow_is_found_and_made_small() {
    let folder = tempfile::tempdir().expect("a folder");
    let campaign = campaign(overflows, folder.path());
    let failure = campaign.run().expect_err("it is there");
    assert!(
        failure.why.contains("selftest.rs") && failure.why.contains("overflow"),
        "{}",
        failure.why
    );
    assert!(failure.input.len() < 60, "{:?}", failure.input);
    let text = campaign.keep(&failure);
    assert!(text.contains("of seed 1 fails") && text.contains("replay: "));
    let kept: Vec<_> = std::fs::read_dir(folder.path())
        .expect("a folder")
        .flatten()
        .map(|entry| std::fs::read(entry.path()).expect("an input"))
        .collect();
    assert_eq!(kept, [failure.input], "the input alone is kept");
}

/// Fails only after three gates, each with a new outcome: without keeping the inputs on the way this would take 2^24 tries.
fn is_deep(input: &[u8]) -> String {
    let text = String::from_utf8_lossy(input);
    let passed = ["[[", "65536", "\u{1b}"]
        .iter()
        .take_while(|word| text.contains(**word))
        .count();
    assert!(passed < 3 || input.len() < 12, "planted");
    ["none", "one", "two", "three"][passed].to_owned()
}

#[test]
fn what_is_heard_for_the_first_time_leads_further() {
    let folder = tempfile::tempdir().expect("a folder");
    let failure = campaign(is_deep, folder.path())
        .run()
        .expect_err("it is there");
    assert!(failure.why.contains("planted"), "{}", failure.why);
}

static RELEASED: AtomicBool = AtomicBool::new(false);

fn hangs(input: &[u8]) -> String {
    while input.len() > 60 && !RELEASED.load(Ordering::SeqCst) {
        std::thread::yield_now();
    }
    String::new()
}

#[test]
fn an_input_that_never_comes_back_is_found() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut campaign = campaign(hangs, folder.path());
    campaign.hung = Duration::from_secs(2);
    let failure = campaign.run().expect_err("it is there");
    RELEASED.store(true, Ordering::SeqCst);
    assert!(failure.why.contains("did not come back"), "{}", failure.why);
    assert!(failure.input.len() > 60);
}

#[test]
fn the_same_seed_gives_the_same_inputs() {
    let folder = tempfile::tempdir().expect("a folder");
    let numbers = [1, 2].map(|_| {
        let failure = campaign(overflows, folder.path())
            .run()
            .expect_err("it is there");
        (failure.number, failure.input)
    });
    assert_eq!(numbers[0], numbers[1]);
}

/// Replaces each text of a value by `own`, one at a time. Returns a copy of the whole for each; entries of a list count once by their shape.
fn with_text(own: &str, whole: &Value) -> Vec<String> {
    fn places(value: &Value, place: &str, shape: &str, found: &mut BTreeMap<String, String>) {
        match value {
            Value::String(_) => drop(found.entry(shape.to_owned()).or_insert(place.to_owned())),
            Value::Array(all) => {
                for (number, one) in all.iter().enumerate() {
                    places(
                        one,
                        &format!("{place}/{number}"),
                        &format!("{shape}/"),
                        found,
                    );
                }
            }
            Value::Object(all) => {
                for (key, one) in all {
                    places(
                        one,
                        &format!("{place}/{key}"),
                        &format!("{shape}/{key}"),
                        found,
                    );
                }
            }
            _ => {}
        }
    }
    let mut found = BTreeMap::new();
    places(whole, "", "", &mut found);
    let replaced = |place: &String| {
        let mut copy = whole.clone();
        if let Some(text) = copy.pointer_mut(place) {
            *text = format!("{own}{}", text.as_str().unwrap_or_default()).into();
        }
        copy.to_string()
    };
    found.values().map(replaced).collect()
}

#[test]
fn no_string_of_a_record_steers_a_report() {
    const STEERS: &str = "=HYPERLINK(\"http://x\")\u{1b}[31m\u{9b}\u{202e}\u{7}\"><script>";
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    for kind in [
        "blocked",
        "broken-off",
        "linktest",
        "latency",
        "patterns",
        "slow-uplink",
    ] {
        let path = root.join("tests/golden").join(kind).join("record.json");
        let text = std::fs::read_to_string(path).expect("a golden record");
        let whole = serde_json::from_str(&text).expect("it is JSON");
        let (mut read, mut all) = (0, 0);
        for changed in with_text(STEERS, &whole) {
            // Some texts are words of a list: then the error must not steer. The target checks all reports of a record.
            let outcome = record::run(changed.as_bytes());
            assert!(!outcome.contains(outside::steers), "{outcome:?}");
            read += usize::from(outcome.starts_with("record with"));
            all += 1;
        }
        assert!(read * 3 > all, "{kind}: only {read} of {all} were read");
    }
}

#[test]
fn every_stored_message_is_understood_by_one_side() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus/messages");
    for input in stored(&folder) {
        let to_node = serde_json::from_slice::<ToNode>(&input);
        let from_node = outside::read::<FromNode>(&input);
        let text = String::from_utf8_lossy(&input);
        if let (Err(one), Err(other)) = (to_node, from_node) {
            panic!("{text}: {one}; {other}");
        }
    }
}
