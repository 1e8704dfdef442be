//! What a host says of itself: its system, its interfaces, its slots.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::plan::DataPort;
use crate::plan::fit::flows_of;
use crate::plan::placement::PortFacts;
use crate::units::parse_list;

/// Facts that a node reports about its host.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostFacts {
    /// Name that the kernel has for the host.
    pub hostname: String,
    /// Boot id and network namespace: equal for two names of one machine.
    pub identity: String,
    /// Kernel release.
    pub kernel: String,
    /// Build of the kernel, such as `#1 SMP PREEMPT_DYNAMIC` and a date.
    #[serde(default)]
    pub kernel_version: String,
    /// Machine architecture.
    pub architecture: String,
    /// CPU model.
    pub cpu: String,
    /// Cores this process may use.
    pub cores: usize,
    /// Memory available at the start, in bytes.
    pub available_memory_bytes: u64,
    /// Memory that every limit leaves, in bytes: the least of nine tenths of the available memory and the room in each control
    /// group. `None` if unknown.
    pub spare_memory_bytes: Option<u64>,
    /// Reserved large pages that were free at the start, in bytes.
    #[serde(default)]
    pub reserved_pages_bytes: u64,
    /// Default congestion control.
    pub congestion: String,
    /// Congestion controls that a process may set without privileges.
    pub congestion_allowed: String,
    /// Address of this host at which the SSH session arrived, if any.
    pub session_address: Option<IpAddr>,
    /// Network interfaces that are up.
    pub interfaces: Vec<Interface>,
    /// Names and values of kernel settings that affect throughput.
    pub settings: Vec<(String, String)>,
    /// Frequency governors of the processors, each once; `None` where the kernel reports none.
    pub governor: Option<String>,
    /// CPU cost of a gigabyte, if it was estimated before the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost: Option<HostCost>,
}

/// CPU time in nanoseconds that a host needs to send and receive a gigabyte over loopback: a lower bound of what a card costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostCost {
    /// With copied payload.
    pub copies_ns_per_gb: u64,
    /// With sent pages.
    pub pages_ns_per_gb: u64,
}

/// A network interface.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interface {
    /// Name, such as `eth0`.
    pub name: String,
    /// Addresses and their prefix lengths.
    pub addresses: Vec<(IpAddr, u8)>,
    /// MTU in bytes.
    pub mtu_bytes: u32,
    /// Negotiated speed in Mbit/s, if the driver reports it.
    pub speed_mbit: Option<u64>,
    /// Kernel driver, if any.
    pub driver: Option<String>,
    /// Firmware, if the driver reports it.
    pub firmware: Option<String>,
    /// Number of times the link went down or came up since the interface was made.
    #[serde(default)]
    pub carrier_changes: u64,
    /// Interfaces below this one: members of a bond or bridge, the parent of a VLAN.
    #[serde(default)]
    pub members: Vec<String>,
    /// True if the interface is hardware or rests on hardware interfaces. The speed that other interfaces report is only nominal.
    #[serde(default)]
    pub physical: bool,
    /// True if the frames of the interface carry a VLAN tag.
    #[serde(default)]
    pub tagged: bool,
    /// Driver of the virtual card that the interface is or rests on, or `virtual function` of a card that other machines also use.
    pub virtual_card: Option<String>,
    /// Mode and hash policy by which a bond of several cards chooses a card, such as `802.3ad, layer2`.
    pub bond: Option<String>,
    /// Hardware address, such as `02:00:00:00:00:07`, if any.
    pub hardware: Option<String>,
    /// PCI Express link of the card: transfer rate and number of lanes, if known.
    pub pcie: Option<Pcie>,
    /// Switch port at the other end of the cable, if LLDP says so.
    pub switch_port: Option<SwitchPort>,
    /// Usable processors of the card's NUMA node, such as `0-31,64-95`; empty if unknown, and on slow ports.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub near: String,
    /// Usable processors that handle interrupts of the card, in the same form.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub interrupts: String,
    /// Settings of the interface and of those below it, itself first.
    #[serde(default)]
    pub tuning: Vec<Tuning>,
}

