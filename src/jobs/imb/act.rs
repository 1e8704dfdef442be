//! Action that a rank repeats in a line, for all kinds of benchmarks: messages, windows or files.

use crate::ranks::{Group, World};
use crate::sys::clock;

use super::PlayerError;
use super::compute::Work;
use super::contents::Wrong;
use super::files::{self, Files, Place};
use super::messages::Messages;
use super::windows::Windows;

/// The repeated action, with its memory.
pub(super) enum Act {
    /// Messages between ranks.
    Messages(Messages),
    /// Memory that other ranks access.
    Windows(Windows),
    /// A file that is written or read.
    Files(Box<Files>),
    /// A file that is opened and closed.
    Opening(Place, Group),
}

impl Act {
    /// Does one repetition, complete at the end.
    pub(super) fn repeat(
        &mut self,
        world: &mut World,
        repetition: usize,
    ) -> Result<(), PlayerError> {
        match self {
            Self::Messages(messages) => messages.repeat(world, repetition)?,
            Self::Windows(windows) => windows.repeat(world, repetition)?,
            Self::Files(files) => {
                files.transfer(world, repetition)?;
                files.complete(world)?;
            }
            Self::Opening(place, group) => files::open_close(world, group, place)?,
        }
        Ok(())
    }

    /// Number of transfers, out of `transfers`, that go to different places.
    pub(super) fn apart(&self, transfers: usize) -> usize {
        match self {
            Self::Windows(windows) => windows.apart(transfers),
            Self::Messages(_) | Self::Files(_) | Self::Opening(..) => transfers,
        }
    }

    /// Number of the next repetition after `repetitions` others, once memory or file were wiped.
    pub(super) fn after(&self, repetitions: usize) -> usize {
        match self {
            Self::Messages(_) | Self::Windows(_) => repetitions,
            Self::Files(_) | Self::Opening(..) => 0,
        }
    }

    /// Does `count` repetitions, complete together at the end.
    pub(super) fn together(&mut self, world: &mut World, count: usize) -> Result<(), PlayerError> {
        match self {
            Self::Messages(_) | Self::Opening(..) => {
                (0..count).try_for_each(|number| self.repeat(world, number))
            }
            Self::Windows(windows) => Ok(windows.transfers(world, 0, count)?),
            Self::Files(files) => {
                (0..count).try_for_each(|number| files.transfer(world, number))?;
                files.complete(world)
            }
        }
    }

    /// Moves positions in files back to their start. All members call it.
    pub(super) fn restart(&mut self, world: &mut World) -> Result<(), PlayerError> {
        match self {
            Self::Files(files) => files.reopen(world),
            Self::Messages(_) | Self::Windows(_) | Self::Opening(..) => Ok(()),
        }
    }

    /// Clears the transferred data. All members call it.
    pub(super) fn wipe(&mut self, world: &mut World) -> Result<(), PlayerError> {
        match self {
            Self::Messages(messages) => {
                messages.wipe();
                Ok(())
            }
            Self::Windows(windows) => Ok(windows.wipe(world)?),
            Self::Files(files) => files.wipe(world),
            Self::Opening(..) => Ok(()),
        }
    }

    /// The first error in the data of repetition number `repetition`, or of `transfers` transfers together.
    pub(super) fn check(
        &self,
        world: &mut World,
        repetition: usize,
        transfers: usize,
    ) -> Result<Option<Wrong>, PlayerError> {
        match self {
            Self::Messages(messages) => Ok(messages.check(repetition + 1)),
            Self::Windows(windows) => Ok(windows.check(world, transfers)),
            Self::Files(files) => files.check(world, transfers),
            Self::Opening(..) => Ok(None),
        }
    }

    /// The file that is written or read, if there is one.
    pub(super) fn files(&self) -> Option<&Files> {
        match self {
            Self::Files(files) => Some(files),
            Self::Messages(_) | Self::Windows(_) | Self::Opening(..) => None,
        }
    }

    /// Frees windows and memory. All members call it.
    pub(super) fn end(self, world: &mut World) -> Result<(), PlayerError> {
        match self {
            Self::Messages(_) | Self::Files(_) | Self::Opening(..) => Ok(()),
            Self::Windows(windows) => Ok(windows.end(world)?),
        }
    }
}

/// Does `count` transfers of a file, each while the rank computes, complete together at the end. Returns the nanoseconds and the number of
/// transfers, as one batch.
pub(super) fn overlapped(
    world: &mut World,
    act: &mut Act,
    count: usize,
    work: Option<&Work>,
) -> Result<Vec<(u64, usize)>, PlayerError> {
    let began_ns = clock::monotonic_ns();
    if let Act::Files(files) = act {
        for number in 0..count {
            files.overlapped(world, number, || work.into_iter().for_each(Work::run))?;
        }
        files.complete(world)?;
    }
    Ok(vec![(clock::monotonic_ns() - began_ns, count)])
}
