//! Recursive halving and doubling for any number of ranks: a member beyond a power of two gives its data to a neighbour. The neighbour acts
//! for both and returns the result.

use super::{Kind, Team};
use crate::ranks::RankError;
use crate::ranks::pieces::add_floats;

/// Role of a member while a power of two of them is active.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    /// Active, with this number.
    Active(usize),
    /// Idle: waits for the result of the next member.
    Idle,
}

/// Assignment among `size` members: of the first 2 * `extra`, each odd one acts for the even one before it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fold {
    /// Active members.
    pub(super) active: usize,
    /// Pairs with one active member.
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

    /// Place of an active number.
    pub(super) fn place_of(&self, number: usize) -> usize {
        if number < self.extra {
            2 * number + 1
        } else {
            number + self.extra
        }
    }

    /// Places that an active number acts for; they are neighbours.
    pub(super) fn places(&self, number: usize) -> std::ops::Range<usize> {
        let own = self.place_of(number);
        if number < self.extra {
            own - 1..own + 1
        } else {
            own..own + 1
        }
    }
}

impl Team<'_, '_> {
    /// Idle members give their vectors to their active neighbours, which add them. Returns the role of this member.
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

    /// Active members of pairs send the result to their idle neighbours.
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
