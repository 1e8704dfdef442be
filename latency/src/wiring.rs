//! Defines hosts, switches, and the cables between them. Does not deal with routes.

use std::collections::{HashMap, HashSet};

/// An end of a cable: hosts come first, then switches.
pub type Vertex = u32;

/// An error in a fabric, and the line that caused it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}{what}", at(*line))]
pub struct FabricError {
    /// Line of the description; 0 if no line applies, as in a generated fabric.
    pub line: usize,
    /// The error in words.
    pub what: String,
}

fn at(line: usize) -> String {
    if line == 0 {
        String::new()
    } else {
        format!("line {line}: ")
    }
}

impl FabricError {
    /// Creates an error at a line (0 if none applies). Shortens `what` to 400 characters and replaces those that steer a terminal by `?`.
    pub fn new(line: usize, what: impl Into<String>) -> Self {
        /// Quoted text can be of any length, and can steer a terminal.
        const LONGEST: usize = 400;
        let plain = |letter: char| if steers(letter) { '?' } else { letter };
        let what: String = what.into().chars().take(LONGEST).map(plain).collect();
        Self { line, what }
    }
}

/// The error of a draft that is wrong at a line (0 if none applies).
pub(super) fn refuse<T>(line: usize, what: impl Into<String>) -> Result<T, FabricError> {
    Err(FabricError::new(line, what))
}

/// True if a character steers a terminal or changes how the text next to it is read. The same characters as for `launcher::steers`, of
/// which this crate knows nothing.
pub fn steers(letter: char) -> bool {
    let bidirectional = matches!(letter, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    letter.is_control() || bidirectional || matches!(letter, '\u{2028}' | '\u{2029}')
}

/// A physical cable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cable {
    /// Unique name.
    pub name: String,
    /// The two vertices that it connects.
    pub ends: [Vertex; 2],
    /// Index of its class. Cables of a class should have equal latencies.
    pub class: u16,
    /// Distance that it adds to a route, for rules that take a shortest one.
    pub cost: u16,
}

/// Largest cost. Costs are small: routes are found distance by distance.
const MOST_COST: u16 = 1000;

/// A cable and a direction: twice the number of the cable, plus 1 if it is taken from its second end.
pub type Hop = u32;

/// The cable of a hop.
pub fn cable_of(hop: Hop) -> u32 {
    hop >> 1
}

/// Checked hosts, switches and cables: every host has one cable, to a switch.
#[derive(Debug, Clone)]
pub struct Wiring {
    /// Names of hosts, in the order in which rules number them.
    pub hosts: Vec<String>,
    /// Names of switches.
    pub switches: Vec<String>,
    /// All cables.
    pub cables: Vec<Cable>,
    /// Names of classes of cables.
    pub classes: Vec<String>,
    /// The cable of each host.
    pub host_cable: Vec<u32>,
    /// The switch of each host, as an index into `switches`.
    pub leaf_of: Vec<u32>,
    pub(super) neighbours: Vec<Vec<(Hop, u32)>>,
}

/// A fabric as described, not yet checked.
#[derive(Debug, Clone, Default)]
pub struct Draft {
    /// Name of the fabric.
    pub name: String,
    /// Names of hosts, with their lines.
    pub hosts: Vec<(String, usize)>,
    /// Names of switches, with their lines.
    pub switches: Vec<(String, usize)>,
    /// Cables.
    pub cables: Vec<DraftCable>,
    /// Routes.
    pub routes: DraftRoutes,
}

/// A cable as described.
#[derive(Debug, Clone)]
pub struct DraftCable {
    /// Names of the two vertices that it connects.
    pub ends: [String; 2],
    /// Its name; by default made of the names of its ends.
    pub name: Option<String>,
    /// Its class; by default named after the levels of its ends.
    pub class: Option<String>,
    /// Distance that it adds to a route.
    pub cost: u16,
    /// Line of the description.
    pub line: usize,
}

/// Routes as described.
#[derive(Debug, Clone, Default)]
pub struct DraftRoutes {
    /// A rule that chooses among shortest routes, and its line.
    pub rule: Option<(String, usize)>,
    /// Forwarding tables.
    pub tables: Vec<DraftTable>,
    /// Listed routes.
    pub paths: Vec<DraftPath>,
}

/// A forwarding table.
#[derive(Debug, Clone)]
pub struct DraftTable {
    /// Name of the switch.
    pub switch: String,
    /// Output for each host: the host, the name of a cable or of the neighbour it leads to, and the line.
    pub to: Vec<(String, String, usize)>,
    /// Output for all other hosts, with its line.
    pub other: Option<(String, usize)>,
    /// Line of the description.
    pub line: usize,
}

