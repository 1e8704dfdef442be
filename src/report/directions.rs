//! What the judge says of port directions: the weakest, how many were loaded, the figure to sign.

use crate::judge::names::floor_text;
use crate::plan::Profile;
use crate::record::{Culprit, DirectionSheet, Missing, Record, TestRecord, VerdictWord};
use crate::units::{show_part, show_rate};

use super::figures::{Direction, Port};

/// The weakest of all judged port directions, for the headline of a PASS. Returns `None` if none was judged.
pub(super) fn weakest(record: &Record) -> Option<String> {
    let directions = record.sheet.directions();
    let judged = directions.filter_map(|(port, word, one)| Some((port, word, one, one.share?)));
    let (port, word, one, share) = judged.min_by(|a, b| a.3.total_cmp(&b.3))?;
    let (place, floor) = (format!("{} {word}", port.label), floor_text(&record.plan));
    Some(weakest_as_text(&place, &one, share, &floor))
}

/// The weakest port direction as text, with its figures and the floor that it was judged by.
pub(super) fn weakest_as_text(
    place: &str,
    one: &DirectionSheet,
    share: f64,
    floor: &str,
) -> String {
    format!(
        "weakest {place} {} payload ({:.1} %, floor {floor})",
        show_part(one.rate_bits_per_s, one.expected_bits_per_s.unwrap_or(0.0)),
        share * 100.0
    )
}

/// Number of ports that were loaded, and the share of their capacity that they reached.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Loaded {
    /// Number of ports that carried traffic both ways.
    pub ports: usize,
    /// Number of all named ports, including those of missing nodes.
    pub named: usize,
    /// Best rate of a port direction divided by its ceiling, the least over all loaded ports; `None` if no speed is known.
    pub share: Option<f64>,
}

/// Counts the named ports that were loaded. Returns `None` if the sheet has no ports.
pub(super) fn loaded(record: &Record) -> Option<Loaded> {
    let ports = &record.sheet.ports;
    let both = ports
        .iter()
        .filter_map(|port| Some((port, port.send?, port.receive?)));
    let shares = both.clone().flat_map(|(port, send, receive)| {
        let of = move |one: DirectionSheet| Some(one.most_bits_per_s / port.ceiling_bits_per_s?);
        [of(send), of(receive)]
    });
    let known = |share: &f64| share.is_finite();
    let rails = record.plan.tests().first().map_or(1, |test| test.rails);
    let never = record.missing.iter().filter(|one| !is_planned(record, one));
    (!ports.is_empty()).then(|| Loaded {
        ports: both.count(),
        named: ports.len() + never.count() * rails.max(1),
        share: shares.flatten().filter(known).reduce(f64::min),
    })
}

/// True if a missing node is in the plan, so that it was there once.
pub(super) fn is_planned(record: &Record, missing: &Missing) -> bool {
    let mut nodes = record.plan.nodes.iter();
    nodes.any(|node| node.label == missing.node)
}

/// Number of judged port directions, as text. Returns `None` if all were judged.
pub(super) fn judged_part(record: &Record) -> Option<String> {
    let directions = record.sheet.directions();
    let judged = directions.filter(|(.., one)| one.share.is_some()).count();
    let all = 2 * record.sheet.ports.len();
    (judged < all).then(|| format!("{judged} of {all} port directions judged"))
}

/// True if a run has the tests of an acceptance.
pub(super) fn is_acceptance(record: &Record) -> bool {
    let acceptance = record.plan.acceptance();
    acceptance.is_some_and(|acceptance| acceptance.profile == Profile::Acceptance)
}

/// Name of the lowest rate of all port directions: only an acceptance is for signature.
pub(super) fn name_of_figure(record: &Record) -> &'static str {
    match is_acceptance(record) {
        true => "to sign",
        false => "lowest port direction",
    }
}

/// The lowest rate of all port directions, as text. Returns `None` unless the verdict is PASS and the sheet has a figure.
pub(super) fn to_sign(record: &Record) -> Option<String> {
    let passed = record.verdict.word == VerdictWord::Pass;
    let figure = record.sheet.figure.filter(|_| passed)?;
    let port = record.sheet.ports.get(figure.port)?;
    let way = if figure.sends { "send" } else { "receive" };
    let host = record.hosts.get(port.node);
    let interface = host.and_then(|host| host.interface_of(host.rails.get(port.rail)?));
    let asked = record.plan.tests().first();
    let asked = asked.and_then(|test| test.sockets.mss_bytes);
    let mtu = match (asked, interface) {
        (Some(mss), _) => format!("with segments of {mss} bytes "),
        (None, Some(one)) => format!("at MTU {} ", one.mtu_bytes),
        (None, None) => String::new(),
    };
    let wire = figure.wire_bits_per_s.map_or_else(String::new, |wire| {
        format!(" ({} on the wire)", show_rate(wire))
    });
    let possible = port.speed_bits_per_s.map_or_else(String::new, |speed| {
        let share = figure.ceiling_bits_per_s / speed as f64;
        format!(" (its ceiling {mtu}is {:.1} % of line rate)", share * 100.0)
    });
    Some(format!(
        "{} {way} {} payload{wire} one way, both directions loaded: {:.1} % of the port's ceiling{possible}",
        port.label,
        show_rate(figure.rate_bits_per_s),
        figure.rate_bits_per_s / figure.ceiling_bits_per_s * 100.0,
    ))
}

/// True if a port direction is a confirmed fault.
pub(super) fn is_at_fault(record: &Record, port: &Port, direction: Direction) -> bool {
    let label = |number: usize| record.sheet.ports.get(number).map(|one| &one.label);
    let faults = record.sheet.faults.iter();
    let mut confirmed = faults.filter(|fault| fault.word == VerdictWord::Fail);
    confirmed.any(|fault| match (&fault.culprit, direction) {
        (Culprit::Send(number), Direction::Send)
        | (Culprit::Receive(number), Direction::Receive) => label(*number) == Some(&port.label),
        _ => false,
    })
}

/// Share of the expected rate that a port direction carried in a test. Known only if the sheet's figure for this direction is from this test.
pub(super) fn share(
    record: &Record,
    port: &Port,
    direction: Direction,
    test: &TestRecord,
) -> Option<f64> {
    let mut ports = record.sheet.ports.iter();
    let known = ports.find(|one| one.label == port.label)?;
    let (one, rate) = match direction {
        Direction::Send => (known.send?, port.send_gbit_per_s),
        Direction::Receive => (known.receive?, port.receive_gbit_per_s),
    };
    let expected = one.expected_bits_per_s.filter(|expected| *expected > 0.0)?;
    (one.test == test.test).then_some(rate * 1e9 / expected)
}

/// The number of a test, counted from 1 for readers. Returns `None` for observations of link tests, which have no number that readers know.
pub(super) fn number(record: &Record, test: usize) -> Option<usize> {
    record.plan.tests().get(test).map(|_| test + 1)
}
