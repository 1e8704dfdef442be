//! The port at which nodes join a run, its token file, and the command that starts the nodes: as long as the run lasts.

use std::fs::{self, DirBuilder};
use std::net::IpAddr;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use launcher::hosts::Host;
use launcher::join::{JoinPort, Starter, Token, TokenFile};

use crate::report::quoted;
use crate::{exit, sys};

use super::args::Launch;
use super::process::{listen, make_room, variable};
use super::resolve::{self, Engine};
use super::terminal::{complain, fail, refuse, write_all};

/// What the nodes of a run join.
pub(super) struct Joining {
    port: Arc<JoinPort>,
    starter: Option<Starter>,
    /// The token file, if this run has made it: dropping it removes the file.
    _file: Option<TokenFile>,
}

/// Nodes that joined a run which had no hosts yet.
pub(super) struct Gathered {
    /// What they joined.
    pub joining: Joining,
    /// Their names.
    pub names: Vec<String>,
    /// Number of the signal that asks for the end; zero until it comes.
    pub stop: Arc<AtomicUsize>,
}

impl Joining {
    /// Opens the port, if nodes join. The error is the exit code.
    pub(super) fn open(
        launch: &Launch,
        engine: &Engine,
        hosts: &[Host],
    ) -> Result<Option<Self>, u8> {
        let path = match (&launch.token_file, engine) {
            (_, Engine::Own) => return Ok(None),
            (Some(path), _) => Some(path.clone()),
            (None, Engine::Starter(_)) => None,
            (None, Engine::Awaited) => {
                // Hosts can share a home folder.
                let host = nix::sys::utsname::uname().ok();
                let host = host.map(|names| names.nodename().to_string_lossy().into_owned());
                let (host, pid) = (host.unwrap_or_default(), sys::process::own_pid());
                Some(own_file(&format!("join-{host}-{pid}"))?)
            }
            (None, Engine::Step) => Some(step_file(launch)?),
        };
        let starter = engine.starter(launch, hosts);
        let starter = starter.map_err(|error| refuse(&error))?;
        // A file that the user has made is read and stays.
        let is_kept = launch.token_file.as_deref().is_some_and(Path::exists);
        let (token, listed) = match path.as_deref().filter(|_| is_kept) {
            Some(path) => Token::read(path).map_err(|error| refuse(&error))?,
            None => {
                let token = Token::fresh().map_err(|error| {
                    let text = format!("cannot read random numbers from the kernel: {error}");
                    fail(&text, exit::RESOURCE)
                })?;
                (token, Vec::new())
            }
        };
        let given = launch.listen;
        let address = given.map(|given| given.ip());
        let address = address.filter(|address: &IpAddr| !address.is_unspecified());
        let number = given.map_or(0, |given| given.port());
        let port = JoinPort::open(address, number, token.clone()).map_err(|error| {
            let place = given.map_or_else(|| "a free port".to_owned(), |given| given.to_string());
            let why = sys::why(&error);
            fail(
                &format!("cannot listen on {place}: {why} (name another port: --listen PORT)"),
                exit::RESOURCE,
            )
        })?;
        let own = format!(":{}", port.port());
        if !listed.is_empty() && !listed.iter().any(|address| address.ends_with(&own)) {
            complain(
                "--token-file: the file has the addresses of another run (remove it if that run has ended)",
            );
        }
        if let (None, Some(path)) = (&launch.token_file, &path) {
            // A process of the same number, or the same job before it was requeued, was killed.
            let (Ok(()) | Err(_)) = fs::remove_file(path);
        }
        let new = path.as_deref().filter(|_| !is_kept);
        let file = new.map(|path| token.write_new(path, &port.addresses()));
        let file = file.transpose().map_err(|error| refuse(&error))?;
        if let (Engine::Awaited, Some(path)) = (engine, &path) {
            let count = launch.awaited.map_or(hosts.len(), usize::from);
            let command = command(port.addresses(), path);
            let text = format!("waiting for {count} nodes: {command}\n");
            write_all(&mut std::io::stderr().lock(), &text);
        }
        Ok(Some(Self {
            port: Arc::new(port),
            starter,
            _file: file,
        }))
    }

