//! One transfer of each benchmark of files, as the guide defines it (4.2.4 and 4.2.5), on plain files.
//!
//! MPI's calls have these counterparts: an individual position is `lseek` and `write`, an explicit one is `pwrite`, `MPI_File_sync` is
//! `fsync`. A shared position is a number in a separate file, which is locked while the number changes. Collective calls bring small pieces
//! to the first rank, which writes them together. A thread does the transfers that run while the rank computes.

use std::fs::File;
use std::io::{self, Read};
use std::ops::Range;
use std::os::unix::fs::FileExt;

use crate::plan::collective::Algorithm;
use crate::plan::imb::{FILE_ITEM_BYTES, FileBenchmark, Pointer, Who};
use crate::ranks::{Group, World, ranges};
use crate::sys::clock;

use super::PlayerError;
use super::contents::Wrong;

pub(crate) mod folder;
mod items;
mod making;
mod place;
mod transfer_thread;

use items::{differs, laid, written};
use making::{make, reset};
use transfer_thread::{FileOffset, Transfer, TransferThread};

pub(crate) use place::Place;

/// A rank with its file and its buffer for one length.
pub(crate) struct Files {
    benchmark: FileBenchmark,
    group: Group,
    /// Bytes of a portion, which all ranks transfer together.
    bytes: usize,
    /// This rank's part of the portion.
    piece: Range<usize>,
    /// True if the first rank writes and reads for all.
    collects: bool,
    place: Place,
    file: File,
    /// Data to write, or data that was read.
    buffer: Vec<u8>,
    /// Data that the first rank writes or reads for all.
    collected: Vec<u8>,
    /// Offset of this rank's last transfer in the file.
    last: u64,
    /// The file's current position.
    position: u64,
    /// Nanoseconds spent on bringing written data to a storage device.
    synchronising_ns: u64,
    /// Bytes that this rank has read.
    read_bytes: u64,
    /// True if data that was read is compared with the expected data. The clock has stopped then.
    looks: bool,
    /// The first error.
    wrong: Option<Wrong>,
    thread: TransferThread,
}

/// Collective calls transfer pieces that are shorter than this, in bytes, by way of the first rank.
const COLLECTED_BYTES: usize = 64 << 10;

impl Files {
    /// Creates the file with its contents, and opens it at all members. All members call it.
    pub(crate) fn new(
        world: &mut World,
        benchmark: FileBenchmark,
        group: &Group,
        bytes: usize,
        place: Place,
    ) -> Result<Self, PlayerError> {
        make(world, kind(benchmark), group, &place)?;
        let piece = benchmark.piece(bytes, group.size(), group.place());
        let mut buffer = vec![0; piece.len()];
        if benchmark.writes() {
            written(group.place(), 0, &mut buffer);
        }
        let (size, first) = (group.size(), group.place() == 0);
        let collects =
            benchmark.who() == Who::Collective && size > 1 && bytes / size < COLLECTED_BYTES;
        Ok(Self {
            file: open(&place)?,
            benchmark,
            group: group.clone(),
            bytes,
            piece,
            collects,
            place,
            buffer,
            collected: vec![0; if collects && first { bytes } else { 0 }],
            last: 0,
            position: 0,
            synchronising_ns: 0,
            read_bytes: 0,
            looks: false,
            wrong: None,
            thread: if benchmark.overlaps() {
                TransferThread::start()
            } else {
                TransferThread::default()
            },
        })
    }

    /// Does one transfer. The caller then calls [`Self::complete`] where the guide wants it: after each transfer, or after many.
    pub(crate) fn transfer(&mut self, world: &mut World, number: usize) -> Result<(), PlayerError> {
        if let Some(at) = self.begin(world, number)? {
            let (offset, mut buffer) = self.take_buffer(at);
            let done = offset.transfer(&mut self.file, self.benchmark.writes(), &mut buffer);
            self.put_back(buffer, done)?;
        }
        self.end(world)
    }

    /// Does the same while the rank computes.
    pub(crate) fn overlapped(
        &mut self,
        world: &mut World,
        number: usize,
        compute: impl FnOnce(),
    ) -> Result<(), PlayerError> {
        let at = self.begin(world, number)?;
        if let Some(at) = at {
            let file = self.file.try_clone();
            let file = file.map_err(|error| self.place.failed("open", error))?;
            let (offset, buffer) = self.take_buffer(at);
            self.thread.send(Transfer {
                file,
                writes: self.benchmark.writes(),
                offset,
                buffer,
            });
        }
        compute();
        if at.is_some() {
            let (buffer, done) = self.thread.wait();
            self.put_back(buffer, done)?;
        }
        self.end(world)
    }

