//! The spread of port directions as bars, and the described figures.

use maud::{Markup, html};

use crate::record::Record;

use crate::report::{count, described};

use super::svg::{at, below};

const WIDTH: f64 = 900.0;
const HEIGHT: f64 = 150.0;
/// Shares that the table of port directions shows as well as bars would.
const FEW: usize = 16;
/// Horizontal room for the figures below the outermost bars.
const SIDE: f64 = 26.0;

/// Bars of one percent, and the described figures. Empty without figures.
pub(super) fn section(record: &Record) -> Markup {
    let figures = described::figures(record);
    if figures.is_empty() {
        return html! {};
    }
    let shares = described::shares(record);
    html! {
        section #spread {
            h2 { "Distribution" }
            @if shares.len() > FEW { (bars(&shares, "port direction", "share")) }
            p .note { "Described, never judged." }
            dl {
                @for (name, value) in figures { dt { (name) } dd { (value) } }
            }
        }
    }
}

/// The lowest whole percent of all shares, and the number of shares in each percent from there to the highest.
fn counts(shares: &[f64]) -> (u64, Vec<usize>) {
    let whole = |share: f64| numbers::whole((share * 100.0).clamp(0.0, 200.0).floor());
    let least = shares.iter().map(|share| whole(*share)).min().unwrap_or(0);
    let most = shares.iter().map(|share| whole(*share)).max().unwrap_or(0);
    let mut counts = vec![0; usize::try_from(most - least + 1).unwrap_or(1)];
    for share in shares {
        if let Ok(bin) = usize::try_from(whole(*share) - least) {
            counts[bin] += 1;
        }
    }
    (least, counts)
}

/// Counts of shares in bars of one percent: what one of them is of, and which share.
pub(super) fn bars(shares: &[f64], what: &str, share: &str) -> Markup {
    let (least, counts) = counts(shares);
    let most = counts.iter().copied().max().unwrap_or(1).max(1);
    let across = (WIDTH - 2.0 * SIDE) / counts.len().max(8) as f64;
    let every = counts.len().div_ceil(12).max(1);
    html! {
        div .wide tabindex="0" {
            svg .bars role="img" aria-label=(format!("{what}s by {share}")) viewBox=(format!("0 0 {WIDTH} {HEIGHT}")) {
                @for (bin, number) in counts.iter().enumerate() {
                    @let percent = least + bin as u64;
                    @let middle = SIDE + (bin as f64 + 0.5) * across;
                    @let height = *number as f64 / most as f64 * (HEIGHT - 40.0);
                    rect class={ "c" (super::heat::class_of(percent as f64 / 100.0)) }
                        x=(at(SIDE + bin as f64 * across + 1.0)) y=(at(HEIGHT - 22.0 - height))
                        width=(at(across - 2.0)) height=(at(height)) {
                        title { (count(*number, what)) " at " (percent) " %" }
                    }
                    @if *number > 0 && counts.len() <= 40 {
                        text x=(at(middle)) y=(at(HEIGHT - 26.0 - height)) text-anchor="middle" { (number) }
                    }
                    @if bin % every == 0 { (below(middle, HEIGHT - 6.0, &format!("{percent} %"))) }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_counted_by_whole_per_cents() {
        assert_eq!(
            counts(&[0.951, 0.959, 0.97, 1.01]),
            (95, vec![2, 0, 1, 0, 0, 0, 1])
        );
        assert_eq!(counts(&[f64::NAN]).1, vec![1]);
    }
}
