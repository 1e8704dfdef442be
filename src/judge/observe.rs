//! Builds the judge's view from plan, hosts and measurements.

use std::collections::{BTreeMap, HashMap};

use crate::plan::lanes::{self, Lane};
use crate::plan::{Coupling, Pattern, Purpose, RunPlan, Test};
use crate::record::{self, Basis, HeldBy, HostRecord, InterfaceCounters, Measured};
use crate::record::{SwitchPort, TestRecord, first_nodes};
use crate::stats::ceiling::Framing;
use crate::units::{add, sum};

use super::case::IsOver;
use super::disturbed;
use super::fabric::{Fabric, Frames, Observation, Place, Port, Seen};
use super::filling::Flow;
use super::host;
use super::series::{self, Series};
use super::sums;
use super::tuning;
use super::unfit;
use super::view::{PortView, View};

/// Places on the route of a chain, and the ports of its first link.
type Way = (Vec<usize>, (usize, usize));

/// Speed in bit/s by which a port is judged: the specified one (flag true), else the one that the hardware negotiated (flag false).
fn speed_of(plan: &RunPlan, host: &HostRecord, node: usize, rail: usize) -> Option<(u64, bool)> {
    let ordered = plan.nodes[node].speed_bits_per_s.map(|speed| (speed, true));
    ordered.or_else(|| {
        let interface = host.interface_of(host.rails.get(rail)?)?;
        let mbit = interface.speed_mbit.filter(|_| interface.physical)?;
        Some((mbit.saturating_mul(1_000_000), false))
    })
}

impl View {
    /// Builds the view of ports that were not measured yet.
    pub fn unmeasured(plan: &RunPlan, hosts: &[HostRecord]) -> Self {
        let rails = plan.tests().first().map_or(1, |test| test.rails.max(1));
        let groups: Vec<(String, u64)> = plan
            .criteria
            .uplinks
            .iter()
            .map(|uplink| (uplink.group.clone(), uplink.bits_per_s))
            .collect();
        let mut view = Self {
            fabric: Fabric {
                groups: groups.len(),
                uplink_floor: plan.criteria.floor,
                ..Fabric::default()
            },
            groups,
            basis: Basis::Ordered,
            ..Self::default()
        };
        let heard = record::switch_ports(hosts);
        let nodes = host::nodes_of_hosts(hosts);
        for (node, _) in first_nodes(hosts) {
            // The plan has the switch port of a single rail, and what is written goes before.
            let is_written = plan.nodes[node].switch_port.is_some();
            let own = Some(&heard[node]).filter(|own| own.len() > 1 && !is_written);
            for rail in 0..rails {
                let at = own.and_then(|own| *own.get(rail)?);
                view.add_port(plan, hosts, (&nodes[node], rail), at);
            }
        }
        view
    }

    /// Builds the view from everything measured so far. Latencies and patterns do not load ports, so they add nothing.
    pub fn of(plan: &RunPlan, hosts: &[HostRecord], measured: Measured<'_>) -> Self {
        Self::until(plan, hosts, measured, &|| false)
    }

    /// The same, for as long as it is wanted.
    pub(super) fn until(
        plan: &RunPlan,
        hosts: &[HostRecord],
        measured: Measured<'_>,
        is_over: IsOver<'_>,
    ) -> Self {
        let mut view = Self::unmeasured(plan, hosts);
        match measured {
            Measured::Acceptance(acceptance, record) => {
                view.add_tests(plan, hosts, &acceptance.tests, &record.tests, is_over);
            }
            Measured::Linktest(linktest, record) => view.add_links(hosts, linktest, record),
            Measured::Latency(..) | Measured::Imb(..) => {}
        }
        view
    }

    fn add_tests(
        &mut self,
        plan: &RunPlan,
        hosts: &[HostRecord],
        all: &[Test],
        tests: &[TestRecord],
        is_over: IsOver<'_>,
    ) {
        let run: Vec<usize> = tests.iter().map(|test| test.test).collect();
        let nodes = host::nodes_of_hosts(hosts);
        for test in tests.iter().take_while(|_| !is_over()) {
            let planned = &all[test.test];
            self.mark_gone(&nodes, test);
            self.count(hosts, test);
            let tells = planned.coupling == Coupling::Block && planned.purpose != Purpose::Check;
            if test.complete && tells && is_whole(test) {
                let alike = disturbed::repeated(all, &run, test.test);
                let repeats = alike.into_iter().map(|first| (first, test.test));
                self.all_repeats.extend(repeats.clone());
                match unfit::why(hosts, planned, test) {
                    Some(unfit) => {
                        self.unfit.insert(test.test, unfit);
                    }
                    None => {
                        self.add_test(plan, hosts, &nodes, planned, test);
                        self.repeats.extend(repeats);
                    }
                }
            }
        }
        unfit::stand_in(self);
    }

