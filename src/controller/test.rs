//! One test, from the settlement of its open options to its record.

use std::net::IpAddr;

use crate::judge::{capacity, order};
use crate::plan::fit::{self, Capacity};
use crate::plan::{
    Assignment, Bound, DataNetwork, Datapath, Membership, Peers, Purpose, Sink, Test, size,
};
use crate::record::{HostRecord, Trouble, TroubleKind};
use crate::stats::offset::Offset;
use crate::sys::clock;
use crate::wire::message::{AddressBook, Go, Listener, ToNode};

use super::events::{Hold, RunEvent};
use super::run_state::{RunState, fresh_names};
use super::sessions::Halt;
use super::{addresses, assemble, pulse};

impl RunState<'_> {
    pub(super) fn one_test(&mut self, number: usize) -> Result<(), Halt> {
        self.observer.see(RunEvent::Test {
            number: number + 1,
            of: self.plan.tests().len(),
            test: &self.plan.tests()[number],
            after_ns: self.estimated_ns(number + 1),
        });
        let (test, before) = loop {
            self.leave_out_lost(number)?;
            let test = self.settle(number);
            match self.set_up(number, &test) {
                Ok(offsets) => break (test, offsets),
                Err(halt) if number == self.first => self.leave_behind(halt)?,
                // Records of earlier tests refer to the nodes by number: failed nodes keep their sessions, but take no further part.
                Err(halt) => {
                    self.sessions.log.note(halt);
                    if !self.sessions.set_aside() {
                        return Err(Halt::Noted);
                    }
                }
            }
        };
        if !self.order.is_empty() {
            return Ok(());
        }
        self.go(number, &test, &before)?;
        self.watch(&test)?;
        self.hold(Hold::Collect)?;
        let after = self.sessions.measure_offsets()?;
        let record = assemble::test(self, number, &before, &after);
        let mut record = record.ok_or_else(|| self.interrupted())?;
        // The record is complete even without the series.
        if let Ok(series) = self
            .sessions
            .fetch_series(&pulse::worst_links(&self.plan, &record))
        {
            record.worst_links = series;
        }
        self.observer.see(RunEvent::Tested(&record));
        self.keep(record);
        Ok(())
    }

    /// Settles the options that the user left open, from the hosts' hardware and settings.
    fn settle(&mut self, number: usize) -> Test {
        if self.hosts.iter().any(|host| host.rails.is_empty()) {
            // The number of connections depends on the chosen port. A failure here occurs again in `set_up`, which reports it.
            let chosen = self.choose_ports(number);
            match chosen.and_then(|_| self.estimate_costs(number)) {
                Ok(()) | Err(_) => {}
            }
        }
        let capacities = capacity::of_hosts(&self.plan, &self.hosts);
        let test = &mut self.plan.tests_mut()[number];
        let streams = test.streams;
        let theirs = test.sockets.congestion.is_none();
        if let Some(note) = fit::settle(test, self.hosts.len(), &capacities) {
            self.sessions.log.notice(note);
        }
        if test.streams > streams {
            let each = test.streams / test.rails.max(1);
            self.sessions.log.notice(format!(
                "{each} links per pair, so that each port has enough connections to fill it (--streams 1 uses one)"
            ));
            if number == self.first {
                fit::renew_streams(&mut self.options, test);
            }
        }
        if test.unasked.datapath && test.datapath == Datapath::Zerocopy && number == self.first {
            let wants = |host: &&Capacity| host.rates.is_some_and(|rates| rates.wants_pages());
            let slow = capacities.iter().find(wants);
            let name = slow.map_or("a host", |host| host.name.as_str());
            self.sessions.log.notice(format!(
                "zero copy, because {name} cannot fill its ports with copies (--datapath copy keeps copies)"
            ));
        }
        let bbr = capacities.iter().filter(|host| host.bbr).count();
        let chosen = test.sockets.congestion.as_deref().filter(|_| theirs);
        if let (Some(chosen), true) = (chosen, number == self.first && capacities.len() > 1) {
            self.sessions.log.notice(format!(
                "{bbr} of {} hosts have bbr by default, which may not fill healthy ports: this run uses {chosen} (--congestion bbr keeps bbr)",
                capacities.len()
            ));
        }
        fit::renew_options(&mut self.options, test);
        let test = test.clone();
        self.tell_notices();
        test
    }

    /// Lets hosts estimate their CPU cost, all at the same time, where ports are so fast that a host may not fill them.
    fn estimate_costs(&mut self, number: usize) -> Result<(), Halt> {
        if self.hosts.iter().all(|host| host.host_index == 0) {
            return Ok(()); // Nothing leaves the host.
        }
        let checks = self.plan.tests()[number].purpose == Purpose::Check;
        let mut asked: Vec<usize> = Vec::new();
        for (node, speed) in capacity::port_speeds(&self.plan, &self.hosts) {
            let facts = &self.hosts[node].facts;
            if facts.cost.is_none() && fit::is_worth_an_estimate(speed, facts.cores, checks) {
                asked.push(node);
            }
        }
        if asked.is_empty() {
            return Ok(());
        }
        let costs = self.sessions.estimate(&asked)?;
        for (node, cost) in asked.into_iter().zip(costs) {
            self.hosts[node].facts.cost = cost;
        }
        Ok(())
    }

    /// Does everything that precedes the flow of data. Returns the clock offset of each node.
    fn set_up(&mut self, number: usize, test: &Test) -> Result<Vec<Offset>, Halt> {
        self.hold(Hold::Hello)?;
        self.choose_ports(number)?;
        if number == self.first {
            self.order = order::check(&self.plan, &self.hosts);
        }
        if !self.order.is_empty() {
            self.tell_hosts();
            return Ok(Vec::new());
        }
        if number == self.first {
            self.leave_out_impossible(number)?;
        }
        self.prepare(number, test)?;
        if number == self.first {
            self.tell_hosts();
            for test in self.outcome.tests() {
                self.observer.see(RunEvent::Tested(test));
            }
            self.tell_estimate();
        }
        self.hold(Hold::Fork)?;
        self.connect(number, test)?;
        self.hold(Hold::Go)?;
        self.sessions.measure_offsets()
    }

    /// Chooses the data address of each rail of each node. Returns false if they are chosen already.
    pub(super) fn choose_ports(&mut self, number: usize) -> Result<bool, Halt> {
        let test = &self.plan.tests()[number];
        self.choose_addresses(&test.network.clone(), test.rails)
    }

    pub(super) fn choose_addresses(
        &mut self,
        network: &DataNetwork,
        rails: usize,
    ) -> Result<bool, Halt> {
        let wanted = Some((network.clone(), rails));
        // New records of hosts have no addresses.
        let are_chosen = self.hosts.iter().all(|host| !host.rails.is_empty());
        if are_chosen && self.chosen == wanted {
            return Ok(false);
        }
        let seen = self.sessions.seen_hosts();
        let chosen = addresses::choose(&self.plan.nodes, network, rails, &seen)?;
        let guessed = addresses::guessed(&self.plan.nodes, network, &seen);
        for (host, rails) in self.hosts.iter_mut().zip(chosen) {
            host.rails = rails;
        }
        guessed
            .into_iter()
            .for_each(|text| self.sessions.log.notice(text));
        self.name_places()?;
        self.chosen = wanted;
        Ok(true)
    }

    /// A node's membership of this run; `names` are the digits in the names of Unix sockets. Of the other nodes, it knows its `peers`.
    pub(super) fn membership(
        &self,
        node: usize,
        names: &str,
        place_on_host: usize,
        peers: Peers,
    ) -> Membership {
        Membership {
            token: self.conditions.token.clone(),
            secret: self.conditions.secret.clone(),
            names: names.to_owned(),
            by: self.by.clone(),
            started_ms: self.conditions.started_ms,
            node,
            place_on_host,
            peers,
            deadlines: self.plan.deadlines.clone(),
        }
    }

    fn prepare(&mut self, number: usize, test: &Test) -> Result<(), Halt> {
        self.check_files(test)?;
        let names = fresh_names()?;
        let peers = test.pattern.peers(self.hosts.len());
        let part_of = parts(test, self.hosts.len());
        let places = places_on_hosts(&self.hosts).into_iter();
        for (node, (place, on_host)) in places.enumerate() {
            if self.sessions.is_lost(node) {
                continue;
            }
            let peers = peers_of(&self.hosts, node, on_host, &peers[node]);
            let assignment = Assignment {
                run: self.membership(node, &names, place, peers),
                rails: self.hosts[node].rails.clone(),
                test: part_of(node),
                seed: self.plan.seed,
                keep_going: self.plan.keep_going,
                samples: self.plan.samples() || self.conditions.watched,
                neighbours: match number == self.first {
                    true => addresses::to_ask_for(&self.hosts, node),
                    false => Vec::new(),
                },
            };
            self.sessions
                .send(node, &ToNode::Prepare(Box::new(assignment)));
        }
        let first = &self.hosts[0].facts.identity;
        let crosses = self.hosts.iter().any(|host| host.facts.identity != *first);
        self.sessions.begin(number, test, crosses);
        self.stage(number, "preparing");
        self.sessions.await_all(
            "make its processes",
            self.plan.deadlines.prepare_ms,
            |session| session.test.listeners.is_some(),
        )?;
        let neighbours: Vec<&[(IpAddr, String)]> = (0..self.hosts.len())
            .map(|node| &self.sessions.test(node).neighbours[..])
            .collect();
        match addresses::stranger(&self.hosts, &neighbours) {
            Some(trouble) if number == self.first => Err(trouble.into()),
            _ => Ok(()),
        }
    }

    /// Refuses a sink file that several nodes of one host would write.
    fn check_files(&self, test: &Test) -> Result<(), Halt> {
        let Sink::File(pattern) = &test.sink else {
            return Ok(());
        };
        let mut hosts = self.hosts.iter().enumerate();
        match hosts.find(|(node, host)| host.host_index != *node) {
            Some((node, host)) if !pattern.contains("%n") => {
                let first = &self.hosts[host.host_index].node;
                let what = format!(
                    "would write sink {pattern} on the same host as {first} (put %n, the node's label, into the name)"
                );
                Err(Trouble::of_node(TroubleKind::Usage, &self.hosts[node].node, what).into())
            }
            _ => Ok(()),
        }
    }

    fn connect(&mut self, number: usize, test: &Test) -> Result<(), Halt> {
        let nodes = self.plan.nodes.len();
        let of = |node: usize| -> Vec<Listener> {
            let told = self.sessions.test(node).listeners.as_deref();
            let told = told.unwrap_or_default();
            let at = |boundary: usize| {
                let listener = told.get(boundary).cloned().unwrap_or(Listener::None);
                listener.at(&self.hosts[node].rails)
            };
            (0..test.phases - 1).map(at).collect()
        };
        let listeners: Vec<Vec<Listener>> = (0..nodes).map(of).collect();
        for node in 0..nodes {
            let book = book_of(test, &listeners, node);
            self.sessions.send(node, &ToNode::Connect(book));
        }
        let links = size::of(test, nodes).links;
        self.stage(number, &format!("connecting {links} links"));
        let deadlines = &self.plan.deadlines;
        // The nodes' own deadline expires first and names the missing links.
        let limit = deadlines.connect_ms + deadlines.prepare_ms + 5_000;
        self.sessions
            .await_all("connect its links", limit, |session| session.test.ready)
    }

    /// Pauses at a stage if that was requested. The pause has a limit, so that a test that forgets its run does not leave it running.
    fn hold(&mut self, at: Hold) -> Result<(), Halt> {
        const LIMIT_MS: u64 = 600_000;
        if self.conditions.hold != Some(at) {
            return Ok(());
        }
        self.observer.see(RunEvent::Held(at));
        // The thread ends with a line. End-of-file also releases the run.
        let reader = std::thread::spawn(|| std::io::stdin().read_line(&mut String::new()));
        self.sessions
            .await_condition("be released", LIMIT_MS, |_| reader.is_finished())
    }

    /// Sends one start and one window to all nodes, converted to the clock of each node.
    fn go(&mut self, number: usize, test: &Test, offsets: &[Offset]) -> Result<(), Halt> {
        let slowest = offsets
            .iter()
            .map(|offset| offset.uncertainty_ns)
            .max()
            .unwrap_or(0);
        let settles_ns = 20_000_000 + slowest * 8 + offsets.len() as u64 * 200_000;
        let start = clock::monotonic_ns() + settles_ns + test.purpose.listens_ns();
        let blocks = match test.bound {
            Bound::Time { .. } => None,
            Bound::Volume { buffers } => Some(buffers),
            Bound::Files => Some(
                self.sessions
                    .longest_source()
                    .div_ceil(size::buffer_payload_bytes(test, offsets.len())),
            ),
        };
        let window = test.bound.times_ns().map(|(warmup_ns, window_ns)| {
            let first = start + warmup_ns;
            (first, first + window_ns)
        });
        for (node, offset) in offsets.iter().enumerate() {
            let go = Go {
                at_ns: offset.to_node(start),
                window_ns: window
                    .map(|(first, last)| (offset.to_node(first), offset.to_node(last))),
                blocks,
            };
            self.sessions.send(node, &ToNode::Go(go));
        }
        self.sessions
            .set_start(start, window.map_or(0, |(_, last)| last));
        self.stage(number, "running");
        Ok(())
    }

    fn watch(&mut self, test: &Test) -> Result<(), Halt> {
        let deadlines = &self.plan.deadlines;
        // The nodes' own deadlines expire first and name what is late.
        let collect_ms = deadlines.collect_ms + 5_000;
        let limits = match test.bound.duration_ns() {
            Some(duration_ns) => {
                let running_ms = duration_ns / 1_000_000;
                let most_ms = running_ms + deadlines.longest_drain_ms() + collect_ms;
                (running_ms, deadlines.drain_ms + collect_ms, most_ms)
            }
            None => {
                let beyond_ms = deadlines.longest_drain_ms() + collect_ms;
                let most_ms = deadlines.volume_ms + beyond_ms;
                (deadlines.volume_ms, beyond_ms, most_ms)
            }
        };
        self.sessions.await_reports(limits, test, self.observer)
    }
}

