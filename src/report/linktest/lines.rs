//! Lines in the format of LinkTest, so that existing readers of LinkTest's output read these. Bandwidths have binary units; a time has the unit that
//! fits it.

use crate::plan::job::Round;
use crate::plan::linktest::{Kernel, Linktest};
use crate::record::{PairTime, RoundProgress};

/// A time as LinkTest prints it: ten characters with five decimals, and a unit.
pub fn time(seconds: f64) -> String {
    let (figure, unit) = match seconds {
        _ if seconds < 1e-6 => (seconds * 1e9, "ns"),
        _ if seconds < 1e-3 => (seconds * 1e6, "us"),
        _ if seconds < 1.0 => (seconds * 1e3, "ms"),
        _ => (seconds, "s"),
    };
    format!("{figure:10.5} {unit}")
}

/// A bandwidth in bytes per second as LinkTest prints it: ten characters with four decimals, and a binary unit.
pub fn bandwidth(bytes_per_s: f64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut figure = bytes_per_s;
    let mut unit = 0;
    while figure >= 1024.0 && unit + 1 < UNITS.len() {
        figure /= 1024.0;
        unit += 1;
    }
    format!("{figure:10.4} {}/s", UNITS[unit])
}

/// A time and its bandwidth.
pub(super) fn both(seconds: f64, bytes_per_s: f64) -> String {
    format!("{} ({})", time(seconds), bandwidth(bytes_per_s))
}

/// The least, mean and greatest of times.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Extent {
    /// The least, in seconds.
    pub least_s: f64,
    /// The mean, in seconds.
    pub mean_s: f64,
    /// The greatest, in seconds.
    pub most_s: f64,
}

impl Extent {
    /// Computes the extent of times in seconds. Returns `None` without times.
    pub fn of(seconds: impl Iterator<Item = f64>) -> Option<Self> {
        let mut sums = Sums::default();
        seconds.for_each(|one| sums.count_in(one));
        sums.extent()
    }

    fn words(&self, rate: impl Fn(f64) -> f64) -> String {
        let show = |seconds: f64| both(seconds, rate(seconds));
        format!(
            "min: {} avg: {} max: {}",
            show(self.least_s),
            show(self.mean_s),
            show(self.most_s)
        )
    }
}

/// Bandwidth between the halves in bytes per second while all pairs of a step measure: the number of pairs times the mean bandwidth.
pub fn bisection_bandwidth(linktest: &Linktest, kernel: Kernel, times: &[PairTime]) -> f64 {
    let rate = |time: &PairTime| kernel.bandwidth(linktest.message_bytes, time.seconds);
    // Halved, because both directions of a pair were measured, one after the other.
    times.iter().map(rate).sum::<f64>() / 2.0
}

/// Running sums of the times of a round.
#[derive(Debug, Clone, Copy, Default)]
pub struct Sums {
    least_s: f64,
    most_s: f64,
    sum_s: f64,
    count: u64,
    /// Sum of the bandwidths of all links, in bytes per second.
    rates: f64,
}

impl Sums {
    /// Adds the times of a step.
    pub fn add(&mut self, linktest: &Linktest, times: &[PairTime]) {
        for time in times {
            self.count_in(time.seconds);
            let kernel = linktest.kernel;
            self.rates += kernel.bandwidth(linktest.message_bytes, time.seconds);
        }
    }

    fn count_in(&mut self, seconds: f64) {
        self.least_s = match self.count {
            0 => seconds,
            _ => self.least_s.min(seconds),
        };
        self.most_s = self.most_s.max(seconds);
        self.sum_s += seconds;
        self.count += 1;
    }

    fn extent(&self) -> Option<Extent> {
        (self.count > 0).then(|| Extent {
            least_s: self.least_s,
            mean_s: self.sum_s / self.count as f64,
            most_s: self.most_s,
        })
    }
}

