//! The page: one HTML file with all that a reader needs to sign, or to send the switch back. It loads nothing from elsewhere and runs no scripts.
//! Its figures are those of the other reports.

mod cables;
mod course;
mod evidence;
mod heat;
mod patterns;
mod ranks;
mod spread;
mod svg;
mod table;
mod tables;

pub use patterns::MOST_BESIDE;
pub use tables::changes;

use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::record::{Measured, Outcome, Record, VerdictWord};
use crate::units::{show_gbit, show_utc};

use super::compare::Comparison;
use super::linktest::figures::Figures as Links;
use super::{judged, percent};
use course::Course;
use heat::Heat;

const STYLE: &str = include_str!("page.css");

/// The page of a record. The pictures of patterns also show the curves of the runs `beside` it.
pub fn write(record: &Record, baseline: Option<&Comparison>, beside: &[Record]) -> String {
    let title = format!("{} - pipebench {}", record.verdict.word, record.name());
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                (head(&title))
                style { (PreEscaped(STYLE)) }
            }
            body {
                main {
                    (verdict(record))
                    (tiles(record))
                    (evidence::section(record))
                    @match record.measured() {
                        Measured::Acceptance(..) => (Heat::of(record).draw()),
                        Measured::Linktest(plan, linktest) => (ranks::sections(&Links::of(record, plan, linktest))),
                        Measured::Latency(plan, latency) => (cables::sections(record, plan, latency)),
                        Measured::Imb(plan, imb) => (patterns::sections(record, plan, imb, beside)),
                    }
                    (tables::worst(record))
                    (tables::uplinks(record))
                    (tables::wires(record))
                    (spread::section(record))
                    (Course::of(record).draw())
                    (tables::baseline(baseline))
                    (tables::hosts(record))
                    @if is_of_ports(record) { (tables::excluded(record)) }
                    (tables::tests(record))
                    (tables::conditions(record))
                    (signatures())
                    footer { p { @if is_of_ports(record) { (judged::FIXED_WORDS) } @else { (super::latency::FIXED_WORDS) } "." } }
                }
            }
        }
    };
    page.into_string() + "\n"
}

/// The HTML head elements of every page.
pub fn head(title: &str) -> Markup {
    html! {
        meta charset="utf-8";
        meta name="viewport" content="width=device-width, initial-scale=1";
        meta name="color-scheme" content="light dark";
        title { (title) }
    }
}

/// True if the record measures ports, so neither cables nor patterns of messages.
fn is_of_ports(record: &Record) -> bool {
    match &record.outcome {
        Outcome::Acceptance(_) | Outcome::Linktest(_) => true,
        Outcome::Latency(_) | Outcome::Imb(_) => false,
    }
}

fn verdict(record: &Record) -> Markup {
    let word = record.verdict.word;
    let class = match word {
        VerdictWord::Pass => "pass",
        VerdictWord::Fail | VerdictWord::Invalid => "fail",
        VerdictWord::Undecided | VerdictWord::HostLimited => "open",
        VerdictWord::NotJudged => "none",
    };
    html! {
        header class=(class) {
            p .word { (word) }
            div {
                h1 { (judged::sentence(record)) }
                @if let Some(standing) = judged::standing(record) { p { (standing.trim()) } }
                @if let Some(text) = judged::broken_seal(record) { p { b { (text) } } }
                p .run { (record.name()) ", " (show_utc(record.started_ms)) " UTC" }
            }
        }
    }
}

/// The tiles of the first screen: number of loaded ports, their share of capacity, and the figure to sign.
fn tiles(record: &Record) -> Markup {
    let figure = record.sheet.figure;
    html! {
        ul .tiles {
            @if let Some(loaded) = judged::loaded(record).filter(|_| is_of_ports(record)) {
                li {
                    b { (loaded.ports) " of " (loaded.named) }
                    span { "ports loaded both ways" @if let Some(ports) = record.plan.site.as_ref().and_then(|site| site.ports) { "; the switch has " (ports) } }
                }
                @if let Some(share) = loaded.share {
                    li { b { (percent(share)) } span { "lowest best-case port rate, % of ceiling" } }
                }
            }
            @if let (Some(figure), Some(said)) = (figure, judged::to_sign(record)) {
                li {
                    b { (show_gbit(figure.rate_bits_per_s / 1e9)) " Gbit/s" }
                    span { "the figure to sign: " (said) }
                }
            }
            @if let Some(contention) = record.sheet.contention {
                li {
                    b { (percent(contention.share)) }
                    span { "rate of " (record.sheet.label(contention.port)) " with all links at once, relative to one at a time" }
                }
            }
            @match record.measured() {
                Measured::Acceptance(..) => {
                    li { b { (record.tests().len()) } span { "tests of " (record.plan.nodes.len()) " nodes" } }
                }
                Measured::Linktest(plan, linktest) => (ranks::tiles(record, &Links::of(record, plan, linktest))),
                Measured::Latency(_, latency) => (cables::tiles(latency)),
                Measured::Imb(_, imb) => (patterns::tiles(record, imb)),
            }
        }
    }
}

fn signatures() -> Markup {
    html! {
        section #signatures {
            h2 { "Signatures" }
            div .signatures {
                @for who in ["Tested by", "For the customer", "For the vendor"] {
                    div { p .line {} p { (who) ", name and date" } }
                }
            }
        }
    }
}
