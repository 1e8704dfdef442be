//! The listening side: takes joiners that prove the token, and gives each a place of the host list.
//!
//! One thread. It holds a bounded number of connections before their handshake is over, each for a bounded time, and
//! the oldest goes first. It listens only until every place is taken. Read next: `carrier.rs`, which carries a session.

use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags};
use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::socket::{Backlog, listen};

use crate::event::Event;
use crate::hosts::{MAX_HOSTS, shorten};
use crate::join::addresses::addresses;
use crate::join::names::{choose, natural};
use crate::join::noise::{Channel, HANDSHAKE_DEADLINE, Handshake, Kind, Stranger};
use crate::join::token::Token;
use crate::session::child::poll_for;
use crate::session::line::Line;

/// Connections whose handshake is not over.
const MAX_PENDING: usize = 512;
/// Connections to accept before the loop turns to its other duties.
const ACCEPTED_PER_TURN: usize = 64;
/// Pause if no connection can be accepted, for example for want of descriptors.
const WHEN_FULL: Duration = Duration::from_millis(20);
/// Refused joiners to report one by one.
const MAX_REFUSED: usize = 16;
const TICK: Duration = Duration::from_secs(1);
/// Interval of the checks of the stop flag.
const LOOK_UP: Duration = Duration::from_millis(50);

/// Hint if no connection came and nothing else is known.
const NO_CAUSE: &str = "does a firewall close the port? Choose one: --listen PORT";
const CLOSED: &str = "the port at which nodes join is closed";

/// A port at which nodes join. Dropping it closes it.
pub struct JoinPort {
    shared: Arc<Shared>,
    port: u16,
    addresses: Vec<String>,
    thread: Option<JoinHandle<()>>,
}

/// The reason why not all nodes have joined.
#[derive(Debug, thiserror::Error)]
pub enum GatherError {
    /// The time is over.
    #[error(
        "{joined} of {wanted} nodes have joined in time{}{}: start the others, or wait longer (--deadline connect=1h)",
        names_of(.names), in_brackets(.hint)
    )]
    Late {
        /// Number of nodes that have joined.
        joined: usize,
        /// Number of nodes to wait for.
        wanted: usize,
        /// Their names.
        names: Vec<String>,
        /// Connections that were no joiners of this run.
        hint: String,
    },
    /// The stop flag is set.
    #[error("stopped while waiting for nodes to join")]
    Stopped,
    /// The port is closed.
    #[error("the port at which nodes join is closed")]
    Closed,
}

struct Shared {
    token: Token,
    state: Mutex<State>,
    changed: Condvar,
    bell: EventFd,
}

#[derive(Default)]
struct State {
    /// First names of the joiners that wait, before the places are known.
    waiting: Vec<String>,
    /// Limit of joiners that wait, if known.
    most: Option<usize>,
    /// Empty until the host list is known.
    places: Vec<Place>,
    other_token: usize,
    strangers: usize,
    /// Reasons of the refused joiners that nothing has reported yet, and the number of all.
    refusals: VecDeque<String>,
    refused: usize,
    notices: Option<Notices>,
    /// The starter's last line.
    said: Option<String>,
    /// The reason why no more node will join.
    over: Option<String>,
    closed: bool,
}

/// Receiver of the notices that concern no single host: they carry the number of hosts as their position.
struct Notices {
    events: Sender<(usize, Event)>,
    position: usize,
}

/// A host's place for one node.
struct Place {
    name: String,
    line: Arc<Line>,
    holder: Holder,
}

enum Holder {
    Nothing,
    Joiner(Box<Joiner>),
    /// The session has its node, or has ended without one.
    Session,
}

/// A node that has joined.
pub(crate) struct Joiner {
    pub(crate) channel: Channel,
    names: Vec<String>,
    pub(crate) peer: IpAddr,
}

