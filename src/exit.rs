//! Exit codes: stable, documented in `--help` and docs, defined only here.

use crate::record::{Trouble, TroubleKind, VerdictWord};

/// Passed, or not judged.
pub(crate) const OK: u8 = 0;
/// Measured, and the verdict is FAIL.
pub(crate) const FAIL: u8 = 1;
/// Bad usage or plan.
pub(crate) const USAGE: u8 = 2;
/// Measured, but neither passed nor failed: UNDECIDED or HOST-LIMITED.
pub(crate) const UNDECIDED: u8 = 3;
/// A host is unreachable, or the start failed.
pub(crate) const UNREACHABLE: u8 = 10;
/// Another version answered.
pub(crate) const VERSION: u8 = 11;
/// A port, memory, process or descriptor could not be obtained.
pub(crate) const RESOURCE: u8 = 12;
/// Bytes differ, or a peer was lost or timed out.
pub(crate) const INVALID: u8 = 20;
/// A result could not be written.
pub(crate) const NOT_WRITTEN: u8 = 30;
/// A defect of pipebench.
pub(crate) const BUG: u8 = 70;

/// Exit code of a run that a signal ended: 128 plus the signal's number.
pub(crate) fn by_signal(signal: i32) -> u8 {
    u8::try_from(128 + signal).unwrap_or(255)
}

/// Exit code of a run with these troubles, causes first. `signal` is the signal that asked the launching side to end.
pub(crate) fn of(troubles: &[Trouble], signal: Option<i32>) -> u8 {
    let Some(first) = troubles.first() else {
        return OK;
    };
    if let (Some(signal), TroubleKind::Ended, true) = (signal, first.kind, first.node.is_empty()) {
        return by_signal(signal);
    }
    match first.kind {
        TroubleKind::Usage => USAGE,
        TroubleKind::Version => VERSION,
        TroubleKind::Start | TroubleKind::Connect => UNREACHABLE,
        TroubleKind::Resource => RESOURCE,
        TroubleKind::Bug => BUG,
        TroubleKind::Killed
        | TroubleKind::Ended
        | TroubleKind::Invalid
        | TroubleKind::Deadline
        | TroubleKind::Lost
        | TroubleKind::Peer => INVALID,
    }
}

/// Exit code of a run that ended with this verdict.
pub(crate) fn of_verdict(word: VerdictWord) -> u8 {
    match word {
        VerdictWord::Pass | VerdictWord::NotJudged => OK,
        VerdictWord::Fail => FAIL,
        VerdictWord::Undecided | VerdictWord::HostLimited => UNDECIDED,
        VerdictWord::Invalid => INVALID,
    }
}

/// Section of `--help` about exit codes.
pub(crate) const HELP: &str = "\
EXIT CODES
  0   passed, or not judged          12  port, memory, process or limit missing
  1   measured, verdict FAIL         20  run invalid, or a peer was lost or timed out
  2   bad usage or plan              30  a result could not be written
  3   UNDECIDED or HOST-LIMITED      70  a defect of pipebench
  10  host unreachable, start failed 128+n  ended by signal n
  11  another version answered";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_has_its_code() {
        let words = [
            VerdictWord::Pass,
            VerdictWord::NotJudged,
            VerdictWord::Fail,
            VerdictWord::Undecided,
            VerdictWord::HostLimited,
            VerdictWord::Invalid,
        ];
        assert_eq!(words.map(of_verdict), [0, 0, 1, 3, 3, 20]);
    }

    #[test]
    fn the_first_cause_decides() {
        let of_kind = |kind| Trouble::own(kind, "x");
        assert_eq!(of(&[], None), OK);
        assert_eq!(
            of(
                &[of_kind(TroubleKind::Start), of_kind(TroubleKind::Peer)],
                None
            ),
            UNREACHABLE
        );
        assert_eq!(of(&[of_kind(TroubleKind::Ended)], Some(2)), 130);
        assert_eq!(of(&[of_kind(TroubleKind::Lost)], Some(2)), INVALID);
        let node = Trouble {
            node: "n1".into(),
            ..of_kind(TroubleKind::Ended)
        };
        assert_eq!(of(&[node], Some(15)), INVALID);
    }
}
