//! A rank's part in a table: lines one after the other, each warmed up, synchronised, repeated and timed by the rules (guide 5.2).

use std::path::PathBuf;

use crate::plan::collective::Algorithm;
use crate::plan::imb::{Benchmark, Class, Imb, Length, Mode, Part, Pointer, Rules, Table};
use crate::ranks::{Group, RankError, World};
use crate::record::{FileTimes, Overlap, RankLine};
use crate::sys::{clock, usage};

use super::PlayerError;
use super::act::{Act, overlapped};
use super::compute::Work;
use super::files::{self, Files, Place, folder};
use super::messages::Messages;
use super::windows::Windows;

/// Warm-up repetitions, with the largest length (guide 5.2.6).
const WARM_UPS: usize = 2;
/// Barriers before the clock starts (guide 5.2.7).
const BARRIERS: usize = 2;
/// Maximum of batches in a line. With more repetitions a batch has several of them, so that a loop reads the clock only between batches.
const BATCHES: usize = 100;
/// Time for which a rank leaves its processor to others after it has reported a line, in nanoseconds.
const ASIDE_NS: u64 = 2_000_000;
/// Spinning time before a line, in nanoseconds. A processor that has slept is slow at first: the first repetitions of a short line took
/// several times as long.
const AWAKE_NS: u64 = 300_000;

/// One rank of a job of the Intel MPI Benchmarks.
pub(crate) struct Player {
    imb: Imb,
    /// Folder for files of this run.
    folder: PathBuf,
    /// Claim on the folder, once this rank uses files.
    held: Option<folder::Held>,
    /// Work that is computed during transfers, once its amount is known.
    work: Option<Work>,
}

impl Player {
    /// A player for a job of the run with this token.
    pub(crate) fn new(imb: &Imb, token: &str) -> Self {
        Self {
            imb: imb.clone(),
            folder: folder::folder(&imb.path, token),
            held: None,
            work: None,
        }
    }

    /// Measures all lines of a table. Reports each one as soon as it is measured.
    pub(crate) fn play(
        &mut self,
        world: &mut World,
        table: &Table,
        mut tell: impl FnMut(RankLine),
    ) -> Result<(), PlayerError> {
        let own = world.rank();
        let mut groups = table.groups.iter().enumerate();
        let found =
            groups.find_map(|(number, members)| Some((number, Group::new(members.clone(), own)?)));
        let Some((number, group)) = found else {
            return Ok(()); // This rank rests in this table, and disturbs no other one.
        };
        let everybody = Group::new(table.groups.concat(), own).ok_or(RankError::Broken)?;
        let number = (table.groups.len() > 1).then_some(number);
        if table.benchmark.part() == Part::Io && self.held.is_none() {
            self.held = Some(folder::make(&self.folder)?);
        }
        if table.benchmark.class() == Class::Overlap && self.work.is_none() {
            self.work = Some(Work::of(self.imb.computes_s(), self.imb.rules));
        }
        let fitting = table.lengths.iter().copied();
        let fitting = fitting.filter(|length| self.room_for(table, &group, *length));
        let largest = fitting.max_by_key(|length| length.bytes);
        // Files are not warmed up (guide 5.2.6).
        let warm = self.imb.rules == Rules::Guide && table.benchmark.part() != Part::Io;
        if let (true, Some(largest)) = (warm, largest) {
            let mut act = self.act(world, table, (&group, number), largest)?;
            // Each root uses other links, so each rank is the root once.
            let rooted = table.benchmark.is_rooted();
            let count = if rooted {
                group.size().max(WARM_UPS)
            } else {
                WARM_UPS
            };
            for repetition in 0..count {
                act.repeat(world, repetition)?;
            }
            act.end(world)?;
        }
        let began_ns = clock::monotonic_ns();
        let mut measured: Vec<(usize, usize)> = Vec::new();
        for (line, length) in table.lengths.iter().enumerate() {
            if !self.room_for(table, &group, *length) {
                tell(left_out(line, self.too_long(table, &group, *length)));
                // The default lengths increase, so no later one fits.
                match self.imb.lengths {
                    Some(_) => continue,
                    None => break,
                }
            }
            if self.imb.rules == Rules::Current {
                // The time of the slowest rank counts, so that all ranks end here, or none.
                let own_s = (clock::monotonic_ns() - began_ns) as f64 / 1e9;
                let limit_s =
                    self.imb.seconds * table.lengths.len().saturating_sub(1).max(1) as f64;
                if slowest(world, &everybody, own_s)? > limit_s {
                    tell(left_out(
                        line,
                        format!("time-out.; {limit_s} s for all lengths are over (-time)"),
                    ));
                    break;
                }
            }
            // By today's rules no length is measured more often than a shorter one.
            let shorter = measured.iter().filter(|(bytes, _)| *bytes <= length.bytes);
            let most = shorter.map(|(_, count)| *count).min().unwrap_or(usize::MAX);
            let groups = (&group, number, &everybody);
            let told = self.line(world, table, groups, (line, *length), most)?;
            measured.push((length.bytes, told.repetitions));
            tell(told);
            // The process that forwards the report needs a processor, and should have it before the clock starts again.
            clock::sleep_until(clock::monotonic_ns() + ASIDE_NS);
        }
        Ok(())
    }

