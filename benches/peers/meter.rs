//! Counters of a lab's hosts: bytes of interfaces, CPU time of a peer's processes, states of sockets.
//!
//! Reads everything from outside through /proc, so that reading starts no process on a host.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use nix::unistd::Pid;

use super::lab::Lab;
use super::table::Sample;

/// A host, and the folder that shows its network from outside.
pub struct Host {
    pub number: usize,
    folder: PathBuf,
}

impl Host {
    /// Finds the host through the lab's own process there.
    pub fn of(lab: &Lab, number: usize) -> Host {
        let processes = lab.processes(number);
        let first = processes
            .iter()
            .find(|process| process.args.contains("/host.sh"))
            .expect("a host that stands has its first process");
        Host {
            number,
            folder: PathBuf::from(format!("/proc/{}/net", first.pid)),
        }
    }

    /// TCP sockets of this host by local port.
    pub fn sockets(&self) -> HashMap<u16, Sockets> {
        let mut ports: HashMap<u16, Sockets> = HashMap::new();
        for table in ["tcp", "tcp6"] {
            let text = fs::read_to_string(self.folder.join(table)).unwrap_or_default();
            for (port, state) in text.lines().skip(1).filter_map(port_and_state) {
                let sockets = ports.entry(port).or_default();
                match state {
                    "0A" => sockets.listening += 1,
                    "01" => sockets.established += 1,
                    _ => {}
                }
            }
        }
        ports
    }
}

/// Counts of a server's sockets on its port.
#[derive(Debug, Default)]
pub struct Sockets {
    pub listening: usize,
    pub established: usize,
}

/// Parses a line of /proc/net/tcp: number, local address, remote address, state.
fn port_and_state(line: &str) -> Option<(u16, &str)> {
    let mut fields = line.split_whitespace().skip(1);
    let (_, port) = fields.next()?.rsplit_once(':')?;
    let state = fields.nth(1)?;
    Some((u16::from_str_radix(port, 16).ok()?, state))
}

/// The files that hold the counters. Their paths are looked up before the window, so that its edges are short.
pub struct Meter {
    interfaces: Vec<PathBuf>,
    /// For each process of the peer, the files of its threads.
    processes: Vec<Vec<PathBuf>>,
}

/// Counters at one moment.
pub struct Reading {
    at: Instant,
    /// Bytes sent by all interfaces of the hosts that carry streams: over the cable, and to themselves.
    bytes: u64,
    /// CPU time of each process.
    cpu_ns: Vec<u64>,
}

impl Meter {
    /// Finds the counters of the interfaces and the processes of this program that run on these hosts now.
    pub fn find(lab: &Lab, hosts: &[Host], program: &str) -> Meter {
        let processes = hosts.iter().flat_map(|host| lab.processes(host.number));
        let peers = processes.filter(|process| process.name == program);
        let threads = |pid: Pid| {
            let listed = fs::read_dir(format!("/proc/{pid}/task"));
            let found = listed.into_iter().flatten().flatten();
            found
                .map(|thread| thread.path().join("schedstat"))
                .collect()
        };
        Meter {
            interfaces: hosts.iter().map(|host| host.folder.join("dev")).collect(),
            processes: peers.map(|process| threads(process.pid)).collect(),
        }
    }

    /// Reads all counters.
    pub fn read(&self) -> Result<Reading, String> {
        let mut reading = Reading {
            at: Instant::now(),
            bytes: 0,
            cpu_ns: Vec::new(),
        };
        for file in &self.interfaces {
            reading.bytes += sent_bytes(&read(file)?);
        }
        for threads in &self.processes {
            let mut sum = 0;
            for file in threads {
                sum += cpu_ns(&read(file)?);
            }
            reading.cpu_ns.push(sum);
        }
        Ok(reading)
    }
}

impl Reading {
    /// Rate and cost between two readings. A process that used no CPU time carried no stream, even if its sockets look connected:
    /// the others took its share.
    pub fn since(&self, before: &Reading) -> Result<Sample, String> {
        let bytes = (self.bytes - before.bytes) as f64;
        let spent = self.cpu_ns.iter().zip(&before.cpu_ns);
        let spent: Vec<u64> = spent.map(|(after, before)| after - before).collect();
        let idle = spent.iter().filter(|ns| **ns == 0).count();
        if idle > 0 {
            return Err(format!("{idle} of its processes stood still"));
        }
        Ok(Sample {
            gb_per_s: bytes / 1e9 / (self.at - before.at).as_secs_f64(),
            cpu_s_per_gb: spent.iter().sum::<u64>() as f64 / bytes.max(1.0),
        })
    }
}

fn read(file: &Path) -> Result<String, String> {
    fs::read_to_string(file).map_err(|why| format!("a process is gone: {why}"))
}

/// Sums the sent bytes in a table of interfaces: eight columns for receiving come first, then those for sending.
fn sent_bytes(table: &str) -> u64 {
    let counters = table.lines().filter_map(|line| line.split_once(':'));
    counters
        .filter_map(|(_, counters)| counters.split_whitespace().nth(8)?.parse::<u64>().ok())
        .sum()
}

/// CPU time from schedstat, in nanoseconds. /proc/PID/stat counts whole ticks: too coarse for many processes and short windows.
fn cpu_ns(schedstat: &str) -> u64 {
    let first = schedstat.split_whitespace().next();
    first.and_then(|word| word.parse().ok()).unwrap_or(0)
}
