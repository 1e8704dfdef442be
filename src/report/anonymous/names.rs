//! Replaces names, addresses, users and paths in texts, the same one everywhere by the same word. Knows nothing of records.

use std::collections::{BTreeSet, HashMap};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::report::fold;

/// Network of the new IPv4 addresses, which is reserved for benchmarks (RFC 2544). Those reserved for documents are too small.
const V4: u32 = 0xc612_0000;
/// Network of the new IPv6 addresses, which is reserved for documents (RFC 3849).
const V6: u128 = 0x2001_0db8 << 96;
/// Most letters in which the end of a name is looked for; no path is longer.
const LONGEST: usize = 4096;
/// Texts of pipebench and of the OpenSSH client after which a user or a host stands.
const PHRASES: [&str; 6] = [
    "for user ",
    "of user ",
    "busy: user ",
    "connect to host ",
    "resolve hostname ",
    "ProxyJump ",
];
/// Folders that every host has. Their paths name no place.
const FOLDERS: [&str; 3] = ["/dev/", "/proc/", "/sys/"];
/// First parts of the names of kernel settings, which look like names of hosts.
const SETTINGS: [&str; 4] = ["fs", "kernel", "net", "vm"];
/// Words after which a user stands in a command: options of pipebench and of the OpenSSH client.
const USERS: [&str; 4] = ["--user", "-l", "User", "-oUser"];
/// Users, and texts of a site, that any site can have. They are words of reports, too.
const ANYONE: [&str; 4] = ["admin", "root", "test", "user"];
/// Stands for a word that is only removed.
pub(super) const REMOVED: &str = "...";
/// Stands for every path.
pub(super) const PATH: &str = "/path";

/// Part of a text that is replaced: its length, and the new text.
type Found = (usize, String);

/// Known names with their replacements.
#[derive(Default)]
pub(super) struct Names {
    known: HashMap<String, String>,
    /// Lengths of the known names: the longest one is tried first.
    lengths: BTreeSet<usize>,
    addresses: HashMap<IpAddr, IpAddr>,
    hardware: HashMap<String, String>,
    /// Number of replacements of each kind.
    given: HashMap<&'static str, usize>,
}

impl Names {
    /// Replaces a name by `new`, unless it is known or identifies nothing.
    pub(super) fn add(&mut self, name: &str, new: &str) {
        if !identifies_nothing(name) && !self.known.contains_key(name) {
            self.lengths.insert(name.len());
            self.known.insert(name.to_owned(), new.to_owned());
        }
    }

    /// Replaces a name by the next word of a kind: `h1`, `h2`.
    pub(super) fn number(&mut self, name: &str, kind: &'static str) {
        if !identifies_nothing(name) && !self.known.contains_key(name) {
            let number = self.given.entry(kind).or_default();
            *number += 1;
            let new = format!("{kind}{number}");
            self.add(name, &new);
        }
    }

    /// Replaces a further name of a host, if it has another name, by the same word.
    pub(super) fn number_alias(&mut self, host: &str, alias: &str) {
        match self.known.get(host).cloned() {
            Some(new) => self.add(alias, &new),
            None => self.number(alias, "h"),
        }
    }

    /// Replaces the name of a person or site.
    pub(super) fn person(&mut self, name: &str, new: &str) {
        if !ANYONE.contains(&name) {
            self.add(name, new);
        }
    }

    /// Collects the users and jump hosts of a command.
    pub(super) fn people(&mut self, command: &[String]) {
        let words = command.iter().flat_map(|word| word.split([' ', '=', ',']));
        let words: Vec<&str> = words.collect();
        for pair in words.windows(2) {
            match pair {
                [option, user] if USERS.contains(option) => self.person(user, "user"),
                ["-J", jump] => {
                    let host = jump.rsplit('@').next().unwrap_or_default();
                    self.add(host.split(':').next().unwrap_or_default(), "host");
                }
                _ => {}
            }
        }
        for (user, _) in words.iter().filter_map(|word| word.split_once('@')) {
            self.person(user, "user");
        }
    }

    /// Replacement of a hardware address.
    pub(super) fn hardware(&mut self, address: &str) -> String {
        let [_, high, middle, low] = after(self.hardware.len()).to_be_bytes();
        let new = || format!("02:00:00:{high:02x}:{middle:02x}:{low:02x}");
        let address = address.to_ascii_lowercase();
        self.hardware.entry(address).or_insert_with(new).clone()
    }

