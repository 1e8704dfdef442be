//! The cost of a plan, which `--dry-run` prints before anything starts.

use std::collections::{BTreeMap, BTreeSet};

use crate::judge::names::{floor_text, sample_text};
use crate::plan::imb::{Class, Imb};
use crate::plan::latency::Latency;
use crate::plan::linktest::{Kernel, Linktest};
use crate::plan::{Bound, Pattern, RunPlan, Test, Work, size};
use crate::units::{show_bytes, show_ns, show_rate};

use super::{judged, preflight};

/// The cost of a plan: processes, memory, links, duration and volume.
pub fn dry_run(plan: &RunPlan) -> String {
    let labels: Vec<String> = plan.nodes.iter().map(|node| node.label.clone()).collect();
    let nodes = labels.len();
    let cost = match &plan.work {
        Work::Acceptance(_) => tests(plan),
        Work::Linktest(linktest) => links_of_ranks(linktest, nodes),
        Work::Latency(latency) => rounds(latency, nodes),
        Work::Imb(imb) => tables(imb, nodes),
    };
    format!("nodes      {nodes}: {}\n{cost}", super::fold(&labels))
}

/// Line on what the run is judged against, and the use that its figures permit. Empty for kinds of work that have no floor.
pub fn verdict(plan: &RunPlan) -> String {
    if let Work::Latency(_) | Work::Imb(_) = plan.work {
        return String::new();
    }
    let standing = judged::permitted_use(plan);
    let standing = standing.map_or_else(String::new, |word| format!(": {word}"));
    let floor = floor_text(plan);
    let nodes = plan.nodes.iter();
    let speeds: Option<BTreeSet<u64>> = nodes.map(|node| node.speed_bits_per_s).collect();
    let text = match speeds {
        _ if hosts_by_name(plan).len() < 2 => "NOT JUDGED: all nodes are on one host".to_owned(),
        Some(speeds) => {
            let speeds = speeds.into_iter().map(|speed| show_rate(speed as f64));
            let speeds: Vec<String> = speeds.collect();
            let speeds = speeds.join(" and ");
            format!("judged against {speeds}, floor {floor}{standing}")
        }
        None => format!(
            "judged against the speeds that ports report, floor {floor}{standing}; NOT JUDGED where none is reported (--link-speed)"
        ),
    };
    format!("verdict    {text}\n")
}

fn links_of_ranks(linktest: &Linktest, nodes: usize) -> String {
    let ranks = linktest.ranks.count(nodes);
    let steps = linktest.step_count(ranks);
    let pairs = match linktest.bisection {
        true => (ranks / 2).saturating_mul(ranks.div_ceil(2)),
        false => ranks.saturating_mul(ranks.saturating_sub(1)) / 2,
    };
    let rounds = linktest
        .rank_orders
        .max(1)
        .saturating_mul(linktest.min_iterations);
    let each = (linktest.messages as u64).saturating_add(linktest.warmups as u64);
    let ways: u64 = match linktest.kernel {
        Kernel::Unidirectional => 1,
        Kernel::Semidirectional => 2,
        Kernel::Bidirectional => 4,
    };
    let volume = (pairs as u64)
        .saturating_mul(2)
        .saturating_mul(each)
        .saturating_mul(ways)
        .saturating_mul(linktest.message_bytes as u64);
    let (links, steps) = (pairs.saturating_mul(2), super::count(steps, "step"));
    let volume = show_bytes(volume);
    let (times, of_rounds) = match rounds {
        1 => ("once".to_owned(), "1 round".to_owned()),
        _ => (format!("{rounds} times"), format!("{rounds} rounds")),
    };
    let all_to_all = match linktest.all_to_all {
        true => ", then all to all",
        false => "",
    };
    let alone = match linktest.slowest.min(links) {
        0 => String::new(),
        count => format!(", then the {} alone", super::count(count, "slowest link")),
    };
    let least = match linktest.min_runtime_ns {
        0 => String::new(),
        least => format!(", at least {},", show_ns(least)),
    };
    format!(
        "ranks      {ranks} on {nodes} nodes, {} processes in all\n\
         links      {links} in {steps}, {times}\n\
         volume     {volume} each time, {} of buffers for each rank\n\
         duration   the time of {of_rounds} (each {volume} in {steps}{all_to_all}{alone}){least} and the time to start and drain\n",
        ranks.saturating_add(nodes),
        show_bytes(linktest.bytes_per_rank(ranks) as u64),
    )
}

