//! Shared workers: one process for all links out of a phase, one for all links into it, or one for both where it is a
//! relay.
//!
//! All nodes make links rail by rail in the same order, so that processes never wait for each other in a circle. Then
//! an [`Engine`] drives all flows.

use crate::buffer::double::OwnBlocks;
use crate::plan::Relay;
use crate::plan::lanes::Lane;
use crate::record::{EndRole, TroubleKind};

use super::copy_relay::CopyRelay;
use super::doorbell::{ChildBell, begin};
use super::engine::{Engine, MemberFailure};
use super::flow::{Failure, Flow};
use super::receive_flow::ReceiveFlow;
use super::receiver::Stands;
use super::resources::NodeResources;
use super::send_flow::SendFlow;
use super::splice_relay::SpliceRelay;
use super::{receiver, relay, sender};

/// Runs the process that sends on all links of `boundary`; returns its exit code.
pub(super) fn run_senders(resources: &NodeResources, boundary: usize, parent: i32) -> u8 {
    begin(&format!("pb-send-{boundary}"));
    let lanes = outgoing(resources, boundary);
    let name = |lane: &Lane| resources.end_name(EndRole::Sender, lane);
    let made = make_send_flows(resources, &lanes, parent);
    tell(resources, &format!("phase {boundary} senders"), &name, made)
}

/// Runs the process that receives on all links of `boundary`; returns its exit code.
pub(super) fn run_receivers(resources: &NodeResources, boundary: usize, parent: i32) -> u8 {
    let phase = boundary + 1;
    begin(&format!("pb-recv-{phase}"));
    let name = |lane: &Lane| resources.end_name(EndRole::Receiver, lane);
    let made = make_receive_flows(resources, boundary, parent);
    tell(resources, &format!("phase {phase} receivers"), &name, made)
}

/// Runs the process that relays from all links of `boundary` to the next boundary; returns its exit code.
pub(super) fn run_relays(resources: &NodeResources, boundary: usize, parent: i32) -> u8 {
    let phase = boundary + 1;
    begin(&format!("pb-relay-{phase}"));
    let name = |lane: &Lane| resources.relay_name(lane, &relay::onward_of(resources, lane));
    let made = match resources.assignment.test.relay() {
        Relay::Pages => make_relays(resources, boundary, parent, |from, to, _| {
            SpliceRelay::new(resources, from, to)
        }),
        Relay::Blocks | Relay::Halves => {
            make_relays(resources, boundary, parent, |from, to, blocks| {
                CopyRelay::new(resources, from, to, blocks)
            })
        }
    };
    tell(resources, &format!("phase {phase} relays"), &name, made)
}

/// Lanes of an engine's members, which name the one that failed, and the result of its run.
type Ran = (Vec<Lane>, Result<(), MemberFailure>);

fn tell(
    resources: &NodeResources,
    all: &str,
    name: &dyn Fn(&Lane) -> String,
    ran: Result<Ran, receiver::LaneFailure>,
) -> u8 {
    let (lane, (kind, what)) = match ran {
        Ok((_, Ok(()))) => return 0,
        Ok((lanes, Err((place, failure)))) => {
            (place.and_then(|place| lanes.get(place).copied()), failure)
        }
        Err(failed) => failed,
    };
    let who = lane.map_or_else(|| all.to_owned(), |lane| name(&lane));
    resources.report(kind, &who, &what);
    1
}

/// Lanes out of a phase, rail by rail.
fn outgoing(resources: &NodeResources, boundary: usize) -> Vec<Lane> {
    let assignment = &resources.assignment;
    let mut lanes = resources.lanes(EndRole::Sender, boundary);
    // Every node begins with its next neighbour, so that not all connect to the same node at once.
    let nodes = assignment.run.nodes();
    lanes.sort_by_key(|lane| {
        let distance = (lane.to + nodes - assignment.run.node) % nodes;
        (assignment.test.rail_of(lane.stream), distance, lane.stream)
    });
    lanes
}

