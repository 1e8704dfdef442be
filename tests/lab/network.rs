//! Faults of a host's port: it becomes slow, one direction fails, the cable is pulled,
//! or the host dies.
//!
//! The switch is a bridge. Its port towards host n has the name pn; the host's end of the cable is
//! eth0.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::raise::{BRIDGE_MAC, Lab};
use super::running::{PATH, Running, tool, wait_until};

impl Lab {
    /// Limits the host's sending to `mbit` Mbit/s.
    pub fn shape_egress(&self, host: usize, mbit: u32) {
        self.on_host(host, &shape("eth0", mbit));
    }

    /// Limits the switch's sending to the host to `mbit` Mbit/s.
    pub fn shape_ingress(&self, host: usize, mbit: u32) {
        self.on_switch(&shape(&port(host), mbit));
    }

    /// Removes the limits in both directions.
    pub fn unshape(&self, host: usize) {
        // Replaces rather than deletes, because deleting a missing qdisc is an error.
        self.on_host(host, "tc qdisc replace dev eth0 root pfifo");
        self.on_switch(&format!("tc qdisc replace dev {} root pfifo", port(host)));
    }

    /// Drops everything from `from` to `to` from now on, silently: existing connections stall, and new
    /// ones (in either direction, because they need answers) run into their time limit. All other
    /// hosts stay reachable.
    ///
    /// `from` gets a neighbour entry that gives `to` the hardware address of the switch itself, which drops such
    /// frames.
    pub fn block(&self, from: usize, to: usize) {
        let address = self.address(to);
        self.on_host(
            from,
            &format!("ip neigh replace {address} lladdr {BRIDGE_MAC} dev eth0 nud permanent"),
        );
    }

    /// Undoes `block`.
    pub fn unblock(&self, from: usize, to: usize) {
        let address = self.address(to);
        self.on_host(from, &format!("ip neigh del {address} dev eth0"));
    }

    /// Adds a second cable, eth1, to every test host, with addresses 10.78.0.HOST on a separate switch. With `same_network`
    /// it is on the first switch and in its network, with 100 added to the host's number.
    pub fn add_rail(&self, same_network: bool) {
        let mtu = self.mtu();
        let bridge = if same_network { "br0" } else { "br1" };
        if !same_network {
            self.on_switch(&format!(
                "ip link add br1 mtu {mtu} type bridge forward_delay 0 stp_state 0"
            ));
            self.on_switch("ip link set br1 up");
        }
        for host in self.test_hosts() {
            let (first, second) = (self.first_process(host), second_port(host));
            let pair = format!("veth peer name eth1 mtu {mtu} netns {first}");
            self.on_switch(&format!("ip link add {second} mtu {mtu} type {pair}"));
            self.on_switch(&format!("ip link set {second} master {bridge} up"));
            let address = if same_network {
                let [a, b, c, d] = self.address(host).octets();
                format!("{a}.{b}.{c}.{}", d + 100)
            } else {
                format!("10.78.0.{host}")
            };
            self.on_host(host, &format!("ip addr add {address}/24 dev eth1"));
            self.on_host(host, "ip link set eth1 up");
            if let Some(mbit) = self.mbit() {
                self.shape_second_egress(host, mbit);
                self.shape_second_ingress(host, mbit);
            }
        }
    }

    /// Limits the switch's sending over the second cable of a host to `mbit` Mbit/s.
    pub fn shape_second_ingress(&self, host: usize, mbit: u32) {
        self.on_switch(&shape(&second_port(host), mbit));
    }

    /// Limits a host's sending over its second cable to `mbit` Mbit/s.
    pub fn shape_second_egress(&self, host: usize, mbit: u32) {
        self.on_host(host, &shape("eth1", mbit));
    }

    /// Makes the switch silently drop larger packets to and from a host.
    pub fn set_switch_mtu(&self, host: usize, mtu: u32) {
        self.on_switch(&format!("ip link set {} mtu {mtu}", port(host)));
    }

    /// Moves these hosts to a second switch, joined to the first one by a trunk of `mbit` Mbit/s each way.
    pub fn split(&self, hosts: &[usize], mbit: u32) {
        let mtu = self.mtu();
        self.on_switch(&format!(
            "ip link add br1 mtu {mtu} type bridge forward_delay 0 stp_state 0"
        ));
        self.on_switch("ip link set br1 up");
        self.on_switch(&format!(
            "ip link add t0 mtu {mtu} type veth peer name t1 mtu {mtu}"
        ));
        self.on_switch("ip link set t0 master br0 up");
        self.on_switch("ip link set t1 master br1 up");
        for host in hosts {
            self.on_switch(&format!("ip link set {} master br1", port(*host)));
        }
        self.shape_trunk(true, mbit);
        self.shape_trunk(false, mbit);
    }

