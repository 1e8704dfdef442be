//! Makes plans: the pairs that are measured in each round, the values they determine, and the noise of these values.

use numbers::random::Random;
use serde::{Deserialize, Serialize};

use super::fabric::{Fabric, number};
use super::rounds::{self, Effort, LowerBound};
use super::rows::{Model, Room};
use super::solve::Equations;
use super::survey::{Exact, Looking, Proof, Survey, Tier};
use super::{cover, paper};

/// Packs pairs into few rounds without search; the pairs of a round share no cable.
pub use super::paper::colour as disjoint;

/// Method of choosing pairs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Strategy {
    /// Choose a basis together with its rounds.
    #[default]
    Rounds,
    /// Follow the paper, for comparison: the first basis in the order of pairs, coloured by Welsh and Powell.
    Paper,
    /// Choose a few rounds that locate a slow cable against a baseline.
    Locate,
}

/// Names of strategies in plans.
pub const STRATEGIES: [(&str, Strategy); 3] = [
    ("rounds", Strategy::Rounds),
    ("paper", Strategy::Paper),
    ("locate", Strategy::Locate),
];

impl Strategy {
    /// Name of the strategy in plans.
    pub fn name(self) -> &'static str {
        let mut known = STRATEGIES.iter().filter(|(_, strategy)| *strategy == self);
        known.next().map_or("", |(name, _)| name)
    }
}

/// Options of a plan.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Wishes {
    /// Method of choosing pairs.
    pub strategy: Strategy,
    /// True if directions of cables between switches have separate values.
    pub directed: bool,
    /// Number of pairs as a multiple of the matrix rank; 1 is the least.
    pub redundancy: f64,
    /// Amount of search for few rounds.
    pub effort: Effort,
    /// Number of rounds that locate slow cables.
    pub cover_rounds: usize,
    /// Settings for the survey of pairs.
    pub looking: Looking,
}

/// Default number of pairs as a multiple of the matrix rank.
pub const REDUNDANCY: f64 = 1.5;
/// Default number of rounds that locate a slow cable.
pub const COVER_ROUNDS: usize = 4;

impl Default for Wishes {
    fn default() -> Self {
        Self {
            strategy: Strategy::Rounds,
            directed: false,
            redundancy: REDUNDANCY,
            effort: Effort::Usual,
            cover_rounds: COVER_ROUNDS,
            looking: Looking::default(),
        }
    }
}

/// Pairs in rounds; pairs of a round share no cable.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// Method by which they were chosen.
    pub strategy: Strategy,
    /// True if directions of cables between switches have separate values.
    pub directed: bool,
    /// Pairs of hosts, by round.
    pub rounds: Vec<Vec<(u32, u32)>>,
    /// Facts about the pairs and what they determine.
    pub facts: Facts,
}

/// Known facts about a plan.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Facts {
    /// Number of hosts that take part.
    pub hosts: usize,
    /// Number of cables of the fabric.
    pub cables: usize,
    /// Number of columns that at least one pair of hosts goes through.
    pub used: usize,
    /// Matrix rank of all pairs.
    pub rank: usize,
    /// Proof that the rank is exact; `None` with the paper's method, which does not check it.
    pub proof: Option<Proof>,
    /// Tiers of the pairs, shortest first.
    pub tiers: Vec<Tier>,
    /// Lower bound on the rounds of a basis.
    pub bound: Option<LowerBound>,
    /// Number of rounds of the basis, before further pairs and rounds were added.
    pub basis_rounds: usize,
    /// Number of covered columns that the rounds distinguish from all others, if they are meant to locate slow cables.
    pub unique: Option<usize>,
}

