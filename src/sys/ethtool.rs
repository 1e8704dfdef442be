//! Firmware and driver counters of an interface, read with the calls that `ethtool` uses. Needs no privileges.
//!
//! Structures and numbers come from `linux/ethtool.h` and `linux/sockios.h`.

use std::os::fd::{AsRawFd, OwnedFd};

use nix::libc;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};

const SIOCETHTOOL: libc::c_ulong = 0x8946;
const GET_DRIVER: u32 = 0x03;
const GET_STRINGS: u32 = 0x1b;
const GET_STATISTICS: u32 = 0x1d;
/// The set of strings that name statistics.
const STATISTICS: u32 = 1;
/// Length of a counter's name, and of each text about a driver, in bytes.
const NAME: usize = 32;
/// No driver has more counters than this.
const MOST: usize = 16_384;
/// Room for counters that a driver adds after it has reported their number.
const SPARE: usize = 1024;

/// Facts that a driver reports about itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Driver {
    /// Name of the driver.
    pub name: String,
    /// Firmware of the interface; empty if it has none or the driver does not report it.
    pub firmware: String,
    /// Number of counters that the driver keeps.
    counters: usize,
}

/// Memory that a call reads and writes, in words of 64 bits.
struct Words(Vec<u64>);

impl Words {
    fn new(bytes: usize, command: u32) -> Self {
        let mut words = Self(vec![0; bytes.div_ceil(8)]);
        words.set(0, command);
        words
    }

    /// Sets the 32-bit number at byte `4 * index`.
    fn set(&mut self, index: usize, value: u32) {
        let mut bytes = self.0[index / 2].to_ne_bytes();
        let at = index % 2 * 4;
        bytes[at..at + 4].copy_from_slice(&value.to_ne_bytes());
        self.0[index / 2] = u64::from_ne_bytes(bytes);
    }

    fn bytes(&self) -> Vec<u8> {
        self.0.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }
}

/// Opens a socket for the calls. Any kind of socket works.
fn ear() -> Option<OwnedFd> {
    socket(
        AddressFamily::Inet,
        SockType::Datagram,
        SockFlag::SOCK_CLOEXEC,
        None,
    )
    .ok()
}

/// Asks the driver of an interface to fill `words`.
fn ask(socket: &OwnedFd, name: &str, words: &mut Words) -> Option<()> {
    let mut ifr_name: [libc::c_char; libc::IFNAMSIZ] = [0; libc::IFNAMSIZ];
    if name.len() >= libc::IFNAMSIZ {
        return None;
    }
    for (to, from) in ifr_name.iter_mut().zip(name.bytes()) {
        *to = libc::c_char::from_ne_bytes([from]);
    }
    let mut request = libc::ifreq {
        ifr_name,
        ifr_ifru: libc::__c_anonymous_ifr_ifru {
            ifru_data: words.0.as_mut_ptr().cast(),
        },
    };
    // SAFETY: the request outlives the call, and its data has room for all that the kernel writes for this command: the structure
    // and, for lists, as many entries as the driver reported and `SPARE` more.
    let done = unsafe { libc::ioctl(socket.as_raw_fd(), SIOCETHTOOL as _, &raw mut request) };
    (done == 0).then_some(())
}

fn text(bytes: &[u8]) -> String {
    let text = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(text).trim().to_owned()
}

/// Driver of the interface `name`. `None` if it has no driver or the kernel refuses to answer.
pub(crate) fn driver(name: &str) -> Option<Driver> {
    driver_by(&ear()?, name)
}

fn driver_by(socket: &OwnedFd, name: &str) -> Option<Driver> {
    // cmd, five texts, reserved2[12], n_priv_flags, n_stats, and three more numbers.
    const BYTES: usize = 4 + 5 * NAME + 12 + 5 * 4;
    const N_STATS: usize = 4 + 5 * NAME + 12 + 4;
    let mut words = Words::new(BYTES, GET_DRIVER);
    ask(socket, name, &mut words)?;
    let bytes = words.bytes();
    let field = |number: usize| text(&bytes[4 + number * NAME..4 + (number + 1) * NAME]);
    let counters = u32::from_ne_bytes(bytes[N_STATS..N_STATS + 4].try_into().ok()?);
    let firmware = Some(field(2)).filter(|text| text != "N/A");
    Some(Driver {
        name: field(0),
        firmware: firmware.unwrap_or_default(),
        counters: usize::try_from(counters).ok()?,
    })
}

/// Names and values of the driver's counters, in the driver's order; empty if it keeps none.
pub(crate) fn statistics(name: &str) -> Vec<(String, u64)> {
    read_statistics(name).unwrap_or_default()
}

fn read_statistics(name: &str) -> Option<Vec<(String, u64)>> {
    let socket = ear()?;
    let count = driver_by(&socket, name)?.counters;
    if count == 0 || count > MOST {
        return None;
    }
    let number = u32::try_from(count).ok()?;
    // cmd, string_set, len, then the names.
    let mut names = Words::new(12 + (count + SPARE) * NAME, GET_STRINGS);
    names.set(1, STATISTICS);
    names.set(2, number);
    ask(&socket, name, &mut names)?;
    // cmd, n_stats, then the values.
    let mut values = Words::new(8 + (count + SPARE) * 8, GET_STATISTICS);
    values.set(1, number);
    ask(&socket, name, &mut values)?;
    let names = names.bytes();
    let named = names[12..].chunks(NAME).map(text);
    Some(
        named
            .zip(values.0.into_iter().skip(1))
            .take(count)
            .collect(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interface_without_a_driver_has_nothing_to_tell() {
        assert_eq!(driver("nosuchinterface0"), None);
        assert_eq!(driver("a name that is far too long"), None);
        assert_eq!(statistics("lo"), []);
    }

    #[test]
    fn numbers_stand_where_the_kernel_looks_for_them() {
        let mut words = Words::new(12, GET_STRINGS);
        words.set(1, STATISTICS);
        words.set(2, 7);
        let bytes = words.bytes();
        assert_eq!(bytes.len(), 16);
        let number = |at: usize| u32::from_ne_bytes(bytes[at..at + 4].try_into().unwrap());
        assert_eq!([number(0), number(4), number(8)], [0x1b, 1, 7]);
    }
}
