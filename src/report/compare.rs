//! Comparison of two runs: each figure in both, and the place of each fault after cables were moved.

use std::collections::{BTreeMap, BTreeSet};

use crate::judge::names::{and_more, floor_text, name_of};
use crate::plan::NodeSpec;
use crate::record::{Culprit, FaultSheet, PortSheet, Record, VerdictWord};
use crate::units::{parse_rate_bits, show_rate};

use super::compared::{self, Measure};
use super::{count, or_dash};

/// Options that affect rates.
const BEAR: [&str; 8] = [
    "phases",
    "streams",
    "coupling",
    "datapath",
    "congestion",
    "rate",
    "mss",
    "verify",
];

/// What follows from conditions that differ, for text and page.
pub(super) const CAUTION: &str =
    "the figures are of tests that differ in this: a change need not be one of the fabric";

/// How much worse a figure may become, in percent, unless a user says otherwise.
pub(crate) const TOLERANCE: f64 = 5.0;

/// A figure of both runs.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// Name of what it belongs to, such as a port direction or a cable.
    pub name: String,
    /// Figure of the earlier run, in the unit of [`Measure`]; `None` if unknown.
    pub before: Option<f64>,
    /// Figure of the later run; `None` if unknown.
    pub now: Option<f64>,
}

impl Row {
    /// Relative change of the figure, negative if it fell. Returns `None` unless both are known and the earlier one is above 0.
    pub fn change(&self) -> Option<f64> {
        let (before, now) = (self.before?, self.now?);
        (before > 0.0).then(|| now / before - 1.0)
    }

    /// The change as text: in percent, or as a factor where that has more than three digits.
    pub fn shown_change(&self) -> Option<String> {
        let change = self.change()?;
        Some(match change < 9.995 {
            true => format!("{:+.1} %", change * 100.0),
            false => format!("x {:.1}", 1.0 + change),
        })
    }
}

/// Comparison of an earlier run with a later one.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    /// Names of the earlier and the later run.
    pub names: [String; 2],
    /// Words of their verdicts, in the same order.
    pub words: [VerdictWord; 2],
    /// Conditions that differ between the runs.
    pub conditions: Vec<String>,
    /// What is compared.
    pub measure: Measure,
    /// What a row belongs to: `port`, `link`, `cable` or `line`.
    pub of: &'static str,
    /// Every figure of either run, the largest relative loss first.
    pub rows: Vec<Row>,
    /// Outcome of each fault of the earlier run, as text.
    pub faults: Vec<String>,
    /// Names of faults that only the later run has.
    pub new: Vec<String>,
}

impl Comparison {
    /// Compares a run with a later one.
    pub fn of(before: &Record, now: &Record) -> Self {
        let (measure, of) = Measure::of(&now.plan.work);
        let refusal = compared::refusal(before, &now.plan.work);
        let mut both: BTreeMap<String, [Option<f64>; 2]> = BTreeMap::new();
        for (index, record) in [before, now].into_iter().enumerate() {
            for (name, figure) in compared::figures(record) {
                both.entry(name).or_default()[index] = Some(figure);
            }
        }
        // What only a fault of the later run limited did not worsen.
        let limited = compared::limited(now);
        let rows = both.into_iter().filter(|_| refusal.is_none());
        let rows = rows.filter(|(name, _)| !limited.contains(name));
        let row = |(name, [before, now]): (String, [Option<f64>; 2])| Row { name, before, now };
        let mut rows: Vec<Row> = rows.map(row).collect();
        let lost = |change| measure.loss(change);
        let loss = |row: &Row| row.change().map_or(f64::NEG_INFINITY, lost);
        rows.sort_by(|a, b| loss(b).total_cmp(&loss(a)));
        let is_confirmed = |fault: &&FaultSheet| fault.word == VerdictWord::Fail;
        let failed_before = || before.sheet.faults.iter().filter(is_confirmed);
        // A fault at the same host port or the same switch port is not new: `became` reports it.
        let spots = |record: &Record, fault: &FaultSheet| -> Vec<String> {
            let Some(spot) = spot(record, &fault.culprit) else {
                return vec![place(record, fault)];
            };
            let at = spot.node.place().into_iter().chain([spot.label.to_owned()]);
            at.map(|at| format!("{at} {}", spot.direction)).collect()
        };
        let known: Vec<String> = failed_before()
            .flat_map(|fault| spots(before, fault))
            .collect();
        let is_known =
            |fault: &FaultSheet| spots(now, fault).iter().any(|spot| known.contains(spot));
        let new = now.sheet.faults.iter().filter(is_confirmed);
        let new = new.filter(|fault| !is_known(fault));
        Self {
            names: [before, now].map(Record::name),
            words: [before.verdict.word, now.verdict.word],
            conditions: match refusal {
                Some(refusal) => vec![refusal],
                None => conditions(before, now),
            },
            measure,
            of,
            rows,
            faults: failed_before()
                .map(|fault| became(before, now, fault))
                .collect(),
            new: new.map(|fault| place(now, fault)).collect(),
        }
    }

