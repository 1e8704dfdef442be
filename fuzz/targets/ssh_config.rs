//! Output of `ssh -G`.

use launcher::inside;

use crate::driver::magnitude;

pub const WORDS: &[&str] = &[
    "hostname ",
    "user ",
    "port ",
    "identityfile ~/",
    "identitiesonly yes",
    "identityagent ",
    "none",
    "proxyjump ",
    "userknownhostsfile ",
    "stricthostkeychecking ",
    "hostkeyalias ",
    "certificatefile ",
    "SSH_AUTH_SOCK",
    "$",
    "$=",
    "\n",
];

pub fn run(input: &[u8]) -> String {
    let text = String::from_utf8_lossy(input);
    let config = inside::ssh_config(&text);
    // Every path consists of one of its lines, and at most a home folder.
    let lines = text.lines().count();
    assert!(
        config.len() <= 16 * text.len() + 4096 * (lines + 1),
        "{} bytes",
        config.len()
    );
    let word = |field: &str| {
        let rest = config.split(field).nth(1).unwrap_or_default();
        let end = |letter: char| !letter.is_alphanumeric();
        rest.split(end)
            .find(|word| !word.is_empty())
            .unwrap_or_default()
    };
    let detour = config.split("detour: Some(\"").nth(1).unwrap_or_default();
    format!(
        "{} {} {} {} {} {}",
        word("strictness: "),
        word("identities_only: "),
        word("identity_agent: "),
        word("key_alias: "),
        detour.split([' ', '"']).next().unwrap_or_default(),
        magnitude(lines)
    )
}
