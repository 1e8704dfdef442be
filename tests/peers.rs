//! Tests the arithmetic and the command lines of the benchmark `peers`: pure parts, no traffic. They are here because
//! cargo does not run tests inside a benchmark.

#[path = "../benches/peers/cases.rs"]
mod cases;
#[path = "../benches/peers/page.rs"]
#[expect(
    dead_code,
    reason = "the page itself is written by the benchmark alone"
)]
mod page;
#[path = "../benches/peers/peers.rs"]
mod peers;
#[path = "../benches/peers/table.rs"]
mod table;

use std::net::Ipv4Addr;

use cases::{CASES, Case, Comparison, Runner, entrants};
use table::{Row, Sample, Side, Table};

fn case(name: &str) -> &'static Case {
    let found = CASES.iter().find(|case| case.name == name);
    found.expect("a case of that name")
}

fn row(name: &str, side: Side, zero_copy: bool, rates: &[f64]) -> Row {
    let sample = |rate: &f64| Sample {
        gb_per_s: *rate,
        cpu_s_per_gb: 0.1,
    };
    // A rate of zero means a rejected run.
    let samples = rates.iter().map(|rate| (*rate > 0.0).then(|| sample(rate)));
    Row {
        name: name.to_owned(),
        side,
        zero_copy,
        samples: samples.collect(),
    }
}

#[test]
fn copying_is_held_against_copying_and_pairs_are_of_the_same_round() {
    let own = |comparison, mark| Side::Own { comparison, mark };
    let (default, tuned) = (
        Side::Peer { is_default: true },
        Side::Peer { is_default: false },
    );
    let [people, like] = [Comparison::AsPeopleRunIt, Comparison::LikeForLike];
    let rows = vec![
        row("own", own(people, 1.6), false, &[9.0, 8.0, 10.0]),
        row("own tcp", own(like, 1.0), false, &[9.0, 8.0, 10.0]),
        row("own zerocopy", own(people, 2.0), true, &[12.0, 0.0, 10.0]),
        row("own tcp zerocopy", own(like, 0.8), true, &[12.0, 0.0, 10.0]),
        row("slow", default, false, &[5.0, 5.0, 5.0]),
        row("good", tuned, false, &[6.0, 8.0, 10.0]),
        row("best", tuned, true, &[20.0, 20.0, 20.0]),
        row("never ran", default, false, &[0.0, 0.0, 0.0]),
    ];
    let table = Table::new(case("2n2p"), rows);
    let text = table.to_string();
    assert!(
        text.contains("| own tcp | 9.00 | 8.00 | 10.00 | 0.100 | 0.90 |"),
        "{text}"
    );
    assert!(text.contains("| never ran | no sample |"), "{text}");
    let summary = table::summary(&[table]);
    for expected in [
        "(a) as people run it | own | slow | 1.80 | 1.60 | 1.80 (1.60-2.00) | 1.00 |",
        "(a) as people run it | own zerocopy | slow | 2.20 | 2.00 | 2.20 (2.00-2.40) | 1.00 |",
        "(b) like for like | own tcp | good | 1.12 | 1.00 | 1.00 (1.00-1.50) | 1.00 |",
        "(b) like for like | own tcp zerocopy | best | 0.55 | 0.80, missed | 0.55 (0.50-0.60) | 1.00 |",
    ] {
        assert!(summary.contains(expected), "{expected}: {summary}");
    }
}

#[test]
fn more_cores_than_there_are_is_no_sample() {
    let sample = |rate| Sample {
        gb_per_s: rate,
        cpu_s_per_gb: 0.2,
    };
    assert!(sample(10.4).within_cores(2).is_ok());
    let why = sample(10.6).within_cores(2).expect_err("2.12 cores of 2");
    assert!(why.ends_with("cannot be on 2 cores"), "{why}");
    assert!(sample(0.0).within_cores(2).is_err());
}

/// The peers of a case, with their titles.
fn peers_of(case: &Case) -> Vec<(String, peers::Way)> {
    let entrants = entrants(case).into_iter();
    let peers = entrants.filter_map(|entrant| match entrant.runner {
        Runner::Peer(way) => Some((entrant.row.name, way)),
        Runner::Pipebench(_) => None,
    });
    peers.collect()
}

