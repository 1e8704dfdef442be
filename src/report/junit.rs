//! JUnit XML for CI: a case for the run as a whole, and cases for port directions, uplinks, cables and other faults.
//!
//! No standard exists, but CI systems agree on a schema (that of Apache Ant, as Jenkins and GitLab read it): `failure` marks a case that was
//! tested and fell short, `error` one that could not be decided, `skipped` one that was not judged. An undecided case must not look green.

use quick_xml::Writer;
use quick_xml::events::{BytesDecl, BytesEnd, BytesStart, BytesText, Event};

use crate::judge::cables;
use crate::judge::names::name_of;
use crate::record::{
    Culprit, DirectionSheet, LatencyRecord, Outcome, PortSheet, Record, VerdictWord,
};
use crate::units::{show_part, show_rate, show_utc};

use super::{directions, faults, judged, percent, text};

/// Reason why a report could not be made. Writing to memory does not fail.
pub type Fault = Box<dyn std::error::Error + Send + Sync>;

struct Case {
    class: &'static str,
    name: String,
    word: VerdictWord,
    /// The finding in one sentence.
    what: String,
    /// The finding in full, line by line.
    more: Vec<String>,
}

impl Case {
    /// Name of the element that marks the case; `None` if it passed.
    fn mark(&self) -> Option<&'static str> {
        match self.word {
            VerdictWord::Pass => None,
            VerdictWord::Fail => Some("failure"),
            VerdictWord::Undecided | VerdictWord::HostLimited | VerdictWord::Invalid => {
                Some("error")
            }
            VerdictWord::NotJudged => Some("skipped"),
        }
    }
}

/// The document of a record.
pub fn write(record: &Record) -> Result<String, Fault> {
    let cases = cases(record);
    let count = |mark: &str| {
        let marked = cases.iter().filter(|case| case.mark() == Some(mark));
        marked.count().to_string()
    };
    let (failures, errors, skipped) = (count("failure"), count("error"), count("skipped"));
    let tests = cases.len().to_string();
    let seconds = format!("{:.3}", record.outcome.measured_s());
    let started = show_utc(record.started_ms).replace(' ', "T");
    let name = record.name();
    let counts = [
        ("tests", tests.as_str()),
        ("failures", &failures),
        ("errors", &errors),
        ("time", &seconds),
    ];
    let suite = [
        ("name", name.as_str()),
        ("skipped", &skipped),
        ("timestamp", &started),
    ];
    let mut writer = Writer::new_with_indent(Vec::new(), b' ', 2);
    writer.write_event(Event::Decl(BytesDecl::new("1.0", Some("UTF-8"), None)))?;
    let all = element("testsuites", &[("name", "pipebench")]).with_attributes(counts);
    writer.write_event(Event::Start(all))?;
    let one = element("testsuite", &suite).with_attributes(counts);
    writer.write_event(Event::Start(one))?;
    properties(&mut writer, record)?;
    for case in &cases {
        write_case(&mut writer, case)?;
    }
    close(&mut writer, "testsuite")?;
    close(&mut writer, "testsuites")?;
    let mut text = String::from_utf8_lossy(&writer.into_inner()).into_owned();
    text.push('\n');
    Ok(text)
}

fn element<'name>(name: &'name str, attributes: &[(&str, &str)]) -> BytesStart<'name> {
    let plain: Vec<(&str, String)> = attributes
        .iter()
        .map(|(key, value)| (*key, plain(value)))
        .collect();
    BytesStart::new(name).with_attributes(plain.iter().map(|(key, value)| (*key, value.as_str())))
}

fn close(writer: &mut Writer<Vec<u8>>, name: &str) -> Result<(), Fault> {
    Ok(writer.write_event(Event::End(BytesEnd::new(name)))?)
}

