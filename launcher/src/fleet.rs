//! A fleet: one session per host, each in its own thread. A gate bounds how many start at once.
//!
//! Duty: threads and their end. Read next: `attempt.rs` for the work of a thread for its host.

use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nix::sys::signal::{SigSet, Signal};

use crate::attempt::launch;
use crate::error::{LaunchError, Stage};
use crate::event::{Event, Tickets};
use crate::gate::Gate;
use crate::hosts::Host;
use crate::join::JoinPort;
use crate::join::port::Seat;
use crate::join::starter;
use crate::plan::Plan;
use crate::program::Program;
use crate::session::line::Line;
use crate::session::report::Report;
use crate::settings::Settings;

/// The sessions of all hosts. Dropping the fleet aborts them. [`Fleet::finish`] ends them cleanly
/// and waits.
pub struct Fleet {
    /// `None` if the host's event descriptor could not be made; that host has failed.
    lines: Vec<Option<Arc<Line>>>,
    gate: Arc<Gate>,
    threads: Arc<Mutex<Vec<JoinHandle<()>>>>,
    coordinator: Option<JoinHandle<()>>,
    join: Option<Arc<JoinPort>>,
    /// The starter's line: it ends and is aborted as a session is.
    starter: Option<Arc<Line>>,
}

/// Starts `program` on every host and returns at once.
///
/// Events carry the host's position in `hosts`. Each host's stream ends with exactly one of
/// [`Event::Ended`] and [`Event::Failed`]. Secrets are asked for first, once for all hosts. An [`Event::Notice`] at the
/// position `hosts.len()` concerns no single host: it comes from the starter, or from the port at which nodes join.
pub fn start(
    hosts: &[Host],
    settings: Settings,
    program: Program,
    events: Sender<(usize, Event)>,
) -> Fleet {
    allow_descriptors(hosts.len());
    let gate = Gate::new(settings.fanout);
    let threads = Arc::new(Mutex::new(Vec::with_capacity(hosts.len())));
    let mut lines = Vec::with_capacity(hosts.len());
    let mut jobs = Vec::with_capacity(hosts.len());
    for (at, host) in hosts.iter().enumerate() {
        let line = Line::new().map(Arc::new);
        lines.push(line.as_ref().ok().cloned());
        match line {
            Ok(line) => {
                let tickets = Tickets::among(hosts.len());
                let report = Report::new(at, events.clone(), tickets, Arc::clone(&line));
                let host = host.clone();
                jobs.push(Job {
                    host,
                    line,
                    report,
                    seat: None,
                });
            }
            Err(error) => {
                let error = start_error(&format!("cannot make an event descriptor: {error}"));
                // A receiver that no longer exists needs no events.
                drop(events.send((at, Event::Failed(error))));
            }
        }
    }
    let join = settings.join.clone();
    if let Some(port) = &join {
        seat(&mut jobs, port, &events, hosts.len());
    }
    let starter = settings.starter.clone().zip(join.clone());
    let within = settings.deadlines.connect;
    let starter = starter.and_then(|(starter, port)| {
        let notices = (events.clone(), hosts.len());
        let (line, thread) = starter::start(starter, &program.path, port, within, notices)?;
        threads
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(thread);
        Some(line)
    });
    let mut fleet = Fleet {
        lines,
        gate: Arc::clone(&gate),
        threads: Arc::clone(&threads),
        coordinator: None,
        join,
        starter,
    };
    let coordinate = move || {
        let hosts: Vec<&Host> = jobs.iter().map(|job| &job.host).collect();
        let plan = Arc::new(Plan::prepare(&hosts, settings, program));
        for job in jobs {
            job.spawn(&plan, &gate, &threads);
        }
    };
    // If this thread cannot start, no session can. The jobs are then dropped, and each dropped report
    // sends a failure.
    fleet.coordinator = std::thread::Builder::new()
        .name("launch".to_owned())
        .spawn(coordinate)
        .ok();
    fleet
}

