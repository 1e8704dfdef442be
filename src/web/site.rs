//! Site file `web.toml`: the requests that a site allows from a browser. Requests for anything else are refused.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use toml::Spanned;

use crate::store::bounded;
use crate::units::{self, SECOND_NS};

/// Text of an example file.
pub(crate) const EXAMPLE: &str = include_str!("../../examples/web.toml");
/// Version of the file format.
const VERSION: u32 = 1;
/// Maximum length of a name in bytes. Pages show names, and lock files contain them in their file names.
const NAME_LENGTH: usize = 64;

/// Error in a site's file, as one line.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SiteError {
    /// The file cannot be read.
    #[error("cannot read {}: {}", .0.display(), crate::sys::why(.1))]
    Unreadable(PathBuf, std::io::Error),
    /// An entry of the file is wrong.
    #[error("{}:{line}: {what}", .path.display())]
    Wrong {
        /// The file.
        path: PathBuf,
        /// Line, from 1.
        line: usize,
        /// Key, and the error in its value.
        what: String,
    },
}

impl SiteError {
    /// Error in the value of a key, or in a group, of the file that was read.
    pub(super) fn of_key(path: &Path, key: &str, what: String) -> Self {
        // Only the line number depends on the text.
        let text = bounded::given(path, bounded::TEXT_BYTES).unwrap_or_default();
        Self::Wrong {
            path: path.to_owned(),
            line: line_of(&text, key),
            what,
        }
    }
}

/// Settings of a site.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Site {
    /// Folder of the runs.
    pub results: PathBuf,
    /// File that holds the token.
    pub token_file: PathBuf,
    /// Host names under which the site answers. It always answers under numeric addresses and localhost.
    pub names: Vec<String>,
    /// Prefix of every path, for use with a proxy. Empty, or begins with a slash and does not end with one.
    pub base: String,
    /// Addresses of proxies that are trusted to name the client (`X-Forwarded-For`).
    pub proxies: Vec<IpAddr>,
    /// True if reading needs the token even from this machine.
    pub private: bool,
    /// True if reading never needs the token. If false, reading from other machines, or under names other than this machine's, needs it.
    pub public_reading: bool,
    /// True if browsers use TLS. They then send session cookies over TLS only.
    pub tls: bool,
    /// True if the web server has already checked a name and password (CGI).
    pub trust_remote_user: bool,
    /// Upper limits of a request.
    pub limits: Limits,
    /// Choices of a request.
    pub allow: Allow,
    /// Groups of hosts by name.
    pub groups: BTreeMap<String, Group>,
}

/// Upper limits of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Limits {
    /// Maximum window of a test, in nanoseconds.
    pub time_ns: u64,
    /// Maximum planned duration of a whole run, in nanoseconds. A run that exceeds it by more than a margin is ended.
    pub duration_ns: u64,
    /// Maximum rate of a link, in bits per second, and the default of a request. `None`: unlimited.
    pub rate_bits_per_s: Option<u64>,
    /// Maximum number of runs that wait for a fabric.
    pub waiting: usize,
    /// Maximum number of starts per minute from one address.
    pub starts_per_minute: u32,
}

/// Choices of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Allow {
    /// Allowed patterns. The first one is the default.
    pub patterns: Vec<String>,
    /// Allowed profiles. The first one is the default.
    pub profiles: Vec<String>,
    /// Maximum number of phases.
    pub phases: usize,
    /// True if a request can name hosts outside the groups.
    pub free_hosts: bool,
}

/// Hosts that share a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Group {
    /// Place of its table in the file, which is its place in lists.
    pub place: usize,
    /// Command line word that names the hosts: `--hosts=...` or `--hostfile=...`.
    pub hosts: String,
    /// Fabric that the hosts share. It carries one run at a time.
    pub fabric: String,
    /// Additional command line words of load tests, for which the site is responsible.
    pub options: Vec<String>,
    /// The same of other commands, by their names. For `latency` the first word is the file of the cables; without it, no latency can be measured.
    pub commands: BTreeMap<&'static str, Vec<String>>,
}

