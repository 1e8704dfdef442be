//! Line of a table from the reports of ranks. Pure.

use crate::plan::imb::{Class, Imb, Table};
use crate::record::{FileTimes, GroupTimes, LineRecord, LineSpread, Overlap, RankLine};
use numbers::spread::{Spread, percentile};

/// A line from the reports of all ranks of all groups, in the order of the groups. `None` if a report is missing, or if the table has no
/// such line.
pub(crate) fn line(
    table: &Table,
    number: usize,
    told: &[&[Option<RankLine>]],
) -> Option<LineRecord> {
    let length = table.lengths.get(number)?;
    let groups: Option<Vec<Vec<&RankLine>>> = told
        .iter()
        .map(|group| group.iter().map(Option::as_ref).collect())
        .collect();
    let groups = groups?;
    let first = *groups.first()?.first()?;
    let times = |group: &Vec<&RankLine>| {
        let seconds: Vec<f64> = group.iter().map(|one| one.seconds).collect();
        Spread::of(&seconds).map(|spread| GroupTimes {
            least_s: spread.least,
            most_s: spread.most,
            mean_s: spread.mean,
            spread: batches(group),
            defects: group.iter().filter_map(|one| one.defect).reduce(f64::max),
            files: together(group.iter().filter_map(|one| one.files)),
        })
    };
    let all: Vec<&RankLine> = groups.iter().flatten().copied().collect();
    Some(LineRecord {
        bytes: length.bytes,
        repetitions: first.repetitions,
        algorithm: None,
        groups: groups.iter().filter_map(times).collect(),
        left_out: all.iter().find_map(|one| one.left_out.clone()),
    })
}

/// Spread of the batches, each with the time of its slowest rank.
fn batches(all: &[&RankLine]) -> Option<LineSpread> {
    let batches = all.iter().map(|one| one.batches_s.len()).min()?;
    let slowest: Vec<f64> = (0..batches)
        .map(|batch| {
            all.iter()
                .map(|one| one.batches_s[batch])
                .fold(0.0, f64::max)
        })
        .collect();
    let of = Spread::of(&slowest)?;
    Some(LineSpread {
        batches,
        of: all.first()?.batch,
        least_s: of.least,
        median_s: of.median,
        p95_s: percentile(&slowest, 95.0),
        p99_s: percentile(&slowest, 99.0),
        most_s: of.most,
        variation: of.variation,
    })
}

/// Seconds of the fastest, the slowest and a mean rank over several groups.
pub(crate) fn over(groups: &[GroupTimes]) -> Option<GroupTimes> {
    let count = groups.len() as f64;
    let most = groups.iter().map(|one| one.most_s).reduce(f64::max)?;
    let least = groups.iter().map(|one| one.least_s).reduce(f64::min)?;
    Some(GroupTimes {
        least_s: least,
        most_s: most,
        // All groups have the same number of ranks.
        mean_s: groups.iter().map(|one| one.mean_s).sum::<f64>() / count,
        // Batches of different groups do not begin at the same moments.
        spread: match groups {
            [only] => only.spread,
            _ => None,
        },
        defects: groups.iter().filter_map(|one| one.defects).reduce(f64::max),
        files: together(groups.iter().filter_map(|one| one.files)),
    })
}

/// Figures of files of several ranks or groups together: sums of bytes, and the largest times.
fn together(all: impl Iterator<Item = FileTimes>) -> Option<FileTimes> {
    all.reduce(|one, other| FileTimes {
        read_bytes: one.read_bytes + other.read_bytes,
        fetched_bytes: one
            .fetched_bytes
            .zip(other.fetched_bytes)
            .map(|(one, other)| one + other),
        synchronising_s: one.synchronising_s.max(other.synchronising_s),
        overlap: match (one.overlap, other.overlap) {
            (Some(one), Some(other)) => Some(Overlap {
                pure_s: one.pure_s.max(other.pure_s),
                compute_s: one.compute_s.max(other.compute_s),
                megaflops: one.megaflops.max(other.megaflops),
            }),
            (one, other) => one.or(other),
        },
    })
}

/// Part of a transfer that the computation hid, in percent (guide 4.2.5.2).
pub(crate) fn overlap_percent(overlapped_s: f64, overlap: Overlap) -> f64 {
    let shorter = overlap.pure_s.min(overlap.compute_s);
    if shorter <= 0.0 {
        return 0.0;
    }
    let hidden = overlap.pure_s + overlap.compute_s - overlapped_s;
    100.0 * (hidden / shorter).clamp(0.0, 1.0)
}

