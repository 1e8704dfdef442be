//! Which tests a run has: those that were planned, less what cannot run, and what the judge asks for; and the verdict of all.

use crate::judge::confirm::Request;
use crate::judge::{ask, verdict};
use crate::plan::{Criteria, Pattern, Purpose, Test, lanes};
use crate::record::{
    HostRecord, ImbRecord, Missing, Sheet, TestRecord, Trouble, TroubleKind, Verdict, VerdictWord,
    WireFinding, WireKind,
};

use super::Running;
use super::crew::{Crew, Halt};
use crate::plan::Bound;
use crate::sys::clock;
use crate::units::show_ns;

const SECOND_NS: u64 = 1_000_000_000;

impl Running<'_> {
    /// Asks the judge whether suspects have to be measured by themselves, and adds such tests to the plan.
    pub(super) fn looks_again(&mut self, crew: &mut Crew) -> bool {
        /// More second looks than this tell nothing more.
        const MOST_LOOKS: usize = 256;
        let looks = |test: &&Test| test.purpose == Purpose::Isolated;
        if self.plan.tests.iter().filter(looks).count() >= MOST_LOOKS {
            return false;
        }
        let open = verdict::judge(&self.plan, &self.hosts, &self.tests, &[]).open;
        let complete = self.tests.iter().filter(|test| test.complete).count();
        if open == self.asked.0 && complete == self.asked.1 {
            return false; // It could not be measured: a host may be gone.
        }
        self.asked = (open.clone(), complete);
        let base = self.plan.tests.iter().find(|test| !looks(test)).cloned();
        let Some(base) = base.filter(|_| !open.is_empty()) else {
            return false;
        };
        let of = |request| ask::test_for(&self.plan, &self.hosts, &base, request);
        let tests = open.iter().map(of);
        let tests: Vec<Test> = tests
            .filter(|test| ask::may_tell(&self.plan.tests, test))
            .collect();
        if tests.is_empty() {
            return false;
        }
        let takes_ns: u64 = tests.iter().map(|test| self.takes_ns(test)).sum();
        let looks = match tests.len() {
            1 => "1 measurement".to_owned(),
            several => format!("{several} measurements"),
        };
        let what = match open.iter().all(|request| request.again.is_some()) {
            true => "tests are repeated as they were",
            false => "suspects are measured alone",
        };
        self.plan.tests.extend(tests);
        crew.notice(&format!(
            "{what}: {looks}, about {}",
            show_ns(takes_ns.next_multiple_of(SECOND_NS))
        ));
        self.tell_notices(crew);
        true
    }

    /// Shows how long the planned tests take, if all of them are bounded by time.
    pub(super) fn tell_estimate(&mut self) {
        let tests = &self.plan.tests[self.first..];
        let is_timed = |test: &Test| matches!(test.bound, Bound::Time { .. });
        if tests.is_empty() || !tests.iter().all(is_timed) {
            return;
        }
        let takes_ns: u64 = tests.iter().map(|test| self.takes_ns(test)).sum();
        let tests = match tests.len() {
            1 => "1 test".to_owned(),
            several => format!("{several} tests"),
        };
        let limit = match self.plan.deadlines.run_ms {
            Some(ms) => format!("at most {}", show_ns(ms.saturating_mul(1_000_000))),
            None => "--max-time limits that".to_owned(),
        };
        self.observer.notice(&format!(
            "{tests}, about {}; what falls short is measured again, which takes longer ({limit})",
            show_ns(takes_ns.next_multiple_of(SECOND_NS))
        ));
    }

    /// How long a test takes, with what the tests until now took beside their windows.
    fn takes_ns(&self, test: &Test) -> u64 {
        /// Setting up and draining, as long as nothing is known of it.
        const USUAL_NS: u64 = 2 * SECOND_NS;
        let bound_ns = |test: &Test| match test.bound {
            Bound::Time {
                warmup_ns,
                window_ns,
            } => warmup_ns.saturating_add(window_ns),
            Bound::Volume { .. } | Bound::Files => 0,
        };
        let own = self.tests.iter().skip(self.first);
        let windows: u64 = own
            .clone()
            .filter_map(|record| self.plan.tests.get(record.test))
            .map(bound_ns)
            .sum();
        let passed = clock::monotonic_ns().saturating_sub(self.tests_began_ns);
        let beside = passed
            .saturating_sub(windows)
            .checked_div(own.count() as u64);
        bound_ns(test).saturating_add(beside.unwrap_or(USUAL_NS))
    }

    /// What is said where a test would end later than all of them may.
    pub(super) fn is_too_late(&self, number: usize) -> Option<String> {
        let limit_ns = self.plan.deadlines.run_ms?.saturating_mul(1_000_000);
        let passed = clock::monotonic_ns().saturating_sub(self.began_ns);
        let takes_ns = self.takes_ns(&self.plan.tests[number]);
        (passed.saturating_add(takes_ns) > limit_ns).then(|| {
            format!(
                "--max-time {}: ended before test {} of {}, which takes about {}",
                show_ns(limit_ns),
                number + 1,
                self.plan.tests.len(),
                show_ns(takes_ns.next_multiple_of(SECOND_NS))
            )
        })
    }

    /// Gives a test the rates that its links are held to, if it needs any. False if it cannot run, and was taken out of the plan.
    pub(super) fn is_possible(&mut self, crew: &mut Crew, number: usize) -> Result<bool, Halt> {
        let test = &self.plan.tests[number];
        let loss = test.purpose == Purpose::Loss;
        let hol = test.pattern == Pattern::Hol && test.sockets.rate_bits_per_s.is_none();
        if !test.paces.is_empty() || !(loss || hol) {
            return Ok(true);
        }
        self.choose_ports(crew, number)?;
        let test = &self.plan.tests[number];
        match ask::paces(&self.plan, &self.hosts, test) {
            Some(paces) => {
                self.plan.tests[number].paces = paces;
                Ok(true)
            }
            None if hol => {
                let what = "--pattern hol: what half of a port's rate is, is not known (give --link-speed)";
                Err(Halt::Trouble(Box::new(Trouble::own(
                    TroubleKind::Usage,
                    what,
                ))))
            }
            None => {
                crew.notice("losses are not looked for: what ports can carry is not known (give --link-speed)");
                self.tell_notices(crew);
                self.plan.tests.remove(number);
                Ok(false)
            }
        }
    }

    /// Who was lost in an earlier test has no links in this one.
    pub(super) fn leave_out_lost(&mut self, crew: &Crew, number: usize) -> Result<(), Halt> {
        let nodes = self.plan.nodes.len();
        if !(0..nodes).any(|node| crew.is_lost(node)) {
            return Ok(());
        }
        let test = &mut self.plan.tests[number];
        let all = lanes::of_boundary(test, nodes, 0);
        let here = |lane: &&lanes::Lane| !crew.is_lost(lane.from) && !crew.is_lost(lane.to);
        let mut left: Vec<(usize, usize)> = all
            .iter()
            .filter(here)
            .filter(|lane| !lane.is_own())
            .map(|lane| (lane.from, lane.to))
            .collect();
        left.dedup();
        let pattern = Pattern::Links(left);
        let runs = pattern.check(nodes, test.phases);
        if let Err(error) = runs {
            return Err(Halt::Trouble(Box::new(Trouble::own(
                TroubleKind::Usage,
                format!(
                    "cannot go on with test {} without lost nodes: {error}",
                    number + 1
                ),
            ))));
        }
        test.pattern = pattern;
        Ok(())
    }
}

