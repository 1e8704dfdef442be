//! OpenMetrics text (version 1.0.0), for a file that a node exporter collects or a push gateway takes.
//!
//! No library writes this text: the known ones keep series in a hash table, and a report must be the same each time.

use crate::record::{DirectionSheet, Outcome, Record, SlowCable, VerdictWord};

use super::figures::Figures;

/// OpenMetrics text, written family by family.
#[derive(Default)]
pub(crate) struct Exposition {
    text: String,
}

/// Labels and value of a sample.
pub(crate) type Sample = (Vec<(&'static str, String)>, f64);

impl Exposition {
    /// Writes a family of gauges. A family without samples is left out. Where a name ends in a unit, that is the unit of the family.
    pub(crate) fn gauges(
        &mut self,
        name: &str,
        help: &str,
        samples: impl IntoIterator<Item = Sample>,
    ) {
        let mut samples = samples.into_iter().peekable();
        if samples.peek().is_none() {
            return;
        }
        let unit = match name.rsplit('_').next() {
            Some(unit @ ("seconds" | "ratio")) => format!("# UNIT {name} {unit}\n"),
            _ => String::new(),
        };
        self.text += &format!("# TYPE {name} gauge\n{unit}# HELP {name} {help}\n");
        for sample in samples {
            self.sample(name, sample);
        }
    }

    fn sample(&mut self, name: &str, (labels, value): Sample) {
        let escaped = |text: String| {
            let text = text.replace('\\', "\\\\").replace('"', "\\\"");
            text.replace('\n', "\\n")
        };
        let labels = labels.into_iter();
        let labels = labels.map(|(label, text)| format!("{label}=\"{}\"", escaped(text)));
        let labels = match labels.collect::<Vec<_>>().join(",") {
            none if none.is_empty() => none,
            some => format!("{{{some}}}"),
        };
        self.text += &format!("{name}{labels} {value}\n");
    }

    /// The whole text, with its end mark.
    pub(crate) fn finish(self) -> String {
        self.text + "# EOF\n"
    }
}

/// A sample without labels.
fn plain(value: f64) -> Sample {
    (Vec::new(), value)
}

/// The metrics of a record as OpenMetrics text.
pub fn write(record: &Record) -> String {
    let mut out = Exposition::default();
    out.text += "# TYPE pipebench_run info\n# HELP pipebench_run The run and its verdict.\n";
    let labels = vec![
        ("run", record.name()),
        ("verdict", record.verdict.word.to_string()),
        ("version", record.tool_version.clone()),
        ("digest", record.tool_digest.clone()),
    ];
    out.sample("pipebench_run_info", (labels, 1.0));
    out.gauges(
        "pipebench_run_started_seconds",
        "Start of the run, since 1970.",
        [plain(record.started_ms as f64 / 1e3)],
    );
    out.gauges(
        "pipebench_run_exit_code",
        "Exit code of the run.",
        [plain(f64::from(record.exit_code))],
    );
    let passed = record.verdict.word == VerdictWord::Pass;
    out.gauges(
        "pipebench_run_passed",
        "1 if the verdict is PASS.",
        [plain(f64::from(u8::from(passed)))],
    );
    ports(&mut out, record);
    faults(&mut out, record);
    let figure = record.sheet.figure;
    out.gauges(
        "pipebench_signed_bits_per_second",
        "Payload one way of the weakest port direction, both directions loaded: of an acceptance with PASS, the figure to sign.",
        figure.map(|figure| plain(figure.rate_bits_per_s)),
    );
    out.gauges(
        "pipebench_signed_ratio",
        "The same, as a share of the port's ceiling.",
        figure.map(|figure| plain(figure.rate_bits_per_s / figure.ceiling_bits_per_s)),
    );
    out.gauges(
        "pipebench_signed_wire_bits_per_second",
        "The same on the wire: with headers, gaps and acknowledgements.",
        figure.and_then(|figure| figure.wire_bits_per_s).map(plain),
    );
    tests(&mut out, record);
    out.finish()
}

fn ports(out: &mut Exposition, record: &Record) {
    let ports = record.sheet.ports.iter().flat_map(|port| {
        let both = port.directions();
        both.map(|(way, one)| (port.label.as_str(), way, one))
    });
    directions(out, "port", "port", &ports.collect::<Vec<_>>());
    let ceilings = record.sheet.ports.iter().filter_map(|port| {
        let labels = vec![("port", port.label.clone())];
        Some((labels, port.ceiling_bits_per_s?))
    });
    out.gauges(
        "pipebench_port_ceiling_bits_per_second",
        "Ceiling: the payload rate at the port's speed, with full segments one way and no reverse traffic.",
        ceilings,
    );
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
    label: &'static str,
    all: &[(&str, &str, Option<DirectionSheet>)],
) {
    let mut family = |figure: &str, help: &str, of: fn(&DirectionSheet) -> Option<f64>| {
        let name = format!("pipebench_{what}_{figure}");
        let samples = all.iter().filter_map(|(place, way, one)| {
            let value = one.as_ref().and_then(of);
            let value = value.filter(|value| value.is_finite())?;
            let labels = vec![
                (label, (*place).to_owned()),
                ("direction", (*way).to_owned()),
            ];
            Some((labels, value))
        });
        out.gauges(&name, help, samples);
    };
    family(
        "bits_per_second",
        "Payload one way in the test with the lowest share of the expected rate.",
        |one| Some(one.under_load().0),
    );
    family(
        "expected_bits_per_second",
        "Expected rate in that test.",
        |one| one.under_load().1,
    );
    family(
        "ratio",
        "Share of the expected rate; only if a test should have filled the direction.",
        DirectionSheet::share_under_load,
    );
}

fn faults(out: &mut Exposition, record: &Record) {
    out.gauges(
        "pipebench_not_as_ordered",
        "Number of findings on ports that are not as specified, or differ from all others.",
        [plain(record.sheet.order.len() as f64)],
    );
    let cables: &[SlowCable] = match &record.outcome {
        Outcome::Latency(latency) => &latency.slow,
        Outcome::Acceptance(_) | Outcome::Linktest(_) | Outcome::Imb(_) => &[],
    };
    let words = [
        VerdictWord::Fail,
        VerdictWord::Undecided,
        VerdictWord::HostLimited,
    ];
    let samples = words.map(|word| {
        let of_ports = record.sheet.faults.iter();
        let of_ports = of_ports.filter(|fault| fault.word == word);
        let of_cables = cables.iter().filter(|cable| match word {
            VerdictWord::Fail => cable.confirmed,
            VerdictWord::Undecided => !cable.confirmed,
            _ => false,
        });
        let count = of_ports.count() + of_cables.count();
        (vec![("word", word.to_string())], count as f64)
    });
    out.gauges(
        "pipebench_faults",
        "Number of faults by their verdict.",
        samples,
    );
}

fn tests(out: &mut Exposition, record: &Record) {
    let samples = record.tests().iter().map(|test| {
        let plan = &record.plan.tests()[test.test];
        let labels = vec![
            ("test", (test.test + 1).to_string()),
            ("pattern", plan.pattern.to_string()),
            ("purpose", plan.purpose.to_string()),
        ];
        (labels, Figures::of(record, test).total_gbit_per_s * 1e9)
    });
    out.gauges(
        "pipebench_test_bits_per_second",
        "Payload through the switch one way, all ports together; a total hides single ports.",
        samples,
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_escaped() {
        let mut out = Exposition::default();
        let labels = vec![("a", "b\"c\\d\ne".to_owned()), ("f", "g".to_owned())];
        out.sample("x", (labels, 1.5));
        out.sample("y", plain(2.0));
        assert_eq!(out.text, "x{a=\"b\\\"c\\\\d\\ne\",f=\"g\"} 1.5\ny 2\n");
    }
}
