//! Ranks as threads of this process, over real sockets.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use super::*;
use crate::link::{Endpoint, Ports};
use crate::plan::SocketOptions;
use crate::plan::ranks::Wait;
use crate::record::TroubleKind;
use crate::sys::socket;

const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const TAG: u32 = 7;

/// Medium of the links of a test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Over {
    Tcp,
    Unix,
    Memory,
    /// Shared memory between the first half of the ranks, TCP between all others.
    Both,
}

pub(crate) const ALL: [Over; 4] = [Over::Tcp, Over::Unix, Over::Memory, Over::Both];

fn configs(ranks: usize, over: Over, silence: Duration) -> Vec<WorldConfig> {
    static RUN: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
    let run = RUN.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
    let options = SocketOptions::default();
    let at_home = match over {
        Over::Tcp | Over::Unix => 0,
        Over::Memory => ranks,
        Over::Both => ranks.div_ceil(2),
    };
    let shared = Arc::new(SharedMemory::new(at_home.max(1), 64 << 20).unwrap());
    let mut outside = Vec::new();
    let mut listeners = Vec::new();
    for rank in 0..ranks {
        let at = match over {
            Over::Unix => Endpoint::Unix(format!(
                "pipebench-unit-rank-{}-{run}-{rank}",
                std::process::id()
            )),
            _ => Endpoint::at(LOOPBACK),
        };
        let (listener, address) = at.listen(Ports::default(), &options).unwrap();
        listeners.push(listener);
        outside.push(address.map_or(at, Endpoint::Tcp));
    }
    let book = |own: usize| -> Vec<Endpoint> {
        let all = outside.iter().enumerate();
        all.map(|(rank, address)| match own < at_home && rank < at_home {
            true => Endpoint::Memory(rank),
            false => address.clone(),
        })
        .collect()
    };
    let config = |(own, listener)| WorldConfig {
        listeners: vec![listener],
        shared: Some(Arc::clone(&shared)),
        book: book(own),
        from: LOOPBACK,
        secret: [9; 32],
        options: options.clone(),
        connect_limit: Duration::from_secs(20),
        hello_limit: Duration::from_secs(2),
        silence,
    };
    listeners.into_iter().enumerate().map(config).collect()
}

/// Runs `act` as each of `ranks` ranks, over each kind of links. No rank ends before all are done, as in a job.
fn as_ranks<R: Send>(ranks: usize, act: impl Fn(&mut World) -> R + Sync) -> Vec<Vec<R>> {
    ALL.into_iter()
        .map(|over| as_ranks_over(over, ranks, &act))
        .collect()
}

/// The same over one kind of links.
pub(crate) fn as_ranks_over<R: Send>(
    over: Over,
    ranks: usize,
    act: impl Fn(&mut World) -> R + Sync,
) -> Vec<R> {
    let configs = configs(ranks, over, Duration::from_secs(20));
    std::thread::scope(|scope| {
        let act = &act;
        let threads: Vec<_> = configs
            .into_iter()
            .enumerate()
            .map(|(own, config)| {
                scope.spawn(move || {
                    let mut world =
                        World::new(own, config, WaitStrategy::new(Wait::Auto, ranks, 1)).unwrap();
                    (act(&mut world), world)
                })
            })
            .collect();
        let ended: Vec<(R, World)> = threads.into_iter().map(|one| one.join().unwrap()).collect();
        ended.into_iter().map(|(told, _)| told).collect()
    })
}

fn content(from: usize, bytes: usize) -> Vec<u8> {
    let byte = |at: usize| u8::try_from((at * 31 + from * 7) % 251).unwrap();
    (0..bytes).map(byte).collect()
}

#[test]
fn messages_of_all_lengths_go_both_ways_over_one_link() {
    let lengths = [
        0,
        1,
        15,
        16,
        17,
        4096,
        (256 << 10) - 1,
        (256 << 10) + 1,
        5 << 20,
    ];
    as_ranks(2, |world| {
        let other = 1 - world.rank();
        for bytes in lengths {
            let mut into = vec![0; bytes];
            let got = if world.rank() == 0 {
                world.send(other, TAG, &content(0, bytes)).unwrap();
                world.receive(From::Rank(other), TAG, &mut into).unwrap()
            } else {
                let got = world.receive(From::Rank(other), TAG, &mut into).unwrap();
                world.send(other, TAG, &content(1, bytes)).unwrap();
                got
            };
            assert_eq!((got.from, got.bytes), (other, bytes));
            assert!(into == content(other, bytes), "{bytes} bytes");
        }
    });
}

