//! `--keep-going`: decides which nodes have failed, and continues with the others.

use std::time::{Duration, Instant};

use crate::record::{self, ENDED_FROM_OUTSIDE, Missing, Trouble};
use crate::sys::clock;
use crate::wire::message::ToNode;

use super::node::NodeSession;
use super::{LAST_WORDS, Sessions};

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
    fn failed_nodes(&mut self) -> Option<Vec<(usize, Trouble)>> {
        const LEAST_LEFT: usize = 2;
        let mut troubles = self.log.troubles.clone();
        record::rank(&mut troubles);
        let of_nodes = troubles.iter().all(|trouble| !trouble.node.is_empty());
        // A request from outside to end means the whole run.
        let outside = |trouble: &Trouble| trouble.what == ENDED_FROM_OUTSIDE.1;
        let of_nodes = of_nodes && !troubles.iter().any(outside);
        if !self.limits.keep_going || !of_nodes || self.log.is_stopped() {
            return None;
        }
        let first_of = |session: &NodeSession, follows: bool| {
            let own = |trouble: &&Trouble| trouble.node == session.label;
            let fits =
                |trouble: &&Trouble| follows || session.life.gone || !trouble.kind.may_follow();
            troubles.iter().filter(own).find(fits).cloned()
        };
        let find = |follows: bool| -> Vec<(usize, Trouble)> {
            let here = self.nodes.iter().enumerate();
            let here = here.filter(|(_, session)| session.takes_part());
            here.filter_map(|(node, session)| Some((node, first_of(session, follows)?)))
                .collect()
        };
        let causes = find(false);
        let failed = if causes.is_empty() && self.time.start_ns > 0 {
            find(true)
        } else {
            causes
        };
        let here = self.nodes.iter().filter(|one| one.takes_part()).count();
        if failed.is_empty() || here < failed.len() + LEAST_LEFT {
            return None;
        }
        // A node that has reported everything costs nothing.
        let costs = |(node, _): &&(usize, Trouble)| !self.nodes[*node].test.is_complete();
        let cost = failed.iter().filter(costs).count();
        let (all, most) = self.limits.all_and_missing;
        let missing = all.saturating_sub(here) + cost;
        if missing > most {
            let text = "may (--keep-going allows more)";
            let text = format!("{missing} of {all} nodes failed, and at most {most} {text}");
            self.log.notice(text);
            return None;
        }
        Some(failed)
    }

    /// Marks the failed nodes of a running test as lost and informs the others. Returns false if the run cannot continue.
    pub(super) fn go_on_without(&mut self) -> bool {
        let Some(failed) = self.failed_nodes() else {
            return false;
        };
        for (node, trouble) in failed {
            if self.nodes[node].test.is_complete() {
                // It has reported everything, so that its end after that costs nothing.
                let text = format!("{}: {} (after its report)", trouble.node, trouble.text());
                self.log.notices.push(text);
                continue;
            }
            let heard = self.nodes[node].life.heard;
            let ago = heard.map_or(Duration::ZERO, |heard| heard.elapsed());
            let ago = u64::try_from(ago.as_nanos()).unwrap_or(0);
            let heard_ns = clock::monotonic_ns().saturating_sub(ago);
            // A node that was last heard before the start took no part in the test.
            let at_ns = heard_ns.checked_sub(self.time.start_ns);
            self.nodes[node].test.report = None;
            self.set_lost(node, missing(trouble, self.time.number, at_ns));
            self.send(node, &ToNode::Stop);
            for other in 0..self.nodes.len() {
                if self.nodes[other].takes_part() {
                    self.send(other, &ToNode::Lost { node });
                }
            }
        }
        self.log.troubles.clear();
        true
    }

    /// Removes the sessions of failed nodes before a test runs, and drops the messages of the others about this test. Returns
    /// `None` if the run cannot continue.
    pub(crate) fn leave_behind(&mut self) -> Option<Vec<Missing>> {
        let failed = self.failed_nodes()?;
        self.log.troubles.clear();
        let mut left = Vec::new();
        for (node, trouble) in failed.into_iter().rev() {
            self.send(node, &ToNode::End);
            let session = self.nodes.remove(node);
            if session.life.gone || session.hello.is_none() {
                self.transport.abort(session.place);
            }
            left.push(missing(trouble, self.time.number, None));
        }
        left.reverse();
        left.iter().for_each(|one| self.log.goes_on_without(one));
        self.transport.number(&self.nodes);
        self.start_afresh();
        Some(left)
    }

    /// Marks failed nodes as lost for the rest of the run, before a later test runs. Returns false if the run cannot continue.
    pub(crate) fn set_aside(&mut self) -> bool {
        let Some(failed) = self.failed_nodes() else {
            return false;
        };
        self.log.troubles.clear();
        for (node, trouble) in failed {
            self.set_lost(node, missing(trouble, self.time.number, None));
        }
        self.start_afresh();
        true
    }

    /// Continues without a node for the rest of the run.
    fn set_lost(&mut self, node: usize, missing: Missing) {
        self.log.goes_on_without(&missing);
        self.nodes[node].life.lost = Some(missing);
    }

    /// Stops a test that is given up and drops the messages about it. They arrive before the answer to a ping sent after the stop.
    fn start_afresh(&mut self) {
        self.forget_clocks();
        for node in 0..self.nodes.len() {
            self.send(node, &ToNode::Stop);
            let sent_ns = clock::monotonic_ns();
            self.send(node, &ToNode::Ping { sent_ns });
        }
        let until = Instant::now() + LAST_WORDS;
        let waits = |node: &NodeSession| {
            !node.life.gone && node.takes_part() && node.clock.samples.is_empty()
        };
        while Instant::now() < until && self.nodes.iter().any(waits) {
            self.turn();
        }
        let nodes = &self.nodes;
        let is_gone = |trouble: &Trouble| {
            let mut all = nodes.iter();
            trouble.node.is_empty() || all.any(|one| one.life.gone && one.label == trouble.node)
        };
        self.log.troubles.retain(is_gone);
        for session in &mut self.nodes {
            session.drop_test();
            session.life.unexplained = false;
        }
    }
}
