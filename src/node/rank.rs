//! A rank: a process that measures what its node requests, until the node closes its channel.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use crate::jobs::imb::Player;
use crate::jobs::linktest::{Tester, TesterError};
use crate::link::Endpoint;
use crate::plan::LinkKind;
use crate::plan::job::{Job, MESSAGE_BYTES, RankAssignment, Round};
use crate::ranks::{RankError, SharedMemory, WaitStrategy, World, WorldConfig};
use crate::record::{Trouble, TroubleKind};
use crate::sys::{affinity, process, socket, why};
use crate::wire::frame::{self, Decoder};
use crate::wire::hello::secret_bytes;
use crate::wire::message::{FromRank, RankWord, ToRank};

/// Everything that a rank inherits from its node.
pub(super) struct Post<'a> {
    /// The node's part of the job.
    pub assignment: &'a RankAssignment,
    /// Number of the rank.
    pub number: usize,
    /// Its listeners.
    pub listeners: &'a [OwnedFd],
    /// Memory that it shares with the other ranks of its node, lowest rank first.
    pub shared: Option<&'a Arc<SharedMemory>>,
    /// Its end of the channel to its node.
    pub channel: &'a OwnedFd,
    /// Processors of this host, best ones first.
    pub processors: &'a [usize],
    /// Processor to which it is pinned, if it has one for itself.
    pub pinned: Option<usize>,
    /// Number of ranks on this host.
    pub on_host: usize,
}

/// Abstract Unix name on which a rank listens.
pub(super) fn unix_name(names: &str, rank: usize) -> String {
    format!("pipebench-{names}-rank-{rank}")
}

/// Runs a rank in a child process and returns the exit code.
pub(super) fn run(post: &Post<'_>) -> u8 {
    process::set_name(&format!("pb-rank-{}", post.number));
    if let Some(processor) = post.pinned {
        affinity::stay_on(processor);
    }
    let mut rank = Rank {
        post,
        decoder: Decoder::default(),
        part: None,
    };
    match rank.serve() {
        Ok(()) => 0,
        Err((kind, what)) => {
            rank.say(&FromRank::Trouble(Trouble {
                who: format!("rank {}", post.number),
                ..Trouble::own(kind, what)
            }));
            1
        }
    }
}

struct Rank<'a> {
    post: &'a Post<'a>,
    decoder: Decoder,
    part: Option<(World, Work)>,
}

/// The measurements that a rank can run, by kind of job.
enum Work {
    Linktest(Box<Tester>),
    Imb(Box<Player>),
}

/// Kind and description of a failure.
type Failure = (TroubleKind, String);

