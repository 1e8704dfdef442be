//! Files that the real libraries wrote, compared with the values that went into them; and damaged files that must be refused.

use serde_json::Value;

use super::layout::RankSet;
use super::stream::{LONG_TAG, TAG};
use super::*;

fn sample(name: &str) -> (Vec<u8>, Value) {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/samples");
    let bytes = std::fs::read(folder.join(format!("{name}.sion"))).unwrap();
    let text = std::fs::read_to_string(folder.join(format!("{name}.json"))).unwrap();
    (bytes, serde_json::from_str(&text).unwrap())
}

fn floats(value: &Value) -> Vec<f64> {
    let all = value.as_array().into_iter().flatten();
    all.map(|one| one.as_f64().unwrap()).collect()
}

fn whole(value: &Value) -> Vec<u64> {
    let all = value.as_array().into_iter().flatten();
    all.map(|one| one.as_u64().unwrap()).collect()
}

/// Checks every value of a file of version 2, to the last bit.
fn check_second(name: &str) -> LinktestFile {
    let (bytes, truth) = sample(name);
    let file = read(bytes.as_slice()).unwrap();
    let header = &file.header;
    let number = |name: &str| truth[name].as_u64().unwrap();
    assert_eq!(
        header.version.map(u64::from).to_vec(),
        whole(&truth["version"])
    );
    assert_eq!(header.git_hash, truth["git_hash"]);
    assert_eq!(header.mode, truth["mode"]);
    assert_eq!(u64::from(header.all_to_all), number("all_to_all"));
    assert_eq!(u64::from(header.bidirectional), number("bidirectional"));
    assert_eq!(u64::from(header.unidirectional), number("unidirectional"));
    assert_eq!(u64::from(header.bisection), number("bisection"));
    assert_eq!(header.unknown, [0; 9]);
    assert_eq!(header.messages, number("num_messages"));
    assert_eq!(header.message_bytes, number("message_size"));
    assert_eq!(header.warmups, number("num_warmup"));
    assert_eq!(header.buffers, number("num_multi_buffers"));
    assert_eq!(header.buffer_seed, number("buffer_seed"));
    assert_eq!(header.rank_orders, number("num_randomized_tasks"));
    assert_eq!(header.rank_seed, number("task_seed"));
    let ranks = truth["ranks"].as_array().unwrap();
    assert_eq!(file.ranks.len(), ranks.len());
    for (rank, truth) in ranks.iter().enumerate() {
        assert_eq!(file.ranks[rank].host, truth["host"]);
        assert_eq!(
            i64::from(file.ranks[rank].core),
            truth["core"].as_i64().unwrap()
        );
        for (set, truth) in file
            .sets
            .iter()
            .zip(truth["permutations"].as_array().unwrap())
        {
            assert_eq!(set.ranks[rank].times_s, floats(&truth["timings"]));
            assert_eq!(set.ranks[rank].access, whole(&truth["access"]));
            if header.all_to_all {
                assert_eq!(
                    set.ranks[rank].all_to_all_s,
                    [truth["a2a"].as_f64().unwrap()]
                );
            }
            if rank == 0 {
                assert_eq!(set.started, truth["start"]);
                assert_eq!(set.ended, truth["end"]);
                let figures = [set.least_s, set.mean_s, set.most_s];
                let names = ["min", "avg", "max"];
                assert_eq!(figures, names.map(|name| truth[name].as_f64().unwrap()));
                let new: Vec<f64> = set.retests.iter().map(|one| one.new_s).collect();
                let old: Vec<f64> = set.retests.iter().map(|one| one.old_s).collect();
                let from: Vec<u64> = set.retests.iter().map(|one| one.from).collect();
                let to: Vec<u64> = set.retests.iter().map(|one| one.to).collect();
                assert_eq!(new, floats(&truth["retest_new"]));
                assert_eq!(old, floats(&truth["retest_old"]));
                assert_eq!(from, whole(&truth["retest_from"]));
                assert_eq!(to, whole(&truth["retest_to"]));
            }
        }
    }
    file
}

#[test]
fn files_of_the_serial_library_are_read_to_their_true_values() {
    for name in ["n2_basic", "n4_basic", "n4_a2a_retest3", "n4_multichunk"] {
        let file = check_second(name);
        assert_eq!(file.meaning(&file.sets[0]), Meaning::Steps, "{name}");
        let pairs = file.pairs(&file.sets[0]).unwrap();
        assert_eq!(pairs.len(), file.ranks.len() * (file.ranks.len() - 1));
    }
}

#[test]
fn the_same_values_are_written_byte_for_byte_as_the_library_does() {
    for (name, block) in [("n2_basic", 1), ("n4_a2a_retest3", 1), ("n4_basic", 4096)] {
        let (bytes, _) = sample(name);
        let file = read(bytes.as_slice()).unwrap();
        let written = write(&file, &format!("{name}.sion"), block);
        assert!(written == bytes, "{name}");
    }
}