    /// Makes the sessions of these settings those of the nodes that join.
    pub(super) fn serve(&self, settings: &mut launcher::Settings) {
        settings.join = Some(Arc::clone(&self.port));
        settings.starter.clone_from(&self.starter);
    }

    /// Waits for as many nodes as the user awaits. The error is the exit code.
    pub(super) fn gather(launch: &Launch) -> Result<Gathered, u8> {
        let deadlines = resolve::deadlines_of(launch).map_err(|error| refuse(&error))?;
        let time = resolve::connect_time(launch, &deadlines, &Engine::Awaited);
        let count = launch.awaited.map_or(0, usize::from);
        // Each node that waits has a connection.
        make_room(&vec![Host::default(); count], launch)?;
        let stop = listen()?;
        let joining = Self::open(launch, &Engine::Awaited, &[])?;
        let Some(joining) = joining else {
            return Err(exit::BUG);
        };
        let names = joining.port.gather(count, Instant::now() + time, &stop);
        match (stop.load(Ordering::SeqCst), names) {
            (0, Ok(names)) => Ok(Gathered {
                joining,
                names,
                stop,
            }),
            (0, Err(error)) => Err(fail(&error, exit::UNREACHABLE)),
            (signal, _) => Err(exit::by_signal(i32::try_from(signal).unwrap_or(0))),
        }
    }
}

/// The command that a user starts on each host. It has all addresses: other hosts need not know the name of this one.
fn command(addresses: Vec<String>, file: &Path) -> String {
    let before = ["pipebench", "join"].map(str::to_owned).into_iter();
    let after = ["--token-file".to_owned(), file.display().to_string()];
    let words: Vec<String> = before.chain(addresses).chain(after).collect();
    quoted(&words)
}

/// Token file of the job step that has started this process, where its other tasks look for it. The error is the exit code.
pub(super) fn step_file(launch: &Launch) -> Result<PathBuf, u8> {
    if let Some(path) = &launch.token_file {
        return Ok(path.clone());
    }
    let number = |name: &str| variable(name).unwrap_or_default();
    let (job, step) = (number("SLURM_JOB_ID"), number("SLURM_STEP_ID"));
    own_file(&of_step(&job, &step, &number("SLURM_RESTART_COUNT")))
}

/// Name of a step's token file. A job that is started again has the same steps: a file that was left must not be theirs.
fn of_step(job: &str, step: &str, restart: &str) -> String {
    match restart {
        "" | "0" => format!("join-{job}.{step}"),
        restart => format!("join-{job}.{step}.{restart}"),
    }
}

/// A file in the folder of pipebench in the user's home, which other users cannot enter. The error is the exit code.
fn own_file(name: &str) -> Result<PathBuf, u8> {
    const OWN: u32 = 0o700;
    let Some(home) = std::env::var_os("HOME").filter(|home| !home.is_empty()) else {
        return Err(refuse(
            &"HOME is not set: name a file for the token (--token-file FILE)",
        ));
    };
    let folder = Path::new(&home).join(".cache").join("pipebench");
    let made = DirBuilder::new().recursive(true).mode(OWN).create(&folder);
    made.map_err(|error| {
        let text = format!("cannot make {}: {}", folder.display(), sys::why(&error));
        fail(&text, exit::NOT_WRITTEN)
    })?;
    Ok(folder.join(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Symptom: the command that pipebench printed failed where other hosts cannot resolve the launching host's name, or
    /// where the file's name has a blank.
    #[test]
    fn the_command_to_join_has_all_addresses_and_is_safe_in_a_shell() {
        let addresses = ["n0:7447", "[fd00::1]:7447"].map(str::to_owned).to_vec();
        assert_eq!(
            command(addresses, Path::new("/home/a b/token")),
            "pipebench join n0:7447 '[fd00::1]:7447' --token-file '/home/a b/token'"
        );
    }

    /// Symptom: after a node failure Slurm started the job again, and its tasks read the token file of the first start.
    #[test]
    fn a_job_that_is_started_again_has_another_token_file() {
        assert_eq!(of_step("7", "0", ""), "join-7.0");
        assert_eq!(of_step("7", "0", "1"), "join-7.0.1");
    }
}
