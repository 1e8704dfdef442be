//! What a run is measured by again when something was moved: the links that told of its faults, each alone.

use crate::plan::{Bound, Pattern, Purpose, Test};
use crate::record::{FaultKind, Record};

/// Longer than this need no link be looked at again.
const LONGEST_LOOK_NS: u64 = 10_000_000_000;

/// Tests for the faults of a run: every isolated measurement that spoke of one, as a test of its own; the run's own tests where an uplink is at
/// fault or nothing was measured alone. None if nothing was at fault.
pub fn tests(record: &Record) -> Option<Vec<Test>> {
    let sheet = &record.sheet;
    if sheet.faults.is_empty() {
        return None;
    }
    let own = record.plan.tests.iter();
    let own: Vec<Test> = own
        .filter(|test| test.purpose != Purpose::Isolated)
        .map(|test| Test {
            // What losses are looked for with is found anew.
            paces: match test.purpose {
                Purpose::Loss => Vec::new(),
                _ => test.paces.clone(),
            },
            ..test.clone()
        })
        .collect();
    let blocked = sheet
        .faults
        .iter()
        .any(|fault| fault.kind == FaultKind::HeadOfLine);
    let whole = blocked
        || sheet.faults.iter().any(|fault| {
            fault.culprit.is_uplink() || fault.culprit.is_shared() || fault.evidence.is_empty()
        });
    let base = own.first()?;
    if whole {
        return Some(own);
    }
    let node = |port: usize| sheet.ports.get(port).map(|port| port.node);
    let mut looks: Vec<(Purpose, usize, usize)> = Vec::new();
    for fault in &sheet.faults {
        let purpose = match fault.kind {
            FaultKind::Rate | FaultKind::HeadOfLine => Purpose::Load,
            FaultKind::Loss | FaultKind::Broken => Purpose::Loss,
        };
        for one in &fault.evidence {
            let look = (purpose, node(one.from)?, node(one.to)?);
            if !looks.contains(&look) {
                looks.push(look);
            }
        }
    }
    let test = |(purpose, from, to)| Test {
        pattern: Pattern::Links(vec![(from, to)]),
        phases: 2,
        purpose,
        paces: Vec::new(),
        bound: match base.bound {
            Bound::Time {
                warmup_ns,
                window_ns,
            } => Bound::Time {
                warmup_ns,
                window_ns: window_ns.min(LONGEST_LOOK_NS),
            },
            Bound::Volume { .. } | Bound::Files => Bound::Time {
                warmup_ns: 1_000_000_000,
                window_ns: LONGEST_LOOK_NS,
            },
        },
        ..base.clone()
    };
    Some(looks.into_iter().map(test).collect())
}
