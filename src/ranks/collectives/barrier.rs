//! Barrier: no member continues before all have arrived.

use super::fold::Fold;
use super::{Kind, Team};
use crate::plan::collective::Algorithm;
use crate::ranks::RankError;

impl Team<'_, '_> {
    /// Returns once all members have called it.
    pub(crate) fn barrier(&mut self, algorithm: Algorithm) -> Result<(), RankError> {
        match algorithm {
            Algorithm::RecursiveDoubling => self.barrier_by_doubling(),
            Algorithm::Linear => self.barrier_by_one(),
            _ => self.barrier_by_dissemination(),
        }
    }

    /// Dissemination: in round k each member signals the one 2^k above it, and waits for the one 2^k below (Hensgen, Finkel, Manber 1988).
    fn barrier_by_dissemination(&mut self) -> Result<(), RankError> {
        let (own, size) = (self.place(), self.size());
        let mut distance = 1;
        while distance < size {
            let (to, from) = ((own + distance) % size, (own + size - distance) % size);
            self.swap(Kind::Barrier, (to, &[]), (from, &mut []))?;
            distance *= 2;
        }
        Ok(())
    }

    fn barrier_by_doubling(&mut self) -> Result<(), RankError> {
        let fold = Fold::of(self.size());
        if let Some(number) = self.fold(fold, &mut [])? {
            let mut bit = 1;
            while bit < fold.active {
                let other = fold.place_of(number ^ bit);
                self.swap(Kind::Barrier, (other, &[]), (other, &mut []))?;
                bit *= 2;
            }
        }
        self.unfold(fold, &mut [])
    }

    /// Linear: all signal the first member, which then signals all.
    fn barrier_by_one(&mut self) -> Result<(), RankError> {
        if self.place() > 0 {
            return self.swap(Kind::Barrier, (0, &[]), (0, &mut []));
        }
        let others = 1..self.size();
        let mut heard: Vec<_> = others
            .clone()
            .map(|other| self.receive(other, Kind::Barrier, &mut []))
            .collect();
        self.drive(&mut heard)?;
        let mut told: Vec<_> = others
            .map(|other| self.send(other, Kind::Barrier, &[]))
            .collect();
        self.drive(&mut told)
    }
}