#[test]
fn peers_get_as_many_streams_as_there_are_links_between_the_same_hosts() {
    for case in &CASES {
        for (title, way) in peers_of(case) {
            let pairs = way.pairs(&case.routes(), 5000);
            let control = if title.contains("iperf3") {
                pairs.len()
            } else {
                0
            };
            let connections: usize = pairs.iter().map(|pair| way.connections(pair)).sum();
            assert_eq!(
                connections - control,
                case.links(),
                "{}: {title}",
                case.name
            );
            let from: std::collections::BTreeSet<_> =
                pairs.iter().map(|pair| (pair.from, pair.to)).collect();
            assert_eq!(from.len(), case.hosts().len().pow(2));
        }
    }
}

/// Regression test: untuned iperf, which was the fastest, was missing where pipebench was held against tuned peers.
#[test]
fn each_peer_has_every_combination_of_options_once() {
    let peers = peers_of(case("4n4p"));
    let titles: std::collections::BTreeSet<&str> =
        peers.iter().map(|(title, _)| title.as_str()).collect();
    assert_eq!(titles.len(), peers.len(), "{titles:?}");
    for title in [
        "iperf3 -P 48",
        "iperf3 -P 48 -w 256K",
        "iperf3 -P 48 -Z",
        "iperf3 -P 48 -w 256K -Z",
        "48 x iperf3",
        "48 x iperf3, pinned",
        "48 x iperf3 -w 256K",
        "48 x iperf3 -w 256K, pinned",
        "48 x iperf3 -Z",
        "48 x iperf3 -Z, pinned",
        "48 x iperf3 -w 256K -Z, pinned",
        "iperf -P 48",
        "iperf -P 48 -w 256K",
        "48 x iperf",
        "tcp_stream -F 48",
    ] {
        assert!(titles.contains(title), "{title}: {titles:?}");
    }
}

#[test]
fn command_lines_are_those_of_the_titles() {
    let lines = |wanted: &str| {
        let case = case("2n2p");
        let peers = peers_of(case);
        let (_, way) = peers
            .iter()
            .find(|(title, _)| title == wanted)
            .expect(wanted);
        let pairs = way.pairs(&case.routes(), 5000);
        let last = pairs.last().expect("a pair");
        let client = way.client(last, Ipv4Addr::LOCALHOST, 2);
        [way.server(last, 2), client]
    };
    for (title, server, client) in [
        (
            "iperf3 -P 4",
            "iperf3 -s -p 5000",
            "iperf3 -c 127.0.0.1 -p 5000 -t 300 -P 4",
        ),
        (
            "iperf -P 4 -w 256K",
            "iperf -s -p 5000 -w 256K",
            "iperf -c 127.0.0.1 -p 5000 -t 300 -P 4 -w 256K",
        ),
        (
            "4 x iperf3 -w 256K -Z, pinned",
            "taskset -c 1 iperf3 -s -p 5003",
            "taskset -c 1 iperf3 -c 127.0.0.1 -p 5003 -t 300 -w 256K -Z",
        ),
        (
            "tcp_stream -F 4",
            "tcp_stream -P 5000 -C 5001 -l 300 -F 4 -T 2",
            "tcp_stream -c -H 127.0.0.1 -P 5000 -C 5001 -l 300 -F 4 -T 2",
        ),
    ] {
        assert_eq!(lines(title), [server, client]);
    }
}

#[test]
fn only_what_stands_between_the_marks_is_replaced() {
    let text = "before\n<!-- peers:begin -->\nold\n<!-- peers:end -->\nafter\n";
    let expected = "before\n<!-- peers:begin -->\nnew\n<!-- peers:end -->\nafter\n";
    assert_eq!(page::replaced(text, "new\n").as_deref(), Ok(expected));
    assert!(page::replaced("no marks", "new").is_err());
}

#[test]
fn pipebench_has_its_defaults_in_the_first_comparison_and_tcp_alone_in_the_second() {
    let words = |case: &str, index: usize| match &entrants(self::case(case))[index].runner {
        Runner::Pipebench(words) => words.join(" "),
        Runner::Peer(_) => panic!("pipebench comes first"),
    };
    assert_eq!(words("2n2p", 0), "");
    assert_eq!(words("2n2p", 1), "--datapath zerocopy");
    assert_eq!(words("2n2p", 2), "--transport tcp");
    assert_eq!(words("stream", 0), "--pattern bisection:one-way");
}
