//! A requested run: checks the received fields against what the site allows, and turns them into words of the command line.
//!
//! Each word of a user is `--option=value`, so that nothing in a value can become a separate option.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::plan::RunPlan;
use crate::report::listing;
use crate::{outside, units};

use super::site::{FREE_FABRIC, Site, has_only, length};

/// Version of a stored request.
pub(super) const REQUEST_VERSION: u32 = 1;
/// Maximum length of a name and of a note, in characters, and of a list of hosts, in bytes.
const MOST_NAME: usize = 64;
const MOST_NOTE: usize = 200;
const MOST_HOSTS: usize = 4096;
/// Maximum number of hosts that a user types in. The plan of a run covers all pairs of them.
const MOST_FREE: usize = 1024;
/// Window of a test of the profile `quick` without `--time`.
pub(super) const QUICK_NS: u64 = 10 * units::SECOND_NS;

/// Profiles that are commands of their own: each measures until it is done, with no phases, patterns and times to choose.
pub(super) const COMMANDS: [(&str, &str); 3] = [
    ("linktest", "link test"),
    ("latency", "latencies of cables"),
    ("imb", "patterns of messages"),
];

/// What a run loads. A missing field has the site's default.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Fields {
    /// Name of one of the site's groups of hosts.
    pub group: String,
    /// Host names, if the site has `free-hosts = true`.
    #[schema(max_length = 4096)]
    pub hosts: String,
    /// Pattern of nodes that send to each other. Empty: the site's first one.
    pub pattern: String,
    /// Profile, which sets how thorough the run is. Empty: the site's first one.
    pub profile: String,
    /// Phases of the pipeline. `null`: 2.
    #[schema(minimum = 2)]
    pub phases: Option<usize>,
    /// Window of each test, such as 30s. Empty: that of the profile.
    pub time: String,
    /// Maximum rate of a link, such as 1G. Empty: that of the site.
    pub rate: String,
    /// Name of the requester.
    #[schema(max_length = 64)]
    pub by: String,
    /// Purpose of the run.
    #[schema(max_length = 200)]
    pub note: String,
}

/// Values as typed into a form, by the name of their field.
pub(super) type Typed = BTreeMap<String, String>;

impl Fields {
    /// Reads what was typed into a form. Ignores unknown fields.
    pub(super) fn read(typed: &Typed) -> Self {
        let of = |name: &str| typed.get(name).cloned().unwrap_or_default();
        let phases = of("phases");
        let phases = match phases.trim() {
            "" => None,
            // No site allows 0.
            text => Some(text.parse().unwrap_or(0)),
        };
        let [profile, pattern] = test_of(typed);
        Self {
            group: of("group"),
            hosts: of("hosts"),
            pattern,
            profile,
            phases,
            time: of("time"),
            rate: of("rate"),
            by: of("by"),
            note: of("note"),
        }
    }

    /// The values that a form has to send for these fields.
    pub(super) fn typed(&self) -> Typed {
        let phases = self
            .phases
            .map_or_else(String::new, |phases| phases.to_string());
        let own = [
            ("group", &self.group),
            ("hosts", &self.hosts),
            ("pattern", &self.pattern),
            ("profile", &self.profile),
            ("phases", &phases),
            ("time", &self.time),
            ("rate", &self.rate),
            ("by", &self.by),
            ("note", &self.note),
        ];
        own.map(|(name, value)| (name.to_owned(), value.clone()))
            .into()
    }
}

/// Profile and pattern of a form: it has one choice of both, `test`, or two fields.
pub(super) fn test_of(typed: &Typed) -> [String; 2] {
    let of = |name: &str| typed.get(name).map_or("", String::as_str);
    let two = match of("test") {
        "" => [of("profile"), of("pattern")],
        test => test.split_once(' ').unwrap_or((test, "")).into(),
    };
    two.map(str::to_owned)
}

/// Error in a field, as one sentence.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {what}")]
pub(super) struct Refusal {
    /// Name of the field.
    pub field: &'static str,
    /// Error in its value.
    pub what: String,
    /// Errors in other fields of the request.
    pub others: Vec<Refusal>,
}

impl Refusal {
    /// Refuses the value of a field.
    pub(super) fn of(field: &'static str, what: impl ToString) -> Self {
        Self {
            field,
            what: what.to_string(),
            others: Vec::new(),
        }
    }

