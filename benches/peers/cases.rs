//! The cases: networks with nodes and phases, and the programs that run in each of the two comparisons.

use super::peers::{AS_PEOPLE_RUN_IT, Iperf, LIKE_FOR_LIKE, Route};
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
    /// Target ratios of medians: (a) copy, (a) zerocopy, (b) copy, (b) zerocopy.
    marks: [f64; 4],
}

impl Case {
    /// Number of links that pipebench has, and hence number of streams that iperf gets.
    pub fn links(&self) -> usize {
        self.nodes * self.nodes * (self.phases - 1)
    }

    /// Routes for iperf: the same number of streams between the same hosts.
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
pub const CASES: [Case; 5] = [
    loopback(
        "2n2p",
        "2 nodes, 2 phases, loopback",
        2,
        2,
        [1.2, 1.4, 1.0, 1.0],
    ),
    loopback(
        "1n3p",
        "1 node, 3 phases, loopback",
        1,
        3,
        [0.9, 1.1, 0.7, 0.65],
    ),
    loopback(
        "3n3p",
        "3 nodes, 3 phases, loopback",
        3,
        3,
        [1.3, 1.5, 1.0, 0.8],
    ),
    loopback(
        "4n4p",
        "4 nodes, 4 phases, loopback",
        4,
        4,
        [1.4, 1.8, 1.2, 0.8],
    ),
    Case {
        name: "3n3p-bridge",
        title: "3 hosts, 3 phases, bridge",
        nodes: 3,
        phases: 3,
        on_bridge: true,
        marks: [1.1, 1.2, 1.0, 0.8],
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
        marks,
    }
}

/// A rule for comparing two programs.
pub struct Comparison {
    pub letter: char,
    pub title: &'static str,
    /// Arguments for pipebench in addition to nodes, phases and times.
    words: &'static [&'static str],
    peers: &'static [Iperf],
    /// Index of its first mark in `marks` of a case.
    first_mark: usize,
}

/// The two comparisons: as people run it, and like for like.
pub const COMPARISONS: [Comparison; 2] = [
    Comparison {
        letter: 'a',
        title: "as people run it",
        words: &[],
        peers: &AS_PEOPLE_RUN_IT,
        first_mark: 0,
    },
    Comparison {
        letter: 'b',
        title: "like for like",
        words: &["--transport", "tcp"],
        peers: &LIKE_FOR_LIKE,
        first_mark: 2,
    },
];

/// A data path of pipebench.
struct Datapath {
    name: &'static str,
    words: &'static [&'static str],
    zero_copy: bool,
}

const DATAPATHS: [Datapath; 2] = [
    Datapath {
        name: "copy",
        words: &[],
        zero_copy: false,
    },
    Datapath {
        name: "zerocopy",
        words: &["--datapath", "zerocopy"],
        zero_copy: true,
    },
];

/// Names of the data paths that run.
const SELECTED: &[&str] = &["copy", "zerocopy"];

/// One participant: the row of the table that it fills, and how to run it.
pub struct Entrant {
    pub row: Row,
    pub runner: Runner,
}

/// A way to measure a row of the table.
pub enum Runner {
    /// pipebench with these arguments.
    Pipebench(Vec<&'static str>),
    Iperf(Iperf),
}

impl Comparison {
    /// All participants of a round.
    pub fn entrants(&self, case: &Case) -> Vec<Entrant> {
        let selected = DATAPATHS
            .iter()
            .filter(|path| SELECTED.contains(&path.name));
        let own = selected.map(|path| self.own(path, case));
        own.chain(self.peers.iter().map(|peer| Entrant {
            row: Row {
                name: peer.title(&case.routes()),
                side: Side::Peer,
                zero_copy: peer.zero_copy,
                samples: Vec::new(),
            },
            runner: Runner::Iperf(*peer),
        }))
        .collect()
    }

    fn own(&self, path: &Datapath, case: &Case) -> Entrant {
        let mark = case.marks[self.first_mark + usize::from(path.zero_copy)];
        Entrant {
            row: Row {
                name: format!("pipebench {}", path.name),
                side: Side::Own { mark },
                zero_copy: path.zero_copy,
                samples: Vec::new(),
            },
            runner: Runner::Pipebench([self.words, path.words].concat()),
        }
    }
}
