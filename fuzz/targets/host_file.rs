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
    let variable = |name: &str| (name == "PBS_NODEFILE").then(|| "/file".to_owned());
    let job = match hosts::from_environment(&variable, &|_| Ok(text.to_string())) {
        Err(error) => explained(&error),
        Ok(all) => {
            sound(&all);
            format!("job of {}", magnitude(all.len()))
        }
    };
    format!("{file}; {job}")
}
