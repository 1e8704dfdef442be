//! The configuration of a host as the OpenSSH client sees it. `ssh -G` prints it, since only `ssh`
//! knows all of `Host`, `Match` and `Include`.
//!
//! Without an OpenSSH client the usual defaults apply. Does not decide on a transport; read next
//! `attempt.rs`.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use crate::hosts::Host;
use crate::question::{NoReply, ask};
use crate::session::line::Line;
use crate::settings::Settings;

/// Treatment of an unknown or changed host key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Strictness {
    Strict,
    /// Unknown keys are added to the known ones, which is left to the OpenSSH client.
    AcceptNew,
    Off,
}

/// The configuration needed to reach a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HostConfig {
    pub(crate) hostname: String,
    pub(crate) user: Option<String>,
    pub(crate) port: u16,
    pub(crate) identities: Vec<PathBuf>,
    pub(crate) identities_only: bool,
    pub(crate) identity_agent: Option<PathBuf>,
    pub(crate) known_hosts: Vec<PathBuf>,
    pub(crate) strictness: Strictness,
    /// The name under which the host's key is known, if it differs from the host's name.
    pub(crate) key_alias: Option<String>,
    /// The reason why only the OpenSSH client can reach this host.
    pub(crate) detour: Option<String>,
    /// True if this machine has an OpenSSH client.
    pub(crate) openssh: bool,
}

impl HostConfig {
    /// Asks `ssh -G` for the configuration of a host. The host list and the settings take precedence.
    pub(crate) fn of(
        host: &Host,
        settings: &Settings,
        until: Instant,
        line: &Line,
    ) -> Result<HostConfig, String> {
        let user = host.user.as_ref().or(settings.user.as_ref());
        let mut command = Command::new("ssh");
        command.args(["-G", "-T"]);
        if let Some(user) = user {
            command.args(["-l", user]);
        }
        if let Some(port) = host.port {
            command.args(["-p", &port.to_string()]);
        }
        command.args(["--", &host.name]);
        let mut config = HostConfig::usual(&host.name);
        match ask(&mut command, until, line) {
            Ok(reply) if reply.ending.status == Some(0) => config.read(&reply.standard),
            Ok(reply) => return Err(format!("ssh -G {}: {}", reply.ending.words(), reply.error)),
            Err(NoReply::Absent) => {}
            Err(NoReply::Late) => return Err("ssh -G did not answer in time".to_owned()),
            Err(NoReply::Aborted) => return Err("aborted".to_owned()),
            Err(NoReply::Broken(error)) => return Err(format!("cannot run ssh -G: {error}")),
        }
        config.port = host.port.unwrap_or(config.port);
        config.user = user.cloned().or(config.user);
        config.apply(settings);
        Ok(config)
    }

    /// The defaults of a machine without an OpenSSH client.
    pub(crate) fn usual(name: &str) -> HostConfig {
        HostConfig {
            hostname: name.to_owned(),
            user: std::env::var("USER")
                .or_else(|_| std::env::var("LOGNAME"))
                .ok(),
            port: 22,
            identities: usual_keys(),
            identities_only: false,
            identity_agent: agent("SSH_AUTH_SOCK"),
            known_hosts: ["~/.ssh/known_hosts", "/etc/ssh/ssh_known_hosts"]
                .iter()
                .filter_map(|file| at_home(file))
                .collect(),
            strictness: Strictness::Strict,
            key_alias: None,
            detour: None,
            openssh: false,
        }
    }

