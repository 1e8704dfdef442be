//! Interface counters against payload: whether the traffic of a rail went where it should have gone.
//!
//! Counted over the whole run, from before the first block to behind the last, since bytes under way make a window's
//! figures differ. A packet costs [`header_bytes`]; what an interface shows beyond payload, repeats and headers was
//! somebody else's. Drivers that count a large segment once count one header for it, so headers are taken by packets
//! counted and not by segments sent.

use crate::record::{WireFinding, WireKind};
use crate::sys::counters::InterfaceCounters;
use crate::units::sum;

/// What the links of a rail moved through one host, in one direction.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Load {
    /// Payload, in bytes.
    pub payload_bytes: u64,
    /// Besides payload: block headers, first words, segments sent again.
    pub besides_bytes: u64,
}

/// One data port of a host.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RailLoad {
    /// Interface that bears its address.
    pub interface: String,
    /// Out of the host.
    pub sent: Load,
    /// Into the host.
    pub received: Load,
}

/// Bytes of headers that an interface may count for each packet: Ethernet with a VLAN tag and check sum, IP, TCP with
/// timestamps.
pub fn header_bytes(v6: bool) -> u64 {
    22 + if v6 { 40 } else { 20 } + 32
}

/// Less than this part of the payload on its interface is a contradiction.
const SHOWN: f64 = 0.995;
/// More than this part of foreign bytes is told.
const FOREIGN: f64 = 0.01;
/// Fewer foreign bytes are not: the control channel of a short run.
const FOREIGN_BYTES: u64 = 2 << 20;

/// A run that lasts this long has had its counters brought up to date, most of them.
const LASTING_NS: u64 = 5_000_000_000;

/// Compares the rails of the host whose first node is `node` with the counters of its interfaces over the run.
///
/// Some drivers bring their counters up to date once a second or less. So what an interface lacks is an accusation only if
/// another one shows it, or if most of the payload of a run that lasted is missing.
pub fn check(
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

/// One direction.
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
        let seen = |rail: &RailLoad| counters.iter().find(|(name, _)| *name == rail.interface);
        let finding = |rail: &RailLoad, counted_bytes, kind| WireFinding {
            node: node.to_owned(),
            interface: rail.interface.clone(),
            payload_bytes: (self.load)(rail).payload_bytes,
            counted_bytes,
            kind,
        };
        for rail in rails {
            let Some((_, counters_of_rail)) = seen(rail) else {
                continue;
            };
            let (bytes, _) = (self.counted)(counters_of_rail);
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
        for rail in rails
            .iter()
            .filter(|rail| !carriers.contains(&rail.interface))
        {
            let Some((_, counters_of_rail)) = seen(rail) else {
                continue;
            };
            let (bytes, packets) = (self.counted)(counters_of_rail);
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

    /// The interface that shows at least half of what is missing beyond its own payload.
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
        // Nobody shows it: an interface that is not counted.
        let hidden = [
            counted("eth0", 400 * MB, 400 * MB),
            counted("eth1", 0, 400 * MB),
        ];
        assert_eq!(kinds(&rails, &hidden), [WireKind::WrongRoute { by: None }]);
    }

    #[test]
    fn counters_that_lag_accuse_nobody() {
        // A second of twelve is missing, or all of a run of a second.
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
        // A short run's control channel is none.
        let small = [rail("eth0", MB, MB)];
        assert_eq!(kinds(&small, &[counted("eth0", MB, 2 * MB)]), []);
    }
}
