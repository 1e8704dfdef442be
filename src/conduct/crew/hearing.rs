//! What comes in from the nodes: the launcher's events, and the messages in their bytes.

use std::time::Instant;

use launcher::{Event, Stage};

use crate::outside;
use crate::record::{Trouble, TroubleKind};
use crate::stats::offset::Sample;
use crate::sys::clock;
use crate::units::show_bytes;
use crate::wire::frame::Decoder;
use crate::wire::message::{FromNode, Hello, Progress, WIRE_VERSION};

use super::{Crew, Member};

/// What all nodes together may have sent of messages that are not whole yet.
const MOST_PENDING_BYTES: usize = 1 << 30;

impl Crew {
    pub(super) fn handle(&mut self, place: usize, event: Event) {
        let Some(node) = self.places.get(place).copied().flatten() else {
            return;
        };
        match event {
            Event::Stage(_) => {}
            Event::Notice(text) => {
                let text = format!("{}: {text}", self.members[node].label);
                self.fresh_notices.push(text.clone());
                self.notices.push(text);
            }
            Event::Up {
                transport,
                address,
                noise: _,
            } => {
                let member = &mut self.members[node];
                member.transport = transport;
                member.address = address;
                member.up_since = Some(Instant::now());
                member.heard = Some(Instant::now());
                member.lull.broken();
            }
            Event::Bytes(bytes, _ticket) => self.hear(node, &bytes),
            Event::Complaint(line, _ticket) => {
                const KEPT: usize = 20;
                let complaints = &mut self.members[node].complaints;
                if complaints.len() < KEPT {
                    complaints.push(outside::clean(&line).into_owned());
                }
            }
            Event::Failed(error) => {
                let kind = if error.stage == Stage::Hello {
                    TroubleKind::Version
                } else {
                    TroubleKind::Start
                };
                if !self.members[node].gone {
                    self.lose(node, kind, error.to_string());
                }
            }
            Event::Ended { status, signal } => self.ended(node, status, signal),
        }
    }

    fn ended(&mut self, node: usize, status: Option<i32>, signal: Option<String>) {
        let member = &self.members[node];
        if member.gone {
            return;
        }
        // It has said itself that it was asked to end; how its process went is no news.
        let is_told =
            |trouble: &Trouble| trouble.kind == TroubleKind::Ended && trouble.node == member.label;
        if self.troubles.iter().any(is_told) && signal.is_none() {
            self.members[node].gone = true;
            return;
        }
        let said = member
            .complaints
            .last()
            .map(|line| format!(" ({line})"))
            .unwrap_or_default();
        let kind = if member.hello.is_none() {
            TroubleKind::Start
        } else {
            TroubleKind::Lost
        };
        // Then what has ended here is a client such as `ssh`, which says 255 of its own failures.
        let by_client = matches!(member.transport.as_str(), "rsh" | "openssh");
        let (kind, what) = match (status, signal) {
            (_, Some(signal)) if by_client => (
                TroubleKind::Killed,
                format!("lost: the session's client was killed by SIG{signal}"),
            ),
            (Some(255), None) if by_client => (kind, "lost: the session ended".to_owned()),
            (_, Some(signal)) => (
                TroubleKind::Killed,
                format!("node status process killed by SIG{signal}"),
            ),
            // A shell between us and the node tells a signal as 128 and its number.
            (Some(code @ 129..=192), None) => (
                TroubleKind::Killed,
                format!("node status process killed by signal {}", code - 128),
            ),
            (Some(code), None) => (
                kind,
                format!("lost: node status process left with code {code}"),
            ),
            (None, None) => (kind, "lost: the session ended".to_owned()),
        };
        self.lose(node, kind, format!("{what}{said}"));
    }

    fn hear(&mut self, node: usize, bytes: &[u8]) {
        let member = &mut self.members[node];
        if member.cut_off {
            return;
        }
        member.heard = Some(Instant::now());
        member.lull.broken();
        member.decoder.push(bytes);
        loop {
            let member = &mut self.members[node];
            let message = match member.decoder.next_message() {
                Ok(Some(message)) => message,
                Ok(None) => return self.bound_pending(node),
                Err(error) => {
                    return self.cut_off(node, self.kind_of_nonsense(node), error.to_string());
                }
            };
            let read = outside::read::<FromNode>(&message);
            let allowed = match &read {
                Ok(read) => member.allowance.take(read, message.len()),
                Err(_) => Ok(()),
            };
            match (read, allowed) {
                (Ok(message), Ok(())) => self.take(node, message),
                (Ok(_), Err(excess)) => {
                    return self.cut_off(node, TroubleKind::Lost, excess);
                }
                (Err(error), _) => {
                    let what = format!("a message is not understood: {error}");
                    return self.cut_off(node, self.kind_of_nonsense(node), what);
                }
            }
        }
    }

