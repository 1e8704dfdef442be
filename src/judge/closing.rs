//! Final verdict of a run: what was not measured, absent or aborted takes precedence over what was measured.

use crate::plan::{Criteria, Purpose, RunPlan};
use crate::record::{
    HostRecord, ImbRecord, Measured, Missing, Sheet, TestRecord, Trouble, TroubleKind, Verdict,
    VerdictWord, WireFinding, WireKind, first_nodes,
};
use crate::units::percent;

use super::cables;
use super::case::IsOver;
use super::confirm::Request;
use super::names::and_more;
use super::verdict;

/// Everything known at the end of a run.
pub struct Ended<'a> {
    /// The plan, including the tests that the judge requested.
    pub plan: &'a RunPlan,
    /// Records of the hosts.
    pub hosts: &'a [HostRecord],
    /// Plan and results of the work.
    pub measured: Measured<'a>,
    /// Hosts that were absent or lost.
    pub missing: &'a [Missing],
    /// One sentence for each finding on ports that differ from their order.
    pub order: Vec<String>,
    /// Failures that ended the run, first cause first.
    pub troubles: &'a [Trouble],
}

/// Returns the verdict and the sheet of a run.
#[cfg(feature = "internals")]
pub fn close(of: Ended<'_>) -> (Verdict, Sheet) {
    close_until(of, &|| false).expect("nothing ends it early")
}

/// Returns the verdict and the sheet of a run, for as long as they are wanted. `None` if `is_over` says that they are not.
pub(crate) fn close_until(of: Ended<'_>, is_over: IsOver<'_>) -> Option<(Verdict, Sheet)> {
    let (verdict, mut sheet, tests) = match of.measured {
        Measured::Acceptance(acceptance, record) => {
            let judged = verdict::judge_until(of.plan, of.hosts, of.measured, is_over)?;
            let (mut verdict, sheet) = (judged.verdict, judged.sheet);
            if !judged.open.is_empty() {
                leave_unmeasured(&mut verdict, &sheet, &judged.open, &of.plan.criteria);
            }
            leave_elsewhere(&mut verdict, &record.tests);
            leave_absent(&mut verdict, of.missing);
            let is_planned = |test: usize| acceptance.tests[test].purpose != Purpose::Isolated;
            let planned = (0..acceptance.tests.len()).filter(|test| is_planned(*test));
            let run = record.tests.iter().filter(|test| is_planned(test.test));
            leave_unrun(&mut verdict, planned.count(), run.count());
            (verdict, sheet, record.tests.as_slice())
        }
        Measured::Linktest(..) => {
            let mut judged = verdict::judge_until(of.plan, of.hosts, of.measured, is_over)?;
            if !judged.open.is_empty() {
                leave_open(&mut judged.verdict);
            }
            leave_absent(&mut judged.verdict, of.missing);
            (judged.verdict, judged.sheet, &[][..])
        }
        Measured::Latency(_, latency) => {
            let mut verdict = cables::verdict(latency);
            leave_uncabled(&mut verdict, of.missing);
            (verdict, Sheet::default(), &[][..])
        }
        Measured::Imb(_, imb) => (only_told(imb), Sheet::default(), &[][..]),
    };
    sheet.order = of.order;
    let verdict = match (of.troubles.first(), sheet.order.first()) {
        (Some(first), _) => broken_by(first, of.hosts, tests),
        (None, Some(first)) => Verdict {
            word: VerdictWord::Fail,
            reason: format!("{first}{}", and_more(sheet.order.len(), 1, "; ")),
        },
        (None, None) => verdict,
    };
    Some((verdict, sheet))
}

/// Sentences on links that went down or up during an aborted test, the most frequent first.
fn changed_links(hosts: &[HostRecord], tests: &[TestRecord]) -> Vec<String> {
    /// Maximum number of sentences: more links than this are not one cable's fault.
    const MOST: usize = 4;
    let mut found = Vec::new();
    for test in tests.iter().filter(|test| !test.complete) {
        // Interfaces belong to the host, so its first node reports them.
        for (node, host) in first_nodes(hosts) {
            let interfaces = test.nodes.get(node).into_iter().flatten();
            for (name, counters) in interfaces.flat_map(|node| &node.interfaces) {
                let changes = counters.carrier_changes.unwrap_or(0);
                if changes > 0 {
                    found.push((changes, &host.node, name));
                }
            }
        }
    }
    found.sort_by(|one, other| other.cmp(one));
    let words = found.iter().take(MOST).map(|(times, host, name)| {
        let times = match times {
            1 => "once".to_owned(),
            _ => format!("{times} times"),
        };
        format!("{host}: the link of {name} went down or up {times}")
    });
    words.collect()
}

