//! The invented figures of a host in one test.
//!
//! From the start to the end, each port sends [`PORT_BYTES_PER_S`] and receives as much, in equal parts over its links to other hosts. So both
//! ends of a link report the same, without a word between them, in all patterns in which every port has as many links as every other.

use std::net::SocketAddr;

use pipebench::internals::plan::lanes::{self, Lane};
use pipebench::internals::plan::{Assignment, size};
use pipebench::internals::record::{
    Edge, EndCount, EndReport, EndRole, InterfaceCounters, NodeReport, TcpInfo,
};
use pipebench::internals::stats::ends;
use pipebench::internals::wire::message::{Go, Listener, Progress};

/// Payload of each port per second and direction: 24 Gbit/s.
pub const PORT_BYTES_PER_S: u64 = 3_000_000_000;
/// Cores of a host.
pub const CORES: usize = 64;
/// Its interface, and the MTU of it.
pub const INTERFACE: &str = "eth0";
pub const FRAME_BYTES: u32 = 9000;
/// Payload of a full segment, and the headers that an interface counts with it.
const SEGMENT_BYTES: u64 = 8948;
const HEADER_BYTES: u64 = 66;
const LISTENING_PORT: u16 = 20_000;

/// Bytes that move in a time.
pub fn moved_bytes(bytes_per_s: u64, ns: u64) -> u64 {
    let bytes = u128::from(bytes_per_s) * u128::from(ns) / 1_000_000_000;
    u64::try_from(bytes).expect("a short time")
}

/// A host in a test.
pub struct HostTest {
    assignment: Assignment,
    ends: Vec<End>,
    link_bytes_per_s: u64,
    pub times: Times,
}

/// Start of the test, and start and end of its window, in nanoseconds.
#[derive(Clone, Copy, Default)]
pub struct Times {
    pub start_ns: u64,
    pub first_ns: u64,
    pub last_ns: u64,
}

/// An end of a link on the host.
struct End {
    role: EndRole,
    lane: Lane,
    /// The other end is on another host.
    crosses: bool,
    /// Time at which the other end's host was lost; the largest number if it was not.
    lost_ns: u64,
}

impl HostTest {
    pub fn of(assignment: Assignment) -> Self {
        let (node, nodes) = (assignment.run.node, assignment.run.nodes());
        let test = &assignment.test;
        let mut ends = Vec::new();
        for boundary in 0..test.phases - 1 {
            let out = lanes::outgoing(test, nodes, boundary, node);
            let into = lanes::incoming(test, nodes, boundary, node);
            for (role, own) in [(EndRole::Sender, out), (EndRole::Receiver, into)] {
                ends.extend(own.into_iter().map(|lane| End {
                    role,
                    lane,
                    crosses: !assignment.run.peers.shares_host(lane.peer_of(node)),
                    lost_ns: u64::MAX,
                }));
            }
        }
        let leaves = |end: &&End| end.role == EndRole::Sender && end.crosses;
        let leaving = ends.iter().filter(leaves).count() / (test.phases - 1);
        Self {
            link_bytes_per_s: PORT_BYTES_PER_S / leaving.max(1) as u64,
            assignment,
            ends,
            times: Times::default(),
        }
    }

    /// Listeners by boundary. They need not exist.
    pub fn listeners(&self) -> Vec<Listener> {
        let rails = self.assignment.rails.iter();
        let of_rails = rails.map(|rail| SocketAddr::new(rail.address, LISTENING_PORT));
        let all = Listener::Tcp(of_rails.collect());
        vec![all; self.assignment.test.phases - 1]
    }

    pub fn start(&mut self, go: Go) {
        let (first_ns, last_ns) = go.window_ns.unwrap_or((go.at_ns, go.at_ns));
        self.times = Times {
            start_ns: go.at_ns,
            first_ns,
            last_ns,
        };
    }

    /// Ends the links to and from a node.
    pub fn lose(&mut self, node: usize, now_ns: u64) {
        let own = self.assignment.run.node;
        let all = self.ends.iter_mut();
        for end in all.filter(|end| end.lane.peer_of(own) == node) {
            end.lost_ns = end.lost_ns.min(now_ns);
        }
    }

    /// Payload of an end from the start until a time.
    fn bytes(&self, end: &End, at_ns: u64) -> u64 {
        let until_ns = at_ns.min(end.lost_ns);
        let ns = until_ns.saturating_sub(self.times.start_ns);
        moved_bytes(self.link_bytes_per_s, ns)
    }

