//! The cases: networks with nodes and phases, the programs that run there, and the two comparisons between them.

use super::peers::{Route, Way, ways};
use super::table::{Row, Side};

/// One network with nodes and phases.
#[derive(Clone, Copy)]
pub struct Case {
    pub name: &'static str,
    pub title: &'static str,
    pub nodes: usize,
    pub phases: usize,
    /// Each node is a host of the lab; otherwise all nodes are on one host, on its loopback.
    pub on_bridge: bool,
    /// One link from one node to the other instead of links between all.
    one_stream: bool,
    /// Target ratios of medians: (a) copy, (a) zerocopy, (b) copy, (b) zerocopy.
    marks: [f64; 4],
}

impl Case {
    /// Number of links that pipebench has, and hence number of streams that its peers get.
    pub fn links(&self) -> usize {
        if self.one_stream {
            return 1;
        }
        self.nodes * self.nodes * (self.phases - 1)
    }

    /// Arguments of pipebench for its pattern.
    pub fn pattern(&self) -> &'static [&'static str] {
        if self.one_stream {
            &["--pattern", "bisection:one-way"]
        } else {
            &[]
        }
    }

    /// Routes for its peers: the same number of streams between the same hosts.
    pub fn routes(&self) -> Vec<Route> {
        if !self.on_bridge {
            return vec![Route {
                from: 0,
                to: 0,
                streams: self.links(),
            }];
        }
        let hosts = || 1..=self.nodes;
        let pairs = hosts().flat_map(|from| hosts().map(move |to| (from, to)));
        pairs
            .map(|(from, to)| Route {
                from,
                to,
                streams: self.phases - 1,
            })
            .collect()
    }

    /// The hosts of the lab that carry streams.
    pub fn hosts(&self) -> Vec<usize> {
        if self.on_bridge {
            (1..=self.nodes).collect()
        } else {
            vec![0]
        }
    }
}

/// All cases, small ones first.
pub const CASES: [Case; 6] = [
    Case {
        one_stream: true,
        ..loopback(
            "stream",
            "one stream between 2 nodes, loopback",
            2,
            2,
            [1.5, 1.2, 1.5, 1.2],
        )
    },
    loopback(
        "2n2p",
        "2 nodes, 2 phases, loopback",
        2,
        2,
        [1.2, 1.5, 1.05, 1.3],
    ),
    loopback(
        "1n3p",
        "1 node, 3 phases, loopback",
        1,
        3,
        [1.1, 1.8, 0.95, 0.9],
    ),
    loopback(
        "3n3p",
        "3 nodes, 3 phases, loopback",
        3,
        3,
        [1.3, 2.2, 1.0, 1.4],
    ),
    loopback(
        "4n4p",
        "4 nodes, 4 phases, loopback",
        4,
        4,
        [1.2, 2.2, 1.0, 1.4],
    ),
    Case {
        on_bridge: true,
        ..loopback(
            "3n3p-bridge",
            "3 hosts, 3 phases, bridge",
            3,
            3,
            [1.1, 1.4, 1.0, 1.3],
        )
    },
];

const fn loopback(
    name: &'static str,
    title: &'static str,
    nodes: usize,
    phases: usize,
    marks: [f64; 4],
) -> Case {
    Case {
        name,
        title,
        nodes,
        phases,
        on_bridge: false,
        one_stream: false,
        marks,
    }
}

/// A rule for comparing pipebench with its peers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Comparison {
    /// (a) Each with its defaults.
    AsPeopleRunIt,
    /// (b) TCP on every link of pipebench, and peers with every option.
    LikeForLike,
}

impl Comparison {
    pub fn title(self) -> &'static str {
        match self {
            Comparison::AsPeopleRunIt => "(a) as people run it",
            Comparison::LikeForLike => "(b) like for like",
        }
    }

    /// Arguments of pipebench.
    fn words(self) -> &'static [&'static str] {
        match self {
            Comparison::AsPeopleRunIt => &[],
            Comparison::LikeForLike => &["--transport", "tcp"],
        }
    }
}

/// One participant: the row of the table that it fills, and how to run it.
pub struct Entrant {
    pub row: Row,
    pub runner: Runner,
}

/// A way to measure a row of the table.
pub enum Runner {
    /// pipebench with these arguments.
    Pipebench(Vec<&'static str>),
    Peer(Way),
}

/// All participants of a round.
pub fn entrants(case: &Case) -> Vec<Entrant> {
    let own = [Comparison::AsPeopleRunIt, Comparison::LikeForLike]
        .into_iter()
        .enumerate()
        .flat_map(|(at, comparison)| {
            [false, true].map(|zero_copy| {
                let path: &[&str] = if zero_copy {
                    &["--datapath", "zerocopy"]
                } else {
                    &[]
                };
                let words = [comparison.words(), path].concat();
                let mark = case.marks[2 * at + usize::from(zero_copy)];
                Entrant {
                    row: Row {
                        name: ["pipebench", &words.join(" ")].join(" ").trim().to_owned(),
                        side: Side::Own { comparison, mark },
                        zero_copy,
                        samples: Vec::new(),
                    },
                    runner: Runner::Pipebench([case.pattern(), &words].concat()),
                }
            })
        });
    let peers = ways().into_iter().map(|way| Entrant {
        row: Row {
            name: way.title(&case.routes()),
            side: Side::Peer {
                is_default: way.is_default(),
            },
            zero_copy: way.zero_copy,
            samples: Vec::new(),
        },
        runner: Runner::Peer(way),
    });
    own.chain(peers).collect()
}
