//! Results of this program's link test, in the form in which LinkTest would write them.

use crate::plan::linktest::{Kernel, Linktest};
use crate::record::{LinktestRecord, PairTime, RankRecord, Record, RetestRecord, RoundRecord};
use crate::units::show_utc;

use super::layout::{DataSet, Header, LinktestFile, RankData, RankSet, Retest};

/// LinkTest version whose layout is written.
const VERSION: [u32; 3] = [2, 1, 16];
const HASH_DIGITS: usize = 40;

/// Makes one file for each complete iteration of a link test; each file holds a set for every order of the ranks. Returns no files if
/// nothing was measured completely.
pub fn files(record: &Record, plan: &Linktest, job: &LinktestRecord) -> Vec<LinktestFile> {
    let links = expected(plan, job.ranks.len());
    let whole = job.rounds.iter();
    let whole: Vec<&RoundRecord> = whole.filter(|one| one.times.len() == links).collect();
    let sets = usize::try_from(plan.rank_orders.max(1)).unwrap_or(1);
    let rank = |rank: &RankRecord| RankData {
        host: rank.host.clone(),
        core: i32::try_from(rank.processor).unwrap_or(0),
    };
    let of = |rounds: &[&RoundRecord]| {
        // All sets of a file have equally many retests, and all or none have times from all to all. For an aborted run, only what all
        // sets have is kept.
        let retests = rounds.iter().map(|round| round.retests.len()).min();
        let all = rounds.iter().all(|round| round.all_to_all_s.is_some());
        let set = |round: &&RoundRecord| set(job, round, all, retests.unwrap_or(0));
        LinktestFile {
            header: header(record, plan, all),
            ranks: job.ranks.iter().map(rank).collect(),
            sets: rounds.iter().map(set).collect(),
        }
    };
    // An iteration that was cut off has fewer sets than its header would state.
    let iterations = whole.chunk_by(|one, other| one.iteration == other.iteration);
    let complete = iterations.filter(|rounds| rounds.len() == sets);
    complete.map(of).collect()
}

fn expected(plan: &Linktest, ranks: usize) -> usize {
    match plan.bisection {
        true => 2 * (ranks / 2) * ranks.div_ceil(2),
        false => ranks * ranks.saturating_sub(1),
    }
}

fn header(record: &Record, plan: &Linktest, all_to_all: bool) -> Header {
    let count = |number: usize| number as u64;
    Header {
        version: VERSION,
        // A commit is 40 digits. The field is empty if the program does not know its own commit.
        git_hash: commit(&record.tool_commit),
        mode: match plan.ranks.transport.crosses_hosts() {
            true => "tcp".to_owned(),
            false => "unix".to_owned(),
        },
        all_to_all,
        bidirectional: plan.kernel == Kernel::Bidirectional,
        unidirectional: plan.kernel == Kernel::Unidirectional,
        bisection: plan.bisection,
        messages: count(plan.messages),
        message_bytes: count(plan.message_bytes),
        warmups: count(plan.warmups),
        buffers: match plan.buffers {
            ..=1 => 0,
            several => count(several),
        },
        buffer_seed: plan.content_seed,
        rank_orders: plan.rank_orders,
        rank_seed: plan.rank_seed,
        ..Header::default()
    }
}

/// The digits of a commit, or an empty text if this is not one.
fn commit(text: &str) -> String {
    let digits: String = text.chars().take(HASH_DIGITS).collect();
    let is_commit =
        digits.len() == HASH_DIGITS && digits.chars().all(|one| one.is_ascii_hexdigit());
    if is_commit { digits } else { String::new() }
}

fn set(job: &LinktestRecord, round: &RoundRecord, all_to_all: bool, retests: usize) -> DataSet {
    let ranks = job.ranks.len();
    let mut own: Vec<Vec<&PairTime>> = vec![Vec::new(); ranks];
    for time in &round.times {
        own[time.from].push(time);
    }
    let extent = |seconds: &mut dyn Iterator<Item = f64>| {
        let (mut least, mut most, mut sum, mut count) = (f64::INFINITY, 0.0_f64, 0.0, 0.0);
        for one in seconds {
            (least, most) = (least.min(one), most.max(one));
            (sum, count) = (sum + one, count + 1.0);
        }
        [least, sum / count, most]
    };
    let [least_s, mean_s, most_s] = extent(&mut round.times.iter().map(|time| time.seconds));
    let all = round.all_to_all_s.as_ref();
    let rank_set = |(rank, mut times): (usize, Vec<&PairTime>)| {
        times.sort_by_key(|time| time.step);
        let mut set = RankSet {
            times_s: times.iter().map(|time| time.seconds).collect(),
            access: times.iter().map(|time| time.to as u64).collect(),
            all_to_all_s: match all_to_all {
                true => vec![all.and_then(|all| all.get(rank).copied()).unwrap_or(0.0)],
                false => Vec::new(),
            },
        };
        // Links that a bisection leaves out have no time and name the rank itself.
        set.times_s.resize(ranks - 1, 0.0);
        set.access.resize(ranks - 1, rank as u64);
        set
    };
    let retest = |one: &RetestRecord| Retest {
        from: one.from as u64,
        to: one.to as u64,
        new_s: one.new_s,
        old_s: one.old_s,
    };
    DataSet {
        started: show_utc(round.started_ms),
        ended: show_utc(round.ended_ms),
        least_s,
        mean_s,
        most_s,
        all_to_all_s: all
            .filter(|_| all_to_all)
            .map(|all| extent(&mut all.iter().copied())),
        ranks: own.into_iter().enumerate().map(rank_set).collect(),
        retests: round.retests.iter().take(retests).map(retest).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_of_a_file_is_that_of_the_commit_and_nothing_else() {
        let hash = "0123456789abcdef0123456789abcdef01234567";
        assert_eq!(commit(hash), hash);
        assert_eq!(commit(&format!("{hash}-modified")), hash);
        assert_eq!(commit("unknown"), "");
        assert_eq!(commit(""), "");
    }
}
