//! A rank's part in a round.

use std::collections::BTreeMap;

use thiserror::Error;

use crate::jobs::timing::Times;
use crate::plan::job::Round;
use crate::plan::linktest::{Kernel, Linktest};
use crate::ranks::{From, RankError, World};
use crate::record::{Effort, PairTime, TimeSpread, TroubleKind};
use crate::sys::usage::RunDelay;
use crate::sys::{affinity, clock};

use super::buffers::{Buffers, Contents};
use super::kernel::{self, Dose, Partner};
use super::steps;

/// Tag of the messages of a kernel.
const MESSAGE: u32 = 1;
/// Tag of the messages that partners exchange outside of the timed part.
const ASIDE: u32 = 2;
/// Tag of the messages of a test of all to all.
const ALL: u32 = 3;
/// Bytes of a partner's effort and spread, sent to the rank that reports the measurement.
const ASIDE_BYTES: usize = 9 * 8;
/// Shortest time between two reports to the launching side during a round, in nanoseconds: their reader needs a processor too.
const TELL_NS: u64 = 200_000_000;

/// Reason why a rank could not continue.
#[derive(Debug, Error)]
pub(crate) enum TesterError {
    /// A message could not be sent or received.
    #[error(transparent)]
    Rank(#[from] RankError),
    /// The received data differs from what was sent.
    #[error("wrong data from rank {from}: buffer {buffer}, byte {at} (and perhaps more)")]
    Contents {
        /// Rank of the sender.
        from: usize,
        /// Number of the buffer.
        buffer: usize,
        /// Offset of the first byte that differs.
        at: usize,
    },
}

impl TesterError {
    /// Kind of this failure, which ranks it among others.
    pub(crate) fn kind(&self) -> TroubleKind {
        match self {
            Self::Rank(error) => error.kind(),
            Self::Contents { .. } => TroubleKind::Invalid,
        }
    }
}

/// One rank of a link test.
pub(crate) struct Tester {
    linktest: Linktest,
    buffers: Buffers,
    /// Receive buffers in a test of all to all, indexed by rank.
    all: Vec<Vec<u8>>,
    contents: Contents,
    times: Times,
    delay: RunDelay,
    /// Number of measurements after which the rank was on each processor.
    stays: BTreeMap<usize, u64>,
}

impl Tester {
    /// Creates and fills the buffers of rank `own` of `ranks`.
    pub(crate) fn new(linktest: &Linktest, own: usize, ranks: usize) -> Self {
        let contents = Contents {
            seed: linktest.content_seed,
            random: linktest.random_contents,
        };
        let bytes = linktest.message_bytes;
        let mut buffers = Buffers::new(bytes, linktest.buffers);
        buffers.fill(contents, own);
        let all = if linktest.all_to_all { ranks } else { 0 };
        let of = |rank| if rank == own { 0 } else { bytes };
        Self {
            all: (0..all).map(|rank| vec![0; of(rank)]).collect(),
            linktest: linktest.clone(),
            buffers,
            contents,
            times: Times::default(),
            delay: RunDelay::own(),
            stays: BTreeMap::new(),
        }
    }

    /// Processor on which most of the measurements ended. A rank that is not pinned moves: where it waits for a round says nothing.
    pub(crate) fn processor(&self) -> usize {
        let most = self.stays.iter().max_by_key(|(_, count)| **count);
        most.map_or_else(affinity::current, |(processor, _)| *processor)
    }

