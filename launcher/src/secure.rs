//! Sessions over libssh2: connection, host key, authentication, and the shell on a channel.
//!
//! All calls are non-blocking, so that deadlines and aborts hold everywhere. [`Trouble::Detour`]
//! reports what libssh2 cannot do. Read next: `attempt.rs`, which then uses the OpenSSH client.

use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ssh2::{ErrorCode, MethodType, Session};

use crate::alone::{FreedAlone, alone};
use crate::auth::{Denied, Login};
use crate::backoff::Backoff;
use crate::config::{HostConfig, Strictness};
use crate::connect::connect_any;
use crate::deploy::Order;
use crate::error::{LaunchError, Stage};
use crate::known::{KnownKeys, Verdict, fingerprint, type_of, with_port};
use crate::pace::{Pace, Unsettled};
use crate::plan::Plan;
use crate::resolve::resolve;
use crate::session::channel::ChannelCarrier;
use crate::session::drive::{Outcome, Path, seconds};
use crate::session::line::Line;
use crate::session::report::Report;

/// The reason for a missing session.
#[derive(Debug)]
pub(crate) enum Trouble {
    /// The launch has failed for good.
    Failed(LaunchError),
    /// The OpenSSH client can succeed. Without that client `error` is final.
    Detour { reason: String, error: LaunchError },
}

impl Trouble {
    /// The OpenSSH client can succeed where this failed.
    fn detour(error: LaunchError) -> Trouble {
        Trouble::Detour {
            reason: error.text.clone(),
            error,
        }
    }
}

impl From<LaunchError> for Trouble {
    fn from(error: LaunchError) -> Trouble {
        Trouble::Failed(error)
    }
}

/// Runs one session, from resolving the name to the session's end.
pub(crate) fn attempt(
    plan: &Plan,
    config: &HostConfig,
    order: &Order,
    line: &Line,
    report: &mut Report,
) -> Result<Outcome, Trouble> {
    let deadlines = plan.settings.deadlines;
    report.stage(Stage::Resolve);
    let addresses = resolve(
        &config.hostname,
        config.port,
        plan.settings.family,
        deadlines.resolve,
        line,
    )?;
    report.stage(Stage::Connect);
    let known = known_keys(config);
    let (session, socket, address) = connect(&addresses, &known, deadlines.connect, line)?;
    report.stage(Stage::HostKey);
    check_host_key(&session, config, &known, plan, report)?;
    report.stage(Stage::Authenticate);
    let within = |limit: Duration| Pace {
        socket: &socket,
        until: Instant::now() + limit,
        line,
    };
    log_in(&session, config, plan, &within(deadlines.authenticate))?;
    report.stage(Stage::Deploy);
    let channel = open_shell(&session, &within(deadlines.deploy))?;
    let mut carrier = ChannelCarrier::new(session, channel, Arc::clone(&socket));
    let path = Path {
        transport: "ssh2",
        address: Some(address.ip()),
    };
    let answer = (Stage::Deploy, deadlines.deploy);
    Ok(plan.drive_shell(&mut carrier, order, answer, path, line, report))
}

/// Connects and does the SSH handshake. A server with too many logins at once drops some
/// connections before it speaks. Those are retried with growing pauses until the deadline.
fn connect(
    addresses: &[SocketAddr],
    known: &KnownKeys,
    limit: Duration,
    line: &Line,
) -> Result<(FreedAlone<Session>, Arc<TcpStream>, SocketAddr), Trouble> {
    let until = Instant::now() + limit;
    let mut backoff = Backoff::until(until);
    loop {
        let (stream, address) = connect_any(addresses, until, limit, line)?;
        let socket = Arc::new(stream);
        let pace = Pace {
            socket: &socket,
            until,
            line,
        };
        let reason = match shake_hands(&socket, known, &pace) {
            Ok(session) => return Ok((session, socket, address)),
            Err(reason) => reason,
        };
        // A non-blocking session is freed only if it has nothing to wait for.
        socket.shutdown(Shutdown::Both).ok();
        let error = match reason {
            Unsettled::Aborted => return Err(LaunchError::new(Stage::Connect, "aborted").into()),
            Unsettled::Late => {
                let text = format!(
                    "timed out after {}: no answer from an SSH server",
                    seconds(limit)
                );
                return Err(LaunchError::new(Stage::Connect, text).into());
            }
            Unsettled::Ssh(error) => error,
        };
        if !dropped_by_server(&error) {
            let text = format!("no agreement with the SSH server: {}", error.message());
            let error = LaunchError::new(Stage::Connect, text);
            return Err(Trouble::detour(error));
        }
        if !backoff.wait(line) {
            let text = format!(
                "the server dropped the connection {} times within {} ({})",
                backoff.times,
                seconds(limit),
                error.message()
            );
            let error = LaunchError::new(Stage::Connect, text);
            return Err(error
                .hint("does it limit concurrent logins (MaxStartups)? try a smaller --fanout")
                .into());
        }
    }
}

