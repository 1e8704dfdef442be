//! Run plans and assignments, and everything computed from them before anything is allocated.

use pipebench::internals::plan::{Assignment, RunPlan, lanes, size};
use pipebench::internals::report::dry_run;

use crate::driver::magnitude;

pub const WORDS: &[&str] = &[
    "time",
    "volume",
    "files",
    "buffers",
    "warmup_ns",
    "window_ns",
    "phases",
    "streams",
    "block_bytes",
    "memory",
    "discard",
    "file",
    "block",
    "buffer",
    "place_on_host",
    "peers",
    "nodes",
    "on_host",
    "labels",
    "same_host",
    "ports",
    "speed_bits_per_s",
];

pub fn run(input: &[u8]) -> String {
    let plan = match serde_json::from_slice::<RunPlan>(input) {
        Ok(plan) => follow_plan(&plan),
        Err(error) => super::misread(&error),
    };
    let assignment = match serde_json::from_slice::<Assignment>(input) {
        Ok(assignment) => follow_assignment(&assignment),
        Err(error) => super::misread(&error),
    };
    format!("{plan}; {assignment}")
}

fn follow_plan(plan: &RunPlan) -> String {
    let text = serde_json::to_vec(plan).expect("a plan is JSON");
    let again: RunPlan = serde_json::from_slice(&text).expect("it was read before");
    assert_eq!(again, *plan);
    if let Err(error) = plan.check() {
        return format!("plan refused: {}", error.to_string().len());
    }
    let shown = dry_run::dry_run(plan);
    assert!(
        shown.len() <= 16 * text.len() + 4096,
        "{} bytes",
        shown.len()
    );
    let sizes: String = plan
        .tests()
        .iter()
        .take(4)
        .map(|test| magnitude(size::of(test, plan.nodes.len()).processes))
        .collect();
    format!("plan of {} nodes {sizes}", magnitude(plan.nodes.len()))
}

/// Computes everything that a node computes from an assignment before it allocates anything.
pub fn follow_assignment(assignment: &Assignment) -> String {
    let text = serde_json::to_vec(assignment).expect("an assignment is JSON");
    let again: Assignment = serde_json::from_slice(&text).expect("it was read before");
    assert_eq!(again, *assignment);
    if let Err(why) = assignment.check() {
        return super::one_line(&why, 400);
    }
    let (test, nodes, node) = (
        &assignment.test,
        assignment.run.nodes(),
        assignment.run.node,
    );
    let mut ends = 0;
    for boundary in 0..test.phases - 1 {
        let outgoing = lanes::outgoing(test, nodes, boundary, node);
        let incoming = lanes::incoming(test, nodes, boundary, node);
        assert_eq!(outgoing.len(), incoming.len());
        ends += outgoing.len() + incoming.len();
        if let Some(last) = incoming.last() {
            assert!(lanes::origin(test, nodes, last).from < nodes);
            assignment.kind_of(last);
        }
    }
    let processes = size::processes_per_node(test, nodes);
    // A relay that passes pages on serves two ends in one process.
    let relays = match test.relays_pass_pages() {
        true => nodes * test.streams * (test.phases - 2),
        false => 0,
    };
    assert_eq!(processes, 1 + test.phases + ends - relays);
    format!("assignment of {} processes", magnitude(processes))
}
