//! Wrong results that users met: stored records are changed in the same way, and judged again. Each test is named after the symptom.

use std::fs;
use std::path::Path;

use pipebench::internals::judge::verdict::{self, Judgement};
use pipebench::internals::plan::{Pattern, Sink, Uplink};
use pipebench::internals::record::{HeldBy, LinkRecord, Record, TestRecord, Tuning, VerdictWord};
use pipebench::internals::report::{json, text};

/// Leaves the first tests of a record.
fn keep_tests(record: &mut Record, count: usize) {
    let plan = record.plan.acceptance_mut().expect("an acceptance");
    plan.tests.truncate(count);
    let measured = record.outcome.acceptance_mut().expect("an acceptance");
    measured.tests.truncate(count);
}

fn record(name: &str) -> Record {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let text = fs::read_to_string(golden.join(name).join("record.json")).expect("a stored record");
    json::read(&text).expect("a record")
}

fn judged(record: &Record) -> Judgement {
    verdict::judge(&record.plan, &record.hosts, record.measured())
}

/// Summary of a record, judged again.
fn summary(mut record: Record) -> String {
    let said = judged(&record);
    (record.sheet, record.verdict) = (said.sheet, said.verdict);
    text::summary(&record)
}

fn expect_word(said: &Judgement, word: VerdictWord) {
    let verdict = &said.verdict;
    assert_eq!(verdict.word, word, "{}", verdict.reason);
}

/// Checks the word, and that the reason contains `words`.
fn expect(said: &Judgement, word: VerdictWord, words: &str) {
    expect_word(said, word);
    expect_reason(said, words);
}

/// Checks that the reason contains `words`.
fn expect_reason(said: &Judgement, words: &str) {
    let reason = &said.verdict.reason;
    assert!(reason.contains(words), "{reason}");
}

fn node(test: &mut TestRecord, number: usize) -> &mut pipebench::internals::record::NodeRecord {
    test.nodes[number].as_mut().expect("a node that reported")
}

/// Symptom: 72.85 Gbit/s on a port of 200 Mbit/s, and "FAIL n4 receive: 0.00 of 0.00 Gbit/s (0.0 %)". One node had counted for 0.2 ms.
#[test]
fn a_host_robbed_of_its_processors_for_seconds_fails_no_port() {
    let mut record = record("acceptance");
    let test = &mut record.tests_mut()[0];
    node(test, 3).interval_ns = 200_000;
    for link in test.links.iter_mut().filter(|link| link.lane.to == 3) {
        (link.interval_ns, link.interval_bytes) = (200_000, 20 << 20);
    }
    // The test is repeated first.
    let said = judged(&record);
    let again: Vec<Option<usize>> = said.open.iter().map(|request| request.again).collect();
    assert_eq!(again, [Some(0)]);
    // If that is not possible, the verdict names the hosts and no port.
    expect_word(&said, VerdictWord::HostLimited);
    let reason =
        "test 1 did not run as planned: n4 counted for 200 µs instead of the window of 3 s";
    expect_reason(&said, reason);
    assert!(said.sheet.faults.is_empty(), "{:?}", said.sheet.faults);
}

#[test]
fn windows_that_lie_far_apart_are_no_evidence() {
    let mut record = record("acceptance");
    record.tests_mut()[0].skew_ns = Some(400_000_000);
    let said = judged(&record);
    expect_word(&said, VerdictWord::HostLimited);
    let reason = "test 1 did not run as planned: the nodes' windows of 3 s are 400 ms apart";
    expect_reason(&said, reason);
}

