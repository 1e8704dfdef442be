//! Hosts that do not exist: one machine can run the launching side of a thousand hosts.
//!
//! The command for `--rsh` is a shell that registers and then waits for its exit status. A thread of this process opens the shell's standard
//! streams, answers the start script as a host does that has the executable (a host that joins gets none), and then speaks the control protocol: it prepares tests, answers
//! pings, reports progress each second, and series and results when they are due. Its figures are invented (`figures.rs`). It plays pipeline
//! tests that end by time; it measures nothing and sends no data.
#![allow(
    dead_code,
    unused_imports,
    reason = "tests and the benchmark each use their own part of this module"
)]

mod figures;
pub mod sshd;

use std::fs::File;
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::net::Ipv4Addr;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::stat::Mode;
use nix::time::{ClockId, clock_gettime};
use nix::unistd::mkfifo;
use pipebench::internals::record::{HostFacts, Interface};
use pipebench::internals::wire::frame::{self, Decoder, MAGIC_WORD};
use pipebench::internals::wire::message::{FromNode, Go, Hello, ToNode, WIRE_VERSION};

use figures::{CORES, FRAME_BYTES, HostTest, INTERFACE};
pub use figures::{PORT_BYTES_PER_S, moved_bytes};

/// Runs in place of a remote shell, or of the node where one joins. `$0` is the folder of the named pipes, `$1` the host's name, `$2` is
/// [`JOINS`] if it joins. Its streams get numbers that no redirection
/// takes from them for a moment.
const SHELL: &str =
    r#"exec 3<&0 4>&1; echo "$$ $1 $2" >"$0/hosts"; read -r status <"$0/$1"; exit "${status:-1}""#;
const JOINS: &str = "joins";
/// Named pipe in which shells register.
const REGISTER: &str = "hosts";
const SECOND_NS: u64 = 1_000_000_000;
/// A host that hangs or freezes leaves after this time at the latest.
const LONGEST_FREEZE_NS: u64 = 600 * SECOND_NS;
const STACK_BYTES: usize = 512 << 10;

/// A fault of a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Its remote shell never answers.
    Hangs,
    /// It exits with code 3, one second into the window.
    Exits,
    /// It neither reads nor writes any more, from one second into the window on.
    Freezes,
}

/// The hosts `h1`, `h2` and so on.
pub struct FakeHosts {
    folder: tempfile::TempDir,
    register: File,
    count: usize,
    shared: Arc<Shared>,
}

/// Properties and sums of all hosts.
struct Shared {
    /// Digest of the tested executable.
    digest: String,
    faults: Vec<(u32, Fault)>,
    /// Named pipes to the shells, by host, for their exit statuses. They stay open, so that no status is lost if a shell opens its end late.
    ends: Vec<File>,
    /// Bytes that all hosts have received over their sessions.
    received_bytes: AtomicU64,
    /// Bytes that all hosts have sent over their sessions.
    sent_bytes: AtomicU64,
    /// Earliest time at which a host had to prepare a test: all hosts are up then. The largest number until then.
    prepare_ns: AtomicU64,
    /// Earliest time at which a host may send data; the largest number until a host knows its start.
    first_byte_ns: AtomicU64,
    /// Held while a host makes its report: with many links it takes megabytes before it is text.
    making: Mutex<()>,
}

impl FakeHosts {
    /// Waits for the shells of `count` hosts from now on. `faults` has the hosts with a fault by their numbers, from 1.
    pub fn start(count: usize, faults: &[(u32, Fault)]) -> Self {
        allow_descriptors(count);
        let folder = tempfile::tempdir().expect("a folder");
        let ends = (1..=count).map(|number| named_pipe(folder.path(), &format!("h{number}")));
        let program = std::fs::read(env!("CARGO_BIN_EXE_pipebench")).expect("the executable");
        let shared = Arc::new(Shared {
            digest: launcher::digest_of(&program),
            faults: faults.to_vec(),
            ends: ends.collect(),
            received_bytes: AtomicU64::new(0),
            sent_bytes: AtomicU64::new(0),
            prepare_ns: AtomicU64::new(u64::MAX),
            first_byte_ns: AtomicU64::new(u64::MAX),
            making: Mutex::new(()),
        });
        let register = named_pipe(folder.path(), REGISTER);
        let lines = register.try_clone().expect("a second descriptor");
        let all = Arc::clone(&shared);
        std::thread::spawn(move || accept(lines, &all));
        Self {
            folder,
            register,
            count,
            shared,
        }
    }

