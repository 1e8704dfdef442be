//! Parameters that the user did not set follow from the hosts: the processes that serve links, the size of blocks and of socket buffers, the
//! number of links per pair, congestion control, and with `--datapath auto` the path of the payload.
//!
//! They are settled twice: before a run starts, from what is known then, for `--dry-run` and the header; and again after the hosts have
//! reported their resources. docs/dev/performance.md has the measurements for the numbers.

use super::size::{self, PROCESS_BYTES, product};
use super::{BLOCK_BYTES, Bound, Coupling, Datapath, Pattern, Sink, Source, Test, Verify, Workers};
use crate::units::show_bytes;

/// Known resources of a host.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Capacity {
    /// Name of the host, for a note.
    pub name: String,
    /// Number of nodes of the run on this host.
    pub nodes: usize,
    /// Number of processors that these nodes can use.
    pub processors: Option<usize>,
    /// Memory that the host's limits leave, in bytes.
    pub memory_bytes: Option<u64>,
    /// Number of connections that fill its fastest data port; 0 if unknown.
    pub flows: usize,
    /// True if the host's default congestion control is BBR.
    pub bbr: bool,
    /// Rates that it can fill, if they were estimated.
    pub rates: Option<HostRates>,
}

/// Rates in bits per second, each way at once: those of a host's data ports together, and those that its processors can fill at most. They follow
/// from an estimate over loopback, which costs less than a card does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HostRates {
    /// Speed of its data ports together.
    pub ports: u64,
    /// With copied payload.
    pub copies: u64,
    /// With sent pages.
    pub pages: u64,
}

impl HostRates {
    /// Rates of a host with ports of this speed. `ns_per_gb` is the CPU time in nanoseconds that a gigabyte takes, sent and received: first with
    /// copies, then with pages.
    pub fn of(ports: u64, processors: usize, ns_per_gb: [u64; 2]) -> Self {
        let fills = |ns: u64| {
            let bits_per_s = processors as u128 * 8_000_000_000 * 1_000_000_000;
            u64::try_from(bits_per_s / u128::from(ns.max(1))).unwrap_or(u64::MAX)
        };
        let [copies, pages] = ns_per_gb.map(fills);
        Self {
            ports,
            copies,
            pages,
        }
    }

    /// True if copies do not fill the ports.
    pub fn lacks_copies(&self) -> bool {
        self.copies < self.ports
    }

    /// True if copies do not fill the ports, and pages fill more.
    pub fn wants_pages(&self) -> bool {
        self.lacks_copies() && self.copies < self.pages
    }
}

/// True if the CPU cost of a host with data ports of this speed is worth an estimate. Slower ports are slow for every host. A run also leaves
/// hosts out that have a processor for each few Gbit/s, and a check asks them, too.
pub fn is_worth_an_estimate(ports: u64, processors: usize, checks: bool) -> bool {
    const SLOW_BITS_PER_S: u64 = 10_000_000_000;
    const OF_ANY_PROCESSOR_BITS_PER_S: u64 = 5_000_000_000;
    let easy = OF_ANY_PROCESSOR_BITS_PER_S.saturating_mul(processors as u64);
    ports >= SLOW_BITS_PER_S && (checks || ports > easy)
}

/// Approximate limit of one connection in Mbit/s: a processor core copies no more. A choice.
const ONE_FLOW_MBIT: u64 = 25_000;
/// A bond assigns each connection to one of its members by chance. With four connections per member, every member gets some.
const FLOWS_PER_MEMBER: usize = 4;

/// Number of connections that fill a port of this speed, or a bond with this many members.
pub fn flows_of(speed_mbit: Option<u64>, members: usize) -> usize {
    let by_speed = speed_mbit.map_or(1, |mbit| mbit.div_ceil(ONE_FLOW_MBIT));
    let by_members = match members {
        0 | 1 => 1,
        several => several * FLOWS_PER_MEMBER,
    };
    usize::try_from(by_speed).unwrap_or(1).max(by_members)
}

