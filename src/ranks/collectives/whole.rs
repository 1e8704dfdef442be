//! Collective operations of all ranks of a job.

use crate::plan::collective::Algorithm;
use crate::ranks::error::RankError;
use crate::ranks::op::{From, Op, Until};
use crate::ranks::world::World;

impl World {
    /// Returns once all ranks have called it.
    pub(crate) fn barrier(&mut self) -> Result<(), RankError> {
        let all = self.whole.clone();
        self.team(&all).barrier(Algorithm::Dissemination)
    }

    /// Copies the bytes of `root` to all ranks.
    #[cfg(test)]
    pub(crate) fn broadcast(&mut self, root: usize, bytes: &mut [u8]) -> Result<(), RankError> {
        let all = self.whole.clone();
        self.team(&all).broadcast(Algorithm::Binomial, root, bytes)
    }

    /// Sends `out` to every other rank and receives as much from each, all at the same time. The bytes from rank r are in `into[r]`.
    pub(crate) fn all_to_all(
        &mut self,
        tag: u32,
        out: &[u8],
        into: &mut [Vec<u8>],
    ) -> Result<(), RankError> {
        let (own, size) = (self.rank(), self.size());
        let mut ops = Vec::with_capacity(2 * size);
        for (rank, into) in into.iter_mut().enumerate().filter(|(rank, _)| *rank != own) {
            ops.push(Op::receive(From::Rank(rank), tag, into));
        }
        // Each rank begins with its neighbour, so that not all send to the same one.
        for distance in 1..size {
            ops.push(Op::send((own + distance) % size, tag, out));
        }
        self.drive(&mut ops, Until::All)
    }
}