    /// Arguments of pipebench that name and reach the hosts.
    pub fn words(&self) -> [String; 4] {
        let shell = format!("/bin/sh -c '{SHELL}' {} %h", self.folder.path().display());
        let hosts = format!("h[1-{}]", self.count);
        ["--hosts".to_owned(), hosts, "--rsh".to_owned(), shell]
    }

    /// The command of a node that joins as this host.
    pub fn joining(&self, name: &str) -> Vec<String> {
        let folder = self.folder.path().display().to_string();
        let words = ["/bin/sh", "-c", SHELL, &folder, name, JOINS];
        words.map(str::to_owned).to_vec()
    }

    /// Bytes that all hosts have received over their sessions.
    pub fn received_bytes(&self) -> u64 {
        self.shared.received_bytes.load(Ordering::Relaxed)
    }

    /// Bytes that all hosts have sent over their sessions.
    pub fn sent_bytes(&self) -> u64 {
        self.shared.sent_bytes.load(Ordering::Relaxed)
    }

    /// Time on [`now_ns`]'s clock at which all hosts were up; `None` if they are not.
    pub fn all_up_ns(&self) -> Option<u64> {
        let prepare_ns = self.shared.prepare_ns.load(Ordering::Relaxed);
        (prepare_ns < u64::MAX).then_some(prepare_ns)
    }

    /// Time on [`now_ns`]'s clock from which the first host may send data; `None` if no host knows its start.
    pub fn first_byte_ns(&self) -> Option<u64> {
        let first_ns = self.shared.first_byte_ns.load(Ordering::Relaxed);
        (first_ns < u64::MAX).then_some(first_ns)
    }
}

impl Drop for FakeHosts {
    /// Ends the thread that accepts hosts. The hosts end with their sessions.
    fn drop(&mut self) {
        writeln!(self.register, "end").ok();
    }
}

/// This machine's monotonic clock, which is also the clock of every host.
pub fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC).expect("a clock");
    now.tv_sec().unsigned_abs() * SECOND_NS + now.tv_nsec().unsigned_abs()
}

/// Raises the limit of open descriptors: each host has a named pipe and two streams.
fn allow_descriptors(hosts: usize) {
    const PER_HOST: u64 = 3;
    const OTHERS: u64 = 256;
    let needed = hosts as u64 * PER_HOST + OTHERS;
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).expect("a limit");
    assert!(
        hard >= needed,
        "{hosts} hosts need {needed} descriptors, the limit is {hard}"
    );
    setrlimit(Resource::RLIMIT_NOFILE, soft.max(needed), hard).expect("within the limit");
}

/// Makes a named pipe and opens it for both directions: this never waits for the other side, and the pipe never ends.
fn named_pipe(folder: &Path, name: &str) -> File {
    let path = folder.join(name);
    mkfifo(&path, Mode::S_IRWXU).expect("a named pipe");
    let mut options = File::options();
    let both = options.read(true).write(true);
    both.open(path).expect("a named pipe")
}

