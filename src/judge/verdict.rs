//! The sheet and the sentence to sign under, from everything that was measured until now.

use crate::plan::{Coupling, Pattern, RunPlan};
use crate::record::{
    Contention, Culprit, DirectionSheet, FaultKind, FaultSheet, HostRecord, LinktestRecord,
    PortSheet, Sheet, SignedFigure, TestRecord, UplinkSheet, Verdict, VerdictWord,
};

use crate::units::{show_gbit, sum};

use super::blame::{Case, Fault, Foreseen};
use super::confirm::Request;
use super::disturbed::{self, Disturbed};
use super::fabric::{Observation, Place};
use super::hol;
use super::loss::{self, Losses};
use super::names::{Alone, by_itself, culprit, floor_text, name, name_of};
use super::pairs;
use super::peers;
use super::slowed::Slowed;
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
pub fn judge(
    plan: &RunPlan,
    hosts: &[HostRecord],
    tests: &[TestRecord],
    jobs: &[LinktestRecord],
) -> Judgement {
    let mut view = View::of_all(plan, hosts, tests, jobs);
    let losses = loss::judge(&view.fabric, &view.observations, plan.criteria.loss);
    let blocking = hol::judge(&view.fabric, &view.observations);
    let (mut decision, mut open) = rates(&view);
    let mut told = Vec::new();
    match disturbed::look(&view, &decision) {
        Disturbed::Open(request) if open.is_empty() => open.push(request),
        Disturbed::Well(replaced) => {
            let sentences = replaced.iter().map(|pair| repeated(&view, *pair));
            let sentences: Vec<String> = sentences.collect();
            let mut calm = view.clone();
            disturbed::replace(&mut calm, &replaced);
            if rates(&calm) == (Decision::default(), Vec::new()) {
                (view, decision, told) = (calm, Decision::default(), sentences);
            }
        }
        Disturbed::Open(_) | Disturbed::Stands => {}
    }
    if open.is_empty() {
        open.clone_from(&losses.open);
    }
    let lossy: Vec<Fault> = losses.confirmed.iter().map(|(fault, _)| *fault).collect();
    let slowed = Slowed::by(&view.fabric, &view.observations, &lossy);
    slowed.leave_out(&view.fabric, &view.observations, &mut decision);
    if let (hol::Finding::Open(requests), true) = (&blocking, open.is_empty()) {
        open.clone_from(requests);
    }
    let case = Case::new(&view.fabric, &view.observations);
    let foreseen = case.foreseen(&known_of(&decision));
    // A host that fell short only where its port was measured by itself hides nothing of what the port carried under load.
    let is_short = |place: &Place| {
        let mut passes = case.passes(*place).into_iter();
        passes.any(|pass| !pass.isolated && pass.is_short())
    };
    if decision.host_limited.iter().any(is_short) {
        decision.host_limited.retain(is_short);
    }
    let writer = Writer {
        plan,
        view: &view,
        foreseen,
        slowed,
        case,
        decision,
        losses,
        blocking,
        repeated: told,
    };
    let sheet = writer.sheet();
    let mut verdict = writer.verdict(&sheet, open.is_empty());
    let why_not = pairs::why_not(&view, plan, jobs);
    if let (VerdictWord::NotJudged, Some(reason)) = (verdict.word, why_not) {
        verdict.reason = reason;
    }
    Judgement {
        open,
        verdict,
        sheet,
    }
}

/// Faults whose effects on others are known.
fn known_of(decision: &Decision) -> Vec<Fault> {
    let confirmed = decision.confirmed.iter().map(|one| one.fault);
    let limited = decision.host_limited.iter().copied().map(Fault::Place);
    confirmed.chain(limited).collect()
}

