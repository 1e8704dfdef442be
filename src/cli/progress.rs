//! Shows a run on the terminal while it lasts: a picture for each second of pipelines, LinkTest's lines for each step, the rounds of
//! latencies, and the tables of patterns as they grow.

use std::time::{Duration, Instant};

use crate::controller::{Observer, RunEvent};
use crate::plan::imb::{Imb, Table};
use crate::plan::linktest::Linktest;
use crate::plan::{Bound, RunPlan, Test, Work};
use crate::record::{HostRecord, LineRecord, PairTime, RoundProgress, Second};
use crate::report::linktest::lines;
use crate::report::{header, imb};
use crate::units::{SECOND_NS, Scale, show_age, show_rate, sum};

use super::terminal::Terminal;

/// Shows a run on the terminal.
pub(super) struct Progress<'a> {
    terminal: &'a mut Terminal,
    /// Start of the run, in milliseconds since 1970.
    started_ms: u64,
    /// Number of the current test, number of known tests, and the estimated time of those after it, in nanoseconds.
    test: (usize, usize, u64),
    /// Line on the current test, until it is printed.
    announced: Option<String>,
    /// Time of the first picture.
    began: Option<Instant>,
    shown: Shown,
}

/// What is shown of each kind of work.
enum Shown {
    /// The hosts are not known yet.
    Nothing,
    Acceptance(Ports),
    /// Sums of the current round so far.
    Linktest(lines::Sums),
    Latency,
    Imb {
        ranks: usize,
        /// The current table with its lines so far.
        table: Option<(Table, Vec<LineRecord>)>,
    },
}

/// Names for the rates of a second.
struct Ports {
    labels: Vec<String>,
    /// Names of the ports, node by node and rail by rail.
    ports: Vec<String>,
    /// True if all nodes are on one host.
    one_host: bool,
}

impl<'a> Progress<'a> {
    /// Shows nothing yet.
    pub(super) fn new(terminal: &'a mut Terminal, started_ms: u64) -> Self {
        Self {
            terminal,
            started_ms,
            test: (1, 1, 0),
            announced: None,
            began: None,
            shown: Shown::Nothing,
        }
    }

    /// Prints the line on the current test, unless it was printed.
    fn announce(&mut self) {
        if let Some(text) = self.announced.take() {
            self.terminal.aside(&text);
        }
    }

    /// Prints a part of the result, unless the user wants nothing but the end.
    fn print(&mut self, text: &str) {
        if !self.terminal.is_quiet() {
            self.terminal.result(text);
        }
    }

    fn hosts(&mut self, plan: &RunPlan, hosts: &[HostRecord], options: &[(String, String)]) {
        let facts =
            header::options(options) + &header::hosts(hosts) + &header::capacities(plan, hosts);
        let ranks = plan.work.ranks();
        let ranks = ranks.map_or(0, |ranks| ranks.count(hosts.len()));
        let (text, shown) = match &plan.work {
            Work::Acceptance(_) => (facts + "\n", Shown::Acceptance(Ports::of(plan, hosts))),
            Work::Linktest(_) => (
                format!("{facts}{ranks} ranks\n\n"),
                Shown::Linktest(lines::Sums::default()),
            ),
            Work::Latency(_) => (facts + "\n", Shown::Latency),
            Work::Imb(imb) => {
                let words = std::env::args_os();
                let words: Vec<String> = words
                    .map(|word| word.to_string_lossy().into_owned())
                    .collect();
                let head = imb::head(imb, hosts, self.started_ms, &words.join(" "), &facts);
                (head, Shown::Imb { ranks, table: None })
            }
        };
        self.print(&text);
        self.shown = shown;
    }

    fn second(&mut self, test: &Test, second: &Second) {
        let Shown::Acceptance(ports) = &self.shown else {
            return;
        };
        let (number, of, after_ns) = self.test;
        let time = time(test, second);
        let rates = ports.second(test, second);
        let left_ns = left_ns(test, second).map(|left_ns| left_ns.saturating_add(after_ns));
        let left = left_ns.map(|left_ns| show_age(left_ns.div_ceil(SECOND_NS)) + " left");
        let lines = if self.terminal.is_live() {
            let began = *self.began.get_or_insert_with(Instant::now);
            let bar = left_ns.map(|left_ns| bar(began.elapsed(), Duration::from_nanos(left_ns)));
            let tests = (of > 1).then(|| format!("test {number} of {of} {}", test.pattern));
            let time = Some(time.trim_start().to_owned());
            let first: Vec<String> = [bar, left, tests, time].into_iter().flatten().collect();
            vec![first.join("  "), format!("    {rates}")]
        } else {
            let left = left.filter(|_| of > 1);
            let left = left.map_or_else(String::new, |left| format!(" ({left})"));
            vec![time + &left, rates]
        };
        self.terminal.picture(&lines);
    }

