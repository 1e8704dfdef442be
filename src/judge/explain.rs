//! Blame: finds the cheapest set of faults whose filled rates explain the rates at every place, in every test.
//!
//! A slow port slows innocent ports down as well, so a place below its floor is only a suspect. The search adds or removes one fault
//! at a time, as Flock does (CoNEXT 2023), and blames the cheapest set.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use super::fabric::Place;
use super::fault::Fault;
use super::guesses::{FEW_PORTS, neighbours, reversed, short_links};
use super::predict::{Member, Model, deviation};
use super::thresholds::{FAR, GROUPS_FROM, GUESS_WITHIN, INSEPARABLE};

/// Maximum number of candidates of each sort, those with the largest deficit first.
const MOST_CANDIDATES: usize = 64;
/// Maximum size of a set.
const MOST_FAULTS: usize = 32;
/// Number of first guesses, the best ones, from which the search for groups starts.
const GUESSES: usize = 6;

/// A set of faults and its cost.
#[derive(Debug, Clone)]
struct Set {
    members: Vec<Rc<Member>>,
    of_looks: Vec<f64>,
    /// Cost of all looks, plus the prices of the faults.
    cost: f64,
}

impl Set {
    fn new(of_looks: Vec<f64>, members: Vec<Rc<Member>>) -> Self {
        let prices = members.iter().map(|member| member.price);
        Self {
            cost: prices.sum::<f64>() + of_looks.iter().sum::<f64>(),
            members,
            of_looks,
        }
    }

    fn price(&self) -> f64 {
        self.members.iter().map(|member| member.price).sum()
    }

    fn has(&self, fault: &Fault) -> bool {
        self.members.iter().any(|member| member.fault == *fault)
    }
}

/// The cheapest set of faults that explains the observations.
#[derive(Debug, Clone)]
pub(super) struct Explanation {
    pub(super) faults: Vec<Fault>,
    /// Faults of the set that come and go.
    pub(super) varying: BTreeSet<Fault>,
    set: Set,
    candidates: Vec<Rc<Member>>,
}

impl Explanation {
    /// Improbability of the observations plus the prices of the faults, in units of log-likelihood.
    pub(super) fn cost(&self) -> f64 {
        self.set.cost
    }
}

