//! Resources that this process and this host used: CPU time, busy cores, free memory.

use nix::sys::resource::{Resource, UsageWho, getrlimit, getrusage};

use super::word_after;

/// CPU time that this process has used until now, in user mode and in the kernel, in nanoseconds.
pub(crate) fn own_cpu_ns() -> u64 {
    let Ok(usage) = getrusage(UsageWho::RUSAGE_SELF) else {
        return 0;
    };
    let ns = |time: nix::sys::time::TimeVal| {
        time.tv_sec().unsigned_abs() * 1_000_000_000 + time.tv_usec().unsigned_abs() * 1000
    };
    ns(usage.user_time()) + ns(usage.system_time())
}

/// Scheduler figures of another process of this host: its CPU time; the time it was ready to run but had no processor, because
/// others had the processors or its control group had used up its share, both in nanoseconds; and the number of times it got a
/// processor. Zeros if the process is gone.
pub(crate) fn scheduled(pid: i32) -> [u64; 3] {
    let text = std::fs::read_to_string(format!("/proc/{pid}/schedstat")).unwrap_or_default();
    let mut words = text.split_whitespace();
    [(); 3].map(|()| words.next().and_then(|word| word.parse().ok()).unwrap_or(0))
}

/// Time that this process was ready to run but had no processor. Repeated reads cost little.
#[derive(Debug)]
pub(crate) struct RunDelay {
    file: Option<std::fs::File>,
}

impl RunDelay {
    /// Opens the figures of this process.
    pub(crate) fn own() -> Self {
        Self {
            file: std::fs::File::open("/proc/self/schedstat").ok(),
        }
    }

    /// Run delay until now, in nanoseconds; zero where the kernel does not report it.
    pub(crate) fn ns(&self) -> u64 {
        use std::os::unix::fs::FileExt;
        let mut bytes = [0; 128];
        let file = self.file.as_ref();
        let read = file.and_then(|file| file.read_at(&mut bytes, 0).ok());
        let text = String::from_utf8_lossy(&bytes[..read.unwrap_or(0)]);
        let second = text.split_whitespace().nth(1).map(str::parse);
        second.and_then(Result::ok).unwrap_or(0)
    }
}

/// State and place of a process of this host: true if it runs or is ready to run, and the core it ran on last. The kernel counts
/// a wait for a processor when the wait ends, not before.
pub(crate) fn place_of(pid: i32) -> (bool, Option<usize>) {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    place_in(&text)
}

fn place_in(stat: &str) -> (bool, Option<usize>) {
    // The name is in brackets and can itself contain blanks and brackets. The state is the third word, the core the 39th (proc(5)).
    const CORE: usize = 39 - 3;
    let Some((_, rest)) = stat.rsplit_once(") ") else {
        return (false, None);
    };
    let words: Vec<&str> = rest.split_whitespace().collect();
    let core = words.get(CORE).and_then(|word| word.parse().ok());
    (words.first() == Some(&"R"), core)
}

/// Busy and total time of every core since boot, in clock ticks.
pub(crate) fn cores() -> Vec<CoreTime> {
    let text = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    text.lines().filter_map(parse_core).collect()
}

/// Clock ticks of one core since boot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CoreTime {
    /// Number of the core. Numbers of offline cores are missing.
    pub number: usize,
    /// Ticks that were neither idle nor a wait for a disk.
    pub busy: u64,
    /// All ticks.
    pub total: u64,
    /// Busy ticks in interrupts and the work that follows them, which is mostly packets.
    pub packets: u64,
}

fn parse_core(line: &str) -> Option<CoreTime> {
    let (name, rest) = line.split_once(' ')?;
    let number = name.strip_prefix("cpu")?.parse().ok()?;
    // user nice system idle iowait irq softirq steal; guest times are part of user.
    let ticks: Vec<u64> = rest
        .split_whitespace()
        .take(8)
        .map_while(|word| word.parse().ok())
        .collect();
    let total: u64 = ticks.iter().sum();
    let idle = ticks.get(3)? + ticks.get(4)?;
    Some(CoreTime {
        number,
        busy: total - idle,
        total,
        packets: ticks.iter().skip(5).take(2).sum(),
    })
}

/// Busy share of the busiest core between two readings, 0 to 1; `None` if no tick has passed.
pub(crate) fn busiest_core(before: &[CoreTime], after: &[CoreTime]) -> Option<f64> {
    before
        .iter()
        .zip(after)
        .filter(|(b, a)| a.total > b.total)
        .map(|(b, a)| a.busy.saturating_sub(b.busy) as f64 / (a.total - b.total) as f64)
        .reduce(f64::max)
}

