//! Runs in progress, also of other users: a table with a row per run and host, and JSON. Read next: [`super::picture`], the live picture of one run.

use serde_json::{Value, json};

use crate::record::{EndRole, SeenNode, Sighting, Trouble};
use crate::units::{SECOND_NS, Scale, gbit_per_s, show_age, show_since};

use super::{count, each_once, fold, grouped, of_nodes, or_dash, text_of};

/// Two sightings of one host, since a rate needs two instants.
#[derive(Debug, Clone)]
pub(crate) struct View {
    /// The host as it was named.
    pub host: String,
    /// The first sighting.
    pub before: Sighting,
    /// The second sighting, a moment later.
    pub now: Sighting,
}

/// A node at both instants.
pub(super) struct Pair<'view> {
    pub before: &'view SeenNode,
    pub now: &'view SeenNode,
}

impl Pair<'_> {
    /// Rate of a byte counter between the two instants, in Gbit/s.
    pub(super) fn rate(&self, of: fn(&SeenNode) -> u64) -> f64 {
        let bytes = of(self.now).saturating_sub(of(self.before));
        gbit_per_s(bytes, self.now.at_ns.saturating_sub(self.before.at_ns))
    }
}

/// Nodes of run `token` on a host, each with its earlier sighting. A node without one is paired with itself, so its rates are 0.
pub(super) fn pairs<'view>(view: &'view View, token: &str) -> Vec<Pair<'view>> {
    let of_run = |node: &&SeenNode| node.card.token == token;
    let now = view.now.nodes.iter().filter(of_run);
    now.map(|now| {
        let is_it = |node: &&SeenNode| node.card.node == now.card.node;
        let mut before = view.before.nodes.iter().filter(of_run);
        Pair {
            before: before.find(is_it).unwrap_or(now),
            now,
        }
    })
    .collect()
}

/// A run on a host.
#[derive(Default)]
struct Row {
    host: String,
    token: String,
    by: String,
    since: String,
    started_ms: Option<u64>,
    age_s: Option<u64>,
    nodes: Vec<String>,
    phases: Option<usize>,
    links: Option<usize>,
    /// Rates into, out of and within the host, in Gbit/s.
    rates: Option<[f64; 3]>,
    state: String,
}

/// Runs of all hosts, in the order of hosts.
fn rows(views: &[View]) -> Vec<Row> {
    let mut rows = Vec::new();
    for view in views {
        let tokens = view.now.nodes.iter().map(|node| node.card.token.as_str());
        let tokens = each_once(tokens).into_iter();
        rows.extend(tokens.filter_map(|token| row(view, token)));
        rows.extend(closed(view));
    }
    rows
}

fn row(view: &View, token: &str) -> Option<Row> {
    let pairs = pairs(view, token);
    let first = pairs.first()?.now;
    let card = &first.card;
    let sum = |of: fn(&SeenNode) -> u64| pairs.iter().map(|pair| pair.rate(of)).sum();
    // Each link counts at its receiving end, so only once over all hosts.
    let incoming =
        |node: &SeenNode| node.card.lanes(EndRole::Receiver, 0).len() * (card.test.phases - 1);
    Some(Row {
        host: view.host.clone(),
        token: token.to_owned(),
        by: card.by.clone(),
        since: show_since(card.started_ms, view.now.wall_ms),
        started_ms: Some(card.started_ms),
        age_s: pairs.iter().map(|pair| pair.now.age_ns / SECOND_NS).max(),
        nodes: pairs
            .iter()
            .map(|pair| pair.now.card.label().to_owned())
            .collect(),
        phases: Some(card.test.phases),
        links: Some(pairs.iter().map(|pair| incoming(pair.now)).sum()),
        rates: Some([
            sum(|node| node.received_bytes),
            sum(|node| node.sent_bytes),
            sum(|node| node.same_host_bytes),
        ]),
        // State of the least advanced node, for which the others wait.
        state: pairs.iter().map(|pair| pair.now.state).min()?.to_string(),
    })
}

fn closed(view: &View) -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    for segment in &view.now.closed {
        let node = format!("node {}", segment.node);
        match rows.iter_mut().find(|row| row.token == segment.token) {
            Some(row) => row.nodes.push(node),
            None => rows.push(Row {
                host: view.host.clone(),
                token: segment.token.clone(),
                by: segment.user.clone(),
                since: or_dash(None),
                nodes: vec![node],
                state: match segment.why.as_str() {
                    "not permitted" => "another user's".to_owned(),
                    why => why.to_owned(),
                },
                ..Row::default()
            }),
        }
    }
    rows
}

/// The first 6 characters of a token, enough to name a run.
pub(crate) fn short(token: &str) -> String {
    token.chars().take(6).collect()
}

/// The unit in which a table shows these rates, which are in Gbit/s.
pub(super) fn scale(rates: impl Iterator<Item = f64>) -> Scale {
    Scale::of(rates.fold(0.0, f64::max) * 1e9)
}