impl Model<'_> {
    /// Cost of a set that differs from `known` by the members `changed`. Only looks that these members bind are computed anew.
    fn set_of(&self, members: Vec<Rc<Member>>, known: &Set, changed: &[Rc<Member>]) -> Set {
        let all: Vec<&Member> = members.iter().map(Rc::as_ref).collect();
        let before: Vec<&Member> = known.members.iter().map(Rc::as_ref).collect();
        let only = match changed {
            [one] => Some(one.as_ref()),
            _ => None,
        };
        let of_looks = (0..self.looks().len()).map(|number| {
            match changed.iter().any(|member| member.binds[number]) {
                true => {
                    match only.and_then(|one| self.change_of_look(number, &before, &all, one)) {
                        Some(change) => known.of_looks[number] + change,
                        None => self.cost_of_look(number, &all),
                    }
                }
                false => known.of_looks[number],
            }
        });
        Set::new(of_looks.collect(), members)
    }

    /// Finds the cheapest set of faults.
    pub(super) fn explain(&self) -> Explanation {
        /// Both directions of a busy host: together they cost no more than one other fault.
        const FEW: usize = 2;
        let mut candidates = self.candidates();
        let mut set = self.search(&candidates, &[], FEW, f64::INFINITY);
        if set.price() > GROUPS_FROM || !self.fits(&set) {
            let groups = self.shared_candidates();
            let single = candidates.clone();
            candidates.extend(groups.iter().cloned());
            let with_groups = self.search(&candidates, &groups, MOST_FAULTS, f64::INFINITY);
            // A search step by step can add a group where several single faults explain better.
            let without = self.search(&single, &[], MOST_FAULTS, with_groups.cost);
            set = match with_groups.cost < without.cost {
                true => with_groups,
                false => without,
            };
        }
        let varying = set.members.iter().filter(|member| member.varies);
        let all = set.members.iter();
        Explanation {
            varying: varying.map(|member| member.fault.clone()).collect(),
            faults: all.map(|member| member.fault.clone()).collect(),
            set,
            candidates,
        }
    }

    /// Faults that explain the observations as well as one of the found faults: hosts cannot distinguish them.
    pub(super) fn rivals(&self, found: &Explanation, fault: &Fault) -> Vec<Fault> {
        let mut faults = found.faults.iter();
        let Some(at) = faults.position(|known| known == fault) else {
            return Vec::new();
        };
        let set = &found.set;
        let fewer = self.without(set, at);
        let mut rivals: Vec<Fault> = Vec::new();
        let wanted = found.candidates.iter().take_while(|_| !self.case.is_over());
        for rival in wanted.filter(|one| !set.has(&one.fault)) {
            // A higher price for a rarer fault does not make it a worse explanation.
            let dearer = (rival.price - set.members[at].price).max(0.0);
            let is_alike = self.with(&fewer, rival).cost - dearer <= set.cost + INSEPARABLE;
            if is_alike && !rivals.contains(&rival.fault) {
                rivals.push(rival.fault.clone());
            }
        }
        rivals
    }

    /// The cheapest set of at most `most` faults. Stops early if no set can become cheaper than `known`.
    fn search(
        &self,
        candidates: &[Rc<Member>],
        groups: &[Rc<Member>],
        most: usize,
        known: f64,
    ) -> Set {
        let mut set = Set::new(self.sound.clone(), Vec::new());
        while set.members.len() < most && !self.case.is_over() {
            let more = self.best_addition(&set, candidates, groups);
            let Some(more) = more.filter(|more| more.cost < set.cost) else {
                break;
            };
            // A further fault explains no more than the previous one did.
            let left = (most - set.members.len()) as f64;
            if set.cost - left * (set.cost - more.cost) > known {
                break;
            }
            set = self.improved(more, candidates);
        }
        set
    }

    /// True if no observation is far from what a set predicts.
    fn fits(&self, set: &Set) -> bool {
        let members: Vec<&Member> = set.members.iter().map(Rc::as_ref).collect();
        let mut looks = self.looks().iter().enumerate();
        looks.all(|(number, look)| {
            let predicted = self.predict(number, &members);
            let mut places = 0..look.expected.len();
            !look.tells_rates()
                || places.all(|place| {
                    let Some(share) = look.share_within(place) else {
                        return true;
                    };
                    let (foreseen, vague) = match &predicted {
                        Some(predicted) => (predicted.sums[place], predicted.vague[place]),
                        None => (look.expected[place], self.vague_of_sound[number][place]),
                    };
                    let off = share - foreseen / look.expected[place];
                    off.abs() <= FAR * deviation(look, place, vague)
                })
        })
    }

    fn with(&self, set: &Set, more: &Rc<Member>) -> Set {
        let mut members = set.members.clone();
        members.push(Rc::clone(more));
        self.set_of(members, set, std::slice::from_ref(more))
    }

    fn best_addition(
        &self,
        set: &Set,
        candidates: &[Rc<Member>],
        groups: &[Rc<Member>],
    ) -> Option<Set> {
        let wanted = || !self.case.is_over();
        let new = candidates.iter().take_while(|_| wanted());
        let new = new.filter(|one| !set.has(&one.fault));
        let tried = new.map(|one| self.with(set, one));
        let best = tried.min_by(|a, b| a.cost.total_cmp(&b.cost));
        // Groups are first guesses, worth a search if they explain about as much. A group that was ruled out can be close to the real one.
        let enough = best.as_ref().map_or(f64::INFINITY, |best| {
            best.of_looks.iter().sum::<f64>() + GUESS_WITHIN
        });
        let off = |one: &Rc<Member>| self.with(set, one).of_looks.iter().sum::<f64>();
        let mut guesses: Vec<(f64, &Fault)> = groups
            .iter()
            .take_while(|_| wanted())
            .filter(|one| matches!(one.fault, Fault::Shared { .. }))
            .map(|one| (off(one), &one.fault))
            .filter(|(off, _)| *off < enough)
            .collect();
        guesses.sort_by(|a, b| a.0.total_cmp(&b.0));
        let guesses = || {
            guesses
                .iter()
                .take(GUESSES)
                .map(|(_, fault)| (*fault).clone())
        };
        let one_way = guesses().map(|fault| self.grow(set, vec![fault]));
        // A link that joins two groups is often slow both ways.
        let both_ways = guesses().filter_map(|fault| {
            let back = reversed(&fault)?;
            Some(self.grow(set, vec![fault, back]))
        });
        let grown = one_way.chain(both_ways);
        best.into_iter()
            .chain(grown)
            .min_by(|a, b| a.cost.total_cmp(&b.cost))
    }

    /// Adds groups, then takes single ports into or out of them while that lowers the cost.
    fn grow(&self, set: &Set, guess: Vec<Fault>) -> Set {
        let ports = self.fabric.ports.len();
        let with = |faults: &[Fault]| {
            let member = |fault: &Fault| Rc::new(self.member(fault.clone(), false));
            let members: Vec<Rc<Member>> = faults.iter().map(member).collect();
            self.set_of([&set.members[..], &members].concat(), set, &members)
        };
        let (mut best, mut known) = (guess.clone(), with(&guess));
        if ports > FEW_PORTS {
            return known;
        }
        for _ in 0..ports {
            let next = neighbours(&best[0], ports)
                .into_iter()
                .filter_map(|one| match best.len() {
                    1 => Some(vec![one]),
                    _ => Some(vec![reversed(&one)?, one]),
                });
            let tried = next.take_while(|_| !self.case.is_over()).map(|faults| {
                let with = with(&faults);
                (faults, with)
            });
            match tried.min_by(|a, b| a.1.cost.total_cmp(&b.1.cost)) {
                Some((faults, cheaper)) if cheaper.cost < known.cost => {
                    (best, known) = (faults, cheaper);
                }
                _ => break,
            }
        }
        known
    }

    /// Removes needless members and swaps members for candidates while that lowers the cost.
    fn improved(&self, mut set: Set, candidates: &[Rc<Member>]) -> Set {
        /// Maximum product of members and candidates up to which swaps are tried.
        const MOST_TRIED: usize = 600;
        loop {
            let mut best: Option<Set> = None;
            let mut offer = |tried: Set| {
                if tried.cost < best.as_ref().map_or(set.cost, |known| known.cost) - 1e-9 {
                    best = Some(tried);
                }
            };
            let many = set.members.len();
            for at in (0..many).take_while(|_| !self.case.is_over()) {
                let fewer = self.without(&set, at);
                if many > 1 && many * candidates.len() <= MOST_TRIED {
                    for one in candidates.iter().filter(|one| !set.has(&one.fault)) {
                        offer(self.with(&fewer, one));
                    }
                }
                offer(fewer);
            }
            match best {
                Some(better) => set = better,
                None => return set,
            }
        }
    }

    fn without(&self, set: &Set, at: usize) -> Set {
        let mut members = set.members.clone();
        let out = members.remove(at);
        self.set_of(members, set, &[out])
    }

    /// Possible single faults: places that fall short, pairs that do with one link per port, and ports that do in both directions.
    fn candidates(&self) -> Vec<Rc<Member>> {
        let mut faults: Vec<Fault> = self.short_places();
        let pairs = self.short_pairs().into_iter().take(MOST_CANDIDATES);
        faults.extend(pairs.map(|(from, to)| Fault::Pair(from, to)));
        let sends = |port: usize| faults.contains(&Fault::Place(Place::Send(port)));
        let receives = |port: usize| faults.contains(&Fault::Place(Place::Receive(port)));
        let both = (0..self.fabric.ports.len()).filter(|port| sends(*port) && receives(*port));
        let both: Vec<Fault> = both.map(Fault::BothWays).collect();
        faults.extend(both);
        let mut single = Vec::new();
        for fault in faults {
            let may_vary = matches!(fault, Fault::Place(_));
            single.push(self.member(fault.clone(), false));
            if may_vary {
                single.push(self.member(fault, true));
            }
        }
        single.retain(|member| member.binds.contains(&true));
        single.into_iter().map(Rc::new).collect()
    }

    /// Possible shared faults. Empty unless several places fell short.
    fn shared_candidates(&self) -> Vec<Rc<Member>> {
        if self.short_places().len() < 2 {
            return Vec::new();
        }
        let all = self.groups().into_iter().chain(self.paths());
        all.map(|fault| Rc::new(self.member(fault, false)))
            .collect()
    }

    /// Places below their floor in any look, sorted by their deficit over all looks, the largest first.
    fn short_places(&self) -> Vec<Fault> {
        let missed = |number: usize| -> f64 {
            let telling = self.looks().iter().filter(|look| look.tells_rates());
            let short = telling.filter(|look| look.is_short(number));
            let shares = short.filter_map(|look| look.share(number));
            // `fold` starts from 0.0, because the sum of no values is -0.0.
            shares.fold(0.0, |sum, share| sum + (1.0 - share))
        };
        let all = (0..self.fabric.places()).map(|number| (number, missed(number)));
        let mut short: Vec<(usize, f64)> = all.filter(|(_, missed)| *missed > 0.0).collect();
        short.sort_by(|a, b| b.1.total_cmp(&a.1));
        let short = short.into_iter().take(MOST_CANDIDATES);
        short
            .map(|(number, _)| Fault::Place(self.fabric.place(number)))
            .collect()
    }

    /// Pairs that fell short in looks with one link per port, sorted by their deficit, the largest first.
    pub(super) fn short_pairs(&self) -> Vec<(usize, usize)> {
        let mut missed: BTreeMap<(usize, usize), f64> = BTreeMap::new();
        for look in self.looks().iter().filter(|look| look.tells_rates()) {
            for (pair, share) in short_links(self.fabric, look) {
                *missed.entry(pair).or_default() += 1.0 - share;
            }
        }
        let mut pairs: Vec<((usize, usize), f64)> = missed.into_iter().collect();
        pairs.sort_by(|a, b| b.1.total_cmp(&a.1));
        pairs.into_iter().map(|(pair, _)| pair).collect()
    }
}
