//! Switch and port at the other end of a cable, which switches announce by LLDP: as lldpd knows them, or else systemd-networkd.

use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::outside;
use crate::record::SwitchPort;

/// The daemons answer from memory, within hundredths of a second. The host's start waits no longer for either of them.
const PATIENCE: Duration = Duration::from_millis(500);

/// Switch ports, each with the interface at which its switch was heard. Empty if no daemon knows any, or none may be asked.
pub(super) fn heard() -> Vec<(String, SwitchPort)> {
    const NETWORKD: &str = "/run/systemd/netif/io.systemd.Network";
    let heard = of_lldpd(&answer("lldpcli", &["-f", "json0", "show", "neighbors"]));
    // Where the daemon does not run, its client could start it.
    if heard.is_empty() && Path::new(NETWORKD).exists() {
        return of_networkd(&answer("networkctl", &["lldp", "--json=short"]));
    }
    heard
}

/// The switch port that was heard at any of these interfaces. `None` if there are several, as at a bond to two switches.
pub(super) fn at(heard: &[(String, SwitchPort)], interfaces: &[String]) -> Option<SwitchPort> {
    let own = heard.iter().filter(|(name, _)| interfaces.contains(name));
    let mut ports = own.map(|(_, port)| port);
    let first = ports.next()?;
    ports.all(|other| other == first).then(|| first.clone())
}

/// Standard output of a program, as far as it came in time. Empty if the program does not exist or fails.
fn answer(program: &str, words: &[&str]) -> Vec<u8> {
    const MOST_BYTES: usize = 1 << 20;
    let mut output = Vec::new();
    let Ok((own, theirs)) = UnixStream::pair() else {
        return output;
    };
    // The path of a session that is no login lacks the folders of lldpcli.
    let path = std::env::var("PATH").unwrap_or_else(|_| "/usr/bin:/bin".to_owned());
    let child = Command::new(program)
        .args(words)
        .env("PATH", path + ":/usr/sbin:/sbin")
        .stdin(Stdio::null())
        .stdout(OwnedFd::from(theirs))
        .stderr(Stdio::null())
        .spawn();
    let Ok(mut child) = child else {
        return output;
    };
    let until = Instant::now() + PATIENCE;
    let mut part = [0; 4096];
    loop {
        let left = until.saturating_duration_since(Instant::now());
        // A limit of zero is an error, which ends the loop.
        let read = own.set_read_timeout(Some(left));
        match read.and_then(|()| (&own).read(&mut part)) {
            Ok(count) if count > 0 && output.len() < MOST_BYTES => {
                output.extend_from_slice(&part[..count]);
            }
            Ok(_) | Err(_) => break,
        }
    }
    let (Ok(()) | Err(_)) = child.kill(); // It has ended, or it is late.
    let (Ok(_) | Err(_)) = child.wait();
    output
}

/// What `lldpcli -f json0 show neighbors` says.
fn of_lldpd(json: &[u8]) -> Vec<(String, SwitchPort)> {
    let all: Value = outside::read(json).unwrap_or_default();
    let neighbours = list(&all, "/lldp/0/interface").iter();
    let known = neighbours.filter_map(|one| {
        let kinds = list(one, "/chassis/0/capability");
        let forwards = |kind: &Value| {
            let is = |name: &str| kind["type"] == name;
            kind["enabled"] == true && (is("Bridge") || is("Router"))
        };
        // Switches of the simple kind pass on what hosts announce. A neighbour that does not say what it is may be a switch.
        let is_switch = kinds.is_empty() || kinds.iter().any(forwards);
        let port = switch_port([
            text(one, "/chassis/0/name/0/value"),
            text(one, "/chassis/0/id/0/value"),
            text(one, "/port/0/id/0/value"),
            text(one, "/port/0/descr/0/value"),
        ]);
        Some((text(one, "/name")?.to_owned(), port.filter(|_| is_switch)?))
    });
    known.collect()
}

