//! Rates of pairs: a matrix of colours, its legend, and its sums and slowest pairs as text.

use maud::{Markup, html};
use numbers::spread::median;

use crate::record::{Live, MEAN_S, MOST_IN_MATRIX};
use crate::units::{Scale, show_rate, sum};

/// Number of nodes above which pairs are shown by colour alone.
const MOST_IN_FIGURES: usize = 16;
/// Number of nodes above which no name has room. From [`MOST_IN_FIGURES`] on, each [`LABELLED`]th has.
const MOST_LABELLED: usize = 64;
const LABELLED: usize = 4;
/// Number of nodes above which cells are small.
const MOST_WIDE: usize = 32;
/// Number of slowest pairs in the text.
const SLOWEST: usize = 5;
/// Lower bounds of the colours, in percent of the reference.
const BOUNDS_PERCENT: [u64; 6] = [50, 70, 80, 90, 95, 98];

/// A pair: rate in bits per second, sending node, receiving node.
type Pair = (u64, usize, usize);

/// Rates of pairs in the last seconds.
pub(super) fn pairs(live: &Live) -> Markup {
    let pairs = all(live);
    if pairs.is_empty() {
        return html! {
            @if live.nodes.len() > MOST_IN_MATRIX { p .note { "The page shows rates of pairs for at most " (MOST_IN_MATRIX) " nodes." } }
        };
    }
    let scale = Scale::of(pairs.iter().map(|(rate, ..)| *rate).max().unwrap_or(0) as f64);
    let (reference, what) = reference(live, &pairs);
    html! {
        h2 { "Pairs" }
        p #sums .note { (sums(live, &pairs)) }
        p #slowest .note { (slowest(live, pairs)) }
        p .note {
            "Matrix in " span #unit { (scale.unit) } ", over the last " (MEAN_S) " seconds. Rows send, columns receive. Colours compare each pair with "
            (what) ", " (show_rate(reference)) ":"
        }
        (legend(reference, scale))
        div #cells .wide tabindex="0" role="group" aria-label="rates of pairs" aria-describedby="readout" {
            (matrix(live, reference, scale))
        }
        p #readout .note {} // The script writes it.
    }
}

fn all(live: &Live) -> Vec<Pair> {
    let rows = live.matrix_bits_per_s.iter().enumerate();
    let cells = rows.flat_map(|(from, row)| {
        let row = row.iter().enumerate();
        row.filter_map(move |(to, rate)| Some(((*rate)?, from, to)))
    });
    cells.collect()
}

/// Rate that the colours compare with, and its name. A share of the fastest pair would paint all others red as soon as one is fast.
fn reference(live: &Live, pairs: &[Pair]) -> (f64, &'static str) {
    match live.expected_pair_bits_per_s {
        Some(rate) => (rate as f64, "the expected rate"),
        None => {
            let mut rates: Vec<f64> = pairs.iter().map(|(rate, ..)| *rate as f64).collect();
            (median(&mut rates), "the median of all pairs")
        }
    }
}

fn name(live: &Live, node: usize) -> &str {
    live.nodes.get(node).map_or("", String::as_str)
}

/// Rates that nodes send and receive in these pairs. `None` for a node without a pair in that direction.
fn per_node(live: &Live, pairs: &[Pair]) -> [Vec<Option<u64>>; 2] {
    let mut sums = [(); 2].map(|()| vec![None; live.matrix_bits_per_s.len()]);
    for (rate, from, to) in pairs {
        for (sums, node) in sums.iter_mut().zip([from, to]) {
            if let Some(sum) = sums.get_mut(*node) {
                let sum: &mut u64 = sum.get_or_insert(0);
                *sum = sum.saturating_add(*rate);
            }
        }
    }
    sums
}