/// Makes a plan for the hosts that are present (numbers in ascending order, at least two).
pub fn make(fabric: &Fabric, present: &[u32], wishes: &Wishes) -> Plan {
    let model = Model {
        fabric,
        directed: wishes.directed,
    };
    if wishes.strategy == Strategy::Paper {
        return as_the_paper(&model, present);
    }
    let survey = Survey::of(&model, present, wishes.looking);
    let mut random = Random::new(wishes.looking.seed ^ 0x5eed);
    let mut facts = facts_of(&model, &survey, present.len());
    let chosen = match wishes.strategy {
        Strategy::Locate => {
            let found = cover::cover(&model, &survey.pool, wishes.cover_rounds, &mut random);
            facts.unique = Some(found.unique);
            facts.basis_rounds = found.rounds.len();
            found.rounds
        }
        Strategy::Rounds | Strategy::Paper => {
            let bound = rounds::lower_bound(&model, &survey, present.len());
            let mut chosen =
                rounds::choose(&model, &survey, bound.rounds, wishes.effort, &mut random);
            facts.basis_rounds = chosen.len();
            facts.bound = Some(bound);
            rounds::add(&model, &survey, &mut chosen, wishes.redundancy, &mut random);
            chosen
        }
    };
    let pairs = |round: &Vec<u32>| round.iter().map(|index| survey.pool.pair(*index)).collect();
    Plan {
        strategy: wishes.strategy,
        directed: wishes.directed,
        rounds: chosen.iter().map(pairs).collect(),
        facts,
    }
}

/// Surveys the pairs of the hosts that are present.
pub fn facts(fabric: &Fabric, directed: bool, present: &[u32], looking: Looking) -> Facts {
    let model = Model { fabric, directed };
    facts_of(&model, &Survey::of(&model, present, looking), present.len())
}

fn facts_of(model: &Model<'_>, survey: &Survey, hosts: usize) -> Facts {
    Facts {
        hosts,
        cables: model.fabric.cables.len(),
        used: survey.used.len(),
        rank: survey.rank(),
        proof: Some(survey.proof.clone()),
        tiers: survey.tiers.clone(),
        ..Facts::default()
    }
}

fn as_the_paper(model: &Model<'_>, present: &[u32]) -> Plan {
    let basis = paper::basis(model, present);
    let rounds = paper::colour(model, &basis);
    let equations = Equations::of(model, &basis);
    let used = (0..number(model.columns()))
        .filter(|column| equations.is_used(*column))
        .count();
    Plan {
        strategy: Strategy::Paper,
        directed: model.directed,
        facts: Facts {
            hosts: present.len(),
            cables: model.fabric.cables.len(),
            used,
            rank: basis.len(),
            basis_rounds: rounds.len(),
            ..Facts::default()
        },
        rounds,
    }
}

impl Plan {
    /// All pairs, round by round.
    pub fn pairs(&self) -> Vec<(u32, u32)> {
        self.rounds.iter().flatten().copied().collect()
    }

    /// The model for the equations of its pairs.
    pub fn model<'a>(&self, fabric: &'a Fabric) -> Model<'a> {
        Model {
            fabric,
            directed: self.directed,
        }
    }
}

/// Removes the pairs of missing hosts from a plan, and adds pairs until the plan determines as much as it can. A plan to locate slow cables gets no
/// new pairs. Returns the number of removed and of added pairs.
pub fn without_missing(
    fabric: &Fabric,
    plan: &mut Plan,
    present: &[u32],
    looking: Looking,
) -> (usize, usize) {
    let model = plan.model(fabric);
    let is_there = |host: &u32| present.binary_search(host).is_ok();
    let before = plan.pairs().len();
    for round in &mut plan.rounds {
        round.retain(|(from, to)| is_there(from) && is_there(to));
    }
    let kept = plan.pairs();
    let left_out = before - kept.len();
    if left_out == 0 && plan.facts.hosts == present.len() {
        return (0, 0);
    }
    let survey = Survey::of(&model, present, looking);
    let bound = plan.facts.bound;
    let facts = facts_of(&model, &survey, present.len());
    let known = Equations::of(&model, &kept);
    let mut added = 0;
    if plan.strategy != Strategy::Locate && known.rank() < survey.rank() {
        let mut engine = Exact::new((0..number(model.columns())).collect());
        let (mut room, mut row) = (Room::default(), Vec::new());
        for (from, to) in &kept {
            model.row(*from, *to, &mut room, &mut row);
            engine.add(row.iter().copied());
        }
        let mut busy: Vec<Vec<bool>> = plan
            .rounds
            .iter()
            .map(|round| taken(&model, round))
            .collect();
        for index in &survey.basis {
            if !engine.add(survey.pool.row(*index)) {
                continue;
            }
            added += 1;
            let cables: Vec<usize> = survey.pool.cables(&model, *index).collect();
            let free = busy
                .iter()
                .position(|busy| cables.iter().all(|cable| !busy[*cable]));
            let round = free.unwrap_or_else(|| {
                busy.push(vec![false; fabric.cables.len()]);
                plan.rounds.push(Vec::new());
                busy.len() - 1
            });
            cables.iter().for_each(|cable| busy[round][*cable] = true);
            plan.rounds[round].push(survey.pool.pair(*index));
        }
    }
    plan.rounds.retain(|round| !round.is_empty());
    plan.facts = Facts {
        bound,
        basis_rounds: plan.facts.basis_rounds.min(plan.rounds.len()),
        ..facts
    };
    (left_out, added)
}

