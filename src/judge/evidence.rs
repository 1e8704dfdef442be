//! Collects the evidence shown with a fault: rates under load and alone, waits of its links, counters of interfaces and hosts.

use std::collections::BTreeMap;

use crate::record::{Evidence, Step};
use crate::units::sum;

use super::case::Pass;
use super::fabric::{Observation, Place};
use super::fault::Fault;
use super::verdict::Writer;
use super::view::PortView;

impl Writer<'_> {
    /// Counts the connections through a fault that waited for the network. If few did, something else held them up.
    pub(super) fn waits_at(&self, fault: &Fault) -> Vec<String> {
        let cover = fault.cover(&self.view.fabric);
        let all = self.view.observations.iter();
        let loads = all.filter(|one| !one.isolated && !one.paced);
        let (mut links, mut limiting) = (0, 0);
        for one in loads.flat_map(|one| &one.links) {
            if cover.has(one.from, one.to) {
                links += one.links;
                limiting += one.limiting;
            }
        }
        let told = format!(
            "waits: {limiting} of {links} connections through it were limited by the network, not by hosts"
        );
        if links > 0 { vec![told] } else { Vec::new() }
    }

    /// Broken frames that arrived at a receiving port or pair at fault, and the number of ports without any.
    pub(super) fn broken_frames_at(&self, fault: &Fault) -> Vec<String> {
        let (Fault::Place(Place::Receive(port)) | Fault::Pair(_, port)) = *fault else {
            return Vec::new();
        };
        let broken = |port: &PortView| port.counters.broken_frames();
        let ports = self.view.ports.iter();
        let sound = ports.filter(|port| broken(port).is_none()).count();
        let told = self.view.ports.get(port).and_then(broken);
        let told = told.map(|told| format!("{told} at its interface, none at {sound} other ports"));
        told.into_iter().collect()
    }

    /// Measurement with the smallest share of a suspect, from the tests under load that judge it. Without such a test, any test under load counts;
    /// without those, retests, since some faults show only there.
    pub(super) fn under_load(&self, fault: &Fault) -> Option<Pass> {
        let passes = self.case.passes_of(fault);
        // Floors can differ between tests, so shares are compared relative to their floor.
        let least = |which: fn(&Pass) -> bool| {
            let known = passes.iter().filter(|pass| which(pass));
            let known = known.filter_map(|pass| Some((pass.share? / pass.floor, pass)));
            known
                .min_by(|a, b| a.0.total_cmp(&b.0))
                .map(|(_, pass)| *pass)
        };
        let preferred: [fn(&Pass) -> bool; 3] = [
            |pass| !pass.isolated && pass.judged,
            |pass| !pass.isolated,
            |_| true,
        ];
        preferred.into_iter().find_map(least)
    }

    /// Number of tests under load in which a suspect fell short, and number of tests under load that should have filled it.
    pub(super) fn short_in(&self, fault: &Fault) -> (usize, usize) {
        let passes = self.case.passes_of(fault);
        let filling = || passes.iter().filter(|pass| !pass.isolated && pass.judged);
        (
            filling().filter(|pass| pass.is_short()).count(),
            filling().count(),
        )
    }

    /// Share of the expected rate that a suspect carried when the test of its smallest share was repeated.
    pub(super) fn again(&self, fault: &Fault) -> Option<f64> {
        let passes = self.case.passes_of(fault);
        let loads = passes.iter().filter(|pass| !pass.isolated && pass.judged);
        let least =
            loads.min_by(|a, b| a.share.unwrap_or(1.0).total_cmp(&b.share.unwrap_or(1.0)))?;
        let repeat = self.view.repeats.get(&least.test)?;
        let repeat = passes.iter().find(|pass| pass.test == *repeat)?;
        repeat.share
    }

    /// Rates of a fault alone, for each number of links at once. Of several looks with as many links, the lowest share counts.
    pub(super) fn steps(&self, fault: &Fault) -> Vec<Step> {
        if !fault.is_shared() && !matches!(fault, Fault::BothWays(_)) {
            return Vec::new();
        }
        let cover = fault.cover(&self.view.fabric);
        let mut steps: BTreeMap<usize, Step> = BTreeMap::new();
        let looks = self.view.observations.iter();
        let looks = looks.filter(|one| one.isolated && !one.paced && one.only.is_none());
        for look in looks.filter(|one| one.links.iter().all(|link| cover.has(link.from, link.to))) {
            let shares = look.shares();
            let step = Step {
                links: shares.len(),
                rate_bits_per_s: shares.values().map(|share| share.rate).sum(),
                expected_bits_per_s: shares.values().map(|share| share.expected).sum(),
                test: look.test,
            };
            let part = |step: &Step| step.rate_bits_per_s / step.expected_bits_per_s.max(1e-9);
            let known = steps.entry(step.links).or_insert(step);
            if part(&step) < part(known) {
                *known = step;
            }
        }
        steps
            .into_values()
            .filter(|step| step.expected_bits_per_s > 0.0)
            .collect()
    }

    /// Isolated measurements of single links that concern a fault's ports or connect their partners.
    pub(super) fn evidence(&self, fault: &Fault, paced: bool) -> Vec<Evidence> {
        const MOST: usize = 5;
        let cover = fault.cover(&self.view.fabric);
        let concerns = |from: usize, to: usize| match fault {
            Fault::Place(Place::Send(port) | Place::Receive(port)) => from == *port || to == *port,
            Fault::Pair(a, b) => from == *a || to == *b,
            Fault::Place(Place::Up(_) | Place::Down(_)) => true,
            Fault::BothWays(_) | Fault::Shared { .. } | Fault::Path(_) => cover.has(from, to),
        };
        let mut partners = Vec::new();
        let isolated = || {
            let all = self.view.observations.iter();
            let repeats =
                |one: &Observation| self.view.repeats.values().any(|test| *test == one.test);
            all.filter(move |one| one.isolated && one.paced == paced && !repeats(one))
        };
        for link in isolated().flat_map(|one| &one.links) {
            if concerns(link.from, link.to) {
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
                        width: observation.width(&self.view.fabric, (from, to)),
                        test: observation.test,
                    });
                }
            }
        }
        // A measurement alone replaces one with other links at the same time. The fault itself comes first.
        let direct = |one: &Evidence| match fault {
            Fault::Place(Place::Up(_) | Place::Down(_)) => true,
            _ => cover.has(one.from, one.to),
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

    /// Segments that reached the receiving end of a fault in the loss tests and were lost in its host.
    pub(super) fn thrown_away_at(&self, fault: &Fault) -> Vec<String> {
        let (Fault::Place(Place::Receive(port)) | Fault::Pair(_, port)) = *fault else {
            return Vec::new();
        };
        let looks = self.view.observations.iter();
        let looks = looks.filter(|one| one.paced && !one.isolated);
        let frames = looks.filter_map(|one| one.frames.get(port));
        let segments = sum(frames.map(|frames| frames.discarded));
        vec![format!(
            "up to {segments} segments reached it and were lost in the host for lack of room (frames that its interface missed, packets beyond its backlog){}",
            self.costs_at(port)
        )]
    }

    /// Words for the settings of a port's host that cost rate, after the limit that they may explain.
    fn costs_at(&self, port: usize) -> String {
        /// A bond can have 16 cards with the same setting.
        const MOST: usize = 3;
        let costs = self.view.ports[port].costs.iter().take(MOST);
        costs.map(|cost| format!("; {cost}")).collect()
    }

    /// Why a port direction is limited by its host: the limits, the first with the settings that may explain it.
    pub(super) fn why_limited(&self, place: Place) -> Vec<String> {
        let mut limits = self.limits_of(place);
        let port = place.port().map(|(port, _)| port);
        // No setting makes a slot faster.
        let port = port.filter(|port| self.view.ports[*port].slot_limit.is_none());
        let costs = port.map_or_else(String::new, |port| self.costs_at(port));
        match limits.first_mut() {
            Some(limit) => limit.push_str(&costs),
            None if costs.is_empty() => {}
            None => limits.push(format!("its host was at its limit{costs}")),
        }
        limits
    }

    pub(super) fn limits_of(&self, place: Place) -> Vec<String> {
        let Some((port, _)) = place.port() else {
            return Vec::new();
        };
        let node = self.view.ports[port].node;
        let limits = self.view.limits.iter();
        let limits = limits.filter(|((_, host), _)| *host == node);
        let mut limits: Vec<String> = limits.map(|(_, limit)| limit.clone()).collect();
        limits.dedup();
        limits.truncate(2);
        limits
    }
}
