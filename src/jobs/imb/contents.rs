//! Contents of buffers, and the expected data (guide 5.2.5): 32-bit floats, item i of the rank at place p is 0.1 (p + 1) + i. Pure.

use crate::plan::imb::Benchmark;
use crate::ranks::{ITEM_BYTES, split};

/// Item `at` of the rank at a place.
fn value(place: usize, at: usize) -> f32 {
    single(0.1 * (place as f64 + 1.0) + at as f64)
}

/// The nearest 32-bit float.
#[expect(
    clippy::cast_possible_truncation,
    reason = "rounded to the nearest, which is what is wanted"
)]
fn single(number: f64) -> f32 {
    number as f32
}

/// Writes bytes `from..from + into.len()` of the data of the rank at `place`.
pub(crate) fn write(place: usize, from: usize, into: &mut [u8]) {
    let mut at = from;
    let mut rest = into;
    while !rest.is_empty() {
        let item = value(place, at / ITEM_BYTES).to_le_bytes();
        let piece = &item[at % ITEM_BYTES..];
        let bytes = piece.len().min(rest.len());
        let (now, behind) = rest.split_at_mut(bytes);
        now.copy_from_slice(&piece[..bytes]);
        rest = behind;
        at += bytes;
    }
}

/// The first wrong item, and the largest difference.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Wrong {
    /// Number of the first wrong item.
    pub item: usize,
    /// The value that arrived.
    pub got: String,
    /// The expected value.
    pub expected: String,
    /// The largest relative difference of all items.
    pub defect: f64,
}

/// A rank's position in its group, and the benchmark that ran there.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scene {
    /// The measured benchmark.
    pub benchmark: Benchmark,
    /// Place of this rank.
    pub place: usize,
    /// Number of ranks in its group.
    pub size: usize,
    /// Length of messages, in bytes.
    pub bytes: usize,
    /// Place of the root in the last repetition.
    pub root: usize,
}

impl Scene {
    /// Compares the received data with the expected data. Returns `None` if both agree, or if this rank receives nothing.
    pub(crate) fn check(&self, came: &[u8]) -> Option<Wrong> {
        let (expected, from) = self.expected()?;
        let Some(came) = came.get(from..from + expected.len()) else {
            return Some(Wrong {
                item: 0,
                expected: format!("{} bytes from byte {from} on", expected.len()),
                got: format!("{} bytes", came.len()),
                defect: 1.0,
            });
        };
        // Data that was only moved is the same to the last bit.
        if expected == came {
            return None;
        }
        let exact = self.benchmark.item_bytes() == 1;
        // Items are added in another order: each addition can be off by half of the last digit.
        let tolerance = (self.size as f64 + 4.0) * f64::from(f32::EPSILON);
        let mut first = None;
        let mut defect: f64 = 0.0;
        let items = expected.chunks(ITEM_BYTES).zip(came.chunks(ITEM_BYTES));
        for (item, (expected, got)) in items.enumerate().filter(|(_, (one, two))| one != two) {
            let (one, two) = (float(expected), float(got));
            let against = if one == 0.0 {
                1.0
            } else {
                f64::from(one).abs()
            };
            let off = (f64::from(one) - f64::from(two)).abs() / against;
            // An item that is no finite number counts as a difference of 1.
            let off = if off.is_finite() { off } else { 1.0 };
            if exact || off > tolerance {
                first.get_or_insert((item, one, two));
                defect = defect.max(off);
            }
        }
        first.map(|(item, expected, got)| Wrong {
            item,
            got: got.to_string(),
            expected: expected.to_string(),
            defect,
        })
    }