/// The output of `pipebench status`.
pub(crate) fn table(views: &[View]) -> String {
    let rows = rows(views);
    let rates = || rows.iter().filter_map(|row| row.rates);
    let ports = scale(rates().flat_map(|[incoming, outgoing, _]| [incoming, outgoing]));
    // Traffic within a host passes no port, and can be much faster.
    let within = scale(rates().map(|[.., within]| within));
    let incoming = format!("in {}", ports.unit);
    let outgoing = format!("out {}", ports.unit);
    let same_host = format!("same-host {}", within.unit);
    let head = [
        "host",
        "run",
        "by",
        "since",
        "age",
        "nodes",
        "phases",
        "links",
        incoming.as_str(),
        outgoing.as_str(),
        same_host.as_str(),
        "state",
    ];
    let cells = rows.iter().map(|row| {
        let number = |value: Option<usize>| or_dash(value.map(|value| value.to_string()));
        let rate =
            |at: usize, scale: Scale| or_dash(row.rates.map(|rates| scale.show(rates[at] * 1e9)));
        [
            row.host.clone(),
            short(&row.token),
            row.by.clone(),
            row.since.clone(),
            or_dash(row.age_s.map(show_age)),
            fold(&row.nodes),
            number(row.phases),
            number(row.links),
            rate(0, ports),
            rate(1, ports),
            rate(2, within),
            row.state.clone(),
        ]
    });
    let mut text = String::new();
    if !rows.is_empty() {
        text.push_str(&aligned(head, cells, &[4, 6, 7, 8, 9, 10]));
    }
    let none: Vec<String> = views
        .iter()
        .filter(|view| view.now.nodes.is_empty() && view.now.closed.is_empty())
        .map(|view| view.host.clone())
        .collect();
    if !none.is_empty() {
        text.push_str(&format!("no runs on {}\n", fold(&none)));
    }
    let swept: usize = views.iter().map(swept).sum();
    if swept > 0 {
        let hosts = views.iter().filter(|view| self::swept(view) > 0);
        let hosts: Vec<String> = hosts.map(|view| view.host.clone()).collect();
        text.push_str(&format!(
            "swept {} of killed runs on {}\n",
            count(swept, "leftover"),
            fold(&hosts)
        ));
    }
    text
}

fn swept(view: &View) -> usize {
    view.before.swept.saturating_add(view.now.swept)
}

/// The output of `pipebench status --json`.
pub(crate) fn document(views: &[View], troubles: &[Trouble]) -> String {
    let bits = |rate: f64| (rate * 1e9).round();
    let run = |row: &Row| {
        json!({
            "host": row.host,
            "token": row.token,
            "by": row.by,
            "started_ms": row.started_ms,
            "age_s": row.age_s,
            "nodes": row.nodes,
            "phases": row.phases,
            "links": row.links,
            "in_bits_per_s": row.rates.map(|rates| bits(rates[0])),
            "out_bits_per_s": row.rates.map(|rates| bits(rates[1])),
            "same_host_bits_per_s": row.rates.map(|rates| bits(rates[2])),
            "state": row.state,
        })
    };
    let trouble = |trouble: &Trouble| json!({"host": trouble.node, "what": trouble.text()});
    let hosts: Vec<Value> = views
        .iter()
        .map(|view| json!({"host": view.host, "swept": swept(view)}))
        .collect();
    let document = json!({
        "version": 1,
        "hosts": hosts,
        "runs": rows(views).iter().map(run).collect::<Vec<Value>>(),
        "failed": troubles.iter().map(trouble).collect::<Vec<Value>>(),
    });
    format!("{document:#}\n")
}

/// Tokens of runs that begin with `start`, each once. A run that cannot be opened shows only the beginning of its token, which is returned instead.
pub(crate) fn matching(views: &[View], start: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for view in views {
        let open = view.now.nodes.iter().map(|node| node.card.token.as_str());
        let closed = view.now.closed.iter().map(|segment| segment.token.as_str());
        for token in open.chain(closed) {
            // A segment that cannot be opened shows only the beginning of its token.
            let fits = token.starts_with(start) || (token.len() < 32 && start.starts_with(token));
            let is_known =
                |known: &String| known.starts_with(token) || token.starts_with(known.as_str());
            match found.iter_mut().find(|known| is_known(known)) {
                Some(known) if token.len() > known.len() => *known = token.to_owned(),
                Some(_) => {}
                None if fits => found.push(token.to_owned()),
                None => {}
            }
        }
    }
    found
}

/// Hosts that could not be visited, with one line for each failure.
pub(crate) fn failures(troubles: &[Trouble]) -> Vec<String> {
    let failed = troubles.iter();
    let failed = failed.map(|trouble| (trouble.text(), trouble.node.clone()));
    let lines = grouped(failed).into_iter();
    lines.map(|(text, nodes)| of_nodes(nodes, text)).collect()
}

