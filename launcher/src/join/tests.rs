//! Both sides of the join port, over loopback: programs are small scripts, strangers are plain connections.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::node::join_as;
use super::noise::{Kind, introduce};
use super::{GatherError, JoinError, JoinPort, JoinRequest, Starter, Token};
use crate::event::Event;
use crate::fleet::{Fleet, start};
use crate::hosts::parse;
use crate::program::Program;
use crate::session::child::tests::gone;
use crate::settings::Settings;

const LONG: Duration = Duration::from_secs(30);
const CAT: &str = "echo MAGIC; exec cat";

fn open() -> Arc<JoinPort> {
    let loopback = IpAddr::V4(Ipv4Addr::LOCALHOST);
    Arc::new(JoinPort::open(Some(loopback), 0, Token::fresh().unwrap()).unwrap())
}

fn request(port: &JoinPort, deadline: Duration, script: &str) -> JoinRequest {
    JoinRequest {
        addresses: port.addresses(),
        token: Token::of(&port.token()).unwrap(),
        deadline,
        command: ["sh", "-c", script].map(OsString::from).into(),
    }
}

/// Joins in a thread.
fn joining(port: &JoinPort, name: &str, script: &str) -> JoinHandle<Result<u8, JoinError>> {
    let (request, names) = (request(port, LONG, script), [name.to_owned()]);
    std::thread::spawn(move || join_as(&request, &names))
}

fn settings(port: &Arc<JoinPort>) -> Settings {
    Settings {
        magic: b"MAGIC\n".to_vec(),
        join: Some(Arc::clone(port)),
        ..Settings::default()
    }
}

fn launch(hosts: &str, settings: Settings) -> (Fleet, Receiver<(usize, Event)>) {
    let (sender, events) = channel();
    let program = Program::read(Path::new("/bin/sh")).unwrap();
    let fleet = start(&parse(hosts).unwrap(), settings, program, sender);
    (fleet, events)
}

/// The next event that `wanted` takes.
fn next<T>(events: &Receiver<(usize, Event)>, wanted: impl Fn(usize, Event) -> Option<T>) -> T {
    let until = Instant::now() + LONG;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let (host, event) = events.recv_timeout(left).unwrap();
        if let Some(found) = wanted(host, event) {
            return found;
        }
    }
}

fn failure(events: &Receiver<(usize, Event)>) -> String {
    next(events, |_, event| match event {
        Event::Failed(error) => Some(error.to_string()),
        _ => None,
    })
}

fn notice(events: &Receiver<(usize, Event)>, position: usize) -> String {
    next(events, |host, event| match event {
        Event::Notice(text) if host == position => Some(text),
        _ => None,
    })
}

/// Waits until all hosts have ended. Returns bytes, complaints and the last event of each.
fn until_end(
    events: &Receiver<(usize, Event)>,
    hosts: usize,
) -> BTreeMap<usize, (Vec<u8>, Vec<String>, Event)> {
    let mut heard: BTreeMap<usize, (Vec<u8>, Vec<String>)> = BTreeMap::new();
    let mut ends = BTreeMap::new();
    while ends.len() < hosts {
        let (host, event) = events.recv_timeout(LONG).unwrap();
        let (bytes, complaints) = heard.entry(host).or_default();
        match event {
            Event::Bytes(more, _) => bytes.extend(more),
            Event::Complaint(line, _) => complaints.push(line),
            Event::Up {
                transport, address, ..
            } => {
                assert_eq!(
                    (transport.as_str(), address),
                    ("join", Some(Ipv4Addr::LOCALHOST.into()))
                );
            }
            Event::Ended { .. } | Event::Failed(_) => {
                let (bytes, complaints) = heard.remove(&host).unwrap_or_default();
                ends.insert(host, (bytes, complaints, event));
            }
            Event::Stage(_) | Event::Notice(_) => {}
        }
    }
    ends
}

fn ended(status: i32) -> Event {
    Event::Ended {
        status: Some(status),
        signal: None,
    }
}

/// Connections that were no joiners of this run.
fn strangers(port: &JoinPort) -> (usize, String) {
    match port.gather(usize::MAX, Instant::now(), &AtomicUsize::new(0)) {
        Err(GatherError::Late { joined, hint, .. }) => (joined, hint),
        other => panic!("{other:?}"),
    }
}

