//! Readings of all counters of a node, taken at the edges of a window, and the byte sums for the live display.

use std::collections::BTreeSet;

use crate::buffer::board::EndState;
use crate::pipeline::resources::NodeResources;
use crate::plan::{Assignment, size};
use crate::record::{Edge, EndRole, NodeReport};
use crate::stats::ends;
use crate::sys::{clock, usage};
use crate::wire::message::Progress;

/// Reads all counters, and the clock before and after them. CPU time and the host's own counters are read after the second clock
/// reading: they take longer, and nothing is divided by them.
pub(super) fn edge(resources: &NodeResources, phases: &[i32]) -> Edge {
    let before_ns = clock::monotonic_ns();
    let mut ends: Vec<_> = resources
        .board
        .ends()
        .map(|(_, _, _, end)| (end.count(), end.pid()))
        .collect();
    let after_ns = clock::monotonic_ns();
    let (mut known, mut link_cores) = (BTreeSet::new(), BTreeSet::new());
    for (count, pid) in &mut ends {
        // A process that serves several ends counts only for the first of them.
        if !known.insert(*pid) {
            count.cpu_ns = 0;
            continue;
        }
        // A process that has ended and was reaped is missing from /proc. It noted its CPU time before that.
        let pid = i32::try_from(*pid).unwrap_or(0);
        let [cpu_ns, run_delay_ns, turns] = usage::scheduled(pid);
        let (is_ready, core) = usage::place_of(pid);
        count.is_ready = is_ready;
        link_cores.extend(core);
        count.cpu_ns = count.cpu_ns.max(cpu_ns);
        (count.run_delay_ns, count.turns) = (run_delay_ns, turns);
    }
    let node_cpu_ns = usage::own_cpu_ns();
    // A phase that has ended is missing from /proc. It noted its CPU time before that.
    let phase_cpu = |(number, pid): (usize, &i32)| {
        let [cpu_ns, ..] = usage::scheduled(*pid);
        cpu_ns.max(resources.board.phase_cpu_ns(number))
    };
    let cores = usage::cores();
    Edge {
        before_ns,
        after_ns,
        ends: ends.into_iter().map(|(count, _)| count).collect(),
        cores: cores.iter().map(|core| (core.busy, core.total)).collect(),
        packet_ticks: cores.iter().map(|core| core.packets).collect(),
        link_cores: link_cores
            .into_iter()
            .filter_map(|number| cores.iter().position(|core| core.number == number))
            .collect(),
        phases_cpu_ns: phases.iter().enumerate().map(phase_cpu).sum(),
        node_cpu_ns,
    }
}

/// Byte sums since the start, for the live display.
pub(super) fn progress(resources: &NodeResources) -> Progress {
    let assignment = &resources.assignment;
    let rails = assignment.test.rails.max(1);
    let mut sums = Progress {
        at_ns: clock::monotonic_ns(),
        sent_bytes: vec![0; rails],
        received_bytes: vec![0; rails],
        ..Progress::default()
    };
    let lanes = [EndRole::Sender, EndRole::Receiver].map(|role| resources.lanes(role, 0));
    for (role, _, slot, end) in resources.board.ends() {
        let lane = lanes[usize::from(role == EndRole::Receiver)][slot];
        let peer = lane.peer_of(assignment.run.node);
        let bytes = end.bytes();
        let rail = assignment.test.rail_of(lane.stream);
        if assignment.samples && role == EndRole::Receiver {
            sums.links.push(bytes);
        }
        let same_host = assignment.run.peers.shares_host(peer);
        match role {
            EndRole::Sender if same_host => {}
            EndRole::Sender => sums.sent_bytes[rail] += bytes,
            EndRole::Receiver if peer == assignment.run.node => sums.own_bytes += bytes,
            EndRole::Receiver if same_host => sums.same_host_bytes += bytes,
            EndRole::Receiver => sums.received_bytes[rail] += bytes,
        }
        let least = sums.slowest.map_or(u64::MAX, |(_, least)| least);
        if role == EndRole::Receiver && peer != assignment.run.node && bytes < least {
            sums.slowest = Some((peer, bytes));
        }
    }
    sums.open_links = resources.ends_before(EndState::Finished);
    sums
}

/// Completes the node's report, which has the readings taken while the test ran, from the board. Of a test with many links it has sums.
pub(super) fn report(resources: &NodeResources, taken: NodeReport) -> NodeReport {
    let ends: Vec<_> = resources
        .board
        .ends()
        .map(|(role, boundary, slot, end)| end.report(role, boundary, slot))
        .collect();
    let report = NodeReport {
        complete: taken.done_ns.is_some() && ends.iter().all(|end| end.finished || end.lost),
        ends,
        strangers: resources.board.strangers(),
        ..taken
    };
    let Assignment { test, run, .. } = &resources.assignment;
    match size::keeps_links(test, run.nodes()) {
        true => report,
        false => ends::reduced(report, test.bound.times_ns().is_some()),
    }
}
