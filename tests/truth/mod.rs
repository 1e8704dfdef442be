//! The truth harness: injures a fabric in the lab, or not, lets pipebench judge it, and compares the verdict with the
//! injury. `tests/labs/truth.rs` (ten cases) and `benches/truth` (any number of cases) use it.
#![allow(dead_code, reason = "the test and the benchmark each use their part")]

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use pipebench::internals::record::{Culprit, FaultKind, FaultSheet, Record, VerdictWord};
use pipebench::internals::report::json;

use crate::lab::{Finished, Lab, LabOptions};

/// Speed of a port in Mbit/s.
const PORT_MBIT: u32 = 200;
/// Speed in Mbit/s of a port that is slow on purpose, and of the slower ports of mixed speeds.
const SLOW_MBIT: u32 = 100;

/// Layout and port speeds of the fabric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// All ports alike.
    Plain,
    /// Every second port at half speed, as declared.
    MixedSpeeds,
    /// The last port at half speed, on purpose.
    OneSlow,
    /// Two switches, and a trunk with half the speed that its ports could send.
    Oversubscribed,
    /// Two switches, and a trunk with the full speed that its ports could send.
    FullTrunk,
}

/// The injured part. Hosts are counted from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Injury {
    /// Sending of a host.
    Send(usize),
    /// Receiving of a host.
    Receive(usize),
    /// Both directions of a host.
    Both(usize),
    /// Traffic from one host to another.
    Pair(usize, usize),
    /// The trunk from the first switch to the second one.
    Uplink,
    /// A host's processor share, in thousandths of one processor.
    Throttled(usize, u32),
    /// Loss of one in this many frames to a host.
    Loss(usize, u32),
    /// A host's cable is out for a part of the time.
    Flapping(usize),
    /// Receiving of a host, for two seconds of every eight.
    InStretches(usize),
    /// Sending of one host, and receiving of another.
    Two(usize, usize),
    /// All ports together.
    Backplane,
    /// Total sending of this many first hosts, or with `false` their total receiving.
    Chip(usize, bool),
    /// Total traffic from the first half of the hosts to the second half, and back; the hosts' file does not declare it.
    HiddenUplink,
    /// Total of a host's sending and receiving.
    HalfDuplex(usize),
    /// Receiving of a host, and all ports together.
    ReceiveBesideBackplane(usize),
}

impl Injury {
    /// Links that share a resource, by hosts counted from 1, and the resource's sound capacity in ports.
    fn shared(self, hosts: usize) -> Vec<(Vec<(usize, usize)>, u32)> {
        let all =
            |from: &dyn Fn(usize) -> bool, to: &dyn Fn(usize) -> bool| -> Vec<(usize, usize)> {
                let pairs = (1..=hosts).flat_map(|one| (1..=hosts).map(move |other| (one, other)));
                pairs
                    .filter(|(one, other)| one != other && from(*one) && to(*other))
                    .collect()
            };
        let any = |_: usize| true;
        let first = |host: usize| host * 2 <= hosts;
        let second = |host: usize| host * 2 > hosts;
        let ports = |count: usize| u32::try_from(count).expect("few hosts");
        match self {
            Self::Backplane | Self::ReceiveBesideBackplane(_) => {
                vec![(all(&any, &any), ports(hosts))]
            }
            Self::Chip(many, true) => vec![(all(&|host| host <= many, &any), ports(many))],
            Self::Chip(many, false) => vec![(all(&any, &|host| host <= many), ports(many))],
            Self::HiddenUplink => vec![
                (all(&first, &second), ports(hosts / 2)),
                (all(&second, &first), ports(hosts / 2)),
            ],
            Self::HalfDuplex(own) => {
                let mut pairs = all(&|host| host == own, &any);
                pairs.extend(all(&any, &|host| host == own));
                vec![(pairs, 2)]
            }
            _ => Vec::new(),
        }
    }
}

