//! Sample of the permutations of many nodes: the shifts that an acceptance runs, and what they cover.

use std::collections::{BTreeMap, BTreeSet};

use numbers::random::Random;

use super::{NodeSpec, Pattern, Profile, Purpose, RunPlan};

/// Maximum number of nodes for which an acceptance runs every permutation: with 64 nodes they take 46 minutes, and each node more adds one.
pub const MOST_WITH_ALL: usize = 64;

/// Seed of the sample unless the user gives one. A fixed seed makes a dry run, a resumed run and a repeat after a repair draw the same pairs.
pub const SEED: u64 = 1;

/// Shifts of an acceptance, in ascending order: all, or a sample for more than [`MOST_WITH_ALL`] nodes.
pub fn shifts(nodes: &[NodeSpec], seed: u64) -> Vec<usize> {
    let count = nodes.len();
    if count <= MOST_WITH_ALL {
        return (1..count).collect();
    }
    let mut cover = Cover::of(nodes);
    // From the first node of a group to that of another one: where groups are blocks of a list, this moves whole groups and fills their uplinks.
    let firsts: Vec<usize> = cover.members.iter().map(|own| own[0]).collect();
    for (group, from) in firsts.iter().enumerate() {
        for (other, to) in firsts.iter().enumerate() {
            if group != other && !cover.met[group][other] {
                cover.add((to + count - from) % count);
            }
        }
    }
    for node in 0..count {
        let Some(partner) = cover.partner(node) else {
            continue;
        };
        if !cover.sends_within[node] {
            cover.add((partner + count - node) % count);
        }
        if !cover.receives_within[node] {
            cover.add((node + count - partner) % count);
        }
    }
    let mut others: Vec<usize> = (1..count).filter(|by| !cover.shifts.contains(by)).collect();
    Random::new(seed).shuffle(&mut others);
    // Logarithmic, so that the time of a run hardly depends on the number of its hosts.
    others.truncate(count.ilog2() as usize);
    cover.shifts.extend(others);
    cover.shifts.into_iter().collect()
}

/// The sample of the permutations that an acceptance runs, and what it covers. Each pair of numbers is a part and the whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    /// Permutations.
    pub permutations: (usize, usize),
    /// Ordered pairs of groups of which a node of the first sends to one of the second.
    pub group_pairs: (usize, usize),
    /// Nodes that send to a host of their group and receive from one, of all that have another host in their group.
    pub within: (usize, usize),
}

/// The sample of a plan; `None` if it has all permutations, or is no acceptance.
pub fn of(plan: &RunPlan) -> Option<Sample> {
    let acceptance = plan.acceptance()?;
    if acceptance.profile != Profile::Acceptance || acceptance.repeats.is_some() {
        return None;
    }
    let loads = acceptance.tests.iter();
    let loads = loads.filter(|test| test.purpose == Purpose::Load);
    let shifts: BTreeSet<usize> = loads
        .filter_map(|test| match test.pattern {
            Pattern::Shift(by) => Some(by),
            _ => None,
        })
        .collect();
    let all = plan.nodes.len().saturating_sub(1);
    if shifts.is_empty() || shifts.len() >= all {
        return None;
    }
    let mut cover = Cover::of(&plan.nodes);
    for by in &shifts {
        cover.add(*by);
    }
    let groups = cover.members.len();
    let met = cover.met.iter().flatten().filter(|met| **met);
    let with_partner = (0..plan.nodes.len()).filter(|node| cover.partner(*node).is_some());
    let within = |node: &usize| cover.sends_within[*node] && cover.receives_within[*node];
    Some(Sample {
        permutations: (shifts.len(), all),
        group_pairs: (met.count(), groups * (groups - 1)),
        within: (
            with_partner.clone().filter(within).count(),
            with_partner.count(),
        ),
    })
}

/// What some shifts load. Traffic within a host loads nothing.
struct Cover {
    shifts: BTreeSet<usize>,
    /// Host of each node.
    hosts: Vec<usize>,
    /// Group of each node. Nodes without a group are one group; the switch of a node stands for a group that is not given.
    groups: Vec<usize>,
    /// Nodes of each group, in ascending order.
    members: Vec<Vec<usize>>,
    /// For each group and each other one, true if a node of the first sends to one of the second.
    met: Vec<Vec<bool>>,
    /// For each node, true if it sends to another host of its group.
    sends_within: Vec<bool>,
    /// For each node, true if it receives from another host of its group.
    receives_within: Vec<bool>,
}

impl Cover {
    /// Covers nothing yet.
    fn of(nodes: &[NodeSpec]) -> Self {
        let host = |node: &NodeSpec| (!node.local).then(|| node.host.clone());
        let group = |node: &NodeSpec| node.group.clone().or_else(|| node.switch.clone());
        let groups = numbered(nodes.iter().map(group));
        let count = groups.iter().max().map_or(0, |last| last + 1);
        let mut members = vec![Vec::new(); count];
        for (node, group) in groups.iter().enumerate() {
            members[*group].push(node);
        }
        Self {
            shifts: BTreeSet::new(),
            hosts: numbered(nodes.iter().map(host)),
            groups,
            members,
            met: vec![vec![false; count]; count],
            sends_within: vec![false; nodes.len()],
            receives_within: vec![false; nodes.len()],
        }
    }

