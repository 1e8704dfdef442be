//! Known host keys: the verdict of the user's files on a host's key.
//!
//! Supports hashed names, `[host]:port`, wildcards, negation, `@revoked` and `@cert-authority`. The
//! files are read here and not by libssh2: its check knows neither markers nor patterns, and takes a
//! key of another type for a changed one. Does not talk to hosts; read next `secure.rs`.

use sha1::{Digest as _, Sha1};
use sha2::Sha256;

use crate::base64::{decode, encode};

/// The verdict on a host's key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The key is known for this host.
    Known,
    /// No key of this type is known for this host.
    Unknown,
    /// Another key of the same type is known, in this line.
    Changed { file: String, line: usize },
    /// This line revokes the key.
    Revoked { file: String, line: usize },
    /// An authority signs the host's keys; only the OpenSSH client can check that.
    Authority,
}

/// All entries about one host in the files that were read.
#[derive(Clone, Debug, Default)]
pub(crate) struct KnownKeys {
    entries: Vec<Entry>,
}

#[derive(Clone, Debug)]
struct Entry {
    marker: Marker,
    /// True if the entry's name has the port, or the host's port is the usual one.
    exact: bool,
    key_type: String,
    blob: Vec<u8>,
    file: String,
    line: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Marker {
    Key,
    Revoked,
    Authority,
}

const USUAL_PORT: u16 = 22;

impl KnownKeys {
    /// Adds a file's entries about a host. `file` is the file's name, `text` its content.
    pub(crate) fn read(&mut self, file: &str, text: &str, name: &str, port: u16) {
        let name = name.to_ascii_lowercase();
        let with_port = with_port(&name, port);
        let lines = (1..).zip(text.lines());
        let entry = |(number, line)| parse(file, number, line, &name, &with_port);
        self.entries.extend(lines.filter_map(entry));
    }

    /// Judges a key. An entry for another port counts only if it has this very key.
    pub(crate) fn judge(&self, blob: &[u8]) -> Verdict {
        let key_type = type_of(blob);
        let with = |marker: Marker| {
            self.entries
                .iter()
                .filter(move |entry| entry.marker == marker)
        };
        if let Some(entry) = with(Marker::Revoked).find(|entry| entry.blob == blob) {
            return Verdict::Revoked {
                file: entry.file.clone(),
                line: entry.line,
            };
        }
        if with(Marker::Key).any(|entry| entry.blob == blob) {
            return Verdict::Known;
        }
        if with(Marker::Authority).next().is_some() {
            return Verdict::Authority;
        }
        match with(Marker::Key).find(|entry| entry.exact && entry.key_type == key_type) {
            Some(entry) => Verdict::Changed {
                file: entry.file.clone(),
                line: entry.line,
            },
            None => Verdict::Unknown,
        }
    }

    /// Algorithms of the known key types, for the session to prefer. Otherwise a host that is known by
    /// its ECDSA key would be refused if its server prefers another key.
    pub(crate) fn algorithms(&self) -> Vec<&'static str> {
        let mut found = Vec::new();
        let with_keys = self.entries.iter();
        for entry in with_keys.filter(|entry| entry.marker == Marker::Key) {
            let algorithms: &[&'static str] = match entry.key_type.as_str() {
                "ssh-ed25519" => &["ssh-ed25519"],
                "ecdsa-sha2-nistp256" => &["ecdsa-sha2-nistp256"],
                "ecdsa-sha2-nistp384" => &["ecdsa-sha2-nistp384"],
                "ecdsa-sha2-nistp521" => &["ecdsa-sha2-nistp521"],
                "ssh-rsa" => &["rsa-sha2-512", "rsa-sha2-256", "ssh-rsa"],
                _ => &[],
            };
            for &algorithm in algorithms {
                if !found.contains(&algorithm) {
                    found.push(algorithm);
                }
            }
        }
        found
    }
}

/// The fingerprint `SHA256:...`, as OpenSSH prints it.
pub(crate) fn fingerprint(blob: &[u8]) -> String {
    format!("SHA256:{}", encode(&Sha256::digest(blob)))
}

/// The key type at the start of a key's blob; empty if the blob is malformed.
pub(crate) fn type_of(blob: &[u8]) -> String {
    let named = || {
        let (length, rest) = blob.split_first_chunk::<4>()?;
        let length = usize::try_from(u32::from_be_bytes(*length)).ok()?;
        Some(String::from_utf8_lossy(rest.get(..length)?).into_owned())
    };
    named().unwrap_or_default()
}

