//! What a set of faults predicts to be seen, and what it costs that something else was.
//!
//! Each fault gets the most that was ever seen to pass it, since a fault that stays never lets more through, and the fabric is filled
//! again. What is then still off costs, by how unlikely it is, and each fault costs a price. A place that carried its due once is evidence
//! like any other: no capacity of its own can be less.

use super::case::Case;
use super::fabric::{Fabric, Place};
use super::fault::{Cover, Fault};
use super::filling::{Flow, fill};
use super::look::{FULL, Look};

/// A prediction this far above what was seen does not explain it.
const NEAR: f64 = 0.07;
/// Nor does one that is further above than this part of what the floor leaves: what is below a high floor is not explained by nothing.
const NEAR_FLOOR: f64 = 0.7;
/// Where both are below the floor, and nothing but the place itself limits it.
const DEPTH: f64 = 0.10;
/// Deviations that need no explanation where links share something full elsewhere: they never do so quite fairly.
const UNFAIR: f64 = 1.5;

/// Standard deviation of what passes a place that limits itself, as share of what is expected; less with a high floor.
const TIGHT: f64 = 0.04;
const TIGHT_OF_FLOOR: f64 = 0.4;
const TIGHTEST: f64 = 0.015;
/// The same for the rate of a link that shares something full elsewhere.
const LOOSE: f64 = 0.15;
/// That many times as much, where ports carry more than they should be able to.
const EXCEEDED: f64 = 3.0;
/// No figure costs more than this: one that is far off may be a mishap.
const MOST: f64 = 10.0;
/// What several links share is narrow if it lets less than this part through of what should pass it.
const NARROW: f64 = 0.96;
/// What a fault that comes and goes costs more, and for each time it was there.
const VARIES: f64 = 4.0;
const EACH_TIME: f64 = 2.5;
/// What several links share is more often what some ports send or receive, or what leaves a group, than anything else.
const UNUSUAL: f64 = 1.5;
/// What was ruled out still leads to others like it.
const NEVER: f64 = 1e9;

/// Whether a prediction leaves open what was seen, both as shares of what a sound fabric would show.
/// `vague` is the standard deviation of what was foreseen.
pub(super) fn leaves_open(seen: f64, foreseen: f64, floor: f64, vague: f64) -> bool {
    let most = match foreseen < floor {
        true => DEPTH,
        false => NEAR.min((1.0 - floor) * NEAR_FLOOR),
    };
    seen < floor && foreseen - seen > most.max(UNFAIR * vague)
}

/// A fault with what it lets through.
#[derive(Debug, Clone)]
pub(super) struct Member {
    pub(super) fault: Fault,
    cover: Cover,
    /// It lets more through at one time than at another.
    pub(super) varies: bool,
    /// By look.
    capacities: Vec<f64>,
    /// What should pass it, by look.
    wanted: Vec<f64>,
    /// Whether it changes anything in a look.
    pub(super) binds: Vec<bool>,
    /// In units of log-likelihood.
    pub(super) price: f64,
}

impl Member {
    pub(super) fn is_felt(&self) -> bool {
        self.binds.iter().any(|binds| *binds)
    }
}

/// What a set of faults makes of a look.
pub(super) struct Predicted {
    /// What passes each place.
    pub(super) sums: Vec<f64>,
    /// Standard deviations of that, where links share something full elsewhere and how they do is left to chance.
    pub(super) vague: Vec<f64>,
    /// What passes faults that several links share, and what did.
    shared: Vec<(f64, f64)>,
}

/// The search for it.
pub(super) struct Model<'a> {
    pub(super) case: &'a Case<'a>,
    pub(super) fabric: &'a Fabric,
    /// What each look costs if there are no faults.
    pub(super) sound: Vec<f64>,
    /// How vague what is expected of each place is, by look.
    pub(super) vague_of_sound: Vec<Vec<f64>>,
    /// Faults that are not to be blamed.
    ruled_out: &'a [Fault],
}

impl<'a> Model<'a> {
    pub(super) fn new(case: &'a Case<'a>, ruled_out: &'a [Fault]) -> Self {
        let mut model = Self {
            case,
            fabric: case.fabric,
            sound: Vec::new(),
            vague_of_sound: Vec::new(),
            ruled_out,
        };
        let looks = || case.looks.iter().enumerate();
        model.vague_of_sound = looks()
            .map(|(_, look)| model.vague_of_sound(look))
            .collect();
        model.sound = looks()
            .map(|(number, look)| model.cost_of_sound(number, look))
            .collect();
        model
    }

