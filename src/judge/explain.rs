//! Blame: the cheapest set of faults whose filled rates explain what was seen at every place, in every test.
//!
//! A slow port takes innocent ones down with it, so what is below its floor is a suspect and no more. Sets are searched one fault more or
//! less at a time, as Flock does (CoNEXT 2023); the cheapest one is blamed.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use super::fabric::Place;
use super::fault::Fault;
use super::guesses::{FEW_PORTS, is_group, neighbours, reversed, short_links};
use super::predict::{Member, Model, deviation};

/// Candidates of each sort that are tried, those that missed most first.
const MOST_CANDIDATES: usize = 64;
/// Sets do not grow beyond this.
const MOST_FAULTS: usize = 32;
/// Groups that are searched for from the best of so many first guesses.
const GUESSES: usize = 6;
/// A first guess explains about as much as another fault if it is no worse by this.
const AS_MUCH: f64 = 10.0;
/// What explains nearly as well cannot be told apart.
const ALIKE: f64 = 3.0;

/// Faults with what they cost.
#[derive(Debug, Clone)]
struct Set {
    members: Vec<Rc<Member>>,
    of_looks: Vec<f64>,
    /// Of all looks, with the prices.
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

/// What explains what was seen.
#[derive(Debug, Clone)]
pub(super) struct Explanation {
    pub(super) faults: Vec<Fault>,
    /// Those of them that come and go.
    pub(super) varying: BTreeSet<Fault>,
    set: Set,
    candidates: Vec<Rc<Member>>,
}

impl Explanation {
    /// How unlikely it is that this was seen, and the prices of its faults.
    pub(super) fn cost(&self) -> f64 {
        self.set.cost
    }
}

impl Model<'_> {
    /// What a set costs, when only looks that `changed` has a say in differ from what was known.
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

    /// The cheapest set of faults.
    pub(super) fn explain(&self) -> Explanation {
        /// Neither direction of a busy host is dearer than one fault.
        const FEW: usize = 2;
        const ONE: f64 = 6.0;
        let mut candidates = self.candidates();
        let mut set = self.search(&candidates, &[], FEW, f64::INFINITY);
        if set.price() > ONE || !self.fits(&set) {
            let groups = self.shared_candidates();
            let single = candidates.clone();
            candidates.extend(groups.iter().cloned());
            let with_groups = self.search(&candidates, &groups, MOST_FAULTS, f64::INFINITY);
            // Step by step, a group may come in that several faults explain better.
            let without = self.search(&single, &[], MOST_FAULTS, with_groups.cost);
            set = match with_groups.cost < without.cost {
                true => with_groups,
                false => without,
            };
        }
        let varying = set.members.iter().filter(|member| member.varies);
        Explanation {
            varying: varying.map(|member| member.fault.clone()).collect(),
            faults: set
                .members
                .iter()
                .map(|member| member.fault.clone())
                .collect(),
            set,
            candidates,
        }
    }

    /// What explains what was seen as well as one of the faults that were found: hosts cannot tell these apart.
    pub(super) fn rivals(&self, found: &Explanation, fault: &Fault) -> Vec<Fault> {
        let at = found.faults.iter().position(|known| known == fault);
        at.map_or_else(Vec::new, |at| {
            self.rivals_of(&found.set, at, &found.candidates)
        })
    }

    /// The cheapest set of at most so many faults, or any if none can be cheaper than `known`.
    fn search(
        &self,
        candidates: &[Rc<Member>],
        groups: &[Rc<Member>],
        most: usize,
        known: f64,
    ) -> Set {
        let mut set = Set::new(self.sound.clone(), Vec::new());
        while set.members.len() < most {
            let more = self.best_addition(&set, candidates, groups);
            let Some(more) = more.filter(|more| more.cost < set.cost) else {
                break;
            };
            // Another fault explains no more than the one before did.
            let left = (most - set.members.len()) as f64;
            if set.cost - left * (set.cost - more.cost) > known {
                break;
            }
            set = self.improved(more, candidates);
        }
        set
    }