    /// Why the later run is worse: figures that became worse by more than `tolerance` percent or are no more, and new faults. `None` if it is not.
    pub fn worse(&self, tolerance: f64) -> Option<String> {
        /// Most rows that are named.
        const NAMED: usize = 6;
        let fell = |row: &&Row| self.is_worse(row, tolerance);
        let is_gone = |row: &&Row| row.before.is_some() && row.now.is_none();
        let named = |names: Vec<&str>, what: &str| {
            let shown = names[..names.len().min(NAMED)].join(", ");
            let more = and_more(names.len(), NAMED, ", ");
            (!names.is_empty())
                .then(|| format!("{} {what}: {shown}{more}", count(names.len(), self.of)))
        };
        let names = |is: &dyn Fn(&&Row) -> bool| -> Vec<&str> {
            let rows = self.rows.iter().filter(|row| is(row));
            rows.map(|row| row.name.as_str()).collect()
        };
        let mut reasons = Vec::new();
        reasons.extend(named(names(&fell), &format!("by more than {tolerance} %")));
        reasons.extend(named(names(&is_gone), "not measured any more"));
        if !self.new.is_empty() {
            reasons.push(format!("new faults: {}", self.new.join(", ")));
        }
        (!reasons.is_empty()).then(|| reasons.join("; "))
    }

    /// True if a figure became worse by more than `tolerance` percent.
    pub fn is_worse(&self, row: &Row, tolerance: f64) -> bool {
        let change = row.change();
        change.is_some_and(|change| self.measure.loss(change) > tolerance / 100.0)
    }

    /// Sum of the rates, or mean of the times, of the rows that both runs have. `None` for fewer than two.
    pub fn total(&self) -> Option<Row> {
        let both = self.rows.iter().filter_map(|row| row.before.zip(row.now));
        let (before, now): (Vec<f64>, Vec<f64>) = both.unzip();
        let rows = before.len();
        let (what, parts) = match self.measure {
            Measure::Rate => ("sum", 1.0),
            Measure::Time => ("mean", rows as f64),
        };
        let of = |figures: Vec<f64>| Some(figures.iter().sum::<f64>() / parts);
        (rows > 1).then(|| Row {
            name: format!("{what} of {rows} rows"),
            before: of(before),
            now: of(now),
        })
    }

    /// The largest figure of either run.
    pub fn largest(&self) -> f64 {
        let figures = self.rows.iter().flat_map(|row| [row.before, row.now]);
        figures.flatten().fold(0.0, f64::max)
    }

    /// The comparison as text, with rows for the first `most` port directions.
    pub fn lines(&self, most: usize) -> Vec<String> {
        let [before, now] = &self.names;
        let mut lines = vec![format!(
            "{before} {}  ->  {now} {}",
            self.words[0], self.words[1]
        )];
        lines.extend(self.faults.iter().map(|text| format!("      {text}")));
        let new = self.new.iter();
        lines.extend(new.map(|name| format!("      new: {name} FAIL")));
        let conditions = self.conditions.iter();
        lines.extend(conditions.map(|text| format!("      not the same: {text}")));
        if !self.conditions.is_empty() && !self.rows.is_empty() {
            lines.push(format!("      {CAUTION}"));
        }
        if self.rows.is_empty() {
            lines.push(format!("      neither run has a {}", self.of));
            return lines;
        }
        let widths = self.rows.iter().map(|row| row.name.len());
        let width = widths.max().unwrap_or(0).max(self.of.len());
        let largest = self.largest();
        let unit = self.measure.unit(largest);
        let (before, now) = (format!("before {unit}"), format!("now {unit}"));
        lines.push(format!(
            "{:width$}  {before:>13}  {now:>10}    change",
            self.of
        ));
        let show = |figure| self.measure.show(figure, largest);
        let cell = |figure: Option<f64>| or_dash(figure.map(show));
        for row in self.rows.iter().take(most) {
            let change = or_dash(row.shown_change());
            lines.push(format!(
                "{:width$}  {:>13}  {:>10}  {change:>8}",
                row.name,
                cell(row.before),
                cell(row.now),
            ));
        }
        let more = self.rows.len().saturating_sub(most);
        if more > 0 {
            lines.push(format!("and {more} more that worsened less"));
        }
        lines
    }
}