impl JoinPort {
    /// Listens at an address, or at all of them. Port 0 is any free one.
    pub fn open(address: Option<IpAddr>, port: u16, token: Token) -> io::Result<JoinPort> {
        let listener = match address {
            Some(address) => TcpListener::bind((address, port))?,
            // A kernel without IPv6 has only the other one.
            None => TcpListener::bind((Ipv6Addr::UNSPECIFIED, port))
                .or_else(|_| TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)))?,
        };
        // All nodes connect at once.
        listen(&listener, Backlog::MAXALLOWABLE)?;
        listener.set_nonblocking(true)?;
        let port = listener.local_addr()?.port();
        let shared = Arc::new(Shared {
            token,
            state: Mutex::default(),
            changed: Condvar::new(),
            bell: EventFd::from_flags(EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC)?,
        });
        let serve = Serve {
            listener,
            shared: Arc::clone(&shared),
            pending: VecDeque::new(),
            lobby: Vec::new(),
        };
        let thread = std::thread::Builder::new()
            .name("join".to_owned())
            .spawn(move || serve.run())?;
        Ok(JoinPort {
            shared,
            port,
            addresses: addresses(address, port),
            thread: Some(thread),
        })
    }

    /// The port's number.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Addresses to join at, as `HOST:PORT`: this machine's name, then those of its interfaces.
    pub fn addresses(&self) -> Vec<String> {
        self.addresses.clone()
    }

    /// Waits until `count` nodes have joined, until `until`, or until `stop` is not 0. Returns their names in natural
    /// order; a name can occur several times. The nodes stay connected and get the places of these names.
    pub fn gather(
        &self,
        count: usize,
        until: Instant,
        stop: &AtomicUsize,
    ) -> Result<Vec<String>, GatherError> {
        self.shared.lock().most = Some(count);
        self.shared.ring();
        loop {
            let state = self.shared.lock();
            let left = until.saturating_duration_since(Instant::now());
            if state.waiting.len() >= count {
                let mut names = state.waiting.clone();
                names.sort_by_cached_key(|name| natural(name));
                return Ok(names);
            }
            if stop.load(Ordering::Relaxed) != 0 {
                return Err(GatherError::Stopped);
            }
            if state.closed {
                return Err(GatherError::Closed);
            }
            if left.is_zero() {
                return Err(GatherError::Late {
                    joined: state.waiting.len(),
                    wanted: count,
                    names: state.waiting.clone(),
                    hint: state.hint(),
                });
            }
            drop(self.shared.changed.wait_timeout(state, left.min(LOOK_UP)));
        }
    }

    /// Makes the places of all hosts, and reports to `events` what concerns no single host.
    pub(crate) fn seats(
        &self,
        hosts: Vec<(String, Arc<Line>)>,
        events: Sender<(usize, Event)>,
        position: usize,
    ) -> Vec<Seat> {
        let mut state = self.shared.lock();
        let first = state.places.len();
        if state.closed {
            state.over.get_or_insert(CLOSED.to_owned());
        } else {
            state.notices = Some(Notices { events, position });
        }
        state
            .places
            .extend(hosts.into_iter().map(|(name, line)| Place {
                name,
                line,
                holder: Holder::Nothing,
            }));
        let seats = (first..state.places.len()).map(|place| Seat {
            place,
            shared: Arc::clone(&self.shared),
        });
        let seats = seats.collect();
        drop(state);
        self.shared.ring();
        seats
    }

    /// Keeps the starter's last line for the error of a host that does not join.
    pub(crate) fn said(&self, line: &str) {
        self.shared.lock().said = Some(line.to_owned());
    }

    /// Ends the wait of all hosts whose node has not joined.
    pub(crate) fn over(&self, reason: String) {
        self.shared.over(reason);
    }

    /// The token in hexadecimal digits.
    pub(crate) fn token(&self) -> String {
        self.shared.token.text()
    }

    /// Accepts no more joiners, and reports no more.
    pub(crate) fn close(&self) {
        let mut state = self.shared.lock();
        state.closed = true;
        state.notices = None;
        drop(state);
        self.shared.over(CLOSED.to_owned());
        self.shared.changed.notify_all();
        self.shared.ring();
    }
}

impl Drop for JoinPort {
    fn drop(&mut self) {
        self.close();
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has printed the panic.
            drop(thread.join());
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes the port's thread.
    fn ring(&self) {
        // A full counter means that a ring is pending already.
        self.bell.write(1).ok();
    }

    fn over(&self, reason: String) {
        let mut state = self.lock();
        state.over.get_or_insert(reason);
        for place in &state.places {
            place.line.ring();
        }
    }
}

impl State {
    fn place_for(&self, joiner: &Joiner) -> Result<usize, String> {
        let is_free = |place: &Place| matches!(place.holder, Holder::Nothing);
        let places = self.places.iter();
        let places = places.map(|place| (place.name.as_str(), is_free(place)));
        choose(places, &joiner.names, joiner.peer)
    }

    fn give(&mut self, place: usize, joiner: Joiner) {
        let place = &mut self.places[place];
        place.holder = Holder::Joiner(Box::new(joiner));
        place.line.ring();
    }

