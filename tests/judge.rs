//! Tests the judge on fabrics that exist only as numbers. Faults are drawn, the rates are filled with uneven connections and noise,
//! and the blamed faults are compared with the drawn ones.

use std::collections::BTreeSet;

use pipebench::internals::judge::fabric::{Fabric, Observation, Place, Port, Seen};
use pipebench::internals::judge::fault::Fault;
use pipebench::internals::judge::filling::{Flow, fill};
use pipebench::internals::judge::{Blamed, Decision, Step, decide};

/// Small generator (xorshift64*), so that a seed identifies a case.
struct Draw(u64);

impl Draw {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() >> 33).expect("31 bits fit") % limit
    }

    /// Random number between two numbers.
    fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// A fabric and its faults.
struct World {
    fabric: Fabric,
    /// Ports of each host; a look at two hosts loads all of them.
    rails: usize,
    capacities: Vec<f64>,
    faults: Vec<(Fault, f64)>,
    /// Hosts that report that they are at their limit whenever they have links; unless `always`, only under load.
    busy: Vec<usize>,
    /// True if the faults also exist in isolated measurements.
    always: bool,
    /// True if busy hosts do not report their limit in isolated measurements.
    hidden: bool,
    /// Share of the time that busy hosts wait for a processor.
    waiting: f64,
    /// Share of a port's capacity that is left with equal reverse traffic.
    both_ways: f64,
    /// True if each link of a busy host has a random rate in each test.
    fitful: bool,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Shape {
    Plain,
    MixedSpeeds,
    Oversubscribed,
}

impl World {
    fn new(ports: usize, shape: Shape, draw: &mut Draw) -> Self {
        Self::with_rails(ports, 1, shape, draw)
    }

    fn with_rails(ports: usize, rails: usize, shape: Shape, draw: &mut Draw) -> Self {
        let groups = if shape == Shape::Oversubscribed { 2 } else { 0 };
        let port = |number: usize| Port {
            host: number / rails,
            rail: number % rails,
            group: (groups > 0).then(|| number * groups / ports),
            floor: 0.9,
            asked: None,
            gone: false,
        };
        let fabric = Fabric {
            ports: (0..ports).map(port).collect(),
            groups,
            uplink_floor: 0.9,
            behind: std::collections::BTreeSet::new(),
        };
        let mut capacities = Vec::new();
        for _ in 0..ports {
            let speed = match shape {
                Shape::MixedSpeeds if draw.below(3) == 0 => 40.0,
                _ => 100.0,
            };
            capacities.extend([speed, speed]);
        }
        for _ in 0..groups {
            // Half of the rate that its ports can send.
            let uplink = ports as f64 / groups as f64 * 100.0 / 2.0;
            capacities.extend([uplink, uplink]);
        }
        Self {
            fabric,
            rails,
            capacities,
            faults: Vec::new(),
            busy: Vec::new(),
            always: true,
            hidden: false,
            waiting: 0.0,
            both_ways: 1.0,
            fitful: false,
        }
    }

    fn observe(&self, pairs: &[(usize, usize)], isolated: bool, draw: &mut Draw) -> Observation {
        let route = |pair: &(usize, usize)| self.fabric.way(pair.0, pair.1);
        let flow = |pair: &(usize, usize)| Flow {
            route: route(pair),
            weight: 1.0,
            cap: f64::INFINITY,
        };
        let flows: Vec<Flow> = pairs.iter().map(flow).collect();
        let both_ways = if isolated { 1.0 } else { self.both_ways };
        let known: Vec<f64> = self.capacities.iter().map(|one| one * both_ways).collect();
        let mut broken = known.clone();
        let mut real = flows.clone();
        for flow in &mut real {
            flow.weight = draw.between(0.8, 1.25);
        }
        let here = self.always || !isolated;
        for (fault, left) in self.faults.iter().filter(|_| here) {
            match fault {
                Fault::Place(place) => broken[self.fabric.number(*place)] *= left,
                Fault::Pair(from, to) => {
                    for (flow, _) in real
                        .iter_mut()
                        .zip(pairs)
                        .filter(|(_, pair)| **pair == (*from, *to))
                    {
                        let narrowest = flow.route.iter().map(|place| self.capacities[*place]);
                        flow.cap = narrowest.take(2).fold(f64::INFINITY, f64::min) * left;
                    }
                }
                Fault::BothWays(_) | Fault::Shared { .. } | Fault::Path(_) => {
                    unreachable!("none is drawn here")
                }
            }
        }
        if self.fitful {
            for (flow, (from, to)) in real.iter_mut().zip(pairs) {
                if self.busy.contains(from) || self.busy.contains(to) {
                    flow.cap = 100.0 * draw.between(0.1, 1.1);
                }
            }
        }
        let rates = fill(&broken, &real);
        let links = pairs.iter().zip(rates).map(|(pair, rate)| Seen {
            from: pair.0,
            to: pair.1,
            rate: rate * draw.between(0.965, 1.0),
            ..Seen::default()
        });
        let has_links = |host: &usize| pairs.iter().any(|(from, to)| from == host || to == host);
        let hosts = 0..self.fabric.ports.len();
        let busy = |host: usize| here && self.busy.contains(&host) && has_links(&host);
        let told = hosts
            .clone()
            .map(|host| busy(host) && !(isolated && self.hidden));
        let waiting = hosts
            .clone()
            .map(|host| if busy(host) { self.waiting } else { 0.0 });
        Observation {
            isolated,
            host_limited: told.collect(),
            waiting: waiting.collect(),
            capacities: known,
            links: links.collect(),
            flows,
            pairs: pairs.to_vec(),
            ..Observation::default()
        }
    }

