//! The sheet of a link test: LinkTest's final lines, the slowest links with their times alone, and the matrix.

use std::collections::BTreeSet;

use crate::record::{Record, VerdictWord};
use crate::report::{count, judged};
use crate::units::show_bytes;

use super::figures::Figures;
use super::lines::{self, bandwidth, time};

/// Maximum number of ranks for a printed matrix: a larger one is of no use on a terminal. The page has it.
const WIDEST: usize = 16;
const BINS: usize = 10;
const BAR: usize = 50;
/// If a link's time alone is below this fraction of its time among others, the others' load makes it slow, not the link.
const FASTER: f64 = 0.9;

/// The summary of a record of a link test.
pub fn summary(record: &Record, figures: &Figures<'_>) -> String {
    let Some(extent) = figures.extent() else {
        return format!(
            "{}  nothing was measured: {}\n",
            record.verdict.word, record.verdict.reason
        );
    };
    let mut text = headline(record, figures) + "\n";
    for line in judged::lines(record) {
        text += &format!("{line}\n");
    }
    text += &reason(record);
    text += &conditions(figures);
    text += &lines::result(figures.plan, &extent);
    text += &spreads(figures);
    text += &together(figures);
    text += &retests(figures);
    text += &matrix(figures);
    text += &histogram(figures);
    if record.verdict.word.is_judged() {
        text += &format!("{}\n", judged::FIXED_WORDS);
    }
    text
}

fn headline(record: &Record, figures: &Figures<'_>) -> String {
    let plan = figures.plan;
    let nodes: BTreeSet<usize> = figures.job.ranks.iter().map(|rank| rank.node).collect();
    let hosts: BTreeSet<usize> = nodes
        .iter()
        .filter_map(|node| Some(record.hosts.get(*node)?.host_index))
        .collect();
    let places = match (hosts.len(), nodes.len()) {
        (1, _) => "one host, no switch between them".to_owned(),
        (several, _) => format!("{several} hosts"),
    };
    let scope = format!(
        "{} ranks on {places}, {}, {} x {}",
        figures.job.ranks.len(),
        plan.kernel.name(),
        plan.messages,
        show_bytes(plan.message_bytes as u64)
    );
    let word = record.verdict.word;
    if !figures.job.complete || word.is_judged() {
        return format!("{word}  {scope}: {}", judged::sentence(record));
    }
    match figures.slowest() {
        Some(slowest) => format!(
            "{word}  {scope}: slowest {} to {}, {}",
            figures.rank(slowest.from),
            figures.rank(slowest.to),
            bandwidth(figures.bandwidth(slowest.mean_s)).trim_start()
        ),
        None => format!("{word}  {scope}"),
    }
}

/// Line on the reason why nothing was judged. Empty if the run has only one host, so that nothing could be judged.
fn reason(record: &Record) -> String {
    let crosses = record.hosts.iter().any(|host| host.host_index > 0);
    match record.verdict.word == VerdictWord::NotJudged && crosses {
        true => format!("      not judged: {}\n", record.verdict.reason),
        false => String::new(),
    }
}

fn conditions(figures: &Figures<'_>) -> String {
    let (plan, job) = (figures.plan, figures.job);
    let mut words = vec![match (plan.serial, plan.bisection) {
        (false, false) => "all pairs, many at the same time".to_owned(),
        (true, false) => "all pairs, one after the other".to_owned(),
        (false, true) => "pairs between the two halves, all ranks at the same time".to_owned(),
        (true, true) => "pairs between the two halves, one after the other".to_owned(),
    }];
    if let Some(round) = job.rounds.first() {
        words.push(count(round.steps, "step"));
    }
    words.push(count(plan.warmups, "warm-up message"));
    if job.rounds.len() > 1 {
        words.push(format!("{} rounds", job.rounds.len()));
    }
    if let Some(seed) = plan.step_seed {
        words.push(format!("steps shuffled by seed {seed}"));
    }
    if plan.rank_orders > 0 {
        words.push(format!("ranks shuffled from seed {}", plan.rank_seed));
    }
    if plan.buffers > 1 {
        words.push(format!("{} buffers in turn", plan.buffers));
    }
    if plan.random_contents {
        words.push(format!("random contents of seed {}", plan.content_seed));
    }
    if plan.check {
        words.push("contents checked".to_owned());
    }
    format!("{}\n", words.join(", "))
}

