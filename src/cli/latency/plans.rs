//! Plans, predictions and simulations, which need no measurement.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use crate::cli::files::{can_keep, keep_file};
use crate::cli::terminal::{complain, refuse, tell};
use crate::controller;
use crate::exit;
use crate::record::Measured;
use crate::report::latency::combination;
use crate::sys::why;
use latency::fabric::Fabric;
use latency::planning::{self, Plan, Strategy, Wishes};
use latency::rows::Model;
use latency::simulate::{Detection, Setting, Simulation};
use latency::solve::Equations;
use latency::survey::Looking;
use latency::{description, planfile, predict};

use super::fabrics;
use crate::cli::args::latency::{ChoiceWords, PairsArguments, PlanArguments, SimulateArguments};

/// Most listed combinations of columns that are known only together. The record of a run holds all of them.
const MOST_TOGETHER: usize = 20;

fn wrong<T>(text: &str) -> Result<T, u8> {
    Err(refuse(&text))
}

/// Wishes for a plan, from the arguments.
pub(crate) fn wishes(choice: &ChoiceWords) -> Result<Wishes, String> {
    if !(1.0..=100.0).contains(&choice.redundancy) {
        return Err(format!("--redundancy {}: from 1 to 100", choice.redundancy));
    }
    Ok(Wishes {
        strategy: choice.strategy,
        directed: choice.directed,
        redundancy: choice.redundancy,
        looking: Looking {
            seed: choice.plan_seed,
            ..Looking::default()
        },
        ..Wishes::default()
    })
}

fn everyone(fabric: &Fabric) -> Vec<u32> {
    (0_u32..).take(fabric.hosts.len()).collect()
}

/// Chooses pairs and rounds, and writes the plan; returns the exit code.
pub(crate) fn plan(words: &PlanArguments) -> Result<u8, u8> {
    let mut wishes = wishes(&words.choice).map_err(|text| refuse(&text))?;
    wishes.effort = words.effort;
    if !(1..=1000).contains(&words.rounds) {
        return wrong(&format!("--rounds {}: from 1 to 1000", words.rounds));
    }
    wishes.cover_rounds = words.rounds;
    if !can_keep(words.output.as_deref(), None) {
        return Err(exit::NOT_WRITTEN);
    }
    let (_, fabric) = fabrics::read(&words.fabric)?;
    let plan = planning::make(&fabric, &everyone(&fabric), &wishes);
    let lines = told(&fabric, &plan, wishes.looking.seed);
    if let Err(fault) = planning::verify(&fabric, &plan, None) {
        complain(&format!("the plan is wrong: {fault}"));
        return Err(exit::BUG);
    }
    if let Some(path) = &words.output {
        if !keep_file(path, Ok(planfile::write(&fabric, &plan, &lines))) {
            return Err(exit::NOT_WRITTEN);
        }
        if path == Path::new("-") {
            return Ok(exit::OK);
        }
    }
    Ok(tell(&(lines.join("\n") + "\n")))
}

