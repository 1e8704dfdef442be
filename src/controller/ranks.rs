//! Ranks: starts them, and lets them measure messages between pairs of them.

use std::net::SocketAddr;

use crate::jobs::linktest;
use crate::judge::order;
use crate::plan::job::{Job, RankAssignment, Round};
use crate::plan::linktest::Linktest;
use crate::plan::ranks::Ranks;
use crate::record::{PairTime, RankRecord, RoundProgress, Trouble, TroubleKind};
use crate::sys::{clock, facts};
use crate::wire::message::{RankWord, ToNode};

use super::events::RunEvent;
use super::run_state::{RunState, fresh_names};
use super::sessions::{Halt, Sessions};

impl RunState<'_> {
    pub(super) fn rank_records(&self, ranks: &Ranks) -> Vec<RankRecord> {
        let nodes = self.hosts.len();
        let of = |rank| {
            let node = ranks.node_of(rank, nodes);
            RankRecord {
                node,
                host: self.hosts[node].facts.hostname.clone(),
                processor: 0,
                strangers: 0,
            }
        };
        (0..ranks.count(nodes)).map(of).collect()
    }

    /// Starts the ranks of a job. Returns false if ports differ from what was ordered: no data flows through them.
    pub(super) fn start_ranks(&mut self, sessions: &mut Sessions, job: &Job) -> Result<bool, Halt> {
        let ranks = job.ranks();
        self.choose_addresses(sessions, &ranks.network, 1)?;
        self.order = order::check(&self.plan, &self.hosts);
        self.tell_hosts();
        if !self.order.is_empty() {
            return Ok(false);
        }
        let nodes = self.hosts.len();
        let labels: Vec<String> = self.hosts.iter().map(|host| host.node.clone()).collect();
        sessions.begin_job();
        let names = fresh_names()?;
        for (node, host) in self.hosts.iter().enumerate() {
            let identity = &host.facts.identity;
            let hosts = self.hosts.iter();
            let same_host = hosts.map(|other| other.facts.identity == *identity);
            let assignment = RankAssignment {
                token: self.token.to_owned(),
                secret: self.conditions.secret.clone(),
                names: names.clone(),
                by: facts::own_name(),
                started_ms: self.started_ms,
                node,
                labels: labels.clone(),
                same_host: same_host.collect(),
                port: host.rails[0].clone(),
                job: job.clone(),
                deadlines: self.plan.deadlines.clone(),
            };
            sessions.send(node, &ToNode::PrepareRanks(Box::new(assignment)));
        }
        let count = ranks.count(nodes);
        let stage = format!("starting {count} ranks");
        self.observer.see(RunEvent::Stage(&stage));
        let limit_ms = self.plan.deadlines.prepare_ms;
        sessions.await_all("start its ranks", limit_ms, |session| {
            session.rank_addresses.is_some()
        })?;
        let mut book: Vec<Option<SocketAddr>> = vec![None; count];
        for node in 0..nodes {
            let of_node = ranks.of_node(node, nodes).into_iter();
            for (rank, address) in of_node.zip(sessions.rank_addresses(node)) {
                book[rank] = *address;
            }
        }
        for node in 0..nodes {
            sessions.send(node, &ToNode::RankBook(book.clone()));
        }
        // The nodes' own deadline expires first and names the late ranks.
        sessions.await_all("make its buffers", limit_ms + 5_000, |session| {
            session.ready
        })?;
        Ok(true)
    }

    /// Current time in milliseconds since 1970: the start of the run plus monotonic time, because the wall clock can be set during a run.
    pub(super) fn now_ms(&self) -> u64 {
        let since_ns = clock::monotonic_ns().saturating_sub(self.began_ns);
        self.started_ms + since_ns / 1_000_000
    }

    /// Lets all ranks measure one round. Returns their reports, and an error if not all ranks reached the end.
    pub(super) fn pairs(
        &mut self,
        sessions: &mut Sessions,
        linktest: &Linktest,
        (iteration, number): (u64, u64),
        round: &Round,
    ) -> (Told, Result<(), Halt>) {
        let nodes = self.hosts.len();
        let ranks = linktest.ranks.count(nodes);
        let directions = usize::from(matches!(round, Round::Whole { .. })) + 1;
        let steps = linktest::steps(linktest, round);
        let open = steps.iter();
        let mut open: Vec<(usize, Vec<PairTime>)> = open
            .map(|step| (directions * step.len(), Vec::new()))
            .collect();
        let mut progress = RoundProgress {
            iteration,
            number,
            steps: open.len(),
            ended: 0,
            elapsed_ns: 0,
            round: round.clone(),
        };
        self.observer.see(RunEvent::Round(&progress));
        let began_ns = clock::monotonic_ns();
        for node in 0..nodes {
            sessions.send(node, &ToNode::Round(Box::new(round.clone())));
        }
        let mut told = Told {
            times: Vec::new(),
            all_to_all_s: vec![0.0; ranks],
            places: Vec::new(),
        };
        let mut foreign = None;
        let observer = &mut *self.observer;
        let limit_ms = self.plan.deadlines.volume_ms;
        let heard = sessions.await_ranks(limit_ms, |node, rank, word| {
            let not_its_own = |rank: usize| format!("speaks of rank {rank}, which is not its own");
            if rank >= ranks || linktest.ranks.node_of(rank, nodes) != node {
                foreign = Some((node, not_its_own(rank)));
                return true;
            }
            match word {
                RankWord::Ready | RankWord::Line(_) => {}
                RankWord::Times(times) => {
                    for time in times {
                        let own = time.from == rank && time.to < ranks && time.to != rank;
                        let Some((links, known)) = open.get_mut(time.step).filter(|_| own) else {
                            foreign = Some((node, not_its_own(time.from)));
                            return true;
                        };
                        if known.len() == *links {
                            let what = format!("tells of more links than a step has ({links})");
                            foreign = Some((node, what));
                            return true;
                        }
                        known.push(time.clone());
                        told.times.push(time);
                        if known.len() == *links {
                            progress.ended += 1;
                            progress.elapsed_ns = clock::monotonic_ns() - began_ns;
                            observer.see(RunEvent::Step {
                                linktest,
                                progress: &progress,
                                times: known,
                            });
                        }
                    }
                }
                RankWord::Done {
                    all_to_all_s,
                    processor,
                    strangers,
                } => {
                    told.all_to_all_s[rank] = all_to_all_s.unwrap_or(0.0);
                    told.places.push((rank, processor, strangers));
                }
            }
            told.places.len() == ranks
        });
        let outcome = match foreign {
            Some((node, what)) => Err(Halt::Trouble(Box::new(Trouble {
                node: self.hosts[node].node.clone(),
                ..Trouble::own(TroubleKind::Lost, what)
            }))),
            None => heard,
        };
        // The first rank of a pair always reports. The second one reports only if both directions are measured.
        let untold = steps.iter().zip(&open).find_map(|(step, (_, known))| {
            let tells = |rank: usize| known.iter().any(|time| time.from == rank);
            let mut ranks = step
                .iter()
                .flat_map(|(from, to)| [*from, *to].into_iter().take(directions));
            ranks.find(|rank| !tells(*rank))
        });
        let outcome = match (outcome, untold) {
            (Ok(()), Some(rank)) => Err(Halt::Trouble(Box::new(Trouble {
                node: self.hosts[linktest.ranks.node_of(rank, nodes)].node.clone(),
                ..Trouble::own(
                    TroubleKind::Lost,
                    format!("rank {rank} came to its end and did not tell of its links"),
                )
            }))),
            (outcome, _) => outcome,
        };
        (told, outcome)
    }
}

/// Reports of the ranks about a round.
pub(super) struct Told {
    pub(super) times: Vec<PairTime>,
    pub(super) all_to_all_s: Vec<f64>,
    /// Ranks that reached the end, each with its processor and the number of connections it closed as strangers.
    places: Vec<(usize, usize, u64)>,
}

impl Told {
    /// Notes processor and strangers of each rank.
    pub(super) fn note_places(&self, ranks: &mut [RankRecord]) {
        for (rank, processor, strangers) in &self.places {
            if let Some(known) = ranks.get_mut(*rank) {
                (known.processor, known.strangers) = (*processor, *strangers);
            }
        }
    }
}