/// Settings of an interface that make a host fast or slow. What its kernel or driver does not have is absent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tuning {
    /// Name of the interface.
    pub interface: String,
    /// True if it is a device, and not made of other interfaces.
    pub device: bool,
    /// Offloads that are on, by the short names of `ethtool -K`: `tx` (checksums), `tso`, `gso`, `gro`, `lro`.
    pub on: Vec<String>,
    /// Offloads that are off and can be turned on.
    pub off: Vec<String>,
    /// Largest packet that the kernel hands to the interface, in bytes.
    pub gso_max_bytes: Option<u32>,
    /// Largest packet into which the kernel merges what arrives, in bytes.
    pub gro_max_bytes: Option<u32>,
    /// Entries of each receive ring.
    pub rx_ring: Option<Room>,
    /// Entries of each send ring.
    pub tx_ring: Option<Room>,
    /// Queues that only receive.
    pub rx_channels: Option<Room>,
    /// Queues that only send.
    pub tx_channels: Option<Room>,
    /// Queues that do both.
    pub combined_channels: Option<Room>,
    /// When the card interrupts a processor after it has received.
    pub rx_coalescing: Option<Coalescing>,
    /// The same after it has sent.
    pub tx_coalescing: Option<Coalescing>,
}

/// A number that can be changed, and its maximum.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Room {
    /// The number now.
    pub now: u32,
    /// The most that the driver allows.
    pub most: u32,
}

/// Limits of the wait before an interrupt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Coalescing {
    /// Longest wait, in microseconds.
    pub wait_us: u32,
    /// Most frames.
    pub frames: u32,
    /// True if the driver adapts both to the traffic.
    pub adaptive: bool,
}

/// A port of a switch, by the names that the switch announces.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SwitchPort {
    /// Name of the switch, or the identity of its chassis.
    pub switch: String,
    /// Name of the port.
    pub port: String,
}

/// As in reports: `leaf1 Eth1/3`.
impl std::fmt::Display for SwitchPort {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.switch, self.port)
    }
}

/// A negotiated link of the PCI Express bus.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pcie {
    /// Transfers per second on each lane, in millions.
    pub mega_transfers_per_s: u64,
    /// Number of lanes.
    pub lanes: u64,
}

impl Pcie {
    /// Capacity in each direction in bits per second, before headers of PCI Express packets. Data takes 8 of 10 bits up to 5
    /// GT/s, and 128 of 130 bits from 8 GT/s on (PCI Express Base Specification, 4.2).
    pub fn bits_per_s(self) -> u64 {
        let (of, all) = match self.mega_transfers_per_s {
            ..8_000 => (8, 10),
            8_000.. => (128, 130),
        };
        let raw = self.mega_transfers_per_s * self.lanes * 1_000_000;
        raw / all * of
    }
}

impl HostFacts {
    /// The data ports, by rail, as their link ends are placed.
    pub fn ports(&self, rails: &[DataPort]) -> Vec<PortFacts> {
        let of = |rail: &DataPort| {
            let name = rail.interface.as_ref()?;
            let interface = self.interfaces.iter().find(|one| one.name == *name)?;
            let speed = interface.speed_mbit.filter(|_| interface.physical);
            Some(PortFacts {
                speed_mbit: speed.unwrap_or(0),
                flows: flows_of(speed, interface.members.len()),
                near: parse_list(&interface.near).unwrap_or_default(),
                interrupts: parse_list(&interface.interrupts).unwrap_or_default(),
            })
        };
        rails
            .iter()
            .map(|rail| of(rail).unwrap_or_default())
            .collect()
    }

    /// Names of at most 64 interfaces whose counters belong to a run over `rails`: interfaces with an address, and interfaces
    /// below the data interfaces. Loopback only if it is a data interface.
    pub fn counted_interfaces(&self, rails: &[Option<&str>]) -> Vec<String> {
        const LIMIT: usize = 64;
        let is_rail = |name: &str| rails.contains(&Some(name));
        let mut names = Vec::new();
        // Data interfaces come first: hundreds of virtual interfaces must not push them out.
        let (data, other): (Vec<_>, Vec<_>) =
            self.interfaces.iter().partition(|one| is_rail(&one.name));
        for interface in data {
            names.push(interface.name.clone());
            names.extend(interface.members.iter().cloned());
        }
        names.extend(other.into_iter().map(|one| one.name.clone()));
        names.retain(|name| name != "lo" || is_rail("lo"));
        let mut seen = std::collections::BTreeSet::new();
        names.retain(|name| seen.insert(name.clone()));
        names.truncate(LIMIT);
        names
    }
}
