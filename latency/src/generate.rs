//! Generates fabrics by formula: fat trees, leaf and spine, dragonflies, slim flies.

use super::fabric::{Draft, DraftCable, DraftRoutes, FabricError};
use super::routing::Rule;

/// The name of a generated host or switch, which has no line.
fn named(name: String) -> (String, usize) {
    (name, 0)
}

/// A fabric with hosts, and without switches and cables.
fn draft(name: String, hosts: usize, rule: Rule) -> Draft {
    Draft {
        name,
        hosts: (0..hosts).map(|number| named(host(number))).collect(),
        routes: DraftRoutes {
            rule: Some((rule.name().to_owned(), 0)),
            ..DraftRoutes::default()
        },
        ..Draft::default()
    }
}

/// Adds a cable.
fn join(draft: &mut Draft, a: &str, b: &str, class: &str, cost: u16) {
    draft.cables.push(DraftCable {
        ends: [a.to_owned(), b.to_owned()],
        name: None,
        class: Some(class.to_owned()),
        cost,
        line: 0,
    });
}

fn host(number: usize) -> String {
    format!("h{number}")
}

/// Most hosts. A larger number is a typing error.
const MOST_HOSTS: usize = 200_000;

fn refuse<T>(what: impl Into<String>) -> Result<T, FabricError> {
    Err(FabricError::new(0, what))
}

/// Generates a tree of switches with p ports in q levels. It has 2 (p/2)^q hosts and q times as many cables (Lin, Chung, Huang: "A multiple LID
/// routing scheme for fat-tree-based InfiniBand networks", 2004). Switches of a level are numbered by the hosts below them, then by the choices that
/// lead to them.
pub fn fat_tree(ports: usize, levels: u32, rule: Rule) -> Result<Draft, FabricError> {
    if ports < 4 || !ports.is_multiple_of(2) {
        return refuse(format!("--ports {ports}: an even number, at least 4"));
    }
    if levels < 2 {
        return refuse(format!("--levels {levels}: at least 2"));
    }
    let half = ports / 2;
    let power = |exponent: u32| half.checked_pow(exponent);
    let hosts = power(levels)
        .and_then(|all| all.checked_mul(2))
        .filter(|all| *all <= MOST_HOSTS);
    let Some(hosts) = hosts else {
        return refuse(format!(
            "{ports} ports and {levels} levels: more than {MOST_HOSTS} hosts"
        ));
    };
    let power = |exponent: u32| power(exponent).unwrap_or(usize::MAX);
    // The common part of its hosts' numbers identifies a switch of a level, together with the choices on the way up to it.
    let switch = |level: u32, below: usize, code: usize| {
        let at = if level == levels {
            code
        } else {
            below * power(level - 1) + code
        };
        format!("s{level}.{at}")
    };
    let mut draft = draft(format!("{ports}-port {levels}-tree"), hosts, rule);
    for level in 1..=levels {
        let count = if level == levels {
            power(levels - 1)
        } else {
            2 * power(levels - 1)
        };
        draft
            .switches
            .extend((0..count).map(|at| named(format!("s{level}.{at}"))));
    }
    for number in 0..hosts {
        let leaf = switch(1, number / half, 0);
        join(&mut draft, &host(number), &leaf, "host", 1);
    }
    for level in 1..levels {
        let class = format!("level {level}-{}", level + 1);
        for below in 0..hosts / power(level) {
            for code in 0..power(level) {
                // The last digit of the code is the choice at this switch.
                let own = switch(level, below, code / half);
                let upper = switch(level + 1, below / half, code);
                join(&mut draft, &own, &upper, &class, 1);
            }
        }
    }
    Ok(draft)
}

/// Generates leaves with `hosts` hosts each, and spines. Every leaf has a cable to every spine.
pub fn leaf_spine(
    leaves: usize,
    spines: usize,
    hosts: usize,
    rule: Rule,
) -> Result<Draft, FabricError> {
    if leaves < 1 || spines < 1 || hosts < 1 || leaves.saturating_mul(hosts) > MOST_HOSTS {
        return refuse(format!(
            "leaves, spines and hosts per leaf: at least 1 each, and {MOST_HOSTS} hosts at most"
        ));
    }
    let name = format!("{leaves} leaves, {spines} spines");
    let mut draft = draft(name, leaves * hosts, rule);
    let leaf = |at: usize| format!("leaf{at}");
    let spine = |at: usize| format!("spine{at}");
    let switches = (0..leaves).map(leaf).chain((0..spines).map(spine));
    draft.switches = switches.map(named).collect();
    for number in 0..leaves * hosts {
        join(&mut draft, &host(number), &leaf(number / hosts), "host", 1);
    }
    for at in 0..leaves {
        for upper in 0..spines {
            join(&mut draft, &leaf(at), &spine(upper), "uplink", 1);
        }
    }
    Ok(draft)
}

