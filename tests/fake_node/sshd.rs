//! A real SSH server in front of the hosts: one process with keys of its own, which listens on all addresses of this machine. So it belongs into
//! a network namespace that has only the loopback interface. 127.0.0.1 leads to the host `h1`, 127.0.1.0 to `h256`.

use std::fs::{self, File};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::{FakeHosts, SHELL};

const SERVER: &str = "/usr/sbin/sshd";
const SOON: Duration = Duration::from_secs(20);

/// Runs in place of what the client asks for, 100 ms late, as a host far away answers. `SSH_CONNECTION` has the server's address as its third
/// word.
const RELAY: &str = r#"sleep 0.1
set -- $SSH_CONNECTION
IFS=.
set -- $3
"#;

/// The server. It ends when it is dropped, its sessions with their clients.
pub struct Sshd {
    folder: tempfile::TempDir,
    port: u16,
    count: usize,
    child: Child,
}

impl Sshd {
    /// Starts the server and waits until it listens. The error says what is missing.
    pub fn start(hosts: &FakeHosts) -> Result<Self, String> {
        if !has_only_loopback() {
            return Err("it must run in a network namespace of its own".to_owned());
        }
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name).display().to_string();
        for key in ["host", "user"] {
            let words = ["-q", "-t", "ed25519", "-N", "", "-f", &at(key)];
            let made = Command::new("ssh-keygen").args(words).status();
            if !made.is_ok_and(|status| status.success()) {
                return Err("ssh-keygen (package openssh-client) made no key".to_owned());
            }
        }
        let free = TcpListener::bind(("127.0.0.1", 0)).map_err(|why| why.to_string())?;
        let port = free.local_addr().expect("an address").port();
        drop(free);
        let pipes = hosts.folder.path().display();
        let relay = format!("{RELAY}exec /bin/sh -c '{SHELL}' {pipes} \"h$(($3 * 256 + $4))\"\n");
        fs::write(at("relay"), relay).expect("written");
        // An empty home: what a user's shell reads at each start may cost more than all else.
        let config = format!(
            "ListenAddress 0.0.0.0\nPort {port}\nHostKey {}\nAuthorizedKeysFile {}\nForceCommand exec /bin/sh {}\n\
             PidFile none\nStrictModes no\nUsePAM no\nUseDNS no\nPermitRootLogin yes\nPasswordAuthentication no\n\
             KbdInteractiveAuthentication no\nMaxStartups 2000\nMaxSessions 2000\nSetEnv HOME={}\n",
            at("host"),
            at("user.pub"),
            at("relay"),
            at("home"),
        );
        fs::write(at("config"), config).expect("written");
        let key = fs::read_to_string(at("host.pub")).expect("a key");
        fs::write(at("known_hosts"), format!("[127.0.*]:{port} {key}")).expect("written");
        // The boot makes this folder, and not the package.
        fs::create_dir_all("/run/sshd").ok();
        let child = Command::new(SERVER)
            .args(["-D", "-e", "-f", &at("config")])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(at("log")).expect("a file"))
            .spawn()
            .map_err(|why| format!("{SERVER} (package openssh-server): {why}"))?;
        let mut server = Self {
            folder,
            port,
            count: hosts.count,
            child,
        };
        server.wait_until_it_listens()?;
        Ok(server)
    }

    fn wait_until_it_listens(&mut self) -> Result<(), String> {
        let until = Instant::now() + SOON;
        while TcpStream::connect(("127.0.0.1", self.port)).is_err() {
            if Instant::now() > until || self.child.try_wait().expect("a child").is_some() {
                let log = fs::read_to_string(self.folder.path().join("log"));
                return Err(format!("sshd does not start: {}", log.unwrap_or_default()));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    /// Arguments of pipebench that name and reach the hosts.
    pub fn words(&self) -> Vec<String> {
        let of = |number: usize| {
            let [.., high, low] = number.to_be_bytes();
            format!("127.0.{high}.{low}:{}", self.port)
        };
        let hosts: Vec<String> = (1..=self.count).map(of).collect();
        let at = |name: &str| self.folder.path().join(name).display().to_string();
        let words = ["--hosts", &hosts.join(","), "--identity", &at("user")];
        let known = ["--known-hosts".to_owned(), at("known_hosts")];
        words.map(str::to_owned).into_iter().chain(known).collect()
    }
}

impl Drop for Sshd {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// True if this network namespace has no way to any other machine.
fn has_only_loopback() -> bool {
    let devices = fs::read_to_string("/proc/net/dev").unwrap_or_default();
    let mut interfaces = devices.lines().filter_map(|line| line.split_once(':'));
    interfaces.all(|(name, _)| name.trim() == "lo")
}
