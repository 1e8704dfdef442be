//! Plans of pair latencies on fabrics whose ranks and values are known: the paper's example to the digit, fat trees, dragonflies, slim
//! flies, and what a plan must hold on any fabric.

use std::collections::BTreeSet;

use latency::analysis::{self, Question};
use latency::detect;
use latency::fabric::{Draft, Fabric};
use latency::generate;
use latency::planning::{self, Plan, Strategy as Way, Wishes};
use latency::routing::Rule;
use latency::rows::{Model, Room};
use latency::simulate::{Setting, Simulation};
use latency::solve::{Combination, Equations};
use latency::survey::{Looking, Proof, Survey};
use latency::{description, paper, predict};
use numbers::random::Random;
use proptest::prelude::*;

/// Figure 2 of the paper.
const FIGURE: &str = r#"
version = 1
name = "figure 2"
hosts = ["k1", "k2", "k3", "k4", "k5", "k6"]
switches = ["r1", "r2", "r3"]
[[cables]]
list = [["k1", "r1", "l1"], ["k2", "r1", "l2"], ["r1", "r2", "l3"], ["r2", "r3", "l4"], ["k3", "r3", "l5"], ["k4", "r3", "l6"],
  ["k5", "r1", "l7"], ["k6", "r1", "l8"]]
[routes]
rule = "symmetric"
"#;
/// Its round trips.
const TIMES: [(u32, u32, f64); 15] = [
    (1, 2, 16.0),
    (1, 3, 37.0),
    (1, 4, 36.0),
    (1, 5, 18.0),
    (1, 6, 17.0),
    (2, 3, 39.0),
    (2, 4, 38.0),
    (2, 5, 20.0),
    (2, 6, 19.0),
    (3, 4, 25.0),
    (3, 5, 41.0),
    (3, 6, 40.0),
    (4, 5, 40.0),
    (4, 6, 39.0),
    (5, 6, 21.0),
];

fn fabric(draft: &Draft) -> Fabric {
    Fabric::new(draft).unwrap_or_else(|error| panic!("{}: {error}", draft.name))
}

fn described(text: &str) -> Fabric {
    fabric(&description::read(text).expect("it is understood"))
}

fn tree(ports: usize, levels: u32, rule: Rule) -> Fabric {
    fabric(&generate::fat_tree(ports, levels, rule).expect("there is such a tree"))
}

fn everyone(fabric: &Fabric) -> Vec<u32> {
    (0..u32::try_from(fabric.hosts.len()).expect("few")).collect()
}

fn survey(fabric: &Fabric, directed: bool) -> Survey {
    let model = Model { fabric, directed };
    Survey::of(&model, &everyone(fabric), Looking::default())
}

fn plan(fabric: &Fabric, wishes: &Wishes) -> Plan {
    planning::make(fabric, &everyone(fabric), wishes)
}

fn minimal() -> Wishes {
    Wishes {
        redundancy: 1.0,
        ..Wishes::default()
    }
}

/// Matrix rank of pairs by elimination over fractions, with nothing of the code that plans.
fn textbook_rank(fabric: &Fabric, directed: bool, pairs: &[(u32, u32)]) -> usize {
    let model = Model { fabric, directed };
    let (mut room, mut row) = (Room::default(), Vec::new());
    let mut pivots: Vec<(usize, Vec<i128>)> = Vec::new();
    for (from, to) in pairs {
        model.row(*from, *to, &mut room, &mut row);
        let mut dense = vec![0_i128; model.columns()];
        for (column, times) in &row {
            dense[*column as usize] = i128::from(*times);
        }
        for (at, pivot) in &pivots {
            let (a, b) = (pivot[*at], dense[*at]);
            if b != 0 {
                dense
                    .iter_mut()
                    .zip(pivot)
                    .for_each(|(x, p)| *x = *x * a - p * b);
                let common = dense.iter().fold(0, |x, y| divisor(x, *y)).max(1);
                dense.iter_mut().for_each(|x| *x /= common);
            }
        }
        if let Some(at) = dense.iter().position(|x| *x != 0) {
            pivots.push((at, dense));
        }
    }
    pivots.len()
}

fn divisor(a: i128, b: i128) -> i128 {
    if b == 0 { a.abs() } else { divisor(b, a % b) }
}

fn all_pairs(fabric: &Fabric) -> Vec<(u32, u32)> {
    let hosts = u32::try_from(fabric.hosts.len()).expect("few");
    let with = |from: u32| (from + 1..hosts).map(move |to| (from, to));
    (0..hosts).flat_map(with).collect()
}

