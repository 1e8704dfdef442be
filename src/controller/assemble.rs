//! Builds the record of a test from the reports of nodes: joins the two ends of each link, sums up each port, and checks
//! that bytes add up. Counters are divided here for the first time, each by the time between its own two readings.

use std::collections::HashMap;

use crate::plan::lanes::{self, Lane};
use crate::plan::{Bound, RunPlan, Test, kind_of};
use crate::record::TcpInfo;
use crate::record::{
    ClockRecord, Conservation, Edge, EndCount, EndReport, EndRole, HeldBy, HostRecord, LinkRecord,
    NodeRecord, NodeReport, RoleCpu, TestRecord, Waits,
};
use crate::stats::bottleneck::{self, Shares};
use crate::stats::offset::Offset;
use crate::sys::usage::{self, CoreTime};

use crate::units::{add, gbit_per_s, sum};

mod interfaces;

use interfaces::{passed, wires};

use super::run_state::RunState;
use super::sessions::Sessions;

/// Builds the record of a test from the reports of the nodes. `None` if the user has asked for the end, and it takes long.
pub(super) fn test(
    run: &RunState<'_>,
    number: usize,
    before: &[Offset],
    after: &[Offset],
) -> Option<TestRecord> {
    let (plan, hosts, sessions) = (&run.plan, &run.hosts, &run.sessions);
    let reports: Vec<Option<&NodeReport>> = (0..plan.nodes.len())
        .map(|node| sessions.test(node).report.as_ref())
        .collect();
    let is_lost = |node| sessions.is_lost(node);
    let is_over = run.conditions.patience();
    let offsets = [before, after];
    let mut record = from_reports(plan, number, hosts, &reports, &is_lost, offsets, &is_over)?;
    record.set_up_ns = sessions.set_up_ns();
    record.clocks = clocks(sessions, before, after);
    sessions.pulse.note(&mut record);
    Some(record)
}

/// Builds the record without sessions. `hosts`, `reports` and the offsets before and after the test have one entry for each node of the plan. The
/// numbers in a report need not make sense. `None` if `is_over` says that the record is not wanted any more.
pub fn from_reports(
    plan: &RunPlan,
    number: usize,
    hosts: &[HostRecord],
    reports: &[Option<&NodeReport>],
    is_lost: &dyn Fn(usize) -> bool,
    [before, after]: [&[Offset]; 2],
    is_over: &dyn Fn() -> bool,
) -> Option<TestRecord> {
    let test = &plan.tests()[number];
    let views: Vec<Option<View<'_>>> = reports.iter().map(|report| report.map(View::new)).collect();
    let rate_of = test.rates();
    let mut links: Vec<LinkRecord> = Vec::new();
    for lane in lanes::all(test, plan.nodes.len()) {
        if is_over() {
            return None;
        }
        links.push(link(test, hosts, &views, &rate_of, lane));
    }
    let of_node = |view: &Option<View<'_>>| view.as_ref().map(node_record);
    let mut nodes: Vec<Option<NodeRecord>> = views.iter().map(of_node).collect();
    for link in &links {
        add_link(&mut nodes, &views, link);
    }
    let timed = test.bound.times_ns();
    let span_ns = span(reports, after);
    let run_ns = span_ns.unwrap_or(0);
    Some(TestRecord {
        test: number,
        complete: reports
            .iter()
            .enumerate()
            .all(|(node, report)| is_lost(node) || report.is_some_and(|report| report.complete)),
        set_up_ns: None,
        window_ns: timed.map(|(_, window_ns)| window_ns),
        skew_ns: timed.and_then(|_| skew(reports, before, after)),
        span_ns,
        nodes,
        conservation: conservation(plan, test, &links, &views, is_lost),
        wires: wires(plan, test, hosts, reports, &links, run_ns),
        links,
        steady_from_s: None,
        stretch_s: 1,
        seconds: Vec::new(),
        worst_links: Vec::new(),
        clocks: Vec::new(),
    })
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

/// Most turns on a processor, per second, of a process that waited for them nearly all the time.
const FEW_TURNS_PER_S: u64 = 5;

/// A report with an index of its link ends by place.
struct View<'report> {
    report: &'report NodeReport,
    places: HashMap<(bool, usize, usize), usize>,
}