/// The lines of a step. Empty for links that are measured again: those are in the summary.
pub fn step(
    linktest: &Linktest,
    progress: &RoundProgress,
    so_far: &Sums,
    times: &[PairTime],
) -> String {
    let Round::Whole { .. } = progress.round else {
        return String::new();
    };
    let kernel = linktest.kernel;
    let rate = |seconds| kernel.bandwidth(linktest.message_bytes, seconds);
    let now = Extent::of(times.iter().map(|time| time.seconds));
    let (Some(now), Some(all)) = (now, so_far.extent()) else {
        return String::new();
    };
    let across = |bytes_per_s: f64| match linktest.bisection && !linktest.serial {
        true => format!(" avg. bisection bw: {}", bandwidth(bytes_per_s)),
        false => String::new(),
    };
    let number = times.first().map_or(0, |time| time.step + 1);
    let kind = if linktest.serial {
        "Serial"
    } else {
        "Parallel"
    };
    let here = bisection_bandwidth(linktest, kernel, times);
    // Halved, because both directions of a pair were measured.
    let mean = so_far.rates / 2.0 / progress.ended.max(1) as f64;
    let elapsed_s = progress.elapsed_ns as f64 / 1e9;
    let per_step = elapsed_s / progress.ended.max(1) as f64;
    let left = progress.steps - progress.ended;
    let rest = time(per_step * left as f64);
    let others = linktest
        .rank_orders
        .max(1)
        .saturating_mul(linktest.min_iterations);
    let later = others.saturating_sub(progress.number + 1) as f64 * progress.steps as f64;
    let total = time(per_step * (left as f64 + later));
    format!(
        "{kind} Results for step {number}: {}{}\n\
         Aggregated Results: {}{}\n\
         Timing Summary: Elapsed time: {} ({}/step). Estimated time remaining for iteration: {rest} ({left} steps). \
         Estimated total time remaining: {total}\n",
        now.words(rate),
        across(here),
        all.words(rate),
        across(mean),
        time(elapsed_s),
        time(per_step),
    )
}

/// The three result lines that scripts search for.
pub fn result(linktest: &Linktest, extent: &Extent) -> String {
    let line = |name: &str, seconds: f64| {
        let rate = linktest.kernel.bandwidth(linktest.message_bytes, seconds);
        format!("RESULT: {name} Time: {}\n", both(seconds, rate))
    };
    line("Min", extent.least_s) + &line("Avg", extent.mean_s) + &line("Max", extent.most_s)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::linktest::tests::linktest;

    fn times(step: usize, seconds: &[f64]) -> Vec<PairTime> {
        let one = |seconds: &f64| PairTime {
            step,
            from: 0,
            to: 1,
            seconds: *seconds,
            spread: None,
            turn: 0,
            efforts: Default::default(),
        };
        seconds.iter().map(one).collect()
    }

    #[test]
    fn figures_are_printed_as_linktest_does() {
        // The sample line of the JUPITER benchmark: 128 KiB, both ways.
        let mut job = linktest();
        job.kernel = Kernel::Bidirectional;
        job.message_bytes = 128 << 10;
        job.bisection = true;
        let progress = RoundProgress {
            iteration: 0,
            number: 0,
            steps: 4,
            ended: 3,
            elapsed_ns: 24_526_180,
            round: Round::Whole {
                order: Vec::new(),
                step_seed: None,
            },
        };
        let now = times(2, &[11.64910e-6, 11.7e-6, 11.68455e-6, 11.77200e-6]);
        let mut sums = Sums::default();
        sums.add(&job, &now);
        let text = step(&job, &progress, &sums, &now);
        let lines: Vec<&str> = text.lines().collect();
        assert!(
            lines[0].starts_with(
                "Parallel Results for step 3: min:   11.64910 us (   20.9579 GiB/s) avg: "
            ),
            "{text}"
        );
        assert!(
            lines[0].contains("max:   11.77200 us (   20.7391 GiB/s) avg. bisection bw: "),
            "{text}"
        );
        assert_eq!(
            lines[2],
            "Timing Summary: Elapsed time:   24.52618 ms (   8.17539 ms/step). Estimated time remaining for iteration:    \
             8.17539 ms (1 steps). Estimated total time remaining:    8.17539 ms"
        );
    }

    #[test]
    fn a_bisections_bandwidth_is_that_of_its_pairs_together() {
        let mut job = linktest();
        (job.message_bytes, job.bisection) = (1000, true);
        // Two pairs, each measured from both ends.
        let all = times(0, &[1e-3, 1e-3, 2e-3, 2e-3]);
        let sum = bisection_bandwidth(&job, Kernel::Semidirectional, &all);
        assert!((sum - 1.5e6).abs() < 1e-6, "{sum}");
    }

    #[test]
    fn result_lines_are_those_that_scripts_match() {
        let extent = Extent::of([2e-3, 1e-3, 3e-3].into_iter()).unwrap();
        let mut job = linktest();
        job.message_bytes = 1 << 20;
        assert_eq!(
            result(&job, &extent),
            "RESULT: Min Time:    1.00000 ms ( 1000.0000 MiB/s)\n\
             RESULT: Avg Time:    2.00000 ms (  500.0000 MiB/s)\n\
             RESULT: Max Time:    3.00000 ms (  333.3333 MiB/s)\n"
        );
        assert_eq!(time(5e-7), " 500.00000 ns");
        assert_eq!(time(2.5), "   2.50000 s");
    }
}
