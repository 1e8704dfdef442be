//! Sums over the links of a test that has too many to keep each, and the slowest of its links.

use crate::plan::{RunPlan, Sink, Test};
use crate::record::{LinkRates, LinkRecord, LinkSums, TestRecord};
use crate::units;

/// Most links that are kept beside the sums: as many as have a series.
const KEPT: usize = 64;

/// Takes the links of a test one by one.
pub(super) struct Sums<'a> {
    test: &'a Test,
    /// For each node, its group if that has a known uplink.
    groups: Vec<Option<usize>>,
    sums: LinkSums,
    rates: Vec<f32>,
    /// The slowest links so far, and some more.
    slowest: Vec<LinkRecord>,
    /// Least bytes of a link that is not among them.
    most_bytes: u64,
}

impl<'a> Sums<'a> {
    /// `crosses_switch` is true if a link connects two hosts.
    pub(super) fn new(plan: &RunPlan, test: &'a Test, crosses_switch: bool) -> Self {
        let group_of = |group: &Option<String>| {
            let mut uplinks = plan.criteria.uplinks.iter();
            uplinks.position(|uplink| group.as_ref() == Some(&uplink.group))
        };
        let groups = plan.nodes.iter().map(|node| group_of(&node.group));
        Self {
            test,
            groups: groups.collect(),
            sums: LinkSums {
                crosses_switch,
                ports: vec![Default::default(); plan.nodes.len() * test.rails.max(1)],
                sinks: match test.sink {
                    Sink::File(_) => vec![[0; 3]; plan.nodes.len()],
                    Sink::Discard | Sink::Memory => Vec::new(),
                },
                ..LinkSums::default()
            },
            rates: Vec::new(),
            slowest: Vec::new(),
            most_bytes: u64::MAX,
        }
    }

    /// Adds a link. `is_whole` is true if both of its nodes reported.
    pub(super) fn add(&mut self, link: LinkRecord, gbit_per_s: f64, is_whole: bool) {
        let (lane, bits_per_s) = (link.lane, gbit_per_s * 1e9);
        self.sums.links += 1;
        if lane.boundary + 2 == self.test.phases
            && let Some(sink) = self.sums.sinks.get_mut(lane.to)
        {
            for (sum, more) in sink.iter_mut().zip(link.taken()) {
                units::add(sum, more);
            }
        }
        let counts = match self.sums.crosses_switch {
            true => link.crosses_switch,
            false => !lane.is_own(),
        };
        if !counts {
            self.sums.apart_bits_per_s += bits_per_s;
            return;
        }
        let rail = self.test.rail_of(lane.stream);
        let is_across = self.groups[lane.from] != self.groups[lane.to];
        for (back, node) in [lane.from, lane.to].into_iter().enumerate() {
            let port = &mut self.sums.ports[node * self.test.rails.max(1) + rail];
            port[back].add(&link, bits_per_s, is_across);
        }
        #[expect(
            clippy::cast_possible_truncation,
            reason = "seven digits of a rate are enough"
        )]
        self.rates.push(bits_per_s as f32);
        if is_whole && link.interval_bytes < self.most_bytes {
            self.slowest.push(link);
            if self.slowest.len() >= 2 * KEPT {
                self.drop_faster();
            }
        }
    }

    fn drop_faster(&mut self) {
        // The sort is stable, so that of equal links the first ones of the plan are kept.
        self.slowest.sort_by_key(|link| link.interval_bytes);
        self.slowest.truncate(KEPT);
        if let Some(last) = self.slowest.get(KEPT - 1) {
            self.most_bytes = last.interval_bytes;
        }
    }

    /// Puts the sums and the slowest links, in the order of the plan, into the record of the test.
    pub(super) fn note(mut self, record: &mut TestRecord) {
        self.drop_faster();
        self.slowest.sort_by_key(|link| link.lane);
        self.sums.rates = LinkRates::of(self.rates);
        record.links = self.slowest;
        record.sums = Some(self.sums);
    }
}