impl Group {
    /// The host list, or the name of the host file without its folder.
    pub(super) fn listed(&self) -> &str {
        let (_, hosts) = self.hosts.split_once('=').unwrap_or_default();
        hosts.rsplit('/').next().unwrap_or_default()
    }
}

/// Fabric of hosts outside the groups.
pub(super) const FREE_FABRIC: &str = "free";

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Written {
    version: u32,
    results: PathBuf,
    token_file: Option<PathBuf>,
    #[serde(default)]
    names: Vec<String>,
    #[serde(default)]
    base: String,
    #[serde(default)]
    proxies: Vec<IpAddr>,
    #[serde(default)]
    private: bool,
    #[serde(default)]
    public_reading: bool,
    #[serde(default)]
    tls: bool,
    #[serde(default)]
    trust_remote_user: bool,
    #[serde(default)]
    limits: WrittenLimits,
    #[serde(default)]
    allow: WrittenAllow,
    #[serde(default)]
    groups: BTreeMap<String, Spanned<WrittenGroup>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
struct WrittenLimits {
    time: String,
    duration: String,
    rate: Option<String>,
    waiting: usize,
    starts_per_minute: u32,
}

impl Default for WrittenLimits {
    fn default() -> Self {
        Self {
            time: "60s".to_owned(),
            duration: "30m".to_owned(),
            rate: None,
            waiting: 8,
            starts_per_minute: 12,
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
struct WrittenAllow {
    patterns: Vec<String>,
    profiles: Vec<String>,
    phases: usize,
    free_hosts: bool,
}

impl Default for WrittenAllow {
    fn default() -> Self {
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        Self {
            patterns: words(&["all-to-all", "mesh", "rotate"]),
            profiles: words(&["quick", "acceptance"]),
            phases: 3,
            free_hosts: false,
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct WrittenGroup {
    hosts: Option<String>,
    hostfile: Option<PathBuf>,
    fabric: Option<String>,
    #[serde(default)]
    options: Vec<String>,
    #[serde(default)]
    linktest: Vec<String>,
    #[serde(default)]
    latency: Vec<String>,
    #[serde(default)]
    imb: Vec<String>,
}

/// Formats a time in nanoseconds for people: `500 ms`, `30 s`, `12 min`.
pub(super) fn length(ns: u64) -> String {
    const MINUTES_FROM_NS: u64 = 120 * SECOND_NS;
    match ns < MINUTES_FROM_NS {
        true => units::show_ns(ns),
        false => units::show_age(ns.div_ceil(SECOND_NS)),
    }
}

impl Site {
    /// Groups in the order of the file.
    pub(super) fn groups_in_order(&self) -> Vec<(&String, &Group)> {
        let mut groups: Vec<_> = self.groups.iter().collect();
        groups.sort_by_key(|(_, group)| group.place);
        groups
    }

    /// Describes the settings for the site's administrator, one per line. `listen` is the address of the server.
    pub(crate) fn lines(&self, listen: SocketAddr) -> Vec<String> {
        let limits = &self.limits;
        let is_open = !listen.ip().is_loopback();
        let readers = match (self.private, self.public_reading) {
            (false, true) => "every client, without the token",
            (false, false) if !is_open => {
                "on this machine, the user who runs the server; all others with the token"
            }
            _ => "only with the token",
        };
        let made = match self.token_file.exists() {
            true => "",
            false => " (the first start creates it)",
        };
        let rate = limits.rate_bits_per_s.map_or_else(
            || "unlimited rate".to_owned(),
            |rate| format!("{} per link", units::show_rate(rate as f64)),
        );
        let mut lines = vec![
            format!("address    http://{listen}{}/", self.base),
            format!("reading    {readers}"),
            format!("token      {}{made}", self.token_file.display()),
            format!("results    {}", self.results.display()),
            format!(
                "limits     {} per test, {} per run, {rate}; {} queued runs per fabric, {} starts per minute",
                length(limits.time_ns),
                length(limits.duration_ns),
                limits.waiting,
                limits.starts_per_minute
            ),
            format!("profiles   {}", self.allow.profiles.join(", ")),
            format!(
                "patterns   {}; up to {} phases",
                self.allow.patterns.join(", "),
                self.allow.phases
            ),
        ];
        for (name, group) in self.groups_in_order() {
            let hosts = std::slice::from_ref(&group.hosts);
            let words = [hosts, &group.options].concat().join(" ");
            let fabric = &group.fabric;
            lines.push(format!("group      {name}: {words} (fabric {fabric})"));
            for (command, words) in group.commands.iter().filter(|(_, words)| !words.is_empty()) {
                lines.push(format!("           {command} {words:?}"));
            }
        }
        if self.allow.free_hosts {
            lines.push("hosts      users can enter any host name".to_owned());
        }
        lines
    }
}

/// Reads the file of a site. Paths in it are relative to its folder.
pub(crate) fn read(path: &Path) -> Result<Site, SiteError> {
    let text = bounded::given(path, bounded::TEXT_BYTES)
        .map_err(|error| SiteError::Unreadable(path.to_owned(), error))?;
    parse(&text, path)
}

fn parse(text: &str, path: &Path) -> Result<Site, SiteError> {
    let line_at = |at: usize| text.bytes().take(at).filter(|byte| *byte == b'\n').count() + 1;
    let wrong = |line: usize, what: String| SiteError::Wrong {
        path: path.to_owned(),
        line,
        what,
    };
    let written: Written = toml::from_str(text).map_err(|error| {
        let line = error.span().map_or(1, |span| line_at(span.start));
        let what = match error.message() {
            // No other key has a map.
            "invalid type: sequence, expected a map" => {
                "groups: write a table for each group: [groups.NAME], not [[groups]]"
            }
            what => what,
        };
        wrong(line, what.to_owned())
    })?;
    settle(written, path.parent().unwrap_or(Path::new(".")))
        .map_err(|(key, what)| wrong(line_of(text, &key), format!("{key}: {what}")))
}

/// Line of a group's table or of a key, from 1. The first line if it has none, as with a default.
fn line_of(text: &str, key: &str) -> usize {
    let quoted = format!("\"{key}\"");
    let has = |line: &str| {
        let line = line.trim_start();
        let (rest, end) = match line.strip_prefix("[groups.") {
            Some(rest) => (rest, ']'),
            None => (line, '='),
        };
        [key, quoted.as_str()].iter().any(|name| {
            let after = rest.strip_prefix(*name);
            after.is_some_and(|after| after.trim_start().starts_with(end))
        })
    };
    text.lines().position(has).map_or(1, |index| index + 1)
}

/// Key, and the error in its value.
type Wrong = (String, String);

fn settle(written: Written, folder: &Path) -> Result<Site, Wrong> {
    let wrong = |key: &str, what: &str| (key.to_owned(), what.to_owned());
    if written.version != VERSION {
        return Err(wrong("version", "this pipebench reads version 1 only"));
    }
    if written.groups.is_empty() && !written.allow.free_hosts {
        return Err(wrong(
            "groups",
            "no group of hosts, and [allow] has no free-hosts = true: this site allows no run (add [groups.NAME])",
        ));
    }
    let base = written.base;
    if !base.is_empty()
        && (!base.starts_with('/') || base.ends_with('/') || !has_only(&base, "/._-"))
    {
        return Err(wrong(
            "base",
            "must be a path such as \"/pipebench\", without a slash at its end",
        ));
    }
    let allow = written.allow;
    for (key, list) in [("patterns", &allow.patterns), ("profiles", &allow.profiles)] {
        if list.is_empty() {
            return Err(wrong(key, "name at least one"));
        }
        if let Some(bad) = list.iter().find(|word| !is_plain(word)) {
            return Err((
                key.to_owned(),
                format!("{bad:?} is not a valid name (letters, digits, : and -)"),
            ));
        }
    }
    if allow.phases < 2 {
        return Err(wrong("phases", "must be at least 2"));
    }
    let results = folder.join(written.results);
    let token_file = written.token_file.map(|file| folder.join(file));
    let groups = written.groups.into_iter().map(|(name, group)| {
        let settled = group_of(&name, group, folder).map_err(|what| (name.clone(), what))?;
        Ok((name, settled))
    });
    Ok(Site {
        token_file: token_file.unwrap_or_else(|| results.join(".token")),
        results,
        names: written.names,
        base,
        proxies: written.proxies.iter().map(IpAddr::to_canonical).collect(),
        private: written.private,
        public_reading: written.public_reading,
        tls: written.tls,
        trust_remote_user: written.trust_remote_user,
        limits: limits_of(&written.limits)?,
        allow: Allow {
            patterns: allow.patterns,
            profiles: allow.profiles,
            phases: allow.phases,
            free_hosts: allow.free_hosts,
        },
        groups: groups.collect::<Result<_, Wrong>>()?,
    })
}

fn limits_of(written: &WrittenLimits) -> Result<Limits, Wrong> {
    let time = |key: &str, text: &str| match units::parse_duration_ns(text) {
        Ok(ns) if ns >= SECOND_NS => Ok(ns),
        Ok(_) => Err((key.to_owned(), "must be at least one second".to_owned())),
        Err(error) => Err((key.to_owned(), error.to_string())),
    };
    let rate = written.rate.as_deref().map(units::parse_rate_bits);
    Ok(Limits {
        time_ns: time("time", &written.time)?,
        duration_ns: time("duration", &written.duration)?,
        rate_bits_per_s: rate
            .transpose()
            .map_err(|error| ("rate".to_owned(), error.to_string()))?,
        waiting: written.waiting,
        starts_per_minute: written.starts_per_minute.max(1),
    })
}

fn group_of(name: &str, written: Spanned<WrittenGroup>, folder: &Path) -> Result<Group, String> {
    let place = written.span().start;
    let written = written.into_inner();
    let named = |text: &str| (1..=NAME_LENGTH).contains(&text.len()) && has_only(text, " ._-");
    if !named(name) {
        return Err("a group name has 1 to 64 letters, digits, spaces or any of ._-".to_owned());
    }
    let hosts = match (written.hosts, written.hostfile) {
        (Some(hosts), None) => format!("--hosts={hosts}"),
        (None, Some(file)) => format!("--hostfile={}", folder.join(file).display()),
        _ => return Err("give either hosts or hostfile".to_owned()),
    };
    let fabric = written.fabric.unwrap_or_else(|| name.to_owned());
    if !named(&fabric) {
        return Err(format!(
            "fabric {fabric:?}: a fabric name has 1 to 64 letters, digits, spaces or any of ._-"
        ));
    }
    let mut latency = written.latency;
    if let Some(cables) = latency.first_mut() {
        *cables = folder.join(&*cables).display().to_string();
    }
    let commands = [
        ("linktest", written.linktest),
        ("latency", latency),
        ("imb", written.imb),
    ];
    Ok(Group {
        place,
        hosts,
        fabric,
        options: written.options,
        commands: commands.into(),
    })
}

/// True if a text has only letters and digits of ASCII, and any of `others`.
pub(super) fn has_only(text: &str, others: &str) -> bool {
    let fits = |letter: char| letter.is_ascii_alphanumeric() || others.contains(letter);
    text.chars().all(fits)
}

/// True if a word can only be the value of an option.
fn is_plain(word: &str) -> bool {
    word.starts_with(|first: char| first.is_ascii_alphanumeric()) && has_only(word, ":-")
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A site with two groups, for tests to change.
    pub(crate) fn site() -> Site {
        let text = "version = 1\nresults = \"runs\"\n[limits]\nrate = \"10G\"\n[groups.\"rack 7\"]\nhosts = \"n[1-4]\"\n\
            [groups.local]\nhosts = \"local:3\"\noptions = [\"--warmup=200ms\"]\n";
        parse(text, Path::new("/etc/pipebench/web.toml")).unwrap()
    }

    #[test]
    fn the_example_is_a_site() {
        let site = parse(EXAMPLE, Path::new("/etc/pipebench/web.toml")).unwrap();
        assert!(!site.groups.is_empty());
        assert!(!site.allow.free_hosts);
    }

    #[test]
    fn paths_are_seen_from_the_file_and_what_is_not_said_has_its_usual_value() {
        let site = site();
        assert_eq!(site.results, Path::new("/etc/pipebench/runs"));
        assert_eq!(site.token_file, Path::new("/etc/pipebench/runs/.token"));
        assert_eq!(site.limits.rate_bits_per_s, Some(10_000_000_000));
        assert_eq!(site.groups["rack 7"].fabric, "rack 7");
        assert_eq!(site.groups["rack 7"].hosts, "--hosts=n[1-4]");
        assert_eq!(site.groups["rack 7"].listed(), "n[1-4]");
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line() {
        let head = "version = 1\nresults = \"runs\"\n";
        let group = "[groups.a]\nhosts = \"n1,n2\"\n";
        for (text, words) in [
            (
                "version = 2\nresults = \"x\"\n".to_owned() + group,
                "web.toml:1: version: ",
            ),
            (head.to_owned(), "groups: no group"),
            (
                format!("{head}colour = 1\n{group}"),
                "web.toml:3: unknown field `colour`",
            ),
            (
                format!("{head}{group}fabric = \"../x\"\n"),
                "fabric \"../x\"",
            ),
            (
                format!("{head}[groups.a]\n"),
                "web.toml:3: a: give either hosts or hostfile",
            ),
            (
                format!("{head}{group}[limits]\ntime = \"x\"\n"),
                "web.toml:6: time: ",
            ),
            (
                format!("{head}{group}[allow]\npatterns = [\"--rsh\"]\n"),
                "patterns: \"--rsh\"",
            ),
            (format!("{head}base = \"x\"\n{group}"), "web.toml:3: base: "),
            (
                format!("{head}proxies = [\"n1\"]\n{group}"),
                "web.toml:3: invalid IP address",
            ),
            (
                format!("{head}[[groups]]\nhosts = \"n1,n2\"\n"),
                "groups: write a table for each group: [groups.NAME]",
            ),
        ] {
            let error = parse(&text, Path::new("web.toml")).unwrap_err().to_string();
            assert!(error.contains(words), "{text}: {error}");
        }
    }

    /// Symptom: `rack 7`, the production group, stood before `this machine`, and was chosen unasked.
    #[test]
    fn groups_are_listed_in_the_order_of_the_file() {
        let site = parse(EXAMPLE, Path::new("web.toml")).unwrap();
        let names: Vec<&str> = site
            .groups_in_order()
            .into_iter()
            .map(|(name, _)| name.as_str())
            .collect();
        assert_eq!(names, ["this machine", "rack 7"]);
    }

    #[test]
    fn a_key_or_group_is_found_in_its_own_line() {
        let text = "version = 1\n[groups.ab]\nfabric = \"rack 7\"\n[groups.a]\n  hosts=\"n1\"\n[groups.\"rack 7\"]\n";
        let found = ["version", "ab", "a", "hosts", "rack 7", "patterns"];
        assert_eq!(found.map(|key| line_of(text, key)), [1, 2, 4, 5, 6, 1]);
    }

    /// Symptom: "0.2000 Gbit/s per link".
    #[test]
    fn a_limit_of_the_rate_has_the_unit_that_fits() {
        let mut site = site();
        site.limits.rate_bits_per_s = Some(200_000_000);
        let lines = site.lines("127.0.0.1:8080".parse().unwrap()).join("\n");
        assert!(lines.contains(", 200.0 Mbit/s per link; "), "{lines}");
    }

    #[test]
    fn the_description_says_who_may_read() {
        let readers = |listen: &str, change: fn(&mut Site)| {
            let mut site = site();
            change(&mut site);
            let lines = site.lines(listen.parse().unwrap());
            assert_eq!(lines[0], format!("address    http://{listen}/"));
            lines[1].clone()
        };
        let (here, everywhere) = ("127.0.0.1:8080", "0.0.0.0:8080");
        let own =
            "reading    on this machine, the user who runs the server; all others with the token";
        let token = "reading    only with the token";
        assert_eq!(readers(here, |_| {}), own);
        assert_eq!(readers(everywhere, |_| {}), token);
        assert_eq!(readers(here, |site| site.private = true), token);
        let both = readers(here, |site| {
            site.private = true;
            site.public_reading = true;
        });
        assert_eq!(both, token);
        let all = readers(everywhere, |site| site.public_reading = true);
        assert_eq!(all, "reading    every client, without the token");
    }
}
