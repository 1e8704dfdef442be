//! Plan files: a run in writing, for the archive and for the vendor. Their keys are the long options of the plain command, so that
//! there is one set of names. Errors name line and key.

use std::path::{Path, PathBuf};

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::plan::{Purpose, Site, Test};
use crate::store::bounded;

use super::args::{self, Measurement, NOT_IN_PLANS, PlainArguments};
use super::mistakes;
use super::process;
use super::resolve::{self, RunSpec};

/// Version of plan files.
const FILE_VERSION: u32 = 1;

/// Template that `pipebench init` writes.
pub(super) const TEMPLATE: &str = include_str!("plan.toml");

/// Options that a test can set. All other options belong to the run.
const OF_TESTS: [&str; 12] = [
    "pattern",
    "time",
    "warmup",
    "buffers",
    "streams",
    "phases",
    "block-size",
    "rate",
    "coupling",
    "datapath",
    "verify",
    "workers",
];
/// Most repeats of a test.
const MOST_REPEATS: i64 = 1000;

/// Error in a plan file.
#[derive(Debug, thiserror::Error)]
pub(super) enum PlanFileError {
    /// The file cannot be read.
    #[error("cannot read {}: {}", .0.display(), crate::sys::why(.1))]
    Unreadable(PathBuf, std::io::Error),
    /// The content is wrong.
    #[error("{}:{line}: {key}{what}", .path.display())]
    Wrong {
        /// The file.
        path: PathBuf,
        /// Line, from 1.
        line: usize,
        /// Table and key with a colon after them; empty if no key is at fault.
        key: String,
        /// Description of the fault.
        what: String,
    },
}

/// A plan file that is being read.
struct Reader<'text> {
    path: &'text Path,
    text: &'text str,
}

/// Options that tables set, each with its byte offset in the file.
type Keys = Vec<(String, usize)>;

/// Reads a plan file. Returns its arguments and the resulting spec. `results` are words of the command line, which come before the plan's.
pub(super) fn read(
    path: &Path,
    results: &Measurement,
) -> Result<(PlainArguments, RunSpec), PlanFileError> {
    let text = bounded::given(path, bounded::TEXT_BYTES)
        .map_err(|error| PlanFileError::Unreadable(path.to_owned(), error))?;
    Reader { path, text: &text }.read(results)
}

/// True if a line of a host file can have this as a value.
pub(super) fn is_word(text: &str) -> bool {
    !text.is_empty() && !text.contains(char::is_whitespace)
}

