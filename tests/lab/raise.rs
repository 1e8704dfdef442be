//! Life cycle of a lab: raise, enter, drop.
//!
//! Order of raising: sweep files of killed labs from the temporary folder; the switch and all hosts build their
//! namespaces and keys (`host.sh`) in parallel; the cables are plugged in; sshd starts
//! everywhere; known hosts are written to n0; the temporary folder is removed, so that no part of a standing lab
//! lies outside its namespaces.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::census::{all_pids, children_of, pid_space_of, read_process};
use super::network::port;
use super::running::{Finished, PATH, Running, tool};

/// Options of a lab.
#[derive(Debug, Clone)]
pub struct LabOptions {
    /// Number of test hosts n1..; the launching host n0 is added.
    pub hosts: usize,
    pub mtu: u32,
    /// Speed of every port of a test host both ways, in Mbit/s. Without a limit a run takes all processors from the labs beside it; with a
    /// low one it takes long to copy the executable there.
    pub mbit: Option<u32>,
    /// Folders that are empty on the test hosts and unchanged on n0.
    pub hide: Vec<PathBuf>,
    /// Number of the host without libssl and libcrypto.
    pub without_openssl: Option<usize>,
    /// Congestion control of every host; `None` keeps the system's.
    pub congestion: Option<&'static str>,
    /// Addresses are 10.SUBNET.0.HOST. Labs at the same time can share it: they have no network in
    /// common.
    pub subnet: u8,
}

impl Default for LabOptions {
    fn default() -> LabOptions {
        LabOptions {
            hosts: 3,
            mtu: 1500,
            mbit: Some(400),
            hide: vec![build_folder()],
            without_openssl: None,
            congestion: None,
            subnet: 77,
        }
    }
}

/// Cargo's build folder, which contains the running test.
pub fn build_folder() -> PathBuf {
    let test = std::env::current_exe().expect("a test knows its executable");
    let marked = test
        .ancestors()
        .filter(|folder| folder.join("CACHEDIR.TAG").exists());
    marked.last().map_or_else(
        || {
            panic!(
                "no folder above {} is marked by cargo as its build folder",
                test.display()
            )
        },
        Path::to_path_buf,
    )
}

/// Hosts and a switch that stand until this value is dropped or the test's process has ended.
pub struct Lab {
    options: LabOptions,
    hosts: Vec<Host>,
    switch: Space,
}

impl Lab {
    /// Builds a lab. Panics with the reason if this machine cannot: a skipped lab is a failed
    /// run.
    pub fn raise(options: LabOptions) -> Lab {
        assert!(options.hosts <= 250, "lab: at most 250 hosts");
        expect_means();
        sweep();
        let folder = Folder::make();
        write_common_files(&folder.0, &options);

        let switch = Space::open(&["--net"], &folder.0, "switch", "switch", &options);
        let opened: Vec<Space> = (0..=options.hosts)
            .map(|host| {
                let role = if host == 0 { "launching" } else { "test" };
                Space::open(HOST_SPACES, &folder.0, role, &Lab::name(host), &options)
            })
            .collect();
        switch.running.wait_for_line("ready", DEADLINE);
        let hosts = opened.into_iter().map(Host::first_seen).collect();
        let mut lab = Lab {
            options,
            hosts,
            switch,
        };
        lab.plug_in(&folder.0);
        for host in &lab.hosts {
            host.space.running.wait_for_line("ready", DEADLINE);
        }
        lab.write_known_hosts(&folder.0);
        for host in 0..lab.hosts.len() {
            lab.hosts[host].first_names = lab.names(host);
        }
        for (host, mbit) in lab
            .test_hosts()
            .filter_map(|host| Some((host, lab.options.mbit?)))
        {
            lab.shape_egress(host, mbit);
            lab.shape_ingress(host, mbit);
        }
        lab
    }

    /// The host's address on the lab's network; n0 has the highest one.
    pub fn address(&self, host: usize) -> Ipv4Addr {
        address(&self.options, host)
    }

    /// The host's name, which every host of the lab can resolve.
    pub fn name(host: usize) -> String {
        format!("n{host}")
    }