/// The name of a host in a file of known keys: with the port, if it is not the usual one.
pub(crate) fn with_port(name: &str, port: u16) -> String {
    match port {
        USUAL_PORT => name.to_owned(),
        _ => format!("[{name}]:{port}"),
    }
}

/// Parses a line; `None` if it is not about the host.
fn parse(file: &str, number: usize, line: &str, name: &str, with_port: &str) -> Option<Entry> {
    let mut words = line.split_ascii_whitespace();
    let mut first = words.next().filter(|word| !word.starts_with('#'))?;
    let marker = match first {
        "@revoked" => Marker::Revoked,
        "@cert-authority" => Marker::Authority,
        _ => Marker::Key,
    };
    if marker != Marker::Key {
        first = words.next()?;
    }
    let exact = names(first, with_port);
    if !exact && (name == with_port || !names(first, name)) {
        return None;
    }
    let key_type = words.next()?.to_owned();
    let blob = decode(words.next()?)?;
    Some(Entry {
        marker,
        exact,
        key_type,
        blob,
        file: file.to_owned(),
        line: number,
    })
}

/// True if an entry's names match this host.
fn names(patterns: &str, host: &str) -> bool {
    if let Some(hashed) = patterns.strip_prefix("|1|") {
        return hash_matches(hashed, host).unwrap_or(false);
    }
    let mut found = false;
    for pattern in patterns.split(',') {
        match pattern.strip_prefix('!') {
            Some(not) if wildcard(not.to_ascii_lowercase().as_bytes(), host.as_bytes()) => {
                return false;
            }
            Some(_) => {}
            None => found |= wildcard(pattern.to_ascii_lowercase().as_bytes(), host.as_bytes()),
        }
    }
    found
}

/// Checks a hashed name `SALT|HASH`: HMAC-SHA1 of the name with the salt as key.
fn hash_matches(hashed: &str, host: &str) -> Option<bool> {
    let (salt, hash) = hashed.split_once('|')?;
    Some(hmac_sha1(&decode(salt)?, host.as_bytes()) == decode(hash)?)
}

fn hmac_sha1(key: &[u8], text: &[u8]) -> Vec<u8> {
    const BLOCK_BYTES: usize = 64;
    let mut block = [0u8; BLOCK_BYTES];
    if key.len() > BLOCK_BYTES {
        let digest = Sha1::digest(key);
        block[..digest.len()].copy_from_slice(&digest);
    } else {
        block[..key.len()].copy_from_slice(key);
    }
    let inner = Sha1::new()
        .chain_update(block.map(|byte| byte ^ 0x36))
        .chain_update(text)
        .finalize();
    Sha1::new()
        .chain_update(block.map(|byte| byte ^ 0x5c))
        .chain_update(inner)
        .finalize()
        .to_vec()
}

