//! Page that compares two runs.

use maud::{Markup, html};

use crate::report::compare::Comparison;
use crate::report::page::changes;
use crate::units::show_utc;
use crate::web::app::App;
use crate::web::guard::Asker;
use crate::web::state::State;

use super::{class_of, page};

/// Maximum number of rows of ports.
const MOST_ROWS: usize = 400;

/// Page with the choice of two runs, and their comparison. `chosen` has the names that the choice begins with.
pub(crate) fn compare(
    app: &App,
    asker: &Asker,
    runs: &[State],
    chosen: [&str; 2],
    comparison: Option<&Comparison>,
) -> Markup {
    let choice = |name: &str, label: &str, chosen: &str| {
        html! {
            label for=(name) { (label) }
            select #(name) name=(name) {
                @for run in runs {
                    option value=(run.name) selected[run.name == chosen] {
                        // A phone shows the first words alone.
                        @if let Some(at) = run.when_ms() { (show_utc(at)) " UTC, " }
                        (run.title)
                        @if let Some(word) = run.verdict { ", " (word) }
                    }
                }
            }
        }
    };
    let body = html! {
        h1 { "Compare two runs" }
        @if runs.len() < 2 { p { "A comparison needs two runs with figures." } } @else {
            form .fields action={ (app.base) "/compare" } {
                (choice("before", "Before", chosen[0]))
                (choice("now", "Now", chosen[1]))
                button { "Compare" }
            }
        }
        @if let Some(both) = comparison { (beside(app, both)) }
    };
    page(app, asker, "Compare", None, body)
}

fn beside(app: &App, both: &Comparison) -> Markup {
    html! {
        h2 {
            @for (index, name) in both.names.iter().enumerate() {
                @if index > 0 { " -> " }
                a href={ (app.base) "/runs/" (name) } { (name) }
                " " span .badge .(class_of(both.words[index])) { (both.words[index]) }
            }
        }
        @for text in &both.faults { p { (text) } }
        @if !both.new.is_empty() { p .complaint { "New faults: " (both.new.join(", ")) } }
        @if !both.conditions.is_empty() {
            h3 { "Conditions that differ" }
            ul { @for text in &both.conditions { li { (text) } } }
        }
        (changes(both, MOST_ROWS))
        @if both.rows.len() > MOST_ROWS { p .note { (both.rows.len() - MOST_ROWS) " more rows: pipebench compare prints them." } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::json;
    use crate::web::app::tests::app;
    use crate::web::state::tests::state;

    /// Symptom: on a phone the choice of two runs was cut off before their dates, by which they differ.
    #[test]
    fn a_choice_of_runs_begins_with_what_differs() {
        let folder = tempfile::tempdir().unwrap();
        let app = app(folder.path());
        let runs = ["pb-20261123-034713-f63c44", "pb-20261122-034713-f63c44"].map(state);
        let page = compare(&app, &Asker::default(), &runs, [""; 2], None).into_string();
        let option = ">2026-11-23 03:47:13 UTC, rack 7 - mesh, PASS</option>";
        assert_eq!(page.matches(option).count(), 4, "{page}");
    }

    /// Symptom: among two hundred rows no colour showed what had become worse, and no row how much all of it was.
    #[test]
    fn rows_that_became_worse_are_red_and_all_rows_have_a_total() {
        let folder = tempfile::tempdir().unwrap();
        let app = app(folder.path());
        let record = include_str!("../../../tests/golden/acceptance/record.json");
        let before = json::read(record).unwrap();
        let record = include_str!("../../../tests/golden/slow-receiver/record.json");
        let now = json::read(record).unwrap();
        let page = |now| {
            let both = Comparison::of(&before, now);
            compare(&app, &Asker::default(), &[], [""; 2], Some(&both)).into_string()
        };
        let worse = page(&now);
        let (_, rows) = worse
            .split_once("<tbody><tr class=\"total\"><td>sum of ")
            .unwrap();
        let rows: Vec<&str> = rows.split("</tr>").collect();
        assert!(
            rows[0].starts_with("8 rows</td>") && rows[0].contains(" %</td>"),
            "{worse}"
        );
        assert!(rows[1].contains("<td>n3 receive</td>"), "{worse}");
        assert!(rows[1].contains("data-word=\"FAIL\">-"), "{worse}");
        assert!(worse.contains("Red: worse by more than 5 %."), "{worse}");
        let same = page(&before);
        assert!(
            !same.contains("data-word=\"FAIL\">") && !same.contains("Red: "),
            "{same}"
        );
    }
}
