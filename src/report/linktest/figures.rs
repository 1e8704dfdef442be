//! Figures of a link test that several reports share.

use std::collections::{BTreeMap, BTreeSet};

use crate::plan::linktest::Linktest;
use crate::record::{LinktestRecord, PairTime, Record, RetestRecord, RoundRecord};
use numbers::spread;

use super::lines::{self, Extent};

/// A link test of a record, with its plan.
pub struct Figures<'a> {
    /// The plan of the link test.
    pub plan: &'a Linktest,
    /// The measurements.
    pub job: &'a LinktestRecord,
    /// Labels of the ranks' nodes, by rank.
    pub names: Vec<String>,
    /// Every measured link, in the order of ranks.
    pub links: Vec<Link<'a>>,
}

/// A link in one direction, over all rounds.
pub struct Link<'a> {
    /// Rank that started.
    pub from: usize,
    /// Its partner.
    pub to: usize,
    /// Mean of the rounds, in seconds per message.
    pub mean_s: f64,
    /// Its times, round by round.
    pub times: Vec<&'a PairTime>,
}

impl<'a> Figures<'a> {
    /// Collects the figures of a link test.
    pub fn of(record: &'a Record, plan: &'a Linktest, job: &'a LinktestRecord) -> Self {
        let ranks = job.ranks.len();
        let mut table: BTreeMap<(usize, usize), Vec<&PairTime>> = BTreeMap::new();
        let times = job.rounds.iter().flat_map(|round| &round.times);
        for time in times.filter(|time| time.from < ranks && time.to < ranks) {
            table.entry((time.from, time.to)).or_default().push(time);
        }
        let link = |((from, to), times): ((usize, usize), Vec<&'a PairTime>)| {
            let sum: f64 = times.iter().map(|time| time.seconds).sum();
            Link {
                from,
                to,
                mean_s: sum / times.len() as f64,
                times,
            }
        };
        let nodes = &record.plan.nodes;
        let label = |node: usize| nodes.get(node).map_or("", |one| one.label.as_str());
        Self {
            plan,
            job,
            names: job
                .ranks
                .iter()
                .map(|rank| label(rank.node).to_owned())
                .collect(),
            links: table.into_iter().map(link).collect(),
        }
    }

    /// Label of a rank's node.
    pub(crate) fn name(&self, rank: usize) -> &str {
        self.names.get(rank).map_or("", String::as_str)
    }

    /// A rank and its node, as text.
    pub fn rank(&self, rank: usize) -> String {
        match self.names.get(rank) {
            Some(name) => format!("rank {rank} ({name})"),
            None => format!("rank {rank}"),
        }
    }

    /// A time per message with its bandwidth, as LinkTest prints them.
    pub(crate) fn both(&self, seconds: f64) -> String {
        lines::both(seconds, self.bandwidth(seconds))
    }

    /// Bandwidth in bytes per second at `seconds` per message.
    pub fn bandwidth(&self, seconds: f64) -> f64 {
        self.plan.kernel.bandwidth(self.plan.message_bytes, seconds)
    }

    /// Least, mean and greatest time of all links in all rounds.
    pub fn extent(&self) -> Option<Extent> {
        Extent::of(self.all().map(|time| time.seconds))
    }