impl Reader<'_> {
    fn wrong(&self, at: usize, key: &str, what: impl std::fmt::Display) -> PlanFileError {
        let before = self.text.as_bytes().iter().take(at);
        let line = before.filter(|byte| **byte == b'\n').count() + 1;
        PlanFileError::Wrong {
            path: self.path.to_owned(),
            line,
            key: match key {
                "" => String::new(),
                key => format!("{key}: "),
            },
            what: what.to_string(),
        }
    }

    /// The line with a byte of the file, as far as a message has room for it.
    fn line(&self, at: usize) -> String {
        const ROOM: usize = 60;
        let before = self.text.get(..at).unwrap_or_default();
        let start = before.rfind('\n').map_or(0, |end| end + 1);
        let line = self.text.get(start..).unwrap_or_default().lines().next();
        let line = line.unwrap_or_default().trim();
        line.chars().take(ROOM).collect()
    }

    fn read(&self, results: &Measurement) -> Result<(PlainArguments, RunSpec), PlanFileError> {
        let root = DeTable::parse(self.text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            let message = error.message().trim().replace('\n', "; ");
            self.wrong(at, "", format!("{message}: {}", self.line(at)))
        })?;
        let mut arguments = args::parsed(&[]).map_err(|error| self.wrong(0, "", error))?;
        let (mut keys, mut tests, mut site, mut loss) = (Keys::new(), Vec::new(), None, None);
        let mut has_version = false;
        for (key, value) in root.get_ref() {
            let (name, at) = (key.get_ref().as_ref(), key.span().start);
            match (name, value.get_ref()) {
                ("version", value) => {
                    has_version = true;
                    self.version(at, value)?;
                }
                ("site", DeValue::Table(table)) => site = Some(self.site(table)?),
                ("run", DeValue::Table(table)) => {
                    keys.extend(self.set(&mut arguments, "run", table, &[])?);
                }
                ("criteria", DeValue::Table(table)) => {
                    loss = self.loss(table)?;
                    keys.extend(self.set(&mut arguments, "criteria", table, &["loss"])?);
                }
                ("hosts", DeValue::Array(entries)) => {
                    arguments.hosts.lines = Some(self.hosts(entries)?);
                }
                ("tests", DeValue::Array(entries)) => tests = self.tests(entries)?,
                _ => {
                    let what = "unknown key (known: version, [site], [run], [criteria], [[hosts]], [[tests]])";
                    return Err(self.wrong(at, name, what));
                }
            }
        }
        if !has_version {
            return Err(self.wrong(
                0,
                "version",
                format!("missing: write version = {FILE_VERSION}"),
            ));
        }
        let names: Vec<&str> = keys.iter().map(|(key, _)| key.as_str()).collect();
        if let Some((key, at)) = args::repeated(&names).map(|at| &keys[at]) {
            return Err(self.wrong(*at, key, "set twice"));
        }
        arguments.results = results.over(&arguments.results);
        let (arguments, mut spec) = self.settle(arguments, &keys, &tests)?;
        spec.plan.site = site;
        if let Some(loss) = loss {
            spec.plan.criteria.loss = loss;
        }
        Ok((arguments, spec))
    }

    fn version(&self, at: usize, value: &DeValue<'_>) -> Result<(), PlanFileError> {
        match integer(value) {
            Some(version) if version == i64::from(FILE_VERSION) => Ok(()),
            Some(version) => Err(self.wrong(
                at,
                "version",
                format!(
                    "the plan has version {version}, this pipebench reads version {FILE_VERSION}"
                ),
            )),
            None => Err(self.wrong(at, "version", "not a number")),
        }
    }

    fn site(&self, table: &DeTable<'_>) -> Result<Site, PlanFileError> {
        let mut site = Site::default();
        for (key, value) in table {
            let (name, at) = (key.get_ref().as_ref(), key.span().start);
            let place = match name {
                "switch" => &mut site.switch,
                "serial" => &mut site.serial,
                "location" => &mut site.location,
                "operator" => &mut site.operator,
                "customer" => &mut site.customer,
                "remarks" => &mut site.remarks,
                "ports" => {
                    let ports =
                        integer(value.get_ref()).and_then(|ports| usize::try_from(ports).ok());
                    site.ports =
                        Some(ports.filter(|ports| *ports > 0).ok_or_else(|| {
                            self.wrong(at, "site.ports", "not a number of ports")
                        })?);
                    continue;
                }
                _ => {
                    let what = "unknown key (known: switch, serial, location, operator, customer, remarks, ports)";
                    return Err(self.wrong(at, &format!("site.{name}"), what));
                }
            };
            let text = value
                .get_ref()
                .as_str()
                .ok_or_else(|| self.wrong(at, &format!("site.{name}"), "not a string"))?;
            // Each text becomes one line, because reports consist of lines.
            *place = Some(text.split_whitespace().collect::<Vec<_>>().join(" "));
        }
        Ok(site)
    }

    fn loss(&self, table: &DeTable<'_>) -> Result<Option<f64>, PlanFileError> {
        let Some((key, value)) = table.get_key_value("loss") else {
            return Ok(None);
        };
        let number = match value.get_ref() {
            DeValue::Float(float) => float.as_str().replace('_', "").parse().ok(),
            other => integer(other).map(|number| number as f64),
        };
        let share = number.filter(|share| (0.0..1.0).contains(share));
        let share = share.ok_or_else(|| {
            self.wrong(
                key.span().start,
                "criteria.loss",
                "not a share from 0 to 1 (example: 1e-5)",
            )
        })?;
        Ok(Some(share))
    }

    /// Sets arguments to the values of a table. Each key is parsed alone, so that an error can name its line.
    fn set(
        &self,
        arguments: &mut PlainArguments,
        table_name: &str,
        table: &DeTable<'_>,
        apart: &[&str],
    ) -> Result<Keys, PlanFileError> {
        let mut keys = Keys::new();
        for (key, value) in table {
            let (name, at) = (key.get_ref().as_ref(), key.span().start);
            if apart.contains(&name) {
                continue;
            }
            let shown = format!("{table_name}.{name}");
            if NOT_IN_PLANS.contains(&name) {
                return Err(self.wrong(at, &shown, "belongs on the command line, not in a plan"));
            }
            let words = words_of(name, value.get_ref()).ok_or_else(|| {
                self.wrong(
                    at,
                    &shown,
                    "not a string, a number, true, or a list of these",
                )
            })?;
            args::update(arguments, &words)
                .map_err(|error| self.wrong(at, &shown, mistakes::of_key(&error)))?;
            // What is false or has nothing in it is not set.
            if !words.is_empty() {
                keys.push((name.to_owned(), at));
            }
        }
        Ok(keys)
    }

    /// Hosts as lines of a host file. Each host is parsed alone.
    fn hosts(&self, entries: &toml::de::DeArray<'_>) -> Result<String, PlanFileError> {
        let mut lines = String::new();
        for entry in entries.iter() {
            let at = entry.span().start;
            let DeValue::Table(table) = entry.get_ref() else {
                return Err(self.wrong(at, "hosts", "not a table: write [[hosts]]"));
            };
            let host = table.get("name").and_then(|name| word_of(name.get_ref()));
            let mut line = String::new();
            for (key, value) in table {
                let (name, at) = (key.get_ref().as_ref(), key.span().start);
                let value = word_of(value.get_ref()).filter(|word| is_word(word));
                let value = value.ok_or_else(|| {
                    self.wrong(at, &format!("hosts.{name}"), "not a word or a number")
                })?;
                match name {
                    "name" => line.insert_str(0, &value),
                    key => {
                        let own = format!(" {key}={value}");
                        if let Some(host) = &host {
                            self.host_line(&format!("{host}{own}"), at, &format!("hosts.{key}"))?;
                        }
                        line.push_str(&own);
                    }
                }
            }
            if line.is_empty() || line.starts_with(' ') {
                return Err(self.wrong(at, "hosts.name", "missing"));
            }
            self.host_line(&line, at, "hosts")?;
            lines.push_str(&line);
            lines.push('\n');
        }
        Ok(lines)
    }

    /// Parses a line of a host file alone, so that an error can name place and key.
    fn host_line(&self, line: &str, at: usize, key: &str) -> Result<(), PlanFileError> {
        let tried = resolve::host_lines(line).and_then(|hosts| resolve::nodes_of(&hosts));
        tried.map(|_| ()).map_err(|error| {
            let text = error.to_string();
            let own = text.strip_prefix("--hostfile: ").unwrap_or(&text);
            let what = text.split_once("line 1: ").map_or(own, |(_, what)| what);
            self.wrong(at, key, what)
        })
    }

    fn tests<'a>(
        &self,
        entries: &'a toml::de::DeArray<'a>,
    ) -> Result<Vec<Planned<'a>>, PlanFileError> {
        let mut tests = Vec::new();
        for entry in entries.iter() {
            let at = entry.span().start;
            let DeValue::Table(table) = entry.get_ref() else {
                return Err(self.wrong(at, "tests", "not a table: write [[tests]]"));
            };
            let (mut repeat, mut held) = (None, false);
            for (key, value) in table {
                let (name, at) = (key.get_ref().as_ref(), key.span().start);
                let shown = format!("tests.{name}");
                match name {
                    "repeat" => {
                        let count = integer(value.get_ref())
                            .filter(|count| (1..=MOST_REPEATS).contains(count));
                        repeat = Some(count.ok_or_else(|| {
                            self.wrong(at, &shown, format!("not a number from 1 to {MOST_REPEATS}"))
                        })?);
                    }
                    "held" => {
                        held = value
                            .get_ref()
                            .as_bool()
                            .ok_or_else(|| self.wrong(at, &shown, "neither true nor false"))?
                    }
                    name if OF_TESTS.contains(&name) => {}
                    _ => {
                        let what =
                            format!("unknown key (known: {}, repeat, held)", OF_TESTS.join(", "));
                        return Err(self.wrong(at, &shown, what));
                    }
                }
            }
            tests.push(Planned {
                at,
                table: Some(table),
                repeat,
                held,
            });
        }
        Ok(tests)
    }

    /// Arguments and spec of the whole plan. `run` is what all tests share, with its keys.
    fn settle(
        &self,
        run: PlainArguments,
        keys: &Keys,
        tests: &[Planned<'_>],
    ) -> Result<(PlainArguments, RunSpec), PlanFileError> {
        let named = |names: &[&str]| keys.iter().find(|(key, _)| names.contains(&key.as_str()));
        if let (Some((_, at)), false) = (named(&["profile"]), tests.is_empty()) {
            let what = "a profile has its own tests: leave out the profile or [[tests]]";
            return Err(self.wrong(*at, "run.profile", what));
        }
        if let (Some((key, at)), Some(_)) = (named(&["hosts", "hostfile"]), &run.hosts.lines) {
            let what = "hosts are named twice: keep this key or [[hosts]]";
            return Err(self.wrong(*at, &format!("run.{key}"), what));
        }
        let one = [Planned::default()];
        let planned = if tests.is_empty() { &one[..] } else { tests };
        let seed = process::seed();
        let mut found: Option<RunSpec> = None;
        let mut all = Vec::new();
        for test in planned {
            let (mut arguments, mut keys) = (run.clone(), keys.clone());
            if let Some(table) = test.table {
                keys.extend(self.set(&mut arguments, "tests", table, &["repeat", "held"])?);
            }
            self.agree(&keys)?;
            let spec = resolve::parse(&arguments, seed, &process::here()).map_err(|error| {
                self.wrong(place(&keys, &error.to_string(), test.at), "", error)
            })?;
            let rounds = (0..test.repeat.unwrap_or(1)).flat_map(|_| spec.plan.tests());
            let mut own: Vec<Test> = rounds.cloned().collect();
            if test.held {
                if own.iter().any(|test| test.phases > 2) {
                    let what = "a loss test needs two phases (write phases = 2)";
                    return Err(self.wrong(test.at, "tests.held", what));
                }
                own.iter_mut().for_each(|test| test.purpose = Purpose::Loss);
            }
            found.get_or_insert(spec);
            all.extend(own);
        }
        let Some(mut spec) = found else {
            return Err(self.wrong(0, "", "nothing to do"));
        };
        let count = all.len();
        if let Some(acceptance) = spec.plan.acceptance_mut() {
            acceptance.tests = all;
        }
        if tests.len() > 1 {
            for (option, value) in &mut spec.options {
                if option == "pattern" {
                    *value = format!("{count} tests of {}", self.path.display());
                }
            }
        }
        Ok((run, spec))
    }

    /// Checks that no two keys exclude each other.
    fn agree(&self, keys: &Keys) -> Result<(), PlanFileError> {
        let names: Vec<&str> = keys.iter().map(|(key, _)| key.as_str()).collect();
        let Some((key, other)) = args::conflict(&names) else {
            return Ok(());
        };
        let at = place(keys, &format!("--{key}"), 0);
        Err(self.wrong(at, key, format!("cannot be used together with {other}")))
    }
}

