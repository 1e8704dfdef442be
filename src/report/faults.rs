//! The judge's findings on a fault as text: its figures, its evidence, commands that reproduce it, and the next step.

use crate::judge::names::{Alone, by_itself, name, name_of};
use crate::record::{Culprit, FaultKind, FaultSheet, PortSheet, Record, VerdictWord};
use crate::units::{Scale, rate_word, show_part, show_rate};

use super::{percent, quoted};

/// A fault's name with its figures, in one line.
pub(super) fn brief(record: &Record, fault: &FaultSheet) -> String {
    let name = name_of(&record.plan, &record.sheet, fault);
    format!("{name}: {}", figures(fault))
}

/// A fault's figures, in one line.
pub(super) fn figures(fault: &FaultSheet) -> String {
    match fault.kind {
        FaultKind::Loss if fault.word == VerdictWord::HostLimited => {
            format!("{:.1e} of segments lost, in its host", fault.share)
        }
        FaultKind::Loss => format!("{:.1e} of segments lost", fault.share),
        FaultKind::Broken => format!("{:.1e} of frames arrived broken", fault.share),
        FaultKind::Rate | FaultKind::HeadOfLine => {
            let rate = fault.rate_bits_per_s;
            let by_host = fault.word == VerdictWord::HostLimited;
            let note = fault.notes.first().filter(|_| by_host);
            let note = note.map_or_else(String::new, |note| format!(": {note}"));
            format!(
                "{} ({}){note}",
                show_part(rate, rate / fault.share.max(1e-9)),
                percent(fault.share)
            )
        }
    }
}

/// The command that retests the faults of a run, or of the run that it retested. It names the place of the run, if known, so that it finds the run
/// from the current folder. Returns `None` if runs of this kind have no retests, or if the names of the record were replaced.
fn retest(record: &Record) -> Option<String> {
    if record.is_anonymous() {
        return None;
    }
    let first = record.plan.acceptance()?.repeats.as_ref();
    let run = match (&record.place, first) {
        (Some(place), None) => place.display().to_string(),
        // A retest is stored beside its run unless its command names another folder.
        (Some(place), Some(first)) => place.with_file_name(first).display().to_string(),
        (None, first) => first.cloned().unwrap_or_else(|| record.name()),
    };
    Some(format!("pipebench retest {}", quoted(&[run])))
}

/// Words that add the retest of a fault after something else was done.
fn then_retest(record: &Record) -> String {
    let retest = retest(record);
    retest.map_or_else(String::new, |retest| {
        format!("; then `{retest}` repeats the tests")
    })
}

/// The command of a run with another pattern. Returns `None` if it is a command that takes no pattern, such as that of a plan file.
fn with_pattern(record: &Record, pattern: &str) -> Option<String> {
    /// Options with a value that the new run must not have: they exclude a pattern, or name files of the first run.
    const LEFT_OUT: [&str; 6] = [
        "--pattern",
        "--profile",
        "--csv",
        "--json",
        "--json-stream",
        "--resume",
    ];
    let first = record.command.first()?;
    if !first.starts_with('-') && first != "load" {
        return None;
    }
    let mut command = vec!["pipebench".to_owned()];
    let mut words = record.command.iter();
    while let Some(word) = words.next() {
        match word.split_once('=') {
            Some((option, _)) if LEFT_OUT.contains(&option) => {}
            None if LEFT_OUT.contains(&word.as_str()) => {
                words.next();
            }
            _ => command.push(word.clone()),
        }
    }
    command.extend(["--pattern", pattern].map(str::to_owned));
    Some(quoted(&command))
}

/// The cable to move, and the command to run after that.
fn move_cable(record: &Record, number: usize) -> String {
    let label = record.sheet.label(number);
    let port = record.sheet.ports.get(number);
    let node = port.and_then(|port| port.plugged(&record.plan));
    let from = node.as_ref().and_then(|node| node.place());
    let from = from.map_or_else(String::new, |at| format!(" from {at}"));
    let then = retest(record).map(|retest| {
        // A node with several rails has ports of other names, and `retest` asks for a host.
        let host = node.as_ref().map_or(label, |node| &node.label);
        format!("run `{retest} --moved {host}=PORT`")
    });
    let then = then.unwrap_or_else(|| "repeat the command".to_owned());
    format!("move {label}'s cable{from} to another port, then {then}")
}

