//! Frames of the control channel: four bytes "PBF1", a length (u32, little-endian), and that many bytes: JSON and a line end.

use thiserror::Error;

/// The word that a node prints before anything else. Login shells print too, so the launcher looks for it.
pub const MAGIC_WORD: &[u8] = b"\x01pipebench-node-1\x02\n";
/// Limit of a message's length, in bytes.
pub const LIMIT_BYTES: usize = 64 << 20;
const MARK: [u8; 4] = *b"PBF1";
const HEAD_BYTES: usize = 8;
/// Most bytes that are reserved for a message because its head announces them.
const MOST_RESERVED_BYTES: usize = 1 << 20;

/// Reason why bytes are not frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum FrameError {
    /// The channel carries something other than frames.
    #[error("the control channel carries data that is not a frame")]
    Mark,
    /// The announced length exceeds the limit.
    #[error("sent more than {LIMIT_BYTES} bytes in one message: {0}")]
    Length(usize),
}

/// Wraps a message in a frame. The frame ends in a line end: remote shells such as `srun` pass on whole lines, and keep back the rest.
pub fn encode(message: &[u8]) -> Vec<u8> {
    let length = u32::try_from(message.len() + 1).unwrap_or(u32::MAX);
    let mut bytes = Vec::with_capacity(HEAD_BYTES + message.len() + 1);
    bytes.extend_from_slice(&MARK);
    bytes.extend_from_slice(&length.to_le_bytes());
    bytes.extend_from_slice(message);
    bytes.push(b'\n');
    bytes
}

/// Collects bytes as they arrive and returns whole messages.
#[derive(Debug, Default)]
pub struct Decoder {
    pending: Vec<u8>,
    taken: usize,
}

impl Decoder {
    /// Number of bytes not yet returned in a message.
    pub fn pending_bytes(&self) -> usize {
        self.pending.len() - self.taken
    }

    /// Adds bytes that arrived.
    pub fn push(&mut self, bytes: &[u8]) {
        // Remove the messages already returned, even if a part of the next one follows: on a busy line it always does.
        self.pending.drain(..self.taken);
        self.taken = 0;
        self.pending.extend_from_slice(bytes);
        // A thousand nodes report at the same time: without this their buffers would be up to twice as large as their messages.
        if let Ok(Some((length, arrived))) = self.next_length() {
            let missing = (length - arrived.len()).min(MOST_RESERVED_BYTES);
            self.pending.reserve_exact(missing);
        }
    }

    /// Length of the next message in bytes, and as much of the message as has arrived; `None` if not even its head has.
    pub fn next_length(&self) -> Result<Option<(usize, &[u8])>, FrameError> {
        let rest = &self.pending[self.taken..];
        let seen = rest.len().min(MARK.len());
        if rest[..seen] != MARK[..seen] {
            return Err(FrameError::Mark);
        }
        let Some((head, rest)) = rest.split_at_checked(HEAD_BYTES) else {
            return Ok(None);
        };
        let length = u32::from_le_bytes([head[4], head[5], head[6], head[7]]) as usize;
        if length > LIMIT_BYTES {
            return Err(FrameError::Length(length));
        }
        Ok(Some((length, &rest[..rest.len().min(length)])))
    }

    /// Returns the next whole message, or `None` if more bytes are needed.
    pub fn next_message(&mut self) -> Result<Option<Vec<u8>>, FrameError> {
        match self.next_length()? {
            Some((length, arrived)) if arrived.len() == length => {
                let message = arrived.to_vec();
                self.taken += HEAD_BYTES + length;
                // Between messages nothing is kept: buffers of the longest ones, of a thousand nodes, are hundreds of MB.
                if self.pending_bytes() == 0 {
                    *self = Self::default();
                }
                Ok(Some(message))
            }
            _ => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn messages_survive_any_cutting(
            messages in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..50), 0..6),
            step in 1_usize..20
        ) {
            let stream: Vec<u8> = messages.iter().flat_map(|message| encode(message)).collect();
            let mut decoder = Decoder::default();
            let mut got = Vec::new();
            for piece in stream.chunks(step) {
                decoder.push(piece);
                while let Some(mut message) = decoder.next_message().unwrap() {
                    prop_assert_eq!(message.pop(), Some(b'\n'));
                    got.push(message);
                }
            }
            prop_assert_eq!(got, messages);
        }

        #[test]
        fn a_long_message_leaves_no_memory_behind(length in 1_usize..300_000) {
            let bytes = encode(&vec![b'7'; length]);
            let mut decoder = Decoder::default();
            for piece in bytes.chunks(16 << 10) {
                decoder.push(piece);
                prop_assert!(decoder.pending.capacity() <= bytes.len().max(16 << 10));
            }
            prop_assert_eq!(decoder.next_message().unwrap().map(|message| message.len()), Some(length + 1));
            prop_assert_eq!(decoder.pending.capacity(), 0);
        }

        #[test]
        fn any_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut decoder = Decoder::default();
            decoder.push(&bytes);
            while let Ok(Some(_)) = decoder.next_message() {}
        }
    }

    #[test]
    fn a_stream_cut_within_its_frames_does_not_grow_the_memory() {
        let message = encode(b"0123456789");
        let stream = message.repeat(1000);
        let mut decoder = Decoder::default();
        for piece in stream.chunks(message.len() + 1) {
            decoder.push(piece);
            while decoder.next_message().unwrap().is_some() {}
            assert!(decoder.pending.len() <= 3 * message.len());
        }
    }

    #[test]
    fn a_frame_that_is_none_or_too_long_is_an_error() {
        let mut decoder = Decoder::default();
        decoder.push(b"hello");
        assert_eq!(decoder.next_message(), Err(FrameError::Mark));
        let mut decoder = Decoder::default();
        decoder.push(b"PBF1\x01\x00\x00\x04");
        let too_long = FrameError::Length(LIMIT_BYTES + 1);
        assert_eq!(decoder.next_message(), Err(too_long));
    }
}
