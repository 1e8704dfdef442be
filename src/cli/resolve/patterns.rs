//! Turns `--pattern` into the patterns of the tests: one, or all permutations for `rotate`.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use crate::cli::mistakes::like;
use crate::plan::{NodeSpec, Pace, Pattern};
use crate::store::bounded;
use crate::units;

use super::error::{UsageError, refuse};

/// Words for `--pattern`, in addition to a file.
pub(super) const WORDS: &str = "all-to-all, mesh, ring, shift:K, rotate, bisection, bisection:one-way, pairs, incast:K, outcast:K, hol";

/// A pattern and the rate limits of its pairs, if any.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Chosen {
    /// The pattern.
    pub pattern: Pattern,
    /// Rate limits from a file.
    pub paces: Vec<Pace>,
}

impl From<Pattern> for Chosen {
    fn from(pattern: Pattern) -> Self {
        Self {
            pattern,
            paces: Vec::new(),
        }
    }
}

/// Patterns that a word means for these nodes, one for each test.
pub(super) fn chosen(word: &str, nodes: &[NodeSpec]) -> Result<Vec<Chosen>, UsageError> {
    if word == "rotate" {
        if nodes.len() < 2 {
            return refuse("--pattern rotate needs at least 2 nodes; there is 1");
        }
        return Ok((1..nodes.len())
            .map(|by| Pattern::Shift(by).into())
            .collect());
    }
    let one = match named(word)? {
        Some(pattern) => pattern.into(),
        None => of_file(word, nodes)?,
    };
    Ok(vec![one])
}

fn named(word: &str) -> Result<Option<Pattern>, UsageError> {
    let (name, number) = match word.split_once(':') {
        Some((name, number)) => (name, Some(number)),
        None => (word, None),
    };
    let count = || -> Result<usize, UsageError> {
        number.and_then(|text| text.parse().ok()).ok_or_else(|| {
            UsageError::Value(format!("--pattern {word}: how many? (write {name}:2)"))
        })
    };
    let pattern = match (name, number) {
        ("all-to-all", None) => Pattern::AllToAll,
        ("mesh", None) => Pattern::Mesh,
        ("ring", None) => Pattern::RING,
        ("bisection", None) => Pattern::Bisection { both: true },
        ("bisection", Some("one-way")) => Pattern::Bisection { both: false },
        ("pairs", None) => Pattern::Pairs,
        ("hol", None) => Pattern::Hol,
        ("shift", _) => Pattern::Shift(count()?),
        ("incast", _) => Pattern::Incast(count()?),
        ("outcast", _) => Pattern::Outcast(count()?),
        _ => return Ok(None),
    };
    Ok(Some(pattern))
}

/// Reads a file with a line for each pair: sender, receiver, and an optional rate limit. `#` begins a comment.
fn of_file(name: &str, nodes: &[NodeSpec]) -> Result<Chosen, UsageError> {
    let text = bounded::given(Path::new(name), bounded::TEXT_BYTES).map_err(|error| {
        UsageError::Value(format!(
            "--pattern {name:?} is neither a pattern ({WORDS}) nor a file: {}{}",
            crate::sys::why(&error),
            like(name, WORDS.split(", "))
        ))
    })?;
    // If two nodes have the same label, it means the first one.
    let places = nodes.iter().enumerate().rev();
    let places: HashMap<&str, usize> = places.map(|(at, node)| (node.label.as_str(), at)).collect();
    let (mut links, mut known) = (Vec::new(), HashSet::new());
    let mut paces = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let wrong =
            |why: String| UsageError::Value(format!("--pattern {name}: line {}: {why}", at + 1));
        let words: Vec<&str> = line
            .split_whitespace()
            .take_while(|word| !word.starts_with('#'))
            .collect();
        let (from, to, rate) = match words[..] {
            [] => continue,
            [from, to] => (from, to, None),
            [from, to, rate] => (from, to, Some(rate)),
            _ => {
                let why = "write FROM TO or FROM TO RATE: n1 n2 2.5G";
                return Err(wrong(why.to_owned()));
            }
        };
        let node = |label: &str| {
            let place = places.get(label).copied();
            place.ok_or_else(|| wrong(format!("{label:?} is not a node of this run")))
        };
        let link = (node(from)?, node(to)?);
        if link.0 == link.1 {
            return Err(wrong(format!("{from} cannot send to itself here")));
        }
        if !known.insert(link) {
            let why = format!("{from} {to} is listed twice (for more links use --streams)");
            return Err(wrong(why));
        }
        links.push(link);
        if let Some(rate) = rate {
            let bits_per_s =
                units::parse_rate_bits(rate).map_err(|error| wrong(error.to_string()))?;
            let (from, to) = link;
            paces.push(Pace {
                from,
                to,
                bits_per_s,
            });
        }
    }
    if links.is_empty() {
        return refuse(format!("--pattern {name}: the file contains no pairs"));
    }
    links.sort_unstable();
    Ok(Chosen {
        pattern: Pattern::Links(links),
        paces,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nodes(count: usize) -> Vec<NodeSpec> {
        let node = |number: usize| NodeSpec {
            label: format!("n{number}"),
            ..NodeSpec::default()
        };
        (1..=count).map(node).collect()
    }

    fn refused(word: &str) -> String {
        chosen(word, &nodes(3)).unwrap_err().to_string()
    }

    #[test]
    fn words_are_patterns_and_rotate_is_all_permutations() {
        let of = |word: &str| -> Vec<String> {
            let all = chosen(word, &nodes(4)).unwrap();
            all.iter().map(|one| one.pattern.to_string()).collect()
        };
        for word in WORDS.split(", ") {
            match word {
                "rotate" => assert_eq!(of(word), ["ring", "shift:2", "shift:3"]),
                word => {
                    let word = word.replace('K', "2");
                    assert_eq!(of(&word), [word]);
                }
            }
        }
        assert_eq!(
            refused("incast"),
            "--pattern incast: how many? (write incast:2)"
        );
        assert!(
            refused("ring:2")
                .starts_with("--pattern \"ring:2\" is neither a pattern (all-to-all, ")
        );
        assert!(chosen("rotate", &nodes(1)).is_err());
    }

    #[test]
    fn a_file_names_pairs_by_their_labels() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("links");
        let name = path.to_str().unwrap();
        let with = |text: &str| {
            std::fs::write(&path, text).unwrap();
            chosen(name, &nodes(3)).map_err(|error| error.to_string())
        };
        let all = with("# two pairs\nn3 n1 2.5G # paced\n\nn1 n2\n").unwrap();
        assert_eq!(all[0].pattern, Pattern::Links(vec![(0, 1), (2, 0)]));
        let pace = Pace {
            from: 2,
            to: 0,
            bits_per_s: 2_500_000_000,
        };
        assert_eq!(all[0].paces, [pace]);
        for (text, why) in [
            ("n1 n4", "line 1: \"n4\" is not a node of this run"),
            ("\nn1 n1", "line 2: n1 cannot send to itself here"),
            (
                "n1 n2\nn1 n2",
                "line 2: n1 n2 is listed twice (for more links use --streams)",
            ),
            ("n1", "line 1: write FROM TO or FROM TO RATE: n1 n2 2.5G"),
            ("# nothing", "the file contains no pairs"),
        ] {
            let error = with(text).unwrap_err();
            assert!(error.ends_with(why), "{error}");
        }
        assert!(with("n1 n2 fast").unwrap_err().contains("line 1: "));
    }
}
