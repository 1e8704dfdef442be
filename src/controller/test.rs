//! One test, from the settlement of its open options to its record.

use std::net::IpAddr;

use crate::judge::order;
use crate::plan::fit::{self, Capacity};
use crate::plan::{Assignment, Bound, DataNetwork, Membership, Sink, Test, size};
use crate::record::{HostRecord, Trouble, TroubleKind, first_nodes};
use crate::stats::offset::Offset;
use crate::sys::{clock, facts};
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
        let mut record = assemble::test(self, number, &before, &after);
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
            match self.choose_ports(number) {
                Ok(_) | Err(_) => {}
            }
        }
        let mut on_host = vec![0; self.hosts.len()];
        for host in &self.hosts {
            on_host[host.host_index] += 1;
        }
        let capacities: Vec<Capacity> = first_nodes(&self.hosts)
            .map(|(node, host)| Capacity {
                name: host.facts.hostname.clone(),
                nodes: on_host[node],
                processors: Some(host.facts.cores),
                memory_bytes: host.facts.spare_memory_bytes,
                flows: flows_of(host),
                bbr: host.facts.congestion.starts_with("bbr"),
            })
            .collect();
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
            let known = self.options.iter_mut().find(|(name, _)| name == "streams");
            if let (Some((_, value)), true) = (known, number == self.first) {
                *value = each.to_string();
            }
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
        for (host, rails) in self.hosts.iter_mut().zip(chosen) {
            host.rails = rails;
        }
        self.name_places()?;
        self.chosen = wanted;
        Ok(true)
    }

    /// A node's membership of this run; `names` are the digits in the names of Unix sockets.
    pub(super) fn membership(&self, node: usize, names: &str) -> Membership {
        let identity = &self.hosts[node].facts.identity;
        let hosts = self.hosts.iter();
        Membership {
            token: self.conditions.token.clone(),
            secret: self.conditions.secret.clone(),
            names: names.to_owned(),
            by: facts::own_name(),
            started_ms: self.conditions.started_ms,
            node,
            labels: hosts.clone().map(|host| host.node.clone()).collect(),
            same_host: hosts.map(|host| host.facts.identity == *identity).collect(),
            deadlines: self.plan.deadlines.clone(),
        }
    }

    fn prepare(&mut self, number: usize, test: &Test) -> Result<(), Halt> {
        self.check_files(test)?;
        let names = fresh_names()?;
        for node in 0..self.hosts.len() {
            let assignment = Assignment {
                run: self.membership(node, &names),
                rails: self.hosts[node].rails.clone(),
                test: test.clone(),
                seed: self.plan.seed,
                keep_going: self.plan.keep_going,
                samples: self.plan.samples() || self.conditions.watched,
                neighbours: match number == self.first {
                    true => addresses::to_ask_for(&self.hosts, node),
                    false => Vec::new(),
                },
            };
            if !self.sessions.is_lost(node) {
                self.sessions
                    .send(node, &ToNode::Prepare(Box::new(assignment)));
            }
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
        let of = |boundary: usize, node: usize| -> Listener {
            let told = self.sessions.test(node).listeners.as_ref();
            let told = told.and_then(|all| all.get(boundary).cloned());
            told.unwrap_or(Listener::None).at(&self.hosts[node].rails)
        };
        let listeners = (0..test.phases - 1)
            .map(|boundary| (0..nodes).map(|node| of(boundary, node)).collect())
            .collect();
        let book = AddressBook { listeners };
        self.sessions.send_all(&ToNode::Connect(book));
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

/// Number of connections that fill each data port of a host, according to its hardware.
fn flows_of(host: &HostRecord) -> usize {
    let ports = host.rails.iter().filter_map(|rail| host.interface_of(rail));
    let physical = ports.filter(|port| port.physical);
    let flows = physical.map(|port| fit::flows_of(port.speed_mbit, port.members.len()));
    flows.max().unwrap_or(0)
}
