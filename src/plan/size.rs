//! Size of a plan: its processes, memory, volume and time. `--dry-run` prints it before anything starts.
//!
//! This module refuses no plan. A value that overflows becomes the largest number, which every limit refuses.

use serde::{Deserialize, Serialize};

use super::lanes::{self, Degree};
use super::{Bound, Pattern, Relay, Test, Workers};

/// Size of a large page in bytes, on all machines that have large pages.
pub const LARGE_PAGE_BYTES: usize = 2 << 20;

/// Bytes before the payload of a slot: one page, whose last 64 bytes are the block header. So header and payload are sent in one piece, and
/// the payload starts on a page.
pub const SLOT_HEAD_BYTES: usize = 4096;

/// Number of processes of a node with this degree: the node status process (NSP), its phases, and the processes that serve links
/// ([`worker_formula`]).
pub fn processes_of(test: &Test, degree: Degree) -> usize {
    let Degree { sends, receives } = degree;
    let relays = match (relays_are_one(test), test.phases.saturating_sub(2)) {
        (true, phases) => product(&[phases, receives]),
        (false, phases) => product(&[phases, degree.ends()]),
    };
    let boundaries = test.phases.saturating_sub(1);
    let kinds = sends.min(1) + receives.min(1);
    let workers = match (test.workers, relays_are_one(test)) {
        (Workers::Peer | Workers::Slot, _) => degree.ends().saturating_add(relays),
        (Workers::Shared, true) if degree.ends() > 0 => test.phases,
        (Workers::Shared, _) => product(&[kinds, boundaries]),
    };
    let workers = if test.phases < 2 { 0 } else { workers };
    workers.saturating_add(test.phases).saturating_add(1)
}

/// Degree of the node with the most link ends at a boundary, among `nodes` nodes.
pub fn busiest(test: &Test, nodes: usize) -> Degree {
    let all = degrees(test, nodes).into_iter().map(|(_, degree)| degree);
    all.max_by_key(|degree| degree.ends()).unwrap_or_default()
}

/// Degrees of all nodes, each with the number of nodes that have it.
fn degrees(test: &Test, nodes: usize) -> Vec<(usize, Degree)> {
    let degree = |node| lanes::degree(test, nodes, node);
    match &test.pattern {
        // All nodes have the same degree.
        Pattern::AllToAll | Pattern::Mesh | Pattern::Shift(_) if nodes > 0 => {
            vec![(nodes, degree(0))]
        }
        // One pass over the links: a search of all links for each node takes long.
        Pattern::Links(links) => {
            let mut all = vec![(1, Degree::default()); nodes];
            for (from, to) in links {
                if let Some((_, degree)) = all.get_mut(*from) {
                    degree.sends = degree.sends.saturating_add(test.streams);
                }
                if let Some((_, degree)) = all.get_mut(*to) {
                    degree.receives = degree.receives.saturating_add(test.streams);
                }
            }
            all
        }
        _ => (0..nodes).map(|node| (1, degree(node))).collect(),
    }
}

/// Number of processes of the busiest node.
pub fn processes_per_node(test: &Test, nodes: usize) -> usize {
    processes_of(test, busiest(test, nodes))
}

/// Number of processes that serve the links of a node, as a formula of N nodes, P phases and K links per pair: one for each link end, or one
/// for both ends of a slot where a relay is one process. With shared workers, one for all of these of a phase.
pub fn worker_formula(test: &Test) -> &'static str {
    match (test.workers, relays_are_one(test)) {
        (Workers::Peer | Workers::Slot, false) => "2NK(P-1)",
        (Workers::Peer | Workers::Slot, true) => "NKP",
        (Workers::Shared, false) => "2(P-1)",
        (Workers::Shared, true) => "P",
    }
}

/// True if the pipeline has relays and each of them receives and sends in one process.
fn relays_are_one(test: &Test) -> bool {
    test.phases > 2 && test.relay() != Relay::Halves
}