    /// Reads the output of `ssh -G`. Each line holds a key in lower case and its value.
    pub(crate) fn read(&mut self, text: &str) {
        self.openssh = true;
        self.identities.clear();
        self.known_hosts.clear();
        for (key, value) in text.lines().filter_map(|line| line.trim().split_once(' ')) {
            let (value, unset) = (value.trim(), value.trim().eq_ignore_ascii_case("none"));
            match key {
                "hostname" => self.hostname = value.trim_matches(['[', ']']).to_owned(),
                "user" => self.user = Some(value.to_owned()),
                "port" => self.port = value.parse().unwrap_or(self.port),
                "identityfile" if !unset => self.identities.extend(at_home(value)),
                "identitiesonly" => self.identities_only = is_yes(value),
                "identityagent" => self.identity_agent = agent(value),
                "userknownhostsfile" | "globalknownhostsfile" if !unset => {
                    self.known_hosts
                        .extend(value.split_whitespace().filter_map(at_home));
                }
                "stricthostkeychecking" => self.strictness = strictness(value),
                "hostkeyalias" if !unset => self.key_alias = Some(value.to_owned()),
                _ => {}
            }
            if let Some(reason) = detour(key, value).filter(|_| !unset && self.detour.is_none()) {
                self.detour = Some(reason);
            }
        }
    }

    /// Applies the settings. A file of known keys in the settings demands a check of host keys, even if
    /// the configuration turns it off.
    fn apply(&mut self, settings: &Settings) {
        if !settings.identities.is_empty() {
            self.identities = settings.identities.clone();
        }
        if let Some(file) = &settings.known_hosts {
            self.known_hosts = vec![file.clone()];
            self.strictness = Strictness::Strict;
        }
        let mut present = self.identities.clone();
        present.retain(|file| file.exists());
        if self.detour.is_none()
            && !present.is_empty()
            && present.iter().all(|file| is_hardware_key(file))
        {
            self.detour = Some("the key is a hardware key".to_owned());
        }
    }
}

/// Names an option that sessions over libssh2 cannot honour. Kerberos is not one of them: many
/// distributions offer it by default, so its presence shows no need. The OpenSSH client tries it if
/// authentication fails here.
fn detour(key: &str, value: &str) -> Option<String> {
    let named = match key {
        "proxyjump" => format!("ProxyJump {value}"),
        "proxycommand" => "a ProxyCommand".to_owned(),
        "certificatefile" => "a CertificateFile".to_owned(),
        "knownhostscommand" => "a KnownHostsCommand".to_owned(),
        "pkcs11provider" => "a PKCS11Provider".to_owned(),
        "bindaddress" => format!("BindAddress {value}"),
        "bindinterface" => format!("BindInterface {value}"),
        "hostbasedauthentication" if is_yes(value) => "HostbasedAuthentication".to_owned(),
        "verifyhostkeydns" if is_yes(value) => "VerifyHostKeyDNS".to_owned(),
        _ => return None,
    };
    Some(format!("{named} is configured"))
}

fn is_yes(value: &str) -> bool {
    matches!(value, "yes" | "true")
}

fn strictness(value: &str) -> Strictness {
    match value {
        "no" | "off" | "false" => Strictness::Off,
        "accept-new" => Strictness::AcceptNew,
        // "ask" counts as strict: in a fan-out no person can answer.
        _ => Strictness::Strict,
    }
}

/// Reads the value `none`, `SSH_AUTH_SOCK`, `$VARIABLE` or a path.
fn agent(value: &str) -> Option<PathBuf> {
    let variable = match value {
        "none" => return None,
        "SSH_AUTH_SOCK" => Some(value),
        _ => value.strip_prefix('$'),
    };
    match variable {
        Some(name) => std::env::var_os(name)
            .filter(|path| !path.is_empty())
            .map(PathBuf::from),
        None => at_home(value),
    }
}

/// Replaces `~/` at the start of a path by the home folder; `None` if that needs `HOME` and it is unset.
fn at_home(path: &str) -> Option<PathBuf> {
    match path.strip_prefix("~/") {
        Some(rest) => Some(PathBuf::from(std::env::var_os("HOME")?).join(rest)),
        None => Some(PathBuf::from(path)),
    }
}

/// The usual private key files, whether they exist or not.
pub(crate) fn usual_keys() -> Vec<PathBuf> {
    let usual = ["~/.ssh/id_ed25519", "~/.ssh/id_ecdsa", "~/.ssh/id_rsa"];
    usual.into_iter().filter_map(at_home).collect()
}

