//! The judge's findings on a run as lines of text: the sentence to read first, what it means, what it may be used for, and the faults.

use std::collections::BTreeSet;

use crate::judge::names::floor_in_full;
use crate::plan::sample::{self, Sample};
use crate::plan::{Bound, Pattern, Profile, Purpose, RunPlan, Test, seal};
use crate::record::{Basis, FaultKind, Measured, Record, TestRecord, VerdictWord};
use crate::units::{show_ns, show_rate};

use super::directions::{judged_part, loaded, looks_for_losses, weakest};
use super::{count, faults, percent};

/// Fixed sentence on every sheet: the kind of test, and the RFCs whose conformance it does not claim.
pub const FIXED_WORDS: &str = "software test from end hosts, TCP payload; follows RFC 2889/8239 patterns, does not claim conformance";

/// Maximum number of faults that are shown. The same limit applies to remarks and to findings on the order.
const TOLD: usize = 6;

/// The sentence to read first: the weakest port of a PASS, else the reason of the verdict.
pub fn sentence(record: &Record) -> String {
    let weakest = weakest(record).filter(|_| record.verdict.word == VerdictWord::Pass);
    weakest.unwrap_or_else(|| record.verdict.reason.clone())
}

/// What the verdict means, in one sentence; `None` for kinds of work that have no floor.
pub fn meaning(record: &Record) -> Option<String> {
    match record.measured() {
        Measured::Acceptance(..) | Measured::Linktest(..) => {}
        Measured::Latency(..) | Measured::Imb(..) => return None,
    }
    let floor = floor_in_full(&record.plan);
    let word = record.verdict.word;
    let said = match word {
        VerdictWord::Pass => {
            let losses = match looks_for_losses(&record.plan) {
                true => format!(
                    ", and no port lost more than {:e} of its segments without contention",
                    record.plan.criteria.loss
                ),
                false => String::new(),
            };
            format!("every judged port direction delivered at least {floor} in every test{losses}")
        }
        VerdictWord::Fail => failed(record, &floor),
        VerdictWord::Undecided => format!(
            "the run proves neither that every port direction delivers at least {floor} nor that the switch is at fault"
        ),
        VerdictWord::HostLimited => {
            format!("a host was the limit, so the switch is not judged there; the floor is {floor}")
        }
        VerdictWord::NotJudged => {
            "these are measured figures, without a comparison to a specified speed".to_owned()
        }
        VerdictWord::Invalid => {
            "the run did not end as planned, so nothing of it can be judged".to_owned()
        }
    };
    Some(format!("{word} means: {said}."))
}

/// What a FAIL means: its first finding, and how it was proved.
fn failed(record: &Record, floor: &str) -> String {
    let sheet = &record.sheet;
    let Some(fault) = sheet.faults.first().filter(|_| sheet.order.is_empty()) else {
        return "a port is not as specified".to_owned();
    };
    let again = "again when retested in isolation";
    match fault.kind {
        FaultKind::Loss => format!(
            "more than {:e} of the segments were lost without contention, {again}",
            record.plan.criteria.loss
        ),
        FaultKind::Broken => format!("frames arrived broken without contention, {again}"),
        FaultKind::HeadOfLine => format!(
            "a pair delivered less than {floor} while a port that it does not use was congested, again when that was repeated, but not in isolation"
        ),
        FaultKind::Rate if fault.culprit.is_shared() => format!(
            "ports together delivered less than {floor}, again when they were retested together with no other load; fewer of them at once are healthy"
        ),
        FaultKind::Rate => format!("a port, pair or uplink delivered less than {floor}, {again}"),
    }
}

/// Data on the site in one line: the switch, its location, the operator and the customer.
pub(super) fn site(record: &Record) -> Option<String> {
    let said = record.plan.site.as_ref()?.said();
    let said: Vec<String> = said
        .iter()
        .map(|(name, text)| match *name {
            "remarks" => format!("{name}: {text}"),
            _ => format!("{name} {text}"),
        })
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
        "      {} of {} ports{of_switch} loaded both ways; slowest port's best rate: {} of its ceiling{}",
        loaded.ports,
        loaded.named,
        percent(share),
        judged_part(record).map_or_else(String::new, |part| format!("; {part}"))
    ))
}