    /// A text with everything replaced.
    pub(super) fn text(&mut self, text: &str) -> String {
        let mut new = String::with_capacity(text.len());
        let mut rest = text;
        let mut in_word = false;
        while let Some(letter) = rest.chars().next() {
            let found = match in_word {
                true => None,
                false => self.found(rest),
            };
            let (length, word) = found.unwrap_or_else(|| (letter.len_utf8(), letter.to_string()));
            new += &word;
            let (passed, after) = rest.split_at(length);
            in_word = passed.ends_with(char::is_alphanumeric);
            rest = after;
        }
        new
    }

    /// The beginning of a text, if it is replaced. Addresses come first: a part of one can be a known name.
    fn found(&mut self, text: &str) -> Option<Found> {
        self.address_range(text)
            .or_else(|| self.address(text))
            .or_else(|| phrase(text))
            .or_else(|| self.folded(text))
            .or_else(|| self.user(text))
            .or_else(|| self.name(text))
            .or_else(|| unknown_host(text))
            .or_else(|| path(text))
            .or_else(|| fingerprint(text))
    }

    /// IPv6 addresses with a range, as in `[fd00::[3-4]]`, also before a port.
    fn address_range(&mut self, text: &str) -> Option<Found> {
        let part = run(text, |letter| {
            letter.is_ascii_hexdigit() || ".:[],-/".contains(letter)
        });
        let bracket = part.rfind(']').filter(|_| part.contains(':'))?;
        [&part[..=bracket], part].into_iter().find_map(|text| {
            let hosts = launcher::hosts::parse(text).ok()?.into_iter();
            let old: Option<Vec<Ipv6Addr>> = hosts.map(|host| host.name.parse().ok()).collect();
            // A single address may be one with brackets alone.
            let old = old.filter(|old| old.len() > 1)?.into_iter();
            let new = old.map(|address| self.address_for(IpAddr::V6(address)).to_string());
            Some((text.len(), fold(&new.collect::<Vec<_>>())))
        })
    }

    /// An IP address, also before a port, or a hardware address.
    fn address(&mut self, text: &str) -> Option<Found> {
        let part = run(text, |letter| {
            letter.is_ascii_hexdigit() || letter == '.' || letter == ':'
        });
        if text[part.len()..].starts_with(char::is_alphanumeric) {
            return None;
        }
        let bare = part.trim_end_matches(['.', ':']);
        let before_port = bare.rsplit_once(':').map_or("", |(address, _)| address);
        [part, bare, before_port].into_iter().find_map(|text| {
            let new = match text.parse::<IpAddr>() {
                Ok(address) => self.address_for(address).to_string(),
                Err(_) if is_hardware(text) => self.hardware(text),
                Err(_) => return None,
            };
            Some((text.len(), new))
        })
    }

    fn address_for(&mut self, address: IpAddr) -> IpAddr {
        if address.is_loopback() || address.is_unspecified() {
            return address;
        }
        let number = after(self.addresses.len());
        let new = || match address {
            IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::from(V4.wrapping_add(number))),
            IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::from(V6 + u128::from(number))),
        };
        *self.addresses.entry(address).or_insert_with(new)
    }

    /// Names of several hosts, as in `n[1-3,10]-ib`.
    fn folded(&mut self, text: &str) -> Option<Found> {
        let (mut end, mut is_open, mut has_range) = (0, false, false);
        for (at, letter) in text.char_indices().take(LONGEST) {
            match letter {
                '[' if !is_open => is_open = true,
                ']' if is_open => (is_open, has_range) = (false, true),
                '0'..='9' | ',' | '-' | '/' if is_open => {}
                '.' | '_' | '-' if !is_open => {}
                _ if !is_open && letter.is_ascii_alphanumeric() => {}
                _ => break,
            }
            if !is_open {
                end = at + 1;
            }
        }
        if !has_range {
            return None;
        }
        let hosts = launcher::hosts::parse(&text[..end]).ok()?.into_iter();
        let old: Vec<String> = hosts.map(|host| host.name).collect();
        let new: Vec<String> = old.iter().map(|name| self.text(name)).collect();
        (new != old).then(|| (end, fold(&new)))
    }

    /// A user at a host, known or not.
    fn user(&mut self, text: &str) -> Option<Found> {
        let user = run(text, |letter| {
            letter.is_ascii_alphanumeric() || "._+-$\\".contains(letter)
        });
        let host = text[user.len()..].strip_prefix('@');
        let host = host.filter(|_| !user.is_empty())?;
        let known = self.address(host).or_else(|| self.folded(host));
        let known = known.or_else(|| self.name(host));
        let (length, host) = known.unwrap_or_else(|| (word(host), REMOVED.to_owned()));
        Some((user.len() + 1 + length, format!("user@{host}")))
    }

    /// The longest known name that ends where a word ends, with the domain after it.
    fn name(&self, text: &str) -> Option<Found> {
        self.lengths.iter().rev().find_map(|length| {
            let name = text.get(..*length)?;
            let new = self.known.get(name)?;
            let after = &text[*length..];
            let goes_on = after.starts_with(char::is_alphanumeric);
            let is_part = goes_on && name.ends_with(char::is_alphanumeric);
            (!is_part).then(|| (length + domain(after), new.clone()))
        })
    }
}