    /// Limits the trunk from the first switch to the second one, or back, to `mbit` Mbit/s.
    pub fn shape_trunk(&self, towards_second: bool, mbit: u32) {
        let end = if towards_second { "t0" } else { "t1" };
        self.on_switch(&shape(end, mbit));
    }

    /// Limits the traffic of one pair to `mbit` Mbit/s, and all traffic that its sender sends to `port_mbit`.
    pub fn slow_pair(&self, from: usize, to: usize, port_mbit: u32, mbit: u32) {
        let class = |parent: &str, id: &str, rate: u32, ceil: u32| {
            let burst = burst_kb(ceil);
            format!(
                "tc class add dev eth0 parent {parent} classid {id} htb rate {rate}mbit ceil {ceil}mbit burst {burst}kb cburst {burst}kb"
            )
        };
        for words in [
            "tc qdisc replace dev eth0 root handle 1: htb default 10".to_owned(),
            class("1:", "1:1", port_mbit, port_mbit),
            class("1:1", "1:10", (port_mbit - mbit).max(1), port_mbit),
            class("1:1", "1:20", mbit, mbit),
            "tc qdisc add dev eth0 parent 1:10 bfifo limit 1500kb".to_owned(),
            "tc qdisc add dev eth0 parent 1:20 bfifo limit 800kb".to_owned(),
            format!(
                "tc filter add dev eth0 parent 1: protocol ip prio 1 u32 match ip dst {}/32 flowid 1:20",
                self.address(to)
            ),
        ] {
            self.on_host(from, &words);
        }
    }

    /// Sends the traffic of these pairs through one shared resource of at most `mbit` Mbit/s in total: a backplane, a
    /// chip, a path. The resource is an interface of the switch; incoming frames are redirected through it.
    pub fn share(&self, shared: &str, pairs: &[(usize, usize)], mbit: u32) {
        self.on_switch(&format!("ip link add {shared} type ifb"));
        self.on_switch(&format!("ip link set {shared} up"));
        self.on_switch(&shape(shared, mbit));
        let mut senders: Vec<usize> = pairs.iter().map(|pair| pair.0).collect();
        senders.sort_unstable();
        senders.dedup();
        for from in senders {
            let port = port(from);
            self.on_switch(&format!("tc qdisc replace dev {port} clsact"));
            for (_, to) in pairs.iter().filter(|pair| pair.0 == from) {
                let address = self.address(*to);
                self.on_switch(&format!(
                    "tc filter add dev {port} ingress protocol ip prio 1 u32 match ip dst {address}/32 action mirred egress redirect dev {shared}"
                ));
            }
        }
    }

    /// Loses one in `one_in` frames to the host on its cable from now on.
    ///
    /// The kernel does it. The switch's port sends segment by segment, so that a lost frame is one segment. On the receiving side a
    /// classifier draws a random number for each; lost frames go to an interface that is down.
    pub fn lose(&self, host: usize, one_in: u32) {
        self.on_switch(&format!("ip link set dev {} gso_max_segs 1", port(host)));
        self.on_host(host, "ip link add void type veth peer name void1");
        self.on_host(host, "tc qdisc add dev eth0 clsact");
        // Loads a random word; the frame matches, and is lost, if the word is not greater than the limit.
        let dice = format!(
            "4,32 0 0 4294963256,37 1 0 {},6 0 0 4294967295,6 0 0 0",
            u32::MAX / one_in
        );
        let mut words: Vec<&str> =
            "tc filter add dev eth0 ingress protocol all prio 1 bpf bytecode"
                .split(' ')
                .collect();
        words.push(&dice);
        words.extend("action mirred egress redirect dev void".split(' '));
        let space = format!("--net=/proc/{}/ns/net", self.first_process(host));
        let mut argv = vec!["nsenter", &space, "--"];
        argv.extend(words);
        tool(&argv);
    }