/// Marks the cables that the pairs of a round take.
fn taken(model: &Model<'_>, round: &[(u32, u32)]) -> Vec<bool> {
    let mut busy = vec![false; model.fabric.cables.len()];
    let (mut room, mut row) = (Room::default(), Vec::new());
    for (from, to) in round {
        model.row(*from, *to, &mut room, &mut row);
        row.iter()
            .for_each(|(column, _)| busy[model.cable_of(*column) as usize] = true);
    }
    busy
}

/// Average part of a round trip's noise in the values of a class: the root of the mean of the diagonal of (A^T A)^-1.
#[derive(Debug, Clone, PartialEq)]
pub struct ClassNoise {
    /// Index of the class.
    pub class: u16,
    /// Number of columns whose value is identified.
    pub identified: usize,
    /// Number of columns that are only known together with others.
    pub together: usize,
    /// The amplification; NaN if no column is identified.
    pub amplification: f64,
}

/// Calculates the noise of all classes.
pub fn noise(fabric: &Fabric, plan: &Plan, seed: u64) -> Vec<ClassNoise> {
    /// Number of random vectors for large plans. The error is about 1/sqrt(2 * 8 * cables).
    const SAMPLES: usize = 8;
    let model = plan.model(fabric);
    let equations = Equations::of(&model, &plan.pairs());
    let weights = vec![1.0; equations.pairs().len()];
    let all = equations.amplification(&weights, SAMPLES, &mut Random::new(seed));
    let classes = u16::try_from(fabric.classes.len()).unwrap_or(u16::MAX);
    (0..classes)
        .map(|class| {
            let own = (0..number(model.columns())).filter(|column| {
                fabric.cables[model.cable_of(*column) as usize].class == class
                    && equations.is_used(*column)
            });
            let (identified, together): (Vec<u32>, Vec<u32>) =
                own.partition(|column| equations.is_identified(*column));
            let squares = identified.iter().map(|at| all[*at as usize].powi(2));
            ClassNoise {
                class,
                identified: identified.len(),
                together: together.len(),
                amplification: (squares.sum::<f64>() / identified.len() as f64).sqrt(),
            }
        })
        .collect()
}

/// Verifies a plan without the code that makes plans. Fails if the pairs of a round share a cable, a pair is invalid or repeated in its round, or the
/// matrix rank is not `rank`.
pub fn verify(fabric: &Fabric, plan: &Plan, rank: Option<usize>) -> Result<(), String> {
    let model = plan.model(fabric);
    let mut hops = Vec::new();
    for (round, pairs) in plan.rounds.iter().enumerate() {
        let mut owner = std::collections::HashMap::new();
        let mut seen = std::collections::HashSet::new();
        for (from, to) in pairs {
            let name = |host: &u32| fabric.hosts.get(*host as usize).map_or("?", String::as_str);
            let shown = format!("{} and {}", name(from), name(to));
            if from == to || *from.max(to) as usize >= fabric.hosts.len() {
                return Err(format!("round {}: {shown} are not a pair", round + 1));
            }
            if !seen.insert((from.min(to), from.max(to))) {
                return Err(format!("round {}: {shown} are listed twice", round + 1));
            }
            for (a, b) in [(from, to), (to, from)] {
                fabric.route(*a, *b, &mut hops);
                for hop in &hops {
                    let cable = hop >> 1;
                    if let Some(other) = owner.insert(cable, (*from, *to))
                        && other != (*from, *to)
                    {
                        let cable = &fabric.cables[cable as usize].name;
                        return Err(format!(
                            "round {}: {shown} and {} and {} share cable {cable}",
                            round + 1,
                            name(&other.0),
                            name(&other.1)
                        ));
                    }
                }
            }
        }
    }
    let found = Equations::of(&model, &plan.pairs()).rank();
    match rank {
        Some(rank) if rank != found => {
            Err(format!("matrix rank {found}, where the fabric has {rank}"))
        }
        _ => Ok(()),
    }
}
