//! Tests verification with a relay that flips, drops or repeats bytes between two hosts: the run finds and names the damage.
//!
//! The relay is a thread of this test with sockets in two hosts: it listens on n1 under the address of n2,
//! where it catches n1's links to n2, and connects from n3 to the real n2.

use std::fs::File;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use crate::lab::{self, Lab, LabOptions};
use nix::sched::{CloneFlags, setns};

const PIPEBENCH: &str = env!("CARGO_BIN_EXE_pipebench");
const DEADLINE: Duration = Duration::from_secs(60);
const PORT: u16 = 5201;

/// Damage that the relay does once to the bytes from n1 to n2, after the first 1,000,000 bytes.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Deed {
    Nothing,
    Flip,
    Drop,
    Repeat,
}

fn enter(namespace: &str) {
    let file = File::open(namespace).expect("a namespace");
    setns(file, CloneFlags::CLONE_NEWNET).expect("entered");
}

/// Relays one connection until it ends.
fn relay(inner: String, outer: String, address: Ipv4Addr, deed: Deed, ready: Sender<()>) {
    enter(&inner);
    let listener = TcpListener::bind((address, PORT)).expect("a port");
    // The listener answers on an address that this host does not own.
    nix::sys::socket::setsockopt(&listener, nix::sys::socket::sockopt::IpTransparent, &true)
        .expect("set");
    ready.send(()).expect("heard");
    listener.set_nonblocking(true).expect("set");
    let mut accepted = None;
    lab::wait_until("a link comes by the relay", DEADLINE / 2, || {
        accepted = listener.accept().ok();
        accepted.is_some()
    });
    let (from, _) = accepted.expect("a link");
    from.set_nonblocking(false).expect("set");
    from.set_read_timeout(Some(DEADLINE / 2)).expect("set");
    enter(&outer);
    let to = TcpStream::connect((address, PORT)).expect("n2");
    to.set_read_timeout(Some(DEADLINE / 2)).expect("set");
    let (mut back_from, mut back_to) = (
        to.try_clone().expect("a copy"),
        from.try_clone().expect("a copy"),
    );
    let back = std::thread::spawn(move || {
        // The relay forwards the receiver's bytes unchanged and forwards a closed end.
        match std::io::copy(&mut back_from, &mut back_to) {
            Ok(_) | Err(_) => back_to.shutdown(Shutdown::Write).is_ok(),
        }
    });
    forward(from, to, deed);
    back.join().expect("ended");
}

fn forward(mut from: TcpStream, mut to: TcpStream, deed: Deed) {
    const BEHIND: usize = 1_000_000;
    let mut bytes = [0; 10_000];
    let (mut passed, mut done) = (0, false);
    while let Ok(got @ 1..) = from.read(&mut bytes) {
        passed += got;
        let mut piece = bytes[..got].to_vec();
        if passed > BEHIND && !done && got > 200 {
            done = true;
            match deed {
                Deed::Nothing => {}
                Deed::Flip => piece[100] ^= 4,
                Deed::Drop => {
                    piece.drain(100..164);
                }
                Deed::Repeat => piece.extend_from_slice(&bytes[..got]),
            }
        }
        if to.write_all(&piece).is_err() {
            break;
        }
    }
    // The peer can be gone already.
    match to.shutdown(Shutdown::Write) {
        Ok(()) | Err(_) => {}
    }
}

fn run_with(deed: Deed, verify: &str, phases: &[&str]) -> lab::Finished {
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
    let namespace = |host: usize| {
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
    };
    let (inner, outer) = (namespace(1), namespace(3));
    let (ready, heard) = channel();
    let relay = std::thread::spawn(move || relay(inner, outer, address, deed, ready));
    heard.recv_timeout(DEADLINE).expect("the relay listens");
    let words = [
        PIPEBENCH,
        "--hosts",
        "n1,n2",
        "--buffers",
        "100",
        "--port-range",
        "5201-5210",
        "--verify",
        verify,
        "--interface",
        "eth0",
        "--quiet",
    ];
    let finished = lab.run(0, &[&words[..], phases].concat(), DEADLINE);
    assert!(relay.join().is_ok(), "{finished}");
    finished
}

const TWO: &[&str] = &["--phases", "2"];

/// The middle phase verifies a block before it forwards it: once with a relay that moves pages, once with one that copies.
#[test]
fn a_relay_that_passes_blocks_on_finds_what_was_changed_before_it() {
    for way in [["--datapath", "zerocopy"], ["--workers", "slot"]] {
        let words = [&["--phases", "3", "--block-size", "300000"][..], &way].concat();
        let finished = run_with(Deed::Nothing, "full", &words);
        assert_eq!(finished.code(), Some(0), "{way:?} {finished}");
        let finished = run_with(Deed::Flip, "full", &words);
        assert_eq!(finished.code(), Some(20), "{way:?} {finished}");
        let first = finished.stderr.lines().next().unwrap_or_default();
        let expected = "pipebench: n2: phase 1 relay n1->n2->n1: block ";
        assert!(first.starts_with(expected), "{way:?} {finished}");
        assert!(
            first.contains("payload changed in transit: CRC-32"),
            "{way:?} {finished}"
        );
    }
}

#[test]
fn a_relay_that_does_nothing_is_not_noticed() {
    let finished = run_with(Deed::Nothing, "full", TWO);
    assert_eq!(finished.code(), Some(0), "{finished}");
}

#[test]
fn flipped_dropped_and_repeated_bytes_are_found_and_named_by_link_and_sequence() {
    for (deed, expected) in [
        (Deed::Flip, "payload changed in transit: CRC-32"),
        // Lost or repeated bytes shift all later bytes: the check finds a wrong sum, or no header at the expected place.
        (Deed::Drop, "block"),
        (Deed::Repeat, "block"),
    ] {
        let finished = run_with(deed, "full", TWO);
        assert_eq!(finished.code(), Some(20), "{deed:?} {finished}");
        let first = finished.stderr.lines().next().unwrap_or_default();
        assert!(
            first.starts_with("pipebench: n2: phase 1 receiver n1->n2: block "),
            "{deed:?} {finished}"
        );
        assert!(first.contains(expected), "{deed:?} {finished}");
    }
}

#[test]
fn lost_bytes_are_found_without_verification_too() {
    let finished = run_with(Deed::Drop, "none", TWO);
    assert_eq!(finished.code(), Some(20), "{finished}");
    assert!(finished.stderr.contains("n1->n2: block"), "{finished}");
}
