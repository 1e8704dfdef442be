//! Turns the arguments of `pipebench latency run` and `locate` into a request.

use std::collections::HashMap;

use crate::cli::report::Kept;
use crate::controller;
use crate::plan::job::{MESSAGE_BYTES, MESSAGES, RANKS};
use crate::plan::latency::{Baseline, Latency};
use crate::plan::linktest::{Kernel, Linktest};
use crate::plan::ranks::{RankOrder, Ranks, Wait};
use crate::plan::{Transport, Work};
use crate::record::Outcome;
use crate::store::runs;
use crate::units;
use latency::fabric::Fabric;
use latency::planfile;
use latency::planning::Strategy;
use latency::rows::Model;

use super::error::UsageError;
use super::spec::{Outline, RunSpec, Shared};
use super::values::Options;
use crate::cli::args::latency::{PairWords, RunArguments};
use crate::cli::args::{HostMap, RankWords};
use crate::cli::latency::{fabrics, plans};

/// Turns arguments into a request. `before` is the run to compare with, if the user named one.
pub(crate) fn parse(
    words: &RunArguments,
    before: Option<&Kept>,
    locate: bool,
) -> Result<RunSpec, UsageError> {
    let mut outline = Outline::of(Shared {
        hosts: &words.hosts,
        sockets: &words.sockets,
        launch: &words.launch,
        results: &words.results,
        order: None,
    })?;
    let ranks = RankWords {
        ranks_per_node: 1,
        rank_order: RankOrder::Block,
        // A rank that sleeps can wake up on any idle processor.
        no_pin: words.pair.wait == Wait::Sleep,
        wait: words.pair.wait,
    };
    let ranks = outline.ranks(&ranks, Transport::Auto, "--transport")?;
    // A missing host costs only its pairs.
    (outline.keep_going, outline.most_missing) = (true, None);
    outline.seed = words.choice.plan_seed;
    let mut notes = Vec::new();
    let labels: Vec<&str> = outline
        .nodes
        .iter()
        .map(|node| node.label.as_str())
        .collect();
    let (fabric, latency) =
        latency_of(words, ranks, &labels, before, locate, &mut notes).map_err(UsageError::Value)?;
    let options = options(words, &fabric, &latency);
    Ok(RunSpec {
        notes,
        ..outline.spec(Work::Latency(latency), options)
    })
}

/// The fabric, and the work on it.
fn latency_of(
    words: &RunArguments,
    ranks: Ranks,
    labels: &[&str],
    before: Option<&Kept>,
    locate: bool,
    notes: &mut Vec<String>,
) -> Result<(Fabric, Latency), String> {
    // `fabrics` has already printed the fault of a file.
    let (text, fabric) =
        fabrics::read(&words.fabric).map_err(|_| "the fabric cannot be used".to_owned())?;
    let mut wishes = plans::wishes(&words.choice)?;
    if locate {
        wishes.strategy = Strategy::Locate;
    }
    if !RANKS.contains(&labels.len()) {
        return Err(format!(
            "{} hosts: from {} to {}",
            labels.len(),
            RANKS.start(),
            RANKS.end()
        ));
    }
    let PairWords {
        pings,
        warmup_pings,
        ..
    } = words.pair;
    if !MESSAGES.contains(&pings) || warmup_pings > *MESSAGES.end() {
        return Err(format!("--pings {pings}: from 1 to {}", MESSAGES.end()));
    }
    let bytes = units::parse_bytes(&words.pair.size).map_err(|error| format!("--size: {error}"))?;
    let message_bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
    if !MESSAGE_BYTES.contains(&message_bytes) {
        return Err("--size: from 1 byte to 1 GiB".to_owned());
    }
    let numbers = mapped(&fabric, labels, words.map, notes)?;
    let mut directed = wishes.directed;
    let rounds = match &words.plan {
        None => None,
        Some(path) => {
            let text = fabrics::text_of(path).map_err(|_| "the plan cannot be used".to_owned())?;
            let plan =
                planfile::read(&fabric, &text).map_err(|error| fabrics::placed(path, &error))?;
            if locate && plan.strategy != Strategy::Locate {
                return Err(format!(
                    "{}: a plan of strategy {} cannot locate slow cables (make one with --strategy locate)",
                    path.display(),
                    plan.strategy.name()
                ));
            }
            directed = plan.directed;
            wishes.strategy = plan.strategy;
            Some(plan.rounds)
        }
    };
    if wishes.strategy == Strategy::Locate && before.is_none() {
        return Err("locating slow cables needs an earlier run: give --baseline RUN".to_owned());
    }
    let model = Model {
        fabric: &fabric,
        directed,
    };
    let baseline = before
        .map(|kept| of_baseline(&model, &numbers, kept))
        .transpose()?;
    let latency = Latency {
        probe: Linktest {
            ranks,
            kernel: Kernel::Semidirectional,
            messages: pings,
            warmups: warmup_pings,
            message_bytes,
            serial: false,
            bisection: false,
            all_to_all: false,
            step_seed: None,
            rank_orders: 0,
            rank_seed: 0,
            buffers: 1,
            random_contents: false,
            content_seed: 0,
            check: false,
            slowest: 0,
            min_iterations: 1,
            min_runtime_ns: 0,
        },
        fabric: text,
        hosts: numbers,
        strategy: wishes.strategy,
        directed,
        redundancy: wishes.redundancy,
        seed: wishes.looking.seed,
        rounds,
        checks: if wishes.strategy == Strategy::Locate {
            0
        } else {
            words.pair.checks
        },
        baseline,
    };
    Ok((fabric, latency))
}

