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
use super::figures::Figures;
use super::linktest::figures::Figures as Links;
use super::{count, directions, judged, percent};
use course::Course;
use heat::Heat;

/// Style sheet of the page, and of other pages with its parts.
pub const STYLE: &str = include_str!("page.css");

/// Way back to the page that a report was opened from.
pub struct Back<'a> {
    /// Address of that page.
    pub to: &'a str,
    /// Its name.
    pub name: &'a str,
}

/// The page of a record. The pictures of patterns also show the curves of the runs `beside` it.
pub fn write(record: &Record, baseline: Option<&Comparison>, beside: &[Record]) -> String {
    whole(record, baseline, beside, None)
}

/// The page of a record as a server shows it, with a way back.
pub fn served(record: &Record, back: &Back<'_>) -> String {
    whole(record, None, &[], Some(back))
}

fn whole(
    record: &Record,
    baseline: Option<&Comparison>,
    beside: &[Record],
    back: Option<&Back<'_>>,
) -> String {
    let title = format!("{} - pipebench {}", record.verdict.word, record.name());
    let mut sections = results(record, beside);
    sections.extend(details(record, baseline));
    sections.retain(|(_, section)| !section.0.is_empty());
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                (head(&title))
                style { (PreEscaped(STYLE)) }
            }
            body {
                main {
                    @if let Some(back) = back { nav aria-label="Way back" { a href=(back.to) { "Back to " (back.name) } } }
                    (top(record, &html! { h1 { (judged::sentence(record)) } }))
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

/// The result alone, for a page about the run: verdict, what can be done `next`, findings, worst ports, figures of pairs, rate over time.
pub fn result(record: &Record, next: &Markup) -> Markup {
    html! {
        (top(record, &html! { h2 { (judged::sentence(record)) } }))
        (next)
        @for (_, section) in results(record, &[]) { (section) }
    }
}

/// Verdict and figures of the first screen.
fn top(record: &Record, sentence: &Markup) -> Markup {
    html! {
        (verdict(record, sentence))
        (tiles(record))
        @if let Some(said) = directions::to_sign(record) { p .note { (directions::name_of_figure(record)) ": " (said) "." } }
        @if let Some(text) = judged::above(record) { p .note { "Note: " (text) "." } }
    }
}

/// A section with its name in the line of contents. An empty one is left out.
type Section = (&'static str, Markup);

/// Sections about what the run found.
fn results(record: &Record, beside: &[Record]) -> Vec<Section> {
    let mut sections = vec![
        ("findings", evidence::section(record)),
        ("ports", tables::worst(record)),
    ];
    sections.extend(match record.measured() {
        Measured::Acceptance(..) => vec![
            ("result", result::section(record)),
            ("pairs", Heat::of(record).draw()),
        ],
        Measured::Linktest(plan, linktest) => ranks::sections(&Links::of(record, plan, linktest)),
        Measured::Latency(plan, latency) => cables::sections(record, plan, latency),
        Measured::Imb(plan, imb) => patterns::sections(record, plan, imb, beside),
    });
    sections.push(("rate over time", Course::of(record).draw()));
    sections
}

/// Sections about how it was found.
fn details(record: &Record, baseline: Option<&Comparison>) -> Vec<Section> {
    let excluded = match is_of_ports(record) {
        true => tables::excluded(record),
        false => html! {},
    };
    vec![
        ("uplinks", tables::uplinks(record)),
        ("interfaces", tables::wires(record)),
        ("distribution", spread::section(record)),
        ("comparison", tables::baseline(baseline)),
        ("hosts", tables::hosts(record)),
        ("not judged", excluded),
        ("tests", tables::tests(record)),
        ("conditions", tables::conditions(record)),
    ]
}

/// A line of links to the sections, on pages that are long.
fn contents(sections: &[Section]) -> Markup {
    /// Number of sections from which a page is long.
    const MANY: usize = 4;
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

fn verdict(record: &Record, sentence: &Markup) -> Markup {
    let word = record.verdict.word;
    html! {
        header data-word=(word) {
            p .word { (word) }
            div {
                (sentence)
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
    let figure = figure.filter(|_| directions::to_sign(record).is_some());
    html! {
        ul .tiles {
            @if let Some(loaded) = directions::loaded(record).filter(|loaded| is_of_ports(record) && (loaded.ports > 0 || !is_on_one_host(record))) {
                li {
                    b { (loaded.ports) " of " (loaded.named) }
                    span { "ports loaded both ways" @if let Some(ports) = record.plan.site.as_ref().and_then(|site| site.ports) { "; the switch has " (ports) } }
                }
                @if let Some(share) = loaded.share {
                    li { b { (percent(share)) } span { "best rate of the weakest port, % of its one-way ceiling" } }
                }
            }
            @if let Some(figure) = figure {
                li {
                    b { (show_rate(figure.rate_bits_per_s)) }
                    span { (directions::name_of_figure(record)) ": " (record.sheet.label(figure.port)) @if figure.sends { " send" } @else { " receive" } }
                }
            }
            @if let Some(contention) = record.sheet.contention {
                li {
                    b { (percent(contention.share)) }
                    span { "rate of " (record.sheet.label(contention.port)) @if contention.sends { " send" } @else { " receive" } " with all links at once, relative to one at a time" }
                }
            }
            @match record.measured() {
                Measured::Acceptance(..) => {
                    @if let Some((total, number)) = total(record) {
                        li { b { (show_rate(total)) } span { "received by all ports together" @if record.tests().len() > 1 { ", highest in test " (number) } } }
                    }
                    li { b { (record.tests().len()) } span { @if record.tests().len() == 1 { "test" } @else { "tests" } " of " (count(record.plan.nodes.len(), "node")) } }
                }
                Measured::Linktest(plan, linktest) => (ranks::tiles(record, &Links::of(record, plan, linktest))),
                Measured::Latency(_, latency) => (cables::tiles(latency)),
                Measured::Imb(plan, imb) => (patterns::tiles(record, plan, imb)),
            }
        }
    }
}

/// True if no data left a host.
fn is_on_one_host(record: &Record) -> bool {
    let mut hosts = record.plan.nodes.iter().map(|node| &node.host);
    let first = hosts.next();
    hosts.all(|host| Some(host) == first)
}

/// Highest rate that all ports received together, or all nodes on one host, in bits per second, and the number of its test.
fn total(record: &Record) -> Option<(f64, usize)> {
    let tests = record.counted();
    let measured = tests.iter().filter(|test| test.has_measured());
    let totals = measured.map(|test| {
        let figures = Figures::of(record, test);
        (
            figures.total_gbit_per_s * 1e9,
            directions::number(record, test.test).unwrap_or(1),
        )
    });
    totals.max_by(|a, b| a.0.total_cmp(&b.0))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::json;

    const ACCEPTANCE: &str = include_str!("../../../tests/golden/acceptance/record.json");
    const BACKPLANE: &str = include_str!("../../../tests/golden/backplane/record.json");
    const LATENCY: &str = include_str!("../../../tests/golden/latency/record.json");
    const LINKTEST: &str = include_str!("../../../tests/golden/linktest/record.json");
    const LOSSES: &str = include_str!("../../../tests/golden/losses/record.json");
    const PATTERNS: &str = include_str!("../../../tests/golden/patterns/record.json");
    const SLOW_PAIR: &str = include_str!("../../../tests/golden/slow-pair/record.json");

    fn page_of(text: &str) -> String {
        write(&json::read(text).unwrap(), None, &[])
    }

    /// The section of a page with this id.
    fn section<'a>(page: &'a str, id: &str) -> &'a str {
        let begins = format!("<section id=\"{id}\">");
        let (_, rest) = page.split_once(begins.as_str()).unwrap();
        rest.split_once("</section>").unwrap().0
    }

    /// Symptom: a run on one host said "0 of 1 ports loaded both ways", and no page had the total.
    #[test]
    fn the_first_screen_has_the_total_and_counts_no_port_where_none_is_loaded() {
        let own = page_of(include_str!("../../../tests/golden/one-host/record.json"));
        assert!(own.contains("received by all ports together"), "{own}");
        assert!(!own.contains("ports loaded both ways"), "{own}");
        let pair = page_of(SLOW_PAIR);
        for text in [
            "4 of 4</b><span>ports loaded",
            "together, highest in test 3",
        ] {
            assert!(pair.contains(text), "{text}");
        }
    }

    /// Symptom: "FAIL n2->n4" above eight rows with PASS.
    #[test]
    fn what_is_at_fault_stands_in_the_first_row() {
        let all = [
            (SLOW_PAIR, "n2-&gt;n4"),
            (BACKPLANE, "the switch: all 4 ports together"),
            (LINKTEST, "n2"),
            (LOSSES, "n3"),
        ];
        for (text, name) in all {
            let page = page_of(text);
            let (_, rows) = section(&page, "worst").split_once("<tbody>").unwrap();
            let first = rows.split("</tr>").next().unwrap();
            assert!(first.contains(&format!("<td>{name}</td>")), "{first}");
            assert!(first.contains("data-word=\"FAIL\">FAIL"), "{first}");
        }
    }

    /// Symptom: five retests of a backplane, all of them healthy, and not the one that proves it.
    #[test]
    fn the_retest_that_proves_a_fault_of_many_ports_is_in_its_table() {
        let page = page_of(BACKPLANE);
        let faults = section(&page, "faults");
        for part in ["4 of its links together", "expected, Mbit/s", ">458.6<"] {
            assert!(faults.contains(part), "{part}: {faults}");
        }
    }

    /// Symptom: "1 chosen link" in ten rows.
    #[test]
    fn a_retest_of_one_link_names_it() {
        let page = page_of(SLOW_PAIR);
        let tests = section(&page, "tests");
        assert!(tests.contains("n2-&gt;n4, 2 phases"), "{tests}");
        assert!(!tests.contains("chosen"), "{tests}");
    }

    /// Symptom: a tile with a sentence of seven lines, which stretched its row.
    #[test]
    fn a_tile_has_a_figure_and_a_few_words() {
        let page = page_of(ACCEPTANCE);
        let (_, rest) = page.split_once("<ul class=\"tiles\">").unwrap();
        let (tiles, below) = rest.split_once("</ul>").unwrap();
        assert!(tiles.contains("<span>to sign: n3 send</span>"), "{tiles}");
        for tile in tiles.split("<span>").skip(1) {
            let (words, _) = tile.split_once("</span>").unwrap();
            assert!(words.len() < 80, "{words}");
        }
        let figure = "<p class=\"note\">to sign: n3 send 84.08 Mbit/s payload";
        assert!(below.starts_with(figure), "{below}");
    }

    /// Symptom: a link test had MiB/s where all other pages and its own map have Mbit/s.
    #[test]
    fn a_link_test_has_bits_first_and_the_bandwidth_of_linktest_after_them() {
        let page = page_of(LINKTEST);
        let (_, tiles) = page.split_once("<ul class=\"tiles\">").unwrap();
        let (tiles, _) = tiles.split_once("</ul>").unwrap();
        for part in [tiles, section(&page, "links"), section(&page, "slowest")] {
            let (rate, bandwidth) = (part.find("bit/s").unwrap(), part.find("iB/s").unwrap());
            assert!(rate < bandwidth, "{part}");
        }
        assert!(!tiles.contains("iB/s</b>"), "{tiles}");
    }

    /// Symptom: the axes of patterns had no names, and the first screen had no figure of them.
    #[test]
    fn patterns_have_their_best_and_worst_on_the_first_screen_and_names_at_their_axes() {
        let page = page_of(PATTERNS);
        let (_, tiles) = page.split_once("<ul class=\"tiles\">").unwrap();
        let (tiles, _) = tiles.split_once("</ul>").unwrap();
        for text in [
            "table",
            "shortest time: ",
            "longest time: ",
            "highest throughput: PingPong, 2 ranks, ",
        ] {
            assert!(tiles.contains(text), "{text}: {tiles}");
        }
        let curves = section(&page, "patterns");
        for text in [
            ">time, us</text>",
            ">throughput, MB/s</text>",
            ">length of a message</text>",
        ] {
            assert!(curves.contains(text), "{text}");
        }
    }

    /// Symptom: "3 in 1 rounds", and "1 links at 81 %".
    #[test]
    fn one_of_something_is_not_several() {
        let page = page_of(LINKTEST);
        for part in ["<dd>3 in 1 round</dd>", "<title>1 link at "] {
            assert!(page.contains(part), "{part}: {page}");
        }
    }

    #[test]
    fn a_page_of_every_kind_has_its_contents_and_folds_hosts_and_options() {
        for text in [ACCEPTANCE, LINKTEST, LATENCY, PATTERNS] {
            let page = page_of(text);
            assert!(page.contains("<nav aria-label=\"Contents\">"), "{page}");
            let hosts = section(&page, "hosts");
            assert_eq!(hosts.matches("<tr>").count(), 2, "{hosts}");
            assert!(hosts.contains(">n[1-"), "{hosts}");
            assert!(section(&page, "conditions").contains(" in effect</summary>"));
        }
    }

    #[test]
    fn only_an_acceptance_that_passed_or_failed_has_lines_to_sign() {
        let mut record = json::read(ACCEPTANCE).unwrap();
        let is_signed = |record: &Record| {
            let page = write(record, None, &[]);
            page.contains("<section id=\"signatures\">")
        };
        assert!(is_signed(&record));
        record.verdict.word = VerdictWord::Undecided;
        assert!(!is_signed(&record));
        // This one was shortened.
        assert!(!is_signed(&json::read(LOSSES).unwrap()));
    }

    /// Symptom: `class=""` at each fact in the table of hosts.
    #[test]
    fn no_element_of_a_page_has_an_empty_class() {
        for text in [ACCEPTANCE, LINKTEST, LATENCY, PATTERNS] {
            let page = page_of(text);
            assert!(!page.contains("class=\"\""), "{page}");
            assert!(section(&page, "hosts").contains("<th>host</th>"), "{page}");
        }
    }

    /// Symptom: "0.0891 Gbit/s" in the cells of a map beside "89.15 Mbit/s".
    #[test]
    fn a_page_has_one_unit_for_the_rates_of_its_ports() {
        let page = page_of(SLOW_PAIR);
        assert!(section(&page, "pairs").contains("Mbit/s, and the share of the expected rate"));
        let (_, shown) = page.split_once("<body>").unwrap();
        assert!(!shown.contains("Gbit/s"), "{shown}");
    }
}
