//! The complete parts of an aborted run, with which a later run can continue.

use std::collections::BTreeSet;

use crate::jobs::linktest;
use crate::plan::imb::Imb;
use crate::plan::lanes::Lane;
use crate::plan::linktest::Linktest;
use crate::plan::{Purpose, RunPlan, Test};
use crate::record::{
    AcceptanceRecord, ImbRecord, LinktestRecord, Measured, Outcome, RoundRecord, TableRecord,
    TestRecord,
};

use super::linktest::planned;

/// The whole parts of what an earlier run measured by `then`: those of the plan, in its order and without gaps. What the judge asked for is
/// measured again. Fails with a reason if there are none.
pub(crate) fn whole_parts(
    then: &RunPlan,
    plan: &RunPlan,
    outcome: &Outcome,
) -> Result<Outcome, &'static str> {
    let nodes = plan.nodes.len();
    let whole = match Measured::of(&plan.work, outcome) {
        Measured::Acceptance(_, acceptance) => Outcome::Acceptance(AcceptanceRecord {
            tests: whole_tests(then, plan, acceptance),
        }),
        Measured::Linktest(linktest, record) => {
            let ranks = linktest.ranks.count(nodes);
            let numbered = (0..).zip(&record.rounds);
            let whole = numbered.take_while(|(number, round)| {
                let (iteration, plan) = planned(linktest, ranks, *number);
                let is_planned = round.iteration == iteration && round.round == plan;
                is_planned && is_whole_round(linktest, ranks, round)
            });
            Outcome::Linktest(LinktestRecord {
                rounds: whole.map(|(_, round)| round.clone()).collect(),
                ..LinktestRecord::default()
            })
        }
        Measured::Latency(..) => {
            return Err(
                "a latency run compares its latencies with each other, and measures them in one go",
            );
        }
        Measured::Imb(imb, record) => Outcome::Imb(ImbRecord {
            tables: whole_tables(imb, imb.ranks.count(nodes), record),
            ..ImbRecord::default()
        }),
    };
    match whole == Outcome::open(&plan.work) {
        true => Err("it completed no test, round or table"),
        false => Ok(whole),
    }
}

fn whole_tests(then: &RunPlan, plan: &RunPlan, acceptance: &AcceptanceRecord) -> Vec<TestRecord> {
    let nodes = plan.nodes.len();
    let is_planned = |test: &&TestRecord| {
        let planned = then.tests().get(test.test);
        planned.is_some_and(|test| test.purpose != Purpose::Isolated)
    };
    let is_whole = |(number, test): &(usize, &TestRecord)| {
        let all_here = test.nodes.len() == nodes && test.nodes.iter().all(Option::is_some);
        let plans = then.tests().get(*number).zip(plan.tests().get(*number));
        let fits =
            plans.is_some_and(|(then, now)| is_alike(then, now) && has_links_of(now, test, nodes));
        let adds_up = test.conservation.faults.is_empty();
        test.complete && test.test == *number && all_here && fits && adds_up
    };
    let tests = acceptance.tests.iter().filter(is_planned).enumerate();
    let whole = tests.take_while(is_whole);
    whole.map(|(_, test)| test.clone()).collect()
}

/// True if two plans of a test measure the same.
fn is_alike(then: &Test, now: &Test) -> bool {
    let shape = |test: &Test| {
        (
            test.pattern.clone(),
            test.purpose,
            test.phases,
            test.rails,
            test.bound,
        )
    };
    shape(then) == shape(now) && then.network == now.network
}

/// True if a test was measured over the links of its pattern and no others.
fn has_links_of(plan: &Test, test: &TestRecord, nodes: usize) -> bool {
    let senders = 0..nodes;
    let pairs = senders.flat_map(|from| {
        let targets = plan.pattern.targets(nodes, from).into_iter();
        targets.map(move |to| (from, to))
    });
    let pairs: BTreeSet<(usize, usize)> = pairs.collect();
    let lanes = test.links.iter().map(|link| &link.lane);
    let measured: BTreeSet<(usize, usize)> =
        lanes.clone().map(|lane| (lane.from, lane.to)).collect();
    let worst = test.worst_links.iter().map(|series| &series.lane);
    let is_there = |lane: &Lane| {
        lane.from < nodes
            && lane.to < nodes
            && lane.boundary + 1 < plan.phases
            && lane.stream < plan.streams.max(1)
    };
    let are_all = match &test.sums {
        // The number of links per pair can depend on the hosts.
        Some(sums) => sums.links > 0 && sums.links % (pairs.len() * (plan.phases - 1)).max(1) == 0,
        None => measured == pairs,
    };
    are_all && lanes.chain(worst).all(is_there)
}

fn is_whole_round(linktest: &Linktest, ranks: usize, round: &RoundRecord) -> bool {
    let steps = linktest::steps(linktest, &round.round);
    let links = (0..).zip(&steps).flat_map(|(step, pairs)| {
        let both = pairs
            .iter()
            .flat_map(|(one, other)| [(*one, *other), (*other, *one)]);
        both.map(move |(from, to)| (step, from, to))
    });
    let links: BTreeSet<(usize, usize, usize)> = links.collect();
    let times = round
        .times
        .iter()
        .map(|time| (time.step, time.from, time.to));
    let measured: BTreeSet<(usize, usize, usize)> = times.collect();
    let all_to_all = round.all_to_all_s.as_ref().map_or(0, Vec::len);
    let mut ends = round.retests.iter().flat_map(|one| [one.from, one.to]);
    measured == links
        && round.times.len() == links.len()
        && all_to_all == if linktest.all_to_all { ranks } else { 0 }
        && round.retests.len() == linktest.slowest.min(links.len())
        && ends.all(|rank| rank < ranks)
}

