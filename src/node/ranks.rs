//! A job of ranks on a node: makes listeners and one process per rank, and passes messages between them and the launching side.

use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::Arc;

use nix::sys::signal::Signal;

use crate::jobs::imb::files::folder;
use crate::link::{Endpoint, Ports};
use crate::plan::job::{Job, RankAssignment};
use crate::plan::{LinkKind, SocketOptions};
use crate::ranks::SharedMemory;
use crate::record::{Trouble, TroubleKind};
use crate::sys::limits::Rooms;
use crate::sys::process::{self, Ending};
use crate::sys::{affinity, clock, socket, why};
use crate::wire::frame::{self, Decoder};
use crate::wire::message::{FromNode, FromRank, RankWord, ToNode, ToRank};

use super::host_limits;
use super::rank::{self, Post};
use super::task::{Task, Troubles, reap_all, trouble_of};

/// A job of ranks on this node.
pub(super) struct RankJob {
    assignment: RankAssignment,
    ranks: Vec<RankProcess>,
    /// TCP addresses of the ranks made so far, lowest rank first; `None` for a rank without a TCP listener.
    addresses: Vec<Option<SocketAddr>>,
    troubles: Troubles,
    /// Deadline for the ranks to be ready.
    due_ns: u64,
    over: bool,
    messages: Vec<FromNode>,
}

struct RankProcess {
    number: usize,
    pid: i32,
    ended: bool,
    ready: bool,
    channel: OwnedFd,
    decoder: Decoder,
    /// Bytes that the rank has not accepted yet.
    untaken: Vec<u8>,
}

/// Interval at which the node offers a rank its pending bytes again.
const OFFER_NS: u64 = 5_000_000;

impl RankJob {
    /// Makes listeners and ranks, and the message that says where they listen. Fails if the host has no room for them.
    pub(super) fn prepare(assignment: RankAssignment, rooms: &Rooms) -> Result<Self, Trouble> {
        assignment
            .check()
            .map_err(|error| Trouble::own(TroubleKind::Usage, error.to_string()))?;
        host_limits::check_ranks(&assignment, rooms)?;
        let own = assignment
            .job
            .ranks()
            .of_node(assignment.run.node, assignment.run.nodes());
        let due_ns = clock::monotonic_ns() + assignment.run.deadlines.prepare_ms * 1_000_000;
        let mut job = Self {
            assignment,
            ranks: Vec::new(),
            addresses: Vec::new(),
            troubles: Troubles::default(),
            due_ns,
            over: false,
            messages: Vec::new(),
        };
        let shared = match job.assignment.link_to(*own.first().unwrap_or(&0)) {
            LinkKind::Memory if own.len() > 1 => {
                let made = SharedMemory::new(own.len(), arena_bytes(&job.assignment));
                Some(Arc::new(made.map_err(|error| {
                    let what = format!("cannot make memory for its ranks: {}", why(&error));
                    Trouble::own(TroubleKind::Resource, what)
                })?))
            }
            _ => None,
        };
        let processors = affinity::processors(job.assignment.port.interface.as_deref());
        for (place, number) in own.into_iter().enumerate() {
            if let Err(trouble) = job.make_rank((place, number), shared.as_ref(), &processors) {
                Box::new(job).clear();
                return Err(trouble);
            }
        }
        let addresses = std::mem::take(&mut job.addresses);
        job.messages.push(FromNode::RanksListen(addresses));
        Ok(job)
    }