    /// Adds the counters of each port's interface in a test.
    fn count(&mut self, hosts: &[HostRecord], test: &TestRecord) {
        for port in &mut self.ports {
            let interface = port.interface(hosts);
            let nodes = test.nodes[port.node].iter();
            for (name, counters) in nodes.flat_map(|node| &node.interfaces) {
                if Some(name.as_str()) == interface {
                    port.counters = port.counters.with(counters, u64::saturating_add);
                }
            }
        }
    }

    /// Marks hosts as lost that have a node without a report.
    fn mark_gone(&mut self, nodes: &[Vec<usize>], test: &TestRecord) {
        for (number, port) in self.ports.iter().enumerate() {
            let mut nodes = nodes[port.node].iter();
            let gone = nodes.any(|node| test.nodes[*node].is_none());
            self.fabric.ports[number].gone |= gone;
        }
    }

    /// Adds the port that the host with these nodes has on a rail, at a switch port that it hears.
    fn add_port(
        &mut self,
        plan: &RunPlan,
        hosts: &[HostRecord],
        (nodes, rail): (&[usize], usize),
        at: Option<&SwitchPort>,
    ) {
        let node = nodes[0];
        let host = &hosts[node];
        let speed = speed_of(plan, host, node, rail);
        self.basis = match (self.basis, speed) {
            (Basis::Unknown, _) | (_, None) => Basis::Unknown,
            (Basis::Negotiated, _) | (_, Some((_, false))) => Basis::Negotiated,
            _ => Basis::Ordered,
        };
        let address = host.rails.get(rail);
        let interface = address.and_then(|port| host.interface_of(port));
        let mut settings = host.facts.settings.iter();
        let timestamps = settings.find(|(name, _)| name == "net.ipv4.tcp_timestamps");
        let speed_bits_per_s = speed.map(|(speed, _)| speed);
        let v6 = address.is_some_and(|port| port.address.is_ipv6());
        // A smaller requested segment size also makes packets smaller.
        let headers = if v6 { 60 } else { 40 };
        let asked = plan.tests().first().and_then(|test| test.sockets.mss_bytes);
        let asked = asked.map_or(u32::MAX, |mss| mss.saturating_add(headers));
        let mtu_bytes = interface.map_or(1500, |one| one.mtu_bytes).min(asked);
        self.ports.push(PortView {
            label: record::port_label(plan, hosts, nodes, rail),
            node,
            rail,
            at: at.cloned(),
            speed_bits_per_s,
            framing: Framing {
                mtu_bytes: mtu_bytes.max(576),
                v6,
                tagged: interface.is_some_and(|one| one.tagged),
                timestamps: timestamps.is_none_or(|(_, value)| value != "0"),
                overhead_bytes: plan.criteria.overhead_bytes,
            },
            slot_limit: interface
                .zip(speed_bits_per_s)
                .and_then(|(one, speed)| host::slot_limit(one, speed)),
            costs: interface.map_or_else(Vec::new, |one| {
                let costs = tuning::costs(one, host.facts.cores).into_iter();
                costs.map(|cost| cost.to_string()).collect()
            }),
            unseen: interface.and_then(host::unseen),
            counters: InterfaceCounters::default(),
        });
        let group = plan.nodes[node].group.as_ref();
        let ceiling = self.ceiling(self.ports.len() - 1);
        let asked = plan.criteria.min_rate_bits_per_s.zip(ceiling);
        self.fabric.ports.push(Port {
            host: node,
            rail,
            group: group.and_then(|group| self.groups.iter().position(|(name, _)| name == group)),
            floor: asked.map_or(plan.criteria.floor, |(rate, ceiling)| rate as f64 / ceiling),
            asked: plan.criteria.min_rate_bits_per_s.map(|rate| rate as f64),
            gone: false,
        });
    }