fn rounds(latency: &Latency, nodes: usize) -> String {
    let (rounds, pairs) = latency.size().unwrap_or((0, 0));
    let messages = latency.probe.messages.saturating_add(latency.probe.warmups);
    let all = nodes.saturating_mul(nodes.saturating_sub(1)) / 2;
    format!(
        "ranks      {nodes} on {nodes} nodes, {} processes in all\n\
         plan       {pairs} of {} in {}, {} messages each; {} more to check predictions\n",
        2 * nodes,
        super::count(all, "pair"),
        super::count(rounds, "round"),
        messages.saturating_mul(2),
        latency.checks.min(all.saturating_sub(pairs))
    )
}

fn tables(imb: &Imb, nodes: usize) -> String {
    let ranks = imb.ranks.count(nodes);
    let mut text = format!(
        "ranks      {ranks} on {}, {} processes in all\n\
         buffers    up to {} for each rank\n",
        super::count(nodes, "node"),
        ranks.saturating_add(nodes),
        show_bytes(imb.memory_per_rank(ranks) as u64),
    );
    for table in imb.tables(ranks) {
        let mode = table.mode.map_or_else(String::new, |mode| {
            format!(" ({})", mode.name().to_lowercase())
        });
        let lines = match table.benchmark.class() {
            Class::Sync => "once".to_owned(),
            _ => super::count(table.lengths.len(), "length"),
        };
        text += &format!(
            "table      {}{mode}, {} x {}, {lines}\n",
            table.benchmark.name(),
            table.groups.len(),
            super::count(table.group_size(), "rank"),
        );
    }
    text
}

/// Processes, memory and links of the test with the most processes, then duration and volume of all tests together.
fn tests(plan: &RunPlan) -> String {
    let mut lines = Vec::new();
    let nodes = plan.nodes.len();
    let sizes = plan.tests().iter().map(|test| size::of(test, nodes));
    let sizes: Vec<_> = sizes.collect();
    let most_links = sizes.iter().map(|size| size.links).max();
    // Links are counted for this test alone: a plan can have thousands of tests for thousands of hosts.
    let largest = plan.tests().iter().zip(sizes);
    let largest = largest.max_by_key(|(_, size)| size.processes);
    match plan.tests() {
        [] => {}
        [test] => lines.push(format!(
            "test       {}, {} phases, streams per pair: {}",
            test.pattern, test.phases, test.streams
        )),
        several => {
            lines.push(format!("tests      {}, one after the other", several.len()));
            let steps = steps(several).into_iter();
            lines.extend(steps.map(|line| format!("           {line}")));
            lines.extend(sample_text(plan).map(|text| format!("sample     {text}")));
        }
    }
    if let Some((test, size)) = largest {
        lines.push(format!(
            "processes  {} per node (1 + P + {}; N nodes, P phases, K streams), {} in all",
            size.processes_per_node,
            size::worker_formula(test),
            size.processes
        ));
        lines.push(memory(plan, test, size.buffer_bytes_per_node));
        lines.push(links(size.links, &Load::of(&Places::of(plan), test)));
        lines.extend(sums(plan, most_links.unwrap_or(0)));
        lines.extend(extent(plan));
    }
    let hosts = hosts_by_name(plan).into_values();
    let places = hosts.filter_map(|own| {
        let node = plan.nodes.get(*own.first()?)?;
        Some((node.host.clone(), node.place()))
    });
    let claimed = preflight::claimed(places).into_iter();
    lines.extend(claimed.map(|text| format!("claimed    {text}")));
    lines.iter().map(|line| format!("{line}\n")).collect()
}