/// Starts a thread for each shell that registers with its process id and the name of its host.
fn accept(lines: File, shared: &Arc<Shared>) {
    for line in BufReader::new(lines).lines().map_while(Result::ok) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [pid, name, joins @ ..] = words.as_slice() else {
            return;
        };
        let input = File::open(format!("/proc/{pid}/fd/3"));
        let output = File::options()
            .write(true)
            .open(format!("/proc/{pid}/fd/4"));
        // The launching side can have ended the shell meanwhile.
        let (Ok(input), Ok(output)) = (input, output) else {
            continue;
        };
        let number: u32 = name.trim_start_matches('h').parse().expect("a number");
        let known = shared.faults.iter().find(|(host, _)| *host == number);
        let host = Host {
            name: (*name).to_owned(),
            number,
            joins: joins == [JOINS],
            fault: known.map(|(_, fault)| *fault),
            shared: Arc::clone(shared),
            input,
            output,
            decoder: Decoder::default(),
            alive_ns: u64::MAX,
            part: None,
        };
        std::thread::Builder::new()
            .stack_size(STACK_BYTES)
            .spawn(move || host.run())
            .expect("a thread");
    }
}

/// A host: the script's shell at first, then a node status process.
struct Host {
    name: String,
    number: u32,
    joins: bool,
    fault: Option<Fault>,
    shared: Arc<Shared>,
    input: File,
    output: File,
    decoder: Decoder,
    /// Time of the next heartbeat.
    alive_ns: u64,
    part: Option<Part>,
}

/// The part of a host in a test.
struct Part {
    test: HostTest,
    stage: Stage,
    /// Time of the next progress.
    progress_ns: u64,
    /// The message with the results. It is made while the test runs, since all hosts send theirs at once.
    finished: Option<Vec<u8>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Prepared,
    Running,
    Over,
}

impl Host {
    /// Plays the host, and then ends its shell with the exit status.
    fn run(mut self) {
        let status = match self.play() {
            Ok(status) => status,
            // The launching side has closed the session.
            Err(why) if [ErrorKind::UnexpectedEof, ErrorKind::BrokenPipe].contains(&why.kind()) => {
                0
            }
            Err(why) => {
                eprintln!("{}: {why}", self.name);
                1
            }
        };
        // Closes this process's copies of the streams first, so that the streams end with the shell.
        let (shared, place) = (Arc::clone(&self.shared), self.number as usize - 1);
        drop(self);
        let mut end = &shared.ends[place];
        writeln!(end, "{status}").ok();
    }

    /// Plays the host until it leaves. Returns its exit status.
    fn play(&mut self) -> io::Result<u8> {
        let mut first = Vec::new();
        if !self.joins {
            let nonce = nonce_of(&self.read_script()?);
            let nonce = nonce.ok_or_else(|| io::Error::other("a script without nonce"))?;
            first = format!("{nonce} have /fake\n").into_bytes();
        }
        if self.fault == Some(Fault::Hangs) {
            return self.freeze();
        }
        first.extend_from_slice(MAGIC_WORD);
        self.output.write_all(&first)?;
        let hello = FromNode::Hello(Box::new(self.hello()));
        self.shared.say(&mut self.output, &hello)?;
        self.alive_ns = now_ns() + SECOND_NS;
        loop {
            match self.fault.filter(|_| now_ns() >= self.fault_ns()) {
                Some(Fault::Exits) => return Ok(3),
                Some(Fault::Freezes | Fault::Hangs) => return self.freeze(),
                None => {}
            }
            self.do_what_is_due()?;
            if self.wait(PollFlags::POLLIN, self.due_ns())? && self.hear()? {
                return Ok(0);
            }
        }
    }

    fn hello(&self) -> Hello {
        Hello {
            wire_version: WIRE_VERSION,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            digest: self.shared.digest.clone(),
            executable: "/fake".to_owned(),
            pid: 1,
            facts: facts_of(&self.name, self.number),
        }
    }

