//! Limits of packets of an interface, which the kernel reports by netlink only (rtnetlink(7)). Needs no privileges.
//!
//! Structures and numbers come from `linux/rtnetlink.h` and `linux/if_link.h`.

use std::os::fd::AsRawFd;

use nix::net::if_::if_nametoindex;
use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType};
use nix::sys::socket::{recv, send, socket};

const NEW_LINK: u16 = 16;
const GET_LINK: u16 = 18;
const IS_REQUEST: u16 = 1;
const GSO_MAX_SIZE: u16 = 41;
const GRO_MAX_SIZE: u16 = 58;
/// Length of the header of a message, and of what precedes the attributes of a link.
const HEADER: usize = 16;
const LINK: usize = 16;

/// The largest packet in bytes that the kernel hands to an interface, and the largest one into which it merges what arrives.
pub(super) fn packet_limits(name: &str) -> (Option<u32>, Option<u32>) {
    let answer = ask(name).unwrap_or_default();
    (
        attribute(&answer, GSO_MAX_SIZE),
        attribute(&answer, GRO_MAX_SIZE),
    )
}

/// The kernel's message on a link.
fn ask(name: &str) -> Option<Vec<u8>> {
    /// A link has a few KiB of attributes.
    const MOST: usize = 64 << 10;
    let index = if_nametoindex(name).ok()?;
    let socket = socket(
        AddressFamily::Netlink,
        SockType::Raw,
        SockFlag::SOCK_CLOEXEC,
        SockProtocol::NetlinkRoute,
    )
    .ok()?;
    send(socket.as_raw_fd(), &request(index), MsgFlags::empty()).ok()?;
    // The kernel has answered when `send` returns, so there is nothing to wait for.
    let mut answer = vec![0; MOST];
    let bytes = recv(socket.as_raw_fd(), &mut answer, MsgFlags::MSG_DONTWAIT).ok()?;
    answer.truncate(bytes);
    Some(answer)
}

fn request(index: u32) -> Vec<u8> {
    let mut message = Vec::with_capacity(HEADER + LINK);
    message.extend(32_u32.to_ne_bytes());
    message.extend(GET_LINK.to_ne_bytes());
    message.extend(IS_REQUEST.to_ne_bytes());
    // Sequence number, port, and family and type of the link.
    message.extend([0; 12]);
    message.extend(index.to_ne_bytes());
    // Flags, and which of them to change.
    message.extend([0; 8]);
    message
}

/// A number among the attributes of a message on a link.
fn attribute(message: &[u8], wanted: u16) -> Option<u32> {
    let number =
        |bytes: &[u8], at: usize| Some(u16::from_ne_bytes(*bytes.get(at..)?.first_chunk()?));
    if number(message, 4)? != NEW_LINK {
        return None;
    }
    let mut rest = message.get(HEADER + LINK..)?;
    loop {
        // Length with this header of four bytes, and kind; the next attribute begins at a multiple of four bytes.
        let length = usize::from(number(rest, 0)?);
        if number(rest, 2)? == wanted {
            return Some(u32::from_ne_bytes(*rest.get(4..length)?.first_chunk()?));
        }
        rest = rest.get(length.max(4).next_multiple_of(4)..)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_interface_has_limits_and_an_unknown_one_has_none() {
        let (gso, gro) = packet_limits("lo");
        assert!(gso.unwrap() >= 65_536);
        // Kernels before 5.19 do not report it.
        assert!(gro.is_none_or(|bytes| bytes >= 65_536));
        assert_eq!(packet_limits("nosuchinterface0"), (None, None));
    }

    #[test]
    fn an_attribute_is_found_and_a_torn_message_has_none() {
        let attribute_of = |kind: u16, bytes: &[u8]| {
            let length = u16::try_from(4 + bytes.len()).unwrap();
            let mut all = [length.to_ne_bytes(), kind.to_ne_bytes()].concat();
            all.extend(bytes);
            all.resize(all.len().next_multiple_of(4), 0);
            all
        };
        let mut message = request(7);
        assert_eq!(message.len(), HEADER + LINK);
        message[4..6].copy_from_slice(&NEW_LINK.to_ne_bytes());
        message.extend(attribute_of(3, b"eth0\0"));
        message.extend(attribute_of(GSO_MAX_SIZE, &262_144_u32.to_ne_bytes()));
        assert_eq!(attribute(&message, GSO_MAX_SIZE), Some(262_144));
        assert_eq!(attribute(&message, GRO_MAX_SIZE), None);
        for bytes in 0..message.len() {
            assert_eq!(attribute(&message[..bytes], GSO_MAX_SIZE), None);
        }
        // An attribute without a length, or with a wrong one, ends nowhere else.
        message.truncate(HEADER + LINK);
        message.extend([0; 8]);
        assert_eq!(attribute(&message, GSO_MAX_SIZE), None);
        // An error has another kind.
        message[4..6].copy_from_slice(&2_u16.to_ne_bytes());
        assert_eq!(attribute(&message, 0), None);
    }
}
