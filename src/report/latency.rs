//! Latencies of a fabric as text and tables: the plan, the latency of cables, the error of predictions, and slow cables.

use std::collections::BTreeMap;

use crate::judge::cables;
use crate::judge::names::and_more;
use crate::plan::latency::Latency;
use crate::record::{CableLatency, LatencyRecord, PairLatency, Record, SlowCable, Together};
use crate::units::{show_ns, show_us};

use super::{count, percent};

/// Fixed sentence on every latency sheet: the kind of test.
pub(crate) const FIXED_WORDS: &str = "software test from end hosts: round trips of messages between processes, delays within the hosts included";
/// Maximum number of cables shown; the CSV table has all of them.
const MOST_CABLES: usize = 10;
/// Maximum number of combinations shown.
const MOST_TOGETHER: usize = 10;

/// The summary of a record of latencies.
pub(crate) fn summary(record: &Record, plan: &Latency, latency: &LatencyRecord) -> String {
    let verdict = &record.verdict;
    let mut text = format!("{}  {}\n", verdict.word, verdict.reason);
    for (name, value) in planned(latency) {
        text += &format!("{name:11}{value}\n");
    }
    if !latency.cables.is_empty() {
        text += &slow(latency);
        text += &classes(latency);
        text += &slowest(latency);
        text += &together(latency);
        text += &close(record, plan, latency);
        text += &missing(latency);
    }
    if verdict.word.is_judged() {
        text += &format!("{FIXED_WORDS}\n");
    }
    text
}

/// Lines on the plan and on the time that the measurement took, each with its heading.
pub(crate) fn planned(latency: &LatencyRecord) -> Vec<(&'static str, String)> {
    let plan = &latency.planned;
    let absent = match latency.absent.len() {
        0 => String::new(),
        some => format!(", {some} absent"),
    };
    let fabric = format!(
        "{}: {} present{absent}, {}",
        plan.fabric,
        count(plan.hosts, "host"),
        count(plan.cables, "cable")
    );
    let rank = format!("{} of {} columns, {}", plan.rank, plan.used, plan.proof);
    let mut lines = vec![("fabric", fabric), ("rank", rank)];
    let bound = plan.bound.as_ref();
    let bound = bound.map(|(rounds, why)| format!("; a basis needs at least {rounds}: {why}"));
    let all = plan.pairs_of_hosts();
    let pairs = format!(
        "{} of {all} pairs in {} ({}){}",
        plan.pairs,
        count(plan.rounds, "round"),
        plan.strategy,
        bound.unwrap_or_default()
    );
    lines.push(("plan", pairs));
    if plan.left_out > 0 {
        let left_out = format!(
            "{} planned pairs of missing hosts were left out, {} others added",
            plan.left_out, plan.added
        );
        lines.push(("", left_out));
    }
    if !latency.cables.is_empty() {
        let noise = latency.sigma.map(|sigma| {
            format!(
                "; pairs fit within {:.2} % (standard deviation)",
                sigma * 100.0
            )
        });
        let broken = match latency.complete {
            true => "",
            false => "; isolated tests or tests of unplanned pairs ended early",
        };
        let measured = format!(
            "in {}{}{broken}",
            show_ns(latency.span_ns),
            noise.unwrap_or_default()
        );
        lines.push(("measured", measured));
    } else if !latency.pairs.is_empty() {
        let measured = format!(
            "{} of {} pairs before the run ended; nothing was calculated from them",
            latency.pairs.len(),
            plan.pairs
        );
        lines.push(("measured", measured));
    }
    lines
}

/// Slow cables, each with the figures that it was judged by.
fn slow(latency: &LatencyRecord) -> String {
    let mut text = String::new();
    for cable in latency.slow.iter().take(MOST_CABLES) {
        text += &format!(
            "slow       {}: {} one way, usual {} ({}), {:.1} standard deviations, {}, {}\n",
            cable.names(),
            show_us(cable.usual_s * (1.0 + cable.effect)),
            show_us(cable.usual_s),
            cables::longer(cable.effect),
            cable.score,
            count(cable.pairs, "pair"),
            if cable.confirmed {
                "confirmed in isolation"
            } else {
                "not confirmed in isolation"
            }
        );
    }
    let more = latency.slow.len().saturating_sub(MOST_CABLES);
    if more > 0 {
        text += &format!("           and {more} more\n");
    }
    text
}

/// The finding on a cable, if it is slow or cannot be distinguished from a slow one.
pub(crate) fn slow_of<'a>(
    latency: &'a LatencyRecord,
    cable: &CableLatency,
) -> Option<&'a SlowCable> {
    let mut slow = latency.slow.iter();
    slow.find(|slow| slow.name == cable.name || slow.or.contains(&cable.name))
}