/// Lines that describe a plan.
fn told(fabric: &Fabric, plan: &Plan, seed: u64) -> Vec<String> {
    let facts = &plan.facts;
    let pairs = plan.pairs().len();
    let mut lines = vec![
        format!(
            "fabric     {}: {} hosts, {} switches, {} cables, {} pairs",
            fabric.name,
            fabric.hosts.len(),
            fabric.switches.len(),
            fabric.cables.len(),
            fabric.pairs()
        ),
        format!(
            "rank       {} of {} columns that pairs go through, {}",
            facts.rank,
            facts.used,
            controller::proof_text(facts.proof.as_ref())
        ),
    ];
    let tiers = facts.tiers.iter();
    let tiers = tiers.map(|tier| format!("{} {}", tier.support, tier.rank));
    let tiers = tiers.collect::<Vec<String>>().join(", ");
    if !tiers.is_empty() {
        lines.push(format!(
            "tiers      cables per pair, and rank of all pairs with at most that number: {tiers}"
        ));
    }
    let bound = facts
        .bound
        .map(|bound| format!("; at least {}: {}", bound.rounds, bound.reason));
    let basis = match plan.strategy {
        Strategy::Locate => format!(
            "{} cables distinguished from all others",
            facts.unique.unwrap_or(0)
        ),
        _ => format!(
            "a basis in {} rounds{}",
            facts.basis_rounds,
            bound.unwrap_or_default()
        ),
    };
    lines.push(format!(
        "plan       {pairs} pairs in {} rounds ({}): {basis}",
        plan.rounds.len(),
        plan.strategy.name()
    ));
    if plan.strategy == Strategy::Locate {
        return lines;
    }
    lines.push("noise      of the value of a cable, per noise of a round trip (root of the mean of the diagonal of (A'A)^-1)".to_owned());
    for class in planning::noise(fabric, plan, seed) {
        let name = &fabric.classes[usize::from(class.class)];
        let amplification = match class.identified {
            0 => "no cable determined separately".to_owned(),
            count => format!("{:.2}, {count} cables", class.amplification),
        };
        let together = match class.together {
            0 => String::new(),
            count => format!(", {count} only together with others"),
        };
        lines.push(format!("           {name}: {amplification}{together}"));
    }
    let model = plan.model(fabric);
    let equations = Equations::of(&model, &plan.pairs());
    let together = equations.combinations(&vec![0.0; model.columns()]);
    for one in together.iter().take(MOST_TOGETHER) {
        let terms: Vec<(String, f64)> = one
            .terms
            .iter()
            .map(|(column, times)| (model.name(*column), *times))
            .collect();
        lines.push(format!("together   {}", combination(&terms)));
    }
    if together.len() > MOST_TOGETHER {
        lines.push(format!(
            "           and {} more",
            together.len() - MOST_TOGETHER
        ));
    }
    let used = (0_u32..)
        .take(model.columns())
        .filter(|column| equations.is_used(*column));
    let used = used.map(|column| model.cable_of(column)).collect();
    let unused = fabric.unused(&used);
    if !unused.is_empty() {
        let (count, shown) = (unused.len(), &unused[..unused.len().min(MOST_TOGETHER)]);
        lines.push(format!(
            "unused     {count} cables that no route uses: {}",
            shown.join(", ")
        ));
    }
    lines
}

/// Predicts the round trips of all pairs from a run; returns the exit code.
pub(crate) fn pairs(words: &PairsArguments) -> Result<u8, u8> {
    let kept = crate::cli::report::read(&words.run, &words.folder)?;
    let Measured::Latency(job, latency) = kept.record.measured() else {
        return wrong(&format!(
            "{}: this run measured no latencies",
            kept.path.display()
        ));
    };
    let draft = description::read(&job.fabric).and_then(|draft| Fabric::new(&draft));
    let fabric = draft.map_err(|error| fabrics::refused(Some(&kept.path), &error))?;
    let model = Model {
        fabric: &fabric,
        directed: job.directed,
    };
    let Some(values) = controller::values_of(&model, latency) else {
        return wrong(&format!(
            "{}: this run located slow cables, and does not have the values of all cables",
            kept.path.display()
        ));
    };
    let us: Vec<f64> = values.iter().map(|value| value * 1e6).collect();
    let mut written = true;
    let mut keep = |path: &Path, write: &dyn Fn(&mut dyn Write) -> std::io::Result<()>| {
        let outcome = if path == Path::new("-") {
            write(&mut BufWriter::new(std::io::stdout().lock()))
        } else {
            File::create(path).and_then(|file| write(&mut BufWriter::new(file)))
        };
        // A reader that has gone away is no failure.
        if let Err(error) = outcome
            && error.kind() != std::io::ErrorKind::BrokenPipe
        {
            complain(&format!("cannot write {}: {}", path.display(), why(&error)));
            written = false;
        }
    };
    if let Some(path) = &words.csv {
        keep(path, &|out| table(&model, &us, out));
    }
    if let Some(path) = &words.matrix {
        keep(path, &|out| matrix(&model, &us, out));
    }
    Ok(if written { exit::OK } else { exit::NOT_WRITTEN })
}

