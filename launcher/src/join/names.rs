//! Names of hosts: those that a joiner says, and the place of the host list that they fit.

use std::net::IpAddr;

use crate::error::one_line;
use crate::join::addresses::interface_addresses;
use crate::join::noise::MAX_NAMES;

/// Names by which the host list can know this host, the surest one first. A program that starts others can pass Slurm's
/// name on from another host, so it comes after the host's own; addresses come last. The variable HOSTNAME is left out:
/// it often comes from another host.
pub(super) fn own_names() -> Vec<String> {
    let system = nix::sys::utsname::uname().ok();
    let full = system.map(|names| names.nodename().to_string_lossy().into_owned());
    let short = full.as_deref().map(first_part).map(str::to_owned);
    let node = std::env::var("SLURMD_NODENAME").ok();
    let mut names: Vec<String> = Vec::new();
    let addresses = interface_addresses().into_iter();
    let addresses = addresses.map(|address| address.ip().to_string());
    for name in [full, short, node].into_iter().flatten().chain(addresses) {
        let name = one_line(&name);
        if !name.is_empty() && !names.contains(&name) {
            names.push(name);
        }
    }
    names.truncate(MAX_NAMES);
    names
}

/// How well a joiner fits a place, from 0: by its first name, by the part of it before the first dot, by its other names
/// in turn, by its address. `None` if it does not fit.
fn rank(place: &str, names: &[String], peer: IpAddr) -> Option<usize> {
    let address: Option<IpAddr> = place.parse().ok();
    for (at, name) in names.iter().enumerate() {
        let is_address = || address.is_some() && name.parse::<IpAddr>().ok() == address;
        if name.eq_ignore_ascii_case(place) || is_address() {
            return Some(2 * at);
        }
        // The part of an address before the first dot is no name.
        let is_name = || address.is_none() && name.parse::<IpAddr>().is_err();
        if first_part(name).eq_ignore_ascii_case(first_part(place)) && is_name() {
            return Some(2 * at + 1);
        }
    }
    let is_peer = address.is_some_and(|address| address.to_canonical() == peer);
    is_peer.then_some(2 * names.len())
}

/// The first free place of those that a joiner fits best, or the reason why there is none. `places` are the names of the
/// host list, each true if it has no node yet. A place that another joiner has taken is no reason to take one that fits
/// less well: that can be another host, of the same name in another domain.
pub(super) fn choose<'a>(
    places: impl Iterator<Item = (&'a str, bool)>,
    names: &[String],
    peer: IpAddr,
) -> Result<usize, String> {
    let ranked = places.enumerate().filter_map(|(at, (place, is_free))| {
        rank(place, names, peer).map(|rank| (rank, at, place, is_free))
    });
    let mut fitting: Vec<(usize, usize, &str, bool)> = ranked.collect();
    let best = fitting.iter().map(|(rank, ..)| *rank).min();
    fitting.retain(|(rank, ..)| Some(*rank) == best);
    let own = names.join(" or ");
    let Some((_, _, first, _)) = fitting.first().copied() else {
        return Err(format!("the host list has no {own} (address {peer})"));
    };
    let mut others = fitting.iter().map(|(_, _, place, _)| *place);
    if let Some(other) = others.find(|place| !place.eq_ignore_ascii_case(first)) {
        return Err(format!(
            "{own} can be {first} or {other} of the host list (name hosts there by their addresses)"
        ));
    }
    match (fitting.iter().find(|(.., is_free)| *is_free), fitting.len()) {
        (Some((_, at, ..)), _) => Ok(*at),
        (None, 1) => Err(format!("a node of {own} has joined already")),
        (None, count) => Err(format!("all {count} nodes of {own} have joined already")),
    }
}

fn first_part(name: &str) -> &str {
    name.split('.').next().unwrap_or(name)
}

