//! The life of one test on a node: made, connected, ready, started, measured, drained, reported.

use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use nix::sys::signal::Signal;

use crate::buffer::board::EndState;
use crate::pipeline::{phase, resources, resources::NodeResources};
use crate::plan::{self, Assignment, DRAINS, Deadlines, Source, size};
use crate::record::{EndRole, HostFacts, NodeReport, Trouble, TroubleKind};
use crate::stats::series::Series;
use crate::sys::limits::Rooms;
use crate::sys::process::{self, Ending};
use crate::sys::{clock, counters, file, memory, signals, why};
use crate::wire::message::{AddressBook, FromNode, Go, ToNode};

use super::host_limits;
use super::reading;
use super::task::{Task, Troubles, reap_all, trouble_of};

/// One test on this node.
pub(super) struct Run {
    resources: NodeResources,
    troubles_from: OwnedFd,
    phases: Vec<PhaseProcess>,
    stage: Stage,
    go: Option<Go>,
    /// The report so far: what was read while the test ran.
    taken: NodeReport,
    /// Payload that each link into this node brought, second by second.
    series: Vec<LinkSeries>,
    /// Interfaces whose counters are reported with the payload.
    interfaces: Vec<String>,
    troubles: Troubles,
    unread: Vec<u8>,
    due_ns: u64,
    /// Number of times that draining was extended, and the bytes that had moved by then.
    drains: u32,
    drained_bytes: u64,
    progress_ns: u64,
    messages: Vec<FromNode>,
}

struct LinkSeries {
    boundary: usize,
    slot: usize,
    /// Payload up to the last second, in bytes.
    total: u64,
    series: Series<u64>,
}

struct PhaseProcess {
    number: usize,
    pid: i32,
    ended: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    /// Processes exist; addresses are not known yet.
    Made,
    /// Senders connect.
    Connecting,
    /// All links are connected.
    Ready,
    /// The start time is set.
    Scheduled,
    /// The test runs. Its window has not begun, or it has none.
    Running,
    /// The window is open.
    Measuring,
    /// The window has ended: sources have ended, blocks are still under way.
    Draining,
    /// Everything has arrived; processes end.
    Collecting,
    /// The report is queued.
    Over,
}

/// The node sleeps this last stretch before an instant and does not poll, since polling counts milliseconds.
const EXACT_NS: u64 = 2_000_000;

impl Run {
    /// Makes memory, listeners and processes, and the message with the hardware addresses of `neighbours` that says so. Fails if the host
    /// has no room for them.
    pub(super) fn prepare(
        assignment: Assignment,
        neighbours: Vec<(IpAddr, String)>,
        facts: &HostFacts,
        rooms: &Rooms,
    ) -> Result<Self, Trouble> {
        assignment
            .check()
            .map_err(|error| Trouble::own(TroubleKind::Usage, error.to_string()))?;
        host_limits::check(&assignment, rooms)?;
        let source_bytes = source_bytes(&assignment)?;
        let prepare_ms = assignment.run.deadlines.prepare_ms;
        let rails: Vec<Option<&str>> = assignment
            .rails
            .iter()
            .map(|rail| rail.interface.as_deref())
            .collect();
        let interfaces = facts.counted_interfaces(&rails);
        let reserved = assignment.test.huge && {
            let needed = size::reserved_bytes_per_node(&assignment.test, assignment.run.nodes());
            let needed = needed.saturating_mul(assignment.run.nodes_on_host()) as u64;
            needed <= facts.reserved_pages_bytes
        };
        let ports = facts.ports(&assignment.rails);
        let (resources, troubles_from) = resources::build(assignment, reserved, &ports)?;
        let mut run = Self {
            resources,
            troubles_from,
            phases: Vec::new(),
            stage: Stage::Made,
            go: None,
            taken: NodeReport::default(),
            series: Vec::new(),
            interfaces,
            troubles: Troubles::default(),
            unread: Vec::new(),
            due_ns: clock::monotonic_ns() + prepare_ms * 1_000_000,
            drains: 0,
            drained_bytes: 0,
            progress_ns: u64::MAX,
            messages: Vec::new(),
        };
        if let Err(trouble) = run.make_phases() {
            Box::new(run).clear();
            return Err(trouble);
        }
        run.close_what_children_hold();
        run.messages.push(FromNode::Prepared {
            listeners: run.resources.addresses.clone(),
            source_bytes,
            neighbours,
        });
        Ok(run)
    }

