//! Processors that this process may use, their distance from an interface, and pinning to one of them.

use std::fs;

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

use crate::units::parse_list;

/// A processor and its place in the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Processor {
    number: usize,
    /// NUMA node; zero where the kernel reports none.
    numa: usize,
    /// 0 for the first thread of a core, 1 for the second.
    thread: usize,
}

/// Processors this process may use, best first: processors of the NUMA node of `interface` come before those of other nodes.
/// Within a node, the first threads of all cores come before the second threads.
pub(crate) fn processors(interface: Option<&str>) -> Vec<usize> {
    let allowed = allowed();
    let numa = numa_nodes();
    let place = |number: usize| Processor {
        number,
        numa: numa
            .iter()
            .position(|list| list.contains(&number))
            .unwrap_or(0),
        thread: siblings(number)
            .iter()
            .position(|sibling| *sibling == number)
            .unwrap_or(0),
    };
    let all = allowed.into_iter().map(place).collect();
    ordered(all, interface.and_then(numa_of))
}

/// Processors this process may use, in ascending order.
pub(crate) fn allowed() -> Vec<usize> {
    let Ok(set) = sched_getaffinity(Pid::from_raw(0)) else {
        return Vec::new();
    };
    let numbers = 0..CpuSet::count();
    numbers
        .filter(|number| set.is_set(*number).unwrap_or(false))
        .collect()
}

/// Pins the calling thread to one processor. If the kernel refuses, the scheduler still chooses the processor.
pub(crate) fn stay_on(processor: usize) {
    let mut set = CpuSet::new();
    if set.set(processor).is_ok() {
        restrict_to(&set);
    }
}

/// Allows the calling thread to run on every processor.
pub(crate) fn roam() {
    let mut set = CpuSet::new();
    for number in 0..CpuSet::count() {
        match set.set(number) {
            Ok(()) | Err(_) => {}
        }
    }
    restrict_to(&set);
}

/// Keeps the calling thread among these processors. If the kernel refuses, the scheduler still chooses among all.
pub(crate) fn stay_among(processors: &[usize]) {
    let mut set = CpuSet::new();
    let added = processors.iter().filter(|one| set.set(**one).is_ok());
    if added.count() > 0 {
        restrict_to(&set);
    }
}

fn restrict_to(set: &CpuSet) {
    match sched_setaffinity(Pid::from_raw(0), set) {
        Ok(()) | Err(_) => {}
    }
}

/// Number of the processor that the calling thread runs on; 0 if unknown.
pub(crate) fn current() -> usize {
    // SAFETY: sched_getcpu has no preconditions.
    usize::try_from(unsafe { nix::libc::sched_getcpu() }).unwrap_or(0)
}

fn ordered(mut all: Vec<Processor>, near: Option<usize>) -> Vec<usize> {
    all.sort_by_key(|one| (Some(one.numa) != near, one.numa, one.thread, one.number));
    all.into_iter().map(|one| one.number).collect()
}

/// Processors of each NUMA node.
fn numa_nodes() -> Vec<Vec<usize>> {
    const MOST: usize = 1024;
    (0..MOST)
        .map_while(|node| read_list(&format!("/sys/devices/system/node/node{node}/cpulist")))
        .collect()
}

fn siblings(number: usize) -> Vec<usize> {
    let path = format!("/sys/devices/system/cpu/cpu{number}/topology/thread_siblings_list");
    read_list(&path).unwrap_or_default()
}

/// NUMA node of an interface. `None` for a virtual interface and on a machine with one node.
fn numa_of(interface: &str) -> Option<usize> {
    if interface.contains('/') {
        return None;
    }
    let path = format!("/sys/class/net/{interface}/device/numa_node");
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

pub(super) fn read_list(path: &str) -> Option<Vec<usize>> {
    parse_list(fs::read_to_string(path).ok()?.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_processors_and_first_threads_come_first() {
        let one = |number, numa, thread| Processor {
            number,
            numa,
            thread,
        };
        let all = vec![
            one(0, 0, 0),
            one(1, 1, 0),
            one(2, 0, 1),
            one(3, 1, 1),
            one(4, 1, 0),
        ];
        assert_eq!(ordered(all.clone(), Some(1)), [1, 4, 3, 0, 2]);
        assert_eq!(ordered(all, None), [0, 2, 1, 4, 3]);
    }

    #[test]
    fn a_process_stays_where_it_is_put() {
        let all = processors(Some("lo"));
        let mut sorted = all.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, allowed());
        let last = *all.last().unwrap();
        std::thread::spawn(move || {
            stay_on(last);
            assert_eq!(allowed(), [last]);
        })
        .join()
        .unwrap();
    }
}