    fn round(&mut self, progress: &RoundProgress) {
        match &mut self.shown {
            Shown::Linktest(sums) => *sums = lines::Sums::default(),
            Shown::Latency => {
                let text = format!("measuring {} rounds", progress.steps);
                self.terminal.stage(&text);
            }
            Shown::Nothing | Shown::Acceptance(_) | Shown::Imb { .. } => {}
        }
    }

    fn step(&mut self, linktest: &Linktest, progress: &RoundProgress, times: &[PairTime]) {
        match &mut self.shown {
            Shown::Linktest(sums) => {
                sums.add(linktest, times);
                let text = lines::step(linktest, progress, sums, times);
                self.print(&text);
            }
            Shown::Latency => {
                let text = format!("{} of {} rounds", progress.ended, progress.steps);
                self.terminal.stage(&text);
            }
            Shown::Nothing | Shown::Acceptance(_) | Shown::Imb { .. } => {}
        }
    }

    fn table(&mut self, imb: &Imb, table: &Table) {
        self.close_table();
        if let Shown::Imb { ranks, table: now } = &mut self.shown {
            *now = Some((table.clone(), Vec::new()));
            let text = imb::table_head(imb, table, *ranks);
            self.print(&text);
        }
    }

    fn line(&mut self, imb: &Imb, table: &Table, line: &LineRecord) {
        self.print(&imb::lines(imb, table, line));
        if let Shown::Imb {
            table: Some((_, lines)),
            ..
        } = &mut self.shown
        {
            lines.push(line.clone());
        }
    }

    /// Prints the foot of the current table, if there is one.
    pub(super) fn close_table(&mut self) {
        if let Shown::Imb { table, .. } = &mut self.shown
            && let Some((_, lines)) = table.take()
        {
            self.print(&imb::table_foot(&lines));
        }
    }
}

impl Ports {
    fn of(plan: &RunPlan, hosts: &[HostRecord]) -> Self {
        let rails = plan.tests().first().map_or(1, |test| test.rails);
        let ports = plan.nodes.iter().zip(hosts).flat_map(|(node, host)| {
            (0..rails).map(move |rail| {
                let interface = host.rails.get(rail).and_then(|one| one.interface.as_ref());
                match interface.filter(|_| rails > 1) {
                    Some(interface) => format!("{} {interface}", node.label),
                    None => node.label.clone(),
                }
            })
        });
        Self {
            ports: ports.collect(),
            labels: plan.nodes.iter().map(|node| node.label.clone()).collect(),
            one_host: hosts.iter().all(|host| host.host_index == 0),
        }
    }

    /// Total and slowest ports of a second. Ports that receive nothing in this test are not slow.
    fn second(&self, test: &Test, second: &Second) -> String {
        /// Most ports that are named.
        const NAMED: usize = 3;
        let nodes = self.labels.len();
        let (ports, labels, rails) = match self.one_host {
            false => (&second.received_bytes, &self.ports, test.rails.max(1)),
            true => (&second.same_host_bytes, &self.labels, 1),
        };
        let loaded = test.pattern.receivers(nodes);
        let is_loaded = |port: &usize| loaded.get(port / rails) == Some(&true);
        let rates = ports.iter().enumerate().filter(|(port, _)| is_loaded(port));
        let mut rates: Vec<(usize, u64)> = rates.map(|(port, bytes)| (port, *bytes)).collect();
        rates.sort_by_key(|(_, bytes)| *bytes);
        let most = rates.last().map_or(0, |(_, bytes)| *bytes);
        let scale = Scale::of(most as f64 * 8.0);
        let slowest = rates.iter().take(NAMED).map(|(port, bytes)| {
            let label = labels.get(*port).map_or("", String::as_str);
            format!("{label} {}", scale.show(*bytes as f64 * 8.0))
        });
        let slowest: Vec<String> = slowest.collect();
        let total = sum(rates.iter().map(|(_, bytes)| *bytes));
        let total = show_rate(total as f64 * 8.0);
        format!(
            "total {total}  slowest {} {}",
            slowest.join(", "),
            scale.unit
        )
    }
}

/// Time of a test so far.
fn time(test: &Test, second: &Second) -> String {
    let at_s = second.at_ns / SECOND_NS;
    let Bound::Time {
        warmup_ns,
        window_ns,
    } = test.bound
    else {
        return format!("{at_s:4} s");
    };
    let of_s = warmup_ns.saturating_add(window_ns).div_ceil(SECOND_NS);
    let warms_up = match second.at_ns <= warmup_ns {
        true => " warm-up",
        false => "",
    };
    format!("{at_s:4} s of {of_s} s{warms_up}")
}

/// What is left of a test whose time is known.
fn left_ns(test: &Test, second: &Second) -> Option<u64> {
    match test.bound {
        Bound::Time {
            warmup_ns,
            window_ns,
        } => Some(
            warmup_ns
                .saturating_add(window_ns)
                .saturating_sub(second.at_ns),
        ),
        Bound::Volume { .. } | Bound::Files => None,
    }
}

