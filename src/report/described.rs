//! Figures that reports describe and never judge: the spread of port directions, and TCP's statistics of its paths.

use crate::plan::Purpose;
use crate::record::{LinkRecord, Record, TestRecord};
use crate::units::show_rate;
use numbers::spread::{Spread, percentile};

use super::figures::Figures;
use super::percent;

/// Names and values as text. Figures that were not measured are left out.
pub(super) fn figures(record: &Record) -> Vec<(&'static str, String)> {
    let mut figures = Vec::new();
    figures.extend(ports(record).map(|text| ("port directions", text)));
    figures.extend(goodput(record).map(|text| ("goodput", text)));
    let links: Vec<&LinkRecord> = loading_links(record).collect();
    figures.extend(rates(record).map(|text| ("links", text)));
    figures.extend(transfer(record).map(|text| ("transfer time ratio", text)));
    figures.extend(efficiency(&links).map(|text| ("TCP efficiency", text)));
    figures.extend(delay(&links).map(|text| ("round trips", text)));
    if !figures.is_empty() {
        figures.extend(skew(record).map(|text| ("uncertainty of rates", text)));
    }
    figures
}

/// The main figures in one line. Returns `None` if no link that crosses a switch has a known round trip time, and no test has sums of links.
pub(super) fn line(record: &Record) -> Option<String> {
    let links: Vec<&LinkRecord> = loading_links(record).collect();
    let mut parts = Vec::new();
    if let Some(spread) = Spread::of(&shares(record)).filter(|spread| spread.count > 1) {
        parts.push(format!(
            "port directions vary by {} (Jain {:.4})",
            percent(spread.variation),
            spread.jain
        ));
    }
    let (sums, round_trips) = (rates(record), round_trips(&links));
    if sums.is_none() && round_trips.is_none() {
        return None;
    }
    parts.extend(sums.map(|text| format!("links {text}")));
    parts.extend(round_trips.map(|(least, loaded)| {
        let (least, loaded) = (micros(least.median), micros(loaded.median));
        format!("round trip {least} at least, {loaded} loaded")
    }));
    parts.extend(once(&links).map(|(all, _)| format!("{all:.3} % of segments not retransmitted")));
    Some(format!("described, not judged: {}", parts.join("; ")))
}

/// Rates of the links of the first test that has too many to keep each.
fn rates(record: &Record) -> Option<String> {
    let (sums, rates) = loads(record).find_map(|test| {
        let sums = test.sums.as_ref()?;
        Some((sums, sums.rates.as_ref()?))
    })?;
    Some(format!(
        "{} at the median, {} at least, {} at most ({} links: the record keeps their sums and the slowest, and --matrix FILE writes all)",
        show_rate(rates.median_bits_per_s),
        show_rate(rates.least_bits_per_s),
        show_rate(rates.most_bits_per_s),
        sums.links
    ))
}

/// Links between hosts of all completed tests that load the fabric, so without loss tests and isolated tests.
fn loading_links(record: &Record) -> impl Iterator<Item = &LinkRecord> {
    let links = loads(record).flat_map(TestRecord::every_link);
    links.filter(|link| link.crosses_switch)
}

/// Completed tests that load the fabric, so without loss tests and isolated tests.
fn loads(record: &Record) -> impl Iterator<Item = &TestRecord> {
    let counted = record.counted().into_iter();
    counted.filter(|test| test.complete && record.plan.tests()[test.test].purpose != Purpose::Loss)
}

/// The least share of the expected rate of each port direction that has one.
pub(super) fn shares(record: &Record) -> Vec<f64> {
    let directions = record.sheet.directions();
    directions
        .filter_map(|(.., one)| one.share_under_load())
        .collect()
}

fn ports(record: &Record) -> Option<String> {
    let shares = shares(record);
    let spread = Spread::of(&shares).filter(|spread| spread.count > 1)?;
    let tails = percentile(&shares, 5.0).zip(percentile(&shares, 95.0));
    let tails = tails.map_or_else(String::new, |(low, high)| {
        format!(", 5th percentile {}, 95th {}", percent(low), percent(high))
    });
    Some(format!(
        "least {} of the expected rate, median {}, most {}{tails}; coefficient of variation {:.2} %, Jain's index {:.4}",
        percent(spread.least),
        percent(spread.median),
        percent(spread.most),
        spread.variation * 100.0,
        spread.jain
    ))
}

/// Goodput (RFC 8238, 7): payload that reached applications, divided by time. The figure is for the whole switch, which hides single ports.
fn goodput(record: &Record) -> Option<String> {
    let totals: Vec<f64> = loads(record)
        .map(|test| Figures::of(record, test))
        .filter(|figures| figures.crosses_switch)
        .map(|figures| figures.total_gbit_per_s)
        .collect();
    let spread = Spread::of(&totals)?;
    Some(format!(
        "{} to {} one way through the switch, test by test (RFC 8238; a total hides single ports)",
        show_rate(spread.least * 1e9),
        show_rate(spread.most * 1e9)
    ))
}

/// Transfer time ratio (RFC 6349, 4.1): actual time of a transfer divided by its ideal time. For equal windows it is the expected rate divided by
/// the actual rate.
fn transfer(record: &Record) -> Option<String> {
    let least = shares(record).into_iter().reduce(f64::min)?;
    (least > 0.0).then(|| {
        format!(
            "{:.3} on the slowest port direction (RFC 6349)",
            1.0 / least
        )
    })
}

