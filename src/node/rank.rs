//! A rank: a process that measures what it is told to, until its node lets it go.

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use crate::jobs::linktest::{Tester, TesterError};
use crate::plan::job::{RankAssignment, Round};
use crate::ranks::{Ground, Patience, RankAddress, RankError, World};
use crate::record::{RankWord, Trouble, TroubleKind};
use crate::sys::process;
use crate::sys::socket;
use crate::sys::{affinity, why};
use crate::wire::frame::{self, Decoder};
use crate::wire::hello::token_bytes;
use crate::wire::message::{FromRank, ToRank};

/// What a rank inherits.
pub struct Post<'a> {
    /// What its node was told.
    pub assignment: &'a RankAssignment,
    /// Its number.
    pub number: usize,
    /// Where it listens.
    pub listeners: &'a [OwnedFd],
    /// Its end of the line to its node.
    pub channel: &'a OwnedFd,
    /// Processors of this host, best ones first.
    pub processors: &'a [usize],
    /// The one it stays on, if it has one for itself.
    pub pinned: Option<usize>,
    /// Ranks on this host.
    pub on_host: usize,
}

/// Abstract Unix name at which a rank listens.
pub fn unix_name(token: &str, rank: usize) -> String {
    format!("pipebench-{token}-rank-{rank}")
}

/// Life of a rank; returns its exit code. Runs in a process of its own.
pub fn live(post: &Post<'_>) -> u8 {
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
                kind,
                node: String::new(),
                who: format!("rank {}", post.number),
                what,
            }));
            1
        }
    }
}

struct Rank<'a> {
    post: &'a Post<'a>,
    decoder: Decoder,
    part: Option<(World, Tester)>,
}

/// Why it cannot go on, and of what kind that is.
type Failure = (TroubleKind, String);

impl Rank<'_> {
    /// Obeys until its node hangs up.
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

    /// The next word of its node; none if that is gone, or lets it go.
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

    /// Whole, or not at all: a node that does not listen has ended this rank anyway.
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

    fn join(&self, book: &[Option<SocketAddr>]) -> Result<(World, Tester), Failure> {
        let (post, assignment) = (self.post, self.post.assignment);
        if book.len() != assignment.ranks() {
            let what = format!("told of {} ranks of {}", book.len(), assignment.ranks());
            return Err((TroubleKind::Bug, what));
        }
        let job = &assignment.job;
        let address = |(rank, address): (usize, &Option<SocketAddr>)| match address {
            Some(address) if !assignment.is_unix(rank) => RankAddress::Tcp(*address),
            _ => RankAddress::Unix(unix_name(&assignment.token, rank)),
        };
        let failed = |error: &RankError| (error.kind(), error.to_string());
        let mut listeners = Vec::new();
        for listener in post.listeners {
            let own = process::take_over(listener.as_fd());
            listeners.push(own.map_err(|error| failed(&RankError::Setup(error)))?);
        }
        let ground = Ground {
            listeners,
            book: book.iter().enumerate().map(address).collect(),
            from: assignment.port.address,
            token: token_bytes(&assignment.token),
            options: job.ranks().sockets.clone(),
            connect_limit: Duration::from_millis(assignment.deadlines.connect_ms),
            hello_limit: Duration::from_millis(assignment.deadlines.link_hello_ms),
            silence: Duration::from_millis(assignment.deadlines.silence_ms),
        };
        let patience = Patience::new(job.ranks().wait, post.on_host, post.processors.len());
        let world = World::new(post.number, ground, patience).map_err(|error| failed(&error))?;
        let tester = Tester::new(job.kernel(), post.number, world.size());
        Ok((world, tester))
    }

    fn measure(&mut self, round: &Round) -> Result<(), Failure> {
        let Some((mut world, mut tester)) = self.part.take() else {
            let what = "told to measure before it knew with whom".to_owned();
            return Err((TroubleKind::Bug, what));
        };
        let named = match round {
            Round::Whole { order, .. } => order.iter().copied().max(),
            Round::Alone { links, .. } => links.iter().map(|(from, to)| *from.max(to)).max(),
            Round::Steps { steps, .. } => {
                let links = steps.iter().flatten();
                links.map(|(from, to)| *from.max(to)).max()
            }
            Round::AllToAll => None,
        };
        if named.is_some_and(|rank| rank >= world.size()) {
            let what = "told to measure with a rank that is not there".to_owned();
            return Err((TroubleKind::Bug, what));
        }
        let failed = |error: TesterError| (error.kind(), error.to_string());
        let tell = |times: Vec<_>| {
            if !times.is_empty() {
                self.say(&FromRank::Word(RankWord::Times(times)));
            }
        };
        let all_to_all_s = match round {
            Round::AllToAll => Some(tester.all_to_all(&mut world).map_err(failed)?),
            Round::Whole { .. } | Round::Alone { .. } | Round::Steps { .. } => {
                tester.measure(&mut world, round, tell).map_err(failed)?;
                None
            }
        };
        self.say(&FromRank::Word(RankWord::Done {
            all_to_all_s,
            processor: affinity::current(),
            strangers: world.strangers(),
        }));
        self.part = Some((world, tester));
        Ok(())
    }
}