    /// Does this rank's part in a round. From time to time, and outside of the timed parts, its measurements go to `tell`, each with the nanoseconds
    /// since the round began.
    pub(crate) fn measure(
        &mut self,
        world: &mut World,
        round: &Round,
        mut tell: impl FnMut(Vec<(PairTime, u64)>),
    ) -> Result<(), TesterError> {
        let kernel = match round {
            Round::Whole { .. } => self.linktest.kernel,
            Round::Alone { kernel, .. } | Round::Steps { kernel, .. } => *kernel,
            Round::AllToAll | Round::Table(_) => return Ok(()),
        };
        let both = matches!(round, Round::Whole { .. });
        let mut untold = Vec::new();
        let began_ns = clock::monotonic_ns();
        let mut told_ns = began_ns;
        for (step, pairs) in steps(&self.linktest, round).into_iter().enumerate() {
            let own = world.rank();
            let pair = pairs.iter().find(|pair| pair.0 == own || pair.1 == own);
            if let Some((first, second)) = pair {
                // The link stands and both ranks are ready before anything is timed.
                let partner = if *first == own { *second } else { *first };
                world.send_and_receive((partner, &[]), (From::Rank(partner), &mut []), ASIDE)?;
            }
            for turn in 0..1 + usize::from(both) {
                if self.linktest.check {
                    self.buffers.forget();
                }
                world.barrier()?;
                let Some((first, second)) = pair else {
                    continue;
                };
                let (from, to) = match turn {
                    0 => (*first, *second),
                    _ => (*second, *first),
                };
                let place = (step, turn);
                let time = self.one(world, kernel, place, (from, to))?;
                *self.stays.entry(affinity::current()).or_default() += 1;
                untold.extend(time.map(|time| (time, clock::monotonic_ns() - began_ns)));
            }
            let now_ns = clock::monotonic_ns();
            if now_ns - told_ns >= TELL_NS && !untold.is_empty() {
                told_ns = now_ns;
                tell(std::mem::take(&mut untold));
            }
        }
        world.barrier()?;
        tell(untold);
        Ok(())
    }

    /// Does one measurement. The rank that starts returns its time, the other one returns `None`.
    fn one(
        &mut self,
        world: &mut World,
        kernel: Kernel,
        (step, turn): (usize, usize),
        (from, to): (usize, usize),
    ) -> Result<Option<PairTime>, TesterError> {
        let dose = Dose {
            kernel,
            messages: self.linktest.messages,
            warmups: self.linktest.warmups,
        };
        let leads = world.rank() == from;
        let rank = if leads { to } else { from };
        let began = (clock::monotonic_ns(), world.waited_ns(), self.delay.ns());
        let mut partner = InWorld { world, rank };
        let timed = if leads {
            let ns = kernel::lead(&mut partner, &mut self.buffers, dose, &mut self.times)?;
            Some(kernel.seconds(ns, dose.messages))
        } else {
            kernel::follow(&mut partner, &mut self.buffers, dose, &mut self.times)?;
            None
        };
        let took = clock::monotonic_ns().saturating_sub(began.0).max(1) as f64;
        let waited = world.waited_ns().saturating_sub(began.1) as f64;
        let delayed = self.delay.ns().saturating_sub(began.2) as f64;
        let effort = Effort {
            busy: (1.0 - waited / took).clamp(0.0, 1.0),
            waiting: (delayed / took).clamp(0.0, 1.0),
        };
        self.check(rank, leads, dose)?;
        let Some(seconds) = timed else {
            // Unidirectional messages are timed where they arrive.
            world.send(rank, ASIDE, &encode(effort, self.times.spread(1.0)))?;
            return Ok(None);
        };
        let mut bytes = [0; ASIDE_BYTES];
        world.receive(From::Rank(rank), ASIDE, &mut bytes)?;
        let (other, arrivals) = decode(&bytes);
        Ok(Some(PairTime {
            step,
            from,
            to,
            turn,
            seconds,
            spread: match kernel {
                Kernel::Unidirectional => arrivals,
                Kernel::Semidirectional | Kernel::Bidirectional => self.times.spread(2.0),
            },
            efforts: [effort, other],
        }))
    }

