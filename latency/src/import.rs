//! Imports fabrics from data that sites have: the output of `ibnetdiscover` with a dump of forwarding tables (`dump_lfts.sh`, `ibroute`), or a table
//! of hosts, switches and ports.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::fabric::{Draft, DraftCable, DraftRoutes, DraftTable, FabricError, refuse};

/// A port of a device: the device's GUID in lower case without leading zeros, and the number of the port.
type Port = (String, u32);

/// The topology that `ibnetdiscover` found.
#[derive(Debug, Default)]
pub struct Topology {
    /// Switches by GUID, with their descriptions and lines.
    switches: BTreeMap<String, (String, usize)>,
    /// Hosts' ports with descriptions, LIDs and lines, in the order of the file.
    hosts: Vec<(Port, String, u32, usize)>,
    cables: Vec<(Port, Port, usize)>,
}

/// Returns the text between the first two quotation marks, and the text after them.
fn in_quotes(text: &str) -> Option<(&str, &str)> {
    let begin = text.split_once('"')?.1;
    begin.split_once('"')
}

/// Parses `S-0002c903...` or `H-...`: the letter, and the GUID.
fn device(text: &str) -> Option<(char, String)> {
    let (kind, number) = text.split_once('-')?;
    Some((kind.chars().next()?, guid(number)))
}

/// A GUID in lower case without leading zeros.
fn guid(text: &str) -> String {
    let digits = text.trim_start_matches("0x").trim_start_matches('0');
    digits.to_ascii_lowercase()
}

/// Parses a number such as `[12]` at the start of a text. Also returns the rest.
fn in_brackets(text: &str) -> Option<(u32, &str)> {
    let (number, rest) = text.trim_start().strip_prefix('[')?.split_once(']')?;
    Some((number.parse().ok()?, rest))
}

/// The number after a word.
fn after(text: &str, word: &str) -> Option<u32> {
    let mut words = text.split_whitespace();
    words.find(|found| *found == word)?;
    words.next()?.parse().ok()
}