/// The segment that hosts can blame and the swap that separates its parts; for an unconfirmed fault, the measurement that would decide it.
pub(super) fn next(record: &Record, fault: &FaultSheet) -> Option<String> {
    let label = |port: usize| record.sheet.label(port);
    if fault.word != VerdictWord::Fail {
        return would_decide(record, fault);
    }
    if !fault.or.is_empty() {
        return Some(
            "      hosts cannot tell these apart. Next: name more hosts, or swap two cables and repeat the command"
                .to_owned(),
        );
    }
    if fault.kind == FaultKind::HeadOfLine {
        return Some(format!(
            "      location: the switch's queues, where traffic to one port slows traffic to another. Next: check its buffer and flow control settings (pause frames have the same effect){}",
            then_retest(record)
        ));
    }
    Some(match &fault.culprit {
        Culprit::Send(port) | Culprit::Receive(port) => format!(
            "      location: NIC, cable or switch port (hosts cannot tell which of the three). Next: {}",
            move_cable(record, *port)
        ),
        Culprit::Pair(from, to) => format!(
            "      location: the path {}->{} within the fabric; both ports are healthy with others. Next: check the switch's counters on that path",
            label(*from),
            label(*to)
        ),
        Culprit::Up(_) | Culprit::Down(_) => {
            "      location: the uplink; its ports are healthy in isolation. Next: test its members one by one".to_owned()
        }
        Culprit::BothWays(port) => format!(
            "      location: half duplex, the host's PCIe slot, or the port; each direction is healthy in isolation. Next: check the negotiated duplex, then {}",
            move_cable(record, *port)
        ),
        Culprit::Shared { .. } | Culprit::Path(_) => format!(
            "      location: what these ports share; they are healthy in isolation and with fewer others. Next: check the chip, line card, backplane and members of a bundle{}",
            then_retest(record)
        ),
    })
}

/// The next step alone, without where the fault can be.
pub(super) fn step(record: &Record, fault: &FaultSheet) -> Option<String> {
    let text = next(record, fault)?;
    let names = [("Next: ", "next"), ("to decide: ", "to decide")];
    names.into_iter().find_map(|(mark, name)| {
        let (_, step) = text.split_once(mark)?;
        Some(format!("{name}: {step}"))
    })
}

/// The measurement that would decide an unconfirmed fault.
fn would_decide(record: &Record, fault: &FaultSheet) -> Option<String> {
    let next = match (fault.word, fault.kind) {
        _ if fault.condition.is_some() => {
            "test the port with a host that does not share its card, or test each card of the bond alone (--interface)"
        }
        (VerdictWord::HostLimited, _) => {
            "test the port with a faster host (swap two hosts), or remove the bottleneck on this host"
        }
        (_, FaultKind::Loss | FaultKind::Broken) => {
            "repeat the command with a longer --time, and compare the switch's error counters before and after"
        }
        (_, FaultKind::HeadOfLine) => "repeat the command",
        (_, FaultKind::Rate) => {
            match (
                &fault.culprit,
                by_itself(&record.plan, &record.sheet, fault),
            ) {
                (culprit, _) if culprit.is_shared() => return Some(asks(record, fault)),
                (Culprit::Up(_) | Culprit::Down(_), _) => {
                    "test the members of the uplink one by one"
                }
                (_, Alone::Untold) => {
                    "test the port with a known-good partner and nothing else (--hosts A,B --pattern pairs)"
                }
                (_, Alone::Well(_)) if fell_short_in_a_permutation(record, fault) => {
                    "repeat the command with a longer --time: a shortfall by chance disappears, a limit of the switch under full load stays"
                }
                (_, Alone::Well(_)) => {
                    let rotate = with_pattern(record, "rotate");
                    let rotate = rotate.map(|command| format!("`{command}`"));
                    return Some(format!(
                        "      to decide: run {}, in which every port carries one link each way: if the port falls short there, too, it is at fault",
                        rotate.as_deref().unwrap_or("--pattern rotate")
                    ));
                }
                (_, Alone::Mixed(..)) => {
                    "test the port with a third partner (--hosts A,B --pattern pairs)"
                }
            }
        }
    };
    Some(format!("      to decide: {next}"))
}

