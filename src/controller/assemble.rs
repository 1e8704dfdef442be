//! Builds the record of a test from the reports of nodes: joins the two ends of each link, sums up each port, and checks
//! that bytes add up. Counters are divided here for the first time, each by the time between its own two readings.

use std::collections::HashMap;

use crate::plan::lanes::{self, Lane};
use crate::plan::{RunPlan, Test, kind_of, size};
use crate::record::TcpInfo;
use crate::record::{
    ClockRecord, Conservation, Edge, EndReport, EndRole, EndSum, HeldBy, HostRecord, LinkRecord,
    NodeRecord, NodeReport, RoleCpu, SenderSum, TestRecord, Waits,
};
use crate::stats::bottleneck::{self, Shares};
use crate::stats::ends;
use crate::stats::offset::Offset;
use crate::sys::usage::{self, CoreTime};

use crate::units::{add, gbit_per_s, sum};

mod interfaces;
mod sums;

use interfaces::{Loads, crosses, passed};
use sums::Sums;

use super::events::RunEvent;
use super::run_state::RunState;
use super::sessions::Sessions;

/// Builds the record of a test from the reports of the nodes. `None` if the user has asked for the end, and it takes long.
pub(super) fn test(
    run: &mut RunState<'_>,
    number: usize,
    before: &[Offset],
    after: &[Offset],
) -> Option<TestRecord> {
    let (plan, hosts, sessions) = (&run.plan, &run.hosts, &run.sessions);
    let reports: Vec<Option<&NodeReport>> = (0..plan.nodes.len())
        .map(|node| sessions.test(node).report.as_ref())
        .collect();
    let observer = &mut *run.observer;
    let nodes = Nodes {
        plan,
        hosts,
        reports: &reports,
        is_lost: &|node| sessions.is_lost(node),
    };
    let keeps_links = size::keeps_links(&plan.tests()[number], plan.nodes.len());
    let mut tell = |link: &LinkRecord, gbit_per_s: f64| {
        observer.see(RunEvent::Link {
            test: number,
            link,
            gbit_per_s,
        });
    };
    let (offsets, is_over) = ([before, after], run.conditions.patience());
    let mut record = nodes.record(number, offsets, keeps_links, &is_over, &mut tell)?;
    record.set_up_ns = sessions.set_up_ns();
    record.clocks = clocks(sessions, before, after);
    sessions.pulse.note(&mut record);
    Some(record)
}

/// Builds the record without sessions. `hosts`, `reports` and the offsets before and after the test have one entry for each node of the plan. The
/// numbers in a report need not make sense. `None` if `is_over` says that the record is not wanted any more.
#[cfg(any(test, feature = "internals"))]
pub fn from_reports(
    plan: &RunPlan,
    number: usize,
    hosts: &[HostRecord],
    reports: &[Option<&NodeReport>],
    is_lost: &dyn Fn(usize) -> bool,
    offsets: [&[Offset]; 2],
    is_over: &dyn Fn() -> bool,
) -> Option<TestRecord> {
    let keeps_links = size::keeps_links(&plan.tests()[number], plan.nodes.len());
    let nodes = Nodes {
        plan,
        hosts,
        reports,
        is_lost,
    };
    nodes.record(number, offsets, keeps_links, is_over, &mut |_, _| {})
}

/// Everything that the record of a test is made of.
struct Nodes<'a> {
    plan: &'a RunPlan,
    hosts: &'a [HostRecord],
    reports: &'a [Option<&'a NodeReport>],
    is_lost: &'a dyn Fn(usize) -> bool,
}

