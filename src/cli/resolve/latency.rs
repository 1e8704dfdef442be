//! Turns the arguments of `pipebench latency run` and `locate` into a request.

use std::collections::HashMap;

use crate::cli::report;
use crate::cli::terminal::refuse;
use crate::controller;
use crate::plan::Transport;
use crate::plan::job::{MESSAGE_BYTES, MESSAGES, RANKS};
use crate::plan::latency::{Baseline, Latency};
use crate::plan::linktest::{Kernel, Linktest};
use crate::plan::ranks::{RankOrder, Ranks, Wait};
use crate::plan::{RunPlan, Work};
use crate::record::{LatencyRecord, Outcome};
use crate::units;
use latency::fabric::Fabric;
use latency::planfile;
use latency::planning::Strategy;
use latency::rows::Model;

use super::checks;
use super::error::UsageError;
use super::launch;
use super::nodes;
use super::sockets;
use super::spec::RunSpec;
use crate::cli::args::HostMap;
use crate::cli::args::latency::RunArguments;
use crate::cli::latency::{fabrics, plans};

/// Name and results of the run to compare with, if the user named one. The error is the exit code.
pub(crate) fn baseline(words: &RunArguments) -> Result<Option<(String, LatencyRecord)>, u8> {
    let Some(name) = &words.results.baseline else {
        return Ok(None);
    };
    let kept = report::read(name, words.folder())?;
    match kept.record.outcome {
        Outcome::Latency(latency) => Ok(Some((crate::store::runs::name_of(&kept.path), *latency))),
        Outcome::Acceptance(_) | Outcome::Linktest(_) | Outcome::Imb(_) => Err(refuse(&format!(
            "--baseline {name}: this run measured no latencies"
        ))),
    }
}

