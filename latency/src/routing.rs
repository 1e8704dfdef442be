//! Determines the routes of packets: by a rule over shortest routes, by forwarding tables, or as the description lists them.

use std::collections::HashMap;

use numbers::random::mix;

use super::wiring::{
    DraftPath, DraftRoutes, DraftTable, FabricError, Hop, Names, Wiring, cable_of, number, refuse,
};

/// The choice among several shortest routes. Where a switch has c of them, a digit of a number decides: its remainder modulo c. Its quotient by c
/// decides at the next switch that has a choice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// By the number of the destination host: destination mod k, as subnet managers do in fat trees.
    DestinationMod,
    /// By a hash of the destination host.
    DestinationHash,
    /// By a hash of both hosts; the route back is the same.
    PairHash,
    /// By the sum of both hosts' digits; the route back is the same. Up and down are alike.
    Symmetric,
}

/// Names of rules in descriptions.
pub const RULES: [(&str, Rule); 4] = [
    ("symmetric", Rule::Symmetric),
    ("destination-mod", Rule::DestinationMod),
    ("destination-hash", Rule::DestinationHash),
    ("pair-hash", Rule::PairHash),
];

impl Rule {
    /// Name of the rule in descriptions.
    pub fn name(self) -> &'static str {
        let mut known = RULES.iter().filter(|(_, rule)| *rule == self);
        known.next().map_or("", |(name, _)| name)
    }

    fn is_symmetric(self) -> bool {
        matches!(self, Self::PairHash | Self::Symmetric)
    }
}

/// All routes of a fabric.
#[derive(Debug, Clone)]
pub struct Routing {
    base: Base,
    /// Listed routes; they take precedence over the others.
    paths: HashMap<(u32, u32), Vec<Hop>>,
    symmetric: bool,
}

#[derive(Debug, Clone)]
enum Base {
    None,
    Rule(ByRule),
    Tables(Tables),
}

/// Shortest routes: for each leaf switch, the hops that all other switches can take towards it.
#[derive(Debug, Clone)]
struct ByRule {
    rule: Rule,
    /// Index of each switch among leaf switches.
    leaf: Vec<u32>,
    switches: usize,
    /// Index into `sets`, by leaf and switch.
    next: Vec<u32>,
    /// Range of each set in `members`: its first index, and the index after its last.
    sets: Vec<(u32, u32)>,
    /// Hops, each with the switch it leads to.
    members: Vec<(Hop, u32)>,
}

/// Output of each switch for each host: an index into its neighbours.
#[derive(Debug, Clone)]
struct Tables {
    hosts: usize,
    out: Vec<u16>,
}

const NOWHERE: u16 = u16::MAX;
const NO_SET: u32 = u32::MAX;

impl Routing {
    /// Builds and checks the routes of a draft: each host must reach every other one, without loops.
    pub(super) fn new(
        wiring: &Wiring,
        draft: &DraftRoutes,
        names: &Names,
    ) -> Result<Self, FabricError> {
        let base = match (&draft.rule, draft.tables.as_slice()) {
            (Some((_, line)), [_, ..]) => {
                return refuse(*line, "give either a rule or forwarding tables");
            }
            (Some((name, line)), []) => {
                let known = RULES.iter().find(|(known, _)| known == name);
                let Some((_, rule)) = known else {
                    let all: Vec<&str> = RULES.iter().map(|(name, _)| *name).collect();
                    let what = format!("rule {name:?} is not known (write {})", all.join(", "));
                    return refuse(*line, what);
                };
                Base::Rule(ByRule::new(wiring, *rule, *line)?)
            }
            (None, []) => Base::None,
            (None, tables) => Base::Tables(Tables::new(wiring, tables, names)?),
        };
        let mut paths = HashMap::new();
        for path in &draft.paths {
            add_path(wiring, path, names, &mut paths)?;
        }
        if let Base::None = base {
            all_there(wiring, &paths)?;
        }
        let symmetric = match &base {
            Base::Rule(by_rule) => by_rule.rule.is_symmetric(),
            Base::None => true,
            Base::Tables(_) => false,
        };
        let is_turned = |((from, to), way): (&(u32, u32), &Vec<Hop>)| {
            paths.get(&(*to, *from)) == Some(&turned(way))
        };
        let symmetric = symmetric && paths.iter().all(is_turned);
        Ok(Self {
            base,
            paths,
            symmetric,
        })
    }