/// Differences that make the figures of two runs hard to compare.
pub fn conditions(before: &Record, now: &Record) -> Vec<String> {
    let mut differ = Vec::new();
    let mut compare = |what: &str, of: &dyn Fn(&Record) -> String| {
        let (a, b) = (of(before), of(now));
        // A condition that one of them does not know is no difference.
        if a != b && !a.is_empty() && !b.is_empty() {
            differ.push(format!("{what} {a}, then {b}"));
        }
    };
    compare("version", &|record| record.tool_version.clone());
    compare("executable", &|record| {
        record.tool_digest.chars().take(12).collect()
    });
    compare("profile", &|record| {
        let acceptance = record.plan.acceptance();
        let profile = acceptance.map(|acceptance| format!("{:?}", acceptance.profile));
        profile.unwrap_or_default().to_lowercase()
    });
    compare("floor", &|record| floor_text(&record.plan));
    compare("MTU", &mtus);
    for name in BEAR {
        compare(name, &|record| {
            let own = record.options.iter().find(|(known, _)| known == name);
            let value = own.map(|(_, value)| value.as_str());
            match (name, value) {
                ("rate", None) => "unlimited".to_owned(),
                ("rate", Some(rate)) => parse_rate_bits(rate)
                    .map_or_else(|_| rate.to_owned(), |rate| show_rate(rate as f64)),
                (_, value) => value.unwrap_or("unknown").to_owned(),
            }
        });
    }
    compare("number of nodes", &|record| {
        record.plan.nodes.len().to_string()
    });
    differ
}

fn mtus(record: &Record) -> String {
    let hosts = record.hosts.iter();
    let ports = hosts.flat_map(|host| host.rails.iter().filter_map(|rail| host.interface_of(rail)));
    let mtus: BTreeSet<u32> = ports.map(|one| one.mtu_bytes).collect();
    let texts: Vec<String> = mtus.iter().map(u32::to_string).collect();
    texts.join(" and ")
}

/// Name of a fault that is valid in both runs.
fn place(record: &Record, fault: &FaultSheet) -> String {
    name_of(&record.plan, &record.sheet, fault)
}

/// A direction of a host's port, and the switch port that the host is plugged into.
struct Spot<'a> {
    node: NodeSpec,
    label: &'a str,
    direction: &'static str,
}

fn spot<'a>(record: &'a Record, culprit: &Culprit) -> Option<Spot<'a>> {
    let (number, direction) = match culprit {
        Culprit::Send(port) => (*port, "send"),
        Culprit::Receive(port) => (*port, "receive"),
        _ => return None,
    };
    let port = record.sheet.ports.get(number)?;
    Some(Spot {
        node: port.plugged(&record.plan)?,
        label: &port.label,
        direction,
    })
}

/// The word of a port direction in a run, found by the label of its port.
fn word_of(record: &Record, label: &str, direction: &str) -> Option<VerdictWord> {
    let mut ports = record.sheet.ports.iter();
    let both = ports.find(|port| port.label == label)?.directions();
    let (_, one) = both.into_iter().find(|(word, _)| *word == direction)?;
    Some(one?.word)
}

