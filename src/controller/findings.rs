//! Findings of a latency job for the record: cables and their values, slow cables, and what cannot be decided.

use crate::plan::latency::Baseline;
use crate::record::{CableLatency, LatencyRecord, SlowCable, Together};
use latency::analysis::Analysis;
use latency::detect::Suspect;
use latency::predict;
use latency::rows::Model;
use latency::survey::Proof;

/// All findings of a latency job.
pub(super) struct Findings<'a> {
    /// Model with the cables as columns.
    pub(super) model: Model<'a>,
    /// Values of a healthy fabric, if known.
    pub(super) baseline: Option<&'a Baseline>,
    /// Analysis of the pairs measured in rounds.
    pub(super) analysis: &'a Analysis,
    /// Analysis with the pairs measured alone in place of the same pairs measured in rounds.
    pub(super) again: Option<&'a Analysis>,
    /// Most suspects that were measured alone: the first ones of `analysis`.
    pub(super) looked_at: usize,
}

impl Findings<'_> {
    /// Writes all findings into the record.
    pub(super) fn write_down(&self, record: &mut LatencyRecord) {
        self.predict(record);
        record.cables = self.cables();
        record.together = self.together();
        record.sigma = self
            .analysis
            .solution
            .as_ref()
            .and_then(|solution| solution.sigma);
        record.slow = self.slow();
        record.undecidable = self
            .analysis
            .undecidable
            .iter()
            .map(|one| format!("{}: {}", self.class_name(one.class), one.why))
            .collect();
        record.judged = self.judged(record);
        record.misfit = self.misfit();
    }

    /// Values of all columns in seconds; `None` without a solution.
    fn values(&self) -> Option<&[f64]> {
        let solution = self.analysis.solution.as_ref();
        solution.map(|solution| solution.values.as_slice())
    }

    fn class_name(&self, class: u16) -> &str {
        &self.model.fabric.classes[usize::from(class)]
    }

    /// Adds to each pair the round trip that the cables' values predict.
    fn predict(&self, record: &mut LatencyRecord) {
        let Some(values) = self.values() else { return };
        let measured = record.pairs.iter_mut();
        let others = record.checks.iter_mut().chain(&mut record.looks);
        for pair in measured.chain(others) {
            let predicted = predict::round_trip(&self.model, values, pair.from, pair.to);
            pair.predicted_s = Some(predicted);
        }
    }

    fn cables(&self) -> Vec<CableLatency> {
        let (model, analysis) = (&self.model, self.analysis);
        let mut pairs_through = vec![0; model.columns()];
        for row in 0..analysis.equations.pairs().len() {
            for (column, _) in analysis.equations.row(row) {
                pairs_through[*column as usize] += 1;
            }
        }
        let cables = &model.fabric.cables;
        let columns = (0_u32..)
            .take(model.columns())
            .filter(|column| analysis.equations.is_used(*column));
        columns
            .map(|column| CableLatency {
                column,
                name: model.name(column),
                class: self
                    .class_name(cables[model.cable_of(column) as usize].class)
                    .to_owned(),
                value_s: self.values().map(|values| values[column as usize]),
                identified: analysis.equations.is_identified(column),
                error_s: Some(analysis.errors[column as usize]).filter(|error| error.is_finite()),
                pairs: pairs_through[column as usize],
            })
            .collect()
    }

    fn together(&self) -> Vec<Together> {
        let all = self.analysis.together.iter().enumerate();
        all.map(|(at, one)| Together {
            terms: one
                .terms
                .iter()
                .map(|(column, times)| (self.model.name(*column), *times))
                .collect(),
            value_s: one.value,
            error_s: self.analysis.together_errors.get(at).copied(),
        })
        .collect()
    }

    /// Suspects; those that were slow again when measured alone come first.
    fn slow(&self) -> Vec<SlowCable> {
        let suspects = self.analysis.suspects.iter().enumerate();
        let mut slow: Vec<SlowCable> = suspects
            .map(|(at, suspect)| self.slow_cable(suspect, at < self.looked_at))
            .collect();
        slow.sort_by(|a, b| {
            b.confirmed
                .cmp(&a.confirmed)
                .then(b.score.total_cmp(&a.score))
        });
        slow
    }

    fn slow_cable(&self, suspect: &Suspect, looked_at: bool) -> SlowCable {
        let mut second = self.again.iter().flat_map(|again| &again.suspects);
        let same = |second: &&Suspect| {
            second.column == suspect.column || suspect.or.contains(&second.column)
        };
        let second = second.find(same).filter(|_| looked_at);
        let shown = second.unwrap_or(suspect);
        let usual = self
            .baseline
            .map(|baseline| baseline.values_s[suspect.column as usize]);
        let value = self
            .values()
            .map_or(0.0, |values| values[suspect.column as usize]);
        SlowCable {
            name: self.model.name(suspect.column),
            or: suspect
                .or
                .iter()
                .map(|column| self.model.name(*column))
                .collect(),
            score: shown.score,
            effect: shown.effect,
            usual_s: usual.unwrap_or(value / (1.0 + suspect.effect)),
            pairs: suspect.pairs,
            confirmed: second.is_some(),
        }
    }

    /// Classes whose cables could be judged by comparison with each other.
    fn judged(&self, record: &LatencyRecord) -> Vec<String> {
        if self.baseline.is_some() || self.analysis.solution.is_none() {
            return Vec::new();
        }
        let fabric = self.model.fabric;
        let judged = fabric.classes.iter().zip(0_u16..).filter(|(name, class)| {
            let used = record.cables.iter().any(|cable| cable.class == **name);
            let open = self
                .analysis
                .undecidable
                .iter()
                .any(|one| one.class == *class);
            used && !open
        });
        judged.map(|(name, _)| name.clone()).collect()
    }

    /// Sentence for routes that seem to differ from the description.
    fn misfit(&self) -> Option<String> {
        let misfit = self.analysis.misfit.as_ref()?;
        let count = misfit.rows.len();
        let all = self.analysis.equations.pairs().len();
        Some(match misfit.cable {
            Some((cable, through)) => format!(
                "{count} of {all} pairs fit no values of the cables, among them most of the {through} that the description routes through {}: their routes differ from the description",
                self.model.fabric.cables[cable as usize].name
            ),
            None => format!(
                "{count} of {all} pairs fit no values of the cables: routes differ from the description, or change"
            ),
        })
    }
}

