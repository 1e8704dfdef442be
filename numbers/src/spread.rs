//! Spread of figures of one kind: reports describe it and never judge by it.

/// Description of a set of figures.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread {
    /// Number of figures.
    pub count: usize,
    /// Smallest figure.
    pub least: f64,
    /// Middle figure, or the mean of the two in the middle.
    pub median: f64,
    /// Largest figure.
    pub most: f64,
    /// Arithmetic mean.
    pub mean: f64,
    /// Coefficient of variation: standard deviation (of the sample, n - 1) divided by the mean.
    pub variation: f64,
    /// Jain's fairness index, (sum x)² / (n sum x²) (Jain, Chiu, Hawe: DEC-TR-301, 1984): 1 if all are equal, 1/n if one figure has everything.
    pub jain: f64,
}

impl Spread {
    /// Describes figures. Returns `None` if there are no figures.
    pub fn of(figures: &[f64]) -> Option<Self> {
        let sorted = sorted(figures);
        let (least, most) = (*sorted.first()?, *sorted.last()?);
        let count = sorted.len();
        let sum: f64 = sorted.iter().sum();
        let squares: f64 = sorted.iter().map(|one| one * one).sum();
        let mean = sum / count as f64;
        let off: f64 = sorted.iter().map(|one| (one - mean).powi(2)).sum();
        let deviation = (off / count.saturating_sub(1).max(1) as f64).sqrt();
        Some(Self {
            count,
            least,
            median: middle(&sorted),
            most,
            mean,
            variation: if mean > 0.0 { deviation / mean } else { 0.0 },
            jain: match squares > 0.0 {
                true => sum * sum / (count as f64 * squares),
                false => 1.0,
            },
        })
    }
}

/// Percentiles need at least this many figures.
pub const PERCENTILES_FROM: usize = 20;

/// The value below which `percent` percent of all figures lie, interpolated linearly (Hyndman and Fan 1996, type 7). Returns `None` with
/// fewer than [`PERCENTILES_FROM`] figures.
pub fn percentile(figures: &[f64], percent: f64) -> Option<f64> {
    if figures.len() < PERCENTILES_FROM {
        return None;
    }
    let sorted = sorted(figures);
    let at = percent.clamp(0.0, 100.0) / 100.0 * (sorted.len() - 1) as f64;
    let below = usize::try_from(crate::whole(at.floor())).ok()?;
    let low = sorted.get(below)?;
    let high = sorted.get(below + 1).unwrap_or(low);
    Some(low + (high - low) * (at - at.floor()))
}

/// Factor from the median absolute deviation to the standard deviation of normal figures: 1 / Phi^-1(3/4) (Rousseeuw and Croux 1993).
pub const NORMAL: f64 = 1.4826;

/// The median, or the mean of the two figures in the middle; 0 without figures. Sorts the figures.
pub fn median(figures: &mut [f64]) -> f64 {
    figures.sort_unstable_by(f64::total_cmp);
    middle(figures)
}

/// The median of the absolute values; 0 without figures.
pub fn median_size(figures: &[f64]) -> f64 {
    let mut sizes: Vec<f64> = figures.iter().map(|one| one.abs()).collect();
    median(&mut sizes)
}

/// The median of all figures and their usual distance from it: median absolute deviation times [`NORMAL`], but at least 1 % of the median,
/// since a few equal figures would make it 0. Returns `None` without figures.
pub fn usual(figures: &[f64]) -> Option<(f64, f64)> {
    const LEAST: f64 = 0.01;
    if figures.is_empty() {
        return None;
    }
    let median = middle(&sorted(figures));
    let off: Vec<f64> = figures.iter().map(|one| one - median).collect();
    let scale = (median_size(&off) * NORMAL).max(median.abs() * LEAST);
    Some((median, scale))
}

/// Number of standard deviations that a normal figure exceeds with this one-sided probability: Abramowitz and Stegun 26.2.23, error below
/// 4.5e-4.
pub fn sigmas_exceeded_with(probability: f64) -> f64 {
    let t = (-2.0 * probability.clamp(1e-300, 0.5).ln()).sqrt();
    let above = 2.515_517 + t * (0.802_853 + t * 0.010_328);
    let below = 1.0 + t * (1.432_788 + t * (0.189_269 + t * 0.001_308));
    t - above / below
}

fn sorted(figures: &[f64]) -> Vec<f64> {
    let mut sorted = figures.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

fn middle(sorted: &[f64]) -> f64 {
    let half = sorted.len() / 2;
    match (sorted.len() % 2, sorted.get(half)) {
        (1, Some(one)) => *one,
        (0, Some(upper)) if half > 0 => (sorted[half - 1] + upper) / 2.0,
        _ => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_has_the_figures_of_the_textbooks() {
        let spread = Spread::of(&[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]).unwrap();
        assert_eq!((spread.least, spread.median, spread.most), (2.0, 4.5, 9.0));
        assert_eq!(spread.mean, 5.0);
        assert!((spread.variation - (32.0_f64 / 7.0).sqrt() / 5.0).abs() < 1e-12);
        // One of 256 ports is dead, and Jain's index is still 0.996, so it judges nothing.
        let mut ports = vec![1.0; 256];
        ports[7] = 0.0;
        assert!((Spread::of(&ports).unwrap().jain - 255.0 / 256.0).abs() < 1e-12);
        assert_eq!(Spread::of(&[]), None);
        assert_eq!(Spread::of(&[0.0]).unwrap().jain, 1.0);
    }

    #[test]
    fn percentiles_need_twenty_figures() {
        let figures: Vec<f64> = (0..=100).map(f64::from).collect();
        assert_eq!(percentile(&figures, 5.0), Some(5.0));
        assert_eq!(percentile(&figures, 99.5), Some(99.5));
        assert_eq!(percentile(&figures[..19], 50.0), None);
    }

    #[test]
    fn what_is_usual_is_not_moved_by_one_that_is_far_off() {
        let (median, scale) = usual(&[10.0, 10.0, 10.0, 10.0, 10.0, 1.0]).unwrap();
        assert_eq!((median, scale), (10.0, 0.1));
        let (_, scale) = usual(&[1.0, 2.0, 3.0, 4.0, 5.0]).unwrap();
        assert!((scale - 1.4826).abs() < 1e-12);
        assert_eq!(usual(&[]), None);
    }

    #[test]
    fn sigmas_are_those_of_the_tables() {
        for (probability, sigmas) in [
            (0.5, 0.0),
            (0.158_655, 1.0),
            (0.001_35, 3.0),
            (2.867e-7, 5.0),
        ] {
            let found = sigmas_exceeded_with(probability);
            assert!((found - sigmas).abs() < 1e-3, "{probability}: {found}");
        }
    }
}