    /// Whether nothing that was seen is far from what a set predicts.
    fn fits(&self, set: &Set) -> bool {
        /// In standard deviations.
        const FAR: f64 = 3.5;
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
        let new = candidates.iter().filter(|one| !set.has(&one.fault));
        let tried = new.map(|one| self.with(set, one));
        let best = tried.min_by(|a, b| a.cost.total_cmp(&b.cost));
        // Groups are first guesses, and worth a search if they explain about as much. What was ruled out may be near to what it is.
        let enough = best.as_ref().map_or(f64::INFINITY, |best| {
            best.of_looks.iter().sum::<f64>() + AS_MUCH
        });
        let off = |one: &Member| -> f64 {
            let with = self.with(set, &Rc::new(one.clone()));
            with.of_looks.iter().sum()
        };
        let mut guesses: Vec<(f64, &Fault)> = groups
            .iter()
            .filter(|one| is_group(&one.fault))
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
        // What joins two groups often is slow both ways.
        let both_ways = guesses().filter_map(|fault| {
            let back = reversed(&fault)?;
            Some(self.grow(set, vec![fault, back]))
        });
        let grown = one_way.chain(both_ways);
        best.into_iter()
            .chain(grown)
            .min_by(|a, b| a.cost.total_cmp(&b.cost))
    }

    /// Adds groups; takes single ports into them or out of them for as long as that is cheaper.
    fn grow(&self, set: &Set, guess: Vec<Fault>) -> Set {
        let ports = self.fabric.ports.len();
        let with = |faults: &[Fault]| {
            let members = faults
                .iter()
                .map(|fault| Rc::new(self.member(fault.clone(), false)));
            let members: Vec<Rc<Member>> = members.collect();
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
            let tried = next.map(|faults| {
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

    /// Takes out what turned out to be needless, and puts others in the place of members, for as long as that is cheaper.
    fn improved(&self, mut set: Set, candidates: &[Rc<Member>]) -> Set {
        /// Swaps in larger sets are not tried.
        const MOST_TRIED: usize = 600;
        loop {
            let mut best: Option<Set> = None;
            let mut offer = |tried: Set| {
                if tried.cost < best.as_ref().map_or(set.cost, |known| known.cost) - 1e-9 {
                    best = Some(tried);
                }
            };
            let many = set.members.len();
            for at in 0..many {
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

    fn rivals_of(&self, set: &Set, at: usize, candidates: &[Rc<Member>]) -> Vec<Fault> {
        let fewer = self.without(set, at);
        let mut rivals: Vec<Fault> = Vec::new();
        for rival in candidates.iter().filter(|one| !set.has(&one.fault)) {
            // That a fault is rarer makes it no worse an explanation.
            let dearer = (rival.price - set.members[at].price).max(0.0);
            let is_alike = self.with(&fewer, rival).cost - dearer <= set.cost + ALIKE;
            if is_alike && !rivals.contains(&rival.fault) {
                rivals.push(rival.fault.clone());
            }
        }
        rivals
    }

    /// What may be at fault: places that fall short, pairs that do where ports carry one link each, hosts whose ports do in both directions.
    fn candidates(&self) -> Vec<Rc<Member>> {
        let mut faults: Vec<Fault> = self.short_places();
        let pairs = self.short_pairs();
        faults.extend(
            pairs
                .iter()
                .take(MOST_CANDIDATES)
                .map(|pair| Fault::Pair(pair.0, pair.1)),
        );
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
        single.retain(Member::is_felt);
        single.into_iter().map(Rc::new).collect()
    }

    /// What several links may share, if more than one place fell short.
    fn shared_candidates(&self) -> Vec<Rc<Member>> {
        if self.short_places().len() < 2 {
            return Vec::new();
        }
        let all = self.groups().into_iter().chain(self.paths());
        all.map(|fault| Rc::new(self.member(fault, false)))
            .collect()
    }

    /// Places below their floor in any look, those that missed most first, all looks together.
    fn short_places(&self) -> Vec<Fault> {
        let missed = |number: usize| -> f64 {
            let telling = self.looks().iter().filter(|look| look.tells_rates());
            let short = telling.filter(|look| look.is_short(number));
            let shares = short.filter_map(|look| look.share(number));
            // From zero: the sum of nothing would be its negative.
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

    /// Pairs that fell short where each port had one link, those that missed most first.
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