/// For each node, the number of nodes before it on its host, and the number of all nodes there.
pub(super) fn places_on_hosts(hosts: &[HostRecord]) -> Vec<(usize, usize)> {
    let mut counts = vec![0; hosts.len()];
    let mut places = Vec::new();
    for host in hosts {
        places.push(counts[host.host_index]);
        counts[host.host_index] += 1;
    }
    let places = places.into_iter().zip(hosts);
    places
        .map(|(place, host)| (place, counts[host.host_index]))
        .collect()
}

/// The nodes that a node knows, `on_host` of all nodes being on its host. `peers` are in ascending order.
pub(super) fn peers_of(
    hosts: &[HostRecord],
    node: usize,
    on_host: usize,
    peers: &[usize],
) -> Peers {
    let own = hosts[node].host_index;
    let is_here = |peer: &usize| hosts[*peer].host_index == own;
    let label = |peer: &usize| (*peer, hosts[*peer].node.clone());
    Peers {
        nodes: hosts.len(),
        on_host,
        labels: peers.iter().map(label).collect(),
        same_host: peers.iter().copied().filter(is_here).collect(),
    }
}

/// The part of a test that each node gets: the test with the paces of the node's own links.
fn parts(test: &Test, nodes: usize) -> impl Fn(usize) -> Test + use<> {
    let mut paces = vec![Vec::new(); nodes];
    for pace in &test.paces {
        paces[pace.from].push(*pace);
    }
    let common = Test {
        paces: Vec::new(),
        ..test.clone()
    };
    move |node| Test {
        paces: paces[node].clone(),
        ..common.clone()
    }
}