/// Outcome of a fault: it followed the host, stayed with the switch port, disappeared, or was not measured again.
fn became(before: &Record, now: &Record, fault: &FaultSheet) -> String {
    let name = place(before, fault);
    let Some(spot) = spot(before, &fault.culprit) else {
        let mut faults = now.sheet.faults.iter();
        let is_it =
            |other: &FaultSheet| other.word == VerdictWord::Fail && place(now, other) == name;
        return match faults.any(is_it) {
            true => format!("{name}: FAIL again"),
            false => format!("{name}: FAIL before, and not now"),
        };
    };
    let (host, label, direction) = (&spot.node.host, spot.label, spot.direction);
    let own = word_of(now, label, direction);
    let node_of = |port: &PortSheet| port.plugged(&now.plan);
    let mut ports = now.sheet.ports.iter();
    let node = ports.find(|port| port.label == label).and_then(node_of);
    let node = node.as_ref();
    let places = (spot.node.place(), node.and_then(NodeSpec::place));
    let failed = own == Some(VerdictWord::Fail);
    let unmoved = |place: &str, again: &str, better: &str| match own {
        None => format!("{place}: FAIL before, not measured now"),
        Some(VerdictWord::Fail) => format!("{place}: FAIL again{again}"),
        Some(word) => format!("{place}: FAIL before, {word} now{better}"),
    };
    let place = format!("{label} {direction}");
    let (Some(at), Some(at_now)) = places else {
        let unknown =
            " (no switch ports were named, so pipebench cannot see whether a cable was moved)";
        return unmoved(&place, unknown, "");
    };
    let is_there = |node: &NodeSpec| node.is_at_port_of(&spot.node);
    if node.is_some_and(is_there) {
        let (again, better) = (", nothing was moved", ", though nothing was moved");
        return unmoved(&format!("{place} at {at}"), again, better);
    }
    // The port of the host that is now plugged into the old switch port.
    let mut ports = now.sheet.ports.iter();
    let heir = ports.find(|port| node_of(port).is_some_and(|node| is_there(&node)));
    let heir_word = heir.and_then(|port| word_of(now, &port.label, direction));
    let said = |word: Option<VerdictWord>| match word {
        None => "was not measured".to_owned(),
        Some(VerdictWord::Pass) => "is healthy".to_owned(),
        Some(word) => format!("is {word}"),
    };
    let is_well = own == Some(VerdictWord::Pass);
    match (failed, heir_word) {
        (true, Some(VerdictWord::Fail)) => format!(
            "{label} {direction}: FAIL at {at} and at {at_now}, and {at} fails with another host: two faults, or one that affects both ports"
        ),
        (true, _) => format!(
            "the fault followed the host: {label} {direction} FAIL at {at} and at {at_now}: NIC or cable of {host}"
        ),
        (false, Some(VerdictWord::Fail)) => format!(
            "the fault stayed with the switch port: {at} FAIL with {} too, while {host} {} at {at_now}",
            heir.map_or("another host", |port| port.label.as_str()),
            said(own)
        ),
        (false, Some(word @ VerdictWord::Pass)) if is_well => format!(
            "{label} {direction}: FAIL at {at} before; now both {host} at {at_now} and {at} with another host are healthy ({word}): perhaps a bad contact"
        ),
        (false, Some(word)) => format!(
            "{label} {direction}: FAIL at {at} before; now {host} at {at_now} {}, and {at} with another host {}: this does not show where the fault is",
            said(own),
            said(Some(word))
        ),
        (false, None) if !is_well => format!(
            "{label} {direction}: FAIL at {at} before; after the move to {at_now} it {}",
            said(own)
        ),
        (false, None) => format!(
            "{label} {direction}: healthy since it was moved from {at} to {at_now}: the switch port or its contact was at fault; plug another host into {at} to decide"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::DirectionSheet;
    use crate::report::json;

    #[test]
    fn a_port_that_was_not_judged_after_a_move_is_not_called_well() {
        let slow = include_str!("../../tests/golden/slow-receiver/record.json");
        let sound = include_str!("../../tests/golden/acceptance/record.json");
        let (before, sound) = (json::read(slow).unwrap(), json::read(sound).unwrap());
        let after = |own: Option<VerdictWord>, heir: Option<VerdictWord>| {
            let mut now = sound.clone();
            for (port, at, word) in [(2, "Eth1/8", own), (3, "Eth1/3", heir)] {
                now.plan.nodes[port].switch_port = Some(at.to_owned());
                let direction = now.sheet.ports[port].receive.take();
                now.sheet.ports[port].receive = direction
                    .zip(word)
                    .map(|(one, word)| DirectionSheet { word, ..one });
            }
            became(&before, &now, &before.sheet.faults[0])
        };
        let (pass, fail) = (Some(VerdictWord::Pass), Some(VerdictWord::Fail));
        let open = Some(VerdictWord::NotJudged);
        assert!(after(pass, pass).contains("are healthy (PASS)"));
        assert!(after(pass, None).contains("healthy since it was moved"));
        for (own, heir, expected) in [
            (None, fail, "while n3 was not measured at Eth1/8"),
            (open, fail, "while n3 is NOT JUDGED at Eth1/8"),
            (
                pass,
                open,
                "n3 at Eth1/8 is healthy, and Eth1/3 with another host is NOT JUDGED",
            ),
            (
                open,
                pass,
                "n3 at Eth1/8 is NOT JUDGED, and Eth1/3 with another host is healthy",
            ),
            (None, None, "after the move to Eth1/8 it was not measured"),
        ] {
            let said = after(own, heir);
            assert!(said.contains(expected), "{said}");
        }
    }

    /// Symptom: the comparison of a retest began with "n2 send -39.8 %", though the only link of n2 went to n3, the port at fault.
    #[test]
    fn a_port_that_only_the_fault_limits_is_not_in_the_comparison() {
        let before = json::read(include_str!("../../tests/golden/acceptance/record.json")).unwrap();
        let slow = include_str!("../../tests/golden/slow-receiver/record.json");
        let mut now = json::read(slow).unwrap();
        let has = |now: &Record, name: &str| {
            let rows = Comparison::of(&before, now).rows;
            rows.iter().any(|row| row.name == name)
        };
        assert!(has(&now, "n2 send") && has(&now, "n3 receive"));
        for test in now.tests_mut() {
            test.links.retain(|link| link.lane.to == 2);
        }
        assert!(!has(&now, "n2 send"));
        assert!(has(&now, "n3 receive") && has(&now, "n3 send"));
    }

    /// Symptom: "not the same: streams 1, then 3" above changes of 9 %, as if the switch had become worse.
    #[test]
    fn figures_of_tests_that_differ_come_with_a_caution() {
        let text = include_str!("../../tests/golden/slow-receiver/record.json");
        let before: Record = serde_json::from_str(text).unwrap();
        let mut now = before.clone();
        let has_caution = |now: &Record| {
            let lines = Comparison::of(&before, now).lines(1);
            lines.iter().any(|line| line.contains(CAUTION))
        };
        assert!(!has_caution(&now));
        now.plan.criteria.floor = 0.5;
        assert!(has_caution(&now));
    }

    /// Symptom: "MTU 65536, then " and "rate 200000000, then 100000000".
    #[test]
    fn no_condition_is_empty_or_without_a_unit() {
        let text = include_str!("../../tests/golden/slow-receiver/record.json");
        let before = json::read(text).unwrap();
        let mut now = before.clone();
        now.hosts.clear();
        assert_eq!(conditions(&before, &now), [""; 0]);
        let rate = |bits: &str| ("rate".to_owned(), bits.to_owned());
        now.options.push(rate("200000000"));
        let said = conditions(&before, &now);
        assert_eq!(said, ["rate unlimited, then 200.0 Mbit/s"]);
    }

    /// Symptom: "the fault followed the host: n3 receive FAIL at Eth1/3 and at leaf1 Eth1/3", where only lldpd had been started between the runs.
    #[test]
    fn a_switch_that_only_one_run_names_is_no_move() {
        let text = include_str!("../../tests/golden/slow-receiver/record.json");
        let before = json::read(text).unwrap();
        let mut now = before.clone();
        for node in &mut now.plan.nodes {
            node.switch = Some("leaf1".to_owned());
        }
        for (before, now) in [(&before, &now), (&now, &before)] {
            let said = became(before, now, &before.sheet.faults[0]);
            assert!(said.ends_with(": FAIL again, nothing was moved"), "{said}");
        }
        // The port of the same name at another switch is another one.
        let mut moved = now.clone();
        moved.plan.nodes[2].switch = Some("leaf2".to_owned());
        let said = became(&now, &moved, &now.sheet.faults[0]);
        assert!(said.starts_with("the fault followed the host: "), "{said}");
    }
}
