//! The layout of LinkTest 2.1.

use super::layout::{DataSet, Header, LinktestFile, RankData, RankSet};
use super::stream::{LinktestFileError, Stream, TAG};
use crate::store::sion::{Container, SionError, padded};

const END: &[u8] = b"END_BLOCK";
const HASH_BYTES: usize = 41;
const DATE_BYTES: usize = 32;
/// Limits of what takes more room in memory and in reports than in a file: orders of the ranks, each with its own set, and retests.
const MOST_ORDERS: u64 = 4096;
const MOST_RETESTS: u64 = 1 << 16;

/// Reads a file whose first task states version 2.
pub(super) fn read(container: &Container) -> Result<LinktestFile, LinktestFileError> {
    let ranks = container.streams.len();
    let mut stream = Stream::of(container, 0);
    let (header, retests) = header(&mut stream)?;
    let mut file = LinktestFile {
        header,
        ..LinktestFile::default()
    };
    for task in 0..ranks {
        if task > 0 {
            stream = Stream::of(container, task);
            stream.tag()?;
        }
        let bytes = stream.u32("length of a host name")?;
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        file.ranks.push(RankData {
            host: stream.text("host name", bytes)?,
            core: stream.i32("core")?,
        });
        let sets = check_length(&stream, &file.header, retests, ranks)?;
        for number in 0..sets {
            if task == 0 {
                let set = opening(&mut stream, &file.header, ranks, retests)?;
                file.sets.push(set);
            } else if let Some(set) = file.sets.get_mut(number) {
                set.ranks.push(rank_set(&mut stream, &file.header, ranks)?);
            }
        }
        let at = stream.place();
        if stream.take("END_BLOCK", END.len())? != END {
            return Err(LinktestFileError::End { task, at });
        }
    }
    Ok(file)
}

fn header(stream: &mut Stream<'_>) -> Result<(Header, u64), LinktestFileError> {
    stream.tag()?;
    let version = stream.version([2, 1])?;
    let git_hash = stream.text("commit", HASH_BYTES)?;
    let bytes = usize::try_from(stream.u32("length of the mode")?).unwrap_or(usize::MAX);
    // Fields are read in the order of the stream.
    let mut header = Header {
        version,
        git_hash,
        mode: stream.text("mode", bytes)?,
        all_to_all: stream.u8("a flag")? != 0,
        bidirectional: stream.u8("a flag")? != 0,
        unidirectional: stream.u8("a flag")? != 0,
        bisection: stream.u8("a flag")? != 0,
        unknown: stream.take("nine flags", 9)?.try_into().unwrap_or_default(),
        messages: stream.u64("number of messages")?,
        message_bytes: stream.u64("size of messages")?,
        warmups: stream.u64("number of warm-up messages")?,
        collect: stream.u64("an unused number")?,
        ..Header::default()
    };
    let retests = few(stream, "number of retests", MOST_RETESTS)?;
    header.buffers = stream.u64("number of buffers")?;
    header.buffer_seed = stream.u64("seed of buffers")?;
    header.rank_orders = few(stream, "number of orders", MOST_ORDERS)?;
    header.rank_seed = stream.u64("seed of orders")?;
    Ok((header, retests))
}

/// Reads a number that is at most `most`.
fn few(stream: &mut Stream<'_>, what: &'static str, most: u64) -> Result<u64, LinktestFileError> {
    let at = stream.place();
    let count = stream.u64(what)?;
    if count > most {
        let value = i64::try_from(count).unwrap_or(i64::MAX);
        return Err(SionError::Value { what, value, at }.into());
    }
    Ok(count)
}

/// Returns the number of sets that follow. Checks that the stream is as long as its own numbers state.
fn check_length(
    stream: &Stream<'_>,
    header: &Header,
    retests: u64,
    ranks: usize,
) -> Result<usize, LinktestFileError> {
    let sets = header.rank_orders.max(1);
    let times = 16 * (ranks as u128 - 1);
    let all = if header.all_to_all { 8 } else { 0 };
    let one = match stream.task {
        0 => 2 * DATE_BYTES as u128 + 24 + 4 * all + times + 32 * u128::from(retests),
        _ => times + all,
    };
    // Two numbers of the file at their maximum can exceed even this type, so the arithmetic saturates.
    let expected = u128::from(sets)
        .saturating_mul(one)
        .saturating_add(END.len() as u128);
    match usize::try_from(sets) {
        Ok(sets) if expected == stream.left() as u128 => Ok(sets),
        _ => Err(stream.wrong_length(expected)),
    }
}