impl Nodes<'_> {
    /// Joins the ends of one link after the other: with many links neither all of them nor their ends are in memory twice.
    fn record(
        &self,
        number: usize,
        [before, after]: [&[Offset]; 2],
        keeps_links: bool,
        is_over: &dyn Fn() -> bool,
        tell: &mut dyn FnMut(&LinkRecord, f64),
    ) -> Option<TestRecord> {
        let Self {
            plan,
            hosts,
            reports,
            is_lost,
        } = *self;
        let (test, nodes) = (&plan.tests()[number], plan.nodes.len());
        let views = reports.iter();
        let views = views.map(|report| report.map(|one| View::new(one, test)));
        let views: Vec<Option<View<'_>>> = views.collect();
        let timed = test.bound.times_ns();
        let mut reported = reports.iter().enumerate();
        let complete = reported
            .all(|(node, report)| is_lost(node) || report.is_some_and(|report| report.complete));
        let of_view = |view: &Option<View<'_>>| view.as_ref().map(node_record);
        let mut record = TestRecord {
            test: number,
            complete,
            set_up_ns: None,
            window_ns: timed.map(|(_, window_ns)| window_ns),
            skew_ns: timed.and_then(|_| skew(reports, before, after)),
            span_ns: span(reports, after),
            nodes: views.iter().map(of_view).collect(),
            conservation: Conservation::default(),
            wires: Vec::new(),
            links: Vec::new(),
            sums: None,
            steady_from_s: None,
            stretch_s: 1,
            seconds: Vec::new(),
            worst_links: Vec::new(),
            clocks: Vec::new(),
        };
        let rate_of = test.rates();
        let mut loads = Loads::new(test, hosts);
        let mut sums: Option<Sums<'_>> = None;
        for boundary in 0..test.phases - 1 {
            if !keeps_links && sums.is_none() {
                let mut lanes = lanes::of_boundary(test, nodes, boundary);
                let crosses_switch = lanes.any(|lane| crosses(hosts, &lane));
                sums = Some(Sums::new(plan, test, crosses_switch));
            }
            for lane in lanes::of_boundary(test, nodes, boundary) {
                if is_over() {
                    return None;
                }
                let ends = Ends::of(&views, &lane);
                let link = ends.link(test, crosses(hosts, &lane), rate_of(&lane), lane);
                ends.add_to(&mut record.nodes, &link);
                check_bytes(plan, test, &views, is_lost, &link, &mut record.conservation);
                loads.add(&link);
                let is_whole = views[lane.from].is_some() && views[lane.to].is_some();
                let rate = record.rate_of(&link);
                tell(&link, rate);
                match &mut sums {
                    Some(sums) => sums.add(link, rate, is_whole),
                    None => record.links.push(link),
                }
            }
        }
        let run_ns = record.span_ns.unwrap_or(0);
        record.wires = loads.compare(plan, reports, run_ns);
        if let Some(sums) = sums {
            sums.note(&mut record);
        }
        Some(record)
    }
}

fn clocks(sessions: &Sessions, before: &[Offset], after: &[Offset]) -> Vec<ClockRecord> {
    let both = before.iter().zip(after);
    both.map(|(before, after)| ClockRecord {
        before_ns: before.offset_ns,
        after_ns: after.offset_ns,
        uncertainty_ns: before.uncertainty_ns.max(after.uncertainty_ns),
        span_ns: sessions.since_start_ns(),
        measured: sessions.clocks_measured(),
    })
    .collect()
}

/// A report whose link ends are found by place.
struct View<'report> {
    report: &'report NodeReport,
    /// Number of boundaries.
    boundaries: usize,
    /// The run has a window.
    timed: bool,
    /// Places of the ends in a report that has each; of sums, the place follows from boundary and slot.
    places: HashMap<(bool, usize, usize), usize>,
}

/// The kernel's accounts of a link at the start and end of the interval.
type Accounts = Option<(TcpInfo, TcpInfo)>;

impl<'report> View<'report> {
    fn new(report: &'report NodeReport, test: &Test) -> Self {
        let place = |end: &EndReport| (end.role == EndRole::Sender, end.boundary, end.slot);
        let ends = report.ends.iter().enumerate();
        Self {
            report,
            boundaries: test.phases - 1,
            timed: test.bound.times_ns().is_some(),
            places: ends.map(|(index, end)| (place(end), index)).collect(),
        }
    }

    fn sender(&self, boundary: usize, slot: usize) -> Option<(SenderSum, Accounts)> {
        if let Some(index) = self.places.get(&(true, boundary, slot)) {
            let accounts = ends::accounts(&self.report.ends[*index], self.timed);
            return Some((ends::sender(self.report, *index, self.timed), accounts));
        }
        let sender = *self.sum_of(&self.report.senders, boundary, slot)?;
        let since_zero = |tcp| (TcpInfo::default(), tcp);
        Some((sender, sender.tcp.map(since_zero)))
    }

    fn receiver(&self, boundary: usize, slot: usize) -> Option<EndSum> {
        match self.places.get(&(false, boundary, slot)) {
            Some(index) => Some(ends::receiver(self.report, *index)),
            None => {
                let sum = self.sum_of(&self.report.receivers, boundary, slot);
                sum.copied()
            }
        }
    }

    /// A node has as many slots at each boundary.
    fn sum_of<'a, T>(&self, sums: &'a [T], boundary: usize, slot: usize) -> Option<&'a T> {
        let slots = sums.len() / self.boundaries;
        (slot < slots).then(|| sums.get(boundary * slots + slot))?
    }

    /// First and last reading of the interval, if both were taken.
    fn edges(&self) -> Option<(&'report Edge, &'report Edge)> {
        Some((self.report.edges.first()?, self.report.edges.get(1)?))
    }

    fn interval_ns(&self) -> u64 {
        self.edges().map_or(0, |(first, last)| {
            last.at_ns().saturating_sub(first.at_ns())
        })
    }
}

