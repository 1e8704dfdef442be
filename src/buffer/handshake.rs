//! The handshake between the processes that fill slots and the processes that drain them.
//!
//! Two buffers k and !k have one slot per link. Block `t` of a slot lies in buffer `t & 1`. Two counters per slot
//! hold the truth: `filled` (blocks put in) and `drained` (blocks taken out). A doorbell only says "look". The steps
//! for one slot:
//!
//! ```text
//!   filler (receiver)                          drainer (sender)
//!     drained + 2 > t ?  else wait               filled > t ?  else wait
//!     fill slot of buffer t & 1                  .
//!     filled = t + 1, ring if it sleeps  ----->  look: filled > t
//!     .                                          drain slot of buffer t & 1
//!     look: drained + 2 > t + 2          <-----  drained = t + 1, ring if it sleeps
//! ```
//!
//! A waiter looks, yields some 50 times, announces itself as the sleeper, looks again and sleeps. A poster stores its
//! counter, then checks if the other side sleeps, then rings. Both are sequentially consistent, so either the
//! sleeper sees the store when it looks again, or the poster sees the sleeper. The ring stays pending because the signal is
//! blocked. A lost ring costs the sleeper its timeout and nothing else. Each step below is one shared access, so that
//! the model at the bottom can try every interleaving of the very code that runs.
//!
//! With coupling by buffer, each side checks the same counters for all slots at once: every drainer waits until the
//! whole buffer is filled, and every filler waits until the whole buffer is drained.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use crate::plan::Coupling;
use crate::sys::{process, signals};

/// Words of one slot: two cache lines, one written by each side.
pub(crate) const WORDS_PER_SLOT: usize = 16;
const FILLED: usize = 0;
const ENDED: usize = 1;
const DRAINER_ASLEEP: usize = 2;
const DRAINED: usize = 8;
const FILLER_ASLEEP: usize = 9;

/// Number of times a waiter yields before it sleeps. Waking an idle core costs 50 µs, as long as a block takes.
const LOOKS: u32 = 50;

/// The handshake of one double buffer: a view of shared words.
#[derive(Clone, Copy)]
pub(crate) struct Handshake<'words> {
    words: &'words [AtomicU64],
    coupling: Coupling,
}

/// The side of a slot that waits or posts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Side {
    /// Puts blocks in.
    Filler,
    /// Takes blocks out.
    Drainer,
}

/// The way in which a process sleeps and wakes others. Ringing is the same for all; sleeping depends on what else the
/// process has to watch.
pub(crate) trait Doorbell {
    /// Number under which other processes ring this one; never zero.
    fn own_number(&self) -> u64 {
        u64::from(process::own_pid().unsigned_abs())
    }

    /// Rings the process with this number.
    fn ring(&mut self, number: u64) {
        signals::ring(i32::try_from(number).unwrap_or(0));
    }

    /// Yields the processor to other processes.
    fn yield_now(&mut self) {
        std::thread::yield_now();
    }

    /// Sleeps until rung, or for a bounded time. False if the caller must stop waiting.
    fn sleep(&mut self) -> bool;
}

impl<'words> Handshake<'words> {
    /// The handshake in `words`, which hold [`WORDS_PER_SLOT`] words for each slot.
    pub(crate) fn new(words: &'words [AtomicU64], coupling: Coupling) -> Self {
        assert!(words.len().is_multiple_of(WORDS_PER_SLOT), "whole slots");
        Self { words, coupling }
    }

    /// Sets the counters to their start values. Called once, before other processes share them.
    pub(crate) fn reset(&self) {
        for slot in 0..self.slots() {
            self.word(slot, ENDED).store(u64::MAX, SeqCst);
        }
    }

    fn slots(&self) -> usize {
        self.words.len() / WORDS_PER_SLOT
    }