/// Reads the first task's part of a set.
fn opening(
    stream: &mut Stream<'_>,
    header: &Header,
    ranks: usize,
    retests: u64,
) -> Result<DataSet, LinktestFileError> {
    // `check_length` has shown that the stream holds all of this.
    let retests = usize::try_from(retests).unwrap_or(0);
    // Fields are read in the order of the stream.
    Ok(DataSet {
        started: stream.text("start", DATE_BYTES)?,
        least_s: stream.f64("shortest time")?,
        mean_s: stream.f64("mean time")?,
        most_s: stream.f64("longest time")?,
        all_to_all_s: match header.all_to_all {
            true => Some([
                stream.f64("shortest all-to-all time")?,
                stream.f64("mean all-to-all time")?,
                stream.f64("longest all-to-all time")?,
            ]),
            false => None,
        },
        ranks: vec![rank_set(stream, header, ranks)?],
        retests: stream.retests(retests, |stream| stream.u64("rank"))?,
        ended: stream.text("end", DATE_BYTES)?,
    })
}

fn rank_set(
    stream: &mut Stream<'_>,
    header: &Header,
    ranks: usize,
) -> Result<RankSet, LinktestFileError> {
    Ok(RankSet {
        times_s: stream.many(ranks - 1, |stream| stream.f64("time"))?,
        access: stream.many(ranks - 1, |stream| stream.u64("access pattern"))?,
        all_to_all_s: match header.all_to_all {
            true => vec![stream.f64("all-to-all time")?],
            false => Vec::new(),
        },
    })
}

/// Encodes the streams of all tasks.
pub(super) fn streams(file: &LinktestFile) -> Vec<Vec<u8>> {
    let head = |rank: usize| {
        let mut out = Vec::new();
        match rank {
            0 => write_header(&mut out, file),
            _ => out.extend_from_slice(TAG),
        }
        let data = &file.ranks[rank];
        put_text(&mut out, &data.host);
        out.extend_from_slice(&data.core.to_le_bytes());
        for set in &file.sets {
            write_set(&mut out, file, set, rank);
        }
        out.extend_from_slice(END);
        out
    };
    (0..file.ranks.len()).map(head).collect()
}

fn write_header(out: &mut Vec<u8>, file: &LinktestFile) {
    let header = &file.header;
    out.extend_from_slice(TAG);
    out.extend(header.version.into_iter().flat_map(u32::to_le_bytes));
    out.extend_from_slice(&padded(&header.git_hash, HASH_BYTES));
    put_text(out, &header.mode);
    let flags = [
        header.all_to_all,
        header.bidirectional,
        header.unidirectional,
        header.bisection,
    ];
    out.extend(flags.map(u8::from));
    out.extend_from_slice(&header.unknown);
    let retests = file.sets.first().map_or(0, |set| set.retests.len());
    let numbers = [
        header.messages,
        header.message_bytes,
        header.warmups,
        header.collect,
        retests as u64,
        header.buffers,
        header.buffer_seed,
        header.rank_orders,
        header.rank_seed,
    ];
    put(out, numbers);
}

fn write_set(out: &mut Vec<u8>, file: &LinktestFile, set: &DataSet, rank: usize) {
    let all_to_all = file.header.all_to_all;
    if rank == 0 {
        out.extend_from_slice(&padded(&set.started, DATE_BYTES));
        put_figures(out, [set.least_s, set.mean_s, set.most_s]);
        if all_to_all {
            put_figures(out, set.all_to_all_s.unwrap_or_default());
        }
    }
    let own = &set.ranks[rank];
    put_figures(out, own.times_s.iter().copied());
    put(out, own.access.iter().copied());
    if all_to_all {
        put_figures(out, [own.all_to_all_s.first().copied().unwrap_or(0.0)]);
    }
    if rank == 0 {
        put_figures(out, set.retests.iter().map(|one| one.new_s));
        put_figures(out, set.retests.iter().map(|one| one.old_s));
        put(out, set.retests.iter().map(|one| one.from));
        put(out, set.retests.iter().map(|one| one.to));
        out.extend_from_slice(&padded(&set.ended, DATE_BYTES));
    }
}

fn put_figures(out: &mut Vec<u8>, figures: impl IntoIterator<Item = f64>) {
    put(out, figures.into_iter().map(f64::to_bits));
}

fn put(out: &mut Vec<u8>, numbers: impl IntoIterator<Item = u64>) {
    out.extend(numbers.into_iter().flat_map(u64::to_le_bytes));
}

/// Text after its length, with a NUL at its end.
fn put_text(out: &mut Vec<u8>, text: &str) {
    let bytes = u32::try_from(text.len() + 1).unwrap_or(u32::MAX);
    out.extend_from_slice(&bytes.to_le_bytes());
    out.extend_from_slice(&padded(text, text.len() + 1));
}
