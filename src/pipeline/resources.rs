//! The resources that a node makes before its first fork and that every process below it inherits.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use crate::buffer::board::{Board, EndState, LinkEnd, Shape};
use crate::buffer::double::{DoubleBuffer, OwnBlocks};
use crate::buffer::names;
use crate::link::{self, Endpoint, Ports};
use crate::plan::SocketOptions;
use crate::plan::lanes::{self, Lane};
use crate::plan::placement::{self, PortFacts, PortPlace};
use crate::plan::{Assignment, Datapath, LinkKind, MOST_PIECES, Pin, Sink, Test};
use crate::record::{Card, EndRole, Trouble, TroubleKind};
use crate::sys::socket;
use crate::sys::{affinity, clock, why};
use crate::units::show_list;
use crate::wire::message::{AddressBook, Listener};

/// Memory, listeners and socket pairs of a node.
pub(crate) struct NodeResources {
    /// This node's part of the test's plan.
    pub assignment: Assignment,
    /// Status segment.
    pub board: Board,
    /// Name of the status segment.
    pub board_name: String,
    /// Double buffers, by phase.
    pub buffers: Vec<DoubleBuffer>,
    /// Listeners, by boundary and rail.
    pub listeners: Vec<Vec<OwnedFd>>,
    /// Addresses of the listeners, by boundary.
    pub addresses: Vec<Listener>,
    /// Both ends of same-node links, by boundary and stream: the sender's end, then the receiver's.
    pub pairs: Vec<Vec<(OwnedFd, OwnedFd)>>,
    /// The pipe into which every process below reports a failure.
    pub trouble_pipe: OwnedFd,
    /// Processors for senders and receivers, best ones first.
    processors: Vec<usize>,
    /// Processors near each data port, by rail, if the ends of its links belong there.
    near: Vec<Option<PortPlace>>,
}

/// Makes the resources and the reading end of its trouble pipe. If `reserved` is set, buffers use reserved large pages
/// where enough of them are free. `ports` are the data ports, by rail.
pub(crate) fn build(
    assignment: Assignment,
    reserved: bool,
    ports: &[PortFacts],
) -> Result<(NodeResources, OwnedFd), Trouble> {
    let test = assignment.test.clone();
    let nodes = assignment.run.nodes();
    let degree = lanes::degree(&test, nodes, assignment.run.node);
    let boundaries = test.phases - 1;
    let processors = processors(&assignment)?;
    // One node of a host is enough: each looks at the segments of all.
    if assignment.run.place_on_host == 0 {
        names::sweep();
    }
    let board_name = names::of_node(&assignment.run.token, assignment.run.node);
    let board = Board::create(&board_name, shape(&assignment), &card(&assignment));
    let board = board.map_err(|error| {
        lacking(format!(
            "cannot make the status segment {board_name}: {}",
            why(&error)
        ))
    })?;
    let buffers: Result<Vec<_>, _> = (0..test.phases)
        .map(|phase| {
            let blocks = test.shared_blocks(phase);
            let make = |reserved| {
                DoubleBuffer::new(
                    phase,
                    degree.slots(phase),
                    blocks,
                    test.block_bytes,
                    test.coupling,
                    reserved,
                )
            };
            // Another run may have taken the large pages first.
            if reserved {
                make(true).or_else(|_| make(false))
            } else {
                make(false)
            }
        })
        .collect();
    let buffers = buffers.map_err(|error| {
        let bytes = crate::plan::size::buffer_bytes_per_node(&test, nodes) as u64;
        let bytes = crate::units::show_bytes(bytes);
        lacking(format!("cannot make {bytes} of buffers: {}", why(&error)))
    })?;
    let mut listeners = Vec::new();
    let mut addresses = Vec::new();
    let mut pairs = Vec::new();
    for boundary in 0..boundaries {
        let (of_boundary, address) = listen(&assignment, boundary)?;
        listeners.push(of_boundary);
        addresses.push(address);
        pairs.push(make_pairs(&assignment, boundary)?);
    }
    let flags = nix::fcntl::OFlag::O_CLOEXEC | nix::fcntl::OFlag::O_NONBLOCK;
    let (read, write) = nix::unistd::pipe2(flags)
        .map_err(|error| lacking(format!("cannot make a pipe: {error}")))?;
    let resources = NodeResources {
        assignment,
        board,
        board_name,
        buffers,
        listeners,
        addresses,
        pairs,
        trouble_pipe: write,
        processors,
        near: placement::places_of_ports(ports),
    };
    Ok((resources, read))
}

