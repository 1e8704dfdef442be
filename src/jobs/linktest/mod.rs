//! The link test: LinkTest's schedules and kernels, without MPI.
//!
//! Read next: [`schedule`] for the pairs of each step, [`kernel`] for what is timed, [`Tester`] for a rank's part in a round.

pub(crate) mod buffers;
pub(crate) mod kernel;
pub mod schedule;
mod tester;

pub(crate) use tester::{Tester, TesterError};

use crate::plan::job::Round;
use crate::plan::linktest::Linktest;

use schedule::Step;

/// Steps of a round. A round of single links has one step for each link.
pub(crate) fn steps(linktest: &Linktest, round: &Round) -> Vec<Step> {
    let (order, step_seed) = match round {
        Round::Whole { order, step_seed } => (order, step_seed),
        Round::Alone { links, .. } => return links.iter().map(|link| vec![*link]).collect(),
        Round::Steps { steps, .. } => return steps.clone(),
        Round::AllToAll | Round::Table(_) => return Vec::new(),
    };
    let steps = if linktest.bisection {
        schedule::bisection(order)
    } else {
        schedule::parallel(order)
    };
    let steps = match step_seed {
        Some(seed) => schedule::shuffled(steps, *seed),
        None => steps,
    };
    if linktest.serial {
        schedule::serial(steps)
    } else {
        steps
    }
}
