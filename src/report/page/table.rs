//! The frame of the page's tables.

use maud::{Markup, html};

/// A table with a row of headings. On a narrow screen the table scrolls, not the page; it takes the focus, so that it
/// scrolls by keyboard too.
pub(super) fn table(head: Markup, rows: Markup) -> Markup {
    html! {
        div .wide tabindex="0" {
            table {
                thead { tr { (head) } }
                tbody { (rows) }
            }
        }
    }
}