fn dropped_by_server(error: &ssh2::Error) -> bool {
    let dropped = [
        libssh2_sys::LIBSSH2_ERROR_BANNER_RECV,
        libssh2_sys::LIBSSH2_ERROR_BANNER_SEND,
        libssh2_sys::LIBSSH2_ERROR_SOCKET_DISCONNECT,
        libssh2_sys::LIBSSH2_ERROR_SOCKET_RECV,
        libssh2_sys::LIBSSH2_ERROR_SOCKET_SEND,
    ];
    matches!(error.code(), ErrorCode::Session(code) if dropped.contains(&code))
}

fn shake_hands(
    socket: &Arc<TcpStream>,
    known: &KnownKeys,
    pace: &Pace<'_>,
) -> Result<FreedAlone<Session>, Unsettled> {
    let mut session = FreedAlone::new(alone(Session::new).map_err(Unsettled::Ssh)?);
    alone(|| {
        session.set_blocking(false);
        prefer_known_types(&session, known);
        session.set_tcp_stream(Arc::clone(socket));
    });
    // The last handle frees the session. `handle` is never the last one.
    let mut handle = (*session).clone();
    pace.settle(&session, || handle.handshake())?;
    Ok(session)
}

/// Makes the session prefer the types of the known keys. If libssh2 refuses, its own order stays.
fn prefer_known_types(session: &Session, known: &KnownKeys) {
    let mut order = known.algorithms();
    let Ok(supported) = session.supported_algs(MethodType::HostKey) else {
        return;
    };
    order.retain(|algorithm| supported.contains(algorithm));
    if order.is_empty() {
        return;
    }
    let others: Vec<&str> = supported
        .into_iter()
        .filter(|algorithm| !order.contains(algorithm))
        .collect();
    order.extend(others);
    session
        .method_pref(MethodType::HostKey, &order.join(","))
        .ok();
}

/// Reads all entries about a host from the configured files.
fn known_keys(config: &HostConfig) -> KnownKeys {
    let (name, port) = known_as(config);
    let mut known = KnownKeys::default();
    for file in &config.known_hosts {
        // A missing file has no entries; the error about the unknown key names the cure.
        if let Ok(bytes) = std::fs::read(file) {
            known.read(
                &file.display().to_string(),
                &String::from_utf8_lossy(&bytes),
                name,
                port,
            );
        }
    }
    known
}

/// Name and port under which the host's key is known. An alias has no port, as in the OpenSSH
/// client.
fn known_as(config: &HostConfig) -> (&str, u16) {
    match &config.key_alias {
        Some(alias) => (alias, 22),
        None => (&config.hostname, config.port),
    }
}

fn check_host_key(
    session: &Session,
    config: &HostConfig,
    known: &KnownKeys,
    plan: &Plan,
    report: &Report,
) -> Result<(), Trouble> {
    let Some(blob) = alone(|| session.host_key().map(|(blob, _)| blob.to_vec())) else {
        return Err(LaunchError::new(Stage::HostKey, "the server sent no key").into());
    };
    let verdict = known.judge(&blob);
    if verdict == Verdict::Known {
        return Ok(());
    }
    let refused = refusal(&verdict, &blob, config, plan);
    match (verdict, config.strictness) {
        (Verdict::Authority, _) => Err(Trouble::Detour {
            reason: "a certificate authority signs the host's keys".to_owned(),
            error: refused,
        }),
        (Verdict::Unknown, Strictness::AcceptNew) => Err(Trouble::Detour {
            reason: "StrictHostKeyChecking accept-new is configured".to_owned(),
            error: refused,
        }),
        // An impostor of the host would receive the password.
        (Verdict::Changed { .. }, Strictness::Off) if plan.secrets.password.is_some() => {
            Err(refused.into())
        }
        (Verdict::Unknown | Verdict::Changed { .. }, Strictness::Off) => {
            report.notice(format!(
                "host key not checked (StrictHostKeyChecking no): {}",
                refused.text
            ));
            Ok(())
        }
        _ => Err(refused.into()),
    }
}