    fn make_phases(&mut self) -> Result<(), Trouble> {
        let parent = process::own_pid();
        for number in 0..self.resources.assignment.test.phases {
            let keep = phase::descriptors(&self.resources, number);
            let resources = &self.resources;
            // An orphaned phase has to clean up, so it gets SIGTERM and not SIGKILL.
            let born = process::fork_child(&keep, Signal::SIGTERM, || {
                phase::run(resources, number, parent)
            });
            let pid = born.map_err(|error| Trouble {
                who: format!("phase {number}"),
                ..Trouble::own(TroubleKind::Resource, error.to_string())
            })?;
            // The child does this too, and either can be first: a group must exist before it may have to be killed.
            process::make_group(pid);
            self.resources.board.beat();
            self.phases.push(PhaseProcess {
                number,
                pid,
                ended: false,
            });
        }
        Ok(())
    }

    /// Closes the descriptors that phases use: with a copy of a peer's socket here, end-of-file would never come.
    fn close_what_children_hold(&mut self) {
        self.resources.pairs.clear();
        self.resources.listeners.clear();
    }

    /// Publishes the addresses and lets senders connect.
    fn connect(&mut self, book: &AddressBook) {
        if self.stage != Stage::Made {
            return;
        }
        self.resources.publish(book);
        self.ring_phases();
        self.stage = Stage::Connecting;
        self.set_deadline(|deadlines| deadlines.connect_ms + deadlines.prepare_ms);
    }

    /// Lets the stage end within a time that the plan sets.
    fn set_deadline(&mut self, limit_ms: impl FnOnce(&Deadlines) -> u64) {
        let limit_ms = limit_ms(&self.resources.assignment.run.deadlines);
        self.due_ns = clock::monotonic_ns() + limit_ms * 1_000_000;
    }

    /// Sets the start time.
    fn schedule(&mut self, go: Go) {
        if self.stage != Stage::Ready {
            return;
        }
        self.go = Some(go);
        // The counters are read now and not at the start: otherwise a quicker node's first blocks would be missing.
        self.taken.interfaces[0] = counters::interface_counters(&self.interfaces);
        self.taken.backlog_drops[0] = counters::backlog_drops();
        self.stage = Stage::Scheduled;
        self.due_ns = go.at_ns;
    }

    /// Continues without a node: links to and from it end.
    fn lose(&mut self, node: usize) {
        if self.stage == Stage::Over {
            return;
        }
        self.resources.board.set_lost(node);
        self.ring_phases();
    }

    fn ring_phases(&self) {
        for phase in self.phases.iter().filter(|phase| !phase.ended) {
            signals::ring(phase.pid);
        }
    }

    fn note_second(&mut self) {
        let ends = self.resources.board.ends();
        let receivers = ends.filter(|(role, ..)| *role == EndRole::Receiver);
        let totals: Vec<_> = receivers
            .map(|(_, boundary, slot, end)| (boundary, slot, end.bytes()))
            .collect();
        if self.series.is_empty() {
            let empty = |(boundary, slot, _): &(usize, usize, u64)| LinkSeries {
                boundary: *boundary,
                slot: *slot,
                total: 0,
                series: Series::default(),
            };
            self.series = totals.iter().map(empty).collect();
        }
        for (link, (_, _, total)) in self.series.iter_mut().zip(totals) {
            link.series.push(total.saturating_sub(link.total));
            link.total = total;
        }
    }

    /// Reports the series of the requested links, each given by boundary and slot.
    fn tell_series(&mut self, of: &[(usize, usize)]) {
        let find = |(boundary, slot): &(usize, usize)| {
            let mut all = self.series.iter();
            all.find(|link| (link.boundary, link.slot) == (*boundary, *slot))
        };
        let bytes = of
            .iter()
            .map(|place| find(place).map_or_else(Vec::new, |link| link.series.points().to_vec()));
        let stretch_s = self.series.first().map_or(1, |link| link.series.stretch());
        let bytes = bytes.collect();
        self.messages.push(FromNode::Series { stretch_s, bytes });
    }

    /// Moves the end of the window to what the launching side computed from newer clock offsets.
    fn move_window(&mut self, end_ns: u64) {
        let Some((_, last)) = self.go.as_mut().and_then(|go| go.window_ns.as_mut()) else {
            return;
        };
        *last = end_ns;
        if self.stage == Stage::Measuring {
            self.due_ns = end_ns;
        }
    }

    fn data_flows(&self) -> bool {
        (Stage::Running..Stage::Collecting).contains(&self.stage)
    }

    fn has_window(&self) -> bool {
        self.go.is_some_and(|go| go.window_ns.is_some())
    }

    fn start(&mut self) {
        let Some(go) = self.go else { return };
        if let Some(blocks) = go.blocks {
            self.resources.board.set_blocks(blocks);
        }
        clock::sleep_until(go.at_ns);
        if !self.has_window() {
            self.take_reading();
        }
        self.taken.rung_ns = Some(clock::monotonic_ns());
        self.resources.board.go();
        if let Some(first) = self.phases.first() {
            signals::ring(first.pid);
        }
        self.stage = Stage::Running;
        self.progress_ns = go.at_ns.saturating_add(1_000_000_000);
        let volume_ns = self.resources.assignment.run.deadlines.volume_ms * 1_000_000;
        self.due_ns = go
            .window_ns
            .map_or(go.at_ns.saturating_add(volume_ns), |(first, _)| first);
    }