/// Verdict of a run that a failure ended. A cable that lost its link comes before a node that stalled, fell silent or was lost meanwhile: which
/// host it belongs to is no guess.
fn broken_by(first: &Trouble, hosts: &[HostRecord], tests: &[TestRecord]) -> Verdict {
    let node = if first.node.is_empty() {
        String::new()
    } else {
        format!("{}: ", first.node)
    };
    let mut parts = changed_links(hosts, tests);
    let follows = first.kind.may_follow() || first.kind == TroubleKind::Lost;
    let place = if follows { parts.len() } else { 0 };
    parts.insert(place, format!("{node}{}", first.text()));
    Verdict {
        word: VerdictWord::Invalid,
        reason: parts.join("; "),
    }
}

/// Makes a link test undecided if it cannot make all looks that the judge requests.
fn leave_open(verdict: &mut Verdict) {
    if matches!(verdict.word, VerdictWord::Pass | VerdictWord::NotJudged) {
        verdict.word = VerdictWord::Undecided;
        "single links cannot show what falls short (an uplink?): test it with pipebench --pattern rotate"
            .clone_into(&mut verdict.reason);
    }
}

/// Withholds a pass while a suspect could not be measured alone.
fn leave_unmeasured(verdict: &mut Verdict, sheet: &Sheet, open: &[Request], criteria: &Criteria) {
    if !matches!(verdict.word, VerdictWord::Pass | VerdictWord::NotJudged) {
        return;
    }
    let short = sheet.directions().filter_map(|(port, way, one)| {
        let share = one.share?;
        let is_short = match criteria.min_rate_bits_per_s {
            Some(asked) => one.rate_bits_per_s < asked as f64,
            None => share < one.floor.unwrap_or(criteria.floor),
        };
        is_short.then(|| (share, format!("{} {way}", port.label)))
    });
    let least = short.min_by(|a, b| a.0.total_cmp(&b.0));
    let least = least.map_or_else(String::new, |(share, name)| {
        format!(" (lowest: {name}, {:.1} %)", percent(share))
    });
    verdict.word = VerdictWord::Undecided;
    let losses = open.iter().find(|request| request.paced.is_some());
    let pair = losses.and_then(|request| request.pairs.first());
    verdict.reason = match (pair, least.is_empty()) {
        (Some((from, to)), true) => format!(
            "losses of {}->{} could not be tested without contention: test that pair alone, limited below its rate (--rate)",
            sheet.label(*from),
            sheet.label(*to)
        ),
        _ => format!(
            "a suspect could not be retested in isolation{least}: test it with a known-good partner (--hosts A,B --pattern pairs)"
        ),
    };
}

/// Withholds a pass if another interface of the host carried the traffic of a port: that port was not loaded.
fn leave_elsewhere(verdict: &mut Verdict, tests: &[TestRecord]) {
    if verdict.word != VerdictWord::Pass {
        return;
    }
    let findings = tests.iter().flat_map(|test| &test.wires);
    // Counters that lag lack a little. Traffic on another interface leaves most of the bytes missing.
    let most = |one: &&WireFinding| one.counted_bytes < one.payload_bytes / 2;
    let mut elsewhere = findings.filter(most).filter_map(|one| {
        let way = match &one.kind {
            WireKind::WrongRoute { by } => ("left", by),
            WireKind::ArpFlux { by } => ("arrived", by),
            WireKind::ForeignSent { .. } | WireKind::ForeignReceived { .. } => return None,
        };
        Some((one, way))
    });
    if let Some((one, (way, by))) = elsewhere.next() {
        let by = by.as_deref().unwrap_or("another interface");
        verdict.word = VerdictWord::Undecided;
        verdict.reason = format!(
            "traffic of {} {} {way} by {by}: that port was not loaded (check its routes and arp_ignore)",
            one.node, one.interface
        );
    }
}

