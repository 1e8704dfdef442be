//! What a node needs must be there before anything starts, summed over the nodes of its host.

use crate::pipeline::plant;
use crate::plan::{Assignment, Transport, size};
use crate::record::{Trouble, TroubleKind};
use crate::sys::limits::{Room, Rooms};
use crate::units::show_bytes;

/// Refuses what does not fit, with what is needed, what there is, and what to change.
pub fn check(assignment: &Assignment, rooms: &Rooms) -> Result<(), Trouble> {
    needs(assignment)
        .into_iter()
        .try_for_each(|need| need.check(assignment, rooms))
}

/// One thing that is needed.
struct Need {
    what: Thing,
    amount: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Thing {
    Ports,
    Descriptors,
    Processes,
    Files,
    Memory,
    Shared,
}

fn needs(assignment: &Assignment) -> Vec<Need> {
    let (test, nodes) = (&assignment.test, assignment.nodes());
    let on_host = assignment.nodes_on_host;
    let need = |what, amount: usize| Need {
        what,
        amount: amount as u64,
    };
    // The NSPs are there already when limits are read.
    let born = size::processes_per_node(test, nodes) - 1;
    let listens =
        test.transport == Transport::Tcp || (nodes > 1 && test.transport != Transport::Unix);
    // Rails have addresses of their own, so the same ports serve each of them.
    let ports = if listens { test.phases - 1 } else { 0 };
    let memory = size::buffer_bytes_per_node(test, nodes) + born * size::PROCESS_BYTES;
    let segment = plant::segment_bytes(assignment).next_multiple_of(4096);
    vec![
        need(Thing::Ports, ports * on_host),
        need(Thing::Descriptors, size::descriptors_at_once(test)),
        need(Thing::Processes, born * on_host),
        need(Thing::Files, size::files_per_node(test, nodes) * on_host),
        need(Thing::Memory, memory * on_host),
        need(Thing::Shared, segment * on_host),
    ]
}

impl Need {
    fn check(&self, assignment: &Assignment, rooms: &Rooms) -> Result<(), Trouble> {
        let tightest = self
            .rooms(assignment, rooms)
            .into_iter()
            .min_by_key(|room| room.left);
        match tightest.filter(|room| room.left < self.amount) {
            Some(room) => Err(Trouble::own(
                TroubleKind::Resource,
                self.refusal(assignment, &room),
            )),
            None => Ok(()),
        }
    }

    fn rooms(&self, assignment: &Assignment, rooms: &Rooms) -> Vec<Room> {
        match self.what {
            Thing::Ports => {
                let range = assignment.test.ports.map(|(first, last)| Room {
                    limit: format!("--port-range {first}-{last}"),
                    left: u64::from(last - first) + 1,
                });
                range.into_iter().collect()
            }
            Thing::Descriptors => rooms.descriptors.clone(),
            Thing::Processes => rooms.processes.clone(),
            Thing::Files => rooms.files.clone(),
            Thing::Memory => rooms.memory.clone(),
            Thing::Shared => rooms.shared.clone(),
        }
    }

    fn refusal(&self, assignment: &Assignment, room: &Room) -> String {
        let (what, cure) = match self.what {
            Thing::Ports => ("ports", "widen it"),
            Thing::Descriptors => ("descriptors in one process", "raise it, or fewer --streams"),
            Thing::Processes => ("processes", "raise it, or fewer --phases or --streams"),
            Thing::Files => ("open files", "raise it, or fewer --phases or --streams"),
            Thing::Memory => ("memory", "smaller --block-size, or fewer --streams"),
            Thing::Shared => ("shared memory", "a larger /dev/shm, or fewer --streams"),
        };
        let needed = match self.what {
            Thing::Memory | Thing::Shared => {
                format!("{} of {what} are needed", show_bytes(self.amount))
            }
            _ => format!("{} {what} are needed", self.amount),
        };
        let left = match self.what {
            Thing::Memory | Thing::Shared => show_bytes(room.left),
            _ => room.left.to_string(),
        };
        let nodes = match assignment.nodes_on_host {
            1 => "1 node".to_owned(),
            several => format!("{several} nodes"),
        };
        let limit = &room.limit;
        format!("{needed} on this host for {nodes}, {limit} leaves {left} ({cure})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::lanes::tests::test_of;
    use crate::plan::{DataPort, Deadlines};

    fn assignment() -> Assignment {
        let mut test = test_of(3, 1);
        test.ports = Some((5201, 5203));
        Assignment {
            token: "00".repeat(16),
            by: String::new(),
            started_ms: 0,
            keep_going: false,
            samples: false,
            node: 0,
            labels: ["a", "b", "c"].map(str::to_owned).to_vec(),
            same_host: vec![true, true, false],
            rails: vec![DataPort {
                address: std::net::Ipv4Addr::LOCALHOST.into(),
                interface: None,
            }],
            test,
            deadlines: Deadlines::default(),
            seed: 1,
            nodes_on_host: 2,
        }
    }

    fn room(limit: &str, left: u64) -> Vec<Room> {
        let limit = limit.to_owned();
        vec![Room { limit, left }]
    }

    #[test]
    fn each_lack_is_said_with_both_numbers_and_a_cure() {
        let mut assignment = assignment();
        let mut rooms = Rooms::default();
        let told = |assignment: &Assignment, rooms: &Rooms| check(assignment, rooms).unwrap_err();
        assert_eq!(
            told(&assignment, &rooms).what,
            "4 ports are needed on this host for 2 nodes, --port-range 5201-5203 leaves 3 (widen it)"
        );
        assignment.test.ports = Some((5201, 5204));
        assert!(check(&assignment, &rooms).is_ok());
        rooms.shared = room("/dev/shm", 4096);
        assert_eq!(
            told(&assignment, &rooms).what,
            "16 KiB of shared memory are needed on this host for 2 nodes, /dev/shm leaves 4 KiB (a larger \
             /dev/shm, or fewer --streams)"
        );
        rooms.memory = room("free memory", 20 << 20);
        assert_eq!(
            told(&assignment, &rooms).what,
            "21.1 MiB of memory are needed on this host for 2 nodes, free memory leaves 20 MiB (smaller \
             --block-size, or fewer --streams)"
        );
        rooms.files = room("fs.file-max (9)", 5);
        assert_eq!(
            told(&assignment, &rooms).what,
            "172 open files are needed on this host for 2 nodes, fs.file-max (9) leaves 5 (raise it, or fewer \
             --phases or --streams)"
        );
        // The tightest of several limits is named.
        rooms.processes = [room("kernel.pid_max (90)", 40), room("ulimit -u (30)", 29)].concat();
        assert_eq!(
            told(&assignment, &rooms).what,
            "30 processes are needed on this host for 2 nodes, ulimit -u (30) leaves 29 (raise it, or fewer \
             --phases or --streams)"
        );
        rooms.descriptors = room("ulimit -n (20)", 20);
        let trouble = told(&assignment, &rooms);
        assert_eq!(
            trouble.what,
            "22 descriptors in one process are needed on this host for 2 nodes, ulimit -n (20) leaves 20 (raise \
             it, or fewer --streams)"
        );
        assert_eq!(trouble.kind, TroubleKind::Resource);
    }

    #[test]
    fn a_node_that_listens_nowhere_needs_no_port() {
        let mut assignment = assignment();
        assignment.test.transport = Transport::Unix;
        assignment.test.ports = Some((1, 1));
        assert!(check(&assignment, &Rooms::default()).is_ok());
    }
}
