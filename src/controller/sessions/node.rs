//! A node as the launching side knows it: what it sent, whether it lives, and its part in the current test.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::time::Instant;

use crate::outside;
use crate::record::{Asked, HostFacts, Missing, NodeReport, Sighting};
use crate::stats::offset::{Offset, Sample};
use crate::sys::clock::IdleTimer;
use crate::units::sum;
use crate::wire::frame::Decoder;
use crate::wire::message::{FromNode, Hello, Listener, Progress, RankWord};

use super::allowance::Allowance;

/// One node.
#[derive(Default)]
pub(crate) struct NodeSession {
    pub(super) label: String,
    /// Its number in the fleet.
    pub(super) place: usize,
    pub(super) local: bool,
    /// Its session, once it is up.
    pub(super) up: Option<Up>,
    pub(super) hello: Option<Hello>,
    pub(super) input: Input,
    pub(super) life: Life,
    pub(super) clock: NodeClock,
    pub(crate) test: TestState,
    pub(crate) visit: Visited,
}

/// The session to a node.
pub(super) struct Up {
    pub(super) transport: String,
    pub(super) address: Option<IpAddr>,
    pub(super) since: Instant,
}

/// Bytes from a node.
#[derive(Default)]
pub(super) struct Input {
    decoder: Decoder,
    /// Limits on its messages.
    pub(super) allowance: Allowance,
    /// It violated the protocol or a limit; its further bytes are ignored.
    pub(super) cut_off: bool,
    /// Bytes that have arrived since the last sign of life.
    fresh_bytes: usize,
    /// Bytes that its messages held when it was last heard from.
    pub(super) counted_bytes: usize,
}

/// Signs of life of a node, and its end.
#[derive(Default)]
pub(super) struct Life {
    pub(super) heard: Option<Instant>,
    /// Time without a message from it.
    pub(super) idle: IdleTimer,
    /// It has failed, or its session has ended.
    pub(super) gone: bool,
    /// Set once the run continues without this node.
    pub(super) lost: Option<Missing>,
    /// It reported an incomplete run.
    pub(super) unexplained: bool,
    pub(super) complaints: Vec<String>,
}

/// The clock of a node.
#[derive(Default)]
pub(super) struct NodeClock {
    pub(super) samples: Vec<Sample>,
    /// Clock offset, from the latest samples.
    pub(super) offset: Option<Offset>,
}

/// Messages of a node about the current test or job. A new test begins with a new state.
#[derive(Default)]
pub(crate) struct TestState {
    /// It has estimated its CPU cost, as far as it can.
    pub(super) has_estimated: bool,
    /// Its listeners by boundary, once it is prepared.
    pub(crate) listeners: Option<Vec<Listener>>,
    /// Length of its source file in bytes; zero without a source file.
    pub(super) source_bytes: u64,
    /// Addresses that it was asked about, each with the hardware address that answers for it.
    pub(crate) neighbours: Vec<(IpAddr, String)>,
    /// Addresses of its ranks, lowest rank first, once they listen.
    pub(crate) rank_addresses: Option<Vec<Option<SocketAddr>>>,
    /// Reports of its ranks that are not handled yet.
    pub(super) rank_words: VecDeque<(usize, RankWord)>,
    /// All its links are connected, or all its ranks know each other's addresses.
    pub(crate) ready: bool,
    pub(super) progress: VecDeque<Progress>,
    /// Payload that it has moved in this test, in bytes, and the last time it was more than before.
    pub(super) moved: (u64, Option<Instant>),
    /// Seconds per figure, and the figures of each requested link.
    pub(super) series: Option<(u64, Vec<Vec<u64>>)>,
    pub(crate) report: Option<NodeReport>,
}

/// Answers of a node to a visit.
#[derive(Default)]
pub(crate) struct Visited {
    /// The runs on its host.
    pub(crate) sighting: Option<Sighting>,
    /// The nodes that it asked to end.
    pub(crate) asked: Option<Vec<Asked>>,
}