#[test]
fn the_example_of_the_paper_is_right_to_the_digit() {
    let fabric = described(FIGURE);
    let wishes = minimal();
    let best = plan(&fabric, &wishes);
    assert_eq!(best.facts.rank, 7);
    assert_eq!(best.pairs().len(), 7, "7 measurements and not 15");
    assert_eq!(best.facts.bound.map(|bound| bound.rounds), Some(3));
    assert_eq!(best.rounds.len(), 3, "the paper has 5");
    let theirs = plan(
        &fabric,
        &Wishes {
            strategy: Way::Paper,
            ..wishes
        },
    );
    assert_eq!(theirs.rounds.len(), 5);
    let mut pairs: Vec<(u32, u32)> = theirs.pairs().iter().map(|(a, b)| (a + 1, b + 1)).collect();
    pairs.sort_unstable();
    assert_eq!(
        pairs,
        [(1, 2), (1, 3), (1, 4), (1, 5), (1, 6), (2, 3), (3, 4)]
    );
    for plan in [&best, &theirs] {
        planning::verify(&fabric, plan, Some(7)).expect("it is a plan");
        let model = plan.model(&fabric);
        let equations = Equations::of(&model, &plan.pairs());
        let time = |pair: &(u32, u32)| {
            TIMES
                .iter()
                .find(|(a, b, _)| (a - 1, b - 1) == *pair)
                .expect("known")
                .2
        };
        let measured: Vec<f64> = plan.pairs().iter().map(time).collect();
        let solution = equations.solve(&measured, false);
        let value = |name: &str| {
            let column = fabric
                .cables
                .iter()
                .position(|cable| cable.name == name)
                .expect("known");
            (
                solution.values[column],
                equations.is_identified(u32::try_from(column).expect("few")),
            )
        };
        for (name, expected) in [
            ("l1", 3.5),
            ("l2", 4.5),
            ("l5", 6.5),
            ("l6", 6.0),
            ("l7", 5.5),
            ("l8", 5.0),
        ] {
            assert_eq!(value(name), (expected, true), "{name}");
        }
        assert!(!value("l3").1 && !value("l4").1);
        assert_eq!(value("l3").0 + value("l4").0, 8.5);
        let together = equations.combinations(&solution.values);
        assert_eq!(together.len(), 1);
        assert_eq!(
            (together[0].terms.as_slice(), together[0].value),
            ([(2, 1.0), (3, 1.0)].as_slice(), 8.5)
        );
        for (a, b, expected) in TIMES {
            let predicted = predict::round_trip(&model, &solution.values, a - 1, b - 1);
            assert_eq!(predicted, expected, "{a} {b}");
        }
    }
}

