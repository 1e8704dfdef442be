//! The truth harness: a fabric in the lab is injured, or not, pipebench judges it, and what it says is compared with what
//! was done. Used by `tests/lab_truth.rs` (ten cases) and `benches/truth` (as many as one likes).
#![allow(dead_code, reason = "the test and the benchmark each use their part")]

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pipebench::record::{Culprit, FaultKind, FaultSheet, Record, VerdictWord};
use pipebench::report::json;

use crate::lab::{Finished, Lab, LabOptions};

/// Speed of a port in Mbit/s.
const PORT_MBIT: u32 = 200;
/// Speed of a slow port on purpose, and of the slower ones of mixed speeds.
const SLOW_MBIT: u32 = 100;

/// What the fabric is like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// All ports alike.
    Plain,
    /// Every second port at half speed, as ordered.
    MixedSpeeds,
    /// The last port at half speed, on purpose.
    OneSlow,
    /// Two switches and a trunk of half of what its ports could send.
    Oversubscribed,
}

/// What is wrong. Hosts are counted from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Injury {
    /// What a host sends.
    Send(usize),
    /// What a host receives.
    Receive(usize),
    /// Both of a host.
    Both(usize),
    /// What one host sends to another.
    Pair(usize, usize),
    /// The trunk from the first switch to the second one.
    Uplink,
    /// A host's share of the processors, in thousandths of one.
    Throttled(usize, u32),
    /// One in so many frames to a host is lost.
    Loss(usize, u32),
    /// A host's cable is out for a part of the time.
    Flapping(usize),
    /// What one host sends, and what another one receives.
    Two(usize, usize),
}

/// One trial.
#[derive(Debug, Clone, Copy)]
pub struct Case {
    pub hosts: usize,
    pub shape: Shape,
    pub congestion: &'static str,
    pub injury: Option<Injury>,
    /// What the injury leaves, in percent.
    pub left: u32,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let injury = match self.injury {
            None => "sound".to_owned(),
            Some(injury) => format!("{injury:?} at {} %", self.left),
        };
        write!(
            f,
            "{injury}, {} hosts, {:?}, {}",
            self.hosts, self.shape, self.congestion
        )
    }
}

/// What came of it.
#[derive(Debug)]
pub struct Outcome {
    pub word: VerdictWord,
    /// What was blamed is what was injured, and nothing else; for a sound fabric, nothing was blamed.
    pub right: bool,
    /// Somebody was blamed who was not injured.
    pub innocent: bool,
    pub said: String,
}

/// Builds the fabric, runs pipebench on it with these tests, and compares.
pub fn try_case(program: &str, case: &Case, tests: &[&str]) -> Outcome {
    let lab = Lab::raise(LabOptions {
        hosts: case.hosts,
        congestion: Some(case.congestion),
        ..LabOptions::default()
    });
    let second: Vec<usize> = (1..=case.hosts)
        .filter(|host| host * 2 > case.hosts)
        .collect();
    let trunk = PORT_MBIT * u32::try_from(case.hosts - second.len()).expect("few hosts") / 2;
    for host in lab.test_hosts() {
        lab.shape_egress(host, speed(case, host));
        lab.shape_ingress(host, speed(case, host));
    }
    if case.shape == Shape::Oversubscribed {
        lab.split(&second, trunk);
    }
    write_hosts(&lab, case, &second);
    let less = |mbit: u32| mbit * case.left / 100;
    match case.injury {
        None | Some(Injury::Flapping(_) | Injury::Throttled(..)) => {}
        Some(Injury::Send(host)) => lab.shape_egress(host, less(speed(case, host))),
        Some(Injury::Receive(host)) => lab.shape_ingress(host, less(speed(case, host))),
        Some(Injury::Both(host)) => {
            lab.shape_egress(host, less(speed(case, host)));
            lab.shape_ingress(host, less(speed(case, host)));
        }
        Some(Injury::Pair(from, to)) => {
            lab.slow_pair(from, to, speed(case, from), less(speed(case, from)));
        }
        Some(Injury::Uplink) => lab.shape_trunk(true, less(trunk)),
        Some(Injury::Loss(host, one_in)) => {
            lab.lose(host, one_in);
        }
        Some(Injury::Two(from, to)) => {
            lab.shape_egress(from, less(speed(case, from)));
            lab.shape_ingress(to, less(speed(case, to)));
        }
    }
    let finished = run(&lab, program, case, tests);
    let text = std::fs::read_to_string(lab.path(0, "/tmp/record.json"))
        .unwrap_or_else(|why| panic!("{case}: no record: {why}\n{finished}"));
    let record = json::read(&text).unwrap_or_else(|why| panic!("{case}: {why}\n{finished}"));
    compare(case, &record, &finished)
}

fn run(lab: &Lab, program: &str, case: &Case, tests: &[&str]) -> Finished {
    let words = [
        program,
        "--hostfile",
        "/tmp/hosts",
        "--warmup",
        "500ms",
        "--quiet",
        "--json",
        "/tmp/record.json",
    ];
    let mut words: Vec<&str> = words.iter().chain(tests).copied().collect();
    let uplinks;
    if case.shape == Shape::Oversubscribed {
        let mbit = PORT_MBIT * u32::try_from(case.hosts / 2).expect("few hosts") / 2;
        uplinks = format!("a={mbit}M,b={mbit}M");
        words.extend(["--uplink", &uplinks]);
    }
    let over = AtomicBool::new(false);
    let flag = &over;
    std::thread::scope(|scope| {
        if let Some(Injury::Flapping(host)) = case.injury {
            scope.spawn(move || flap(lab, host, case.left, flag));
        }
        if let Some(Injury::Throttled(host, thousandths)) = case.injury {
            scope.spawn(move || throttle(lab, host, thousandths, flag));
        }
        let finished = lab.run(0, &words, Duration::from_secs(900));
        over.store(true, Ordering::SeqCst);
        finished
    })
}

