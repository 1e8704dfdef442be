//! Authentication over libssh2: the agent's keys, key files, the password.
//!
//! Does not prompt: `secrets.rs` asks for secrets before the fan-out. Read next: `attempt.rs`, which
//! decides whether the OpenSSH client takes over if authentication fails here.

use std::path::{Path, PathBuf};

use ssh2::{Agent, KeyboardInteractivePrompt, Prompt, PublicKey, Session};

use crate::agent::Relay;
use crate::alone::{FreedAlone, alone};
use crate::base64::decode;
use crate::config::{HostConfig, public_key};
use crate::pace::Pace;
use crate::secrets::{Secrets, agent_identities, encryption};

/// The reasons why the server accepted no way to authenticate.
#[derive(Debug, Default)]
pub(crate) struct Denied {
    /// Failed ways and their reasons, in order.
    pub(crate) tried: Vec<String>,
    /// Methods that the server accepts, separated by commas; empty if it named none.
    pub(crate) methods: String,
}

/// One way to authenticate.
enum Way {
    AgentKey(PublicKey),
    KeyFile(PathBuf),
    Password,
}

/// A session in which a user logs in, and what it takes to do so.
pub(crate) struct Login<'a> {
    pub(crate) session: &'a Session,
    pub(crate) user: &'a str,
    pub(crate) config: &'a HostConfig,
    pub(crate) secrets: &'a Secrets,
    /// True if the settings name the keys.
    pub(crate) named_keys: bool,
    pub(crate) pace: &'a Pace<'a>,
}

impl Login<'_> {
    /// Tries all ways in turn until the server accepts one.
    pub(crate) fn authenticate(&self) -> Result<(), Denied> {
        let mut denied = Denied::default();
        // The request for the methods is itself an attempt without a secret, and a server can accept it.
        match self.settle(|| self.session.auth_methods(self.user).map(str::to_owned)) {
            Ok(methods) => denied.methods = methods,
            Err(_) if alone(|| self.session.authenticated()) => return Ok(()),
            Err(error) => {
                denied.tried.push(error);
                return Err(denied);
            }
        }
        let takes_keys = denied.methods.contains("publickey");
        let agent = takes_keys.then(|| self.open_agent()).flatten();
        for way in self.ways(agent.as_deref()) {
            match self.attempt(&way, agent.as_deref(), &denied.methods) {
                Ok(()) => return Ok(()),
                Err(tried) => denied.tried.push(tried),
            }
        }
        Err(denied)
    }

    fn settle<T>(&self, call: impl FnMut() -> Result<T, ssh2::Error>) -> Result<T, String> {
        let settled = self.pace.settle(self.session, call);
        settled.map_err(|error| error.to_string())
    }

    /// Connects to the agent. Returns `None` if it does not answer or holds no key.
    fn open_agent(&self) -> Option<FreedAlone<Agent>> {
        let socket = self.config.identity_agent.as_deref()?;
        agent_identities(socket).filter(|&held| held > 0)?;
        let relay = Relay::new().ok()?;
        // The calls below talk only to the agent and do not use OpenSSL.
        let mut agent = FreedAlone::new(alone(|| self.session.agent()).ok()?);
        agent.set_identity_path(&relay.socket()).ok()?;
        agent.connect().ok()?;
        relay.serve(socket).ok()?;
        agent.list_identities().ok()?;
        Some(agent)
    }

    /// Orders the ways. Wanted keys that the agent holds come first. Named key files come before the
    /// agent's other keys, since a server counts failures. Unnamed key files come after them. The
    /// password comes last.
    fn ways(&self, agent: Option<&Agent>) -> Vec<Way> {
        let config = self.config;
        let held = agent
            .and_then(|agent| agent.identities().ok())
            .unwrap_or_default();
        let wanted: Vec<Vec<u8>> = config
            .identities
            .iter()
            .filter_map(|file| public_half(file))
            .collect();
        let (first, others): (Vec<_>, Vec<_>) = held
            .into_iter()
            .partition(|key| wanted.iter().any(|blob| blob == key.blob()));
        let held_first: Vec<Vec<u8>> = first.iter().map(|key| key.blob().to_vec()).collect();
        let not_held =
            |file: &&PathBuf| !public_half(file).is_some_and(|blob| held_first.contains(&blob));
        let files = config
            .identities
            .iter()
            .filter(|file| file.exists())
            .filter(not_held)
            .cloned()
            .map(Way::KeyFile);
        let others = others
            .into_iter()
            .filter(|_| !config.identities_only)
            .map(Way::AgentKey);
        let mut ways: Vec<Way> = first.into_iter().map(Way::AgentKey).collect();
        if self.named_keys {
            ways.extend(files);
            ways.extend(others);
        } else {
            ways.extend(others);
            ways.extend(files);
        }
        ways.extend(self.secrets.password.as_ref().map(|_| Way::Password));
        ways
    }

    /// Tries one way. The error names the way and the reason.
    fn attempt(&self, way: &Way, agent: Option<&Agent>, methods: &str) -> Result<(), String> {
        match way {
            Way::AgentKey(key) => {
                let agent = agent.ok_or("no agent")?;
                self.settle(|| agent.userauth(self.user, key))
                    .map_err(|reason| format!("the agent's key '{}': {reason}", key.comment()))
            }
            Way::KeyFile(file) => self
                .key_file(file)
                .map_err(|reason| format!("key {}: {reason}", file.display())),
            Way::Password => self
                .password(methods)
                .map_err(|reason| format!("password: {reason}")),
        }
    }

    fn key_file(&self, file: &Path) -> Result<(), String> {
        let passphrase = self.secrets.passphrases.get(file).map(String::as_str);
        match encryption(file) {
            None => return Err("it cannot be read".to_owned()),
            Some(true) if passphrase.is_none() => {
                return Err("it is encrypted and its passphrase is unknown".to_owned());
            }
            Some(_) => {}
        }
        let session = self.session;
        self.settle(|| session.userauth_pubkey_file(self.user, None, file, passphrase))
    }

    /// Sends the plain password, then gives it as the answer to each of PAM's questions.
    fn password(&self, methods: &str) -> Result<(), String> {
        let (session, user) = (self.session, self.user);
        let password = self.secrets.password.as_deref().unwrap_or("");
        let offered = |method: &str| methods.split(',').any(|offered| offered == method);
        let mut done = Err(format!("the server accepts only {methods}"));
        if offered("password") {
            done = self.settle(|| session.userauth_password(user, password));
        }
        if done.is_err() && offered("keyboard-interactive") {
            let mut answers = SameAnswer(password);
            done = self.settle(|| session.userauth_keyboard_interactive(user, &mut answers));
        }
        done
    }
}

/// Reads the public key of a private key.
fn public_half(file: &Path) -> Option<Vec<u8>> {
    decode(public_key(file)?.split_whitespace().nth(1)?)
}

struct SameAnswer<'a>(&'a str);

impl KeyboardInteractivePrompt for SameAnswer<'_> {
    fn prompt<'a>(
        &mut self,
        _user: &str,
        _instructions: &str,
        prompts: &[Prompt<'a>],
    ) -> Vec<String> {
        prompts.iter().map(|_| self.0.to_owned()).collect()
    }
}