/// Byte offset of the key that `sentence` names as an option, or `otherwise` if it names none. A later key replaces an earlier one.
fn place(keys: &Keys, sentence: &str, otherwise: usize) -> usize {
    let mut named = keys.iter().rev().filter(|(key, _)| {
        let flag = format!("--{key}");
        sentence
            .split(|c: char| c != '-' && !c.is_ascii_alphanumeric())
            .any(|word| word == flag)
    });
    named.next().map_or(otherwise, |(_, at)| *at)
}

/// A test as written in a plan file.
#[derive(Debug, Clone, Default)]
struct Planned<'a> {
    at: usize,
    /// Options of this test; `None` if it has those of the run alone.
    table: Option<&'a DeTable<'a>>,
    /// Number of times; once if nothing is said.
    repeat: Option<i64>,
    held: bool,
}

fn integer(value: &DeValue<'_>) -> Option<i64> {
    match value {
        DeValue::Integer(integer) => {
            i64::from_str_radix(&integer.as_str().replace('_', ""), integer.radix()).ok()
        }
        _ => None,
    }
}

/// A value as one word of the command line.
fn word_of(value: &DeValue<'_>) -> Option<String> {
    match value {
        DeValue::String(text) => Some(text.to_string()),
        DeValue::Integer(_) => integer(value).map(|number| number.to_string()),
        DeValue::Float(float) => Some(float.as_str().replace('_', "")),
        _ => None,
    }
}

