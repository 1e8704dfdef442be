//! Chart of rates over time, or over runs.

use maud::{Markup, html};

use crate::record::Live;
use crate::units::{Scale, show_age, show_rate};

/// Size of the picture. Its lines stretch with the page, so its labels stand beside it.
const WIDTH: f64 = 600.0;
const HEIGHT: f64 = 160.0;
/// Lines of the grid above zero. Each one and the line at zero have a quarter of the height around them, as their labels have.
const LINES: u64 = 3;

/// Axes of a chart: `across` is the value at its right edge.
struct Axes {
    across: f64,
    step: u64,
    scale: Scale,
}

impl Axes {
    /// Axes for rates of up to `most`, in bits per second.
    fn of(across: f64, most: u64) -> Self {
        let step = step(most);
        let scale = Scale::of((step * LINES) as f64);
        Self {
            across,
            step,
            scale,
        }
    }

    fn x(&self, value: f64) -> String {
        format!("{:.1}", value / self.across.max(1.0) * WIDTH)
    }

    fn y(&self, rate: u64) -> String {
        let steps = rate as f64 / self.step as f64;
        format!("{:.1}", HEIGHT * (7.0 / 8.0 - steps / 4.0))
    }

    /// The points of a line.
    fn points(&self, points: impl Iterator<Item = (f64, u64)>) -> String {
        let points = points.map(|(value, rate)| format!("{},{}", self.x(value), self.y(rate)));
        points.collect::<Vec<_>>().join(" ")
    }

    /// The chart around its lines. `below` are the texts under its left edge, its middle and its right edge.
    fn draw(&self, label: &str, lines: &Markup, below: [String; 3]) -> Markup {
        html! {
            div .chart {
                div .rates aria-hidden="true" {
                    @for line in (1..=LINES).rev() { span { (self.scale.show((self.step * line) as f64)) " " (self.scale.unit) } }
                    span { "0" }
                }
                svg #curve viewBox={ "0 0 " (WIDTH) " " (HEIGHT) } preserveAspectRatio="none" role="img" aria-label=(label) {
                    @for line in 0..=LINES { line .grid x1="0" x2=(WIDTH) y1=(self.y(self.step * line)) y2=(self.y(self.step * line)) {} }
                    (lines)
                }
                div .times aria-hidden="true" { @for text in below { span { (text) } } }
            }
        }
    }
}

/// Chart of the rate that all nodes received. `data_ms` is the planned time in which data flow.
pub(super) fn over_time(live: &Live, data_ms: Option<u64>) -> Markup {
    let rates = &live.course_bits_per_s;
    let passed_s = (rates.len() as u64).saturating_mul(live.stretch_s);
    let planned_s = data_ms.unwrap_or_default().div_ceil(1000);
    let all_s = planned_s.max(passed_s).max(1);
    let pairs = live.matrix_bits_per_s.iter().flatten().flatten().count() as u64;
    let expected = live.expected_pair_bits_per_s.filter(|_| pairs > 0);
    let expected = expected.map(|rate| rate.saturating_mul(pairs));
    let most = rates.iter().copied().max().unwrap_or_default();
    let axes = Axes::of(all_s as f64, most.max(expected.unwrap_or_default()));
    let ends = (1..).map(|point: u64| point.saturating_mul(live.stretch_s) as f64);
    let points = axes.points(ends.zip(rates.iter().copied()));
    let tests = live.began_s.iter().copied().filter(|began| *began > 0);
    let tests: Vec<u64> = tests.filter(|began| *began <= all_s).collect();
    let lines = html! {
        @for x in tests.iter().map(|began| axes.x(*began as f64)) { line .test x1=(x) x2=(x) y1="0" y2=(HEIGHT) {} }
        @if let Some(y) = expected.map(|rate| axes.y(rate)) { line .expected x1="0" x2=(WIDTH) y1=(y) y2=(y) {} }
        polyline points=(points) {}
    };
    let label = format!("rate over time, up to {}", show_rate(most as f64));
    let below = ["0 s".to_owned(), show_age(all_s / 2), show_age(all_s)];
    html! {
        h2 { "Rate" }
        (axes.draw(&label, &lines, below))
        p #scale .note {
            "Received by all nodes, over the time in which data flow: up to " (show_rate(most as f64)) " in " (show_age(passed_s)) "."
            @if !tests.is_empty() { " Upright lines: the next test begins." }
            @if let Some(rate) = expected { " Dashed line: expected, " (show_rate(rate as f64)) "." }
        }
    }
}

