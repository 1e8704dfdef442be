//! Runs a target on changed inputs until its time is over or an input fails, and keeps the failing input.
//!
//! Stable Rust gives no coverage feedback without a special build. The target's outcome for an input replaces it:
//! an input with a new outcome is kept, and changed further. Each target runs in a watched thread, so that an input
//! that never returns is found, too.

use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, Once, PoisonError};
use std::time::{Duration, Instant};

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::time::{ClockId, clock_gettime};

use crate::mutator::{Random, mutate};

/// Checks an input, panics if a check fails, and returns the outcome in a few words.
pub type Target = fn(&[u8]) -> String;

/// CPU time limit for one input.
const SLOW: Duration = Duration::from_secs(1);
/// Time after which an input counts as hung. It is long, because a busy machine must not look like a hang.
const HUNG: Duration = Duration::from_secs(15);
/// Longest CPU time of an input that is kept and changed further.
const QUICK: Duration = Duration::from_millis(20);
/// Number of inputs kept in addition to the seeds.
const KEPT: usize = 500;
/// Memory limit of a run: an input that makes a parser ask for more ends the program.
const MEMORY_BYTES: u64 = 1 << 30;
/// Number of letters of an input, and of its outcome, that a message shows.
const SHOWN: usize = 500;
/// Limits on tries and time for making a failing input smaller.
const TRIES: usize = 4000;
const TRY_FOR: Duration = Duration::from_secs(10);

/// One run of a target.
#[derive(Clone)]
pub struct Campaign {
    pub name: String,
    pub target: Target,
    /// Words of the target's input language.
    pub words: &'static [&'static str],
    /// Inputs to begin with.
    pub seeds: Vec<Vec<u8>>,
    pub seed: u64,
    pub time: Duration,
    /// Folder that keeps failing inputs.
    pub artifacts: PathBuf,
    /// Time after which an input counts as hung.
    pub hung: Duration,
}

/// Figures of a run without failures.
#[derive(Debug)]
pub struct Tally {
    pub inputs: u64,
    pub outcomes: usize,
    pub seconds: f64,
}

/// An input that fails.
#[derive(Debug)]
pub struct Failure {
    /// Place and reason.
    pub why: String,
    pub input: Vec<u8>,
    /// Number of this input in the run, counted from 1.
    pub number: u64,
}

/// Runs a target as the test of the same name: with the time and seed from the environment, or on one stored input.
pub fn test(name: &str, target: Target, words: &'static [&'static str]) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz");
    let number = |variable: &str| -> Option<f64> {
        let text = std::env::var(variable).ok()?;
        Some(
            text.parse()
                .unwrap_or_else(|_| panic!("{variable}={text} is no number (write {variable}=60)")),
        )
    };
    let seconds = number("PIPEBENCH_FUZZ_SECONDS");
    let seed = std::env::var("PIPEBENCH_FUZZ_SEED").ok();
    let seed = seed.map(|text| text.parse().expect("PIPEBENCH_FUZZ_SEED is no number"));
    let now = std::time::UNIX_EPOCH.elapsed().unwrap_or_default();
    let fallback = if seconds.is_some() { now.as_secs() } else { 1 };
    let mut campaign = Campaign {
        name: name.to_owned(),
        target,
        words,
        seeds: stored(&folder.join("corpus").join(name)),
        seed: seed.unwrap_or(fallback),
        time: Duration::from_secs_f64(seconds.unwrap_or(2.0)),
        artifacts: folder.join("artifacts"),
        hung: HUNG,
    };
    if let Ok(path) = std::env::var("PIPEBENCH_FUZZ_REPLAY") {
        campaign.seeds = vec![fs::read(&path).unwrap_or_else(|error| panic!("{path}: {error}"))];
        campaign.time = Duration::ZERO;
    }
    assert!(!campaign.seeds.is_empty(), "no seeds in fuzz/corpus/{name}");
    match campaign.run() {
        Ok(tally) => eprintln!(
            "fuzz {name}: {} inputs in {:.1} s ({:.0} per second), {} outcomes, seed {}",
            tally.inputs,
            tally.seconds,
            tally.inputs as f64 / tally.seconds.max(1e-9),
            tally.outcomes,
            campaign.seed
        ),
        Err(failure) => panic!("{}", campaign.keep(&failure)),
    }
}

/// All inputs of a folder, sorted by file name.
pub fn stored(folder: &Path) -> Vec<Vec<u8>> {
    let Ok(entries) = fs::read_dir(folder) else {
        return Vec::new();
    };
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    paths
        .iter()
        .map(|path| fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display())))
        .collect()
}

