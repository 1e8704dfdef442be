//! Chart of the rate over the planned time of a run.

use maud::{Markup, html};

use crate::record::Live;
use crate::units::{Scale, show_age, show_rate};

/// Size of the picture. Its lines stretch with the page, so its labels stand beside it.
const WIDTH: f64 = 600.0;
const HEIGHT: f64 = 160.0;
/// Lines of the grid above zero. Each one and the line at zero have a quarter of the height around them, as their labels have.
const LINES: u64 = 3;

/// Chart of the rate that all nodes received. `data_ms` is the planned time in which data flow.
pub(super) fn chart(live: &Live, data_ms: Option<u64>) -> Markup {
    let rates = &live.course_bits_per_s;
    let passed_s = (rates.len() as u64).saturating_mul(live.stretch_s);
    let planned_s = data_ms.unwrap_or_default().div_ceil(1000);
    let all_s = planned_s.max(passed_s).max(1);
    let pairs = live.matrix_bits_per_s.iter().flatten().flatten().count() as u64;
    let expected = live.expected_pair_bits_per_s.filter(|_| pairs > 0);
    let expected = expected.map(|rate| rate.saturating_mul(pairs));
    let most = rates.iter().copied().max().unwrap_or_default();
    let step = step(most.max(expected.unwrap_or_default()));
    let scale = Scale::of((step * LINES) as f64);
    let x = |seconds: u64| format!("{:.1}", seconds as f64 / all_s as f64 * WIDTH);
    let y = |rate: u64| {
        let steps = rate as f64 / step as f64;
        format!("{:.1}", HEIGHT * (7.0 / 8.0 - steps / 4.0))
    };
    let ends = (1..).map(|point: u64| point.saturating_mul(live.stretch_s));
    let points = ends.zip(rates);
    let points: Vec<String> = points
        .map(|(end, rate)| format!("{},{}", x(end), y(*rate)))
        .collect();
    let tests = live.began_s.iter().copied().filter(|began| *began > 0);
    let tests: Vec<u64> = tests.filter(|began| *began <= all_s).collect();
    html! {
        h2 { "Rate" }
        div .chart {
            div .rates aria-hidden="true" {
                @for line in (1..=LINES).rev() { span { (scale.show((step * line) as f64)) " " (scale.unit) } }
                span { "0" }
            }
            svg #course viewBox={ "0 0 " (WIDTH) " " (HEIGHT) } preserveAspectRatio="none" role="img"
                aria-label={ "rate over time, up to " (show_rate(most as f64)) } {
                @for line in 0..=LINES { line .grid x1="0" x2=(WIDTH) y1=(y(step * line)) y2=(y(step * line)) {} }
                @for began in &tests { line .test x1=(x(*began)) x2=(x(*began)) y1="0" y2=(HEIGHT) {} }
                @if let Some(rate) = expected { line .expected x1="0" x2=(WIDTH) y1=(y(rate)) y2=(y(rate)) {} }
                polyline points=(points.join(" ")) {}
            }
            div .times aria-hidden="true" {
                span { "0 s" } span { (show_age(all_s / 2)) } span { (show_age(all_s)) }
            }
        }
        p #scale .note {
            "Received by all nodes, over the time in which data flow: up to " (show_rate(most as f64)) " in " (show_age(passed_s)) "."
            @if !tests.is_empty() { " Upright lines: the next test begins." }
            @if let Some(rate) = expected { " Dashed line: expected, " (show_rate(rate as f64)) "." }
        }
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
        let chart = chart(&live(), Some(60_000)).into_string();
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
        let chart = chart(&live, Some(60_000)).into_string();
        assert_eq!(chart.matches("class=\"test\"").count(), 1, "{chart}");
        assert!(chart.contains("x1=\"10.0\" x2=\"10.0\""), "{chart}");
        assert!(
            chart.contains("Dashed line: expected, 10.00 Gbit/s."),
            "{chart}"
        );
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
