//! One table: a row per port direction, a row per link, a row for the total. Units are in the column names; tests are counted from 1, as in every
//! text.

use crate::record::{LinkRecord, Record, TestRecord};
use crate::sys::socket::TcpInfo;
use crate::units::sum;

use super::figures::{Direction, Figures, rate};

const COLUMNS: [&str; 33] = [
    "row",
    "test",
    "node",
    "direction",
    "boundary",
    "from",
    "to",
    "stream",
    "transport",
    "crosses_switch",
    "bytes",
    "interval_s",
    "gbit_per_s",
    "whole_run_bytes_sent",
    "whole_run_bytes_received",
    "held_by",
    "waiting_for_block_s",
    "in_write_s",
    "pacing_s",
    "in_read_s",
    "waiting_for_slot_s",
    "retransmits",
    "rtt_us",
    "cwnd_segments",
    "mss_bytes",
    "tcp_busy_s",
    "tcp_window_limited_s",
    "tcp_buffer_limited_s",
    "cpu_s",
    "rail",
    "interface",
    "datapath",
    "purpose",
];

/// The table of a record.
pub fn write(record: &Record) -> Result<String, csv::Error> {
    if record.tests.is_empty() && !record.latencies.is_empty() {
        return super::latency::csv(record);
    }
    if record.tests.is_empty() && !record.patterns.is_empty() {
        return super::imb::csv(record);
    }
    if record.tests.is_empty() && !record.jobs.is_empty() {
        return super::linktest::table::csv(record);
    }
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(COLUMNS)?;
    for test in &record.tests {
        let figures = Figures::of(record, test);
        for port in &figures.ports {
            let sums = [
                (Direction::Send, port.send_gbit_per_s),
                (Direction::Receive, port.receive_gbit_per_s),
            ];
            for (direction, gbit_per_s) in sums {
                let mut row = blank(record, "port", test);
                row[2].clone_from(&port.label);
                row[3] = direction.to_string();
                row[12] = decimal(gbit_per_s);
                if direction == Direction::Send {
                    row[21] = port
                        .retransmits
                        .map(|count| count.to_string())
                        .unwrap_or_default();
                }
                let measured = port
                    .nodes
                    .iter()
                    .filter_map(|node| test.nodes[*node].as_ref());
                // CPU time belongs to the host; it stands once, at its first port.
                if port.rail == 0 {
                    row[28] = seconds(sum(measured.map(|node| match direction {
                        Direction::Send => node.cpu.senders_ns,
                        Direction::Receive => node.cpu.receivers_ns,
                    })));
                }
                let host = port.nodes.first().and_then(|node| record.hosts.get(*node));
                let rail = host.and_then(|host| host.rails.get(port.rail));
                row[29] = port.rail.to_string();
                row[30] = rail
                    .and_then(|rail| rail.interface.clone())
                    .unwrap_or_default();
                writer.write_record(&row)?;
            }
        }
        for link in &test.links {
            writer.write_record(link_row(record, test, link))?;
        }
        for (node, measured) in test.nodes.iter().enumerate() {
            // Nodes of one host read the same counters.
            let first = record.hosts[node].host_index == node;
            for (name, counters) in measured
                .iter()
                .filter(|_| first)
                .flat_map(|one| &one.interfaces)
            {
                let both = [
                    (Direction::Send, counters.sent_bytes),
                    (Direction::Receive, counters.received_bytes),
                ];
                for (direction, bytes) in both {
                    let mut row = blank(record, "interface", test);
                    row[2].clone_from(&record.plan.nodes[node].label);
                    row[3] = direction.to_string();
                    row[10] = bytes.to_string();
                    row[30].clone_from(name);
                    writer.write_record(&row)?;
                }
            }
        }
        let mut row = blank(record, "total", test);
        row[9] = figures.crosses_switch.to_string();
        row[12] = decimal(figures.total_gbit_per_s);
        writer.write_record(&row)?;
    }
    finish(writer)
}

