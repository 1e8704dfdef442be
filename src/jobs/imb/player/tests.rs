//! Every benchmark, played by ranks as threads over real sockets, with a check of what arrives.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use super::*;
use crate::plan::imb::{Asked, Multi, tests::imb};
use crate::ranks::tests::{ALL, Over, as_ranks_over};

/// Reports of all ranks on all lines, table by table.
fn play(imb: &Imb, ranks: usize) -> Vec<Vec<RankLine>> {
    let tables = imb.tables(ranks);
    static RUN: AtomicU64 = AtomicU64::new(0);
    let run = RUN.fetch_add(1, Ordering::SeqCst);
    let token = format!("{:08x}{run:08x}", std::process::id());
    let all = Mutex::new(vec![Vec::new(); tables.len()]);
    as_ranks_over(
        ALL[(ranks + imb.benchmarks.len()) % ALL.len()],
        ranks,
        |world| {
            let mut player = Player::new(imb, &token);
            for (number, table) in tables.iter().enumerate() {
                player
                    .play(world, table, |line| all.lock().unwrap()[number].push(line))
                    .unwrap();
                world.barrier().unwrap();
            }
        },
    );
    match std::fs::remove_dir_all(folder::folder(&imb.path, &token)) {
        Ok(()) | Err(_) => {} // Without file benchmarks there is no folder.
    }
    all.into_inner().unwrap()
}

fn counts(repetitions: usize) -> Asked {
    Asked {
        repetitions: Some(repetitions),
        single: Some(repetitions),
        volume: Some(40 << 20),
    }
}

fn short() -> Imb {
    Imb {
        benchmarks: Benchmark::all().collect(),
        lengths: Some(vec![0, 1, 4, 100, 5000]),
        counts: counts(5),
        computes_s: Some(1e-4),
        path: std::env::temp_dir(),
        check: true,
        least: Some(1),
        ..imb()
    }
}

#[test]
fn every_benchmark_brings_what_it_should_with_every_algorithm_and_by_both_rules() {
    // Every algorithm with three ranks; the chosen one with other numbers of ranks.
    let forced = Algorithm::NAMES.map(|(_, algorithm)| (3, Rules::Guide, Some(algorithm)));
    let chosen = [2, 3, 5].map(|ranks| (ranks, Rules::Guide, None));
    let current = [2, 5].map(|ranks| (ranks, Rules::Current, None));
    let all = forced.into_iter().chain(chosen).chain(current);
    for (ranks, rules, algorithm) in all {
        let part = |one: &Benchmark| match algorithm {
            Some(_) => one.part() == Part::Mpi1,
            None => one.part() != Part::Io,
        };
        let imb = Imb {
            rules,
            algorithm,
            seconds: 1.0,
            benchmarks: Benchmark::all().filter(part).collect(),
            ..short()
        };
        let tables = imb.tables(ranks);
        for (table, told) in tables.iter().zip(play(&imb, ranks)) {
            let expected = table.lengths.len() * table.groups.concat().len();
            assert_eq!(told.len(), expected, "{table:?}");
            for line in &told {
                assert_eq!(line.wrong, None, "{:?} {algorithm:?}", table.benchmark);
                let looked = table.benchmark.is_comparable();
                assert_eq!(line.defect, looked.then_some(0.0));
                assert!(line.repetitions >= 1 && line.repetitions <= 5);
                assert!(!line.batches_s.is_empty() && line.left_out.is_none());
            }
        }
    }
}

