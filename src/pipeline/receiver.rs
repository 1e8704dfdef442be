//! The receiver process: makes a link, and fills one slot from it, block after block ([`super::inflow`]).
//!
//! All receivers of a boundary wait at one listener, so the link that a receiver accepts determines its slot.

use std::os::fd::AsFd;
use std::time::Duration;

use crate::buffer::board::{EndState, LinkEnd};
use crate::link::{Ground, Link, Reception};
use crate::plan::LinkKind;
use crate::plan::lanes::{self, Lane};
use crate::record::{Activity, EndRole, TroubleKind};
use crate::sys::{process, signals, why};
use crate::wire::hello::{LinkHello, secret_bytes};

use super::doorbell::ChildBell;
use super::flow::{Failure, Flow, drive, failure};
use super::inflow::Inflow;
use super::plant::Plant;

/// Runs a receiver in a separate process; returns its exit code. It starts for `lane`, but the link it accepts can
/// assign another lane of the boundary to it.
pub fn live(plant: &Plant, lane: Lane, parent: i32) -> u8 {
    process::set_name(&format!("pb-recv-{}.{}", lane.boundary + 1, lane.to_slot));
    signals::unblock_all_but_doorbell();
    process::schedule_as_batch();
    let (link, lane) = match make_link(plant, lane) {
        Ok(made) => made,
        Err((kind, what)) => {
            // No link arrived, so the lane is unknown.
            plant.report(
                kind,
                &format!("phase {} receiver", lane.boundary + 1),
                &what,
            );
            return 1;
        }
    };
    process::set_name(&format!("pb-recv-{}.{}", lane.boundary + 1, lane.to_slot));
    plant.take_place(&lane, lane.to_slot);
    let end = end_of(plant, &lane);
    let mut bell = ChildBell::new(plant, parent, lane.from);
    match run(plant, lane, link, &mut bell) {
        Ok(()) => {
            signals::ring(parent);
            0
        }
        Err((kind, _)) if bell.was_peer_lost(kind) => {
            end.turn_to(Activity::Idle);
            end.set_state(EndState::Lost);
            signals::ring(parent);
            0
        }
        Err((kind, what)) => {
            plant.report(kind, &plant.end_name(EndRole::Receiver, &lane), &what);
            1
        }
    }
}

fn run<'plant>(
    plant: &'plant Plant,
    lane: Lane,
    link: Link,
    bell: &mut ChildBell<'plant>,
) -> Result<(), Failure> {
    plant.buffers[lane.boundary + 1].populate(lane.to_slot);
    close_listener(plant, &lane);
    let own = plant.own_blocks(lane.boundary + 1, 1)?.pop().flatten();
    let mut inflow = Inflow::new(plant, lane, link, own)?;
    stands(plant, &lane);
    await_data(plant, inflow.link(), bell)?;
    drive(&mut inflow, bell)?;
    inflow.end();
    Ok(())
}

/// Closes this process's copy of the listener once the link is established. The listener serves the receivers that
/// still wait.
pub fn close_listener(plant: &Plant, lane: &Lane) {
    if let Some(listener) = plant.listener(lane) {
        process::close_own_copy(listener.as_fd());
    }
}

/// Waits for this node's start or for the first data. Data of a faster node can arrive before this node's start, and
/// until then silence means nothing.
pub fn await_data(plant: &Plant, link: &Link, bell: &ChildBell<'_>) -> Result<(), Failure> {
    while !plant.board.has_started() && !link.has_data(Duration::from_millis(50)) {
        if !bell.parent_lives() {
            return Err((TroubleKind::Peer, "the phase is gone".to_owned()));
        }
    }
    Ok(())
}

/// Marks the receiving end of a lane as ready: its link is established and its memory is ready.
pub fn stands(plant: &Plant, lane: &Lane) {
    end_of(plant, lane).set_state(EndState::Ready);
}

/// Takes the socket made for this lane before the fork, or accepts any link of the boundary.
pub fn make_link(plant: &Plant, lane: Lane) -> Result<Stands, Failure> {
    if plant.assignment.kind_of(&lane) == LinkKind::Pair {
        return take_pair(plant, lane);
    }
    let ground = ground(plant, &lane)?;
    receive(plant, &mut Reception::new(&ground), &lane)
}

/// An established link, and its lane.
pub type Stands = (Link, Lane);

/// A failure, and the lane it happened on, if known.
pub type LaneFailure = (Option<Lane>, Failure);

