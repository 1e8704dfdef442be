//! The status segment of a node: state that its processes share and that an outside process can read.
//!
//! The segment is named (`/dev/shm/pipebench-TOKEN-NODE`) and holds words only. It begins with magic, version, size
//! and its owner's process id and start time. Every link end has 64 words, which that end alone writes. The segment
//! ends with a text for outside readers. Read next: [`super::snapshot`], which reads it from outside.

use std::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::sync::atomic::{
    AtomicU64,
    Ordering::{Acquire, Relaxed, Release, SeqCst},
};

use crate::record::TcpInfo;
use crate::record::{Activity, EndCount, EndReport, EndRole};
use crate::sys::memory::NamedRegion;
use crate::sys::{clock, process, usage};

pub(super) const MAGIC: u64 = u64::from_le_bytes(*b"PBSTATUS");
pub(super) const VERSION: u64 = 5;
pub(super) const HEADER_WORDS: usize = 64;
const ADDRESS_WORDS: usize = 4;
pub(super) const END_WORDS: usize = 64;

// Words of the header.
pub(super) const AT_MAGIC: usize = 0;
pub(super) const AT_VERSION: usize = 1;
pub(super) const AT_WORDS: usize = 2;
pub(super) const AT_OWNER: usize = 3;
pub(super) const AT_OWNER_START: usize = 4;
pub(super) const AT_BOOK: usize = 5;
pub(super) const AT_GO: usize = 6;
pub(super) const AT_STOP: usize = 7;
const AT_EPOCH: usize = 8;
pub(super) const AT_DONE: usize = 9;
const AT_STRANGERS: usize = 10;
const AT_BLOCKS: usize = 11;
pub(super) const AT_PID_SPACE: usize = 12;
const AT_ALIVE: usize = 13;
// The shape and the offsets, for outside readers, which need no other knowledge of the layout.
pub(super) const AT_BOUNDARIES: usize = 14;
pub(super) const AT_SENDS: usize = 15;
pub(super) const AT_ENDS: usize = 16;
pub(super) const AT_TEXT: usize = 17;
pub(super) const AT_TEXT_BYTES: usize = 18;
pub(super) const AT_MADE: usize = 19;
pub(super) const AT_RECEIVES: usize = 20;
const AT_PHASE_CPU: usize = 32; // CPU time of up to 32 phases.
const PHASE_CPU_WORDS: usize = 32;

// Words of a link end.
const END_STATE: usize = 0;
const END_PID: usize = 1;
const END_BYTES: usize = 2;
const END_BLOCKS: usize = 3;
const END_TURN: usize = 4;
// Two copies of the time account: activity, its start, and time spent in each activity.
const END_TIMES: usize = 5;
const TIMES_WORDS: usize = 6;
const END_CPU: usize = END_TIMES + 2 * TIMES_WORDS;
const END_TCP: usize = END_CPU + 1;
const TCP_WORDS: usize = TcpInfo::COUNT + 1;
const _: () = assert!(
    END_TCP + 3 * TCP_WORDS <= END_WORDS,
    "an end has room for what it notes"
);

/// Shape of a board.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shape {
    /// Boundaries of the pipeline.
    pub boundaries: usize,
    /// Nodes of the run.
    pub nodes: usize,
    /// Data ports of every node.
    pub rails: usize,
    /// Links out of this node at each boundary.
    pub sends: usize,
    /// Links into this node at each boundary.
    pub receives: usize,
}

impl Shape {
    /// Number of words between the header and the link ends: addresses, and one word per node that marks it as lost.
    fn address_words(self) -> usize {
        self.boundaries * self.nodes * self.rails * ADDRESS_WORDS + self.nodes
    }

    /// Index of the first word of the link ends.
    fn ends_at(self) -> usize {
        HEADER_WORDS + self.address_words()
    }

    /// Index of the word after the last link end.
    fn ends_end(self) -> usize {
        self.ends_at() + self.boundaries * (self.sends + self.receives) * END_WORDS
    }

    fn words(self, text: &str) -> usize {
        self.ends_end() + text.len().div_ceil(8)
    }

    /// Size in bytes of a segment of this shape with this text.
    pub(crate) fn bytes(self, text: &str) -> usize {
        self.words(text) * 8
    }
}