/// What `networkctl lldp --json=short` says, from systemd 256 on.
fn of_networkd(json: &[u8]) -> Vec<(String, SwitchPort)> {
    /// Bits of bridge and router (IEEE 802.1AB, 8.5.8.1).
    const FORWARDS: u64 = (1 << 2) | (1 << 4);
    let all: Value = outside::read(json).unwrap_or_default();
    let mut known = Vec::new();
    for interface in list(&all, "/Neighbors") {
        for one in list(interface, "/Neighbors") {
            let kinds = one["EnabledCapabilities"].as_u64();
            let is_switch = kinds.is_none_or(|kinds| kinds & FORWARDS != 0);
            let port = switch_port([
                text(one, "/SystemName"),
                text(one, "/ChassisID"),
                text(one, "/PortID"),
                text(one, "/PortDescription"),
            ]);
            let name = text(interface, "/InterfaceName");
            if let (Some(name), Some(port), true) = (name, port, is_switch) {
                known.push((name.to_owned(), port));
            }
        }
    }
    known
}

fn list<'json>(of: &'json Value, path: &str) -> &'json [Value] {
    let list = of.pointer(path).and_then(Value::as_array);
    list.map(Vec::as_slice).unwrap_or_default()
}

fn text<'json>(of: &'json Value, path: &str) -> Option<&'json str> {
    let text = of.pointer(path)?.as_str()?.trim();
    (!text.is_empty()).then_some(text)
}

/// The port that a switch announces: name and identity of the switch, identity and description of the port.
fn switch_port([name, chassis, id, description]: [Option<&str>; 4]) -> Option<SwitchPort> {
    /// A name may have 255 bytes (IEEE 802.1AB), which no line of a report has room for.
    const MOST_LETTERS: usize = 64;
    let short = |text: &str| -> String { text.chars().take(MOST_LETTERS).collect() };
    // A system that identifies its port by a hardware address has the name in the description.
    let own = id.filter(|id| !is_hardware_address(id));
    Some(SwitchPort {
        switch: name.or(chassis).map(short)?,
        port: own.or(description).or(id).map(short)?,
    })
}