    fn make_rank(
        &mut self,
        (place, number): (usize, usize),
        shared: Option<&Arc<SharedMemory>>,
        processors: &[usize],
    ) -> Result<(), Trouble> {
        let assignment = &self.assignment;
        let lacking = |what: String| Trouble::own(TroubleKind::Resource, what);
        let (listeners, address) = listen(assignment, number)?;
        let (channel, far) = socket::pair(&SocketOptions::default())
            .map_err(|error| lacking(format!("cannot make a socket pair: {}", why(&error))))?;
        let ranks = assignment.job.ranks();
        // The nodes of one host take processors one after the other.
        let before = assignment.run.place_on_host * ranks.per_node;
        let on_host = ranks.per_node * assignment.run.nodes_on_host();
        let mut keep: Vec<RawFd> = listeners.iter().map(AsRawFd::as_raw_fd).collect();
        keep.push(far.as_raw_fd());
        keep.extend(shared.iter().flat_map(|shared| shared.descriptors()));
        let post = Post {
            assignment,
            number,
            listeners: &listeners,
            shared,
            channel: &far,
            processors,
            pinned: (ranks.pinned && on_host <= processors.len())
                .then(|| processors[before + place]),
            on_host,
        };
        // No process outlives its node, and a rank has nothing to clean up, so SIGKILL will do.
        let born = process::fork_child(&keep, Signal::SIGKILL, || rank::run(&post));
        let pid = born.map_err(|error| Trouble {
            who: format!("rank {number}"),
            ..lacking(error.to_string())
        })?;
        socket::set_nonblocking(&channel, true)
            .map_err(|error| lacking(format!("cannot set up a socket: {}", why(&error))))?;
        self.ranks.push(RankProcess {
            number,
            pid,
            ended: false,
            ready: false,
            channel,
            decoder: Decoder::default(),
            untaken: Vec::new(),
        });
        self.addresses.push(address);
        Ok(())
    }

    fn tell_all(&mut self, word: &ToRank) {
        let Ok(text) = serde_json::to_vec(word) else {
            return;
        };
        let bytes = frame::encode(&text);
        for rank in &mut self.ranks {
            rank.untaken.extend_from_slice(&bytes);
            rank.offer();
        }
    }

    fn add_trouble(&mut self, trouble: Trouble) {
        if !self.over {
            self.troubles.add(trouble);
        }
    }

    fn kill(&self) {
        for rank in self.ranks.iter().filter(|rank| !rank.ended) {
            process::kill(rank.pid);
        }
    }
}

/// Bytes of shared memory for the buffers of a rank that others can copy from: its messages, the temporary data of collectives, and the
/// gaps between buffers.
fn arena_bytes(assignment: &RankAssignment) -> usize {
    const BESIDE: usize = 16 << 20;
    let messages = assignment.job.bytes_per_rank(assignment.ranks());
    messages.saturating_mul(2).saturating_add(BESIDE)
}

/// Makes the listeners that a rank's links need, for TCP and for Unix sockets. Returns them and the TCP address.
fn listen(
    assignment: &RankAssignment,
    number: usize,
) -> Result<(Vec<OwnedFd>, Option<SocketAddr>), Trouble> {
    let ranks = assignment.job.ranks();
    let ports = Ports {
        range: ranks.ports,
        needed: ranks.per_node * assignment.run.nodes_on_host(),
    };
    let others = (0..assignment.ranks()).filter(|other| *other != number);
    let kinds: Vec<LinkKind> = others.map(|other| assignment.link_to(other)).collect();
    let mut listeners = Vec::new();
    let mut own = None;
    for (at, options) in [
        (Endpoint::at(assignment.port.address), &ranks.sockets),
        (
            Endpoint::Unix(rank::unix_name(&assignment.run.names, number)),
            &SocketOptions::default(),
        ),
    ] {
        if kinds.contains(&at.kind()) {
            let (listener, address) = at
                .listen(ports, options)
                .map_err(|error| Trouble::own(TroubleKind::Resource, error.to_string()))?;
            listeners.push(listener);
            own = own.or(address);
        }
    }
    Ok((listeners, own))
}

impl RankProcess {
    /// Sends as many pending bytes as the rank accepts now.
    fn offer(&mut self) {
        while !self.untaken.is_empty() {
            match socket::send_bytes(self.channel.as_fd(), &self.untaken) {
                Ok(sent) => {
                    self.untaken.drain(..sent);
                }
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return,
                // The rank is gone, which its exit reports.
                Err(_) => self.untaken.clear(),
            }
        }
    }

    /// Reads the messages that the rank has sent.
    fn hear(&mut self) -> Vec<FromRank> {
        let mut bytes = [0; 65536];
        while let Ok(got) = socket::receive_bytes(self.channel.as_fd(), &mut bytes) {
            if got == 0 {
                break;
            }
            self.decoder.push(&bytes[..got]);
        }
        let mut said = Vec::new();
        let broken = |why: String| {
            let what = format!("sent an invalid message: {why}");
            FromRank::Trouble(Trouble {
                who: format!("rank {}", self.number),
                ..Trouble::own(TroubleKind::Bug, what)
            })
        };
        loop {
            match self.decoder.next_message() {
                Ok(Some(message)) => {
                    let word = serde_json::from_slice(&message);
                    said.push(word.unwrap_or_else(|error| broken(error.to_string())));
                }
                Ok(None) => return said,
                Err(error) => {
                    said.push(broken(error.to_string()));
                    return said;
                }
            }
        }
    }
}