    pub(super) fn looks(&self) -> &'a [Look<'a>] {
        &self.case.looks
    }

    /// Known faults, each as steady as it was seen to be.
    pub(super) fn members(&self, faults: &[Fault]) -> Vec<Member> {
        /// A fault that stays lets as much through each time, less what others leave.
        const STEADY: f64 = 0.15;
        let of = |fault: &Fault| {
            let steady = self.member(fault.clone(), false);
            let mut looks = self.looks().iter().enumerate();
            let swings = looks.any(|(number, look)| {
                let expected = look.expected_at(self.fabric, &steady.cover);
                let seen = look.seen_at(self.fabric, fault, &steady.cover);
                let foreseen = steady.capacities[number].min(expected);
                look.tells_rates() && expected > 0.0 && (foreseen - seen) / expected > STEADY
            });
            match swings {
                true => self.member(fault.clone(), true),
                false => steady,
            }
        };
        faults.iter().map(of).collect()
    }

    pub(super) fn member(&self, fault: Fault, varies: bool) -> Member {
        let cover = fault.cover(self.fabric);
        let seen = |look: &Look<'_>| look.seen_at(self.fabric, &fault, &cover);
        let telling = self.looks().iter().filter(|look| look.tells_rates());
        let most = telling.map(seen).fold(0.0, f64::max);
        let mut capacities = Vec::new();
        let (mut wanted, mut binds) = (Vec::new(), Vec::new());
        for look in self.looks() {
            let expected = match &fault {
                Fault::Place(place) => look.expected[self.fabric.number(*place)],
                _ => look.expected_at(self.fabric, &cover),
            };
            let capacity = match varies {
                false => most,
                true => Some(seen(look))
                    .filter(|seen| *seen < expected * 0.95)
                    .unwrap_or(f64::INFINITY),
            };
            // What carries more than half of what its floor leaves open is no fault, however often it does.
            let narrow = match &fault {
                Fault::Place(place) => (1.0 + look.floors[self.fabric.number(*place)]) / 2.0,
                _ if fault.is_shared() => NARROW,
                _ => 0.995,
            };
            capacities.push(capacity);
            wanted.push(expected);
            binds.push(look.tells_rates() && expected.is_finite() && capacity < expected * narrow);
        }
        // What comes and goes is rare, and has a size of its own each time.
        let times = binds.iter().filter(|binds| **binds).count() as f64;
        Member {
            price: self.price(&fault)
                + if varies {
                    VARIES + EACH_TIME * times
                } else {
                    0.0
                },
            fault,
            cover,
            varies,
            capacities,
            wanted,
            binds,
        }
    }

    /// What a fault costs, in units of log-likelihood: rarer ones cost more, and so do those that can explain more.
    fn price(&self, fault: &Fault) -> f64 {
        let is_limited =
            matches!(fault, Fault::Place(place) if self.case.limited().contains(place));
        let ports = self.fabric.ports.len() as f64;
        let own = match fault {
            Fault::Place(_) if is_limited => 3.0,
            Fault::Place(_) => 5.0,
            Fault::Pair(..) | Fault::BothWays(_) => 6.0,
            Fault::Shared { .. } if fault.is_all(self.fabric) => 7.0,
            Fault::Shared { from, to } => {
                let odd = |list: &[usize]| (list.len() as f64).min(ports - list.len() as f64);
                let is_all = |list: &[usize]| list.len() == self.fabric.ports.len();
                let apart = from.iter().all(|port| !to.contains(port));
                let is_leaf = apart && from.len() + to.len() == self.fabric.ports.len();
                let usual = is_all(from) || is_all(to) || is_leaf;
                8.0 + 0.25 * (odd(from) + odd(to)) + if usual { 0.0 } else { UNUSUAL }
            }
            Fault::Path(pairs) => 7.0 + pairs.len() as f64,
        };
        let ruled_out = self.ruled_out.contains(fault);
        own + if ruled_out { NEVER } else { 0.0 }
    }

    /// What would pass each place of a look with these faults; none if they change nothing there.
    pub(super) fn predict(&self, number: usize, members: &[&Member]) -> Option<Predicted> {
        let look = &self.looks()[number];
        let felt: Vec<&Member> = members
            .iter()
            .copied()
            .filter(|one| one.binds[number])
            .collect();
        if felt.is_empty() {
            return None;
        }
        let observation = look.observation;
        let mut capacities = observation.capacities.clone();
        let places = capacities.len();
        let mut own = Vec::new();
        for member in &felt {
            let capacity = member.capacities[number];
            match &member.fault {
                Fault::Place(place) => {
                    let place = self.fabric.number(*place);
                    capacities[place] = capacities[place].min(capacity);
                }
                _ => {
                    own.push((capacities.len(), *member));
                    capacities.push(capacity);
                }
            }
        }
        let changed;
        let flows = if own.is_empty() {
            &observation.flows
        } else {
            let mut flows = observation.flows.clone();
            for flow in &mut flows {
                let mut more = Vec::new();
                for (place, member) in &own {
                    let times = member.cover.count(self.fabric, flow);
                    more.extend(std::iter::repeat_n(*place, times));
                }
                flow.route.extend(more);
            }
            changed = flows;
            &changed
        };
        let rates = fill(&capacities, flows);
        let mut sums = vec![0.0; capacities.len()];
        for (flow, rate) in flows.iter().zip(&rates) {
            for place in &flow.route {
                sums[*place] += rate;
            }
        }
        // Acknowledgements wait in the queue of a narrow port: what goes the other way gets less of what it shares, and may fill nothing.
        let is_held_up = |place: usize| {
            felt.iter().any(|member| {
                matches!(member.fault, Fault::Place(narrow) if self.fabric.number(narrow) == place ^ 1)
            })
        };
        let is_full = |place: usize| sums[place] >= capacities[place] * FULL && !is_held_up(place);
        // A pair is no more than its own link where each port has one.
        let shares = |place: usize| {
            let member = own.iter().find(|(own, _)| *own == place);
            member.is_none_or(|(_, member)| !matches!(member.fault, Fault::Pair(..)))
        };
        let mut chances = vec![0.0; capacities.len()];
        for place in 2 * self.fabric.ports.len()..capacities.len() {
            let wanted = match own.iter().find(|(own, _)| *own == place) {
                Some((_, member)) => member.wanted[number],
                None => look.expected[place],
            };
            if shares(place) {
                chances[place] = competed(sums[place], capacities[place], wanted);
            }
        }
        let by_chance = flows.iter().zip(&look.by_chance).map(|(flow, chance)| {
            let chances = flow.route.iter().map(|place| chances[*place]);
            chances.fold(f64::from(u8::from(*chance)), f64::max)
        });
        let by_chance: Vec<f64> = by_chance.collect();
        let vague = self.vague(look, flows, &rates, &by_chance, &is_full);
        let shared = own
            .iter()
            .filter(|(_, member)| !matches!(member.fault, Fault::Pair(..)));
        let shared = shared.map(|(place, member)| {
            let seen = look.seen_at(self.fabric, &member.fault, &member.cover);
            (sums[*place], seen)
        });
        Some(Predicted {
            shared: shared.collect(),
            vague,
            sums: sums[..places].to_vec(),
        })
    }

    /// Standard deviations of what passes ports. Rates of links that share something full elsewhere are as it comes; a port that is full
    /// itself carries what it can, however its own links share it.
    fn vague(
        &self,
        look: &Look<'_>,
        flows: &[Flow],
        rates: &[f64],
        by_chance: &[f64],
        is_full: &dyn Fn(usize) -> bool,
    ) -> Vec<f64> {
        let ports = 2 * self.fabric.ports.len();
        let mut squares = vec![0.0; self.fabric.places()];
        for ((flow, rate), chance) in flows.iter().zip(rates).zip(by_chance) {
            for place in flow.route.iter().filter(|place| **place < ports) {
                let chance = match (look.single, look.exceeded[place % 2]) {
                    (false, true) => EXCEEDED,
                    (false, false) if !is_full(*place) => 1.0,
                    _ => *chance,
                };
                squares[*place] += (rate * LOOSE * chance) * (rate * LOOSE * chance);
            }
        }
        squares.into_iter().map(f64::sqrt).collect()
    }

    fn vague_of_sound(&self, look: &Look<'_>) -> Vec<f64> {
        let observation = look.observation;
        let is_full = |place: usize| look.expected[place] >= observation.capacities[place] * FULL;
        let by_chance = look
            .by_chance
            .iter()
            .map(|chance| f64::from(u8::from(*chance)));
        let by_chance: Vec<f64> = by_chance.collect();
        self.vague(look, &observation.flows, &look.rates, &by_chance, &is_full)
    }

    fn cost_of_sound(&self, number: usize, look: &Look<'_>) -> f64 {
        if !look.tells_rates() {
            return 0.0;
        }
        let rows = look
            .expected
            .iter()
            .zip(&self.vague_of_sound[number])
            .enumerate();
        rows.map(|(place, (expected, vague))| row(look, place, *expected, *vague))
            .sum()
    }

    pub(super) fn cost_of_look(&self, number: usize, members: &[&Member]) -> f64 {
        let look = &self.looks()[number];
        let Some(predicted) = self.predict(number, members) else {
            return self.sound[number];
        };
        let rows = predicted.sums.iter().zip(&predicted.vague).enumerate();
        let rows = rows.map(|(place, (sum, vague))| row(look, place, *sum, *vague));
        let shared = predicted.shared.iter();
        let shared = shared.map(|(sum, seen)| penalty((seen - sum) / sum.max(1e-9), TIGHT));
        rows.sum::<f64>() + shared.sum::<f64>()
    }

    /// What the places on a flow's way cost in a look in which no other flow meets them.
    fn cost_of_flow(&self, number: usize, at: usize, members: &[&Member]) -> f64 {
        let look = &self.looks()[number];
        let (flow, ports) = (&look.observation.flows[at], 2 * self.fabric.ports.len());
        let felt = || members.iter().filter(|one| one.binds[number]);
        let capacity = |place: usize| {
            let own = felt().filter(|one| match one.fault {
                Fault::Place(other) => self.fabric.number(other) == place,
                _ => false,
            });
            let own = own.map(|one| one.capacities[number]);
            own.fold(look.observation.capacities[place], f64::min)
        };
        let pairs = felt().filter(|one| match one.fault {
            Fault::Pair(..) => one.cover.count(self.fabric, flow) > 0,
            _ => false,
        });
        let most = pairs
            .map(|one| one.capacities[number])
            .fold(flow.cap, f64::min);
        let places = flow.route.iter().map(|place| capacity(*place));
        let rate = places.fold(most, f64::min);
        let uplinks = flow.route.iter().filter(|place| **place >= ports);
        let competed = uplinks.map(|place| competed(rate, capacity(*place), look.expected[*place]));
        let chance = competed.fold(f64::from(u8::from(look.by_chance[at])), f64::max);
        let rows = flow.route.iter().map(|place| {
            let vague = if *place < ports {
                rate * LOOSE * chance
            } else {
                0.0
            };
            row(look, *place, rate, vague)
        });
        rows.sum()
    }

    /// By how much the cost of a look changes with its members, when the change is about one place or pair, and flows have nothing to do
    /// with each other; none if they do.
    pub(super) fn change_of_look(
        &self,
        number: usize,
        known: &[&Member],
        members: &[&Member],
        changed: &Member,
    ) -> Option<f64> {
        let look = &self.looks()[number];
        let mut all = known.iter().chain(members);
        if all.any(|one| one.binds[number] && (one.fault.is_shared() || one.fault.is_both_ways())) {
            return None;
        }
        let place = match changed.fault {
            Fault::Place(place) => place,
            Fault::Pair(from, _) => Place::Send(from),
            _ => return None,
        };
        let at = (*look.apart.as_ref()?.get(self.fabric.number(place))?)?;
        let cost = |members: &[&Member]| self.cost_of_flow(number, at, members);
        Some(cost(members) - cost(known))
    }
}