/// The sum of all pairs, and the nodes that send and receive least.
fn sums(live: &Live, pairs: &[Pair]) -> String {
    let least = |sums: &[Option<u64>]| {
        let nodes = sums.iter().enumerate();
        let least = nodes
            .filter_map(|(node, rate)| Some(((*rate)?, node)))
            .min();
        let (rate, node) = least.unwrap_or_default();
        format!("{}, {}", name(live, node), show_rate(rate as f64))
    };
    let [sent, received] = per_node(live, pairs).map(|sums| least(&sums));
    let total = show_rate(sum(pairs.iter().map(|(rate, ..)| *rate)) as f64);
    format!("All pairs together: {total}. Sends least: {sent}. Receives least: {received}.")
}

fn slowest(live: &Live, mut pairs: Vec<Pair>) -> String {
    pairs.sort_unstable();
    let named = pairs.iter().take(SLOWEST).map(|(rate, from, to)| {
        let (from, to) = (name(live, *from), name(live, *to));
        format!("{from} to {to}, {}", show_rate(*rate as f64))
    });
    let named: Vec<String> = named.collect();
    format!("Slowest pairs: {}.", named.join("; "))
}

/// Colours with their lowest share of the reference and the rate that it is.
fn legend(reference: f64, scale: Scale) -> Markup {
    let rate = |percent: u64| scale.show(reference * percent as f64 / 100.0);
    html! {
        ul .legend {
            li { span .swatch .c0 {} "below " (BOUNDS_PERCENT[0]) " %" }
            @for (class, percent) in (1..).zip(BOUNDS_PERCENT) {
                li { span class={ "swatch c" (class) } {} "from " (percent) " %: " (rate(percent)) }
            }
        }
    }
}

/// Matrix of pairs. A dense one shows no figures, but has them for the read-out.
fn matrix(live: &Live, reference: f64, scale: Scale) -> Markup {
    let rows = &live.matrix_bits_per_s;
    let is_dense = rows.len() > MOST_IN_FIGURES;
    let class = match rows.len() > MOST_WIDE {
        true => Some("dense fine"),
        false => is_dense.then_some("dense"),
    };
    let is_quiet =
        |node: usize| is_dense && (rows.len() > MOST_LABELLED || !node.is_multiple_of(LABELLED));
    let quiet = |node: usize| is_quiet(node).then_some("quiet");
    let [sent, received] = per_node(live, &all(live));
    let title = |does: &str, node: usize, sums: &[Option<u64>]| {
        let rate = sums.get(node).copied().flatten();
        rate.map(|rate| format!("{} {does} {}", name(live, node), show_rate(rate as f64)))
    };
    html! {
        table #matrix class=[class] aria-label="rates of pairs" {
            thead { tr {
                td {}
                @for to in 0..rows.len() {
                    th scope="col" class=[quiet(to)] title=[title("receives", to, &received)] { (name(live, to)) }
                }
            } }
            tbody {
                @for (from, row) in rows.iter().enumerate() {
                    tr {
                        th scope="row" class=[quiet(from)] title=[title("sends", from, &sent)] { (name(live, from)) }
                        @for rate in row {
                            td class=(shade(*rate, reference)) { @if let Some(rate) = rate { (scale.show(*rate as f64)) } }
                        }
                    }
                }
            }
        }
    }
}