    /// Counts a transfer at the offset `at`. Returns how it reaches that offset, and its buffer.
    fn take_buffer(&mut self, at: u64) -> (FileOffset, Vec<u8>) {
        let offset = self.offset(at);
        let buffer = std::mem::take(self.transferred());
        let bytes = buffer.len() as u64;
        self.last = at;
        self.position = at + bytes;
        if !self.benchmark.writes() {
            self.read_bytes += bytes;
        }
        (offset, buffer)
    }

    fn put_back(&mut self, buffer: Vec<u8>, done: io::Result<()>) -> Result<(), PlayerError> {
        *self.transferred() = buffer;
        done.map_err(|error| self.place.failed("transfer", error))
    }

    /// The buffer that a transfer uses.
    fn transferred(&mut self) -> &mut Vec<u8> {
        if self.collects {
            &mut self.collected
        } else {
            &mut self.buffer
        }
    }

    /// Brings written data to the storage device with `fsync`. No member continues before all have done it.
    pub(crate) fn complete(&mut self, world: &mut World) -> Result<(), PlayerError> {
        if !self.benchmark.writes() {
            return Ok(());
        }
        self.synchronise()?;
        if self.group.size() > 1 {
            world.team(&self.group).barrier(Algorithm::Dissemination)?;
            self.synchronise()?;
        }
        Ok(())
    }

    fn synchronise(&mut self) -> Result<(), PlayerError> {
        let began_ns = clock::monotonic_ns();
        let done = self.file.sync_all();
        self.synchronising_ns += clock::monotonic_ns() - began_ns;
        done.map_err(|error| self.place.failed("synchronise", error))
    }

    /// Bytes that this rank has read since the file was opened.
    pub(crate) fn read_bytes(&self) -> u64 {
        self.read_bytes
    }

    /// Seconds spent on bringing written data to a storage device.
    pub(crate) fn synchronising_s(&self) -> f64 {
        self.synchronising_ns as f64 / 1e9
    }

    /// How a transfer reaches its offset in the file.
    fn offset(&self, at: u64) -> FileOffset {
        match self.benchmark.pointer() {
            Pointer::Individual | Pointer::Private if self.position == at => FileOffset::Current,
            Pointer::Individual | Pointer::Private => FileOffset::Seek(at),
            Pointer::Explicit | Pointer::Shared => FileOffset::At(at),
        }
    }

    /// Closes the file, and opens it again at its start. All members call it.
    pub(crate) fn reopen(&mut self, world: &mut World) -> Result<(), PlayerError> {
        self.file = open(&self.place)?;
        self.position = 0;
        (self.read_bytes, self.synchronising_ns) = (0, 0);
        // From here on no member moves the shared position any more.
        world.team(&self.group).barrier(Algorithm::Dissemination)?;
        if self.group.place() == 0 {
            reset(&self.place)?;
        }
        world.team(&self.group).barrier(Algorithm::Dissemination)?;
        Ok(())
    }

    /// Creates the file again, as at the start, and begins to check data that is read. All members call it.
    pub(crate) fn wipe(&mut self, world: &mut World) -> Result<(), PlayerError> {
        make(world, kind(self.benchmark), &self.group, &self.place)?;
        self.file = open(&self.place)?;
        self.position = 0;
        self.looks = true;
        Ok(())
    }

    /// The first error after `transfers` transfers from the start of a wiped file. All members call it.
    pub(crate) fn check(
        &self,
        world: &mut World,
        transfers: usize,
    ) -> Result<Option<Wrong>, PlayerError> {
        world.team(&self.group).barrier(Algorithm::Dissemination)?;
        let failed = |error| self.place.failed("read back", error);
        if let Some(wrong) = self.misplaced(transfers).map_err(failed)? {
            return Ok(Some(wrong));
        }
        if !self.benchmark.writes() {
            return Ok(self.wrong.clone());
        }
        let mut expected = vec![0; self.piece.len()];
        written(self.group.place(), 0, &mut expected);
        let mut came = vec![0; self.piece.len()];
        let alone = self.benchmark.who() == Who::Parallel;
        if self.benchmark.pointer() == Pointer::Shared && alone {
            // The order of pieces is arbitrary, so the first rank checks for all.
            return match self.group.place() {
                0 => self.check_in_any_order(transfers).map_err(failed),
                _ => Ok(None),
            };
        }
        for number in 0..transfers {
            let at = match self.benchmark.pointer() {
                Pointer::Private => number * self.piece.len(),
                _ => number * self.bytes + self.piece.start,
            };
            self.file
                .read_exact_at(&mut came, at as u64)
                .map_err(failed)?;
            if let Some(wrong) = differs(&expected, &came) {
                return Ok(Some(wrong));
            }
        }
        Ok(None)
    }

