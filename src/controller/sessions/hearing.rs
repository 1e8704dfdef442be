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

use super::allowance::Allowance;
use super::{NodeSession, Sessions};

/// Growth of an incomplete message that counts as a sign of life: more than the heartbeats of a node within the silence that is permitted.
const GROWS_BYTES: usize = 4096;

/// Most bytes of progress of a node that wait for the progress of others, and the latest one.
const PROGRESS_BYTES: usize = 1 << 20;

impl NodeSession {
    /// The next message, if it is whole. The error names the limit that it exceeds, or says why the bytes are no message.
    fn next_message(&mut self) -> Result<Option<FromNode>, String> {
        let next = self.decoder.next_length();
        let Some((length, start)) = next.map_err(|error| error.to_string())? else {
            return Ok(None);
        };
        let kind = self.allowance.admit(start, length)?;
        let whole = self.decoder.next_message();
        let Some((message, kind)) = whole.map_err(|error| error.to_string())?.zip(kind) else {
            return Ok(None);
        };
        self.was_heard();
        self.allowance.count(kind, length);
        let read = outside::read(&message);
        let read = read.map_err(|error| format!("a message is not understood: {error}"));
        read.map(Some)
    }

    /// Bytes of its messages that have not arrived wholly, are not handled or are kept.
    pub(super) fn held_bytes(&self) -> usize {
        self.decoder.pending_bytes() + self.allowance.kept_bytes() + self.progress_bytes()
    }

    /// Bytes of its progress that wait for the progress of others.
    fn progress_bytes(&self) -> usize {
        let numbers =
            |one: &Progress| 1 + one.links.len() + one.sent_bytes.len() + one.received_bytes.len();
        self.progress.iter().map(numbers).sum::<usize>() * size_of::<u64>()
    }
}

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

    pub(super) fn hear(&mut self, node: usize, bytes: &[u8]) {
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
        while !self.sessions[node].cut_off {
            match self.sessions[node].next_message() {
                Ok(Some(message)) => self.take(node, message),
                Ok(None) => break,
                // Bytes that are no message come from another program before the hello, and from a disturbed session after it.
                Err(what) => {
                    let kind = match self.sessions[node].hello {
                        None => TroubleKind::Version,
                        Some(_) => TroubleKind::Lost,
                    };
                    self.cut_off(node, kind, what);
                }
            }
            self.bound_bytes();
        }
        self.bound_bytes();
    }

    /// Gives up a node that violated the protocol or a limit, and ignores everything further from it.
    pub(super) fn cut_off(&mut self, node: usize, kind: TroubleKind, what: String) {
        self.lose(node, kind, what);
        let session = &mut self.sessions[node];
        session.cut_off = true;
        session.decoder = Decoder::default();
        self.fleet.abort(session.place);
    }

    /// Bounds the memory of the messages of all nodes together: beyond the bound the node that holds most is cut off.
    fn bound_bytes(&mut self) {
        let held = self.sessions.iter().map(NodeSession::held_bytes);
        if held.clone().sum::<usize>() <= self.all_bytes {
            return;
        }
        if let Some((most, bytes)) = held.enumerate().max_by_key(|(_, bytes)| *bytes) {
            let what = format!(
                "sent more than any other node ({}) when the messages of all nodes exceeded {}",
                show_bytes(bytes as u64),
                show_bytes(self.all_bytes as u64)
            );
            self.cut_off(most, TroubleKind::Lost, what);
            let session = &mut self.sessions[most];
            session.forget_test();
            session.allowance = Allowance::default();
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
                if session.progress.len() < KEPT && session.progress_bytes() <= PROGRESS_BYTES {
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
                session.unexplained |= !report.complete;
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
