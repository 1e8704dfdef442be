//! Host files, and the node files of a job.

use launcher::hosts;

use super::host_list::{explained, sound};
use crate::driver::magnitude;

pub const WORDS: &[&str] = &[
    "user=ann",
    "port=22",
    "nodes=3",
    "slots=8",
    "max-slots=2",
    "data=10.0.0.1",
    "speed=10G",
    "mtu=9000",
    "#",
    "local",
    "n[1-3]",
    "=",
];

pub fn run(input: &[u8]) -> String {
    let text = String::from_utf8_lossy(input);
    let file = match hosts::hostfile(&text, &["data", "speed", "mtu"]) {
        Err(error) => explained(&error),
        Ok(all) => {
            sound(&all);
            let attributes: usize = all.iter().map(|host| host.attributes.len()).sum();
            format!(
                "hosts {} attributes {}",
                magnitude(all.len()),
                magnitude(attributes)
            )
        }
    };
    let job = |variable: &str| {
        let set = |name: &str| (name == variable).then(|| "/file".to_owned());
        match hosts::from_environment(&set, &|_| Ok(text.to_string())) {
            Err(error) => explained(&error),
            Ok(job) => {
                sound(&job.hosts);
                format!("job of {}", magnitude(job.hosts.len()))
            }
        }
    };
    let (pbs, grid_engine) = (job("PBS_NODEFILE"), job("PE_HOSTFILE"));
    format!("{file}; {pbs}; {grid_engine}")
}