/// A listed route.
#[derive(Debug, Clone)]
pub struct DraftPath {
    /// Host at which it begins.
    pub from: String,
    /// Host at which it ends.
    pub to: String,
    /// Names of cables, in order.
    pub via: Vec<String>,
    /// True if the route back is another one.
    pub one_way: bool,
    /// Line of the description.
    pub line: usize,
}

/// Numbers of hosts, switches and cables, by name.
pub(super) struct Names {
    pub(super) vertices: HashMap<String, Vertex>,
    pub(super) cables: HashMap<String, u32>,
    /// For the name of the first cable between two vertices, the number from which to search a free name for another cable.
    pub(super) twins: HashMap<String, usize>,
}

impl Wiring {
    /// Checks a draft. Errors name the line that is wrong.
    pub(super) fn new(draft: &Draft) -> Result<(Self, Names), FabricError> {
        let mut names = Names {
            vertices: HashMap::with_capacity(draft.hosts.len() + draft.switches.len()),
            cables: HashMap::with_capacity(draft.cables.len()),
            twins: HashMap::new(),
        };
        let unseen = |letter: char| letter.is_whitespace() || steers(letter);
        for (name, line) in draft.hosts.iter().chain(&draft.switches) {
            let number = number(names.vertices.len());
            if name.is_empty() || name.contains(unseen) {
                return refuse(
                    *line,
                    format!("name {name:?}: must not be empty or contain blanks"),
                );
            }
            if names.vertices.insert(name.clone(), number).is_some() {
                return refuse(*line, format!("{name} is listed twice"));
            }
        }
        if draft.name.contains(steers) {
            return refuse(0, "the fabric's name contains control characters");
        }
        if draft.hosts.len() < 2 {
            return refuse(0, "at least two hosts are needed");
        }
        let hosts: Vec<String> = draft.hosts.iter().map(|(name, _)| name.clone()).collect();
        let switches: Vec<String> = draft
            .switches
            .iter()
            .map(|(name, _)| name.clone())
            .collect();
        let mut wiring = Self {
            host_cable: Vec::with_capacity(hosts.len()),
            leaf_of: Vec::with_capacity(hosts.len()),
            neighbours: vec![Vec::new(); hosts.len() + switches.len()],
            hosts,
            switches,
            cables: Vec::with_capacity(draft.cables.len()),
            classes: Vec::new(),
        };
        for cable in &draft.cables {
            wiring.add_cable(cable, &mut names)?;
        }
        wiring.connect_hosts(draft)?;
        wiring.classify(draft);
        Ok((wiring, names))
    }

    fn add_cable(&mut self, draft: &DraftCable, names: &mut Names) -> Result<(), FabricError> {
        let [first, second] = &draft.ends;
        let wrong = |what: &str| refuse(draft.line, format!("cable {first} to {second}: {what}"));
        let mut ends = [0; 2];
        for (end, name) in ends.iter_mut().zip(&draft.ends) {
            let Some(vertex) = names.vertices.get(name) else {
                return wrong(&format!("{name} is neither host nor switch"));
            };
            *end = *vertex;
        }
        if ends[0] == ends[1] {
            return wrong("both ends are the same");
        }
        if ends.iter().all(|end| (*end as usize) < self.hosts.len()) {
            return wrong("it connects two hosts without a switch");
        }
        let cost = draft.cost;
        if !(1..=MOST_COST).contains(&cost) {
            return wrong(&format!("cost {cost} (from 1 to {MOST_COST})"));
        }
        let mut given = draft.name.iter().chain(&draft.class);
        if let Some(name) = given.find(|name| name.is_empty() || name.contains(steers)) {
            return wrong(&format!(
                "name {name:?}: must not be empty and must have visible characters only"
            ));
        }
        let cable_number = number(self.cables.len());
        let name = draft.name.clone().unwrap_or_else(|| {
            let plain = format!("{first}-{second}");
            if !names.cables.contains_key(&plain) {
                return plain;
            }
            // Continue where the last search ended: thousands of cables can join the same two vertices.
            let next = names.twins.entry(plain.clone()).or_insert(2);
            let twin = |count: usize| format!("{plain}#{count}");
            while names.cables.contains_key(&twin(*next)) {
                *next += 1;
            }
            twin(*next)
        });
        if names.cables.insert(name.clone(), cable_number).is_some() {
            return refuse(draft.line, format!("cable {name} is listed twice"));
        }
        for (own, other, direction) in [(ends[0], ends[1], 0), (ends[1], ends[0], 1)] {
            self.neighbours[own as usize].push((2 * cable_number + direction, other));
        }
        self.cables.push(Cable {
            name,
            ends,
            class: 0,
            cost,
        });
        Ok(())
    }

