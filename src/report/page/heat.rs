//! The map of pairs: rows send, columns receive. It is readable with 3 hosts, where cells show figures, and with 256, where they are runs of colour.

use std::collections::BTreeMap;

use maud::{Markup, html};

use crate::judge::view::View;
use crate::record::Record;
use crate::report::percent;
use crate::units::{Scale, show_rate};

/// Maximum number of ports for which cells show their figures.
const FIGURES_TO: usize = 12;
/// Maximum number of ports for which each cell is a separate element that shows text when pointed at.
const CELLS_TO: usize = 64;
/// Bounds of the classes of shares: one class below each bound, and one from the last bound on.
pub(super) const BOUNDS: [f64; 6] = [0.5, 0.7, 0.8, 0.9, 0.95, 0.98];

/// Figures of a pair.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Cell {
    /// Payload rate in bits per second.
    pub rate: f64,
    /// Share of the expected rate, or of the best pair's rate if port speeds are unknown, or of the median link between ranks.
    pub share: f64,
    /// Index of the test, or of the step of a link test.
    pub test: usize,
}

/// All pairs of ports or ranks.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Heat {
    /// Names of the ports or ranks.
    pub labels: Vec<String>,
    /// Cells by sending and receiving port or rank.
    pub cells: BTreeMap<(usize, usize), Cell>,
    /// Kind of rows and columns.
    pub kind: Kind,
}

/// Kind of rows and columns of a map.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Ports of hosts.
    Ports {
        /// True if shares are relative to the best pair.
        relative: bool,
        /// True if pairs were measured with one link each way at every port.
        single: bool,
    },
    /// Ranks of a link test; shares are relative to the median link.
    Ranks {
        /// True if both directions were busy at once and figures count both.
        both: bool,
    },
}

impl Heat {
    /// The least that each pair carried: in permutations if the run has any, else in all load tests.
    pub(super) fn of(record: &Record) -> Self {
        let view = View::of(&record.plan, &record.hosts, record.measured());
        let loads = || {
            let all = view.observations.iter();
            all.filter(|one| !one.isolated && !one.paced)
        };
        let single = loads().any(|one| one.is_single(&view.fabric));
        let alike = loads().filter(|one| one.is_single(&view.fabric) == single);
        let measured = alike.flat_map(|observation| {
            let shares = observation.shares();
            let links = observation.links.iter();
            links.map(move |link| {
                let pair = (link.from, link.to);
                let share = shares.get(&pair).map(|share| share.part());
                let cell = Cell {
                    rate: link.rate,
                    share: share.unwrap_or(f64::NAN),
                    test: observation.test,
                };
                (pair, cell)
            })
        });
        let (cells, relative) = least(&measured.collect::<Vec<_>>());
        Self {
            labels: view.ports.iter().map(|port| port.label.clone()).collect(),
            cells,
            kind: Kind::Ports { relative, single },
        }
    }