    /// True if the route back is always the route there, reversed.
    pub fn is_symmetric(&self) -> bool {
        self.symmetric
    }

    /// True if only the destination decides where a packet leaves a switch.
    pub fn is_by_destination(&self) -> bool {
        let base = match &self.base {
            Base::None => false,
            Base::Rule(by_rule) => !by_rule.rule.is_symmetric(),
            Base::Tables(_) => true,
        };
        base && self.paths.is_empty()
    }

    /// Appends the hops from one host to another.
    pub fn route(&self, wiring: &Wiring, from: u32, to: u32, hops: &mut Vec<Hop>) {
        if !self.paths.is_empty()
            && let Some(way) = self.paths.get(&(from, to))
        {
            hops.extend_from_slice(way);
            return;
        }
        match &self.base {
            Base::None => {}
            Base::Rule(by_rule) if by_rule.rule.is_symmetric() && from > to => {
                by_rule.route(wiring, to, from, hops);
                hops.reverse();
                hops.iter_mut().for_each(|hop| *hop ^= 1);
            }
            Base::Rule(by_rule) => by_rule.route(wiring, from, to, hops),
            Base::Tables(tables) => tables.route(wiring, from, to, hops),
        }
    }
}

/// The same way back.
fn turned(way: &[Hop]) -> Vec<Hop> {
    way.iter().rev().map(|hop| hop ^ 1).collect()
}

fn add_path(
    wiring: &Wiring,
    path: &DraftPath,
    names: &Names,
    paths: &mut HashMap<(u32, u32), Vec<Hop>>,
) -> Result<(), FabricError> {
    let shown = format!("way from {} to {}", path.from, path.to);
    let wrong = |what: &str| refuse(path.line, format!("{shown}: {what}"));
    let host = |name: &String| match names.vertices.get(name) {
        Some(vertex) if (*vertex as usize) < wiring.hosts.len() => Ok(*vertex),
        _ => refuse(path.line, format!("{shown}: {name} is not a host")),
    };
    let (from, to) = (host(&path.from)?, host(&path.to)?);
    if from == to {
        return wrong("both ends are the same host");
    }
    let (mut at, mut way, mut seen) = (from, Vec::new(), vec![from]);
    for name in &path.via {
        let Some(cable) = names.cables.get(name) else {
            return wrong(&format!("cable {name} is not known"));
        };
        let ends = wiring.cables[*cable as usize].ends;
        let Some(side) = ends.iter().position(|end| *end == at) else {
            let here = wiring.vertex_name(at);
            return wrong(&format!("cable {name} does not begin at {here}"));
        };
        at = ends[1 - side];
        way.push(2 * *cable + number(side));
        let here = wiring.vertex_name(at);
        if seen.contains(&at) {
            return wrong(&format!("it visits {here} twice"));
        }
        if (at as usize) < wiring.hosts.len() && at != to {
            return wrong(&format!("it goes through host {here}"));
        }
        seen.push(at);
    }
    if at != to {
        return wrong(&format!("it ends at {}", wiring.vertex_name(at)));
    }
    let back = turned(&way);
    if paths.insert((from, to), way).is_some() {
        return refuse(path.line, format!("{shown} is listed twice"));
    }
    if !path.one_way && paths.insert((to, from), back).is_some() {
        let what =
            format!("{shown} is listed twice (write one_way = true if the way back differs)");
        return refuse(path.line, what);
    }
    Ok(())
}

