//! Writes the word of a run and the sentence with its reason, in words and figures.

use crate::plan::Pattern;
use crate::record::{Culprit, DirectionSheet, FaultKind, FaultSheet, Sheet, Verdict, VerdictWord};
use crate::units::{percent, show_part, show_rate};

use super::fabric::Place;
use super::fault::Fault;
use super::names::{Alone, by_itself, culprit, floor_text, floor_text_of, name, name_of};
use super::thresholds::ALIKE_UNDER_LOAD;
use super::verdict::Writer;

impl Writer<'_> {
    /// The word and its reason; preliminary unless `all_told`.
    pub(super) fn verdict(&self, sheet: &Sheet, all_told: bool) -> Verdict {
        let of = |word, reason: String| Verdict { word, reason };
        if let Some(worst) = sheet.faults.first() {
            return of(
                worst.word,
                self.sentence(sheet, worst) + &others_like(sheet, worst),
            );
        }
        let of_ports = sheet.directions().map(|(.., one)| one);
        let of_uplinks = sheet.uplinks.iter().flat_map(|one| [one.up, one.down]);
        let mut directions = of_ports.chain(of_uplinks.flatten());
        let judged = directions.any(|one| one.share.is_some());
        let open = self
            .below_the_asked_rate(sheet)
            .or_else(|| self.passed_over(sheet).filter(|_| all_told))
            .or_else(|| self.unjudged(sheet).filter(|_| judged));
        if let Some(reason) = open {
            return of(VerdictWord::Undecided, reason);
        }
        let crosses = !self.view.observations.is_empty();
        let mut ports = self.view.ports.iter();
        let first = ports.next().map(|port| port.node);
        let one_host = ports.all(|port| Some(port.node) == first);
        let (word, reason) = match (judged, crosses, self.view.has_speeds()) {
            (true, ..) => (
                VerdictWord::Pass,
                "every judged port direction reached its floor",
            ),
            (false, true, false) if self.plan.criteria.min_rate_bits_per_s.is_some() => (
                VerdictWord::NotJudged,
                "--min-rate needs --link-speed where a port's speed is unknown",
            ),
            (false, true, false) => (
                VerdictWord::NotJudged,
                "no port's speed is known: give --link-speed",
            ),
            (false, true, true) => (
                VerdictWord::NotJudged,
                "no test loads a port to its expected rate",
            ),
            (false, false, _) if one_host => (
                VerdictWord::NotJudged,
                "all nodes are on one host, with no switch between them",
            ),
            (false, false, _) => (VerdictWord::NotJudged, "no criteria given"),
        };
        of(word, reason.to_owned())
    }

    /// Highest rate of a port that its host holds back, in bits per second.
    fn proven(&self, sheet: &Sheet, fault: &FaultSheet) -> f64 {
        let one = sheet.direction(&fault.culprit);
        one.map_or(fault.rate_bits_per_s, |one| one.most_bits_per_s)
    }

    /// True if a port that should have been full carried less than the requested rate. The pattern `hol` does not count: it holds the victim to half
    /// of its rate.
    pub(super) fn misses_the_asked_rate(&self, rate: f64, test: usize) -> bool {
        let asked = self.plan.criteria.min_rate_bits_per_s;
        let test = self.plan.tests().get(test);
        let is_held = test.is_some_and(|test| test.pattern == Pattern::Hol);
        !is_held && asked.is_some_and(|asked| rate < asked as f64)
    }

    /// Sentence on a port that reached its floor but misses the requested rate. The port cannot carry that rate with equal reverse traffic, which is
    /// no fault of a port, and no pass.
    fn below_the_asked_rate(&self, sheet: &Sheet) -> Option<String> {
        let misses = |one: &DirectionSheet| {
            one.share.is_some() && self.misses_the_asked_rate(one.rate_bits_per_s, one.test)
        };
        let directions = sheet.directions();
        let (port, way, one) = directions
            .filter(|(.., one)| misses(one))
            .min_by(|a, b| a.2.rate_bits_per_s.total_cmp(&b.2.rate_bits_per_s))?;
        Some(format!(
            "{} {way}: {}, below --min-rate ({}); the port can carry {} one way, and {} with equal reverse traffic",
            port.label,
            show_rate(one.rate_bits_per_s),
            show_rate(self.plan.criteria.min_rate_bits_per_s? as f64),
            show_rate(port.ceiling_bits_per_s.unwrap_or(0.0)),
            show_rate(one.expected_bits_per_s.unwrap_or(0.0)),
        ))
    }

    /// Sentence on a specified part that no test could judge, with the test that would.
    fn unjudged(&self, sheet: &Sheet) -> Option<String> {
        let fabric = &self.view.fabric;
        let is_judged = |place: &Place| {
            let passes = self.case.passes(*place).into_iter();
            let mut loads = passes.filter(|pass| !pass.isolated);
            loads.any(|pass| pass.judged)
        };
        let uplinks = (0..fabric.groups).flat_map(|group| [(group, "out"), (group, "in")]);
        let places = uplinks.map(|(group, way)| match way {
            "out" => (group, way, Place::Up(group)),
            _ => (group, way, Place::Down(group)),
        });
        if let Some((group, way, place)) = places.into_iter().find(|(.., place)| !is_judged(place))
        {
            let (group_name, speed) = &self.view.groups[group];
            let own =
                (0..fabric.ports.len()).filter(|port| fabric.ports[*port].group == Some(group));
            let ceilings: f64 = own.filter_map(|port| self.view.ceiling(port)).sum();
            let passes = self.case.passes(place);
            let most = passes.iter().map(|pass| pass.rate).fold(0.0, f64::max);
            let next = match ceilings < *speed as f64 * 0.9 {
                true => format!(
                    "its hosts can fill {} of it: name more of its hosts",
                    show_rate(ceilings)
                ),
                false => {
                    "--pattern rotate fills it, since all its hosts then send to others at once"
                        .to_owned()
                }
            };
            return Some(format!(
                "uplink of {group_name}, {way}: at most {}, no test filled it; {next}",
                show_part(most, *speed as f64)
            ));
        }
        if self.plan.criteria.non_blocking && !self.case.loads_all() {
            return Some(
                "--fabric non-blocking: no test loaded all ports at once in both directions (--pattern rotate does)"
                    .to_owned(),
            );
        }
        let mut places = fabric.port_places();
        let place =
            places.find(|place| self.case.is_left_to_chance(*place) && !is_judged(place))?;
        Some(format!(
            "{}: an uplink on its path was full in every test, so no test shows what the port itself can carry (--pattern rotate has tests within its group)",
            name(self.plan, sheet, &culprit(&Fault::Place(place)))
        ))
    }

    /// Sentence on a place below its floor that nothing else mentions: no deficit passes.
    fn passed_over(&self, sheet: &Sheet) -> Option<String> {
        let mut passes = self.view.fabric.all_places().flat_map(|place| {
            let all = self.case.passes(place).into_iter();
            all.map(move |pass| (place, pass))
        });
        let (place, pass) = passes.find(|(place, pass)| {
            pass.judged && !pass.isolated && pass.is_short() && !self.is_held_down(*place, pass)
        })?;
        // Users do not know the numbers of link test observations.
        let at = match pass.test < self.plan.tests().len() {
            true => format!(" in test {}", pass.test + 1),
            false => String::new(),
        };
        Some(format!(
            "{}: {}{at}, and no measurement explains why",
            name(self.plan, sheet, &culprit(&Fault::Place(place))),
            show_part(pass.rate, pass.expected),
        ))
    }

    /// Sentence on a fault with its figures, and the reason why it need not be the switch.
    fn sentence(&self, sheet: &Sheet, fault: &FaultSheet) -> String {
        let Some(condition) = &fault.condition else {
            return self.finding(sheet, fault);
        };
        let confirmed = FaultSheet {
            word: VerdictWord::Fail,
            ..fault.clone()
        };
        let finding = self.finding(sheet, &confirmed);
        format!("{finding}; but the switch need not be the cause: {condition}")
    }

    fn finding(&self, sheet: &Sheet, fault: &FaultSheet) -> String {
        let name = name_of(self.plan, sheet, fault);
        let alone = match fault.word {
            VerdictWord::Fail => "confirmed in isolation",
            _ => "but not in every isolated test",
        };
        if fault.kind == FaultKind::Broken {
            return format!(
                "{name}: {:.1e} of frames arrived broken without contention (none allowed), {alone}",
                fault.share
            );
        }
        if (fault.kind, fault.word) == (FaultKind::Loss, VerdictWord::HostLimited) {
            let why = fault.notes.first();
            let why = why.map_or("its host had no room for them", String::as_str);
            return format!(
                "{name}: {:.1e} of segments lost without contention, no more than its host dropped: {why}; losses of the fabric are not judged there",
                fault.share
            );
        }
        if fault.kind == FaultKind::Loss {
            return format!(
                "{name}: {:.1e} of segments lost without contention (at most {:.0e} allowed), {alone}",
                fault.share, self.plan.criteria.loss
            );
        }
        let rate = fault.rate_bits_per_s;
        let expected = rate / fault.share.max(1e-9);
        if fault.kind == FaultKind::HeadOfLine {
            let again = match fault.word {
                VerdictWord::Fail => "and again when repeated, though healthy in isolation",
                _ => "but it did not repeat, or the pair fell short in isolation, too",
            };
            return format!(
                "{name} suffers from a congested port elsewhere (head-of-line blocking): {} ({:.1} %, floor {}), {again}",
                show_part(rate, expected),
                percent(fault.share),
                floor_text(self.plan)
            );
        }
        let (short, all) = fault.short_in;
        let carried = if fault.culprit.is_shared() {
            " carried"
        } else {
            ":"
        };
        let figures = format!(
            "{name}{carried} {} ({:.1} %, floor {}){}",
            show_part(rate, expected),
            percent(fault.share),
            floor_text_of(self.plan, sheet, &fault.culprit),
            fault.stretch.map_or_else(String::new, |one| {
                let mean = percent(one.mean_bits_per_s / expected.max(1.0));
                format!(
                    " for {} s from second {} of test {} (mean {mean:.1} %)",
                    one.seconds,
                    one.from_s,
                    one.test + 1
                )
            })
        );
        if fault.culprit.is_shared() && !matches!(fault.word, VerdictWord::HostLimited) {
            return format!(
                "{figures} in {short} of {all} tests that should fill it{}",
                steps(fault)
            );
        }
        let comes_and_goes = match short < all {
            true => format!(", comes and goes: short in {short} of {all} tests"),
            false => String::new(),
        };
        match fault.word {
            VerdictWord::Fail => match fault.culprit {
                Culprit::BothWays(_) => {
                    format!("{figures}{}, confirmed in isolation", steps(fault))
                }
                _ => format!("{figures}, confirmed in isolation{comes_and_goes}"),
            },
            VerdictWord::HostLimited => {
                let why = fault.notes.first();
                let why = why.map_or("its host was at its limit", String::as_str);
                format!(
                    "{figures}: {why}; proven up to {}, not judged above",
                    show_rate(self.proven(sheet, fault))
                )
            }
            _ if fault
                .notes
                .first()
                .is_some_and(|note| note.starts_with("waits: 0 of")) =>
            {
                format!("{figures}, but the network limited none of its connections: the hosts did")
            }
            _ => match by_itself(self.plan, sheet, fault) {
                Alone::Untold => {
                    format!("{figures}: no isolated test explains why{comes_and_goes}")
                }
                Alone::Well(least) => {
                    let least = percent(least);
                    match fault.again {
                        Some(share) if percent(share) < percent(fault.share + ALIKE_UNDER_LOAD) => {
                            let what = if fault.culprit.is_uplink() {
                                "uplink"
                            } else {
                                "port"
                            };
                            format!(
                                "{figures} under load, {:.1} % when that load was repeated, {least:.1} % or more in isolation: it depends on the load of other ports, not on this {what}",
                                percent(share)
                            )
                        }
                        Some(share) => format!(
                            "{figures} under load, {:.1} % when that load was repeated, {least:.1} % or more in isolation: it comes and goes, short in {short} of {all} tests",
                            percent(share)
                        ),
                        None => format!(
                            "{figures} under load, {least:.1} % or more in isolation{comes_and_goes}"
                        ),
                    }
                }
                Alone::Mixed(least, most) => format!(
                    "{figures} under load, {:.1} to {:.1} % in isolation: it fell short with one partner but not with another, or not every time{comes_and_goes}",
                    percent(least),
                    percent(most)
                ),
            },
        }
    }
}