#[test]
fn a_file_of_the_real_first_linktest_is_read_to_its_true_values() {
    let (bytes, truth) = sample("lt12_real_n4_a2a");
    let file = read(bytes.as_slice()).unwrap();
    assert_eq!(file.header.version, [1, 2, 1]);
    assert_eq!((file.header.messages, file.header.message_bytes), (3, 1024));
    assert!(file.header.all_to_all);
    let set = &file.sets[0];
    let ranks = truth["ranks"].as_array().unwrap();
    for (rank, truth) in ranks.iter().enumerate() {
        assert_eq!(file.ranks[rank].host, truth["location"]);
        assert_eq!(set.ranks[rank].times_s, floats(&truth["timings"]));
        assert_eq!(set.ranks[rank].access, whole(&truth["accesspattern"]));
        assert_eq!(
            set.ranks[rank].all_to_all_s,
            floats(&truth["a2a_timings_by_step"])
        );
    }
    let figures = floats(&ranks[0]["statdata_dp"]);
    assert_eq!(
        [set.least_s, set.most_s, set.mean_s],
        [figures[0], figures[1], figures[2]]
    );
    assert_eq!(set.all_to_all_s, Some([figures[3], figures[5], figures[4]]));
    let again: Vec<(u64, u64)> = set.retests.iter().map(|one| (one.from, one.to)).collect();
    assert_eq!(again, [(3, 1), (2, 1)]);
    assert_eq!(file.meaning(set), Meaning::AllPartners);
    assert_eq!(file.pairs(set).unwrap().len(), 12);
}

#[test]
fn both_meanings_of_the_access_pattern_are_told_apart_or_not_at_all() {
    let (bytes, _) = sample("n4_basic");
    let file = read(bytes.as_slice()).unwrap();
    let by_step = file.pairs(&file.sets[0]).unwrap();
    // The same times by partner, with the numbers of steps beside them.
    let mut other = file.clone();
    for first in [0, 1] {
        for (rank, set) in file.sets[0].ranks.iter().enumerate() {
            let own = &mut other.sets[0].ranks[rank];
            for partner in (0..4_usize).filter(|partner| *partner != rank) {
                let step = set
                    .access
                    .iter()
                    .position(|one| *one == partner as u64)
                    .unwrap();
                let place = partner - usize::from(partner > rank);
                own.times_s[place] = set.times_s[step];
                own.access[place] = step as u64 + first;
            }
        }
        let again = read(write(&other, "x", 1).as_slice()).unwrap();
        assert_eq!(again.meaning(&again.sets[0]), Meaning::Partners);
        assert_eq!(again.pairs(&again.sets[0]).unwrap(), by_step);
    }
    // Neither reading fits: two ranks do not meet.
    let mut neither = file.clone();
    neither.sets[0].ranks[1].access.swap(0, 1);
    assert_eq!(neither.meaning(&neither.sets[0]), Meaning::Undecidable);
    assert_eq!(neither.pairs(&neither.sets[0]), None);
}

#[test]
fn the_longer_tag_of_the_next_version_is_read() {
    let (bytes, _) = sample("n4_a2a_retest3");
    let container = sion::read(bytes.as_slice()).unwrap();
    let longer = |stream: &Vec<u8>| [LONG_TAG, &stream[TAG.len()..]].concat();
    let mut streams: Vec<Vec<u8>> = container.streams.iter().map(longer).collect();
    streams[0][LONG_TAG.len() + 8] = 17;
    let file = read(sion::write("x", 512, &streams).as_slice()).unwrap();
    assert_eq!(file.header.version, [2, 1, 17]);
    assert_eq!(file.sets, read(bytes.as_slice()).unwrap().sets);
    // The next version may have changed the tag of the first task only.
    let mut mixed = container.streams.clone();
    mixed[0].clone_from(&streams[0]);
    assert!(read(sion::write("x", 1, &mixed).as_slice()).is_ok());
}

