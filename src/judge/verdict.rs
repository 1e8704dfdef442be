//! The sheet and the sentence to sign under, from everything that was measured until now.

use crate::plan::{Coupling, Pattern, RunPlan};
use crate::record::{
    Contention, DirectionSheet, Evidence, FaultKind, FaultSheet, HostRecord, PortSheet, Sheet,
    SignedFigure, TestRecord, UplinkSheet, Verdict, VerdictWord,
};

use crate::units::show_gbit;

use super::blame::{Case, Fault};
use super::confirm::Request;
use super::fabric::{Observation, Place};
use super::hol;
use super::loss::{self, Losses};
use super::names::{culprit, floor_text, name_of};
use super::peers;
use super::view::View;
use super::{Decision, Step, decide};

/// What may be said now, and what should be measured before more is.
pub struct Judgement {
    /// To be measured next; empty if nothing more can be learnt.
    pub open: Vec<Request>,
    /// The word and the sentence.
    pub verdict: Verdict,
    /// Port by port.
    pub sheet: Sheet,
}

/// Judges a run by what was measured until now.
pub fn judge(plan: &RunPlan, hosts: &[HostRecord], tests: &[TestRecord]) -> Judgement {
    let view = View::of(plan, hosts, tests);
    let losses = loss::judge(&view.fabric, &view.observations, plan.criteria.loss);
    let blocking = hol::judge(&view.fabric, &view.observations);
    // What goes to a congested port is shared as it may be: that blames nobody.
    let others: Vec<Observation>;
    let rates = match view.observations.iter().any(|one| one.only.is_some()) {
        false => &view.observations,
        true => {
            let others_of = view.observations.iter().filter(|one| one.only.is_none());
            others = others_of.cloned().collect();
            &others
        }
    };
    let (decision, mut open) = match decide(&view.fabric, rates) {
        Step::Measure(open) => (Decision::default(), open),
        Step::Done(decision) => (decision, Vec::new()),
    };
    if open.is_empty() {
        open.clone_from(&losses.open);
    }
    if let (hol::Finding::Open(requests), true) = (&blocking, open.is_empty()) {
        open.clone_from(requests);
    }
    let writer = Writer {
        plan,
        view: &view,
        case: Case::new(&view.fabric, &view.observations),
        decision,
        losses,
        blocking,
    };
    let sheet = writer.sheet();
    let verdict = writer.verdict(&sheet);
    Judgement {
        open,
        verdict,
        sheet,
    }
}

struct Writer<'a> {
    plan: &'a RunPlan,
    view: &'a View,
    case: Case<'a>,
    decision: Decision,
    losses: Losses,
    blocking: hol::Finding,
}

