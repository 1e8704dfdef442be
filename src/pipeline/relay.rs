//! A relay: receiver and sender of one slot in one process. It passes pages on ([`super::splice_relay`]) or copies
//! ([`super::copy_relay`]).

use crate::plan::Relay;
use crate::plan::lanes::{self, Lane};
use crate::record::EndRole;

use super::copy_relay::CopyRelay;
use super::doorbell::ChildBell;
use super::flow::{Failure, drive};
use super::receiver::{self, Stands};
use super::resources::NodeResources;
use super::sender;
use super::splice_relay::SpliceRelay;

/// Runs a relay in a separate process; returns its exit code. It starts for the slot that `lane` fills, but the link
/// it accepts can assign another slot to it.
pub(super) fn run(resources: &NodeResources, lane: Lane, parent: i32) -> u8 {
    let begun = receiver::begin_with_link(resources, lane, "relay", "relay");
    let Some((link, lane)) = begun else { return 1 };
    let onward = onward_of(resources, &lane);
    // With all-to-all, blocks return to the node they come from.
    let mut bell = ChildBell::new(resources, parent, onward.to);
    let ends = [
        resources.end(EndRole::Receiver, &lane),
        resources.end(EndRole::Sender, &onward),
    ];
    let done = serve(resources, (link, lane), onward, &mut bell);
    bell.exit_code(done, &ends, || resources.relay_name(&lane, &onward))
}

fn serve<'resources>(
    resources: &'resources NodeResources,
    (link, lane): Stands,
    onward: Lane,
    bell: &mut ChildBell<'resources>,
) -> Result<(), Failure> {
    receiver::close_listener(resources, &lane);
    receiver::stands(resources, &lane);
    let to = sender::prepare(resources, onward, None, bell)?;
    receiver::await_data(resources, &link, bell)?;
    let (from, to) = ((link, lane), (to, onward));
    match resources.assignment.test.relay() {
        Relay::Pages => drive(&mut SpliceRelay::new(resources, from, to)?, bell),
        Relay::Blocks | Relay::Halves => {
            let blocks = resources.own_blocks(onward.boundary, 1)?.pop().flatten();
            drive(&mut CopyRelay::new(resources, from, to, blocks)?, bell)
        }
    }
}

/// The lane that drains the slot which `lane` fills.
pub(super) fn onward_of(resources: &NodeResources, lane: &Lane) -> Lane {
    let assignment = &resources.assignment;
    let (test, nodes) = (&assignment.test, assignment.run.nodes());
    let onward = lanes::outgoing(test, nodes, lane.boundary + 1, lane.to);
    onward[lane.to_slot]
}

/// Name of the relay that fills and drains a slot; `None` if there is no such slot.
pub(super) fn name_at(resources: &NodeResources, boundary: usize, slot: usize) -> Option<String> {
    let incoming = resources.lanes(EndRole::Receiver, boundary);
    let lane = incoming.get(slot)?;
    Some(resources.relay_name(lane, &onward_of(resources, lane)))
}
