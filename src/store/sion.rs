//! The container of SIONlib: streams of many tasks in one file. File format 5, as version 1.7.6 of the library writes it.
//!
//! ```text
//!  META1    magic, byte order, versions, block size, tasks, file name; rank and chunk size of each task; blocks; offset of META2
//!  data     block 0: the chunk of task 0, of task 1 ...; block 1: the same again ...
//!  META2    blocks of each task; bytes of each task in each block; (mapping)
//! ```
//!
//! Reads files that the library writes serially or in parallel, in both byte orders, with any block size and any number of blocks. Compares
//! the lengths that a file states with its real length before anything is allocated. Writes one chunk per task, as the serial library does,
//! byte for byte.

use thiserror::Error;

use super::bounded;

const MAGIC: &[u8; 4] = b"sion";
/// Version of the library that is written, as 1000 * major + minor, and its patch.
const LIBRARY: (u32, u32) = (1007, 6);
/// Version of the format.
const FORMAT: u32 = 5;
/// Oldest format that is read: older ones have fewer fields at their beginning.
const OLDEST: u32 = 3;
/// First format in which stored chunk sizes are rounded up.
const ALIGNED_FROM: u32 = 4;
/// Field of a file without keys and values.
const NO_KEYS: u64 = 50 << 32;
const NAME_BYTES: usize = 1024;
/// Offset of the ranks of the tasks.
const RANKS_AT: u64 = 1076;
/// Bytes of META1 in addition to two 8-byte words for each task.
const FIXED_BYTES: u64 = 1088;
/// Largest number of tasks; no real file has more.
const MOST_TASKS: u32 = 1 << 17;
/// Limit of the data of all tasks together, in bytes: holes of a file take no room on a disk, but all of it in memory. The times of 2,048
/// ranks fit.
const MOST_DATA_BYTES: u64 = 72 << 20;
/// Limit of the cells of the second table: blocks times tasks.
const MOST_CELLS: u64 = 1 << 20;

const DATA: &str = "data of a task";

/// Reason why bytes are not a container.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SionError {
    /// The magic word is missing.
    #[error("not a SION file: it does not begin with \"sion\"")]
    Magic,
    /// The file ends too early.
    #[error("ends at byte {length}, before {what} at byte {at}")]
    Short {
        /// Item that was expected.
        what: &'static str,
        /// Its byte in the file.
        at: u64,
        /// Length of the file in bytes.
        length: u64,
    },
    /// The version of the format is not known.
    #[error("SION format {0} at byte 16: supported formats are {OLDEST} to {FORMAT}")]
    Format(u32),
    /// A number has an impossible value.
    #[error("{what} {value} at byte {at} is impossible")]
    Value {
        /// Name of the number.
        what: &'static str,
        /// Its value in the file.
        value: i64,
        /// Its byte in the file.
        at: u64,
    },
    /// Reading from the disk failed.
    #[error("cannot read {what} at byte {at}: {why}")]
    Read {
        /// Item that was to be read.
        what: &'static str,
        /// Its byte in the file.
        at: u64,
        /// Reason of the failure.
        why: String,
    },
    /// The tasks' data exceeds the limit.
    #[error("tasks have written more than {} MiB", MOST_DATA_BYTES >> 20)]
    Data,
    /// The file is one of a set of several files.
    #[error("is one of {0} files of a set; only sets of one file are read")]
    Files(u32),
}

/// The source of a container's bytes. Files of many tasks are mostly holes, and need not be in memory as a whole.
pub trait Source {
    /// Length in bytes.
    fn length(&self) -> u64;
    /// Fills all of `into` with the bytes from byte `at` on.
    fn read_at(&self, at: u64, into: &mut [u8]) -> std::io::Result<()>;
}

impl Source for [u8] {
    fn length(&self) -> u64 {
        self.len() as u64
    }

    fn read_at(&self, at: u64, into: &mut [u8]) -> std::io::Result<()> {
        let from = usize::try_from(at).map_err(std::io::Error::other)?;
        let end = from.saturating_add(into.len());
        let source = self
            .get(from..end)
            .ok_or(std::io::ErrorKind::UnexpectedEof)?;
        into.copy_from_slice(source);
        Ok(())
    }
}