/// Withholds a pass if the time did not suffice for all tests.
fn leave_unrun(verdict: &mut Verdict, planned: usize, run: usize) {
    let judged = match verdict.word {
        VerdictWord::Pass => "; every port direction judged in them reached its floor",
        VerdictWord::NotJudged => "",
        _ => return,
    };
    if run < planned {
        verdict.word = VerdictWord::Undecided;
        verdict.reason = format!("--max-time allowed {run} of {planned} tests{judged}");
    }
}

/// Withholds a pass if a host was absent: its port was not judged, and its specification is open.
fn leave_absent(verdict: &mut Verdict, missing: &[Missing]) {
    let Some(first) = missing
        .first()
        .filter(|_| verdict.word == VerdictWord::Pass)
    else {
        return;
    };
    let more = and_more(missing.len(), 1, " ");
    verdict.word = VerdictWord::Undecided;
    verdict.reason = format!(
        "{}{more} was absent, so its port was not judged; every other judged port reached its floor",
        first.node
    );
}

/// Withholds a pass on cables if a host was absent: its cable was not measured.
fn leave_uncabled(verdict: &mut Verdict, missing: &[Missing]) {
    if let (VerdictWord::Pass, Some(first)) = (verdict.word, missing.first()) {
        verdict.word = VerdictWord::Undecided;
        verdict.reason = format!(
            "{} was absent, so its cable was not measured; {}",
            first.node, verdict.reason
        );
    }
}