/// What clocks that differ can change of a rate, in the test in which that is most.
fn skew(record: &Record) -> Option<String> {
    let tests = loads(record).filter_map(|test| {
        let window_ns = test.window_ns.filter(|window_ns| *window_ns > 0)?;
        let skew_ns = test.skew_ns? as f64;
        Some((skew_ns, 100.0 * skew_ns / window_ns as f64))
    });
    let (skew_ns, part) = tests.max_by(|one, other| one.1.total_cmp(&other.1))?;
    Some(format!(
        "within {part:.2} % (clock skew between nodes, {:.1} ms at most)",
        skew_ns / 1e6
    ))
}

/// TCP efficiency (RFC 6349, 4.2): segments sent minus segments retransmitted, divided by segments sent, in percent.
fn efficiency(links: &[&LinkRecord]) -> Option<String> {
    let (all, worst) = once(links)?;
    Some(format!(
        "{all:.3} % of segments not retransmitted, {worst:.3} % on the worst link (RFC 6349; under contention, retransmits are normal for TCP)"
    ))
}

/// Percentage of segments that were sent only once: over all links, and on the worst link.
fn once(links: &[&LinkRecord]) -> Option<(f64, f64)> {
    let passed = |link: &LinkRecord| {
        let (first, last) = link.tcp?;
        let sent = last.data_segments.saturating_sub(first.data_segments);
        let again = last.retransmits.saturating_sub(first.retransmits);
        (sent > 0).then_some((sent as f64, again as f64))
    };
    let all: Vec<(f64, f64)> = links.iter().filter_map(|link| passed(link)).collect();
    let of = |(sent, again): (f64, f64)| (1.0 - again / sent).max(0.0) * 100.0;
    let add = |sum: (f64, f64), one: &(f64, f64)| (sum.0 + one.0, sum.1 + one.1);
    let worst = all.iter().map(|one| of(*one)).reduce(f64::min)?;
    Some((of(all.iter().fold((0.0, 0.0), add)), worst))
}

/// Spread over links of the minimum round trip time and of the round trip time under load, in microseconds.
fn round_trips(links: &[&LinkRecord]) -> Option<(Spread, Spread)> {
    let known = links.iter().filter_map(|link| {
        let (_, last) = link.tcp?;
        let least = Some(last.min_rtt_us).filter(|rtt| *rtt > 0 && *rtt < 1 << 31)?;
        Some((least as f64, last.rtt_us as f64))
    });
    let (least, loaded): (Vec<f64>, Vec<f64>) = known.unzip();
    Spread::of(&least).zip(Spread::of(&loaded))
}

/// Buffer delay (RFC 6349, 4.3): excess of the round trip time under load over the minimum. The RFC gives it in percent of the minimum.
fn delay(links: &[&LinkRecord]) -> Option<String> {
    let (least, loaded) = round_trips(links)?;
    let delay = (loaded.median - least.median).max(0.0);
    let times = delay / least.median;
    let relative = match times < 9.995 {
        true => format!("{:.0} % of", times * 100.0),
        false => format!("{times:.0} times"),
    };
    Some(format!(
        "least seen {} (median over links), loaded {} (worst {}); buffer delay {}, {relative} the least (RFC 6349)",
        micros(least.median),
        micros(loaded.median),
        micros(loaded.most),
        micros(delay)
    ))
}

fn micros(us: f64) -> String {
    match us {
        ..1000.0 => format!("{us:.0} us"),
        _ => format!("{:.2} ms", us / 1000.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Symptom: "buffer delay 169700 %".
    #[test]
    fn a_buffer_delay_is_a_time() {
        let text = include_str!("../../tests/golden/slow-pair/record.json");
        let record: Record = serde_json::from_str(text).unwrap();
        let figures = figures(&record);
        let (_, said) = figures
            .iter()
            .find(|(name, _)| *name == "round trips")
            .unwrap();
        assert!(
            said.contains("; buffer delay 21.21 ms, 1697 times the least (RFC 6349)"),
            "{said}"
        );
    }

    /// Symptom: no page said how exact its rates are.
    #[test]
    fn the_uncertainty_of_rates_is_that_of_the_worst_test() {
        let text = include_str!("../../tests/golden/slow-receiver/record.json");
        let mut record: Record = serde_json::from_str(text).unwrap();
        for test in record.tests_mut() {
            (test.window_ns, test.skew_ns) = (Some(1_000_000_000), Some(100_000));
        }
        record.tests_mut()[1].skew_ns = Some(2_500_000);
        let figures = figures(&record);
        let (_, said) = figures.last().unwrap();
        assert_eq!(
            said,
            "within 0.25 % (clock skew between nodes, 2.5 ms at most)"
        );
    }

    /// Symptom: the summary of a run with sums had no line on its links, and did not say why.
    #[test]
    fn the_line_says_that_only_sums_of_links_are_kept() {
        use crate::record::{LinkRates, LinkSums};
        let text = include_str!("../../tests/golden/slow-receiver/record.json");
        let mut record: Record = serde_json::from_str(text).unwrap();
        for test in record.tests_mut() {
            test.sums = Some(LinkSums {
                links: 9000,
                rates: LinkRates::of(vec![1e6, 2e6, 3e6]),
                ..LinkSums::default()
            });
        }
        let said = line(&record).unwrap();
        let kept = "(9000 links: the record keeps their sums and the slowest, and --matrix FILE writes all)";
        assert!(said.contains(kept), "{said}");
    }
}