/// Symptom: "no criteria given" and a note to give --link-speed, where both were given and all nodes were on one host.
#[test]
fn a_run_on_one_host_says_that_it_has_no_switch() {
    let mut record = record("one-host");
    record.plan.criteria.min_rate_bits_per_s = Some(1_000_000_000);
    for node in &mut record.plan.nodes {
        node.speed_bits_per_s = Some(10_000_000_000);
    }
    let said = judged(&record);
    let reason = "all nodes are on one host, with no switch between them";
    expect(&said, VerdictWord::NotJudged, reason);
    let text = summary(record);
    let headline = text.lines().next().unwrap_or_default();
    assert!(headline.contains("on one host, no switch: "), "{text}");
    assert!(headline.len() <= 80, "{text}");
    assert!(!text.contains("no criteria"), "{text}");
    assert!(!text.contains("--link-speed"), "{text}");
}

/// Symptom: "no port's speed is known", though --min-rate had given a floor.
#[test]
fn a_floor_without_speeds_says_what_to_add() {
    let mut record = record("acceptance");
    record.plan.criteria.min_rate_bits_per_s = Some(90_000_000);
    for node in &mut record.plan.nodes {
        node.speed_bits_per_s = None;
    }
    for host in &mut record.hosts {
        let interfaces = host.facts.interfaces.iter_mut();
        interfaces.for_each(|one| one.speed_mbit = None);
    }
    let reason = "--min-rate needs --link-speed where a port's speed is unknown";
    expect(&judged(&record), VerdictWord::NotJudged, reason);
}

/// Symptom: "NOT JUDGED (no criteria given)", and exit 0, because no test was left.
#[test]
fn a_host_robbed_in_every_test_is_named() {
    let mut record = record("acceptance");
    for test in record.tests_mut() {
        node(test, 3).interval_ns = 200_000;
    }
    let said = judged(&record);
    expect_word(&said, VerdictWord::HostLimited);
    let reason =
        "test 1 did not run as planned: n4 counted for 200 µs instead of the window of 3 s";
    expect_reason(&said, reason);
}

/// Symptom: exit 0, and no word.
#[test]
fn a_run_in_which_nothing_moved_is_invalid() {
    let mut record = record("acceptance");
    for test in record.tests_mut() {
        for link in &mut test.links {
            link.interval_bytes = 0;
        }
    }
    let said = judged(&record);
    expect(&said, VerdictWord::Invalid, "no byte arrived on any link");
    assert!(said.sheet.faults.is_empty(), "{:?}", said.sheet.faults);
}

/// Symptom: "0 of 3 connections through it were limited by the network", and still FAIL.
#[test]
fn waits_that_contradict_a_blame_veto_it() {
    let mut record = record("slow-receiver");
    assert_eq!(judged(&record).verdict.word, VerdictWord::Fail);
    for link in record
        .tests_mut()
        .iter_mut()
        .flat_map(|test| &mut test.links)
    {
        link.held_by = pipebench::internals::record::HeldBy::Mixed;
    }
    let said = judged(&record);
    expect_word(&said, VerdictWord::Undecided);
    let reason = "but the network limited none of its connections: the hosts did";
    expect_reason(&said, reason);
}

/// One test of twenty seconds. `carried` returns the share of its stored mean rate that host 2 receives in each second.
fn over_twenty_seconds(carried: fn(u64) -> f64) -> Record {
    const SECOND_NS: u64 = 1_000_000_000;
    let mut record = record("acceptance");
    keep_tests(&mut record, 1);
    record.plan.tests_mut()[0].bound = pipebench::internals::plan::Bound::Time {
        warmup_ns: 2 * SECOND_NS,
        window_ns: 20 * SECOND_NS,
    };
    let mean = (0..20).map(carried).sum::<f64>() / 20.0;
    let test = &mut record.tests_mut()[0];
    test.window_ns = Some(20 * SECOND_NS);
    for number in 0..4 {
        node(test, number).interval_ns = 20 * SECOND_NS;
    }
    let mut received = [0; 4];
    for link in &mut test.links {
        let part = if link.lane.to == 1 { mean } else { 1.0 };
        let bytes = link.interval_bytes as f64 * 20e9 / link.interval_ns as f64;
        link.interval_bytes = numbers::whole(bytes * part);
        (link.interval_ns, link.sender_interval_ns) = (20 * SECOND_NS, 20 * SECOND_NS);
        received[link.lane.to] += link.interval_bytes;
    }
    let second = |number: u64| {
        let bytes = |to: usize| {
            let part = if to == 1 { carried(number) / mean } else { 1.0 };
            numbers::whole(received[to] as f64 / 20.0 * part)
        };
        pipebench::internals::record::Second {
            at_ns: (number + 3) * SECOND_NS,
            received_bytes: (0..4).map(bytes).collect(),
            // In a ring, the host that sends to host 2 is held up.
            sent_bytes: (0..4).map(|from| bytes((from + 1) % 4)).collect(),
            same_host_bytes: vec![0; 4],
            own_bytes: vec![0; 4],
        }
    };
    test.seconds = (0..20).map(second).collect();
    record
}

