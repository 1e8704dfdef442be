//! Faults with their isolated measurements and the commands that reproduce them.

use maud::{Markup, html};

use crate::judge::names;
use crate::record::{Culprit, FaultSheet, Record, VerdictWord};
use crate::units::show_gbit;

use crate::report::{directions, faults, percent};

use super::table::table;

/// Every failure, finding on the order, and fault. Empty if the record has none.
pub(super) fn section(record: &Record) -> Markup {
    let sheet = &record.sheet;
    if sheet.faults.is_empty() && sheet.order.is_empty() && record.troubles.is_empty() {
        return html! {};
    }
    html! {
        section #faults {
            h2 { "What is wrong" }
            @for trouble in crate::report::text::troubles(&record.troubles) { p .fault { (trouble) } }
            @for finding in &sheet.order { p .fault { b { "FAIL " } (finding) } }
            @for fault in &sheet.faults { (one(record, fault)) }
        }
    }
}

fn one(record: &Record, fault: &FaultSheet) -> Markup {
    let pair = |from, to| names::name(&record.plan, &record.sheet, &Culprit::Pair(from, to));
    html! {
        article .fault {
            h3 { (fault.word) " " (faults::brief(record, fault)) }
            @if let Some(next) = faults::next(record, fault) { p { (next.trim()) } }
            @if fault.word == VerdictWord::Fail { @for note in &fault.notes { p .note { (note) } } }
            @if !fault.evidence.is_empty() {
                (table(html! { th { "retested" } th .number { "links at once" } th .number { "Gbit/s" } th .number { "expected" } th .number { "share" } th .number { "segments lost" } th .number { "test" } }, html! {
                    @for one in &fault.evidence {
                        tr {
                            td { (pair(one.from, one.to)) }
                            td .number { (one.width) }
                            td .number { (show_gbit(one.rate_bits_per_s / 1e9)) }
                            td .number { (show_gbit(one.expected_bits_per_s / 1e9)) }
                            td .number { (percent(one.rate_bits_per_s / one.expected_bits_per_s.max(1.0))) }
                            td .number { @if fault.kind.is_of_losses() { (format!("{:.1e}", one.loss)) } @else { "" } }
                            td .number { @if let Some(number) = directions::number(record, one.test) { (number) } }
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
