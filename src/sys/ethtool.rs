//! Firmware, driver counters and settings of an interface, read with the calls that `ethtool` uses. Needs no privileges.
//!
//! Structures and numbers come from `linux/ethtool.h` and `linux/sockios.h`.

use std::os::fd::{AsRawFd, OwnedFd};

use nix::libc;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};

use crate::record::{Coalescing, Room, Tuning};

const SIOCETHTOOL: libc::c_ulong = 0x8946;
const GET_DRIVER: u32 = 0x03;
const GET_COALESCING: u32 = 0x0e;
const GET_RINGS: u32 = 0x10;
const GET_STRINGS: u32 = 0x1b;
const GET_STATISTICS: u32 = 0x1d;
const GET_SIZE_OF_SET: u32 = 0x37;
const GET_FEATURES: u32 = 0x3a;
const GET_CHANNELS: u32 = 0x3c;
/// The set of strings that name statistics.
const STATISTICS: u32 = 1;
/// The set of strings that name features.
const FEATURES: u32 = 4;
/// Offloads by the short names of `ethtool -K`, each with the kernel's features that stand for it.
const OFFLOADS: [(&str, &[&str]); 5] = [
    ("tx", &["tx-checksum-ipv4", "tx-checksum-ip-generic"]),
    ("tso", &["tx-tcp-segmentation"]),
    ("gso", &["tx-generic-segmentation"]),
    ("gro", &["rx-gro"]),
    ("lro", &["rx-lro"]),
];
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

    /// All 32-bit numbers.
    fn numbers(&self) -> Vec<u32> {
        let bytes = self.bytes();
        let numbers = bytes.as_chunks::<4>().0.iter();
        numbers.map(|bytes| u32::from_ne_bytes(*bytes)).collect()
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

/// Offloads, rings, channels and coalescing of an interface, as far as its driver has them.
pub(crate) fn tuning(name: &str) -> Tuning {
    let mut found = Tuning {
        interface: name.to_owned(),
        ..Tuning::default()
    };
    let Some(socket) = ear() else { return found };
    (found.on, found.off) = offloads(&features(&socket, name).unwrap_or_default());
    // cmd, and eight numbers.
    if let Some(all) = numbers(&socket, name, GET_RINGS, 9) {
        found.rx_ring = room(all[5], all[1]);
        found.tx_ring = room(all[8], all[4]);
    }
    if let Some(all) = numbers(&socket, name, GET_CHANNELS, 9) {
        found.rx_channels = room(all[5], all[1]);
        found.tx_channels = room(all[6], all[2]);
        found.combined_channels = room(all[8], all[4]);
    }
    if let Some(all) = numbers(&socket, name, GET_COALESCING, 23) {
        let coalescing = |at: usize, adaptive: u32| Coalescing {
            wait_us: all[at],
            frames: all[at + 1],
            adaptive: adaptive != 0,
        };
        found.rx_coalescing = Some(coalescing(1, all[10]));
        found.tx_coalescing = Some(coalescing(5, all[11]));
    }
    found
}

/// A number and its maximum; `None` if the driver has no such thing.
fn room(now: u32, most: u32) -> Option<Room> {
    (most > 0).then_some(Room { now, most })
}

/// The numbers of a structure that has nothing else, the command first.
fn numbers(socket: &OwnedFd, name: &str, command: u32, count: usize) -> Option<Vec<u32>> {
    let mut words = Words::new(4 * count, command);
    ask(socket, name, &mut words)?;
    Some(words.numbers())
}

/// A feature of an interface: an offload, or a part of one.
#[derive(Debug, Clone)]
struct Feature {
    name: String,
    /// True if `ethtool -K` can change it.
    available: bool,
    /// True if it is requested; it is still off while something that it needs is off.
    requested: bool,
    active: bool,
}

fn features(socket: &OwnedFd, name: &str) -> Option<Vec<Feature>> {
    // cmd, reserved, a mask of sets in 64 bits, then the number of strings of each set.
    let mut set = Words::new(20, GET_SIZE_OF_SET);
    set.0[1] = 1 << FEATURES;
    ask(socket, name, &mut set)?;
    let count = usize::try_from(set.numbers()[4]).ok()?;
    if count == 0 || count > MOST {
        return None;
    }
    // cmd, string_set, len, then the names.
    let mut names = Words::new(12 + count * NAME, GET_STRINGS);
    names.set(1, FEATURES);
    ask(socket, name, &mut names)?;
    // cmd, size, then for each 32 features: available, requested, active, never changed.
    let blocks = count.div_ceil(32);
    let mut bits = Words::new(8 + blocks * 16, GET_FEATURES);
    bits.set(1, u32::try_from(blocks).ok()?);
    ask(socket, name, &mut bits)?;
    let bits = bits.numbers();
    let is_set = |number: usize, column: usize| {
        let block = bits[2 + number / 32 * 4 + column];
        block >> (number % 32) & 1 == 1
    };
    let names = names.bytes();
    let named = names[12..].chunks(NAME).map(text).take(count).enumerate();
    let feature = |(number, name)| Feature {
        name,
        available: is_set(number, 0),
        requested: is_set(number, 1),
        active: is_set(number, 2),
    };
    Some(named.map(feature).collect())
}

/// Offloads that are on, and those that are off and that their own switch turns on.
fn offloads(features: &[Feature]) -> (Vec<String>, Vec<String>) {
    let (mut on, mut off) = (Vec::new(), Vec::new());
    for (short, parts) in OFFLOADS {
        let of = |is: fn(&Feature) -> bool| {
            let mut own = features.iter().filter(|one| parts.contains(&&*one.name));
            own.any(is)
        };
        if of(|one| one.active) {
            on.push(short.to_owned());
        } else if of(|one| one.available && !one.requested) {
            off.push(short.to_owned());
        }
    }
    (on, off)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_offload_is_off_only_if_its_switch_turns_it_on() {
        let feature = |name: &str, [available, requested, active]: [bool; 3]| Feature {
            name: name.to_owned(),
            available,
            requested,
            active,
        };
        let features = [
            feature("tx-scatter-gather", [true, true, true]),
            // A card has one of two kinds of checksums.
            feature("tx-checksum-ipv4", [false, false, false]),
            feature("tx-checksum-ip-generic", [true, false, false]),
            // Requested, but without checksums it cannot work.
            feature("tx-tcp-segmentation", [true, true, false]),
            // On for ever, as on the loopback interface.
            feature("tx-generic-segmentation", [false, false, true]),
            feature("rx-gro", [true, false, false]),
            // The driver has none.
            feature("rx-lro", [false, false, false]),
        ];
        let (on, off) = offloads(&features);
        assert_eq!(on, ["gso"]);
        assert_eq!(off, ["tx", "gro"]);
        assert_eq!(offloads(&[]), (vec![], vec![]));
    }

    #[test]
    fn the_loopback_interface_has_offloads_and_neither_rings_nor_channels() {
        let found = tuning("lo");
        for offload in ["tx", "tso", "gso"] {
            assert!(found.on.iter().any(|one| one == offload), "{found:?}");
        }
        assert_eq!((found.rx_ring, found.tx_ring), (None, None));
        assert_eq!((found.rx_channels, found.combined_channels), (None, None));
        assert_eq!(found.rx_coalescing, None);
        let unknown = tuning("nosuchinterface0");
        assert_eq!((unknown.on, unknown.off), (vec![], vec![]));
        assert_eq!(room(0, 0), None);
    }

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