#[test]
fn what_stands_in_common_memory_goes_to_whoever_can_copy_it_and_to_all_others_too() {
    as_ranks(3, |world| {
        let (own, size) = (world.rank(), world.size());
        for bytes in [100, 4096, 4097, 1 << 20] {
            let mut out = world.buffer(bytes);
            out.copy_from_slice(&content(own, bytes));
            let mut into = world.buffer(bytes);
            for _ in 0..3 {
                into.fill(0);
                let (to, from) = ((own + 1) % size, (own + size - 1) % size);
                world
                    .send_and_receive((to, &out), (From::Rank(from), &mut into), TAG)
                    .unwrap();
                assert!(into[..] == content(from, bytes), "{bytes} bytes");
            }
        }
        // The receive of the first message begins only after the second message has arrived.
        let mut out = world.buffer(50_000);
        out.copy_from_slice(&content(7, 50_000));
        if own == 0 {
            let mut all = world.exchange();
            all.start_send(1, 3, &out);
            all.start_send(1, 4, &out[..10]);
            all.wait_all().unwrap();
        } else if own == 1 {
            let mut into = vec![0; 50_000];
            world.receive(From::Rank(0), 4, &mut into[..10]).unwrap();
            assert!(into[..10] == content(7, 10));
            world.receive(From::Rank(0), 3, &mut into).unwrap();
            assert!(into == content(7, 50_000));
        }
    });
}

#[test]
fn whoever_sleeps_is_woken_by_what_comes_over_memory() {
    let waits = as_ranks_over(Over::Memory, 2, |world| {
        let other = 1 - world.rank();
        let mut woken = Vec::new();
        for turn in 0..5 {
            let began = std::time::Instant::now();
            if world.rank() == turn % 2 {
                std::thread::sleep(Duration::from_millis(20));
                world.send(other, TAG, &[1; 10]).unwrap();
            } else {
                world.receive(From::Rank(other), TAG, &mut [0; 10]).unwrap();
                woken.push(began.elapsed());
            }
        }
        woken
    });
    assert_eq!(waits.concat().len(), 5);
}

#[test]
fn both_may_send_first_and_large_messages_pass_each_other() {
    as_ranks(2, |world| {
        let other = 1 - world.rank();
        let out = content(world.rank(), 9 << 20);
        let mut into = vec![0; 9 << 20];
        for _ in 0..3 {
            let got = world.send_and_receive((other, &out), (From::Rank(other), &mut into), TAG);
            assert_eq!(got.unwrap().bytes, 9 << 20);
            assert!(into == content(other, 9 << 20));
        }
    });
}

#[test]
fn messages_are_told_apart_by_their_tags_in_whatever_order_they_are_asked_for() {
    as_ranks(2, |world| {
        if world.rank() == 0 {
            for tag in [5, 3, 4, 3] {
                let bytes = 100 * usize::try_from(tag).unwrap();
                world.send(1, tag, &content(bytes, bytes)).unwrap();
            }
            return;
        }
        // The buffer is longer than the first message of the stream, so that the start of the next one is read with it.
        for (tag, room) in [(3_u32, 1000), (4, 400), (3, 300), (5, 1000)] {
            let mut into = vec![0; room];
            let got = world.receive(From::Rank(0), tag, &mut into).unwrap();
            let bytes = 100 * usize::try_from(tag).unwrap();
            assert_eq!(got.bytes, bytes, "tag {tag}");
            assert!(into[..bytes] == content(bytes, bytes));
        }
    });
}

#[test]
fn whoever_is_first_is_taken_from_any() {
    as_ranks(5, |world| {
        let own = world.rank();
        if own > 0 {
            world.send(0, TAG, &content(own, 1000 * own)).unwrap();
            return world.barrier().unwrap();
        }
        let mut seen = Vec::new();
        for _ in 1..5 {
            let mut into = vec![0; 8000];
            let got = world.receive(From::Any, TAG, &mut into).unwrap();
            assert_eq!(got.bytes, 1000 * got.from);
            assert!(into[..got.bytes] == content(got.from, got.bytes));
            seen.push(got.from);
        }
        seen.sort_unstable();
        assert_eq!(seen, [1, 2, 3, 4]);
        world.barrier().unwrap();
    });
}

#[test]
fn links_are_made_by_messages_and_one_serves_both_directions() {
    let all = as_ranks(6, |world| {
        let own = world.rank();
        if own < 2 {
            let (other, mut into) = (1 - own, [0; 8]);
            for _ in 0..3 {
                world.send(other, TAG, &content(own, 8)).unwrap();
                world.receive(From::Rank(other), TAG, &mut into).unwrap();
                assert!(into.to_vec() == content(other, 8));
            }
        }
        world.links()
    });
    // Links in shared memory stand from the start.
    assert_eq!(all[..2], [[1, 1, 0, 0, 0, 0]; 2]);
    assert_eq!(all[2..], [[5; 6], [2, 2, 2, 0, 0, 0]]);
}

