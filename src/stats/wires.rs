//! Compares interface counters with payload, to see if the traffic of a rail took the interface it should have taken.
//!
//! Both count the whole run, from before the first block to after the last one, since bytes under way would make the figures of a window
//! differ. A packet costs [`header_bytes`]. Bytes that an interface counts beyond payload, retransmits and headers are foreign. Drivers that
//! count a large segment once count one header for it, so headers are computed from packets counted and not from segments sent.

use crate::record::{InterfaceCounters, WireFinding, WireKind};
use crate::units::sum;

/// Bytes that the links of a rail moved through one host, in one direction.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Load {
    /// Payload, in bytes.
    pub payload_bytes: u64,
    /// Other bytes of the links: block headers, handshakes, retransmits.
    pub besides_bytes: u64,
}

/// Load of one data port of a host.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct RailLoad {
    /// Interface that has the port's address.
    pub interface: String,
    /// Load out of the host.
    pub sent: Load,
    /// Load into the host.
    pub received: Load,
}

/// Header bytes that an interface can count for each packet: Ethernet with VLAN tag and check sequence, IP, and TCP with timestamps.
pub(crate) fn header_bytes(v6: bool) -> u64 {
    22 + if v6 { 40 } else { 20 } + 32
}

/// Counted bytes below this fraction of the payload are a contradiction.
const SHOWN: f64 = 0.995;
/// Foreign bytes are reported if they exceed this fraction of the counted bytes.
const FOREIGN: f64 = 0.01;
/// Foreign bytes up to this number are not reported: they are the control channel of a short run.
const FOREIGN_BYTES: u64 = 2 << 20;

/// After a run of this length, the counters show most of its traffic.
const LASTING_NS: u64 = 5_000_000_000;

/// Compares the rails of the host whose first node is `node` with the counters of its interfaces over the run.
///
/// Some drivers update their counters once a second or less often. So missing bytes are reported only if another interface shows them, or
/// if an interface lacks most of the payload of a long run.
pub(crate) fn check(
    node: &str,
    rails: &[RailLoad],
    counters: &[(String, InterfaceCounters)],
    header_bytes: u64,
    run_ns: u64,
) -> Vec<WireFinding> {
    let sent = Way {
        load: |rail| rail.sent,
        counted: |all| (all.sent_bytes, all.sent_packets),
        astray: |by| WireKind::WrongRoute { by },
        foreign: |bytes| WireKind::ForeignSent { bytes },
    };
    let received = Way {
        load: |rail| rail.received,
        counted: |all| (all.received_bytes, all.received_packets),
        astray: |by| WireKind::ArpFlux { by },
        foreign: |bytes| WireKind::ForeignReceived { bytes },
    };
    [sent, received]
        .iter()
        .flat_map(|way| way.check(node, rails, counters, header_bytes, run_ns))
        .collect()
}

/// One direction of traffic.
struct Way {
    load: fn(&RailLoad) -> Load,
    counted: fn(&InterfaceCounters) -> (u64, u64),
    astray: fn(Option<String>) -> WireKind,
    foreign: fn(u64) -> WireKind,
}

impl Way {
    fn check(
        &self,
        node: &str,
        rails: &[RailLoad],
        counters: &[(String, InterfaceCounters)],
        header_bytes: u64,
        run_ns: u64,
    ) -> Vec<WireFinding> {
        let mut findings = Vec::new();
        let mut carriers = Vec::new();
        // Rails whose interface is counted, with the bytes and packets that it counted.
        let seen = rails.iter().filter_map(|rail| {
            let mut all = counters.iter();
            let (_, counters) = all.find(|(name, _)| *name == rail.interface)?;
            Some((rail, (self.counted)(counters)))
        });
        let finding = |rail: &RailLoad, counted_bytes, kind| WireFinding {
            node: node.to_owned(),
            interface: rail.interface.clone(),
            payload_bytes: (self.load)(rail).payload_bytes,
            counted_bytes,
            kind,
        };
        for (rail, (bytes, _)) in seen.clone() {
            let payload = (self.load)(rail).payload_bytes;
            if (bytes as f64) < payload as f64 * SHOWN {
                let by = self.carrier(rail, rails, counters, payload - bytes);
                let most = bytes < payload / 2 && run_ns >= LASTING_NS;
                if by.is_some() || most {
                    carriers.extend(by.clone());
                    findings.push(finding(rail, bytes, (self.astray)(by)));
                }
            }
        }
        for (rail, (bytes, packets)) in seen {
            if carriers.contains(&rail.interface) {
                continue;
            }
            let load = (self.load)(rail);
            let own = load
                .payload_bytes
                .saturating_add(load.besides_bytes)
                .saturating_add(packets.saturating_mul(header_bytes));
            let foreign = bytes.saturating_sub(own);
            if foreign > FOREIGN_BYTES && foreign as f64 > bytes as f64 * FOREIGN {
                findings.push(finding(rail, bytes, (self.foreign)(foreign)));
            }
        }
        findings
    }

