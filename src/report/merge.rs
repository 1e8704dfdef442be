//! One sheet for several cablings of one switch. Example: 32 hosts load half of a switch with 64 ports, are plugged into the other half, and load
//! that.

use std::collections::BTreeMap;

use crate::judge::names::{floor_text, name_of};
use crate::record::{DirectionSheet, PortSheet, Record, VerdictWord};
use crate::units::Scale;

use super::{compare, directions, each_once, fold, judged, natural, percent};

/// Reason why runs cannot be merged into one sheet.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum MergeError {
    /// A port has no name on the switch, so it cannot be distinguished from others.
    #[error("{0}: {1} has no switch port: name it in the host file (n07 switchport=Eth1/7)")]
    NoSwitchPort(String, String),
    /// A run was named twice.
    #[error("{0} is named twice: a run cannot be merged with itself")]
    Twice(String),
    /// Two runs were judged by different floors.
    #[error("{0} was judged by a floor of {1}, {2} by {3}: they cannot be merged")]
    OtherFloor(String, String, String, String),
}

/// Figures of one switch port.
#[derive(Debug, Clone, Default, PartialEq)]
struct Row {
    host: String,
    send: Option<DirectionSheet>,
    receive: Option<DirectionSheet>,
    /// True if the port has no switch, and runs name several.
    is_open: bool,
}

/// Several runs merged into one sheet.
#[derive(Debug, Clone, PartialEq)]
pub struct Merged {
    /// The worst word of all runs: a flaw in one run is a flaw of the sheet.
    pub word: VerdictWord,
    rows: Vec<(String, Row)>,
    faults: Vec<String>,
    runs: Vec<String>,
    conditions: Vec<String>,
    /// Statements on the extent to which each run can be signed; one line if all are alike.
    standings: Vec<String>,
    /// Line on the lowest port direction of all runs, to sign if all of them are for signature; `None` if a run has none.
    to_sign: Option<String>,
    floor: String,
}

impl Merged {
    /// Merges runs by switch ports. Fails if a run is named twice, if floors differ, or if a port has no name on the switch.
    pub fn of(records: &[Record]) -> Result<Self, MergeError> {
        let name = Record::name;
        let floor = |record: &Record| floor_text(&record.plan);
        let switches = switches(records);
        // The name is a part of the key: different names can have the same place in natural order, such as Eth1/1 and Eth1/01.
        let mut rows: BTreeMap<(Vec<(String, u64)>, String), Row> = BTreeMap::new();
        let (mut faults, mut runs, mut conditions) = (Vec::new(), Vec::new(), Vec::new());
        for (number, record) in records.iter().enumerate() {
            let mut earlier = records[..number].iter();
            if earlier.any(|other| other.token == record.token) {
                return Err(MergeError::Twice(name(record)));
            }
            let first = &records[0];
            if floor(first) != floor(record) {
                return Err(MergeError::OtherFloor(
                    name(first),
                    floor(first),
                    name(record),
                    floor(record),
                ));
            }
            conditions.extend(compare::conditions(first, record));
            for port in &record.sheet.ports {
                let Some(at) = place(record, port, &switches) else {
                    return Err(MergeError::NoSwitchPort(name(record), port.label.clone()));
                };
                let row = rows.entry((natural(&at), at)).or_insert_with(|| Row {
                    host: port.label.clone(),
                    is_open: switches.len() > 1 && switch(record, port).is_none(),
                    ..Row::default()
                });
                row.send = lesser(row.send, port.send);
                row.receive = lesser(row.receive, port.receive);
            }
            let (word, sentence) = (record.verdict.word, judged::sentence(record));
            runs.push(format!("{} {word}: {sentence}", name(record)));
            let own = record.sheet.faults.iter();
            faults.extend(own.map(|fault| {
                format!(
                    "{} {} in {}",
                    fault.word,
                    name_of(&record.plan, &record.sheet, fault),
                    name(record)
                )
            }));
        }
        Ok(Self {
            word: worst(records.iter().map(|record| record.verdict.word)),
            rows: rows.into_iter().map(|((_, at), row)| (at, row)).collect(),
            faults,
            runs,
            conditions,
            standings: standings(records),
            to_sign: to_sign(records, &switches),
            floor: records.first().map(floor).unwrap_or_default(),
        })
    }