/// Symptom: PASS with a mean of 91 %, although the port was at half speed in the last fifth.
#[test]
fn a_port_that_is_slow_for_a_part_of_the_window_does_not_hide_in_its_mean() {
    let record = over_twenty_seconds(|second| if second < 17 { 1.0 } else { 0.5 });
    let said = judged(&record);
    assert!(!said.open.is_empty(), "it is to be looked at");
    let receive = said.sheet.ports[1].receive.expect("it was loaded");
    let stretch = receive.stretch.expect("a stretch");
    assert_eq!((stretch.test, stretch.from_s, stretch.seconds), (0, 19, 2));
    let of_mean = receive.rate_bits_per_s / stretch.mean_bits_per_s;
    assert!((of_mean - 0.5 / 0.925).abs() < 0.01, "{of_mean}");
    // As before, a sound port needs no second look.
    let sound = over_twenty_seconds(|second| 1.0 - 0.03 * (second % 3) as f64);
    let said = judged(&sound);
    expect_word(&said, VerdictWord::Pass);
    assert!(said.open.is_empty(), "{:?}", said.open);
}

/// Symptom: a rate that fell from 200 to 120 Mbit/s, with a mean above the floor of 75 %.
#[test]
fn a_port_that_degrades_is_short_where_the_window_ends() {
    let mut record = over_twenty_seconds(|second| 1.0 - 0.02 * second as f64);
    record.plan.criteria.floor = 0.75;
    let said = judged(&record);
    assert!(!said.open.is_empty(), "it is to be looked at");
    let receive = said.sheet.ports[1].receive.expect("it was loaded");
    assert_eq!(receive.stretch.expect("a stretch").from_s, 20);
}

/// Symptom: PASS with a mean above the floor of 85 %, although the port stalled for 300 ms in every 3 s.
#[test]
fn a_port_that_stalls_in_every_third_second_does_not_hide_in_its_mean() {
    let mut record = over_twenty_seconds(|second| if second % 3 == 2 { 0.7 } else { 1.0 });
    record.plan.criteria.floor = 0.85;
    let said = judged(&record);
    assert!(!said.open.is_empty(), "it is to be looked at");
    let receive = said.sheet.ports[1].receive.expect("it was loaded");
    assert_eq!(receive.stretch.expect("a stretch").seconds, 2);
}

