//! One CSV table: for each test a row per port direction, link and interface direction, and a row for the total. Units are in the column names.
//! Tests are counted from 1, as in every text. Where the record keeps only the slowest links of a test, their rows and one more say so.

use crate::record::{LinkRecord, Measured, Record, TcpInfo, TestRecord, first_nodes};
use crate::units::sum;

use super::cells;
use super::figures::{Direction, Figures};

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
    match record.measured() {
        Measured::Acceptance(..) => tests(record),
        Measured::Linktest(plan, linktest) => super::linktest::table::csv(
            &super::linktest::figures::Figures::of(record, plan, linktest),
        ),
        Measured::Latency(_, latency) => super::latency::csv(latency),
        Measured::Imb(plan, imb) => super::imb::csv(record, plan, imb),
    }
}

fn tests(record: &Record) -> Result<String, csv::Error> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    writer.write_record(COLUMNS)?;
    for test in record.tests() {
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
                if let (Direction::Send, Some(count)) = (direction, port.retransmits) {
                    row[21] = count.to_string();
                }
                let nodes = port.nodes.iter();
                let measured = nodes.filter_map(|node| test.nodes[*node].as_ref());
                // CPU time belongs to the host, so only its first port shows it.
                if port.rail == 0 {
                    row[28] = seconds(sum(measured.map(|node| match direction {
                        Direction::Send => node.cpu.senders_ns,
                        Direction::Receive => node.cpu.receivers_ns,
                    })));
                }
                let host = port.nodes.first().and_then(|node| record.hosts.get(*node));
                let interface = host.and_then(|host| host.rails.get(port.rail)?.interface.clone());
                row[29] = port.rail.to_string();
                row[30] = interface.unwrap_or_default();
                writer.write_record(&row)?;
            }
        }
        if let Some(sums) = &test.sums {
            let left_out = sums.links.saturating_sub(test.links.len());
            let kind = format!("{left_out} links left out (--matrix FILE writes all)");
            writer.write_record(blank(record, &kind, test))?;
        }
        for link in &test.links {
            writer.write_record(link_row(record, test, link))?;
        }
        // All nodes of a host read the same counters.
        for (node, _) in first_nodes(&record.hosts) {
            let measured = test.nodes.get(node).into_iter().flatten();
            for (name, counters) in measured.flat_map(|one| &one.interfaces) {
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
    cells::finish(writer)
}

fn blank(record: &Record, kind: &str, test: &TestRecord) -> Vec<String> {
    let plan = &record.plan.tests()[test.test];
    let mut row = vec![String::new(); COLUMNS.len()];
    row[32] = plan.purpose.to_string();
    row[31] = word(plan.datapath);
    row[0] = kind.to_owned();
    row[1] = (test.test + 1).to_string();
    row
}

fn link_row(record: &Record, test: &TestRecord, link: &LinkRecord) -> Vec<String> {
    let kind = match test.sums {
        Some(_) => "slowest-link",
        None => "link",
    };
    let mut row = blank(record, kind, test);
    let lane = &link.lane;
    row[4] = lane.boundary.to_string();
    row[5].clone_from(&record.plan.nodes[lane.from].label);
    row[6].clone_from(&record.plan.nodes[lane.to].label);
    row[7] = lane.stream.to_string();
    let rail = record.plan.tests()[test.test].rail_of(lane.stream);
    row[29] = rail.to_string();
    row[8] = word(link.kind);
    row[9] = link.crosses_switch.to_string();
    row[10] = link.interval_bytes.to_string();
    row[11] = seconds(link.interval_ns);
    row[12] = decimal(test.rate_of(link));
    row[13] = link.sent_bytes.to_string();
    row[14] = link.received_bytes.to_string();
    row[15] = word(link.held_by);
    row[16] = seconds(link.waits.waiting_for_block_ns);
    row[17] = seconds(link.waits.in_write_ns);
    row[18] = seconds(link.waits.pacing_ns);
    row[19] = seconds(link.waits.in_read_ns);
    row[20] = seconds(link.waits.waiting_for_slot_ns);
    if let Some((first, last)) = link.tcp {
        row[21] = link.retransmits().to_string();
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

/// Text of an enumeration in the table, as in the record.
fn word(value: impl serde::Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(text)) => text,
        _ => String::new(),
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
    use crate::record::LinkSums;

    /// Symptom: the table of a run with sums looked as if its 64 slowest links were all links.
    #[test]
    fn a_table_of_the_slowest_links_says_how_many_it_leaves_out() {
        let text = include_str!("../../tests/golden/two-hosts/record.json");
        let mut record: Record = serde_json::from_str(text).unwrap();
        let kept = record.tests()[0].links.len();
        record.tests_mut()[0].sums = Some(LinkSums {
            links: kept + 9,
            ports: vec![Default::default(); record.plan.nodes.len()],
            ..LinkSums::default()
        });
        let table = write(&record).unwrap();
        let rows = |kind: &str| table.lines().filter(|row| row.starts_with(kind)).count();
        assert_eq!(rows("9 links left out (--matrix FILE writes all),1,"), 1);
        assert_eq!((rows("slowest-link,1,"), rows("link,")), (kept, 0));
    }
}
