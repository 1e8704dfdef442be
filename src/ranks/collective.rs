//! What all ranks do together.

use super::exchange::Op;
use super::{From, OWN_TAGS, RankError, World};

/// Tag of the messages of a barrier.
const BARRIER: u32 = OWN_TAGS;
/// Tag of the messages of a broadcast.
const BROADCAST: u32 = OWN_TAGS + 1;

impl World {
    /// Returns when all ranks have called it: in round k each tells the rank 2^k above it, and hears of the one 2^k below
    /// (dissemination; Hensgen, Finkel, Manber 1988).
    pub fn barrier(&mut self) -> Result<(), RankError> {
        let (own, size) = (self.rank(), self.size());
        let mut distance = 1;
        while distance < size {
            let to = (own + distance) % size;
            let from = (own + size - distance) % size;
            let mut nothing = [];
            let mut ops = [
                Op::receive(From::Rank(from), BARRIER, &mut nothing),
                Op::send(to, BARRIER, &[]),
            ];
            self.drive(&mut ops, None)?;
            distance *= 2;
        }
        Ok(())
    }

    /// Gives what `root` has to all, along a binomial tree.
    pub fn broadcast(&mut self, root: usize, bytes: &mut [u8]) -> Result<(), RankError> {
        let size = self.size();
        let place = (self.rank() + size - root) % size;
        let rank_at = |place: usize| (place + root) % size;
        let mut distance = 1;
        while distance < size {
            if place >= distance && place < 2 * distance {
                self.receive(From::Rank(rank_at(place - distance)), BROADCAST, bytes)?;
            } else if place < distance && place + distance < size {
                self.send(rank_at(place + distance), BROADCAST, bytes)?;
            }
            distance *= 2;
        }
        Ok(())
    }

    /// Sends `out` to every other rank and receives as much from each, all at the same time; what rank r sent stands in
    /// `into[r]`.
    pub fn all_to_all(
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
        // Each begins with its neighbour, so that not all send to the same rank.
        for distance in 1..size {
            ops.push(Op::send((own + distance) % size, tag, out));
        }
        self.drive(&mut ops, None)
    }
}
