//! Evaluates measured round trips: values of cables with their errors, slow cables, and errors of the fabric's description.

use numbers::random::Random;

use super::detect::{self, Baseline, Misfit, Suspect, Undecidable};
use super::rows::Model;
use super::solve::{Combination, Equations, Solution};

/// All results of an analysis.
#[derive(Debug, Clone)]
pub struct Analysis {
    /// Equations of the measured pairs.
    pub equations: Equations,
    /// Values of the columns; `None` if the pairs were only meant to locate slow cables.
    pub solution: Option<Solution>,
    /// Standard error of each column's value; NaN if unknown.
    pub errors: Vec<f64>,
    /// Known combinations of the columns that are not identified.
    pub together: Vec<Combination>,
    /// Standard errors of these combinations; empty if the noise is unknown.
    pub together_errors: Vec<f64>,
    /// Cables that are slower than they should be.
    pub suspects: Vec<Suspect>,
    /// Classes that could not be judged, with the reason; empty with a baseline.
    pub undecidable: Vec<Undecidable>,
    /// Pairs that do not fit the description, if any.
    pub misfit: Option<Misfit>,
}

/// Options of an analysis.
#[derive(Debug, Clone, Copy)]
pub struct Question<'a> {
    /// Latencies of the cables in a healthy fabric.
    pub baseline: Option<Baseline<'a>>,
    /// Number of samples for each measured time.
    pub samples: usize,
    /// The pairs only distinguish slow cables; they need not determine values.
    pub locate: bool,
}

/// Number of random vectors that estimate the errors of large fabrics.
const SAMPLES: usize = 24;
/// With fewer samples than this, a single spike can decide.
pub(super) const FEW_SAMPLES: usize = 5;

/// Analyses the measured round trip of each pair, in any unit.
pub fn analyse(
    model: &Model<'_>,
    pairs: &[(u32, u32)],
    measured: &[f64],
    question: Question<'_>,
) -> Analysis {
    let equations = Equations::of(model, pairs);
    let few = question.samples < FEW_SAMPLES;
    if question.locate {
        let suspects = question.baseline.map(|baseline| {
            detect::against_baseline(model, &equations, measured, baseline, None, few)
        });
        return Analysis {
            errors: vec![f64::NAN; model.columns()],
            equations,
            solution: None,
            together: Vec::new(),
            together_errors: Vec::new(),
            suspects: suspects.unwrap_or_default(),
            undecidable: Vec::new(),
            misfit: None,
        };
    }
    let solution = equations.solve(measured, true);
    let weights: Vec<f64> = measured.iter().map(|time| time.powi(-2)).collect();
    let errors = match solution.sigma {
        Some(sigma) => {
            let parts = equations.amplification(&weights, SAMPLES, &mut Random::new(1));
            parts.iter().map(|part| part * sigma).collect()
        }
        None => vec![f64::NAN; model.columns()],
    };
    let together = equations.combinations(&solution.values);
    let together_errors = match solution.sigma.filter(|_| !together.is_empty()) {
        Some(sigma) => {
            let mut random = Random::new(2);
            let parts = equations.amplification_of(&together, &weights, SAMPLES, &mut random);
            parts.iter().map(|part| part * sigma).collect()
        }
        None => Vec::new(),
    };
    let (suspects, undecidable) = match question.baseline {
        Some(baseline) => {
            let spare = solution.sigma.is_some().then_some(&solution);
            let suspects =
                detect::against_baseline(model, &equations, measured, baseline, spare, few);
            // Noise can be a fraction of a pair's round trip or equal for all pairs. Equal noise says little about the pairs of a slow cable. The
            // smaller error counts.
            let same = solution.off.filter(|_| !suspects.is_empty()).map(|off| {
                let even = vec![1.0; measured.len()];
                let parts = equations.amplification(&even, SAMPLES, &mut Random::new(3));
                parts.iter().map(|part| part * off).collect::<Vec<f64>>()
            });
            let least = |(column, error): (usize, &f64)| {
                let same = same.as_ref().map_or(f64::INFINITY, |same| same[column]);
                error.min(same)
            };
            let errors: Vec<f64> = errors.iter().enumerate().map(least).collect();
            (certain(suspects, &solution, &errors, baseline), Vec::new())
        }
        None => detect::within_classes(model, &equations, &solution, &errors),
    };
    Analysis {
        together_errors,
        together,
        misfit: detect::misfit(model, &equations, &solution),
        equations,
        solution: Some(solution),
        errors,
        suspects,
        undecidable,
    }
}

/// Keeps suspects whose values confirm them, given the known errors of both runs: a baseline is a measurement, too.
fn certain(
    suspects: Vec<Suspect>,
    solution: &Solution,
    errors: &[f64],
    baseline: Baseline<'_>,
) -> Vec<Suspect> {
    /// The score searched all cables; this test looks at one.
    const DEVIATIONS: f64 = 2.5;
    let is_certain = |suspect: &Suspect| {
        let column = suspect.column as usize;
        let then = baseline.error_of(suspect.column);
        let (Some(then), true) = (then, errors[column].is_finite()) else {
            return true;
        };
        solution.values[column] - baseline.values[column] > DEVIATIONS * then.hypot(errors[column])
    };
    suspects.into_iter().filter(is_certain).collect()
}