    fn word(&self, slot: usize, index: usize) -> &'words AtomicU64 {
        &self.words[slot * WORDS_PER_SLOT + index]
    }

    /// True if block `t` of `slot` can be drained (or filled) now.
    fn ready(&self, side: Side, slot: usize, t: u64) -> bool {
        match self.coupling {
            Coupling::Block => self.slot_ready(side, slot, t),
            Coupling::Buffer => (0..self.slots()).all(|any| self.slot_ready(side, any, t)),
        }
    }

    fn slot_ready(&self, side: Side, slot: usize, t: u64) -> bool {
        match side {
            // A slot that has ended has no block t and delays no other slot.
            Side::Drainer => {
                self.word(slot, FILLED).load(SeqCst) > t || self.word(slot, ENDED).load(SeqCst) <= t
            }
            Side::Filler => {
                let drained = self.word(slot, DRAINED).load(SeqCst);
                drained + 2 > t || self.word(slot, ENDED).load(SeqCst) <= drained
            }
        }
    }

    /// Records that `slot` carries `blocks` blocks in total. Called before the last of them is posted.
    pub(crate) fn end(&self, slot: usize, blocks: u64) {
        self.word(slot, ENDED).store(blocks, SeqCst);
    }

    fn asleep(&self, side: Side, slot: usize) -> &'words AtomicU64 {
        self.word(
            slot,
            if side == Side::Filler {
                FILLER_ASLEEP
            } else {
                DRAINER_ASLEEP
            },
        )
    }

    /// Waits until block `t` can be drained (or filled). False if the doorbell gave up.
    pub(crate) fn wait(&self, side: Side, slot: usize, t: u64, bell: &mut impl Doorbell) -> bool {
        let mut wait = Wait::new(side, slot, t);
        loop {
            match wait.step(self, bell) {
                Waiting::Goes => return true,
                Waiting::GivenUp => return false,
                Waiting::Not => {}
            }
        }
    }

    /// True if block `t` can be drained (or filled) now; does not wait.
    pub(crate) fn is_ready(&self, side: Side, slot: usize, t: u64) -> bool {
        self.ready(side, slot, t)
    }

    /// Announces the process `number` as the sleeper for a slot. A process that waits for several slots announces
    /// itself for each of them, looks at each again, and only then sleeps: the steps of [`Handshake::wait`], side by
    /// side.
    pub(crate) fn announce(&self, side: Side, slot: usize, number: u64) {
        self.asleep(side, slot).store(number, SeqCst);
    }

    /// Withdraws the sleeper's announcement for a slot.
    pub(crate) fn withdraw(&self, side: Side, slot: usize) {
        self.asleep(side, slot).store(0, SeqCst);
    }

    /// Records that block `t` was filled (or drained), and wakes the processes that sleep for it.
    pub(crate) fn post(&self, side: Side, slot: usize, t: u64, bell: &mut impl Doorbell) {
        let mut post = Post::new(side, slot, t);
        while !post.step(self, bell) {}
    }
}

