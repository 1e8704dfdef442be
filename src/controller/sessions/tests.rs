//! The sessions with scripted nodes: no process is started, and tests say what each node sends.

use std::path::PathBuf;

use launcher::Program;

use crate::plan::NodeSpec;
use crate::plan::lanes::tests::{plan_of, test_of};
use crate::record::{HostCost, PairTime};
use crate::wire::message::{FromNode, Hello, RankWord, WIRE_VERSION};

use super::*;
use crate::wire::frame;

/// Sessions of a run whose nodes say nothing unless a test says it for them.
fn scripted(nodes: usize) -> Sessions {
    let node = |number: usize| NodeSpec {
        label: format!("n{number}"),
        ..NodeSpec::default()
    };
    let plan = plan_of((1..=nodes).map(node).collect(), test_of(2, 1));
    let conditions = Conditions {
        settings: launcher::Settings::default(),
        program: Program::new(PathBuf::new(), Vec::new(), "abacus".to_owned()),
        stop: Arc::default(),
        command: Vec::new(),
        options: Vec::new(),
        hold: None,
        token: String::new(),
        secret: String::new(),
        started_ms: 0,
        seal: None,
        resumed: None,
        name: None,
        watched: false,
    };
    let mut sessions = Sessions::start(&plan, &[], &conditions);
    sessions.begin(0, &plan.tests()[0], true);
    sessions
}

impl Sessions {
    /// Lets a node say something.
    fn say(&mut self, node: usize, message: &FromNode) {
        let json = serde_json::to_vec(message).unwrap();
        self.hear(node, &frame::encode(&json));
    }

    /// Label and message of each failure.
    fn failures(&self) -> Vec<String> {
        let all = self.log.troubles.iter();
        all.map(|one| format!("{}: {}", one.node, one.text()))
            .collect()
    }
}

fn times(count: usize) -> FromNode {
    let time = PairTime {
        step: 0,
        from: 0,
        to: 1,
        turn: 0,
        seconds: 1.0,
        spread: None,
        efforts: Default::default(),
    };
    let word = RankWord::Times(vec![(time, 1); count]);
    FromNode::Rank { rank: 0, word }
}

/// Regression test: only bytes of messages that were not whole had a sum, and 1 GiB of them.
#[test]
fn nodes_that_together_say_too_much_lose_the_one_that_said_most() {
    let mut sessions = scripted(8);
    let limit = sessions.limits.all_bytes;
    assert!(limit < 80 << 20, "{limit}");
    for round in 0..100 {
        for node in 0..8 {
            // Each stays within what one node may say.
            let count = if node == 6 { 1500 } else { 1000 };
            sessions.say(node, &times(count));
        }
        let held: usize = sessions.nodes.iter().map(NodeSession::held_bytes).sum();
        assert!(held <= limit, "round {round}: {held}");
        if !sessions.log.troubles.is_empty() {
            break;
        }
    }
    let failures = sessions.failures();
    let first = failures.first().expect("a failure");
    assert!(first.starts_with("n7: sent more than "), "{failures:?}");
    assert!(sessions.nodes[6].test.rank_words.is_empty());
}

/// Regression test: reports of the test before counted, so that the second of two equal tests of many hosts lost those that had said nothing wrong.
#[test]
fn what_a_test_kept_counts_no_more_once_the_next_one_begins() {
    let mut sessions = scripted(2);
    sessions.say(1, &FromNode::Finished(Box::default()));
    assert!(sessions.nodes[1].held_bytes() > 0);
    sessions.begin(1, &test_of(2, 1), true);
    assert_eq!(sessions.nodes[1].held_bytes(), 0);
}

/// Regression test: bytes of a message that never becomes whole.
#[test]
fn a_node_that_announces_more_than_its_kind_may_have_is_lost_before_it_sends_that() {
    let mut sessions = scripted(2);
    let mut bytes = b"PBF1".to_vec();
    bytes.extend_from_slice(&(60_u32 << 20).to_le_bytes());
    bytes.extend_from_slice(b"{\"series\":{\"bytes\":");
    sessions.hear(1, &bytes);
    sessions.hear(1, &[b' '; 1000]);
    let expected = "n2: sent more than 2 MiB in one message (series): 60 MiB";
    assert_eq!(sessions.failures(), [expected]);
    assert_eq!(sessions.nodes[1].held_bytes(), 0);
}