/// The status segment.
pub(crate) struct Board {
    region: NamedRegion,
    shape: Shape,
}

/// State of a link end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum EndState {
    /// Nothing is known yet.
    Unborn = 0,
    /// Its process runs.
    Born = 1,
    /// Its connection is established and its memory is ready.
    Ready = 2,
    /// A sender has sent everything, and the receiver has not closed the connection yet.
    Sent = 3,
    /// It ended normally.
    Finished = 4,
    /// Its peer's host was lost, and the run continues without that host.
    Lost = 5,
}

impl Board {
    /// Creates the segment under `name`, with `text` for outside readers.
    pub(crate) fn create(name: &str, shape: Shape, text: &str) -> std::io::Result<Self> {
        let text_at = shape.ends_end();
        let words = shape.words(text);
        let region = NamedRegion::create(name, words * 8)?;
        let board = Self { region, shape };
        let owner = process::own_pid();
        for (at, value) in [
            (AT_BOUNDARIES, shape.boundaries as u64),
            (AT_SENDS, shape.sends as u64),
            (AT_RECEIVES, shape.receives as u64),
            (AT_ENDS, shape.ends_at() as u64),
            (AT_TEXT, text_at as u64),
            (AT_TEXT_BYTES, text.len() as u64),
            (AT_MADE, clock::monotonic_ns()),
            (AT_VERSION, VERSION),
            (AT_WORDS, words as u64),
            (AT_OWNER, u64::from(owner.unsigned_abs())),
            (AT_OWNER_START, process::start_time(owner).unwrap_or(0)),
            (AT_PID_SPACE, process::pid_space()),
        ] {
            board.word(at).store(value, Relaxed);
        }
        for (index, part) in text.as_bytes().chunks(8).enumerate() {
            let mut bytes = [0; 8];
            bytes[..part.len()].copy_from_slice(part);
            let word = board.word(text_at + index);
            word.store(u64::from_le_bytes(bytes), Relaxed);
        }
        // The magic word comes last: a reader that sees it sees the rest.
        board.word(AT_MAGIC).store(MAGIC, Release);
        Ok(board)
    }

    fn word(&self, index: usize) -> &AtomicU64 {
        &self.region.words(index * 8, 1)[0]
    }

    /// Publishes the address at which a boundary of a node listens on a rail. An address outside of the shape is
    /// ignored: a book of another shape must not overwrite the rest of the segment.
    pub(crate) fn publish_address(
        &self,
        boundary: usize,
        node: usize,
        rail: usize,
        address: SocketAddr,
    ) {
        let shape = &self.shape;
        if boundary >= shape.boundaries || node >= shape.nodes || rail >= shape.rails {
            return;
        }
        let words = self.address_words(boundary, node, rail);
        for (word, value) in words.iter().zip(pack_address(address)) {
            word.store(value, Relaxed);
        }
    }

    /// Marks the address book as complete, so that senders connect.
    pub(crate) fn publish_book(&self) {
        self.word(AT_BOOK).store(1, SeqCst);
    }

    /// True once the addresses of the peers are published.
    pub(crate) fn book_is_there(&self) -> bool {
        self.word(AT_BOOK).load(SeqCst) != 0
    }

    /// Address at which a boundary of a node listens on a rail, if published.
    pub(crate) fn address(&self, boundary: usize, node: usize, rail: usize) -> Option<SocketAddr> {
        let words = self.address_words(boundary, node, rail);
        unpack_address([0, 1, 2, 3].map(|index: usize| words[index].load(Relaxed)))
    }

    fn address_words(&self, boundary: usize, node: usize, rail: usize) -> &[AtomicU64] {
        let Shape { nodes, rails, .. } = self.shape;
        assert!(
            boundary < self.shape.boundaries && node < nodes && rail < rails,
            "no such address"
        );
        let index = HEADER_WORDS + ((boundary * nodes + node) * rails + rail) * ADDRESS_WORDS;
        self.region.words(index * 8, ADDRESS_WORDS)
    }

    /// Sets the number of blocks that each link carries. Called before data flows.
    pub(crate) fn set_blocks(&self, blocks: u64) {
        // Zero stands for no limit.
        self.word(AT_BLOCKS).store(blocks.saturating_add(1), SeqCst);
    }

