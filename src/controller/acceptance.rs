//! All tests of a run in sequence, and then the tests that the judge asks for.

use crate::record::{Trouble, TroubleKind};
use crate::sys::clock;

use super::assemble;
use super::run_state::RunState;
use super::sessions::{Halt, Sessions};

impl RunState<'_> {
    /// Runs the tests. Keeps what was measured even if a later test fails.
    pub(super) fn acceptance(&mut self, sessions: &mut Sessions) -> Result<(), Halt> {
        let mut number = self.first;
        if number > 0 {
            // The judge needs the ports that the taken-over tests used.
            self.choose_ports(sessions, number - 1)?;
        }
        self.tests_began_ns = clock::monotonic_ns();
        while number < self.plan.tests().len() || self.looks_again(sessions) {
            if !self.is_possible(sessions, number)? {
                continue;
            }
            if let Some(late) = self.is_too_late(number) {
                if self.outcome.tests().is_empty() {
                    return Err(Halt::Trouble(Box::new(Trouble::own(
                        TroubleKind::Usage,
                        late,
                    ))));
                }
                sessions.notice(&late);
                self.tell_notices(sessions);
                return Ok(());
            }
            let outcome = self.one_test(sessions, number);
            if let Err(halt) = outcome {
                sessions.note(halt);
                if sessions.has_begun() {
                    // Everything measured so far belongs in the record.
                    sessions.gather_reports();
                    let offsets = sessions.offsets();
                    let test = assemble::test(
                        &self.plan,
                        number,
                        &self.hosts,
                        sessions,
                        &offsets,
                        &offsets,
                    );
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
