//! Failures and notices of a run, and the request to end it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::controller::events::{Observer, RunEvent};
use crate::record::{Missing, Trouble, TroubleKind};

/// Reason why a stage ended early.
pub(crate) enum Halt {
    /// A failure that is not yet in the list.
    Trouble(Box<Trouble>),
    /// The list already holds every failure.
    Noted,
}

impl From<Trouble> for Halt {
    fn from(trouble: Trouble) -> Self {
        Self::Trouble(Box::new(trouble))
    }
}

/// The failure of a run that a signal ended.
pub(crate) fn ended_by(signal: usize) -> Trouble {
    let number = i32::try_from(signal).ok();
    let name = number.and_then(|number| nix::sys::signal::Signal::try_from(number).ok());
    let name = name.map_or_else(|| format!("signal {signal}"), |name| name.to_string());
    Trouble::own(TroubleKind::Ended, format!("ended by {name}"))
}

/// Failures and notices so far.
#[derive(Default)]
pub(crate) struct Log {
    pub(crate) troubles: Vec<Trouble>,
    pub(super) notices: Vec<String>,
    /// Notices that the observers have not seen.
    pub(super) fresh: Vec<String>,
    /// Number of the signal that asked for the end; zero until then.
    pub(super) stop: Arc<AtomicUsize>,
}

impl Log {
    /// Adds a notice for the user and the record, unless it is already known.
    pub(crate) fn notice(&mut self, text: String) {
        if !self.notices.contains(&text) {
            self.fresh.push(text.clone());
            self.notices.push(text);
        }
    }

    /// Notes that the run continues without a node.
    pub(super) fn goes_on_without(&mut self, missing: &Missing) {
        self.notice(format!(
            "{}: the run continues without it: {}",
            missing.node, missing.what
        ));
    }

    /// Tells the observer the notices since the last call.
    pub(crate) fn tell(&mut self, observer: &mut dyn Observer) {
        for notice in std::mem::take(&mut self.fresh) {
            observer.see(RunEvent::Notice(&notice));
        }
    }

    /// Adds the failure that halted a stage to the list.
    pub(crate) fn note(&mut self, halt: Halt) {
        if let Halt::Trouble(trouble) = halt {
            self.troubles.push(*trouble);
        }
    }

    /// True if there are failures, all of this kind.
    pub(crate) fn are_all(&self, kind: TroubleKind) -> bool {
        !self.troubles.is_empty() && self.troubles.iter().all(|trouble| trouble.kind == kind)
    }

    /// True once the user or the system has asked for the end.
    pub(super) fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::SeqCst) != 0
    }

    /// True once the user or the system has asked for the end. Adds this to the failures once.
    pub(crate) fn interrupted(&mut self) -> bool {
        let signal = self.stop.load(Ordering::SeqCst);
        if signal == 0 {
            return false;
        }
        let ended =
            |trouble: &Trouble| trouble.kind == TroubleKind::Ended && trouble.node.is_empty();
        if !self.troubles.iter().any(ended) {
            self.troubles.push(ended_by(signal));
        }
        true
    }
}
