//! Sends one host's events to their receiver, and holds the host's place in the gate.
//!
//! The place becomes free once the host is up or has failed. Read next: `drive.rs`.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::mpsc::Sender;

use crate::error::{LaunchError, Stage};
use crate::event::{Event, Tickets};
use crate::gate::Place;
use crate::session::carrier::Ending;
use crate::session::line::Line;

pub(crate) struct Report {
    host: usize,
    events: Sender<(usize, Event)>,
    tickets: Tickets,
    place: Option<Place>,
    stage: Option<Stage>,
    up: bool,
    concluded: bool,
    line: Arc<Line>,
}

impl Report {
    pub(crate) fn new(
        host: usize,
        events: Sender<(usize, Event)>,
        tickets: Tickets,
        line: Arc<Line>,
    ) -> Report {
        Report {
            host,
            events,
            tickets,
            place: None,
            stage: None,
            up: false,
            concluded: false,
            line,
        }
    }

    /// Keeps the place in the gate until the host is up.
    pub(crate) fn hold(&mut self, place: Place) {
        self.place = Some(place);
    }

    pub(crate) fn stage(&mut self, stage: Stage) {
        if self.stage != Some(stage) {
            self.stage = Some(stage);
            self.tell(Event::Stage(stage));
        }
    }

    /// The stage that began last.
    pub(crate) fn current_stage(&self) -> Stage {
        self.stage.unwrap_or(Stage::Resolve)
    }

    pub(crate) fn notice(&self, text: impl Into<String>) {
        self.tell(Event::Notice(crate::error::one_line(&text.into())));
    }

    pub(crate) fn complaint(&self, line: String) {
        self.tell(Event::Complaint(line, self.tickets.next()));
    }

    pub(crate) fn bytes(&self, bytes: Vec<u8>) {
        self.tell(Event::Bytes(bytes, self.tickets.next()));
    }

    /// True if the owner must handle events before the session reads more.
    pub(crate) fn is_ahead(&self) -> bool {
        self.tickets.are_out()
    }

    pub(crate) fn up(&mut self, transport: &str, address: Option<IpAddr>, noise: String) {
        self.place = None;
        self.up = true;
        self.tell(Event::Up {
            transport: transport.to_owned(),
            address,
            noise,
        });
    }

    pub(crate) fn is_up(&self) -> bool {
        self.up
    }

    pub(crate) fn ended(mut self, ending: Ending) {
        self.concluded = true;
        self.tell(Event::Ended {
            status: ending.status,
            signal: ending.signal,
        });
    }

    pub(crate) fn failed(mut self, error: LaunchError) {
        self.concluded = true;
        self.tell(Event::Failed(error));
    }

    fn tell(&self, event: Event) {
        // An error means that the receiver is gone. The owner's `finish` ends the session, not this.
        drop(self.events.send((self.host, event)));
    }
}

impl Drop for Report {
    /// Sends the last event, even if the host's thread never ran or panicked.
    fn drop(&mut self) {
        if !self.concluded {
            let text = "the session's thread ended without a report (a bug, or a failed start of the thread)";
            self.tell(match self.up {
                true => Event::Ended {
                    status: None,
                    signal: None,
                },
                false => Event::Failed(LaunchError::new(self.current_stage(), text)),
            });
        }
        self.line.set_ended();
    }
}