/// Settles the parameters that the user did not set, for a test among `nodes` nodes. Returns a note if blocks are smaller than usual.
pub fn settle(test: &mut Test, nodes: usize, hosts: &[Capacity]) -> Option<String> {
    if test.unasked.streams {
        test.streams = streams_that_fill(test, nodes, hosts);
    }
    if test.unasked.datapath {
        test.datapath = datapath_that_fills(test, hosts);
    }
    // Hosts with the same resources decide alike, and in a long list most are neighbours.
    let resources = |host: &Capacity| (host.nodes, host.processors, host.memory_bytes);
    let alike = hosts.chunk_by(|one, next| resources(one) == resources(next));
    let distinct: Vec<&Capacity> = alike.filter_map(<[Capacity]>::first).collect();
    if test.unasked.workers {
        test.workers = workers_that_pay(test, nodes, &distinct);
    }
    if test.unasked.congestion {
        // BBR leaves healthy ports unfilled: its acknowledgements queue after the data that a port receives. Every user can choose Reno.
        let any = hosts.iter().any(|host| host.bbr);
        test.sockets.congestion = any.then(|| "reno".to_owned());
    }
    if test.unasked.socket_buffers {
        let bytes = small_buffers_pay(test, nodes, hosts).then_some(SMALL_SOCKET_BUFFER_BYTES);
        test.sockets.send_buffer_bytes = bytes;
        test.sockets.receive_buffer_bytes = bytes;
    }
    if !test.unasked.block {
        return None;
    }
    test.block_bytes = usual_block_bytes(test, nodes, hosts);
    let usual = test.block_bytes;
    let fits = |host: &&Capacity| block_that_fits(test, nodes, host);
    let host = distinct.into_iter().min_by_key(fits)?;
    test.block_bytes = block_that_fits(test, nodes, host);
    (test.block_bytes < usual).then(|| {
        let [now, usual] = [test.block_bytes, usual].map(|bytes| show_bytes(bytes as u64));
        let room = show_bytes(room_of(test, nodes, host) as u64);
        let on_host = match host.nodes {
            1 => "a node".to_owned(),
            several => format!("{several} nodes"),
        };
        format!(
            "blocks of {now} instead of {usual}, to keep the buffers of {on_host} on {} below {room}",
            host.name
        )
    })
}

/// True if hosts that have not reported their resources can still change the settled parameters. They can only lead to fewer processes and
/// smaller blocks, never to more.
pub fn is_open(test: &Test, hosts: &[Capacity]) -> bool {
    let open = test.unasked.workers || test.unasked.block;
    open && hosts.iter().any(|host| host.processors.is_none())
}

/// Settled or requested parameters, as names and values of options.
pub fn options(test: &Test) -> Vec<(&'static str, String)> {
    let bytes = |bytes: usize| show_bytes(bytes as u64).replace(' ', "");
    let sockets = &test.sockets;
    let congestion = sockets.congestion.as_deref().unwrap_or("system");
    let mut options = vec![
        ("block-size", bytes(test.block_bytes)),
        ("workers", test.workers.name().to_owned()),
        ("congestion", congestion.to_owned()),
    ];
    let buffer = |name, size: Option<usize>| size.map(|size| (name, bytes(size)));
    options.extend(buffer("sndbuf", sockets.send_buffer_bytes));
    options.extend(buffer("rcvbuf", sockets.receive_buffer_bytes));
    options
}

/// Replaces the settled parameters in the options in effect by the current values of a test.
pub fn renew_options(options: &mut Vec<(String, String)>, test: &Test) {
    const SETTLED: [&str; 5] = ["block-size", "workers", "congestion", "sndbuf", "rcvbuf"];
    let settled = |(name, _): &(String, String)| SETTLED.contains(&name.as_str());
    let place = options.iter().position(settled).unwrap_or(options.len());
    options.retain(|option| !settled(option));
    let renewed = self::options(test)
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value));
    options.splice(place..place, renewed);
    if test.unasked.datapath {
        set_option(options, "datapath", test.datapath.name());
    }
}

/// Replaces the number of links per pair in the options in effect by that of a test.
pub fn renew_streams(options: &mut [(String, String)], test: &Test) {
    let each = test.streams / test.rails.max(1);
    set_option(options, "streams", &each.to_string());
}

fn set_option(options: &mut [(String, String)], name: &str, value: &str) {
    let mut known = options.iter_mut().filter(|(known, _)| known == name);
    if let Some((_, old)) = known.next() {
        value.clone_into(old);
    }
}

/// Pages if copies would not fill the ports of a host and nothing needs the payload.
fn datapath_that_fills(test: &Test, hosts: &[Capacity]) -> Datapath {
    let needed = test.verify != Verify::None
        || test.source != Source::Memory
        || matches!(test.sink, Sink::File(_));
    let mut rates = hosts.iter().filter_map(|host| host.rates);
    match !needed && rates.any(|rates| rates.wants_pages()) {
        true => Datapath::Zerocopy,
        false => Datapath::Copy,
    }
}