/// The text of a table. A spreadsheet takes a cell that begins with one of these letters for a formula and runs it, and some separate cells by
/// semicolons or tabs: names of hosts get an apostrophe before the letter, which spreadsheets do not show. Numbers stay as they are.
pub(super) fn finish(writer: csv::Writer<Vec<u8>>) -> Result<String, csv::Error> {
    let written = writer.into_inner().map_err(|error| error.into_error())?;
    let harmless = |cell: &[u8]| -> Vec<u8> {
        let is_number = || std::str::from_utf8(cell).is_ok_and(|text| text.parse::<f64>().is_ok());
        let (mut safe, mut begins) = (
            Vec::with_capacity(cell.len()),
            cell.len() > 1 && !is_number(),
        );
        for byte in cell {
            if begins && b"=+-@\t\r".contains(byte) {
                safe.push(b'\'');
            }
            safe.push(*byte);
            begins = b";\t".contains(byte);
        }
        safe
    };
    let mut rows = csv::ReaderBuilder::new()
        .has_headers(false)
        .flexible(true)
        .from_reader(&written[..]);
    let mut safe = csv::WriterBuilder::new()
        .flexible(true)
        .from_writer(Vec::new());
    for row in rows.byte_records() {
        for cell in &row? {
            safe.write_field(harmless(cell))?;
        }
        safe.write_record(None::<&[u8]>)?;
    }
    let bytes = safe.into_inner().map_err(|error| error.into_error())?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn blank(record: &Record, kind: &str, test: &TestRecord) -> Vec<String> {
    let mut row = vec![String::new(); COLUMNS.len()];
    row[32] = record.plan.tests[test.test].purpose.to_string();
    row[31] = erased::Word::word(&record.plan.tests[test.test].datapath);
    row[0] = kind.to_owned();
    row[1] = (test.test + 1).to_string();
    row
}

fn link_row(record: &Record, test: &TestRecord, link: &LinkRecord) -> Vec<String> {
    let mut row = blank(record, "link", test);
    let lane = &link.lane;
    let word = |value: &dyn erased::Word| value.word();
    row[4] = lane.boundary.to_string();
    row[5].clone_from(&record.plan.nodes[lane.from].label);
    row[6].clone_from(&record.plan.nodes[lane.to].label);
    row[7] = lane.stream.to_string();
    row[29] = record.plan.tests[test.test]
        .rail_of(lane.stream)
        .to_string();
    row[8] = word(&link.kind);
    row[9] = link.crosses_switch.to_string();
    row[10] = link.interval_bytes.to_string();
    row[11] = seconds(link.interval_ns);
    row[12] = decimal(rate(test, link));
    row[13] = link.sent_bytes.to_string();
    row[14] = link.received_bytes.to_string();
    row[15] = word(&link.held_by);
    row[16] = seconds(link.waits.waiting_for_block_ns);
    row[17] = seconds(link.waits.in_write_ns);
    row[18] = seconds(link.waits.pacing_ns);
    row[19] = seconds(link.waits.in_read_ns);
    row[20] = seconds(link.waits.waiting_for_slot_ns);
    if let Some((first, last)) = link.tcp {
        row[21] = last
            .retransmits
            .saturating_sub(first.retransmits)
            .to_string();
        row[22] = last.rtt_us.to_string();
        row[23] = last.cwnd_segments.to_string();
        row[24] = last.mss_bytes.to_string();
        let passed = |of: fn(&TcpInfo) -> u64| {
            let us = of(&last).saturating_sub(of(&first));
            seconds(us.saturating_mul(1000))
        };
        row[25] = passed(|info| info.busy_us);
        row[26] = passed(|info| info.window_limited_us);
        row[27] = passed(|info| info.buffer_limited_us);
    }
    row
}

/// Enumerations are written in the table as they are in the record.
mod erased {
    pub trait Word {
        fn word(&self) -> String;
    }
    impl<T: serde::Serialize> Word for T {
        fn word(&self) -> String {
            match serde_json::to_value(self) {
                Ok(serde_json::Value::String(text)) => text,
                _ => String::new(),
            }
        }
    }
}

fn decimal(value: f64) -> String {
    format!("{value:.6}")
}

fn seconds(ns: u64) -> String {
    format!("{:.6}", ns as f64 / 1e9)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_cell_of_a_table_is_a_formula() {
        let mut writer = csv::Writer::from_writer(Vec::new());
        let names = [
            "=HYPERLINK(\"http://x\")",
            "+n1",
            "-n1",
            "@n1",
            "n1",
            "-",
            "-4.5",
            "1e-9",
            "",
            "a;=cmd",
        ];
        writer.write_record(names).unwrap();
        let text = finish(writer).unwrap();
        let safe = "\"'=HYPERLINK(\"\"http://x\"\")\",'+n1,'-n1,'@n1,n1,-,-4.5,1e-9,,a;'=cmd\n";
        assert_eq!(text, safe);
    }
}