/// A file on the disk.
pub(crate) struct Stored {
    file: std::fs::File,
    bytes: u64,
}

impl Stored {
    /// Opens a regular file. Refuses a device or a pipe, which has no length.
    pub(crate) fn open(path: &std::path::Path) -> std::io::Result<Self> {
        let file = bounded::open(path)?;
        let meta = file.metadata()?;
        if !meta.is_file() {
            return Err(std::io::Error::other("not a regular file"));
        }
        let bytes = meta.len();
        Ok(Self { file, bytes })
    }
}

impl Source for Stored {
    fn length(&self) -> u64 {
        self.bytes
    }

    fn read_at(&self, at: u64, into: &mut [u8]) -> std::io::Result<()> {
        std::os::unix::fs::FileExt::read_exact_at(&self.file, into, at)
    }
}

/// The streams of a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Container {
    /// True if the integers in the tasks' own data are big-endian.
    pub big_endian: bool,
    /// Alignment of the starts of chunks, in bytes.
    pub block_bytes: u32,
    /// Number of each task, as it was given.
    pub ranks: Vec<i64>,
    /// Data that each task has written.
    pub streams: Vec<Vec<u8>>,
    /// Offset and length of each piece of a task's stream in the file, for each task.
    pub pieces: Vec<Vec<(u64, u64)>>,
}

impl Container {
    /// Offset in the file of byte `at` of a task's stream.
    pub(crate) fn file_offset(&self, task: usize, at: usize) -> u64 {
        let mut left = at as u64;
        let pieces = self.pieces.get(task).map_or(&[][..], Vec::as_slice);
        for (offset, bytes) in pieces {
            if left < *bytes {
                return offset + left;
            }
            left -= bytes;
        }
        pieces.last().map_or(0, |(offset, bytes)| offset + bytes)
    }
}

/// Reads a container.
pub(crate) fn read(source: &(impl Source + ?Sized)) -> Result<Container, SionError> {
    let mut reader = Reader { source, big: false };
    let magic = reader.bytes("\"sion\"", 0, 4);
    if !magic.is_ok_and(|bytes| bytes == MAGIC) {
        return Err(SionError::Magic);
    }
    let order = reader.bytes("byte order", 4, 4)?;
    // The first and the last byte apply to the library's words, those between to the tasks' data.
    let tasks_big = order[1] & 1 == 1;
    reader.big = order[0] & 1 == 1;
    let format = reader.u32("format", 16)?;
    if !(OLDEST..=FORMAT).contains(&format) {
        return Err(SionError::Format(format));
    }
    let block_bytes = reader.u32("block size", 20)?;
    let tasks = reader.u32("number of tasks", 24)?;
    let files = reader.u32("number of files", 28)?;
    let value = |what, value: u64, at| {
        let value = i64::try_from(value).unwrap_or(i64::MAX);
        SionError::Value { what, value, at }
    };
    if block_bytes == 0 || block_bytes > i32::MAX.unsigned_abs() {
        return Err(value("block size", block_bytes.into(), 20));
    }
    if tasks == 0 || tasks > MOST_TASKS {
        return Err(value("number of tasks", tasks.into(), 24));
    }
    if files != 1 {
        return Err(SionError::Files(files));
    }
    let count = u64::from(tasks);
    // The words of the tasks must exist before anything is allocated for a task.
    let table_bytes = FIXED_BYTES - RANKS_AT + 16 * count;
    reader.expect("table of tasks", RANKS_AT, table_bytes)?;
    let sizes_at = RANKS_AT + 8 * count;
    let blocks_at = sizes_at + 8 * count;
    let ranks = reader.words("ranks", RANKS_AT, count)?;
    let sizes = reader.positives("chunk size", sizes_at, count)?;
    let aligned = |size: u64| match format >= ALIGNED_FROM {
        true => size,
        false => round_up(size, u64::from(block_bytes)),
    };
    let sizes: Vec<u64> = sizes.into_iter().map(aligned).collect();
    let blocks = u64::from(reader.u32("number of blocks", blocks_at)?);
    let second = reader.positives("start of the second table", blocks_at + 4, 1)?[0];
    let first_data = round_up(FIXED_BYTES + 16 * count, u64::from(block_bytes));
    let used = reader.positives("blocks of a task", second, count)?;
    // The whole table must exist before its stated length is trusted.
    if blocks.saturating_mul(count) > MOST_CELLS {
        return Err(value("number of blocks", blocks, blocks_at));
    }
    let cells = blocks.saturating_mul(8 * count);
    reader.expect("bytes of blocks", second + 8 * count, cells)?;
    if let Some(task) = used.iter().position(|used| *used > blocks) {
        let at = second + 8 * task as u64;
        return Err(value("blocks of a task", used[task], at));
    }
    let skip: u64 = sizes.iter().fold(0, |sum, size| sum.saturating_add(*size));
    let mut data_bytes = 0_u64;
    let mut pieces = vec![Vec::new(); ranks.len()];
    for block in 0..blocks {
        let at = second + 8 * count * (block + 1);
        let written = reader.words("bytes of a block", at, count)?;
        let mut start = first_data.saturating_add(block.saturating_mul(skip));
        for (task, size) in sizes.iter().enumerate() {
            if block < used[task] {
                let bytes = bytes_written(written[task], *size, at + 8 * task as u64)?;
                data_bytes = data_bytes.saturating_add(bytes);
                if data_bytes > MOST_DATA_BYTES {
                    return Err(SionError::Data);
                }
                if bytes > 0 {
                    reader.expect(DATA, start, bytes)?;
                    pieces[task].push((start, bytes));
                }
            }
            start = start.saturating_add(*size);
        }
    }
    let streams = pieces.iter().map(|own| reader.stream(own));
    Ok(Container {
        big_endian: tasks_big,
        block_bytes,
        ranks,
        streams: streams.collect::<Result<_, _>>()?,
        pieces,
    })
}

