//! Limits on the messages of a node, so that no host can fill the memory of the launching side or keep it busy, even if
//! another program runs there. Each kind of message has its own limit of length and number.

use std::time::Instant;

use crate::units::show_bytes;
use crate::wire::frame;
use crate::wire::message::ToNode;

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;

/// Most bytes that a report needs for each end of a link on its node.
const LINK_END_BYTES: usize = 2 * KIB;
/// Most bytes that the progress of a second needs for each end of a link on its node: a number.
const LINK_COUNT_BYTES: usize = 24;

/// Most bytes that the messages of all nodes hold together: so many, and for each node what it can need and its report. A byte of a message
/// becomes up to a dozen in memory.
const ALL_BYTES: usize = 64 * MIB;
const NODE_BYTES: usize = 256 * KIB;
/// Above this no launching host is expected to have the memory.
const MOST_ALL_BYTES: usize = 8 << 30;
/// Most bytes of what a host sees of its runs.
const SEEN_BYTES: usize = 4 * MIB;

/// Messages with one tag.
struct Kind {
    tag: &'static str,
    /// Most bytes of one message.
    bytes: usize,
    /// Additional bytes for each end of a link on the node.
    end_bytes: usize,
    most: Most,
}

/// Most messages of a kind.
enum Most {
    /// One for each message that asks for it.
    Asked,
    /// `PACED`, and `PACED_PER_S` for each second. An honest node sends one each second.
    Paced,
    /// This many bytes in all that are kept, of what the text names.
    Bytes(usize, &'static str),
}

const PACED: u64 = 100;
const PACED_PER_S: u64 = 10;

const fn kind(tag: &'static str, bytes: usize, end_bytes: usize, most: Most) -> Kind {
    Kind {
        tag,
        bytes,
        end_bytes,
        most,
    }
}

const KINDS: [Kind; 14] = [
    kind("hello", 4 * MIB, 0, Most::Asked),
    kind("cost", KIB, 0, Most::Asked),
    kind("prepared", MIB, 0, Most::Asked),
    kind("ranks-listen", MIB, 0, Most::Asked),
    kind("ready", KIB, 0, Most::Asked),
    kind("pong", KIB, 0, Most::Asked),
    kind("alive", KIB, 0, Most::Paced),
    kind("progress", 64 * KIB, LINK_COUNT_BYTES, Most::Paced),
    kind("trouble", 256 * KIB, 0, Most::Bytes(MIB, "failures")),
    kind(
        "rank",
        4 * MIB,
        0,
        Most::Bytes(16 * MIB, "what its ranks measured"),
    ),
    kind("seen", SEEN_BYTES, 0, Most::Asked),
    kind("asked", MIB, 0, Most::Asked),
    kind("finished", 4 * MIB, LINK_END_BYTES, Most::Asked),
    kind("series", 2 * MIB, 0, Most::Asked),
];

/// Messages that a node can send in answer to one of the launching side's.
fn answers(message: &ToNode) -> &'static [&'static str] {
    match message {
        ToNode::Estimate => &["cost"],
        ToNode::Prepare(_) => &["prepared", "ready", "finished"],
        ToNode::PrepareRanks(_) => &["ranks-listen", "ready", "finished"],
        ToNode::Ping { .. } => &["pong"],
        ToNode::Series(_) => &["series"],
        ToNode::Look { .. } => &["seen"],
        ToNode::EndRun(_) => &["asked"],
        _ => &[],
    }
}

/// Most bytes that the messages of all nodes hold together, before they are handled or for as long as they are kept.
pub(super) fn all_bytes(nodes: usize, link_ends: usize) -> usize {
    let report_bytes = link_ends.saturating_mul(LINK_END_BYTES);
    let nodes_bytes = nodes.saturating_mul(NODE_BYTES.saturating_add(report_bytes));
    ALL_BYTES.saturating_add(nodes_bytes).min(MOST_ALL_BYTES)
}

/// Most bytes of the answers of all hosts to a look at their runs.
pub(super) fn seen_bytes(hosts: usize) -> usize {
    ALL_BYTES
        .saturating_add(hosts.saturating_mul(SEEN_BYTES))
        .min(MOST_ALL_BYTES)
}

/// The tag at the start of a message: `"tag"` or `{"tag":`. `None` until enough of it has arrived.
fn tag_of(start: &[u8]) -> Option<&[u8]> {
    let text = start.strip_prefix(b"{").unwrap_or(start);
    let text = text.strip_prefix(b"\"").unwrap_or(text);
    text.iter()
        .position(|byte| *byte == b'"')
        .map(|end| &text[..end])
}