    fn add_test(
        &mut self,
        plan: &RunPlan,
        hosts: &[HostRecord],
        nodes: &[Vec<usize>],
        test: &Test,
        record: &TestRecord,
    ) {
        // A lookup for each lane would take long with 65,000 of them.
        let ports_of = |node: usize| {
            let rails = 0..test.rails.max(1);
            rails.map(|rail| self.port_at(hosts, node, rail)).collect()
        };
        let port_of: Vec<Vec<usize>> = (0..hosts.len()).map(ports_of).collect();
        let ends = |lane: &Lane| {
            let rail = test.rail_of(lane.stream);
            (port_of[lane.from][rail], port_of[lane.to][rail])
        };
        let mut observation = Observation {
            test: record.test,
            isolated: test.purpose == Purpose::Isolated,
            paced: test.purpose == Purpose::Loss
                || (test.purpose == Purpose::Isolated
                    && !test.paces.is_empty()
                    && test.pattern != Pattern::Hol),
            ..Observation::default()
        };
        match &record.sums {
            Some(sums) => sums::see(self, test, sums, &port_of, &mut observation),
            None => self.see_links(plan, hosts, test, record, &ends, &mut observation),
        }
        self.add_limits(hosts, nodes, test, record, &mut observation);
        observation.frames = self.frames(hosts, record);
        let seen = observation.seen(&self.fabric);
        if let Some(unfit) = unfit::too_fast(self, hosts, record, &seen) {
            self.unfit.insert(record.test, unfit);
            return;
        }
        self.add_foreign(plan, hosts, record, &seen, &mut observation);
        let series = Series::of(&self.ports, hosts, nodes, test, record);
        if let Some((worst, stretch)) = series.and_then(|all| all.worst(&self.fabric, &observation))
        {
            self.stretches.insert(record.test, stretch);
            observation = worst;
        }
        if !observation.links.is_empty() || !observation.passed.is_empty() {
            self.observations.push(observation);
        }
    }

    /// Puts what each pair of ports carried into an observation, and the flows that say what it should have carried.
    fn see_links(
        &self,
        plan: &RunPlan,
        hosts: &[HostRecord],
        test: &Test,
        record: &TestRecord,
        ends: &dyn Fn(&Lane) -> (usize, usize),
        observation: &mut Observation,
    ) {
        let mut seen: BTreeMap<(usize, usize), Seen> = BTreeMap::new();
        let mut acks_per_s = vec![0.0; self.fabric.places()];
        for link in record.links.iter().filter(|link| link.crosses_switch) {
            let (from, to) = ends(&link.lane);
            let pair = seen.entry((from, to)).or_insert(Seen {
                from,
                to,
                ..Seen::default()
            });
            pair.rate += record.rate_of(link) * 1e9;
            pair.links += 1;
            pair.limiting += usize::from(link.held_by == HeldBy::Limiting);
            // The counters come from other processes, so sums must not overflow.
            add(&mut pair.segments, link.segments());
            add(&mut pair.lost, link.lost());
            let acks = link.acks_per_s();
            for place in self.fabric.way(to, from) {
                acks_per_s[place] += acks;
            }
        }
        if test.pattern == Pattern::Hol {
            // Links share the congested port arbitrarily; the victim must keep its half.
            observation.only = Some(Place::Receive(self.port_at(hosts, 2, 0)));
        }
        let links = |pair: (usize, usize)| seen.get(&pair).map_or(0, |one| one.links);
        let rising = series::rising(test.bound, &record.worst_links, ends, &links);
        for pair in rising {
            if let Some(one) = seen.get_mut(&pair) {
                one.rising = true;
            }
        }
        observation.links = seen.into_values().collect();
        observation.capacities = self.capacities(&acks_per_s);
        (observation.flows, observation.pairs) = self.flows(plan, hosts, test, ends);
    }

    /// Subtracts the part that other traffic used from the capacities of ports.
    fn add_foreign(
        &self,
        plan: &RunPlan,
        hosts: &[HostRecord],
        test: &TestRecord,
        seen: &[f64],
        observation: &mut Observation,
    ) {
        let mut taken = vec![0.0; self.fabric.places()];
        for (number, port) in self.ports.iter().enumerate() {
            let interface = port.interface(hosts);
            let label = &plan.nodes[port.node].label;
            for (place, sends) in [(Place::Send(number), true), (Place::Receive(number), false)] {
                let part = unfit::foreign(test, label, interface, sends);
                let place = self.fabric.number(place);
                taken[place] = seen[place] * part / (1.0 - part);
            }
        }
        if taken.iter().any(|rate| *rate > 0.0) {
            let capacities = observation.capacities.iter_mut().zip(&taken);
            for (capacity, taken) in capacities.filter(|(capacity, _)| capacity.is_finite()) {
                *capacity = (*capacity - taken).max(*capacity * 0.01);
            }
            observation.foreign = taken;
        }
    }

