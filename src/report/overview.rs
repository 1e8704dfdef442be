//! Summary of several tests: a line per test, and the least rate that each port carried in any of them.

use crate::plan::{Pattern, Profile, Purpose};
use crate::record::{DirectionSheet, PortSheet, Record, TestRecord};
use crate::units::{Scale, show_rate};

use super::figures::Figures;
use super::{described, directions, judged, label_width, percent, wires, worst};

/// Maximum number of lines about interfaces; the record has all of them.
const MOST_WIRES: usize = 8;

/// A line per test. If a test crosses the switch: also a row per port and uplink, findings on interfaces, and the figure to sign.
pub(super) fn lines(record: &Record, tests: &[&TestRecord]) -> Vec<String> {
    let mut lines = Vec::new();
    let mut crosses = false;
    for test in tests {
        let plan = &record.plan.tests()[test.test];
        let figures = Figures::of(record, test);
        crosses |= figures.crosses_switch;
        let what = match figures.crosses_switch {
            true => "switch",
            false => "between nodes",
        };
        let paced = match plan.purpose {
            Purpose::Loss => ", paced",
            Purpose::Load | Purpose::Isolated | Purpose::Check => "",
        };
        let weakest = figures
            .weakest_but(&|port, direction| directions::is_at_fault(record, port, direction))
            .map_or_else(String::new, |(port, direction, rate)| {
                let rate = show_rate(rate * 1e9);
                format!("; weakest {} {direction} {rate}", port.label)
            });
        let state = if test.complete { "" } else { "  ended early" };
        lines.push(format!(
            "test {:>3}    {}, {} phases{paced}: {what} {} one way{weakest}{state}",
            test.test + 1,
            plan.pattern,
            plan.phases,
            show_rate(figures.total_gbit_per_s * 1e9),
        ));
        let alone = directions::without_partner(record, &figures);
        lines.extend(alone.map(|line| format!("{line} (test {})", test.test + 1)));
    }
    if !crosses {
        return lines; // No port carried traffic, so there is nothing to sign.
    }
    let sheet = &record.sheet;
    let width = label_width(sheet.ports.iter().map(|port| &port.label));
    let most = sheet.directions().map(|(.., one)| one.most_bits_per_s);
    let scale = Scale::of(most.fold(0.0, f64::max));
    let heads = ["send", "receive"].map(|way| format!("{way} {}, least to most", scale.unit));
    // The lowest rate of a sound direction leaves out tests in which something else limited it, and `limited` below names a lower one.
    let leaves_out = |one: &DirectionSheet| one.limited.is_some_and(|limited| !limited.always);
    let without = match sheet.directions().any(|(.., one)| leaves_out(&one)) {
        true => "; without tests that another fault limited",
        false => "",
    };
    lines.push(format!(
        "{:width$}  {:<36}  {:<36}  (lowest share of the expected rate, test{without})",
        "host", heads[0], heads[1]
    ));
    let cell = |one: &Option<DirectionSheet>| match one {
        None => format!("{:<36}", "-"),
        Some(one) => {
            let (rate, _, test) = one.under_load();
            let test = test.saturating_add(1);
            let share = one
                .share_under_load()
                .map(|share| format!("{}, test {test}", percent(share)));
            let share = share.unwrap_or_default();
            let least = scale.show(rate);
            let most = scale.show(one.most_bits_per_s);
            format!("{:<16}  {share:<18}", format!("{least} to {most}"))
        }
    };
    let share = |port: &&PortSheet| {
        let both = [port.send, port.receive].into_iter().flatten();
        let shares = both.map(|one| one.share_under_load().unwrap_or(f64::INFINITY));
        shares.fold(f64::INFINITY, f64::min)
    };
    let (shown, more) = worst(sheet.ports.iter().collect(), share);
    for port in shown {
        let words = directions::words(record, &port.label);
        lines.push(format!(
            "{:width$}  {}  {}{words}",
            port.label,
            cell(&port.send),
            cell(&port.receive)
        ));
    }
    lines.extend(more);
    for uplink in &sheet.uplinks {
        let label = format!("uplink {}", uplink.group);
        let (up, down) = (cell(&uplink.up), cell(&uplink.down));
        lines.push(format!("{label:width$}  {up}  {down}"));
    }
    lines.extend(directions::limited(record));
    lines.extend(wires::of_all(record, tests).into_iter().take(MOST_WIRES));
    lines.extend(to_sign(record));
    lines
}

/// True if an acceptance run has load tests with one link per port (shifts) and load tests with another pattern.
fn is_comparable(record: &Record) -> bool {
    let loads = || {
        let tests = record.plan.tests().iter();
        tests.filter(|test| test.purpose == Purpose::Load)
    };
    let shifts = |test: &&crate::plan::Test| matches!(test.pattern, Pattern::Shift(_));
    let acceptance = record.plan.acceptance();
    acceptance.is_some_and(|acceptance| acceptance.profile == Profile::Acceptance)
        && loads().any(|test| shifts(&test))
        && loads().any(|test| !shifts(&test))
}

/// The figure to sign, the cost of contention, the described figures, and the kind of test.
fn to_sign(record: &Record) -> Vec<String> {
    let sheet = &record.sheet;
    let mut lines = Vec::new();
    if let (Some(figure), Some(said)) = (sheet.figure, directions::to_sign(record)) {
        let name = directions::name_of_figure(record);
        lines.push(format!("{name}: {said} (test {})", figure.test + 1));
    }
    if let Some(contention) = sheet.contention {
        let way = if contention.sends { "send" } else { "receive" };
        lines.push(format!(
            "contention: with all links at once, {} {way} carries {} of its rate with one link at a time",
            sheet.label(contention.port),
            percent(contention.share)
        ));
    } else if is_comparable(record) {
        lines.push(
            "contention: not known (links per port differ, or a host was at its limit)".to_owned(),
        );
    }
    lines.extend(described::line(record));
    lines.push(judged::FIXED_WORDS.to_owned());
    lines
}