    fn begin_window(&mut self) {
        let Some((first, last)) = self.go.and_then(|go| go.window_ns) else {
            return;
        };
        clock::sleep_until(first);
        self.take_reading();
        self.resources.board.set_epoch(1);
        self.stage = Stage::Measuring;
        self.due_ns = last;
    }

    fn end_window(&mut self) {
        clock::sleep_until(self.due_ns);
        self.take_reading();
        self.resources.board.set_epoch(2);
        self.resources.board.stop();
        self.stage = Stage::Draining;
        self.set_deadline(|deadlines| deadlines.drain_ms);
    }

    fn take_reading(&mut self) {
        let phases: Vec<i32> = self.phases.iter().map(|phase| phase.pid).collect();
        self.taken
            .edges
            .push(reading::edge(&self.resources, &phases));
    }

    /// Extends draining as long as bytes move, up to a limit: blocks under way can take long on a slow port.
    fn drain_longer_or_fail(&mut self) {
        let moved: u64 = self
            .resources
            .board
            .ends()
            .map(|(_, _, _, end)| end.bytes())
            .sum();
        // Bytes that the kernel has taken are on their way to another node, and that node sees whether they move.
        let sent = self.resources.ends_before(EndState::Sent) == 0;
        if (moved > self.drained_bytes || sent) && self.drains < DRAINS {
            self.drained_bytes = moved;
            self.drains += 1;
            self.set_deadline(|deadlines| deadlines.drain_ms);
        } else {
            self.too_late("blocks in transit did not arrive");
        }
    }

    fn too_late(&mut self, what: &str) {
        const NAMED: usize = 3;
        // The state that the stage requires of link ends.
        let wanted = match self.stage {
            Stage::Connecting => EndState::Ready,
            _ => EndState::Finished,
        };
        let open = self.resources.board.ends();
        let open = open
            .filter(|(_, _, _, end)| end.state() < wanted)
            .take(NAMED);
        let open: Vec<String> = open
            .filter_map(|(role, boundary, slot, _)| {
                self.resources.end_name_at(role, boundary, slot)
            })
            .collect();
        let count = self.resources.ends_before(wanted);
        let late = if count > 0 {
            let more = match count.saturating_sub(open.len()) {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            format!("{}{more}", open.join(", "))
        } else {
            let late = self.phases.iter().filter(|phase| !phase.ended);
            late.map(|phase| format!("phase {}", phase.number))
                .collect::<Vec<_>>()
                .join(", ")
        };
        let what = format!("{what} in time: waiting for {late}");
        self.add_trouble(Trouble::own(TroubleKind::Deadline, what));
        self.due_ns = u64::MAX;
    }

    fn add_trouble(&mut self, trouble: Trouble) {
        if self.stage != Stage::Over {
            self.troubles.add(trouble);
        }
    }

    fn report_if_ended(&mut self) {
        let ended = self.phases.iter().all(|phase| phase.ended);
        if !ended || self.stage == Stage::Over {
            return;
        }
        if self.stage == Stage::Collecting && self.troubles.are_none() {
            self.finish();
        } else if self.troubles.are_none() {
            let what = "all phases ended before their work was done";
            self.add_trouble(Trouble::own(TroubleKind::Bug, what));
        }
    }

    fn finish(&mut self) {
        let mut taken = std::mem::take(&mut self.taken);
        taken.interfaces[1] = counters::interface_counters(&self.interfaces);
        taken.backlog_drops[1] = counters::backlog_drops();
        let report = reading::report(&self.resources, taken);
        self.messages.push(FromNode::Finished(Box::new(report)));
        // Nothing is left to watch. The name is removed now, so that it cannot remain if this process is killed later.
        memory::remove_name(&self.resources.board_name);
        self.stage = Stage::Over;
        self.progress_ns = u64::MAX;
    }

    fn kill(&self) {
        for phase in self.phases.iter().filter(|phase| !phase.ended) {
            process::kill_group(phase.pid);
        }
    }
}

impl Task for Run {
    fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        vec![self.troubles_from.as_fd()]
    }

    fn obey(&mut self, message: ToNode) {
        match message {
            ToNode::Connect(book) => self.connect(&book),
            ToNode::Go(go) => self.schedule(go),
            ToNode::Lost { node } => self.lose(node),
            ToNode::Window { end_ns } => self.move_window(end_ns),
            ToNode::Series(of) => self.tell_series(&of),
            _ => {} // Meant for the node or for a job of ranks.
        }
    }

