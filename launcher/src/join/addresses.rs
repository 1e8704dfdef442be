//! The addresses of this machine that a node can join at.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use nix::net::if_::InterfaceFlags;
use nix::sys::socket::SockaddrStorage;

const MAX_ADDRESSES: usize = 8;

/// Addresses by which other machines can reach this one.
pub(super) fn addresses(bound: Option<IpAddr>, port: u16) -> Vec<String> {
    if let Some(address) = bound.filter(|address| !address.is_unspecified()) {
        return vec![SocketAddr::new(address, port).to_string()];
    }
    let name = nix::sys::utsname::uname().ok();
    let name = name.map(|names| names.nodename().to_string_lossy().into_owned());
    let mut found: Vec<String> = name.filter(|name| !name.is_empty()).into_iter().collect();
    found
        .iter_mut()
        .for_each(|name| name.push_str(&format!(":{port}")));
    let mut own: Vec<SocketAddr> = interface_addresses();
    if own.is_empty() {
        own.push((Ipv4Addr::LOCALHOST, 0).into());
    }
    // A sort keeps the order of the interfaces.
    own.sort_by_key(SocketAddr::is_ipv6);
    for mut address in own {
        address.set_port(port);
        found.push(address.to_string());
    }
    found.truncate(MAX_ADDRESSES);
    found
}

/// Addresses of the interfaces that are up. A link-local address means nothing to another machine.
pub(super) fn interface_addresses() -> Vec<SocketAddr> {
    let interfaces = nix::ifaddrs::getifaddrs().into_iter().flatten();
    let up = interfaces.filter(|interface| {
        interface.flags.contains(InterfaceFlags::IFF_UP)
            && !interface.flags.contains(InterfaceFlags::IFF_LOOPBACK)
    });
    up.filter_map(|interface| socket_address(&interface.address?))
        .filter(|address| match address.ip() {
            IpAddr::V4(address) => !address.is_loopback() && !address.is_link_local(),
            IpAddr::V6(address) => !address.is_loopback() && !address.is_unicast_link_local(),
        })
        .collect()
}

fn socket_address(address: &SockaddrStorage) -> Option<SocketAddr> {
    let v4 = address
        .as_sockaddr_in()
        .map(|address| SocketAddr::from((address.ip(), 0)));
    v4.or_else(|| {
        address
            .as_sockaddr_in6()
            .map(|address| SocketAddr::from((address.ip(), 0)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_addresses_to_join_at_begin_with_the_name_of_this_machine() {
        let all = addresses(None, 7447);
        assert!(all.len() >= 2 && all.len() <= MAX_ADDRESSES, "{all:?}");
        assert!(
            all.iter().all(|address| address.ends_with(":7447")),
            "{all:?}"
        );
        assert!(
            all[0].parse::<SocketAddr>().is_err(),
            "a name comes first: {all:?}"
        );
        assert!(
            all[1..]
                .iter()
                .all(|address| address.parse::<SocketAddr>().is_ok()),
            "{all:?}"
        );
        let bound = addresses(Some("::1".parse().unwrap()), 7447);
        assert_eq!(bound, ["[::1]:7447"]);
    }
}