/// What the rates say, or what must be measured before they do.
fn rates(view: &View) -> (Decision, Vec<Request>) {
    // What goes to a congested port is shared as it may be: that blames nobody.
    let others: Vec<Observation>;
    let observations = match view.observations.iter().any(|one| one.only.is_some()) {
        false => &view.observations,
        true => {
            let others_of = view.observations.iter().filter(|one| one.only.is_none());
            others = others_of.cloned().collect();
            &others
        }
    };
    match decide(&view.fabric, observations) {
        Step::Measure(open) => (Decision::default(), open),
        Step::Done(decision) => (decision, Vec::new()),
    }
}

/// Why a test is judged by its repeat, and what it would have said.
fn repeated(view: &View, (test, repeat): (usize, usize)) -> String {
    let mut why = Vec::new();
    for ((_, host), limit) in view.limits.iter().filter(|((of, _), _)| *of == test) {
        let ports = view.ports.iter().filter(|port| port.node == *host);
        why.extend(ports.map(|port| format!("{}: {limit}", port.label)).take(1));
    }
    format!(
        "test {} was disturbed by a host ({}), and was measured once more: test {} is judged in its place",
        test + 1,
        why.join("; "),
        repeat + 1
    )
}

pub(super) struct Writer<'a> {
    plan: &'a RunPlan,
    pub(super) view: &'a View,
    pub(super) case: Case<'a>,
    /// What known faults predict to fall short.
    foreseen: Foreseen,
    /// What confirmed losses leave less than full.
    slowed: Slowed,
    decision: Decision,
    losses: Losses,
    blocking: hol::Finding,
    /// What is said of tests that stand for others.
    repeated: Vec<String>,
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
        // Where floors differ, by how far it is above its own.
        let share = |pass: &&super::blame::Pass| {
            pass.share.map_or(f64::INFINITY, |share| share / pass.floor)
        };
        let least = judged.min_by(|a, b| share(a).total_cmp(&share(b)));
        let least = least.or_else(|| loading().min_by(|a, b| a.rate.total_cmp(&b.rate)))?;
        let word = self.word(place, least, &passes);
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
        let number = self.view.fabric.number(place);
        let fault = Fault::Place(place);
        let lossy = self
            .losses
            .confirmed
            .iter()
            .any(|(known, _)| *known == fault);
        let by_rates = self.foreseen.is_short(number, pass.test);
        let by_losses = self.slowed.is_less_than_full(number, pass.test);
        !known_of(&self.decision).contains(&fault) && !lossy && (by_rates || by_losses)
    }

    fn word(
        &self,
        place: Place,
        least: &super::blame::Pass,
        passes: &[super::blame::Pass],
    ) -> VerdictWord {
        let fault = Fault::Place(place);
        let lossy = |list: &[(Fault, f64)]| list.iter().any(|(known, _)| *known == fault);
        let blamed = |one: &super::Blamed| one.fault == fault;
        let broken = lossy(&self.losses.confirmed) || lossy(&self.losses.broken);
        if self.decision.confirmed.iter().any(blamed) || broken {
            return VerdictWord::Fail;
        }
        if self.decision.host_limited.contains(&place) || lossy(&self.losses.in_host) {
            return VerdictWord::HostLimited;
        }
        let undecided = self
            .decision
            .undecided
            .iter()
            .any(|(known, _)| *known == place);
        if undecided || lossy(&self.losses.undecided) || lossy(&self.losses.broken_once) {
            return VerdictWord::Undecided;
        }
        match least.share.filter(|_| least.judged) {
            None => VerdictWord::NotJudged,
            Some(_) if !least.is_short() && self.is_below_the_asked_rate(place, least) => {
                VerdictWord::Undecided
            }
            Some(_) if !least.is_short() => VerdictWord::Pass,
            // Somebody else's fault held it down: it passes if it reached its floor without that.
            Some(_) => {
                let well = |pass: &super::blame::Pass| {
                    let full = pass.judged && pass.share.is_some_and(|share| share >= pass.floor);
                    full || pass.rate >= pass.floor * pass.capacity
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
            (VerdictWord::Fail, FaultKind::Loss, &self.losses.confirmed),
            (
                VerdictWord::Undecided,
                FaultKind::Loss,
                &self.losses.undecided,
            ),
            (
                VerdictWord::HostLimited,
                FaultKind::Loss,
                &self.losses.in_host,
            ),
            (VerdictWord::Fail, FaultKind::Broken, &self.losses.broken),
            (
                VerdictWord::Undecided,
                FaultKind::Broken,
                &self.losses.broken_once,
            ),
        ];
        for (word, kind, list) in lists {
            for (fault, share) in list {
                faults.push(FaultSheet {
                    word,
                    culprit: culprit(*fault),
                    or: Vec::new(),
                    kind,
                    share: *share,
                    rate_bits_per_s: 0.0,
                    evidence: self.evidence(*fault, true),
                    notes: match word {
                        VerdictWord::HostLimited => {
                            [self.thrown_away_at(*fault), self.broken_frames_at(*fault)].concat()
                        }
                        _ => self.broken_frames_at(*fault),
                    },
                });
            }
        }
        faults.extend(self.blocked());
        faults.sort_by(worse_first);
        faults
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

    /// The figure to sign: the lowest share of what a port can carry, over all tests that load both of its directions.
    fn figure(&self) -> Option<SignedFigure> {
        let mut least: Option<(f64, SignedFigure)> = None;
        // What is bounced loads one direction at a time: nothing to sign under.
        let is_load = |pass: &super::blame::Pass| {
            !pass.isolated && pass.judged && pass.test < self.plan.tests.len()
        };
        for port in 0..self.view.ports.len() {
            let both =
                [Place::Send(port), Place::Receive(port)].map(|place| self.case.passes(place));
            for (sends, own, back) in [(true, &both[0], &both[1]), (false, &both[1], &both[0])] {
                for (pass, back) in own.iter().zip(back) {
                    let loads = is_load(pass) && back.rate > 0.0;
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
        // What link tests saw has numbers behind those of all tests.
        let load = |test: usize| &self.plan.tests[test];
        let is_test = |one: &&Observation| one.test < self.plan.tests.len();
        let is_single = |test: usize| matches!(load(test).pattern, Pattern::Shift(_));
        let is_mesh = |test: usize| matches!(load(test).pattern, Pattern::Mesh | Pattern::AllToAll);
        let seen: Vec<usize> = self
            .view
            .observations
            .iter()
            .filter(is_test)
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
                // Like with like: the least of few repeats is below their mean by chance alone.
                let mean = |rates: Vec<f64>| rates.iter().sum::<f64>() / rates.len() as f64;
                let (at_once, one_by_one) = (mean(rates(&mesh)), mean(rates(&single)));
                let share = at_once / one_by_one;
                let is_worse = worst.is_none_or(|known| share < known.share);
                if share.is_finite() && is_worse {
                    worst = Some(Contention { port, sends, share });
                }
            }
        }
        worst
    }

    fn remarks(&self, faults: &[FaultSheet]) -> Vec<String> {
        /// More of them tell nothing more.
        const MOST_ODD: usize = 10;
        let mut remarks = self.repeated.clone();
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
        remarks.extend(self.dropped().take(MOST_ODD));
        let held_down = |place, test| {
            let number = self.view.fabric.number(place);
            self.foreseen.is_short(number, test)
        };
        let odd = peers::odd(self.view, &held_down).into_iter();
        let odd = odd.filter(|odd| !blamed(odd.place)).take(MOST_ODD);
        remarks.extend(odd.map(|odd| peers::sentence(self.view, &odd)));
        remarks
    }

    /// Ports whose interfaces dropped frames while losses were looked for. That is told and not judged: kernels count frames there that nobody
    /// asked for, such as those by which switches find each other.
    fn dropped(&self) -> impl Iterator<Item = String> {
        let held = || self.view.observations.iter().filter(|one| one.paced);
        let told = |number: usize| {
            let fault = Fault::Place(Place::Receive(number));
            let mut all = self.losses.in_host.iter().chain(&self.losses.confirmed);
            all.any(|(known, _)| *known == fault)
        };
        let ports = self.view.ports.iter().enumerate();
        let ports = ports.filter(move |(number, _)| !told(*number));
        ports.filter_map(move |(number, port)| {
            let of_test = held().filter_map(|one| one.frames.get(number));
            let dropped = sum(of_test.map(|frames| frames.dropped));
            (dropped > 0).then(|| {
                format!(
                    "{}: its interface dropped {dropped} frames while losses were looked for; not judged, frames that nobody asked for count there",
                    port.label
                )
            })
        })
    }

    /// The word and its reason; as far as it goes if not `all_told` yet.
    fn verdict(&self, sheet: &Sheet, all_told: bool) -> Verdict {
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
        let passed_over = || self.passed_over(sheet).filter(|_| all_told);
        if let Some(reason) = self.below_the_asked_rate(sheet).or_else(passed_over) {
            return Verdict {
                word: VerdictWord::Undecided,
                reason,
            };
        }
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

    /// The most that a port that its host holds back has carried.
    fn proven(&self, sheet: &Sheet, fault: &FaultSheet) -> f64 {
        let one = match fault.culprit {
            Culprit::Send(port) => sheet.ports.get(port).and_then(|port| port.send),
            Culprit::Receive(port) => sheet.ports.get(port).and_then(|port| port.receive),
            Culprit::Pair(..) | Culprit::Up(_) | Culprit::Down(_) => None,
        };
        one.map_or(fault.rate_bits_per_s, |one| one.most_bits_per_s)
    }

    /// Whether a port that reached its floor carried less than was asked for in that test, as much coming back.
    fn is_below_the_asked_rate(&self, place: Place, pass: &super::blame::Pass) -> bool {
        let asked = self.plan.criteria.min_rate_bits_per_s;
        let of_port = matches!(place, Place::Send(_) | Place::Receive(_));
        let test = self.plan.tests.get(pass.test);
        let is_held = test.is_some_and(|test| test.pattern == Pattern::Hol);
        of_port && !is_held && asked.is_some_and(|asked| pass.rate < asked as f64)
    }

    /// A rate that was asked for is compared as a share of what a port can carry one way; acknowledgements of what comes back take some of that. What
    /// lies between both is no fault of a port, and no pass.
    fn below_the_asked_rate(&self, sheet: &Sheet) -> Option<String> {
        let asked = self.plan.criteria.min_rate_bits_per_s?;
        // The victim of a congested port is held to half of its own.
        let is_held = |one: &DirectionSheet| {
            let test = self.plan.tests.get(one.test);
            test.is_some_and(|test| test.pattern == Pattern::Hol)
        };
        let judged = |one: &DirectionSheet| one.share.is_some() && !is_held(one);
        let directions = sheet.ports.iter().flat_map(|port| {
            let both = [(port.send, "send"), (port.receive, "receive")];
            both.map(|(one, way)| Some((port, way, one.filter(judged)?)))
        });
        let least = directions
            .flatten()
            .min_by(|a, b| a.2.rate_bits_per_s.total_cmp(&b.2.rate_bits_per_s))?;
        let (port, way, one) = least;
        let gbit = |rate: f64| show_gbit(rate / 1e9);
        (one.rate_bits_per_s < asked as f64).then(|| {
            format!(
                "{} {way}: {} Gbit/s, asked for are {}; it can carry {} one way, and {} while as much comes back",
                port.label,
                gbit(one.rate_bits_per_s),
                gbit(asked as f64),
                gbit(port.ceiling_bits_per_s.unwrap_or(0.0)),
                gbit(one.expected_bits_per_s.unwrap_or(0.0)),
            )
        })
    }

    /// What is below its floor in a test though nothing is said of it: nothing that is short may pass.
    fn passed_over(&self, sheet: &Sheet) -> Option<String> {
        let fabric = &self.view.fabric;
        let places = (0..fabric.places()).map(|number| fabric.place(number));
        let short = places.filter_map(|place| {
            let passes = self.case.passes(place).into_iter();
            let mut short = passes.filter(|pass| {
                pass.judged && !pass.isolated && pass.is_short() && !self.is_held_down(place, pass)
            });
            short.next().map(|pass| (place, pass))
        });
        let (place, pass) = short.into_iter().next()?;
        // What link tests saw has a number that nobody knows.
        let at = match pass.test < self.plan.tests.len() {
            true => format!(" in test {}", pass.test + 1),
            false => String::new(),
        };
        Some(format!(
            "{}: {} of {} Gbit/s{at}, and nothing that was measured tells why",
            name(self.plan, sheet, culprit(Fault::Place(place))),
            show_gbit(pass.rate / 1e9),
            show_gbit(pass.expected / 1e9),
        ))
    }

    /// What is wrong with a fault, with its figures.
    fn sentence(&self, sheet: &Sheet, fault: &FaultSheet) -> String {
        let name = name_of(self.plan, sheet, fault);
        let alone = match fault.word {
            VerdictWord::Fail => "confirmed alone",
            _ => "but not each time it was measured alone",
        };
        if fault.kind == FaultKind::Broken {
            return format!(
                "{name}: {:.1e} of frames came broken without contention (none may), {alone}",
                fault.share
            );
        }
        if (fault.kind, fault.word) == (FaultKind::Loss, VerdictWord::HostLimited) {
            let why = fault.notes.first();
            let why = why.map_or("its host had no room for them", String::as_str);
            return format!(
                "{name}: {:.1e} of segments lost without contention, no more than its host threw away: {why}; losses of the fabric not judged there",
                fault.share
            );
        }
        if fault.kind == FaultKind::Loss {
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
                percent(fault.share),
                floor_text(self.plan)
            );
        }
        let expected = gbit / fault.share.max(1e-9);
        let figures = format!(
            "{name}: {} of {} Gbit/s ({:.1} %, floor {})",
            show_gbit(gbit),
            show_gbit(expected),
            percent(fault.share),
            floor_text(self.plan)
        );
        match fault.word {
            VerdictWord::Fail => format!("{figures}, confirmed alone"),
            VerdictWord::HostLimited => {
                let why = fault
                    .notes
                    .first()
                    .map_or("its host was at its limit", String::as_str);
                format!(
                    "{figures}: {why}; proven to {} Gbit/s, not judged above",
                    show_gbit(self.proven(sheet, fault) / 1e9)
                )
            }
            _ => match by_itself(self.plan, sheet, fault) {
                Alone::Untold => {
                    format!("{figures}: nothing by itself could be measured that tells why")
                }
                Alone::Well(least) => format!(
                    "{figures} under load, {:.1} % or more by itself: the load of the others decides, not this {}",
                    percent(least),
                    match fault.culprit {
                        Culprit::Up(_) | Culprit::Down(_) => "uplink",
                        Culprit::Send(_) | Culprit::Receive(_) | Culprit::Pair(..) => "port",
                    }
                ),
                Alone::Mixed(least, most) => format!(
                    "{figures} under load, by itself from {:.1} to {:.1} %: it fell short with one partner and not with another, or not each time",
                    percent(least),
                    percent(most)
                ),
            },
        }
    }
}

/// A share in per cent, of which no more is said than there was: 89.96 is not 90.0.
fn percent(share: f64) -> f64 {
    (share * 1000.0).floor() / 10.0
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
        FaultKind::Loss | FaultKind::Broken => b.share.total_cmp(&a.share),
    };
    let kind = |fault: &FaultSheet| matches!(fault.kind, FaultKind::Loss | FaultKind::Broken);
    (word(a), kind(a)).cmp(&(word(b), kind(b))).then(size)
}
