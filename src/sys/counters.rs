//! Counters of interfaces, as the kernel and its drivers keep them: what passed, and what went wrong below TCP.

use std::fs;

use serde::{Deserialize, Serialize};

use super::ethtool;

/// Counters of a network interface.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct InterfaceCounters {
    /// Bytes received, with headers.
    pub received_bytes: u64,
    /// Bytes sent, with headers.
    pub sent_bytes: u64,
    /// Errors in both directions.
    pub errors: u64,
    /// Frames dropped in both directions.
    pub drops: u64,
    /// Packets received.
    pub received_packets: u64,
    /// Packets sent.
    pub sent_packets: u64,
    /// Frames received with a wrong check sequence.
    #[serde(default)]
    pub crc_errors: u64,
    /// Frames that came and found no room in the host.
    #[serde(default)]
    pub missed: u64,
    /// Blocks that forward error correction could not mend, where the driver tells.
    #[serde(default)]
    pub fec_uncorrectable: u64,
    /// Pause frames sent, where the driver tells: the host could not take what came.
    #[serde(default)]
    pub pauses_sent: u64,
    /// Pause frames received, where the driver tells.
    #[serde(default)]
    pub pauses_received: u64,
    /// How often the link went down or came up.
    #[serde(default)]
    pub carrier_changes: u64,
}

impl InterfaceCounters {
    /// Puts two readings together, counter by counter.
    pub fn with(&self, other: &Self, of_two: impl Fn(u64, u64) -> u64) -> Self {
        let both = |of: fn(&Self) -> u64| of_two(of(self), of(other));
        Self {
            received_bytes: both(|all| all.received_bytes),
            sent_bytes: both(|all| all.sent_bytes),
            errors: both(|all| all.errors),
            drops: both(|all| all.drops),
            received_packets: both(|all| all.received_packets),
            sent_packets: both(|all| all.sent_packets),
            crc_errors: both(|all| all.crc_errors),
            missed: both(|all| all.missed),
            fec_uncorrectable: both(|all| all.fec_uncorrectable),
            pauses_sent: both(|all| all.pauses_sent),
            pauses_received: both(|all| all.pauses_received),
            carrier_changes: both(|all| all.carrier_changes),
        }
    }

    /// What was counted since an earlier reading.
    pub fn since(&self, before: &Self) -> Self {
        self.with(before, u64::saturating_sub)
    }
}

/// Names by which drivers call a counter; the first that one has is taken, since some have it twice.
const PAUSES_SENT: [&str; 8] = [
    "tx_pause_ctrl_phy",
    "tx_global_pause",
    "tx_flow_control_xoff",
    "port.tx_xoff",
    "link_xoff_tx.nic",
    "tx_pause_frames",
    "tx_xoff_sent",
    "tx_pause",
];
const PAUSES_RECEIVED: [&str; 8] = [
    "rx_pause_ctrl_phy",
    "rx_global_pause",
    "rx_flow_control_xoff",
    "port.rx_xoff",
    "link_xoff_rx.nic",
    "rx_pause_frames",
    "rx_xoff_pause_rcvd",
    "rx_pause",
];
const FEC: [&str; 4] = [
    "rx_fec_uncorrectable_blocks",
    "fec_uncorrectable_blocks",
    "fec_uncorrectable_blocks.nic",
    "rx_fec_uncorrectable_blocks_phy",
];

/// Counters of the interfaces of those names, from `/proc/net/dev`, sysfs and the driver.
pub fn interface_counters(names: &[String]) -> Vec<(String, InterfaceCounters)> {
    let text = fs::read_to_string("/proc/self/net/dev").unwrap_or_default();
    let all = text.lines().filter_map(parse_interface);
    let own = all.filter(|(name, _)| names.contains(name));
    own.map(|(name, counters)| {
        let counters = with_details(&name, counters);
        (name, counters)
    })
    .collect()
}

fn with_details(name: &str, mut counters: InterfaceCounters) -> InterfaceCounters {
    let read = |file: &str| {
        let text = fs::read_to_string(format!("/sys/class/net/{name}/{file}")).ok();
        text.and_then(|text| text.trim().parse().ok()).unwrap_or(0)
    };
    counters.crc_errors = read("statistics/rx_crc_errors");
    counters.missed = read("statistics/rx_missed_errors");
    counters.carrier_changes = read("carrier_changes");
    let statistics = ethtool::statistics(name);
    let by_driver = |names: &[&str]| {
        let known = names.iter().find_map(|name| {
            let mut all = statistics.iter();
            all.find(|(other, _)| other == name)
        });
        known.map_or(0, |(_, value)| *value)
    };
    counters.pauses_sent = by_driver(&PAUSES_SENT);
    counters.pauses_received = by_driver(&PAUSES_RECEIVED);
    counters.fec_uncorrectable = by_driver(&FEC);
    counters
}

/// Packets that all processors together have dropped because their backlog was full (second column of `/proc/net/softnet_stat`).
pub fn backlog_drops() -> u64 {
    let text = fs::read_to_string("/proc/net/softnet_stat").unwrap_or_default();
    let dropped = text.lines().filter_map(|line| {
        let word = line.split_whitespace().nth(1)?;
        u64::from_str_radix(word, 16).ok()
    });
    crate::units::sum(dropped)
}

fn parse_interface(line: &str) -> Option<(String, InterfaceCounters)> {
    let (name, rest) = line.split_once(':')?;
    let fields: Vec<u64> = rest
        .split_whitespace()
        .map_while(|word| word.parse().ok())
        .collect();
    let field = |index: usize| fields.get(index).copied();
    let counters = InterfaceCounters {
        received_bytes: field(0)?,
        received_packets: field(1)?,
        errors: field(2)? + field(10)?,
        drops: field(3)? + field(11)?,
        sent_bytes: field(8)?,
        sent_packets: field(9)?,
        ..InterfaceCounters::default()
    };
    Some((name.trim().to_owned(), counters))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_kernel_are_understood() {
        let line = "  eth0: 100 1 2 3 0 0 0 0 200 5 6 7 0 0 0 0";
        let (name, counters) = parse_interface(line).unwrap();
        assert_eq!(name, "eth0");
        let expected = InterfaceCounters {
            received_bytes: 100,
            sent_bytes: 200,
            errors: 8,
            drops: 10,
            received_packets: 1,
            sent_packets: 5,
            ..InterfaceCounters::default()
        };
        assert_eq!(counters, expected);
        assert_eq!(expected.since(&expected), InterfaceCounters::default());
        assert_eq!(parse_interface("Inter-|   Receive"), None);
    }

    #[test]
    fn the_counters_of_loopback_are_there() {
        let found = interface_counters(&["lo".to_owned()]);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].1.crc_errors, 0);
    }
}