fn whole_tables(imb: &Imb, ranks: usize, record: &ImbRecord) -> Vec<TableRecord> {
    let plans = imb.tables(ranks);
    let is_whole = |(plan, table): &(&_, &TableRecord)| {
        let mut groups = table.lines.iter().flat_map(|line| &line.groups);
        // A table with wrong data makes its run fail: it is measured again.
        let is_right = groups.all(|group| group.defects.unwrap_or(0.0) == 0.0);
        let lines = table.lines.iter().zip(&table.table.lengths);
        let mut lines = lines.map(|(line, length)| {
            let has_groups =
                line.left_out.is_some() || line.groups.len() == table.table.groups.len();
            line.bytes == length.bytes && has_groups
        });
        let has_all =
            table.lines.len() == table.table.lengths.len() && lines.all(|is_whole| is_whole);
        table.table == **plan && has_all && is_right
    };
    let whole = plans.iter().zip(&record.tables).take_while(is_whole);
    whole.map(|(_, table)| table.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Record;

    /// Number of parts that are taken over after a change to a record.
    fn taken_over(text: &str, change: impl FnOnce(&mut Outcome)) -> usize {
        let mut record: Record = serde_json::from_str(text).unwrap();
        change(&mut record.outcome);
        match whole_parts(&record.plan, &record.plan, &record.outcome) {
            Ok(Outcome::Linktest(linktest)) => linktest.rounds.len(),
            Ok(Outcome::Imb(imb)) => imb.tables.len(),
            Ok(other) => panic!("{other:?}"),
            Err(why) => {
                assert_eq!(why, "it completed no test, round or table");
                0
            }
        }
    }

    #[test]
    fn a_round_that_lacks_something_is_measured_again() {
        let after = |change: fn(&mut RoundRecord)| {
            let text = include_str!("../../tests/golden/linktest/record.json");
            taken_over(text, |outcome| match outcome {
                Outcome::Linktest(linktest) => change(&mut linktest.rounds[0]),
                other => panic!("{other:?}"),
            })
        };
        assert_eq!(after(|_| {}), 1);
        assert_eq!(after(|round| round.iteration = 1), 0);
        assert_eq!(after(|round| round.times.truncate(1)), 0);
        assert_eq!(after(|round| round.times[0].to = 99), 0);
        assert_eq!(after(|round| round.times.push(round.times[0].clone())), 0);
        assert_eq!(after(|round| round.retests.clear()), 0);
        assert_eq!(after(|round| round.retests[0].from = 99), 0);
        assert_eq!(after(|round| round.all_to_all_s = Some(Vec::new())), 0);
    }

    #[test]
    fn a_test_over_other_links_or_by_another_plan_is_measured_again() {
        let text = include_str!("../../tests/golden/acceptance/record.json");
        let sound: Record = serde_json::from_str(text).unwrap();
        let tests = |change: fn(&mut Record)| {
            let mut record = sound.clone();
            change(&mut record);
            match whole_parts(&record.plan, &sound.plan, &record.outcome) {
                Ok(outcome) => outcome.tests().len(),
                Err(_) => 0,
            }
        };
        assert_eq!(tests(|_| {}), sound.tests().len());
        assert_eq!(tests(|record| record.tests_mut()[1].links.truncate(1)), 1);
        assert_eq!(
            tests(|record| record.tests_mut()[1].links[0].lane.to = 0),
            1
        );
        assert_eq!(tests(|record| record.tests_mut()[1].complete = false), 1);
        let fault = |record: &mut Record| {
            let faults = &mut record.tests_mut()[2].conservation.faults;
            faults.push("a byte is missing".to_owned());
        };
        assert_eq!(tests(fault), 2);
        assert_eq!(tests(|record| record.plan.tests_mut()[2].phases = 3), 2);
        // Without a test that could not run, later records have other numbers than in the plan.
        let shifted = |record: &mut Record| {
            let acceptance = record.outcome.acceptance_mut().unwrap();
            acceptance.tests.remove(3);
            for test in &mut acceptance.tests[3..] {
                test.test -= 1;
            }
        };
        assert_eq!(tests(shifted), 3);
    }

    #[test]
    fn a_table_that_lacks_a_line_or_has_wrong_data_is_measured_again() {
        let after = |change: fn(&mut TableRecord)| {
            let text = include_str!("../../tests/golden/patterns/record.json");
            taken_over(text, |outcome| match outcome {
                Outcome::Imb(imb) => change(&mut imb.tables[1]),
                other => panic!("{other:?}"),
            })
        };
        assert!(after(|_| {}) > 1);
        assert_eq!(after(|table| drop(table.lines.pop())), 1);
        assert_eq!(
            after(|table| table.lines[0].groups[0].defects = Some(0.5)),
            1
        );
        assert_eq!(after(|table| table.table.groups.clear()), 1);
    }
}