/// Matches a pattern with `*` and `?`. Only the last `*` is retried, so that no pattern can make it
/// hang.
fn wildcard(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        if p < pattern.len() && pattern[p] == b'*' {
            star = Some((p, t));
            p += 1;
        } else if p < pattern.len() && (pattern[p] == b'?' || pattern[p] == text[t]) {
            p += 1;
            t += 1;
        } else if let Some((at, from)) = star {
            star = Some((at, from + 1));
            p = at + 1;
            t = from + 1;
        } else {
            return false;
        }
    }
    pattern[p..].iter().all(|&byte| byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn blob(key_type: &str, key: &str) -> Vec<u8> {
        let mut blob = u32::try_from(key_type.len())
            .unwrap()
            .to_be_bytes()
            .to_vec();
        blob.extend(key_type.as_bytes());
        blob.extend(key.as_bytes());
        blob
    }

    fn line(names: &str, key: &str) -> String {
        format!(
            "{names} ssh-ed25519 {} comment\n",
            encode(&blob("ssh-ed25519", key))
        )
    }

    fn verdict(text: &str, name: &str, port: u16, key: &str) -> Verdict {
        let mut known = KnownKeys::default();
        known.read("file", text, name, port);
        known.judge(&blob("ssh-ed25519", key))
    }

    fn changed(line: usize) -> Verdict {
        Verdict::Changed {
            file: "file".into(),
            line,
        }
    }

    #[test]
    fn plain_names_ports_and_patterns() {
        let text = format!(
            "# comment\n\n{}{}{}",
            line("N1,10.0.0.1", "a"),
            line("[n2]:2222", "b"),
            line("*.c1,!x.c1", "c")
        );
        assert_eq!(verdict(&text, "n1", 22, "a"), Verdict::Known);
        assert_eq!(verdict(&text, "N1", 22, "a"), Verdict::Known);
        assert_eq!(verdict(&text, "n1", 22, "z"), changed(3));
        assert_eq!(verdict(&text, "10.0.0.1", 22, "a"), Verdict::Known);
        assert_eq!(verdict(&text, "n2", 2222, "b"), Verdict::Known);
        assert_eq!(verdict(&text, "n2", 2222, "z"), changed(4));
        assert_eq!(verdict(&text, "n2", 22, "b"), Verdict::Unknown);
        assert_eq!(verdict(&text, "n5.c1", 22, "c"), Verdict::Known);
        assert_eq!(verdict(&text, "x.c1", 22, "c"), Verdict::Unknown);
        assert_eq!(verdict(&text, "n3", 22, "a"), Verdict::Unknown);
    }

    #[test]
    fn the_key_of_the_usual_port_vouches_for_another_port_but_does_not_forbid_it() {
        let text = line("n1", "a");
        assert_eq!(verdict(&text, "n1", 2222, "a"), Verdict::Known);
        assert_eq!(verdict(&text, "n1", 2222, "z"), Verdict::Unknown);
    }

    #[test]
    fn hashed_names_with_and_without_port() {
        let hashed = |name: &str| {
            format!(
                "|1|{}|{}",
                encode(b"saltsaltsaltsaltsalt"),
                encode(&hmac_sha1(b"saltsaltsaltsaltsalt", name.as_bytes()))
            )
        };
        let text = format!(
            "{}{}",
            line(&hashed("n1"), "a"),
            line(&hashed("[n2]:2222"), "b")
        );
        assert_eq!(verdict(&text, "n1", 22, "a"), Verdict::Known);
        assert_eq!(verdict(&text, "n1", 22, "z"), changed(1));
        assert_eq!(verdict(&text, "n2", 2222, "b"), Verdict::Known);
        assert_eq!(verdict(&text, "n2", 22, "b"), Verdict::Unknown);
    }

    #[test]
    fn the_keyed_hash_is_the_standard_one() {
        let hash = hmac_sha1(b"Jefe", b"what do ya want for nothing?");
        assert_eq!(
            encode(&hash),
            encode(&[
                0xef, 0xfc, 0xdf, 0x6a, 0xe5, 0xeb, 0x2f, 0xa2, 0xd2, 0x74, 0x16, 0xd5, 0xf1, 0x84,
                0xdf, 0x9c, 0x25, 0x9a, 0x7c, 0x79
            ])
        );
        assert_eq!(
            hmac_sha1(
                &[0xaa; 80],
                b"Test Using Larger Than Block-Size Key - Hash Key First"
            )[..2],
            [0xaa, 0x4a]
        );
    }

    #[test]
    fn markers_and_types() {
        let revoked = format!("{}@revoked {}", line("n1", "a"), line("*", "a"));
        assert_eq!(
            verdict(&revoked, "n1", 22, "a"),
            Verdict::Revoked {
                file: "file".into(),
                line: 2
            }
        );
        let authority = format!("@cert-authority {}", line("*.c1", "ca"));
        assert_eq!(verdict(&authority, "n1.c1", 22, "a"), Verdict::Authority);
        let other = format!(
            "n1 ecdsa-sha2-nistp256 {}\nn1 ssh-rsa {}\n",
            encode(&blob("ecdsa-sha2-nistp256", "e")),
            encode(&blob("ssh-rsa", "r"))
        );
        assert_eq!(verdict(&other, "n1", 22, "a"), Verdict::Unknown);
        let mut known = KnownKeys::default();
        known.read("file", &other, "n1", 22);
        assert_eq!(
            known.algorithms(),
            [
                "ecdsa-sha2-nistp256",
                "rsa-sha2-512",
                "rsa-sha2-256",
                "ssh-rsa"
            ]
        );
    }

    #[test]
    fn a_fingerprint_has_no_padding() {
        let print = fingerprint(b"");
        assert_eq!(print, "SHA256:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU");
        assert_eq!(type_of(b"\0\0\xff\xff"), "");
    }

    proptest! {
        #[test]
        fn no_line_panics(text in ".{0,100}") {
            drop(verdict(&text, "n1", 22, "a"));
            drop(verdict(&format!("|1|{text}"), "n1", 22, "a"));
        }
    }
}