/// Both ends of a link, as far as they were reported.
struct Ends {
    sender: Option<SenderSum>,
    receiver: Option<EndSum>,
    tcp: Accounts,
}

impl Ends {
    fn of(views: &[Option<View<'_>>], lane: &Lane) -> Self {
        let view = |node: usize| views[node].as_ref();
        let sender = view(lane.from).and_then(|view| view.sender(lane.boundary, lane.from_slot));
        let (sender, tcp) = sender.unzip();
        Self {
            sender,
            tcp: tcp.flatten(),
            receiver: view(lane.to).and_then(|view| view.receiver(lane.boundary, lane.to_slot)),
        }
    }

    fn link(&self, test: &Test, crosses: bool, rate_limit: Option<u64>, lane: Lane) -> LinkRecord {
        let (sender, got) = (
            self.sender.unwrap_or_default(),
            self.receiver.unwrap_or_default(),
        );
        let (sent, tcp) = (sender.end, self.tcp);
        let waits = Waits {
            waiting_for_block_ns: sent.waiting_ns,
            in_write_ns: sent.moving_ns,
            pacing_ns: sender.pacing_ns,
            in_read_ns: got.moving_ns,
            waiting_for_slot_ns: got.waiting_ns,
        };
        let (interval_ns, interval_bytes) = (got.interval_ns, got.interval_bytes);
        let sender_interval_ns = sent.interval_ns;
        let share = |ns: u64, of: u64| ns as f64 / of.max(1) as f64;
        let passed_us = |of: fn(&TcpInfo) -> u64| {
            tcp.map(|(first, last)| {
                share(
                    of(&last).saturating_sub(of(&first)).saturating_mul(1000),
                    sender_interval_ns,
                )
            })
        };
        let shares = Shares {
            waiting_for_block: share(waits.waiting_for_block_ns, sender_interval_ns),
            pacing: share(waits.pacing_ns, sender_interval_ns),
            waiting_for_slot: share(waits.waiting_for_slot_ns, interval_ns),
            window_limited: passed_us(|info| info.window_limited_us).unwrap_or(0.0),
            busy: passed_us(|info| info.busy_us).filter(|busy| *busy > 0.0),
            of_rate_limit: rate_limit
                .map(|limit| gbit_per_s(interval_bytes, interval_ns) * 1e9 / limit as f64),
        };
        let kind = kind_of(test.transport, &lane);
        let told = !kind.has_tcp_info() || tcp.is_some();
        let measured = interval_ns > 0 && sender_interval_ns > 0 && told;
        LinkRecord {
            lane,
            kind,
            crosses_switch: crosses,
            sent_bytes: sent.bytes,
            received_bytes: got.bytes,
            interval_bytes,
            interval_ns,
            sender_interval_ns,
            blocks: sent.blocks,
            waits,
            held_by: if measured {
                bottleneck::classify(&shares)
            } else {
                HeldBy::Unknown
            },
            tcp,
            retransmitted_bytes: sender.retransmitted_bytes,
        }
    }

    /// Adds the link to the results of the nodes at its ends. A search of all links for each node would take hours with a thousand nodes.
    fn add_to(&self, nodes: &mut [Option<NodeRecord>], link: &LinkRecord) {
        let lane = &link.lane;
        if let Some(record) = &mut nodes[lane.from] {
            let sent = self.sender.unwrap_or_default().end;
            if link.crosses_switch {
                add(&mut record.retransmits, link.retransmits());
                add(&mut record.sent_bytes, sent.interval_bytes);
            }
            add(&mut record.cpu.senders_ns, sent.cpu_ns);
            add(&mut record.run_delay_ns, sent.run_delay_ns);
        }
        if let Some(record) = &mut nodes[lane.to] {
            let got = self.receiver.unwrap_or_default();
            add(&mut record.cpu.receivers_ns, got.cpu_ns);
            add(&mut record.run_delay_ns, got.run_delay_ns);
            let received = match link.crosses_switch {
                true => &mut record.received_bytes,
                false => &mut record.same_host_bytes,
            };
            add(received, link.interval_bytes);
        }
    }
}

/// Results of a node, without those of its links.
fn node_record(view: &View<'_>) -> NodeRecord {
    let report = view.report;
    let mut record = NodeRecord {
        ring_to_ring_ns: report
            .rung_ns
            .zip(report.done_ns)
            .map(|(rung, done)| done.saturating_sub(rung)),
        interval_ns: view.interval_ns(),
        sent_bytes: 0,
        received_bytes: 0,
        same_host_bytes: 0,
        retransmits: 0,
        cpu: RoleCpu::default(),
        run_delay_ns: 0,
        busiest_core: None,
        serving_core: None,
        interfaces: passed(&report.interfaces),
        backlog_drops: report.backlog_drops[1].saturating_sub(report.backlog_drops[0]),
        strangers: report.strangers,
    };
    if let Some((first, last)) = view.edges() {
        record.cpu.phases_ns = last.phases_cpu_ns.saturating_sub(first.phases_cpu_ns);
        record.cpu.node_ns = last.node_cpu_ns.saturating_sub(first.node_cpu_ns);
        let (before, after) = (cores(first), cores(last));
        record.busiest_core = usage::busiest_core(&before, &after);
        let seen = [&first.link_cores[..], &last.link_cores].concat();
        record.serving_core = usage::busiest_serving(&before, &after, &seen);
    }
    record
}

fn cores(edge: &Edge) -> Vec<CoreTime> {
    let cores = edge.cores.iter().enumerate();
    cores
        .map(|(number, (busy, total))| CoreTime {
            number,
            busy: *busy,
            total: *total,
            packets: edge.packet_ticks.get(number).copied().unwrap_or(0),
        })
        .collect()
}

/// Distance between the nodes' readings of the same instant on one clock, in nanoseconds, including the uncertainty: half
/// the length of a reading and the uncertainty of the offset. The offsets before the run apply to the first reading, those
/// after it to the last one. `None` if a node missed a reading.
fn skew(reports: &[Option<&NodeReport>], before: &[Offset], after: &[Offset]) -> Option<u64> {
    let mut worst = 0;
    for edge in 0..2 {
        let mut instants = Vec::new();
        let mut unknown = Vec::new();
        // A lost node does not count. If another node has no reading of the edge, the skew is unknown.
        for (node, report) in reports.iter().enumerate() {
            let Some(report) = report else { continue };
            let reading = report.edges.get(edge)?;
            let offset = if edge == 0 { before[node] } else { after[node] };
            instants.push(offset.to_own(reading.at_ns()));
            let length = reading.after_ns.saturating_sub(reading.before_ns) / 2;
            unknown.push(offset.uncertainty_ns.saturating_add(length));
        }
        let spread = instants
            .iter()
            .max()?
            .saturating_sub(*instants.iter().min()?);
        // Two clocks can be off in opposite directions.
        unknown.sort_unstable_by(|a, b| b.cmp(a));
        let unknown: u64 = if unknown.len() > 1 {
            sum(unknown.into_iter().take(2))
        } else {
            0
        };
        worst = worst.max(spread.saturating_add(unknown));
    }
    Some(worst)
}

/// Time from the first ring of a phase 0 to the last ring of a last phase, in nanoseconds of one clock.
fn span(reports: &[Option<&NodeReport>], offsets: &[Offset]) -> Option<u64> {
    let mut first = u64::MAX;
    let mut last = 0;
    for (report, offset) in reports.iter().zip(offsets) {
        let Some(report) = report else { continue };
        first = first.min(offset.to_own(report.rung_ns?));
        last = last.max(offset.to_own(report.done_ns?));
    }
    last.checked_sub(first)
}

/// Checks that bytes sent, received and relayed agree on a link, over the whole run.
fn check_bytes(
    plan: &RunPlan,
    test: &Test,
    views: &[Option<View<'_>>],
    is_lost: &dyn Fn(usize) -> bool,
    link: &LinkRecord,
    result: &mut Conservation,
) {
    const LISTED: usize = 20;
    let lane = &link.lane;
    result.links += 1;
    if is_lost(lane.from) || is_lost(lane.to) {
        result.unchecked += 1;
        return;
    }
    let relayed = (lane.boundary + 2 < test.phases).then(|| {
        let view = views[lane.to].as_ref()?;
        let (sender, _) = view.sender(lane.boundary + 1, lane.to_slot)?;
        Some(sender.end.bytes)
    });
    let (sent, received) = (link.sent_bytes, link.received_bytes);
    let fault = match relayed {
        _ if sent != received => format!("{sent} bytes sent, {received} received"),
        Some(relayed) if relayed != Some(received) => {
            let relayed = relayed.unwrap_or(0);
            format!("{received} bytes received, {relayed} relayed")
        }
        _ => {
            result.agreeing += 1;
            return;
        }
    };
    if result.faults.len() < LISTED {
        let label = |node: usize| plan.nodes[node].label.as_str();
        let (from, to, phase) = (label(lane.from), label(lane.to), lane.boundary);
        let next = phase + 1;
        let fault = format!("{from}->{to} phase {phase}->{next}: {fault}");
        result.faults.push(fault);
    }
}

#[cfg(test)]
mod tests;
