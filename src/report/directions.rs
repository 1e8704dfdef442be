//! What the judge says of port directions: the weakest, how many were loaded, the figure to sign, and the words in their rows of tables.

use crate::judge::names::{and_more, floor_text, name, name_of};
use crate::plan::{Profile, Purpose, RunPlan};
use crate::record::{
    Culprit, DirectionSheet, FaultSheet, Missing, PortSheet, Record, TestRecord, VerdictWord,
};
use crate::units::{show_part, show_rate};

use super::faults;
use super::figures::{Direction, Figures, Port};
use super::{fold, grouped, percent};

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
        "weakest {place} {} payload ({}, floor {floor})",
        show_part(one.rate_bits_per_s, one.expected_bits_per_s.unwrap_or(0.0)),
        percent(share)
    )
}

/// Line on port directions that lost all their partners in a test: what they carried says nothing about them. `None` if there is none.
pub(super) fn without_partner(record: &Record, figures: &Figures) -> Option<String> {
    const NAMED: usize = 4;
    let label = |node: &usize| record.plan.nodes[*node].label.clone();
    let all = figures.without_partner().map(|(port, direction, lost)| {
        let lost: Vec<String> = lost.iter().map(label).collect();
        format!("{} {direction} (lost: {})", port.label, fold(&lost))
    });
    let all: Vec<String> = all.collect();
    let named = all[..all.len().min(NAMED)].join(", ");
    let more = and_more(all.len(), NAMED, ", ");
    (!all.is_empty()).then(|| format!("no partner  {named}{more}"))
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

/// True if a run is for signature: an acceptance that is not shortened, has loss tests, and is no retest.
pub(super) fn is_acceptance(record: &Record) -> bool {
    record.plan.acceptance().is_some_and(|acceptance| {
        acceptance.profile == Profile::Acceptance
            && !acceptance.shortened
            && acceptance.repeats.is_none()
            && looks_for_losses(&record.plan)
    })
}

/// True if a test of the plan looks for losses.
pub(super) fn looks_for_losses(plan: &RunPlan) -> bool {
    let mut tests = plan.tests().iter();
    tests.any(|test| test.purpose == Purpose::Loss)
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
        (Some(mss), _) => format!(" with segments of {mss} bytes"),
        (None, Some(one)) => format!(" at MTU {}", one.mtu_bytes),
        (None, None) => String::new(),
    };
    let wire = figure.wire_bits_per_s.map_or_else(String::new, |wire| {
        format!(" ({} on the wire)", show_rate(wire))
    });
    let possible = port.speed_bits_per_s.map_or_else(String::new, |speed| {
        let share = figure.ceiling_bits_per_s / speed as f64;
        format!(" ({} of line rate{mtu})", percent(share))
    });
    Some(format!(
        "{} {way} {} payload{wire} one way, both directions loaded: {} of what the port can carry then{possible}",
        port.label,
        show_rate(figure.rate_bits_per_s),
        percent(figure.rate_bits_per_s / figure.ceiling_bits_per_s),
    ))
}

/// The verdict words of a port's directions that did not pass, for the end of its row in a text table. A terminal shows them in colour.
pub(super) fn words(record: &Record, label: &str) -> String {
    let mut ports = record.sheet.ports.iter();
    let known = ports.find(|port| port.label == label);
    let both = known.into_iter().flat_map(PortSheet::directions);
    let words = both.filter_map(|(way, one)| Some((way, one?.word)));
    let words =
        words.filter(|(_, word)| !matches!(word, VerdictWord::Pass | VerdictWord::NotJudged));
    words.map(|(way, word)| format!("  {way} {word}")).collect()
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

/// Share of the expected rate that a port direction carried in a test. Known only if the sheet has a figure of this direction in this test.
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
    let expected = match one.limited.filter(|limited| limited.test == test.test) {
        Some(limited) => Some(limited.expected_bits_per_s),
        None => one.expected_bits_per_s.filter(|_| one.test == test.test),
    };
    let expected = expected.filter(|expected| *expected > 0.0)?;
    Some(rate * 1e9 / expected)
}

