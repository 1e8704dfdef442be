//! The seal: a text of everything that was settled before the start, that is thresholds, ports, tests and tool. Its digest is printed before a
//! byte flows, which proves that thresholds were not chosen after the figures were known.

use super::latency::Latency;
use super::{Bound, Purpose, RunPlan, Test, Work};

/// Sealed text of a plan, one item per line. Equal plans have equal texts.
pub fn text(plan: &RunPlan, tool_version: &str, tool_digests: &str) -> String {
    let criteria = criteria(plan);
    let mut text = format!("pipebench {tool_version} {tool_digests}\n{criteria}");
    match &plan.work {
        Work::Acceptance(acceptance) => tests(&mut text, &acceptance.tests),
        Work::Linktest(linktest) => text += &format!("{linktest:?}\n"),
        Work::Latency(latency) => {
            let (fabric, probe) = (crc32fast::hash(latency.fabric.as_bytes()), &latency.probe);
            let Latency {
                probe: _,
                fabric: _,
                hosts,
                strategy,
                directed,
                redundancy,
                seed,
                rounds,
                checks,
                baseline,
            } = latency;
            let strategy = strategy.name();
            let planned = match rounds {
                Some(rounds) => {
                    format!("{:08x}", crc32fast::hash(format!("{rounds:?}").as_bytes()))
                }
                None => "by the run".to_owned(),
            };
            let baseline = baseline.as_ref().map_or("none", |one| one.run.as_str());
            text += &format!("{probe:?}\n");
            text += &format!(
                "fabric {fabric:08x} strategy {strategy} directed {directed} redundancy {redundancy} seed {seed}\n"
            );
            text +=
                &format!("hosts {hosts:?} rounds {planned} checks {checks} baseline {baseline}\n");
        }
        Work::Imb(imb) => text += &format!("{imb:?}\n"),
    }
    text
}

/// Lines on pipeline tests.
fn tests(text: &mut String, tests: &[Test]) {
    let all = tests.iter();
    for test in all.filter(|test| test.purpose != Purpose::Isolated) {
        let bound = match test.bound {
            Bound::Time {
                warmup_ns,
                window_ns,
            } => format!("{window_ns} ns after {warmup_ns} ns"),
            Bound::Volume { buffers } => format!("{buffers} blocks"),
            Bound::Files => "files".to_owned(),
        };
        let purpose = test.purpose;
        *text += &format!(
            "test {} {purpose}, {} phases, {} streams, {bound}\n",
            test.pattern, test.phases, test.streams
        );
        // Path of the test: rails, coupling, sink and sockets.
        *text += &format!(
            "over {} rails, coupling {:?}, sink {:?}, sockets {:?}\n",
            test.rails, test.coupling, test.sink, test.sockets
        );
        // Neither paces nor a block size that was left open are settled yet: both follow from the hosts.
        let blocks = match test.unasked.block {
            true => "as hosts have room".to_owned(),
            false => format!("of {} bytes", test.block_bytes),
        };
        *text += &format!(
            "blocks {blocks}, source {:?}, transport {:?}, datapath {:?}, verify {:?}\n",
            test.source, test.transport, test.datapath, test.verify
        );
    }
}

/// Lines of a sealed text that hold the thresholds. They never change during a run.
pub fn criteria(plan: &RunPlan) -> String {
    let criteria = &plan.criteria;
    let or_none = |value: Option<String>| value.unwrap_or_else(|| "none".to_owned());
    let mut text = format!(
        "floor {} min-rate {} loss {:e} mtu {} overhead {}\n",
        criteria.floor,
        or_none(criteria.min_rate_bits_per_s.map(|rate| rate.to_string())),
        criteria.loss,
        or_none(criteria.mtu_bytes.map(|mtu| mtu.to_string())),
        criteria.overhead_bytes
    );
    for own in criteria.said().iter().flat_map(|one| &one.sealed) {
        text += &format!("{own}\n");
    }
    for node in &plan.nodes {
        text += &format!(
            "node {} speed {} mtu {} group {}\n",
            node.label,
            or_none(node.speed_bits_per_s.map(|speed| speed.to_string())),
            or_none(node.mtu_bytes.map(|mtu| mtu.to_string())),
            or_none(node.group.clone())
        );
    }
    text
}

/// First line in which two sealed texts differ: the old and the new version. `None` if the texts are equal.
pub fn difference(then: &str, now: &str) -> Option<(String, String)> {
    let (mut left, mut right) = (then.lines(), now.lines());
    loop {
        match (left.next(), right.next()) {
            (None, None) => return None,
            (a, b) if a == b => {}
            (a, b) => {
                let or_nothing = |line: Option<&str>| line.unwrap_or("nothing").to_owned();
                return Some((or_nothing(a), or_nothing(b)));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_that_differs_is_found() {
        assert_eq!(difference("a\nb\n", "a\nb\n"), None);
        let found = difference("a\nb\n", "a\nc\n");
        assert_eq!(found, Some(("b".to_owned(), "c".to_owned())));
        let found = difference("a\n", "a\nb\n");
        assert_eq!(found, Some(("nothing".to_owned(), "b".to_owned())));
    }

    #[test]
    fn another_block_size_is_another_plan_unless_the_hosts_settle_it() {
        let sealed = |change: &dyn Fn(&mut RunPlan)| {
            let text = include_str!("../../tests/golden/acceptance/record.json");
            let record: serde_json::Value = serde_json::from_str(text).unwrap();
            let mut plan: RunPlan = serde_json::from_value(record["plan"].clone()).unwrap();
            change(&mut plan);
            super::text(&plan, "", "")
        };
        let blocks = |bytes: usize, unasked: bool| {
            sealed(&|plan| {
                plan.tests_mut()[0].block_bytes = bytes;
                plan.tests_mut()[0].unasked.block = unasked;
            })
        };
        assert_ne!(blocks(1 << 10, false), blocks(1 << 20, false));
        assert_eq!(blocks(1 << 10, true), blocks(1 << 20, true));
    }
}
