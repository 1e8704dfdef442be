//! A site on a bad day: a full disk, a runner or a run that is killed, a host that is not there. Each is said where one looks, and the next run
//! has its turn.

mod site;

use std::collections::BTreeMap;
use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use numbers::random::Random;
use site::{PIPEBENCH, SITE, Served, Site, TOKEN, field, wait_until};

const SHORT: &str = r#"{"group":"here","time":"1s"}"#;

/// Waits until a run is over, and says how it ended.
fn end_of(server: &Served, name: &str) -> (String, String) {
    let state = server.wait_for(name, &["ended", "failed", "cancelled"]);
    let text = |key: &str| state[key].as_str().unwrap_or_default().to_owned();
    (text("state"), text("why"))
}

/// The process of a site whose command line has this word.
fn process_with(site: &Site, word: &str) -> i32 {
    let has = |pid: &i32| {
        let words = fs::read_to_string(format!("/proc/{pid}/cmdline"));
        words.is_ok_and(|words| words.split('\0').any(|own| own.starts_with(word)))
    };
    site.processes()
        .into_iter()
        .find(has)
        .expect("a process of a run")
}

fn kill_at_once(pid: i32) {
    kill(Pid::from_raw(pid), Signal::SIGKILL).expect("there");
}

/// Files of a page each, until there is no room left.
fn fill(folder: &Path) -> Vec<PathBuf> {
    let files = (0..).map(|number| folder.join(format!("filler-{number}")));
    files
        .take_while(|path| fs::write(path, [1; 4096]).is_ok())
        .collect()
}

#[test]
fn a_full_disk_takes_no_run_and_leaves_nothing_half() {
    let site = Site::new(SITE);
    fs::create_dir(site.runs()).expect("a folder");
    let mut command = Command::new("unshare");
    let small = "mount -t tmpfs -o size=1m,mode=755 tmpfs \"$0\" && exec \"$@\"";
    command.args(["--mount", "sh", "-c", small]);
    command.arg(site.runs()).arg(PIPEBENCH);
    let server = Served::start_by(command, &site, "127.0.0.1:0");
    // As the server sees it.
    let runs = PathBuf::from(format!("/proc/{}/root", server.pid()))
        .join(site.runs().strip_prefix("/").expect("a whole path"));
    let runs_there = || {
        let entries = fs::read_dir(&runs).expect("a folder").flatten();
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        names.filter(|name| name.starts_with("pb-")).count()
    };
    let form = ("Content-Type", "application/x-www-form-urlencoded");
    let log_in = || {
        let token = format!("token={TOKEN}");
        let reply = server.ask("POST", "/login", &[form], &token);
        reply.header("set-cookie").expect("a session").to_owned()
    };
    let is_in = |cookie: &str| {
        let home = server.ask("GET", "/", &[("Cookie", cookie)], "");
        home.body.contains("Log out")
    };
    let cookies = [log_in(), log_in()];
    let mut fillers = fill(&runs);
    // Symptom: a logout on a full disk cut the file of logouts, and no session was accepted any more.
    let page = server.ask("GET", "/", &[("Cookie", &cookies[0])], "");
    let mark = format!("mark={}", field(&page.body, "mark"));
    let out = server.ask("POST", "/logout", &[form, ("Cookie", &cookies[0])], &mark);
    assert_eq!(out.status, 500, "{out:?}");
    assert!(cookies.iter().all(|cookie| is_in(cookie)));
    let reply = server.post("/api/v1/runs", SHORT);
    assert!(
        reply.status == 500 && reply.body.contains("no space left on device"),
        "{reply:?}"
    );
    assert_eq!(runs_there(), 0);
    let waiting = fs::read_dir(runs.join(".queue")).expect("a queue").count();
    assert_eq!(waiting, 0);
    assert_eq!(server.get("/").status, 200);

    // Room for a request, and none for what is measured, nor perhaps for what is to be said of that.
    for filler in fillers.split_off(fillers.len() - 6) {
        fs::remove_file(filler).expect("removed");
    }
    let poor = server.start_run(SHORT);
    let (state, why) = end_of(&server, &poor);
    assert!(
        state == "failed"
            && (why.contains("no space left on device") || why.contains("could not be written")),
        "{state}: {why}"
    );

    for filler in fillers {
        fs::remove_file(filler).expect("removed");
    }
    let rich = server.start_run(SHORT);
    let state = server.wait_for(&rich, &["ended", "failed"]);
    assert_eq!(state["exit_code"], 0, "{state:#}");
    for name in [&poor, &rich] {
        let halves: Vec<_> = fs::read_dir(runs.join(name))
            .expect("a folder")
            .flatten()
            .map(|entry| entry.file_name())
            .filter(|name| name.to_string_lossy().starts_with('.'))
            .collect();
        assert!(halves.is_empty(), "{name}: {halves:?}");
    }
}

