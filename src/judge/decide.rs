//! Decides what the rates prove, or what must be measured first.

use std::collections::BTreeSet;

use super::case::{Case, IsOver};
use super::confirm::{Request, Second, Standing};
use super::fabric::{Fabric, Observation, Place};
use super::fault::Fault;
use super::predict::Model;
use super::thresholds::{LOOK_WITHIN, UNEVEN_BESIDE_FAULT};

/// Number of retests after which more of them prove nothing more.
const MOST_LOOKS: usize = 40;
/// Maximum number of rounds in which faults that cannot be shown alone give way to others.
const MOST_ROUNDS: usize = 5;

/// Next step after the observations so far.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// Requests to measure, one after the other.
    Measure(Vec<Request>),
    /// Nothing more can be learnt.
    Done(Decision),
}

/// Result for the rates.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Decision {
    /// Faults that fell short in a second, isolated measurement.
    pub confirmed: Vec<Blamed>,
    /// Places that fell short while their host was at its own limit.
    pub host_limited: Vec<Place>,
    /// Faults that fell short under load and that no confirmed fault explains, each with its share of the expected rate.
    pub undecided: Vec<(Fault, f64)>,
}

impl Decision {
    /// Faults with known effects on other places.
    pub fn known(&self) -> Vec<Fault> {
        let confirmed = self.confirmed.iter().map(|one| one.fault.clone());
        let limited = self.host_limited.iter().copied().map(Fault::Place);
        confirmed.chain(limited).collect()
    }
}

/// A confirmed fault.
#[derive(Debug, Clone, PartialEq)]
pub struct Blamed {
    /// The best explanation of the observations.
    pub fault: Fault,
    /// Faults that explain them as well: hosts cannot distinguish these.
    pub or: Vec<Fault>,
}

/// Decides what the rates prove, or what must be measured first.
#[cfg(feature = "internals")]
pub fn decide(fabric: &Fabric, observations: &[Observation]) -> Step {
    decide_until(fabric, observations, &|| false)
}

