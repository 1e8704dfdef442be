//! Shared memory of the ranks of a node: a ring from each rank to each, and for each rank an arena from which the others can copy.
//!
//! It is created before the rank processes, has no name, and disappears with the last of them.
//!
//! ```text
//!  | asleep 0 | asleep 1 | ... |        one cache line each: nonzero if that rank must be woken
//!  | ring 0 -> 0 | ring 0 -> 1 | ...    one cache line of the reader, then cells
//!  | arena 0 | arena 1 | ...            message buffers
//! ```

use std::io;
use std::os::fd::{AsFd, BorrowedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use crate::sys::arena::Arena;
use crate::sys::bell::Bell;
use crate::sys::memory::Region;

/// Bytes that a processor fetches from another one at a time: a cache line.
pub(super) const CELL_BYTES: usize = 64;
/// Alignment of the arenas.
const PAGE_BYTES: usize = 4096;
/// Cells of a ring while all rings together stay below `RINGS_BYTES`.
pub(super) const CELLS: usize = 1024;
/// Cells of a ring otherwise.
pub(super) const LEAST_CELLS: usize = 256;
const RINGS_BYTES: usize = 64 << 20;

/// Shared memory of the ranks of a node, indexed by their places on it.
pub(crate) struct SharedMemory {
    /// The whole memory.
    pub(super) region: Arc<Region>,
    places: usize,
    /// Cells per ring.
    pub(super) cells: usize,
    arena_bytes: usize,
    bells: Vec<Bell>,
}

impl SharedMemory {
    /// Creates the memory for `places` ranks, with an arena of at least `arena_bytes` bytes each. No page is used before it is written.
    /// Fails if the sizes overflow, or if the kernel refuses the memory or a doorbell.
    pub(crate) fn new(places: usize, arena_bytes: usize) -> io::Result<Self> {
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

    /// Bytes of all rings between `places` ranks. The rings exist from the start, used or not.
    pub(crate) fn rings_bytes(places: usize) -> usize {
        let line = (1 + cells_for(places)) * CELL_BYTES;
        places.saturating_mul(places).saturating_mul(line)
    }

    /// The arena of the rank at a place. Only that rank may ask for it.
    pub(crate) fn arena(&self, place: usize) -> Arena {
        let begin = arenas_begin(self.places, self.cells) + place * self.arena_bytes;
        Arena::new(Arc::clone(&self.region), begin, self.arena_bytes)
    }

    /// Offset of the ring from one place to another, in bytes. The cache line of its reader comes first, then its cells.
    pub(crate) fn ring(&self, from: usize, to: usize) -> usize {
        assert!(
            from < self.places && to < self.places,
            "no ring from place {from} to place {to}"
        );
        self.places * CELL_BYTES + (from * self.places + to) * (1 + self.cells) * CELL_BYTES
    }

    fn asleep(&self, place: usize) -> &AtomicU64 {
        &self.region.words(place * CELL_BYTES, 1)[0]
    }

    /// Announces that the rank at a place is about to sleep: from now on a write wakes it. The rank must look once more before it sleeps.
    pub(crate) fn announce_sleep(&self, place: usize) {
        self.asleep(place).store(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// Announces that the rank at a place is awake, and silences its doorbell.
    pub(crate) fn announce_awake(&self, place: usize) {
        self.asleep(place).store(0, Ordering::Relaxed);
        self.bells[place].clear();
    }

    /// Wakes the rank at a place, if it sleeps. Call it after a write that this rank can wait for.
    pub(crate) fn wake(&self, place: usize) {
        // Either this rank sees that the other one sleeps, or the other one sees the write before it sleeps.
        fence(Ordering::SeqCst);
        if self.asleep(place).load(Ordering::Relaxed) != 0 {
            self.bells[place].ring();
        }
    }

    /// Doorbell of the rank at a place: it becomes readable to wake that rank.
    pub(crate) fn bell(&self, place: usize) -> BorrowedFd<'_> {
        self.bells[place].as_fd()
    }

    /// Descriptors that all ranks need: the doorbells.
    pub(crate) fn descriptors(&self) -> impl Iterator<Item = RawFd> {
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
