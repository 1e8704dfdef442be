//! Records put together from reports that nodes of a test could send.

use super::*;
use crate::judge::verdict;
use crate::plan::{Pattern, Sink};
use crate::record::{EndCount, InterfaceCounters, LinkSums, Record};

/// Report of a node whose counters all went from zero to the largest number.
fn report(ends: &[(EndRole, usize, usize)]) -> NodeReport {
    let most = u64::MAX;
    let tcp = TcpInfo {
        retransmits: most,
        busy_us: most,
        window_limited_us: most,
        ..TcpInfo::default()
    };
    let end = |(role, boundary, slot): &(EndRole, usize, usize)| EndReport {
        role: *role,
        boundary: *boundary,
        slot: *slot,
        finished: true,
        lost: false,
        bytes: most,
        blocks: most,
        cpu_ns: most,
        tcp: [Some(TcpInfo::default()), Some(tcp), Some(tcp)],
    };
    let count = EndCount {
        at_ns: most,
        bytes: most,
        activity_ns: [most; 4],
        cpu_ns: most,
        run_delay_ns: most,
        turns: most,
        is_ready: false,
    };
    let edge = |after_ns: u64, count: EndCount| Edge {
        before_ns: 0,
        after_ns,
        ends: vec![count; ends.len()],
        ..Edge::default()
    };
    NodeReport {
        complete: true,
        rung_ns: Some(0),
        done_ns: Some(most),
        edges: vec![edge(most, EndCount::default()), edge(0, count)],
        ends: ends.iter().map(end).collect(),
        strangers: most,
        senders: Vec::new(),
        receivers: Vec::new(),
        backlog_drops: [0, most],
        interfaces: [
            vec![("eth0".to_owned(), InterfaceCounters::default())],
            vec![(
                "eth0".to_owned(),
                InterfaceCounters {
                    sent_bytes: most,
                    sent_packets: most,
                    received_packets: most,
                    ..InterfaceCounters::default()
                },
            )],
        ],
    }
}

/// Report of one of the two nodes of a record, with all its link ends.
fn of_node(own: &Record, node: usize) -> NodeReport {
    let lanes = lanes::all(&own.plan.tests()[0], 2).into_iter();
    let ends = lanes.flat_map(|lane| {
        let from = (lane.from == node).then_some((EndRole::Sender, lane.boundary, lane.from_slot));
        let to = (lane.to == node).then_some((EndRole::Receiver, lane.boundary, lane.to_slot));
        from.into_iter().chain(to)
    });
    report(&ends.collect::<Vec<_>>())
}

/// Symptom: with 1,000 nodes, the links of all nodes were searched once for each node.
#[test]
fn a_node_has_the_sums_of_its_own_links_and_of_no_others() {
    let text = include_str!("../../../tests/golden/two-hosts/record.json");
    let own: Record = serde_json::from_str(text).unwrap();
    let mut reports = [0, 1].map(|node| of_node(&own, node));
    let mut bytes = 1;
    for count in reports.iter_mut().flat_map(|one| &mut one.edges[1].ends) {
        (count.bytes, count.cpu_ns) = (bytes, 1);
        bytes *= 2;
    }
    let both = [Some(&reports[0]), Some(&reports[1])];
    let offsets = [Offset::default(); 2];
    let is_lost = |_: usize| false;
    let made = |is_over: &dyn Fn() -> bool| {
        let offsets = [&offsets[..]; 2];
        from_reports(&own.plan, 0, &own.hosts, &both, &is_lost, offsets, is_over)
    };
    // Symptom: Ctrl-C did not end this.
    assert!(made(&|| true).is_none());
    let made = made(&|| false).unwrap();
    for (number, node) in made.nodes.iter().enumerate() {
        let node = node.as_ref().unwrap();
        let into = |crosses: bool| {
            let into = made.links.iter().filter(move |link| link.lane.to == number);
            let into = into.filter(move |link| link.crosses_switch == crosses);
            sum(into.map(|link| link.interval_bytes))
        };
        assert_eq!(
            (node.received_bytes, node.same_host_bytes),
            (into(true), into(false))
        );
        let out = made.links.iter().filter(|link| link.lane.from == number);
        assert_eq!(node.cpu.senders_ns, out.clone().count() as u64);
        let crossing = out.filter(|link| link.crosses_switch);
        assert_eq!(node.retransmits, sum(crossing.map(LinkRecord::retransmits)));
    }
    assert_ne!(
        made.nodes[0].as_ref().unwrap().received_bytes,
        made.nodes[1].as_ref().unwrap().received_bytes
    );
}