    /// Delays the cable of a host by `us` microseconds, each way, from now on. The wire process that does it runs until it is dropped.
    pub fn delay(&self, host: usize, us: u32) -> Running {
        let (mtu, port) = (self.mtu(), port(host));
        let bridge = self.bridge_of(&port);
        self.on_switch(&format!(
            "ip link add w{host} mtu {mtu} type veth peer name x{host} mtu {mtu}"
        ));
        self.on_switch(&format!("ip link set {port} nomaster"));
        self.on_switch(&format!("ip link set {port} promisc on"));
        self.on_switch(&format!("ip link set w{host} promisc on up"));
        self.on_switch(&format!("ip link set x{host} master {bridge} up"));
        let space = format!("--net=/proc/{}/ns/net", self.switch());
        let mut command = std::process::Command::new("nsenter");
        command.args([&space, "--", &wire_program()]);
        command.args([format!("w{host}"), port]);
        command.arg(us.to_string());
        let wire = self.start(command);
        wire.wait_for_line("wired", Duration::from_secs(10));
        wire
    }

    /// Plugs the cable of a host in again after its wire process has ended.
    pub fn unwire(&self, host: usize) {
        let bridge = self.bridge_of(&format!("x{host}"));
        self.on_switch(&format!("ip link del w{host}"));
        self.on_switch(&format!(
            "ip link set {} promisc off master {bridge}",
            port(host)
        ));
    }

    /// The switch that a port belongs to.
    fn bridge_of(&self, port: &str) -> String {
        let space = format!("--net=/proc/{}/ns/net", self.switch());
        let mut command = std::process::Command::new("nsenter");
        command.args([&space, "--", "ip", "-o", "link", "show", "dev", port]);
        let output = command.output().expect("nsenter runs");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let mut words = text.split_whitespace().skip_while(|word| *word != "master");
        words
            .nth(1)
            .expect("its port belongs to a switch")
            .to_owned()
    }

    /// Makes the test hosts and the switch, as leaf1, announce themselves by LLDP until the returned daemons are dropped. The switch also
    /// forwards what hosts announce, as simple switches do.
    pub fn announce(&self) -> Vec<Running> {
        const LIMIT: Duration = Duration::from_secs(60);
        let knows = |host: usize, what: &str, name: &str| {
            let said = self.run(host, &["lldpcli", "show", what], LIMIT);
            said.stdout.contains(name)
        };
        self.on_switch("ip link set br0 type bridge group_fwd_mask 0x4000");
        let own = "mkdir -p /run/lldpd && exec lldpd -d -I eth0";
        let hosts = self.test_hosts();
        let mut daemons: Vec<Running> = hosts
            .map(|host| self.spawn(host, &["sh", "-c", own]))
            .collect();
        for host in self.test_hosts() {
            let what = format!("n{host} listens to LLDP");
            wait_until(&what, LIMIT, || knows(host, "interfaces", "eth0"));
        }
        // The switch begins last: it announces itself at once, and then each half minute.
        let own = "hostname leaf1 && mount -t tmpfs lab /run && mkdir /run/lldpd && exec lldpd -d -I 'p*'";
        let space = format!("--net=/proc/{}/ns/net", self.switch());
        let mut command = std::process::Command::new("nsenter");
        command
            .args([&space, "--", "setpriv", "--pdeathsig", "KILL"])
            .args(["unshare", "--mount", "--uts", "--pid", "--fork"])
            .args(["--kill-child", "--mount-proc", "sh", "-c", own])
            .env("PATH", PATH);
        daemons.push(self.start(command));
        for host in self.test_hosts() {
            let what = format!("n{host} hears the switch");
            wait_until(&what, LIMIT, || knows(host, "neighbors", "leaf1"));
        }
        daemons
    }

    /// Makes a group of processes of a host that gets `thousandths` of one processor's time.
    pub fn throttle(&self, host: usize, thousandths: u32) -> Throttle {
        let folder = PathBuf::from(format!(
            "/sys/fs/cgroup/cpu/switchlab-{}-n{host}",
            self.first_process(host) // Other labs of this program have hosts with this number, too.
        ));
        let write = |file: &str, text: String| {
            let path = folder.join(file);
            fs::write(&path, text).unwrap_or_else(|why| panic!("lab: {}: {why}", path.display()));
        };
        fs::create_dir(&folder).unwrap_or_else(|why| panic!("lab: {}: {why}", folder.display()));
        write("cpu.cfs_period_us", "1000000".to_owned());
        write("cpu.cfs_quota_us", (thousandths * 1000).to_string());
        Throttle(folder)
    }

