//! Reads and writes the record as JSON. `docs/record.md` describes its fields.

use std::borrow::Cow;

use crate::outside::{Json, MOST_BYTES};
use crate::plan::{PHASES, RAILS, STREAMS};
use crate::record::{Measured, PairTime, RECORD_VERSION, Record, version_1};

/// Reason why a record could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum JsonError {
    /// The text is not JSON, or not the JSON of a record.
    #[error("not a record: {0}")]
    Syntax(#[from] serde_json::Error),
    /// The record refers to nodes, hosts, tests or other entries that it does not have.
    #[error("not a record: it contradicts itself: {0}")]
    Contradiction(String),
    /// The record has another version.
    #[error(
        "record of version {0}; this version of pipebench reads versions 1 to {RECORD_VERSION}"
    )]
    Version(u64),
}

/// Keys whose strings have several lines: the criteria sealed before the start, and the description of a fabric.
pub const LINES: [&str; 2] = ["seal", "fabric"];
/// Most memory that the values of a record of version 1 may need, in bytes: converting it takes several times as much.
const VERSION_1_BYTES: u64 = MOST_BYTES / 8;

/// The record as JSON text, with a newline at its end.
pub fn write(record: &Record) -> Result<String, JsonError> {
    Ok(serde_json::to_string_pretty(record)? + "\n")
}

/// Reads and checks a record, so that every report can be made from it. Fails if it has another version or contradicts itself.
pub fn read(text: &str) -> Result<Record, JsonError> {
    read_clean(Cow::Borrowed(text))
}

/// Reads as [`read`] does, and drops the text as soon as there is a clean copy: both and the record would be too much.
pub(crate) fn read_owned(text: String) -> Result<Record, JsonError> {
    read_clean(Cow::Owned(text))
}

fn read_clean(text: Cow<'_, str>) -> Result<Record, JsonError> {
    #[derive(serde::Deserialize)]
    struct Head {
        #[serde(default)]
        version: u64,
    }
    let json = Json::new(text, &LINES)?;
    let Head { version } = json.read()?;
    let record: Record = match version {
        1 => {
            json.fits(VERSION_1_BYTES)?;
            let new = version_1::upgraded(json.read()?).map_err(JsonError::Contradiction)?;
            serde_json::from_value(new)?
        }
        version if (2..=u64::from(RECORD_VERSION)).contains(&version) => json.read()?,
        version => return Err(JsonError::Version(version)),
    };
    check(&record).map_err(JsonError::Contradiction)?;
    Ok(record)
}

/// Checks all indices, because reports look up nodes, hosts and tests by them.
fn check(record: &Record) -> Result<(), String> {
    let nodes = record.plan.nodes.len();
    let hosts = record.hosts.len();
    record.plan.check().map_err(|error| error.to_string())?;
    if let Some(host) = record.hosts.iter().find(|host| host.host_index >= hosts) {
        let index = host.host_index;
        return Err(format!("host {index} of {hosts}"));
    }
    let is_first = |index: usize| record.hosts[index].host_index == index;
    if let Some(host) = record.hosts.iter().find(|host| !is_first(host.host_index)) {
        let index = host.host_index;
        return Err(format!("host {index} is not the first node of its host"));
    }
    if hosts > nodes {
        return Err(format!("{hosts} hosts, {nodes} nodes in the plan"));
    }
    if !record.outcome.is_of(&record.plan.work) {
        return Err("plan and outcome are of different kinds".to_owned());
    }
    let mut ranks = record.outcome.ranks().iter();
    if let Some(rank) = ranks.find(|rank| rank.node >= hosts) {
        return Err(format!("a rank on node {} of {hosts}", rank.node));
    }
    match record.measured() {
        Measured::Acceptance(..) => check_tests(record),
        Measured::Linktest(_, linktest) => {
            let ranks = linktest.ranks.len();
            let rounds = linktest.rounds.iter().chain(&linktest.looks);
            let times = rounds.clone().flat_map(|round| &round.times);
            let times = times.map(|time: &PairTime| (time.from, time.to));
            let again = rounds.flat_map(|round| &round.retests);
            let again = again.map(|one| (one.from, one.to));
            let is_there = |(from, to): &(usize, usize)| *from < ranks && *to < ranks;
            match times.chain(again).find(|link| !is_there(link)) {
                Some((from, to)) => Err(format!("a link from rank {from} to {to}, of {ranks}")),
                None => Ok(()),
            }
        }
        Measured::Latency(..) | Measured::Imb(..) => Ok(()),
    }
}