fn is_hardware_address(text: &str) -> bool {
    let is_byte = |word: &str| word.len() == 2 && word.chars().all(|one| one.is_ascii_hexdigit());
    text.split(':').count() == 6 && text.split(':').all(is_byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// lldpd 1.0.16 of a host at a bridge that also passes on what other hosts announce.
    const SEVERAL: &str = r#"{"lldp": [{"interface": [
        {"name": "eth0", "via": "LLDP", "rid": "1", "age": "0 day, 00:00:01",
         "chassis": [{"id": [{"type": "mac", "value": "da:f4:55:e0:e3:12"}], "name": [{"value": "n3"}],
            "descr": [{"value": "Debian GNU/Linux 12 (bookworm)"}], "mgmt-ip": [{"value": "fe80::d8f4:55ff:fee0:e312"}],
            "capability": [{"type": "Bridge", "enabled": false}, {"type": "Router", "enabled": false},
                {"type": "Wlan", "enabled": false}, {"type": "Station", "enabled": true}]}],
         "port": [{"id": [{"type": "mac", "value": "da:f4:55:e0:e3:12"}], "descr": [{"value": "eth0"}],
            "ttl": [{"value": "120"}]}]},
        {"name": "eth0", "via": "LLDP", "rid": "2", "age": "0 day, 00:00:01",
         "chassis": [{"id": [{"type": "mac", "value": "5a:af:9a:aa:ef:46"}], "name": [{"value": "leaf1"}],
            "descr": [{"value": "Debian GNU/Linux 12 (bookworm)"}], "mgmt-ip": [{"value": "fe80::f013:caff:fe54:a05"}],
            "capability": [{"type": "Bridge", "enabled": true}, {"type": "Router", "enabled": false},
                {"type": "Wlan", "enabled": false}, {"type": "Station", "enabled": false}]}],
         "port": [{"id": [{"type": "mac", "value": "0e:78:d7:9e:b5:06"}], "descr": [{"value": "p2"}],
            "ttl": [{"value": "120"}]}]}]}]}"#;

    fn at_eth0(json: &str) -> Option<String> {
        let port = at(&of_lldpd(json.as_bytes()), &["eth0".to_owned()])?;
        Some(format!("{} {}", port.switch, port.port))
    }

    #[test]
    fn a_host_that_a_bridge_passes_on_is_no_switch() {
        assert_eq!(of_lldpd(SEVERAL.as_bytes()).len(), 1);
        assert_eq!(at_eth0(SEVERAL).as_deref(), Some("leaf1 p2"));
        // Other interfaces have other cables.
        let heard = of_lldpd(SEVERAL.as_bytes());
        assert_eq!(at(&heard, &["eth1".to_owned()]), None);
        // Two switches at one interface: either could be the one.
        let two = SEVERAL.replace("\"enabled\": false", "\"enabled\": true");
        assert_eq!(at_eth0(&two), None);
        // Two cables of a bond to one port of one switch do not exist, but one switch may be known in two ways.
        let twice = two
            .replace("\"n3\"", "\"leaf1\"")
            .replace("eth0\"}", "p2\"}");
        assert_eq!(at_eth0(&twice).as_deref(), Some("leaf1 p2"));
    }

    #[test]
    fn a_port_has_its_own_name_before_its_description() {
        let named = SEVERAL.replace(
            "\"mac\", \"value\": \"0e:78:d7:9e:b5:06\"",
            "\"ifname\", \"value\": \"Eth1/3\"",
        );
        assert_eq!(at_eth0(&named).as_deref(), Some("leaf1 Eth1/3"));
        // Neither name nor description: identities are all that there is.
        let bare = SEVERAL
            .replace("\"p2\"", "\" \"")
            .replace("\"leaf1\"", "\"\"");
        assert_eq!(
            at_eth0(&bare).as_deref(),
            Some("5a:af:9a:aa:ef:46 0e:78:d7:9e:b5:06")
        );
        let long = SEVERAL.replace("\"p2\"", &format!("\"{}\\u001b\"", "p".repeat(300)));
        assert_eq!(at_eth0(&long), Some(format!("leaf1 {}", "p".repeat(64))));
    }

    #[test]
    fn an_answer_of_another_form_is_no_knowledge() {
        // lldpd without neighbours, its form `json`, and no answer.
        let empty = "{\n  \"lldp\": [\n    {\n      \n    }\n  ]\n}\n";
        let other = r#"{"lldp": {"interface": {"eth0": {"via": "LLDP", "chassis": {"leaf1": {"descr": "Debian"}},
            "port": {"id": {"type": "mac", "value": "e2:87:e1:da:85:b4"}, "descr": "p2", "ttl": "120"}}}}}"#;
        for json in [empty, other, "", "null", "[]", "{\"lldp\": 1}", "leaf1"] {
            assert_eq!(of_lldpd(json.as_bytes()), [], "{json}");
            assert_eq!(of_networkd(json.as_bytes()), [], "{json}");
        }
    }

    #[test]
    fn networkd_knows_the_same() {
        let json = r#"{"Neighbors":[{"InterfaceIndex":2,"InterfaceName":"eth0","Neighbors":[
            {"ChassisID":"da:f4:55:e0:e3:12","PortID":"da:f4:55:e0:e3:12","SystemName":"n3","EnabledCapabilities":128},
            {"ChassisID":"5a:af:9a:aa:ef:46","PortID":"Eth1/3","PortDescription":"to n3","SystemName":"leaf1",
             "EnabledCapabilities":20}]},{"InterfaceIndex":3,"InterfaceName":"eth1"}]}"#;
        let port = SwitchPort {
            switch: "leaf1".to_owned(),
            port: "Eth1/3".to_owned(),
        };
        assert_eq!(of_networkd(json.as_bytes()), [("eth0".to_owned(), port)]);
    }

    #[test]
    fn a_program_that_is_late_or_absent_keeps_no_host_waiting() {
        assert_eq!(answer("echo", &["leaf1"]), b"leaf1\n");
        assert_eq!(answer("no-such-program-at-all", &[]), b"");
        let began = Instant::now();
        assert_eq!(
            answer("sh", &["-c", "echo begun; exec sleep 60"]),
            b"begun\n"
        );
        assert!(began.elapsed() < Duration::from_secs(30));
    }
}