    /// The MTU of every interface when the lab was raised.
    pub(super) fn mtu(&self) -> u32 {
        self.options.mtu
    }

    /// Speed of every port when the lab was raised, in Mbit/s.
    pub(super) fn mbit(&self) -> Option<u32> {
        self.options.mbit
    }

    /// The numbers of the test hosts.
    pub fn test_hosts(&self) -> std::ops::RangeInclusive<usize> {
        1..=self.options.hosts
    }

    /// A command on that host, in its own session and with the environment of a fresh login. The
    /// caller can add variables and another standard input. It dies with the host, with the lab
    /// and with the process that is spawned from it.
    pub fn command(&self, host: usize, argv: &[&str]) -> Command {
        let mut command = Command::new("nsenter");
        command
            .args(["--mount", "--uts", "--ipc", "--net", "--pid", "--target"])
            .arg(self.first_process(host).to_string())
            .args(["--", "setpriv", "--pdeathsig", "KILL"])
            .args(["setsid", "env", "--chdir=/root"])
            .args(argv)
            .env_clear()
            .envs([("PATH", PATH), ("LANG", "C"), ("SHELL", "/bin/sh")])
            .envs([("HOME", "/root"), ("USER", "root"), ("LOGNAME", "root")])
            .stdin(Stdio::null());
        command
    }

    /// Starts a command made by `command`, with both outputs captured.
    pub fn start(&self, command: Command) -> Running {
        Running::start(command, true)
    }

    /// Starts a command on that host.
    pub fn spawn(&self, host: usize, argv: &[&str]) -> Running {
        self.start(self.command(host, argv))
    }

    /// Runs a command on that host to its end; at the deadline kills it and panics
    /// with all output.
    #[track_caller]
    pub fn run(&self, host: usize, argv: &[&str], deadline: Duration) -> Finished {
        self.spawn(host, argv).finish(deadline)
    }

    /// The first process of a standing host; panics if the host was killed.
    #[track_caller]
    pub(super) fn first_process(&self, host: usize) -> Pid {
        let killed = self.hosts[host].killed.load(Ordering::SeqCst);
        assert!(!killed, "lab: n{host} was killed");
        self.hosts[host].first
    }

    /// True for the lab's own first process on a host, standing or killed.
    pub(super) fn is_first(&self, host: usize, pid: Pid) -> bool {
        self.hosts[host].first == pid
    }

    pub(super) fn note_killed(&self, host: usize) {
        self.hosts[host].killed.store(true, Ordering::SeqCst);
    }

    pub(super) fn pid_space(&self, host: usize) -> &PathBuf {
        &self.hosts[host].pid_space
    }

    pub(super) fn first_names(&self, host: usize) -> &BTreeSet<String> {
        &self.hosts[host].first_names
    }

    pub(super) fn switch(&self) -> Pid {
        self.switch.running.outer()
    }

    /// Plugs a cable from the switch into every host, then notifies the hosts.
    fn plug_in(&mut self, folder: &Path) {
        let mtu = self.options.mtu;
        let mut cables = String::new();
        for (number, host) in self.hosts.iter().enumerate() {
            let (port, first) = (port(number), host.first);
            cables += &format!(
                "link add {port} mtu {mtu} type veth peer name eth0 mtu {mtu} netns {first}\n\
                 link set {port} master br0 up\n"
            );
        }
        let file = folder.join("cables");
        write(&file, &cables);
        let space = format!("--net=/proc/{}/ns/net", self.switch());
        tool(&["nsenter", &space, "ip", "-batch", &file.to_string_lossy()]);
        for host in &mut self.hosts {
            let lifeline = host.space.lifeline.as_mut().expect("held until the drop");
            writeln!(lifeline, "wired").expect("a host that just spoke still listens");
        }
    }

