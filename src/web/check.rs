//! `pipebench serve --check`: finds what a start of the server, or every run of some hosts, profile or pattern, would be refused for. It calls the
//! checks of a start and of a request, and changes no file.

use std::path::Path;

use super::queue;
use super::request::{COMMANDS, Fields};
use super::run_store::RunStore;
use super::site::{Site, SiteError};
use super::token;
use super::tools::Tools;

/// Pattern and profile that suit any hosts: a request with them that is refused has wrong hosts or options.
const PATTERN: &str = "all-to-all";
const PROFILE: &str = "quick";
/// Hosts of a request for free hosts.
const FREE_HOSTS: &str = "n[1-64]";
/// Windows of a request: that of the profile, and the shortest one that every site allows, since users can shorten a run.
const TIMES: [&str; 2] = ["", "1s"];

/// Checks a site, which was read from `path`.
pub(crate) fn check(site: &Site, path: &Path, tools: &Tools) -> Result<(), SiteError> {
    let wrong = |key: &str, what: String| SiteError::of_key(path, key, what);
    RunStore::check(&site.results).map_err(|error| wrong("results", error.to_string()))?;
    token::check(site).map_err(|error| wrong("token-file", error.to_string()))?;
    let mut wide = site.clone();
    wide.allow.patterns.insert(0, PATTERN.to_owned());
    let commands = COMMANDS.map(|(command, _)| command);
    let profiles = [PROFILE].into_iter().chain(commands);
    wide.allow.profiles.extend(profiles.map(str::to_owned));
    let requests = requests(&wide);
    // A pattern that suits only some groups is no error, so one accepted request is enough.
    let expect_one = |key: &str, is_of: &dyn Fn(&Fields) -> bool| {
        let mut first = None;
        for fields in requests.iter().filter(|fields| is_of(fields)) {
            match queue::offer(fields, &wide, tools) {
                Ok(_) => return Ok(()),
                Err(refusal) => first = first.or(Some(refusal)),
            }
        }
        let what = first.map(|refusal| wrong(key, format!("{key}: {}", refusal.what)));
        what.map_or(Ok(()), Err)
    };
    for (name, group) in &site.groups {
        expect_one(name, &|fields| {
            fields.group == *name && fields.profile == PROFILE
        })?;
        for command in group.commands.iter().filter(|(_, words)| !words.is_empty()) {
            expect_one(name, &|fields| {
                fields.group == *name && fields.profile == *command.0
            })?;
        }
    }
    for profile in &site.allow.profiles {
        expect_one("profiles", &|fields| fields.profile == *profile)?;
    }
    for pattern in &site.allow.patterns {
        expect_one("patterns", &|fields| {
            fields.profile == PROFILE && fields.pattern == *pattern
        })?;
    }
    Ok(())
}

/// Requests for all that a site allows.
fn requests(site: &Site) -> Vec<Fields> {
    let group = |name: &String| Fields {
        group: name.clone(),
        ..Fields::default()
    };
    let free = site.allow.free_hosts.then(|| Fields {
        hosts: FREE_HOSTS.to_owned(),
        ..Fields::default()
    });
    let mut requests = Vec::new();
    for hosts in site.groups.keys().map(group).chain(free) {
        for profile in &site.allow.profiles {
            for pattern in &site.allow.patterns {
                requests.extend(TIMES.map(|time| Fields {
                    profile: profile.clone(),
                    pattern: pattern.clone(),
                    time: time.to_owned(),
                    ..hosts.clone()
                }));
            }
        }
    }
    requests
}