    /// An error if the shared position is not at the end of all pieces of all transfers: then two ranks had the same place. The first rank
    /// checks.
    fn misplaced(&self, transfers: usize) -> io::Result<Option<Wrong>> {
        if self.benchmark.pointer() != Pointer::Shared || self.group.place() != 0 {
            return Ok(None);
        }
        let mut eight = [0; 8];
        File::open(&self.place.pointer)?.read_exact(&mut eight)?;
        let at = u64::from_le_bytes(eight);
        let behind = self.bytes as u64 * transfers as u64;
        Ok((at != behind).then(|| Wrong {
            item: usize::try_from(at.min(behind)).unwrap_or(usize::MAX) / FILE_ITEM_BYTES,
            got: format!("the shared position at byte {at}"),
            expected: format!("at byte {behind}"),
            defect: 1.0,
        }))
    }

    /// Offset of this rank's transfer of that number; `None` if this rank does not use the file this time. Before a collected write it
    /// gathers the data of others at the first rank.
    fn begin(&mut self, world: &mut World, number: usize) -> Result<Option<u64>, PlayerError> {
        let (bytes, piece) = (self.bytes as u64, self.piece.clone());
        let ordered = self.benchmark.who() == Who::Collective;
        let record = match (self.benchmark.pointer(), ordered) {
            (Pointer::Individual | Pointer::Explicit, _) => number as u64 * bytes,
            (Pointer::Private, _) => return Ok(some(number as u64 * piece.len() as u64, &piece)),
            (Pointer::Shared, false) if piece.is_empty() => return Ok(None),
            (Pointer::Shared, false) => return self.advance(piece.len() as u64).map(Some),
            (Pointer::Shared, true) => {
                // The first rank moves the position for all, and broadcasts the old one.
                let mut at = [0; 8];
                if self.group.place() == 0 {
                    at = self.advance(bytes)?.to_le_bytes();
                }
                world
                    .team(&self.group)
                    .broadcast(Algorithm::Binomial, 0, &mut at)?;
                u64::from_le_bytes(at)
            }
        };
        if !self.collects {
            return Ok(some(record + piece.start as u64, &piece));
        }
        if self.benchmark.writes() {
            let blocks = self.blocks();
            let mut team = world.team(&self.group);
            let (own, all) = (&self.buffer, &mut self.collected);
            team.gather(Algorithm::Binomial, 0, own, all, &blocks)?;
        }
        self.last = record;
        Ok((self.group.place() == 0 && self.bytes > 0).then_some(record))
    }

    /// Ends a transfer: after a collected read it sends the data of others to them.
    fn end(&mut self, world: &mut World) -> Result<(), PlayerError> {
        if self.collects && !self.benchmark.writes() {
            let blocks = self.blocks();
            let mut team = world.team(&self.group);
            let (all, own) = (&self.collected, &mut self.buffer);
            team.scatter(Algorithm::Binomial, 0, all, own, &blocks)?;
        }
        if self.looks && !self.benchmark.writes() {
            self.look();
        }
        Ok(())
    }

    /// Compares the last data that was read with the expected data, and clears it.
    fn look(&mut self) {
        let within = if self.collects { self.piece.start } else { 0 };
        let mut expected = vec![0; self.buffer.len()];
        laid(self.last + within as u64, &mut expected);
        let found = differs(&expected, &self.buffer);
        self.wrong = self.wrong.take().or(found);
        self.buffer.fill(0xff);
    }

    fn blocks(&self) -> Vec<Range<usize>> {
        let size = self.group.size();
        let of = |place| self.benchmark.piece(self.bytes, size, place).len();
        ranges(&(0..size).map(of).collect::<Vec<_>>())
    }

    /// Moves the shared position. Returns the old one.
    fn advance(&self, bytes: u64) -> Result<u64, PlayerError> {
        let path = &self.place.pointer;
        let moved = || -> io::Result<u64> {
            let mut file = File::options().read(true).write(true).open(path)?;
            // The lock ends when the file is closed.
            file.lock()?;
            let mut eight = [0; 8];
            file.read_exact(&mut eight)?;
            let at = u64::from_le_bytes(eight);
            file.write_all_at(&(at + bytes).to_le_bytes(), 0)?;
            Ok(at)
        };
        let what = "move the shared position in";
        moved().map_err(|source| PlayerError::file(what, path, source))
    }

