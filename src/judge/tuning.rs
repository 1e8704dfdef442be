//! Settings of a host that cost rate at a port, each with the command that mends it. They excuse nothing: they explain a limit that was measured.

use std::fmt;

use crate::record::{Interface, Tuning};

use super::thresholds::{FAST_PORT_GBIT, OFFLOADS_FROM_GBIT, QUEUES_PER_FAST, RING_SMALL};

/// A setting that costs rate.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Cost {
    /// Interface with the setting, and the setting: `eth0: GRO is off`.
    pub what: String,
    /// Command that mends it, as root on the host.
    pub command: String,
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (as root: {})", self.what, self.command)
    }
}

/// Settings that are expected to cost rate. Slower ports are full without offloads, and some drivers of such cards have a default of none.
pub(crate) fn foreseen(interface: &Interface, cores: usize) -> Vec<Cost> {
    match speed_gbit(interface) {
        Some(gbit) if gbit < OFFLOADS_FROM_GBIT => Vec::new(),
        _ => costs(interface, cores),
    }
}

/// Settings that cost rate where a host with this number of cores is at its limit.
pub(crate) fn costs(interface: &Interface, cores: usize) -> Vec<Cost> {
    let fast = speed_gbit(interface).filter(|gbit| *gbit >= FAST_PORT_GBIT);
    let of = |one: &Tuning| {
        let devices = fast.filter(|_| one.device);
        let queues = devices.and_then(|gbit| few_queues(one, gbit, cores));
        let all = [offloads(one), devices.and_then(|_| small_ring(one)), queues];
        let name = one.interface.clone();
        all.into_iter()
            .flatten()
            .map(move |(what, option, value)| Cost {
                what: format!("{name}: {what}"),
                command: format!("ethtool {option} {name} {value}"),
            })
    };
    interface.tuning.iter().flat_map(of).collect()
}

/// Speed of a port; the one of an interface without hardware is only nominal.
fn speed_gbit(interface: &Interface) -> Option<f64> {
    let mbit = interface.speed_mbit.filter(|_| interface.physical)?;
    Some(mbit as f64 / 1e3)
}

