//! One repetition of each benchmark of messages, as the guide defines it.

use std::ops::Range;

use crate::plan::collective::Algorithm;
use crate::plan::imb::{Benchmark, lot};
use crate::ranks::{From, Group, ITEM_BYTES, RankError, World, ranges, split};
use crate::sys::arena::Buffer;

use super::contents;

/// Tag of the messages of benchmarks.
const MESSAGE: u32 = 11;
/// Tag of receipts.
const RECEIPT: u32 = 12;
/// A rank with its buffers for one message length.
pub(super) struct Messages {
    benchmark: Benchmark,
    group: Group,
    algorithm: Option<Algorithm>,
    bytes: usize,
    /// Messages in a window of Uniband and Biband.
    window: usize,
    out: Buffer,
    into: Buffer,
    /// Block of each place: one message length, or its part of one vector.
    blocks: Vec<Range<usize>>,
    /// True if the root moves from repetition to repetition.
    rotates: bool,
}

impl Messages {
    /// Creates buffers with contents, and touches every page of them.
    pub(super) fn new(
        world: &World,
        benchmark: Benchmark,
        group: Group,
        algorithm: Option<Algorithm>,
        (bytes, window): (usize, usize),
        rotates: bool,
    ) -> Self {
        let size = group.size();
        let (out, into) = match benchmark {
            Benchmark::Exchange => (2 * bytes, 2 * bytes),
            Benchmark::Biband => (bytes, lot(window, bytes) * bytes),
            Benchmark::Allgather | Benchmark::Allgatherv => (bytes, size * bytes),
            Benchmark::Gather | Benchmark::Gatherv => (bytes, size * bytes),
            Benchmark::Scatter | Benchmark::Scatterv => (size * bytes, bytes),
            Benchmark::Alltoall | Benchmark::Alltoallv => (size * bytes, size * bytes),
            Benchmark::ReduceScatterBlock => (size * bytes, size * bytes),
            _ => (bytes, bytes),
        };
        let mut messages = Self {
            benchmark,
            algorithm,
            bytes,
            window,
            out: world.buffer(out),
            into: world.buffer(into),
            blocks: match benchmark {
                Benchmark::ReduceScatter => split(bytes, ITEM_BYTES, size),
                _ => ranges(&vec![bytes; size]),
            },
            rotates,
            group,
        };
        contents::write(messages.group.place(), 0, &mut messages.out);
        messages.into.fill(0);
        messages
    }

    /// Place of the root in a repetition: another one each time (guide 3.3.4), or always the first.
    fn root(&self, repetition: usize) -> usize {
        if self.rotates && self.benchmark.is_rooted() {
            repetition % self.group.size()
        } else {
            0
        }
    }

    /// Does one repetition.
    pub(super) fn repeat(&mut self, world: &mut World, repetition: usize) -> Result<(), RankError> {
        match self.benchmark {
            Benchmark::PingPong => self.ping_pong(world),
            Benchmark::PingPing | Benchmark::Sendrecv => self.around(world),
            Benchmark::Exchange => self.exchange(world),
            Benchmark::Uniband => self.one_way(world),
            Benchmark::Biband => self.both_ways(world),
            Benchmark::Barrier => self.together(world, 0),
            // Without bytes nothing is done, as in MPI libraries.
            _ if self.bytes == 0 => Ok(()),
            _ => self.together(world, self.root(repetition)),
        }
    }

    /// Clears the received data, so that none of it is mistaken for later data.
    pub(super) fn wipe(&mut self) {
        self.into.fill(0xff);
    }

    /// The first error in the data received in the last of `repetitions` repetitions.
    pub(super) fn check(&self, repetitions: usize) -> Option<contents::Wrong> {
        let scene = contents::Scene {
            benchmark: self.benchmark,
            place: self.group.place(),
            size: self.group.size(),
            bytes: self.bytes,
            root: self.root(repetitions.saturating_sub(1)),
        };
        scene.check(&self.into)
    }

    /// Changes the received data, so that a check finds an error.
    #[cfg(test)]
    pub(crate) fn spoil(&mut self) {
        if let Some(byte) = self.into.first_mut() {
            *byte ^= 0x40;
        }
    }

    fn ping_pong(&mut self, world: &mut World) -> Result<(), RankError> {
        let other = self.group.rank_at(1 - self.group.place().min(1));
        if self.group.place() == 0 {
            world.send(other, MESSAGE, &self.out)?;
            world.receive(From::Rank(other), MESSAGE, &mut self.into)?;
        } else {
            world.receive(From::Rank(other), MESSAGE, &mut self.into)?;
            world.send(other, MESSAGE, &self.out)?;
        }
        Ok(())
    }

