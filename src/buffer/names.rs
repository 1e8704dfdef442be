//! Names of status segments. A name identifies run and node, and outlives a node that was killed with all its
//! processes.

use crate::sys::memory;

use super::snapshot;

/// Removes the names of segments whose owner is gone, and returns their number. After all processes of a node were
/// killed at once, no other process can remove them. Only owners in this pid namespace can be judged.
pub(crate) fn sweep() -> usize {
    let orphaned = |name: &String| snapshot::is_orphaned(name) && memory::remove_name(name);
    all().filter(orphaned).count()
}

/// Names of all status segments.
pub(crate) fn all() -> impl Iterator<Item = String> {
    memory::segment_names(PREFIX).into_iter()
}

const PREFIX: &str = "pipebench-";

/// Name of the status segment of a node.
pub(crate) fn of_node(token: &str, node: usize) -> String {
    format!("{PREFIX}{}-{node}", &token[..token.len().min(NAMED_DIGITS)])
}

/// Number of token digits in the name of a segment.
const NAMED_DIGITS: usize = 16;

/// Beginning of the token, and node, parsed from the name of a segment; `None` if it is not the segment of a run.
pub(crate) fn read(name: &str) -> Option<(&str, usize)> {
    let (token, node) = name.strip_prefix(PREFIX)?.split_once('-')?;
    let digits = token.len() == NAMED_DIGITS && token.bytes().all(|byte| byte.is_ascii_hexdigit());
    Some((token, node.parse().ok()?)).filter(|_| digits)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use super::*;
    use crate::buffer::board::{AT_OWNER_START, Board, Shape};
    use crate::sys::memory::NamedRegion;

    #[test]
    fn a_segment_is_swept_when_its_owner_is_gone_and_not_before() {
        let name = format!("pipebench-unit-sweep-{}", std::process::id());
        let shape = Shape {
            boundaries: 1,
            nodes: 1,
            rails: 1,
            sends: 1,
            receives: 1,
        };
        let _board = Board::create(&name, shape, "").unwrap();
        sweep();
        assert!(NamedRegion::open(&name).is_ok());
        // The same process id with another start time is another process.
        let file = std::fs::File::options()
            .write(true)
            .open(format!("/dev/shm/{name}"));
        let start = AT_OWNER_START as u64 * 8;
        file.unwrap().write_at(&1_u64.to_le_bytes(), start).unwrap();
        sweep();
        assert!(NamedRegion::open(&name).is_err());
    }

    #[test]
    fn the_name_of_a_segment_tells_run_and_node() {
        let name = of_node("0123456789abcdef0123456789abcdef", 7);
        assert_eq!(read(&name), Some(("0123456789abcdef", 7)));
        for other in ["pipebench-unit-1", "pipebench-0123456789abcdef-x", "else"] {
            assert_eq!(read(other), None, "{other}");
        }
    }
}