/// The word of a port or uplink direction for its row in a table, with what explains it beside the figures and the verdict.
pub(super) fn word(record: &Record, culprit: &Culprit, one: &DirectionSheet) -> String {
    let sheet = &record.sheet;
    let is_own = |fault: &&FaultSheet| fault.culprit == *culprit || fault.or.contains(culprit);
    if let Some(fault) = sheet.faults.iter().find(is_own) {
        let all = std::iter::once(&fault.culprit).chain(&fault.or);
        let others = all.filter(|other| *other != culprit);
        let others: Vec<String> = others
            .map(|other| name(&record.plan, sheet, other))
            .collect();
        if !others.is_empty() {
            return format!("{}: this or {}", fault.word, others.join(" or "));
        }
        if fault.kind.is_of_losses() {
            return format!("{}: {}", fault.word, faults::figures(fault));
        }
    }
    let Some(limited) = one.limited else {
        return one.word.to_string();
    };
    let limiter = limiter(record, culprit);
    if limited.always {
        return format!("{} in isolation; under load limited by {limiter}", one.word);
    }
    let place = number(record, limited.test);
    let place = place.map_or_else(String::new, |number| format!(" in test {number}"));
    let share = percent(limited.share());
    format!("{}; {share}{place}, limited by {limiter}", one.word)
}

/// The fault that limited a sound direction.
fn limiter(record: &Record, culprit: &Culprit) -> String {
    let sheet = &record.sheet;
    let ports = || 0..sheet.ports.len();
    let is_in = |port: usize, uplink: usize| {
        let node = sheet.ports.get(port).map(|port| port.node);
        let node = node.and_then(|node| record.plan.nodes.get(node));
        let group = node.and_then(|node| node.group.as_ref());
        group.is_some() && group == sheet.uplinks.get(uplink).map(|one| &one.group)
    };
    let has = |fault: &FaultSheet, from: usize, to: usize| match fault.culprit {
        Culprit::Up(uplink) => is_in(from, uplink) && !is_in(to, uplink),
        Culprit::Down(uplink) => is_in(to, uplink) && !is_in(from, uplink),
        _ => fault.culprit.has(from, to),
    };
    let touches = |fault: &FaultSheet| match *culprit {
        Culprit::Send(own) => ports().any(|to| to != own && has(fault, own, to)),
        Culprit::Receive(own) => ports().any(|from| from != own && has(fault, from, own)),
        _ => true,
    };
    let others = sheet.faults.iter();
    let others = others.filter(|fault| fault.culprit != *culprit && touches(fault));
    match &others.collect::<Vec<_>>()[..] {
        [] => "something that no measurement explains".to_owned(),
        [fault] => name_of(&record.plan, sheet, fault),
        _ => "the faults above".to_owned(),
    }
}

/// Lines on the port directions that are sound and were limited by something else, each with its lowest share.
pub(super) fn limited(record: &Record) -> Vec<String> {
    const NAMED: usize = 4;
    let mut found = Vec::new();
    for (port, sheet) in record.sheet.ports.iter().enumerate() {
        let culprits = [Culprit::Send(port), Culprit::Receive(port)];
        for (culprit, (way, one)) in culprits.into_iter().zip(sheet.directions()) {
            let Some(limited) = one.and_then(|one| one.limited) else {
                continue;
            };
            let place = number(record, limited.test);
            let place = place.map_or_else(String::new, |number| format!(" (test {number})"));
            let share = percent(limited.share());
            let text = format!("{} {way} {share}{place}", sheet.label);
            found.push(((limiter(record, &culprit), limited.always), text));
        }
    }
    let line = |((limiter, always), directions): ((String, bool), Vec<String>)| {
        let named = directions[..directions.len().min(NAMED)].join(", ");
        let more = and_more(directions.len(), NAMED, ", ");
        let word = match always {
            true => "PASS in isolation",
            false => "PASS in other tests",
        };
        format!("limited     {named}{more} by {limiter}; {word}")
    };
    grouped(found).into_iter().map(line).collect()
}