/// Number, median and extremes of the cables of each class.
fn classes(latency: &LatencyRecord) -> String {
    let mut text = String::new();
    for (class, cables) in by_class(latency) {
        let middle = cables[cables.len() / 2];
        let (least, most) = (cables[0], cables[cables.len() - 1]);
        text += &format!(
            "class      {class}: {}, median {}, from {} ({}) to {} ({})\n",
            count(cables.len(), "cable"),
            show_us(value(middle)),
            show_us(value(least)),
            least.name,
            show_us(value(most)),
            most.name
        );
    }
    text
}

/// Identified cables of each class, the fastest first.
fn by_class(latency: &LatencyRecord) -> BTreeMap<&str, Vec<&CableLatency>> {
    let mut classes: BTreeMap<&str, Vec<&CableLatency>> = BTreeMap::new();
    for cable in identified(latency) {
        classes.entry(&cable.class).or_default().push(cable);
    }
    for cables in classes.values_mut() {
        cables.sort_by(|a, b| value(a).total_cmp(&value(b)));
    }
    classes
}

/// Cables whose own value is known.
fn identified(latency: &LatencyRecord) -> impl Iterator<Item = &CableLatency> {
    let cables = latency.cables.iter();
    cables.filter(|cable| cable.identified && cable.value_s.is_some())
}

fn value(cable: &CableLatency) -> f64 {
    cable.value_s.unwrap_or(0.0)
}

/// The cables with the highest latency relative to the median of their class.
fn slowest(latency: &LatencyRecord) -> String {
    let ranked = ranked(latency);
    if ranked.is_empty() {
        return String::new();
    }
    let shown = &ranked[..ranked.len().min(MOST_CABLES)];
    let widths = shown.iter().map(|(cable, _)| cable.name.chars().count());
    let wide = widths.max().unwrap_or(0);
    let mut text =
        String::from("slowest    one way, standard error, relative to the class median, pairs\n");
    for (cable, ratio) in shown {
        let error = cable.error_s.map_or("not known".to_owned(), |error| {
            format!("+- {}", show_us(error))
        });
        let name = &cable.name;
        text += &format!(
            "           {name:wide$}  {:>10}  {error:>13}  {:>7.2} x  {:>4}\n",
            show_us(value(cable)),
            ratio,
            cable.pairs
        );
    }
    text
}

/// Identified cables with the ratio of their latency to the median of their class, largest first.
pub(crate) fn ranked(latency: &LatencyRecord) -> Vec<(&CableLatency, f64)> {
    let classes = by_class(latency);
    let middle = |class: &str| {
        let cables = classes.get(class);
        cables.map_or(0.0, |cables| value(cables[cables.len() / 2]))
    };
    // If noise exceeds the latency, the median can be 0 or less, and a ratio to it says nothing.
    let ratio = |cable: &'_ CableLatency| value(cable) / middle(&cable.class);
    let sound = identified(latency).filter(|cable| middle(&cable.class) > 0.0);
    let mut all: Vec<(&CableLatency, f64)> = sound.map(|cable| (cable, ratio(cable))).collect();
    all.sort_by(|a, b| b.1.total_cmp(&a.1));
    all
}

/// Combinations of cables whose individual latencies cannot be determined.
fn together(latency: &LatencyRecord) -> String {
    let mut text = String::new();
    for one in latency.together.iter().take(MOST_TOGETHER) {
        text += &format!("together   {}\n", equation(one));
    }
    let more = latency.together.len().saturating_sub(MOST_TOGETHER);
    if more > 0 {
        text += &format!("           and {more} more (see the record)\n");
    }
    text
}

/// A combination of cables as an equation, with its latency and standard error.
pub(crate) fn equation(one: &Together) -> String {
    let error = one.error_s.map(|error| format!(" +- {}", show_us(error)));
    let terms = combination(&one.terms);
    // A cable's latency cannot be negative.
    let noise = if one.value_s < 0.0 {
        " (noise: below zero)"
    } else {
        ""
    };
    format!(
        "{terms} = {}{}{noise}",
        show_us(one.value_s),
        error.unwrap_or_default()
    )
}

/// Names of columns and their factors, as a sum.
pub(crate) fn combination(terms: &[(String, f64)]) -> String {
    let mut text = String::new();
    for (number, (name, times)) in terms.iter().enumerate() {
        let sign = match (number, *times < 0.0) {
            (0, false) => "",
            (0, true) => "-",
            (_, false) => " + ",
            (_, true) => " - ",
        };
        let size = times.abs();
        let factor = if (size - 1.0).abs() < 1e-9 {
            String::new()
        } else {
            format!("{size} ")
        };
        text += &format!("{sign}{factor}{name}");
    }
    text
}

