//! Closed choices: clap knows their words, so it suggests the right one, and the arguments hold values.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};

use crate::plan::collective::{ALGORITHMS, Algorithm};
use crate::plan::imb::{Part, Rules};
use crate::plan::ranks::{RankOrder, Wait};
use crate::plan::{Coupling, Datapath, Profile, Transport, Verify, Workers};

/// A value that is chosen by one of several words.
pub(crate) trait Choice: Copy + PartialEq + Send + Sync + 'static {
    /// All words, each with its value.
    fn words() -> Vec<(&'static str, Self)>;

    /// The word of this value.
    fn word(self) -> &'static str {
        let words = Self::words().into_iter();
        words
            .filter(|(_, value)| *value == self)
            .map(|(word, _)| word)
            .next()
            .unwrap_or_default()
    }

    /// What the long help says of this value, if it lists the values.
    fn what(self) -> Option<&'static str> {
        None
    }
}

/// Parses a word of a choice.
pub(super) fn choice<T: Choice>() -> impl TypedValueParser<Value = T> {
    let words = T::words().into_iter();
    let words = words.map(|(word, value)| PossibleValue::new(word).help(value.what()));
    PossibleValuesParser::new(words).try_map(|given| {
        let mut words = T::words().into_iter();
        let found = words.find(|(word, _)| *word == given);
        found.map(|(_, value)| value).ok_or("not known")
    })
}

/// Who serves links, if the user chose; `auto` leaves it open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AskedWorkers(pub Option<Workers>);

impl Choice for Profile {
    fn words() -> Vec<(&'static str, Self)> {
        vec![
            ("quick", Self::Quick),
            ("acceptance", Self::Acceptance),
            ("soak", Self::Soak),
        ]
    }
}

impl Choice for Coupling {
    fn words() -> Vec<(&'static str, Self)> {
        vec![("block", Self::Block), ("buffer", Self::Buffer)]
    }
}

impl Choice for Transport {
    fn words() -> Vec<(&'static str, Self)> {
        vec![
            ("auto", Self::Auto),
            ("tcp", Self::Tcp),
            ("unix", Self::Unix),
        ]
    }
}

impl Choice for Verify {
    fn words() -> Vec<(&'static str, Self)> {
        vec![
            ("none", Self::None),
            ("sample", Self::Sample),
            ("full", Self::Full),
        ]
    }
}

impl Choice for Datapath {
    fn words() -> Vec<(&'static str, Self)> {
        vec![("copy", Self::Copy), ("zerocopy", Self::Zerocopy)]
    }
}

impl Choice for AskedWorkers {
    fn words() -> Vec<(&'static str, Self)> {
        vec![
            ("auto", Self(None)),
            ("peer", Self(Some(Workers::Peer))),
            ("slot", Self(Some(Workers::Slot))),
            ("shared", Self(Some(Workers::Shared))),
        ]
    }
}

impl Choice for RankOrder {
    fn words() -> Vec<(&'static str, Self)> {
        vec![("block", Self::Block), ("round-robin", Self::RoundRobin)]
    }
}

impl Choice for Wait {
    fn words() -> Vec<(&'static str, Self)> {
        Self::NAMES.to_vec()
    }
}

impl Choice for Rules {
    fn words() -> Vec<(&'static str, Self)> {
        Self::NAMES.to_vec()
    }
}

impl Choice for Part {
    fn words() -> Vec<(&'static str, Self)> {
        Self::NAMES.to_vec()
    }
}

impl Choice for Algorithm {
    fn words() -> Vec<(&'static str, Self)> {
        let named = ALGORITHMS.iter().map(|one| (one.name(), *one));
        named.collect()
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::args::Arguments;

    #[test]
    fn a_word_is_a_value_and_another_one_is_refused_with_the_known_ones() {
        let read = |option: &str, word: &str| {
            let words = ["pipebench", "--hosts", "n1", option, word];
            Arguments::try_parse_from(words)
        };
        let all = [
            ("--profile", "quick, acceptance, soak"),
            ("--coupling", "block, buffer"),
            ("--transport", "auto, tcp, unix"),
            ("--verify", "none, sample, full"),
            ("--datapath", "copy, zerocopy"),
            ("--workers", "auto, peer, slot, shared"),
        ];
        for (option, known) in all {
            for word in known.split(", ") {
                assert!(read(option, word).is_ok(), "{option} {word}");
            }
            let error = read(option, "pigeon").unwrap_err().to_string();
            assert!(
                error.contains(&format!("[possible values: {known}]")),
                "{error}"
            );
        }
        assert_eq!(read("--verify", "full").unwrap().verify, Verify::Full);
        assert_eq!(Verify::Full.word(), "full");
    }
}