/// A wait, one shared access per step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Wait {
    side: Side,
    slot: usize,
    t: u64,
    looks: u32,
    at: WaitAt,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum WaitAt {
    Look,
    Announce,
    LookAgain,
    Sleep,
    Withdraw,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Waiting {
    Not,
    Goes,
    GivenUp,
}

impl Wait {
    fn new(side: Side, slot: usize, t: u64) -> Self {
        Self {
            side,
            slot,
            t,
            looks: LOOKS,
            at: WaitAt::Look,
        }
    }

    fn step(&mut self, shake: &Handshake<'_>, bell: &mut impl Doorbell) -> Waiting {
        self.at = match self.at {
            WaitAt::Look if shake.ready(self.side, self.slot, self.t) => return Waiting::Goes,
            WaitAt::Look if self.looks > 0 => {
                self.looks -= 1;
                bell.yield_now();
                WaitAt::Look
            }
            WaitAt::Look => WaitAt::Announce,
            WaitAt::Announce => {
                shake
                    .asleep(self.side, self.slot)
                    .store(bell.own_number(), SeqCst);
                WaitAt::LookAgain
            }
            WaitAt::LookAgain if shake.ready(self.side, self.slot, self.t) => WaitAt::Withdraw,
            WaitAt::LookAgain => WaitAt::Sleep,
            WaitAt::Sleep => {
                if !bell.sleep() {
                    return Waiting::GivenUp;
                }
                WaitAt::Withdraw
            }
            WaitAt::Withdraw => {
                shake.asleep(self.side, self.slot).store(0, SeqCst);
                WaitAt::Look
            }
        };
        Waiting::Not
    }
}

/// A post, one shared access per step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Post {
    side: Side,
    slot: usize,
    t: u64,
    at: PostAt,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum PostAt {
    Store,
    /// Check if the sleeper of this slot has to be woken.
    Peek(usize),
}

impl Post {
    fn new(side: Side, slot: usize, t: u64) -> Self {
        Self {
            side,
            slot,
            t,
            at: PostAt::Store,
        }
    }

    /// True once the post is complete.
    fn step(&mut self, shake: &Handshake<'_>, bell: &mut impl Doorbell) -> bool {
        match self.at {
            PostAt::Store => {
                let counter = if self.side == Side::Filler {
                    FILLED
                } else {
                    DRAINED
                };
                shake.word(self.slot, counter).store(self.t + 1, SeqCst);
                self.at = PostAt::Peek(if shake.coupling == Coupling::Block {
                    self.slot
                } else {
                    0
                });
                false
            }
            PostAt::Peek(slot) => {
                let other = if self.side == Side::Filler {
                    Side::Drainer
                } else {
                    Side::Filler
                };
                let asleep = shake.asleep(other, slot);
                let number = asleep.load(SeqCst);
                if number != 0 && asleep.swap(0, SeqCst) != 0 {
                    bell.ring(number);
                }
                self.at = PostAt::Peek(slot + 1);
                shake.coupling == Coupling::Block || slot + 1 == shake.slots()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    //! Tests every interleaving of fillers and drainers over the real steps, with rings lost, merged or kept. The
    //! search does not enter a known state again, so it ends.

    use super::*;
    use std::collections::HashSet;

    const BLOCKS: u64 = 4;

    /// A process of the model: waits, works on its block, posts, and continues with the next block.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    struct Actor {
        side: Side,
        slot: usize,
        blocks: u64,
        t: u64,
        doing: Doing,
        /// A ring is pending. Rings merge: two count as one.
        rung: bool,
    }

    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    enum Doing {
        Waiting(Wait),
        Working,
        Posting(Post),
        Done,
    }

    #[derive(Debug, Clone, PartialEq, Eq, Hash)]
    struct State {
        words: Vec<u64>,
        actors: Vec<Actor>,
        /// Block in each (buffer, slot), as its number plus one; zero if empty.
        contents: Vec<u64>,
        /// Number of rings that the model can still lose.
        losses: u32,
    }

    /// The doorbell of one step: records the ring. The model decides about sleeping.
    struct Noted {
        number: u64,
        rang: Option<u64>,
    }

    impl Doorbell for Noted {
        fn own_number(&self) -> u64 {
            self.number
        }
        fn ring(&mut self, number: u64) {
            self.rang = Some(number);
        }
        fn yield_now(&mut self) {}
        fn sleep(&mut self) -> bool {
            true
        }
    }

    fn start(slots: usize, blocks: &[u64], losses: u32) -> State {
        let mut words = vec![0; slots * WORDS_PER_SLOT];
        for slot in 0..slots {
            words[slot * WORDS_PER_SLOT + ENDED] = u64::MAX;
        }
        let actor = |side, slot| Actor {
            side,
            slot,
            blocks: blocks[slot],
            t: 0,
            doing: Doing::Waiting(short(Wait::new(side, slot, 0))),
            rung: false,
        };
        let actors =
            (0..slots).flat_map(|slot| [actor(Side::Filler, slot), actor(Side::Drainer, slot)]);
        State {
            words,
            actors: actors.collect(),
            contents: vec![0; slots * 2],
            losses,
        }
    }

    /// Fifty looks multiply the states and show nothing that one look does not.
    fn short(mut wait: Wait) -> Wait {
        wait.looks = 1;
        wait
    }

    fn shared(state: &State) -> Vec<AtomicU64> {
        state
            .words
            .iter()
            .map(|word| AtomicU64::new(*word))
            .collect()
    }

    /// The states that one step of actor `index` can lead to; empty if the actor cannot step.
    fn steps(state: &State, index: usize, coupling: Coupling, time_outs: bool) -> Vec<State> {
        let words = shared(state);
        let shake = Handshake::new(&words, coupling);
        let mut next = state.clone();
        let mut bell = Noted {
            number: index as u64 + 1,
            rang: None,
        };
        let actor = &mut next.actors[index];
        match &mut actor.doing {
            Doing::Done => return Vec::new(),
            Doing::Waiting(wait) if wait.at == WaitAt::Sleep && !actor.rung && !time_outs => {
                return Vec::new();
            }
            Doing::Waiting(wait) => {
                if wait.at == WaitAt::Sleep {
                    actor.rung = false;
                }
                if wait.step(&shake, &mut bell) == Waiting::Goes {
                    actor.doing = Doing::Working;
                }
                if let Doing::Waiting(wait) = &mut actor.doing {
                    wait.looks = wait.looks.min(1);
                }
            }
            Doing::Working => work(actor, &mut next.contents, &shake),
            Doing::Posting(post) => {
                if post.step(&shake, &mut bell) {
                    actor.t += 1;
                    actor.doing = if actor.t == actor.blocks {
                        Doing::Done
                    } else {
                        Doing::Waiting(short(Wait::new(actor.side, actor.slot, actor.t)))
                    };
                }
            }
        }
        next.words = words.iter().map(|word| word.load(SeqCst)).collect();
        let Some(rung) = bell.rang else {
            return vec![next];
        };
        let mut kept = next.clone();
        kept.actors[usize::try_from(rung).unwrap() - 1].rung = true;
        let mut outcomes = vec![kept];
        if next.losses > 0 {
            next.losses -= 1;
            outcomes.push(next);
        }
        outcomes
    }

    fn work(actor: &mut Actor, contents: &mut [u64], shake: &Handshake<'_>) {
        let place = usize::try_from(actor.t & 1).unwrap() * (contents.len() / 2) + actor.slot;
        match actor.side {
            Side::Filler => {
                assert_eq!(
                    contents[place], 0,
                    "a block that nobody drained was overwritten"
                );
                contents[place] = actor.t + 1;
                if actor.t + 1 == actor.blocks {
                    shake.end(actor.slot, actor.blocks);
                }
            }
            Side::Drainer => {
                assert_eq!(contents[place], actor.t + 1, "a wrong block was drained");
                contents[place] = 0;
            }
        }
        actor.doing = Doing::Posting(Post::new(actor.side, actor.slot, actor.t));
    }

    /// Tries every interleaving; returns the number of states. Without losses, no actor may ever need a timeout; with
    /// losses, the timeout must always be enough.
    fn explore(slots: usize, blocks: &[u64], coupling: Coupling, losses: u32) -> usize {
        let first = start(slots, blocks, losses);
        let mut seen = HashSet::from([first.clone()]);
        let mut open = vec![first];
        while let Some(state) = open.pop() {
            let lost_some = losses > state.losses;
            let mut next: Vec<State> = Vec::new();
            for index in 0..state.actors.len() {
                next.extend(steps(&state, index, coupling, false));
            }
            if next.is_empty() && lost_some {
                for index in 0..state.actors.len() {
                    next.extend(steps(&state, index, coupling, true));
                }
            }
            let done = state.actors.iter().all(|actor| actor.doing == Doing::Done);
            assert!(done || !next.is_empty(), "everybody sleeps: {state:?}");
            for state in next {
                if seen.insert(state.clone()) {
                    open.push(state);
                }
            }
        }
        seen.len()
    }

    #[test]
    fn no_interleaving_of_one_slot_loses_overwrites_or_sleeps_for_ever() {
        assert!(explore(1, &[BLOCKS], Coupling::Block, 0) > 100);
    }

    #[test]
    fn lost_rings_cost_time_and_nothing_else() {
        assert!(explore(1, &[BLOCKS], Coupling::Block, 3) > 200);
    }

    #[test]
    fn two_slots_in_lockstep_go_through_every_interleaving() {
        assert!(explore(2, &[2, 2], Coupling::Buffer, 0) > 1000);
    }

    #[test]
    fn a_slot_that_ends_early_holds_nobody_up_in_lockstep() {
        assert!(explore(2, &[1, 3], Coupling::Buffer, 0) > 1000);
    }

    #[test]
    fn the_model_finds_a_handshake_that_forgets_to_look_again() {
        // The same search over a broken protocol must fail, or the search proves nothing.
        let found = std::panic::catch_unwind(|| {
            let mut state = start(1, &[BLOCKS], 0);
            // The drainer is already past its last look before the filler starts: it sleeps without an
            // announcement.
            if let Doing::Waiting(wait) = &mut state.actors[1].doing {
                wait.at = WaitAt::Sleep;
            }
            let mut open = vec![state];
            let mut seen = HashSet::new();
            while let Some(state) = open.pop() {
                let next: Vec<State> = (0..2)
                    .flat_map(|index| steps(&state, index, Coupling::Block, false))
                    .collect();
                assert!(
                    !next.is_empty() || state.actors.iter().all(|actor| actor.doing == Doing::Done),
                    "everybody sleeps"
                );
                open.extend(next.into_iter().filter(|state| seen.insert(state.clone())));
            }
        });
        assert!(found.is_err());
    }
}