impl Campaign {
    /// Runs in a separate thread and watches it.
    pub fn run(&self) -> Result<Tally, Failure> {
        bound_memory();
        let under_way = Arc::new(Mutex::new((0, Vec::new())));
        let (sender, receiver) = channel();
        let (campaign, shared) = (self.clone(), Arc::clone(&under_way));
        let worker = std::thread::spawn(move || {
            let result = campaign.work(&shared);
            drop(sender.send(result));
        });
        let mut seen = (0, Instant::now());
        loop {
            match receiver.recv_timeout(Duration::from_millis(50)) {
                Ok(result) => {
                    drop(worker.join());
                    return result;
                }
                Err(RecvTimeoutError::Disconnected) => {
                    panic!("fuzz {}: the driver itself has failed", self.name)
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
            let current = under_way.lock().unwrap_or_else(PoisonError::into_inner);
            if current.0 != seen.0 {
                seen = (current.0, Instant::now());
            } else if seen.1.elapsed() > self.hung {
                // The thread keeps running; the program ends soon.
                return Err(Failure {
                    why: format!("it did not come back within {:?}", self.hung),
                    input: current.1.clone(),
                    number: current.0,
                });
            }
        }
    }

    fn work(&self, under_way: &Mutex<(u64, Vec<u8>)>) -> Result<Tally, Failure> {
        let mut random = Random::new(self.seed);
        let mut corpus: Vec<Vec<u8>> = Vec::new();
        let mut heard = HashSet::new();
        let running = Running::create(&self.artifacts, &self.name);
        let begun = Instant::now();
        let mut number = 0;
        let mut waiting = self.seeds.iter();
        loop {
            let seed = waiting.next();
            let input = match seed {
                Some(seed) => seed.clone(),
                None if begun.elapsed() >= self.time => break,
                None => {
                    let one = self.choose(&mut random, &corpus);
                    let two = self.choose(&mut random, &corpus);
                    mutate(&mut random, one, two, self.words)
                }
            };
            number += 1;
            {
                let mut current = under_way.lock().unwrap_or_else(PoisonError::into_inner);
                current.0 = number;
                current.1.clone_from(&input);
            }
            running.note(&input);
            match once(self.target, &input) {
                // The format has changed since the seed was stored. Every input derived from it would fail here, too. From an input that
                // is replayed none are derived.
                Ok((outcome, _)) if seed.is_some() && !self.time.is_zero() && is_old(&outcome) => {
                    running.remove();
                    return Err(Failure {
                        why: format!("a seed is old: {outcome}"),
                        input,
                        number,
                    });
                }
                Ok((outcome, took)) => {
                    let fresh = heard.insert(fingerprint(&outcome));
                    if seed.is_some() {
                        corpus.push(input);
                    } else if fresh && took < QUICK {
                        if corpus.len() < self.seeds.len() + KEPT {
                            corpus.push(input);
                        } else {
                            let at = self.seeds.len() + random.below(KEPT);
                            corpus[at] = input;
                        }
                    }
                }
                Err(why) => {
                    let input = self.smaller(input, &why, under_way);
                    running.remove();
                    return Err(Failure { why, input, number });
                }
            }
        }
        running.remove();
        Ok(Tally {
            inputs: number,
            outcomes: heard.len(),
            seconds: begun.elapsed().as_secs_f64(),
        })
    }

    /// Chooses an input. Half of the choices take a seed, the first entries of the corpus: most later inputs are half broken.
    fn choose<'a>(&self, random: &mut Random, corpus: &'a [Vec<u8>]) -> &'a [u8] {
        let seeds = self.seeds.len();
        let all = if random.below(2) == 0 {
            seeds
        } else {
            corpus.len()
        };
        &corpus[random.below(all)]
    }

    /// Removes pieces, large ones first, as long as the input fails in the same way.
    fn smaller(&self, mut input: Vec<u8>, why: &str, under_way: &Mutex<(u64, Vec<u8>)>) -> Vec<u8> {
        let begun = Instant::now();
        let mut tries = 0;
        let mut piece = input.len() / 2;
        while piece > 0 {
            let mut at = 0;
            while at < input.len() {
                if tries >= TRIES || begun.elapsed() > TRY_FOR {
                    return input;
                }
                tries += 1;
                let mut shorter = input.clone();
                shorter.drain(at..(at + piece).min(input.len()));
                {
                    let mut current = under_way.lock().unwrap_or_else(PoisonError::into_inner);
                    current.0 += 1;
                    current.1.clone_from(&shorter);
                }
                match once(self.target, &shorter) {
                    Err(reason) if fingerprint(&reason) == fingerprint(why) => input = shorter,
                    _ => at += piece,
                }
            }
            piece /= 2;
        }
        input
    }