/// Number of each node's host, and the number of nodes on each host.
struct Places {
    hosts: Vec<usize>,
    nodes: Vec<usize>,
}

impl Places {
    fn of(plan: &RunPlan) -> Self {
        let by_name = hosts_by_name(plan);
        let nodes = by_name.values().map(Vec::len).collect();
        let mut hosts = vec![0; plan.nodes.len()];
        for (host, own) in by_name.values().enumerate() {
            own.iter().for_each(|node| hosts[*node] = host);
        }
        Self { hosts, nodes }
    }
}

/// The links of each host in a test.
struct Load {
    /// Number of links from each host to other hosts, over all boundaries.
    out: Vec<usize>,
    /// Number of links into each host from other hosts, over all boundaries.
    into: Vec<usize>,
}

impl Load {
    fn of(places: &Places, test: &Test) -> Self {
        let hosts = &places.hosts;
        let nodes = hosts.len();
        let each = test.streams.saturating_mul(test.phases.saturating_sub(1));
        if let Pattern::AllToAll | Pattern::Mesh = test.pattern {
            // Counting the links of thousands of nodes one by one takes long.
            let of = |own: &usize| own.saturating_mul(nodes - own).saturating_mul(each);
            let out: Vec<usize> = places.nodes.iter().map(of).collect();
            return Self {
                into: out.clone(),
                out,
            };
        }
        let count = places.nodes.len();
        let (mut out, mut into) = (vec![0_usize; count], vec![0_usize; count]);
        for node in 0..nodes {
            for to in test.pattern.targets(nodes, node) {
                if hosts[node] != hosts[to] {
                    for count in [&mut out[hosts[node]], &mut into[hosts[to]]] {
                        *count = count.saturating_add(each);
                    }
                }
            }
        }
        Self { out, into }
    }

    /// Number of links between hosts.
    fn crossing(&self) -> u64 {
        let all = self.out.iter();
        all.fold(0, |sum: usize, one| sum.saturating_add(*one)) as u64
    }
}

/// One line for each series of consecutive tests that differ only in their pattern.
fn steps(tests: &[Test]) -> Vec<String> {
    let mut lines: Vec<(String, Vec<String>)> = Vec::new();
    for test in tests {
        let paced = if test.paces.is_empty() { "" } else { ", paced" };
        let how = format!("{} phases, {}{paced}", test.phases, length(test.bound));
        match lines.last_mut() {
            Some((known, patterns)) if *known == how => patterns.push(test.pattern.to_string()),
            _ => lines.push((how, vec![test.pattern.to_string()])),
        }
    }
    let show = |(how, patterns): (String, Vec<String>)| match &patterns[..] {
        [one] => format!("{one}: {how}"),
        [first, .., last] if patterns.iter().all(|one| one == first) && first == last => {
            format!("{} x {first}: {how} each", patterns.len())
        }
        [first, .., last] => format!("{} x {first} ... {last}: {how} each", patterns.len()),
        [] => how,
    };
    lines.into_iter().map(show).collect()
}

/// How long a test is to run, in words.
pub(super) fn length(bound: Bound) -> String {
    match bound {
        Bound::Time {
            warmup_ns,
            window_ns,
        } => format!("{} after {}", show_ns(window_ns), show_ns(warmup_ns)),
        Bound::Volume { buffers } => format!("{buffers} blocks on every link"),
        Bound::Files => "as long as the longest file".to_owned(),
    }
}

fn memory(plan: &RunPlan, test: &Test, bytes_per_node: usize) -> String {
    let memory = show_bytes(bytes_per_node as u64);
    let slot = show_bytes(size::slot_bytes(test.block_bytes) as u64);
    let degree = size::busiest(test, plan.nodes.len());
    let slots = degree.sends.max(degree.receives);
    let blocks = |phase| test.shared_blocks(phase) + test.own_blocks(phase);
    let relay = match test.phases {
        2 => String::new(),
        _ => format!(", relay {}", blocks(1)),
    };
    format!(
        "memory     {memory} of buffers per node ({} per phase; blocks of {slot} in each: source {}{relay}, sink {})",
        super::count(slots, "slot"),
        blocks(0),
        blocks(test.phases.saturating_sub(1))
    )
}

