//! Names the switch port of each node: the written one, or else the one that its host hears.

use launcher::hosts::{fold, shorten};

use crate::plan::{NodeSpec, moved};
use crate::record::{SwitchPort, Trouble, TroubleKind, switch_ports};

use super::run_state::RunState;
use super::sessions::Halt;

impl RunState<'_> {
    /// Names the switch ports once the data ports are chosen. Refuses to resume a run whose cables were moved: its sheet has one switch port for each
    /// host.
    pub(super) fn name_places(&mut self) -> Result<(), Halt> {
        let seen = switch_ports(&self.hosts);
        // The sheet has the switch ports of several rails.
        let seen = seen.iter().map(|rails| match rails[..] {
            [at] => at,
            _ => None,
        });
        let seen: Vec<Option<&SwitchPort>> = seen.collect();
        let differ = not_as_written(&self.plan.nodes, &seen);
        for (node, at) in self.plan.nodes.iter_mut().zip(seen) {
            if let Some(at) = at {
                node.see(Some(&at.switch), Some(&at.port));
            }
        }
        if let Some(notice) = differ {
            self.sessions.log.notice(notice);
        }
        let resumed = self.conditions.resumed.as_ref();
        let moved = resumed.and_then(|then| moved(&self.plan.nodes, &then.nodes));
        moved.map_or(Ok(()), |(node, what)| {
            Err(Trouble::of_node(TroubleKind::Usage, node, what).into())
        })
    }
}

/// Sentence on nodes that hear another switch port than the written one. A site can have its own names, so that only names of switches count that some
/// host hears.
fn not_as_written(nodes: &[NodeSpec], seen: &[Option<&SwitchPort>]) -> Option<String> {
    let is_heard = |switch: &String| seen.iter().flatten().any(|at| at.switch == *switch);
    let differ = nodes.iter().zip(seen).filter_map(|(node, at)| {
        let (at, switch, port) = ((*at)?, node.switch.as_ref()?, node.switch_port.as_ref()?);
        let is_same = (&at.switch, &at.port) == (switch, port);
        (!is_same && is_heard(switch)).then_some((node, at))
    });
    let differ: Vec<(&NodeSpec, &SwitchPort)> = differ.collect();
    let (node, at) = differ.first()?;
    let labels = differ.iter().map(|(node, _)| node.label.clone());
    Some(format!(
        "{}: not at the written switch port: for {}, {} is written, and LLDP names {} {} (correct the host file or the plan, or move the cable)",
        shorten(&fold(&labels.collect::<Vec<_>>())),
        node.label,
        node.place()?,
        at.switch,
        at.port
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Symptom: a plan of `init` named the switch ports of last month, the sheet blamed one of them, and LLDP knew better.
    #[test]
    fn a_written_port_that_lldp_contradicts_is_told() {
        let node = |label: &str, switch: &str, port: &str| NodeSpec {
            label: label.to_owned(),
            switch: Some(switch.to_owned()),
            switch_port: Some(port.to_owned()),
            ..NodeSpec::default()
        };
        let at = |port: &str| SwitchPort {
            switch: "leaf1".to_owned(),
            port: port.to_owned(),
        };
        let ports = [at("p1"), at("p2"), at("p3")];
        let told = |nodes: &[NodeSpec]| {
            let seen: Vec<Option<&SwitchPort>> = ports.iter().map(Some).collect();
            not_as_written(nodes, &seen)
        };
        let right = node("n1", "leaf1", "p1");
        // These are names of the site itself.
        let own = node("n2", "rack 7", "2");
        assert_eq!(told(&[right.clone(), own.clone()]), None);
        let moved = [right, node("n2", "leaf1", "p9"), node("n3", "leaf1", "p8")];
        let said = told(&moved).unwrap();
        let begins = "n[2-3]: not at the written switch port: for n2, leaf1 p9 is written, and LLDP names leaf1 p2 ";
        assert!(said.starts_with(begins), "{said}");
        assert_eq!(not_as_written(&moved, &[None, None, None]), None);
    }
}
