//! What the judge says, in lines: the weakest port, faults with their evidence, how to see them again, and what to do next.

use crate::judge::verdict::{floor_text, name, name_of};
use crate::plan::{Bound, Pattern, Profile, Purpose};
use crate::record::{Basis, Culprit, FaultKind, FaultSheet, Record, TestRecord, VerdictWord};

use crate::units::show_gbit;

use super::figures::{Direction, Port};

/// What a sheet is a test of, and what not.
pub const FIXED_WORDS: &str = "a software test from end hosts, payload at the TCP layer: the pattern of RFC 2889 and RFC 8239, not their conformance";

/// Faults that are told in full.
const TOLD: usize = 6;

/// The weakest port direction of all that were judged, for the headline of a PASS.
pub fn weakest(record: &Record) -> Option<String> {
    let sheet = &record.sheet;
    let directions = sheet.ports.iter().flat_map(|port| {
        let send = port.send.map(|one| (port, "send", one));
        let receive = port.receive.map(|one| (port, "receive", one));
        send.into_iter().chain(receive)
    });
    let judged = directions.filter_map(|(port, word, one)| Some((port, word, one, one.share?)));
    let (port, word, one, share) = judged.min_by(|a, b| a.3.total_cmp(&b.3))?;
    Some(format!(
        "weakest {} {word} {} of {} Gbit/s payload ({:.1} %, floor {})",
        port.label,
        gbit(one.rate_bits_per_s),
        gbit(one.expected_bits_per_s.unwrap_or(0.0)),
        share * 100.0,
        floor_text(&record.plan)
    ))
}

/// Share of what was to be expected of a port in a test; only known where it was the test that counts.
pub fn share(record: &Record, port: &Port, direction: Direction, test: &TestRecord) -> Option<f64> {
    let mut ports = record.sheet.ports.iter();
    let known = ports.find(|one| one.label == port.label)?;
    let one = match direction {
        Direction::Send => known.send,
        Direction::Receive => known.receive,
    }?;
    let rate = match direction {
        Direction::Send => port.send_gbit_per_s,
        Direction::Receive => port.receive_gbit_per_s,
    };
    let expected = one.expected_bits_per_s.filter(|expected| *expected > 0.0)?;
    (one.test == test.test).then_some(rate * 1e9 / expected)
}

/// Lines below the headline: how far this can be signed, and every fault.
pub fn lines(record: &Record) -> Vec<String> {
    let mut lines = Vec::new();
    lines.extend(standing(record));
    let faults = || record.sheet.faults.iter();
    for (number, fault) in faults().take(TOLD).enumerate() {
        if number > 0 {
            lines.push(format!(
                "            {}: {}",
                fault.word,
                brief(record, fault)
            ));
        }
        // What is not known is explained once, and only where nothing is known to be at fault.
        if fault.word == VerdictWord::Fail || number == 0 {
            lines.extend(next(record, fault));
            lines.extend(evidence(record, fault));
        }
    }
    let more = faults().count().saturating_sub(TOLD);
    if more > 0 {
        lines.push(format!("            and {more} more, all in the record"));
    }
    for finding in record.sheet.order.iter().skip(1).take(TOLD) {
        lines.push(format!("            FAIL: {finding}"));
    }
    lines
}

/// What these figures may be used for, and what they were judged by.
fn standing(record: &Record) -> Option<String> {
    if !record.verdict.word.is_judged() || record.tests.is_empty() {
        return None;
    }
    let basis = match record.sheet.basis {
        Basis::Ordered => "speed as ordered",
        Basis::Negotiated => "speed as negotiated, not as ordered",
        Basis::Unknown => "speed of some ports unknown: these are not judged",
    };
    let loads: Vec<_> = record
        .plan
        .tests
        .iter()
        .filter(|test| test.purpose == Purpose::Load)
        .collect();
    let window = |test: &&crate::plan::Test| match test.bound {
        Bound::Time { window_ns, .. } => crate::units::show_ns(window_ns),
        Bound::Volume { .. } | Bound::Files => "a volume".to_owned(),
    };
    let single = loads
        .iter()
        .filter(|test| matches!(test.pattern, Pattern::Shift(_)));
    let mesh = loads
        .iter()
        .filter(|test| !matches!(test.pattern, Pattern::Shift(_)));
    let several = |count: usize, what: &str, each: Option<String>| match each {
        Some(each) => format!("{count} {what} x {each}"),
        None => String::new(),
    };
    let lengths = [
        several(
            single.clone().count(),
            "permutations",
            single.clone().next().map(window),
        ),
        several(
            mesh.clone().count(),
            "all at once",
            mesh.clone().next().map(window),
        ),
    ];
    let lengths: Vec<String> = lengths.into_iter().filter(|one| !one.is_empty()).collect();
    let word = match (record.plan.profile, record.plan.shortened) {
        (Profile::Acceptance, false) => "ACCEPTANCE",
        (Profile::Acceptance, true) => "SCREENING (acceptance, shortened)",
        (Profile::Soak, false) => "SOAK",
        (Profile::Soak, true) => "SCREENING (soak, shortened)",
        (Profile::Quick, _) => "SCREENING, not acceptance:",
    };
    Some(format!("      {word} {}; {basis}", lengths.join(", ")))
}

