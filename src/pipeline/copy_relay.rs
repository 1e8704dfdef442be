//! A relay of copies: reads a block from one link into private memory and writes it to the next one, in turn.
//!
//! The block just read is still in the cache when it is written, and no other process has to be notified of it. But
//! one processor does both, so this pays only where there is enough work for all processors ([`crate::plan::fit`]).

use crate::buffer::double::OwnBlocks;
use crate::link::Link;
use crate::record::Activity;

use super::doorbell::ChildBell;
use super::flow::{Advance, Failure, Flow, Place};
use super::inflow::Inflow;
use super::outflow::{Feed, Outflow};
use super::receiver::Stands;
use super::resources::NodeResources;

/// The receiving end of a link and the sending end of the next one, with one block between them.
pub(super) struct CopyRelay<'resources> {
    /// `None` once closed after the last block, while the next link still ends.
    inflow: Option<Inflow<'resources>>,
    outflow: Outflow<'resources>,
    /// True while the block is complete and being sent.
    laden: bool,
}

impl<'resources> CopyRelay<'resources> {
    /// A relay from the link of `lane` to that of `onward`, with the private block between them in `blocks`.
    pub(super) fn new(
        resources: &'resources NodeResources,
        (from, lane): Stands,
        (to, onward): Stands,
        blocks: Option<OwnBlocks>,
    ) -> Result<Self, Failure> {
        let feed = blocks.clone().map_or(Feed::Slot, Feed::Held);
        Ok(Self {
            inflow: Some(Inflow::new(resources, lane, from, blocks)?),
            outflow: Outflow::new(resources, onward, to, feed)?,
            laden: false,
        })
    }

    fn read(&mut self, bell: &mut ChildBell<'resources>) -> Result<Advance, Failure> {
        let Some(inflow) = &mut self.inflow else {
            return Ok(Advance::Done);
        };
        let advance = inflow.advance(bell)?;
        if inflow.came() > self.outflow.went() {
            self.laden = true;
            if advance != Advance::Done {
                inflow.turn(Activity::Waiting);
            }
        } else if advance != Advance::Moved {
            self.outflow.turn(Activity::Waiting);
            self.outflow.look_up();
        }
        if advance != Advance::Done {
            return Ok(advance);
        }
        if let Some(inflow) = self.inflow.take() {
            inflow.end();
        }
        Ok(Advance::Moved)
    }

    fn write(&mut self, bell: &mut ChildBell<'resources>) -> Result<Advance, Failure> {
        let advance = self.outflow.advance(bell)?;
        if let Some(inflow) = &mut self.inflow {
            if self.outflow.went() == inflow.came() {
                self.outflow.turn(Activity::Waiting);
                self.laden = false;
            } else if advance != Advance::Moved {
                inflow.look_up();
            }
        }
        Ok(advance)
    }
}

impl<'resources> Flow<'resources> for CopyRelay<'resources> {
    fn advance(&mut self, bell: &mut ChildBell<'resources>) -> Result<Advance, Failure> {
        if self.laden {
            self.write(bell)
        } else {
            self.read(bell)
        }
    }

    fn place(&self) -> Option<Place<'resources>> {
        None
    }

    fn link(&self) -> &Link {
        match &self.inflow {
            Some(inflow) if !self.laden => inflow.link(),
            _ => self.outflow.link(),
        }
    }

    fn still_waits(&mut self) -> Result<(), Failure> {
        match &mut self.inflow {
            Some(inflow) if !self.laden => inflow.still_waits(),
            _ => self.outflow.still_waits(),
        }
    }

    fn turn(&mut self, activity: Activity) {
        self.outflow.turn(activity);
    }

    fn links(&mut self) -> Vec<&mut Link> {
        let mut links = self.outflow.links();
        links.extend(self.inflow.iter_mut().flat_map(Flow::links));
        links
    }

    fn look_up(&mut self) {
        if let Some(inflow) = &mut self.inflow {
            inflow.look_up();
        }
        self.outflow.look_up();
    }

    fn end(self) {}

    fn lose(&mut self) {
        if let Some(inflow) = &mut self.inflow {
            inflow.lose();
        }
        self.outflow.lose();
    }
}