/// A guest sees neither its card nor the machines that share it.
#[test]
fn a_virtual_card_that_is_slow_is_not_the_switch() {
    let mut record = record("slow-receiver");
    let fault = judged(&record).sheet.faults[0].clone();
    let pipebench::internals::record::Culprit::Receive(port) = fault.culprit else {
        panic!("{fault:?}");
    };
    let own = record.sheet.ports[port].node;
    let interface = |record: &mut Record, node: usize| {
        let name = record.hosts[node].rails[0].interface.clone();
        let all = &mut record.hosts[node].facts.interfaces;
        let at = all.iter().position(|one| Some(&one.name) == name.as_ref());
        at.expect("its interface")
    };
    // A virtual card of another host excuses nothing.
    let other = (own + 1) % record.hosts.len();
    let at = interface(&mut record, other);
    record.hosts[other].facts.interfaces[at].virtual_card = Some("virtio_net".to_owned());
    assert_eq!(judged(&record).verdict.word, VerdictWord::Fail);
    let at = interface(&mut record, own);
    record.hosts[own].facts.interfaces[at].virtual_card = Some("iavf".to_owned());
    let said = judged(&record);
    expect_word(&said, VerdictWord::Undecided);
    let reason = "confirmed in isolation; but the switch need not be the cause: ";
    let why = "is a virtual card (iavf), and its host cannot see what shares the physical card";
    expect_reason(&said, reason);
    expect_reason(&said, why);
    let text = summary(record.clone());
    assert!(
        text.contains("to decide: test the port with a host that does not share its card"),
        "{text}"
    );
    assert!(text.contains("is a virtual card (virtio_net)"), "{text}");
    // A bond distributes connections by its hash.
    let one = &mut record.hosts[own].facts.interfaces[at];
    one.virtual_card = None;
    one.bond = Some("802.3ad, layer2".to_owned());
    one.members = vec!["eth0".to_owned(), "eth1".to_owned()];
    let said = judged(&record);
    expect_word(&said, VerdictWord::Undecided);
    let why = "is a bond of 2 cards (802.3ad, layer2), whose hash may put several connections on one card";
    expect_reason(&said, why);
}

/// Symptom: "a core that served its links was 97 % busy", without the setting that kept it busy.
#[test]
fn a_host_at_its_limit_is_named_with_the_setting_that_costs_rate() {
    let mut record = record("slow-receiver");
    let pipebench::internals::record::Culprit::Receive(port) =
        judged(&record).sheet.faults[0].culprit
    else {
        panic!("a port that receives is slow");
    };
    let own = record.sheet.ports[port].node;
    for test in record.tests_mut() {
        node(test, own).serving_core = Some((0.97, 0.9));
    }
    expect_word(&judged(&record), VerdictWord::HostLimited);
    for host in &mut record.hosts {
        let eth0 = host.facts.interfaces.iter_mut();
        for one in eth0.filter(|one| one.name == "eth0") {
            one.tuning = vec![Tuning {
                interface: "eth0".to_owned(),
                device: true,
                off: vec!["gro".to_owned()],
                ..Tuning::default()
            }];
        }
    }
    // The other hosts have the same setting, which excuses nothing.
    let said = judged(&record);
    expect_word(&said, VerdictWord::HostLimited);
    let why = "90 % of that with packets; eth0: GRO is off (as root: ethtool -K eth0 gro on)";
    expect_reason(&said, why);
    assert_eq!(said.sheet.faults.len(), 1);
}

/// Symptom: "101.4 %", without a reason for the excess.
#[test]
fn a_share_above_100_says_where_it_comes_from() {
    let beyond = |part: f64| {
        let mut record = record("acceptance");
        let ceiling = record.sheet.ports[1].ceiling_bits_per_s.expect("a speed");
        let test = &mut record.tests_mut()[0];
        let into = |link: &&mut LinkRecord| link.lane.to == 1 && link.crosses_switch;
        let links = test
            .links
            .iter()
            .filter(|link| link.lane.to == 1 && link.crosses_switch);
        let each = ceiling * part / links.count() as f64;
        for link in test.links.iter_mut().filter(into) {
            link.interval_bytes = numbers::whole(each * link.interval_ns as f64 / 8e9);
        }
        judged(&record)
            .sheet
            .remarks
            .into_iter()
            .find(|one| one.contains("n2 receive"))
    };
    assert_eq!(beyond(1.016), None);
    let told = "n2 receive carried 102.9 % of its ceiling in test 1, and 1 more did, too: a shaper's burst, or bytes that arrived before the window and \
        waited for a retransmit";
    assert_eq!(beyond(1.03).as_deref(), Some(told));
    let told = "n2 receive carried 119.9 % of its ceiling in test 1, and 1 more did, too: is the port faster than specified?";
    assert_eq!(beyond(1.2).as_deref(), Some(told));
}