/// An option with its value as words: `true` is the option alone, `false` is nothing, a list repeats the option for every value.
fn words_of(name: &str, value: &DeValue<'_>) -> Option<Vec<String>> {
    let flag = format!("--{name}");
    match value {
        DeValue::Boolean(true) => Some(vec![flag]),
        DeValue::Boolean(false) => Some(Vec::new()),
        DeValue::Array(values) => {
            let values: Option<Vec<String>> = values
                .iter()
                .map(|value: &Spanned<DeValue<'_>>| word_of(value.get_ref()))
                .collect();
            let pairs = values?.into_iter().map(|value| format!("{flag}={value}"));
            Some(pairs.collect())
        }
        other => word_of(other).map(|word| vec![format!("{flag}={word}")]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn understood(text: &str) -> Result<(PlainArguments, RunSpec), String> {
        let reader = Reader {
            path: Path::new("plan.toml"),
            text,
        };
        let results = Measurement::default();
        reader.read(&results).map_err(|error| error.to_string())
    }

    #[track_caller]
    fn refused(text: &str, sentence: &str) {
        let error = understood(text).expect_err(sentence);
        assert_eq!(error, sentence);
    }

    const HOSTS: &str = "version = 1\n[[hosts]]\nname = \"local:3\"\n";

    #[test]
    fn the_template_is_a_plan() {
        let (arguments, spec) = understood(TEMPLATE).unwrap();
        assert_eq!(arguments.order.link_speed.as_deref(), Some("25G"));
        assert_eq!(spec.plan.nodes.len(), 4);
        assert_eq!(spec.plan.tests().len(), 9);
        assert_eq!(spec.plan.site.unwrap().ports, Some(48));
    }

    #[test]
    fn tests_of_a_plan_are_run_one_after_the_other() {
        let text = format!(
            "{HOSTS}[run]\nhuge = true\nlink-speed = \"10G\"\nstreams = 2\n[[tests]]\npattern = \"rotate\"\ntime = \"3s\"\nrepeat = 2\n[[tests]]\npattern = \"ring\"\nheld = true\nstreams = 1\n"
        );
        let (arguments, spec) = understood(&text).unwrap();
        assert_eq!((arguments.huge, arguments.streams), (true, Some(2)));
        let tests = &spec.plan.tests();
        let shapes: Vec<(String, usize, Purpose)> = tests
            .iter()
            .map(|test| (test.pattern.to_string(), test.streams, test.purpose))
            .collect();
        let rotate = [
            ("ring".to_owned(), 2, Purpose::Load),
            ("shift:2".to_owned(), 2, Purpose::Load),
        ];
        let expected = [
            &rotate[..],
            &rotate[..],
            &[("ring".to_owned(), 1, Purpose::Loss)],
        ]
        .concat();
        assert_eq!(shapes, expected);
    }

    #[test]
    fn what_is_wrong_is_named_by_line_and_key() {
        refused("", "plan.toml:1: version: missing: write version = 1");
        refused(
            "version = 2",
            "plan.toml:1: version: the plan has version 2, this pipebench reads version 1",
        );
        refused(
            "version = 1\nfoo = 3",
            "plan.toml:2: foo: unknown key (known: version, [site], [run], [criteria], [[hosts]], [[tests]])",
        );
        refused(
            &format!("{HOSTS}[run]\nstreamz = 3\n"),
            "plan.toml:5: run.streamz: unexpected argument '--streamz' found (did you mean streams?)",
        );
        refused(
            &format!("{HOSTS}[run]\nstreams = \"many\"\n"),
            "plan.toml:5: run.streams: invalid value 'many' for '--streams <K>': not a whole number",
        );
        refused(
            &format!("{HOSTS}[run]\ntime = \"3x\"\n"),
            "plan.toml:5: --time: time \"3x\" is not understood (write 10s, 500ms, 2m, 24h or 10)",
        );
        refused(
            &format!("{HOSTS}[run]\njson = \"x\"\n"),
            "plan.toml:5: run.json: belongs on the command line, not in a plan",
        );
        refused(
            "version = 1\n[[hosts]]\nname = \"n1\"\nspede = \"1G\"\n",
            "plan.toml:4: hosts.spede: unknown key 'spede' (known: user, port, nodes, data, speed, mtu, switch, switchport, group)",
        );
        refused(
            "version = 1\n[[hosts]]\nname = \"n1\"\nspeed = \"1G\"\nmtu = 67\n",
            "plan.toml:5: hosts.mtu: host n1: mtu=67: write a number of bytes from 576 to 65535",
        );
        refused(
            "version = 1\n[[hosts]]\nspeed = \"1G\"\n",
            "plan.toml:2: hosts.name: missing",
        );
        refused(
            &format!("{HOSTS}[site]\nport = 3\n"),
            "plan.toml:5: site.port: unknown key (known: switch, serial, location, operator, customer, remarks, ports)",
        );
        refused(
            &format!("{HOSTS}[criteria]\nloss = 2\n"),
            "plan.toml:5: criteria.loss: not a share from 0 to 1 (example: 1e-5)",
        );
        refused(
            &format!("{HOSTS}[[tests]]\nhosts = \"x\"\n"),
            "plan.toml:5: tests.hosts: unknown key (known: pattern, time, warmup, buffers, streams, phases, block-size, rate, coupling, datapath, verify, workers, repeat, held)",
        );
        refused(
            &format!("{HOSTS}[run]\nprofile = \"soak\"\n[[tests]]\npattern = \"ring\"\n"),
            "plan.toml:5: run.profile: a profile has its own tests: leave out the profile or [[tests]]",
        );
        refused(
            &format!("{HOSTS}[criteria]\nlink-speed = \"25G\"\n[run]\nlink-speed = \"10G\"\n"),
            "plan.toml:7: link-speed: set twice",
        );
        refused(
            &format!("{HOSTS}[run]\nfolder = \"a\"\noutput = \"b\"\n"),
            "plan.toml:6: output: set twice",
        );
        understood(&format!(
            "{HOSTS}[run]\nipv4 = false\nipv6 = true\ninterface = []\n"
        ))
        .unwrap();
        refused(
            &format!("{HOSTS}[run]\nbuffers = 3\n[[tests]]\ntime = \"3s\"\n"),
            "plan.toml:7: time: cannot be used together with buffers",
        );
        let syntax = understood("version = \n").expect_err("no value");
        assert!(syntax.starts_with("plan.toml:1: "), "{syntax}");
        assert!(syntax.ends_with(": version ="), "{syntax}");
        refused(
            &format!("version = 1\n[run]\nhosts = \"n1\"\n{}", &HOSTS[12..]),
            "plan.toml:3: run.hosts: hosts are named twice: keep this key or [[hosts]]",
        );
        refused(
            "version = 1\n",
            "plan.toml:1: no hosts: name them with --hosts or --hostfile (try --hosts local:3)",
        );
    }
}