fn properties(writer: &mut Writer<Vec<u8>>, record: &Record) -> Result<(), Fault> {
    let mut known = vec![
        ("verdict", record.verdict.word.to_string()),
        ("tool_version", record.tool_version.clone()),
        ("tool_digest", record.tool_digest.clone()),
        ("token", record.token.clone()),
    ];
    let standing = judged::standing(record).map(|text| text.trim().to_owned());
    known.extend(standing.map(|text| ("standing", text)));
    let figure = match directions::is_acceptance(record) {
        true => "to_sign",
        false => "lowest_port_direction",
    };
    known.extend(directions::to_sign(record).map(|text| (figure, text)));
    writer.write_event(Event::Start(BytesStart::new("properties")))?;
    for (name, value) in &known {
        let property = element("property", &[("name", name), ("value", value)]);
        writer.write_event(Event::Empty(property))?;
    }
    close(writer, "properties")
}

fn write_case(writer: &mut Writer<Vec<u8>>, case: &Case) -> Result<(), Fault> {
    let outer = element(
        "testcase",
        &[("classname", case.class), ("name", &case.name)],
    );
    let Some(mark) = case.mark() else {
        return Ok(writer.write_event(Event::Empty(outer))?);
    };
    writer.write_event(Event::Start(outer))?;
    let word = case.word.to_string();
    let inner = match case.word {
        VerdictWord::NotJudged => element(mark, &[("message", &case.what)]),
        _ => element(mark, &[("message", &case.what), ("type", &word)]),
    };
    if case.more.is_empty() {
        writer.write_event(Event::Empty(inner))?;
    } else {
        writer.write_event(Event::Start(inner))?;
        writer.write_event(Event::Text(BytesText::new(&plain(&case.more.join("\n")))))?;
        close(writer, mark)?;
    }
    close(writer, "testcase")
}

/// Cases for the run as a whole, cables, port directions, uplinks, and faults that belong to none of these.
fn cases(record: &Record) -> Vec<Case> {
    let sheet = &record.sheet;
    let mut more: Vec<String> = text::troubles(&record.troubles);
    more.extend(sheet.order.iter().cloned());
    let mut cases = vec![Case {
        class: "pipebench.run",
        name: "verdict".to_owned(),
        word: record.verdict.word,
        what: record.verdict.reason.clone(),
        more,
    }];
    // Latencies and patterns do not load ports.
    let ports: &[PortSheet] = match &record.outcome {
        Outcome::Acceptance(_) | Outcome::Linktest(_) => &sheet.ports,
        Outcome::Latency(latency) => {
            cases.extend(cases_of_cables(latency));
            &[]
        }
        Outcome::Imb(_) => &[],
    };
    let of_direction = |class, name, culprit: Culprit, one: Option<DirectionSheet>| Case {
        class,
        name,
        word: one.map_or(VerdictWord::NotJudged, |one| one.word),
        what: one.map_or_else(
            || "it carried no traffic".to_owned(),
            |one| {
                let (figures, word) = (figures(record, &one), one.word.to_string());
                match directions::word(record, &culprit, &one) {
                    said if said == word => figures,
                    said => format!("{figures}; {said}"),
                }
            },
        ),
        more: details(record, &culprit),
    };
    for (number, port) in ports.iter().enumerate() {
        let culprits = [Culprit::Send(number), Culprit::Receive(number)];
        for (culprit, (way, one)) in culprits.into_iter().zip(port.directions()) {
            let name = format!("{} {way}", port.label);
            cases.push(of_direction("pipebench.ports", name, culprit, one));
        }
    }
    for (number, uplink) in sheet.uplinks.iter().enumerate() {
        let both = [
            (Culprit::Up(number), "out", uplink.up),
            (Culprit::Down(number), "in", uplink.down),
        ];
        for (culprit, way, one) in both.into_iter().filter(|(.., one)| one.is_some()) {
            let name = format!("uplink of {} {way}", uplink.group);
            cases.push(of_direction("pipebench.uplinks", name, culprit, one));
        }
    }
    let uplink = |group: usize| sheet.uplinks.get(group);
    let has_case = |culprit: &Culprit| match *culprit {
        Culprit::Send(_) | Culprit::Receive(_) => true,
        Culprit::Up(group) => uplink(group).is_some_and(|one| one.up.is_some()),
        Culprit::Down(group) => uplink(group).is_some_and(|one| one.down.is_some()),
        _ => false,
    };
    let faults = sheet.faults.iter();
    let elsewhere = faults.filter(|fault| !has_case(&fault.culprit));
    cases.extend(elsewhere.map(|fault| Case {
        class: "pipebench.fabric",
        name: name_of(&record.plan, sheet, fault),
        word: fault.word,
        what: faults::brief(record, fault),
        more: details(record, &fault.culprit),
    }));
    cases
}

