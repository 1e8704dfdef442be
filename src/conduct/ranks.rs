//! Jobs of ranks, from the start of the ranks to their measurements.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

use crate::jobs::linktest::{self, schedule};
use crate::judge::{order, verdict};
use crate::plan::job::{Job, MOST_ROUNDS, RankAssignment, Round};
use crate::plan::linktest::{Kernel, Linktest};
use crate::plan::ranks::Ranks;
use crate::record::{
    LinktestRecord, PairTime, RankRecord, RetestRecord, RoundProgress, RoundRecord, Trouble,
    TroubleKind,
};
use crate::sys::{clock, facts};
use crate::wire::message::{RankWord, ToNode};

use super::crew::{Crew, Halt};
use super::run_state::{RunState, fresh_names};

/// Limit on the sets of looks for the judge, which learns something from each set.
const MOST_LOOKS: usize = 20;

impl RunState<'_> {
    /// Runs all jobs of the plan in sequence.
    pub(super) fn all_jobs(&mut self, crew: &mut Crew) -> Result<(), Halt> {
        for number in 0..self.plan.jobs.len() {
            let job = self.plan.jobs[number].clone();
            self.muster(crew, &job)?;
            if !self.order.is_empty() {
                return Ok(()); // No data flows through ports that differ from what was ordered.
            }
            let linktest = match &job {
                Job::Linktest(linktest) => linktest.clone(),
                Job::Latency(latency) => {
                    self.latency(crew, number, latency)?;
                    continue;
                }
                Job::Imb(imb) => {
                    self.patterns(crew, number, imb)?;
                    continue;
                }
            };
            self.jobs.push(LinktestRecord {
                job: number,
                complete: false,
                ranks: self.rank_records(&linktest.ranks),
                rounds: Vec::new(),
                looks: Vec::new(),
            });
            self.linktest(crew, &linktest)?;
            self.look_alone(crew, &linktest)?;
            if let Some(job) = self.jobs.last_mut() {
                job.complete = true;
            }
        }
        Ok(())
    }

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

    /// Does everything that precedes the measurements of the ranks.
    fn muster(&mut self, crew: &mut Crew, job: &Job) -> Result<(), Halt> {
        let ranks = job.ranks();
        self.choose_addresses(crew, &ranks.network, 1)?;
        self.order = order::check(&self.plan, &self.hosts);
        self.observer.hosts(&self.plan, &self.hosts, &self.options);
        if !self.order.is_empty() {
            return Ok(());
        }
        let nodes = self.hosts.len();
        let labels: Vec<String> = self.hosts.iter().map(|host| host.node.clone()).collect();
        crew.begin_job();
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
                job: job.for_ranks(),
                deadlines: self.plan.deadlines.clone(),
            };
            crew.send(node, &ToNode::PrepareRanks(Box::new(assignment)));
        }
        let count = ranks.count(nodes);
        self.observer.stage(&format!("starting {count} ranks"));
        let limit_ms = self.plan.deadlines.prepare_ms;
        crew.await_all("start its ranks", limit_ms, |member| {
            member.rank_addresses.is_some()
        })?;
        let mut book: Vec<Option<SocketAddr>> = vec![None; count];
        for node in 0..nodes {
            let of_node = ranks.of_node(node, nodes).into_iter();
            for (rank, address) in of_node.zip(crew.rank_addresses(node)) {
                book[rank] = *address;
            }
        }
        for node in 0..nodes {
            crew.send(node, &ToNode::RankBook(book.clone()));
        }
        // The nodes' own deadline expires first and names the late ranks.
        crew.await_all("make its buffers", limit_ms + 5_000, |member| member.ready)
    }

    fn linktest(&mut self, crew: &mut Crew, linktest: &Linktest) -> Result<(), Halt> {
        let ranks = linktest.ranks.count(self.hosts.len());
        let natural: Vec<usize> = (0..ranks).collect();
        let started_ns = clock::monotonic_ns();
        let mut iteration = 0;
        loop {
            for number in 0..linktest.rank_orders.max(1) {
                let order = match linktest.rank_orders {
                    0 => natural.clone(),
                    _ => {
                        let seed = linktest.rank_seed.wrapping_add(number);
                        schedule::shuffled(natural.clone(), seed)
                    }
                };
                let round = Round::Whole {
                    order,
                    step_seed: linktest.step_seed,
                };
                self.whole(crew, linktest, iteration, round)?;
            }
            iteration += 1;
            let ran_ns = clock::monotonic_ns() - started_ns;
            let rounds = self.jobs.last().map_or(0, |job| job.rounds.len());
            let enough = iteration >= linktest.min_iterations && ran_ns >= linktest.min_runtime_ns;
            if enough || rounds as u64 >= MOST_ROUNDS {
                return Ok(());
            }
        }
    }

    /// Measures the links that the judge asks for, each alone and in one direction, until no new links remain.
    fn look_alone(&mut self, crew: &mut Crew, linktest: &Linktest) -> Result<(), Halt> {
        let mut known = BTreeSet::new();
        for _ in 0..MOST_LOOKS {
            let judged = verdict::judge(&self.plan, &self.hosts, &self.tests, &self.jobs);
            let mut links = Vec::new();
            for (from, to) in judged.open.iter().flat_map(|request| &request.pairs) {
                let rank = |port: usize| self.rank_at(judged.sheet.ports.get(port)?.node);
                links.extend(rank(*from).zip(rank(*to)));
            }
            links.sort_unstable();
            links.dedup();
            // Each link is measured once: single links do not show what all links of an uplink carry together, so a repeat tells nothing new.
            links.retain(|link| known.insert(*link));
            if links.is_empty() {
                return Ok(());
            }
            let started_ms = self.now_ms();
            let began_ns = clock::monotonic_ns();
            let steps = links.len();
            let round = Round::Alone {
                links,
                kernel: Kernel::Unidirectional,
            };
            let (told, outcome) = self.link_round(crew, linktest, 0, &round);
            let look = RoundRecord {
                iteration: 0,
                round,
                started_ms,
                span_ns: clock::monotonic_ns() - began_ns,
                steps,
                times: told.times,
                all_to_all_s: None,
                retests: Vec::new(),
                ended_ms: self.now_ms(),
            };
            if let Some(job) = self.jobs.last_mut() {
                job.looks.push(look);
            }
            outcome?;
        }
        Ok(())
    }

    /// The first rank on the host whose first node is `node`.
    fn rank_at(&self, node: usize) -> Option<usize> {
        let mut ranks = self.jobs.last()?.ranks.iter();
        ranks.position(|rank| self.hosts[rank.node].host_index == node)
    }

    /// Measures one round: all pairs, then all to all, then the slowest links again.
    fn whole(
        &mut self,
        crew: &mut Crew,
        linktest: &Linktest,
        iteration: u64,
        round: Round,
    ) -> Result<(), Halt> {
        let started_ms = self.now_ms();
        let began_ns = clock::monotonic_ns();
        let (measured, outcome) = self.link_round(crew, linktest, iteration, &round);
        let span_ns = clock::monotonic_ns() - began_ns;
        let steps = linktest::steps(linktest, &round).len();
        let mut all = measured.times;
        all.sort_by_key(|time| (time.step, time.from, time.to));
        let record = RoundRecord {
            iteration,
            round,
            started_ms,
            span_ns,
            steps,
            times: all,
            all_to_all_s: None,
            retests: Vec::new(),
            ended_ms: self.now_ms(),
        };
        // The record is kept even if this round or a later one fails.
        let slowest = slowest(&record.times, linktest.slowest);
        self.keep(record);
        outcome?;
        if linktest.all_to_all {
            let (told, outcome) = self.link_round(crew, linktest, iteration, &Round::AllToAll);
            outcome?;
            self.last_round(|round| round.all_to_all_s = Some(told.all_to_all_s));
        }
        if !slowest.is_empty() {
            let links = slowest.iter().map(|time| (time.from, time.to)).collect();
            let again = Round::Alone {
                links,
                kernel: linktest.kernel,
            };
            let (told, outcome) = self.link_round(crew, linktest, iteration, &again);
            let retests = retests(&slowest, &told.times);
            self.last_round(|round| round.retests = retests);
            outcome?;
        }
        let ended_ms = self.now_ms();
        self.last_round(|round| round.ended_ms = ended_ms);
        Ok(())
    }

    /// Current time in milliseconds since 1970: the start of the run plus monotonic time, because the wall clock can be set during a run.
    pub(super) fn now_ms(&self) -> u64 {
        let since_ns = clock::monotonic_ns().saturating_sub(self.began_ns);
        self.started_ms + since_ns / 1_000_000
    }

    fn keep(&mut self, round: RoundRecord) {
        if let Some(job) = self.jobs.last_mut() {
            job.rounds.push(round);
        }
    }

    fn last_round(&mut self, change: impl FnOnce(&mut RoundRecord)) {
        if let Some(round) = self.jobs.last_mut().and_then(|job| job.rounds.last_mut()) {
            change(round);
        }
    }

    /// Measures a round of a link test under the next round number, and notes the processors of its ranks.
    fn link_round(
        &mut self,
        crew: &mut Crew,
        linktest: &Linktest,
        iteration: u64,
        round: &Round,
    ) -> (Told, Result<(), Halt>) {
        let number = self.jobs.last().map_or(0, |job| job.rounds.len()) as u64;
        let (told, outcome) = self.round(crew, linktest, (iteration, number), round);
        if let Some(job) = self.jobs.last_mut() {
            told.note_places(&mut job.ranks);
        }
        (told, outcome)
    }

    /// Lets all ranks measure one round. Returns their reports, and an error if not all ranks reached the end.
    pub(super) fn round(
        &mut self,
        crew: &mut Crew,
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
        self.observer.round(linktest, &progress);
        let began_ns = clock::monotonic_ns();
        for node in 0..nodes {
            crew.send(node, &ToNode::Round(Box::new(round.clone())));
        }
        let mut told = Told {
            times: Vec::new(),
            all_to_all_s: vec![0.0; ranks],
            places: Vec::new(),
        };
        let mut foreign = None;
        let observer = &mut *self.observer;
        let limit_ms = self.plan.deadlines.volume_ms;
        let heard = crew.await_ranks(limit_ms, |node, rank, word| {
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
                            observer.step(linktest, &progress, known);
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
    all_to_all_s: Vec<f64>,
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

/// The `count` slowest links, slowest first. Links with equal times keep the order of the schedule.
fn slowest(times: &[PairTime], count: usize) -> Vec<PairTime> {
    let mut all: Vec<&PairTime> = times.iter().collect();
    all.sort_by(|one, other| other.seconds.total_cmp(&one.seconds));
    all.into_iter().take(count).cloned().collect()
}

fn retests(old: &[PairTime], new: &[PairTime]) -> Vec<RetestRecord> {
    let new: BTreeMap<(usize, usize), &PairTime> = new
        .iter()
        .map(|time| ((time.from, time.to), time))
        .collect();
    let again = |old: &PairTime| {
        let new = new.get(&(old.from, old.to))?;
        Some(RetestRecord {
            from: old.from,
            to: old.to,
            old_s: old.seconds,
            new_s: new.seconds,
            spread: new.spread,
        })
    };
    old.iter().filter_map(again).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(from: usize, to: usize, seconds: f64) -> PairTime {
        PairTime {
            step: 0,
            from,
            to,
            seconds,
            spread: None,
            turn: 0,
            efforts: Default::default(),
        }
    }

    #[test]
    fn the_slowest_links_are_measured_again_slowest_first() {
        let all = [
            time(0, 1, 2.0),
            time(1, 0, 5.0),
            time(2, 3, 9.0),
            time(3, 2, 5.0),
        ];
        let worst = slowest(&all, 3);
        let names: Vec<_> = worst.iter().map(|time| (time.from, time.to)).collect();
        assert_eq!(names, [(2, 3), (1, 0), (3, 2)]);
        assert!(slowest(&all, 0).is_empty());
        assert_eq!(slowest(&all, 9).len(), 4);
        let again = retests(&worst, &[time(1, 0, 1.0), time(2, 3, 3.0)]);
        let figures: Vec<_> = again.iter().map(|one| (one.old_s, one.new_s)).collect();
        assert_eq!(figures, [(9.0, 3.0), (5.0, 1.0)]);
    }
}
