//! One transfer of each benchmark of windows, as the guide defines it (4.2.3): one rank accesses the window of another one.

use crate::plan::imb::Benchmark;
use crate::ranks::{Group, RankError, World};
use crate::sys::arena::Buffer;

use super::contents::{self, Scene, Wrong};

/// A rank with its window and its buffer for one message length.
pub(super) struct Windows {
    benchmark: Benchmark,
    group: Group,
    bytes: usize,
    /// Number of places that transfers use in turn, in the window and in the buffer.
    places: (usize, usize),
    /// Data to put, or data that was got.
    buffer: Buffer,
}

impl Windows {
    /// Opens windows with contents at all members. All members call it.
    pub(super) fn new(
        world: &mut World,
        benchmark: Benchmark,
        group: &Group,
        bytes: usize,
        places: (usize, usize),
    ) -> Result<Self, RankError> {
        let place = group.place();
        let mut windows = Self {
            benchmark,
            group: group.clone(),
            bytes,
            places,
            buffer: world.buffer(bytes * places.1),
        };
        if benchmark != Benchmark::Window {
            let mut memory = world.buffer(bytes * places.0);
            if benchmark.gets() {
                contents::write(place, 0, &mut memory)
            } else {
                memory.fill(0)
            }
            world.open_window(group, memory)?;
            world.touch_windows();
        }
        if benchmark.gets() {
            windows.buffer.fill(0)
        } else {
            contents::write(place, 0, &mut windows.buffer)
        }
        Ok(windows)
    }

    /// Does one transfer, complete at the end.
    pub(super) fn repeat(&mut self, world: &mut World, repetition: usize) -> Result<(), RankError> {
        match self.benchmark {
            Benchmark::Window => self.window(world),
            _ => self.transfers(world, repetition, 1),
        }
    }

    /// Clears the transferred data, so that none of it is mistaken for later data. All members call it.
    pub(super) fn wipe(&mut self, world: &mut World) -> Result<(), RankError> {
        if self.benchmark.gets() {
            self.buffer.fill(0xff);
            return Ok(());
        }
        let blank = match self.benchmark {
            Benchmark::Accumulate => 0,
            _ => 0xff,
        };
        if let Some(window) = world.window() {
            window.fill(blank);
        }
        world.fence()
    }

    /// Number of transfers, out of `transfers`, that go to different places.
    pub(super) fn apart(&self, transfers: usize) -> usize {
        transfers.min(self.places.0)
    }

    /// The first error after `transfers` transfers into wiped memory, each to a different place.
    pub(super) fn check(&self, world: &mut World, transfers: usize) -> Option<Wrong> {
        let scene = Scene {
            benchmark: self.benchmark,
            place: self.group.place(),
            size: self.group.size(),
            bytes: self.bytes * transfers,
            root: 0,
        };
        if self.benchmark.gets() {
            scene.check(&self.buffer)
        } else {
            scene.check(world.window()?)
        }
    }

    /// Closes the windows. All members call it.
    pub(super) fn end(self, world: &mut World) -> Result<(), RankError> {
        if self.benchmark != Benchmark::Window {
            world.close_window()?;
        }
        Ok(())
    }

    /// Opens a window, accesses it from its own rank, and closes it.
    fn window(&mut self, world: &mut World) -> Result<(), RankError> {
        let memory = world.buffer(self.bytes);
        world.open_window(&self.group, memory)?;
        world.fence()?;
        if self.bytes > 0 {
            let mut access = world.access();
            access.put(self.group.place(), 0, &[1])?;
            access.fence()?;
        } else {
            world.fence()?;
        }
        world.close_window()?;
        Ok(())
    }

    /// Does `count` transfers from number `first` on, complete together at the end.
    pub(super) fn transfers(
        &mut self,
        world: &mut World,
        first: usize,
        count: usize,
    ) -> Result<(), RankError> {
        let (place, bytes) = (self.group.place(), self.bytes);
        let other = self.group.size() - 1 - place;
        // Without bytes nothing is done but the fence.
        let count = if bytes == 0 { 0 } else { count };
        let at = |transfer: usize, places: usize| transfer % places.max(1) * bytes;
        let mut access = world.access();
        match self.benchmark {
            Benchmark::UnidirPut if place > 0 => {}
            Benchmark::UnidirGet if place == 0 => {}
            Benchmark::UnidirGet | Benchmark::BidirGet => {
                let places = self.buffer.chunks_exact_mut(bytes.max(1));
                for (transfer, into) in places.enumerate().take(count) {
                    access.get(other, at(transfer, self.places.0), into)?;
                }
            }
            benchmark => {
                for transfer in first..first + count {
                    let from = at(transfer, self.places.1);
                    let from = &self.buffer[from..from + bytes];
                    let at = at(transfer, self.places.0);
                    match benchmark {
                        Benchmark::Accumulate => access.add(0, at, from)?,
                        _ => access.put(other, at, from)?,
                    }
                }
            }
        }
        access.fence()
    }
}
