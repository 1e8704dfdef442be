//! Tests of the fuzzer: it finds planted faults, makes their inputs small, keeps them and reports them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pipebench::internals::outside;
use pipebench::internals::wire::message::{FromNode, ToNode};

use crate::driver::{Campaign, Target, stored};

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
