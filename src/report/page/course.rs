//! Rates over time: the least, the median and the best port of every second, test after test.

use std::collections::BTreeSet;

use maud::{Markup, html};

use crate::plan::Purpose;
use crate::record::{Record, Second, TestRecord};
use crate::units::{SECOND_NS, Scale, gbit_per_s};
use numbers::spread::Spread;

use super::svg::{at, below, grid, path};

/// Maximum number of points across the picture.
const POINTS: usize = 1000;
const WIDTH: f64 = 900.0;
const HEIGHT: f64 = 220.0;
const LEFT: f64 = 64.0;
const BELOW: f64 = 34.0;

/// Receive rates of ports over one stretch, in Gbit/s.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Point {
    least: f64,
    median: f64,
    most: f64,
}

/// Number of a test from 1, its pattern, and its points.
type Part = (usize, String, Vec<Point>);

/// The points of all load tests of a run.
pub(super) struct Course {
    tests: Vec<Part>,
    /// Seconds that a point covers.
    stretch_s: u64,
}

impl Course {
    /// Collects the points of all tests that load the fabric.
    pub(super) fn of(record: &Record) -> Self {
        let loads: Vec<&TestRecord> = record
            .tests()
            .iter()
            .filter(|test| record.plan.tests()[test.test].purpose == Purpose::Load)
            .collect();
        let tests = loads.iter().map(|test| {
            let name = record.plan.tests()[test.test].pattern.to_string();
            let (columns, bytes_of) = columns(record, test);
            let seconds = test.seconds.iter();
            let points =
                seconds.filter_map(|second| point(bytes_of(second), &columns, test.stretch_s));
            (test.test + 1, name, points.collect::<Vec<_>>())
        });
        let tests = tests.filter(|(_, _, points)| points.len() > 1).collect();
        let stretch_s = loads.iter().map(|test| test.stretch_s).max().unwrap_or(1);
        let mut course = Self { tests, stretch_s };
        let all: usize = course.tests.iter().map(|(_, _, points)| points.len()).sum();
        let merged = all.div_ceil(POINTS).max(1);
        if merged > 1 {
            for (_, _, points) in &mut course.tests {
                *points = points.chunks(merged).map(merge).collect();
            }
            course.stretch_s = course.stretch_s.saturating_mul(merged as u64);
        }
        course
    }

