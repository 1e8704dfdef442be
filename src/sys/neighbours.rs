//! Hardware addresses that answer for IPv4 addresses on the local network.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::thread;
use std::time::{Duration, Instant};

/// Neighbours answer in less than a millisecond. A neighbour that does not answer within this time counts as absent.
const PATIENCE: Duration = Duration::from_millis(300);
const LOOK: Duration = Duration::from_millis(2);

/// Hardware addresses, such as `02:00:00:00:00:07`, that answer for the addresses `asked` on `interface`, whose own address is
/// `own`. The result leaves out three kinds of address: addresses beyond a router; addresses with a permanent entry in the table,
/// since no host answered for them; and IPv6 addresses, since hosts look for duplicates of these themselves (RFC 4862, 5.4).
pub(crate) fn of(own: IpAddr, interface: Option<&str>, asked: &[IpAddr]) -> Vec<(IpAddr, String)> {
    /// The discard protocol (RFC 863).
    const DISCARD: u16 = 9;
    let Ok(socket) = UdpSocket::bind((own, 0)) else {
        return Vec::new();
    };
    let asked = asked.iter().filter(|address| address.is_ipv4());
    let asked: Vec<IpAddr> = asked.copied().collect();
    for address in &asked {
        // To send, the kernel asks for the hardware address. An answer to the datagram itself does not matter.
        drop(socket.send_to(&[], (*address, DISCARD)));
    }
    let end = Instant::now() + PATIENCE;
    loop {
        let text = fs::read_to_string("/proc/net/arp").unwrap_or_default();
        let rows = text.lines().filter_map(|line| Row::read(line, interface));
        let rows: Vec<Row> = rows
            .filter(|row| asked.contains(&IpAddr::V4(row.address)))
            .collect();
        let all = rows.iter().all(|row| row.hardware.is_some());
        if all || Instant::now() > end {
            let known = rows.into_iter();
            return known
                .filter_map(|row| Some((IpAddr::V4(row.address), row.hardware?)))
                .collect();
        }
        thread::sleep(LOOK);
    }
}

/// A row of the kernel's table of neighbours (proc_pid_net(5), `arp`).
#[derive(Debug, PartialEq)]
struct Row {
    address: Ipv4Addr,
    /// `None` until the neighbour has answered.
    hardware: Option<String>,
}

impl Row {
    fn read(line: &str, interface: Option<&str>) -> Option<Self> {
        const ANSWERED: u32 = 2;
        const WRITTEN_BY_HAND: u32 = 4;
        let fields: Vec<&str> = line.split_whitespace().collect();
        let [address, _, flags, hardware, _, device] = fields[..] else {
            return None;
        };
        let flags = u32::from_str_radix(flags.strip_prefix("0x")?, 16).ok()?;
        if flags & WRITTEN_BY_HAND != 0 || interface.is_some_and(|name| name != device) {
            return None;
        }
        Some(Self {
            address: address.parse().ok()?,
            hardware: (flags & ANSWERED != 0).then(|| hardware.to_owned()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_the_table_are_read_and_those_that_wait_have_no_hardware_address() {
        let row = |line| Row::read(line, Some("eth1"));
        assert_eq!(row("IP address HW type Flags HW address Mask Device"), None);
        let answered = row("10.0.0.2 0x1 0x2 02:00:00:00:00:07 * eth1").unwrap();
        assert_eq!(answered.hardware.as_deref(), Some("02:00:00:00:00:07"));
        assert_eq!(answered.address, Ipv4Addr::new(10, 0, 0, 2));
        let waits = row("10.0.0.3 0x1 0x0 00:00:00:00:00:00 * eth1").unwrap();
        assert_eq!(waits.hardware, None);
        assert_eq!(row("10.0.0.2 0x1 0x2 02:00:00:00:00:07 * eth0"), None);
        let by_hand = row("10.0.0.2 0x1 0x6 02:00:00:00:00:fe * eth1");
        assert_eq!(by_hand, None);
    }

    #[test]
    fn an_address_that_is_routed_or_own_has_no_neighbour_and_costs_no_time() {
        let own = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let began = Instant::now();
        assert_eq!(of(own, Some("lo"), &[own]), []);
        assert!(began.elapsed() < PATIENCE);
    }
}
