//! The figures of a run that another run of its kind can be compared with, one kind of work after the other.

use std::collections::BTreeSet;

use crate::plan::{Purpose, Work};
use crate::record::{Culprit, DirectionSheet, Measured, Record, TestRecord, VerdictWord};
use crate::units::Scale;

use super::count;
use super::figures::Figures;
use super::linktest::figures::Figures as Links;

/// What the figures are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Measure {
    /// Rates of port directions or links, in Gbit/s: more is better.
    Rate,
    /// Times, in seconds: less is better.
    Time,
}

impl Measure {
    /// What is compared of a kind of work, and what each figure belongs to.
    pub fn of(work: &Work) -> (Self, &'static str) {
        match work {
            Work::Acceptance(_) => (Self::Rate, "port"),
            Work::Linktest(_) => (Self::Rate, "link"),
            Work::Latency(_) => (Self::Time, "cable"),
            Work::Imb(_) => (Self::Time, "line"),
        }
    }

    /// Unit of a table with this largest figure.
    pub fn unit(self, largest: f64) -> &'static str {
        match self {
            Self::Rate => Scale::of(largest * 1e9).unit,
            Self::Time => "us",
        }
    }

    /// A figure of such a table as text.
    pub fn show(self, figure: f64, largest: f64) -> String {
        match self {
            Self::Rate => Scale::of(largest * 1e9).show(figure * 1e9),
            Self::Time => format!("{:.2}", figure * 1e6),
        }
    }

    /// How much worse a figure became, as a part of what it was; negative if it became better.
    pub fn loss(self, change: f64) -> f64 {
        match self {
            Self::Rate => -change,
            Self::Time => change,
        }
    }
}

/// Name of a kind of work, for the user.
pub(crate) fn kind(work: &Work) -> &'static str {
    match work {
        Work::Acceptance(_) => "pipeline tests",
        Work::Linktest(_) => "a link test",
        Work::Latency(_) => "latencies",
        Work::Imb(_) => "patterns",
    }
}

/// Reason why a run cannot be compared with one that did this work, if it cannot.
pub(crate) fn refusal(before: &Record, work: &Work) -> Option<String> {
    (!before.outcome.is_of(work)).then(|| {
        let (name, then, now) = (before.name(), kind(&before.plan.work), kind(work));
        format!("{name} measured {then}, this run {now}: they cannot be compared")
    })
}

/// All figures that can be compared, each with the name of what it belongs to.
pub(crate) fn figures(record: &Record) -> Vec<(String, f64)> {
    match record.measured() {
        Measured::Acceptance(..) => ports(record),
        Measured::Linktest(plan, linktest) => {
            let figures = Links::of(record, plan, linktest);
            let links = figures.links.iter().map(|link| {
                let (from, to) = (link.from, link.to);
                let [one, other] = [from, to].map(|rank| figures.name(rank));
                let name = format!("{from} {one} -> {to} {other}");
                (name, figures.bandwidth(link.mean_s) * 8.0 / 1e9)
            });
            links.collect()
        }
        Measured::Latency(_, latency) => {
            let known = latency.cables.iter().filter(|cable| cable.identified);
            let known = known.filter_map(|cable| Some((cable.name.clone(), cable.value_s?)));
            known.collect()
        }
        Measured::Imb(_, imb) => {
            let lines = imb.tables.iter().flat_map(|table| {
                let plan = &table.table;
                let mode = plan.mode.map_or_else(String::new, |mode| {
                    format!(" {}", mode.name().to_lowercase())
                });
                let what = format!(
                    "{}{mode}, {} x {}",
                    plan.benchmark.name(),
                    plan.groups.len(),
                    count(plan.group_size(), "rank")
                );
                table.lines.iter().filter_map(move |line| {
                    let times = line.groups.iter().map(|group| group.most_s);
                    let slowest = times.reduce(f64::max)?;
                    Some((format!("{what}, {} bytes", line.bytes), slowest))
                })
            });
            lines.collect()
        }
    }
}

/// Rate in Gbit/s of each port direction: the sheet's least rate, or that of the first load test if the sheet has none.
fn ports(record: &Record) -> Vec<(String, f64)> {
    // A direction that others held down in every test says nothing about this port.
    let known = |one: &DirectionSheet| one.share.is_none() || one.word != VerdictWord::NotJudged;
    let directions = record.sheet.directions();
    let rates: Vec<(String, f64)> = directions
        .filter(|(.., one)| known(one))
        .map(|(port, word, one)| (format!("{} {word}", port.label), one.rate_bits_per_s / 1e9))
        .collect();
    if !rates.is_empty() {
        return rates;
    }
    let is_load = |test: &&TestRecord| record.plan.tests()[test.test].purpose == Purpose::Load;
    let Some(test) = record.tests().iter().find(is_load) else {
        return rates;
    };
    let figures = Figures::of(record, test);
    let directions = figures.directions();
    let named = directions.map(|(port, word, rate)| (format!("{} {word}", port.label), rate));
    named.collect()
}

/// Names of sound port directions all of whose links crossed a port direction at fault, as in a retest of that port: their rates are those of the
/// fault.
pub(crate) fn limited(record: &Record) -> BTreeSet<String> {
    let sheet = &record.sheet;
    let faults = sheet.faults.iter();
    let faults = faults.filter(|fault| fault.word == VerdictWord::Fail);
    let own = |culprit: &Culprit| match culprit {
        Culprit::Send(port) => Some((*port, "send")),
        Culprit::Receive(port) => Some((*port, "receive")),
        _ => None,
    };
    let culprits: Vec<&Culprit> = faults
        .map(|fault| &fault.culprit)
        .filter(|culprit| own(culprit).is_some())
        .collect();
    let port_of = |node: usize, rail: usize| {
        let place = (record.hosts.get(node)?.host_index, rail);
        let ports = &sheet.ports;
        ports
            .binary_search_by_key(&place, |port| (port.node, port.rail))
            .ok()
    };
    let (mut held, mut free) = (BTreeSet::new(), BTreeSet::new());
    for test in record.tests().iter().filter(|_| !culprits.is_empty()) {
        let plan = &record.plan.tests()[test.test];
        // With so many links each port has one that crosses no other port at fault.
        let ports = test
            .sums
            .iter()
            .flat_map(|sums| sums.ports.iter().enumerate());
        for (place, [out, into]) in ports {
            let rails = plan.rails.max(1);
            let port = port_of(place / rails, place % rails);
            let both = [(out, "send"), (into, "receive")];
            let used = both.into_iter().filter(|(sum, _)| sum.links > 0);
            free.extend(
                port.into_iter()
                    .flat_map(|port| used.clone().map(move |(_, way)| (port, way))),
            );
        }
        for link in test.every_link().iter().filter(|link| link.crosses_switch) {
            let rail = plan.rail_of(link.lane.stream);
            let ends = port_of(link.lane.from, rail).zip(port_of(link.lane.to, rail));
            let Some((from, to)) = ends else {
                continue;
            };
            let is_held = culprits.iter().any(|culprit| culprit.has(from, to));
            let directions = if is_held { &mut held } else { &mut free };
            directions.extend([(from, "send"), (to, "receive")]);
        }
    }
    free.extend(culprits.into_iter().filter_map(own));
    let limited = held.difference(&free);
    let named = limited.map(|(port, way)| format!("{} {way}", sheet.label(*port)));
    named.collect()
}