/// A case for each slow cable, each class of cables that was compared, and each class that could not be.
fn cases_of_cables(latency: &LatencyRecord) -> Vec<Case> {
    let case = |name: String, word, what: String| Case {
        class: "pipebench.cables",
        name,
        word,
        what,
        more: Vec::new(),
    };
    let slow = latency.slow.iter().map(|cable| {
        let word = match cable.confirmed {
            true => VerdictWord::Fail,
            false => VerdictWord::Undecided,
        };
        case(cable.name.clone(), word, cables::sentence(cable, latency))
    });
    let judged = latency.judged.iter().map(|class| {
        let what = "every cable was compared with the others of its class".to_owned();
        case(class.clone(), VerdictWord::Pass, what)
    });
    let open = latency.undecidable.iter().map(|line| {
        let (class, why) = line.split_once(": ").unwrap_or((line, ""));
        case(class.to_owned(), VerdictWord::NotJudged, why.to_owned())
    });
    slow.chain(judged).chain(open).collect()
}

fn figures(record: &Record, one: &DirectionSheet) -> String {
    let rate = one.rate_bits_per_s;
    let number = directions::number(record, one.test);
    let place = number.map_or_else(String::new, |number| format!(" in test {number}"));
    match one.expected_bits_per_s.zip(one.share) {
        Some((expected, share)) => {
            let expected = show_part(rate, expected);
            format!("{expected} ({}){place}", percent(share))
        }
        None => format!("{}, not judged", show_rate(rate)),
    }
}

/// Every fault of a culprit, with the next step and the commands that reproduce it.
fn details(record: &Record, culprit: &Culprit) -> Vec<String> {
    let faults = record.sheet.faults.iter();
    let own = faults.filter(|fault| fault.culprit == *culprit);
    own.flat_map(|fault| {
        let commands = faults::commands(record, fault);
        let commands = commands
            .into_iter()
            .flat_map(|(server, client)| [server, client]);
        let next = faults::next(record, fault);
        let next = next.map(|next| next.trim().to_owned());
        [faults::brief(record, fault)]
            .into_iter()
            .chain(next)
            .chain(commands)
    })
    .collect()
}

/// Replaces characters that XML 1.0 does not allow (2.2, Char) by `?`.
fn plain(text: &str) -> String {
    let known = |c: char| {
        matches!(c, '\t' | '\n' | '\r') || (c >= ' ' && c != '\u{fffe}' && c != '\u{ffff}')
    };
    text.chars()
        .map(|c| if known(c) { c } else { '?' })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::json;

    /// Symptom: "uplink of b in" was skipped without a word, though it or another one is at fault.
    #[test]
    fn a_place_that_may_be_at_fault_says_so() {
        let text = include_str!("../../tests/golden/slow-uplink/record.json");
        let text = write(&json::read(text).unwrap()).unwrap();
        assert!(text.contains("; FAIL: this or uplink of a, out"), "{text}");
    }

    #[test]
    fn what_xml_does_not_know_is_replaced_and_the_rest_escaped() {
        let sound = include_str!("../../tests/golden/two-hosts/record.json");
        let mut record = json::read(sound).unwrap();
        record.verdict.word = VerdictWord::Invalid;
        record.verdict.reason = "a < b & \"c\"\u{1}\u{ffff}".to_owned();
        let text = write(&record).unwrap();
        assert!(
            text.contains("message=\"a &lt; b &amp; &quot;c&quot;??\""),
            "{text}"
        );
        assert!(text.contains("errors=\"1\""), "{text}");
    }
}