/// Processes that serve the links most efficiently.
///
/// A process for each slot if every processor gets at least two relays. That saves the hand-over from receiver to sender, but the two cannot
/// run at the same time. Otherwise a process for each link end. Shared workers if a host would have too many processes: with two processors
/// they are as fast as a process for each end from 256 ends on, and as fast as a process for each slot above 1024. A host with only one node
/// has more processors for it, and a fast port needs more than one process to fill it.
fn workers_that_pay(test: &Test, nodes: usize, hosts: &[&Capacity]) -> Workers {
    let may_take_turns =
        test.phases > 2 && test.datapath == Datapath::Copy && test.coupling == Coupling::Block;
    let crowds = |host: &&Capacity| {
        let most_ends = match host.nodes {
            2.. if !may_take_turns => 256,
            _ => 1024,
        };
        product(&[host.nodes, size::link_ends_per_node(test, nodes)]) > most_ends
    };
    let fills = |host: &&Capacity| {
        let between = test.phases.saturating_sub(2);
        let relays = product(&[host.nodes, nodes, test.streams, between]);
        let processors = host.processors.filter(|processors| *processors > 0);
        processors.is_some_and(|processors| relays >= processors.saturating_mul(2))
    };
    if hosts.iter().any(crowds) {
        Workers::Shared
    } else if may_take_turns && hosts.iter().any(fills) {
        Workers::Slot
    } else {
        Workers::Peer
    }
}

/// Number of links per pair that gives each port the connections it needs; never less than the present number.
fn streams_that_fill(test: &Test, nodes: usize, hosts: &[Capacity]) -> usize {
    /// More links between two nodes do not help.
    const MOST: usize = 64;
    let wanted = hosts.iter().map(|host| host.flows).max().unwrap_or(0);
    if wanted < 2 {
        return test.streams;
    }
    let rails = test.rails.max(1);
    let others = |node: usize| {
        let targets = test.pattern.targets(nodes, node);
        targets.iter().filter(|to| **to != node).count()
    };
    let partners = match test.pattern {
        // A list of targets for each of many nodes takes long.
        Pattern::AllToAll | Pattern::Mesh => nodes.checked_sub(1).filter(|count| *count > 0),
        _ => (0..nodes).map(others).filter(|count| *count > 0).min(),
    };
    let Some(partners) = partners else {
        return test.streams;
    };
    let mut each = wanted.div_ceil(partners);
    // Permutations keep as many connections at a port as the mesh has.
    let all = nodes.saturating_sub(1).max(1);
    if matches!(test.pattern, Pattern::Shift(_)) && (test.streams / rails).is_multiple_of(all) {
        each = each.next_multiple_of(all);
    }
    test.streams.max(each.min(MOST) * rails)
}

/// Send and receive buffer of a socket if one host has thousands of links. Buffers that the system enlarges would need more memory than all
/// the rest.
const SMALL_SOCKET_BUFFER_BYTES: usize = 64 << 10;

/// True if small socket buffers pay. With fewer links, buffers that the system tunes are faster.
fn small_buffers_pay(test: &Test, nodes: usize, hosts: &[Capacity]) -> bool {
    const MOST_LINKS: usize = 4096;
    let boundaries = test.phases.saturating_sub(1);
    let links = |host: &Capacity| product(&[host.nodes, nodes, test.streams, boundaries]);
    let crowds = |host: &Capacity| host.nodes > 1 && links(host) > MOST_LINKS;
    hosts.iter().any(crowds)
}

/// Payload of a block if the user sets none and memory is plentiful. Large blocks pay where each call has a fixed cost: for pages that are
/// passed on, for hand-overs between the few processes of a host that no other link keeps busy, and where all nodes are on one host and
/// payload is a small piece again and again. Otherwise copies are cheapest while they stay in the cache.
fn usual_block_bytes(test: &Test, nodes: usize, hosts: &[Capacity]) -> usize {
    let passes = test.phases <= 2 || test.relays_pass_pages();
    let idles = match hosts {
        [only] => only.processors.is_some_and(|processors| {
            let ends = product(&[only.nodes, size::link_ends_per_node(test, nodes)]);
            ends <= processors.saturating_mul(2)
        }),
        _ => false,
    };
    let repeats = hosts.len() == 1 && (0..test.phases).all(|phase| test.repeats_payload(phase));
    let usual = if idles || repeats || (test.datapath == Datapath::Zerocopy && passes) {
        1 << 20
    } else {
        256 << 10
    };
    usual.min(block_of_pace(test).unwrap_or(usual))
}