/// True for names that are the same everywhere or have no meaning, such as those that look like a figure, and for addresses, which are replaced by
/// addresses.
fn identifies_nothing(name: &str) -> bool {
    let word = name.trim_end_matches(|letter: char| letter.is_ascii_digit() || letter == '.');
    name.chars().count() < 2
        || ["", "local", "localhost", "localdomain"].contains(&word)
        || name.parse::<IpAddr>().is_ok()
}

/// The number after `known` others.
fn after(known: usize) -> u32 {
    u32::try_from(known).unwrap_or(u32::MAX).wrapping_add(1)
}

/// The beginning of a text whose letters are all parts of a name.
fn run(text: &str, is_part: impl Fn(char) -> bool) -> &str {
    let letters = text.char_indices().take(LONGEST);
    let part = letters.take_while(|(_, letter)| is_part(*letter)).last();
    &text[..part.map_or(0, |(at, letter)| at + letter.len_utf8())]
}

/// Length of the word at the beginning of a text, without punctuation after it.
fn word(text: &str) -> usize {
    let word = run(text, |letter| !letter.is_whitespace());
    word.trim_end_matches([':', ',', ';', '.', ')', '\'', '"'])
        .len()
}

/// At least six bytes: those of InfiniBand have more.
fn is_hardware(text: &str) -> bool {
    text.split(':').count() >= 6 && text.split(':').all(|byte| byte.len() == 2)
}

/// Length of the domain after the name of a host, as in `n1.cluster.local`.
fn domain(text: &str) -> usize {
    let mut length = 0;
    while let Some(label) = text[length..].strip_prefix('.') {
        let label = run(label, |letter| {
            letter.is_ascii_alphanumeric() || letter == '-'
        });
        if !label.starts_with(|letter: char| letter.is_ascii_alphabetic()) {
            break;
        }
        length += 1 + label.trim_end_matches('-').len();
    }
    length
}

/// A phrase that a user or host follows, of which the rest of the record may know nothing.
fn phrase(text: &str) -> Option<Found> {
    let phrase = PHRASES.iter().find(|phrase| text.starts_with(**phrase))?;
    let length = phrase.len() + word(&text[phrase.len()..]);
    Some((length, format!("{phrase}{REMOVED}")))
}

/// A name of at least three parts, the last of them letters: a host that the rest of the record does not know.
fn unknown_host(text: &str) -> Option<Found> {
    let name = run(text, |letter| {
        letter.is_ascii_alphanumeric() || letter == '.' || letter == '-'
    });
    let name = name.trim_end_matches(['.', '-']);
    let labels: Vec<&str> = name.split('.').collect();
    let last = labels.last()?;
    let is_host = labels.len() > 2
        && labels.iter().all(|label| !label.is_empty())
        && last.len() > 1
        && last.bytes().all(|byte| byte.is_ascii_alphabetic())
        && !SETTINGS.contains(&labels[0]);
    is_host.then(|| (name.len(), "host".to_owned()))
}

/// An absolute path, or one in a home folder.
fn path(text: &str) -> Option<Found> {
    let path = run(text, |letter| {
        !letter.is_whitespace() && !"'\"`()<>[]{};,:|".contains(letter)
    });
    let path = path.trim_end_matches('.');
    let after = path.strip_prefix('/').or_else(|| path.strip_prefix('~'))?;
    let is_path =
        after.starts_with(|letter: char| letter.is_alphabetic() || "/._".contains(letter));
    let stays = FOLDERS.iter().any(|folder| path.starts_with(folder));
    (is_path && !stays).then(|| (path.len(), PATH.to_owned()))
}

