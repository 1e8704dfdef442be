//! Tests of the CGI program below lighttpd and Apache, with the configurations of `examples/`, under an unprivileged account.

mod site;

use std::fs;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::{Group, Pid, User};
use site::{BEARER, PIPEBENCH, Reply, SITE, Site, TOKEN, field, request, send, wait_until};

/// A web server with the CGI program below `/pipebench`.
struct Server {
    child: Child,
    address: SocketAddr,
    site: Site,
}

impl Server {
    /// Starts a web server with `command`, to which it appends the path of the file `conf` in the site's folder.
    fn start(text: &str, conf: impl Fn(&Path, u16) -> String, command: &[&str]) -> Self {
        site::alone::wait();
        let site = Site::new(text);
        let folder = site.folder.path().to_owned();
        let port = TcpListener::bind("127.0.0.1:0")
            .and_then(|free| free.local_addr())
            .expect("a port")
            .port();
        // The account sees only the program and its own files.
        fs::copy(PIPEBENCH, folder.join("pipebench")).expect("a copy");
        let wrapper = example("pipebench.cgi")
            .replace(
                "/usr/bin/pipebench",
                &folder.join("pipebench").display().to_string(),
            )
            .replace(
                "/etc/pipebench/web.toml",
                &site.file().display().to_string(),
            );
        fs::write(folder.join("pipebench.cgi"), wrapper).expect("a file");
        fs::create_dir(folder.join("runs")).expect("a folder");
        let (user, group) = account();
        for name in [
            "",
            "pipebench",
            "pipebench.cgi",
            "runs",
            "token",
            "web.toml",
        ] {
            let path = folder.join(name);
            chown(&path, Some(user), Some(group)).expect("its own");
            let mode = if name == "token" { 0o600 } else { 0o755 };
            fs::set_permissions(&path, PermissionsExt::from_mode(mode)).expect("its own");
        }
        fs::write(folder.join("conf"), conf(&folder, port)).expect("a file");
        let child = Command::new(command[0])
            .args(&command[1..])
            .arg(folder.join("conf"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(fs::File::create(folder.join("said")).expect("a file"))
            .spawn()
            .unwrap_or_else(|why| panic!("{command:?}: {why} (tests/run installs it)"));
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        let server = Self {
            child,
            address,
            site,
        };
        wait_until("the web server listens", || {
            TcpStream::connect(address).is_ok()
        });
        server
    }

    fn said(&self) -> String {
        let folder = self.site.folder.path();
        ["said", "error.log"]
            .map(|name| fs::read_to_string(folder.join(name)).unwrap_or_default())
            .concat()
    }

    #[track_caller]
    fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Reply {
        let reply = send(
            self.address,
            &request(self.address, method, path, headers, body),
        );
        assert!(
            reply.status != 500 && reply.status != 0,
            "{method} {path}: {reply:?}\n{}",
            self.said()
        );
        reply
    }

    fn get(&self, path: &str) -> Reply {
        self.ask("GET", path, &[], "")
    }

    fn end(&mut self) {
        if let Ok(pid) = i32::try_from(self.child.id()) {
            match kill(Pid::from_raw(pid), Signal::SIGTERM) {
                Ok(()) | Err(_) => {}
            }
        }
        self.child.wait().expect("reaped");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end();
    }
}

fn example(name: &str) -> String {
    let path: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("examples")
        .join(name);
    fs::read_to_string(path).expect("an example")
}

/// User id and group id of an unprivileged account.
fn account() -> (u32, u32) {
    let user = User::from_name("nobody").expect("users").expect("nobody");
    let group = Group::from_name("nogroup")
        .expect("groups")
        .expect("nogroup");
    (user.uid.as_raw(), group.gid.as_raw())
}

fn lighttpd(text: &str) -> Server {
    let conf = |folder: &Path, port: u16| {
        example("lighttpd.conf")
            .replace("8081", &port.to_string())
            .replace("/usr/lib/cgi-bin", &folder.display().to_string())
            .replace("/var/www/html", &folder.join("runs").display().to_string())
            .replace("groupname = \"pipebench\"", "groupname = \"nogroup\"")
            .replace("username = \"pipebench\"", "username = \"nobody\"")
            + &format!(
                "\nserver.errorlog = \"{}\"\n",
                folder.join("error.log").display()
            )
    };
    Server::start(text, conf, &["lighttpd", "-D", "-f"])
}

fn apache(text: &str) -> Server {
    let conf = |folder: &Path, port: u16| {
        let modules = [
            ("mpm_event", "mpm_event"),
            ("authz_core", "authz_core"),
            ("alias", "alias"),
            ("cgid", "cgid"),
        ];
        let modules: String = modules
            .iter()
            .map(|(name, file)| {
                format!("LoadModule {name}_module /usr/lib/apache2/modules/mod_{file}.so\n")
            })
            .collect();
        let at = folder.display();
        format!(
            "ServerRoot {at}\nServerName localhost\nListen 127.0.0.1:{port}\nUser nobody\nGroup nogroup\nPidFile {at}/pid\n\
             ErrorLog {at}/error.log\nScriptSock {at}/cgisock\nDefaultRuntimeDir {at}\nMutex pthread\n{modules}"
        ) + &example("apache.conf")
            .replace("Listen 127.0.0.1:8081\n", "")
            .replace("User pipebench\nGroup pipebench\n", "")
            .replace("8081", &port.to_string())
            .replace("/usr/lib/cgi-bin", &folder.display().to_string())
    };
    Server::start(text, conf, &["apache2", "-DFOREGROUND", "-f"])
}

/// Starts runs by form and by API, as with `serve`. Then it ends the web server and expects the run to continue.
fn goes_through(mut server: Server) {
    let form = ("Content-Type", "application/x-www-form-urlencoded");
    // The web server does not identify the user, so nothing is readable without the token.
    let first = server.get("/pipebench/");
    assert_eq!(
        (first.status, first.header("location")),
        (303, Some("/pipebench/login"))
    );
    assert!(
        first.header("content-security-policy").is_some(),
        "{first:?}"
    );
    let style = server.get("/pipebench/assets/site.css");
    assert!(
        style.status == 200 && style.header("content-type") == Some("text/css; charset=utf-8"),
        "{style:?}"
    );
    // The CGI program blocks path traversal as `serve` does.
    for path in [
        "/pipebench/runs/..%2f..%2ftoken",
        "/pipebench/assets/..%2f..%2ftoken",
    ] {
        let reply = server.get(path);
        assert!(
            matches!(reply.status, 303 | 400 | 403 | 404) && !reply.body.contains(TOKEN),
            "{path}: {reply:?}"
        );
    }
    let json = ("Content-Type", "application/json");
    assert_eq!(
        server
            .ask("POST", "/pipebench/api/v1/runs", &[json], "{}")
            .status,
        401
    );
    assert_eq!(
        server
            .ask("POST", "/pipebench/login", &[form], "token=x")
            .status,
        401
    );
    let token = ("Authorization", BEARER);
    let body = r#"{"hosts":"-oProxyCommand=x"}"#;
    assert_eq!(
        server
            .ask("POST", "/pipebench/api/v1/runs", &[json, token], body)
            .status,
        422
    );

    let reply = server.ask(
        "POST",
        "/pipebench/login",
        &[form],
        &format!("token={TOKEN}"),
    );
    assert_eq!(
        (reply.status, reply.header("location")),
        (303, Some("/pipebench/")),
        "{reply:?}"
    );
    let cookie = reply.header("set-cookie").expect("a session").to_owned();
    assert!(cookie.contains("Path=/pipebench"), "{cookie}");
    let session = cookie.split(';').next().expect("a cookie");
    let with = [("Cookie", session), form];
    for path in [
        "/pipebench/runs/pb-20261121-101500-abcdef",
        "/pipebench/nothing",
        "/pipebench/api/v1/runs/x",
    ] {
        let reply = server.ask("GET", path, &with[..1], "");
        assert_eq!(reply.status, 404, "{path}");
    }
    let page = server.ask("GET", "/pipebench/", &with[..1], "");
    let mark = field(&page.body, "mark").to_owned();
    let body = format!(
        "mark={mark}&group=here&phases=2&time=4s&profile=quick&pattern=all-to-all&hosts=&rate=&by=anna&note="
    );
    let path = format!("/pipebench/confirm?{body}");
    let moved = server.ask("GET", &path, &with[..1], "");
    let place = moved.header("location").expect("a place").to_owned();
    let question = server.ask("GET", &place, &with[..1], "");
    assert!(
        question
            .body
            .contains("Loads this machine with 3 nodes for 5 s."),
        "{question:?}"
    );
    let started = server.ask("POST", "/pipebench/start", &with, &body);
    assert_eq!(started.status, 303, "{started:?}");
    let place = started.header("location").expect("a place").to_owned();
    assert!(place.starts_with("/pipebench/runs/pb-"), "{place}");
    let run = server
        .site
        .runs()
        .join(place.rsplit('/').next().expect("a name"));
    let read = |path: &str| server.ask("GET", path, &with[..1], "");
    // The page reloads itself until a verdict exists.
    wait_until("the run has begun", || run.join("live.json").is_file());
    let state = read(&place);
    let is_over = run.join("outcome.json").is_file();
    assert!(
        is_over || state.body.contains("http-equiv=\"refresh\""),
        "{state:?}"
    );
    wait_until("the run has ended", || {
        read(&place).body.contains("Open the report")
    });
    let state = read(&place);
    assert!(!state.body.contains("http-equiv=\"refresh\""), "{state:?}");
    let record = read(&format!("{place}/record.json"));
    let record = pipebench::internals::report::json::read(&record.body).expect("a record");
    assert_eq!(record.exit_code, 0);
    assert_eq!(Some(record.name().as_str()), place.rsplit('/').next());
    assert!(
        read(&format!("{place}/report"))
            .body
            .contains("<h2>Conditions"),
        "a report"
    );

    // A program starts a run. The web server ends; the run continues to its end.
    let started = server.ask(
        "POST",
        "/pipebench/api/v1/runs",
        &[json, token],
        r#"{"group":"here","time":"5s"}"#,
    );
    assert_eq!(started.status, 201, "{started:?}");
    let name = started.json()["name"].as_str().expect("a name").to_owned();
    let live = server.site.runs().join(&name).join("live.json");
    wait_until("the run has begun", || live.is_file());
    // The run's processes do not inherit the token or the HTTP headers of the request.
    let processes = server.site.processes();
    assert!(processes.len() >= 2, "{processes:?}");
    for process in processes {
        let of_it = fs::read(format!("/proc/{process}/environ")).unwrap_or_default();
        let of_it = String::from_utf8_lossy(&of_it);
        assert!(
            !of_it.contains(TOKEN) && !of_it.contains("HTTP_"),
            "{process}: {of_it}"
        );
    }
    let cancelled = server.ask(
        "POST",
        "/pipebench/api/v1/runs",
        &[json, token],
        r#"{"group":"here too","time":"5s"}"#,
    );
    let other = cancelled.json()["name"]
        .as_str()
        .expect("a name")
        .to_owned();
    let cancel = format!("/pipebench/api/v1/runs/{other}/cancel");
    wait_until("the one that waits can be cancelled", || {
        server.ask("POST", &cancel, &[token], "").status == 202
    });
    // At most four runs wait, by form or by API.
    let start = |group: &str| {
        let body = format!("{{\"group\":\"{group}\",\"time\":\"1s\"}}");
        server.ask("POST", "/pipebench/api/v1/runs", &[json, token], &body)
    };
    let waiting: Vec<Reply> = (0..6).map(|_| start("here")).collect();
    let taken: Vec<&Reply> = waiting.iter().filter(|reply| reply.status == 201).collect();
    assert!(
        (3..=4).contains(&taken.len())
            && waiting
                .iter()
                .all(|reply| matches!(reply.status, 201 | 409)),
        "{waiting:?}"
    );
    for reply in taken {
        let name = reply.json()["name"].as_str().expect("a name").to_owned();
        let cancel = format!("/pipebench/api/v1/runs/{name}/cancel");
        assert_eq!(server.ask("POST", &cancel, &[token], "").status, 202);
    }
    // The count of failed logins survives from one request to the next.
    let guesses: Vec<u16> = (0..30)
        .map(|_| {
            server
                .ask("POST", "/pipebench/login", &[form], "token=x")
                .status
        })
        .collect();
    assert!(
        guesses.iter().filter(|status| **status == 429).count() >= 10,
        "{guesses:?}"
    );
    server.end();
    let outcome = server.site.runs().join(&name).join("outcome.json");
    wait_until("it goes on without the web server", || outcome.is_file());
    let outcome = fs::read_to_string(outcome).expect("an outcome");
    assert!(
        outcome.contains("\"how\":\"ended\"") && outcome.contains("\"exit_code\":0"),
        "{outcome}"
    );
    let other = server.site.runs().join(other).join("outcome.json");
    wait_until("the cancelled one is gone", || other.is_file());
    let queue = server.site.runs().join(".queue");
    wait_until("nothing waits any more", || {
        fs::read_dir(&queue).expect("a queue").count() == 0
    });
}

#[test]
fn below_lighttpd() {
    goes_through(lighttpd(SITE));
}

#[test]
fn below_apache() {
    goes_through(apache(SITE));
}

/// Runs the CGI program as a web server does.
fn by_hand(site: &Site, variables: &[(&str, &str)], body: &str) -> Reply {
    use std::io::Write;
    let mut child = Command::new(PIPEBENCH)
        .args(["cgi", "--site"])
        .arg(site.file())
        .env_clear()
        .envs(variables.iter().copied())
        .env("CONTENT_LENGTH", body.len().to_string())
        .env("HTTP_HOST", "localhost")
        .env("SCRIPT_NAME", "/bench")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("pipebench starts");
    child
        .stdin
        .take()
        .expect("piped")
        .write_all(body.as_bytes())
        .expect("taken");
    let output = child.wait_with_output().expect("an answer");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let (head, body) = text.split_once("\r\n\r\n").expect("an answer");
    let status = head
        .strip_prefix("Status: ")
        .and_then(|rest| rest.split(' ').next()?.parse().ok());
    Reply {
        status: status.expect("a status"),
        head: head.to_owned(),
        body: body.to_owned(),
    }
}

#[test]
fn a_user_that_the_web_server_knows_needs_no_token_where_the_site_trusts_it() {
    let (get, post) = (("REQUEST_METHOD", "GET"), ("REQUEST_METHOD", "POST"));
    let (user, near, far) = (
        ("REMOTE_USER", "anna"),
        ("REMOTE_ADDR", "127.0.0.1"),
        ("REMOTE_ADDR", "10.0.0.7"),
    );
    let form = ("CONTENT_TYPE", "application/x-www-form-urlencoded");
    let strict = Site::new(SITE);
    // Nothing is readable without the token, for any address that the web server reports.
    for from in [near, far] {
        assert_eq!(by_hand(&strict, &[get, user, from], "").status, 303);
    }
    let site = Site::new(&SITE.replace("names =", "trust-remote-user = true\nnames ="));
    let page = by_hand(&site, &[get, user, far], "");
    assert!(page.status == 200 && page.body.contains("anna"), "{page:?}");
    let confirm = ("PATH_INFO", "/confirm");
    let values = ("QUERY_STRING", "group=here&phases=2&time=1s");
    let moved = by_hand(&site, &[get, user, far, confirm, values], "");
    let place = moved.header("location").expect("a place");
    let (_, query) = place.split_once('?').expect("a query");
    let values = ("QUERY_STRING", query);
    let asked = by_hand(&site, &[get, user, far, confirm, values], "");
    assert!(asked.body.contains("Loads this machine"), "{asked:?}");
    let mark = field(&asked.body, "mark").to_owned();
    let body = format!("mark={mark}&group=here&phases=2&time=1s");
    let start = ("PATH_INFO", "/start");
    // The site refuses a form without the mark, another user's mark and a page of another origin.
    // The API refuses too: there a browser must not act for a user.
    let status = |variables: &[(&str, &str)], body: &str| by_hand(&site, variables, body).status;
    assert_eq!(
        status(
            &[post, user, far, form, start],
            &body.replace("mark=", "x=")
        ),
        403
    );
    assert_eq!(
        status(&[post, ("REMOTE_USER", "bert"), far, form, start], &body),
        403
    );
    assert_eq!(
        status(
            &[
                post,
                user,
                far,
                form,
                start,
                ("HTTP_ORIGIN", "http://evil.example")
            ],
            &body
        ),
        403
    );
    let json = ("CONTENT_TYPE", "application/json");
    let runs = ("PATH_INFO", "/api/v1/runs");
    assert_eq!(
        status(&[post, user, far, json, runs], "{\"group\":\"here\"}"),
        401
    );
    assert_eq!(
        status(&[post, far, form, start], &body),
        303,
        "nobody is known without a user"
    );
    assert!(site.names().is_empty());
}

#[test]
fn without_a_web_server_it_says_what_it_is() {
    let site = Site::new(SITE);
    let output = Command::new(PIPEBENCH)
        .arg("cgi")
        .arg("--site")
        .arg(site.file())
        .env_remove("REQUEST_METHOD")
        .output()
        .expect("pipebench runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.code() == Some(2) && said.contains("this is a CGI program"),
        "{said}"
    );
}
