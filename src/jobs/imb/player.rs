//! A rank's part in a table: lines one after the other, each warmed up, synchronised, repeated and timed by the rules (guide 5.2).

use crate::plan::collective::Algorithm;
use crate::plan::imb::{Benchmark, Class, Imb, Length, Rules, Table};
use crate::ranks::{Group, RankError, World};
use crate::record::RankLine;
use crate::sys::clock;

use super::pattern::Pattern;

/// Warm-up repetitions, with the largest length (guide 5.2.6).
const WARM_UPS: usize = 2;
/// Barriers before the clock starts (guide 5.2.7).
const BARRIERS: usize = 2;
/// A clock is looked at so often in a line at most: with more repetitions several of them are a batch.
const BATCHES: usize = 100;
/// How long a rank leaves its processor to others when it has told a line.
const ASIDE_NS: u64 = 2_000_000;

/// One rank of a job of patterns.
pub struct Player {
    imb: Imb,
}

impl Player {
    /// For a job.
    pub fn new(imb: &Imb) -> Self {
        Self { imb: imb.clone() }
    }

    /// Plays all lines of a table; tells each one as soon as it is measured.
    pub fn play(
        &mut self,
        world: &mut World,
        table: &Table,
        mut tell: impl FnMut(RankLine),
    ) -> Result<(), RankError> {
        let own = world.rank();
        let mut groups = table.groups.iter();
        let Some(group) = groups.find_map(|members| Group::new(members.clone(), own)) else {
            return Ok(()); // It rests in this one, and disturbs nobody.
        };
        let everybody = Group::new(table.groups.concat(), own).ok_or(RankError::Broken)?;
        let lengths = table.lengths.iter().map(|one| one.bytes);
        let fitting = lengths.filter(|bytes| self.room_for(table.benchmark, &group, *bytes));
        let largest = fitting.max().unwrap_or(0);
        if self.imb.rules == Rules::Guide {
            let mut pattern = self.pattern(table, &group, largest);
            // Whoever has a part of its own has links of its own, too.
            let rooted = table.benchmark.is_rooted();
            let count = if rooted {
                group.size().max(WARM_UPS)
            } else {
                WARM_UPS
            };
            for repetition in 0..count {
                pattern.repeat(world, repetition)?;
            }
        }
        let mut measured: Vec<(usize, usize)> = Vec::new();
        for (line, length) in table.lengths.iter().enumerate() {
            if !self.room_for(table.benchmark, &group, length.bytes) {
                tell(self.left_out(table.benchmark, &group, line, length.bytes));
                // The usual lengths become larger and larger.
                match self.imb.lengths {
                    Some(_) => continue,
                    None => break,
                }
            }
            // By today's rules no length is measured more often than a shorter one.
            let shorter = measured.iter().filter(|(bytes, _)| *bytes <= length.bytes);
            let most = shorter.map(|(_, count)| *count).min().unwrap_or(usize::MAX);
            let told = self.line(world, table, (&group, &everybody), (line, *length), most)?;
            measured.push((length.bytes, told.repetitions));
            tell(told);
            // Whoever passes it on needs a processor, and should have it before the clock starts again.
            clock::sleep_until(clock::monotonic_ns() + ASIDE_NS);
        }
        Ok(())
    }

    fn pattern(&self, table: &Table, group: &Group, bytes: usize) -> Pattern {
        let algorithm = self.imb.algorithm_for(table, bytes);
        let rotates = self.imb.rules == Rules::Guide;
        let benchmark = self.imb.meaning(table.benchmark);
        Pattern::new(benchmark, group.clone(), algorithm, bytes, rotates)
    }

    fn room_for(&self, benchmark: Benchmark, group: &Group, bytes: usize) -> bool {
        let benchmark = self.imb.meaning(benchmark);
        benchmark.memory(group.size(), bytes) <= self.imb.memory
    }

    fn left_out(&self, benchmark: Benchmark, group: &Group, line: usize, bytes: usize) -> RankLine {
        const GB: f64 = (1_u64 << 30) as f64;
        let needed = self.imb.meaning(benchmark).memory(group.size(), bytes) as f64 / GB;
        let limit = self.imb.memory as f64 / GB;
        RankLine {
            line,
            repetitions: 0,
            seconds: 0.0,
            batch: 0,
            batches_s: Vec::new(),
            defect: None,
            wrong: None,
            left_out: Some(format!(
                "out-of-mem.; needed X={needed:8.3} GB; limit {limit:.3} GB (-mem)"
            )),
        }
    }

