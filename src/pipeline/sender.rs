//! The sender process: makes a link, and drains one slot into it, block after block ([`super::send_flow`]).

use std::os::fd::AsFd;
use std::time::Duration;

use crate::buffer::board::EndState;
use crate::buffer::double::OwnBlocks;
use crate::link::{Connector, Endpoint, Link, unix_name};
use crate::plan::lanes::Lane;
use crate::plan::{self, LinkKind};
use crate::record::{EndRole, TroubleKind};
use crate::sys::process;
use crate::wire::hello::{LinkHello, secret_bytes};

use super::doorbell::{ChildBell, begin};
use super::flow::{Failure, drive, failure, lacking, phase_gone};
use super::resources::NodeResources;
use super::send_flow::{Feed, SendFlow};
use super::source::{self, Source};

/// Runs the sender of `lane` in a separate process; returns its exit code.
pub(super) fn run(resources: &NodeResources, lane: Lane, parent: i32) -> u8 {
    begin(&format!("pb-send-{}.{}", lane.boundary, lane.from_slot));
    resources.take_place(&lane, lane.from_slot);
    let end = resources.end(EndRole::Sender, &lane);
    let mut bell = ChildBell::new(resources, parent, lane.to);
    let done = serve(resources, lane, &mut bell);
    bell.exit_code(done, &[end], || resources.end_name(EndRole::Sender, &lane))
}

fn serve<'resources>(
    resources: &'resources NodeResources,
    lane: Lane,
    bell: &mut ChildBell<'resources>,
) -> Result<(), Failure> {
    let blocks = resources.own_blocks(lane.boundary, 1)?.pop().flatten();
    let link = prepare(resources, lane, blocks.as_ref(), bell)?;
    drive(&mut start(resources, lane, link, blocks, bell)?, bell)
}

/// Makes the flow of a sender whose link is established. A sender that is its own source first waits for the start.
pub(super) fn start<'resources>(
    resources: &'resources NodeResources,
    lane: Lane,
    link: Link,
    blocks: Option<OwnBlocks>,
    bell: &mut ChildBell<'resources>,
) -> Result<SendFlow<'resources>, Failure> {
    let feed = match blocks {
        None => Feed::Slot,
        Some(blocks) => {
            if !source::await_start(resources, bell) {
                return Err(phase_gone());
            }
            Feed::Own(Source::open(resources)?, blocks)
        }
    };
    SendFlow::new(resources, lane, link, feed)
}

/// Does everything before the start: claims the end, brings its blocks into memory and establishes its link. `blocks`
/// are the private blocks of a sender that is its own source.
pub(super) fn prepare<'resources>(
    resources: &'resources NodeResources,
    lane: Lane,
    blocks: Option<&OwnBlocks>,
    bell: &mut ChildBell<'resources>,
) -> Result<Link, Failure> {
    let assignment = &resources.assignment;
    let end = resources.end(EndRole::Sender, &lane);
    end.claim();
    end.set_state(EndState::Born);
    resources.buffers[lane.boundary].populate(lane.from_slot);
    if let (Some(blocks), plan::Source::Memory) = (blocks, &assignment.test.source) {
        let all = (0..blocks.count() as u64).map(|t| blocks.block(t));
        source::make_payload(all, lane.from_slot, assignment.seed, assignment.run.node);
    } else if lane.boundary == 0 && assignment.test.source == plan::Source::Memory {
        let buffer = &resources.buffers[0];
        let all = (0..2).map(|t| buffer.block(lane.from_slot, t));
        source::make_payload(all, lane.from_slot, assignment.seed, assignment.run.node);
    }
    let link = make_link(resources, lane, bell)?;
    end.set_state(EndState::Ready);
    Ok(link)
}

fn make_link<'resources>(
    resources: &'resources NodeResources,
    lane: Lane,
    bell: &mut ChildBell<'resources>,
) -> Result<Link, Failure> {
    let assignment = &resources.assignment;
    let deadlines = &assignment.run.deadlines;
    let silence = Duration::from_millis(deadlines.silence_ms * 3 / 2);
    let kind = assignment.kind_of(&lane);
    if kind == LinkKind::Pair {
        let socket = &resources.pairs[lane.boundary][lane.stream].0;
        let socket = process::take_over(socket.as_fd()).map_err(lacking)?;
        return Link::new(socket, false, silence).map_err(failure);
    }
    if !bell.sleep_until(deadlines.prepare_ms * 2, || resources.board.book_is_there()) {
        return Err((
            TroubleKind::Deadline,
            "received no addresses of the receivers".to_owned(),
        ));
    }
    let hello = LinkHello {
        secret: secret_bytes(&assignment.run.secret),
        boundary: narrow(lane.boundary),
        from: narrow(lane.from),
        to: narrow(lane.to),
        stream: narrow(lane.stream),
        probe_bytes: 0,
    };
    let rail = assignment.test.rail_of(lane.stream);
    let mut options = resources.options(kind);
    options.rate_bits_per_s = assignment.test.rate_of(&lane);
    let connector = Connector {
        to: match resources.board.address(lane.boundary, lane.to, rail) {
            Some(address) => Endpoint::Tcp(address),
            None => Endpoint::Unix(unix_name(&assignment.run.names, lane.to, lane.boundary)),
        },
        from: assignment.rails[rail].address,
        here: assignment.run.peers.shares_host(lane.to),
        options,
        limit: Duration::from_millis(deadlines.connect_ms),
    };
    connector.connect(&hello, silence).map_err(failure)
}

fn narrow(value: usize) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}
