//! Runs from a browser: the page, its API, and the same as a CGI program.
//!
//! A request is held against what the site allows ([`request`], [`site`]), put on the shelf ([`shelf`]), and seen to by a keeper, a process of its own
//! ([`keeper`]), which runs the own executable with words that were made from the site's list. Pages and API ([`routes`]) read the shelf and nothing
//! else; the server and the CGI program are two ways to the same routes.

mod api;
mod cgi;
mod clerk;
mod crowd;
mod documents;
mod events;
mod guard;
mod keeper;
mod logouts;
mod openapi;
mod pages;
mod request;
mod routes;
mod sending;
mod server;
mod shelf;
mod site;
mod state;
mod tally;

use std::path::PathBuf;
use std::sync::Arc;

pub use cgi::{CgiError, answer};
pub use keeper::{KeepError, keep};
pub use server::{ServeError, serve};
pub use site::{EXAMPLE, Site, SiteError, read as read_site};

use crate::plan::RunPlan;

use clerk::Clerk;
use events::Desk;
use guard::Guard;

/// What the command line lends.
#[derive(Debug, Clone)]
pub struct Tools {
    /// Words of the plain command become a plan, or a sentence.
    pub understand: fn(&[String]) -> Result<RunPlan, String>,
    /// The date, in milliseconds since 1970.
    pub now_ms: fn() -> u64,
    /// 128 bits at random, as hexadecimal digits.
    pub random: fn() -> String,
    /// The own executable.
    pub program: PathBuf,
}

/// One line of what was done, on standard error; nobody may be there to read it.
fn tell(what: &str) {
    use std::io::Write;
    match writeln!(std::io::stderr(), "pipebench: {what}") {
        Ok(()) | Err(_) => {}
    }
}

/// All that routes need.
struct App {
    /// What may be asked for, and where runs are.
    clerk: Clerk,
    /// Who may ask.
    guard: Guard,
    /// Who listens; none in a program that lives for one request.
    desk: Option<Arc<Desk>>,
    /// What stands before every path.
    base: String,
    /// Records that may be read and written at the same time.
    heavy: tokio::sync::Semaphore,
    sending: sending::Sending,
}

/// Documents that are made at the same time.
const MOST_HEAVY: usize = 4;