    /// The map with its legend; empty if no traffic crossed a switch.
    pub(super) fn draw(&self) -> Markup {
        if self.cells.is_empty() {
            return html! {};
        }
        html! {
            section #pairs {
                h2 { (self.title()) }
                p .note { (self.note()) }
                (self.legend())
                div .wide tabindex="0" { (self.picture()) }
            }
        }
    }

    fn title(&self) -> &'static str {
        match self.kind {
            Kind::Ports { .. } => "Pairs",
            Kind::Ranks { .. } => "Links between ranks",
        }
    }

    /// The unit of the figures in cells.
    fn scale(&self) -> Scale {
        let rates = self.cells.values().map(|cell| cell.rate);
        Scale::of(rates.fold(0.0, f64::max))
    }

    fn note(&self) -> String {
        let unit = self.scale().unit;
        let (relative, single) = match self.kind {
            Kind::Ports { relative, single } => (relative, single),
            Kind::Ranks { both } => {
                let count = if both { ", both ways together" } else { "" };
                return format!(
                    "Rows start, columns are their partners; {unit}{count}, and the median time of all links divided by that of the link."
                );
            }
        };
        let what = match single {
            true => "one partner at a time: the lowest rate of all permutations",
            false => {
                "all at once, and connections share ports unevenly: look for whole rows or columns"
            }
        };
        let of = match relative {
            true => "of the best pair (port speeds are unknown)",
            false => "of the expected rate",
        };
        let rates = match self.labels.len() <= FIGURES_TO {
            true => format!("{unit}, and the "),
            false => String::new(),
        };
        format!("Rows send, columns receive; {what}; {rates}share {of}.")
    }

    fn legend(&self) -> Markup {
        let percent = |bound: f64| format!("{:.0}", bound * 100.0);
        let words = (0..=BOUNDS.len()).map(|class| match class {
            0 => format!("below {} %", percent(BOUNDS[0])),
            last if last == BOUNDS.len() => format!("{} % and more", percent(BOUNDS[last - 1])),
            class => format!(
                "{} to {} %",
                percent(BOUNDS[class - 1]),
                percent(BOUNDS[class])
            ),
        });
        html! {
            ul .legend {
                @for (class, words) in words.enumerate() {
                    li { span class={ "swatch c" (class) } {} (words) }
                }
            }
        }
    }

    fn picture(&self) -> Markup {
        let ports = self.labels.len();
        // Room for names, in widths of a cell.
        let longest = self.labels.iter().map(String::len).max().unwrap_or(0);
        let letter = match ports {
            0..=FIGURES_TO => 0.22,
            13..=CELLS_TO => 0.62,
            _ => ports as f64 / 90.0,
        };
        let room = longest as f64 * letter * 0.62 + letter;
        let side = ports as f64 + room + 0.1;
        let step = if ports <= CELLS_TO {
            1
        } else {
            ports.div_ceil(32)
        };
        let named = || (0..ports).step_by(step);
        let width = match ports {
            0..=FIGURES_TO => side * 64.0,
            13..=CELLS_TO => (side * 14.0).max(480.0),
            _ => 900.0,
        };
        html! {
            svg .heat role="img" aria-label="share of the expected rate, pair by pair"
                viewBox=(format!("0 0 {side:.2} {side:.2}")) width=(format!("{width:.0}")) font-size=(format!("{letter:.2}")) {
                @for port in named() {
                    @let middle = room + port as f64 + 0.5;
                    text .name x=(format!("{:.2}", room - letter / 3.0)) y=(format!("{:.2}", middle + letter * 0.35)) text-anchor="end" { (self.labels[port]) }
                    text .name transform=(format!("translate({:.2} {:.2}) rotate(-90)", middle + letter * 0.35, room - letter / 3.0)) { (self.labels[port]) }
                }
                g transform=(format!("translate({room:.2} {room:.2})")) {
                    rect .ground width=(ports) height=(ports) {}
                    @if ports <= CELLS_TO { (self.cells()) } @else { (self.runs()) }
                }
            }
        }
    }

    fn cells(&self) -> Markup {
        let figures = self.labels.len() <= FIGURES_TO;
        let scale = self.scale();
        html! {
            @for ((from, to), cell) in &self.cells {
                rect class={ "c" (class_of(cell.share)) } x=(to) y=(from) width="1" height="1" {
                    title { (self.words(*from, *to, cell)) }
                }
                @if figures {
                    text class={ "in c" (class_of(cell.share)) } x=(format!("{:.2}", *to as f64 + 0.5)) y=(format!("{:.2}", *from as f64 + 0.48)) text-anchor="middle" {
                        (scale.show(cell.rate))
                    }
                    text class={ "in c" (class_of(cell.share)) } x=(format!("{:.2}", *to as f64 + 0.5)) y=(format!("{:.2}", *from as f64 + 0.76)) text-anchor="middle" {
                        (format!("{:.0} %", cell.share * 100.0))
                    }
                }
            }
        }
    }

    fn words(&self, from: usize, to: usize, cell: &Cell) -> String {
        let place = match self.kind {
            Kind::Ports { .. } => "test",
            Kind::Ranks { .. } => "step",
        };
        format!(
            "{} to {}: {}, {} ({place} {})",
            self.labels[from],
            self.labels[to],
            show_rate(cell.rate),
            percent(cell.share),
            cell.test.saturating_add(1)
        )
    }

    /// Draws neighbours of one class as one shape, and all shapes of a class as one path.
    fn runs(&self) -> Markup {
        let mut paths = vec![String::new(); BOUNDS.len() + 1];
        let cells = self.cells.iter();
        let cells: Vec<(usize, usize, usize)> = cells
            .map(|((from, to), cell)| (class_of(cell.share), *from, *to))
            .collect();
        for run in cells.chunk_by(|one, next| (one.0, one.1, one.2 + 1) == *next) {
            let ((class, row, column), length) = (run[0], run.len());
            paths[class].push_str(&format!("M{column} {row}h{length}v1h-{length}z"));
        }
        html! {
            @for (class, path) in paths.iter().enumerate() {
                @if !path.is_empty() { path class={ "c" (class) } d=(path) {} }
            }
        }
    }
}

