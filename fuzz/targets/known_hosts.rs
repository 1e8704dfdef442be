//! Files of known keys: names, patterns, hashes, markers, keys in Base64.

use launcher::inside;

pub const WORDS: &[&str] = &[
    "n1",
    "[n1]:2222",
    "*",
    "?",
    "!",
    "|1|",
    "@revoked",
    "@cert-authority",
    "ssh-ed25519",
    "ssh-rsa",
    "ecdsa-sha2-nistp256",
    "AAAAC3NzaC1lZDI1NTE5AAAAIA==",
    "#",
];

/// The blob of the key in the seeds.
const BLOB: &[u8] = b"\0\0\0\x0bssh-ed25519a";

pub fn run(input: &[u8]) -> String {
    let text = String::from_utf8_lossy(input);
    for word in text.split_whitespace().take(20) {
        if let Some((bytes, again)) = inside::base64(word) {
            assert!(bytes.len() <= word.len());
            let (same, _) = inside::base64(&again).expect("it was encoded");
            assert_eq!(same, bytes);
        }
    }
    let usual = inside::known_hosts(&text, "n1", 22, BLOB);
    let other = inside::known_hosts(&text, "n1", 2222, BLOB);
    let strange = inside::known_hosts(&text, "10.0.0.1", 22, input);
    format!("{usual}; {other}; {strange}")
}