/// Decides what the rates prove, or what must be measured first, for as long as the answer is wanted.
pub(super) fn decide_until(
    fabric: &Fabric,
    observations: &[Observation],
    is_over: IsOver<'_>,
) -> Step {
    let case = Case::new(fabric, observations).until(is_over);
    if case.suspects().is_empty() {
        return Step::Done(Decision::default());
    }
    let second = Second::of(fabric, &case, observations);
    let limited =
        |fault: &Fault| matches!(fault, Fault::Place(place) if case.limited.contains(place));
    // A place that is well alone can still exceed what its host can do under load.
    let well = second.cleared();
    let mut cleared = well.clone();
    cleared.retain(|fault| !limited(fault));
    // If the host of one end is at its limit, the pair is not at fault either.
    let excused = |(from, to): (usize, usize)| {
        let mut ends = [Place::Send(from), Place::Receive(to)].into_iter();
        ends.find(|place| case.limited.contains(place) && case.limited_alone(*place))
    };
    // True for a place that is well alone, but short again when its load was repeated: it is slow only with the others.
    let is_held_down = |fault: &Fault| match fault {
        Fault::Place(place) => {
            well.contains(fault) && !limited(fault) && case.is_short_again(*place)
        }
        _ => false,
    };
    // A fault that cannot be shown alone gives way to faults that explain nearly as much.
    let (mut ruled_out, mut rounds) = (Vec::new(), 0);
    let mut explanation = Model::new(&case, &ruled_out).explain();
    let standings = loop {
        let mut blamed = explanation.faults.clone();
        // Deficits that the set leaves open must be measured as well, unless they were seen well.
        let leftover = case.unexplained(&blamed).into_iter();
        let leftover = leftover.map(|open| Fault::Place(open.place));
        let leftover = leftover.filter(|fault| !cleared.contains(fault) && !blamed.contains(fault));
        let leftover: Vec<Fault> = leftover.collect();
        blamed.extend(leftover);
        let standing = |fault: &Fault| match fault {
            Fault::Place(place) if explanation.varying.contains(fault) && !limited(fault) => {
                match is_held_down(fault) {
                    true => Standing::Undecided,
                    false => second.standing_of_varying(*place, &blamed),
                }
            }
            _ => second.standing(fault, &blamed),
        };
        let standings: Vec<(Fault, Standing)> = blamed
            .iter()
            .map(|fault| (fault.clone(), standing(fault)))
            .collect();
        let mut groups = standings.iter().filter(|(fault, _)| fault.is_shared());
        let refuted = groups.find(|(_, standing)| *standing == Standing::Undecided);
        let give_way: Vec<Fault> = match refuted {
            Some((group, _)) => vec![group.clone()],
            None => explanation
                .varying
                .iter()
                .filter(|fault| is_held_down(fault))
                .cloned()
                .collect(),
        };
        rounds += 1;
        if give_way.is_empty() || rounds > MOST_ROUNDS || case.is_over() {
            break standings;
        }
        let without = [&ruled_out[..], &give_way].concat();
        let other = Model::new(&case, &without).explain();
        let new = other.faults.iter();
        let new: Vec<&Fault> = new
            .filter(|one| !explanation.faults.contains(one))
            .collect();
        // A pair would be slow alone as well.
        let is_more = !new.is_empty() && !new.iter().any(|one| matches!(one, Fault::Pair(..)));
        let most = explanation.cost() + LOOK_WITHIN * give_way.len() as f64;
        let explains = is_more && other.cost() <= most;
        if refuted.is_none() && !explains {
            break standings;
        }
        (ruled_out, explanation) = (without, other);
    };
    let blamed: Vec<Fault> = standings.iter().map(|(fault, _)| fault.clone()).collect();
    let mut requests = Vec::new();
    let (mut confirmed, mut host_limited) = (Vec::new(), Vec::new());
    let mut unproven = Vec::new();
    let mut group_asked = false;
    for (fault, standing) in &standings {
        match (standing, fault) {
            // The result of one group says something about the others, so one group is measured at a time.
            (Standing::Open(_), _) if fault.is_shared() && group_asked => {}
            (Standing::Open(open), _) => {
                group_asked |= fault.is_shared();
                requests.extend(open.iter().cloned());
            }
            (Standing::Confirmed, Fault::Place(place))
                if limited(fault) && case.limited_alone(*place) =>
            {
                host_limited.push(*place);
            }
            // Waits that contradict a blame veto it: none of the fault's connections ever waited for the network.
            (Standing::Confirmed, _) if matches!(case.waits(fault), (1.., 0)) => {
                unproven.push(fault.clone());
            }
            (Standing::Confirmed, Fault::Pair(from, to)) => match excused((*from, *to)) {
                Some(place) => host_limited.push(place),
                None => confirmed.push(fault.clone()),
            },
            (Standing::Confirmed, _) if fault.is_shared() => {
                let hosts = case.limited_together(fault);
                match hosts.is_empty() {
                    true => confirmed.push(fault.clone()),
                    false => host_limited.extend(hosts),
                }
            }
            (Standing::Confirmed, _) => confirmed.push(fault.clone()),
            // A busy host can hide one slow pair: its port falls short with that pair only.
            (Standing::Undecided, Fault::Place(place)) if limited(fault) => {
                match second.pair_behind(*place, &blamed) {
                    Some((_, Standing::Open(open))) => requests.extend(open),
                    Some((pair, Standing::Confirmed)) if excused(pair).is_none() => {
                        confirmed.push(Fault::Pair(pair.0, pair.1));
                    }
                    _ => host_limited.push(*place),
                }
            }
            (Standing::Undecided, _) if explanation.faults.contains(fault) => {
                unproven.push(fault.clone());
            }
            (Standing::Undecided, _) => {}
        }
    }
    // The load is repeated before the judge says that only the load of the others slows the place down.
    let loads = unproven.iter().filter(|fault| well.contains(*fault));
    let loads: BTreeSet<usize> = loads
        .filter_map(|fault| match fault {
            Fault::Place(place) => case.not_repeated(*place),
            _ => None,
        })
        .collect();
    if requests.is_empty() {
        requests.extend(loads.into_iter().map(Request::again));
    }
    let looks = observations.iter().filter(|one| one.isolated).count();
    if !requests.is_empty() && looks < MOST_LOOKS {
        return Step::Measure(second.packed(requests));
    }
    confirmed.sort_unstable();
    confirmed.dedup();
    // A known fault holds down a place that is well alone and falls short by little: links never share quite
    // fairly.
    let is_well = |place: &Place| well.contains(&Fault::Place(*place));
    let open = case.unexplained(&confirmed);
    let by_little = |place: &Place| {
        let floor = fabric.floor(fabric.number(*place));
        let mut open = open.iter().filter(|open| open.place == *place);
        open.all(|open| open.share >= floor - UNEVEN_BESIDE_FAULT)
    };
    host_limited.sort_unstable();
    host_limited.dedup();
    host_limited.retain(|place| confirmed.is_empty() || !by_little(place) || !is_well(place));
    let hosts = host_limited.iter().copied().map(Fault::Place);
    let known: Vec<Fault> = confirmed.iter().cloned().chain(hosts).collect();
    let rivals_of = |fault: &Fault| {
        let rivals = Model::new(&case, &[]).rivals(&explanation, fault);
        rivals
            .into_iter()
            .filter(|rival| !known.contains(rival) && !cleared.contains(rival))
    };
    let blame = |fault: &Fault| match uplink_of(fabric, fault) {
        Some(uplink) => Blamed {
            fault: uplink,
            or: vec![fault.clone()],
        },
        None => Blamed {
            fault: fault.clone(),
            or: rivals_of(fault).collect(),
        },
    };
    let mut all = known.clone();
    all.extend(unproven.iter().cloned());
    let mut undecided: Vec<(Fault, f64)> = unproven
        .into_iter()
        .map(|fault| {
            let share = case.least_share_of(&fault);
            (fault, share)
        })
        .collect();
    // With a known fault, a place that is well alone is excused if others carried what it lacks: links share like that.
    let open = case.unexplained(&all).into_iter();
    let open = open.filter(|open| all.is_empty() || open.lacks || !is_well(&open.place));
    undecided.extend(open.map(|open| (Fault::Place(open.place), open.share)));
    Step::Done(Decision {
        undecided,
        confirmed: confirmed.iter().map(blame).collect(),
        host_limited,
    })
}

/// The declared uplink that all links of a shared fault cross.
fn uplink_of(fabric: &Fabric, fault: &Fault) -> Option<Fault> {
    let pairs: Vec<(usize, usize)> = match fault {
        Fault::Shared { from, to } => {
            let all = from
                .iter()
                .flat_map(|from| to.iter().map(move |to| (*from, *to)));
            all.collect()
        }
        Fault::Path(pairs) => pairs.clone(),
        _ => return None,
    };
    let uplinks = (0..fabric.groups).flat_map(|group| [Place::Up(group), Place::Down(group)]);
    uplinks.map(Fault::Place).find(|uplink| {
        let cover = uplink.cover(fabric);
        pairs.iter().all(|(from, to)| cover.has(*from, *to))
    })
}