/// A setting, and the option and value of `ethtool` that change it.
type Setting = (String, &'static str, String);

fn offloads(one: &Tuning) -> Option<Setting> {
    let is_off = |name: &str| one.off.iter().any(|off| off == name);
    let is_on = |name: &str| one.on.iter().any(|on| on == name);
    let matters = [
        ("TX checksum offload", "tx", is_off("tx")),
        ("TSO", "tso", is_off("tso")),
        // A card that segments leaves nothing for the kernel to segment.
        ("GSO", "gso", is_off("gso") && !is_on("tso")),
        // Only a device merges what arrives. Virtual cables between namespaces are made without it: what they carry is merged or never was split.
        ("GRO", "gro", is_off("gro") && one.device),
    ];
    let off: Vec<_> = matters.into_iter().filter(|(.., off)| *off).collect();
    let names: Vec<&str> = off.iter().map(|(name, ..)| *name).collect();
    let what = match names[..] {
        [] => return None,
        [one] => format!("{one} is off"),
        [ref all @ .., last] => format!("{} and {last} are off", all.join(", ")),
    };
    let on: Vec<String> = off.iter().map(|(_, key, _)| format!("{key} on")).collect();
    Some((what, "-K", on.join(" ")))
}

fn small_ring(one: &Tuning) -> Option<Setting> {
    let ring = one.rx_ring?;
    let is_small = f64::from(ring.now) < f64::from(ring.most) * RING_SMALL;
    let what = format!(
        "its receive rings have {} of {} entries",
        ring.now, ring.most
    );
    is_small.then(|| (what, "-G", format!("rx {}", ring.most)))
}

fn few_queues(one: &Tuning, gbit: f64, cores: usize) -> Option<Setting> {
    let (kind, room) = match (one.combined_channels, one.rx_channels) {
        (Some(room), _) => ("combined", room),
        (None, room) => ("rx", room?),
    };
    // Some drivers have queues of both kinds.
    let own = one.rx_channels.filter(|_| kind == "combined");
    let now = room.now.saturating_add(own.map_or(0, |own| own.now));
    let enough = numbers::whole((gbit / FAST_PORT_GBIT * QUEUES_PER_FAST).ceil());
    let enough = enough.min(room.most.into()).min(cores as u64);
    let what = format!(
        "{now} of {} receive queues are in use for {gbit} Gbit/s",
        room.most
    );
    (u64::from(now) < enough).then(|| (what, "-L", format!("{kind} {enough}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Room;

    fn names(all: &[&str]) -> Vec<String> {
        all.iter().map(|name| (*name).to_owned()).collect()
    }

    /// A card of this speed with everything on.
    fn card(name: &str) -> Tuning {
        Tuning {
            interface: name.to_owned(),
            device: true,
            on: names(&["tx", "tso", "gso", "gro"]),
            off: names(&["lro"]),
            rx_ring: Some(Room {
                now: 1024,
                most: 8192,
            }),
            combined_channels: Some(Room { now: 16, most: 63 }),
            ..Tuning::default()
        }
    }

    fn port(gbit: u64, tuning: Vec<Tuning>) -> Interface {
        Interface {
            speed_mbit: Some(gbit * 1000),
            physical: true,
            tuning,
            ..Interface::default()
        }
    }

    fn said(interface: &Interface, cores: usize) -> Vec<String> {
        let all = costs(interface, cores).into_iter();
        all.map(|cost| cost.to_string()).collect()
    }

    #[test]
    fn offloads_that_are_off_are_named_with_the_command_that_turns_them_on() {
        assert_eq!(said(&port(100, vec![card("eth0")]), 32), [""; 0]);
        let with = |off: &[&str]| {
            let mut one = card("eth0");
            one.on.retain(|name| !off.contains(&name.as_str()));
            one.off = names(off);
            said(&port(100, vec![one]), 32)
        };
        let gro = "eth0: GRO is off (as root: ethtool -K eth0 gro on)";
        assert_eq!(with(&["gro", "lro"]), [gro]);
        let three =
            "eth0: TSO, GSO and GRO are off (as root: ethtool -K eth0 tso on gso on gro on)";
        assert_eq!(with(&["tso", "gso", "gro"]), [three]);
        assert_eq!(with(&["gso"]), [""; 0], "the card segments");
    }

    /// Symptom to avoid: every virtual cable has GRO off from the start, and slow cards often have TSO off.
    #[test]
    fn defaults_that_cost_nothing_are_not_named() {
        let mut veth = card("eth0");
        veth.device = false;
        veth.on.retain(|name| name != "gro");
        veth.off = names(&["gro"]);
        veth.rx_channels = Some(Room { now: 1, most: 2 });
        (veth.rx_ring, veth.combined_channels) = (None, None);
        let mut cable = port(100, vec![veth]);
        cable.physical = false;
        assert_eq!(said(&cable, 32), [""; 0]);
        let mut slow = card("eth0");
        slow.off = names(&["tso", "gso"]);
        slow.on = names(&["gro"]);
        (slow.rx_ring, slow.combined_channels) = (None, None);
        let slow = port(1, vec![slow]);
        assert_eq!(foreseen(&slow, 4), []);
        // It is the likely reason where such a host is at its limit.
        assert_eq!(said(&slow, 4).len(), 1);
        // A driver that reports nothing.
        assert_eq!(said(&port(400, vec![Tuning::default()]), 64), [""; 0]);
    }

    #[test]
    fn small_rings_and_few_queues_cost_rate_at_fast_ports_only() {
        let ring = |gbit, now| {
            let mut one = card("eth0");
            one.rx_ring = Some(Room { now, most: 8160 });
            said(&port(gbit, vec![one]), 32)
        };
        let small =
            "eth0: its receive rings have 512 of 8160 entries (as root: ethtool -G eth0 rx 8160)";
        assert_eq!(ring(25, 512), [small]);
        assert_eq!(ring(10, 512), [""; 0]);
        assert_eq!(ring(25, 1024), [""; 0]);
        let queues = |gbit, now, cores| {
            let mut one = card("eth0");
            one.combined_channels = Some(Room { now, most: 63 });
            said(&port(gbit, vec![one]), cores)
        };
        let few = "eth0: 4 of 63 receive queues are in use for 100 Gbit/s (as root: ethtool -L eth0 combined 8)";
        assert_eq!(queues(100, 4, 32), [few]);
        assert_eq!(queues(100, 8, 128), [""; 0]);
        assert_eq!(queues(100, 4, 4), [""; 0], "no more cores");
        assert_eq!(queues(10, 1, 32), [""; 0]);
        // Queues that only receive, as many as there are.
        let mut one = card("eth0");
        one.combined_channels = None;
        one.rx_channels = Some(Room { now: 1, most: 16 });
        let of_kind =
            "eth0: 1 of 16 receive queues are in use for 25 Gbit/s (as root: ethtool -L eth0 rx 2)";
        assert_eq!(said(&port(25, vec![one]), 32), [of_kind]);
    }

    #[test]
    fn cards_of_a_bond_are_named_each_and_the_bond_itself_merges_nothing() {
        let mut bond = card("bond0");
        bond.device = false;
        bond.off = names(&["gro"]);
        let mut second = card("eth1");
        second.off = names(&["gro"]);
        let all = said(&port(200, vec![bond, card("eth0"), second]), 32);
        assert_eq!(all, ["eth1: GRO is off (as root: ethtool -K eth1 gro on)"]);
    }
}
