//! A site on this machine: a folder with its file, a server for it, and a client that says what it is told to, byte for byte.
#![allow(dead_code, reason = "each test file uses its own part of this module")]

#[path = "../alone/mod.rs"]
pub mod alone;

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

pub const PIPEBENCH: &str = env!("CARGO_BIN_EXE_pipebench");
pub const TOKEN: &str = "0123456789abcdef0123456789abcdef";
/// What takes moments on a machine that does not stand still.
pub const SOON: Duration = Duration::from_secs(60);
/// Hosts of this machine alone.
pub const SITE: &str = "version = 1\nresults = \"runs\"\ntoken-file = \"token\"\nnames = [\"bench.example.org\"]\n\
    [limits]\ntime = \"60s\"\nduration = \"3m\"\nrate = \"200M\"\nwaiting = 4\nstarts-per-minute = 100\n\
    [groups.here]\nhosts = \"local:3\"\noptions = [\"--warmup=200ms\"]\n\
    [groups.\"here too\"]\nhosts = \"local:2\"\nfabric = \"here\"\noptions = [\"--warmup=200ms\"]\n";

/// A folder with a site's file and its token.
pub struct Site {
    pub folder: tempfile::TempDir,
}

impl Site {
    pub fn new(text: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join("web.toml"), text).expect("a file");
        let token = folder.path().join("token");
        fs::write(&token, format!("{TOKEN}\n")).expect("a file");
        let own = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        fs::set_permissions(token, own).expect("a file of one's own");
        Self { folder }
    }

    pub fn file(&self) -> PathBuf {
        self.folder.path().join("web.toml")
    }

    pub fn runs(&self) -> PathBuf {
        self.folder.path().join("runs")
    }

    /// Processes of runs and keepers that work in its folder.
    pub fn processes(&self) -> Vec<i32> {
        let folder = self.runs().display().to_string();
        let entries = fs::read_dir("/proc").expect("processes").flatten();
        let works_there = |pid: &i32| {
            let words = fs::read_to_string(format!("/proc/{pid}/cmdline"));
            words.is_ok_and(|words| words.contains(&folder))
        };
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        pids.filter(works_there).collect()
    }

    /// Names of the runs on its shelf.
    pub fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.runs()).into_iter().flatten().flatten();
        let mut names: Vec<String> = entries
            .filter_map(|entry| entry.file_name().into_string().ok())
            .filter(|name| name.starts_with("pb-"))
            .collect();
        names.sort();
        names
    }
}

/// A server; it is asked to end when this is dropped.
pub struct Served {
    child: Child,
    pub address: SocketAddr,
    said: Arc<Mutex<String>>,
}

/// What was answered.
#[derive(Debug, Clone)]
pub struct Reply {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl Reply {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (own, value) = line.split_once(':')?;
            own.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }

    #[track_caller]
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.body).unwrap_or_else(|why| panic!("{why}: {self:?}"))
    }
}

impl Served {
    pub fn start(site: &Site) -> Self {
        Self::start_on(site, "127.0.0.1:0")
    }

    pub fn start_on(site: &Site, listen: &str) -> Self {
        Self::start_by(Command::new(PIPEBENCH), site, listen)
    }