/// Gives each host that is not local a seat at the port.
fn seat(jobs: &mut [Job], port: &JoinPort, events: &Sender<(usize, Event)>, position: usize) {
    let mut joining: Vec<&mut Job> = jobs.iter_mut().filter(|job| !job.host.local).collect();
    let places = joining.iter();
    let places = places.map(|job| (job.host.name.clone(), Arc::clone(&job.line)));
    let seats = port.seats(places.collect(), events.clone(), position);
    for (job, seat) in joining.iter_mut().zip(seats) {
        job.seat = Some(seat);
    }
}

impl Fleet {
    /// Queues bytes for the program's standard input; never blocks. Returns false if the session is
    /// closed or the queue would exceed 64 MiB. Bytes queued before the program is up are sent once it
    /// is up.
    pub fn send(&self, host: usize, bytes: &[u8]) -> bool {
        self.line(host).is_some_and(|line| line.send(bytes))
    }

    /// Closes the program's standard input once all queued bytes are sent.
    pub fn hang_up(&self, host: usize) {
        if let Some(line) = self.line(host) {
            line.hang_up();
        }
    }

    /// Drops the session at once and kills its process group on this machine.
    pub fn abort(&self, host: usize) {
        if let Some(line) = self.line(host) {
            line.abort();
            self.gate.look();
        }
    }

    /// Hangs up on every host, waits up to `deadline` for the sessions and the starter to end, aborts the rest, and
    /// joins all threads.
    pub fn finish(mut self, deadline: Duration) {
        let until = Instant::now() + deadline;
        self.all_lines().for_each(|line| line.hang_up());
        for line in self.all_lines() {
            if !line.wait_for_end(until) {
                break;
            }
        }
        self.abort_all();
        let until = Instant::now() + JOIN_DEADLINE;
        if let Some(coordinator) = self.coordinator.take() {
            join(coordinator, until);
        }
        let threads =
            std::mem::take(&mut *self.threads.lock().unwrap_or_else(PoisonError::into_inner));
        threads.into_iter().for_each(|thread| join(thread, until));
    }

    fn abort_all(&self) {
        self.gate.shut();
        self.all_lines().for_each(|line| line.abort());
        if let Some(port) = &self.join {
            port.close();
        }
    }

    /// The lines of all hosts, and the starter's, which ends after them.
    fn all_lines(&self) -> impl Iterator<Item = &Arc<Line>> {
        self.lines.iter().flatten().chain(&self.starter)
    }

    fn line(&self, host: usize) -> Option<&Line> {
        self.lines.get(host)?.as_deref()
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        self.abort_all();
    }
}

/// Joins a thread, or gives up at `until`. A thread that panicked has printed the panic, and its
/// host has had its last event, so nothing is left to do. An SSH agent that waits for a person can
/// hold up a thread; such a thread no longer holds anything of ours.
fn join(thread: JoinHandle<()>, until: Instant) {
    while !thread.is_finished() {
        if Instant::now() >= until {
            return;
        }
        std::thread::sleep(JOIN_TICK);
    }
    drop(thread.join());
}

/// Limit for all threads together. Aborted sessions end within milliseconds, and killed processes
/// are reaped within two seconds.
const JOIN_DEADLINE: Duration = Duration::from_secs(5);
const JOIN_TICK: Duration = Duration::from_millis(1);

/// The input of one session thread.
struct Job {
    host: Host,
    line: Arc<Line>,
    report: Report,
    /// The host's place at the port at which nodes join.
    seat: Option<Seat>,
}

impl Job {
    fn spawn(self, plan: &Arc<Plan>, gate: &Arc<Gate>, threads: &Mutex<Vec<JoinHandle<()>>>) {
        const STACK_BYTES: usize = 1 << 20;
        let (plan, gate) = (Arc::clone(plan), Arc::clone(gate));
        // A slot hands the job over, so that the failure can still be reported here if the thread cannot
        // start.
        let slot = Arc::new(Mutex::new(Some(self)));
        let take =
            |slot: &Mutex<Option<Job>>| slot.lock().unwrap_or_else(PoisonError::into_inner).take();
        let work = {
            let slot = Arc::clone(&slot);
            move || {
                if let Some(job) = take(&slot) {
                    job.run(&plan, &gate);
                }
            }
        };
        let builder = std::thread::Builder::new()
            .name("session".to_owned())
            .stack_size(STACK_BYTES);
        match builder.spawn(work) {
            Ok(thread) => threads
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(thread),
            Err(error) => {
                if let Some(job) = take(&slot) {
                    job.report
                        .failed(start_error(&format!("cannot start a thread: {error}")));
                }
            }
        }
    }

