//! Message buffers: private memory of a process, or a piece of a region that other processes of the node can also read.

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, PoisonError};

use super::memory::Region;

/// The part of a region in which one process allocates its buffers.
#[derive(Clone)]
pub(crate) struct Arena {
    room: Arc<Room>,
}

struct Room {
    region: Arc<Region>,
    begin: usize,
    bytes: usize,
    /// Buffers in use, each with its first byte and its length, sorted by first byte.
    live: Mutex<Vec<(usize, usize)>>,
}

/// A message buffer. It owns its bytes.
pub(crate) struct Buffer {
    memory: Memory,
}

enum Memory {
    Own(Vec<u8>),
    Shared {
        room: Arc<Room>,
        begin: usize,
        bytes: usize,
    },
}

/// Buffers begin at page boundaries, because copies between such buffers are fastest.
const ALIGN: usize = 4096;

impl Arena {
    /// Makes an arena of the bytes `begin..begin + bytes` of a region. The caller must give each part of a region to one arena only.
    pub(crate) fn new(region: Arc<Region>, begin: usize, bytes: usize) -> Self {
        assert!(
            begin.is_multiple_of(ALIGN) && begin + bytes <= region.bytes(),
            "arena outside of its region"
        );
        Self {
            room: Arc::new(Room {
                region,
                begin,
                bytes,
                live: Mutex::new(Vec::new()),
            }),
        }
    }

    /// Allocates a buffer and does not clear its bytes. `None` if the arena has no room.
    pub(crate) fn take(&self, bytes: usize) -> Option<Buffer> {
        let room = &self.room;
        let wanted = bytes.max(1).checked_next_multiple_of(ALIGN)?;
        let mut live = room.live.lock().unwrap_or_else(PoisonError::into_inner);
        let mut begin = room.begin;
        let mut place = live.len();
        for (number, (other, length)) in live.iter().enumerate() {
            if other - begin >= wanted {
                place = number;
                break;
            }
            begin = other + length;
        }
        if wanted > room.begin + room.bytes - begin {
            return None;
        }
        live.insert(place, (begin, wanted));
        Some(Buffer {
            memory: Memory::Shared {
                room: Arc::clone(room),
                begin,
                bytes,
            },
        })
    }
}

impl Buffer {
    /// Allocates zeroed private memory of this process.
    pub(crate) fn own(bytes: usize) -> Self {
        Self {
            memory: Memory::Own(vec![0; bytes]),
        }
    }

    /// Offset of the buffer in its region, in bytes; `None` for private memory.
    pub(crate) fn place(&self) -> Option<usize> {
        match &self.memory {
            Memory::Own(_) => None,
            Memory::Shared { begin, .. } => Some(*begin),
        }
    }
}

impl Default for Buffer {
    fn default() -> Self {
        Self::own(0)
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.memory {
            Memory::Own(bytes) => bytes,
            Memory::Shared { room, begin, bytes } => {
                let start = room.region.address(*begin);
                // SAFETY: `take` puts the bytes in range and in no other buffer, and `room` keeps the region mapped. Other
                // processes write there only between the fences of a window, while this process does not access it.
                unsafe { std::slice::from_raw_parts(start, *bytes) }
            }
        }
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        match &mut self.memory {
            Memory::Own(bytes) => bytes,
            Memory::Shared { room, begin, bytes } => {
                let start = room.region.address(*begin);
                // SAFETY: as above. Other processes read only bytes that are lent to a message in flight.
                unsafe { std::slice::from_raw_parts_mut(start, *bytes) }
            }
        }
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if let Memory::Shared { room, begin, .. } = &self.memory {
            let mut live = room.live.lock().unwrap_or_else(PoisonError::into_inner);
            live.retain(|(other, _)| other != begin);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_lie_apart_and_room_is_used_again() {
        let region = Arc::new(Region::new("test", 8 * ALIGN).unwrap());
        let arena = Arena::new(Arc::clone(&region), ALIGN, 4 * ALIGN);
        let mut first = arena.take(ALIGN + 1).unwrap();
        let mut second = arena.take(1).unwrap();
        first.fill(1);
        second.fill(2);
        assert_eq!((first.len(), first[ALIGN], second[0]), (ALIGN + 1, 1, 2));
        assert_eq!(second.place(), Some(3 * ALIGN));
        assert_eq!(region.offset_of(&first[1..]), Some(ALIGN + 1));
        assert!(arena.take(2 * ALIGN).is_none(), "one page is left");
        drop(first);
        assert_eq!(arena.take(2 * ALIGN).unwrap().place(), Some(ALIGN));
        let all = (arena.take(1), arena.take(1), arena.take(1));
        assert!(all.0.is_some() && all.1.is_some() && all.2.is_some());
        assert!(arena.take(0).is_none());
        assert_eq!(second[0], 2);
    }

    #[test]
    fn memory_of_ones_own_is_in_no_region() {
        let region = Region::new("test", ALIGN).unwrap();
        let own = Buffer::own(10);
        assert_eq!((own.place(), region.offset_of(&own)), (None, None));
    }
}