#[test]
fn an_exchange_takes_messages_by_their_tags_and_each_tag_in_its_order() {
    as_ranks(2, |world| {
        if world.rank() == 0 {
            for (tag, byte) in [(3, 1), (3, 2)] {
                world.send(1, tag, &[byte; 100]).unwrap();
            }
            // The other tag comes only after an answer to these.
            world.receive(From::Rank(1), TAG, &mut [0; 1]).unwrap();
            world.send(1, 4, &[9; 100]).unwrap();
            return;
        }
        let (mut late, mut first, mut second) = ([0; 100], [0; 100], [0; 100]);
        let mut all = world.exchange();
        all.start_receive(From::Rank(0), 4, &mut late);
        let one = all.start_receive(From::Rank(0), 3, &mut first);
        let other = all.start_receive(From::Rank(0), 3, &mut second);
        all.wait(one).unwrap();
        all.wait(other).unwrap();
        let answer = [1];
        all.start_send(0, TAG, &answer);
        all.wait_all().unwrap();
        assert_eq!((first[0], second[0], late[0]), (1, 2, 9));
    });
}

#[test]
fn many_messages_are_under_way_at_the_same_time_and_keep_their_order() {
    as_ranks(3, |world| {
        let own = world.rank();
        let outs: Vec<Vec<u8>> = (0..8).map(|number| content(own + number, 70_000)).collect();
        let mut intos = vec![vec![0; 70_000]; 16];
        let mut all = world.exchange();
        let others: Vec<usize> = (0..3).filter(|rank| *rank != own).collect();
        let mut requests = Vec::new();
        for (number, into) in intos.iter_mut().enumerate() {
            requests.push(all.start_receive(From::Rank(others[number / 8]), TAG, into));
        }
        for other in &others {
            for out in &outs {
                all.start_send(*other, TAG, out);
            }
        }
        assert_eq!(all.wait(requests[15]).unwrap().bytes, 70_000);
        all.wait_all().unwrap();
        for (number, into) in intos.iter().enumerate() {
            assert!(*into == content(others[number / 8] + number % 8, 70_000));
        }
    });
}

#[test]
fn nobody_leaves_a_barrier_before_all_are_there_and_a_broadcast_reaches_all() {
    for ranks in [2, 3, 5, 8] {
        let there = std::sync::atomic::AtomicUsize::new(0);
        as_ranks(ranks, |world| {
            use std::sync::atomic::Ordering::SeqCst;
            for round in 1..=20 {
                let before = there.fetch_add(1, SeqCst);
                world.barrier().unwrap();
                let floor = before / ranks * ranks;
                assert!(there.load(SeqCst) >= floor.min(round * ranks));
                assert!(there.load(SeqCst).is_multiple_of(ranks) || before >= floor);
                world.barrier().unwrap();
            }
            for root in 0..ranks {
                let mut bytes = if world.rank() == root {
                    content(root, 3000)
                } else {
                    vec![0; 3000]
                };
                world.broadcast(root, &mut bytes).unwrap();
                assert!(bytes == content(root, 3000));
            }
            let mut into = vec![vec![0; 50_000]; ranks];
            let own = world.rank();
            world
                .all_to_all(TAG, &content(own, 50_000), &mut into)
                .unwrap();
            for (rank, into) in into.iter().enumerate().filter(|(rank, _)| *rank != own) {
                assert!(*into == content(rank, 50_000));
            }
        });
    }
}

#[test]
fn a_message_longer_than_its_room_is_an_error_and_nothing_goes_on_behind_it() {
    as_ranks(2, |world| {
        if world.rank() == 0 {
            world.send(1, TAG, &[1; 10]).unwrap();
            return;
        }
        let error = world.receive(From::Rank(0), TAG, &mut [0; 4]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "rank 0 sent 10 bytes where 4 were expected (tag 7)"
        );
        let error = world.receive(From::Rank(0), TAG, &mut [0; 4]).unwrap_err();
        assert_eq!(error.to_string(), "an earlier message was cut off");
    });
}

#[test]
fn a_rank_that_has_gone_is_named() {
    for over in [Over::Tcp, Over::Unix] {
        let mut worlds = configs(2, over, Duration::from_secs(20)).into_iter();
        let mut world = |own| {
            World::new(
                own,
                worlds.next().unwrap(),
                WaitStrategy::new(Wait::Auto, 2, 1),
            )
            .unwrap()
        };
        let (mut stays, mut goes) = (world(0), world(1));
        let other = std::thread::spawn(move || {
            goes.send_and_receive((0, &[1; 4]), (From::Rank(0), &mut [0; 4]), TAG)
                .unwrap();
        });
        let mut into = [0; 4];
        stays
            .send_and_receive((1, &[1; 4]), (From::Rank(1), &mut into), TAG)
            .unwrap();
        let error = stays.receive(From::Rank(1), TAG, &mut into).unwrap_err();
        assert_eq!(error.kind(), TroubleKind::Peer);
        assert!(error.to_string().starts_with("rank 1 is gone: "), "{error}");
        other.join().unwrap();
    }
}

