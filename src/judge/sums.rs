//! A test whose record has sums of links as the judge sees it: what each port and each uplink carried, and what it should have carried.
//!
//! What should have passed a port follows from links between classes of ports: equal ports with as many links get as much as each other, so
//! one flow stands for all links from one class to another, and a mesh of a thousand hosts takes no million of flows. After that each port
//! has a flow of its own: with so many links it depends on no single partner. Links between two groups are one flow through their uplinks.
//!
//! A permutation can have as many links, since it has as many at each port as the mesh. There each node sends to one other, so the sums of a port are
//! those of a pair, and the test is judged pair by pair.

use std::collections::BTreeMap;

use crate::plan::Test;
use crate::plan::lanes::Lane;
use crate::record::LinkSums;
use crate::units::add;
use numbers::spread::median;

use super::fabric::{Observation, Place, Seen};
use super::filling::{Flow, fill};
use super::thresholds::FULL;
use super::view::View;

/// What makes ports equal: rail, group, ceilings, and numbers of links out of them and into them.
type Class = (usize, Option<usize>, [u64; 2], [usize; 2]);

/// Puts what each place carried into an observation, and the flows that say what it should have carried. `port_of` has the port of each node on
/// each rail.
pub(super) fn see(
    view: &View,
    test: &Test,
    sums: &LinkSums,
    port_of: &[Vec<usize>],
    observation: &mut Observation,
) {
    let fabric = &view.fabric;
    let rails = test.rails.max(1);
    if !sums.crosses_switch {
        observation.capacities = view.ceilings();
        return;
    }
    if is_of_pairs(test, port_of.len()) {
        see_pairs(view, test, sums, port_of, observation);
        return;
    }
    let mut passed = vec![0.0; fabric.places()];
    let mut acks_per_s = vec![0.0; fabric.places()];
    for (at, both) in sums.ports.iter().enumerate() {
        let Some(port) = port_of.get(at / rails).map(|ports| ports[at % rails]) else {
            continue;
        };
        for (sum, sends) in both.iter().zip([true, false]) {
            let place = fabric.number(Place::of_port(port, sends));
            passed[place] += sum.rate_bits_per_s;
            // Acknowledgements go the other way.
            acks_per_s[place ^ 1] += sum.acks_per_s;
            if let Some(uplink) = uplink_of(view, port, sends) {
                let across = sum.across_bits_per_s / sum.rate_bits_per_s.max(f64::MIN_POSITIVE);
                passed[uplink] += sum.across_bits_per_s;
                acks_per_s[uplink ^ 1] += sum.acks_per_s * across.min(1.0);
            }
        }
    }
    observation.capacities = view.capacities(&acks_per_s);
    let (of_ports, of_groups) = flows(view, test, port_of, &observation.capacities);
    observation.flows = of_groups;
    let wanted = observation.sums(&fill(&observation.capacities, &observation.flows));
    let ports = 2 * fabric.ports.len();
    let kept = kept_by_ports(view, &of_ports, &observation.capacities, &passed);
    let is_short = |uplink: usize, kept: f64| {
        wanted[uplink] >= observation.capacities[uplink] * FULL
            && passed[uplink] + wanted[uplink] * kept < wanted[uplink] * fabric.floor(uplink)
    };
    let mut uplinks = ports..fabric.places();
    let is_slow = uplinks.clone().any(|uplink| is_short(uplink, kept[uplink]));
    let is_starved = uplinks.any(|uplink| is_short(uplink, 0.0));
    match (is_slow, is_starved) {
        // A slow uplink holds ports of both groups down, each to another extent. If the test judges that uplink, it judges no ports.
        (true, _) => passed[..ports].fill(0.0),
        // Slow ports leave it less than full. If the test judges these ports, it judges no uplinks.
        (false, true) => observation.flows = of_ports,
        (false, false) => observation.flows.extend(of_ports),
    }
    observation.passed = passed;
}