    /// Nothing more is heard of a node that has said what it must not.
    pub(super) fn cut_off(&mut self, node: usize, kind: TroubleKind, what: String) {
        self.lose(node, kind, what);
        let member = &mut self.members[node];
        member.cut_off = true;
        member.decoder = Decoder::default();
        self.fleet.abort(member.place);
    }

    /// Messages that have not arrived whole stay in memory: all nodes together have a bound, and the one with most goes.
    fn bound_pending(&mut self, node: usize) {
        let own = self.members[node].decoder.pending_bytes();
        let all: usize = self
            .members
            .iter()
            .map(|one| one.decoder.pending_bytes())
            .sum();
        let is_most = |(_, one): &(usize, &Member)| one.decoder.pending_bytes() >= own;
        if all > MOST_PENDING_BYTES
            && let Some((most, _)) = self.members.iter().enumerate().find(is_most)
        {
            let what = format!(
                "sent {} of a message that is not whole, while all nodes together had {}",
                show_bytes(self.members[most].decoder.pending_bytes() as u64),
                show_bytes(all as u64)
            );
            self.cut_off(most, TroubleKind::Lost, what);
        }
    }

    /// Nonsense instead of a hello is another program; behind a hello, something has broken into the line.
    fn kind_of_nonsense(&self, node: usize) -> TroubleKind {
        match self.members[node].hello {
            None => TroubleKind::Version,
            Some(_) => TroubleKind::Lost,
        }
    }

    fn take(&mut self, node: usize, message: FromNode) {
        let member = &mut self.members[node];
        match message {
            FromNode::Hello(hello) => self.greet(node, *hello),
            FromNode::Prepared {
                listeners,
                source_bytes,
                neighbours,
            } => {
                member.neighbours = neighbours;
                member.listeners = Some(listeners);
                member.source_bytes = source_bytes.unwrap_or(0);
            }
            FromNode::RanksListen(addresses) => member.rank_addresses = Some(addresses),
            FromNode::Rank { rank, word } => member.rank_words.push_back((rank, word)),
            FromNode::Ready => member.ready = true,
            FromNode::Pong { sent_ns, node_ns } => {
                let received_ns = clock::monotonic_ns();
                member.samples.push(Sample {
                    sent_ns,
                    node_ns,
                    received_ns,
                });
            }
            FromNode::Progress(progress) => {
                const KEPT: usize = 64;
                // Some bytes of a message are many numbers in memory.
                const NUMBERS: usize = 1 << 20;
                let numbers = |one: &Progress| {
                    one.links.len() + one.sent_bytes.len() + one.received_bytes.len()
                };
                let held: usize = member.progress.iter().map(numbers).sum();
                if member.progress.len() < KEPT && held + numbers(&progress) <= NUMBERS {
                    member.progress.push_back(progress);
                }
            }
            FromNode::Alive => {}
            FromNode::Trouble(_) | FromNode::Finished(_) if member.lost.is_some() => {}
            FromNode::Trouble(troubles) => {
                let label = member.label.clone();
                let of_node = |trouble: Trouble| Trouble {
                    node: label.clone(),
                    ..trouble
                };
                self.troubles.extend(troubles.into_iter().map(of_node));
            }
            FromNode::Seen(mut sighting) => {
                sighting.keep_sound();
                member.sighting = Some(*sighting);
            }
            FromNode::Asked(asked) => member.asked = Some(asked),
            FromNode::Finished(report) => {
                member.unexplained = !report.complete;
                member.report = Some(*report);
            }
            FromNode::Series { stretch_s, bytes } => member.series = Some((stretch_s, bytes)),
        }
    }

    fn greet(&mut self, node: usize, hello: Hello) {
        let (ours, theirs) = (&self.digest, &hello.digest);
        if hello.wire_version != WIRE_VERSION || ours != theirs {
            let what = format!(
                "another build answers: pipebench {} ({}), this is {} ({}) (remove {} there)",
                hello.version,
                theirs.chars().take(12).collect::<String>(),
                env!("CARGO_PKG_VERSION"),
                ours.chars().take(12).collect::<String>(),
                hello.executable,
            );
            return self.lose(node, TroubleKind::Version, what);
        }
        self.members[node].hello = Some(hello);
    }
}
