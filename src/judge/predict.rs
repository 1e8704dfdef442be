//! Predicts what passes each place with a set of faults, and computes the cost of its difference from the observations.
//!
//! The capacity of a fault is the most that was ever seen to pass it, since a lasting fault never lets more through. With these capacities the
//! fabric is filled again. The remaining differences cost by how unlikely they are, and each fault has a price. A place that carried its
//! expected rate once is evidence as well: its own capacity cannot be less.

use super::case::Case;
use super::fabric::{Fabric, Place};
use super::fault::{Cover, Fault};
use super::filling::{Flow, fill};
use super::look::Look;
use super::thresholds::{
    DEPTH, EACH_TIME_PRICE, EXCEEDED, FABRIC_PRICE, FULL, GROUP_PRICE, LIMITED_PRICE, LOOSE,
    MOST_PER_FIGURE, NARROW, NEAR, NEAR_FLOOR, PAIR_PRICE, PATH_PRICE, PLACE_PRICE,
    PORT_OF_GROUP_PRICE, STEADY, TIGHT, TIGHT_OF_FLOOR, TIGHTEST, UNFAIR, UNUSUAL_PRICE,
    VARIES_PRICE,
};

/// Price of a fault that was ruled out. It stays in the search, because it leads to similar faults.
const NEVER: f64 = 1e9;

/// True if a prediction does not explain an observation, both as shares of what a sound fabric would show.
/// `vague` is the standard deviation of the prediction.
pub(super) fn leaves_open(seen: f64, foreseen: f64, floor: f64, vague: f64) -> bool {
    let most = match foreseen < floor {
        true => DEPTH,
        false => NEAR.min((1.0 - floor) * NEAR_FLOOR),
    };
    seen < floor && foreseen - seen > most.max(UNFAIR * vague)
}

/// A fault with its capacity and its price.
#[derive(Debug, Clone)]
pub(super) struct Member {
    pub(super) fault: Fault,
    cover: Cover,
    /// True if it lets different rates through at different times.
    pub(super) varies: bool,
    /// Rate that it lets through, by look.
    capacities: Vec<f64>,
    /// Rate that should pass it, by look.
    wanted: Vec<f64>,
    /// For each look, true if the fault changes anything there.
    pub(super) binds: Vec<bool>,
    /// Price in units of log-likelihood.
    pub(super) price: f64,
}

/// Prediction of a look with a set of faults.
pub(super) struct Predicted {
    /// Rate that passes each place.
    pub(super) sums: Vec<f64>,
    /// Standard deviation of each rate. It grows where links share something full elsewhere, since chance decides how they share it.
    pub(super) vague: Vec<f64>,
    /// Predicted and observed rate of each fault that several links share.
    shared: Vec<(f64, f64)>,
}

