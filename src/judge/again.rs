//! Plans a retest after hardware was moved: the links that showed the faults of a run, each alone.

use crate::plan::{Bound, Pattern, Purpose, Test};
use crate::record::{FaultKind, FaultSheet, Record};

/// Maximum window of a link's test, in nanoseconds.
const LONGEST_LOOK_NS: u64 = 10_000_000_000;

/// Tests for the faults of a run. Each isolated measurement that showed a fault becomes a test. The run's own tests are used instead if an uplink,
/// a shared part or head-of-line blocking is at fault, or a fault was not measured alone. `None` if no fault was found.
pub(crate) fn tests(record: &Record) -> Option<Vec<Test>> {
    let sheet = &record.sheet;
    if sheet.faults.is_empty() {
        return None;
    }
    let own = record.plan.tests().iter();
    let own: Vec<Test> = own
        .filter(|test| test.purpose != Purpose::Isolated)
        .map(|test| Test {
            // The rates of loss tests are computed anew.
            paces: match test.purpose {
                Purpose::Loss => Vec::new(),
                _ => test.paces.clone(),
            },
            ..test.clone()
        })
        .collect();
    let needs_all = |fault: &FaultSheet| {
        let is_of_many = fault.culprit.is_uplink() || fault.culprit.is_shared();
        is_of_many || fault.kind == FaultKind::HeadOfLine || fault.evidence.is_empty()
    };
    let base = own.first()?;
    if sheet.faults.iter().any(needs_all) {
        return Some(own);
    }
    let node = |port: usize| sheet.ports.get(port).map(|port| port.node);
    let mut looks: Vec<(Purpose, usize, usize)> = Vec::new();
    for fault in &sheet.faults {
        let purpose = match fault.kind.is_of_losses() {
            true => Purpose::Loss,
            false => Purpose::Load,
        };
        for one in &fault.evidence {
            let look = (purpose, node(one.from)?, node(one.to)?);
            if !looks.contains(&look) {
                looks.push(look);
            }
        }
    }
    let times_ns = base.bound.times_ns();
    let (warmup_ns, window_ns) = times_ns.unwrap_or((1_000_000_000, LONGEST_LOOK_NS));
    let test = |(purpose, from, to)| Test {
        pattern: Pattern::Links(vec![(from, to)]),
        phases: 2,
        purpose,
        paces: Vec::new(),
        bound: Bound::Time {
            warmup_ns,
            window_ns: window_ns.min(LONGEST_LOOK_NS),
        },
        ..base.clone()
    };
    Some(looks.into_iter().map(test).collect())
}

/// Nodes that changed ports, as (node that left the port, node that came to it), from the ports of all nodes before and after. A fault that stays
/// with the port now belongs to the node that came. If the old ports are unknown and exactly two nodes moved, they swapped.
pub(crate) fn swaps(before: &[Option<&str>], after: &[Option<&str>]) -> Vec<(usize, usize)> {
    let moved: Vec<usize> = (0..after.len())
        .filter(|node| before.get(*node) != after.get(*node))
        .collect();
    let known = moved.iter().filter_map(|node| {
        let mut others = before.iter().enumerate();
        let (left, _) = others
            .find(|(other, port)| other != node && port.is_some() && **port == after[*node])?;
        Some((left, *node))
    });
    let known: Vec<(usize, usize)> = known.collect();
    match (&known[..], &moved[..]) {
        ([], [one, other]) if before[*one].is_none() && before[*other].is_none() => {
            vec![(*one, *other), (*other, *one)]
        }
        _ => known,
    }
}

/// Adds tests that measure the node that came to a port in the same way as the node that left it.
pub(crate) fn add_other_ends(tests: &mut Vec<Test>, swaps: &[(usize, usize)]) {
    let mut more: Vec<Test> = Vec::new();
    for test in tests.iter() {
        let Pattern::Links(links) = &test.pattern else {
            continue;
        };
        for (left, came) in swaps {
            let swapped = |node: usize| match node {
                node if node == *left => *came,
                node if node == *came => *left,
                node => node,
            };
            let links = links.iter();
            let other = links.map(|(from, to)| (swapped(*from), swapped(*to)));
            let other = Pattern::Links(other.collect());
            let mut known = tests.iter().chain(&more);
            if !known.any(|known| known.pattern == other) {
                more.push(Test {
                    pattern: other,
                    ..test.clone()
                });
            }
        }
    }
    tests.extend(more);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::lanes::tests::test_of;

    #[test]
    fn both_ends_of_a_swap_are_measured() {
        let before = [Some("1"), Some("2"), Some("3"), None];
        let after = [Some("1"), Some("3"), Some("2"), None];
        assert_eq!(swaps(&before, &after), [(2, 1), (1, 2)]);
        // Node 1 moved to a free port, and no node took its old one.
        assert_eq!(swaps(&before, &[Some("1"), Some("8"), Some("3"), None]), []);
        let unknown = [None, None, None];
        assert_eq!(
            swaps(&unknown, &[None, Some("3"), Some("2")]),
            [(1, 2), (2, 1)]
        );
        let of = |links: &[(usize, usize)]| Test {
            pattern: Pattern::Links(links.to_vec()),
            ..test_of(2, 1)
        };
        // Node 2 receives slowly, and node 1 now has its port.
        let mut tests = vec![of(&[(0, 2)]), of(&[(1, 2)])];
        add_other_ends(&mut tests, &[(2, 1), (1, 2)]);
        assert_eq!(
            tests,
            [of(&[(0, 2)]), of(&[(1, 2)]), of(&[(0, 1)]), of(&[(2, 1)])]
        );
    }
}
