//! Command lines of iperf3, iperf and neper. Starts no process.

use std::fmt::Write;
use std::net::Ipv4Addr;

/// Streams from one host to another or to itself.
#[derive(Debug, Clone, Copy)]
pub struct Route {
    pub from: usize,
    pub to: usize,
    pub streams: usize,
}

/// The program to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tool {
    Iperf3,
    Iperf2,
    Neper,
}

impl Tool {
    /// Name of the command.
    pub fn name(self) -> &'static str {
        match self {
            Tool::Iperf3 => "iperf3",
            Tool::Iperf2 => "iperf",
            Tool::Neper => "tcp_stream",
        }
    }
}

/// One way to run a peer.
#[derive(Debug, Clone, Copy)]
pub struct Way {
    pub tool: Tool,
    /// A client and a server for each stream, rather than for each route.
    pub apart: bool,
    /// Socket buffers of 256 KiB.
    pub small_buffers: bool,
    /// Client and server of a pair run on the same core; the pairs take the cores in turn.
    pub pinned: bool,
    /// The sender sends from a file without copying.
    pub zero_copy: bool,
}

/// All streams of a route in one client and one server, with defaults.
const fn together(tool: Tool) -> Way {
    Way {
        tool,
        apart: false,
        small_buffers: false,
        pinned: false,
        zero_copy: false,
    }
}

/// Every way. Those without options are how people run it.
pub fn ways() -> Vec<Way> {
    let mut ways = [Tool::Iperf3, Tool::Iperf2, Tool::Neper]
        .map(together)
        .to_vec();
    let either = || [false, true].into_iter();
    for (apart, small_buffers) in either().flat_map(|one| either().map(move |other| (one, other))) {
        for (pinned, zero_copy) in either().flat_map(|one| either().map(move |other| (one, other)))
        {
            let way = Way {
                apart,
                small_buffers,
                pinned,
                zero_copy,
                ..together(Tool::Iperf3)
            };
            // One process with all streams on one core of several would only be slower.
            if (apart || !pinned) && (apart || small_buffers || zero_copy) {
                ways.push(way);
            }
        }
    }
    for (apart, small_buffers) in [(true, false), (true, true), (false, true)] {
        ways.push(Way {
            apart,
            small_buffers,
            ..together(Tool::Iperf2)
        });
    }
    ways
}

/// A client and a server.
#[derive(Debug, Clone, Copy)]
pub struct Pair {
    pub from: usize,
    pub to: usize,
    pub port: u16,
    streams: usize,
    /// Number of the pair, which determines its core.
    index: usize,
}

impl Way {
    /// True if it has no options beyond the number of streams.
    pub fn is_default(&self) -> bool {
        !self.small_buffers && !self.pinned && !self.zero_copy
    }

    /// The pairs that carry these streams, on ports from `first_port` on.
    pub fn pairs(&self, routes: &[Route], first_port: u16) -> Vec<Pair> {
        let mut pairs = Vec::new();
        let mut port = first_port;
        for route in routes {
            let (count, streams) = if self.apart {
                (route.streams, 1)
            } else {
                (1, route.streams)
            };
            for _ in 0..count {
                pairs.push(Pair {
                    from: route.from,
                    to: route.to,
                    port,
                    streams,
                    index: pairs.len(),
                });
                port += self.ports();
            }
        }
        pairs
    }

    /// Number of ports of a pair.
    pub fn ports(&self) -> u16 {
        1 + u16::from(self.tool == Tool::Neper)
    }

    /// The port on which a pair's server waits once it has started. neper has one for its control connection.
    pub fn waits_on(&self, pair: &Pair) -> u16 {
        pair.port + self.ports() - 1
    }

    /// Number of connections that a pair's server has on its port while all its streams are live: iperf3 has one more, its control
    /// connection.
    pub fn connections(&self, pair: &Pair) -> usize {
        pair.streams + usize::from(self.tool == Tool::Iperf3)
    }

    /// The server of a pair.
    pub fn server(&self, pair: &Pair, cores: usize) -> String {
        let command = self.command(pair, cores);
        if self.tool == Tool::Neper {
            return format!("{command} {}", self.neper(pair, cores));
        }
        let mut line = format!("{command} -s -p {}", pair.port);
        // iperf3's client sends the buffer size to its server.
        if self.small_buffers && self.tool == Tool::Iperf2 {
            line += BUFFERS;
        }
        line
    }

    /// The client of a pair. It sends to `address` for longer than any window lasts.
    pub fn client(&self, pair: &Pair, address: Ipv4Addr, cores: usize) -> String {
        let command = self.command(pair, cores);
        if self.tool == Tool::Neper {
            return format!("{command} -c -H {address} {}", self.neper(pair, cores));
        }
        format!(
            "{command} -c {address} -p {} -t {SECONDS}{}",
            pair.port,
            self.flags(pair.streams)
        )
    }

    /// Options of both ends of neper, which has a thread for each core.
    fn neper(&self, pair: &Pair, cores: usize) -> String {
        format!(
            "-P {} -C {} -l {SECONDS} -F {} -T {}",
            pair.port,
            self.waits_on(pair),
            pair.streams,
            cores.min(pair.streams)
        )
    }

    /// Name in a table, such as `4 x iperf3 -w 256K, pinned`.
    pub fn title(&self, routes: &[Route]) -> String {
        let pairs = self.pairs(routes, 1);
        let streams = pairs.first().map_or(1, |pair| pair.streams);
        let mut title = format!("{}{}", self.tool.name(), self.flags(streams));
        if pairs.len() > 1 || self.apart {
            title = format!("{} x {title}", pairs.len());
        }
        if self.pinned {
            title += ", pinned";
        }
        title
    }

    fn command(&self, pair: &Pair, cores: usize) -> String {
        let name = self.tool.name();
        if self.pinned {
            format!("taskset -c {} {name}", pair.index % cores)
        } else {
            name.to_owned()
        }
    }

    fn flags(&self, streams: usize) -> String {
        let mut flags = String::new();
        if !self.apart {
            let flag = if self.tool == Tool::Neper { "-F" } else { "-P" };
            write!(flags, " {flag} {streams}").expect("a string takes everything");
        }
        if self.small_buffers {
            flags += BUFFERS;
        }
        if self.zero_copy {
            flags += " -Z";
        }
        flags
    }
}

const BUFFERS: &str = " -w 256K";
const SECONDS: u32 = 300;
