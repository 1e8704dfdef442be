//! Failures in a form that can be ranked: a cause comes before its consequences.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

/// Signal by which `pipebench status --end` asks a node status process to end, and the text that this process then reports. A host that
/// shuts down sends another signal.
pub const ENDED_FROM_OUTSIDE: (i32, &str) = (2, "ended by 'pipebench status --end'");

/// One failure.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "web", derive(utoipa::ToSchema))]
pub struct Trouble {
    /// Kind of failure.
    pub kind: TroubleKind,
    /// Label of the node on which it happened; empty for the launching side.
    pub node: String,
    /// Process or stage, such as `phase 1 receiver n2->n1`.
    pub who: String,
    /// Attempted action, and the reason why it failed.
    pub what: String,
}

/// Kinds of failure, causes before consequences.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "web", derive(utoipa::ToSchema))]
#[serde(rename_all = "kebab-case")]
pub enum TroubleKind {
    /// Bad usage or plan.
    Usage,
    /// Another version answered.
    Version,
    /// A host could not be reached or started.
    Start,
    /// A port, memory, process or descriptor was not available.
    Resource,
    /// A process was killed or stopped.
    Killed,
    /// The user or the system requested the end.
    Ended,
    /// A link could not be connected.
    Connect,
    /// Bytes were wrong.
    Invalid,
    /// A defect of pipebench itself.
    Bug,
    /// A stage exceeded its deadline.
    Deadline,
    /// A node fell silent, or its session ended.
    Lost,
    /// A peer closed its connection; usually a consequence of another failure.
    Peer,
}

impl TroubleKind {
    /// True if the peers of a failed node see this kind of failure, too.
    pub fn may_follow(self) -> bool {
        matches!(self, Self::Connect | Self::Deadline | Self::Peer)
    }
}

impl Trouble {
    /// A failure of the launching side itself.
    pub fn own(kind: TroubleKind, what: impl Into<String>) -> Self {
        Self {
            kind,
            node: String::new(),
            who: String::new(),
            what: what.into(),
        }
    }

    /// A failure of a node.
    pub fn of_node(kind: TroubleKind, node: &str, what: impl Into<String>) -> Self {
        Self {
            node: node.to_owned(),
            ..Self::own(kind, what)
        }
    }

    /// Line for the user, without the node.
    pub fn text(&self) -> String {
        match self.who.as_str() {
            "" => self.what.clone(),
            who => format!("{who}: {}", self.what),
        }
    }
}

/// Sorts causes before consequences, and keeps the order of arrival within a kind. A link that could not be connected to a node which is
/// gone is a consequence.
pub fn rank(troubles: &mut [Trouble]) {
    let is_gone = |one: &&Trouble| matches!(one.kind, TroubleKind::Lost | TroubleKind::Killed);
    let gone = troubles.iter().filter(is_gone);
    let gone: BTreeSet<String> = gone.map(|one| one.node.clone()).collect();
    troubles.sort_by_key(|one| {
        let target = one.who.rsplit_once("->").map(|(_, target)| target);
        match one.kind {
            TroubleKind::Connect if target.is_some_and(|to| gone.contains(to)) => TroubleKind::Peer,
            kind => kind,
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Symptom: a node was killed while links were made, and the pair of a node that could not reach it was named.
    #[test]
    fn a_lost_node_comes_before_the_links_that_it_refused() {
        let connect = |from: &str, to: &str| Trouble {
            who: format!("phase 0 sender {from}->{to}"),
            ..Trouble::of_node(TroubleKind::Connect, from, "cannot connect")
        };
        let lost = Trouble::of_node(TroubleKind::Lost, "n3", "lost");
        let (to_lost, other) = (connect("n4", "n3"), connect("n1", "n2"));
        let mut all = [to_lost.clone(), lost.clone(), other.clone()];
        rank(&mut all);
        assert_eq!(all, [other, lost, to_lost]);
    }

    #[test]
    fn a_killed_process_comes_before_the_peers_that_lost_it() {
        let of = |kind| Trouble {
            kind,
            node: "n1".into(),
            who: "x".into(),
            what: "y".into(),
        };
        let mut all = vec![
            of(TroubleKind::Peer),
            of(TroubleKind::Lost),
            of(TroubleKind::Killed),
        ];
        rank(&mut all);
        assert_eq!(all[0].kind, TroubleKind::Killed);
        assert_eq!(all[0].text(), "x: y");
        assert_eq!(Trouble::own(TroubleKind::Bug, "z").text(), "z");
    }
}
