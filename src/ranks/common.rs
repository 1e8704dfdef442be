//! Memory that the ranks of a node have in common: a ring from each to each, and for each an arena from which the others can copy.
//!
//! It is made before the ranks are, has no name, and goes with the last of them.
//!
//! ```text
//!  | asleep 0 | asleep 1 | ... |        a line each: whether that rank must be woken
//!  | ring 0 -> 0 | ring 0 -> 1 | ...    a line of its reader, then cells
//!  | arena 0 | arena 1 | ...            buffers of messages
//! ```

use std::io;
use std::os::fd::{AsFd, BorrowedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use crate::sys::arena::Arena;
use crate::sys::bell::Bell;
use crate::sys::memory::Region;

/// What a processor takes from another one at a time.
pub const CELL_BYTES: usize = 64;
/// Where arenas begin.
const PAGE_BYTES: usize = 4096;
/// Rings are this long as long as all of them together stay below the limit.
pub const CELLS: usize = 1024;
/// They are no shorter than this.
pub const LEAST_CELLS: usize = 256;
const RINGS_BYTES: usize = 64 << 20;

/// The memory of the ranks of a node, by their places on it.
pub struct Common {
    region: Arc<Region>,
    places: usize,
    cells: usize,
    arena_bytes: usize,
    bells: Vec<Bell>,
}

impl Common {
    /// For so many ranks, with arenas of so many bytes each. Nothing of it is used before it is written.
    pub fn new(places: usize, arena_bytes: usize) -> io::Result<Self> {
        let too_much = || io::Error::from(io::ErrorKind::OutOfMemory);
        let cells = cells_for(places);
        let arena_bytes = arena_bytes
            .checked_next_multiple_of(PAGE_BYTES)
            .ok_or_else(too_much)?;
        let bytes = places
            .checked_mul(arena_bytes)
            .and_then(|arenas| arenas.checked_add(arenas_begin(places, cells)))
            .ok_or_else(too_much)?;
        Ok(Self {
            region: Arc::new(Region::new("pipebench-ranks", bytes)?),
            places,
            cells,
            arena_bytes,
            bells: (0..places)
                .map(|_| Bell::new())
                .collect::<io::Result<_>>()?,
        })
    }

    /// Bytes of all rings between so many ranks: they are there from the start, whether or not anything goes over them.
    pub fn rings_bytes(places: usize) -> usize {
        let line = (1 + cells_for(places)) * CELL_BYTES;
        places.saturating_mul(places).saturating_mul(line)
    }

    /// Ranks that have it.
    pub fn places(&self) -> usize {
        self.places
    }

    /// Cells of a ring.
    pub fn cells(&self) -> usize {
        self.cells
    }

    /// All of it.
    pub fn region(&self) -> &Region {
        &self.region
    }

    /// The arena of the rank at a place; nobody else may ask for it.
    pub fn arena(&self, place: usize) -> Arena {
        let begin = arenas_begin(self.places, self.cells) + place * self.arena_bytes;
        Arena::new(Arc::clone(&self.region), begin, self.arena_bytes)
    }

    /// Where the ring from one to another begins: a line of its reader, and its cells.
    pub fn ring(&self, from: usize, to: usize) -> usize {
        assert!(from < self.places && to < self.places, "nobody is there");
        self.places * CELL_BYTES + (from * self.places + to) * (1 + self.cells) * CELL_BYTES
    }

    fn asleep(&self, place: usize) -> &AtomicU64 {
        &self.region.words(place * CELL_BYTES, 1)[0]
    }

    /// The rank at a place is about to sleep: what is written from now on wakes it. It looks once more before it does.
    pub fn lie_down(&self, place: usize) {
        self.asleep(place).store(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// It is awake again.
    pub fn get_up(&self, place: usize) {
        self.asleep(place).store(0, Ordering::Relaxed);
        self.bells[place].hush();
    }

    /// Something was written that the rank at a place may wait for.
    pub fn wake(&self, place: usize) {
        // What was written is seen before the other one's sleep is, or the other one sees it before it sleeps.
        fence(Ordering::SeqCst);
        if self.asleep(place).load(Ordering::Relaxed) != 0 {
            self.bells[place].ring();
        }
    }

    /// What the rank at a place is woken by.
    pub fn bell(&self, place: usize) -> BorrowedFd<'_> {
        self.bells[place].as_fd()
    }

    /// Descriptors that all of them need.
    pub fn descriptors(&self) -> impl Iterator<Item = RawFd> {
        self.bells.iter().map(Bell::number)
    }
}

fn cells_for(places: usize) -> usize {
    let bytes = places
        .saturating_mul(places)
        .saturating_mul((1 + CELLS) * CELL_BYTES);
    if bytes <= RINGS_BYTES {
        CELLS
    } else {
        LEAST_CELLS
    }
}

fn arenas_begin(places: usize, cells: usize) -> usize {
    let end = places * CELL_BYTES + places * places * (1 + cells) * CELL_BYTES;
    end.next_multiple_of(PAGE_BYTES)
}
