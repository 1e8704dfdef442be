//! The way from arguments to a request: what all measurements have in common is understood and checked here, and each kind adds its work.

use launcher::hosts::Host;

use crate::cli::args::{Choice, HostWords, Launch, Measurement, Order, RankWords, Sockets};
use crate::controller::Hold;
use crate::plan::ranks::Ranks;
use crate::plan::{
    Criteria, DataNetwork, Deadlines, NodeSpec, RunPlan, SocketOptions, Transport, Work,
};
use crate::record::Resumed;

use super::checks;
use super::criteria::{self, criteria_of};
use super::engine::Engine;
use super::error::{UsageError, refuse};
use super::launch::{self, deadlines_of};
use super::nodes::{hosts_of, nodes_of};
use super::sockets::{self, network_of, ports_of, sockets_of};
use super::values::Options;

/// A fully understood request.
#[derive(Debug, Clone)]
pub(crate) struct RunSpec {
    /// The plan.
    pub plan: RunPlan,
    /// Hosts of its nodes, for the launcher.
    pub hosts: Vec<Host>,
    /// What starts the nodes.
    pub engine: Engine,
    /// Options in effect, for the record and the display.
    pub options: Vec<(String, String)>,
    /// Notes for the user.
    pub notes: Vec<String>,
    /// True if hosts that were not asked yet may change processes and block size.
    pub open: bool,
    /// Stage at which the run pauses.
    pub hold: Option<Hold>,
    /// Results taken from an aborted run.
    pub resumed: Option<Resumed>,
}

/// The arguments that every measurement has.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shared<'a> {
    /// Hosts.
    pub hosts: &'a HostWords,
    /// Data ports and sockets.
    pub sockets: &'a Sockets,
    /// How hosts are reached.
    pub launch: &'a Launch,
    /// Where results go.
    pub results: &'a Measurement,
    /// What the run is judged by; `None` for kinds without criteria.
    pub order: Option<&'a Order>,
}

/// A request without its work.
#[derive(Debug)]
pub(super) struct Outline<'a> {
    shared: Shared<'a>,
    /// Hosts of the nodes.
    pub hosts: Vec<Host>,
    engine: Engine,
    /// The nodes.
    pub nodes: Vec<NodeSpec>,
    /// Criteria for the verdict.
    pub criteria: Criteria,
    /// Time limit of each stage.
    pub deadlines: Deadlines,
    /// Seed of the payload.
    pub seed: u64,
    /// True if the run continues without hosts that are unreachable or lost.
    pub keep_going: bool,
    /// Most nodes that it continues without; `None`: any number.
    pub most_missing: Option<usize>,
    /// Options of data sockets.
    pub sockets: SocketOptions,
    /// First and last port to listen on, if given.
    pub ports: Option<(u16, u16)>,
    /// Choice of the data addresses.
    pub network: DataNetwork,
}

impl<'a> Outline<'a> {
    /// Understands the shared arguments, and checks them.
    pub(super) fn of(shared: Shared<'a>) -> Result<Self, UsageError> {
        let (hosts, engine) = hosts_of(shared.hosts, shared.launch)?;
        let mut nodes = nodes_of(&hosts)?;
        let criteria = shared.order.map(|order| criteria_of(order, &mut nodes));
        let sockets = sockets_of(shared.sockets)?;
        checks::check_launch(shared.launch)?;
        engine.starter(shared.launch, &hosts)?;
        checks::check_sockets(&sockets)?;
        checks::check_results(shared.results)?;
        let most_missing = most_missing(shared.results.keep_going, nodes.len());
        Ok(Self {
            criteria: criteria.transpose()?.unwrap_or_default(),
            deadlines: deadlines_of(shared.launch)?,
            seed: 0,
            keep_going: most_missing != Some(0),
            most_missing,
            sockets,
            ports: ports_of(shared.sockets)?,
            network: network_of(shared.sockets)?,
            hosts,
            engine,
            nodes,
            shared,
        })
    }

