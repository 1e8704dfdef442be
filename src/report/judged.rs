//! The judge's findings as lines of text: the weakest port, faults with their evidence, commands that reproduce them, and the next step.

use crate::judge::names::{Alone, by_itself, floor_in_full, floor_text, name, name_of};
use crate::plan::{Bound, NodeSpec, Pattern, Profile, Purpose, Test, seal};
use crate::record::{
    Basis, Culprit, DirectionSheet, FaultKind, FaultSheet, Measured, Missing, PortSheet, Record,
    TestRecord, VerdictWord,
};

use crate::units::{Scale, rate_word, show_ns, show_part, show_rate};

use super::figures::{Direction, Port};

/// Fixed sentence on every sheet: the kind of test, and the RFCs whose conformance it does not claim.
pub const FIXED_WORDS: &str = "software test from end hosts, TCP payload; follows RFC 2889/8239 patterns, does not claim conformance";

/// Maximum number of faults that are shown. The same limit applies to remarks and to findings on the order.
const TOLD: usize = 6;

/// The weakest of all judged port directions, for the headline of a PASS. Returns `None` if none was judged.
pub fn weakest(record: &Record) -> Option<String> {
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

/// The sentence to read first: the weakest port of a PASS, else the reason of the verdict.
pub fn sentence(record: &Record) -> String {
    let weakest = weakest(record).filter(|_| record.verdict.word == VerdictWord::Pass);
    weakest.unwrap_or_else(|| record.verdict.reason.clone())
}

/// Number of ports that were loaded, and the share of their capacity that they reached.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Loaded {
    /// Number of ports that carried traffic both ways.
    pub ports: usize,
    /// Number of all named ports, including those of missing nodes.
    pub named: usize,
    /// Best rate of a port direction divided by its ceiling, the least over all loaded ports; `None` if no speed is known.
    pub share: Option<f64>,
}