/// Source of the port speeds, as text.
fn basis(record: &Record) -> &'static str {
    match record.sheet.basis {
        Basis::Ordered => "speed as specified",
        Basis::Negotiated => "speed as negotiated where none is specified",
        Basis::Unknown => "speed of some ports unknown: these are not judged",
    }
}

/// Speeds that the ports are judged by, and those that they negotiated, as text for the conditions of test.
pub(super) fn speeds(record: &Record) -> String {
    let shown = |rates: BTreeSet<u64>| {
        let rates = rates.into_iter().map(|rate| show_rate(rate as f64));
        rates.collect::<Vec<_>>().join(" and ")
    };
    let nodes = record.plan.nodes.iter();
    let specified: BTreeSet<u64> = nodes.filter_map(|node| node.speed_bits_per_s).collect();
    let ports = record.hosts.iter();
    let ports = ports.flat_map(|host| host.rails.iter().filter_map(|rail| host.interface_of(rail)));
    let speeds = ports.filter_map(|port| port.speed_mbit);
    let negotiated: BTreeSet<u64> = speeds.map(|mbit| mbit.saturating_mul(1_000_000)).collect();
    let is_more = negotiated.first() > specified.last() && !specified.is_empty();
    let (specified, negotiated) = (shown(specified), shown(negotiated));
    let judged = match record.sheet.basis {
        Basis::Ordered if is_more => {
            return format!(
                "{specified} specified; ports negotiated {negotiated}, at least as specified"
            );
        }
        Basis::Ordered if !specified.is_empty() => format!("{specified} as specified"),
        Basis::Ordered | Basis::Negotiated | Basis::Unknown => basis(record).to_owned(),
    };
    match negotiated.is_empty() {
        true => judged,
        false => format!("{judged}; ports negotiated {negotiated}"),
    }
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
    let shows_shares = loaded.is_some();
    lines.extend(loaded);
    let all = || record.sheet.faults.iter();
    for (number, fault) in all().take(TOLD).enumerate() {
        if number > 0 {
            lines.push(format!(
                "            {}: {}",
                fault.word,
                faults::brief(record, fault)
            ));
        }
        // Confirmed faults are explained. An undecided one is explained only if it is the first, so if no fault is confirmed.
        if fault.word == VerdictWord::Fail || number == 0 {
            lines.extend(faults::next(record, fault));
            lines.extend(faults::evidence(record, fault));
            if fault.word == VerdictWord::Fail {
                lines.extend(fault.notes.iter().map(|note| format!("            {note}")));
            }
        }
    }
    let more = all().count().saturating_sub(TOLD);
    if more > 0 {
        lines.push(format!("            and {more} more, all in the record"));
    }
    lines.extend(congestion(record).map(|text| format!("            {text}")));
    let remarks = record.sheet.remarks.iter().take(TOLD);
    lines.extend(remarks.map(|remark| format!("            {remark}")));
    let order = record.sheet.order.iter().skip(1).take(TOLD);
    lines.extend(order.map(|finding| format!("            FAIL: {finding}")));
    let above = above(record).filter(|_| shows_shares);
    lines.extend(above.map(|text| format!("            {text}")));
    lines
}

/// Reason for shares above 100 %, if a report of the run shows any.
pub(super) fn above(record: &Record) -> Option<&'static str> {
    const ABOVE: f64 = 1.005;
    let of_ports = record.sheet.directions().flat_map(|(port, _, one)| {
        let best = port
            .ceiling_bits_per_s
            .map(|ceiling| one.most_bits_per_s / ceiling);
        [best, one.share]
    });
    let evidence = record.sheet.faults.iter().flat_map(|fault| &fault.evidence);
    let evidence = evidence.map(|one| Some(one.rate_bits_per_s / one.expected_bits_per_s));
    let mut shares = of_ports.chain(evidence).flatten();
    shares.any(|share| share > ABOVE).then_some(
        "a share above 100 % is a burst at the edges of the window, or of a limiter that lets bursts pass",
    )
}

