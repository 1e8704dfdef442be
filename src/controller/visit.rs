//! A visit to hosts on which other runs measure. It uses the same sessions as a run, but takes, makes and measures nothing.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use launcher::hosts::Host;

use crate::plan::RunPlan;
use crate::record::{Asked, Sighting, Trouble};
use crate::wire::message::ToNode;

use super::conditions::Conditions;
use super::events::Observer;
use super::sessions::{NodeSession, Sessions};

/// Hosts that were reached, with one node of this visit on each.
pub(crate) struct Visit {
    sessions: Sessions,
    /// Label of each node.
    labels: Vec<String>,
    /// Nodes whose answers count: one per host, even if a host was named several times.
    asked: Vec<usize>,
    answer_limit: Duration,
}

impl Visit {
    /// Connects to all hosts. Hosts that cannot be reached are among the troubles.
    pub(crate) fn start(
        plan: &RunPlan,
        hosts: &[Host],
        conditions: &Conditions,
        observer: &mut dyn Observer,
    ) -> Self {
        let mut sessions = Sessions::start(plan, hosts, conditions);
        match sessions.await_hellos(observer) {
            Ok(()) | Err(_) => {} // The reached hosts are visited; the list of the sessions holds the failures of the others.
        }
        sessions.allow_looks();
        let records = sessions.host_records();
        let mut known = BTreeSet::new();
        let mut asked = Vec::new();
        for (node, record) in records.iter().enumerate() {
            if sessions.present(node).is_some() && known.insert(record.facts.identity.clone()) {
                asked.push(node);
            }
        }
        Self {
            sessions,
            labels: plan.nodes.iter().map(|node| node.label.clone()).collect(),
            asked,
            answer_limit: Duration::from_millis(plan.deadlines.silence_ms),
        }
    }

    /// Looks at the runs on every host. Returns the answers by label; `ends` includes every link end.
    pub(crate) fn look(&mut self, ends: bool) -> Vec<(String, Sighting)> {
        self.ask(&ToNode::Look { ends }, |session| {
            session.visit.sighting.take()
        })
    }

    /// Asks the nodes of a run on all hosts to end. Returns the answers by label of the host.
    pub(crate) fn end_run(&mut self, token: &str) -> Vec<(String, Vec<Asked>)> {
        self.ask(&ToNode::EndRun(token.to_owned()), |session| {
            session.visit.asked.take()
        })
    }

    /// Asks every host. Returns the answers that arrive before the deadline.
    fn ask<T>(
        &mut self,
        question: &ToNode,
        take: impl Fn(&mut NodeSession) -> Option<T>,
    ) -> Vec<(String, T)> {
        let mut waiting = self.asked.clone();
        let mut answers = Vec::new();
        for node in &waiting {
            self.sessions.send(*node, question);
        }
        let until = Instant::now() + self.answer_limit;
        while !waiting.is_empty() && Instant::now() < until && self.sessions.look_up() {
            waiting.retain(|node| {
                let Some(session) = self.sessions.present(*node) else {
                    return false;
                };
                let answer = take(session);
                session.drop_test();
                let is_waiting = answer.is_none();
                answers.extend(answer.map(|answer| (*node, answer)));
                is_waiting
            });
        }
        answers.sort_by_key(|(node, _)| *node);
        let named = answers.into_iter();
        named
            .map(|(node, answer)| (self.labels[node].clone(), answer))
            .collect()
    }

    /// Waits for `time` and serves the sessions meanwhile. Returns false once the user has asked for the end.
    pub(crate) fn pause(&mut self, time: Duration) -> bool {
        let until = Instant::now() + time;
        while Instant::now() < until {
            if !self.sessions.look_up() {
                return false;
            }
        }
        true
    }

    /// Labels of hosts that were reached and whose sessions still exist.
    pub(crate) fn hosts(&mut self) -> Vec<String> {
        let asked = self.asked.iter();
        asked
            .filter(|node| self.sessions.present(**node).is_some())
            .map(|node| self.labels[*node].clone())
            .collect()
    }

    /// Failures so far.
    pub(crate) fn troubles(&self) -> &[Trouble] {
        &self.sessions.log.troubles
    }

    /// Ends the visit. Returns all failures.
    pub(crate) fn leave(self) -> Vec<Trouble> {
        self.sessions.dismiss().0
    }
}