    /// This error and those in other fields.
    pub(super) fn all(&self) -> impl Iterator<Item = &Self> {
        std::iter::once(self).chain(&self.others)
    }
}

/// A stored request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Request {
    /// [`REQUEST_VERSION`] of the writer.
    pub version: u32,
    /// Name of the run.
    pub name: String,
    /// Time of the request, in milliseconds since 1970.
    pub asked_ms: u64,
    /// What was asked for.
    #[serde(flatten)]
    pub asked: Asked,
    /// Ports, nodes, tests and time of the run.
    pub extent: Extent,
    /// Its nodes, folded. Empty in requests of earlier versions.
    #[serde(default)]
    pub hosts: String,
    /// Time after which the run is ended, in milliseconds.
    pub limit_ms: u64,
}

/// Ports, nodes, tests and time of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub(super) struct Extent {
    /// Number of loaded ports, one per host and rail. Zero if no data leave this machine.
    pub ports: usize,
    /// Number of nodes.
    pub nodes: usize,
    /// Number of tests, which run one after the other.
    pub tests: usize,
    /// Time in which data flow, in milliseconds, warm-up included. Start and drain are not counted. Zero if the run measures until it is done.
    pub data_ms: u64,
}

/// Fields after the check against the site.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Asked {
    /// Name of the requester.
    pub by: String,
    /// Purpose of the run.
    pub note: String,
    /// Loaded hosts and tests, in words.
    pub what: String,
    /// Fabric that its hosts share.
    pub fabric: String,
    /// Fields as received. They are checked against the site again when the run needs a new runner.
    pub fields: Fields,
    /// Words of the command line.
    pub words: Vec<String>,
}

impl Asked {
    /// Hosts and pattern, as a headline: `rack 7 - mesh`.
    pub(super) fn title(&self) -> String {
        let hosts = match self.fields.group.trim() {
            "" => self.fields.hosts.trim(),
            group => group,
        };
        let of_command = || self.command().map(|(_, name)| name);
        match self
            .value("--pattern=")
            .or_else(|| self.value("--profile="))
            .or_else(of_command)
        {
            Some(test) => format!("{hosts} - {test}"),
            None => hosts.to_owned(),
        }
    }

    /// Name of the group of hosts. `None` for hosts that a user typed.
    pub(super) fn group(&self) -> Option<String> {
        let group = self.fields.group.trim();
        (!group.is_empty()).then(|| group.to_owned())
    }

    /// Profile, also if it is the site's default.
    pub(super) fn profile(&self) -> Option<String> {
        let of_command = || self.command().map(|(command, _)| command);
        let profile = self.value("--profile=").or_else(of_command);
        profile.map(str::to_owned)
    }

    /// Maximum rate of a link, also if it is the site's default. `None`: unlimited.
    pub(super) fn rate_bits_per_s(&self) -> Option<u64> {
        units::parse_rate_bits(self.value("--rate=")?).ok()
    }

    /// Value of the last option that begins with this text: the site's own words stand before those of a request.
    fn value(&self, option: &str) -> Option<&str> {
        let mut words = self.words.iter().rev();
        words.find_map(|word| word.strip_prefix(option))
    }

    fn command(&self) -> Option<(&'static str, &'static str)> {
        let first = self.words.first()?;
        COMMANDS.into_iter().find(|(command, _)| first == command)
    }
}

