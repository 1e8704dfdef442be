//! A latency job: plans the rounds, measures them, and calculates the results.

use std::collections::{BTreeMap, BTreeSet};

use crate::plan::job::Round;
use crate::plan::latency::Latency;
use crate::plan::linktest::{Kernel, Linktest};
use crate::record::{
    LatencyRecord, Outcome, PairLatency, PairTime, Planned, RankRecord, Trouble, TroubleKind,
};
use crate::sys::clock;
use latency::analysis::{Analysis, Question, analyse};
use latency::description;
use latency::detect::Baseline;
use latency::fabric::Fabric;
use latency::planning::{self, Plan, Strategy};
use latency::pool::pairs_among;
use latency::rows::Model;
use numbers::random::Random;

use super::events::RunEvent;
use super::findings::{Findings, proof_text};
use super::run_state::RunState;
use super::sessions::Halt;

/// Most suspects that are measured again.
const MOST_LOOKED_AT: usize = 8;
/// Most pairs through each suspect that are measured alone.
const LOOKS: usize = 8;

/// A latency measurement in progress.
struct Measuring<'a> {
    latency: &'a Latency,
    fabric: &'a Fabric,
    plan: Plan,
    /// Rank of each host of the fabric that takes part.
    rank_of: BTreeMap<u32, usize>,
}

impl Measuring<'_> {
    fn model(&self) -> Model<'_> {
        self.plan.model(self.fabric)
    }

    fn links(&self, pairs: &[(u32, u32)]) -> Vec<(usize, usize)> {
        let rank = |host: &u32| self.rank_of.get(host).copied();
        let link = |(from, to): &(u32, u32)| rank(from).zip(rank(to));
        pairs.iter().filter_map(link).collect()
    }
}

impl RunState<'_> {
    /// Measures a latency job and calculates its results.
    pub(super) fn latency(&mut self, latency: &Latency) -> Result<(), Halt> {
        let refuse = |what: String| Err(Trouble::own(TroubleKind::Usage, what).into());
        let draft = description::read(&latency.fabric);
        let fabric = match draft.and_then(|draft| Fabric::new(&draft)) {
            Ok(fabric) => fabric,
            Err(error) => return refuse(format!("the fabric's description: {error}")),
        };
        let rank_of: BTreeMap<u32, usize> = latency.hosts.iter().copied().zip(0..).collect();
        let present: Vec<u32> = rank_of.keys().copied().collect();
        if present.len() < 2 {
            return refuse("fewer than two hosts of the fabric are available".to_owned());
        }
        self.observer.see(RunEvent::Stage("planning rounds"));
        let (plan, changed) = latency.plan_for(&fabric, &present);
        let measuring = Measuring {
            latency,
            fabric: &fabric,
            plan,
            rank_of,
        };
        let mut record = begun(&measuring, &present, changed);
        record.ranks = self.rank_records(&latency.probe.ranks);
        record.started_ms = self.now_ms();
        let outcome = self.measure_all(&measuring, &mut record);
        record.complete = outcome.is_ok();
        self.outcome = Outcome::Latency(Box::new(record));
        outcome
    }

    /// Measures the rounds, the suspects and the checks. Keeps all measurements even if a later part fails.
    fn measure_all(
        &mut self,
        measuring: &Measuring<'_>,
        record: &mut LatencyRecord,
    ) -> Result<(), Halt> {
        let began_ns = clock::monotonic_ns();
        let rounds = &measuring.plan.rounds;
        let (pairs, outcome) = self.latency_rounds(measuring, rounds, &mut record.ranks);
        record.pairs = pairs;
        record.span_ns = clock::monotonic_ns() - began_ns;
        outcome?;
        let analysis = analysed(measuring, &record.pairs);
        let mut again = None;
        let mut outcome = Ok(());
        if !analysis.suspects.is_empty() {
            let alone = looks(&analysis);
            (record.looks, outcome) = self.latency_rounds(measuring, &alone, &mut record.ranks);
            if outcome.is_ok() {
                again = Some(with_looks(measuring, record));
            }
        }
        if outcome.is_ok() {
            let open = unplanned(measuring);
            (record.checks, outcome) = self.latency_rounds(measuring, &open, &mut record.ranks);
        }
        let findings = Findings {
            model: measuring.model(),
            baseline: measuring.latency.baseline.as_ref(),
            analysis: &analysis,
            again: again.as_ref(),
            looked_at: MOST_LOOKED_AT,
        };
        findings.write_down(record);
        outcome
    }

    /// Measures pairs round by round. Returns all measurements, even if the job ends early.
    fn latency_rounds(
        &mut self,
        measuring: &Measuring<'_>,
        rounds: &[Vec<(u32, u32)>],
        ranks: &mut [RankRecord],
    ) -> (Vec<PairLatency>, Result<(), Halt>) {
        if rounds.iter().all(Vec::is_empty) {
            return (Vec::new(), Ok(()));
        }
        let round = Round::Steps {
            steps: rounds.iter().map(|pairs| measuring.links(pairs)).collect(),
            kernel: Kernel::Semidirectional,
        };
        let probe: &Linktest = &measuring.latency.probe;
        let (told, outcome) = self.pairs(probe, (0, 0), &round);
        told.note_places(ranks);
        let mut times = told.times;
        times.sort_by_key(|time| (time.step, time.from, time.to));
        let hosts = &measuring.latency.hosts;
        let pairs = times.iter().map(|time| round_trip(time, hosts));
        (pairs.collect(), outcome)
    }
}