/// The question to answer about a fabric that carries less than its ports can.
fn asks(record: &Record, fault: &FaultSheet) -> String {
    let carried = show_rate(fault.rate_bits_per_s);
    let word = rate_word(numbers::whole(fault.rate_bits_per_s));
    let Culprit::Shared { from, to } = &fault.culprit else {
        return format!(
            "      to decide: may these pairs share {carried}? (--fabric non-blocking specifies that nothing is shared)"
        );
    };
    let all = record.sheet.ports.len();
    if from.len() == all && to.len() == all {
        return format!(
            "      to decide: is it one switch? Then it carries less than its ports can, and --fabric non-blocking makes this a FAIL. Leaves with uplinks? Then declare them (group= in a host file, --uplink GROUP={word})"
        );
    }
    format!(
        "      to decide: is it an uplink of {carried}? Then declare it (group= in a host file, --uplink GROUP={word}). One switch? Then --fabric non-blocking makes this a FAIL"
    )
}

/// True if the blamed port direction carried its least share in a permutation, where each port has one link each way.
fn fell_short_in_a_permutation(record: &Record, fault: &FaultSheet) -> bool {
    let direction = match fault.culprit {
        Culprit::Pair(from, _) => record.sheet.direction(&Culprit::Send(from)),
        _ => record.sheet.direction(&fault.culprit),
    };
    let test = direction.and_then(|one| record.plan.tests().get(one.test));
    test.is_some_and(|test| test.pattern.is_permutation(record.plan.nodes.len()))
}

/// Retests of several links at once, which prove what ports share, isolated measurements, and the commands that repeat the first direct one of these.
pub(super) fn evidence(record: &Record, fault: &FaultSheet) -> Vec<String> {
    const A_LINE: usize = 4;
    let sheet = &record.sheet;
    // A single link of several is among the evidence.
    let together = || fault.steps.iter().rev().filter(|step| step.links > 1);
    let rates = fault.evidence.iter().map(|one| one.rate_bits_per_s);
    let rates = rates.chain(together().map(|step| step.expected_bits_per_s));
    let scale = Scale::of(rates.fold(0.0, f64::max));
    let alone = fault.evidence.iter().map(|one| {
        let pair = name(&record.plan, sheet, &Culprit::Pair(one.from, one.to));
        let alone = match one.width {
            1 => "alone",
            _ => "with others",
        };
        match fault.kind.is_of_losses() {
            true => format!("{pair} {alone} {:.1e} lost", one.loss),
            false => format!("{pair} {alone} {}", scale.show(one.rate_bits_per_s)),
        }
    });
    let together = together().map(|step| {
        let rate = scale.show(step.rate_bits_per_s);
        let expected = scale.show(step.expected_bits_per_s);
        format!("{} links at once {rate} of {expected}", step.links)
    });
    let told: Vec<String> = together.chain(alone).collect();
    if told.is_empty() {
        return Vec::new();
    }
    let mut lines: Vec<String> = told
        .chunks(A_LINE)
        .enumerate()
        .map(|(number, part)| {
            let head = if number == 0 { "evidence" } else { "" };
            format!("{head:10}  {}", part.join("   "))
        })
        .collect();
    if let (Some(last), false) = (lines.last_mut(), fault.kind.is_of_losses()) {
        *last += &format!(" {}", scale.unit);
    }
    let commands = commands(record, fault);
    lines.extend(commands.map(|(server, client)| format!("reproduce   {server}      {client}")));
    lines
}

