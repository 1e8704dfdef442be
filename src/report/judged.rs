//! The judge's findings on a run as lines of text: the sentence to read first, what it means, what it may be used for, and the faults.

use crate::judge::names::floor_in_full;
use crate::plan::{Bound, Pattern, Profile, Purpose, Test, seal};
use crate::record::{Basis, Measured, Record, VerdictWord};
use crate::units::show_ns;

use super::directions::{judged_part, loaded, weakest};
use super::faults;

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

/// Source of the port speeds, as text.
pub fn basis(record: &Record) -> &'static str {
    match record.sheet.basis {
        Basis::Ordered => "speed as specified",
        Basis::Negotiated => "speed as negotiated where none is specified",
        Basis::Unknown => "speed of some ports unknown: these are not judged",
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

#[cfg(test)]
mod tests {
    use super::*;

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