/// Number of bytes that a task has written into a block, at most the size of its chunk. For an unused block, the library's documents say
/// -1, and its code writes 0.
fn bytes_written(value: i64, chunk: u64, at: u64) -> Result<u64, SionError> {
    let what = "bytes of a block";
    match (value, u64::try_from(value)) {
        (-1, _) => Ok(0),
        (_, Ok(bytes)) if bytes <= chunk => Ok(bytes),
        _ => Err(SionError::Value { what, value, at }),
    }
}

/// Reader with a byte order. Every error says where it occurred.
struct Reader<'a, S: Source + ?Sized> {
    source: &'a S,
    big: bool,
}

impl<S: Source + ?Sized> Reader<'_, S> {
    /// Checks that the file has `count` bytes from byte `at` on.
    fn expect(&self, what: &'static str, at: u64, count: u64) -> Result<(), SionError> {
        let length = self.source.length();
        let end = at.checked_add(count).filter(|end| *end <= length);
        end.map(|_| ()).ok_or(SionError::Short { what, at, length })
    }

    fn bytes(&self, what: &'static str, at: u64, count: u64) -> Result<Vec<u8>, SionError> {
        self.expect(what, at, count)?;
        let mut bytes = vec![0; usize::try_from(count).unwrap_or(0)];
        self.fill(what, at, &mut bytes)?;
        Ok(bytes)
    }

    fn fill(&self, what: &'static str, at: u64, into: &mut [u8]) -> Result<(), SionError> {
        let read = self.source.read_at(at, into);
        let read = read.map_err(|error| crate::sys::why(&error));
        read.map_err(|why| SionError::Read { what, at, why })
    }

    /// Joins the pieces of a stream, straight into the memory that they need together.
    fn stream(&self, pieces: &[(u64, u64)]) -> Result<Vec<u8>, SionError> {
        let lengths = pieces.iter().map(|(_, bytes)| bytes);
        let mut stream = vec![0; usize::try_from(lengths.sum::<u64>()).unwrap_or(0)];
        let mut rest = &mut stream[..];
        for (at, bytes) in pieces {
            let bytes = usize::try_from(*bytes).unwrap_or(0).min(rest.len());
            let (piece, later) = rest.split_at_mut(bytes);
            self.fill(DATA, *at, piece)?;
            rest = later;
        }
        Ok(stream)
    }

    fn u32(&self, what: &'static str, at: u64) -> Result<u32, SionError> {
        let bytes = self.bytes(what, at, 4)?;
        Ok(u32::from_le_bytes(little_endian(&bytes, self.big)))
    }

    fn words(&self, what: &'static str, at: u64, count: u64) -> Result<Vec<i64>, SionError> {
        let bytes = self.bytes(what, at, count.saturating_mul(8))?;
        let word = |bytes: &[u8]| i64::from_le_bytes(little_endian(bytes, self.big));
        Ok(bytes.chunks_exact(8).map(word).collect())
    }

    /// Reads numbers that must not be negative.
    fn positives(&self, what: &'static str, at: u64, count: u64) -> Result<Vec<u64>, SionError> {
        let words = self.words(what, at, count)?;
        let positive = |(number, value): (usize, i64)| {
            let at = at + 8 * number as u64;
            u64::try_from(value).map_err(|_| SionError::Value { what, value, at })
        };
        words.into_iter().enumerate().map(positive).collect()
    }
}

