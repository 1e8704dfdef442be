//! Counters of interfaces from the kernel and its drivers: traffic, and errors below TCP.

use std::fs;

use super::ethtool;
use crate::record::InterfaceCounters;

/// Names that drivers give to a counter. The first name that a driver has counts, since some drivers have the counter twice.
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

/// Counters of the interfaces `names`, from `/proc/net/dev`, sysfs and the driver.
pub(crate) fn interface_counters(names: &[String]) -> Vec<(String, InterfaceCounters)> {
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
        text.and_then(|text| text.trim().parse::<u64>().ok())
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
        known.map(|(_, value)| *value)
    };
    counters.pauses_sent = by_driver(&PAUSES_SENT);
    counters.pauses_received = by_driver(&PAUSES_RECEIVED);
    counters.fec_uncorrectable = by_driver(&FEC);
    counters
}

/// Packets that all processors together dropped because their backlog was full (second column of `/proc/net/softnet_stat`).
pub(crate) fn backlog_drops() -> u64 {
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
        // A counter that a driver does not report is not zero.
        let told = InterfaceCounters {
            crc_errors: Some(7),
            missed: Some(0),
            ..expected
        };
        let untold = [
            "uncorrectable FEC blocks",
            "pause frames sent",
            "pause frames received",
            "link changes",
        ];
        assert_eq!(told.untold(), untold);
        assert_eq!(told.broken_frames().as_deref(), Some("CRC errors +7"));
        let all = told.happened(|_| true);
        assert_eq!(all.as_deref(), Some("CRC errors +7, drops +10, errors +8"));
        assert_eq!(InterfaceCounters::default().happened(|_| true), None);
        assert_eq!(told.since(&told).crc_errors, Some(0));
        assert_eq!(told.since(&expected).crc_errors, None);
        let sum = told.with(&expected, u64::saturating_add);
        assert_eq!((sum.crc_errors, sum.received_bytes), (Some(7), 200));
        assert_eq!(parse_interface("Inter-|   Receive"), None);
    }

    #[test]
    fn the_counters_of_loopback_are_there() {
        let found = interface_counters(&["lo".to_owned()]);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].1.crc_errors, Some(0));
        // Loopback has no driver that reports it.
        assert_eq!(found[0].1.fec_uncorrectable, None);
    }
}