    fn is_full(&self) -> bool {
        let taken = |place: &Place| !matches!(place.holder, Holder::Nothing);
        !self.places.is_empty() && self.places.iter().all(taken)
    }

    /// Reports the refused joiners.
    fn report(&mut self) {
        let Some(Notices { events, position }) = &self.notices else {
            return;
        };
        for refusal in self.refusals.drain(..) {
            // A receiver that no longer exists needs no events.
            drop(events.send((*position, Event::Notice(refusal))));
        }
    }

    /// Connections that were no joiners of this run, refused joiners, and the starter's last line.
    fn hint(&self) -> String {
        let counted = |count: usize, one: &str, many: &str| match count {
            0 => None,
            1 => Some(format!("1 {one}")),
            count => Some(format!("{count} {many}")),
        };
        let parts = [
            counted(
                self.other_token,
                "connection had another token",
                "connections had another token",
            ),
            counted(
                self.strangers,
                "connection was no node",
                "connections were no nodes",
            ),
            counted(self.refused, "node was refused", "nodes were refused"),
            self.said
                .as_ref()
                .map(|line| format!("the starter's last line: {line}")),
        ];
        parts.into_iter().flatten().collect::<Vec<_>>().join("; ")
    }
}

/// A host's place at the port, held by the host's session.
pub(crate) struct Seat {
    place: usize,
    shared: Arc<Shared>,
}

/// The reason why a host's node has not joined.
pub(crate) enum Absent {
    /// The deadline passed. Causes, as far as they are known.
    Late(String),
    /// No more node can join.
    Over(String),
    Aborted,
}

impl Seat {
    /// Waits until the host's node has joined.
    pub(crate) fn wait(&self, until: Instant, line: &Line) -> Result<Joiner, Absent> {
        loop {
            line.silence();
            if line.aborted() {
                return Err(Absent::Aborted);
            }
            let left = until.saturating_duration_since(Instant::now());
            let mut state = self.shared.lock();
            let holder = std::mem::replace(&mut state.places[self.place].holder, Holder::Session);
            if let Holder::Joiner(joiner) = holder {
                return Ok(*joiner);
            }
            if let Some(reason) = &state.over {
                return Err(Absent::Over(reason.clone()));
            }
            if left.is_zero() {
                let hint = match state.hint() {
                    none if none.is_empty() => NO_CAUSE.to_owned(),
                    hint => hint,
                };
                return Err(Absent::Late(hint));
            }
            state.places[self.place].holder = Holder::Nothing;
            drop(state);
            if poll_for(&mut [PollFd::new(line.bell(), PollFlags::POLLIN)], left).is_err() {
                return Err(Absent::Aborted);
            }
        }
    }
}

impl Drop for Seat {
    /// A session that ended without a node needs none any more.
    fn drop(&mut self) {
        self.shared.lock().places[self.place].holder = Holder::Session;
        self.shared.ring();
    }
}

/// The port's thread.
struct Serve {
    listener: TcpListener,
    shared: Arc<Shared>,
    pending: VecDeque<Pending>,
    /// Joiners that wait until the places are known.
    lobby: Vec<Joiner>,
}

struct Pending {
    handshake: Handshake,
    peer: IpAddr,
    since: Instant,
}

impl Serve {
    fn run(mut self) {
        // A write to a connection that is gone returns an error, even if SIGPIPE would kill the process.
        SigSet::from_iter([Signal::SIGPIPE]).thread_block().ok();
        loop {
            // An error only means that the bell has not rung.
            self.shared.bell.read().ok();
            self.settle();
            if self.shared.lock().closed {
                return;
            }
            let Ok((ready, gone, connections)) = self.wait() else {
                return self
                    .shared
                    .over("the port at which nodes join has failed".to_owned());
            };
            let mut gone = gone.into_iter();
            self.lobby.retain(|_| !gone.next().unwrap_or(false));
            self.advance(&ready);
            if connections {
                self.accept();
            }
        }
    }