#[test]
fn what_does_not_add_up_is_refused_with_its_place() {
    let (bytes, _) = sample("n4_a2a_retest3");
    let broken = |at: usize, patch: &[u8]| {
        let mut file = bytes.clone();
        file[at..at + patch.len()].copy_from_slice(patch);
        read(file.as_slice()).unwrap_err().to_string()
    };
    let start = 1152;
    assert_eq!(
        broken(start, b"X"),
        "a SION file, but not LinkTest's: no tag at byte 1152"
    );
    assert_eq!(
        broken(start + 5, &[7]),
        "LinkTest 7 at byte 1157: supported versions are 1.2 and 2.1"
    );
    assert_eq!(
        broken(start + 9, &[4]),
        "LinkTest 2.4.16 at byte 1157: supported versions are 1.2 and 2.1"
    );
    let text = broken(start + 111, &[1]);
    assert!(
        text.contains("task 0 has 273 bytes after byte 1326"),
        "{text}"
    );
    // Numbers of sets and retests beyond all memory.
    for (at, what) in [(107, "number of retests"), (131, "number of orders")] {
        let text = broken(start + at, &[0xff; 7]);
        assert!(
            text.starts_with(what) && text.ends_with("is impossible"),
            "{text}"
        );
    }
    let mut both = bytes.clone();
    for at in [107, 131] {
        both[start + at..start + at + 8].copy_from_slice(&[0xff; 8]);
    }
    assert!(read(both.as_slice()).is_err());
    let name = broken(start + 151, &[0xff; 4]);
    assert!(name.contains("where host name was expected"), "{name}");
    assert_eq!(
        broken(start + 438, b"x"),
        "task 0 does not end with END_BLOCK at byte 1590: unsupported layout, or damaged file"
    );
    // A truncated stream.
    let cut = sion::read(bytes.as_slice()).unwrap().streams;
    let short: Vec<Vec<u8>> = cut
        .iter()
        .map(|stream| stream[..stream.len() - 1].to_vec())
        .collect();
    let text = read(sion::write("x", 1, &short).as_slice())
        .unwrap_err()
        .to_string();
    assert!(text.contains("its own numbers require"), "{text}");
}

#[test]
fn odd_numbers_of_ranks_and_bisections_are_read_as_they_are_written() {
    // Five ranks: partners in the order of steps, without the step in which a rank rests.
    let steps = crate::jobs::linktest::schedule::parallel(&[0, 1, 2, 3, 4]);
    let (bytes, _) = sample("n4_basic");
    let mut file = read(bytes.as_slice()).unwrap();
    file.ranks.push(file.ranks[0].clone());
    let own = |rank: usize| {
        let partner = |step: &Vec<(usize, usize)>| {
            step.iter()
                .find_map(|(one, other)| match (*one == rank, *other == rank) {
                    (true, _) => Some(*other),
                    (_, true) => Some(*one),
                    _ => None,
                })
        };
        let access: Vec<u64> = steps
            .iter()
            .filter_map(partner)
            .map(|one| one as u64)
            .collect();
        RankSet {
            times_s: access
                .iter()
                .map(|one| (rank * 10) as f64 + *one as f64)
                .collect(),
            access,
            all_to_all_s: Vec::new(),
        }
    };
    file.sets[0].ranks = (0..5).map(own).collect();
    let again = read(write(&file, "x", 1).as_slice()).unwrap();
    assert_eq!(again.meaning(&again.sets[0]), Meaning::Steps);
    let pairs = again.pairs(&again.sets[0]).unwrap();
    assert_eq!(pairs.len(), 20);
    for pair in pairs {
        assert_eq!(pair.seconds, (pair.from * 10 + pair.to) as f64);
    }
    // Four ranks in two halves: a place without a measurement names the rank itself.
    let mut halves = read(bytes.as_slice()).unwrap();
    halves.header.bisection = true;
    let access = [[2, 3, 0], [3, 2, 1], [0, 1, 2], [1, 0, 3]];
    for (rank, access) in access.iter().enumerate() {
        let own = &mut halves.sets[0].ranks[rank];
        own.access = access.to_vec();
        own.times_s[2] = 0.0;
    }
    // Other programs can leave any number there.
    for filler in [0, 4, u64::MAX] {
        let mut other = halves.clone();
        other.sets[0]
            .ranks
            .iter_mut()
            .for_each(|own| own.access[2] = filler);
        assert_eq!(other.meaning(&other.sets[0]), Meaning::Steps);
        assert_eq!(other.pairs(&other.sets[0]), halves.pairs(&halves.sets[0]));
    }
    let mut by_partner = halves.clone();
    for (rank, partners) in [[2, 3], [2, 3], [0, 1], [0, 1]].iter().enumerate() {
        let own = &mut by_partner.sets[0].ranks[rank];
        (own.times_s, own.access) = (vec![0.0; 3], vec![0; 3]);
        for other in partners {
            let place = other - usize::from(*other > rank);
            own.times_s[place] = 1.0;
            own.access[place] = 1 + u64::from((rank + other) % 2 == 1);
        }
    }
    assert_eq!(by_partner.meaning(&by_partner.sets[0]), Meaning::Partners);
    assert_eq!(by_partner.pairs(&by_partner.sets[0]).unwrap().len(), 8);
    let again = read(write(&halves, "x", 4096).as_slice()).unwrap();
    assert_eq!(again.meaning(&again.sets[0]), Meaning::Steps);
    assert_eq!(again.pairs(&again.sets[0]).unwrap().len(), 8);
}