    /// With a command that runs `pipebench` with whatever words follow.
    pub fn start_by(mut command: Command, site: &Site, listen: &str) -> Self {
        alone::wait();
        let mut child = command
            .arg("serve")
            .arg("--site")
            .arg(site.file())
            .args(["--listen", listen])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("pipebench starts");
        let mut lines = BufReader::new(child.stderr.take().expect("piped")).lines();
        let first = lines.next().expect("a line").expect("text");
        let address = first
            .strip_prefix("pipebench: http://")
            .and_then(|rest| rest.split('/').next())
            .and_then(|address| address.parse::<SocketAddr>().ok());
        let address = address.unwrap_or_else(|| panic!("no address: {first}"));
        let said = Arc::new(Mutex::new(first));
        let place = Arc::clone(&said);
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                let mut said = place.lock().expect("unbroken");
                said.push('\n');
                said.push_str(&line);
            }
        });
        Self {
            child,
            address: SocketAddr::from(([127, 0, 0, 1], address.port())),
            said,
        }
    }

    /// Everything it has written to standard error.
    pub fn said(&self) -> String {
        self.said.lock().expect("unbroken").clone()
    }

    pub fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).expect("a process id")
    }

    /// Sends these bytes and reads to the end.
    pub fn send(&self, bytes: &[u8]) -> Reply {
        send(self.address, bytes)
    }

    /// A request with these headers besides the name of the host.
    pub fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Reply {
        self.send(&request(self.address, method, path, headers, body))
    }

    pub fn get(&self, path: &str) -> Reply {
        self.ask("GET", path, &[], "")
    }

    /// The question of a form with these values, or the form again. It has an address of its own, to which the form's leads.
    #[track_caller]
    pub fn question(&self, headers: &[(&str, &str)], values: &str) -> (String, Reply) {
        let moved = self.ask("GET", &format!("/confirm?{values}"), headers, "");
        assert_eq!(moved.status, 303, "{moved:?}");
        let place = moved.header("location").expect("a place").to_owned();
        let page = self.ask("GET", &place, headers, "");
        (place, page)
    }

    /// A request of a program that has the token.
    pub fn post(&self, path: &str, json: &str) -> Reply {
        let headers = [
            ("Authorization", BEARER),
            ("Content-Type", "application/json"),
        ];
        self.ask("POST", path, &headers, json)
    }

    /// Starts a run; its name.
    #[track_caller]
    pub fn start_run(&self, json: &str) -> String {
        let reply = self.post("/api/v1/runs", json);
        assert_eq!(reply.status, 201, "{reply:?}");
        reply.json()["name"].as_str().expect("a name").to_owned()
    }

    pub fn state(&self, name: &str) -> serde_json::Value {
        self.get(&format!("/api/v1/runs/{name}")).json()
    }

    /// Waits until a run is in one of these states.
    #[track_caller]
    pub fn wait_for(&self, name: &str, states: &[&str]) -> serde_json::Value {
        let until = Instant::now() + SOON;
        loop {
            let state = self.state(name);
            if states.contains(&state["state"].as_str().unwrap_or_default()) {
                return state;
            }
            assert!(
                Instant::now() < until,
                "{name} does not become {states:?}: {state:#}\n{}",
                self.said()
            );
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Waits until a run moves data.
    #[track_caller]
    pub fn wait_for_data(&self, name: &str) {
        wait_until("the run moves data", || {
            let state = self.state(name);
            let points = state["live"]["course_bits_per_s"].as_array();
            points.is_some_and(|points| !points.is_empty())
        });
    }

    /// Starts two runs of the group `here`: the first one, of a minute, moves data, and the second one, of a second, waits for it.
    #[track_caller]
    pub fn one_runs_and_one_waits(&self) -> [String; 2] {
        let first = self.start_run(r#"{"group":"here","time":"60s"}"#);
        self.wait_for_data(&first);
        let second = self.start_run(r#"{"group":"here","time":"1s"}"#);
        self.wait_for(&second, &["queued"]);
        [first, second]
    }

    /// Ends it at once, as a failing machine does.
    pub fn kill(mut self) {
        self.child.kill().expect("killed");
        self.child.wait().expect("reaped");
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        match kill(Pid::from_raw(self.pid()), Signal::SIGTERM) {
            Ok(()) | Err(_) => {}
        }
        let until = Instant::now() + SOON;
        while Instant::now() < until {
            if matches!(self.child.try_wait(), Ok(Some(_)) | Err(_)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        match self.child.kill() {
            Ok(()) | Err(_) => {}
        }
        assert!(
            std::thread::panicking(),
            "a server that was asked to end did not"
        );
    }
}

pub const BEARER: &str = "Bearer 0123456789abcdef0123456789abcdef";

/// The value of a form's field in a page.
#[track_caller]
pub fn field<'a>(page: &'a str, name: &str) -> &'a str {
    let (_, rest) = page
        .split_once(&format!("name=\"{name}\" value=\""))
        .unwrap_or_else(|| panic!("no {name}: {page}"));
    rest.split('"').next().unwrap_or_default()
}

/// The bytes of a request.
pub fn request(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> Vec<u8> {
    let mut text = format!("{method} {path} HTTP/1.1\r\nConnection: close\r\n");
    if !headers
        .iter()
        .any(|(name, _)| name.eq_ignore_ascii_case("host"))
    {
        text += &format!("Host: {address}\r\n");
    }
    for (name, value) in headers {
        text += &format!("{name}: {value}\r\n");
    }
    if !body.is_empty() || method == "POST" {
        text += &format!("Content-Length: {}\r\n", body.len());
    }
    text += "\r\n";
    text += body;
    text.into_bytes()
}

/// Sends bytes to an address and reads to the end; status 0 if there was no answer.
pub fn send(address: SocketAddr, bytes: &[u8]) -> Reply {
    let mut stream = TcpStream::connect(address).expect("a server");
    stream.set_read_timeout(Some(SOON)).expect("a time");
    // A server that has heard enough closes; what it said before counts.
    match stream.write_all(bytes) {
        Ok(()) | Err(_) => {}
    }
    let mut all = Vec::new();
    match stream.read_to_end(&mut all) {
        Ok(_) | Err(_) => {}
    }
    reply_of(&String::from_utf8_lossy(&all))
}

fn reply_of(text: &str) -> Reply {
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((text, ""));
    let status = head
        .split(' ')
        .nth(1)
        .and_then(|code| code.parse().ok())
        .unwrap_or(0);
    let chunked = head.to_lowercase().contains("transfer-encoding: chunked");
    Reply {
        status,
        head: head.to_owned(),
        body: if chunked {
            unchunked(body)
        } else {
            body.to_owned()
        },
    }
}

fn unchunked(mut text: &str) -> String {
    let mut whole = String::new();
    while let Some((length, rest)) = text.split_once("\r\n") {
        let length = usize::from_str_radix(length.trim(), 16).unwrap_or(0);
        if length == 0 || rest.len() < length {
            break;
        }
        whole += &rest[..length];
        text = rest[length..].strip_prefix("\r\n").unwrap_or("");
    }
    whole
}

/// Waits until something is so.
#[track_caller]
pub fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let until = Instant::now() + SOON;
    while !is_so() {
        assert!(Instant::now() < until, "not within {SOON:?}: {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}
