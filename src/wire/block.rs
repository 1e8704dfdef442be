//! The header before every block of a link: 64 bytes, little-endian, magic word and version first.
//!
//! ```text
//!  0  magic "PBLK"    4  version u16   6  flags u16     8  payload length u64   16  sequence u64
//! 24  source node u32 28  source slot u32  32  CRC-32 of the payload u32, if flag 2 is set  36..64 zero
//! ```

use thiserror::Error;

use super::bytes_at;

/// Length of a header in bytes.
pub const HEADER_BYTES: usize = 64;
/// Version of the header.
pub const BLOCK_VERSION: u16 = 1;
const MAGIC: [u8; 4] = *b"PBLK";
const LAST: u16 = 1;
const SUMMED: u16 = 2;

/// The header before a payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockHeader {
    /// Length of the payload that follows, in bytes.
    pub payload_bytes: u64,
    /// Number of the block on its link, from zero.
    pub sequence: u64,
    /// Node whose source made the block.
    pub source_node: u32,
    /// Slot of that source.
    pub source_slot: u32,
    /// CRC-32 of the payload, if it was computed.
    pub checksum: Option<u32>,
    /// True for the last block of the link.
    pub last: bool,
}

/// Reason why a header is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum BlockError {
    /// The magic word is missing.
    #[error("no block header where one was expected")]
    Magic,
    /// The header has another version.
    #[error("block header of version {0}, expected version {BLOCK_VERSION}")]
    Version(u16),
    /// The header has flags that this version does not know.
    #[error("unknown block flags {0:#06x}")]
    Flags(u16),
    /// The payload is longer than a slot.
    #[error("block of {got} bytes, a slot holds {limit}")]
    Length {
        /// Announced length in bytes.
        got: u64,
        /// Length of a slot in bytes.
        limit: u64,
    },
    /// The block belongs to another chain.
    #[error("it is of node {}'s slot {}, expected one of node {}'s slot {}", got.0, got.1, due.0, due.1)]
    Origin {
        /// Source node and slot in the header.
        got: (u32, u32),
        /// Source node and slot of this link's chain.
        due: (u32, u32),
    },
    /// The payload was changed on the way.
    #[error("the payload changed in transit: CRC-32 {got:08x}, expected {due:08x}")]
    Checksum {
        /// Checksum of the payload that arrived.
        got: u32,
        /// Checksum of the payload that was sent.
        due: u32,
    },
    /// The header carries no checksum, but should.
    #[error("it carries no checksum")]
    NoChecksum,
    /// The block is not the next one.
    #[error("block {got} arrived instead of block {due}")]
    Sequence {
        /// Received number.
        got: u64,
        /// Expected number.
        due: u64,
    },
}

