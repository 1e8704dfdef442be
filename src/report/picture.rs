//! The live picture of a run: its ports, and the slowest links with the causes of their waiting.

use std::collections::{BTreeMap, BTreeSet};

use crate::plan::lanes::Lane;
use crate::record::{EndCount, EndRole, SeenNode};
use crate::units::{SECOND_NS, gbit_per_s, show_age, show_rate};

use super::status::{Pair, View, aligned, pairs, scale, short};
use super::{fold, or_dash};

/// Lines of the picture, at most `height` of them. Empty if none of the viewed hosts takes part in the run.
pub(crate) fn picture(views: &[View], token: &str, height: usize) -> Vec<String> {
    let pairs: Vec<Pair<'_>> = views.iter().flat_map(|view| pairs(view, token)).collect();
    let Some(first) = pairs.first() else {
        return Vec::new();
    };
    let mut lines = vec![headline(first.now, &pairs)];
    let labels = labels(&pairs);
    let missing = missing(first.now, &pairs, &labels, token);
    let fixed = lines.len() + missing.iter().count() + 2;
    let room = height.saturating_sub(fixed);
    let links = links(&pairs);
    // Ports get half of the room, and all room that links do not need.
    let for_ports = (room / 2).max(room.saturating_sub(links.len())).max(1);
    let ports = port_lines(&pairs, for_ports);
    let left = room.saturating_sub(ports.len() - 1);
    lines.extend(ports);
    if !links.is_empty() && left > 0 {
        lines.extend(link_lines(first.now, &labels, &links, left));
    }
    lines.extend(missing);
    lines.truncate(height.max(1));
    lines
}

fn headline(first: &SeenNode, pairs: &[Pair<'_>]) -> String {
    let card = &first.card;
    let sum = |of: fn(&SeenNode) -> u64| {
        let rates = pairs.iter().map(|pair| pair.rate(of));
        show_rate(rates.sum::<f64>() * 1e9)
    };
    let state = pairs.iter().map(|pair| pair.now.state).min();
    let age = pairs.iter().map(|pair| pair.now.age_ns).max().unwrap_or(0);
    let within = sum(|node| node.same_host_bytes);
    let total = if card.peers.is_one_host() {
        format!("{within} within one host")
    } else {
        let across = sum(|node| node.received_bytes);
        format!("switch {across} one way, same-host {within}")
    };
    format!(
        "run {} by {}, {}, {}: {total}",
        short(&card.token),
        card.by,
        show_age(age / SECOND_NS),
        state.map_or_else(String::new, |state| state.to_string()),
    )
}

/// Labels of the nodes that the watched nodes know: themselves and their peers.
fn labels<'a>(pairs: &[Pair<'a>]) -> BTreeMap<usize, &'a str> {
    let known = pairs.iter().flat_map(|pair| &pair.now.card.peers.labels);
    known.map(|(node, label)| (*node, label.as_str())).collect()
}