    fn act(
        &self,
        world: &mut World,
        table: &Table,
        (group, number): (&Group, Option<usize>),
        length: Length,
    ) -> Result<Act, PlayerError> {
        let benchmark = self.imb.meaning(table.benchmark);
        Ok(match benchmark.part() {
            Part::Mpi1 => {
                let algorithm = self.imb.algorithm_for(table, length.bytes);
                let rotates = self.imb.rules == Rules::Guide;
                let (group, bytes) = (group.clone(), (length.bytes, self.imb.window));
                let messages = Messages::new(world, benchmark, group, algorithm, bytes, rotates);
                Act::Messages(messages)
            }
            Part::Ext => {
                let places = self.imb.places(benchmark, table.mode, length.repetitions);
                let windows = Windows::new(world, benchmark, group, length.bytes, places);
                Act::Windows(windows?)
            }
            Part::Io => {
                let place = |file, size| Place::of(&self.folder, file, number, group.place(), size);
                match benchmark {
                    Benchmark::File(file) => {
                        // The file is as large as all transfers of the line together.
                        let each = match file.pointer() {
                            Pointer::Private => {
                                file.piece(length.bytes, group.size(), group.place()).len()
                            }
                            _ => length.bytes,
                        };
                        let whole = each as u64 * length.repetitions as u64;
                        let place = place(Some(file), whole);
                        let files = Files::new(world, file, group, length.bytes, place);
                        Act::Files(Box::new(files?))
                    }
                    _ => {
                        let place = place(None, 0);
                        files::openable(world, group, &place)?;
                        Act::Opening(place, group.clone())
                    }
                }
            }
        })
    }

    fn room_for(&self, table: &Table, group: &Group, length: Length) -> bool {
        self.memory_of(table, group, length) <= self.imb.memory
    }

    fn memory_of(&self, table: &Table, group: &Group, length: Length) -> usize {
        let (benchmark, mode) = (table.benchmark, table.mode);
        self.imb.memory_of(benchmark, mode, group.size(), length)
    }

    /// Message that explains why a length does not fit into memory.
    fn too_long(&self, table: &Table, group: &Group, length: Length) -> String {
        const GB: f64 = (1_u64 << 30) as f64;
        let needed = self.memory_of(table, group, length) as f64 / GB;
        let limit = self.imb.memory as f64 / GB;
        format!("out-of-mem.; needed X={needed:8.3} GB; limit {limit:.3} GB (-mem)")
    }

