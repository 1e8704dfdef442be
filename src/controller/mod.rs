//! The launching side of a run: starts the nodes, settles addresses and clock offsets, starts and watches the
//! tests, collects the results.
//!
//! Every wait has a deadline and checks for events twenty times a second. The record of a failed run keeps
//! everything measured before the failure. Read next: [`sessions`] for the nodes as seen from here, [`assemble`] for
//! how reports become a record, [`visit`] for looking at the runs of others.

mod acceptance;
mod addresses;
mod agenda;
pub mod assemble;
mod conditions;
mod events;
mod findings;
mod heartbeat;
mod imb;
mod latency;
mod lifecycle;
mod linktest;
mod places;
mod pulse;
mod ranks;
mod resume;
mod room;
mod run_state;
mod sessions;
mod test;
mod visit;

pub(crate) use conditions::Conditions;
pub(crate) use events::{Hold, Observer, Observers, RunEvent};
pub(crate) use findings::{errors_of, proof_text, values_of};
pub(crate) use lifecycle::run;
pub(crate) use pulse::LinkSample;
pub(crate) use resume::whole_parts;
pub(crate) use room::make_room;
pub(crate) use run_state::random_digits;
pub(crate) use visit::Visit;
