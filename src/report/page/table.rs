//! The frame of the page's tables.

use maud::{Markup, html};

/// A table with a row of headings, which scrolls by itself where the page is narrow.
pub(super) fn table(head: Markup, rows: Markup) -> Markup {
    html! {
        div .wide {
            table {
                thead { tr { (head) } }
                tbody { (rows) }
            }
        }
    }
}
