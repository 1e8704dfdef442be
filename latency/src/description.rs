//! Reads and writes fabrics as TOML, version 1; docs/latency.md lists every key.
//!
//! ```toml
//! version = 1
//! name = "two leaves"
//! hosts = ["n1", "n2", "n3", "n4"]
//! switches = ["leaf1", "leaf2", "spine"]
//!
//! [[cables]]
//! class = "host"
//! list = [["n1", "leaf1"], ["n2", "leaf1"], ["n3", "leaf2"], ["n4", "leaf2"]]
//!
//! [[cables]]
//! class = "uplink"
//! list = [["leaf1", "spine", "cable-7"], ["leaf2", "spine", "cable-8"]]
//!
//! [routes]
//! rule = "symmetric"
//! ```

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use toml::Spanned;

use super::fabric::{
    Draft, DraftCable, DraftPath, DraftRoutes, DraftTable, FabricError, refuse, steers,
};

/// Format version that this module writes and reads.
pub const VERSION: u32 = 1;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    version: Spanned<u32>,
    #[serde(default)]
    name: String,
    hosts: Vec<Spanned<String>>,
    switches: Vec<Spanned<String>>,
    #[serde(default)]
    cables: Vec<WrittenCables>,
    #[serde(default)]
    routes: WrittenRoutes,
    #[serde(default)]
    tables: Vec<WrittenTable>,
    #[serde(default)]
    paths: Vec<WrittenPath>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenCables {
    class: Option<String>,
    cost: Option<u16>,
    list: Vec<Spanned<Vec<String>>>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct WrittenRoutes {
    rule: Option<Spanned<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenTable {
    switch: Spanned<String>,
    other: Option<Spanned<String>>,
    #[serde(default)]
    to: BTreeMap<String, Spanned<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenPath {
    from: Spanned<String>,
    to: String,
    via: Vec<String>,
    #[serde(default)]
    one_way: bool,
}

/// Byte offsets at which lines begin.
pub(super) struct Lines(Vec<usize>);

impl Lines {
    pub(super) fn of(text: &str) -> Self {
        let ends = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
        Self(
            std::iter::once(0)
                .chain(ends.map(|(at, _)| at + 1))
                .collect(),
        )
    }

    fn at(&self, offset: usize) -> usize {
        self.0.partition_point(|begin| *begin <= offset)
    }

    pub(super) fn of_value<T>(&self, value: &Spanned<T>) -> usize {
        self.at(value.span().start)
    }

    /// Parses TOML, of which these are the lines. Errors name the line that is wrong.
    pub(super) fn parse<T: DeserializeOwned>(&self, text: &str) -> Result<T, FabricError> {
        toml::from_str(text).map_err(|error: toml::de::Error| {
            let line = error.span().map_or(0, |span| self.at(span.start));
            FabricError::new(line, error.message().replace('\n', ", "))
        })
    }

    /// Refuses another version than the one that is read.
    pub(super) fn check_version(
        &self,
        version: &Spanned<u32>,
        known: u32,
    ) -> Result<(), FabricError> {
        if *version.get_ref() == known {
            return Ok(());
        }
        let written = version.get_ref();
        let what = format!("version {written} is not known (pipebench reads version {known})");
        refuse(self.of_value(version), what)
    }
}

/// Reads a description. Errors name the line that is wrong.
pub fn read(text: &str) -> Result<Draft, FabricError> {
    let lines = Lines::of(text);
    let written: Written = lines.parse(text)?;
    lines.check_version(&written.version, VERSION)?;
    let mut cables = Vec::new();
    for group in &written.cables {
        for cable in &group.list {
            let line = lines.of_value(cable);
            let (ends, name) = match cable.get_ref().as_slice() {
                [a, b] => ([a.clone(), b.clone()], None),
                [a, b, name] => ([a.clone(), b.clone()], Some(name.clone())),
                other => {
                    let what = format!(
                        "a cable has two ends, and a name if it needs one, not {} words",
                        other.len()
                    );
                    return refuse(line, what);
                }
            };
            cables.push(DraftCable {
                ends,
                name,
                class: group.class.clone(),
                cost: group.cost.unwrap_or(1),
                line,
            });
        }
    }
    let with_line = |name: &Spanned<String>| (name.get_ref().clone(), lines.of_value(name));
    let table = |table: &WrittenTable| DraftTable {
        switch: table.switch.get_ref().clone(),
        line: lines.of_value(&table.switch),
        other: table.other.as_ref().map(with_line),
        to: table
            .to
            .iter()
            .map(|(to, out)| (to.clone(), out.get_ref().clone(), lines.of_value(out)))
            .collect(),
    };
    let path = |path: &WrittenPath| DraftPath {
        from: path.from.get_ref().clone(),
        to: path.to.clone(),
        via: path.via.clone(),
        one_way: path.one_way,
        line: lines.of_value(&path.from),
    };
    Ok(Draft {
        name: written.name.clone(),
        hosts: written.hosts.iter().map(with_line).collect(),
        switches: written.switches.iter().map(with_line).collect(),
        cables,
        routes: DraftRoutes {
            rule: written.routes.rule.as_ref().map(with_line),
            tables: written.tables.iter().map(table).collect(),
            paths: written.paths.iter().map(path).collect(),
        },
    })
}

/// Quotes a string for TOML.
pub(super) fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for letter in text.chars() {
        match letter {
            '"' | '\\' => quoted.extend(['\\', letter]),
            steering if steers(steering) => quoted += &format!("\\u{:04X}", u32::from(steering)),
            other => quoted.push(other),
        }
    }
    quoted + "\""
}

/// Formats names as an array, in lines of limited length.
fn list(names: impl Iterator<Item = String>) -> String {
    let (mut text, mut line) = (String::new(), String::new());
    for name in names {
        if line.len() + name.len() > 100 {
            text += &format!("  {}\n", line.trim_end());
            line.clear();
        }
        line += &name;
        line += ", ";
    }
    format!("[\n{text}  {}\n]\n", line.trim_end())
}

/// Writes a description that [`read`] reads back as the same.
pub fn write(draft: &Draft) -> String {
    let names = |names: &[(String, usize)]| list(names.iter().map(|(name, _)| quoted(name)));
    let mut text = format!(
        "version = {VERSION}\nname = {}\nhosts = {}switches = {}",
        quoted(&draft.name),
        names(&draft.hosts),
        names(&draft.switches)
    );
    let mut rest = draft.cables.as_slice();
    while let Some(first) = rest.first() {
        let alike = |cable: &&DraftCable| (&cable.class, cable.cost) == (&first.class, first.cost);
        let count = rest.iter().take_while(alike).count();
        let (group, others) = rest.split_at(count);
        rest = others;
        text += "\n[[cables]]\n";
        if let Some(class) = &first.class {
            text += &format!("class = {}\n", quoted(class));
        }
        if first.cost != 1 {
            text += &format!("cost = {}\n", first.cost);
        }
        let cable = |cable: &DraftCable| {
            let words: Vec<String> = cable
                .ends
                .iter()
                .chain(&cable.name)
                .map(|word| quoted(word))
                .collect();
            format!("[{}]", words.join(", "))
        };
        text += &format!("list = {}", list(group.iter().map(cable)));
    }
    if let Some((rule, _)) = &draft.routes.rule {
        text += &format!("\n[routes]\nrule = {}\n", quoted(rule));
    }
    for table in &draft.routes.tables {
        text += &format!("\n[[tables]]\nswitch = {}\n", quoted(&table.switch));
        if let Some((other, _)) = &table.other {
            text += &format!("other = {}\n", quoted(other));
        }
        if !table.to.is_empty() {
            text += "[tables.to]\n";
            for (to, out, _) in &table.to {
                text += &format!("{} = {}\n", quoted(to), quoted(out));
            }
        }
    }
    for path in &draft.routes.paths {
        let via: Vec<String> = path.via.iter().map(|name| quoted(name)).collect();
        text += &format!(
            "\n[[paths]]\nfrom = {}\nto = {}\nvia = [{}]\n",
            quoted(&path.from),
            quoted(&path.to),
            via.join(", ")
        );
        if path.one_way {
            text += "one_way = true\n";
        }
    }
    text
}
