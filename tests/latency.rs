//! Tests `pipebench latency` as a user runs it: fabrics from formulas and from sites' files, stored plans, predictions of all
//! pairs, and one-line errors.

mod alone;

use std::path::Path;
use std::process::Command;

use pipebench::internals::record::Record;
use pipebench::internals::report::json;

const PIPEBENCH: &str = env!("CARGO_BIN_EXE_pipebench");

fn sample(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/samples/fabric")
        .join(name);
    path.to_string_lossy().into_owned()
}

/// Runs `pipebench latency` with `words`; returns exit code, output and errors.
fn latency(folder: &Path, words: &str) -> (Option<i32>, String, String) {
    let output = Command::new(PIPEBENCH)
        .arg("latency")
        .args(words.split_whitespace())
        .current_dir(folder)
        .output()
        .expect("it starts");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (
        output.status.code(),
        text(&output.stdout),
        text(&output.stderr),
    )
}

#[track_caller]
fn well(folder: &Path, words: &str) -> String {
    let (code, said, errors) = latency(folder, words);
    assert_eq!((code, errors.as_str()), (Some(0), ""), "{words}: {said}");
    said
}

#[test]
fn fabrics_are_read_from_what_sites_have() {
    let folder = tempfile::tempdir().expect("a folder");
    let (topology, tables, ports) = (
        sample("topology.txt"),
        sample("lfts.txt"),
        sample("ports.csv"),
    );
    well(
        folder.path(),
        &format!("import --ibnetdiscover {topology} --tables {tables} -o ib.toml"),
    );
    let text = std::fs::read_to_string(folder.path().join("ib.toml")).expect("written");
    assert!(
        text.contains("\"n1\", \"n2\", \"n3\", \"n4\",") && !text.contains("Aggregation"),
        "{text}"
    );
    // Traffic to n4 takes the second spine on its way up, as the tables say.
    assert!(text.contains("\"n4\" = \"leaf1:18-spine2:1\""), "{text}");
    let said = well(folder.path(), "plan ib.toml --redundancy 1");
    assert!(
        said.contains("fabric     from ibnetdiscover: 4 hosts, 4 switches, 8 cables, 6 pairs\n"),
        "{said}"
    );
    assert!(said.contains("exact: "), "{said}");
    well(
        folder.path(),
        &format!("import --ibnetdiscover {topology} --rule symmetric -o rule.toml"),
    );
    well(
        folder.path(),
        &format!("import --table {ports} -o table.toml"),
    );
    let said = well(folder.path(), "plan table.toml --redundancy 1");
    assert!(
        said.contains("4 hosts, 3 switches, 6 cables, 6 pairs"),
        "{said}"
    );
    assert!(said.contains("together   cable-7 + cable-8\n"), "{said}");
    for (file, text, words, expected) in [
        (
            "t.txt",
            "nothing",
            "import --ibnetdiscover t.txt",
            "t.txt: the file has no switches and hosts",
        ),
        (
            "c.csv",
            "host,port\na,1\n",
            "import --table c.csv",
            "c.csv:1: the first line must name the columns host and switch",
        ),
        (
            "c.csv",
            "host,switch\na,s\na,t\nb,t\ns,t\n",
            "import --table c.csv",
            "c.csv:3: a is listed twice",
        ),
        (
            "c.csv",
            "host,switch,cost\na,s,far\n",
            "import --table c.csv",
            "c.csv:2: cost \"far\" is not a number",
        ),
        (
            "l.txt",
            "Unicast lids [0x0-0x8] of switch Lid 1 guid 0xdead (x):\n",
            "",
            "l.txt:1: the table of a switch that the topology does not have",
        ),
        (
            "l.txt",
            "0x0005 001 : (x)\n",
            "",
            "l.txt:1: an entry before any",
        ),
    ] {
        std::fs::write(folder.path().join(file), text).expect("written");
        let whole = format!("import --ibnetdiscover {topology} --tables l.txt");
        let words = if words.is_empty() { &whole } else { words };
        let (code, said, errors) = latency(folder.path(), words);
        assert_eq!((code, said.as_str()), (Some(2), ""), "{words}");
        assert!(
            errors.starts_with(&format!("pipebench: {expected}")),
            "{words}: {errors}"
        );
        assert_eq!(errors.lines().count(), 1, "{errors}");
    }
}