fn all_there(wiring: &Wiring, paths: &HashMap<(u32, u32), Vec<Hop>>) -> Result<(), FabricError> {
    let hosts = number(wiring.hosts.len());
    if paths.is_empty() {
        return refuse(
            0,
            "no routes: give a rule, forwarding tables, or the way of each pair",
        );
    }
    for from in 0..hosts {
        for to in (0..hosts).filter(|to| *to != from) {
            if !paths.contains_key(&(from, to)) {
                let [from, to] = [from, to].map(|host| wiring.vertex_name(host));
                return refuse(0, format!("host {from} has no route to {to}"));
            }
        }
    }
    Ok(())
}

impl ByRule {
    fn new(wiring: &Wiring, rule: Rule, line: usize) -> Result<Self, FabricError> {
        let hosts = wiring.hosts.len();
        let switches = wiring.switches.len();
        let (leaf, first_hosts) = wiring.leaves();
        let mut own = Self {
            rule,
            leaf,
            switches,
            next: Vec::with_capacity(first_hosts.len() * switches),
            sets: Vec::new(),
            members: Vec::new(),
        };
        let ahead: Vec<Vec<(Hop, u32, u32)>> = (0..switches)
            .map(|switch| {
                let all = wiring.neighbours[hosts + switch].iter();
                all.filter(|(_, other)| *other as usize >= hosts)
                    .map(|(hop, other)| {
                        let cost = wiring.cables[cable_of(*hop) as usize].cost;
                        (*hop, *other - number(hosts), u32::from(cost))
                    })
                    .collect()
            })
            .collect();
        // Sets that each switch already has, for reuse.
        let mut known: Vec<Vec<u32>> = vec![Vec::new(); switches];
        let mut set: Vec<(Hop, u32)> = Vec::new();
        let leaf_of = |host: u32| wiring.leaf_of[host as usize] as usize;
        for host in &first_hosts {
            let target = leaf_of(*host);
            let far = distances(&ahead, target);
            for switch in 0..switches {
                set.clear();
                if switch != target && far[switch] != u32::MAX {
                    let nearer = ahead[switch].iter().filter(|(_, other, cost)| {
                        far[*other as usize].saturating_add(*cost) == far[switch]
                    });
                    set.extend(nearer.map(|(hop, other, _)| (*hop, *other)));
                }
                let next = match set.is_empty() {
                    true => NO_SET,
                    false => own.set_of(&set, &mut known[switch]),
                };
                own.next.push(next);
            }
            let is_cut_off = |other: &&u32| far[leaf_of(**other)] == u32::MAX;
            if let Some(other) = first_hosts.iter().find(is_cut_off) {
                let [from, to] = [other, host].map(|host| wiring.vertex_name(*host));
                return refuse(line, format!("host {from} has no route to {to}"));
            }
        }
        Ok(own)
    }

    fn set_of(&mut self, set: &[(Hop, u32)], known: &mut Vec<u32>) -> u32 {
        let same = |index: &&u32| {
            let (first, end) = self.sets[**index as usize];
            &self.members[first as usize..end as usize] == set
        };
        if let Some(index) = known.iter().rev().find(same) {
            return *index;
        }
        let first = number(self.members.len());
        self.members.extend_from_slice(set);
        let index = number(self.sets.len());
        self.sets.push((first, number(self.members.len())));
        known.push(index);
        index
    }

