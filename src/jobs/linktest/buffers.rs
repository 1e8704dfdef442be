//! Buffers of messages, their contents, and the check of what has arrived.

use numbers::random::Random;

/// Buffers that messages use in turn.
pub(crate) struct Buffers {
    out: Vec<Vec<u8>>,
    into: Vec<Vec<u8>>,
}

/// Filler: no sender writes this byte into a buffer that is checked, except by chance.
const NOTHING: u8 = 0xa5;

impl Buffers {
    /// Creates `count` buffers of `bytes` bytes for each direction. It touches every page, so that the first message does not pay for it.
    pub(crate) fn new(bytes: usize, count: usize) -> Self {
        Self {
            out: vec![vec![NOTHING; bytes]; count],
            into: vec![vec![NOTHING; bytes]; count],
        }
    }

    /// Buffers of a message: one to send, and one to receive into.
    pub(crate) fn turn(&mut self, number: usize) -> (&[u8], &mut [u8]) {
        let place = number % self.out.len();
        (&self.out[place], &mut self.into[place])
    }

    /// Fills the send buffers with the contents of rank `own`.
    pub(crate) fn fill(&mut self, contents: Contents, own: usize) {
        for (place, buffer) in self.out.iter_mut().enumerate() {
            contents.write(own, place, buffer);
        }
    }

    /// Clears the receive buffers, so that a check sees only what has arrived since.
    pub(crate) fn forget(&mut self) {
        for buffer in &mut self.into {
            buffer.fill(NOTHING);
        }
    }

    /// The first byte that differs from what rank `from` should have sent in `messages` messages: number of the buffer, and offset in it.
    /// `None` if all bytes are right.
    pub(crate) fn first_wrong(
        &self,
        contents: Contents,
        from: usize,
        messages: usize,
    ) -> Option<(usize, usize)> {
        let mut used = self.into.iter().take(messages).enumerate();
        used.find_map(|(place, buffer)| Some((place, contents.first_wrong(from, place, buffer)?)))
    }
}

/// Contents of buffers: they follow from a seed, the rank that sends and the number of the buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Contents {
    /// Seed.
    pub seed: u64,
    /// True for random words, false for one byte throughout.
    pub random: bool,
}

impl Contents {
    fn write(self, rank: usize, place: usize, buffer: &mut [u8]) {
        let start = self.start(rank, place);
        if !self.random {
            return buffer.fill(byte_of(start));
        }
        let mut random = Random::new(start);
        for chunk in buffer.chunks_mut(8) {
            let word = random.any().to_le_bytes();
            chunk.copy_from_slice(&word[..chunk.len()]);
        }
    }

    fn first_wrong(self, rank: usize, place: usize, buffer: &[u8]) -> Option<usize> {
        let start = self.start(rank, place);
        if !self.random {
            let expected = byte_of(start);
            return buffer.iter().position(|byte| *byte != expected);
        }
        let mut random = Random::new(start);
        for (number, chunk) in buffer.chunks(8).enumerate() {
            let word = random.any().to_le_bytes();
            if *chunk != word[..chunk.len()] {
                let differs = chunk.iter().zip(word).position(|(got, sent)| *got != sent);
                return Some(number * 8 + differs.unwrap_or(0));
            }
        }
        None
    }

    fn start(self, rank: usize, place: usize) -> u64 {
        Random::new(self.seed ^ (rank as u64) << 32 ^ (place as u64) << 1).any()
    }
}

/// A byte that is not the filler.
fn byte_of(state: u64) -> u8 {
    match state.to_le_bytes()[0] {
        NOTHING => !NOTHING,
        byte => byte,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_arrives_is_compared_byte_for_byte_and_what_has_not_come_is_noticed() {
        for random in [true, false] {
            let contents = Contents { seed: 5, random };
            let (mut one, mut other) = (Buffers::new(1003, 3), Buffers::new(1003, 3));
            one.fill(contents, 4);
            assert_eq!(other.first_wrong(contents, 4, 3), Some((0, 0)));
            for number in 0..2 {
                let sent = one.turn(number).0.to_vec();
                other.turn(number).1.copy_from_slice(&sent);
            }
            assert_eq!(other.first_wrong(contents, 4, 2), None);
            assert_eq!(other.first_wrong(contents, 4, 3), Some((2, 0)));
            assert!(
                other.first_wrong(contents, 3, 2).is_some(),
                "another rank sends something else"
            );
            other.turn(1).1[1001] ^= 1;
            assert_eq!(other.first_wrong(contents, 4, 2), Some((1, 1001)));
            other.forget();
            assert_eq!(other.first_wrong(contents, 4, 1), Some((0, 0)));
        }
    }

    #[test]
    fn buffers_are_used_in_turn_and_differ() {
        let mut buffers = Buffers::new(64, 3);
        buffers.fill(
            Contents {
                seed: 1,
                random: true,
            },
            0,
        );
        let all: Vec<Vec<u8>> = (0..4)
            .map(|number| buffers.turn(number).0.to_vec())
            .collect();
        assert_eq!(all[0], all[3]);
        assert!(all[0] != all[1] && all[1] != all[2]);
    }
}