/// The busiest core that served links between two readings: its busy share, 0 to 1, and the part of that share which went to
/// packets. A core served links if `seen` holds its place in the readings, because link processes ran there, or if it spent half
/// of its busy time on packets.
pub(crate) fn busiest_serving(
    before: &[CoreTime],
    after: &[CoreTime],
    seen: &[usize],
) -> Option<(f64, f64)> {
    let cores = before.iter().zip(after).enumerate();
    let passed = cores.filter(|(_, (b, a))| a.total > b.total);
    let shares = passed.filter_map(|(number, (b, a))| {
        let busy = a.busy.saturating_sub(b.busy) as f64;
        let packets = a.packets.saturating_sub(b.packets) as f64 / busy.max(1.0);
        let serves = seen.contains(&number) || packets >= 0.5;
        serves.then_some((busy / (a.total - b.total) as f64, packets.min(1.0)))
    });
    shares.max_by(|one, other| one.0.total_cmp(&other.0))
}

/// Memory that can be allocated without swapping, in bytes.
pub(crate) fn available_memory() -> Option<u64> {
    Some(memory_line("MemAvailable:")? * 1024)
}

/// Bytes of large pages that are reserved on this host and free.
pub(crate) fn free_reserved_bytes() -> u64 {
    let pages = memory_line("HugePages_Free:").unwrap_or(0);
    let taken = memory_line("HugePages_Rsvd:").unwrap_or(0);
    let page_kib = memory_line("Hugepagesize:").unwrap_or(0);
    pages.saturating_sub(taken) * page_kib * 1024
}

/// Number in a line of `/proc/meminfo`, in that line's unit.
fn memory_line(name: &str) -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    word_after(&text, name)?.parse().ok()
}

/// Bytes that storage devices read for this process. `None` if `wants` is false or the kernel does not report them.
pub(crate) fn fetched_bytes(wants: bool) -> Option<u64> {
    let text = wants.then(|| std::fs::read_to_string("/proc/self/io"))?;
    word_after(&text.ok()?, "read_bytes:")?.parse().ok()
}

/// Raises the number of descriptors that this process may open to the hard limit, which needs no privileges. Returns the limit.
pub(crate) fn raise_descriptor_limit() -> u64 {
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else {
        return 0;
    };
    match nix::sys::resource::setrlimit(Resource::RLIMIT_NOFILE, hard, hard) {
        Ok(()) => hard,
        Err(_) => soft,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_core_that_others_keep_busy_serves_no_links() {
        let core = |busy, packets| CoreTime {
            number: 0,
            busy,
            total: 100,
            packets,
        };
        let before = [core(0, 0); 3].map(|one| CoreTime { total: 0, ..one });
        // Other processes compute on the first core; the second core runs our processes; the third core handles only packets.
        let after = [core(100, 0), core(60, 10), core(97, 90)];
        let found = |seen: &[usize]| busiest_serving(&before, &after, seen).unwrap();
        assert_eq!(found(&[1]).0, 0.97);
        assert!(found(&[1]).1 > 0.9);
        assert_eq!(found(&[0, 1]), (1.0, 0.0));
        let quiet = [core(100, 0), core(60, 10), core(20, 5)];
        assert_eq!(busiest_serving(&before, &quiet, &[1]).unwrap().0, 0.6);
        assert_eq!(busiest_serving(&before, &quiet, &[]), None);
    }

    #[test]
    fn state_and_core_of_a_process_stand_behind_its_name() {
        let numbers: Vec<String> = (4..=52).map(|number| number.to_string()).collect();
        let text = format!("7 (a) b (c)) R {}", numbers.join(" "));
        assert_eq!(place_in(&text), (true, Some(39)));
        assert_eq!(place_in("7 (x) S 1 2"), (false, None));
        assert_eq!(place_in(""), (false, None));
        let (_, core) = place_of(i32::try_from(std::process::id()).unwrap());
        assert!(cores().iter().any(|one| Some(one.number) == core));
    }

    #[test]
    fn the_busiest_core_is_the_one_with_least_idle_time() {
        let before = [
            CoreTime {
                number: 0,
                busy: 10,
                total: 100,
                packets: 0,
            },
            CoreTime {
                number: 0,
                busy: 10,
                total: 100,
                packets: 0,
            },
        ];
        let after = [
            CoreTime {
                number: 0,
                busy: 60,
                total: 200,
                packets: 0,
            },
            CoreTime {
                number: 0,
                busy: 100,
                total: 200,
                packets: 0,
            },
        ];
        assert_eq!(busiest_core(&before, &after), Some(0.9));
        assert_eq!(busiest_core(&before, &before), None);
    }

    #[test]
    fn lines_of_the_kernel_are_understood() {
        assert_eq!(
            parse_core("cpu0 1 2 3 4 5 6 7 8 9 9"),
            Some(CoreTime {
                number: 0,
                busy: 27,
                total: 36,
                packets: 13
            })
        );
        assert_eq!(
            parse_core("cpu12 1 2 3 4 5 6 7 8").map(|core| core.number),
            Some(12)
        );
        assert_eq!(parse_core("cpu  1 2 3 4 5 6 7 8"), None);
    }

    #[test]
    fn this_process_has_used_cpu_and_this_host_has_cores() {
        assert!(!cores().is_empty());
        assert!(available_memory().is_some());
        assert!(raise_descriptor_limit() > 0);
    }
}