/// Line on nodes of the run that are on none of the watched hosts. Returns `None` if all nodes are watched.
fn missing(
    first: &SeenNode,
    pairs: &[Pair<'_>],
    labels: &BTreeMap<usize, &str>,
    token: &str,
) -> Option<String> {
    let there: BTreeSet<usize> = pairs.iter().map(|pair| pair.now.card.node).collect();
    let known = labels.iter().filter(|(node, _)| !there.contains(node));
    let known: Vec<String> = known.map(|(_, label)| (*label).to_owned()).collect();
    let all = first.card.peers.nodes;
    let missing = all.saturating_sub(there.len());
    let names = match (fold(&known), missing.saturating_sub(known.len())) {
        (names, 0) => names,
        (_, others) if known.is_empty() => format!("{others} others"),
        (names, others) => format!("{names} and {others} others"),
    };
    (missing > 0).then(|| {
        format!(
            "{} of {all} nodes are watched, {names} not (name the missing hosts: pipebench watch {} HOSTS)",
            there.len(),
            short(token),
        )
    })
}

/// Rows of ports, the one with the lowest rate first.
fn port_lines(pairs: &[Pair<'_>], count: usize) -> Vec<String> {
    let port = |pair: &Pair<'_>| {
        let rates = [
            pair.rate(|it| it.sent_bytes),
            pair.rate(|it| it.received_bytes),
            pair.rate(|it| it.same_host_bytes),
        ];
        let label = pair.now.card.label().to_owned();
        (rates, label, pair.now.state.to_string())
    };
    let mut ports: Vec<([f64; 3], String, String)> = pairs.iter().map(port).collect();
    let least = |[sent, received, _]: &[f64; 3]| sent.min(*received);
    ports.sort_by(|a, b| least(&a.0).total_cmp(&least(&b.0)));
    ports.truncate(count);
    let rates = || ports.iter().map(|(rates, ..)| *rates);
    let both = scale(rates().flat_map(|[sent, received, _]| [sent, received]));
    // Traffic within a host passes no port, and can be much faster.
    let within = scale(rates().map(|[.., within]| within));
    let send = format!("send {}", both.unit);
    let receive = format!("receive {}", both.unit);
    let same_host = format!("same-host {}", within.unit);
    let head = [
        "host",
        send.as_str(),
        receive.as_str(),
        same_host.as_str(),
        "state",
    ];
    let rows = ports.into_iter().map(|(rates, label, state)| {
        [
            label,
            both.show(rates[0] * 1e9),
            both.show(rates[1] * 1e9),
            within.show(rates[2] * 1e9),
            state,
        ]
    });
    table(head, rows, &[1, 2, 3])
}

fn table<const N: usize>(
    head: [&str; N],
    rows: impl Iterator<Item = [String; N]>,
    right: &[usize],
) -> Vec<String> {
    let text = aligned(head, rows, right);
    text.lines().map(str::to_owned).collect()
}

/// A link as seen at its ends; `None` for an end that is not watched.
#[derive(Default)]
struct LinkView {
    sender: Option<Passed>,
    receiver: Option<Passed>,
}

/// Progress of one end between two instants.
struct Passed {
    gbit_per_s: f64,
    /// Share of the time spent in each activity.
    shares: [f64; 4],
}

impl LinkView {
    /// Rate in Gbit/s: of delivered bytes if the receiver is watched, else of sent bytes.
    fn rate(&self) -> f64 {
        let end = self.receiver.as_ref().or(self.sender.as_ref());
        end.map_or(0.0, |end| end.gbit_per_s)
    }
}

fn passed(before: &EndCount, now: &EndCount) -> Passed {
    let ns = now.at_ns.saturating_sub(before.at_ns);
    let share = |index: usize| {
        let spent = now.activity_ns[index].saturating_sub(before.activity_ns[index]);
        if ns == 0 {
            0.0
        } else {
            spent as f64 / ns as f64
        }
    };
    Passed {
        gbit_per_s: gbit_per_s(now.bytes.saturating_sub(before.bytes), ns),
        shares: [0, 1, 2, 3].map(share),
    }
}

/// Links between nodes, slowest first. Links within nodes are included only if the run has no others.
fn links(pairs: &[Pair<'_>]) -> Vec<(Lane, LinkView)> {
    let mut links: BTreeMap<Lane, LinkView> = BTreeMap::new();
    for pair in pairs {
        let card = &pair.now.card;
        let lanes = |role| -> Vec<Vec<Lane>> {
            let boundaries = 0..card.test.phases - 1;
            boundaries
                .map(|boundary| card.lanes(role, boundary))
                .collect()
        };
        let (outgoing, incoming) = (lanes(EndRole::Sender), lanes(EndRole::Receiver));
        for (before, now) in pair.before.ends.iter().zip(&pair.now.ends) {
            let of_role = match now.role {
                EndRole::Sender => &outgoing,
                EndRole::Receiver => &incoming,
            };
            let lane = of_role
                .get(now.boundary)
                .and_then(|lanes| lanes.get(now.slot));
            let Some(lane) = lane else { continue };
            let passed = passed(&before.count, &now.count);
            let link = links.entry(*lane).or_default();
            match now.role {
                EndRole::Sender => link.sender = Some(passed),
                EndRole::Receiver => link.receiver = Some(passed),
            }
        }
    }
    let between = links.keys().any(|lane| !lane.is_own());
    let mut links: Vec<(Lane, LinkView)> = links
        .into_iter()
        .filter(|(lane, _)| !between || !lane.is_own())
        .collect();
    links.sort_by(|a, b| a.1.rate().total_cmp(&b.1.rate()));
    links
}

fn link_lines(
    first: &SeenNode,
    labels: &BTreeMap<usize, &str>,
    links: &[(Lane, LinkView)],
    count: usize,
) -> Vec<String> {
    let card = &first.card;
    let label = |node: usize| labels.get(&node).copied().unwrap_or_default();
    let share = |end: Option<&Passed>, activity: usize| {
        or_dash(end.map(|end| format!("{:.0} %", end.shares[activity] * 100.0)))
    };
    let links = links.iter().take(count);
    let scale = scale(links.clone().map(|(_, link)| link.rate()));
    let rows = links.map(|(lane, link)| {
        let stream = if card.test.streams > 1 {
            format!(" stream {}", lane.stream)
        } else {
            String::new()
        };
        let (sender, receiver) = (link.sender.as_ref(), link.receiver.as_ref());
        [
            format!(
                "{}->{} phase {}->{}{stream}",
                label(lane.from),
                label(lane.to),
                lane.boundary,
                lane.boundary + 1
            ),
            scale.show(link.rate() * 1e9),
            share(sender, 1),
            share(sender, 2),
            share(sender, 3),
            share(receiver, 2),
            share(receiver, 1),
        ]
    });
    let head = [
        "slowest links",
        scale.unit,
        "sender: for a block",
        "in write",
        "pacing",
        "receiver: in read",
        "for a slot",
    ];
    table(head, rows, &[1, 2, 3, 4, 5, 6])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{SeenEnd, Sighting, seen};

    fn node(number: usize, at_ns: u64, rate: [u64; 2]) -> SeenNode {
        let mut node = seen(number, &["n1", "n2"]);
        node.at_ns = at_ns;
        let mut ends = Vec::new();
        for role in [EndRole::Sender, EndRole::Receiver] {
            for (slot, bytes_per_s) in rate.into_iter().enumerate() {
                let count = EndCount {
                    at_ns,
                    bytes: bytes_per_s * (at_ns / 1_000_000_000),
                    activity_ns: [0, at_ns / 4, at_ns / 4 * 3, 0],
                    cpu_ns: 0,
                    run_delay_ns: 0,
                    turns: 0,
                    is_ready: false,
                };
                ends.push(SeenEnd {
                    role,
                    boundary: 0,
                    slot,
                    count,
                });
            }
        }
        node.ends = ends;
        node
    }

    fn view(number: usize, rate: [u64; 2]) -> View {
        let at = |at_ns| Sighting {
            nodes: vec![node(number, at_ns, rate)],
            ..Sighting::default()
        };
        View {
            host: format!("n{}", number + 1),
            before: at(1_000_000_000),
            now: at(2_000_000_000),
        }
    }

    const TOKEN: &str = "3f9a1c00112233445566778899aabbcc";

    #[test]
    fn ports_and_links_are_there_with_their_waits_and_the_slowest_first() {
        let views = [view(0, [5, 25_000_000]), view(1, [12_500_000, 5])];
        let lines = picture(&views, TOKEN, 50);
        assert_eq!(
            lines[0],
            "run 3f9a1c by alice@login1, 2 min 5 s, running: switch 0.00 Gbit/s one way, same-host 0.00 Gbit/s"
        );
        assert!(lines[1].starts_with("host  send Gbit/s"), "{lines:#?}");
        assert!(lines[4].starts_with("slowest links"), "{lines:#?}");
        // Delivered bytes are the receiver's; n1 receives n2's link in slot 1.
        let words: Vec<&str> = lines[5].split_whitespace().collect();
        assert_eq!(
            words.join(" "),
            "n1->n2 phase 0->1 100.0 25 % 75 % 0 % 75 % 25 %"
        );
        assert!(
            lines[6].starts_with("n2->n1 phase 0->1   200.0"),
            "{lines:#?}"
        );
        assert_eq!(lines.len(), 7);
    }

    /// Symptom: 0.0841 Gbit/s for a port and a link of 100 Mbit/s.
    #[test]
    fn slow_ports_and_links_are_no_fractions_of_a_gbit() {
        let bytes_per_s = 84_100_000 / 8;
        let mut views = [view(0, [5, bytes_per_s]), view(1, [bytes_per_s, 5])];
        for view in &mut views {
            let node = &mut view.now.nodes[0];
            (node.sent_bytes, node.received_bytes) = (bytes_per_s, bytes_per_s);
        }
        let lines = picture(&views, TOKEN, 50);
        let all = "switch 168.2 Mbit/s one way, same-host 0.00 Gbit/s";
        assert!(lines[0].ends_with(all), "{lines:#?}");
        for (line, start) in [
            (1, "host  send Mbit/s  receive Mbit/s"),
            (2, "n1          84.10           84.10"),
            (4, "slowest links      Mbit/s"),
            (5, "n1->n2 phase 0->1   84.10"),
        ] {
            assert!(lines[line].starts_with(start), "{lines:#?}");
        }
    }

    #[test]
    fn nodes_elsewhere_are_named_and_their_ends_are_missing() {
        let lines = picture(&[view(0, [5, 25_000_000])], TOKEN, 50);
        let last = lines.last().unwrap();
        assert_eq!(
            last,
            "1 of 2 nodes are watched, n2 not (name the missing hosts: pipebench watch 3f9a1c HOSTS)"
        );
        let link = lines
            .iter()
            .find(|line| line.starts_with("n1->n2"))
            .unwrap();
        assert!(link.trim_end().ends_with("-           -"), "{link:?}");
        assert!(picture(&[view(0, [1, 1])], "77", 50).is_empty());
    }

    /// Symptom: each of 1,000 nodes got the labels of all of them.
    #[test]
    fn nodes_that_the_watched_ones_do_not_know_are_counted() {
        let mut view = view(0, [5, 25_000_000]);
        for sighting in [&mut view.before, &mut view.now] {
            sighting.nodes[0].card.peers.nodes = 1000;
        }
        let last = |view: &View| {
            picture(std::slice::from_ref(view), TOKEN, 50)
                .pop()
                .unwrap()
        };
        let text = last(&view);
        assert!(
            text.starts_with("1 of 1000 nodes are watched, n2 and 998 others not ("),
            "{text}"
        );
        for sighting in [&mut view.before, &mut view.now] {
            sighting.nodes[0].card.peers.labels.truncate(1);
        }
        let text = last(&view);
        assert!(
            text.starts_with("1 of 1000 nodes are watched, 999 others not ("),
            "{text}"
        );
    }

    #[test]
    fn a_picture_is_never_higher_than_its_terminal() {
        let views = [view(0, [1, 2]), view(1, [3, 4])];
        for height in 1..12 {
            let lines = picture(&views, TOKEN, height);
            assert!(lines.len() <= height, "{height}: {lines:#?}");
        }
        assert_eq!(picture(&views, TOKEN, 24).len(), 7);
    }
}
