//! The page: one HTML file with all that a reader needs to sign, or to send the switch back. It loads nothing from elsewhere and runs no scripts.
//! Its figures are those of the other reports.

mod cables;
mod course;
mod evidence;
mod heat;
mod patterns;
mod ranks;
mod result;
mod spread;
mod svg;
mod table;
mod tables;

pub use patterns::MOST_BESIDE;
pub use tables::changes;

use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::record::{Measured, Outcome, Record, VerdictWord};
use crate::units::{show_rate, show_utc};

use super::compare::Comparison;
use super::linktest::figures::Figures as Links;
use super::{count, directions, judged, percent};
use course::Course;
use heat::Heat;

const STYLE: &str = include_str!("page.css");

/// The page of a record. The pictures of patterns also show the curves of the runs `beside` it.
pub fn write(record: &Record, baseline: Option<&Comparison>, beside: &[Record]) -> String {
    let title = format!("{} - pipebench {}", record.verdict.word, record.name());
    let sections = sections(record, baseline, beside);
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
                    (contents(&sections))
                    @for (_, section) in &sections { (section) }
                    @if is_to_sign(record) { (signatures()) }
                    footer { p { @if is_of_ports(record) { (judged::FIXED_WORDS) } @else { (super::latency::FIXED_WORDS) } "." } }
                }
            }
        }
    };
    page.into_string() + "\n"
}

/// All sections, each with its name in the line of contents; what is empty has none.
fn sections(
    record: &Record,
    baseline: Option<&Comparison>,
    beside: &[Record],
) -> Vec<(&'static str, Markup)> {
    let measured = match record.measured() {
        Measured::Acceptance(..) => html! { (result::section(record)) (Heat::of(record).draw()) },
        Measured::Linktest(plan, linktest) => ranks::sections(&Links::of(record, plan, linktest)),
        Measured::Latency(plan, latency) => cables::sections(record, plan, latency),
        Measured::Imb(plan, imb) => patterns::sections(record, plan, imb, beside),
    };
    let excluded = match is_of_ports(record) {
        true => tables::excluded(record),
        false => html! {},
    };
    let mut sections = vec![
        ("faults", evidence::section(record)),
        ("ports", tables::worst(record)),
        ("result", measured),
        ("uplinks", tables::uplinks(record)),
        ("interfaces", tables::wires(record)),
        ("rate over time", Course::of(record).draw()),
        ("distribution", spread::section(record)),
        ("comparison", tables::baseline(baseline)),
        ("hosts", tables::hosts(record)),
        ("not judged", excluded),
        ("tests", tables::tests(record)),
        ("conditions", tables::conditions(record)),
    ];
    sections.retain(|(_, section)| !section.0.is_empty());
    sections
}

/// A line of links to the sections, on pages that are long.
fn contents(sections: &[(&str, Markup)]) -> Markup {
    /// Number of sections from which a page is long.
    const MANY: usize = 6;
    let id = |section: &Markup| {
        let id = section.0.split_once("<section id=\"")?.1;
        Some(id.split_once('"')?.0.to_owned())
    };
    html! {
        @if sections.len() >= MANY {
            nav aria-label="Contents" {
                @for (name, section) in sections {
                    @if let Some(id) = id(section) { a href=(format!("#{id}")) { (name) } }
                }
            }
        }
    }
}

/// True if the page is one to sign: an acceptance that passed or failed.
fn is_to_sign(record: &Record) -> bool {
    let word = record.verdict.word;
    directions::is_acceptance(record) && matches!(word, VerdictWord::Pass | VerdictWord::Fail)
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
                @if let Some(text) = judged::meaning(record) { p { (text) } }
                @if let Some(text) = judged::site(record) { p { (text) } }
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
            @if let Some(loaded) = directions::loaded(record).filter(|_| is_of_ports(record)) {
                li {
                    b { (loaded.ports) " of " (loaded.named) }
                    span { "ports loaded both ways" @if let Some(ports) = record.plan.site.as_ref().and_then(|site| site.ports) { "; the switch has " (ports) } }
                }
                @if let Some(share) = loaded.share {
                    li { b { (percent(share)) } span { "lowest best-case port rate, % of ceiling" } }
                }
            }
            @if let (Some(figure), Some(said)) = (figure, directions::to_sign(record)) {
                li {
                    b { (show_rate(figure.rate_bits_per_s)) }
                    span { (directions::name_of_figure(record)) ": " (said) }
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
                    li { b { (record.tests().len()) } span { @if record.tests().len() == 1 { "test" } @else { "tests" } " of " (count(record.plan.nodes.len(), "node")) } }
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