    /// The sheet as text.
    pub fn lines(&self) -> Vec<String> {
        let judged = self.rows.iter().flat_map(|(at, row)| {
            let both = [("send", row.send), ("receive", row.receive)].into_iter();
            both.filter_map(move |(word, one)| Some((at, &row.host, word, one?, one?.share?)))
        });
        let weakest = judged.min_by(|a, b| a.4.total_cmp(&b.4));
        let weakest = weakest.map_or_else(String::new, |(at, host, word, one, share)| {
            let place = format!("{at} ({host}) {word}");
            let weakest = directions::weakest_as_text(&place, &one, share, &self.floor);
            format!(": {weakest}")
        });
        let mut lines = vec![format!(
            "{}  {} runs, {} ports of the switch{weakest}",
            self.word,
            self.runs.len(),
            self.rows.len()
        )];
        lines.extend(self.standings.iter().map(|text| format!("      {text}")));
        lines.extend(self.runs.iter().map(|run| format!("      {run}")));
        lines.extend(self.faults.iter().map(|fault| format!("      {fault}")));
        let open = self.rows.iter().filter(|(_, row)| row.is_open);
        let open: Vec<String> = open.map(|(at, _)| at.clone()).collect();
        if !open.is_empty() {
            lines.push(format!(
                "      counted separately, since runs name several switches: {} (write switch= in the host file)",
                fold(&open)
            ));
        }
        let conditions = self.conditions.iter();
        lines.extend(conditions.map(|text| format!("      not the same: {text}")));
        let width = |of: fn(&(String, Row)) -> usize| self.rows.iter().map(of).max().unwrap_or(0);
        let at_width = width(|row| row.0.len()).max(11);
        let host_width = width(|row| row.1.host.len()).max(4);
        let directions = self
            .rows
            .iter()
            .flat_map(|(_, row)| [row.send, row.receive]);
        let rates = directions.flatten().map(|one| one.rate_bits_per_s);
        let scale = Scale::of(rates.fold(0.0, f64::max));
        let heads = ["send", "receive"].map(|way| format!("least {way} {}", scale.unit));
        lines.push(format!(
            "{:at_width$}  {:host_width$}  {:>24}  {:>24}",
            "switch port", "host", heads[0], heads[1]
        ));
        let cell = |one: &Option<DirectionSheet>| match one {
            None => "-".to_owned(),
            Some(one) => {
                let share = one.share.map(|share| format!("  {}", percent(share)));
                let share = share.unwrap_or_default();
                let word = match one.word {
                    VerdictWord::Pass | VerdictWord::NotJudged => String::new(),
                    word => format!("  {word}"),
                };
                format!("{}{share}{word}", scale.show(one.rate_bits_per_s))
            }
        };
        for (at, row) in &self.rows {
            lines.push(format!(
                "{at:at_width$}  {:host_width$}  {:>24}  {:>24}",
                row.host,
                cell(&row.send),
                cell(&row.receive)
            ));
        }
        lines.extend(self.to_sign.clone());
        lines.push(judged::FIXED_WORDS.to_owned());
        lines
    }
}

/// Name of the switch of a port.
fn switch<'a>(record: &'a Record, port: &'a PortSheet) -> Option<&'a str> {
    match &port.at {
        Some(at) => Some(at.switch.as_str()),
        None => record.plan.nodes.get(port.node)?.switch.as_deref(),
    }
}

/// Names of all switches, each once.
fn switches(records: &[Record]) -> Vec<&str> {
    let names = records.iter().flat_map(|record| {
        let ports = record.sheet.ports.iter();
        ports.filter_map(move |port| switch(record, port))
    });
    each_once(names)
}

/// Switch and port of a host's port. A port without a switch belongs to the only one that runs name: a host file can name the port alone, where LLDP
/// names both.
fn place(record: &Record, port: &PortSheet, switches: &[&str]) -> Option<String> {
    let mut node = port.plugged(&record.plan)?;
    if node.switch.is_none()
        && let [only] = switches
    {
        node.switch = Some((*only).to_owned());
    }
    let at = node.place()?;
    Some(match (&port.at, port.rail) {
        (Some(_), _) | (None, 0) => at,
        (None, rail) => format!("{at} rail {rail}"),
    })
}

/// Statements on the extent to which runs can be signed: one line if all are alike.
fn standings(records: &[Record]) -> Vec<String> {
    let own = |record: &Record| match judged::standing(record) {
        Some(text) => text.trim().to_owned(),
        // Link tests have no profile.
        None if record.verdict.word.is_judged() => String::new(),
        None => "not judged".to_owned(),
    };
    let all: Vec<(String, String)> = records
        .iter()
        .map(|record| (record.name(), own(record)))
        .filter(|(_, text)| !text.is_empty())
        .collect();
    match &all[..] {
        [(_, first), rest @ ..]
            if all.len() == records.len() && rest.iter().all(|(_, other)| other == first) =>
        {
            vec![format!("each: {first}")]
        }
        _ => all
            .iter()
            .map(|(name, text)| format!("{name}: {text}"))
            .collect(),
    }
}