/// Number of link ends at the busiest node: 2·N·K·(P-1) with all-to-all.
pub fn link_ends_per_node(test: &Test, nodes: usize) -> usize {
    product(&[busiest(test, nodes).ends(), test.phases.saturating_sub(1)])
}

/// Bytes of one slot: head and payload, in whole pages.
pub fn slot_bytes(block_bytes: usize) -> usize {
    let payload = block_bytes.div_ceil(4096).saturating_mul(4096);
    payload.saturating_add(SLOT_HEAD_BYTES)
}

/// Bytes of the buffers of a node: every phase has a slot for each link, with two shared blocks or with private blocks of a process.
pub fn buffer_bytes_of(test: &Test, degree: Degree) -> usize {
    let of_slot = |phase| {
        let slot = slot_bytes(test.block_bytes);
        let own = match test.repeats_payload(phase) {
            // Separate processes have a piece each, and shared workers one for all of their links.
            true => SLOT_HEAD_BYTES.saturating_add(test.piece_bytes()),
            false => product(&[test.own_blocks(phase), slot]),
        };
        let own = match test.sends_pages_of(phase) {
            true => own
                .div_ceil(LARGE_PAGE_BYTES)
                .saturating_mul(LARGE_PAGE_BYTES),
            false => own,
        };
        own.saturating_add(product(&[test.shared_blocks(phase), slot]))
    };
    let relays = test.phases.saturating_sub(2);
    let last = test.phases.saturating_sub(1);
    let all = [
        (1.min(test.phases), 0),
        (relays.min(test.phases), 1),
        (1.min(last), last),
    ];
    let bytes = |(phases, phase): (usize, usize)| match phases {
        0 => 0,
        _ => product(&[phases, degree.slots(phase), of_slot(phase)]),
    };
    all.map(bytes).into_iter().fold(0, usize::saturating_add)
}

/// Bytes of the buffers of the busiest node.
pub fn buffer_bytes_per_node(test: &Test, nodes: usize) -> usize {
    buffer_bytes_of(test, busiest(test, nodes))
}

/// Bytes of reserved large pages for the shared buffers of the busiest node. Each phase rounds up separately.
pub fn reserved_bytes_per_node(test: &Test, nodes: usize) -> usize {
    let degree = busiest(test, nodes);
    let slots = degree.sends.max(degree.receives);
    // Handshakes precede the blocks. One page for each slot is more than they need.
    let of_slot = product(&[2, slot_bytes(test.block_bytes)]).saturating_add(4096);
    let of_phase = product(&[slots, of_slot]).div_ceil(LARGE_PAGE_BYTES);
    let relays = match test.phases {
        0..=2 => 0,
        _ if test.shared_blocks(1) == 0 => 0,
        phases => phases - 2,
    };
    let ends = [0, test.phases.saturating_sub(1)];
    let ends = ends.iter().filter(|phase| test.shared_blocks(**phase) > 0);
    let phases = relays.saturating_add(ends.count());
    product(&[phases, of_phase, LARGE_PAGE_BYTES])
}

/// Allowance for the memory of one process without the buffers, in bytes, from measurements: pages that it writes, page tables, kernel stack.
/// See the test `a_process_takes_no_more_memory_than_the_allowance`.
pub const PROCESS_BYTES: usize = 512 << 10;

/// Maximum number of descriptors that the NSP holds at once, before its first fork: those of its loop, a listener for every boundary and
/// rail, and both ends of every link to itself. Its children inherit them, close all but their own, and never hold as many.
pub fn descriptors_at_once(test: &Test) -> usize {
    const OF_THE_LOOP: usize = 16;
    OF_THE_LOOP + (test.phases - 1) * (test.rails + 2 * test.streams)
}

/// Open files of one node: those of the NSP, /dev/null of every process, and for every link end its socket and what a discarding sink or a
/// relay's pipe needs.
pub fn files_per_node(test: &Test, nodes: usize) -> usize {
    const OF_AN_END: usize = 4;
    let ends = link_ends_per_node(test, nodes);
    descriptors_at_once(test) + processes_per_node(test, nodes) + ends * OF_AN_END
}