#[test]
fn counters_of_a_node_that_are_too_large_to_be_added_do_not_end_the_launching_side() {
    let text = include_str!("../../../tests/golden/two-hosts/record.json");
    let own: Record = serde_json::from_str(text).unwrap();
    let (first, second) = (of_node(&own, 0), of_node(&own, 1));
    let far = Offset {
        offset_ns: i64::MIN,
        uncertainty_ns: u64::MAX,
    };
    let made = from_reports(
        &own.plan,
        0,
        &own.hosts,
        &[Some(&first), Some(&second)],
        &|_| false,
        [&[far; 2], &[far; 2]],
        &|| false,
    );
    let made = made.unwrap();
    let node = made.nodes[0].as_ref().unwrap();
    assert_eq!(node.sent_bytes, u64::MAX);
    assert_eq!(node.cpu.senders_ns, u64::MAX);
    assert_eq!(made.skew_ns, Some(u64::MAX));
}

#[test]
fn what_waited_in_a_socket_when_the_window_began_is_not_counted_in_it() {
    let unread = |unread_bytes| {
        Some(TcpInfo {
            unread_bytes,
            ..TcpInfo::default()
        })
    };
    let mut one = report(&[(EndRole::Receiver, 0, 0)]);
    one.ends[0].tcp = [unread(400), unread(100), None];
    for (edge, bytes) in one.edges.iter_mut().zip([1000, 6000]) {
        edge.ends[0].bytes = bytes;
    }
    assert_eq!(ends::counted(&one, 0).bytes, 4700);
    // Unread bytes in a sender's socket are answers, not payload.
    one.ends[0].role = EndRole::Sender;
    assert_eq!(ends::counted(&one, 0).bytes, 5000);
}

/// Regression: a worker with little work was ready at both edges of a two-second window by chance, and its host counted as one
/// without processors.
#[test]
fn a_process_that_had_its_turns_was_not_starved_though_it_was_ready_at_both_edges() {
    let waited = |turns, cpu_ns, run_delay_ns| {
        let mut one = report(&[(EndRole::Sender, 0, 0)]);
        for (edge, at_ns) in one.edges.iter_mut().zip([0, 2_000_000_000]) {
            edge.ends[0] = EndCount {
                at_ns,
                is_ready: true,
                ..EndCount::default()
            };
        }
        let last = &mut one.edges[1].ends[0];
        (last.turns, last.cpu_ns, last.run_delay_ns) = (turns, cpu_ns, run_delay_ns);
        ends::counted(&one, 0).run_delay_ns
    };
    assert_eq!(waited(300, 8_000_000, 5_000_000), 5_000_000);
    assert_eq!(waited(2, 8_000_000, 5_000_000), 1_992_000_000);
    assert_eq!(waited(0, 2_000_000_000, 0), 0, "it ran all the time");
}

