//! A phase: forks its receivers and senders, watches them, and does its part as source or sink.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::time::Duration;

use nix::sys::signal::Signal;

use crate::buffer::board::EndState;
use crate::buffer::handshake::Doorbell;
use crate::plan::lanes::{self, Lane};
use crate::plan::{Bound, LinkKind, Relay, Workers};
use crate::record::{EndRole, TroubleKind};
use crate::sys::process::{self, Ending};
use crate::sys::signals::{self, Woken};
use crate::sys::{clock, memory};

use super::doorbell::{LOOK_UP, LOOK_UP_NS};
use super::resources::NodeResources;
use super::{receiver, relay, sender, shared, sink, source};

/// One phase process while it runs.
pub(crate) struct Phase<'resources> {
    resources: &'resources NodeResources,
    number: usize,
    parent: i32,
    children: Vec<Child>,
    /// True once its children know that they can connect.
    book_told: bool,
    /// True once its senders know that data may flow.
    go_told: bool,
    /// True once its parent knows that everything arrived.
    done_told: bool,
    /// True if the blocks that it drains itself have reached the sink.
    emptied: bool,
    failed: bool,
    /// True once it was asked to end, or is an orphan.
    ending: bool,
    watch: Watch,
}

/// Watches that the parent still runs: the parent can be stopped, and then no process would end this node.
struct Watch {
    beats: u64,
    looks: u64,
    looked_ns: u64,
}

struct Child {
    pid: i32,
    name: String,
}

/// Role of a child of a phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Sender,
    Receiver,
    /// Receiver and sender of a slot in one process.
    Relay,
}

impl Role {
    /// Descriptors that the child for `lane` keeps. A relay starts with the incoming lane.
    fn descriptors(self, resources: &NodeResources, lane: &Lane) -> Vec<RawFd> {
        let mut keep = resources.common_descriptors();
        let own = resources.assignment.kind_of(lane) == LinkKind::Pair;
        let pair = |boundary: usize| &resources.pairs[boundary][lane.stream];
        if self == Self::Sender {
            if own {
                keep.push(pair(lane.boundary).0.as_raw_fd());
            }
            return keep;
        }
        if own {
            keep.push(pair(lane.boundary).1.as_raw_fd());
        } else {
            keep.extend(resources.listener(lane).map(AsRawFd::as_raw_fd));
        }
        if self == Self::Relay && own {
            keep.push(pair(lane.boundary + 1).0.as_raw_fd());
        }
        keep
    }
}

/// Runs phase `number` in a separate process; returns its exit code.
pub(crate) fn run(resources: &NodeResources, number: usize, parent: i32) -> u8 {
    process::lead_group();
    process::set_name(&format!("pb-phase-{number}"));
    let mut phase = Phase {
        resources,
        number,
        parent,
        children: Vec::new(),
        book_told: false,
        go_told: false,
        done_told: false,
        emptied: true,
        failed: false,
        ending: false,
        watch: Watch {
            beats: 0,
            looks: 0,
            looked_ns: clock::monotonic_ns(),
        },
    };
    if !phase.make_children() {
        return 1;
    }
    phase.do_part();
    phase.watch()
}

/// Descriptors that phase `number` and its children need.
pub(crate) fn descriptors(resources: &NodeResources, number: usize) -> Vec<RawFd> {
    let mut keep = resources.common_descriptors();
    let of_children = of_children(resources, number);
    keep.extend(of_children.iter().map(AsRawFd::as_raw_fd));
    keep
}

/// Listeners and links of the children of phase `number`.
fn of_children(resources: &NodeResources, number: usize) -> Vec<BorrowedFd<'_>> {
    let mut all = Vec::new();
    if let Some(before) = number.checked_sub(1) {
        all.extend(resources.listeners[before].iter().map(AsFd::as_fd));
        let pairs = resources.pairs[before].iter();
        all.extend(pairs.map(|(_, receiver)| receiver.as_fd()));
    }
    if let Some(pairs) = resources.pairs.get(number) {
        all.extend(pairs.iter().map(|(sender, _)| sender.as_fd()));
    }
    all
}

