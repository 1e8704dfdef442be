//! The forms of a report, a row each. Commands, pages and downloads offer the rows that stand here.

use crate::record::Record;

use super::compare::Comparison;
use super::junit::Fault;
use super::{csv, junit, metrics, page, text};

/// Form of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    /// Summary as text.
    Text,
    /// One page.
    Html,
    /// Table of figures.
    Csv,
    /// The record itself.
    Json,
    /// Cases for CI.
    Junit,
    /// Metrics for a monitoring system.
    Openmetrics,
}

/// A run, and the runs that its report shows too.
pub(crate) struct Source<'a> {
    /// Record of the run.
    pub record: &'a Record,
    /// Text of that record, exactly as in its file.
    pub text: &'a str,
    /// Comparison with an earlier run, for text and page.
    pub baseline: Option<&'a Comparison>,
    /// Runs whose curves the page shows next to those of the run.
    pub beside: &'a [Record],
}

/// Names of a form, and the function that makes it.
pub(crate) struct Row {
    /// Word for `--format`.
    pub word: &'static str,
    /// Content in one sentence, for the help.
    pub what: &'static str,
    /// Name of the file to download.
    pub file: &'static str,
    /// Content type for HTTP.
    pub media_type: &'static str,
    /// Title of the download.
    pub label: &'static str,
    /// Makes the report.
    pub write: fn(&Source<'_>) -> Result<String, Fault>,
}

impl Format {
    /// All forms.
    pub(crate) const ALL: [Self; 6] = [
        Self::Text,
        Self::Html,
        Self::Csv,
        Self::Json,
        Self::Junit,
        Self::Openmetrics,
    ];

    /// The row of this form.
    pub(crate) fn row(self) -> Row {
        match self {
            Self::Text => Row {
                word: "text",
                what: "The summary, as printed after the run",
                file: "summary.txt",
                media_type: "text/plain; charset=utf-8",
                label: "Summary (text)",
                write: |run| Ok(text::with_baseline(run.record, run.baseline)),
            },
            Self::Html => Row {
                word: "html",
                what: "One page with everything: heat map, rates over time, evidence, conditions, signature lines",
                file: "report.html",
                media_type: "text/html; charset=utf-8",
                label: "Report (HTML)",
                write: |run| Ok(page::write(run.record, run.baseline, run.beside)),
            },
            Self::Csv => Row {
                word: "csv",
                what: "A row per port, link and interface",
                file: "table.csv",
                media_type: "text/csv; charset=utf-8",
                label: "Table (CSV)",
                write: |run| Ok(csv::write(run.record)?),
            },
            Self::Json => Row {
                word: "json",
                what: "The record itself",
                file: "record.json",
                media_type: "application/json",
                label: "Record (JSON)",
                write: |run| Ok(run.text.to_owned()),
            },
            Self::Junit => Row {
                word: "junit",
                what: "A case per port direction, for CI",
                file: "junit.xml",
                media_type: "application/xml",
                label: "JUnit",
                write: |run| junit::write(run.record),
            },
            Self::Openmetrics => Row {
                word: "openmetrics",
                what: "For Prometheus and compatible tools",
                file: "metrics.txt",
                media_type: "application/openmetrics-text; version=1.0.0; charset=utf-8",
                label: "OpenMetrics",
                write: |run| Ok(metrics::write(run.record)),
            },
        }
    }
}