/// Verdict of a run of patterns, which are reported and not judged.
fn only_told(imb: &ImbRecord) -> Verdict {
    let tables = imb.tables.len();
    let noun = if tables == 1 { "table" } else { "tables" };
    Verdict {
        word: VerdictWord::NotJudged,
        reason: format!("{tables} {noun} of patterns: times are reported, not judged"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Record;

    /// Symptom: Ctrl-C did not end the search for what to measure again.
    #[test]
    fn a_judgement_that_is_not_wanted_any_more_ends_its_search() {
        let text = include_str!("../../tests/golden/backplane/record.json");
        let record: Record = serde_json::from_str(text).unwrap();
        let asked = std::cell::Cell::new(0_usize);
        let after = |most: usize| {
            asked.set(0);
            let is_over = || {
                asked.set(asked.get() + 1);
                asked.get() > most
            };
            let ended = Ended {
                plan: &record.plan,
                hosts: &record.hosts,
                measured: record.measured(),
                missing: &[],
                order: Vec::new(),
                troubles: &[],
            };
            (close_until(ended, &is_over).is_some(), asked.get())
        };
        let (whole, cut) = (after(usize::MAX), after(10));
        assert!(whole.0 && !cut.0);
        assert!(cut.1 < whole.1, "{cut:?} {whole:?}");
    }

    #[test]
    fn nothing_passes_on_what_another_interface_carried() {
        let text = include_str!("../../tests/golden/acceptance/record.json");
        let mut record: Record = serde_json::from_str(text).unwrap();
        let passed = || Verdict {
            word: VerdictWord::Pass,
            reason: "as it was".to_owned(),
        };
        let finding = |kind| crate::record::WireFinding {
            node: "n1".to_owned(),
            interface: "eth1".to_owned(),
            payload_bytes: 1000,
            counted_bytes: 10,
            kind,
        };
        let mut verdict = passed();
        record.tests_mut()[0].wires = vec![finding(WireKind::ForeignSent { bytes: 7 })];
        leave_elsewhere(&mut verdict, record.tests());
        assert_eq!(verdict, passed());
        let by = Some("eth0".to_owned());
        record.tests_mut()[0]
            .wires
            .push(finding(WireKind::WrongRoute { by }));
        leave_elsewhere(&mut verdict, record.tests());
        assert_eq!(verdict.word, VerdictWord::Undecided);
        let said = "traffic of n1 eth1 left by eth0: that port was not loaded";
        assert!(verdict.reason.starts_with(said), "{}", verdict.reason);
    }

    #[test]
    fn nothing_passes_while_a_host_is_absent() {
        let of = |word| Verdict {
            word,
            reason: "as it was".to_owned(),
        };
        let missing = |node: &str| Missing {
            node: node.to_owned(),
            test: 0,
            at_ns: None,
            kind: TroubleKind::Lost,
            what: String::new(),
        };
        let mut verdict = of(VerdictWord::Pass);
        leave_absent(&mut verdict, &[]);
        assert_eq!(verdict, of(VerdictWord::Pass));
        leave_absent(&mut verdict, &[missing("n4"), missing("n7")]);
        assert_eq!(verdict.word, VerdictWord::Undecided);
        assert!(verdict.reason.starts_with("n4 and 1 more was absent"));
        let mut cables = of(VerdictWord::Pass);
        leave_uncabled(&mut cables, &[]);
        assert_eq!(cables, of(VerdictWord::Pass));
        leave_uncabled(&mut cables, &[missing("n4")]);
        assert_eq!(cables.word, VerdictWord::Undecided);
        assert!(cables.reason.starts_with("n4 was absent"));
        let mut verdict = of(VerdictWord::Fail);
        leave_absent(&mut verdict, &[missing("n4")]);
        assert_eq!(verdict, of(VerdictWord::Fail));
    }

    #[test]
    fn nothing_passes_while_a_suspect_could_not_be_measured() {
        let text = include_str!("../../tests/golden/acceptance/record.json");
        let mut record: Record = serde_json::from_str(text).unwrap();
        let verdict = |word| Verdict {
            word,
            reason: "as it was".to_owned(),
        };
        record.sheet.ports[1].receive.as_mut().unwrap().share = Some(0.158);
        let label = &record.sheet.ports[1].label;
        let mut passed = verdict(VerdictWord::Pass);
        leave_unmeasured(&mut passed, &record.sheet, &[], &Criteria::default());
        assert_eq!(passed.word, VerdictWord::Undecided);
        let least = format!("(lowest: {label} receive, 15.8 %)");
        assert!(passed.reason.contains(&least), "{}", passed.reason);
        let mut failed = verdict(VerdictWord::Fail);
        leave_unmeasured(&mut failed, &record.sheet, &[], &Criteria::default());
        assert_eq!(failed, verdict(VerdictWord::Fail));
        // A look for losses that was not possible has nothing to do with the port that carried least.
        let paced = Request {
            paced: Some(1.0),
            ..Request::of(vec![(0, 1)])
        };
        let mut passed = verdict(VerdictWord::Pass);
        let low = Criteria {
            floor: 0.1,
            ..Criteria::default()
        };
        leave_unmeasured(&mut passed, &record.sheet, &[paced], &low);
        let said = format!(
            "losses of {}->{label} could not",
            record.sheet.ports[0].label
        );
        assert!(passed.reason.starts_with(&said), "{}", passed.reason);
    }

    #[test]
    fn a_link_that_goes_down_and_up_is_named_before_what_it_broke() {
        let text = include_str!("../../tests/golden/two-hosts/record.json");
        let mut record: Record = serde_json::from_str(text).unwrap();
        let of = |kind| Trouble::own(kind, "no byte moved for 15 s");
        let of_kind = |kind, record: &Record| broken_by(&of(kind), &record.hosts, record.tests());
        let said = |record: &Record| of_kind(TroubleKind::Deadline, record).reason;
        let counted = |record: &mut Record, times: u64| {
            let node = record.tests_mut()[0].nodes[1].as_mut().unwrap();
            node.interfaces[0].1.carrier_changes = Some(times);
        };
        counted(&mut record, 12);
        assert_eq!(
            said(&record),
            "no byte moved for 15 s",
            "the test came to its end"
        );
        record.tests_mut()[0].complete = false;
        let name = record.tests()[0].nodes[1].as_ref().unwrap().interfaces[0]
            .0
            .clone();
        assert_eq!(
            said(&record),
            format!("n2: the link of {name} went down or up 12 times; no byte moved for 15 s")
        );
        // A failure that no cable causes comes first.
        assert_eq!(
            of_kind(TroubleKind::Killed, &record).reason,
            format!("no byte moved for 15 s; n2: the link of {name} went down or up 12 times")
        );
        counted(&mut record, 0);
        assert_eq!(said(&record), "no byte moved for 15 s");
    }
}