#[test]
fn a_message_that_stops_half_way_ends_the_wait() {
    let mut configs = configs(2, Over::Tcp, Duration::from_millis(300));
    let other = configs.remove(1);
    let Endpoint::Tcp(own) = configs[0].book[0].clone() else {
        panic!("TCP was asked for");
    };
    let mut world = World::new(0, configs.remove(0), WaitStrategy::new(Wait::Auto, 2, 1)).unwrap();
    let half = std::thread::spawn(move || {
        let options = SocketOptions::default();
        let socket = socket::connect_tcp(LOOPBACK, own, &options, Duration::from_secs(5)).unwrap();
        let hello = crate::wire::rank::RankHello {
            secret: other.secret,
            from: 1,
            to: 0,
        };
        use std::os::fd::AsFd;
        socket::send_bytes(socket.as_fd(), &hello.encode()).unwrap();
        let head = crate::wire::rank::MessageHead {
            tag: TAG,
            sequence: 0,
            bytes: 100,
            lent: false,
            place: 0,
        };
        socket::send_bytes(socket.as_fd(), &head.encode()).unwrap();
        socket
    });
    let _socket = half.join().unwrap();
    let error = world
        .receive(From::Rank(1), TAG, &mut [0; 100])
        .unwrap_err();
    assert_eq!(error.kind(), TroubleKind::Deadline);
    assert!(
        error.to_string().starts_with("no byte to or from rank 1"),
        "{error}"
    );
}

#[test]
fn more_ranks_may_connect_at_once_than_stand_in_the_list_of_connections() {
    const RANKS: usize = 300;
    let connected = std::sync::Barrier::new(RANKS);
    as_ranks_over(Over::Tcp, RANKS, |world| {
        if world.rank() > 0 {
            world.reach(0).unwrap();
            let linked = world.peers[0].is_linked();
            assert!(!linked, "rank 0 has not answered yet");
            connected.wait();
            world.send(0, TAG, &content(world.rank(), 9)).unwrap();
            return;
        }
        connected.wait();
        for rank in 1..RANKS {
            let mut into = vec![0; 9];
            world.receive(From::Rank(rank), TAG, &mut into).unwrap();
            assert_eq!(into, content(rank, 9));
        }
    });
}

#[test]
fn strangers_are_closed_and_counted_and_a_broken_stream_is_told() {
    use std::os::fd::AsFd;
    let mut configs = configs(2, Over::Tcp, Duration::from_secs(5));
    configs[0].hello_limit = Duration::from_millis(50);
    let Endpoint::Tcp(own) = configs[0].book[0].clone() else {
        panic!("TCP was asked for");
    };
    let mut world = World::new(0, configs.remove(0), WaitStrategy::new(Wait::Auto, 2, 1)).unwrap();
    let connect = || {
        let options = SocketOptions::default();
        socket::connect_tcp(LOOPBACK, own, &options, Duration::from_secs(5)).unwrap()
    };
    let (silent, wrong, right) = (connect(), connect(), connect());
    socket::send_bytes(wrong.as_fd(), &[b'x'; 64]).unwrap();
    let hello = crate::wire::rank::RankHello {
        secret: [9; 32],
        from: 1,
        to: 0,
    };
    socket::send_bytes(right.as_fd(), &hello.encode()).unwrap();
    socket::send_bytes(right.as_fd(), &[0xee; 24]).unwrap();
    let error = world.receive(From::Rank(1), TAG, &mut [0; 4]).unwrap_err();
    assert_eq!(error.kind(), TroubleKind::Invalid);
    assert_eq!(
        error.to_string(),
        "message 4008636142 of rank 1 came where 0 was expected: the stream is broken"
    );
    assert!(world.strangers() >= 1);
    drop(silent);
}

#[test]
fn nobody_there_is_refused_with_its_address() {
    let mut configs = configs(2, Over::Tcp, Duration::from_secs(5));
    drop(configs.remove(1));
    let mut world = World::new(0, configs.remove(0), WaitStrategy::new(Wait::Auto, 2, 1)).unwrap();
    let error = world.send(1, TAG, &[1]).unwrap_err();
    assert_eq!(error.kind(), TroubleKind::Connect);
    assert!(error.to_string().contains("connection refused"), "{error}");
}