/// The processors that the test names, or an error if this process may not use one of them. If the test names none:
/// all processors, those near the data interface first.
fn processors(assignment: &Assignment) -> Result<Vec<usize>, Trouble> {
    let Pin::List(named) = &assignment.test.pin else {
        let interface = assignment.rails[0].interface.as_deref();
        return Ok(affinity::processors(interface));
    };
    let allowed = affinity::allowed();
    match named.iter().find(|number| !allowed.contains(number)) {
        None => Ok(named.clone()),
        Some(number) => Err(lacking(format!(
            "--pin: this host has no processor {number}, it has {}",
            show_list(&allowed)
        ))),
    }
}

/// The text of the status segment, for outside processes.
fn card(assignment: &Assignment) -> String {
    let card = Card {
        token: assignment.run.token.clone(),
        by: assignment.run.by.clone(),
        started_ms: assignment.run.started_ms,
        node: assignment.run.node,
        peers: assignment.run.peers.clone(),
        test: assignment.test.clone(),
    };
    // Without it the run cannot be watched, but can still take place.
    serde_json::to_string(&card).unwrap_or_default()
}

/// Size in bytes of a node's status segment.
pub(crate) fn segment_bytes(assignment: &Assignment) -> usize {
    shape(assignment).bytes(&card(assignment))
}

fn shape(assignment: &Assignment) -> Shape {
    let (test, nodes) = (&assignment.test, assignment.run.nodes());
    let degree = lanes::degree(test, nodes, assignment.run.node);
    Shape {
        boundaries: test.phases - 1,
        nodes,
        rails: assignment.rails.len(),
        sends: degree.sends,
        receives: degree.receives,
    }
}

fn lacking(what: String) -> Trouble {
    Trouble::own(TroubleKind::Resource, what)
}

fn lanes_at(assignment: &Assignment, role: EndRole, boundary: usize) -> Vec<Lane> {
    let of = match role {
        EndRole::Sender => lanes::outgoing,
        EndRole::Receiver => lanes::incoming,
    };
    let (nodes, node) = (assignment.run.nodes(), assignment.run.node);
    of(&assignment.test, nodes, boundary, node)
}

/// Makes one listener per rail, or one under a Unix name. Makes none if no link needs one.
fn listen(assignment: &Assignment, boundary: usize) -> Result<(Vec<OwnedFd>, Listener), Trouble> {
    let (test, node) = (&assignment.test, assignment.run.node);
    let lanes = lanes_at(assignment, EndRole::Receiver, boundary);
    let kinds: Vec<LinkKind> = lanes.iter().map(|lane| assignment.kind_of(lane)).collect();
    let ports = Ports {
        range: test.ports,
        needed: (test.phases - 1) * assignment.run.nodes_on_host(),
    };
    let listen = |at: Endpoint| {
        let made = at.listen(ports, &options(test, at.kind()));
        made.map_err(|error| lacking(error.to_string()))
    };
    if kinds.contains(&LinkKind::Tcp) {
        let rails = assignment.rails.iter();
        let made = rails.map(|rail| listen(Endpoint::at(rail.address)));
        let made: Vec<_> = made.collect::<Result<_, _>>()?;
        let (listeners, addresses): (_, Vec<_>) = made.into_iter().unzip();
        let addresses = addresses.into_iter().flatten().collect();
        return Ok((listeners, Listener::Tcp(addresses)));
    }
    if kinds.contains(&LinkKind::Unix) {
        let name = link::unix_name(&assignment.run.names, node, boundary);
        let (listener, _) = listen(Endpoint::Unix(name.clone()))?;
        return Ok((vec![listener], Listener::Unix(name)));
    }
    Ok((Vec::new(), Listener::None))
}

/// Socket options of links of a kind, with a default size for the send buffer. Unix sockets have no autotuning and a small
/// default: 208 KiB carries half of what 1 MiB does. 256 KiB is best where both ends share a core, which is the rule when links
/// outnumber cores. Pages that are sent count whole, however little of them is used.
fn options(test: &Test, kind: LinkKind) -> SocketOptions {
    let mut options = test.sockets.clone();
    let usual = match test.datapath {
        Datapath::Copy => 256 << 10,
        Datapath::Zerocopy => 4 << 20,
    };
    if !kind.has_tcp_info() {
        options.send_buffer_bytes = options.send_buffer_bytes.or(Some(usual));
    }
    options
}