/// Counters of the messages of one node.
#[derive(Debug)]
pub(super) struct Allowance {
    since: Instant,
    /// Ends of links on the node in the current test.
    pub(super) link_ends: usize,
    /// For each kind, the messages that are still allowed because they were asked for, or the number of those that came.
    counts: [u64; KINDS.len()],
    /// Bytes of each kind that are kept.
    kept_bytes: [usize; KINDS.len()],
}

impl Default for Allowance {
    fn default() -> Self {
        let mut allowance = Self {
            since: Instant::now(),
            link_ends: 0,
            counts: [0; KINDS.len()],
            kept_bytes: [0; KINDS.len()],
        };
        // A node can end before its first test.
        allowance.expect(&["hello", "finished"]);
        allowance
    }
}

impl Allowance {
    fn expect(&mut self, tags: &[&str]) {
        for (kind, count) in KINDS.iter().zip(&mut self.counts) {
            *count += u64::from(tags.contains(&kind.tag));
        }
    }

    /// Allows the answers to a message to the node.
    pub(super) fn ask(&mut self, message: &ToNode) {
        self.expect(answers(message));
    }

    /// Records that the messages of these kinds are not kept any more.
    pub(super) fn dropped(&mut self, is_dropped: impl Fn(&str) -> bool) {
        for (kind, bytes) in KINDS.iter().zip(&mut self.kept_bytes) {
            if is_dropped(kind.tag) {
                *bytes = 0;
            }
        }
    }

    /// Bytes of its messages that are kept, progress aside.
    pub(super) fn kept_bytes(&self) -> usize {
        self.kept_bytes.iter().sum()
    }

    /// Looks at a message of `length` bytes of which only the `start` need have arrived. Returns its kind once that is known. The error names
    /// the limit that the message exceeds.
    pub(super) fn admit(&self, start: &[u8], length: usize) -> Result<Option<usize>, String> {
        const LONGEST_TAG: usize = 16;
        let start = &start[..start.len().min(LONGEST_TAG)];
        let Some(tag) = tag_of(start) else {
            return match start.len() < LONGEST_TAG.min(length) {
                true => Ok(None),
                false => Err("invalid message: it has no kind".to_owned()),
            };
        };
        let Some(at) = KINDS.iter().position(|kind| kind.tag.as_bytes() == tag) else {
            let tag = String::from_utf8_lossy(tag);
            let tag = crate::outside::clean(&tag).into_owned();
            return Err(format!("invalid message: its kind is {tag:?}"));
        };
        let (kind, count) = (&KINDS[at], self.counts[at]);
        let grown = self.link_ends.saturating_mul(kind.end_bytes);
        let limit = kind.bytes.saturating_add(grown).min(frame::LIMIT_BYTES);
        let show = |bytes: usize| show_bytes(bytes as u64);
        let tag = kind.tag;
        if length > limit {
            let (limit, length) = (show(limit), show(length));
            return Err(format!(
                "sent more than {limit} in one message ({tag}): {length}"
            ));
        }
        let seconds = self.since.elapsed().as_secs();
        let paced = PACED + PACED_PER_S * seconds;
        match kind.most {
            Most::Asked if count == 0 => Err(format!("sent more messages than requested ({tag})")),
            Most::Paced if count >= paced => Err(format!(
                "sent more than {paced} messages in {seconds} s ({tag})"
            )),
            Most::Bytes(most, what) if self.kept_bytes[at].saturating_add(length) > most => {
                Err(format!("sent more than {} of {what}", show(most)))
            }
            _ => Ok(Some(at)),
        }
    }

