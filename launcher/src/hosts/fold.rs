//! Folds many names into a short text: `n[003-117]`.
//!
//! The order is kept, so sorted names fold best. The result is a host list again. Read next:
//! `expression.rs`, the inverse.

use super::expression::parse;
use super::range::number;

/// Folds neighbours whose names differ in one number only. Keeps leading zeros. Repeated `local`
/// becomes `local:3`.
pub fn fold(names: &[String]) -> String {
    let mut text = String::new();
    let mut last: Option<Group<'_>> = None;
    for name in names {
        if last.as_mut().is_some_and(|group| group.take(name)) {
            continue;
        }
        if let Some(group) = last.replace(Group::of(name)) {
            text += &group.text();
            text.push(',');
        }
    }
    text + &last.map_or_else(String::new, |group| group.text())
}

/// Shortens a folded list for a line of text: its first names, and the number of the others. A list of
/// few entries, such as `n[1-756]`, stays whole, as does a text that is no host list.
pub fn shorten(folded: &str) -> String {
    const MAX_ENTRIES: usize = 10;
    const MAX_BYTES: usize = 80;
    let fits = |text: &str| text.matches(',').count() < MAX_ENTRIES && text.len() <= MAX_BYTES;
    let names: Vec<String> = match parse(folded) {
        Ok(hosts) if hosts.len() > 1 && !fits(folded) => {
            hosts.into_iter().map(|host| host.name).collect()
        }
        _ => return folded.to_owned(),
    };
    let counts: Vec<usize> = (1..names.len()).collect();
    let shown = counts.partition_point(|count| fits(&fold(&names[..*count])));
    let shown = shown.max(1);
    format!("{} and {} more", fold(&names[..shown]), names.len() - shown)
}

/// Names that differ in one number.
enum Group<'a> {
    Counted {
        before: &'a str,
        after: &'a str,
        runs: Vec<Run<'a>>,
    },
    Local(usize),
    Single(&'a str),
}

/// Consecutive numbers. The width of the first is the minimum width of all.
struct Run<'a> {
    first: &'a str,
    last: u64,
    length: usize,
}