/// Largest block of which a rate limit still passes many per second. With larger blocks, a second would show one block or none.
fn block_of_pace(test: &Test) -> Option<usize> {
    const BLOCKS_PER_S: u64 = 16;
    let timed = matches!(test.bound, Bound::Time { .. });
    let bits_per_s = test.sockets.rate_bits_per_s.filter(|_| timed)?;
    let bytes = usize::try_from(bits_per_s / 8 / BLOCKS_PER_S).unwrap_or(usize::MAX);
    let bytes = bytes.clamp(*BLOCK_BYTES.start(), *BLOCK_BYTES.end());
    Some(1 << bytes.ilog2())
}

/// Limit for the buffers of all nodes of a host, in bytes: half of the memory that is left, and no more than it takes to load the host.
fn room_of(test: &Test, nodes: usize, host: &Capacity) -> usize {
    const MOST_BYTES: usize = 3 << 29;
    let Some(left) = host.memory_bytes else {
        return MOST_BYTES;
    };
    let each = size::processes_per_node(test, nodes);
    let processes = product(&[host.nodes, each, PROCESS_BYTES]);
    let left = usize::try_from(left).unwrap_or(usize::MAX);
    (left.saturating_sub(processes) / 2).min(MOST_BYTES)
}

/// The usual block size, halved until the buffers fit. Blocks smaller than 16 KiB cost more time than they save memory.
fn block_that_fits(test: &Test, nodes: usize, host: &Capacity) -> usize {
    const LEAST_BLOCK_BYTES: usize = 16 << 10;
    let room = room_of(test, nodes, host);
    let mut tried = test.clone();
    while tried.block_bytes > LEAST_BLOCK_BYTES
        && product(&[host.nodes, size::buffer_bytes_per_node(&tried, nodes)]) > room
    {
        tried.block_bytes /= 2;
    }
    tried.block_bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Unasked;
    use crate::plan::lanes::tests::test_of;

    const EVERYTHING: Unasked = Unasked {
        workers: true,
        block: true,
        socket_buffers: true,
        streams: true,
        congestion: true,
        datapath: false,
    };

    fn host(nodes: usize, processors: Option<usize>, memory_mib: Option<u64>) -> Capacity {
        Capacity {
            name: "n1".to_owned(),
            nodes,
            processors,
            memory_bytes: memory_mib.map(|mib| mib << 20),
            ..Capacity::default()
        }
    }

    /// Settled parameters for `nodes` nodes on hosts, with K = 1.
    fn settled(phases: usize, nodes: usize, hosts: &[Capacity]) -> (Test, Option<String>) {
        let mut test = test_of(phases, 1);
        test.unasked = EVERYTHING;
        let note = settle(&mut test, nodes, hosts);
        (test, note)
    }

    #[test]
    fn who_serves_follows_from_links_and_processors() {
        let workers = |phases, nodes, hosts: &[Capacity]| settled(phases, nodes, hosts).0.workers;
        let local = |nodes, processors| [host(nodes, Some(processors), None)];
        assert_eq!(workers(3, 1, &local(1, 2)), Workers::Peer);
        assert_eq!(workers(3, 2, &local(2, 2)), Workers::Slot);
        assert_eq!(workers(3, 3, &local(3, 64)), Workers::Peer);
        assert_eq!(workers(2, 8, &local(8, 2)), Workers::Peer, "without relays");
        assert_eq!(workers(2, 12, &local(12, 2)), Workers::Shared);
        assert_eq!(workers(3, 16, &local(16, 2)), Workers::Slot);
        assert_eq!(workers(3, 17, &local(17, 2)), Workers::Shared);
        let hosts = |count, processors| vec![host(1, processors, None); count];
        assert_eq!(workers(3, 8, &hosts(8, None)), Workers::Peer);
        assert!(is_open(&settled(3, 8, &hosts(8, None)).0, &hosts(8, None)));
        assert!(!is_open(
            &settled(3, 8, &hosts(8, Some(2))).0,
            &hosts(8, Some(2))
        ));
        assert!(
            !is_open(&test_of(3, 1), &hosts(8, None)),
            "all was asked for"
        );
        assert_eq!(workers(3, 8, &hosts(8, Some(32))), Workers::Peer);
        assert_eq!(workers(3, 64, &hosts(64, Some(32))), Workers::Slot);
        assert_eq!(workers(3, 256, &hosts(256, Some(256))), Workers::Peer);
        assert_eq!(workers(3, 257, &hosts(257, Some(256))), Workers::Shared);
        // One crowded host decides for all others.
        let mut mixed = hosts(8, Some(32));
        mixed[3].processors = Some(4);
        assert_eq!(workers(3, 8, &mixed), Workers::Slot);
        // Shared workers pay earlier if one process cannot pass blocks on.
        let mut test = test_of(3, 1);
        test.unasked = EVERYTHING;
        (test.datapath, test.verify) = (Datapath::Zerocopy, Verify::Full);
        settle(&mut test, 8, &local(8, 2));
        assert_eq!(test.workers, Workers::Peer);
        settle(&mut test, 9, &local(9, 2));
        assert_eq!(test.workers, Workers::Shared);
    }

    #[test]
    fn ports_are_loaded_with_reno_where_a_host_has_bbr_unless_that_was_asked_for() {
        let bbr = Capacity {
            bbr: true,
            ..host(1, Some(2), None)
        };
        let hosts = [host(1, Some(2), None), bbr];
        let settled = |asked: Option<&str>, hosts: &[Capacity]| {
            let mut test = test_of(2, 1);
            test.unasked.congestion = asked.is_none();
            test.sockets.congestion = asked.map(str::to_owned);
            settle(&mut test, 2, hosts);
            test.sockets.congestion
        };
        assert_eq!(settled(None, &hosts).as_deref(), Some("reno"));
        assert_eq!(settled(Some("bbr"), &hosts).as_deref(), Some("bbr"));
        assert_eq!(settled(None, &hosts[..1]), None);
    }

    #[test]
    fn fast_ports_and_bonds_have_more_connections_unless_their_number_was_asked_for() {
        assert_eq!(flows_of(None, 0), 1);
        assert_eq!(flows_of(Some(25_000), 1), 1);
        assert_eq!(flows_of(Some(100_000), 0), 4);
        assert_eq!(flows_of(Some(50_000), 4), 16);
        let of = |pattern: Pattern, streams: usize, nodes: usize, flows: usize| {
            let hosts = vec![
                Capacity {
                    flows,
                    ..host(1, Some(8), None)
                };
                nodes
            ];
            let mut test = test_of(2, streams);
            (test.unasked, test.pattern) = (EVERYTHING, pattern);
            settle(&mut test, nodes, &hosts);
            test.streams
        };
        assert_eq!(of(Pattern::AllToAll, 1, 3, 0), 1, "nothing is known");
        assert_eq!(of(Pattern::AllToAll, 1, 3, 1), 1);
        assert_eq!(of(Pattern::AllToAll, 1, 3, 16), 8, "two partners");
        assert_eq!(of(Pattern::Mesh, 1, 9, 16), 2);
        assert_eq!(of(Pattern::Shift(1), 1, 3, 16), 16);
        // An acceptance of 4 nodes: permutations have as many connections at a port as the mesh.
        assert_eq!(of(Pattern::Shift(1), 3, 4, 16), 18);
        assert_eq!(of(Pattern::Mesh, 1, 4, 16), 6);
        assert_eq!(
            of(Pattern::AllToAll, 1, 2, 1000),
            64,
            "there is an end to it"
        );
        let mut asked = test_of(2, 1);
        let hosts = [Capacity {
            flows: 16,
            ..host(1, Some(8), None)
        }];
        settle(&mut asked, 2, &hosts);
        assert_eq!(asked.streams, 1);
    }

    #[test]
    fn blocks_shrink_before_memory_runs_out_and_a_line_says_so() {
        let block = |memory| {
            let mut test = test_of(2, 1);
            (test.unasked, test.verify) = (EVERYTHING, Verify::Full);
            let note = settle(&mut test, 8, &[host(8, Some(2), memory)]);
            (test.block_bytes >> 10, note)
        };
        assert_eq!(block(None), (256, None));
        assert_eq!(block(Some(4096)), (256, None));
        let (kib, note) = block(Some(100));
        assert_eq!(kib, 64, "half of what the processes leave is for buffers");
        let note = note.unwrap();
        let expected =
            "blocks of 64 KiB instead of 256 KiB, to keep the buffers of 8 nodes on n1 below ";
        assert!(note.starts_with(expected), "{note}");
        assert_eq!(block(Some(1)).0, 16, "there is an end to it");
        // The tightest host decides.
        let hosts = [
            host(1, None, Some(8192)),
            host(1, None, Some(11)),
            host(1, None, None),
        ];
        assert_eq!(settled(3, 3, &hosts).0.block_bytes, 128 << 10);
        // Parameters that the user set stay.
        let mut test = test_of(2, 1);
        assert_eq!(settle(&mut test, 3, &[host(3, Some(2), Some(1))]), None);
        assert_eq!(test, test_of(2, 1));
    }

    #[test]
    fn a_link_that_is_held_back_has_blocks_that_show_it() {
        let block = |bits_per_s| {
            let mut test = test_of(2, 1);
            test.bound = Bound::Time {
                window_ns: 1_000_000_000,
                warmup_ns: 0,
            };
            test.sockets.rate_bits_per_s = Some(bits_per_s);
            usual_block_bytes(&test, 64, &[])
        };
        assert_eq!(block(1_000_000_000), 256 << 10);
        assert_eq!(block(1_000_000), 4096);
        assert_eq!(block(8), 64);
    }

    #[test]
    fn a_host_fills_what_its_processors_carry_at_the_cost_of_loopback() {
        let rates = HostRates::of(100_000_000_000, 8, [800_000_000, 320_000_000]);
        assert_eq!(
            (rates.copies, rates.pages),
            (80_000_000_000, 200_000_000_000)
        );
        assert!(rates.wants_pages());
        let slower = HostRates::of(100_000_000_000, 8, [800_000_000; 2]);
        assert!(slower.lacks_copies() && !slower.wants_pages());
        let filled = HostRates::of(80_000_000_000, 8, [800_000_000, 320_000_000]);
        assert!(!filled.lacks_copies() && !filled.wants_pages());
        // An answer of zero comes from no honest host.
        assert_eq!(HostRates::of(1, 1000, [0, 1]).copies, u64::MAX);
    }

    #[test]
    fn a_run_estimates_only_hosts_that_may_be_slower_than_their_ports() {
        let gbit = |gbit: u64| gbit * 1_000_000_000;
        assert!(!is_worth_an_estimate(gbit(1), 1, true));
        assert!(!is_worth_an_estimate(gbit(9), 1, false));
        assert!(is_worth_an_estimate(gbit(10), 1, false));
        assert!(!is_worth_an_estimate(gbit(100), 20, false));
        assert!(is_worth_an_estimate(gbit(100), 20, true));
        assert!(is_worth_an_estimate(gbit(400), 64, false));
    }

    #[test]
    fn pages_are_chosen_where_copies_fall_short_and_nothing_needs_the_payload() {
        let rated = |copies_ns| Capacity {
            rates: Some(HostRates::of(100_000_000_000, 8, [copies_ns, 300_000_000])),
            ..host(1, Some(8), None)
        };
        let of = |change: fn(&mut Test), copies_ns| {
            let mut test = test_of(2, 1);
            (test.unasked.datapath, test.unasked.block) = (true, true);
            change(&mut test);
            settle(&mut test, 2, &[rated(500_000_000), rated(copies_ns)]);
            (test.datapath, test.block_bytes)
        };
        let (copy, pages) = ((Datapath::Copy, 256 << 10), (Datapath::Zerocopy, 1 << 20));
        assert_eq!(of(|_| {}, 500_000_000), copy);
        assert_eq!(of(|_| {}, 900_000_000), pages, "one host is enough");
        assert_eq!(of(|test| test.sink = Sink::Discard, 900_000_000), pages);
        let needs: [fn(&mut Test); 4] = [
            |test| test.verify = Verify::Sample,
            |test| test.source = Source::File("f".to_owned()),
            |test| test.sink = Sink::File("f".to_owned()),
            |test| test.unasked.datapath = false,
        ];
        for need in needs {
            assert_eq!(of(need, 900_000_000), copy);
        }
        assert_eq!(of(|_| {}, 250_000_000), copy);
    }

    #[test]
    fn pages_that_are_passed_on_come_in_large_blocks() {
        let mut test = test_of(3, 1);
        (test.unasked, test.datapath) = (EVERYTHING, Datapath::Zerocopy);
        let usual = |test: &Test| usual_block_bytes(test, 3, &[]);
        assert_eq!(usual(&test), 1 << 20);
        test.source = Source::File("f".to_owned());
        assert_eq!(usual(&test), 256 << 10);
        test.phases = 2;
        assert_eq!(usual(&test), 1 << 20);
    }

    #[test]
    fn a_host_with_a_processor_for_each_link_has_large_blocks() {
        let block = |phases, nodes, hosts: &[Capacity]| settled(phases, nodes, hosts).0.block_bytes;
        assert_eq!(block(3, 1, &[host(1, Some(2), None)]), 1 << 20);
        assert_eq!(block(4, 1, &[host(1, Some(2), None)]), 256 << 10);
        assert_eq!(block(3, 2, &[host(2, Some(2), None)]), 256 << 10);
        assert_eq!(block(3, 2, &[host(2, None, None)]), 256 << 10);
        let several = vec![host(1, Some(64), None); 3];
        assert_eq!(block(3, 3, &several), 256 << 10);
    }

    #[test]
    fn blocks_are_large_where_payload_is_a_piece_again_and_again_and_no_port_is_loaded() {
        let block = |change: fn(&mut Test), hosts: &[Capacity]| {
            let mut test = test_of(2, 1);
            test.unasked = EVERYTHING;
            change(&mut test);
            settle(&mut test, 4, hosts);
            test.block_bytes
        };
        let one = [host(4, Some(2), None)];
        assert_eq!(block(|_| {}, &one), 1 << 20);
        assert_eq!(block(|_| {}, &vec![host(1, Some(2), None); 4]), 256 << 10);
        assert_eq!(block(|test| test.verify = Verify::Sample, &one), 256 << 10);
        assert_eq!(
            block(|test| test.source = Source::File("f".to_owned()), &one),
            256 << 10
        );
        assert_eq!(block(|test| test.phases = 3, &one), 256 << 10);
    }

    /// Symptom: blocks of 3,000,000 bytes would have had pieces that are no whole pages, and those of 1 GiB thousands of mappings.
    #[test]
    fn pieces_are_whole_pages_and_few() {
        let pieces = |bytes| {
            let test = Test {
                block_bytes: bytes,
                ..test_of(2, 1)
            };
            test.repeats_payload(0).then(|| bytes / test.piece_bytes())
        };
        assert_eq!(pieces(256 << 10), Some(4));
        assert_eq!(pieces(1 << 30), Some(16));
        assert_eq!(pieces(3_000_000), None);
        assert_eq!(pieces(1000), None);
    }

    #[test]
    fn thousands_of_links_on_one_host_have_small_socket_buffers() {
        let buffers = |nodes, hosts: &[Capacity]| {
            let sockets = settled(3, nodes, hosts).0.sockets;
            assert_eq!(sockets.send_buffer_bytes, sockets.receive_buffer_bytes);
            sockets.send_buffer_bytes
        };
        assert_eq!(buffers(64, &[host(64, Some(2), None)]), Some(64 << 10));
        assert_eq!(buffers(45, &[host(45, Some(2), None)]), None);
        assert_eq!(buffers(64, &vec![host(1, Some(2), None); 64]), None);
    }

    #[test]
    fn options_say_what_was_settled_once() {
        let words = |text: &str| -> Vec<(String, String)> {
            let pairs = text.split(' ').filter_map(|word| word.split_once('='));
            pairs.map(|(a, b)| (a.to_owned(), b.to_owned())).collect()
        };
        let mut options = words("phases=3 block-size=256KiB workers=peer pin=auto");
        let (test, _) = settled(3, 64, &[host(64, Some(2), None)]);
        let expected = words(
            "phases=3 block-size=128KiB workers=shared congestion=system sndbuf=64KiB rcvbuf=64KiB pin=auto",
        );
        renew_options(&mut options, &test);
        assert_eq!(options, expected);
        renew_options(&mut options, &test);
        assert_eq!(options, expected);
        let mut options = words("streams=1 block-size=1MiB datapath=auto");
        let mut fast = test_of(2, 8);
        (fast.rails, fast.unasked.datapath) = (2, true);
        renew_options(&mut options, &fast);
        renew_streams(&mut options, &fast);
        let value = |name: &str| options.iter().find(|(known, _)| known == name);
        assert_eq!(value("datapath").unwrap().1, "copy");
        assert_eq!(value("streams").unwrap().1, "4");
    }
}
