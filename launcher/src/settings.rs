//! How sessions are made: everything a caller may choose, with defaults that suit a person at a
//! terminal.
//!
//! Does not read the command line or the environment. Read next: `fleet.rs`.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Asks the user for a secret; the argument is the prompt, `None` means that there is no answer.
pub type Ask = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// How long each stage may take, per host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deadlines {
    /// From a name to addresses, and the question for the configuration of the host.
    pub resolve: Duration,
    /// From the first connection to an agreed encryption, all addresses and all retries together.
    pub connect: Duration,
    /// All ways of authentication together.
    pub authenticate: Duration,
    /// From the started remote shell to an executable that is in place.
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

/// Which addresses of a host may be used.
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

/// How sessions are made.
#[derive(Clone)]
pub struct Settings {
    /// The remote-shell command (`--rsh`); `%h` in it is the host. Without one, SSH is spoken
    /// directly.
    pub remote_shell: Option<String>,
    /// The user to log in as where the host list names none.
    pub user: Option<String>,
    /// Private key files; empty means those of the configuration, else the usual ones.
    pub identities: Vec<PathBuf>,
    /// The one file of known host keys; naming it also means that keys are checked, whatever the
    /// configuration says.
    pub known_hosts: Option<PathBuf>,
    /// How many hosts may be between resolve and up at once; zero counts as one.
    pub fanout: usize,
    /// A deadline per stage.
    pub deadlines: Deadlines,
    /// The one folder of the host to deploy into (`~/` is the home folder there); without one,
    /// several are tried.
    pub remote_dir: Option<String>,
    /// Which addresses may be used.
    pub family: Family,
    /// The word that the program prints first; bytes before it are noise of login shells.
    pub magic: Vec<u8>,
    /// The arguments of the program.
    pub arguments: Vec<String>,
    /// Asks for passphrases and the password, once and before the fan-out.
    pub ask: Option<Ask>,
    /// Whether a password is to be asked for and used.
    pub ask_password: bool,
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
        }
    }
}
