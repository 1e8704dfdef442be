//! Input from the nodes: the launcher's events, and the messages that their bytes contain.

use std::collections::BTreeMap;
use std::time::Instant;

use launcher::hosts::fold;
use launcher::{Event, Stage};

use crate::outside;
use crate::record::{Trouble, TroubleKind};
use crate::stats::offset::Sample;
use crate::sys::clock;
use crate::units::show_bytes;
use crate::wire::message::{FromNode, Hello, WIRE_VERSION};

use super::Sessions;
use super::allowance::Allowance;
use super::node::{TestState, Up};

impl Sessions {
    /// Handles an event of a node; an event without a node is a notice on the start of all of them.
    pub(super) fn handle(&mut self, node: Option<usize>, event: Event) {
        let Some(node) = node else {
            if let Event::Notice(text) = event {
                self.log.notice(outside::clean(&text).into_owned());
            }
            return;
        };
        let session = &mut self.nodes[node];
        match event {
            Event::Stage(_) => {}
            Event::Notice(text) => self.log.notice(format!("{}: {text}", session.label)),
            Event::Up {
                transport, address, ..
            } => {
                session.up = Some(Up {
                    transport,
                    address,
                    since: Instant::now(),
                });
                session.life.was_heard();
            }
            Event::Bytes(bytes, _ticket) => self.hear(node, &bytes),
            Event::Complaint(line, _ticket) => {
                const KEPT: usize = 20;
                let complaints = &mut session.life.complaints;
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
                if !session.life.gone {
                    self.lose(node, kind, error.to_string());
                }
            }
            Event::Ended { status, signal } => self.ended(node, status, signal),
        }
    }

    fn ended(&mut self, node: usize, status: Option<i32>, signal: Option<String>) {
        let session = &self.nodes[node];
        if session.life.gone {
            return;
        }
        // The node has already reported that it was asked to end. The end of its process is no news then.
        let is_told =
            |trouble: &Trouble| trouble.kind == TroubleKind::Ended && trouble.node == session.label;
        if self.log.troubles.iter().any(is_told) && signal.is_none() {
            self.nodes[node].life.gone = true;
            return;
        }
        let said = session.life.complaints.last();
        let said = said.map_or_else(String::new, |line| format!(" ({line})"));
        // With these transports the ended process is a client such as `ssh`, which exits with 255 for its own failures.
        let client = session.up.as_ref().map(|up| up.transport.as_str());
        let by_client = matches!(client, Some("rsh" | "openssh"));
        // A shell between here and the node reports a signal as 128 plus its number.
        let kind = match (status, &signal) {
            (_, Some(_)) | (Some(129..=192), None) => TroubleKind::Killed,
            _ if session.hello.is_none() => TroubleKind::Start,
            _ => TroubleKind::Lost,
        };
        let what = match (status, signal) {
            (_, Some(signal)) if by_client => {
                format!("lost: the session's client was killed by SIG{signal}")
            }
            (Some(255), None) if by_client => "lost: the session ended".to_owned(),
            (_, Some(signal)) => format!("node status process killed by SIG{signal}"),
            (Some(code @ 129..=192), None) => {
                format!("node status process killed by signal {}", code - 128)
            }
            (Some(code), None) => format!("lost: node status process exited with code {code}"),
            (None, None) => "lost: the session ended".to_owned(),
        };
        self.lose(node, kind, format!("{what}{said}"));
    }

    pub(super) fn hear(&mut self, node: usize, bytes: &[u8]) {
        if self.nodes[node].input.cut_off {
            return;
        }
        if self.nodes[node].input.push(bytes) {
            self.nodes[node].life.was_heard();
        }
        while !self.nodes[node].input.cut_off {
            match self.nodes[node].input.next_message() {
                Ok(Some(message)) => {
                    self.nodes[node].life.was_heard();
                    self.take(node, message);
                }
                Ok(None) => break,
                // Bytes that are no message come from another program before the hello, and from a disturbed session after it.
                Err(what) => {
                    let kind = match self.nodes[node].hello {
                        None => TroubleKind::Version,
                        Some(_) => TroubleKind::Lost,
                    };
                    self.cut_off(node, kind, what);
                }
            }
        }
        self.bound_bytes(node);
    }

    /// Gives up a node that violated the protocol or a limit, and ignores everything further from it.
    pub(super) fn cut_off(&mut self, node: usize, kind: TroubleKind, what: String) {
        self.lose(node, kind, what);
        let session = &mut self.nodes[node];
        session.input.cut_off();
        self.transport.abort(session.place);
    }