    /// Writes all keys of all hosts to n0, by name and address; hosts with odd numbers are hashed.
    fn write_known_hosts(&self, folder: &Path) {
        let (mut plain, mut hashed) = (String::new(), String::new());
        for host in 0..self.hosts.len() {
            for kind in ["ed25519", "ecdsa"] {
                let key = read(&self.path(host, &format!("/run/lab/host_{kind}.pub")));
                let line = format!("{},{} {key}", Lab::name(host), self.address(host));
                if host % 2 == 1 {
                    hashed += &line;
                } else {
                    plain += &line;
                }
            }
        }
        let file = folder.join("hashed");
        write(&file, &hashed);
        if !hashed.is_empty() {
            tool(&["ssh-keygen", "-q", "-H", "-f", &file.to_string_lossy()]);
        }
        write(
            &self.path(0, "/root/.ssh/known_hosts"),
            &(plain + &read(&file)),
        );
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        // Deletes the cables first and by name, because the kernel frees a network namespace only some time after
        // its last process ends.
        let ports: String = (0..self.hosts.len())
            .map(|host| format!("ip link del {}; ", port(host)))
            .collect();
        let space = format!("--net=/proc/{}/ns/net", self.switch());
        Command::new("nsenter")
            .args([&space, "sh", "-c", &ports])
            .env("PATH", PATH)
            .stderr(Stdio::null())
            .status()
            .ok();
        for host in &mut self.hosts {
            // unshare, the outer process, ends once the kernel has ended all processes inside.
            host.space.lifeline = None;
            if host.space.running.is_running() && !host.killed.load(Ordering::SeqCst) {
                kill(host.first, Signal::SIGKILL).ok();
            }
        }
        for host in &mut self.hosts {
            host.space.running.ends_within(DEADLINE);
        }
    }
}

/// A process that holds namespaces, and the pipe that keeps it alive. It is a pipe because a death
/// signal follows the creating thread: a lab shared by several tests would end with the
/// first of them.
struct Space {
    running: Running,
    lifeline: Option<ChildStdin>,
}

impl Space {
    fn open(spaces: &[&str], folder: &Path, role: &str, name: &str, options: &LabOptions) -> Space {
        let hide: Vec<_> = options
            .hide
            .iter()
            .map(|path| path.to_string_lossy())
            .collect();
        let number = name
            .strip_prefix('n')
            .and_then(|digits| digits.parse().ok());
        let bare = number.is_some() && number == options.without_openssl;
        let mut command = Command::new("unshare");
        command
            .args(spaces)
            .arg("bash")
            .arg(folder.join("host.sh"))
            .env_clear()
            .envs([("PATH", PATH), ("LANG", "C"), ("HOME", "/root")])
            .envs([("LAB_ROLE", role), ("LAB_NAME", name)])
            .env("LAB_FOLDER", folder)
            .env(
                "LAB_ADDRESS",
                address(options, number.unwrap_or(0)).to_string(),
            )
            .env("LAB_BRIDGE_MAC", BRIDGE_MAC)
            .env("LAB_MTU", options.mtu.to_string())
            .env("LAB_HIDE", hide.join("\n"))
            .env("LAB_WITHOUT_OPENSSL", if bare { "yes" } else { "no" })
            .env("LAB_CONGESTION", options.congestion.unwrap_or_default())
            .stdin(Stdio::piped());
        let mut running = Running::start(command, false);
        let lifeline = running.take_stdin();
        Space { running, lifeline }
    }
}

struct Host {
    space: Space,
    /// Process 1 of the host, by its pid outside.
    first: Pid,
    pid_space: PathBuf,
    first_names: BTreeSet<String>,
    killed: AtomicBool,
}

impl Host {
    /// Waits until the host's namespaces exist.
    fn first_seen(space: Space) -> Host {
        space.running.wait_for_line("spaces", DEADLINE);
        let first = *children_of(space.running.outer())
            .first()
            .expect("unshare waits for the process that just spoke");
        let pid_space = pid_space_of(first).expect("the process that just spoke still lives");
        Host {
            space,
            first,
            pid_space,
            first_names: BTreeSet::new(),
            killed: AtomicBool::new(false),
        }
    }
}

/// Folder of a lab's files while the lab is raised; removed when dropped.
struct Folder(PathBuf);