/// Two nodes whose link ends have different figures, each with and without its ends reduced to sums.
#[test]
fn ends_reduced_to_sums_make_the_same_results_of_nodes_and_ports() {
    let text = include_str!("../../../tests/golden/two-hosts/record.json");
    let own: Record = serde_json::from_str(text).unwrap();
    let mut whole = [0, 1].map(|node| of_node(&own, node));
    let mut number = 1000;
    for report in &mut whole {
        for edge in &mut report.edges {
            (edge.before_ns, edge.after_ns) = (0, 0);
        }
        report.edges[1].before_ns = 2_000_000_000;
        for (end, count) in report.ends.iter_mut().zip(&mut report.edges[1].ends) {
            number += 1;
            *count = EndCount {
                at_ns: 1_000_000_000 + number,
                bytes: 1_000_000 * number,
                activity_ns: [1, number, 800_000_000, 2],
                cpu_ns: number,
                run_delay_ns: 3,
                turns: number,
                is_ready: false,
            };
            (end.bytes, end.blocks, end.tcp) = (7_000_000_000, 70, [None; 3]);
            if end.role == EndRole::Sender {
                let account = |retransmits, busy_us| TcpInfo {
                    retransmits,
                    busy_us,
                    rtt_us: number,
                    path_mtu_bytes: 1500,
                    retransmitted_bytes: number,
                    segments_in: 10 * busy_us,
                    ..TcpInfo::default()
                };
                let all = [
                    account(5, 1),
                    account(5 + number, 900_000),
                    account(9999, 9),
                ];
                end.tcp = all.map(Some);
            }
        }
    }
    let reduced = whole.clone().map(|report| ends::reduced(report, true));
    let made = |reports: &[NodeReport; 2], keeps_links: bool| {
        let nodes = Nodes {
            plan: &own.plan,
            hosts: &own.hosts,
            reports: &[Some(&reports[0]), Some(&reports[1])],
            is_lost: &|_| false,
        };
        let offsets = [Offset::default(); 2];
        let (mut told, offsets) = (Vec::new(), [&offsets[..]; 2]);
        let mut tell = |link: &LinkRecord, rate: f64| told.push((link.lane, rate));
        let record = nodes.record(0, offsets, keeps_links, &|| false, &mut tell);
        (record.unwrap(), told)
    };
    let ((links, rates), (sums, same_rates)) = (made(&whole, true), made(&reduced, false));
    assert_eq!((&links.nodes, rates), (&sums.nodes, same_rates));
    assert_eq!(links.conservation, sums.conservation);
    assert_eq!((&links.wires, links.complete), (&sums.wires, sums.complete));
    assert!(links.nodes[0].as_ref().unwrap().retransmits > 1000);
    let all = sums.sums.as_ref().unwrap();
    let counts = (all.links, sums.crossing_links(), sums.crosses_switch());
    let expected = (links.links.len(), links.crossing_links(), true);
    assert_eq!(counts, expected);
    let none = LinkSums {
        ports: vec![Default::default()],
        ..LinkSums::default()
    };
    for (node, both) in all.ports.iter().enumerate() {
        for (sum, sends) in both.iter().zip([true, false]) {
            let mut port = none.ports[0][0];
            let end = |lane: &Lane| if sends { lane.from } else { lane.to };
            let own = links.links.iter().filter(|link| link.crosses_switch);
            for link in own.filter(|link| end(&link.lane) == node) {
                port.add(link, links.rate_of(link) * 1e9, false);
            }
            assert!(port.links > 0 && port.acks_per_s >= 0.0);
            assert_eq!(*sum, port);
        }
    }
    // The kept links lack only the kernel's sums of before the window.
    let kept = sums
        .links
        .iter()
        .map(|link| (link.lane, link.waits, link.held_by));
    let crossing = links.links.iter().filter(|link| link.crosses_switch);
    let crossing = crossing.map(|link| (link.lane, link.waits, link.held_by));
    assert!(kept.eq(crossing));
    assert_eq!(
        sums.links[0].tcp.unwrap().1.rtt_us,
        links.links[1].tcp.unwrap().1.rtt_us
    );
}

/// A test as its record would be if it had too many links to keep.
fn summed(record: &Record, test: &TestRecord) -> TestRecord {
    let lanes: Vec<Lane> = test.links.iter().map(|link| link.lane).collect();
    let planned = &record.plan.tests()[test.test];
    let crosses_switch = lanes.iter().any(|lane| crosses(&record.hosts, lane));
    let mut sums = Sums::new(&record.plan, planned, crosses_switch);
    for link in &test.links {
        sums.add(link.clone(), test.rate_of(link), true);
    }
    let mut summed = test.clone();
    sums.note(&mut summed);
    summed
}

/// The same run with sums in place of links in each test in which all nodes send to all.
fn without_links(own: &Record) -> Record {
    with_sums(own, |pattern| {
        matches!(pattern, Pattern::AllToAll | Pattern::Mesh)
    })
}

/// The same run with sums in place of links in each test of these patterns.
fn with_sums(own: &Record, has_sums: fn(&Pattern) -> bool) -> Record {
    let mut other = own.clone();
    for (number, test) in own.tests().iter().enumerate() {
        let pattern = &own.plan.tests()[test.test].pattern;
        if has_sums(pattern) {
            other.outcome.acceptance_mut().unwrap().tests[number] = summed(own, test);
        }
    }
    assert!(other.tests().iter().any(|test| test.sums.is_some()));
    other
}

