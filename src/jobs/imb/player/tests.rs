//! Every benchmark as ranks play it, as threads over real sockets, with what arrives compared.

use std::sync::Mutex;

use super::*;
use crate::plan::collective::ALGORITHMS;
use crate::plan::imb::{BENCHMARKS, tests::imb};
use crate::ranks::tests::as_ranks_over;

/// What every rank told of every line, table by table.
fn play(imb: &Imb, ranks: usize) -> Vec<Vec<RankLine>> {
    let tables = imb.tables(ranks);
    let all = Mutex::new(vec![Vec::new(); tables.len()]);
    as_ranks_over(ranks.is_multiple_of(2), ranks, |world| {
        let mut player = Player::new(imb);
        for (number, table) in tables.iter().enumerate() {
            player
                .play(world, table, |line| all.lock().unwrap()[number].push(line))
                .unwrap();
            world.barrier().unwrap();
        }
    });
    all.into_inner().unwrap()
}

fn short() -> Imb {
    Imb {
        benchmarks: BENCHMARKS.to_vec(),
        lengths: Some(vec![0, 1, 4, 100, 5000]),
        repetitions: 5,
        check: true,
        least: 1,
        ..imb()
    }
}

#[test]
fn every_benchmark_brings_what_it_should_with_every_algorithm_and_by_both_rules() {
    // Every algorithm with three ranks; what is chosen with others.
    let forced = ALGORITHMS.map(|algorithm| (3, Rules::Guide, Some(algorithm)));
    let chosen = [2, 3, 5].map(|ranks| (ranks, Rules::Guide, None));
    let current = [2, 5].map(|ranks| (ranks, Rules::Current, None));
    let all = forced.into_iter().chain(chosen).chain(current);
    for (ranks, rules, algorithm) in all {
        let imb = Imb {
            rules,
            algorithm,
            seconds: 0.01,
            ..short()
        };
        let tables = imb.tables(ranks);
        for (table, told) in tables.iter().zip(play(&imb, ranks)) {
            let expected = table.lengths.len() * table.groups.concat().len();
            assert_eq!(told.len(), expected, "{table:?}");
            for line in &told {
                assert_eq!(line.wrong, None, "{:?} {algorithm:?}", table.benchmark);
                let looked = !matches!(table.benchmark.class(), Class::Sync | Class::Rate);
                assert_eq!(line.defect, looked.then_some(0.0));
                assert!(line.repetitions >= 1 && line.repetitions <= 5);
                assert!(!line.batches_s.is_empty() && line.left_out.is_none());
            }
        }
    }
}

#[test]
fn what_needs_more_memory_than_there_may_be_is_left_out_and_said() {
    let imb = Imb {
        benchmarks: vec![Benchmark::Alltoall],
        memory: 4 * 100 * 2,
        least: 4,
        ..short()
    };
    let told = &play(&imb, 4)[0];
    let left_out: Vec<_> = told
        .iter()
        .filter_map(|line| line.left_out.as_ref())
        .collect();
    assert_eq!(left_out.len(), 4);
    assert!(
        left_out[0].starts_with("out-of-mem.; needed "),
        "{left_out:?}"
    );
    assert_eq!(told.len(), 4 * 5, "lengths before it were measured");
}

#[test]
fn a_message_that_comes_back_counts_once_and_batches_add_up() {
    assert_eq!(seconds(Benchmark::PingPong, 8_000_000_000, 4), 1.0);
    assert_eq!(seconds(Benchmark::PingPing, 8_000_000_000, 4), 2.0);
    let imb = Imb {
        benchmarks: vec![Benchmark::PingPong],
        lengths: Some(vec![8]),
        repetitions: 250,
        ..short()
    };
    for line in &play(&imb, 2)[0] {
        assert_eq!(
            (line.repetitions, line.batch, line.batches_s.len()),
            (250, 3, 84)
        );
        // 83 batches of three and one of one.
        let sum: f64 = line.batches_s[..83].iter().map(|one| 3.0 * one).sum();
        let whole = sum + line.batches_s[83];
        assert!((whole / 250.0 / line.seconds - 1.0).abs() < 1e-9);
    }
}

#[test]
fn what_was_changed_on_the_way_is_found() {
    let found = as_ranks_over(true, 3, |world| {
        let group = Group::new(vec![0, 1, 2], world.rank()).unwrap();
        let mut pattern =
            Pattern::new(Benchmark::Allgather, group, Some(Algorithm::Ring), 64, true);
        pattern.repeat(world, 0).unwrap();
        let before = pattern.check(1);
        pattern.spoil();
        (before, pattern.check(1).map(|wrong| wrong.item))
    });
    assert!(found.iter().all(|one| *one == (None, Some(0))), "{found:?}");
}