/// Text of the `.pub` file next to a private key.
pub(crate) fn public_key(file: &Path) -> Option<String> {
    let mut public = file.as_os_str().to_owned();
    public.push(".pub");
    std::fs::read_to_string(public).ok()
}

/// True for a hardware key. The public key shows it.
fn is_hardware_key(file: &Path) -> bool {
    public_key(file).is_some_and(|text| text.starts_with("sk-"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> HostConfig {
        let mut config = HostConfig::usual("n1");
        config.read(text);
        config
    }

    #[test]
    fn what_ssh_prints_is_read() {
        let config = read(
            "host n1\nuser ann\nhostname 10.0.0.1\nport 2222\nidentityfile /k/one\nidentityfile /k/two\n\
             identitiesonly yes\nidentityagent /run/agent\nuserknownhostsfile /a /b\nglobalknownhostsfile /c\n\
             stricthostkeychecking accept-new\nhostkeyalias cluster\nproxyjump none\ngssapiauthentication yes\n",
        );
        assert_eq!((config.hostname.as_str(), config.port), ("10.0.0.1", 2222));
        assert_eq!(config.user.as_deref(), Some("ann"));
        assert_eq!(
            config.identities,
            [PathBuf::from("/k/one"), PathBuf::from("/k/two")]
        );
        assert!(config.identities_only && config.openssh);
        assert_eq!(config.identity_agent, Some(PathBuf::from("/run/agent")));
        assert_eq!(config.known_hosts.len(), 3);
        assert_eq!(config.strictness, Strictness::AcceptNew);
        assert_eq!(config.key_alias.as_deref(), Some("cluster"));
        assert_eq!(config.detour, None);
        assert_eq!(
            read("stricthostkeychecking false\n").strictness,
            Strictness::Off
        );
        assert_eq!(
            read("stricthostkeychecking ask\n").strictness,
            Strictness::Strict
        );
        assert_eq!(read("identityagent none\n").identity_agent, None);
    }

    #[test]
    fn what_needs_the_openssh_client_is_named() {
        let cases = [
            ("proxyjump gw", "ProxyJump gw is configured"),
            ("proxycommand nc %h %p", "a ProxyCommand is configured"),
            (
                "certificatefile ~/.ssh/c",
                "a CertificateFile is configured",
            ),
            (
                "hostbasedauthentication yes",
                "HostbasedAuthentication is configured",
            ),
            ("verifyhostkeydns true", "VerifyHostKeyDNS is configured"),
            ("knownhostscommand /x", "a KnownHostsCommand is configured"),
            ("pkcs11provider /x", "a PKCS11Provider is configured"),
            ("bindaddress 10.0.0.9", "BindAddress 10.0.0.9 is configured"),
            ("bindinterface eth0", "BindInterface eth0 is configured"),
        ];
        for (line, reason) in cases {
            assert_eq!(read(line).detour.as_deref(), Some(reason));
        }
        for line in [
            "proxycommand none",
            "hostbasedauthentication no",
            "verifyhostkeydns false",
        ] {
            assert_eq!(read(line).detour, None);
        }
    }

    #[test]
    fn settings_go_before_the_configuration() {
        let folder = tempfile::tempdir().unwrap();
        let key = folder.path().join("key");
        std::fs::write(&key, "").unwrap();
        let mut settings = Settings {
            identities: vec![key.clone()],
            known_hosts: Some("/known".into()),
            ..Settings::default()
        };
        let mut config =
            read("identityfile /k/one\nuserknownhostsfile /a\nstricthostkeychecking no\n");
        config.apply(&settings);
        assert_eq!(
            (config.identities.len(), config.strictness),
            (1, Strictness::Strict)
        );
        assert_eq!(config.known_hosts, [PathBuf::from("/known")]);
        assert_eq!(config.detour, None);
        std::fs::write(
            folder.path().join("key.pub"),
            "sk-ssh-ed25519@openssh.com AAAA",
        )
        .unwrap();
        settings.known_hosts = None;
        config.apply(&settings);
        assert_eq!(config.detour.as_deref(), Some("the key is a hardware key"));
    }
}