    /// Every time of every round.
    pub fn all(&self) -> impl Iterator<Item = &'a PairTime> {
        self.job.rounds.iter().flat_map(|round| &round.times)
    }

    /// Mean times of the links, in seconds.
    pub fn means(&self) -> Vec<f64> {
        self.links.iter().map(|link| link.mean_s).collect()
    }

    /// The link with the longest mean time.
    pub fn slowest(&self) -> Option<&Link<'a>> {
        let links = self.links.iter();
        links.reduce(|worst, link| match link.mean_s > worst.mean_s {
            true => link,
            false => worst,
        })
    }

    /// The mean time of a link in seconds, if it was measured.
    pub fn mean_of(&self, from: usize, to: usize) -> Option<f64> {
        let ends = |link: &Link<'_>| (link.from, link.to);
        let place = self.links.binary_search_by_key(&(from, to), ends).ok()?;
        Some(self.links[place].mean_s)
    }

    /// All retests of all rounds, sorted by the time among others, slowest first.
    pub fn retests(&self) -> Vec<&'a RetestRecord> {
        let rounds = self.job.rounds.iter();
        let mut all: Vec<&RetestRecord> = rounds.flat_map(|round| &round.retests).collect();
        all.sort_by(|a, b| b.old_s.total_cmp(&a.old_s));
        all
    }

    /// Least, mean and greatest time of a message from each rank to all others, over ranks and rounds.
    pub fn all_to_all(&self) -> Option<Extent> {
        let rounds = self.job.rounds.iter();
        let all = rounds.flat_map(|round| round.all_to_all_s.iter().flatten());
        Extent::of(all.copied())
    }

    /// Speedup of all to all: time of the same messages step by step, each direction of a pair alone, divided by the time of all to all. Returns
    /// `None` for a bisection, which does not measure all pairs, and for a serial test.
    pub fn all_to_all_gain(&self) -> Option<f64> {
        let round = self
            .job
            .rounds
            .iter()
            .find(|one| one.all_to_all_s.is_some())?;
        if self.plan.bisection || self.plan.serial {
            return None;
        }
        let mut slowest: BTreeMap<(usize, usize), f64> = BTreeMap::new();
        for time in &round.times {
            let known = slowest.entry((time.step, time.turn)).or_default();
            *known = known.max(time.seconds);
        }
        let steps: f64 = slowest.values().sum();
        let all = self.all_to_all()?.most_s;
        (all > 0.0).then(|| steps / all)
    }

    /// Bandwidth between the halves in bytes per second, the mean of all steps. Returns `None` unless the test is a bisection that is not serial.
    pub fn bisection(&self) -> Option<f64> {
        if !self.plan.bisection || self.plan.serial {
            return None;
        }
        // In an aborted round, only the measured steps count.
        let measured = |round: &RoundRecord| -> usize {
            let steps: BTreeSet<usize> = round.times.iter().map(|time| time.step).collect();
            steps.len()
        };
        let steps: usize = self.job.rounds.iter().map(measured).sum();
        let rates: f64 = self.all().map(|time| self.bandwidth(time.seconds)).sum();
        (steps > 0).then(|| rates / 2.0 / steps as f64)
    }

    /// Number of steps of all rounds.
    pub fn steps(&self) -> usize {
        let rounds = self.job.rounds.iter();
        rounds.fold(0, |sum: usize, round| sum.saturating_add(round.steps))
    }

    /// Histogram of the mean times of links: `bins` bins of equal width between the fastest and the slowest link, each with its upper bound in
    /// seconds and its number of links.
    pub fn histogram(&self, bins: usize) -> Vec<(f64, usize)> {
        let means = self.means();
        let least = means.iter().copied().fold(f64::INFINITY, f64::min);
        let most = means.iter().copied().fold(0.0, f64::max);
        if means.is_empty() || bins == 0 {
            return Vec::new();
        }
        let width = (most - least) / bins as f64;
        let mut all: Vec<(f64, usize)> = (0..bins)
            .map(|bin| (least + width * (bin + 1) as f64, 0))
            .collect();
        for mean in means {
            let place = all.iter().position(|(upper, _)| mean <= *upper);
            all[place.unwrap_or(bins - 1)].1 += 1;
        }
        all
    }

    /// The mean time in seconds below which `percent` percent of the links lie; `None` with fewer than 20 links.
    pub fn percentile(&self, percent: f64) -> Option<f64> {
        spread::percentile(&self.means(), percent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Measured, Outcome};

    #[test]
    fn the_worst_link_is_first_whichever_round_measured_it() {
        let text = include_str!("../../../tests/golden/linktest/record.json");
        let mut record: Record = serde_json::from_str(text).unwrap();
        let Outcome::Linktest(linktest) = &mut record.outcome else {
            panic!("a link test");
        };
        let rounds = &mut linktest.rounds;
        let mut second = rounds[0].clone();
        second.retests.truncate(1);
        second.retests[0].old_s *= 2.0;
        let worst = second.retests[0].old_s;
        rounds.push(second);
        let Measured::Linktest(plan, linktest) = record.measured() else {
            panic!("a link test");
        };
        let figures = Figures::of(&record, plan, linktest);
        let old: Vec<f64> = figures.retests().iter().map(|one| one.old_s).collect();
        assert!(old.is_sorted_by(|a, b| a >= b), "{old:?}");
        assert_eq!(old.first(), Some(&worst));
    }
}