#[test]
fn ranks_and_tiers_are_those_that_are_known() {
    let sym = Rule::Symmetric;
    type Tiers<'a> = &'a [(usize, usize)];
    let cases: [(usize, u32, usize, Tiers<'_>); 7] = [
        (4, 2, 16, &[(2, 4), (4, 16)]),
        (6, 2, 36, &[]),
        (8, 2, 64, &[]),
        (4, 3, 48, &[(2, 8), (4, 24), (6, 48)]),
        (6, 3, 162, &[]),
        (8, 3, 384, &[(2, 128), (4, 256), (6, 384)]),
        (12, 3, 1296, &[(2, 432), (4, 864), (6, 1296)]),
    ];
    for (ports, levels, rank, tiers) in cases {
        let fabric = tree(ports, levels, sym);
        let half = ports / 2;
        assert_eq!(fabric.hosts.len(), 2 * half.pow(levels));
        assert_eq!(fabric.cables.len(), fabric.hosts.len() * levels as usize);
        let survey = survey(&fabric, false);
        assert_eq!(survey.rank(), rank, "{}", fabric.name);
        assert_eq!(survey.proof, Proof::Full);
        let found: Vec<(usize, usize)> = survey
            .tiers
            .iter()
            .map(|tier| (tier.support, tier.rank))
            .collect();
        assert!(
            tiers.is_empty() || found == tiers,
            "{}: {found:?}",
            fabric.name
        );
        if rank <= 64 {
            assert_eq!(textbook_rank(&fabric, false, &all_pairs(&fabric)), rank);
        }
    }
    for (ports, levels, rank) in [(4, 2, 15), (4, 3, 46), (12, 3, 1296)] {
        let fabric = tree(ports, levels, Rule::DestinationMod);
        let survey = survey(&fabric, false);
        assert_eq!(survey.rank(), rank, "{} by destination", fabric.name);
        if rank < 1296 {
            assert!(
                matches!(survey.proof, Proof::Vectors(_)),
                "{:?}",
                survey.proof
            );
            assert_eq!(textbook_rank(&fabric, false, &all_pairs(&fabric)), rank);
        }
    }
}

#[test]
fn directions_that_round_trips_cannot_tell_apart_are_known() {
    // Used columns and rank of the two directions of each cable.
    for (ports, levels, used, rank) in [
        (4, 2, None, 15),
        (4, 3, None, 49),
        (6, 2, Some(54), 46),
        (8, 2, Some(96), 85),
        (6, 3, Some(270), 226),
        (8, 3, Some(640), 561),
        (12, 3, Some(2160), 1981),
    ] {
        let fabric = tree(ports, levels, Rule::DestinationMod);
        let survey = survey(&fabric, true);
        assert_eq!(survey.rank(), rank, "{}", fabric.name);
        assert!(
            used.is_none_or(|used| used == survey.used.len()),
            "{}",
            fabric.name
        );
        if rank <= 85 {
            assert_eq!(textbook_rank(&fabric, true, &all_pairs(&fabric)), rank);
        }
    }
    let dragonfly = fabric(&generate::dragonfly(4, 2, 2, Rule::PairHash).expect("there is one"));
    let survey = survey(&dragonfly, true);
    assert_eq!((survey.used.len(), survey.rank()), (252, 162));
}

#[test]
fn dragonflies_slim_flies_and_small_fabrics_have_their_ranks() {
    for (hosts, n, m) in [(1, 36, 126), (2, 72, 162), (3, 108, 198)] {
        for rule in [Rule::PairHash, Rule::DestinationHash] {
            let fabric = fabric(&generate::dragonfly(4, 2, hosts, rule).expect("there is one"));
            assert_eq!((fabric.hosts.len(), fabric.cables.len()), (n, m));
            assert_eq!(survey(&fabric, false).rank(), m);
        }
    }
    for (hosts, rank) in [(1, 225), (2, 275), (4, 375)] {
        let fabric = fabric(&generate::slim_fly(5, hosts, Rule::PairHash).expect("there is one"));
        assert_eq!(
            fabric.cables.len(),
            rank,
            "50 switches of degree 7 have 175 cables"
        );
        assert_eq!(survey(&fabric, false).rank(), rank);
    }
    // A switch alone: n for n >= 3.
    for hosts in 2..7 {
        let star =
            fabric(&generate::leaf_spine(1, 1, hosts, Rule::Symmetric).expect("there is one"));
        let plan = plan(&star, &minimal());
        assert_eq!(plan.facts.rank, if hosts == 2 { 1 } else { hosts });
        assert_eq!(
            plan.rounds.len(),
            if hosts == 2 { 1 } else { 3 },
            "{hosts} hosts: {:?}",
            plan.rounds
        );
    }
    for (hosts, rank) in [(2, 5), (3, 7)] {
        let fabric =
            fabric(&generate::leaf_spine(2, 1, hosts, Rule::Symmetric).expect("there is one"));
        let plan = plan(&fabric, &minimal());
        assert_eq!(plan.facts.rank, rank);
        let equations = Equations::of(&plan.model(&fabric), &plan.pairs());
        for (column, cable) in (0..).zip(&fabric.cables) {
            let host = cable
                .ends
                .iter()
                .any(|end| (*end as usize) < fabric.hosts.len());
            assert_eq!(equations.is_identified(column), host, "{}", cable.name);
        }
    }
}

#[test]
fn rounds_come_close_to_their_lower_bound() {
    // Hosts, bound, and rounds that are found.
    let cases: [(Fabric, usize, usize); 8] = [
        (tree(4, 2, Rule::Symmetric), 4, 5),
        (tree(8, 2, Rule::Symmetric), 4, 4),
        (tree(4, 3, Rule::Symmetric), 6, 7),
        (tree(8, 3, Rule::Symmetric), 6, 7),
        (tree(12, 3, Rule::Symmetric), 6, 7),
        (
            fabric(&generate::leaf_spine(16, 8, 16, Rule::Symmetric).expect("one")),
            3,
            4,
        ),
        (
            fabric(&generate::dragonfly(4, 2, 2, Rule::PairHash).expect("one")),
            5,
            5,
        ),
        (
            fabric(&generate::slim_fly(5, 4, Rule::PairHash).expect("one")),
            4,
            4,
        ),
    ];
    for (fabric, bound, rounds) in cases {
        let plan = plan(&fabric, &minimal());
        assert_eq!(
            plan.facts.bound.map(|bound| bound.rounds),
            Some(bound),
            "{}",
            fabric.name
        );
        assert!(
            plan.rounds.len() <= rounds,
            "{}: {} rounds",
            fabric.name,
            plan.rounds.len()
        );
        assert_eq!(plan.pairs().len(), plan.facts.rank);
        planning::verify(&fabric, &plan, Some(plan.facts.rank)).expect("it is a plan");
    }
}

#[test]
fn the_tree_with_four_ports_and_two_levels_needs_five_rounds() {
    // 13 of the 105 perfect matchings share no cable, and no four of them say everything.
    let fabric = tree(4, 2, Rule::Symmetric);
    let model = Model {
        fabric: &fabric,
        directed: false,
    };
    fn matchings(left: &[u32]) -> Vec<Vec<(u32, u32)>> {
        let Some((first, rest)) = left.split_first() else {
            return vec![Vec::new()];
        };
        let mut all = Vec::new();
        for (at, other) in rest.iter().enumerate() {
            let mut others = rest.to_vec();
            others.remove(at);
            for mut matching in matchings(&others) {
                matching.push((*first, *other));
                all.push(matching);
            }
        }
        all
    }
    let all = matchings(&everyone(&fabric));
    assert_eq!(all.len(), 105);
    let (mut room, mut row) = (Room::default(), Vec::new());
    let mut is_disjoint = |matching: &Vec<(u32, u32)>| {
        let mut seen = BTreeSet::new();
        matching.iter().all(|(from, to)| {
            model.row(*from, *to, &mut room, &mut row);
            row.iter().all(|(column, _)| seen.insert(*column))
        })
    };
    let rounds: Vec<_> = all
        .into_iter()
        .filter(|matching| is_disjoint(matching))
        .collect();
    assert_eq!(rounds.len(), 13);
    let mut best = 0;
    for a in 0..13 {
        for b in a..13 {
            for c in b..13 {
                for d in c..13 {
                    let four = [a, b, c, d].map(|at| rounds[at].clone()).concat();
                    best = best.max(textbook_rank(&fabric, false, &four));
                }
            }
        }
    }
    assert_eq!(best, 14);
}

#[test]
fn every_pair_is_predicted_from_a_few() {
    for (fabric, directed) in [
        (tree(8, 3, Rule::Symmetric), false),
        (tree(6, 3, Rule::DestinationMod), false),
        (tree(6, 3, Rule::DestinationMod), true),
        (
            fabric(&generate::slim_fly(5, 2, Rule::DestinationHash).expect("one")),
            false,
        ),
    ] {
        let mut random = Random::new(7);
        for redundancy in [1.0, 1.5] {
            let plan = plan(
                &fabric,
                &Wishes {
                    directed,
                    redundancy,
                    ..Wishes::default()
                },
            );
            let model = plan.model(&fabric);
            let truth: Vec<f64> = (0..model.columns())
                .map(|_| 100.0 + 900.0 * random.unit())
                .collect();
            let equations = Equations::of(&model, &plan.pairs());
            let measured: Vec<f64> = (0..plan.pairs().len())
                .map(|row| equations.sum(row, &truth))
                .collect();
            let solution = equations.solve(&measured, true);
            let mut worst = 0.0_f64;
            let mut known = Vec::new();
            predict::all_pairs(&model, &truth, |_, row| known.extend_from_slice(row));
            let mut at = 0;
            predict::all_pairs(&model, &solution.values, |_, row| {
                for predicted in row {
                    worst = worst.max((predicted / known[at] - 1.0).abs());
                    at += 1;
                }
            });
            assert_eq!(at as u64, fabric.pairs());
            // Tables of destinations hold single-precision sums.
            let most = if fabric.is_by_destination() {
                1e-6
            } else {
                1e-9
            };
            assert!(worst < most, "{} at {redundancy}: {worst:e}", fabric.name);
            for column in 0..u32::try_from(model.columns()).expect("few") {
                if equations.is_identified(column) {
                    let (got, expected) =
                        (solution.values[column as usize], truth[column as usize]);
                    assert!(
                        (got / expected - 1.0).abs() < 1e-6,
                        "{}: {got} {expected}",
                        model.name(column)
                    );
                }
            }
        }
    }
}

#[test]
fn a_pool_that_is_too_small_is_filled_up() {
    let fabric = tree(12, 3, Rule::Symmetric);
    let model = Model {
        fabric: &fabric,
        directed: false,
    };
    let looking = Looking {
        partners: 1,
        ..Looking::default()
    };
    let starved = Survey::of(&model, &everyone(&fabric), looking);
    assert_eq!(starved.rank(), 1296);
    assert!(starved.epochs > 1, "{}", starved.epochs);
}

#[test]
fn plans_with_more_pairs_have_less_noise() {
    let fabric = tree(8, 3, Rule::Symmetric);
    let noise_of = |redundancy: f64| {
        let plan = plan(
            &fabric,
            &Wishes {
                redundancy,
                ..Wishes::default()
            },
        );
        planning::verify(&fabric, &plan, Some(384)).expect("it is a plan");
        let noise = planning::noise(&fabric, &plan, 1);
        let all: Vec<f64> = noise.iter().map(|class| class.amplification).collect();
        (plan.rounds.len(), all)
    };
    let (rounds, few) = noise_of(1.0);
    let (more_rounds, more) = noise_of(1.5);
    assert!(
        rounds <= 7 && (9..=11).contains(&more_rounds),
        "{rounds} {more_rounds}"
    );
    // The facts have 0.50 / 0.85 / 2.05 and 0.28 / 0.37 / 0.47 for one such plan.
    for (class, most) in [(0, 0.35), (1, 0.5), (2, 0.65)] {
        assert!(
            more[class] < most && more[class] < few[class],
            "{few:?} {more:?}"
        );
    }
}

#[test]
fn four_rounds_tell_all_cables_apart() {
    for (fabric, rounds) in [
        (tree(8, 3, Rule::Symmetric), 4),
        (tree(12, 3, Rule::Symmetric), 4),
        (
            fabric(&generate::leaf_spine(16, 8, 16, Rule::Symmetric).expect("one")),
            4,
        ),
    ] {
        let wishes = Wishes {
            strategy: Way::Locate,
            cover_rounds: rounds,
            ..Wishes::default()
        };
        let plan = plan(&fabric, &wishes);
        planning::verify(&fabric, &plan, None).expect("its rounds are disjoint");
        assert_eq!(
            plan.facts.unique,
            Some(fabric.cables.len()),
            "{}",
            fabric.name
        );
        // Each cable in turn takes half as long again; nothing else is known but the baseline.
        let model = plan.model(&fabric);
        let equations = Equations::of(&model, &plan.pairs());
        let usual = vec![100.0; fabric.cables.len()];
        let exact = detect::Baseline {
            values: &usual,
            errors: &[],
        };
        for slow in (0..fabric.cables.len()).step_by(fabric.cables.len() / 24) {
            let mut values = usual.clone();
            values[slow] = 150.0;
            let measured: Vec<f64> = (0..plan.pairs().len())
                .map(|row| equations.sum(row, &values))
                .collect();
            let suspects =
                detect::against_baseline(&model, &equations, &measured, exact, None, false);
            let found: Vec<usize> = suspects
                .iter()
                .map(|suspect| suspect.column as usize)
                .collect();
            assert_eq!(found, [slow], "{suspects:?}");
            assert!((suspects[0].effect - 0.5).abs() < 1e-9);
        }
    }
}

#[test]
fn noise_and_slow_cables_are_told_apart_as_simulated() {
    let fabric = tree(8, 3, Rule::Symmetric);
    let plan = plan(&fabric, &Wishes::default());
    let setting = Setting {
        samples: 11,
        trials: 4,
        detection_trials: 10,
        ..Setting::default()
    };
    let mut simulation = Simulation::new(&fabric, &plan, &setting);
    // One sample is 1 % off, and one in fifty has a spike: the facts have 0.50 % for pairs with the median of 10.
    let accuracy = simulation.accuracy();
    assert!(accuracy.pairs < 0.008, "{accuracy:?}");
    for (class, found) in simulation.detection(false) {
        let name = &fabric.classes[usize::from(class)];
        assert_eq!(found.trials, 10);
        // A cable that takes 20 % longer: against a baseline always found, within its class where noise allows.
        assert!(
            found.against_baseline >= 9 && found.wrong <= 1,
            "{name}: {found:?}"
        );
        assert!(
            found.within_class >= 8 && found.wrong_within <= 1,
            "{name}: {found:?}"
        );
    }
    let healthy = Setting {
        slowed: 0,
        ..setting
    };
    let mut simulation = Simulation::new(&fabric, &plan, &healthy);
    for (class, found) in simulation.detection(false) {
        let name = &fabric.classes[usize::from(class)];
        assert_eq!(
            (found.wrong, found.wrong_within),
            (0, 0),
            "{name}: {found:?}"
        );
    }
}

/// Measured in the lab: two pairs of sound cables took twice their time, and the pairs of n5 thirty times theirs.
#[test]
fn noisy_pairs_do_not_hide_a_cable_that_takes_forty_times_as_long() {
    let fabric = described(
        r#"
version = 1
name = "lab"
hosts = ["n1", "n2", "n3", "n4", "n5", "n6"]
switches = ["s1", "s2"]
[[cables]]
list = [["n1", "s1"], ["n2", "s1"], ["n3", "s1"], ["n4", "s2"], ["n5", "s2"], ["n6", "s2"], ["s1", "s2"]]
[routes]
rule = "symmetric"
"#,
    );
    let measured = [
        (1, 2, 72.5),
        (3, 6, 85.4),
        (4, 5, 1246.7),
        (1, 4, 38.0),
        (2, 3, 34.3),
        (5, 6, 1258.6),
        (1, 3, 34.5),
        (2, 5, 1287.3),
        (4, 6, 34.8),
        (3, 4, 37.6),
        (1, 6, 37.3),
    ];
    let pairs: Vec<(u32, u32)> = measured.iter().map(|(a, b, _)| (a - 1, b - 1)).collect();
    let times: Vec<f64> = measured.iter().map(|(.., time)| *time).collect();
    let plan = plan(&fabric, &Wishes::default());
    let model = plan.model(&fabric);
    let errors = [49.1, 51.5, 50.4, 50.8, 53.8, 52.3, 29.9].map(Some);
    let baseline = detect::Baseline {
        values: &[11.6, 6.0, 14.5, 11.4, 14.1, 10.3, -5.1],
        errors: &errors,
    };
    let question = Question {
        baseline: Some(baseline),
        samples: 101,
        locate: false,
    };
    let found = analysis::analyse(&model, &pairs, &times, question).suspects;
    let found: Vec<u32> = found.iter().map(|suspect| suspect.column).collect();
    assert_eq!(found, [4]);
}

/// One sample of few may be a spike, and does not count in full: that must not hide a cable that is a fifth slower.
#[test]
fn fewer_than_five_pings_find_a_slow_cable() {
    let fabric = tree(8, 3, Rule::Symmetric);
    let plan = plan(&fabric, &Wishes::default());
    for samples in [3, 4] {
        let setting = Setting {
            samples,
            detection_trials: 20,
            ..Setting::default()
        };
        let mut simulation = Simulation::new(&fabric, &plan, &setting);
        for (class, found) in simulation.detection(false) {
            let name = &fabric.classes[usize::from(class)];
            assert!(
                found.against_baseline >= 19 && found.wrong <= 1,
                "{samples} samples, {name}: {found:?}"
            );
        }
    }
}

#[test]
fn routes_that_are_not_what_the_description_says_are_told() {
    let described = tree(8, 3, Rule::Symmetric);
    let plan = plan(
        &described,
        &Wishes {
            redundancy: 4.0,
            ..Wishes::default()
        },
    );
    let model = plan.model(&described);
    let equations = Equations::of(&model, &plan.pairs());
    let mut random = Random::new(3);
    let truth: Vec<f64> = (0..model.columns())
        .map(|_| 100.0 + 50.0 * random.unit())
        .collect();
    let rows = 0..plan.pairs().len();
    let noisy = |row: usize| equations.sum(row, &truth) * (1.0 + 0.002 * random.normal());
    let mut measured: Vec<f64> = rows.clone().map(noisy).collect();
    let solution = equations.solve(&measured, true);
    assert_eq!(detect::misfit(&model, &equations, &solution), None);
    // Half of the pairs that should go through one cable take a way that is three times as long: no value of it explains both halves.
    let cable = 128 + 5;
    let goes = |row: &usize| {
        equations
            .row(*row)
            .iter()
            .any(|(column, _)| *column == cable)
    };
    let through: Vec<usize> = rows.filter(goes).collect();
    let detoured = &through[..through.len() / 2];
    assert!(detoured.len() >= 4, "{through:?}");
    for row in detoured {
        measured[*row] += 4.0 * truth[cable as usize];
    }
    let solution = equations.solve(&measured, true);
    let misfit = detect::misfit(&model, &equations, &solution).expect("they are told");
    assert_eq!(misfit.cable, Some((cable, through.len())), "{misfit:?}");
}

#[test]
fn errors_of_combinations_are_those_of_their_columns_where_these_are_known() {
    let fabric = tree(8, 2, Rule::Symmetric);
    let plan = plan(&fabric, &Wishes::default());
    let model = plan.model(&fabric);
    let equations = Equations::of(&model, &plan.pairs());
    let weights = vec![1.0; plan.pairs().len()];
    let mut random = Random::new(5);
    let exact = equations.amplification(&weights, 0, &mut random);
    let single = |column: u32| Combination {
        terms: vec![(column, 1.0)],
        value: 0.0,
    };
    let all: Vec<Combination> = (0..64).map(single).collect();
    let drawn = equations.amplification_of(&all, &weights, 400, &mut random);
    for (exact, drawn) in exact.iter().zip(&drawn) {
        assert!((drawn / exact - 1.0).abs() < 0.25, "{exact} {drawn}");
    }
    // A route as a whole is known better than its cables are one by one: their errors cancel.
    let route = Combination {
        terms: equations.row(0).to_vec(),
        value: 0.0,
    };
    let whole = equations.amplification_of(&[route], &weights, 400, &mut random)[0];
    assert!(
        whole < 1.1,
        "no worse than the pair that was measured: {whole}"
    );
}

#[test]
fn who_is_missing_costs_his_pairs_and_nothing_else() {
    let fabric = tree(8, 2, Rule::Symmetric);
    for redundancy in [1.0, 1.5] {
        let mut plan = plan(
            &fabric,
            &Wishes {
                redundancy,
                ..Wishes::default()
            },
        );
        let present: Vec<u32> = everyone(&fabric)
            .into_iter()
            .filter(|host| ![3, 17].contains(host))
            .collect();
        let (left_out, _) =
            planning::without_missing(&fabric, &mut plan, &present, Looking::default());
        assert!(left_out >= 2);
        let model = plan.model(&fabric);
        let all = Survey::of(&model, &present, Looking::default());
        planning::verify(&fabric, &plan, Some(all.rank()))
            .expect("it tells as much as can be told");
        assert!(
            plan.pairs()
                .iter()
                .all(|(a, b)| present.contains(a) && present.contains(b))
        );
        assert_eq!(plan.facts.rank, all.rank());
    }
}

#[test]
fn the_papers_own_way_needs_about_as_many_rounds_as_hosts() {
    for (fabric, rounds) in [
        (tree(8, 2, Rule::Symmetric), 31),
        (tree(8, 3, Rule::Symmetric), 127),
    ] {
        let plan = plan(
            &fabric,
            &Wishes {
                strategy: Way::Paper,
                ..Wishes::default()
            },
        );
        assert_eq!(plan.rounds.len(), rounds, "{}", fabric.name);
        planning::verify(&fabric, &plan, Some(fabric.cables.len())).expect("it is a plan");
    }
}

fn any_fabric() -> impl proptest::strategy::Strategy<Value = Draft> {
    let rules = [
        Rule::Symmetric,
        Rule::DestinationMod,
        Rule::DestinationHash,
        Rule::PairHash,
    ];
    let rule = (0..rules.len()).prop_map(move |at| rules[at]);
    (0..4, rule, 1..4_usize, 1..4_usize, 1..4_usize).prop_map(|(kind, rule, a, b, c)| {
        let draft = match kind {
            0 => generate::fat_tree(2 * a + 2, 2 + u32::try_from(b % 2).expect("few"), rule),
            1 => generate::leaf_spine(a + 1, b, c + 1, rule),
            2 => generate::dragonfly(a + 1, b, c, rule),
            _ => generate::slim_fly(5, 1, rule),
        };
        draft.expect("there is such a fabric")
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(10))]

    #[test]
    fn every_plan_is_disjoint_minimal_and_says_everything(draft in any_fabric(), directed: bool, seed in 0..1000_u64) {
        let fabric = fabric(&draft);
        prop_assume!(fabric.hosts.len() <= 130);
        let wishes = Wishes {
            directed,
            redundancy: 1.0,
            looking: Looking { seed, ..Looking::default() },
            ..Wishes::default()
        };
        let plan = plan(&fabric, &wishes);
        let rank = plan.facts.rank;
        prop_assert_eq!(plan.pairs().len(), rank);
        planning::verify(&fabric, &plan, Some(rank)).map_err(TestCaseError::fail)?;
        // Whatever gives 0 with all measured pairs gives 0 with all pairs.
        let model = plan.model(&fabric);
        if fabric.cables.len() <= 120 {
            prop_assert_eq!(textbook_rank(&fabric, directed, &plan.pairs()), rank);
            prop_assert_eq!(textbook_rank(&fabric, directed, &all_pairs(&fabric)), rank);
        }
        // One pair less says less.
        let mut fewer = plan.pairs();
        let dropped = fewer.swap_remove(usize::try_from(seed).expect("few") % rank);
        prop_assert_eq!(Equations::of(&model, &fewer).rank(), rank - 1);
        // The order of hosts and cables changes the numbers, not the rank.
        let _ = dropped;
        let basis = paper::basis(&model, &everyone(&fabric));
        prop_assert_eq!(basis.len(), rank);
    }

    #[test]
    fn a_description_is_read_as_it_was_written(draft in any_fabric()) {
        let text = description::write(&draft);
        let read = description::read(&text).map_err(|error| TestCaseError::fail(error.to_string()))?;
        let (one, two) = (fabric(&draft), fabric(&read));
        prop_assert_eq!(&one.cables, &two.cables);
        prop_assert_eq!(&one.hosts, &two.hosts);
        let (mut a, mut b) = (Vec::new(), Vec::new());
        for (from, to) in all_pairs(&one) {
            one.route(from, to, &mut a);
            two.route(from, to, &mut b);
            prop_assert_eq!(&a, &b);
        }
        prop_assert_eq!(description::write(&read), text);
    }

    #[test]
    fn reordering_hosts_and_cables_changes_no_rank(draft in any_fabric(), seed: u64) {
        let mut random = Random::new(seed);
        // By rules that look at numbers another order is another fabric: only hosts below the same switch may change, or cables.
        let mut other = draft.clone();
        random.shuffle(&mut other.switches);
        let (one, two) = (fabric(&draft), fabric(&other));
        prop_assume!(one.hosts.len() <= 130);
        prop_assert_eq!(survey(&one, false).rank(), survey(&two, false).rank());
    }
}

#[test]
fn what_is_wrong_with_a_description_is_named_with_its_line() {
    let head = "version = 1\nhosts = [\"a\", \"b\", \"c\"]\nswitches = [\"s\", \"t\"]\n";
    let cables =
        "[[cables]]\nlist = [[\"a\", \"s\"], [\"b\", \"s\"],\n [\"c\", \"t\"], [\"s\", \"t\"]]\n";
    let rule = "[routes]\nrule = \"symmetric\"\n";
    for (text, expected) in [
        ("hosts = 1", "line 1: "),
        (
            "version = 7\nhosts = []\nswitches = []",
            "line 1: version 7 is not known (pipebench reads version 1)",
        ),
        (
            "version = 1\nhosts = [\"a\",\n\"a\"]\nswitches = []",
            "line 3: a is listed twice",
        ),
        (
            "version = 1\nhosts = [\"a\"]\nswitches = []",
            "at least two hosts",
        ),
        (
            &format!("{head}[[cables]]\nlist = [[\"a\", \"x\"]]"),
            "line 5: cable a to x: x is neither host nor switch",
        ),
        (
            &format!("{head}[[cables]]\nlist = [[\"a\", \"b\"]]"),
            "line 5: cable a to b: it connects two hosts",
        ),
        (
            &format!("{head}[[cables]]\nlist = [[\"a\", \"s\"]]\n{rule}"),
            "line 2: host b has no cable",
        ),
        (
            &format!("{head}{cables}[[cables]]\nlist = [[\"a\", \"t\"]]\n{rule}"),
            "line 2: host a has 2 cables",
        ),
        (
            &format!(
                "{head}[[cables]]\nlist = [[\"a\", \"s\", \"x\"],\n[\"b\", \"s\", \"x\"]]\n{rule}"
            ),
            "line 6: cable x is listed twice",
        ),
        (
            &format!(
                "{head}[[cables]]\nlist = [[\"a\", \"s\"], [\"b\", \"s\"], [\"c\", \"t\"]]\n{rule}"
            ),
            "line 7: host c has no route to a",
        ),
        (
            &format!("{head}{cables}[routes]\nrule = \"best\""),
            "line 8: rule \"best\" is not known (write symmetric,",
        ),
        (&format!("{head}{cables}"), "no routes: give a rule"),
        (
            &format!("{head}{cables}[[tables]]\nswitch = \"s\"\nother = \"t\"\n"),
            "host c has no route to a: switch t has no entry for it",
        ),
        (
            &format!(
                "{head}{cables}[[tables]]\nswitch = \"s\"\nother = \"t\"\n[[tables]]\nswitch = \"t\"\nother = \"x\"\n"
            ),
            "line 12: table of t: cable x is not known",
        ),
        (
            &format!(
                "{head}{cables}[[tables]]\nswitch = \"s\"\nother = \"t\"\n[[tables]]\nswitch = \"s\"\n"
            ),
            "line 11: table of s is listed twice (line 8)",
        ),
        (
            &format!(
                "{head}{cables}[[paths]]\nfrom = \"a\"\nto = \"b\"\nvia = [\"a-s\", \"s-t\", \"c-t\"]\n"
            ),
            "line 8: way from a to b: it goes through host c",
        ),
        (
            &format!("{head}{cables}[[paths]]\nfrom = \"a\"\nto = \"b\"\nvia = [\"a-s\", \"q\"]\n"),
            "line 8: way from a to b: cable q is not known",
        ),
        (
            &format!(
                "{head}{cables}[[paths]]\nfrom = \"a\"\nto = \"b\"\nvia = [\"a-s\", \"b-s\"]\n"
            ),
            "host a has no route to c",
        ),
    ] {
        let error = match description::read(text) {
            Ok(draft) => Fabric::new(&draft)
                .err()
                .unwrap_or_else(|| panic!("{text}")),
            Err(error) => error,
        };
        let said = error.to_string();
        assert!(
            said.starts_with(expected) || said.contains(expected),
            "{text}\n{said}"
        );
    }
    // A loop: two switches that send what goes to c to each other.
    let ring = "version = 1\nhosts = [\"a\", \"c\"]\nswitches = [\"s\", \"t\", \"u\"]\n[[cables]]\nlist = [[\"a\", \"s\"], [\"c\", \"u\"], [\"s\", \"t\"], [\"t\", \"u\"]]\n\
        [[tables]]\nswitch = \"s\"\nother = \"t\"\n[[tables]]\nswitch = \"t\"\nother = \"s\"\n[[tables]]\nswitch = \"u\"\nother = \"t\"\n";
    let error = Fabric::new(&description::read(ring).expect("it is TOML")).expect_err("a loop");
    assert!(
        error
            .to_string()
            .ends_with("traffic to host c reaches switch s again: a loop"),
        "{error}"
    );
}