impl Folder {
    fn make() -> Folder {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("{MARK}{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir(&folder)
            .unwrap_or_else(|why| panic!("lab: cannot make {}: {why}", folder.display()));
        Folder(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).ok();
    }
}

/// Writes the files that every host copies: the script, the table of names, and the key of the launching
/// host.
fn write_common_files(folder: &Path, options: &LabOptions) {
    let mut names = String::from("127.0.0.1 localhost\n");
    for host in 0..=options.hosts {
        let alias = if host == 0 { " ctl" } else { "" };
        names += &format!("{} {}{alias}\n", address(options, host), Lab::name(host));
    }
    write(&folder.join("hosts"), &names);
    write(&folder.join("host.sh"), include_str!("host.sh"));
    let key = folder.join("id_ed25519");
    let key = key.to_string_lossy();
    tool(&[
        "ssh-keygen",
        "-q",
        "-t",
        "ed25519",
        "-N",
        "",
        "-C",
        "lab",
        "-f",
        &key,
    ]);
}

fn expect_means() {
    assert!(
        nix::unistd::geteuid().is_root(),
        "lab: making hosts out of namespaces needs root: run the tests as root"
    );
    let missing: Vec<_> = MEANS
        .iter()
        .filter(|(program, _)| {
            !PATH
                .split(':')
                .any(|folder| Path::new(folder).join(program).exists())
        })
        .map(|(program, package)| format!("{program} (package {package})"))
        .collect();
    assert!(
        missing.is_empty(),
        "lab: not installed: {}",
        missing.join(", ")
    );
}

/// Removes the remains of labs of dead tests. Their processes end without help, except
/// stopped ones.
fn sweep() {
    let owner_is_dead = |text: &str| {
        let owner = text
            .split_once(MARK)
            .and_then(|(_, rest)| rest.split('-').next());
        owner
            .is_some_and(|pid| pid.parse::<u32>().is_ok() && !Path::new("/proc").join(pid).exists())
    };
    for process in all_pids().filter_map(read_process) {
        if process.args.contains("/host.sh") && owner_is_dead(&process.args) {
            kill(process.pid, Signal::SIGKILL).ok();
        }
    }
    for entry in fs::read_dir(std::env::temp_dir())
        .into_iter()
        .flatten()
        .flatten()
    {
        if owner_is_dead(&entry.file_name().to_string_lossy()) {
            fs::remove_dir_all(entry.path()).ok();
        }
    }
}

fn address(options: &LabOptions, host: usize) -> Ipv4Addr {
    let last = if host == 0 {
        254
    } else {
        u8::try_from(host).expect("at most 250 hosts")
    };
    Ipv4Addr::new(10, options.subnet, 0, last)
}

fn write(file: &Path, text: &str) {
    fs::write(file, text)
        .unwrap_or_else(|why| panic!("lab: cannot write {}: {why}", file.display()));
}

fn read(file: &Path) -> String {
    fs::read_to_string(file)
        .unwrap_or_else(|why| panic!("lab: cannot read {}: {why}", file.display()))
}

/// The switch's own hardware address: the switch drops frames sent to it.
pub(super) const BRIDGE_MAC: &str = "02:00:00:00:00:fe";

/// Prefix of the names of lab folders; the owner's process id follows.
const MARK: &str = "switchlab-";

const HOST_SPACES: &[&str] = &[
    "--net",
    "--uts",
    "--mount",
    "--ipc",
    "--pid",
    "--fork",
    "--kill-child",
    "--mount-proc",
];

const MEANS: &[(&str, &str)] = &[
    ("bash", "bash"),
    ("hostname", "hostname"),
    ("ip", "iproute2"),
    ("mount", "mount"),
    ("nsenter", "util-linux"),
    ("setpriv", "util-linux"),
    ("setsid", "util-linux"),
    ("ssh", "openssh-client"),
    ("ssh-keygen", "openssh-client"),
    ("sshd", "openssh-server"),
    ("tc", "iproute2"),
    ("unshare", "util-linux"),
];

const DEADLINE: Duration = Duration::from_secs(30);