/// Payload of one buffer of a node in bytes: the amount that a file source reads for one round of blocks.
pub fn buffer_payload_bytes(test: &Test, nodes: usize) -> u64 {
    product(&[busiest(test, nodes).sends, test.block_bytes]) as u64
}

pub(super) fn product(factors: &[usize]) -> usize {
    factors.iter().copied().fold(1, usize::saturating_mul)
}

/// Most links of a test whose record keeps each of them: two for each pair of 64 nodes. A link takes 1.7 KB of the record and about 5 KB of memory
/// on the launching side, and all-to-all has as many as the square of its nodes. So has a permutation of an acceptance: there the sums of a port are
/// those of a pair.
pub const MOST_KEPT_LINKS: usize = 64 * 64 * 2;

/// True if the record keeps each link of a test among `nodes` nodes. Otherwise it has sums, and the reports of nodes have fewer figures.
pub fn keeps_links(test: &Test, nodes: usize) -> bool {
    of(test, nodes).links <= MOST_KEPT_LINKS
}

/// Load and cost of a test, as far as they are known before it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Size {
    /// Number of processes on the busiest node.
    pub processes_per_node: usize,
    /// Number of processes of all nodes.
    pub processes: usize,
    /// Number of links of the whole run.
    pub links: usize,
    /// Bytes of the buffers of the busiest node.
    pub buffer_bytes_per_node: usize,
    /// Payload between nodes over the whole run in bytes, if volume bounds the run.
    pub volume_bytes: Option<u64>,
    /// Warm-up and window in nanoseconds, if time bounds the run.
    pub duration_ns: Option<u64>,
}