    fn connect_hosts(&mut self, draft: &Draft) -> Result<(), FabricError> {
        for (host, (name, line)) in draft.hosts.iter().enumerate() {
            match self.neighbours[host].as_slice() {
                [] => return refuse(*line, format!("host {name} has no cable")),
                [(hop, switch)] => {
                    self.host_cable.push(cable_of(*hop));
                    self.leaf_of.push(switch - number(self.hosts.len()));
                }
                several => {
                    let what = format!(
                        "host {name} has {} cables: write a host for each of its ports",
                        several.len()
                    );
                    return refuse(*line, what);
                }
            }
        }
        Ok(())
    }

    /// Gives each cable a class: the described one, or else one by the distances of its ends from the nearest host.
    fn classify(&mut self, draft: &Draft) {
        let hosts = self.hosts.len();
        let mut level = vec![u32::MAX; self.neighbours.len()];
        let mut fresh: Vec<Vertex> = (0..number(hosts)).collect();
        let mut at = 0;
        while !fresh.is_empty() {
            for vertex in std::mem::take(&mut fresh) {
                if level[vertex as usize] != u32::MAX {
                    continue;
                }
                level[vertex as usize] = at;
                fresh.extend(
                    self.neighbours[vertex as usize]
                        .iter()
                        .map(|(_, other)| *other),
                );
            }
            at += 1;
        }
        let mut known: HashMap<String, u16> = HashMap::new();
        for (cable, written) in self.cables.iter_mut().zip(&draft.cables) {
            let name = written.class.clone().unwrap_or_else(|| {
                let [a, b] = cable.ends.map(|end| level[end as usize]);
                match (a.min(b), a.max(b)) {
                    (0, _) => "host".to_owned(),
                    (low, high) => format!("level {low}-{high}"),
                }
            });
            let next = u16::try_from(known.len()).unwrap_or(u16::MAX);
            let classes = &mut self.classes;
            cable.class = *known.entry(name).or_insert_with_key(|name| {
                classes.push(name.clone());
                next
            });
        }
    }

    /// Number of pairs of hosts, each counted once.
    pub fn pairs(&self) -> u64 {
        let hosts = self.hosts.len() as u64;
        hosts * (hosts - 1) / 2
    }

    /// The first hop of a host's routes.
    pub(super) fn first_hop(&self, host: u32) -> Hop {
        self.neighbours[host as usize][0].0
    }

    /// Numbers the switches that have hosts. Returns the number of each switch (`u32::MAX` if it has no host), and the first host of each of these.
    pub(super) fn leaves(&self) -> (Vec<u32>, Vec<u32>) {
        let mut number_of = vec![u32::MAX; self.switches.len()];
        let mut first_hosts = Vec::new();
        for (host, switch) in (0_u32..).zip(&self.leaf_of) {
            let slot = &mut number_of[*switch as usize];
            if *slot == u32::MAX {
                *slot = number(first_hosts.len());
                first_hosts.push(host);
            }
        }
        (number_of, first_hosts)
    }

    /// Name of a vertex.
    pub fn vertex_name(&self, vertex: Vertex) -> &str {
        let at = vertex as usize;
        match self.hosts.get(at) {
            Some(name) => name,
            None => &self.switches[at - self.hosts.len()],
        }
    }

    /// True if one end of a cable is a host.
    pub(super) fn joins_host(&self, cable: u32) -> bool {
        let ends = self.cables[cable as usize].ends;
        ends.iter().any(|end| (*end as usize) < self.hosts.len())
    }

    /// The vertex that a hop leads to.
    pub fn target(&self, hop: Hop) -> Vertex {
        self.cables[cable_of(hop) as usize].ends[1 - (hop & 1) as usize]
    }

    /// Names of cables that no route takes; `used` holds the cables that routes take.
    pub fn unused(&self, used: &HashSet<u32>) -> Vec<&str> {
        let all = (0_u32..).zip(&self.cables);
        all.filter(|(number, _)| !used.contains(number))
            .map(|(_, cable)| cable.name.as_str())
            .collect()
    }
}

/// Converts the number of a vertex or cable. It always fits: there are never too many.
pub(super) fn number(value: usize) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}