/// A key to sort names by, in which numbers count by their value: `n2` comes before `n10`.
pub(super) fn natural(name: &str) -> Vec<(String, u64)> {
    let mut parts: Vec<(String, String)> = vec![Default::default()];
    for letter in name.chars() {
        if let Some((text, digits)) = parts.last_mut() {
            match (letter.is_ascii_digit(), digits.is_empty()) {
                (true, _) => digits.push(letter),
                (false, true) => text.push(letter),
                (false, false) => parts.push((letter.to_string(), String::new())),
            }
        }
    }
    let value = |(text, digits): (String, String)| (text, digits.parse().unwrap_or(0));
    parts.into_iter().map(value).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_joiner_fits_by_its_name_then_by_its_short_name_then_by_its_address() {
        let peer: IpAddr = "10.0.0.7".parse().unwrap();
        let fit = |place: &str, name: &str| rank(place, &[name.to_owned()], peer);
        assert_eq!(fit("n1.site", "N1.site"), Some(0));
        assert_eq!(fit("n1.site", "n1.other"), Some(1));
        assert_eq!(fit("n1", "n1.site"), Some(1));
        assert_eq!(fit("n1", "n2"), None);
        assert_eq!(fit("10.0.0.7", "n1"), Some(2));
        assert_eq!(
            fit("10.0.0.8", "10.1.1.1"),
            None,
            "an address has no short name"
        );
        assert_eq!(fit("10", "10.1.1.1"), None);
        assert_eq!(fit("fd00:0::1", "fd00::1"), Some(0));
    }

    /// Symptom: a host that the list names by the address of its other network was refused.
    #[test]
    fn a_host_says_the_addresses_of_its_interfaces_after_its_names() {
        let names = own_names();
        assert!(names.len() <= MAX_NAMES, "{names:?}");
        let is_address = |name: &String| name.parse::<IpAddr>().is_ok();
        let first = names.iter().position(is_address).unwrap_or(names.len());
        assert!(names[first..].iter().all(is_address), "{names:?}");
        let known = interface_addresses().into_iter().take(MAX_NAMES - 3);
        let peer: IpAddr = "192.0.2.1".parse().unwrap();
        for address in known {
            let place = address.ip().to_string();
            assert!(rank(&place, &names, peer).is_some(), "{place}: {names:?}");
        }
    }

    /// Symptom: a host that joined twice took the place of a host of another domain, whose port then got its figures.
    #[test]
    fn hosts_of_one_short_name_in_two_domains_do_not_take_each_others_places() {
        let peer: IpAddr = "10.0.0.7".parse().unwrap();
        let join = |places: &[(&str, bool)], name: &str| {
            choose(places.iter().copied(), &[name.to_owned()], peer)
        };
        let both = |free: bool| [("n1.a", free), ("n1.b", true)];
        assert_eq!(join(&both(true), "n1.b"), Ok(1));
        assert_eq!(
            join(&both(false), "n1.a").unwrap_err(),
            "a node of n1.a has joined already"
        );
        for name in ["n1", "n1.c"] {
            let error = join(&both(true), name).unwrap_err();
            assert!(error.contains("can be n1.a or n1.b"), "{error}");
        }
        let twice = [("n1", false), ("N1", true)];
        assert_eq!(join(&twice, "n1.site"), Ok(1));
        assert_eq!(
            join(&twice, "n2").unwrap_err(),
            "the host list has no n2 (address 10.0.0.7)"
        );
    }

    /// Symptom to prevent: nodes that mpiexec starts in a batch script inherit the variables of the script's host, and all
    /// of them claim its place.
    #[test]
    fn an_inherited_name_counts_less_than_the_name_of_the_host() {
        let names = ["n2.site", "n2", "n1"].map(str::to_owned);
        let peer: IpAddr = "10.0.0.7".parse().unwrap();
        assert!(rank("n2", &names, peer) < rank("n1", &names, peer));
        assert!(rank("n1", &names, peer).is_some());
        assert!(rank("n1", &names, peer) < rank("10.0.0.7", &names, peer));
    }

    #[test]
    fn names_are_sorted_by_their_numbers() {
        let mut names = ["n10", "n2", "a-1-10", "a-1-9", "n2", "n"];
        names.sort_by_key(|name| natural(name));
        assert_eq!(names, ["a-1-9", "a-1-10", "n", "n2", "n2", "n10"]);
    }
}
