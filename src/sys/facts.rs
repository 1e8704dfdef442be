//! Facts about a host that are shown with its results: kernel, cores, interfaces, settings.

use std::ffi::CStr;
use std::fs;
use std::net::IpAddr;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use nix::sys::socket::SockaddrStorage;

use super::{ethtool, interrupts, lldp, rtnetlink};
use crate::plan::placement;
use crate::record::{HostFacts, Interface, Pcie, Tuning};

/// Name of the default congestion control of this host's sockets.
pub fn congestion() -> String {
    sysctl("net/ipv4/tcp_congestion_control")
}

/// Collects the facts of this host.
pub fn collect() -> HostFacts {
    let names = nix::sys::utsname::uname().ok();
    let uts = |part: fn(&nix::sys::utsname::UtsName) -> &std::ffi::OsStr| {
        names
            .as_ref()
            .map(|names| part(names).to_string_lossy().into_owned())
            .unwrap_or_default()
    };
    HostFacts {
        hostname: uts(|names| names.nodename()),
        identity: identity(),
        kernel: uts(|names| names.release()),
        kernel_version: uts(|names| names.version()),
        architecture: uts(|names| names.machine()),
        cpu: cpu_model(),
        cores: usable_cores(),
        available_memory_bytes: super::usage::available_memory().unwrap_or(0),
        spare_memory_bytes: super::limits::spare_memory(),
        reserved_pages_bytes: super::usage::free_reserved_bytes(),
        congestion: congestion(),
        congestion_allowed: sysctl("net/ipv4/tcp_allowed_congestion_control"),
        session_address: session_address(),
        interfaces: interfaces(),
        settings: SETTINGS
            .iter()
            .map(|name| (name.replace('/', "."), sysctl(name)))
            .collect(),
        governor: governor(),
        cost: None, // Nodes estimate it when they are asked.
    }
}

const SETTINGS: [&str; 6] = [
    "net/ipv4/tcp_rmem",
    "net/ipv4/tcp_wmem",
    "net/core/rmem_max",
    "net/core/wmem_max",
    "net/core/netdev_max_backlog",
    "net/ipv4/tcp_timestamps",
];

