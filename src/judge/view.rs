//! Input of the judge: ports, uplinks, and observations in payload bits per second.

use std::collections::BTreeMap;

use crate::record::{Basis, HostRecord, InterfaceCounters, SwitchPort};
use crate::stats::ceiling::Framing;

use super::fabric::{Fabric, Observation, Place};

/// Everything that is judged, with its names.
#[derive(Clone, Default)]
pub struct View {
    /// Ports and groups by number.
    pub fabric: Fabric,
    /// Known properties of each port.
    pub ports: Vec<PortView>,
    /// Name of each group with a known uplink, and the speed of that uplink in bit/s.
    pub groups: Vec<(String, u64)>,
    /// Source of the port speeds.
    pub basis: Basis,
    /// Observations, test by test. Tests that cannot be judged are left out.
    pub observations: Vec<Observation>,
    /// Reasons why hosts were at their limit, by test and first node of the host.
    pub limits: BTreeMap<(usize, usize), String>,
    /// Tests that were repeated unchanged, each with the test that repeats it.
    pub repeats: BTreeMap<usize, usize>,
    /// All repeats, including those that are no evidence: the test, and its repeat.
    pub all_repeats: Vec<(usize, usize)>,
    /// Tests that are judged by one stretch of their window.
    pub stretches: BTreeMap<usize, Stretch>,
    /// Tests that are no evidence, each with the reason.
    pub unfit: BTreeMap<usize, Unfit>,
}

/// A port, with what determines the rate it should carry.
#[derive(Clone)]
pub struct PortView {
    /// Name in every report.
    pub label: String,
    /// Index of the first node of its host.
    pub node: usize,
    /// Index among the data ports of its host.
    pub rail: usize,
    /// Switch port that its host hears on this rail, if it has several and the plan names none.
    pub at: Option<SwitchPort>,
    /// Line speed in bit/s by which the port is judged, if known.
    pub speed_bits_per_s: Option<u64>,
    /// Sizes of its frames and headers.
    pub framing: Framing,
    /// Reason why its host cannot load it, if known without a measurement.
    pub slot_limit: Option<String>,
    /// Settings of its host that cost rate where the host is at its limit.
    pub costs: Vec<String>,
    /// Sentence on a device between the port and the switch that its host cannot see.
    pub unseen: Option<String>,
    /// Sum of its interface counters over all tests.
    pub counters: InterfaceCounters,
}

/// Stretch of its window by which a test is judged.
#[derive(Debug, Clone, PartialEq)]
pub struct Stretch {
    /// Seconds from the start of the test to the start of the stretch.
    pub from_s: u64,
    /// Duration in seconds.
    pub seconds: u64,
    /// Rate at each place in the whole window, in bits per second.
    pub means: Vec<f64>,
}

/// Reason why a test is no evidence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unfit {
    /// True if hosts can be the cause, such as by lack of processors. False if the cause is unknown.
    pub hosts: bool,
    /// True if a repeat would be no better.
    pub lasts: bool,
    /// The reason in words.
    pub why: String,
}

impl PortView {
    /// Name of its interface, if known.
    pub(super) fn interface<'a>(&self, hosts: &'a [HostRecord]) -> Option<&'a str> {
        hosts[self.node].rails.get(self.rail)?.interface.as_deref()
    }
}

impl View {
    /// True if the speed of any port is known. Without one, nothing can be judged.
    pub fn has_speeds(&self) -> bool {
        let mut speeds = self.ports.iter().map(|port| port.speed_bits_per_s);
        speeds.any(|speed| speed.is_some())
    }

    /// Payload in bits per second that a port can carry one way, if its speed is known.
    pub fn ceiling(&self, port: usize) -> Option<f64> {
        let port = &self.ports[port];
        let speed = port.speed_bits_per_s? as f64;
        Some(port.framing.payload_ceiling(speed, 0.0))
    }