/// Line on the port direction with the lowest share of its ceiling, with the name of its run. Returns `None` if a run has no figure.
fn to_sign(records: &[Record], switches: &[&str]) -> Option<String> {
    let figures: Option<Vec<(f64, &Record)>> = records
        .iter()
        .map(|record| {
            let figure = record.sheet.figure?;
            Some((figure.rate_bits_per_s / figure.ceiling_bits_per_s, record))
        })
        .collect();
    let (_, record) = figures?.into_iter().min_by(|a, b| a.0.total_cmp(&b.0))?;
    let port = record.sheet.ports.get(record.sheet.figure?.port)?;
    let at = place(record, port, switches)?;
    let said = directions::to_sign(record)?;
    let mut all = records.iter();
    let screening = all.find(|one| !directions::is_acceptance(one));
    let name = directions::name_of_figure(screening.unwrap_or(record));
    Some(format!("{name}: {at}, {said} ({})", record.name()))
}

/// Returns the measurement with the lower share of two measurements of a port direction.
fn lesser(a: Option<DirectionSheet>, b: Option<DirectionSheet>) -> Option<DirectionSheet> {
    let key = |one: &DirectionSheet| one.share.unwrap_or(f64::INFINITY);
    match (a, b) {
        (Some(a), Some(b)) if key(&b) < key(&a) => Some(b),
        (Some(a), _) => Some(a),
        (None, b) => b,
    }
}

/// The worst of several words; NOT JUDGED without words.
fn worst(words: impl Iterator<Item = VerdictWord>) -> VerdictWord {
    let order = [
        VerdictWord::Fail,
        VerdictWord::Invalid,
        VerdictWord::Undecided,
        VerdictWord::HostLimited,
        VerdictWord::NotJudged,
        VerdictWord::Pass,
    ];
    let rank = |word: &VerdictWord| order.iter().position(|other| other == word);
    words.min_by_key(rank).unwrap_or(VerdictWord::NotJudged)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::SwitchPort;
    use crate::report::json;

    /// Symptom: "Eth1/3" of a host file and "leaf1 Eth1/3" of LLDP were two ports of a switch.
    #[test]
    fn a_port_that_one_run_names_without_its_switch_is_one_port() {
        let sound = include_str!("../../tests/golden/acceptance/record.json");
        let bare = json::read(sound).unwrap();
        let mut full = bare.clone();
        full.token = "77aa".to_owned();
        for node in &mut full.plan.nodes {
            node.switch = Some("leaf1".to_owned());
        }
        let mut records = [bare, full];
        let merged = Merged::of(&records).unwrap();
        let ports: Vec<&str> = merged.rows.iter().map(|(at, _)| at.as_str()).collect();
        let expected = [
            "leaf1 Eth1/1",
            "leaf1 Eth1/2",
            "leaf1 Eth1/3",
            "leaf1 Eth1/4",
        ];
        assert_eq!(ports, expected);
        assert!(!merged.lines().join("\n").contains("counted separately"));
        // With two switches, the name without one is a guess.
        records[1].plan.nodes[3].switch = Some("leaf2".to_owned());
        let merged = Merged::of(&records).unwrap();
        assert_eq!(merged.rows.len(), 8);
        let said = merged.lines().join("\n");
        assert!(
            said.contains("counted separately, since runs name several switches: Eth1/"),
            "{said}"
        );
    }

    /// Symptom: the rails of a host could not be merged without a written switch port, and had one in common with it.
    #[test]
    fn each_rail_that_hears_its_switch_port_has_its_row() {
        let sound = include_str!("../../tests/golden/acceptance/record.json");
        let mut record = json::read(sound).unwrap();
        record.plan.nodes[0].switch_port = None;
        record.sheet.ports.truncate(2);
        for (rail, port) in record.sheet.ports.iter_mut().enumerate() {
            (port.node, port.rail) = (0, rail);
            port.at = Some(SwitchPort {
                switch: format!("leaf{rail}"),
                port: "Eth1/1".to_owned(),
            });
        }
        let merged = Merged::of(&[record]).unwrap();
        let ports: Vec<&str> = merged.rows.iter().map(|(at, _)| at.as_str()).collect();
        assert_eq!(ports, ["leaf0 Eth1/1", "leaf1 Eth1/1"]);
    }

    #[test]
    fn ports_whose_names_sort_alike_have_a_row_each() {
        let sound = include_str!("../../tests/golden/acceptance/record.json");
        let mut record = json::read(sound).unwrap();
        for (node, port) in ["a", "a0", "Eth1/1", "Eth1/01"].into_iter().enumerate() {
            record.plan.nodes[node].switch_port = Some(port.to_owned());
        }
        let merged = Merged::of(&[record]).unwrap();
        let ports: Vec<&str> = merged.rows.iter().map(|(at, _)| at.as_str()).collect();
        assert_eq!(ports.len(), 4, "{ports:?}");
    }
}