impl<'report> View<'report> {
    fn new(report: &'report NodeReport) -> Self {
        let place = |end: &EndReport| (end.role == EndRole::Sender, end.boundary, end.slot);
        let places = report
            .ends
            .iter()
            .enumerate()
            .map(|(index, end)| (place(end), index))
            .collect();
        Self { report, places }
    }

    fn index(&self, role: EndRole, boundary: usize, slot: usize) -> Option<usize> {
        self.places
            .get(&(role == EndRole::Sender, boundary, slot))
            .copied()
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

    /// Counts of an end within the interval, with the length of its interval in `at_ns`.
    fn counted(&self, index: usize) -> EndCount {
        let Some((first, last)) = self.edges() else {
            return EndCount::default();
        };
        let (Some(first), Some(last)) = (first.ends.get(index), last.ends.get(index)) else {
            return EndCount::default();
        };
        let at_ns = last.at_ns.saturating_sub(first.at_ns);
        let cpu_ns = last.cpu_ns.saturating_sub(first.cpu_ns);
        // The kernel counts a whole wait when it ends. A wait that began before the first reading counts here only from that
        // reading on. A wait that lasts through the last reading is not counted yet. A process that is ready at both readings
        // by chance had many turns between them.
        let turns = last.turns.saturating_sub(first.turns);
        let few_turns =
            turns.saturating_mul(1_000_000_000) <= FEW_TURNS_PER_S.saturating_mul(at_ns);
        let starved = first.is_ready && last.is_ready && few_turns;
        let waited = match starved {
            true => at_ns.saturating_sub(cpu_ns),
            false => last.run_delay_ns.saturating_sub(first.run_delay_ns),
        };
        // Bytes unread in the socket when the window begins arrived before it. Bytes unread when it ends arrived within it.
        let unread = |edge: usize| {
            let end = &self.report.ends[index];
            let account = end.tcp[edge].filter(|_| end.role == EndRole::Receiver);
            account.map_or(0, |tcp| tcp.unread_bytes)
        };
        let came_by = |count: &EndCount, edge| count.bytes.saturating_add(unread(edge));
        EndCount {
            at_ns,
            bytes: came_by(last, 1).saturating_sub(came_by(first, 0)),
            activity_ns: [0, 1, 2, 3]
                .map(|at: usize| last.activity_ns[at].saturating_sub(first.activity_ns[at])),
            cpu_ns,
            run_delay_ns: waited.min(at_ns),
            turns,
            is_ready: last.is_ready,
        }
    }
}

fn link(
    test: &Test,
    hosts: &[HostRecord],
    views: &[Option<View<'_>>],
    rate_of: &dyn Fn(&Lane) -> Option<u64>,
    lane: Lane,
) -> LinkRecord {
    let find = |node: usize, role, slot| {
        let view = views[node].as_ref()?;
        let index = view.index(role, lane.boundary, slot)?;
        Some((&view.report.ends[index], view.counted(index)))
    };
    let (sender, sent) = find(lane.from, EndRole::Sender, lane.from_slot).unzip();
    let (receiver, got) = find(lane.to, EndRole::Receiver, lane.to_slot).unzip();
    let (sent, got) = (sent.unwrap_or_default(), got.unwrap_or_default());
    let waits = Waits {
        waiting_for_block_ns: sent.activity_ns[1],
        in_write_ns: sent.activity_ns[2],
        pacing_ns: sent.activity_ns[3],
        in_read_ns: got.activity_ns[2],
        waiting_for_slot_ns: got.activity_ns[1],
    };
    let tcp = sender.and_then(|end| {
        let at_end = end.tcp[1].or(end.tcp[2])?;
        // A window without TCP statistics at its start has no result. A volume run starts with the link, at zero.
        let at_start = match test.bound {
            Bound::Time { .. } => end.tcp[0]?,
            Bound::Volume { .. } | Bound::Files => TcpInfo::default(),
        };
        Some((at_start, at_end))
    });
    let (interval_ns, interval_bytes) = (got.at_ns, got.bytes);
    let sender_interval_ns = sent.at_ns;
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
        of_rate_limit: rate_of(&lane)
            .map(|limit| gbit_per_s(interval_bytes, interval_ns) * 1e9 / limit as f64),
    };
    let kind = kind_of(test.transport, &lane);
    let told = !kind.has_tcp_info() || tcp.is_some();
    let measured = interval_ns > 0 && sender_interval_ns > 0 && told;
    LinkRecord {
        lane,
        kind,
        crosses_switch: crosses(hosts, &lane),
        sent_bytes: sender.map_or(0, |end| end.bytes),
        received_bytes: receiver.map_or(0, |end| end.bytes),
        interval_bytes,
        interval_ns,
        sender_interval_ns,
        blocks: sender.map_or(0, |end| end.blocks),
        waits,
        held_by: if measured {
            bottleneck::classify(&shares)
        } else {
            HeldBy::Unknown
        },
        tcp,
        retransmitted_bytes: sender
            .and_then(|end| end.tcp[2])
            .map_or(0, |info| info.retransmitted_bytes),
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

/// Adds a link to the results of the nodes at its ends. A search of all links for each node would take hours with a thousand nodes.
fn add_link(nodes: &mut [Option<NodeRecord>], views: &[Option<View<'_>>], link: &LinkRecord) {
    let lane = &link.lane;
    let counted = |node: usize, role, slot| {
        let view = views[node].as_ref()?;
        let index = view.index(role, lane.boundary, slot)?;
        Some(view.counted(index))
    };
    if let Some(record) = &mut nodes[lane.from] {
        let sent = counted(lane.from, EndRole::Sender, lane.from_slot).unwrap_or_default();
        if link.crosses_switch {
            add(&mut record.retransmits, link.retransmits());
            add(&mut record.sent_bytes, sent.bytes);
        }
        add(&mut record.cpu.senders_ns, sent.cpu_ns);
        add(&mut record.run_delay_ns, sent.run_delay_ns);
    }
    if let Some(record) = &mut nodes[lane.to] {
        let got = counted(lane.to, EndRole::Receiver, lane.to_slot).unwrap_or_default();
        add(&mut record.cpu.receivers_ns, got.cpu_ns);
        add(&mut record.run_delay_ns, got.run_delay_ns);
        let received = match link.crosses_switch {
            true => &mut record.received_bytes,
            false => &mut record.same_host_bytes,
        };
        add(received, link.interval_bytes);
    }
}

/// True if a lane goes from one host to another.
fn crosses(hosts: &[HostRecord], lane: &Lane) -> bool {
    hosts[lane.from].host_index != hosts[lane.to].host_index
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

/// Checks that bytes sent, received and relayed agree on every link, over the whole run.
fn conservation(
    plan: &RunPlan,
    test: &Test,
    links: &[LinkRecord],
    views: &[Option<View<'_>>],
    is_lost: &dyn Fn(usize) -> bool,
) -> Conservation {
    const LISTED: usize = 20;
    let mut result = Conservation {
        agreeing: 0,
        unchecked: 0,
        links: links.len(),
        faults: Vec::new(),
    };
    for link in links {
        let lane = &link.lane;
        if is_lost(lane.from) || is_lost(lane.to) {
            result.unchecked += 1;
            continue;
        }
        let relayed = (lane.boundary + 2 < test.phases).then(|| {
            let view = views[lane.to].as_ref()?;
            let index = view.index(EndRole::Sender, lane.boundary + 1, lane.to_slot)?;
            Some(view.report.ends[index].bytes)
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
                continue;
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
    result
}

#[cfg(test)]
mod tests;