/// The bytes of a word in little-endian order.
pub(super) fn little_endian<const BYTES: usize>(bytes: &[u8], big_endian: bool) -> [u8; BYTES] {
    let mut word = [0; BYTES];
    word.copy_from_slice(bytes);
    if big_endian {
        word.reverse();
    }
    word
}

fn round_up(value: u64, to: u64) -> u64 {
    value.checked_next_multiple_of(to).unwrap_or(u64::MAX)
}

/// Text in `bytes` bytes, the last of them a NUL.
pub(super) fn padded(text: &str, bytes: usize) -> Vec<u8> {
    let mut padded: Vec<u8> = text.bytes().take(bytes - 1).collect();
    padded.resize(bytes, 0);
    padded
}

/// Writes a container of one chunk per task, little-endian, as the serial library would under this file name.
pub(crate) fn write(name: &str, block_bytes: u32, streams: &[Vec<u8>]) -> Vec<u8> {
    let block = u64::from(block_bytes.max(1));
    let count = streams.len() as u64;
    let first_data = round_up(FIXED_BYTES + 16 * count, block);
    // A task that wrote nothing has a chunk, too.
    let lengths: Vec<u64> = streams.iter().map(|stream| stream.len() as u64).collect();
    let sizes = lengths.iter().map(|bytes| round_up((*bytes).max(1), block));
    let sizes: Vec<u64> = sizes.collect();
    let second = first_data + sizes.iter().sum::<u64>();
    let mut file = Vec::new();
    file.extend_from_slice(MAGIC);
    for word in [
        0,
        LIBRARY.0,
        LIBRARY.1,
        FORMAT,
        block_bytes.max(1),
        u32::try_from(streams.len()).unwrap_or(u32::MAX),
        1,
        1,
    ] {
        file.extend_from_slice(&word.to_le_bytes());
    }
    file.extend_from_slice(&NO_KEYS.to_le_bytes());
    file.extend_from_slice(&0_u64.to_le_bytes());
    file.extend_from_slice(&padded(name, NAME_BYTES));
    file.extend((0..count).flat_map(u64::to_le_bytes));
    file.extend(sizes.iter().flat_map(|size| size.to_le_bytes()));
    file.extend_from_slice(&1_u32.to_le_bytes());
    file.extend_from_slice(&second.to_le_bytes());
    let pad = |file: &mut Vec<u8>, to: u64| {
        let to = usize::try_from(to).unwrap_or(usize::MAX);
        file.resize(to.max(file.len()), 0);
    };
    let mut start = first_data;
    for (stream, size) in streams.iter().zip(&sizes) {
        pad(&mut file, start);
        file.extend_from_slice(stream);
        start += size;
    }
    pad(&mut file, second);
    file.extend(streams.iter().flat_map(|_| 1_u64.to_le_bytes()));
    file.extend(lengths.iter().flat_map(|bytes| bytes.to_le_bytes()));
    file.extend_from_slice(&0_u32.to_le_bytes());
    file
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Builds a container as another writer would: several blocks, either byte order.
    fn by_hand(big: bool, block: u64, chunks: &[u64], pieces: &[Vec<Vec<u8>>]) -> Vec<u8> {
        let count = chunks.len() as u64;
        let blocks = pieces.iter().map(Vec::len).max().unwrap() as u64;
        let four = |value: u32| {
            if big {
                value.to_be_bytes()
            } else {
                value.to_le_bytes()
            }
        };
        let eight = |value: u64| {
            if big {
                value.to_be_bytes()
            } else {
                value.to_le_bytes()
            }
        };
        let mut file = b"sion".to_vec();
        file.extend([u8::from(big); 4]);
        for word in [
            1007,
            6,
            5,
            u32::try_from(block).unwrap(),
            u32::try_from(count).unwrap(),
            1,
            0,
        ] {
            file.extend(four(word));
        }
        file.extend(eight(0));
        file.extend(eight(0));
        file.extend([0; 1024]);
        for rank in 0..count {
            file.extend(eight(rank));
        }
        for chunk in chunks {
            file.extend(eight(*chunk));
        }
        let first = (1088 + 16 * count).next_multiple_of(block);
        let skip: u64 = chunks.iter().sum();
        file.extend(four(u32::try_from(blocks).unwrap()));
        file.extend(eight(first + blocks * skip));
        for number in 0..blocks {
            let mut start = first + number * skip;
            for (task, chunk) in chunks.iter().enumerate() {
                file.resize(usize::try_from(start).unwrap(), 0);
                if let Some(piece) = pieces[task].get(usize::try_from(number).unwrap()) {
                    file.extend(piece);
                }
                start += chunk;
            }
        }
        file.resize(usize::try_from(first + blocks * skip).unwrap(), 0);
        for task in pieces {
            file.extend(eight(task.len() as u64));
        }
        for number in 0..blocks {
            for task in pieces {
                let piece = task.get(usize::try_from(number).unwrap());
                file.extend(eight(piece.map_or(0, |piece| piece.len() as u64)));
            }
        }
        file
    }

    #[test]
    fn streams_of_several_blocks_are_joined_in_both_byte_orders_and_any_block_size() {
        let pieces = vec![
            vec![vec![1; 10], vec![2; 3], vec![3; 10]],
            vec![vec![4; 7]],
            vec![vec![], vec![5; 16]],
        ];
        for big in [false, true] {
            for block in [1, 16, 4096] {
                let chunks = [block.max(10), block.max(7), block.max(16)];
                let file = by_hand(big, block, &chunks, &pieces);
                let container = read(file.as_slice()).unwrap();
                assert_eq!(container.big_endian, big);
                for (task, pieces) in pieces.iter().enumerate() {
                    assert_eq!(container.streams[task], pieces.concat());
                }
                let at = container.file_offset(0, 11);
                assert_eq!(file[usize::try_from(at).unwrap()], 2);
            }
        }
    }

    #[test]
    fn what_cannot_be_is_named_with_its_place() {
        let good = write("x", 1, &[vec![1; 5], vec![2; 6]]);
        let broken = |at: usize, bytes: &[u8]| {
            let mut file = good.clone();
            file[at..at + bytes.len()].copy_from_slice(bytes);
            read(file.as_slice()).unwrap_err().to_string()
        };
        assert_eq!(
            read(b"SION".as_slice()).unwrap_err().to_string(),
            "not a SION file: it does not begin with \"sion\""
        );
        assert_eq!(
            broken(16, &[9]),
            "SION format 9 at byte 16: supported formats are 3 to 5"
        );
        assert_eq!(broken(20, &[0]), "block size 0 at byte 20 is impossible");
        assert_eq!(
            broken(24, &[0; 4]),
            "number of tasks 0 at byte 24 is impossible"
        );
        assert_eq!(
            broken(28, &[4]),
            "is one of 4 files of a set; only sets of one file are read"
        );
        // More tasks than the file has room for.
        assert_eq!(
            broken(24, &[0xff, 0xff, 0x01]),
            format!(
                "ends at byte {}, before table of tasks at byte 1076",
                good.len()
            )
        );
        assert_eq!(
            broken(1092, &[0xff; 8]),
            "chunk size -1 at byte 1092 is impossible"
        );
        let far = broken(1112, &[0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0]);
        assert!(
            far.contains("before blocks of a task at byte 4294967295"),
            "{far}"
        );
        // More bytes in a block than its chunk holds.
        let second = 1120 + 11;
        assert_eq!(
            broken(second + 16, &[6]),
            format!("bytes of a block 6 at byte {} is impossible", second + 16)
        );
        assert_eq!(
            broken(second, &[2]),
            format!("blocks of a task 2 at byte {second} is impossible")
        );
    }

    /// A file of one task whose only chunk is a hole.
    struct Hole(u64);

    impl Source for Hole {
        fn length(&self) -> u64 {
            self.0 + (2 << 20)
        }

        fn read_at(&self, at: u64, into: &mut [u8]) -> std::io::Result<()> {
            // The second table lies after the hole.
            let second = 1 << 20 | self.0;
            let mut head = vec![0; usize::try_from(FIXED_BYTES + 16).unwrap()];
            head[..4].copy_from_slice(MAGIC);
            let mut four =
                |at: usize, value: u32| head[at..at + 4].copy_from_slice(&value.to_le_bytes());
            for (at, value) in [(16, FORMAT), (20, 1), (24, 1), (28, 1), (1092, 1)] {
                four(at, value);
            }
            head[1084..1092].copy_from_slice(&self.0.to_le_bytes());
            head[1096..1104].copy_from_slice(&second.to_le_bytes());
            let tail = [1_u64.to_le_bytes(), self.0.to_le_bytes()].concat();
            for (place, byte) in (at..).zip(into) {
                let known = usize::try_from(place)
                    .ok()
                    .and_then(|place| head.get(place));
                let behind = place
                    .checked_sub(second)
                    .and_then(|place| usize::try_from(place).ok());
                let behind = behind.and_then(|place| tail.get(place));
                *byte = *known.or(behind).unwrap_or(&0);
            }
            Ok(())
        }
    }

    /// Regression test: a file of a kilobyte asked for 100 GiB of memory, which ended the program.
    #[test]
    fn a_hole_of_a_hundred_gigabytes_is_an_error() {
        assert_eq!(read(&Hole(1 << 20)).unwrap().streams[0].len(), 1 << 20);
        assert_eq!(read(&Hole(100 << 30)), Err(SionError::Data));
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            streams in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..300), 1..9),
            block in prop_oneof![Just(1_u32), Just(7), Just(512), Just(4096)]
        ) {
            let container = read(write("some.sion", block, &streams).as_slice()).unwrap();
            prop_assert_eq!(container.streams, streams);
            prop_assert_eq!(container.block_bytes, block);
            prop_assert!(!container.big_endian);
        }

        #[test]
        fn any_bytes_are_an_error_or_a_container(
            mut bytes in proptest::collection::vec(any::<u8>(), 0..3000),
            patches in proptest::collection::vec((0_usize..1400, any::<u8>()), 0..8)
        ) {
            let mut file = write("x", 1, &[vec![7; 30], vec![8; 3], vec![]]);
            for (at, byte) in patches {
                if let Some(place) = file.get_mut(at) {
                    *place = byte;
                }
            }
            prop_assert!(read(file.as_slice()).map(|container| container.streams.len() <= file.len()).unwrap_or(true));
            if bytes.len() >= 4 {
                bytes[..4].copy_from_slice(MAGIC);
            }
            prop_assert!(read(bytes.as_slice()).map(|container| container.streams.len() <= bytes.len()).unwrap_or(true));
        }
    }
}
