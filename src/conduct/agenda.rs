//! Which tests a run has: those that were planned, less what cannot run, and what the judge asks for; and the verdict of all.

use crate::judge::{ask, verdict};
use crate::plan::{Pattern, Purpose, Test, lanes};
use crate::record::{Trouble, TroubleKind, Verdict, VerdictWord};

use super::Running;
use super::crew::{Crew, Halt};

impl Running<'_> {
    /// Asks the judge whether suspects have to be measured by themselves, and adds such tests to the plan.
    pub(super) fn looks_again(&mut self, crew: &mut Crew) -> bool {
        /// More second looks than this tell nothing more.
        const MOST_LOOKS: usize = 256;
        let looks = |test: &&Test| test.purpose == Purpose::Isolated;
        if self.plan.tests.iter().filter(looks).count() >= MOST_LOOKS {
            return false;
        }
        let open = verdict::judge(&self.plan, &self.hosts, &self.tests).open;
        if open == self.asked {
            return false; // It was measured, and told nothing: a host may be gone.
        }
        self.asked.clone_from(&open);
        let base = self.plan.tests.iter().find(|test| !looks(test)).cloned();
        let Some(base) = base.filter(|_| !open.is_empty()) else {
            return false;
        };
        for request in &open {
            let test = ask::test_for(&self.plan, &self.hosts, &base, request);
            self.plan.tests.push(test);
        }
        let looks = match open.len() {
            1 => "1 measurement".to_owned(),
            several => format!("{several} measurements"),
        };
        crew.notice(&format!("suspects are measured by themselves: {looks}"));
        self.tell_notices(crew);
        true
    }

    /// Gives a test the rates that its links are held to, if it needs any. False if it cannot run, and was taken out of the plan.
    pub(super) fn is_possible(&mut self, crew: &mut Crew, number: usize) -> Result<bool, Halt> {
        let test = &self.plan.tests[number];
        let loss = test.purpose == Purpose::Loss;
        let hol = test.pattern == Pattern::Hol && test.sockets.rate_bits_per_s.is_none();
        if !test.paces.is_empty() || !(loss || hol) {
            return Ok(true);
        }
        self.choose_ports(crew, number)?;
        let test = &self.plan.tests[number];
        match ask::paces(&self.plan, &self.hosts, test) {
            Some(paces) => {
                self.plan.tests[number].paces = paces;
                Ok(true)
            }
            None if hol => {
                let what = "--pattern hol: what half of a port's rate is, is not known (give --link-speed)";
                Err(Halt::Trouble(Box::new(Trouble::own(
                    TroubleKind::Usage,
                    what,
                ))))
            }
            None => {
                crew.notice("losses are not looked for: what ports can carry is not known (give --link-speed)");
                self.tell_notices(crew);
                self.plan.tests.remove(number);
                Ok(false)
            }
        }
    }

    /// Who was lost in an earlier test has no links in this one.
    pub(super) fn leave_out_lost(&mut self, crew: &Crew, number: usize) -> Result<(), Halt> {
        let nodes = self.plan.nodes.len();
        if !(0..nodes).any(|node| crew.is_lost(node)) {
            return Ok(());
        }
        let test = &mut self.plan.tests[number];
        let all = lanes::of_boundary(test, nodes, 0);
        let here = |lane: &&lanes::Lane| !crew.is_lost(lane.from) && !crew.is_lost(lane.to);
        let mut left: Vec<(usize, usize)> = all
            .iter()
            .filter(here)
            .filter(|lane| !lane.is_own())
            .map(|lane| (lane.from, lane.to))
            .collect();
        left.dedup();
        let pattern = Pattern::Links(left);
        let runs = pattern.check(nodes, test.phases);
        if let Err(error) = runs {
            return Err(Halt::Trouble(Box::new(Trouble::own(
                TroubleKind::Usage,
                format!(
                    "cannot go on with test {} without lost nodes: {error}",
                    number + 1
                ),
            ))));
        }
        test.pattern = pattern;
        Ok(())
    }
}

/// The verdict of a run that something has broken.
pub(super) fn broken_by(first: &Trouble) -> Verdict {
    let node = if first.node.is_empty() {
        String::new()
    } else {
        format!("{}: ", first.node)
    };
    Verdict {
        word: VerdictWord::Invalid,
        reason: format!("{node}{}", first.text()),
    }
}

/// The verdict of a run whose ports are not as ordered.
pub(super) fn not_as_ordered(first: &str, findings: usize) -> Verdict {
    let more = match findings - 1 {
        0 => String::new(),
        more => format!("; and {more} more"),
    };
    Verdict {
        word: VerdictWord::Fail,
        reason: format!("{first}{more}"),
    }
}