/// Checks fields against the site and builds the words of the command line. The error names all fields that the site refuses.
pub(super) fn hold(fields: &Fields, site: &Site) -> Result<Asked, Refusal> {
    let mut wrong = Vec::new();
    let mut by = noted(line("by", &fields.by, MOST_NAME), &mut wrong);
    if by.is_empty() {
        by.push_str("unnamed");
    }
    let note = noted(line("note", &fields.note, MOST_NOTE), &mut wrong);
    let profile = one_of("profile", &fields.profile, &site.allow.profiles);
    let profile = noted(profile, &mut wrong);
    let command = COMMANDS.iter().find(|(name, _)| *name == profile);
    let hosts = hosts_of(fields, site, command.map(|(name, _)| *name));
    let (mut words, fabric, named) = noted(hosts, &mut wrong);
    let mut what = format!("{named}: ");
    match command {
        None => load(fields, site, &profile, (&mut words, &mut what), &mut wrong),
        Some((command, name)) => {
            if !fields.time.trim().is_empty() {
                let said = "leave it empty: this test takes as long as it needs";
                wrong.push(Refusal::of("time", said));
            }
            if fields.phases.is_some_and(|phases| phases != 2) {
                let said = "leave it at 2: this test has no phases";
                wrong.push(Refusal::of("phases", said));
            }
            let begin: &[&str] = match *command {
                "linktest" => &["linktest", "--no-sion-file"],
                "latency" => &["latency", "run"],
                other => &[other],
            };
            // The words of the group begin with the file of its cables. Without any words, its hosts are wrong.
            if *command == "latency" && words.len() == 1 {
                let said = "the site's file names no cables for these hosts (latency = [\"FILE\"])";
                wrong.push(Refusal::of("profile", said));
            }
            words.splice(..0, begin.iter().map(|word| (*word).to_owned()));
            what += name;
            // Options of a group's command say what is measured.
            if let Some(own) = site
                .groups
                .get(fields.group.trim())
                .and_then(|known| known.commands.get(command))
                && !own.is_empty()
            {
                what += &format!(" ({})", own.join(" "));
            }
        }
    }
    let most = site.limits.rate_bits_per_s;
    let asked = noted(rate_of(&fields.rate, most), &mut wrong);
    if let Some(rate) = asked.or(most) {
        words.push(format!("--rate={rate}"));
        // A limited and an unlimited run must not read alike.
        what += &format!(", at most {} per link", units::show_rate(rate as f64));
    }
    let mut wrong = wrong.into_iter();
    if let Some(first) = wrong.next() {
        let others = wrong.collect();
        return Err(Refusal { others, ..first });
    }
    Ok(Asked {
        by,
        note,
        what,
        fabric,
        fields: fields.clone(),
        words,
    })
}

/// The value of a field. A refused one is noted and has its default, so that the other fields are checked too.
fn noted<T: Default>(checked: Result<T, Refusal>, wrong: &mut Vec<Refusal>) -> T {
    checked.unwrap_or_else(|refusal| {
        wrong.push(refusal);
        T::default()
    })
}

/// Words of the command line for the requested hosts and their options, the fabric of the hosts, and their name.
fn hosts_of(
    fields: &Fields,
    site: &Site,
    command: Option<&str>,
) -> Result<(Vec<String>, String, String), Refusal> {
    let refuse = |field: &'static str, what: &str| Err(Refusal::of(field, what));
    let (group, hosts) = (fields.group.trim(), fields.hosts.trim());
    match (site.groups.get(group), group.is_empty(), hosts.is_empty()) {
        (Some(known), _, true) => {
            let mut words = match command {
                None => known.options.clone(),
                Some(command) => known.commands.get(command).cloned().unwrap_or_default(),
            };
            words.push(known.hosts.clone());
            Ok((words, known.fabric.clone(), group.to_owned()))
        }
        (None, true, false) if site.allow.free_hosts => {
            check_hosts(hosts).map_err(|what| Refusal::of("hosts", what))?;
            let words = vec![format!("--hosts={hosts}")];
            Ok((words, FREE_FABRIC.to_owned(), hosts.to_owned()))
        }
        (_, true, false) => refuse("hosts", "this site allows only its own groups of hosts"),
        (_, false, false) => refuse("hosts", "give either a group or hosts, not both"),
        (_, true, true) => refuse("group", "choose the hosts"),
        (None, false, true) => refuse("group", "this site has no such group"),
    }
}

/// The requested maximum rate of a link in bits per second, if any.
fn rate_of(text: &str, most: Option<u64>) -> Result<Option<u64>, Refusal> {
    let text = text.trim();
    if text.is_empty() {
        return Ok(None);
    }
    let is_zero = text.trim_matches(['0', '.']).is_empty();
    let asked = match is_zero {
        true => 0,
        false => units::parse_rate_bits(text).map_err(|error| Refusal::of("rate", error))?,
    };
    match most {
        _ if asked == 0 => Err(Refusal::of("rate", "must be more than 0")),
        Some(most) if asked > most => {
            let most = units::show_rate(most as f64);
            let what = format!("this site allows at most {most} per link");
            Err(Refusal::of("rate", what))
        }
        _ => Ok(Some(asked)),
    }
}

