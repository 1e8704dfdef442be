//! `--keep-going`: decides which nodes have failed, and continues with the others.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::record::{self, ENDED_FROM_OUTSIDE, Missing, Trouble};
use crate::sys::clock;
use crate::wire::message::ToNode;

use super::{LAST_WORDS, NodeSession, Sessions};

fn missing(trouble: Trouble, test: usize, at_ns: Option<u64>) -> Missing {
    Missing {
        test,
        node: trouble.node.clone(),
        at_ns,
        kind: trouble.kind,
        what: trouble.text(),
    }
}

impl Sessions {
    /// Failed nodes, each with its first cause, if the others can continue. Consequences on other nodes do not count, unless
    /// a test that has started has no other failures.
    fn failed_nodes(&self) -> Option<Vec<(usize, Trouble)>> {
        const LEAST_LEFT: usize = 2;
        let mut troubles = self.troubles.clone();
        record::rank(&mut troubles);
        let of_nodes = troubles.iter().all(|trouble| !trouble.node.is_empty());
        // A request from outside to end means the whole run.
        let outside = |trouble: &Trouble| trouble.what == ENDED_FROM_OUTSIDE.1;
        let of_nodes = of_nodes && !troubles.iter().any(outside);
        if !self.keep_going || !of_nodes || self.stop.load(Ordering::SeqCst) != 0 {
            return None;
        }
        let first_of = |session: &NodeSession, follows: bool| {
            let own = |trouble: &&Trouble| trouble.node == session.label;
            let fits = |trouble: &&Trouble| follows || session.gone || !trouble.kind.may_follow();
            troubles.iter().filter(own).find(fits).cloned()
        };
        let find = |follows: bool| -> Vec<(usize, Trouble)> {
            let here = self.sessions.iter().enumerate();
            let here = here.filter(|(_, session)| session.lost.is_none());
            here.filter_map(|(node, session)| Some((node, first_of(session, follows)?)))
                .collect()
        };
        let causes = find(false);
        let failed = if causes.is_empty() && self.start_ns > 0 {
            find(true)
        } else {
            causes
        };
        let here = self
            .sessions
            .iter()
            .filter(|one| one.lost.is_none())
            .count();
        (!failed.is_empty() && here >= failed.len() + LEAST_LEFT).then_some(failed)
    }

    /// Marks the failed nodes of a running test as lost and informs the others. Returns false if the run cannot continue.
    pub(super) fn go_on_without(&mut self) -> bool {
        let Some(failed) = self.failed_nodes() else {
            return false;
        };
        for (node, trouble) in failed {
            if self.sessions[node].is_complete() {
                // It has reported everything, so that its end after that costs nothing.
                let text = format!("{}: {} (behind its report)", trouble.node, trouble.text());
                self.notices.push(text);
                continue;
            }
            let heard = self.sessions[node].heard;
            let ago = heard.map_or(Duration::ZERO, |heard| heard.elapsed());
            let ago = u64::try_from(ago.as_nanos()).unwrap_or(0);
            let since_start = clock::monotonic_ns().saturating_sub(self.start_ns);
            let session = &mut self.sessions[node];
            session.report = None;
            session.lost = Some(missing(
                trouble,
                self.test,
                Some(since_start.saturating_sub(ago)),
            ));
            self.send(node, &ToNode::Stop);
            for other in 0..self.sessions.len() {
                if self.sessions[other].lost.is_none() {
                    self.send(other, &ToNode::Lost { node });
                }
            }
            if let Some(missing) = &self.sessions[node].lost {
                let text = format!("{}: goes on without it: {}", missing.node, missing.what);
                self.fresh_notices.push(text.clone());
                self.notices.push(text);
            }
        }
        self.troubles.clear();
        true
    }

    /// Removes the sessions of failed nodes before a test runs, and drops the messages of the others about this test. Returns
    /// `None` if the run cannot continue.
    pub(crate) fn leave_behind(&mut self) -> Option<Vec<Missing>> {
        let failed = self.failed_nodes()?;
        self.troubles.clear();
        let mut left = Vec::new();
        for (node, trouble) in failed.into_iter().rev() {
            self.send(node, &ToNode::End);
            let session = self.sessions.remove(node);
            if session.gone || session.hello.is_none() {
                self.fleet.abort(session.place);
            }
            left.push(missing(trouble, self.test, None));
        }
        left.reverse();
        for missing in &left {
            let text = format!("{}: goes on without it: {}", missing.node, missing.what);
            self.fresh_notices.push(text.clone());
            self.notices.push(text);
        }
        self.places.fill(None);
        for (node, session) in self.sessions.iter().enumerate() {
            self.places[session.place] = Some(node);
        }
        self.start_afresh();
        Some(left)
    }

    /// Marks failed nodes as lost for the rest of the run, before a later test runs. Returns false if the run cannot continue.
    pub(crate) fn set_aside(&mut self) -> bool {
        let Some(failed) = self.failed_nodes() else {
            return false;
        };
        self.troubles.clear();
        for (node, trouble) in failed {
            let missing = missing(trouble, self.test, None);
            self.notice(&format!(
                "{}: goes on without it: {}",
                missing.node, missing.what
            ));
            self.sessions[node].lost = Some(missing);
        }
        self.start_afresh();
        true
    }

    /// Stops a test that is given up and drops the messages about it. They arrive before the answer to a ping sent after the stop.
    fn start_afresh(&mut self) {
        for node in 0..self.sessions.len() {
            self.sessions[node].samples.clear();
            self.send(node, &ToNode::Stop);
            let sent_ns = clock::monotonic_ns();
            self.send(node, &ToNode::Ping { sent_ns });
        }
        let until = Instant::now() + LAST_WORDS;
        let waits = |session: &NodeSession| {
            !session.gone && session.lost.is_none() && session.samples.is_empty()
        };
        while Instant::now() < until && self.sessions.iter().any(waits) {
            self.turn();
        }
        let gone = |trouble: &Trouble| {
            let mut all = self.sessions.iter();
            trouble.node.is_empty() || all.any(|one| one.gone && one.label == trouble.node)
        };
        let kept: Vec<Trouble> = self
            .troubles
            .iter()
            .filter(|one| gone(one))
            .cloned()
            .collect();
        self.troubles = kept;
        for session in &mut self.sessions {
            session.forget_test();
            session.unexplained = false;
        }
    }
}