#[test]
fn an_uplink_that_is_slow_in_sums_is_the_fault_and_no_port_is() {
    let text = include_str!("../../../tests/golden/slow-uplink/record.json");
    let own: Record = serde_json::from_str(text).unwrap();
    let verdict = |record: &Record| {
        let said = verdict::judge(&record.plan, &record.hosts, record.measured());
        (said.verdict.word, said.sheet.faults.len(), said.open.len())
    };
    assert_eq!(verdict(&without_links(&own)), verdict(&own));
}

/// A single link that recovers its rate is not seen in sums: among thousands it changes no port.
#[test]
fn a_run_has_the_verdict_of_its_links_if_its_record_has_their_sums() {
    for text in [
        include_str!("../../../tests/golden/acceptance/record.json"),
        include_str!("../../../tests/golden/losses/record.json"),
        include_str!("../../../tests/golden/host-limited/record.json"),
    ] {
        let own: Record = serde_json::from_str(text).unwrap();
        let other = without_links(&own);
        let said = |record: &Record| {
            let said = verdict::judge(&record.plan, &record.hosts, record.measured());
            let words = said.sheet.directions();
            let words = words.map(|(_, _, one)| (one.word, one.rate_bits_per_s.round()));
            (said.verdict, words.collect::<Vec<_>>())
        };
        assert_eq!(said(&other), said(&own));
    }
}

/// Symptom: permutations of an acceptance have as many links as its mesh, so from 92 hosts on their records had sums. Then no losses and no pairs were
/// judged, and a port that lost frames passed.
#[test]
fn permutations_with_sums_tell_what_pairs_carry_and_lose() {
    for text in [
        include_str!("../../../tests/golden/acceptance/record.json"),
        include_str!("../../../tests/golden/losses/record.json"),
        include_str!("../../../tests/golden/slow-pair/record.json"),
        include_str!("../../../tests/golden/slow-receiver/record.json"),
        include_str!("../../../tests/golden/backplane/record.json"),
    ] {
        let own: Record = serde_json::from_str(text).unwrap();
        let other = with_sums(&own, |pattern| matches!(pattern, Pattern::Shift(_)));
        let said = |record: &Record| {
            let said = verdict::judge(&record.plan, &record.hosts, record.measured());
            let words = said.sheet.directions();
            let words = words.map(|(_, _, one)| (one.word, one.rate_bits_per_s.round()));
            let words = words.collect::<Vec<_>>();
            (said.verdict, words, said.open.len())
        };
        assert_eq!(said(&other), said(&own));
    }
}

/// Symptom: hosts whose disks were slow were the reason of no verdict if the record had sums, and their ports fell short.
#[test]
fn a_slow_sink_is_the_reason_in_sums_as_in_links() {
    let text = include_str!("../../../tests/golden/undecided/record.json");
    let mut own: Record = serde_json::from_str(text).unwrap();
    own.plan.tests_mut()[0].sink = Sink::File("/data/%n".to_owned());
    for link in &mut own.tests_mut()[0].links {
        link.waits.waiting_for_slot_ns = link.interval_ns;
    }
    let said = |record: &Record| {
        let said = verdict::judge(&record.plan, &record.hosts, record.measured());
        said.verdict.reason
    };
    let reason = said(&without_links(&own));
    assert!(
        reason.contains(" to /data/%n, and its receivers"),
        "{reason}"
    );
    assert_eq!(reason, said(&own));
}

/// Symptom: a sheet of a test with sums did not say that a slow pair changes no sum enough to be seen.
#[test]
fn a_sheet_by_sums_says_that_no_test_shows_pairs() {
    let says_so = |text: &str| {
        let own: Record = serde_json::from_str(text).unwrap();
        let other = without_links(&own);
        let said = verdict::judge(&other.plan, &other.hosts, other.measured());
        let mut remarks = said.sheet.remarks.iter();
        remarks.any(|one| one.contains("a slow pair of hosts can stay unseen (permutations"))
    };
    let mesh = include_str!("../../../tests/golden/slow-uplink/record.json");
    let with_permutations = include_str!("../../../tests/golden/acceptance/record.json");
    assert!(says_so(mesh));
    assert!(!says_so(with_permutations));
}
