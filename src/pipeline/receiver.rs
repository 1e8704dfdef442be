//! The receiver process: makes a link, and fills one slot from it, block after block ([`super::receive_flow`]).
//!
//! All receivers of a boundary wait at one listener, so the link that a receiver accepts determines its slot.

use std::os::fd::AsFd;
use std::time::Duration;

use crate::buffer::board::EndState;
use crate::link::{AcceptConfig, Acceptor, Link};
use crate::plan::LinkKind;
use crate::plan::lanes::Lane;
use crate::record::{EndRole, TroubleKind};
use crate::sys::process;
use crate::wire::hello::{LinkHello, secret_bytes};

use super::doorbell::{ChildBell, begin};
use super::flow::{Failure, Flow, drive, failure, lacking, phase_gone};
use super::receive_flow::ReceiveFlow;
use super::resources::NodeResources;

/// Runs a receiver in a separate process; returns its exit code. It starts for `lane`, but the link it accepts can
/// assign another lane of the boundary to it.
pub(super) fn run(resources: &NodeResources, lane: Lane, parent: i32) -> u8 {
    let begun = begin_with_link(resources, lane, "recv", "receiver");
    let Some((link, lane)) = begun else { return 1 };
    let end = resources.end(EndRole::Receiver, &lane);
    let mut bell = ChildBell::new(resources, parent, lane.from);
    let done = serve(resources, lane, link, &mut bell);
    bell.exit_code(done, &[end], || {
        resources.end_name(EndRole::Receiver, &lane)
    })
}

/// Begins a process that has the role `role` in messages, and makes its link, whose lane it has from then on. `None` if it
/// has reported why it has no link.
pub(super) fn begin_with_link(
    resources: &NodeResources,
    lane: Lane,
    short: &str,
    role: &str,
) -> Option<Stands> {
    let name = |lane: &Lane| format!("pb-{short}-{}.{}", lane.boundary + 1, lane.to_slot);
    begin(&name(&lane));
    match make_link(resources, lane) {
        Ok((link, lane)) => {
            process::set_name(&name(&lane));
            resources.take_place(&lane, lane.to_slot);
            Some((link, lane))
        }
        Err((kind, what)) => {
            // No link arrived, so the lane is unknown.
            let who = format!("phase {} {role}", lane.boundary + 1);
            resources.report(kind, &who, &what);
            None
        }
    }
}

fn serve<'resources>(
    resources: &'resources NodeResources,
    lane: Lane,
    link: Link,
    bell: &mut ChildBell<'resources>,
) -> Result<(), Failure> {
    resources.buffers[lane.boundary + 1].populate(lane.to_slot);
    close_listener(resources, &lane);
    let own = resources.own_blocks(lane.boundary + 1, 1)?.pop().flatten();
    let mut receive_flow = ReceiveFlow::new(resources, lane, link, own)?;
    stands(resources, &lane);
    await_data(resources, receive_flow.link(), bell)?;
    drive(&mut receive_flow, bell)?;
    receive_flow.end();
    Ok(())
}

/// Closes this process's copy of the listener once the link is established. The listener serves the receivers that
/// still wait.
pub(super) fn close_listener(resources: &NodeResources, lane: &Lane) {
    if let Some(listener) = resources.listener(lane) {
        process::close_own_copy(listener.as_fd());
    }
}

/// Waits for this node's start or for the first data. Data of a faster node can arrive before this node's start, and
/// until then silence means nothing.
pub(super) fn await_data(
    resources: &NodeResources,
    link: &Link,
    bell: &ChildBell<'_>,
) -> Result<(), Failure> {
    while !resources.board.has_started() && !link.has_data(Duration::from_millis(50)) {
        if !bell.parent_lives() {
            return Err(phase_gone());
        }
    }
    Ok(())
}

/// Marks the receiving end of a lane as ready: its link is established and its memory is ready.
pub(super) fn stands(resources: &NodeResources, lane: &Lane) {
    let end = resources.end(EndRole::Receiver, lane);
    end.set_state(EndState::Ready);
}

/// Takes the socket made for this lane before the fork, or accepts any link of the boundary.
fn make_link(resources: &NodeResources, lane: Lane) -> Result<Stands, Failure> {
    if resources.assignment.kind_of(&lane) == LinkKind::Pair {
        return take_pair(resources, lane);
    }
    let config = config(resources, &lane)?;
    receive(resources, &mut Acceptor::new(&config), &lane)
}

