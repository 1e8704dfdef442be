//! Makes records anonymous: replaces what names a host, a site or a person, so that every report of the record can be shown to others.
//!
//! Kernel, processor, card, driver, times and figures are facts and stay. Read next: `names.rs` for the replacement within texts.

mod names;

use std::collections::HashSet;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use latency::description;

use crate::judge::closing::{Ended, close_until};
use crate::judge::order;
use crate::plan::{Site, Work};
use crate::record::{ANONYMOUS, Outcome, Record, Sheet, SwitchPort, Verdict};

use super::judged;
use names::{Names, PATH, REMOVED};

/// Remark of the site in every anonymous record.
const REMARK: &str =
    "hosts, addresses and site are replaced in this report; the sealed text is left out";
/// The same for a record whose thresholds are not those sealed.
const NOT_AS_SEALED: &str =
    "hosts, addresses and site are replaced in this report; the original is NOT AS SEALED";

/// Keys of words that pipebench defines, and of facts that name no place. A host can have the name of such a word, and a version of firmware
/// can look like an address, so they are not searched for names. Every other text is, also that of a key which is not known here.
const WORDS: [&str; 44] = [
    "algorithm",
    "architecture",
    "basis",
    "benchmark",
    "benchmarks",
    "bond",
    "bound",
    "congestion",
    "congestion_allowed",
    "coupling",
    "cpu",
    "datapath",
    "driver",
    "family",
    "firmware",
    "governor",
    "interrupts",
    "kernel",
    "kernel_version",
    "kind",
    "mode",
    "multi",
    "near",
    "off",
    "on",
    "pattern",
    "pin",
    "profile",
    "purpose",
    "rules",
    "settings",
    "sink",
    "source",
    "strategy",
    "token",
    "tool_commit",
    "tool_digest",
    "tool_version",
    "transport",
    "verify",
    "virtual_card",
    "wait",
    "word",
    "workers",
];
/// Keys of file names.
const PATHS: [&str; 2] = ["file", "path"];
/// Options whose values are file names, commands and names of the user.
const OPTIONS: [&str; 9] = [
    "fabric",
    "io-path",
    "msglen",
    "pattern",
    "plan",
    "remote-dir",
    "rsh",
    "sink",
    "source",
];

/// Makes records anonymous. The same host has the same name in all of them.
pub(crate) fn anonymise(records: Vec<&mut Record>) -> serde_json::Result<()> {
    let mut names = Names::default();
    for record in &records {
        collect(&mut names, record);
    }
    let mut records = records.into_iter();
    records.try_for_each(|record| replace(&mut names, record))
}

/// Collects the names in known fields of a record. Host names as the user gave them come first, so that each gets its own replacement.
fn collect(names: &mut Names, record: &Record) {
    let plan = &record.plan;
    for node in &plan.nodes {
        names.number(&node.host, "h");
    }
    // Nodes that never took part are not in the plan.
    let missing = record.missing.iter().map(|one| &one.node);
    let troubles = record.troubles.iter().map(|one| &one.node);
    for label in missing.chain(troubles) {
        let hosts = label.split('#').next().unwrap_or_default();
        for host in launcher::hosts::parse(hosts).unwrap_or_default() {
            names.number(&host.name, "h");
        }
    }
    for (node, host) in plan.nodes.iter().zip(&record.hosts) {
        names.number_alias(&node.host, &host.facts.hostname);
        names.number(&host.facts.identity, "machine");
        parts(names, &host.facts.hostname);
        let interfaces = host.facts.interfaces.iter();
        for address in interfaces.filter_map(|one| one.hardware.as_ref()) {
            // The system names interfaces after it, too.
            let name = |address: &str| format!("enx{}", address.replace(':', ""));
            let new = names.hardware(address);
            names.add(&name(address), &name(&new));
        }
    }
    for rank in record.outcome.ranks() {
        if let Some(node) = plan.nodes.get(rank.node) {
            names.number_alias(&node.host, &rank.host);
            parts(names, &rank.host);
        }
    }
    for node in &plan.nodes {
        parts(names, &node.host);
        let given = [
            (&node.switch, "s"),
            (&node.switch_port, "p"),
            (&node.group, "g"),
        ];
        for (name, kind) in given {
            names.number(name.as_deref().unwrap_or_default(), kind);
        }
    }
    let rails = record.sheet.ports.iter();
    for at in rails.filter_map(|port| port.at.as_ref()) {
        names.number(&at.switch, "s");
        names.number(&at.port, "p");
    }
    for uplink in &plan.criteria.uplinks {
        names.number(&uplink.group, "g");
    }
    for (what, text) in plan.site.iter().flat_map(Site::said) {
        names.person(text, what);
    }
    names.people(&record.command);
    fabric(names, record);
}