    fn take_messages(&mut self) -> Vec<FromNode> {
        std::mem::take(&mut self.messages)
    }

    fn silence_ms(&self) -> u64 {
        self.resources.assignment.run.deadlines.silence_ms
    }

    fn next_due_ns(&self, now: u64) -> Option<u64> {
        if self.stage == Stage::Over {
            return None;
        }
        let trouble_ns = self.troubles.due_ns().unwrap_or(u64::MAX);
        let mut due = self.due_ns.min(self.progress_ns).min(trouble_ns);
        if self.stage == Stage::Connecting {
            due = due.min(now + 5_000_000); // Only the board shows readiness.
        }
        Some(due.saturating_sub(EXACT_NS))
    }

    fn do_what_is_due(&mut self) {
        self.resources.board.beat();
        if self.stage == Stage::Over {
            return;
        }
        if self.troubles.are_due() {
            return self.give_up();
        }
        self.look();
        if clock::monotonic_ns() >= self.progress_ns {
            self.progress_ns += 1_000_000_000;
            self.note_second();
            self.messages
                .push(FromNode::Progress(reading::progress(&self.resources)));
        }
        if clock::monotonic_ns() + EXACT_NS < self.due_ns {
            return;
        }
        match self.stage {
            Stage::Scheduled => self.start(),
            Stage::Running if self.has_window() => self.begin_window(),
            Stage::Measuring => self.end_window(),
            Stage::Made | Stage::Ready | Stage::Over => {}
            Stage::Connecting => self.too_late("links were not made"),
            Stage::Running => self.too_late("the volume was not moved"),
            Stage::Draining => self.drain_longer_or_fail(),
            Stage::Collecting => self.too_late("processes did not end"),
        }
    }

    fn look(&mut self) {
        let connects = self.stage == Stage::Connecting;
        if connects && self.resources.ends_before(EndState::Ready) == 0 {
            self.stage = Stage::Ready;
            self.due_ns = u64::MAX;
            self.messages.push(FromNode::Ready);
        }
        if !self.data_flows() {
            return;
        }
        if self.taken.done_ns.is_none() {
            // The board has the exact time; this process may have been woken later.
            self.taken.done_ns = self.resources.board.done_ns();
        }
        // Everything has arrived here, but this node's senders may still feed slower nodes.
        let all_ended = self.resources.ends_before(EndState::Finished) == 0;
        if self.taken.done_ns.is_some() && all_ended {
            if !self.has_window() {
                self.take_reading();
            }
            self.progress_ns = u64::MAX;
            self.stage = Stage::Collecting;
            self.set_deadline(|deadlines| deadlines.collect_ms);
            self.report_if_ended();
        }
    }

    fn hear(&mut self) {
        let mut bytes = [0; 4096];
        while let Ok(got) = nix::unistd::read(&self.troubles_from, &mut bytes) {
            if got == 0 {
                break;
            }
            self.unread.extend_from_slice(&bytes[..got]);
        }
        while let Some(end) = self.unread.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.unread.drain(..=end).collect();
            if let Ok(trouble) = serde_json::from_slice(&line) {
                self.add_trouble(trouble);
            }
        }
    }

    fn reap(&mut self) {
        while let Some((pid, ending)) = process::reap_one() {
            let Some(phase) = self.phases.iter_mut().find(|phase| phase.pid == pid) else {
                continue;
            };
            phase.ended = !matches!(ending, Ending::Stopped(_));
            match trouble_of(format!("phase {}", phase.number), ending) {
                Some(trouble) => self.add_trouble(trouble),
                None if ending == Ending::Code(1) => self.hear(), // The phase has reported why.
                None => {}
            }
        }
        // The signal that a phase ended can arrive before its last doorbell, so the board is read first.
        self.look();
        self.report_if_ended();
    }

    fn give_up(&mut self) {
        if self.stage == Stage::Over {
            return;
        }
        self.hear();
        if self.data_flows() {
            self.take_reading();
        }
        self.messages.extend(self.troubles.take_message());
        self.finish();
        self.kill();
    }

    fn clear(self: Box<Self>) {
        memory::remove_name(&self.resources.board_name);
        self.kill();
        reap_all();
    }
}

/// Returns the length of the test's source file in bytes, or `None` without one. The file must exist; its length decides how long the run is.
fn source_bytes(assignment: &Assignment) -> Result<Option<u64>, Trouble> {
    let Source::File(pattern) = &assignment.test.source else {
        return Ok(None);
    };
    let name = plan::file_name(pattern, assignment.run.label());
    let bytes = file::source_bytes(Path::new(&name)).map_err(|error| {
        let what = format!("cannot read source {name}: {}", why(&error));
        Trouble::own(TroubleKind::Resource, what)
    })?;
    Ok(Some(bytes))
}
