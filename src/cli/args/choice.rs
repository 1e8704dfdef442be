//! Closed choices: clap knows their words, so it suggests the right one, and the arguments hold values.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};

use latency::planning::{STRATEGIES, Strategy};
use latency::rounds::Effort;
use latency::routing::{RULES, Rule};

use crate::controller::Hold;
use crate::plan::collective::Algorithm;
use crate::plan::imb::{Part, Rules};
use crate::plan::ranks::{RankOrder, Wait};
use crate::plan::{Coupling, Datapath, Profile, Transport, Verify, Workers};

/// A value that is chosen by one of several words.
pub(crate) trait Choice: Copy + PartialEq + Send + Sync + 'static {
    /// All words, each with its value.
    fn words() -> Vec<(&'static str, Self)>;

    /// The word of this value.
    fn word(self) -> &'static str {
        let mut words = Self::words().into_iter();
        let found = words.find(|(_, value)| *value == self);
        found.map_or("", |(word, _)| word)
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

/// Says of each type which words mean which of its values.
macro_rules! choices {
    ($($type:ty: $words:expr,)*) => { $(
        impl Choice for $type {
            fn words() -> Vec<(&'static str, Self)> {
                Vec::from($words)
            }
        }
    )* };
}

/// Who serves links, if the user chose; `auto` leaves it open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AskedWorkers(pub Option<Workers>);

/// How payload moves, if the user chose; `auto` leaves it open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AskedDatapath(pub Option<Datapath>);

/// What links between ranks are made of, in LinkTest's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    /// A transport that exists here.
    Own(Transport),
    /// A transport of LinkTest alone: the note on it names its word.
    Other(&'static str),
}

/// A transport of links between ranks, which can share memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RankTransport(pub Transport);

/// A fabric that a formula makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FabricKind {
    /// Levels of switches, each with as many cables up as down.
    FatTree,
    /// Two levels: each leaf has a cable to each spine.
    LeafSpine,
    /// Groups of switches, with a cable between any two groups.
    Dragonfly,
    /// Any two switches are at most two cables apart.
    SlimFly,
}

/// Assignment of a run's hosts to those of a fabric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HostMap {
    /// Hosts have the names of the description.
    Name,
    /// Hosts have the order of the description.
    Order,
}

choices! {
    Profile: [
        ("quick", Self::Quick),
        ("acceptance", Self::Acceptance),
        ("soak", Self::Soak),
    ],
    Coupling: [("block", Self::Block), ("buffer", Self::Buffer)],
    Transport: [
        ("auto", Self::Auto),
        ("tcp", Self::Tcp),
        ("unix", Self::Unix),
    ],
    RankTransport: [
        ("auto", Self(Transport::Auto)),
        ("tcp", Self(Transport::Tcp)),
        ("unix", Self(Transport::Unix)),
        ("shm", Self(Transport::Shm)),
    ],
    Mode: [
        ("auto", Self::Own(Transport::Auto)),
        ("tcp", Self::Own(Transport::Tcp)),
        ("unix", Self::Own(Transport::Unix)),
        ("mpi", Self::Other("mpi")),
        ("ucp", Self::Other("ucp")),
        ("ibverbs", Self::Other("ibverbs")),
        ("ib_verbs", Self::Other("ib_verbs")),
        ("psm2", Self::Other("psm2")),
        ("cuda", Self::Other("cuda")),
    ],
    Verify: [
        ("none", Self::None),
        ("sample", Self::Sample),
        ("full", Self::Full),
    ],
    AskedDatapath: [
        ("auto", Self(None)),
        ("copy", Self(Some(Datapath::Copy))),
        ("zerocopy", Self(Some(Datapath::Zerocopy))),
    ],
    AskedWorkers: [
        ("auto", Self(None)),
        ("peer", Self(Some(Workers::Peer))),
        ("slot", Self(Some(Workers::Slot))),
        ("shared", Self(Some(Workers::Shared))),
    ],
    RankOrder: [("block", Self::Block), ("round-robin", Self::RoundRobin)],
    Wait: Self::NAMES,
    Rules: Self::NAMES,
    Part: Self::NAMES,
    Hold: Self::NAMES,
    Algorithm: Self::NAMES,
    FabricKind: [
        ("fat-tree", Self::FatTree),
        ("leaf-spine", Self::LeafSpine),
        ("dragonfly", Self::Dragonfly),
        ("slimfly", Self::SlimFly),
        ("slim-fly", Self::SlimFly),
    ],
    HostMap: [("name", Self::Name), ("order", Self::Order)],
    Rule: RULES,
    Strategy: STRATEGIES,
    Effort: [
        ("least", Self::Least),
        ("usual", Self::Usual),
        ("most", Self::Most),
    ],
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
            ("--datapath", "auto, copy, zerocopy"),
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
        assert_eq!(read("--verify", "full").unwrap().plain.verify, Verify::Full);
        assert_eq!(Verify::Full.word(), "full");
    }
}
