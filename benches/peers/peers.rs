//! Command lines of iperf3 and iperf. Starts no process.

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
}

impl Tool {
    /// Name of the command, and of its package.
    pub fn name(self) -> &'static str {
        match self {
            Tool::Iperf3 => "iperf3",
            Tool::Iperf2 => "iperf",
        }
    }
}

/// One way to run iperf.
#[derive(Debug, Clone, Copy)]
pub struct Iperf {
    tool: Tool,
    /// A client and a server for each stream, rather than for each route.
    apart: bool,
    /// Socket buffers of 256 KiB, which pipebench uses inside a machine.
    small_buffers: bool,
    /// Client and server of a pair run on the same core; the pairs take the cores in turn.
    pinned: bool,
    /// The sender sends from a file without copying.
    pub zero_copy: bool,
}

/// `-P`: all streams of a route in one client and one server.
const fn together(tool: Tool) -> Iperf {
    Iperf {
        tool,
        apart: false,
        small_buffers: false,
        pinned: false,
        zero_copy: false,
    }
}

const TOGETHER_SMALL: Iperf = Iperf {
    small_buffers: true,
    ..together(Tool::Iperf3)
};
const PAIRS: Iperf = Iperf {
    apart: true,
    ..together(Tool::Iperf3)
};
const PAIRS_SMALL: Iperf = Iperf {
    small_buffers: true,
    ..PAIRS
};
const PAIRS_ZERO_COPY: Iperf = Iperf {
    zero_copy: true,
    ..PAIRS
};

/// Defaults, with as many streams as pipebench has links.
pub const AS_PEOPLE_RUN_IT: [Iperf; 3] = [together(Tool::Iperf3), PAIRS, together(Tool::Iperf2)];

/// The same buffers, pinning and zero copy as pipebench.
pub const LIKE_FOR_LIKE: [Iperf; 7] = [
    PAIRS_SMALL,
    Iperf {
        pinned: true,
        ..PAIRS_SMALL
    },
    TOGETHER_SMALL,
    Iperf {
        tool: Tool::Iperf2,
        ..TOGETHER_SMALL
    },
    PAIRS_ZERO_COPY,
    Iperf {
        pinned: true,
        ..PAIRS_ZERO_COPY
    },
    Iperf {
        pinned: true,
        zero_copy: true,
        ..PAIRS_SMALL
    },
];

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

impl Iperf {
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
                port += 1;
            }
        }
        pairs
    }

    /// Number of connections that a pair's server has while all its streams are live: iperf3 has one more, its control
    /// connection.
    pub fn connections(&self, pair: &Pair) -> usize {
        pair.streams + usize::from(self.tool == Tool::Iperf3)
    }

    /// The server of a pair.
    pub fn server(&self, pair: &Pair, cores: usize) -> String {
        let mut line = format!("{} -s -p {}", self.command(pair, cores), pair.port);
        // iperf3's client sends the buffer size to its server.
        if self.small_buffers && self.tool == Tool::Iperf2 {
            line += BUFFERS;
        }
        line
    }

    /// The client of a pair. It sends to `address` for longer than any window lasts.
    pub fn client(&self, pair: &Pair, address: Ipv4Addr, cores: usize) -> String {
        let command = self.command(pair, cores);
        format!(
            "{command} -c {address} -p {} -t {SECONDS}{}",
            pair.port,
            self.flags(pair.streams)
        )
    }

    /// Name in a table, such as `4 x iperf3 -w 256K, pinned`.
    pub fn title(&self, routes: &[Route]) -> String {
        let pairs = self.pairs(routes, 1);
        let streams = pairs.first().map_or(1, |pair| pair.streams);
        let mut title = format!("{}{}", self.tool.name(), self.flags(streams));
        if pairs.len() > 1 {
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
            write!(flags, " -P {streams}").expect("a string takes everything");
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