    fn check(&self, from: usize, leads: bool, dose: Dose) -> Result<(), TesterError> {
        if !self.linktest.check || (dose.kernel == Kernel::Unidirectional && leads) {
            return Ok(());
        }
        let messages = dose.messages.max(dose.warmups);
        match self.buffers.first_wrong(self.contents, from, messages) {
            None => Ok(()),
            Some((buffer, at)) => Err(TesterError::Contents { from, buffer, at }),
        }
    }

    /// Does this rank's part in a test of all to all. Returns the seconds for one message to each other rank, all at the same time.
    pub(crate) fn all_to_all(&mut self, world: &mut World) -> Result<f64, TesterError> {
        let (out, _) = self.buffers.turn(0);
        let mut ns = 0;
        for number in 0..self.linktest.warmups + self.linktest.messages {
            // The barrier keeps ranks from sending ahead: a message to a slow rank would stay unread, and count as a dead link.
            world.barrier()?;
            let first_ns = clock::monotonic_ns();
            world.all_to_all(ALL, out, &mut self.all)?;
            if number >= self.linktest.warmups {
                ns += clock::monotonic_ns() - first_ns;
            }
        }
        world.barrier()?;
        Ok(ns as f64 / 1e9 / self.linktest.messages as f64)
    }
}

fn encode(effort: Effort, spread: Option<TimeSpread>) -> [u8; ASIDE_BYTES] {
    let mut bytes = [0; ASIDE_BYTES];
    let spread = spread.unwrap_or_default();
    let figures = [
        effort.busy,
        effort.waiting,
        spread.least_s,
        spread.median_s,
        spread.p90_s,
        spread.p99_s,
        spread.most_s,
        spread.deviation_s,
    ];
    bytes[..8].copy_from_slice(&spread.count.to_le_bytes());
    for (place, figure) in bytes[8..].chunks_mut(8).zip(figures) {
        place.copy_from_slice(&figure.to_le_bytes());
    }
    bytes
}

fn decode(bytes: &[u8; ASIDE_BYTES]) -> (Effort, Option<TimeSpread>) {
    let (words, _) = bytes.as_chunks::<8>();
    let figure = |at: usize| f64::from_le_bytes(words[at]);
    let effort = Effort {
        busy: figure(1),
        waiting: figure(2),
    };
    let count = u64::from_le_bytes(words[0]);
    let spread = (count > 0).then(|| TimeSpread {
        count,
        least_s: figure(3),
        median_s: figure(4),
        p90_s: figure(5),
        p99_s: figure(6),
        most_s: figure(7),
        deviation_s: figure(8),
    });
    (effort, spread)
}

/// Another rank of the world as a kernel's partner.
struct InWorld<'world> {
    world: &'world mut World,
    rank: usize,
}

impl Partner for InWorld<'_> {
    type Error = RankError;

    fn send(&mut self, bytes: &[u8]) -> Result<(), RankError> {
        self.world.send(self.rank, MESSAGE, bytes)
    }

    fn receive(&mut self, into: &mut [u8]) -> Result<(), RankError> {
        let from = From::Rank(self.rank);
        self.world.receive(from, MESSAGE, into).map(|_| ())
    }

    fn both(&mut self, bytes: &[u8], into: &mut [u8]) -> Result<(), RankError> {
        let (to, from) = ((self.rank, bytes), (From::Rank(self.rank), into));
        self.world.send_and_receive(to, from, MESSAGE).map(|_| ())
    }

    fn now_ns(&mut self) -> u64 {
        clock::monotonic_ns()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_survives_the_way() {
        let spread = TimeSpread {
            count: 9,
            least_s: 1.0,
            median_s: 2.0,
            p90_s: 3.0,
            p99_s: 4.0,
            most_s: 5.0,
            deviation_s: 0.5,
        };
        let effort = Effort {
            busy: 0.25,
            waiting: 0.5,
        };
        assert_eq!(
            decode(&encode(effort, Some(spread))),
            (effort, Some(spread))
        );
        assert_eq!(decode(&encode(effort, None)), (effort, None));
    }
}