    /// Number of blocks that each link carries; [`u64::MAX`] if not set, so that time alone limits it.
    pub(crate) fn blocks(&self) -> u64 {
        match self.word(AT_BLOCKS).load(SeqCst) {
            0 => u64::MAX,
            blocks => blocks - 1,
        }
    }

    /// Lets data flow.
    pub(crate) fn go(&self) {
        self.word(AT_GO).store(1, SeqCst);
    }

    /// True once data may flow.
    pub(crate) fn has_started(&self) -> bool {
        self.word(AT_GO).load(SeqCst) != 0
    }

    /// Tells sources to end.
    pub(crate) fn stop(&self) {
        self.word(AT_STOP).store(1, SeqCst);
    }

    /// True once sources are to end.
    pub(crate) fn is_stopping(&self) -> bool {
        self.word(AT_STOP).load(Relaxed) != 0
    }

    /// Tells every link end to record the kernel's statistics: 1 at the window's start, 2 at its end.
    pub(crate) fn set_epoch(&self, epoch: u64) {
        self.word(AT_EPOCH).store(epoch, SeqCst);
    }

    /// The current epoch; see [`Board::set_epoch`].
    pub(crate) fn epoch(&self) -> u64 {
        self.word(AT_EPOCH).load(Relaxed)
    }

    /// Records the time at which the last phase reports that everything has arrived.
    pub(crate) fn set_done(&self) {
        self.word(AT_DONE).store(clock::monotonic_ns(), SeqCst);
    }

    /// Time at which the last phase reported that everything arrived, on the monotonic clock in nanoseconds.
    pub(crate) fn done_ns(&self) -> Option<u64> {
        Some(self.word(AT_DONE).load(SeqCst)).filter(|at| *at != 0)
    }

    /// Counts a heartbeat: the owner still runs.
    pub(crate) fn beat(&self) {
        self.word(AT_ALIVE).fetch_add(1, Relaxed);
    }

    /// Number of heartbeats of the owner until now.
    pub(crate) fn beats(&self) -> u64 {
        self.word(AT_ALIVE).load(Relaxed)
    }

    fn lost_word(&self, node: usize) -> Option<&AtomicU64> {
        let Shape { nodes, .. } = self.shape;
        let index = HEADER_WORDS + self.shape.address_words() - nodes + node;
        (node < nodes).then(|| self.word(index))
    }

    /// Marks a node as lost: the run continues without it.
    pub(crate) fn set_lost(&self, node: usize) {
        if let Some(word) = self.lost_word(node) {
            word.store(1, SeqCst);
        }
    }

    /// True if the node is lost and the run continues without it.
    pub(crate) fn is_lost(&self, node: usize) -> bool {
        let word = self.lost_word(node);
        word.is_some_and(|word| word.load(Relaxed) != 0)
    }

    /// Counts a connection that is no link of this run.
    pub(crate) fn count_stranger(&self) {
        self.word(AT_STRANGERS).fetch_add(1, Relaxed);
    }

    /// Number of connections that were no links of this run.
    pub(crate) fn strangers(&self) -> u64 {
        self.word(AT_STRANGERS).load(Relaxed)
    }

    /// Records the CPU time of a phase. Called by the phase process.
    pub(crate) fn note_phase_cpu(&self, phase: usize) {
        self.word(AT_PHASE_CPU + phase % PHASE_CPU_WORDS)
            .store(usage::own_cpu_ns(), Relaxed);
    }

    /// CPU time of a phase as last recorded, in nanoseconds.
    pub(crate) fn phase_cpu_ns(&self, phase: usize) -> u64 {
        self.word(AT_PHASE_CPU + phase % PHASE_CPU_WORDS)
            .load(Relaxed)
    }

