//! Verdict on cables, from latency measurements.

use crate::record::{LatencyRecord, Verdict, VerdictWord};
use crate::units::show_us;

use super::names::and_more;

/// FAIL if a cable is slow, and its pairs were so again alone. UNDECIDED if they were not, or the description does not fit. PASS if cables could be
/// compared and none stands out. NOT JUDGED if they could not be compared.
pub(crate) fn verdict(record: &LatencyRecord) -> Verdict {
    let of = |word, reason: String| Verdict { word, reason };
    let more = |count: usize| and_more(count, 1, "; ");
    let confirmed: Vec<_> = record.slow.iter().filter(|cable| cable.confirmed).collect();
    if let Some(worst) = confirmed.first() {
        return of(
            VerdictWord::Fail,
            sentence(worst, record) + ", confirmed in isolation" + &more(confirmed.len()),
        );
    }
    if let Some(worst) = record.slow.first() {
        let reason =
            sentence(worst, record) + ", but not when its pairs were retested in isolation";
        return of(VerdictWord::Undecided, reason + &more(record.slow.len()));
    }
    if let Some(misfit) = &record.misfit {
        return of(VerdictWord::Undecided, misfit.clone());
    }
    match (&record.baseline, record.judged.as_slice()) {
        (Some(run), _) => of(
            VerdictWord::Pass,
            format!("no cable takes 10 % longer than in run {run}, noise excluded"),
        ),
        (None, []) => {
            let why = record.undecidable.first();
            let why = why.map_or("nothing was measured", String::as_str);
            of(
                VerdictWord::NotJudged,
                format!("cables cannot be compared with each other: {why} (give --baseline RUN)"),
            )
        }
        (None, classes) => of(
            VerdictWord::Pass,
            format!(
                "no cable is slow compared with its class ({})",
                classes.join(", ")
            ),
        ),
    }
}

/// Sentence on a slow cable.
pub(crate) fn sentence(cable: &crate::record::SlowCable, record: &LatencyRecord) -> String {
    let name = cable.names();
    let measure = match &record.baseline {
        Some(run) => format!("in run {run}"),
        None => "is usual in its class".to_owned(),
    };
    format!(
        "cable {name} takes {} one way, {} {measure} ({}, {:.0} standard deviations)",
        show_us(cable.usual_s * (1.0 + cable.effect)),
        show_us(cable.usual_s),
        longer(cable.effect),
        cable.score
    )
}

/// How much longer a slow cable takes, as a part of what is usual: in percent, or as a factor where that has more than three digits.
pub(crate) fn longer(effect: f64) -> String {
    match effect < 9.995 {
        true => format!("{:+.0} %", effect * 100.0),
        false => format!("{:.0} times as long", 1.0 + effect),
    }
}

#[cfg(test)]
mod tests {
    use super::longer;

    /// Symptom: "+5545 %".
    #[test]
    fn a_percentage_of_four_digits_is_a_factor() {
        let shown = [0.1, 9.99, 9.996, 55.45].map(longer);
        assert_eq!(
            shown,
            ["+10 %", "+999 %", "11 times as long", "56 times as long"]
        );
    }
}