fn brief(record: &Record, fault: &FaultSheet) -> String {
    let name = name_of(&record.plan, &record.sheet, fault);
    match fault.kind {
        FaultKind::Loss => format!("{name}: {:.1e} of segments lost", fault.share),
        FaultKind::Rate => {
            let rate = fault.rate_bits_per_s;
            let note = fault.notes.first();
            let note = note.map_or_else(String::new, |note| format!(": {note}"));
            format!(
                "{name}: {} of {} Gbit/s ({:.1} %){note}",
                gbit(rate),
                gbit(rate / fault.share.max(1e-9)),
                fault.share * 100.0
            )
        }
    }
}

/// The segment that hosts can name, and the swap that tells its parts apart.
fn next(record: &Record, fault: &FaultSheet) -> Option<String> {
    let label = |port: usize| {
        let port = record.sheet.ports.get(port);
        port.map_or("", |port| port.label.as_str())
    };
    if fault.word != VerdictWord::Fail {
        return None;
    }
    if !fault.or.is_empty() {
        return Some(
            "      hosts cannot tell these apart. Next: name more hosts, or swap two cables and run again"
                .to_owned(),
        );
    }
    Some(match fault.culprit {
        Culprit::Send(port) | Culprit::Receive(port) => format!(
            "      segment: NIC, cable or switch port; hosts cannot separate these. Next: move {}'s cable to another port, run again",
            label(port)
        ),
        Culprit::Pair(from, to) => format!(
            "      both ports are well with others: the path {}->{} within the fabric. Next: the switch's counters on that path",
            label(from),
            label(to)
        ),
        Culprit::Up(_) | Culprit::Down(_) => {
            "      its ports are well by themselves. Next: the members of the uplink, one by one"
                .to_owned()
        }
    })
}

/// Isolated measurements, and the commands that repeat the worst of them.
fn evidence(record: &Record, fault: &FaultSheet) -> Vec<String> {
    const A_LINE: usize = 4;
    if fault.evidence.is_empty() {
        return Vec::new();
    }
    let sheet = &record.sheet;
    let told: Vec<String> = fault
        .evidence
        .iter()
        .map(|one| {
            let pair = name(&record.plan, sheet, Culprit::Pair(one.from, one.to));
            let alone = match one.width {
                1 => "alone",
                _ => "with others",
            };
            match fault.kind {
                FaultKind::Rate => format!("{pair} {alone} {}", gbit(one.rate_bits_per_s)),
                FaultKind::Loss => format!("{pair} {alone} {:.1e} lost", one.loss),
            }
        })
        .collect();
    let unit = match fault.kind {
        FaultKind::Rate => " Gbit/s",
        FaultKind::Loss => "",
    };
    let mut lines: Vec<String> = told
        .chunks(A_LINE)
        .enumerate()
        .map(|(number, part)| {
            let head = if number == 0 { "evidence" } else { "" };
            format!("{head:10}  {}", part.join("   "))
        })
        .collect();
    if let Some(last) = lines.last_mut() {
        last.push_str(unit);
    }
    lines.extend(reproduce(record, fault));
    lines
}

/// What repeats the first isolated measurement with another tool.
fn reproduce(record: &Record, fault: &FaultSheet) -> Option<String> {
    let one = fault.evidence.first()?;
    let port = |number: usize| record.sheet.ports.get(number);
    let (from, to) = (port(one.from)?, port(one.to)?);
    let address = |port: &crate::record::PortSheet| {
        let host = record.hosts.get(port.node)?;
        Some(host.rails.get(port.rail)?.address)
    };
    let streams = record.plan.tests.first().map_or(1, |test| test.streams);
    Some(format!(
        "reproduce   {}$ iperf3 -s -B {}      {}$ iperf3 -c {} -B {} -P {} -t 30      (expect about {} Gbit/s)",
        to.label,
        address(to)?,
        from.label,
        address(to)?,
        address(from)?,
        streams.max(1),
        gbit(one.rate_bits_per_s)
    ))
}

fn gbit(bits_per_s: f64) -> String {
    show_gbit(bits_per_s / 1e9)
}
