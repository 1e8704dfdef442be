//! Host expressions, from the command line and from a job's environment.

use launcher::hosts::{self, Host, HostListError, MAX_HOSTS};

use super::one_line;
use crate::driver::magnitude;

pub const WORDS: &[&str] = &[
    "local",
    "local:3",
    "[1-3]",
    "[01-16/2]",
    "user@",
    ":22",
    "[::1]",
    "[fd00::[1-3]]",
    "n[1-2][1-2]",
    "-l",
    "\\",
    "$",
    "_",
    "%eth0",
];

/// Longest list that is folded: a longer one costs as much as a thousand short ones.
const FOLDED: usize = 2000;

pub fn run(input: &[u8]) -> String {
    let text = String::from_utf8_lossy(input);
    match hosts::parse(&text) {
        Err(error) => explained(&error),
        Ok(all) => {
            sound(&all);
            if all.len() > FOLDED {
                return format!("hosts {}", magnitude(all.len()));
            }
            let names: Vec<String> = all.iter().map(|host| host.name.clone()).collect();
            let folded = hosts::fold(&names);
            let again = hosts::parse(&folded)
                .unwrap_or_else(|error| panic!("folded as {folded:?}: {error}"));
            let back: Vec<&str> = again.iter().map(|host| host.name.as_str()).collect();
            assert_eq!(back, names, "folded as {folded:?}");
            assert_eq!(hosts::exclude(all.clone(), &text), Ok(Vec::new()));
            let job = |name: &str| (name == "SLURM_JOB_NODELIST").then(|| text.to_string());
            let unread = |_: &str| Err(std::io::Error::from(std::io::ErrorKind::NotFound));
            let job = hosts::from_environment(&job, &unread).expect("it was read before");
            assert!(job.hosts.len() <= all.len());
            format!(
                "hosts {} folded {} users {} ports {} local {}",
                magnitude(all.len()),
                magnitude(folded.len()),
                all.iter().any(|host| host.user.is_some()),
                all.iter().any(|host| host.port.is_some()),
                all.iter().any(|host| host.local)
            )
        }
    }
}

/// Checks that a list of hosts is safe for a command line.
pub fn sound(all: &[Host]) {
    assert!(!all.is_empty() && all.len() <= MAX_HOSTS);
    for host in all {
        assert!(!host.name.is_empty() && !host.name.starts_with('-'));
        assert!(host.name.len() <= 255 && host.name.is_ascii());
        assert!(
            !host
                .name
                .contains(|c: char| c.is_whitespace() || c.is_control())
        );
        let user = host.user.as_deref().unwrap_or("ann");
        assert!(!user.is_empty() && !user.starts_with('-'));
        assert!(host.port != Some(0));
    }
}

/// The message for a refused list.
pub fn explained(error: &HostListError) -> String {
    one_line(error, 1000)
}