impl BlockHeader {
    /// Encodes the header for the wire.
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[0..4].copy_from_slice(&MAGIC);
        bytes[4..6].copy_from_slice(&BLOCK_VERSION.to_le_bytes());
        let flags =
            if self.last { LAST } else { 0 } | if self.checksum.is_some() { SUMMED } else { 0 };
        bytes[6..8].copy_from_slice(&flags.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.payload_bytes.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.sequence.to_le_bytes());
        bytes[24..28].copy_from_slice(&self.source_node.to_le_bytes());
        bytes[28..32].copy_from_slice(&self.source_slot.to_le_bytes());
        bytes[32..36].copy_from_slice(&self.checksum.unwrap_or(0).to_le_bytes());
        bytes
    }

    /// Decodes a header. Refuses one that announces more than `limit` bytes.
    pub fn decode(bytes: &[u8; HEADER_BYTES], limit: u64) -> Result<Self, BlockError> {
        if bytes[0..4] != MAGIC {
            return Err(BlockError::Magic);
        }
        let version = u16::from_le_bytes(bytes_at(bytes, 4));
        if version != BLOCK_VERSION {
            return Err(BlockError::Version(version));
        }
        let flags = u16::from_le_bytes(bytes_at(bytes, 6));
        if flags & !(LAST | SUMMED) != 0 {
            return Err(BlockError::Flags(flags));
        }
        let header = Self {
            payload_bytes: u64::from_le_bytes(bytes_at(bytes, 8)),
            sequence: u64::from_le_bytes(bytes_at(bytes, 16)),
            source_node: u32::from_le_bytes(bytes_at(bytes, 24)),
            source_slot: u32::from_le_bytes(bytes_at(bytes, 28)),
            checksum: (flags & SUMMED != 0).then(|| u32::from_le_bytes(bytes_at(bytes, 32))),
            last: flags & LAST != 0,
        };
        if header.payload_bytes > limit {
            return Err(BlockError::Length {
                got: header.payload_bytes,
                limit,
            });
        }
        Ok(header)
    }

    /// Checks that this block started at `due`, a node and one of its slots.
    pub fn expect_origin(self, due: (u32, u32)) -> Result<Self, BlockError> {
        let got = (self.source_node, self.source_slot);
        if got == due {
            Ok(self)
        } else {
            Err(BlockError::Origin { got, due })
        }
    }

    /// Compares the header's checksum with `got`, that of the payload that arrived.
    pub fn expect_checksum(self, got: u32) -> Result<Self, BlockError> {
        match self.checksum {
            None => Err(BlockError::NoChecksum),
            Some(due) if due != got => Err(BlockError::Checksum { got, due }),
            Some(_) => Ok(self),
        }
    }

    /// Checks that this is block number `due`.
    pub fn expect(self, due: u64) -> Result<Self, BlockError> {
        if self.sequence == due {
            Ok(self)
        } else {
            Err(BlockError::Sequence {
                got: self.sequence,
                due,
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_header_survives_the_way(payload_bytes in 0_u64..1 << 30, sequence: u64, last: bool, node: u32, slot: u32, checksum: Option<u32>) {
            let header = BlockHeader { payload_bytes, sequence, last, source_node: node, source_slot: slot, checksum };
            prop_assert_eq!(BlockHeader::decode(&header.encode(), 1 << 30), Ok(header));
        }

        #[test]
        fn no_bytes_panic(bytes in proptest::array::uniform32(any::<u8>()), tail in proptest::array::uniform32(any::<u8>())) {
            let mut all = [0; 64];
            all[..32].copy_from_slice(&bytes);
            all[32..].copy_from_slice(&tail);
            prop_assert!(BlockHeader::decode(&all, 4096).is_ok_and(|header| header.payload_bytes <= 4096) || BlockHeader::decode(&all, 4096).is_err());
        }
    }

    #[test]
    fn every_fault_is_named() {
        let header = BlockHeader {
            payload_bytes: 10,
            sequence: 3,
            last: false,
            source_node: 0,
            source_slot: 0,
            checksum: Some(9),
        };
        let bytes = header.encode();
        let with = |at: usize, value: u8| {
            let mut changed = bytes;
            changed[at] = value;
            BlockHeader::decode(&changed, 10)
        };
        assert_eq!(with(0, 0), Err(BlockError::Magic));
        assert_eq!(with(4, 9), Err(BlockError::Version(9)));
        assert_eq!(with(6, 4), Err(BlockError::Flags(4)));
        assert_eq!(with(8, 11), Err(BlockError::Length { got: 11, limit: 10 }));
        assert_eq!(
            header.expect(4),
            Err(BlockError::Sequence { got: 3, due: 4 })
        );
        assert_eq!(header.expect(3), Ok(header));
        assert_eq!(header.expect_origin((0, 0)), Ok(header));
        let origin = header.expect_origin((1, 2)).unwrap_err().to_string();
        assert_eq!(
            origin,
            "it is of node 0's slot 0, expected one of node 1's slot 2"
        );
        assert_eq!(header.expect_checksum(9), Ok(header));
        let changed = header.expect_checksum(8).unwrap_err().to_string();
        assert_eq!(
            changed,
            "the payload changed in transit: CRC-32 00000008, expected 00000009"
        );
        let bare = BlockHeader {
            checksum: None,
            ..header
        };
        assert_eq!(bare.expect_checksum(9), Err(BlockError::NoChecksum));
    }
}
