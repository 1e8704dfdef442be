//! The list of runs: one row each, to find a particular run.

use crate::record::Record;
use crate::units::{show_age, show_gbit, show_utc};

use super::figures::Figures;
use super::judged;
use super::status::aligned;

/// Column headings of the list.
const HEAD: [&str; 7] = [
    "run",
    "started (UTC)",
    "took",
    "nodes",
    "tests",
    "verdict",
    "weakest port",
];

/// One run, in the order of the column headings.
pub type Row = [String; 7];

/// The row of a run with its result.
pub fn row(name: &str, record: &Record) -> Row {
    let spans = record.tests().iter().filter_map(|test| test.span_ns);
    let took = crate::units::sum(spans) / 1_000_000_000;
    let weakest = judged::weakest(record).or_else(|| {
        let test = record.tests().first()?;
        let figures = Figures::of(record, test);
        let (port, direction, rate) = figures.weakest()?;
        Some(format!(
            "weakest {} {direction} {} Gbit/s",
            port.label,
            show_gbit(rate)
        ))
    });
    let weakest = weakest.unwrap_or_default();
    [
        name.to_owned(),
        show_utc(record.started_ms),
        show_age(took),
        record.plan.nodes.len().to_string(),
        record.tests().len().to_string(),
        record.verdict.word.to_string(),
        weakest
            .strip_prefix("weakest ")
            .unwrap_or(&weakest)
            .to_owned(),
    ]
}

/// All rows below their headings, as an aligned text table.
pub fn table(rows: &[Row]) -> String {
    let mut cells = vec![HEAD.map(str::to_owned)];
    cells.extend_from_slice(rows);
    aligned(&cells, &[3, 4])
}
