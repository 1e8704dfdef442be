//! Tests links that a relay between two hosts closes in one direction or slows to a trickle: the run names each link
//! and ends within a deadline.
//!
//! The relay is a thread of this test with sockets in two hosts, as in `verify.rs`.

use std::fs::File;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

use crate::lab::{self, Finished, Lab, LabOptions};
use nix::sched::{CloneFlags, setns};

const PIPEBENCH: &str = env!("CARGO_BIN_EXE_pipebench");
const DEADLINE: Duration = Duration::from_secs(60);
const PORT: u16 = 5201;

/// Fault that the relay puts on the link from n1 to n2 after this many bytes.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Deed {
    /// Closes the direction to the receiver and discards the bytes that the sender still sends.
    CloseToReceiver(usize),
    /// Closes the direction back to the sender and continues to forward.
    CloseToSender(usize),
    /// Continues with one byte a second.
    Trickle(usize),
}

fn enter(namespace: &str) {
    let file = File::open(namespace).expect("a namespace");
    setns(file, CloneFlags::CLONE_NEWNET).expect("entered");
}

/// Relays one connection until it ends or the run is over.
fn relay(
    [inner, outer]: [String; 2],
    address: Ipv4Addr,
    deed: Deed,
    ready: &Sender<()>,
    over: &AtomicBool,
) {
    enter(&inner);
    let listener = TcpListener::bind((address, PORT)).expect("a port");
    nix::sys::socket::setsockopt(&listener, nix::sys::socket::sockopt::IpTransparent, &true)
        .expect("set");
    // Unread bytes must not close the window: a few bytes of a segment keep the whole segment in memory.
    let room = nix::sys::socket::sockopt::RcvBufForce;
    nix::sys::socket::setsockopt(&listener, room, &1_000_000).expect("set");
    ready.send(()).expect("heard");
    listener.set_nonblocking(true).expect("set");
    let mut accepted = None;
    lab::wait_until("a link comes by the relay", DEADLINE / 2, || {
        accepted = listener.accept().ok();
        accepted.is_some()
    });
    let (mut from, _) = accepted.expect("a link");
    from.set_nonblocking(false).expect("set");
    enter(&outer);
    let mut to = TcpStream::connect((address, PORT)).expect("n2");
    for one in [&from, &to] {
        one.set_read_timeout(Some(Duration::from_millis(100)))
            .expect("set");
    }
    let (mut back_from, mut back_to) =
        (to.try_clone().expect("one"), from.try_clone().expect("one"));
    std::thread::scope(|scope| {
        scope.spawn(move || {
            pass(&mut back_from, &mut back_to, None, over);
            back_to.shutdown(Shutdown::Write).ok();
        });
        pass(&mut from, &mut to, Some(deed), over);
        to.shutdown(Shutdown::Both).ok();
    });
}

/// Forwards bytes until either end closes or the run is over.
fn pass(from: &mut TcpStream, to: &mut TcpStream, deed: Option<Deed>, over: &AtomicBool) {
    let mut bytes = [0; 10_000];
    let (mut passed, mut mute) = (0, false);
    let until = Instant::now() + DEADLINE;
    while !over.load(Ordering::SeqCst) && Instant::now() < until {
        let (behind, trickles) = match deed {
            Some(Deed::Trickle(behind)) => (behind, passed >= behind),
            Some(Deed::CloseToReceiver(behind) | Deed::CloseToSender(behind)) => (behind, false),
            None => (usize::MAX, false),
        };
        let most = if trickles {
            1
        } else {
            bytes.len().min(behind.saturating_sub(passed).max(1))
        };
        let got = match from.read(&mut bytes[..most]) {
            Ok(0) => return,
            Ok(got) => got,
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => continue,
            Err(_) => return,
        };
        if !mute && to.write_all(&bytes[..got]).is_err() {
            return;
        }
        passed += got;
        if trickles {
            let next = Instant::now() + Duration::from_secs(1);
            while Instant::now() < next && !over.load(Ordering::SeqCst) {
                std::thread::sleep(Duration::from_millis(20));
            }
        } else if passed >= behind {
            match deed {
                Some(Deed::CloseToReceiver(_)) if !mute => {
                    mute = true;
                    to.shutdown(Shutdown::Write).expect("half closed");
                }
                Some(Deed::CloseToSender(_)) => {
                    from.shutdown(Shutdown::Write).ok();
                }
                _ => {}
            }
        }
    }
}