#[test]
fn files_have_in_them_what_they_should_and_every_kind_of_pointer_finds_it() {
    for (ranks, rules, multi) in [
        (1, Rules::Guide, None),
        (3, Rules::Guide, None),
        (4, Rules::Current, Some(Multi::Worst)),
    ] {
        let imb = Imb {
            rules,
            multi,
            benchmarks: crate::plan::imb::usual(Part::Io, rules),
            // Less than an item, pieces that are collected, and pieces that are not collected.
            lengths: Some(vec![0, 1, 5, 1000, 300_000]),
            counts: counts(3),
            least: Some(ranks.min(2)),
            ..short()
        };
        let tables = imb.tables(ranks);
        assert!(tables.len() >= 46, "{}", tables.len());
        for (table, told) in tables.iter().zip(play(&imb, ranks)) {
            let expected = table.lengths.len() * table.groups.concat().len();
            assert_eq!(told.len(), expected, "{table:?}");
            for line in &told {
                let name = table.benchmark.name();
                assert_eq!(line.wrong, None, "{name} {:?} {ranks}", table.mode);
                let files = line.files.unwrap();
                assert_eq!(line.repetitions, 3);
                match table.benchmark {
                    Benchmark::File(file) => {
                        assert_eq!(files.overlap.is_some(), file.overlaps(), "{name}");
                        assert_eq!(files.synchronising_s > 0.0, file.writes(), "{name}");
                        let share = files.cached().unwrap_or(0.0);
                        assert!((0.0..=1.0).contains(&share), "{name}");
                        assert!(!file.writes() || files.read_bytes == 0, "{name}");
                    }
                    _ => assert_eq!(files.synchronising_s, 0.0),
                }
            }
        }
    }
}

#[test]
fn what_needs_more_memory_than_there_may_be_is_left_out_and_said() {
    let imb = Imb {
        benchmarks: vec![Benchmark::Alltoall],
        memory: 4 * 100 * 2,
        least: Some(4),
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
fn a_table_that_takes_too_long_by_todays_rules_ends_with_a_line_that_says_so() {
    let imb = Imb {
        benchmarks: vec![Benchmark::PingPong],
        lengths: Some(vec![0, 4, 8, 1 << 20]),
        rules: Rules::Current,
        // The time is over before the second length.
        seconds: 1e-9,
        ..short()
    };
    let told = &play(&imb, 2)[0];
    // Both ranks end at the same line, and no line follows.
    let ends = told.iter().filter(|line| line.left_out.is_some()).count();
    assert_eq!((ends, told.len() < 8), (2, true), "{told:?}");
    let why = told.iter().find_map(|line| line.left_out.as_ref()).unwrap();
    assert!(why.starts_with("time-out.; "), "{why}");
}

#[test]
fn a_message_that_comes_back_counts_once_and_batches_add_up() {
    assert_eq!(seconds(Benchmark::PingPong, 8_000_000_000, 4), 1.0);
    assert_eq!(seconds(Benchmark::PingPing, 8_000_000_000, 4), 2.0);
    let imb = Imb {
        benchmarks: vec![Benchmark::PingPong],
        lengths: Some(vec![8]),
        counts: counts(250),
        ..short()
    };
    for line in &play(&imb, 2)[0] {
        assert_eq!(
            (line.repetitions, line.batch, line.batches_s.len()),
            (250, 3, 84)
        );
        // 83 batches of three repetitions, and one of one.
        let sum: f64 = line.batches_s[..83].iter().map(|one| 3.0 * one).sum();
        let whole = sum + line.batches_s[83];
        assert!((whole / 250.0 / line.seconds - 1.0).abs() < 1e-9);
    }
}

#[test]
fn what_was_changed_on_the_way_is_found() {
    let found = as_ranks_over(Over::Tcp, 3, |world| {
        let group = Group::new(vec![0, 1, 2], world.rank()).unwrap();
        let mut messages = Messages::new(
            world,
            Benchmark::Allgather,
            group,
            Some(Algorithm::Ring),
            (64, 1),
            true,
        );
        messages.repeat(world, 0).unwrap();
        let before = messages.check(1);
        messages.spoil();
        (before, messages.check(1).map(|wrong| wrong.item))
    });
    assert!(found.iter().all(|one| *one == (None, Some(0))), "{found:?}");
}
