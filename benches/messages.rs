//! Costs of message passing between ranks. It compares three things: a ping-pong with the same ping-pong over bare sockets,
//! the time of a step with the time of its messages, and a checked run with an unchecked one.
//!
//! ```sh
//! cargo bench --bench messages                     # everything, 15 pairs of each, some minutes
//! cargo bench --bench messages -- 5 floor steps    # 5 pairs of these
//! ```
//!
//! The floor is the program one would write in C: two pinned threads, a non-blocking socket, and a loop that sends pieces of
//! 256 KiB and receives the bytes that have arrived. It has no headers, tags or partners to tell apart. It alternates with
//! `pipebench linktest`; ratios are taken pair by pair.

#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::time::Instant;

use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;
use pipebench::internals::record::{Record, RoundRecord};
use pipebench::internals::report::json;

const PIPEBENCH: &str = env!("CARGO_BIN_EXE_pipebench");
/// Message size in bytes, and number of messages per measurement.
const SIZES: [(usize, usize); 3] = [(1, 20_000), (64 << 10, 5_000), (4 << 20, 100)];
const PIECE: usize = 256 << 10;

fn main() {
    let mut pairs = 15;
    let mut names = Vec::new();
    for word in std::env::args().skip(1).filter(|word| word != "--bench") {
        match word.parse() {
            Ok(count) => pairs = count,
            Err(_) => names.push(word),
        }
    }
    let wanted = |name: &str| names.is_empty() || names.iter().any(|word| word == name);
    if wanted("floor") {
        floor(pairs);
    }
    if wanted("steps") {
        steps(pairs);
    }
    if wanted("checked") {
        checked(pairs);
    }
}

fn floor(pairs: usize) {
    println!("| links | bytes | bare sockets, us | pipebench, us | ratio |\n|---|---|---|---|---|");
    for (name, words) in [
        ("TCP", "--hosts local:2"),
        ("Unix", "--hosts local --ranks-per-node 2"),
    ] {
        for (bytes, messages) in SIZES {
            let mut bare = Vec::new();
            let mut own = Vec::new();
            let mut ratios = Vec::new();
            for _ in 0..pairs {
                let (a, b) = if name == "TCP" {
                    ping_pong(tcp_pair(), bytes, messages)
                } else {
                    ping_pong(unix_pair(), bytes, messages)
                };
                let floor = (a + b) / 2.0;
                let record = linktest(&format!(
                    "{words} -s {bytes} -n {messages} -w {}",
                    messages / 10
                ));
                let mean = mean(
                    &record
                        .outcome
                        .linktest()
                        .expect("results of this kind")
                        .rounds[0],
                );
                bare.push(floor);
                own.push(mean);
                ratios.push(mean / floor);
            }
            println!(
                "| {name} | {bytes} | {:.2} | {:.2} | {:.2} |",
                median(&mut bare) * 1e6,
                median(&mut own) * 1e6,
                median(&mut ratios)
            );
        }
    }
    println!();
}

/// Half round-trip times in seconds; each of the two threads leads and takes the time once.
fn ping_pong<S: Read + Write + Send>((a, b): (S, S), bytes: usize, messages: usize) -> (f64, f64) {
    let warmups = messages / 10;
    let side = move |mut socket: S, processor: usize, first: bool| {
        pin(processor);
        let out = vec![1; bytes];
        let mut into = vec![0; bytes];
        let mut bounce = |count: usize, leads: bool| {
            for _ in 0..count {
                if leads {
                    send(&mut socket, &out);
                    receive(&mut socket, &mut into);
                } else {
                    receive(&mut socket, &mut into);
                    send(&mut socket, &out);
                }
            }
        };
        let mut took = 0.0;
        for leads in [first, !first] {
            bounce(warmups, leads);
            let start = Instant::now();
            bounce(messages, leads);
            if leads {
                took = start.elapsed().as_secs_f64() / (2.0 * messages as f64);
            }
        }
        took
    };
    std::thread::scope(|scope| {
        let other = scope.spawn(move || side(b, 1, false));
        let one = scope.spawn(move || side(a, 0, true));
        (
            one.join().expect("the one side ends"),
            other.join().expect("the other side ends"),
        )
    })
}

fn send(socket: &mut impl Write, bytes: &[u8]) {
    let mut at = 0;
    while at < bytes.len() {
        let piece = &bytes[at..bytes.len().min(at + PIECE)];
        match socket.write(piece) {
            Ok(sent) => at += sent,
            Err(error) if error.kind() == ErrorKind::WouldBlock => std::hint::spin_loop(),
            Err(error) => panic!("send: {error}"),
        }
    }
}