fn sysctl(name: &str) -> String {
    let text = fs::read_to_string(format!("/proc/sys/{name}")).unwrap_or_default();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The governors of all processors, each once.
fn governor() -> Option<String> {
    let folders = fs::read_dir("/sys/devices/system/cpu").ok()?.flatten();
    let read = |entry: fs::DirEntry| {
        let text = fs::read_to_string(entry.path().join("cpufreq/scaling_governor")).ok()?;
        Some(text.trim().to_owned())
    };
    let mut names: Vec<String> = folders.filter_map(read).collect();
    names.sort();
    names.dedup();
    Some(names.join(", ")).filter(|names| !names.is_empty())
}

/// Boot id: it identifies the machine from one boot to the next.
pub fn boot_id() -> String {
    sysctl("kernel/random/boot_id")
}

/// Boot id and network namespace of this process.
pub fn identity() -> String {
    let namespace = fs::metadata("/proc/self/ns/net").map_or(0, |meta| meta.ino());
    format!("{}/{namespace}", boot_id())
}

fn cpu_model() -> String {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let line = text.lines().find(|line| line.starts_with("model name"));
    line.and_then(|line| line.split_once(':'))
        .map(|(_, model)| model.trim().to_owned())
        .unwrap_or_default()
}

fn usable_cores() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// The server's address in SSH_CONNECTION ("client port server port").
fn session_address() -> Option<IpAddr> {
    let text = std::env::var("SSH_CONNECTION").ok()?;
    text.split_whitespace().nth(2)?.parse().ok()
}

fn interfaces() -> Vec<Interface> {
    let mut found: Vec<Interface> = Vec::new();
    let Ok(addresses) = nix::ifaddrs::getifaddrs() else {
        return found;
    };
    for entry in
        addresses.filter(|entry| entry.flags.contains(nix::net::if_::InterfaceFlags::IFF_UP))
    {
        let Some((address, prefix)) = address_of(&entry) else {
            continue;
        };
        match found
            .iter_mut()
            .find(|interface| interface.name == entry.interface_name)
        {
            Some(interface) => interface.addresses.push((address, prefix)),
            None => found.push(describe(&entry.interface_name, (address, prefix))),
        }
    }
    let heard = lldp::heard();
    let is_card = |name: &str| Path::new(&format!("/sys/class/net/{name}/device")).exists();
    for interface in &mut found {
        interface.switch_port = lldp::at(&heard, &with_lower(&interface.name, 4), is_card);
    }
    found
}

fn address_of(entry: &nix::ifaddrs::InterfaceAddress) -> Option<(IpAddr, u8)> {
    let ip = |of: &SockaddrStorage| -> Option<IpAddr> {
        let v4 = of.as_sockaddr_in().map(|v4| IpAddr::V4(v4.ip()));
        v4.or_else(|| Some(IpAddr::V6(of.as_sockaddr_in6()?.ip())))
    };
    let address = ip(entry.address.as_ref()?)?;
    let prefix = match (address, entry.netmask.as_ref().and_then(ip)) {
        (IpAddr::V4(_), Some(IpAddr::V4(mask))) => mask.to_bits().count_ones(),
        (IpAddr::V6(_), Some(IpAddr::V6(mask))) => mask.to_bits().count_ones(),
        (IpAddr::V4(_), _) => 32,
        (IpAddr::V6(_), _) => 128,
    };
    Some((address, u8::try_from(prefix).ok()?))
}

fn describe(name: &str, address: (IpAddr, u8)) -> Interface {
    let read = |file: &str| fs::read_to_string(format!("/sys/class/net/{name}/{file}")).ok();
    let number = |file: &str| read(file)?.trim().parse::<u64>().ok();
    let folder = format!("/sys/class/net/{name}");
    let told = ethtool::driver(name);
    let firmware = told.as_ref().map(|told| told.firmware.clone());
    // -1 and 0 mean that the driver does not know.
    let speed_mbit = number("speed").filter(|s| *s > 0);
    // The kernel's table of interrupts is long on large machines.
    let (near, handlers) = match speed_mbit {
        Some(placement::FAST_MBIT..) => {
            let all = with_lower(name, 4);
            (interrupts::near(&all), interrupts::handlers(&all))
        }
        _ => Default::default(),
    };
    Interface {
        name: name.to_owned(),
        addresses: vec![address],
        mtu_bytes: number("mtu")
            .and_then(|mtu| u32::try_from(mtu).ok())
            .unwrap_or(0),
        speed_mbit,
        driver: driver_of(&folder).or(told.map(|told| told.name)),
        firmware: firmware.filter(|text| !text.is_empty()),
        carrier_changes: number("carrier_changes").unwrap_or(0),
        members: members(Path::new(&folder)),
        physical: is_physical(name, 4),
        tagged: Path::new(&format!("/proc/net/vlan/{name}")).exists(),
        virtual_card: virtual_card(name, 4),
        bond: bond(name),
        hardware: read("address").map(|text| text.trim().to_owned()),
        pcie: slot(&Path::new(&folder).join("device")),
        switch_port: None,
        near,
        interrupts: handlers,
        tuning: {
            // A bridge can have hundreds of interfaces below it, a bond has at most 16.
            const MOST: usize = 17;
            let all = with_lower(name, 4).into_iter().take(MOST);
            all.map(|name| tuning(&name)).collect()
        },
    }
}

fn tuning(name: &str) -> Tuning {
    let (gso_max_bytes, gro_max_bytes) = rtnetlink::packet_limits(name);
    Tuning {
        device: Path::new(&format!("/sys/class/net/{name}/device")).exists(),
        gso_max_bytes,
        gro_max_bytes,
        ..ethtool::tuning(name)
    }
}

/// Driver of the device behind an interface's folder.
fn driver_of(folder: &str) -> Option<String> {
    let driver = fs::read_link(format!("{folder}/device/driver")).ok()?;
    Some(driver.file_name()?.to_string_lossy().into_owned())
}

/// True if an interface, or one at most `depth` levels below it, belongs to a device.
fn is_physical(name: &str, depth: usize) -> bool {
    let folder = format!("/sys/class/net/{name}");
    let has_device = Path::new(&format!("{folder}/device")).exists();
    let below = || members(Path::new(&folder));
    has_device || (depth > 0 && below().iter().any(|name| is_physical(name, depth - 1)))
}

/// Drivers of cards that exist only for a guest, and of virtual functions of real cards. Virtual cables between namespaces of one
/// kernel are not in the list, because they do not pretend to be cards.
const VIRTUAL_CARDS: [&str; 11] = [
    "virtio_net",
    "vmxnet3",
    "hv_netvsc",
    "vif",
    "ena",
    "gve",
    "mana",
    "iavf",
    "ixgbevf",
    "igbvf",
    "i40evf",
];

/// Driver of a virtual card, or `virtual function`, of an interface or of one at most `depth` levels below it.
fn virtual_card(name: &str, depth: usize) -> Option<String> {
    let folder = format!("/sys/class/net/{name}");
    let known = driver_of(&folder).filter(|driver| VIRTUAL_CARDS.contains(&driver.as_str()));
    let is_function = || Path::new(&format!("{folder}/device/physfn")).exists();
    let own = known.or_else(|| is_function().then(|| "virtual function".to_owned()));
    let below = || {
        let mut lower = members(Path::new(&folder)).into_iter();
        lower.find_map(|name| virtual_card(&name, depth - 1))
    };
    own.or_else(|| (depth > 0).then(below).flatten())
}

/// Mode and hash policy of a bond that uses several cards at once; `None` for all other interfaces.
fn bond(name: &str) -> Option<String> {
    let folder = format!("/sys/class/net/{name}");
    let read = |file: &str| -> Option<String> {
        let text = fs::read_to_string(format!("{folder}/bonding/{file}")).ok()?;
        // The kernel writes a name and its number.
        Some(text.split_whitespace().next()?.to_owned())
    };
    let several = members(Path::new(&folder)).len() > 1;
    let mode = read("mode").filter(|mode| several && mode != "active-backup")?;
    Some(match read("xmit_hash_policy") {
        Some(policy) => format!("{mode}, {policy}"),
        None => mode,
    })
}

/// Names of the interfaces below one. The kernel links to each of them as `lower_NAME`.
fn members(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut members: Vec<String> = entries
        .filter_map(|entry| {
            let name = entry.file_name().to_string_lossy().into_owned();
            Some(name.strip_prefix("lower_")?.to_owned())
        })
        .collect();
    members.sort();
    members
}

/// An interface and those at most `depth` levels below it.
fn with_lower(name: &str, depth: usize) -> Vec<String> {
    let mut all = vec![name.to_owned()];
    if depth > 0 {
        let lower = members(Path::new(&format!("/sys/class/net/{name}")));
        all.extend(lower.iter().flat_map(|name| with_lower(name, depth - 1)));
    }
    all
}

/// Name of a user from /etc/passwd only: a static executable cannot ask the system's other sources.
pub fn user_name(user: u32) -> Option<String> {
    let text = fs::read_to_string("/etc/passwd").ok()?;
    let number = user.to_string();
    text.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)? == number).then(|| name.to_owned())
    })
}

