//! Switch and port that a host is connected to: as written, or as LLDP names them.

use super::NodeSpec;

impl NodeSpec {
    /// Switch and port that the host is connected to, as text. `None` without a port.
    pub fn place(&self) -> Option<String> {
        let port = self.switch_port.as_ref()?;
        Some(match &self.switch {
            Some(switch) => format!("{switch} {port}"),
            None => port.clone(),
        })
    }

    /// True if both hosts are connected to one switch port, as far as they name it: a switch that only one of them names is no difference, since a
    /// host file can name the port alone, and LLDP can be absent at times.
    pub fn is_at_port_of(&self, other: &Self) -> bool {
        let switches = self.switch.as_ref().zip(other.switch.as_ref());
        let same_switch = switches.is_none_or(|(one, other)| one == other);
        self.switch_port.is_some() && self.switch_port == other.switch_port && same_switch
    }

    /// Completes switch and port with those that were seen. What is written goes before: nothing is added to something else, since a switch and
    /// a port from two sources name no port that exists.
    pub fn see(&mut self, switch: Option<&str>, port: Option<&str>) {
        let fits = |written: &Option<String>, seen: Option<&str>| {
            written.is_none() || written.as_deref() == seen
        };
        if fits(&self.switch, switch) && fits(&self.switch_port, port) {
            self.switch = switch.map(str::to_owned);
            self.switch_port = port.map(str::to_owned);
        }
    }
}

/// Nodes with the switch ports that an earlier run saw, where none is written.
pub fn with_places(nodes: &[NodeSpec], then: &[NodeSpec]) -> Vec<NodeSpec> {
    let mut nodes = nodes.to_vec();
    for (node, then) in nodes.iter_mut().zip(then) {
        node.see(then.switch.as_deref(), then.switch_port.as_deref());
    }
    nodes
}

/// A node at another switch port than in an earlier run whose tests are taken over, and what differs.
pub fn moved<'now>(now: &'now [NodeSpec], then: &[NodeSpec]) -> Option<(&'now str, String)> {
    now.iter().zip(then).find_map(|(now, then)| {
        let (at, was) = (now.place()?, then.place()?);
        let is_moved = !now.is_at_port_of(then);
        let what = format!(
            "its switch port is {at}, and was {was} in the tests so far (move the cable back, or leave out --resume)"
        );
        is_moved.then_some((now.label.as_str(), what))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_written_switch_port_goes_before_a_seen_one() {
        let place = |switch: Option<&str>, port: Option<&str>| {
            let mut node = NodeSpec {
                switch: switch.map(str::to_owned),
                switch_port: port.map(str::to_owned),
                ..NodeSpec::default()
            };
            node.see(Some("leaf1"), Some("Eth1/3"));
            node.place()
        };
        let seen = Some("leaf1 Eth1/3".to_owned());
        assert_eq!(place(None, None), seen);
        assert_eq!(place(None, Some("Eth1/3")), seen);
        assert_eq!(place(Some("leaf1"), None), seen);
        assert_eq!(place(None, Some("Eth1/4")), Some("Eth1/4".to_owned()));
        assert_eq!(place(Some("sw1"), None), None);
        let both = place(Some("sw1"), Some("Eth1/4"));
        assert_eq!(both, Some("sw1 Eth1/4".to_owned()));
    }

    /// A run that saw its switch ports could not be resumed: its command does not name them.
    #[test]
    fn what_an_earlier_run_saw_is_no_difference_of_the_command() {
        let command = vec![NodeSpec::default(), NodeSpec::default()];
        let mut then = command.clone();
        then[1].see(Some("leaf1"), Some("Eth1/3"));
        assert_eq!(with_places(&command, &then), then);
        then[1].host = "n9".to_owned();
        assert_ne!(with_places(&command, &then), then);
    }

    /// Symptom: a run was aborted because a cable was moved, and resumed at the new switch port; the sheet had that port for the tests before, too.
    #[test]
    fn a_cable_that_was_moved_in_between_is_no_run_to_resume() {
        let at = |port: Option<&str>| {
            let mut node = NodeSpec {
                label: "n1".to_owned(),
                ..NodeSpec::default()
            };
            node.see(port.map(|_| "leaf1"), port);
            vec![node]
        };
        let (here, there, unknown) = (at(Some("Eth1/3")), at(Some("Eth1/8")), at(None));
        let (node, what) = moved(&there, &here).unwrap();
        assert_eq!(node, "n1");
        assert!(what.starts_with("its switch port is leaf1 Eth1/8, and was leaf1 Eth1/3 "));
        for then in [&there, &unknown] {
            assert_eq!(moved(&there, then), None);
        }
        assert_eq!(moved(&unknown, &here), None);
    }
}
