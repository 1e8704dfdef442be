//! Windows over every kind of links: after a fence all data is in place, and none of it arrives later.

use super::*;
use crate::ranks::tests::{ALL, Over, as_ranks_over};

fn content(seed: usize, bytes: usize) -> Vec<u8> {
    let byte = |at: usize| u8::try_from((at * 13 + seed * 29) % 251).unwrap();
    (0..bytes).map(byte).collect()
}

fn whole(world: &World) -> Group {
    Group::new((0..world.size()).rev().collect(), world.rank()).unwrap()
}

/// Opens a window with room for `bytes` from each member, zeroed.
fn open(world: &mut World, bytes: usize) -> Group {
    let group = whole(world);
    let mut memory = world.buffer(group.size() * bytes);
    memory.fill(0);
    world.open_window(&group, memory).unwrap();
    group
}

#[test]
fn what_is_put_is_there_behind_the_fence_at_every_member_and_what_is_got_is_what_stood_there() {
    for over in ALL {
        for ranks in [1, 2, 3, 5] {
            as_ranks_over(over, ranks, |world| {
                for bytes in [1, 100, 5_000, 300_000] {
                    let group = open(world, bytes);
                    let (own, size) = (group.place(), group.size());
                    for turn in 0..3 {
                        let out = content(own + turn, bytes);
                        let mut access = world.access();
                        for member in 0..size {
                            access.put(member, own * bytes, &out).unwrap();
                        }
                        access.fence().unwrap();
                        let window = world.window().unwrap();
                        for (member, part) in window.chunks(bytes).enumerate() {
                            assert!(part == content(member + turn, bytes), "{over:?} {bytes}");
                        }
                        // Each member reads, in the window of the next one, the data of the member after that.
                        let (next, behind) = ((own + 1) % size, (own + 2) % size);
                        let mut into = vec![0; bytes];
                        let mut access = world.access();
                        access.get(next, behind * bytes, &mut into).unwrap();
                        access.fence().unwrap();
                        assert!(into == content(behind + turn, bytes), "{over:?} {bytes}");
                    }
                    let memory = world.close_window().unwrap();
                    assert_eq!(memory.len(), size * bytes);
                }
            });
        }
    }
}

#[test]
fn many_messages_pass_before_a_fence_whoever_is_ready_first() {
    for over in ALL {
        as_ranks_over(over, 2, |world| {
            const BYTES: usize = 60_000;
            const COUNT: usize = 100;
            let group = whole(world);
            let memory = world.buffer(BYTES * COUNT);
            world.open_window(&group, memory).unwrap();
            let (own, other) = (group.place(), 1 - group.place());
            let outs: Vec<Vec<u8>> = (0..COUNT).map(|turn| content(own + turn, BYTES)).collect();
            let mut access = world.access();
            for (turn, out) in outs.iter().enumerate() {
                access.put(other, turn * BYTES, out).unwrap();
            }
            access.fence().unwrap();
            let window = world.window().unwrap();
            for (turn, part) in window.chunks(BYTES).enumerate() {
                assert!(part == content(other + turn, BYTES), "{over:?} {turn}");
            }
            let mut intos = vec![vec![0; BYTES]; COUNT];
            let mut access = world.access();
            for (turn, into) in intos.iter_mut().enumerate() {
                access.get(other, turn * BYTES, into).unwrap();
            }
            access.fence().unwrap();
            for (turn, into) in intos.iter().enumerate() {
                assert!(*into == content(own + turn, BYTES), "{over:?} {turn}");
            }
            world.close_window().unwrap();
        });
    }
}

#[test]
fn sums_of_all_members_lose_nothing() {
    for over in ALL {
        as_ranks_over(over, 4, |world| {
            for items in [1, 700, 40_000] {
                let group = open(world, items);
                // One buffer in shared memory, and one in private memory.
                let mut lent = world.buffer(4 * items);
                for (item, four) in lent.chunks_exact_mut(4).enumerate() {
                    let value = u16::try_from((item + group.place()) % 100).unwrap();
                    four.copy_from_slice(&f32::from(value).to_le_bytes());
                }
                let own = lent.to_vec();
                let mut access = world.access();
                for _ in 0..5 {
                    access.add(0, 0, &lent).unwrap();
                    access.add(0, 0, &own).unwrap();
                }
                access.fence().unwrap();
                if group.place() == 0 {
                    let window = world.window().unwrap();
                    for (item, four) in window.chunks_exact(4).enumerate() {
                        let sum: usize = (0..4).map(|place| (item + place) % 100).sum();
                        let sum = f32::from(u16::try_from(10 * sum).unwrap());
                        assert_eq!(four, sum.to_le_bytes(), "{over:?} item {item}");
                    }
                }
                world.close_window().unwrap();
            }
        });
    }
}

#[test]
fn a_slow_reader_of_a_window_sees_nothing_of_what_comes_behind_the_fence() {
    for over in ALL {
        as_ranks_over(over, 3, |world| {
            let group = open(world, 200_000);
            for turn in 0..20 {
                // The first member writes into the window of the second. The third reads it after the fence, while the first continues.
                let out = content(turn, 200_000);
                let mut access = world.access();
                if group.place() == 0 {
                    access.put(1, 0, &out).unwrap();
                }
                access.fence().unwrap();
                let mut into = vec![0; 200_000];
                let mut access = world.access();
                if group.place() == 2 {
                    access.get(1, 0, &mut into).unwrap();
                }
                access.fence().unwrap();
                if group.place() == 2 {
                    assert!(into == content(turn, 200_000), "{over:?} {turn}");
                }
            }
            world.close_window().unwrap();
        });
    }
}

#[test]
fn what_is_outside_of_a_window_is_refused_and_named() {
    for over in ALL {
        let told = as_ranks_over(over, 2, |world| {
            let group = whole(world);
            let memory = world.buffer(100);
            world.open_window(&group, memory).unwrap();
            let within = over == Over::Memory || over == Over::Both && world.size() > 2;
            // A rank with direct access fails at once. Otherwise the owner detects the error, and no rank waits for another.
            let outcome = match group.place() {
                0 => world.access().put(1, 90, &[1; 11]),
                _ if within => Ok(()),
                _ => world.fence(),
            };
            outcome.map_err(|error| (group.place(), error.to_string()))
        });
        let outside =
            |rank| format!("rank {rank}: 11 bytes from 90 on are not in the window of 100");
        // The member at the first place is rank 1.
        let expected = [Err((0, outside(0))), Err((1, outside(1)))];
        assert!(
            told.iter().any(|one| expected.contains(one)),
            "{over:?} {told:?}"
        );
    }
    as_ranks_over(ALL[0], 1, |world| {
        assert!(world.fence().is_err(), "there is no window");
        assert!(world.close_window().is_err());
        let group = whole(world);
        let memory = world.buffer(10);
        world.open_window(&group, memory).unwrap();
        let mut into = [0; 6];
        let mut access = world.access();
        assert!(access.put(0, 5, &[0; 6]).is_err());
        assert!(access.get(0, usize::MAX, &mut into).is_err());
    });
}
