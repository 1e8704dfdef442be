//! Largest payload rate of a port, after the cost of frames and of acknowledgements for the other direction.
//!
//! Formulas are those of IEEE 802.3 (frame), RFC 791, RFC 8200, RFC 9293 and RFC 7323 (headers). Frames of 1500 bytes cannot reach "95 % of
//! line rate".

use serde::{Deserialize, Serialize};

/// Preamble, start of frame, header, check sequence and inter-frame gap, in bytes.
const FRAME_BYTES: u32 = 8 + 14 + 4 + 12;
/// VLAN tag (802.1Q), in bytes.
const TAG_BYTES: u32 = 4;
/// Smallest frame without preamble and gap, in bytes.
const LEAST_FRAME_BYTES: u32 = 64;

/// Composition of a frame of full size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Framing {
    /// Largest IP packet in bytes.
    pub mtu_bytes: u32,
    /// True for IPv6, false for IPv4.
    pub v6: bool,
    /// True if frames carry a VLAN tag.
    pub tagged: bool,
    /// True if segments carry timestamps (RFC 7323).
    pub timestamps: bool,
    /// Bytes that a tunnel adds to each frame on its way.
    pub overhead_bytes: u32,
}

impl Framing {
    fn header_bytes(self) -> u32 {
        let ip = if self.v6 { 40 } else { 20 };
        ip + 20 + if self.timestamps { 12 } else { 0 }
    }

    /// Payload of a full segment in bytes.
    pub fn payload_bytes(self) -> u32 {
        self.mtu_bytes.saturating_sub(self.header_bytes())
    }

    /// Bytes on the wire that a packet of `packet_bytes` bytes takes.
    fn on_wire_bytes(self, packet_bytes: u32) -> u32 {
        let tag = if self.tagged { TAG_BYTES } else { 0 };
        let frame = packet_bytes + 14 + 4 + tag + self.overhead_bytes;
        frame.max(LEAST_FRAME_BYTES) + FRAME_BYTES - 14 - 4
    }

    /// Payload per byte on the wire, with full segments one way and no traffic back: (MTU - headers) / (MTU + 38).
    pub fn efficiency(self) -> f64 {
        f64::from(self.payload_bytes()) / f64::from(self.on_wire_bytes(self.mtu_bytes))
    }

    /// Payload in bits per second that a port of `bits_per_s` carries in one direction, while `acks_per_s` acknowledgements without payload
    /// share that direction and confirm the payload of the other one.
    pub fn payload_ceiling(self, bits_per_s: f64, acks_per_s: f64) -> f64 {
        let acks = acks_per_s * f64::from(self.on_wire_bytes(self.header_bytes())) * 8.0;
        (bits_per_s - acks).max(0.0) * self.efficiency()
    }

    /// Bits per second on the wire for payload in full segments, with acknowledgements in the same direction.
    pub fn wire_rate(self, payload_bits_per_s: f64, acks_per_s: f64) -> f64 {
        let acks = acks_per_s * f64::from(self.on_wire_bytes(self.header_bytes())) * 8.0;
        payload_bits_per_s / self.efficiency() + acks
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn framing(mtu_bytes: u32) -> Framing {
        Framing {
            mtu_bytes,
            v6: false,
            tagged: false,
            timestamps: true,
            overhead_bytes: 0,
        }
    }

    fn percent(framing: Framing) -> f64 {
        (framing.efficiency() * 1e4).round() / 100.0
    }

    /// The figures of facts/testers.md, section 0.
    #[test]
    fn the_ceilings_of_the_usual_frames() {
        assert_eq!(percent(framing(1500)), 94.15);
        assert_eq!(percent(framing(9000)), 99.0);
        let tagged = |mtu| Framing {
            tagged: true,
            ..framing(mtu)
        };
        assert_eq!(
            (percent(tagged(1500)), percent(tagged(9000))),
            (93.9, 98.96)
        );
        let v6 = |mtu| Framing {
            v6: true,
            ..framing(mtu)
        };
        assert_eq!((percent(v6(1500)), percent(v6(9000))), (92.85, 98.78));
        assert_eq!(framing(1500).payload_bytes(), 1448);
        let tunnel = Framing {
            overhead_bytes: 50,
            ..framing(1450)
        };
        assert_eq!(percent(tunnel), 90.9);
    }

    /// One acknowledgement for two segments both ways: 2.8 % at 1500 and 0.5 % at 9000 (facts/acceptance.md).
    #[test]
    fn acknowledgements_of_the_other_direction_lower_the_ceiling() {
        for (mtu, lowered) in [(1500, 2.8), (9000, 0.5)] {
            let one_way = framing(mtu).payload_ceiling(1e9, 0.0);
            // The other direction is as fast, and every two of its segments take one acknowledgement.
            let mut both = one_way;
            for _ in 0..50 {
                let acks = both / 8.0 / f64::from(framing(mtu).payload_bytes()) / 2.0;
                both = framing(mtu).payload_ceiling(1e9, acks);
            }
            let cost = ((1.0 - both / one_way) * 1000.0).round() / 10.0;
            assert_eq!(cost, lowered);
            let acks = both / 8.0 / f64::from(framing(mtu).payload_bytes()) / 2.0;
            assert!((framing(mtu).wire_rate(both, acks) - 1e9).abs() < 1.0);
        }
        assert_eq!(framing(1500).payload_ceiling(1e3, 1e9), 0.0);
        assert_eq!(framing(20).payload_bytes(), 0);
    }
}