    /// Reads the start script up to its end. The launching side sends nothing more before the answer.
    fn read_script(&mut self) -> io::Result<String> {
        let mut script = String::new();
        let mut bytes = [0; 16 << 10];
        while !(script.ends_with("\n}\n") && script.contains("\nexec ")) {
            let got = self.read(&mut bytes)?;
            script.push_str(&String::from_utf8_lossy(&bytes[..got]));
        }
        Ok(script)
    }

    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match self.input.read(bytes)? {
            0 => Err(ErrorKind::UnexpectedEof.into()),
            got => {
                let sum = &self.shared.received_bytes;
                sum.fetch_add(got as u64, Ordering::Relaxed);
                Ok(got)
            }
        }
    }

    /// Waits for the launching side, for these events or for its end, until a time. Returns true if there is something to read.
    fn wait(&self, events: PollFlags, until_ns: u64) -> io::Result<bool> {
        let ms = until_ns.saturating_sub(now_ns()).div_ceil(1_000_000);
        let timeout = PollTimeout::try_from(ms).unwrap_or(PollTimeout::MAX);
        let mut watched = [PollFd::new(self.input.as_fd(), events)];
        Ok(poll(&mut watched, timeout)? > 0)
    }

    /// Does nothing until the launching side closes the session.
    fn freeze(&self) -> io::Result<u8> {
        self.wait(PollFlags::empty(), now_ns() + LONGEST_FREEZE_NS)?;
        Ok(0)
    }

    /// Time of the host's fault, once a test has started.
    fn fault_ns(&self) -> u64 {
        let running = self
            .part
            .as_ref()
            .filter(|part| part.stage == Stage::Running);
        running.map_or(u64::MAX, |part| part.test.times.first_ns + SECOND_NS)
    }

    /// Time at which something is due next.
    fn due_ns(&self) -> u64 {
        let part_ns = self.part.as_ref().map_or(u64::MAX, Part::due_ns);
        let fault_ns = self.fault.map_or(u64::MAX, |_| self.fault_ns());
        self.alive_ns.min(part_ns).min(fault_ns)
    }

    fn do_what_is_due(&mut self) -> io::Result<()> {
        if now_ns() >= self.alive_ns {
            self.alive_ns = now_ns() + SECOND_NS;
            self.shared.say(&mut self.output, &FromNode::Alive)?;
        }
        let Some(part) = &mut self.part else {
            return Ok(());
        };
        if part.stage != Stage::Running {
            return Ok(());
        }
        if part.finished.is_none() {
            let _making = self.shared.making.lock().expect("unbroken");
            let report = FromNode::Finished(Box::new(part.test.report()));
            part.finished = Some(frame::encode(&serde_json::to_vec(&report)?));
        }
        let last_ns = part.test.times.last_ns;
        if now_ns() >= part.progress_ns && part.progress_ns <= last_ns {
            let progress = part.test.progress(part.progress_ns);
            part.progress_ns += SECOND_NS;
            self.shared
                .say(&mut self.output, &FromNode::Progress(progress))?;
        }
        if now_ns() >= last_ns
            && let Some(finished) = part.finished.take()
        {
            part.stage = Stage::Over;
            self.shared.write(&mut self.output, &finished)?;
        }
        Ok(())
    }

    /// Obeys the messages that have arrived. Returns true if the host must leave.
    fn hear(&mut self) -> io::Result<bool> {
        let mut bytes = [0; 16 << 10];
        let got = self.read(&mut bytes)?;
        self.decoder.push(&bytes[..got]);
        while let Some(message) = self.decoder.next_message().map_err(io::Error::other)? {
            let message: ToNode = serde_json::from_slice(&message)?;
            if message == ToNode::End {
                return Ok(true);
            }
            self.obey(message)?;
        }
        Ok(false)
    }

    fn obey(&mut self, message: ToNode) -> io::Result<()> {
        let answer = match (message, &mut self.part) {
            (ToNode::Prepare(assignment), part) => {
                let earliest = &self.shared.prepare_ns;
                earliest.fetch_min(now_ns(), Ordering::Relaxed);
                let test = HostTest::of(*assignment);
                let listeners = test.listeners();
                *part = Some(Part {
                    test,
                    stage: Stage::Prepared,
                    progress_ns: u64::MAX,
                    finished: None,
                });
                FromNode::Prepared {
                    listeners,
                    source_bytes: None,
                    neighbours: Vec::new(),
                }
            }
            (ToNode::Estimate, _) => FromNode::Cost(None),
            (ToNode::Connect(_), Some(_)) => FromNode::Ready,
            (ToNode::Ping { sent_ns }, _) => FromNode::Pong {
                sent_ns,
                node_ns: now_ns(),
            },
            (ToNode::Series(links), Some(part)) => FromNode::Series {
                stretch_s: 1,
                bytes: vec![part.test.series(); links.len()],
            },
            (ToNode::Stop, Some(part)) if part.stage != Stage::Over => {
                part.stage = Stage::Over;
                FromNode::Finished(Box::default())
            }
            (ToNode::Go(go), Some(part)) => {
                part.start(go);
                let first_ns = go.at_ns.max(now_ns());
                let earliest = &self.shared.first_byte_ns;
                earliest.fetch_min(first_ns, Ordering::Relaxed);
                return Ok(());
            }
            (ToNode::Lost { node }, Some(part)) => {
                part.test.lose(node, now_ns());
                part.finished = None;
                return Ok(());
            }
            (ToNode::Window { end_ns }, Some(part)) => {
                part.test.times.last_ns = end_ns;
                part.finished = None;
                return Ok(());
            }
            // A heartbeat, or a message that has no meaning here.
            _ => return Ok(()),
        };
        self.shared.say(&mut self.output, &answer)
    }
}

