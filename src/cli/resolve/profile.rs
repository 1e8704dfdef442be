//! Turns a profile into the tests of a run.

use crate::cli::args::{Choice, PlainArguments};
use crate::plan::{
    Bound, Coupling, NodeSpec, Pattern, Profile, Purpose, STREAMS, Sink, Source, Test, sample,
};

use super::error::{UsageError, refuse};
use super::patterns;
use super::values::time;

/// Window of a permutation. Its look for losses takes a third of that, a repeat of the mesh twice as long.
const PERMUTATION_NS: u64 = 30_000_000_000;
/// Repeats of the mesh, of which the minimum counts.
const REPEATS: usize = 3;
/// Shortest window of a look for losses, unless a permutation is shorter.
const LEAST_LOSS_NS: u64 = 3_000_000_000;
/// Word of `--pattern` for every permutation, where an acceptance would run a sample.
const ALL_PERMUTATIONS: &str = "rotate";
/// Window of a soak.
const SOAK_NS: u64 = 24 * 3600 * 1_000_000_000;

/// Tests of a profile, made from the test that the other arguments describe. `seed` draws a sample of permutations for many nodes. The flag is true
/// if the tests are shorter than the profile requires.
pub(super) fn tests_of(
    arguments: &PlainArguments,
    profile: Profile,
    one: &Test,
    nodes: &[NodeSpec],
    seed: u64,
) -> Result<(Vec<Test>, bool), UsageError> {
    if profile == Profile::Quick {
        let tests = patterns::chosen(&arguments.pattern, nodes)?.into_iter();
        let tests = tests.map(|chosen| Test {
            pattern: chosen.pattern,
            paces: chosen.paces,
            ..one.clone()
        });
        return Ok((tests.collect(), false));
    }
    check(arguments, one, nodes.len())?;
    let asked = arguments
        .time
        .as_deref()
        .map(|text| time("--time", text))
        .transpose()?;
    let warmup = |usual: u64| match &arguments.warmup {
        Some(text) => time("--warmup", text),
        None => Ok(usual.min(asked.unwrap_or(usual).max(1_000_000_000))),
    };
    let mesh = |window_ns: u64| -> Result<Test, UsageError> {
        Ok(Test {
            pattern: Pattern::Mesh,
            bound: Bound::Time {
                warmup_ns: warmup(10_000_000_000)?,
                window_ns,
            },
            ..one.clone()
        })
    };
    if profile == Profile::Soak {
        let window_ns = asked.unwrap_or(SOAK_NS);
        return Ok((vec![mesh(window_ns)?], window_ns < SOAK_NS));
    }
    let each = asked.unwrap_or(PERMUTATION_NS);
    // A pair gets as many links as a port has in the mesh, up to the limit: comparing the two shows what loading all ports at once costs.
    let rails = one.rails.max(1);
    let most = STREAMS.end() / rails * rails;
    let streams = one.streams.saturating_mul(nodes.len() - 1).min(most);
    let permutation = |by: usize, purpose: Purpose, window_ns: u64| -> Result<Test, UsageError> {
        Ok(Test {
            pattern: Pattern::Shift(by),
            phases: 2,
            // Every rail has the same number of links.
            streams: streams.next_multiple_of(rails),
            bound: Bound::Time {
                warmup_ns: warmup(2_000_000_000)?,
                window_ns,
            },
            purpose,
            ..one.clone()
        })
    };
    // Losses are counted, so that a shorter window shows fewer of them.
    let loss_ns = (each / 3).max(LEAST_LOSS_NS.min(each));
    let shifts = match arguments.pattern.as_str() {
        ALL_PERMUTATIONS => (1..nodes.len()).collect(),
        _ => sample::shifts(nodes, seed),
    };
    let mut tests = Vec::new();
    for (purpose, window_ns) in [(Purpose::Load, each), (Purpose::Loss, loss_ns)] {
        for by in &shifts {
            tests.push(permutation(*by, purpose, window_ns)?);
        }
    }
    let mesh = mesh(each.saturating_mul(2))?;
    tests.extend(std::iter::repeat_n(mesh, REPEATS));
    Ok((tests, each < PERMUTATION_NS))
}

fn check(arguments: &PlainArguments, one: &Test, nodes: usize) -> Result<(), UsageError> {
    let profile = arguments.profile.word();
    let is_all = arguments.pattern == ALL_PERMUTATIONS;
    let asks_for_all = is_all && arguments.profile == Profile::Acceptance;
    if arguments.pattern != "all-to-all" && !asks_for_all {
        let but = match arguments.profile {
            Profile::Acceptance => ", or write --pattern rotate for every permutation",
            Profile::Quick | Profile::Soak => "",
        };
        return refuse(format!(
            "--profile {profile} has its own patterns (leave out --pattern{but})"
        ));
    }
    if arguments.buffers.is_some() || one.source != Source::Memory {
        return refuse(format!(
            "--profile {profile} is limited by time (leave out --buffers and --source)"
        ));
    }
    if matches!(one.sink, Sink::File(_)) || one.coupling == Coupling::Buffer {
        return refuse(format!(
            "--profile {profile} needs links that do not wait for each other (leave out --sink FILE and --coupling buffer)"
        ));
    }
    if nodes < 2 {
        return refuse(format!("--profile {profile} needs at least 2 hosts"));
    }
    Ok(())
}
