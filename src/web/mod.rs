//! Runs from a browser: the pages, their API, and both as a CGI program.
//!
//! The web code checks a request against what the site allows ([`request`], [`site`]), stores it on disk ([`run_store`]), and starts a runner, a separate
//! process ([`runner`]). The runner runs this executable with words built from the site's list. Pages and API ([`routes`]) take all data from the
//! run store. The server and the CGI program are two front ends to the same routes.

mod answers;
mod api;
mod app;
mod caching;
mod cgi;
mod check;
mod connections;
mod documents;
mod event_hub;
mod events;
mod guard;
mod logouts;
mod metrics;
mod openapi;
mod pages;
mod queue;
mod rate_limit;
mod request;
mod routes;
mod run_store;
mod runner;
mod sending;
mod server;
mod site;
mod state;
mod token;
mod tools;

pub(crate) use cgi::{CgiError, answer};
pub(crate) use check::check;
pub(crate) use run_store::FolderError;
pub(crate) use runner::keep;
pub(crate) use server::{ServeError, serve};
pub(crate) use site::{EXAMPLE, Site, read as read_site};
pub(crate) use tools::Tools;
