//! What a site's file says, the kinds of runs that it allows, and who reads a site: from this machine, from elsewhere, behind a proxy, and by the link
//! of the first start.

mod site;

use std::fs;
use std::process::Command;

use site::{BEARER, PIPEBENCH, SITE, Served, Site, TOKEN};

#[test]
fn whoever_can_be_reached_from_elsewhere_wants_the_token_for_everything() {
    let site = Site::new(SITE);
    let server = Served::start_on(&site, "0.0.0.0:0");
    assert_eq!(server.get("/api/v1/runs").status, 401);
    assert_eq!(server.get("/metrics").status, 401);
    let page = server.get("/");
    assert_eq!(
        (page.status, page.header("location")),
        (303, Some("/login"))
    );
    assert_eq!(server.get("/login").status, 200);
    assert_eq!(server.get("/health").status, 200);
    assert_eq!(
        server
            .ask("GET", "/api/v1/runs", &[("Authorization", BEARER)], "")
            .status,
        200
    );
}

/// A proxy on this machine that says nothing of whom it brings cannot be told from a client here, but it is another user's process.
#[test]
fn another_user_of_this_machine_reads_nothing_without_the_token() {
    if !nix::unistd::geteuid().is_root() {
        assert_ne!(std::env::var("CI").as_deref(), Ok("true"), "needs root");
        eprintln!("SKIPPED: only root can be two users");
        return;
    }
    let site = Site::new(SITE);
    let server = Served::start(&site);
    let status = |user: &str, path: &str, more: &str| {
        let (host, port) = (server.address.ip(), server.address.port());
        let ask = format!(
            "exec 3<>/dev/tcp/{host}/{port}; printf 'GET {path} HTTP/1.1\\r\\nHost: {}\\r\\n{more}Connection: close\\r\\n\\r\\n' >&3; cat <&3",
            server.address
        );
        let output = Command::new("setpriv")
            .args(["--reuid", user, "--clear-groups", "bash", "-c", &ask])
            .output()
            .expect("setpriv runs");
        let answer = String::from_utf8_lossy(&output.stdout).into_owned();
        let status = answer
            .split(' ')
            .nth(1)
            .and_then(|code| code.parse::<u16>().ok());
        status.unwrap_or_else(|| panic!("no answer: {output:?}"))
    };
    let token = format!("Authorization: {BEARER}\\r\\n");
    for (path, stranger) in [("/runs", 303), ("/api/v1/runs", 401), ("/metrics", 401)] {
        assert_eq!(status("65534", path, ""), stranger, "{path}");
        assert_eq!(status("65534", path, &token), 200, "{path}");
        assert_eq!(status("0", path, ""), 200, "{path}");
    }
}

#[test]
fn a_site_that_is_none_is_named_with_its_line() {
    let site = Site::new("version = 1\nresults = \"runs\"\ncolour = 1\n");
    let serve = |site: &Site| {
        let output = Command::new(PIPEBENCH)
            .args(["serve", "--listen", "127.0.0.1:0", "--site"])
            .arg(site.file())
            .output();
        let output = output.expect("pipebench runs");
        (
            output.status.code(),
            String::from_utf8_lossy(&output.stderr).into_owned(),
        )
    };
    let (code, said) = serve(&site);
    assert!(
        code == Some(2) && said.contains("web.toml:3: unknown field `colour`"),
        "{said}"
    );
    let open = Site::new(SITE);
    let all = std::os::unix::fs::PermissionsExt::from_mode(0o644);
    fs::set_permissions(open.folder.path().join("token"), all).expect("a file of one's own");
    let (code, said) = serve(&open);
    assert!(
        code == Some(2) && said.contains("other users have access to it (chmod 600)"),
        "{said}"
    );
}