/// Links that went down or up while a test was under way that broke off, the most often first.
fn changed_links(hosts: &[HostRecord], tests: &[TestRecord]) -> Vec<String> {
    /// More of them are not one cable's fault.
    const MOST: usize = 4;
    let mut found = Vec::new();
    for test in tests.iter().filter(|test| !test.complete) {
        // Interfaces are those of the host: its first node tells.
        let firsts = hosts.iter().enumerate();
        for (node, host) in firsts.filter(|(node, host)| host.host_index == *node) {
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
        let times = if *times == 1 {
            "once".to_owned()
        } else {
            format!("{times} times")
        };
        format!("{host}: the link of {name} went down or up {times}")
    });
    words.collect()
}

/// The verdict of a run that something has broken. A cable that came and went stands before what stood still, fell silent or went away
/// meanwhile: whose it is, is no guess.
pub(super) fn broken_by(first: &Trouble, hosts: &[HostRecord], tests: &[TestRecord]) -> Verdict {
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

/// A link test cannot look at everything the judge would like to see.
pub(super) fn leave_open(verdict: &mut Verdict) {
    if matches!(verdict.word, VerdictWord::Pass | VerdictWord::NotJudged) {
        verdict.word = VerdictWord::Undecided;
        "what falls short is more than single links show (an uplink?): measure it with pipebench --pattern rotate"
            .clone_into(&mut verdict.reason);
    }
}

/// Nothing passes while a suspect still has to be measured by itself, and could not be.
pub(super) fn leave_unmeasured(
    verdict: &mut Verdict,
    sheet: &Sheet,
    open: &[Request],
    criteria: &Criteria,
) {
    if !matches!(verdict.word, VerdictWord::Pass | VerdictWord::NotJudged) {
        return;
    }
    let ports = sheet.ports.iter();
    let directions = ports.flat_map(|port| {
        let both = [(port.send, "send"), (port.receive, "receive")];
        both.map(|(one, way)| {
            let one = one?;
            let share = one.share?;
            let is_short = match criteria.min_rate_bits_per_s {
                Some(asked) => one.rate_bits_per_s < asked as f64,
                None => share < one.floor.unwrap_or(criteria.floor),
            };
            is_short.then(|| (share, format!("{} {way}", port.label)))
        })
    });
    let short = directions.flatten();
    let least = short.min_by(|a, b| a.0.total_cmp(&b.0));
    let least = least.map_or_else(String::new, |(share, name)| {
        format!(" (the least: {name}, {:.1} %)", share * 100.0)
    });
    verdict.word = VerdictWord::Undecided;
    let port = |number: usize| {
        let port = sheet.ports.get(number);
        port.map_or("", |port| port.label.as_str())
    };
    let losses = open.iter().find(|request| request.paced.is_some());
    let pair = losses.and_then(|request| request.pairs.first());
    verdict.reason = match (pair, least.is_empty()) {
        (Some((from, to)), true) => format!(
            "losses of {}->{} could not be looked at without contention: measure that pair alone, held below its rate (--rate)",
            port(*from),
            port(*to)
        ),
        _ => format!(
            "a suspect could not be measured by itself{least}: measure it with a known-good partner (--hosts A,B --pattern pairs)"
        ),
    };
}

/// A port is not loaded by what another interface of its host carried: nothing passes on that.
pub(super) fn leave_elsewhere(verdict: &mut Verdict, tests: &[TestRecord]) {
    if verdict.word != VerdictWord::Pass {
        return;
    }
    let findings = tests.iter().flat_map(|test| &test.wires);
    // Counters that lag behind lack a little; what went elsewhere lacks most of it.
    let most = |one: &&WireFinding| one.counted_bytes < one.payload_bytes / 2;
    let mut elsewhere = findings.filter(most).filter_map(|one| {
        let way = match &one.kind {
            WireKind::WrongRoute { by } => ("left", by),
            WireKind::ArpFlux { by } => ("came", by),
            WireKind::ForeignSent { .. } | WireKind::ForeignReceived { .. } => return None,
        };
        Some((one, way))
    });
    if let Some((one, (way, by))) = elsewhere.next() {
        let by = by.as_deref().unwrap_or("another interface");
        verdict.word = VerdictWord::Undecided;
        verdict.reason = format!(
            "what {} {} should have carried {way} by {by}: that port was not loaded (see its routes and arp_ignore)",
            one.node, one.interface
        );
    }
}

/// What the time did not suffice for is not passed.
pub(super) fn leave_unrun(verdict: &mut Verdict, planned: usize, run: usize) {
    let judged = match verdict.word {
        VerdictWord::Pass => "; every port direction that was judged in them reached its floor",
        VerdictWord::NotJudged => "",
        _ => return,
    };
    if run < planned {
        verdict.word = VerdictWord::Undecided;
        verdict.reason =
            format!("{run} of {planned} tests were run in the time that --max-time allows{judged}");
    }
}

/// A port whose host was absent was not judged, and what was specified for it is open.
pub(super) fn leave_absent(verdict: &mut Verdict, missing: &[Missing]) {
    let Some(first) = missing
        .first()
        .filter(|_| verdict.word == VerdictWord::Pass)
    else {
        return;
    };
    let more = match missing.len() - 1 {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    verdict.word = VerdictWord::Undecided;
    verdict.reason = format!(
        "{}{more} was absent, so its port was not judged; every other port that was judged reached its floor",
        first.node
    );
}

/// The verdict of patterns, which has none.
pub(super) fn only_told(patterns: &[ImbRecord]) -> Verdict {
    let tables: usize = patterns.iter().map(|job| job.tables.len()).sum();
    let noun = if tables == 1 { "table" } else { "tables" };
    Verdict {
        word: VerdictWord::NotJudged,
        reason: format!("{tables} {noun} of patterns: times are told, nothing judges them"),
    }
}

/// The verdict of a run whose ports are not as ordered.
pub(super) fn not_as_ordered(first: &str, findings: usize) -> Verdict {
    let more = match findings - 1 {
        0 => String::new(),
        more => format!("; and {more} more"),
    };
    Verdict {
        word: VerdictWord::Fail,
        reason: format!("{first}{more}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Record;

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
        record.tests[0].wires = vec![finding(WireKind::ForeignSent { bytes: 7 })];
        leave_elsewhere(&mut verdict, &record.tests);
        assert_eq!(verdict, passed());
        let by = Some("eth0".to_owned());
        record.tests[0]
            .wires
            .push(finding(WireKind::WrongRoute { by }));
        leave_elsewhere(&mut verdict, &record.tests);
        assert_eq!(verdict.word, VerdictWord::Undecided);
        let said = "what n1 eth1 should have carried left by eth0: that port was not loaded";
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
        let least = format!("(the least: {label} receive, 15.8 %)");
        assert!(passed.reason.contains(&least), "{}", passed.reason);
        let mut failed = verdict(VerdictWord::Fail);
        leave_unmeasured(&mut failed, &record.sheet, &[], &Criteria::default());
        assert_eq!(failed, verdict(VerdictWord::Fail));
        // Losses that could not be looked at are no matter of the port that carried the least.
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
        let of_kind = |kind, record: &Record| broken_by(&of(kind), &record.hosts, &record.tests);
        let said = |record: &Record| of_kind(TroubleKind::Deadline, record).reason;
        let counted = |record: &mut Record, times: u64| {
            let node = record.tests[0].nodes[1].as_mut().unwrap();
            node.interfaces[0].1.carrier_changes = Some(times);
        };
        counted(&mut record, 12);
        assert_eq!(
            said(&record),
            "no byte moved for 15 s",
            "the test came to its end"
        );
        record.tests[0].complete = false;
        let name = record.tests[0].nodes[1].as_ref().unwrap().interfaces[0]
            .0
            .clone();
        assert_eq!(
            said(&record),
            format!("n2: the link of {name} went down or up 12 times; no byte moved for 15 s")
        );
        // What does not come of a cable stands first.
        assert_eq!(
            of_kind(TroubleKind::Killed, &record).reason,
            format!("no byte moved for 15 s; n2: the link of {name} went down or up 12 times")
        );
        counted(&mut record, 0);
        assert_eq!(said(&record), "no byte moved for 15 s");
    }
}