#[test]
fn a_plan_is_kept_and_run_and_every_pair_is_predicted() {
    alone::wait();
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    well(
        at,
        "generate leaf-spine --leaves 2 --spines 1 --hosts-per-switch 3 -o f.toml",
    );
    let said = well(at, "plan f.toml -o plan.toml");
    assert!(said.contains("rank       7 of 8 columns"), "{said}");
    let first = std::fs::read_to_string(at.join("plan.toml")).expect("written");
    well(at, "plan f.toml -o plan.toml");
    assert_eq!(
        std::fs::read_to_string(at.join("plan.toml")).expect("written"),
        first,
        "a seed gives the same plan"
    );
    let dry = well(
        at,
        "run f.toml --plan plan.toml --hosts local:6 --map order --dry-run",
    );
    assert!(dry.contains("12 processes in all"), "{dry}");
    assert_eq!(
        std::fs::read_dir(at).expect("listed").count(),
        2,
        "nothing was started or written"
    );
    let run = |words: &str| -> Record {
        let words = format!("run f.toml {words} --wait sleep --quiet --json run.json");
        let (code, said, errors) = latency(at, &words);
        assert!(matches!(code, Some(0 | 1 | 3)), "{words}: {said}{errors}");
        json::read(&std::fs::read_to_string(at.join("run.json")).expect("kept")).expect("a record")
    };
    let record = run("--plan plan.toml --hosts local:6 --map order");
    let measured = &record.outcome.latency().expect("results of this kind");
    assert!(measured.complete);
    let planned = first.matches("[\"h").count();
    assert_eq!(measured.pairs.len(), planned);
    assert_eq!(measured.pairs.len() + measured.checks.len(), 15);
    assert!(
        measured
            .pairs
            .iter()
            .all(|pair| pair.least_s > 0.0 && pair.least_s <= pair.median_s)
    );
    // With one spine, the latencies of its two cables are known only as a sum.
    assert_eq!(measured.together.len(), 1);
    assert_eq!(
        measured
            .cables
            .iter()
            .filter(|cable| cable.identified)
            .count(),
        6
    );
    // With fewer hosts than the plan has, the run omits the missing hosts' pairs and reports the rest.
    let fewer = run("--plan plan.toml --hosts local:5 --map order");
    assert_eq!(
        fewer
            .outcome
            .latency()
            .expect("results of this kind")
            .absent,
        ["h5"]
    );
    assert!(
        fewer
            .outcome
            .latency()
            .expect("results of this kind")
            .planned
            .left_out
            > 0
    );
    let run_folder = std::fs::read_dir(at)
        .expect("listed")
        .filter_map(Result::ok);
    let mut names: Vec<String> = run_folder
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.retain(|name| name.starts_with("pb-"));
    names.sort();
    let folder_name = names
        .iter()
        .find(|name| {
            let text = std::fs::read_to_string(at.join(name).join("record.json")).expect("kept");
            json::read(&text).expect("a record").token == record.token
        })
        .expect("its folder");
    let table = well(at, &format!("pairs {folder_name} --csv - --matrix all.npy"));
    let lines: Vec<&str> = table.lines().collect();
    assert_eq!((lines[0], lines.len()), ("from,to,round_trip_us", 16));
    let matrix = std::fs::read(at.join("all.npy")).expect("written");
    assert!(matrix.starts_with(b"\x93NUMPY\x01\x00"));
    let head = usize::from(u16::from_le_bytes([matrix[8], matrix[9]])) + 10;
    assert_eq!((head % 64, matrix.len()), (0, head + 4 * 36));
    let value = |row: usize, column: usize| {
        let begin = head + 4 * (row * 6 + column);
        f32::from_le_bytes(matrix[begin..begin + 4].try_into().expect("four bytes"))
    };
    for line in &lines[1..] {
        let words: Vec<&str> = line.split(',').collect();
        let host = |word: &str| word[1..].parse::<usize>().expect("a number");
        let (from, to) = (host(words[0]), host(words[1]));
        let time: f32 = words[2].parse().expect("a number");
        assert!(
            (value(from, to) - time).abs() < 0.001 && value(from, to) == value(to, from),
            "{line}"
        );
    }
    // A pair that the plan measures once is predicted exactly; the others are close.
    for pair in &measured.pairs {
        let predicted = pair.predicted_s.expect("predicted") * 1e6;
        let shown = f64::from(value(pair.from as usize, pair.to as usize));
        assert!((predicted - shown).abs() < 0.01, "{pair:?} {shown}");
    }
}