    /// Adds a shift.
    fn add(&mut self, by: usize) {
        if !self.shifts.insert(by) {
            return;
        }
        let count = self.hosts.len();
        for from in 0..count {
            let to = (from + by) % count;
            let (group, other) = (self.groups[from], self.groups[to]);
            if self.hosts[from] == self.hosts[to] {
                continue;
            }
            if group == other {
                self.sends_within[from] = true;
                self.receives_within[to] = true;
            } else {
                self.met[group][other] = true;
            }
        }
    }

    /// The next node of the same group on another host, or the previous one.
    fn partner(&self, node: usize) -> Option<usize> {
        let own = &self.members[self.groups[node]];
        let place = own.partition_point(|other| *other < node);
        let (before, after) = own.split_at(place);
        let is_other = |other: &&usize| self.hosts[**other] != self.hosts[node];
        let next = after.iter().find(is_other);
        next.or_else(|| before.iter().rev().find(is_other)).copied()
    }
}

/// Numbers names in the order in which they first occur.
fn numbered<T: Ord>(names: impl Iterator<Item = T>) -> Vec<usize> {
    let mut known = BTreeMap::new();
    let number = |name: T| {
        let next = known.len();
        *known.entry(name).or_insert(next)
    };
    names.map(number).collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::plan::lanes::tests::{plan_of, test_of};
    use crate::plan::{Acceptance, Work};

    /// Hosts in `groups` groups of the same size, block after block; without groups if that is 1.
    pub(crate) fn hosts(count: usize, groups: usize) -> Vec<NodeSpec> {
        let node = |number: usize| NodeSpec {
            label: format!("n{number}"),
            host: format!("n{number}"),
            group: (groups > 1).then(|| format!("leaf{}", number * groups / count)),
            ..NodeSpec::default()
        };
        (0..count).map(node).collect()
    }

    /// Plan of an acceptance with these nodes and shifts.
    pub(crate) fn plan(nodes: Vec<NodeSpec>, shifts: &[usize]) -> RunPlan {
        let shift = |by: &usize| crate::plan::Test {
            pattern: Pattern::Shift(*by),
            ..test_of(2, 1)
        };
        let mut plan = plan_of(nodes, test_of(2, 1));
        plan.work = Work::Acceptance(Acceptance {
            tests: shifts.iter().map(shift).collect(),
            profile: Profile::Acceptance,
            ..Acceptance::default()
        });
        plan
    }

    /// Symptom: an acceptance of 1,000 hosts was 2,001 tests, 12 hours.
    #[test]
    fn a_sample_is_small_and_covers_every_pair_of_groups_and_every_host_within_its_group() {
        for count in [65, 100, 1000, 4096] {
            for groups in [1, 4, 32] {
                let nodes = hosts(count, groups);
                let drawn = shifts(&nodes, 7);
                assert_eq!(drawn, shifts(&nodes, 7), "the seed decides");
                assert_ne!(drawn, shifts(&nodes, 8), "the seed decides");
                assert!(drawn.is_sorted_by(|a, b| a < b));
                assert!(drawn.iter().all(|by| (1..count).contains(by)));
                let most = groups + 1 + count.ilog2() as usize;
                assert!(drawn.len() <= most, "{count}, {groups}: {}", drawn.len());
                let sample = of(&plan(nodes, &drawn)).unwrap();
                assert_eq!(sample.permutations, (drawn.len(), count - 1));
                let pairs = groups * (groups - 1);
                assert_eq!(sample.group_pairs, (pairs, pairs), "{count}, {groups}");
                assert_eq!(sample.within, (count, count), "{count}, {groups}");
            }
        }
        assert_eq!(shifts(&hosts(1000, 1), 7).len(), 1 + 9);
        assert_eq!(shifts(&hosts(4096, 32), 7).len(), 31 + 2 + 12);
    }

    /// An uplink that no test fills is not judged.
    #[test]
    fn a_sample_moves_all_hosts_of_a_group_to_others_at_once() {
        let nodes = hosts(1000, 4);
        let leaves = |by: &usize, group: usize| {
            let own = 250 * group..250 * (group + 1);
            own.clone().all(|node| !own.contains(&((node + by) % 1000)))
        };
        let drawn = shifts(&nodes, 7);
        assert!((0..4).all(|group| drawn.iter().any(|by| leaves(by, group))));
    }

    #[test]
    fn hosts_that_take_turns_in_their_groups_or_have_several_nodes_are_covered() {
        let mut turns = hosts(100, 1);
        for (number, node) in turns.iter_mut().enumerate() {
            node.switch = Some(format!("leaf{}", number % 4));
        }
        let mut twins = hosts(100, 1);
        for (number, node) in twins.iter_mut().enumerate() {
            node.host = format!("n{}", number / 2);
        }
        for nodes in [turns, twins] {
            let drawn = shifts(&nodes, 7);
            assert!(drawn.len() < 20, "{}", drawn.len());
            let sample = of(&plan(nodes, &drawn)).unwrap();
            assert_eq!(sample.within, (100, 100));
            assert_eq!(sample.group_pairs.0, sample.group_pairs.1);
        }
    }

    #[test]
    fn few_hosts_run_every_permutation_and_have_no_sample() {
        let all: Vec<usize> = (1..MOST_WITH_ALL).collect();
        assert_eq!(shifts(&hosts(MOST_WITH_ALL, 4), 7), all);
        assert_eq!(of(&plan(hosts(MOST_WITH_ALL, 4), &all)), None);
        let mut quick = plan(hosts(100, 1), &[1, 2]);
        assert!(of(&quick).is_some());
        quick.acceptance_mut().unwrap().profile = Profile::Quick;
        assert_eq!(of(&quick), None);
    }
}
