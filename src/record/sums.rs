//! What a record keeps of a test with too many links to keep each of them.

use serde::{Deserialize, Serialize};

use crate::units::add;

use super::{HeldBy, LinkRecord};

/// Sums over the links of a test of more than [`crate::plan::size::MOST_KEPT_LINKS`] links. They are over the links between hosts or, if no link
/// connects two hosts, over those between nodes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct LinkSums {
    /// Number of all links, including those that are in no sum.
    pub links: usize,
    /// True if a link connects two hosts.
    pub crosses_switch: bool,
    /// The links out of each port and into it: node by node, rail by rail.
    pub ports: Vec<[PortSum; 2]>,
    /// Rate of the links that are in no sum, because they stay on a host or a node.
    pub apart_bits_per_s: f64,
    /// For each node that writes files, over the links into its last phase: nanoseconds in which receivers waited for room, nanoseconds of their
    /// intervals, and bytes. Empty if no node does.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sinks: Vec<[u64; 3]>,
    /// Rates of the links; `None` without any.
    pub rates: Option<LinkRates>,
}

/// Sums over the links of a port in one direction.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PortSum {
    /// Number of links.
    pub links: usize,
    /// Their payload rates.
    pub rate_bits_per_s: f64,
    /// The part of that to or from ports of other groups. Only groups with a known uplink count.
    #[serde(skip_serializing_if = "is_zero")]
    pub across_bits_per_s: f64,
    /// Segments that their senders retransmitted in the interval.
    #[serde(skip_serializing_if = "is_zero")]
    pub retransmits: u64,
    /// Segments with payload that their senders sent in the interval, retransmits included.
    pub segments: u64,
    /// Segments of these that were lost.
    #[serde(skip_serializing_if = "is_zero")]
    pub lost: u64,
    /// Number of them that the path limited.
    #[serde(skip_serializing_if = "is_zero")]
    pub limiting: usize,
    /// Number of them whose senders had nothing to send.
    #[serde(skip_serializing_if = "is_zero")]
    pub starved: usize,
    /// Number of them whose receivers had no room.
    #[serde(skip_serializing_if = "is_zero")]
    pub held_back: usize,
    /// Number of them without a measurement of what held them.
    #[serde(skip_serializing_if = "is_zero")]
    pub unknown: usize,
    /// Acknowledgements per second that their receivers sent.
    pub acks_per_s: f64,
    /// The least path MTU that TCP knows of one of them; `None` without any.
    pub path_mtu_bytes: Option<u64>,
}

/// True for zero, which a record omits: a run of a thousand hosts has a hundred thousand of these sums.
fn is_zero<T: Default + PartialEq>(number: &T) -> bool {
    *number == T::default()
}

/// Rates of many links.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct LinkRates {
    /// The lowest rate.
    pub least_bits_per_s: f64,
    /// The median rate.
    pub median_bits_per_s: f64,
    /// The highest rate.
    pub most_bits_per_s: f64,
    /// Number of links in each of equally wide classes from the lowest rate to the highest.
    pub counts: Vec<usize>,
}

impl LinkSums {
    /// Sum of a number over the links out of all ports, so over each link once.
    pub fn total(&self, of: fn(&PortSum) -> usize) -> usize {
        let all = self.ports.iter().map(|[out, _]| of(out));
        all.fold(0, usize::saturating_add)
    }
}

impl PortSum {
    /// Adds a link with its payload rate; `is_across` if its ends are in different groups.
    pub fn add(&mut self, link: &LinkRecord, bits_per_s: f64, is_across: bool) {
        self.links += 1;
        self.rate_bits_per_s += bits_per_s;
        self.across_bits_per_s += if is_across { bits_per_s } else { 0.0 };
        add(&mut self.retransmits, link.retransmits());
        add(&mut self.segments, link.segments());
        add(&mut self.lost, link.lost());
        match link.held_by {
            HeldBy::Limiting => self.limiting += 1,
            HeldBy::Starved => self.starved += 1,
            HeldBy::HeldBack => self.held_back += 1,
            HeldBy::Unknown => self.unknown += 1,
            HeldBy::Paced | HeldBy::Mixed => {}
        }
        self.acks_per_s += link.acks_per_s();
        let path = link.path_mtu_bytes();
        let least = self
            .path_mtu_bytes
            .zip(path)
            .map(|(own, path)| own.min(path));
        self.path_mtu_bytes = least.or(self.path_mtu_bytes).or(path);
    }
}

impl LinkRates {
    /// Sorts rates into classes. `None` without any.
    pub fn of(mut rates: Vec<f32>) -> Option<Self> {
        const CLASSES: usize = 20;
        rates.sort_unstable_by(f32::total_cmp);
        let (least, most) = (*rates.first()?, *rates.last()?);
        let width = (most - least) / CLASSES as f32;
        // The last class includes the highest rate.
        let ends = (1..CLASSES).map(|class| least + width * class as f32);
        let mut places: Vec<usize> = ends
            .map(|end| rates.partition_point(|rate| *rate < end))
            .collect();
        places.push(rates.len());
        let mut before = 0;
        let counts = places.into_iter().map(|end| {
            let own = end.saturating_sub(before);
            before = before.max(end);
            own
        });
        Some(Self {
            least_bits_per_s: least.into(),
            median_bits_per_s: rates[rates.len() / 2].into(),
            most_bits_per_s: most.into(),
            counts: counts.collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_rate_is_in_one_class() {
        assert_eq!(LinkRates::of(Vec::new()), None);
        let even = LinkRates::of((0..=40).map(|rate| rate as f32).collect()).unwrap();
        let ends = (even.least_bits_per_s, even.most_bits_per_s);
        assert_eq!((ends, even.median_bits_per_s), ((0.0, 40.0), 20.0));
        assert_eq!(even.counts[..3], [2, 2, 2]);
        assert_eq!(even.counts.iter().sum::<usize>(), 41);
        let same = LinkRates::of(vec![7.0; 5]).unwrap();
        assert_eq!(same.counts.iter().sum::<usize>(), 5);
    }
}