#[test]
fn what_cannot_be_done_is_one_line() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    well(at, "generate fat-tree --ports 4 --levels 2 -o f.toml");
    well(at, "generate dragonfly --hosts-per-switch 1 -o d.toml");
    well(at, "generate slimfly --hosts-per-switch 1 -o s.toml");
    well(at, "plan f.toml -o plan.toml");
    let plan = std::fs::read_to_string(at.join("plan.toml")).expect("written");
    let write = |name: &str, text: &str| std::fs::write(at.join(name), text).expect("written");
    write("other.toml", &plan.replace("4-port 2-tree", "another"));
    write(
        "twice.toml",
        "version = 1\nfabric = \"4-port 2-tree\"\nstrategy = \"rounds\"\ndirected = false\nrounds = [[[\"h0\", \"h1\"], [\"h1\", \"h2\"]]]\n",
    );
    write(
        "who.toml",
        "version = 1\nfabric = \"4-port 2-tree\"\nstrategy = \"rounds\"\ndirected = false\nrounds = [\n[[\"h0\", \"x\"]]]\n",
    );
    for (words, expected) in [
        (
            "generate torus",
            "invalid value 'torus' for '<KIND>' [possible values: fat-tree,",
        ),
        ("generate fat-tree --ports 5", "--ports 5: an even number"),
        (
            "generate slimfly --prime 7",
            "--prime 7: a prime that leaves 1",
        ),
        (
            "generate fat-tree --rule best",
            "invalid value 'best' for '--rule <RULE>' [possible values: symmetric,",
        ),
        ("plan no.toml", "cannot read no.toml: no such file"),
        (
            "plan f.toml --strategy luck",
            "invalid value 'luck' for '--strategy <NAME>' [possible values: rounds, paper, locate]",
        ),
        (
            "plan f.toml --redundancy 0",
            "--redundancy 0: from 1 to 100",
        ),
        (
            "run f.toml --hosts local:2",
            "host local1 is not in the fabric (--map order",
        ),
        (
            "run f.toml --hosts local:9 --map order",
            "9 hosts are named, but the fabric has 8",
        ),
        (
            "run f.toml --hosts local:4 --map order --plan other.toml",
            "other.toml: the plan is for the fabric \"another\"",
        ),
        (
            "run f.toml --hosts local:4 --map order --plan twice.toml",
            "twice.toml: round 1: h1 and h2 and h0 and h1 share cable h1-s1.0",
        ),
        (
            "run f.toml --hosts local:4 --map order --plan who.toml",
            "who.toml:6: x is not a host of the fabric",
        ),
        (
            "run f.toml --hosts local:4 --map order --pings 0",
            "--pings 0: from 1",
        ),
        (
            "run f.toml --hosts local:4 --map order --wait long",
            "invalid value 'long' for '--wait <HOW>' [possible values: auto, spin, yield, sleep]",
        ),
        (
            "locate f.toml --hosts local:4 --map order",
            "locating slow cables needs an earlier run: give --baseline RUN",
        ),
        ("simulate f.toml --pings 0", "--pings: from 1 to 100000"),
    ] {
        let (code, said, errors) = latency(at, words);
        assert_eq!((code, said.as_str()), (Some(2), ""), "{words}: {errors}");
        assert!(
            errors.starts_with(&format!("pipebench: {expected}")),
            "{words}: {errors}"
        );
        assert_eq!(errors.lines().count(), 1, "{errors}");
    }
    let left = std::fs::read_dir(at)
        .expect("listed")
        .filter_map(Result::ok);
    let left = left.filter(|entry| entry.file_name().to_string_lossy().starts_with("pb-"));
    assert_eq!(left.count(), 0, "no folder of a run that was not begun");
}