/// The short name of a host, and its domains.
fn parts(names: &mut Names, host: &str) {
    if host.parse::<std::net::IpAddr>().is_ok() {
        return;
    }
    let mut rest = host;
    while let Some((label, domain)) = rest.split_once('.') {
        if rest == host {
            names.number_alias(host, label);
        }
        names.add(domain, "domain");
        rest = domain;
    }
}

/// Hosts, switches and cables of a fabric's description.
fn fabric(names: &mut Names, record: &Record) {
    let Work::Latency(latency) = &record.plan.work else {
        return;
    };
    let Ok(draft) = description::read(&latency.fabric) else {
        return;
    };
    for (number, node) in latency.hosts.iter().zip(&record.plan.nodes) {
        let number = usize::try_from(*number).unwrap_or(usize::MAX);
        if let Some((name, _)) = draft.hosts.get(number) {
            names.number_alias(&node.host, name);
        }
    }
    for (name, _) in &draft.hosts {
        names.number(name, "h");
    }
    for (name, _) in &draft.switches {
        names.number(name, "s");
    }
    for cable in &draft.cables {
        names.number(cable.name.as_deref().unwrap_or_default(), "c");
        // The class of all cables of hosts, unless the description says otherwise.
        let class = cable.class.as_deref().filter(|class| *class != "host");
        names.number(class.unwrap_or_default(), "class");
    }
    names.add(&draft.name, "fabric");
}

/// Replaces all collected names, and everything else that has the form of an address, a user at a host or a path.
fn replace(names: &mut Names, record: &mut Record) -> serde_json::Result<()> {
    let is_known = findings(record)
        .is_some_and(|(verdict, sheet)| verdict == record.verdict && sheet == record.sheet);
    let name = record.name() + ANONYMOUS;
    let remark = match judged::broken_seal(record) {
        None => REMARK,
        Some(_) => NOT_AS_SEALED,
    };
    let ports = record.plan.site.take().and_then(|site| site.ports);
    let mut options = std::mem::take(&mut record.options);
    for (option, value) in &mut options {
        *value = match OPTIONS.contains(&option.as_str()) {
            true => REMOVED.to_owned(),
            false => names.text(value),
        };
    }
    // With other names, the sealed text would not be what was sealed.
    record.seal = None;
    record.place = None;
    record.command = vec![REMOVED.to_owned()];
    if let Work::Latency(latency) = &mut record.plan.work {
        latency.fabric.clear();
    }
    let begun = Outcome::open(&record.plan.work);
    let mut outcome = std::mem::replace(&mut record.outcome, begun);
    results(names, &mut outcome)?;
    // Those of data ports are in plan and sheet. Reports show no others, which name switches of other networks.
    let rails = record.sheet.ports.iter();
    let shown: HashSet<SwitchPort> = rails.filter_map(|port| port.at.clone()).collect();
    let hosts = record.hosts.iter_mut();
    for interface in hosts.flat_map(|host| &mut host.facts.interfaces) {
        let at = interface.switch_port.take();
        interface.switch_port = at.filter(|at| shown.contains(at));
    }
    *record = part(names, &*record)?;
    record.outcome = outcome;
    record.options = options;
    record.name = Some(name);
    record.plan.site = Some(Site {
        remarks: Some(remark.to_owned()),
        ports,
        ..Site::default()
    });
    if is_known {
        // The judge writes the same sentences with the new names. In a text, a word such as `send` can be the name of a host, too.
        if let Some(found) = findings(record) {
            (record.verdict, record.sheet) = found;
        }
    }
    Ok(())
}

