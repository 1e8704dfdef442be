//! The layout of LinkTest 1.2.

use super::layout::{DataSet, LinktestFile, RankData, RankSet};
use super::stream::{LinktestFileError, Stream};
use crate::store::sion::Container;

const LOCATION_BYTES: usize = 256;
const STATISTICS: usize = 10;
/// Possible numbers of words that give a task's place in the machine; newer versions have more.
const MAPPING: [usize; 2] = [4, 6];

/// Reads a file whose first task states version 1.
pub(super) fn read(container: &Container) -> Result<LinktestFile, LinktestFileError> {
    let ranks = container.streams.len();
    let mut file = LinktestFile::default();
    file.header.mode = "mpi".to_owned();
    let mut mapping = MAPPING[0];
    for task in 0..ranks {
        let mut stream = Stream::of(container, task);
        stream.tag()?;
        let version = stream.version([1, 2])?;
        let host = stream.text("host name", LOCATION_BYTES)?;
        if task == 0 {
            mapping = mapping_words(&stream, ranks)?;
        }
        let place = stream.many(mapping, |stream| stream.i32("place"))?;
        file.ranks.push(RankData {
            host,
            // The fourth word is the core within the node.
            core: place.get(3).copied().unwrap_or(0),
        });
        if task == 0 {
            file.header.version = version;
            let numbers = stream.many(STATISTICS, |stream| stream.i32("statistics"))?;
            let figures = stream.many(STATISTICS, |stream| stream.f64("statistics"))?;
            let number = |place: usize| u64::try_from(numbers[place]).unwrap_or(0);
            file.header.messages = number(0);
            file.header.message_bytes = number(1);
            file.header.all_to_all = numbers[2] != 0;
            file.sets.push(DataSet {
                least_s: figures[0],
                mean_s: figures[2],
                most_s: figures[1],
                // The order differs here: least, greatest, mean.
                all_to_all_s: (numbers[2] != 0).then_some([figures[3], figures[5], figures[4]]),
                ..DataSet::default()
            });
        }
        let expected = of_task(task, ranks, file.header.all_to_all);
        if expected != stream.left() as u128 {
            return Err(stream.wrong_length(expected));
        }
        let all = if file.header.all_to_all { ranks } else { 0 };
        let own = RankSet {
            times_s: stream.many(ranks, |stream| stream.f64("time"))?,
            access: stream.many(ranks, |stream| unsigned(stream, "access pattern"))?,
            all_to_all_s: stream.many(all, |stream| stream.f64("all-to-all time"))?,
        };
        let retests = match task {
            0 => stream.retests(ranks, |stream| unsigned(stream, "rank"))?,
            _ => Vec::new(),
        };
        if let Some(set) = file.sets.first_mut() {
            set.ranks.push(own);
            // Links that were not measured again have zeros.
            set.retests
                .extend(retests.into_iter().filter(|one| one.old_s > 0.0));
        }
    }
    Ok(file)
}

/// Finds how many words a task's place has: only one number fits the length of the first stream.
fn mapping_words(stream: &Stream<'_>, ranks: usize) -> Result<usize, LinktestFileError> {
    let fits = |words: &&usize| {
        // The flag for all to all comes later in the stream, so both values are tried.
        [false, true].into_iter().any(|all| {
            let behind = 4 * **words as u128 + 4 * 10 + 8 * 10 + of_task(0, ranks, all);
            behind == stream.left() as u128
        })
    };
    let expected = 4 * 4 + 4 * 10 + 8 * 10 + of_task(0, ranks, false);
    let found = MAPPING.iter().find(fits).copied();
    found.ok_or_else(|| stream.wrong_length(expected))
}

/// Bytes of a task's data after its head.
fn of_task(task: usize, ranks: usize, all_to_all: bool) -> u128 {
    let ranks = ranks as u128;
    let all = if all_to_all { 8 * ranks } else { 0 };
    let retests = if task == 0 { 24 * ranks } else { 0 };
    12 * ranks + all + retests
}

/// Reads a number that is stored with a sign; a negative one becomes the largest.
fn unsigned(stream: &mut Stream<'_>, what: &'static str) -> Result<u64, LinktestFileError> {
    Ok(u64::try_from(stream.i32(what)?).unwrap_or(u64::MAX))
}