    fn run(mut self, plan: &Plan, gate: &Arc<Gate>) {
        // If the program ends while this thread writes to it, the write returns an error, even if SIGPIPE
        // would kill the process. Child processes do not inherit this: the standard library gives them an
        // empty mask.
        SigSet::from_iter([Signal::SIGPIPE]).thread_block().ok();
        // A host that joins costs nothing until it does: all of them wait at once.
        if self.seat.is_none() {
            match gate.enter(|| self.line.aborted()) {
                Some(place) => self.report.hold(place),
                None => return self.report.failed(start_error("aborted before its turn")),
            }
        }
        launch(plan, &self.host, self.seat, &self.line, self.report);
    }
}

fn start_error(text: &str) -> LaunchError {
    LaunchError::new(Stage::Start, text)
}

/// Descriptors that the sessions of a fleet need, and the limits of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Descriptors {
    /// The least that they need.
    pub needed: u64,
    /// The limit before it was raised.
    pub limit: u64,
    /// The limit now.
    pub now: u64,
}

impl Descriptors {
    const PER_HOST: u64 = 4;
    const OTHERS: u64 = 256;

    fn of(hosts: usize, limit: u64, now: u64) -> Descriptors {
        let needed = (hosts as u64).saturating_mul(Self::PER_HOST);
        Descriptors {
            needed: needed.saturating_add(Self::OTHERS),
            limit,
            now,
        }
    }

    /// Most hosts for which they suffice.
    pub fn most_hosts(&self) -> u64 {
        self.now.saturating_sub(Self::OTHERS) / Self::PER_HOST
    }
}