/// Checks the indices of pipeline tests.
fn check_tests(record: &Record) -> Result<(), String> {
    let (nodes, hosts) = (record.plan.nodes.len(), record.hosts.len());
    for (number, plan) in record.plan.tests().iter().enumerate() {
        let (rails, streams, phases) = (plan.rails, plan.streams, plan.phases);
        if !RAILS.contains(&rails) || !STREAMS.contains(&streams) || !PHASES.contains(&phases) {
            return Err(format!(
                "{rails} rails, {streams} streams and {phases} phases in test {number}"
            ));
        }
    }
    for test in record.tests() {
        let tests = record.plan.tests().len();
        let Some(plan) = record.plan.tests().get(test.test) else {
            return Err(format!("test {} of {tests}", test.test));
        };
        if hosts != nodes || test.nodes.len() != nodes {
            let measured = test.nodes.len();
            return Err(format!(
                "{nodes} nodes in the plan, {hosts} hosts, {measured} nodes in test {}",
                test.test
            ));
        }
        let sums = test.sums.as_ref().map(|sums| sums.ports.len());
        if let Some(ports) = sums.filter(|ports| *ports != nodes * plan.rails) {
            let rails = plan.rails;
            return Err(format!(
                "sums of {ports} ports, of {nodes} nodes and {rails} rails"
            ));
        }
        let worst = test.worst_links.iter().map(|series| &series.lane);
        let lanes = test.links.iter().map(|link| &link.lane).chain(worst);
        for lane in lanes {
            if lane.from >= nodes || lane.to >= nodes || lane.boundary >= plan.phases {
                let (from, to, boundary) = (lane.from, lane.to, lane.boundary);
                return Err(format!(
                    "link from node {from} to {to} at boundary {boundary}, of {nodes} nodes and {} phases",
                    plan.phases
                ));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOUND: &str = include_str!("../../tests/golden/two-hosts/record.json");

    #[test]
    fn a_share_with_many_digits_is_read_as_it_was_written() {
        let mut record = read(SOUND).unwrap();
        for ticks in 1..300 {
            let node = record.tests_mut()[0].nodes[0].as_mut().unwrap();
            node.busiest_core = Some(f64::from(ticks) / 300.7);
            assert_eq!(read(&write(&record).unwrap()).unwrap(), record);
        }
    }

    #[test]
    fn a_record_of_version_2_is_read_as_it_is() {
        let mut record = read(SOUND).unwrap();
        record.version = 2;
        assert_eq!(read(&write(&record).unwrap()).unwrap(), record);
        let ports = vec![Default::default(); 3];
        record.tests_mut()[0].sums = Some(crate::record::LinkSums {
            ports,
            ..Default::default()
        });
        let error = read(&write(&record).unwrap()).unwrap_err().to_string();
        assert!(error.contains("sums of 3 ports"), "{error}");
    }

    #[test]
    fn a_record_with_a_node_host_or_test_that_is_not_there_is_refused() {
        let refused = |change: fn(&mut Record)| {
            let mut record = read(SOUND).unwrap();
            change(&mut record);
            read(&write(&record).unwrap()).unwrap_err().to_string()
        };
        assert_eq!(
            refused(|record| record.tests_mut()[0].test = 7),
            "not a record: it contradicts itself: test 7 of 1"
        );
        assert_eq!(
            refused(|record| record.hosts[1].host_index = 9),
            "not a record: it contradicts itself: host 9 of 2"
        );
        let others = [
            refused(|record| record.hosts.truncate(1)),
            refused(|record| record.tests_mut()[0].nodes.clear()),
            refused(|record| record.plan.nodes.truncate(1)),
            refused(|record| record.plan.tests_mut()[0].rails = 0),
            refused(|record| record.plan.tests_mut()[0].rails = usize::MAX),
            refused(|record| record.tests_mut()[0].links[0].lane.from = 2),
            refused(|record| record.tests_mut()[0].links[0].lane.to = usize::MAX),
            refused(|record| record.tests_mut()[0].links[0].lane.boundary = usize::MAX),
        ];
        for text in others {
            assert!(text.contains("it contradicts itself"), "{text}");
        }
    }
}
