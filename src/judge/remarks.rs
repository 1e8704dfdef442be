//! Writes remarks other than faults: broken and dropped frames, ports that differ from those like them, tests that replace others.

use std::collections::BTreeMap;

use launcher::hosts::fold;

use crate::plan::{Coupling, Sink, Test};
use crate::record::FaultSheet;
use crate::units::{percent, show_rate, sum};

use super::fabric::Place;
use super::fault::Fault;
use super::names::{culprit, sample_text};
use super::peers::{self, Odd};
use super::thresholds::{AS_SLOW, BEYOND, EXCEEDS};
use super::verdict::Writer;

/// Maximum number of remarks of one kind.
const MOST: usize = 10;

impl Writer<'_> {
    /// All remarks of a run.
    pub(super) fn remarks(&self, faults: &[FaultSheet]) -> Vec<String> {
        let any = |is: fn(&Test) -> bool| self.plan.tests().iter().any(is);
        let mut remarks: Vec<String> = sample_text(self.plan).into_iter().collect();
        remarks.extend(self.repeated.iter().cloned());
        if any(|test| test.coupling == Coupling::Buffer) {
            remarks.push(
                "with --coupling buffer all links run at the pace of the slowest: not judged"
                    .to_owned(),
            );
        }
        if any(|test| matches!(test.sink, Sink::File(_))) {
            let slow = self.view.unfit.values().find(|unfit| unfit.lasts);
            let cache =
                "the hosts wrote files into their page cache: no figure here is the rate of a disk";
            remarks.push(slow.map_or_else(|| cache.to_owned(), |slow| slow.why.clone()));
        }
        let ports = self.view.fabric.port_places();
        let left = ports.filter(|place| self.case.is_left_to_chance(*place));
        let left = left.count();
        if left > 0 {
            remarks.push(format!(
                "figures of {left} port directions leave out tests in which an uplink on their path was full: there the uplink is judged, by its sum"
            ));
        }
        remarks.extend(self.unseen_pairs());
        remarks.extend(self.unseen().take(MOST));
        remarks.extend(self.beyond());
        remarks.extend(self.beyond_uplinks().take(MOST));
        remarks.extend(self.broken(faults).take(MOST));
        remarks.extend(self.dropped().take(MOST));
        remarks.extend(self.unlike_others(faults));
        remarks
    }

    /// Remark on pairs if tests have too many links to judge each, and no test has one pair at each port.
    fn unseen_pairs(&self) -> Option<String> {
        let loads = || {
            let all = self.view.observations.iter();
            all.filter(|one| !one.isolated && !one.paced)
        };
        let has_sums = loads().any(|one| !one.passed.is_empty());
        let fabric = &self.view.fabric;
        // A retest has the pairs of a few ports only.
        let is_of_most = |links: usize| 2 * links > fabric.ports.len();
        let shows_pairs = loads().any(|one| one.is_single(fabric) && is_of_most(one.links.len()));
        (has_sums && !shows_pairs).then(|| {
            "of so many links only the sums of each port are judged: a slow pair of hosts can stay unseen (permutations show pairs: --profile acceptance)"
                .to_owned()
        })
    }

    /// Ports that received broken frames and are not blamed.
    fn broken(&self, faults: &[FaultSheet]) -> impl Iterator<Item = String> {
        let ports = self.view.ports.iter().enumerate();
        ports.filter_map(|(number, port)| {
            // They count even if TCP hid them, since they are below TCP.
            let told = port.counters.broken_frames()?;
            (!is_blamed(faults, Place::Receive(number))).then(|| {
                format!(
                    "{} received broken frames: {told} (cable, optics or port)",
                    port.label
                )
            })
        })
    }

    /// Ports that carry less than those like them: always, or far less in one test.
    fn unlike_others(&self, faults: &[FaultSheet]) -> Vec<String> {
        let held_down = |place, test| {
            let number = self.view.fabric.number(place);
            self.foreseen.is_short(number, test)
        };
        let behind = peers::behind(&self.case, &held_down);
        let by_peers = |fault: &&FaultSheet| {
            let mut behind = self.view.fabric.behind.iter();
            behind.any(|place| culprit(&Fault::Place(*place)) == fault.culprit)
        };
        let blamed = faults.iter().filter(by_peers);
        let blamed: Vec<f64> = blamed.map(|fault| fault.rate_bits_per_s).collect();
        let is_partner = |odd: &Odd| {
            let behind = behind.iter().map(|one| one.share * odd.median);
            let mut slow = behind.chain(blamed.iter().copied());
            slow.any(|rate| rate <= odd.rate * AS_SLOW)
        };
        let odd = peers::odd(self.view, &held_down).into_iter();
        let odd = odd.filter(|odd| !is_blamed(faults, odd.place) && !is_partner(odd));
        let odd = odd.map(|odd| peers::sentence(self.view, &odd)).take(MOST);
        let behind = behind.iter().take(MOST);
        let behind = behind.map(|behind| peers::behind_sentence(self.view, behind));
        behind.chain(odd).collect()
    }

    /// Sentences on what hosts cannot see between ports and the switch, each with all ports it concerns.
    fn unseen(&self) -> impl Iterator<Item = String> {
        let mut of_ports: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for port in &self.view.ports {
            if let Some(unseen) = &port.unseen {
                of_ports.entry(unseen).or_default().push(port.label.clone());
            }
        }
        let all = of_ports.into_iter();
        all.map(|(unseen, labels)| format!("{}: {unseen}", fold(&labels)))
    }

    /// Port that exceeded its capacity most, with a possible reason.
    fn beyond(&self) -> Option<String> {
        let shares = (0..self.view.ports.len()).filter_map(|port| {
            let ceiling = self.view.ceiling(port)?;
            let of_place = |place| {
                let passes = self.case.passes(place).into_iter();
                passes.map(move |pass| (pass.rate / ceiling, place, pass.test))
            };
            let both = [Place::Send(port), Place::Receive(port)].into_iter();
            both.flat_map(of_place).max_by(|a, b| a.0.total_cmp(&b.0))
        });
        let beyond: Vec<_> = shares.filter(|(share, ..)| *share > 1.0 + BEYOND).collect();
        let (share, place, test) = *beyond.iter().max_by(|a, b| a.0.total_cmp(&b.0))?;
        let more = match beyond.len() - 1 {
            0 => String::new(),
            more => format!(", and {more} more did, too"),
        };
        let why = if share > EXCEEDS {
            "is the port faster than specified?"
        } else {
            "a shaper's burst, or bytes that arrived before the window and waited for a retransmit"
        };
        let (label, way) = peers::named(self.view, place);
        // Users do not know the numbers of link test observations.
        let at = match test < self.plan.tests().len() {
            true => format!(" in test {}", test + 1),
            false => String::new(),
        };
        Some(format!(
            "{label} {way} carried {:.1} % of its ceiling{at}{more}: {why}",
            percent(share),
        ))
    }

    /// Uplinks that carried more than specified: a host is in another group than its cable, or the speed is wrong.
    fn beyond_uplinks(&self) -> impl Iterator<Item = String> {
        let groups = self.view.groups.iter().enumerate();
        groups.filter_map(|(number, (group, speed))| {
            let both = [Place::Up(number), Place::Down(number)];
            let passes = both.into_iter().flat_map(|place| self.case.passes(place));
            let most = passes.max_by(|a, b| a.rate.total_cmp(&b.rate))?;
            let is_beyond = most.rate > *speed as f64 * EXCEEDS;
            is_beyond.then(|| {
                format!(
                    "uplink {group} is specified with {} but carried {} in test {}: do its hosts (group=) and its speed (--uplink) match the switch?",
                    show_rate(*speed as f64),
                    show_rate(most.rate),
                    most.test + 1
                )
            })
        })
    }

    /// Ports whose interfaces dropped frames in the loss tests. That is reported and not judged: kernels also count unsolicited frames there, such as
    /// those by which switches find each other.
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
                    "{}: its interface dropped {dropped} frames in the loss tests; not judged, since this counter includes unsolicited frames",
                    port.label
                )
            })
        })
    }
}

fn is_blamed(faults: &[FaultSheet], place: Place) -> bool {
    let own = culprit(&Fault::Place(place));
    faults.iter().any(|fault| fault.culprit == own)
}
