//! Nodes that another program starts: they connect to the launching side, which listens for them.
//!
//! `token.rs` is the secret of a run, `noise.rs` the encrypted channel, `port.rs` the listening side, `carrier.rs` a
//! joined node as a session, `starter.rs` the command that starts all nodes, and `node.rs` the joining side.
//!
//! ```text
//!   joining side                        listening side
//!     first message (proves the token)  ->
//!                                       <-  second message (proves the token)
//!     JOIN names                        ->      a replayed first message ends here
//!                                       <-  HEARD, or REFUSED reason
//!                                       <-  START    once the host's session takes it
//!     OUTPUT, ERROR, ENDED              <->     INPUT, CLOSE
//! ```

mod addresses;
pub(crate) mod carrier;
mod names;
mod node;
mod noise;
pub(crate) mod port;
pub(crate) mod starter;
mod token;

pub use node::{JoinError, JoinRequest, join};
pub use port::{GatherError, JoinPort};
pub use starter::Starter;
pub use token::{Token, TokenError, TokenFile};

#[cfg(test)]
mod tests;
