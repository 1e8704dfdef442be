//! A visit to hosts on which others measure: the same sessions as for a run, but nothing is taken, made or measured.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use launcher::hosts::Host;

use crate::plan::RunPlan;
use crate::record::{Asked, Sighting, Trouble};
use crate::wire::message::ToNode;

use super::crew::{Crew, Member};
use super::{Conditions, Observer};

/// Hosts that were reached, one node of ours on each.
pub struct Visit {
    crew: Crew,
    /// Labels, by node.
    labels: Vec<String>,
    /// Nodes whose answers count: one per host, however often it was named.
    asked: Vec<usize>,
    answer_limit: Duration,
}

impl Visit {
    /// Goes to all hosts; who could not be reached is among the troubles.
    pub fn start(
        plan: &RunPlan,
        hosts: &[Host],
        conditions: &Conditions,
        observer: &mut dyn Observer,
    ) -> Self {
        let mut crew = Crew::start(plan, hosts, conditions);
        match crew.await_hellos(observer) {
            Ok(()) | Err(_) => {} // Whoever is there is visited, the others are in the crew's list.
        }
        let records = crew.host_records();
        let mut known = BTreeSet::new();
        let mut asked = Vec::new();
        for (node, record) in records.iter().enumerate() {
            if crew.present(node).is_some() && known.insert(record.facts.identity.clone()) {
                asked.push(node);
            }
        }
        Self {
            crew,
            labels: plan.nodes.iter().map(|node| node.label.clone()).collect(),
            asked,
            answer_limit: Duration::from_millis(plan.deadlines.silence_ms),
        }
    }

    /// What goes on at every host that answers, by label.
    pub fn look(&mut self, ends: bool) -> Vec<(String, Sighting)> {
        self.ask(&ToNode::Look { ends }, |member| member.sighting.take())
    }

    /// Asks the nodes of a run to end, wherever they are; answers by label of the host.
    pub fn end_run(&mut self, token: &str) -> Vec<(String, Vec<Asked>)> {
        self.ask(&ToNode::EndRun(token.to_owned()), |member| {
            member.asked.take()
        })
    }

    /// Asks every host, and waits for all answers or for those there are in time.
    fn ask<T>(
        &mut self,
        question: &ToNode,
        take: impl Fn(&mut Member) -> Option<T>,
    ) -> Vec<(String, T)> {
        let mut waiting = self.asked.clone();
        let mut answers = Vec::new();
        for node in &waiting {
            self.crew.send(*node, question);
        }
        let until = Instant::now() + self.answer_limit;
        while !waiting.is_empty() && Instant::now() < until && self.crew.look_up() {
            waiting.retain(|node| {
                let Some(member) = self.crew.present(*node) else {
                    return false;
                };
                let answer = take(member);
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

    /// Lets time pass, with an eye on the sessions. False if the user has asked for the end.
    pub fn pause(&mut self, time: Duration) -> bool {
        let until = Instant::now() + time;
        while Instant::now() < until {
            if !self.crew.look_up() {
                return false;
            }
        }
        true
    }

    /// Labels of hosts that were reached and are still there.
    pub fn hosts(&mut self) -> Vec<String> {
        let asked = self.asked.iter();
        asked
            .filter(|node| self.crew.present(**node).is_some())
            .map(|node| self.labels[*node].clone())
            .collect()
    }

    /// What failed until now.
    pub fn troubles(&self) -> &[Trouble] {
        self.crew.troubles()
    }

    /// Leaves; what failed until now.
    pub fn leave(self) -> Vec<Trouble> {
        self.crew.dismiss().0
    }
}