    fn route(&self, wiring: &Wiring, from: u32, to: u32, hops: &mut Vec<Hop>) {
        let (mut switch, target) = (wiring.leaf_of[from as usize], wiring.leaf_of[to as usize]);
        let next =
            &self.next[self.leaf[target as usize] as usize * self.switches..][..self.switches];
        hops.push(wiring.first_hop(from));
        let keys = self.keys(from, to);
        let mut divisor = 1;
        while switch != target {
            let (first, end) = self.sets[next[switch as usize] as usize];
            let choices = end - first;
            let choice = match choices {
                1 => 0,
                _ => {
                    let digit = |key: u64| (key / divisor) % u64::from(choices);
                    let sum = keys.iter().map(|key| digit(*key)).sum::<u64>();
                    divisor = divisor.saturating_mul(u64::from(choices));
                    u32::try_from(sum % u64::from(choices)).unwrap_or(0)
                }
            };
            let (hop, other) = self.members[(first + choice) as usize];
            hops.push(hop);
            switch = other;
        }
        hops.push(wiring.first_hop(to) ^ 1);
    }

    /// The numbers whose digits choose.
    fn keys(&self, from: u32, to: u32) -> [u64; 2] {
        let (from, to) = (u64::from(from), u64::from(to));
        match self.rule {
            Rule::DestinationMod => [to, 0],
            Rule::DestinationHash => [mix(to + 1), 0],
            Rule::PairHash => [mix(from << 32 | to), 0],
            Rule::Symmetric => [from, to],
        }
    }
}

/// Distance of each switch from `target`; `u32::MAX` if it is unreachable.
fn distances(ahead: &[Vec<(Hop, u32, u32)>], target: usize) -> Vec<u32> {
    let mut far = vec![u32::MAX; ahead.len()];
    far[target] = 0;
    // Costs are small integers: use one queue for each distance.
    let mut queues: Vec<Vec<usize>> = vec![vec![target]];
    let mut at = 0;
    while at < queues.len() {
        for switch in std::mem::take(&mut queues[at]) {
            if far[switch] as usize != at {
                continue;
            }
            for (_, other, cost) in &ahead[switch] {
                let reached = number(at).saturating_add(*cost);
                if reached < far[*other as usize] {
                    far[*other as usize] = reached;
                    let queue = reached as usize;
                    if queues.len() <= queue {
                        queues.resize_with(queue + 1, Vec::new);
                    }
                    queues[queue].push(*other as usize);
                }
            }
        }
        at += 1;
    }
    far
}

impl Tables {
    fn new(wiring: &Wiring, drafts: &[DraftTable], names: &Names) -> Result<Self, FabricError> {
        let hosts = wiring.hosts.len();
        let mut own = Self {
            hosts,
            out: vec![NOWHERE; hosts * wiring.switches.len()],
        };
        let mut said = vec![0; wiring.switches.len()];
        for draft in drafts {
            let name = &draft.switch;
            let vertex = names.vertices.get(name).map(|vertex| *vertex as usize);
            let Some(switch) = vertex.and_then(|vertex| vertex.checked_sub(hosts)) else {
                return refuse(draft.line, format!("table of {name}: not a switch"));
            };
            if said[switch] != 0 {
                let what = format!("table of {name} is listed twice (line {})", said[switch]);
                return refuse(draft.line, what);
            }
            said[switch] = draft.line.max(1);
            let table = &mut own.out[switch * hosts..][..hosts];
            if let Some((out, line)) = &draft.other {
                table.fill(out_of(wiring, names, switch, out, *line)?);
            }
            let mut told = HashMap::new();
            for (to, out, line) in &draft.to {
                let host = names.vertices.get(to).map(|vertex| *vertex as usize);
                let Some(host) = host.filter(|host| *host < hosts) else {
                    return refuse(*line, format!("table of {name}: {to} is not a host"));
                };
                if let Some(earlier) = told.insert(host, *line) {
                    let what = format!("table of {name}: {to} is listed twice (line {earlier})");
                    return refuse(*line, what);
                }
                table[host] = out_of(wiring, names, switch, out, *line)?;
            }
        }
        // Packets for a host that is connected here leave by its cable, even if the table says otherwise.
        for host in 0..hosts {
            let switch = wiring.leaf_of[host] as usize;
            let ports = &wiring.neighbours[hosts + switch];
            let own_port = ports.iter().position(|(_, other)| *other as usize == host);
            own.out[switch * hosts + host] = own_port
                .and_then(|at| u16::try_from(at).ok())
                .unwrap_or(NOWHERE);
        }
        own.check(wiring, &said)?;
        Ok(own)
    }