/// True if each node sends to one node at most, and no relay couples pairs: then the sums of a node's links are those of a pair.
fn is_of_pairs(test: &Test, nodes: usize) -> bool {
    test.phases == 2 && (0..nodes).all(|from| test.pattern.targets(nodes, from).len() < 2)
}

/// Puts what each pair of ports carried into an observation, as its links would.
fn see_pairs(
    view: &View,
    test: &Test,
    sums: &LinkSums,
    port_of: &[Vec<usize>],
    observation: &mut Observation,
) {
    let (fabric, rails) = (&view.fabric, test.rails.max(1));
    let mut seen: BTreeMap<(usize, usize), Seen> = BTreeMap::new();
    let mut flows: BTreeMap<(usize, usize), Flow> = BTreeMap::new();
    let mut acks_per_s = vec![0.0; fabric.places()];
    for pair in pairs(view, test, port_of) {
        let (from, to) = pair.ports;
        let Some([out, _]) = sums.ports.get(pair.node * rails + pair.rail) else {
            continue;
        };
        let own = seen.entry((from, to)).or_insert(Seen {
            from,
            to,
            ..Seen::default()
        });
        own.rate += out.rate_bits_per_s;
        own.links = own.links.saturating_add(out.links);
        own.limiting = own.limiting.saturating_add(out.limiting);
        add(&mut own.segments, out.segments);
        add(&mut own.lost, out.lost);
        for place in fabric.way(to, from) {
            acks_per_s[place] += out.acks_per_s;
        }
        let flow = flows.entry((from, to)).or_insert_with(|| Flow {
            route: fabric.way(from, to),
            weight: 0.0,
            cap: 0.0,
        });
        flow.weight += pair.links;
        flow.cap += pair.limit;
    }
    observation.links = seen.into_values().collect();
    observation.capacities = view.capacities(&acks_per_s);
    (observation.pairs, observation.flows) = flows.into_iter().unzip();
}

/// A place, the rate that it should have carried, and the share of it that it carried.
type Carried = (usize, f64, f64);

/// For each uplink, the share of its traffic that slow ports at its ends keep from it: what they lack beyond the median of their group and direction,
/// since a slow uplink slows all ports of a group alike.
fn kept_by_ports(view: &View, flows: &[Flow], capacities: &[f64], passed: &[f64]) -> Vec<f64> {
    let fabric = &view.fabric;
    let mut ports: BTreeMap<(Option<usize>, bool), Vec<Carried>> = BTreeMap::new();
    for flow in flows {
        let place = flow.route[0];
        let due = flow.cap.min(capacities[place]);
        if let Some((port, sends)) = fabric.place(place).port().filter(|_| due.is_finite()) {
            let own = ports.entry((fabric.ports[port].group, sends)).or_default();
            own.push((place, due, passed[place] / due.max(f64::MIN_POSITIVE)));
        }
    }
    // What the ports of a group should have carried, and what slow ones lack.
    let sums = ports.into_iter().map(|(key, own)| {
        let usual = median(&mut own.iter().map(|(.., share)| *share).collect::<Vec<_>>());
        let slow = own
            .iter()
            .filter(|(place, _, share)| *share < usual * fabric.floor(*place));
        let lack: f64 = slow.map(|(_, due, share)| due * (usual - share)).sum();
        let due: f64 = own.iter().map(|(_, due, _)| due).sum();
        (key, due, lack)
    });
    let sums: Vec<((Option<usize>, bool), f64, f64)> = sums.collect();
    let kept = |place: Place| {
        let (group, up) = match place {
            Place::Up(group) => (group, true),
            Place::Down(group) => (group, false),
            Place::Send(_) | Place::Receive(_) => return 0.0,
        };
        // Traffic goes up from senders of the group to receivers of others.
        let of_ends = [true, false].map(|sends| {
            let own = sums
                .iter()
                .filter(|((of, way), ..)| *way == sends && (*of == Some(group)) == (sends == up));
            let (due, lack) = own.fold((0.0, 0.0), |sum, one| (sum.0 + one.1, sum.1 + one.2));
            lack / f64::max(due, f64::MIN_POSITIVE)
        });
        of_ends.iter().sum()
    };
    fabric.all_places().map(kept).collect()
}