/// Name of a user, or the number where the name is unknown.
pub fn user(number: u32) -> String {
    user_name(number).unwrap_or_else(|| number.to_string())
}

/// User and host of this process, as `user@host`.
pub fn own_name() -> String {
    let user = nix::unistd::geteuid().as_raw();
    let name = user_name(user)
        .or_else(|| std::env::var("USER").ok())
        .or_else(|| std::env::var("LOGNAME").ok())
        .unwrap_or_else(|| user.to_string());
    let host = nix::sys::utsname::uname()
        .map(|names| names.nodename().to_string_lossy().into_owned())
        .unwrap_or_default();
    format!("{name}@{host}")
}

/// Path of the running executable.
pub fn own_executable() -> String {
    let path = fs::read_link("/proc/self/exe").unwrap_or_default();
    path.to_string_lossy().into_owned()
}

/// Version of the C library that is built in.
pub fn c_library() -> String {
    // SAFETY: the function takes nothing, and returns a terminated string that is part of the library.
    let version = unsafe { CStr::from_ptr(nix::libc::gnu_get_libc_version()) };
    version.to_string_lossy().into_owned()
}

/// Speed and width of the slot of a device's folder.
fn slot(folder: &Path) -> Option<Pcie> {
    let word = |file: &str| fs::read_to_string(folder.join(file)).ok();
    let speed = word("current_link_speed")?;
    let speed: f64 = speed.split_whitespace().next()?.parse().ok()?;
    let lanes = word("current_link_width")?.trim().parse().ok()?;
    let known = speed > 0.0 && speed < 1e3 && (1..=64).contains(&lanes);
    known.then_some(Pcie {
        mega_transfers_per_s: numbers::whole(speed * 1000.0),
        lanes,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_of_a_bond_are_found_and_counted_with_it() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["lower_eth1", "lower_eth0", "statistics"] {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        assert_eq!(members(folder.path()), ["eth0", "eth1"]);
        let interface = |name: &str, members: &[&str]| Interface {
            name: name.into(),
            members: members.iter().map(|one| (*one).to_owned()).collect(),
            ..Interface::default()
        };
        let facts = HostFacts {
            interfaces: vec![
                interface("lo", &[]),
                interface("eth9", &[]),
                interface("bond0", &["eth0", "eth1"]),
            ],
            ..HostFacts::default()
        };
        assert_eq!(
            facts.counted_interfaces(&[Some("bond0")]),
            ["bond0", "eth0", "eth1", "eth9"]
        );
    }

    #[test]
    fn users_have_names() {
        assert_eq!(user_name(0).as_deref(), Some("root"));
        assert_eq!(user_name(u32::MAX - 7), None);
        let (user, host) = own_name()
            .split_once('@')
            .map(|(a, b)| (a.len(), b.len()))
            .unwrap();
        assert!(user > 0 && host > 0);
    }

    #[test]
    fn this_host_has_a_name_an_identity_and_a_loopback_interface() {
        let facts = collect();
        assert!(!facts.hostname.is_empty() && !facts.kernel.is_empty());
        assert!(facts.identity.len() > 30, "{}", facts.identity);
        let lo = facts
            .interfaces
            .iter()
            .find(|interface| interface.name == "lo")
            .unwrap();
        assert!(
            lo.addresses
                .iter()
                .any(|(address, prefix)| address.is_loopback() && *prefix == 8)
        );
        assert!(facts.cores >= 1);
    }
}