    fn line(
        &self,
        world: &mut World,
        table: &Table,
        (group, everybody): (&Group, &Group),
        (line, length): (usize, Length),
        last: usize,
    ) -> Result<RankLine, RankError> {
        let mut pattern = self.pattern(table, group, length.bytes);
        let mut repetitions = length.repetitions;
        if self.imb.rules == Rules::Current {
            repetitions = self.calibrate(world, &mut pattern, everybody, repetitions.min(last))?;
            let warm_ups = (repetitions / 10).max(10).min(repetitions);
            for repetition in 0..warm_ups {
                pattern.repeat(world, repetition)?;
            }
        }
        world.team(everybody).barrier(Algorithm::Dissemination)?;
        for _ in 0..BARRIERS {
            world.team(group).barrier(Algorithm::Dissemination)?;
        }
        let each = self.imb.rules == Rules::Current && table.benchmark.class() == Class::Collective;
        let batch = repetitions.div_ceil(BATCHES).max(1);
        let timed = match each {
            true => one_by_one(world, &mut pattern, group, repetitions, batch)?,
            false => in_a_loop(world, &mut pattern, repetitions, batch)?,
        };
        let seconds = |ns, count| seconds(table.benchmark, ns, count);
        let whole: u64 = timed.iter().map(|(ns, _)| ns).sum();
        let class = table.benchmark.class();
        let wrong = match self.imb.check && !matches!(class, Class::Sync | Class::Rate) {
            // Once more without a clock, into memory that holds nothing of what came before.
            true => {
                world.team(group).barrier(Algorithm::Dissemination)?;
                pattern.wipe();
                pattern.repeat(world, repetitions)?;
                Some(pattern.check(repetitions + 1))
            }
            false => None,
        };
        Ok(RankLine {
            line,
            repetitions,
            seconds: seconds(whole, repetitions),
            batch,
            batches_s: timed
                .iter()
                .map(|(ns, count)| seconds(*ns, *count))
                .collect(),
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

    /// How often it is repeated by today's rules: no more often than in the time for a length, as the slowest rank sees it.
    fn calibrate(
        &self,
        world: &mut World,
        pattern: &mut Pattern,
        everybody: &Group,
        most: usize,
    ) -> Result<usize, RankError> {
        let mut probes = 1;
        let mut seconds = 0.0;
        for _ in 0..2 {
            let began_ns = clock::monotonic_ns();
            for repetition in 0..probes {
                pattern.repeat(world, repetition)?;
            }
            let own = (clock::monotonic_ns() - began_ns) as f64 / 1e9 / probes as f64;
            seconds = slowest(world, everybody, own)?;
            let wished = if seconds < 1e-3 {
                1000.0
            } else {
                (1.0 / seconds).max(1.0)
            };
            probes = usize::try_from(crate::units::whole(wished))
                .unwrap_or(1)
                .min(most)
                .max(1);
        }
        let enough = (1.0 + self.imb.seconds / seconds.max(1e-9)).floor();
        let enough = usize::try_from(crate::units::whole(enough)).unwrap_or(usize::MAX);
        Ok(most.min(enough).max(1))
    }
}

/// Seconds of a repetition, if `count` of them took `ns` nanoseconds: of half of one where the message comes back (guide 3.3.2.1).
fn seconds(benchmark: Benchmark, ns: u64, count: usize) -> f64 {
    let ways = match benchmark {
        Benchmark::PingPong => 2.0,
        _ => 1.0,
    };
    ns as f64 / (1e9 * ways * count.max(1) as f64)
}

/// The largest of all members' figures, at all of them; none is negative.
fn slowest(world: &mut World, everybody: &Group, own: f64) -> Result<f64, RankError> {
    let size = everybody.size();
    let blocks = crate::ranks::ranges(&vec![8; size]);
    let mut all = vec![0; 8 * size];
    let mut team = world.team(everybody);
    team.allgather(Algorithm::Bruck, &own.to_le_bytes(), &mut all, &blocks)?;
    let figures = all.chunks_exact(8).map(|eight| {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(eight);
        f64::from_le_bytes(bytes)
    });
    Ok(figures.fold(0.0, f64::max))
}

/// One clock for the whole loop; it is looked at between batches. Nanoseconds and repetitions of each.
fn in_a_loop(
    world: &mut World,
    pattern: &mut Pattern,
    repetitions: usize,
    batch: usize,
) -> Result<Vec<(u64, usize)>, RankError> {
    let mut timed = Vec::with_capacity(BATCHES);
    let mut at = 0;
    let mut since_ns = clock::monotonic_ns();
    while at < repetitions {
        let count = batch.min(repetitions - at);
        for repetition in at..at + count {
            pattern.repeat(world, repetition)?;
        }
        at += count;
        let now_ns = clock::monotonic_ns();
        timed.push((now_ns - since_ns, count));
        since_ns = now_ns;
    }
    Ok(timed)
}

/// A clock round each call, and a barrier behind it that is not timed.
fn one_by_one(
    world: &mut World,
    pattern: &mut Pattern,
    group: &Group,
    repetitions: usize,
    batch: usize,
) -> Result<Vec<(u64, usize)>, RankError> {
    let mut timed = Vec::with_capacity(BATCHES);
    let mut at = 0;
    while at < repetitions {
        let count = batch.min(repetitions - at);
        let mut ns = 0;
        for repetition in at..at + count {
            let began_ns = clock::monotonic_ns();
            pattern.repeat(world, repetition)?;
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