/// Counts the named ports that were loaded. Returns `None` if the sheet has no ports.
pub fn loaded(record: &Record) -> Option<Loaded> {
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

/// What the verdict means, in one sentence; `None` for kinds of work that have no floor.
pub fn meaning(record: &Record) -> Option<String> {
    match record.measured() {
        Measured::Acceptance(..) => {}
        Measured::Linktest(..) | Measured::Latency(..) | Measured::Imb(..) => return None,
    }
    let floor = floor_in_full(&record.plan);
    Some(match record.verdict.word {
        VerdictWord::Pass => format!(
            "PASS means: every judged port direction delivered at least {floor} in every test, and no test lost more than {:e} of its segments.",
            record.plan.criteria.loss
        ),
        VerdictWord::Fail => format!(
            "FAIL means: something delivered less than {floor}, again when retested in isolation, or a port is not as specified."
        ),
        VerdictWord::Undecided => {
            format!("UNDECIDED means: something delivered less than {floor}, but not reproducibly.")
        }
        VerdictWord::HostLimited => format!(
            "HOST-LIMITED means: a host was too slow to fill its port, so the switch cannot be judged there; the floor is {floor}."
        ),
        VerdictWord::NotJudged => {
            "NOT JUDGED means: these are measured rates, without a comparison to a specified speed."
                .to_owned()
        }
        VerdictWord::Invalid => {
            "INVALID means: the run did not end as planned, so nothing of it can be judged."
                .to_owned()
        }
    })
}

/// Data on the site in one line: the switch, its location, the operator and the customer.
pub(super) fn site(record: &Record) -> Option<String> {
    let said = record.plan.site.as_ref()?.said();
    let said: Vec<String> = said
        .iter()
        .map(|(name, text)| format!("{name} {text}"))
        .collect();
    (!said.is_empty()).then(|| said.join("; "))
}

/// The result of [`loaded`] as a line.
fn loaded_line(record: &Record) -> Option<String> {
    let loaded = loaded(record)?;
    let Some(share) = loaded.share else {
        return judged_part(record).map(|part| format!("      {part}"));
    };
    let of_switch = record.plan.site.as_ref().and_then(|site| site.ports);
    let of_switch =
        of_switch.map_or_else(String::new, |ports| format!(" (of {ports} on the switch)"));
    Some(format!(
        "      {} of {} ports{of_switch} loaded both ways; best rate per port: at least {:.1} % of its ceiling{}",
        loaded.ports,
        loaded.named,
        share * 100.0,
        judged_part(record).map_or_else(String::new, |part| format!("; {part}"))
    ))
}

/// Number of judged port directions, as text. Returns `None` if all were judged.
fn judged_part(record: &Record) -> Option<String> {
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
pub fn to_sign(record: &Record) -> Option<String> {
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

/// Source of the port speeds, as text.
pub fn basis(record: &Record) -> &'static str {
    match record.sheet.basis {
        Basis::Ordered => "speed as specified",
        Basis::Negotiated => "speed as negotiated where none is specified",
        Basis::Unknown => "speed of some ports unknown: these are not judged",
    }
}

/// True if a port direction is a confirmed fault.
pub fn is_at_fault(record: &Record, port: &Port, direction: Direction) -> bool {
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
pub fn share(record: &Record, port: &Port, direction: Direction, test: &TestRecord) -> Option<f64> {
    let mut ports = record.sheet.ports.iter();
    let known = ports.find(|one| one.label == port.label)?;
    let (one, rate) = match direction {
        Direction::Send => (known.send?, port.send_gbit_per_s),
        Direction::Receive => (known.receive?, port.receive_gbit_per_s),
    };
    let expected = one.expected_bits_per_s.filter(|expected| *expected > 0.0)?;
    (one.test == test.test).then_some(rate * 1e9 / expected)
}

/// Warning that the record's thresholds are not those sealed before the start, and so are worth less than they look.
pub fn broken_seal(record: &Record) -> Option<String> {
    let sealed = record.seal.as_ref()?;
    let criteria = seal::criteria(&record.plan);
    let mut lines = criteria.lines();
    let changed = lines.find(|line| !sealed.lines().any(|other| other == *line))?;
    Some(format!(
        "NOT AS SEALED: {changed:?} was not sealed before the start"
    ))
}

/// Which results are those of an earlier run, if any.
pub(crate) fn taken_over(record: &Record) -> Option<String> {
    let run = record.resumed.as_ref()?;
    let (_, part) = record.outcome.parts();
    Some(format!(
        "the first {part}s are from {run}, which ended early"
    ))
}

/// Lines below the headline: the extent to which the result can be signed, and the faults.
pub fn lines(record: &Record) -> Vec<String> {
    let mut lines = Vec::new();
    lines.extend(broken_seal(record).map(|text| format!("      {text}")));
    let standing = standing(record);
    let loaded = standing.as_ref().and_then(|_| loaded_line(record));
    lines.extend(standing);
    lines.extend(site(record).map(|text| format!("      {text}")));
    lines.extend(taken_over(record).map(|text| format!("      {text}")));
    lines.extend(loaded);
    let faults = || record.sheet.faults.iter();
    for (number, fault) in faults().take(TOLD).enumerate() {
        if number > 0 {
            lines.push(format!(
                "            {}: {}",
                fault.word,
                brief(record, fault)
            ));
        }
        // Confirmed faults are explained. An undecided one is explained only if it is the first, so if no fault is confirmed.
        if fault.word == VerdictWord::Fail || number == 0 {
            lines.extend(next(record, fault));
            lines.extend(evidence(record, fault));
            if fault.word == VerdictWord::Fail {
                lines.extend(fault.notes.iter().map(|note| format!("            {note}")));
            }
        }
    }
    let more = faults().count().saturating_sub(TOLD);
    if more > 0 {
        lines.push(format!("            and {more} more, all in the record"));
    }
    let remarks = record.sheet.remarks.iter().take(TOLD);
    lines.extend(remarks.map(|remark| format!("            {remark}")));
    let order = record.sheet.order.iter().skip(1).take(TOLD);
    lines.extend(order.map(|finding| format!("            FAIL: {finding}")));
    lines
}

/// The common MTU of all data ports, if they have one. It counts as verified, since each link passes a full packet before it is established.
fn mtu(record: &Record) -> Option<String> {
    let mut tests = record.plan.tests().iter();
    if tests.any(|test| test.sockets.mss_bytes.is_some()) {
        return None; // The plan sets smaller segments.
    }
    let ports = record
        .hosts
        .iter()
        .flat_map(|host| host.rails.iter().map(|rail| host.interface_of(rail)));
    let mut mtus: Vec<u32> = ports
        .map(|port| port.map(|port| port.mtu_bytes))
        .collect::<Option<_>>()?;
    mtus.sort_unstable();
    mtus.dedup();
    // The path MTU that TCP found shows if a full packet had this size.
    let paths = record.tests().iter().flat_map(|test| &test.links);
    let narrow = paths
        .filter(|link| link.crosses_switch)
        .filter_map(|link| Some(link.tcp?.1.path_mtu_bytes))
        .any(|bytes| bytes > 0 && mtus.iter().all(|mtu| bytes < u64::from(*mtu)));
    match mtus[..] {
        [mtu] if narrow => Some(format!("MTU {mtu}, but some paths pass less")),
        [mtu] => Some(format!("MTU {mtu} verified")),
        _ => None,
    }
}

/// The use that the figures of an acceptance permit, and the basis of their judgement. Returns `None` if nothing was judged.
pub fn standing(record: &Record) -> Option<String> {
    let acceptance = record.plan.acceptance()?;
    if !record.verdict.word.is_judged() || !record.outcome.has_begun() {
        return None;
    }
    let basis = basis(record);
    let tests = || record.plan.tests().iter();
    let loads = tests().filter(|test| test.purpose == Purpose::Load);
    let (single, mesh): (Vec<&Test>, Vec<&Test>) =
        loads.partition(|test| matches!(test.pattern, Pattern::Shift(_)));
    let several = |tests: &[&Test], what: &str| {
        let window = match tests.first()?.bound {
            Bound::Time { window_ns, .. } => show_ns(window_ns),
            Bound::Volume { .. } | Bound::Files => "a volume".to_owned(),
        };
        Some(format!("{} {what} x {window}", tests.len()))
    };
    let lengths = [
        several(&single, "permutations"),
        several(&mesh, "all at once"),
    ];
    let lengths: Vec<String> = lengths.into_iter().flatten().collect();
    let looked = tests().any(|test| test.purpose == Purpose::Loss);
    let word = match (acceptance.profile, acceptance.shortened) {
        (Profile::Acceptance, false) if !looked => "SCREENING (acceptance without loss tests)",
        (Profile::Acceptance, true) if !looked => {
            "SCREENING (acceptance, shortened, without loss tests)"
        }
        (Profile::Acceptance, false) => "ACCEPTANCE",
        (Profile::Acceptance, true) => "SCREENING (acceptance, shortened)",
        (Profile::Soak, false) => "SOAK",
        (Profile::Soak, true) => "SCREENING (soak, shortened)",
        (Profile::Quick, _) => "SCREENING, not acceptance:",
    };
    if let Some(first) = &acceptance.repeats {
        let count = single.len() + mesh.len();
        return Some(format!(
            "      RETEST of {first}: {count} links, each in isolation; {basis}"
        ));
    }
    let mtu = mtu(record).map_or_else(String::new, |mtu| format!(", {mtu}"));
    Some(format!("      {word} {}; {basis}{mtu}", lengths.join(", ")))
}

/// A fault's name with its figures, in one line.
pub fn brief(record: &Record, fault: &FaultSheet) -> String {
    let name = name_of(&record.plan, &record.sheet, fault);
    match fault.kind {
        FaultKind::Loss if fault.word == VerdictWord::HostLimited => {
            format!("{name}: {:.1e} of segments lost, in its host", fault.share)
        }
        FaultKind::Loss => format!("{name}: {:.1e} of segments lost", fault.share),
        FaultKind::Broken => format!("{name}: {:.1e} of frames arrived broken", fault.share),
        FaultKind::Rate | FaultKind::HeadOfLine => {
            let rate = fault.rate_bits_per_s;
            let by_host = fault.word == VerdictWord::HostLimited;
            let note = fault.notes.first().filter(|_| by_host);
            let note = note.map_or_else(String::new, |note| format!(": {note}"));
            format!(
                "{name}: {} ({:.1} %){note}",
                show_part(rate, rate / fault.share.max(1e-9)),
                fault.share * 100.0
            )
        }
    }
}

/// The number of a test, counted from 1 for readers. Returns `None` for observations of link tests, which have no number that readers know.
pub fn number(record: &Record, test: usize) -> Option<usize> {
    record.plan.tests().get(test).map(|_| test + 1)
}

/// The cable to move, and the command to run after that.
fn move_cable(record: &Record, number: usize) -> String {
    let label = record.sheet.label(number);
    let port = record.sheet.ports.get(number);
    let node = port.and_then(|port| record.plan.nodes.get(port.node));
    let from = node.and_then(NodeSpec::place);
    let from = from.map_or_else(String::new, |at| format!(" from {at}"));
    let then = record.plan.acceptance().map(|acceptance| {
        let first = acceptance.repeats.clone();
        let run = first.unwrap_or_else(|| record.name());
        format!("run `pipebench retest {run} --moved {label}=PORT`")
    });
    let then = then.unwrap_or_else(|| "repeat the command".to_owned());
    format!("move {label}'s cable{from} to another port, then {then}")
}

/// The segment that hosts can blame and the swap that separates its parts; for an unconfirmed fault, the measurement that would decide it.
pub fn next(record: &Record, fault: &FaultSheet) -> Option<String> {
    let label = |port: usize| record.sheet.label(port);
    if fault.word != VerdictWord::Fail {
        return would_decide(record, fault);
    }
    if !fault.or.is_empty() {
        return Some(
            "      hosts cannot tell these apart. Next: name more hosts, or swap two cables and repeat the command"
                .to_owned(),
        );
    }
    if fault.kind == FaultKind::HeadOfLine {
        return Some(
            "      location: the switch's queues, where traffic to one port slows traffic to another. Next: check its buffer and flow control settings (pause frames have the same effect)"
                .to_owned(),
        );
    }
    Some(match &fault.culprit {
        Culprit::Send(port) | Culprit::Receive(port) => format!(
            "      location: NIC, cable or switch port (indistinguishable from the hosts). Next: {}",
            move_cable(record, *port)
        ),
        Culprit::Pair(from, to) => format!(
            "      location: the path {}->{} within the fabric; both ports are healthy with others. Next: check the switch's counters on that path",
            label(*from),
            label(*to)
        ),
        Culprit::Up(_) | Culprit::Down(_) => {
            "      location: the uplink; its ports are healthy in isolation. Next: test its members one by one".to_owned()
        }
        Culprit::BothWays(port) => format!(
            "      location: half duplex, the host's PCIe slot, or the port; each direction is healthy in isolation. Next: check the negotiated duplex, then {}",
            move_cable(record, *port)
        ),
        Culprit::Shared { .. } | Culprit::Path(_) => {
            "      location: what these ports share; they are healthy in isolation and with fewer others. Next: check the chip, line card, backplane and members of a bundle"
                .to_owned()
        }
    })
}

/// The measurement that would decide an unconfirmed fault.
fn would_decide(record: &Record, fault: &FaultSheet) -> Option<String> {
    let next = match (fault.word, fault.kind) {
        _ if fault.condition.is_some() => {
            "test the port with a host that does not share its card, or test each card of the bond alone (--interface)"
        }
        (VerdictWord::HostLimited, _) => {
            "test the port with a faster host (swap two hosts), or remove the bottleneck on this host"
        }
        (_, FaultKind::Loss | FaultKind::Broken) => {
            "repeat the command with a longer --time, and compare the switch's error counters before and after"
        }
        (_, FaultKind::HeadOfLine) => "repeat the command",
        (_, FaultKind::Rate) => {
            match (
                &fault.culprit,
                by_itself(&record.plan, &record.sheet, fault),
            ) {
                (culprit, _) if culprit.is_shared() => return Some(asks(record, fault)),
                (Culprit::Up(_) | Culprit::Down(_), _) => {
                    "test the members of the uplink one by one"
                }
                (_, Alone::Untold) => {
                    "test the port with a known-good partner and nothing else (--hosts A,B --pattern pairs)"
                }
                (_, Alone::Well(_)) if fell_short_in_a_permutation(record, fault) => {
                    "repeat the command with a longer --time: a shortfall by chance disappears, a limit of the switch under full load stays"
                }
                (_, Alone::Well(_)) => {
                    "run --pattern rotate, in which every port carries one link each way: if the port falls short there, too, it is at fault"
                }
                (_, Alone::Mixed(..)) => {
                    "test the port with a third partner (--hosts A,B --pattern pairs)"
                }
            }
        }
    };
    Some(format!("      to decide: {next}"))
}

/// The question to answer about a fabric that carries less than its ports can.
fn asks(record: &Record, fault: &FaultSheet) -> String {
    let carried = show_rate(fault.rate_bits_per_s);
    let word = rate_word(numbers::whole(fault.rate_bits_per_s));
    let Culprit::Shared { from, to } = &fault.culprit else {
        return format!(
            "      to decide: may these pairs share {carried}? (--fabric non-blocking specifies that nothing is shared)"
        );
    };
    let all = record.sheet.ports.len();
    if from.len() == all && to.len() == all {
        return format!(
            "      to decide: is it one switch? Then it carries less than its ports can, and --fabric non-blocking makes this a FAIL. Leaves with uplinks? Then declare them (group= in a host file, --uplink GROUP={word})"
        );
    }
    format!(
        "      to decide: is it an uplink of {carried}? Then declare it (group= in a host file, --uplink GROUP={word}). One switch? Then --fabric non-blocking makes this a FAIL"
    )
}

/// True if the blamed port direction carried its least share in a permutation, where each port has one link each way.
fn fell_short_in_a_permutation(record: &Record, fault: &FaultSheet) -> bool {
    let direction = match fault.culprit {
        Culprit::Pair(from, _) => record.sheet.direction(&Culprit::Send(from)),
        _ => record.sheet.direction(&fault.culprit),
    };
    let test = direction.and_then(|one| record.plan.tests().get(one.test));
    test.is_some_and(|test| test.pattern.is_permutation(record.plan.nodes.len()))
}

/// Isolated measurements, and the commands that repeat the first direct one of them.
fn evidence(record: &Record, fault: &FaultSheet) -> Vec<String> {
    const A_LINE: usize = 4;
    if fault.evidence.is_empty() {
        return Vec::new();
    }
    let sheet = &record.sheet;
    let rates = fault.evidence.iter().map(|one| one.rate_bits_per_s);
    let scale = Scale::of(rates.fold(0.0, f64::max));
    let told: Vec<String> = fault
        .evidence
        .iter()
        .map(|one| {
            let pair = name(&record.plan, sheet, &Culprit::Pair(one.from, one.to));
            let alone = match one.width {
                1 => "alone",
                _ => "with others",
            };
            match fault.kind.is_of_losses() {
                true => format!("{pair} {alone} {:.1e} lost", one.loss),
                false => format!("{pair} {alone} {}", scale.show(one.rate_bits_per_s)),
            }
        })
        .collect();
    let mut lines: Vec<String> = told
        .chunks(A_LINE)
        .enumerate()
        .map(|(number, part)| {
            let head = if number == 0 { "evidence" } else { "" };
            format!("{head:10}  {}", part.join("   "))
        })
        .collect();
    if let (Some(last), false) = (lines.last_mut(), fault.kind.is_of_losses()) {
        *last += &format!(" {}", scale.unit);
    }
    let commands = commands(record, fault);
    lines.extend(commands.map(|(server, client)| format!("reproduce   {server}      {client}")));
    lines
}

/// Server and client commands that repeat the first direct isolated measurement with another tool (iperf3), with the rate to expect.
/// Returns `None` if one pair cannot show the fault.
pub fn commands(record: &Record, fault: &FaultSheet) -> Option<(String, String)> {
    // One client loads one pair. It can show neither a shared uplink nor a port that others congest.
    if fault.kind == FaultKind::HeadOfLine || fault.culprit.is_uplink() || fault.culprit.is_shared()
    {
        return None;
    }
    let one = fault.direct_evidence().next()?;
    let first = record.plan.tests().first();
    let (streams, rails) = first.map_or((1, 1), |test| (test.streams, test.rails.max(1)));
    // Streams of one rail, since each rail had its own streams.
    let streams = (streams / rails).max(1);
    // The rate limit applies to each stream.
    let held = fault.kind.is_of_losses().then(|| {
        let each = one.rate_bits_per_s / streams as f64;
        format!(" -b {:.0}K", (each / 1e3).max(1.0))
    });
    let held = held.unwrap_or_default();
    let port = |number: usize| record.sheet.ports.get(number);
    let (from, to) = (port(one.from)?, port(one.to)?);
    let address = |port: &PortSheet| {
        let host = record.hosts.get(port.node)?;
        Some(host.rails.get(port.rail)?.address)
    };
    let host = |port: &PortSheet| Some(record.plan.nodes.get(port.node)?.host.as_str());
    let server = format!("{}$ iperf3 -s -B {}", host(to)?, address(to)?);
    let client = format!(
        "{}$ iperf3 -c {} -B {} -P {streams}{held} -t 30      (expect about {})",
        host(from)?,
        address(to)?,
        address(from)?,
        show_rate(one.rate_bits_per_s)
    );
    Some((server, client))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Pattern;

    #[test]
    fn where_nothing_was_ordered_the_sheet_says_so() {
        let text = include_str!("../../tests/golden/slow-receiver/record.json");
        let mut record: Record = serde_json::from_str(text).unwrap();
        assert!(crate::report::text::summary(&record).contains("; speed as specified, "));
        let judged = |record: &mut Record| {
            let judgement =
                crate::judge::verdict::judge(&record.plan, &record.hosts, record.measured());
            (record.sheet, record.verdict) = (judgement.sheet, judgement.verdict);
            crate::report::text::summary(record)
        };
        for node in &mut record.plan.nodes {
            node.speed_bits_per_s = None;
        }
        let said = judged(&mut record);
        assert!(
            said.contains("; speed as negotiated where none is specified, "),
            "{said}"
        );
        // The port speed of one host is unknown.
        for interface in &mut record.hosts[0].facts.interfaces {
            interface.speed_mbit = None;
        }
        let said = judged(&mut record);
        assert!(
            said.contains("; speed of some ports unknown: these are not judged"),
            "{said}"
        );
    }

    #[test]
    fn what_would_decide_is_not_what_was_measured_already() {
        let text = include_str!("../../tests/golden/undecided/record.json");
        let mut record: Record = serde_json::from_str(text).unwrap();
        let said = |record: &Record| would_decide(record, &record.sheet.faults[0]).unwrap();
        assert!(
            said(&record).contains("decide: run --pattern rotate"),
            "{}",
            said(&record)
        );
        record.plan.tests_mut()[0].pattern = Pattern::RING;
        let longer = "decide: repeat the command with a longer --time";
        assert!(said(&record).contains(longer), "{}", said(&record));
    }
}
