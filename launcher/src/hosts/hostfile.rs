//! Host files: a line per host, `name [key=value]...`, `#` comments.
//!
//! This module handles the keys of launching: `user`, `port`, `nodes`. It accepts `slots` and
//! `max_slots` of other launchers' files, and ignores the second. All other keys, and `slots`,
//! belong to the caller and go into [`Host::attributes`].

use super::expression::{check_user, node_count, parse, port_number, shown};
use super::{Host, HostListError, MAX_HOSTS};

/// Limit of a line's length, since each of its hosts gets a copy of its keys.
const MAX_LINE_BYTES: usize = 4096;

/// Parses a host file. `allowed` lists the further keys that its lines can have.
pub fn hostfile(text: &str, allowed: &[&str]) -> Result<Vec<Host>, HostListError> {
    let mut hosts = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let refuse = |reason: String| HostListError::Line {
            line: at + 1,
            reason,
        };
        if line.len() > MAX_LINE_BYTES {
            let reason = format!("it is longer than {MAX_LINE_BYTES} bytes");
            return Err(refuse(reason));
        }
        let words: Vec<&str> = line
            .split_whitespace()
            .take_while(|word| !word.starts_with('#'))
            .collect();
        let Some((expression, keys)) = words.split_first() else {
            continue;
        };
        let more = read_line(expression, keys, allowed).map_err(refuse)?;
        if hosts.len() + more.len() > MAX_HOSTS {
            return Err(HostListError::TooMany);
        }
        hosts.extend(more);
    }
    if hosts.is_empty() {
        return Err(HostListError::Empty);
    }
    Ok(hosts)
}

fn read_line(expression: &str, keys: &[&str], allowed: &[&str]) -> Result<Vec<Host>, String> {
    let mut hosts = parse(expression).map_err(|error| error.to_string())?;
    let mut nodes = 1;
    let mut seen = std::collections::BTreeSet::new();
    for word in keys {
        let Some((key, value)) = word.split_once('=') else {
            return Err(format!(
                "'{}' is not key=value (example: user=ann)",
                shown(word)
            ));
        };
        if !seen.insert(key) {
            return Err(format!("key '{}' is given twice (keep one)", shown(key)));
        }
        if value.is_empty() {
            let key = shown(key);
            return Err(format!(
                "key '{key}' has no value (write {key}=VALUE or leave it out)"
            ));
        }
        match key {
            "user" => set_user(&mut hosts, value)?,
            "port" => set_port(&mut hosts, value)?,
            "nodes" => nodes = count(value)?,
            "max_slots" | "max-slots" => {}
            _ if key == "slots" || allowed.contains(&key) => hosts.iter_mut().for_each(|host| {
                host.attributes.insert(key.to_owned(), value.to_owned());
            }),
            _ => return Err(unknown_key(key, allowed)),
        }
    }
    if hosts.len().saturating_mul(nodes) > MAX_HOSTS {
        return Err(HostListError::TooMany.to_string());
    }
    // The entries of one host are side by side.
    let hosts = hosts.into_iter();
    Ok(hosts
        .flat_map(|host| std::iter::repeat_n(host, nodes))
        .collect())
}

fn set_user(hosts: &mut [Host], value: &str) -> Result<(), String> {
    check_user(value).map_err(|()| format!("key 'user': bad user name '{}'", shown(value)))?;
    if hosts.iter().any(|host| host.user.is_some()) {
        return Err("key 'user': the user is given twice (keep user@ or user=)".to_owned());
    }
    hosts
        .iter_mut()
        .for_each(|host| host.user = Some(value.to_owned()));
    Ok(())
}

fn set_port(hosts: &mut [Host], value: &str) -> Result<(), String> {
    let port = port_number(value)
        .ok_or_else(|| format!("key 'port': bad port '{}' (1 to 65535)", shown(value)))?;
    if hosts.iter().any(|host| host.port.is_some()) {
        return Err("key 'port': the port is given twice (keep :PORT or port=)".to_owned());
    }
    hosts.iter_mut().for_each(|host| host.port = Some(port));
    Ok(())
}

fn count(value: &str) -> Result<usize, String> {
    node_count(value).ok_or_else(|| {
        let value = shown(value);
        format!("key 'nodes': bad number '{value}' (1 to {MAX_HOSTS})")
    })
}

fn unknown_key(key: &str, allowed: &[&str]) -> String {
    let mut known = vec!["user", "port", "nodes"];
    known.extend(allowed);
    format!("unknown key '{}' (known: {})", shown(key), known.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ALLOWED: &[&str] = &["data", "speed"];

    #[test]
    fn lines_with_keys_comments_and_ranges() {
        let text = "# the rack\nn[1-2] user=ann port=2222 data=10.0.0.0/24 # left\n\n  local nodes=3 slots=8\n[::1]:22 speed=10G\n";
        let hosts = hostfile(text, ALLOWED).unwrap();
        assert_eq!(hosts.len(), 6);
        assert_eq!(hosts[1].name, "n2");
        assert_eq!(hosts[1].user.as_deref(), Some("ann"));
        assert_eq!(hosts[1].port, Some(2222));
        assert_eq!(hosts[1].attributes["data"], "10.0.0.0/24");
        assert!(
            hosts[2..5]
                .iter()
                .all(|host| host.local && host.attributes["slots"] == "8")
        );
        assert_eq!((hosts[5].name.as_str(), hosts[5].port), ("::1", Some(22)));
    }

    #[test]
    fn every_error_names_line_key_and_cure() {
        let error = |text: &str| hostfile(text, ALLOWED).unwrap_err().to_string();
        assert_eq!(
            error("n1\nn2 sped=1"),
            "host file line 2: unknown key 'sped' (known: user, port, nodes, data, speed)"
        );
        let cases = [
            ("n1 alone", "'alone' is not key=value"),
            ("n1 data=1 data=2", "key 'data' is given twice"),
            ("n1 data=", "key 'data' has no value"),
            ("n1 user=-l", "key 'user': bad user name '-l'"),
            ("a@n1 user=b", "key 'user': the user is given twice"),
            ("n1 port=0", "key 'port': bad port '0'"),
            ("n1:2222 port=6", "key 'port': the port is given twice"),
            ("n1 nodes=0", "key 'nodes': bad number '0'"),
            ("n[1-2] nodes=10000", "more than 10000"),
            ("n[1", "unmatched bracket"),
        ];
        for (text, expected) in cases {
            let error = error(text);
            assert!(
                error.starts_with("host file line 1: ") && error.contains(expected),
                "{error}"
            );
        }
        assert_eq!(
            hostfile("# nothing\n", ALLOWED).unwrap_err(),
            HostListError::Empty
        );
        let many = "n1 nodes=6000\nn2 nodes=6000";
        assert_eq!(hostfile(many, ALLOWED).unwrap_err(), HostListError::TooMany);
    }

    #[test]
    fn a_long_word_or_one_that_steers_the_terminal_is_not_repeated_as_it_is() {
        let long = "x".repeat(5000);
        let words = [
            long.clone(),
            format!("{long}=1"),
            format!("user=-{long}"),
            format!("port={long}"),
            format!("nodes={long}"),
            "\u{1b}[31m".to_owned(),
        ];
        for word in words {
            let error = hostfile(&format!("n1 {word}"), ALLOWED).unwrap_err();
            let text = error.to_string();
            assert!(text.len() < 300 && !text.contains('\u{1b}'), "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "(.|\n){0,120}") {
            drop(hostfile(&text, ALLOWED));
        }
    }
}