    /// Frame counters of each port's interface in a test.
    fn frames(&self, hosts: &[HostRecord], test: &TestRecord) -> Vec<Frames> {
        /// Maximum bytes of segments in one packet of a backlog, since hosts merge segments that arrive together.
        const MERGED: u32 = 65_535;
        let of = |port: &PortView| {
            let interface = port.interface(hosts);
            let node = test.nodes.get(port.node).and_then(Option::as_ref);
            let mut counted = node.into_iter().flat_map(|node| &node.interfaces);
            let counters = counted.find(|(name, _)| Some(name.as_str()) == interface);
            let backlog = node.map_or(0, |node| node.backlog_drops);
            let segments = u64::from(MERGED / port.framing.payload_bytes().max(1));
            let backlog = backlog.saturating_mul(segments.max(1));
            counters.map_or_else(Frames::default, |(_, all)| Frames {
                received: all.received_packets,
                broken: sum([all.crc_errors, all.fec_uncorrectable]
                    .into_iter()
                    .flatten()),
                discarded: sum([all.missed.unwrap_or(0), backlog].into_iter()),
                // The kernel includes missed frames in its drops.
                dropped: all.drops.saturating_sub(all.missed.unwrap_or(0)),
            })
        };
        self.ports.iter().map(of).collect()
    }

    /// Flows, each at one rate: every link with two phases, every chain from source to sink with more. With the ports of each flow's first link.
    fn flows(
        &self,
        plan: &RunPlan,
        hosts: &[HostRecord],
        test: &Test,
        ends: &dyn Fn(&Lane) -> (usize, usize),
    ) -> (Vec<Flow>, Vec<(usize, usize)>) {
        let nodes = plan.nodes.len();
        let crosses = |lane: &Lane| hosts[lane.from].host_index != hosts[lane.to].host_index;
        let mut next: HashMap<(usize, usize, usize), Lane> = HashMap::new();
        for lane in (1..test.phases - 1).flat_map(|at| lanes::of_boundary(test, nodes, at)) {
            next.insert((lane.boundary, lane.from, lane.from_slot), lane);
        }
        let rate_of = test.rates();
        // Chains with the same route form one flow with more connections.
        let mut flows: BTreeMap<Way, (f64, f64)> = BTreeMap::new();
        for first in lanes::of_boundary(test, nodes, 0) {
            let mut lane = first;
            let (mut route, mut pair, mut cap) = (Vec::new(), None, f64::INFINITY);
            loop {
                if crosses(&lane) {
                    let (from, to) = ends(&lane);
                    pair = pair.or(Some((from, to)));
                    route.extend(self.fabric.way(from, to));
                    let most = rate_of(&lane);
                    cap = cap.min(most.map_or(f64::INFINITY, |rate| rate as f64));
                }
                let Some(onward) = next.get(&(lane.boundary + 1, lane.to, lane.to_slot)) else {
                    break;
                };
                lane = *onward;
            }
            if let Some(pair) = pair {
                let known = flows.entry((route, pair)).or_insert((0.0, 0.0));
                known.0 += 1.0;
                known.1 += cap;
            }
        }
        flows
            .into_iter()
            .map(|((route, pair), (weight, cap))| (Flow { route, weight, cap }, pair))
            .unzip()
    }

    fn add_limits(
        &mut self,
        hosts: &[HostRecord],
        nodes: &[Vec<usize>],
        test: &Test,
        record: &TestRecord,
        observation: &mut Observation,
    ) {
        let links = host::links_of_nodes(record);
        observation.host_limited = vec![false; hosts.len()];
        observation.waiting = vec![0.0; hosts.len()];
        for port in &self.ports {
            let first = port.node;
            let nodes = &nodes[first];
            observation.waiting[first] = host::waiting(record, nodes, &links);
            let limit = port
                .slot_limit
                .clone()
                .or_else(|| host::port_limit(record, first, port.interface(hosts)))
                .or_else(|| host::limit(record, nodes))
                .or_else(|| host::receive_limit(test.phases, nodes, &links));
            if let Some(limit) = limit {
                observation.host_limited[first] = true;
                self.limits.insert((record.test, first), limit);
            }
        }
    }
}

/// True if both nodes of every link reported. The rates of other links while a host disappears say nothing about the switch.
fn is_whole(test: &TestRecord) -> bool {
    let ended = |node: usize| test.nodes[node].is_some();
    if let Some(sums) = &test.sums {
        let rails = (sums.ports.len() / test.nodes.len().max(1)).max(1);
        let mut ports = sums.ports.iter().enumerate();
        return ports.all(|(port, both)| {
            let is_used = both.iter().any(|sum| sum.links > 0);
            !is_used || ended(port / rails)
        });
    }
    let mut links = test.links.iter();
    links.all(|link| ended(link.lane.from) && ended(link.lane.to))
}