    /// The words of one link end.
    pub(crate) fn end(&self, role: EndRole, boundary: usize, slot: usize) -> LinkEnd<'_> {
        let Shape {
            sends, receives, ..
        } = self.shape;
        let (first, slots) = match role {
            EndRole::Sender => (0, sends),
            EndRole::Receiver => (sends, receives),
        };
        assert!(
            boundary < self.shape.boundaries && slot < slots,
            "no such link end"
        );
        let number = boundary * (sends + receives) + first + slot;
        let index = self.shape.ends_at() + number * END_WORDS;
        LinkEnd {
            words: self.region.words(index * 8, END_WORDS),
        }
    }

    /// All link ends with role, boundary and slot; senders precede receivers at each boundary.
    pub(crate) fn ends(&self) -> impl Iterator<Item = (EndRole, usize, usize, LinkEnd<'_>)> {
        let (begin, end) = (self.shape.ends_at(), self.shape.ends_end());
        let words = self.region.words(begin * 8, end - begin);
        ends(words, self.shape.sends, self.shape.receives)
    }

    /// Number of link ends in `state` or beyond.
    pub(crate) fn count_at_least(&self, state: EndState) -> usize {
        self.ends()
            .filter(|(_, _, _, end)| end.state() >= state)
            .count()
    }
}

/// The link ends of all boundaries, which have these words.
pub(super) fn ends(
    words: &[AtomicU64],
    sends: usize,
    receives: usize,
) -> impl Iterator<Item = (EndRole, usize, usize, LinkEnd<'_>)> {
    let numbered = words.chunks(END_WORDS).enumerate();
    numbered.map(move |(number, words)| {
        let (boundary, place) = (number / (sends + receives), number % (sends + receives));
        let (role, slot) = match place.checked_sub(sends) {
            None => (EndRole::Sender, place),
            Some(slot) => (EndRole::Receiver, slot),
        };
        (role, boundary, slot, LinkEnd { words })
    })
}

fn pack_address(address: SocketAddr) -> [u64; 4] {
    let port = u64::from(address.port());
    match address {
        SocketAddr::V4(v4) => [4 << 16 | port, 0, u64::from(v4.ip().to_bits()), 0],
        SocketAddr::V6(v6) => {
            let bits = v6.ip().to_bits();
            let half =
                |shift: u32| u64::try_from(bits >> shift & u128::from(u64::MAX)).unwrap_or(0);
            [6 << 16 | port, half(64), half(0), u64::from(v6.scope_id())]
        }
    }
}

fn unpack_address([head, high, low, scope]: [u64; 4]) -> Option<SocketAddr> {
    let port = u16::try_from(head & 0xffff).ok()?;
    match head >> 16 {
        4 => Some(SocketAddr::new(
            IpAddr::from(u32::try_from(low).ok()?.to_be_bytes()),
            port,
        )),
        6 => {
            let ip = Ipv6Addr::from_bits(u128::from(high) << 64 | u128::from(low));
            Some(SocketAddrV6::new(ip, port, 0, u32::try_from(scope).ok()?).into())
        }
        _ => None,
    }
}

/// The words of one link end: a meter that its owner writes and others read.
#[derive(Clone, Copy)]
pub(crate) struct LinkEnd<'board> {
    words: &'board [AtomicU64],
}

