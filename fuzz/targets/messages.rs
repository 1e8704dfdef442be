//! Messages of the control channel, both ways, and everything computed from them alone.

use pipebench::internals::jobs::linktest::schedule;
use pipebench::internals::outside;
use pipebench::internals::plan::job::Round;
use pipebench::internals::ranks::Group;
use pipebench::internals::stats::offset::{Sample, estimate};
use pipebench::internals::wire::message::{FromNode, RankWord, ToNode};

use super::plan::follow_assignment;
use crate::driver::magnitude;

pub const WORDS: &[&str] = &[
    "prepare",
    "connect",
    "ping",
    "go",
    "alive",
    "stop",
    "end",
    "hello",
    "prepared",
    "ready",
    "pong",
    "progress",
    "trouble",
    "finished",
    "tcp",
    "unix",
    "none",
    "sent_ns",
    "node_ns",
    "window_ns",
    "blocks",
    "prepare-ranks",
    "ranks-listen",
    "rank-book",
    "round",
    "whole",
    "alone",
    "all-to-all",
    "linktest",
    "order",
    "times",
    "done",
    "table",
    "groups",
    "lengths",
    "line",
    "imb",
    "PingPong",
    "Allreduce",
    "guide",
];

pub fn run(input: &[u8]) -> String {
    format!("{}; {}", to_node(input), from_node(input))
}

fn to_node(input: &[u8]) -> String {
    let message: ToNode = match serde_json::from_slice(input) {
        Ok(message) => message,
        Err(error) => return super::misread(&error),
    };
    let text = serde_json::to_vec(&message).expect("a message is JSON");
    let again: ToNode = serde_json::from_slice(&text).expect("it was read before");
    assert_eq!(again, message);
    match message {
        ToNode::Prepare(assignment) => format!("prepare {}", follow_assignment(&assignment)),
        ToNode::Connect(book) => format!("connect {}", magnitude(book.listeners.len())),
        ToNode::Ping { .. } => "ping".to_owned(),
        ToNode::Go(go) => format!("go {} {}", go.window_ns.is_some(), go.blocks.is_some()),
        ToNode::Alive => "alive".to_owned(),
        ToNode::Lost { .. } => "lost".to_owned(),
        ToNode::Window { .. } => "window".to_owned(),
        ToNode::Series(of) => format!("series {}", magnitude(of.len())),
        ToNode::Look { ends } => format!("look {ends}"),
        ToNode::EndRun(token) => format!("end run {}", magnitude(token.len())),
        ToNode::PrepareRanks(assignment) => match assignment.check() {
            Ok(()) => {
                // Values that a node computes from it before it allocates anything.
                let ranks = assignment.job.ranks();
                let own = ranks.of_node(assignment.run.node, assignment.run.nodes());
                assert!(own.len() <= assignment.ranks());
                let bytes = assignment.job.bytes_per_rank(assignment.ranks());
                format!("ranks {} {}", magnitude(own.len()), magnitude(bytes))
            }
            Err(error) => format!("no ranks: {}", super::misread(&error)),
        },
        ToNode::RankBook(book) => format!("book {}", magnitude(book.len())),
        ToNode::Round(round) => format!("round {}", follow_round(&round)),
        ToNode::Stop => "stop".to_owned(),
        ToNode::End => "end".to_owned(),
        ToNode::Estimate => "estimate".to_owned(),
    }
}

/// Computes the steps that every rank computes for itself.
fn follow_round(round: &Round) -> String {
    match round {
        Round::Whole { order, .. } if order.len() <= 64 => {
            let steps = schedule::parallel(order);
            format!("whole {}", magnitude(steps.len()))
        }
        Round::Whole { .. } => "whole".to_owned(),
        Round::Alone { links, .. } => format!("alone {}", magnitude(links.len())),
        Round::Steps { steps, .. } => format!("steps {}", magnitude(steps.len())),
        Round::Table(table) => {
            let own = table.groups.first().and_then(|group| group.first());
            let members = table.groups.concat();
            let known = own.is_some_and(|own| Group::new(members, *own).is_some());
            format!("table {} {known}", magnitude(table.lengths.len()))
        }
        Round::AllToAll => "all to all".to_owned(),
    }
}

fn from_node(input: &[u8]) -> String {
    let message: FromNode = match outside::read(input) {
        Ok(message) => message,
        Err(error) => {
            assert!(!error.to_string().contains(outside::steers), "{error:?}");
            return super::misread(&error);
        }
    };
    let shown = format!("{message:?}");
    assert!(
        !shown.contains("\\u{1b}") && !shown.contains("\\u{202e}"),
        "{shown}"
    );
    let text = serde_json::to_vec(&message).expect("a message is JSON");
    let again: FromNode = outside::read(&text).expect("it was read before");
    assert_eq!(again, message);
    match message {
        FromNode::Hello(hello) => format!("hello {}", magnitude(hello.facts.interfaces.len())),
        FromNode::Prepared { listeners, .. } => format!("prepared {}", magnitude(listeners.len())),
        FromNode::RanksListen(addresses) => format!("ranks listen {}", magnitude(addresses.len())),
        FromNode::Rank { word, .. } => match word {
            RankWord::Ready => "rank ready".to_owned(),
            RankWord::Times(times) => format!("rank times {}", magnitude(times.len())),
            RankWord::Line(line) => format!("rank line {}", magnitude(line.batches_s.len())),
            RankWord::Done { all_to_all_s, .. } => format!("rank done {}", all_to_all_s.is_some()),
        },
        FromNode::Ready => "ready".to_owned(),
        FromNode::Pong { sent_ns, node_ns } => pong(sent_ns, node_ns),
        FromNode::Progress(progress) => format!("progress {}", progress.slowest.is_some()),
        FromNode::Alive => "still alive".to_owned(),
        FromNode::Trouble(troubles) => {
            let lines = pipebench::internals::report::text::troubles(&troubles);
            assert!(lines.len() <= 9, "{} lines", lines.len());
            format!("troubles {}", magnitude(lines.len()))
        }
        FromNode::Seen(mut sighting) => {
            sighting.keep_sound();
            format!("seen {}", magnitude(sighting.nodes.len()))
        }
        FromNode::Cost(cost) => format!("cost {}", cost.is_some()),
        FromNode::Asked(asked) => format!("asked {}", magnitude(asked.len())),
        FromNode::Series { bytes, .. } => format!("series {}", magnitude(bytes.len())),
        FromNode::Finished(report) => {
            let lengths: Vec<u64> = report.edges.iter().map(|edge| edge.at_ns()).collect();
            format!(
                "finished {} {}",
                magnitude(lengths.len()),
                magnitude(report.ends.len())
            )
        }
    }
}

/// The launching side takes the time of the answer itself; the node can return any values for the other two.
fn pong(sent_ns: u64, node_ns: u64) -> String {
    let mut known = false;
    for received_ns in [0, 1_000_000_000, u64::MAX / 2] {
        let sample = Sample {
            sent_ns,
            node_ns,
            received_ns,
        };
        if let Some(offset) = estimate(&[sample]) {
            known = true;
            let instants = [0, received_ns, node_ns, u64::MAX];
            let shifted = instants.map(|at| offset.to_own(at).max(offset.to_node(at)));
            assert!(shifted[3] > 0);
        }
    }
    format!("pong {known}")
}