impl Topology {
    /// Reads the output of `ibnetdiscover`.
    pub fn read(text: &str) -> Result<Self, FabricError> {
        let mut own = Self::default();
        // The device whose ports follow: kind, GUID and description.
        let mut at: Option<(char, String, String)> = None;
        let mut connected = BTreeSet::new();
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.trim();
            let wrong = |what: &str| FabricError::new(number, format!("{what}: {line:?}"));
            let first = line.split_whitespace().next().unwrap_or("");
            if ["Switch", "Ca", "Rt"].contains(&first) {
                let (name, rest) =
                    in_quotes(line).ok_or_else(|| wrong("a device without a name"))?;
                let (kind, guid) = device(name).ok_or_else(|| wrong("a device without a GUID"))?;
                let description = in_quotes(rest).map_or("", |(text, _)| text).to_owned();
                if first == "Switch" {
                    let known = own
                        .switches
                        .insert(guid.clone(), (description.clone(), number));
                    if let Some((_, earlier)) = known {
                        return Err(wrong(&format!(
                            "this switch is listed twice (line {earlier})"
                        )));
                    }
                }
                // Routers do not end any route, and nodes that reduce inside switches are not hosts.
                let is_host = first == "Ca" && !description.contains("Aggregation Node");
                let counts = first == "Switch" || is_host;
                at = Some((if counts { kind } else { '-' }, guid, description));
                continue;
            }
            if !line.starts_with('[') {
                continue;
            }
            let Some((kind, guid, description)) = &at else {
                return Err(wrong("a port before any device"));
            };
            let (port, rest) = in_brackets(line).ok_or_else(|| wrong("a port without a number"))?;
            let (name, behind) =
                in_quotes(rest).ok_or_else(|| wrong("a port without a device at its other end"))?;
            let (other_kind, other) =
                device(name).ok_or_else(|| wrong("a device without a GUID"))?;
            let (other_port, comment) =
                in_brackets(behind).ok_or_else(|| wrong("a port without a number"))?;
            if *kind == 'H' {
                if other_kind != 'S' {
                    return Err(wrong("a host that is connected to no switch"));
                }
                let comment = comment.split_once('#').map_or("", |(_, text)| text);
                let lid =
                    after(comment, "lid").ok_or_else(|| wrong("a host's port without a LID"))?;
                own.hosts
                    .push(((guid.clone(), port), description.clone(), lid, number));
            }
            let ends = [(guid.clone(), port), (other, other_port)];
            let both_known = ['H', 'S'].contains(kind);
            let mut sorted = ends.clone();
            sorted.sort();
            if both_known && connected.insert(sorted) {
                let [a, b] = ends;
                own.cables.push((a, b, number));
            }
        }
        if own.switches.is_empty() || own.hosts.is_empty() {
            return refuse(
                0,
                "the file has no switches and hosts: is it the output of ibnetdiscover?",
            );
        }
        Ok(own)
    }

    /// The fabric without routes, the name of each switch by GUID, and the name of the cable at each port.
    fn draft(&self) -> (Draft, HashMap<&str, String>, HashMap<Port, String>) {
        let names = self.switch_names();
        let hosts = self.host_names();
        let ports = self.hosts.iter().map(|(port, ..)| port);
        let name_of: HashMap<&Port, &String> = ports.zip(&hosts).collect();
        let end = |port: &Port| match (name_of.get(port), names.get(port.0.as_str())) {
            (Some(host), _) => Some(((*host).clone(), (*host).clone())),
            (None, Some(switch)) => Some((switch.clone(), format!("{switch}:{}", port.1))),
            (None, None) => None, // A port of a router, for example.
        };
        let (mut cables, mut behind) = (Vec::new(), HashMap::new());
        for (a, b, line) in &self.cables {
            if let Some(((a_name, a_port), (b_name, b_port))) = end(a).zip(end(b)) {
                let name = format!("{a_port}-{b_port}");
                behind.insert(a.clone(), name.clone());
                behind.insert(b.clone(), name.clone());
                cables.push(DraftCable {
                    ends: [a_name, b_name],
                    name: Some(name),
                    class: None,
                    cost: 1,
                    line: *line,
                });
            }
        }
        let draft = Draft {
            name: "from ibnetdiscover".to_owned(),
            hosts: hosts
                .iter()
                .zip(&self.hosts)
                .map(|(name, (.., line))| (name.clone(), *line))
                .collect(),
            switches: self
                .switches
                .iter()
                .map(|(guid, (_, line))| (names[guid.as_str()].clone(), *line))
                .collect(),
            cables,
            routes: DraftRoutes::default(),
        };
        (draft, names, behind)
    }

    /// Names of switches: `MF0;leaf1:MQM8700/U1` becomes leaf1; other descriptions stay, without blanks. Shared names get the GUID after them.
    fn switch_names(&self) -> HashMap<&str, String> {
        let short = |text: &str| {
            let inner = text
                .split_once(';')
                .and_then(|(_, rest)| rest.split_once(':'))
                .map(|(name, _)| name);
            joined(inner.unwrap_or(text))
        };
        let names = self.switches.iter().map(|(guid, (text, _))| {
            let name = short(text);
            let long = format!("{name}-{guid}").trim_start_matches('-').to_owned();
            (name, long)
        });
        let guids = self.switches.keys().map(String::as_str);
        guids.zip(unique(names.collect())).collect()
    }

    /// Names of hosts: the first word of the description. Shared names get adapter and port after them.
    fn host_names(&self) -> Vec<String> {
        let names = self.hosts.iter().map(|((guid, port), text, ..)| {
            let mut words = text.split_whitespace();
            let short = words.next().unwrap_or("host").to_owned();
            let adapter = words.next().unwrap_or(guid);
            let long = format!("{short}:{adapter}:{port}");
            (short, long)
        });
        unique(names.collect())
    }

    /// The fabric with shortest routes by a rule.
    pub fn by_rule(&self, rule: &str) -> Draft {
        let (mut draft, ..) = self.draft();
        draft.routes.rule = Some((rule.to_owned(), 0));
        draft
    }

    /// The fabric with its forwarding tables, as `dump_lfts.sh`, `ibroute` or the subnet manager write them. Errors name lines of that text.
    pub fn by_tables(&self, text: &str) -> Result<Draft, FabricError> {
        let (mut draft, names, behind) = self.draft();
        let hosts = draft.hosts.iter().zip(&self.hosts);
        let by_lid: HashMap<u32, String> = hosts
            .map(|((name, _), (_, _, lid, _))| (*lid, name.clone()))
            .collect();
        let mut tables: Vec<DraftTable> = Vec::new();
        let mut switch: Option<String> = None;
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.trim();
            if line.starts_with("Unicast lids") {
                let word = line
                    .split_once(" guid ")
                    .and_then(|(_, rest)| rest.split_whitespace().next());
                let guid = word.map(guid).unwrap_or_default();
                let Some(name) = names.get(guid.as_str()).filter(|_| word.is_some()) else {
                    return refuse(
                        number,
                        format!("the table of a switch that the topology does not have: {line:?}"),
                    );
                };
                tables.push(DraftTable {
                    switch: name.clone(),
                    to: Vec::new(),
                    other: None,
                    line: number,
                });
                switch = Some(guid);
                continue;
            }
            let Some((lid, rest)) = line
                .strip_prefix("0x")
                .and_then(|rest| rest.split_once(|c: char| c.is_whitespace() || c == ':'))
            else {
                continue;
            };
            let port = rest
                .split(|c: char| !c.is_ascii_digit())
                .find(|word| !word.is_empty());
            let (Ok(lid), Some(Ok(port))) =
                (u32::from_str_radix(lid, 16), port.map(str::parse::<u32>))
            else {
                return refuse(number, format!("no LID and port: {line:?}"));
            };
            let (Some(guid), Some(table)) = (&switch, tables.last_mut()) else {
                return refuse(number, "an entry before any \"Unicast lids ... of switch\"");
            };
            // Skip LIDs of switches, which are no destinations here, and port 0, which is the switch itself.
            if let (Some(host), true) = (by_lid.get(&lid), port != 0) {
                let Some(cable) = behind.get(&(guid.clone(), port)) else {
                    let what = format!(
                        "table of {}: nothing is connected to port {port}",
                        table.switch
                    );
                    return refuse(number, what);
                };
                table.to.push((host.clone(), cable.clone(), number));
            }
        }
        if tables.is_empty() {
            return refuse(
                0,
                "the file has no forwarding table (lines \"Unicast lids ... of switch ...\")",
            );
        }
        draft.routes.tables = tables;
        Ok(draft)
    }
}