    /// Ranks on the nodes. `flag` is the option that chose the transport.
    pub(super) fn ranks(
        &self,
        words: &RankWords,
        transport: Transport,
        flag: &str,
    ) -> Result<Ranks, UsageError> {
        if !transport.crosses_hosts() {
            checks::check_one_machine(flag, &self.hosts)?;
        }
        if words.ranks_per_node == 0 {
            return refuse("--ranks-per-node 0: at least 1");
        }
        Ok(Ranks {
            per_node: words.ranks_per_node,
            order: words.rank_order,
            pinned: !words.no_pin,
            wait: words.wait,
            transport,
            sockets: self.sockets.clone(),
            ports: self.ports,
            network: self.network.clone(),
        })
    }

    /// Says that the slots of another launcher's host file are no ranks, if it has some.
    pub(super) fn slots_note(&self) -> Option<String> {
        let mut hosts = self.hosts.iter();
        let has_slots = hosts.any(|host| host.attributes.contains_key("slots"));
        has_slots.then(|| "slots= ignored: use --ranks-per-node".to_owned())
    }

    /// The request for some work. The options of the work come first.
    pub(super) fn spec(self, work: Work, mut options: Options) -> RunSpec {
        let shared = self.shared;
        if let Some(ranks) = work.ranks() {
            rank_options(&mut options, ranks);
        }
        sockets::options(&mut options, shared.sockets);
        launch::options(&mut options, shared.launch, &self.engine);
        let share = shared.results.keep_going.map(|percent| match percent {
            100 => "yes".to_owned(),
            percent => format!("{percent}%"),
        });
        options.given("keep-going", share);
        if let Some(order) = shared.order {
            criteria::options(&mut options, order, &self.criteria);
        }
        RunSpec {
            plan: RunPlan {
                criteria: self.criteria,
                seed: self.seed,
                keep_going: self.keep_going,
                most_missing: self.most_missing.filter(|_| self.keep_going),
                ..RunPlan::of(self.nodes, work, self.deadlines)
            },
            hosts: self.hosts,
            engine: self.engine,
            options: options.0,
            notes: Vec::new(),
            open: false,
            hold: None,
            resumed: None,
        }
    }
}

/// Most nodes that a run continues without: the given share, or that of many nodes, of which some usually fail. `None`: any number.
fn most_missing(percent: Option<usize>, nodes: usize) -> Option<usize> {
    const FEW: usize = 100;
    const PERCENT_OF_MANY: usize = 1;
    let default = match nodes > FEW {
        true => PERCENT_OF_MANY,
        false => 0,
    };
    let percent = percent.unwrap_or(default);
    (percent < 100).then_some(nodes * percent / 100)
}

fn rank_options(options: &mut Options, ranks: &Ranks) {
    let sockets = &ranks.sockets;
    options.set("ranks-per-node", ranks.per_node);
    options.set("rank-order", ranks.order.word());
    options.set("wait", ranks.wait.word());
    options.flag("no-pin", !ranks.pinned);
    options.set(
        "congestion",
        sockets.congestion.as_deref().unwrap_or("system"),
    );
    options.given("sndbuf", sockets.send_buffer_bytes);
    options.given("rcvbuf", sockets.receive_buffer_bytes);
}

#[cfg(test)]
mod tests {
    use super::most_missing;

    #[test]
    fn of_more_than_a_hundred_nodes_one_percent_may_be_missing() {
        assert_eq!(most_missing(None, 100), Some(0));
        assert_eq!(most_missing(None, 101), Some(1));
        assert_eq!(most_missing(None, 1000), Some(10));
        assert_eq!(most_missing(Some(100), 3), None);
        assert_eq!(most_missing(Some(5), 40), Some(2));
        assert_eq!(most_missing(Some(0), 1000), Some(0));
    }
}