fn links(links: usize, load: &Load) -> String {
    let span = |counts: &[usize]| {
        let least = counts.iter().min().copied().unwrap_or(0);
        let most = counts.iter().max().copied().unwrap_or(0);
        match least == most {
            true => most.to_string(),
            false => format!("{least} to {most}"),
        }
    };
    let carried = match (load.out.len(), load.crossing()) {
        (_, 0) => "none of them leaves its host".to_owned(),
        (count, _) => {
            let (out, into) = (span(&load.out), span(&load.into));
            format!("each of {count} hosts carries {out} out and {into} in")
        }
    };
    format!("links      {links} in all; {carried}")
}

/// Line on tests with too many links to keep each. `links` is the number of links of the test that has the most.
fn sums(plan: &RunPlan, links: usize) -> Option<String> {
    let most = size::MOST_KEPT_LINKS;
    let mut tests = plan.tests().iter();
    let pairs = match tests.any(|test| matches!(test.pattern, Pattern::Shift(_))) {
        true => "permutations show pairs",
        false => "no test shows a slow pair of hosts (permutations do: --profile acceptance)",
    };
    (links > most).then(|| {
        format!("           of a test with more than {most} links the record has sums of ports and the slowest links; {pairs}")
    })
}

/// Lines on volume and duration.
fn extent(plan: &RunPlan) -> Vec<String> {
    let mut lines = Vec::new();
    let tests = || plan.tests().iter();
    let places = Places::of(plan);
    let volume = tests().filter_map(|test| match test.bound {
        Bound::Volume { buffers } => {
            let bytes = Load::of(&places, test).crossing().saturating_mul(buffers);
            Some(bytes.saturating_mul(test.block_bytes as u64))
        }
        Bound::Files | Bound::Time { .. } => None,
    });
    if let Some(bytes) = volume.reduce(u64::saturating_add) {
        lines.push(format!("volume     {} between hosts", show_bytes(bytes)));
    }
    if tests().any(|test| test.bound == Bound::Files) {
        lines.push("volume     the source files; the run is as long as the longest".to_owned());
    }
    let durations = tests().filter_map(|test| test.bound.duration_ns());
    if let Some(ns) = durations.reduce(u64::saturating_add) {
        let several = plan.tests().len() > 1;
        let each = if several { " of each test" } else { "" };
        let limit_ns = plan.deadlines.run_ms.map(|ms| ms.saturating_mul(1_000_000));
        let retests = match limit_ns {
            _ if hosts_by_name(plan).len() < 2 => String::new(),
            Some(limit_ns) => format!("; with retests at most {}", show_ns(limit_ns)),
            None => "; retests, if needed, take longer (--max-time limits the total)".to_owned(),
        };
        lines.push(format!(
            "duration   {} and the time to start and drain{each}{retests}",
            show_ns(ns)
        ));
        if let Some(limit_ns) = limit_ns.filter(|limit_ns| *limit_ns < ns) {
            lines.push(format!(
                "max-time   {}: too short for all tests",
                show_ns(limit_ns)
            ));
        }
        lines.push(volume_at_speed(plan, ns));
    }
    lines
}

fn name_of(node: &crate::plan::NodeSpec) -> &str {
    if node.local { "" } else { node.host.as_str() }
}

/// Indices of nodes by host, as far as names distinguish hosts. All local nodes are on one host.
fn hosts_by_name(plan: &RunPlan) -> BTreeMap<&str, Vec<usize>> {
    let mut hosts: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (index, node) in plan.nodes.iter().enumerate() {
        hosts.entry(name_of(node)).or_default().push(index);
    }
    hosts
}

