//! Room for the sessions to many hosts on the launching machine: descriptors and threads.

use launcher::Descriptors;
use launcher::hosts::Host;

use crate::sys::limits::{Room, Rooms};

/// Makes room for the sessions to these hosts. Returns a sentence if a limit had to be raised; the error names a limit that is too low.
pub(crate) fn make_room(hosts: &[Host], by_command: bool) -> Result<Option<String>, String> {
    /// So few hosts need no look at the limits: one that is too low for them is named when a session starts.
    const FEW: usize = 32;
    let found = launcher::allow_descriptors(hosts.len());
    let Some(descriptors) = found.filter(|_| hosts.len() > FEW) else {
        return Ok(None);
    };
    let own = hosts.iter().filter(|host| by_command || host.local).count();
    let threads = Threads {
        needed: (hosts.len() + own) as u64 + Threads::OTHERS,
        rooms: Rooms::read().processes,
    };
    room_for(hosts.len(), descriptors, &threads)
}

/// Threads and processes that the sessions need, and what limits leave. A session has a thread, and a process if a command carries it.
struct Threads {
    needed: u64,
    rooms: Vec<Room>,
}

impl Threads {
    /// Threads that do not belong to a session.
    const OTHERS: u64 = 4;
}

fn room_for(
    hosts: usize,
    descriptors: Descriptors,
    threads: &Threads,
) -> Result<Option<String>, String> {
    let Descriptors { needed, limit, now } = descriptors;
    let need = format!(
        "{hosts} hosts need {needed} descriptors and {} threads and processes",
        threads.needed
    );
    if now < needed {
        let most = descriptors.most_hosts();
        let what = "the limit of descriptors cannot be raised above";
        return Err(format!("{need}, {what} {now}: at most {most} hosts"));
    }
    let least = threads.rooms.iter().min_by_key(|room| room.left);
    if let Some(Room { limit, left }) = least.filter(|room| room.left < threads.needed) {
        let per_host = (threads.needed - Threads::OTHERS) / hosts as u64;
        let most = left.saturating_sub(Threads::OTHERS) / per_host.max(1);
        return Err(format!(
            "{need}, {limit} leaves {left}: at most {most} hosts"
        ));
    }
    let raised = format!("{need}, the limit of descriptors is {limit}: raised to {now}");
    Ok((now > limit).then_some(raised))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(limit: u64, now: u64, left: u64) -> Result<Option<String>, String> {
        let descriptors = Descriptors {
            needed: 4256,
            limit,
            now,
        };
        let room = |limit: &str, left| Room {
            limit: limit.to_owned(),
            left,
        };
        let threads = Threads {
            needed: 2004,
            rooms: vec![room("ulimit -u (9000)", 8000), room("pids.max (900)", left)],
        };
        room_for(1000, descriptors, &threads)
    }

    /// Symptom: with a limit of 1,024 descriptors, hosts failed one by one in the course of the start, and nothing said how many could be reached.
    #[test]
    fn a_limit_that_many_hosts_meet_is_said_before_the_start() {
        let need = "1000 hosts need 4256 descriptors and 2004 threads and processes, ";
        assert_eq!(said(8192, 8192, 5000), Ok(None));
        let raised = "the limit of descriptors is 1024: raised to 6256";
        assert_eq!(said(1024, 6256, 5000), Ok(Some(format!("{need}{raised}"))));
        let few = "the limit of descriptors cannot be raised above 4096: at most 960 hosts";
        assert_eq!(said(1024, 4096, 5000), Err(format!("{need}{few}")));
        let few = "pids.max (900) leaves 804: at most 400 hosts";
        assert_eq!(said(8192, 8192, 804), Err(format!("{need}{few}")));
    }
}