impl LinkEnd<'_> {
    /// Claims this end for the calling process. False if it is already claimed, which means a second link of the same
    /// name.
    pub(crate) fn claim(&self) -> bool {
        let own = u64::from(process::own_pid().unsigned_abs());
        self.words[END_PID]
            .compare_exchange(0, own, SeqCst, SeqCst)
            .is_ok()
    }

    /// Releases this end for the next connection.
    pub(crate) fn release(&self) {
        self.words[END_PID].store(0, SeqCst);
    }

    /// Process id of the owner; zero if unclaimed.
    pub(crate) fn pid(&self) -> u64 {
        self.words[END_PID].load(Relaxed)
    }

    /// Sets the state.
    pub(crate) fn set_state(&self, state: EndState) {
        self.words[END_STATE].store(state as u64, Release);
    }

    /// The current state.
    pub(crate) fn state(&self) -> EndState {
        match self.words[END_STATE].load(Acquire) {
            0 => EndState::Unborn,
            1 => EndState::Born,
            2 => EndState::Ready,
            3 => EndState::Sent,
            5 => EndState::Lost,
            _ => EndState::Finished,
        }
    }

    /// Marks this end as lost with its peer, unless it has finished.
    pub(crate) fn lose(&self) {
        if self.state() < EndState::Finished {
            self.turn_to(Activity::Idle);
            self.set_state(EndState::Lost);
        }
    }

    /// Adds payload bytes that were moved. Only the owner writes, so a plain load and store suffice.
    pub(crate) fn add_bytes(&self, bytes: u64) {
        let word = &self.words[END_BYTES];
        word.store(word.load(Relaxed) + bytes, Relaxed);
    }

    /// Payload bytes moved until now.
    pub(crate) fn bytes(&self) -> u64 {
        self.words[END_BYTES].load(Relaxed)
    }

    /// Sets the number of blocks moved.
    pub(crate) fn set_blocks(&self, blocks: u64) {
        self.words[END_BLOCKS].store(blocks, Relaxed);
    }

    /// Blocks moved until now.
    pub(crate) fn blocks(&self) -> u64 {
        self.words[END_BLOCKS].load(Relaxed)
    }

    /// Ends one activity and begins another, with one reading of the clock. The new values go into the unused copy,
    /// which then becomes the current one. So a reader never has to wait for a writer that was preempted in between,
    /// which can last a second on a busy host.
    pub(crate) fn turn_to(&self, activity: Activity) {
        let now = clock::monotonic_ns();
        let turn = self.words[END_TURN].load(Relaxed);
        let (old, new) = (self.times(turn), self.times(turn + 1));
        let (current, since) = (old[0].load(Relaxed), old[1].load(Relaxed));
        for index in 0..4 {
            let spent = old[2 + index].load(Relaxed);
            let more = since != 0 && current == index as u64;
            let more = if more { now.saturating_sub(since) } else { 0 };
            new[2 + index].store(spent + more, Relaxed);
        }
        new[0].store(activity as u64, Relaxed);
        new[1].store(now, Relaxed);
        self.words[END_TURN].store(turn + 1, SeqCst);
    }

    fn times(&self, turn: u64) -> &[AtomicU64] {
        let start = END_TIMES + usize::from(turn & 1 == 1) * TIMES_WORDS;
        &self.words[start..start + TIMES_WORDS]
    }

    /// Bytes moved, and time in each activity until now in nanoseconds, the current activity included.
    pub(crate) fn count(&self) -> EndCount {
        // A copy is rewritten only two turns later, and each turn takes about as long as a block.
        const TRIES: usize = 64;
        let mut count = EndCount::default();
        for _ in 0..TRIES {
            let turn = self.words[END_TURN].load(SeqCst);
            count = self.count_once(turn);
            if self.words[END_TURN].load(SeqCst) == turn {
                break;
            }
        }
        count
    }

    fn count_once(&self, turn: u64) -> EndCount {
        let times = self.times(turn);
        let mut activity_ns = [0, 1, 2, 3].map(|index: usize| times[2 + index].load(Relaxed));
        let since = times[1].load(Relaxed);
        let current = usize::try_from(times[0].load(Relaxed)).unwrap_or(0) % 4;
        let bytes = self.bytes();
        let at_ns = clock::monotonic_ns();
        if since != 0 {
            let spent = &mut activity_ns[current];
            *spent = spent.saturating_add(at_ns.saturating_sub(since));
        }
        EndCount {
            at_ns,
            bytes,
            activity_ns,
            cpu_ns: self.words[END_CPU].load(Relaxed),
            ..EndCount::default()
        }
    }

    /// Records CPU time and, for TCP, the kernel's statistics. `place` is 0 and 1 for the window's edges, 2 for the
    /// end.
    pub(crate) fn note(&self, place: usize, tcp: Option<TcpInfo>) {
        self.words[END_CPU].store(usage::own_cpu_ns(), Relaxed);
        let Some(info) = tcp else { return };
        let start = END_TCP + place.min(2) * TCP_WORDS;
        for (word, value) in self.words[start + 1..].iter().zip(info.values()) {
            word.store(value, Relaxed);
        }
        self.words[start].store(1, Release);
    }

    fn noted(&self, place: usize) -> Option<TcpInfo> {
        let start = END_TCP + place * TCP_WORDS;
        if self.words[start].load(Acquire) == 0 {
            return None;
        }
        let mut values = [0; TcpInfo::COUNT];
        for (value, word) in values.iter_mut().zip(&self.words[start + 1..]) {
            *value = word.load(Relaxed);
        }
        Some(TcpInfo::from_values(values))
    }

    /// Everything known about this end.
    pub(crate) fn report(&self, role: EndRole, boundary: usize, slot: usize) -> EndReport {
        EndReport {
            role,
            boundary,
            slot,
            finished: self.state() == EndState::Finished,
            lost: self.state() == EndState::Lost,
            bytes: self.bytes(),
            blocks: self.blocks(),
            cpu_ns: self.words[END_CPU].load(Relaxed),
            tcp: [self.noted(0), self.noted(1), self.noted(2)],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn board(name: &str) -> Board {
        let shape = Shape {
            boundaries: 2,
            nodes: 3,
            rails: 2,
            sends: 3,
            receives: 3,
        };
        Board::create(
            &format!("pipebench-unit-{name}-{}", std::process::id()),
            shape,
            "",
        )
        .unwrap()
    }

    #[test]
    fn addresses_are_found_again() {
        let board = board("book");
        let v4: SocketAddr = "10.1.2.3:4567".parse().unwrap();
        let v6: SocketAddr = "[fe80::1%7]:65535".parse().unwrap();
        assert!(!board.book_is_there());
        board.publish_address(0, 0, 0, v4);
        board.publish_address(0, 2, 1, v6);
        board.publish_address(1, 1, 0, v4);
        board.publish_book();
        assert!(board.book_is_there());
        assert_eq!(board.address(0, 0, 0), Some(v4));
        assert_eq!(board.address(0, 0, 1), None);
        assert_eq!(board.address(0, 1, 0), None);
        assert_eq!(board.address(0, 2, 1), Some(v6));
        assert_eq!(board.address(1, 1, 0), Some(v4));
        board.set_lost(2);
        board.set_lost(7);
        assert_eq!(
            [0, 1, 2, 7].map(|node| board.is_lost(node)),
            [false, false, true, false]
        );
        assert_eq!(board.end(EndRole::Sender, 0, 0).state(), EndState::Unborn);
    }

    #[test]
    fn a_book_with_more_than_the_board_has_room_for_leaves_the_rest_alone() {
        let board = board("large-book");
        let v4: SocketAddr = "10.1.2.3:4567".parse().unwrap();
        let before = board.count_at_least(EndState::Unborn);
        for place in 0..50_usize.pow(3) {
            board.publish_address(place / 2500, place / 50 % 50, place % 50, v4);
        }
        assert_eq!(board.address(1, 2, 1), Some(v4));
        assert_eq!(board.count_at_least(EndState::Unborn), before);
        assert_eq!(board.count_at_least(EndState::Born), 0);
    }

    #[test]
    fn time_is_divided_among_activities_and_the_current_one_counts() {
        let board = board("time");
        let end = board.end(EndRole::Sender, 1, 2);
        end.turn_to(Activity::Waiting);
        clock::sleep_until(clock::monotonic_ns() + 2_000_000);
        end.turn_to(Activity::Moving);
        clock::sleep_until(clock::monotonic_ns() + 3_000_000);
        let count = end.count();
        assert!(count.activity_ns[1] >= 2_000_000, "{count:?}");
        assert!(count.activity_ns[2] >= 3_000_000, "{count:?}");
        assert_eq!(count.activity_ns[0], 0);
    }

    #[test]
    fn an_end_is_claimed_once_and_reports_what_it_noted() {
        let board = board("claim");
        let end = board.end(EndRole::Receiver, 0, 1);
        assert!(end.claim());
        assert!(!end.claim());
        end.add_bytes(10);
        end.add_bytes(5);
        end.set_blocks(2);
        end.note(
            1,
            Some(TcpInfo {
                rtt_us: 9,
                ..TcpInfo::default()
            }),
        );
        end.set_state(EndState::Finished);
        let report = end.report(EndRole::Receiver, 0, 1);
        assert_eq!(
            (report.bytes, report.blocks, report.finished),
            (15, 2, true)
        );
        assert_eq!(report.tcp[1].unwrap().rtt_us, 9);
        assert_eq!(report.tcp[0], None);
        assert_eq!(board.count_at_least(EndState::Ready), 1);
        assert_eq!(board.ends().count(), 12);
    }
}
