//! Checks before the start that a host has the resources that its nodes need, summed over these nodes.

use crate::pipeline::resources;
use crate::plan::job::{Job, RankAssignment};
use crate::plan::{Assignment, LinkKind, size};
use crate::ranks::SharedMemory;
use crate::record::{Trouble, TroubleKind};
use crate::sys::limits::{Room, Rooms};
use crate::units::show_bytes;

/// Refuses a test that does not fit. The failure says what is needed, what is left, and what to change.
pub(super) fn check(assignment: &Assignment, rooms: &Rooms) -> Result<(), Trouble> {
    let asked = Asked {
        nodes_on_host: assignment.run.nodes_on_host(),
        ports: assignment.test.ports,
        cures: cure_of_test,
    };
    asked.check(&needs(assignment), rooms)
}

/// Refuses a job of ranks that does not fit, in the same way.
pub(super) fn check_ranks(assignment: &RankAssignment, rooms: &Rooms) -> Result<(), Trouble> {
    let asked = Asked {
        nodes_on_host: assignment.run.nodes_on_host(),
        ports: assignment.job.ranks().ports,
        cures: match assignment.job {
            Job::Imb(_) => cure_of_patterns,
            Job::Linktest(_) => cure_of_job,
        },
    };
    asked.check(&needs_of_ranks(assignment), rooms)
}

/// The request that is checked: nodes on the host, allowed ports, and the remedy for each shortage.
struct Asked {
    nodes_on_host: usize,
    ports: Option<(u16, u16)>,
    cures: fn(Thing) -> &'static str,
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

/// The amount of each resource that a test needs.
fn needs(assignment: &Assignment) -> Vec<(Thing, usize)> {
    let (test, nodes) = (&assignment.test, assignment.run.nodes());
    let on_host = assignment.run.nodes_on_host();
    // The node status processes (NSPs) exist already when limits are read.
    let born = size::processes_per_node(test, nodes) - 1;
    // Each rail has its own address, so all rails can use the same ports.
    let ports = if test.transport.needs_ports(nodes) {
        test.phases - 1
    } else {
        0
    };
    let memory = size::buffer_bytes_per_node(test, nodes) + born * size::PROCESS_BYTES;
    let segment = resources::segment_bytes(assignment).next_multiple_of(4096);
    vec![
        (Thing::Ports, ports * on_host),
        (Thing::Descriptors, size::descriptors_at_once(test)),
        (Thing::Processes, born * on_host),
        (Thing::Files, size::files_per_node(test, nodes) * on_host),
        (Thing::Memory, memory * on_host),
        (Thing::Shared, segment * on_host),
    ]
}

/// Needs of all ranks of this host together. Each rank can have a link to every other rank.
fn needs_of_ranks(assignment: &RankAssignment) -> Vec<(Thing, usize)> {
    let (all, job) = (assignment.ranks(), &assignment.job);
    let on_host = assignment.run.nodes_on_host();
    let born = job.ranks().per_node * on_host;
    let (transport, per_node) = (job.ranks().transport, job.ranks().per_node);
    let ports = if transport.needs_ports(assignment.run.nodes()) {
        born
    } else {
        0
    };
    // Each rank may have to ring the doorbell of each other rank.
    let (bells, rings) = match transport.link(true) {
        LinkKind::Memory => (per_node, SharedMemory::rings_bytes(per_node)),
        _ => (0, 0),
    };
    let descriptors = all + bells + RANK_DESCRIPTORS;
    let per_rank = job.memory_per_rank(all).saturating_add(size::PROCESS_BYTES);
    let of_ranks = per_rank.saturating_mul(born);
    let memory = of_ranks.saturating_add(rings.saturating_mul(on_host));
    vec![
        (Thing::Ports, ports),
        (Thing::Descriptors, descriptors),
        (Thing::Processes, born),
        (Thing::Files, born.saturating_mul(descriptors)),
        (Thing::Memory, memory),
    ]
}

/// Descriptors of a rank in addition to its links: the standard ones, listeners, the channel to its node, and a connecting peer.
const RANK_DESCRIPTORS: usize = 8;

fn cure_of_test(what: Thing) -> &'static str {
    match what {
        Thing::Ports => "widen it",
        Thing::Descriptors => "raise it, or use fewer --streams",
        Thing::Processes | Thing::Files => "raise it, or use fewer --phases or --streams",
        Thing::Memory => "use a smaller --block-size or fewer --streams",
        Thing::Shared => "enlarge /dev/shm, or use fewer --streams",
    }
}

fn cure_of_job(what: Thing) -> &'static str {
    match what {
        Thing::Ports => "widen it",
        Thing::Descriptors | Thing::Processes | Thing::Files | Thing::Shared => {
            "raise it, or use fewer --ranks-per-node"
        }
        Thing::Memory => {
            "use smaller --size-messages, or fewer --num-multi-buffer or --ranks-per-node"
        }
    }
}