impl Phase<'_> {
    fn is_last(&self) -> bool {
        self.number + 1 == self.resources.assignment.test.phases
    }

    fn make_children(&mut self) -> bool {
        let resources = self.resources;
        let assignment = &resources.assignment;
        let incoming = match self.number.checked_sub(1) {
            Some(before) => resources.lanes(EndRole::Receiver, before),
            None => Vec::new(),
        };
        let outgoing = if self.is_last() {
            Vec::new()
        } else {
            resources.lanes(EndRole::Sender, self.number)
        };
        let passes = !incoming.is_empty()
            && !outgoing.is_empty()
            && assignment.test.relay() != Relay::Halves;
        let roles = if passes {
            vec![(Role::Relay, incoming)]
        } else {
            vec![(Role::Receiver, incoming), (Role::Sender, outgoing)]
        };
        let made = roles.into_iter().all(|(role, lanes)| {
            // Each lane has a separate child, or all share one.
            let share = match assignment.test.workers {
                Workers::Peer | Workers::Slot => 1,
                Workers::Shared => lanes.len().max(1),
            };
            lanes
                .chunks(share)
                .all(|lanes| self.make_child(role, lanes))
        });
        self.close_what_children_hold();
        made
    }

    /// Closes this process's copies of links and listeners. A copy of a link's socket here would prevent end-of-file.
    /// A copy of a listener that no process accepts from would leave strangers neither closed nor counted.
    fn close_what_children_hold(&self) {
        for one in of_children(self.resources, self.number) {
            process::close_own_copy(one);
        }
    }

    /// Reports a failure of this phase itself.
    fn report(&self, kind: TroubleKind, what: &str) {
        let who = format!("phase {}", self.number);
        self.resources.report(kind, &who, what);
    }

    fn make_child(&mut self, role: Role, lanes: &[Lane]) -> bool {
        let resources = self.resources;
        let lane = lanes[0];
        let shared = resources.assignment.test.workers == Workers::Shared;
        let keep: Vec<RawFd> = lanes
            .iter()
            .flat_map(|lane| role.descriptors(resources, lane))
            .collect();
        let phase = process::own_pid();
        let born = process::fork_child(&keep, Signal::SIGKILL, || match (role, shared) {
            (Role::Sender, false) => sender::run(resources, lane, phase),
            (Role::Receiver, false) => receiver::run(resources, lane, phase),
            (Role::Relay, false) => relay::run(resources, lane, phase),
            (Role::Sender, true) => shared::run_senders(resources, lane.boundary, phase),
            (Role::Receiver, true) => shared::run_receivers(resources, lane.boundary, phase),
            (Role::Relay, true) => shared::run_relays(resources, lane.boundary, phase),
        });
        match born {
            Ok(pid) => {
                // The link that a receiver accepts determines the lane it serves.
                let name = match role {
                    Role::Sender if shared => format!("phase {} senders", self.number),
                    Role::Receiver if shared => format!("phase {} receivers", self.number),
                    Role::Relay if shared => format!("phase {} relays", self.number),
                    Role::Sender => resources.end_name(EndRole::Sender, &lane),
                    Role::Receiver => format!("phase {} receiver", self.number),
                    Role::Relay => format!("phase {} relay", self.number),
                };
                self.children.push(Child { pid, name });
                true
            }
            Err(error) => {
                let made = self.children.len();
                let what = format!("{error} (after {made} children)");
                self.report(TroubleKind::Resource, &what);
                false
            }
        }
    }

    /// Fills slots as source or drains them as sink, where senders and receivers do not do that themselves.
    fn do_part(&mut self) {
        let resources = self.resources;
        let test = &resources.assignment.test;
        let done = if resources.slots(self.number) == 0 {
            Ok(()) // A resting phase has no slots, and would look for one for ever.
        } else if self.number == 0 && !test.senders_are_sources() {
            source::fill_in_lockstep(resources, self)
        } else if self.is_last() && !test.receivers_are_sinks() {
            self.emptied = false;
            let done = sink::drain(resources, self);
            self.emptied = done.is_ok();
            done
        } else {
            Ok(())
        };
        if let Err((kind, what)) = done {
            self.failed = true;
            self.report(kind, &what);
        }
    }

    /// Waits for the children to end. The exit code is 0 if all of them ended normally.
    fn watch(&mut self) -> u8 {
        loop {
            if self.ending || !self.look(LOOK_UP) {
                return 1;
            }
            if self.children.is_empty() && !self.rests() {
                self.tell_done();
                self.resources.board.note_phase_cpu(self.number);
                return u8::from(self.failed);
            }
        }
    }

    /// True if this phase has no links in this test and the test still runs. It is measured all the same, as a port
    /// without load.
    fn rests(&self) -> bool {
        let (assignment, board) = (&self.resources.assignment, &self.resources.board);
        let (nodes, node) = (assignment.run.nodes(), assignment.run.node);
        let degree = lanes::degree(&assignment.test, nodes, node);
        let links = match (self.number, self.is_last()) {
            (0, _) => degree.sends,
            (_, true) => degree.receives,
            _ => degree.ends(),
        };
        let over = match assignment.test.bound {
            Bound::Time { .. } => board.is_stopping(),
            Bound::Volume { .. } | Bound::Files => board.has_started(),
        };
        links == 0 && !over
    }

    /// Sleeps until something happens and handles it. False if this phase must end at once.
    fn look(&mut self, limit: Duration) -> bool {
        self.pass_on();
        match signals::wait_parent(limit) {
            Woken::Child | Woken::Timeout => self.reap(),
            Woken::Doorbell => {}
            Woken::End(signal) => {
                if process::parent_is(self.parent) {
                    let what = format!("ended by signal {signal}");
                    self.report(TroubleKind::Ended, &what);
                }
                return self.end();
            }
        }
        if !process::parent_is(self.parent) {
            return self.end();
        }
        if self.parent_stands_still() {
            // A stopped parent cannot be asked to end. Its death ends everything of the node. It may still be this
            // phase's parent for a moment, so that `end` would leave the name to it.
            process::kill_parent(self.parent);
            memory::remove_name(&self.resources.board_name);
            return self.end();
        }
        self.pass_on();
        true
    }

    /// True if the parent has sent no heartbeat for too long. Counts looks, not time: a machine that was suspended
    /// for a while has not looked either.
    fn parent_stands_still(&mut self) -> bool {
        let (beats, now) = (self.resources.board.beats(), clock::monotonic_ns());
        let watch = &mut self.watch;
        if beats != watch.beats {
            (watch.beats, watch.looks) = (beats, 0);
        } else if now - watch.looked_ns >= LOOK_UP_NS {
            watch.looks += 1;
            watch.looked_ns = now;
        }
        watch.looks * LOOK_UP_NS
            > self.resources.assignment.run.deadlines.silence_ms * 3 / 2 * 1_000_000
    }

    /// Rings the children when the node status process has news for them, and rings the node status process once
    /// everything has arrived.
    fn pass_on(&mut self) {
        let board = &self.resources.board;
        if !self.book_told && board.book_is_there() {
            self.book_told = true;
            self.ring_children();
        }
        if !self.go_told && board.has_started() {
            self.go_told = true;
            self.ring_children();
        }
        if self.is_last() && !self.done_told && !self.rests() && self.all_received() {
            self.tell_done();
        }
    }

    fn ring_children(&self) {
        for child in &self.children {
            signals::ring(child.pid);
        }
    }

    fn all_received(&self) -> bool {
        let boundary = self.number - 1;
        (0..self.resources.slots(self.number)).all(|slot| {
            self.resources
                .board
                .end(EndRole::Receiver, boundary, slot)
                .state()
                >= EndState::Finished
        })
    }

    fn tell_done(&mut self) {
        let all = self.emptied && !self.failed;
        if self.is_last() && !self.done_told && all && self.all_received() {
            self.done_told = true;
            self.resources.board.set_done();
            signals::ring(self.parent);
        }
    }

    fn reap(&mut self) {
        while let Some((pid, ending)) = process::reap_one() {
            let Some(index) = self.children.iter().position(|child| child.pid == pid) else {
                continue;
            };
            let known = self.children[index].name.clone();
            let name = self.link_of(pid).unwrap_or(known);
            if !matches!(ending, Ending::Stopped(_)) {
                self.children.swap_remove(index);
            }
            self.failed |= ending != Ending::Code(0);
            let (kind, what) = match ending {
                Ending::Code(70) => (TroubleKind::Bug, "ended by a defect of pipebench".into()),
                Ending::Code(_) => continue, // The child has reported the reason, if there is one.
                Ending::Signal(signal) => {
                    (TroubleKind::Killed, format!("killed by signal {signal}"))
                }
                Ending::Stopped(signal) => {
                    (TroubleKind::Killed, format!("stopped by signal {signal}"))
                }
            };
            self.resources.report(kind, &name, &what);
        }
    }

    /// Name of the link end that a child has claimed, or of its relay.
    fn link_of(&self, pid: i32) -> Option<String> {
        if self.resources.assignment.test.workers == Workers::Shared {
            return None;
        }
        let pid = u64::from(pid.unsigned_abs());
        let mut ends = self.resources.board.ends();
        let (role, boundary, slot, _) = ends.find(|(_, _, _, end)| end.pid() == pid)?;
        let test = &self.resources.assignment.test;
        let passes = test.relay() != Relay::Halves && boundary + 2 < test.phases;
        match role {
            EndRole::Receiver if passes => relay::name_at(self.resources, boundary, slot),
            _ => self.resources.end_name_at(role, boundary, slot),
        }
    }

    /// Ends this phase, on request or as an orphan. The children follow because they die with their parent. An orphan
    /// removes the name of the status segment, since its owner can no longer do so.
    fn end(&mut self) -> bool {
        self.ending = true;
        if !process::parent_is(self.parent) {
            memory::remove_name(&self.resources.board_name);
        }
        false
    }
}

/// A phase that fills or drains slots itself keeps watching its children while it sleeps.
impl Doorbell for Phase<'_> {
    fn sleep(&mut self) -> bool {
        self.look(LOOK_UP) && !self.failed
    }
}
