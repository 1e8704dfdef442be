//! Reports of nodes: the launching side makes a record from any reports, and every document from that record.

use std::sync::LazyLock;

use pipebench::internals::controller::assemble;
use pipebench::internals::record::{AcceptanceRecord, NodeReport, Outcome, Record};
use pipebench::internals::report::json;
use pipebench::internals::stats::offset::{Sample, estimate};

use crate::driver::magnitude;

pub const WORDS: &[&str] = &[
    "rung_ns",
    "done_ns",
    "edges",
    "ends",
    "senders",
    "receivers",
    "before_ns",
    "after_ns",
    "activity_ns",
    "cores",
    "sender",
    "receiver",
    "finished",
    "interface",
    "tcp",
    "null",
    "complete",
];

/// A run of two hosts; its plan and hosts come from the launching side.
static OWN: LazyLock<Record> = LazyLock::new(|| {
    json::read(include_str!("../corpus/record/two-hosts.json")).expect("a record")
});

pub fn run(input: &[u8]) -> String {
    let reports: Vec<Option<NodeReport>> = match serde_json::from_slice(input) {
        Ok(reports) => reports,
        Err(error) => return super::misread(&error),
    };
    let mut record = OWN.clone();
    let nodes = record.plan.nodes.len();
    let seen: Vec<Option<&NodeReport>> = (0..nodes)
        .map(|node| reports.get(node).and_then(Option::as_ref))
        .collect();
    // Clock answers come from nodes, too: any number of the input serves.
    let said = |node: usize| {
        seen[node]
            .and_then(|report| report.rung_ns)
            .unwrap_or(1_000_000)
    };
    let offsets: Vec<_> = (0..nodes)
        .map(|node| Sample {
            sent_ns: 1_000_000,
            node_ns: said(node),
            received_ns: 1_400_000,
        })
        .map(|sample| {
            estimate(&[sample]).or(estimate(&[Sample {
                node_ns: 0,
                ..sample
            }]))
        })
        .map(|offset| offset.expect("the second one is near"))
        .collect();
    let mut test = assemble::from_reports(
        &record.plan,
        0,
        &record.hosts,
        &seen,
        &|_| false,
        [&offsets, &offsets],
        &|| false,
    )
    .expect("it has all the time");
    assert!(test.conservation.agreeing <= test.links.len());
    let outcome = format!(
        "{} skew {} span {} faults {}",
        test.complete,
        test.skew_ns.is_some(),
        test.span_ns.is_some(),
        magnitude(test.conservation.faults.len())
    );
    test.seconds = std::mem::take(&mut record.tests_mut()[0].seconds);
    record.outcome = Outcome::Acceptance(AcceptanceRecord { tests: vec![test] });
    format!("{outcome} {}", super::record::follow(&record))
}
