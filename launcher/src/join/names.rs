//! Names of hosts: those that a joiner says, and the place of the host list that they fit.

use std::net::IpAddr;

use crate::error::one_line;

/// Names by which the host list can know this host. The variable HOSTNAME is none of them: batch systems pass it on from
/// another host.
pub(super) fn own_names() -> Vec<String> {
    let node = std::env::var("SLURMD_NODENAME").ok();
    let system = nix::sys::utsname::uname().ok();
    let full = system.map(|names| names.nodename().to_string_lossy().into_owned());
    let short = full
        .as_ref()
        .and_then(|name| name.split('.').next())
        .map(str::to_owned);
    let mut names: Vec<String> = Vec::new();
    for name in [node, full, short].into_iter().flatten() {
        let name = one_line(&name);
        if !name.is_empty() && !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

/// How well a joiner fits a place, from 0: by its name, by the part of it before the first dot, by its address. `None` if
/// it does not fit.
pub(super) fn rank(place: &str, names: &[String], peer: IpAddr) -> Option<u8> {
    if names.iter().any(|name| name.eq_ignore_ascii_case(place)) {
        return Some(0);
    }
    if let Ok(address) = place.parse::<IpAddr>() {
        return (address.to_canonical() == peer).then_some(2);
    }
    let short = first_part(place);
    let fits = |name: &String| {
        first_part(name).eq_ignore_ascii_case(short) && name.parse::<IpAddr>().is_err()
    };
    names.iter().any(fits).then_some(1)
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
    }

    #[test]
    fn names_are_sorted_by_their_numbers() {
        let mut names = ["n10", "n2", "a-1-10", "a-1-9", "n2", "n"];
        names.sort_by_key(|name| natural(name));
        assert_eq!(names, ["a-1-9", "a-1-10", "n", "n2", "n2", "n10"]);
    }
}
