//! All tests of a run in sequence, and then the tests that the judge asks for.

use crate::record::{Trouble, TroubleKind};
use crate::sys::clock;

use super::assemble;
use super::crew::{Crew, Halt};
use super::run_state::RunState;

impl RunState<'_> {
    /// Runs the tests. Keeps what was measured even if a later test fails.
    pub(super) fn acceptance(&mut self, crew: &mut Crew) -> Result<(), Halt> {
        let mut number = self.first;
        if number > 0 {
            // The judge needs the ports that the taken-over tests used.
            self.choose_ports(crew, number - 1)?;
        }
        self.tests_began_ns = clock::monotonic_ns();
        while number < self.plan.tests().len() || self.looks_again(crew) {
            if !self.is_possible(crew, number)? {
                continue;
            }
            if let Some(late) = self.is_too_late(number) {
                if self.outcome.tests().is_empty() {
                    return Err(Halt::Trouble(Box::new(Trouble::own(
                        TroubleKind::Usage,
                        late,
                    ))));
                }
                crew.notice(&late);
                self.tell_notices(crew);
                return Ok(());
            }
            let outcome = self.one_test(crew, number);
            if let Err(halt) = outcome {
                crew.note(halt);
                if crew.has_begun() {
                    // Everything measured so far belongs in the record.
                    crew.gather_reports();
                    let offsets = crew.offsets();
                    let test =
                        assemble::test(&self.plan, number, &self.hosts, crew, &offsets, &offsets);
                    self.keep(test);
                }
                return Err(Halt::Noted);
            }
            if !self.order.is_empty() {
                return Ok(()); // No data flows through ports that differ from what was ordered.
            }
            number += 1;
        }
        Ok(())
    }
}