/// Chart of what a port sent and received in each run, oldest first. `ends` are the dates of the first and the last run.
pub(super) fn over_runs(runs: &[[Option<f64>; 2]], ends: [String; 2]) -> Markup {
    let most = runs.iter().flatten().flatten().copied().fold(0.0, f64::max);
    let axes = Axes::of(runs.len().saturating_sub(1) as f64, numbers::whole(most));
    let points = |way: usize| {
        let runs = runs.iter().enumerate();
        let measured =
            runs.filter_map(|(run, ways)| Some((run as f64, numbers::whole((*ways.get(way)?)?))));
        axes.points(measured)
    };
    let [first, last] = ends;
    let lines = html! {
        polyline points=(points(0)) {}
        polyline .receives points=(points(1)) {}
    };
    let label = format!("rates of {} runs, up to {}", runs.len(), show_rate(most));
    html! {
        (axes.draw(&label, &lines, [first, String::new(), last]))
        ul .legend { li .sends { "sends" } li .receives { "receives" } }
    }
}

/// Rate from one line of the grid to the next: a round figure, so that the chart seldom changes its scale.
fn step(most: u64) -> u64 {
    let least = most.div_ceil(LINES).max(1);
    let ten = 10_u64.saturating_pow(least.ilog10());
    let steps = [1, 2, 5, 10].map(|factor| ten.saturating_mul(factor));
    let step = steps.into_iter().find(|step| *step >= least);
    step.unwrap_or(least).min(u64::MAX / LINES)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn live() -> Live {
        Live {
            course_bits_per_s: vec![4_000_000_000, 8_400_000_000],
            stretch_s: 1,
            matrix_bits_per_s: vec![
                vec![None, Some(4_200_000_000)],
                vec![Some(4_200_000_000), None],
            ],
            ..Live::default()
        }
    }

    /// Symptom: five points stretched over the whole width, without ticks and times, and each second with another scale.
    #[test]
    fn a_chart_has_axes_and_its_points_stand_at_their_time() {
        let chart = over_time(&live(), Some(60_000)).into_string();
        // After 1 s and 2 s of 60 s; 8.4 of 15 Gbit/s.
        assert!(chart.contains("points=\"10.0,108.0 20.0,72.8\""), "{chart}");
        for label in [
            ">15.00 Gbit/s<",
            ">10.00 Gbit/s<",
            ">5.00 Gbit/s<",
            ">0<",
            ">30 s<",
            ">1 min 0 s<",
            "up to 8.40 Gbit/s in 2 s.",
        ] {
            assert!(chart.contains(label), "{label}: {chart}");
        }
        assert_eq!(chart.matches("class=\"grid\"").count(), 4, "{chart}");
        for absent in ["class=\"test\"", "class=\"expected\""] {
            assert!(!chart.contains(absent), "{absent}: {chart}");
        }
    }

    #[test]
    fn a_chart_shows_where_tests_begin_and_what_is_expected() {
        let live = Live {
            began_s: vec![0, 1],
            expected_pair_bits_per_s: Some(5_000_000_000),
            ..live()
        };
        let chart = over_time(&live, Some(60_000)).into_string();
        assert_eq!(chart.matches("class=\"test\"").count(), 1, "{chart}");
        assert!(chart.contains("x1=\"10.0\" x2=\"10.0\""), "{chart}");
        assert!(
            chart.contains("Dashed line: expected, 10.00 Gbit/s."),
            "{chart}"
        );
    }

    #[test]
    fn a_port_has_a_line_for_each_way_over_runs() {
        let runs = [
            [Some(10e9), Some(5e9)],
            [None, Some(5e9)],
            [Some(10e9), None],
        ];
        let ends = ["2026-11-01".to_owned(), "2026-11-26".to_owned()];
        let chart = over_runs(&runs, ends).into_string();
        // 10 and 5 of 15 Gbit/s, at the left edge, the middle and the right edge.
        assert!(chart.contains("points=\"0.0,60.0 600.0,60.0\""), "{chart}");
        assert!(
            chart.contains("points=\"0.0,100.0 300.0,100.0\""),
            "{chart}"
        );
        assert!(chart.contains(">2026-11-01<"), "{chart}");
    }

    #[test]
    fn lines_of_a_grid_are_round_and_above_the_highest_rate() {
        let steps = [0, 1, 3, 4, 9_999, 84_100_000, u64::MAX].map(step);
        assert_eq!(
            steps,
            [1, 1, 1, 2, 5_000, 50_000_000, u64::MAX / LINES],
            "{steps:?}"
        );
    }
}