    /// Follows packets to each host from all switches that have hosts. Fails on loops, dead ends and wrong hosts.
    fn check(&self, wiring: &Wiring, lines: &[usize]) -> Result<(), FabricError> {
        let hosts = self.hosts;
        let mut arrives = vec![NO_SET; wiring.switches.len()];
        let mut trail = Vec::new();
        let mut leaves = wiring.leaf_of.clone();
        leaves.sort_unstable();
        leaves.dedup();
        for host in 0..hosts {
            for start in &leaves {
                let mut switch = *start as usize;
                trail.clear();
                let name = &wiring.hosts[host];
                while arrives[switch] != number(host) {
                    if trail.contains(&switch) {
                        let what = format!(
                            "traffic to host {name} reaches switch {} again: a loop",
                            wiring.switches[switch]
                        );
                        return refuse(lines[switch], what);
                    }
                    trail.push(switch);
                    let out = self.out[switch * hosts + host];
                    let Some((_, other)) = wiring.neighbours[hosts + switch].get(usize::from(out))
                    else {
                        let first = wiring.leaf_of.iter().position(|leaf| leaf == start);
                        let from = first.map_or("", |at| wiring.hosts[at].as_str());
                        let what = format!(
                            "host {from} has no route to {name}: switch {} has no entry for it",
                            wiring.switches[switch]
                        );
                        return refuse(lines[switch], what);
                    };
                    match *other as usize {
                        arrived if arrived == host => break,
                        next if next >= hosts => switch = next - hosts,
                        wrong => {
                            let what = format!(
                                "switch {} sends traffic for host {name} to host {}",
                                wiring.switches[switch], wiring.hosts[wrong]
                            );
                            return refuse(lines[switch], what);
                        }
                    }
                }
                trail
                    .iter()
                    .for_each(|switch| arrives[*switch] = number(host));
            }
        }
        Ok(())
    }

    fn route(&self, wiring: &Wiring, from: u32, to: u32, hops: &mut Vec<Hop>) {
        hops.push(wiring.first_hop(from));
        let mut switch = wiring.leaf_of[from as usize] as usize;
        loop {
            let out = usize::from(self.out[switch * self.hosts + to as usize]);
            let (hop, other) = wiring.neighbours[self.hosts + switch][out];
            hops.push(hop);
            match (other as usize).checked_sub(self.hosts) {
                Some(next) => switch = next,
                None => return,
            }
        }
    }
}

/// Index of a neighbour of a switch, from the name of a cable or of the neighbour.
fn out_of(
    wiring: &Wiring,
    names: &Names,
    switch: usize,
    name: &str,
    line: usize,
) -> Result<u16, FabricError> {
    let here = &wiring.switches[switch];
    let ports = &wiring.neighbours[wiring.hosts.len() + switch];
    if let Some(cable) = names.cables.get(name) {
        let at = ports.iter().position(|(hop, _)| cable_of(*hop) == *cable);
        return match at.and_then(|at| u16::try_from(at).ok()) {
            Some(at) => Ok(at),
            None => refuse(
                line,
                format!("table of {here}: cable {name} is not connected to it"),
            ),
        };
    }
    let Some(vertex) = names.vertices.get(name) else {
        return refuse(line, format!("table of {here}: cable {name} is not known"));
    };
    let mut ways = (0_u16..)
        .zip(ports)
        .filter(|(_, (_, other))| other == vertex);
    match (ways.next(), ways.next()) {
        (Some((at, _)), None) => Ok(at),
        (None, _) => refuse(line, format!("table of {here}: it has no cable to {name}")),
        (Some(_), Some(_)) => refuse(
            line,
            format!("table of {here}: it has several cables to {name}: write the cable's name"),
        ),
    }
}