/// Part of the run that has passed.
fn bar(passed: Duration, left: Duration) -> String {
    const CELLS: usize = 10;
    let share = passed.as_secs_f64() / (passed + left).as_secs_f64().max(f64::MIN_POSITIVE);
    let full =
        usize::try_from(numbers::whole(share * CELLS as f64)).map_or(CELLS, |full| full.min(CELLS));
    format!("[{}{}]", "#".repeat(full), "-".repeat(CELLS - full))
}

impl Observer for Progress<'_> {
    fn see(&mut self, event: RunEvent<'_>) {
        match event {
            RunEvent::Notice(text) => self.terminal.aside(text),
            RunEvent::Stage(text) => self.terminal.stage(text),
            RunEvent::Hosts {
                plan,
                hosts,
                options,
            } => self.hosts(plan, hosts, options),
            RunEvent::Test {
                number,
                of,
                test,
                after_ns,
            } => {
                self.announce();
                if of > 1 && !self.terminal.is_live() {
                    self.announced = Some(format!("test {number} of {of}, {}", test.pattern));
                    // The number of tests and their time come once the hosts are known, and before the first test.
                    if !matches!(self.shown, Shown::Nothing) {
                        self.announce();
                    }
                }
                self.test = (number, of, after_ns.unwrap_or(0));
            }
            RunEvent::Second { test, second } => {
                self.announce();
                self.second(test, second);
            }
            RunEvent::Round(progress) => self.round(progress),
            RunEvent::Step {
                linktest,
                progress,
                times,
            } => self.step(linktest, progress, times),
            RunEvent::Table { imb, table, .. } => self.table(imb, table),
            RunEvent::Line { imb, table, line } => self.line(imb, table, line),
            RunEvent::Held(at) => self.terminal.held(at.name()),
            RunEvent::Samples(_)
            | RunEvent::Link { .. }
            | RunEvent::Tested(_)
            | RunEvent::Rounded(_)
            | RunEvent::Tabled(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Pattern;
    use crate::plan::lanes::tests::test_of;

    /// Symptom: "slowest n1 0.00" for a port that a retest leaves idle on purpose.
    #[test]
    fn an_idle_port_is_not_the_slowest() {
        let labels = ["n1", "n2", "n3", "n4"].map(str::to_owned).to_vec();
        let ports = Ports {
            ports: labels.clone(),
            labels,
            one_host: false,
        };
        let test = Test {
            pattern: Pattern::Links(vec![(0, 2), (1, 3)]),
            ..test_of(2, 1)
        };
        let second = Second {
            received_bytes: vec![0, 0, 2_000_000, 1_000_000],
            ..Second::default()
        };
        assert_eq!(
            ports.second(&test, &second),
            "total 24.00 Mbit/s  slowest n4 8.00, n3 16.00 Mbit/s"
        );
    }

    /// Symptom: "test 1 of 2" before "2 tests, about 12 s".
    #[test]
    fn the_first_test_is_announced_after_the_estimate() {
        let mut terminal = Terminal::new(true, true);
        let mut progress = Progress::new(&mut terminal, 0);
        let test = test_of(2, 1);
        progress.see(RunEvent::Test {
            number: 1,
            of: 2,
            test: &test,
            after_ns: None,
        });
        // A live picture has the number of the test.
        let waits = progress.announced.is_some();
        assert_eq!(waits, !progress.terminal.is_live());
        progress.see(RunEvent::Notice("2 tests, about 12 s"));
        let second = &Second::default();
        progress.see(RunEvent::Second {
            test: &test,
            second,
        });
        assert_eq!(progress.announced, None);
        progress.shown = Shown::Latency;
        progress.see(RunEvent::Test {
            number: 2,
            of: 2,
            test: &test,
            after_ns: None,
        });
        assert_eq!(progress.announced, None);
    }

    #[test]
    fn the_warm_up_is_told_apart_and_the_bar_is_that_of_the_whole_run() {
        let test = Test {
            bound: Bound::Time {
                warmup_ns: 2 * SECOND_NS,
                window_ns: 5 * SECOND_NS,
            },
            ..test_of(2, 1)
        };
        let second = |seconds: u64| Second {
            at_ns: seconds * SECOND_NS,
            ..Second::default()
        };
        assert_eq!(time(&test, &second(1)), "   1 s of 7 s warm-up");
        assert_eq!(time(&test, &second(3)), "   3 s of 7 s");
        assert_eq!(left_ns(&test, &second(3)), Some(4 * SECOND_NS));
        let (passed, left) = (Duration::from_secs(3), Duration::from_secs(7));
        assert_eq!(bar(passed, left), "[###-------]");
    }
}
