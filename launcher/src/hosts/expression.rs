//! The grammar of a host list: `n1,n2`, `n[01-16,18]`, `rack[1-2]n[1-63/2]`, `user@host:port`,
//! `[::1]`, `[fd00::[3-4]]:22`, `local:3`.
//!
//! A name can have several ranges, anywhere in it. Numbers keep the width of the range's first
//! number. They are decimal in an IPv6 address, too, as for ClusterShell and Slurm: `fd00::[9-10]` is
//! `fd00::9` and `fd00::10`. Read next: `range.rs`, and `fold.rs`, the inverse.

use super::range::{Range, number};
use super::{Host, HostListError, MAX_HOSTS};

/// Limit of a host name's length, as in DNS.
const MAX_NAME_CHARS: usize = 255;

/// Parses a host list and keeps its order. Commas and white space separate entries.
pub fn parse(text: &str) -> Result<Vec<Host>, HostListError> {
    let mut hosts = Vec::new();
    for entry in entries(text)? {
        let room = MAX_HOSTS - hosts.len();
        hosts.extend(entry.hosts(room)?);
    }
    if hosts.is_empty() {
        return Err(HostListError::Empty);
    }
    Ok(hosts)
}

/// Parses a host list that a person typed. Fails for a name such as `n1-n8`: a run on one host of that name would have
/// nothing to measure, and would not fail. Jobs and host files can have such names.
pub fn parse_typed(text: &str) -> Result<Vec<Host>, HostListError> {
    let hosts = parse(text)?;
    let meant = hosts.iter().find_map(|host| {
        let range = range_of(&host.name)?;
        let name = host.name.clone();
        Some(HostListError::LikeRange { name, range })
    });
    meant.map_or(Ok(hosts), Err)
}

/// The range `n[1-8]` that a name such as `n1-n8` probably means.
fn range_of(name: &str) -> Option<String> {
    let halves = name.match_indices('-');
    let mut ranges = halves.filter_map(|(at, dash)| {
        let (prefix, first) = numbered(&name[..at])?;
        let (other, last) = numbered(&name[at + dash.len()..])?;
        // ip-10-0-10-1 is an address, not a range.
        let is_name = prefix.contains(|c: char| c == '.' || c.is_ascii_alphabetic());
        (prefix == other && is_name).then(|| format!("{prefix}[{first}-{last}]"))
    });
    ranges.next()
}

/// Splits a name that ends with a number before that number.
fn numbered(name: &str) -> Option<(&str, &str)> {
    let prefix = name.trim_end_matches(|c: char| c.is_ascii_digit());
    (prefix.len() < name.len()).then(|| name.split_at(prefix.len()))
}

/// One entry as written, with the column in which it begins.
struct Entry<'a> {
    text: &'a str,
    column: usize,
}

/// Splits at commas and white space outside brackets.
fn entries(text: &str) -> Result<Vec<Entry<'_>>, HostListError> {
    let mut found = Vec::new();
    let mut begin: Option<(usize, usize)> = None;
    let mut depth = 0usize;
    // True in the brackets of an IPv6 address, which can have ranges in brackets of their own.
    let mut in_address = false;
    let mut column = 0;
    // True if a host stands between the last comma and here.
    let mut has_entry = false;
    // A comma after the text ends the last entry.
    for (at, c) in text.char_indices().chain([(text.len(), ',')]) {
        column += 1;
        let separates = depth == 0 && (c == ',' || c.is_whitespace());
        if separates {
            if let Some((from, column)) = begin.take() {
                found.push(Entry {
                    text: &text[from..at],
                    column,
                });
                has_entry = true;
            } else if c == ',' && !has_entry && at < text.len() {
                let reason = "a comma without a host before it";
                return Err(Entry { text, column }.bad(text, reason));
            }
            has_entry &= c != ',';
            continue;
        }
        let (from, entry_column) = *begin.get_or_insert((at, column));
        match c {
            '[' if depth == 0 => (depth, in_address) = (1, false),
            '[' if depth == 1 && in_address => depth = 2,
            ']' if depth > 0 => depth -= 1,
            '[' | ']' => return Err(bracket(&text[from..], entry_column)),
            _ => in_address |= depth == 1 && c == ':',
        }
    }
    match begin {
        Some((from, column)) => Err(bracket(&text[from..], column)),
        None => Ok(found),
    }
}

fn bracket(text: &str, column: usize) -> HostListError {
    let reason = "unmatched bracket (example: n[01-16,18])";
    Entry { text, column }.bad(text, reason)
}

