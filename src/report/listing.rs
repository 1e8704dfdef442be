//! The list of runs: one row each, to find a particular run.

use crate::plan::RunPlan;
use crate::record::Record;
use crate::units::{show_age, show_rate, show_utc};

use super::figures::Figures;
use super::status::aligned;
use super::{count, directions, fold};

/// Column headings of the list.
const HEAD: [&str; 7] = [
    "run",
    "started (UTC)",
    "took",
    "nodes",
    "measured",
    "verdict",
    "weakest port",
];

/// One run, in the order of the column headings.
pub type Row = [String; 7];

/// The row of a run with its result.
pub fn row(name: &str, record: &Record) -> Row {
    let (parts, word) = record.outcome.parts();
    let judged = directions::weakest(record);
    let judged = judged.map(|text| text.replacen("weakest ", "", 1));
    let weakest = judged.or_else(|| {
        let figures = Figures::of(record, record.tests().first()?);
        let (port, direction, rate) = figures.weakest()?;
        Some(format!(
            "{} {direction} {}",
            port.label,
            show_rate(rate * 1e9)
        ))
    });
    [
        name.to_owned(),
        show_utc(record.started_ms),
        show_age(numbers::whole(record.outcome.measured_s().floor())),
        record.plan.nodes.len().to_string(),
        count(parts, word),
        record.verdict.word.to_string(),
        weakest.unwrap_or_default(),
    ]
}

/// The nodes of a plan, folded: `n[1-16]`.
pub(crate) fn hosts(plan: &RunPlan) -> String {
    let labels: Vec<String> = plan.nodes.iter().map(|node| node.label.clone()).collect();
    fold(&labels)
}

/// True if a folded list has a host of this name, with or without its domain. Ignores case.
pub(crate) fn has_host(hosts: &str, name: &str) -> bool {
    let is_it = |host: &str| {
        let (own, rest) = host.split_at_checked(name.len()).unwrap_or_default();
        own.eq_ignore_ascii_case(name) && (rest.is_empty() || rest.starts_with('.'))
    };
    let hosts = launcher::hosts::parse(hosts).unwrap_or_default();
    !name.is_empty() && hosts.iter().any(|host| is_it(&host.name))
}

/// Names of the hosts in a list that a user typed: names alone, without users, ports and nodes of this machine. The error is a sentence.
pub(crate) fn plain_hosts(text: &str) -> Result<Vec<String>, String> {
    let hosts = launcher::hosts::parse_typed(text).map_err(|error| error.to_string())?;
    let names = hosts.into_iter().map(|host| {
        let is_plain = !host.local && host.user.is_none() && host.port.is_none();
        is_plain.then_some(host.name)
    });
    names
        .collect::<Option<_>>()
        .ok_or_else(|| "give host names alone, such as n1,n2 or n[01-16]".to_owned())
}

/// All rows below their headings, as an aligned text table.
pub fn table(rows: &[Row]) -> String {
    aligned(HEAD, rows.to_vec(), &[3, 4])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::json;

    #[test]
    fn a_run_is_listed_with_what_its_kind_measured() {
        let of = |text: &str| {
            let row = row("run", &json::read(text).unwrap());
            (row[2].clone(), row[4].clone())
        };
        let linktest = of(include_str!("../../tests/golden/linktest/record.json"));
        let latency = of(include_str!("../../tests/golden/latency/record.json"));
        let patterns = of(include_str!("../../tests/golden/patterns/record.json"));
        let expected = |took: &str, measured: &str| (took.to_owned(), measured.to_owned());
        assert_eq!(linktest, expected("17 s", "1 round"));
        assert_eq!(latency, expected("0 s", "11 pairs"));
        assert_eq!(patterns, expected("7 s", "141 lines"));
    }
}
