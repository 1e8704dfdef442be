//! A relay: receiver and sender of one slot in one process. It passes pages on ([`super::passage`]) or copies
//! ([`super::ferry`]).

use crate::buffer::board::EndState;
use crate::link::Link;
use crate::plan::Relay;
use crate::plan::lanes::{self, Lane};
use crate::record::{Activity, EndRole};
use crate::sys::{process, signals};

use super::doorbell::ChildBell;
use super::ferry::Ferry;
use super::flow::{Failure, drive};
use super::passage::Passage;
use super::plant::Plant;
use super::{receiver, sender};

/// Runs a relay in a separate process; returns its exit code. It starts for the slot that `lane` fills, but the link
/// it accepts can assign another slot to it.
pub fn live(plant: &Plant, lane: Lane, parent: i32) -> u8 {
    let name = |lane: &Lane| {
        process::set_name(&format!("pb-relay-{}.{}", lane.boundary + 1, lane.to_slot));
    };
    name(&lane);
    signals::unblock_all_but_doorbell();
    process::schedule_as_batch();
    let (link, lane) = match receiver::make_link(plant, lane) {
        Ok(made) => made,
        Err((kind, what)) => {
            // No link arrived, so the lane is unknown.
            plant.report(kind, &format!("phase {} relay", lane.boundary + 1), &what);
            return 1;
        }
    };
    name(&lane);
    plant.take_place(&lane, lane.to_slot);
    let onward = onward_of(plant, &lane);
    // With all-to-all, blocks return to the node they come from.
    let mut bell = ChildBell::new(plant, parent, onward.to);
    let ends = [
        plant
            .board
            .end(EndRole::Receiver, lane.boundary, lane.to_slot),
        plant
            .board
            .end(EndRole::Sender, onward.boundary, onward.from_slot),
    ];
    match run(plant, (lane, link), onward, &mut bell) {
        Ok(()) => {
            signals::ring(parent);
            0
        }
        Err((kind, _)) if bell.was_peer_lost(kind) => {
            for end in ends.iter().filter(|end| end.state() < EndState::Finished) {
                end.turn_to(Activity::Idle);
                end.set_state(EndState::Lost);
            }
            signals::ring(parent);
            0
        }
        Err((kind, what)) => {
            plant.report(kind, &plant.relay_name(&lane, &onward), &what);
            1
        }
    }
}

fn run<'plant>(
    plant: &'plant Plant,
    (lane, link): (Lane, Link),
    onward: Lane,
    bell: &mut ChildBell<'plant>,
) -> Result<(), Failure> {
    receiver::close_listener(plant, &lane);
    receiver::stands(plant, &lane);
    let to = sender::prepare(plant, onward, None, bell)?;
    receiver::await_data(plant, &link, bell)?;
    let (from, to) = ((link, lane), (to, onward));
    match plant.assignment.test.relay() {
        Relay::Pages => drive(&mut Passage::new(plant, from, to)?, bell),
        Relay::Blocks | Relay::Halves => {
            let blocks = plant.own_blocks(onward.boundary, 1)?.pop().flatten();
            drive(&mut Ferry::new(plant, from, to, blocks)?, bell)
        }
    }
}

/// The lane that drains the slot which `lane` fills.
pub fn onward_of(plant: &Plant, lane: &Lane) -> Lane {
    let assignment = &plant.assignment;
    let (test, nodes) = (&assignment.test, assignment.nodes());
    let onward = lanes::outgoing(test, nodes, lane.boundary + 1, lane.to);
    onward[lane.to_slot]
}

/// Name of the relay that fills and drains a slot; `None` if there is no such slot.
pub fn name_at(plant: &Plant, boundary: usize, slot: usize) -> Option<String> {
    let assignment = &plant.assignment;
    let (test, nodes) = (&assignment.test, assignment.nodes());
    let incoming = lanes::incoming(test, nodes, boundary, assignment.node);
    let lane = incoming.get(slot)?;
    Some(plant.relay_name(lane, &onward_of(plant, lane)))
}
