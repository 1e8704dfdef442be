//! Figures of each port in one run, to be compared with those of other runs.

use crate::record::{DirectionSheet, Record, VerdictWord};

use super::figures::Figures;

/// Figures of a port in one run.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PortFigures {
    /// Name of the port, or of the node in a run on one host.
    pub label: String,
    /// Figures of sending and of receiving. `None` for a direction without traffic.
    pub ways: [Option<WayFigures>; 2],
}

/// Figures of one direction of a port.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct WayFigures {
    /// Lowest rate under load, in bits per second.
    pub rate_bits_per_s: f64,
    /// Share of the expected rate. `None` if that is unknown.
    pub share: Option<f64>,
    /// Word for the direction. `None` if it was not judged.
    pub word: Option<VerdictWord>,
}

impl WayFigures {
    fn of(one: &DirectionSheet) -> Self {
        let (rate_bits_per_s, ..) = one.under_load();
        Self {
            rate_bits_per_s,
            share: one.share_under_load(),
            word: Some(one.word),
        }
    }
}

/// Figures of all ports of a run, in the order of its sheet: as judged, else as measured in the first test.
pub(crate) fn ports(record: &Record) -> Vec<PortFigures> {
    if record.sheet.directions().next().is_some() {
        let ports = record.sheet.ports.iter().map(|port| PortFigures {
            label: port.label.clone(),
            ways: [port.send, port.receive].map(|way| way.as_ref().map(WayFigures::of)),
        });
        return ports.collect();
    }
    let counted = record.counted();
    let Some(test) = counted.iter().find(|test| test.has_measured()) else {
        return Vec::new();
    };
    let figures = Figures::of(record, test);
    let ports = figures.ports.iter().map(|port| PortFigures {
        label: port.label.clone(),
        ways: [
            (port.send_gbit_per_s, port.links_out),
            (port.receive_gbit_per_s, port.links_in),
        ]
        .map(|(rate, links)| {
            (links > 0).then_some(WayFigures {
                rate_bits_per_s: rate * 1e9,
                share: None,
                word: None,
            })
        }),
    });
    ports.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::json;

    #[test]
    fn a_judged_port_has_its_word_and_another_its_rates() {
        let judged = include_str!("../../tests/golden/slow-receiver/record.json");
        let judged = ports(&json::read(judged).unwrap());
        let [send, receive] = judged.iter().find(|port| port.label == "n3").unwrap().ways;
        let (send, receive) = (send.unwrap(), receive.unwrap());
        assert_eq!(send.word, Some(VerdictWord::Pass));
        assert_eq!(receive.word, Some(VerdictWord::Fail));
        assert!(receive.share < send.share && receive.rate_bits_per_s < send.rate_bits_per_s);
        let local = include_str!("../../tests/golden/one-host/record.json");
        let local = ports(&json::read(local).unwrap());
        let ways = local.iter().flat_map(|port| port.ways);
        let measured = ways.map(Option::unwrap);
        assert!(measured.clone().count() > 0);
        measured.for_each(|way| assert!(way.word.is_none() && way.rate_bits_per_s > 0.0));
    }
}