    /// Pairs of ports for pairs of hosts, one for each rail.
    fn ports_of(&self, hosts: &[(usize, usize)]) -> Vec<(usize, usize)> {
        let rails = self.rails;
        let of = |(from, to): &(usize, usize)| {
            let (from, to) = (*from, *to);
            (0..rails).map(move |rail| (from * rails + rail, to * rails + rail))
        };
        hosts.iter().flat_map(of).collect()
    }

    /// Measures all permutations and the mesh, then all requests of the judge. Returns its decision and the number of requests.
    fn judge(&self, with_permutations: bool, draw: &mut Draw) -> (Decision, usize) {
        let hosts = self.fabric.ports.len() / self.rails;
        let mut seen = Vec::new();
        if with_permutations {
            for by in 1..hosts {
                let pairs: Vec<_> = (0..hosts).map(|host| (host, (host + by) % hosts)).collect();
                seen.push(self.observe(&self.ports_of(&pairs), false, draw));
            }
        }
        let mesh: Vec<_> = (0..hosts)
            .flat_map(|from| (0..hosts).map(move |to| (from, to)))
            .filter(|(from, to)| from != to)
            .collect();
        seen.push(self.observe(&self.ports_of(&mesh), false, draw));
        let mut measured = 0;
        for _ in 0..60 {
            match decide(&self.fabric, &seen) {
                Step::Done(decision) => return (decision, measured),
                Step::Measure(requests) => {
                    assert!(!requests.is_empty());
                    for request in requests {
                        measured += 1;
                        // Hosts measure with all of their rails.
                        let host = |port: usize| self.fabric.ports[port].host;
                        let pairs = request.pairs.iter();
                        let hosts: BTreeSet<(usize, usize)> =
                            pairs.map(|(from, to)| (host(*from), host(*to))).collect();
                        let hosts: Vec<_> = hosts.into_iter().collect();
                        seen.push(self.observe(&self.ports_of(&hosts), true, draw));
                    }
                }
            }
        }
        panic!("the judge asks without end");
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    Sound,
    Send,
    Receive,
    Both,
    Pair,
    Uplink,
    Two,
}

fn draw_faults(world: &mut World, kind: Kind, left: f64, draw: &mut Draw) {
    let ports = world.fabric.ports.len();
    let port = draw.below(ports);
    let other = (port + 1 + draw.below(ports - 1)) % ports;
    let place = |place| (Fault::Place(place), left);
    world.faults = match kind {
        Kind::Sound => vec![],
        Kind::Send => vec![place(Place::Send(port))],
        Kind::Receive => vec![place(Place::Receive(port))],
        Kind::Both => vec![place(Place::Send(port)), place(Place::Receive(port))],
        Kind::Pair => vec![(Fault::Pair(port, other), left)],
        Kind::Uplink => vec![place(Place::Up(draw.below(world.fabric.groups)))],
        Kind::Two => {
            let second = match draw.below(2) {
                0 => Place::Send(other),
                _ => Place::Receive(other),
            };
            vec![place(Place::Send(port)), place(second)]
        }
    };
}

/// True if the blamed faults are the drawn ones, each named directly or among those that cannot be told apart from it.
fn is_right(world: &World, decision: &Decision) -> bool {
    let drawn = &world.faults;
    let blamed = &decision.confirmed;
    let names = |one: &Blamed, fault: &Fault| one.fault == *fault || one.or.contains(fault);
    blamed.len() == drawn.len()
        && blamed
            .iter()
            .all(|one| drawn.iter().any(|(fault, _)| names(one, fault)))
        && drawn
            .iter()
            .all(|(fault, _)| blamed.iter().any(|one| names(one, fault)))
}

struct Tally {
    right: usize,
    /// Number of right cases with other faults that cannot be told apart from a drawn one.
    vague: usize,
    wrong: Vec<String>,
    measured: usize,
}

fn trial(
    cases: u64,
    ports: &[usize],
    shape: Shape,
    kind: Kind,
    left: f64,
    permutations: bool,
) -> Tally {
    let mut tally = Tally {
        right: 0,
        vague: 0,
        wrong: Vec::new(),
        measured: 0,
    };
    for seed in 1..=cases {
        let mut draw = Draw(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let count = ports[draw.below(ports.len())];
        let mut world = World::new(count, shape, &mut draw);
        draw_faults(&mut world, kind, left, &mut draw);
        let (decision, measured) = world.judge(permutations, &mut draw);
        tally.measured = tally.measured.max(measured);
        if is_right(&world, &decision) {
            tally.right += 1;
            tally.vague += usize::from(decision.confirmed.iter().any(|one| !one.or.is_empty()));
        } else {
            let text = format!(
                "seed {seed}, {count} ports: {:?}: {decision:?}",
                world.faults
            );
            tally.wrong.push(text);
        }
    }
    tally
}

fn must_be_right(tally: &Tally, cases: u64, share: f64, what: &str) {
    let enough = tally.right as f64 >= share * cases as f64;
    assert!(
        enough,
        "{what}: {} of {cases} right, {} of them not alone, {} looks at most\n{}",
        tally.right,
        tally.vague,
        tally.measured,
        tally.wrong.join("\n")
    );
}

const SMALL: [usize; 6] = [3, 4, 5, 6, 7, 8];

#[test]
fn sound_fabrics_are_never_blamed() {
    for shape in [Shape::Plain, Shape::MixedSpeeds, Shape::Oversubscribed] {
        for (cases, ports) in [
            (200, &[2, 3][..]),
            (300, &SMALL),
            (40, &[16, 32]),
            (2, &[64]),
        ] {
            for permutations in [true, false] {
                let tally = trial(cases, ports, shape, Kind::Sound, 1.0, permutations);
                must_be_right(&tally, cases, 1.0, &format!("sound {shape:?} {ports:?}"));
            }
        }
    }
}

#[test]
fn faults_of_ports_are_found_and_named() {
    for left in [0.5, 0.65, 0.8] {
        for kind in [Kind::Send, Kind::Receive, Kind::Both, Kind::Pair, Kind::Two] {
            for shape in [Shape::Plain, Shape::MixedSpeeds] {
                // With three ports, two of them fast, two faults at once can look like one.
                let share = match (kind, shape) {
                    (Kind::Two, Shape::MixedSpeeds) => 0.85,
                    _ => 0.95,
                };
                let tally = trial(24, &SMALL, shape, kind, left, true);
                must_be_right(&tally, 24, share, &format!("{kind:?} {shape:?} at {left}"));
            }
        }
    }
}

/// A look at two hosts measures all of their rails. A port is alone in it if no other link uses its rail.
#[test]
fn faults_of_ports_of_several_rails_are_found_and_named() {
    for rails in [2, 4] {
        for (kind, left) in [
            (Kind::Sound, 1.0),
            (Kind::Send, 0.5),
            (Kind::Receive, 0.8),
            (Kind::Both, 0.65),
        ] {
            for seed in 1..=20_u64 {
                let mut draw = Draw(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
                let hosts = 3 + draw.below(6);
                let mut world = World::with_rails(hosts * rails, rails, Shape::Plain, &mut draw);
                draw_faults(&mut world, kind, left, &mut draw);
                let (decision, _) = world.judge(seed % 2 == 0, &mut draw);
                assert!(
                    is_right(&world, &decision),
                    "seed {seed}, {hosts} hosts of {rails} rails: {:?}: {decision:?}",
                    world.faults
                );
            }
        }
    }
}

/// Without permutations the deficit of a pair can stay hidden, but faults of ports are found.
#[test]
fn the_mesh_alone_finds_faults_of_ports() {
    for left in [0.5, 0.8] {
        for kind in [Kind::Send, Kind::Receive, Kind::Both] {
            let tally = trial(40, &SMALL, Shape::Plain, kind, left, false);
            must_be_right(&tally, 40, 0.95, &format!("mesh {kind:?} at {left}"));
        }
    }
}

#[test]
fn an_uplink_is_named_and_no_port_behind_it() {
    for left in [0.5, 0.8] {
        let ports = [6, 8, 12, 16];
        let tally = trial(60, &ports, Shape::Oversubscribed, Kind::Uplink, left, true);
        must_be_right(&tally, 60, 0.95, &format!("uplink at {left}"));
    }
}

#[test]
fn large_fabrics_are_judged_too() {
    for (kind, left) in [(Kind::Send, 0.5), (Kind::Two, 0.8), (Kind::Pair, 0.5)] {
        let tally = trial(6, &[48, 64], Shape::Plain, kind, left, true);
        must_be_right(
            &tally,
            6,
            1.0,
            &format!("{kind:?} in a large fabric at {left}"),
        );
    }
    let tally = trial(2, &[256], Shape::Plain, Kind::Receive, 0.8, false);
    must_be_right(&tally, 2, 1.0, "256 ports");
}

/// In each permutation a slow port slows another partner down: hundreds of suspects, and one common cause.
#[test]
fn permutations_of_a_large_fabric_take_few_second_looks() {
    for (ports, kind, left) in [
        (128, Kind::Receive, 0.44),
        (128, Kind::Both, 0.8),
        (96, Kind::Two, 0.5),
        (128, Kind::Pair, 0.5),
        (256, Kind::Receive, 0.44),
    ] {
        let tally = trial(1, &[ports], Shape::Plain, kind, left, true);
        let what = format!("{kind:?} of {ports} ports");
        must_be_right(&tally, 1, 1.0, &what);
        assert!(tally.measured <= 16, "{what}: {} looks", tally.measured);
    }
}

/// A host at its limit is reported as such, even if it has no limit with one link only. The switch is not blamed.
#[test]
fn a_busy_host_never_fails_a_switch() {
    for (always, hidden) in [(true, false), (true, true), (false, false)] {
        for seed in 1..=60_u64 {
            let mut draw = Draw(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
            let ports = SMALL[draw.below(SMALL.len())];
            let mut world = World::new(ports, Shape::Plain, &mut draw);
            let left = draw.between(0.3, 0.8);
            draw_faults(&mut world, Kind::Both, left, &mut draw);
            let Some((Fault::Place(Place::Send(host)), _)) = world.faults.first().cloned() else {
                panic!("both directions");
            };
            (world.busy, world.always) = (vec![host], always);
            // A host that does not report its limit waits nearly as long as is missing.
            (world.hidden, world.waiting) = (hidden, (1.0 - left) * 0.8);
            let (decision, _) = world.judge(true, &mut draw);
            let own = [Place::Send(host), Place::Receive(host)];
            let told = decision
                .host_limited
                .iter()
                .all(|place| own.contains(place));
            assert!(
                decision.confirmed.is_empty() && told && !decision.host_limited.is_empty(),
                "seed {seed}, {ports} ports, host {host} at {left}: {decision:?}"
            );
        }
    }
}

/// A host whose processor comes and goes slows different links at different times, also alone. That is no fault of a pair.
#[test]
fn a_host_that_goes_by_fits_and_starts_fails_no_switch() {
    for seed in 1..=120_u64 {
        let mut draw = Draw(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let ports = SMALL[draw.below(SMALL.len())];
        let mut world = World::new(ports, Shape::Plain, &mut draw);
        let host = draw.below(ports);
        (world.busy, world.fitful, world.waiting) = (vec![host], true, 0.5);
        let (decision, _) = world.judge(true, &mut draw);
        assert!(
            decision.confirmed.is_empty(),
            "seed {seed}, {ports} ports, host {host}: {decision:?}"
        );
    }
}

/// Other hosts are busy as well, but keep their rate. The fault is found, and these hosts are hardly ever excused.
#[test]
fn a_busy_host_hides_no_fault() {
    // Count over 120 cases.
    let mut excused = 0;
    for kind in [Kind::Send, Kind::Receive] {
        for seed in 1..=60_u64 {
            let mut draw = Draw(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
            let ports = SMALL[draw.below(SMALL.len())];
            let mut world = World::new(ports, Shape::Plain, &mut draw);
            draw_faults(&mut world, kind, 0.6, &mut draw);
            let (Some((Fault::Place(Place::Send(port) | Place::Receive(port)), _)), true) =
                (world.faults.first().cloned(), true)
            else {
                panic!("a port");
            };
            // The deficit is far larger than this wait.
            world.waiting = 0.1;
            world.busy = (0..ports)
                .filter(|host| *host != port && draw.below(2) == 0)
                .collect();
            let (decision, _) = world.judge(true, &mut draw);
            excused += usize::from(!decision.host_limited.is_empty());
            assert!(
                is_right(&world, &decision) && excused <= 3,
                "seed {seed}, {ports} ports, busy {:?}: {:?}: {decision:?}",
                world.busy,
                world.faults
            );
        }
    }
}

/// All hosts are busy in every test, but keep their full rate. A slow pair between two of them is the fabric's fault.
#[test]
fn waits_that_cost_nothing_do_not_hide_a_slow_pair() {
    for seed in 1..=60_u64 {
        let mut draw = Draw(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        // With fewer ports, a pair is most of a port's load.
        let ports = 5 + draw.below(4);
        let mut world = World::new(ports, Shape::Plain, &mut draw);
        draw_faults(&mut world, Kind::Pair, 0.5, &mut draw);
        world.busy = (0..ports).collect();
        (world.waiting, world.hidden) = (0.1, true);
        let (decision, _) = world.judge(true, &mut draw);
        assert!(
            is_right(&world, &decision),
            "seed {seed}, {ports} ports: {:?}: {decision:?}",
            world.faults
        );
    }
}

/// Near the floor a fault can stay unseen, but nothing else is blamed for it.
#[test]
fn near_the_floor_nobody_innocent_is_blamed() {
    for (left, kind) in [
        (0.9, Kind::Send),
        (0.9, Kind::Pair),
        (0.92, Kind::Send),
        (0.92, Kind::Receive),
        (0.92, Kind::Pair),
        (0.95, Kind::Receive),
    ] {
        for seed in 1..=60 {
            let mut draw = Draw(seed * 77_777);
            let ports = SMALL[draw.below(SMALL.len())];
            let mut world = World::new(ports, Shape::Plain, &mut draw);
            draw_faults(&mut world, kind, left, &mut draw);
            let (decision, _) = world.judge(true, &mut draw);
            let drawn = world.faults[0].0.clone();
            for one in &decision.confirmed {
                let guilty = one.fault == drawn || one.or.contains(&drawn);
                assert!(guilty, "seed {seed}: {drawn:?}: {decision:?}");
            }
        }
    }
}

/// With a high floor as well, no deficit below it is passed over.
#[test]
fn below_a_high_floor_something_is_said_and_of_nobody_innocent() {
    let mut named = 0;
    for (number, kind) in [Kind::Send, Kind::Receive, Kind::Pair]
        .into_iter()
        .enumerate()
    {
        for seed in 1..=30 {
            let mut draw = Draw(seed * 77_777 + number as u64);
            let ports = SMALL[draw.below(SMALL.len())];
            let mut world = World::new(ports, Shape::Plain, &mut draw);
            for port in &mut world.fabric.ports {
                port.floor = 0.96;
            }
            draw_faults(&mut world, kind, 0.94, &mut draw);
            let (decision, _) = world.judge(true, &mut draw);
            assert_ne!(decision, Decision::default(), "seed {seed}, {kind:?}");
            let drawn = world.faults[0].0.clone();
            for one in &decision.confirmed {
                let guilty = one.fault == drawn || one.or.contains(&drawn);
                assert!(guilty, "seed {seed}: {drawn:?}: {decision:?}");
            }
            named += usize::from(!decision.confirmed.is_empty());
        }
    }
    assert!(named >= 75, "named in {named} of 90");
}

/// A requested rate is absolute: a port that reaches it is never short, and a port that misses it is, with any reverse traffic.
#[test]
fn a_rate_that_is_asked_for_is_asked_for_in_every_test() {
    for seed in 1..=60 {
        let mut draw = Draw(seed * 31_337);
        let ports = SMALL[draw.below(SMALL.len())];
        let mut world = World::new(ports, Shape::Plain, &mut draw);
        // Ports carry 100 one way, and 97 with equal reverse traffic.
        for port in &mut world.fabric.ports {
            (port.asked, port.floor) = (Some(80.0), 0.8);
        }
        world.both_ways = 0.97;
        let (sound, _) = world.judge(true, &mut draw);
        assert_eq!(sound, Decision::default(), "seed {seed}");
        // 79.5 each way are 82 % of what it can carry then, and less than the requested rate.
        let at = Place::Receive(draw.below(ports));
        world.faults = vec![(Fault::Place(at), 0.82)];
        let (decision, _) = world.judge(true, &mut draw);
        assert_ne!(decision, Decision::default(), "seed {seed}");
        for one in &decision.confirmed {
            let guilty = one.fault == Fault::Place(at) || one.or.contains(&Fault::Place(at));
            assert!(guilty, "seed {seed}: {at:?}: {decision:?}");
        }
    }
}
