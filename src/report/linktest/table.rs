//! Every link of every round as a CSV table, for further processing.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::report::cells::finish;

use super::figures::Figures;

/// A line of the table; units are in the column names.
#[derive(Serialize)]
struct Line<'a> {
    round: usize,
    iteration: u64,
    step: usize,
    from: usize,
    to: usize,
    from_node: &'a str,
    to_node: &'a str,
    seconds: f64,
    bytes_per_s: f64,
    messages: Option<u64>,
    least_s: Option<f64>,
    median_s: Option<f64>,
    p90_s: Option<f64>,
    p99_s: Option<f64>,
    most_s: Option<f64>,
    deviation_s: Option<f64>,
    alone_s: Option<f64>,
}

/// CSV table of the links of a link test.
pub fn csv(figures: &Figures<'_>) -> Result<String, csv::Error> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    for (number, round) in figures.job.rounds.iter().enumerate() {
        let again: BTreeMap<(usize, usize), f64> = round
            .retests
            .iter()
            .map(|one| ((one.from, one.to), one.new_s))
            .collect();
        for time in &round.times {
            let spread = time.spread;
            writer.serialize(Line {
                round: number,
                iteration: round.iteration,
                step: time.step.saturating_add(1),
                from: time.from,
                to: time.to,
                from_node: figures.name(time.from),
                to_node: figures.name(time.to),
                seconds: time.seconds,
                bytes_per_s: figures.bandwidth(time.seconds),
                messages: spread.map(|one| one.count),
                least_s: spread.map(|one| one.least_s),
                median_s: spread.map(|one| one.median_s),
                p90_s: spread.map(|one| one.p90_s),
                p99_s: spread.map(|one| one.p99_s),
                most_s: spread.map(|one| one.most_s),
                deviation_s: spread.map(|one| one.deviation_s),
                alone_s: again.get(&(time.from, time.to)).copied(),
            })?;
        }
    }
    finish(writer)
}
