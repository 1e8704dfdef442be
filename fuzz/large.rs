//! Whole commands on the largest files that readers take: these are read, or refused, within the limits of time and memory.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;

use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use pipebench::internals::outside::{MOST_BYTES, Weight};
use pipebench::internals::store::linktest;
use serde_json::Value;

use crate::files;

/// Length of a record that is a little shorter than the limit, in bytes.
const RECORD_BYTES: usize = 60 << 20;

/// Runs a command, and ends with code 99 if it took more than 256 MiB of memory. A limit for the process would not do: it bounds
/// addresses, of which a growing vector takes twice what it needs. And the children of this large program begin with its memory.
const MEASURED: &str = "import resource as r, subprocess, sys
code = subprocess.call(sys.argv[1:])
sys.exit(99 if r.getrusage(r.RUSAGE_CHILDREN).ru_maxrss > 256 << 10 else code % 256)";

/// Runs a command on a file, within the limits of time and memory.
fn bounded(command: &str, path: &Path) -> Result<(i32, String), String> {
    let words = command.split(' ').map(str::to_owned);
    let path = path.display().to_string();
    files::bounded(&["python3", "-c", MEASURED], words.chain([path]))
}

/// A record in which the array at `place` has `count` times this entry.
fn grown(record: &Value, place: &str, entry: &str, count: usize) -> String {
    let mut record = record.clone();
    let (parent, name) = place.rsplit_once('/').expect("a place in the record");
    let parent = record.pointer_mut(parent).expect("it is there");
    parent[name] = "@".into();
    let entries = vec![entry; count].join(",");
    record
        .to_string()
        .replacen("\"@\"", &format!("[{entries}]"), 1)
}

#[test]
fn a_record_of_millions_of_short_values_takes_little_memory() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("record.json");
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let ampersands = format!("\"{}\"", "&".repeat(1000));
    let (new, old) = ("two-hosts/record.json", "version-1/acceptance.json");
    let cases = [
        (new, "/outcome/acceptance/tests/0/nodes", "null"),
        (
            new,
            "/outcome/acceptance/tests/0/conservation/faults",
            "\"a\"",
        ),
        (new, "/notices", "\"\""),
        (new, "/notices", &ampersands),
        (new, "/options", "[\"\",\"\"]"),
        (new, "/ignored", "{}"),
        (
            new,
            "/sheet/ports",
            "{\"label\":\"\",\"node\":0,\"rail\":0}",
        ),
        (
            new,
            "/hosts/0/facts/interfaces",
            "{\"name\":\"\",\"addresses\":[],\"mtu_bytes\":0}",
        ),
        (
            new,
            "/troubles",
            "{\"kind\":\"lost\",\"node\":\"\",\"who\":\"\",\"what\":\"\"}",
        ),
        (old, "/notices", "\"\""),
        (old, "/ignored", "{\"\":0}"),
        (old, "/ignored", "[0]"),
    ];
    /// Bytes of a list that the record did not have.
    const LIST: usize = 256;
    for (file, place, entry) in cases {
        let text = fs::read_to_string(golden.join(file)).expect("a golden record");
        let record = serde_json::from_str(&text).expect("it is JSON");
        let own = usize::try_from(Weight::of(&text).needs_bytes).expect("a small record");
        let each = usize::try_from(Weight::of(&format!("{entry},")).needs_bytes)
            .expect("a few bytes")
            - 64;
        let share = if file == old { 8 } else { 1 };
        let most = usize::try_from(MOST_BYTES).expect("it fits") / share;
        let longest = (RECORD_BYTES - text.len()) / (entry.len() + 1);
        for (count, forms, is_refused) in [
            ((most - own - LIST) / each, &["text", "html"][..], false),
            (longest, &["text"], true),
        ] {
            fs::write(&path, grown(&record, place, entry, count)).expect("written");
            for form in forms {
                let command = format!("report --format {form}");
                let (_, errors) = bounded(&command, &path)
                    .unwrap_or_else(|what| panic!("{count} of {entry} as {form}: {what}"));
                let refused = errors.contains("its values need more than");
                assert_eq!(refused, is_refused, "{count} of {entry}: {errors}");
            }
        }
    }
}

/// A container of zeros: only its tables take room on the disk.
fn sparse(path: &Path, tasks: usize, blocks: usize, chunk: u64) {
    let mut head = b"sion".to_vec();
    let count = u32::try_from(tasks).expect("few tasks");
    for word in [0, 1007, 6, 5, 1, count, 1, 1] {
        head.extend(word.to_le_bytes());
    }
    head.extend([0; 16 + 1024]);
    for rank in 0..tasks {
        head.extend((rank as u64).to_le_bytes());
    }
    head.extend(chunk.to_le_bytes().repeat(tasks));
    head.extend(u32::try_from(blocks).expect("few blocks").to_le_bytes());
    let second = 1088 + 16 * tasks as u64 + (blocks * tasks) as u64 * chunk;
    head.extend(second.to_le_bytes());
    let mut tables = (blocks as u64).to_le_bytes().repeat(tasks);
    tables.extend(chunk.to_le_bytes().repeat(tasks * blocks));
    tables.extend([0; 4]);
    let file = File::create(path).expect("a file");
    file.write_all_at(&head, 0).expect("written");
    file.write_all_at(&tables, second).expect("written");
}

#[test]
fn a_sparse_sion_file_of_the_largest_size_takes_little_memory() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("sparse.sion");
    let most = 72 << 20;
    let cases = [
        (1, 1, most, "no tag at byte 1104"),
        (1, 1 << 20, 72, "no tag at byte 1104"),
        (1 << 17, 8, 72, "no tag at byte"),
        (1, 1, most + 1, "tasks have written more than 72 MiB"),
        (1, 1, 100 << 30, "tasks have written more than 72 MiB"),
        (1, (1 << 20) + 1, 1, "number of blocks 1048577 at byte"),
    ];
    for (tasks, blocks, chunk, words_of_error) in cases {
        sparse(&path, tasks, blocks, chunk);
        let (code, errors) = bounded("linktest show", &path).expect("within the limits");
        assert_eq!(code, 2);
        assert!(errors.contains(words_of_error), "{errors}");
    }
}

#[test]
fn a_link_test_of_two_thousand_ranks_is_shown_with_little_memory() {
    const RANKS: usize = 2048;
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let sample = fs::read(root.join("fuzz/corpus/linktest_file/n2_basic.sion")).expect("a sample");
    let mut file = linktest::read(sample.as_slice()).expect("it is read");
    let (rank, set) = (file.ranks[0].clone(), &mut file.sets[0]);
    file.ranks = vec![rank; RANKS];
    set.ranks = vec![set.ranks[0].clone(); RANKS];
    for (number, own) in (0..).zip(&mut set.ranks) {
        own.access = (1..RANKS as u64).map(|step| number ^ step).collect();
        own.times_s = own
            .access
            .iter()
            .map(|to| 1e-6 * (number + to) as f64)
            .collect();
    }
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("large.sion");
    fs::write(&path, linktest::write(&file, "large.sion", 1)).expect("written");
    let (code, errors) = bounded("linktest show", &path).expect("within the limits");
    assert_eq!((code, errors.as_str()), (0, ""));
}

#[test]
fn a_pipe_in_the_place_of_a_file_costs_one_line() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("pipe");
    mkfifo(&path, Mode::S_IRWXU).expect("a pipe");
    for command in ["linktest show", "report"] {
        let (code, errors) = bounded(command, &path).expect("within the limits");
        assert_eq!((code, errors.lines().count()), (2, 1), "{errors}");
    }
}