/// Server and client commands that repeat the first direct isolated measurement with another tool (iperf3), with the rate to expect.
/// Returns `None` if one pair cannot show the fault, or nothing was confirmed that a command could show.
pub(super) fn commands(record: &Record, fault: &FaultSheet) -> Option<(String, String)> {
    if fault.word != VerdictWord::Fail && fault.condition.is_none() {
        return None;
    }
    // One client loads one pair. It can show neither a shared uplink nor a port that others congest.
    if fault.kind == FaultKind::HeadOfLine || fault.culprit.is_uplink() || fault.culprit.is_shared()
    {
        return None;
    }
    let one = fault.direct_evidence().next()?;
    let first = record.plan.tests().first();
    let (streams, rails) = first.map_or((1, 1), |test| (test.streams, test.rails.max(1)));
    // Streams of one rail, since each rail had its own streams.
    let streams = (streams / rails).max(1);
    // The rate limit applies to each stream.
    let held = fault.kind.is_of_losses().then(|| {
        let each = one.rate_bits_per_s / streams as f64;
        format!(" -b {:.0}K", (each / 1e3).max(1.0))
    });
    let held = held.unwrap_or_default();
    let port = |number: usize| record.sheet.ports.get(number);
    let (from, to) = (port(one.from)?, port(one.to)?);
    let address = |port: &PortSheet| {
        let host = record.hosts.get(port.node)?;
        Some(host.rails.get(port.rail)?.address)
    };
    let host = |port: &PortSheet| Some(record.plan.nodes.get(port.node)?.host.as_str());
    let server = format!("{}$ iperf3 -s -B {}", host(to)?, address(to)?);
    let client = format!(
        "{}$ iperf3 -c {} -B {} -P {streams}{held} -t 30      (expect about {})",
        host(from)?,
        address(to)?,
        address(from)?,
        show_rate(one.rate_bits_per_s)
    );
    Some((server, client))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Pattern;

    /// Symptom: an `iperf3` line below UNDECIDED and HOST-LIMITED, with the rate of a healthy port to expect.
    #[test]
    fn commands_reproduce_only_what_was_confirmed() {
        let record = |text: &str| -> Record { serde_json::from_str(text).unwrap() };
        for (text, is_confirmed) in [
            (
                include_str!("../../tests/golden/slow-receiver/record.json"),
                true,
            ),
            (
                include_str!("../../tests/golden/undecided/record.json"),
                false,
            ),
            (
                include_str!("../../tests/golden/host-limited/record.json"),
                false,
            ),
        ] {
            let record = record(text);
            let known = commands(&record, &record.sheet.faults[0]);
            assert_eq!(known.is_some(), is_confirmed, "{known:?}");
        }
    }

    #[test]
    fn what_would_decide_is_not_what_was_measured_already() {
        let text = include_str!("../../tests/golden/undecided/record.json");
        let mut record: Record = serde_json::from_str(text).unwrap();
        let said = |record: &Record| would_decide(record, &record.sheet.faults[0]).unwrap();
        record.command = vec!["run".to_owned(), "plan.toml".to_owned()];
        assert!(
            said(&record).contains("decide: run --pattern rotate"),
            "{}",
            said(&record)
        );
        record.plan.tests_mut()[0].pattern = Pattern::RING;
        let longer = "decide: repeat the command with a longer --time";
        assert!(said(&record).contains(longer), "{}", said(&record));
    }

    /// Symptom: "to decide: run --pattern rotate", without the hosts and the speed that it needs.
    #[test]
    fn what_would_decide_is_a_command_to_copy() {
        let text = include_str!("../../tests/golden/undecided/record.json");
        let mut record: Record = serde_json::from_str(text).unwrap();
        let words = "--json a.json --hosts n[1-4] --link-speed=100M --pattern=mesh --csv a.csv -q";
        record.command = words.split(' ').map(str::to_owned).collect();
        let command =
            "`pipebench --hosts 'n[1-4]' --link-speed=100M -q --pattern rotate`, in which";
        let said = would_decide(&record, &record.sheet.faults[0]).unwrap();
        assert!(said.contains(command), "{said}");
    }

    /// Symptom: "run `pipebench retest pb-…`" was not found, since the run lay in the folder `results`.
    #[test]
    fn a_retest_names_the_place_of_its_run() {
        let text = include_str!("../../tests/golden/slow-receiver/record.json");
        let mut record: Record = serde_json::from_str(text).unwrap();
        let said = |record: &Record| next(record, &record.sheet.faults[0]).unwrap();
        assert!(
            said(&record).contains("`pipebench retest pb-20261121-184228-b0b0b0 --moved n3=PORT`")
        );
        record.place = Some("results/pb-a".into());
        assert!(said(&record).contains("`pipebench retest results/pb-a --moved n3=PORT`"));
        record.plan.acceptance_mut().unwrap().repeats = Some("pb-b".to_owned());
        assert!(said(&record).contains("`pipebench retest results/pb-b --moved n3=PORT`"));
    }
}
