//! Input from the nodes: the launcher's events, and the messages that their bytes contain.

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

/// Growth of an incomplete message that counts as a sign of life: more than the heartbeats of a node within the silence that is permitted.
const GROWS_BYTES: usize = 4096;
/// Most bytes of incomplete messages of all nodes together.
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
                member.was_heard();
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
        // The node has already reported that it was asked to end. The end of its process is no news then.
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
        // With these transports the ended process is a client such as `ssh`, which exits with 255 for its own failures.
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
            // A shell between here and the node reports a signal as 128 plus its number.
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
        // A message that is not whole shows life only while it grows: signs of life that a wrong length swallows are none.
        member.fresh_bytes += bytes.len();
        if member.fresh_bytes >= GROWS_BYTES {
            member.was_heard();
        }
        member.decoder.push(bytes);
        loop {
            let member = &mut self.members[node];
            let message = match member.decoder.next_message() {
                Ok(Some(message)) => {
                    member.was_heard();
                    message
                }
                Ok(None) => return self.bound_pending(),
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

    /// Gives up a node that violated the protocol or a limit, and ignores everything further from it.
    pub(super) fn cut_off(&mut self, node: usize, kind: TroubleKind, what: String) {
        self.lose(node, kind, what);
        let member = &mut self.members[node];
        member.cut_off = true;
        member.decoder = Decoder::default();
        self.fleet.abort(member.place);
    }

    /// Bounds the memory of incomplete messages of all nodes together: beyond the bound the node that holds most is cut off.
    fn bound_pending(&mut self) {
        let held = |member: &Member| member.decoder.pending_bytes();
        let all: usize = self.members.iter().map(held).sum();
        if all <= MOST_PENDING_BYTES {
            return;
        }
        let held = self.members.iter().map(held).enumerate();
        if let Some((most, bytes)) = held.max_by_key(|(_, bytes)| *bytes) {
            let what = format!(
                "sent {} of a message that is not whole, while all nodes together had {}",
                show_bytes(bytes as u64),
                show_bytes(all as u64)
            );
            self.cut_off(most, TroubleKind::Lost, what);
        }
    }

    /// Kind of failure for bytes that are no message: another program before the hello, a disturbed session after it.
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
                member.note_moved(&progress);
                const KEPT: usize = 64;
                // A few bytes of a message become many numbers in memory.
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