impl Task for RankJob {
    fn descriptors(&self) -> Vec<BorrowedFd<'_>> {
        self.ranks.iter().map(|rank| rank.channel.as_fd()).collect()
    }

    fn obey(&mut self, message: ToNode) {
        match message {
            ToNode::RankBook(book) => {
                let deadlines = &self.assignment.run.deadlines;
                self.due_ns = clock::monotonic_ns() + deadlines.prepare_ms * 1_000_000;
                self.tell_all(&ToRank::Book(book));
            }
            ToNode::Round(round) => self.tell_all(&ToRank::Round(round)),
            _ => {} // Meant for the node or for a test.
        }
    }

    fn take_messages(&mut self) -> Vec<FromNode> {
        std::mem::take(&mut self.messages)
    }

    fn next_due_ns(&self, now_ns: u64) -> Option<u64> {
        if self.over {
            return None;
        }
        let untaken = self.ranks.iter().any(|rank| !rank.untaken.is_empty());
        let offer = untaken.then_some(now_ns + OFFER_NS);
        let due = [offer, self.troubles.due_ns(), Some(self.due_ns)];
        due.into_iter().flatten().min()
    }

    fn do_what_is_due(&mut self) {
        if self.over {
            return;
        }
        self.ranks.iter_mut().for_each(RankProcess::offer);
        if self.troubles.are_due() {
            self.give_up();
        } else if clock::monotonic_ns() >= self.due_ns {
            self.due_ns = u64::MAX;
            let late = self.ranks.iter().filter(|rank| !rank.ready);
            let late: Vec<String> = late.map(|rank| format!("rank {}", rank.number)).collect();
            if !late.is_empty() {
                let what = format!("ranks were not ready in time: {}", late.join(", "));
                self.add_trouble(Trouble::own(TroubleKind::Deadline, what));
            }
        }
    }

    fn look(&mut self) {}

    fn hear(&mut self) {
        for place in 0..self.ranks.len() {
            let number = self.ranks[place].number;
            for said in self.ranks[place].hear() {
                match said {
                    FromRank::Word(RankWord::Ready) => {
                        self.ranks[place].ready = true;
                        if self.ranks.iter().all(|rank| rank.ready) {
                            self.due_ns = u64::MAX;
                            self.messages.push(FromNode::Ready);
                        }
                    }
                    FromRank::Word(word) => {
                        self.messages.push(FromNode::Rank { rank: number, word })
                    }
                    FromRank::Trouble(trouble) => self.add_trouble(trouble),
                }
            }
        }
    }

    fn reap(&mut self) {
        while let Some((pid, ending)) = process::reap_one() {
            let Some(place) = self.ranks.iter().position(|rank| rank.pid == pid) else {
                continue;
            };
            self.ranks[place].ended = !matches!(ending, Ending::Stopped(_));
            match trouble_of(format!("rank {}", self.ranks[place].number), ending) {
                Some(trouble) => self.add_trouble(trouble),
                None => self.hear(), // The rank has reported why, or its channel was closed.
            }
        }
    }

    fn silence_ms(&self) -> u64 {
        self.assignment.run.deadlines.silence_ms
    }

    fn give_up(&mut self) {
        if self.over {
            return;
        }
        self.hear();
        self.messages.extend(self.troubles.take_message());
        self.messages.push(FromNode::Finished(Box::default()));
        self.over = true;
        self.kill();
    }

    fn clear(self: Box<Self>) {
        self.kill();
        reap_all();
        if let Job::Imb(imb) = &self.assignment.job
            && imb.has_files()
        {
            let folder = folder::folder(&imb.path, &self.assignment.run.token);
            // If all hosts share the folder, another node may have removed it first. If no folder was made, none exists.
            match std::fs::remove_dir_all(folder) {
                Ok(()) | Err(_) => {}
            }
        }
    }
}