fn make_send_flows(
    resources: &NodeResources,
    lanes: &[Lane],
    parent: i32,
) -> Result<Ran, receiver::LaneFailure> {
    let boundary = lanes.first().map_or(0, |lane| lane.boundary);
    let blocks = resources
        .own_blocks(boundary, lanes.len())
        .map_err(|failure| (None, failure))?;
    let mut ready = Vec::new();
    for (lane, blocks) in lanes.iter().zip(blocks) {
        let mut bell = ChildBell::new(resources, parent, lane.to);
        let link = sender::prepare(resources, *lane, blocks.as_ref(), &mut bell)
            .map_err(|failure| (Some(*lane), failure))?;
        ready.push((*lane, link, blocks));
    }
    let mut flows: Vec<(SendFlow<'_>, usize)> = Vec::new();
    for (lane, link, blocks) in ready {
        let mut bell = ChildBell::new(resources, parent, resources.assignment.run.node);
        let flow = sender::start(resources, lane, link, blocks, &mut bell)
            .map_err(|failure| (Some(lane), failure))?;
        flows.push((flow, lane.to));
    }
    Ok(drive_all(resources, parent, lanes.to_vec(), flows))
}

fn make_receive_flows(
    resources: &NodeResources,
    boundary: usize,
    parent: i32,
) -> Result<Ran, receiver::LaneFailure> {
    let made = receiver::make_all_links(resources, boundary)?;
    let phase = boundary + 1;
    let blocks = resources
        .own_blocks(phase, made.len())
        .map_err(|failure| (None, failure))?;
    let (mut lanes, mut flows) = (Vec::new(), Vec::new());
    for ((link, lane), own) in made.into_iter().zip(blocks) {
        resources.buffers[phase].populate(lane.to_slot);
        let flow = ReceiveFlow::new(resources, lane, link, own)
            .map_err(|failure| (Some(lane), failure))?;
        receiver::stands(resources, &lane);
        lanes.push(lane);
        flows.push((flow, lane.from));
    }
    Ok(drive_all(resources, parent, lanes, flows))
}

/// Runs relays from each link of a boundary to the next. `build` makes one from two links and the private blocks
/// between them.
fn make_relays<'resources, F: Flow<'resources>>(
    resources: &'resources NodeResources,
    boundary: usize,
    parent: i32,
    build: impl Fn(Stands, Stands, Option<OwnBlocks>) -> Result<F, Failure>,
) -> Result<Ran, receiver::LaneFailure> {
    let made = receiver::make_all_links(resources, boundary)?;
    let mut incoming: Vec<Option<Stands>> =
        (0..resources.slots(boundary + 1)).map(|_| None).collect();
    for (link, lane) in made {
        receiver::stands(resources, &lane);
        incoming[lane.to_slot] = Some((link, lane));
    }
    let blocks = resources
        .own_blocks(boundary + 1, resources.slots(boundary + 1))
        .map_err(|failure| (None, failure))?;
    let (mut lanes, mut flows) = (Vec::new(), Vec::new());
    for (onward, own) in outgoing(resources, boundary + 1).into_iter().zip(blocks) {
        let Some((link, lane)) = incoming[onward.from_slot].take() else {
            let what = format!("nothing fills slot {}", onward.from_slot);
            return Err((Some(onward), (TroubleKind::Bug, what)));
        };
        let mut bell = ChildBell::new(resources, parent, onward.to);
        let to = sender::prepare(resources, onward, None, &mut bell);
        let flow = to.and_then(|to| build((link, lane), (to, onward), own));
        flows.push((flow.map_err(|failure| (Some(lane), failure))?, onward.to));
        lanes.push(lane);
    }
    Ok(drive_all(resources, parent, lanes, flows))
}

fn drive_all<'resources, F: Flow<'resources>>(
    resources: &'resources NodeResources,
    parent: i32,
    lanes: Vec<Lane>,
    flows: Vec<(F, usize)>,
) -> Ran {
    let ended = Engine::new(resources, parent, flows).and_then(Engine::run);
    (lanes, ended)
}
