//! Runs from a browser, asked for by a client that says what it likes: runs, queue, cancel, restart, and whoever means no good.

mod openmetrics;
mod site;

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::time::{Duration, Instant};

use pipebench::internals::record::Record;
use pipebench::internals::report::json;
use site::{BEARER, PIPEBENCH, SITE, SOON, Served, Site, TOKEN, field, request, send, wait_until};

const SHORT: &str = r#"{"group":"here","time":"2s","by":"anna","note":"a \"test\""}"#;
const LONG: &str = r#"{"group":"here","time":"60s"}"#;

fn record(site: &Site, name: &str) -> Record {
    let text = fs::read_to_string(site.runs().join(name).join("record.json")).expect("a record");
    json::read(&text).expect("a record")
}

#[test]
fn a_run_is_followed_and_read_and_is_as_one_of_the_command_line() {
    let site = Site::new(SITE);
    let server = Served::start(&site);
    let offer = server.post("/api/v1/offer", SHORT);
    assert_eq!(offer.status, 200, "{offer:?}");
    assert_eq!(
        offer.json()["question"],
        "Loads this machine with 3 nodes for 3 s."
    );
    assert!(site.names().is_empty(), "an offer starts nothing");

    let name = server.start_run(SHORT);
    // Events, as a program gets them.
    let mut stream = TcpStream::connect(server.address).expect("a server");
    stream.set_read_timeout(Some(SOON)).expect("a time");
    let asked = request(
        server.address,
        "GET",
        &format!("/api/v1/runs/{name}/events"),
        &[],
        "",
    );
    stream.write_all(&asked).expect("sent");
    let mut states = Vec::new();
    for line in BufReader::new(stream).lines().map_while(Result::ok) {
        if let Some(data) = line.strip_prefix("data: ") {
            states.push(serde_json::from_str::<serde_json::Value>(data).expect("a state"));
        }
    }
    let last = states.last().expect("events");
    assert_eq!(last["state"], "ended", "{last:#}");
    let measured: Vec<&serde_json::Value> = states
        .iter()
        .filter(|state| {
            state["live"]["course_bits_per_s"]
                .as_array()
                .is_some_and(|points| !points.is_empty())
        })
        .collect();
    assert!(!measured.is_empty(), "no event had a rate: {states:#?}");
    for state in &measured {
        let live = &state["live"];
        assert_eq!(live["nodes"].as_array().expect("nodes").len(), 3);
        let rows = live["matrix_bits_per_s"].as_array().expect("a matrix");
        assert_eq!(rows.len(), 3);
        assert!(
            rows[0][0].is_null(),
            "what a node sends to itself is no pair of ports"
        );
    }
    let moved = measured
        .iter()
        .any(|state| state["live"]["matrix_bits_per_s"][0][1].as_u64() > Some(0));
    assert!(moved, "{measured:#?}");

    let state = server.state(&name);
    assert_eq!(
        (&state["state"], &state["by"], &state["note"]),
        (&"ended".into(), &"anna".into(), &"a \"test\"".into())
    );
    assert_eq!(state["exit_code"], 0, "{state:#}");
    let own = record(&site, &name);
    assert_eq!(own.name(), name);
    assert_eq!(
        state["sentence"],
        pipebench::internals::report::judged::sentence(&own)
    );

    // The same words on the command line.
    let kept = tempfile::tempdir().expect("a folder");
    let status = Command::new(PIPEBENCH)
        .args(&own.command)
        .arg("--output")
        .arg(kept.path())
        .stdout(std::process::Stdio::null())
        .status()
        .expect("pipebench runs");
    assert!(status.success());
    let folder = fs::read_dir(kept.path())
        .expect("a folder")
        .flatten()
        .next()
        .expect("a run")
        .path();
    let text = fs::read_to_string(folder.join("record.json")).expect("a record");
    let other = json::read(&text).expect("a record");
    let plan = |record: &Record| {
        let mut plan = record.plan.clone();
        plan.seed = 0;
        plan
    };
    assert_eq!(plan(&own), plan(&other));
    let shape = |record: &Record| {
        let tests = record.tests().iter();
        let tests: Vec<_> = tests
            .map(|test| {
                (
                    test.complete,
                    test.links.len(),
                    test.conservation.faults.len(),
                )
            })
            .collect();
        (
            tests,
            record.verdict.word,
            record.exit_code,
            record.hosts.len(),
        )
    };
    assert_eq!(shape(&own), shape(&other));

    // Downloads are what `report` makes of the record.
    for (file, format) in [
        ("report.html", "html"),
        ("table.csv", "csv"),
        ("junit.xml", "junit"),
        ("metrics.txt", "openmetrics"),
        ("summary.txt", "text"),
    ] {
        let reply = server.get(&format!("/runs/{name}/{file}"));
        let made = Command::new(PIPEBENCH)
            .args(["report", "--format", format])
            .arg(site.runs().join(&name))
            .output()
            .expect("pipebench runs");
        assert_eq!(reply.status, 200, "{file}");
        let made = String::from_utf8_lossy(&made.stdout);
        // A reader of the summary is told the place of the record, too.
        let made = made.split("\nrecord /").next().unwrap_or_default();
        assert_eq!(reply.body.trim_end(), made.trim_end(), "{file}");
        let same = server.get(&format!("/api/v1/runs/{name}/{file}"));
        assert!(same.status == 200 && same.body == reply.body, "{file}");
        let tag = same.header("etag").expect("a tag").to_owned();
        let known = [("If-None-Match", tag.as_str())];
        let reply = server.ask("GET", &format!("/api/v1/runs/{name}/{file}"), &known, "");
        assert!(reply.status == 304 && reply.body.is_empty(), "{reply:?}");
    }
    let whole = server.get(&format!("/api/v1/runs/{name}/record"));
    assert_eq!(json::read(&whole.body).expect("a record"), own);
    let report = server.get(&format!("/runs/{name}/report"));
    assert!(
        report
            .header("content-security-policy")
            .is_some_and(|policy| !policy.contains("script-src"))
    );
    let found = |words: &str| {
        server.get(&format!("/api/v1/runs?q={words}")).json()["runs"]
            .as_array()
            .expect("runs")
            .len()
    };
    assert_eq!(
        (found("ANNA"), found("anna%20test"), found("bert")),
        (1, 1, 0)
    );
    let metrics = server.get("/metrics");
    let series = openmetrics::series("/metrics", &metrics.body);
    let labels = "{group=\"here\",fabric=\"here\"";
    for own in [
        format!("pipebench_last_run_verdict{labels},verdict=\"NOT JUDGED\"}}"),
        format!("pipebench_last_run_exit_code{labels}}}"),
        format!("pipebench_last_run_age_seconds{labels}}}"),
    ] {
        assert!(series.contains(own.as_str()), "{own}: {metrics:?}");
    }
    assert!(
        !metrics.body.contains(&name),
        "a series of a run: {metrics:?}"
    );
    assert_eq!(server.get("/api/v1/health").body, "ok\n");
    assert_eq!(server.get("/health").body, "ok\n");
}

