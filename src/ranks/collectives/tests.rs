//! Every algorithm against a plain reference, for 1 to 17 ranks, as threads over real sockets.

use std::collections::BTreeSet;
use std::ops::Range;

use super::*;
use crate::plan::collective::{Algorithm, Collective};
use crate::ranks::pieces::{add_floats, ranges, split, two};
use crate::ranks::tests::{ALL, Over, as_ranks_over};

/// Bytes of a block: none, less than an item, and awkward lengths.
const LENGTHS: [usize; 4] = [0, 1, 52, 4_004];
const LONG: usize = SEGMENT_BYTES + 4_004;
/// Sums of this length are made piece by piece while the next piece arrives, and go along a chain in a dozen segments.
const VERY_LONG: usize = 12 * SEGMENT_BYTES + 4_004;

/// Data of the member at `place` for the one at `to`.
fn block(place: usize, to: usize, bytes: usize) -> Vec<u8> {
    let byte = |at: usize| u8::try_from((at * 31 + place * 7 + to * 101) % 251).unwrap();
    (0..bytes).map(byte).collect()
}

/// Whole numbers: their sums are exact in any order.
fn vector(place: usize, bytes: usize) -> Vec<u8> {
    let item = |at: usize| u16::try_from((at * 5 + place * 3) % 97).unwrap();
    let mut all: Vec<u8> = (0..bytes / 4)
        .flat_map(|at| f32::from(item(at)).to_le_bytes())
        .collect();
    all.resize(bytes, 0);
    all
}

fn sum(size: usize, bytes: usize) -> Vec<u8> {
    let mut all = vector(0, bytes);
    (1..size).for_each(|place| add_floats(&mut all, &vector(place, bytes)));
    all
}

/// A group whose members are not in natural order.
fn group(world: &World) -> Group {
    let size = world.size();
    let members = (0..size).map(|place| (place * 2 + 1) % size);
    let turned = match size % 2 {
        1 => members.collect(),
        _ => (0..size).rev().collect(),
    };
    Group::new(turned, world.rank()).unwrap()
}

/// Runs all group operations with blocks of these lengths.
fn do_all(world: &mut World, lengths: &[usize]) {
    let group = group(world);
    let (own, size) = (group.place(), group.size());
    let roots = BTreeSet::from([0, size / 2, size - 1]);
    let mut team = world.team(&group);
    for algorithm in Collective::Barrier.algorithms() {
        team.barrier(*algorithm).unwrap();
    }
    for &bytes in lengths {
        let what = |algorithm: &Algorithm| format!("{} of {size}, {bytes} bytes", algorithm.name());
        let even = ranges(&vec![bytes; size]);
        // Blocks of different lengths, some of them empty.
        let uneven: Vec<usize> = (0..size).map(|place| bytes * (place % 3) / 2).collect();
        let uneven = ranges(&uneven);
        for &root in &roots {
            for algorithm in Collective::Broadcast.algorithms() {
                let mut there = match own == root {
                    true => block(root, 0, bytes),
                    false => vec![0; bytes],
                };
                team.broadcast(*algorithm, root, &mut there).unwrap();
                assert_eq!(
                    there,
                    block(root, 0, bytes),
                    "broadcast {}",
                    what(algorithm)
                );
            }
            for blocks in [&even, &uneven] {
                let mine = block(own, 0, blocks[own].len());
                let whole: Vec<u8> = (0..size)
                    .flat_map(|place| block(place, 0, blocks[place].len()))
                    .collect();
                for algorithm in Collective::Gather.algorithms() {
                    let mut all = vec![0; whole.len()];
                    team.gather(*algorithm, root, &mine, &mut all, blocks)
                        .unwrap();
                    assert!(own != root || all == whole, "gather {}", what(algorithm));
                    let mut back = vec![0; mine.len()];
                    team.scatter(*algorithm, root, &whole, &mut back, blocks)
                        .unwrap();
                    assert_eq!(back, mine, "scatter {}", what(algorithm));
                }
            }
        }
        for blocks in [&even, &uneven] {
            let mine = block(own, 0, blocks[own].len());
            let whole: Vec<u8> = (0..size)
                .flat_map(|place| block(place, 0, blocks[place].len()))
                .collect();
            for algorithm in Collective::Allgather.algorithms() {
                let mut all = vec![0; whole.len()];
                team.allgather(*algorithm, &mine, &mut all, blocks).unwrap();
                assert_eq!(all, whole, "allgather {}", what(algorithm));
            }
            // Data from p to q has the length of block q at the sender. It has the length of block p at the receiver only if all are alike.
            let lengths: Vec<usize> = blocks.iter().map(Range::len).collect();
            let to = ranges(&lengths);
            let from = ranges(&vec![lengths[own]; size]);
            let out: Vec<u8> = (0..size)
                .flat_map(|to| block(own, to, lengths[to]))
                .collect();
            let expected: Vec<u8> = (0..size)
                .flat_map(|place| block(place, own, lengths[own]))
                .collect();
            for algorithm in Collective::Alltoall.algorithms() {
                // All members must agree whether blocks are alike: the lengths of the group decide.
                let alike = lengths.iter().all(|length| *length == lengths[0]);
                if *algorithm == Algorithm::Bruck && !alike {
                    continue;
                }
                let mut into = vec![0; expected.len()];
                team.alltoall(*algorithm, (&out, &to), (&mut into, &from))
                    .unwrap();
                assert_eq!(into, expected, "alltoall {}", what(algorithm));
            }
        }
        add_up(&mut team, bytes, &roots);
    }
}