fn spreads(figures: &Figures<'_>) -> String {
    let mut text = String::new();
    let share = |percent| Some(time(figures.percentile(percent)?).trim().to_owned());
    if let (Some(p50), Some(p90), Some(p99)) = (share(50.0), share(90.0), share(99.0)) {
        text += &format!(
            "links      {}: median {p50}, 90 % take at most {p90}, 99 % at most {p99}\n",
            figures.links.len()
        );
    }
    let vary = |time: &crate::record::PairTime| {
        let spread = time.spread?;
        (spread.median_s > 0.0).then(|| spread.p99_s / spread.median_s)
    };
    let worst = figures
        .all()
        .filter_map(|time| Some((vary(time)?, time)))
        .max_by(|one, other| one.0.total_cmp(&other.0));
    if let Some((times, pair)) = worst {
        text += &format!(
            "messages   99 % of a link's messages take at most {times:.1} times their median (most uneven: {} to {})\n",
            figures.rank(pair.from),
            figures.rank(pair.to)
        );
    }
    text
}

fn together(figures: &Figures<'_>) -> String {
    let mut text = String::new();
    if let Some(rate) = figures.bisection() {
        text += &format!(
            "bisection  {} between the halves, all pairs of a step together, on average\n",
            bandwidth(rate).trim_start()
        );
    }
    if let Some(all) = figures.all_to_all() {
        let others = figures.job.ranks.len().saturating_sub(1) as f64;
        let rate = |seconds: f64| {
            let bytes = others * figures.plan.message_bytes as f64;
            bandwidth(bytes / seconds).trim_start().to_owned()
        };
        let gain = figures.all_to_all_gain().map_or_else(String::new, |gain| {
            format!("; {gain:.2} times as fast as step by step")
        });
        text += &format!(
            "all-to-all min {} avg {} max {} for a message to each other rank, {} sent by each{gain}\n",
            time(all.least_s).trim_start(),
            time(all.mean_s).trim_start(),
            time(all.most_s).trim_start(),
            rate(all.mean_s)
        );
    }
    text
}

fn retests(figures: &Figures<'_>) -> String {
    let mut again = figures.retests();
    again.truncate(figures.plan.slowest);
    if again.is_empty() {
        return String::new();
    }
    let mut text =
        "slowest links, retested one by one            among others                     alone\n"
            .to_owned();
    for one in again {
        let ends = format!("{} to {}", figures.rank(one.from), figures.rank(one.to));
        let said = if one.new_s < FASTER * one.old_s {
            "faster alone"
        } else {
            "as slow alone"
        };
        text += &format!(
            "  {ends:42}  {}  {}  {said}\n",
            figures.both(one.old_s),
            figures.both(one.new_s)
        );
    }
    text
}

fn matrix(figures: &Figures<'_>) -> String {
    const MIB: f64 = 1048576.0;
    let ranks = figures.job.ranks.len();
    if ranks > WIDEST {
        return String::new();
    }
    let mut text = "MiB/s      to".to_owned();
    for to in 0..ranks {
        text += &format!("{to:>9}");
    }
    text.push('\n');
    for from in 0..ranks {
        let mut line = format!("from {from:>3}     ");
        for to in 0..ranks {
            let mean = figures.mean_of(from, to);
            line += &match mean.map(|seconds| figures.bandwidth(seconds) / MIB) {
                Some(rate) if rate >= 1000.0 => format!("{rate:9.0}"),
                Some(rate) => format!("{rate:9.2}"),
                None => "        -".to_owned(),
            };
        }
        text += &format!("{line}  {}\n", figures.name(from));
    }
    text
}

fn histogram(figures: &Figures<'_>) -> String {
    let bins = figures.histogram(BINS);
    let most = bins.iter().map(|(_, count)| *count).max().unwrap_or(0);
    if figures.links.len() < 2 * BINS || most == 0 {
        return String::new();
    }
    let mut text = "links by their time\n".to_owned();
    for (upper, count) in bins {
        let bar = "#".repeat((count * BAR).div_ceil(most));
        text += &format!("  up to {} {count:>6} {bar}\n", time(upper));
    }
    text
}