/// Raises the soft limit of open descriptors to the need of `hosts` sessions, at most to the hard
/// limit, which the system sets. `None` if the limit is unknown.
pub fn allow_descriptors(hosts: usize) -> Option<Descriptors> {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    /// More for each session, as long as it starts.
    const TO_START: u64 = 2;
    let (limit, hard) = getrlimit(Resource::RLIMIT_NOFILE).ok()?;
    let needed = Descriptors::of(hosts, limit, limit).needed;
    let wanted = needed.saturating_add((hosts as u64).saturating_mul(TO_START));
    let raised = wanted.min(hard).max(limit);
    let is_raised = raised > limit && setrlimit(Resource::RLIMIT_NOFILE, raised, hard).is_ok();
    Some(Descriptors::of(
        hosts,
        limit,
        if is_raised { raised } else { limit },
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hosts::parse;
    use std::collections::BTreeMap;
    use std::os::unix::fs::PermissionsExt as _;
    use std::sync::mpsc::{Receiver, channel};

    const LONG: Duration = Duration::from_secs(30);

    fn script(text: &str) -> (tempfile::TempDir, Program) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("program");
        let source = folder.path().join("source");
        std::fs::write(&source, format!("#!/bin/sh\n{text}\n")).unwrap();
        std::fs::set_permissions(&source, std::fs::Permissions::from_mode(0o755)).unwrap();
        // Another process makes the copy: a fork of this one could hold a descriptor for writing, and
        // running the file would fail with "busy".
        assert!(
            std::process::Command::new("cp")
                .arg(&source)
                .arg(&path)
                .status()
                .unwrap()
                .success()
        );
        let program = Program::read(&path).unwrap();
        (folder, program)
    }

    fn settings() -> Settings {
        Settings {
            magic: b"MAGIC\n".to_vec(),
            ..Settings::default()
        }
    }

    /// Waits until all hosts have ended. Returns the bytes and the last event of each.
    fn until_end(
        events: &Receiver<(usize, Event)>,
        hosts: usize,
    ) -> BTreeMap<usize, (Vec<u8>, Event)> {
        let mut bytes: BTreeMap<usize, Vec<u8>> = BTreeMap::new();
        let mut ends = BTreeMap::new();
        while ends.len() < hosts {
            let (host, event) = events.recv_timeout(LONG).unwrap();
            match event {
                Event::Bytes(more, _) => bytes.entry(host).or_default().extend(more),
                Event::Ended { .. } | Event::Failed(_) => {
                    let bytes = bytes.remove(&host).unwrap_or_default();
                    assert!(
                        ends.insert(host, (bytes, event)).is_none(),
                        "two ends of host {host}"
                    );
                }
                _ => {}
            }
        }
        ends
    }

    #[test]
    fn local_sessions_talk_and_end() {
        let (_folder, program) = script("echo noise; echo warning >&2; echo MAGIC; cat; exit 3");
        let (sender, events) = channel();
        let fleet = start(&parse("local:3").unwrap(), settings(), program, sender);
        for host in 0..3 {
            assert!(fleet.send(host, format!("to {host}").as_bytes()));
            fleet.hang_up(host);
            assert!(!fleet.send(host, b"late"));
        }
        for (host, (bytes, end)) in until_end(&events, 3) {
            assert_eq!(bytes, format!("to {host}").into_bytes());
            assert_eq!(
                end,
                Event::Ended {
                    status: Some(3),
                    signal: None
                }
            );
        }
        fleet.finish(LONG);
        assert!(events.recv().is_err(), "no thread holds a sender any more");
    }

    #[test]
    fn much_data_goes_both_ways_at_once() {
        let (_folder, program) = script("echo MAGIC; exec cat");
        let (sender, events) = channel();
        let fleet = start(&parse("local").unwrap(), settings(), program, sender);
        let data: Vec<u8> = (0..8u32 << 20).map(|at| (at % 251) as u8).collect();
        assert!(fleet.send(0, &data));
        fleet.hang_up(0);
        let (bytes, _) = until_end(&events, 1).remove(&0).unwrap();
        assert!(bytes == data);
        fleet.finish(LONG);
    }

    #[test]
    fn abort_kills_and_finish_ends_what_does_not_listen() {
        let (_folder, program) = script("echo MAGIC; sleep 1000 & echo $!; wait; exit 0");
        let (sender, events) = channel();
        let fleet = start(&parse("local:2").unwrap(), settings(), program, sender);
        let mut sleepers = BTreeMap::new();
        while sleepers.len() < 2 {
            if let (host, Event::Bytes(bytes, _)) = events.recv_timeout(LONG).unwrap() {
                sleepers.insert(host, String::from_utf8(bytes).unwrap());
            }
        }
        fleet.abort(0);
        let (host, event) = events.recv_timeout(LONG).unwrap();
        assert_eq!(
            (host, event),
            (
                0,
                Event::Ended {
                    status: None,
                    signal: None
                }
            )
        );
        fleet.finish(Duration::from_millis(50));
        assert!(until_end(&events, 1).contains_key(&1));
        for pid in sleepers.values() {
            assert!(
                crate::session::child::tests::gone(pid.trim()),
                "process {pid} is left"
            );
        }
    }

    #[test]
    fn what_does_not_come_up_fails_with_its_reason() {
        let cases = [
            (
                "echo 'no such library' >&2; exit 127",
                "the program ended with status 127 before its first message: no such library",
            ),
            (
                "kill -KILL $$",
                "the program was killed by signal KILL before its first message",
            ),
            (
                "exec sleep 1000",
                "timed out after 300 ms: no first message from the program",
            ),
            (
                "exec yes",
                "more than 65536 bytes came before the program's first message",
            ),
        ];
        for (text, expected) in cases {
            let (_folder, program) = script(text);
            let (sender, events) = channel();
            let mut settings = settings();
            if text.contains("sleep") {
                settings.deadlines.start = Duration::from_millis(300);
            }
            let fleet = start(&parse("local").unwrap(), settings, program, sender);
            let (_, end) = until_end(&events, 1).remove(&0).unwrap();
            match end {
                Event::Failed(error) => {
                    assert_eq!(error.stage, Stage::Start);
                    assert!(error.to_string().contains(expected), "{error}");
                }
                other => panic!("{other:?}"),
            }
            fleet.finish(LONG);
        }
    }

    /// Symptom: a run waited 155 s, the deadlines of four stages, for a host whose remote shell hung.
    #[test]
    fn a_remote_shell_that_hangs_costs_the_deadline_of_one_stage() {
        let (_folder, program) = script("");
        let (sender, events) = channel();
        let mut settings = settings();
        settings.remote_shell = Some("sh -c 'exec sleep 1000'".to_owned());
        settings.deadlines.connect = Duration::from_millis(300);
        let fleet = start(&parse("n1").unwrap(), settings, program, sender);
        let (_, end) = until_end(&events, 1).remove(&0).unwrap();
        let Event::Failed(error) = end else {
            panic!("{end:?}");
        };
        assert_eq!(
            error.to_string(),
            "cannot connect: timed out after 300 ms: no answer from the host's shell"
        );
        fleet.finish(LONG);
    }

    #[test]
    fn a_program_that_cannot_be_run_is_named() {
        let (folder, mut program) = script("");
        program.path = folder.path().join("absent");
        let (sender, events) = channel();
        let fleet = start(&parse("local").unwrap(), settings(), program, sender);
        let (_, end) = until_end(&events, 1).remove(&0).unwrap();
        assert!(
            matches!(end, Event::Failed(ref error) if error.text.contains("absent")),
            "{end:?}"
        );
        fleet.finish(LONG);
    }

    #[test]
    fn an_aborted_host_does_not_wait_for_its_turn() {
        let (_folder, program) = script("exec sleep 1000");
        let (sender, events) = channel();
        let settings = Settings {
            fanout: 1,
            ..settings()
        };
        let fleet = start(&parse("local:3").unwrap(), settings, program, sender);
        (0..3).for_each(|host| fleet.abort(host));
        let ends = until_end(&events, 3);
        assert!(
            ends.values()
                .all(|(_, end)| matches!(end, Event::Failed(_)))
        );
        drop(fleet);
    }

    /// A remote-shell command: a shell in a private mount namespace, where the home folder is too small.
    fn cramped(folder: &std::path::Path, also: &str) -> String {
        let home = folder.display();
        format!(
            "unshare --mount sh -c 'HOME={home} && export HOME && unset XDG_CACHE_HOME && \
             mount -t tmpfs -o size=16k none {home} && {also} && shift && exec \"$@\"' far"
        )
    }

    #[test]
    fn a_folder_that_is_full_gives_way_to_the_next_one() {
        let folder = tempfile::tempdir().unwrap();
        let (_other, mut program) = script("echo MAGIC; pwd; cat");
        let mut bytes = program.bytes.as_ref().clone();
        bytes.extend(std::iter::repeat_n(b'#', 100_000));
        program.digest = crate::program::digest_of(&bytes);
        program.bytes = Arc::new(bytes);
        let run = |settings: Settings| {
            let (sender, events) = channel();
            let fleet = start(&parse("n1").unwrap(), settings, program.clone(), sender);
            fleet.hang_up(0);
            let end = until_end(&events, 1).remove(&0).unwrap();
            fleet.finish(LONG);
            end
        };
        let elsewhere = cramped(folder.path(), "mount -t tmpfs none /var/tmp");
        let (bytes, end) = run(Settings {
            remote_shell: Some(elsewhere),
            ..settings()
        });
        if let Event::Failed(error) = &end
            && error.text.contains("before it answered")
        {
            assert_ne!(
                std::env::var("CI").as_deref(),
                Ok("true"),
                "cannot mount: {error}"
            );
            eprintln!("SKIPPED: cannot mount a tmpfs here: {error}");
            return;
        }
        assert_eq!(
            end,
            Event::Ended {
                status: Some(0),
                signal: None
            }
        );
        assert!(
            bytes.starts_with(b"/var/tmp/"),
            "{}",
            String::from_utf8_lossy(&bytes)
        );
        let nowhere = cramped(folder.path(), "true");
        let remote_dir = Some(folder.path().join("named").display().to_string());
        let settings = Settings {
            remote_shell: Some(nowhere),
            remote_dir,
            ..settings()
        };
        let Event::Failed(error) = run(settings).1 else {
            panic!("it came up")
        };
        assert_eq!(error.stage, Stage::Deploy);
        assert!(
            error.text.contains("/named/pipebench-")
                && error.text.contains("No space left on device"),
            "{error}"
        );
    }
}