impl Part {
    fn start(&mut self, go: Go) {
        self.test.start(go);
        self.stage = Stage::Running;
        self.progress_ns = go.at_ns + SECOND_NS;
    }

    /// Time at which progress or the results are due.
    fn due_ns(&self) -> u64 {
        match self.stage {
            Stage::Running => self.progress_ns.min(self.test.times.last_ns),
            Stage::Prepared | Stage::Over => u64::MAX,
        }
    }
}

impl Shared {
    fn say(&self, output: &mut File, message: &FromNode) -> io::Result<()> {
        self.write(output, &frame::encode(&serde_json::to_vec(message)?))
    }

    fn write(&self, output: &mut File, bytes: &[u8]) -> io::Result<()> {
        self.sent_bytes
            .fetch_add(bytes.len() as u64, Ordering::Relaxed);
        output.write_all(bytes)
    }
}

/// The nonce of a start script, which holds it in two halves: `l_n=LEFT; l_n="$l_n"RIGHT`.
fn nonce_of(script: &str) -> Option<String> {
    let halves = script.lines().find_map(|line| line.strip_prefix("l_n="))?;
    let (left, right) = halves.split_once("; l_n=\"$l_n\"")?;
    Some(format!("{left}{right}"))
}

/// A machine with 64 cores and one port of 25 Gbit/s.
fn facts_of(name: &str, number: u32) -> HostFacts {
    let address = Ipv4Addr::from_bits(Ipv4Addr::new(10, 0, 0, 0).to_bits() + number);
    let [_, a, b, c] = address.octets();
    HostFacts {
        hostname: name.to_owned(),
        identity: format!("fake {name}"),
        kernel: "6.12.0".to_owned(),
        architecture: std::env::consts::ARCH.to_owned(),
        cpu: "none".to_owned(),
        cores: CORES,
        available_memory_bytes: 512 << 30,
        spare_memory_bytes: Some(400 << 30),
        congestion: "cubic".to_owned(),
        congestion_allowed: "reno cubic".to_owned(),
        interfaces: vec![Interface {
            name: INTERFACE.to_owned(),
            addresses: vec![(address.into(), 8)],
            mtu_bytes: FRAME_BYTES,
            speed_mbit: Some(25_000),
            driver: Some("fake".to_owned()),
            physical: true,
            hardware: Some(format!("02:00:00:{a:02x}:{b:02x}:{c:02x}")),
            ..Interface::default()
        }],
        ..HostFacts::default()
    }
}
