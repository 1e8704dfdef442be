//! Runs from a browser: the pages, their API, and both as a CGI program.
//!
//! The web code checks a request against what the site allows ([`request`], [`site`]), stores it on disk ([`shelf`]), and starts a keeper, a separate
//! process ([`keeper`]). The keeper runs this executable with words built from the site's list. Pages and API ([`routes`]) take all data from the
//! shelf. The server and the CGI program are two front ends to the same routes.

mod answers;
mod api;
mod app;
mod cgi;
mod clerk;
mod crowd;
mod desk;
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
mod tools;

pub use cgi::{CgiError, answer};
pub use keeper::{KeepError, keep};
pub use server::{ServeError, serve};
pub use site::{EXAMPLE, Site, SiteError, read as read_site};
pub use tools::Tools;