/// Symptom: "waited for its receive window", and its three healthy partners were HOST-LIMITED as well. The file was on a disk of 5 MB/s.
#[test]
fn a_slow_sink_is_named_and_none_of_its_partners() {
    let mut record = record("acceptance");
    for test in record.plan.tests_mut() {
        test.sink = Sink::File("/scratch/%n".to_owned());
    }
    for link in record
        .tests_mut()
        .iter_mut()
        .flat_map(|test| &mut test.links)
    {
        if link.lane.to == 1 && link.crosses_switch {
            link.interval_bytes /= 5;
            link.waits.waiting_for_slot_ns = link.interval_ns / 10 * 7;
            link.held_by = HeldBy::HeldBack;
        }
    }
    let said = judged(&record);
    expect(
        &said,
        VerdictWord::HostLimited,
        "test 1 did not run as planned: n2 wrote 18.40 Mbit/s",
    );
    expect_reason(
        &said,
        "to /scratch/%n, and its receivers waited for these writes 70 % of the time",
    );
    assert!(said.sheet.faults.is_empty() && said.open.is_empty());
    // A sink that keeps up says nothing about its disk.
    for link in record
        .tests_mut()
        .iter_mut()
        .flat_map(|test| &mut test.links)
    {
        link.waits.waiting_for_slot_ns = 0;
    }
    let told = "the hosts wrote files into their page cache: no figure here is the rate of a disk";
    assert!(judged(&record).sheet.remarks.contains(&told.to_owned()));
}

/// A stored run of four hosts as two leaves of two hosts, with uplinks of this speed, cut to its first `tests` tests.
fn leaves(name: &str, uplink_bits_per_s: u64, tests: usize) -> Record {
    let mut record = record(name);
    keep_tests(&mut record, tests);
    for (number, node) in record.plan.nodes.iter_mut().enumerate() {
        node.group = Some(if number < 2 { "a" } else { "b" }.to_owned());
    }
    let uplink = |group: &str| Uplink {
        group: group.to_owned(),
        bits_per_s: uplink_bits_per_s,
    };
    record.plan.criteria.uplinks = vec![uplink("a"), uplink("b")];
    record
}

/// Symptom: PASS, although the ordered uplinks were never full.
#[test]
fn an_uplink_that_no_test_filled_does_not_pass() {
    let said = judged(&leaves("acceptance", 10_000_000_000, 3));
    expect(
        &said,
        VerdictWord::Undecided,
        "uplink of a, out: at most 0.18",
    );
    expect_reason(
        &said,
        "of 10.00 Gbit/s, no test filled it; its hosts can fill 18",
    );
    expect_reason(&said, "of it: name more of its hosts");
    let said = judged(&leaves("acceptance", 200_000_000, 1));
    expect(
        &said,
        VerdictWord::Undecided,
        "no test filled it; --pattern rotate fills it, since all its hosts then send to others at once",
    );
}

/// Symptom: PASS of a non-blocking switch of which one port was loaded.
#[test]
fn a_switch_that_was_not_loaded_as_a_whole_does_not_pass_as_non_blocking() {
    let mut record = record("acceptance");
    record.plan.criteria.non_blocking = true;
    expect_word(&judged(&record), VerdictWord::Pass);
    keep_tests(&mut record, 1);
    record.plan.tests_mut()[0].pattern = Pattern::Links(vec![(0, 1)]);
    record.tests_mut()[0]
        .links
        .retain(|link| (link.lane.from, link.lane.to) == (0, 1));
    let said = judged(&record);
    expect(
        &said,
        VerdictWord::Undecided,
        "--fabric non-blocking: no test loaded all ports at once in both directions (--pattern rotate does)",
    );
}

