//! The plan file that `pipebench init --hosts` writes: the template with hosts, their switch ports, and the options with which they were checked.

use std::ffi::OsString;
use std::path::Path;

use clap::parser::ValueSource;
use launcher::hosts::Host;

use crate::plan::NodeSpec;

use super::args::{self, InitArguments};
use super::planfile::{TEMPLATE, is_word};
use super::resolve;

/// An option of the plain command with its values; none if it is a flag.
pub(super) type Given = (String, Vec<String>);

/// Options that a command of `init` has, each with its values; none for a flag. Those that name the hosts are left out.
pub(super) fn given(words: impl IntoIterator<Item = OsString>) -> Vec<Given> {
    let matches = args::command().try_get_matches_from(words);
    let Ok(Some((_, matches))) = matches.map(|mut all| all.remove_subcommand()) else {
        return Vec::new();
    };
    let init = <InitArguments as clap::Args>::augment_args(clap::Command::new("init"));
    let given = init.get_arguments().filter_map(|option| {
        let name = option
            .get_long()
            .filter(|name| !["hosts", "hostfile"].contains(name))?;
        let id = option.get_id().as_str();
        let is_given = matches.value_source(id) == Some(ValueSource::CommandLine);
        let values = matches.get_raw(id).filter(|_| is_given)?;
        let values = values.filter(|_| option.get_action().takes_values());
        let values = values.map(|value| value.to_string_lossy().into_owned());
        Some((name.to_owned(), values.collect()))
    });
    given.collect()
}

/// A plan file to write.
#[derive(Clone, Copy)]
pub(super) struct Draft<'a> {
    /// Path of the file.
    pub path: &'a Path,
    /// Its hosts.
    pub hosts: &'a [Host],
    /// Options with which the hosts were checked.
    pub options: &'a [Given],
}

impl Draft<'_> {
    /// Text of the plan, with the switch ports at which the nodes of the check were seen.
    pub(super) fn text(&self, seen: &[NodeSpec]) -> String {
        const RUN: &str = "[run]\n";
        const HOSTS: &str = "[[hosts]]\n";
        const TESTS: &str = "# Your own tests";
        let (before, _) = TEMPLATE.split_once(HOSTS).unwrap_or((TEMPLATE, ""));
        let tests = TEMPLATE.find(TESTS).map_or("", |at| &TEMPLATE[at..]);
        let options: String = self.options.iter().map(line_of).collect();
        let before = before.replacen(RUN, &format!("{RUN}{options}"), 1);
        // The check has made nodes of these hosts before.
        let nodes = resolve::nodes_of(self.hosts).unwrap_or_default();
        let hosts = self.hosts.iter().zip(&nodes);
        let tables = hosts.map(|(host, node)| format!("{HOSTS}{}\n", table(host, node, seen)));
        format!("{before}{}{tests}", tables.collect::<String>())
    }
}

/// The keys of a host. A node that failed is not among those that were seen.
fn table(host: &Host, node: &NodeSpec, seen: &[NodeSpec]) -> String {
    let mut keys = host.attributes.clone();
    keys.remove("slots");
    // A host can have several data ports.
    let is_at_port = |one: &&NodeSpec| one.host == node.host && one.data == node.data;
    if let Some(node) = seen.iter().find(is_at_port) {
        for (key, value) in [("switch", &node.switch), ("switchport", &node.switch_port)] {
            let value = value.iter().find(|value| is_word(value));
            keys.extend(value.map(|value| (key.to_owned(), value.clone())));
        }
    }
    // Without a user, a remote host of this name would be this machine.
    let (name, user) = match &host.user {
        Some(user) if host.name == "local" => (format!("{user}@local"), None),
        user => (host.name.clone(), user.clone()),
    };
    keys.extend(user.map(|user| ("user".to_owned(), user)));
    keys.extend(host.port.map(|port| ("port".to_owned(), port.to_string())));
    let mut lines = format!("name = {}\n", quoted(&name));
    for (key, value) in &keys {
        lines += &format!("{key} = {}\n", quoted(value));
    }
    lines
}

/// An option as a line of a plan.
fn line_of((name, values): &Given) -> String {
    let values: Vec<String> = values.iter().map(|value| quoted(value)).collect();
    match &values[..] {
        [] => format!("{name} = true\n"),
        [value] => format!("{name} = {value}\n"),
        _ => format!("{name} = [{}]\n", values.join(", ")),
    }
}