/// The least that each pair carried, by shares. True if a share is unknown (not a number): then by rates, and shares are of the best pair.
fn least(measured: &[((usize, usize), Cell)]) -> (BTreeMap<(usize, usize), Cell>, bool) {
    let relative = measured.iter().any(|(_, cell)| cell.share.is_nan());
    let mut cells: BTreeMap<(usize, usize), Cell> = BTreeMap::new();
    for (pair, cell) in measured {
        let known = cells.entry(*pair).or_insert(*cell);
        let is_less = match relative {
            true => cell.rate < known.rate,
            false => cell.share < known.share,
        };
        if is_less {
            *known = *cell;
        }
    }
    if relative {
        let most = cells.values().map(|cell| cell.rate).fold(0.0, f64::max);
        for cell in cells.values_mut() {
            cell.share = if most > 0.0 { cell.rate / most } else { 0.0 };
        }
    }
    (cells, relative)
}

/// The class of a share, from 0 (below all [`BOUNDS`]) upwards.
pub(super) fn class_of(share: f64) -> usize {
    BOUNDS.iter().filter(|bound| share >= **bound).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_have_the_class_between_their_bounds() {
        let classes = [0.0, 0.49, 0.5, 0.9, 0.979, 0.98, 1.2].map(class_of);
        assert_eq!(classes, [0, 0, 1, 4, 5, 6, 6]);
    }

    #[test]
    fn a_share_that_becomes_unknown_midway_changes_the_measure_of_all_pairs() {
        let cell = |rate, share| Cell {
            rate,
            share,
            test: 0,
        };
        let mut measured = vec![((0, 1), cell(10.0, 0.5)), ((0, 1), cell(8.0, 0.9))];
        assert_eq!(least(&measured).0[&(0, 1)].rate, 10.0);
        measured.push(((1, 0), cell(16.0, f64::NAN)));
        let (cells, relative) = least(&measured);
        assert!(relative);
        assert_eq!((cells[&(0, 1)].rate, cells[&(0, 1)].share), (8.0, 0.5));
        assert_eq!(cells[&(1, 0)].share, 1.0);
    }

    #[test]
    fn neighbours_of_a_class_are_one_shape() {
        let cell = |share| Cell {
            rate: 1e9,
            share,
            test: 0,
        };
        let ports = CELLS_TO + 1;
        let mut cells = BTreeMap::new();
        for to in 1..ports {
            cells.insert((0, to), cell(if to == 3 { 0.4 } else { 1.0 }));
        }
        let heat = Heat {
            labels: vec!["n".to_owned(); ports],
            cells,
            kind: Kind::Ports {
                relative: false,
                single: true,
            },
        };
        let text = heat.runs().into_string();
        assert_eq!(
            text,
            "<path class=\"c0\" d=\"M3 0h1v1h-1z\"></path><path class=\"c6\" d=\"M1 0h2v1h-2zM4 0h61v1h-61z\"></path>"
        );
    }
}