fn shade(rate: Option<u64>, reference: f64) -> String {
    let Some(rate) = rate else {
        return "empty".to_owned();
    };
    let percent = rate as f64 * 100.0 / reference.max(1.0);
    let is_reached = |bound: &&u64| percent >= **bound as f64;
    let class = BOUNDS_PERCENT.iter().filter(is_reached).count();
    format!("c{class}")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nodes that send each other this rate.
    fn even(nodes: usize, rate: u64) -> Live {
        let cell = |from: usize, to: usize| (from != to).then_some(rate);
        let row = |from| -> Vec<Option<u64>> { (0..nodes).map(|to| cell(from, to)).collect() };
        Live {
            nodes: (0..nodes).map(|node| format!("n{node}")).collect(),
            matrix_bits_per_s: (0..nodes).map(row).collect(),
            ..Live::default()
        }
    }

    /// Number of cells of this class.
    fn cells(page: &str, class: &str) -> usize {
        page.matches(&format!("<td class=\"{class}\">")).count()
    }

    /// Symptom: 0.0841 Gbit/s for a pair at a port of 100 Mbit/s.
    #[test]
    fn a_slow_pair_is_no_fraction_of_a_gbit() {
        let mut live = even(2, 84_100_000);
        live.matrix_bits_per_s[1][0] = Some(150_000);
        let page = pairs(&live).into_string();
        for text in [
            "<span id=\"unit\">Mbit/s</span>",
            ">84.10<",
            ">0.15<",
            "Slowest pairs: n1 to n0, 150.0 kbit/s; n0 to n1, 84.10 Mbit/s.",
            "All pairs together: 84.25 Mbit/s. Sends least: n1, 150.0 kbit/s. Receives least: n0, 150.0 kbit/s.",
        ] {
            assert!(page.contains(text), "{text}: {page}");
        }
        assert!(!page.contains("class=\"\""), "{page}");
    }

    /// Symptom: one fast pair of twenty nodes painted nearly all others red.
    #[test]
    fn a_fast_pair_does_not_paint_the_others_red() {
        let mut live = even(20, 100_000_000);
        live.matrix_bits_per_s[3][4] = Some(1_000_000_000);
        live.matrix_bits_per_s[5][6] = Some(40_000_000);
        let page = pairs(&live).into_string();
        assert!(
            page.contains("the median of all pairs, 100.0 Mbit/s"),
            "{page}"
        );
        assert_eq!(cells(&page, "c6"), 20 * 19 - 1, "{page}");
        assert_eq!(cells(&page, "c0"), 1, "{page}");
        assert_eq!(cells(&page, "empty"), 20, "{page}");
    }

    /// Symptom: a fabric that was evenly at a tenth of its rate was all blue.
    #[test]
    fn an_evenly_slow_fabric_is_red_where_the_expected_rate_is_known() {
        let live = Live {
            expected_pair_bits_per_s: Some(1_000_000_000),
            ..even(3, 100_000_000)
        };
        let page = pairs(&live).into_string();
        assert_eq!(cells(&page, "c0"), 6, "{page}");
        assert!(page.contains("the expected rate, 1.00 Gbit/s"), "{page}");
    }

    /// Symptom: colours without figures.
    #[test]
    fn a_legend_has_the_rate_of_each_colour() {
        let page = pairs(&even(3, 10_000_000_000)).into_string();
        for text in [
            "<span class=\"swatch c0\"></span>below 50 %</li>",
            "<span class=\"swatch c1\"></span>from 50 %: 5.00</li>",
            "<span class=\"swatch c6\"></span>from 98 %: 9.80</li>",
        ] {
            assert!(page.contains(text), "{text}: {page}");
        }
    }

    /// Symptom: no names and no axes above 16 nodes.
    #[test]
    fn a_matrix_of_many_nodes_has_names() {
        for (nodes, quiet) in [(16, 0), (17, 2 * 12), (64, 2 * 48), (65, 2 * 65)] {
            let page = pairs(&even(nodes, 1000)).into_string();
            assert_eq!(page.matches("class=\"quiet\"").count(), quiet, "{nodes}");
            // The read-out has all names and sums.
            assert_eq!(page.matches(" scope=\"").count(), 2 * nodes, "{nodes}");
            assert_eq!(page.matches(" sends ").count(), nodes, "{nodes}");
        }
        let none = Live {
            nodes: vec![String::new(); MOST_IN_MATRIX + 1],
            ..Live::default()
        };
        let page = pairs(&none).into_string();
        assert!(page.contains("for at most 96 nodes"), "{page}");
    }
}