    /// Finds the interface that shows at least half of the missing bytes in addition to its own payload.
    fn carrier(
        &self,
        of: &RailLoad,
        rails: &[RailLoad],
        counters: &[(String, InterfaceCounters)],
        missing: u64,
    ) -> Option<String> {
        let surplus = |(name, all): &(String, InterfaceCounters)| {
            let own = rails.iter().filter(|rail| rail.interface == *name);
            let own = sum(own.map(|rail| (self.load)(rail).payload_bytes));
            (self.counted)(all).0.saturating_sub(own)
        };
        counters
            .iter()
            .filter(|(name, _)| *name != of.interface)
            .max_by_key(|one| surplus(one))
            .filter(|one| surplus(one) >= missing / 2)
            .map(|(name, _)| name.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MB: u64 = 1_000_000;

    fn rail(interface: &str, sent: u64, received: u64) -> RailLoad {
        let load = |payload_bytes| Load {
            payload_bytes,
            besides_bytes: payload_bytes / 1000,
        };
        RailLoad {
            interface: interface.to_owned(),
            sent: load(sent),
            received: load(received),
        }
    }

    /// Counters of an interface that moved that payload in segments of 1448 bytes and nothing else.
    fn counted(name: &str, sent: u64, received: u64) -> (String, InterfaceCounters) {
        let packets = |payload: u64| payload / 1448 + 1;
        let counters = InterfaceCounters {
            sent_bytes: sent + packets(sent) * 66,
            sent_packets: packets(sent),
            received_bytes: received + packets(received) * 66,
            received_packets: packets(received),
            ..InterfaceCounters::default()
        };
        (name.to_owned(), counters)
    }

    fn kinds(rails: &[RailLoad], counters: &[(String, InterfaceCounters)]) -> Vec<WireKind> {
        let found = check("n1", rails, counters, header_bytes(false), 10_000_000_000);
        found.into_iter().map(|finding| finding.kind).collect()
    }

    #[test]
    fn what_went_where_it_should_is_not_mentioned() {
        let rails = [rail("eth0", 800 * MB, 700 * MB), rail("eth1", 90 * MB, 0)];
        let counters = [
            counted("eth0", 800 * MB, 700 * MB),
            counted("eth1", 90 * MB, 0),
        ];
        assert_eq!(kinds(&rails, &counters), []);
        // Drivers that count large segments once show fewer headers.
        let large = InterfaceCounters {
            sent_bytes: 801 * MB,
            sent_packets: 13_000,
            received_bytes: 701 * MB,
            received_packets: 12_000,
            ..InterfaceCounters::default()
        };
        assert_eq!(kinds(&rails[..1], &[("eth0".to_owned(), large)]), []);
    }

    #[test]
    fn a_wrong_route_and_a_wrong_answer_name_the_interface_that_bore_it() {
        let rails = [
            rail("eth0", 400 * MB, 400 * MB),
            rail("eth1", 400 * MB, 400 * MB),
        ];
        let counters = [
            counted("eth0", 800 * MB, 800 * MB),
            counted("eth1", MB, MB),
            counted("eth2", 0, 0),
        ];
        let by = Some("eth0".to_owned());
        assert_eq!(
            kinds(&rails, &counters),
            [
                WireKind::WrongRoute { by: by.clone() },
                WireKind::ArpFlux { by }
            ]
        );
        // No interface shows it: it took one that is not counted.
        let hidden = [
            counted("eth0", 400 * MB, 400 * MB),
            counted("eth1", 0, 400 * MB),
        ];
        assert_eq!(kinds(&rails, &hidden), [WireKind::WrongRoute { by: None }]);
    }

    #[test]
    fn counters_that_lag_accuse_nobody() {
        // One second of twelve is missing, or all of a run of one second.
        let rails = [rail("eth0", 1200 * MB, 1200 * MB)];
        let late = [counted("eth0", 1100 * MB, 1100 * MB)];
        assert_eq!(kinds(&rails, &late), []);
        let none = [counted("eth0", 0, 0)];
        assert_eq!(check("n1", &rails, &none, 74, 1_000_000_000), []);
        assert_eq!(kinds(&rails, &none).len(), 2);
    }

    #[test]
    fn somebody_elses_traffic_is_told_from_one_per_cent_on() {
        let rails = [rail("eth0", 1000 * MB, 1000 * MB)];
        let with = |foreign: u64| [counted("eth0", 1000 * MB, (1000 + foreign) * MB)];
        assert_eq!(kinds(&rails, &with(5)), []);
        let found = kinds(&rails, &with(40));
        let [WireKind::ForeignReceived { bytes }] = found[..] else {
            panic!("{found:?}");
        };
        assert!((30 * MB..45 * MB).contains(&bytes), "{bytes}");
        // The control channel of a short run does not count as foreign.
        let small = [rail("eth0", MB, MB)];
        assert_eq!(kinds(&small, &[counted("eth0", MB, 2 * MB)]), []);
    }
}