/// What the judge says of a record. It is not what the record has if another version judged that run.
fn findings(record: &Record) -> Option<(Verdict, Sheet)> {
    let of = Ended {
        plan: &record.plan,
        hosts: &record.hosts,
        measured: record.measured(),
        missing: &record.missing,
        order: order::check(&record.plan, &record.hosts),
        troubles: &record.troubles,
    };
    close_until(of, &|| false)
}

/// Replaces names in results. Long lists of numbers have none, and stay out of the way: as JSON they need several times the memory.
fn results(names: &mut Names, outcome: &mut Outcome) -> serde_json::Result<()> {
    match outcome {
        Outcome::Acceptance(acceptance) => {
            for test in &mut acceptance.tests {
                let links = std::mem::take(&mut test.links);
                let worst = std::mem::take(&mut test.worst_links);
                let seconds = std::mem::take(&mut test.seconds);
                let sums = test.sums.take();
                *test = part(names, &*test)?;
                (test.links, test.worst_links) = (links, worst);
                (test.seconds, test.sums) = (seconds, sums);
            }
        }
        Outcome::Linktest(linktest) => linktest.ranks = part(names, &linktest.ranks)?,
        Outcome::Latency(latency) => {
            let pairs = std::mem::take(&mut latency.pairs);
            *latency = part(names, &*latency)?;
            latency.pairs = pairs;
        }
        Outcome::Imb(imb) => *imb = part(names, &*imb)?,
    }
    Ok(())
}

/// A part of a record with all names replaced.
fn part<T: Serialize + DeserializeOwned>(names: &mut Names, part: &T) -> serde_json::Result<T> {
    serde_json::from_value(renamed(names, serde_json::to_value(part)?, ""))
}

/// A value with all names replaced; `key` is that of the value or of the list in which it is.
fn renamed(names: &mut Names, value: Value, key: &str) -> Value {
    match value {
        Value::String(text) if is_word(key, &text) => Value::String(text),
        Value::String(_) if PATHS.contains(&key) => Value::String(PATH.to_owned()),
        Value::String(text) => Value::String(names.text(&text)),
        Value::Array(all) => {
            let all = all.into_iter();
            Value::Array(all.map(|one| renamed(names, one, key)).collect())
        }
        Value::Object(all) => {
            let mut new = Map::new();
            for (key, one) in all {
                let one = renamed(names, one, &key);
                new.insert(key, one);
            }
            Value::Object(new)
        }
        other => other,
    }
}