    /// Counts a message that was admitted and has arrived.
    pub(super) fn count(&mut self, kind: usize, length: usize) {
        let (count, kept) = (&mut self.counts[kind], &mut self.kept_bytes[kind]);
        match KINDS[kind].most {
            // The next message of the kind replaces this one.
            Most::Asked => (*count, *kept) = (*count - 1, length),
            Most::Paced => *count += 1,
            Most::Bytes(..) => *kept += length,
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::plan::lanes::tests::test_of;
    use crate::plan::size;
    use crate::wire::message::FromNode;

    use super::*;

    fn take(allowance: &mut Allowance, message: &[u8]) -> Result<(), String> {
        let kind = allowance.admit(message, message.len())?;
        allowance.count(kind.expect("a whole message has a kind"), message.len());
        Ok(())
    }

    /// The error after at most 100,000 messages.
    fn often(message: &str) -> String {
        let mut allowance = Allowance::default();
        let mut errors = (0..100_000).map(|_| take(&mut allowance, message.as_bytes()));
        errors.find_map(Result::err).unwrap_or_default()
    }

    #[test]
    fn a_node_that_says_too_much_is_told_of_what() {
        let trouble = format!("{{\"trouble\":[{}]}}", " ".repeat(900));
        assert_eq!(often(&trouble), "sent more than 1 MiB of failures");
        let rank = format!("{{\"rank\":{{{}}}}}", " ".repeat(900));
        assert_eq!(
            often(&rank),
            "sent more than 16 MiB of what its ranks measured"
        );
        for paced in ["\"alive\"", "{\"progress\":{}}"] {
            let error = often(paced);
            assert!(error.starts_with("sent more than 1"), "{error}");
        }
        for asked in [
            "hello", "prepared", "pong", "seen", "asked", "finished", "series",
        ] {
            let error = format!("sent more messages than requested ({asked})");
            assert_eq!(often(&format!("{{\"{asked}\":1}}")), error);
        }
    }

    /// Regression test: any kind could be as long as the longest report, so that 63 MB of failures or heartbeats were read into memory.
    #[test]
    fn a_message_that_is_too_long_for_its_kind_is_refused_before_it_arrives() {
        let mut allowance = Allowance::default();
        allowance.expect(&["ready", "series", "prepared"]);
        for (start, limit) in [
            ("\"alive\"", "1 KiB"),
            ("\"ready\"", "1 KiB"),
            ("{\"trouble\":[", "256 KiB"),
            ("{\"series\":{\"str", "2 MiB"),
            ("{\"prepared\":{\"l", "1 MiB"),
        ] {
            let error = allowance.admit(start.as_bytes(), 60 << 20).unwrap_err();
            assert!(
                error.starts_with(&format!("sent more than {limit} in one")),
                "{error}"
            );
        }
        assert_eq!(allowance.admit(b"{\"finis", 60 << 20), Ok(None));
        assert!(allowance.admit(b"\"dance\"", 7).is_err());
        assert!(allowance.admit(b"{                   ", 60).is_err());
    }

    /// Regression test: the limit grew with the plan without an end, to 224 MB for each of 1,000 nodes.
    #[test]
    fn no_plan_makes_the_longest_message_longer_than_a_frame_can_be() {
        let link_ends = size::link_ends_per_node(&test_of(8, 8), 1000);
        let allowance = Allowance {
            link_ends,
            ..Allowance::default()
        };
        let most = frame::LIMIT_BYTES;
        assert!(allowance.admit(b"{\"finished\":", most).is_ok());
        assert!(allowance.admit(b"{\"finished\":", most + 1).is_err());
        assert_eq!(all_bytes(1000, link_ends), MOST_ALL_BYTES);
    }

    /// 256 hosts, all to all: 512 ends of links on each, and 2 KB of report for each end.
    #[test]
    fn the_reports_of_a_large_run_are_taken() {
        let link_ends = size::link_ends_per_node(&test_of(2, 1), 256);
        assert_eq!(link_ends, 512);
        let report_bytes = link_ends * 2000;
        let mut allowance = Allowance {
            link_ends,
            ..Allowance::default()
        };
        let kind = allowance.admit(b"{\"finished\":", report_bytes).unwrap();
        allowance.count(kind.unwrap(), report_bytes);
        let all_kept = 256 * allowance.kept_bytes();
        assert!(all_kept < all_bytes(256, link_ends), "{all_kept}");
        assert!(all_bytes(256, link_ends) < 512 * MIB);
    }

    #[test]
    fn an_answer_to_each_question_is_taken() {
        let mut allowance = Allowance::default();
        for _ in 0..10_000 {
            allowance.ask(&ToNode::Ping { sent_ns: 1 });
            assert_eq!(take(&mut allowance, b"{\"pong\":{}}"), Ok(()));
        }
        assert!(take(&mut allowance, b"{\"pong\":{}}").is_err());
    }

    #[test]
    fn every_message_has_a_kind_with_limits() {
        for message in [
            FromNode::Ready,
            FromNode::Alive,
            FromNode::Asked(Vec::new()),
        ] {
            let json = serde_json::to_vec(&message).unwrap();
            let mut allowance = Allowance::default();
            allowance.expect(&["ready", "asked"]);
            assert!(allowance.admit(&json, json.len()).unwrap().is_some());
        }
        // What serde knows, the table knows, and no more.
        let error = serde_json::from_str::<FromNode>("\"x\"")
            .unwrap_err()
            .to_string();
        let known = error.split('`').skip(3).step_by(2);
        let mut known: Vec<&str> = known.collect();
        known.sort_unstable();
        let mut tags = KINDS.map(|kind| kind.tag);
        tags.sort_unstable();
        assert_eq!(known, tags);
    }
}