/// Throughput by the time of the slowest rank, in megabytes per second as the rules define them; 0 if it took no time (guide 3.3).
pub(crate) fn megabytes_per_s(imb: &Imb, table: &Table, bytes: usize, slowest_s: f64) -> f64 {
    if slowest_s <= 0.0 {
        return 0.0;
    }
    let counted = match table.benchmark.class() {
        // All pairs of the group together.
        Class::Rate => imb.window as f64 * (table.group_size() / 2) as f64,
        _ => 1.0,
    };
    table.benchmark.messages() * counted * bytes as f64 / imb.rules.megabyte() / slowest_s
}

/// Messages per second of all pairs of a group together.
pub(crate) fn messages_per_s(imb: &Imb, table: &Table, slowest_s: f64) -> f64 {
    if slowest_s <= 0.0 {
        return 0.0;
    }
    let pairs = (table.group_size() / 2) as f64;
    table.benchmark.messages() * imb.window as f64 * pairs / slowest_s
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::imb::{Benchmark, Length, Rules, tests::imb};

    fn told(seconds: f64) -> Option<RankLine> {
        Some(RankLine {
            line: 0,
            repetitions: 4,
            seconds,
            batch: 2,
            batches_s: vec![seconds, 2.0 * seconds],
            files: None,
            defect: Some(seconds),
            wrong: None,
            left_out: None,
        })
    }

    fn table(benchmark: Benchmark) -> Table {
        Table {
            benchmark,
            mode: None,
            groups: vec![vec![0, 1], vec![2, 3]],
            lengths: vec![Length {
                bytes: 1 << 20,
                repetitions: 4,
            }],
        }
    }

    #[test]
    fn a_line_has_the_times_of_each_group_and_of_all() {
        let told = [told(1.0), told(3.0), told(2.0), told(6.0)];
        let line = line(&table(Benchmark::Sendrecv), 0, &[&told[..2], &told[2..]]).unwrap();
        assert_eq!(line.repetitions, 4);
        assert_eq!(
            (line.groups[0].mean_s, line.groups[0].defects),
            (2.0, Some(3.0))
        );
        let all = over(&line.groups).unwrap();
        assert_eq!((all.least_s, all.most_s, all.mean_s), (1.0, 6.0, 3.0));
        let spread = line.groups[1].spread.unwrap();
        assert_eq!(
            (spread.batches, spread.least_s, spread.most_s),
            (2, 6.0, 12.0)
        );
        assert_eq!(all.defects, Some(6.0));
        assert_eq!(
            super::line(&table(Benchmark::Sendrecv), 0, &[&[None]]),
            None
        );
    }

    #[test]
    fn overlap_is_what_was_hidden_of_the_shorter_one() {
        let overlap = Overlap {
            pure_s: 2.0,
            compute_s: 4.0,
            megaflops: 1.0,
        };
        assert_eq!(overlap_percent(4.0, overlap), 100.0);
        assert_eq!(overlap_percent(6.0, overlap), 0.0);
        assert_eq!(overlap_percent(5.0, overlap), 50.0);
        assert_eq!(overlap_percent(9.0, overlap), 0.0);
    }

    #[test]
    fn throughput_is_that_of_the_guide() {
        let of = |benchmark, rules| {
            let imb = Imb { rules, ..imb() };
            megabytes_per_s(&imb, &table(benchmark), 1 << 20, 0.5)
        };
        assert_eq!(of(Benchmark::PingPong, Rules::Guide), 2.0);
        assert_eq!(of(Benchmark::Sendrecv, Rules::Guide), 4.0);
        assert_eq!(of(Benchmark::Exchange, Rules::Guide), 8.0);
        assert_eq!(of(Benchmark::PingPing, Rules::Current), 2.097_152);
        let biband = table(Benchmark::Biband);
        assert_eq!(messages_per_s(&imb(), &biband, 0.5), 1024.0);
        let narrow = Imb {
            window: 64,
            ..imb()
        };
        assert_eq!(messages_per_s(&narrow, &biband, 0.5), 256.0);
        assert_eq!(megabytes_per_s(&narrow, &biband, 1 << 20, 0.5), 256.0);
        assert_eq!(
            megabytes_per_s(&imb(), &table(Benchmark::PingPong), 1, 0.0),
            0.0
        );
    }
}