/// Number in the fabric of each node's host.
fn mapped(
    fabric: &Fabric,
    labels: &[&str],
    how: HostMap,
    notes: &mut Vec<String>,
) -> Result<Vec<u32>, String> {
    let hosts = fabric.hosts.len();
    if labels.len() > hosts {
        return Err(format!(
            "{} hosts are named, but the fabric has {hosts}",
            labels.len()
        ));
    }
    if labels.len() < hosts {
        let missing = hosts - labels.len();
        notes.push(format!(
            "{missing} of the fabric's {hosts} hosts are not named: this run does not measure their pairs"
        ));
    }
    match how {
        HostMap::Order => Ok((0_u32..).take(labels.len()).collect()),
        HostMap::Name => {
            let mut known: HashMap<&str, u32> = HashMap::new();
            for (number, name) in (0_u32..).zip(&fabric.hosts) {
                known.insert(name, number);
                known
                    .entry(name.split('.').next().unwrap_or(name))
                    .or_insert(number);
            }
            let mut numbers = Vec::new();
            for label in labels {
                let short = label.split('.').next().unwrap_or(label);
                let Some(number) = known.get(label).or_else(|| known.get(short)) else {
                    return Err(format!(
                        "host {label} is not in the fabric (--map order takes hosts in the order of its description)"
                    ));
                };
                if numbers.contains(number) {
                    return Err(format!("host {label} is named twice"));
                }
                numbers.push(*number);
            }
            Ok(numbers)
        }
    }
}

/// Values of the cables in an earlier run. That run must have measured the same fabric.
fn of_baseline(model: &Model<'_>, hosts: &[u32], kept: &Kept) -> Result<Baseline, String> {
    let run = runs::name_of(&kept.path);
    let Outcome::Latency(latency) = &kept.record.outcome else {
        return Err(format!("--baseline {run}: this run measured no latencies"));
    };
    if latency.planned.fabric != model.fabric.name || latency.planned.directed != model.directed {
        return Err(format!(
            "--baseline {run}: it measured another fabric ({})",
            latency.planned.fabric
        ));
    }
    let names = hosts
        .iter()
        .filter_map(|host| model.fabric.hosts.get(*host as usize));
    if let Some(new) = names.into_iter().find(|name| latency.absent.contains(name)) {
        return Err(format!(
            "--baseline {run}: host {new} was missing, so its cable has no value"
        ));
    }
    let values = controller::values_of(model, latency);
    let values_s = values
        .ok_or_else(|| format!("--baseline {run}: its cables have no values or different names"))?;
    let errors_s = controller::errors_of(model, latency);
    Ok(Baseline {
        run,
        values_s,
        errors_s,
    })
}

fn options(words: &RunArguments, fabric: &Fabric, latency: &Latency) -> Options {
    let (kernel, hosts) = (&latency.probe, fabric.hosts.len());
    let mut all = Options::of("latency");
    all.set("fabric", &fabric.name);
    all.set("hosts", format!("{} of {hosts}", latency.hosts.len()));
    all.set("strategy", latency.strategy.name());
    match (&words.plan, &latency.rounds) {
        (Some(path), Some(rounds)) => {
            let plan = format!("{} ({} rounds)", path.display(), rounds.len());
            all.set("plan", plan);
        }
        _ => all.set("redundancy", latency.redundancy),
    }
    all.set("pings", kernel.messages);
    all.set("warmup-pings", kernel.warmups);
    all.set("size", kernel.message_bytes);
    all.flag("directed", latency.directed);
    all.given("baseline", latency.baseline.as_ref().map(|one| &one.run));
    all
}