/// Number of the uplink between a port and ports of other groups, in the direction in which the port sends or receives.
fn uplink_of(view: &View, port: usize, sends: bool) -> Option<usize> {
    let group = view.fabric.ports[port].group?;
    Some(view.fabric.number(match sends {
        true => Place::Up(group),
        false => Place::Down(group),
    }))
}

/// Links between two classes.
#[derive(Clone, Copy, Default)]
struct Between {
    links: f64,
    /// Sum of their rate limits.
    cap: f64,
}

/// Flows of each port, and those between groups.
fn flows(
    view: &View,
    test: &Test,
    port_of: &[Vec<usize>],
    capacities: &[f64],
) -> (Vec<Flow>, Vec<Flow>) {
    let fabric = &view.fabric;
    let pairs = pairs(view, test, port_of);
    let mut degrees = vec![[0_usize; 2]; fabric.ports.len()];
    for pair in &pairs {
        let (from, to) = pair.ports;
        degrees[from][0] += 1;
        degrees[to][1] += 1;
    }
    let ceilings = view.ceilings();
    let mut numbers: BTreeMap<Class, usize> = BTreeMap::new();
    let class_of = fabric.ports.iter().zip(&degrees).enumerate();
    let class_of = class_of.map(|(port, (spec, degrees))| {
        let ceilings = [0, 1].map(|back| ceilings[2 * port + back].to_bits());
        let next = numbers.len();
        *numbers
            .entry((spec.rail, spec.group, ceilings, *degrees))
            .or_insert(next)
    });
    let class_of: Vec<usize> = class_of.collect();
    let classes = numbers.len();
    // Places of the classes, then the uplinks.
    let mut of_classes = vec![0.0; 2 * classes];
    let (mut groups, mut members) = (vec![None; classes], vec![0.0; classes]);
    for (port, class) in class_of.iter().enumerate() {
        groups[*class] = fabric.ports[port].group;
        members[*class] += 1.0;
        for back in [0, 1] {
            of_classes[2 * class + back] += capacities[2 * port + back];
        }
    }
    of_classes.extend(&capacities[2 * fabric.ports.len()..]);
    let mut between: BTreeMap<(usize, usize), Between> = BTreeMap::new();
    for pair in &pairs {
        let (from, to) = pair.ports;
        let own = between.entry((class_of[from], class_of[to])).or_default();
        own.links += 1.0;
        own.cap += pair.limit;
    }
    let is_across = |(from, to): (usize, usize)| groups[from] != groups[to];
    let way = |(from, to): (usize, usize)| {
        let mut way = vec![2 * from, 2 * to + 1];
        if is_across((from, to)) {
            let uplink = |group: usize| 2 * (classes + group);
            way.extend(groups[from].map(uplink));
            way.extend(groups[to].map(|group| uplink(group) + 1));
        }
        way
    };
    // From three phases on a chain of links goes there and back.
    let hops = |(from, to): (usize, usize)| {
        let hops = 0..test.phases.saturating_sub(1);
        hops.map(move |hop| if hop % 2 == 0 { (from, to) } else { (to, from) })
    };
    let chains: Vec<Flow> = between
        .iter()
        .map(|(pair, links)| Flow {
            route: hops(*pair).flat_map(way).collect(),
            weight: links.links,
            cap: links.cap,
        })
        .collect();
    let mut wanted = vec![0.0; 2 * classes];
    let mut of_groups: BTreeMap<Vec<usize>, Flow> = BTreeMap::new();
    for ((pair, links), rate) in between.iter().zip(fill(&of_classes, &chains)) {
        for (from, to) in hops(*pair) {
            wanted[2 * from] += rate;
            wanted[2 * to + 1] += rate;
            // Uplinks of the fabric follow its ports.
            let before = fabric.places() - of_classes.len();
            let uplinks = way((from, to)).into_iter().skip(2);
            let route: Vec<usize> = uplinks.map(|uplink| uplink + before).collect();
            if !route.is_empty() {
                let flow = of_groups.entry(route.clone()).or_insert(Flow {
                    route,
                    weight: 0.0,
                    cap: 0.0,
                });
                flow.weight += links.links;
                flow.cap += rate;
            }
        }
    }
    let mut of_ports = Vec::new();
    for (port, class) in class_of.iter().enumerate() {
        for back in [0, 1] {
            let (own, of_class) = (2 * port + back, 2 * class + back);
            let (wanted, capacity) = (wanted[of_class], of_classes[of_class]);
            if degrees[port][back] == 0 || wanted <= 0.0 {
                continue;
            }
            let cap = match capacity.is_finite() {
                // A class that is full limits itself, whatever its capacity.
                _ if wanted >= capacity * (1.0 - 1e-6) => f64::INFINITY,
                true => wanted * capacities[own] / capacity,
                false => wanted / members[*class],
            };
            of_ports.push(Flow {
                route: vec![own],
                weight: degrees[port][back] as f64,
                cap,
            });
        }
    }
    (of_ports, of_groups.into_values().collect())
}