    /// Bounds the memory of the messages of all nodes together: beyond the bound the node that holds most is cut off. Counts the node that was
    /// heard, and all nodes only if the sum is too high.
    fn bound_bytes(&mut self, node: usize) {
        let limit = self.limits.all_bytes;
        let session = &mut self.nodes[node];
        let before = session.input.counted_bytes;
        session.input.counted_bytes = session.held_bytes();
        self.held_bytes = self.held_bytes.saturating_sub(before) + session.input.counted_bytes;
        if self.held_bytes <= limit {
            return;
        }
        self.held_bytes = 0;
        for session in &mut self.nodes {
            session.input.counted_bytes = session.held_bytes();
            self.held_bytes += session.input.counted_bytes;
        }
        if self.held_bytes <= limit {
            return;
        }
        let held = self.nodes.iter().map(|session| session.input.counted_bytes);
        if let Some((most, bytes)) = held.enumerate().max_by_key(|(_, bytes)| *bytes) {
            let what = format!(
                "sent more than any other node ({}) when the messages of all nodes exceeded {}",
                show_bytes(bytes as u64),
                show_bytes(limit as u64)
            );
            self.cut_off(most, TroubleKind::Lost, what);
            self.nodes[most].test = TestState::default();
            self.nodes[most].input.allowance = Allowance::default();
        }
    }

    fn take(&mut self, node: usize, message: FromNode) {
        let session = &mut self.nodes[node];
        let test = &mut session.test;
        match message {
            FromNode::Hello(hello) => self.greet(node, *hello),
            FromNode::Cost(cost) => {
                test.has_estimated = true;
                if let Some(hello) = &mut session.hello {
                    hello.facts.cost = cost;
                }
            }
            FromNode::Prepared {
                listeners,
                source_bytes,
                neighbours,
            } => {
                test.neighbours = neighbours;
                test.listeners = Some(listeners);
                test.source_bytes = source_bytes.unwrap_or(0);
            }
            FromNode::RanksListen(addresses) => test.rank_addresses = Some(addresses),
            FromNode::Rank { rank, word } => test.rank_words.push_back((rank, word)),
            FromNode::Ready => test.ready = true,
            FromNode::Pong { sent_ns, node_ns } => session.clock.samples.push(Sample {
                sent_ns,
                node_ns,
                received_ns: clock::monotonic_ns(),
            }),
            FromNode::Progress(progress) => test.note_progress(progress),
            FromNode::Alive => {}
            FromNode::Trouble(_) | FromNode::Finished(_) if session.life.lost.is_some() => {}
            FromNode::Trouble(troubles) => {
                let of_node = |trouble: Trouble| Trouble {
                    node: session.label.clone(),
                    ..trouble
                };
                self.log.troubles.extend(troubles.into_iter().map(of_node));
            }
            FromNode::Seen(mut sighting) => {
                sighting.keep_sound();
                session.visit.sighting = Some(*sighting);
            }
            FromNode::Asked(asked) => session.visit.asked = Some(asked),
            FromNode::Finished(report) => {
                session.life.unexplained |= !report.complete;
                test.report = Some(*report);
            }
            FromNode::Series { stretch_s, bytes } => test.series = Some((stretch_s, bytes)),
        }
    }

    fn greet(&mut self, node: usize, hello: Hello) {
        let (own, theirs) = (&self.limits.program, &hello.digest);
        let ours = &own.digest;
        let same_version =
            hello.wire_version == WIRE_VERSION && hello.version == env!("CARGO_PKG_VERSION");
        if !same_version || own.of_digest(theirs).is_none() {
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
        self.nodes[node].hello = Some(hello);
    }

    /// Notes once that hosts of several architectures take part: their processors differ, not only their ports.
    pub(super) fn note_architectures(&mut self) {
        let mut hosts: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for node in &self.nodes {
            if let Some(facts) = node.facts() {
                let same = hosts.entry(&facts.architecture).or_default();
                same.push(node.label.clone());
            }
        }
        if hosts.len() > 1 {
            let each = hosts.iter();
            let each = each.map(|(arch, labels)| format!("{arch} on {}", fold(labels)));
            let each: Vec<String> = each.collect();
            let text = format!("hosts of several architectures: {}", each.join(", "));
            self.log.notice(text);
        }
    }
}