/// `serve --check` approved patterns, profiles, options and hosts with which no run starts, and a folder that `serve` refuses.
#[test]
fn a_check_refuses_what_a_start_or_every_run_would_refuse() {
    let check = |site: &Site| {
        let output = Command::new(PIPEBENCH)
            .args(["serve", "--check", "--site"])
            .arg(site.file())
            .output()
            .expect("pipebench runs");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let code = output.status.code();
        (code, text(&output.stdout), text(&output.stderr))
    };
    let sound = Site::new(SITE);
    let (code, told, said) = check(&sound);
    assert!(
        code == Some(0) && told.starts_with("address    http://127.0.0.1:8080/\n"),
        "{told}{said}"
    );
    assert!(!sound.runs().exists(), "a check creates nothing");
    for (text, line) in [
        (
            format!("{SITE}[allow]\npatterns = [\"mesh\", \"mehs\"]\n"),
            "web.toml:19: patterns: --pattern \"mehs\" ",
        ),
        (
            format!("{SITE}[allow]\nprofiles = [\"quik\"]\n"),
            "web.toml:19: profiles: ",
        ),
        (
            SITE.replace("--warmup=200ms", "--mtuu=9000"),
            "web.toml:11: here: unexpected argument '--mtuu'",
        ),
        (
            SITE.replace("local:2", "n1,nosuch,n[3-"),
            "web.toml:14: here too: 'n[3-' at column 11: unmatched bracket",
        ),
        // Symptom: words of a group's command were not looked at, if another group had none.
        (
            SITE.replace("[groups.here]\n", "[groups.here]\nimb = [\"PingPongg\"]\n"),
            "web.toml:11: here: \"PingPongg\" is not a benchmark",
        ),
        // Symptom: a profile that ignores options let wrong ones pass.
        (
            SITE.replace("--warmup=200ms", "--nosuch") + "[allow]\nprofiles = [\"linktest\"]\n",
            "web.toml:11: here: unexpected argument '--nosuch'",
        ),
        // Users cannot give it a time limit.
        (
            SITE.replace("--warmup=200ms", "--buffers=5"),
            "web.toml:11: here: ",
        ),
    ] {
        let (code, told, said) = check(&Site::new(&text));
        assert!(code == Some(2) && said.contains(line), "{told}{said}");
    }
    fs::create_dir(sound.runs()).expect("a folder");
    let all: fs::Permissions = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    fs::set_permissions(sound.runs(), all).expect("a folder of one's own");
    let (code, told, said) = check(&sound);
    assert!(
        code == Some(2) && said.contains("web.toml:2: results folder "),
        "{told}{said}"
    );
}

#[test]
fn behind_a_proxy_pages_stand_below_their_base() {
    let text = SITE.replace("names =", "base = \"/bench\"\ntls = true\nnames =");
    let site = Site::new(&text);
    let server = Served::start(&site);
    // A site that is set up for a proxy wants the token from every reader.
    assert_eq!(server.get("/bench/api/v1/site").status, 401);
    let get = |path: &str| server.ask("GET", path, &[("Authorization", BEARER)], "");
    let page = get("/bench/");
    assert!(
        page.status == 200 && page.body.contains("href=\"/bench/assets/site.css\""),
        "{page:?}"
    );
    for path in [
        "/bench",
        "/bench/runs",
        "/bench/assets/site.css",
        "/bench/api/v1/site",
        "/bench/health",
    ] {
        assert_eq!(get(path).status, 200, "{path}");
    }
    for path in ["/", "/runs", "/benches", "/api/v1/site"] {
        let reply = get(path);
        assert!(
            reply.status == 404 && reply.header("content-security-policy").is_some(),
            "{path}: {reply:?}"
        );
    }
    let form = [("Content-Type", "application/x-www-form-urlencoded")];
    let reply = server.ask("POST", "/bench/login", &form, &format!("token={TOKEN}"));
    let cookie = reply.header("set-cookie").expect("a session");
    assert!(
        cookie.contains("Path=/bench") && cookie.contains("Secure"),
        "{cookie}"
    );
    assert_eq!(reply.header("location"), Some("/bench/"));
}

/// Symptom: the first start said "(token in token)", and who read it had to look for the file.
#[test]
fn the_first_start_prints_a_link_that_logs_in_once() {
    let site = Site::new(SITE);
    fs::remove_file(site.folder.path().join("token")).expect("removed");
    let server = Served::start(&site);
    site::wait_until("the link is printed", || {
        server.said().contains("/login?link=")
    });
    let said = server.said();
    let (_, link) = said.split_once("/login?link=").expect("a link");
    let path = format!("/login?link={}", link.trim());
    // Who only looks ahead does not use it up.
    let look = server.ask("HEAD", &path, &[], "");
    let ahead = server.ask("GET", &path, &[("Sec-Purpose", "prefetch")], "");
    for reply in [&look, &ahead] {
        assert!(
            reply.status == 200 && reply.header("set-cookie").is_none(),
            "{reply:?}"
        );
    }
    let first = server.get(&path);
    let cookie = first.header("set-cookie").expect("a session");
    assert!(
        first.status == 303 && cookie.contains("HttpOnly"),
        "{first:?}"
    );
    let session = cookie.split(';').next().expect("a value");
    let home = server.ask("GET", "/", &[("Cookie", session)], "");
    assert!(home.body.contains("Log out"), "{home:?}");
    let second = server.get(&path);
    assert!(
        second.status == 401 && second.header("set-cookie").is_none(),
        "{second:?}"
    );
    assert!(
        second
            .body
            .contains("The login link has expired or was used before."),
        "{second:?}"
    );
    drop(server);
    // The token is there now.
    assert!(!Served::start(&site).said().contains("link="));
}