/// Adds the words of a load test and says it in words.
fn load(
    fields: &Fields,
    site: &Site,
    profile: &str,
    (words, what): (&mut Vec<String>, &mut String),
    wrong: &mut Vec<Refusal>,
) {
    let pattern = one_of("pattern", &fields.pattern, &site.allow.patterns);
    let pattern = noted(pattern, wrong);
    let phases = fields.phases.unwrap_or(2);
    if !(2..=site.allow.phases).contains(&phases) {
        let said = format!("must be from 2 to {}", site.allow.phases);
        wrong.push(Refusal::of("phases", said));
    }
    words.push(format!("--profile={profile}"));
    // The acceptance profile has its own patterns.
    *what += profile;
    if profile == "quick" {
        words.push(format!("--pattern={pattern}"));
        *what += &format!(", {pattern}");
    }
    words.push(format!("--phases={phases}"));
    *what += &format!(", {phases} phases");
    let is_bounded = words.iter().any(|word| {
        let mut bounds = ["--time", "--buffers", "--source"].iter();
        bounds.any(|option| word.starts_with(*option))
    });
    let most_ns = site.limits.time_ns;
    let window_ns = match fields.time.trim() {
        // The usual window would be refused. An acceptance is never shortened unasked.
        "" if profile == "quick" && most_ns < QUICK_NS && !is_bounded => Some(most_ns),
        "" => None,
        text => {
            let ns = units::parse_duration_ns(text).map_err(|error| Refusal::of("time", error));
            let ns = ns.and_then(|ns| within("a test would take", ns, most_ns).map(|()| ns));
            noted(ns.map(Some), wrong)
        }
    };
    if let Some(ns) = window_ns {
        words.push(format!("--time={}ms", ns.div_ceil(1_000_000)));
        *what += &format!(", {} each", length(ns));
    }
}

/// Refuses a time that exceeds what the site allows.
fn within(takes: &str, ns: u64, allowed_ns: u64) -> Result<(), Refusal> {
    if ns <= allowed_ns {
        return Ok(());
    }
    let (ns, allowed) = (length(ns), length(allowed_ns));
    let what = format!("{takes} {ns}; this site allows at most {allowed} (give a shorter time)");
    Err(Refusal::of("time", what))
}

impl Extent {
    /// Computes the extent of a plan. The error means that a time exceeds the site's limits, or that time does not bound a test.
    pub(super) fn of(plan: &RunPlan, site: &Site) -> Result<Self, Refusal> {
        let mut data_ns = 0_u64;
        for test in plan.tests() {
            let Some((warmup_ns, window_ns)) = test.bound.times_ns() else {
                return Err(Refusal::of(
                    "time",
                    "this site starts only runs whose tests have a time limit",
                ));
            };
            within("a test would take", window_ns, site.limits.time_ns)?;
            data_ns = data_ns.saturating_add(warmup_ns).saturating_add(window_ns);
        }
        within("the run would take", data_ns, site.limits.duration_ns)?;
        let mut hosts: Vec<&str> = plan.nodes.iter().map(|node| node.host.as_str()).collect();
        hosts.sort_unstable();
        hosts.dedup();
        // This machine loads a port, too, unless all nodes are on it.
        if plan.nodes.iter().all(|node| node.local) {
            hosts.clear();
        }
        let rails = plan.tests().iter().map(|test| test.rails).max();
        Ok(Self {
            ports: hosts.len() * rails.unwrap_or(1),
            nodes: plan.nodes.len(),
            tests: plan.tests().len(),
            data_ms: data_ns / 1_000_000,
        })
    }

    /// Text of the question before the start.
    pub(super) fn question(&self) -> String {
        let time = match self.data_ms {
            0 => "until all is measured".to_owned(),
            ms => format!("for {}", units::show_age(ms.div_ceil(1000))),
        };
        match self.ports {
            0 => format!("Loads this machine with {} nodes {time}.", self.nodes),
            1 => format!("Loads 1 port {time}."),
            ports => format!("Loads {ports} ports {time}."),
        }
    }
}

/// The requested value, if the site's list has it. Empty `asked`: the list's first value.
fn one_of(field: &'static str, asked: &str, list: &[String]) -> Result<String, Refusal> {
    let asked = asked.trim();
    let found = match asked {
        "" => list.first(),
        _ => list.iter().find(|known| *known == asked),
    };
    let refusal = || Refusal::of(field, format!("this site allows only {}", list.join(", ")));
    found.cloned().ok_or_else(refusal)
}

