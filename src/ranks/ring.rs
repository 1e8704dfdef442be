//! A ring of cells from one rank to another of the same node. The reader gets the writer's bytes in order, without a system call.
//!
//! A packet begins at a cell and continues in the next ones. Its first word holds the number of that cell, counted from the first one ever,
//! and the number of bytes that follow. The writer stores this word last, so a reader that sees it sees the rest. For a short message the
//! reader fetches one cell and no other.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::shared_memory::{CELL_BYTES, LEAST_CELLS, SharedMemory};

/// Bytes of the first word of a cell.
const WORD_BYTES: usize = 8;
/// Maximum bytes of a packet. With its word it takes half of the shortest ring, so that it fits wherever the last one ended.
const PACKET_BYTES: usize = LEAST_CELLS / 2 * CELL_BYTES - WORD_BYTES;
/// Stands in place of a length: nothing follows, the next packet is at the start of the ring.
const AROUND: u64 = 0xffff;

/// One end of a ring.
struct End {
    shared: Arc<SharedMemory>,
    /// Offset of the ring in the region, in bytes.
    begin: usize,
    /// Number of cells already passed.
    at: u64,
}

/// Writing end of a ring.
pub(super) struct Outgoing {
    end: End,
    to: usize,
    /// Cells that the reader had freed when this end last looked.
    left: u64,
    /// Number of loans so far.
    lent: u64,
}

/// Reading end of a ring.
pub(super) struct Incoming {
    end: End,
    from: usize,
    /// The packet that is being read: its bytes, and how many of them have been read.
    open: Option<(usize, usize)>,
    copied: u64,
}

impl End {
    fn new(shared: &Arc<SharedMemory>, from: usize, to: usize) -> Self {
        let begin = shared.ring(from, to);
        // Otherwise the first pass over the ring would fault its pages in one by one, during a measurement.
        shared
            .region
            .populate(begin, (1 + shared.cells) * CELL_BYTES);
        Self {
            begin,
            shared: Arc::clone(shared),
            at: 0,
        }
    }

    /// Words of the reader: the number of cells it has freed, and the number of loans it has copied.
    fn reader(&self) -> &[AtomicU64] {
        self.shared.region.words(self.begin, 2)
    }

    /// Offset of a cell in the region, in bytes.
    fn cell(&self, place: usize) -> usize {
        self.begin + (1 + place) * CELL_BYTES
    }

    fn word(&self, place: usize) -> &AtomicU64 {
        &self.shared.region.words(self.cell(place), 1)[0]
    }

    /// Index of the current cell.
    fn place(&self) -> usize {
        let cells = self.shared.cells as u64;
        usize::try_from(self.at % cells).unwrap_or(0)
    }

    /// First word of the next packet, without its length.
    fn ticket(&self) -> u64 {
        (self.at + 1) << 16
    }
}

fn cells_of(bytes: usize) -> usize {
    (WORD_BYTES + bytes).div_ceil(CELL_BYTES)
}

impl Outgoing {
    /// The ring from one place of a node to another.
    pub(super) fn new(shared: &Arc<SharedMemory>, from: usize, to: usize) -> Self {
        Self {
            end: End::new(shared, from, to),
            to,
            left: 0,
            lent: 0,
        }
    }

    /// Writes one packet with as much as fits. Returns its bytes, or 0 if there is no room now.
    pub(super) fn send(&mut self, head: &[u8], payload: &[u8]) -> usize {
        let payload = &payload[..payload.len().min(PACKET_BYTES - head.len())];
        let bytes = head.len() + payload.len();
        let (cells, all) = (cells_of(bytes), self.end.shared.cells);
        let place = self.end.place();
        let skipped = if place + cells > all { all - place } else { 0 };
        if !self.has_room(skipped + cells) {
            return 0;
        }
        if skipped > 0 {
            let word = self.end.ticket() | AROUND;
            self.end.word(place).store(word, Ordering::Release);
            self.end.at += skipped as u64;
        }
        let place = self.end.place();
        let span = &self.end.shared.region;
        let span = span.span(self.end.cell(place) + WORD_BYTES, bytes);
        span.write(head);
        span.part(head.len(), payload.len()).write(payload);
        let word = self.end.ticket() | bytes as u64;
        self.end.word(place).store(word, Ordering::Release);
        self.end.at += cells as u64;
        self.end.shared.wake(self.to);
        bytes
    }

    fn has_room(&mut self, cells: usize) -> bool {
        let all = self.end.shared.cells as u64;
        let needed = self.end.at + cells as u64;
        if needed - self.left > all {
            self.left = self.end.reader()[0].load(Ordering::Acquire);
        }
        needed - self.left <= all
    }

