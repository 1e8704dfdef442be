//! Finds when a run became steady: five seconds in which no port's rate varied by more than 2 % or had a trend of more than 1 %. The state
//! must hold until the end: no later five-second mean of any port differs by more than 5 % from its mean in those seconds.

use std::collections::VecDeque;

const SECONDS: usize = 5;
/// Limit of the largest less the smallest rate, as a fraction of the mean.
const SPREAD: f64 = 0.02;
/// Limit of the rise or fall of the best-fit line over the five seconds, as a fraction of the mean.
const TREND: f64 = 0.01;

/// Limit of a port's later deviation, as a fraction of its mean when it was steady.
const HOLDS: f64 = 0.05;

/// Finds the first steady stretch that holds, second by second.
#[derive(Debug, Default)]
pub(crate) struct Steady {
    last: VecDeque<Vec<f64>>,
    seen: u64,
    /// Start of the steady stretch in seconds, and the mean rate of each port in it.
    since: Option<(u64, Vec<f64>)>,
}

impl Steady {
    /// Adds the rates of all ports over the next second.
    pub(crate) fn push(&mut self, rates: Vec<f64>) {
        self.seen += 1;
        self.last.push_back(rates);
        if self.last.len() > SECONDS {
            self.last.pop_front();
        }
        let ports = self.last[0].len();
        let column = |port: usize| -> Vec<f64> {
            self.last
                .iter()
                .map(|second| second.get(port).copied().unwrap_or(0.0))
                .collect()
        };
        if self.last.len() < SECONDS || ports == 0 {
            return;
        }
        let mean = |port: usize| column(port).iter().sum::<f64>() / SECONDS as f64;
        let holds = |carried: &[f64]| {
            let mut all = carried.iter().enumerate();
            all.all(|(port, then)| (mean(port) - then).abs() <= HOLDS * then)
        };
        let lasts = self
            .since
            .as_ref()
            .is_some_and(|(_, carried)| holds(carried));
        if !lasts {
            let is_steady = (0..ports).all(|port| is_steady(&column(port)));
            let since = || (self.seen - SECONDS as u64, (0..ports).map(mean).collect());
            self.since = is_steady.then(since);
        }
    }

    /// Seconds from the start until the run became steady, judged by the data so far.
    pub(crate) fn since_s(&self) -> Option<u64> {
        self.since.as_ref().map(|(second, _)| *second)
    }
}

fn is_steady(rates: &[f64]) -> bool {
    let count = rates.len() as f64;
    let mean = rates.iter().sum::<f64>() / count;
    if mean <= 0.0 {
        return rates.iter().all(|rate| *rate == 0.0);
    }
    let largest = rates.iter().copied().fold(f64::MIN, f64::max);
    let smallest = rates.iter().copied().fold(f64::MAX, f64::min);
    let middle = (count - 1.0) / 2.0;
    let along = |weight: fn(f64, f64) -> f64| -> f64 {
        let weighted = rates.iter().enumerate();
        weighted
            .map(|(at, rate)| weight(at as f64 - middle, *rate))
            .sum()
    };
    let slope = along(|at, rate| at * rate) / along(|at, _| at * at);
    (largest - smallest) / mean <= SPREAD && (slope * (count - 1.0)).abs() / mean <= TREND
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(seconds: &[&[f64]]) -> Option<u64> {
        let mut steady = Steady::default();
        seconds.iter().for_each(|rates| steady.push(rates.to_vec()));
        steady.since_s()
    }

    #[test]
    fn the_first_five_even_seconds_are_found() {
        let even: [&[f64]; 7] = [
            &[50.0, 99.0],
            &[90.0, 99.1],
            &[100.0, 99.0],
            &[100.5, 98.9],
            &[99.8, 99.0],
            &[100.2, 99.0],
            &[100.0, 99.0],
        ];
        assert_eq!(found(&even), Some(2));
        assert_eq!(found(&even[..6]), None);
    }

    #[test]
    fn a_port_that_falls_to_half_later_was_not_steady() {
        let mut seconds: Vec<Vec<f64>> = vec![vec![100.0, 100.0]; 17];
        let falls: Vec<Vec<f64>> = vec![vec![100.0, 50.0]; 4];
        seconds.extend(falls);
        let seconds: Vec<&[f64]> = seconds.iter().map(Vec::as_slice).collect();
        assert_eq!(found(&seconds[..17]), Some(0));
        assert_eq!(found(&seconds), None);
        // One second that is a little off does not count.
        let mut seconds: Vec<&[f64]> = vec![&[100.0]; 9];
        seconds[7] = &[96.0];
        assert_eq!(found(&seconds), Some(0));
    }

    #[test]
    fn a_slow_climb_and_one_restless_port_are_not_steady() {
        let climb: Vec<Vec<f64>> = (0..5).map(|at| vec![100.0 + f64::from(at) * 0.4]).collect();
        let climb: Vec<&[f64]> = climb.iter().map(Vec::as_slice).collect();
        assert_eq!(found(&climb), None);
        let restless: Vec<Vec<f64>> = (0..9)
            .map(|at| vec![100.0, 100.0 + f64::from(at % 2) * 3.0])
            .collect();
        let restless: Vec<&[f64]> = restless.iter().map(Vec::as_slice).collect();
        assert_eq!(found(&restless), None);
    }

    #[test]
    fn ports_without_traffic_do_not_stand_in_the_way() {
        assert_eq!(found(&[&[0.0, 7.0][..]; 5]), Some(0));
        assert_eq!(found(&[&[][..]; 9]), None);
    }
}
