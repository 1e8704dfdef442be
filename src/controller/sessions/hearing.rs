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

use super::{NodeSession, Sessions};

/// Growth of an incomplete message that counts as a sign of life: more than the heartbeats of a node within the silence that is permitted.
const GROWS_BYTES: usize = 4096;
/// Most bytes of incomplete messages of all nodes together.
const MOST_PENDING_BYTES: usize = 1 << 30;

impl Sessions {
    pub(super) fn handle(&mut self, place: usize, event: Event) {
        let Some(node) = self.places.get(place).copied().flatten() else {
            return;
        };
        match event {
            Event::Stage(_) => {}
            Event::Notice(text) => {
                let text = format!("{}: {text}", self.sessions[node].label);
                self.fresh_notices.push(text.clone());
                self.notices.push(text);
            }
            Event::Up {
                transport,
                address,
                noise: _,
            } => {
                let session = &mut self.sessions[node];
                session.transport = transport;
                session.address = address;
                session.up_since = Some(Instant::now());
                session.was_heard();
            }
            Event::Bytes(bytes, _ticket) => self.hear(node, &bytes),
            Event::Complaint(line, _ticket) => {
                const KEPT: usize = 20;
                let complaints = &mut self.sessions[node].complaints;
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
                if !self.sessions[node].gone {
                    self.lose(node, kind, error.to_string());
                }
            }
            Event::Ended { status, signal } => self.ended(node, status, signal),
        }
    }

    fn ended(&mut self, node: usize, status: Option<i32>, signal: Option<String>) {
        let session = &self.sessions[node];
        if session.gone {
            return;
        }
        // The node has already reported that it was asked to end. The end of its process is no news then.
        let is_told =
            |trouble: &Trouble| trouble.kind == TroubleKind::Ended && trouble.node == session.label;
        if self.troubles.iter().any(is_told) && signal.is_none() {
            self.sessions[node].gone = true;
            return;
        }
        let said = session
            .complaints
            .last()
            .map(|line| format!(" ({line})"))
            .unwrap_or_default();
        let kind = if session.hello.is_none() {
            TroubleKind::Start
        } else {
            TroubleKind::Lost
        };
        // With these transports the ended process is a client such as `ssh`, which exits with 255 for its own failures.
        let by_client = matches!(session.transport.as_str(), "rsh" | "openssh");
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
        let session = &mut self.sessions[node];
        if session.cut_off {
            return;
        }
        // A message that is not whole shows life only while it grows: signs of life that a wrong length swallows are none.
        session.fresh_bytes += bytes.len();
        if session.fresh_bytes >= GROWS_BYTES {
            session.was_heard();
        }
        session.decoder.push(bytes);
        loop {
            let session = &mut self.sessions[node];
            let message = match session.decoder.next_message() {
                Ok(Some(message)) => {
                    session.was_heard();
                    message
                }
                Ok(None) => return self.bound_pending(),
                Err(error) => {
                    return self.cut_off(node, self.kind_of_nonsense(node), error.to_string());
                }
            };
            let read = outside::read::<FromNode>(&message);
            let allowed = match &read {
                Ok(read) => session.allowance.take(read, message.len()),
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
        let session = &mut self.sessions[node];
        session.cut_off = true;
        session.decoder = Decoder::default();
        self.fleet.abort(session.place);
    }

    /// Bounds the memory of incomplete messages of all nodes together: beyond the bound the node that holds most is cut off.
    fn bound_pending(&mut self) {
        let held = |session: &NodeSession| session.decoder.pending_bytes();
        let all: usize = self.sessions.iter().map(held).sum();
        if all <= MOST_PENDING_BYTES {
            return;
        }
        let held = self.sessions.iter().map(held).enumerate();
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
        match self.sessions[node].hello {
            None => TroubleKind::Version,
            Some(_) => TroubleKind::Lost,
        }
    }

    fn take(&mut self, node: usize, message: FromNode) {
        let session = &mut self.sessions[node];
        match message {
            FromNode::Hello(hello) => self.greet(node, *hello),
            FromNode::Prepared {
                listeners,
                source_bytes,
                neighbours,
            } => {
                session.neighbours = neighbours;
                session.listeners = Some(listeners);
                session.source_bytes = source_bytes.unwrap_or(0);
            }
            FromNode::RanksListen(addresses) => session.rank_addresses = Some(addresses),
            FromNode::Rank { rank, word } => session.rank_words.push_back((rank, word)),
            FromNode::Ready => session.ready = true,
            FromNode::Pong { sent_ns, node_ns } => {
                let received_ns = clock::monotonic_ns();
                session.samples.push(Sample {
                    sent_ns,
                    node_ns,
                    received_ns,
                });
            }
            FromNode::Progress(progress) => {
                session.note_moved(&progress);
                const KEPT: usize = 64;
                // A few bytes of a message become many numbers in memory.
                const NUMBERS: usize = 1 << 20;
                let numbers = |one: &Progress| {
                    one.links.len() + one.sent_bytes.len() + one.received_bytes.len()
                };
                let held: usize = session.progress.iter().map(numbers).sum();
                if session.progress.len() < KEPT && held + numbers(&progress) <= NUMBERS {
                    session.progress.push_back(progress);
                }
            }
            FromNode::Alive => {}
            FromNode::Trouble(_) | FromNode::Finished(_) if session.lost.is_some() => {}
            FromNode::Trouble(troubles) => {
                let label = session.label.clone();
                let of_node = |trouble: Trouble| Trouble {
                    node: label.clone(),
                    ..trouble
                };
                self.troubles.extend(troubles.into_iter().map(of_node));
            }
            FromNode::Seen(mut sighting) => {
                sighting.keep_sound();
                session.sighting = Some(*sighting);
            }
            FromNode::Asked(asked) => session.asked = Some(asked),
            FromNode::Finished(report) => {
                session.unexplained = !report.complete;
                session.report = Some(*report);
            }
            FromNode::Series { stretch_s, bytes } => session.series = Some((stretch_s, bytes)),
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
        self.sessions[node].hello = Some(hello);
    }
}
