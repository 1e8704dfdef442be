//! The runs of a host as a visitor sees them: read from their status segments alone, for runs of all users.

use crate::buffer::board::EndState;
use crate::buffer::names;
use crate::buffer::snapshot::{Snapshot, SnapshotError};
use crate::outside;
use crate::record::{
    Asked, Card, ClosedSegment, ENDED_FROM_OUTSIDE, EndRole, SeenEnd, SeenNode, SeenState, Sighting,
};
use crate::sys::{clock, facts, memory, process, why};

/// Describes all live runs on this host, after it removes what dead runs left. Includes every link end if `with_ends`.
pub(super) fn look(with_ends: bool) -> Sighting {
    /// Limit for the text of other users in one message, in bytes.
    const MOST_TEXT: usize = 1 << 20;
    let mut text_of_others = 0;
    let mut sighting = Sighting {
        swept: names::sweep(),
        wall_ms: clock::wall_ms(),
        ..Sighting::default()
    };
    let own = nix::unistd::geteuid().as_raw();
    let has_room = |snapshot: &Snapshot, text_of_others: &mut usize| {
        if snapshot.user() != own {
            *text_of_others += snapshot.text().len();
        }
        snapshot.user() == own || *text_of_others <= MOST_TEXT
    };
    for name in names::all() {
        let Some((token, node)) = names::read(&name) else {
            continue;
        };
        let closed = |why: String| {
            let user = memory::segment_user(&name)?;
            Some(ClosedSegment {
                token: token.to_owned(),
                node,
                user: facts::user(user),
                why,
            })
        };
        match Snapshot::read(&name) {
            Ok(snapshot) => match card_of(&snapshot) {
                Some(_) if !has_room(&snapshot, &mut text_of_others) => {
                    sighting.closed.extend(closed("too long".to_owned()));
                }
                Some(card) => sighting.nodes.extend(seen(&snapshot, card, with_ends)),
                None => sighting.closed.extend(closed("not understood".to_owned())),
            },
            // The segment has gone meanwhile, or is being made.
            Err(SnapshotError::Gone | SnapshotError::Unreadable) => {}
            Err(error) => sighting.closed.extend(closed(error.to_string())),
        }
    }
    sighting
}

/// Returns the card of the run whose node status process is `pid`.
pub(super) fn card_of_owner(pid: i32) -> Option<Card> {
    names::all().find_map(|name| {
        let snapshot = Snapshot::read(&name).ok()?;
        let (owner, start) = snapshot.owner()?;
        let is_it = owner == pid && process::start_time(pid) == Some(start);
        is_it.then(|| card_of(&snapshot)).flatten()
    })
}

/// Asks every node status process of a run to end. The launching side then ends the run on all nodes.
pub(super) fn end_run(token: &str) -> Vec<Asked> {
    let mut asked = Vec::new();
    for name in names::all() {
        let Some((named, number)) = names::read(&name).filter(|(of, _)| token.starts_with(of))
        else {
            continue;
        };
        let (node, refused) = match Snapshot::read(&name) {
            Ok(snapshot) => {
                let card = card_of(&snapshot).filter(|card| card.token.starts_with(named));
                let node =
                    card.map_or_else(|| format!("node {number}"), |card| card.label().to_owned());
                (node, ask_to_end(&snapshot))
            }
            Err(SnapshotError::Gone) => continue,
            Err(error) => (format!("node {number}"), Some(error.to_string())),
        };
        asked.push(Asked { node, refused });
    }
    asked
}

/// Asks a node to end. Returns the reason if that is impossible, or `None` if the node was asked or is gone.
fn ask_to_end(snapshot: &Snapshot) -> Option<String> {
    let Some((pid, start)) = snapshot.owner() else {
        return Some("it runs in another pid namespace".to_owned());
    };
    // The writer of a segment can name any process as its owner. It may act for its own user only.
    if process::user_of(pid).is_some_and(|user| user != snapshot.user()) {
        return Some("not permitted".to_owned());
    }
    match process::ask_to_end(pid, start, ENDED_FROM_OUTSIDE.0) {
        Ok(()) => None,
        Err(error) if error.raw_os_error() == Some(nix::libc::ESRCH) => None,
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
            Some("not permitted".to_owned())
        }
        Err(error) => Some(why(&error)),
    }
}

fn card_of(snapshot: &Snapshot) -> Option<Card> {
    let card: Card = outside::read(snapshot.text().as_bytes()).ok()?;
    card.is_sound().then_some(card)
}

/// Describes the node of a segment, or returns `None` if its owner is gone.
fn seen(snapshot: &Snapshot, card: Card, with_ends: bool) -> Option<SeenNode> {
    let owner = snapshot.owner();
    if owner.is_some_and(|(pid, start)| process::start_time(pid) != Some(start)) {
        return None;
    }
    let pid = owner.map_or(0, |(pid, _)| pid);
    let at_ns = clock::monotonic_ns();
    let mut node = SeenNode {
        pid,
        state: state_of(snapshot, pid),
        age_ns: at_ns.saturating_sub(snapshot.made_ns()),
        at_ns,
        sent_bytes: 0,
        received_bytes: 0,
        same_host_bytes: 0,
        ends: Vec::new(),
        card,
    };
    let peers = [EndRole::Sender, EndRole::Receiver].map(|role| node.card.peers(role));
    for (role, boundary, slot, end) in snapshot.ends() {
        let count = end.count();
        let Some(peer) = peers[usize::from(role == EndRole::Receiver)]
            .get(slot)
            .copied()
        else {
            continue; // The card has no such slot.
        };
        let same_host = node.card.peers.shares_host(peer);
        let sum = match role {
            EndRole::Sender if same_host => None,
            EndRole::Sender => Some(&mut node.sent_bytes),
            EndRole::Receiver if same_host => Some(&mut node.same_host_bytes),
            EndRole::Receiver => Some(&mut node.received_bytes),
        };
        if let Some(sum) = sum {
            *sum = sum.saturating_add(count.bytes);
        }
        if with_ends {
            node.ends.push(SeenEnd {
                role,
                boundary,
                slot,
                count,
            });
        }
    }
    Some(node)
}

fn state_of(snapshot: &Snapshot, pid: i32) -> SeenState {
    if process::is_stopped(pid) {
        SeenState::Stopped
    } else if snapshot.is_done() {
        SeenState::Ending
    } else if snapshot.is_stopping() {
        SeenState::Draining
    } else if snapshot.has_started() {
        SeenState::Running
    } else if !snapshot.book_is_there() {
        SeenState::Starting
    } else {
        let (ready, all) = snapshot.count_at_least(EndState::Ready);
        if ready == all {
            SeenState::Ready
        } else {
            SeenState::Connecting
        }
    }
}