/// One trial.
#[derive(Debug, Clone, Copy)]
pub struct Case {
    pub hosts: usize,
    pub shape: Shape,
    pub congestion: &'static str,
    pub injury: Option<Injury>,
    /// Rate that the injury leaves, in percent.
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

/// Outcome of a trial.
#[derive(Debug)]
pub struct Outcome {
    pub word: VerdictWord,
    /// True if the injured part was blamed and nothing else; for a sound fabric, if nothing was blamed.
    pub right: bool,
    /// True if a part was blamed that was not injured.
    pub innocent: bool,
    /// The blamed parts, sorted.
    pub blamed: Vec<String>,
    pub said: String,
    /// The record as written.
    pub record: String,
}

impl Outcome {
    /// Outcome of a run that left no record.
    pub fn none() -> Self {
        Self {
            word: VerdictWord::Invalid,
            right: false,
            innocent: false,
            blamed: Vec::new(),
            said: "no record".to_owned(),
            record: String::new(),
        }
    }
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
    let trunk = trunk(case);
    for host in lab.test_hosts() {
        lab.shape_egress(host, speed(case, host));
        lab.shape_ingress(host, speed(case, host));
    }
    if let Some(trunk) = trunk {
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
        Some(Injury::Uplink) => lab.shape_trunk(true, less(trunk.expect("a trunk"))),
        Some(Injury::Loss(host, one_in)) => {
            lab.lose(host, one_in);
        }
        Some(Injury::Two(from, to)) => {
            lab.shape_egress(from, less(speed(case, from)));
            lab.shape_ingress(to, less(speed(case, to)));
        }
        Some(Injury::ReceiveBesideBackplane(host)) => {
            lab.shape_ingress(host, PORT_MBIT * beside(case) / 100);
        }
        Some(_) => {}
    }
    let shared = case.injury.map(|injury| injury.shared(case.hosts));
    for (number, (pairs, ports)) in shared.unwrap_or_default().iter().enumerate() {
        lab.share(&format!("shared{number}"), pairs, less(PORT_MBIT * ports));
    }
    let finished = run(&lab, program, case, tests);
    let text = std::fs::read_to_string(lab.path(0, "/tmp/record.json"))
        .unwrap_or_else(|why| panic!("{case}: no record: {why}\n{finished}"));
    let record = json::read(&text).unwrap_or_else(|why| panic!("{case}: {why}\n{finished}"));
    Outcome {
        record: text,
        ..compare(case, &record, &finished)
    }
}

fn run(lab: &Lab, program: &str, case: &Case, tests: &[&str]) -> Finished {
    let words = [
        program,
        "--hostfile",
        "/tmp/hosts",
        "--quiet",
        "--json",
        "/tmp/record.json",
    ];
    let mut words: Vec<&str> = words.iter().chain(tests).copied().collect();
    let uplinks;
    if let Some(mbit) = trunk(case) {
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
        if let Some(Injury::InStretches(host)) = case.injury {
            let full = speed(case, host);
            scope.spawn(move || slow_down(lab, host, full, full * case.left / 100, flag));
        }
        let finished = lab.run(0, &words, Duration::from_secs(900));
        over.store(true, Ordering::SeqCst);
        finished
    })
}

/// Slows the program's processes once they exist: copying and starting the program needs processor time, too.
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

/// Pulls the cable in every period of 1.5 s so long that about `left` percent of the rate remain, including the time in which connections recover.
fn flap(lab: &Lab, host: usize, left: u32, over: &AtomicBool) {
    const PERIOD_MS: u64 = 1_500;
    // The set-up must succeed: connections are made while the cable is in.
    let out = PERIOD_MS * u64::from(100 - left) / 100;
    while !over.load(Ordering::SeqCst) {
        std::thread::sleep(Duration::from_millis(PERIOD_MS - out));
        lab.link_down(host);
        std::thread::sleep(Duration::from_millis(out));
        lab.link_up(host);
    }
}

