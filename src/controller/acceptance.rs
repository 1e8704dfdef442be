//! All tests of a run in sequence, and then the tests that the judge asks for.

use crate::record::{Trouble, TroubleKind};
use crate::sys::clock;

use super::assemble;
use super::run_state::RunState;
use super::sessions::Halt;

impl RunState<'_> {
    /// Runs the tests. Keeps what was measured even if a later test fails.
    pub(super) fn acceptance(&mut self) -> Result<(), Halt> {
        let mut number = self.first;
        if number > 0 {
            // The judge needs the ports that the taken-over tests used.
            self.choose_ports(number - 1)?;
        }
        self.tests_began_ns = clock::monotonic_ns();
        while number < self.plan.tests().len() || self.looks_again()? {
            if !self.is_possible(number, &mut None)? {
                continue;
            }
            if let Some(late) = self.is_too_late(number) {
                if self.outcome.tests().is_empty() {
                    return Err(Trouble::own(TroubleKind::Usage, late).into());
                }
                self.sessions.log.notice(late);
                self.tell_notices();
                return Ok(());
            }
            if let Err(halt) = self.one_test(number) {
                self.sessions.log.note(halt);
                // Everything measured so far belongs in the record. Of a test that hosts refused nothing was: another run has them, or memory is short.
                let is_refused = self.sessions.set_up_ns().is_none()
                    && self.sessions.log.are_all(TroubleKind::Resource);
                if self.sessions.has_begun() && !is_refused {
                    self.sessions.gather_reports();
                    let offsets = self.sessions.offsets();
                    if let Some(test) = assemble::test(self, number, &offsets, &offsets) {
                        self.keep(test);
                    }
                }
                return Err(Halt::Noted);
            }
            if !self.order.is_empty() {
                return Ok(()); // No data flows through ports with a wrong speed or MTU.
            }
            number += 1;
        }
        Ok(())
    }
}
