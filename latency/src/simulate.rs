//! Simulates fabrics and evaluates a plan on them: cables with random latencies, samples with noise and spikes, slowed cables.

use std::collections::BTreeMap;

use numbers::random::Random;
use numbers::spread::median;

use super::analysis::FEW_SAMPLES;
use super::detect;
use super::fabric::{Fabric, number};
use super::planning::Plan;
use super::rows::{Model, Room};
use super::solve::Equations;

/// Parameters of a simulation.
#[derive(Debug, Clone, PartialEq)]
pub struct Setting {
    /// Latency of a cable of each class, in any unit. The last one applies to all further classes.
    pub latency: Vec<f64>,
    /// Largest deviation of a cable from the latency of its class, as a fraction.
    pub spread: f64,
    /// Standard deviation of a sample, as a fraction of the round trip.
    pub noise: f64,
    /// Probability that a sample has a spike.
    pub spikes: f64,
    /// Mean of a spike (exponential), as a fraction of the round trip.
    pub spike: f64,
    /// Number of samples of a pair; their median counts.
    pub samples: usize,
    /// Extra latency of a slowed cable, as a fraction of its latency.
    pub slower: f64,
    /// Number of cables that are slowed down at the same time.
    pub slowed: usize,
    /// Number of trials of accuracy.
    pub trials: usize,
    /// Number of trials of detection, for each class.
    pub detection_trials: usize,
    /// Seed of the random numbers.
    pub seed: u64,
}

impl Default for Setting {
    fn default() -> Self {
        Self {
            latency: vec![400.0, 150.0, 250.0],
            spread: 0.02,
            noise: 0.01,
            spikes: 0.02,
            spike: 0.5,
            samples: 11,
            slower: 0.2,
            slowed: 1,
            trials: 20,
            detection_trials: 20,
            seed: 1,
        }
    }
}

/// Accuracy of predictions.
#[derive(Debug, Clone, PartialEq)]
pub struct Accuracy {
    /// Root mean square error of all pairs, as a fraction of the true round trip.
    pub pairs: f64,
    /// Largest error of a pair, as a fraction of the true round trip.
    pub worst: f64,
    /// Root mean square error of the identified cables of each class, as a fraction of the true latency; NaN for a class without any.
    pub classes: Vec<f64>,
}

/// Numbers of trials in which slowed cables were found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Detection {
    /// Number of trials.
    pub trials: usize,
    /// Trials that named exactly the slowed cables, against a baseline.
    pub against_baseline: usize,
    /// Trials that named any other cable, against a baseline.
    pub wrong: usize,
    /// Trials that named exactly the slowed cables, within their classes.
    pub within_class: usize,
    /// Trials that named any other cable, within classes.
    pub wrong_within: usize,
}

/// A fabric with known latencies.
pub struct Simulation<'a> {
    model: Model<'a>,
    equations: Equations,
    setting: &'a Setting,
    random: Random,
}

impl<'a> Simulation<'a> {
    /// Prepares the simulation of a plan.
    pub fn new(fabric: &'a Fabric, plan: &Plan, setting: &'a Setting) -> Self {
        let model = plan.model(fabric);
        Self {
            equations: Equations::of(&model, &plan.pairs()),
            model,
            setting,
            random: Random::new(setting.seed),
        }
    }

    /// Draws a latency for each column.
    pub fn draw(&mut self) -> Vec<f64> {
        let mut all = vec![0.0; self.model.columns()];
        let spread = self.setting.spread;
        for cable in 0..number(self.model.fabric.cables.len()) {
            let class = usize::from(self.model.fabric.cables[cable as usize].class);
            let latency = &self.setting.latency;
            let usual = latency
                .get(class)
                .or(latency.last())
                .copied()
                .unwrap_or(1.0);
            let value = usual * (1.0 + spread * (2.0 * self.random.unit() - 1.0));
            for direction in 0..2 {
                let column = self.model.column_of(2 * cable + direction);
                all[column as usize] = value;
            }
        }
        all
    }

    /// Simulates the measured round trip of each of the plan's pairs, in the unit of `truth`.
    pub fn measure(&mut self, truth: &[f64]) -> Vec<f64> {
        let setting = self.setting;
        let mut samples = vec![0.0; setting.samples.max(1)];
        (0..self.equations.pairs().len())
            .map(|row| {
                let time = self.equations.sum(row, truth);
                for sample in &mut samples {
                    *sample = time * (1.0 + setting.noise * self.random.normal());
                    if self.random.unit() < setting.spikes {
                        *sample += time * setting.spike * self.random.exponential();
                    }
                }
                median(&mut samples)
            })
            .collect()
    }

    /// Simulates one trial. Returns, for each column, the true latency, the calculated one, and whether it is identified.
    pub fn once(&mut self) -> (Vec<f64>, Vec<f64>, Vec<bool>) {
        let truth = self.draw();
        let measured = self.measure(&truth);
        let values = self.equations.solve(&measured, true).values;
        let columns = 0..number(self.model.columns());
        let identified = columns
            .map(|column| self.equations.is_identified(column))
            .collect();
        (truth, values, identified)
    }

