//! The tests of a run: the planned ones without those that cannot run, and those that the judge asks for.

use crate::judge::view::View;
use crate::judge::{ask, verdict};
use crate::plan::{Bound, Pattern, Purpose, Test, lanes};
use crate::record::{Measured, Trouble, TroubleKind};
use crate::sys::clock;
use crate::units::{SECOND_NS, show_ns};

use super::events::RunEvent;
use super::run_state::RunState;
use super::sessions::Halt;

impl RunState<'_> {
    /// Asks the judge which suspects must be measured alone, and adds such tests to the plan. Returns true if it added any.
    pub(super) fn looks_again(&mut self) -> Result<bool, Halt> {
        /// Most retests; further ones show nothing new.
        const MOST_LOOKS: usize = 256;
        let looks = |test: &&Test| test.purpose == Purpose::Isolated;
        if self.plan.tests().iter().filter(looks).count() >= MOST_LOOKS {
            return Ok(false);
        }
        let measured = Measured::of(&self.plan.work, &self.outcome);
        let is_over = self.conditions.patience();
        let judged = verdict::judge_until(&self.plan, &self.hosts, measured, &is_over);
        let open = judged.ok_or_else(|| self.interrupted())?.open;
        let complete = self
            .outcome
            .tests()
            .iter()
            .filter(|test| test.complete)
            .count();
        if open == self.asked.0 && complete == self.asked.1 {
            return Ok(false); // The requests could not be measured, for example because a host is gone.
        }
        self.asked = (open.clone(), complete);
        let base = self.plan.tests().iter().find(|test| !looks(test)).cloned();
        let Some(base) = base.filter(|_| !open.is_empty()) else {
            return Ok(false);
        };
        let of = |request| ask::test_for(&self.plan, &self.hosts, &base, request);
        let tests = open.iter().map(of);
        let tests: Vec<Test> = tests
            .filter(|test| ask::may_tell(self.plan.tests(), test))
            .collect();
        if tests.is_empty() {
            return Ok(false);
        }
        let takes_ns: u64 = tests.iter().map(|test| self.takes_ns(test)).sum();
        let looks = match tests.len() {
            1 => "1 test".to_owned(),
            several => format!("{several} tests"),
        };
        let what = match open.iter().all(|request| request.again.is_some()) {
            true => "repeating tests unchanged",
            false => "retesting suspects in isolation",
        };
        if let Some(acceptance) = self.plan.acceptance_mut() {
            acceptance.tests.extend(tests);
        }
        self.sessions.log.notice(format!(
            "{what}: {looks}, about {}",
            show_ns(takes_ns.next_multiple_of(SECOND_NS))
        ));
        self.tell_notices();
        Ok(true)
    }

    /// Shows the estimated time of the planned tests, if all of them are bounded by time.
    pub(super) fn tell_estimate(&mut self) {
        let tests = match self.plan.tests().len() - self.first {
            0 => return,
            1 => "1 test".to_owned(),
            several => format!("{several} tests"),
        };
        let Some(takes_ns) = self.estimated_ns(self.first) else {
            return;
        };
        let limit = match self.plan.deadlines.run_ms {
            Some(ms) => format!("at most {}", show_ns(ms.saturating_mul(1_000_000))),
            None => "--max-time limits the total".to_owned(),
        };
        let notice = format!(
            "{tests}, about {}; retests, if needed, take longer ({limit})",
            show_ns(takes_ns.next_multiple_of(SECOND_NS))
        );
        self.observer.see(RunEvent::Notice(&notice));
    }

    /// Estimated time of the tests from number `first` on, in nanoseconds, if all of them are bounded by time.
    pub(super) fn estimated_ns(&self, first: usize) -> Option<u64> {
        let tests = self.plan.tests().get(first..)?;
        let is_timed = |test: &Test| matches!(test.bound, Bound::Time { .. });
        let takes_ns = tests.iter().map(|test| self.takes_ns(test));
        tests.iter().all(is_timed).then(|| takes_ns.sum())
    }

    /// Estimated time of a test in nanoseconds: its window plus the mean overhead of the tests so far.
    fn takes_ns(&self, test: &Test) -> u64 {
        /// Overhead of set-up and drain, as long as no test has ended.
        const USUAL_NS: u64 = 2 * SECOND_NS;
        let bound_ns = |test: &Test| test.bound.duration_ns().unwrap_or(0);
        let own = self.outcome.tests().iter().skip(self.first);
        let windows: u64 = own
            .clone()
            .filter_map(|record| self.plan.tests().get(record.test))
            .map(bound_ns)
            .sum();
        let passed = clock::monotonic_ns().saturating_sub(self.tests_began_ns);
        let beside = passed
            .saturating_sub(windows)
            .checked_div(own.count() as u64);
        bound_ns(test).saturating_add(beside.unwrap_or(USUAL_NS))
    }

    /// Message for a test that would end after the time limit of the run; `None` if it fits.
    pub(super) fn is_too_late(&self, number: usize) -> Option<String> {
        let limit_ns = self.plan.deadlines.run_ms?.saturating_mul(1_000_000);
        let passed = clock::monotonic_ns().saturating_sub(self.began_ns);
        let takes_ns = self.takes_ns(&self.plan.tests()[number]);
        (passed.saturating_add(takes_ns) > limit_ns).then(|| {
            format!(
                "--max-time {}: ended before test {} of {}, which takes about {}",
                show_ns(limit_ns),
                number + 1,
                self.plan.tests().len(),
                show_ns(takes_ns.next_multiple_of(SECOND_NS))
            )
        })
    }

    /// Removes the tests after number `first` that cannot run. The observers learn the plan without them: what is measured is known by the number
    /// of its test.
    pub(super) fn leave_out_impossible(&mut self, first: usize) -> Result<(), Halt> {
        let (mut number, mut ports) = (first + 1, None);
        while number < self.plan.tests().len() {
            if self.sessions.log.interrupted() {
                return Err(Halt::Noted);
            }
            if self.is_possible(number, &mut ports)? {
                number += 1;
            }
        }
        self.choose_ports(first).map(|_| ())
    }

    /// Sets the rate limits of a test's links, if it needs any. Returns false if the test cannot run; it is then removed from the plan. `ports` has
    /// the ports of the tests before it, if they are known: most tests use the same.
    pub(super) fn is_possible(
        &mut self,
        number: usize,
        ports: &mut Option<View>,
    ) -> Result<bool, Halt> {
        let test = &self.plan.tests()[number];
        let loss = test.purpose == Purpose::Loss;
        let hol = test.pattern == Pattern::Hol && test.sockets.rate_bits_per_s.is_none();
        if !test.paces.is_empty() || !(loss || hol) {
            return Ok(true);
        }
        if self.choose_ports(number)? {
            *ports = None;
        }
        let ports = ports.get_or_insert_with(|| View::unmeasured(&self.plan, &self.hosts));
        let test = &self.plan.tests()[number];
        match ask::paces(ports, &self.plan, &self.hosts, test) {
            Some(paces) => {
                self.plan.tests_mut()[number].paces = paces;
                Ok(true)
            }
            None if hol => {
                let what = "--pattern hol: the speed of the ports is unknown (give --link-speed)";
                Err(Trouble::own(TroubleKind::Usage, what).into())
            }
            None => {
                let what =
                    "no test for loss: the ceiling of the ports is unknown (give --link-speed)";
                self.sessions.log.notice(what.to_owned());
                self.tell_notices();
                if let Some(acceptance) = self.plan.acceptance_mut() {
                    acceptance.tests.remove(number);
                }
                Ok(false)
            }
        }
    }

    /// Removes the links of nodes that were lost in an earlier test.
    pub(super) fn leave_out_lost(&mut self, number: usize) -> Result<(), Halt> {
        let nodes = self.plan.nodes.len();
        if !(0..nodes).any(|node| self.sessions.is_lost(node)) {
            return Ok(());
        }
        let test = &mut self.plan.tests_mut()[number];
        let all = lanes::of_boundary(test, nodes, 0);
        let here = |lane: &lanes::Lane| {
            !self.sessions.is_lost(lane.from) && !self.sessions.is_lost(lane.to)
        };
        let mut left: Vec<(usize, usize)> = all
            .filter(here)
            .filter(|lane| !lane.is_own())
            .map(|lane| (lane.from, lane.to))
            .collect();
        left.dedup();
        let pattern = Pattern::Links(left);
        if let Err(error) = pattern.check(nodes, test.phases) {
            let number = number + 1;
            let what = format!("cannot continue test {number} without the lost nodes: {error}");
            return Err(Trouble::own(TroubleKind::Usage, what).into());
        }
        test.pattern = pattern;
        Ok(())
    }
}