    /// The expected data, and its offset; `None` if this rank receives nothing.
    fn expected(&self) -> Option<(Vec<u8>, usize)> {
        let (place, size, bytes) = (self.place, self.size, self.bytes);
        let part = |of: usize, from: usize| {
            let mut all = vec![0; bytes];
            write(of, from, &mut all);
            all
        };
        let left = (place + size - 1) % size;
        let right = (place + 1) % size;
        let is_root = place == self.root;
        Some(match self.benchmark {
            Benchmark::Sendrecv => (part(left, 0), 0),
            // The left neighbour sends its first half to the right. The right neighbour sends its second half to the left.
            Benchmark::Exchange => ([part(left, 0), part(right, bytes)].concat(), 0),
            Benchmark::Uniband
            | Benchmark::Biband
            | Benchmark::Barrier
            | Benchmark::Window
            | Benchmark::OpenClose
            | Benchmark::File(_) => return None,
            Benchmark::UnidirPut | Benchmark::UnidirGet if is_root => return None,
            Benchmark::PingPong
            | Benchmark::PingPing
            | Benchmark::UnidirPut
            | Benchmark::UnidirGet
            | Benchmark::BidirPut
            | Benchmark::BidirGet => (part(size - 1 - place, 0), 0),
            Benchmark::Accumulate if !is_root => return None,
            Benchmark::Accumulate => (sums(size, 0, bytes), 0),
            Benchmark::Bcast if is_root => return None,
            Benchmark::Bcast => (part(self.root, 0), 0),
            Benchmark::Gather | Benchmark::Gatherv if !is_root => return None,
            Benchmark::Gather
            | Benchmark::Gatherv
            | Benchmark::Allgather
            | Benchmark::Allgatherv => ((0..size).flat_map(|of| part(of, 0)).collect(), 0),
            Benchmark::Scatter | Benchmark::Scatterv => (part(self.root, place * bytes), 0),
            Benchmark::Alltoall | Benchmark::Alltoallv => (
                (0..size).flat_map(|of| part(of, place * bytes)).collect(),
                0,
            ),
            Benchmark::Reduce if !is_root => return None,
            Benchmark::Reduce | Benchmark::Allreduce => (sums(size, 0, bytes), 0),
            Benchmark::ReduceScatter => {
                let own = split(bytes, ITEM_BYTES, size)[place].clone();
                (sums(size, own.start, own.len()), own.start)
            }
            Benchmark::ReduceScatterBlock => (sums(size, place * bytes, bytes), place * bytes),
        })
    }
}

/// Sums over all places of the items from byte `from` on. `from` and `bytes` are whole items.
fn sums(size: usize, from: usize, bytes: usize) -> Vec<u8> {
    let sum = |at: usize| -> f64 { (0..size).map(|place| f64::from(value(place, at))).sum() };
    let items = from / ITEM_BYTES..(from + bytes) / ITEM_BYTES;
    items.flat_map(|at| single(sum(at)).to_le_bytes()).collect()
}

/// The float of an item. Missing bytes of an incomplete item count as zeros.
fn float(bytes: &[u8]) -> f32 {
    let mut four = [0; ITEM_BYTES];
    four[..bytes.len()].copy_from_slice(bytes);
    f32::from_le_bytes(four)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scene(benchmark: Benchmark, place: usize) -> Scene {
        Scene {
            benchmark,
            place,
            size: 3,
            bytes: 10,
            root: 2,
        }
    }

    #[test]
    fn items_are_those_of_the_guide_wherever_one_begins() {
        let mut all = [0; 12];
        write(1, 0, &mut all);
        assert_eq!(all[..4], 0.2_f32.to_le_bytes());
        assert_eq!(all[8..], 2.2_f32.to_le_bytes());
        let mut part = [0; 5];
        write(1, 3, &mut part);
        assert_eq!(part, all[3..8]);
    }

    #[test]
    fn a_byte_that_differs_is_found_and_its_item_told() {
        let scene = scene(Benchmark::Alltoall, 1);
        let mut came = scene.expected().unwrap().0;
        assert_eq!(came.len(), 30);
        assert_eq!(scene.check(&came), None);
        came[9] ^= 1;
        let wrong = scene.check(&came).unwrap();
        assert_eq!(wrong.item, 2);
        came[9] ^= 1;
        came[4..8].copy_from_slice(&f32::NAN.to_le_bytes());
        assert_eq!(scene.check(&came).unwrap().defect, 1.0);
    }

    #[test]
    fn sums_may_be_rounded_and_no_more() {
        let scene = Scene {
            bytes: 12,
            ..scene(Benchmark::Allreduce, 0)
        };
        let mut came = scene.expected().unwrap().0;
        // 0.1 + 0.2 + 0.3 + 3 * 2.
        assert!((float(&came[8..]) - 6.6).abs() < 1e-5);
        let rounded = float(&came[8..]) + 5e-7;
        came[8..].copy_from_slice(&rounded.to_le_bytes());
        assert_eq!(scene.check(&came), None);
        came[8..].copy_from_slice(&6.7_f32.to_le_bytes());
        let wrong = scene.check(&came).unwrap();
        assert_eq!((wrong.item, wrong.got.as_str()), (2, "6.7"));
        assert!((wrong.defect - 0.1 / 6.6).abs() < 1e-4);
    }

    #[test]
    fn who_gets_nothing_has_nothing_wrong() {
        assert_eq!(scene(Benchmark::Reduce, 0).check(&[]), None);
        assert_eq!(scene(Benchmark::Bcast, 2).check(&[1]), None);
        assert!(scene(Benchmark::Bcast, 0).check(&[1; 10]).is_some());
    }
}