/// The listeners to which a node connects. `listeners` are those of all nodes, by boundary.
fn book_of(test: &Test, listeners: &[Vec<Listener>], node: usize) -> AddressBook {
    let targets = test.pattern.targets(listeners.len(), node).into_iter();
    AddressBook {
        listeners: targets.map(|to| (to, listeners[to].clone())).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::lanes::tests::test_of;
    use crate::plan::tests::assignment;
    use crate::plan::{DataPort, Pace, Pattern};
    use crate::record::HostFacts;
    use std::net::{Ipv4Addr, SocketAddr};

    fn hosts(count: usize) -> Vec<HostRecord> {
        let host = |number: usize| HostRecord {
            node: format!("rack07-n{number:04}"),
            transport: "ssh2".to_owned(),
            rails: vec![DataPort {
                address: Ipv4Addr::from_bits(0x0a14_0000 + u32::try_from(number).unwrap()).into(),
                interface: Some("enp65s0f0".to_owned()),
            }],
            host_index: number,
            facts: HostFacts::default(),
        };
        (0..count).map(host).collect()
    }

    /// Bytes of all messages that set up a test, and those to the first node.
    fn set_up_bytes(test: &Test, hosts: &[HostRecord]) -> (usize, usize) {
        let nodes = hosts.len();
        let (places, peers) = (places_on_hosts(hosts), test.pattern.peers(nodes));
        let part_of = parts(test, nodes);
        let listener =
            |host: &HostRecord| Listener::Tcp(vec![SocketAddr::new(host.rails[0].address, 65_535)]);
        let listeners: Vec<Vec<Listener>> = hosts.iter().map(|host| vec![listener(host)]).collect();
        let of = |node: usize| {
            let mut own = assignment();
            (own.run.token, own.run.secret) = ("t".repeat(32), "s".repeat(32));
            (own.run.names, own.run.by) = ("n".repeat(32), "operator@login1.cluster".to_owned());
            own.run.node = node;
            own.run.peers = peers_of(hosts, node, places[node].1, &peers[node]);
            own.rails.clone_from(&hosts[node].rails);
            own.neighbours = addresses::to_ask_for(hosts, node);
            own.test = part_of(node);
            assert_eq!(own.check(), Ok(()));
            let book = book_of(test, &listeners, node);
            let messages = [ToNode::Prepare(Box::new(own)), ToNode::Connect(book)];
            let texts = messages.map(|one| serde_json::to_vec(&one).unwrap().len());
            texts.iter().sum::<usize>()
        };
        ((0..nodes).map(of).sum(), of(0))
    }

    /// Symptom: the set-up of a ring of 1,000 nodes took 44 MB, since each of them got labels and addresses of all.
    #[test]
    fn the_set_up_of_a_ring_of_a_thousand_nodes_takes_two_megabytes() {
        let mut test = test_of(2, 1);
        test.pattern = Pattern::RING;
        let hosts = hosts(1000);
        let (all, first) = set_up_bytes(&test, &hosts);
        assert!(all <= 2_000_000, "{all}");
        // Ten times as many nodes need ten times as much.
        assert!(first < set_up_bytes(&test, &hosts[..100]).1 + 100);
        // In a test for losses each link has a pace.
        let pace = |from: usize| Pace {
            from,
            to: (from + 1) % 1000,
            bits_per_s: 9_876_543_210,
        };
        test.paces = (0..1000).map(pace).collect();
        let (all, _) = set_up_bytes(&test, &hosts);
        assert!(all <= 2_000_000, "{all}");
    }

    #[test]
    fn a_node_gets_its_peers_their_listeners_and_its_paces_and_no_others() {
        let mut test = test_of(2, 1);
        test.pattern = Pattern::Links(vec![(0, 2), (3, 0)]);
        let pace = |from, to| Pace {
            from,
            to,
            bits_per_s: 7,
        };
        test.paces = vec![pace(0, 2), pace(3, 0)];
        let mut hosts = hosts(5);
        hosts[3].host_index = 0;
        let peers = test.pattern.peers(5);
        let places = places_on_hosts(&hosts);
        assert_eq!(places, [(0, 2), (0, 1), (0, 1), (1, 2), (0, 1)]);
        let own = peers_of(&hosts, 0, 2, &peers[0]);
        let known: Vec<usize> = own.labels.iter().map(|(node, _)| *node).collect();
        assert_eq!((known, own.same_host.clone()), (vec![0, 2, 3], vec![0, 3]));
        assert_eq!(own.label(3), "rack07-n0003");
        assert_eq!(peers[4], [4]);
        let part_of = parts(&test, 5);
        assert_eq!(part_of(3).paces, [pace(3, 0)]);
        assert!(part_of(2).paces.is_empty());
        let listeners = vec![vec![Listener::Unix("x".to_owned())]; 5];
        let book = |node| book_of(&test, &listeners, node).listeners;
        assert_eq!(book(0), [(2, listeners[2].clone())]);
        assert!(book(2).is_empty());
    }
}