/// Trims a text and checks that it is one line that a page can show, of at most `most` characters.
fn line(field: &'static str, text: &str, most: usize) -> Result<String, Refusal> {
    let text = text.trim();
    if text.chars().count() > most || text.contains(outside::steers) {
        let what = format!("must be one line of at most {most} characters");
        return Err(Refusal::of(field, what));
    }
    Ok(text.to_owned())
}

/// Checks a list of hosts that a user typed: names alone, so no option, file, or node of the serving machine. The error is a sentence.
fn check_hosts(text: &str) -> Result<(), String> {
    if text.len() > MOST_HOSTS || !has_only(text, "._-[], ") {
        return Err(format!(
            "give host names such as n1,n2 or n[01-16], at most {MOST_HOSTS} characters"
        ));
    }
    let names = listing::plain_hosts(text)?;
    if names.len() > MOST_FREE {
        return Err(format!("give at most {MOST_FREE} hosts"));
    }
    let is_name = |name: &String| {
        name.starts_with(|first: char| first.is_ascii_alphanumeric())
            && has_only(name, "._-")
            && !matches!(name.as_str(), "local" | "auto")
    };
    match names.iter().find(|name| !is_name(name)) {
        Some(name) => Err(format!(
            "{name:?} is no host name (such as n1,n2 or n[01-16])"
        )),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::web::site::tests::site;
    use proptest::prelude::*;

    fn fields() -> Fields {
        Fields {
            group: "rack 7".to_owned(),
            ..Fields::default()
        }
    }

    /// Symptom: a rate of 0 was answered with "0 bit/s? (write 0G, or 0bit/s if you mean that)".
    #[test]
    fn a_rate_of_nothing_is_refused_in_plain_words() {
        for rate in ["0", "0.0", "0G"] {
            let fields = Fields {
                rate: rate.to_owned(),
                ..fields()
            };
            let refusal = hold(&fields, &site()).unwrap_err();
            assert_eq!(
                refusal,
                Refusal::of("rate", "must be more than 0"),
                "{rate}"
            );
        }
        let fields = Fields {
            hosts: "n[01-".to_owned(),
            ..Fields::default()
        };
        let mut free = site();
        free.allow.free_hosts = true;
        assert!(
            hold(&fields, &free)
                .unwrap_err()
                .what
                .contains("unmatched bracket")
        );
    }

    /// Symptom: only load tests could be started from the page.
    #[test]
    fn other_kinds_of_runs_are_commands_with_options_of_their_own() {
        let mut site = site();
        site.allow
            .profiles
            .extend(COMMANDS.map(|(command, _)| command.to_owned()));
        let rack = site.groups.get_mut("rack 7").unwrap();
        rack.options = vec!["--link-speed=25G".to_owned()];
        rack.commands
            .insert("linktest", vec!["--no-pin".to_owned()]);
        let with = |profile: &str| Fields {
            profile: profile.to_owned(),
            ..fields()
        };
        let asked = hold(&with("linktest"), &site).unwrap();
        let words = [
            "linktest",
            "--no-sion-file",
            "--no-pin",
            "--hosts=n[1-4]",
            "--rate=10000000000",
        ];
        assert_eq!(asked.words, words);
        assert_eq!(asked.title(), "rack 7 - link test");
        assert_eq!(
            asked.what,
            "rack 7: link test (--no-pin), at most 10.00 Gbit/s per link"
        );
        let cables = hold(&with("latency"), &site).unwrap_err();
        assert!(cables.what.contains("no cables"), "{cables}");
        let rack = site.groups.get_mut("rack 7").unwrap();
        rack.commands
            .insert("latency", vec!["/etc/cables.toml".to_owned()]);
        let asked = hold(&with("latency"), &site).unwrap();
        assert_eq!(asked.words[..3], ["latency", "run", "/etc/cables.toml"]);
        for (time, phases, field) in [("9s", None, "time"), ("", Some(3), "phases")] {
            let fields = Fields {
                time: time.to_owned(),
                phases,
                ..with("imb")
            };
            assert_eq!(hold(&fields, &site).unwrap_err().field, field);
        }
    }

    /// Symptom: a client had to read group, profile and rate of a run in a sentence.
    #[test]
    fn group_profile_and_rate_of_a_run_are_fields() {
        let of = |fields: &Fields, site: &Site| {
            let asked = hold(fields, site).unwrap();
            let profile = asked.profile().unwrap();
            (asked.group(), profile, asked.rate_bits_per_s())
        };
        let group = Some("rack 7".to_owned());
        let mut site = site();
        let usual = (group.clone(), "quick".to_owned(), Some(10_000_000_000));
        assert_eq!(of(&fields(), &site), usual);
        site.limits.rate_bits_per_s = None;
        site.allow.profiles.push("linktest".to_owned());
        site.allow.free_hosts = true;
        let other = Fields {
            profile: "linktest".to_owned(),
            ..fields()
        };
        assert_eq!(of(&other, &site), (group, "linktest".to_owned(), None));
        let typed = Fields {
            hosts: "n1,n2".to_owned(),
            profile: "acceptance".to_owned(),
            rate: "1G".to_owned(),
            ..Fields::default()
        };
        let expected = (None, "acceptance".to_owned(), Some(1_000_000_000));
        assert_eq!(of(&typed, &site), expected);
    }

    #[test]
    fn lengths_are_described_as_they_are_checked() {
        use utoipa::PartialSchema;

        let schema = serde_json::to_value(Fields::schema()).unwrap();
        for (field, most) in [
            ("hosts", MOST_HOSTS),
            ("by", MOST_NAME),
            ("note", MOST_NOTE),
        ] {
            let described = &schema["properties"][field]["maxLength"];
            assert_eq!(described.as_u64(), Some(most as u64), "{field}");
        }
    }

    #[test]
    fn what_the_site_allows_becomes_words() {
        let asked = hold(&fields(), &site()).unwrap();
        assert_eq!(
            asked.words,
            [
                "--hosts=n[1-4]",
                "--profile=quick",
                "--pattern=all-to-all",
                "--phases=2",
                "--rate=10000000000"
            ]
        );
        assert_eq!(
            (asked.fabric.as_str(), asked.by.as_str()),
            ("rack 7", "unnamed")
        );
        let local = Fields {
            group: "local".to_owned(),
            profile: "acceptance".to_owned(),
            time: "2s".to_owned(),
            rate: "1G".to_owned(),
            ..Fields::default()
        };
        let asked = hold(&local, &site()).unwrap();
        assert_eq!(
            asked.words,
            [
                "--warmup=200ms",
                "--hosts=local:3",
                "--profile=acceptance",
                "--phases=2",
                "--time=2000ms",
                "--rate=1000000000"
            ]
        );
    }

    /// Symptom: with 200M the question said "6 s each. One test.", as for an unlimited run.
    #[test]
    fn a_limited_rate_is_a_part_of_what_a_run_does() {
        let what = |rate: &str, site: &Site| {
            let rate = rate.to_owned();
            hold(&Fields { rate, ..fields() }, site).unwrap().what
        };
        let mut site = site();
        let limited = what("200M", &site);
        assert!(
            limited.ends_with(", at most 200.0 Mbit/s per link"),
            "{limited}"
        );
        assert!(what("", &site).ends_with(", at most 10.00 Gbit/s per link"));
        site.limits.rate_bits_per_s = None;
        assert_eq!(what("", &site), "rack 7: quick, all-to-all, 2 phases");
    }

    #[test]
    fn a_form_has_one_choice_of_profile_and_pattern_and_a_headline_has_their_word() {
        let read = |test: &str| {
            let typed = [("group", "rack 7"), ("test", test), ("phases", "3")];
            let typed = typed.map(|(name, value)| (name.to_owned(), value.to_owned()));
            Fields::read(&typed.into())
        };
        let fields = read("quick mesh");
        assert_eq!(
            (fields.profile.as_str(), fields.pattern.as_str()),
            ("quick", "mesh")
        );
        assert_eq!(Fields::read(&fields.typed()), fields);
        assert_eq!(hold(&fields, &site()).unwrap().title(), "rack 7 - mesh");
        let asked = hold(&read("acceptance"), &site()).unwrap();
        assert_eq!(asked.title(), "rack 7 - acceptance");
    }

    /// Symptom: a site with `time = "5s"` refused a start whose time was left empty.
    #[test]
    fn a_request_without_a_time_has_the_sites_maximum_if_that_is_less_than_usual() {
        let mut site = site();
        site.limits.time_ns = 5 * units::SECOND_NS;
        let has_time = |fields: &Fields, site: &Site| {
            let words = hold(fields, site).unwrap().words;
            words.contains(&"--time=5000ms".to_owned())
        };
        assert!(has_time(&fields(), &site));
        let acceptance = Fields {
            profile: "acceptance".to_owned(),
            ..fields()
        };
        assert!(!has_time(&acceptance, &site));
        let group = site.groups.get_mut("rack 7").unwrap();
        group.options.push("--time=2s".to_owned());
        assert!(!has_time(&fields(), &site));
    }

    #[test]
    fn what_the_site_does_not_allow_is_refused_by_its_field() {
        let with = |change: fn(&mut Fields)| {
            let mut fields = fields();
            change(&mut fields);
            hold(&fields, &site()).unwrap_err().field
        };
        assert_eq!(with(|fields| fields.group = "rack 8".to_owned()), "group");
        assert_eq!(with(|fields| fields.group.clear()), "group");
        assert_eq!(with(|fields| fields.hosts = "n9".to_owned()), "hosts");
        assert_eq!(with(|fields| fields.pattern = "hol".to_owned()), "pattern");
        assert_eq!(with(|fields| fields.profile = "soak".to_owned()), "profile");
        assert_eq!(with(|fields| fields.phases = Some(4)), "phases");
        assert_eq!(with(|fields| fields.time = "x".to_owned()), "time");
        assert_eq!(with(|fields| fields.rate = "11G".to_owned()), "rate");
        assert_eq!(with(|fields| fields.rate = "0".to_owned()), "rate");
        assert_eq!(with(|fields| fields.by = "a\nb".to_owned()), "by");
        assert_eq!(with(|fields| fields.note = "x".repeat(201)), "note");
    }

    /// Symptom: a form with four wrong fields had to be sent five times, since only the first was named.
    #[test]
    fn all_wrong_fields_are_named_at_once() {
        let named = |change: fn(&mut Fields)| {
            let mut fields = fields();
            change(&mut fields);
            let refusal = hold(&fields, &site()).unwrap_err();
            let named: Vec<&str> = refusal.all().map(|one| one.field).collect();
            named.join(" ")
        };
        let wrong = named(|fields| {
            fields.group = "rack 8".to_owned();
            fields.time = "9h".to_owned();
            fields.rate = "11G".to_owned();
            fields.phases = Some(0);
            fields.note = "a\nb".to_owned();
        });
        assert_eq!(wrong, "note group phases time rate");
        // A wrong profile hides no other error.
        let wrong = named(|fields| {
            fields.profile = "soak".to_owned();
            fields.rate = "x".to_owned();
        });
        assert_eq!(wrong, "profile rate");
    }

    #[test]
    fn hosts_that_are_left_free_are_names_and_nothing_else() {
        let mut site = site();
        site.allow.free_hosts = true;
        let ask = |hosts: &str| {
            let fields = Fields {
                hosts: hosts.to_owned(),
                ..Fields::default()
            };
            hold(&fields, &site)
        };
        for good in [
            "n1,n2",
            "n[01-16]",
            "n[1-3,5],m2",
            "10.0.0.1, 10.0.0.2",
            "a.example.org",
        ] {
            assert!(ask(good).is_ok(), "{good}");
        }
        for bad in [
            "-oProxyCommand=x",
            "n1,-x",
            "local:3",
            "local",
            "auto",
            "n1;reboot",
            "../x",
            "n1\nn2",
            "@file",
            "",
            "n1,,n2",
            "user@n1",
            "n[1-100000]",
            "n[1-40]m[1-40]",
            "n[1-1024],m1",
            "n[x-9]",
        ] {
            assert!(ask(bad).is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn no_field_makes_an_option_of_its_own(
            hosts in ".{0,40}", pattern in ".{0,12}", time in ".{0,8}", rate in ".{0,8}", by in ".{0,12}"
        ) {
            let mut site = site();
            site.allow.free_hosts = true;
            let fields = Fields { hosts, pattern, time, rate, by, ..Fields::default() };
            if let Ok(asked) = hold(&fields, &site) {
                const KNOWN: [&str; 6] = ["--hosts=", "--profile=", "--pattern=", "--phases=", "--time=", "--rate="];
                for word in &asked.words {
                    prop_assert!(KNOWN.iter().any(|known| word.starts_with(known)), "{}", word);
                }
            }
        }
    }
}