/// Turns arguments into a request.
pub(crate) fn parse(
    words: &RunArguments,
    baseline: Option<(String, LatencyRecord)>,
    locate: bool,
) -> Result<RunSpec, String> {
    let by_rsh = words.launch.rsh.is_some();
    let named = &words.hosts;
    let said = |error: UsageError| error.to_string();
    let hosts = nodes::hosts_of(
        named.list.as_deref(),
        named.file.as_deref(),
        named.exclude.as_deref(),
        by_rsh,
    )
    .map_err(said)?;
    let nodes = nodes::nodes_of(&hosts).map_err(said)?;
    checks::check_launch(&words.launch).map_err(said)?;
    let sockets = sockets::sockets_of(&words.sockets).map_err(said)?;
    checks::check_sockets(&sockets).map_err(said)?;
    // `fabrics` has already printed the fault of a file.
    let (text, fabric) =
        fabrics::read(&words.fabric).map_err(|_| "the fabric cannot be used".to_owned())?;
    let mut wishes = plans::wishes(&words.choice)?;
    if locate {
        wishes.strategy = Strategy::Locate;
    }
    if !RANKS.contains(&nodes.len()) {
        return Err(format!(
            "{} hosts: from {} to {}",
            nodes.len(),
            RANKS.start(),
            RANKS.end()
        ));
    }
    if !MESSAGES.contains(&words.pings) || words.warmup_pings > *MESSAGES.end() {
        return Err(format!(
            "--pings {}: from 1 to {}",
            words.pings,
            MESSAGES.end()
        ));
    }
    let bytes = units::parse_bytes(&words.size).map_err(|error| format!("--size: {error}"))?;
    let message_bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
    if !MESSAGE_BYTES.contains(&message_bytes) {
        return Err("--size: from 1 byte to 1 GiB".to_owned());
    }
    let mut notes = Vec::new();
    let labels: Vec<&str> = nodes.iter().map(|node| node.label.as_str()).collect();
    let numbers = mapped(&fabric, &labels, words.map, &mut notes)?;
    let mut directed = wishes.directed;
    let rounds = match &words.plan {
        None => None,
        Some(path) => {
            let text = fabrics::text_of(path).map_err(|_| "the plan cannot be used".to_owned())?;
            let plan =
                planfile::read(&fabric, &text).map_err(|error| fabrics::placed(path, &error))?;
            if locate && plan.strategy != Strategy::Locate {
                return Err(format!(
                    "{}: a plan of strategy {} locates nothing (make one with --strategy locate)",
                    path.display(),
                    plan.strategy.name()
                ));
            }
            directed = plan.directed;
            wishes.strategy = plan.strategy;
            Some(plan.rounds)
        }
    };
    if wishes.strategy == Strategy::Locate && baseline.is_none() {
        return Err(
            "slow cables are located against an earlier run: give --baseline RUN".to_owned(),
        );
    }
    let model = Model {
        fabric: &fabric,
        directed,
    };
    let baseline = baseline
        .map(|(run, record)| of_baseline(&model, &numbers, run, &record))
        .transpose()?;
    let latency = Latency {
        probe: Linktest {
            ranks: Ranks {
                per_node: 1,
                order: RankOrder::Block,
                // A rank that sleeps can wake up on any idle processor.
                pinned: words.wait != Wait::Sleep,
                wait: words.wait,
                transport: Transport::Auto,
                sockets,
                ports: sockets::ports_of(&words.sockets).map_err(said)?,
                network: sockets::network_of(&words.sockets).map_err(said)?,
            },
            kernel: Kernel::Semidirectional,
            messages: words.pings,
            warmups: words.warmup_pings,
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
            words.checks
        },
        baseline,
    };
    let options = effective(words, &fabric, &latency);
    let deadlines = launch::deadlines_of(&words.launch).map_err(said)?;
    let plan = RunPlan {
        seed: words.choice.plan_seed,
        // A missing host costs only its pairs.
        keep_going: true,
        ..RunPlan::of(nodes, Work::Latency(latency), deadlines)
    };
    Ok(RunSpec {
        notes,
        ..RunSpec::of(plan, hosts, options)
    })
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
            "{} hosts are named, and the fabric has {hosts}",
            labels.len()
        ));
    }
    if labels.len() < hosts {
        let missing = hosts - labels.len();
        notes.push(format!(
            "{missing} of the fabric's {hosts} hosts are not named: their pairs are not measured"
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
fn of_baseline(
    model: &Model<'_>,
    hosts: &[u32],
    run: String,
    latency: &LatencyRecord,
) -> Result<Baseline, String> {
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
            "--baseline {run}: {new} was not there, and nothing is known of its cable"
        ));
    }
    let values = controller::values_of(model, latency);
    let values_s = values
        .ok_or_else(|| format!("--baseline {run}: its cables have no values, or other names"))?;
    let errors_s = controller::errors_of(model, latency);
    Ok(Baseline {
        run,
        values_s,
        errors_s,
    })
}

fn effective(words: &RunArguments, fabric: &Fabric, latency: &Latency) -> Vec<(String, String)> {
    let kernel = &latency.probe;
    let mut all = vec![
        (
            "pipebench",
            format!("{} latency", env!("CARGO_PKG_VERSION")),
        ),
        ("fabric", fabric.name.clone()),
        (
            "hosts",
            format!("{} of {}", latency.hosts.len(), fabric.hosts.len()),
        ),
        ("strategy", latency.strategy.name().to_owned()),
    ];
    match (&words.plan, &latency.rounds) {
        (Some(path), Some(rounds)) => all.push((
            "plan",
            format!("{} ({} rounds)", path.display(), rounds.len()),
        )),
        _ => all.push(("redundancy", latency.redundancy.to_string())),
    }
    all.push(("pings", kernel.messages.to_string()));
    all.push(("warmup-pings", kernel.warmups.to_string()));
    all.push(("size", kernel.message_bytes.to_string()));
    if latency.directed {
        all.push(("directed", "yes".to_owned()));
    }
    if let Some(baseline) = &latency.baseline {
        all.push(("baseline", baseline.run.clone()));
    }
    let congestion = kernel.ranks.sockets.congestion.clone();
    all.push((
        "congestion",
        congestion.unwrap_or_else(|| "system".to_owned()),
    ));
    all.into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}