fn refusal(verdict: &Verdict, blob: &[u8], config: &HostConfig, plan: &Plan) -> LaunchError {
    let shown = format!("{} {}", type_of(blob), fingerprint(blob));
    let (name, port) = (&config.hostname, config.port);
    let new = |text: String| LaunchError::new(Stage::HostKey, text);
    match verdict {
        Verdict::Revoked { file, line } => {
            new(format!("the key {shown} was revoked ({file} line {line})"))
        }
        Verdict::Changed { file, line } => {
            let (known_name, known_port) = known_as(config);
            let entry = with_port(known_name, known_port);
            new(format!("the host's key has changed to {shown}, the known key is another one ({file} line {line})")).hint(format!(
                "someone may intercept the connection; if the host was reinstalled: ssh-keygen -R '{entry}' -f {file}"
            ))
        }
        Verdict::Known | Verdict::Unknown | Verdict::Authority => {
            let file = plan.settings.known_hosts.as_ref();
            let file = file.map_or_else(
                || "~/.ssh/known_hosts".to_owned(),
                |file| file.display().to_string(),
            );
            new(format!("the host's key is unknown: {shown}")).hint(format!(
                "check the fingerprint, then: ssh-keyscan -p {port} {name} >> {file}, or name a file with this key: --known-hosts FILE"
            ))
        }
    }
}

fn log_in(
    session: &Session,
    config: &HostConfig,
    plan: &Plan,
    pace: &Pace<'_>,
) -> Result<(), Trouble> {
    let Some(user) = config.user.as_deref() else {
        let error = LaunchError::new(Stage::Authenticate, "no user name");
        return Err(error.hint("name one: --user USER or user@host").into());
    };
    let login = Login {
        session,
        user,
        config,
        secrets: &plan.secrets,
        named_keys: !plan.settings.identities.is_empty(),
        pace,
    };
    let Err(denied) = login.authenticate() else {
        return Ok(());
    };
    if pace.line.aborted() {
        return Err(LaunchError::new(Stage::Authenticate, "aborted").into());
    }
    let limit = plan.settings.deadlines.authenticate;
    let error = denial(user, denied, limit, pace.until);
    if plan.secrets.password.is_some() {
        // The OpenSSH client would have to ask for the password again, in every session.
        return Err(error.into());
    }
    Err(Trouble::detour(error))
}

fn denial(user: &str, denied: Denied, limit: Duration, until: Instant) -> LaunchError {
    if Instant::now() >= until {
        let text = format!("timed out after {}", seconds(limit));
        return LaunchError::new(Stage::Authenticate, text);
    }
    let tried = match denied.tried.is_empty() {
        true => "no key and no agent to try".to_owned(),
        false => denied.tried.join("; "),
    };
    let text = format!("permission denied for user {user}: {tried}");
    let methods = if denied.methods.is_empty() {
        "no method that it names".to_owned()
    } else {
        denied.methods
    };
    LaunchError::new(Stage::Authenticate, text).hint(format!(
        "the server accepts {methods}; ssh-copy-id, --identity FILE or --user USER may help"
    ))
}

fn open_shell(
    session: &Session,
    pace: &Pace<'_>,
) -> Result<FreedAlone<ssh2::Channel>, LaunchError> {
    let failed = |reason: Unsettled| {
        LaunchError::new(Stage::Deploy, format!("no shell on the host: {reason}"))
    };
    let channel = pace.settle(session, || session.channel_session());
    let mut channel = FreedAlone::new(channel.map_err(failed)?);
    pace.settle(session, || channel.exec("/bin/sh -s"))
        .map_err(failed)?;
    Ok(channel)
}