/// Symptom: the page of a run whose server was lost looked like that of a live run, since a page heard nothing between two states either.
#[test]
fn a_page_hears_from_its_server_while_nothing_changes() {
    let site = Site::new(SITE);
    let server = Served::start(&site);
    let [first, second] = server.one_runs_and_one_waits();
    let mut stream = TcpStream::connect(server.address).expect("a server");
    stream.set_read_timeout(Some(SOON)).expect("a time");
    let path = format!("/runs/{second}/events");
    let asked = request(server.address, "GET", &path, &[], "");
    stream.write_all(&asked).expect("sent");
    let (mut alive, mut part) = (0, String::new());
    for line in BufReader::new(stream).lines().map_while(Result::ok) {
        if let Some(data) = line.strip_prefix("data: <") {
            data.clone_into(&mut part);
        }
        alive += usize::from(line == "event: alive");
        if alive == 2 {
            break;
        }
    }
    assert_eq!(alive, 2, "{part}");
    let link = format!("href=\"/runs/{first}\">");
    assert!(part.contains(&link), "{part}");
    assert!(part.contains("It starts in about "), "{part}");
}

#[test]
fn runs_of_a_fabric_wait_for_each_other_and_can_be_cancelled() {
    let site = Site::new(SITE);
    let server = Served::start(&site);
    let first = server.start_run(LONG);
    server.wait_for_data(&first);
    let second = server.start_run(r#"{"group":"here too","time":"1s"}"#);
    let third = server.start_run(LONG);
    let state = server.wait_for(&third, &["queued"]);
    assert_eq!(
        (&state["before"], &state["behind"]),
        (&2.into(), &first.as_str().into())
    );
    let page = server.get(&format!("/runs/{third}"));
    let wait = "This run waits for 2 runs";
    assert!(page.body.contains(wait), "{page:?}");

    let cancel = |name: &str| {
        server
            .post(&format!("/api/v1/runs/{name}/cancel"), "")
            .status
    };
    assert_eq!(cancel(&third), 202);
    let state = server.wait_for(&third, &["cancelled"]);
    assert_eq!(
        (&state["has_record"], &state["why"]),
        (&false.into(), &"the run was cancelled".into())
    );
    assert_eq!(cancel(&first), 202);
    let state = server.wait_for(&first, &["cancelled"]);
    // What was measured until then is kept.
    assert_eq!(
        (&state["has_record"], &state["exit_code"]),
        (&true.into(), &130.into())
    );
    assert_eq!(cancel(&first), 409);
    // The next one has its turn.
    let state = server.wait_for(&second, &["ended"]);
    assert_eq!(state["exit_code"], 0, "{state:#}");
    wait_until("nothing is left of them", || site.processes().is_empty());
    assert_eq!(
        fs::read_dir(site.runs().join(".queue"))
            .expect("a queue")
            .count(),
        0
    );
}

#[test]
fn a_host_that_has_another_run_is_told_with_its_name() {
    let site = Site::new(SITE);
    let server = Served::start(&site);
    let mut other = Command::new(PIPEBENCH)
        .args([
            "--hosts", "local:2", "--time", "60s", "--rate", "50M", "--quiet",
        ])
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .expect("pipebench starts");
    wait_until("the other run has the host", || {
        let status = Command::new(PIPEBENCH)
            .args(["status", "local"])
            .output()
            .expect("pipebench runs");
        String::from_utf8_lossy(&status.stdout).contains("local")
            && String::from_utf8_lossy(&status.stdout).contains("running")
    });
    let name = server.start_run(SHORT);
    let state = server.wait_for(&name, &["failed", "ended"]);
    let why = state["why"].as_str().unwrap_or_default().to_owned();
    nix::sys::signal::kill(
        nix::unistd::Pid::from_raw(i32::try_from(other.id()).expect("a process id")),
        nix::sys::signal::Signal::SIGINT,
    )
    .expect("there");
    other.wait().expect("reaped");
    assert!(
        why.contains("busy: run ") && why.contains(" since "),
        "{state:#}"
    );
}

#[test]
fn a_server_that_is_started_again_finds_its_runs() {
    let site = Site::new(SITE);
    let server = Served::start(&site);
    let [first, second] = server.one_runs_and_one_waits();
    server.kill();
    // A run does not outlive its server.
    wait_until("their processes have ended", || site.processes().is_empty());
    let server = Served::start(&site);
    let state = server.state(&first);
    assert_eq!(state["state"], "ended", "{state:#}");
    assert!(
        state["why"]
            .as_str()
            .is_some_and(|why| why.contains("its server stopped")),
        "{state:#}"
    );
    assert!(!record(&site, &first).troubles.is_empty());
    // Nobody had begun with this one: it is in the queue all the time, and has its turn.
    let state = server.wait_for(&second, &["running", "ended", "failed", "cancelled"]);
    assert_ne!(state["state"], "failed", "{state:#}");
    let state = server.wait_for(&second, &["ended"]);
    assert_eq!(state["exit_code"], 0, "{state:#}");
}

#[test]
fn a_browser_logs_in_is_asked_and_starts() {
    let site = Site::new(SITE);
    let server = Served::start(&site);
    assert!(server.get("/").body.contains("Log in to start a run"));
    let form = [("Content-Type", "application/x-www-form-urlencoded")];
    let wrong = server.ask("POST", "/login", &form, "token=x");
    assert_eq!(wrong.status, 401);
    let reply = server.ask("POST", "/login", &form, &format!("token={TOKEN}"));
    assert_eq!(reply.status, 303, "{reply:?}");
    let cookie = reply.header("set-cookie").expect("a session");
    assert!(
        cookie.contains("HttpOnly") && cookie.contains("SameSite=Lax") && !cookie.contains(TOKEN),
        "{cookie}"
    );
    let session = cookie.split(';').next().expect("a cookie").to_owned();
    let with = [("Cookie", session.as_str()), form[0]];
    let page = server.ask("GET", "/", &with[..1], "");
    let mark = field(&page.body, "mark").to_owned();
    let values = "group=here&phases=2&time=1s&test=quick+all-to-all&hosts=&rate=&by=&note=";
    let body = format!("mark={mark}&{values}");
    let (place_of_question, question) = server.question(&with[..1], values);
    assert!(
        question
            .body
            .contains("Loads this machine with 3 nodes for 2 s."),
        "{question:?}"
    );
    assert!(site.names().is_empty());
    // The rate of the site is a part of what is asked.
    assert!(
        question.body.contains("at most 200.0 Mbit/s per link"),
        "{question:?}"
    );
    let (_, refused) = server.question(&with[..1], &values.replace("time=1s", "time=2h"));
    assert!(
        refused.status == 422 && refused.body.contains("this site allows"),
        "{refused:?}"
    );

    // Forms that are not ours, by whatever is missing.
    let count =
        |headers: &[(&str, &str)], body: &str| server.ask("POST", "/start", headers, body).status;
    assert_eq!(count(&with, &body.replace(&mark, "00")), 403);
    assert_eq!(count(&with, &body.replace("mark=", "x=")), 403);
    assert_eq!(
        count(
            &[with[0], with[1], ("Origin", "http://evil.example")],
            &body
        ),
        403
    );
    assert_eq!(
        count(&[with[0], with[1], ("Sec-Fetch-Site", "cross-site")], &body),
        403
    );
    assert_eq!(
        count(&form, &body),
        303,
        "without a session there is the login"
    );
    let forged = format!("{}0", session);
    assert_eq!(count(&[("Cookie", &forged), form[0]], &body), 303);
    assert!(site.names().is_empty(), "none of them started anything");
    // Neither does a session in the API, which a browser sends by itself.
    let json = [with[0], ("Content-Type", "application/json")];
    assert_eq!(server.ask("POST", "/api/v1/runs", &json, SHORT).status, 401);

    // The button of one question is pressed twice: one run.
    let once = format!("{body}&ticket={}", field(&question.body, "ticket"));
    let started = server.ask("POST", "/start", &with, &once);
    assert_eq!(started.status, 303, "{started:?}");
    let place = started.header("location").expect("a place").to_owned();
    let again = server.ask("POST", "/start", &with, &once);
    assert_eq!(again.header("location"), Some(place.as_str()), "{again:?}");
    assert_eq!(site.names().len(), 1);
    // Symptom: Back after Start asked to send a form again. The question has an address, and names its run now.
    let back = server.ask("GET", &place_of_question, &with[..1], "");
    assert!(
        back.status == 200 && back.body.contains("This run was started"),
        "{back:?}"
    );
    let name = place.rsplit('/').next().expect("a name").to_owned();
    server.wait_for(&name, &["ended"]);
    let page = server.ask("GET", &place, &with[..1], "");
    assert!(page.body.contains("Open the report"), "{page:?}");
    // Symptom: error pages offered "Log in" to a user who was logged in.
    let nothing = server.ask("GET", "/nothing", &with[..1], "");
    assert!(
        nothing.status == 404 && nothing.body.contains("Log out"),
        "{nothing:?}"
    );
    // Symptom: the search found no host of a run.
    for (words, count) in [("local2", 1), ("local9", 0)] {
        let found = server.get(&format!("/api/v1/runs?q={words}")).json();
        assert_eq!(found["runs"].as_array().expect("runs").len(), count);
        assert!(found["next"].is_null(), "{found}");
    }
    let list = server.get("/api/v1/runs").json();
    let state = server.get(&format!("/api/v1/runs/{name}")).json();
    for run in [&list["runs"][0], &state] {
        let fields = ["group", "profile", "rate_bits_per_s"].map(|field| run[field].to_string());
        assert_eq!(fields, ["\"here\"", "\"quick\"", "200000000"], "{run}");
    }
    let before = server.get(&format!("/api/v1/runs?before={name}")).json();
    assert_eq!(before["runs"].as_array().expect("runs").len(), 0);
    let again = server.ask("GET", &format!("/?again={name}"), &with[..1], "");
    assert!(again.body.contains("value=\"1s\""), "{again:?}");
    let out = server.ask("POST", "/logout", &with, &format!("mark={mark}"));
    assert!(
        out.header("set-cookie")
            .is_some_and(|cookie| cookie.contains("Max-Age=0")),
        "{out:?}"
    );
    // No secret in what it says, and none in what it keeps.
    assert!(!server.said().contains(TOKEN), "{}", server.said());
    assert!(
        server.said().contains(&format!("start {name}")),
        "{}",
        server.said()
    );
}

#[test]
fn hostile_requests_get_their_status_and_change_nothing() {
    let site = Site::new(SITE);
    let server = Served::start(&site);
    let token = ("Authorization", BEARER);
    let kind = ("Content-Type", "application/json");
    let ask = |method: &str, path: &str, headers: &[(&str, &str)], body: &str| {
        server.ask(method, path, headers, body).status
    };
    // Paths that want out, and names that are none.
    for path in [
        "/runs/..%2f..%2ftoken",
        "/runs/..%2fweb.toml/record.json",
        "/runs/%2e%2e/token",
        "/runs/../../token",
        "/assets/..%2f..%2fCargo.toml",
        "/runs/pb-20261121-101500-abcdef%2f..%2f..%2ftoken/record.json",
        "/runs/.queue",
        "/runs/.fabric-here",
        "/api/v1/runs/..%2f..%2ftoken",
        "/api/v1/runs/%00",
        "/runs/pb-20261121-101500-abcdef/record.json",
        "/api/v1/nothing",
        "/compare?before=..%2ftoken&now=x",
        "/compare?now=pb-20261121-101500-abcdef",
        "/runs?before=..%2ftoken",
        "//etc/passwd",
    ] {
        assert_eq!(ask("GET", path, &[], ""), 404, "{path}");
    }
    // Words that would be options, hosts that are none, fields that nobody knows, too much of everything.
    for body in [
        r#"{"hosts":"-oProxyCommand=touch /tmp/x"}"#,
        r#"{"hosts":"n1"}"#,
        r#"{"group":"--hosts=n1"}"#,
        r#"{"group":"here","pattern":"--rsh=x"}"#,
        r#"{"group":"here","pattern":"/etc/passwd"}"#,
        r#"{"group":"here","time":"61s"}"#,
        r#"{"group":"here","time":"-1s"}"#,
        r#"{"group":"here","rate":"1T"}"#,
        r#"{"group":"here","phases":1000000}"#,
        r#"{"group":"here","options":["--rsh=x"]}"#,
        r#"{"group":"here","by":"a\u0000b"}"#,
        r#"{"group":"here","profile":"soak"}"#,
        r#"{"group":"here","time":"1e400s"}"#,
        r#"{"group":"here","time":"99999999999999999999s"}"#,
        r#"{"group":"here","pattern":"--output=x"}"#,
        r#"{"group":"here","phases":99999999999}"#,
        r#"{"group":"here","rate":"0"}"#,
        r#"{"group":"here","rate":"1e99G"}"#,
        r#"{"group":"here","note":"a\nb"}"#,
        r#"{"group":"here","by":"\u001b[31manna"}"#,
        r#"{"group":"here","by":"a\u202eb"}"#,
        r#"{"group":7}"#,
        "[]",
    ] {
        let reply = server.ask("POST", "/api/v1/runs", &[token, kind], body);
        assert_eq!(reply.status, 422, "{body}");
        let kind = reply.header("content-type");
        assert_eq!(kind, Some("application/problem+json"), "{body}");
        let what = reply.json()["detail"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        let steers = what.contains(pipebench::internals::outside::steers);
        assert!(!what.is_empty() && !steers, "{body}: {what:?}");
    }
    // Symptom: texts of the parser, without the name of the field.
    for (path, field) in [
        ("/api/v1/runs?most=x", Some("most")),
        ("/api/v1/runs/%ff", None),
    ] {
        let reply = server.get(path);
        let problem = reply.json();
        assert_eq!(
            (reply.status, problem["field"].as_str()),
            (400, field),
            "{path}"
        );
        assert!(!reply.body.contains("deserialize"), "{path}: {reply:?}");
    }
    let reply = server.ask("POST", "/api/v1/runs", &[token, kind], r#"{"group":7}"#);
    assert_eq!(reply.json()["field"], "group", "{reply:?}");
    assert_eq!(ask("POST", "/api/v1/runs", &[token, kind], "{"), 400);
    assert_eq!(ask("POST", "/api/v1/runs", &[token], SHORT), 415);
    assert_eq!(
        ask(
            "POST",
            "/api/v1/runs",
            &[token, kind],
            &format!("{{\"note\":\"{}\"}}", "x".repeat(20_000))
        ),
        413
    );
    assert_eq!(ask("DELETE", "/api/v1/runs", &[token], ""), 405);
    assert_eq!(ask("POST", "/runs", &[token], ""), 405);
    assert_eq!(ask("POST", "/confirm", &[token], ""), 405);
    assert_eq!(ask("GET", "/confirm?group=here", &[], ""), 303);
    assert_eq!(ask("GET", "/api/v1/runs?before=x", &[], ""), 422);
    // Without the token, with another one, from elsewhere, under another name.
    assert_eq!(ask("POST", "/api/v1/runs", &[kind], SHORT), 401);
    assert_eq!(
        ask(
            "POST",
            "/api/v1/runs",
            &[kind, ("Authorization", "Bearer x")],
            SHORT
        ),
        401
    );
    assert_eq!(
        ask(
            "POST",
            "/api/v1/runs",
            &[kind, ("Authorization", "Basic eDp4")],
            SHORT
        ),
        401
    );
    assert_eq!(
        ask(
            "POST",
            "/api/v1/runs",
            &[kind, ("Cookie", "pipebench=9999999999.x.00")],
            SHORT
        ),
        401
    );
    assert_eq!(
        ask(
            "POST",
            "/api/v1/runs",
            &[kind, token, ("Origin", "http://evil.example")],
            SHORT
        ),
        403
    );
    assert_eq!(ask("GET", "/", &[("Host", "evil.example")], ""), 421);
    assert_eq!(ask("GET", "/", &[("Host", "[::1]:80")], ""), 200);
    // What is no request.
    let long = format!(
        "GET / HTTP/1.1\r\nHost: localhost\r\nX: {}\r\n\r\n",
        "x".repeat(40_000)
    );
    assert_eq!(server.send(long.as_bytes()).status, 431);
    let many: String = (0..200)
        .map(|number| format!("X-{number}: x\r\n"))
        .collect();
    assert_eq!(
        server
            .send(format!("GET / HTTP/1.1\r\nHost: localhost\r\n{many}\r\n").as_bytes())
            .status,
        431
    );
    assert_eq!(
        server
            .send(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n")
            .status,
        400
    );
    assert_eq!(
        server.send(b"GET / HTTP/1.1\r\n\r\n").status,
        421,
        "no name of a host"
    );
    let both = b"POST /api/v1/runs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /x HTTP/1.1\r\n";
    assert!(matches!(server.send(both).status, 400 | 401));
    // Under another name than this machine's, as by a proxy, reading needs the token, too.
    let named = ("Host", "bench.example.org");
    assert_eq!(
        ask("GET", "/runs/pb-20261121-101500-abcdef", &[named], ""),
        303
    );
    assert_eq!(ask("GET", "/runs", &[named, token], ""), 200);
    assert_eq!(ask("HEAD", "/", &[], ""), 200);
    assert_eq!(ask("OPTIONS", "/", &[], ""), 405);
    assert_eq!(ask("GET", "/runs/%ff", &[], ""), 400);
    let words = "x%20".repeat(9);
    assert_eq!(ask("GET", &format!("/api/v1/runs?q={words}"), &[], ""), 422);
    assert_eq!(
        ask("GET", &format!("/runs?q={}", "x".repeat(201)), &[], ""),
        422
    );
    // Guesses are counted, and whoever has a session is not held up by them.
    let form = [("Content-Type", "application/x-www-form-urlencoded")];
    let reply = server.ask("POST", "/login", &form, &format!("token={TOKEN}"));
    let cookie = reply.header("set-cookie").expect("a session").to_owned();
    let session = cookie.split(';').next().expect("a cookie");
    // A minute may end among them: of forty more than twenty are too many in any case.
    let guesses: Vec<u16> = (0..40)
        .map(|guess| {
            let guess = format!("Bearer {guess}");
            ask(
                "POST",
                "/api/v1/runs",
                &[kind, ("Authorization", &guess)],
                SHORT,
            )
        })
        .collect();
    let refused = guesses.iter().filter(|status| **status == 429).count();
    assert!(
        refused >= 20 && guesses.iter().all(|status| matches!(status, 401 | 429)),
        "{guesses:?}"
    );
    // Symptom: a refused client did not learn when to try again.
    let wrong = [("Authorization", "Bearer x")];
    let reply = (0..20)
        .map(|_| server.ask("GET", "/api/v1/site", &wrong, ""))
        .find(|reply| reply.status == 429)
        .expect("too many in any case");
    let wait = reply.header("retry-after").expect("a time");
    assert!((1..=60).contains(&wait.parse().expect("seconds")), "{wait}");
    let page = server.ask("GET", "/", &[("Cookie", session)], "");
    assert!(page.body.contains("Log out"), "{page:?}");
    // Nothing was changed, and who has the token is served.
    assert!(site.names().is_empty());
    assert_eq!(site.processes(), [0_i32; 0]);
    let headers = server.get("/");
    for (name, words) in [
        ("content-security-policy", "default-src 'none'"),
        ("x-content-type-options", "nosniff"),
        ("x-frame-options", "DENY"),
        ("referrer-policy", "same-origin"),
        ("cache-control", "no-store"),
    ] {
        assert!(
            headers
                .header(name)
                .is_some_and(|value| value.contains(words)),
            "{name}: {headers:?}"
        );
    }
    assert!(
        !server.said().contains("0123456789abcdef"),
        "{}",
        server.said()
    );
}

#[test]
fn two_hundred_starts_at_once_are_taken_in_bounded_number() {
    let site = Site::new(&SITE.replace("starts-per-minute = 100", "starts-per-minute = 20"));
    let server = Served::start(&site);
    let address = server.address;
    let headers = [
        ("Authorization", BEARER),
        ("Content-Type", "application/json"),
    ];
    let bytes = request(address, "POST", "/api/v1/runs", &headers, LONG);
    let statuses: Vec<u16> = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..200)
            .map(|_| scope.spawn(|| send(address, &bytes).status))
            .collect();
        clients
            .into_iter()
            .map(|client| client.join().expect("a status"))
            .collect()
    });
    let mut counts: BTreeMap<u16, usize> = BTreeMap::new();
    for status in &statuses {
        *counts.entry(*status).or_default() += 1;
    }
    // One has the fabric, four wait; twenty were looked at.
    assert_eq!(counts.get(&201), Some(&5), "{counts:?}");
    assert_eq!(counts.values().sum::<usize>(), 200);
    assert!(
        counts
            .keys()
            .all(|status| matches!(status, 201 | 409 | 429)),
        "{counts:?}"
    );
    assert_eq!(site.names().len(), 5);
    for name in site.names() {
        let status = server
            .post(&format!("/api/v1/runs/{name}/cancel"), "")
            .status;
        assert!(matches!(status, 202 | 409), "{status}");
    }
    for name in site.names() {
        wait_until("all are cancelled", || {
            let state = server.state(&name);
            if state["state"] == "queued" || state["state"] == "running" {
                server.post(&format!("/api/v1/runs/{name}/cancel"), "");
                return false;
            }
            true
        });
    }
    wait_until("nothing is left of them", || site.processes().is_empty());
}

#[test]
fn slow_clients_go_and_listeners_are_counted() {
    let site = Site::new(SITE);
    let server = Served::start(&site);
    // Heads that never end, and a body that does not come.
    let began = Instant::now();
    let mut slow: Vec<TcpStream> = [
        "GET / HT",
        "GET / HTTP/1.1\r\nHost: loc",
        "POST /login HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: 100\r\n\r\ntoken=",
    ]
    .iter()
    .map(|text| {
        let mut stream = TcpStream::connect(server.address).expect("a server");
        stream.write_all(text.as_bytes()).expect("sent");
        stream
    })
    .collect();
    let name = server.start_run(LONG);
    let listen = request(
        server.address,
        "GET",
        &format!("/runs/{name}/events"),
        &[],
        "",
    );
    let mut listeners = Vec::new();
    let mut statuses: BTreeMap<String, usize> = BTreeMap::new();
    for _ in 0..80 {
        let mut stream = TcpStream::connect(server.address).expect("a server");
        stream.set_read_timeout(Some(SOON)).expect("a time");
        stream.write_all(&listen).expect("sent");
        let mut first = [0; 12];
        stream.read_exact(&mut first).expect("an answer");
        *statuses
            .entry(String::from_utf8_lossy(&first).into_owned())
            .or_default() += 1;
        listeners.push(stream);
    }
    assert_eq!(statuses.get("HTTP/1.1 200"), Some(&64), "{statuses:?}");
    assert_eq!(statuses.get("HTTP/1.1 503"), Some(&16), "{statuses:?}");
    // Everybody else is served meanwhile.
    assert_eq!(server.get("/health").status, 200);
    drop(listeners);
    wait_until("seats are free again", || {
        let mut stream = TcpStream::connect(server.address).expect("a server");
        stream.set_read_timeout(Some(SOON)).expect("a time");
        stream.write_all(&listen).expect("sent");
        let mut first = [0; 12];
        stream.read_exact(&mut first).is_ok() && &first == b"HTTP/1.1 200"
    });
    for stream in &mut slow {
        stream.set_read_timeout(Some(SOON)).expect("a time");
        let mut rest = Vec::new();
        match stream.read_to_end(&mut rest) {
            Ok(_) => {}
            Err(error) => panic!("a slow client was not turned away: {error}"),
        }
    }
    assert!(
        began.elapsed() > Duration::from_secs(5),
        "they were given a moment"
    );
    assert_eq!(
        server
            .post(&format!("/api/v1/runs/{name}/cancel"), "")
            .status,
        202
    );
    server.wait_for(&name, &["cancelled"]);
}

#[test]
fn a_run_does_not_outlive_its_limit_and_has_one_keeper() {
    let site = Site::new(SITE);
    let name = "pb-20261121-101500-abcdef";
    let folder = site.runs().join(name);
    fs::create_dir_all(&folder).expect("a folder");
    let words = [
        "--hosts=local:2",
        "--time=60s",
        "--warmup=200ms",
        "--rate=50M",
    ];
    let request = serde_json::json!({
        "version": 1, "name": name, "asked_ms": 1, "by": "anna", "note": "", "what": "", "fabric": "here", "fields": {}, "words": words,
        "extent": {"ports": 0, "nodes": 2, "tests": 1, "data_ms": 60_200}, "limit_ms": 4_000
    });
    let own: fs::Permissions = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(site.runs(), own).expect("a folder of one's own");
    fs::write(folder.join("request.json"), request.to_string()).expect("a file");
    let keep = || {
        let mut runner = Command::new(PIPEBENCH)
            .arg("keep")
            .arg(&folder)
            .stdin(std::process::Stdio::piped())
            .spawn()
            .expect("pipebench starts");
        let mut input = runner.stdin.take().expect("piped");
        input
            .write_all(request.to_string().as_bytes())
            .expect("read");
        runner
    };
    let began = Instant::now();
    let mut runners = [keep(), keep()];
    for runner in &mut runners {
        assert!(runner.wait().expect("a status").success());
    }
    assert!(
        began.elapsed() > Duration::from_secs(3),
        "it was given its time"
    );
    let outcome = fs::read_to_string(folder.join("outcome.json")).expect("an outcome");
    assert!(
        outcome.contains("\"how\":\"limit\"") && outcome.contains("\"exit_code\":130"),
        "{outcome}"
    );
    assert!(
        !record(&site, name).troubles.is_empty(),
        "what was measured is kept"
    );
    assert_eq!(site.processes(), [0_i32; 0]);
    // One that comes late finds that it is over.
    assert!(keep().wait().expect("a status").success());
    assert_eq!(
        fs::read_to_string(folder.join("outcome.json")).expect("an outcome"),
        outcome
    );
}

/// Symptom: assets were sent anew with each page, and nothing was compressed.
#[test]
fn assets_are_sent_once_and_compressed_and_events_leave_at_once() {
    let site = Site::new(SITE);
    let server = Served::start(&site);
    let path = "/assets/site.css";
    let plain = server.get(path);
    let tag = plain.header("etag").expect("a tag").to_owned();
    assert!(
        tag.starts_with('"') && plain.header("content-encoding").is_none(),
        "{plain:?}"
    );
    // The body is no text, so only the head is read as one.
    let asked = request(
        server.address,
        "GET",
        path,
        &[("Accept-Encoding", "gzip")],
        "",
    );
    let mut stream = TcpStream::connect(server.address).expect("a server");
    stream.set_read_timeout(Some(SOON)).expect("a time");
    stream.write_all(&asked).expect("sent");
    let mut packed = Vec::new();
    stream.read_to_end(&mut packed).expect("an answer");
    assert!(packed.len() < plain.head.len() + plain.body.len());
    let packed = String::from_utf8_lossy(&packed);
    let head = packed.split("\r\n\r\n").next().unwrap_or_default();
    assert!(head.contains("content-encoding: gzip"), "{head}");
    let other = head.lines().find_map(|line| line.strip_prefix("etag: "));
    let other = other.expect("a tag").to_owned();
    assert_ne!(tag, other, "one strong tag for two forms");
    for known in [&tag, &other] {
        let reply = server.ask("GET", path, &[("If-None-Match", known)], "");
        assert!(reply.status == 304 && reply.body.is_empty(), "{reply:?}");
        assert_eq!(reply.header("etag"), Some(known.as_str()));
    }
    assert_eq!(
        server
            .ask("GET", path, &[("If-None-Match", "\"x\"")], "")
            .status,
        200
    );
    let name = server.start_run(LONG);
    let mut stream = TcpStream::connect(server.address).expect("a server");
    stream.set_read_timeout(Some(SOON)).expect("a time");
    let path = format!("/api/v1/runs/{name}/events");
    let headers = [("Accept-Encoding", "gzip")];
    let asked = request(server.address, "GET", &path, &headers, "");
    stream.write_all(&asked).expect("sent");
    let mut lines = BufReader::new(stream).lines().map_while(Result::ok);
    let head: Vec<String> = lines.by_ref().take_while(|line| !line.is_empty()).collect();
    let is_encoding = |line: &String| line.to_lowercase().starts_with("content-encoding");
    assert!(!head.iter().any(is_encoding), "{head:?}");
    assert!(lines.any(|line| line.starts_with("data: {")));
    // A page's are compressed, and each one comes when it happens: an encoder that waits for more would never send these.
    let path = format!("/runs/{name}/events");
    let asked = request(server.address, "GET", &path, &headers, "");
    let mut stream = TcpStream::connect(server.address).expect("a server");
    stream.set_read_timeout(Some(SOON)).expect("a time");
    stream.write_all(&asked).expect("sent");
    let mut stream = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        stream.read_line(&mut head).expect("a head");
    }
    assert!(head.contains("content-encoding: gzip"), "{head}");
    let chunks = Chunks { stream, left: 0 };
    let lines = BufReader::new(flate2::read::GzDecoder::new(chunks)).lines();
    let parts = lines.map_while(Result::ok);
    let parts = parts.filter(|line| line.starts_with("data: <div id=\"run\""));
    assert_eq!(parts.take(3).count(), 3);
}

/// The body of an answer in chunks (RFC 9112, 7.1).
struct Chunks<R> {
    stream: R,
    left: usize,
}

impl<R: BufRead> Read for Chunks<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        while self.left == 0 {
            let mut size = String::new();
            self.stream.read_line(&mut size)?;
            let size = size.trim();
            if !size.is_empty() {
                self.left = usize::from_str_radix(size, 16).map_err(std::io::Error::other)?;
            }
        }
        let most = buffer.len().min(self.left);
        let read = self.stream.read(&mut buffer[..most])?;
        self.left -= read;
        Ok(read)
    }
}