/// Cuts a user's text to 60 characters on one printable line, for an error.
pub(super) fn shown(text: &str) -> String {
    const SHOWN_CHARS: usize = 60;
    crate::error::one_line(&text.chars().take(SHOWN_CHARS).collect::<String>())
}

impl Entry<'_> {
    /// An error of this entry, about the `part` of it that is bad.
    fn bad(&self, part: &str, reason: impl Into<String>) -> HostListError {
        HostListError::Entry {
            text: shown(part),
            column: self.column,
            reason: reason.into(),
        }
    }

    fn hosts(&self, room: usize) -> Result<Vec<Host>, HostListError> {
        if let Some(count) = self.local_count()? {
            if count > room {
                return Err(HostListError::TooMany);
            }
            return Ok(vec![
                Host {
                    local: true,
                    ..Host::named("local")
                };
                count
            ]);
        }
        let (user, place) = self.split_user()?;
        let (name, port) = self.split_port(place)?;
        self.check_port(name, port, user.is_some())?;
        let names = match name
            .strip_prefix('[')
            .and_then(|rest| rest.strip_suffix(']'))
        {
            Some(address) if address.contains(':') => self.expand(address, room)?,
            _ => self.expand(name, room)?,
        };
        if names.len() > room {
            return Err(HostListError::TooMany);
        }
        let host = |name: String| -> Result<Host, HostListError> {
            self.check_name(&name)?;
            Ok(Host {
                user: user.clone(),
                port,
                ..Host::named(&name)
            })
        };
        names.into_iter().map(host).collect()
    }

    /// Parses `local` and `local:N`. With a user in front, `local` is the name of a remote host.
    fn local_count(&self) -> Result<Option<usize>, HostListError> {
        if self.text == "local" {
            return Ok(Some(1));
        }
        let Some(digits) = self.text.strip_prefix("local:") else {
            return Ok(None);
        };
        let refused = || {
            let reason = format!("bad number of local nodes (1 to {MAX_HOSTS}; example: local:3)");
            self.bad(self.text, reason)
        };
        node_count(digits).map(Some).ok_or_else(refused)
    }

    fn split_user(&self) -> Result<(Option<String>, &str), HostListError> {
        let Some((user, place)) = self.text.split_once('@') else {
            return Ok((None, self.text));
        };
        if user.is_empty() {
            let reason = format!(
                "groups are not known here: expand them with nodeset -e '{}'",
                shown(self.text)
            );
            return Err(self.bad(self.text, reason));
        }
        check_user(user).map_err(|()| {
            let allowed = "letters, digits and . _ + $ \\ - are allowed, not '-' first";
            self.bad(user, format!("bad user name ({allowed})"))
        })?;
        Ok((Some(user.to_owned()), place))
    }

    /// Splits off the port after the only colon outside brackets. Two or more colons are an IPv6
    /// address without brackets.
    fn split_port<'a>(&self, place: &'a str) -> Result<(&'a str, Option<u16>), HostListError> {
        let mut depth = 0usize;
        let mut colons = place.char_indices().filter(|&(_, c)| {
            match c {
                '[' => depth += 1,
                ']' => depth = depth.saturating_sub(1),
                _ => {}
            }
            c == ':' && depth == 0
        });
        let (Some((at, _)), None) = (colons.next(), colons.next()) else {
            self.check_end(place)?;
            return Ok((place, None));
        };
        let (name, port) = (&place[..at], &place[at + 1..]);
        match port_number(port) {
            Some(number) => Ok((name, Some(number))),
            None => {
                let cure = "1 to 65535; an IPv6 address needs brackets: [::1]:22";
                let reason = format!("bad port '{}' ({cure})", shown(port));
                Err(self.bad(self.text, reason))
            }
        }
    }

    /// Refuses `fd00::[3-4]:22`, which can end with a port or with a part of the address.
    fn check_end(&self, place: &str) -> Result<(), HostListError> {
        match place.rsplit_once("]:") {
            Some((before, end)) if port_number(end).is_some() => {
                let before = shown(before);
                let reason = format!(
                    "is {end} a port or a part of the address? write [{before}]]:{end} or [{before}]:{end}]"
                );
                Err(self.bad(self.text, reason))
            }
            _ => Ok(()),
        }
    }

    /// Refuses what other tools write for a number of processes: `n1:4` in the lists of MPICH.
    fn check_port(
        &self,
        name: &str,
        port: Option<u16>,
        has_user: bool,
    ) -> Result<(), HostListError> {
        const SSH: u16 = 22;
        /// Ports below it are those of the system.
        const SYSTEM: u16 = 1024;
        let is_address = |text: &str| text.parse::<std::net::Ipv4Addr>().is_ok();
        // Without its port, only an address in brackets has a colon.
        let is_name = !name.is_empty() && !name.contains(':') && !is_address(name);
        match port {
            Some(port) if is_name && !has_user && port < SYSTEM && port != SSH => {
                let name = shown(name);
                let reason = format!(
                    "is {port} a port or a number of processes? in a host file write '{name} port={port}' or '{name} nodes={port}'; a port also stands after user@{name}:"
                );
                Err(self.bad(self.text, reason))
            }
            _ => Ok(()),
        }
    }

    /// Returns all names that the brackets stand for. The leftmost bracket varies slowest.
    fn expand(&self, name: &str, room: usize) -> Result<Vec<String>, HostListError> {
        // A name that is too long is not copied for each of its numbers; `check_name` refuses it.
        let outside = name
            .split('[')
            .map(|part| part.rsplit(']').next().unwrap_or(""));
        if outside.map(str::len).sum::<usize>() > MAX_NAME_CHARS {
            return Ok(vec![name.to_owned()]);
        }
        let mut names = vec![String::new()];
        let mut rest = name;
        while let Some((before, tail)) = rest.split_once('[') {
            // `entries` has checked that every bracket has its partner.
            let (inside, after) = tail.split_once(']').unwrap_or((tail, ""));
            let numbers = self.numbers(inside, room)?;
            if numbers.len().saturating_mul(names.len()) > room {
                return Err(HostListError::TooMany);
            }
            let longer = |name: &String| {
                numbers
                    .iter()
                    .map(|number| format!("{name}{before}{number}"))
                    .collect::<Vec<_>>()
            };
            names = names.iter().flat_map(longer).collect();
            rest = after;
        }
        names.iter_mut().for_each(|name| name.push_str(rest));
        Ok(names)
    }

    /// The numbers of one bracket, as text with leading zeros.
    fn numbers(&self, inside: &str, room: usize) -> Result<Vec<String>, HostListError> {
        let mut numbers = Vec::new();
        for range in inside.split(',') {
            let bad = |reason: &str| {
                let range = shown(range);
                let examples = "[1-16], [01-16,18], [1-63/2]";
                let reason = format!("bad range '{range}': {reason} (examples: {examples})");
                self.bad(self.text, reason)
            };
            let range = Range::parse(range.trim()).map_err(bad)?;
            if range.count() > (room - numbers.len().min(room)) as u64 {
                return Err(HostListError::TooMany);
            }
            numbers.extend(range.texts());
        }
        Ok(numbers)
    }

    fn check_name(&self, name: &str) -> Result<(), HostListError> {
        let allowed = |c: char| c.is_ascii_alphanumeric() || "._:%-".contains(c);
        let reason = if name.is_empty() {
            "it is empty".to_owned()
        } else if name.starts_with('-') {
            "it begins with '-' and could be taken for an option".to_owned()
        } else if name.len() > MAX_NAME_CHARS {
            format!(
                "it has {} characters, at most {MAX_NAME_CHARS} are allowed",
                name.len()
            )
        } else if let Some(c) = name.chars().find(|&c| !allowed(c)) {
            match c {
                '{' | '}' => "braces are the shell's: write n[1-3] for n1, n2 and n3".to_owned(),
                '!' => "-x n3 leaves n3 out, '!' does not".to_owned(),
                '&' | '^' => format!("'{c}' combines no lists: name the hosts that are left"),
                _ => format!("character '{}' is not allowed", c.escape_default()),
            }
        } else if name.contains("..") {
            "a range is n[1-8], not n1..n8".to_owned()
        } else {
            return Ok(());
        };
        Err(self.bad(name, format!("bad host name: {reason}")))
    }
}