/// Reason why a matrix rank is exact, in words.
pub(crate) fn proof_text(proof: Option<&Proof>) -> String {
    match proof {
        None => "not checked: the first basis in the order of pairs".to_owned(),
        Some(Proof::Full) => "exact: every column is determined separately".to_owned(),
        Some(Proof::Vectors(count)) => {
            format!(
                "exact: {count} independent vectors of whole numbers give 0 with every pair, and no row of the basis follows from the others"
            )
        }
        Some(Proof::Random(odds)) => format!(
            "exact but for odds of {odds:.0e}: a random vector that gives 0 with the basis gave 0 with every pair"
        ),
    }
}

/// Standard errors of all columns in seconds, from a record of the same fabric; `None` where unknown.
pub(crate) fn errors_of(model: &Model<'_>, record: &LatencyRecord) -> Vec<Option<f64>> {
    let mut errors = vec![None; model.columns()];
    for cable in record.cables.iter().filter(|cable| cable.identified) {
        if let Some(slot) = errors.get_mut(cable.column as usize) {
            *slot = cable.error_s;
        }
    }
    errors
}

/// Values of all columns in seconds, from a record of the same fabric. `None` if the record lacks values or its columns have other names.
pub(crate) fn values_of(model: &Model<'_>, record: &LatencyRecord) -> Option<Vec<f64>> {
    let mut values = vec![0.0; model.columns()];
    for cable in &record.cables {
        let slot = values.get_mut(cable.column as usize)?;
        if model.name(cable.column) != cable.name {
            return None;
        }
        *slot = cable.value_s?;
    }
    (!record.cables.is_empty()).then_some(values)
}