/// The links that a pair of nodes has on a rail.
struct Pair {
    /// Sending node.
    node: usize,
    rail: usize,
    /// Ports at their ends.
    ports: (usize, usize),
    /// Number of links.
    links: f64,
    /// Sum of their rate limits.
    limit: f64,
}

/// All pairs of nodes on different hosts, rail by rail.
fn pairs(view: &View, test: &Test, port_of: &[Vec<usize>]) -> Vec<Pair> {
    let (fabric, nodes) = (&view.fabric, port_of.len());
    let rails = test.rails.max(1);
    let rate_of = test.rates();
    let mut pairs = Vec::new();
    for from in 0..nodes {
        for to in test.pattern.targets(nodes, from) {
            let both = port_of[from].iter().zip(&port_of[to]);
            for (rail, (own, other)) in both.enumerate().take(rails.min(test.streams)) {
                let ports = (*own, *other);
                if fabric.ports[ports.0].host == fabric.ports[ports.1].host {
                    continue;
                }
                let lane = Lane {
                    boundary: 0,
                    from,
                    to,
                    stream: rail,
                    from_slot: 0,
                    to_slot: 0,
                };
                let links = (rail..test.streams).step_by(rails).count() as f64;
                let limit = rate_of(&lane).map_or(f64::INFINITY, |rate| rate as f64);
                pairs.push(Pair {
                    node: from,
                    rail,
                    ports,
                    links,
                    limit: limit * links,
                });
            }
        }
    }
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::case::Case;
    use crate::judge::fabric::tests::of_hosts;
    use crate::judge::fault::Fault;
    use crate::judge::look::Look;
    use crate::judge::view::tests::of_node;
    use crate::plan::Pattern;
    use crate::plan::lanes::tests::test_of;

    /// A test of four ports that know their sums, and carry `rate` of 1 each way.
    fn mesh(test: usize, rate: f64) -> Observation {
        let flow = |place: usize| Flow {
            route: vec![place],
            weight: 3.0,
            cap: f64::INFINITY,
        };
        Observation {
            test,
            capacities: vec![1.0; 8],
            flows: (0..8).map(flow).collect(),
            passed: vec![rate; 8],
            ..Observation::default()
        }
    }

    /// Symptom: beside a switch that passed 60 % of all ports together, each of its ports was undecided.
    #[test]
    fn a_slow_backplane_explains_the_sums_of_its_ports() {
        let fabric = of_hosts(4);
        let all: Vec<usize> = (0..4).collect();
        let backplane = Fault::Shared {
            from: all.clone(),
            to: all,
        };
        let observations = [mesh(0, 0.6), mesh(1, 0.6)];
        let case = Case::new(&fabric, &observations);
        assert_eq!(case.unexplained(&[]).len(), 8);
        assert_eq!(case.unexplained(std::slice::from_ref(&backplane)), []);
        let rates = case.passes_of(&backplane).into_iter();
        let rates = rates.map(|pass| (pass.rate * 10.0).round());
        assert_eq!(rates.collect::<Vec<_>>(), [24.0, 24.0]);
        // A port that is slow itself remains unexplained.
        let mut others = [mesh(0, 0.6), mesh(1, 0.6)];
        others[1].passed[2] = 0.1;
        let case = Case::new(&fabric, &others);
        let open = case.unexplained(&[backplane]);
        let open: Vec<Place> = open.iter().map(|open| open.place).collect();
        assert_eq!(open, [Place::Send(1)]);
    }

    /// Symptom: the repeat of a mesh counted as one of a bisection, since neither had links.
    #[test]
    fn a_test_with_sums_is_repeated_by_one_with_as_many_links() {
        let fabric = of_hosts(4);
        let again = Observation {
            isolated: true,
            ..mesh(2, 0.6)
        };
        let mut bisection = again.clone();
        for flow in &mut bisection.flows {
            flow.weight = 2.0;
        }
        let is_short_again = |repeat: &Observation| {
            let all = [mesh(0, 0.6), repeat.clone()];
            Case::new(&fabric, &all).is_short_again(Place::Send(1))
        };
        assert!(is_short_again(&again) && !is_short_again(&bisection));
    }

    /// Places that a mesh of two groups of six ports with a full uplink judges and finds short, if each port of the first group sends this share of
    /// its due.
    fn short_in_groups(share: fn(usize) -> f64) -> Vec<Place> {
        const PORTS: usize = 12;
        let port = |node| of_node(node, 25);
        let mut view = View {
            fabric: of_hosts(PORTS),
            ports: (0..PORTS).map(port).collect(),
            groups: vec![("a".to_owned(), 80_000_000_000)],
            ..View::default()
        };
        view.fabric.groups = 1;
        for port in &mut view.fabric.ports[..PORTS / 2] {
            port.group = Some(0);
        }
        let ceilings = view.ceilings();
        let across = ceilings[2 * PORTS] / (PORTS / 2) as f64;
        let mut sums = LinkSums {
            crosses_switch: true,
            ports: vec![Default::default(); PORTS],
            ..LinkSums::default()
        };
        for (port, both) in sums.ports.iter_mut().enumerate() {
            let shares = [if port < PORTS / 2 { share(port) } else { 1.0 }, 1.0];
            for (sum, share) in both.iter_mut().zip(shares) {
                sum.links = PORTS - 1;
                sum.rate_bits_per_s = ceilings[2 * port] * share;
                sum.across_bits_per_s = across * share;
            }
        }
        let test = Test {
            pattern: Pattern::Mesh,
            ..test_of(2, 1)
        };
        let port_of: Vec<Vec<usize>> = (0..PORTS).map(|port| vec![port]).collect();
        let mut observation = Observation::default();
        see(&view, &test, &sums, &port_of, &mut observation);
        let look = Look::new(&view.fabric, &observation);
        let places = view.fabric.all_places();
        let is_short = |place: &Place| {
            let number = view.fabric.number(*place);
            look.judged[number] && look.is_short(number)
        };
        places.filter(is_short).collect()
    }

    /// Symptom: a port that sent a fifth of its rate left the uplink of its group less than full, and the test judged the uplink and no port.
    #[test]
    fn a_slow_port_in_sums_is_short_and_its_uplink_is_not() {
        assert_eq!(short_in_groups(|_| 1.0), []);
        let slow_port = short_in_groups(|port| if port == 2 { 0.2 } else { 1.0 });
        assert_eq!(slow_port, [Place::Send(2)]);
        assert_eq!(short_in_groups(|_| 0.6), [Place::Up(0)]);
    }
}