#[test]
fn a_run_whose_keeper_is_killed_ends_and_the_next_one_has_its_turn() {
    let site = Site::new(SITE);
    let server = Served::start(&site);
    let [first, second] = server.one_runs_and_one_waits();
    let runner = fs::read_to_string(site.runs().join(&first).join("runner.json"));
    let runner: serde_json::Value =
        serde_json::from_str(&runner.expect("a runner")).expect("a runner");
    kill_at_once(i32::try_from(runner["pid"].as_i64().expect("a process id")).expect("one"));
    let (state, why) = end_of(&server, &second);
    assert_eq!((state.as_str(), why.as_str()), ("ended", ""));
    assert_eq!(server.state(&second)["exit_code"], 0);
    wait_until("it is said how the first one ended", || {
        let (state, why) = end_of(&server, &first);
        (state.as_str(), why.as_str()) == ("ended", "the run aborted: its runner process is gone")
    });
    wait_until("nothing is left of them", || site.processes().is_empty());
}

#[test]
fn a_run_that_is_killed_is_said_to_be_and_the_next_one_has_its_turn() {
    let site = Site::new(SITE);
    let server = Served::start(&site);
    let [first, second] = server.one_runs_and_one_waits();
    kill_at_once(process_with(&site, "--run-folder="));
    let (state, why) = end_of(&server, &first);
    assert_eq!(
        (state.as_str(), why.as_str()),
        ("failed", "killed by signal 9")
    );
    let (state, why) = end_of(&server, &second);
    assert_eq!((state.as_str(), why.as_str()), ("ended", ""));
    assert_eq!(server.state(&second)["exit_code"], 0);
    wait_until("nothing is left of them", || site.processes().is_empty());
}