impl Rank<'_> {
    /// Executes messages until the node closes the channel.
    fn serve(&mut self) -> Result<(), Failure> {
        while let Some(word) = self.listen()? {
            match word {
                ToRank::Book(book) => {
                    self.part = Some(self.join(&book)?);
                    self.say(&FromRank::Word(RankWord::Ready));
                }
                ToRank::Round(round) => self.measure(&round)?,
            }
        }
        Ok(())
    }

    /// Returns the node's next message, or `None` if the node is gone or has closed the channel.
    fn listen(&mut self) -> Result<Option<ToRank>, Failure> {
        let broken = |error: &dyn std::fmt::Display| {
            (TroubleKind::Bug, format!("cannot hear its node: {error}"))
        };
        loop {
            let message = self
                .decoder
                .next_message()
                .map_err(|error| broken(&error))?;
            if let Some(message) = message {
                let word = serde_json::from_slice(&message).map_err(|error| broken(&error))?;
                return Ok(Some(word));
            }
            let mut bytes = [0; 65536];
            match socket::receive_bytes(self.post.channel.as_fd(), &mut bytes) {
                Ok(0) => return Ok(None),
                Ok(got) => self.decoder.push(&bytes[..got]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(broken(&why(&error))),
            }
        }
    }

    /// Sends a whole message. Gives up on an error: a node that does not read has ended this rank anyway.
    fn say(&self, word: &FromRank) {
        let Ok(text) = serde_json::to_vec(word) else {
            return;
        };
        let bytes = frame::encode(&text);
        let mut sent = 0;
        while sent < bytes.len() {
            match socket::send_bytes(self.post.channel.as_fd(), &bytes[sent..]) {
                Ok(more) => sent += more,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return,
            }
        }
    }

    fn join(&self, book: &[Option<SocketAddr>]) -> Result<(World, Work), Failure> {
        let (post, assignment) = (self.post, self.post.assignment);
        if book.len() != assignment.ranks() {
            let what = format!(
                "received the addresses of {} of {} ranks",
                book.len(),
                assignment.ranks()
            );
            return Err((TroubleKind::Bug, what));
        }
        let job = &assignment.job;
        let at_home = job
            .ranks()
            .of_node(assignment.run.node, assignment.run.nodes());
        let place = |rank| at_home.iter().position(|other| *other == rank).unwrap_or(0);
        let address = |(rank, address): (usize, &Option<SocketAddr>)| match (
            assignment.link_to(rank),
            address,
        ) {
            (LinkKind::Tcp, Some(address)) => Endpoint::Tcp(*address),
            (LinkKind::Memory, _) => Endpoint::Memory(place(rank)),
            (LinkKind::Tcp | LinkKind::Unix | LinkKind::Pair, _) => {
                Endpoint::Unix(unix_name(&assignment.run.names, rank))
            }
        };
        let failed = |error: &RankError| (error.kind(), error.to_string());
        let mut listeners = Vec::new();
        for listener in post.listeners {
            let own = process::take_over(listener.as_fd());
            listeners.push(own.map_err(|error| failed(&RankError::Setup(error)))?);
        }
        let config = WorldConfig {
            listeners,
            shared: post.shared.cloned(),
            book: book.iter().enumerate().map(address).collect(),
            from: assignment.port.address,
            secret: secret_bytes(&assignment.run.secret),
            options: job.ranks().sockets.clone(),
            connect_limit: Duration::from_millis(assignment.run.deadlines.connect_ms),
            hello_limit: Duration::from_millis(assignment.run.deadlines.link_hello_ms),
            // Half as long again as that of the launching side, so that it names a lost host before others miss that host.
            silence: Duration::from_millis(assignment.run.deadlines.silence_ms / 2 * 3),
        };
        let waiting = WaitStrategy::new(job.ranks().wait, post.on_host, post.processors.len());
        let world = World::new(post.number, config, waiting).map_err(|error| failed(&error))?;
        let work = match job {
            Job::Linktest(linktest) => {
                Work::Linktest(Box::new(Tester::new(linktest, post.number, world.size())))
            }
            Job::Imb(imb) => Work::Imb(Box::new(Player::new(imb, &assignment.run.token))),
        };
        Ok((world, work))
    }

    fn measure(&mut self, round: &Round) -> Result<(), Failure> {
        let refuse = |what: &str| Err((TroubleKind::Bug, what.to_owned()));
        let Some((mut world, mut work)) = self.part.take() else {
            return refuse("received a round before the addresses of the ranks");
        };
        let named = match round {
            Round::Whole { order, .. } => order.iter().copied().max(),
            Round::Alone { links, .. } => links.iter().map(|(from, to)| *from.max(to)).max(),
            Round::Steps { steps, .. } => {
                let links = steps.iter().flatten();
                links.map(|(from, to)| *from.max(to)).max()
            }
            Round::Table(table) => table.groups.iter().flatten().copied().max(),
            Round::AllToAll => None,
        };
        if named.is_some_and(|rank| rank >= world.size()) {
            return refuse("received a round with an unknown rank");
        }
        if let Round::Table(table) = round {
            let longest = table.lengths.iter().map(|length| length.bytes).max();
            if longest.is_some_and(|bytes| bytes > *MESSAGE_BYTES.end()) {
                return refuse("received a round with too long messages");
            }
        }
        let failed = |error: TesterError| (error.kind(), error.to_string());
        let tell = |times: Vec<_>| {
            if !times.is_empty() {
                self.say(&FromRank::Word(RankWord::Times(times)));
            }
        };
        let all_to_all_s = match (&mut work, round) {
            (Work::Imb(player), Round::Table(table)) => {
                let tell = |line| self.say(&FromRank::Word(RankWord::Line(Box::new(line))));
                let played = player.play(&mut world, table, tell);
                played.map_err(|error| (error.kind(), error.to_string()))?;
                None
            }
            (Work::Linktest(tester), Round::AllToAll) => {
                Some(tester.all_to_all(&mut world).map_err(failed)?)
            }
            (Work::Imb(_), _) | (Work::Linktest(_), Round::Table(_)) => {
                return refuse("received a round of another kind of run");
            }
            (Work::Linktest(tester), _) => {
                tester.measure(&mut world, round, tell).map_err(failed)?;
                None
            }
        };
        let processor = match &work {
            Work::Linktest(tester) => tester.processor(),
            Work::Imb(_) => affinity::current(),
        };
        self.say(&FromRank::Word(RankWord::Done {
            all_to_all_s,
            processor,
            strangers: world.strangers(),
        }));
        self.part = Some((world, work));
        Ok(())
    }
}