/// A text table whose columns are as wide as their longest cell. Columns in `right` hold numbers and are right-aligned.
pub(super) fn aligned<const N: usize>(
    head: [&str; N],
    rows: impl IntoIterator<Item = [String; N]>,
    right: &[usize],
) -> String {
    let mut cells = vec![head.map(str::to_owned)];
    cells.extend(rows);
    let width = |column: usize| {
        let lengths = cells.iter().map(|row| row[column].chars().count());
        lengths.max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..N).map(width).collect();
    let padded = |(column, cell): (usize, &String)| {
        let width = widths[column];
        match right.contains(&column) {
            true => format!("{cell:>width$}  "),
            false => format!("{cell:width$}  "),
        }
    };
    let line = |row: &[String; N]| -> String { row.iter().enumerate().map(padded).collect() };
    text_of(&cells.iter().map(line).collect::<Vec<String>>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{ClosedSegment, seen};

    fn view(host: &str, node: usize) -> View {
        let mut before = seen(node, &["n1", "n2", "n3"]);
        let mut now = before.clone();
        (before.at_ns, now.at_ns) = (1_000_000_000, 1_500_000_000);
        (now.received_bytes, now.sent_bytes) = (12_500_000, 6_250_000);
        let of = |node: SeenNode| Sighting {
            wall_ms: 1_795_225_500_000,
            nodes: vec![node],
            ..Sighting::default()
        };
        View {
            host: host.to_owned(),
            before: of(before),
            now: of(now),
        }
    }

    fn idle(host: &str) -> View {
        View {
            host: host.to_owned(),
            before: Sighting::default(),
            now: Sighting::default(),
        }
    }

    #[test]
    fn a_row_per_run_and_host_and_a_line_for_all_the_others() {
        let mut last = idle("n4");
        last.before.swept = 2;
        let text = table(&[view("n1", 0), view("n2", 1), idle("n3"), last]);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines[0],
            "host  run     by            since            age  nodes  phases  links  in Mbit/s  out Mbit/s  same-host Gbit/s  state"
        );
        assert_eq!(
            lines[1],
            "n1    3f9a1c  alice@login1  01:44 UTC  2 min 5 s  n1          2      3      200.0       100.0              0.00  running"
        );
        assert_eq!(lines[3], "no runs on n[3-4]");
        assert_eq!(lines[4], "swept 2 leftovers of killed runs on n4");
    }

    /// Symptom: 0.0841 Gbit/s for a port of 100 Mbit/s.
    #[test]
    fn a_slow_port_is_no_fraction_of_a_gbit() {
        let mut slow = view("n1", 0);
        let node = &mut slow.now.nodes[0];
        node.received_bytes = 84_100_000 / 8 / 2;
        node.same_host_bytes = 2_500_000_000;
        let text = table(&[slow]);
        let words = |line: usize| -> Vec<&str> {
            let line = text.lines().nth(line);
            line.unwrap_or_default().split_whitespace().collect()
        };
        assert!(
            words(0).ends_with(&[
                "in",
                "Mbit/s",
                "out",
                "Mbit/s",
                "same-host",
                "Gbit/s",
                "state"
            ]),
            "{text}"
        );
        assert!(
            words(1).ends_with(&["84.10", "100.0", "40.00", "running"]),
            "{text}"
        );
    }

    #[test]
    fn hosts_that_fail_alike_share_a_line() {
        let lost = |node: &str, what: &str| Trouble {
            node: node.to_owned(),
            ..Trouble::own(crate::record::TroubleKind::Start, what)
        };
        let all = [
            lost("n1", "x"),
            lost("n3", "y"),
            lost("n2", "x"),
            lost("", "z"),
        ];
        assert_eq!(failures(&all), ["n[1-2]: x", "n3: y", "z"]);
    }

    #[test]
    fn what_belongs_to_others_is_listed_and_can_be_named() {
        let mut view = view("n1", 0);
        view.now.closed.push(ClosedSegment {
            token: "77aa77aa77aa77aa".to_owned(),
            node: 4,
            user: "bob".to_owned(),
            why: "not permitted".to_owned(),
        });
        let text = table(std::slice::from_ref(&view));
        let line = text.lines().nth(2).unwrap();
        assert!(line.starts_with("n1    77aa77  bob "), "{text}");
        assert!(line.ends_with("another user's"), "{text}");
        let views = [view];
        assert_eq!(
            matching(&views, "3f9a"),
            ["3f9a1c00112233445566778899aabbcc"]
        );
        assert_eq!(matching(&views, "77aa77aa77aa77aa11"), ["77aa77aa77aa77aa"]);
        assert_eq!(matching(&views, "ffff"), Vec::<String>::new());
        let document = document(&views, &[]);
        let value: Value = serde_json::from_str(&document).unwrap();
        assert_eq!(value["runs"][0]["in_bits_per_s"], 200_000_000.0);
        assert_eq!(value["runs"][1]["in_bits_per_s"], Value::Null);
    }
}