/// Fingerprint of a host's key.
fn fingerprint(text: &str) -> Option<Found> {
    const KIND: &str = "SHA256:";
    let digest = run(text.strip_prefix(KIND)?, |letter| {
        letter.is_ascii_alphanumeric() || "+/=".contains(letter)
    });
    Some((KIND.len() + digest.len(), format!("{KIND}{REMOVED}")))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn names() -> Names {
        let mut names = Names::default();
        for host in ["n1", "n10", "n1-ib", "n1.cluster.local", "pass", "receive"] {
            names.number(host, "h");
        }
        names.add("alice", "user");
        names.number("10.0", "g");
        names
    }

    #[test]
    fn a_name_is_replaced_where_it_is_a_word() {
        for (old, new) in [
            ("n1->n10: n1-ib, n1.cluster.local", "h1->h2: h3, h4"),
            ("n1-eth n100 xn1 n1#2 n1_a", "h1-eth n100 xn1 h1#2 h1_a"),
            ("to n1.acme.example. End", "to h1. End"),
            (
                "n1 receive: 2.5 Gbit/s, bypass",
                "h1 h6: 2.5 Gbit/s, bypass",
            ),
            ("gw.dc.acme.example", "host"),
            (
                "net.ipv4.tcp_rmem 4096 16384",
                "net.ipv4.tcp_rmem 4096 16384",
            ),
            ("ä n1ä n1", "ä n1ä h1"),
            ("", ""),
        ] {
            assert_eq!(names().text(old), new);
        }
    }

    #[test]
    fn folded_names_are_those_of_the_same_hosts() {
        for (old, new) in [
            ("n[1,10]: cannot connect", "h[1-2]: cannot connect"),
            ("n[1-2] and n[1,1]-ib", "h1,n2 and h[3,3]"),
            (
                "local[1-3], cpu[0-7], [1-2], [x]",
                "local[1-3], cpu[0-7], [1-2], [x]",
            ),
            ("10.0.0.[1-2]", "198.18.0.[1-2]"),
            (
                "[fd00::[7-8]]:22, fd00:1:2:3:4:5:6:[1-2]: timed out",
                "[2001:db8::[1-2]]:22, [2001:db8::[3-4]]: timed out",
            ),
            ("fd00:[1-2]::7", "[2001:db8::[1-2]]"),
        ] {
            assert_eq!(names().text(old), new);
        }
    }

    #[test]
    fn an_address_is_replaced_by_one_of_its_family() {
        for (old, new) in [
            (
                "10.0.0.7:5201, 10.0.0.8. 10.0.0.7/24",
                "198.18.0.1:5201, 198.18.0.2. 198.18.0.1/24",
            ),
            (
                "[fd00::7]:22 fe80::1%eth0",
                "[2001:db8::1]:22 2001:db8::2%eth0",
            ),
            ("127.0.0.1 ::1 0.0.0.0", "127.0.0.1 ::1 0.0.0.0"),
            (
                "aa:bb:cc:00:00:07 (AA:bb:cc:00:00:07)",
                "02:00:00:00:00:01 (02:00:00:00:00:01)",
            ),
            ("at 12:30:45, phase 0->1: 5", "at 12:30:45, phase 0->1: 5"),
        ] {
            assert_eq!(names().text(old), new);
        }
    }

    #[test]
    fn users_paths_jump_hosts_and_fingerprints_go() {
        for (old, new) in [
            ("bob@n1: denied", "user@h1: denied"),
            ("alice@gw: denied", "user@...: denied"),
            ("denied for user bob: no key", "denied for user ...: no key"),
            (
                "ProxyJump bob@gw:22,gw2 is configured",
                "ProxyJump ... is configured",
            ),
            (
                "see '/home/bob/.ssh/id', ~/.ssh/config (/proc/net/arp)",
                "see '/path', /path (/proc/net/arp)",
            ),
            ("key SHA256:a+b/c= at n1", "key SHA256:... at h1"),
            ("1/2 of 5 Gbit/s, ~5 %", "1/2 of 5 Gbit/s, ~5 %"),
        ] {
            assert_eq!(names().text(old), new);
        }
    }

    #[test]
    fn what_identifies_nothing_stays() {
        let mut names = Names::default();
        for name in ["", "a", "local", "local2", "localhost", "17", "1.1"] {
            names.number(name, "h");
            assert_eq!(names.text(name), name);
        }
        names.number("n7", "h");
        assert_eq!(names.text("n7"), "h1");
    }

    proptest! {
        #[test]
        fn no_text_panics(text in ".{0,60}", near in "[n1a:.@/\\[\\]~,-]{0,40}") {
            for text in [text, near] {
                drop(names().text(&text));
            }
        }
    }
}
