//! A relay of copies: reads a block from one link into private memory and writes it to the next one, in turn.
//!
//! The block just read is still in the cache when it is written, and no other process has to be notified of it. But
//! one processor does both, so this pays only where there is enough work for all processors ([`crate::plan::fit`]).

use crate::buffer::double::OwnBlocks;
use crate::link::Link;
use crate::record::Activity;

use super::doorbell::ChildBell;
use super::flow::{Advance, Failure, Flow, Place};
use super::receive_flow::ReceiveFlow;
use super::receiver::Stands;
use super::resources::NodeResources;
use super::send_flow::{Feed, SendFlow};

/// The receiving end of a link and the sending end of the next one, with one block between them.
pub(super) struct CopyRelay<'resources> {
    /// `None` once closed after the last block, while the next link still ends.
    receive_flow: Option<ReceiveFlow<'resources>>,
    send_flow: SendFlow<'resources>,
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
            receive_flow: Some(ReceiveFlow::new(resources, lane, from, blocks)?),
            send_flow: SendFlow::new(resources, onward, to, feed)?,
            laden: false,
        })
    }

    fn read(&mut self, bell: &mut ChildBell<'resources>) -> Result<Advance, Failure> {
        let Some(receive_flow) = &mut self.receive_flow else {
            return Ok(Advance::Done);
        };
        let advance = receive_flow.advance(bell)?;
        if receive_flow.came() > self.send_flow.went() {
            self.laden = true;
            if advance != Advance::Done {
                receive_flow.turn(Activity::Waiting);
            }
        } else if advance != Advance::Moved {
            self.send_flow.turn(Activity::Waiting);
            self.send_flow.look_up();
        }
        if advance != Advance::Done {
            return Ok(advance);
        }
        if let Some(receive_flow) = self.receive_flow.take() {
            receive_flow.end();
        }
        Ok(Advance::Moved)
    }

    fn write(&mut self, bell: &mut ChildBell<'resources>) -> Result<Advance, Failure> {
        let advance = self.send_flow.advance(bell)?;
        if let Some(receive_flow) = &mut self.receive_flow {
            if self.send_flow.went() == receive_flow.came() {
                self.send_flow.turn(Activity::Waiting);
                self.laden = false;
            } else if advance != Advance::Moved {
                receive_flow.look_up();
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
        match &self.receive_flow {
            Some(receive_flow) if !self.laden => receive_flow.link(),
            _ => self.send_flow.link(),
        }
    }

    fn still_waits(&mut self) -> Result<(), Failure> {
        match &mut self.receive_flow {
            Some(receive_flow) if !self.laden => receive_flow.still_waits(),
            _ => self.send_flow.still_waits(),
        }
    }

    fn turn(&mut self, activity: Activity) {
        self.send_flow.turn(activity);
    }

    fn links(&mut self) -> Vec<&mut Link> {
        let mut links = self.send_flow.links();
        links.extend(self.receive_flow.iter_mut().flat_map(Flow::links));
        links
    }

    fn look_up(&mut self) {
        if let Some(receive_flow) = &mut self.receive_flow {
            receive_flow.look_up();
        }
        self.send_flow.look_up();
    }

    fn end(self) {}

    fn lose(&mut self) {
        if let Some(receive_flow) = &mut self.receive_flow {
            receive_flow.lose();
        }
        self.send_flow.lose();
    }
}