#[test]
fn a_host_that_is_not_there_is_named() {
    let text = format!("{SITE}[allow]\nfree-hosts = true\n");
    let site = Site::new(&text);
    let server = Served::start(&site);
    let name =
        server.start_run(r#"{"hosts":"no-such-host.invalid,nor-this-one.invalid","time":"1s"}"#);
    let (state, why) = end_of(&server, &name);
    assert!(why.contains("no-such-host.invalid"), "{state}: {why}");
    // The page of the run says so, too.
    let page = server.get(&format!("/runs/{name}"));
    assert!(page.body.contains("no-such-host.invalid"), "{page:?}");
    let next = server.start_run(SHORT);
    assert_eq!(server.wait_for(&next, &["ended", "failed"])["exit_code"], 0);
}

#[test]
fn clients_that_ask_nothing_keep_nobody_out() {
    let site = Site::new(SITE);
    let server = Served::start(&site);
    // More than there are seats. Whoever waited for their time to pass would find most of them gone.
    let silent: Vec<TcpStream> = (0..300)
        .map(|_| TcpStream::connect(server.address).expect("a server"))
        .collect();
    assert_eq!(server.get("/health").status, 200);
    let is_open = |stream: &&TcpStream| {
        stream.set_nonblocking(true).expect("a socket");
        let read = (&**stream).read(&mut [0; 1]);
        read.is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
    };
    let open = silent.iter().filter(is_open).count();
    assert!(open >= 200, "{open} of 300 are still there");
}

/// Seats were held for ever by one request each nine seconds.
#[test]
fn clients_that_asked_once_keep_nobody_out() {
    let site = Site::new(SITE);
    let server = Served::start(&site);
    let asked: Vec<TcpStream> = (0..256)
        .map(|_| {
            let mut stream = TcpStream::connect(server.address).expect("a server");
            stream
                .write_all(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
                .expect("sent");
            let mut bytes = [0; 12];
            stream.read_exact(&mut bytes).expect("an answer");
            assert_eq!(&bytes, b"HTTP/1.1 200");
            stream
        })
        .collect();
    let begun = Instant::now();
    assert_eq!(server.get("/health").status, 200);
    assert!(
        begun.elapsed() < Duration::from_secs(3),
        "{:?}",
        begun.elapsed()
    );
    drop(asked);
}

/// Each was taken for somebody who is being answered, for as long as the server waited for the rest.
#[test]
fn clients_that_keep_back_what_they_post_keep_nobody_out() {
    let site = Site::new(SITE);
    let server = Served::start(&site);
    const KIND: &str = "Content-Type: application/x-www-form-urlencoded";
    let waiting: Vec<TcpStream> = (0..300)
        .map(|number| {
            let length = match number % 2 {
                0 => "Content-Length: 100",
                _ => "Transfer-Encoding: chunked",
            };
            let head = format!(
                "POST /login HTTP/1.1\r\nHost: localhost\r\n{KIND}\r\n{length}\r\n\r\n6\r\ntoken="
            );
            let mut stream = TcpStream::connect(server.address).expect("a server");
            stream.write_all(head.as_bytes()).expect("sent");
            stream
        })
        .collect();
    let begun = Instant::now();
    assert_eq!(server.get("/health").status, 200);
    let took = begun.elapsed();
    assert!(took < Duration::from_secs(5), "{took:?}");
    drop(waiting);
    // Whoever sends all of it is answered.
    let form = ("Content-Type", "application/x-www-form-urlencoded");
    let reply = server.ask("POST", "/login", &[form], &format!("token={TOKEN}"));
    assert_eq!(reply.status, 303, "{reply:?}");
}

#[test]
fn a_request_for_another_host_is_refused_however_it_says_so() {
    let site = Site::new(SITE);
    let server = Served::start(&site);
    let status = |head: &str| {
        let request = format!("{head}\r\nConnection: close\r\n\r\n");
        server.send(request.as_bytes()).status
    };
    assert_eq!(status("GET / HTTP/1.1\r\nHost: localhost"), 200);
    assert_eq!(status("GET / HTTP/1.1\r\nHost: evil"), 421);
    for names in ["localhost\r\nHost: evil", "evil\r\nHost: localhost"] {
        assert_eq!(status(&format!("GET / HTTP/1.1\r\nHost: {names}")), 400);
    }
    assert_eq!(status("GET http://evil/ HTTP/1.1\r\nHost: localhost"), 421);
    assert_eq!(status("GET http://localhost/ HTTP/1.1\r\nHost: evil"), 200);
}

#[test]
fn a_wrong_token_of_a_program_is_refused_and_told() {
    let site = Site::new(SITE);
    let server = Served::start(&site);
    let wrong = [("Authorization", "Bearer wrong")];
    assert_eq!(server.ask("GET", "/api/v1/runs", &wrong, "").status, 401);
    wait_until("it is told", || server.said().contains("wrong token from"));
}

/// Whoever could write there put requests of his own in the place of checked ones: they ran as the site's user.
#[test]
fn a_results_folder_that_another_user_may_write_to_is_refused_at_the_start() {
    let site = Site::new(SITE);
    let refused = |why: &str| {
        for word in ["serve", "cgi"] {
            let mut command = Command::new(PIPEBENCH);
            command.args([word, "--site"]).arg(site.file());
            let variables = [("REQUEST_METHOD", "GET"), ("HTTP_HOST", "localhost")];
            let output = command.envs(variables).output().expect("pipebench runs");
            let said = String::from_utf8_lossy(&output.stderr);
            let whole = format!("pipebench: results folder {}{why}\n", site.runs().display());
            assert_eq!(
                (output.status.code(), said.as_ref()),
                (Some(2), whole.as_str()),
                "{word}"
            );
        }
    };
    fs::create_dir_all(site.runs().join(".queue")).expect("a folder");
    for path in [site.runs().join(".queue"), site.runs()] {
        let name = path.strip_prefix(site.runs()).expect("below it");
        let name = Path::new("/").join(name).display().to_string();
        let allow = |mode| {
            let mode: fs::Permissions = PermissionsExt::from_mode(mode);
            fs::set_permissions(&path, mode).expect("a folder of one's own");
        };
        fs::set_permissions(site.runs(), PermissionsExt::from_mode(0o755)).expect("one's own");
        allow(0o775);
        refused(&format!(
            "{}: its group or other users can write to it (chmod -R go-w)",
            name.trim_end_matches('/')
        ));
        allow(0o755);
    }
    if nix::unistd::geteuid().is_root() {
        std::os::unix::fs::chown(site.runs(), Some(65534), None).expect("root");
        refused(": it belongs to another user");
    }
}

#[test]
fn others_may_write_to_no_file_of_a_site_whatever_its_user_allows_elsewhere() {
    let site = Site::new(SITE);
    let mut command = Command::new("sh");
    command.args(["-c", "umask 000 && exec \"$@\"", "sh", PIPEBENCH]);
    let server = Served::start_by(command, &site, "127.0.0.1:0");
    let name = server.start_run(SHORT);
    server.wait_for(&name, &["ended"]);
    let run = site.runs().join(&name);
    let mut count = 0;
    for folder in [site.runs(), site.runs().join(".queue"), run] {
        for entry in fs::read_dir(&folder).expect("a folder").flatten() {
            let mode = entry.metadata().expect("a file").permissions().mode();
            assert_eq!(mode & 0o022, 0, "{mode:o} {}", entry.path().display());
            count += 1;
        }
    }
    assert!(count > 8, "{count} files");
}

/// The API sent whatever was in the file; a page read the file a second time after the check.
#[test]
fn what_is_sent_as_a_record_is_one_and_not_behind_a_link() {
    let site = Site::new(SITE);
    let server = Served::start(&site);
    let name = "pb-20261121-101500-abcdef";
    let run = site.runs().join(name);
    fs::create_dir(&run).expect("a folder");
    let link = run.join("record.json");
    let sent = || {
        for path in [
            format!("/runs/{name}/record.json"),
            format!("/api/v1/runs/{name}/record"),
        ] {
            let reply = server.get(&path);
            let is_none = matches!(reply.status, 404 | 409);
            assert!(is_none && !reply.body.contains(TOKEN), "{path}: {reply:?}");
        }
    };
    let real = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/one-host/record.json");
    for behind in [site.folder.path().join("token"), real] {
        assert!(behind.is_file());
        std::os::unix::fs::symlink(behind, &link).expect("a link");
        sent();
        fs::remove_file(&link).expect("removed");
    }
    fs::write(&link, TOKEN).expect("written");
    sent();
}

/// A request that nobody would write: each part of one, or something else in its place.
fn hostile_request(random: &mut Random) -> Vec<u8> {
    const METHODS: [&str; 8] = [
        "GET", "POST", "HEAD", "PUT", "DELETE", "OPTIONS", "TRACE", "get\tx",
    ];
    const PATHS: [&str; 14] = [
        "/",
        "/runs",
        "/runs/../../etc/passwd",
        "/runs/%2e%2e%2f%2e%2e%2fetc%2fpasswd",
        "/runs/pb-20261121-101500-abcdef/record.json",
        "/runs?q=%00%ff%1b[31m",
        "/api/v1/runs",
        "/api/v1/runs/x/cancel",
        "/api/v1/openapi.json",
        "/login",
        "/start",
        "/confirm",
        "/assets/../site.toml",
        "*",
    ];
    const HEADERS: [&str; 12] = [
        "Content-Type: application/json",
        "Content-Type: application/x-www-form-urlencoded",
        "Authorization: Bearer \u{202e}x",
        "Authorization: Basic Og==",
        "Cookie: pipebench=9999999999.x.y; pipebench=",
        "X-Forwarded-For: 127.0.0.1, ::1, x",
        "Range: bytes=0-,5-1",
        "Transfer-Encoding: gzip, chunked",
        "Content-Length: 18446744073709551616",
        "Expect: 100-continue",
        "Upgrade: h2c",
        "Origin: http://evil",
    ];
    const BODIES: [&str; 6] = [
        "",
        r#"{"group":"here","time":"1e400s","phases":99999999999,"by":"\u001b[31m"}"#,
        r#"{"group":"here","pattern":"--output=x","hosts":"-oProxyCommand=x"}"#,
        "token=x&mark=&ticket=../../x",
        "{{{{{{{{",
        "5\r\nhello\r\n0\r\n\r\n",
    ];
    let of = |random: &mut Random, all: &[&str]| all[random.below(all.len())].to_owned();
    let mut text = format!(
        "{} {} HTTP/1.{}\r\n",
        of(random, &METHODS),
        of(random, &PATHS),
        random.below(3)
    );
    let host = [
        "localhost",
        "127.0.0.1:1",
        "evil",
        "localhost\r\nHost: localhost",
    ];
    text += &format!("Host: {}\r\nConnection: close\r\n", of(random, &host));
    for _ in 0..random.below(4) {
        text += &format!("{}\r\n", of(random, &HEADERS));
    }
    let body = of(random, &BODIES);
    if random.below(2) == 0 {
        text += &format!("Content-Length: {}\r\n", body.len());
    }
    let mut bytes = (text + "\r\n" + &body).into_bytes();
    // One in four has a byte changed, or ends early.
    match random.below(8) {
        0 => {
            let at = random.below(bytes.len());
            bytes[at] = u8::try_from(random.below(256)).expect("a byte");
        }
        1 => bytes.truncate(random.below(bytes.len())),
        _ => {}
    }
    bytes
}

/// `PIPEBENCH_REQUESTS=10000 cargo test --test web_faults hostile_requests` sends as many as one likes.
#[test]
fn hostile_requests_change_nothing_and_the_server_goes_on() {
    let site = Site::new(SITE);
    let server = Served::start(&site);
    let count = std::env::var("PIPEBENCH_REQUESTS").ok();
    let count: u64 = count.map_or(300, |count| count.parse().expect("a number"));
    let mut statuses: BTreeMap<u16, u64> = BTreeMap::new();
    for seed in 0..count {
        let bytes = hostile_request(&mut Random::new(seed));
        let mut stream = TcpStream::connect(server.address).expect("a server");
        stream
            .set_read_timeout(Some(Duration::from_secs(30)))
            .expect("a time");
        // What is not a whole request by then is none.
        match stream
            .write_all(&bytes)
            .and_then(|()| stream.shutdown(Shutdown::Write))
        {
            Ok(()) | Err(_) => {}
        }
        let mut answer = Vec::new();
        match stream.read_to_end(&mut answer) {
            Ok(_) | Err(_) => {}
        }
        let answer = String::from_utf8_lossy(&answer);
        let status = answer.split(' ').nth(1).and_then(|code| code.parse().ok());
        *statuses.entry(status.unwrap_or(0)).or_default() += 1;
        let what = || {
            format!(
                "seed {seed}: {:?}: {answer}",
                String::from_utf8_lossy(&bytes)
            )
        };
        assert!(!matches!(status, Some(500..)), "{}", what());
        assert!(!answer.contains("root:x:0"), "{}", what());
    }
    eprintln!("{count} requests: {statuses:?}");
    assert_eq!(server.get("/health").status, 200);
    let said = server.said();
    assert!(!said.contains("panicked"), "{said}");
    assert!(
        !said.contains(|letter| letter != '\n' && pipebench::internals::outside::steers(letter)),
        "{said:?}"
    );
    assert!(site.names().is_empty());
    let status = fs::read_to_string(format!("/proc/{}/status", server.pid())).expect("it is there");
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let peak_kb: u64 = peak
        .and_then(|line| line.split_whitespace().next()?.parse().ok())
        .expect("a number");
    assert!(peak_kb < 200 << 10, "{peak_kb} KiB");
}