/// An established link, and its lane.
pub(super) type Stands = (Link, Lane);

/// A failure, and the lane it happened on, if known.
pub(super) type LaneFailure = (Option<Lane>, Failure);

/// Makes all links into a boundary: first those made before the fork, then rail by rail all that arrive.
pub(super) fn make_all_links(
    resources: &NodeResources,
    boundary: usize,
) -> Result<Vec<Stands>, LaneFailure> {
    let assignment = &resources.assignment;
    let test = &assignment.test;
    let lanes = resources.lanes(EndRole::Receiver, boundary);
    let (pairs, others): (Vec<Lane>, Vec<Lane>) = lanes
        .into_iter()
        .partition(|lane| assignment.kind_of(lane) == LinkKind::Pair);
    let mut made = Vec::new();
    for lane in pairs {
        made.push(take_pair(resources, lane).map_err(|failure| (Some(lane), failure))?);
    }
    for rail in 0..test.rails {
        let on_rail: Vec<&Lane> = others
            .iter()
            .filter(|lane| test.rail_of(lane.stream) == rail)
            .collect();
        let Some(first) = on_rail.first() else {
            continue;
        };
        let config = config(resources, first).map_err(|failure| (None, failure))?;
        let mut acceptor = Acceptor::new(&config);
        for _ in &on_rail {
            let link = receive(resources, &mut acceptor, first);
            made.push(link.map_err(|failure| (None, failure))?);
        }
    }
    for listener in resources.listeners.get(boundary).into_iter().flatten() {
        process::close_own_copy(listener.as_fd());
    }
    Ok(made)
}

fn take_pair(resources: &NodeResources, lane: Lane) -> Result<Stands, Failure> {
    let socket = &resources.pairs[lane.boundary][lane.stream].1;
    let socket = process::take_over(socket.as_fd()).map_err(lacking)?;
    resources.end(EndRole::Receiver, &lane).claim();
    let link = Link::new(socket, false, silence(resources)).map_err(failure)?;
    Ok((link, lane))
}

fn silence(resources: &NodeResources) -> Duration {
    Duration::from_millis(resources.assignment.run.deadlines.silence_ms * 3)
}

/// The listener for links like that of `lane`, and its time limits.
fn config<'resources>(
    resources: &'resources NodeResources,
    lane: &Lane,
) -> Result<AcceptConfig<'resources>, Failure> {
    let assignment = &resources.assignment;
    let deadlines = &assignment.run.deadlines;
    let Some(listener) = resources.listener(lane) else {
        return Err((TroubleKind::Bug, "no listener was made".to_owned()));
    };
    Ok(AcceptConfig {
        listener,
        tcp: assignment.kind_of(lane).has_tcp_info(),
        hello_limit: Duration::from_millis(deadlines.link_hello_ms),
        limit_ms: deadlines.prepare_ms * 2 + deadlines.connect_ms,
        silence: silence(resources),
    })
}

/// Accepts the next link at the listener of `lane`. Returns it with the lane that it names.
fn receive(
    resources: &NodeResources,
    acceptor: &mut Acceptor<'_>,
    lane: &Lane,
) -> Result<Stands, Failure> {
    let rail = resources.assignment.test.rail_of(lane.stream);
    let admit = |hello: &LinkHello| admit(resources, lane.boundary, rail, hello);
    let release = |lane: Lane| resources.end(EndRole::Receiver, &lane).release();
    let stranger = || resources.board.count_stranger();
    let next = acceptor.next(admit, release, stranger);
    next.map_err(failure)
}

/// Claims the lane that a hello of this run names. `None` if the hello belongs to another run or rail, or if the lane
/// is already claimed.
fn admit(
    resources: &NodeResources,
    boundary: usize,
    rail: usize,
    hello: &LinkHello,
) -> Option<Lane> {
    let assignment = &resources.assignment;
    if hello.secret != secret_bytes(&assignment.run.secret) {
        return None;
    }
    let mut lanes = resources.lanes(EndRole::Receiver, boundary).into_iter();
    let lane = lanes.find(|lane| {
        let named = [hello.boundary, hello.from, hello.to, hello.stream];
        let place = [lane.boundary, lane.from, lane.to, lane.stream];
        named
            .iter()
            .zip(place)
            .all(|(named, place)| u64::from(*named) == place as u64)
    })?;
    let ours = assignment.test.rail_of(lane.stream) == rail;
    (ours && resources.end(EndRole::Receiver, &lane).claim()).then_some(lane)
}