/// Warning that BBR can be the reason of a low rate. A run without a low rate does not need it.
pub(super) fn congestion(record: &Record) -> Option<&'static str> {
    let is_bbr = |name: &str| name.starts_with("bbr");
    let any_host = record
        .hosts
        .iter()
        .any(|host| is_bbr(&host.facts.congestion));
    let uses_bbr = |test: &TestRecord| {
        let plan = &record.plan.tests()[test.test];
        let tcp = test.links.iter().any(|link| link.kind.has_tcp_info());
        tcp && plan.sockets.congestion.as_deref().map_or(any_host, is_bbr)
    };
    let is_short = record
        .sheet
        .faults
        .iter()
        .any(|fault| fault.kind == FaultKind::Rate);
    (is_short && record.tests().iter().any(uses_bbr)).then_some(
        "the congestion control is bbr, which may leave healthy ports unfilled and costs 2 to 4 times the CPU: try --congestion reno",
    )
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
    let narrow = record.tests().iter().any(|test| {
        let crossing = test.links.iter().filter(|link| link.crosses_switch);
        let sums = test.sums.iter().filter(|sums| sums.crosses_switch);
        let ports = sums.flat_map(|sums| sums.ports.iter().flatten());
        let paths = crossing.filter_map(|link| link.path_mtu_bytes());
        let mut paths = paths.chain(ports.filter_map(|port| port.path_mtu_bytes));
        paths.any(|bytes| mtus.iter().all(|mtu| bytes < u64::from(*mtu)))
    });
    match mtus[..] {
        [mtu] if narrow => Some(format!("MTU {mtu}, but some paths pass less")),
        [mtu] => Some(format!("MTU {mtu} verified")),
        _ => None,
    }
}

/// Use that the figures of one test, or of tests without a profile, permit.
const SCREENING: &str = "SCREENING, not for signature";