/// Makes all links into a boundary: first those made before the fork, then rail by rail all that arrive.
pub fn make_all_links(plant: &Plant, boundary: usize) -> Result<Vec<Stands>, LaneFailure> {
    let assignment = &plant.assignment;
    let test = &assignment.test;
    let lanes = lanes::incoming(test, assignment.nodes(), boundary, assignment.node);
    let (pairs, others): (Vec<Lane>, Vec<Lane>) = lanes
        .into_iter()
        .partition(|lane| assignment.kind_of(lane) == LinkKind::Pair);
    let mut made = Vec::new();
    for lane in pairs {
        made.push(take_pair(plant, lane).map_err(|failure| (Some(lane), failure))?);
    }
    for rail in 0..test.rails {
        let on_rail: Vec<&Lane> = others
            .iter()
            .filter(|lane| test.rail_of(lane.stream) == rail)
            .collect();
        let Some(first) = on_rail.first() else {
            continue;
        };
        let ground = ground(plant, first).map_err(|failure| (None, failure))?;
        let mut reception = Reception::new(&ground);
        for _ in &on_rail {
            let link = receive(plant, &mut reception, first);
            made.push(link.map_err(|failure| (None, failure))?);
        }
    }
    if let Some(listeners) = plant.listeners.get(boundary) {
        listeners
            .iter()
            .for_each(|listener| process::close_own_copy(listener.as_fd()));
    }
    Ok(made)
}

fn take_pair(plant: &Plant, lane: Lane) -> Result<Stands, Failure> {
    let socket = process::take_over(plant.pairs[lane.boundary][lane.stream].1.as_fd())
        .map_err(|error| (TroubleKind::Resource, why(&error)))?;
    end_of(plant, &lane).claim();
    let link = Link::new(socket, false, silence(plant)).map_err(|error| failure(&error))?;
    Ok((link, lane))
}

fn silence(plant: &Plant) -> Duration {
    Duration::from_millis(plant.assignment.deadlines.silence_ms * 3)
}

/// The listener for links like that of `lane`, and its time limits.
fn ground<'plant>(plant: &'plant Plant, lane: &Lane) -> Result<Ground<'plant>, Failure> {
    let assignment = &plant.assignment;
    let deadlines = &assignment.deadlines;
    let Some(listener) = plant.listener(lane) else {
        return Err((TroubleKind::Bug, "no listener was made".to_owned()));
    };
    Ok(Ground {
        listener,
        tcp: assignment.kind_of(lane) == LinkKind::Tcp,
        hello_limit: Duration::from_millis(deadlines.link_hello_ms),
        limit_ms: deadlines.prepare_ms * 2 + deadlines.connect_ms,
        silence: silence(plant),
    })
}

/// Accepts the next link at the listener of `lane`. Returns it with the lane that it names.
fn receive(plant: &Plant, reception: &mut Reception<'_>, lane: &Lane) -> Result<Stands, Failure> {
    let rail = plant.assignment.test.rail_of(lane.stream);
    let admit = |hello: &LinkHello| admit(plant, lane.boundary, rail, hello);
    let release = |lane: Lane| end_of(plant, &lane).release();
    let stranger = || plant.board.count_stranger();
    let next = reception.next(admit, release, stranger);
    next.map_err(|error| failure(&error))
}

fn end_of<'plant>(plant: &'plant Plant, lane: &Lane) -> LinkEnd<'plant> {
    let Lane {
        boundary, to_slot, ..
    } = *lane;
    plant.board.end(EndRole::Receiver, boundary, to_slot)
}

/// Claims the lane that a hello of this run names. `None` if the hello belongs to another run or rail, or if the lane
/// is already claimed.
fn admit(plant: &Plant, boundary: usize, rail: usize, hello: &LinkHello) -> Option<Lane> {
    let assignment = &plant.assignment;
    if hello.secret != secret_bytes(&assignment.secret) {
        return None;
    }
    let lanes = lanes::incoming(
        &assignment.test,
        assignment.nodes(),
        boundary,
        assignment.node,
    );
    let lane = lanes.into_iter().find(|lane| {
        let named = [hello.boundary, hello.from, hello.to, hello.stream];
        let place = [lane.boundary, lane.from, lane.to, lane.stream];
        named
            .iter()
            .zip(place)
            .all(|(named, place)| u64::from(*named) == place as u64)
    })?;
    let ours = assignment.test.rail_of(lane.stream) == rail;
    (ours && end_of(plant, &lane).claim()).then_some(lane)
}