    /// Offset of bytes that need not be written, since the reader can copy them from there. `None` if they are outside of the region.
    pub(super) fn lendable(&self, bytes: &[u8]) -> Option<usize> {
        self.end.shared.region.offset_of(bytes)
    }

    /// Counts a loan and returns its number.
    pub(super) fn lend(&mut self) -> u64 {
        self.lent += 1;
        self.lent
    }

    /// True once the reader has copied the loan with this number.
    pub(super) fn is_copied(&self, number: u64) -> bool {
        self.end.reader()[1].load(Ordering::Acquire) >= number
    }

    /// Copies into shared memory of the reader, at an offset in the region. The ring is not involved.
    pub(super) fn put(&self, at: usize, bytes: &[u8]) {
        let region = &self.end.shared.region;
        region.span(at, bytes.len()).write(bytes);
    }

    /// Copies from shared memory of the reader, at an offset in the region.
    pub(super) fn get(&self, at: usize, into: &mut [u8]) {
        let region = &self.end.shared.region;
        region.span(at, into.len()).read(into);
    }
}

impl Incoming {
    /// The ring from one place of a node to another.
    pub(super) fn new(shared: &Arc<SharedMemory>, from: usize, to: usize) -> Self {
        Self {
            end: End::new(shared, from, to),
            from,
            open: None,
            copied: 0,
        }
    }

    /// Reads as much as fits of one packet, first into `first` and then into `second`. Returns the number of bytes, or 0 if there is no
    /// packet.
    pub(super) fn receive(&mut self, first: &mut [u8], second: &mut [u8]) -> usize {
        let Some((bytes, read)) = self.open() else {
            return 0;
        };
        let region = &self.end.shared.region;
        let start = self.end.cell(self.end.place()) + WORD_BYTES;
        let mut at = read;
        for part in [first, second] {
            let count = part.len().min(bytes - at);
            region.span(start + at, count).read(&mut part[..count]);
            at += count;
        }
        if at < bytes {
            self.open = Some((bytes, at));
        } else {
            self.leave(bytes);
        }
        at - read
    }

    /// The packet that is being read: its bytes, and how many of them have been read.
    fn open(&mut self) -> Option<(usize, usize)> {
        if self.open.is_some() {
            return self.open;
        }
        loop {
            let place = self.end.place();
            let word = self.end.word(place).load(Ordering::Acquire);
            if word & !AROUND != self.end.ticket() {
                return None;
            }
            if word & AROUND != AROUND {
                // No correct writer exceeds this room. The limit keeps every read inside of the ring.
                let room = (self.end.shared.cells - place) * CELL_BYTES - WORD_BYTES;
                let bytes = usize::try_from(word & AROUND).unwrap_or(0);
                return Some((bytes.min(room), 0));
            }
            self.end.at += (self.end.shared.cells - place) as u64;
        }
    }

    /// Frees the cells of a packet.
    fn leave(&mut self, bytes: usize) {
        self.open = None;
        let (place, cells) = (self.end.place(), cells_of(bytes));
        // Clears words of the payload, so that none is mistaken for the start of a packet later.
        for cell in place + 1..place + cells {
            self.end.word(cell).store(0, Ordering::Relaxed);
        }
        self.end.at += cells as u64;
        self.end.reader()[0].store(self.end.at, Ordering::Release);
        self.end.shared.wake(self.from);
    }