/// Writes a line for each pair, with its round trip in µs.
fn table(model: &Model<'_>, us: &[f64], out: &mut dyn Write) -> std::io::Result<()> {
    let mut outcome = writeln!(out, "from,to,round_trip_us");
    let hosts = &model.fabric.hosts;
    predict::all_pairs(model, us, |from, row| {
        for (to, time) in (from as usize + 1..).zip(row) {
            if outcome.is_ok() {
                outcome = writeln!(out, "{},{},{time:.4}", hosts[from as usize], hosts[to]);
            }
        }
    });
    outcome.and_then(|()| out.flush())
}

/// Writes all round trips in µs, row by row, in NumPy's format 1.0: a header padded to a multiple of 64 bytes, and little-endian numbers.
fn matrix(model: &Model<'_>, us: &[f64], out: &mut dyn Write) -> std::io::Result<()> {
    let hosts = model.fabric.hosts.len();
    let head = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({hosts}, {hosts}), }}");
    let length = (10 + head.len() + 1).next_multiple_of(64) - 10;
    out.write_all(b"\x93NUMPY\x01\x00")?;
    out.write_all(&u16::try_from(length).unwrap_or(u16::MAX).to_le_bytes())?;
    out.write_all(format!("{head:width$}\n", width = length - 1).as_bytes())?;
    let mut room = latency::rows::Room::default();
    for from in (0_u32..).take(hosts) {
        for to in (0_u32..).take(hosts) {
            let time = if from == to {
                0.0
            } else {
                predict::one(model, us, from, to, &mut room)
            };
            #[expect(
                clippy::cast_possible_truncation,
                reason = "far more digits than a measurement has"
            )]
            out.write_all(&(time as f32).to_le_bytes())?;
        }
    }
    out.flush()
}

/// Simulates plans on random latencies; returns the exit code.
pub(crate) fn simulate(words: &SimulateArguments) -> Result<u8, u8> {
    let is_latency = |value: &f64| value.is_finite() && *value > 0.0;
    if words.latency.is_empty() || !words.latency.iter().all(is_latency) {
        return wrong("--latency: numbers larger than 0");
    }
    let is_count = |pings: &usize| (1..=100_000).contains(pings);
    if words.pings.is_empty() || !words.pings.iter().all(is_count) {
        return wrong("--pings: from 1 to 100000");
    }
    let is_factor = |factor: &f64| (1.0..=100.0).contains(factor);
    if !words.redundancy.iter().all(is_factor) {
        return wrong("--redundancy: from 1 to 100");
    }
    let files = [words.pairs.as_deref(), words.cables.as_deref()];
    if !can_keep(files.into_iter().flatten(), None) {
        return Err(exit::NOT_WRITTEN);
    }
    let (_, fabric) = fabrics::read(&words.fabric)?;
    let mut text = format!(
        "{}: {} hosts, {} cables, {} pairs; {} trials, seed {}\n\n",
        fabric.name,
        fabric.hosts.len(),
        fabric.cables.len(),
        fabric.pairs(),
        words.trials,
        words.seed
    );
    let classes: Vec<&str> = fabric.classes.iter().map(String::as_str).collect();
    text += &format!(
        "| plan | rounds | pairs | samples | pairs rms % | worst % | cables rms % ({}) | slow +{} % found with a baseline | wrong with a baseline | found within the class | wrong within the class |\n|---|---|---|---|---|---|---|---|---|---|---|\n",
        classes.join(", "),
        words.slower
    );
    let mut plans: Vec<(String, Plan)> = Vec::new();
    let mut add = |name: String, wishes: Wishes| {
        let plan = planning::make(&fabric, &everyone(&fabric), &wishes);
        plans.push((name, plan));
    };
    for factor in &words.redundancy {
        let wishes = Wishes {
            redundancy: *factor,
            ..Wishes::default()
        };
        add(format!("x{factor}"), wishes);
    }
    for rounds in &words.locate {
        let wishes = Wishes {
            strategy: Strategy::Locate,
            cover_rounds: *rounds,
            ..Wishes::default()
        };
        add(format!("locate, {rounds} rounds"), wishes);
    }
    let first = plans.first();
    let written = first.is_none_or(|(_, plan)| one_trial(words, &fabric, plan));
    for (name, plan) in &plans {
        for pings in &words.pings {
            text += &simulated(words, &fabric, name, plan, *pings);
        }
    }
    match written {
        true => Ok(tell(&text)),
        false => Ok(exit::NOT_WRITTEN),
    }
}

