//! Settings of the sessions: everything a caller can choose, with defaults that suit a person at a
//! terminal.
//!
//! Does not read the command line or the environment. Read next: `fleet.rs`.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::join::{JoinPort, Starter};

/// Asks the user for a secret. The argument is the prompt. `None` means that the user gave no answer.
pub type Ask = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// Time limit of each stage, per host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deadlines {
    /// The lookup of the host's addresses; `ssh -G` for the host's configuration has the same limit.
    pub resolve: Duration,
    /// From the first connection to the end of the SSH handshake, all addresses and all retries together. With a
    /// remote-shell command, from its start to the first answer of the host's shell. For a host that joins, until it
    /// has joined.
    pub connect: Duration,
    /// All ways of authentication together.
    pub authenticate: Duration,
    /// From the start of the remote shell until the executable is in place.
    pub deploy: Duration,
    /// From there until the magic word is seen.
    pub start: Duration,
}

impl Default for Deadlines {
    fn default() -> Deadlines {
        Deadlines {
            resolve: Duration::from_secs(5),
            connect: Duration::from_secs(10),
            authenticate: Duration::from_secs(20),
            deploy: Duration::from_secs(60),
            start: Duration::from_secs(10),
        }
    }
}

/// The kinds of addresses that a session can use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Family {
    /// IPv4 and IPv6, in the order in which they resolve.
    #[default]
    Any,
    /// IPv4 only.
    V4,
    /// IPv6 only.
    V6,
}

/// Settings for all sessions of a launch.
#[derive(Clone)]
pub struct Settings {
    /// The remote-shell command (`--rsh`). `%h` in it stands for the host, `%p` for the port. `None`
    /// means direct SSH.
    pub remote_shell: Option<String>,
    /// The user to log in as, where the host list names none.
    pub user: Option<String>,
    /// Private key files. Empty means those of the configuration, else the usual ones.
    pub identities: Vec<PathBuf>,
    /// The only file of known host keys. If set, keys are checked even if the configuration turns that
    /// off.
    pub known_hosts: Option<PathBuf>,
    /// Limit of hosts between resolve and up at once. Zero counts as one.
    pub fanout: usize,
    /// Time limits of the stages.
    pub deadlines: Deadlines,
    /// The only folder on the host to deploy into; `~/` is the home folder there. `None` means that
    /// several folders are tried.
    pub remote_dir: Option<String>,
    /// The kinds of addresses that a session can use.
    pub family: Family,
    /// The word that the program prints first. Bytes before it are noise of login shells.
    pub magic: Vec<u8>,
    /// The arguments of the program.
    pub arguments: Vec<String>,
    /// Asks for passphrases and the password, once and before the fan-out.
    pub ask: Option<Ask>,
    /// True to ask for a password and use it.
    pub ask_password: bool,
    /// The port at which all hosts that are not local join. `None` means that they are contacted.
    pub join: Option<Arc<JoinPort>>,
    /// The command that starts the nodes that join.
    pub starter: Option<Starter>,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            remote_shell: None,
            user: None,
            identities: Vec::new(),
            known_hosts: None,
            fanout: 32,
            deadlines: Deadlines::default(),
            remote_dir: None,
            family: Family::Any,
            magic: Vec::new(),
            arguments: Vec::new(),
            ask: None,
            ask_password: false,
            join: None,
            starter: None,
        }
    }
}