    /// Checks that each rank's piece is in the file as often as it was written, in any order.
    fn check_in_any_order(&self, transfers: usize) -> io::Result<Option<Wrong>> {
        let size = self.group.size();
        let piece = |place: usize| {
            let length = self.benchmark.piece(self.bytes, size, place).len();
            let mut own = vec![0; length];
            written(place, 0, &mut own);
            own
        };
        let mut left: Vec<(Vec<u8>, usize)> = (0..size)
            .map(|place| (piece(place), transfers))
            .filter(|(own, _)| !own.is_empty())
            .collect();
        // Longest first, so that a short piece is not mistaken for the start of a longer one.
        left.sort_by_key(|(own, _)| std::cmp::Reverse(own.len()));
        let longest = left.first().map_or(0, |(own, _)| own.len());
        let mut part = vec![0; longest];
        let (mut at, whole) = (0_u64, self.bytes as u64 * transfers as u64);
        while at < whole {
            let rest = usize::try_from(whole - at).unwrap_or(usize::MAX);
            let part = &mut part[..longest.min(rest)];
            self.file.read_exact_at(part, at)?;
            let here = left
                .iter_mut()
                .find(|(own, count)| *count > 0 && part.starts_with(own));
            let Some((own, count)) = here else {
                let expected = left.iter().find(|(_, count)| *count > 0);
                let expected = expected.map_or(&[][..], |(own, _)| own);
                let item = usize::try_from(at).unwrap_or(usize::MAX) / FILE_ITEM_BYTES;
                // A piece with a correct start ends too early.
                let cut_off = Wrong {
                    item: part.len() / FILE_ITEM_BYTES,
                    got: "nothing".to_owned(),
                    expected: "more".to_owned(),
                    defect: 1.0,
                };
                let wrong = differs(expected, part).unwrap_or(cut_off);
                return Ok(Some(Wrong {
                    item: item + wrong.item,
                    ..wrong
                }));
            };
            *count -= 1;
            at += own.len() as u64;
        }
        Ok(None)
    }
}

/// Creates a file that can be opened and closed. All members call it.
pub(crate) fn openable(world: &mut World, group: &Group, place: &Place) -> Result<(), PlayerError> {
    make(world, (false, false), group, place)
}

/// Opens a file, writes a byte and closes it, at all members. All members call it.
pub(crate) fn open_close(
    world: &mut World,
    group: &Group,
    place: &Place,
) -> Result<(), PlayerError> {
    let failed = |error| place.failed("open", error);
    let file = open(place)?;
    file.write_all_at(&[1], group.place() as u64)
        .map_err(failed)?;
    drop(file);
    if group.size() > 1 {
        world.team(group).barrier(Algorithm::Dissemination)?;
    }
    Ok(())
}

fn open(place: &Place) -> Result<File, PlayerError> {
    let file = File::options().read(true).write(true).open(&place.file);
    file.map_err(|error| place.failed("open", error))
}

/// Two flags: true if each rank has its own file, and true if the file has contents to read.
fn kind(benchmark: FileBenchmark) -> (bool, bool) {
    let private = benchmark.pointer() == Pointer::Private;
    (private, !benchmark.writes())
}

fn some(at: u64, piece: &Range<usize>) -> Option<u64> {
    (!piece.is_empty()).then_some(at)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::ranks::tests::{Over, as_ranks_over};

    #[test]
    fn a_place_that_two_ranks_had_is_found_where_they_only_read() {
        let folder = tempfile::tempdir().unwrap();
        let name = |one: &FileBenchmark| one.name() == "P_Read_Shared";
        let benchmark = FileBenchmark::all().find(name).unwrap();
        for lost in [false, true] {
            let told = as_ranks_over(Over::Unix, 2, |world| {
                let own = world.rank();
                let group = Group::new(vec![0, 1], own).unwrap();
                let place = Place::of(folder.path(), Some(benchmark), None, own, 800);
                let mut files = Files::new(world, benchmark, &group, 400, place).unwrap();
                files.wipe(world).unwrap();
                files.transfer(world, 0).unwrap();
                files.transfer(world, 1).unwrap();
                world.barrier().unwrap();
                if lost && own == 0 {
                    // Simulates that the other rank's move was lost.
                    let file = File::options().write(true).open(&files.place.pointer);
                    file.unwrap()
                        .write_all_at(&600_u64.to_le_bytes(), 0)
                        .unwrap();
                }
                files.check(world, 2).unwrap()
            });
            let found = told.iter().flatten().map(|wrong| wrong.got.as_str());
            let expected: &[&str] = match lost {
                true => &["the shared position at byte 600"],
                false => &[],
            };
            assert_eq!(found.collect::<Vec<_>>(), expected);
        }
    }

    #[test]
    fn files_of_groups_and_ranks_have_names_of_their_own() {
        let folder = Path::new("/x");
        let one = |name: &str| FileBenchmark::all().find(|one| one.name() == name);
        let of = |benchmark, group| Place::of(folder, benchmark, group, 3, 0).file;
        assert_eq!(of(one("P_Write_Indv"), None), Path::new("/x/IMB_out"));
        assert_eq!(
            of(one("P_Write_Priv"), Some(1)),
            Path::new("/x/IMB_out_g1_3")
        );
        assert_eq!(of(None, Some(0)), Path::new("/x/IMB_out_g0"));
    }
}