fn wait_for(done: impl Fn() -> bool) {
    let until = Instant::now() + LONG;
    while !done() {
        assert!(Instant::now() < until, "it never happened");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn nodes_that_join_talk_both_ways_and_end_with_their_status() {
    let port = open();
    let (fleet, events) = launch("n1,n2", settings(&port));
    let script = "echo noise; echo warning >&2; echo MAGIC; cat; exit 3";
    let nodes = [
        joining(&port, "n2.site", script),
        joining(&port, "n1", script),
    ];
    for host in 0..2 {
        assert!(fleet.send(host, format!("to {host}").as_bytes()));
        fleet.hang_up(host);
    }
    for (host, (bytes, complaints, end)) in until_end(&events, 2) {
        assert_eq!(bytes, format!("to {host}").into_bytes());
        assert_eq!((complaints, end), (vec!["warning".to_owned()], ended(3)));
    }
    for node in nodes {
        assert_eq!(node.join().unwrap().unwrap(), 3);
    }
    let address = port.addresses().remove(0);
    let refused = TcpStream::connect(&address).map(|mut stream| stream.read(&mut [0]).unwrap_or(0));
    assert!(!matches!(refused, Ok(1..)), "no place is left");
    fleet.finish(LONG);
    assert!(events.recv().is_err(), "nothing holds a sender any more");
}

#[test]
fn much_data_goes_both_ways_at_once_through_the_channel() {
    let port = open();
    let (fleet, events) = launch("n1", settings(&port));
    let node = joining(&port, "n1", CAT);
    let data: Vec<u8> = (0..8u32 << 20).map(|at| (at % 251) as u8).collect();
    assert!(fleet.send(0, &data));
    fleet.hang_up(0);
    let (bytes, _, end) = until_end(&events, 1).remove(&0).unwrap();
    assert!(
        bytes == data && end == ended(0),
        "{} bytes, {end:?}",
        bytes.len()
    );
    assert_eq!(node.join().unwrap().unwrap(), 0);
    fleet.finish(LONG);
}

/// Symptom: the last bytes of a node that ended while the launching side was busy were lost, half a second after its end.
#[test]
fn the_last_bytes_of_a_program_arrive_however_late_the_launching_side_reads() {
    let port = open();
    let (fleet, events) = launch("n1", settings(&port));
    // It fills all buffers until it is interrupted, and says how many bytes it has written.
    let script = "echo MAGIC; LC_ALL=C timeout -s INT 1 dd if=/dev/zero bs=4096";
    let node = joining(&port, "n1", script);
    // The launching side is busy: the lateness is what is tested.
    let until = std::time::Instant::now() + Duration::from_millis(2500);
    while std::time::Instant::now() < until {
        std::thread::sleep(Duration::from_millis(10));
    }
    let (bytes, complaints, _) = until_end(&events, 1).remove(&0).unwrap();
    let counts = complaints.iter().find_map(|line| line.split_once(" bytes"));
    let written: usize = counts.unwrap().0.parse().unwrap();
    assert_eq!(bytes.len(), written);
    node.join().unwrap().unwrap();
    fleet.finish(LONG);
}

/// Symptom: a node that sent records without bytes kept its session's thread from noticing that the run was over.
#[test]
fn a_node_that_sends_empty_records_is_lost() {
    let port = open();
    let (fleet, events) = launch("n1", settings(&port));
    let stream = TcpStream::connect(port.addresses().remove(0)).unwrap();
    let token = Token::of(&port.token()).unwrap();
    let names = ["n1".to_owned()];
    let mut channel = introduce(stream, &token, &names, Instant::now() + LONG)
        .ok()
        .unwrap();
    channel.send(Kind::Output, b"").unwrap();
    let error = failure(&events);
    assert!(error.contains("an unexpected record: Output"), "{error}");
    fleet.finish(LONG);
}

#[test]
fn a_killed_program_is_named_by_its_signal() {
    let port = open();
    let (fleet, events) = launch("n1", settings(&port));
    let node = joining(&port, "n1", "echo MAGIC; kill -KILL $$");
    let (_, _, end) = until_end(&events, 1).remove(&0).unwrap();
    let signal = Some("KILL".to_owned());
    assert_eq!(
        end,
        Event::Ended {
            status: None,
            signal
        }
    );
    assert_eq!(node.join().unwrap().unwrap(), 137);
    fleet.finish(LONG);
}

#[test]
fn a_wrong_token_is_closed_and_counted_and_the_right_one_joins_after_it() {
    let port = open();
    let wrong = JoinRequest {
        token: Token::fresh().unwrap(),
        ..request(&port, Duration::from_millis(400), CAT)
    };
    let error = join_as(&wrong, &["n1".to_owned()]).unwrap_err().to_string();
    assert!(error.contains("is the token that of this run?"), "{error}");
    let (joined, hint) = strangers(&port);
    assert!(joined == 0 && hint.contains("had another token"), "{hint}");
    let mut settings = settings(&port);
    settings.deadlines.connect = Duration::from_secs(1);
    let (fleet, events) = launch("n1,n2", settings);
    let node = joining(&port, "n1", CAT);
    let error = failure(&events);
    assert!(
        error.starts_with("cannot connect: no node of this host has joined within 1 s (")
            && error.contains("had another token"),
        "{error}"
    );
    drop(fleet);
    node.join().unwrap().unwrap();
}

#[test]
fn a_replayed_first_message_takes_no_place() {
    let port = open();
    let wire = TcpListener::bind("127.0.0.1:0").unwrap();
    let stream = TcpStream::connect(wire.local_addr().unwrap()).unwrap();
    let token = Token::of(&port.token()).unwrap();
    let node = std::thread::spawn(move || {
        introduce(stream, &token, &["n1".to_owned()], Instant::now() + LONG).is_ok()
    });
    let mut first = [0; 50];
    let (mut listened, _) = wire.accept().unwrap();
    listened.read_exact(&mut first).unwrap();
    drop(listened);
    assert!(!node.join().unwrap());

    let mut replay = TcpStream::connect(port.addresses().remove(0)).unwrap();
    let mut answer = [0; 50];
    replay.write_all(&first).unwrap();
    replay.read_exact(&mut answer).unwrap();
    assert_eq!(strangers(&port).0, 0, "an answer is no place");
    replay.write_all(&answer).unwrap();
    wait_for(|| strangers(&port).1 == "1 connection was no node");
    assert_eq!(strangers(&port).0, 0);
}

/// Symptom to prevent: a host that has not joined holds the only place at the gate, and the others wait for it.
#[test]
fn hosts_that_join_do_not_wait_for_each_other() {
    let port = open();
    let settings = Settings {
        fanout: 1,
        ..settings(&port)
    };
    let (fleet, events) = launch("n1,n2", settings);
    let second = joining(&port, "n2", CAT);
    let first_up = next(&events, |host, event| match event {
        Event::Up { .. } | Event::Failed(_) => Some(host),
        _ => None,
    });
    assert_eq!(first_up, 1);
    drop(fleet);
    assert_eq!(second.join().unwrap().unwrap(), 0);
}

#[test]
fn a_node_that_joins_twice_or_is_not_in_the_list_is_refused_with_the_reason() {
    let port = open();
    let (fleet, events) = launch("n1,n2", settings(&port));
    let first = joining(&port, "n1", CAT);
    next(&events, |_, event| {
        matches!(event, Event::Up { .. }).then_some(())
    });
    let refused = |name: &str| {
        joining(&port, name, CAT)
            .join()
            .unwrap()
            .unwrap_err()
            .to_string()
    };
    let twice = refused("n1");
    assert_eq!(twice, "cannot join: a node of n1 has joined already");
    assert_eq!(
        notice(&events, 2),
        "a node of n1 that joins is refused: a node of n1 has joined already"
    );
    assert_eq!(
        refused("n7"),
        "cannot join: the host list has no n7 (address 127.0.0.1)"
    );
    let second = joining(&port, "n2", CAT);
    next(&events, |host, event| {
        (host == 1 && matches!(event, Event::Up { .. })).then_some(())
    });
    fleet.finish(LONG);
    for node in [first, second] {
        assert_eq!(node.join().unwrap().unwrap(), 0);
    }
}

#[test]
fn nodes_without_a_host_list_are_gathered_in_natural_order_and_keep_their_places() {
    let port = open();
    let never = AtomicUsize::new(0);
    let leaves = TcpStream::connect(port.addresses().remove(0)).unwrap();
    let token = Token::of(&port.token()).unwrap();
    let leaves = introduce(leaves, &token, &["n0".to_owned()], Instant::now() + LONG);
    wait_for(|| strangers(&port).0 == 1);
    drop(leaves.ok().unwrap());
    wait_for(|| strangers(&port).0 == 0);
    let nodes = ["n10", "n2", "n2"].map(|name| joining(&port, name, CAT));
    let names = port.gather(3, Instant::now() + LONG, &never).unwrap();
    assert_eq!(names, ["n2", "n2", "n10"]);
    let fourth = joining(&port, "n3", CAT)
        .join()
        .unwrap()
        .unwrap_err()
        .to_string();
    assert_eq!(fourth, "cannot join: all 3 nodes have joined already");
    let (fleet, events) = launch("n2,n2,n10", settings(&port));
    (0..3).for_each(|host| fleet.hang_up(host));
    let ends = until_end(&events, 3);
    assert!(
        ends.values().all(|(_, _, end)| *end == ended(0)),
        "{ends:?}"
    );
    fleet.finish(LONG);
    for node in nodes {
        assert_eq!(node.join().unwrap().unwrap(), 0);
    }
    let late = open().gather(2, Instant::now(), &never).unwrap_err();
    assert_eq!(
        late.to_string(),
        "0 of 2 nodes have joined in time: start the others, or wait longer (--deadline connect=1h)"
    );
    let stopped = open().gather(1, Instant::now() + LONG, &AtomicUsize::new(15));
    assert!(matches!(stopped, Err(GatherError::Stopped)));
}

#[test]
fn ten_thousand_strangers_neither_keep_a_node_out_nor_fill_the_memory() {
    const BATCHES: usize = 25;
    const BATCH: usize = 400;
    const SILENT: usize = 600;
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    setrlimit(Resource::RLIMIT_NOFILE, hard.min(8192), hard).unwrap();
    let port = open();
    let address = port.addresses().remove(0);
    let (fleet, events) = launch("n1", settings(&port));
    for batch in 0..BATCHES {
        let connections: Vec<TcpStream> = (0..BATCH)
            .filter_map(|_| TcpStream::connect(&address).ok())
            .collect();
        assert_eq!(connections.len(), BATCH, "batch {batch}");
        for mut stream in connections {
            // The port closes it as soon as it sees that this is no node.
            stream.write_all(b"GET / HTTP/1.1\r\n\r\n").ok();
        }
    }
    let silent: Vec<TcpStream> = (0..SILENT)
        .map(|_| TcpStream::connect(&address).unwrap())
        .collect();
    let mut oldest = &silent[0];
    oldest
        .set_read_timeout(Some(Duration::from_secs(4)))
        .unwrap();
    assert_eq!(
        oldest.read(&mut [0]).unwrap(),
        0,
        "the oldest goes, before its time is over"
    );
    let node = joining(&port, "n1", CAT);
    next(&events, |_, event| {
        matches!(event, Event::Up { .. }).then_some(())
    });
    fleet.finish(LONG);
    assert_eq!(node.join().unwrap().unwrap(), 0);
}

/// Symptom: a node that strangers crowded out for half a second gave up, the sooner the more addresses it had.
#[test]
fn a_node_that_is_crowded_out_tries_all_addresses_for_some_seconds() {
    let crowded = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = crowded.local_addr().unwrap().to_string();
    std::thread::spawn(move || crowded.incoming().for_each(drop));
    let port = open();
    let request = JoinRequest {
        addresses: vec![address; 4],
        ..request(&port, Duration::from_millis(1500), CAT)
    };
    let error = join_as(&request, &["n1".to_owned()])
        .unwrap_err()
        .to_string();
    assert!(
        error.starts_with("cannot join: not within 1.5 s: "),
        "{error}"
    );
}

#[test]
fn a_host_whose_node_never_joins_says_so_with_the_deadline() {
    let port = open();
    let mut settings = settings(&port);
    settings.deadlines.connect = Duration::from_millis(100);
    let (fleet, events) = launch("n1", settings);
    assert_eq!(
        failure(&events),
        "cannot connect: no node of this host has joined within 100 ms (does a firewall close the port? Choose one: --listen PORT)"
    );
    fleet.finish(LONG);
}

fn with_starter(port: &Arc<JoinPort>, script: &str) -> Settings {
    let words = ["sh", "-c", script, "sh"].map(str::to_owned).into();
    Settings {
        starter: Some(Starter {
            words,
            token_file: None,
        }),
        ..settings(port)
    }
}

#[test]
fn a_starter_gets_the_command_of_a_node_and_the_token_on_its_standard_input() {
    let port = open();
    let script = "tr 0-9a-f g-v; shift; echo \"$@\"";
    let (fleet, events) = launch("n1", with_starter(&port, script));
    let coded = |digit: char| char::from_digit(16 + digit.to_digit(16).unwrap(), 32).unwrap();
    let token: String = port.token().chars().map(coded).collect();
    assert_eq!(notice(&events, 1), format!("starter: {token}"));
    let words = format!(
        "starter: join {} --deadline {}ms --token-file -",
        port.addresses().join(" "),
        Settings::default().deadlines.connect.as_millis() / 2
    );
    assert_eq!(notice(&events, 1), words);
    assert!(failure(&events).starts_with("cannot connect: the starter ended with status 0: join "));
    fleet.finish(LONG);
}

#[test]
fn an_ipv6_address_needs_no_brackets() {
    let request = JoinRequest {
        deadline: Duration::from_millis(200),
        addresses: vec!["::1:9".to_owned()],
        ..request(&open(), LONG, CAT)
    };
    let error = join_as(&request, &["n1".to_owned()]).unwrap_err();
    assert!(matches!(error, JoinError::Connect(_)), "{error}");
}

/// Symptom: a starter that repeats its input put the token on the screen, into the record and into the journal.
#[test]
fn a_token_that_the_starter_repeats_is_not_shown() {
    let port = open();
    let (fleet, events) = launch("n1", with_starter(&port, "sed 's/^/+ /'"));
    assert_eq!(notice(&events, 1), "starter: + (the token)");
    assert!(failure(&events).ends_with("status 0: + (the token)"));
    fleet.finish(LONG);
}

#[test]
fn a_starter_that_ends_ends_the_wait_with_its_status_and_its_last_line() {
    let port = open();
    let script = "echo first >&2; echo 'no such partition' >&2; exit 1";
    let (fleet, events) = launch("n1,n2", with_starter(&port, script));
    for _ in 0..2 {
        let error = failure(&events);
        assert_eq!(
            error,
            "cannot connect: the starter ended with status 1: no such partition"
        );
    }
    fleet.finish(LONG);
    let port = open();
    let mut settings = with_starter(&port, "");
    settings.starter = Some(Starter {
        words: vec!["/nonexistent/starter".to_owned()],
        token_file: None,
    });
    let (fleet, events) = launch("n1", settings);
    let error = failure(&events);
    assert!(
        error.starts_with("cannot connect: starter '/nonexistent/starter' not found"),
        "{error}"
    );
    fleet.finish(LONG);
}

#[test]
fn an_abort_ends_the_wait_the_nodes_and_the_starter() {
    let port = open();
    let (fleet, events) = launch("n1,n2", with_starter(&port, "echo $$; exec sleep 1000"));
    let pid = notice(&events, 2);
    let node = joining(&port, "n1", CAT);
    next(&events, |_, event| {
        matches!(event, Event::Up { .. }).then_some(())
    });
    drop(fleet);
    let ends = until_end(&events, 2);
    let is_aborted =
        |event: &Event| matches!(event, Event::Failed(error) if error.text == "aborted");
    assert!(is_aborted(&ends[&1].2), "{ends:?}");
    assert_eq!(node.join().unwrap().unwrap(), 0);
    assert!(gone(pid.trim_start_matches("starter: ")));
}

/// Symptom: a starter that prints without a pause outlived the run, since the thread that reads it did nothing else.
#[test]
fn a_starter_that_never_stops_printing_ends_with_the_run() {
    let port = open();
    let (fleet, events) = launch("n1", with_starter(&port, "echo $$; exec yes"));
    let pid = notice(&events, 1);
    assert_eq!(notice(&events, 1), "starter: y");
    drop(fleet);
    assert!(gone(pid.trim_start_matches("starter: ")));
}

#[test]
fn a_program_that_cannot_be_run_is_named_on_both_sides() {
    let port = open();
    let (fleet, events) = launch("n1", settings(&port));
    let request = JoinRequest {
        command: vec!["/nonexistent/program".into()],
        ..request(&port, LONG, "")
    };
    let error = join_as(&request, &["n1".to_owned()])
        .unwrap_err()
        .to_string();
    assert!(
        error.starts_with("cannot run /nonexistent/program: "),
        "{error}"
    );
    let error = failure(&events);
    let expected = "cannot start the program: the program ended with status 127 before its first message: cannot run /nonexistent/program: ";
    assert!(error.starts_with(expected), "{error}");
    fleet.finish(LONG);
}

#[test]
fn a_program_that_stays_is_killed_once_the_launching_side_is_gone() {
    let port = open();
    let (fleet, events) = launch("n1", settings(&port));
    let node = joining(&port, "n1", "echo MAGIC; echo $$; exec sleep 1000");
    let pid = next(&events, |_, event| match event {
        Event::Bytes(bytes, _) => Some(String::from_utf8(bytes).unwrap()),
        _ => None,
    });
    fleet.abort(0);
    assert_eq!(node.join().unwrap().unwrap(), 137);
    assert!(gone(pid.trim()));
    drop(fleet);
}
