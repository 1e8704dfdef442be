//! Secrets of the user, asked for once and before the fan-out: passphrases of keys, and a password.
//!
//! Secrets stay in memory and never appear on a command line. Read next: `auth.rs`, which uses
//! them.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::base64::decode;
use crate::config::usual_keys;
use crate::settings::Settings;

#[derive(Default)]
pub(crate) struct Secrets {
    pub(crate) passphrases: BTreeMap<PathBuf, String>,
    pub(crate) password: Option<String>,
}

impl Secrets {
    /// Asks for the password if the settings want it, and for passphrases if no agent holds keys.
    pub(crate) fn ask(settings: &Settings) -> Secrets {
        let mut secrets = Secrets::default();
        let Some(ask) = &settings.ask else {
            return secrets;
        };
        if settings.ask_password {
            secrets.password = ask("password on the hosts: ");
        }
        let agent = std::env::var_os("SSH_AUTH_SOCK").map(PathBuf::from);
        let held = agent.and_then(|socket| agent_identities(&socket));
        if held.is_some_and(|held| held > 0) {
            return secrets;
        }
        for key in keys_to_open(settings) {
            if let Some(passphrase) = ask(&format!("passphrase of the key {}: ", key.display())) {
                secrets.passphrases.insert(key, passphrase);
            }
        }
        secrets
    }
}

/// Keys to ask a passphrase for. These are all encrypted keys that the settings name. If they name
/// no key, it is the first default key, unless one of the default keys is not encrypted.
fn keys_to_open(settings: &Settings) -> Vec<PathBuf> {
    let mut named = settings.identities.clone();
    if !named.is_empty() {
        named.retain(|key| encryption(key) == Some(true));
        return named;
    }
    let mut present = usual_keys();
    present.retain(|key| encryption(key).is_some());
    if present.iter().any(|key| encryption(key) == Some(false)) {
        return Vec::new();
    }
    present.truncate(1);
    present
}

/// True if a private key file is encrypted; `None` if it cannot be read.
pub(crate) fn encryption(file: &Path) -> Option<bool> {
    let text = std::fs::read_to_string(file).ok()?;
    Some(is_encrypted(&text))
}

fn is_encrypted(text: &str) -> bool {
    if text.contains("ENCRYPTED") {
        return true;
    }
    let body = |text: &str| -> Option<Vec<u8>> {
        let (_, rest) = text.split_once("-----BEGIN OPENSSH PRIVATE KEY-----")?;
        let (inside, _) = rest.split_once("-----END")?;
        decode(&inside.split_whitespace().collect::<String>())
    };
    // The length and the name of the cipher follow the format's name.
    const OPEN: &[u8] = b"openssh-key-v1\0\0\0\0\x04none";
    body(text).is_some_and(|bytes| !bytes.starts_with(OPEN))
}

/// Number of identities that an agent holds; `None` if it does not answer in time (2 s per read or
/// write). libssh2's agent client waits without a limit, so it only asks agents that have answered
/// here.
pub(crate) fn agent_identities(socket: &Path) -> Option<usize> {
    const PATIENCE: Duration = Duration::from_secs(2);
    const REQUEST_IDENTITIES: [u8; 5] = [0, 0, 0, 1, 11];
    const IDENTITIES_ANSWER: u8 = 12;
    let mut agent = UnixStream::connect(socket).ok()?;
    agent.set_read_timeout(Some(PATIENCE)).ok()?;
    agent.set_write_timeout(Some(PATIENCE)).ok()?;
    agent.write_all(&REQUEST_IDENTITIES).ok()?;
    let mut head = [0; 9];
    agent.read_exact(&mut head).ok()?;
    let [_, _, _, _, kind, count @ ..] = head;
    (kind == IDENTITIES_ANSWER).then(|| u32::from_be_bytes(count) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;
    use std::sync::{Arc, Mutex};

    fn key(folder: &Path, name: &str, passphrase: &str) -> PathBuf {
        let file = folder.join(name);
        let made = Command::new("ssh-keygen")
            .args(["-q", "-t", "ed25519", "-a", "1", "-N", passphrase, "-f"])
            .arg(&file)
            .status();
        assert!(made.unwrap().success());
        file
    }

    #[test]
    fn only_encrypted_keys_are_asked_for_and_each_once() {
        let folder = tempfile::tempdir().unwrap();
        let open = key(folder.path(), "open", "");
        let shut = key(folder.path(), "shut", "secret");
        assert_eq!(
            (encryption(&open), encryption(&shut)),
            (Some(false), Some(true))
        );
        assert_eq!(encryption(&folder.path().join("absent")), None);
        assert!(is_encrypted(
            "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n"
        ));
        let settings = Settings {
            identities: vec![open, shut.clone()],
            ..Settings::default()
        };
        assert_eq!(keys_to_open(&settings), [shut]);
    }

    #[test]
    fn the_password_is_asked_for_only_if_wanted() {
        let prompts = Arc::new(Mutex::new(Vec::new()));
        let heard = Arc::clone(&prompts);
        let ask = move |prompt: &str| {
            heard.lock().unwrap().push(prompt.to_owned());
            Some("secret".to_owned())
        };
        let identities = vec![PathBuf::from("/nonexistent/key")];
        let mut settings = Settings {
            ask: Some(Arc::new(ask)),
            identities,
            ..Settings::default()
        };
        assert_eq!(Secrets::ask(&settings).password, None);
        settings.ask_password = true;
        assert_eq!(Secrets::ask(&settings).password.as_deref(), Some("secret"));
        assert_eq!(*prompts.lock().unwrap(), ["password on the hosts: "]);
        settings.ask = None;
        assert_eq!(Secrets::ask(&settings).password, None);
    }

    #[test]
    fn an_agent_that_is_none_holds_nothing() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(agent_identities(&folder.path().join("absent")), None);
        let socket = folder.path().join("s");
        let listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        let answer = std::thread::spawn(move || {
            let (mut client, _) = listener.accept().unwrap();
            let mut request = [0; 5];
            client.read_exact(&mut request).unwrap();
            client.write_all(&[0, 0, 0, 5, 12, 0, 0, 0, 3]).unwrap();
        });
        assert_eq!(agent_identities(&socket), Some(3));
        answer.join().unwrap();
    }
}