/// Symptom: NOT JUDGED, and exit 0, because only the uplinks were judged.
#[test]
fn a_port_that_was_seen_behind_a_full_uplink_only_does_not_pass() {
    let said = judged(&leaves("slow-uplink", 62_000_000, 1));
    expect(
        &said,
        VerdictWord::Undecided,
        "n1 send: an uplink on its path was full in every test, so no test shows what the port itself can carry",
    );
}

/// Symptom: "weakest n4 receive 99.6 %" above a row with 59 %.
#[test]
fn the_weakest_port_says_what_it_leaves_out() {
    let mut record = leaves("acceptance", 100_000_000, 3);
    let test = &mut record.tests_mut()[1];
    for link in test.links.iter_mut().filter(|link| link.crosses_switch) {
        link.interval_bytes /= 2;
    }
    let said = judged(&record);
    expect_word(&said, VerdictWord::Pass);
    let told = "figures of 8 port directions leave out tests in which an uplink on their path was full: there the uplink is judged, by its sum";
    assert!(
        said.sheet.remarks.contains(&told.to_owned()),
        "{:?}",
        said.sheet.remarks
    );
}

/// Symptom: ports at 47 % of their rate had the word PASS, because they were full in a look at each alone. The word and the share must come from
/// one measurement.
#[test]
fn no_direction_passes_with_a_share_below_its_floor() {
    for name in [
        "acceptance",
        "backplane",
        "slow-pair",
        "slow-receiver",
        "slow-uplink",
        "undecided",
    ] {
        let record = record(name);
        let sheet = judged(&record).sheet;
        let ports = sheet
            .ports
            .iter()
            .flat_map(|port| [port.send, port.receive]);
        let uplinks = sheet.uplinks.iter().flat_map(|one| [one.up, one.down]);
        for one in ports.chain(uplinks).flatten() {
            let floor = one.floor.unwrap_or(record.plan.criteria.floor);
            if one.word == VerdictWord::Pass {
                assert!(
                    one.share.is_some_and(|share| share >= floor),
                    "{name}: {one:?}"
                );
            }
            if one.word == VerdictWord::NotJudged {
                assert_eq!(one.share, None, "{name}: {one:?}");
            }
        }
    }
}

/// Symptom: the rows of a switch that carries 60 % of its ports said PASS with 102 %, and not that each port had carried half of its rate.
#[test]
fn a_port_that_is_short_only_because_the_fabric_is_keeps_that_figure() {
    let sheet = judged(&record("backplane")).sheet;
    for port in &sheet.ports {
        for one in [port.send, port.receive] {
            let one = one.expect("it was loaded");
            assert_eq!(one.word, VerdictWord::Pass);
            let limited = one.limited.expect("the fabric limited it");
            let share = limited.rate_bits_per_s / limited.expected_bits_per_s;
            assert!(limited.always && (0.4..0.8).contains(&share), "{one:?}");
        }
    }
}

/// Symptom: two hosts stood in each other's groups. The run showed five lines UNDECIDED and an uplink at 147 %, and did not mention the groups.
#[test]
fn an_uplink_that_carries_more_than_was_specified_asks_for_its_groups() {
    let told = |uplink_bits_per_s| {
        let said = judged(&leaves("acceptance", uplink_bits_per_s, 3));
        let mut remarks = said.sheet.remarks.into_iter();
        remarks.find(|one| one.starts_with("uplink a "))
    };
    let asked = told(100_000_000).expect("a remark");
    let words = "uplink a is specified with 100.0 Mbit/s but carried 183.7 Mbit/s in test 2: ";
    assert!(asked.starts_with(words), "{asked}");
    assert!(
        asked.ends_with(": do its hosts (group=) and its speed (--uplink) match the switch?"),
        "{asked}"
    );
    assert_eq!(told(400_000_000), None);
}
