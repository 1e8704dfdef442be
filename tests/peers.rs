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

use cases::{CASES, COMPARISONS, Case, Runner};
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
    let rows = vec![
        row(
            "own copy",
            Side::Own { mark: 1.0 },
            false,
            &[9.0, 8.0, 10.0],
        ),
        row(
            "own zerocopy",
            Side::Own { mark: 0.8 },
            true,
            &[12.0, 0.0, 10.0],
        ),
        row("slow", Side::Peer, false, &[1.0, 1.0, 1.0]),
        row("good", Side::Peer, false, &[6.0, 8.0, 10.0]),
        row("best", Side::Peer, true, &[20.0, 20.0, 20.0]),
        row("never ran", Side::Peer, false, &[0.0, 0.0, 0.0]),
    ];
    let table = Table::new(case("2n2p"), &COMPARISONS[1], rows);
    let text = table.to_string();
    assert!(
        text.contains(
            "| own copy | 9.00 | 8.00 | 10.00 | 0.100 | 0.90 | 1.12 | 1.00 (1.00-1.50) |"
        ),
        "{text}"
    );
    assert!(text.contains("| 0.55 | 0.55 (0.50-0.60) |"), "{text}");
    assert!(text.contains("| never ran | no sample |"), "{text}");
    let summary = table::summary(&[table]);
    assert!(summary.contains("| own copy | good | 1.12 | 1.00 | 1.00 (1.00-1.50) |"));
    assert!(summary.contains("| own zerocopy | best | 0.55 | 0.80 |"));
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

#[test]
fn iperf_gets_as_many_streams_as_there_are_links_between_the_same_hosts() {
    for case in &CASES {
        for comparison in &COMPARISONS {
            for entrant in comparison.entrants(case) {
                let Runner::Iperf(variant) = entrant.runner else {
                    continue;
                };
                let pairs = variant.pairs(&case.routes(), 5000);
                let title = entrant.row.name;
                let control = if title.contains("iperf3") {
                    pairs.len()
                } else {
                    0
                };
                let connections: usize = pairs.iter().map(|pair| variant.connections(pair)).sum();
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
}

#[test]
fn command_lines_are_those_of_the_titles() {
    let lines = |letter: usize, index: usize| {
        let case = case("2n2p");
        let peers: Vec<_> = COMPARISONS[letter]
            .entrants(case)
            .into_iter()
            .filter_map(|entrant| match entrant.runner {
                Runner::Iperf(variant) => Some((entrant.row.name, variant)),
                Runner::Pipebench(_) => None,
            })
            .collect();
        let (title, variant) = &peers[index];
        let pairs = variant.pairs(&case.routes(), 5000);
        let last = pairs.last().expect("a pair");
        let client = variant.client(last, Ipv4Addr::LOCALHOST, 2);
        (title.clone(), variant.server(last, 2), client)
    };
    let expected = |title: &str, server: &str, client: &str| {
        (title.to_owned(), server.to_owned(), client.to_owned())
    };
    assert_eq!(
        lines(0, 0),
        expected(
            "iperf3 -P 4",
            "iperf3 -s -p 5000",
            "iperf3 -c 127.0.0.1 -p 5000 -t 300 -P 4"
        )
    );
    assert_eq!(
        lines(1, 3),
        expected(
            "iperf -P 4 -w 256K",
            "iperf -s -p 5000 -w 256K",
            "iperf -c 127.0.0.1 -p 5000 -t 300 -P 4 -w 256K"
        )
    );
    assert_eq!(
        lines(1, 6),
        expected(
            "4 x iperf3 -w 256K -Z, pinned",
            "taskset -c 1 iperf3 -s -p 5003",
            "taskset -c 1 iperf3 -c 127.0.0.1 -p 5003 -t 300 -w 256K -Z"
        )
    );
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
    let words = |letter: usize| {
        let entrants = COMPARISONS[letter].entrants(case("2n2p"));
        match &entrants[0].runner {
            Runner::Pipebench(words) => words.clone(),
            Runner::Iperf(_) => panic!("pipebench comes first"),
        }
    };
    assert_eq!(words(0), [""; 0]);
    assert_eq!(words(1), ["--transport", "tcp"]);
}
