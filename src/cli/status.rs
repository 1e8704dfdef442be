//! `pipebench status`: lists the runs on hosts, or ends one.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::exit;
use crate::record::{Sighting, Trouble, TroubleKind};
use crate::report::status::{self, View};

use super::args::StatusArguments;
use super::terminal::{complain, refuse, tell};
use super::visit::{self, Destination, Visiting};

/// Time between the two readings that make a rate.
const APART: Duration = Duration::from_millis(500);
/// Deadline for a run that was asked to end. A run that exists longer has a fault.
const END_LIMIT: Duration = Duration::from_secs(15);

/// Lists runs, or ends one; returns the exit code.
pub(super) fn run(words: &StatusArguments) -> Result<u8, u8> {
    let understood = Destination::parse(&words.visit).and_then(|destination| {
        let end = words.end.as_deref();
        let end = end
            .map(|text| visit::parse_token("--end", text))
            .transpose()?;
        Ok((destination, end))
    });
    let (destination, end) = understood.map_err(|error| refuse(&error))?;
    if words.visit.dry_run {
        return Ok(tell(&format!("would ask {}\n", destination.names())));
    }
    let mut visiting = destination.visit(&words.visit.launch)?;
    Ok(match end {
        Some(token) => end_run(visiting, &token, &destination.names()),
        None => {
            let views = look_twice(&mut visiting);
            finish(visiting, |troubles| {
                if words.json {
                    status::document(&views, troubles)
                } else {
                    status::table(&views)
                }
            })
        }
    })
}

fn look_twice(visiting: &mut Visiting) -> Vec<View> {
    let before = visiting.visit.look(false);
    let is_any = before.iter().any(|(_, seen)| !seen.nodes.is_empty());
    if !is_any || !visiting.visit.pause(APART) {
        return visit::views(&before.clone(), before.into_iter().map(still).collect());
    }
    let now = visiting.visit.look(false);
    visit::views(&before, now)
}

/// A sighting as its own second reading, which must not count the swept leftovers again.
fn still((host, seen): (String, Sighting)) -> (String, Sighting) {
    (host, Sighting { swept: 0, ..seen })
}

/// Ends the visit, prints the text, and names the hosts that could not be visited; returns the exit code.
fn finish(visiting: Visiting, text: impl FnOnce(&[Trouble]) -> String) -> u8 {
    let signal = visiting.stop.load(Ordering::SeqCst);
    let troubles = visiting.visit.leave();
    let printed = tell(&text(&troubles));
    let code = visit::complain_of(&troubles);
    match i32::try_from(signal) {
        Ok(signal) if signal > 0 => exit::by_signal(signal),
        _ if printed != exit::OK => printed,
        _ => code,
    }
}

fn end_run(mut visiting: Visiting, given: &str, names: &str) -> u8 {
    let outcome = end_and_wait(&mut visiting, given, names);
    let troubles = visiting.visit.leave();
    let code = visit::complain_of(&troubles);
    match outcome {
        Ok(text) => tell(&format!("{text}\n")).max(code),
        Err((own, text)) => {
            complain(&text);
            visit::code_of(own, code)
        }
    }
}

fn end_and_wait(visiting: &mut Visiting, given: &str, names: &str) -> Result<String, (u8, String)> {
    let seen = visiting.visit.look(false);
    let views = visit::views(&seen.clone(), seen);
    let token = visit::find_run(&views, given, names)?;
    let run = status::short(&token);
    let mut hosts = Vec::new();
    let mut refused = Vec::new();
    for (host, answers) in visiting.visit.end_run(&token) {
        for answer in answers {
            match answer.refused {
                None => hosts.push(host.clone()),
                Some(why) => {
                    let what = format!("cannot end run {run}: {why}");
                    refused.push(Trouble::of_node(TroubleKind::Resource, &host, what));
                }
            }
        }
    }
    hosts.dedup();
    if hosts.is_empty() && !refused.is_empty() {
        return Err((exit::RESOURCE, status::failures(&refused).join("; ")));
    }
    let until = Instant::now() + END_LIMIT;
    loop {
        let seen = visiting.visit.look(false);
        let views = visit::views(&seen.clone(), seen);
        if status::matching(&views, &token).is_empty() {
            let hosts = launcher::hosts::fold(&hosts);
            return Ok(format!("ended run {run} on {hosts}"));
        }
        if Instant::now() > until {
            let limit = END_LIMIT.as_secs();
            let text = format!("run {run} did not end within {limit} s of the request");
            return Err((exit::INVALID, text));
        }
        if !visiting.visit.pause(Duration::from_millis(100)) {
            let signal = i32::try_from(visiting.stop.load(Ordering::SeqCst)).unwrap_or(0);
            let text = format!("asked run {run} to end, and did not wait for its end");
            return Err((exit::by_signal(signal), text));
        }
    }
}