/// Generates a dragonfly: a h + 1 groups of a switches, each with h global cables and p hosts. All switches of a group are connected, and one global
/// cable joins each two groups (Kim, Dally, Scott, Abts: "Technology-driven, highly-scalable dragonfly topology", 2008). Minimal routes take at most
/// one global cable: it costs as much as three local ones.
pub fn dragonfly(
    switches: usize,
    globals: usize,
    hosts: usize,
    rule: Rule,
) -> Result<Draft, FabricError> {
    let groups = switches.saturating_mul(globals).saturating_add(1);
    let all = groups.saturating_mul(switches).saturating_mul(hosts);
    if switches < 1 || globals < 1 || hosts < 1 || all > MOST_HOSTS {
        return refuse(format!(
            "switches, global cables and hosts: at least 1 each, and {MOST_HOSTS} hosts at most"
        ));
    }
    let name = |group: usize, at: usize| format!("g{group}s{at}");
    let title = format!("dragonfly a={switches} h={globals} p={hosts}");
    let mut draft = draft(title, all, rule);
    for group in 0..groups {
        draft
            .switches
            .extend((0..switches).map(|at| named(name(group, at))));
    }
    for number in 0..all {
        let at = number / hosts;
        let leaf = name(at / switches, at % switches);
        join(&mut draft, &host(number), &leaf, "host", 1);
    }
    for group in 0..groups {
        for a in 0..switches {
            for b in a + 1..switches {
                join(&mut draft, &name(group, a), &name(group, b), "local", 1);
            }
        }
    }
    for group in 0..groups {
        // The k-th global port of a group leads to the k-th next group. That group reaches it by its last but k-th port.
        for port in 0..groups - 1 {
            let other = (group + port + 1) % groups;
            let back = groups - 2 - port;
            if group < other {
                let (own, far) = (name(group, port / globals), name(other, back / globals));
                join(&mut draft, &own, &far, "global", 3);
            }
        }
    }
    Ok(draft)
}

/// Generates a slim fly of diameter 2: 2 q^2 switches for a prime q with q mod 4 = 1, p hosts each (Besta, Hoefler: "Slim Fly: a cost effective
/// low-diameter network topology", 2014; the graphs are those of McKay, Miller and Siran).
pub fn slim_fly(prime: usize, hosts: usize, rule: Rule) -> Result<Draft, FabricError> {
    let is_prime = prime >= 2
        && (2..prime)
            .take_while(|d| d * d <= prime)
            .all(|d| !prime.is_multiple_of(d));
    if !is_prime || prime % 4 != 1 || prime > 200 {
        return refuse(format!(
            "--prime {prime}: a prime that leaves 1 when divided by 4, at most 200 (5, 13, 17, 29, ...)"
        ));
    }
    let switches = 2 * prime * prime;
    if hosts < 1 || switches.saturating_mul(hosts) > MOST_HOSTS {
        return refuse(format!(
            "hosts per switch: at least 1, and {MOST_HOSTS} hosts at most"
        ));
    }
    // Powers of a primitive root: even powers connect one half of the graph, odd powers the other.
    let powers = |root: usize| {
        let all = std::iter::successors(Some(1), move |power| Some(power * root % prime));
        all.take(prime - 1)
    };
    let is_primitive = |root: &usize| powers(*root).skip(1).all(|power| power != 1);
    let root = (2..prime).find(is_primitive).unwrap_or(2);
    let name = |half: usize, x: usize, y: usize| format!("s{half}.{x}.{y}");
    let title = format!("slim fly q={prime} p={hosts}");
    let mut draft = draft(title, switches * hosts, rule);
    let mut all = Vec::new();
    for half in 0..2 {
        for x in 0..prime {
            all.extend((0..prime).map(|y| name(half, x, y)));
        }
    }
    draft.switches = all.iter().cloned().map(named).collect();
    for number in 0..switches * hosts {
        join(&mut draft, &host(number), &all[number / hosts], "host", 1);
    }
    for half in 0..2 {
        let set: Vec<usize> = powers(root).skip(half).step_by(2).collect();
        for x in 0..prime {
            for y in 0..prime {
                for other in y + 1..prime {
                    if set.contains(&(other - y)) {
                        let (own, far) = (name(half, x, y), name(half, x, other));
                        join(&mut draft, &own, &far, "within", 1);
                    }
                }
            }
        }
    }
    for x in 0..prime {
        for y in 0..prime {
            for m in 0..prime {
                let c = (y + prime * prime - m * x % prime) % prime;
                join(&mut draft, &name(0, x, y), &name(1, m, c), "across", 1);
            }
        }
    }
    Ok(draft)
}
