//! Recursive halving and doubling for any number of ranks: a member beyond a power of two gives its data to a neighbour. The neighbour acts
//! for both and returns the result.

use super::{Kind, Team};
use crate::ranks::RankError;
use crate::ranks::pieces::add_floats;

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

    /// Number of the member at a place; `None` if it is idle and waits for the result of the next member.
    pub(super) fn number_of(&self, place: usize) -> Option<usize> {
        match place {
            alone if alone >= 2 * self.extra => Some(alone - self.extra),
            odd if odd % 2 == 1 => Some(odd / 2),
            _ => None,
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
        own - usize::from(number < self.extra)..own + 1
    }
}

impl Team<'_, '_> {
    /// Idle members give their vectors to their active neighbours, which add them. Returns this member's number, if it is active.
    pub(super) fn fold(
        &mut self,
        fold: Fold,
        vector: &mut [u8],
    ) -> Result<Option<usize>, RankError> {
        let place = self.place();
        let number = fold.number_of(place);
        match number {
            None => {
                let mut ops = [self.send(place + 1, Kind::Fold, vector)];
                self.drive(&mut ops)?;
            }
            Some(number) if number < fold.extra => {
                let mut scratch = self.scratch(vector.len());
                let other = &mut scratch[..vector.len()];
                let mut ops = [self.receive(place - 1, Kind::Fold, other)];
                self.drive(&mut ops)?;
                add_floats(vector, &scratch);
                self.give_back(scratch);
            }
            Some(_) => {}
        }
        Ok(number)
    }

    /// Active members of pairs send the result to their idle neighbours.
    pub(super) fn unfold(&mut self, fold: Fold, vector: &mut [u8]) -> Result<(), RankError> {
        let place = self.place();
        match fold.number_of(place) {
            None => {
                let mut ops = [self.receive(place + 1, Kind::Fold, vector)];
                self.drive(&mut ops)
            }
            Some(number) if number < fold.extra => {
                let mut ops = [self.send(place - 1, Kind::Fold, vector)];
                self.drive(&mut ops)
            }
            Some(_) => Ok(()),
        }
    }
}