    /// Sends to the right and receives from the left, at the same time. With two ranks both are the same rank.
    fn around(&mut self, world: &mut World) -> Result<(), RankError> {
        let (place, size) = (self.group.place(), self.group.size());
        if size == 1 {
            self.into.copy_from_slice(&self.out);
            return Ok(());
        }
        let to = self.group.rank_at((place + 1) % size);
        let from = self.group.rank_at((place + size - 1) % size);
        world.send_and_receive((to, &self.out), (From::Rank(from), &mut self.into), MESSAGE)?;
        Ok(())
    }

    fn exchange(&mut self, world: &mut World) -> Result<(), RankError> {
        let (place, size) = (self.group.place(), self.group.size());
        if size == 1 {
            self.into.copy_from_slice(&self.out);
            return Ok(());
        }
        let right = self.group.rank_at((place + 1) % size);
        let left = self.group.rank_at((place + size - 1) % size);
        let (to_right, to_left) = self.out.split_at(self.bytes);
        let (from_left, from_right) = self.into.split_at_mut(self.bytes);
        let mut exchange = world.exchange();
        exchange.start_receive(From::Rank(left), MESSAGE, from_left);
        exchange.start_receive(From::Rank(right), MESSAGE, from_right);
        exchange.start_send(right, MESSAGE, to_right);
        exchange.start_send(left, MESSAGE, to_left);
        exchange.wait_all()?;
        Ok(())
    }

    /// Partner in the other half of the group, and true if this rank is in the first half.
    fn opposite(&self) -> (usize, bool) {
        let (place, half) = (self.group.place(), self.group.size() / 2);
        let begins = place < half;
        let other = if begins { place + half } else { place - half };
        (self.group.rank_at(other), begins)
    }

    fn one_way(&mut self, world: &mut World) -> Result<(), RankError> {
        let (other, sends) = self.opposite();
        let mut receipt = [0; 1];
        if sends {
            let mut exchange = world.exchange();
            for _ in 0..self.window {
                exchange.start_send(other, MESSAGE, &self.out);
            }
            exchange.wait_all()?;
            world.receive(From::Rank(other), RECEIPT, &mut receipt)?;
        } else {
            for _ in 0..self.window {
                world.receive(From::Rank(other), MESSAGE, &mut self.into)?;
            }
            world.send(other, RECEIPT, &receipt)?;
        }
        Ok(())
    }

    fn both_ways(&mut self, world: &mut World) -> Result<(), RankError> {
        let (other, begins) = self.opposite();
        let most = lot(self.window, self.bytes);
        for done in (0..self.window).step_by(most) {
            let lot = most.min(self.window - done);
            let mut exchange = world.exchange();
            if self.bytes == 0 {
                for _ in 0..lot {
                    exchange.start_receive(From::Rank(other), MESSAGE, &mut []);
                }
            }
            for into in self.into.chunks_mut(self.bytes.max(1)).take(lot) {
                exchange.start_receive(From::Rank(other), MESSAGE, into);
            }
            for _ in 0..lot {
                exchange.start_send(other, MESSAGE, &self.out);
            }
            exchange.wait_all()?;
        }
        let mut receipt = [0; 1];
        match begins {
            true => world
                .receive(From::Rank(other), RECEIPT, &mut receipt)
                .map(|_| ()),
            false => world.send(other, RECEIPT, &receipt),
        }
    }

    fn together(&mut self, world: &mut World, root: usize) -> Result<(), RankError> {
        let Self {
            benchmark,
            group,
            algorithm,
            out,
            into,
            blocks,
            ..
        } = self;
        let place = group.place();
        let mut team = world.team(group);
        let by = algorithm.unwrap_or(Algorithm::Linear);
        // Sums are formed in place.
        if benchmark.item_bytes() == ITEM_BYTES {
            into.copy_from_slice(out);
        }
        match benchmark {
            Benchmark::Barrier => team.barrier(by),
            Benchmark::Bcast if place == root => team.broadcast(by, root, out),
            Benchmark::Bcast => team.broadcast(by, root, into),
            Benchmark::Gather | Benchmark::Gatherv => team.gather(by, root, out, into, blocks),
            Benchmark::Scatter | Benchmark::Scatterv => team.scatter(by, root, out, into, blocks),
            Benchmark::Allgather | Benchmark::Allgatherv => team.allgather(by, out, into, blocks),
            Benchmark::Alltoall | Benchmark::Alltoallv => {
                team.alltoall(by, (out, blocks), (into, blocks))
            }
            Benchmark::Reduce => team.reduce(by, root, into),
            Benchmark::Allreduce => team.allreduce(by, into),
            Benchmark::ReduceScatter | Benchmark::ReduceScatterBlock => {
                team.reduce_scatter(by, into, blocks)
            }
            _ => Ok(()),
        }
    }
}