fn run_with(deed: Deed, more: &[&str]) -> Finished {
    let lab = Lab::raise(LabOptions {
        congestion: Some("reno"),
        ..LabOptions::default()
    });
    let address = lab.address(2);
    // The route keeps n1's traffic to the data port of n2 on n1, where the relay listens on n2's address.
    let catch = format!(
        "echo 1 > /proc/sys/net/ipv4/ip_nonlocal_bind && \
         ip rule add to {address} ipproto tcp dport {PORT} table 100 && \
         ip route add local {address} dev lo table 100"
    );
    lab.run(1, &["sh", "-c", &catch], DEADLINE).expect_success();
    let namespaces = [1, 3].map(|host| {
        let first = lab.command(host, &["true"]);
        let words: Vec<String> = first
            .get_args()
            .map(|word| word.to_string_lossy().into_owned())
            .collect();
        let target = words
            .iter()
            .position(|word| word == "--target")
            .expect("a target");
        format!("/proc/{}/ns/net", words[target + 1])
    });
    let (ready, heard) = channel();
    let over = Arc::new(AtomicBool::new(false));
    let ended = Arc::clone(&over);
    let relay = std::thread::spawn(move || relay(namespaces, address, deed, &ready, &ended));
    heard.recv_timeout(DEADLINE).expect("the relay listens");
    let words = [
        PIPEBENCH,
        "--hosts",
        "n1,n2",
        "--port-range",
        "5201-5210",
        "--interface",
        "eth0",
        "--quiet",
        "--deadline",
        "silence=3s",
    ];
    let finished = lab.run(0, &[&words[..], more].concat(), DEADLINE);
    over.store(true, Ordering::SeqCst);
    assert!(relay.join().is_ok(), "{finished}");
    for host in lab.test_hosts() {
        lab.expect_no_survivors(host, "pb-", DEADLINE / 2);
    }
    finished
}

#[track_caller]
fn expect(finished: &Finished, words: &[&str]) {
    let first = finished.stderr.lines().next().unwrap_or_default();
    let said = words.iter().all(|word| first.contains(word));
    assert!(finished.code() == Some(20) && said, "{words:?} {finished}");
}

#[test]
fn a_link_that_is_closed_towards_its_receiver_is_named() {
    let finished = run_with(Deed::CloseToReceiver(1_000_000), &["--time", "20s"]);
    expect(
        &finished,
        &["pipebench: n2: phase 1 receiver n1->n2: the peer closed the link: "],
    );
}

#[test]
fn a_link_that_is_closed_towards_its_sender_is_named() {
    // A sender with all its data in the socket would take an early end for the expected one; the small buffer prevents this.
    let words = ["--buffers", "20", "--sndbuf", "64K"];
    let finished = run_with(Deed::CloseToSender(1_000_000), &words);
    expect(
        &finished,
        &["pipebench: n1: phase 0 sender n1->n2: the peer closed the link: "],
    );
}

/// One byte a second is not silence for the receiver, but the sender's queue stands still.
#[test]
fn a_link_that_trickles_in_the_window_is_named_by_its_sender() {
    let finished = run_with(Deed::Trickle(1_000_000), &["--time", "30s"]);
    expect(
        &finished,
        &["pipebench: n1: phase 0 sender n1->n2: no byte moved for "],
    );
    let first = finished.stderr.lines().next().unwrap_or_default();
    let (_, rest) = first.split_once("no byte moved for ").expect("just seen");
    let silent: f64 = rest
        .split(' ')
        .next()
        .and_then(|word| word.parse().ok())
        .expect("seconds");
    // The deadline plus half of it, plus up to one check interval.
    assert!((4.5..=6.5).contains(&silent), "{finished}");
}

/// At the end the relay can hold all data already. Then the drain ends the run. A drain gets more time as long as bytes
/// move, but not without limit.
#[test]
fn a_link_that_trickles_in_the_drain_ends_with_the_longest_drain() {
    let before = Instant::now();
    let last_words = 4 * (256 * 1024 + 64) - 20_000;
    let finished = run_with(
        Deed::Trickle(last_words),
        &["--buffers", "4", "--deadline", "drain=500ms"],
    );
    expect(
        &finished,
        &["pipebench: n1: phase 0 sender n1->n2: the receiver did not take all data within 10.5 s"],
    );
    assert!(before.elapsed() >= Duration::from_millis(10_500));
}
