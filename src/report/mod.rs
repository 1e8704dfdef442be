//! Reports: each turns a record into a document. They do no I/O, read no clock, and add nothing that is not in the record.

pub(crate) mod anonymous;
mod cells;
pub mod compare;
pub(crate) mod compared;
pub mod csv;
mod described;
mod directions;
pub mod dry_run;
pub(crate) mod fast_ports;
mod faults;
pub mod figures;
pub(crate) mod format;
pub mod header;
pub(crate) mod history;
pub(crate) mod imb;
pub mod json;
pub mod judged;
pub mod junit;
pub(crate) mod latency;
pub mod linktest;
pub mod listing;
pub mod merge;
pub mod metrics;
mod overview;
pub mod page;
pub(crate) mod picture;
pub mod preflight;
pub(crate) mod status;
pub mod text;
mod wires;

use std::collections::HashMap;
use std::hash::Hash;

use launcher::hosts::shorten;

/// A number of things: `1 host`, `3 hosts`.
pub(crate) fn count(number: usize, what: &str) -> String {
    match number {
        1 => format!("1 {what}"),
        _ => format!("{number} {what}s"),
    }
}

/// A share in percent, with one decimal, rounded as the judge rounds it.
fn percent(share: f64) -> String {
    format!("{:.1} %", crate::units::percent(share))
}

/// A cell of a text table; a dash where there is nothing.
fn or_dash(cell: Option<String>) -> String {
    cell.unwrap_or_else(|| "-".to_owned())
}

/// A command line that a shell reads as these words. The crate shlex would also quote commas and equals signs, and host lists are to be readable.
pub(crate) fn quoted(words: &[String]) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_=+,./:@%".contains(letter);
    let word = |word: &String| match !word.is_empty() && word.chars().all(is_plain) {
        true => word.clone(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    };
    let words: Vec<String> = words.iter().map(word).collect();
    words.join(" ")
}

/// The ports that a summary shows: all of a few, the worst ten of many and a line for the others. The worst have the lowest figure.
fn worst<P>(mut ports: Vec<P>, figure: impl Fn(&P) -> f64) -> (Vec<P>, Option<String>) {
    /// Most ports of which all are shown, in the order of the hosts.
    const FEW: usize = 16;
    /// Ports that are shown of more.
    const WORST: usize = 10;
    if ports.len() <= FEW {
        return (ports, None);
    }
    ports.sort_by(|one, other| figure(one).total_cmp(&figure(other)));
    let more = ports.len() - WORST;
    ports.truncate(WORST);
    (
        ports,
        Some(format!(
            "and {more} ports that carried more (--csv has all)"
        )),
    )
}

/// Width of a column of labels below the heading `host`.
fn label_width<'a>(labels: impl Iterator<Item = &'a String>) -> usize {
    labels.map(String::len).max().unwrap_or(0).max("host".len())
}

/// A text after the names of the nodes that it concerns, folded, the first ones of many; without names, the text alone.
fn of_nodes(mut nodes: Vec<String>, text: String) -> String {
    nodes.retain(|node| !node.is_empty());
    match nodes.is_empty() {
        true => text,
        false => format!("{}: {text}", shorten(&fold(&nodes))),
    }
}

/// The values of equal keys together, in the order in which the keys first appear.
fn grouped<K: Clone + Eq + Hash, V>(pairs: impl IntoIterator<Item = (K, V)>) -> Vec<(K, Vec<V>)> {
    let mut places: HashMap<K, usize> = HashMap::new();
    let mut groups: Vec<(K, Vec<V>)> = Vec::new();
    for (key, value) in pairs {
        let place = *places.entry(key.clone()).or_insert(groups.len());
        match groups.get_mut(place) {
            Some((_, values)) => values.push(value),
            None => groups.push((key, vec![value])),
        }
    }
    groups
}

