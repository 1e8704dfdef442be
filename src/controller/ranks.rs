//! Ranks: starts them, and lets them measure messages between pairs of them.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use crate::jobs::linktest;
use crate::judge::order;
use crate::plan::LinkKind;
use crate::plan::job::{Job, RankAssignment, Round};
use crate::plan::linktest::Linktest;
use crate::plan::ranks::Ranks;
use crate::record::{PairTime, RankRecord, RoundProgress, Trouble, TroubleKind};
use crate::sys::clock;
use crate::wire::message::{RankWord, ToNode};

use super::events::RunEvent;
use super::run_state::{RunState, fresh_names};
use super::sessions::Halt;
use super::test::{peers_of, places_on_hosts};

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

    /// Starts the ranks of a job. Returns false if ports have a wrong speed or MTU: no data flows through them.
    pub(super) fn start_ranks(&mut self, job: &Job) -> Result<bool, Halt> {
        let ranks = job.ranks();
        self.choose_addresses(&ranks.network, 1)?;
        self.order = order::check(&self.plan, &self.hosts);
        self.tell_hosts();
        if !self.order.is_empty() {
            return Ok(false);
        }
        let nodes = self.hosts.len();
        self.sessions.begin_job();
        let names = fresh_names()?;
        let places = places_on_hosts(&self.hosts);
        for (node, host) in self.hosts.iter().enumerate() {
            // Ranks know each other by their numbers.
            let (place, on_host) = places[node];
            let peers = peers_of(&self.hosts, node, on_host, &[node]);
            let assignment = RankAssignment {
                run: self.membership(node, &names, place, peers),
                port: host.rails[0].clone(),
                job: job.clone(),
            };
            self.sessions
                .send(node, &ToNode::PrepareRanks(Box::new(assignment)));
        }
        let count = ranks.count(nodes);
        let stage = format!("starting {count} ranks");
        self.observer.see(RunEvent::Stage(&stage));
        let limit_ms = self.plan.deadlines.prepare_ms;
        self.sessions
            .await_all("start its ranks", limit_ms, |session| {
                session.test.rank_addresses.is_some()
            })?;
        let by_tcp = [(ranks.per_node > 1, true), (nodes > 1, false)];
        let by_tcp =
            by_tcp.map(|(any, within)| any && ranks.transport.link(within) == LinkKind::Tcp);
        let mut book: Vec<Option<SocketAddr>> = vec![None; count];
        for (node, host) in self.hosts.iter().enumerate() {
            let own = ranks.of_node(node, nodes);
            let told = self.sessions.test(node).rank_addresses.as_deref();
            let told = told.unwrap_or_default();
            let is_right =
                |address: &Option<SocketAddr>| address.is_some() == by_tcp.contains(&true);
            if told.len() != own.len() || !told.iter().all(is_right) {
                let what = "did not report where its ranks listen";
                return Err(Trouble::of_node(TroubleKind::Lost, &host.node, what).into());
            }
            for (rank, address) in own.into_iter().zip(told) {
                // A host must not direct the links of others to a third one.
                let at = |told: &SocketAddr| SocketAddr::new(host.rails[0].address, told.port());
                book[rank] = address.as_ref().map(at);
            }
        }
        self.sessions.send_all(&ToNode::RankBook(book));
        // The nodes' own deadline expires first and names the late ranks.
        self.sessions
            .await_all("make its buffers", limit_ms + 5_000, |session| {
                session.test.ready
            })?;
        self.observer.see(RunEvent::Stage("measuring"));
        Ok(true)
    }

    /// Current time in milliseconds since 1970: the start of the run plus monotonic time, because the wall clock can be set during a run.
    pub(super) fn now_ms(&self) -> u64 {
        let since_ns = clock::monotonic_ns().saturating_sub(self.began_ns);
        self.conditions.started_ms + since_ns / 1_000_000
    }

    /// Lets all ranks measure one round. Returns their reports, and an error if not all ranks reached the end.
    pub(super) fn pairs(
        &mut self,
        linktest: &Linktest,
        (iteration, number): (u64, u64),
        round: &Round,
    ) -> (Told, Result<(), Halt>) {
        let nodes = self.hosts.len();
        let ranks = linktest.ranks.count(nodes);
        let directions = usize::from(matches!(round, Round::Whole { .. })) + 1;
        let steps = linktest::steps(linktest, round);
        let mut steps: Vec<StepTimes> = steps
            .iter()
            .map(|pairs| StepTimes::new(pairs, directions))
            .collect();
        let mut progress = RoundProgress {
            iteration,
            number,
            steps: steps.len(),
            ended: 0,
            elapsed_ns: 0,
            round: round.clone(),
        };
        self.observer.see(RunEvent::Round(&progress));
        let began_ns = clock::monotonic_ns();
        self.sessions
            .send_all(&ToNode::Round(Box::new(round.clone())));
        let mut told = Told {
            times: Vec::new(),
            all_to_all_s: vec![0.0; ranks],
            places: Vec::new(),
        };
        let observer = &mut *self.observer;
        let limit_ms = self.plan.deadlines.volume_ms;
        let heard = self
            .sessions
            .await_ranks(&linktest.ranks, limit_ms, |rank, word| {
                match word {
                    RankWord::Ready | RankWord::Line(_) => {}
                    RankWord::Times(times) => {
                        let now_ns = clock::monotonic_ns() - began_ns;
                        for (time, ended_ns) in times {
                            told.times.push(time.clone());
                            take_time(&mut steps, rank, time, ended_ns.min(now_ns))?;
                        }
                        while let Some(times) = next_whole(&steps, &mut progress) {
                            observer.see(RunEvent::Step {
                                linktest,
                                progress: &progress,
                                times,
                            });
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
                Ok(())
            });
        let untold = steps.iter().find_map(|step| step.open.first());
        let outcome = match (heard, untold) {
            (Ok(()), Some((rank, ..))) => {
                let node = &self.hosts[linktest.ranks.node_of(*rank, nodes)].node;
                let what = format!("rank {rank} ended and did not report its links");
                Err(Trouble::of_node(TroubleKind::Lost, node, what).into())
            }
            (outcome, _) => outcome,
        };
        (told, outcome)
    }
}

/// Times of the links of a step.
struct StepTimes {
    /// Sender, receiver and direction of each link whose time is not known yet.
    open: BTreeSet<(usize, usize, usize)>,
    known: Vec<PairTime>,
    /// End of the last known measurement, in nanoseconds since its rank began the round.
    ended_ns: u64,
}

impl StepTimes {
    /// The first rank of a pair reports its link; the second one does so only if both directions are measured.
    fn new(pairs: &[(usize, usize)], directions: usize) -> Self {
        let links = |(from, to): &(usize, usize)| [(*from, *to, 0), (*to, *from, 1)];
        let open = pairs
            .iter()
            .flat_map(|pair| links(pair).into_iter().take(directions));
        Self {
            open: open.collect(),
            known: Vec::new(),
            ended_ns: 0,
        }
    }
}

/// Times of the next step, if all its links are known. A rank reports several steps at once, so a step waits for those before it.
fn next_whole<'a>(steps: &'a [StepTimes], progress: &mut RoundProgress) -> Option<&'a [PairTime]> {
    let step = steps.get(progress.ended)?;
    if !step.open.is_empty() {
        return None;
    }
    progress.ended += 1;
    progress.elapsed_ns = progress.elapsed_ns.max(step.ended_ns);
    Some(&step.known)
}