/// Of each short and long name the short one, if it is not empty and no other one is the same.
fn unique(names: Vec<(String, String)>) -> Vec<String> {
    let mut count: HashMap<String, usize> = HashMap::new();
    for (short, _) in &names {
        *count.entry(short.clone()).or_default() += 1;
    }
    let is_unique = |short: &String| !short.is_empty() && count[short] == 1;
    let shown = |(short, long): (String, String)| if is_unique(&short) { short } else { long };
    names.into_iter().map(shown).collect()
}

fn line_of(position: &csv::Position) -> usize {
    usize::try_from(position.line()).unwrap_or(0)
}

/// Joins words by `_` in place of blanks.
fn joined(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join("_")
}

/// Reads a CSV table with one line for each cable. Columns are `host` and `switch`, optionally `port`, `name`, `class` and `cost`. Every name in the
/// column of switches is a switch; a line with a switch in the column of hosts is a cable between switches.
pub fn table(text: &str, rule: &str) -> Result<Draft, FabricError> {
    let mut reader = csv::ReaderBuilder::new()
        .trim(csv::Trim::All)
        .comment(Some(b'#'))
        .flexible(true)
        .from_reader(text.as_bytes());
    let place = |error: &csv::Error| error.position().map_or(0, line_of);
    let headers = reader
        .headers()
        .map_err(|error| FabricError::new(place(&error), error.to_string()))?
        .clone();
    let column = |name: &str| {
        headers
            .iter()
            .position(|header| header.eq_ignore_ascii_case(name))
    };
    let (Some(host), Some(switch)) = (column("host"), column("switch")) else {
        return refuse(
            1,
            "the first line must name the columns host and switch (and port, name, class, cost)",
        );
    };
    let [port, name, class, cost] = ["port", "name", "class", "cost"].map(column);
    let mut cables = Vec::new();
    for record in reader.records() {
        let record = record.map_err(|error| FabricError::new(place(&error), error.to_string()))?;
        let line = record.position().map_or(0, line_of);
        let field = |at: Option<usize>| {
            at.and_then(|at| record.get(at))
                .filter(|text| !text.is_empty())
                .map(str::to_owned)
        };
        let (Some(host), Some(switch)) = (field(Some(host)), field(Some(switch))) else {
            return refuse(line, "a line without host or switch");
        };
        let cost = field(cost).unwrap_or_else(|| "1".to_owned());
        let Ok(cost) = cost.parse() else {
            return refuse(
                line,
                format!("cost {cost:?} is not a number from 1 to 65535"),
            );
        };
        let shown =
            field(name).or_else(|| field(port).map(|port| format!("{host}-{switch}:{port}")));
        cables.push(DraftCable {
            ends: [host, switch],
            name: shown,
            class: field(class),
            cost,
            line,
        });
    }
    let switches: BTreeSet<&String> = cables.iter().map(|cable| &cable.ends[1]).collect();
    let mut draft = Draft {
        name: "from a table".to_owned(),
        ..Draft::default()
    };
    let mut seen = BTreeSet::new();
    for cable in &cables {
        let [host, switch] = &cable.ends;
        if !switches.contains(host) {
            draft.hosts.push((host.clone(), cable.line));
        }
        if seen.insert(switch) {
            draft.switches.push((switch.clone(), cable.line));
        }
    }
    draft.cables = cables;
    draft.routes.rule = Some((rule.to_owned(), 0));
    Ok(draft)
}