/// Slows the port for two seconds of every eight.
fn slow_down(lab: &Lab, host: usize, mbit: u32, less: u32, over: &AtomicBool) {
    for (mbit, seconds) in [(mbit, 6), (less, 2)].into_iter().cycle() {
        lab.shape_ingress(host, mbit);
        let end = Instant::now() + Duration::from_secs(seconds);
        while Instant::now() < end {
            if over.load(Ordering::SeqCst) {
                return;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

/// Rate that the port can receive if the backplane carries `left`, in percent.
fn beside(case: &Case) -> u32 {
    case.left + 10
}

/// Speed of the trunk in Mbit/s, if the shape has two switches.
fn trunk(case: &Case) -> Option<u32> {
    let first = u32::try_from(case.hosts / 2).expect("few hosts") * PORT_MBIT;
    match case.shape {
        Shape::Oversubscribed => Some(first / 2),
        Shape::FullTrunk => Some(first),
        Shape::Plain | Shape::MixedSpeeds | Shape::OneSlow => None,
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
            Shape::Oversubscribed | Shape::FullTrunk => format!(" group={group}"),
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
            .is_some_and(|injury| names.any(|name| is_meant(injury, case.hosts, name, one.kind)))
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
            // Its windows can be so far off that the verdict can say only this.
            let told = format!("n{host}");
            let named = limited.iter().any(|one| own.contains(&one.culprit))
                || word == VerdictWord::HostLimited && record.verdict.reason.contains(&told);
            fails.is_empty() && (named || word == VerdictWord::Pass)
        }
        // Its cable carries the control channel, too, and links can stand still for too long: then the run ends, and the reason first names the host.
        Some(Injury::Flapping(host)) if word == VerdictWord::Invalid => {
            let named = format!("n{host}: ");
            record.verdict.reason.starts_with(&named)
        }
        Some(Injury::ReceiveBesideBackplane(host)) => {
            let port = Culprit::Receive(host - 1);
            let port = fails.iter().any(|one| one.culprit == port);
            // A port at its floor is no fault.
            (port || beside(case) >= 90) && fails.iter().any(|one| one.culprit.is_shared())
        }
        // Each direction is a separate fault.
        Some(Injury::HiddenUplink) => fails.iter().filter(|one| guilty(one)).count() >= 2,
        Some(_) => fails.iter().any(|one| guilty(one)),
    };
    let mut blamed: Vec<String> = fails
        .iter()
        .map(|one| format!("{:?}", one.culprit))
        .collect();
    blamed.sort();
    Outcome {
        word,
        right: all_found && !innocent,
        innocent,
        blamed,
        said: finished
            .stdout
            .lines()
            .skip_while(|line| !line.starts_with(char::is_uppercase))
            .collect::<Vec<_>>()
            .join("\n"),
        record: String::new(),
    }
}

/// True if a culprit is the injured part.
fn is_meant(injury: Injury, hosts: usize, culprit: &Culprit, kind: FaultKind) -> bool {
    let send = |host: usize| *culprit == Culprit::Send(host - 1);
    let receive = |host: usize| *culprit == Culprit::Receive(host - 1);
    match injury {
        Injury::Send(host) => send(host),
        Injury::Receive(host) | Injury::InStretches(host) => receive(host),
        Injury::Both(host) | Injury::Flapping(host) => send(host) || receive(host),
        Injury::Pair(from, to) => *culprit == Culprit::Pair(from - 1, to - 1),
        // Traffic out of one of two groups goes into the other.
        Injury::Uplink => matches!(culprit, Culprit::Up(0) | Culprit::Down(1)),
        Injury::Throttled(..) => false,
        Injury::Loss(host, _) => receive(host) && kind == FaultKind::Loss || receive(host),
        Injury::Two(from, to) => send(from) || receive(to),
        Injury::HalfDuplex(host) => *culprit == Culprit::BothWays(host - 1),
        Injury::ReceiveBesideBackplane(host) if receive(host) => true,
        Injury::Backplane
        | Injury::Chip(..)
        | Injury::HiddenUplink
        | Injury::ReceiveBesideBackplane(_) => {
            let shared = injury.shared(hosts).into_iter();
            let mut own = shared.map(|(pairs, _)| pairs);
            culprit.is_shared() && own.any(|pairs| is_nearly(culprit, &pairs, hosts))
        }
    }
}

/// True if nearly the same links use the culprit and these pairs: at least 75 % of their union.
///
fn is_nearly(culprit: &Culprit, pairs: &[(usize, usize)], hosts: usize) -> bool {
    const NEARLY: f64 = 0.75;
    let all = (1..=hosts).flat_map(|from| (1..=hosts).map(move |to| (from, to)));
    let (mut both, mut either) = (0_u32, 0_u32);
    for pair in all.filter(|(from, to)| from != to) {
        let has = (culprit.has(pair.0 - 1, pair.1 - 1), pairs.contains(&pair));
        both += u32::from(has.0 && has.1);
        either += u32::from(has.0 || has.1);
    }
    f64::from(both) >= NEARLY * f64::from(either)
}
