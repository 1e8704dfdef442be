//! Faults with their isolated measurements and the commands that reproduce them.

use maud::{Markup, html};

use crate::judge::names;
use crate::record::{Culprit, FaultSheet, Record, VerdictWord};
use crate::units::Scale;

use crate::report::{directions, faults, judged, percent};

use super::table::table;

/// Every failure, finding on the order, and fault. Empty if the record has none.
pub(super) fn section(record: &Record) -> Markup {
    let sheet = &record.sheet;
    if sheet.faults.is_empty() && sheet.order.is_empty() && record.troubles.is_empty() {
        return html! {};
    }
    html! {
        section #faults {
            h2 { "Findings" }
            @for trouble in crate::report::text::troubles(&record.troubles) { p .fault { (trouble) } }
            @for finding in &sheet.order { p .fault { b { "FAIL " } (finding) } }
            @for fault in &sheet.faults { (one(record, fault)) }
            @if let Some(text) = judged::congestion(record) { p .note { "Note: " (text) "." } }
        }
    }
}

fn one(record: &Record, fault: &FaultSheet) -> Markup {
    let pair = |from, to| names::name(&record.plan, &record.sheet, &Culprit::Pair(from, to));
    let number = |test| directions::number(record, test).map(|number| number.to_string());
    // A single link of several is among the evidence.
    let together = || fault.steps.iter().rev().filter(|step| step.links > 1);
    let rates = together().flat_map(|step| [step.rate_bits_per_s, step.expected_bits_per_s]);
    let evidence = fault.evidence.iter();
    let alone = evidence.flat_map(|one| [one.rate_bits_per_s, one.expected_bits_per_s]);
    let scale = Scale::of(rates.chain(alone).fold(0.0, f64::max));
    let losses = fault.kind.is_of_losses();
    let figures = |rate: f64, expected: f64| {
        html! {
            td .number { (scale.show(rate)) }
            td .number { (scale.show(expected)) }
            td .number { (percent(rate / expected.max(1.0))) }
        }
    };
    html! {
        article .fault data-word=(fault.word) {
            h3 { (fault.word) " " (faults::brief(record, fault)) }
            @if let Some(next) = faults::next(record, fault) { p { (next.trim()) } }
            @if fault.word == VerdictWord::Fail { @for note in &fault.notes { p .note { (note) } } }
            @if !fault.evidence.is_empty() || together().next().is_some() {
                (table(html! {
                    th { "retested" } th .number { "links at once" } th .number { (scale.unit) } th .number { "expected, " (scale.unit) } th .number { "share of expected" }
                    @if losses { th .number { "segments lost" } }
                    th .number { "test" }
                }, html! {
                    @for step in together() {
                        tr {
                            td { (step.links) " of its links together" }
                            td .number { (step.links) }
                            (figures(step.rate_bits_per_s, step.expected_bits_per_s))
                            @if losses { td {} }
                            td .number { (number(step.test).unwrap_or_default()) }
                        }
                    }
                    @for one in &fault.evidence {
                        tr {
                            td { (pair(one.from, one.to)) }
                            td .number { (one.width) }
                            (figures(one.rate_bits_per_s, one.expected_bits_per_s))
                            @if losses { td .number { (format!("{:.1e}", one.loss)) } }
                            td .number { (number(one.test).unwrap_or_default()) }
                        }
                    }
                }))
            }
            @if let Some((server, client)) = faults::commands(record, fault) {
                pre { (server) "\n" (client) }
            }
        }
    }
}