/// True for a word or fact that stays as it is. The order of ranks is a word, findings on what was ordered are sentences.
fn is_word(key: &str, text: &str) -> bool {
    match key {
        "order" => !text.contains(' '),
        _ => WORDS.contains(&key),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::judge::verdict::judge;
    use crate::record::Interface;
    use crate::report::compare::Comparison;
    use crate::report::{csv, header, json, junit, metrics, page, text};

    /// A record of each kind of work, and of each kind of text.
    const GOLDEN: [&str; 8] = [
        include_str!("../../../tests/golden/acceptance/record.json"),
        include_str!("../../../tests/golden/latency/record.json"),
        include_str!("../../../tests/golden/linktest/record.json"),
        include_str!("../../../tests/golden/patterns/record.json"),
        include_str!("../../../tests/golden/slow-uplink/record.json"),
        include_str!("../../../tests/golden/slow-receiver/record.json"),
        include_str!("../../../tests/golden/not-as-ordered/record.json"),
        include_str!("../../../tests/golden/one-host/record.json"),
    ];

    /// All reports of a record in one text.
    fn reports(record: &Record) -> String {
        [
            json::write(record).unwrap(),
            text::summary(record),
            text::troubles(&record.troubles).join("\n"),
            header::options(&record.options) + &header::hosts(&record.hosts),
            page::write(record, None, &[]),
            csv::write(record).unwrap(),
            junit::write(record).unwrap(),
            metrics::write(record),
        ]
        .concat()
    }

    /// A golden record of a site: its hosts are `zeus1` and so on.
    fn of_a_site(golden: &str) -> Record {
        let renamed = |text: String, number: usize| {
            text.replace(&format!("n{number}"), &format!("zeus{number}.acme.example"))
        };
        let mut record = json::read(&(1..=6).fold(golden.to_owned(), renamed)).unwrap();
        let said = |text: &str| Some(text.to_owned());
        record.plan.site = Some(Site {
            switch: said("Core of Acme"),
            serial: said("FDO-4711-X"),
            location: said("Row 7, Berlin"),
            operator: said("Oakley"),
            customer: said("Acme Corp."),
            remarks: said("for the move to Berlin"),
            ports: Some(48),
        });
        for node in &mut record.plan.nodes {
            node.switch = said("leaf-berlin");
        }
        for host in &mut record.hosts {
            host.facts.interfaces.push(Interface {
                switch_port: Some(SwitchPort {
                    switch: "mgmt-berlin".to_owned(),
                    port: "Gi0/1".to_owned(),
                }),
                name: "enxaabbcc000007".to_owned(),
                addresses: vec![("fd00:acd::7".parse().unwrap(), 64)],
                hardware: said("aa:bb:cc:00:00:07"),
                ..Interface::default()
            });
        }
        let rsh = "ssh -l oakleyb -o User=wilma -J jumper";
        record.command = ["--hosts", "zeus[1-4]", "--rsh", rsh, "--folder", "acme"]
            .map(str::to_owned)
            .to_vec();
        record.options.push(("rsh".to_owned(), format!("{rsh:?}")));
        record.notices.extend(
            [
                "zeus1.acme.example: using the OpenSSH client: ProxyJump oakleyb@jumper is configured",
                "zeus[1-2].acme.example: FDO-4711-X, key SHA256:Zz9 (/home/oakleyb/.ssh/known_hosts line 3)",
                "portal.acme.example (10.9.9.9): permission denied for user oakleyb, not at Row 7, Berlin",
                "zeus1.acme.example: wilma is locked",
            ]
            .map(str::to_owned),
        );
        record
    }

    #[test]
    fn no_report_names_a_host_an_address_a_person_or_the_site() {
        const NAMED: [&str; 27] = [
            "zeus",
            "acme",
            "Acme",
            "berlin",
            "Berlin",
            "FDO",
            "Oakley",
            "oakley",
            "jumper",
            "portal",
            "\"bench\"",
            "\"vm\"",
            "boot-",
            "0b6d5c3e",
            "10.0.0.",
            "10.1.0.",
            "10.9.9.",
            "192.0.2.",
            "fd00:",
            "aa:bb:cc",
            "aabbcc",
            "cluster.hosts",
            "Eth1/",
            "Gi0/",
            "wilma",
            "Zz9",
            "/home",
        ];
        for golden in GOLDEN {
            let mut record = of_a_site(golden);
            let before = reports(&record);
            assert!(
                ["zeus", "FDO", "oakleyb", "aabbcc"]
                    .iter()
                    .all(|name| before.contains(name))
            );
            anonymise(vec![&mut record]).unwrap();
            let after = reports(&record);
            for name in NAMED {
                if let Some(at) = after.find(name) {
                    let near: String = after[at..].chars().take(80).collect();
                    panic!("{name} in a report of {}: {near}", record.token);
                }
            }
            // Symptom: `pipebench retest ...-anonymous --moved h3=PORT`, which no one can run.
            assert!(!after.contains("pipebench retest"), "{}", record.token);
            assert!(record.is_anonymous());
            assert!(after.contains(REMARK) && after.contains(ANONYMOUS));
            assert_eq!(json::read(&json::write(&record).unwrap()).unwrap(), record);
        }
    }

    /// All words of a value that can be the name of a host, keys included.
    fn words(value: &Value, found: &mut BTreeSet<String>) {
        let mut add = |text: &String| {
            let is_name = |letter: char| letter.is_ascii_alphanumeric() || "._-".contains(letter);
            if text.len() < 40 && text.chars().all(is_name) && !is_no_name(text) {
                found.insert(text.clone());
            }
        };
        match value {
            Value::String(text) => add(text),
            Value::Array(all) => all.iter().for_each(|one| words(one, found)),
            Value::Object(all) => {
                all.keys().for_each(&mut add);
                all.values().for_each(|one| words(one, found));
            }
            _ => {}
        }
    }

    /// True for what is not replaced as the name of a host.
    fn is_no_name(text: &str) -> bool {
        let mut names = Names::default();
        names.number(text, "h");
        names.text(text) != "h1"
    }

    /// Regression test: a host with the name of a pattern, a verdict or a key must not change what the record says.
    #[test]
    fn a_host_can_have_the_name_of_any_word_of_the_record() {
        let mut names = BTreeSet::new();
        for golden in GOLDEN {
            words(&serde_json::from_str(golden).unwrap(), &mut names);
        }
        let own = ["pass", "port", "n1", "n10", "n1-ib", "n1.cluster.local"];
        names.extend(own.map(str::to_owned));
        assert!(
            ["mesh", "PASS", "memory", "block", "order"]
                .iter()
                .all(|word| names.contains(*word))
        );
        let names: Vec<String> = names.into_iter().collect();
        for golden in &GOLDEN[..4] {
            let mut sound = json::read(golden).unwrap();
            for test in sound.plan.tests_mut() {
                test.network.networks.clear();
            }
            for names in names.chunks_exact(sound.plan.nodes.len()) {
                let mut record = sound.clone();
                for (number, name) in names.iter().enumerate() {
                    let node = &mut record.plan.nodes[number];
                    (node.host, node.label) = (name.clone(), name.clone());
                    record.hosts[number].node.clone_from(name);
                }
                for port in &mut record.sheet.ports {
                    port.label.clone_from(&names[port.node]);
                }
                record.notices.push(format!("{} -> {}", names[0], names[1]));
                let before = record.clone();
                anonymise(vec![&mut record]).unwrap_or_else(|error| panic!("{names:?}: {error}"));
                let labels: Vec<String> = (1..=names.len())
                    .map(|number| format!("h{number}"))
                    .collect();
                let nodes = record.plan.nodes.iter();
                assert!(nodes.map(|node| &node.label).eq(&labels), "{names:?}");
                assert_eq!(record.notices.last().unwrap(), "h1 -> h2", "{names:?}");
                let ports = record.sheet.ports.iter();
                assert!(
                    ports.clone().all(|port| port.label == labels[port.node]),
                    "{names:?}"
                );
                assert_eq!(record.plan.tests(), before.plan.tests(), "{names:?}");
                assert_eq!(record.verdict.word, before.verdict.word);
            }
        }
    }

    #[test]
    fn an_anonymous_record_is_judged_and_compared_as_the_original() {
        let [mut now, mut before] = [GOLDEN[0], GOLDEN[5]].map(of_a_site);
        let judged = |record: &Record| {
            let judgement = judge(&record.plan, &record.hosts, record.measured());
            (judgement.verdict, judgement.sheet)
        };
        let rates = |before: &Record, now: &Record| -> Vec<[Option<f64>; 2]> {
            let rows = Comparison::of(before, now).rows.into_iter();
            rows.map(|row| [row.before, row.now]).collect()
        };
        let (verdict, _) = judged(&before);
        let changes = rates(&before, &now);
        anonymise(vec![&mut now, &mut before]).unwrap();
        let (anonymous, sheet) = judged(&before);
        assert_eq!(anonymous.word, verdict.word);
        let renamed = |text: String, number: usize| {
            text.replace(&format!("zeus{number}.acme.example"), &format!("h{number}"))
        };
        let reason = (1..=4).fold(verdict.reason, renamed);
        let reason = reason.replace("leaf-berlin", "s1").replace("Eth1/", "p");
        assert_eq!(anonymous.reason, reason);
        let labels = |sheet: &crate::record::Sheet| -> Vec<String> {
            sheet.ports.iter().map(|port| port.label.clone()).collect()
        };
        assert_eq!(labels(&sheet), labels(&before.sheet));
        assert_eq!(rates(&before, &now), changes);
    }

    /// Symptom: with a switch port 1.1 and an operator `test`, the sheet said "p1 Gbit/s" and "in operator 3".
    #[test]
    fn no_name_takes_a_figure_or_a_word_from_the_reason() {
        let mut record = json::read(GOLDEN[5]).unwrap();
        record.verdict.reason = "n3 receive: 1.1 of 94.0 Gbit/s in test 3".to_owned();
        (record.plan.nodes[0].switch_port, record.plan.nodes[0].group) =
            (Some("1.1".to_owned()), Some("94.0".to_owned()));
        record.plan.site = Some(Site {
            operator: Some("test".to_owned()),
            ..Site::default()
        });
        record.command = ["--user", "test", "root@n1"].map(str::to_owned).to_vec();
        anonymise(vec![&mut record]).unwrap();
        let reason = "h3 receive: 1.1 of 94.0 Gbit/s in test 3";
        assert_eq!(record.verdict.reason, reason);
    }

    /// Symptom: with hosts called `switch` and `send`, the sheet said "h3 receive (h1 port p3)".
    #[test]
    fn a_host_called_like_a_word_of_the_sheet_garbles_no_sentence() {
        let said = |hosts: &[(&str, &str)]| {
            let names = hosts.iter();
            let text = names.fold(GOLDEN[5].to_owned(), |text, (old, new)| {
                text.replace(old, new)
            });
            let mut record = json::read(&text).unwrap();
            (record.verdict, record.sheet) = findings(&record).unwrap();
            anonymise(vec![&mut record]).unwrap();
            (record.verdict, record.sheet)
        };
        let named = said(&[("n1", "switch"), ("n3", "send")]);
        let reason = &named.0.reason;
        assert!(
            reason.starts_with("h3 receive (switch port p3): "),
            "{reason}"
        );
        assert_eq!(named, said(&[]));
    }

    /// The names of switches that only the sheet has go, too.
    #[test]
    fn the_switch_port_of_a_rail_is_replaced() {
        let mut record = json::read(GOLDEN[5]).unwrap();
        let at = SwitchPort {
            switch: "leaf-berlin".to_owned(),
            port: "Eth9/7".to_owned(),
        };
        record.plan.nodes[2].switch_port = None;
        record.hosts[2].facts.interfaces[1].switch_port = Some(at.clone());
        record.sheet.ports[2].at = Some(at);
        assert!(reports(&record).contains("leaf-berlin Eth9/7"));
        anonymise(vec![&mut record]).unwrap();
        let after = reports(&record);
        assert!(after.contains("s1 p4"), "{after}");
        assert!(
            !after.contains("berlin") && !after.contains("Eth9"),
            "{after}"
        );
    }

    /// Two runs of a site need not have the same hosts at the same places.
    #[test]
    fn a_host_has_the_same_name_in_all_records() {
        let [mut first, mut second] = [GOLDEN[0], GOLDEN[5]].map(of_a_site);
        for node in &mut second.plan.nodes {
            node.host = node.host.replace("zeus2.acme.example", "zeus9");
            node.host = node.host.replace("zeus4.acme.example", "zeus1");
        }
        anonymise(vec![&mut first, &mut second]).unwrap();
        let hosts = |record: &Record| -> Vec<String> {
            record
                .plan
                .nodes
                .iter()
                .map(|node| node.host.clone())
                .collect()
        };
        assert_eq!(hosts(&first), ["h1", "h2", "h3", "h4"]);
        // `zeus1` is the short name of h1, and zeus9 is new.
        assert_eq!(hosts(&second), ["h1", "h5", "h3", "h1"]);
    }

    #[test]
    fn a_seal_is_neither_shown_nor_called_broken_unless_the_original_is() {
        let mut record = json::read(GOLDEN[6]).unwrap();
        let names = ["node", "speed", "group", "floor"];
        for (node, name) in record.plan.nodes.iter_mut().zip(names) {
            let seal = record.seal.as_mut().unwrap();
            *seal = seal.replace(&format!("node {} ", node.label), &format!("node {name} "));
            (node.host, node.label) = (name.to_owned(), name.to_owned());
        }
        let mut changed = record.clone();
        changed.plan.criteria.floor = 0.5;
        assert_eq!(judged::broken_seal(&record), None);
        assert!(reports(&record).contains("Sealed before the start"));
        anonymise(vec![&mut record]).unwrap();
        let shown = reports(&record);
        assert!(!shown.contains("Sealed before the start") && !shown.contains("NOT AS SEALED"));
        anonymise(vec![&mut changed]).unwrap();
        assert!(text::summary(&changed).contains(NOT_AS_SEALED));
        assert!(page::write(&changed, None, &[]).contains(NOT_AS_SEALED));
    }
}
