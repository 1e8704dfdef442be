//! OpenMetrics text (version 1.0.0), for a file that a node exporter collects or a push gateway takes.
//!
//! No library writes this text: the known ones keep series in a hash table, and a report must be the same each time.

use std::fmt::Write;

use crate::record::{DirectionSheet, Outcome, Record, SlowCable, VerdictWord};

use super::figures::Figures;

#[derive(Default)]
struct Exposition {
    text: String,
}

impl Exposition {
    /// Writes the head of a family of gauges.
    fn family(&mut self, name: &str, unit: &str, help: &str) {
        let unit_line = match unit {
            "" => String::new(),
            unit => format!("# UNIT {name} {unit}\n"),
        };
        self.push(&format!(
            "# TYPE {name} gauge\n{unit_line}# HELP {name} {help}\n"
        ));
    }

    fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: f64) {
        let mut line = name.to_owned();
        for (number, (label, text)) in labels.iter().enumerate() {
            let before = if number == 0 { '{' } else { ',' };
            let escaped = text
                .replace('\\', "\\\\")
                .replace('"', "\\\"")
                .replace('\n', "\\n");
            // Writing to a string cannot fail.
            match write!(line, "{before}{label}=\"{escaped}\"") {
                Ok(()) | Err(_) => {}
            }
        }
        let close = if labels.is_empty() { "" } else { "}" };
        self.push(&format!("{line}{close} {value}\n"));
    }

    fn push(&mut self, text: &str) {
        self.text.push_str(text);
    }
}

/// Function that reads a figure of a port direction.
type Figure = fn(&DirectionSheet) -> Option<f64>;

/// The metrics of a record as OpenMetrics text.
pub fn write(record: &Record) -> String {
    let mut out = Exposition::default();
    let run = record.name();
    let word = record.verdict.word.to_string();
    out.push(
        "# TYPE pipebench_run info\n# HELP pipebench_run What was run, and what came of it.\n",
    );
    let labels = [
        ("run", run.as_str()),
        ("verdict", &word),
        ("version", &record.tool_version),
        ("digest", &record.tool_digest),
    ];
    out.sample("pipebench_run_info", &labels, 1.0);
    out.family(
        "pipebench_run_started_seconds",
        "seconds",
        "Start of the run, since 1970.",
    );
    out.sample(
        "pipebench_run_started_seconds",
        &[],
        record.started_ms as f64 / 1e3,
    );
    out.family("pipebench_run_exit_code", "", "Exit code of the run.");
    out.sample("pipebench_run_exit_code", &[], f64::from(record.exit_code));
    out.family("pipebench_run_passed", "", "1 if the verdict is PASS.");
    let passed = record.verdict.word == VerdictWord::Pass;
    out.sample("pipebench_run_passed", &[], f64::from(u8::from(passed)));
    ports(&mut out, record);
    faults(&mut out, record);
    if let Some(figure) = record.sheet.figure {
        out.family(
            "pipebench_signed_bits_per_second",
            "",
            "The figure to sign: payload one way of the weakest port direction, both directions loaded.",
        );
        out.sample(
            "pipebench_signed_bits_per_second",
            &[],
            figure.rate_bits_per_s,
        );
        out.family(
            "pipebench_signed_ratio",
            "ratio",
            "The same, of what the port can carry.",
        );
        out.sample(
            "pipebench_signed_ratio",
            &[],
            figure.rate_bits_per_s / figure.ceiling_bits_per_s,
        );
        if let Some(wire) = figure.wire_bits_per_s {
            out.family(
                "pipebench_signed_wire_bits_per_second",
                "",
                "The same on the wire: with headers, gaps and what comes back.",
            );
            out.sample("pipebench_signed_wire_bits_per_second", &[], wire);
        }
    }
    tests(&mut out, record);
    out.push("# EOF\n");
    out.text
}