/// The number of a test, counted from 1 for readers. Returns `None` for observations of link tests, which have no number that readers know.
pub(super) fn number(record: &Record, test: usize) -> Option<usize> {
    record.plan.tests().get(test).map(|_| test + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::LimitedSheet;
    use crate::report::{json, text};

    /// A stored record, without what limited its ports.
    fn stored(text: &str) -> Record {
        let mut record = json::read(text).unwrap();
        for port in &mut record.sheet.ports {
            let both = [&mut port.send, &mut port.receive].into_iter();
            both.flatten().for_each(|one| one.limited = None);
        }
        record
    }

    /// Sets what a sound port sent in a test in which something else limited it; returns its word.
    fn word_of(record: &mut Record, port: usize, limited: LimitedSheet) -> String {
        let one = record.sheet.ports[port].send.as_mut().unwrap();
        one.word = VerdictWord::Pass;
        one.limited = Some(limited);
        let one = *one;
        word(record, &Culprit::Send(port), &one)
    }

    /// Symptom: eight rows with PASS at 47 % below "FAIL the switch: all 4 ports together", without a word on it.
    #[test]
    fn a_port_that_is_short_only_because_the_fabric_is_says_so() {
        let mut record = stored(include_str!("../../tests/golden/backplane/record.json"));
        let limited = LimitedSheet {
            rate_bits_per_s: 94e6,
            expected_bits_per_s: 188e6,
            test: 2,
            always: true,
        };
        assert_eq!(
            word_of(&mut record, 0, limited),
            "PASS in isolation; under load limited by the switch: all 4 ports together"
        );
        let said = text::summary(&record);
        let line = "limited     n1 send 50.0 % (test 3) by the switch: all 4 ports together; PASS in isolation";
        for part in ["94.00 to 191.3    50.0 %, test 3", line] {
            assert!(said.contains(part), "{part}: {said}");
        }
    }

    /// Symptom: FAIL n2->n4 with 51 %, beside PASS of n2 send with 102 %.
    #[test]
    fn the_ends_of_a_slow_pair_say_that_the_pair_limits_them() {
        let mut record = stored(include_str!("../../tests/golden/slow-pair/record.json"));
        let limited = LimitedSheet {
            rate_bits_per_s: 47e6,
            expected_bits_per_s: 94e6,
            test: 1,
            always: false,
        };
        let without = "test; without tests that another fault limited)";
        assert!(!text::summary(&record).contains(without));
        assert_eq!(
            word_of(&mut record, 1, limited),
            "PASS; 50.0 % in test 2, limited by n2->n4"
        );
        // Symptom: "least to most" above 95.55, and 47.00 of the same direction in the line `limited`.
        assert!(text::summary(&record).contains(without));
    }

    /// Symptom: "n1 receive ... limited by uplink of a, out": no link to n1 leaves group a.
    #[test]
    fn an_uplink_limits_only_ports_whose_links_cross_it() {
        let mut record = stored(include_str!("../../tests/golden/slow-uplink/record.json"));
        record.sheet.faults.truncate(1);
        let fault = &mut record.sheet.faults[0];
        (fault.culprit, fault.or) = (Culprit::Up(0), Vec::new());
        let own = record.sheet.uplinks[0].group.clone();
        for (port, sheet) in record.sheet.ports.iter().enumerate() {
            let inside = record.plan.nodes[sheet.node].group.as_ref() == Some(&own);
            for (culprit, crosses) in [
                (Culprit::Send(port), inside),
                (Culprit::Receive(port), !inside),
            ] {
                let named = limiter(&record, &culprit);
                assert_eq!(
                    named.contains("uplink of "),
                    crosses,
                    "{culprit:?}: {named}"
                );
            }
        }
    }

    #[test]
    fn a_direction_says_why_it_fails_where_its_figures_do_not() {
        let losses = stored(include_str!("../../tests/golden/losses/record.json"));
        let one = losses.sheet.ports[2].receive.unwrap();
        let said = word(&losses, &Culprit::Receive(2), &one);
        assert!(
            said.starts_with("FAIL: ") && said.ends_with(" of segments lost"),
            "{said}"
        );
        let uplinks = stored(include_str!("../../tests/golden/slow-uplink/record.json"));
        let one = uplinks.sheet.uplinks[1].down.unwrap();
        assert_eq!(
            word(&uplinks, &Culprit::Down(1), &one),
            "FAIL: this or uplink of a, out"
        );
    }

    /// Symptom: "to sign" below "SCREENING".
    #[test]
    fn a_screening_has_no_figure_to_sign() {
        let mut record = stored(include_str!("../../tests/golden/acceptance/record.json"));
        assert_eq!(name_of_figure(&record), "to sign");
        let said = to_sign(&record).unwrap();
        assert!(said.contains("of what the port can carry then ("), "{said}");
        assert!(said.ends_with(" % of line rate at MTU 1500)"), "{said}");
        record.plan.acceptance_mut().unwrap().shortened = true;
        assert_eq!(name_of_figure(&record), "lowest port direction");
    }
}