/// Symptom: "Run again" pressed without a session led to the list after the login.
#[test]
fn a_login_leads_to_what_was_asked_for_and_to_no_other_site() {
    let site = Site::new(SITE);
    let server = Served::start(&site);
    let form = ("Content-Type", "application/x-www-form-urlencoded");
    let log_in = |to: &str| {
        let body = format!("token={TOKEN}&to={}", to.replace('&', "%26"));
        let reply = server.ask("POST", "/login", &[form], &body);
        reply.header("location").unwrap_or_default().to_owned()
    };
    for asked in [
        "/?again=pb-20261121-101500-abcdef",
        "/confirm?group=here&time=1s",
    ] {
        let reply = server.get(asked);
        let login = reply.header("location").expect("a place").to_owned();
        assert!(
            login.starts_with("/login?to=%") || login.starts_with("/login?to=/"),
            "{reply:?}"
        );
        let page = server.get(&login);
        let to = site::field(&page.body, "to").replace("&amp;", "&");
        assert_eq!((to.as_str(), log_in(&to).as_str()), (asked, asked));
        // A wrong token loses nothing.
        let wrong = format!("token=x&to={}", asked.replace('&', "%26"));
        let again = server.ask("POST", "/login", &[form], &wrong);
        assert!(
            again.status == 401 && again.body.contains("name=\"to\""),
            "{again:?}"
        );
    }
    let page = server.get("/runs?q=x");
    assert!(
        page.body.contains("href=\"/login?to=/runs%3Fq%3Dx\""),
        "{page:?}"
    );
    // A form whose session has ended leads to the page that has the form.
    let referer = format!("http://{}/confirm?group=here", server.address);
    let late = server.ask("POST", "/start", &[form, ("Referer", &referer)], "mark=x");
    let login = "/login?to=/confirm%3Fgroup%3Dhere";
    assert_eq!((late.status, late.header("location")), (303, Some(login)));
    for evil in [
        "//evil.example/",
        "/\\evil.example",
        "https://evil.example/",
        "%09//evil.example",
    ] {
        assert_eq!(log_in(evil), "/", "{evil}");
    }
}

/// Symptom: only load tests could be started from the page, and no page showed whether a port had always been so slow.
#[test]
fn every_kind_of_run_is_started_shown_and_kept_for_the_history() {
    let all = SITE.replace(
        "[limits]",
        "[allow]\nprofiles = [\"quick\", \"linktest\", \"imb\", \"latency\"]\n[limits]",
    );
    let all = all.replace(
        "[groups.here]",
        "[groups.here]\nlinktest = [\"--no-pin\"]\nimb = [\"PingPong\", \"--msglog=4:6\"]",
    );
    let all =
        all + "[groups.wired]\nhosts = \"local:4\"\nlatency = [\"cables.toml\", \"--map=order\"]\n";
    let site = Site::new(&all);
    let made = Command::new(PIPEBENCH)
        .args(
            "latency generate leaf-spine --leaves 2 --spines 1 --hosts-per-switch 2 -o cables.toml"
                .split(' '),
        )
        .current_dir(site.folder.path())
        .output()
        .expect("pipebench runs");
    assert!(made.status.success(), "{made:?}");
    let server = Served::start(&site);
    let shown = [
        ("latency", "<h2>Cables</h2>"),
        ("linktest", "Links between ranks"),
        ("imb", "PingPong"),
        ("quick", "Nodes on one host, slowest first"),
    ];
    for (profile, text) in shown {
        let time = if profile == "quick" { "1s" } else { "" };
        let group = if profile == "latency" {
            "wired"
        } else {
            "here"
        };
        let asked = format!(r#"{{"group":"{group}","profile":"{profile}","time":"{time}"}}"#);
        let name = server.start_run(&asked);
        let state = server.wait_for(&name, &["ended", "failed"]);
        assert_eq!(state["exit_code"], 0, "{state:#}");
        let page = server.get(&format!("/runs/{name}")).body;
        assert!(
            page.contains("<header data-word=") && page.contains(text),
            "{page}"
        );
        let report = server.get(&format!("/runs/{name}/report")).body;
        let back = format!("<a href=\"/runs/{name}\">Back to run {name}</a>");
        assert!(report.contains(&back), "{profile}");
    }
    let refused = server.post(
        "/api/v1/runs",
        r#"{"group":"here","profile":"imb","time":"1s"}"#,
    );
    assert_eq!(
        (refused.status, &refused.json()["field"]),
        (422, &"time".into())
    );
    let page = server.get("/history?q=local&port=local2").body;
    assert!(
        page.contains("History of local2") && page.contains("quick, all-to-all"),
        "{page}"
    );
    assert!(
        page.contains("3 of the runs have no figures of this port"),
        "{page}"
    );
    let page = server.get("/history").body;
    assert!(page.contains("History of the slowest port"), "{page}");
}