fn cure_of_patterns(what: Thing) -> &'static str {
    match what {
        Thing::Memory => "use a smaller -mem or -msglog, or fewer --ranks-per-node",
        other => cure_of_job(other),
    }
}

impl Asked {
    /// Refuses the first need for which there is no room.
    fn check(&self, needs: &[(Thing, usize)], rooms: &Rooms) -> Result<(), Trouble> {
        for (thing, amount) in needs {
            let needed = *amount as u64;
            let rooms = self.rooms(*thing, rooms).into_iter();
            let tightest = rooms.min_by_key(|room| room.left);
            if let Some(room) = tightest.filter(|room| room.left < needed) {
                let what = self.refusal(*thing, needed, &room);
                return Err(Trouble::own(TroubleKind::Resource, what));
            }
        }
        Ok(())
    }

    fn rooms(&self, thing: Thing, rooms: &Rooms) -> Vec<Room> {
        match thing {
            Thing::Ports => {
                let range = self.ports.map(|(first, last)| Room {
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

    fn refusal(&self, thing: Thing, needed: u64, room: &Room) -> String {
        let what = match thing {
            Thing::Ports => "ports",
            Thing::Descriptors => "descriptors in one process",
            Thing::Processes => "processes",
            Thing::Files => "open files",
            Thing::Memory => "of memory",
            Thing::Shared => "of shared memory",
        };
        let cure = (self.cures)(thing);
        let shown = |amount: u64| match thing {
            Thing::Memory | Thing::Shared => show_bytes(amount),
            _ => amount.to_string(),
        };
        let (needed, left) = (shown(needed), shown(room.left));
        let nodes = match self.nodes_on_host {
            1 => "1 node needs".to_owned(),
            several => format!("{several} nodes need"),
        };
        let limit = &room.limit;
        format!("{nodes} {needed} {what} on this host, {limit} leaves {left} ({cure})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::lanes::tests::test_of;
    use crate::plan::tests::membership;
    use crate::plan::{DataPort, Membership, Peers};

    fn assignment() -> Assignment {
        let mut test = test_of(3, 1);
        test.verify = crate::plan::Verify::Full;
        test.ports = Some((5201, 5203));
        Assignment {
            run: Membership {
                node: 0,
                peers: Peers {
                    nodes: 3,
                    on_host: 2,
                    labels: (0..).zip(["a", "b", "c"].map(str::to_owned)).collect(),
                    same_host: vec![0, 1],
                },
                ..membership()
            },
            keep_going: false,
            samples: false,
            neighbours: Vec::new(),
            rails: vec![DataPort {
                address: std::net::Ipv4Addr::LOCALHOST.into(),
                interface: None,
            }],
            test,
            seed: 1,
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
            "2 nodes need 4 ports on this host, --port-range 5201-5203 leaves 3 (widen it)"
        );
        assignment.test.ports = Some((5201, 5204));
        assert!(check(&assignment, &rooms).is_ok());
        rooms.shared = room("/dev/shm", 4096);
        assert_eq!(
            told(&assignment, &rooms).what,
            "2 nodes need 16 KiB of shared memory on this host, /dev/shm leaves 4 KiB (enlarge \
             /dev/shm, or use fewer --streams)"
        );
        rooms.memory = room("free memory", 20 << 20);
        assert_eq!(
            told(&assignment, &rooms).what,
            "2 nodes need 21.1 MiB of memory on this host, free memory leaves 20 MiB (use a smaller \
             --block-size or fewer --streams)"
        );
        rooms.files = room("fs.file-max (9)", 5);
        assert_eq!(
            told(&assignment, &rooms).what,
            "2 nodes need 172 open files on this host, fs.file-max (9) leaves 5 (raise it, or use fewer \
             --phases or --streams)"
        );
        // The failure names the tightest of several limits.
        rooms.processes = [room("kernel.pid_max (90)", 40), room("ulimit -u (30)", 29)].concat();
        assert_eq!(
            told(&assignment, &rooms).what,
            "2 nodes need 30 processes on this host, ulimit -u (30) leaves 29 (raise it, or use fewer \
             --phases or --streams)"
        );
        rooms.descriptors = room("ulimit -n (20)", 20);
        let trouble = told(&assignment, &rooms);
        assert_eq!(
            trouble.what,
            "2 nodes need 22 descriptors in one process on this host, ulimit -n (20) leaves 20 (raise \
             it, or use fewer --streams)"
        );
        assert_eq!(trouble.kind, TroubleKind::Resource);
    }

    #[test]
    fn a_node_that_listens_nowhere_needs_no_port() {
        let mut assignment = assignment();
        assignment.test.transport = crate::plan::Transport::Unix;
        assignment.test.ports = Some((1, 1));
        assert!(check(&assignment, &Rooms::default()).is_ok());
    }
}