    /// Waits for an event. Returns for each pending handshake if it can advance, for each joiner in the lobby if it is
    /// gone, and if there are connections to accept.
    fn wait(&self) -> io::Result<(Vec<bool>, Vec<bool>, bool)> {
        let readable = |socket| PollFd::new(socket, PollFlags::POLLIN);
        let handshakes = self.pending.iter();
        let sockets = handshakes.map(|pending| {
            pending
                .handshake
                .socket()
                .unwrap_or(self.shared.bell.as_fd())
        });
        let lobby = self.lobby.iter().map(|joiner| joiner.channel.socket());
        let first: [BorrowedFd<'_>; 2] = [self.shared.bell.as_fd(), self.listener.as_fd()];
        let mut watched: Vec<PollFd<'_>> = first
            .into_iter()
            .chain(sockets)
            .chain(lobby)
            .map(readable)
            .collect();
        let oldest = self.pending.front();
        let timeout = oldest.map_or(TICK, |pending| {
            HANDSHAKE_DEADLINE.saturating_sub(pending.since.elapsed())
        });
        poll_for(&mut watched, timeout.min(TICK))?;
        let mut any = watched.iter().map(|entry| entry.any().unwrap_or(false));
        any.next();
        let connections = any.next().unwrap_or(false);
        let ready = any.by_ref().take(self.pending.len()).collect();
        // A joiner in the lobby says nothing, so its only event is its end.
        Ok((ready, any.collect(), connections))
    }

    fn accept(&mut self) {
        for _ in 0..ACCEPTED_PER_TURN {
            let (stream, peer) = match self.listener.accept() {
                Ok(accepted) => accepted,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => continue,
                Err(_) => return std::thread::sleep(WHEN_FULL),
            };
            if self.pending.len() >= MAX_PENDING {
                self.pending.pop_front();
                self.shared.lock().strangers += 1;
            }
            self.greet(stream, peer);
        }
    }

    fn greet(&mut self, stream: TcpStream, peer: SocketAddr) {
        if let Ok(handshake) = Handshake::new(stream) {
            self.pending.push_back(Pending {
                handshake,
                peer: peer.ip().to_canonical(),
                since: Instant::now(),
            });
        }
    }

    /// Takes what the pending connections have sent, and drops those that are strangers or late.
    fn advance(&mut self, ready: &[bool]) {
        let pending = std::mem::take(&mut self.pending);
        for (mut one, ready) in pending.into_iter().zip(ready) {
            let late = one.since.elapsed() >= HANDSHAKE_DEADLINE;
            let heard = match ready {
                true => one.handshake.advance(&self.shared.token),
                false => Ok(None),
            };
            match heard {
                Ok(None) if late => self.shared.lock().strangers += 1,
                Ok(None) => self.pending.push_back(one),
                Ok(Some((channel, names))) => self.arrive(Joiner {
                    channel,
                    names,
                    peer: one.peer,
                }),
                Err(Stranger::OtherToken) => self.shared.lock().other_token += 1,
                Err(Stranger::NoJoiner) => self.shared.lock().strangers += 1,
            }
        }
    }

    fn arrive(&mut self, mut joiner: Joiner) {
        // A connection that fails here has left: the lobby drops it, or the session that takes it reports the end.
        joiner.channel.send(Kind::Heard, b"").ok();
        self.lobby.push(joiner);
    }

    /// Gives the joiners in the lobby their places, if these are known, and refuses the others.
    fn settle(&mut self) {
        let mut state = self.shared.lock();
        let mut refused = Vec::new();
        if state.places.is_empty() {
            let most = state.most.unwrap_or(MAX_HOSTS).min(self.lobby.len());
            let all = format!("all {most} nodes have joined already");
            refused.extend(self.lobby.drain(most..).map(|joiner| (joiner, all.clone())));
        } else {
            for joiner in self.lobby.drain(..) {
                match state.place_for(&joiner) {
                    Ok(place) => state.give(place, joiner),
                    Err(reason) => refused.push((joiner, reason)),
                }
            }
        }
        for (mut joiner, reason) in refused {
            joiner.channel.send(Kind::Refused, reason.as_bytes()).ok();
            joiner.channel.shut(Shutdown::Write);
            state.refused += 1;
            if state.refused <= MAX_REFUSED {
                let name = joiner.names.first().map_or("", String::as_str);
                state
                    .refusals
                    .push_back(format!("a node of {name} that joins is refused: {reason}"));
            }
        }
        state.report();
        let first = |joiner: &Joiner| joiner.names.first().cloned();
        state.waiting = self.lobby.iter().filter_map(first).collect();
        state.closed |= state.is_full();
        drop(state);
        self.shared.changed.notify_all();
    }
}

fn names_of(names: &[String]) -> String {
    match names {
        [] => String::new(),
        names => format!(" ({})", shorten(&crate::hosts::fold(names))),
    }
}

fn in_brackets(hint: &str) -> String {
    match hint {
        "" => String::new(),
        hint => format!(" ({hint})"),
    }
}