    pub fn progress(&self, at_ns: u64) -> Progress {
        let test = &self.assignment.test;
        let mut sums = Progress {
            at_ns,
            sent_bytes: vec![0; test.rails],
            received_bytes: vec![0; test.rails],
            open_links: self.ends.len(),
            ..Progress::default()
        };
        for end in &self.ends {
            let bytes = self.bytes(end, at_ns);
            let rail = test.rail_of(end.lane.stream);
            match end.role {
                EndRole::Sender if end.crosses => sums.sent_bytes[rail] += bytes,
                EndRole::Sender => continue,
                EndRole::Receiver if end.crosses => {
                    sums.received_bytes[rail] += bytes;
                    sums.slowest.get_or_insert((end.lane.from, bytes));
                }
                EndRole::Receiver => sums.own_bytes += bytes,
            }
            if self.assignment.samples && end.role == EndRole::Receiver {
                sums.links.push(bytes);
            }
        }
        sums
    }

    /// Payload of a link into the host, second by second.
    pub fn series(&self) -> Vec<u64> {
        let ns = self.times.last_ns - self.times.start_ns;
        (0..ns / 1_000_000_000)
            .map(|_| self.link_bytes_per_s)
            .collect()
    }

    pub fn report(&self) -> NodeReport {
        let Times {
            start_ns,
            first_ns,
            last_ns,
        } = self.times;
        let block_bytes = self.assignment.test.block_bytes as u64;
        let report = |end: &End| EndReport {
            role: end.role,
            boundary: end.lane.boundary,
            slot: match end.role {
                EndRole::Sender => end.lane.from_slot,
                EndRole::Receiver => end.lane.to_slot,
            },
            finished: end.lost_ns == u64::MAX,
            lost: end.lost_ns < u64::MAX,
            bytes: self.bytes(end, last_ns),
            blocks: self.bytes(end, last_ns) / block_bytes + 1,
            cpu_ns: (last_ns - start_ns) / 100,
            tcp: [first_ns, last_ns, last_ns].map(|at_ns| self.tcp(end, at_ns)),
        };
        let counters = |at_ns| vec![(INTERFACE.to_owned(), self.counters(at_ns))];
        let report = NodeReport {
            complete: true,
            rung_ns: Some(start_ns),
            done_ns: Some(last_ns),
            edges: vec![self.edge(first_ns), self.edge(last_ns)],
            ends: self.ends.iter().map(report).collect(),
            strangers: 0,
            interfaces: [counters(start_ns), counters(last_ns)],
            backlog_drops: [0, 0],
            ..NodeReport::default()
        };
        let Assignment { test, run, .. } = &self.assignment;
        match size::keeps_links(test, run.nodes()) {
            true => report,
            false => ends::reduced(report, test.bound.times_ns().is_some()),
        }
    }

    fn edge(&self, at_ns: u64) -> Edge {
        let passed_ns = at_ns - self.times.start_ns;
        let count = |end: &End| EndCount {
            at_ns,
            bytes: self.bytes(end, at_ns),
            activity_ns: [0, 0, passed_ns, 0],
            cpu_ns: passed_ns / 100,
            turns: passed_ns / 1_000_000,
            ..EndCount::default()
        };
        let ticks = at_ns / 10_000_000;
        Edge {
            before_ns: at_ns,
            after_ns: at_ns,
            ends: self.ends.iter().map(count).collect(),
            cores: vec![(ticks / 2, ticks); CORES],
            packet_ticks: vec![ticks / 10; CORES],
            link_cores: (0..CORES).collect(),
            phases_cpu_ns: passed_ns / 1000,
            node_cpu_ns: passed_ns / 1000,
        }
    }

    /// Statistics of a sender's TCP connection.
    fn tcp(&self, end: &End, at_ns: u64) -> Option<TcpInfo> {
        let kind = self.assignment.kind_of(&end.lane);
        let is_told = end.role == EndRole::Sender && kind.has_tcp_info();
        let segments = self.bytes(end, at_ns) / SEGMENT_BYTES;
        is_told.then(|| TcpInfo {
            rtt_us: 100,
            min_rtt_us: 50,
            cwnd_segments: 100,
            mss_bytes: SEGMENT_BYTES,
            path_mtu_bytes: u64::from(FRAME_BYTES),
            busy_us: (at_ns - self.times.start_ns) / 1000,
            data_segments: segments,
            segments_in: segments / 2,
            ..TcpInfo::default()
        })
    }

    fn counters(&self, at_ns: u64) -> InterfaceCounters {
        let counted = |role: EndRole| {
            let crossing = self.ends.iter().filter(|end| end.crosses);
            let own = crossing.filter(|end| end.role == role);
            let payload: u64 = own.map(|end| self.bytes(end, at_ns)).sum();
            let packets = payload.div_ceil(SEGMENT_BYTES);
            (payload + packets * HEADER_BYTES, packets)
        };
        let (sent_bytes, sent_packets) = counted(EndRole::Sender);
        let (received_bytes, received_packets) = counted(EndRole::Receiver);
        InterfaceCounters {
            received_bytes,
            sent_bytes,
            received_packets,
            sent_packets,
            ..InterfaceCounters::default()
        }
    }
}