/// Adds a time that `rank` reports to its step. The error blames `rank` and no other: a link counts only once, only in its own step, and only from the rank that sends on it.
fn take_time(
    steps: &mut [StepTimes],
    rank: usize,
    time: PairTime,
    ended_ns: u64,
) -> Result<(), String> {
    let (from, to, number) = (time.from, time.to, time.step);
    let link = (from, to, time.turn);
    let step = steps.get_mut(number).filter(|_| from == rank);
    let Some(step) = step.filter(|step| step.open.contains(&link)) else {
        return Err(format!(
            "rank {rank} reported link {from}->{to} in step {number}, which is not its own there, or reported it twice"
        ));
    };
    step.open.remove(&link);
    step.known.push(time);
    step.ended_ns = step.ended_ns.max(ended_ns);
    Ok(())
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

#[cfg(test)]
mod tests {
    use super::*;

    fn time(step: usize, from: usize, to: usize, turn: usize) -> PairTime {
        PairTime {
            step,
            from,
            to,
            turn,
            seconds: 1.0,
            spread: None,
            efforts: Default::default(),
        }
    }

    /// A rank that reported a link twice filled its step, and the next honest rank was named for reporting too much.
    #[test]
    fn a_rank_that_tells_its_time_twice_is_named_and_not_the_next_honest_one() {
        let of = |pairs: &[(usize, usize)]| StepTimes::new(pairs, 2);
        let mut steps = [of(&[(0, 1), (2, 3)]), of(&[(0, 2), (1, 3)])];
        let mut take = |rank, time| take_time(&mut steps, rank, time, 1);
        assert_eq!(take(0, time(0, 0, 1, 0)), Ok(()));
        for (rank, lie) in [
            (0, time(0, 0, 1, 0)), // Twice.
            (0, time(0, 0, 1, 1)), // The other direction.
            (0, time(1, 0, 1, 0)), // Another step.
            (0, time(2, 0, 1, 0)), // A step that does not exist.
            (0, time(0, 0, 3, 0)), // Another partner.
            (0, time(0, 2, 3, 0)), // Another rank's.
        ] {
            let error = take(rank, lie).unwrap_err();
            assert!(error.starts_with("rank 0 reported link "), "{error}");
        }
        assert_eq!(take(2, time(0, 2, 3, 0)), Ok(()));
        assert_eq!(take(3, time(0, 3, 2, 1)), Ok(()));
        assert_eq!(take(1, time(0, 1, 0, 1)), Ok(()));
        assert!(steps[0].open.is_empty());
        // Ranks 0 and 2 have not reported step 1.
        let untold = steps.iter().find_map(|step| step.open.first());
        assert_eq!(untold, Some(&(0, 2, 0)));
    }

    /// Symptom: a short serial test printed steps 1, 4, 5, 2, 3 and 6, and with the first one the time of the whole run.
    #[test]
    fn steps_are_shown_in_their_order_each_with_its_own_end() {
        let mut steps = [(0, 1), (0, 2), (1, 2)].map(|pair| StepTimes::new(&[pair], 1));
        let mut progress = RoundProgress {
            iteration: 0,
            number: 0,
            steps: 3,
            ended: 0,
            elapsed_ns: 0,
            round: Round::AllToAll,
        };
        let shown = |steps: &[StepTimes], progress: &mut RoundProgress| {
            let times = next_whole(steps, progress)?;
            Some((times[0].step, progress.elapsed_ns))
        };
        take_time(&mut steps, 1, time(2, 1, 2, 0), 30).unwrap();
        assert_eq!(shown(&steps, &mut progress), None);
        take_time(&mut steps, 0, time(0, 0, 1, 0), 10).unwrap();
        take_time(&mut steps, 0, time(1, 0, 2, 0), 20).unwrap();
        for expected in [Some((0, 10)), Some((1, 20)), Some((2, 30)), None] {
            assert_eq!(shown(&steps, &mut progress), expected);
        }
    }
}