fn volume_at_speed(plan: &RunPlan, duration_ns: u64) -> String {
    let hosts = hosts_by_name(plan);
    let first = |own: &Vec<usize>| plan.nodes[own[0]].speed_bits_per_s;
    let speeds: Option<Vec<u64>> = hosts.values().map(first).collect();
    match speeds {
        Some(speeds) => {
            let bits: f64 = speeds.iter().map(|speed| *speed as f64).sum();
            let bytes = bits / 8.0 * duration_ns as f64 / 1e9;
            format!("volume     up to {:.1} GB at the speeds given", bytes / 1e9)
        }
        None => "volume     as much as the ports carry in that time (give --link-speed, or speed= in a host file, for a figure)"
            .to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::NodeSpec;
    use crate::plan::lanes::tests::{plan_of, test_of};
    use crate::plan::linktest::tests::linktest;
    use crate::plan::sample::{self, tests::hosts};

    fn plan(bound: Bound) -> RunPlan {
        let node = |host: &str| NodeSpec {
            host: host.to_owned(),
            speed_bits_per_s: Some(u64::MAX),
            ..NodeSpec::default()
        };
        let test = Test {
            bound,
            ..test_of(3, 1)
        };
        plan_of(vec![node("n1"), node("n2")], test)
    }

    #[test]
    fn a_dry_run_of_more_blocks_than_there_are_numbers_is_shown() {
        let text = dry_run(&plan(Bound::Volume { buffers: u64::MAX }));
        assert!(
            text.contains("volume     16777216 TiB between hosts"),
            "{text}"
        );
    }

    #[test]
    fn a_dry_run_of_all_time_at_all_speed_is_shown() {
        let most = u64::MAX;
        let text = dry_run(&plan(Bound::Time {
            warmup_ns: most,
            window_ns: most,
        }));
        assert!(text.contains("GB at the speeds given"), "{text}");
    }

    /// Symptom: a dry run of a link test did not say what its duration follows from.
    #[test]
    fn a_dry_run_of_a_link_test_says_how_long_it_takes() {
        let mut plan = plan(Bound::Files);
        plan.work = Work::Linktest(linktest());
        let said = "duration   the time of 1 round (each 48 KiB in 1 step) and the time to start and drain\n";
        let text = dry_run(&plan);
        assert!(text.ends_with(said), "{text}");
        plan.work = Work::Linktest(Linktest {
            rank_orders: 3,
            min_iterations: 2,
            min_runtime_ns: 60_000_000_000,
            slowest: 5,
            ..linktest()
        });
        let said = "the time of 6 rounds (each 48 KiB in 1 step, then the 2 slowest links alone), at least 60 s, and the time to start";
        let text = dry_run(&plan);
        assert!(text.contains(said), "{text}");
    }

    /// Symptom: a dry run did not say whether and by what the run would be judged.
    #[test]
    fn a_dry_run_says_what_the_run_is_judged_against() {
        let mut plan = plan(Bound::Files);
        for node in &mut plan.nodes {
            node.speed_bits_per_s = Some(25_000_000_000);
        }
        assert_eq!(
            verdict(&plan),
            "verdict    judged against 25.00 Gbit/s, floor 90 %: SCREENING, not for signature\n"
        );
        plan.nodes[0].speed_bits_per_s = None;
        let said = verdict(&plan);
        assert!(
            said.contains("NOT JUDGED where none is reported (--link-speed)"),
            "{said}"
        );
        plan.nodes.iter_mut().for_each(|node| node.local = true);
        assert_eq!(
            verdict(&plan),
            "verdict    NOT JUDGED: all nodes are on one host\n"
        );
    }

    /// Symptom: a dry run said 11 s, and with its retests the run took 73 s.
    #[test]
    fn a_dry_run_says_that_retests_take_longer() {
        let mut plan = plan(Bound::Time {
            warmup_ns: 1_000_000_000,
            window_ns: 10_000_000_000,
        });
        let longer = "\nduration   11 s and the time to start and drain; retests, if needed, take longer (--max-time limits the total)\n";
        assert!(dry_run(&plan).contains(longer), "{}", dry_run(&plan));
        plan.deadlines.run_ms = Some(60_000);
        let said = dry_run(&plan);
        assert!(
            said.contains(" drain; with retests at most 60 s\n"),
            "{said}"
        );
        plan.nodes.iter_mut().for_each(|node| node.local = true);
        assert!(!dry_run(&plan).contains("retests"), "no port is judged");
    }

    /// Symptom: an acceptance of 1,000 hosts took 12 hours, and one of 4,096 had no dry run after a minute.
    #[test]
    fn a_dry_run_of_many_hosts_says_which_permutations_it_runs_and_what_they_cannot_show() {
        let said = |count: usize, groups: usize| {
            let nodes = hosts(count, groups);
            let drawn = sample::shifts(&nodes, 7);
            let mut plan = sample::tests::plan(nodes, &drawn);
            plan.seed = 7;
            dry_run(&plan)
        };
        let text = said(1000, 1);
        let line = "\nsample     10 of 999 permutations, drawn with seed 7: they load every port both ways, but only 1.0 % of all pairs of hosts. \
                    A fault of a single pair outside of them can stay unseen (--pattern rotate runs all permutations)\n";
        assert!(text.contains(line), "{text}");
        let text = said(4096, 32);
        let line = "\nsample     45 of 4095 permutations, drawn with seed 7: they load every port both ways, but only 1.1 % of all pairs of hosts. \
                    They load all 992 pairs of groups, and all 4096 nodes within their group. ";
        assert!(text.contains(line), "{text}");
        assert!(!said(64, 4).contains("\nsample"), "it runs all");
    }

    /// Symptom: a dry run of thousands of hosts counted the links of each of them one by one.
    #[test]
    fn links_of_a_mesh_are_counted_without_a_look_at_each() {
        let mut nodes = hosts(5, 1);
        nodes[1].host = nodes[0].host.clone();
        let mut test = test_of(3, 2);
        test.pattern = Pattern::Mesh;
        let plan = plan_of(nodes, test.clone());
        let mesh = Load::of(&Places::of(&plan), &test);
        let pairs = (0..5).flat_map(|from| (0..5).map(move |to| (from, to)));
        test.pattern = Pattern::Links(pairs.filter(|(from, to)| from != to).collect());
        let one_by_one = Load::of(&Places::of(&plan), &test);
        assert_eq!((&mesh.out, &mesh.into), (&one_by_one.out, &one_by_one.into));
        assert_eq!(mesh.crossing(), 4 * (2 * 3 + 3 * 4));
    }

    /// Symptom: `--max-time 5s` of tests that take 11 s, and two hosts at one switch port, without a word.
    #[test]
    fn a_dry_run_warns_of_a_short_limit_and_of_a_port_with_two_hosts() {
        let mut plan = plan(Bound::Time {
            warmup_ns: 1_000_000_000,
            window_ns: 10_000_000_000,
        });
        let warnings = [
            "max-time   5 s: too short for all tests",
            "claimed    Eth1/1 by n[1-2]: ",
        ];
        assert!(warnings.iter().all(|one| !dry_run(&plan).contains(one)));
        plan.deadlines.run_ms = Some(5_000);
        for node in &mut plan.nodes {
            node.switch_port = Some("Eth1/1".to_owned());
        }
        let text = dry_run(&plan);
        assert!(warnings.iter().all(|one| text.contains(one)), "{text}");
    }

    /// Symptom: nothing said that a slow pair can stay unseen among sums of links.
    #[test]
    fn a_plan_with_sums_says_which_tests_show_pairs() {
        let mut plan = plan_of(Vec::new(), test_of(2, 1));
        let said = |plan: &RunPlan, links| sums(plan, links).unwrap_or_default();
        assert_eq!(said(&plan, size::MOST_KEPT_LINKS), "");
        let text = said(&plan, size::MOST_KEPT_LINKS + 1);
        assert!(text.contains("; no test shows a slow pair"), "{text}");
        plan.tests_mut()[0].pattern = Pattern::Shift(1);
        let text = said(&plan, size::MOST_KEPT_LINKS + 1);
        assert!(text.ends_with("; permutations show pairs"), "{text}");
    }
}
