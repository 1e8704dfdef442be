//! Parts of pictures that several sections draw: paths, grid lines and texts of axes.

use maud::{Markup, html};

/// A coordinate with one decimal.
pub(super) fn at(value: f64) -> String {
    format!("{value:.1}")
}

/// A path through points.
pub(super) fn path(points: impl IntoIterator<Item = (f64, f64)>) -> String {
    let points = points.into_iter().enumerate();
    points
        .map(|(number, (x, y))| {
            let word = if number == 0 { 'M' } else { 'L' };
            format!("{word}{x:.1} {y:.1}")
        })
        .collect()
}

/// A grid line at a height, with its text to the left.
pub(super) fn grid(left: f64, right: f64, y: f64, text: &str) -> Markup {
    html! {
        line .grid x1=(left) x2=(right) y1=(at(y)) y2=(at(y)) {}
        text x=(left - 6.0) y=(at(y + 4.0)) text-anchor="end" { (text) }
    }
}

/// A bar in a table's cell, as long as a share of the longest one.
pub(super) fn bar(share: f64) -> Markup {
    const WIDE: f64 = 120.0;
    let wide = share.clamp(0.0, 1.0) * WIDE;
    html! {
        svg .bar width=(WIDE) height="12" viewBox=(format!("0 0 {WIDE} 12")) aria-hidden="true" {
            rect .ground width=(WIDE) height="12" {}
            rect .filled width=(at(wide)) height="12" {}
        }
    }
}

/// A text below an axis, centred.
pub(super) fn below(x: f64, y: f64, text: &str) -> Markup {
    html! { text x=(at(x)) y=(y) text-anchor="middle" { (text) } }
}