    /// The picture; empty without points.
    pub(super) fn draw(&self) -> Markup {
        let count: usize = self.tests.iter().map(|(_, _, points)| points.len()).sum();
        if count == 0 {
            return html! {};
        }
        let all = || self.tests.iter().flat_map(|(_, _, points)| points);
        let top = all().map(|point| point.most).fold(0.0, f64::max) * 1.08;
        let top = if top > 0.0 { top } else { 1.0 };
        let across = (WIDTH - LEFT) / count as f64;
        let x = |place: f64| LEFT + place * across;
        let y = |rate: f64| HEIGHT - BELOW - rate / top * (HEIGHT - BELOW - 8.0);
        let lines = [0.0, 0.25, 0.5, 0.75, 1.0].map(|part| part * top / 1.08);
        let scale = Scale::of(top * 1e9);
        let mut begins = 0;
        let parts: Vec<(f64, &Part)> = self
            .tests
            .iter()
            .map(|test| {
                let at = begins as f64;
                begins += test.2.len();
                (at, test)
            })
            .collect();
        let named = parts.len() <= 12;
        let line = |begin: f64, points: &[Point], of: fn(&Point) -> f64| -> Vec<(f64, f64)> {
            let each = points.iter().enumerate();
            each.map(|(number, point)| (x(begin + number as f64 + 0.5), y(of(point))))
                .collect()
        };
        let band = |begin: f64, points: &[Point]| {
            let back = line(begin, points, |point| point.least);
            let around = line(begin, points, |point| point.most).into_iter();
            path(around.chain(back.into_iter().rev())) + "z"
        };
        html! {
            section #course {
                h2 { "Rate over time" }
                p .note {
                    "What ports received, per " @if self.stretch_s == 1 { "second" } @else { (self.stretch_s) " seconds" }
                    ": from the lowest to the highest port, the line is the median. Payload in " (scale.unit) "."
                }
                div .wide tabindex="0" {
                    svg .course role="img" aria-label="rates of ports over time" viewBox=(format!("0 0 {WIDTH} {HEIGHT}")) {
                        @for rate in lines {
                            (grid(LEFT, WIDTH, y(rate), &scale.show(rate * 1e9)))
                        }
                        @for (begin, (number, name, points)) in &parts {
                            path .band d=(band(*begin, points)) { title { "test " (number) ", " (name) } }
                            path .median d=(path(line(*begin, points, |point| point.median))) {}
                            @if *begin > 0.0 { line .edge x1=(at(x(*begin))) x2=(at(x(*begin))) y1="4" y2=(HEIGHT - BELOW) {} }
                            @if named { (below(x(begin + points.len() as f64 / 2.0), HEIGHT - BELOW + 16.0, &format!("{number}: {name}"))) }
                        }
                        @if !named {
                            text x=(LEFT) y=(HEIGHT - BELOW + 16.0) { "test " (parts.first().map_or(1, |part| part.1.0)) " to " (parts.last().map_or(1, |part| part.1.0)) }
                        }
                        text x=(WIDTH) y=(HEIGHT - 4.0) text-anchor="end" { ((count as u64).saturating_mul(self.stretch_s)) " s in all" }
                    }
                }
            }
        }
    }
}

/// Bytes of a second, by column.
type BytesOf = fn(&Second) -> &[u64];

/// The bytes of a second that a picture shows, and the columns in them that receive in a test: ports that receive from other hosts, or nodes that
/// receive from others on their host if no link crosses a switch.
fn columns(record: &Record, test: &TestRecord) -> (BTreeSet<usize>, BytesOf) {
    let plan = &record.plan.tests()[test.test];
    let rails = plan.rails.max(1);
    if let Some(sums) = &test.sums {
        let ports = sums.ports.iter().enumerate();
        let receive = ports.filter(|(_, [_, into])| into.links > 0);
        let receive = receive.map(|(port, _)| port);
        return match sums.crosses_switch {
            true => (receive.collect(), |second| &second.received_bytes),
            false => (receive.map(|port| port / rails).collect(), |second| {
                &second.same_host_bytes
            }),
        };
    }
    let crossing = test.links.iter().filter(|link| link.crosses_switch);
    let ports: BTreeSet<usize> = crossing
        .map(|link| link.lane.to * rails + plan.rail_of(link.lane.stream))
        .collect();
    if !ports.is_empty() {
        return (ports, |second| &second.received_bytes);
    }
    let others = test.links.iter().filter(|link| !link.lane.is_own());
    let nodes = others.map(|link| link.lane.to).collect();
    (nodes, |second| &second.same_host_bytes)
}

fn point(bytes: &[u64], columns: &BTreeSet<usize>, stretch_s: u64) -> Option<Point> {
    let stretch_ns = stretch_s.saturating_mul(SECOND_NS);
    let rates: Vec<f64> = columns
        .iter()
        .filter_map(|column| bytes.get(*column))
        .map(|bytes| gbit_per_s(*bytes, stretch_ns))
        .collect();
    let spread = Spread::of(&rates)?;
    Some(Point {
        least: spread.least,
        median: spread.median,
        most: spread.most,
    })
}

fn merge(points: &[Point]) -> Point {
    let mean = points.iter().map(|point| point.median).sum::<f64>() / points.len() as f64;
    Point {
        least: points
            .iter()
            .map(|point| point.least)
            .fold(f64::INFINITY, f64::min),
        median: mean,
        most: points.iter().map(|point| point.most).fold(0.0, f64::max),
    }
}
