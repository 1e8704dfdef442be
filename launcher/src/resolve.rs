//! Resolves a name to addresses.
//!
//! The executable is static. A static C library loads the system's name services only if they
//! happen to have the same version. So this module runs the system's `getent`. A late `getent`
//! process can also be killed; a thread in the resolver cannot. Numeric addresses are never looked
//! up.

use std::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6, ToSocketAddrs as _};
use std::process::Command;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use crate::error::{LaunchError, Stage};
use crate::question::{NoReply, Reply, ask};
use crate::session::drive::seconds;
use crate::session::line::Line;
use crate::settings::Family;

/// Returns all addresses of a name that `family` allows, in the resolver's order, each once.
pub(crate) fn resolve(
    name: &str,
    port: u16,
    family: Family,
    limit: Duration,
    line: &Line,
) -> Result<Vec<SocketAddr>, LaunchError> {
    let all = match numeric(name, port) {
        Some(address) => vec![address],
        None => look_up(name, port, limit, line)?,
    };
    let mut wanted: Vec<SocketAddr> = Vec::new();
    let (fits, none): (fn(&SocketAddr) -> bool, &str) = match family {
        Family::Any => (|_| true, "no address"),
        Family::V4 => (SocketAddr::is_ipv4, "no IPv4 address"),
        Family::V6 => (SocketAddr::is_ipv6, "no IPv6 address"),
    };
    for address in all.into_iter().filter(fits) {
        if !wanted.contains(&address) {
            wanted.push(address);
        }
    }
    if wanted.is_empty() {
        return Err(no_address(none));
    }
    Ok(wanted)
}

fn no_address(text: &str) -> LaunchError {
    LaunchError::new(Stage::Resolve, text)
}

/// Parses a numeric address, also with the interface that a link-local one needs (`fe80::1%lo`).
fn numeric(name: &str, port: u16) -> Option<SocketAddr> {
    if let Ok(address) = name.parse::<IpAddr>() {
        return Some(SocketAddr::new(address, port));
    }
    let (address, interface) = name.split_once('%')?;
    let address: Ipv6Addr = address.parse().ok()?;
    let index = match interface.parse() {
        Ok(index) => index,
        Err(_) if interface.contains('/') => return None,
        Err(_) => std::fs::read_to_string(format!("/sys/class/net/{interface}/ifindex"))
            .ok()?
            .trim()
            .parse()
            .ok()?,
    };
    Some(SocketAddrV6::new(address, port, 0, index).into())
}

fn look_up(
    name: &str,
    port: u16,
    limit: Duration,
    line: &Line,
) -> Result<Vec<SocketAddr>, LaunchError> {
    let late = || no_address(&format!("timed out after {}", seconds(limit)));
    match ask(
        Command::new("getent").args(["ahosts", "--", name]),
        Instant::now() + limit,
        line,
    ) {
        Ok(reply) => of_getent(&reply, port),
        Err(NoReply::Late) => Err(late()),
        Err(NoReply::Aborted) => Err(no_address("aborted")),
        Err(NoReply::Absent | NoReply::Broken(_)) => {
            of_library(name, port, limit).ok_or_else(late)?
        }
    }
}

/// Parses `ADDRESS STREAM NAME` in each line. Status 2 means that the name does not exist.
fn of_getent(reply: &Reply, port: u16) -> Result<Vec<SocketAddr>, LaunchError> {
    let address = |line: &str| numeric(line.split_whitespace().next()?, port);
    let found: Vec<SocketAddr> = reply.standard.lines().filter_map(address).collect();
    match (found.is_empty(), reply.ending.status) {
        (false, _) => Ok(found),
        (true, Some(0 | 2)) => {
            Err(no_address("unknown name").hint("check the spelling in /etc/hosts or DNS"))
        }
        (true, _) => Err(no_address(&format!(
            "getent {}: {}",
            reply.ending.words(),
            reply.error
        ))),
    }
}

/// Asks the C library's resolver, in a thread because nothing else bounds it. Returns `None` if it
/// is late; the thread then ends by the resolver's time limits.
fn of_library(
    name: &str,
    port: u16,
    limit: Duration,
) -> Option<Result<Vec<SocketAddr>, LaunchError>> {
    let (sender, answer) = channel();
    let name = name.to_owned();
    let ask = move || {
        let found = (name.as_str(), port)
            .to_socket_addrs()
            .map(Iterator::collect::<Vec<_>>);
        // The receiver can have stopped waiting.
        drop(sender.send(found));
    };
    let thread = std::thread::Builder::new()
        .name("resolve".to_owned())
        .spawn(ask);
    if let Err(error) = thread {
        return Some(Err(no_address(&format!("cannot start a thread: {error}"))));
    }
    let found = answer.recv_timeout(limit).ok()?;
    Some(found.map_err(|error| no_address(&error.to_string())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::carrier::Ending;

    const LIMIT: Duration = Duration::from_secs(20);

    fn of(name: &str, family: Family) -> Result<Vec<SocketAddr>, LaunchError> {
        resolve(name, 7, family, LIMIT, &Line::new().unwrap())
    }

    #[test]
    fn numeric_addresses_stand_for_themselves() {
        assert_eq!(
            of("127.0.0.2", Family::Any).unwrap(),
            ["127.0.0.2:7".parse().unwrap()]
        );
        assert_eq!(of("::1", Family::V6).unwrap(), ["[::1]:7".parse().unwrap()]);
        assert_eq!(of("::1", Family::V4).unwrap_err().text, "no IPv4 address");
        assert_eq!(
            of("127.0.0.1", Family::V6).unwrap_err().text,
            "no IPv6 address"
        );
        assert_eq!(
            of("fe80::1%1", Family::Any).unwrap(),
            ["[fe80::1%1]:7".parse().unwrap()]
        );
        assert_eq!(
            numeric("fe80::1%lo", 7),
            Some("[fe80::1%1]:7".parse().unwrap())
        );
        assert_eq!(numeric("fe80::1%../x", 7), None);
    }

    #[test]
    fn names_resolve_by_either_way() {
        assert!(
            of("localhost", Family::Any)
                .unwrap()
                .iter()
                .all(|address| address.ip().is_loopback())
        );
        let library = of_library("localhost", 7, LIMIT).unwrap().unwrap();
        assert!(library.iter().all(|address| address.ip().is_loopback()));
        let error = of("nothing.invalid", Family::Any).unwrap_err();
        assert_eq!(error.stage, Stage::Resolve);
    }

    #[test]
    fn answers_of_getent() {
        let reply = |text: &str, status| Reply {
            ending: Ending {
                status: Some(status),
                signal: None,
            },
            standard: text.to_owned(),
            error: "broken".to_owned(),
        };
        let found = of_getent(
            &reply("10.0.0.1 STREAM n1\n10.0.0.1 DGRAM\nfd00::1 STREAM\n", 0),
            7,
        )
        .unwrap();
        assert_eq!(found.len(), 3);
        assert_eq!(
            of_getent(&reply("", 2), 7).unwrap_err().text,
            "unknown name"
        );
        assert_eq!(
            of_getent(&reply("", 1), 7).unwrap_err().text,
            "getent ended with status 1: broken"
        );
    }

    #[test]
    fn an_aborted_host_is_not_looked_up() {
        let line = Line::new().unwrap();
        line.abort();
        let error = resolve("localhost", 7, Family::Any, LIMIT, &line).unwrap_err();
        assert_eq!(error.text, "aborted");
    }
}