    /// Writes a failing input to a file, and returns a message with all facts about it.
    pub fn keep(&self, failure: &Failure) -> String {
        let mut hash = 0xcbf2_9ce4_8422_2325_u64;
        for byte in &failure.input {
            hash = (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
        }
        let path = self.artifacts.join(format!("{}-{hash:016x}", self.name));
        let kept = fs::create_dir_all(&self.artifacts)
            .and_then(|()| fs::write(&path, &failure.input))
            .map_or_else(|error| format!(" (not kept: {error})"), |()| String::new());
        let shown: String = failure
            .input
            .escape_ascii()
            .take(SHOWN)
            .map(char::from)
            .collect();
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let path = path.strip_prefix(root).unwrap_or(&path).display();
        format!(
            "fuzz {name}: input {} of seed {} fails: {}\n  input of {} bytes: {shown}\n  \
             replay: PIPEBENCH_FUZZ_REPLAY={path} cargo test --test fuzz -- {name}{kept}",
            failure.number,
            self.seed,
            failure.why,
            failure.input.len(),
            name = self.name,
        )
    }
}

/// True if every reader rejects a seed because of a missing field or an unknown variant: readers understood it once.
fn is_old(outcome: &str) -> bool {
    let unknown = |part: &str| {
        ["missing field", "unknown variant"]
            .iter()
            .any(|words| part.contains(words))
    };
    outcome.contains("missing field") && outcome.split("; ").all(unknown)
}

/// The current input, in a file: it stays there if the input ends the whole program.
struct Running {
    path: PathBuf,
    file: Option<File>,
}

impl Running {
    fn create(folder: &Path, name: &str) -> Self {
        let path = folder.join(format!("{name}.running"));
        let made = fs::create_dir_all(folder).and_then(|()| File::create(&path));
        Self {
            path,
            file: made.ok(),
        }
    }

    fn note(&self, input: &[u8]) {
        if let Some(file) = &self.file {
            // A failure here loses nothing but this file.
            drop(file.write_all_at(input, 0));
            drop(file.set_len(input.len() as u64));
        }
    }

    fn remove(self) {
        drop(fs::remove_file(self.path));
    }
}

/// Runs one input: returns its outcome and the CPU time it took, or the reason for its failure.
fn once(target: Target, input: &[u8]) -> Result<(String, Duration), String> {
    hush();
    let begun = cpu_time();
    QUIET.set(true);
    let result = panic::catch_unwind(AssertUnwindSafe(|| target(input)));
    QUIET.set(false);
    let took = cpu_time().saturating_sub(begun);
    let outcome = result.map_err(|_| CAUGHT.take())?;
    if took > SLOW {
        return Err(format!("it takes {took:.1?} of CPU time"));
    }
    Ok((outcome, took))
}

fn cpu_time() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID)
        .map(Duration::from)
        .unwrap_or_default()
}

thread_local! {
    /// True while a panic of this thread is kept in `CAUGHT` instead of printed.
    static QUIET: Cell<bool> = const { Cell::new(false) };
    static CAUGHT: RefCell<String> = const { RefCell::new(String::new()) };
}

fn hush() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let usual = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if !QUIET.get() {
                return usual(info);
            }
            let text = info.payload_as_str().unwrap_or("a panic without words");
            let text: String = text.chars().take(SHOWN).collect();
            let place = info.location().map(ToString::to_string);
            CAUGHT.set(format!("{}: {text}", place.unwrap_or_default()));
        }));
    });
}

/// Limits the data segment of this program to [`MEMORY_BYTES`].
fn bound_memory() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let Ok((_, hard)) = getrlimit(Resource::RLIMIT_DATA) else {
            return;
        };
        let bounded = setrlimit(Resource::RLIMIT_DATA, MEMORY_BYTES.min(hard), hard);
        assert!(bounded.is_ok(), "cannot bound the memory of this program");
    });
}

/// An outcome without its variable parts: numbers, and text in quotes. The name of a field that JSON lacks stays, because
/// only a few such names exist.
fn fingerprint(outcome: &str) -> String {
    const LENGTH: usize = 200;
    let mut kept = String::new();
    let mut quote = None;
    let mut escaped = false;
    for letter in outcome.chars() {
        match quote {
            Some(_) if escaped => escaped = false,
            Some(_) if letter == '\\' => escaped = true,
            Some(end) if letter == end => quote = None,
            Some(_) => {}
            None if letter == '`' && kept.ends_with("missing field ") => {}
            None if matches!(letter, '"' | '\'' | '`') => quote = Some(letter),
            None if letter.is_ascii_digit() => {}
            None => kept.push(letter),
        }
        if kept.len() > LENGTH {
            break;
        }
    }
    kept
}

/// The magnitude of a number as a letter, for outcomes: fingerprints drop digits.
pub fn magnitude(number: usize) -> char {
    let bits = usize::BITS - number.leading_zeros();
    char::from(b'a' + u8::try_from(bits.min(25)).unwrap_or(25))
}