    fn line(
        &self,
        world: &mut World,
        table: &Table,
        (group, number, everybody): (&Group, Option<usize>, &Group),
        (line, length): (usize, Length),
        last: usize,
    ) -> Result<RankLine, PlayerError> {
        let mut act = self.act(world, table, (group, number), length)?;
        let mut repetitions = length.repetitions;
        let of_files = table.benchmark.part() == Part::Io;
        let awake_ns = clock::monotonic_ns() + AWAKE_NS;
        while clock::monotonic_ns() < awake_ns {
            std::hint::spin_loop();
        }
        let together = table.mode == Some(Mode::Aggregate);
        let overlaps = table.benchmark.class() == Class::Overlap;
        if self.imb.rules == Rules::Current {
            let most = repetitions.min(last);
            repetitions = self.calibrate(world, &mut act, (everybody, together, overlaps), most)?;
            let warm_ups = (repetitions / 10).max(10).min(repetitions);
            for repetition in 0..warm_ups {
                act.repeat(world, repetition)?;
            }
            act.restart(world)?;
        }
        let looks = matches!(table.benchmark, Benchmark::File(file) if !file.writes());
        let mut fetched_before = usage::fetched_bytes(looks);
        world.team(everybody).barrier(Algorithm::Dissemination)?;
        for _ in 0..BARRIERS {
            world.team(group).barrier(Algorithm::Dissemination)?;
        }
        // By today's rules too, windows are created and freed in a loop with one clock.
        let each = self.imb.rules == Rules::Current
            && table.benchmark.class() == Class::Collective
            && table.benchmark != Benchmark::Window;
        let batch = repetitions.div_ceil(BATCHES).max(1);
        let seconds = |ns, count| seconds(table.benchmark, ns, count);
        let mut pure = None;
        if overlaps {
            // The same transfers without computation (guide 5.2.8.3).
            let began_ns = clock::monotonic_ns();
            act.together(world, repetitions)?;
            pure = Some(seconds(clock::monotonic_ns() - began_ns, repetitions));
            act.restart(world)?;
            fetched_before = usage::fetched_bytes(looks);
            for _ in 0..BARRIERS {
                world.team(group).barrier(Algorithm::Dissemination)?;
            }
        }
        let work = self.work.as_ref().filter(|_| pure.is_some());
        let timed = match (together, each) {
            _ if work.is_some() => overlapped(world, &mut act, repetitions, work)?,
            (true, _) => all_together(world, &mut act, repetitions)?,
            (false, true) => one_by_one(world, &mut act, group, repetitions, batch)?,
            (false, false) => in_a_loop(world, &mut act, repetitions, batch)?,
        };
        let batch = if together { repetitions } else { batch };
        let fetched = usage::fetched_bytes(looks).zip(fetched_before);
        let read_bytes = act.files().map_or(0, Files::read_bytes);
        let synchronising_s = act.files().map_or(0.0, Files::synchronising_s);
        let whole: u64 = timed.iter().map(|(ns, _)| ns).sum();
        let wrong = match self.imb.check && table.benchmark.is_comparable() {
            // One more repetition without a clock, into memory that holds none of the earlier data.
            true => {
                world.team(group).barrier(Algorithm::Dissemination)?;
                act.wipe(world)?;
                let transfers = if together { act.apart(repetitions) } else { 1 };
                match (together, pure.is_some()) {
                    (_, true) => {
                        overlapped(world, &mut act, transfers, None)?;
                    }
                    (true, _) => act.together(world, transfers)?,
                    (false, _) => act.repeat(world, act.after(repetitions))?,
                }
                Some(act.check(world, repetitions, transfers)?)
            }
            false => None,
        };
        act.end(world)?;
        Ok(RankLine {
            line,
            repetitions,
            seconds: seconds(whole, repetitions),
            batch,
            batches_s: timed
                .iter()
                .map(|(ns, count)| seconds(*ns, *count))
                .collect(),
            files: of_files.then(|| FileTimes {
                read_bytes,
                fetched_bytes: fetched.map(|(after, before)| after.saturating_sub(before)),
                synchronising_s: synchronising_s / repetitions.max(1) as f64,
                overlap: pure.zip(work).map(|(pure_s, work)| Overlap {
                    pure_s,
                    compute_s: work.seconds,
                    megaflops: work.megaflops,
                }),
            }),
            defect: wrong
                .as_ref()
                .map(|wrong| wrong.as_ref().map_or(0.0, |wrong| wrong.defect)),
            wrong: wrong.flatten().map(|wrong| {
                format!(
                    "{}, {} bytes: item {} is {}, expected {}",
                    table.benchmark.name(),
                    length.bytes,
                    wrong.item,
                    wrong.got,
                    wrong.expected
                )
            }),
            left_out: None,
        })
    }