/// Words for the other faults with the word of the worst one, such as `; and 2 more port directions`.
fn others_like(sheet: &Sheet, worst: &FaultSheet) -> String {
    let alike = || sheet.faults.iter().filter(|fault| fault.word == worst.word);
    let others = alike().count().saturating_sub(1);
    let is_direction =
        |fault: &FaultSheet| matches!(fault.culprit, Culprit::Send(_) | Culprit::Receive(_));
    let what = match alike().all(is_direction) {
        true => "port direction",
        false => "fault",
    };
    match others {
        0 => String::new(),
        1 => format!("; and 1 more {what}"),
        _ => format!("; and {others} more {what}s"),
    }
}

/// Text with the share that each number of links at once carried.
fn steps(fault: &FaultSheet) -> String {
    if fault.steps.is_empty() {
        return String::new();
    }
    let steps = fault.steps.iter().map(|step| {
        let share = step.rate_bits_per_s / step.expected_bits_per_s.max(1.0);
        let links = if step.links == 1 { "link" } else { "links" };
        format!("{} {links} {:.0} %", step.links, percent(share))
    });
    let steps: Vec<String> = steps.collect();
    format!("; with no other load: {}", steps.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Record;

    fn stored(text: &str) -> Record {
        serde_json::from_str(text).unwrap()
    }

    /// Symptom: "in isolation, with 1, 2, 4 links at once: 102, 101, 61 %", of which a reader must join two lists.
    #[test]
    fn each_number_of_links_stands_beside_its_share() {
        let record = stored(include_str!("../../tests/golden/backplane/record.json"));
        assert_eq!(
            steps(&record.sheet.faults[0]),
            "; with no other load: 1 link 102 %, 2 links 101 %, 4 links 61 %"
        );
    }

    /// Symptom: "UNDECIDED n3 receive: ...; and 2 more", without a word on what these are.
    #[test]
    fn a_headline_says_what_the_others_are() {
        let mut sheet = stored(include_str!("../../tests/golden/undecided/record.json")).sheet;
        let worst = sheet.faults[0].clone();
        assert_eq!(others_like(&sheet, &worst), "; and 2 more port directions");
        sheet.faults.truncate(2);
        assert_eq!(others_like(&sheet, &worst), "; and 1 more port direction");
        sheet.faults[1].culprit = Culprit::Pair(0, 1);
        assert_eq!(others_like(&sheet, &worst), "; and 1 more fault");
        sheet.faults.truncate(1);
        assert_eq!(others_like(&sheet, &worst), "");
    }
}