/// All different items, in the order in which they first appear.
fn each_once<T: PartialEq>(items: impl Iterator<Item = T>) -> Vec<T> {
    let mut known = Vec::new();
    for item in items {
        if !known.contains(&item) {
            known.push(item);
        }
    }
    known
}

/// Lines as a text, without blanks at their ends.
fn text_of(lines: &[String]) -> String {
    let lines = lines.iter();
    lines.map(|line| format!("{}\n", line.trim_end())).collect()
}

/// Folds names in natural order: `n[1-3,10]`.
fn fold(names: &[String]) -> String {
    let mut sorted = names.to_vec();
    sorted.sort_by_key(|name| natural(name));
    launcher::hosts::fold(&sorted)
}

/// Sort key that orders numbers within names by their value.
fn natural(name: &str) -> Vec<(String, u64)> {
    let mut key = Vec::new();
    let mut rest = name;
    while !rest.is_empty() {
        let digits = rest
            .find(|c: char| c.is_ascii_digit())
            .unwrap_or(rest.len());
        let (text, tail) = rest.split_at(digits);
        let end = tail
            .find(|c: char| !c.is_ascii_digit())
            .unwrap_or(tail.len());
        let (number, tail) = tail.split_at(end);
        key.push((text.to_owned(), number.parse().unwrap_or(0)));
        rest = tail;
    }
    key
}

#[cfg(test)]
mod tests {
    use super::{csv, fold, json, text};
    use crate::plan::Bound;
    use crate::record::{Record, RoleCpu};

    /// Symptom: 64 rows in the order of the hosts scrolled the verdict away.
    #[test]
    fn of_many_ports_the_worst_ten_are_shown_and_the_rest_is_counted() {
        let worst =
            |count: u32| super::worst((1..=count).rev().collect(), |port: &u32| f64::from(*port));
        let (shown, more) = worst(64);
        assert_eq!(shown, (1..=10).collect::<Vec<u32>>());
        let line = "and 54 ports that carried more (--csv has all)";
        assert_eq!(more.as_deref(), Some(line));
        let (shown, more) = worst(16);
        assert_eq!((shown.len(), shown[0], more), (16, 16, None));
    }

    #[test]
    fn a_command_can_be_pasted() {
        let words = ["--rsh", "ssh -x %h", "n[1-3]", "it's", "a=b", ""];
        let words = words.map(str::to_owned);
        assert_eq!(
            super::quoted(&words),
            r"--rsh 'ssh -x %h' 'n[1-3]' 'it'\''s' a=b ''"
        );
    }

    #[test]
    fn a_record_of_the_largest_numbers_has_every_report() {
        let most = u64::MAX;
        let sound = include_str!("../../tests/golden/two-hosts/record.json");
        let mut record: Record = json::read(sound).unwrap();
        record.plan.tests_mut()[0].bound = Bound::Time {
            warmup_ns: most,
            window_ns: most,
        };
        let test = &mut record.tests_mut()[0];
        test.window_ns = Some(most);
        for node in test.nodes.iter_mut().flatten() {
            (node.retransmits, node.strangers) = (most, most);
            node.cpu = RoleCpu {
                senders_ns: most,
                receivers_ns: most,
                phases_ns: most,
                node_ns: most,
            };
        }
        for link in &mut test.links {
            link.interval_bytes = most;
            if let Some((_, last)) = &mut link.tcp {
                last.busy_us = most;
            }
        }
        for second in &mut test.seconds {
            second.at_ns = most;
            second.received_bytes.fill(most);
        }
        // Both nodes on one host, so that sums per host are formed, too.
        for host in &mut record.hosts {
            host.host_index = 0;
        }
        assert!(text::summary(&record).contains("foreign connections closed"));
        assert!(csv::write(&record).unwrap().contains("18446744073.709553"));
    }

    #[test]
    fn names_are_folded_in_their_natural_order() {
        let names = ["n10", "n2", "n1", "n3"].map(str::to_owned);
        assert_eq!(fold(&names), "n[1-3,10]");
    }
}
