//! Reduces the counters of link ends to what links are made of: counts within the interval, and sums over the whole run.

use crate::record::{EndCount, EndReport, EndRole, EndSum, NodeReport, SenderSum, TcpInfo};

/// Most turns on a processor, per second, of a process that waited for them nearly all the time.
const FEW_TURNS_PER_S: u64 = 5;

/// Counts of an end within the interval, with the length of its interval in `at_ns`.
pub(crate) fn counted(report: &NodeReport, index: usize) -> EndCount {
    let (Some(first), Some(last)) = (report.edges.first(), report.edges.get(1)) else {
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
    let few_turns = turns.saturating_mul(1_000_000_000) <= FEW_TURNS_PER_S.saturating_mul(at_ns);
    let starved = first.is_ready && last.is_ready && few_turns;
    let waited = match starved {
        true => at_ns.saturating_sub(cpu_ns),
        false => last.run_delay_ns.saturating_sub(first.run_delay_ns),
    };
    // Bytes unread in the socket when the window begins arrived before it. Bytes unread when it ends arrived within it.
    let unread = |edge: usize| {
        let end = &report.ends[index];
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

/// The kernel's accounts of a sender's connection at the start and end of the interval, which is a window if the run is `timed`.
pub(crate) fn accounts(end: &EndReport, timed: bool) -> Option<(TcpInfo, TcpInfo)> {
    let at_end = end.tcp[1].or(end.tcp[2])?;
    // A window without TCP statistics at its start has no result. A volume run starts with the link, at zero.
    let at_start = match timed {
        true => end.tcp[0]?,
        false => TcpInfo::default(),
    };
    Some((at_start, at_end))
}

/// The receiving end at a place of a report.
pub(crate) fn receiver(report: &NodeReport, index: usize) -> EndSum {
    of_end(&report.ends[index], &counted(report, index))
}

/// The sending end at a place of a report.
pub(crate) fn sender(report: &NodeReport, index: usize, timed: bool) -> SenderSum {
    let (end, count) = (&report.ends[index], counted(report, index));
    let at_end = end.tcp[2];
    SenderSum {
        end: of_end(end, &count),
        pacing_ns: count.activity_ns[3],
        retransmitted_bytes: at_end.map_or(0, |info| info.retransmitted_bytes),
        tcp: accounts(end, timed).map(|(first, last)| last.since(&first)),
    }
}

fn of_end(end: &EndReport, count: &EndCount) -> EndSum {
    EndSum {
        bytes: end.bytes,
        blocks: end.blocks,
        interval_ns: count.at_ns,
        interval_bytes: count.bytes,
        waiting_ns: count.activity_ns[1],
        moving_ns: count.activity_ns[2],
        cpu_ns: count.cpu_ns,
        run_delay_ns: count.run_delay_ns,
    }
}

/// Reduces a whole report, whose ends stand by boundary and slot, to sums of its ends.
pub fn reduced(mut report: NodeReport, timed: bool) -> NodeReport {
    for index in 0..report.ends.len() {
        match report.ends[index].role {
            EndRole::Sender => {
                let sender = sender(&report, index, timed);
                report.senders.push(sender);
            }
            EndRole::Receiver => {
                let receiver = receiver(&report, index);
                report.receivers.push(receiver);
            }
        }
    }
    report.ends.clear();
    for edge in &mut report.edges {
        edge.ends.clear();
    }
    report
}