    /// Rate on the wire for a payload rate of a port, both in bits per second, with the acknowledgements that lowered its ceiling to `capacity`.
    pub fn on_wire(&self, port: usize, payload: f64, capacity: f64) -> Option<f64> {
        let port = &self.ports[port];
        let speed = port.speed_bits_per_s? as f64;
        let acks = speed - port.framing.wire_rate(capacity, 0.0);
        Some(port.framing.wire_rate(payload, 0.0) + acks.max(0.0))
    }

    /// Payload in bits per second that each place can carry without reverse traffic.
    pub fn ceilings(&self) -> Vec<f64> {
        self.capacities(&vec![0.0; self.fabric.places()])
    }

    /// The same with equal reverse traffic, which has one acknowledgement for every two segments.
    pub fn loaded_ceilings(&self) -> Vec<f64> {
        let alone = self.ceilings();
        let acks = |number: usize| {
            let framing = match self.fabric.place(number) {
                Place::Send(port) | Place::Receive(port) => self.ports[port].framing,
                Place::Up(_) | Place::Down(_) => self.ports[0].framing,
            };
            let segment_bits = f64::from(framing.payload_bytes().max(1)) * 8.0;
            let acks = alone[number] / segment_bits / 2.0;
            if acks.is_finite() { acks } else { 0.0 }
        };
        let acks: Vec<f64> = (0..self.fabric.places()).map(acks).collect();
        self.capacities(&acks)
    }

    /// Number of the port that a node's host has on a rail.
    pub fn port_at(&self, hosts: &[HostRecord], node: usize, rail: usize) -> usize {
        let place = (hosts[node].host_index, rail);
        let at = self.find(place);
        let is_it = |port: &&PortView| (port.node, port.rail) == place;
        self.ports.get(at).filter(is_it).map_or(0, |_| at)
    }

    /// Number of the first port of the host whose first node is `first`, if it has one.
    pub(super) fn port_of(&self, first: usize) -> Option<usize> {
        let at = self.find((first, 0));
        let port = self.ports.get(at).filter(|port| port.node == first);
        port.map(|_| at)
    }

    /// Number of the port at a place, or of the next one: ports stand in the order of their hosts and rails.
    fn find(&self, place: (usize, usize)) -> usize {
        self.ports
            .partition_point(|port| (port.node, port.rail) < place)
    }

    /// Tests that repeat a test, including those that are no evidence.
    pub(super) fn repeats_of(&self, test: usize) -> impl Iterator<Item = usize> {
        let own = self.all_repeats.iter();
        let own = own.filter(move |(first, _)| *first == test);
        own.map(|(_, repeat)| *repeat)
    }

    pub(super) fn capacities(&self, acks_per_s: &[f64]) -> Vec<f64> {
        let framing = self.ports.first().map(|port| port.framing);
        let capacity = |number: usize| match self.fabric.place(number) {
            Place::Send(port) | Place::Receive(port) => {
                let port = &self.ports[port];
                let speed = port.speed_bits_per_s.map(|speed| speed as f64);
                speed.map(|speed| port.framing.payload_ceiling(speed, acks_per_s[number]))
            }
            Place::Up(group) | Place::Down(group) => {
                let speed = self.groups[group].1 as f64;
                framing.map(|framing| framing.payload_ceiling(speed, acks_per_s[number]))
            }
        };
        (0..self.fabric.places())
            .map(|number| capacity(number).unwrap_or(f64::INFINITY))
            .collect()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A port of this speed in Gbit/s, without counters. No other node is on its host.
    pub(crate) fn of_node(node: usize, gbit: u64) -> PortView {
        PortView {
            label: format!("n{}", node + 1),
            node,
            rail: 0,
            at: None,
            speed_bits_per_s: Some(gbit * 1_000_000_000),
            framing: Framing {
                mtu_bytes: 1500,
                v6: false,
                tagged: false,
                timestamps: true,
                overhead_bytes: 0,
            },
            slot_limit: None,
            costs: Vec::new(),
            unseen: None,
            counters: InterfaceCounters::default(),
        }
    }
}