    /// Compares predicted with true round trips of all pairs.
    pub fn accuracy(&mut self) -> Accuracy {
        let fabric = self.model.fabric;
        let (mut sum, mut worst, mut count) = (0.0, 0.0_f64, 0_u64);
        let mut classes: Vec<(f64, usize)> = vec![(0.0, 0); fabric.classes.len()];
        for _ in 0..self.setting.trials.max(1) {
            let truth = self.draw();
            let measured = self.measure(&truth);
            let solution = self.equations.solve(&measured, true);
            let (mut room, mut row) = (Room::default(), Vec::new());
            let mut off = |from: u32, to: u32| {
                self.model.row(from, to, &mut room, &mut row);
                let of = |values: &[f64]| -> f64 {
                    row.iter()
                        .map(|(column, times)| f64::from(*times) * values[*column as usize])
                        .sum()
                };
                let error = of(&solution.values) / of(&truth) - 1.0;
                sum += error * error;
                worst = worst.max(error.abs());
                count += 1;
            };
            // Compare all pairs of a small fabric, and a million of a large one.
            const MOST: u64 = 1_000_000;
            let hosts = fabric.hosts.len();
            if fabric.pairs() <= MOST {
                for from in 0..number(hosts) {
                    for to in from + 1..number(hosts) {
                        off(from, to);
                    }
                }
            } else {
                for _ in 0..MOST {
                    let from = self.random.below(hosts);
                    let to = (from + 1 + self.random.below(hosts - 1)) % hosts;
                    off(number(from), number(to));
                }
            }
            for column in 0..number(self.model.columns()) {
                if self.equations.is_identified(column) {
                    let class = &mut classes
                        [usize::from(fabric.cables[self.model.cable_of(column) as usize].class)];
                    let error = solution.values[column as usize] / truth[column as usize] - 1.0;
                    class.0 += error * error;
                    class.1 += 1;
                }
            }
        }
        Accuracy {
            pairs: (sum / count.max(1) as f64).sqrt(),
            worst,
            classes: classes
                .iter()
                .map(|(sum, count)| (sum / *count as f64).sqrt())
                .collect(),
        }
    }

    /// Slows down cables of each class and counts how often they are named. A plan to `locate` is compared with a baseline only.
    pub fn detection(&mut self, locate: bool) -> BTreeMap<u16, Detection> {
        let classes = u16::try_from(self.model.fabric.classes.len()).unwrap_or(u16::MAX);
        let amplification = match locate {
            true => Vec::new(),
            false => {
                // Noise of values relative to that of pairs: the same in all trials.
                let truth = self.draw();
                let rows = 0..self.equations.pairs().len();
                let weights: Vec<f64> = rows
                    .map(|row| self.equations.sum(row, &truth).powi(-2))
                    .collect();
                self.equations
                    .amplification(&weights, 8, &mut Random::new(self.setting.seed))
            }
        };
        let mut all = BTreeMap::new();
        for class in 0..classes {
            let mut found = Detection::default();
            for _ in 0..self.setting.detection_trials {
                self.detect_once(class, &amplification, locate, &mut found);
            }
            all.insert(class, found);
        }
        all
    }

    fn detect_once(
        &mut self,
        class: u16,
        amplification: &[f64],
        locate: bool,
        found: &mut Detection,
    ) {
        let fabric = self.model.fabric;
        let is_member = |column: &u32| {
            let cable = &fabric.cables[self.model.cable_of(*column) as usize];
            cable.class == class && self.equations.is_used(*column)
        };
        let members: Vec<u32> = (0..number(self.model.columns()))
            .filter(is_member)
            .collect();
        let healthy = self.draw();
        let mut truth = healthy.clone();
        let mut slowed: Vec<u32> = Vec::new();
        while slowed.len() < self.setting.slowed.min(members.len()) {
            let column = members[self.random.below(members.len())];
            if !slowed.contains(&column) {
                slowed.push(column);
                truth[column as usize] *= 1.0 + self.setting.slower;
            }
        }
        slowed.sort_unstable();
        let named = |suspects: &[detect::Suspect]| {
            let mut named: Vec<u32> = suspects.iter().map(|suspect| suspect.column).collect();
            named.sort_unstable();
            (
                named == slowed,
                named.iter().any(|column| !slowed.contains(column)),
            )
        };
        let few = self.setting.samples < FEW_SAMPLES;
        let measured = self.measure(&truth);
        let solution = (!locate).then(|| self.equations.solve(&measured, true));
        let spare = solution
            .as_ref()
            .filter(|solution| solution.sigma.is_some());
        let suspects = detect::against_baseline(
            &self.model,
            &self.equations,
            &measured,
            detect::Baseline {
                values: &healthy,
                errors: &[],
            },
            spare,
            few,
        );
        let (exactly, others) = named(&suspects);
        found.trials += 1;
        found.against_baseline += usize::from(exactly);
        found.wrong += usize::from(others);
        let Some(solution) = solution else { return };
        let sigma = solution.sigma.unwrap_or(0.0);
        let errors: Vec<f64> = amplification.iter().map(|part| part * sigma).collect();
        let (suspects, _) =
            detect::within_classes(&self.model, &self.equations, &solution, &errors);
        let (exactly, others) = named(&suspects);
        found.within_class += usize::from(exactly);
        found.wrong_within += usize::from(others);
    }
}
