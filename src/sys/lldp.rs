//! Switch and port at the other end of a cable, which switches announce by LLDP: as lldpd knows them, or else systemd-networkd.

use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use serde_json::Value;

use super::process;
use crate::outside;
use crate::record::SwitchPort;

/// The daemons answer from memory, within hundredths of a second. The host's start waits no longer for either of them.
const PATIENCE: Duration = Duration::from_millis(500);
/// Folders of programs to which only root writes. The user's own path can have others, and the session of a user need not have those for root.
const FOLDERS: &str = "/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/sbin:/usr/local/bin";

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

/// The switch port that was heard at any of these interfaces. `None` if there are several, as at a bond to two switches, or if one of the cards among
/// them hears no switch: data can pass its cable, too.
pub(super) fn at(
    heard: &[(String, SwitchPort)],
    interfaces: &[String],
    is_card: impl Fn(&str) -> bool,
) -> Option<SwitchPort> {
    let is_heard = |name: &String| heard.iter().any(|(own, _)| own == name);
    if interfaces
        .iter()
        .any(|name| is_card(name) && !is_heard(name))
    {
        return None;
    }
    let own = heard.iter().filter(|(name, _)| interfaces.contains(name));
    let mut ports = own.map(|(_, port)| port);
    let first = ports.next()?;
    ports.all(|other| other == first).then(|| first.clone())
}

/// Standard output of a program, as far as it came in time. Empty if the program does not exist or fails. No process of its
/// group outlives the call.
fn answer(program: &str, words: &[&str]) -> Vec<u8> {
    const MOST_BYTES: usize = 1 << 20;
    let mut output = Vec::new();
    let Ok((own, theirs)) = UnixStream::pair() else {
        return output;
    };
    let mut command = Command::new(program);
    command
        .args(words)
        .env("PATH", FOLDERS)
        .stdin(Stdio::null())
        .stdout(OwnedFd::from(theirs))
        .stderr(Stdio::null())
        .process_group(0);
    let ends_with_this = || {
        process::die_with_parent(Signal::SIGKILL);
        Ok(())
    };
    // SAFETY: between fork and exec the closure makes one system call; it takes no lock and allocates nothing.
    unsafe { command.pre_exec(ends_with_this) };
    let child = command.spawn();
    // The command holds a copy of the child's end: with it, the output would have no end.
    drop(command);
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
    // It has ended, or it is late. A script can leave programs behind, and its number names them until it is reaped.
    process::kill_group(i32::try_from(child.id()).unwrap_or(0));
    let (Ok(_) | Err(_)) = child.wait();
    output
}

/// What `lldpcli -f json0 show neighbors` says.
fn of_lldpd(json: &[u8]) -> Vec<(String, SwitchPort)> {
    let all = read(json);
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
    let all = read(json);
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

/// What an answer says; nothing if it is no JSON. Switches send names in any encoding, so that other bytes than UTF-8 are no error here.
fn read(json: &[u8]) -> Value {
    outside::read(String::from_utf8_lossy(json).as_bytes()).unwrap_or_default()
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
        let port = at(&of_lldpd(json.as_bytes()), &["eth0".to_owned()], |_| true)?;
        Some(format!("{} {}", port.switch, port.port))
    }

    #[test]
    fn a_host_that_a_bridge_passes_on_is_no_switch() {
        assert_eq!(of_lldpd(SEVERAL.as_bytes()).len(), 1);
        assert_eq!(at_eth0(SEVERAL).as_deref(), Some("leaf1 p2"));
        // Other interfaces have other cables.
        let heard = of_lldpd(SEVERAL.as_bytes());
        assert_eq!(at(&heard, &["eth1".to_owned()], |_| false), None);
        // Two switches at one interface: either could be the one.
        let two = SEVERAL.replace("\"enabled\": false", "\"enabled\": true");
        assert_eq!(at_eth0(&two), None);
        // Two cables of a bond to one port of one switch do not exist, but one switch may be known in two ways.
        let twice = two
            .replace("\"n3\"", "\"leaf1\"")
            .replace("eth0\"}", "p2\"}");
        assert_eq!(at_eth0(&twice).as_deref(), Some("leaf1 p2"));
    }

    /// Symptom: the sheet named one switch port for a bond of two cables, where the other switch announces nothing.
    #[test]
    fn a_bond_with_a_cable_that_hears_no_switch_has_no_switch_port() {
        let heard = of_lldpd(SEVERAL.as_bytes());
        let below = ["bond0.7", "bond0", "eth0", "eth1"].map(str::to_owned);
        assert_eq!(at(&heard, &below, |name| name.starts_with("eth")), None);
        // A bridge of a card and the tap of a guest has one cable.
        assert!(at(&heard, &below, |name| name == "eth0").is_some());
    }

    /// Symptom: one switch whose description is Latin-1 made all switch ports of the host unknown.
    #[test]
    fn a_name_that_is_not_utf_8_hides_no_other_name() {
        let (before, after) = SEVERAL.split_once("Debian").unwrap();
        let json = [before.as_bytes(), b"B\xfcro", after.as_bytes()].concat();
        assert_eq!(of_lldpd(&json), of_lldpd(SEVERAL.as_bytes()));
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

    /// Symptom: a wrapper of lldpcli that hung was killed, and what it had started stayed on the host.
    #[test]
    fn nothing_that_a_late_program_started_stays() {
        let output = answer("sh", &["-c", "sleep 60 & echo $!; wait"]);
        let pid = String::from_utf8(output).unwrap();
        let stat = format!("/proc/{}/stat", pid.trim());
        // A process that was killed is a zombie until it is reaped.
        let lives = || std::fs::read_to_string(&stat).is_ok_and(|stat| !stat.contains(") Z "));
        let until = Instant::now() + Duration::from_secs(30);
        while lives() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(5));
        }
        assert!(!lives(), "{pid}");
    }

    /// Symptom: the node ran an lldpcli of the folder in which it was started, or of any other that stands in the user's path.
    #[test]
    fn only_programs_of_root_are_asked() {
        for folder in FOLDERS.split(':') {
            assert!(folder.starts_with('/'), "{folder}");
        }
        assert_eq!(
            answer("sh", &["-c", "echo $PATH"]),
            format!("{FOLDERS}\n").into_bytes()
        );
    }
}