/// Computes the size of a test among `nodes` nodes.
pub fn of(test: &Test, nodes: usize) -> Size {
    let boundaries = test.phases.saturating_sub(1);
    let degrees = degrees(test, nodes);
    let sum = |of: &dyn Fn(Degree) -> usize| {
        let all = degrees.iter();
        let each = all.map(|(count, degree)| product(&[*count, of(*degree)]));
        each.fold(0, usize::saturating_add)
    };
    let sends = sum(&|degree| degree.sends);
    let between = match test.pattern {
        Pattern::AllToAll => product(&[nodes, nodes.saturating_sub(1), test.streams]),
        _ => sends,
    };
    let volume_bytes = match test.bound {
        Bound::Volume { buffers } => {
            let bytes = product(&[between, boundaries, test.block_bytes]) as u64;
            Some(bytes.saturating_mul(buffers))
        }
        Bound::Time { .. } | Bound::Files => None,
    };
    Size {
        processes_per_node: processes_per_node(test, nodes),
        processes: sum(&|degree| processes_of(test, degree)),
        links: product(&[sends, boundaries]),
        buffer_bytes_per_node: buffer_bytes_per_node(test, nodes),
        volume_bytes,
        duration_ns: test.bound.duration_ns(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::lanes::tests::test_of;

    #[test]
    fn three_nodes_and_three_phases_are_48_processes() {
        assert_eq!(3 * processes_per_node(&test_of(3, 1), 3), 48);
        assert_eq!(processes_per_node(&test_of(2, 1), 1), 5);
        let mut pages = test_of(3, 2);
        pages.datapath = crate::plan::Datapath::Zerocopy;
        assert_eq!(processes_per_node(&pages, 4), 1 + 3 + 4 * 2 * 3);
        pages.coupling = crate::plan::Coupling::Buffer;
        assert_eq!(processes_per_node(&pages, 4), 1 + 3 + 2 * 4 * 2 * 2);
        pages.workers = Workers::Shared;
        assert_eq!(processes_per_node(&pages, 4), 1 + 3 + 2 * 2);
        pages.coupling = crate::plan::Coupling::Block;
        assert_eq!(processes_per_node(&pages, 4), 1 + 3 + 3);
        assert_eq!(of(&test_of(3, 1), 3).processes, 48);
    }

    #[test]
    fn a_plan_too_large_for_numbers_has_the_largest_and_does_not_overflow() {
        let most = usize::MAX;
        let mut test = test_of(most, most);
        test.block_bytes = most;
        test.bound = Bound::Volume { buffers: u64::MAX };
        let size = of(&test, most);
        assert_eq!((size.processes, size.links), (most, most));
        assert_eq!(size.buffer_bytes_per_node, most);
        assert_eq!(size.volume_bytes, Some(u64::MAX));
        assert_eq!(buffer_payload_bytes(&test, most), u64::MAX);
        test.bound = Bound::Time {
            warmup_ns: u64::MAX,
            window_ns: u64::MAX,
        };
        assert_eq!(of(&test, most).duration_ns, Some(u64::MAX));
    }

    #[test]
    fn a_plan_without_phases_or_nodes_has_no_links() {
        let size = of(&test_of(0, 1), 0);
        assert_eq!((size.links, size.processes), (0, 0));
    }

    #[test]
    fn memory_and_volume_follow_from_the_plan() {
        let test = Test {
            verify: crate::plan::Verify::Full,
            ..test_of(3, 2)
        };
        let size = of(&test, 3);
        assert_eq!(size.links, 36);
        assert_eq!(
            size.buffer_bytes_per_node,
            (1 + 2 + 1) * 6 * (4096 + 262_144)
        );
        assert_eq!(size.volume_bytes, Some(24 * 4 * 262_144));
        // Source and sink repeat a piece, and the relay between them has two whole blocks.
        let repeated = of(&test_of(3, 2), 3).buffer_bytes_per_node;
        assert_eq!(repeated, 2 * 6 * (4096 + 65_536) + 2 * 6 * (4096 + 262_144));
        assert_eq!(slot_bytes(1), 8192);
    }

    #[test]
    fn reserved_pages_are_for_what_is_shared() {
        let mut test = test_of(4, 1);
        // Two relays, each with 3 slots of two blocks of 260 KiB and a page: one large page per relay.
        assert_eq!(reserved_bytes_per_node(&test, 3), 2 * LARGE_PAGE_BYTES);
        test.coupling = crate::plan::Coupling::Buffer;
        assert_eq!(reserved_bytes_per_node(&test, 3), 4 * LARGE_PAGE_BYTES);
        test.coupling = crate::plan::Coupling::Block;
        test.datapath = crate::plan::Datapath::Zerocopy;
        assert_eq!(reserved_bytes_per_node(&test, 3), 0);
        test.phases = usize::MAX;
        assert_eq!(reserved_bytes_per_node(&test, 3), 0);
    }

    /// Symptom: a mesh of 1,000 nodes that went on without one of them searched a million links for each node.
    #[test]
    fn chosen_links_are_counted_at_both_of_their_nodes() {
        let mut test = test_of(2, 3);
        test.pattern = Pattern::Links(vec![(0, 1), (0, 2), (3, 1)]);
        let counted = degrees(&test, 5);
        let each = (0..5).map(|node| (1, lanes::degree(&test, 5, node)));
        assert_eq!(counted, each.collect::<Vec<_>>());
        assert_eq!(busiest(&test, 5).ends(), 6);
    }

    #[test]
    fn links_are_kept_by_their_number_and_not_by_that_of_the_nodes() {
        let keeps = |pattern: Pattern, streams, nodes| {
            let test = Test {
                pattern,
                ..test_of(2, streams)
            };
            keeps_links(&test, nodes)
        };
        assert!(keeps(Pattern::AllToAll, 2, 64) && !keeps(Pattern::AllToAll, 2, 65));
        assert!(keeps(Pattern::Shift(1), 8, 1000) && !keeps(Pattern::Shift(1), 9, 1000));
    }

    #[test]
    fn descriptors_follow_from_the_plan() {
        let test = test_of(3, 2);
        assert_eq!(descriptors_at_once(&test), 16 + 2 * 5);
        assert_eq!(files_per_node(&test, 3), 26 + 28 + 4 * 24);
    }
}