/// Checks all sums of vectors of this length.
fn add_up(team: &mut Team<'_, '_>, bytes: usize, roots: &BTreeSet<usize>) {
    let (own, size) = (team.place(), team.size());
    let what = |algorithm: &Algorithm| format!("{} of {size}, {bytes} bytes", algorithm.name());
    let whole = sum(size, bytes);
    for &root in roots {
        for algorithm in Collective::Reduce.algorithms() {
            let mut there = vector(own, bytes);
            team.reduce(*algorithm, root, &mut there).unwrap();
            assert!(own != root || there == whole, "reduce {}", what(algorithm));
        }
    }
    for algorithm in Collective::Allreduce.algorithms() {
        let mut there = vector(own, bytes);
        team.allreduce(*algorithm, &mut there).unwrap();
        assert!(there == whole, "allreduce {}", what(algorithm));
    }
    for blocks in [split(bytes, ITEM_BYTES, size), last_takes_all(bytes, size)] {
        for algorithm in Collective::ReduceScatter.algorithms() {
            let mut there = vector(own, bytes);
            team.reduce_scatter(*algorithm, &mut there, &blocks)
                .unwrap();
            let mine = blocks[own].clone();
            let is_right = there[mine.clone()] == whole[mine];
            assert!(is_right, "reduce-scatter {}", what(algorithm));
        }
    }
}

fn last_takes_all(bytes: usize, size: usize) -> Vec<Range<usize>> {
    let mut lengths = vec![0; size];
    lengths[size - 1] = bytes;
    ranges(&lengths)
}

#[test]
fn every_algorithm_is_right_for_one_to_seventeen_ranks() {
    for ranks in 1..=17_usize {
        // TCP, and the other kinds of links in turn.
        let other = ALL[1 + ranks % (ALL.len() - 1)];
        for over in [Over::Tcp, other] {
            as_ranks_over(over, ranks, |world| do_all(world, &LENGTHS));
        }
    }
}

#[test]
fn vectors_longer_than_a_segment_are_whole() {
    for ranks in [2, 3, 5] {
        as_ranks_over(
            if ranks == 3 { Over::Tcp } else { Over::Memory },
            ranks,
            |world| do_all(world, &[LONG]),
        );
    }
}

#[test]
fn sums_of_very_long_vectors_are_right() {
    for ranks in [2, 3, 6] {
        for over in [Over::Tcp, Over::Memory] {
            as_ranks_over(over, ranks, |world| {
                let group = group(world);
                let roots = BTreeSet::from([0, ranks - 1]);
                add_up(&mut world.team(&group), VERY_LONG, &roots);
            });
        }
    }
}

#[test]
fn groups_of_the_same_ranks_do_not_disturb_each_other() {
    as_ranks_over(Over::Unix, 6, |world| {
        let own = world.rank();
        let members = (0..6).filter(|rank| rank % 2 == own % 2).collect();
        let half = Group::new(members, own).unwrap();
        for _ in 0..20 {
            let mut team = world.team(&half);
            let mut there = vector(own, 400);
            team.allreduce(Algorithm::Ring, &mut there).unwrap();
            let mut expected = vector(own % 2, 400);
            add_floats(&mut expected, &vector(own % 2 + 2, 400));
            add_floats(&mut expected, &vector(own % 2 + 4, 400));
            assert_eq!(there, expected);
            world.barrier().unwrap();
        }
    });
}

#[test]
fn parts_are_even_and_parts_of_a_memory_do_not_touch() {
    assert_eq!(split(22, 4, 3), [0..8, 8..16, 16..22]);
    assert_eq!(split(3, 4, 2), [0..0, 0..3]);
    assert_eq!(split(0, 4, 2), [0..0, 0..0]);
    let mut all = [1, 2, 3, 4, 5];
    let (read, write) = two(&mut all, 0..2, 3..5);
    assert_eq!((read, &*write), (&[1, 2][..], &[4, 5][..]));
    let (read, write) = two(&mut all, 3..5, 0..2);
    assert_eq!((read, &*write), (&[4, 5][..], &[1, 2][..]));
    let (read, write) = two(&mut all, 2..2, 0..5);
    assert_eq!((read.len(), write.len()), (0, 5));
    let (read, write) = two(&mut all, 0..5, 5..5);
    assert_eq!((read.len(), write.len()), (5, 0));
    let (read, write) = two(&mut all, 2..5, 0..0);
    assert_eq!((read.len(), write.len()), (3, 0));
}