/// The use that the figures of a plan permit. Returns `None` for kinds of work other than an acceptance.
pub(super) fn permitted_use(plan: &RunPlan) -> Option<&'static str> {
    let acceptance = plan.acceptance()?;
    let looked = looks_for_losses(plan);
    Some(match (acceptance.profile, acceptance.shortened) {
        _ if acceptance.repeats.is_some() => "RETEST",
        (Profile::Acceptance, false) if !looked => "SCREENING (acceptance without loss tests)",
        (Profile::Acceptance, true) if !looked => {
            "SCREENING (acceptance, shortened, without loss tests)"
        }
        (Profile::Acceptance, false) => "ACCEPTANCE",
        (Profile::Acceptance, true) => "SCREENING (acceptance, shortened)",
        (Profile::Soak, false) => "SOAK",
        (Profile::Soak, true) => "SCREENING (soak, shortened)",
        (Profile::Quick, _) => SCREENING,
    })
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
    let several = |tests: &[&Test], what: String| {
        let window = match tests.first()?.bound {
            Bound::Time { window_ns, .. } => show_ns(window_ns),
            Bound::Volume { .. } | Bound::Files => "a volume".to_owned(),
        };
        Some(format!("{what} x {window}"))
    };
    let permutations = match sample::of(&record.plan) {
        Some(Sample {
            permutations: (run, all),
            ..
        }) => format!("{run} of {all} permutations"),
        None => count(single.len(), "permutation"),
    };
    let lengths = [
        several(&single, permutations),
        several(&mesh, format!("{} all at once", mesh.len())),
    ];
    let lengths: Vec<String> = lengths.into_iter().flatten().collect();
    if let Some(first) = &acceptance.repeats {
        let planned = || tests().filter(|test| test.purpose != Purpose::Isolated);
        let what = match planned().all(|test| matches!(test.pattern, Pattern::Links(_))) {
            true => format!("{}, each in isolation", count(planned().count(), "link")),
            false => format!("all its tests, {}", lengths.join(", ")),
        };
        return Some(format!("      RETEST of {first}: {what}; {basis}"));
    }
    let mtu = mtu(record).map_or_else(String::new, |mtu| format!(", {mtu}"));
    let word = permitted_use(&record.plan)?;
    let colon = if word == SCREENING { ":" } else { "" };
    Some(format!(
        "      {word}{colon} {}; {basis}{mtu}",
        lengths.join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(text: &str) -> Record {
        serde_json::from_str(text).unwrap()
    }

    /// Symptom: "FAIL means: something delivered less than 90 %, again when retested in isolation" of a backplane, whose ports are healthy in
    /// isolation, and of a port that loses segments.
    #[test]
    fn what_a_verdict_means_fits_what_was_found() {
        let said = |text: &str| meaning(&stored(text)).unwrap();
        let backplane = said(include_str!("../../tests/golden/backplane/record.json"));
        assert!(
            backplane.contains("again when they were retested together with no other load"),
            "{backplane}"
        );
        assert_eq!(
            said(include_str!("../../tests/golden/losses/record.json")),
            "FAIL means: more than 1e-5 of the segments were lost without contention, again when retested in isolation."
        );
        assert_eq!(
            said(include_str!(
                "../../tests/golden/not-as-ordered/record.json"
            )),
            "FAIL means: a port is not as specified."
        );
        // A run without loss tests proves nothing about losses.
        let text = include_str!("../../tests/golden/acceptance/record.json");
        let mut record = stored(text);
        assert!(said(text).contains("lost more than 1e-5"), "{}", said(text));
        for test in record.plan.tests_mut() {
            test.purpose = Purpose::Load;
        }
        assert_eq!(
            meaning(&record).unwrap(),
            "PASS means: every judged port direction delivered at least 90 % of the expected rate in every test."
        );
    }

    /// Symptom: "speeds: speed as specified", without a figure.
    #[test]
    fn the_conditions_have_the_speeds() {
        let mut record = stored(include_str!("../../tests/golden/slow-receiver/record.json"));
        let one = &mut record.hosts[0].facts.interfaces;
        one.iter_mut().for_each(|one| one.speed_mbit = Some(10_000));
        let said = speeds(&record);
        assert!(said.contains("10.00 Gbit/s"), "{said}");
        // Symptom: "as specified", where the ports negotiated a hundred times as much.
        for (mbit, expected) in [
            (
                10_000,
                "100.0 Mbit/s specified; ports negotiated 10.00 Gbit/s, at least as specified",
            ),
            (
                100,
                "100.0 Mbit/s as specified; ports negotiated 100.0 Mbit/s",
            ),
        ] {
            let hosts = record.hosts.iter_mut();
            hosts
                .flat_map(|host| &mut host.facts.interfaces)
                .for_each(|one| one.speed_mbit = Some(mbit));
            assert_eq!(speeds(&record), expected);
        }
        record.sheet.basis = Basis::Negotiated;
        assert!(speeds(&record).starts_with(basis(&record)));
    }

    /// Symptom: "1 permutations x 3 s".
    #[test]
    fn one_permutation_is_not_several() {
        let mut record = stored(include_str!("../../tests/golden/slow-receiver/record.json"));
        record.plan.acceptance_mut().unwrap().tests.truncate(1);
        let said = standing(&record).unwrap();
        assert!(said.contains(": 1 permutation x 3 s; "), "{said}");
    }

    /// Symptom: a note on BBR below every run.
    #[test]
    fn bbr_is_mentioned_only_where_a_rate_is_short() {
        let sound = stored(include_str!("../../tests/golden/two-hosts/record.json"));
        assert!(sound.hosts[1].facts.congestion.starts_with("bbr"));
        assert_eq!(congestion(&sound), None);
        let text = include_str!("../../tests/golden/slow-receiver/record.json");
        let mut short = stored(text);
        assert_eq!(congestion(&short), None, "it used reno");
        short.plan.tests_mut()[0].sockets.congestion = Some("bbr".to_owned());
        let said = crate::report::text::summary(&short);
        assert!(said.contains("the congestion control is bbr"), "{said}");
    }

    /// Symptom: "101.6 % of its ceiling", which no port can carry.
    #[test]
    fn shares_above_100_are_explained_once() {
        let said = |text: &str| crate::report::text::summary(&stored(text));
        let above = said(include_str!("../../tests/golden/slow-pair/record.json"));
        assert_eq!(above.matches("a share above 100 %").count(), 1, "{above}");
        let below = said(include_str!("../../tests/golden/slow-receiver/record.json"));
        assert!(!below.contains("above 100 %"), "{below}");
    }

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
}