fn make_pairs(
    assignment: &Assignment,
    boundary: usize,
) -> Result<Vec<(OwnedFd, OwnedFd)>, Trouble> {
    let lanes = lanes_at(assignment, EndRole::Sender, boundary);
    let own = lanes
        .iter()
        .filter(|lane| assignment.kind_of(lane) == LinkKind::Pair);
    own.map(|_| socket::pair(&options(&assignment.test, LinkKind::Pair)))
        .collect::<io::Result<Vec<_>>>()
        .map_err(|error| lacking(format!("cannot make a socket pair: {}", why(&error))))
}

impl NodeResources {
    /// Number of slots of the buffers of a phase.
    pub(crate) fn slots(&self, phase: usize) -> usize {
        self.buffers[phase].slots()
    }

    /// Lanes out of this node or into it at a boundary, in slot order. At all boundaries they are alike.
    pub(crate) fn lanes(&self, role: EndRole, boundary: usize) -> Vec<Lane> {
        lanes_at(&self.assignment, role, boundary)
    }

    /// The words of this node's end of a lane.
    pub(crate) fn end(&self, role: EndRole, lane: &Lane) -> LinkEnd<'_> {
        let slot = match role {
            EndRole::Sender => lane.from_slot,
            EndRole::Receiver => lane.to_slot,
        };
        self.board.end(role, lane.boundary, slot)
    }

    /// Number of link ends of this node that have not reached `state`.
    pub(crate) fn ends_before(&self, state: EndState) -> usize {
        self.link_ends() - self.board.count_at_least(state)
    }

    /// Total number of link ends of this node.
    fn link_ends(&self) -> usize {
        let last = self.assignment.test.phases - 1;
        (self.slots(0) + self.slots(last)) * last
    }

    /// Publishes the addresses of the book to the senders.
    pub(crate) fn publish(&self, book: &AddressBook) {
        for (node, of_node) in &book.listeners {
            for (boundary, listener) in of_node.iter().enumerate() {
                let Listener::Tcp(addresses) = listener else {
                    continue;
                };
                for (rail, address) in addresses.iter().enumerate() {
                    self.board.publish_address(boundary, *node, rail, *address);
                }
            }
        }
        self.board.publish_book();
    }

    /// The listener to which the sender of a lane connects.
    pub(crate) fn listener(&self, lane: &Lane) -> Option<&OwnedFd> {
        let of_boundary = self.listeners.get(lane.boundary)?;
        let rail = self.assignment.test.rail_of(lane.stream);
        of_boundary.get(rail).or(of_boundary.first())
    }

    /// Socket options of a link of this kind.
    pub(crate) fn options(&self, kind: LinkKind) -> SocketOptions {
        options(&self.assignment.test, kind)
    }

    /// Keeps the calling process, which fills or drains `slot` over the link of `lane`, on the processor where its
    /// blocks are, or among those near its port. Leaves the choice to the scheduler if no placement applies.
    pub(crate) fn take_place(&self, lane: &Lane, slot: usize) {
        let processor = placement::processor_of(&self.assignment, lane, slot, &self.processors);
        if let Some(processor) = processor {
            affinity::stay_on(processor);
        } else if placement::is_near_ports(&self.assignment) {
            let rail = self.assignment.test.rail_of(lane.stream);
            if let Some(Some(place)) = self.near.get(rail) {
                affinity::stay_among(&place.processors);
            }
        }
    }

    /// Descriptors that a process needs in any role.
    pub(crate) fn common_descriptors(&self) -> Vec<RawFd> {
        vec![self.trouble_pipe.as_raw_fd()]
    }

    /// Private blocks for a process that both fills and drains `slots` slots of a phase, slot by slot. `None` for
    /// each slot if the phase has no private blocks, as where slots are shared.
    pub(crate) fn own_blocks(
        &self,
        phase: usize,
        slots: usize,
    ) -> Result<Vec<Option<OwnBlocks>>, (TroubleKind, String)> {
        let test = &self.assignment.test;
        let count = test.own_blocks(phase);
        if count == 0 {
            return Ok((0..slots).map(|_| None).collect());
        }
        let discards = phase + 1 == test.phases && test.sink == Sink::Discard;
        // Only the header of a discarded block is kept.
        let block_bytes = if discards { 0 } else { test.block_bytes };
        let large = test.sends_pages_of(phase);
        // A process may have 65,530 mappings.
        let repeats = test.repeats_payload(phase) && slots * MOST_PIECES <= 32_768;
        let blocks = match repeats {
            true => OwnBlocks::repeating(slots, block_bytes, test.piece_bytes()),
            false => OwnBlocks::several(slots, count, block_bytes, large),
        };
        let blocks = blocks.map_err(|error| {
            let bytes = crate::units::show_bytes((slots * count * block_bytes) as u64);
            let what = format!("cannot allocate {bytes} of memory: {}", why(&error));
            (TroubleKind::Resource, what)
        })?;
        Ok(blocks.into_iter().map(Some).collect())
    }

    /// Name of a lane in messages: `n1->n2`, with the rail and the stream if there are several.
    pub(crate) fn lane_name(&self, lane: &Lane) -> String {
        let peers = &self.assignment.run.peers;
        let test = &self.assignment.test;
        let rail = match &self.assignment.rail(lane).interface {
            Some(name) if test.rails > 1 => format!(" over {name}"),
            _ => String::new(),
        };
        let stream = if test.streams > test.rails {
            format!("{rail} stream {}", lane.stream)
        } else {
            rail
        };
        let (from, to) = (peers.label(lane.from), peers.label(lane.to));
        format!("{from}->{to}{stream}")
    }

    /// Name of a sender or receiver in messages.
    pub(crate) fn end_name(&self, role: EndRole, lane: &Lane) -> String {
        let name = self.lane_name(lane);
        match role {
            EndRole::Sender => format!("phase {} sender {name}", lane.boundary),
            EndRole::Receiver => format!("phase {} receiver {name}", lane.boundary + 1),
        }
    }

    /// Deadline for the launching side to report that `peer` is lost, on the monotonic clock in nanoseconds. `None`
    /// if a failure of this kind cannot follow from that loss.
    pub(crate) fn doubt_until(&self, kind: TroubleKind, peer: usize) -> Option<u64> {
        let assignment = &self.assignment;
        let may_follow = matches!(kind, TroubleKind::Peer | TroubleKind::Deadline);
        let doubtful = assignment.keep_going && may_follow && peer != assignment.run.node;
        doubtful
            .then(|| clock::monotonic_ns() + assignment.run.deadlines.silence_ms * 2 * 1_000_000)
    }

    /// Name of a relay in messages.
    pub(crate) fn relay_name(&self, lane: &Lane, onward: &Lane) -> String {
        let (name, peers) = (self.lane_name(lane), &self.assignment.run.peers);
        let to = peers.label(onward.to);
        format!("phase {} relay {name}->{to}", lane.boundary + 1)
    }

    /// Source node and slot of the blocks that a lane carries, as block headers hold them.
    pub(crate) fn origin_of(&self, lane: &Lane) -> (u32, u32) {
        let first = lanes::origin(&self.assignment.test, self.assignment.run.nodes(), lane);
        let narrow = |value: usize| u32::try_from(value).unwrap_or(u32::MAX);
        (narrow(first.from), narrow(first.from_slot))
    }

    /// Name of the sender or receiver at a place of the board; `None` if there is no such slot.
    pub(crate) fn end_name_at(
        &self,
        role: EndRole,
        boundary: usize,
        slot: usize,
    ) -> Option<String> {
        let lanes = self.lanes(role, boundary);
        lanes.get(slot).map(|lane| self.end_name(role, lane))
    }

    /// Reports a failure to the node status process.
    pub(crate) fn report(&self, kind: TroubleKind, who: &str, what: &str) {
        // One write of less than PIPE_BUF never mixes with that of another process.
        let what: String = what.chars().take(600).collect();
        let trouble = Trouble {
            who: who.to_owned(),
            ..Trouble::own(kind, what)
        };
        let Ok(mut line) = serde_json::to_vec(&trouble) else {
            return;
        };
        line.push(b'\n');
        match nix::unistd::write(&self.trouble_pipe, &line) {
            Ok(_) | Err(_) => {} // A full pipe already holds enough failures.
        }
    }
}