/// Writes set and calculated values side by side, for every pair and every cable. Returns false if a file cannot be written.
fn one_trial(words: &SimulateArguments, fabric: &Fabric, plan: &Plan) -> bool {
    let Some(pings) = words
        .pings
        .first()
        .filter(|_| words.pairs.is_some() || words.cables.is_some())
    else {
        return true;
    };
    let setting = setting(words, *pings);
    let model = plan.model(fabric);
    let (truth, values, identified) = Simulation::new(fabric, plan, &setting).once();
    let mut written = true;
    if let Some(path) = &words.pairs {
        let mut table = String::from("from,to,set,calculated\n");
        for (at, from) in (0_u32..).zip(&fabric.hosts) {
            for (other, to) in (0_u32..).zip(&fabric.hosts).skip(at as usize + 1) {
                let of = |values: &[f64]| predict::round_trip(&model, values, at, other);
                table += &format!("{from},{to},{:.6},{:.6}\n", of(&truth), of(&values));
            }
        }
        written &= keep_file(path, Ok(table));
    }
    if let Some(path) = &words.cables {
        let mut table = String::from("cable,set,calculated\n");
        for (column, (set, value)) in (0_u32..).zip(truth.iter().zip(&values)) {
            let shown = if identified[column as usize] {
                format!("{value:.6}")
            } else {
                "only together".to_owned()
            };
            table += &format!("{},{set:.6},{shown}\n", model.name(column));
        }
        written &= keep_file(path, Ok(table));
    }
    written
}

fn setting(words: &SimulateArguments, pings: usize) -> Setting {
    Setting {
        latency: words.latency.clone(),
        spread: words.spread / 100.0,
        noise: words.noise / 100.0,
        spikes: words.spikes / 100.0,
        samples: pings,
        slower: words.slower / 100.0,
        slowed: words.slowed,
        trials: words.trials,
        detection_trials: words.trials,
        seed: words.seed,
        ..Setting::default()
    }
}

fn simulated(
    words: &SimulateArguments,
    fabric: &Fabric,
    name: &str,
    plan: &Plan,
    pings: usize,
) -> String {
    let setting = setting(words, pings);
    let mut simulation = Simulation::new(fabric, plan, &setting);
    let locate = plan.strategy == Strategy::Locate;
    let percent = |value: f64| {
        if value.is_nan() {
            "-".to_owned()
        } else {
            format!("{:.3}", value * 100.0)
        }
    };
    let (all, worst, cables) = if locate {
        ("-".to_owned(), "-".to_owned(), "-".to_owned())
    } else {
        let accuracy = simulation.accuracy();
        let classes: Vec<String> = accuracy
            .classes
            .iter()
            .map(|value| percent(*value))
            .collect();
        (
            percent(accuracy.pairs),
            percent(accuracy.worst),
            classes.join(", "),
        )
    };
    let detection = simulation.detection(locate);
    let counts = |of: fn(&Detection) -> usize| {
        let counts = detection.values().map(|found| of(found).to_string());
        counts.collect::<Vec<_>>().join("/")
    };
    let sum = |of: fn(&Detection) -> usize| detection.values().map(of).sum::<usize>();
    let (within, wrong_within) = match locate {
        true => ("-".to_owned(), 0),
        false => (
            counts(|found| found.within_class),
            sum(|found| found.wrong_within),
        ),
    };
    format!(
        "| {name} | {} | {} | {pings} | {all} | {worst} | {cables} | {} of {} each | {} | {within} | {wrong_within} |\n",
        plan.rounds.len(),
        plan.pairs().len(),
        counts(|found| found.against_baseline),
        words.trials,
        sum(|found| found.wrong)
    )
}