fn ports(out: &mut Exposition, record: &Record) {
    let ports = record.sheet.ports.iter().flat_map(|port| {
        let both = [("send", port.send), ("receive", port.receive)];
        both.map(|(way, one)| (port.label.as_str(), way, one))
    });
    directions(out, "port", "port", &ports.collect::<Vec<_>>());
    let ceilings = record.sheet.ports.iter();
    let ceilings: Vec<(&str, f64)> = ceilings
        .filter_map(|port| Some((port.label.as_str(), port.ceiling_bits_per_s?)))
        .collect();
    if !ceilings.is_empty() {
        out.family(
            "pipebench_port_ceiling_bits_per_second",
            "",
            "Payload that the port's speed allows, full segments one way and nothing back.",
        );
        for (port, ceiling) in ceilings {
            out.sample(
                "pipebench_port_ceiling_bits_per_second",
                &[("port", port)],
                ceiling,
            );
        }
    }
    let uplinks = record.sheet.uplinks.iter().flat_map(|uplink| {
        let both = [("out", uplink.up), ("in", uplink.down)];
        both.map(|(way, one)| (uplink.group.as_str(), way, one))
    });
    directions(out, "uplink", "group", &uplinks.collect::<Vec<_>>());
}

/// Writes the figures of port or uplink directions. `label` is the metric label that names the port or group.
fn directions(
    out: &mut Exposition,
    what: &str,
    label: &str,
    all: &[(&str, &str, Option<DirectionSheet>)],
) {
    let families: [(&str, &str, &str, Figure); 3] = [
        (
            "bits_per_second",
            "",
            "Payload one way in the test in which the direction carried least of what was expected.",
            |one| Some(one.rate_bits_per_s),
        ),
        (
            "expected_bits_per_second",
            "",
            "What was to be expected then.",
            |one| one.expected_bits_per_s,
        ),
        (
            "ratio",
            "ratio",
            "The one of the other; only where it should have been full.",
            |one| one.share,
        ),
    ];
    for (figure, unit, help, of) in families {
        let name = format!("pipebench_{what}_{figure}");
        let samples = all.iter().filter_map(|(place, way, one)| {
            let value = one
                .as_ref()
                .and_then(of)
                .filter(|value| value.is_finite())?;
            Some((place, way, value))
        });
        let samples: Vec<_> = samples.collect();
        if !samples.is_empty() {
            out.family(&name, unit, help);
            for (place, way, value) in samples {
                out.sample(&name, &[(label, place), ("direction", way)], value);
            }
        }
    }
}

fn faults(out: &mut Exposition, record: &Record) {
    out.family(
        "pipebench_not_as_ordered",
        "",
        "Findings of ports that are not as ordered, or differ from all others.",
    );
    out.sample(
        "pipebench_not_as_ordered",
        &[],
        record.sheet.order.len() as f64,
    );
    out.family("pipebench_faults", "", "Faults by what is said of them.");
    for word in [
        VerdictWord::Fail,
        VerdictWord::Undecided,
        VerdictWord::HostLimited,
    ] {
        let faults = record.sheet.faults.iter();
        let of_ports = faults.filter(|fault| fault.word == word).count();
        let cables: &[SlowCable] = match &record.outcome {
            Outcome::Latency(latency) => &latency.slow,
            Outcome::Acceptance(_) | Outcome::Linktest(_) | Outcome::Imb(_) => &[],
        };
        let of_cables = cables.iter().filter(|cable| match word {
            VerdictWord::Fail => cable.confirmed,
            VerdictWord::Undecided => !cable.confirmed,
            _ => false,
        });
        let count = of_ports + of_cables.count();
        out.sample(
            "pipebench_faults",
            &[("word", &word.to_string())],
            count as f64,
        );
    }
}

fn tests(out: &mut Exposition, record: &Record) {
    if record.tests().is_empty() {
        return;
    }
    out.family(
        "pipebench_test_bits_per_second",
        "",
        "Payload through the switch one way, all ports together; a total hides single ports.",
    );
    for test in record.tests() {
        let plan = &record.plan.tests()[test.test];
        let purpose = plan.purpose.to_string();
        let number = (test.test + 1).to_string();
        let pattern = plan.pattern.to_string();
        let labels = [
            ("test", number.as_str()),
            ("pattern", &pattern),
            ("purpose", &purpose),
        ];
        let total = Figures::of(record, test).total_gbit_per_s * 1e9;
        out.sample("pipebench_test_bits_per_second", &labels, total);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_escaped() {
        let mut out = Exposition::default();
        out.sample("x", &[("a", "b\"c\\d\ne"), ("f", "g")], 1.5);
        out.sample("y", &[], 2.0);
        assert_eq!(out.text, "x{a=\"b\\\"c\\\\d\\ne\",f=\"g\"} 1.5\ny 2\n");
    }
}