    /// Number of repetitions by today's rules: at most as many as fit into the time for a length, as the slowest rank sees it.
    fn calibrate(
        &self,
        world: &mut World,
        act: &mut Act,
        (everybody, together, overlaps): (&Group, bool, bool),
        most: usize,
    ) -> Result<usize, PlayerError> {
        let mut probes = 1;
        let mut seconds = 0.0;
        for _ in 0..2 {
            let began_ns = clock::monotonic_ns();
            if together {
                act.together(world, probes)?
            } else {
                (0..probes).try_for_each(|number| act.repeat(world, number))?
            }
            let own = (clock::monotonic_ns() - began_ns) as f64 / 1e9 / probes as f64;
            act.restart(world)?;
            // The computation during a transfer takes time too.
            let beside = self.work.as_ref().filter(|_| overlaps);
            let own = own + beside.map_or(0.0, |work| work.seconds);
            seconds = slowest(world, everybody, own)?;
            let wished = (1.0 / seconds.max(1e-3)).max(1.0);
            probes = usize::try_from(numbers::whole(wished))
                .unwrap_or(1)
                .min(most)
                .max(1);
        }
        let enough = (1.0 + self.imb.seconds / seconds.max(1e-9)).floor();
        let enough = usize::try_from(numbers::whole(enough)).unwrap_or(usize::MAX);
        Ok(most.min(enough).max(1))
    }
}

/// A line that is not measured, with the reason.
fn left_out(line: usize, why: String) -> RankLine {
    RankLine {
        line,
        repetitions: 0,
        seconds: 0.0,
        batch: 0,
        batches_s: Vec::new(),
        files: None,
        defect: None,
        wrong: None,
        left_out: Some(why),
    }
}

/// Seconds of a repetition, if `count` of them took `ns` nanoseconds. Half of that where the message comes back (guide 3.3.2.1).
fn seconds(benchmark: Benchmark, ns: u64, count: usize) -> f64 {
    let ways = match benchmark {
        Benchmark::PingPong => 2.0,
        _ => 1.0,
    };
    ns as f64 / (1e9 * ways * count.max(1) as f64)
}

/// The largest of all members' figures, at all of them. No figure is negative.
fn slowest(world: &mut World, everybody: &Group, own: f64) -> Result<f64, RankError> {
    let figures = world.team(everybody).allgather_few(own.to_le_bytes())?;
    let figures = figures.into_iter().map(f64::from_le_bytes);
    Ok(figures.fold(0.0, f64::max))
}

/// One clock for the whole loop, which is read between batches. Returns the nanoseconds and repetitions of each batch.
fn in_a_loop(
    world: &mut World,
    act: &mut Act,
    repetitions: usize,
    batch: usize,
) -> Result<Vec<(u64, usize)>, PlayerError> {
    let mut timed = Vec::with_capacity(BATCHES);
    let mut at = 0;
    let mut since_ns = clock::monotonic_ns();
    while at < repetitions {
        let count = batch.min(repetitions - at);
        for repetition in at..at + count {
            act.repeat(world, repetition)?;
        }
        at += count;
        let now_ns = clock::monotonic_ns();
        timed.push((now_ns - since_ns, count));
        since_ns = now_ns;
    }
    Ok(timed)
}

/// One clock for transfers that are complete together (guide 5.2.8.2).
fn all_together(
    world: &mut World,
    act: &mut Act,
    count: usize,
) -> Result<Vec<(u64, usize)>, PlayerError> {
    let began_ns = clock::monotonic_ns();
    act.together(world, count)?;
    Ok(vec![(clock::monotonic_ns() - began_ns, count)])
}

/// A clock around each call, and a barrier after it that is not timed.
fn one_by_one(
    world: &mut World,
    act: &mut Act,
    group: &Group,
    repetitions: usize,
    batch: usize,
) -> Result<Vec<(u64, usize)>, PlayerError> {
    let mut timed = Vec::with_capacity(BATCHES);
    let mut at = 0;
    while at < repetitions {
        let count = batch.min(repetitions - at);
        let mut ns = 0;
        for repetition in at..at + count {
            let began_ns = clock::monotonic_ns();
            act.repeat(world, repetition)?;
            ns += clock::monotonic_ns() - began_ns;
            world.team(group).barrier(Algorithm::Dissemination)?;
        }
        at += count;
        timed.push((ns, count));
    }
    Ok(timed)
}

#[cfg(test)]
mod tests;