/// Converts the time of a message, which is half a round trip. `hosts` are those of the fabric, by rank.
fn round_trip(time: &PairTime, hosts: &[u32]) -> PairLatency {
    let host = |rank: usize| hosts.get(rank).copied().unwrap_or(u32::MAX);
    let (least, median) = time.spread.map_or((time.seconds, time.seconds), |spread| {
        (spread.least_s, spread.median_s)
    });
    PairLatency {
        round: time.step,
        from: host(time.from),
        to: host(time.to),
        least_s: 2.0 * least,
        median_s: 2.0 * median,
        predicted_s: None,
    }
}

fn begun(
    measuring: &Measuring<'_>,
    present: &[u32],
    (left_out, added): (usize, usize),
) -> LatencyRecord {
    let (plan, fabric) = (&measuring.plan, measuring.fabric);
    let facts = &plan.facts;
    let absent = (0_u32..)
        .zip(&fabric.hosts)
        .filter(|(host, _)| present.binary_search(host).is_err());
    LatencyRecord {
        absent: absent.map(|(_, name)| name.clone()).collect(),
        planned: Planned {
            fabric: fabric.name.clone(),
            strategy: plan.strategy.name().to_owned(),
            directed: plan.directed,
            hosts: facts.hosts,
            cables: facts.cables,
            used: facts.used,
            rank: facts.rank,
            proof: proof_text(facts.proof.as_ref()),
            pairs: plan.pairs().len(),
            rounds: plan.rounds.len(),
            bound: facts
                .bound
                .map(|bound| (bound.rounds, bound.reason.to_owned())),
            left_out,
            added,
        },
        baseline: measuring
            .latency
            .baseline
            .as_ref()
            .map(|baseline| baseline.run.clone()),
        ..LatencyRecord::default()
    }
}

fn analysed(measuring: &Measuring<'_>, measured: &[PairLatency]) -> Analysis {
    let pairs: Vec<(u32, u32)> = measured.iter().map(|pair| (pair.from, pair.to)).collect();
    let times: Vec<f64> = measured.iter().map(|pair| pair.median_s).collect();
    let baseline = measuring.latency.baseline.as_ref();
    let question = Question {
        baseline: baseline.map(|baseline| Baseline {
            values: &baseline.values_s,
            errors: &baseline.errors_s,
        }),
        samples: measuring.latency.probe.messages,
        locate: measuring.plan.strategy == Strategy::Locate,
    };
    analyse(&measuring.model(), &pairs, &times, question)
}

/// Rounds of one pair each, through the suspects. Chooses the pairs with the shortest routes, since other cables contribute least to them.
fn looks(analysis: &Analysis) -> Vec<Vec<(u32, u32)>> {
    let mut chosen = BTreeSet::new();
    for suspect in analysis.suspects.iter().take(MOST_LOOKED_AT) {
        let rows = analysis.equations.rows_through(suspect.column);
        let mut through: Vec<usize> = rows.collect();
        through.sort_by_key(|row| analysis.equations.row(*row).len());
        chosen.extend(through.into_iter().take(LOOKS));
    }
    chosen
        .into_iter()
        .map(|row| vec![analysis.equations.pairs()[row]])
        .collect()
}

/// Repeats the analysis with the pairs measured alone in place of the same pairs measured in rounds.
fn with_looks(measuring: &Measuring<'_>, record: &LatencyRecord) -> Analysis {
    let alone: BTreeMap<(u32, u32), PairLatency> = record
        .looks
        .iter()
        .map(|look| ((look.from, look.to), *look))
        .collect();
    let replaced = |pair: &PairLatency| alone.get(&(pair.from, pair.to)).copied().unwrap_or(*pair);
    let pairs: Vec<PairLatency> = record.pairs.iter().map(replaced).collect();
    analysed(measuring, &pairs)
}

/// Random pairs that were not planned, in rounds in which no two pairs share a cable.
fn unplanned(measuring: &Measuring<'_>) -> Vec<Vec<(u32, u32)>> {
    let known: BTreeSet<(u32, u32)> = measuring.plan.pairs().into_iter().collect();
    let hosts: Vec<u32> = measuring.rank_of.keys().copied().collect();
    let all = hosts.len() * (hosts.len() - 1) / 2;
    let wanted = measuring
        .latency
        .checks
        .min(all.saturating_sub(known.len()));
    let mut random = Random::new(measuring.latency.seed ^ 0xc4ec);
    let mut drawn = BTreeSet::new();
    if all <= 4 * (wanted + known.len()) {
        let mut open: Vec<(u32, u32)> = pairs_among(&hosts).collect();
        open.retain(|pair| !known.contains(pair));
        random.shuffle(&mut open);
        drawn.extend(open.into_iter().take(wanted));
    }
    while drawn.len() < wanted {
        let (a, b) = (
            hosts[random.below(hosts.len())],
            hosts[random.below(hosts.len())],
        );
        let pair = (a.min(b), a.max(b));
        if a != b && !known.contains(&pair) {
            drawn.insert(pair);
        }
    }
    let drawn: Vec<(u32, u32)> = drawn.into_iter().collect();
    planning::disjoint(&measuring.model(), &drawn)
}