    /// Pulls the cable at the switch.
    pub fn link_down(&self, host: usize) {
        self.on_switch(&format!("ip link set {} down", port(host)));
    }

    /// Plugs the cable in again.
    pub fn link_up(&self, host: usize) {
        self.on_switch(&format!("ip link set {} up", port(host)));
    }

    /// Cuts the host's power: first its cable fails, so that no reset or end-of-file reaches a
    /// peer, then all its processes end. Later calls for that host panic, except
    /// for its processes and survivors.
    pub fn kill_host(&self, host: usize) {
        self.link_down(host);
        let first = self.first_process(host);
        self.note_killed(host);
        kill(first, Signal::SIGKILL)
            .unwrap_or_else(|why| panic!("lab: cannot kill n{host}: {why}"));
        wait_until("a killed host is gone", Duration::from_secs(10), || {
            self.processes(host).is_empty()
        });
    }

    /// Bytes received and sent by the host's port since the lab was raised.
    pub fn interface_bytes(&self, host: usize) -> (u64, u64) {
        let file = format!("/proc/{}/net/dev", self.first_process(host));
        let text =
            fs::read_to_string(&file).unwrap_or_else(|why| panic!("lab: n{host}: {file}: {why}"));
        let counters: Vec<u64> = text
            .lines()
            .find_map(|line| line.trim_start().strip_prefix("eth0:"))
            .unwrap_or_else(|| panic!("lab: n{host} has no eth0:\n{text}"))
            .split_whitespace()
            .map(|word| word.parse().expect("counters are numbers"))
            .collect();
        (counters[0], counters[8])
    }

    fn on_host(&self, host: usize, words: &str) {
        let space = format!("--net=/proc/{}/ns/net", self.first_process(host));
        in_network(&space, words);
    }

    fn on_switch(&self, words: &str) {
        in_network(&format!("--net=/proc/{}/ns/net", self.switch()), words);
    }
}

/// A processor share for a group of processes, until it is dropped.
pub struct Throttle(PathBuf);

impl Throttle {
    /// Adds a process; its later children belong to the group, too.
    pub fn take(&self, pid: Pid) {
        // This fails if the process has just ended, and then it needs no share.
        fs::write(self.0.join("cgroup.procs"), pid.to_string()).ok();
    }
}

impl Drop for Throttle {
    fn drop(&mut self) {
        let inside = fs::read_to_string(self.0.join("cgroup.procs")).unwrap_or_default();
        for pid in inside.lines() {
            // This fails if the process has just ended; then it is in neither group.
            fs::write("/sys/fs/cgroup/cpu/cgroup.procs", pid).ok();
        }
        let removed = wait_for_removal(&self.0);
        assert!(
            removed || std::thread::panicking(),
            "lab: {} stays",
            self.0.display()
        );
    }
}

/// Compiles the wire, once for each test program.
fn wire_program() -> String {
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/lab/wire.c");
    let own = std::env::current_exe().expect("a test knows its executable");
    let program = format!("{}-wire", own.display());
    let made = std::process::Command::new("cc")
        .args(["-O2", "-Wall", "-o", &program, source])
        .output()
        .expect("a C compiler");
    assert!(
        made.status.success(),
        "lab: {}",
        String::from_utf8_lossy(&made.stderr)
    );
    program
}

fn wait_for_removal(folder: &PathBuf) -> bool {
    for _ in 0..50 {
        if fs::remove_dir(folder).is_ok() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    false
}

/// The name of the switch's port towards a host.
pub(super) fn port(host: usize) -> String {
    format!("p{host}")
}

/// The name of the port of the second cable.
fn second_port(host: usize) -> String {
    format!("q{host}")
}

/// Shapes a device, with a queue of 12 ms. Switches have less. With a queue of 50 ms a round trip took 150 ms, so that a connection
/// that had lost a segment grew by seven segments a second, and sound ports stayed unfilled for seconds.
fn shape(device: &str, mbit: u32) -> String {
    format!(
        "tc qdisc replace dev {device} root tbf rate {mbit}mbit burst {}kb latency 12ms",
        burst_kb(mbit)
    )
}

/// Bucket of 40 ms, in kB: a virtual machine that is paused for a moment must not lose rate.
fn burst_kb(mbit: u32) -> u32 {
    (mbit * 5).max(64)
}

fn in_network(space: &str, words: &str) {
    let mut argv = vec!["nsenter", space, "--"];
    argv.extend(words.split(' '));
    tool(&argv);
}
