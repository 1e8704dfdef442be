//! How recursive halving and doubling do with any number of ranks: those beyond a power of two lend what they have to a neighbour, which
//! speaks for both, and get the result from it.

use super::{Kind, Team, add_floats};
use crate::ranks::RankError;

/// The part of a member while a power of two of them is at work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    /// Speaks, under this number.
    Active(usize),
    /// Waits for the result of the next member.
    Idle,
}

/// Who speaks for whom among `size` members: of the first 2 * `extra`, each odd one speaks for the even one before it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fold {
    /// Members at work.
    pub(super) active: usize,
    /// Pairs with one speaker.
    pub(super) extra: usize,
}

impl Fold {
    pub(super) fn of(size: usize) -> Self {
        let active = 1 << size.max(1).ilog2();
        Self {
            active,
            extra: size - active,
        }
    }

    pub(super) fn part(&self, place: usize) -> Part {
        match place {
            paired if paired >= 2 * self.extra => Part::Active(paired - self.extra),
            odd if odd % 2 == 1 => Part::Active(odd / 2),
            _ => Part::Idle,
        }
    }

    /// The place of an active number.
    pub(super) fn place_of(&self, number: usize) -> usize {
        match number < self.extra {
            true => 2 * number + 1,
            false => number + self.extra,
        }
    }

    /// The places an active number speaks for: they are neighbours.
    pub(super) fn places(&self, number: usize) -> std::ops::Range<usize> {
        let own = self.place_of(number);
        match number < self.extra {
            true => own - 1..own + 1,
            false => own..own + 1,
        }
    }
}

impl Team<'_, '_> {
    /// Those who do not speak give their vectors to those who do; returns the part of this member.
    pub(super) fn fold(&mut self, fold: Fold, vector: &mut [u8]) -> Result<Part, RankError> {
        let place = self.place();
        let part = fold.part(place);
        match part {
            Part::Idle => {
                let mut ops = [self.send(place + 1, Kind::Fold, vector)];
                self.drive(&mut ops)?;
            }
            Part::Active(number) if number < fold.extra => {
                let mut scratch = self.scratch(vector.len());
                let other = &mut scratch[..vector.len()];
                let mut ops = [self.receive(place - 1, Kind::Fold, other)];
                self.drive(&mut ops)?;
                add_floats(vector, &scratch);
                self.give_back(scratch);
            }
            Part::Active(_) => {}
        }
        Ok(part)
    }

    /// Those who spoke for another one tell it the result.
    pub(super) fn unfold(&mut self, fold: Fold, vector: &mut [u8]) -> Result<(), RankError> {
        let place = self.place();
        match fold.part(place) {
            Part::Idle => {
                let mut ops = [self.receive(place + 1, Kind::Fold, vector)];
                self.drive(&mut ops)
            }
            Part::Active(number) if number < fold.extra => {
                let mut ops = [self.send(place - 1, Kind::Fold, vector)];
                self.drive(&mut ops)
            }
            Part::Active(_) => Ok(()),
        }
    }
}