/// Regression test: one counter stood for all kinds, so that a thousand reports of megabytes each were read.
#[test]
fn a_node_that_reports_more_often_than_it_was_asked_is_lost() {
    let mut sessions = scripted(2);
    let report = FromNode::Finished(Box::default());
    sessions.say(1, &report);
    assert!(sessions.failures().is_empty());
    sessions.say(1, &report);
    let expected = "n2: sent more messages than requested (finished)";
    assert_eq!(sessions.failures(), [expected]);
}

/// Symptom: with 1,000 nodes, each of the 1,000 answers to a ping made the launching side look at all nodes.
#[test]
fn a_thousand_nodes_that_answer_one_by_one_cost_no_million_looks() {
    let mut nodes: Vec<NodeSession> = (0..1000).map(|_| NodeSession::default()).collect();
    let looks = std::cell::Cell::new(0);
    let open = |node: &NodeSession| {
        looks.set(looks.get() + 1);
        !node.test.ready
    };
    let mut last = 0;
    // Neighbours do not answer one after the other.
    for answer in 0..1000 {
        assert!(any_open(&nodes, &mut last, open), "{answer}");
        nodes[answer * 7 % 1000].test.ready = true;
    }
    assert!(!any_open(&nodes, &mut last, open));
    assert!(looks.get() < 10_000, "{}", looks.get());
    // A node can have to answer again.
    nodes[500].test.ready = false;
    assert!(any_open(&nodes, &mut last, open));
    assert_eq!(last, 500);
}

/// Symptom: each message of one of 1,000 nodes made the launching side add up what all nodes hold.
#[test]
fn what_nodes_hold_is_known_without_counting_all_of_them() {
    let mut sessions = scripted(8);
    for round in 0..3 {
        for node in 0..8 {
            sessions.say(node, &times(1000));
        }
        let held: usize = sessions.nodes.iter().map(NodeSession::held_bytes).sum();
        assert_eq!(sessions.held_bytes, held, "{round}");
    }
    // What the launching side drops counts until the node is heard again.
    sessions.begin(1, &test_of(2, 1), true);
    assert!(sessions.held_bytes > 0);
    for node in 0..8 {
        sessions.say(node, &FromNode::Alive);
    }
    assert_eq!(sessions.held_bytes, 0);
}

/// Symptom: one host of 1,000 that did not come up ended the run. A stated share may fail, and no more.
#[test]
fn a_run_continues_without_a_share_of_its_nodes_and_no_more() {
    let mut sessions = scripted(5);
    sessions.limits.keep_going = true;
    sessions.limits.all_and_missing = (5, 1);
    sessions.set_start(clock::monotonic_ns(), clock::monotonic_ns() + 1);
    sessions.lose(1, TroubleKind::Lost, "lost".to_owned());
    assert!(sessions.go_on_without());
    sessions.lose(3, TroubleKind::Lost, "lost".to_owned());
    assert!(!sessions.go_on_without());
    let line = "2 of 5 nodes failed, and at most 1 may (--keep-going allows more)";
    assert!(sessions.log.notices.iter().any(|notice| notice == line));
    assert_eq!(sessions.log.troubles.len(), 1);
    assert_eq!(sessions.lost().count(), 1);
}

/// Symptom: nodes that fell silent after the start was set and before it came were all "lost at 0.0 s", as if data had flowed.
#[test]
fn a_node_that_falls_silent_before_the_start_takes_no_part() {
    const S: u64 = 1_000_000_000;
    let mut sessions = scripted(4);
    sessions.limits.keep_going = true;
    let now_ns = clock::monotonic_ns();
    sessions.set_start(now_ns - 10 * S, now_ns + 10 * S);
    for (node, ago_s) in [(1, 15), (2, 2)] {
        let heard = Instant::now().checked_sub(Duration::from_secs(ago_s));
        sessions.nodes[node].life.heard = heard;
        sessions.lose(node, TroubleKind::Lost, "lost: silent for 10 s".to_owned());
    }
    assert!(sessions.go_on_without());
    let lost: Vec<(&str, Option<u64>)> = sessions
        .lost()
        .map(|one| (one.node.as_str(), one.at_ns.map(|ns| ns / S)))
        .collect();
    assert!(
        matches!(lost[..], [("n2", None), ("n3", Some(6..))]),
        "{lost:?}"
    );
}