fn receive(socket: &mut impl Read, into: &mut [u8]) {
    let mut at = 0;
    while at < into.len() {
        match socket.read(&mut into[at..]) {
            Ok(0) => panic!("the other side is gone"),
            Ok(got) => at += got,
            Err(error) if error.kind() == ErrorKind::WouldBlock => std::hint::spin_loop(),
            Err(error) => panic!("receive: {error}"),
        }
    }
}

fn tcp_pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let one = TcpStream::connect(address).expect("a connection");
    let (other, _) = listener.accept().expect("a connection");
    for socket in [&one, &other] {
        socket.set_nodelay(true).expect("no delay");
        socket.set_nonblocking(true).expect("no blocking");
    }
    (one, other)
}

fn unix_pair() -> (UnixStream, UnixStream) {
    let (one, other) = UnixStream::pair().expect("a pair");
    for socket in [&one, &other] {
        socket.set_nonblocking(true).expect("no blocking");
        nix::sys::socket::setsockopt(socket, nix::sys::socket::sockopt::SndBuf, &(1 << 20))
            .expect("a buffer as pipebench has it");
    }
    (one, other)
}

fn pin(processor: usize) {
    let mut set = CpuSet::new();
    set.set(processor).expect("a processor");
    sched_setaffinity(Pid::from_raw(0), &set).expect("two processors");
}

/// Time of a step beyond its messages, by the number of ranks on this machine.
fn steps(pairs: usize) {
    println!(
        "| ranks | steps | a step, us | its messages, us | beyond them, us |\n|---|---|---|---|---|"
    );
    for ranks in [2, 3, 4, 6, 8, 12, 16, 24, 32] {
        let (mut whole, mut messages, mut beyond) = (Vec::new(), Vec::new(), Vec::new());
        let mut count = 0;
        for _ in 0..pairs {
            // Two rounds: the first one makes the connections.
            let words = format!(
                "--hosts local --ranks-per-node {ranks} -s 1 -n 100 -w 0 --num-slowest 0 --min-iterations 2"
            );
            let record = linktest(&words);
            let round = &record
                .outcome
                .linktest()
                .expect("results of this kind")
                .rounds[1];
            count = round.steps;
            let step = round.span_ns as f64 / 1e9 / count as f64;
            let of = longest(round, 100.0) / count as f64;
            whole.push(step);
            messages.push(of);
            beyond.push(step - of);
        }
        println!(
            "| {ranks} | {count} | {:.0} | {:.0} | {:.0} |",
            median(&mut whole) * 1e6,
            median(&mut messages) * 1e6,
            median(&mut beyond) * 1e6
        );
    }
    println!();
}

/// Time of the messages of all steps, in seconds: for each step and direction the time of the slowest pair, there and back.
fn longest(round: &RoundRecord, messages: f64) -> f64 {
    let mut slowest = vec![[0.0_f64; 2]; round.steps];
    for time in &round.times {
        let known = &mut slowest[time.step][time.turn];
        *known = known.max(time.seconds);
    }
    slowest.iter().flatten().sum::<f64>() * 2.0 * messages
}

/// Compares a checked run with an unchecked one, both with random contents.
fn checked(pairs: usize) {
    println!("| bytes | checked by not checked |\n|---|---|");
    for (bytes, messages) in SIZES {
        let mut ratios = Vec::new();
        for _ in 0..pairs {
            let words = format!(
                "--hosts local:2 -s {bytes} -n {messages} -w {} --randomize-buffers",
                messages / 10
            );
            let without = mean(
                &linktest(&words)
                    .outcome
                    .linktest()
                    .expect("results of this kind")
                    .rounds[0],
            );
            let with = mean(
                &linktest(&format!("{words} --check-buffers"))
                    .outcome
                    .linktest()
                    .expect("results of this kind")
                    .rounds[0],
            );
            ratios.push(with / without);
        }
        println!("| {bytes} | {:.3} |", median(&mut ratios));
    }
}

fn mean(round: &RoundRecord) -> f64 {
    round.times.iter().map(|time| time.seconds).sum::<f64>() / round.times.len() as f64
}

fn linktest(words: &str) -> Record {
    let output = Command::new(PIPEBENCH)
        .arg("linktest")
        .args(words.split(' '))
        .args(["--quiet", "--no-sion-file", "--json", "-"])
        .output()
        .expect("pipebench runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words}: {said}");
    json::read(&String::from_utf8_lossy(&output.stdout)).expect("a record")
}

fn median(figures: &mut [f64]) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}