impl Writer<'_> {
    fn sheet(&self) -> Sheet {
        let ports = self.view.ports.iter().enumerate();
        let ports = ports.map(|(number, port)| PortSheet {
            label: port.label.clone(),
            node: port.node,
            rail: port.rail,
            speed_bits_per_s: port.speed_bits_per_s,
            ceiling_bits_per_s: port
                .speed_bits_per_s
                .map(|speed| port.framing.payload_ceiling(speed as f64, 0.0)),
            send: self.direction(Place::Send(number)),
            receive: self.direction(Place::Receive(number)),
        });
        let groups = self.view.groups.iter().enumerate();
        let uplinks = groups.map(|(number, (group, _))| UplinkSheet {
            group: group.clone(),
            up: self.direction(Place::Up(number)),
            down: self.direction(Place::Down(number)),
        });
        let faults = self.faults();
        Sheet {
            basis: self.view.basis,
            ports: ports.collect(),
            uplinks: uplinks.collect(),
            order: Vec::new(),
            figure: self.figure(),
            contention: self.contention(),
            remarks: self.remarks(&faults),
            faults,
        }
    }

    /// What is said of a direction of a port or uplink; none if no test loaded it.
    fn direction(&self, place: Place) -> Option<DirectionSheet> {
        let number = self.view.fabric.number(place);
        let floor = self.view.fabric.floor(number);
        let passes = self.case.passes(place);
        let loading = || {
            passes
                .iter()
                .filter(|pass| !pass.isolated && pass.rate > 0.0)
        };
        let most = passes.iter().map(|pass| pass.rate).fold(0.0, f64::max);
        // Where a fault elsewhere holds it down, its figure is that of the fault; unless it was seen nowhere else.
        let held_down = |pass: &&super::blame::Pass| self.is_held_down(place, pass);
        let judged = || loading().filter(|pass| pass.judged);
        let free: Vec<&super::blame::Pass> = judged().filter(|pass| !held_down(pass)).collect();
        let judged: Vec<&super::blame::Pass> = match free.is_empty() {
            true => judged().collect(),
            false => free,
        };
        let judged = judged.into_iter();
        let share = |pass: &&super::blame::Pass| pass.share.unwrap_or(f64::INFINITY);
        let least = judged.min_by(|a, b| share(a).total_cmp(&share(b)));
        let least = least.or_else(|| loading().min_by(|a, b| a.rate.total_cmp(&b.rate)))?;
        let word = self.word(place, least.share.filter(|_| least.judged), floor, &passes);
        Some(DirectionSheet {
            word,
            share: least.share.filter(|_| least.judged),
            rate_bits_per_s: least.rate,
            expected_bits_per_s: Some(least.expected).filter(|expected| expected.is_finite()),
            test: least.test,
            most_bits_per_s: most,
        })
    }

    /// Whether confirmed faults predict that a place falls short in a test, though it is none of them.
    fn is_held_down(&self, place: Place, pass: &super::blame::Pass) -> bool {
        let known = self.known();
        !known.contains(&Fault::Place(place)) && self.case.foresees(&known, place, pass.test)
    }

    /// Faults whose effects on others are known.
    fn known(&self) -> Vec<Fault> {
        let confirmed = self.decision.confirmed.iter().map(|one| one.fault);
        let limited = self.decision.host_limited.iter().copied().map(Fault::Place);
        confirmed.chain(limited).collect()
    }

    fn word(
        &self,
        place: Place,
        share: Option<f64>,
        floor: f64,
        passes: &[super::blame::Pass],
    ) -> VerdictWord {
        let fault = Fault::Place(place);
        let lossy = |list: &[(Fault, f64)]| list.iter().any(|(known, _)| *known == fault);
        let blamed = |one: &super::Blamed| one.fault == fault;
        if self.decision.confirmed.iter().any(blamed) || lossy(&self.losses.confirmed) {
            return VerdictWord::Fail;
        }
        if self.decision.host_limited.contains(&place) {
            return VerdictWord::HostLimited;
        }
        let undecided = self
            .decision
            .undecided
            .iter()
            .any(|(known, _)| *known == place);
        if undecided || lossy(&self.losses.undecided) {
            return VerdictWord::Undecided;
        }
        match share {
            None => VerdictWord::NotJudged,
            Some(share) if share >= floor => VerdictWord::Pass,
            // Somebody else's fault held it down: it passes if it reached its floor without that.
            Some(_) => {
                let well = |pass: &super::blame::Pass| {
                    let full = pass.judged && pass.share.is_some_and(|share| share >= floor);
                    full || pass.rate >= floor * pass.capacity
                };
                match passes.iter().any(well) {
                    true => VerdictWord::Pass,
                    false => VerdictWord::NotJudged,
                }
            }
        }
    }

    fn faults(&self) -> Vec<FaultSheet> {
        let mut faults = Vec::new();
        for one in &self.decision.confirmed {
            let (share, rate) = self.under_load(one.fault);
            faults.push(FaultSheet {
                word: VerdictWord::Fail,
                culprit: culprit(one.fault),
                or: one.or.iter().map(|other| culprit(*other)).collect(),
                kind: FaultKind::Rate,
                share,
                rate_bits_per_s: rate,
                evidence: self.evidence(one.fault, false),
                notes: [self.waits_at(one.fault), self.broken_frames_at(one.fault)].concat(),
            });
        }
        let rate_of = |word, place: Place| {
            let (share, rate) = self.under_load(Fault::Place(place));
            FaultSheet {
                word,
                culprit: culprit(Fault::Place(place)),
                or: Vec::new(),
                kind: FaultKind::Rate,
                share,
                rate_bits_per_s: rate,
                evidence: self.evidence(Fault::Place(place), false),
                notes: self.limits_of(place),
            }
        };
        let undecided = self.decision.undecided.iter();
        faults.extend(undecided.map(|(place, _)| rate_of(VerdictWord::Undecided, *place)));
        let limited = self.decision.host_limited.iter();
        faults.extend(limited.map(|place| rate_of(VerdictWord::HostLimited, *place)));
        let lists = [
            (VerdictWord::Fail, &self.losses.confirmed),
            (VerdictWord::Undecided, &self.losses.undecided),
        ];
        for (word, list) in lists {
            for (fault, share) in list {
                faults.push(FaultSheet {
                    word,
                    culprit: culprit(*fault),
                    or: Vec::new(),
                    kind: FaultKind::Loss,
                    share: *share,
                    rate_bits_per_s: 0.0,
                    evidence: self.evidence(*fault, true),
                    notes: self.broken_frames_at(*fault),
                });
            }
        }
        faults.extend(self.blocked());
        faults.sort_by(worse_first);
        faults
    }

    /// Where the time of the links went that go through a fault: if not on their way, something else held them.
    fn waits_at(&self, fault: Fault) -> Vec<String> {
        let through = |from: usize, to: usize| match fault {
            Fault::Place(place) => {
                let number = self.view.fabric.number(place);
                self.view.fabric.way(from, to).contains(&number)
            }
            Fault::Pair(a, b) => (from, to) == (a, b),
        };
        let loads = self
            .view
            .observations
            .iter()
            .filter(|one| !one.isolated && !one.paced);
        let seen = loads
            .flat_map(|one| &one.links)
            .filter(|link| through(link.from, link.to));
        let (mut links, mut limiting) = (0, 0);
        for one in seen {
            links += one.links;
            limiting += one.limiting;
        }
        let told = format!(
            "waits: {limiting} of {links} connections through it waited for their way, not for hosts"
        );
        if links > 0 { vec![told] } else { Vec::new() }
    }

    /// Frames that came broken, where a receiving port or a pair is at fault; and how many ports had none.
    fn broken_frames_at(&self, fault: Fault) -> Vec<String> {
        let (Fault::Place(Place::Receive(port)) | Fault::Pair(_, port)) = fault else {
            return Vec::new();
        };
        let sound = self
            .view
            .ports
            .iter()
            .filter(|port| port.broken_frames().is_none())
            .count();
        let told = self
            .view
            .ports
            .get(port)
            .and_then(|port| port.broken_frames());
        let told = told.map(|told| format!("{told} at its interface, none at {sound} others"));
        told.into_iter().collect()
    }

    /// A pair that a congested port elsewhere slows down.
    fn blocked(&self) -> Option<FaultSheet> {
        let (word, found) = match &self.blocking {
            hol::Finding::Confirmed(found) => (VerdictWord::Fail, found),
            hol::Finding::Undecided(found) => (VerdictWord::Undecided, found),
            hol::Finding::None | hol::Finding::Open(_) => return None,
        };
        let (from, to) = found.pair;
        let fault = Fault::Pair(from, to);
        Some(FaultSheet {
            word,
            culprit: culprit(fault),
            or: Vec::new(),
            kind: FaultKind::HeadOfLine,
            share: found.share,
            rate_bits_per_s: found.rate,
            evidence: self.evidence(fault, false),
            notes: Vec::new(),
        })
    }

    /// Least share of a suspect under load, and what passed then.
    fn under_load(&self, fault: Fault) -> (f64, f64) {
        match fault {
            Fault::Place(place) => {
                let passes = self.case.passes(place);
                let loading = passes.iter().filter(|pass| !pass.isolated);
                let shares = loading.filter_map(|pass| Some((pass.share?, pass.rate)));
                shares
                    .min_by(|a, b| a.0.total_cmp(&b.0))
                    .unwrap_or((1.0, 0.0))
            }
            Fault::Pair(from, to) => {
                let single = |one: &&Observation| !one.isolated && one.is_single(&self.view.fabric);
                let seen = self.view.observations.iter().filter(single);
                let shares = seen.filter_map(|one| {
                    let share = *one.shares().get(&(from, to))?;
                    Some((share.part(), share.rate))
                });
                shares
                    .min_by(|a, b| a.0.total_cmp(&b.0))
                    .unwrap_or((1.0, 0.0))
            }
        }
    }

    /// Isolated measurements of single links that concern a fault's ports.
    fn evidence(&self, fault: Fault, paced: bool) -> Vec<Evidence> {
        const MOST: usize = 5;
        let concerns = |from: usize, to: usize| match fault {
            Fault::Place(Place::Send(port) | Place::Receive(port)) => from == port || to == port,
            Fault::Pair(a, b) => from == a || to == b,
            Fault::Place(_) => true,
        };
        let mut partners = Vec::new();
        let isolated = || {
            let all = self.view.observations.iter();
            all.filter(|one| one.isolated && one.paced == paced)
        };
        for observation in isolated() {
            for link in observation
                .links
                .iter()
                .filter(|link| concerns(link.from, link.to))
            {
                partners.extend([link.from, link.to]);
            }
        }
        let mut evidence = Vec::new();
        for observation in isolated() {
            let shares = observation.shares();
            for link in &observation.links {
                let (from, to) = (link.from, link.to);
                let control = partners.contains(&from) && partners.contains(&to);
                let Some(share) = shares.get(&(from, to)) else {
                    continue;
                };
                if concerns(from, to) || control {
                    evidence.push(Evidence {
                        from,
                        to,
                        rate_bits_per_s: link.rate,
                        expected_bits_per_s: share.expected,
                        loss: link.lost as f64 / link.segments.max(1) as f64,
                        width: observation.links.len(),
                        test: observation.test,
                    });
                }
            }
        }
        // What was measured alone replaces what was measured with others; the fault itself comes first.
        let direct = |one: &Evidence| match fault {
            Fault::Place(Place::Send(port)) => one.from == port,
            Fault::Place(Place::Receive(port)) => one.to == port,
            Fault::Pair(from, to) => (one.from, one.to) == (from, to),
            Fault::Place(_) => true,
        };
        evidence.sort_by_key(|one| one.width);
        let mut known: Vec<(usize, usize)> = Vec::new();
        evidence.retain(|one| {
            let new = !known.contains(&(one.from, one.to));
            known.push((one.from, one.to));
            new
        });
        evidence.sort_by_key(|one| (!direct(one), !concerns(one.from, one.to), one.width));
        evidence.truncate(MOST);
        evidence
    }

    fn limits_of(&self, place: Place) -> Vec<String> {
        let (Place::Send(port) | Place::Receive(port)) = place else {
            return Vec::new();
        };
        let node = self.view.ports[port].node;
        let mut limits: Vec<String> = self
            .view
            .limits
            .iter()
            .filter(|((_, host), _)| *host == node)
            .map(|(_, limit)| limit.clone())
            .collect();
        limits.dedup();
        limits.truncate(2);
        limits
    }

    /// The figure to sign: the lowest share of what a port can carry, over all tests that load both of its directions.
    fn figure(&self) -> Option<SignedFigure> {
        let mut least: Option<(f64, SignedFigure)> = None;
        for port in 0..self.view.ports.len() {
            let both =
                [Place::Send(port), Place::Receive(port)].map(|place| self.case.passes(place));
            for (sends, own, back) in [(true, &both[0], &both[1]), (false, &both[1], &both[0])] {
                for (pass, back) in own.iter().zip(back) {
                    let loads = !pass.isolated && pass.judged && back.rate > 0.0;
                    if !loads || pass.capacity <= 0.0 {
                        continue;
                    }
                    let share = pass.rate / pass.capacity;
                    if least.as_ref().is_none_or(|(known, _)| share < *known) {
                        let figure = SignedFigure {
                            port,
                            sends,
                            rate_bits_per_s: pass.rate,
                            ceiling_bits_per_s: pass.capacity,
                            wire_bits_per_s: self.view.on_wire(port, pass.rate, pass.capacity),
                            test: pass.test,
                        };
                        least = Some((share, figure));
                    }
                }
            }
        }
        least.map(|(_, figure)| figure)
    }

    /// The mesh against the permutations. With other numbers of connections per port a processor core would be measured.
    fn contention(&self) -> Option<Contention> {
        if !self.decision.host_limited.is_empty() || !self.view.limits.is_empty() {
            return None;
        }
        let load = |test: usize| &self.plan.tests[test];
        let is_single = |test: usize| matches!(load(test).pattern, Pattern::Shift(_));
        let is_mesh = |test: usize| matches!(load(test).pattern, Pattern::Mesh | Pattern::AllToAll);
        let seen: Vec<usize> = self
            .view
            .observations
            .iter()
            .filter(|one| !one.isolated && !one.paced && load(one.test).phases == 2)
            .map(|one| one.test)
            .collect();
        let single: Vec<usize> = seen
            .iter()
            .copied()
            .filter(|test| is_single(*test))
            .collect();
        let mesh: Vec<usize> = seen.iter().copied().filter(|test| is_mesh(*test)).collect();
        let nodes = self.plan.nodes.len();
        let of_mesh = load(*mesh.first()?).streams * (nodes - 1);
        if single.len() + 1 != nodes || load(*single.first()?).streams != of_mesh {
            return None;
        }
        let mut worst: Option<Contention> = None;
        for port in 0..self.view.ports.len() {
            for (sends, place) in [(true, Place::Send(port)), (false, Place::Receive(port))] {
                let passes = self.case.passes(place);
                let rates = |of: &[usize]| -> Vec<f64> {
                    let own = passes.iter().filter(|pass| of.contains(&pass.test));
                    own.map(|pass| pass.rate).collect()
                };
                let alone = rates(&single);
                let mean = alone.iter().sum::<f64>() / alone.len() as f64;
                let least = rates(&mesh).into_iter().reduce(f64::min)?;
                let share = least / mean;
                let is_worse = worst.is_none_or(|known| share < known.share);
                if mean > 0.0 && is_worse {
                    worst = Some(Contention { port, sends, share });
                }
            }
        }
        worst
    }

    fn remarks(&self, faults: &[FaultSheet]) -> Vec<String> {
        /// More of them tell nothing more.
        const MOST_ODD: usize = 10;
        let mut remarks = Vec::new();
        if self
            .plan
            .tests
            .iter()
            .any(|test| test.coupling == Coupling::Buffer)
        {
            remarks.push(
                "coupled by buffer, all links run at the pace of the slowest: not judged"
                    .to_owned(),
            );
        }
        let blamed = |place| {
            let own = culprit(Fault::Place(place));
            faults.iter().any(|fault| fault.culprit == own)
        };
        let broken = self
            .view
            .ports
            .iter()
            .enumerate()
            .filter_map(|(number, port)| {
                let told = port
                    .broken_frames()
                    .filter(|_| !blamed(Place::Receive(number)))?;
                Some(format!(
                    "{} received broken frames: {told} (cable, optics or port)",
                    port.label
                ))
            });
        remarks.extend(broken.take(MOST_ODD));
        let known = self.known();
        let held_down = |place, test| self.case.foresees(&known, place, test);
        let odd = peers::odd(self.view, &held_down).into_iter();
        let odd = odd.filter(|odd| !blamed(odd.place)).take(MOST_ODD);
        remarks.extend(odd.map(|odd| peers::sentence(self.view, &odd)));
        remarks
    }

    fn verdict(&self, sheet: &Sheet) -> Verdict {
        if let Some(worst) = sheet.faults.first() {
            let alike = sheet.faults.iter().filter(|fault| fault.word == worst.word);
            let more = match alike.count() - 1 {
                0 => String::new(),
                more => format!("; and {more} more"),
            };
            return Verdict {
                word: worst.word,
                reason: format!("{}{more}", self.sentence(sheet, worst)),
            };
        }
        let mut directions = sheet
            .ports
            .iter()
            .flat_map(|port| [&port.send, &port.receive]);
        let judged = directions.any(|one| one.as_ref().is_some_and(|one| one.share.is_some()));
        if judged {
            return Verdict {
                word: VerdictWord::Pass,
                reason: "every port direction that was judged reached its floor".to_owned(),
            };
        }
        let crosses = !self.view.observations.is_empty();
        let known = sheet
            .ports
            .iter()
            .any(|port| port.speed_bits_per_s.is_some());
        let reason = match (crosses, known) {
            (true, false) => "no port's speed is known: give --link-speed",
            (true, true) => "nothing that was measured fills a port",
            (false, _) => "no criteria given",
        };
        Verdict {
            word: VerdictWord::NotJudged,
            reason: reason.to_owned(),
        }
    }

    /// What is wrong with a fault, with its figures.
    fn sentence(&self, sheet: &Sheet, fault: &FaultSheet) -> String {
        let name = name_of(self.plan, sheet, fault);
        if fault.kind == FaultKind::Loss {
            let alone = match fault.word {
                VerdictWord::Fail => "confirmed alone",
                _ => "but not when measured alone",
            };
            return format!(
                "{name}: {:.1e} of segments lost without contention (at most {:.0e}), {alone}",
                fault.share, self.plan.criteria.loss
            );
        }
        let gbit = fault.rate_bits_per_s / 1e9;
        if fault.kind == FaultKind::HeadOfLine {
            let again = match fault.word {
                VerdictWord::Fail => "and again, though well by itself",
                _ => "once, and not again or not by itself",
            };
            return format!(
                "{name} suffers from a congested port elsewhere (head-of-line blocking): {} of {} Gbit/s ({:.1} %, floor {}), {again}",
                show_gbit(gbit),
                show_gbit(gbit / fault.share.max(1e-9)),
                fault.share * 100.0,
                floor_text(self.plan)
            );
        }
        let expected = gbit / fault.share.max(1e-9);
        let figures = format!(
            "{name}: {} of {} Gbit/s ({:.1} %, floor {})",
            show_gbit(gbit),
            show_gbit(expected),
            fault.share * 100.0,
            floor_text(self.plan)
        );
        match fault.word {
            VerdictWord::Fail => format!("{figures}, confirmed alone"),
            VerdictWord::HostLimited => {
                let why = fault
                    .notes
                    .first()
                    .map_or("its host was at its limit", String::as_str);
                format!("{figures}: {why}; not judged above that")
            }
            _ => {
                let alone = fault
                    .evidence
                    .iter()
                    .map(|one| one.rate_bits_per_s / one.expected_bits_per_s.max(1.0));
                match alone.reduce(f64::max) {
                    Some(alone) => format!(
                        "{figures} under load, {:.1} % by itself: the load of the others decides, not this port",
                        alone * 100.0
                    ),
                    None => {
                        format!("{figures}: nothing by itself could be measured that tells why")
                    }
                }
            }
        }
    }
}

/// FAIL before what is not known before what a host hides; rates before losses; then by size.
fn worse_first(a: &FaultSheet, b: &FaultSheet) -> std::cmp::Ordering {
    let word = |fault: &FaultSheet| match fault.word {
        VerdictWord::Fail => 0,
        VerdictWord::Undecided => 1,
        _ => 2,
    };
    let size = match a.kind {
        FaultKind::Rate | FaultKind::HeadOfLine => a.share.total_cmp(&b.share),
        FaultKind::Loss => b.share.total_cmp(&a.share),
    };
    let kind = |fault: &FaultSheet| fault.kind == FaultKind::Loss;
    (word(a), kind(a)).cmp(&(word(b), kind(b))).then(size)
}
