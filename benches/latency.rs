//! Plans of pair latencies by fabric size: time to make a plan, its rounds, and the time to solve it and to predict all pairs.
//! Uses one core. `cargo bench --bench latency -- [--write]`; `--write` puts the table into docs/latency.md.

#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]

use std::time::Instant;

use latency::fabric::Fabric;
use latency::generate;
use latency::planning::{self, Wishes};
use latency::predict;
use latency::routing::Rule;
use latency::solve::Equations;
use latency::survey::Looking;
use numbers::random::Random;

/// Marks around the table in the document.
const BEGIN: &str = "<!-- table of plans -->";
const END: &str = "<!-- end of table -->";

/// Peak memory of this process so far, in MiB.
fn peak_mib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or(0) / 1024
}

fn row(name: &str, fabric: &Fabric, wishes: &Wishes) -> String {
    let present: Vec<u32> = (0..u32::try_from(fabric.hosts.len()).expect("few")).collect();
    let began = Instant::now();
    let plan = planning::make(fabric, &present, wishes);
    let planned = began.elapsed().as_secs_f64();
    let verdict = planning::verify(fabric, &plan, Some(plan.facts.rank));
    let model = plan.model(fabric);
    let equations = Equations::of(&model, &plan.pairs());
    let mut random = Random::new(7);
    let truth: Vec<f64> = (0..model.columns())
        .map(|_| 100.0 + 400.0 * random.unit())
        .collect();
    let measured: Vec<f64> = (0..plan.pairs().len())
        .map(|row| equations.sum(row, &truth))
        .collect();
    let began = Instant::now();
    let solution = equations.solve(&measured, false);
    let solved = began.elapsed().as_secs_f64();
    let began = Instant::now();
    let mut sum = 0.0;
    predict::all_pairs(&model, &solution.values, |_, row| {
        sum += row.iter().sum::<f64>()
    });
    let streamed = began.elapsed().as_secs_f64();
    assert!(sum > 0.0);
    let bound = plan.facts.bound.map_or(0, |bound| bound.rounds);
    let line = format!(
        "| {name} | {} | {} | {} | {} | {} | {bound} | {} | {planned:.3} | {solved:.3} | {streamed:.2} | {} | {} |",
        fabric.hosts.len(),
        fabric.cables.len(),
        plan.facts.rank,
        fabric.pairs(),
        wishes.redundancy,
        plan.rounds.len(),
        peak_mib(),
        if verdict.is_ok() { "yes" } else { "NO" },
    );
    println!("{line}");
    line
}

fn main() {
    let arguments: Vec<String> = std::env::args()
        .skip(1)
        .filter(|word| word != "--bench")
        .collect();
    let head = "| fabric | hosts | cables | rank | pairs | pairs by rank | lower bound | rounds | plan s | solve s | all pairs s | peak MiB | verified |\n\
        |---|---|---|---|---|---|---|---|---|---|---|---|---|";
    println!("{head}");
    let mut table = vec![head.to_owned()];
    let only: Vec<&String> = arguments
        .iter()
        .filter(|word| !word.starts_with("--"))
        .collect();
    let tree = |ports, levels, rule| generate::fat_tree(ports, levels, rule);
    let fabrics = [
        ("4-port 2-tree", tree(4, 2, Rule::Symmetric)),
        ("8-port 2-tree", tree(8, 2, Rule::Symmetric)),
        ("4-port 3-tree", tree(4, 3, Rule::Symmetric)),
        ("6-port 3-tree", tree(6, 3, Rule::Symmetric)),
        ("8-port 3-tree", tree(8, 3, Rule::Symmetric)),
        (
            "leaf-spine 16x8x16",
            generate::leaf_spine(16, 8, 16, Rule::Symmetric),
        ),
        (
            "dragonfly a4 h2 p2",
            generate::dragonfly(4, 2, 2, Rule::PairHash),
        ),
        (
            "dragonfly a4 h2 p3",
            generate::dragonfly(4, 2, 3, Rule::PairHash),
        ),
        ("slim fly q5 p1", generate::slim_fly(5, 1, Rule::PairHash)),
        ("slim fly q5 p2", generate::slim_fly(5, 2, Rule::PairHash)),
        ("slim fly q5 p4", generate::slim_fly(5, 4, Rule::PairHash)),
        ("12-port 3-tree", tree(12, 3, Rule::Symmetric)),
        (
            "12-port 3-tree by destination",
            tree(12, 3, Rule::DestinationMod),
        ),
        ("16-port 3-tree", tree(16, 3, Rule::Symmetric)),
        ("24-port 3-tree", tree(24, 3, Rule::Symmetric)),
        (
            "24-port 3-tree by destination",
            tree(24, 3, Rule::DestinationMod),
        ),
        ("36-port 3-tree", tree(36, 3, Rule::Symmetric)),
        ("48-port 3-tree", tree(48, 3, Rule::Symmetric)),
    ];
    for (name, draft) in fabrics {
        if !only.is_empty() && !only.iter().any(|word| name.contains(word.as_str())) {
            continue;
        }
        let fabric = Fabric::new(&draft.expect("there is such a fabric")).expect("it is sound");
        for redundancy in [1.0, 1.5] {
            let wishes = Wishes {
                redundancy,
                ..Wishes::default()
            };
            table.push(row(name, &fabric, &wishes));
        }
    }
    println!("\n| by destination, both directions | columns used | rank | s |\n|---|---|---|---|");
    for ports in [12, 16, 24, 36] {
        let name = format!("{ports}-port 3-tree directed");
        if !only.is_empty() && !only.iter().any(|word| name.contains(word.as_str())) {
            continue;
        }
        let draft = tree(ports, 3, Rule::DestinationMod).expect("there is such a tree");
        let fabric = Fabric::new(&draft).expect("it is sound");
        let present: Vec<u32> = (0..u32::try_from(fabric.hosts.len()).expect("few")).collect();
        let began = Instant::now();
        let facts = planning::facts(&fabric, true, &present, Looking::default());
        // With k = p/2: 10 k^3 columns, and rank 10 k^3 - 5 k^2 + 1.
        let half = ports / 2;
        let columns = 10 * half * half * half;
        assert_eq!(
            (facts.used, facts.rank),
            (columns, columns - 5 * half * half + 1)
        );
        let seconds = began.elapsed().as_secs_f64();
        println!(
            "| {ports}-port 3-tree | {} | {} | {seconds:.2} |",
            facts.used, facts.rank
        );
    }
    if arguments.iter().any(|word| word == "--write") {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/latency.md");
        let text = std::fs::read_to_string(path).expect("the document");
        let (before, rest) = text.split_once(BEGIN).expect("the table's place");
        let (_, after) = rest.split_once(END).expect("its end");
        let text = format!("{before}{BEGIN}\n{}\n{END}{after}", table.join("\n"));
        std::fs::write(path, text).expect("written");
    }
}