/// How much links compete for a place: the less is missing there, the less can be shared unfairly.
fn competed(passes: f64, capacity: f64, wanted: f64) -> f64 {
    if passes < capacity * FULL {
        return 0.0;
    }
    let missing = 1.0 - capacity / wanted.max(1e-9);
    (missing / LOOSE).clamp(0.0, 1.0)
}

/// What it costs that so much was seen at a place where `predicted` should have passed, with a deviation of `vague`: it costs to be far off,
/// and to be vague.
fn row(look: &Look<'_>, place: usize, predicted: f64, vague: f64) -> f64 {
    let Some(share) = look.share_within(place) else {
        return 0.0;
    };
    let off = share - predicted / look.expected[place];
    let deviation = deviation(look, place, vague);
    (deviation / tight(look, place)).ln() + penalty(off, deviation)
}

/// Standard deviation of a place that limits itself, as share of what is expected.
fn tight(look: &Look<'_>, place: usize) -> f64 {
    ((1.0 - look.floors[place]) * TIGHT_OF_FLOOR).clamp(TIGHTEST, TIGHT)
}

/// The same with how vague a prediction is.
pub(super) fn deviation(look: &Look<'_>, place: usize, vague: f64) -> f64 {
    tight(look, place).hypot(vague / look.expected[place])
}

fn penalty(off: f64, deviation: f64) -> f64 {
    (off * off / (2.0 * deviation * deviation)).min(MOST)
}