/// Checks that a word is safe as a user name on a command line.
pub(super) fn check_user(user: &str) -> Result<(), ()> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "._+$\\-".contains(c);
    if user.is_empty() || user.starts_with('-') || !user.chars().all(allowed) {
        return Err(());
    }
    Ok(())
}

/// Parses the number of a port.
pub(super) fn port_number(text: &str) -> Option<u16> {
    let port = u16::try_from(number(text)?).ok()?;
    (port > 0).then_some(port)
}

/// Parses a number of nodes.
pub(super) fn node_count(text: &str) -> Option<usize> {
    let count = usize::try_from(number(text)?).ok()?;
    (1..=MAX_HOSTS).contains(&count).then_some(count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn names(text: &str) -> Vec<String> {
        parse(text)
            .unwrap()
            .into_iter()
            .map(|host| host.name)
            .collect()
    }

    #[test]
    fn lists_and_ranges() {
        assert_eq!(names("n1,n2 n3\n\tn1"), ["n1", "n2", "n3", "n1"]);
        assert_eq!(names("n[08-10,18]"), ["n08", "n09", "n10", "n18"]);
        assert_eq!(names("n[8-10]"), ["n8", "n9", "n10"]);
        assert_eq!(names("n[1-7/3]-ib"), ["n1-ib", "n4-ib", "n7-ib"]);
        assert_eq!(names("r[1-2]n[1-2]"), ["r1n1", "r1n2", "r2n1", "r2n2"]);
        assert_eq!(names("n[1-63/2]").len(), 32);
        assert_eq!(names("[1-2]n, n[ 1, 2 ]"), ["1n", "2n", "n1", "n2"]);
        assert_eq!(names("10.0.0.[1-2]"), ["10.0.0.1", "10.0.0.2"]);
    }

    #[test]
    fn users_ports_and_addresses() {
        let one = |text: &str| {
            let host = parse(text).unwrap().remove(0);
            (host.user, host.name, host.port)
        };
        assert_eq!(
            one("ann@n1:2222"),
            (Some("ann".into()), "n1".into(), Some(2222))
        );
        assert_eq!(one("[::1]"), (None, "::1".into(), None));
        assert_eq!(
            one("ann@[::1]:22"),
            (Some("ann".into()), "::1".into(), Some(22))
        );
        assert_eq!(one("fe80::1%eth0"), (None, "fe80::1%eth0".into(), None));
        assert_eq!(one("ann@local"), (Some("ann".into()), "local".into(), None));
        assert!(
            parse("n[1-2]:2277")
                .unwrap()
                .iter()
                .all(|host| host.port == Some(2277))
        );
    }

    #[test]
    fn a_range_of_ipv6_addresses_is_read_with_and_without_brackets() {
        assert_eq!(names("[fd00:77::[3-4]]"), ["fd00:77::3", "fd00:77::4"]);
        assert_eq!(names("fd00:77::[3-4]"), ["fd00:77::3", "fd00:77::4"]);
        assert_eq!(names("[fd00::[9-10]]"), ["fd00::9", "fd00::10"]);
        assert_eq!(
            names("[fe80::a[01,3]%eth0],n1"),
            ["fe80::a01%eth0", "fe80::a3%eth0", "n1"]
        );
        assert_eq!(names("fd00:[1-2]::7,n1"), ["fd00:1::7", "fd00:2::7", "n1"]);
        assert_eq!(names("[fd00:[1-2]::[3-4]]").len(), 4);
        let hosts = parse("ann@[fd00:[1-2]::7]:443").unwrap();
        assert!(
            hosts
                .iter()
                .all(|host| host.port == Some(443) && host.user.is_some())
        );
        assert_eq!(hosts[1].name, "fd00:2::7");
        let error = |text: &str| parse(text).unwrap_err().to_string();
        assert_eq!(
            error("fd00::[3-4]:22"),
            "'fd00::[3-4]:22' at column 1: is 22 a port or a part of the address? write [fd00::[3-4]]:22 or [fd00::[3-4]:22]"
        );
        assert_eq!(names("[fd00::[3-4]:22]"), ["fd00::3:22", "fd00::4:22"]);
        for (text, part) in [
            (
                "[fd00::[a-f]]",
                "bad range 'a-f': the first is not a decimal number",
            ),
            (
                "[fd00::[1-f]]",
                "bad range '1-f': the last is not a decimal number",
            ),
            ("[fd00::[3-4]", "unmatched bracket"),
            ("[fd00::[[3-4]]]", "unmatched bracket"),
            ("n[[3-4]]", "unmatched bracket"),
            ("n[1:[3-4]]", "bad range '1:[3-4'"),
            ("[fd00::1]x[3-4]", "bad host name"),
            ("[fd00::[3-4]]x", "bad range 'fd00::[3-4'"),
        ] {
            assert!(error(text).contains(part), "{text}: {}", error(text));
        }
    }

    #[test]
    fn local_nodes() {
        let hosts = parse("local:3,local,n1").unwrap();
        assert_eq!(
            hosts.iter().map(|host| host.local).collect::<Vec<_>>(),
            [true, true, true, true, false]
        );
        assert!(hosts[..4].iter().all(|host| host.name == "local"));
        assert!(!parse("localhost").unwrap()[0].local);
    }

    #[test]
    fn every_refusal_names_entry_and_column() {
        use HostListError as E;
        let error = |text: &str| parse(text).unwrap_err();
        assert_eq!(error(" "), E::Empty);
        assert_eq!(error("n[1-100001]"), E::TooMany);
        assert_eq!(error("n[1-999][1-999]"), E::TooMany);
        assert_eq!(error("local:10000,n1"), E::TooMany);
        let is = |text: &str, reason: &str| match error(text) {
            E::Entry { reason: told, .. } => told.starts_with(reason),
            _ => false,
        };
        assert!(matches!(error("n1,n[1"), E::Entry { column: 4, .. }));
        assert!(is("n1,n[1", "unmatched bracket") && is("n]", "unmatched bracket"));
        for bad in [
            "n[]", "n[a]", "n[2-1]", "n[1-3/0]", "n[1-2/x]", "n[1-010]", "n[1-]", "n[-1]",
        ] {
            assert!(is(bad, "bad range"), "{bad}");
        }
        assert!(matches!(
            error("n1,-oProxyCommand=x"),
            E::Entry { column: 4, .. }
        ));
        for bad in ["a;b", "a$b", "é", "a@", "a/b", "a@b@c"] {
            assert!(is(bad, "bad host name"), "{bad}");
        }
        assert!(is(&"n".repeat(300), "bad host name"));
        for bad in [",", "n1,,n2", "n1, ,n2", ",n1"] {
            assert!(is(bad, "a comma without a host"), "{bad}");
        }
        assert_eq!(names("n1 , n2,"), ["n1", "n2"]);
        for bad in ["-l@n1", "a b@", "a;b@n1"] {
            assert!(
                is(bad, "bad user name") || is(bad, "bad host name"),
                "{bad}"
            );
        }
        for bad in ["n1:", "n1:0", "n1:65536", "n1:x", "[::1]:x"] {
            assert!(is(bad, "bad port"), "{bad}");
        }
        for bad in ["local:0", "local:x", "local:", "local:100001"] {
            assert!(is(bad, "bad number of local nodes"), "{bad}");
        }
        assert_eq!(
            error("n1,-x").to_string(),
            "'-x' at column 4: bad host name: it begins with '-' and could be taken for an option"
        );
    }

    #[test]
    fn forms_of_other_tools_are_refused_by_name_and_not_taken_for_something_else() {
        let error = |text: &str| parse(text).unwrap_err().to_string();
        for (text, part) in [
            ("@rack1", "expand them with nodeset -e '@rack1'"),
            ("n[1-3]!n2", "-x n3 leaves n3 out"),
            ("n[1-3]&n2", "'&' combines no lists"),
            ("n{1..3}", "write n[1-3] for n1, n2 and n3"),
            ("n1:4", "is 4 a port or a number of processes?"),
            ("n[1-2]:4", "is 4 a port or a number of processes?"),
            ("10g-n1:4", "is 4 a port or a number of processes?"),
        ] {
            assert!(error(text).contains(part), "{text}: {}", error(text));
        }
        let port = |text: &str| parse(text).unwrap()[0].port;
        assert_eq!(port("ann@n1:443"), Some(443));
        assert_eq!(port("127.0.0.1:9"), Some(9));
        assert_eq!(port("n1:22"), Some(22));
        assert_eq!(port("[fd00::1]:443"), Some(443));
    }

    #[test]
    fn a_range_without_brackets_is_refused_and_not_taken_for_one_host() {
        let error = |text: &str| parse_typed(text).unwrap_err().to_string();
        for (text, range) in [
            ("n1-n8", "n[1-8]"),
            ("m1,n01-n16", "n[01-16]"),
            ("node-1-node-8", "node-[1-8]"),
            ("10.0.0.1-10.0.0.8", "10.0.0.[1-8]"),
        ] {
            let error = error(text);
            assert!(error.contains(&format!("a range is {range}")), "{error}");
        }
        assert!(error("n1..n8").contains("a range is n[1-8]"));
        assert!(parse("n1..n8").is_err(), "no host has such a name");
        for name in ["n1-ib0", "n1-8", "r1-n1", "ip-10-0-10-1", "n-n", "n[1-2]"] {
            assert!(parse_typed(name).is_ok(), "{name}");
        }
        assert_eq!(names("n1-n8"), ["n1-n8"], "of a job or a host file");
    }

    proptest! {
        #[test]
        fn no_text_panics(text in ".{0,80}") {
            drop(parse_typed(&text));
        }

        #[test]
        fn nearly_valid_text_does_not_panic_and_stays_in_bounds(text in r"[a-c0-9\[\],/:@% -]{0,40}") {
            if let Ok(hosts) = parse(&text) {
                prop_assert!(!hosts.is_empty() && hosts.len() <= MAX_HOSTS);
                prop_assert!(hosts.iter().all(|host| !host.name.is_empty() && !host.name.starts_with('-')));
            }
        }
    }
}