/// Symptom: nodes that were late together became one failure of no known node, and the run ended in spite of `--keep-going`.
#[test]
fn a_run_continues_without_nodes_that_are_late_together() {
    let mut sessions = scripted(8);
    sessions.limits.keep_going = true;
    let now_ns = clock::monotonic_ns();
    sessions.set_start(now_ns, now_ns + 1);
    for node in [0, 1, 3, 4, 5, 7] {
        sessions.nodes[node].test.ready = true;
    }
    let waited = sessions.await_all("be ready", 1, |node| node.test.ready);
    assert!(waited.is_ok(), "{:?}", sessions.failures());
    let lost: Vec<(&str, &str)> = sessions
        .lost()
        .map(|one| (one.node.as_str(), one.what.as_str()))
        .collect();
    let what = "cannot be ready: timed out after 0 s";
    assert_eq!(lost, [("n3", what), ("n7", what)]);
}

/// Symptom: a run with hosts of two architectures was refused because their executables had two digests.
#[test]
fn executables_for_several_architectures_are_known_and_those_of_other_builds_are_not() {
    let mut sessions = scripted(4);
    let own = sessions.limits.program.digest.clone();
    let other = Program::new(PathBuf::new(), b"other".to_vec(), "quern".to_owned());
    let digest = other.digest.clone();
    sessions.limits.program.others.push(other);
    let version = env!("CARGO_PKG_VERSION");
    let hellos = [
        (own.as_str(), version, "abacus"),
        (&digest, version, "quern"),
        (&digest, "0.0.1", "quern"),
        ("0123", version, "abacus"),
    ];
    for (node, (digest, version, architecture)) in hellos.into_iter().enumerate() {
        let hello = FromNode::Hello(Box::new(Hello {
            wire_version: WIRE_VERSION,
            version: version.to_owned(),
            digest: digest.to_owned(),
            executable: "p".to_owned(),
            pid: 1,
            facts: HostFacts {
                architecture: architecture.to_owned(),
                ..HostFacts::default()
            },
        }));
        sessions.say(node, &hello);
    }
    let refused = sessions.failures();
    assert_eq!(refused.len(), 2, "{refused:?}");
    assert!(refused[0].starts_with("n3: another build answers: pipebench 0.0.1 "));
    assert!(refused[1].starts_with("n4: another build answers: "));
    sessions.note_architectures();
    sessions.note_architectures();
    let noted = "hosts of several architectures: abacus on n1, quern on n2";
    assert_eq!(sessions.log.notices, [noted]);
}

#[test]
fn an_estimate_joins_the_facts_of_its_host_and_only_an_asked_node_may_send_one() {
    let mut sessions = scripted(2);
    let hello = Hello {
        wire_version: WIRE_VERSION,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        digest: sessions.limits.program.digest.clone(),
        executable: "p".to_owned(),
        pid: 1,
        facts: HostFacts::default(),
    };
    sessions.say(0, &FromNode::Hello(Box::new(hello)));
    let cost = HostCost {
        copies_ns_per_gb: 130_000_000,
        pages_ns_per_gb: 90_000_000,
    };
    sessions.nodes[0].input.allowance.ask(&ToNode::Estimate);
    sessions.say(0, &FromNode::Cost(Some(cost)));
    assert!(sessions.nodes[0].test.has_estimated);
    assert_eq!(sessions.host_records()[0].facts.cost, Some(cost));
    assert!(sessions.failures().is_empty());
    sessions.say(1, &FromNode::Cost(None));
    let expected = "n2: sent more messages than requested (cost)";
    assert_eq!(sessions.failures(), [expected]);
}
