//! Turns requests of the judge into tests of the plan, and computes the rates to which their links are limited.

use crate::plan::{
    Bound, Coupling, Pace, Pattern, Purpose, RunPlan, Sink, Source, Test, lanes, size,
};
use crate::record::HostRecord;
use numbers::whole;

use super::confirm::Request;
use super::filling::{Flow, fill};
use super::thresholds::PACED;
use super::view::View;

/// Maximum window of a retest, in nanoseconds. A look for losses can be as long as the plan's own loss tests.
const LONGEST_LOOK_NS: u64 = 10_000_000_000;

/// Test for a request, as similar to `base` as possible.
pub fn test_for(plan: &RunPlan, hosts: &[HostRecord], base: &Test, request: &Request) -> Test {
    if let Some(again) = request.again.and_then(|number| plan.tests().get(number)) {
        return Test {
            purpose: Purpose::Isolated,
            ..again.clone()
        };
    }
    let view = View::unmeasured(plan, hosts);
    let node = |port: usize| view.ports[port].node;
    let links = request.pairs.iter();
    let mut links: Vec<(usize, usize)> = links.map(|(from, to)| (node(*from), node(*to))).collect();
    links.sort_unstable();
    links.dedup();
    // The judge reads links of an uplink one by one, so that the record must keep them.
    let rails = base.rails.max(1);
    let streams = match links.windows(2).any(|two| two[0].0 == two[1].0) {
        true => (size::MOST_KEPT_LINKS / links.len() / rails).max(1) * rails,
        false => usize::MAX,
    };
    let (warmup_ns, window_ns) = match (base.bound.times_ns(), request.paced) {
        // A look for losses counts them, and few losses prove nothing.
        (Some((warmup_ns, _)), Some(times)) => (warmup_ns, stretched(plan, times)),
        (Some((warmup_ns, window_ns)), None) => (warmup_ns, window_ns.min(LONGEST_LOOK_NS)),
        (None, _) => (1_000_000_000, 5_000_000_000),
    };
    let mut test = Test {
        pattern: Pattern::Links(links),
        streams: base.streams.min(streams),
        phases: 2,
        coupling: Coupling::Block,
        bound: Bound::Time {
            warmup_ns,
            window_ns,
        },
        source: Source::Memory,
        sink: match base.sink {
            Sink::Discard => Sink::Discard,
            Sink::Memory | Sink::File(_) => Sink::Memory,
        },
        purpose: Purpose::Isolated,
        paces: Vec::new(),
        ..base.clone()
    };
    if request.paced.is_some() {
        test.paces = paces(&view, plan, hosts, &test).unwrap_or_default();
    }
    test
}

/// True if a look is worth making. If a look was made eight times and is still requested, one more proves nothing.
pub fn may_tell(made: &[Test], look: &Test) -> bool {
    /// The same number of looks as at a port whose fault comes and goes.
    const MOST_TIMES: usize = 8;
    let alike = made.iter().filter(|one| {
        one.purpose == Purpose::Isolated
            && one.pattern == look.pattern
            && one.paces.is_empty() == look.paces.is_empty()
    });
    alike.count() < MOST_TIMES
}

/// Window in nanoseconds: `times` that of the plan's own loss tests, between that window and the longer of it and 10 s.
fn stretched(plan: &RunPlan, times: f64) -> u64 {
    let own = plan.tests().iter().find_map(|test| match test.bound {
        Bound::Time { window_ns, .. } if test.purpose == Purpose::Loss => Some(window_ns),
        _ => None,
    });
    let own = own.unwrap_or(LONGEST_LOOK_NS);
    whole(own as f64 * times.clamp(1.0, 100.0)).min(LONGEST_LOOK_NS.max(own))
}

/// Rates to which the pairs of a test are held so that nothing need be lost. `view` has the ports, measured or not. `None` if a speed is unknown.
pub(crate) fn paces(
    view: &View,
    plan: &RunPlan,
    hosts: &[HostRecord],
    test: &Test,
) -> Option<Vec<Pace>> {
    let pairs = pairs(plan, hosts, test);
    if let Pattern::Hol = test.pattern {
        let ceiling = view.ceiling(view.port_at(hosts, 0, 0))?;
        let half = |to| Pace {
            from: 0,
            to,
            bits_per_s: whole(ceiling / 2.0).max(1),
        };
        return Some(vec![half(2), half(3)]);
    }
    let mut flows = Vec::new();
    for (from, to) in &pairs {
        for rail in 0..test.rails.max(1) {
            let [from, to] = [*from, *to].map(|node| view.port_at(hosts, node, rail));
            view.ceiling(from).zip(view.ceiling(to))?;
            flows.push(Flow {
                route: view.fabric.way(from, to),
                weight: 1.0,
                cap: f64::INFINITY,
            });
        }
    }
    // The reverse direction also carries data, so each direction leaves room for one acknowledgement per two segments.
    let capacities = view.loaded_ceilings();
    let rates = fill(&capacities, &flows);
    let of_pair = rates.chunks(test.rails.max(1));
    let paces = pairs.iter().zip(of_pair).map(|((from, to), rates)| Pace {
        from: *from,
        to: *to,
        bits_per_s: whole(rates.iter().sum::<f64>() * PACED).max(1),
    });
    Some(paces.collect())
}

/// Pairs of nodes on different hosts that send to each other.
fn pairs(plan: &RunPlan, hosts: &[HostRecord], test: &Test) -> Vec<(usize, usize)> {
    let lanes = lanes::of_boundary(test, plan.nodes.len(), 0);
    let crosses = |(from, to): &(usize, usize)| hosts[*from].host_index != hosts[*to].host_index;
    let mut pairs: Vec<(usize, usize)> = lanes
        .map(|lane| (lane.from, lane.to))
        .filter(crosses)
        .collect();
    pairs.dedup();
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::lanes::tests::test_of;

    /// Symptom: the retest of an uplink had the streams of a permutation for each of its pairs, and its record had sums, which decide nothing.
    #[test]
    fn a_retest_of_an_uplink_has_few_enough_streams_to_keep_its_links() {
        let text = include_str!("../../tests/golden/slow-uplink/record.json");
        let record: crate::record::Record = serde_json::from_str(text).unwrap();
        let base = Test {
            streams: 5000,
            ..test_of(2, 1)
        };
        let streams = |pairs: &[(usize, usize)]| {
            let request = Request::of(pairs.to_vec());
            test_for(&record.plan, &record.hosts, &base, &request).streams
        };
        assert_eq!(streams(&[(0, 2), (0, 3), (1, 2), (1, 3)]), 2048);
        assert_eq!(streams(&[(0, 2), (1, 3)]), 5000);
    }

    #[test]
    fn a_look_that_tells_nothing_is_not_made_without_end() {
        let look = |from: usize| Test {
            pattern: Pattern::Links(vec![(from, 3)]),
            purpose: Purpose::Isolated,
            ..test_of(2, 1)
        };
        let mut made = vec![test_of(2, 1)];
        while may_tell(&made, &look(1)) {
            made.push(look(1));
        }
        assert_eq!(made.len(), 9);
        assert!(may_tell(&made, &look(2)), "another one was not made");
        let mut held = look(1);
        held.paces = vec![Pace {
            from: 1,
            to: 3,
            bits_per_s: 1,
        }];
        assert!(may_tell(&made, &held), "it looks for losses");
    }
}