/// Slows the processes of the program as soon as there are some: to be copied and started takes a processor, too.
fn throttle(lab: &Lab, host: usize, thousandths: u32, over: &AtomicBool) {
    let slow = lab.throttle(host, thousandths);
    while !over.load(Ordering::SeqCst) {
        for process in lab.processes(host) {
            if process.name.starts_with("pb-") {
                slow.take(process.pid);
            }
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Out for so much of each second and a half that about so many percent are left, connections finding their rate again included.
fn flap(lab: &Lab, host: usize, left: u32, over: &AtomicBool) {
    const PERIOD_MS: u64 = 1_500;
    // Set-up must come through: links are made while the cable is in.
    let out = PERIOD_MS * u64::from(100 - left) / 100;
    while !over.load(Ordering::SeqCst) {
        std::thread::sleep(Duration::from_millis(PERIOD_MS - out));
        lab.link_down(host);
        std::thread::sleep(Duration::from_millis(out));
        lab.link_up(host);
    }
}

fn speed(case: &Case, host: usize) -> u32 {
    match case.shape {
        Shape::MixedSpeeds if host.is_multiple_of(2) => SLOW_MBIT,
        Shape::OneSlow if host == case.hosts => SLOW_MBIT,
        _ => PORT_MBIT,
    }
}

fn write_hosts(lab: &Lab, case: &Case, second: &[usize]) {
    let line = |host: usize| {
        let group = if second.contains(&host) { "b" } else { "a" };
        let group = match case.shape {
            Shape::Oversubscribed => format!(" group={group}"),
            _ => String::new(),
        };
        format!("n{host} speed={}M{group}\n", speed(case, host))
    };
    let text: String = lab.test_hosts().map(line).collect();
    std::fs::write(lab.path(0, "/tmp/hosts"), text).expect("the launching host has a /tmp");
}

fn compare(case: &Case, record: &Record, finished: &Finished) -> Outcome {
    let faults = &record.sheet.faults;
    let fails: Vec<&FaultSheet> = faults
        .iter()
        .filter(|one| one.word == VerdictWord::Fail)
        .collect();
    let limited: Vec<&FaultSheet> = faults
        .iter()
        .filter(|one| one.word == VerdictWord::HostLimited)
        .collect();
    let guilty = |one: &FaultSheet| {
        let mut names = std::iter::once(&one.culprit).chain(&one.or);
        case.injury
            .is_some_and(|injury| names.any(|name| is_meant(injury, *name, one.kind)))
    };
    let innocent = fails.iter().any(|one| !guilty(one));
    let word = record.verdict.word;
    let all_found = match case.injury {
        None => fails.is_empty() && word != VerdictWord::Fail,
        Some(Injury::Two(from, to)) => [Culprit::Send(from - 1), Culprit::Receive(to - 1)]
            .iter()
            .all(|culprit| {
                fails
                    .iter()
                    .any(|one| one.culprit == *culprit || one.or.contains(culprit))
            }),
        Some(Injury::Both(host)) => [Culprit::Send(host - 1), Culprit::Receive(host - 1)]
            .iter()
            .all(|culprit| {
                fails
                    .iter()
                    .any(|one| one.culprit == *culprit || one.or.contains(culprit))
            }),
        Some(Injury::Throttled(host, _)) => {
            let own = [Culprit::Send(host - 1), Culprit::Receive(host - 1)];
            let named = limited.iter().any(|one| own.contains(&one.culprit));
            fails.is_empty() && (named || word == VerdictWord::Pass)
        }
        // Its cable bears the control channel, too, and links may stand still for too long: then the run ends, and says first whose it was.
        Some(Injury::Flapping(host)) if word == VerdictWord::Invalid => {
            let named = format!("n{host}: ");
            record.verdict.reason.starts_with(&named)
        }
        Some(_) => fails.iter().any(|one| guilty(one)),
    };
    Outcome {
        word,
        right: all_found && !innocent,
        innocent,
        said: finished
            .stdout
            .lines()
            .skip_while(|line| !line.starts_with(char::is_uppercase))
            .collect::<Vec<_>>()
            .join("\n"),
    }
}

/// Whether a culprit is what was injured.
fn is_meant(injury: Injury, culprit: Culprit, kind: FaultKind) -> bool {
    let send = |host: usize| culprit == Culprit::Send(host - 1);
    let receive = |host: usize| culprit == Culprit::Receive(host - 1);
    match injury {
        Injury::Send(host) => send(host),
        Injury::Receive(host) => receive(host),
        Injury::Both(host) | Injury::Flapping(host) => send(host) || receive(host),
        Injury::Pair(from, to) => culprit == Culprit::Pair(from - 1, to - 1),
        // Out of one of two groups is into the other.
        Injury::Uplink => matches!(culprit, Culprit::Up(0) | Culprit::Down(1)),
        Injury::Throttled(..) => false,
        Injury::Loss(host, _) => receive(host) && kind == FaultKind::Loss || receive(host),
        Injury::Two(from, to) => send(from) || receive(to),
    }
}
