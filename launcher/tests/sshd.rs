//! Sessions to a real OpenSSH server on 127.0.0.2, with throw-away keys.
//!
//! If the server is missing, these tests fail where CI=true and are skipped with a message elsewhere.
//! Every wait has a deadline. Every process that is started here is ended here, by its pid.

#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot make its ground fails"
)]

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use launcher::hosts::{Host, parse};
use launcher::{Event, Fleet, LaunchError, Program, Settings, Stage, start};

const SERVER: &str = "/usr/sbin/sshd";
const ADDRESS: &str = "127.0.0.2";
const LONG: Duration = Duration::from_secs(60);
const MAGIC: &[u8] = b"MAGIC-WORD\n";

/// A server with its own keys, and the files of its user.
struct Sshd {
    folder: tempfile::TempDir,
    port: u16,
    child: Child,
}

impl Sshd {
    /// Starts a server with the options `extra`; `None` if no server is installed.
    fn start(extra: &str) -> Option<Sshd> {
        if !Path::new(SERVER).exists() {
            assert_ne!(
                std::env::var("CI").as_deref(),
                Ok("true"),
                "{SERVER} is missing (package openssh-server)"
            );
            eprintln!("SKIPPED: {SERVER} is missing (package openssh-server)");
            return None;
        }
        // The server needs this folder to separate privileges. The boot makes it, not the package.
        fs::create_dir_all("/run/sshd").ok();
        let folder = tempfile::tempdir().unwrap();
        for name in ["host_ed25519", "host_ecdsa", "user", "stranger"] {
            let kind = name.strip_prefix("host_").unwrap_or("ed25519");
            keygen(&folder.path().join(name), kind, "");
        }
        fs::copy(
            folder.path().join("user.pub"),
            folder.path().join("authorized_keys"),
        )
        .unwrap();
        for _ in 0..5 {
            let port = TcpListener::bind((ADDRESS, 0))
                .unwrap()
                .local_addr()
                .unwrap()
                .port();
            if let Some(child) = serve(folder.path(), port, extra) {
                let sshd = Sshd {
                    folder,
                    port,
                    child,
                };
                sshd.know("host_ed25519");
                return Some(sshd);
            }
        }
        panic!(
            "sshd does not start: {}",
            fs::read_to_string(folder.path().join("log")).unwrap()
        );
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Makes this key the only one that the user knows.
    fn know(&self, key: &str) {
        let public = fs::read_to_string(self.path(&format!("{key}.pub"))).unwrap();
        fs::write(
            self.path("known_hosts"),
            format!("[{ADDRESS}]:{} {public}", self.port),
        )
        .unwrap();
    }

    fn settings(&self) -> Settings {
        let mut settings = Settings {
            identities: vec![self.path("user")],
            known_hosts: Some(self.path("known_hosts")),
            remote_dir: Some(self.path("remote").to_str().unwrap().to_owned()),
            magic: MAGIC.to_vec(),
            arguments: vec!["an argument".to_owned()],
            ..Settings::default()
        };
        settings.deadlines.connect = Duration::from_secs(30);
        settings.deadlines.start = Duration::from_secs(30);
        settings
    }

    fn hosts(&self, count: usize) -> Vec<Host> {
        let host = format!("{ADDRESS}:{}", self.port);
        parse(&vec![host; count].join(",")).unwrap()
    }

    /// A configuration file for `ssh -F`.
    fn client_config(&self) -> PathBuf {
        let file = self.path("config");
        let text = format!(
            "Host *\nPort {}\nIdentityFile {}\nUserKnownHostsFile {}\nGlobalKnownHostsFile /dev/null\nBatchMode yes\n",
            self.port,
            self.path("user").display(),
            self.path("known_hosts").display()
        );
        fs::write(&file, text).unwrap();
        file
    }
}

impl Drop for Sshd {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!(
                "log of sshd:\n{}",
                fs::read_to_string(self.path("log")).unwrap_or_default()
            );
        }
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

fn keygen(file: &Path, kind: &str, passphrase: &str) {
    let made = Command::new("ssh-keygen")
        .args(["-q", "-t", kind, "-N", passphrase, "-f"])
        .arg(file)
        .status();
    assert!(made.unwrap().success());
}

/// Starts a server and waits until it listens; `None` if it ends first.
fn serve(folder: &Path, port: u16, extra: &str) -> Option<Child> {
    let at = |name: &str| folder.join(name).display().to_string();
    let config = format!(
        // sshd uses the first value of each keyword.
        "{}\nListenAddress {ADDRESS}\nPort {port}\nHostKey {}\nHostKey {}\nAuthorizedKeysFile {}\nPidFile none\n\
         StrictModes no\nUsePAM no\nPermitRootLogin yes\nPasswordAuthentication no\nKbdInteractiveAuthentication no\n",
        extra.replace("FOLDER", &folder.display().to_string()),
        at("host_ed25519"),
        at("host_ecdsa"),
        at("authorized_keys"),
    );
    fs::write(folder.join("sshd_config"), config).unwrap();
    let log = fs::File::create(folder.join("log")).unwrap();
    let mut command = match extra.contains("PasswordAuthentication yes") {
        true => with_own_password(folder),
        false => Command::new(SERVER),
    };
    let mut child = command
        .args(["-D", "-e", "-f"])
        .arg(folder.join("sshd_config"))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log)
        .spawn()
        .unwrap();
    let until = Instant::now() + LONG;
    while Instant::now() < until {
        if child.try_wait().unwrap().is_some() {
            return None;
        }
        if TcpStream::connect((ADDRESS, port)).is_ok() {
            return Some(child);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    child.kill().ok();
    child.wait().ok();
    None
}

/// A server for which root's password is [`PASSWORD`], in a private mount namespace, so that nothing changes outside.
fn with_own_password(folder: &Path) -> Command {
    const HASH: &str = "$6$pipebench$bpxvc2VvLqOuytFKhMcReOdGLyU7vYufjxCb5Pu0j/ECfim7ibPdkGT9r7dowvUAJoCL5dXsVF36sCEDjqN/z0";
    let shadow = folder.join("shadow");
    fs::write(
        &shadow,
        format!("root:{HASH}:19000:0:99999:7:::\nsshd:*:19000::::::\n"),
    )
    .unwrap();
    let script = "mount --bind \"$0\" /etc/shadow && exec \"$@\"";
    let mut command = Command::new("unshare");
    command
        .args(["--mount", "sh", "-c", script])
        .arg(shadow)
        .arg(SERVER);
    command
}

const PASSWORD: &str = "correct horse";

/// A program that prints its magic word, its argument and its pid, then echoes its input.
fn program() -> Program {
    program_of("echo before; printf 'MAGIC-WORD\\n'; echo \"$1\"; echo $$; exec cat")
}

fn program_of(text: &str) -> Program {
    let bytes = format!("#!/bin/sh\n{text}\n").into_bytes();
    let file = tempfile::NamedTempFile::new().unwrap();
    file.as_file().write_all(&bytes).unwrap();
    Program::read(file.path()).unwrap()
}

/// All events of one host until it has ended.
#[derive(Default, Debug)]
struct Story {
    stages: Vec<Stage>,
    notices: Vec<String>,
    up: Option<(String, String)>,
    text: String,
    end: Option<Event>,
}

struct Run {
    fleet: Fleet,
    events: Receiver<(usize, Event)>,
    stories: BTreeMap<usize, Story>,
}

impl Run {
    fn start(hosts: &[Host], settings: Settings, program: Program) -> Run {
        let (sender, events) = channel();
        let fleet = start(hosts, settings, program, sender);
        Run {
            fleet,
            events,
            stories: (0..hosts.len())
                .map(|host| (host, Story::default()))
                .collect(),
        }
    }

    /// Takes events until the condition holds.
    fn until(&mut self, what: &str, done: impl Fn(&BTreeMap<usize, Story>) -> bool) {
        let deadline = Instant::now() + LONG;
        while !done(&self.stories) {
            let left = deadline.saturating_duration_since(Instant::now());
            let Ok((host, event)) = self.events.recv_timeout(left) else {
                panic!("waited in vain until {what}: {:#?}", self.stories);
            };
            let story = self.stories.get_mut(&host).unwrap();
            match event {
                Event::Stage(stage) => story.stages.push(stage),
                Event::Notice(text) => story.notices.push(text),
                Event::Up {
                    transport, noise, ..
                } => story.up = Some((transport, noise)),
                Event::Bytes(bytes, _) => story.text.push_str(&String::from_utf8(bytes).unwrap()),
                Event::Complaint(..) => {}
                end => assert!(story.end.replace(end).is_none(), "two ends"),
            }
        }
    }

    fn until_ended(&mut self) {
        self.until("all have ended", |stories| {
            stories.values().all(|story| story.end.is_some())
        });
    }

    /// Waits until the programs have printed their pids.
    fn until_talking(&mut self) {
        self.until("all talk", |stories| {
            stories
                .values()
                .all(|story| story.text.lines().count() >= 2)
        });
    }

    fn process(&self, host: usize) -> String {
        self.stories[&host].text.lines().nth(1).unwrap().to_owned()
    }

    /// Sends a line to the first host, hangs up, and returns that host's events.
    fn talk(mut self) -> Story {
        assert!(self.fleet.send(0, b"hello\n"));
        self.fleet.hang_up(0);
        self.until_ended();
        self.fleet.finish(LONG);
        assert!(
            self.events.recv().is_err(),
            "no thread is left that could tell something"
        );
        self.stories.remove(&0).unwrap()
    }
}

fn assert_talked(story: &Story, transport: &str) {
    assert_eq!(
        story.up.as_ref().map(|up| up.0.as_str()),
        Some(transport),
        "{story:#?}"
    );
    assert!(
        story.text.starts_with("an argument\n") && story.text.ends_with("\nhello\n"),
        "{story:#?}"
    );
    assert_eq!(
        story.end,
        Some(Event::Ended {
            status: Some(0),
            signal: None
        })
    );
}

fn failure(story: Story) -> LaunchError {
    match story.end {
        Some(Event::Failed(error)) => error,
        other => panic!("{other:?}"),
    }
}

fn gone(process: &str) -> bool {
    let until = Instant::now() + LONG;
    let alive = || {
        fs::read_to_string(format!("/proc/{process}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
    };
    while alive() && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(10));
    }
    !alive()
}

/// The copies on the host: files in the sub-folder of this user.
fn copies(sshd: &Sshd) -> Vec<PathBuf> {
    let own = fs::read_dir(sshd.path("remote")).unwrap().next().unwrap();
    let copies = fs::read_dir(own.unwrap().path()).unwrap();
    copies.map(|copy| copy.unwrap().path()).collect()
}

#[test]
fn deploys_talks_and_copies_nothing_the_second_time() {
    let Some(sshd) = Sshd::start("") else { return };
    let story = Run::start(&sshd.hosts(1), sshd.settings(), program()).talk();
    assert_talked(&story, "ssh2");
    assert_eq!(story.up.as_ref().unwrap().1, "before\n");
    assert_eq!(
        story.stages,
        [
            Stage::Resolve,
            Stage::Connect,
            Stage::HostKey,
            Stage::Authenticate,
            Stage::Deploy,
            Stage::Start
        ]
    );
    let made_copies = copies(&sshd);
    assert_eq!(made_copies.len(), 1, "{made_copies:?}");
    let file = made_copies[0].clone();
    assert_eq!(
        fs::metadata(&file).unwrap().permissions().mode() & 0o777,
        0o700
    );
    let made = std::os::unix::fs::MetadataExt::ino(&fs::metadata(&file).unwrap());
    let story = Run::start(&sshd.hosts(1), sshd.settings(), program()).talk();
    assert_talked(&story, "ssh2");
    assert_eq!(
        std::os::unix::fs::MetadataExt::ino(&fs::metadata(&file).unwrap()),
        made
    );
    assert_eq!(copies(&sshd), made_copies);
}

/// A program of 5 MB, of which half is left when it is compressed.
fn large_program() -> Program {
    let digests = (0..80_000_u32).map(|n| format!("# {}\n", launcher::digest_of(&n.to_le_bytes())));
    let script = String::from_utf8(program().bytes.to_vec()).unwrap();
    let bytes = (script + &digests.collect::<String>()).into_bytes();
    Program::new(PathBuf::new(), bytes, program().arch)
}

/// Symptom: 20 MB travelled to each host, 200 GB to 10,000 hosts.
#[test]
fn the_executable_travels_compressed() {
    let Some(sshd) = Sshd::start("ForceCommand tee FOLDER/came | /bin/sh -s") else {
        return;
    };
    let program = large_program();
    let whole = program.bytes.len() as u64;
    let story = Run::start(&sshd.hosts(1), sshd.settings(), program).talk();
    assert_talked(&story, "ssh2");
    let came = fs::metadata(sshd.path("came")).unwrap().len();
    assert!(
        came > whole / 3 && came < whole * 2 / 3,
        "{came} of {whole} bytes"
    );
    let copy = copies(&sshd).pop().unwrap();
    assert_eq!(fs::metadata(copy).unwrap().len(), whole);
}

#[test]
fn a_large_executable_arrives_whole_and_much_data_goes_both_ways() {
    let Some(sshd) = Sshd::start("") else { return };
    let mut run = Run::start(&sshd.hosts(1), sshd.settings(), large_program());
    run.until_talking();
    let data = "0123456789abcde\n".repeat(1 << 18);
    assert!(run.fleet.send(0, data.as_bytes()));
    let story = run.talk();
    assert!(
        story.text.contains(&data),
        "{} bytes came back",
        story.text.len()
    );
    assert_eq!(
        story.end,
        Some(Event::Ended {
            status: Some(0),
            signal: None
        })
    );
}

#[test]
fn the_exit_status_and_the_signal_arrive() {
    let Some(sshd) = Sshd::start("") else { return };
    let story = Run::start(
        &sshd.hosts(1),
        sshd.settings(),
        program_of("echo MAGIC-WORD; cat; exit 7"),
    )
    .talk();
    assert_eq!(
        story.end,
        Some(Event::Ended {
            status: Some(7),
            signal: None
        })
    );
    let story = Run::start(
        &sshd.hosts(1),
        sshd.settings(),
        program_of("echo MAGIC-WORD; cat; kill -TERM $$"),
    )
    .talk();
    assert_eq!(
        story.end,
        Some(Event::Ended {
            status: None,
            signal: Some("TERM".into())
        })
    );
    let story = Run::start(
        &sshd.hosts(1),
        sshd.settings(),
        program_of("echo 'cannot load' >&2; exit 4"),
    )
    .talk();
    let error = failure(story);
    assert_eq!(error.stage, Stage::Start);
    assert_eq!(
        error.text,
        "the program ended with status 4 before its first message: cannot load"
    );
}

#[test]
fn an_unknown_key_is_refused_with_fingerprint_and_cure() {
    let Some(sshd) = Sshd::start("") else { return };
    fs::write(sshd.path("known_hosts"), "").unwrap();
    let error = failure(Run::start(&sshd.hosts(1), sshd.settings(), program()).talk());
    assert_eq!(error.stage, Stage::HostKey);
    let fingerprint = |key: &str| {
        let output = Command::new("ssh-keygen")
            .arg("-lf")
            .arg(sshd.path(key))
            .output()
            .unwrap();
        String::from_utf8(output.stdout)
            .unwrap()
            .split(' ')
            .nth(1)
            .unwrap()
            .to_owned()
    };
    let (one, other) = (
        fingerprint("host_ed25519.pub"),
        fingerprint("host_ecdsa.pub"),
    );
    assert!(
        error.text.starts_with("the host's key is unknown: "),
        "{error}"
    );
    assert!(
        error.text.ends_with(&one) || error.text.ends_with(&other),
        "{error}"
    );
    let cure = format!("ssh-keyscan -p {} {ADDRESS} >> ", sshd.port);
    assert!(error.hint.as_ref().unwrap().contains(&cure), "{error}");
}

#[test]
fn a_changed_key_is_told_from_an_unknown_one() {
    let Some(sshd) = Sshd::start("") else { return };
    sshd.know("stranger");
    let error = failure(Run::start(&sshd.hosts(1), sshd.settings(), program()).talk());
    assert_eq!(error.stage, Stage::HostKey);
    assert!(
        error
            .text
            .starts_with("the host's key has changed to ssh-ed25519 SHA256:"),
        "{error}"
    );
    assert!(
        error.hint.as_ref().unwrap().contains("ssh-keygen -R"),
        "{error}"
    );
}

#[test]
fn a_host_known_by_another_type_of_key_and_by_a_hashed_name_is_known() {
    let Some(sshd) = Sshd::start("") else { return };
    sshd.know("host_ecdsa");
    let hashed = Command::new("ssh-keygen")
        .args(["-H", "-f"])
        .arg(sshd.path("known_hosts"))
        .output()
        .unwrap();
    assert!(hashed.status.success());
    assert!(
        fs::read_to_string(sshd.path("known_hosts"))
            .unwrap()
            .starts_with("|1|")
    );
    assert_talked(
        &Run::start(&sshd.hosts(1), sshd.settings(), program()).talk(),
        "ssh2",
    );
}

#[test]
fn a_key_that_is_not_authorized_is_refused() {
    let Some(sshd) = Sshd::start("") else { return };
    let mut settings = sshd.settings();
    settings.identities = vec![sshd.path("stranger")];
    let story = Run::start(&sshd.hosts(1), settings, program()).talk();
    assert!(
        story.notices[0].starts_with("using the OpenSSH client: permission denied"),
        "{story:?}"
    );
    let error = failure(story);
    assert_eq!(error.stage, Stage::Authenticate);
    assert!(error.text.contains("stranger"), "{error}");
    assert!(
        error
            .hint
            .as_ref()
            .unwrap()
            .contains("the server accepts publickey"),
        "{error}"
    );
}

#[test]
fn an_encrypted_key_needs_its_passphrase_which_is_asked_for_once() {
    let Some(sshd) = Sshd::start("") else { return };
    let key = sshd.path("encrypted");
    keygen(&key, "ed25519", "pass phrase");
    fs::copy(sshd.path("encrypted.pub"), sshd.path("authorized_keys")).unwrap();
    let asked = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let mut settings = sshd.settings();
    settings.identities = vec![key];
    settings.ask = Some(Arc::new(move |prompt: &str| {
        assert!(prompt.contains("encrypted"), "{prompt}");
        count.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        Some("pass phrase".to_owned())
    }));
    let mut run = Run::start(&sshd.hosts(3), settings, program());
    run.until_talking();
    assert_eq!(asked.load(std::sync::atomic::Ordering::SeqCst), 1);
    run.fleet.finish(LONG);
}

#[test]
fn a_password_is_asked_for_once_and_used_on_every_host() {
    let Some(sshd) = Sshd::start("PasswordAuthentication yes") else {
        return;
    };
    for (given, lets_in) in [(PASSWORD, true), ("wrong", false)] {
        let asked = Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let count = Arc::clone(&asked);
        let mut settings = sshd.settings();
        settings.identities = vec![sshd.path("stranger")];
        settings.user = Some("root".to_owned());
        settings.ask_password = true;
        settings.ask = Some(Arc::new(move |prompt: &str| {
            assert!(prompt.contains("password"), "{prompt}");
            count.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            Some(given.to_owned())
        }));
        if lets_in {
            let mut run = Run::start(&sshd.hosts(3), settings, program());
            run.until_talking();
            run.fleet.finish(LONG);
        } else {
            let error = failure(Run::start(&sshd.hosts(1), settings, program()).talk());
            assert_eq!(error.stage, Stage::Authenticate, "{error}");
        }
        assert_eq!(asked.load(std::sync::atomic::Ordering::SeqCst), 1);
    }
}

#[test]
fn a_refused_port_fails_at_once() {
    let Some(sshd) = Sshd::start("") else { return };
    let free = TcpListener::bind((ADDRESS, 0))
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let hosts = parse(&format!("{ADDRESS}:{free}")).unwrap();
    let error = failure(Run::start(&hosts, sshd.settings(), program()).talk());
    assert_eq!(error.stage, Stage::Connect);
    assert_eq!(error.text, format!("port {free} refuses the connection"));
}

#[test]
fn a_server_that_says_nothing_ends_at_the_deadline() {
    let Some(sshd) = Sshd::start("") else { return };
    let listener = TcpListener::bind((ADDRESS, 0)).unwrap();
    let hosts = parse(&format!(
        "{ADDRESS}:{}",
        listener.local_addr().unwrap().port()
    ))
    .unwrap();
    let mut settings = sshd.settings();
    settings.deadlines.connect = Duration::from_millis(400);
    let error = failure(Run::start(&hosts, settings, program()).talk());
    assert_eq!(
        error.to_string(),
        "cannot connect: timed out after 400 ms: no answer from an SSH server"
    );
}

#[test]
fn a_login_shell_that_prints_is_noise() {
    let noisy = "ForceCommand echo 'Welcome to this machine'; printf 'no line end '; eval \"$SSH_ORIGINAL_COMMAND\"";
    let Some(sshd) = Sshd::start(noisy) else {
        return;
    };
    let story = Run::start(&sshd.hosts(1), sshd.settings(), program()).talk();
    assert_talked(&story, "ssh2");
    assert_eq!(
        story.up.unwrap().1,
        "Welcome to this machine\nno line end before\n"
    );
}

#[test]
fn a_remote_shell_command_reaches_its_host() {
    let Some(sshd) = Sshd::start("") else { return };
    let config = sshd.client_config();
    for command in [
        format!("ssh -F {}", config.display()),
        format!("ssh -F '{}' -T %h", config.display()),
    ] {
        let settings = Settings {
            remote_shell: Some(command),
            ..sshd.settings()
        };
        let hosts = parse(ADDRESS).unwrap();
        assert_talked(&Run::start(&hosts, settings, program()).talk(), "rsh");
    }
    let settings = Settings {
        remote_shell: Some("no-such-remote-shell -p %p".into()),
        ..sshd.settings()
    };
    let error = failure(Run::start(&sshd.hosts(1), settings, program()).talk());
    assert_eq!(
        error.text,
        "remote shell command 'no-such-remote-shell' not found"
    );
}

#[test]
fn complaints_of_a_remote_shell_are_told_by_stage() {
    let Some(sshd) = Sshd::start("") else { return };
    let config = sshd.client_config();
    let hosts = parse(ADDRESS).unwrap();
    let told = |command: &str| {
        let settings = Settings {
            remote_shell: Some(command.to_owned()),
            ..sshd.settings()
        };
        failure(Run::start(&hosts, settings, program()).talk())
    };
    let file = config.display();
    let free = TcpListener::bind((ADDRESS, 0))
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    assert_eq!(
        told(&format!("ssh -F {file} -p {free}")).to_string(),
        "cannot connect: connection refused"
    );
    let stranger = sshd.path("stranger").display().to_string();
    let refused = told(&format!(
        "ssh -F /dev/null -p {} -o UserKnownHostsFile={} -o BatchMode=yes -o IdentitiesOnly=yes -i {stranger}",
        sshd.port,
        sshd.path("known_hosts").display()
    ));
    assert_eq!(
        refused.to_string(),
        "cannot authenticate: permission denied (publickey)"
    );
    sshd.know("stranger");
    assert_eq!(told(&format!("ssh -F {file}")).stage, Stage::HostKey);
    assert_eq!(
        told("sh -c 'echo no such partition >&2; exit 3'").text,
        "the host's shell ended with status 3 before it answered: no such partition"
    );
}

#[test]
fn what_ssh2_cannot_do_goes_on_over_the_openssh_client() {
    let Some(sshd) = Sshd::start("HostCertificate FOLDER/host_ed25519-cert.pub") else {
        return;
    };
    let signed = Command::new("ssh-keygen")
        .args(["-q", "-s"])
        .arg(sshd.path("stranger"))
        .args(["-I", "host", "-h", "-n", ADDRESS])
        .arg(sshd.path("host_ed25519.pub"))
        .status();
    assert!(signed.unwrap().success());
    // The server reads certificates when it starts.
    let Some(sshd) = restarted(sshd, "HostCertificate FOLDER/host_ed25519-cert.pub") else {
        panic!("no restart")
    };
    let authority = fs::read_to_string(sshd.path("stranger.pub")).unwrap();
    fs::write(
        sshd.path("known_hosts"),
        format!("@cert-authority * {authority}"),
    )
    .unwrap();
    let story = Run::start(&sshd.hosts(1), sshd.settings(), program()).talk();
    assert_talked(&story, "openssh");
    assert_eq!(
        story.notices,
        ["using the OpenSSH client: a certificate authority signs the host's keys"]
    );
}

fn restarted(mut sshd: Sshd, extra: &str) -> Option<Sshd> {
    sshd.child.kill().ok();
    sshd.child.wait().ok();
    sshd.child = serve(sshd.folder.path(), sshd.port, extra)?;
    Some(sshd)
}

#[test]
fn a_fan_out_wider_than_the_server_allows_comes_up_all_the_same() {
    let Some(sshd) = Sshd::start("MaxStartups 2:100:2\nLoginGraceTime 30") else {
        return;
    };
    let mut run = Run::start(&sshd.hosts(8), sshd.settings(), program());
    run.until_talking();
    assert!(
        run.stories
            .values()
            .all(|story| story.up.as_ref().unwrap().0 == "ssh2")
    );
    let processes: Vec<String> = (0..8).map(|host| run.process(host)).collect();
    run.fleet.finish(LONG);
    assert!(processes.iter().all(|process| gone(process)));
    assert_eq!(
        copies(&sshd).len(),
        1,
        "eight deployments at once leave one file"
    );
}

#[test]
fn an_answer_that_another_call_of_libssh2_took_in_is_not_left_until_the_next_look() {
    const HOSTS: usize = 8;
    // A session looks every second where nothing wakes it, and one of eight was late in most rounds.
    let new_keys = "MaxStartups 100\nRekeyLimit default 1";
    for (config, rounds, most_s) in [("MaxStartups 100", 40, 10), (new_keys, 400, 60)] {
        let Some(sshd) = Sshd::start(config) else {
            return;
        };
        let mut run = Run::start(&sshd.hosts(HOSTS), sshd.settings(), program());
        run.until_talking();
        let began = Instant::now();
        for round in 1..=rounds {
            assert!((0..HOSTS).all(|host| run.fleet.send(host, b"hello\n")));
            run.until("all have answered", |stories| {
                let answers = |story: &Story| story.text.matches("hello\n").count();
                stories.values().all(|story| answers(story) == round)
            });
        }
        let took = began.elapsed();
        assert!(took < Duration::from_secs(most_s), "{config}: {took:?}");
        run.fleet.finish(LONG);
    }
}

#[test]
fn the_remote_shell_too_comes_again_when_it_is_dropped() {
    let Some(sshd) = Sshd::start("MaxStartups 1:100:1") else {
        return;
    };
    let command = format!("ssh -F {}", sshd.client_config().display());
    let settings = Settings {
        remote_shell: Some(command),
        ..sshd.settings()
    };
    let hosts = parse(&[ADDRESS; 4].join(",")).unwrap();
    let mut run = Run::start(&hosts, settings, program());
    run.until_talking();
    run.fleet.finish(LONG);
}

#[test]
fn abort_and_finish_leave_no_process() {
    let Some(sshd) = Sshd::start("") else { return };
    let mut run = Run::start(&sshd.hosts(2), sshd.settings(), program());
    run.until_talking();
    let processes = [run.process(0), run.process(1)];
    run.fleet.abort(0);
    run.until("the aborted one has ended", |stories| {
        stories[&0].end.is_some()
    });
    assert_eq!(
        run.stories[&0].end,
        Some(Event::Ended {
            status: None,
            signal: None
        })
    );
    assert!(gone(&processes[0]));
    run.fleet.finish(LONG);
    assert!(gone(&processes[1]));
}

#[test]
fn an_abort_ends_a_connection_that_is_being_made() {
    let Some(sshd) = Sshd::start("") else { return };
    let listener = TcpListener::bind((ADDRESS, 0)).unwrap();
    let hosts = parse(&format!(
        "{ADDRESS}:{}",
        listener.local_addr().unwrap().port()
    ))
    .unwrap();
    let mut run = Run::start(&hosts, sshd.settings(), program());
    run.until("it connects", |stories| {
        stories[&0].stages.contains(&Stage::Connect)
    });
    run.fleet.abort(0);
    run.until_ended();
    let error = failure(run.stories.remove(&0).unwrap());
    assert_eq!(
        (error.stage, error.text.as_str()),
        (Stage::Connect, "aborted")
    );
    run.fleet.finish(LONG);
}

#[test]
fn a_session_that_is_cut_by_the_server_ends() {
    let Some(sshd) = Sshd::start("") else { return };
    let mut run = Run::start(&sshd.hosts(1), sshd.settings(), program());
    run.until_talking();
    let parent = |process: &str| {
        let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap();
        let line = status
            .lines()
            .find(|line| line.starts_with("PPid:"))
            .unwrap();
        line.split_whitespace().nth(1).unwrap().to_owned()
    };
    let session = parent(&run.process(0));
    assert_ne!(session, sshd.child.id().to_string());
    assert!(
        Command::new("kill")
            .args(["-KILL", &session])
            .status()
            .unwrap()
            .success()
    );
    run.until_ended();
    assert!(
        matches!(run.stories[&0].end, Some(Event::Ended { signal: None, .. })),
        "{:?}",
        run.stories[&0].end
    );
    run.fleet.finish(LONG);
}

#[test]
fn a_full_folder_gives_way_to_nothing_but_its_name() {
    let Some(sshd) = Sshd::start("") else { return };
    let file = sshd.path("file");
    fs::write(&file, "in the way").unwrap();
    let mut settings = sshd.settings();
    settings.remote_dir = Some(file.to_str().unwrap().to_owned());
    let error = failure(Run::start(&sshd.hosts(1), settings, program()).talk());
    assert_eq!(error.stage, Stage::Deploy);
    assert!(
        error
            .text
            .contains(&format!("no folder is usable: {}", file.display())),
        "{error}"
    );
    assert!(error.hint.unwrap().contains("--remote-dir"));
}

/// The agent is found by an environment variable, which belongs to a whole process. So this test runs
/// itself again in a process that has the variable.
#[test]
fn the_agent_opens_what_is_encrypted() {
    const INNER: &str = "LAUNCHER_TEST_KEY";
    let Some(sshd) = Sshd::start("") else { return };
    if let Some(key) = std::env::var_os(INNER) {
        let key = PathBuf::from(key);
        fs::copy(key.with_extension("pub"), sshd.path("authorized_keys")).unwrap();
        let settings = Settings {
            identities: vec![key],
            ..sshd.settings()
        };
        assert_talked(
            &Run::start(&sshd.hosts(1), settings, program()).talk(),
            "ssh2",
        );
        return;
    }
    let key = sshd.path("held");
    keygen(&key, "ed25519", "");
    let socket = sshd.path("agent");
    let mut agent = Command::new("ssh-agent")
        .arg("-D")
        .arg("-a")
        .arg(&socket)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let until = Instant::now() + LONG;
    let add = || {
        Command::new("ssh-add")
            .arg("-q")
            .arg(&key)
            .env("SSH_AUTH_SOCK", &socket)
            .stderr(Stdio::null())
            .status()
    };
    while !add().unwrap().success() && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(20));
    }
    let encrypt = Command::new("ssh-keygen")
        .args(["-q", "-p", "-N", "pass phrase", "-f"])
        .arg(&key)
        .status();
    let inner = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "the_agent_opens_what_is_encrypted",
            "--nocapture",
        ])
        .env("SSH_AUTH_SOCK", &socket)
        .env(INNER, &key)
        .output();
    agent.kill().ok();
    agent.wait().ok();
    assert!(encrypt.unwrap().success());
    let inner = inner.unwrap();
    assert!(
        inner.status.success(),
        "{}{}",
        String::from_utf8_lossy(&inner.stdout),
        String::from_utf8_lossy(&inner.stderr)
    );
}