/// Relative errors of the predictions for pairs that were not planned: the median of their absolute values, the largest error with its sign, and its
/// pair. Returns `None` if no such pair was measured.
pub(crate) fn differences(latency: &LatencyRecord) -> Option<(f64, f64, PairLatency)> {
    let off = |pair: &PairLatency| Some((pair.predicted_s? / pair.median_s - 1.0, *pair));
    let mut all: Vec<(f64, PairLatency)> = latency.checks.iter().filter_map(off).collect();
    all.sort_by(|a, b| a.0.abs().total_cmp(&b.0.abs()));
    let middle = all.get(all.len() / 2)?.0.abs();
    let (worst, pair) = *all.last()?;
    Some((middle, worst, pair))
}

/// Label of a fabric's host, or `host N` if it has no node in the plan.
pub(crate) fn host_name(record: &Record, plan: &Latency, host: u32) -> String {
    let node = plan.hosts.iter().position(|known| *known == host);
    let label = node.and_then(|node| record.plan.nodes.get(node));
    label.map_or_else(|| format!("host {host}"), |node| node.label.clone())
}

fn close(record: &Record, plan: &Latency, latency: &LatencyRecord) -> String {
    let Some((middle, worst, pair)) = differences(latency) else {
        return String::new();
    };
    let name = |host| host_name(record, plan, host);
    format!(
        "check      {}: predictions differ by {} in the median, {:+.1} % at most ({} and {}: {} predicted, {} measured)\n",
        count(latency.checks.len(), "unplanned pair"),
        percent(middle),
        worst * 100.0,
        name(pair.from),
        name(pair.to),
        show_us(pair.predicted_s.unwrap_or(0.0)),
        show_us(pair.median_s)
    )
}

fn missing(latency: &LatencyRecord) -> String {
    let mut text = String::new();
    for line in &latency.undecidable {
        text += &format!("not judged {line}\n");
    }
    if let Some(misfit) = &latency.misfit {
        text += &format!("misfit     {misfit}\n");
    }
    if !latency.absent.is_empty() {
        const MOST: usize = 10;
        let count = latency.absent.len();
        let names = latency.absent[..count.min(MOST)].join(", ");
        let more = and_more(count, MOST, " ");
        text += &format!("absent     {names}{more}\n");
    }
    text
}

/// The CSV table of cables. Times are in microseconds.
pub(crate) fn csv(latency: &LatencyRecord) -> Result<String, csv::Error> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record([
        "cable",
        "class",
        "one_way_us",
        "standard_error_us",
        "identified",
        "pairs",
        "slow",
    ])?;
    let us = |seconds: Option<f64>| {
        seconds.map_or_else(String::new, |seconds| format!("{:.4}", seconds * 1e6))
    };
    for cable in &latency.cables {
        writer.write_record([
            cable.name.clone(),
            cable.class.clone(),
            us(cable.value_s.filter(|_| cable.identified)),
            us(cable.error_s.filter(|_| cable.identified)),
            cable.identified.to_string(),
            cable.pairs.to_string(),
            match slow_of(latency, cable) {
                Some(slow) if slow.confirmed => "confirmed".to_owned(),
                Some(_) => "once".to_owned(),
                None => "no".to_owned(),
            },
        ])?;
    }
    super::cells::finish(writer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_of_less_than_nothing_is_said_to_be_noise() {
        let mut together = Together {
            terms: vec![("spine1-leaf1".to_owned(), 1.0), ("n1".to_owned(), -1.0)],
            value_s: -2e-7,
            error_s: Some(1e-6),
        };
        assert!(equation(&together).ends_with(" (noise: below zero)"));
        together.value_s = 2e-7;
        assert!(!equation(&together).contains("noise"));
    }

    #[test]
    fn a_cable_that_cannot_be_told_from_a_slow_one_is_slow_in_the_table_too() {
        let text = include_str!("../../tests/golden/latency/record.json");
        let mut record = crate::report::json::read(text).unwrap();
        let crate::record::Outcome::Latency(latency) = &mut record.outcome else {
            panic!("latencies");
        };
        let (slow, other) = (latency.slow[0].name.clone(), latency.cables.len() - 1);
        let other = latency.cables[other].name.clone();
        assert_ne!(slow, other);
        latency.slow[0].or = vec![other.clone()];
        let table = csv(latency).unwrap();
        let word = |name: &str| {
            let mut rows = table.lines().map(|row| row.split(','));
            let row = rows.find(|row| row.clone().next() == Some(name));
            row.unwrap().next_back().unwrap().to_owned()
        };
        assert_eq!(word(&other), word(&slow));
        assert_ne!(word(&slow), "no");
    }
}