    /// Copies a loan from an offset in the region, and confirms it. Returns false if the bytes are outside of the region.
    pub(super) fn copy(&mut self, at: usize, into: &mut [u8]) -> bool {
        let region = &self.end.shared.region;
        let end = at.checked_add(into.len());
        if end.is_none_or(|end| end > region.bytes()) {
            return false;
        }
        region.span(at, into.len()).read(into);
        self.copied += 1;
        self.end.reader()[1].store(self.copied, Ordering::Release);
        self.end.shared.wake(self.from);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ranks::shared_memory::CELLS;

    fn ends(places: usize) -> (Outgoing, Incoming) {
        let shared = Arc::new(SharedMemory::new(places, 1 << 16).unwrap());
        (Outgoing::new(&shared, 0, 1), Incoming::new(&shared, 0, 1))
    }

    fn content(seed: usize, bytes: usize) -> Vec<u8> {
        let byte = |at: usize| u8::try_from((at * 7 + seed) % 251).unwrap();
        (0..bytes).map(byte).collect()
    }

    #[test]
    fn packets_of_all_lengths_come_in_order_many_times_round() {
        for places in [2, 40] {
            let (mut out, mut into) = ends(places);
            for turn in 0..5000 {
                let bytes = 1 + turn * 37 % (PACKET_BYTES - 24);
                let sent = content(turn, bytes);
                assert_eq!(out.send(&[9; 24], &sent), 24 + bytes);
                let (mut head, mut came) = ([0; 24], vec![0; bytes]);
                assert_eq!(into.receive(&mut head, &mut came), 24 + bytes);
                assert!(head == [9; 24] && came == sent, "{turn}");
                assert_eq!(into.receive(&mut head, &mut came), 0);
            }
        }
    }

    #[test]
    fn the_longest_packet_has_a_place_wherever_the_last_one_ended() {
        for places in [2, 40] {
            let (mut out, mut into) = ends(places);
            for turn in 0..2 * CELLS {
                assert_eq!(out.send(&[], &[1]), 1);
                assert_eq!(into.receive(&mut [0], &mut []), 1);
                let sent = content(turn, PACKET_BYTES);
                assert_eq!(out.send(&[], &sent), PACKET_BYTES, "{places} {turn}");
                let mut came = vec![0; PACKET_BYTES];
                assert_eq!(into.receive(&mut came, &mut []), PACKET_BYTES);
                assert!(came == sent);
            }
        }
    }

    #[test]
    fn a_full_ring_takes_no_more_and_packets_can_be_read_in_pieces() {
        let (mut out, mut into) = ends(2);
        let mut sent = 0;
        while out.send(&[], &content(sent, 3000)) == 3000 {
            sent += 1;
        }
        assert!((15..22).contains(&sent), "{sent} packets");
        for turn in 0..sent {
            let mut came = vec![0; 3000];
            for piece in came.chunks_mut(700) {
                assert_eq!(into.receive(piece, &mut []), piece.len());
            }
            assert!(came == content(turn, 3000));
        }
        assert_eq!(into.receive(&mut [0; 8], &mut []), 0);
        assert_eq!(out.send(&[1; 8], &[]), 8, "there is room again");
        // Data that exceeds a packet needs several of them.
        assert_eq!(out.send(&[2; 24], &[3; 20_000]), PACKET_BYTES);
    }

    #[test]
    fn two_threads_lose_nothing() {
        let (mut out, mut into) = ends(2);
        std::thread::scope(|scope| {
            scope.spawn(move || {
                for turn in 0..50_000 {
                    let bytes = content(turn, 1 + turn % 300);
                    while out.send(&[], &bytes) == 0 {
                        std::thread::yield_now();
                    }
                }
            });
            for turn in 0..50_000 {
                let mut came = vec![0; 1 + turn % 300];
                while into.receive(&mut came, &mut []) == 0 {
                    std::thread::yield_now();
                }
                assert!(came == content(turn, 1 + turn % 300), "{turn}");
            }
        });
    }

    #[test]
    fn what_is_lent_is_copied_from_where_it_is_and_nothing_else_is() {
        let shared = Arc::new(SharedMemory::new(2, 1 << 16).unwrap());
        let arena = shared.arena(0);
        let mut buffer = arena.take(10_000).unwrap();
        buffer.copy_from_slice(&content(3, 10_000));
        let mut out = Outgoing::new(&shared, 0, 1);
        let mut into = Incoming::new(&shared, 0, 1);
        let at = out.lendable(&buffer[100..]).unwrap();
        assert_eq!(out.lendable(&[1, 2]), None);
        let number = out.lend();
        assert!(!out.is_copied(number));
        let mut came = vec![0; 9_900];
        assert!(into.copy(at, &mut came));
        assert!(out.is_copied(number) && came == content(3, 10_000)[100..]);
        assert!(!into.copy(usize::MAX, &mut came) && !into.copy(shared.region.bytes(), &mut came));
    }

    #[test]
    fn a_sleeper_is_woken_by_what_is_written() {
        use crate::sys::vectored::{Became, Wanted, wait_for_any};
        use std::time::Duration;
        let shared = Arc::new(SharedMemory::new(2, 4096).unwrap());
        let mut out = Outgoing::new(&shared, 0, 1);
        let state = || {
            let bell = [(shared.bell(1), Wanted::Read)];
            wait_for_any(&bell, Duration::ZERO).unwrap()[0]
        };
        out.send(&[1], &[]);
        assert_eq!(state(), Became::Nothing, "nobody slept");
        shared.announce_sleep(1);
        out.send(&[1], &[]);
        assert_eq!(state(), Became::Ready);
        shared.announce_awake(1);
        assert_eq!(state(), Became::Nothing);
    }
}