impl<'a> Group<'a> {
    fn of(name: &'a str) -> Group<'a> {
        match split(name) {
            _ if name == "local" => Group::Local(1),
            Some((before, digits, value, after)) => Group::Counted {
                before,
                after,
                runs: vec![Run::of(digits, value)],
            },
            None => Group::Single(name),
        }
    }

    /// Adds the name if it fits the group. Returns false if it does not.
    fn take(&mut self, name: &'a str) -> bool {
        match self {
            Group::Local(count) if name == "local" => *count += 1,
            Group::Counted {
                before,
                after,
                runs,
            } => match split(name) {
                Some((b, digits, value, a)) if b == *before && a == *after => match runs.last_mut()
                {
                    Some(run) if run.continues(digits, value) => {
                        run.last = value;
                        run.length += 1;
                    }
                    _ => runs.push(Run::of(digits, value)),
                },
                _ => return false,
            },
            Group::Local(_) | Group::Single(_) => return false,
        }
        true
    }

    fn text(&self) -> String {
        match self {
            Group::Single(name) => bracketed(name),
            Group::Local(1) => "local".to_owned(),
            Group::Local(count) => format!("local:{count}"),
            Group::Counted {
                before,
                after,
                runs,
            } => bracketed(&match &runs[..] {
                [run] if run.length == 1 => format!("{before}{}{after}", run.first),
                _ => {
                    let inside: Vec<String> = runs.iter().map(Run::text).collect();
                    format!("{before}[{}]{after}", inside.join(","))
                }
            }),
        }
    }
}

impl<'a> Run<'a> {
    fn of(digits: &'a str, value: u64) -> Run<'a> {
        Run {
            first: digits,
            last: value,
            length: 1,
        }
    }

    fn continues(&self, digits: &str, value: u64) -> bool {
        let width = self.first.len();
        self.last.checked_add(1) == Some(value) && format!("{value:0width$}") == digits
    }

    fn text(&self) -> String {
        let width = self.first.len();
        match self.length {
            1 => self.first.to_owned(),
            _ => format!("{}-{:0width$}", self.first, self.last),
        }
    }
}

/// Puts an IPv6 address in brackets: without them it cannot be parsed back with certainty.
fn bracketed(name: &str) -> String {
    if name.contains(':') {
        format!("[{name}]")
    } else {
        name.to_owned()
    }
}

/// Splits a name at the number by which it is counted: the last one of its first label
/// (`n3.cluster1`), or the one at the end of an address, before its zone (`fe80::3%eth0`).
fn split(name: &str) -> Option<(&str, &str, u64, &str)> {
    let is_ipv6 = name.contains(':');
    let is_ipv4 = name.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    let end_of_label = match (is_ipv6, is_ipv4) {
        (true, _) => name.find('%'),
        (_, true) => None,
        _ => name.find('.'),
    };
    let label = end_of_label.unwrap_or(name.len());
    let end = name[..label].rfind(|c: char| c.is_ascii_digit())? + 1;
    let begin = name[..end]
        .rfind(|c: char| !c.is_ascii_digit())
        .map_or(0, |at| {
            at + name[at..].chars().next().map_or(1, char::len_utf8)
        });
    // In brackets a range is read only after a colon.
    if is_ipv6 && (end < label || !name[..begin].contains(':')) {
        return None;
    }
    let digits = &name[begin..end];
    Some((&name[..begin], digits, number(digits)?, &name[end..]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn expand(text: &str) -> Vec<String> {
        parse(text)
            .unwrap()
            .into_iter()
            .map(|host| host.name)
            .collect()
    }

    #[test]
    fn what_a_reader_expects() {
        let cases = [
            "n[003-117]",
            "n[08-10,18]",
            "n1",
            "n[1-2]-ib,x,n[1-3]",
            "local:3,n1,local",
            "n[3-4].cluster1",
            "10.0.0.[1-9]",
            "[::1],[::a]",
            "[::[1-2]]",
            "[fd00:77::[3-4,10]],[fe80::a[1-2]%eth0]",
            "rack1n[1-8],rack2n[1-8]",
            "n[1,1]",
        ];
        for case in cases {
            assert_eq!(fold(&expand(case)), case);
        }
        assert_eq!(fold(&[]), "");
        assert_eq!(
            fold(&["n99999999999999999999".to_owned()]),
            "n99999999999999999999"
        );
    }

    /// Symptom: a failure of 766 hosts began with 1.2 KB of their names, and its text could not be found.
    #[test]
    fn a_list_of_many_names_is_shortened_to_ten_and_a_count() {
        let odd: Vec<String> = (0..766).map(|n| format!("local{}", 2 * n + 1)).collect();
        assert_eq!(
            shorten(&fold(&odd)),
            "local[1,3,5,7,9,11,13,15,17,19] and 756 more"
        );
        let long: Vec<String> = (1..4)
            .map(|n| format!("{}{n}x", "a".repeat(50 + n)))
            .collect();
        assert_eq!(shorten(&fold(&long)), format!("{} and 2 more", long[0]));
        let (one, no_list) = ("a".repeat(100), "[a,".repeat(50));
        for whole in ["n[1-756]", "n[1-3],n7", "local:1000", "", &one, &no_list] {
            assert_eq!(shorten(whole), whole);
        }
    }

    proptest! {
        #[test]
        fn folding_is_undone_by_expanding(names in prop::collection::vec("[a-b]{0,2}[0-9]{1,3}(-[a-b]|\\.c[0-9])?", 1..40)) {
            prop_assert_eq!(expand(&fold(&names)), names);
        }

        #[test]
        fn folded_addresses_too(names in prop::collection::vec("fd00:[0-9a-f]{1,2}::[0-9a-f]{1,3}(%eth[01])?", 1..40)) {
            prop_assert_eq!(expand(&fold(&names)), names);
        }

        #[test]
        fn sorted_unique_names_too(numbers in prop::collection::btree_set(0u32..300, 1..60), width in 0usize..5) {
            let names: Vec<String> = numbers.iter().map(|n| format!("n{n:0width$}")).collect();
            prop_assert_eq!(expand(&fold(&names)), names);
        }

        #[test]
        fn no_name_panics(names in prop::collection::vec(".{0,12}", 0..8)) {
            drop(fold(&names));
        }
    }
}
