//! Counters of a network interface, and what follows from two readings.

use serde::{Deserialize, Serialize};

/// Counters of a network interface.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct InterfaceCounters {
    /// Bytes received, with headers.
    pub received_bytes: u64,
    /// Bytes sent, with headers.
    pub sent_bytes: u64,
    /// Errors in both directions.
    pub errors: u64,
    /// Frames dropped in both directions.
    pub drops: u64,
    /// Packets received.
    pub received_packets: u64,
    /// Packets sent.
    pub sent_packets: u64,
    /// Frames received with a wrong check sequence. `None`, here and below, if neither the kernel nor the driver reports the counter.
    pub crc_errors: Option<u64>,
    /// Frames that arrived but found no room in the host.
    pub missed: Option<u64>,
    /// Blocks that forward error correction could not correct.
    pub fec_uncorrectable: Option<u64>,
    /// Pause frames sent, because the host could not take the frames that arrived.
    pub pauses_sent: Option<u64>,
    /// Pause frames received.
    pub pauses_received: Option<u64>,
    /// Number of times the link went down or came up.
    pub carrier_changes: Option<u64>,
}

const CRC_ERRORS: &str = "CRC errors";
const UNCORRECTABLE: &str = "uncorrectable FEC blocks";

impl InterfaceCounters {
    /// Combines two readings, counter by counter, with `of_two`. A counter that only one reading has keeps its value.
    pub fn with(&self, other: &Self, of_two: impl Fn(u64, u64) -> u64) -> Self {
        self.joined(other, &of_two, |own, other| match (own, other) {
            (Some(own), Some(other)) => Some(of_two(own, other)),
            (one, other) => one.or(other),
        })
    }

    /// Counts since an earlier reading. A counter is unknown if one of the two readings lacks it.
    pub fn since(&self, before: &Self) -> Self {
        self.joined(before, u64::saturating_sub, |own, before| {
            Some(own?.saturating_sub(before?))
        })
    }

    /// Error counters, with the names that reports use for them; `None` for a counter that is not reported.
    pub fn mishaps(&self) -> [(&'static str, Option<u64>); 8] {
        [
            (CRC_ERRORS, self.crc_errors),
            (UNCORRECTABLE, self.fec_uncorrectable),
            ("frames without room", self.missed),
            ("pause frames sent", self.pauses_sent),
            ("pause frames received", self.pauses_received),
            ("link changes", self.carrier_changes),
            ("drops", Some(self.drops)),
            ("errors", Some(self.errors)),
        ]
    }

    /// Names of the error counters that neither the kernel nor the driver reports.
    pub fn untold(&self) -> Vec<&'static str> {
        let untold = |(name, told): (_, Option<u64>)| told.is_none().then_some(name);
        self.mishaps().into_iter().filter_map(untold).collect()
    }

    /// Error counters above zero whose names `which` accepts, as text; `None` if there are none.
    pub fn happened(&self, which: impl Fn(&str) -> bool) -> Option<String> {
        let all = self.mishaps().into_iter().filter(|(name, _)| which(name));
        let counted =
            all.filter_map(|(name, count)| Some((name, count.filter(|count| *count > 0)?)));
        let texts: Vec<String> = counted
            .map(|(name, count)| format!("{name} +{count}"))
            .collect();
        (!texts.is_empty()).then(|| texts.join(", "))
    }

    /// Counters of frames that arrived broken, as text; `None` if there are none.
    pub fn broken_frames(&self) -> Option<String> {
        self.happened(|name| [CRC_ERRORS, UNCORRECTABLE].contains(&name))
    }

    fn joined(
        &self,
        other: &Self,
        numbers: impl Fn(u64, u64) -> u64,
        of_told: impl Fn(Option<u64>, Option<u64>) -> Option<u64>,
    ) -> Self {
        let both = |of: fn(&Self) -> u64| numbers(of(self), of(other));
        let told = |of: fn(&Self) -> Option<u64>| of_told(of(self), of(other));
        Self {
            received_bytes: both(|all| all.received_bytes),
            sent_bytes: both(|all| all.sent_bytes),
            errors: both(|all| all.errors),
            drops: both(|all| all.drops),
            received_packets: both(|all| all.received_packets),
            sent_packets: both(|all| all.sent_packets),
            crc_errors: told(|all| all.crc_errors),
            missed: told(|all| all.missed),
            fec_uncorrectable: told(|all| all.fec_uncorrectable),
            pauses_sent: told(|all| all.pauses_sent),
            pauses_received: told(|all| all.pauses_received),
            carrier_changes: told(|all| all.carrier_changes),
        }
    }
}