/// A string of TOML. That is a string of JSON, where DEL need not be escaped.
fn quoted(text: &str) -> String {
    let json = serde_json::Value::from(text).to_string();
    json.replace('\u{7f}', "\\u007F")
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::*;
    use crate::cli::args::{self, PlainArguments};
    use crate::cli::planfile;
    use crate::cli::resolve::RunSpec;

    fn hosts_of(lines: &str) -> (Vec<Host>, Vec<NodeSpec>) {
        let hosts = resolve::host_lines(lines).unwrap();
        let nodes = resolve::nodes_of(&hosts).unwrap();
        (hosts, nodes)
    }

    fn text_of(hosts: &[Host], nodes: &[NodeSpec], options: &[Given]) -> String {
        let path = Path::new("plan.toml");
        let draft = Draft {
            path,
            hosts,
            options,
        };
        draft.text(nodes)
    }

    /// What `pipebench run` makes of a plan.
    fn read(text: &str) -> (PlainArguments, RunSpec) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("plan.toml");
        std::fs::write(&path, text).unwrap();
        let results = args::parsed(&[]).unwrap().results;
        planfile::read(&path, &results).unwrap()
    }

    /// Nodes of a plan, without the speed of the template's criteria.
    fn nodes_of(spec: RunSpec) -> Vec<NodeSpec> {
        let mut nodes = spec.plan.nodes;
        for node in &mut nodes {
            node.speed_bits_per_s = None;
        }
        nodes
    }

    #[test]
    fn a_plan_of_hosts_names_their_ports_and_can_be_read() {
        let (hosts, mut nodes) =
            hosts_of("n1 user=root port=2222 data=10.0.0.1 switchport=Eth1/9\nn2\n");
        for (node, port) in nodes.iter_mut().zip(["p1", "p2"]) {
            node.switch = Some("leaf1".to_owned());
            node.switch_port.get_or_insert(port.to_owned());
        }
        let text = text_of(&hosts, &nodes, &[]);
        let one = "[[hosts]]\nname = \"n1\"\ndata = \"10.0.0.1\"\nport = \"2222\"\nswitch = \"leaf1\"\nswitchport = \"Eth1/9\"\nuser = \"root\"\n\n";
        let other =
            "[[hosts]]\nname = \"n2\"\nswitch = \"leaf1\"\nswitchport = \"p2\"\n\n# Your own tests";
        assert!(text.contains(&format!("{one}{other}")), "{text}");
        assert_eq!(nodes_of(read(&text).1), nodes);
    }

    /// Symptom: `init --hosts n[1-2] --user bench --data-network 10.1.0.0/16` checked one network as bench, and its plan ran over another as the user.
    #[test]
    fn a_plan_has_the_options_with_which_its_hosts_were_checked() {
        let words = [
            "pipebench",
            "init",
            "--hosts=n[1-3]",
            "-x",
            "n3",
            "--user",
            "true",
            "--rsh",
            "ssh -J \"gw\"",
            "--data-network=10.1.0.0/16,10.2.0.0/16",
            "-4",
            "p.toml",
        ];
        let given = given(words.map(OsString::from));
        let names: Vec<&str> = given.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["exclude", "rsh", "user", "data-network", "ipv4"]);
        let (hosts, nodes) = hosts_of("n1\nn2\n");
        let (plan, spec) = read(&text_of(&hosts, &nodes, &given[1..]));
        assert_eq!(plan.launch.user.as_deref(), Some("true"));
        assert_eq!(plan.launch.rsh.as_deref(), Some("ssh -J \"gw\""));
        assert_eq!(plan.sockets.data_network, ["10.1.0.0/16", "10.2.0.0/16"]);
        assert!(plan.sockets.ipv4);
        assert_eq!(nodes_of(spec), nodes);
    }

    /// Symptom: `pipebench run` refused the plan, because a switch had a name with a space that is none in ASCII, or a host file a port with a `#`.
    #[test]
    fn a_plan_with_any_name_can_be_read() {
        let (hosts, mut nodes) = hosts_of("n1 switchport=Eth#1\u{7f}\"\\\nn2\n");
        nodes[1].switch = Some("leaf\u{a0}1".to_owned());
        nodes[1].switch_port = Some("Eth1/2\u{2003}".to_owned());
        let planned = nodes_of(read(&text_of(&hosts, &nodes, &[])).1);
        assert_eq!(planned[0], nodes[0]);
        assert_eq!(
            (&planned[1].switch, &planned[1].switch_port),
            (&None, &None)
        );
    }

    /// Symptom: both data ports of a host got the switch port of the first one.
    #[test]
    fn each_data_port_of_a_host_keeps_its_own_switch_port() {
        let (hosts, mut nodes) = hosts_of("n1 data=10.0.0.1\nn1 data=10.1.0.1 nodes=2\nn2\n");
        for (node, port) in nodes.iter_mut().zip(["p1", "p2", "p2", "p3"]) {
            node.switch_port = Some(port.to_owned());
        }
        // The second of two nodes at one port failed.
        let mut seen = nodes.clone();
        seen.remove(2);
        assert_eq!(nodes_of(read(&text_of(&hosts, &seen, &[])).1), nodes);
    }

    /// Symptom: a plan for ann@local ran on this machine.
    #[test]
    fn a_remote_host_called_local_stays_remote() {
        let (hosts, nodes) = hosts_of("ann@local port=2222\nfd00::1 port=22\n");
        let (_, spec) = read(&text_of(&hosts, &nodes, &[]));
        assert_eq!(spec.hosts, hosts);
    }
}