/// Cost model of a case, used by the search.
pub(super) struct Model<'a> {
    pub(super) case: &'a Case<'a>,
    pub(super) fabric: &'a Fabric,
    /// Cost of each look without faults.
    pub(super) sound: Vec<f64>,
    /// Standard deviation of the rate that a sound fabric predicts for each place, by look.
    pub(super) vague_of_sound: Vec<Vec<f64>>,
    /// Faults that must not be blamed.
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
        let looks = case.looks.iter();
        model.vague_of_sound = looks.map(|look| model.vague_of_sound(look)).collect();
        let costs = (0..case.looks.len()).map(|number| model.cost_of_sound(number));
        model.sound = costs.collect();
        model
    }

    pub(super) fn looks(&self) -> &'a [Look<'a>] {
        &self.case.looks
    }

    /// Members for known faults. A fault varies if its observations differ between looks, else it is steady.
    pub(super) fn members(&self, faults: &[Fault]) -> Vec<Member> {
        let of = |fault: &Fault| {
            let steady = self.member(fault.clone(), false);
            let mut looks = self.looks().iter().enumerate();
            let swings = looks.any(|(number, look)| {
                let expected = look.expected_at(self.fabric, fault, &steady.cover);
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
            let expected = look.expected_at(self.fabric, &fault, &cover);
            let capacity = match varies {
                false => most,
                true => Some(seen(look))
                    .filter(|seen| *seen < expected * 0.95)
                    .unwrap_or(f64::INFINITY),
            };
            // A place that carries more than the middle between its floor and the expected rate is no fault, however often it does.
            let narrow = match &fault {
                Fault::Place(place) => (1.0 + look.floors[self.fabric.number(*place)]) / 2.0,
                _ if fault.is_shared() => NARROW,
                _ => 0.995,
            };
            capacities.push(capacity);
            wanted.push(expected);
            binds.push(look.tells_rates() && expected.is_finite() && capacity < expected * narrow);
        }
        // A fault that comes and goes is rare, and has a different size each time.
        let times = binds.iter().filter(|binds| **binds).count() as f64;
        Member {
            price: self.price(&fault)
                + if varies {
                    VARIES_PRICE + EACH_TIME_PRICE * times
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

    /// Price of a fault in units of log-likelihood. Rarer faults cost more, and so do faults that can explain more.
    fn price(&self, fault: &Fault) -> f64 {
        let is_limited = matches!(fault, Fault::Place(place) if self.case.limited.contains(place));
        let ports = self.fabric.ports.len() as f64;
        let own = match fault {
            Fault::Place(_) if is_limited => LIMITED_PRICE,
            Fault::Place(_) => PLACE_PRICE,
            Fault::Pair(..) | Fault::BothWays(_) => PAIR_PRICE,
            Fault::Shared { .. } if fault.is_all(self.fabric) => FABRIC_PRICE,
            Fault::Shared { from, to } => {
                let odd = |list: &[usize]| (list.len() as f64).min(ports - list.len() as f64);
                let is_all = |list: &[usize]| list.len() == self.fabric.ports.len();
                let apart = from.iter().all(|port| !to.contains(port));
                let is_leaf = apart && from.len() + to.len() == self.fabric.ports.len();
                let usual = is_all(from) || is_all(to) || is_leaf;
                let unusual = if usual { 0.0 } else { UNUSUAL_PRICE };
                GROUP_PRICE + PORT_OF_GROUP_PRICE * (odd(from) + odd(to)) + unusual
            }
            Fault::Path(pairs) => PATH_PRICE + pairs.len() as f64,
        };
        let ruled_out = self.ruled_out.contains(fault);
        own + if ruled_out { NEVER } else { 0.0 }
    }

    /// Predicts what passes each place of a look with these faults. `None` if they change nothing there.
    pub(super) fn predict(&self, number: usize, members: &[&Member]) -> Option<Predicted> {
        let look = &self.looks()[number];
        let felt = members.iter().copied();
        let felt: Vec<&Member> = felt.filter(|one| one.binds[number]).collect();
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
                    capacities.push(capacity * look.ends_at(self.fabric, &member.fault));
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
                    let times = look.count(self.fabric, &member.fault, &member.cover, flow);
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
        // Acknowledgements wait in the queue of a narrow port. Traffic in the other direction then gets less of what it shares, and need not fill it.
        let is_held_up = |place: usize| {
            felt.iter().any(|member| {
                matches!(member.fault, Fault::Place(narrow) if self.fabric.number(narrow) == place ^ 1)
            })
        };
        let is_full = |place: usize| sums[place] >= capacities[place] * FULL && !is_held_up(place);
        // Where each port has one link, a pair covers only that link and shares nothing.
        let shares = |place: usize| {
            let member = own.iter().find(|(own, _)| *own == place);
            member.is_none_or(|(_, member)| !matches!(member.fault, Fault::Pair(..)))
        };
        let mut chances = vec![0.0; capacities.len()];
        for place in 2 * self.fabric.ports.len()..capacities.len() {
            let wanted = match own.iter().find(|(own, _)| *own == place) {
                Some((_, member)) => {
                    member.wanted[number] * look.ends_at(self.fabric, &member.fault)
                }
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
            let ends = look.ends_at(self.fabric, &member.fault);
            (sums[*place] / ends, seen)
        });
        Some(Predicted {
            shared: shared.collect(),
            vague,
            sums: sums[..places].to_vec(),
        })
    }

    /// Standard deviations of what passes ports. The rates of links that share something full elsewhere are random. A port that is full itself
    /// carries its capacity, however its own links share it.
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

    fn cost_of_sound(&self, number: usize) -> f64 {
        let look = &self.looks()[number];
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

    /// Cost of the places on a flow's route, in a look in which no other flow passes them.
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

    /// Change of a look's cost if `changed` is one place or pair and no two flows share anything; `None` otherwise.
    pub(super) fn change_of_look(
        &self,
        number: usize,
        known: &[&Member],
        members: &[&Member],
        changed: &Member,
    ) -> Option<f64> {
        let look = &self.looks()[number];
        let mut all = known.iter().chain(members);
        let is_wide = |fault: &Fault| fault.is_shared() || matches!(fault, Fault::BothWays(_));
        if all.any(|one| one.binds[number] && is_wide(&one.fault)) {
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

/// Degree of competition for a place, from 0 to 1. The less is missing there, the less can be shared unfairly.
fn competed(passes: f64, capacity: f64, wanted: f64) -> f64 {
    if passes < capacity * FULL {
        return 0.0;
    }
    let missing = 1.0 - capacity / wanted.max(1e-9);
    (missing / LOOSE).clamp(0.0, 1.0)
}

/// Cost of the observation at a place where `predicted` should have passed, with a standard deviation of `vague`. A large difference costs, and
/// so does a vague prediction.
fn row(look: &Look<'_>, place: usize, predicted: f64, vague: f64) -> f64 {
    let Some(share) = look.share_within(place) else {
        return 0.0;
    };
    let off = share - predicted / look.expected[place];
    let deviation = deviation(look, place, vague);
    (deviation / tight(look, place)).ln() + penalty(off, deviation)
}

/// Standard deviation of a place that limits itself, as a share of the expected rate.
fn tight(look: &Look<'_>, place: usize) -> f64 {
    ((1.0 - look.floors[place]) * TIGHT_OF_FLOOR).clamp(TIGHTEST, TIGHT)
}

/// The same, including the standard deviation `vague` of a prediction.
pub(super) fn deviation(look: &Look<'_>, place: usize, vague: f64) -> f64 {
    tight(look, place).hypot(vague / look.expected[place])
}

fn penalty(off: f64, deviation: f64) -> f64 {
    (off * off / (2.0 * deviation * deviation)).min(MOST_PER_FIGURE)
}