impl NodeSession {
    /// Facts of its host, once its hello has arrived.
    pub(super) fn facts(&self) -> Option<&HostFacts> {
        Some(&self.hello.as_ref()?.facts)
    }

    /// True while the run counts on this node.
    pub(super) fn takes_part(&self) -> bool {
        self.life.lost.is_none()
    }

    /// Drops what belongs to a test, and what it counts for.
    pub(crate) fn drop_test(&mut self) {
        self.test = TestState::default();
        // The first words of the node and its failures stay.
        let stays = |tag: &str| ["hello", "trouble"].contains(&tag);
        self.input.allowance.dropped(|tag| !stays(tag));
    }

    /// Bytes of its messages that have not arrived completely, are not handled or are kept.
    pub(super) fn held_bytes(&self) -> usize {
        self.input.decoder.pending_bytes()
            + self.input.allowance.kept_bytes()
            + self.test.progress_bytes()
    }
}

impl Input {
    /// Adds bytes. Returns true if they are a sign of life: a message that is not whole shows life only while it grows by more than the
    /// heartbeats within the silence that is permitted, since a wrong length swallows these.
    pub(super) fn push(&mut self, bytes: &[u8]) -> bool {
        const GROWS_BYTES: usize = 4096;
        self.decoder.push(bytes);
        self.fresh_bytes += bytes.len();
        let grows = self.fresh_bytes >= GROWS_BYTES;
        if grows {
            self.fresh_bytes = 0;
        }
        grows
    }

    /// The next message, if it is whole. The error names the limit that it exceeds, or says why the bytes are no message.
    pub(super) fn next_message(&mut self) -> Result<Option<FromNode>, String> {
        let next = self.decoder.next_length();
        let Some((length, start)) = next.map_err(|error| error.to_string())? else {
            return Ok(None);
        };
        let kind = self.allowance.admit(start, length)?;
        let whole = self.decoder.next_message();
        let Some((message, kind)) = whole.map_err(|error| error.to_string())?.zip(kind) else {
            return Ok(None);
        };
        self.fresh_bytes = 0;
        self.allowance.count(kind, length);
        let read = outside::read(&message);
        let read = read.map_err(|error| format!("invalid message: {error}"));
        read.map(Some)
    }

    /// Drops all bytes and ignores further ones.
    pub(super) fn cut_off(&mut self) {
        self.cut_off = true;
        self.decoder = Decoder::default();
    }
}

impl Life {
    /// Notes a sign of life.
    pub(super) fn was_heard(&mut self) {
        self.heard = Some(Instant::now());
        self.idle.broken();
    }
}

impl TestState {
    /// True if the node reported that all its links ended in order.
    pub(super) fn is_complete(&self) -> bool {
        self.report.as_ref().is_some_and(|report| report.complete)
    }

    /// Notes the progress of a second, and whether bytes have moved. Drops it if too much waits for the progress of others.
    pub(super) fn note_progress(&mut self, progress: Progress) {
        const KEPT: usize = 64;
        const KEPT_BYTES: usize = 1 << 20;
        let to_others = progress.sent_bytes.iter().chain(&progress.received_bytes);
        let here = [progress.same_host_bytes, progress.own_bytes];
        let bytes = sum(to_others.copied().chain(here));
        if bytes > self.moved.0 {
            self.moved = (bytes, Some(Instant::now()));
        }
        if self.progress.len() < KEPT && self.progress_bytes() <= KEPT_BYTES {
            self.progress.push_back(progress);
        }
    }

    /// Bytes of the progress that waits for the progress of others.
    fn progress_bytes(&self) -> usize {
        let numbers =
            |one: &Progress| 1 + one.links.len() + one.sent_bytes.len() + one.received_bytes.len();
        self.progress.iter().map(numbers).sum::<usize>() * size_of::<u64>()
    }
}
